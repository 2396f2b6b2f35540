// Steps that ask about the program, the grid and the arguments, and those with effects outside of memory: print, assert, assume.
#include <charconv>
#include <cmath>
#include <cstring>

#include "jit/interp/machine.h"

namespace tegula::interp {

namespace {

constexpr int64_t kPrintElements = 1000;    ///< a longer tile is cut
constexpr uint64_t kPrintBytes = 16 << 20;  ///< text kept for later, when programs run out of order

void store_i64(Machine& m, const Tile& t, uint64_t v) { std::memcpy(m.at(t), &v, 8); }

std::string element_text(const Tile& t, const uint8_t* data, int64_t i) {
    const Format& f = *t.format;
    const uint64_t code = get_code(f, t.width, data, i);
    if (t.pointer) {
        const int64_t offset = static_cast<int64_t>(code & ((uint64_t{1} << 48) - 1)) - (int64_t{1} << 47);
        return code ? "ptr(argument " + std::to_string((code >> 48) - 1) + ", element " + std::to_string(offset) + ")" : "ptr(none)";
    }
    if (f.is_bool()) return code ? "true" : "false";
    if (f.is_int()) return f.is_signed ? std::to_string(static_cast<int64_t>(code)) : std::to_string(code);
    const double v = decode(f, code);
    if (std::isnan(v)) return "nan";
    char text[40];
    const bool narrow = f.bits <= 32 && static_cast<double>(static_cast<float>(v)) == v;
    const auto end = narrow ? std::to_chars(text, text + sizeof text, static_cast<float>(v)) : std::to_chars(text, text + sizeof text, v);
    return std::string(text, end.ptr);
}

std::string tile_text(const Tile& t, const uint8_t* data) {
    if (t.shape.rank == 0) return element_text(t, data, 0);
    std::string out;
    const int64_t n = t.n, shown = std::min(n, kPrintElements);
    for (int64_t i = 0; i < shown; ++i) {
        int64_t block = 1;
        std::string open;
        for (size_t d = t.shape.rank; d-- > 0;) {
            block *= t.shape[d];
            if (i % block == 0) open += '[';
        }
        out += (i ? ", " : "") + open + element_text(t, data, i);
        block = 1;
        for (size_t d = t.shape.rank; d-- > 0;) {
            block *= t.shape[d];
            if ((i + 1) % block == 0) out += ']';
        }
    }
    return shown < n ? out + ", ...]" : out;
}

/// Number of the first false element, or -1.
int64_t first_false(Machine& m, const Tile& t) {
    const void* at = std::memchr(m.at(t), 0, static_cast<size_t>(t.n));
    return at ? static_cast<const uint8_t*>(at) - m.at(t) : -1;
}

}  // namespace

void step_program_id(Machine& m, const Step& s) { store_i64(m, s.info->out[0], m.program[s.info->attrs[0]]); }

void step_num_programs(Machine& m, const Step& s) { store_i64(m, s.info->out[0], m.shared.grid[s.info->attrs[0]]); }

void step_dim(Machine& m, const Step& s) {
    const View& view = m.shared.views[static_cast<size_t>(s.info->in[0].param)];
    store_i64(m, s.info->out[0], static_cast<uint64_t>(view.extents[static_cast<size_t>(s.info->attrs[0])]));
}

void step_print(Machine& m, const Step& s) {
    const Info& info = *s.info;
    if (!m.shared.options.print) return;
    const std::string_view text = m.plan.fn->strings[static_cast<size_t>(info.attrs[0])];
    std::string out;
    size_t next = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i, 2) == "{}" && next < info.in.size()) {
            out += tile_text(info.in[next], m.at(info.in[next]));
            ++next;
            ++i;
        } else {
            out += text[i];
            i += text.substr(i, 2) == "{{";
        }
    }
    for (; next < info.in.size(); ++next) out += ' ' + tile_text(info.in[next], m.at(info.in[next]));
    if (!m.printed) return m.shared.options.print(out);
    m.printed_bytes += out.size();
    if (m.printed_bytes <= kPrintBytes) m.printed->push_back({m.linear, m.printed->size(), std::move(out)});
}

void step_assert_all(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const int64_t at = first_false(m, info.in[0]);
    if (at < 0) return;
    const std::string& text = m.plan.fn->strings[static_cast<size_t>(info.attrs[0])];
    report(m, info, Diag::tile_assertion_failed, {text.empty() ? text : ": " + text}, info.in[0].shape.rank ? at : -1, &info.in[0].shape);
}

void step_assume(Machine& m, const Step& s) {
    if (m.shared.checked && m.scalar<uint8_t>(s.info->in[0]) == 0) report(m, *s.info, Diag::assumption_failed, {});
}

}  // namespace tegula::interp
