// What the verifier of kernels refuses: kernels as the emitters make them pass, and with one thing changed they do not.
#include "lang/kernel/verify.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <set>

#include "lang/kernel/builder.h"
#include "lang/kernel/text.h"

namespace tegula::kernel {
namespace {

using K = KernelOp;

/// Short words for what kernels consist of.
struct Maker {
    Pool& pool;
    Kernel kernel;
    Builder b{kernel, pool};

    explicit Maker(Pool& p) : pool(p) {}
    Ex n(int64_t v) { return pool.number(v); }
    Ex i32(const std::string& name) { return pool.name(Type::i32, name); }
    Ex u32(const std::string& name) { return pool.name(Type::u32, name); }
    Ex u64(const std::string& name) { return pool.name(Type::u64, name); }
    Ex other(const std::string& name) { return pool.name(Type::other, name); }
    Ex t() { return i32("t"); }
    Ex lane() { return t() & 31; }
    Ex at(const std::string& array, Ex index) { return pool.index(Type::other, other(array), index); }
    Ex shared(Ex offset) { return pool.call(Type::u32, "shared_address", {other("shared") + offset}); }
    /// Of m64n8k16: sums of four registers.
    Ex form() { return pool.call(Type::other, "m64n8k16.f32.f16.f16", {n(1), n(1), n(0), n(0)}); }
    Ex zero() { return pool.text(Type::other, "0.0f", true); }
    void barriers(const std::string& full, const std::string& empty, int stages, int arrivals) {
        b.open_if(eq(t(), 0));
        const Ex s = b.open_count("s", stages);
        b.call(K::mbarrier_init, {u32(full) + s * 8, n(1)});
        b.call(K::mbarrier_init, {u32(empty) + s * 8, n(arrivals)});
        b.close();
        b.call(K::mbarrier_init_fence);
        b.close();
    }
    void counters(std::initializer_list<const char*> names) {
        for (const char* name : names) b.var("unsigned", name, pool.constant(Type::u32, 0));
    }
    /// for (int i = 0; i < n; ++i)
    void trips(const std::string& name, Ex limit) {
        b.open_for({"int", name, n(0), lt(i32(name), limit), {increment(i32(name))}, kNoPragma, {}});
    }
};

/// Threads copy tiles ahead of the loop that takes them.
Kernel copied_ahead(Pool& pool) {
    Maker m(pool);
    Builder& b = m.b;
    m.kernel.name = "copied_ahead";
    m.kernel.arch = 80;
    m.kernel.rings.push_back({"a", 4, "", "", "", "put", "", "get", "", "", "ahead"});
    m.counters({"put", "get", "ahead"});
    b.declare("float", "sum", 4, " = {}");
    b.declare("unsigned", "piece", 2);
    const auto put = [&] {
        b.open_block();
        b.let_pointer("unsigned char", "to", m.other("shared") + m.u32("put") * 4096);
        b.call(K::copy_async, {pool.call(Type::u32, "shared_address", {m.other("to") + m.t() * 16}), m.other("from"), m.n(16)});
        b.close();
        b.call(K::count_put, {m.u32("ahead")});
        b.call(K::copy_commit);
        b.call(K::advance_stage, {m.u32("put"), m.n(4)});
    };
    b.line("// the first tiles");
    m.trips("s", m.n(3));
    put();
    b.close();
    m.trips("k", m.i32("tiles"));
    b.call(K::copy_wait, {m.n(2)});
    b.call(K::meet_cta);
    b.let_pointer("unsigned char", "tile", m.other("shared") + m.u32("get") * 4096);
    b.call(K::count_get, {m.u32("ahead")});
    b.open_if(lt(m.i32("k") + 3, m.i32("tiles")));
    put();
    b.otherwise();
    b.call(K::copy_commit);
    b.close();
    b.let("unsigned", "lane_at", pool.call(Type::u32, "shared_address", {m.other("tile") + m.lane() * 16}));
    b.call(K::ldmatrix_x2, {m.at("piece", m.n(0)), m.at("piece", m.n(1)), m.u32("lane_at")});
    const Ex r = b.open_count("r", 4, kUnrollAll);
    b.assign(m.at("sum", r), pool.call(Type::other, "fma", {m.at("sum", r), m.at("piece", r >> 1), m.at("sum", r)}));
    b.close();
    b.call(K::advance_stage, {m.u32("get"), m.n(4)});
    b.close();
    b.call(K::copy_wait, {m.n(0)});
    b.declare("float", "other_lane");
    b.call(K::shuffle_xor, {m.other("other_lane"), m.at("sum", m.n(3)), m.n(16)});
    b.assign(m.at("sum", m.n(0)), m.other("other_lane"));
    b.when(lt(m.t(), 32));
    b.call(K::store, {m.other("store4"), m.other("to_memory"), m.at("sum", m.n(0))});
    return m.kernel;
}

/// A producer, and two groups of four warps whose products run into the next trip.
Kernel overlapped(Pool& pool) {
    Maker m(pool);
    Builder& b = m.b;
    m.kernel.name = "overlapped";
    m.kernel.threads = 384;
    m.kernel.named = {{"held_", 4}};
    m.kernel.rings.push_back({"a", 4, "full", "empty", "", "put", "put_phase", "get", "get_phase", "release"});
    b.let("unsigned", "full", m.shared(m.n(65536)));
    b.let("unsigned", "empty", m.u32("full") + 32);
    m.barriers("full", "empty", 4, 8);
    b.call(K::meet_cta);
    b.open_role({"producer", 256, 384, 40, ge(m.t(), 256), {}});
    b.call(K::fewer_registers, {m.n(40)});
    b.open_if(eq(m.t(), 256));
    m.counters({"put", "put_phase"});
    m.trips("k", m.i32("tiles"));
    b.call(K::mbarrier_wait, {m.u32("empty") + m.u32("put") * 8, m.u32("put_phase") ^ 1});
    b.call(K::mbarrier_expect, {m.u32("full") + m.u32("put") * 8, m.n(16384)});
    b.let("unsigned", "to", m.shared(m.u32("put") * 16384));
    b.call(K::tma_load, {m.other("tma_load"), m.u32("to"), m.other("map"), m.u32("full") + m.u32("put") * 8, m.n(0), m.i32("k")});
    b.call(K::advance, {m.u32("put"), m.n(4), m.u32("put_phase")});
    b.close();
    b.close();
    b.next_role({"consumers", 0, 256, 232, {}, {}});
    b.call(K::more_registers, {m.n(232)});
    m.counters({"get", "get_phase", "release"});
    b.declare("float", "sum", 64);
    b.let("int", "group", pool.uniform(Type::i32, "uniform", {m.t() >> 7}));
    b.var("int", "trip", m.n(0));
    b.open_for({"long long", "k", pool.constant(Type::i64, 0), {}, {increment(pool.name(Type::i64, "k"))}, kNoPragma, {}});
    b.break_if(negation(lt(pool.name(Type::i64, "k"), pool.name(Type::i64, "steps"))));
    b.call(K::mbarrier_wait, {m.u32("full") + m.u32("get") * 8, m.u32("get_phase")});
    b.let_pointer("unsigned char", "tile", m.other("shared") + m.u32("get") * 16384);
    b.call(K::advance, {m.u32("get"), m.n(4), m.u32("get_phase")});
    b.let("unsigned long long", "operand",
          pool.call(Type::u64, "wgmma_descriptor", {pool.call(Type::u32, "shared_address", {m.other("tile")}) + m.i32("group") * 8192, m.n(16)}));
    b.call(K::wgmma_fence);
    b.call(K::wgmma_issue, {m.form(), m.n(4), m.other("sum"), m.u64("operand"), m.u64("operand") + 2});
    b.call(K::wgmma_issue, {m.form(), m.n(2), m.other("sum") + 4, m.other("sum") + 60, m.u64("operand"), m.u64("operand") + 4});
    b.call(K::wgmma_commit);
    b.call(K::wgmma_wait, {m.n(1)});
    b.open_if(gt(m.i32("trip"), 0), "a", 1);
    b.call(K::meet_warp);
    b.when(eq(m.lane(), 0));
    b.call(K::mbarrier_arrive, {m.u32("empty") + m.u32("release") * 8});
    b.call(K::advance_stage, {m.u32("release"), m.n(4)});
    b.close();
    b.assign(m.i32("trip"), m.i32("trip") + 1);
    b.close();
    b.call(K::wgmma_wait, {m.n(0)});
    b.open_if(gt(pool.name(Type::i64, "steps"), 0), "a");
    b.when(eq(m.lane(), 0));
    b.call(K::mbarrier_arrive, {m.u32("empty") + m.u32("release") * 8});
    b.call(K::advance_stage, {m.u32("release"), m.n(4)});
    b.close();
    b.call(K::meet_group, {m.n(256)});
    const Ex r = b.open_count("r", 64, kUnrollAll);
    b.assign(m.at("sum", r), pool.call(Type::other, "scaled", {m.at("sum", r)}));
    b.close();
    b.let("unsigned", "area", m.shared(m.n(70000)));
    b.call(K::stmatrix_x2, {m.u32("area"), m.n(0), m.n(1)});
    b.call(K::fence_async);
    b.call(K::meet_warp);
    b.call(K::tma_store, {m.other("tma_store"), m.lane(), m.other("map"), m.u32("area"), m.n(0), m.n(0)});
    b.call(K::tma_store_read, {m.n(0)});
    b.call(K::stmatrix_x2, {m.u32("area"), m.n(2), m.n(3)});
    b.call(K::fence_async);
    b.call(K::tma_store, {m.other("tma_store"), m.lane(), m.other("map"), m.u32("area"), m.n(0), m.n(64)});
    b.call(K::tma_store_done);
    b.close();
    return m.kernel;
}

/// CTAs of a cluster share a ring whose stages are given back before the next one is taken.
Kernel shared_by_cluster(Pool& pool) {
    Maker m(pool);
    Builder& b = m.b;
    m.kernel.name = "shared_by_cluster";
    m.kernel.threads = 160;
    m.kernel.rings.push_back({"a", 2, "full", "empty", "peer_empty", "put", "put_phase", "get", "get_phase"});
    b.line("const unsigned full = shared_address(shared + 4096), empty = full + 16;");
    m.barriers("full", "empty", 2, 8);
    b.let("unsigned", "peer_empty", pool.call(Type::u32, "address_in_cluster", {m.u32("empty"), m.u32("first") + m.lane()}));
    b.call(K::cluster_arrive);
    b.call(K::cluster_wait);
    b.open_role({"producer", 128, 160, 0, ge(m.t(), 128), {}});
    b.open_if(eq(m.t(), 128));
    m.counters({"put", "put_phase"});
    m.trips("k", m.i32("tiles"));
    b.call(K::mbarrier_wait, {m.u32("empty") + m.u32("put") * 8, m.u32("put_phase") ^ 1});
    b.call(K::mbarrier_expect, {m.u32("full") + m.u32("put") * 8, m.n(4096)});
    b.call(K::tma_multicast, {m.other("tma_multicast"), m.other("mask"), m.shared(m.u32("put") * 2048), m.other("map"), m.u32("full") + m.u32("put") * 8, m.n(0)});
    b.call(K::advance, {m.u32("put"), m.n(2), m.u32("put_phase")});
    b.close();
    b.close();
    b.call(K::cluster_arrive);
    b.next_role({"consumers", 0, 128, 0, {}, {}});
    m.counters({"get", "get_phase"});
    b.declare("unsigned", "word", 4);
    m.trips("k", m.i32("tiles"));
    b.call(K::mbarrier_wait, {m.u32("full") + m.u32("get") * 8, m.u32("get_phase")});
    b.let_pointer("unsigned char", "tile", m.other("shared") + m.u32("get") * 2048);
    b.call(K::load_shared, {m.at("word", m.n(3)), pool.text(Type::other, "unsigned", true), m.other("tile") + m.t() * 4});
    b.open_if(eq(m.i32("k") % 2, 0));
    b.call(K::meet_group, {m.n(128)});
    b.close();
    b.call(K::meet_warp);
    b.when(lt(m.lane(), 2));
    b.call(K::mbarrier_arrive_at, {m.u32("peer_empty") + m.u32("get") * 8});
    b.call(K::advance, {m.u32("get"), m.n(2), m.u32("get_phase")});
    b.close();
    b.call(K::cluster_arrive);
    b.close();
    b.call(K::cluster_wait);
    return m.kernel;
}

/// Products in tensor memory.
Kernel in_tensor_memory(Pool& pool) {
    Maker m(pool);
    Builder& b = m.b;
    m.kernel.name = "in_tensor_memory";
    m.kernel.arch = 100;
    b.let("unsigned", "products", m.shared(m.n(1024)));
    b.var("unsigned", "product_phase", pool.constant(Type::u32, 0));
    b.open_if(eq(m.t(), 0));
    b.call(K::mbarrier_init, {m.u32("products"), m.n(5)});
    b.call(K::mbarrier_init_fence);
    b.close();
    b.when(lt(m.t(), 32));
    b.call(K::tensor_take, {m.n(128), m.u32("products") + 8});
    b.call(K::tensor_fence_before);
    b.call(K::meet_cta);
    b.call(K::tensor_fence_after);
    b.let("unsigned", "columns", pool.text(Type::u32, "*(const volatile unsigned*)(shared + 1032)", false));
    b.declare("float", "v", 8, " = {}");
    const Ex r = b.open_count("r", 2);
    b.call(K::tensor_store, {m.other("store_tensor_x4"), m.other("v") + r * 4, m.u32("columns") + r * 4});
    b.close();
    b.call(K::tensor_stored);
    b.call(K::meet_cta);
    m.trips("k", m.i32("tiles"));
    b.when(eq(m.t(), 0));
    b.call(K::tensor_product, {m.other("tcgen05_m128"), m.u32("columns"), m.u64("a"), m.u64("b")});
    b.call(K::products_wait, {m.t(), m.u32("products"), m.u32("product_phase")});
    b.call(K::advance_phase, {m.u32("product_phase")});
    b.close();
    b.call(K::tensor_load, {m.other("load_tensor_x8"), m.other("v"), m.u32("columns")});
    b.call(K::tensor_fence_before);
    b.assign(m.at("v", m.n(7)), m.zero());
    b.call(K::meet_cta);
    b.when(lt(m.t(), 32));
    b.call(K::tensor_give, {m.n(128), m.u32("columns")});
    return m.kernel;
}

/// Fragments that stay on their way in registers that PTX knows, a bulk load, text, and work of one lane.
Kernel mixed(Pool& pool) {
    Maker m(pool);
    Builder& b = m.b;
    m.kernel.name = "mixed";
    m.kernel.named = {{"sum_", 8}};
    b.let("unsigned", "ready", m.shared(m.n(512)));
    b.when(eq(m.t(), 0));
    b.call(K::mbarrier_init, {m.u32("ready"), m.n(1)});
    b.call(K::mbarrier_init_fence);
    b.call(K::meet_cta);
    b.let("unsigned", "to", m.shared(m.n(1024)));
    b.when(eq(m.t(), 0));
    b.call(K::bulk_load, {m.u32("to"), m.other("tensor"), m.u64("from"), m.u64("size"), m.n(256), m.u32("ready")});
    b.line("int x = 3;");
    b.call(K::mbarrier_wait, {m.u32("ready"), m.n(0)});
    b.declare("unsigned", "word", 2);
    b.call(K::load_shared, {m.at("word", m.n(0)), pool.text(Type::other, "unsigned", true), m.u32("to")});
    b.declare("unsigned", "fragment", 4);
    m.trips("i", m.n(4));
    b.assign(m.at("fragment", m.i32("i")), m.at("word", m.n(0)));
    b.close();
    b.call(K::wgmma_fence);
    b.call(K::wgmma_start, {m.form(), m.n(4), m.other("sum_"), m.other("fragment"), m.u64("desc")});
    b.call(K::wgmma_commit);
    b.line("prefetch(x);");
    b.call(K::wgmma_wait, {m.n(0)});
    b.line("asm volatile(\"mov.b32 %0, sum_0;\" : \"=r\"(word[1]));");
    b.open_if(lt(m.t(), 64));
    b.line("word[0] = x;");
    b.call(K::meet_warp);
    b.close();
    b.open_if(eq(m.lane(), 0));
    b.call(K::tma_store, {m.other("tma_store"), m.n(0), m.other("map"), m.u32("to"), m.n(0)});
    b.close();
    b.open_if(eq(m.lane(), 0));
    b.call(K::tma_store_read, {m.n(0)});
    b.close();
    b.open_for({"int", "e", m.t(), lt(m.i32("e"), 500), {{m.i32("e"), m.n(128), AssignOp::add}}, kNoPragma, {}});
    b.line("out[e] = word[1];");
    b.close();
    b.call(K::meet_cta);
    return m.kernel;
}

using Make = Kernel (*)(Pool&);
constexpr Make kClean[] = {copied_ahead, overlapped, shared_by_cluster, in_tensor_memory, mixed};

std::string told(const std::vector<Problem>& problems) {
    std::string out;
    for (const Problem& p : problems) out += p.statement + ": " + p.reason + "\n";
    return out;
}

std::vector<Body*> bodies_of(Statement& s) {
    std::vector<Body*> out;
    if (auto* roles = std::get_if<Roles>(&s.is))
        for (auto& part : roles->parts) out.push_back(&part.body);
    if (auto* loop = std::get_if<For>(&s.is)) out.push_back(&loop->body);
    if (auto* block = std::get_if<Block>(&s.is)) out.push_back(&block->body);
    if (auto* choice = std::get_if<If>(&s.is)) out.insert(out.end(), {&choice->yes, &choice->no});
    return out;
}

/// The `skip`-th statement whose first line begins so.
std::pair<Body*, size_t> find(Body& body, const std::string& start, int& skip) {
    for (size_t i = 0; i < body.size(); ++i) {
        if (first_line(body[i], call_text).starts_with(start) && skip-- == 0) return {&body, i};
        for (Body* inner : bodies_of(body[i]))
            if (const auto found = find(*inner, start, skip); found.first) return found;
    }
    return {nullptr, 0};
}

using Edit = std::function<void(Maker& m, Body& body, size_t at)>;

void erase(Maker&, Body& body, size_t at) { body.erase(body.begin() + static_cast<std::ptrdiff_t>(at)); }
void twice(Maker&, Body& body, size_t at) {
    const Statement copy = body[at];
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), copy);
}
void later(Maker&, Body& body, size_t at) { std::swap(body[at], body.at(at + 1)); }
Edit before(std::function<void(Maker&)> make) {
    return [=](Maker& m, Body& body, size_t at) {
        make(m);
        body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), m.kernel.body.begin(), m.kernel.body.end());
    };
}
Edit after(std::function<void(Maker&)> make) {
    return [=](Maker& m, Body& body, size_t at) { before(make)(m, body, at + 1); };
}
Edit instead(std::function<void(Maker&)> make) {
    return [=](Maker& m, Body& body, size_t at) {
        before(make)(m, body, at + 1);
        erase(m, body, at);
    };
}
/// The statement under a condition.
Edit under(std::function<Ex(Maker&)> condition) {
    return [=](Maker& m, Body& body, size_t at) {
        If choice{condition(m)};
        choice.yes.push_back(body[at]);
        body[at] = {std::move(choice)};
    };
}
/// Operand `k` is another one.
Edit operand(size_t k, std::function<Ex(Maker&)> make) {
    return [=](Maker& m, Body& body, size_t at) {
        Statement* s = &body[at];
        if (auto* choice = std::get_if<If>(&s->is)) s = &choice->yes[0];
        std::get<Call>(s->is).operands.at(k) = make(m);
    };
}
Ex varying(Maker& m) { return lt(m.lane(), 20); }
Ex some(Maker& m) { return gt(m.i32("tiles"), 7); }

