// What passes ask of a function: walks in program order, lists of uses, and which operand of an access is which.
#include <gtest/gtest.h>

#include "lang/access_operands.h"
#include "lang/ir_text.h"
#include "lang/uses.h"
#include "lower/lower.h"

using namespace tegula;
using ir::Access;
using ir::AccessOperands;
using ir::InstId;
using ir::Op;
using ir::ValueId;

namespace {

struct Parsed {
    TypeTable types;
    std::unique_ptr<ir::Function> fn;

    explicit Parsed(const std::string& body) {
        SourceMap sources;
        DiagSink diags;
        const std::string text =
            "kernel @k(%x: tensor<f32>[?, 4, ?] in, %y: tensor<f32>[?, 4, ?] inout, %z: tensor<i32>[?, 8] inout, %p: ptr<i32>, %a: f32, %n: i64) "
            "{\n" +
            body + "  ret\n}\n";
        fn = ir::parse_ir(sources, sources.add("test.ir", text), types, diags);
        for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, sources, false);
    }
    /// The `nth` instruction with that op, in program order.
    InstId find(Op op, int nth = 0) const {
        InstId found;
        fn->walk([&](InstId id) {
            if (fn->inst(id).op == op && nth-- == 0) found = id;
        });
        EXPECT_TRUE(found.valid());
        return found;
    }
    AccessOperands access(Op op, int nth = 0) const { return AccessOperands(*fn, fn->inst(find(op, nth))); }
    ValueId result(Op op, int nth = 0) const { return fn->result(find(op, nth)); }
    ValueId param(std::string_view name) const {
        for (const ir::Param& p : fn->params)
            if (p.name == name) return p.value;
        return {};
    }
};

const char* const kNested = R"(  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = for_loop %0, %n, %1, %a : f32 (%3: i64, %4: f32) {
    %5 = lt %3, %n : bool
    %6 = if_else %5 : f32 {
      %7 = add %4, %4 : f32
      yield %7
    } {
      %8 = fma %4, %a, %4 : f32
      yield %8
    }
    yield %6
  }
  %9 = neg %2 : f32
)";

}  // namespace

TEST(Walk, IsInProgramOrder) {
    const Parsed p(kNested);
    std::vector<Op> seen, inner;
    p.fn->walk([&](InstId id) { seen.push_back(p.fn->inst(id).op); });
    const std::vector<Op> wanted = {Op::constant, Op::constant, Op::for_loop, Op::lt,    Op::if_else, Op::add,
                                    Op::yield,    Op::fma,      Op::yield,    Op::yield, Op::neg,     Op::ret};
    EXPECT_EQ(seen, wanted);
    p.fn->walk(p.fn->blocks(p.fn->inst(p.find(Op::if_else)))[1], [&](InstId id) { inner.push_back(p.fn->inst(id).op); });
    EXPECT_EQ(inner, (std::vector<Op>{Op::fma, Op::yield}));
}

TEST(Walk, VisitorsMayMakeInstructions) {
    const Parsed p(kNested);
    size_t visits = 0;
    p.fn->walk([&](InstId id) {
        ++visits;
        const TypeId type = p.fn->types().tile(Fmt::i64);
        const int64_t code = id.v;
        for (int n = 0; n < 100; ++n) p.fn->make(Op::constant, {}, {&type, 1}, {&code, 1});  // in no block, while all pools grow
    });
    EXPECT_EQ(visits, 12u);
}

TEST(Uses, StandInProgramOrder) {
    const Parsed p(kNested);
    const ir::Uses uses(*p.fn);
    const ValueId carried = p.fn->block(p.fn->blocks(p.fn->inst(p.find(Op::for_loop)))[0]).args[1];
    const std::vector<ir::Use> wanted = {{p.find(Op::add), 0}, {p.find(Op::add), 1}, {p.find(Op::fma), 0}, {p.find(Op::fma), 2}};
    const auto found = uses.of(carried);
    EXPECT_EQ(std::vector<ir::Use>(found.begin(), found.end()), wanted);
    EXPECT_FALSE(uses.only_user(carried).valid());
    EXPECT_EQ(uses.only_user(p.result(Op::fma)), p.find(Op::yield, 1));
    EXPECT_EQ(uses.only_user(p.result(Op::for_loop)), p.find(Op::neg));
    EXPECT_EQ(uses.count(p.param("a")), 2u);
    EXPECT_EQ(uses.count(p.param("n")), 2u);
    EXPECT_EQ(uses.count(p.param("x")), 0u);
    EXPECT_EQ(uses.count(p.result(Op::neg)), 0u);
    EXPECT_FALSE(uses.only_user(p.result(Op::neg)).valid());
}

