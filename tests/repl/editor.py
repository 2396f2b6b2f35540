#!/usr/bin/env python3
# editor.py EDIT_PROGRAM: the console's editor on a pseudo-terminal. What each key does to a screen of 120 x 40, which pyte keeps; that the terminal is
# given back after anything. The program is tests/repl/edit_program.cpp.
import os, random, signal, subprocess, sys, tempfile, termios, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from terminal import Terminal

program = sys.argv[1]
P, D = "tegula[%d]> ", "      ...> "
UP, DOWN, RIGHT, LEFT, HOME, END = (f"\x1b[{c}" for c in "ABCDHF")


def start(home, *arguments, **more):
    env = {"HOME": home, "XDG_STATE_HOME": home + "/state", **more.pop("env", {})}
    t = Terminal([program, *arguments], env=env, **more)
    t.shows("tegula[1]>", (0, 11))
    return t


def keys(home):
    """Every key, in one input after the other: keys, the rows then, the cursor in them."""
    t = start(home)
    for typed, rows, cursor in [
        ("abc", ["abc"], (0, 3)), ("\x01x", ["xabc"], (0, 1)), ("\x05y", ["xabcy"], (0, 5)), ("\x02\x02\x06z", ["xabczy"], (0, 5)),
        ("\x0b", ["xabcz"], (0, 5)), ("\x15", [""], (0, 0)), ("\x19", ["xabczy"], (0, 6)), ("\x14", ["xabcyz"], (0, 6)), (" one two\x17", ["xabcyz one"], (0, 11)),
        ("\x1f", ["xabcyz one two"], (0, 14)), ("\x1bb\x1bb!", ["xabcyz !one two"], (0, 8)), ("\x1bd", ["xabcyz ! two"], (0, 8)), ("\x1bf?", ["xabcyz ! two?"], (0, 13)),
        ("\x1b\x7f", ["xabcyz !"], (0, 9)), ("\x01\x0b\x1b[1;5D\x1bOd\x1b[1;5C\x1bOc", [""], (0, 0)), ("ab cd" + HOME + "\x1b[3~", ["b cd"], (0, 0)),
        ("\x1b[1;5C\x04", ["bcd"], (0, 1)), (END + LEFT + LEFT + RIGHT + "\x7f", ["bd"], (0, 1)), ("\x0b\x7fA\x1b\rBCD\x1b\rE", ["A", "BCD", "E"], (2, 1)),
        (UP + UP + "x", ["Ax", "BCD", "E"], (0, 2)), (DOWN + END + DOWN, ["Ax", "BCD", "E"], (2, 1)), ("\x10\x01\x0e", ["Ax", "BCD", "E"], (2, 0)),
        ("\x1b[A\x1bOH\x7f", ["AxBCD", "E"], (0, 2)), ("\x1b[200~\r\n1\t\x1b[201~", ["Ax", "1   BCD", "E"], (1, 4)), ("\x1b[13~\x1b[[B\x1b[1;9Q\x1b[?25;1$y", ["Ax", "1   BCD", "E"], (1, 4)),
        ("\x0c", ["Ax", "1   BCD", "E"], (1, 4)),
    ]:
        t.keys(typed)
        t.shows([((P % 1 if i == 0 else D) + row).rstrip() for i, row in enumerate(rows)], (cursor[0], cursor[1] + 11))
    assert t.cursor() == (1, 15), "Ctrl-L takes the text to the top of the screen"
    t.keys("\x03")
    t.shows(["interrupted", "tegula[2]>"], (1, 11))
    t.keys("kernel f(\rx)\r{\r}\r")  # the pieces of an input, indented as they are open
    t.shows(["tegula[2]> kernel f(", D + "    x)", "16 bytes: kernel f(|    x)", "tegula[3]> {", D + "}", "3 bytes: {|}", "tegula[4]>"])
    # History: by its beginning, with the search, over inputs of several lines.
    t.keys("other\r")
    t.shows(["5 bytes: other", "tegula[5]>"])
    t.keys("ker" + UP)
    t.shows(["tegula[5]> kernel f(", D + "    x)"], (0, 14))
    t.keys("\x03\x12F(")
    t.shows(["tegula[6]>", "nothing holds: F("])
    t.keys("\x7f\x7ff(")
    t.shows(["tegula[6]> kernel f(", D + "    x)", "search: f("], (0, 18))
    t.keys("\x07" + UP + UP + UP)
    t.shows(["tegula[6]> kernel f(", D + "    x)"], (0, 20))
    t.keys("\x12{\r")
    t.shows(["tegula[6]> {", D + "}"], (1, 12))
    # Completion: the common beginning, the list, and its entries.
    t.keys("\x03(sc\t")
    t.shows("tegula[7]> (sca", (0, 15))
    t.keys("\t")
    t.shows(["tegula[7]> (sca", "scaled      scale_rows  scatter", "scaled: word  what scaled does"], (0, 15))
    t.keys("\t\t")
    t.shows(["tegula[7]> (scale_rows", "scaled      scale_rows  scatter", "scale_rows: word  what scale_rows does"], (0, 22))
    t.keys("\x1b[Z(")
    t.shows("tegula[7]> (scaled(  x, s, out y", (0, 19))  # with what it takes
    # Colours and brackets.
    t.keys("\x03let a = f(12, \"x\") // y" + "\x1b[D" * 5)
    t.shows("tegula[8]> let a = f(12, \"x\") // y", (0, 29))
    row = t.screen.buffer[t.cursor()[0]]
    look = lambda column: (row[11 + column].fg, row[11 + column].reverse)
    # pyte 0.8.0 calls the bright black of comments black
    assert [look(i) for i in (0, 4, 10, 14, 20)] == [("magenta", False), ("default", False), ("brown", False), ("green", False), ("black", False)], [look(i) for i in (0, 4, 10, 14, 20)]
    assert look(9) == ("default", True) and look(17) == ("default", False), (look(9), look(17))
    t.keys("\x03open\r")  # what is printed then does not end its line
    t.shows(["4 bytes: open", "tegula[10]>"], (1, 12))
    t.keys("\x04")
    assert t.ends() == 0


