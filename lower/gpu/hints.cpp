// What becomes of each hint (hints.h). The facts are read off the form where the passes decide, and are those of emission where it does.
#include "lower/gpu/hints.h"

#include <algorithm>
#include <bit>

#include "lang/gpu/caching.h"
#include "lang/gpu/hints.h"
#include "lang/gpu/raster.h"
#include "lang/gpu/split_loop.h"
#include "lower/gpu/place.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int64_t kMaxWarps = 32, kSpecialiseOn = 1;

class Notes {
public:
    Notes(const Function& fn, const Function& form) : fn_(fn), form_(form) {}
    std::vector<HintNote> run();

private:
    void ignored(const std::string& why) { out_.push_back({hint_->name, loop_, {}, why}); }
    void adjusted(int64_t value, const std::string& why) {
        out_.push_back({hint_->name, loop_, hint_->name + "(" + std::to_string(value) + ")", why});
    }
    int64_t argument() const { return hint_->args.empty() ? 0 : hint_->args[0]; }
    void kernel_hint();
    void loop_hint(InstId loop);
    void split_k();
    void decode();
    void cluster();
    void pipeline(InstId loop);
    void caching(InstId access);

    const Function &fn_, &form_;
    const Hint* hint_ = nullptr;
    Span loop_;
    std::vector<HintNote> out_;
};

void Notes::split_k() {
    if (argument() == 1 && hint_->key.empty()) return;
    bool split = false;
    fn_.walk([&](InstId i) { split = split || is_split_loop(fn_, fn_.inst(i)); });
    if (!split) return ignored(split_k_problem(fn_));
    std::string why;
    if (!parallel_split(form_, &why) && !why.empty()) ignored("its stretches are run one after the other, because " + why);
}

void Notes::decode() {
    const Decode where = decode_hint(fn_);
    if (where == Decode::automatic) return;
    bool any = false, by_threads = false, from_shared = false;
    form_.walk([&](InstId i) {
        const Inst& dot = form_.inst(i);
        if (!is_product(dot.op)) return;
        for (size_t o = 0; o < 2; ++o) {
            if (!is_decoded(form_, dot, o)) continue;
            any = true;
            by_threads = by_threads || !product_row(form_, i).tensor_core();
            from_shared = from_shared || form_.placement(form_.operands(dot)[o]).kind == Placement::shared;
        }
    });
    if (!any) return ignored("no operand of a product is decoded from narrower elements");
    if (by_threads) return ignored("the product is computed without tensor cores");
    if (from_shared && where == Decode::in_registers) ignored("the product reads an operand that is decoded from shared memory");
}

void Notes::cluster() {
    const std::array<int, 3>& got = form_.gpu->cluster;
    bool all = true;
    for (size_t d = 0; d < hint_->args.size(); ++d) all = all && hint_->args[d] == got[d];
    if (all) return;
    if (form_.gpu->cluster_size() == 1) return ignored(cluster_problem(form_));
    std::string instead;
    for (size_t d = 0; d < hint_->args.size(); ++d) instead += (d ? ", " : "") + std::to_string(got[d]);
    out_.push_back({hint_->name, loop_, "cluster(" + instead + ")", "programs along the other axes have no tiles in common"});
}

void Notes::kernel_hint() {
    const std::string& name = hint_->name;
    if (name == "split_k") return split_k();
    if (name == "stream_k")
        return ignored("sums are cut into equal stretches only (`split_k`), as their order must not depend on the number of processors");
    if (name == "persistent") {
        const std::string why = persist_problem(fn_);
        if (!form_.gpu->persistent) ignored(why.empty() ? "a load that is copied ahead may read what another program stores" : why);
        return;
    }
    if (name == "swizzle" && argument() < 1) return ignored("it takes a positive number");
    if (name == "swizzle") {
        std::string why;
        if (program_groups(form_, &why) == 0) ignored(why);
        return;
    }
    if (name == "cluster") return cluster();
    if (name == "shared" || name == "reg" || name.starts_with("mma_")) return ignored("the compiler places every tile itself");
    if (name == "registers") {
        const RegisterBound bound = register_bound(form_);
        if (!bound.why.empty()) bound.most ? adjusted(bound.most, bound.why) : ignored(bound.why);
        return;
    }
    if (name == "decode") return decode();
    if (name == "specialise" && argument() == kSpecialiseOn && !form_.gpu->specialised)
        return ignored("no load of the kernel is a bulk copy in a loop");
    if (name != "warps" || form_.gpu->warps == argument()) return;
    if (argument() < 1) return ignored("it takes 1 to 32");
    const bool rounded = argument() <= kMaxWarps && !std::has_single_bit(static_cast<uint64_t>(argument()));
    adjusted(form_.gpu->warps, argument() > kMaxWarps ? "a program has at most 32 warps"
                               : rounded              ? "the number of warps is a power of two"
                                                      : "the instruction that sums its fp8 product takes 4 or more");
}

