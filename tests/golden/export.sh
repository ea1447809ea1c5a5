# Plans and clusters as files of others: what each kind writes, tells and refuses.
S=$TOP/scenarios
x() { echo "-- $1"; "$LUOSHU" export "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: ${*//$TOP\//}"; }
cat >model.yaml <<'EOF'
schema: luoshu.model/1
name: small
family: llama
layers: 4
hidden: 64
ffn_hidden: 128
heads: 4
kv_heads: 2
vocab: 1000
max_sequence_tokens: 128
EOF
cat >cluster.yaml <<'EOF'
schema: luoshu.cluster/1
name: lab
node_groups:
  - name: big
    nodes: 1
    devices_per_node: 4
    profile: h20
    hosts: [gpu-1]
    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 450, latency_us: 1}
    nics: {count: 1, bandwidth_gbytes_per_s: 25, latency_us: 2}
  - name: little
    nodes: 1
    devices_per_node: 2
    profile: t4
    hosts: [gpu-2]
    pcie: {bandwidth_gbytes_per_s: 12, latency_us: 1.5}
    nics: {count: 1, bandwidth_gbytes_per_s: 12.5, latency_us: 2}
fabric: {kind: single, hop_latency_us: 0.5}
EOF
cat >uniform.json <<'EOF'
{"schema": "luoshu.plan/1", "name": "uniform", "model": "small", "cluster": "lab",
 "layers": 4, "devices": 6, "dtype": "bf16", "sequence_tokens": 128, "micro_batch_sequences": 2,
 "zero": 1, "sequence_parallel": true, "schedule": {"kind": "1f1b", "chunks": 1},
 "pipelines": [
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 1]], "devices": [0, 1], "recompute": {"mode": "full", "layers": [[0, 1]]}},
   {"layers": [[1, 4]], "devices": [2, 3], "recompute": {"mode": "full", "layers": [[1, 2]]}}]}]}
EOF
cat >uneven.json <<'EOF'
{"schema": "luoshu.plan/1", "name": "uneven", "model": "small", "cluster": "lab",
 "layers": 2, "devices": 6, "dtype": "bf16", "sequence_tokens": 128, "micro_batch_sequences": 1,
 "zero": 1, "sequence_parallel": true, "schedule": {"kind": "1f1b", "chunks": 1},
 "pipelines": [
  {"micro_batches": 3, "stages": [
   {"layers": [[0, 1]], "devices": [0, 1], "recompute": {"mode": "full"}}, {"layers": [[1, 2]], "devices": [2, 3]}]},
  {"micro_batches": 1, "stages": [{"layers": [[0, 2]], "devices": [4]}]}]}
EOF
cat >one.json <<'EOF'
{"schema": "luoshu.plan/1", "name": "one", "model": "small", "cluster": "lab",
 "layers": 2, "devices": 6, "dtype": "bf16", "sequence_tokens": 128, "micro_batch_sequences": 2,
 "pipelines": [{"micro_batches": 1, "stages": [{"layers": [[0, 2]], "devices": [3]}]}]}
EOF
cat >shards.json <<'EOF'
{"schema": "luoshu.plan/1", "name": "shards", "model": "small", "cluster": "lab",
 "layers": 4, "devices": 6, "dtype": "bf16", "sequence_tokens": 128, "micro_batch_sequences": 2,
 "zero": 3, "sequence_parallel": true,
 "pipelines": [{"micro_batches": 3, "stages": [{"layers": [[0, 4]], "devices": [0]}]},
  {"micro_batches": 3, "stages": [{"layers": [[0, 4]], "devices": [1]}]}]}
EOF
x megatron-args uniform.json --model model.yaml
x torchtitan shards.json --model model.yaml
x deepspeed shards.json
x hetu-ds uneven.json >hetu.json; head -1 hetu.json; sed 1d hetu.json | tr -d ' \n'; echo
x hostfile cluster.yaml
x sbatch "$S/plans/tiny2.json" --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny2.yaml"
x sbatch uniform.json --model model.yaml --cluster cluster.yaml
x simgrid-xml cluster.yaml
x chakra uniform.json --model model.yaml --cluster cluster.yaml --out traces | sed 's/,.*//'; ls traces; cat traces/comm_groups.json
sed -i 's/layers: 4/layers: 2/' model.yaml
x chakra uneven.json --model model.yaml | sed 's/,.*//'; cat chakra/comm_groups.json
x chakra uneven.json --model model.yaml --out chakra; x chakra uneven.json --model model.yaml --force --json 2>notes | grep -vE '"(bytes|hash)"'; tail -1 notes
x chakra one.json --model model.yaml --out traces --force | sed 's/,.*//'; ls traces # those of the other plan are gone
x hostfile cluster.yaml --out hosts; x hostfile cluster.yaml --out hosts; x hostfile cluster.yaml --out hosts --force --json
# what a format can't express, with its place
x megatron-args uneven.json --model model.yaml; x torchtitan uneven.json --model model.yaml; x deepspeed uneven.json
x hetu-ds shards.json; x hostfile "$S/clusters/tiny8.yaml"
# wrong use
x; x megatron; x megatron-args uniform.json; x hostfile cluster.yaml --model model.yaml; x deepspeed shards.json --cluster cluster.yaml
x chakra uniform.json --model model.yaml --stack megatron-core; x hostfile uniform.json; x deepspeed nothing.json
x deepspeed shards.json --out none/ds.json
ls
