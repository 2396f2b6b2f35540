#!/bin/sh
# Everything that needs a GPU, with the programs of build/gpu. One summary line per suite, details in the report directory.
#   tests/gpu/run.sh [--report DIR] [--jobs N] [--programs N] [SUITE]..     suites: machine tests passes formats matmul device cache fuzz repeat sanitize; default all
set -u
cd "$(dirname "$0")/../.."
report=build/gpu-report jobs=$(nproc) programs=5000 suites=
while [ $# -gt 0 ]; do
    case $1 in
        --report) report=$2; shift 2 ;;
        --jobs) jobs=$2; shift 2 ;;
        --programs) programs=$2; shift 2 ;;
        *) suites="$suites $1"; shift ;;
    esac
done
[ -n "$suites" ] || suites="machine tests passes formats matmul device cache fuzz repeat sanitize"
bin=build/gpu
mkdir -p "$report"
export TEGULA_CACHE_DIR="${TEGULA_CACHE_DIR:-/tmp/tegula-gpu-cache}"
files=$(grep -l "^test " examples/*.tile tests/run/*.tile stdlib/*.tile tests/gpu/meetings.tile)
bad=0

# each NAME COMMAND..: runs the command once per file, $f in it; counts the files that failed.
each() {
    name=$1
    rm -f "$report/$name.failed" "$report/$name".*.log
    shift
    printf '%s\n' $files | xargs -P "$jobs" -I{} sh -c "f={}; log=$report/$name.\$(basename \$f).log; $* >\$log 2>&1 || echo \$f >>$report/$name.failed"
    failed=0
    [ -s "$report/$name.failed" ] && failed=$(wc -l <"$report/$name.failed") && bad=1
    passed=$(cat "$report/$name".*.log | sed -n 's/^\([0-9]*\) passed, .*/\1/p' | awk '{s += $1} END {print s + 0}')
    wrong=$(cat "$report/$name".*.log | sed -n 's/^[0-9]* passed, \([0-9]*\) failed/\1/p' | awk '{s += $1} END {print s + 0}')
    echo "gpu.$name: $passed passed, $wrong failed; files with failures: $failed $(tr '\n' ' ' 2>/dev/null <"$report/$name.failed" | cut -c1-600)"
}

# counted NAME SECONDS COMMAND..: runs a program that counts its cases; says what it skipped, too.
counted() {
    name=$1 limit=$2
    shift 2
    timeout "$limit" "$@" >"$report/$name.log" 2>&1 || bad=1
    count() { sed -n "$1" "$report/$name.log" | awk '{s += $1} END {print s + 0}'; }
    passed=$(count 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p; s/^\([0-9]*\) passed, .*/\1/p')
    wrong=$(count 's/^ *\([0-9]*\) FAILED TEST.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed/\1/p')
    echo "gpu.$name: $passed passed, $wrong failed$(sed -n 's/^\[  SKIPPED \] \([A-Za-z][^ ]*\)$/; skipped: \1/p' "$report/$name.log" | sort -u | tr -d '\n')"
}

for suite in $suites; do
    rm -f "$report/$suite.failed" "$report/$suite".*.log
    case $suite in
        machine) $bin/tegula doctor | sed -n '/cuda/,$p' | head -3 ;;
        tests) each tests "timeout 280 $bin/tegula test --machine cuda \$f" ;;
        passes)
            each passes "timeout 280 $bin/tegula test --machine cuda --disable-passes all \$f"
            lowering=$(sed -n 's/^KERNEL_PASS(\([a-z_]*\),.*/\1/p' lower/kernel/passes.def)
            each lowering "timeout 280 $bin/tegula test --machine cuda --disable-passes $(echo $lowering | tr ' ' ,) \$f"
            for pass in ${TEGULA_LONG:+$lowering}; do each "$pass" "timeout 280 $bin/tegula test --machine cuda --disable-passes $pass \$f"; done
            ;;
        formats)
            counted formats 300 $bin/tegula --import-root . test --machine cuda tests/gpu/formats.tile
            if [ -n "${TEGULA_LONG:-}" ]; then  # 20 minutes of a processor per format or family of functions
                sed -n 's/^test "\(.*\), all of it".*/\1/p' tests/gpu/formats_f32.tile tests/gpu/functions_f32.tile | xargs -d '\n' -P "$jobs" -I{} sh -c "
                    $bin/tegula --import-root . test --machine cuda --filter '{},' tests/gpu/formats_f32.tile tests/gpu/functions_f32.tile \
                        >'$report/formats_f32.{}.log' 2>&1 || echo {} >>$report/formats.failed"
                echo "gpu.formats: all of f32: $(cat "$report"/formats_f32.*log | grep -c '^ok') passed, failed: $(cat "$report/formats.failed" 2>/dev/null | tr '\n' ' ')"
                [ -s "$report/formats.failed" ] && bad=1
            fi
            ;;
        matmul) counted matmul 900 $bin/tegula test --machine cuda tests/gpu/matmul_grid.tile ;;
        device) counted device 300 $bin/device_test ;;
        cache) counted cache 900 $bin/cache_engines_test ;;
        fuzz)
            # Several times what they take.
            timeout $((100 + programs / 10)) $bin/diff_fuzz --machine cuda --seeds 0:$programs --jobs "$jobs" --out "$report" >"$report/fuzz.log" 2>&1 || bad=1
            echo "gpu.fuzz: $(tail -1 "$report/fuzz.log")"
            constants=sample
            [ -z "${TEGULA_LONG:-}" ] || constants=all
            timeout 1800 $bin/diff_fuzz --machine cuda --constants $constants --jobs "$jobs" --out "$report" >"$report/constants.log" 2>&1 || bad=1
            echo "gpu.constants: $(tail -1 "$report/constants.log")"
            ;;
        repeat)
            $bin/gpu_repeat --launches 1000 --dir . >"$report/repeat.log" 2>&1 || bad=1
            echo "gpu.repeat: $(grep -c '^ok' "$report/repeat.log") ok, $(grep -c '^FAIL' "$report/repeat.log") failed; $(grep -h -e ^enqueue -e '^compile matmul' "$report/repeat.log" | tr '\n' ' ')"
            ;;
        sanitize)
            for tool in memcheck racecheck synccheck initcheck; do
                rm -f "$report/$tool".*
                list=$(grep -l "^test " examples/*.tile)
                [ $tool = memcheck ] && list=$(grep -l "^test " examples/*.tile tests/run/*.tile)  # odd extents, which examples have few of
                printf '%s\n' $list | xargs -P "$jobs" -I{} sh -c "log=$report/$tool.\$(basename {}).log
                    timeout 250 compute-sanitizer --tool $tool --error-exitcode 9 $bin/tegula test --machine cuda {} >\$log 2>&1
                    grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' \$log || echo {} >>$report/$tool.failed"
                n=$(printf '%s\n' $list | wc -l) failed=0
                [ -s "$report/$tool.failed" ] && failed=$(wc -l <"$report/$tool.failed") && bad=1
                echo "gpu.$tool: $((n - failed)) of $n files clean $(tr '\n' ' ' 2>/dev/null <"$report/$tool.failed")"
            done
            ;;
    esac
done
exit $bad
