# Kernels of the machine `cpu` in gdb and perf, where TEGULA_CPU_DEBUG asks for it: a breakpoint on a line of the source, the kernel's name and line in a backtrace, a
# line in perf's map; without it nothing of all that.
tegula doctor | grep -q '^machine  cpu: available' || { echo "the library has no LLVM"; exit 77; }
# Kernels that were shown stay until the process ends, and sanitizers stand between gdb and their callers.
! ASAN_OPTIONS=help=1 TSAN_OPTIONS=help=1 tegula --version 2>&1 | grep -q Sanitizer || { echo "the command is built with sanitizers"; exit 77; }
cat > k.tile <<'END'
fn twice(x: any) -> any {
    return x + x;
}
kernel spin_up(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1]
{
    var sum = x[0 +: 16];
    for i in 0 .. 10 {
        sum = sqrt(sum + cast<f32>(i));
    }
    y[0 +: 16] = twice(sum);
}
test "once" {
    spin_up(ones<f32>[16], empty<f32>[16]);
}
END
export TEGULA_CACHE_DIR=$PWD/cache JITDUMPDIR=$PWD/dumps
mkdir dumps
ask() {
    python3 - "$@" <<'PY'
import os, subprocess, sys
run = subprocess.Popen(["tegula", "test", "k.tile"], stdout=subprocess.DEVNULL)
code = run.wait()
path = f"/tmp/perf-{run.pid}.map"
print(open(path).read() if os.path.exists(path) else "no map", end="")
if os.path.exists(path): os.remove(path)
sys.exit(code)
PY
}
test "$(ask)" = "no map" || { echo "a map that nobody asked for"; exit 1; }
test "$(TEGULA_CPU_DEBUG=0 ask)" = "no map" || { echo "0 asks for debuggers"; exit 1; }
test -z "$(ls dumps)" || { echo "a dump that nobody asked for"; exit 1; }
TEGULA_CPU_DEBUG=1 ask > map
grep -Eq '^[0-9a-f]+ [1-9a-f][0-9a-f]* spin_up$' map || { echo "not perf's map:"; cat map; exit 1; }

# The file is what Linux' jitdump-specification.txt says: the header, then the kernel's lines before its code.
python3 - <<'PY'
import glob, os, re, struct
(path,) = glob.glob("dumps/*/jit-*.dump")
data = open(path, "rb").read()
magic, version, size, machine, _, pid, _, flags = struct.unpack_from("<IIIIIIQQ", data)
assert (magic, version, size, flags) == (0x4A695444, 1, 40, 0) and path.endswith(f"/jit-{pid}.dump"), path
assert machine in (62, 183) and os.stat(path).st_mode & 0o77 == 0
at, lines, loads, last = size, [], [], 0
while at < len(data):
    kind, size, time = struct.unpack_from("<IIQ", data, at)
    assert time >= last
    last = time
    if kind == 2:
        code, count = struct.unpack_from("<QQ", data, at + 16)
        p = at + 32
        for _ in range(count):
            address, line, _ = struct.unpack_from("<QII", data, p)
            end = data.index(0, p + 16)
            lines.append((address - code, line, data[p + 16:end].decode()))
            p = end + 1
        assert p == at + size
    else:
        assert kind == 0
        owner, _, vma, address, length, number = struct.unpack_from("<IIQQQQ", data, at + 16)
        name = data[at + 56:data.index(0, at + 56)].decode()
        assert owner == pid and vma == address and number == len(loads) and at + size - length == at + 56 + len(name) + 1
        loads.append((name, address, length))
    at += size
assert at == len(data) and [name for name, _, _ in loads] == ["spin_up"] and code == loads[0][1], loads
assert f"{loads[0][1]:x} {loads[0][2]:x} spin_up" in open("map").read()
assert all(0 <= a < loads[0][2] for a, _, _ in lines) and [a for a, _, _ in lines] == sorted(a for a, _, _ in lines)
mine = {line for _, line, file in lines if os.path.basename(file) == "k.tile"}
assert {6, 8, 10} <= mine <= set(range(1, 12)), mine
PY
if command -v perf > /dev/null && TEGULA_CPU_DEBUG=1 perf record -e cpu-clock -k mono -o recorded tegula test k.tile > /dev/null 2>&1; then
    perf inject --jit -i recorded -o injected
    ls dumps/*/jitted-*.so > /dev/null || { echo "perf made nothing of the dump"; exit 1; }
fi
rm -r dumps/*

# Without a place for it there is no dump, and no error.
JITDUMPDIR=$PWD/nowhere TEGULA_CPU_DEBUG=1 ask > map
grep -q spin_up map

# Functions that a kernel calls are in the map, beside it and not in it.
{
    echo 'kernel spin_up(x: tensor<lns<4, 11>>[N], out y: tensor<lns<4, 11>>[N]) grid [1] {'
    echo '    let a = x[0 +: 16]; var t = a;'
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "    t = t + a;"; done
    echo '    y[0 +: 16] = t;'
    echo '}'
    echo 'test "once" { spin_up(ones<lns<4, 11>>[16], empty<lns<4, 11>>[16]); }'
} > lns.tile
mv k.tile kept.tile && mv lns.tile k.tile
TEGULA_CPU_DEBUG=1 ask > map
python3 - <<'PY'
parts = sorted((int(l.split()[0], 16), int(l.split()[1], 16), l.split(None, 2)[2].strip()) for l in open("map"))
names = [name for _, _, name in parts]
assert "spin_up" in names and any(n.startswith("spin_up: add lns<4, 11> x ") for n in names), names
assert all(a + size <= b for (a, size, _), (b, _, _) in zip(parts, parts[1:])), parts
PY
mv kept.tile k.tile

command -v gdb > /dev/null || { echo "no gdb here"; exit 77; }
session() {
    gdb --batch -nx -ex 'set breakpoint pending on' -ex 'set debuginfod enabled off' "$@" --args "$TEGULA" test k.tile > text 2>&1 || true
    rm -f "/tmp/perf-$(sed -n 's/^process \([0-9]*\)$/\1/p' text).map"
    if grep -q 'ptrace: Operation not permitted' text; then echo "gdb may not trace here"; exit 77; fi
}
export TEGULA_CPU_DEBUG=1
session -ex 'break spin_up' -ex run -ex 'info proc' -ex backtrace
grep -Eq '^#0 .*spin_up .*k\.tile:[4-9]' text || { echo "no frame of the kernel:"; cat text; exit 1; }
session -ex 'break k.tile:8' -ex run -ex 'info proc' -ex backtrace
grep -Eq '^#0 .*spin_up .*k\.tile:8' text || { echo "no stop in line 8:"; cat text; exit 1; }
grep -Eq '^#[1-9] .*tegula::cpu' text || { echo "the kernel's caller is not found:"; cat text; exit 1; }
export TEGULA_CPU_DEBUG=0
session -ex 'break spin_up' -ex run -ex backtrace
if grep -q '^#0' text; then echo "a stop that nobody asked for"; cat text; exit 1; fi
