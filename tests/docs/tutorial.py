#!/usr/bin/env python3
"""Replays the tutorial: tutorial.py TEGULA SOURCE_DIR [--update].

Each page of docs/tutorial has one whole file (```tile), named in the sentence before it, whose tests pass, and sessions (```repl): inputs behind prompts, and below each what the
console answers on the interpreter. In answers {*} stands for any text within the line, and a line `...` for any number of lines. --update writes what
is answered, but where the present text fits it.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

PROMPT = re.compile(r"tegula\[(\d+)\]> (.*)$")


def fits(expected, lines):
    """Do lines fit the expectation, in which `...` is any number of them?"""
    if not expected:
        return not lines
    if expected[0] == "...":
        return any(fits(expected[1:], lines[n:]) for n in range(len(lines) + 1))
    if not lines:
        return False
    pattern = ".*".join(re.escape(part) for part in expected[0].split("{*}"))
    return re.fullmatch(pattern, lines[0]) is not None and fits(expected[1:], lines[1:])


def written(lines):
    """An answer as a page has it: no times, no line without an end, of a long text its ends."""
    short = [re.sub(r"(interp |  |median )[\d.e-]+ (?:ms|us|s)\b.*", r"\1{*}", line) for line in lines]
    short = [line if len(line) <= 140 else line[:120] + "{*}" for line in short]
    return short if len(short) <= 24 else short[:3] + ["..."] + short[-3:]


class Console:
    def __init__(self, tegula, folder, file):
        command = [tegula, "repl", "--json", "--machine", "interp", "--no-history", "--init", "none"]
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.number = 0
        self.next = 1  # of the prompt
        self.answer(f":load {file}")

    def answer(self, text):
        """Lines that the console shows."""
        self.number += 1
        self.process.stdin.write(json.dumps({"id": self.number, "op": "eval", "text": text, "width": 100}) + "\n")
        self.process.stdin.flush()
        out = ""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the console has ended at `{text}`: {self.process.stderr.read()}")
            event = json.loads(line)
            if event.get("id") != self.number:
                continue
            if event["event"] == "done":
                self.next = event.get("next", self.next)
                return [l.rstrip() for l in out.splitlines()]
            if event["event"] in ("print", "value", "diagnostic", "picture"):
                out += event.get("text", "")


def replay(console, block, where, problems):
    """The block with the console's answers; what fits already stays as it is."""
    out, lines, i = [], block.splitlines(), 0
    while i < len(lines):
        prompt = PROMPT.match(lines[i])
        if not prompt:
            raise SystemExit(f"{where}: `{lines[i]}` stands behind no prompt")
        text = prompt[2]
        if int(prompt[1]) != console.next:
            problems.append(f"{where}: the prompt of `{text}` has the number {console.next}")
        out.append(f"tegula[{console.next}]> {text}")
        i += 1
        while i < len(lines) and re.match(r"\.{3,}> |\s*\.{3,} ", lines[i]):
            text += "\n" + re.sub(r"^\s*\.{3,}>? ", "", lines[i])
            out.append(lines[i])
            i += 1
        expected = []
        while i < len(lines) and not PROMPT.match(lines[i]):
            expected.append(lines[i])
            i += 1
        got = console.answer(text)
        if fits(expected, got):
            out += expected
        else:
            problems.append(f"{where}: {text}\n" + "\n".join(["  - " + l for l in expected] + ["  + " + l for l in got]))
            out += written(got)
    return "\n".join(out) + "\n"


def page(tegula, path, update):
    text = path.read_text(encoding="utf-8")
    files = re.findall(r"`([a-z_]+\.tile)`:\n\n```tile\n(.*?)```", text, re.S)
    if len(files) != 1:
        return [f"{path.name}: {len(files)} files, not one"]
    name, source = files[0]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, name).write_text(source, encoding="utf-8")
        for command in (["fmt", "--check", name], ["test", name]):
            done = subprocess.run([tegula, *command], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                problems.append(f"{path.name}: tegula {' '.join(command)}: {done.stdout}{done.stderr}")
        console = Console(tegula, folder, name)
        def answered(match):
            return "```repl\n" + replay(console, match[1], path.name, problems) + "```"

        replayed = re.sub(r"```repl\n(.*?)```", answered, text, flags=re.S)
        console.process.stdin.close()
        if console.process.wait(timeout=20):
            problems.append(f"{path.name}: the console ends with code {console.process.returncode}")
    if update and replayed != text:
        path.write_text(replayed, encoding="utf-8")
    return problems


def main():
    tegula, root = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    pages = sorted((root / "docs" / "tutorial").glob("*.md"))
    problems = [problem for path in pages for problem in page(tegula, path, "--update" in sys.argv)]
    print("\n".join(problems) if problems else f"{len(pages)} pages replayed")
    return 1 if problems or len(pages) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