struct Fault {
    Make make;
    const char* where;
    int skip;
    Edit edit;
    const char* reason;
};

std::vector<Fault> faults() {
    const auto number = [](int64_t v) { return [v](Maker& m) { return m.n(v); }; };
    const auto name = [](const char* text) { return [text](Maker& m) { return m.u32(text); }; };
    const auto line = [](const char* text) { return [text](Maker& m) { m.b.line(text); }; };
    const auto calls = [](K op, std::vector<int64_t> numbers = {}) {
        return [op, numbers](Maker& m) {
            std::vector<Ex> operands;
            for (const int64_t v : numbers) operands.push_back(m.n(v));
            m.b.call(op, operands);
        };
    };
    const auto sets = [](const char* text, int64_t v) {
        return [text, v](Maker& m) { m.b.assign(m.u32(text), m.n(v)); };
    };
    const auto into = [](const char* array, int64_t i) {
        return [array, i](Maker& m) { m.b.assign(m.at(array, m.n(i)), m.zero()); };
    };
    return {
        // Names and operands.
        {copied_ahead, "const unsigned lane_at", 0, later, "lane_at is used before it is declared"},
        {overlapped, "wgmma_wait", 1, after(line("f(tile);")), "tile is used outside of the block"},
        {overlapped, "wgmma_wait", 1, after([](Maker& m) { m.b.let("int", "y", m.u32("to") + 1); }), "to is used outside of the block"},
        {copied_ahead, "float other_lane", 0, twice, "other_lane is declared twice"},
        {copied_ahead, "const unsigned lane_at", 0, twice, "lane_at is declared twice"},
        {copied_ahead, "ldmatrix_x2", 0, after(sets("lane_at", 0)), "lane_at is const"},
        {copied_ahead, "ldmatrix_x2", 0, after(line("lane_at += 2;")), "lane_at is const"},
        {copied_ahead, "ldmatrix_x2", 0, after([](Maker& m) {
             m.b.call(K::ptx_thread, {m.other("f"), m.n(2), m.at("piece", m.n(0)), m.u32("lane_at")});
         }), "lane_at is const"},
        {copied_ahead, "ldmatrix_x2", 0, after([](Maker& m) {
             m.b.call(K::ptx_thread, {m.other("f"), m.n(2), m.at("piece", m.n(0))});
         }), "1 results are missing"},
        {copied_ahead, "sum[0] =", 0, instead(into("sum", 4)), "sum has 4 registers, none is number 4"},
        {copied_ahead, "sum[0] =", 0, instead(line("sum[9] = 1.0f;")), "none is number 9"},
        {copied_ahead, "sum[0] =", 0, instead([](Maker& m) { m.b.assign(m.n(3), m.zero()); }), "nothing that can be written"},
        {copied_ahead, "ldmatrix_x2", 0, operand(1, [](Maker& m) { return m.at("piece", m.n(2)); }), "piece has 2 registers"},
        {copied_ahead, "ldmatrix_x2", 0, operand(0, number(1)), "operand 0 is nothing that can be written"},
        {copied_ahead, "ldmatrix_x2", 0, operand(2, number(64)), "operand 2 is no address"},
        {copied_ahead, "copy_async", 0, operand(2, [](Maker& m) { return m.u64("n"); }), "operand 2 is no 32-bit integer"},
        {copied_ahead, "shuffle_xor", 0, operand(2, [](Maker& m) { return lt(m.t(), 5); }), "operand 2 is no 32-bit integer"},
        {copied_ahead, "meet_cta", 0, [](Maker& m, Body& body, size_t at) { std::get<Call>(body[at].is).operands = {m.n(1), m.n(2)}; }, "2 operands are not those"},
        {overlapped, "wgmma_wait", 1, operand(0, name("count")), "operand 0 is no constant"},
        {overlapped, "tma_store tma_store", 0, operand(0, number(3)), "operand 0 is no name"},
        {overlapped, "wgmma_issue", 0, operand(0, name("m64n8k16")), "operand 0 is no form of an instruction"},
        {overlapped, "advance put", 0, operand(0, [](Maker& m) { return m.u32("put") + 1; }), "operand 0 is no counter"},
        {in_tensor_memory, "tensor_product", 0, operand(2, [](Maker& m) { return m.zero(); }), "operand 2 is no integer"},
        {in_tensor_memory, "if (t < 32) tensor_take", 0, operand(0, name("n")), "operand 0 is no constant"},
        {copied_ahead, "copy_wait", 1, after([](Maker& m) { m.b.break_if(some(m)); }), "no loop to leave"},
        {copied_ahead, "meet_cta", 0, instead(calls(K::cluster_arrive)), "architecture 80 has no cluster_arrive"},
        {in_tensor_memory, "meet_cta", 0, before([](Maker& m) { m.b.call(K::wgmma_fence); }), "architecture 100 has no wgmma_fence"},
        // Threads.
        {copied_ahead, "meet_cta", 0, under(varying), "threads that have to meet have gone different ways"},
        {copied_ahead, "meet_cta", 0, under([](Maker& m) { return gt(m.at("sum", m.n(0)), m.zero()); }), "gone different ways"},
        {copied_ahead, "meet_cta", 0, under([](Maker& m) { return lt(m.t(), 64); }), "only 64 threads come here"},
        {copied_ahead, "shuffle_xor", 0, after([](Maker& m) {
             m.b.open_if(ne(m.i32("other_lane"), 0));
             m.b.call(K::meet_warp);
             m.b.close();
         }), "needs 32 threads together"},
        {copied_ahead, "shuffle_xor", 0, after([](Maker& m) {
             m.b.declare("Dividends", "all");
             m.b.call(K::add_dividend, {m.other("all"), m.at("sum", m.n(0))});
             m.b.open_if(m.pool.text(Type::pred, "all.moderate()", true));
             m.b.call(K::meet_warp);
             m.b.close();
         }), "needs 32 threads together"},
        {copied_ahead, "shuffle_xor", 0, under(varying), "needs 32 threads together"},
        {copied_ahead, "ldmatrix_x2", 0, under([](Maker& m) { return eq(m.lane(), 0); }), "needs 32 threads together"},
        {copied_ahead, "for (int k", 0, before([](Maker& m) {
             m.b.var("int", "mine", m.n(0));
             m.b.when(eq(m.t(), 0));
             m.b.assign(m.i32("mine"), m.n(1));
             m.b.open_if(eq(m.i32("mine"), 1));
             m.b.call(K::meet_cta);
             m.b.close();
         }), "threads that have to meet have gone different ways"},
        {copied_ahead, "copy_wait", 0, before([](Maker& m) { m.b.break_if(eq(m.t() & 3, m.i32("k"))); }), "gone different ways"},
        {copied_ahead, "copy_wait", 0, before([](Maker& m) { m.b.break_if(m.pool.text(Type::pred, "sum[1] == 0.0f", false)); }), "gone different ways"},
        {mixed, "meet_warp", 0, instead(calls(K::meet_cta)), "only 64 threads come here"},
        {mixed, "out[e]", 0, after(calls(K::meet_cta)), "threads that have to meet have gone different ways"},
        {mixed, "wgmma_start", 0, under([](Maker& m) { return lt(m.t(), 96); }), "needs 128 threads together"},
        {overlapped, "meet_group", 0, operand(0, number(128)), "256 threads come here"},
        {overlapped, "meet_group", 0, instead(calls(K::meet_cta)), "only 256 threads come here"},
        {overlapped, "more_registers", 0, operand(0, number(224)), "another number of registers"},
        {overlapped, "fewer_registers", 0, erase, "producer does not exchange its registers"},
        {overlapped, "roles", 0, [](Maker&, Body& body, size_t at) { std::get<Roles>(body[at].is).parts[1].end = 288; }, "share threads"},
        {overlapped, "roles", 0, [](Maker&, Body& body, size_t at) { std::get<Roles>(body[at].is).parts[0].end = 400; }, "are no warps of the kernel"},
        {overlapped, "roles", 0, under(varying), "threads have gone different ways before"},
        {in_tensor_memory, "products_wait", 0, under(varying), "threads that have to meet have gone different ways"},
        {shared_by_cluster, "meet_group", 0, under(varying), "threads that have to meet have gone different ways"},
        // Copies of threads.
        {copied_ahead, "copy_wait", 0, erase, "takes a stage whose copies are not awaited"},
        {copied_ahead, "meet_cta", 0, erase, "takes a stage before threads have met"},
        {copied_ahead, "copy_wait", 0, later, "takes a stage before threads have met"},
        {copied_ahead, "copy_wait", 1, after([](Maker& m) {
             m.b.call(K::copy_async, {m.shared(m.n(0)), m.other("from"), m.n(16)});
             m.b.call(K::copy_commit);
         }), "is not awaited before the kernel ends"},
        {copied_ahead, "copy_commit", 0, erase, "waits for work that has not been committed"},
        {copied_ahead, "copy_wait", 1, before([](Maker& m) {
             m.b.let("unsigned", "last", m.shared(m.n(0)));
             m.b.call(K::copy_async, {m.u32("last"), m.other("from"), m.n(16)});
             m.b.call(K::copy_commit);
             m.b.call(K::store_shared, {m.other("uint4"), m.u32("last"), m.other("zeros")});
         }), "last is filled by work that is on its way"},
        {copied_ahead, "copy_wait", 1, after([](Maker& m) {
             m.b.call(K::copy_async, {m.shared(m.n(0)), m.other("from"), m.n(16)});
         }), "is never committed"},
        // Products.
        {overlapped, "wgmma_wait", 1, erase, "sum belongs to a product that is on its way"},
        {overlapped, "wgmma_wait", 1, operand(0, number(1)), "sum belongs to a product that is on its way"},
        {overlapped, "wgmma_wait", 1, before(into("sum", 5)), "sum belongs to a product that is on its way"},
        {overlapped, "wgmma_wait", 1, before(line("keep(sum);")), "sum belongs to a product that is on its way"},
        {overlapped, "wgmma_wait", 0, after([](Maker& m) { m.b.let("float", "first", m.at("sum", m.n(0))); }), "sum belongs to a product"},
        {overlapped, "wgmma_wait", 0, operand(0, number(2)), "gives back a stage that a product still reads"},
        {overlapped, "wgmma_wait", 0, erase, "gives back a stage that a product still reads"},
        {overlapped, "wgmma_fence", 0, erase, "no fence stands behind what its registers were used for"},
        {overlapped, "wgmma_fence", 0, after(into("sum", 3)), "no fence stands behind what its registers were used for"},
        {overlapped, "wgmma_commit", 0, erase, "waits for work that has not been committed"},
        {overlapped, "wgmma_wait", 1, later, "gives back a stage that a product still reads"},
        {mixed, "prefetch", 0, instead(into("fragment", 1)), "fragment belongs to a product that is on its way"},
        {mixed, "prefetch", 0, instead(line("asm volatile(\"mov.b32 sum_3, 0;\");")), "sum_ belongs to a product that is on its way"},
        {mixed, "wgmma_fence", 0, erase, "no fence stands behind what its registers were used for"},
        {mixed, "wgmma_fence", 0, after([](Maker& m) {
             m.trips("i", m.n(4));
             m.b.assign(m.at("fragment", m.i32("i")), m.zero());
             m.b.close();
         }), "no fence stands behind what its registers were used for"},
        {mixed, "wgmma_wait", 0, before([](Maker& m) { m.b.call(K::named_get, {m.other("word"), m.other("sum_")}); }),
         "sum_ belongs to a product that is on its way"},
        {mixed, "wgmma_wait", 0, later, "sum_ belongs to a product that is on its way"},
        // Bulk copies and their barriers.
        {overlapped, "tma_store_read", 0, erase, "area is read by work that is on its way"},
        {overlapped, "tma_store_read", 0, operand(0, number(1)), "area is read by work that is on its way"},
        {overlapped, "tma_store_done", 0, erase, "is not awaited before the kernel ends"},
        {mixed, "if ((t & 31) == 0) {", 1, erase, "is not awaited before the kernel ends"},
        {mixed, "if ((t & 31) == 0) {", 1, instead([](Maker& m) {
             m.b.open_if(eq(m.lane(), 1));
             m.b.call(K::tma_store_read, {m.n(0)});
             m.b.close();
         }), "is not awaited before the kernel ends"},
        {mixed, "mbarrier_wait", 0, erase, "to is filled by work that is on its way"},
        {mixed, "mbarrier_wait", 0, [](Maker&, Body& body, size_t at) { std::swap(body[at], body[at + 2]); }, "to is filled by work that is on its way"},
        {mixed, "if (t == 0) mbarrier_init", 0, erase, "the barrier has not been initialised"},
        {mixed, "mbarrier_init_fence", 0, erase, "may not see yet that the barrier is initialised"},
        {mixed, "meet_cta", 0, erase, "threads have not met since the barrier was initialised"},
        {overlapped, "mbarrier_init empty", 0, erase, "the barrier has not been initialised"},
        {shared_by_cluster, "cluster_wait", 0, erase, "arrives twice"},
        {shared_by_cluster, "cluster_arrive", 0, erase, "waits without having arrived"},
        {shared_by_cluster, "cluster_arrive", 2, erase, "waits without having arrived"},
        {shared_by_cluster, "cluster_wait", 1, erase, "is not awaited before the kernel ends"},
        // Rings.
        {overlapped, "mbarrier_wait empty", 0, erase, "fills a stage that may not be empty"},
        {overlapped, "mbarrier_wait empty", 0, twice, "waits twice for an empty stage"},
        {overlapped, "mbarrier_wait full", 0, erase, "moves on from a stage that is not taken"},
        {overlapped, "mbarrier_wait full", 0, twice, "takes a stage twice"},
        {overlapped, "advance put", 0, erase, "waits twice for an empty stage"},
        {overlapped, "advance put", 0, under(some), "branches leave the ring a at different places"},
        {overlapped, "advance get", 0, erase, "takes a stage twice"},
        {overlapped, "advance get", 0, twice, "moves on from a stage that is not taken"},
        {overlapped, "advance_stage release", 0, erase, "gives a stage back twice"},
        {overlapped, "advance_stage release", 0, twice, "moves on before the stage is given back"},
        {overlapped, "if (trip > 0)", 0, erase, "takes more stages than there are"},
        {overlapped, "if ((t & 31) == 0) mbarrier_arrive", 0, twice, "gives a stage back twice"},
        {overlapped, "roles", 0, under([](Maker& m) { return lt(m.t(), 128); }), "threads have gone different ways before"},
        {overlapped, "if (steps > 0", 0, erase, "ends with a stage of the ring a"},
        {overlapped, "mbarrier_wait full", 0, under(some), "branches leave the ring a at different places"},
        {overlapped, "const unsigned to", 0, [](Maker&, Body& body, size_t at) { body.erase(body.begin() + static_cast<std::ptrdiff_t>(at) - 1, body.begin() + static_cast<std::ptrdiff_t>(at) + 2); },
         "moves on from a stage that is not filled"},
        {shared_by_cluster, "if ((t & 31) < 2) mbarrier_arrive_at", 0, erase, "moves on before the stage is given back"},
        {shared_by_cluster, "if ((t & 31) < 2) mbarrier_arrive_at", 0, twice, "gives a stage back twice"},
        {shared_by_cluster, "mbarrier_wait full", 0, [](Maker&, Body& body, size_t at) { std::rotate(body.begin() + static_cast<std::ptrdiff_t>(at), body.begin() + static_cast<std::ptrdiff_t>(at) + 1, body.end() - 1); },
         "gives back a stage that has not been taken"},
        {copied_ahead, "count_put", 0, erase, "moves on from a stage that is not filled"},
        {copied_ahead, "count_get", 0, twice, "takes a stage twice"},
        {copied_ahead, "advance_stage get", 0, erase, "takes a stage twice"},
        {copied_ahead, "advance_stage put", 1, erase, "branches leave the ring a at different places"},
        // Tensor memory.
        {in_tensor_memory, "tensor_stored", 0, erase, "is not awaited before the kernel ends"},
        {in_tensor_memory, "products_wait", 0, erase, "columns is filled by work that is on its way"},
        {in_tensor_memory, "if (t < 32) tensor_give", 0, erase, "is not awaited before the kernel ends"},
        {in_tensor_memory, "if (t < 32) tensor_take", 0, erase, "gives back what has not been taken"},
        {in_tensor_memory, "if (t < 32) tensor_take", 0, twice, "takes tensor memory twice"},
    };
}

