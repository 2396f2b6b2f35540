// Instructions of asm statements on a running thread (ptx.cpp), shared with the tensor-core instructions (tensor_ops.cpp).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/emulate/machine.h"
#include "tests/emulate/ptx_text.h"

namespace tegula::on_cpu {

/// Operands and registers of one statement in one thread.
struct Context {
    CpuOperand* operands;
    int count;
    std::map<std::string, CpuOperand> registers;
    Registers* kept;  ///< those that the thread declared outside of braces
    WgmmaSums* sums;
    CpuOperand& operand(const std::string& name) { return operand(name, Machine::get().number(name)); }
    CpuOperand& operand(const std::string& name, unsigned number);
    uint64_t read(const std::string& name);
    void write(const std::string& name, uint64_t value) { write(operand(name), value); }
    static uint64_t read(const CpuOperand& operand);
    static void write(CpuOperand& operand, uint64_t value);
    unsigned address(const std::string& operand);  ///< "[%0]"
};

/// The 128 bytes of a tensor map as this machine's driver makes them. Dimension 0 is contiguous.
struct MapContents {
    uint32_t magic;
    uint8_t rank, elem_bytes;
    uint16_t swizzle;  ///< bytes
    uint64_t address;
    uint32_t extents[5];
    uint16_t box[5];
    uint64_t strides[5];  ///< bytes; [0] unused
    int32_t type;         ///< TensorMapType of the driver's interface
};
static_assert(sizeof(MapContents) <= 128);
constexpr uint32_t kMapMagic = 0x54677570;

void tensor_copy(const Instruction& in, Context& c);
void mma_sync(const Instruction& in, Context& c);
void wgmma(const Instruction& in, Context& c);
void bulk_copy(const Instruction& in, Context& c);
void ldmatrix(const Instruction& in, Context& c);
void convert_pair(const Instruction& in, Context& c);
void widen(const Instruction& in, Context& c);  ///< 8-bit floats to f16, f16 to f32
void pair_arithmetic(const Instruction& in, Context& c);
void stmatrix(const Instruction& in, Context& c);
void tensor_store(const Instruction& in, Context& c);
void tensor_reduce(const Instruction& in, Context& c);
bool scalar_operation(const Instruction& in, Context& c);  ///< arithmetic of single registers (ptx_scalar.cpp); false: another instruction
void tcgen05(const Instruction& in, Context& c);  ///< tensor memory and its products (tensor_memory.cpp)

}  // namespace tegula::on_cpu
