// The IR printer (ir_text.h): deterministic text that ir_parse.cpp reads back. Values are numbered in order of appearance; parameters keep
// their names. One instruction per line; owned blocks follow in braces, two spaces deeper.
#include "lang/ir_text.h"

#include <unordered_map>

#include "lang/access_operands.h"
#include "lang/format_name.h"
#include "lang/ir_gpu_text.h"
#include "lang/ir_literal.h"
#include "lang/layout.h"

namespace tegula::ir {

namespace {

class Printer {
public:
    explicit Printer(const Function& fn) : fn_(fn), names_(fn.value_count()), gpu_(fn) {}

    std::string run() {
        header();
        const std::string head = std::move(out_);
        out_.clear();
        block_body(fn_.body, 1);
        begin_ = head + gpu_.header() + " {\n";
        return begin_ + out_ + "}\n";
    }
    const std::vector<std::string>& names() const { return names_; }
    /// Of the text that `run` gave.
    std::vector<Span> lines(const std::string& text) const {
        std::vector<Span> out{fn_.span};
        size_t mark = 0;
        for (size_t at = text.find('\n'); at + 1 < text.size() && at != text.npos; at = text.find('\n', at + 1)) {
            while (mark < marks_.size() && begin_.size() + marks_[mark].first < at + 1) ++mark;
            const bool begins = mark < marks_.size() && begin_.size() + marks_[mark].first == at + 1;
            out.push_back(begins ? marks_[mark].second : Span());
        }
        return out;
    }

private:
    void header();
    void block_body(BlockId id, int depth);
    void inst(InstId id, int depth);
    void access_operands(const Inst& i);
    void caching(const Inst& i);
    void attributes(const Inst& i);
    void attribute_value(const Inst& i, Attr attr, size_t index);
    void codes(const Inst& i);
    void hints(const std::vector<Hint>& list, const char* before);
    void list_values(std::span<const ValueId> values);

    const std::string& name(ValueId v) {
        std::string& n = names_[v.v];
        if (n.empty()) n = "%" + std::to_string(next_++);
        return n;
    }
    const std::string& elem_text(FormatId id) {
        std::string& text = formats_[id.v];
        if (text.empty()) text = format_text(fn_.types().format(id));
        return text;
    }
    std::string type_text(TypeId id);
    std::string placed_type(ValueId v) { return type_text(fn_.type_of(v)) + gpu_.placement(v); }

