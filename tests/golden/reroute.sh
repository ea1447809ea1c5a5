# A stage without devices: where its micro-batches run, the tasks of a device that runs some, memory as with
# all devices, and who refuses such a plan.
W="--model $TOP/scenarios/models/tiny-llama.yaml --cluster $TOP/scenarios/clusters/tiny8.yaml"
P=$HERE/plans/tiny-lost.json
"$LUOSHU" check "$P" $W
"$LUOSHU" explain "$P" $W --simulate --annotations | sed -n '2,13p;/norm1.weight/p;/^simulated/p'
"$LUOSHU" explain "$P" $W --program 1 | grep -E '^(seg|tasks|slot|device)'
sed 's/"1f1b"/"zb_h1"/' "$P" >zb.json
"$LUOSHU" explain zb.json $W --program 1 | grep -E '^tasks'
"$LUOSHU" plan malleus --prev "$P" $W; echo "exit $?"
cat >s.yaml <<Y
schema: luoshu.scenario/1
name: s
cluster: $TOP/scenarios/clusters/tiny8.yaml
model: $TOP/scenarios/models/tiny-llama.yaml
plan: $P
extent: {steps: 2}
data: {lengths: {kind: fixed, tokens: 64}}
policies: [{name: reroute}]
Y
"$LUOSHU" sim s.yaml --quiet; echo "exit $?"
