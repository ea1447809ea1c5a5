#!/usr/bin/env bash
# Each fuzz target for FUZZ_S seconds from FUZZ_SEED (default: one of the clock), one after the other.
# A finding is kept under build/fuzz/findings, does not keep the others from running, and fails.
set -u
seconds=${FUZZ_S:-60} seed=${FUZZ_SEED:-$(date +%s)} found=build/fuzz/findings bad=0 n=0
mkdir -p "$found"
log=$(mktemp); trap 'rm -f "$log"' EXIT
echo "fuzz: $# targets, $seconds s each, FUZZ_SEED=$seed"
for program in "$@"; do
    name=${program##*/} corpus=build/fuzz/corpus/${program##*/} said=ok n=$((n + 1))
    mkdir -p "$corpus"
    "$program" -max_total_time="$seconds" -seed="$seed" -timeout=10 -rss_limit_mb=4096 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="$found/$name-" "$corpus" tests/fuzz/seeds >"$log" 2>&1 ||
        { said=FINDING; bad=$((bad + 1)); grep -E 'ERROR|SUMMARY|Test unit written' "$log"; }
    runs=$(awk '/number_of_executed_units/ {print $2}' "$log")
    printf '%-20s %10s executions %6s a second  %s\n' "$name" "${runs:-?}" "$((${runs:-0} / seconds))" $said
done
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
