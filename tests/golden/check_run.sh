# `check` refuses a scenario for what `sim` or `run` would refuse before anything starts, with the
# same sentence and exit code: what a policy asks of its first plan, memory, ranks, types.
S=$TOP/scenarios
scenario() { # PLAN POLICIES
    cat <<END
schema: luoshu.scenario/1
name: checked
cluster: $S/clusters/tiny8.yaml
model: $S/models/tiny-llama.yaml
plan: $1
extent: {steps: 2}
policies:
END
    for p in $2; do echo "  - {name: $p}"; done
}
plan() { # KEYS SHARES CHUNKS
    echo "{\"schema\": \"luoshu.plan/1\", \"layers\": 4, \"devices\": 8, \"dtype\": \"f32\","
    echo " \"sequence_tokens\": 16, $1 \"pipelines\": [{\"micro_batches\": 4, \"stages\": ["
    echo " {\"layers\": $3, \"devices\": [0,1] $2}, {\"layers\": $4, \"devices\": [2,3]}]}]}"
}
plan '' ', "shares": [3,1]' '[[0,2]]' '[[2,4]]' >uneven.json
plan '"schedule": {"kind": "interleaved_1f1b", "chunks": 2},' '' '[[0,1],[2,3]]' '[[1,2],[3,4]]' >inter.json
plan '' '' '[[0,2]]' '[[2,4]]' >even.json
for p in uneven inter even; do scenario $p.json 'static malleus' >$p.yaml; done
scenario inter.json 'static reroute rebalance drop_replica' >refused.yaml
scenario even.json oracle >oracle.yaml
for p in uneven inter even refused; do
    "$LUOSHU" check $p.yaml; echo "check $p: exit $?"
    "$LUOSHU" sim $p.yaml --out $p --plots off --quiet >/dev/null; echo "sim $p: exit $?"
done
ls refused 2>/dev/null # nobody has run
"$LUOSHU" check even.yaml --backend host --ranks 3; echo "exit $?"
"$LUOSHU" check oracle.yaml; echo "exit $?"
"$LUOSHU" check oracle.yaml --backend host; echo "exit $?"
"$LUOSHU" check "$S/demo/demo.yaml" --backend host; echo "exit $?"
"$LUOSHU" check even.yaml --ranks 3; echo "exit $?"
cat >large.json <<'END'
{"schema": "luoshu.plan/1", "name": "large", "layers": 32, "devices": 8, "sequence_tokens": 4096,
 "pipelines": [{"micro_batches": 8, "stages": [{"layers": [[0, 32]], "devices": [0]}]}]}
END
scenario large.json static | sed "s|^model.*|model: $S/models/llama-7b.yaml|" >large.yaml
"$LUOSHU" check large.yaml; echo "check large: exit $?"
"$LUOSHU" sim large.yaml --out large --plots off --quiet >/dev/null; echo "sim large: exit $?"
# Keys of `training` that mean nothing, and waits that go down: at their place.
training() { # NAME KEYS
    sed "s|{name: oracle}|{name: static, training: {$2}}|" oracle.yaml >$1.yaml
    "$LUOSHU" check $1.yaml; echo "check $1: exit $?"
    "$LUOSHU" sim $1.yaml --out $1 --plots off --quiet >/dev/null; echo "sim $1: exit $?"
}
training down 'sync: preduce, adaptive: true, wait_max_s: 0.001, wait_min_s: 0.1'
training fixed 'sync: preduce, wait_max_s: 0.001, wait_min_s: 0.0001'
training short 'sync: preduce, adaptive: true, wait_max_s: 1.0e-6'
