#!/usr/bin/env python3
# What is built names neither the source tree nor the build tree: it runs anywhere, and two checkouts build the same. Debug information does not count.
# paths.py FOLDER,FOLDER FILE..
import os, subprocess, sys, tempfile

folders = [os.path.join(folder, "").encode() for folder in sys.argv[1].split(",")]
problems = []
with tempfile.TemporaryDirectory() as scratch:
    for path in sys.argv[2:]:
        stripped = os.path.join(scratch, "stripped")
        subprocess.run(["strip", "-o", stripped, path], check=True)
        with open(stripped, "rb") as file:
            data = file.read()
        for folder in folders:
            places, at = [], data.find(folder)
            while at >= 0:
                places.append(data[at : data.find(b"\0", at)][:120].decode(errors="replace"))
                at = data.find(folder, at + 1)
            if places:
                problems.append(f"{path} names {folder.decode()} in {len(places)} places, as in {places[0]}")
print("\n".join(problems) or f"{len(sys.argv) - 2} files name no folder of the build")
sys.exit(bool(problems))
