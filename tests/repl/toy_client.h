// A client of the editor with a toy language: brackets, numbers, strings, comments and a few words.
#pragma once
#include <algorithm>
#include <string>

#include "../../tools/edit/clusters.h"
#include "../../tools/edit/editor.h"
#include "../../tools/outside.h"

namespace tegula_tool::edit {

struct ToyClient : Client {
    std::vector<std::string> words{"scaled", "scale_rows", "scatter", "softmax", "let", "kernel"};

    std::vector<Span> colours(std::string_view text) override {
        std::vector<Span> out;
        for (size_t at = 0; at < text.size();) {
            const size_t begin = at;
            if (text.substr(at).starts_with("//")) {
                at = line_end(text, at);
                out.push_back({begin, at, Colour::comment});
            } else if (text[at] == '"') {
                at = std::min(text.find('"', at + 1), text.size() - 1) + 1;
                out.push_back({begin, at, Colour::string});
            } else if (text[at] >= '0' && text[at] <= '9') {
                while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
                out.push_back({begin, at, Colour::number});
            } else if (is_word_at(text, at)) {
                while (is_word_at(text, at)) at = behind(text, at);
                const auto word = text.substr(begin, at - begin);
                if (word == "let" || word == "kernel") out.push_back({begin, at, Colour::keyword});
            } else {
                ++at;
            }
        }
        return out;
    }
    Completion complete(std::string_view text, size_t at) override {
        Completion out{at, at, {}};
        while (out.begin > 0 && is_word_at(text, out.begin - 1)) --out.begin;
        for (const std::string& word : words)
            if (word.starts_with(text.substr(out.begin, at - out.begin))) out.candidates.push_back({word, "word", "what " + word + " does"});
        return out;
    }
    std::string edit_outside(std::string& text) override { return tegula_tool::edit_outside(text); }
    std::string hint(std::string_view text, size_t) override { return text.ends_with("scaled(") ? "x, s, out y" : ""; }
    Completeness is_complete(std::string_view text) override {
        const auto open = static_cast<size_t>(std::ranges::count_if(text, [](char c) { return c == '{' || c == '('; }));
        const auto closed = static_cast<size_t>(std::ranges::count_if(text, [](char c) { return c == '}' || c == ')'; }));
        return {open <= closed, open > closed ? 4 * (open - closed) : 0};
    }
};

}  // namespace tegula_tool::edit