TEST(KernelVerify, OneFaultEach) {
    std::set<std::string> reasons;
    for (const Fault& fault : faults()) {
        Pool pool;
        Kernel kernel = fault.make(pool);
        int skip = fault.skip;
        const auto [body, at] = find(kernel.body, fault.where, skip);
        ASSERT_TRUE(body) << fault.where;
        Maker m(pool);
        fault.edit(m, *body, at);
        const std::string problems = told(verify(kernel));
        EXPECT_NE(problems.find(fault.reason), std::string::npos)
            << kernel.name << ", " << fault.where << ": \"" << fault.reason << "\" is not among\n" << problems;
        reasons.insert(fault.reason);
    }
    EXPECT_GE(faults().size(), 48u);
    EXPECT_GE(reasons.size(), 48u);
}

TEST(KernelVerify, CleanKernelsPass) {
    for (const Make make : kClean) {
        Pool pool;
        const Kernel kernel = make(pool);
        EXPECT_EQ(told(verify(kernel)), "") << dump(kernel);
    }
}

void all_bodies(Body& body, std::vector<Body*>& out) {
    out.push_back(&body);
    for (Statement& s : body)
        for (Body* inner : bodies_of(s)) all_bodies(*inner, out);
}

/// Whatever is made of a kernel, the verifier comes to an end, says the same again and names statements.
TEST(KernelVerify, RandomEdits) {
    int refused = 0;
    for (const Make make : kClean)
        for (uint32_t seed = 0; seed < 150; ++seed) {
            std::mt19937 rng(seed);
            Pool pool;
            Kernel kernel = make(pool);
            for (uint32_t edits = 1 + rng() % 4; edits > 0; --edits) {
                std::vector<Body*> bodies;
                all_bodies(kernel.body, bodies);
                std::erase_if(bodies, [](const Body* b) { return b->empty(); });
                if (bodies.empty()) break;
                Body& body = *bodies[rng() % bodies.size()];
                const size_t at = rng() % body.size(), other = rng() % body.size();
                const auto place = [](Body& b, size_t i) { return b.begin() + static_cast<std::ptrdiff_t>(i); };
                switch (rng() % 4) {
                    case 0:
                        body.erase(place(body, at));
                        break;
                    case 1:
                        body.insert(place(body, other), Statement(body[at]));
                        break;
                    case 2:
                        std::swap(body[at], body[other]);
                        break;
                    default: {
                        const Statement copy = body[at];
                        Body& to = *bodies[rng() % bodies.size()];
                        to.insert(place(to, rng() % (to.size() + 1)), copy);
                    }
                }
            }
            const std::string problems = told(verify(kernel));
            EXPECT_EQ(problems, told(verify(kernel)));
            refused += !problems.empty();
        }
    EXPECT_GT(refused, 300);
}

