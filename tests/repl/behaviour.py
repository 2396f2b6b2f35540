#!/usr/bin/env python3
"""What a transcript of the console cannot say: behaviour.py TEGULA. Exit codes, hostile input, interrupts, processes that die, times."""
import json, os, re, resource, select, signal, subprocess, sys, tempfile, time

TEGULA = os.path.abspath(sys.argv[1])
SLOW = 20 if os.environ.get("ASAN_OPTIONS") or os.environ.get("TEGULA_SLOW_MACHINE") else 1
failures = 0
NATIVE = b"\"cpu\",\"available\":true" in subprocess.run([TEGULA, "--json", "targets"], capture_output=True).stdout.replace(b" ", b"")


def expect(good, what):
    global failures
    if not good:
        failures += 1
        print("FAIL", what)


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if k not in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    env.update({"CUDA_VISIBLE_DEVICES": "", "TERM": "dumb", **changes})
    return {k: v for k, v in env.items() if v is not None}


def repl(text, *flags, env=None, **more):
    given = text if isinstance(text, bytes) else text.encode()
    return subprocess.run([TEGULA, "repl", *flags], input=given, capture_output=True, timeout=120, env=env or environment(), **more)


class Server:
    def __init__(self, *flags):
        self.run = subprocess.Popen([TEGULA, "--json", "repl", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())

    def send(self, **request):
        self.run.stdin.write(json.dumps(request).encode() + b"\n")
        self.run.stdin.flush()

    def until_done(self, id):
        events = []
        while not events or events[-1]["event"] != "done" or events[-1]["id"] != id:
            events.append(json.loads(self.run.stdout.readline()))
        return events

    def ask(self, id, **request):
        self.send(id=id, **request)
        return self.until_done(id)[-1]


def exit_codes():
    expect(repl("1 + 2\n").returncode == 0, "an expression ends with 0")
    run = repl("1 +* 2\n7\n")
    expect(run.returncode == 1 and b"7\n" not in run.stdout, "a script stops at its first error")
    run = repl("1 +* 2\n7\n", "--keep-going")
    expect(run.returncode == 1 and b"7\n" in run.stdout, "--keep-going goes on, and tells the first code")
    expect(repl("assert(1 == 2)\n").returncode == 3, "a failed assertion ends with 3")
    expect(repl(":load nosuch.tile\n").returncode == 5, "a file that is not there ends with 5")
    expect(repl(":nosuch\n").returncode == 2, "an unknown command ends with 2")
    run = repl("", "-e", "let x = 4", "-e", "x + 1")
    expect(run.stdout == b"5\n" and run.returncode == 0, "-e are inputs of one session")
    run = repl("x\n", "-e", "let x = 4", "-i")
    expect(run.stdout == b"4\n", "-i goes on with what is typed")
    expect(repl(":quit\nnosuch\n").returncode == 0, ":quit ends a script")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "k.tile")
        open(path, "w").write("const N = twice(4);\nfn twice(n: int) -> int { return 2 * n; }\n")
        expect(repl("", path, "-e", "N").stdout == b"8\n", "a file is one input")
        expect(repl("N\n", "-i", "--init", path).stdout == b"8\n", "--init comes first")
        typed = os.path.join(folder, "typed.txt")
        open(typed, "w").write(":set print.digits 2\n1.0 / 3.0\n")
        expect(repl("", typed).stdout.endswith(b"0.33\n"), "a file with commands is read as typed")
        os.chmod(path, 0)
        if os.geteuid():
            expect(repl("", path).returncode == 5, "a file that cannot be read ends with 5")
        expect(repl("", folder).returncode == 5, "a folder is no file")
        saved = os.path.join(folder, "s.tile")
        expect(repl(f"fn f(n: int) -> int {{ return n; }}\n:save {saved}\n").returncode == 0, ":save")
        expect(subprocess.run([TEGULA, "check", saved], capture_output=True).returncode == 0, "what :save wrote checks")
        expect(repl("const N = 1;\n:save /dev/full\n").returncode == 5, ":save to a full disk")


