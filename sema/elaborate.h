// The Elaborator: one walk over a body that checks and builds IR (internal to sema). Files: elaborate.cpp (entry points, scopes, kernels),
// statements.cpp (control flow to SSA), expressions.cpp (names, literals, operators, calls), convert.cpp (adaptation and promotion),
// types.cpp (type and layout expressions, traits), access.cpp (indexing, slices, gathers, stores, atomics), index_form.cpp, builtins_*.cpp.
//
// Control flow: `var`s are SSA values held in Locals. A dynamic if or loop carries the Locals assigned inside it. break, continue and
// return under dynamic conditions set a hidden `exit` Local; statements after them are guarded by it (no goto in the IR).
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lang/ptx_text.h"
#include "sema/recorder.h"
#include "sema/sema.h"
#include "sema/signature.h"
#include "sema/value.h"

namespace tegula {
struct Instruction;
}

namespace tegula::sema {

struct Local {
    std::string_view name;
    Value value;
    bool is_var = false;
    Span span;
};
/// Lexical scopes share ownership upward so that lambdas keep theirs alive.
struct Scope {
    std::shared_ptr<Scope> parent;
    const Module* module = nullptr;  ///< set on the outermost scope of a function: where item names are looked up
    std::unordered_map<std::string_view, std::shared_ptr<Local>> names;
    Local* find(std::string_view name) const;
};

/// Evaluated arguments of a call to a builtin, matched to its signature.
struct Call {
    const ast::CallExpr* expr = nullptr;
    Span span;
    std::vector<Value> generics;  ///< explicit <..> arguments
    std::vector<Value> shape;     ///< [..] between generics and (..), e.g. full<f32>[M, N](v)
    bool has_shape = false;
    std::vector<Value> positional;                          ///< matched to named parameters of the signature where it has names
    std::vector<const ast::Expr*> exprs;                    ///< parallel to positional; null where a default was taken
    std::vector<std::pair<std::string_view, Value>> named;  ///< for `...` signatures
    ir::Caching caching;                                    ///< of load and store
    bool given(size_t i) const { return i < exprs.size() && exprs[i] != nullptr; }
};

struct Signature;
struct BuiltinRow;
struct WordKind;
/// facts.cpp: what the signature, `where` and `grid` guarantee, with the generics bound in `scope`.
LaunchFacts launch_facts(const Module& module, const ast::KernelItem& kernel, const std::shared_ptr<Scope>& scope, TypeTable& types,
                         const Limits& limits);
struct Part;

/// Sets a variable for as long as it lives.
template <class T>
struct Restore {
    T& slot;
    T saved;
    Restore(T& s, T now) : slot(s), saved(s) { slot = now; }
    Restore(const Restore&) = delete;
    ~Restore() { slot = saved; }
};

/// `shape` with `a`, and `b` behind it where it is not 0, in place of its last extent.
inline Shape with_last(const Shape& shape, int64_t a, int64_t b = 0) {
    Shape out;
    for (size_t d = 0; d + 1 < shape.rank; ++d) out.push(shape[d]);
    out.push(a);
    if (b != 0) out.push(b);
    return out;
}

class Elaborator {
public:
    Elaborator(TypeTable& types, const Limits& limits, DiagSink& diags) : types_(types), limits_(limits), diags_(diags) {}
    Elaborator(const Elaborator&) = delete;
    /// A lambda that a name of its scope holds owns that scope: such rings end here.
    ~Elaborator() {
        for (const std::weak_ptr<Scope>& closure : closures_)
            for (std::shared_ptr<Scope> s = closure.lock(); s && !s->module; s = s->parent) s->names.clear();
    }

    // ---- elaborate.cpp ----
    std::optional<Instance> kernel(const Module& module, const ast::KernelItem& item, const StaticValues& generics);
    std::optional<HostExpression> expression(const Module& module, const ast::Expr& expr, const HostResolver& resolver);
    std::optional<FormatId> format(const Module& module, const ast::Expr& e, const HostResolver& resolver);
    std::optional<LayoutId> layout(const Module& module, const ast::Expr& e, const HostResolver& resolver);
    /// Elaborates `expr` purely at compile time in `scope`; reports when it is not constant.
    Value constant(const ast::Expr& expr, const std::shared_ptr<Scope>& scope);
    /// The value of a clause in `scope`, computed as a body computes it: numbers have their types, and what is known is folded at once. A tile that
    /// is no constant needs a run, or holds a quotient without a value.
    Value clause(const ast::Expr& expr, const std::shared_ptr<Scope>& scope);
    /// A scalar of that type for clauses.
    Value typed(FormatId elem, uint64_t code, Span span = {});
    /// The code of a scalar that folding has made a constant.
    std::optional<uint64_t> folded_code(const Value& v);
    /// The number that an integer constant or a folded integer is.
    std::optional<__int128> folded_int(const Value& v);
    std::shared_ptr<Scope> module_scope(const Module& module);
    /// Looks a name up: locals, items of the module, imports, builtins, op rows, prelude. Poison (reported) when unknown.
    Value lookup(std::string_view name, Span span);
    /// The array or tuple that a name stands for, where it is, to take one member of; null: it has to be looked up and copied.
    const Value* array_of(const ast::Expr& name);
    /// A copy with a span of its own, paid for with compile-time steps by its members.
    Value copy(const Value& v, Span span);
    /// Would lookup() find the name without the host? (expressions.cpp)
    bool known(std::string_view name);
    /// Host statements only: what the host makes of a free name or of a call whose callee is no language function. nullopt: not the host's.
    std::optional<Value> resolve_host(const ast::Expr& name_or_call);
    /// True (and reported once) when native recursion has gone too deep; every recursive walk (statement, expr, call_*) asks first.
    bool too_deep(Span span);
    /// One unit of compile-time work; false (reported once) when the budget is spent. Static loops and folded operations ask.
    bool step(Span span, uint64_t n = 1);
    /// Value of a module item (const evaluated once, type/layout/struct resolved, fn as function value).
    Value item_value(const Module& module, const ast::Item& item);
    void listen(Recorder* recorder) { recorder_ = recorder; }