/// A scalar that gets another value differs by thread as that does: what one thread has read, all know behind a meeting.
TEST(KernelVerify, ScalarsAreSharedThroughMemory) {
    const auto kernel = [](bool all, bool as_text, bool under_condition) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        b.declare("int", "v");
        b.open_block();
        as_text ? b.line("v = atomic_add(t == 0, word);") : b.call(K::atomic_get, {m.i32("v"), m.other("atomic_add"), eq(m.t(), 0)});
        b.line("int* const s = (int*)shared;");
        b.line("if (t == 0) *s = v;");
        b.call(K::meet_cta);
        if (under_condition) b.open_if(gt(m.i32("n"), 0));
        if (all) as_text ? b.line("v = s[0];") : b.assign(m.i32("v"), m.at("s", m.n(0)));
        if (under_condition) b.close();
        b.close();
        b.open_if(eq(m.i32("v"), 3));
        b.call(K::meet_cta);
        b.close();
        return told(verify(m.kernel));
    };
    for (const bool as_text : {false, true}) {
        EXPECT_EQ(kernel(true, as_text, false), "");
        EXPECT_NE(kernel(false, as_text, false).find("gone different ways"), std::string::npos);
        EXPECT_NE(kernel(true, as_text, true).find("gone different ways"), std::string::npos);
    }
}

