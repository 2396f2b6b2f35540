// Expression functions as kernels (host_kernel.h).
#include "jit/engine/host_kernel.h"

namespace tegula {

namespace {

constexpr int64_t kMaxElements = 1 << 14;  ///< of one tile: larger ones would live in local memory

TypeId tensor_type(TypeTable& types, const Type& tile, Mode mode) {
    Type t;
    t.kind = Type::tensor;
    t.mode = mode;
    t.elem = tile.elem;
    t.shape = tile.shape.rank ? tile.shape : Shape{1};
    return types.intern(t);
}

/// The access to a whole tensor; of a scalar's: to element 0.
std::vector<int64_t> whole(const Shape& tile) {
    ir::Access access;
    for (int64_t extent : tile) access.axes.push_back({ir::Access::all, extent, 1, true});
    if (tile.rank == 0) access.axes.push_back({ir::Access::index, 1, 1, true});
    std::vector<int64_t> attrs{0};
    const std::vector<int64_t> axes = access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    return attrs;
}

bool fits(const ir::Function& fn) {
    for (size_t v = 0; v < fn.value_count(); ++v) {
        const Type& type = fn.type(ir::ValueId{static_cast<uint32_t>(v)});
        if (type.pointer || (type.kind == Type::tile && type.shape.elements() > kMaxElements)) return false;
    }
    return true;
}

}  // namespace

std::optional<ir::Function> as_kernel(const ir::Function& expression) {
    if (!fits(expression)) return std::nullopt;
    ir::Function fn = expression;
    TypeTable& types = fn.types();
    fn.is_kernel = true;
    std::vector<ir::InstId> loads;
    for (ir::Param& p : fn.params) {
        const TypeId tile = fn.type_of(p.value);
        if (types.type(tile).shape.rank == 0) continue;
        const std::vector<int64_t> attrs = whole(types.type(tile).shape);
        const ir::InstId load = fn.make(ir::Op::load, {}, {&tile, 1}, attrs);
        fn.replace_uses(p.value, fn.result(load));
        fn.set_operands(load, {&p.value, 1});
        fn.value(p.value).type = tensor_type(types, types.type(tile), Mode::in);
        p.kind = ir::Param::tensor;
        loads.push_back(load);
    }
    std::vector<ir::InstId>& body = fn.block(fn.body).insts;
    const ir::InstId ret = body.back();
    body.insert(body.begin(), loads.begin(), loads.end());
    for (ir::InstId load : loads) fn.inst(load).parent = fn.body;
    const std::span<const ir::ValueId> returned = fn.operands(fn.inst(ret));
    const std::vector<ir::ValueId> results(returned.begin(), returned.end());
    fn.set_operands(ret, {});
    for (size_t i = 0; i < results.size(); ++i) {
        const Type tile = fn.type(results[i]);
        const ir::ValueId out = fn.add_arg(fn.body, tensor_type(types, tile, Mode::out));
        fn.params.push_back({"result" + std::to_string(i), out, ir::Param::tensor});
        std::vector<ir::ValueId> operands{out};
        if (tile.shape.rank == 0) {
            const int64_t zero = 0;
            const TypeId index = types.tile(Fmt::i64);
            const ir::InstId at = fn.make(ir::Op::constant, {}, {&index, 1}, {&zero, 1});
            fn.insert_before(ret, at);
            operands.push_back(fn.result(at));
        }
        operands.push_back(results[i]);
        fn.insert_before(ret, fn.make(ir::Op::store, operands, {}, whole(tile.shape)));
    }
    return fn;
}

}  // namespace tegula