/// Instructions that are in no block any more use nothing, and values that were made behind the lists have none.
TEST(Uses, AreThoseOfTheBlocks) {
    const Parsed p(kNested);
    std::vector<bool> dead(p.fn->inst_count());
    dead[p.find(Op::neg).v] = true;
    const ValueId result = p.result(Op::for_loop), added = p.result(Op::add);
    const ir::Uses before(*p.fn);
    EXPECT_EQ(before.count(result), 1u);
    p.fn->remove_if(dead);
    EXPECT_EQ(ir::Uses(*p.fn).count(result), 0u);
    ir::Builder b(*p.fn, p.fn->body);
    const ValueId made = b.constant(p.fn->types().tile(Fmt::f32), 0);
    EXPECT_TRUE(before.of(made).empty());
    EXPECT_TRUE(before.of(ValueId{}).empty());
    EXPECT_EQ(before.count(added), 1u);

    ir::Function empty(p.fn->types());
    empty.body = empty.add_block();
    const ValueId arg = empty.add_arg(empty.body, empty.types().tile(Fmt::f32));
    EXPECT_EQ(ir::Uses(empty).count(arg), 0u);
}

/// Folding opens the branch that is taken: what the other one used, it uses no longer.
TEST(Uses, ForgetBlocksThatAreLeftOut) {
    const Parsed p(R"(  %0 = constant true : bool
  %1 = load %x[%n, %n, %n] : f32
  %2 = if_else %0 : f32 {
    yield %a
  } {
    %3 = neg %1 : f32
    yield %3
  }
  store %y[%n, %n, %n] = %2
)");
    const InstId branch = p.find(Op::if_else), left = p.find(Op::neg);
    EXPECT_TRUE(fold(*p.fn));
    EXPECT_FALSE(p.fn->inst(branch).parent.valid());
    p.fn->walk([&](InstId id) { EXPECT_FALSE(id == branch || id == left); });
    const ir::Uses uses(*p.fn);
    EXPECT_EQ(uses.count(p.result(Op::load)), 0u);
    EXPECT_EQ(uses.count(p.param("a")), 1u);
}

TEST(AccessOperands, OfTensors) {
    const Parsed p(R"(  %0 = iota {axis = 0} : tile<i64>[3]
  %1 = constant true : tile<bool>[3, 4]
  %2 = constant 1 : tile<f32>[3, 4]
  %3 = load %x[gather %0, :, %n] else %2 mask %1 : tile<f32>[3, 4]
  %4 = load %x[%n, :, %n +: 5 step -2] : tile<f32>[4, 5]
  store %y[gather %0, :, %n] = %3 mask %1
  %5 = load %z[%n, %n] : i32
  %6 = atomic %z[%n, %n] = %5 {kind = add, order = relaxed, scope = gpu} : i32
  %7 = constant true : bool
  %8 = atomic %z[%n, %n] = %6 expected %5 mask %7 {kind = cas, order = relaxed, scope = gpu} : i32
)");
    const AccessOperands load = p.access(Op::load);
    EXPECT_EQ(load.object, p.param("x"));
    EXPECT_EQ(load.index[0].value, p.result(Op::iota));
    EXPECT_FALSE(load.index[1]);
    EXPECT_EQ(load.index[2].at, 2u);
    EXPECT_FALSE(load.index[3]);
    EXPECT_EQ(load.first, 3u);
    EXPECT_EQ(load.other.value, p.result(Op::constant, 1));
    EXPECT_EQ(load.other.at, 3u);
    EXPECT_EQ(load.mask.value, p.result(Op::constant));
    EXPECT_EQ(load.mask.at, 4u);
    EXPECT_FALSE(load.value || load.expected || load.channel);
    EXPECT_TRUE(load.access.gathers());
    EXPECT_FALSE(load.access.steps());

    const AccessOperands plain = p.access(Op::load, 1);
    EXPECT_FALSE(plain.access.gathers());
    EXPECT_TRUE(plain.access.steps());
    EXPECT_FALSE(plain.value || plain.other || plain.mask);

    const AccessOperands store = p.access(Op::store);
    EXPECT_EQ(store.value.value, p.result(Op::load));
    EXPECT_EQ(store.mask.at, store.value.at + 1);
    EXPECT_FALSE(store.other);

    const AccessOperands add = p.access(Op::atomic), cas = p.access(Op::atomic, 1);
    EXPECT_EQ(add.value.value, p.result(Op::load, 2));
    EXPECT_FALSE(add.expected || add.mask);
    EXPECT_EQ(cas.value.value, p.result(Op::atomic));
    EXPECT_EQ(cas.expected.value, p.result(Op::load, 2));
    EXPECT_EQ(cas.mask.at, 5u);
    for (const Op op : {Op::load, Op::store, Op::atomic}) EXPECT_TRUE(ir::is_access(op));
    for (const Op op : {Op::constant, Op::gather, Op::tensor_ptr, Op::channel_get}) EXPECT_FALSE(ir::is_access(op));
}

