// The listings of a kernel's stages as one HTML file: panes side by side whose lines are linked by their places in the source.
#include <algorithm>
#include <charconv>

#include "tools/viz/drawing.h"

namespace tegula_tool::viz {

namespace {

constexpr const char* kStyle =
    ":root{color-scheme:light dark;--bg:#fff;--ink:#1b1d1f;--dim:#6b7075;--rule:#c9ccd0;--hot:#ffe9a8;--found:#c6e4ff;--bar:#9ec5ee}"
    "@media (prefers-color-scheme:dark){:root{--bg:#14171a;--ink:#e8e8e6;--dim:#9aa0a6;--rule:#3a4046;--hot:#57480f;--found:#17466d;--bar:#2b5f93}}"
    "*{box-sizing:border-box}body{margin:0;height:100vh;display:flex;flex-direction:column;background:var(--bg);color:var(--ink);"
    "font:12px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace}"
    "header{padding:6px 10px;border-bottom:1px solid "
    "var(--rule);display:flex;gap:14px;align-items:baseline;flex-wrap:wrap}h1{font-size:14px;margin:0}"
    "main{flex:1;display:flex;min-height:0;overflow-x:auto}section{flex:1 0 30em;min-width:0;display:flex;flex-direction:column;border-right:1px "
    "solid var(--rule)}"
    "section[hidden]{display:none}h2{font-size:12px;margin:0;padding:4px 8px;border-bottom:1px solid var(--rule)}h2 "
    "small{font-weight:normal;color:var(--dim)}"
    "ol{flex:1;overflow:auto;margin:0;padding:0;list-style:none}li{display:flex;white-space:pre;line-height:1.45}"
    "li>i{flex:none;width:5em;padding-right:.8em;text-align:right;color:var(--dim);font-style:normal;overflow:hidden;text-overflow:ellipsis}"
    "li>b{flex:none;width:4.5em;padding-right:.6em;text-align:right;font-weight:normal;color:var(--dim)}"
    "li>u{flex:none;width:1.2em;text-decoration:none;cursor:help}li.on{background:var(--hot)}li.found{background:var(--found)}li.own>i{opacity:.6}"
    "footer{padding:4px 10px;border-top:1px solid var(--rule);min-height:4.6em;max-height:12em;overflow:auto;white-space:pre-wrap;color:var(--dim)}"
    "input[type=search]{width:18em;font:inherit}label{white-space:nowrap}";

constexpr const char* kScript =
    "const all=[...document.querySelectorAll('li')],by={},foot=document.querySelector('footer'),rest=foot.textContent;"
    "for(const l of all)if(l.dataset.at)(by[l.dataset.at]=by[l.dataset.at]||[]).push(l);"
    "let on=[];function mark(at){for(const l of on)l.classList.remove('on');on=at&&by[at]||[];for(const l of on)l.classList.add('on');"
    "const said=on.map(l=>l.querySelector('u')).filter(u=>u&&u.title).map(u=>u.title);foot.textContent=said.length?said.join('\\n'):rest}"
    "document.addEventListener('mouseover',e=>{const l=e.target.closest('li');if(l)mark(l.dataset.at)});"
    "document.addEventListener('click',e=>{const l=e.target.closest('li');if(!l||!l.dataset.at)return;"
    "for(const o of document.querySelectorAll('ol')){if(o.contains(l))continue;const f=on.find(x=>o.contains(x));"
    "if(f)o.scrollTop=f.offsetTop-o.offsetTop-o.clientHeight/3}});"
    "for(const c of document.querySelectorAll('input[type=checkbox]'))c.onchange=()=>{document.getElementById(c.value).hidden=!c.checked};"
    "document.querySelector('input[type=search]').oninput=e=>{const q=e.target.value.toLowerCase();let first={};"
    "for(const l of all){const hit=q&&l.lastChild.textContent.toLowerCase().includes(q);l.classList.toggle('found',!!hit);"
    "const o=l.parentNode;if(hit&&!first[o.parentNode.id]){first[o.parentNode.id]=1;o.scrollTop=l.offsetTop-o.offsetTop-o.clientHeight/3}}};";

std::string pane(const Json& figure, size_t number, bool shown) {
    const Json &lines = figure.at("lines"), &places = figure.at("places"), &gutter = figure.at("gutter"), &remarks = figure.at("remarks");
    std::string out = "<section id=\"p" + std::to_string(number) + "\"" + (shown ? "" : " hidden") + "><h2>" + escaped(text_of(figure, "title")) +
                      " <small>" + escaped(text_of(figure, "caption")) + "</small></h2><ol>\n";
    for (size_t i = 0; i < lines.size(); ++i) {
        const std::string place = i < places.size() ? places[i].get<std::string>() : "",
                          said = i < remarks.size() ? remarks[i].get<std::string>() : "";
        out += "<li";
        out += place.empty() ? " class=\"own\" title=\"the compiler's\"" : " data-at=\"" + escaped(place) + "\"";
        out += "><i>" + (place.empty() ? std::string("-") : escaped(place)) + "</i>";
        if (!gutter.empty()) out += "<b>" + escaped(i < gutter.size() ? gutter[i].get<std::string>() : "") + "</b>";
        if (!remarks.empty()) out += said.empty() ? "<u></u>" : "<u title=\"" + escaped(said) + "\">\xe2\x97\x8f</u>";
        out += "<span>" + escaped(lines[i].get<std::string>()) + "</span></li>\n";
    }
    return out + "</ol></section>\n";
}

}  // namespace

Json machine_code(const std::string& text, const Json& places) {
    Json lines = Json::array(), at = Json::array();
    const auto place_of = [&](std::string_view said) {  // File "..", line N
        const size_t line = said.find("line ");
        size_t n = 0;
        if (line != said.npos) std::from_chars(said.data() + line + 5, said.data() + said.size(), n);
        return n >= 1 && n <= places.size() ? places[n - 1].get<std::string>() : std::string();
    };
    std::string place;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        begin = end + 1;
        if (const size_t mark = line.find("//## File"); mark != line.npos) {
            // The innermost place first, then where it is inlined.
            const size_t inlined = line.find("inlined at");
            place = place_of(line.substr(mark, inlined - mark));
            if (place.empty() && inlined != line.npos) place = place_of(line.substr(inlined));
            continue;
        }
        const bool instruction = line.find("/*") != line.npos && line.find(';') != line.npos;
        lines.push_back(std::string(line)), at.push_back(instruction ? place : "");
    }
    return {{"title", "sass"}, {"caption", "machine code"}, {"kind", "listing"},        {"language", "sass"},     {"lines", lines},
            {"places", at},    {"gutter", Json::array()},   {"remarks", Json::array()}, {"legend", Json::array()}};
}

