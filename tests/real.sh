#!/usr/bin/env bash
# Real runs, seen from outside. A7 (docs/architecture/tests.md): the programs that were simulated are those
# that ran, and what happened is told alike. Every plan trains the same; states go from one plan to
# another by file. A straggler costs about what the simulator says.
set -u
. tests/runs.sh
bare="--model $S/models/tiny-llama.yaml --cluster $H/ranks4x2.yaml --seed 3"

for plan in "$H"/plans/*.json; do
    case $plan in */straggler.json) at="--model $H/llama-8l.yaml --cluster $H/ranks8.yaml" ;;
    */three.json) at="--model $H/llama-8l.yaml --cluster $H/ranks4x2.yaml" ;;
    */ranks-*) at="--model $H/llama-5m.yaml --cluster $H/ranks8.yaml" ;;
    *) at="--model $S/models/tiny-llama.yaml --cluster $H/ranks4x2.yaml" ;; esac
    check "$plan" "$L" check "$plan" $at >/dev/null
done

# ---- the same program ----
check "same: simulated" run sim 0 sim "$H/same.yaml" --plots off --trace-steps all
check "same: run" host host 0 "$H/same.yaml" --trace-steps all
sim=$tmp/sim/restart real=$tmp/host/restart
hashes() { grep -o '"program_hash": "[0-9a-f]*"' "$1/manifest.json"; }
alike() { # FILE COLUMN...: but for these columns, and not empty
    local f=$1; shift
    [ "$(rows "$sim/$f")" -gt 1 ] && cmp -s <(without "$sim/$f" "$@") <(without "$real/$f" "$@") ||
        { diff <(without "$sim/$f" "$@") <(without "$real/$f" "$@") | head -n 6; false; }
}
check "same: three programs" [ "$(hashes "$sim" | sort -u | wc -l)" = 3 ]
check "same: hashes" [ "$(hashes "$sim")" = "$(hashes "$real")" ]
check "same: events" alike events.csv t_s
check "same: operations" alike ops.csv t_start_s t_end_s
check "same: steps" alike steps.csv $(head -n 1 "$sim/steps.csv" | tr , '\n' | grep -E '_s$|loss|grad_norm|slow')
check "same: times differ" eval '! cmp -s "$sim/ops.csv" "$real/ops.csv"'

# ---- memory: predicted, and what the ranks took ----
# The largest part is what F leaves for B, state, or (short sequences) gradients under way.
memory_near() { # RUN PERCENT: no less than predicted, and no more than so much above it
    column "$1/memory.csv" device peak_bytes measured_bytes | awk -v most="$2" '{e = 100 * ($3 / $2 - 1)
        if (e < 0 || e > most) {print "device " $1 ": " e " % above the prediction"; bad = 1}} END {exit bad || NR == 0}'
}
sizes_of=("1 16"); whole_check && sizes_of=("0 128" "1 128" "1 16")
for sizes in "${sizes_of[@]}"; do
    set -- $sizes
    sed "s/\"zero\": 1/\"zero\": $1/; s/\"sequence_tokens\": 128/\"sequence_tokens\": $2/" "$H/plans/ranks-4.json" >"$tmp/memory.json"
    check "memory: zero $1, $2 tokens: it runs" host "memory-$1-$2" 0 "$tmp/memory.json" --steps 1 --ranks 4 --model "$H/llama-5m.yaml" --cluster "$H/ranks8.yaml"
    check "memory: zero $1, $2 tokens: as predicted" memory_near "$tmp/memory-$1-$2/plan" 6
done

# ---- a device withdraws: back to the checkpoint, on others ----
attempt() { column "$1/steps.csv" attempt step loss | awk -v k="$2" '$1 == k {print $2, $3}'; }
attempt "$real" 1 >"$tmp/again"
attempt "$real" 0 | awk 'NR == FNR {s[$1]; next} $1 in s' "$tmp/again" - >"$tmp/before"
check "soft failure: device 0 has left" eval '! grep -qE "\"devices\": *\[(0|0,.*)\]" "$real/plans/plan-002.json"'
check "soft failure: steps were redone" [ "$(rows "$tmp/again")" -ge 2 ]
check "soft failure: with the same losses" near 1e-4 "$tmp/again" "$tmp/before"