    // ---- assumed.cpp ----
    /// Elaborates a function without a call, with what the assumption says of callers.
    void assumed_call(const Module& module, const ast::FnItem& fn, const struct Assumption& a);
    /// A kernel of which some generic parameters have no value: what is made of them has no meaning.
    void assumed_kernel(const Module& module, const ast::KernelItem& item, const StaticValues& generics) {
        assumed_ = true;
        kernel(module, item, generics);
    }

    // ---- instructions.cpp ----
    /// Elements of groups along the last dimension, from tiles of their parts; and the parts. Of scalars: [count].
    ir::ValueId grouped(const std::vector<ir::ValueId>& parts);
    std::vector<ir::ValueId> parts_of(ir::ValueId whole, size_t count, bool scalars);
    /// Tiles that are given for groups become tuples of their parts.
    bool split_groups(const ast::FnItem& fn, std::vector<std::optional<Value>>& given, Span span);
    std::optional<TileLayout> fragment(const ast::FnItem& fn, const ast::Expr* type, const Shape& shape);
    std::optional<std::string> ptx_text(const ast::FnItem& fn, const ast::Attribute& a);
    bool instruction_forms(const ast::FnItem& fn, const std::vector<ir::ValueId>& operands, FormatId result, Instruction& out);
    Span problem_span(const PtxText::Problem& problem, std::string_view text, Span literal) const;
    bool is_pure(size_t first_inst);  ///< are the instructions made since?
    void take_instruction(const ast::Expr& named, ir::Function& kernel);
    /// The result of an instruction whose body, inlined from `first_inst` on, gives `meaning`. The scope is the body's.
    Value as_instruction(const ast::FnItem& fn, const std::vector<Value>& params, const Value& meaning, size_t first_inst, Span span);

    // ---- statements.cpp ----
    void block(const ast::Block& block);
    void statement(const ast::Stmt& stmt);
    /// Inlines a function or lambda. `args` in parameter order.
    Value call_function(const Value& function, std::vector<Value> args, std::vector<std::pair<std::string_view, Value>> named, Span span);
    Value call_lambda(const Value& lambda, std::vector<Value> args, Span span);
    /// A value of a struct type (callee of kind `type`, t.kind structure; generics of an uninstantiated one are deduced from the fields).
    Value construct_struct(const Value& type, std::vector<Value> args, std::vector<std::pair<std::string_view, Value>> named, Span span);
    /// `v` as exactly the declared type: literals adapt, implicit widening, checks of shape and structure; poison (reported) otherwise.
    Value coerce(const Value& v, const TypeDesc& t, Span span);
    /// `v` as the type of `like` (assignment to a var); `name` is for the message.
    std::string assignment_cure(const Value& v, const Value& like);
    Value coerce_like(const Value& v, const Value& like, std::string_view name, Span span);

    // ---- expressions.cpp ----
    Value expr(const ast::Expr& e);
    /// Host statements only: resolve_host() of what starts with a name that nothing here declares; a part x[..] of a plain name is no such thing.
    std::optional<Value> host_value(const ast::Expr& e);
    Value sequence(Value::Kind kind, std::span<const ast::Expr* const> items, Span span);
    Value annotated(const ast::AnnotatedExpr& e);
    Value modified(const ast::AnnotatedExpr& e);  ///< an access with cache(..) or evict(..)
    Value modifier_error(const ast::Expr& e, const std::string& why);
    Value call(const ast::CallExpr& e);
    Value unary(ast::UnaryOp op, const Value& a, Span span);
    Value binary(ast::BinaryOp op, Value a, Value b, Span span);
    /// Applies an elementwise row after promotion and broadcasting of its operands; folds static operands to static values.
    Value apply(ir::Op op, std::vector<Value> args, Span span);
    Value fold(ir::Op op, const std::vector<Value>& args, Span span);  ///< apply on static numbers only (operators.cpp)
    Value shift(ir::Op op, const Value& a, const Value& amount, Span span);
    Value pointer_op(ir::Op op, const std::vector<Value>& args, Span span);
    Value member(const ast::MemberExpr& e);
    Value binary_chain(const ast::BinaryExpr& e);
    std::vector<Value> shape_items(const ast::IndexExpr& e);  ///< f<T>[items]: evaluated extents
    std::string describe_callee(const Value& callee);
    Value fast_version(const Value& callee, Span span);
    Value cast_by_bits(const Call& call, ir::ValueId v, FormatId to, Overflow rule);
    Value dot_in_parts(ir::ValueId a, ir::ValueId b, ir::ValueId acc, Span span);
    ir::ValueId flushed(ir::ValueId v);
    ir::ValueId computed(ir::Op op, std::span<const ir::ValueId> operands);
    ir::Op in_named_mode(ir::Op op, const std::vector<std::pair<std::string_view, Value>>& named, Span span);
    bool fast_math();
    Value call_value(Value callee, const ast::CallExpr& e);  ///< callee already evaluated
    /// Calls a built-in: matches arguments to its signature, then runs its row. `e` is null for forms without (..), zeros<T>[M, N].
    Value call_builtin(const Value& callee, std::vector<Value> shape, bool has_shape, const ast::CallExpr* e, Span span, ir::Caching caching = {});
    bool depends_on_form(Value& v);
    bool match_arguments(Call& call, const Signature& signature, const BuiltinRow& row);
    /// All as tiles of one shape (broadcast together); false after an error.
    bool broadcast_all(std::vector<ir::ValueId>& tiles, Span span);

