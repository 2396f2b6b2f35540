#!/usr/bin/env python3
"""Proves that the reference in docs/command.md is what the command's own table says: command.py TEGULA SOURCE_DIR [--update]"""
import pathlib
import subprocess
import sys

BEGIN, END = "<!-- of `tegula manual reference` -->\n", "<!-- end of it -->\n"
path = pathlib.Path(sys.argv[2], "docs/command.md")
text = path.read_text(encoding="utf-8")
head, rest = text.split(BEGIN)
old, tail = rest.split(END)
new = subprocess.run([sys.argv[1], "manual", "reference"], check=True, capture_output=True, text=True).stdout
if old == new:
    sys.exit(0)
if "--update" in sys.argv:
    path.write_text(head + BEGIN + new + END + tail, encoding="utf-8")
    sys.exit(0)
print("docs/command.md is not what `tegula manual reference` prints; run tests/docs/command.py TEGULA . --update")
sys.exit(1)
