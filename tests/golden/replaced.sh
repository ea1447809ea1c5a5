# --force: whatever fails, a folder is as it was before; what does not fail replaces all that luoshu wrote there, of
# whichever kind, and nothing else.
S=$TOP/scenarios
some="--workers 4 --compute-s 1 --sync-s 0.1 --horizon-s 9 --quiet"
many="--workers 100 --compute-s 1e-9 --sync-s 0 --horizon-s 1 --limit iterations=500 --quiet"
content() { (cd "$1" && find . -type f | sort | xargs -r cksum); }
kept() { # WHAT command..: DIR d is as before
    content d >before; shift; "$@"; echo "exit $?"; content d | diff before - && [ ! -e d/.old ] && echo "as before"
}
files() { (cd "$1" && ls -A | tr '\n' ' '); echo; }
sim() { "$LUOSHU" sim "$@" --force >/dev/null; }
sync() { "$LUOSHU" sync "$@" --force >/dev/null; }
embed() { "$LUOSHU" embed "$@" --force >/dev/null; }
moe() { "$LUOSHU" moe "$@" --force >/dev/null; }
printf '5,6\n' >single.csv; printf '0,2\n1,3\n' >keys.csv
sync bsp $some --out d; echo mine >d/notes.txt; files d
kept "over the limit" sync asp $many --out d
kept "one sample" embed gmp --data single.csv --workers 2 --out d
sync asp $many --out new; [ -e new ] || echo "no folder"
embed gmp --data keys.csv --workers 2 --out d; files d
# Over each other.
small="$S/examples/small.yaml --plots off --quiet"
sim $small --policies static --out d; files d; "$LUOSHU" compare d --out cmp --json 2>/dev/null | grep -c '"run": "static"'
sync bsp $some --out d; files d
sim $small --policies static --seeds 1-2 --out d; files d
sim $small --policies static --seeds 2 --out d; files d
moe exchange --cluster $S/clusters/a100-64.yaml --nodes 4 --plots off --out d; files d
sim $small --policies static --out d; files d
# Names of ours, and not ours.
mkdir e; echo street,cars >e/traffic.csv
embed gmp --data keys.csv --workers 2 --out e; echo "exit $?"; cat e/traffic.csv; files e
sim $small --policies static --out e; files e
sync bsp $some --out d/static; echo "exit $?"; files d/static
