#!/usr/bin/env python3
# Adds up result files of ctest: summary.py "FAILED BUILDS" RESULTS.xml.. Cases inside one program (GoogleTest, `tegula test`, transcripts) count
# one by one. Prints what failed and what was skipped, by name, what took longest, then "N passed, N failed" as the last line; exits 1 on any failure
# or when nothing ran.
import os, re, sys
import xml.etree.ElementTree as tree

GTEST = (re.compile(r"^\[  PASSED  \] (\d+) tests?", re.M), re.compile(r"^ ?(\d+) FAILED TESTS?", re.M))
SKIPPED = re.compile(r"^\[  SKIPPED \] ([\w/]+\.[\w/]+)$|^(skipped: .*)", re.M)
TALLY = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def cases(case):
    """(passed, failed, names of the skipped) of one entry; a program that failed without saying what counts as one failure."""
    text = case.findtext("system-out") or ""
    skipped = sorted({a or b for a, b in SKIPPED.findall(text)})
    reason = case.find("skipped")
    if reason is not None and reason.get("message", "").startswith("SKIP_"):
        return 0, 0, skipped or [reason.get("message")]
    good = case.get("status") == "run"
    if tally := TALLY.findall(text):
        passed, failed = map(int, tally[-1])
    else:
        passed, failed = (sum(int(n) for n in pattern.findall(text)) for pattern in GTEST)
    if not good:
        return passed, max(failed, 1), skipped
    return (passed, failed, skipped) if passed + failed or skipped else (1, 0, [])


def main():
    passed = failed = 0
    for build in sys.argv[1].split():
        print(f"FAILED build {build}")
        failed += 1
    for path in sys.argv[2:]:
        if not os.path.exists(path):
            continue
        suite = re.sub(r"^results-|\.xml$", "", os.path.basename(path))
        good = bad = 0
        times = []
        for case in tree.parse(path).getroot().iter("testcase"):
            p, f, skipped = cases(case)
            good, bad = good + p, bad + f
            times.append((float(case.get("time") or 0), case.get("name")))
            if f:
                print(f"FAILED {suite}: {case.get('name')} ({f})")
            if skipped:
                print(f"skipped {suite}: {case.get('name')}: {', '.join(skipped)}")
        longest = ", ".join(f"{name} {seconds:.0f}" for seconds, name in sorted(times, reverse=True)[:8] if seconds >= 1)
        if longest:
            print(f"{suite}: {sum(s for s, _ in times):.0f} s in {len(times)} entries; longest: {longest}")
        print(f"{suite}: {good} passed, {bad} failed")
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    sys.exit(0 if passed and not failed else 1)


main()
