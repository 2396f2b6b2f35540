#!/usr/bin/env python3
# The compiler decides by enumerators, formats and rows of tables, not by text that it made itself: words.py ROOT [--list] refuses comparison with
# string literals, searches for them, and numbers read from text. What a user, a host, a file or another program says is text, and so are files that
# read it: READERS names them with what they read. TO_GO are lines that are still to be mended: there may be as many as a row says, or fewer, and
# then the row must say so.
import os, re, sys, tempfile

ROOMS = ("lang", "parser", "sema", "lower", "jit")
CODE = (".h", ".cpp", ".inc", ".c")
TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|(?:u8|L)?R"(\w*)\(.*?\)\1"|(?:u8|L)?"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', re.S)
WORDS = re.compile(
    r'[=!]=\s*(?:std::string(?:_view)?\s*[({]\s*)?""'  # what stands before or behind `==` and `!=`
    r'|""s?v?\s*[=!]=|\bstring(?:_view)?\s*[({]\s*""\s*[)}]\s*[=!]='
    r'|\b(?:starts_with|ends_with|contains|r?find|compare)\s*\(\s*""'
    r'|\bcompare\s*\([^()]*,\s*""'
    r'|\b(?:strn?cmp|memcmp|strstr)\s*\([^()]*""'
    r'|\bfind\s*\([^;{}]*?,\s*""\s*\)'
)
NUMBERS = re.compile(r"\b(?:from_chars|sto(?:i|l|ul|ll|ull|f|d|ld)|ato(?:i|l|ll|f)|strto\w+|sscanf)\s*\(")

# Files, or all whose path begins so where it ends in `*`, with what they read.
SOURCE, NAMES, HOST, TEXT_IR = "source text", "names and words that the program writes", "what the host or the command asks for", "IR text"
SEMA = ("access bind builtins builtins_memory assumed check_expr check_module check_statements coerce elaborate expressions facts formats "
        "functions instructions kernel launch layouts statements suggest types walk")
READERS = {
    "parser/*": SOURCE, "lang/foreign.cpp": "the patterns of lang/foreign.def", "lang/literal_rest.cpp": SOURCE, "lang/print_text.cpp": "holes of print",
    "lang/diag.cpp": "the patterns of lang/diags.def", "lang/format_name.cpp": "names of formats", "lang/type.cpp": "names of formats",
    "lang/instruction.cpp": "declarations of instructions", "lang/ptx_text.cpp": "PTX of the program", "lang/layout_text.cpp": "layouts as text",
    "lang/tile_layout.cpp": TEXT_IR, "lang/ir_lexer.cpp": TEXT_IR, "lang/ir_literal.cpp": TEXT_IR, "lang/ir_parse*": TEXT_IR, "lang/ir_gpu_text.cpp": TEXT_IR,
    "lang/json_reader.cpp": "JSON", "lang/plain_text.cpp": "numbers for everyone who reads them", "lang/target.cpp": "names of GPUs, as the host gives them",
    "lower/gpu/hints.cpp": "hints, as the program writes them", "lower/gpu/pipeline.cpp": HOST + ": passes that are off, and hints",
    "lower/kernel/pipeline.cpp": HOST + ": passes that are off", "lower/gpu/persist.cpp": HOST + ": passes that are off", "lower/gpu/place.cpp": HOST + ": passes that are off",
    "jit/api/*": HOST, "jit/cache/*": HOST + ", and names of files", "jit/cpu/cache_size.cpp": "files of the system", "jit/cpu/perf.cpp": "symbols of an object file",
    "jit/cpu/optimise.cpp": "features and passes of LLVM", "jit/cpu/session.cpp": HOST + ": artefacts", "jit/cuda/device_text.cpp": "files of device text",
    "jit/cuda/library.cpp": "notes of an ELF file", "jit/cuda/nvrtc.cpp": "options, and what NVRTC says of itself", "jit/cuda/nvrtc_log.cpp": "what ptxas prints, and cubins",
    "jit/engine/compile.cpp": HOST + ": artefacts, passes, types", "jit/engine/machine*": HOST + ": machines, artefacts, passes",
    "jit/engine/describe.cpp": SOURCE, "jit/engine/modules.cpp": "names of modules and of files", "jit/engine/host*": NAMES, "jit/engine/launch.cpp": NAMES,
    "jit/engine/tune.cpp": NAMES, "jit/engine/tuned.cpp": "the file of measured choices", "jit/engine/weighed.cpp": "the file of measured choices",
    "jit/picture/tune.cpp": "the file of measured choices", "jit/engine/pictures.cpp": HOST, "jit/engine/session*": SOURCE, "jit/engine/workspace*": SOURCE,
    "jit/engine/value_text.cpp": "the digits that it writes: do they read back as the same number",
    "jit/picture/source.cpp": "assembler text of LLVM and of the CUDA tools", "lang/render.cpp": "changes to the source",
    **dict.fromkeys((f"sema/{name}.cpp" for name in SEMA.split()), NAMES),
}
# Files (`*` as above), which of their lines, how many at most, and what would take the place of the text.
TO_GO = []


