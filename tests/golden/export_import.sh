# What is exported is read back: the plan, and where the file has it the network, give the same file again.
S=$TOP/scenarios
again() { # KIND FILE PLAN OPTIONS OF EXPORT -- OPTIONS OF IMPORT
    local kind=$1 file=$2 plan=$3 net=model.yaml; shift 3
    local out=() in=()
    while [ "$1" != -- ]; do out+=("$1"); shift; done
    in=("${@:2}")
    "$LUOSHU" export "$kind" "$plan" ${out[@]+"${out[@]}"} --out "$file" --force --quiet 2>/dev/null >/dev/null || { echo "$kind: no export"; return; }
    rm -rf back; "$LUOSHU" import "$kind" "$file" --out back ${in[@]+"${in[@]}"} >/dev/null 2>notes || { echo "$kind: no import"; cat notes; return; }
    local got=back; [ ! -d back ] || { got=back/plan.json; net=back/model.yaml; }
    [ ${#out[@]} = 0 ] || out=(--model "$net")
    "$LUOSHU" export "$kind" "$got" ${out[@]+"${out[@]}"} --out "$file.again" --force --quiet 2>/dev/null >/dev/null
    cmp -s "$file" "$file.again" && echo "$kind: the same file" || { echo "$kind differs"; diff "$file" "$file.again" | head; }
    stages "$plan" >want; stages "$got" >have
    cmp -s want have && echo "$kind: the same $(wc -l <want) stages" || { echo "$kind: other stages"; diff want have | head; }
}
stages() { grep -o '"layers": \[\[.*' "$1" | tr -d ' ' | grep -o '^"layers":.*"devices":[^]]*]'; }
cat >model.yaml <<'EOF'
schema: luoshu.model/1
name: small
family: llama
layers: 8
hidden: 64
ffn_hidden: 192
heads: 4
kv_heads: 2
vocab: 1024
max_sequence_tokens: 128
EOF
plan() { # ZERO PIPELINES
    echo "{\"schema\": \"luoshu.plan/1\", \"name\": \"p\", \"model\": \"small\", \"cluster\": \"c\","
    echo " \"layers\": 8, \"devices\": $3, \"dtype\": \"bf16\", \"sequence_tokens\": 128, \"micro_batch_sequences\": 2,"
    echo " \"zero\": $1, \"sequence_parallel\": true, $2}"
}
# V-M1: two orders of devices; V-M2: the first and the last stage; V-L3: chunks
plan 1 '"pipelines": [
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 4]], "devices": [0, 1]},
   {"layers": [[4, 8]], "devices": [4, 5]}]},
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 4]], "devices": [2, 3]},
   {"layers": [[4, 8]], "devices": [6, 7]}]}]' 8 >default.json
again megatron-args args.sh default.json --model model.yaml -- --devices 8
plan 0 '"pipelines": [
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 4]], "devices": [0, 1]},
   {"layers": [[4, 8]], "devices": [2, 3]}]},
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 4]], "devices": [4, 5]},
   {"layers": [[4, 8]], "devices": [6, 7]}]}]' 8 >inside.json
again megatron-args args.sh inside.json --model model.yaml -- --devices 8
plan 0 '"pipelines": [
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 1]], "devices": [0], "recompute": {"mode": "full"}},
   {"layers": [[1, 3]], "devices": [1], "recompute": {"mode": "full"}},
   {"layers": [[3, 5]], "devices": [2], "recompute": {"mode": "full"}},
   {"layers": [[5, 8]], "devices": [3], "recompute": {"mode": "full"}}]}]' 4 >ends.json
again megatron-args args.sh ends.json --model model.yaml -- --devices 4
plan 0 '"pipelines": [
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 0]], "devices": [0]},
   {"layers": [[0, 5]], "devices": [1]},
   {"layers": [[5, 7]], "devices": [2]},
   {"layers": [[7, 8]], "devices": [3]}]}]' 4 >layout.json
again megatron-args args.sh layout.json --model model.yaml -- --devices 4
plan 0 '"schedule": {"kind": "interleaved_1f1b", "chunks": 2}, "pipelines": [
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 3], [4, 6]], "devices": [0]},
   {"layers": [[3, 4], [6, 8]], "devices": [1]}]}]' 2 >chunks.json
again megatron-args args.sh chunks.json --model model.yaml -- --devices 2
plan 3 '"pipelines": [
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 8]], "devices": [0]}]},
  {"micro_batches": 4, "stages": [
   {"layers": [[0, 8]], "devices": [1]}]}]' 2 >shards.json
again megatron-args args.sh shards.json --model model.yaml -- --devices 2
again torchtitan titan.toml shards.json --model model.yaml -- --model model.yaml --devices 2
again deepspeed ds.json shards.json -- --model model.yaml --devices 2
for n in 01 12 13; do
    P=$S/plans/published/plan-$n.json
    again hetu-ds hetu.json "$P" -- --model "$S/models/llama-32b.yaml" --micro-batches "$(grep -o '"micro_batches": [0-9]*' "$P" | grep -o '[0-9]*$' | paste -sd,)"
done
