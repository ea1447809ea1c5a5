#!/usr/bin/env bash
# Every command of README.md and docs/ in a ```console block (lines starting "$ ") and every example of the
# help runs with exit 0; the first line printed equals the one under the command, if one is given.
# Lines with `make` are CI's own and are left out.
set -u
export LUOSHU=${LUOSHU:-$PWD/luoshu}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/cwd"; ln -s "$PWD/scenarios" "$PWD/traces" "$PWD/plots" "$tmp/cwd/"
ln -s "$LUOSHU" "$tmp/luoshu"; export PATH=$tmp:$PATH
n=0; bad=0
run() { # COMMAND FIRST_LINE
    n=$((n + 1))
    (cd "$tmp/cwd" && bash -c "$1" >"$tmp/out" 2>"$tmp/err" </dev/null); local rc=$?
    if [ $rc != 0 ]; then
        echo "FAIL exit $rc: $1"; head -n 5 "$tmp/err"; bad=$((bad + 1))
    elif [ -n "$2" ] && [ "$(head -n 1 "$tmp/out")" != "$2" ]; then
        echo "FAIL first line: $1"; echo "  want $2"; echo "  got  $(head -n 1 "$tmp/out")"
        bad=$((bad + 1))
    fi
}
while IFS=$'\t' read -r cmd first; do run "$cmd" "$first"; done < <(
    awk '/^```console/{on=1; next} /^```/{if (c != "") print c "\t"; c=""; on=0}
         on && /^\$ /{if (c != "") print c "\t"; c=substr($0, 3); next}
         on && c != ""{print c "\t" $0; c=""}' README.md docs/*.md |
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
