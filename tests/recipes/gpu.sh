# A GPU with round numbers, of no maker; a cluster that has it.
row='add a GPU type'
steps() {
    cat >scenarios/profiles/round.yaml <<'X' &&
# Round numbers, of no maker.
schema: luoshu.profile/1
name: round
kind: gpu
values:
  - {name: peak_bf16_tflop_per_s, value: 100, source: "round number for a test", provenance: chosen}
  - {name: memory_gib, value: 64, source: "round number for a test", provenance: chosen}
  - {name: memory_gbytes_per_s, value: 1000, source: "round number for a test", provenance: chosen}
  - {name: sm_count, value: 100, source: "round number for a test", provenance: chosen}
X
        sed 's/^name: tiny2/name: round2/; s/a100-80.yaml/round.yaml/' scenarios/clusters/tiny2.yaml >scenarios/clusters/round2.yaml
}
show() { # a plan for it is made and simulated; half the peak takes longer
    plan() { "$LUOSHU" plan uniform --model scenarios/models/llama-125m.yaml --cluster "$1" --tp 1 --pp 1 --dp 2 --seq-length 2048 --out "$tmp/$2.json" --json; }
    "$LUOSHU" check scenarios/clusters/round2.yaml &&
        plan scenarios/clusters/round2.yaml fast >"$tmp/fast" &&
        sed -i 's/value: 100, source: "round number for a test", provenance: chosen}/value: 50, source: "round number for a test", provenance: chosen}/' scenarios/profiles/round.yaml &&
        plan scenarios/clusters/round2.yaml slow >"$tmp/slow" || return 1
    step() { grep -oE '"objective_s": [0-9.]+' "$1" | head -n 1 | cut -d ' ' -f 2; }
    awk -v fast="$(step "$tmp/fast")" -v slow="$(step "$tmp/slow")" 'BEGIN {exit !(fast > 0 && slow > 1.3 * fast)}'
}
