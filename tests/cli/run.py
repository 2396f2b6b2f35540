#!/usr/bin/env python3
# Runs transcripts of the command: run.py TEGULA [--update] [NAME..]. Each tests/cli/NAME.txt runs in an empty directory of its own:
#
#   # comment
#   @file k.tile            the lines up to @end become a file
#   ...
#   @end
#   $ tegula check k.tile   a shell command; `tegula` and the tools of tests/cli/bin are on PATH
#   line of standard output
#   ! line of standard error
#   [1]                     exit code; 0 when left out
#
# In expected lines {*} stands for any text within the line, and a line `...` for any number of lines of its stream. Trailing blank lines do not
# count. tests/cli/NAME.sh are scripts for what a transcript cannot say (signals, full disks); they pass by exit code 0 and skip by 77.
# --update rewrites the expectations of commands that differ; read what it wrote.
import os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 60


class Step:
    def __init__(self, command, line):
        self.command, self.line = command, line
        self.out, self.err, self.code = [], [], 0
        self.begin = self.end = line  # lines of the expectation in the file


def parse(lines):
    """Files to make and commands, in order."""
    steps, i = [], 0
    while i < len(lines):
        line = lines[i]
        i += 1
        if line.startswith("@file "):
            body = []
            while lines[i] != "@end":
                body.append(lines[i])
                i += 1
            i += 1
            steps.append((line[6:].strip(), "".join(l + "\n" for l in body)))
        elif line.startswith("$ "):
            step = Step(line[2:], i)
            step.begin = i
            while i < len(lines) and lines[i] and not lines[i].startswith(("$ ", "@file ", "# ")):
                if re.fullmatch(r"\[\d+\]", lines[i]):
                    step.code = int(lines[i][1:-1])
                elif lines[i].startswith("! "):
                    step.err.append(lines[i][2:])
                elif lines[i] == "!":
                    step.err.append("")
                else:
                    step.out.append(lines[i])
                i += 1
            step.end = i
            steps.append(step)
        elif line and not line.startswith("#"):
            raise ValueError(f"line {i}: neither a command nor an expectation: {line}")
    return steps


def matches(expected, text):
    """Blank lines are ignored on both sides: a transcript uses them to separate commands."""
    pattern = ""
    for line in expected:
        pattern += r"(?:.*\n)*" if line == "..." else ".*".join(re.escape(part) for part in line.split("{*}")) + "\n"
    lines = [line.rstrip() for line in text.split("\n")]
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines if line)) is not None


def environment(tegula, scratch):
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")}
    keep["PATH"] = os.pathsep.join([scratch, os.path.join(HERE, "bin"), keep["PATH"]])
    keep.update(LC_ALL="C", HOME=scratch, TERM="xterm", TEGULA=tegula)
    return keep


def run_transcript(path, tegula, update):
    with open(path, encoding="utf-8") as text:
        lines = text.read().split("\n")
    failures, replacements = [], []
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as work:
        os.symlink(tegula, os.path.join(scratch, "tegula"))
        for step in parse(lines):
            if isinstance(step, tuple):
                os.makedirs(os.path.dirname(os.path.join(work, step[0])) or work, exist_ok=True)
                with open(os.path.join(work, step[0]), "w", encoding="utf-8") as out:
                    out.write(step[1])
                continue
            try:
                done = subprocess.run(["sh", "-c", step.command], cwd=work, env=environment(tegula, scratch), stdin=subprocess.DEVNULL,
                                      capture_output=True, timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                failures.append(f"{path}:{step.line}: $ {step.command}\n  still running after {TIMEOUT} s")
                continue
            out, err = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
            if done.returncode == step.code and matches(step.out, out) and matches(step.err, err):
                continue
            shown = [l for l in out.split("\n") if l] + ["! " + l for l in err.split("\n") if l]
            if done.returncode:
                shown.append(f"[{done.returncode}]")
            failures.append(f"{path}:{step.line}: $ {step.command}\n" + "".join("  - " + l + "\n" for l in lines[step.begin:step.end]) +
                            "".join("  + " + l + "\n" for l in shown))
            replacements.append((step.begin, step.end, shown))
    if update and replacements:
        for begin, end, shown in reversed(replacements):
            lines[begin:end] = shown
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines))
    return len([s for s in parse(lines) if isinstance(s, Step)]), failures


def run_script(path, tegula):
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as work:
        os.symlink(tegula, os.path.join(scratch, "tegula"))
        try:
            done = subprocess.run(["sh", "-e", path], cwd=work, env=environment(tegula, scratch), stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return "still running"
    if done.returncode == 77:
        print(f"skipped {os.path.basename(path)}: {done.stdout.decode().strip()}")
        return None
    return f"exit code {done.returncode}\n" + (done.stdout + done.stderr).decode("utf-8", "replace") if done.returncode else None


def main():
    arguments = [a for a in sys.argv[1:] if a != "--update"]
    tegula, only = os.path.abspath(arguments[0]), arguments[1:]
    passed = failed = 0
    for name in sorted(os.listdir(HERE)):
        stem, ending = os.path.splitext(name)
        path = os.path.join(HERE, name)
        if ending not in (".txt", ".sh") or (only and stem not in only):
            continue
        if ending == ".txt":
            count, failures = run_transcript(path, tegula, "--update" in sys.argv)
        else:
            problem = run_script(path, tegula)
            count, failures = 1, [f"{path}: {problem}"] if problem else []
        for failure in failures:
            print(failure)
        passed, failed = passed + count - len(failures), failed + len(failures)
    print(f"{passed} passed, {failed} failed")
    sys.exit(0 if passed and not failed else 1)


main()
