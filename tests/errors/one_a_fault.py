#!/usr/bin/env python3
"""Are mistakes told once, with a cure? one_a_fault.py TEGULA SOURCE_DIR [--seed N] [--keep DIR] [--show]

Mistakes are made in copies of the examples: a `let` or `var` left out, a `;` left out, and files with two mistakes out of these and misspelt
names. A file is right when `tegula check` reports exactly one error a mistake, at its place, each with fixes, and has nothing to say once they
are applied. Prints a table and ends with 1 when fewer than 95 % of a kind are right. Equal seeds make equal files.
"""
import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

WANTED = 0.95
Fault = collections.namedtuple("Fault", "begin end text line")  # text[begin:end] is replaced


def blanked(text):
    """The text with comments and strings as blanks: what is left is code, at the same offsets."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def without_keyword(text, code):
    for m in re.finditer(r"\b(let|var) ", code):
        yield Fault(m.start(), m.end(), "", line_of(text, m.start()))


def without_semicolon(text, code):
    for m in re.finditer(r";", code):
        # Within `[..;..]` or behind another statement of the line nothing shows the end: only those that end their line count.
        if re.match(r"[ \t]*(\n|$)", code[m.end():]):
            yield Fault(m.start(), m.end(), "", line_of(text, m.start()))


def misspelt(text, code):
    """A use of a long local name without one of its letters."""
    for m in re.finditer(r"\b(?:let|var) ([a-z_]{5,})\b", code):
        # From the declaration to the end of its block: what stands behind is another variable.
        depth, end = 0, m.end()
        while end < len(code) and depth >= 0:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        for use in re.finditer(r"(?<![.\w])" + m[1] + r"\b(?!\s*[=:(<])", code[m.end():end]):
            begin = m.end() + use.start()
            yield Fault(begin, begin + len(m[1]), m[1][:2] + m[1][3:], line_of(text, begin))


def pick(rng, sources, kinds, count, per_file):
    """`count` files with `per_file` mistakes each, on different lines."""
    made = []
    while len(made) < count:
        name = rng.choice(sorted(sources))
        text, code = sources[name], blanked(sources[name])
        faults = []
        for _ in range(per_file):
            choices = [f for f in rng.choice(kinds)(text, code) if all(abs(f.line - g.line) > 1 for g in faults)]
            if choices:
                faults.append(rng.choice(choices))
        if len(faults) == per_file:
            made.append((name, text, sorted(faults)))
    return made


def apply(text, edits):
    """The text with (begin, end, replacement) applied; offsets are those of its bytes."""
    data = text.encode()
    for begin, end, new in sorted(edits, reverse=True):
        data = data[:begin] + new.encode() + data[end:]
    return data.decode()


def check(tegula, files):
    """The errors of each file, in one run of the command."""
    done = subprocess.run([tegula, "--json", "check", *map(str, files)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"tegula check ended with {done.returncode}:\n{done.stderr}")
    errors = {str(f): [] for f in files}
    for line in done.stdout.splitlines():
        found = json.loads(line)
        if found["level"] == "error":
            errors[found["spans"][0]["file"] if found["spans"] else str(files[0])].append(found)
    return errors


def complaint(faults, errors):
    """None, or why the errors are not one for each mistake, with fixes."""
    lines = sorted(e["spans"][0]["line"] for e in errors)
    if lines != sorted(f.line for f in faults):
        return f"mistakes in lines {[f.line for f in faults]}, errors in {lines}: " + "; ".join(e["code"] + " " + e["message"] for e in errors)
    bare = [e for e in errors if not e["fixes"]]
    return f"no fix: {bare[0]['code']} {bare[0]['message']}" if bare else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tegula")
    parser.add_argument("source")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="write the files here")
    parser.add_argument("--show", action="store_true", help="say what is wrong with each file that is not right")
    options = parser.parse_args()
    examples = pathlib.Path(options.source) / "examples"
    sources = {p.name: p.read_text(encoding="utf-8") for p in examples.glob("*.tile")}
    sources = {name: text for name, text in sources.items() if text.isascii() and len(text) < 6000}
    rng = random.Random(options.seed)
    rows = [
        ("a `let` or `var` left out", pick(rng, sources, [without_keyword], 60, 1)),
        ("a `;` left out", pick(rng, sources, [without_semicolon], 60, 1)),
        ("two mistakes", pick(rng, sources, [without_keyword, without_semicolon, misspelt], 30, 2)),
    ]
    bad = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary)
        cases = []
        for row, (_, made) in enumerate(rows):
            for number, (name, text, faults) in enumerate(made):
                path = folder / f"{row}_{number:02}_{name}"
                wrong = apply(text, [(f.begin, f.end, f.text) for f in faults])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(wrong, encoding="utf-8")
                cases.append((row, path, wrong, faults))
        first = check(options.tegula, [path for _, path, _, _ in cases])
        cured = []
        for _, path, wrong, _ in cases:
            edits = [(f["begin"], f["end"], f["text"]) for e in first[str(path)] for f in e["fixes"]]
            cured.append(path.with_name("cured_" + path.name))
            cured[-1].write_text(apply(wrong, edits), encoding="utf-8")
        second = check(options.tegula, cured)
        print(f"{'mistake':28}{'files':>7}{'one error a fault':>20}{'with a cure that checks':>26}")
        for row, (title, made) in enumerate(rows):
            told = right = 0
            for (of, path, _, faults), after in zip(cases, cured):
                if of != row:
                    continue
                why = complaint(faults, first[str(path)])
                told += why is None
                if why is None and second[str(after)]:
                    e = second[str(after)][0]
                    why = f"cured, but line {e['spans'][0]['line']}: {e['code']} {e['message']}"
                right += why is None
                if why and options.show:
                    print(f"  {path.name}: {why}")
            bad |= right < WANTED * len(made)
            print(f"{title:28}{len(made):7}{told:20}{right:26}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
