// Pictures of bank conflicts: shared memory has 32 banks of 4 bytes; lanes of a warp that go to different words of one bank take turns.
#include "jit/picture/banks.h"

#include <algorithm>
#include <map>

#include "jit/picture/builders.h"
#include "lang/gpu/conversion.h"
#include "lang/gpu/scratch.h"
#include "lower/rewrite.h"

namespace tegula::picture {

namespace {

constexpr int kBanks = 32, kBankBytes = 4, kMostBytes = 16;

/// Lanes of a warp whose accesses of so many bytes go together: 128 bytes at a time.
int lanes_together(int bytes) { return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8; }

std::string degree_text(const WorstAccess& w) { return w.degree == 0 ? "-" : w.degree == 1 ? "none" : std::to_string(w.degree) + "-way"; }

int tone_of_degree(int degree) { return degree <= 1 ? good : degree <= 2 ? 7 : bad; }

Figure worst_figure(const std::string& title, const WorstAccess& w) {
    return {title,
            w.what + ": " + std::to_string(w.bytes) + " bytes a lane, " +
                (w.degree <= 1 ? "no conflicts" : std::to_string(w.degree) + " turns where one would do") +
                "; the lanes at each bank (columns) in each turn (rows), of the " + std::to_string(lanes_together(w.bytes)) + " that go together",
            bank_grid(w),
            {}};
}

int64_t products(std::span<const int64_t> extents) {
    int64_t n = 1;
    for (const int64_t e : extents)
        if (__builtin_mul_overflow(n, e, &n)) return INT64_MAX;
    return n;
}

}  // namespace

void worsen(WorstAccess& worst, const std::array<int64_t, 32>& address, int bytes, const std::string& what) {
    if (const int degree = bank_conflicts(address, bytes); degree > worst.degree) worst = {degree, bytes, what, address};
}

WorstAccess worst_of_tile(const TileLayout& l, int vector, int elem_bytes, const std::function<int64_t(const TileLayout::Point&)>& address) {
    WorstAccess worst;
    for (int warp = 0; warp < l.warps(); ++warp)
        for (int r = 0; r < l.registers(); ++r) {
            if (address(l.point(r, 0, warp)) % (int64_t{vector} * elem_bytes)) continue;  // not the first element of an access
            std::array<int64_t, 32> places;
            for (int lane = 0; lane < 32; ++lane) places[static_cast<size_t>(lane)] = address(l.point(r, lane, warp));
            worsen(worst, places, vector * elem_bytes, "warp " + std::to_string(warp) + ", register " + std::to_string(r));
        }
    return worst;
}

Grid bank_grid(const WorstAccess& access) {
    Grid grid{"turn", "bank", {}, {}, {}, {}};
    for (int b = 0; b < kBanks; ++b) grid.column_names.push_back(std::to_string(b));
    std::array<std::vector<std::pair<int64_t, int>>, kBanks> at;  // words and the first lane at each
    for (int lane = 0; lane < lanes_together(access.bytes); ++lane) {
        const int64_t from = access.address[static_cast<size_t>(lane)];
        for (int64_t word = from / kBankBytes; word <= (from + access.bytes - 1) / kBankBytes; ++word) {
            auto& bank = at[static_cast<size_t>(word % kBanks)];
            if (std::ranges::find(bank, word, &std::pair<int64_t, int>::first) == bank.end()) bank.emplace_back(word, lane);
        }
    }
    size_t turns = 1;
    for (const auto& bank : at) turns = std::max(turns, bank.size());
    for (size_t turn = 0; turn < turns; ++turn) {
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (const auto& bank : at) {
            const bool used = turn < bank.size();
            cells.push_back(used ? std::to_string(bank[turn].second) : ".");
            tones.push_back(!used ? int{gap} : turn ? int{bad} : tone_of(bank[turn].second));
        }
        grid.add_row(std::to_string(turn), std::move(cells), std::move(tones));
    }
    return grid;
}

namespace {

/// Warps that read a matrix in some storage order.
struct Pattern {
    const char* name;
    bool down;  ///< a lane per row; else along a row
};
constexpr Pattern kPatterns[] = {{"along a row", false}, {"down a column", true}};
constexpr int64_t kMostStarts = 4096;

/// The worst of all starts; `bytes` of consecutive elements of the last index at a time. nullopt: such are not side by side in memory.
std::optional<WorstAccess> worst_of_matrix(const BoundLayout& order, std::span<const int64_t> extents, unsigned bits, const Pattern& pattern,
                                           int bytes) {
    const int64_t each = int64_t{bytes} * 8 / bits, columns = extents.back(), rows = extents[extents.size() - 2];
    const int64_t across = pattern.down ? each : 32 * each, deep = pattern.down ? 32 : 1;
    if (each < 1 || columns < across || rows < deep || int64_t{bytes} * 8 % bits) return std::nullopt;
    WorstAccess worst;
    std::vector<int64_t> index(extents.size(), 0);
    const auto bit = [&](int64_t r, int64_t c) {
        index[index.size() - 2] = r, index.back() = c;
        return order.bit_offset(index.data());
    };
    int64_t starts = 0;
    for (int64_t r = 0; r + deep <= rows; r += deep)
        for (int64_t c = 0; c + across <= columns && starts < kMostStarts; c += across, ++starts) {
            std::array<int64_t, 32> address;
            for (int64_t lane = 0; lane < 32; ++lane) {
                const int64_t row = pattern.down ? r + lane : r, column = pattern.down ? c : c + lane * each, first = bit(row, column);
                for (int64_t e = 1; e < each; ++e)
                    if (bit(row, column + e) != first + e * bits) return std::nullopt;
                if (first % (int64_t{bytes} * 8)) return std::nullopt;
                address[static_cast<size_t>(lane)] = first / 8;
            }
            worsen(worst, address, bytes, std::string(pattern.name) + " from (" + std::to_string(r) + ", " + std::to_string(c) + ")");
        }
    return worst;
}

}  // namespace

Picture banks_picture(std::span<const Subject> subjects, const TypeTable& types) {
    Picture out{"banks", {}, {}, {}, {}};
    for (const Subject& s : subjects) {
        const std::string of = s.name.empty() ? "" : s.name + ": ";
        out.title += (out.title.empty() ? "" : "; ") + of + s.type + " in shared memory";
        const Format& whole = types.format(s.format);
        const unsigned bits = whole.is_block() ? types.format(whole.elem).bits : whole.bits;
        const int64_t all = products(s.extents);
        if (s.extents.size() < 2 || all == 0 || all > int64_t{1} << 20) {
            out.notes.push_back(of + (s.extents.size() < 2 ? "banks are shown of matrices"
                                      : all == 0           ? "it has no elements"
                                                           : "it is larger than shared memory"));
            continue;
        }
        const BoundLayout here(types.layout(s.layout), s.extents, bits), rows(Layout::row(), s.extents, bits);
        Table table{{"a warp reads", "bytes a lane", "in rows", "in this order", "worst"}, {}, {}};
        WorstAccess worst;
        for (const Pattern& pattern : kPatterns)
            for (int bytes = 2; bytes <= kMostBytes; bytes *= 2) {
                if (unsigned(bytes) * 8 < bits) continue;
                const auto before = worst_of_matrix(rows, s.extents, bits, pattern, bytes),
                           now = worst_of_matrix(here, s.extents, bits, pattern, bytes);
                if (!before && !now) continue;
                table.rows.push_back({pattern.name, std::to_string(bytes), before ? degree_text(*before) : "-", now ? degree_text(*now) : "-",
                                      now && now->degree > 1 ? now->what : "-"});
                table.tones.push_back(now ? tone_of_degree(now->degree) : int{plain});
                if (now && now->degree >= worst.degree) worst = *now;
            }
        if (table.rows.empty()) {
            out.notes.push_back(of + "it has neither 32 rows nor rows of 32 accesses");
            continue;
        }
        out.figures.push_back({of + "conflicts", "`-`: the bytes of a lane are not side by side", std::move(table), {}});
        if (worst.degree) out.figures.push_back(worst_figure(of + "the worst access", worst));
    }
    return out;
}

namespace {

/// What moves between registers and shared memory at one place of a kernel.
struct Traffic {
    std::string line, what;
    WorstAccess before, now;
};

int vector_of(const TileLayout& l, int elem_bytes, int contiguous) {
    return std::max(1, std::min(vector_width(l, contiguous), kMostBytes / elem_bytes));
}

/// Both sides of a conversion through scratch.
void add_exchange(const TileLayout& from, const TileLayout& to, int bytes, const std::string& line, std::vector<Traffic>& out) {
    const Exchange e = plan_exchange(from, to, bytes * 8);
    Exchange plain_order = e;
    plain_order.columns.clear(), plain_order.period = plain_order.pad = 0;
    const int last = std::max(0, from.shape.rank - 1);
    const auto side = [&](const TileLayout& l, int vector, const char* what) {
        const auto by = [&](const Exchange& order) { return [&](const TileLayout::Point& p) { return order.address(order.number(p)) * bytes; }; };
        out.push_back({line, what, worst_of_tile(l, std::min(vector, vector_of(l, bytes, last)), bytes, by(plain_order)),
                       worst_of_tile(l, vector, bytes, by(e))});
    };
    side(from, e.write_vector, "scratch is written");
    side(to, e.read_vector, "scratch is read");
}

void add_shared(const TileLayout& l, const SharedLayout& shared, const char* what, const std::string& line, std::vector<Traffic>& out) {
    SharedLayout plain_order = shared;
    plain_order.swizzle = 0;
    const int vector = vector_of(l, shared.elem_bytes, shared.contiguous);
    const auto by = [](const SharedLayout& order) { return [&order](const TileLayout::Point& p) { return order.address(p); }; };
    out.push_back(
        {line, what, worst_of_tile(l, vector, shared.elem_bytes, by(plain_order)), worst_of_tile(l, vector, shared.elem_bytes, by(shared))});
}

}  // namespace

Picture kernel_banks_picture(const KernelView& k) {
    const ir::Function& fn = *k.form;
    Picture out{"banks", k.name + " on " + k.arch->name + ": bank conflicts", {}, {}, {}};
    std::vector<Traffic> all;
    fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn.inst(id);
        if (inst.op != ir::Op::convert || !k.wants(inst.span, "convert")) return;
        const Placement &from = fn.placement(fn.operands(inst)[0]), &to = fn.placement(fn.result(inst));
        const std::string line = std::to_string(k.line(inst.span));
        const int bytes = fn.type(fn.result(inst)).pointer ? 8 : static_cast<int>(fn.elem(fn.result(inst)).container_bytes());
        if (from.kind == Placement::registers && to.kind == Placement::registers) {
            if (plan_conversion(from.regs, to.regs).kind == Conversion::shared && !fn.gpu_inst(id).global_scratch)
                add_exchange(from.regs, to.regs, bytes, line, all);
        } else if (from.kind == Placement::registers && to.kind == Placement::shared) {
            add_shared(from.regs, to.smem, "tile is written", line, all);
        } else if (from.kind == Placement::shared && to.kind == Placement::registers) {
            add_shared(to.regs, from.smem, "tile is read", line, all);
        }
    });
    Table table{{"line", "access", "bytes a lane", "in rows", "as stored", "worst"}, {}, {}};
    const Traffic* worst = nullptr;
    for (const Traffic& t : all) {
        table.rows.push_back(
            {t.line, t.what, std::to_string(t.now.bytes), degree_text(t.before), degree_text(t.now), t.now.degree > 1 ? t.now.what : "-"});
        table.tones.push_back(tone_of_degree(t.now.degree));
        if (!worst || t.now.degree > worst->now.degree) worst = &t;
    }
    if (all.empty()) {
        out.notes.push_back("no thread reads or writes tiles in shared memory" + (k.of.empty() ? std::string() : " at `" + k.of + "`") +
                            ": rings that TMA fills and tensor cores read have no conflicts in their swizzles");
        return out;
    }
    out.figures.push_back(
        {"conflicts", "of the registers of a warp, in rows (without a swizzle or padding) and as the compiler stores them", std::move(table), {}});
    if (worst->before.degree > worst->now.degree)
        out.figures.push_back(worst_figure("line " + worst->line + ", " + worst->what + ", in rows", worst->before));
    out.figures.push_back(worst_figure("line " + worst->line + ", " + worst->what + ", as stored", worst->now));
    return out;
}

}  // namespace tegula::picture
