#!/bin/sh
# Runs one libFuzzer target: run.sh PROGRAM WORK_CORPUS SEED_DIRECTORY.. . TEGULA_FUZZ_SECONDS (default 10) is the time; new inputs land in
# WORK_CORPUS, a crashing input in the current directory. Seed directories that do not exist are left out.
set -eu
program=$1 work=$2
shift 2
mkdir -p "$work"
case $program in *array_fuzz | *cache_fuzz) options= ;; *) options=-dict=$(dirname "$0")/tile.dict ;; esac
# These two keep an engine from input to input, which a leak check after each input takes for leaks.
case $program in *check_fuzz | *run_fuzz) options="$options -detect_leaks=0" ;; esac
for seeds; do
    shift
    [ -d "$seeds" ] && set -- "$@" "$seeds"
done
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1
exec "$program" -max_total_time="${TEGULA_FUZZ_SECONDS:-10}" -timeout=25 -rss_limit_mb=2500 -max_len=4096 -print_final_stats=1 -verbosity=0 $options \
    "$work" "$@"
