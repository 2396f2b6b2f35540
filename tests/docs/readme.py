#!/usr/bin/env python3
"""README.md line by line, as a newcomer takes it: readme.py TEGULA ROOT [CXX INCLUDE LIBRARY]

The kernel of "A taste" becomes the file that the text names, the commands behind it run in its folder, and with a compiler the C++ under "Embedding" is
built and run there; what needs a GPU is compiled only. Links of README.md and of all documents lead to files below ROOT, an installed prefix's too,
and to headings that are there.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_snippets import blocks

tegula, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
compiler = [os.path.abspath(a) if os.path.exists(a) else a for a in sys.argv[3:6]]
problems = []


def run(command, folder, what, **more):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, **more)
    if done.returncode:
        problems.append(f"{what}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def anchors(path):
    """What links to a document may name: its headings as GitHub spells them, and ids."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.M)]
    return {*headings, *re.findall(r'<a id="([^"]+)"', text)}


def check_links(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file = path.parent / target if target else path
        if not file.exists():
            problems.append(f"{path.relative_to(root)}: `{target}` is not there")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            problems.append(f"{path.relative_to(root)}: `{target}` has no heading `#{anchor}`")


def cpp(text, folder, declarations, arguments, what):
    lines = text.splitlines()
    includes = [line for line in lines if line.startswith("#")]
    body = [line for line in lines if not line.startswith("#")]
    file = folder / "readme.cpp"
    file.write_text("\n".join([*includes, "#include <cstdio>", "#include <vector>", declarations, "int main() {", *body, "}", ""]), encoding="utf-8")
    run([compiler[0], "-std=c++20", "-Wall", f"-I{compiler[1]}", str(file), *arguments], folder, what)


def main():
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        check_links(path)
    found = list(blocks(root / "README.md"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        kernel = next(text for _, info, text in found if info == ["tile"])
        (folder / "softmax.tile").write_text(kernel, encoding="utf-8")
        env = {**os.environ, "PATH": f"{tegula.parent}:{os.environ['PATH']}", "TEGULA_CACHE_DIR": "off"}
        commands = [line for _, info, text in found if info == ["sh"] for line in text.splitlines() if not line.startswith("scripts/")]
        if len(commands) < 6:
            problems.append("README.md: fewer commands than there were")
        for command in commands:
            run(["sh", "-c", command], folder, f"README.md: `{command}`", env=env)
        if not (folder / "y.npy").exists():
            problems.append("README.md: `tegula run` has written no y.npy")
        if compiler:
            first, second, third = [text for _, info, text in found if info == ["cpp"]][:3]
            session = next(text for _, info, text in blocks(root / "docs/sessions.md") if info == ["cpp"])
            library = pathlib.Path(compiler[2])
            for program, what in [(first + third, "README.md: the first and third C++"), (session, "docs/sessions.md: the C++")]:
                cpp(program, folder, "", ["-o", "readme", str(library), f"-Wl,-rpath,{library.parent}", "-pthread"], what)
                if not problems:
                    run([str(folder / "readme")], folder, f"{what}: the program", env=env)
            declared = "#include <tegula/tegula.hpp>\nextern tegula::Module module;\nextern void *dx, *dy, *stream;\nextern size_t bytes;"
            cpp(second, folder, declared, ["-fsyntax-only", "-Wno-unused"], "README.md: the second C++")
    print("\n".join(problems) or f"{len(commands)} commands")
    return bool(problems)


sys.exit(main())
