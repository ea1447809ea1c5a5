#!/usr/bin/env bash
# usage: tests/long.sh [SEED]
# A long real run: 1,000 steps on 8 ranks with 20 random events, drawn by the seed: stragglers, devices
# that withdraw, and two that kill their process (SIGKILL). It ends complete, each failure costs no
# more than the steps since the last checkpoint, and it has learnt what an undisturbed run has.
# STEPS (1000): another length; events and checkpoints move with it.
set -u
. tests/runs.sh
seed=${1:-20260101} steps=${STEPS:-1000}
every=$((steps / 40))
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); got=$(($1 + seed / 65536 % ($2 - $1 + 1))); } # FROM TO

# Each kill finds its device at work: before it all that had failed is back, and taken in again.
event() { # ID KIND FROM TO MORE: at a step that is drawn, in thousandths of the run
    draw "$3" "$4"; local at=$((got * steps / 1000))
    draw 0 7; local device=$got
    draw 5 15
    echo "  - {id: $1, kind: $2, target: \"device:$device\", at_step: $at, duration_s: $((got / 10)).$((got % 10))$5}"
}
{
    cat <<END
schema: luoshu.scenario/1
name: long
seed: 3
cluster: $H/ranks4x2.yaml
model: $S/models/tiny-llama.yaml
plan: $H/plans/same.json
extent: {steps: $steps}
data: {batch: {sequences: 8}, lengths: {kind: fixed, tokens: 64}}
policies: [{name: restart, planner_s: 0, threshold_slowdown: 3, replan_gap: 2, payback_steps: 1000000}]
checkpoint: {every_steps: $every, mode: blocking, target: storage}
events:
END
    for i in $(seq 12); do draw 4 8; event "slow$i" straggler 20 980 ", slowdown: $got"; done
    for i in 1 2 3; do event "soft$i" fail 20 120 ""; done
    event kill1 fail 320 350 ", hard: true"
    for i in 4 5; do event "soft$i" fail 380 500 ""; done
    event kill2 fail 700 730 ", hard: true"
    event soft6 fail 780 950 ""
} >"$tmp/long.yaml"
check "twenty events" [ "$(grep -c 'id: ' "$tmp/long.yaml")" = 20 ]
grep 'id: ' "$tmp/long.yaml"

long() { # OUT options..: without the limit of other scripts
    local out=$1 began; shift; began=$(now)
    run "$out" 0 run "$@" --backend host --plots off --dtype f64 --trace-steps none --max-restarts 0 || return 1
    echo "$out: $(calc_s "$began") s"
}
check "disturbed" long disturbed "$tmp/long.yaml"
check "undisturbed" long quiet "$H/plans/same.json" --model "$S/models/tiny-llama.yaml" --cluster "$H/ranks4x2.yaml" \
    --seed 3 --steps "$steps"
a=$tmp/disturbed/restart b=$tmp/quiet/plan

check "complete" [ "$(state_of "$a")" = '"state": "complete"' ]
check "all steps" [ "$(curve "$a" | wc -l)" = "$steps" ]
# How far each restart went back, the step that failed left out.
column "$a/steps.csv" step | awk 'NR > 1 && $1 <= last {print last + 1 - $1} {last = $1}' >"$tmp/back"
most=$(sort -n "$tmp/back" | tail -n 1)
check "no failure costs more than the steps since the last checkpoint" [ "${most:-0}" -le "$every" ]
fired() { column "$a/events.csv" phase kind | grep -c "^fired $1"; }
killed=$(grep -c 'exited on signal 9' "$a/ranks.log")
check "two processes were killed" [ "$killed" = 2 ]
check "all events happened" grep -q '"never_fired": \[\]' "$a/summary.json"
column "$a/events.csv" phase id kind target detail | grep -E "^(ignored|never)"
check "the same loss in the end" near 1e-10 <(final "$a") <(final "$b")
check "the same curve" near 1e-8 <(curve "$a") <(curve "$b")
echo "fired: $(fired straggler) stragglers, $(fired fail) failures, $killed of them by SIGKILL; $(grep -o '"restarts": [0-9]*' "$a/summary.json" | grep -o '[0-9]*$') restarts, $(grep -o '"steps_redone": [0-9]*' "$a/summary.json" | grep -o '[0-9]*$') steps done again, at most $most after a failure"
echo "loss of step $(final "$a") disturbed, $(final "$b") undisturbed"
finish
