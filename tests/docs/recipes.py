#!/usr/bin/env python3
"""Proves that docs/contributing.md and docs/internals/ speak of what is there: recipes.py SOURCE_DIR

Each file and folder that they name exists, each name in backticks stands in a file that its section names, every table of rows (*.def) has a recipe that
names its macros, the files of real additions name what was added (a structured operation in no other file of the phases), and the map of the rooms
says what tests/house/includes.py allows. Words in capitals inside of a path (NAME, GROUP) stand for any.
"""
import fnmatch
import functools
import os
import pathlib
import re
import sys

ENDS = r"\.(?:h|hpp|cpp|c|cuh|def|inc|re|yy|py|sh|md|tile|txt|json|ir)"
HOLE = re.compile(r"(?<![A-Za-z])[A-Z]{3,}(?![A-Za-z])|\*")
CODE = ("lang/", "parser/", "sema/", "lower/", "jit/")
root = pathlib.Path(sys.argv[1])
files, problems = set(), []
for folder, inside, names in os.walk(root):
    inside[:] = [d for d in inside if d not in (".git", "build")]
    files |= {pathlib.Path(folder, n).relative_to(root).as_posix() for n in names}


by_name = {}
for f in files:
    by_name.setdefault(f.rsplit("/", 1)[-1], set()).add(f)


@functools.cache
def read(file):
    return (root / file).read_text(encoding="utf-8", errors="replace")


def matches(token):
    """The files that a token means: a path, a folder, or a file by its name alone."""
    pattern = HOLE.sub("*", token)
    if pattern.endswith("/"):
        return {f for f in files if f.startswith(pattern)}
    if "*" in pattern:
        return {f for f in files if fnmatch.fnmatchcase(f, pattern)}
    return {token} & files if "/" in token else by_name.get(token, set())


@functools.cache
def words_of_code():
    """Every name in the code and its tables."""
    return {w for f in files if f.startswith((*CODE, "include/", "tools/", "stdlib/")) for w in re.findall(r"\w+", read(f))}


def check_section(document, heading, text, anywhere):
    """Files that are named exist, and names stand in one of them; `anywhere`: in some file of the code."""
    where, tokens = f"{document}, {heading!r}", re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    tokens = [word for t in tokens for word in (t.split()[:1] if re.match(r"\S+/\S+\.py ", t) else [t])]  # a script with its arguments
    named = set()
    for token in tokens:
        if re.fullmatch(rf"[\w./*-]*(?:{ENDS}|[a-z]\w*/)", token) and token[0] != ".":
            found = matches(token)
            named |= found
            if not found:
                problems.append(f"{where}: `{token}` is not there")
    words = words_of_code() if anywhere else {w for f in named if f != "tests/docs/recipes.py" for w in re.findall(r"\w+", read(f))}
    for token in tokens:
        name = token.rsplit("::", 1)[-1]
        if not re.fullmatch(r"[A-Za-z_]\w*(?:::~?\w+)*", token) or not ("::" in token or "_" in token or re.match(r"k[A-Z]", token)) or HOLE.search(token):
            continue
        declared = re.sub(r"^(verify|plan|step|cpu|cuda|call|host)_", "", name)  # made of a row
        if name not in words and declared not in words and f"{name}.cpp" not in by_name:
            problems.append(f"{where}: no file that is named there has `{token}`")


def check_sections(document, anywhere=False):
    text = read(document)
    parts = re.split(r"^(#{2,3} .+)$", text, flags=re.M)
    for heading, body in zip(parts[1::2], parts[2::2]):
        check_section(document, heading.lstrip("# "), body, anywhere)
    return text


def check_tables(text):
    """Every macro of every table of rows is in the recipes, with its file."""
    for file in sorted(f for f in files if f.endswith(".def") and f.startswith((*CODE, "tools/"))):
        macros = set(re.findall(r"^([A-Z][A-Z_]+)\(", read(file), re.M))
        missing = [m for m in sorted(macros) if not re.search(rf"(?:`|^){m}\b", text, re.M)]
        if f"`{file}`" not in text or missing:
            problems.append(f"docs/contributing.md: no recipe for rows of `{file}`: {', '.join(missing) or 'the file is not named'}")


def check_additions(text):
    rows = re.findall(r"^\| ([^|`]+)`([\w.-]+)`[^|]*\| ((?:`[^`]+`(?:, )?)+) \|$", text[text.index("## How much an addition touches"):], re.M)
    if len(rows) < 8:
        problems.append("docs/contributing.md: the table of real additions has another form")
    for what, name, listed in rows:
        listed = re.findall(r"`([^`]+)`", listed)
        for file in listed:
            if file in files and not re.search(rf"(?:\b|_){re.escape(name)}(?:\b|_)", read(file)):
                problems.append(f"docs/contributing.md: `{file}` does not name the {what}`{name}` any more")
        if what.startswith("structured"):
            pattern = re.compile(rf"\bOp::{name}\b|\b(?:verify|plan|step|cpu|cuda)_{name}\b|TEGULA_PLAN\({name}\)|STRUCTURED\({name},")
            beside = {f for w, n, more in rows if n == name for f in re.findall(r"`([^`]+)`", more)}
            for file in sorted(f for f in files if f.startswith(CODE) and f not in beside and pattern.search(read(f))):
                problems.append(f"docs/contributing.md: `{file}` names the {what}`{name}`, too")


def check_rooms(text):
    scope = {}
    source = read("tests/house/includes.py")
    exec(source[source.index("PHASES ="):source.index("CODE =")], scope)
    told = {}
    for room, allowed in re.findall(r"^\| `([a-z/]+)/` \| [^|]+ \| ([^|]+) \|$", text, re.M):
        told[room] = scope["PHASES"] if allowed == "all phases" else set(re.findall(r"`([a-z/]+)`", allowed))
    for room in sorted(told.keys() | scope["TABLE"].keys()):
        want, have = scope["TABLE"].get(room, set()) - {room}, told.get(room, set()) - {room}
        if room not in told or room not in scope["TABLE"] or want != have:
            problems.append(f"docs/internals/README.md: `{room}/` may include {sorted(want)}, the map says {sorted(have) if room in told else 'nothing of it'}")


def main():
    recipes = check_sections("docs/contributing.md")
    check_tables(recipes)
    check_additions(recipes)
    for document in sorted(f for f in files if f.startswith("docs/internals/")):
        check_sections(document, True)
    check_rooms(read("docs/internals/README.md"))
    print("\n".join(problems) or f"{len(re.findall(r'^### ', recipes, re.M))} recipes")
    return bool(problems)


sys.exit(main())
