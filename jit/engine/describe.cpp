// What a module offers, as Markdown (from `///` comments) and as JSON.
#include "jit/cache/cache.h"
#include "jit/engine/session_names.h"
#include "lower/kernel/lower.h"
#include "lower/lower.h"

namespace tegula {

sema::NameKind item_name_kind(ast::ItemKind kind) {
    using enum sema::NameKind;
    static constexpr sema::NameKind kKinds[] = {import, const_, type, struct_, layout, fn, kernel, test, bench};
    return kKinds[static_cast<int>(kind)];
}

const char* item_kind_name(ast::ItemKind kind) { return sema::kind_text(item_name_kind(kind)); }

std::string item_signature(const ast::Item& item, const SourceMap& sources) {
    Span span = item.span;
    if (item.kind == ast::ItemKind::fn) span.end = ast::as<ast::FnItem>(&item).body.span.begin;
    if (item.kind == ast::ItemKind::kernel) span.end = ast::as<ast::KernelItem>(&item).body.span.begin;
    std::string out;
    bool comment = false, space = false;
    std::string_view text = sources.text(span);
    for (size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i, 2) == "//") comment = true;
        if (text[i] == '\n') comment = false;
        if (comment) continue;
        if (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
            space = !out.empty();
            continue;
        }
        if (space) out += ' ';
        space = false;
        out += text[i];
    }
    return out;
}

namespace {

std::string parameters_json(const ast::KernelItem& kernel, const SourceMap& sources) {
    static constexpr const char* kModes[] = {"in", "out", "inout"};
    std::string out = ",\"generics\":[";
    const char* separator = "";
    for (const ast::GenericParam& g : kernel.generics) {
        out += separator + ("{\"name\":" + json_quote(g.name.text));
        if (g.bound) out += ",\"bound\":" + json_quote(sources.text(g.bound->span));
        if (g.default_value) out += ",\"default\":" + json_quote(sources.text(g.default_value->span));
        out += "}";
        separator = ",";
    }
    out += "],\"parameters\":[";
    separator = "";
    for (const ast::Param& p : kernel.params) {
        out += separator + ("{\"name\":" + json_quote(p.name.text)) + ",\"mode\":\"" + kModes[static_cast<int>(p.mode)] +
               "\",\"type\":" + json_quote(sources.text(p.type->span)) +
               (p.default_value ? ",\"default\":" + json_quote(sources.text(p.default_value->span)) : std::string()) + "}";
        separator = ",";
    }
    return out + "]";
}

}  // namespace

std::vector<const ast::Item*> items_of(const sema::Module& module) {
    std::vector<const ast::Item*> items(module.ast->items.begin(), module.ast->items.end());
    for (const std::string_view name : module.item_names())
        if (const ast::Item* item = module.find(name); item && std::ranges::find(items, item) == items.end()) items.push_back(item);
    if (items.size() > module.ast->items.size())  // of the library, which parses them one by one
        std::ranges::sort(items, {}, [](const ast::Item* item) { return std::pair(item->span.begin, item->span.file); });
    return items;
}

std::string document_module(const sema::Module& module, const SourceMap& sources) {
    std::string out = "# " + module.name + "\n";
    if (!module.ast->docs.empty()) out += "\n" + std::string(module.ast->docs) + "\n";
    for (const ast::Item* item : items_of(module)) {
        const bool is_private = item->name.text.substr(0, 1) == "_";
        if (item->kind == ast::ItemKind::import || item->kind == ast::ItemKind::test || item->kind == ast::ItemKind::bench || is_private) continue;
        out += "\n## " + std::string(item_kind_name(item->kind)) + " `" + std::string(item->name.text) + "`\n\n```tile\n" +
               item_signature(*item, sources) + "\n```\n";
        if (!item->docs.empty()) out += "\n" + std::string(item->docs) + "\n";
    }
    return out;
}

std::string describe_module(const sema::Module& module, const SourceMap& sources) {
    std::string out = "{\"schema\":1,\"module\":" + json_quote(module.name) + ",\"items\":[";
    const char* separator = "";
    for (const ast::Item* item : items_of(module)) {
        out += separator + ("{\"kind\":\"" + std::string(item_kind_name(item->kind))) + "\",\"name\":" + json_quote(item->name.text);
        if (!item->docs.empty()) out += ",\"docs\":" + json_quote(item->docs);
        if (item->kind == ast::ItemKind::kernel) out += parameters_json(ast::as<ast::KernelItem>(item), sources);
        LineCol at = sources.line_col(item->span.file, item->span.begin);
        out += ",\"line\":" + std::to_string(at.line) + "}";
        separator = ",";
    }
    return out + "]}\n";
}

std::string describe_library(Engine& engine) {
    std::string out = "{\"schema\":1,\"machines\":[{\"name\":\"interp\",\"available\":true,\"doc\":\"reference interpreter\"}," +
                      engine.cuda().describe() + "," + engine.cpu().describe() + "],\"formats\":[";
    const char* separator = "";
    for (const Format& f : builtin_formats()) {
        if (f.name.empty()) continue;
        out += separator + ("{\"name\":" + json_quote(f.name)) + ",\"bits\":" + std::to_string(f.bits) + "}";
        separator = ",";
    }
    out += "],\"architectures\":[";
    separator = "";
    for (const Arch& a : all_archs()) {
        out += separator + ("{\"name\":" + json_quote(a.name)) + ",\"shared_bytes\":" + std::to_string(a.shared_bytes) + "}";
        separator = ",";
    }
    out += "],\"passes\":[";
    separator = "";
    auto passes = pass_names();
    for (const auto& more : {gpu_pass_names(), kernel_pass_names()}) passes.insert(passes.end(), more.begin(), more.end());
    for (std::string_view name : passes) {
        out += separator + json_quote(name);
        separator = ",";
    }
    out += "],\"operations\":[";
    for (int op = 0; op < static_cast<int>(ir::Op::count_); ++op) {
        const ir::OpRow& row = ir::op_row(static_cast<ir::Op>(op));
        out += (op ? "," : "") + ("{\"name\":" + json_quote(row.name)) + ",\"doc\":" + json_quote(row.doc) + "}";
    }
    out += "],\"functions\":[";
    separator = "";
    for (const sema::BuiltinDoc& b : sema::builtin_docs()) {
        out += separator + ("{\"name\":" + json_quote(b.name)) + ",\"signature\":" + json_quote(b.signature) + ",\"doc\":" + json_quote(b.doc) + "}";
        separator = ",";
    }
    out += "],\"diagnostics\":[";
    for (int d = 0; d < static_cast<int>(Diag::count_); ++d) {
        const DiagRow& row = diag_row(static_cast<Diag>(d));
        out += (d ? "," : "") + ("{\"code\":" + json_quote(row.code)) + ",\"message\":" + json_quote(row.message) + "}";
    }
    const std::string cache = cache_directory({});
    out += "],\"directories\":{\"cache\":" + (cache.empty() ? "null" : json_quote(cache)) +
           ",\"import_root\":" + (engine.options().import_root.empty() ? "null" : json_quote(engine.options().import_root)) + "}";
    return out + "}\n";
}

}  // namespace tegula