def pastes(home):
    t = start(home)
    body = "\n".join(f"    let x{i} = {i}; // line {i}" for i in range(198))
    t.keys(f"\x1b[200~kernel big() {{\n{body}\n}}\x1b[201~")
    t.shows([D + f"    let x{i} = {i}; // line {i}" for i in range(159, 198)] + [D + "}"], (39, 12))
    t.keys("\x1b<")  # scrolls by what it must
    t.shows(["tegula[1]> kernel big() {"] + [D + f"    let x{i} = {i}; // line {i}" for i in range(39)], (0, 11))
    t.keys("\x1b[B" * 40)
    t.shows([D + f"    let x{i} = {i}; // line {i}" for i in range(40)], (39, 11))
    t.keys("\x1b>\r")
    t.sees(r"\d+ bytes: kernel big\(\) \{\|    let x0 = 0;[^>]*\ntegula\[2\]>$")
    t.keys("\x1b[200~tegula[1]> let x = (1,\n      ...>     2)\n[1, 2]\ntegula[2]> x\n[1 2]\n\x1b[201~")
    t.shows(["tegula[2]> let x = (1,", D + "    2)", "1 more of the pasted inputs follow; Ctrl-C drops them"], (1, 17))
    t.keys("\r")
    t.shows(["18 bytes: let x = (1,|    2)", "tegula[3]> x"])
    t.keys("\r\x04")
    assert t.ends() == 0


def sizes(home):
    t = start(home)
    text = "let words = " + " ".join(f"word{i}" for i in range(30))
    t.keys("one\rtwo\r")
    t.shows(["3 bytes: two", "tegula[3]>"])
    t.keys(text)
    wrapped = (P % 3 + text)[:120], D.replace("...>", "    ") + (P % 3 + text)[120:]
    t.shows([r.rstrip() for r in wrapped])
    for width, height in ((60, 20), (140, 50), (40, 10), (120, 40)):
        t.resize(width, height)
        time.sleep(0.05)
        t.keys("\x7f")
        text = text[:-1]
        rows, rest = [], P % 3 + text
        while rest:
            rows.append(rest[:width].rstrip())
            rest = rest[width:] and " " * 11 + rest[width:]
        t.shows(rows)
        assert sum("let words" in line for line in t.lines()) == 1, t.lines()
    t.keys("\x03\x04")
    assert t.ends() == 0


