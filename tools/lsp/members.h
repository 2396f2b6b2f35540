// Members of messages, which may be anything.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace tegula_tool::lsp::members {

using nlohmann::json;

/// A member of an object; null for anything else.
inline const json& member(const json& object, const char* name) {
    static const json none;
    if (!object.is_object()) return none;
    const auto it = object.find(name);
    return it == object.end() ? none : *it;
}

inline std::string text_at(const json& object, const char* name) {
    const json& value = member(object, name);
    return value.is_string() ? value.get<std::string>() : std::string();
}

/// The elements of a list; of anything else none.
inline const json& list_at(const json& object, const char* name) {
    static const json none = json::array();
    const json& value = member(object, name);
    return value.is_array() ? value : none;
}

}  // namespace tegula_tool::lsp::members
