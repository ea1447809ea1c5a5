#!/usr/bin/env bash
# Real documents on eight ranks under policies for uneven lengths: the same batches, so the same losses whatever
# the plan and the packing; the programs that were simulated; plans that change between steps; planning that
# takes time. The documents are the paragraphs of docs/, a byte is a token.
set -u
. tests/runs.sh
steps=3; whole_check && steps=12
mkdir "$tmp/documents"
for page in docs/*.md; do
    awk -v dir="$tmp/documents/$(basename "$page" .md)" 'BEGIN {RS = ""} length > 20 {
        f = sprintf("%s-%04d.txt", dir, ++n); printf "%s", $0 >f; close(f)}' "$page"
done
cat "$tmp"/documents/*.txt >"$tmp/data.txt"
check "documents: there are many" [ "$(find "$tmp/documents" -name '*.txt' | wc -l)" -gt 100 ]
check "documents: their lengths" "$L" import lengths-text "$tmp/documents" --unit bytes --out "$tmp/lengths.csv" --quiet
sed 's/max_sequence_tokens: .*/max_sequence_tokens: 512/; s/^name: .*/name: tiny-512/' "$S/models/tiny-llama.yaml" >"$tmp/model.yaml"
cat >"$tmp/documents.yaml" <<END
schema: luoshu.scenario/1
name: documents
seed: 3
cluster: $H/ranks8.yaml
model: model.yaml
extent: {steps: $steps}
data:
  batch: {tokens: 4096}
  lengths: {kind: file, file: lengths.csv}
policies:
  - {name: hydraulis, planner_s: 0}
  - {name: pack_dynamic, planner_s: 0}
  - {name: padding, planner_s: 0}
  - {name: hydraulis, label: changing, planner_s: 0, rank: objective}
END
policies="hydraulis pack_dynamic padding changing"

check "documents: simulated" run sim 0 sim "$tmp/documents.yaml" --plots off --trace-steps none
check "documents: run" host real 0 "$tmp/documents.yaml" --data "$tmp/data.txt" --dtype f64 --trace-steps all
weighed() { awk -F, '$1 == 0 {n++} END {exit n != 8}' "$1/memory.csv"; }
check "documents: memory of the first plan, simulated" weighed "$tmp/sim/hydraulis"
check "documents: memory of the first plan, run" weighed "$tmp/real/hydraulis"
hashes() { grep -o '"program_hash": "[0-9a-f]*"' "$1/summary.json"; }
dealt() { cmp -s "$tmp/sim/$1/assignment.csv" "$tmp/real32/$1/assignment.csv" && [ "$(rows "$tmp/sim/$1/assignment.csv")" -gt "$((4 * steps))" ]; }
losses() { curve "$tmp/real/$1" >"$tmp/$1.curve"; [ "$(rows "$tmp/$1.curve")" = "$steps" ]; }
mean() { column "$tmp/$1/$2/steps.csv" step_s | awk '{s += $1} END {printf "%.3f", s / NR}'; }
for p in $policies; do check "$p: a loss a step" losses "$p"; done
for p in $policies; do check "$p: the losses of pack_dynamic" near 1e-10 "$tmp/$p.curve" "$tmp/pack_dynamic.curve"; done
# It learns from the times of its steps, which are those of the machine; so it tries one plan after the other.
check "changing: plans change between steps" [ "$(ls "$tmp/real/changing/plans" | wc -l)" -gt 1 ]
check "hydraulis: f32 programs are those simulated" host real32 0 "$tmp/documents.yaml" --data "$tmp/data.txt" --policies hydraulis,padding --trace-steps none
for p in hydraulis padding; do
    check "$p: each sequence where the simulator has it" dealt "$p"
    check "$p: programs of all steps" [ "$(hashes "$tmp/sim/$p")" = "$(hashes "$tmp/real32/$p")" ]
done
echo "mean step, s: padding $(mean real padding), pack_dynamic $(mean real pack_dynamic), hydraulis $(mean real hydraulis) on host (f64);" \
    "$(mean sim padding), $(mean sim pack_dynamic), $(mean sim hydraulis) simulated (profile chosen, f32)"
computed() { column "$tmp/real/$1/ops.csv" flop status | awk '$2 == "LUO_OK" {s += $1} END {print s + 0}'; } # FLOP that ranks did
check "padding computes what it fills up" calc "$(computed padding) > 1.5 * $(computed hydraulis) && $(computed hydraulis) > 0"
check "padding takes longer, simulated" calc "$(mean sim padding) > 1.5 * $(mean sim hydraulis)"

