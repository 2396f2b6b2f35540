// What follows from the table of the command line for people: help, pages of the manual, the reference of docs/command.md.
#include <algorithm>
#include <cstdio>

#include "files.h"
#include "options.h"
#include "repl/commands.h"
#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

constexpr size_t kWidth = 100, kIndent = 2, kColumn = 26;

/// `text` in lines of at most kWidth, each after the first behind `indent` spaces.
std::string wrapped(std::string_view text, size_t indent) {
    std::string out;
    size_t column = indent;
    for (const std::string_view word : words_of(text)) {
        if (column > indent && column + 1 + word.size() > kWidth) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        }
        if (column > indent) out += ' ', ++column;
        out += word;
        column += word.size();
    }
    return out;
}

struct Style {
    bool colour;
    std::string title(std::string_view text) const { return (colour ? "\033[1;33m" : "") + std::string(text) + (colour ? "\033[0m" : ""); }
    std::string name(std::string_view text) const { return (colour ? "\033[1;36m" : "") + std::string(text) + (colour ? "\033[0m" : ""); }
};

/// A name and what it is, in two columns.
std::string entry(const Style& style, const std::string& name, std::string_view help) {
    std::string out = std::string(kIndent, ' ') + style.name(name);
    const size_t width = kIndent + name.size();
    out += width + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - width, ' ');
    return out + wrapped(help, kColumn) + "\n";
}

std::string flag_name(const Flag& flag) {
    std::string out = flag.letter ? std::string("-") + flag.letter + ", " : "";
    out += "--" + std::string(flag.name);
    return flag.value.empty() ? out : out + " " + std::string(flag.value);
}

std::string operand_text(const Operand& operand) {
    const std::string name = std::string(operand.name) + (operand.many ? ".." : "");
    return operand.required ? name : "[" + name + "]";
}

std::string synopsis(const Verb* verb) {
    std::string out = "tegula";
    if (!verb) return out + " [OPTION..] VERB ..";
    out += " " + std::string(verb->name);
    for (const Operand& operand : verb->operands) out += " " + operand_text(operand);
    return out + " [OPTION..]";
}

std::string flags_help(const Style& style, const Verb* verb, bool common) {
    std::string out;
    for (const Flag& flag : flags())
        if (flag.verbs.empty() == common && (common || flag.is_of(verb->name))) out += entry(style, flag_name(flag), flag.help);
    return out;
}

constexpr std::string_view kHelpFlag = "this text";
constexpr std::string_view kVersionFlag = "the version of the command and its library";
constexpr std::string_view kArgumentFile = "the words of this file, as if they stood here; quotes as in a shell, # begins a comment";
constexpr std::string_view kTitle = "Tegula, a tile language for GPU and CPU kernels.";

/// Text of roff: nothing in it is an instruction.
std::string roff(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '`') continue;  // a mark of Markdown
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
            (out += "\\&") += c;
        else
            out += c;
    }
    return out;
}

std::string roff_entry(const std::string& name, std::string_view help) { return ".TP\n\\fB" + roff(name) + "\\fR\n" + roff(help) + "\n"; }

std::string roff_flags(const Verb* verb, bool common) {
    std::string out;
    for (const Flag& flag : flags())
        if (flag.verbs.empty() == common && (common || flag.is_of(verb->name))) out += roff_entry(flag_name(flag), flag.help);
    return out;
}

}  // namespace

std::string help_text(const Verb* verb, bool colour) {
    const Style style{colour};
    std::string out = verb ? wrapped(std::string(verb->help) + ". " + std::string(verb->more), 0) : std::string(kTitle);
    out += "\n\n" + style.title("Usage:") + " " + synopsis(verb) + "\n";
    if (!verb) {
        out += "\n" + style.title("Verbs:") + "\n";
        for (const Verb& v : verbs()) out += entry(style, std::string(v.name), v.help);
    } else {
        if (!verb->operands.empty()) out += "\n" + style.title("Operands:") + "\n";
        for (const Operand& operand : verb->operands) out += entry(style, operand_text(operand), operand.help);
        if (const std::string own = flags_help(style, verb, false); !own.empty()) out += "\n" + style.title("Options:") + "\n" + own;
    }
    out += "\n" + style.title(verb ? "Options of every verb:" : "Options:") + "\n" + flags_help(style, verb, true);
    out += entry(style, "-h, --help", kHelpFlag);
    if (!verb) out += entry(style, "--version", kVersionFlag);
    out += entry(style, "@FILE", kArgumentFile);
    out += "\n" + style.title("Examples:") + "\n";
    if (verb)
        for (const std::string_view example : verb->examples) out += "  " + std::string(example) + "\n";
    else
        for (const std::string_view name : {"run", "test", "dump"})
            for (const Verb& v : verbs())
                if (v.name == name) out += "  " + std::string(v.examples.front()) + "\n";
    if (!verb) out += "\n`tegula VERB --help` shows the options of a verb.\n";
    return out;
}

