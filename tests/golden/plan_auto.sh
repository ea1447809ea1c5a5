# check-more
# Planning time is the wall's, so its line is left out.
S=$TOP/scenarios
p() { "$LUOSHU" plan auto --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" --force "$@" >out
    code=$?; grep -v '^planning: \|"time_s"' out; echo "exit $code"; }
b() { p --global-batch-size 16 --seq-length 64 "$@"; }
b
"$LUOSHU" check plan.json --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml"
b --tp 2 --pp 2 --zero 1 --schedule 1f1b --json
b --recompute full --layers equal --pp 2
# a slow device, and one that is down; the plans beside the best are written as well
printf 'device,rate\n5,3\n6,inf\n' >rates.csv
b --rates rates.csv --top 3
ls plan*.json
# two types: what cannot win by its closed form is not simulated
p --model "$S/models/llama-7b.yaml" --cluster "$S/clusters/h20x16-h800x16.yaml" --global-batch-size 4 --seq-length 2048 --out mixed.json
# parts that are pinned
sed '0,/"layers":/s//"pinned": ["\/zero", "\/schedule"],\n "layers":/' plan.json >pinned.json
b --prev pinned.json --rates rates.csv
b --prev pinned.json --schedule gpipe
b --prev pinned.json --zero 3
sed '0,/"layers":/s//"pinned": ["\/pipelines\/0\/stages\/0\/devices"],\n "layers":/' plan.json >pinned.json
b --prev pinned.json --out again.json
b --prev plan.json
# sequences that differ in length
printf 'low_tokens,high_tokens,count\n8,16,400\n16,64,80\n64,129,6\n' >classes.csv
p --lengths classes.csv --budget 2000 --ctx 128
p --lengths classes.csv --budget 2000 --ctx 128 --steps 1 --rank objective --json
# what does not go together, or cannot be
p --lengths classes.csv --tp 2
p --ctx 128
b --grouping split2
b --micro-batch-size 3
p --model "$S/models/llama-70b.yaml"
p --model "$S/models/llama-70b.yaml" --zero 0 --recompute none --pp 2
# sequences are as long as the model takes, and no longer
for planner in uniform malleus hap auto; do "$LUOSHU" plan $planner --model "$S/models/tiny-gpt.yaml" --cluster "$S/clusters/tiny8.yaml" --seq-length 129; done
p --model "$S/models/tiny-gpt.yaml"; grep -m 1 '"sequence_tokens"' plan.json
p --lengths classes.csv --ctx 256
# rows of experts that have to cross nodes with one card: inside the nodes first; where each device has all experts, they need not
sed "s#profile: .*#profile: $S/profiles/a100-80.yaml#; s/nodes: 2/nodes: 4/; s/devices_per_node: 4/devices_per_node: 8/; s/nics: {count: 4/nics: {count: 1/; s/name: tiny8/name: one-card/" "$S/clusters/tiny8.yaml" >one-card.yaml
e() { p --model "$S/models/deepseek-v2-lite.yaml" --cluster one-card.yaml --global-batch-size 32 --pp 1 --tp 1 --dp 32 "$@" | grep -v '^plan '; grep -o '"moe_exchange": "[^"]*"' plan.json; }
e --seq-length 256
"$LUOSHU" check plan.json --model "$S/models/deepseek-v2-lite.yaml" --cluster one-card.yaml
e --seq-length 4096