def plain(text):
    """Comments blank, literals empty; lines stay lines."""
    def blank(match):
        token = match.group()
        lines = "\n" * token.count("\n")
        return '""' + lines if token.endswith('"') else "''" if token.startswith("'") else " " + lines

    return TOKENS.sub(blank, text)


def offences(text):
    """Numbers of lines."""
    code = plain(text)
    return sorted({code.count("\n", 0, m.end()) + 1 for pattern in (WORDS, NUMBERS) for m in pattern.finditer(code)})


def covers(key, path):
    return path.startswith(key[:-1]) if key.endswith("*") else path == key


def check(root, readers, to_go):
    problems, used, late, seen = [], set(), [[] for _ in to_go], 0
    for room in ROOMS:
        for directory, _, files in os.walk(os.path.join(root, room)):
            for name in sorted(files):
                if not name.endswith(CODE):
                    continue
                seen += 1
                path = os.path.relpath(os.path.join(directory, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    text = file.read()
                for number in offences(text):
                    line = text.splitlines()[number - 1].strip()
                    row = next((i for i, (key, lines, _, _) in enumerate(to_go) if covers(key, path) and re.search(lines, line)), None)
                    reader = next((key for key in readers if covers(key, path)), None)
                    if row is not None:
                        late[row].append(f"{path}:{number}: {line}")
                    elif reader:
                        used.add(reader)
                    else:
                        problems.append(f"{path}:{number}: {line}")
    problems += [f"{key}: reads no text any more: take the row away" for key in readers if key not in used]
    for (key, lines, most, _), found in zip(to_go, late):
        if len(found) > most:
            problems += [f"{key}: {len(found)} lines with `{lines}`, at most {most} were to go"] + found
        elif len(found) < most and not key.endswith("*"):
            problems.append(f"{key}: {len(found)} lines with `{lines}` are left: write that, or take the row away")
    return problems, [line for found in late for line in found], seen


def try_checker():
    known = ['if (f.name == "float") g();', 'if ("a" != kind) g();', 'x = s.starts_with("i");', 'x = s.ends_with("a") || t;', 'x = s.find("::") != s.npos;',
             'x = s.compare(0, 2, "::") == 0;', 'x = std::string_view(p.name) ==\n    "memory";', 'x = std::strcmp(a, "b");', 'n = std::stoi(text);',
             'std::from_chars(t.data(), end, n);', 'x = kind == R"(raw)";', 'x = std::find(v.begin(), v.end(), "all") != v.end();',
             'x = name == std::string_view("x");', 'x = "a"sv == name;']
    fine = ['line("if (" + a + " == " + b + ")");', 'x = name == other;  // == "name"', 'x = s.starts_with(\'x\');', 'x = s.find(\'"\') == 0;', 'TEGULA_CHECK(a == b, "no == here");',
            'const char* names[] = {"==", "!="};', 'x = find_hint(fn.hints, kWarps);', '/* s == "x" */ x = a == b ? "y" : "z";', 'from_characters(x);', 'put("a == b", 1);']
    for text in known:
        assert offences("int a;\n" + text) == [text.count("\n") + 2], text
    for text in fine:
        assert not offences(text), text
    with tempfile.TemporaryDirectory() as tree:
        for path, text in {"lang/a.cpp": known[0], "sema/b.cpp": known[1], "jit/cuda/emit_x.cpp": known[0] + "\n" + known[3], "lower/c.cpp": fine[0], "tools/d.cpp": known[0]}.items():
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                file.write(text + "\n")
        begins = lambda readers, to_go: [p.split(": ")[0] for p in check(tree, readers, to_go)[0]]
        assert begins({}, []) == ["lang/a.cpp:1", "sema/b.cpp:1", "jit/cuda/emit_x.cpp:1", "jit/cuda/emit_x.cpp:2"]
        assert begins({"sema/*": "", "lang/a.cpp": ""}, [("jit/cuda/emit*", "", 3, "")]) == []
        assert begins({"sema/*": "", "lower/*": ""}, [("lang/a.cpp", "", 2, ""), ("jit/cuda/emit_x.cpp", "", 1, "")]) == [
            "lower/*", "lang/a.cpp", "jit/cuda/emit_x.cpp", "jit/cuda/emit_x.cpp:1", "jit/cuda/emit_x.cpp:2"]
        assert begins({"sema/*": "", "lang/*": ""}, [("jit/cuda/emit_x.cpp", "ends_with", 1, "")]) == ["jit/cuda/emit_x.cpp:1"]


def main():
    try_checker()
    problems, lines, seen = check(sys.argv[1], READERS, TO_GO)
    if "--list" in sys.argv:
        print("\n".join(lines))
    if seen < 100:
        problems.append(f"only {seen} files below {sys.argv[1]}: is that the source tree?")
    print("\n".join(problems + [f"{seen} files, {len(problems)} against the table, {len(lines)} lines to go"]))
    sys.exit(1 if problems else 0)


main()
