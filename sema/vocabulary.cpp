// The vocabulary, from the tables that give its words their meaning.
#include "sema/vocabulary.h"

#include "lang/directed.h"
#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/type_names.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

constexpr std::string_view kOptions[] = {"rne",   "rna",  "rtz",  "ru",    "rd",       "stochastic",    "ieee",    "sat",
                                         "trap",  "auto", "fast", "tf32",  "relaxed",  "acquire",       "release", "acq_rel",
                                         "gpu",   "cta",  "sys",  "hw",    "all_ones", "negative_zero", "strict",  "automatic",
                                         "floor", "ceil", "even", "rceil", "tf32x3"};
constexpr std::string_view kConstants[] = {"inf", "nan", "pi", "true", "false"};

/// What a format is, of the built-in ones.
std::string_view format_doc(std::string_view name) {
    static constexpr std::pair<std::string_view, std::string_view> kDocs[] = {
#define FORMAT(id, kind, sign, bits, exp, man, bias, inf, nan, zero, doc) {#id, doc},
#include "lang/formats.def"
#undef FORMAT
    };
    if (name == "bool") name = "boolean";
    for (const auto& [format, doc] : kDocs)
        if (format == name) return doc;
    return {};
}

constexpr Word kExplained[] = {
#define WORD(kind, name, signature, doc) {kind, name, signature, doc},
#include "sema/words.def"
#undef WORD
};

/// A word with what words.def says of it.
Word explained(Word word) {
    for (const Word& row : kExplained) {
        if (row.kind != word.kind || row.name != word.name) continue;
        if (word.signature.empty()) word.signature = row.signature;
        word.doc = row.doc;
    }
    return word;
}

}  // namespace

std::span<const std::string_view> option_words() { return kOptions; }
std::span<const std::string_view> constant_words() { return kConstants; }

std::vector<Word> vocabulary() {
    std::vector<Word> out;
    for (const BuiltinDoc& b : builtin_docs()) out.push_back({"builtin", b.name, b.signature, b.doc});
    for (uint16_t op = 0; op < static_cast<uint16_t>(ir::Op::count_); ++op) {
        const ir::OpRow& row = ir::op_row(ir::Op(op));
        if (ir::find_function(row.name) == ir::Op::count_) continue;
        static constexpr std::string_view kForms[][2] = {
            {"(x)", "(x, round = rne)"}, {"(a, b)", "(a, b, round = rne)"}, {"(a, b, c)", "(a, b, c, round = rne)"}};
        out.push_back({"builtin", row.name, kForms[row.operands - 1][ir::has_directed(ir::Op(op))], row.doc});
    }
#define HOST_CALL(name, signature, doc) out.push_back({"host", #name, signature, doc});
#include "lang/host_calls.def"
    for (const std::string_view name : type_names()) out.push_back(explained({"type", name, {}, format_doc(name)}));
    for (const std::string_view name : layout_words()) out.push_back(explained({"layout", name, {}, {}}));
    for (const std::string_view name : kConstants) out.push_back(explained({"constant", name, {}, {}}));
    for (const Word& hint : hint_words()) out.push_back(explained(hint));
    for (const std::string_view name : {"cache", "evict"}) out.push_back(explained({"attribute", name, {}, {}}));
    for (const std::string_view name : kOptions) out.push_back(explained({"option", name, {}, {}}));
    for (const char* kind : {"cache", "evict"})
        for (const std::string_view name : find_word_kind(kind)->words) out.push_back(explained({"option", name, {}, {}}));
    for (const Word& row : kExplained)
        if (row.kind == "metric") out.push_back(row);
    return out;
}

}  // namespace tegula::sema
