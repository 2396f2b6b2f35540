#!/usr/bin/env python3
# scopes.py TEGULA ROOT [FILE ..]: the scopes of the TextMate grammar agree with the scanner on the examples and the library: keywords, numbers, strings,
# names and comments are the same stretches. A small matcher of such grammars does what editors do: line by line, the first pattern that fits.
import json, pathlib, re, subprocess, sys

tegula, root = sys.argv[1], pathlib.Path(sys.argv[2])
grammar = json.loads((root / "editors/vscode/syntaxes/tile.tmLanguage.json").read_text())
patterns = [(re.compile(p.get("match") or p["begin"]), p) for p in grammar["patterns"]]


def scopes_of(text):
    """The scope of each character that has one."""
    out, base, inside = {}, 0, None  # inside: (end, name) of what goes on over lines
    for line in text.split("\n"):
        at = 0
        while at <= len(line):
            if inside:
                end = None
                for m in re.finditer(r"\\.|" + inside[0], line[at:]):  # escapes first
                    if not m.group().startswith("\\"):
                        end = m
                        break
                stop = at + end.end() if end else len(line)
                out.update((base + i, inside[1]) for i in range(at, stop))
                at, inside = stop, None if end else inside
                if not end:
                    break
                continue
            best = None
            for regex, p in patterns:
                m = regex.search(line, at)
                if m and m.end() > m.start() and (best is None or m.start() < best[0].start()):
                    best = (m, p)
            if not best:
                break
            m, p = best
            if "begin" in p:
                out.update((base + i, p["name"]) for i in range(m.start(), m.end()))
                at, inside = m.end(), (p["end"], p["name"])
                continue
            if "name" in p:
                out.update((base + i, p["name"]) for i in range(m.start(), m.end()))
            for group, capture in p.get("captures", {}).items():
                out.update((base + i, capture["name"]) for i in range(m.start(int(group)), m.end(int(group))))
            at = m.end()
        base += len(line) + 1
    return out


EXPECTED = {"keyword": ("keyword.", "storage.", "constant.language"), "int": ("constant.numeric",), "float": ("constant.numeric",), "string": ("string.",),
            "name": ("variable.", "entity.", "support.")}
files = [pathlib.Path(f) for f in sys.argv[3:]] or sorted((root / "examples").glob("*.tile")) + sorted((root / "stdlib").glob("*.tile"))
wrong, count = [], 0
for file in files:
    text = file.read_text(encoding="utf-8")
    scopes = scopes_of(text)
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    covered = set()
    for token in subprocess.run([tegula, "dump", "--emit=tokens", str(file)], check=True, capture_output=True, text=True).stdout.split("\n"):
        if not token:
            continue
        place, kind, spelling = token.split(" ", 2)
        line, column = map(int, place.split(":"))
        column = len(lines[line - 1].encode()[:column - 1].decode())  # bytes
        begin = starts[line - 1] + column
        length = len(spelling) if text.startswith(spelling, begin) else 1
        covered.update(range(begin, begin + length))
        count += 1
        scope = scopes.get(begin, "")
        if kind in EXPECTED and not scope.startswith(EXPECTED[kind]):
            wrong.append(f"{file.name}:{line}:{column + 1}: {kind} `{spelling}` has the scope {scope or 'none'}")
        if kind not in EXPECTED and scope.startswith(("comment", "string", "constant", "variable", "storage")):
            wrong.append(f"{file.name}:{line}:{column + 1}: {kind} `{spelling}` has the scope {scope}")
    for at, scope in scopes.items():
        if scope.startswith("comment") and at in covered:
            wrong.append(f"{file.name}: a comment covers byte {at}")
            break
print(*wrong[:40], sep="\n")
print(f"{count} tokens of {len(files)} files, {len(wrong)} differ")
sys.exit(bool(wrong))