    // ---- convert.cpp ----
    /// As a tile value of exactly `elem` (broadcast to nothing): literals adapt when exact, narrower same-kind types widen, else an error with a
    /// `cast` suggestion. Invalid id after an error.
    ir::ValueId to_tile(const Value& v, FormatId elem, Span span);
    /// A tile of its own type; literals take defaults (i64, f32, bool).
    ir::ValueId to_tile(const Value& v, Span span);
    ir::ValueId to_index(const Value& v, Span span);  ///< scalar or tile i64
    bool to_bool(const Value& v, Span span, ir::ValueId& out);
    std::optional<int64_t> static_int(const Value& v, Span span, const char* what);  ///< reports when not a constant integer
    std::optional<bool> static_bool(const Value& v, Span span);
    std::optional<Shape> static_shape(const Value& v, Span span);  ///< list or tuple of constant integers >= 1, budgeted
    /// The element format two operands meet in, or nullopt (reported).
    std::optional<FormatId> common_format(const Value& a, const Value& b, Span span);
    /// Offers to convert what stands at each of `spans` to a type: conversions that lose nothing, or others, which the reader judges.
    void offer_cast(Diagnostic& d, std::initializer_list<Span> spans, const std::string& type, bool lossless = false);
    Value tile(ir::ValueId v, Span span);
    Value poison(Span span) {
        Value v;
        v.span = span;
        return v;
    }
    std::string describe(const Value& v);  ///< "tile<f32>[4, 8]", "integer constant 3"
    std::string describe(const TypeDesc& t);
    FormatId elem_of(const Value& v);  ///< element format of a tile, block tile or tensor; 0 otherwise
    Shape shape_of(const Value& v);    ///< of a tile or static value ([])
    /// Leaves as IR values (tiles, block parts, static numbers materialised) and the reverse with the same structure.
    std::vector<ir::ValueId> flatten(Value& v, Span span);
    Value unflatten(const Value& like, const std::vector<ir::ValueId>& leaves, size_t& at);
    std::optional<uint64_t> literal_code(const Value& v, FormatId elem, Span span);  ///< code of a static number in a format; reported when inexact
    static std::optional<uint64_t> held_code(const Value& number, const Format& f);  ///< the same, without a report
    bool fits_budget(const Shape& shape, Span span);                                 ///< at most kMaxTileElements; reported

    // ---- types.cpp ----
    std::optional<TypeDesc> type_desc(const ast::Expr& e);  ///< reports when e is no type
    std::optional<TypeDesc> type_desc(const Value& v, Span span);
    std::optional<FormatId> format_arg(const Call& call, size_t i, std::optional<FormatId> fallback = {});  ///< generic argument as format
    /// tile<T>[..], tensor<T>[..], codebook<N>[..], and `type @ layout`: the type, or nullopt when `e` is not of such a form. expr() asks
    /// this first for IndexExpr and AnnotatedExpr.
    std::optional<Value> type_form(const ast::Expr& e);
    Value join_layouts(const Value& outer, const Value& inner, Span span, Layout (*join)(const Layout&, const Layout&));
    Value compose_layouts(const Value& outer, const Value& inner, Span span);  ///< A . B, compose(A, B)
    Value inverse_layout(const Value& layout, Span span);
    Value instantiate(const ast::InstantiateExpr& e);  ///< name<args>: types, functions, layouts, constructors
    Value layout_expr(const ast::Expr& e);
    Value layout_item(const Module& module, const ast::LayoutItem& item, std::vector<Value> generics, Span span);
    Value named_type(std::string_view name, Span span, bool report);  ///< built-in formats and traits: i7, u1, f16, bool, float, int ..
    bool satisfies(const TypeDesc& type, std::string_view trait);
    /// Binds a fn/kernel generic or extent name inside `scope` by matching a declared type expression with an actual value.
    bool match_param(const ast::Expr& declared, const Value& actual, const std::shared_ptr<Scope>& scope, Span span);

