# What ptxas says of a kernel, as the host hears it: warnings of launches and images, whether compiled now or cached; tests pass all the
# same. remarks.sh TEGULA, on the GPU that the CPU plays: its log is $TEGULA_ON_CPU_LOG.
tegula=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export TEGULA_CACHE_DIR=$dir/cache
cat > k.tile <<'END'
kernel twice(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, 64)] { y[program_id(0) * 64 +: 64] = x[program_id(0) * 64 +: 64] * 2.0; }
test "two" { let y = empty<f32>[7]; twice(ones<f32>[7], y); twice(ones<f32>[7], y); assert_equal(y, full<f32>[7](2.0)); }
END

fail() { echo "$1"; cat out err; exit 1; }
# expect CODE COUNT PATTERN: a test of k.tile ends with exit code CODE, and COUNT lines of what it says fit the pattern.
expect() {
    code=0
    "$tegula" test --machine cuda k.tile > out 2> err || code=$?
    test $code = "$1" || fail "exit code $code instead of $1"
    test "$(cat out err | grep -c -e "$3")" = "$2" || fail "not $2 times: $3"
}

export TEGULA_ON_CPU_LOG='ptxas info    : Function properties for tegula_twice
    40 bytes stack frame, 136 bytes spill stores, 140 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 16 bytes smem
'
spilled='^warning.T1103.: `twice` does not fit in the registers of sm_90a: each thread stores 136 bytes of them to memory and loads 140$'
expect 0 1 "$spilled"
grep -q 'k.tile:1:8' err || fail "not at the kernel's name"
unset TEGULA_ON_CPU_LOG
expect 0 1 "$spilled"
for stage in cubin resources; do
    rm -rf cache
    for round in compiled cached; do
        TEGULA_ON_CPU_LOG=' 1 bytes stack frame, 0 bytes spill stores, 300 bytes spill loads' "$tegula" dump k.tile twice --emit=$stage > out 2> err
        test "$(grep -c 'T1103.*stores 0 bytes.*loads 300' err)" = 1 || fail "$stage, $round: no warning"
    done
done
grep -q '"kernel":"twice","arch":"sm_90a","threads":[0-9]*,"registers":0,"shared_bytes":[0-9]*,"workspace_bytes":0,"stack_bytes":.*"spill_load_bytes":300}' out ||
    fail "not the resources"

rm -rf cache
export TEGULA_ON_CPU_LOG="ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources \
for the wgmma pipeline in the function 'tegula_twice'
"
serialised='^warning.T1104.: products of `twice` wait for one another on sm_90a: their sums and operands do not fit in registers$'
expect 0 1 "$serialised"
unset TEGULA_ON_CPU_LOG
expect 0 1 "$serialised"
