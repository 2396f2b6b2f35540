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
constexpr const char* kKinds[] = {
    "builtin", "builtin", "type",   "layout",   "constant", "option", "attribute", "schedule", "metric",    "keyword",
    "module",  "import",  "const",  "struct",   "fn",       "kernel", "test",      "bench",    "parameter", "generic",
    "extent",  "field",   "member", "argument", "variable", "local",  "let",       "var",      "function",  "name",
};
static_assert(std::size(kKinds) == static_cast<size_t>(NameKind::count_));

constexpr std::string_view kConstants[] = {"inf", "nan", "pi", "true", "false"};

/// What a format is, of the built-in ones.
std::string_view format_doc(const std::vector<Format>& builtin, std::string_view name) {
    static constexpr std::string_view kDocs[] = {
        {},  // id 0
#define FORMAT(id, kind, sign, bits, exp, man, bias, inf, nan, zero, doc) doc,
#include "lang/formats.def"
#undef FORMAT
    };
    for (size_t i = 1; i < std::size(kDocs); ++i)
        if (builtin[i].name == name) return kDocs[i];
    return {};
}

constexpr Word kExplained[] = {
#define WORD(kind, name, signature, doc) {NameKind::kind, name, signature, doc},
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

const char* kind_text(NameKind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::span<const std::string_view> option_words() { return kOptions; }
std::span<const std::string_view> constant_words() { return kConstants; }

std::vector<Word> vocabulary() {
    std::vector<Word> out;
    for (const BuiltinDoc& b : builtin_docs()) out.push_back({NameKind::builtin, b.name, b.signature, b.doc});
    for (uint16_t op = 0; op < static_cast<uint16_t>(ir::Op::count_); ++op) {
        const ir::OpRow& row = ir::op_row(ir::Op(op));
        if (ir::find_function(row.name) == ir::Op::count_) continue;
        static constexpr std::string_view kForms[][2] = {
            {"(x)", "(x, round = rne)"}, {"(a, b)", "(a, b, round = rne)"}, {"(a, b, c)", "(a, b, c, round = rne)"}};
        out.push_back({NameKind::builtin, row.name, kForms[row.operands - 1][ir::has_directed(ir::Op(op))], row.doc});
    }
#define HOST_CALL(name, signature, doc) out.push_back({NameKind::host, #name, signature, doc});
#include "lang/host_calls.def"
    const std::vector<Format> formats = builtin_formats();
    for (const std::string_view name : type_names()) out.push_back(explained({NameKind::type, name, {}, format_doc(formats, name)}));
    for (const std::string_view name : layout_words()) out.push_back(explained({NameKind::layout, name, {}, {}}));
    for (const std::string_view name : kConstants) out.push_back(explained({NameKind::constant, name, {}, {}}));
    for (const Word& hint : hint_words()) out.push_back(explained(hint));
    for (const std::string_view name : {"cache", "evict"}) out.push_back(explained({NameKind::attribute, name, {}, {}}));
    for (const std::string_view name : kOptions) out.push_back(explained({NameKind::option, name, {}, {}}));
    for (const char* kind : {"cache", "evict"})
        for (const std::string_view name : find_word_kind(kind)->words) out.push_back(explained({NameKind::option, name, {}, {}}));
    for (const Word& row : kExplained)
        if (row.kind == NameKind::metric) out.push_back(row);
    return out;
}

}  // namespace tegula::sema
