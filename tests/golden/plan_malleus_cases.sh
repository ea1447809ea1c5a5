# check-more
# Edge cases and bad input of docs/planners.md#malleus, of the search alone.
S=$TOP/scenarios
say() { # what stands in the answer beside times
    "$LUOSHU" plan malleus --rank filled --force "$@" >out 2>err; code=$?
    grep -E '^ .*\[|^healthy|^standby|^search|^transition' out; cat err; echo "exit $code"; }
any() { say --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" "$@"; }
tiny() { any --seq-length 64 "$@"; }
rates() { printf 'device,rate,state\n'; printf '%s\n' "$@"; }
echo "== fewer groups than dp"; rates 0,inf, 1,inf, 2,inf, 3,inf, 4,inf, >r.csv
tiny --rates r.csv --dp 4 --tp 2 --pp 1 --micro-batches 8
echo "== a node with fewer devices than tp"; rates 0,inf, >r.csv; tiny --rates r.csv --dp 1 --tp 4 --pp 2 --micro-batches 4
echo "== all equally slow"; rates 0,2, 1,2, 2,2, 3,2, 4,2, 5,2, 6,2, 7,2, >r.csv; tiny --rates r.csv --dp 2 --tp 4 --pp 1 --micro-batches 8
echo "== watched, and faster than its type"; rates 0,1.1, 5,1.19, 7,0.7, >r.csv; tiny --rates r.csv --dp 2 --tp 4 --pp 1 --micro-batches 8
echo "== too slow for one layer"; rates 0,900, >r.csv; tiny --rates r.csv --dp 1 --tp 4 --pp 2 --micro-batches 4
echo "== nothing to do, and searched all the same"
tiny --dp 2 --tp 2 --pp 2 --micro-batches 8; tiny --dp 2 --tp 2 --pp 2 --micro-batches 8 --search-healthy
echo "== uneven layers and micro-batches"; tiny --dp 2 --tp 1 --pp 3 --micro-batches 7
echo "== fewer micro-batches than stages"; rates 0,3, >r.csv; tiny --rates r.csv --dp 1 --tp 2 --pp 4 --micro-batches 1
echo "== standby stays, unless it is fast again"
rates 0,3,standby 1,1,standby >r.csv; tiny --rates r.csv --dp 2 --tp 4 --pp 1 --micro-batches 8
echo "== a failed device takes its shard of the optimizer with it"
tiny --dp 2 --tp 2 --pp 2 --micro-batches 8 --zero 1 --out was.json
rates 0,inf, >r.csv; any --rates r.csv --prev was.json; tiny --prev was.json
echo "== sentences"
printf 'device,rate\n0,1\n1,1\n12,2\n2,1\n3,1\n4,0\n5,1\n12,3\n6,1\n99,1\n' >r.csv
big() { say --model "$S/models/llama-70b.yaml" --cluster "$S/clusters/a100-64.yaml" "$@"; }
big --rates r.csv --dp 2 --tp 8 --pp 4
big --tp 6
printf 'schema: luoshu.params/1\ntau_ms: 1\nalpha: [1, 1.9, 1.8]\n' >p.yaml; big --params p.yaml
printf 'schema: luoshu.params/1\nzero_replicas: 2\n' >p.yaml; big --params p.yaml --dp 2 --tp 8 --pp 4
printf 'schema: luoshu.params/1\nalpha: [1, 2]\n' >p.yaml; big --params p.yaml --dp 2 --tp 8 --pp 4
rates 0,inf, 1,inf, 2,inf, 3,inf, 4,inf, 5,inf, 6,inf, 7,inf, >r.csv; tiny --rates r.csv --dp 2 --tp 4 --pp 1
say --model "$S/models/llama-32b.yaml" --cluster "$S/clusters/tiny8.yaml" --dp 1 --tp 4 --pp 2
tiny --dp 4 --tp 1 --pp 1 --micro-batches 3
echo "== usage"
big --dp 8 --tp 8 --pp 4; big --memory table; big --rank best; big --tp 8 --tensor-model-parallel-size 8
big --micro-batches 8 --global-batch-size 8; big --micro-batch-size 3 --global-batch-size 64 --dp 2 --tp 8 --pp 4
"$LUOSHU" plan uniform --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" --rates r.csv; echo "exit $?"
"$LUOSHU" plan uniform --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" --dp auto; echo "exit $?"
