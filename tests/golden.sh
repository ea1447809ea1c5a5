#!/usr/bin/env bash
# Each tests/golden/NAME.sh against NAME.stdout, NAME.stderr and NAME.exit (0 when absent).
# usage: tests/golden.sh [NAME...]; if none is given, those of GOLDEN: check, check-more (they begin with a line
# `# check-more`), or all of them.
# A test runs in an empty folder with $LUOSHU, $HERE (tests/golden) and $TOP (the repository).
# BLESS=1 rewrites the expectations.
set -u
export TOP=$PWD HERE=$PWD/tests/golden LUOSHU=${LUOSHU:-$PWD/luoshu} LC_ALL=C
n=0; bad=0
check() { # FILE GOT
    if [ -n "${BLESS:-}" ]; then
        if [ -s "$2" ]; then cp "$2" "$1"; else rm -f "$1"; fi
    elif ! diff -u "$( [ -e "$1" ] && echo "$1" || echo /dev/null)" "$2" >"$tmp/diff"; then
        echo "FAIL $name: ${1##*.} differs"; head -n 20 "$tmp/diff"; return 1
    fi
}
for t in "$HERE"/*.sh; do
    [ -e "$t" ] || continue
    name=$(basename "$t" .sh)
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    read -r first <"$t"; part=check; [ "$first" != "# check-more" ] || part=check-more
    [ $# != 0 ] || [ "${GOLDEN:-$part}" = $part ] || continue
    n=$((n + 1))
    tmp=$(mktemp -d); mkdir "$tmp/cwd"
    (cd "$tmp/cwd" && bash "$t" >"$tmp/out" 2>"$tmp/err" </dev/null); rc=$?
    sed -i -e "s|$TOP/||g" "$tmp/out" "$tmp/err"
    echo $rc >"$tmp/rc"; [ $rc = 0 ] && : >"$tmp/rc"
    ok=0
    check "$HERE/$name.stdout" "$tmp/out" || ok=1
    check "$HERE/$name.stderr" "$tmp/err" || ok=1
    check "$HERE/$name.exit" "$tmp/rc" || ok=1
    bad=$((bad + ok)); rm -rf "$tmp"
done
[ $n -gt 0 ] || { echo "no golden test found"; n=1; bad=1; }
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
