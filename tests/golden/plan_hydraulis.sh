# Times of this machine are left out; lengths are synthetic.
S=$TOP/scenarios
p() { "$LUOSHU" plan hydraulis --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" --grid 16 "$@" >out
    code=$?; sed -E 's/ \([0-9.]+ s\)$//; s/"plan_ms": [0-9.]+/"plan_ms": 0/' out; echo "exit $code"; }
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
# an imported trace: 200 tokens and more are beyond the context of 128
printf '{"timestamp": %d, "input_length": %d, "output_length": 8}\n' 0 12 5 192 9 30 12 442 20 61 >trace.jsonl
"$LUOSHU" import lengths-mooncake trace.jsonl
for how in cut split; do
    p --lengths lengths.csv --long $how --budget 1000 --ctx 128 --os 2,4,1 --force --proposal floor | head -2
done
"$LUOSHU" import lengths-mooncake trace.jsonl --histogram log2 --out log2.csv
p --lengths log2.csv --budget 1000 --ctx 128 --os 2,4,1 --force --proposal floor | head -2
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
p --lengths classes.csv --kicks 3
printf 'tp,pp,a_ms_per_token2,b_ms_per_token,c_ms,cap_tokens,util_tokens\n3,1,0,0.1,1,64,0\n1,9,0,0.1,1,64,0\n' >uncut.csv
p --lengths classes.csv --pool uncut.csv
p --lengths classes.csv --tp 2
p
