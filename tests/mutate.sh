#!/usr/bin/env bash
# Do the tests notice? MUTANTS (200) mutants of one token of core, sim and exec/host, drawn from LUO_SEED (1) on
# (tests/mutate.awk); prints the share that a test noticed and every mutant that none did, for a person to judge: the
# tool cannot know which of them do what the code did before. usage: tests/mutate.sh [DRAWN], a file of lines as
# tests/mutate.awk prints them instead of a draw.
# A mutant that does not compile, or into the same machine code, is replaced by the next one drawn. Tested are programs
# of tests/unit, prop, diff, backend, exec and mpi and the command lines of tests/golden, calibrate.sh, validate.sh and
# training.sh, those alone that run the line (gcov, in one run of each before), the quick ones first, until one fails,
# ends by a signal or takes too long.
# Everything happens in a copy of the tree in build/mutate that goes afterwards (MUTATE_KEEP=1: stays). As root the copy
# and /tmp are all that mutants can write, and their processes are alone; else files that kill or remove are left out.
set -u
export LC_ALL=C
seed=${LUO_SEED:-1} most=${MUTANTS:-200} jobs=${LUO_JOBS:-2}
work=$PWD/build/mutate drawn=${1:-}
[ -z "$drawn" ] || drawn=$(realpath "$drawn")
if [ -z "${MUTATE_INSIDE:-}" ]; then
    mkdir -p "$work"
    export MUTATE_INSIDE=open
    if [ "$(id -u)" = 0 ] && unshare -mpf --mount-proc true 2>/dev/null; then
        export MUTATE_INSIDE=closed
        exec unshare -mpf --mount-proc --kill-child "$0" ${drawn:+"$drawn"}
    fi
