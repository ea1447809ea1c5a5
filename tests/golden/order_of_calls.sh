# check-more
# What stack `luoshu-cuda` says of luoshu's own executors (docs/gpu.md#what-runs-beside-what) is what they do: under ZeRO-1 the
# first forward waits for all weights and gradients begin behind the last backward (dp_overlap off); under ZeRO-3 calls in a task
# run beside its computation (shard_overlap on). Other software says otherwise, and ranks do what their stack says: with dp_overlap on they
# begin before it. tests/cuda.sh looks at cuda.
M=$TOP/scenarios/models/tiny-llama.yaml C=$TOP/scenarios/clusters/tiny2.yaml
order() { sed 's/"[^"]*"//g' "$1/plan/ops.csv" | awk -v run="$1" -f "$TOP/tests/order.awk"; }
sed 's/dp_overlap, value: off/dp_overlap, value: on/' "$TOP/scenarios/profiles/stacks/luoshu-cuda.yaml" >on.yaml
for zero in 1 3; do
    "$LUOSHU" plan uniform --model "$M" --cluster "$C" --dp 2 --tp 1 --pp 1 --zero $zero --global-batch-size 8 --micro-batch-size 2 --seq-length 64 \
        --out zero$zero.json --quiet >/dev/null
    [ $zero = 3 ] || sed -i 's/"zero": 1,/"zero": 1, "bucket_rule": "mib", "bucket_mib": 0.05,/' zero1.json
    with="zero$zero.json --model $M --cluster $C --steps 2 --trace-steps 1 --plots off --quiet"
    "$LUOSHU" sim $with --out sim$zero >/dev/null; order sim$zero
    "$LUOSHU" run $with --backend host --out host$zero >/dev/null; order host$zero
    "$LUOSHU" sim $with --stack megatron-core --out overlaps$zero >/dev/null; order overlaps$zero
    "$LUOSHU" run $with --backend host --stack on.yaml --out host-overlaps$zero >/dev/null; order host-overlaps$zero
    "$LUOSHU" sim $with --stack deepspeed-zero3 --out turns$zero >/dev/null; order turns$zero
done
