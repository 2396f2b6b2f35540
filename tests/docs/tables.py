#!/usr/bin/env python3
"""Proves that the tables of operations in docs/language.md say what the tables of the language say, word for word:
tables.py SOURCE_DIR [--complete]

The rows come from sema/builtins.def, lang/ops.def, lang/formats.def and lang/host_calls.def. A row of the document that is in none of them, or
no longer what it should be, is an error. A row that the document lacks is printed, to be put where it belongs; it is an error with --complete
only, because adding an operation takes one row of one file.
"""
import ast
import pathlib
import re
import sys

DOMAINS = {"B": "bool", "S": "signed", "U": "unsigned", "F": "float", "X": "fixed, log", "P": "pointer"}
OPERATORS = {"add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "rem": "a % b", "neg": "-a", "bit_and": "a & b", "bit_or": "a | b",
             "bit_xor": "a ^ b", "bit_not": "~a", "shl": "a << b", "shr": "a >> b", "eq": "a == b", "ne": "a != b", "lt": "a < b", "le": "a <= b",
             "gt": "a > b", "ge": "a >= b"}


def entries(path, macro):
    """The arguments of each MACRO(..) row, strings decoded."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith(macro + "("):
            continue
        inner, parts, depth, quoted, start = line[len(macro) + 1:line.rindex(")")], [], 0, False, 0
        for i, c in enumerate(inner):
            if c == '"' and inner[i - 1] != "\\":
                quoted = not quoted
            elif not quoted and c in "([":
                depth += 1
            elif not quoted and c in ")]":
                depth -= 1
            elif not quoted and depth == 0 and c == ",":
                parts.append(inner[start:i].strip())
                start = i + 1
        parts.append(inner[start:].strip())
        yield [ast.literal_eval(p) if p.startswith('"') else p for p in parts]


def row(name, *cells):
    def plain(cell):
        cell = cell.replace("|", "\\|")
        return cell if cell.startswith("`") else re.sub(r"([<*])", r"\\\1", cell)  # neither HTML nor emphasis
    return "| " + " | ".join(plain(c) for c in (f"`{name}`", *cells)) + " |"


def expected(source):
    for name, signature, doc in entries(source / "sema/builtins.def", "BUILTIN"):
        yield row(name, f"`{name}{signature}`", doc)
    for name, arity, domain, result, _, _, _, doc in entries(source / "lang/ops.def", "ELEMENTWISE"):
        form = OPERATORS.get(name, f"{name}({', '.join('abc'[:int(arity)])})")
        elements = ", ".join(text for letter, text in DOMAINS.items() if letter in domain.split("|"))
        yield row(name, f"`{form}`", elements + (" -> bool" if result == "boolean" else ""), doc)
    for name, signature, doc in entries(source / "lang/host_calls.def", "HOST_CALL"):
        yield row(name, f"`{name}{signature}`", doc)
    for name, kind, _, bits, *_, doc in entries(source / "lang/formats.def", "FORMAT"):
        if kind == "floating":
            yield row(name, bits, doc)


def main():
    source, complete = pathlib.Path(sys.argv[1]), "--complete" in sys.argv[2:]
    text = (source / "docs/language.md").read_text(encoding="utf-8")
    lines = set(text.splitlines())
    wanted = list(expected(source))
    missing = [r for r in wanted if r not in lines]
    for r in missing:
        print("the document lacks:", r)
    # Rows of the marked tables that belong to no entry.
    extra = []
    for table in re.findall(r"<!-- rows -->\n(.*?)\n\n", text + "\n", re.S):
        extra += [line for line in table.splitlines()[2:] if line not in wanted]
    for r in extra:
        print("in no table:", r)
    print(f"{len(wanted)} rows, {len(missing)} missing, {len(extra)} too many")
    return 1 if extra or not wanted or (missing and complete) else 0


if __name__ == "__main__":
    sys.exit(main())
