// Packed storage of emitted code: every width and bit offset, whole and partial runs and single elements, between two pages that may not be touched;
// and what casts make of codes that come from it.
#include "jit/cpu/block_words.h"
#include "lang/layout_text.h"
#include "lang/tensor_strides.h"
#include "tests/unit/cpu_scalars_fixture.h"
#include "tests/unit/guarded.h"
#include "tests/unit/sample.h"

namespace tegula::testing {
namespace {

using cpu::Scalars;

/// load_run, store_run, load_at, store_at, and whole runs, of one format; arguments: storage, codes in containers, first bit, count of lanes.
std::vector<ArrayJit::PlainBody> bodies(const Format& f, unsigned lanes) {
    const auto codes = [=](Scalars& s) { return s.memory_type(f, lanes); };
    const auto offsets = [=](llvm::IRBuilder<>& b, Value* first) -> std::pair<Value*, Value*> {
        std::vector<uint64_t> at, number;
        for (unsigned l = 0; l < lanes; ++l) at.push_back(uint64_t{l} * f.bits), number.push_back(l);
        if (!lanes) return {first, nullptr};
        return {b.CreateAdd(b.CreateVectorSplat(lanes, first), llvm::ConstantDataVector::get(b.getContext(), at)),
                llvm::ConstantDataVector::get(b.getContext(), number)};
    };
    return {[=](llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) {
                Value* v = s.load_run(f, fn->getArg(0), fn->getArg(2), lanes ? fn->getArg(3) : nullptr, lanes);
                b.CreateAlignedStore(s.to_memory(v, f), fn->getArg(1), llvm::Align(1));
            },
            [=](llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) {
                Value* v = s.from_memory(b.CreateAlignedLoad(codes(s), fn->getArg(1), llvm::Align(1)), f);
                const auto [at, number] = offsets(b, fn->getArg(2));
                Value* mask = number ? b.CreateICmpULT(number, b.CreateVectorSplat(lanes, fn->getArg(3))) : nullptr;
                s.store_run(f, v, fn->getArg(0), fn->getArg(2), mask);
            },
            [=](llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) {
                const auto [at, number] = offsets(b, fn->getArg(2));
                Value* mask = number ? b.CreateICmpULT(number, b.CreateVectorSplat(lanes, fn->getArg(3))) : nullptr;
                b.CreateAlignedStore(s.to_memory(s.load_at(f, fn->getArg(0), at, mask, lanes), f), fn->getArg(1), llvm::Align(1));
            },
            [=](llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) {
                const auto [at, number] = offsets(b, fn->getArg(2));
                Value* mask = number ? b.CreateICmpULT(number, b.CreateVectorSplat(lanes, fn->getArg(3))) : nullptr;
                s.store_at(f, s.from_memory(b.CreateAlignedLoad(codes(s), fn->getArg(1), llvm::Align(1)), f), fn->getArg(0), at, mask);
            },
            [=](llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) {
                Value* v = s.load_run(f, fn->getArg(0), fn->getArg(2), nullptr, lanes);
                b.CreateAlignedStore(s.to_memory(v, f), fn->getArg(1), llvm::Align(1));
            },
            [=](llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) {
                s.store_run(f, s.from_memory(b.CreateAlignedLoad(codes(s), fn->getArg(1), llvm::Align(1)), f), fn->getArg(0), fn->getArg(2), nullptr);
            }};
}

void check_loads(const Format& f, const std::vector<ArrayJit::PlainEntry>& fn, unsigned lanes, Guarded& page, unsigned shift, int64_t count) {
    const size_t width = f.container_bytes(), bytes = (shift + static_cast<size_t>(count) * f.bits + 7) / 8;
    std::vector<uint8_t> want(width * 64), got(width * 64);
    for (uint8_t* base : {page.begin(), page.end() - bytes}) {
        unpack_bits(f, base, shift, static_cast<uint64_t>(count), want.data());
        for (size_t k : {0, 2, 4}) {
            if (k == 4 && count != std::max<int64_t>(lanes, 1)) continue;
            std::fill(got.begin(), got.end(), uint8_t{0});
            fn[k](base, got.data(), shift, count);
            ASSERT_TRUE(std::equal(want.begin(), want.begin() + count * static_cast<int64_t>(width), got.begin()))
                << f.name << " at bit " << shift << ", " << count << " of " << lanes << " lanes, function " << k;
        }
    }
}

void check_stores(const Format& f, const std::vector<ArrayJit::PlainEntry>& fn, unsigned lanes, Guarded& page, unsigned shift, int64_t count) {
    const size_t width = f.container_bytes(), bytes = (shift + static_cast<size_t>(count) * f.bits + 7) / 8;
    std::mt19937_64 rng(count + 100 * shift);
    std::vector<uint64_t> codes(lanes ? lanes : 1);
    for (uint64_t& c : codes) c = extend_code(f, rng());
    std::vector<uint8_t> data = pack_containers(f, codes);
    const std::vector<uint8_t> before(page.begin(), page.end());
    for (size_t at : {size_t{0}, page.size() - bytes})
        for (size_t k : {1, 3, 5}) {
            if (k == 5 && count != std::max<int64_t>(lanes, 1)) continue;
            std::vector<uint8_t> want = before;
            pack_bits(f, data.data(), static_cast<uint64_t>(count), want.data() + at, shift);
            std::copy(before.begin(), before.end(), page.begin());
            fn[k](page.begin() + at, data.data(), shift, count);
            ASSERT_TRUE(std::equal(want.begin(), want.end(), page.begin()))
                << f.name << " at bit " << shift << ", " << count << " of " << lanes << " lanes, function " << k << " at " << at;
        }
    std::copy(before.begin(), before.end(), page.begin());
    (void)width;
}

void check(const std::vector<Format>& formats, unsigned lanes, bool plain) {
    Guarded page;
    std::mt19937_64 rng(1);
    for (uint8_t* b = page.begin(); b != page.end(); ++b) *b = static_cast<uint8_t>(rng());
    for (const Format& f : formats) {
        ArrayJit jit(plain);
        const auto fn = jit.compile_plain(bodies(f, lanes));
        for (unsigned shift = 0; shift < 8; ++shift)
            for (int64_t count : {int64_t{1}, int64_t{2}, int64_t{lanes} - 1, int64_t{lanes}}) {
                if (count < 1 || count > std::max<int64_t>(lanes, 1)) continue;
                check_loads(f, fn, lanes, page, shift, count);
                check_stores(f, fn, lanes, page, shift, count);
            }
    }
}

std::vector<Format> widths() {
    std::vector<Format> all;
    for (unsigned bits = 1; bits <= 64; ++bits) all.push_back(int_format(bits, bits % 2 == 1));
    all.push_back(builtin_formats()[static_cast<size_t>(Fmt::boolean)]);
    all.push_back(builtin_formats()[static_cast<size_t>(Fmt::f6e3m2)]);
    all.push_back(builtin_formats()[static_cast<size_t>(Fmt::f32)]);
    return all;
}

TEST(CpuPacked, EveryWidthAndOffset) { check(widths(), 16, false); }
TEST(CpuPacked, SingleElements) { check(widths(), 0, false); }

TEST(CpuPacked, PlainVectors) {
    std::vector<Format> some;
    for (unsigned bits : {1u, 2u, 3u, 4u, 5u, 12u, 33u, 63u}) some.push_back(int_format(bits, true));
    check(some, 4, true);
}

// ---- what becomes of packed codes ----

/// f32 of a cast to another format of a code that is read from a stream of bits, or from a word with other bits above it, by lanes that may be off.
struct Chain {
    Format from, to;
    bool words;

