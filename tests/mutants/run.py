#!/usr/bin/env python3
# Plants the faults of mutants.py, one after the other, in a copy of the tree under build/mutants, and sees which suite notices each:
#     run.py [--check] [--only NAME,..] [--out FILE]
# --check only tells whether every fault still applies. The table goes to FILE (build/mutants/table.md); the last line is "N passed, N failed", where a
# fault that was noticed has passed. Exit code 1: fewer than 95 % were noticed, or one in masks, packing or barriers was not.
import argparse, datetime, os, re, shutil, subprocess, sys, time, zlib
from pathlib import Path

from mutants import BARRIERS, FAULTS, MASKS, PACKING

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutants"
BUILD = COPY / "build/release"
WITHOUT_EXCEPTION = {MASKS, PACKING, BARRIERS}
SHARE = 0.95
TIMEOUT = 1800  # of a suite without a fault; with one it has ten times what it took without, and a suite that hangs has noticed
PLACE = re.compile(r"\{\{((?:(?!\{\{).)*?) ==> (.*?)\}\}", re.S)
# Read once per process; in every file with a fault, so that no file of the library need know of it.
SWITCH = """#ifndef TEGULA_PLANTED
#define TEGULA_PLANTED
#include <cstdlib>
inline const int tegula_planted = std::getenv("TEGULA_PLANTED") ? std::atoi(std::getenv("TEGULA_PLANTED")) : 0;
#endif
"""


class Fault:
    def __init__(self, name, category, path, where, suites):
        self.name, self.category, self.path, self.suites = name, category, path, suites
        self.number = zlib.crc32(name.encode()) >> 1  # the same whatever the table holds besides, so that objects stay as they are
        self.is_text = where.startswith("text: ")
        where = where.removeprefix("text: ")
        places = PLACE.findall(where)
        if len(places) != 1:
            raise ValueError(f"{name}: not one `{{{{old ==> new}}}}`")
        self.old, self.new = places[0]
        self.before, self.after = PLACE.split(where)[0], PLACE.split(where)[3]
        self.killer, self.seconds = None, 0.0

    def problem(self, text):
        found = text.count(self.before + self.old + self.after)
        return "" if found == 1 else f"{self.name}: its text occurs {found} times in {self.path}"

    def planted(self, text):
        if self.problem(text):
            sys.exit(f"{self.name} overlaps another fault of {self.path}")
        new = self.new if self.is_text else f"(tegula_planted == {self.number} ? ({self.new}) : ({self.old}))"
        return text.replace(self.before + self.old + self.after, self.before + new + self.after)


def files():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [n for n in names if n and (ROOT / n).is_file()]


def texts(faults):
    """The files with faults in them as they should be: all expressions at once."""
    out = {}
    for f in faults:
        if f.is_text:
            continue
        text = out.get(f.path) or SWITCH + (ROOT / f.path).read_text()
        out[f.path] = f.planted(text)
    return out


