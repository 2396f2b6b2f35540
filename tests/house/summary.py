#!/usr/bin/env python3
# scripts/summary.py counts cases, and names what was skipped: summary.py SOURCE_DIR
import os, subprocess, sys, tempfile

RESULTS = """<testsuite>
<testcase name="all skipped" status="run"><system-out>[  SKIPPED ] A.b (0 ms)
[  PASSED  ] 0 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.b
</system-out></testcase>
<testcase name="some skipped" status="run"><system-out>[  PASSED  ] 4 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A/0.c
</system-out></testcase>
<testcase name="by name" status="run"><system-out>skipped: gpu.d (no GPU)
</system-out></testcase>
<testcase name="by code" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out/></testcase>
<testcase name="missing" status="notrun"><skipped message="Unable to find executable"/><system-out/></testcase>
<testcase name="tally" status="run" time="12.34"><system-out>7 passed, 0 failed
</system-out></testcase>
<testcase name="plain" status="run"><system-out>hello
</system-out></testcase>
</testsuite>"""
EXPECTED = """skipped x: all skipped: A.b
skipped x: some skipped: A/0.c
skipped x: by name: skipped: gpu.d (no GPU)
skipped x: by code: SKIP_RETURN_CODE=77
FAILED x: missing (1)
x: 12 s in 7 entries; longest: tally 12
x: 12 passed, 1 failed
12 passed, 1 failed
"""

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "results-x.xml")
    with open(path, "w") as file:
        file.write(RESULTS)
    got = subprocess.run([sys.executable, os.path.join(sys.argv[1], "scripts/summary.py"), "", path], capture_output=True, text=True)
if (got.stdout, got.returncode) != (EXPECTED, 1):
    sys.exit(f"expected\n{EXPECTED}got ({got.returncode})\n{got.stdout}{got.stderr}")