    static constexpr unsigned kLanes = 16;

    void emit(llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) const {
        const Format f32 = builtin_formats()[static_cast<size_t>(Fmt::f32)];
        std::vector<uint64_t> number(kLanes);
        for (unsigned l = 0; l < kLanes; ++l) number[l] = l;
        Value* v;
        if (words)
            v = s.from_words(from, b.CreateAlignedLoad(llvm::FixedVectorType::get(b.getInt32Ty(), kLanes), fn->getArg(0), llvm::Align(1)));
        else
            v = s.load_run(from, fn->getArg(0), fn->getArg(2), fn->getArg(3), kLanes);
        Value* on = b.CreateICmpULT(llvm::ConstantDataVector::get(b.getContext(), number), b.CreateVectorSplat(kLanes, fn->getArg(3)));
        v = s.select(on, v, llvm::Constant::getNullValue(v->getType()));
        Value* code = s.cast(v, from, to);
        Value* place = b.CreateConstGEP1_64(b.getInt8Ty(), fn->getArg(1), kLanes * 4);
        b.CreateAlignedStore(s.cast(code, to, f32), fn->getArg(1), llvm::Align(1));
        b.CreateAlignedStore(s.to_memory(code, to), place, llvm::Align(1));
    }

    void check(ArrayJit::PlainEntry fn, const std::vector<uint8_t>& memory, unsigned shift, unsigned count) const {
        const Format f32 = builtin_formats()[static_cast<size_t>(Fmt::f32)];
        std::vector<uint8_t> data = memory, got(kLanes * 12);
        fn(data.data(), got.data(), shift, count);
        for (unsigned l = 0; l < kLanes; ++l) {
            uint64_t code = 0, converted = 0, f = 0;
            if (words)
                std::memcpy(&code, memory.data() + size_t{l} * 4, 4);
            else
                unpack_bits(from, memory.data(), shift + l * from.bits, 1, reinterpret_cast<uint8_t*>(&code));
            const uint64_t want = convert(to, from, l < count ? extend_code(from, code) : 0, {});
            std::memcpy(&f, got.data() + size_t{l} * 4, 4);
            std::memcpy(&converted, got.data() + kLanes * 4 + size_t{l} * to.container_bytes(), to.container_bytes());
            ASSERT_EQ(converted, container_of(to, want)) << from.name << " to " << to.name << ", lane " << l << ", words " << words;
            ASSERT_EQ(f, convert(f32, to, want, {})) << from.name << " by " << to.name << " to f32, lane " << l << ", words " << words;
        }
    }
};

void check_chains(const std::vector<Format>& sources, const std::vector<Format>& targets, bool plain) {
    std::mt19937_64 rng(3);
    std::vector<uint8_t> memory(256);
    for (uint8_t& b : memory) b = static_cast<uint8_t>(rng());
    uint64_t number = 0;
    for (const Format& from : sources) {
        std::vector<Chain> chains;
        std::vector<ArrayJit::PlainBody> bodies;
        for (const Format& to : targets)
            for (bool words : {false, true})
                if (test::is_sampled(number++)) chains.push_back({from, to, words});
        for (const Chain& c : chains) bodies.push_back([c](llvm::IRBuilder<>& b, Scalars& s, llvm::Function* fn) { c.emit(b, s, fn); });
        ArrayJit jit(plain);
        const auto fn = jit.compile_plain(bodies);
        for (size_t k = 0; k < chains.size(); ++k)
            for (unsigned shift : {0u, 3u, 7u}) ASSERT_NO_FATAL_FAILURE(chains[k].check(fn[k], memory, shift, shift == 3 ? 11 : Chain::kLanes));
    }
}

std::vector<Format> narrow_integers() {
    std::vector<Format> all;
    for (unsigned bits = 1; bits <= 16; ++bits)
        for (bool is_signed : {false, true}) all.push_back(int_format(bits, is_signed));
    return all;
}

/// Tables of all widths, and what else has at most 16 bits.
std::vector<Format> narrow_others() {
    std::vector<Format> all;
    for (const Format& f : all_formats())
        if (f.bits <= 16 && !f.is_int() && !f.is_block()) all.push_back(f);
    for (unsigned bits = 1; bits <= 8; ++bits) {
        Format f;
        f.kind = FormatKind::codebook, f.is_signed = false, f.bits = static_cast<uint8_t>(bits);
        for (int k = 0; k < 1 << bits; ++k) f.table.push_back((k * 37 % 256) * 0.75 - 70);  // no value twice
        f = canonical(f);
        f.name = canonical_name(f);
        all.push_back(f);
    }
    return all;
}

TEST(CpuPacked, CodesOfOneIntegerAsAnothers) { check_chains(narrow_integers(), narrow_integers(), false); }

TEST(CpuPacked, CodesOfTablesAndFloats) {
    const std::vector<Format> few = {int_format(1, false), int_format(4, true),    int_format(8, false),
                                     int_format(11, true), narrow_others().back(), float_format(4, 3)};
    check_chains(narrow_others(), few, false);
    check_chains(few, narrow_others(), false);
    check_chains(narrow_others(), few, true);
}

/// Where the analysis says that elements of the block at `first` lie, against the layout.
void check_block(const cpu::BlockWords& block, const Layout& layout, const TensorArg& t, const int64_t (&first)[2]) {
    const BoundLayout bound(layout, extents_of(t), block.bits);
    const std::vector<int64_t> pitches = bit_pitches(layout, t, block.bits);
    for (size_t m = 0; m < pitches.size(); ++m) {
        ASSERT_TRUE(block.pitches[m] == 0 || block.pitches[m] == pitches[m]) << "member " << m;
    }
    for (int64_t lane = 0; lane < block.lanes; ++lane)
        for (int64_t k = 0; k < block.count; ++k) {
            const cpu::BlockWords::Field field = block.fields[k % block.step];
            const cpu::BlockPlace& word = block.words[(k / block.step * block.slots() + field.slot) * block.lanes + lane];
            int64_t at = bound.bit_offset(first) - block.origin + word.bit + field.bit;
            for (size_t m = 0; m < pitches.size(); ++m) at += block.lines[word.line][m] * pitches[m];
            const int64_t point[] = {first[0] + lane, first[1] + k};
            ASSERT_EQ(at, bound.bit_offset(point)) << point[0] << ", " << point[1];
            ASSERT_LE(field.bit + block.bits, block.widths[field.slot]);
        }
}

TEST(CpuBlockWords, PlacesAreThoseOfTheLayout) {
    struct {
        const char* text;
        unsigned words;  ///< vectors of words for 128 elements of 4 bits
    } const kLayouts[] = {
        {"[2](i0 / 16, i1 / 64, ((i0 % 8) * 4) + ((i1 % 8) / 2), (((((i1 / 16) % 4) * 8) + ((i1 % 2) * 4)) + (((i0 / 8) % 2) * 2)) + ((i1 / 8) % 2))",
         32},
        {"[2](i0 / 16, i1 / 64, i0 % 16, i1 % 64)", 16},
        {"[2](i1 / 32, i0, i1 % 32)", 16},
        {"[2](i0, i1 / 8, ((i1 % 2) * 4) + ((i1 / 2) % 4))", 16},
        {"[2](i0, i1 / 32, 31 - (i1 % 32))", 16},
        {"[2](i0, (((i1 / 16) * 17) + (i1 % 16)) + 1)", 32},  // begins inside of bytes
        {"[2](i1 / 128, i0, ((i1 % 8) * 16) + ((i1 % 128) / 8))", 64},
        {"[2](i0 / 8, i1 / 64, i0 % 8, ((((i1 % 64) / 8) ^ (i0 % 8)) * 8) + (i1 % 8))", 16},
        {"[2](i0 / 16, i1 / 8, i1 % 8, i0 % 16)", 128},  // neighbours along lanes
    };
    for (const auto& [text, words] : kLayouts)
        for (unsigned bits : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 12u, 16u})
            for (unsigned lanes : {4u, 8u, 16u}) {
                SCOPED_TRACE(std::string(text) + ", " + std::to_string(bits) + " bits, " + std::to_string(lanes) + " lanes");
                const std::optional<Layout> layout = parse_layout_text(text);
                ASSERT_TRUE(layout);
                const int64_t dynamic[] = {kDynamic, kDynamic};
                const auto block = cpu::block_words(*layout, dynamic, bits, {0, 1, lanes, 8, 128, 8, 32});
                ASSERT_TRUE(block);
                if (bits == 4 && lanes == 16) {
                    EXPECT_LE(block->vectors() * 128 / static_cast<size_t>(block->count), words);
                }
                TensorArg t;
                t.extents = Shape{48, 384};
                for (int64_t n = 0; n + lanes <= 48; n += 16 + lanes)
                    for (int64_t k = 0; k + block->count <= 384; k += 128) {
                        const int64_t first[] = {n / lanes * lanes, k};
                        ASSERT_NO_FATAL_FAILURE(check_block(*block, *layout, t, first));
                    }
            }
}

TEST(CpuBlockWords, LayoutsThatDoNotRepeatThemselvesHaveNone) {
    const int64_t dynamic[] = {kDynamic, kDynamic};
    for (const char* text : {"[2](i0 / 3, i1 / 8, i0 % 3, i1 % 8)", "[2]((i0 * e1) + i1)", "[2](i0, i1 / 100, i1 % 100)"}) {
        const std::optional<Layout> layout = parse_layout_text(text);
        ASSERT_TRUE(layout) << text;
        EXPECT_FALSE(cpu::block_words(*layout, dynamic, 4, {0, 1, 16, 8, 128, 8, 32})) << text;
    }
}

}  // namespace
}  // namespace tegula::testing
