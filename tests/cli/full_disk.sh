# A full disk is an error with exit code 5: the old file stays, no partial file is left. Devices are written in place.
cat > k.tile <<'TILE'
kernel copy<B: int = 4096>(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, B)]
{
    y[program_id(0) * B +: B] = x[program_id(0) * B +: B];
}
TILE
npy write x.npy f4 100000
code=0
tegula run k.tile -q --arg x=@x.npy --out y=/dev/full 2> text || code=$?
[ "$code" = 5 ]
grep -q 'error: /dev/full: No space left on device' text
[ -c /dev/full ]

# So is standard output that takes nothing, for every verb; a closed one is no place for a file that is opened later.
for verb in targets 'explain T0301' 'doc k.tile' 'dump k.tile copy' 'fmt -' 'run k.tile --machine interp --arg x=@x.npy' --help; do
    code=0
    tegula $verb < k.tile > /dev/full 2> text || code=$?
    [ "$code" = 5 ]
    grep -q 'error: standard output: No space left on device' text
done
code=0
tegula --json run k.tile --machine interp --arg x=@x.npy --out y=y.npy 2> text >&- || code=$?
[ "$code" = 5 ]
tegula run k.tile -q --machine interp --arg x=@x.npy --out y=z.npy
cmp y.npy z.npy
tegula targets | head -n 0

mkdir small
if mount -t tmpfs -o size=64k tmpfs small 2> /dev/null; then
    trap 'umount small' EXIT
    echo old > small/y.npy
    code=0
    tegula run k.tile -q --arg x=@x.npy --out y=small/y.npy 2> text || code=$?
    [ "$code" = 5 ]
    grep -q 'small/y.npy: No space left on device' text
    [ "$(cat small/y.npy)" = old ]
    [ "$(ls small)" = y.npy ]
else
    # Without the right to mount: a limit on file size fails the write the same way (EFBIG).
    echo old > small/y.npy
    code=0
    python3 - <<'PY' || code=$?
import resource, signal, subprocess, sys
def limit():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
sys.exit(subprocess.run(["tegula", "run", "k.tile", "-q", "--arg", "x=@x.npy", "--out", "y=small/y.npy"], preexec_fn=limit, stderr=subprocess.DEVNULL).returncode)
PY
    [ "$code" = 5 ]
    [ "$(cat small/y.npy)" = old ]
    [ "$(ls small)" = y.npy ]
fi
