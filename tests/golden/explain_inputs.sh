# Every value of cluster, model and profile is shown (A13).
S=$TOP/scenarios
"$LUOSHU" explain "$S/clusters/tiny2.yaml"
"$LUOSHU" explain "$S/models/tiny-gpt.yaml"
"$LUOSHU" explain "$S/profiles/h20.yaml"
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
moe: {experts: 64, experts_per_token: 2, expert_ffn_hidden: 32, first_dense_layers: 1, gate: topk}
END
"$LUOSHU" explain moe.yaml
"$LUOSHU" explain "$S/demo/demo.yaml"