def hostile():
    for text in (b"\0\n", b"1\0 + 2\n", b"\xff\xfe\n", b"let \xc3\x28 = 1\n", b"\"\x80\"\n", b":\xff\n", b":type \0\n", b"?\xff\n", b"!\xff\n", b":", b"?", b"!", b"(" * 5000,
                 b"let x = " + b"[" * 100000 + b"\n", b":show " + b"(" * 1000, b"\r\n\r\n1\r\n", b"tegula[", b"tegula[9999999999999999999]> 1", b":set print.edge 9223372036854775807\nzeros<f32>[40, 50]()",
                 b":set print.threshold 99999999999999999999\n", b":layout f32 @ col [0, 4]\n", b":layout f32 @ col [4611686018427387904, 4]\n", b":layout @\n", b":layout @ [\n", b":bits 1 2 3 bits all\n",
                 b":time\n:time 5\n:time ;\n", b":diff\n:diff 1 interp interp interp\n", b":import\n:import =\n:import x =\n:import a as\n", b":help \xff\n", b"ans\n", b":cuda -s\n:ir @\n"):
        run = repl(text, "--keep-going")
        expect(0 <= run.returncode < 126 and run.returncode != 70, f"{text[:40]!r} ends with {run.returncode}: {run.stderr[-300:]!r}")
    long = repl(b"let x = \"" + b"a" * (16 << 20) + b"\"\n1 + 1\n", "--keep-going")
    expect(b"T0002" in long.stderr or b"bytes" in long.stderr, "a line of more than 16 MiB is refused")
    expect(long.stdout.endswith(b"2\n"), "and does not end the console")
    closed = subprocess.run(["sh", "-c", f"echo '1 + 1' | '{TEGULA}' repl >&-"], capture_output=True, env=environment())
    expect(closed.returncode in (0, 5), f"a closed standard output: {closed.returncode}")
    full = subprocess.run(["sh", "-c", f"echo '1 + 1' | '{TEGULA}' repl > /dev/full"], capture_output=True, env=environment())
    expect(full.returncode == 5, f"a full standard output: {full.returncode}")
    expect(repl("1 + 1\n", env=environment(HOME=None, XDG_CACHE_HOME=None)).stdout == b"2\n", "without a home")
    expect(repl("0.5 + 1000000.0\n", env=environment(TERM="nosuch", LC_ALL="de_DE.UTF-8")).stdout == b"1000000.5\n", "an unknown terminal, another locale")
    for line in (b"{", b"[]", b"1", b"{\"op\":3}", b"{\"op\":\"eval\"}", b"{\"op\":\"eval\",\"text\":7}", b"{\"op\":\"complete\",\"text\":\"a\",\"pos\":9}", b"{\"op\":\"complete\",\"text\":\"a\",\"pos\":-1}",
                 b"{\"op\":\"inspect\",\"text\":\"\\u0000\",\"pos\":1}", b"\xff\xfe", b"{\"op\":\"eval\",\"text\":\"1\",\"width\":-5}", b"{\"op\":\"interrupt\"}", b"{\"op\":\"is_complete\",\"text\":\":\"}"):
        run = subprocess.run([TEGULA, "--json", "repl"], input=line + b"\n", capture_output=True, timeout=60, env=environment())
        expect(run.returncode == 0 and json.loads(run.stdout.splitlines()[-1])["event"] == "done", f"the request {line!r}: {run.stdout[-200:]!r}")


def untrusted():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("commands.tile", "let x = 1;\n:save stolen.tile\n"), ("loads.tile", "let x = load_npy(\"/etc/hostname\");\n"), ("good.tile", "fn two() -> int { return 2; }\n")):
            open(os.path.join(folder, name), "w").write(text)
        run = repl("", "--untrusted", "commands.tile", cwd=folder)
        expect(run.returncode == 1, f"a command in a file that is not trusted is no command: {run.stderr!r}")
        for text in (":save stolen.tile\n", "tegula[1]> :save stolen.tile\n", " :save stolen.tile\n", "?two\n"):
            run = repl("1 + 1\n" + text, "--untrusted", cwd=folder)
            expect(run.returncode == 2 and b"--untrusted" in run.stderr, f"nor one of a pipe, {text!r}: {run.stderr!r}")
        expect(not os.path.exists(os.path.join(folder, "stolen.tile")), "nothing was written")
        run = repl("", "--untrusted", "loads.tile", cwd=folder)
        expect(run.returncode != 0 and b"loads are confined" in run.stderr, f"arrays are read below the file only: {run.stderr!r}")
        run = repl("", "--untrusted", "good.tile", "-e", ":machine interp", "-e", "two() + 3", cwd=folder)
        expect(run.returncode == 0 and run.stdout.endswith(b"5\n"), f"what is trusted has commands: {run.stdout!r} {run.stderr!r}")
        expect(repl("1\n", "--untrusted", "--shell").returncode == 2, "--untrusted with --shell")


def offers():
    server = Server()
    server.ask(1, op="eval", text="kernel banked(out y: tensor<f32>[1]) grid [1] { y[0] = 1.0; } type bitten = float<3, 2>;")

    def offered(text):
        return [c["text"] for c in server.ask(2, op="complete", text=text, pos=len(text))["result"]["candidates"]]

    for text, has, lacks in ((":viz ", "banks", "banked"), (":viz b", "bits", "banked"), (":viz layout ", "banked", "banks"), (":viz layout b", "bitten", "bits"), (":viz banks banked @sm_9", "@sm_90a", "banked"),
                             (":ir ", "banked", "final"), (":ir banked ", "final", "banked"), (":cuda banked @", "@sm_80", "banked")):
        found = offered(text)
        expect(has in found and lacks not in found, f"Tab behind {text!r}: {found}")


