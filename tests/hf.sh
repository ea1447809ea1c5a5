#!/usr/bin/env bash
# Checkpoints in the names and shapes of Hugging Face: a reader that knows these alone (tests/hf) finds in the saved
# files the losses that the run had; what it writes as published folders are, a run goes on from; and nothing is
# changed on the way in and out again.
set -u
. tests/runs.sh
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # the reader frees nothing
public=${B:-build/release}/tests/hf/public T=tests/torch
train() { # OUT PLAN RANKS MODEL ...
    local out=$1 plan=$2 ranks=$3 model=$4; shift 4
    host "$out" 0 $T/$plan.json --model "$model" --cluster $T/cluster.yaml --ranks "$ranks" --dtype f64 --seed 5 \
        --dump-batches "$tmp/batches" --force "$@"
}
close() { # TOLERANCE NUMBER NUMBER
    calc "$2 - $3 < $1 && $3 - $2 < $1" && return
    echo "$2 and $3"; false
}
loss_is() { # TOLERANCE RUN FOLDER STEP STEP_OF_THE_RUN
    local mine; mine=$("$public" loss "$3" "$tmp/batches" "$4") || return
    close "$1" "$mine" "$(curve "$tmp/$2/plan" | awk -v s="$5" '$1 == s {print $2}')"
}
for config in tests/hf/*.json; do
    m=$(basename "$config" .json) saved=$tmp/saved/plan/checkpoints/step-000002
    check "$m: a run" train saved one 1 "$config" --steps 3 --checkpoint-every 2 || continue
    check "$m: loss of the saved folder" loss_is 1e-10 saved "$saved" 2 2
    # on five devices, which pad odd vocabularies; a single head of keys is not cut
    plan=five; [ $m != falcon ] || plan=one
    check "$m: the same run on $plan" train five $plan 5 "$config" --steps 3 --checkpoint-every 2
    check "$m: same losses" near 1e-10 <(curve "$tmp/saved/plan") <(curve "$tmp/five/plan")
    check "$m: a step more on one" train more one 1 "$config" --steps 3 --resume "$tmp/five/plan/checkpoints/step-000002"
    check "$m: same loss" loss_is 1e-10 more "$tmp/five/plan/checkpoints/step-000002" 2 2
    # in again, and out again
    check "$m: loaded" train again $plan 5 "$saved/config.json" --load "$saved" --save-init "$tmp/out.safetensors" --steps 1
    check "$m: same cells" "$public" same "$saved/model.safetensors" "$tmp/out.safetensors"
    check "$m: loss of what was loaded" loss_is 1e-10 again "$saved" 0 0
    for dtype in F32 BF16 F16; do
        rm -rf "$tmp/published"; mkdir "$tmp/published"
        check "$m: published as $dtype" "$public" rewrite "$saved" "$tmp/published" $dtype
        check "$m: $dtype loaded" train $dtype one 1 "$tmp/published/config.json" --load "$tmp/published" --steps 1
        check "$m: loss of $dtype" loss_is 1e-10 $dtype "$tmp/published" 0 0
    done
done
# ---- a device fails, and with it the only pipeline that pads: through a checkpoint, to the same losses ----
cat >"$tmp/odd.json" <<'END'
{"schema": "luoshu.plan/1", "name": "odd", "layers": 3, "devices": 5, "dtype": "f64", "sequence_tokens": 64, "pipelines": [
 {"micro_batches": 2, "stages": [{"layers": [[0, 3]], "devices": [0, 1]}]},
 {"micro_batches": 2, "stages": [{"layers": [[0, 3]], "devices": [2]}]}]}
END
cat >"$tmp/odd.yaml" <<END
{schema: luoshu.scenario/1, name: odd, seed: 5, cluster: $PWD/$T/cluster.yaml, model: $PWD/tests/hf/llama.json, plan: odd.json,
 extent: {steps: 6}, data: {lengths: {kind: fixed, tokens: 64}}, policies: [{name: drop_replica}],
 events: [{id: gone, kind: fail, target: "device:0", at_step: 3}], costs: {communicator_s: 0}}
END
check "other pads: run" host odd 0 "$tmp/odd.yaml" --dtype f64
check "other pads: through a checkpoint" [ "$(column "$tmp/odd/drop_replica/switches.csv" source)" = checkpoint ]
check "other pads: it is said" grep -q "pads the vocabulary to another number of rows" "$tmp/odd/drop_replica/log.txt"
check "other pads: undisturbed" host calm 0 "$tmp/odd.json" --model tests/hf/llama.json --cluster $T/cluster.yaml --dtype f64 --seed 5 --steps 6
check "other pads: one curve" near 1e-10 <(curve "$tmp/odd/drop_replica") <(curve "$tmp/calm/plan")
mkdir "$tmp/empty"
check "no files" host empty 3 $T/one.json --model tests/hf/llama.json --cluster $T/cluster.yaml --ranks 1 --steps 1 --load "$tmp/empty"
check "no files: what is expected" grep -q 'has no `model.safetensors.index.json` and no `model.safetensors`; one of them is expected' "$tmp/empty.err"
finish
