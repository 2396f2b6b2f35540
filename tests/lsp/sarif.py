#!/usr/bin/env python3
# sarif.py TEGULA: what `check --format sarif` writes has the form of SARIF 2.1.0 (the parts of its schema that we use, written down here), in columns of
# characters; and `--format gnu` says the same in lines.
import json, os, re, subprocess, sys, tempfile

tegula = sys.argv[1]
text = """// é
kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] {
    /* 😀é */ val = x[0]; y[0] = val + relu(val);
}
fn f(a: f32, a: f32) -> f32 { return a; }
"""
MESSAGE = {"text": str}
REGION = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
LOCATION = {"physicalLocation": {"artifactLocation": {"uri": re.compile(r"[A-Za-z0-9._~%/:-]+")}, "region": REGION}, "message?": MESSAGE}
RESULT = {"ruleId": str, "ruleIndex": 0, "level": re.compile("none|note|warning|error"), "message": MESSAGE, "locations": [LOCATION], "relatedLocations?": [LOCATION],
          "fixes?": [{"description?": MESSAGE, "artifactChanges": [{"artifactLocation": {"uri": str}, "replacements": [{"deletedRegion": REGION, "insertedContent?": MESSAGE}]}]}]}
LOG = {"$schema": str, "version": re.compile(r"2\.1\.0"),
       "runs": [{"tool": {"driver": {"name": str, "version": str, "rules": [{"id": str, "name?": str}]}}, "columnKind": re.compile("utf16CodeUnits|unicodeCodePoints"), "results": [RESULT]}]}


def check(value, shape, where):
    if isinstance(shape, dict):
        assert isinstance(value, dict), where
        for name in shape:
            assert name.endswith("?") or name in value, f"{where} lacks {name}"
        known = {n.rstrip("?"): s for n, s in shape.items()}
        for name, v in value.items():
            assert name in known, f"{where} has {name}"
            check(v, known[name], f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list) and (value or where.endswith("results")), where
        for i, v in enumerate(value):
            check(v, shape[0], f"{where}[{i}]")
    elif isinstance(shape, int):
        assert isinstance(value, int) and value >= shape, f"{where} is {value}"
    elif isinstance(shape, re.Pattern):
        assert isinstance(value, str) and shape.fullmatch(value), f"{where} is {value}"
    else:
        assert isinstance(value, shape), f"{where} is {value!r}"


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a b.tile")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    run = lambda form: subprocess.run([tegula, "check", "--format", form, path], capture_output=True, text=True)
    made = run("sarif")
    assert made.returncode == 1, made
    log = json.loads(made.stdout)
    check(log, LOG, "log")
    results = log["runs"][0]["results"]
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert len(results) >= 3 and all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in results)
    lines = text.split("\n")
    # A change has all its edits, and columns count characters.
    region = results[0]["locations"][0]["physicalLocation"]["region"]
    assert lines[region["startLine"] - 1][region["startColumn"] - 1:region["endColumn"] - 1] == "val", region
    imported = next(r for r in results if "relu" in r["message"]["text"])
    replacements = imported["fixes"][0]["artifactChanges"][0]["replacements"]
    assert len(imported["fixes"]) == 1 and len(replacements) == 2, imported["fixes"]
    changed = text.split("\n")
    for r in sorted(replacements, key=lambda r: (r["deletedRegion"]["startLine"], r["deletedRegion"]["startColumn"]), reverse=True):
        at = r["deletedRegion"]
        line = changed[at["startLine"] - 1]
        changed[at["startLine"] - 1] = line[:at["startColumn"] - 1] + r["insertedContent"]["text"] + line[at["endColumn"] - 1:]
    assert "nn.relu(val)" in "\n".join(changed) and "import std.nn" in "\n".join(changed), changed
    gnu = [re.fullmatch(r"(.+):(\d+):(\d+): (error|warning|note): .+", line) for line in run("gnu").stderr.strip().split("\n")]
    assert all(gnu) and sum(m.group(4) == "error" for m in gnu) == len(results), gnu