/// A scalar is the same in all threads where what is loaded lies at one address, or where a reduction has made it.
TEST(KernelVerify, LoadsAndReductionsGiveOneScalar) {
    const auto kernel = [](bool one_address, bool loaded, bool reduced) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        b.declare("int", "x", 2);
        b.declare("int", "v", 0, {}, reduced);
        const Ex address = m.other("from") + (one_address ? m.i32("n") : m.t());
        if (loaded) b.call(K::load, {m.i32("v"), m.other("load_int"), address});
        else b.assign(m.i32("v"), m.at("x", m.n(1)));
        b.open_if(eq(m.i32("v"), 3));
        b.call(K::meet_cta);
        b.close();
        return told(verify(m.kernel));
    };
    EXPECT_EQ(kernel(true, true, false), "");
    EXPECT_NE(kernel(false, true, false).find("gone different ways"), std::string::npos);
    EXPECT_EQ(kernel(true, false, true), "");
    EXPECT_NE(kernel(true, false, false).find("gone different ways"), std::string::npos);
}

/// What a const pointer points at may be written, the pointer itself not.
TEST(KernelVerify, MemoryBehindConstPointers) {
    const auto kernel = [](const auto& place) {
        Pool pool;
        Maker m(pool);
        m.b.let("unsigned char* const", "s", m.other("shared") + m.n(16));
        m.b.assign(place(m, pool), m.n(1));
        return told(verify(m.kernel));
    };
    EXPECT_EQ(kernel([](Maker& m, Pool& pool) { return pool.pointee(Type::other, "unsigned", m.other("s") + m.t() * 4); }), "");
    EXPECT_EQ(kernel([](Maker& m, Pool& pool) { return pool.index(Type::other, pool.text(Type::other, "((short*)s)", true), m.t()); }), "");
    EXPECT_EQ(kernel([](Maker& m, Pool&) { return m.at("s", m.t()); }), "");
    EXPECT_NE(kernel([](Maker& m, Pool&) { return m.other("s"); }).find("s is const"), std::string::npos);
}

