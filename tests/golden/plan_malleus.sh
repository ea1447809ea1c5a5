# check-more
# Planner `malleus` on public settings (the computed vectors: PL1) and on a small cluster: table, transition,
# document. Planning time is the wall's: its line and key are left out.
S=$TOP/scenarios
p() { "$LUOSHU" plan malleus "$@" >out; code=$?; grep -v '^planning: ' out | sed 's/"elapsed_ms": [0-9.]*/"elapsed_ms": 0/'; echo "exit $code"; }
big() { p --model "$S/models/llama-70b.yaml" --cluster "$S/clusters/a100-64.yaml" --params "$HERE/inputs/k70.yaml" --dp 2 --tp 8 --pp 4 "$@"; }
echo "== healthy: 640 and 700"; big --out base.json
printf 'device,rate\n0,12.53\n' >r.csv
echo "== PL1: 734.40"; big --rates r.csv --prev base.json --out one.json
echo "== the same again moves nothing"; big --rates r.csv --prev one.json --out two.json | grep -E 'transition|^plan'
small() { p --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" "$@"; }
printf 'device,rate,state\n1,2.57,used\n6,inf,failed\n7,1.1,standby\n' >s.csv
echo "== document"; small --rates s.csv --seq-length 64 --dp 2 --pp 1 --tp 4 --micro-batches 8 --top 2 --json --out s.json
small --prev s.json --rates s.csv --top 2 --json --force >a.json; cp plan.json first.json
small --prev s.json --rates s.csv --top 2 --json --force | cmp - a.json && cmp plan.json first.json && echo same
"$LUOSHU" check "$HERE/inputs/k70.yaml" s.csv
echo "== a run begins with the same plan as the verb makes"
cat >m.yaml <<Y
schema: luoshu.scenario/1
name: mixed
cluster: $S/clusters/mixed48.yaml
model: $S/models/llama-32b.yaml
extent: {steps: 2}
data: {batch: {sequences: 64}, lengths: {kind: fixed, tokens: 4096}}
policies:
  - {name: static}
  - {name: static, label: shares, planner: {name: malleus}}
Y
"$LUOSHU" sim m.yaml --plots off --trace-steps none --quiet >out; echo "exit $?"
awk -F, '{print $1, $6, $20, $21}' mixed-seed0/compare.csv
p --model "$S/models/llama-32b.yaml" --cluster "$S/clusters/mixed48.yaml" --out mixed.json | grep -E '^plan|^ |^simu'
echo "== no slower than uniform 1F1B plans with layers by type"
V="--model $S/models/llama-1b.yaml --cluster $S/clusters/v100x8-p100x21.yaml --seq-length 1024 --force"
for x in "malleus" "uniform --schedule 1f1b --zero 1"; do
    # shellcheck disable=SC2086 # words
    "$LUOSHU" plan $x $V 2>/dev/null | sed -nE 's/^simulated step( of the first)?: ([0-9.]+) s.*/\2/p'
done | awk 'NR == 1 {a = $1} END {print a <= 1.0001 * $1 ? "yes" : "no: " a " and " $1}'