def write(path, data):
    """Only what changed, so that builds stay small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def copy_tree(planted):
    names = files()
    for name in names:
        write(COPY / name, planted[name].encode() if name in planted else (ROOT / name).read_bytes())
        shutil.copymode(ROOT / name, COPY / name)
    keep = set(names)
    for folder in {n.split("/")[0] for n in names if "/" in n}:  # what is gone from the tree
        for path in (COPY / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and str(path.relative_to(COPY)) not in keep:
                path.unlink()


def target_of(suite):
    first = suite.split()[0]
    return {"interp": ["tegula_command"], "cpu": ["tegula_command"], "on_cpu": ["tegula_command", "on_cpu"]}.get(first, [first])


def build(targets):
    if not (BUILD / "build.ninja").exists():
        run = ["cmake", "--preset", "release", "-DTEGULA_BUILD_TESTS=ON", "-DTEGULA_BUILD_BENCH=OFF"]
        subprocess.run(run, cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["nice", "ninja", "-C", str(BUILD), *sorted(targets)], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout[-3000:]


usual = {}  # seconds of a suite without a fault


def notices(suite, number):
    """Does the suite fail, or not end?"""
    words = suite.split()
    on_cpu = BUILD / "tests/on_cpu"
    env = dict(os.environ, TEGULA_PLANTED=str(number), TEGULA_CACHE_DIR="off")
    if words[0] == "on_cpu":
        kept = on_cpu / "kept"
        env |= {"LD_LIBRARY_PATH": str(on_cpu), "TEGULA_NVRTC": str(on_cpu / "libcuda.so.1"), "TEGULA_ON_CPU_KEPT": str(kept), "TEGULA_ON_CPU_SEED": "1"}
    if words[0] in ("interp", "cpu", "on_cpu"):
        machine = "cuda" if words[0] == "on_cpu" else words[0]
        command = [str(BUILD / "tools/tegula"), "test", "--machine", machine, *words[1:]]
    else:
        command = [str(BUILD / "tests" / words[0]), *words[1:]]
    limit = max(60, 10 * usual[suite]) if suite in usual else TIMEOUT
    start = time.time()
    try:
        failed = subprocess.run(command, cwd=COPY, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit).returncode != 0
    except subprocess.TimeoutExpired:
        return True
    if not number:
        usual[suite] = time.time() - start
    return failed


def hunt(fault):
    start = time.time()
    fault.killer = next((suite for suite in fault.suites if notices(suite, fault.number)), None)
    fault.seconds = time.time() - start
    print(f"{'noticed' if fault.killer else 'SURVIVES':9}{fault.category:16}{fault.name:32}{fault.killer or ', '.join(fault.suites)} ({fault.seconds:.0f} s)", flush=True)


def table(faults):
    lines = ["| fault | in | noticed by |", "|---|---|---|"]
    for category in dict.fromkeys(f.category for f in faults):
        rows = [f for f in faults if f.category == category]
        lines.append(f"| **{category}** | | {sum(f.killer is not None for f in rows)} of {len(rows)} |")
        lines += [f"| {f.name.replace('_', ' ')} | `{f.path}` | {'`' + f.killer + '`' if f.killer else '**nobody**'} |" for f in rows]
    return "\n".join(lines) + "\n"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options.add_argument("--only", default="")
    options.add_argument("--out", type=Path, default=COPY / "table.md")
    options = options.parse_args()
    every = [Fault(*row) for row in FAULTS]
    problems = [p for f in every if (p := f.problem((ROOT / f.path).read_text()))]
    for f in every:
        problems += [f"{f.name}: no file {w}" for s in f.suites for w in s.split()[1:] if w.endswith(".tile") and not (ROOT / w).exists()]
        problems += [f"{f.name}: no test {s}" for s in f.suites if s.split()[0].endswith("_test") and not (ROOT / f"tests/unit/{s.split()[0]}.cpp").exists()]
    if len({f.name for f in every}) != len(every):
        problems.append("two faults have one name")
    if problems:
        sys.exit("tests/mutants/mutants.py is behind the code (update the row, or take a like fault elsewhere):\n" + "\n".join(problems))
    if options.check:
        return print(f"{len(every)} faults apply")
    chosen = [f for f in every if not options.only or f.name in options.only.split(",")]
    planted = texts(every)
    copy_tree(planted)
    targets = {t for f in chosen for s in f.suites for t in target_of(s)}
    if problem := build(targets):
        sys.exit("the tree with the faults does not build:\n" + problem)
    for suite in dict.fromkeys(s for f in chosen for s in f.suites):
        if notices(suite, 0):
            sys.exit(f"{suite} fails without any fault")
    for f in [f for f in chosen if not f.is_text]:
        hunt(f)
    for f in [f for f in chosen if f.is_text]:
        base = planted.get(f.path) or (ROOT / f.path).read_text()
        write(COPY / f.path, f.planted(base).encode())
        if problem := build({t for s in f.suites for t in target_of(s)}):
            sys.exit(f"{f.name} does not build:\n{problem}")
        hunt(f)
        write(COPY / f.path, base.encode())
    options.out.write_text(f"{datetime.date.today()}\n\n" + table(chosen))
    lost = [f for f in chosen if not f.killer]
    print(f"{len(chosen) - len(lost)} passed, {len(lost)} failed")
    sys.exit(1 if len(lost) > (1 - SHARE) * len(chosen) or any(f.category in WITHOUT_EXCEPTION for f in lost) else 0)


main()