/// Who returns early keeps a stage that it has taken, where no other CTA waits for it. What it fills nobody awaits.
TEST(KernelVerify, StagesOfThreadsThatReturnEarly) {
    enum class Returns { never, filling, taking };
    const auto kernel = [](Returns returns, bool peers) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        m.kernel.threads = 160;
        m.kernel.rings.push_back({"a", 2, "full", "empty", peers ? "peer_empty" : "", "put", "put_phase", "get", "get_phase"});
        b.let("unsigned", "full", m.shared(m.n(4096)));
        b.let("unsigned", "empty", m.u32("full") + 16);
        const Ex given = m.u32(peers ? "peer_empty" : "empty");
        m.barriers("full", "empty", 2, 4);
        if (peers) b.let("unsigned", "peer_empty", pool.call(Type::u32, "address_in_cluster", {m.u32("empty"), m.u32("first")}));
        b.call(peers ? K::cluster_arrive : K::meet_cta);
        if (peers) b.call(K::cluster_wait);
        const auto leave = [&](Returns now) {
            if (returns != now) return;
            b.open_if(gt(m.i32("n"), 0));
            b.leave();
            b.close();
        };
        b.open_role({"producer", 128, 160, 0, ge(m.t(), 128), {}});
        b.open_if(eq(m.t(), 128));
        m.counters({"put", "put_phase"});
        b.call(K::mbarrier_wait, {m.u32("empty") + m.u32("put") * 8, m.u32("put_phase") ^ 1});
        b.call(K::mbarrier_expect, {m.u32("full") + m.u32("put") * 8, m.n(4096)});
        leave(Returns::filling);
        b.call(K::tma_load, {m.other("tma_load"), m.shared(m.u32("put") * 2048), m.other("map"), m.u32("full") + m.u32("put") * 8, m.n(0)});
        b.call(K::advance, {m.u32("put"), m.n(2), m.u32("put_phase")});
        b.close();
        b.next_role({"consumers", 0, 128, 0, {}, {}});
        m.counters({"get", "get_phase"});
        b.call(K::mbarrier_wait, {m.u32("full") + m.u32("get") * 8, m.u32("get_phase")});
        leave(Returns::taking);
        b.call(K::meet_warp);
        b.when(eq(m.lane(), 0));
        b.call(peers ? K::mbarrier_arrive_at : K::mbarrier_arrive, {given + m.u32("get") * 8});
        b.call(K::advance, {m.u32("get"), m.n(2), m.u32("get_phase")});
        b.close();
        return told(verify(m.kernel));
    };
    const char* reason = "ends with a stage of the ring a";
    for (const bool peers : {false, true}) {
        EXPECT_EQ(kernel(Returns::never, peers), "");
        EXPECT_NE(kernel(Returns::filling, peers).find(reason), std::string::npos);
    }
    EXPECT_EQ(kernel(Returns::taking, false), "");
    EXPECT_NE(kernel(Returns::taking, true).find(reason), std::string::npos);
}

