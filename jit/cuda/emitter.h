// Tile IR with a GpuForm -> CUDA C++ text that a person can read. One member function per structured op, declared from the op table (a forgotten one
// fails to link by name); elementwise ops and conversions are expressions from prelude.h. Tiles are arrays of registers, `v12[r]`, in the
// register order of their layout; scalars are plain variables, equal in all threads of the group. User text appears only as sanitised
// identifiers and in #line directives.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "jit/cuda/prelude.h"
#include "lang/ir.h"
#include "lang/source.h"
#include "lang/target.h"

namespace tegula::cuda {

/// What the launcher passes, in the order of the kernel's parameters.
struct KernelParam {
    enum Kind : uint8_t {
        pointer,     ///< base address of tensor or pointer parameter `param`
        extent,      ///< i64 extent `dim` of tensor `param`
        stride,      ///< i64 stride `dim` of tensor `param`, in elements (whole-byte formats) or bits
        bytes,       ///< i64 storage size of `param`
        scalar,      ///< code of parameter `param`, 8 bytes
        tensor_map,  ///< 128-byte CUtensorMap number `dim`, __grid_constant__
        grid,        ///< u64 grid extent `dim` (the launch is one-dimensional over programs)
        first,       ///< u64 number of the first program of this launch
        workspace,   ///< base of global scratch
        report,      ///< buffer of asserts and prints
    } kind;
    int param = 0, dim = 0;
};
/// A TMA descriptor: tensor parameter, box in elements per dimension, fastest dimension first in `order`.
struct TensorMap {
    int param = 0;
    std::vector<int> order;
    std::vector<uint32_t> box;
    int swizzle = 0;  ///< bytes
    bool operator==(const TensorMap&) const = default;
};
struct KernelText {
    std::string source, entry;
    std::vector<KernelParam> params;
    std::vector<TensorMap> tensor_maps;
    int threads = 128;
    int64_t shared_bytes = 0, workspace_bytes = 0;
    std::vector<std::string> options;   ///< NVRTC flags beyond architecture ("--fmad=false")
    std::vector<std::string> messages;  ///< texts of print and assert by number, with {} holes
};

/// `sources` may be null (no #line). Internal errors only: everything that passed the GPU passes can be emitted.
KernelText emit(const ir::Function& fn, const SourceMap* sources);

class Emitter {
public:
    Emitter(const ir::Function& fn, const SourceMap* sources);
    KernelText run();

private:
    // ---- text (emit_text.cpp) ----
    void line(const std::string& text);             ///< one line at the current depth
    void open(const std::string& head);             ///< "head {"
    void close(const std::string& tail = "}");
    std::string fresh(const std::string& stem);     ///< unused identifier

    // ---- values (emit.cpp) ----
    const TileLayout& layout(ir::ValueId v) const;  ///< of a tile in registers
    bool in_registers(ir::ValueId v) const;
    bool is_scalar(ir::ValueId v) const;            ///< rank 0: a plain variable
    int registers(ir::ValueId v) const;             ///< 1 for scalars
    std::string type_of(ir::ValueId v);             ///< C type of one element
    std::string name(ir::ValueId v);
    std::string at(ir::ValueId v, const std::string& r);  ///< "v12[r]", or the scalar
    void declare(ir::ValueId v);                    ///< "float v12[8];"
    /// `for` over the registers of v with an explicit unroll pragma; the body gets the index text. Scalars: once, index "".
    void each_register(ir::ValueId v, const std::function<void(const std::string& r)>& body);
    /// Name of the struct that describes a layout: registers; at0(r, t), at1(r, t) .. coordinates; inside(r, t); owner(t). t: thread in the group.
    std::string layout_name(const TileLayout& l);
    /// Row-major element number of register r in the *padded* / *logical* shape, as text (i32).
    std::string padded_number(const TileLayout& l, const std::string& r);
    std::string logical_number(const TileLayout& l, const std::string& r);
    /// Text that holds for one thread among those with copies of register r, and not for ghosts ("true" when trivially so).
    std::string owns(const TileLayout& l, const std::string& r);

    // ---- scratch and barriers (emit.cpp) ----
    void sync();                                    ///< all threads of the group meet
    /// "((float*)(shared + 1024))" for the instruction's scratch, elements of `type`; checks that `bytes` fit the annotation.
    std::string scratch(ir::InstId inst, const std::string& type, int64_t bytes);

    // ---- memory (emit_memory.cpp) ----
    /// Element address arithmetic of a tensor parameter at coordinate texts (i64): bit offset text for sub-byte formats, element offset otherwise.
    std::string offset(ir::ValueId tensor, const std::vector<std::string>& coordinates);

    // ---- instructions ----
    void block(ir::BlockId id);
    void instruction(ir::InstId id);
    void elementwise(ir::InstId id);
#define STRUCTURED(op, ...) void cuda_##op(ir::InstId id);
#include "lang/ops.def"

    const ir::Function& fn_;
    const SourceMap* sources_;
    Prelude prelude_;
    KernelText kernel_;
    std::string body_, layouts_;
    int depth_ = 1;
    std::map<std::string, std::string> layout_names_;  ///< text of the layout -> struct name
    std::vector<std::string> names_;
    int counter_ = 0;
    uint32_t line_ = 0;
};

}  // namespace tegula::cuda