std::string manual_page(const Verb* verb) {
    const std::string name = verb ? "tegula-" + std::string(verb->name) : "tegula";
    std::string title = name;
    std::transform(title.begin(), title.end(), title.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    const std::string version = std::string(tegula_build_id()).substr(0, std::string_view(tegula_build_id()).find(" ("));
    std::string out = ".TH \"" + roff(title) + "\" 1 \"\" \"" + roff(version) + "\" \"Tegula\"\n.nh\n.ad l\n.SH NAME\n" + roff(name) + " \\- " +
                      roff(verb ? verb->help : kTitle) + "\n.SH SYNOPSIS\n\\fB" + roff(synopsis(verb)) + "\\fR\n";
    if (verb) {
        out += ".SH DESCRIPTION\n" + roff(std::string(verb->help) + ".") + "\n" + roff(verb->more) + "\n";
        for (const Operand& operand : verb->operands) out += roff_entry(operand_text(operand), operand.help);
    } else {
        out += ".SH VERBS\n";
        for (const Verb& v : verbs()) out += roff_entry(std::string(v.name), v.help);
    }
    out += ".SH OPTIONS\n" + (verb ? roff_flags(verb, false) : "") + roff_flags(verb, true) + roff_entry("-h, --help", kHelpFlag);
    if (!verb) out += roff_entry("--version", kVersionFlag);
    out += roff_entry("@FILE", kArgumentFile);
    if (verb && verb->name == "repl") {
        out += ".SH COMMANDS\n";
        for (const auto& [command, help] : repl::command_rows()) out += roff_entry(command, help);
    }
    if (verb) {
        out += ".SH EXAMPLES\n.nf\n";
        for (const std::string_view example : verb->examples) out += roff(example) + "\n";
        out += ".fi\n";
    }
    out += ".SH EXIT STATUS\n";
    for (const Row& row : exit_codes()) out += roff_entry(std::string(row.name), row.help);
    out += ".SH ENVIRONMENT\n";
    for (const Row& row : variables()) out += roff_entry(std::string(row.name), row.help);
    out += ".SH SEE ALSO\n";
    if (verb) out += "\\fBtegula\\fR(1), ";
    std::string others;
    for (const Verb& v : verbs())
        if (&v != verb) others += (others.empty() ? "" : ", ") + ("\\fB" + roff("tegula-" + std::string(v.name)) + "\\fR(1)");
    return out + others + "\n";
}

namespace {

/// Text in a table of Markdown.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
    return out;
}

/// The commands of the console, part of docs/repl.md.
std::string console_text() {
    std::string out = "| command | |\n|---|---|\n";
    for (const auto& [command, help] : repl::command_rows()) out += "| `" + cell(command) + "` | " + cell(help) + " |\n";
    return out;
}

}  // namespace

std::string reference_text() {
    const auto flag_rows = [&](const Verb* verb) {
        std::string out;
        for (const Flag& flag : flags())
            if (verb ? !flag.verbs.empty() && flag.is_of(verb->name) : flag.verbs.empty())
                out += "| `" + cell(flag_name(flag)) + "` | " + cell(flag.help) + " |\n";
        return out;
    };
    std::string out = "| every verb | |\n|---|---|\n" + flag_rows(nullptr) + "| `-h, --help` | " + std::string(kHelpFlag) + " |\n| `--version` | " +
                      std::string(kVersionFlag) + " |\n| `@FILE` | " + std::string(kArgumentFile) + " |\n";
    for (const Verb& verb : verbs()) {
        out += "\n| `" + cell(synopsis(&verb).substr(7)) + "` | " + cell(verb.help) + " |\n|---|---|\n";
        for (const Operand& operand : verb.operands) out += "| `" + cell(operand_text(operand)) + "` | " + cell(operand.help) + " |\n";
        out += flag_rows(&verb);
    }
    return out;
}

namespace {

bool write_page(Session& session, const std::string& path, const std::string& text, int& code) {
    std::string error;
    if (write_file(path, text, error)) return true;
    code = session.fail(io, error);
    return false;
}

}  // namespace

int show_manual(Session& session) {
    const Options& o = session.options;
    if (!o.directory.empty()) {
        int code = ok;
        const std::string at = o.directory + "/";
        if (!write_page(session, at + "tegula.1", manual_page(nullptr), code)) return code;
        for (const Verb& verb : verbs())
            if (!write_page(session, at + "tegula-" + std::string(verb.name) + ".1", manual_page(&verb), code)) return code;
        for (const auto& [shell, name] : {std::pair("bash", "tegula"), {"zsh", "_tegula"}, {"fish", "tegula.fish"}})
            if (!write_page(session, at + name, completions_text(shell), code)) return code;
        return ok;
    }
    const Verb* page = nullptr;
    std::vector<std::string_view> names = {"reference", "console"};
    for (const Verb& verb : verbs()) {
        names.push_back(verb.name);
        if (verb.name == o.page) page = &verb;
    }
    if (!page && !o.page.empty() && o.page != "reference" && o.page != "console")
        return session.fail(usage, "there is no verb `" + o.page + "`" + did_you_mean(o.page, names));
    const std::string text = o.page == "reference" ? reference_text() : o.page == "console" ? console_text() : manual_page(page);
    if (o.json)
        std::printf("{\"schema\":1,\"page\":%s,\"text\":%s}\n", json_text(o.page.empty() ? "tegula" : o.page).c_str(), json_text(text).c_str());
    else
        print_artifact(text);
    return ok;
}

int show_completions(Session& session) {
    const std::string text = completions_text(session.options.shell);
    if (session.options.json)
        std::printf("{\"schema\":1,\"shell\":%s,\"text\":%s}\n", json_text(session.options.shell).c_str(), json_text(text).c_str());
    else
        print_artifact(text);
    return ok;
}

}  // namespace tegula_tool
