#!/usr/bin/env bash
# Every command of README.md and docs/ in a ```console block (lines starting "$ ") and every example of the
# help runs with exit 0; what is printed begins with the lines under the command, if any are given.
# Lines with `make` are CI's own and are left out. Without LUO_SCALE the demo's day is cut, nothing
# is calibrated twice, and what takes seconds is asked for less (lighter).
set -u
export LUOSHU=${LUOSHU:-$PWD/luoshu}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/cwd"; ln -s "$PWD/scenarios" "$PWD/traces" "$PWD/plots" "$tmp/cwd/"
ln -s "$LUOSHU" "$tmp/luoshu"; export PATH=$tmp:$PATH
n=0; bad=0
# Without LUO_SCALE the demo measures this machine by two networks, as calibrate.sh does.
if [ "${LUO_SCALE:-1}" = 1 ]; then
    printf '#!/bin/bash\ncase " $* " in *" --calibrate "*) set -- "$@" --networks 2 ;; esac\nexec %s "$@"\n' \
        "$(command -v mpirun)" >"$tmp/mpirun"
    chmod +x "$tmp/mpirun"
fi
lighter() { # COMMAND: what of it is run without LUO_SCALE; figures are drawn by the demo and `plot`
    case $1 in
    "luoshu demo --force") echo "$1 --duration-s 5600" ;;
    "luoshu calibrate --ranks 2 --quick "*) ;; # the demo calibrates, and calibrate.sh
    # seconds of simulated plans, which the example of the help has too
    "luoshu plan malleus "*" --out mixed.json "*) echo "$1 --rank objective" ;;
    "luoshu sim scenarios/papers/"*" --policies equal,published "*) echo "${1/equal,published/published}" ;;
    # real.sh has all steps of both
    "luoshu sim scenarios/host/same.yaml "* | "luoshu run scenarios/host/same.yaml "*) echo "$1 --plots off --steps 4" ;;
    "luoshu run scenarios/examples/small.yaml "*) echo "$1 --plots off --steps 12" ;;
    *"--plots "*) echo "$1" ;;
    "luoshu embed het "*".opts)"*) echo "$1 --iterations 50" ;; # a minute of settings of papers
    "luoshu embed gmp "*".opts)"*) echo "$1 --rounds 1 --iterations 5" ;;
    "luoshu sim --"* | "luoshu run --"*) echo "$1" ;; # without a file no figure is drawn
    "luoshu sim "* | "luoshu run "* | "luoshu sweep "*) echo "$1 --plots off" ;;
    *) echo "$1" ;;
    esac
}
run() { # COMMAND LINES, joined by \036
    if [ "${LUO_SCALE:-1}" = 1 ]; then
        set -- "$(lighter "$1")" "$2"
        [ -n "$1" ] || return
    fi
    n=$((n + 1))
    (cd "$tmp/cwd" && bash -c "$1" >"$tmp/out" 2>"$tmp/err" </dev/null); local rc=$?
    if [ $rc != 0 ]; then
        echo "FAIL exit $rc: $1"; head -n 5 "$tmp/err"; bad=$((bad + 1))
    elif [ -n "$2" ] && tr '\036' '\n' <<<"$2" >"$tmp/want" &&
        ! head -n "$(wc -l <"$tmp/want")" "$tmp/out" | diff "$tmp/want" - >"$tmp/diff"; then
        echo "FAIL output: $1"; head -n 10 "$tmp/diff"; bad=$((bad + 1))
    fi
}
while IFS=$'\t' read -r cmd lines; do run "$cmd" "$lines"; done < <(
    awk 'function flush() { if (c != "") print c "\t" out; c = out = "" }
         /^```console/{on=1; next} /^```/{flush(); on=0}
         on && /^\$ /{flush(); c=substr($0, 3); next}
         on && c != ""{out = out (out == "" ? "" : "\036") $0}' README.md docs/*.md |
    grep -vE '^(make|git|cd|sudo) ')
for verb in $("$LUOSHU" help | awk '/^  [a-z]/{print $1}'); do
    while read -r cmd; do run "$cmd" ""; done < <("$LUOSHU" help "$verb" |
        awk '/^examples:/{on=1; next} /^$/{on=0} on{sub(/^ +/, ""); print}')
done
n=$((n + 1)) # mpirun is there, so the demo's part for real was no matter of a warning
grep -q '"state": "complete"' "$tmp/cwd/luoshu-demo/real/host/static/manifest.json" &&
    [ "$(wc -l <"$tmp/cwd/luoshu-demo/real/compare_steps.csv")" = 13 ] &&
    [ -s "$tmp/cwd/luoshu-demo/real/plots/predicted.svg" ] || { echo "FAIL the demo's part for real"; bad=$((bad + 1)); }
echo "$((100 * (n - bad) / (n ? n : 1)))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ] && [ $n -gt 0 ]
