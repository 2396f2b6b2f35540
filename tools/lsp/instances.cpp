#include "instances.h"

#include <algorithm>
#include <charconv>

#include "../terminal.h"
#include "../tool.h"
#include "pool.h"

namespace tegula_tool::lsp {

namespace {

std::string trimmed(const std::string& s) {
    const size_t first = s.find_first_not_of(' '), last = s.find_last_not_of(' ');
    return first == s.npos ? std::string() : s.substr(first, last - first + 1);
}

/// A number, `true` or `false`, or the text of a type.
tegula::Value value_of(const std::string& text) {
    int64_t number = 0;
    const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text == "true" || text == "false") return text == "true" ? 1 : 0;
    if (error == std::errc() && last == text.data() + text.size()) return number;
    return text;
}

}  // namespace

std::vector<tegula::NamedValue> values_of(std::string_view instance) {
    std::vector<tegula::NamedValue> out;
    while (!instance.empty()) {
        size_t end = 0;
        for (int depth = 0; end < instance.size() && (instance[end] != ',' || depth > 0); ++end)
            depth += instance[end] == '<' || instance[end] == '(' ? 1 : instance[end] == '>' || instance[end] == ')' ? -1 : 0;
        std::string name, value;
        if (split(std::string(instance.substr(0, end)), name, value)) out.emplace_back(trimmed(name), value_of(trimmed(value)));
        instance.remove_prefix(std::min(end + 1, instance.size()));
    }
    return out;
}

std::vector<tegula::NamedValue> values_of(const json& set, std::string_view instance) {
    std::vector<tegula::NamedValue> out;
    if (!set.is_null() && !set.is_object()) throw Failure{invalid_params, "`set` is an object: names of generics and their values"};
    const json given = set.is_object() ? set : json::object();
    for (const auto& [name, value] : given.items()) {
        if (value.is_boolean())
            out.emplace_back(name, value.get<bool>() ? 1 : 0);
        else if (value.is_number_unsigned())
            out.emplace_back(name, value.get<uint64_t>());
        else if (value.is_number_integer())
            out.emplace_back(name, value.get<int64_t>());
        else if (value.is_number())
            out.emplace_back(name, value.get<double>());
        else if (value.is_string())
            out.emplace_back(name, value_of(value.get<std::string>()));
        else
            throw Failure{invalid_params, "the value of `" + visible(name.substr(0, 100)) + "` in `set` is a number or a text"};
    }
    for (tegula::NamedValue& one : values_of(instance))
        if (std::ranges::none_of(out, [&](const tegula::NamedValue& o) { return o.first == one.first; })) out.push_back(std::move(one));
    return out;
}

}  // namespace tegula_tool::lsp
