# check-more
# Times of this machine are left out; lengths are synthetic.
S=$TOP/scenarios
p() { "$LUOSHU" plan hydraulis --model "${model:-$S/models/tiny-llama.yaml}" --cluster "$S/clusters/tiny8.yaml" --grid 16 "$@" >out
    code=$?; sed -E 's/ \([0-9.]+ s\)$//; s/"(plan_ms|planner_stall_s)": [0-9.]+/"\1": 0/' out; echo "exit $code"; }
cat >classes.csv <<'CSV'
low_tokens,high_tokens,count
8,16,400
16,64,80
64,129,6
CSV
p --lengths classes.csv --budget 2000 --steps 2 --rank objective --ctx 128 --os 2,4,1 --proposal floor
"$LUOSHU" check plan.json --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml"
"$LUOSHU" check classes.csv
cat >pool.csv <<'CSV'
tp,pp,a_ms_per_token2,b_ms_per_token,c_ms,cap_tokens,util_tokens
1,1,4e-6,0.08,2,64,16
4,1,1e-6,0.03,5,256,32
CSV
p --lengths classes.csv --budget 2000 --steps 1 --pool pool.csv --force --os 2,4,1 --json --rank objective
printf 'device,rate\n5,2\n' >rates.csv
p --lengths classes.csv --budget 2000 --steps 1 --pool pool.csv --force --rates rates.csv --os 2,4,1 --rank objective
# a tensor group of four is cut around the slow device; the plan of that step is the file, and has room
printf 'device,rate\n5,2.57\n' >slow.csv
model=$S/models/llama-13b-32k.yaml
for how in dispatch joint; do
    p --lengths syn-web --ctx 16384 --grid 1024 --budget 200000 --steps 1 --rates slow.csv --stragglers $how --rank objective --seed 5 \
        --force | sed '/^lengths/,/^plans/d' | grep -v '^ .* x ('
    "$LUOSHU" check plan.json --model "$model" --cluster "$S/clusters/tiny8.yaml"
done
p --lengths syn-web --ctx 16384 --grid 1024 --budget 200000 --steps 1 --rates slow.csv --stragglers joint --rank objective --seed 5 \
    --force --json | grep -o '"listed".*"stages": .*\]}\], "devices"' | sed 's/"micro_batches": \[\[.*\]\]/"micro_batches": ../'
model=
p --lengths classes.csv --stragglers joint
p --lengths classes.csv --budget 2000 --steps 1 --pool pool.csv --stragglers joint
p --lengths classes.csv --budget 2000 --steps 1 --stragglers none
# an imported trace: 200 tokens and more are beyond the context of 128
printf '{"timestamp": %d, "input_length": %d, "output_length": 8}\n' 0 12 5 192 9 30 12 442 20 61 >trace.jsonl
"$LUOSHU" import lengths-mooncake trace.jsonl
for how in cut split; do
    p --lengths lengths.csv --long $how --budget 1000 --ctx 128 --os 2,4,1 --force --proposal floor | head -3
done
"$LUOSHU" import lengths-mooncake trace.jsonl --histogram log2 --out log2.csv
p --lengths log2.csv --budget 1000 --ctx 128 --os 2,4,1 --force --proposal floor | head -3
# the published pool with its own memory formula: strategies and their caps; half of what moves is hidden, in bf16
big() { "$LUOSHU" plan hydraulis --model "${model:-$S/models/llama-32b.yaml}" --cluster "$S/clusters/a800-32.yaml" \
    --pool "$S/pools/32b-a800.csv" --force "$@" >out; code=$?; grep -v '^ .*mixed' out | sed -E 's/ \([0-9.]+ s\)$//'
    echo "exit $code"; }
big --lengths syn-web --ctx 32768 --os 2,16,1 --proposal floor --grid 8192 --params "$S/pools/32b-a800.yaml"
{ cat "$S/pools/32b-a800.yaml"; printf 'prop_overlap: 0.5\ngrad_bytes: 2\n'; } >half.yaml
big --lengths syn-web --ctx 32768 --os 2,16,1 --proposal floor --grid 8192 --params half.yaml --memory model --steps 1 \
    --rank objective | sed '/^strategies/,/^plans/d'
printf 'length_tokens\n100\n40000\n' >long.csv
wide() { sed "s/^max_sequence_tokens: .*/max_sequence_tokens: 65536/" "$S/models/$1.yaml" >wide.yaml; } # takes longer sequences
wide llama-32b; model=wide.yaml big --lengths long.csv --ctx 65536 --os 2,16,1 --grid 8192 --params "$S/pools/32b-a800.yaml" | tail -n 1
# the formula on strategies of the cost model, with constants of the model
p --lengths classes.csv --budget 2000 --force --os 2,4,1 --proposal floor --memory table | sed '/^plans/,$d'
# a pool of the cost model as a table gives the plans that are made without one
"$LUOSHU" calibrate --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" --os 2,4,1 --ctx 128 --out made
head -n 2 made/pool.csv; "$LUOSHU" check made/pool.csv
steps() { p --lengths classes.csv --budget 2000 --force --os 2,4,1 --ctx 128 --steps 2 --rank objective --json "$@" | sed -e '/"pool":/d' -e '/"warnings"/,$d'; }
steps >none.txt; steps --pool made/pool.csv >made.txt; cmp none.txt made.txt && grep -c micro_batches made.txt
"$LUOSHU" calibrate --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" --ranks 2 --out made --force
"$LUOSHU" calibrate --ctx 128 --out measured
"$LUOSHU" calibrate --model "$S/models/tiny-llama.yaml" --out made --force
# one wrong thing each
printf 'length_tokens\n5\n-3\n' >bad.csv
p --lengths bad.csv
printf 'tp,pp,a_ms_per_token2,b_ms_per_token,c_ms,cap_tokens,util_tokens\n4,1,0,0.1,1,0,0\n2,1,0,0,1,0,0\n4,1,0,0.1,1,0,0\n' >badpool.csv
p --lengths classes.csv --pool badpool.csv
p --lengths classes.csv --os 4,16,1
p --lengths classes.csv --os 4
p --lengths classes.csv --budget 100
p --lengths classes.csv --gpu-step 3
p --lengths classes.csv --context-parallel 1,x
p --lengths classes.csv --context-parallel 2,2
p --lengths classes.csv --ctx 4096 --budget 8192 --grid 1
wide tiny-llama; model=wide.yaml p --lengths classes.csv --ctx 4096 --budget 8192 --grid 1
p --lengths classes.csv --kicks 3
printf 'tp,pp,a_ms_per_token2,b_ms_per_token,c_ms,cap_tokens,util_tokens\n3,1,0,0.1,1,64,0\n1,9,0,0.1,1,64,0\n' >uncut.csv
p --lengths classes.csv --pool uncut.csv
printf 'tp,pp,a_ms_per_token2,b_ms_per_token,c_ms,cap_tokens,util_tokens\n3,1,0,0.1,1,0,0\n' >three.csv
p --lengths classes.csv --pool three.csv --memory table
printf 'schema: luoshu.params/1\nact_bytes: []\nstate_bytes: 0\noptimizer_share: 1.5\nsafe_gib: -1\nprop_overlap: 2\ngrad_bytes: 3\n' >p.yaml
p --lengths classes.csv --params p.yaml
printf 'schema: luoshu.params/1\nact_bytes: [1, 2, 3, 4, 5, 6]\ngrad_bytes: 3\n' >p.yaml
p --lengths classes.csv --params p.yaml
p --lengths classes.csv --memory tabel
p --lengths classes.csv --params none.yaml
p --lengths classes.csv --tp 2
p
