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

# Lines of JSON: each is whole and has the fields of its kind (docs/results.md#progress).
lines() { grep '^{' "$tmp/seen" >"$tmp/lines"; }
n6='[01]\.[0-9]{6}' n3='[0-9]+\.[0-9]{3}' n9='[0-9]+\.[0-9]{9}' whole_number='[0-9]+'
always="\"schema\": \"luoshu.progress/1\", \"verb\": \"[a-z]+\", \"share_ratio\": $n6, \"wall_s\": $n3, \"left_s\": ($n3|null)"
of_run="\"policy\": \"[a-z]+\", \"seed\": $whole_number, \"step\": $whole_number(, \"steps\": $whole_number)?, \"t_s\": $n9(, \"duration_s\": $n9)?, \"events\": $whole_number, \"over\": (true|false)"
counted="\"done\": $whole_number, \"of\": $whole_number, \"unit\": \"[a-z]+\"(, \"at\": \"[a-z ]+\", \"simulated_steps\": $whole_number)?"
whole() { # KEYS..: every line is an object of one of the two kinds, and some have these keys
    local key
    [ -s "$tmp/lines" ] && ! grep -vqE "^\{ $always, ($of_run|$counted) \}\$" "$tmp/lines" || return 1
    for key in "$@"; do grep -q "\"$key\": " "$tmp/lines" || return 1; done
}
over() { [ "$(grep '"over": true' "$tmp/lines" | grep -o '"policy": "[a-z]*", "seed": [0-9]*' | sort -u | wc -l)" = "$1" ]; }
small="$L sim $S/examples/small.yaml --force --plots off --progress json --quiet"
(cd "$tmp" && $small --out small) >"$tmp/out" 2>"$tmp/seen"; lines
check "sim --progress json: lines of runs" whole policy steps
check "sim --progress json: the last of both policies" over 2
(cd "$tmp" && $small --out small --json) >"$tmp/out" 2>"$tmp/seen"; lines
check "sim --progress json --json: lines of runs" whole policy
check "sim --progress json --json: one document" [ "$(grep -c '^{' "$tmp/out")" = 1 ]
(cd "$tmp" && $small --out seeds --seeds 3,5) >"$tmp/out" 2>"$tmp/seen"; lines
check "sim --seeds --progress json: lines of runs and of seeds" whole policy done
check "sim --seeds --progress json: the last of each policy and seed" over 4
(cd "$tmp" && $auto --progress json) >"$tmp/out" 2>"$tmp/seen"; lines
check "plan auto --progress json" whole at simulated_steps
on_terminal "$sim --progress json"
check "sim --progress json on a terminal: no line that is erased" silent

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
