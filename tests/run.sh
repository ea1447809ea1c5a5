#!/usr/bin/env bash
# Runs the given test programs, LUO_JOBS at a time (2), prints each one's summary line, then the ten that took most of the
# processors, and one closing line "N passed, N failed". Exit 1 when a test fails.
# WAITING: tests that mostly wait, one after another in a lane of their own beside the others.
# Seconds of each test (wall, processor): tests/out/times of the build.
set -u
out=${B:-build/release}/tests/out
mkdir -p "$out"
# Ranks of a test share the cores there are; root is fine; messages between processes are copied by
# both sides, since containers often forbid the short cut. For tests/mpi alone: what the others start
# brings settings of its own.
ranks="env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
    OMPI_MCA_orte_execute_quiet=1 mpirun -n 8"
export ranks
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
# What cannot be allocated is refused, as without sanitizers: tests ask for that.
export ASAN_OPTIONS=allocator_may_return_null=1
one() {
    local name=${1#*/tests/}
    local log="$out/${name//\//.}.log"
    # The oracle of resolution has a scale of its own: 200,000 cases in check-all.
    case $name in prop/prop_resolve) [ -z "${LUO_SCALE_RESOLVE:-}" ] || export LUO_SCALE=$LUO_SCALE_RESOLVE ;; esac
    local start=()
    case $name in mpi/* | cuda/mpi/*) read -rd '' -a start <<<"$ranks" ;; esac
    { time "${start[@]}" "$(realpath "$1")" >"$log" 2>&1; } 2>"$log.time"
    local rc=$? took
    took=$(tail -n 1 "$log.time"); rm "$log.time" # what bash says of a test that was killed comes before
    echo "$name $took" >>"$out/times"
    took=$(awk '{printf "%.1f s, %.1f of a processor", $1, $2 + $3}' <<<"$took")
    echo $rc >"$log.rc"
    if [ $rc = 0 ]; then echo "ok   $name: $(grep -E '^[0-9]+%: Checks' "$log" | tail -n 1), $took"
    else echo "FAIL $name (exit $rc)"; tail -n 25 "$log" | sed 's/^/     /'; fi
}
export -f one; export out TIMEFORMAT='%R %U %S'
rm -f "$out"/*.rc; : >"$out/times"
began=$EPOCHREALTIME
read -ra waiting <<<"${WAITING:-}"
unset WAITING # a test that calls this script does not run them again
for f in "${waiting[@]}"; do one "$f"; done &
printf '%s\n' "$@" | xargs -P "${LUO_JOBS:-2}" -I{} bash -c 'one {}'
wait
passed=0; failed=0
for f in "$@" "${waiting[@]}"; do
    name=${f#*/tests/}; log="$out/${name//\//.}.log"
    n=$(grep -oE 'Checks: [0-9]+' "$log" | awk '{s+=$2} END{print s+0}')
    bad=$(grep -oE 'Failures: [0-9]+, Errors: [0-9]+' "$log" | awk -F'[ ,]+' '{s+=$2+$4} END{print s+0}')
    [ "$(cat "$log.rc" 2>/dev/null)" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$n" -ge "$bad" ] || n=$bad
    passed=$((passed + n - bad)); failed=$((failed + bad))
done
# Which ones to look at when this takes too long.
awk -v a="$began" -v b="$EPOCHREALTIME" '{printf "%.1f %.1f %s\n", $3 + $4, $2, $1; sum += $3 + $4}
    END {printf "%.1f %.1f all\n", sum, b - a}' "$out/times" | sort -rn | head -n 11 |
    awk 'BEGIN {print "processor s   wall s  test"} {printf "%11.1f  %7.1f  %s\n", $1, $2, $3}'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
