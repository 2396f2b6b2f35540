#!/usr/bin/env python3
# Nothing in the library follows the locale of the process: no function that formats, reads or classifies by it is called. no_locale.py ROOT [ARCHIVE]
# looks at the sources, and in the archive of our objects (libtegula.a) at what they call, which also shows std::to_string of a double. The command
# may use printf for integers and texts: it sets no locale, but its numbers are formatted like the library's. Exits 1 and names every offence.
import os, re, subprocess, sys, tempfile

LIBRARY = ("include", "lang", "parser", "sema", "lower", "jit")
CODE = (".h", ".hpp", ".cpp", ".c", ".def", ".re", ".yy")
READING = r"strto(?:d|f|ld|l|ll|ul|ull|imax|umax|q|uq)|sto(?:d|f|ld|i|l|ll|ul|ull)|ato(?:f|i|l|ll)|v?f?s?scanf"
CLASSES = r"is(?:alpha|alnum|digit|xdigit|space|upper|lower|punct|print|graph|cntrl|blank|w\w+)|to(?:upper|lower)|tow(?:upper|lower)"
TEXTS = r"str(?:coll|xfrm|ftime|fmon|error|error_r|casecmp|ncasecmp|signal)|localtime|ctime|mbto\w+|wcto\w+|mbs\w+|wcs\w+|setlocale|localeconv|nl_langinfo"
STREAMS = r"i?o?(?:string|f)stream|cout|cerr|clog|cin|locale|put_time|regex|format|vformat|print|setprecision"
PRINTF = r"(?:v?a?s?n?|v?f|v?d|v?w?)printf"
SOURCES = [
    (rf"\b(?:{READING}|{CLASSES}|{TEXTS})\s*\(", True),
    (rf"\bstd\s*::\s*(?:{STREAMS})\b", True),
    (r"#\s*include\s*<(?:cctype|ctype\.h|iostream|fstream|sstream|iomanip|ostream|istream|locale|regex|cwchar|cwctype|format|print)>", True),
    (rf"\b{PRINTF}\s*\(", False),
]
# What may name such a thing: strerror where there is no untranslated text; the command's CLI and JSON libraries read numbers by their own means.
ALLOWED = {("lang/plain_text.cpp", "strerror"), ("tools/main.cpp", "strerror"), ("tools/arrays.cpp", "strerror"), ("tools/files.cpp", "strerror"), ("tools/edit/tty.cpp", "strerror"), ("tools/sass.cpp", "strerror"), ("tools/project.cpp", "strerror")}
# In a format of printf: numbers with a point, and grouped digits.
POINT = re.compile(r"%[-+ #0]*'|%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[hlLqjzt]*[aAeEfFgG]")
TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', re.S)
CALLED = re.compile(
    rf"^(?:(?:__isoc99_|__isoc23_|__)?(?:{READING}|{CLASSES}|{TEXTS})|__(?:v?s?n?|v?f)printf_chk|{PRINTF}|__ctype_\w+|__x?pg_strerror_r|uselocale|newlocale)$"
    r"|^std::(?:__cxx11::)?(?:basic_)?(?:i|o|io)?(?:stream|stringstream|fstream|ios|locale)\b|^std::locale::|^std::__cxx11::to_string\(|^llvm::raw_ostream::operator<<\(double\)|^llvm::write_double\("
)
CALLABLE = {
    "strerror": "plain_text",  # where the C library has no strerrordesc_np
    "uselocale": "library", "newlocale": "library",  # to be in the C locale while others' code runs
}


def offences(path, text):
    def blank(match):
        token = match.group()
        kept = token if token.startswith('"') and path.startswith("tools/") and POINT.search(token) and "%" in token else ""
        return ('"' + POINT.sub("@POINT@", kept[1:-1]) + '"' if kept else '""' if token[0] in "\"R'" else " ") + "\n" * token.count("\n")

    plain = TOKENS.sub(blank, text)
    for number, line in enumerate(plain.split("\n"), 1):
        for pattern, everywhere in SOURCES:
            if not everywhere and path.startswith("tools/"):
                continue
            for match in re.finditer(pattern, line):
                name = match.group().rstrip("( ")
                if (path, name) not in ALLOWED:
                    yield f"{path}:{number}: {name}"
        if "@POINT@" in line:
            yield f"{path}:{number}: a number with a decimal point by printf"


def check(root):
    problems, seen = [], 0
    for base in LIBRARY + ("tools",):
        for directory, _, files in os.walk(os.path.join(root, base)):
            for name in sorted(files):
                if name.endswith(CODE):
                    seen += 1
                    path = os.path.join(directory, name)
                    with open(path, encoding="utf-8") as file:
                        problems += offences(os.path.relpath(path, root), file.read())
    return problems, seen


def called(archive):
    """Offending undefined symbols by object."""
    lines = subprocess.run(["nm", "-uC", archive], check=True, capture_output=True, text=True).stdout.splitlines()
    owner, count = "", 0
    for line in lines:
        if line.endswith(":"):
            owner = line
        elif line.strip():
            count += 1
            name = line.split(None, 1)[1]
            if CALLED.search(name.split("@")[0]) and CALLABLE.get(name.split("@")[0]) is None:
                yield f"{owner} calls {name}"
    if count < 100:
        yield f"{archive}: only {count} undefined symbols seen"


with tempfile.TemporaryDirectory() as tree:  # the checker first sees offences that are known
    known = {
        "lang/a.cpp": ['auto x = std::stod(s);', 'x = strtod (s, 0);', 'std::snprintf(t, 9, "%d", 1);', "if (std::isalnum(c)) f();", "#include <sstream>",
                       "std::ostringstream out;", "y = std::tolower(c);", "why = std::strerror(errno);"],
        "tools/b.cpp": ['printf("%5.3f ms", v);', 'printf("{%s}: %-8.*g", s, 3, v);', "printf(\"%'d\", i);", "z = atof(s);"],
    }
    fine = {"lang/c.cpp": ['// printf("%g") and strtod(', 'text = "calls atof(x) and std::cout";', "is_digit(c); my_atof(x); hosts.printf_like;"],
            "tools/d.cpp": ['printf("%s has %d of 100%%", s, i);', 'printf("%llx\\n", v);']}
    for path, lines in {**known, **fine}.items():
        os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
        with open(os.path.join(tree, path), "w") as file:
            file.write("\n".join(lines) + "\n")
    found = {problem.rsplit(": ", 1)[0] for problem in check(tree)[0]}
    wanted = {f"{path}:{number}" for path, lines in known.items() for number in range(1, len(lines) + 1)}
    if found != wanted:
        sys.exit(f"the checker itself is wrong: missed {sorted(wanted - found)}, invented {sorted(found - wanted)}")

problems, seen = check(sys.argv[1])
if seen < 100:
    problems.append(f"only {seen} files found")
for archive in filter(None, sys.argv[2:]):
    problems += called(archive)
print("\n".join(problems) or f"{seen} files, none follows the locale")
sys.exit(bool(problems))
