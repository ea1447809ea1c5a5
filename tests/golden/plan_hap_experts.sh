# check-more
# Programs for mixed GPUs of a model with experts: whole experts unevenly, their columns, copies; the plan is checked,
# explained, simulated and run, by the same programs; sentences of its own.
S=$TOP/scenarios
cat >model.yaml <<'X'
schema: luoshu.model/1
name: some-experts
family: moe
layers: 2
hidden: 64
ffn_hidden: 96
heads: 4
vocab: 64
max_sequence_tokens: 64
moe: {experts: 12, experts_per_token: 2, expert_ffn_hidden: 64, first_dense_layers: 1, shared_experts: 1, shared_ffn_hidden: 32, aux_loss: 0.5}
dtype: f32
X
# two of each, each pair in a machine
sed -E "s#nodes: 3#nodes: 1#; s#devices_per_node: .#devices_per_node: 2#; s#profile: \.\.#profile: $S#; s#^name: .*#name: mixed4#" "$S/clusters/v100x8-p100x21.yaml" >cluster.yaml
echo 'storage: {read_gbytes_per_s: 4, write_gbytes_per_s: 2}' >>cluster.yaml
params() { # BANDWIDTH of collectives
    cat <<X
{"schema": "luoshu.params/1", "hap": {
  "types": [{"profile": "v100-16", "gemm_tflop_per_s": 0.003, "attn_tflop_per_s": 0.003, "elt_gbytes_per_s": null},
            {"profile": "p100", "gemm_tflop_per_s": 0.001, "attn_tflop_per_s": 0.001, "elt_gbytes_per_s": null}],
  "collectives": {"allgather": {"bandwidth_gbytes_per_s": $1}, "reducescatter": {"bandwidth_gbytes_per_s": $1},
    "allreduce": {"bandwidth_gbytes_per_s": $1}, "alltoall": {"bandwidth_gbytes_per_s": $2}, "p2p": {"bandwidth_gbytes_per_s": $1}}}}
X
}
hap() { "$LUOSHU" plan hap --model model.yaml --cluster cluster.yaml --batch 8 --seq-length 16 "$@"; }
files='--model model.yaml --cluster cluster.yaml'
# few bytes move: whole experts stay where they are, three times as many on a V100
params 0.02 0.4 >slow.json
hap --params slow.json --factors off --out p.json | sed -E '/^layers.0/d; s/ in [0-9.]+ s$//'
grep -E '"layers.1.moe.(pack|down|gate.weight)"' p.json
"$LUOSHU" check p.json $files; "$LUOSHU" explain p.json $files --annotations | grep -E '^experts|moe.*(router|all_)'
cat >run.yaml <<'X'
schema: luoshu.scenario/1
name: run
seed: 1
cluster: cluster.yaml
model: model.yaml
plan: p.json
extent: {steps: 3}
policies: [{name: static}]
X
sed 's/^name: run/name: load/; $a expert_load: {kind: zipf, exponent: 1}' run.yaml >load.yaml
"$LUOSHU" sim run.yaml --out sim --plots off --quiet >/dev/null; echo "sim $?"
"$LUOSHU" run run.yaml --backend host --out host --plots off --quiet >/dev/null; echo "host $?"
hashes() { grep -o '"program_hash": "[0-9a-f]*"' "$1/static/manifest.json"; }
diff <(hashes sim) <(hashes host) && echo "programs: equal"
"$LUOSHU" sim load.yaml --out load --plots off --quiet >/dev/null; grep -o '"expert_imbalance_ratio": [0-9.]*' {sim,load}/static/summary.json
# fast links, or few sequences: columns of every expert
params 9 30 >fast.json; hap --params fast.json --factors off | grep gate_up
"$LUOSHU" plan hap $files --batch 2 --seq-length 16 --params slow.json --out w.json | grep -E 'gate_up|combine'; "$LUOSHU" check w.json $files
hap --params slow.json --baseline ep --out e.json | sed -n 3p; "$LUOSHU" check e.json $files
# one device has all experts
awk '/name: p100/ {skip = 1} /^fabric/ {skip = 0} !skip' cluster.yaml | sed 's/devices_per_node: 2/devices_per_node: 1/' >one.yaml
"$LUOSHU" plan hap --model model.yaml --cluster one.yaml --batch 2 --seq-length 16 --out one.json | grep gate_up
"$LUOSHU" check one.json --model model.yaml --cluster one.yaml
at() { echo "== $1"; "$LUOSHU" check q.json $files; }
grep -v '"at": "layers.1.moe.combine"' p.json >q.json; at 'rows do not come home'
sed -E 's/("tensor": "layers.1.moe.pack", "annotation": )"[^"]*"(, "at")/\1"[0-3]{1:4}"\2/' p.json >q.json; at 'rows by tokens'
sed 's/.*"tensor": "layers.1.moe.ids", .*"\[0-3\]{0.*/&\n  {"tensor": "layers.1.moe.pack", "annotation": "[0-3]{0:4}", "at": "layers.1.moe.gate_up"},/' w.json >q.json; at 'copies of rows'
sed -E 's/("tensor": "layers.1.moe.gate.weight", "annotation": )"[^"]*"/\1"[0-3]{0:4}"/' p.json >q.json; at 'other experts'
sed 's/"zero": 0/"zero": 0, "expert_parallel": 2/' p.json >q.json; at 'a key'
grep -v '"tensor": "layers.1.moe.ids"' p.json >q.json; at 'one is missing'
