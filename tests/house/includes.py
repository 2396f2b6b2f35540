#!/usr/bin/env python3
# Proves the table of folders: what each may include. includes.py ROOT; exits 1 and names every offending line.
# The table has no exceptions; the checker is first tried on a small tree with known offences, so that it cannot pass by seeing nothing.
import os, re, sys, tempfile

PHASES = {"lang", "lang/gpu", "lang/kernel", "parser", "sema", "lower", "lower/gpu", "jit/interp", "lower/kernel", "jit/cuda", "jit/cpu", "jit/cache", "jit/picture", "jit/engine"}
TABLE = {
    "include": {"include"},
    "lang": {"lang"},
    "lang/gpu": {"lang", "lang/gpu"},
    "lang/kernel": {"lang", "lang/kernel"},
    "parser": {"lang", "parser"},
    "sema": {"lang", "sema"},
    "lower": {"lang", "lower"},
    "lower/gpu": {"lang", "lang/gpu", "lower", "lower/gpu"},
    "jit/interp": {"lang", "jit/interp"},
    "lower/kernel": {"lang", "lang/gpu", "lang/kernel", "lower/kernel"},
    "jit/cuda": {"lang", "lang/gpu", "lang/kernel", "jit/cuda"},
    "jit/cpu": {"lang", "jit/cpu"},
    "jit/cache": {"lang", "jit/cache"},
    "jit/picture": {"lang", "lang/gpu", "lower", "lower/gpu", "jit/picture"},
    "jit/engine": PHASES,
    "jit/api": {"lang", "jit/engine", "jit/api", "include"},
    "tools": {"include", "tools", "tools/edit"},
    "tools/edit": {"tools/edit"},
    "examples": {"include", "examples"},
    "stdlib": set(),
}
# Libraries that are neither the standard library nor the system's own headers, and the folders that may name them.
LIBRARIES = {"nlohmann": {"tools", "tools/edit"}, "llvm": {"jit/cpu"}}
CODE = (".h", ".hpp", ".cpp", ".cuh", ".c", ".cc", ".inc", ".def", ".re", ".yy")
LINE = re.compile(r'^\s*(?:%\s*)?#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
STANDARD = re.compile(r"^[a-z_0-9]+(\.h)?$")  # <vector>, <stdint.h>, <unistd.h>; not <llvm/...>, <fmt/...>
# Folders whose files need nothing but the standard library: no header of the system either.
PURE = {"lang", "lang/gpu", "lang/kernel", "parser", "sema", "lower", "lower/gpu", "lower/kernel", "include"}
STANDARD_C = {"stddef.h", "stdint.h"}


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "jit" or "/".join(parts[:2]) in TABLE else parts[0]


def check(root):
    problems, seen = [], 0
    for base in ("include", "lang", "parser", "sema", "lower", "jit", "stdlib", "tools", "examples"):
        for directory, _, files in os.walk(os.path.join(root, base)):
            for name in sorted(files):
                path = os.path.relpath(os.path.join(directory, name), root)
                if not name.endswith(CODE):
                    continue
                folder = folder_of(path)
                if folder not in TABLE or not TABLE[folder]:
                    problems.append(f"{path}: no code belongs into {folder}/")
                    continue
                with open(os.path.join(root, path), encoding="utf-8") as text:
                    for number, line in enumerate(text, 1):
                        match = LINE.match(line)
                        if not match:
                            continue
                        seen += 1
                        target = offence(root, path, folder, match.group(1), match.group(2))
                        if target:
                            problems.append(f"{path}:{number}: {folder}/ may not include {target}")
    return problems, seen


def offence(root, path, folder, quoted, angled):
    if angled:
        top = angled.split("/")[0]
        if top == "tegula":
            return None if "include" in TABLE[folder] else f"<{angled}>"
        if top in LIBRARIES:
            return None if folder in LIBRARIES[top] else f"<{angled}>"
        if angled.startswith("sys/"):
            return f"<{angled}>" if folder in PURE else None
        if not STANDARD.match(angled) or (folder in PURE and angled.endswith(".h") and angled not in STANDARD_C):
            return f"<{angled}>"
        return None
    own = os.path.normpath(os.path.join(os.path.dirname(path), quoted))
    if os.path.exists(os.path.join(root, own)):
        target = folder_of(own)
    elif quoted.startswith("tegula/"):
        target = "include"
    else:
        target = folder_of(quoted)  # from the root; generated headers are named like their folder
    return None if target in TABLE[folder] else f'"{quoted}" ({target}/)'


def try_checker():
    cases = [
        ("lang/a.h", "#include <vector>", True), ("lang/b.h", '#include "parser/parse.h"', False), ("lang/c.h", "#include <unistd.h>", False),
        ("lang/d.h", "#include <fmt/format.h>", False), ("parser/a.cpp", '#include "lang/a.h"', True), ("parser/b.yy", '#include "sema/sema.h"', False),
        ("sema/a.cpp", '  #  include "lower/lower.h"', False), ("jit/interp/a.cpp", '#include "jit/engine/engine.h"', False),
        ("jit/interp/b.cpp", '#include "lower/lower.h"', False), ("lang/e.cpp", '#include "lang/gpu/raster.h"', False), ("lower/gpu/a.cpp", '#include "lang/gpu/raster.h"', True),
        ("lower/b.cpp", '#include "lower/gpu/passes.h"', False), ("jit/cpu/b.cpp", '#include "lang/gpu/raster.h"', False), ("jit/engine/a.cpp", '#include "sema/sema.h"', True),
        ("jit/api/a.cpp", '#include "parser/parse.h"', False), ("jit/api/b.cpp", '#include "tegula/tegula.h"', True),
        ("tools/tool.h", '#include "tegula/tegula.hpp"', True), ("tools/a.cpp", '#include "tool.h"', True),
        ("tools/b.cpp", '#include "jit/engine/engine.h"', False), ("tools/c.cpp", '#include "../lang/a.h"', False),
        ("tools/edit/a.cpp", '#include "../tool.h"', False), ("tools/repl/a.cpp", '#include "../tool.h"', True),
        ("tools/d.cpp", "#include <nlohmann/json.hpp>", True), ("jit/cpu/a.cpp", "#include <llvm/IR/IRBuilder.h>", True),
        ("jit/engine/b.cpp", "#include <llvm/IR/IRBuilder.h>", False), ("lower/a.cpp", "#include <nlohmann/json.hpp>", False),
        ("stdlib/a.h", "", False), ("jit/other/a.cpp", "", False), ("examples/host.c", "#include <tegula/tegula.h>", True), ("sema/b.cpp", "#include <tegula/tegula.h>", False),
        ("include/tegula/x.h", '#include "lang/a.h"', False),
    ]
    for path, text, good in cases:
        with tempfile.TemporaryDirectory() as root:
            for name, body in (("lang/a.h", ""), ("tools/tool.h", ""), (path, text)):
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w") as out:
                    out.write(body + "\n")
            problems, _ = check(root)
            if (not problems) != good:
                sys.exit(f"the checker itself is wrong: {path} with {text!r} gave {problems}")


def main():
    try_checker()
    problems, seen = check(sys.argv[1])
    for problem in problems:
        print(problem)
    if seen < 100:
        problems.append("nothing")
        print(f"only {seen} includes found below {sys.argv[1]}: is that the source tree?")
    print(f"{seen} includes, {len(problems)} against the table")
    sys.exit(1 if problems else 0)


main()
