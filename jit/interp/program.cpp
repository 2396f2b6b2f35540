// Steps that ask about the program, the grid and the arguments, and those with effects outside of memory: print, assert, assume.
#include <cstring>

#include "jit/interp/machine.h"
#include "lang/print_text.h"

namespace tegula::interp {

namespace {

void store_i64(Machine& m, const Tile& t, uint64_t v) { std::memcpy(m.at(t), &v, 8); }

std::string element_text(const Tile& t, const uint8_t* data, int64_t i, const PrintSpec& spec) {
    const Format& f = *t.format;
    const uint64_t code = get_code(f, t.width, data, i);
    if (!t.pointer) return number_text(f, code, spec);
    return pointer_text(code);
}

/// Number of the first false element, or -1.
int64_t first_false(Machine& m, const Tile& t) {
    const void* at = std::memchr(m.at(t), 0, static_cast<size_t>(t.n));
    return at ? static_cast<const uint8_t*>(at) - m.at(t) : -1;
}

}  // namespace

void step_program_id(Machine& m, const Step& s) {
    const Info& info = *s.info;
    if (info.in.empty()) return store_i64(m, info.out[0], m.program[info.attrs[0]]);
    const auto number = m.scalar<uint64_t>(info.in[0]);
    store_i64(m, info.out[0], program_of(number, m.shared.grid)[static_cast<size_t>(info.attrs[0])]);
}

void step_cta_id(Machine& m, const Step& s) { store_i64(m, s.info->out[0], m.linear); }

void step_num_ctas(Machine& m, const Step& s) { store_i64(m, s.info->out[0], m.shared.ctas); }

void step_grid_barrier(Machine& m, const Step& s) {
    m.meets_at = s.info;
    m.waiting = true;
}

void step_num_programs(Machine& m, const Step& s) { store_i64(m, s.info->out[0], m.shared.grid[s.info->attrs[0]]); }

void step_dim(Machine& m, const Step& s) {
    const View& view = m.shared.views[static_cast<size_t>(s.info->in[0].param)];
    store_i64(m, s.info->out[0], static_cast<uint64_t>(view.extents[static_cast<size_t>(s.info->attrs[0])]));
}

void step_print(Machine& m, const Step& s) {
    const Info& info = *s.info;
    if (!m.shared.options.print) return;
    const auto value = [&](size_t at, const PrintSpec& spec) {
        const Tile& t = info.in[at];
        return tile_text(t.shape, [&, data = m.at(t)](int64_t i) { return element_text(t, data, i, spec); });
    };
    std::string out = filled_text(m.plan.fn->strings[static_cast<size_t>(info.attrs[0])], info.in.size(), value);
    if (!m.printed) return m.shared.options.print(out);
    m.printed_bytes += out.size() + sizeof(Printed);
    if (m.printed_bytes > kKeptPrintBytes) {
        if (m.end(RunResult::out_of_memory)) m.shared.ended.too_much_print();
        return;
    }
    m.printed->push_back({m.position, m.linear, m.printed->size(), std::move(out)});
}

void step_assert(Machine& m, const Step& s) {
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