void Notes::pipeline(InstId loop) {
    int stages = 0;
    form_.walk(form_.blocks(form_.inst(loop))[0], [&](InstId i) {
        const Inst& inst = form_.inst(i);
        if (inst.op != Op::channel_get) return;
        for (const auto& [value, channel] : form_.gpu->channels)
            if (value == form_.operands(inst)[0].v) stages = stages ? std::min(stages, channel.stages) : channel.stages;
    });
    const int64_t wanted = argument();
    if (wanted < 1) return ignored("it takes a positive number");
    if (stages == wanted) return;
    if (!stages && wanted == 1) return;
    if (!stages) return ignored("no load in the loop is copied ahead");
    adjusted(stages, wanted > stages ? "shared memory has no room for more stages" : "a ring has at least this many stages");
}

void Notes::loop_hint(InstId loop) {
    if (hint_->name == "pipeline") return pipeline(loop);
    if (hint_->name == "parallel") return ignored("trips of a loop are run one after the other");
    if (hint_->name != "unroll") return;
    const Unrolling u = unrolling(form_, form_.inst(loop));
    if (!u.why.empty()) u.copies > 1 ? adjusted(u.copies, u.why) : ignored(u.why);
}

/// Copies of one load are made in several places: one note.
void Notes::caching(InstId access) {
    const CachingForm form = caching_form(form_, access);
    const auto note = [&](const char* name, const std::string& why) {
        const Span at = form_.inst(access).span;
        const bool known = std::any_of(out_.begin(), out_.end(), [&](const HintNote& n) { return n.hint == name && n.place == at && n.why == why; });
        if (!why.empty() && !known) out_.push_back({name, at, {}, why});
    };
    note("cache", form.cache_problem);
    note("evict", form.evict_problem);
}

std::vector<HintNote> Notes::run() {
    for (const Hint& h : fn_.hints) {
        hint_ = &h;
        kernel_hint();
    }
    // Loops of the part that computes: the producer's are copies of them.
    BlockId body = form_.body;
    for (InstId i : form_.block(body).insts)
        if (form_.inst(i).op == Op::specialise) body = form_.blocks(form_.inst(i))[1];
    form_.walk(body, [&](InstId i) {
        const Inst& inst = form_.inst(i);
        if (inst.op != Op::for_loop && inst.op != Op::while_loop) return;
        loop_ = inst.span;
        for (const Hint& h : form_.hints_of(inst)) {
            hint_ = &h;
            loop_hint(i);
        }
    });
    form_.walk([&](InstId i) { caching(i); });
    return std::move(out_);
}

}  // namespace

bool has_doubtful_hints(const ir::Function& fn) {
    const auto doubtful = [](const Hint& h) { return h.name != "math" && h.name != "subnormals" && h.name != "cooperative"; };
    bool asks_caches = false;
    fn.walk([&](InstId i) { asks_caches = asks_caches || fn.caching(fn.inst(i)).any(); });
    if (asks_caches) return true;
    return std::any_of(fn.hints.begin(), fn.hints.end(), doubtful) ||
           std::any_of(fn.loop_hints.begin(), fn.loop_hints.end(), [&](const auto& list) { return std::any_of(list.begin(), list.end(), doubtful); });
}

std::vector<HintNote> unfollowed_hints(const ir::Function& fn, const ir::Function& form) { return Notes(fn, form).run(); }

}  // namespace tegula