    // ---- access.cpp ----
    /// `modified`: the expression with the modifiers of the access, or null.
    Value index(const ast::IndexExpr& e, const ast::Expr* otherwise, const ast::Expr* modified = nullptr);
    Value no_part(Span span) { return error(Diag::cannot_index, span, "a value before `else` that is no part x[..]"); }
    Value member_at(const ast::IndexExpr& e, const Value& array);                          ///< array[e]
    void store(const ast::Expr& target, const Value& value, ast::AssignOp op, Span span);  ///< x[..], perhaps with modifiers
    Value atomic(ir::AtomicKind kind, const Call& call);
    bool resolve_part(const ast::IndexExpr& e, const Value& base, Part& part);  ///< evaluates the indices of x[..]; see part.h
    bool resolve_slice(const ast::IndexItem& item, size_t d, Part& part);
    bool resolve_index(const ast::IndexItem& item, size_t d, Part& part, std::optional<Shape>& joint);
    bool finish_part(Part& part, std::vector<int64_t> dims, const std::optional<Shape>& joint, size_t joint_at, size_t joint_ir_at);
    int64_t known_extent(const Value& base, size_t axis);  ///< of a tile or tensor; kDynamic when only known at launch
    Value constant_indices(const Value& list, Span span);
    Value read_part(const Part& part, const Value* other);
    Value read_object(const Part& part, ir::Op op, ir::ValueId object, const Value* other);
    /// Makes an access read 0 out of range also where code 0, the IR's default, is another number: in lns and in some codebooks.
    void fill_with_zero(TypeId type, std::vector<ir::ValueId>& operands, int64_t& flags);
    ir::ValueId fit_part(const Part& part, const Value& v, FormatId elem, bool pointer, Span span);
    ir::ValueId write_object(const Part& part, ir::ValueId object, const Value& value, Span span);
    Value mode_error(const char* verb, const Tensor& t, Span span);

    // ---- access_block.cpp: tensors of block formats ----
    Value read_blocks(const Part& part, const Value* other);
    void write_blocks(const Part& part, const Value& value, Span span);
    bool scale_part(const Part& part, Part& scales);  ///< the scales that belong to a part of elements
    ir::ValueId tensor_scale_access(const Tensor& t, ir::ValueId value, Span span);

    // ---- choices.cpp ----
    /// What `e` says where a word of that kind is wanted: a word of it, unless something local hides the name, or what has such a word for its value.
    Value word(const ast::Expr& e, const WordKind& kind);
    Value as_word(const Value& v, const WordKind& kind, Span span);
    Value generic_value(const ast::GenericParam& p, const ast::Expr& e, const std::shared_ptr<Scope>& scope);
    std::optional<Value> same_choice(const Value& a, const Value& b, Span span);
    bool same_generics(const Value& a, const Value& b);
    Value named_function(std::string_view path, Span span);
    Value chosen(const Choice& c, const std::shared_ptr<Scope>& in, Span span);
    Value value_of(const StaticValue& v, const std::shared_ptr<Scope>& in, Span span);
    std::optional<Choice> choice_of(const Value& v);
    std::optional<Choice> choice(const Module& module, const ast::Expr& e, std::string_view bound, const HostResolver& resolver);

    // ---- modifiers.cpp ----
    ir::Caching caching_of(const ast::Expr& e);  ///< what the modifiers of `e` ask for; those that are wrong ask for nothing

    // ---- index_form.cpp ----
    Value index_form(const ast::IndexFormExpr& e);
    ir::ValueId aligned(ir::ValueId v, int rank, const Shape& extents, Span span);
    ir::ValueId stretched(ir::ValueId v, const Shape& extents, Span span);
    Value form_tile(const ast::IndexFormExpr& e, const Shape& extents, int rank);
    Value form_reduction(const ast::IndexFormExpr& e, const Shape& extents, int rank);
    Value reduce_form(const ast::IndexFormExpr& e, ir::ReduceKind kind, const Value& body, const Shape& extents, int rank);
    Value form_product(const ast::IndexFormExpr& e, const Value& a, const Value& b, const Shape& extents, int rank);

    // ---- builtins_*.cpp: one per row of builtins.def ----
#define BUILTIN(name, signature, doc) Value call_##name(const Call& call);
#include "sema/builtins.def"

    // ---- builtins.cpp: what built-in functions ask of their arguments; nullopt, poison or an invalid id after a report ----
    Span arg_span(const Call& call, size_t i);
    bool has(const Call& call, size_t i);  ///< given, and not `none`
    ir::ValueId arg_tile(const Call& call, size_t i);
    std::optional<int> normal_axis(const Value& v, int rank, Span span);  ///< in [0, rank); negative ones count from the end
    std::optional<int> arg_axis(const Call& call, size_t i, int rank, int fallback);
    std::optional<int> arg_option(const Call& call, size_t i, const char* what, std::initializer_list<const char*> names, int fallback);
    std::optional<bool> arg_flag(const Call& call, size_t i, bool fallback);
    /// The named argument `wanted` of a `...` signature; poison when a name outside `allowed` is used.
    std::optional<Value> named_arg(const Call& call, std::initializer_list<std::string_view> allowed, std::string_view wanted);
    ir::ValueId arg_pointer(const Call& call, size_t i);
    ir::ValueId pointers_at(ir::ValueId addresses, FormatId elem);
    std::optional<Value> cast_pointers(const Call& call);
    ir::ValueId arg_mask(const Call& call, size_t i);
    Value grid_query(const Call& call, ir::Op op);
    Value tuple(std::vector<Value> items, Span span);
    Value constant_int(__int128 i, Span span);
    Value constant_bool(bool b, Span span);
    Value unit(Span span);

