// JSON as text, member by member (internal to workspace*.cpp).
#pragma once
#include <concepts>
#include <string>
#include <string_view>

#include "lang/diag.h"

namespace tegula {

class Json {
public:
    Json& begin(char open) {
        separate();
        text_ += open;
        first_ = true;
        return *this;
    }
    Json& end(char close) {
        text_ += close;
        first_ = false;
        return *this;
    }
    Json& key(std::string_view name) {
        separate();
        text_ += json_quote(name) + ":";
        first_ = true;
        return *this;
    }
    Json& value(std::string_view v) {
        separate();
        text_ += json_quote(v);
        return *this;
    }
    Json& value(const char* v) { return value(std::string_view(v)); }
    Json& value(bool v) {
        separate();
        text_ += v ? "true" : "false";
        return *this;
    }
    Json& null() {
        separate();
        text_ += "null";
        return *this;
    }
    template <std::integral T>
    requires(!std::same_as<T, bool>) Json& value(T v) {
        separate();
        text_ += std::to_string(v);
        return *this;
    }
    template <class T>
    Json& member(std::string_view name, const T& v) {
        key(name);
        return value(v);
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
    bool first_ = true;
    void separate() {
        if (!first_) text_ += ',';
        first_ = false;
    }
};

}  // namespace tegula