# ---- a model with experts: replicas of unlike shapes, state in a layout of its own ----
{ sed 's/family: llama/family: moe/; s/^name: .*/name: tiny-experts/' "$tmp/model.yaml"
    echo 'moe: {experts: 8, experts_per_token: 2, expert_ffn_hidden: 32, every_layers: 2, shared_experts: 1, shared_ffn_hidden: 32}'; } >"$tmp/experts-model.yaml"
sed 's/^model: .*/model: experts-model.yaml/; s/^name: .*/name: experts/; /name: padding/d' "$tmp/documents.yaml" >"$tmp/experts.yaml"
check "experts: simulated" run experts-sim 0 sim "$tmp/experts.yaml" --plots off --trace-steps none --policies hydraulis
check "experts: run" host experts 0 "$tmp/experts.yaml" --data "$tmp/data.txt" --dtype f64 --trace-steps none
check "experts: run in f32" host experts32 0 "$tmp/experts.yaml" --data "$tmp/data.txt" --trace-steps none --policies hydraulis
check "experts: programs of all steps" [ "$(hashes "$tmp/experts-sim/hydraulis")" = "$(hashes "$tmp/experts32/hydraulis")" ]
check "experts: state lies apart" grep -q state_layout "$tmp/experts/hydraulis/plans/plan-000.json"
check "experts: plans change between steps" [ "$(ls "$tmp/experts/changing/plans" | wc -l)" -gt 1 ]
for p in hydraulis changing; do check "experts, $p: the losses of pack_dynamic" near 1e-10 <(curve "$tmp/experts/$p") <(curve "$tmp/experts/pack_dynamic"); done

# ---- a failure goes back to the checkpoint with replicas for the devices that are left; the batches are the same ----
sed '/pack_dynamic\|padding\|changing/d' "$tmp/documents.yaml" >"$tmp/broken.yaml"
cat >>"$tmp/broken.yaml" <<'END'
checkpoint: {every_steps: 1, mode: blocking}
costs: {detect_fail_s: 0.1, process_start_s: 0.1}
events: [{id: gone, kind: fail, target: "device:7", at_step: 2, duration_s: 600}]
END
check "failure: run" host broken 0 "$tmp/broken.yaml" --data "$tmp/data.txt" --dtype f64 --trace-steps none
fewer() { column "$tmp/broken/hydraulis/steps.csv" step devices_used | tail -n 1 | awk '{exit !($2 < 8)}'; }
check "failure: fewer devices" fewer
check "failure: the same losses" near 1e-10 <(curve "$tmp/broken/hydraulis") "$tmp/hydraulis.curve"
check "resume: run" host rest 0 "$tmp/broken.yaml" --data "$tmp/data.txt" --dtype f64 --trace-steps none --set extent.steps=$((steps + 2)) --resume "$tmp/broken/hydraulis/checkpoints"
check "resume: goes on" [ "$(column "$tmp/rest/hydraulis/steps.csv" step | head -n 1)" = "$steps" ]

# ---- sequences may be cut: no slower than if they may not be, though the pool thinks so
cat >"$tmp/cut.yaml" <<END
schema: luoshu.scenario/1
name: cut
seed: 1
cluster: $S/clusters/tiny8.yaml
model: $S/models/llama-7b.yaml
extent: {steps: 2}
data:
  batch: {tokens: 4096}
  lengths: {kind: uniform, low_tokens: 3000, high_tokens: 3001}
policies:
  - {name: hydraulis}
  - {name: hydraulis, label: cut, context_parallel: [2, 4, 8]}
END
check "cut: simulated" run cut 0 sim "$tmp/cut.yaml" --plots off --trace-steps none
no_slower() { awk -v a="$(mean cut cut)" -v b="$(mean cut hydraulis)" 'BEGIN {exit !(a > 0 && a <= 1.01 * b)}'; }
check "cut: no slower" no_slower

# ---- a step in parts: memory for the long sequences is found on pairs of devices alone, so plans change within it,
# by the pool: simulated, one bucket is faster.
# The lengths are synthetic: those of docs/ change with the prose, and may leave one plan to a step ----
sed 's/max_sequence_tokens: .*/max_sequence_tokens: 4096/; s/^name: .*/name: tiny-4096/' "$S/models/tiny-llama.yaml" >"$tmp/long.yaml"
sed '/name: memory_gib/{n; s/value: .*/value: 0.14/}' "$H/chosen.yaml" >"$tmp/small.yaml"
sed 's/profile: .*/profile: small.yaml/' "$H/ranks8.yaml" >"$tmp/small8.yaml"
cat >"$tmp/parts.yaml" <<'END'
schema: luoshu.scenario/1
name: parts
seed: 3
cluster: small8.yaml
model: long.yaml
extent: {steps: 2}
data:
  batch: {tokens: 16384}
  lengths:
    kind: mixture
    components:
      - {weight: 0.9, kind: lognormal, median_tokens: 250, sigma: 1.0, low_tokens: 20, high_tokens: 1500}
      - {weight: 0.1, kind: lognormal, median_tokens: 3000, sigma: 0.3, low_tokens: 2500, high_tokens: 4096}