    // ---- builtins_block.cpp ----
    /// The values of a block tile as elements of `to` (f32 is exact for elements of up to 16 bits with the usual scales), one rounding per product.
    /// Text of a printed value, as host statements print it, with a hole for each of `values`.
    bool printed(Value v, Span span, std::string_view hole, std::vector<ir::ValueId>& values, std::string& text);
    Value decode_blocks(const Value& v, FormatId to, Span span);
    /// `x` (a tile) in block format `to`, blocks along the last axis.
    Value quantise_blocks(const Value& x, FormatId to, Span span);
    ir::ValueId scale_exponent(ir::ValueId amax, const Format& block, const Format& elem);
    ir::ValueId short_scale(ir::ValueId v);
    ir::ValueId fraction_scales(Value& out, ir::ValueId amax, const Format& block);
    ir::ValueId block_codes(ir::ValueId x, ir::ValueId divisor, ir::ValueId finite, const Format& block);
    const Value* arg_blocks(const Call& call, size_t i);
    int block_axis(const Value& v) { return v.block_axis >= 0 ? v.block_axis : shape_of(v).rank - 1; }
    ir::ValueId splat(ir::ValueId like, double value);
    ir::ValueId repeat_axis(ir::ValueId v, size_t axis, int64_t times);
    ir::ValueId resize_last(ir::ValueId v, int64_t extent);

    Value converted(const Call& call);
    // ---- access_else.cpp ----
    ir::ValueId inside(const Part& part);
    Value read_converted(const Part& part, const Value& other);
    Value with_outside(Value converted, ir::ValueId read, Span span);

    // ---- builtins_bits.cpp ----
    FormatId code_format(unsigned bits) { return types_.intern(int_format(bits, false)); }
    ir::ValueId split_codes(ir::ValueId codes, unsigned bits);
    ir::ValueId joined_codes(ir::ValueId codes, unsigned bits);
    /// The bits of a tile along its last axis as elements of `to`; the widths divide.
    ir::ValueId regrouped(ir::ValueId v, FormatId to);
    Value regrouped_call(const Call& call, FormatId to, const char* name);
    /// The parameter of the function that is the memory of the tensor with this handle as elements of `to`.
    ir::ValueId view_param(const Tensor& tensor, FormatId to);
    Value view_extent(const Value& extent, int64_t times, int64_t by, Span span);
    void settle_views();

    // ---- builtins_create.cpp, builtins_shape.cpp, builtins_place.cpp ----
    std::optional<Shape> call_shape(const Call& call);  ///< the extents between [ and ]
    Value filled(const Call& call, const Value& value);
    bool literal_shape(const Value& v, Shape& shape, Span span);
    bool collect_codes(const Value& v, const Shape& shape, size_t d, FormatId elem, std::vector<int64_t>& codes, Span span);
    bool collect_scalars(const Value& v, const Shape& shape, size_t d, FormatId elem, std::vector<ir::ValueId>& scalars, Span span);
    Value tile_of_computed(const Value& entries, const Shape& shape, FormatId elem, Span span);
    Value shape_error(const Call& call, const std::string& why);
    ir::ValueId slice_tile(ir::ValueId v, const Shape& start, const Shape& to, const Shape& step);
    ir::ValueId slice_axis(ir::ValueId v, size_t axis, int64_t at, int64_t extent, int64_t stride);
    Value permuted(const Value& x, const std::vector<int64_t>& axes, Span span);
    std::vector<ir::ValueId> joined_operands(const Call& call);
    Value concat(const Call& call, const std::vector<ir::ValueId>& tiles, size_t axis);
    std::optional<std::vector<int64_t>> arg_numbers(const Call& call, size_t i, size_t count, int64_t fallback, const char* what);
    const Layout* arg_layout(const Call& call, size_t i, const Shape& shape);
    std::optional<Shape> packed_shape(const Call& call, const Layout& layout, const Shape& shape);
    ir::ValueId pick(ir::ValueId flat, const std::vector<int64_t>& positions);