std::string paint_source(const Json& model) {
    std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(text_of(model, "title")) +
                      "</title>\n<style>" + kStyle + "</style></head>\n<body><header><h1>" + escaped(text_of(model, "title")) +
                      "</h1><input type=\"search\" placeholder=\"search all panes\" aria-label=\"search\">";
    std::string panes, notes;
    size_t number = 0;
    for (const Json& figure : model.at("figures")) {
        if (text_of(figure, "kind") != "listing") continue;
        const std::string language = text_of(figure, "language");
        const bool shown = language == "tile" || language == "cuda" || language == "ptx" || language == "sass" || language == "asm";
        out += "<label><input type=\"checkbox\" value=\"p" + std::to_string(number) + "\"" + (shown ? " checked" : "") + "> " +
               escaped(text_of(figure, "title")) + "</label>";
        panes += pane(figure, number++, shown);
    }
    for (const Json& fact : model.at("facts")) notes += text_of(fact, "name") + ": " + text_of(fact, "value") + "\n";
    for (const Json& note : model.value("notes", Json::array())) notes += note.get<std::string>() + "\n";
    return out + "</header>\n<main>\n" + panes + "</main>\n<footer>" + escaped(notes) +
           "a line that is pointed at is marked in all panes; a click brings it into view\n</footer>\n<script>" + kScript +
           "</script></body></html>\n";
}

}  // namespace tegula_tool::viz