/// Some programs end early; what they have is given back there, too.
TEST(KernelVerify, SomeProgramsEndEarly) {
    const auto kernel = [](bool gives, bool stores) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        m.kernel.arch = 100;
        const auto give = [&] {
            b.when(lt(m.t(), 32));
            b.call(K::tensor_give, {m.n(64), m.u32("columns")});
        };
        b.when(lt(m.t(), 32));
        b.call(K::tensor_take, {m.n(64), m.u32("place")});
        b.call(K::meet_cta);
        b.let("unsigned", "columns", m.u32("place") + 1);
        b.open_if(gt(m.i32("n"), 0));
        if (stores) b.call(K::tensor_store, {m.other("store_x4"), m.other("v"), m.u32("columns")});
        if (gives) give();
        b.leave();
        b.close();
        give();
        return told(verify(m.kernel));
    };
    EXPECT_EQ(kernel(true, false), "");
    EXPECT_NE(kernel(false, false).find("is not awaited before the kernel ends"), std::string::npos);
    EXPECT_NE(kernel(true, true).find("tensor_store store_x4, v, columns;: is not awaited"), std::string::npos);
}

/// Of a ring of one stage no counter says which one is next: it may be filled under a condition.
TEST(KernelVerify, RingsOfOneStage) {
    const auto kernel = [](bool awaits, bool meets) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        m.kernel.rings.push_back({"a", 1, "", "", "", "put", "", "get", "", "", "ahead"});
        m.counters({"ahead"});
        m.trips("k", m.i32("tiles"));
        b.open_if(some(m));
        b.call(K::copy_async, {m.u32("to"), m.other("from"), m.n(16)});
        b.call(K::count_put, {m.u32("ahead")});
        b.call(K::copy_commit);
        b.close();
        if (awaits) b.call(K::copy_wait, {m.i32("ahead") - 1});
        if (meets) b.call(K::meet_cta);
        b.call(K::count_get, {m.u32("ahead")});
        b.close();
        return told(verify(m.kernel));
    };
    EXPECT_EQ(kernel(true, true), "");
    EXPECT_NE(kernel(false, true).find("takes a stage whose copies are not awaited"), std::string::npos);
    EXPECT_NE(kernel(true, false).find("takes a stage before threads have met"), std::string::npos);
}

/// Who reads only what it has copied itself reads it at once: nobody gives a stage back.
TEST(KernelVerify, OwnRings) {
    for (const bool own : {true, false}) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        m.kernel.rings.push_back({"a", 2, "", "", "", "put", "", "get", "", "release", "ahead", own});
        m.counters({"put", "get", "ahead"});
        m.trips("k", m.i32("tiles"));
        b.call(K::count_put, {m.u32("ahead")});
        b.call(K::advance_stage, {m.u32("put"), m.n(2)});
        b.call(K::meet_cta);
        b.call(K::count_get, {m.u32("ahead")});
        b.call(K::advance_stage, {m.u32("get"), m.n(2)});
        b.close();
        EXPECT_EQ(told(verify(m.kernel)).find("takes more stages than there are") == std::string::npos, own);
    }
}

/// One thread waits, multiplies and gives back for all, and what is known of its number decides other conditions.
TEST(KernelVerify, OneThreadDoesItForAll) {
    const auto kernel = [](bool waits, bool gives, int64_t threads) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        m.kernel.arch = 100;
        m.kernel.threads = 160;
        m.kernel.rings.push_back({"a", 2, "full", "empty", "", "put", "put_phase", "get", "get_phase"});
        b.let("unsigned", "full", m.shared(m.n(65536)));
        b.let("unsigned", "empty", m.u32("full") + 16);
        b.let("unsigned", "products", m.u32("full") + 32);
        m.barriers("full", "empty", 2, 1);
        b.when(eq(m.t(), 0));
        b.call(K::mbarrier_init, {m.u32("products"), m.n(5)});
        b.call(K::mbarrier_init_fence);
        b.when(lt(m.t(), 32));
        b.call(K::tensor_take, {m.n(64), m.u32("place")});
        b.call(K::meet_cta);
        b.open_role({"producer", 128, 160, 0, ge(m.t(), 128), {}});
        b.next_role({"consumers", 0, 128, 0, {}, {}});
        m.counters({"get", "get_phase", "product_phase"});
        m.trips("k", m.i32("tiles"));
        if (waits) {
            b.when(eq(m.t(), 0));
            b.call(K::mbarrier_wait, {m.u32("full") + m.u32("get") * 8, m.u32("get_phase")});
        }
        b.when(eq(m.t(), 0));
        b.call(K::tensor_product, {m.other("tcgen05_m128"), m.u32("columns"), m.u64("a"), m.u64("b")});
        if (gives) {
            b.when(eq(m.t(), 0));
            b.call(K::products_commit, {m.u32("empty") + m.u32("get") * 8});
        }
        b.call(K::advance, {m.u32("get"), m.n(2), m.u32("get_phase")});
        b.close();
        b.call(K::products_wait, {m.t(), m.u32("products"), m.u32("product_phase")});
        b.close();
        b.open_if(lt(m.t(), threads));
        b.when(lt(m.t(), 32));
        b.call(K::tensor_give, {m.n(64), m.u32("columns")});
        b.close();
        return told(verify(m.kernel));
    };
    EXPECT_EQ(kernel(true, true, 128), "");
    EXPECT_NE(kernel(false, true, 128).find("gives back a stage that has not been taken"), std::string::npos);
    EXPECT_NE(kernel(true, false, 128).find("moves on before the stage is given back"), std::string::npos);
    EXPECT_NE(kernel(true, true, 16).find("is not awaited before the kernel ends"), std::string::npos);
}

