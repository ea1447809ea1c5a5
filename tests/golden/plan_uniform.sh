# check-more
# Planning time is the wall's, so its line is left out.
S=$TOP/scenarios
p() { "$LUOSHU" plan uniform --cluster "$S/clusters/tiny2.yaml" "$@" >out; code=$?; grep -v '^planning: ' out; echo "exit $code"; }
p --model "$S/models/tiny-llama.yaml" --global-batch-size 8 --seq-length 64 --top 3
cat plan.json
p --model "$S/models/tiny-llama.yaml" --global-batch-size 8 --seq-length 64
p --model "$S/models/tiny-llama.yaml" --global-batch-size 8 --seq-length 64 --force \
    --tensor-model-parallel-size 2 --no-distributed-optimizer --recompute-granularity full
"$LUOSHU" check plan.json --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny2.yaml"
p --model "$S/models/llama-70b.yaml" --out big.json
p --model "$S/models/tiny-llama.yaml" --global-batch-size 7 --tensor-model-parallel-size 3 --out x.json --seq-length 64
p --model "$S/models/tiny-llama.yaml" --global-batch-size 8 --seq-length 64 --force --context-parallel-size 2
grep -o '"context[a-z_]*": [^,}]*' plan.json
p --model "$S/models/tiny-llama.yaml" --global-batch-size 8 --seq-length 64 --force --cp 2 --context-parallel-size 2
p --model "$S/models/tiny-llama.yaml" --global-batch-size 8 --seq-length 64 --force --cp 4
"$LUOSHU" plan malleus --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny2.yaml" --cp 2; echo "exit $?"
"$LUOSHU" plan genetic --model m --cluster c; echo "exit $?"
# dimensions that are asked for, and what limits a plan
t() { p --model "$S/models/tiny-llama.yaml" --global-batch-size 8 --seq-length 64 --force "$@"; }
t --pp 2 --chunks 2 --top 2 --why
t --pp 2 --schedule gpipe --recompute full
t --pp 2 --layers balanced
t --zero 3 --top 3
t --shard grad-op
t --rank objective --why
t --rank filled
t --schedule gpip
t --schedule zb_h2
t --chunks 2 --schedule 1f1b
t --schedule zb_h1 --zero 2
t --schedule zb_h1 --pp 2
t --shard full --zero 1
t --layers odd
t --recompute full --recompute-granularity full
"$LUOSHU" plan uniform --cluster "$S/clusters/tiny2.yaml" --model "$S/models/tiny-llama.yaml" --global-batch-size 8 \
    --seq-length 64 --force --pp 2 --chunks 2 --top 2 --json | grep -v elapsed_ms
# two types: both work, by their speed, or who does not is named
m() { "$LUOSHU" plan uniform --cluster "$S/clusters/$1.yaml" --model "$S/models/llama-32b.yaml" --force --seq-length 4096 \
    --global-batch-size "$2" --out m.json >out; echo "exit $?"; grep -v '^planning: ' out; }
m h20x24-h800x8 64
m mixed48 7
"$LUOSHU" plan malleus --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny2.yaml" --why; echo "exit $?"
