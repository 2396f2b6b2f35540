# The command on several machines: totals of tests, what copies took of runs, and what an internal error leaves. command.sh TEGULA SOURCE_DIR, on the
# GPU that the CPU plays.
tegula=$1 tools=$2/tests/cli/bin
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export TEGULA_CACHE_DIR=$dir/cache
cat > k.tile <<'END'
kernel twice<B: int = 64>(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, B)] {
    let n = program_id(0) * B;
    y[n +: B] = x[n +: B] * 2.0;
}
test "two" { let y = empty<f32>[7]; twice(ones<f32>[7], y); assert_equal(y, full<f32>[7](2.0)); }
test "three" { let y = empty<f32>[7]; twice(ones<f32>[7], y); assert(all(y == 2.0) && y[2] == 3.0); }
END
fail() { echo "$1"; cat out err; exit 1; }

# A test that fails on one machine is not run on the next.
"$tegula" test k.tile > out 2> err && fail "a test that fails passed"
tail -3 out | tr '\n' ';' | grep -q '^1 passed, 1 failed;  on cpu: 1 passed, 0 failed;  on cuda: 1 passed, 1 failed;$' || fail "no totals by machine"
grep -q 'note: `y\[2\]` is 2$' err || fail "no values of the assertion"

"$tools/npy" write x.npy f4 2001
"$tegula" run k.tile -a x=@x.npy --out y=y.npy --machine cuda --reps 3 > out 2> err || fail "no run"
grep -q 'copies [0-9.]* ms ([0-9]* % of both)$' out || fail "no share of copies"
"$tegula" --json run k.tile -a x=@x.npy --out y=y.npy --machine cuda --reps 3 > out 2> err || fail "no run"
grep -q '"copy_seconds":[0-9.e-]*[1-9][0-9.e-]*,"copy_share":0\.[0-9]*[1-9]' out || fail "no share of copies as data"
"$tools/schema" run out > err || fail "not of the schema"
"$tegula" --json run k.tile -a x=@x.npy --out y=y.npy --machine cpu > out 2> err || fail "no run"
grep -q '"copy_seconds":0.0,"copy_share":0.0' out || fail "copies on the CPU"

# Without a compiler on PATH the text of a kernel is refused, which is an error of the compiler's own. Its line repeats it.
mkdir bin reports
ln -s "$tegula" bin/tegula
export TEGULA_CACHE_DIR=off TMPDIR=$dir/reports
code=0
(PATH=$dir/bin; tegula run k.tile -a x=@x.npy --out y=y.npy --machine cuda -s B=32) > out 2> err || code=$?
test $code = 70 || fail "exit code $code of an internal error"
again=$(tail -1 err)
for file in args.txt said.txt versions.txt twice.elaborated.ir twice.final.ir 0-k.tile; do
    test -s reports/tegula-error-*/$file || fail "no $file: $(ls reports/*)"
done
code=0
(PATH=$dir/bin; eval "$again") > out 2> err || code=$?
test $code = 70 && grep -q 'error.T1070.: internal error' err || fail "not repeated by: $again"
