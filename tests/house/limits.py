#!/usr/bin/env python3
# Sizes of classes, functions and lines. limits.py ROOT; exits 1 and names every offence.
#
# Rooms in STRICT hold to all limits. Elsewhere classes alone are looked at, and those that were larger when the limits came are in OLDER with the
# size that they had: they may shrink, and then their entry must.
import os, re, sys

FUNCTIONS, MEMBERS, COLUMNS, PARAMETERS = 60, 20, 120, 6
STRICT = ("lang/kernel", "lower/kernel")
ROOMS = ("lang", "parser", "sema", "lower", "jit", "tools")
# class: (functions, members)
OLDER = {
    "jit/cpu:AccessEmitter": (63, 9),
    "jit/cpu:Codegen": (136, 33),
    "jit/cpu:Product": (14, 36),
    "jit/cpu:Scalars": (143, 10),
    "jit/engine:HostRunner": (79, 19),
    "jit/interp:Machine": (18, 24),
    "jit/interp:Shared": (2, 22),
    "parser:Builder": (104, 28),
    "parser:Scanner": (46, 28),
    "sema:Elaborator": (333, 36),
    "sema:Value": (1, 26),
    "tools/lsp:Server": (74, 34),
    "tools:Options": (1, 62),
}


def plain(text):
    """The text without comments, literals and directives; lines stay lines."""
    keep = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    text = re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"', keep, text)
    text = re.sub(r'//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', keep, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", keep, text, flags=re.M)


def body(text, begin):
    """The end of the braces that open at `begin`."""
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return len(text)


def declarations(text):
    """What stands directly in a class, bodies of functions and of nested classes left out."""
    out, current, at = [], "", 0
    while at < len(text):
        c = text[at]
        if c == "{":
            at = body(text, at)
            initialiser = "=" in current or not re.search(r"\)[^;]*$", current) and not re.match(r"\s*(?:class|struct|enum|union)\b", current)
            if not initialiser or re.search(r"\)\s*(?:const|noexcept|override|final|\s|:[^;]*)*$", current):
                out.append(current)
                current = ""
        elif c == ";":
            out.append(current)
            current = ""
        else:
            current += c
        at += 1
    return [re.sub(r"\b(?:public|private|protected)\s*:", " ", d).strip() for d in out]


def split(parameters):
    depth, count = 0, 1 if parameters.strip() else 0
    for c in parameters:
        depth += (c in "<([{") - (c in ">)]}")
        count += c == "," and depth == 0
    return count


def is_function(declaration):
    head = re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", declaration.split("=")[0] if not re.search(r"operator\s*[=!<>]=", declaration) else declaration)
    return "(" in head and not re.match(r"(?:using|typedef|friend|static_assert|enum|struct|class|union)\b", declaration)


def is_mutable_member(declaration):
    skipped = r"(?:using|typedef|friend|static|static_assert|enum|struct|class|union|constexpr|const\b(?!.*\*\s*\w))\b"
    return bool(declaration) and not is_function(declaration) and not re.match(skipped, declaration) and bool(re.search(r"\w", declaration))


def classes(text):
    for match in re.finditer(r"\b(?:class|struct)\s+([\w:]+)(?:\s+final)?(?:\s*:[^{;()]*)?\s*\{", text):
        begin = match.end() - 1
        inside = declarations(text[begin + 1 : body(text, begin)])
        members = sum(len(re.split(r",(?![^<(]*[>)])", d)) for d in inside if is_mutable_member(d))
        yield match.group(1), sum(map(is_function, inside)), members


def wide_signatures(text):
    for match in re.finditer(r"\b[\w:~]+\(((?:[^()]|\([^()]*\))*)\)\s*(?:const)?\s*(?:noexcept)?\s*(?:;|\{)", text):
        parameters = match.group(1)
        if split(parameters) > PARAMETERS and re.search(r"\b\w+[&*]?\s+[&*]?\w+\s*(?:,|$)", parameters):
            yield match.group(0)[:60], split(parameters)


def check(root, older):
    problems, seen, found = [], 0, {}
    for room in ROOMS:
        for directory, _, files in os.walk(os.path.join(root, room)):
            for name in sorted(files):
                if not name.endswith((".h", ".cpp")):
                    continue
                path = os.path.relpath(os.path.join(directory, name), root)
                strict = path.startswith(tuple(s + "/" for s in STRICT))
                raw = open(os.path.join(root, path), encoding="utf-8").read()
                text = plain(raw)
                for kind, functions, members in classes(text):
                    seen += 1
                    key = f"{os.path.dirname(path)}:{kind}"
                    most = older.get(key, (FUNCTIONS, MEMBERS))
                    found[key] = (functions, members)
                    if functions > max(FUNCTIONS, most[0]) or members > max(MEMBERS, most[1]):
                        problems.append(f"{path}: {kind} has {functions} functions and {members} members that change")
                if not strict:
                    continue
                for number, line in enumerate(raw.split("\n"), 1):
                    if len(line) > COLUMNS:
                        problems.append(f"{path}:{number}: {len(line)} columns")
                for head, count in wide_signatures(text):
                    problems.append(f"{path}: {count} parameters: {head}")
    for key, sizes in older.items():
        if key not in found or (found[key] != sizes and found[key][0] <= sizes[0] and found[key][1] <= sizes[1]):
            problems.append(f"{key} has shrunk: write {found.get(key)} into OLDER")
    return problems, seen, found


def try_checker():
    text = plain('struct A : B<int, 3> { int a, b; const int c = 1; static int d; std::map<int, int> m{{1, 2}}; void f(int x) { int y; } A(int v) : a(v) {} '
                 'std::function<void(int)> g; bool operator==(const A&) const = default; struct C { int z; }; // int no;\n int h() const; };')
    [(_, functions, members), (_, none, one)] = list(classes(text))
    assert (functions, members, none, one) == (4, 4, 0, 1), (functions, members, none, one)
    assert [n for _, n in wide_signatures("void f(int a, int b, int c, int d, int e, int g, int h);")] == [7]
    assert not list(wide_signatures("f(a, b, c, d, e, g, h);"))


def main():
    try_checker()
    problems, seen, found = check(sys.argv[1], OLDER)
    if "--list" in sys.argv:
        for key, sizes in sorted(found.items()):
            if sizes[0] > FUNCTIONS or sizes[1] > MEMBERS:
                print(f'    "{key}": {sizes},')
        return
    for problem in problems:
        print(problem)
    if seen < 100:
        problems.append("nothing")
        print(f"only {seen} classes found below {sys.argv[1]}: is that the source tree?")
    print(f"{seen} classes, {len(problems)} against the limits")
    sys.exit(1 if problems else 0)


main()