SPIN = "kernel spin(n: i64, out z: tensor<f32>[N]) grid [1] { var i = 0; while i < n { i = i + 1; } z[0] = 1.0; }"
KERNELS = "".join(f"kernel k{i}(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] {{ y[program_id(0)] = x[program_id(0)] * {i}.0; }}\n" for i in range(40000))


def interrupts():
    server = Server()
    expect(server.ask(1, op="eval", text=SPIN)["status"] == "ok", "a kernel that spins")
    server.ask(2, op="eval", text="var kept = 7")
    for what, text in (("statements", "kept = 8; while true { }"), ("interp", "kept = 8; spin(9000000000000, empty<f32>[1])"), ("cpu", "kept = 8; spin(9000000000000, empty<f32>[1])"),
                       ("elaboration", KERNELS), (":time", ":time spin(9000000000000, empty<f32>[1])")):
        if what == "cpu" and not NATIVE:
            continue
        server.ask(3, op="eval", text=":machine " + (what if what in ("interp", "cpu") else "interp"))
        server.send(id=4, op="eval", text=text)
        time.sleep(0.3)
        began = time.monotonic()
        server.send(id=5, op="interrupt")
        done = [e for e in server.until_done(4) if e["event"] == "done"][-1]
        took = time.monotonic() - began
        print(f"interrupt in {what}: {took * 1e3:.0f} ms")
        expect(done["status"] == "cancelled" and took < 2 * SLOW, f"an interrupt in {what}: {done['status']} after {took:.2f} s")
        value = [e for e in server.until_done_of("kept") if e["event"] == "value"]
        expect(value and value[0]["text"] == "7", f"variables after an interrupt in {what}")
    # NVRTC takes seconds for this one, and is part of no machine that must be there.
    body = "".join(f"    v = sin(v) + exp(v * {i}.5) + log(abs(v) + {i}.25);\n" for i in range(1, 60))
    server.ask(6, op="eval", text=f"kernel heavy(inout x: tensor<f64>[N]) grid [1] {{\n    var v = x[0 +: 1024];\n{body}    x[0 +: 1024] = v;\n}}")
    server.send(id=7, op="eval", text=":ptx heavy @sm_90a")
    time.sleep(0.3)
    began = time.monotonic()
    server.send(id=8, op="interrupt")
    events = server.until_done(7)
    took, said = time.monotonic() - began, "".join(e.get("text", "") for e in events)
    print(f"interrupt in NVRTC: {took * 1e3:.0f} ms" if "NVRTC" not in said else "no NVRTC")
    expect("NVRTC" in said or events[-1]["status"] == "cancelled" and took < 2 * SLOW, f"an interrupt in NVRTC: {events[-1]['status']} after {took:.2f} s")
    server.run.stdin.close()
    expect(server.run.wait(30) == 0, "the end of the requests ends the server")


def until_done_of(self, text):
    self.send(id="v", op="eval", text=text)
    return self.until_done("v")


Server.until_done_of = until_done_of


def children(process):
    with open(f"/proc/{process}/task/{process}/children") as text:
        return [int(word) for word in text.read().split()]