/// An instruction on pointers lists its mask in front of what masked lanes read; one on tensors behind it.
TEST(AccessOperands, OfPointersAndTiles) {
    const Parsed p(R"(  %0 = constant 3 : i32
  %1 = constant true : bool
  %2 = ptr_load %p {flags = 0} : i32
  %3 = ptr_load %p, %0 {flags = 1} : i32
  %4 = ptr_load %p, %1, %3 {flags = 3} : i32
  ptr_store %p, %4, %1 {flags = 2}
  %5 = ptr_atomic %p, %4, %0, %1 {flags = 2, kind = cas, order = relaxed, scope = gpu} : i32
  %6 = ptr_atomic %p, %5, %1 {flags = 2, kind = max, order = relaxed, scope = gpu} : i32
  %7 = constant 0 : tile<i32>[4, 4]
  %8 = extract %7[%n, %n +: 3] : tile<i32>[3]
  %9 = constant true : tile<bool>[3]
  %10 = deposit %7[%n, %n +: 3] = %8 mask %9 : tile<i32>[4, 4]
  %11 = extract %7[%n, %n +: 3] else %8 mask %9 : tile<i32>[3]
)");
    EXPECT_FALSE(p.access(Op::ptr_load).mask || p.access(Op::ptr_load).other);
    EXPECT_EQ(p.access(Op::ptr_load, 1).other.at, 1u);
    const AccessOperands both = p.access(Op::ptr_load, 2);
    EXPECT_EQ(both.mask.value, p.result(Op::constant, 1));
    EXPECT_EQ(both.other.value, p.result(Op::ptr_load, 1));
    EXPECT_EQ(both.first, 1u);
    EXPECT_TRUE(both.access.axes.empty());
    EXPECT_EQ(p.access(Op::ptr_store).value.at, 1u);
    EXPECT_EQ(p.access(Op::ptr_store).mask.at, 2u);
    EXPECT_EQ(p.access(Op::ptr_atomic).expected.value, p.result(Op::constant));
    EXPECT_EQ(p.access(Op::ptr_atomic).mask.at, 3u);
    EXPECT_FALSE(p.access(Op::ptr_atomic, 1).expected);
    EXPECT_EQ(p.access(Op::ptr_atomic, 1).mask.at, 2u);
    EXPECT_EQ(p.access(Op::deposit).value.value, p.result(Op::extract));
    EXPECT_EQ(p.access(Op::deposit).mask.at, 4u);
    EXPECT_EQ(p.access(Op::extract, 1).other.at, 3u);
    EXPECT_EQ(p.access(Op::extract, 1).mask.at, 4u);
}

TEST(AccessOperands, OfCopiesIntoRings) {
    TypeTable types;
    ir::Function fn(types);
    fn.body = fn.add_block();
    const TypeId ring = types.channel(id_of(Fmt::f32), Shape{4, 8});
    ir::Builder b(fn, fn.body);
    Type tensor{};
    tensor.kind = Type::tensor;
    tensor.elem = id_of(Fmt::f32);
    tensor.shape = {kDynamic, 4, kDynamic};
    const ValueId x = fn.add_arg(fn.body, types.intern(tensor)), channel = fn.add_arg(fn.body, ring), n = b.index(7);
    const std::vector<int64_t> attrs = {0, Access::index, 1, 1, 0, Access::all, 4, 1, 0, Access::range, 8, 1, 0};
    const ValueId operands[] = {x, n, n, channel};
    const AccessOperands put(fn, fn.inst(b.emit(Op::channel_put, operands, {}, attrs)));
    EXPECT_EQ(put.channel.value, channel);
    EXPECT_EQ(put.channel.at, 3u);
    EXPECT_EQ(put.index[2].at, 2u);
    EXPECT_FALSE(put.value || put.mask || put.other);
    EXPECT_EQ(ir::AccessPart(fn, put).shape, (Shape{4, 8}));
}

/// The joint dimensions of index tiles stand where the first of them does; a tile of rank 0 adds none.
TEST(AccessPart, PlacesDimensions) {
    const Parsed p(R"(  %0 = iota {axis = 0} : tile<i64>[3]
  %1 = iota {axis = 0} : tile<i64>[5, 1]
  %2 = load %x[gather %0, :, gather %1] : tile<f32>[5, 3, 4]
  %3 = load %x[%n +: 7, :, gather %1] : tile<f32>[7, 4, 5, 1]
  %4 = load %x[%n, :, %n +: 2 step 3] : tile<f32>[4, 2]
  %5 = load %x[gather %n, %n, gather %n] : f32
  %6 = load %x[%n +: 2, gather %n, gather %0] : tile<f32>[2, 3]
)");
    const auto part = [&](int nth) { return ir::AccessPart(*p.fn, p.access(Op::load, nth)); };
    const auto dims = [&](int nth) {
        const ir::AccessPart out = part(nth);
        return std::vector<int>(out.dim.begin(), out.dim.begin() + 3);
    };
    for (int nth = 0; nth < 5; ++nth) EXPECT_EQ(part(nth).shape, p.fn->type(p.result(Op::load, nth)).shape) << nth;
    EXPECT_EQ(part(0).joint, (Shape{5, 3}));
    EXPECT_EQ(dims(0), (std::vector<int>{0, 2, 0}));
    EXPECT_EQ(dims(1), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(dims(2), (std::vector<int>{-1, 0, 1}));
    EXPECT_EQ(part(3).joint.rank, 0);
    EXPECT_EQ(dims(3), (std::vector<int>{0, -1, 0}));
    EXPECT_EQ(dims(4), (std::vector<int>{0, 1, 1}));
}