def wide(home):
    t = start(home)
    t.keys("\u4e16\u754c e\u0301 \u00fc")
    t.until(lambda: t.cursor() == (0, 11 + 8) and t.lines()[0].replace(" ", "").endswith("\u4e16\u754ce\u0301\u00fc".replace("e\u0301", "\u00e9")), lambda: "wide and combining")
    t.keys("\x01\x06\x7f")
    t.until(lambda: t.cursor() == (0, 11), lambda: "the wide one goes as a whole")
    t.keys(b"\x0b\xff\xfea\x02\x02")
    t.shows(r"tegula[1]> \xff\xfea", (0, 15))
    t.keys("\x0b\x15\U0001f468\u200d\U0001f469\u200d\U0001f467ab\x02\x02\x7f")  # a family is one character
    t.shows("tegula[1]> ab", (0, 11))
    t.keys("\u4e16" * 70)  # wraps before the half of one
    t.until(lambda: t.cursor() == (1, 11 + 2 * (70 - 54)), lambda: "wraps")
    t.keys("\x03\x04")
    assert t.ends() == 0


def stops(home):
    """Ctrl-Z under a shell with jobs: it gets its terminal back, and the text is there again afterwards."""
    t = Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], env={"HOME": home, "PS1": "sh> ", "PROGRAM": program, "XDG_STATE_HOME": home + "/state", "BASH_SILENCE_DEPRECATION_WARNING": "1"})
    t.shows("sh>")
    t.keys("stty -g; $PROGRAM\r")
    t.shows("tegula[1]>")
    before = t.lines()[-2]
    t.keys("(half\rof it\x1a")
    t.sees(r"Stopped.*\nsh>")
    t.keys("clear; stty -g; fg\r")
    t.sees(r"\(half\n      \.\.\.>     of it$")
    assert before in t.lines(), (before, t.lines())
    t.keys(")\r")
    t.sees(r"\d+ bytes: \(half\|    of it\)\ntegula\[2\]>$")
    # Stopped from outside, where the shell changes the terminal meanwhile.
    t.keys("again")
    t.sees("again$")
    pid = int(subprocess.run(["pgrep", "-P", str(t.child.pid)], capture_output=True, text=True).stdout.split()[0])
    for number in (signal.SIGSTOP, signal.SIGTSTP):
        os.kill(pid, number)
        t.sees(r"sh>$")
        t.keys("clear; fg\r")
        t.sees(r"\A[^\n]*\n?[^\n]*tegula\[2\]> again$")
    t.keys("\x15\x04")
    t.sees(r"bye\nsh>$")
    # Ended by a signal.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        t.keys("clear; $PROGRAM\r")
        t.sees(r"tegula\[1\]>$")
        t.keys("x")
        t.sees("x$")
        pid = int(subprocess.run(["pgrep", "-P", str(t.child.pid)], capture_output=True, text=True).stdout.split()[0])
        os.kill(pid, number)
        t.sees(r"sh>$")
        t.keys("clear; stty -g\r")
        t.sees(r"sh>\Z")
        t.until(lambda: before in t.lines(), lambda: f"the terminal after {number}")
    t.keys("exit\r")
    t.ends()


def outside(home):
    """Ctrl-X Ctrl-E."""
    script = os.path.join(home, "editor")
    with open(script, "w") as out:
        out.write("#!/bin/sh\ntest -f \"$1\" || exit 3\nprintf ' + 1\\n' >> \"$1\"\n[ -z \"$FAILS\" ] || exit 1\n")
    os.chmod(script, 0o755)
    for fails, expected in (("", ["tegula[1]> 1", D + " + 1"]), ("1", ["tegula[1]> 1", "the editor failed; the text is as it was"])):
        t = start(home, env={"EDITOR": script, "FAILS": fails, "TMPDIR": home})
        t.keys("1\x18\x05")
        t.shows(expected)
        t.keys("\x03\x04")
        assert t.ends() == 0
    assert not [f for f in os.listdir(home) if f.startswith("tegula-")]