    const Function& fn_;
    std::vector<std::string> names_;
    std::unordered_map<uint32_t, std::string> formats_;
    uint32_t next_ = 0;
    GpuPrinter gpu_;
    std::string out_, begin_;
    std::vector<std::pair<size_t, Span>> marks_;  ///< where the text of an instruction begins behind `begin_`
};

std::string Printer::type_text(TypeId id) {
    const Type& t = fn_.types().type(id);
    if (t.kind == Type::tensor) {
        static constexpr const char* kModes[] = {" in", " out", " inout"};
        std::string out = "tensor<" + elem_text(t.elem) + ">" + to_string(t.shape);
        if (t.layout.v) out += " @ " + quote_text(fn_.types().layout(t.layout).text());
        return out + kModes[static_cast<size_t>(t.mode)];
    }
    if (t.kind == Type::channel) return "channel<" + elem_text(t.elem) + ">" + to_string(t.shape);
    const std::string elem = t.pointer ? "ptr<" + elem_text(t.elem) + ">" : elem_text(t.elem);
    return t.shape.rank == 0 ? elem : "tile<" + elem + ">" + to_string(t.shape);
}

void Printer::hints(const std::vector<Hint>& list, const char* before) {
    for (const Hint& h : list) {
        out_ += before + h.name + "(" + (h.key.empty() ? "" : h.key + " = ");
        for (size_t i = 0; i < h.args.size(); ++i) out_ += (i ? ", " : "") + std::to_string(h.args[i]);
        out_ += ")";
    }
}

void Printer::header() {
    out_ += fn_.is_kernel ? "kernel @" : "function @";
    out_ += is_identifier(fn_.name) ? fn_.name : quote_text(fn_.name);
    out_ += "(";
    for (size_t i = 0; i < fn_.params.size(); ++i) {
        const Param& p = fn_.params[i];
        names_[p.value.v] = "%" + p.name;
        out_ += i ? ", %" : "%";
        out_ += p.name + ": " + (p.kind == Param::extent ? "extent" : type_text(fn_.type_of(p.value)));
    }
    out_ += ")";
    hints(fn_.hints, " @ ");
    for (const OwnRow& own : fn_.own_rows) {
        out_ += " instruction ";
        for (const Fmt f : {own.row.a, own.row.b, own.row.acc}) out_ += elem_text(id_of(f)) + " ";
        out_ += quote_text(own.text);
    }
}

void Printer::list_values(std::span<const ValueId> values) {
    for (size_t i = 0; i < values.size(); ++i) {
        if (i) out_ += ", ";
        out_ += name(values[i]);
    }
}

void Printer::block_body(BlockId id, int depth) {
    for (InstId i : fn_.block(id).insts) inst(i, depth);
}

void Printer::codes(const Inst& i) {
    const Type& t = fn_.type(fn_.result(i));
    const std::span<const int64_t> codes = fn_.attrs(i);
    const bool list = i.op == Op::constant_tile;
    out_ += list ? " [" : " ";
    for (size_t n = 0; n < codes.size(); ++n) {
        if (n) out_ += ", ";
        out_ += code_text(fn_.types().format(t.elem), t.pointer, static_cast<uint64_t>(codes[n]));
    }
    if (list) out_ += "]";
}

void Printer::access_operands(const Inst& i) {
    const AccessOperands operands(fn_, i);
    const std::vector<Access::Axis>& axes = operands.access.axes;
    out_ += " " + name(operands.object) + "[";
    for (size_t d = 0; d < axes.size(); ++d) {
        const Access::Axis& axis = axes[d];
        if (d) out_ += ", ";
        if (axis.kind == Access::all) out_ += ":";
        if (axis.kind == Access::gather) out_ += "gather ";
        if (operands.index[d]) out_ += name(operands.index[d].value);
        if (axis.kind == Access::range) {
            out_ += " +: " + std::to_string(axis.extent);
            if (axis.step != 1) out_ += " step " + std::to_string(axis.step);
        }
        if (axis.in_bounds) out_ += "!";
    }
    out_ += "]";
    const auto given = [&](const char* word, const AccessOperands::Operand& o) {
        if (o) out_ += word + name(o.value);
    };
    given(" = ", operands.value);
    given(" expected ", operands.expected);
    given(" else ", operands.other);
    given(" mask ", operands.mask);
}

/// cache l2 evict first
void Printer::caching(const Inst& i) {
    const Caching asked = fn_.caching(i);
    if (asked.cache != Cache::open) out_ += " cache " + std::string(cache_words()[static_cast<size_t>(asked.cache) - 1]);
    if (asked.evict != Evict::open) out_ += " evict " + std::string(evict_words()[static_cast<size_t>(asked.evict) - 1]);
}

void Printer::attribute_value(const Inst& i, Attr attr, size_t index) {
    const int64_t v = fn_.attrs(i)[index] & (index == 0 && may_ask_caches(i.op) ? ~kCachingFlags : -1);
    const std::span<const std::string_view> values = attr_value_names(attr);
    if (v >= 0 && static_cast<size_t>(v) < values.size())
        out_ += values[static_cast<size_t>(v)];
    else
        out_ += std::to_string(v);
}

/// {name = value, list = [..]}; what the syntax shows elsewhere (codes, axes, texts, loop hints, flags of accesses) is left out.
void Printer::attributes(const Inst& i) {
    const Attrs& row = op_row(i.op).attrs;
    const size_t count = fn_.attrs(i).size();
    bool first = true;
    for (size_t n = 0; n < row.count; ++n) {
        const Attr attr = row.all[n];
        const bool list = row.repeats && n + 1 == row.count;
        if (attr == Attr::code || attr == Attr::text || attr == Attr::hints || (is_indexed(i.op) && (attr == Attr::flags || list))) continue;
        if (list && count <= n) continue;
        out_ += first ? " {" : ", ";
        first = false;
        out_ += std::string(attr_name(attr)) + " = " + (list ? "[" : "");
        for (size_t at = n; at < (list ? count : n + 1); ++at) {
            if (at > n) out_ += ", ";
            attribute_value(i, attr, at);
        }
        if (list) out_ += "]";
    }
    if (!first) out_ += "}";
}

void Printer::inst(InstId id, int depth) {
    const Inst& i = fn_.inst(id);
    marks_.emplace_back(out_.size(), i.span);
    out_.append(static_cast<size_t>(depth) * 2, ' ');
    for (uint32_t n = 0; n < i.results.count; ++n) out_ += (n ? ", " : "") + name(fn_.result(i, n));
    if (i.results.count) out_ += " = ";
    out_ += op_row(i.op).name;
    if (i.op == Op::constant || i.op == Op::constant_tile) {
        codes(i);
    } else if (is_indexed(i.op)) {
        access_operands(i);
    } else {
        const bool text = has_text(i.op);
        if (text) out_ += " " + quote_text(fn_.strings[static_cast<size_t>(fn_.attrs(i)[0])]);
        if (i.operands.count) out_ += text ? ", " : " ";
        list_values(fn_.operands(i));
    }
    caching(i);
    attributes(i);
    if (i.op == Op::for_loop || i.op == Op::while_loop) {
        const auto index = static_cast<size_t>(fn_.attrs(i)[0]);
        if (index < fn_.loop_hints.size()) hints(fn_.loop_hints[index], " @ ");
    }
    for (uint32_t n = 0; n < i.results.count; ++n) out_ += (n ? ", " : " : ") + placed_type(fn_.result(i, n));
    out_ += gpu_.facts(id);
    for (uint32_t b = 0; b < i.blocks.count; ++b) {
        const Block& block = fn_.block(fn_.blocks(i)[b]);
        if (b) out_.append(static_cast<size_t>(depth) * 2, ' ').append("}");
        if (!block.args.empty()) out_ += " (";
        for (size_t n = 0; n < block.args.size(); ++n) out_ += (n ? ", " : "") + name(block.args[n]) + ": " + placed_type(block.args[n]);
        out_ += block.args.empty() ? " {\n" : ") {\n";
        block_body(fn_.blocks(i)[b], depth + 1);
    }
    if (i.blocks.count) out_.append(static_cast<size_t>(depth) * 2, ' ').append("}");
    out_ += "\n";
}

}  // namespace

std::string print(const Function& fn, std::vector<Span>* lines) {
    Printer printer(fn);
    std::string text = printer.run();
    if (lines) *lines = printer.lines(text);
    return text;
}

std::vector<std::string> value_names(const Function& fn) {
    Printer printer(fn);
    printer.run();
    return printer.names();
}

}  // namespace tegula::ir
