#!/usr/bin/env python3
"""Checks every snippet of the language in docs/*.md and README.md: check_snippets.py TEGULA SOURCE_DIR

What stands after the three backticks says what is done:
  tile                 a whole file: `tegula check`, and `tegula test` when it has test blocks
  tile-fragment        statements: parsed inside a function
  tile-error CODE ..   a whole file that `tegula check` (or `tegula test`) refuses with exactly these codes
A block in which the language seems to be written but that names none of these is refused too, so that nothing escapes.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

KINDS = ("tile", "tile-fragment", "tile-error")
OTHERS = ("sh", "cpp", "c", "cmake", "json", "text", "console")


def blocks(path):
    """(line of the text's first line, words after the backticks, text) of each fenced block."""
    start, info, text = 0, [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"```+(.*)$", line)
        if fence and not start:
            start, info, text = number + 1, fence[1].split(), []
        elif fence:
            yield start, info, "\n".join(text) + "\n"
            start = 0
        elif start:
            text.append(line)
    if start:
        raise SystemExit(f"{path}:{start}: this block is never closed")


def run(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def problem_of(tegula, info, text, folder):
    """None, or why the block is wrong."""
    kind = info[0] if info else ""
    if kind in OTHERS:
        return None
    if kind not in KINDS:
        # Grammar sketches and output are plain blocks; whole items of the language are not.
        return "a block with an item of the language is marked `tile`" if re.search(r"^\s*(kernel|fn|test|layout) .*\{", text, re.M) else None
    if kind == "tile-fragment":
        code, _, err = run([tegula, "dump", "-", "--emit=ast"], "fn fragment() {\n" + text + "}\n")
        return None if code == 0 else err
    file = folder / "snippet.tile"
    file.write_text(text, encoding="utf-8")
    has_tests = re.search(r'^test "', text, re.M) is not None
    if kind == "tile":
        code, _, err = run([tegula, "check", str(file)])
        if code == 0 and has_tests:
            code, out, err = run([tegula, "test", str(file)])
            err += out
        return None if code == 0 else err
    code, out, _ = run([tegula, "--json", "test" if has_tests else "check", str(file)])
    found = {d["code"] for d in map(json.loads, out.splitlines()) if d.get("level") == "error"}
    if code == 0 or found != set(info[1:]):
        return f"expected the errors {sorted(info[1:])}, found {sorted(found)}"
    return None


def main():
    tegula, source = sys.argv[1], pathlib.Path(sys.argv[2])
    count, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted((source / "docs").glob("*.md")) + [source / "README.md"]:
            for line, info, text in blocks(path):
                problem = problem_of(tegula, info, text, pathlib.Path(folder))
                count += bool(info) and info[0] in KINDS
                if problem:
                    failed += 1
                    print(f"{path.relative_to(source)}:{line}: {problem}")
    print(f"{count} snippets, {failed} wrong")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
