#!/usr/bin/env bash
# Runs the given test programs, LUO_JOBS at a time (3: some only wait), prints each one's summary line, then one closing
# line "N passed, N failed". Exit 1 when a test fails.
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
one() {
    local name=${1#*/tests/}
    local log="$out/${name//\//.}.log"
    # The oracle of resolution has a scale of its own: 200,000 cases in check-all.
    case $name in prop/prop_resolve) [ -z "${LUO_SCALE_RESOLVE:-}" ] || export LUO_SCALE=$LUO_SCALE_RESOLVE ;; esac
    local start=()
    case $name in mpi/* | cuda/mpi/*) read -rd '' -a start <<<"$ranks" ;; esac
    local began=$EPOCHREALTIME
    "${start[@]}" "$(realpath "$1")" >"$log" 2>&1
    local rc=$? took
    took=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f s", b - a}')
    echo $rc >"$log.rc"
    if [ $rc = 0 ]; then echo "ok   $name: $(grep -E '^[0-9]+%: Checks' "$log" | tail -n 1), $took"
    else echo "FAIL $name (exit $rc)"; tail -n 25 "$log" | sed 's/^/     /'; fi
}
export -f one; export out
rm -f "$out"/*.rc
printf '%s\n' "$@" | xargs -P "${LUO_JOBS:-3}" -I{} bash -c 'one {}'
passed=0; failed=0
for f in "$@"; do
    name=${f#*/tests/}; log="$out/${name//\//.}.log"
    n=$(grep -oE 'Checks: [0-9]+' "$log" | awk '{s+=$2} END{print s+0}')
    bad=$(grep -oE 'Failures: [0-9]+, Errors: [0-9]+' "$log" | awk -F'[ ,]+' '{s+=$2+$4} END{print s+0}')
    [ "$(cat "$log.rc" 2>/dev/null)" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$n" -ge "$bad" ] || n=$bad
    passed=$((passed + n - bad)); failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
