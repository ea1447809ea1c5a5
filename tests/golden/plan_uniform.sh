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
