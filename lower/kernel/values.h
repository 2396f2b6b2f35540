// Where tile values live as registers of a thread: names, layouts, elements, scratch memory.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

// ---- text in front of the kernel ----
/// Functions and tables, once per key; a "$" in the text stands for the name that is returned.
std::string support(Lowering& ctx, const std::string& key, const std::string& stem, const std::string& text);

// ---- values ----
std::string scalar_param(Lowering& ctx, int param);            ///< the variable of a scalar parameter
const TileLayout& layout(const Lowering& ctx, ir::ValueId v);  ///< of a tile in registers
bool in_registers(const Lowering& ctx, ir::ValueId v);
bool is_scalar(const Lowering& ctx, ir::ValueId v);                  ///< rank 0: a plain variable
int registers(const Lowering& ctx, ir::ValueId v);                   ///< 1 for scalars, 0 in tensor memory
std::vector<int> all_registers(const Lowering& ctx, ir::ValueId v);  ///< 0, 1, ..
/// Threads that hold tiles; the variable `t` is the number of a thread among them.
int group_threads(const Lowering& ctx);
/// C type of one element (pointers: unsigned long long, see is_bit_addressed).
std::string type_of(Lowering& ctx, ir::ValueId v);
/// Identifier of a value. A tile in shared memory: an `unsigned char*` to the first byte of its SharedLayout (views:
/// the same pointer).
std::string name(Lowering& ctx, ir::ValueId v);
/// Register r of a value, empty for scalars: an element of its array, a scalar, a constant, or what is taken out of a
/// word. Integers of 32 and 64 bits, pointers and conditions have their type.
Ex element_at(Lowering& ctx, ir::ValueId v, Ex r);
/// Its text, as an operand of any operator but for what was made as text.
std::string text_at(Lowering& ctx, ir::ValueId v, Ex r);
std::string zero(Lowering& ctx, ir::ValueId v);  ///< literal of the element with code 0
enum class Declared : uint8_t {
    plainly,
    aligned,  ///< so that vectors reach it
    reduced,  ///< a scalar is the same in all threads, though it is made of registers that differ
};
/// "float v12[8];"; nothing after take_over.
void declare(Lowering& ctx, ir::ValueId v, Declared as = Declared::plainly);
std::string array_type(Lowering& ctx, ir::ValueId v);  ///< of the elements of its array: words and pairs are unsigned
int array_size(const Lowering& ctx, ir::ValueId v);
/// Of how many operands the value is one.
inline int uses(const Lowering& ctx, ir::ValueId v) { return static_cast<int>(ctx.values.uses.count(v)); }
/// Lets `result` live in the registers of `operand` when nothing else uses that one: declare(result) then does nothing.
/// Both have one layout.
bool take_over(Lowering& ctx, ir::ValueId result, ir::ValueId operand);
/// `for` over the registers of v with an explicit unroll pragma; the body gets the index. Scalars: once, the empty
/// index.
void each_register(Lowering& ctx, ir::ValueId v, const std::function<void(Ex r)>& body);
void each(Lowering& ctx, int count, const std::function<void(Ex r)>& body);  ///< 0 .. count - 1

// ---- statements ----
/// Text as an expression of a type that the pool does not compute with.
inline Ex raw(Lowering& ctx, std::string_view text) { return ctx.pool.text(kernel::Type::other, text, false); }
/// A variable of such a type, an array or a pointer.
inline Ex named(Lowering& ctx, std::string_view name) { return ctx.pool.name(kernel::Type::other, name); }
inline Ex element(Ex array, Ex r) { return array->pool->index(kernel::Type::other, array, r); }
/// What lies at an address, as `type`; empty: as the address says.
inline Ex pointee(std::string_view type, Ex address) {
    return address->pool->pointee(kernel::Type::other, type, address);
}
/// What the pragma of a loop of so many iterations says.
inline int unrolled(const Lowering& ctx, int64_t iterations) {
    return iterations <= ctx.values.unroll_limit ? kernel::kUnrollAll : 1;
}
inline Ex element(Lowering& ctx, std::string_view array, Ex r) { return element(named(ctx, array), r); }
/// `const TYPE stem7 = value;`, `TYPE stem7 = value;` and `TYPE stem7[size];` of such types; the variable.
Ex constant(Lowering& ctx, const std::string& type, std::string_view stem, Ex value);
Ex variable(Lowering& ctx, const std::string& type, std::string_view stem, Ex value);
Ex pointer(Lowering& ctx, const std::string& to, std::string_view stem, Ex value);  ///< `TO* const stem7 = value;`
/// How a loop counts: `counter += step`.
inline kernel::Assign counted(Ex counter, int64_t step) {
    return {counter, counter->pool->number(step), kernel::AssignOp::add};
}
Ex array(Lowering& ctx, const std::string& type, std::string_view stem, int64_t size, const std::string& initial = "");
/// PLACE = VALUE;, under the condition if that is not known to hold.
void assign_if(Lowering& ctx, Ex condition, Ex place, Ex value);
/// "for (int name = first; name < end; ++name)", which is not unrolled; the counter.
Ex open_rolled(Lowering& ctx, const std::string& name, Ex first, Ex end);

// ---- layouts ----
/// Name of the struct that describes a layout: registers; at0(r, t), at1(r, t) .. coordinates; inside(r, t); owner(t).
/// t: thread in the group. at<d> = register<d>(r) + thread<d>(t) when is_additive(l, d), so that sums with a hoisted
/// thread part fold.
std::string layout_name(Lowering& ctx, const TileLayout& l);
/// What register `r` decides of a coordinate, what thread t does, and the coordinate.
Ex register_part(const TileLayout& l, int d, Ex r);
Ex thread_part(const TileLayout& l, int d, Ex t);
inline Ex thread_part(Lowering& ctx, const TileLayout& l, int d) { return thread_part(l, d, ctx.thread); }
Ex coordinate(Lowering& ctx, const TileLayout& l, int d, Ex r);
/// Row-major element number of register r in the logical shape, without ghosts.
Ex logical_number(Lowering& ctx, const TileLayout& l, Ex r);
/// Holds for one thread among those with copies of register r, and not for ghosts.
Ex owns(Lowering& ctx, const TileLayout& l, Ex r);
Ex inside(Lowering& ctx, const TileLayout& l, Ex r);  ///< no ghost
/// map[r] as an expression that folds once r is a constant.
Ex rename(Lowering& ctx, const std::vector<int>& map, Ex r);

// ---- scratch and barriers ----
void sync(Lowering& ctx);  ///< all threads of the group meet
/// "((float*)(shared + 1024))" for the instruction's scratch, elements of `type`; checks that `bytes` fit the
/// annotation.
std::string scratch(Lowering& ctx, ir::InstId inst, const std::string& type, int64_t bytes);
/// The place of so many bytes for each of the stages in shared memory, behind all that was taken before.
int64_t take_shared(Lowering& ctx, explain::Buffer::Use use, std::string of, int64_t bytes, int64_t align,
                    int stages = 1);
void converge(Lowering& ctx);  ///< in front of what whole warps execute together

}  // namespace tegula::lower
