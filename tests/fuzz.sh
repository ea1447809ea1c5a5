#!/usr/bin/env bash
# Each fuzz target for FUZZ_S seconds from FUZZ_SEED (default: one of the clock), one after the other.
# A finding is kept under build/fuzz/findings, does not keep the others from running, and fails.
set -u
seconds=${FUZZ_S:-60} seed=${FUZZ_SEED:-$(date +%s)} found=build/fuzz/findings bad=0 n=0
mkdir -p "$found"
log=$(mktemp) used=$(mktemp); trap 'rm -f "$log" "$used"' EXIT
TIMEFORMAT='%U %S'
echo "fuzz: $# targets, $seconds s each, FUZZ_SEED=$seed"
for program in "$@"; do
    name=${program##*/} corpus=build/fuzz/corpus/${program##*/} said=ok n=$((n + 1))
    mkdir -p "$corpus"
    { time "$program" -max_total_time="$seconds" -seed="$seed" -timeout=10 -rss_limit_mb=4096 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="$found/$name-" "$corpus" tests/fuzz/seeds >"$log" 2>&1; } 2>"$used" ||
        { said=FINDING; bad=$((bad + 1)); grep -E 'ERROR|SUMMARY|Test unit written' "$log"; }
    runs=$(awk '/number_of_executed_units/ {print $2}' "$log")
    printf '%-20s %10s executions %6.0f a second of a core  %s\n' "$name" "${runs:-?}" \
        "$(tail -n 1 "$used" | awk -v n="${runs:-0}" '{print n / ($1 + $2 + 0.001)}')" $said
done
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
