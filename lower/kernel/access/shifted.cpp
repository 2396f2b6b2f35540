// Loads and stores of vectors that may start at any element of memory, for elements narrower than a word: rows of a
// tensor that is not aligned. Aligned words of memory are read and shifted into place; they are written whole where all
// of their elements are at hand, the first word of a vector together with the last elements of the lane before. Words
// that are not wholly inside, or reach beyond the tensor, are left to single elements: nothing outside is written or
// read, but for bytes of the first word before a vector.
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

namespace {

constexpr const char* kFunnel =
    R"(// 32 of 64 bits, from bit `by` of the lower word on, or `by` bits before the upper one; by < 32.
__device__ __forceinline__ unsigned $_down(unsigned low, unsigned high, int by) {
    return __funnelshift_r(low, high, by);
}
__device__ __forceinline__ unsigned $_up(unsigned low, unsigned high, int by) {
    return __funnelshift_l(low, high, by);
}
)";

constexpr const char* kRead = R"(// The words that hold a vector; `from` is aligned.
template <int kWords>
__device__ __forceinline__ void $(const void* from, unsigned* word) {
    #pragma unroll
    for (int i = 0; i <= kWords; ++i) word[i] = LOAD((const unsigned*)from + i);
}
)";
constexpr const char* kPlace =
    R"(// What such words would be for a vector that is known already and starts `before` bytes into the first one.
template <int kWords>
__device__ __forceinline__ void $(const unsigned* vector, int before, unsigned* word) {
    word[0] = FUNNEL_up(0, vector[0], 8 * before);
    #pragma unroll
    for (int i = 1; i < kWords; ++i) word[i] = FUNNEL_up(vector[i - 1], vector[i], 8 * before);
    word[kWords] = FUNNEL_up(vector[kWords - 1], 0, 8 * before);
}
)";
constexpr const char* kWrite =
    R"(// Writes the bytes [begin, end) of a vector; the lane before (behind) holds the one before (behind) it where it
// joins.
template <int kWords>
__device__ __forceinline__ void $(void* to, const unsigned* word, int begin, int end, bool joins_before,
                                  bool joins_behind) {
    constexpr int kBytes = 4 * kWords, kSize = sizeof(TYPE);
    const int before = (int)((unsigned long long)to & 3), head = 4 - before;
    const unsigned left = FUNNEL_up(__shfl_up_sync(0xffffffffu, word[kWords - 1], 1), word[0], 8 * before);
    unsigned char* const at = (unsigned char*)to - before;
    const bool joined = (before == 0 || joins_before) && begin <= -before;
    if (begin <= 0 && end >= kBytes) {
        if (joined) STORE(at, left);
        #pragma unroll
        for (int i = 1; i < kWords; ++i) STORE(at + 4 * i, FUNNEL_up(word[i - 1], word[i], 8 * before));
        const bool leaves = before == 0 || (joins_behind && end >= kBytes + head);
        #pragma unroll
        for (int p = 0; p < 4 - kSize; p += kSize) {
            SINGLE((unsigned char*)to + p, (TYPE)(word[0] >> 8 * p), !joined && p < head);
            SINGLE((unsigned char*)to + kBytes - kSize - p, (TYPE)(word[kWords - 1] >> (32 - 8 * kSize - 8 * p)),
                   !leaves && p < before);
        }
    } else if (end > 0) {
        const bool first = joined && end >= head;
        if (first) STORE(at, left);
        #pragma unroll
        for (int p = 0; p < kBytes; p += kSize)
            SINGLE((unsigned char*)to + p, (TYPE)(word[p / 4] >> 8 * (p % 4)),
                   p >= begin && p < end && !(first && p < head));
    }
}
)";
constexpr const char* kReach = R"(// How many elements of a tensor's dimension lie from `start` on, `most` at most.
__device__ __forceinline__ int $(long long start, long long size, int most) {
    const unsigned long long rest = (unsigned long long)size - (unsigned long long)start;
    return start >= size ? 0 : rest < (unsigned long long)most ? (int)rest : most;
}
)";

/// How many lanes that follow each other hold vectors that do: a power of two.
int joined_lanes(const TileLayout& l, int d, int vector) {
    int lanes = 1;
    for (int b = 0; b < 5; ++b, lanes *= 2) {
        const TileLayout::Point p = l.point(0, 1 << b, 0);
        for (int e = 0; e < l.shape.rank; ++e)
            if (p[static_cast<size_t>(e)] != (e == d ? int64_t{vector} << b : 0)) return lanes;
    }
    return lanes;
}

}  // namespace

std::string funnel(Lowering& ctx) { return support(ctx, "funnel", "funnel", kFunnel); }

