# Plans of a model with experts: who has them, and how their rows travel.
S=$TOP/scenarios
cat >moe.yaml <<'END'
schema: luoshu.model/1
name: m
family: moe
layers: 4
hidden: 64
ffn_hidden: 160
heads: 8
vocab: 256
max_sequence_tokens: 128
moe: {experts: 8, experts_per_token: 2, expert_ffn_hidden: 32, gate: topk}
END
plan() { # EXPERTS, KEYS
    cat >plan.json <<END
{"schema": "luoshu.plan/1", "name": "p", "layers": 4, "devices": 8, "sequence_tokens": 64$2,
 "pipelines": [{"micro_batches": 2, "stages": [{"layers": [[0, 4]], "devices": [0, 1], "experts": "$1"}]},
               {"micro_batches": 2, "stages": [{"layers": [[0, 4]], "devices": [2, 3], "experts": "$1"}]},
               {"micro_batches": 2, "stages": [{"layers": [[0, 4]], "devices": [4, 5], "experts": "$1"}]},
               {"micro_batches": 2, "stages": [{"layers": [[0, 4]], "devices": [6, 7], "experts": "$1"}]}]}
END
    "$LUOSHU" explain plan.json --model moe.yaml --cluster "$S/clusters/tiny8.yaml" "${@:3}" --annotations
}
plan tensor '' | sed -n 1,10p
plan expert ', "expert_groups": [[0, 1], [2, 3]]' | grep -E '^experts|experts|send_receive|all_to_all'
plan expert ', "expert_groups": [[0, 1, 2, 3]], "expert_parallel": 4' | grep '^experts'
plan expert ', "expert_groups": [[0, 1], [2, 3]]' --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["experts"])'