/// Boxes that lie side by side take turns.
TEST(KernelVerify, PlacesSideBySide) {
    const auto kernel = [](int64_t second, int newer) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        b.let("unsigned", "area", m.shared(m.n(2048)));
        b.let("unsigned", "at", m.lane() * 16);
        const auto box = [&](int64_t offset) {
            b.call(K::stmatrix_x2, {m.u32("area") + offset + (m.u32("at") ^ 32), m.u32("a"), m.u32("b")});
            b.call(K::fence_async);
            b.call(K::meet_warp);
            b.call(K::tma_store, {m.other("tma_store"), m.lane(), m.other("map"), m.u32("area") + offset, m.n(0)});
        };
        box(0);
        box(second);
        b.call(K::tma_store_read, {m.n(newer)});
        box(0);
        b.call(K::tma_store_done);
        return told(verify(m.kernel));
    };
    EXPECT_EQ(kernel(512, 1), "");
    EXPECT_NE(kernel(512, 2).find("area is read by work that is on its way"), std::string::npos);
    EXPECT_NE(kernel(0, 0).find("area is read by work that is on its way"), std::string::npos);
}

/// What surrounds the statements may have initialised a barrier that they do not declare.
TEST(KernelVerify, BarriersOfTheSurroundings) {
    for (const bool declared : {false, true}) {
        Pool pool;
        Maker m(pool);
        if (declared) m.b.let("unsigned", "ready", m.shared(m.n(512)));
        m.b.call(K::mbarrier_wait, {m.u32("ready") + m.u32("get") * 8, m.n(0)});
        EXPECT_EQ(told(verify(m.kernel)).find("the barrier has not been initialised") != std::string::npos, declared);
    }
}

/// Of which nothing is to be said: text that does the work, conditions that belong together, names of parameters.
TEST(KernelVerify, NothingIsSaidOfWhatTextDoes) {
    Pool pool;
    Maker m(pool);
    Builder& b = m.b;
    m.kernel.rings.push_back({"a", 2, "full", "empty", "", "put", "put_phase", "get", "get_phase"});
    b.line("mbarrier_init(full, 1);");
    b.call(K::mbarrier_wait, {m.u32("full"), m.n(0)});
    b.call(K::mbarrier_wait, {m.u32("full"), m.n(0)});
    b.line("copy_async_commit();");
    b.call(K::copy_async, {m.u32("to"), m.other("from"), m.n(16)});
    m.trips("r", m.n(4));
    b.line("sum[r] += v[7] * r;  // x");
    b.close();
    b.declare("float", "x", 2);
    m.trips("x", m.n(2));
    b.line("f(x, a * x, s.x, p->x);");
    b.close();
    b.line("if (x[0] > 1.0f) x[1] = 2e3f;");
    b.open_if(ge(pool.uniform(Type::i32, "first_lane", {m.t() >> 5}), 2));
    b.call(K::meet_warp);
    b.close();
    b.open_for({});
    b.call(K::meet_cta);
    b.break_if(m.i32("last"));
    b.break_if(negation(pool.text(Type::pred, "i < n", false)));  // a text that ends with a name
    b.close();
    b.call(K::store, {m.other("store4"), pool.text(Type::other, "(int)width - height", false)});
    EXPECT_EQ(told(verify(m.kernel)), "");
}

/// A group of copies is on its way for each trip that has not been waited for, as far as loops are followed.
TEST(KernelVerify, GroupsOfLoopsAreCounted) {
    for (const int64_t newer : {0, 1, 2, 3}) {
        Pool pool;
        Maker m(pool);
        Builder& b = m.b;
        b.let("unsigned", "to", m.shared(m.n(0)));
        b.call(K::copy_async, {m.u32("to"), m.other("from"), m.n(16)});
        b.call(K::copy_commit);
        m.trips("k", m.n(3));
        b.call(K::copy_commit);
        b.close();
        b.call(K::copy_wait, {m.n(newer)});
        b.call(K::store_shared, {m.other("uint4"), m.u32("to"), m.other("zeros")});
        b.call(K::copy_wait, {m.n(0)});
        EXPECT_EQ(told(verify(m.kernel)), "");
    }
    Pool pool;
    Maker m(pool);
    m.b.let("unsigned", "to", m.shared(m.n(0)));
    m.b.call(K::copy_async, {m.u32("to"), m.other("from"), m.n(16)});
    m.b.call(K::copy_commit);
    m.trips("k", m.n(3));
    m.b.call(K::copy_commit);
    m.b.close();
    m.b.call(K::copy_wait, {m.n(4)});
    m.b.call(K::store_shared, {m.other("uint4"), m.u32("to"), m.other("zeros")});
    m.b.call(K::copy_wait, {m.n(0)});
    EXPECT_NE(told(verify(m.kernel)).find("to is filled"), std::string::npos);
}

/// Ten thousand statements, loops in loops among them: what the verifier does grows with their number.
TEST(KernelVerify, LargeKernels) {
    const auto visit = [](int blocks) {
        Pool pool;
        Kernel kernel = overlapped(pool);
        Maker m(pool);
        for (int k = 0; k < blocks; ++k) {
            m.b.open_block();
            m.b.declare("float", "v", 32);
            m.b.let("int", "x", m.t() >> 5);
            const Ex r = m.b.open_count("r", 32);
            m.b.assign(m.at("v", r), pool.call(Type::other, "f", {m.at("v", r), m.i32("x") * 8 + m.i32("y" + std::to_string(k))}));
            m.b.line("v[r] += w[" + std::to_string(k) + "];");
            m.b.open_if(lt(m.i32("x"), 3));
            m.b.call(K::meet_warp);
            m.b.close();
            m.b.close();
            m.b.close();
        }
        int skip = 0;
        const auto [body, at] = find(kernel.body, "wgmma_wait", skip);
        body->insert(body->begin() + static_cast<std::ptrdiff_t>(at) + 1, m.kernel.body.begin(), m.kernel.body.end());
        const auto start = std::chrono::steady_clock::now();
        EXPECT_EQ(told(verify(kernel)), "");
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const double few = visit(100), many = visit(1400);
    RecordProperty("milliseconds", std::to_string(few * 1e3) + " and " + std::to_string(many * 1e3));
    EXPECT_LT(many, 1.0);
}

}  // namespace
}  // namespace tegula::kernel
