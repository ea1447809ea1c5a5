#!/usr/bin/env bash
# usage: tests/straggler.sh [DIR]
# A rank that is slow for a while, in real time (scenarios/host/straggler.yaml): the policies train the
# same, and by how much malleus is faster than static, beside what the simulator says. With DIR: a measurement, for
# a quiet machine: at full length on this machine's own profile (DIR/calibration, measured if it is not there); malleus
# has to be faster, and the factor within 15 %. Without: a short form, on the chosen profile; times are printed.
set -u
. tests/runs.sh
dir=${1:-}
at=20 long=40 steps=80
set_=()
if [ -n "$dir" ]; then
    mkdir -p "$dir" && dir=$(cd "$dir" && pwd)
    [ -d "$dir/calibration" ] || "$L" calibrate --out "$dir/calibration" --quiet >"$dir/calibrate.log" || exit 1
    set_+=(--set "cluster=$dir/calibration/cluster-8.yaml")
else
    at=8 long=14 steps=30
    set_+=(--set extent.steps=$steps --set "events[0].at_step=$at" --set "events[0].duration_steps=$long")
fi
check "simulated" run sim 0 sim "$H/straggler.yaml" "${set_[@]}" --plots off
check "run" host real 0 "$H/straggler.yaml" "${set_[@]}" --trace-steps none
check "undisturbed" host quiet 0 "$H/plans/straggler.json" --model "$H/llama-8l.yaml" --cluster "$H/ranks8.yaml" \
    --seed 7 --steps $steps --trace-steps none

for p in static rebalance malleus; do
    check "$p: the curve of the undisturbed run" near 1e-10 <(curve "$tmp/real/$p") <(curve "$tmp/quiet/plan")
    without "$tmp/sim/$p/events.csv" t_s >"$tmp/a"; without "$tmp/real/$p/events.csv" t_s >"$tmp/b"
    check "$p: nothing but the straggler is seen, once" [ "$(column "$tmp/real/$p/events.csv" phase detail |
        grep -c '^detected slower')" = 1 ]
done
switches=$(column "$tmp/real/malleus/switches.csv" from_plan to_plan source | tr '\n' ';')
check "malleus: there and back, over the devices" [ "$switches" = "0 1 devices;1 0 devices;" ]
check "malleus: device 2 is out" eval '! grep -qE "\"devices\": *\[2\]" "$tmp/real/malleus/plans/plan-001.json"'
devices() { tr -d ' \n' <"$1/malleus/plans/plan-001.json" | grep -oE '"(layers|devices|micro_batches)":[^a-z]*'; }
check "malleus: its plan is the simulator's" cmp -s <(devices "$tmp/real") <(devices "$tmp/sim")
column "$tmp/real/malleus/switches.csv" plan_s specialize_s move_s | awk '{printf "switch %d: plan %.1f ms, specialize %.1f ms, move %.1f ms\n", NR, 1e3 * $1, 1e3 * $2, 1e3 * $3}'

# Median step while the rank is slow, from when malleus has switched (detection and what is discarded
# takes less than ten steps).
slow() { column "$1/steps.csv" step step_s | awk -v a=$((at + (steps > 40 ? 10 : 6))) -v b=$((at + long)) '$1 >= a && $1 < b {print $2}' |
    sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
total() { column "$1/steps.csv" step t_end_s | tail -n 1 | cut -d' ' -f2; }
for p in static rebalance malleus; do
    echo "$p: step while slow $(slow "$tmp/sim/$p") s predicted, $(slow "$tmp/real/$p") s measured; run $(total "$tmp/sim/$p") s predicted, $(total "$tmp/real/$p") s measured"
done
for what in slow total; do
    predicted=$(awk "BEGIN {print $($what "$tmp/sim/static") / $($what "$tmp/sim/malleus")}")
    measured=$(awk "BEGIN {print $($what "$tmp/real/static") / $($what "$tmp/real/malleus")}")
    echo "static over malleus, $what: $predicted predicted, $measured measured ($(awk "BEGIN {printf \"%+.1f %%\", 100 * ($measured / $predicted - 1)}"))"
    [ $what = total ] && [ -z "$dir" ] && break # short runs are mostly start and detection
    check "malleus is faster than static, simulated" calc "$predicted > 1"
    [ -n "$dir" ] || continue
    check "malleus is faster than static" calc "$measured > 1"
    check "by the factor predicted, within 15 %" calc "$measured > 0.85 * $predicted && $measured < 1.15 * $predicted"
done
[ -z "$dir" ] || cp -r "$tmp/real" "$tmp/sim" "$dir/"
finish
