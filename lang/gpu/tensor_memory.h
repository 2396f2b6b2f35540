// Tensor memory of sm_100: 128 lanes of 512 columns of 32 bits on every multiprocessor, where tcgen05 adds up products (PTX ISA, "Tensor Memory").
// A program takes its columns when it starts and gives them back when it ends. What passes, proof and emitter agree on about it.
#pragma once
#include "lang/uses.h"

namespace tegula {

/// Columns that a program of the form takes: a power of two from 32 on, 0 when nothing lies there.
int allocated_columns(const GpuForm& form);
inline bool in_tensor_memory(const ir::Function& fn, ir::ValueId v) { return fn.placement(v).kind == Placement::tensor; }

/// Is this convert's result the zero that the one product behind it starts from? Then nothing is stored: the product overwrites what is there.
bool is_skipped_zero(const ir::Function& fn, const ir::Uses& uses, ir::InstId convert);
/// Does the product, with its sum in tensor memory, take such a zero?
bool starts_from_zero(const ir::Function& fn, const ir::Uses& uses, ir::InstId dot);

}  // namespace tegula