# ---- checkpoints in memory: the same run, and nothing is left there ----
check "peer: run" host peer 0 "$H/same.yaml" --set checkpoint.target=peer --trace-steps none
check "peer: the same events" cmp -s <(without "$real/events.csv" t_s) <(without "$tmp/peer/restart/events.csv" t_s)
check "peer: the same losses" near 1e-4 <(curve "$real") <(curve "$tmp/peer/restart")
folders() { # SESSION: folders in memory of its processes; others run beside this test, and sweep as well
    local d pid
    for d in /dev/shm/luoshu-$(id -u)-*; do
        read -r _ pid _ 2>/dev/null <"$d/.lock" && [ "$(ps -o sid= -p "$pid" | tr -d ' ')" = "$1" ] && echo "$d"
    done
}
peer() { # NAME: the same run in a session of its own; sets $session
    setsid "$L" run "$H/same.yaml" --backend host --set checkpoint.target=peer --out "$tmp/$1" >/dev/null 2>&1 &
    session=$!
}
saved() { # waits until the session's ranks have saved there, and tells its folders
    for _ in $(seq 600); do
        for d in $(folders "$session"); do compgen -G "$d/step-*" >/dev/null && { folders "$session"; return; }; done
        sleep 0.1
    done
}
are_gone() { local d; for d in "$@"; do [ ! -e "$d" ] || return 1; done; [ $# -ge 2 ]; } # ours and Open MPI's
peer peer-whole
mapfile -t held < <(saved)
check "peer: run to its end" wait "$session"
check "peer: memory is free again" are_gone "${held[@]}"
check "peer: the last state stays" [ -s "$tmp/peer/restart/checkpoints/step-000018/model.safetensors" ]
# Killed with all that it started: what it left there, Open MPI's files among it, goes at the next start of anybody.
peer peer-killed
mapfile -t held < <(saved)
pkill -KILL -s "$session"
wait "$session" 2>/dev/null
for _ in $(seq 100); do pgrep -s "$session" >/dev/null || break; sleep 0.1; done
check "peer: run after a kill" host peer-next 0 "$H/same.yaml" --steps 1 --trace-steps none
check "peer: what was left has gone" are_gone "${held[@]}"
check "peer: on one host" run peer-hosts 3 run "$H/same.yaml" --backend host --set checkpoint.target=peer --hostfile README.md

# ---- four processes for eight devices: the answer to a death has as many at most ----
cat >"$tmp/ranks.yaml" <<END
schema: luoshu.scenario/1
name: ranks
seed: 3
cluster: $H/ranks4x2.yaml
model: $S/models/tiny-llama.yaml
plan: $H/plans/tiny-4.json
extent: {steps: 8}
policies: [{name: restart, restart_s: 0, planner_s: 0, threshold_slowdown: 10, replan_gap: 10}]
events: [{id: gone, kind: fail, target: "device:1", at_step: 3, hard: true}]
checkpoint: {every_steps: 2, mode: blocking, target: storage}
costs: {detect_fail_s: 0.1, process_start_s: 0, communicator_s: 0, replacement_s: 0}
END
check "ranks: four of eight" host ranks 0 "$tmp/ranks.yaml" --ranks 4 --trace-steps none
check "ranks: on whole nodes after it" \
    [ "$(grep -o '"devices": *\[[0-9, ]*\]' "$tmp/ranks/restart/plans/plan-001.json" | grep -o '\[.*' | tr -d '\n')" = "[2, 3][4, 5]" ]

# ---- one device alone trains the same; batches; weights before the first step ----
check "alone" host alone 0 "$H/plans/tiny-1.json" $bare --ranks 1 --steps 18 --data README.md \
    --dump-batches "$tmp/alone.jsonl" --save-init "$tmp/init.safetensors" --dtype f64
check "alone, as the scenario" host quiet 0 "$H/plans/tiny-1.json" $bare --ranks 1 --steps 18
check "same: losses of one device alone" near 1e-4 <(curve "$real") <(curve "$tmp/quiet/plan")
check "other losses would be seen" eval '! near 1e-4 <(curve "$real") <(curve "$tmp/alone/plan") >/dev/null'

line='^\{"step":[0-9]+,"micro_batch":[0-9]+,"replica":[0-9]+,"ids":\[[0-9]+(,[0-9]+){63}\],"document_starts":\[0(,[0-9]+)*\],"pads":[0-9]+\}$'
check "batches: one line each" [ "$(rows "$tmp/alone.jsonl")" = $((18 * 8)) ]
check "batches: their form" [ "$(grep -cvE "$line" "$tmp/alone.jsonl")" = 0 ]
od -An -v -tu1 README.md | tr -s ' \n' ',' >"$tmp/bytes" # the text is a ring, and this is it twice
ring="$(cat "$tmp/bytes" "$tmp/bytes" | tr -s ',')"
from_text() { # N: so many lines, spread over the file, are runs of the text
    local ids
    while read -r ids; do [[ $ring == *",$ids,"* ]] || { echo "no such text: $ids"; return 1; }; done < <(
        sed -E 's/.*"ids":\[([0-9,]*)\].*/\1/' "$tmp/alone.jsonl" | awk -v n="$1" 'NR % int(18 * 8 / n) == 0')
}
check "batches: the text's bytes" from_text 12

# ---- saved under one plan, gone on with under another ----
check "resume: first part" host first 0 "$H/plans/same.json" $bare --steps 6 --checkpoint-every 3 \
    --data README.md --dtype f64
check "resume: second part" host second 0 "$H/plans/tiny-2.json" $bare --ranks 2 --steps 11 --data README.md \
    --dtype f64 --resume "$tmp/first/plan/checkpoints" --dump-batches "$tmp/second.jsonl"
check "resume: at step 6" [ "$(column "$tmp/second/plan/steps.csv" step | head -n 1)" = 6 ]
check "resume: one curve" near 1e-10 <(curve "$tmp/first/plan"; curve "$tmp/second/plan") \
    <(curve "$tmp/alone/plan" | head -n 11)
ids() { grep -oE '"ids":.*' "$1"; }
check "resume: one order of batches" cmp -s <(ids "$tmp/second.jsonl") <(ids "$tmp/alone.jsonl" | sed -n '49,88p')

# ---- weights written, read under another plan with another seed, and written again ----
check "load" host loaded 0 "$H/plans/tiny-2.json" $bare --ranks 2 --seed 4 --steps 1 --dtype f64 \
    --load "$tmp/init.safetensors" --save-init "$tmp/again.safetensors"
check "no load" host drawn 0 "$H/plans/tiny-2.json" $bare --ranks 2 --seed 4 --steps 1 --dtype f64 \
    --save-init "$tmp/drawn.safetensors"
check "load: the same file comes back" cmp "$tmp/init.safetensors" "$tmp/again.safetensors"
check "load: drawn by another seed it is another" eval '! cmp -s "$tmp/init.safetensors" "$tmp/drawn.safetensors"'

# ---- experts: the loss of unbalanced ones counts everywhere alike, a bias that is learnt goes on ----
experts() { # NAME KEY: VALUE..: a model with them, called tiny-llama for the plans
    { sed 's/family: llama/family: moe/' "$S/models/tiny-llama.yaml"
      echo "moe: {experts: 6, experts_per_token: 2, expert_ffn_hidden: 48, $2}"; } >"$tmp/$1.yaml"
}
experts biased "gate: sigmoid, routed_scale: 2, bias_rate: 0.01"
experts balanced "gate: topk, aux_loss: 2"
experts plain "gate: topk"
of() { echo "--model $tmp/$1.yaml --cluster $H/ranks4x2.yaml --seed 3 --dtype f64"; }
for kind in biased balanced plain; do
    check "experts, $kind: alone" host "$kind-1" 0 "$H/plans/tiny-1.json" $(of $kind) --ranks 1 --steps 4
done
check "experts: two stages" host balanced-2 0 "$H/plans/tiny-2.json" $(of balanced) --ranks 2 --steps 4
check "experts: one loss" near 1e-10 <(curve "$tmp/balanced-2/plan") <(curve "$tmp/balanced-1/plan")
check "experts: what is unbalanced counts" calc "$(column "$tmp/balanced-1/plan/steps.csv" loss | head -n 1) > 2 + \
    $(column "$tmp/plain-1/plan/steps.csv" loss | head -n 1)"
check "experts: first part" host bias-1 0 "$H/plans/tiny-2.json" $(of biased) --ranks 2 --steps 2 --checkpoint-every 2
check "experts: second part" host bias-2 0 "$H/plans/tiny-1.json" $(of biased) --ranks 1 --steps 4 \
    --resume "$tmp/bias-1/plan/checkpoints"
check "experts: one curve, with the bias" near 1e-10 <(curve "$tmp/bias-1/plan"; curve "$tmp/bias-2/plan") \
    <(curve "$tmp/biased-1/plan")
kept=$tmp/bias-1/plan/checkpoints/step-000002
check "experts: the bias is kept" grep -qa "mlp.gate.e_score_correction_bias" "$kept/model.safetensors"
check "experts: it has no moments" eval '! grep -qa e_score_correction_bias "$kept/optimizer.safetensors"'

# ---- malleus: there and back over the devices, with the curve of an undisturbed run ----
# tests/straggler.sh has the same at length and measures.
sed -e 's/hidden: 256/hidden: 64/; s/ffn_hidden: 704/ffn_hidden: 160/' "$H/llama-8l.yaml" >"$tmp/narrow.yaml"
check "malleus: run" host malleus 0 "$H/straggler.yaml" --policies malleus --set "model=$tmp/narrow.yaml" \
    --set extent.steps=30 --set "events[0].at_step=8" --set "events[0].duration_steps=10" --set "events[0].slowdown=30" \
    --set "policies[2].threshold_slowdown=8" --set "policies[2].replan_gap=7" --trace-steps none
check "malleus: undisturbed" host narrow 0 "$H/plans/straggler.json" --model "$tmp/narrow.yaml" --cluster "$H/ranks8.yaml" \
    --seed 7 --steps 30 --trace-steps none
check "malleus: there and back, over the devices" \
    [ "$(column "$tmp/malleus/malleus/switches.csv" from_plan to_plan source | tr '\n' ';')" = "0 1 devices;1 0 devices;" ]
check "malleus: one curve" near 1e-10 <(curve "$tmp/malleus/malleus") <(curve "$tmp/narrow/plan")

# ---- a device fails and comes back, nobody restarts: the simulator's events, and one curve ----
sed -e 's/hidden: 256/hidden: 64/; s/ffn_hidden: 704/ffn_hidden: 160/' "$H/llama-8l.yaml" >"$tmp/small.yaml"
survivors="spares drop_replica reroute"
check "failures: simulated" run failures-sim 0 sim "$H/failures.yaml" --set "model=$tmp/small.yaml" --plots off
check "failures: run" host failures 0 "$H/failures.yaml" --set "model=$tmp/small.yaml" --trace-steps none
check "failures: undisturbed" host calm 0 "$H/plans/three.json" --model "$tmp/small.yaml" --cluster "$H/ranks4x2.yaml" \
    --seed 7 --steps 20 --trace-steps none
for p in $survivors; do
    sim=$tmp/failures-sim/$p real=$tmp/failures/$p
    check "failures: $p: events" alike events.csv t_s
    check "failures: $p: over the devices" [ "$(column "$real/switches.csv" source | sort -u)" = devices ]
    check "failures: $p: one curve" near 1e-10 <(curve "$real") <(curve "$tmp/calm/plan")
done
check "failures: a lost batch" host failures-lost 0 "$H/failures.yaml" --set "model=$tmp/small.yaml" --trace-steps none \
    --policies drop_replica --set "policies[1].lost_batch=lose"
check "failures: two thirds of it are left" \
    [ "$(column "$tmp/failures-lost/drop_replica/steps.csv" step sequences | awk '$1 == 10 {print $2}')" = 4 ]

# ---- a straggler, and its prediction ----
# Seconds of a step with device 1 three times as slow over those without: printed, since other work may share the
# cores. What is held to is processor time.
cat >"$tmp/slow.yaml" <<END
schema: luoshu.scenario/1
name: slow
cluster: $H/ranks8.yaml
model: $H/llama-5m.yaml
plan: $H/plans/ranks-2.json
extent: {steps: 10}
data: {batch: {sequences: 8}, lengths: {kind: fixed, tokens: 128}}
policies: [{name: static}]
events:
  - {id: slow, kind: straggler, target: "device:1", slowdown: 3, at_step: 5}
END
ratio() { column "$1/static/steps.csv" step step_s | awk '{if ($1 < 5) print $2 >"'"$tmp"'/f"; else print $2 >"'"$tmp"'/s"}'
    echo "$(sort -n "$tmp/s" | sed -n 3p) $(sort -n "$tmp/f" | sed -n 3p)" | awk '{print $1 / $2}'; }
check "straggler: simulated" run slow-sim 0 sim "$tmp/slow.yaml" --plots off
predicted=$(ratio "$tmp/slow-sim")
check "straggler: run" host slow-host 0 "$tmp/slow.yaml" --ranks 2
echo "straggler: a step is $predicted times as long by prediction, $(ratio "$tmp/slow-host") times measured"
check "straggler: slower, simulated" calc "$predicted > 1"
# In processor time, which does not depend on who shares the cores.
paced=$(column "$tmp/slow-host/static/steps.csv" step max_slowdown | tail -n 1 | cut -d' ' -f2)
check "straggler: about three times as slow" calc "$paced > 2 && $paced < 4.5"
check "straggler: the slow device is named" [ "$(column "$tmp/slow-host/static/steps.csv" step slowest_device | tail -n 1)" = "9 1" ]

finish
