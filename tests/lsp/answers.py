#!/usr/bin/env python3
# answers.py WORKSPACE_TEST ROOT: runs the tests of workspaces, and compares every answer that they get with the schema of its verb.
import json, os, pathlib, subprocess, sys, tempfile

test, root = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "tests/explain"))
from rebuild import problems

schema = json.loads((root / "share/tegula/schema/workspace.json").read_text())
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "answers")
    subprocess.run([test, "--gtest_brief=1", "--gtest_filter=-*Edits*:*Fast*"], check=True, env={**os.environ, "TEGULA_WORKSPACE_ANSWERS": path})
    answers = [line.split("\t", 1) for line in open(path, encoding="utf-8")]
wrong = [f"{verb}: {p} in {text[:200]}" for verb, text in answers for p in problems(json.loads(text), {"$ref": f"#/$defs/{verb}"}, schema)]
parts = {"stretch", "change", "place", "places", "called", "call", "symbol"}
missing = set(schema["$defs"]) - parts - {verb for verb, _ in answers}
print(*wrong[:20], *(f"no answer to {verb}" for verb in sorted(missing)), sep="\n")
print(f"{len(answers)} answers, {len(wrong)} against the schema")
sys.exit(bool(wrong or missing))
