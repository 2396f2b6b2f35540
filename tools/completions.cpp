// Completions of the shells, out of the table of the command line.
#include <string>

#include "options.h"

namespace tegula_tool {

namespace {

std::string names_of(std::string_view verb, bool dashes_only = false) {
    std::string out;
    for (const Flag& flag : flags())
        if (flag.is_of(verb)) {
            out += "--" + std::string(flag.name) + " ";
            if (flag.letter && !dashes_only) out += std::string("-") + flag.letter + " ";
        }
    return out + "--help";
}

/// What a shell calls the value of a flag or operand: words, files, folders or nothing that it knows.
enum class Offer { nothing, words, files, folders };
Offer offer(Takes takes, std::string_view words) {
    if (!words.empty()) return Offer::words;
    return takes == Takes::file ? Offer::files : takes == Takes::folder ? Offer::folders : Offer::nothing;
}

std::string bash_reply(Offer what, std::string_view words) {
    if (what == Offer::words) return "COMPREPLY=($(compgen -W '" + std::string(words) + "' -- \"$cur\"))";
    if (what == Offer::folders) return "COMPREPLY=($(compgen -d -- \"$cur\"))";
    return what == Offer::files ? "_tegula_files" : "COMPREPLY=()";
}

std::string bash_text() {
    std::string verb_names, values, operands, lists;
    for (const Verb& verb : verbs()) verb_names += (verb_names.empty() ? "" : " ") + std::string(verb.name);
    std::string takers;  // flags that take a value, for finding the verb
    for (const Flag& flag : flags()) {
        if (flag.value.empty()) continue;
        const std::string name = "--" + std::string(flag.name) + (flag.letter ? std::string("|-") + flag.letter : "");
        takers += (takers.empty() ? "        " : "|") + name;
        values += "        " + name + ") " + bash_reply(offer(flag.takes, flag.words), flag.words) + "; return ;;\n";
    }
    for (const Verb& verb : verbs()) {
        lists += "        " + std::string(verb.name) + ") flags='" + names_of(verb.name) + "' ;;\n";
        for (size_t i = 0; i < verb.operands.size(); ++i) {
            const Operand& slot = verb.operands[i];
            operands += "        " + std::string(verb.name) + ":" + (slot.many ? "*" : std::to_string(i)) + ") " +
                        (slot.name == "KERNEL" ? "_tegula_kernels" : bash_reply(offer(slot.takes, slot.words), slot.words)) + " ;;\n";
        }
    }
    return R"b(# Completions of tegula for bash.
_tegula_files() {
    local name=$cur before=
    case $cur in *=@*) before=${cur%%=@*}=@ ;; *=*) before=${cur%%=*}= ;; @*) before=@ ;; esac
    name=${cur#"$before"}
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$name"))
    [[ $before && $COMP_WORDBREAKS != *=* ]] && COMPREPLY=("${COMPREPLY[@]/#/$before}")
}
_tegula_kernels() {
    COMPREPLY=($(compgen -W "$(tegula --quiet dump "${operands[0]}" --emit=json 2>/dev/null |
        grep -o '"kind": *"kernel", *"name": *"[A-Za-z0-9_]*' | sed 's/.*"//')" -- "$cur"))
}
_tegula() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb= flags= i operands=()
    COMPREPLY=()
    if [[ $cur == "=" ]]; then cur=; elif [[ $prev == "=" ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
)b" + takers +
           R"b() ((++i)); [[ ${COMP_WORDS[i]} == "=" ]] && ((++i)) ;;
        -*) ;;
        *) if [[ $verb ]]; then operands+=("${COMP_WORDS[i]}"); else verb=${COMP_WORDS[i]}; fi ;;
        esac
    done
    case $prev in
)b" + values +
           R"b(    esac
    case $verb in
)b" + lists +
           R"b(        *) flags=')b" + names_of("") + R"b( --version' ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
        return
    fi
    if [[ -z $verb ]]; then
        COMPREPLY=($(compgen -W ')b" +
           verb_names + R"b(' -- "$cur"))
        return
    fi
    case $verb:${#operands[@]} in
)b" + operands +
           R"b(    esac
}
complete -F _tegula tegula
)b";
}

/// A text within single quotes of a shell, without what `_arguments` of zsh reads as its own.
std::string quoted(std::string_view text, bool zsh) {
    std::string out;
    for (const char c : text) {
        if (c == '\'')
            out += "'\\''";
        else if (zsh && (c == '[' || c == ']' || c == ':'))
            (out += '\\') += c;
        else
            out += c;
    }
    return out;
}

