# Exchanges of experts and a layer with them: text, tables, figures; the same again byte for byte; every sentence.
S=$TOP/scenarios
moe() { "$LUOSHU" moe "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: $(echo "moe $*" | sed "s|$TOP/||g")"; }
one="--cluster $S/clusters/v100x8-p100x21.yaml --devices-per-node 8"
moe exchange $one --free-gib 1 --out one
awk 'NR % 60 == 1' one/a2a_sweep.csv
cut -d, -f1,2 one/a2a_sweep.csv | sort | uniq -c
cat one/summary.json
cp -r one first; moe exchange $one --free-gib 1 --out one --force >/dev/null; diff -r one first && echo "the same again"
moe exchange --cluster $S/clusters/a100-64.yaml --nodes 4 --plots off --out many
moe exchange --cluster $S/clusters/a100-32x1.yaml --plots off --out alone | tail -n 5
tail -n 1 alone/a2a_sweep.csv

layer="--model $S/models/deepseek-v2-lite.yaml --cluster $S/clusters/a100-64.yaml"
moe layer $layer --out layer
head -n 5 layer/moe_layer.csv
moe layer $layer --expert-parallel 8 --tokens 1024 --plots off --out layer --force --json 2>text
cat text
ls layer
moe layer $layer --exchange 2d --plots off --out layer --force | head -n 3
moe layer $layer --exchange leader --plots off --out layer --force | head -n 3

moe everything; moe layer $layer --exchange ring; moe exchange $one --exchange 2d; moe exchange; moe exchange --cluster $S/clusters/tiny2.yaml; moe layer --cluster $S/clusters/tiny8.yaml
moe exchange --cluster $S/clusters/v100x8-p100x21.yaml; moe exchange --cluster $S/clusters/a100-32x1.yaml --devices-per-node 2
moe exchange $one --tokens 3; moe layer $layer --nodes 3; moe exchange $one --nodes 1; moe exchange $one --seed 1
moe exchange $one --out one; moe exchange scenario.yaml; moe layer $layer --expert-parallel 65; moe layer $layer --tokens 0
moe layer --model $S/models/llama-7b.yaml --cluster $S/clusters/tiny8.yaml
moe layer --model $S/models/mixtral-8x7b.yaml --cluster $S/clusters/a100-64.yaml --expert-parallel 9
