# What asks for more work than a limit is refused before it runs, with the limit, its value and how
# to raise it; --limit raises, and lowers.
S=$TOP/scenarios W="--model $TOP/scenarios/models/tiny-llama.yaml --cluster $TOP/scenarios/clusters/tiny2.yaml"
plan() {
    echo "{\"schema\": \"luoshu.plan/1\", \"layers\": 4, \"devices\": 2, \"dtype\": \"f32\","
    echo " \"sequence_tokens\": 16, \"pipelines\": [{\"micro_batches\": $1, \"stages\": ["
    echo "  {\"layers\": [[0,4]], \"devices\": [0]}]}]}"
}
scenario() { # SEQUENCES EXTENT
    cat <<END
schema: luoshu.scenario/1
name: limits
cluster: $S/clusters/tiny8.yaml
model: $S/models/tiny-llama.yaml
extent: {$2}
data: {batch: {sequences: $1}, lengths: {kind: fixed, tokens: 128}}
policies: [{name: static}]
END
}
flap='  - {id: f, kind: flap, target: "node:a-0", down_s: 1e-9, up_s: 1e-9, duration_s: 10, at_s: 0}'
often='  - {id: p, kind: straggler, target: "group:a", distribution: exponential, mean_s: 1e-9, duration_s: 1e-9, slowdown: 2}'
plan 1000000 >million.json; plan 8 >eight.json
scenario 8000000 'steps: 2' >sequences.yaml
{ scenario 32 'steps: 9'; echo events:; echo "$flap"; } >flap.yaml
{ scenario 32 'duration_s: 10'; echo processes:; echo "$often"; } >often.yaml
{ scenario 32 'steps: 9'; echo processes:; echo "$often"; } >steps.yaml
{ scenario 32 'steps: 2'; echo events:
  for i in 1 2 3; do echo "  - {id: e$i, kind: fail, target: \"device:0\", at_step: $((i + 9))}"; done; } >events.yaml
l() { "$LUOSHU" "$@" >out; local rc=$?; echo "exit $rc: ${*/#$TOP\//}" | sed "s| --model.*||"; }
l check million.json; l sim million.json $W; l explain million.json $W; l switch million.json eight.json $W
l check eight.json --limit micro-batches=7; l check million.json --limit micro-batches=1000000
for f in sequences flap often events; do l check $f.yaml; l sim $f.yaml --out $f --plots off; done
l check events.yaml --limit events=2
l check events.yaml --limit events=2 --limit events=3
# AddressSanitizer reserves terabytes of addresses
case $LUOSHU in */address*) ;; *) ulimit -v 4000000 ;; esac
l sim steps.yaml --out steps --plots off --trace-steps none --limit changes=1000
l sim eight.json $W --out all --plots off --trace-steps all --limit operations=50
l sim eight.json $W --out auto --plots off --quiet --limit operations=50
grep -o 'steps are not traced.*[^"]' auto/plan/summary.json
l plan uniform $W --global-batch-size 2000000
# A plan that is written passes the check that it will get.
one="--tp 1 --pp 1 --dp 1 --rank objective --limit micro-batches=100"
l plan uniform $W --global-batch-size 1024 $one --out kept.json; l check kept.json --limit micro-batches=100
l plan uniform $W --global-batch-size 1024 $one --micro-batch-size 1 --out over.json
l check eight.json --limit event=3; l check eight.json --limit events; l check eight.json --limit events=0
l check eight.json --limit events=1e9; l compare a b --limit events=3
"$LUOSHU" help limits