    // ---- builtins_reduce.cpp, builtins_lambda.cpp, builtins_product.cpp ----
    FormatId accumulator(FormatId elem);  ///< where sums of `elem` accumulate
    std::optional<int> reduced_axis(const Value* axis, int rank, Span span);
    std::optional<FormatId> number_type(const Value& dtype);
    std::optional<FormatId> accumulation(const Call& call, ir::ValueId& v, const Value* dtype);
    Value widened_reduction(const Call& call, ir::ReduceKind kind);
    Value extremum(const Call& call, ir::ReduceKind kind, ir::Op op);
    Value truth(const Call& call, ir::ReduceKind kind);
    ir::ValueId arg_ordered(const Call& call, const char* name);
    Value arg_extremum(const Call& call, ir::ReduceKind kind);
    std::pair<ir::ValueId, ir::ValueId> sorted(const Call& call, size_t axis_at, std::optional<bool> descending, const char* name, int& axis);
    Value running(const Call& call, ir::ReduceKind kind);
    Value call_with(const Value& f, std::vector<Value> args, Span span);
    std::vector<ir::ValueId> combined_operands(const Call& call, size_t dtype);
    ir::BlockId combine_block(const Call& call, const Value& f, const std::vector<ir::ValueId>& tiles, const char* name);
    Value region_results(ir::InstId inst, size_t n, Span span);
    Value each_element(const char* name, std::vector<Value> args, const std::function<Value(std::vector<Value>)>& f, Span span);
    void mapped_tiles(Value& v, std::vector<Value*>& out);
    bool mapped_results(Value& result, std::vector<ir::ValueId>& leaves, Span span);
    std::optional<FormatId> product_accumulator(FormatId a, FormatId b, const char* name, Span span, Span at_a, Span at_b);
    ir::ValueId plain_operand(const Value& v, Span span);
    std::optional<Shape> product_shape(const Value& a, const Value& b, Span span);
    ir::ValueId arg_accumulator(const Call& call, size_t i, FormatId elem, const Shape& shape);
    bool scales_along_k(const Value& a, const Value& b);
    Value scaled_product(const Call& call, const Value& a, const Value& b, size_t acc_at);

    // ---- builtins_cast.cpp ----
    std::optional<FormatId> meet(const Value& a, const Value& b, Span span);
    Value static_code(FormatId elem, uint64_t code, Span span);
    Value extreme_value(const Call& call, bool largest);

    // ---- recorder.cpp ----
    NameFact fact_of(const Value& v);
    /// Tells the recorder what the name at `at` is.
    void record(Span at, const Value& v);
    void record_field(const Value& structure, const ast::Name& member);
    void record_generics(const ast::FnItem& fn, const Scope& scope, Span callee_end);

    template <class... Args>
    Value error(Diag id, Span span, Args... args) {
        note_hidden(diags_.report(id, span, {std::string(args)...}));
        return poison(span);
    }
    /// In purely static evaluation a scratch function takes what is built; its values are refused where a constant is needed.
    ir::Builder& ir();
    ir::Function& scratch();
    void fold_scalars();  ///< from now on what is elaborated is a clause
    TypeTable& types() { return types_; }
    DiagSink& diags() { return diags_; }
    bool building() const { return builder_ != nullptr; }           ///< false in purely static evaluation
    bool folding() const { return builder_ && builder_->folds(); }  ///< of clauses: every branch and loop is taken at once

private:
    friend class StaticMode;
    /// A use of a local name: when an error begins there, it may be that the type or function of that name was meant, which it hides.
    struct Use {
        std::string_view name;
        Span at, declared;
    };
    std::array<Use, 32> uses_;              ///< the last ones
    std::vector<const ast::Expr*> around_;  ///< members, calls and accesses that are being evaluated, outermost first
    struct Around {
        Around(std::vector<const ast::Expr*>& list, const ast::Expr& e) : list(list) { list.push_back(&e); }
        ~Around() { list.pop_back(); }
        Around(const Around&) = delete;
        std::vector<const ast::Expr*>& list;
    };
    const Module* module_here() const;  ///< that the names of the innermost scope are looked up in; may be null
    size_t next_use_ = 0;
    void note_use(std::string_view name, Span at, Span declared) { uses_[next_use_++ % uses_.size()] = {name, at, declared}; }
    void note_hidden(Diagnostic& d);
    std::string_view hidden_kind(std::string_view name);
    const Recovery* recovery() const;  ///< of the module whose text is elaborated; null: it has none

