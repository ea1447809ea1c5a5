#!/usr/bin/env bash
# CONTRIBUTING's recipes, carried out: each file of tests/recipes adds one thing to a copy of the tree
# by the steps of its row, builds, and shows that the thing is there. A file has
#   row      the words that its row of CONTRIBUTING.md begins with
#   own      files that it changes and no row can name, since they are what this one thing is for
#   programs those of tests/ that `show` runs, beside the ones below
#   steps    what a contributor does, in the copy
#   show     that it is there; $LUOSHU is the copy's program, $tmp an empty folder
# make check-more: all of them in one copy; make check-all (LUO_SCALE): each alone too.
# usage: tests/recipes.sh [NAME...]
set -u
B=${B:-build/release}
top=$PWD; all=$(mktemp -d); trap 'rm -rf "$all"' EXIT
n=0; bad=0

check() { # SENTENCE COMMAND...
    local what=$1; shift
    n=$((n + 1))
    "$@" >"$all/said" 2>&1 || { bad=$((bad + 1)); echo "FAIL $what: $(tail -n 25 "$all/said")"; return 1; }
}
# Text of stdin before or behind the one line of FILE that has these words.
insert() { # before|after FILE WORDS
    awk -v how="$1" -v words="$3" -v text="$(cat)" '
        index($0, words) { hits++; print how == "before" ? text "\n" $0 : $0 "\n" text; next } { print }
        END { exit hits != 1 }' "$2" >"$2.new" && cat "$2.new" >"$2" && rm "$2.new" ||
        { echo "$2 has not one line with: $3"; return 1; }
}
# Tracked and new files, with the objects made from them: only what a recipe touches is made again.
copy_tree() { # DIR
    mkdir -p "$1/$B"
    (cd "$top" && git ls-files -co --exclude-standard | grep -vE '^tests/(gpu|torch)/' |
        xargs ls -d 2>/dev/null | tar -cf - -T -) | tar -xf - -C "$1" &&
        (cd "$top/$B" && cp -a core cli sim exec gen *.a "$1/$B/")
}
# What is shown needs no speed; of cuda what recipes touch, as the stand-in compiles it.
build() {
    make --no-print-directory CI=1 NVCC= OPT=-O0 TEST_OPT=-O0 -j2 "$B/luoshu" "$B/luoshu-rank" \
        "$B/tests/unit/check_"{rundir,docs,driver,policies,graph} "$B/tests/exec/check_gradients" \
        "$B/standin/exec/cuda/ops.o" "$B/standin/exec/cuda/calibrate/calibrate_comm.o" $needed
}

in_tree() { (cd "$1" && LUOSHU=$1/$B/luoshu && "$2"); } # DIR FUNCTION

# What the recipe changed stands in its row of CONTRIBUTING.md.
named() { # NAME DIR ROW
    local text bad=0 f
    text=$(grep -F "| $3" "$top/CONTRIBUTING.md") || { echo "CONTRIBUTING.md has no row \`$3\`"; return 1; }
    for f in $(cd "$2" && find core sim exec cli docs plots scenarios tests -newer "$2/.before" -type f ! -path '*/build/*'); do
        [ -e "$top/$f" ] && [[ " $own " != *" $f "* ]] || continue # a file of its own
        grep -qF "$(basename "$f")" <<<"$text" || { echo "$f is changed, and not in the row \`$3\`"; bad=1; }
    done
    return $bad
}
read_recipe() { # NAME
    own= programs=()
    . "$top/tests/recipes/$1.sh"
}
apply() { # NAME DIR
    read_recipe "$1"
    needed+=" ${programs[*]/#/$B/tests/}"
    touch "$2/.before"
    check "$1: its steps" in_tree "$2" steps && check "$1: its row" named "$1" "$2" "$row"
}
shown() { # NAME DIR
    read_recipe "$1"
    tmp=$(mktemp -d -p "$all")
    check "$1: shown" in_tree "$2" show
}

# Files that CONTRIBUTING.md names, by path or, where there is one of the name, by it alone.
exist() {
    local f bad=0
    for f in $(grep -oE '`[A-Za-z0-9_./-]+\.(c|h|inc|md|gp|sh|mk|yaml)`' CONTRIBUTING.md | tr -d '`' | sort -u); do
        [ -e "$f" ] || git ls-files | grep -q "/${f//./\\.}\$" || { echo "there is no $f"; bad=1; }
    done
    return $bad
}
# A row that adds something is a recipe, and the other way round.
complete() {
    diff <(grep -oE '^\| add [^|]*[^| ]' CONTRIBUTING.md | sed 's/^| //' | sort) \
        <(sed -n "s/^row='\(.*\)'$/\1/p" tests/recipes/*.sh | sort) |
        sed -n -e 's/^< \(.*\)/no recipe for the row `\1`/p' -e 's/^> \(.*\)/no row for the recipe `\1`/p' | { ! grep .; }
}
if [ $# = 0 ]; then
    check "files that CONTRIBUTING.md names" exist
    check "rows of CONTRIBUTING.md that add something" complete
fi

names=${*:-$(cd tests/recipes && ls *.sh | sed 's/\.sh$//')}
copy_tree "$all/tree"; touch "$all/tree/.copied"
needed=
for name in $names; do apply "$name" "$all/tree"; done
# What make check asks of names, pages and texts: of the tree with all of them.
house() {
    local bad=0 f
    for f in "$B"/tests/unit/check_{rundir,docs,driver,policies,graph}; do "$f" || bad=1; done
    tests/golden.sh meant usage_verbs || bad=1
    f=$(find . -name '*.[ch]' -newer .copied -not -path './build/*' -exec awk 'length($0) > 100 {print FILENAME ":" FNR ": over 100 columns"}' {} +)
    [ -z "$f" ] || { echo "$f"; bad=1; }
    return $bad
}
if check "all: build" in_tree "$all/tree" build; then
    check "all: checks that go by names" in_tree "$all/tree" house
    for name in $names; do shown "$name" "$all/tree"; done
fi
if [ "${LUO_SCALE:-1}" != 1 ]; then
    for name in $names; do
        rm -rf "$all/tree"; copy_tree "$all/tree"
        needed=
        apply "$name" "$all/tree"
        check "$name alone: build" in_tree "$all/tree" build && shown "$name" "$all/tree"
    done
fi
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
