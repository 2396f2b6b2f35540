#!/usr/bin/env python3
"""The console as a person sees it: console.py TEGULA. Completion, hints, colours, interrupts and leaving, on a screen of 120 x 40."""
import os, sys, tempfile, time
from terminal import Terminal

TEGULA = os.path.abspath(sys.argv[1])


def console(home, *flags, **env):
    return Terminal([TEGULA, "repl", "--machine", "interp", *flags], env={"HOME": home, "CUDA_VISIBLE_DEVICES": "", **env})


def colour_at(t, row, column):
    return t.screen.buffer[row][column].fg


with tempfile.TemporaryDirectory() as home:
    t = console(home)
    t.shows("tegula[1]>", (0, 11))
    t.keys("let thing = full<f32>[3](1.5)\r")
    t.shows("tegula[2]>")
    t.keys("thi\t")
    t.shows("tegula[2]> thing", (0, 16))
    t.keys(" / 0.0\r")
    t.sees(r"f32\[3\] @ row\n\[inf  inf  inf\]\ntegula\[3\]>")
    row = next(i for i, line in enumerate(t.lines()) if line.startswith("[inf"))
    assert colour_at(t, row, 1) == "magenta", colour_at(t, row, 1)
    # The signature of what is called stands behind the text.
    t.keys("arange<f32>[3](")
    t.sees(r"tegula\[3\]> arange<f32>\[3\]\(\)? +<T>\[shape\]\(start = 0, step = 1\)")
    t.keys("\x03")
    t.shows("tegula[3]>", (0, 11))
    # Commands: names, kernels.
    t.keys(":layo\t")
    t.shows("tegula[3]> :layout", (0, 18))
    t.keys("\x15kernel only(out y: tensor<f32>[1]) grid [1] {\r")
    t.shows(["tegula[3]> kernel only(out y: tensor<f32>[1]) grid [1] {", "      ...>"], (1, 15))
    row = len(t.lines()) - 2
    assert colour_at(t, row, 11) != "default", "keywords have a colour"
    t.keys("y[0] = 7.0;\r}\r")
    t.shows("tegula[4]>")
    t.keys(":ir on\t\r")
    t.sees(r"kernel @only\(%y: tensor<f32>\[1\] out\)(.|\n)*tegula\[4\]>")
    # An interrupt while something runs leaves the variables; a second one says how to leave.
    t.keys("while true { }\r")
    time.sleep(0.3)
    t.keys("\x03")
    t.sees(r"T0915(.|\n)*tegula\[5\]>$")
    t.keys("\x03")
    t.sees("Ctrl-D on an empty line, or :quit, ends the console")
    t.keys("thing[0]\r")
    t.sees(r"1\.5  f32\ntegula\[6\]>$")
    t.keys("\x04")
    assert t.ends() == 0

    # Another one has the history, and sees an item that a pasted transcript has.
    t = console(home, "--isolate", NO_COLOR="1")
    t.shows("tegula[1]>")
    t.keys("\x1b[A")
    t.shows("tegula[1]> thing[0]")
    t.keys("\x15")
    t.keys("\x1b[200~tegula[1]> let a = 20\ntegula[2]> a + 1\n21\n\x1b[201~\r")
    t.sees(r"tegula\[2\]> a \+ 1")
    t.keys("\r")
    t.sees(r"\n21\ntegula\[3\]>$")
    t.keys(":quit\r")
    assert t.ends() == 0

    # A file that is watched is loaded while the prompt waits, and what is being typed stays.
    watched = os.path.join(home, "watched.tile")
    for flags in ((), ("--isolate",)):
        open(watched, "w").write("fn watched() -> f32 { return 1.0; }\n")
        t = console(home, *flags)
        t.shows("tegula[1]>")
        t.keys(f":watch {watched}\r")
        t.shows("tegula[2]>")
        t.keys("watched(\r) + 1.0\x1b[D")
        t.shows(["tegula[2]> watched(", "      ...> ) + 1.0"], (1, 17))
        time.sleep(0.02)
        open(watched, "w").write("fn watched() -> f32 { return 41.0; }\n")
        t.sees(r"watched\.tile has changed\nfn watched replaced \(input 1\)\ntegula\[3\]> watched\(\n +\.\.\.> \) \+ 1\.0$")
        t.keys("\x1b[C\r")
        t.sees(r"\n42(  f32)?\ntegula\[4\]>$")
        open(watched, "w").write("while true { }\n")  # which an interrupt ends, as any input
        t.sees(r"watched\.tile has changed$")
        time.sleep(0.3)
        t.keys("\x03")
        t.sees(r"T0915(.|\n)*tegula\[5\]>$")
        t.keys("watched()\r")
        t.sees(r"\n41  f32\ntegula\[6\]>$")
        t.keys("\x04")
        assert t.ends() == 0
print("as a person sees it")
