// Commands about values: types, codes, places in storage, differences between machines, arrays of files. See commands.h.
#include <algorithm>
#include <cmath>

#include "commands.h"
#include "tools/buffers.h"

namespace tegula_tool::repl {

namespace {

/// Takes words off the end of a text that are among `known`.
std::vector<std::string> take_words(std::string& text, std::string_view known) {
    std::vector<std::string> out;
    const auto names = words_of(known);
    for (;;) {
        const size_t space = text.find_last_of(" \t\n");
        const std::string last = space == text.npos ? "" : text.substr(space + 1);
        if (last.empty() || std::ranges::find(names, last) == names.end()) return out;
        out.insert(out.begin(), last);
        text = trimmed(text.substr(0, space));
    }
}

/// The value of an expression with its codes, or nothing: what is wrong has been shown.
std::optional<Json> value_of(Core& core, const std::string& text, int& code, bool* launches = nullptr) {
    if (text.empty()) return code = core.fail(usage, "an expression is missing"), std::nullopt;
    auto answer = core.look(text, code);
    if (!answer) return std::nullopt;
    if (launches) *launches = (*answer)["launch_seconds"] > 0;
    if ((*answer)["value"].is_null()) return code = core.fail(usage, "this has no value: an expression without `;` behind it does"), std::nullopt;
    return (*answer)["value"];
}

int show_as(Core& core, std::string text, Form form, bool all) {
    for (const std::string& word : take_words(text, "value dec code hex bits all")) {
        if (word == "all") all = true;
        if (word == "code") form = Form::code;
        if (word == "hex") form = Form::hex;
        if (word == "bits") form = Form::bits;
        if (word == "value" || word == "dec") form = Form::value;
    }
    int code = ok;
    const auto value = value_of(core, text, code);
    if (!value) return code;
    const std::string kind = (*value)["kind"];
    if (form != Form::value && (kind == "integer" || kind == "real"))
        return core.fail(usage, "a constant has no bits until it has a type: cast<f16>(" + text + ")");
    Style style = core.style();
    style.form = form;
    if (all) style.threshold = INT64_MAX;
    core.value(*value, 0, style);
    return ok;
}

/// A number whose differences count units in the last place.
int64_t rank_of(uint64_t code, const Json& format) {
    const auto bits = format["bits"].get<uint64_t>();
    const bool is_signed = format["signed"].get<bool>();
    const uint64_t sign = uint64_t{1} << (bits - 1);
    if (format["kind"] == "integer" || format["kind"] == "fixed")
        return is_signed && code & sign ? static_cast<int64_t>(code | ~(sign * 2 - 1)) : static_cast<int64_t>(code);
    return is_signed && code & sign ? -static_cast<int64_t>(code & (sign - 1)) : static_cast<int64_t>(code);
}

std::string point_of(size_t element, const Json& extents) {
    std::string out;
    for (size_t d = extents.size(); d-- > 0;) {
        const auto extent = extents[d].get<size_t>();
        out = std::to_string(element % extent) + (out.empty() ? "" : ", ") + out;
        element /= extent;
    }
    return out.empty() ? "" : "[" + out + "]";
}

/// How the elements of two tensors of one type differ.
std::string differences(const Json& a, const Json& b, const std::string& first, const std::string& second) {
    constexpr size_t kShown = 5, kFar = 17;
    const Json& format = a["format"].contains("element") ? a["format"]["element"] : a["format"];
    const Json &x = a["codes"], &y = b["codes"];
    std::map<uint64_t, size_t> counts;  // by power of two of the distance
    size_t different = 0, nans = 0;
    uint64_t largest = 0;
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < x.size(); ++i) {
        const uint64_t p = x[i].get<uint64_t>(), q = y[i].get<uint64_t>();
        const Json &u = a["elements"][i], &v = b["elements"][i];
        if (p == q && u == v) continue;
        const bool nan = u.is_string() || v.is_string();
        const int64_t r = rank_of(p, format), s = rank_of(q, format);
        const uint64_t distance = r > s ? static_cast<uint64_t>(r) - static_cast<uint64_t>(s) : static_cast<uint64_t>(s) - static_cast<uint64_t>(r);
        ++different;
        if (nan)
            ++nans;
        else
            largest = std::max(largest, distance), ++counts[std::min<uint64_t>(std::bit_width(distance), kFar)];
        if (rows.size() < kShown)
            rows.push_back(
                {"  " + point_of(i, a["extents"]), element_text(u), element_text(v), nan ? "NaN or Inf" : std::to_string(distance) + " ulp"});
    }
    const std::string all = std::to_string(x.size()) + (x.size() == 1 ? " element" : " elements");
    if (!different) return "equal on " + first + " and " + second + ": " + all + ", to the bit";
    std::string out = std::to_string(different) + " of " + all + " differ between " + first + " and " + second + ", by at most " +
                      std::to_string(largest) + " ulp" + (nans ? "; " + std::to_string(nans) + " where one is NaN or Inf" : "") + "\n";
    for (const auto& [power, count] : counts) {
        const uint64_t from = power ? uint64_t{1} << (power - 1) : 0;
        out += "  " +
               (power == kFar ? "more"
                : power < 2   ? std::to_string(from)
                              : std::to_string(from) + " to " + std::to_string(2 * from - 1)) +
               " ulp: " + std::to_string(count) + "\n";
    }
    rows.insert(rows.begin(), {"  element", first, second, "apart"});
    return out + table_text(rows);
}

}  // namespace

