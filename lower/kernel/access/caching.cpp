// What accesses ask of caches (lang/gpu/caching.h) as PTX: operations and priorities behind ld and st, policies of the
// second cache as operands of them and of copies by TMA. A policy is made where it is used; compilers make one of all
// that are equal.
#include <algorithm>

#include "lang/gpu/caching.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Evict;

namespace {

constexpr const char* kPolicy = R"(__device__ __forceinline__ unsigned long long $() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_ORDER.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
)";
constexpr const char* kCopyAll = R"(// As copy_async<WIDTH>, and into the first cache.
__device__ __forceinline__ void $(unsigned to, const void* from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], WIDTH, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
)";
constexpr const char* kOperations[] = {"", ".ca", ".cg", ".cs", ".cv", ".wb", ".wt"};  // by CacheOp
constexpr const char* kHint = ".L2::cache_hint";

const char* word(Evict order) { return order == Evict::first ? "first" : "last"; }

}  // namespace

std::string policy(Lowering& ctx, Evict order) {
    const std::string name = std::string("policy_") + word(order);
    return support(ctx, name, name, replaced(kPolicy, "ORDER", word(order))) + "()";
}

CachingText plain_caching(Lowering& ctx, ir::InstId access) {
    const CachingForm form = plain_caching_form(ctx.fn, access);
    CachingText out;
    out.suffix = kOperations[static_cast<size_t>(form.operation)];
    if (form.first != Evict::open) out.suffix = std::string(".L1::evict_") + word(form.first);
    if (form.second != Evict::open) {
        out.suffix += kHint;
        out.policy = policy(ctx, form.second);
    }
    out.stem = out.suffix;
    std::replace_if(out.stem.begin(), out.stem.end(), [](char c) { return c == '.' || c == ':'; }, '_');
    if (!out.policy.empty()) out.stem += std::string("_") + word(form.second);
    return out;
}

std::string copy_function(Lowering& ctx, ir::InstId put, int bytes) {
    const bool all = caching_form(ctx.fn, put).operation == CacheOp::ca;
    const std::string width = number(bytes);
    return all ? support(ctx, "copy_async_ca " + width, "copy_async_ca", replaced(kCopyAll, "WIDTH", width)) : "";
}

std::string bulk_function(Lowering& ctx, ir::InstId access, Bulk kind, size_t rank) {
    const CachingForm form = caching_form(ctx.fn, access);
    const bool store = kind == Bulk::store, several = kind == Bulk::multicast, hinted = form.second != Evict::open;
    // Operands: what every copy has, the mask of a multicast, the policy, and the coordinates.
    int operand = 3;
    const std::string mask = several ? ", %" + number(operand++) : "",
                      policy_operand = hinted ? ", %" + number(operand++) : "";
    std::string parameters, coordinates, operands = several ? ", \"h\"(mask)" : "";
    if (hinted) operands += ", \"l\"(" + policy(ctx, form.second) + ")";
    for (size_t i = 0; i < rank; ++i) {
        const std::string x = "x" + number(static_cast<int64_t>(i));
        parameters += ", int " + x;
        coordinates += (i ? ", %" : "%") + number(operand++);
        operands += ", \"r\"(" + x + ")";
    }
    const std::string plain = store     ? "tma_store"
                              : several ? "tma_multicast"
                                        : "tma_load",
                      dims = number(static_cast<int64_t>(rank)) + "d";
    const std::string hint = hinted ? kHint : "";
    std::string text = "__device__ __forceinline__ void $(";
    if (store) {
        text += "int lane, const TensorMap* map, unsigned from" + parameters +
                ") {\n    asm volatile(\n        \"{\\n.reg .pred other;\\nsetp.ne.b32 other, %0, 0;\\n@!other "
                "cp.async.bulk.tensor." +
                dims + ".global.shared::cta.bulk_group" + hint + " [%1, {" + coordinates + "}], [%2]" + policy_operand +
                ";\\n\"\n        \"@!other cp.async.bulk.commit_group;\\n}\" ::\"r\"(lane), \"l\"(map), \"r\"(from)";
    } else {
        text += std::string(several ? "unsigned short mask, " : "") +
                "unsigned to, const TensorMap* map, unsigned barrier" + parameters +
                ") {\n    asm volatile(\"cp.async.bulk.tensor." + dims +
                ".shared::cluster.global.mbarrier::complete_tx::bytes" + (several ? ".multicast::cluster" : "") + hint +
                " [%0], [%1, {" + coordinates + "}], [%2]" + mask + policy_operand +
                ";\" ::\"r\"(to), \"l\"(map), \"r\"(barrier)";
    }
    text += operands + "\n                 : \"memory\");\n}\n";
    if (hinted)
        return support(ctx, plain + "_" + word(form.second) + " " + dims, plain + "_" + word(form.second), text);
    ctx.formats.define(plain + " " + dims, replaced(text, "$", plain));
    return plain;
}

}  // namespace tegula::lower
