# Ctrl-C ends a long run with exit code 130, leaves the old output alone and no partial file behind.
# ends SECONDS SIGNAL COMMAND..: the command (its standard input stays open) ends so on the signal, within that time.
ends() {
    # A shell ignores SIGINT in background jobs, so python starts the run.
    python3 - "$@" <<'PY'
import signal, subprocess, sys, time
seconds, name, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
run = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(0.7)
if run.poll() is not None:
    sys.exit(f"ended by itself with {run.returncode}: {run.stderr.read().decode()}")
begin = time.monotonic()
run.send_signal(getattr(signal, "SIG" + name))
code, text = run.wait(timeout=20), run.stderr.read()
if code != 130 or b"interrupted" not in text:
    sys.exit(f"exit code {code}, standard error {text}")
if time.monotonic() - begin > seconds:
    sys.exit(f"took more than {seconds} s to stop")
PY
}
cat > forever.tile <<'TILE'
kernel spin(out y: tensor<i32>[1]) grid [1]
{
    var i = cast<i32>(program_id(0)) + 1;
    while i > 0 { i = i % 1000 + 1; }
    y[0] = i;
}
TILE
echo old > y.npy
for signal in INT TERM; do
    ends 1.5 $signal tegula run forever.tile --out y=y.npy
done
[ "$(cat y.npy)" = old ]
[ "$(ls | sort | tr '\n' ' ')" = "forever.tile y.npy " ]
# What does not look at the signal is ended by it soon, whichever signal it is.
for signal in INT TERM; do
    ends 5 $signal tegula dump - --emit=ir
done