int show_type(Core& core, const std::string& text) {
    if (text.empty()) return core.fail(usage, ":type needs an expression");
    int code = ok;
    // A kernel is no value, but has a signature; so have functions.
    if (text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.") == text.npos)
        if (const auto known = core.ask("inspect", text, code, text.size()); known && !(*known)["found"].is_null()) {
            const Json& found = (*known)["found"];
            if (found["kind"] == "kernel" || found["kind"] == "fn") return core.say(signature_of(found)), ok;
        }
    const auto answer = core.ask("type", text, code);
    if (!answer) return code;
    const Json& value = (*answer)["value"];
    core.say(value.is_null() ? "only a run knows" : value["type"].get<std::string>());
    return ok;
}

int show_value(Core& core, const std::string& text) { return show_as(core, text, Form::value, false); }
int show_bits(Core& core, const std::string& text) { return show_as(core, text, Form::bits, false); }

int show_layout(Core& core, const std::string& text) {
    if (text.empty()) return core.fail(usage, ":layout needs a tensor, a layout, or T @ L [M, N]");
    // T @ L [M, N] is a tensor that is made for the purpose.
    int code = ok;
    std::string expression = text, extents = "8, 8";
    const size_t at = text.find('@');
    if (at != text.npos) {
        std::string type = trimmed(text.substr(0, at)), layout = trimmed(text.substr(at + 1));
        if (const size_t open = layout.rfind('['); layout.ends_with(']') && open != layout.npos && open > 0) {
            extents = layout.substr(open + 1, layout.size() - open - 2);
            layout = trimmed(layout.substr(0, open));
        }
        if (type.find_first_of("[(") == type.npos) expression = "empty<" + type + ">[" + extents + "] @ " + layout;
    }
    auto value = value_of(core, expression, code);
    if (!value) return code;
    if ((*value)["kind"] == "layout") value = value_of(core, "empty<u8>[8, 8] @ " + text, code);
    if (!value) return code;
    if ((*value)["kind"] != "tensor")
        return core.fail(usage, "only tensors and layouts have places in storage, and this is of the kind " + (*value)["kind"].get<std::string>());
    Json picture = *value;
    const Json& format = picture["format"].contains("element") ? picture["format"]["element"] : picture["format"];
    const auto bits = format["bits"].get<int64_t>();
    const bool whole = bits % 8 == 0;
    for (Json& place : picture["places"])
        if (whole) place = place.get<int64_t>() / bits;
    picture[picture.contains("edge") ? "edges" : "elements"] = picture["places"];
    for (const char* key : {"scales", "tensor_scale", "codes", "format"}) picture.erase(key);
    picture["written"] = true;
    Style style = core.style();
    style.digits = 0;
    constexpr int64_t kPicture = 1024;
    style.threshold = std::max(style.threshold, kPicture);
    core.event(
        {{"event", "picture"},
         {"kind", "layout"},
         {"text", full_type(*value) + ": " + (whole ? "places of elements" : "first bits of elements") + "\n" + value_text(picture, style) + "\n"}});
    return ok;
}

int show_differences(Core& core, const std::string& operands) {
    std::string text = operands;
    const auto machines = take_words(text, "interp cpu cuda");
    if (machines.size() > 2) return core.fail(usage, ":diff compares two machines");
    const std::string own = core.machine_name(), first = machines.size() == 2 ? machines[0] : "interp",
                      second = machines.size() == 2   ? machines[1]
                               : machines.size() == 1 ? machines[0]
                               : own == "interp"      ? "cpu"
                                                      : own;
    const Settings former = core.settings();
    std::optional<Json> values[2];
    bool launches = false;
    int code = ok;
    for (int i = 0; i < 2 && code == ok; ++i) {
        core.settings().machine = i ? second : first;
        core.settings().model.clear();
        values[i] = value_of(core, text, code, &launches);
    }
    core.settings() = former;
    if (values[0] && !launches)
        return core.fail(usage,
                         "nothing is launched here, and expressions are the interpreter's on every machine: write launches, such as f(x, y); y");
    if (!values[0] || !values[1]) return code;
    const Json &a = *values[0], &b = *values[1];
    if (a["kind"] != "tensor" || !a.contains("codes") || a.contains("edge")) {
        if (a["kind"] == "tensor") return core.fail(usage, "there is nothing to compare: the elements are not written, or more than 2^20");
        core.say(a["text"] == b["text"] ? "equal on " + first + " and " + second
                                        : first + " " + a["text"].get<std::string>() + "\n" + second + " " + b["text"].get<std::string>());
        return ok;
    }
    core.say(differences(a, b, first, second));
    return ok;
}

int import_array(Core& core, const std::string& operands) {
    std::string text = operands, name;
    // A name in front, where `=` follows a word.
    if (const size_t equals = text.find('='); equals != text.npos) {
        const std::string word = trimmed(text.substr(0, equals));
        if (!word.empty() && word.find_first_of(" #/.:\t") == word.npos) name = word, text = trimmed(text.substr(equals + 1));
    }
    if (text.empty()) return core.fail(usage, ":import needs a file");
    Spec spec;
    std::string error = read_spec(text, spec);
    if (error.empty() && spec.extents && !spec.is_view) error = "`as TYPE[EXTENTS]` takes the bytes of a file for such a tensor";
    if (!error.empty()) return core.fail(usage, text + ": " + error);
    const auto array = read_array(spec.path, spec.tensor, error, Access::source);
    if (!array) return core.fail(io, error);
    int code = ok;
    const tegula::Module module = core.module(code);
    if (code != ok) return code;
    Buffer buffer = buffer_of(*array);
    auto seen = view(module, spec, buffer, error);
    if (!seen) return error.empty() ? core.show(seen.diagnostics(), seen.status()) : core.fail(run_failed, error);
    if (!spec.is_view && !spec.type.empty()) {
        Buffer converted;
        auto done = convert(module, buffer, spec.type, buffer.layout, converted);
        if (!done) return core.show(done.diagnostics(), done.status());
        buffer = std::move(converted);
    }
    if (name.empty()) {
        name = spec.tensor.empty() ? spec.path.substr(spec.path.rfind('/') + 1) : spec.tensor.substr(spec.tensor.rfind('.') + 1);
        if (spec.tensor.empty()) name.resize(std::min(name.find('.'), name.size()));
        for (char& c : name)
            if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))) c = '_';
        if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name = "x" + name;
    }
    auto set = core.session().set(name, buffer.tensor());
    if (!set) return core.show(set.diagnostics(), set.status());
    core.say(name + " = " + buffer.type + "[" + shape_text(buffer) + "] @ " + buffer.layout);
    return ok;
}

}  // namespace tegula_tool::repl
