#!/usr/bin/env python3
"""Replays transcripts of the console: run.py TEGULA [--update] [NAME..]

tests/repl/NAME.txt is what a person sees: prompts with inputs, answers between them. Lines before the first prompt may be comments (`# ..`) and files
(`@file NAME` to `@end`). In answers {*} stands for any text within a line, and a line `...` for any number of lines. Each transcript is replayed as a
script, in a process of its own for evaluation (--isolate), through --json, whose events are compared with the schema, and on a pseudo-terminal;
all answers must be those of the transcript. --update rewrites the answers that differ; read what it wrote."""
import json, os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT, DOTS = re.compile(r"tegula\[(\d+)\]> ?(.*)"), re.compile(r" *\.\.\.> ?(.*)")
TIME = re.compile(r"(?:\b(?:cpu|interp|cuda) )?\d+(\.\d+)?(e-\d+)? ms\b")


def parse(path):
    """Files, and a list of [number, input, answer lines]."""
    files, steps, name = {}, [], None
    for line in open(path, encoding="utf-8").read().split("\n"):
        prompt, dots = PROMPT.fullmatch(line), DOTS.fullmatch(line)
        if name:
            if line == "@end":
                name = None
            else:
                files[name] += line + "\n"
        elif prompt:
            steps.append([int(prompt[1]), prompt[2], []])
        elif dots and steps:
            steps[-1][1] += "\n" + dots[1]
        elif steps:
            steps[-1][2].append(line)
        elif line.startswith("@file "):
            name = line[6:]
            files[name] = ""
        elif line and not line.startswith("# "):
            sys.exit(f"{path}: what is `{line}`?")
    while steps[-1][2] and not steps[-1][2][-1]:
        steps[-1][2].pop()
    return files, steps


def matches(expected, lines):
    pattern = ""
    for line in expected:
        pattern += r"(?:.*\n)*" if line == "..." else ".*".join(re.escape(part) for part in line.rstrip().split("{*}")) + "\n"
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in lines)) is not None


def environment(home):
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TEGULA_CACHE_DIR")}
    return {**keep, "LC_ALL": "C", "HOME": home, "TERM": "dumb", "CUDA_VISIBLE_DEVICES": ""}


def as_script(tegula, text, folder, *flags):
    run = subprocess.run([tegula, "repl", "--keep-going", *flags], input=text, cwd=folder, env=environment(folder), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return run.stdout.split("\n")[:-1] if run.stdout else []


def through_json(tegula, steps, folder):
    """The answer to each input, and the number of the prompt behind it."""
    requests = "".join(json.dumps({"id": i, "op": "eval", "text": step[1]}) + "\n" for i, step in enumerate(steps))
    run = subprocess.run([tegula, "--json", "repl"], input=requests, cwd=folder, env=environment(folder), text=True, capture_output=True, timeout=120)
    with open(os.path.join(folder, "events"), "w") as out:
        out.write(run.stdout)
    check = subprocess.run([sys.executable, os.path.join(HERE, "..", "cli", "bin", "schema"), "repl", os.path.join(folder, "events")], text=True,
                           capture_output=True)
    if check.returncode:
        sys.exit("an event is against the schema: " + check.stderr)
    answers, numbers = ["" for _ in steps], [1 for _ in steps]
    for line in run.stdout.splitlines():
        event = json.loads(line)
        if event["event"] == "done":
            numbers[event["id"]] = event["next"]
        elif event.get("text"):
            answers[event["id"]] += event["text"] + ("" if event["text"].endswith("\n") else "\n")
    return [a.split("\n")[:-1] for a in answers], numbers


def on_terminal(tegula, steps, folder):
    import pexpect
    child = pexpect.spawn(tegula, ["repl", "--plain", "--quiet", "--no-history", "--init", "none"], cwd=folder, env=environment(folder), echo=False,
                          encoding="utf-8", timeout=60, dimensions=(40, 80))
    child.expect_exact("tegula[1]> ")
    answers = []
    for _, text, _ in steps:
        for i, line in enumerate(text.split("\n")):
            if i:
                child.expect(r" *\.\.\.> ")
            child.sendline(line)
        child.expect(r"(?:^|\n)tegula\[\d+\]> |\Ategula\[\d+\]> ")
        answers.append([l for l in child.before.replace("\r", "").split("\n")])
        if answers[-1] and not answers[-1][-1]:
            answers[-1].pop()
    child.sendline(":quit")
    child.expect(pexpect.EOF)
    child.close()
    if child.exitstatus != 0:
        sys.exit(f"the console ended with {child.exitstatus}")
    return answers


def update(path, steps, answers, numbers):
    text = open(path, encoding="utf-8").read()
    out, number = text[: re.search(r"^tegula\[", text, re.M).start()], 1
    for (_, given, old), answer, after in zip(steps, answers, numbers):
        prompt = f"tegula[{number}]> "
        out += prompt + given.replace("\n", "\n" + "...> ".rjust(len(prompt))) + "\n"
        if not matches(old, answer):
            old = [TIME.sub("{*} ms", line.rstrip()) for line in answer]
        out += "".join(line + "\n" for line in old)
        number = after
    open(path, "w", encoding="utf-8").write(re.sub(r" +$", "", out, flags=re.M))


def transcript(path):
    text = open(path, encoding="utf-8").read()
    return text[re.search(r"^tegula\[", text, re.M).start() :]


def check(what, steps, answers, name):
    wrong = 0
    for (number, text, expected), answer in zip(steps, answers):
        if not matches(expected, answer):
            wrong += 1
            print(f"{name}, {what}, [{number}] {text}\n  expected:\n" + "".join(f"    {l}\n" for l in expected) + "  got:\n" + "".join(f"    {l}\n" for l in answer))
    return wrong


def main():
    words = [w for w in sys.argv[1:] if w != "--update"]
    tegula, names = os.path.abspath(words[0]), words[1:]
    wrong = inputs = 0
    for name in sorted(n[:-4] for n in os.listdir(HERE) if n.endswith(".txt")):
        if names and name not in names:
            continue
        path = os.path.join(HERE, name + ".txt")
        files, steps = parse(path)
        inputs += len(steps)

        def folder():
            made = tempfile.TemporaryDirectory()
            for file, text in files.items():
                open(os.path.join(made.name, file), "w").write(text)
            return made

        with folder() as place:
            answers, numbers = through_json(tegula, steps, place)
        if "--update" in sys.argv:
            update(path, steps, answers, numbers)
            continue
        json_answers = [a for a in answers]
        # What the console does by itself, programs have to do themselves.
        for i, step in enumerate(steps):
            if step[1].startswith((":edit", "!")):
                json_answers[i] = step[2]
        wrong += check("--json", steps, json_answers, name)
        for number, (at, text, _) in zip([1] + numbers, steps):
            if number != at:
                wrong += 1
                print(f"{name}: the prompt of {text} has the number {number}")
        whole = [line for step in steps for line in step[2]]
        for flags in ((), ("--isolate",)):
            with folder() as place:
                got = as_script(tegula, transcript(path), place, *flags)
            if not matches(whole, got):
                wrong += 1
                print(f"{name}, as a script {flags}:\n" + "\n".join(got))
        try:
            import pexpect
        except ImportError:
            print(f"{name}: not replayed on a terminal, pexpect is not installed")
            continue
        with folder() as place:
            wrong += check("on a terminal", steps, on_terminal(tegula, steps, place), name)
    print(f"{inputs} inputs, {wrong} wrong")
    sys.exit(wrong != 0)


main()
