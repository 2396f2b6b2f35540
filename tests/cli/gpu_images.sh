# Binary stages of the compiler, where NVRTC is: cubin, PTX, and machine code through nvdisasm (a stand-in for it, and none at all).
cat > k.tile <<'END'
kernel twice(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, 64)] { y[program_id(0) * 64 +: 64] = x[program_id(0) * 64 +: 64] * 2.0; }
END
tegula doctor | grep -q 'NVRTC .*: found' || { echo "no NVRTC here"; exit 77; }
for stage in cubin cubin@sm_80 cubin@sm_120a; do
    tegula dump k.tile twice --emit=$stage > image
    test "$(head -c 4 image | od -An -tx1 | tr -d ' \n')" = 7f454c46 || { echo "$stage is no ELF file"; exit 1; }
done
tegula dump k.tile twice --emit=ptx > text
[ "$(tail -c 1 text | tr '\0' 0)" = "" ] || { echo "PTX does not end in a newline"; exit 1; }
grep -q '^\.target sm_90a' text && grep -q '\.entry tegula_twice' text || { echo "not the PTX of the kernel:"; head -20 text; exit 1; }
tegula dump k.tile twice --emit=ptx@sm_80 | grep -q '^\.target sm_80'

# A cache that cannot be used is a warning, once, and the kernel is compiled all the same.
touch plain
TEGULA_CACHE_DIR=$PWD/plain tegula dump k.tile twice --emit=cubin > image2 2> err
tegula dump k.tile twice --emit=cubin | cmp - image2
test "$(grep -c 'warning\[T1044\]: the cache in .*plain is not used: it is no directory' err)" = 1 || { echo "no warning:"; cat err; exit 1; }

# What ptxas reports: spilled registers are a warning, whether the kernel is compiled or found in the cache, and `resources` shows the figures.
cat > wide.tile <<'END'
kernel wide(x: tensor<f32>[N], y: tensor<f32>[N], out z: tensor<f32>[N]) grid [cdiv(N, 4096)] @ warps(1) {
    let n = program_id(0) * 4096;
    let (a, b) = (x[n +: 4096], y[n +: 4096]);
    z[n +: 4096] = a * (sum(a) * sum(b)) + b;
}
END
export TEGULA_CACHE_DIR=$PWD/cache
for stage in cubin cubin resources resources; do
    tegula dump wide.tile wide --emit=$stage > out 2> err
    test "$(grep -c '^warning.T1103.: `wide` does not fit in the registers of sm_90a: each thread stores [1-9][0-9]* bytes' err)" = 1 &&
        grep -q 'wide.tile:1:8' err || { echo "$stage: no warning of spilled registers:"; cat err; exit 1; }
done
grep -q '^{"schema":1,"kernel":"wide","arch":"sm_90a","threads":32,"registers":[12][0-9]*,"shared_bytes":[0-9]*,"workspace_bytes":0,"stack_bytes":[1-9][0-9]*,"spill_store_bytes":[1-9][0-9]*,"spill_load_bytes":[1-9][0-9]*}$' out || { echo "not the resources:"; cat out; exit 1; }
tegula --json dump wide.tile wide --emit=resources | grep -q '"level":"warning","code":"T1103"' || { echo "no warning in JSON"; exit 1; }
tegula dump k.tile twice --emit=resources@sm_80 2> err | grep -q '"arch":"sm_80","threads":[0-9]*,"registers":[1-9].*"spill_load_bytes":0}' || exit 1
test ! -s err || { echo "a warning about a kernel that does not spill:"; cat err; exit 1; }

# sass: nvdisasm gets the image as a file of its own, which does not stay.
mkdir tools scratch_files
cat > tools/nvdisasm <<'END'
#!/bin/sh
test "$1" = --print-code && cmp -s "$2" expected && echo "code of $(stat -c %a "$2")"
END
chmod +x tools/nvdisasm
tegula dump k.tile twice --emit=cubin@sm_80 > expected
test "$(PATH=$PWD/tools:$PATH TMPDIR=$PWD/scratch_files tegula dump k.tile twice --emit=sass@sm_80)" = "code of 600"
test -z "$(ls scratch_files)" || { echo "a file stayed"; exit 1; }

code=0
PATH=/nonexistent "$TEGULA" dump k.tile twice --emit=sass > out 2> err || code=$?
test $code = 4 && grep -q 'nvdisasm (of the CUDA toolkit) is not on PATH' err || { echo "without nvdisasm: exit code $code"; cat err; exit 1; }
printf '#!/bin/sh\nexit 3\n' > tools/nvdisasm
code=0
PATH=$PWD/tools:$PATH tegula dump k.tile twice --emit=sass > out 2> err || code=$?
test $code = 4 && grep -q 'nvdisasm failed' err || { echo "nvdisasm fails: exit code $code"; exit 1; }
