#!/usr/bin/env bash
# The line of progress of verbs that take long: how much is done and the time that is left, on a terminal alone, erased at
# the end. A terminal is made by script(1).
# usage: tests/progress.sh
set -u
L=${LUOSHU:-$PWD/luoshu} S=$PWD/scenarios
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
check() { # SENTENCE COMMAND...
    local what=$1; shift
    n=$((n + 1))
    "$@" || { bad=$((bad + 1)); echo "FAIL $what"; tail -c 600 "$tmp/seen"; }
}
if ! command -v script >/dev/null; then echo "skipped: no script(1), from bsdutils"; exit 77; fi
on_terminal() { (cd "$tmp" && TERM=${term:-xterm} script -qec "$*" /dev/null) </dev/null >"$tmp/seen" 2>&1; } # each line as it was drawn
drawn() { tr '\r' '\n' <"$tmp/seen" | sed 's/\x1b\[K//g' | grep -qE "$1"; }
silent() { ! grep -q $'\x1b\[K' "$tmp/seen"; }
# Every line that was drawn was erased before anything else came: behind the last one there is only what erases it.
erased() { tr '\r' '\n' <"$tmp/seen" | awk '/ eta | parts |measurements/ {last = NR} END {exit !(last && last < NR)}'; }

sed -e 's/steps: 30/duration_s: 1500/' -e "s|\.\./|$S/|" -e '/^events:/d' -e '/id: slow/d' -e '/name: restart/d' \
    "$S/examples/small.yaml" >"$tmp/long.yaml"
sim="$L sim long.yaml --out run --force --plots off --trace-steps none"
on_terminal "$sim"
check "sim by duration: how far, and what is left" drawn '^static  step [0-9]+  t [0-9]+/1500 s  [0-9]+x real time  0 events  eta 0:0[0-9]$'
check "sim: erased" erased
on_terminal "$sim --quiet"; check "sim --quiet: nothing" silent
term=dumb on_terminal "$sim"; check "sim on a dumb terminal: nothing" silent
on_terminal "$sim --json >json"; check "sim --json: nothing" silent

auto="$L plan auto --model $S/models/llama-7b.yaml --cluster $S/clusters/h20-24.yaml --force"
on_terminal "$auto"
check "plan auto: planner, parts, steps" drawn '^auto  [a-z ]+, [0-9]/5 parts  [0-9]+ simulated steps'
check "plan auto: erased" erased
(cd "$tmp" && $auto) >"$tmp/out" 2>"$tmp/seen"; check "plan auto into a file: nothing" silent

# Four published rows: the header and one row of each of some sizes.
mkdir -p "$tmp/data/suites"
grep -v '^#' "$S/papers/measured/suites/korthikanti.csv" | head -n 5 >"$tmp/data/suites/korthikanti.csv"
on_terminal "$L validate all --data data"
check "validate: rows" drawn '^validate  [0-9]/4 rows  [0-9]+ %'
check "validate: what is left" drawn '^validate  [1-3]/4 rows  [0-9]+ %  eta [0-9]+:[0-9][0-9]$'

on_terminal "$L calibrate --quick --ranks 1 --out measured"
check "calibrate: measurements" drawn '^calibrate  1 rank  0/1 measurements  0 %$'
check "calibrate: erased" erased

echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
