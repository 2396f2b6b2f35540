#!/usr/bin/env python3
"""Proves that what docs/command.md and docs/repl.md list is what the command's own tables say: command.py TEGULA SOURCE_DIR [--update]"""
import pathlib
import subprocess
import sys

END = "<!-- end of it -->\n"
differ = False
for name, page in (("command", "reference"), ("repl", "console")):
    begin = f"<!-- of `tegula manual {page}` -->\n"
    path = pathlib.Path(sys.argv[2], f"docs/{name}.md")
    head, rest = path.read_text(encoding="utf-8").split(begin)
    old, tail = rest.split(END)
    new = subprocess.run([sys.argv[1], "manual", page], check=True, capture_output=True, text=True).stdout
    if old == new:
        continue
    if "--update" in sys.argv:
        path.write_text(head + begin + new + END + tail, encoding="utf-8")
    else:
        print(f"docs/{name}.md is not what `tegula manual {page}` prints; run tests/docs/command.py TEGULA . --update")
        differ = True
sys.exit(differ)