def plain(home):
    for arguments, term in ((["plain"], "xterm"), ([], "dumb"), ([], "")):
        t = start(home, *arguments, env={"TERM": term})
        t.keys("f(\n")
        t.shows(["tegula[1]> f(", "      ...>"])
        t.keys("1)\n")
        t.shows(["tegula[1]> f(", "      ...> 1)", "5 bytes: f(|1)", "tegula[2]>"])
        t.keys("half(")
        t.sees("half\\(")
        t.keys("\x03")
        t.sees("interrupted\ntegula\\[3\\]>$")
        for typed, rows in (("(\n", 1), ("\n", 2), ("\n", 2)):
            t.keys(typed)
            t.sees(r"tegula\[3\]> \((\n      \.\.\.>){%d}" % rows)
        t.sees("3 bytes: \\(\\|\\|\ntegula\\[4\\]>$")
        t.keys("\x04")
        assert t.ends() == 0
        assert b"\x1b" not in t.raw, t.raw
    done = subprocess.run([program], input=b"a(\n\n\n\n)\r\nb", capture_output=True, env={**os.environ, "HOME": home, "TERM": "xterm"})
    assert done.stdout == b"7 bytes: a(||||)\n1 bytes: b\nbye\n", done.stdout


def histories(home):
    path = home + "/state/tegula/history"
    one, two = start(home), start(home)
    for n in range(3):
        one.keys(f"one {n}\r")
        two.keys(f"two {n}\r")
        one.shows([f"5 bytes: one {n}", f"tegula[{n + 2}]>"])
        two.shows([f"5 bytes: two {n}", f"tegula[{n + 2}]>"])
    one.keys("\x04"), two.keys("\x04")
    assert one.ends() == two.ends() == 0
    lines = open(path).read().split("\n")
    assert all(f'"{w} {n}"' in lines for w in ("one", "two") for n in range(3)), lines
    assert os.stat(path).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    for env, note in (({"XDG_STATE_HOME": "", "HOME": ""}, "the history is not kept: $HOME/.local/state/tegula/history: HOME is not set"), ({"EDIT_HISTORY": ""}, None), ({"EDIT_HISTORY": "/proc/none/history"}, "the history is not kept: /proc/none/history: No such file or directory"),
                      ({"EDIT_HISTORY": "/dev/full"}, "the history is not kept: /dev/full: ")):
        t = start(home, env=env)
        t.keys("a\rb\r" + UP + UP)
        t.shows("tegula[3]> a")
        seen = "\n".join(t.lines())
        assert seen.count("not kept") == (note is not None), seen
        assert (note is None or note in seen), seen
        t.keys("\x03\x04")
        t.ends()


def restored(home):
    """Random bytes through the terminal: afterwards it is as it was before."""
    pieces = [b"\x1b[", b"\x1b", b"\x1bO", b"\x1b[200~", b"\x1b[201~", b"\r", b"\t", b"\x12", b"abc(", b")", b"\xe4\xb8\x96", b"\xff", b"\x1b[A", b"\x7f", b"\x18"]
    draw = random.Random(7)
    leader, follower = os.openpty()
    before = termios.tcgetattr(follower)
    env = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": home, "EDITOR": "true"}
    for _ in range(12):
        child = subprocess.Popen([program], stdin=follower, stdout=follower, stderr=follower, env=env, start_new_session=True)
        os.set_blocking(leader, False)
        for _ in range(15):
            for _ in range(draw.randrange(1, 8)):
                data = draw.choice(pieces) if draw.random() < 0.7 else draw.randbytes(3)
                try:
                    os.write(leader, data.replace(b"\x1a", b""))
                except BlockingIOError:
                    pass
            try:
                os.read(leader, 1 << 16)
            except BlockingIOError:
                pass
        end = time.time() + 20
        how = draw.choice((signal.SIGTERM, signal.SIGHUP, None, None))
        if how:
            time.sleep(0.02)
            child.send_signal(how)
        while child.poll() is None:
            assert time.time() < end, "it does not end"
            if not how:
                os.write(leader, b"\x1b[201~\x07\x03\x04")
            try:
                os.read(leader, 1 << 16)
            except BlockingIOError:
                time.sleep(0.002)
        assert child.returncode in (0, -(how or 0)), child.returncode  # 0: among the bytes was a Ctrl-D
        assert termios.tcgetattr(follower) == before, (termios.tcgetattr(follower), before)


for test in (keys, pastes, sizes, wide, stops, outside, plain, histories, restored):
    if len(sys.argv) > 2 and test.__name__ not in sys.argv[2:]:
        continue
    with tempfile.TemporaryDirectory() as home:
        began = time.time()
        test(home)
        print(f"{test.__name__}: {time.time() - began:.1f} s", flush=True)