fi
unset LUO_SEED # it is of the draw; tests have their own cases, those of `make check`
# ---- the copy, and what is drawn ----
tree=$work/tree
rm -rf "$work"/*; mkdir -p "$tree" "$work/objects"
git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' f; do [ -e "$f" ] && printf '%s\0' "$f"; done |
    tar -c --null -T - | tar -x -C "$tree"
echo "$(git describe --always --dirty 2>/dev/null)" >"$work/commit"
[ -z "$drawn" ] || cp "$drawn" "$work/drawn"
cd "$tree"
if [ $MUTATE_INSIDE = closed ]; then
    # The new /tmp is filled before it is moved there: the copy may lie in the old one.
    mount --make-rprivate / && mount --bind "$work" "$work" && mount -t tmpfs none /mnt &&
        case $work in /tmp/*) mkdir -p "/mnt/${work#/tmp/}" && mount --bind "$work" "/mnt/${work#/tmp/}" ;; esac &&
        mount --move /mnt /tmp && mount -o remount,bind,ro / ||
        { echo "mutate: the copy cannot be closed off"; exit 1; }
    cd "$tree"
fi
mapfile -t files < <(find core sim exec/host -name '*.c' -o -name '*.inc' | sort)
if [ $MUTATE_INSIDE = open ]; then
    mapfile -t files < <(grep -LE '\b(kill|killpg|unlink|unlinkat|rmdir|remove|nftw|rename)\(' "${files[@]}")
    echo "mutate: not root: files that kill or remove are left out"
fi
[ -n "$drawn" ] || awk -v seed="$seed" -v most=$((3 * most)) -f tests/mutate.awk "${files[@]}" >"$work/drawn" 2>"$work/places"
echo "LUO_SEED=$seed MUTANTS=$most, of $(cat "$work/places" 2>/dev/null || echo "a file of $(wc -l <"$work/drawn") places")"

# ---- built once; the commands that make objects and programs are kept ----
build=build/release
commands=$work/commands
targets() { # all that can notice, and the two programs that command lines start
    printf '%s\n' tests/unit/*.c tests/prop/*.c tests/diff/*.c tests/backend/*.c tests/exec/*.c tests/mpi/*.c |
        sed "s|^tests/\(.*\)\.c$|$build/tests/\1|"
    echo $build/luoshu $build/luoshu-rank
}
# The simulator is linked into the command, so that objects of it can be exchanged there.
CI= make V=1 -j "$jobs" NVCC= SIM_INSIDE=1 $(targets) >"$commands" 2>"$work/log" || { tail -n 20 "$work/log"; echo "mutate: it does not build"; exit 1; }
sed -i -e ':a' -e '/\\$/{N; s/\\\n//; ta' -e '}' "$commands" # one line each
find $build/core $build/sim $build/exec -name '*.d' -exec awk 'FNR == 1 {o = $1; sub(/:$/, "", o)}
    {for (i = 1; i <= NF; i++) if ($i ~ /\.(c|inc)$/) print $i, o}' {} + >"$work/sources"
objects_of() { awk -v f="$1" '$1 == f {print $2}' "$work/sources"; } # SOURCE: what it is compiled into
compile() { # OBJECT OUT [more flags]: with the command that made it
    local line; line=$(grep -m 1 -E -- " -c .* -o $1\$" "$commands") || return 1
    mkdir -p "$(dirname "$2")"
    ${line% -o *} -w "${@:3}" -o "$2" 2>>"$work/log"
}
apply() { # FILE LINE COLUMN TOKEN OTHER: in place
    awk -v l="$2" -v c="$3" -v t="$4" -v o="$5" 'NR == l {
        if (substr($0, c, length(t)) != t) exit 1
        $0 = substr($0, 1, c - 1) o substr($0, c + length(t))} {print}' "$1" >"$work/mutant" && cp "$work/mutant" "$1"
}
code_of() { objcopy --strip-debug -O elf64-little "$1" "$2" 2>/dev/null || objcopy --strip-debug "$1" "$2"; }

# ---- the first so many that compile into something else ----
valid=0
: >"$work/mutants"
while IFS=$'\t' read -r file line column token other <&3; do
    [ $valid -lt "$most" ] || break
    cp "$file" "$work/original"
    good=0
    apply "$file" "$line" "$column" "$token" "$other" || { echo "mutate: $file:$line has no \`$token\` in column $column"; continue; }
    for o in $(objects_of "$file"); do
        m=$work/objects/$valid/$o
        compile "$o" "$m" || { good=0; break; }
        code_of "$m" "$work/a"; code_of "$o" "$work/b"
        cmp -s "$work/a" "$work/b" || good=1
    done
    cp "$work/original" "$file"
    [ $good = 1 ] || { rm -rf "$work/objects/$valid"; continue; }
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' $valid "$file" "$line" "$column" "$token" "$other" >>"$work/mutants"
    valid=$((valid + 1))
done 3<"$work/drawn"

# ---- which tests run which of these lines ----
# Archives with these objects, counting, beside the others. Made anew: `ar r` goes by the names of members, and objects
# of several folders have the same.
cover=$work/cover
mkdir -p "$cover"; cp $build/libluo*.a "$cover/"
for file in $(cut -f2 "$work/mutants" | sort -u); do objects_of "$file"; done | sort -u >"$work/counted"
while read -r o; do
    compile "$o" "$cover/$o" --coverage || { echo "mutate: $o does not compile with --coverage"; exit 1; }
done <"$work/counted"
for lib in core sim exec; do
    rm "$cover/libluo$lib.a"
    find $build/$lib -name '*.o' | grep -vE "^$build/exec/(main[^/]*$|bundle/|cuda/)" | sort |
        while read -r o; do if [ -e "$cover/$o" ]; then echo "$cover/$o"; else echo "$o"; fi; done |
        xargs ar qcS "$cover/libluo$lib.a"
    ar s "$cover/libluo$lib.a"
done
# The simulator's workers end by _exit, which would keep what they counted to itself.
printf 'void __gcov_dump(void);\nvoid __real__exit(int);\nvoid __wrap__exit(int code) {__gcov_dump(); __real__exit(code);}\n' |
    ${CC:-cc} -w -x c -c - -o "$work/leave.o"
link() { # PROGRAM OUT LIBRARIES [objects and flags before the archives]
    local line; line=$(grep -m 1 -E -- " -o $1\$" "$commands") || return 1
    mkdir -p "$(dirname "$2")"
    line=${line% -o *}
    line=${line/ $build\/lib/ ${*:4} $build\/lib}
    ${line//$build\/lib/$3\/lib} -o "$2" 2>>"$work/log"
}
# What a mutant has started may hang in a group of its own, which timeout does not end: all of it ends with its namespace.
alone=(); [ $MUTATE_INSIDE = open ] || alone=(unshare -pf --kill-child)
limited() { # SECONDS COMMAND..: neither more memory nor larger files than any test needs
    (ulimit -f 2000000; exec timeout -k 5 "$1" "${alone[@]}" "${@:2}") </dev/null >/dev/null 2>&1
}
run_test() { # FOLDER NAME SECONDS: of programs linked there
    local B=$1 name=$2
    case $name in
    golden/*) LUOSHU=$B/luoshu limited "$3" tests/golden.sh "${name#*/}" ;;
    *.sh) LUOSHU=$B/luoshu limited "$3" "tests/$name" ;;
    *) B=$B LUOSHU=$B/luoshu WAITING='' LUO_JOBS=1 limited "$3" tests/run.sh "$B/tests/$name" ;;
    esac
}
programs_of() { case $1 in golden/* | *.sh) echo $build/luoshu $build/luoshu-rank ;; *) echo "$build/tests/$1" ;; esac; }
lines_run() { # TEST: numbers of the mutants whose lines it runs; of lines without code, of the statement before or behind
    local counts=$work/counts/${1//\//.}
    [ -d "$counts" ] || return
    mapfile -t found < <(find "$counts" -name '*.gcda')
    [ ${#found[@]} -gt 0 ] || return
    for f in "${found[@]}"; do f=${f#"$counts"}; ln -sf "${f%.gcda}.gcno" "$counts${f%.gcda}.gcno"; done
    gcov -t "${found[@]}" 2>/dev/null | awk -F'\t' 'NR == FNR {wanted[$2, $3] = wanted[$2, $3] " " $1; next}
        {n = split($0, part, ":"); gsub(/ /, "", part[1]); line = part[2] + 0}
        line == 0 {if (part[3] == "Source") {file = part[4]; count = late = ""}; next}
        {text = substr($0, index($0, part[2] ":") + length(part[2]) + 1)
         if (text ~ /^[A-Za-z_}]/) count = late = "" # begins a function or a table: known of whoever links it
         if (part[1] != "-") {count = part[1]; if (count !~ /^[#=]/ && late != "") print late; late = ""}
         if (!((file, line) in wanted)) next
         if (count !~ /^[#=]/) print wanted[file, line]
         else if (part[1] == "-") late = late wanted[file, line]}' "$work/mutants" - | tr -s ' ' '\n' | sed '/^$/d' | sort -un
}
baseline() { # TEST: does it pass, how long does it take, which mutants does it meet
    local name=$1 folder=$work/base/${1//\//.} began=$EPOCHREALTIME seconds p
    for p in $(programs_of "$name"); do link "$p" "$folder/${p#$build/}" "$cover" --coverage "$work/leave.o" -Wl,--wrap=_exit || { echo "mutate: $p does not link; its tests are left out"; return; }; done
    GCOV_PREFIX=$work/counts/${name//\//.} run_test "$folder" "$name" 600 || { echo "mutate: $name fails without a mutant; left out"; return; }
    seconds=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.2f", b - a}')
    lines_run "$name" | while read -r k; do echo "$k $seconds $name"; done >"$work/meets/${name//\//.}"
    rm -rf "$folder" "$work/counts/${name//\//.}"
}
try() { # MUTANT: which test notices, or none
    local k=$1 folder=$work/run/$1 seconds name p rc n=0 mine
    mine=$(find "$work/objects/$k" -name '*.o')
    while read -r _ seconds name <&4; do
        n=$((n + 1))
        for p in $(programs_of "$name"); do
            # Only what a program would have taken from an archive goes before it.
            local first=$mine
            case $p in
            */luoshu) first=$(grep -v '/exec/host/' <<<"$mine") ;;
            */luoshu-rank) first=$(grep -v '/sim/' <<<"$mine") ;;
            esac
            [ -e "$folder/${p#$build/}" ] || link "$p" "$folder/${p#$build/}" "$build" $first || { echo "mutate: $k: $p does not link"; continue 2; }
        done
        run_test "$folder" "$name" "$(awk -v s="$seconds" 'BEGIN {print int(15 + 6 * s)}')"; rc=$?
        if [ $rc != 0 ]; then
            [ $rc -lt 124 ] || name="$name (too long)"
            echo "killed $n $name" >"$work/results/$k"; break
        fi
        case $name in golden/* | *.sh) ;; *) rm -f "$folder/tests/$name" ;; esac
    done 4< <(awk -v k="$k" '$1 == k' "$work/all" | sort -k 2 -n)
    [ -e "$work/results/$k" ] || echo "survived $n" >"$work/results/$k"
    rm -rf "$folder" "$work/objects/$k"
    awk -F'\t' -v k="$k" -v r="$(cat "$work/results/$k")" '$1 == k {printf "%3d %s:%d:%d `%s` -> `%s`: %s\n", k, $2, $3, $4, $5, $6, r}' "$work/mutants"
}
mkdir -p "$work/base" "$work/counts" "$work/meets" "$work/run" "$work/results"
export -f link limited run_test programs_of lines_run baseline try
export work build commands cover
tests() { sed "s|^|golden/|" < <(basename -s .sh tests/golden/*.sh); printf '%s\n' {calibrate,validate,training}.sh; ls tests/{unit,prop,diff,backend,exec,mpi}/*.c | sed 's|^tests/||; s|\.c$||'; }
# A mutant may send a signal to all that it can reach, and xargs ends where a command of its ends by one: each has a
# shell around it, and what has no answer is tried again.
tests | xargs -P "$jobs" -I{} bash -c '(baseline {}) || :'
cat "$work"/meets/* >"$work/all" 2>/dev/null
[ -s "$work/all" ] || { echo "mutate: no test ran any of these lines"; exit 1; }
unanswered() { for ((k = 0; k < valid; k++)); do [ -s "$work/results/$k" ] || echo $k; done; }
for _ in 1 2 3; do unanswered | xargs -r -P "$jobs" -I{} bash -c '(try {}) || :'; done
for k in $(unanswered); do
    echo "mutate: $k: its tests were ended by a signal three times; it counts as noticed"
    echo "killed 0 its own process" >"$work/results/$k"
done

# ---- the answer ----
killed=$(cat "$work"/results/* | grep -c '^killed')
echo "survivors:"
for ((k = 0; k < valid; k++)); do
    read -r how n <"$work/results/$k"
    [ "$how" = survived ] || continue
    IFS=$'\t' read -r _ file line column token other < <(sed -n "$((k + 1))p" "$work/mutants")
    echo "$file:$line:$column: \`$token\` -> \`$other\`, unnoticed by the $n tests that run it:$(sed -n "${line}p" "$file" | sed 's/^ */ /')"
done
echo "LUO_SEED=$seed: $killed of $valid mutants noticed, $((100 * killed / (valid ? valid : 1))) %"
cd /; [ -n "${MUTATE_KEEP:-}" ] || rm -rf "$work"/*