    friend class Binder;
    // elaborate.cpp, kernel_params.cpp
    bool bind_generics(const ast::KernelItem& item, const StaticValues& generics, const std::shared_ptr<Scope>& scope);
    bool kernel_param(const ast::Param& p, const std::vector<std::string_view>& dynamic, KernelParam& out, Value& v);
    bool tensor_param(const ast::Param& p, const ast::IndexExpr& form, const std::vector<std::string_view>& dynamic, KernelParam& out, Value& v);
    bool block_axis_of(const ast::Param& p, const KernelParam& out, int& axis);
    ir::ValueId add_param(const std::string& name, ir::Param::Kind kind, TypeId type);
    void tensor_extents(const ast::IndexExpr& form, const KernelParam& param, Tensor& tensor);
    void kernel_clauses(const ast::KernelItem& item);
    void check_meetings();
    std::vector<ir::Hint> hints(std::span<const ast::Attribute> attributes, bool kernel);
    Value item_value_uncached(const Module& module, const ast::Item& item);
    void enter_host(const Module& module, const HostResolver& resolver);
    ir::ValueId host_param(const TileData* data);
    Value host_value(const HostOperand& operand, Span span);
    bool host_result(Value& v, Span span, HostOperand& out, std::vector<ir::ValueId>& leaves);
    Value unknown(std::string_view name, Span span);
    /// Words that errors have made unreadable in the item have no meaning in it, whatever else has that name.
    void enter_lost(const Module& module, const ast::Item& item);
    // assumed.cpp
    Value assumed_format(std::string_view trait, const Assumption& a, Span span);
    Value assumed_element(FormatId elem, const Shape& shape, Span span);
    Value assumed_value(const TypeDesc& t, const Assumption& a, Span span);
    Value assumed_param(const ast::Param& p, const std::vector<std::string_view>& dynamic, const Assumption& a);
    // statements.cpp
    void declare(std::string_view name, Value v, bool is_var, Span span);
    void declare_targets(const ast::AssignStmt& s, Value v, bool is_var);
    void bind_pattern(const ast::Pattern& pattern, const Value& v, bool is_var);
    void let(const ast::LetStmt& s);
    void assign(const ast::AssignStmt& s);
    void assign_place(const ast::Expr& target, const Value& value, ast::AssignOp op, Span span);
    void return_statement(const ast::ReturnStmt& s);
    void statements(std::span<const ast::Stmt* const> stmts);
    Value materialise(const Value& v, Span span, bool& ok);  ///< run-time form of a var's first value
    // control.cpp
    using Locals = std::vector<std::shared_ptr<Local>>;
    struct Effects {
        std::vector<std::string_view> names;
        bool breaks = false, continues = false, returns = false;
    };
    struct Carried;
    void collect(const ast::Stmt& s, Effects& out, bool in_loop);
    void collect(std::span<const ast::Stmt* const> stmts, Effects& out, bool in_loop);
    Locals carried_by(const Effects& effects);
    void if_statement(const ast::IfStmt& s);
    void lost_branch(const ast::IfStmt& s);
    void branch(ir::ValueId condition, const Effects& effects, const std::function<void()>& then, const std::function<void()>& otherwise, Span span);
    void merge_result(struct Frame& frame, const Value* before, const Value* then, const Value* otherwise, ir::BlockId a, ir::BlockId b,
                      std::vector<ir::ValueId>& va, std::vector<ir::ValueId>& vb, Span span);
    Locals live_flags();
    Value unflatten_numbers(const Value& like, const std::vector<ir::ValueId>& leaves);
    bool guard(const Effects& effects, const std::function<void()>& rest, Span span);
    // loops.cpp
    void for_statement(const ast::ForStmt& s);
    void lost_loop(const ast::ForStmt& s);
    void for_range(const ast::ForStmt& s, const ast::RangeExpr& range);
    void for_items(const ast::ForStmt& s, const std::vector<Value>& items);
    void for_static_range(const ast::ForStmt& s, const Value& lo, const Value& hi, const Value& step);
    ir::ValueId backward_passes(const Value& lo_value, const Value& hi_value, ir::ValueId lo, ir::ValueId hi, uint64_t by);
    void for_dynamic(const ast::ForStmt& s, const Value& lo, const Value& hi, const Value& step);
    void iteration(const ast::ForStmt& s, const Value& item);
    void while_statement(const ast::WhileStmt& s);
    void while_region(Effects effects, struct Frame& frame, std::span<const ast::Attribute> attributes, ir::ValueId counter,
                      const std::function<ir::ValueId(ir::ValueId)>& condition, const std::function<ir::ValueId(ir::ValueId)>& body, Span span);
    void unroll(const ast::ForStmt& s, const std::function<bool(Value&)>& next);
    void enter_loop(Carried& c, Span span);
    void set_carried(const Carried& c, const std::vector<ir::ValueId>& leaves);
    std::vector<ir::ValueId> add_args(ir::BlockId block, const std::vector<TypeId>& types);
    std::vector<ir::ValueId> loop_end(const Carried& c, Span span);
    int64_t loop_hint(std::span<const ast::Attribute> attributes);
    ir::ValueId guarded_condition(const Locals& exits, const std::function<ir::ValueId()>& test, Span span);
    // functions.cpp
    using Generics = std::span<const ast::GenericParam>;
    bool deduce(std::string_view owner, Generics params, const std::vector<std::pair<const ast::Expr*, const Value*>>& pairs,
                const std::shared_ptr<Scope>& scope, Span span);
    Value run_body(const ast::FnItem& fn, Span span);
    // coerce.cpp
    Value mismatch(const std::string& expected, const Value& v, Span span);
    Value fit_literal(Value v, FormatId elem, Span span);
    Value coerce_element(const Value& v, FormatId elem, Span span);
    Value coerce_trait(const Value& v, std::string_view trait, Span span);
    bool match_element(const ast::Expr& declared, FormatId elem, const std::shared_ptr<Scope>& scope, Span span);
    std::string describe_plain(const Value& v);  ///< "64", "f32": a generic argument in a message
    // types.cpp, formats.cpp, layouts.cpp
    bool check_generic(const ast::GenericParam& p, Value& v, Span span);
    std::shared_ptr<Scope> generic_scope(std::string_view owner, Generics params, const std::vector<Value>& values, const Module& module, Span span);
    std::optional<std::vector<Value>> generic_values(std::string_view owner, Generics params, std::span<const ast::Arg> args, Span span);
    Value instantiate_item(const Module& module, const ast::Item& item, const std::vector<Value>& values, Span span);
    Value struct_type(const Module& module, const ast::StructItem& item, const std::vector<Value>& values, Span span);
    Value type_constructor(std::string_view name, const ast::InstantiateExpr& e);
    std::optional<std::vector<int64_t>> field_widths(std::string_view name, const ast::InstantiateExpr& e, size_t count,
                                                     std::initializer_list<std::string_view> options);
    Value minifloat(const ast::InstantiateExpr& e);
    Value fixed_point(std::string_view name, const ast::InstantiateExpr& e);
    Value block_type(const ast::InstantiateExpr& e);
    Value codebook(const ast::InstantiateExpr& e, const ast::IndexExpr* values);
    Value format_type(Format f, Span span);
    Value type_value(TypeDesc t, Span span);
    std::optional<LayoutId> tensor_layout(const ast::Expr& layout, FormatId elem, int rank, const ast::IndexExpr& form);
    Value strides_of_extents(const ast::CallExpr& e);
    void check_tile_annotation(const ast::Expr& layout, const ast::AnnotatedExpr* value = nullptr);
    Value layout_result(const Layout& layout, Span span);
    Value layout_call(const ast::CallExpr& e);
    Value layout_expr_base(const ast::MemberExpr& m);
    std::optional<LayoutExpr> index_leaf(const ast::Expr& e, const std::vector<std::string_view>& indices,
                                         const std::vector<std::string_view>& extents);
    std::optional<LayoutExpr> index_expression(const ast::Expr& e, const std::vector<std::string_view>& indices,
                                               const std::vector<std::string_view>& extents);
    bool match_shape(const ast::IndexExpr& declared, size_t rank, const std::function<Value(size_t)>& actual, const std::shared_ptr<Scope>& scope,
                     Span span);
    bool bind_name(std::string_view name, const Value& v, const std::shared_ptr<Scope>& scope, Span span);
    bool same_value(const Value& a, const Value& b);
    bool is_static(const Value& v, bool allow_functions = true);