policies:
  - {name: hotspa, planner_s: 0, switch_ms: 0, rank: objective}
  - {name: pack_dynamic, planner_s: 0}
END
parts() { host "$1" 0 "$2" --data "$tmp/data.txt" --dtype f64 --trace-steps none "${@:3}"; }
figures() { column "$tmp/$1/steps.csv" step loss grad_norm | awk '{loss[$1] = $2; norm[$1] = $3} END {for (k in loss) print k, loss[k] "\n" k + 100, norm[k]}' | sort -n; }
check "parts: run" parts parts "$tmp/parts.yaml" --policies hotspa --dump-batches "$tmp/parts.jsonl"
check "parts: run whole" parts whole "$tmp/parts.yaml" --policies pack_dynamic --dump-batches "$tmp/whole.jsonl"
check "parts: several plans" [ "$(ls "$tmp/parts/hotspa/plans" | wc -l)" -gt 1 ]
check "parts: the losses and norms of whole steps" near 1e-9 <(figures parts/hotspa) <(figures whole/pack_dynamic)
# Of the ids of step 1 those that are no pads, which stand last in each line.
tokens() { grep '"step":1,' "$1" | sed 's/.*"ids":\[\([^]]*\)\].*"pads":\([0-9]*\)}/\2,\1/' | awk -F, '{for (i = 2; i <= NF - $1; i++) print $i}' | sort -n; }
check "parts: the tokens of whole steps" cmp <(tokens "$tmp/parts.jsonl") <(tokens "$tmp/whole.jsonl")
check "parts: there are as many as a step has" [ "$(tokens "$tmp/parts.jsonl" | wc -l)" -gt 14000 ]

# A process dies in one part or the other: the step begins again with its first part.
for at in 0.6 1.0; do
    sed "s/^policies:/checkpoint: {every_steps: 1, mode: blocking}\ncosts: {detect_fail_s: 0.1, process_start_s: 0.1}\nevents: [{id: gone, kind: fail, target: \"device:7\", at_s: $at, duration_s: 0.2, hard: true}]\n&/" "$tmp/parts.yaml" >"$tmp/dies.yaml"
    check "parts: a process dies at $at s" parts "dies$at" "$tmp/dies.yaml" --policies hotspa
    check "parts: the same losses all the same" near 1e-9 <(figures "dies$at/hotspa") <(figures whole/pack_dynamic)
done

# Each part's plan has to have room, not the first one's alone.
cat >"$tmp/rooms.yaml" <<END
schema: luoshu.scenario/1
name: rooms
seed: 1
cluster: $S/clusters/tiny8.yaml
model: $S/models/llama-13b-32k.yaml
extent: {steps: 2}
data:
  batch: {tokens: 200000}
  lengths: {kind: lognormal, median_tokens: 900, sigma: 1.6, low_tokens: 32, high_tokens: 24576}
policies: [{name: hotspa}]
END
check "parts: later parts have room" run rooms 0 sim "$tmp/rooms.yaml" --plots off --trace-steps none
check "parts: of several plans" [ "$(ls "$tmp/rooms/hotspa/plans" | wc -l)" -gt 1 ]

# ---- planning that takes longer than a step holds it up, as far as workers do not help ----
stall() { grep -o '"plan_s": [0-9.]*' "$tmp/$1/hydraulis/summary.json" | awk '{print $2}'; }
slow() { run "$1" 0 sim "$tmp/documents.yaml" --plots off --trace-steps none --policies hydraulis --set policies[0].planner_s=2 --set policies[0].workers="$2" --set extent.steps=8; }
check "planning: one worker" slow one 1
check "planning: eight workers" slow eight 8
sed 's/^policies:/events: [{id: slow, kind: straggler, target: "device:5", slowdown: 2.5, at_step: 4}]\n&/' "$tmp/documents.yaml" >"$tmp/slowed.yaml"
check "planning: a device becomes slow" run slowed 0 sim "$tmp/slowed.yaml" --plots off --trace-steps none --policies pack_dynamic --set policies[1].planner_s=2 --set policies[1].workers=8 --set extent.steps=12
once() { column "$tmp/slowed/pack_dynamic/timeline.csv" kind step | awk '$1 == "plan" {n[$2]++} END {for (k in n) {all++; if (n[k] > 1) bad = 1} exit bad || all < 2}'; }
check "planning: it is planned for once" once
check "planning: more workers, less waiting" calc "$(stall one) > 4 && $(stall eight) < 0.5 * $(stall one)"
finish