def dying_workers():
    def collect(run, marker, seconds=30):
        text, end = b"", time.monotonic() + seconds
        while marker not in text and time.monotonic() < end:
            if select.select([run.stdout], [], [], 0.1)[0]:
                got = os.read(run.stdout.fileno(), 1 << 16)
                if not got:
                    break
                text += got
        return text

    run = subprocess.Popen([TEGULA, "repl", "--isolate", "--keep-going", "--machine", "interp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           bufsize=0, env=environment())

    def say(text):
        run.stdin.write(text.encode())

    say(SPIN + "\nlet x = arange<f32>[5]()\nlet y = x\nnosuch\nx + 1.0\nspin(3, y); y[0] + 41.0\n")
    expect(b"42" in collect(run, b"42"), "an isolated session evaluates")
    for number, (sign, name) in enumerate(((signal.SIGKILL, b"the process that evaluates ended with SIGKILL"), (signal.SIGSEGV, b"native code of `spin` ended with SIGSEGV"))):
        say("spin(9000000000000, empty<f32>[1])\n")
        time.sleep(0.5)
        began = time.monotonic()
        os.kill(children(run.pid)[0], sign)
        said = collect(run, b"variables kept")
        took = time.monotonic() - began
        print(f"a new process after {signal.Signals(sign).name}: {took * 1e3:.0f} ms")
        expect(name in said and b" inputs replayed, variables kept" in said, f"a process that dies in a launch: {said!r}")
        expect(took < 1 * SLOW, f"the prompt is back after {took:.2f} s")
        say("(_5[0], y[0], y[4])\n")
        said = collect(run, b")\n")
        expect(b"(1, 1, 4)" in said.replace(b" f32", b""), f"variables, ans and numbers are as before: {said!r}")
        say(":undo\n")
        collect(run, b"taken back")
    os.kill(children(run.pid)[0], signal.SIGKILL)  # while nothing runs: the next input is evaluated
    time.sleep(0.2)
    say("y[4]\n")
    said = collect(run, b"4  f32")
    expect(b"SIGKILL" in said and b"4  f32" in said, f"a process that dies between inputs: {said!r}")
    run.stdin.close()
    expect(run.wait(30) is not None, "it ends")


def on_terminal():
    try:
        import pexpect
    except ImportError:
        print("pexpect is not installed: nothing on a terminal")
        return
    with tempfile.TemporaryDirectory() as home:
        for flags in ([], ["--isolate"]):
            child = pexpect.spawn(TEGULA, ["repl", "--machine", "interp", *flags], env=environment(HOME=home, TERM="xterm", NO_COLOR="1"), encoding="utf-8", timeout=30, dimensions=(40, 120))
            child.expect(r"\[1\]> ")
            child.send("let kept = 3\r")
            child.expect(r"\[2\]> ")
            child.send("while true { }\r")
            time.sleep(0.4)
            child.send("\x03")
            child.expect("T0915|interrupted|cancel")
            child.expect(r"\[3\]> ")
            child.send("\x03")
            child.expect("Ctrl-D on an empty line, or :quit, ends the console")
            child.send("kept\r")
            child.expect("3\r?\n")
            child.send("\x04")
            child.expect(pexpect.EOF)
            child.close()
            expect(child.exitstatus == 0, f"Ctrl-D ends the console with 0, not {child.exitstatus}")
        history = os.path.join(home, ".local/state/tegula/history")
        expect(os.path.exists(history) and "let kept = 3" in open(history).read(), "inputs are kept")
        for sign in (signal.SIGTERM, signal.SIGHUP):
            child = pexpect.spawn("sh", ["-c", f"'{TEGULA}' repl; stty -a | grep -o -- '-*icanon'; stty -a | grep -o -- '-*echo ' | head -1"], env=environment(HOME=home, TERM="xterm"),
                                  encoding="utf-8", timeout=30, dimensions=(40, 120), ignore_sighup=True)
            child.expect(r"\[1\]> ")
            time.sleep(0.1)
            os.kill(children(child.pid)[0], sign)
            child.expect(pexpect.EOF)
            expect("-icanon" not in child.before and "icanon" in child.before and "-echo " not in child.before, f"the terminal after {sign.name}: {child.before!r}")
            child.close()


def times():
    best = min(timed(lambda: repl(":quit\n")) for _ in range(7))
    print(f"start and end: {best * 1e3:.1f} ms")
    expect(best < 0.03 * SLOW * 5, f"start-up takes {best * 1e3:.1f} ms")
    server = Server()
    server.ask(1, op="eval", text=SPIN)
    server.ask(2, op="complete", text="ara", pos=3)
    best = min(timed(lambda: server.ask(3, op="complete", text="let y = ara", pos=11)) for _ in range(7))
    print(f"completion: {best * 1e3:.1f} ms")
    expect(best < 0.05 * SLOW * 5, f"completion takes {best * 1e3:.1f} ms")
    # What every key asks for in a text of 200 lines.
    text = "kernel f(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] {\n" + "".join(f"    let v{i} = x[program_id(0)] * {i}.0 + exp(x[{i}]);\n" for i in range(198)) + "    y[0] = max("
    for op in ("tokens", "inspect", "complete"):
        best = min(timed(lambda: server.ask(4, op=op, text=text, pos=len(text) - (op == "inspect"))) for _ in range(7))
        print(f"{op} at 200 lines: {best * 1e3:.1f} ms")
        expect(best < 0.05 * SLOW, f"{op} takes {best * 1e3:.1f} ms")
    server.run.stdin.close()
    server.run.wait(30)


def timed(fn):
    began = time.monotonic()
    fn()
    return time.monotonic() - began


for part in (exit_codes, hostile, untrusted, offers, interrupts, dying_workers, on_terminal, times):
    if len(sys.argv) < 3 or part.__name__ in sys.argv[2:]:
        part()
print(f"{failures} failures")
sys.exit(failures != 0)