/// Reads first, shifts later: the words of all vectors are under way at once.
void load_shifted(Lowering& ctx, const Part& part, Ex wide) {
    const ir::ValueId v = part.value;
    const auto a = static_cast<size_t>(part.vectors.axis);
    const Part::Axis& axis = part.axes[a];
    const int bytes = part.vectors.length * static_cast<int>(ctx.fn.elem(part.tensor).container_bytes()),
              words = bytes / 4;
    const std::string size = std::to_string(ctx.fn.elem(part.tensor).container_bytes()), funnels = funnel(ctx);
    const Ex count = ctx.pool.number(words);
    const Ex read =
        named(ctx, support(ctx, "read words" + part.caching.stem, "read_words",
                           replaced(kRead, "LOAD", access_function(ctx, "unsigned", true, false, part.caching))));
    const Ex place = named(ctx, support(ctx, "place words", "place_words", replaced(kPlace, "FUNNEL", funnels)));
    const std::string reach_name = ctx.out.fresh("reach"), word_name = ctx.out.fresh("word");
    const Ex reach = int32(ctx, reach_name), word = named(ctx, word_name);
    const Ex low = axis.low ? axis.low : ctx.pool.number(0);
    const std::string reaches = support(ctx, "reach", "reach", kReach);
    ctx.out.let("int", reach_name,
                ctx.pool.call(kernel::Type::i32, reaches,
                              {axis.start, extent(ctx, part.tensor, part.vectors.axis),
                               ctx.pool.number(part.access.axes[a].extent + part.vectors.length)}));
    ctx.out.declare("unsigned", word_name, registers(ctx, v) / part.vectors.length * (words + 1));
    // In integers: what is the same for all vectors is then found to be.
    const auto before_of = [&](Ex r) {
        const std::string before = ctx.out.fresh("before"), offset = part_offset(ctx, part, r).text();
        ctx.out.let("int", before,
                    raw(ctx, "(int)((unsigned)(unsigned long long)" + name(ctx, part.tensor) + " + (unsigned)(" +
                                 offset + ") * " + size + "u & 3u)"));
        return int32(ctx, before);
    };
    const auto words_of = [&](Ex r) { return raw(ctx, word + " + " + (r / part.vectors.length * (words + 1)).text()); };
    by_vectors(ctx, part, [&](Ex r) {
        const std::string edge_name = ctx.out.fresh("edge");
        const Ex before = before_of(r), edge = named(ctx, edge_name);
        const Ex at = coordinate(ctx, layout(ctx, v), axis.dim, r),
                 bytes_left = (reach - at) * static_cast<int64_t>(ctx.fn.elem(part.tensor).container_bytes());
        const Ex inside = both(ge(at, low), ge(bytes_left, ctx.pool.number(bytes + 4) - before));
        ctx.out.open_if(both(part_condition(ctx, part, r, true, part.vectors.axis), inside));
        const std::string offset = part_offset(ctx, part, r).text();
        const Ex from = raw(ctx, "(const unsigned char*)" + name(ctx, part.tensor) + " + ((" + offset + ") * " + size +
                                     " - " + before + ")");
        ctx.out.call(KernelOp::load_words, {read, count, from, words_of(r)});
        ctx.out.otherwise();
        ctx.out.declare("alignas(16) " + type_of(ctx, v), edge_name, part.vectors.length);
        each(ctx, part.vectors.length, [&](Ex i) { load_element(ctx, part, r + i, element(edge, i), true); });
        ctx.out.call(KernelOp::place_words, {place, count, raw(ctx, "(const unsigned*)" + edge), before, words_of(r)});
        ctx.out.close();
    });
    by_vectors(ctx, part, [&](Ex r) {
        const Ex before = before_of(r), to = raw(ctx, "((unsigned*)(" + wide + " + " + r + "))");
        each(ctx, words, [&](Ex i) {
            const std::string from = words_of(r) + "[" + i;
            ctx.out.assign(raw(ctx, to.text() + "[" + i + "]"),
                           raw(ctx, funnels + "_down(" + from + "], " + from + " + 1], 8 * " + before + ")"));
        });
    });
}

void store_shifted(Lowering& ctx, const Part& part) {
    const ir::ValueId v = part.value;
    const auto a = static_cast<size_t>(part.vectors.axis);
    const Part::Axis& axis = part.axes[a];
    const size_t size_of_element = ctx.fn.elem(part.tensor).container_bytes();
    const std::string size = std::to_string(size_of_element),
                      single = size_of_element == 2 ? "unsigned short" : "unsigned char";
    std::string text = replaced(replaced(kWrite, "FUNNEL", funnel(ctx)), "TYPE", single);
    text = replaced(text, "SINGLE", access_function(ctx, single, false, true, part.caching));
    text = replaced(text, "STORE", access_function(ctx, "unsigned", false, false, part.caching));
    const Ex write = named(ctx, support(ctx, "write words " + single + part.caching.stem, "write_words", text));
    const Ex count = ctx.pool.number(part.vectors.length * static_cast<int64_t>(size_of_element) / 4);
    const int lanes = joined_lanes(layout(ctx, v), axis.dim, part.vectors.length);
    const Ex lane = ctx.thread & (lanes - 1), low = axis.low ? axis.low : ctx.pool.number(0);
    const Ex stop = axis.count ? axis.low + axis.count : ctx.pool.number(part.access.axes[a].extent);
    converge(ctx);
    by_vectors(ctx, part, [&](Ex r) {
        const Ex condition = part_condition(ctx, part, r, true, part.vectors.axis);
        const Ex ok = both(owns(ctx, layout(ctx, v), r), condition);
        const Ex wide = array(ctx, "alignas(16) " + type_of(ctx, v), "wide", part.vectors.length);
        each(ctx, part.vectors.length, [&](Ex i) { ctx.out.assign(element(wide, i), element_at(ctx, v, r + i)); });
        const Ex place = coordinate(ctx, layout(ctx, v), axis.dim, r),
                 bytes = ctx.pool.number(static_cast<int64_t>(size_of_element));
        const std::string offset = part_offset(ctx, part, r).text();
        ctx.out.call(KernelOp::store_words, {write, count, raw(ctx, name(ctx, part.tensor) + " + (" + offset + ")"),
                                             raw(ctx, "(const unsigned*)" + wide), (low - place) * bytes,
                                             ctx.pool.select(ok, (stop - place) * bytes, ctx.pool.number(0)),
                                             ne(lane, 0), ne(lane, lanes - 1)});
    });
}

}  // namespace tegula::lower