    std::unique_ptr<ir::Function> scratch_;  ///< what purely static evaluation builds and drops
    std::unique_ptr<ir::Builder> scratch_builder_;
    std::vector<std::string_view> form_extents_;  ///< dimensions that are just names, of the tensor whose layout is elaborated
    bool assumed_ = false;                       ///< a body without a call (assumed.cpp)
    std::unordered_set<std::string_view> lost_;  ///< names without meaning in the item that is elaborated
    const Scope* host_root_ = nullptr;           ///< outermost scope of a host expression: names there may be the host's
    std::unordered_map<const TileData*, ir::ValueId> host_tiles_;
    std::unordered_map<const ast::StructItem*, std::shared_ptr<const ast::StructItem>> host_structs_;  ///< of the host's values, with their owners
    std::deque<std::string> texts_;  ///< texts that the host gave
    const char* stack_base_ = nullptr;
    size_t stack_budget_ = 0;
    bool aborted_ = false;  ///< a budget is spent: nothing more is elaborated
    unsigned guards_ = 0;   ///< nested early exits
    TypeTable& types_;
    const Limits& limits_;
    DiagSink& diags_;
    std::unique_ptr<ir::Builder> builder_;
    std::shared_ptr<Scope> scope_;
    std::vector<std::weak_ptr<Scope>> closures_;  ///< of lambdas
    const HostResolver* resolver_ = nullptr;
    HostExpression* host_ = nullptr;
    Instance* instance_ = nullptr;
    Recorder* recorder_ = nullptr;  ///< of the module whose text is elaborated
    Span callee_end_;               ///< of the call that comes next: the recorder hears there what it deduces
    uint64_t steps_ = 0;
    struct Outside {  ///< what is known of a part's elements outside of its tensor
        ir::ValueId inside;
        Value other;
    };
    std::map<uint32_t, Outside> outside_;        ///< by the part that was read, until the cast that converts it
    const ast::Expr* converted_else_ = nullptr;  ///< the `v` of `cast<T>(x[..] else v)` while its first argument is evaluated
    int form_rank_ = 0;                          ///< indices of the index forms around the current expression
    std::vector<ir::ValueId> form_indices_;  ///< the indices themselves
    unsigned depth_ = 0;                     ///< nesting of inlined calls
    std::vector<struct Frame*> frames_;      ///< function and loop frames, statements.cpp
    std::unordered_map<const ast::Item*, Value> item_cache_;
    std::vector<const ast::Item*> evaluating_;  ///< cycle check
};

/// Has the function PTX, so that it is an instruction?
bool is_instruction(const ast::FnItem& fn);
/// Does the instruction work on elements and groups of them?
bool is_elementwise(const ast::FnItem& fn);
/// A type in the signature of a function, of an instruction without the layout of fragments.
const ast::Expr& plain_type(const ast::FnItem& fn, const ast::Expr& type);
/// Does every value of `from` exist in `to` (the implicit conversions)?
bool widens(const Format& from, const Format& to);
Exact exact_real(const Value& v);  ///< of a real constant
std::string real_text(double v);   ///< shortest decimal that reads back the same
/// Is `parameter` of a built-in operation an option, whose argument is a plain name (round = rtz) that is not looked up?
bool is_option(std::string_view parameter);
bool is_callable(const Value& v);

struct BuiltinRow {
    const char* name;
    const char* signature;
    const char* doc;
    Value (Elaborator::*call)(const Call&);
};
std::span<const BuiltinRow> builtin_rows();
const BuiltinRow* find_builtin(std::string_view name);  ///< null: no built-in function has this name

}  // namespace tegula::sema