std::string zsh_action(Offer what, std::string_view words) {
    if (what == Offer::words) return "(" + quoted(words, true) + ")";
    return what == Offer::files ? "_files" : what == Offer::folders ? "_files -/" : " ";
}

std::string zsh_flag(const Flag& flag) {
    const bool repeats = std::holds_alternative<std::vector<std::string> Options::*>(flag.target);
    const std::string about = "[" + quoted(flag.help, true) + "]";
    const std::string value = flag.value.empty() ? "" : ":" + quoted(flag.value, true) + ":" + zsh_action(offer(flag.takes, flag.words), flag.words);
    std::string out;
    for (const std::string& name : {"--" + std::string(flag.name), flag.letter ? std::string("-") + flag.letter : std::string()}) {
        if (name.empty()) continue;
        out += "        '" + std::string(repeats ? "*" : "") + name +
               (flag.value.empty() ? ""
                : name.size() > 2  ? "="
                                   : "+") +
               about + value + "' \\\n";
    }
    return out;
}

std::string zsh_text() {
    std::string out = "#compdef tegula\n# Completions of tegula for zsh.\n_tegula() {\n    local -a verbs\n    verbs=(\n";
    for (const Verb& verb : verbs()) out += "        '" + std::string(verb.name) + ":" + quoted(verb.help, true) + "'\n";
    out += "    )\n    local context state line\n    _arguments -C \\\n";
    for (const Flag& flag : flags())
        if (flag.verbs.empty()) out += zsh_flag(flag);
    out += "        '(-h --help)'{-h,--help}'[help]' \\\n        '--version[version]' \\\n        '1: :->verb' \\\n        '*:: :->operands'\n";
    out += "    case $state in\n    verb) _describe verb verbs ;;\n    operands)\n        case $line[1] in\n";
    for (const Verb& verb : verbs()) {
        out += "        " + std::string(verb.name) + ") _arguments \\\n";
        for (const Flag& flag : flags())
            if (flag.is_of(verb.name)) out += zsh_flag(flag);
        for (const Operand& slot : verb.operands)
            out += "        '" +
                   std::string(slot.many       ? "*"
                               : slot.required ? ""
                                               : ":") +
                   ":" + quoted(slot.name, true) + ":" + zsh_action(offer(slot.takes, slot.words), slot.words) + "' \\\n";
        out += "        '--help[help]' ;;\n";
    }
    return out + "        esac ;;\n    esac\n}\n"
           // Read from the function path it completes at once; read by `source` it says what it is for.
           "if [ \"$funcstack[1]\" = _tegula ]; then\n    _tegula \"$@\"\nelse\n    compdef _tegula tegula\nfi\n";
}

std::string fish_text() {
    std::string out = "# Completions of tegula for fish.\ncomplete -c tegula -f\n", names;
    for (const Verb& verb : verbs()) names += (names.empty() ? "" : " ") + std::string(verb.name);
    const auto arguments = [](Takes takes, std::string_view words) -> std::string {
        const Offer what = offer(takes, words);
        if (what == Offer::words) return " -x -a '" + quoted(words, false) + "'";
        return what == Offer::files ? " -r -F" : what == Offer::folders ? " -x -a '(__fish_complete_directories)'" : " -x";
    };
    for (const Verb& verb : verbs()) {
        out += "complete -c tegula -n 'not __fish_seen_subcommand_from " + names + "' -a " + std::string(verb.name) + " -d '" +
               quoted(verb.help, false) + "'\n";
        for (const Operand& slot : verb.operands)
            if (const std::string what = arguments(slot.takes, slot.words); what != " -x")
                out += "complete -c tegula -n '__fish_seen_subcommand_from " + std::string(verb.name) + "'" + what + "\n";
    }
    for (const Flag& flag : flags()) {
        const std::string where = flag.verbs.empty() ? "" : " -n '__fish_seen_subcommand_from " + std::string(flag.verbs) + "'";
        out += "complete -c tegula" + where + " -l " + std::string(flag.name) + (flag.letter ? std::string(" -s ") + flag.letter : "") +
               (flag.value.empty() ? "" : arguments(flag.takes, flag.words)) + " -d '" + quoted(flag.help, false) + "'\n";
    }
    return out + "complete -c tegula -l help -s h -d help\n";
}

}  // namespace

std::string completions_text(std::string_view shell) { return shell == "bash" ? bash_text() : shell == "zsh" ? zsh_text() : fish_text(); }

}  // namespace tegula_tool
