# Slowdowns that overlap multiply up to 1e6 and no further, which the run says once; dates in the
# trace stay dates. What lasts beyond the longest run is refused, with the step.
S=$TOP/scenarios
scenario() { # CLUSTER STEPS
    cat <<END
schema: luoshu.scenario/1
name: overlap
cluster: $1
model: $S/models/tiny-llama.yaml
extent: {steps: $2}
data: {batch: {sequences: 8}, lengths: {kind: fixed, tokens: 16}}
policies: [{name: static}]
events:
END
}
overlap() { # N KEYS
    scenario "$S/clusters/tiny8.yaml" 3
    for i in $(seq "$1"); do
        echo "  - {id: s$i, kind: straggler, target: \"device:0\", slowdown: 3, at_step: 1$2}"
    done
}
overlap 30 '' >thirty.yaml
overlap 50 ', duration_s: 1' >fifty.yaml
for name in thirty fifty; do
    "$LUOSHU" sim $name.yaml --out $name --plots off --quiet >/dev/null; echo "$name: exit $?"
    zcat $name/static/trace.json.gz | grep -c '"ts":-'
    zcat $name/static/trace.json.gz | grep -o '"name":"dev 0 slowdown".*' | tail -n 1
    grep -c 'slowdowns of device 0 make' $name/static/summary.json
done
grep -o 'slowdowns of device 0 make.*[^"]' thirty/static/summary.json
cat >far.yaml <<END
schema: luoshu.cluster/1
name: far
node_groups:
  - {name: a, nodes: 2, devices_per_node: 1, profile: $S/profiles/a100-80.yaml,
     nics: {count: 1, bandwidth_gbytes_per_s: 1e-6}}
fabric: {kind: single}
END
scenario far.yaml 400 | sed "/^data/s|.*|plan: $HERE/plans/tiny-pp2.json|" >long.yaml
for k in 0 1; do
    echo "  - {id: l$k, kind: link, target: \"link:a-$k/nic0\", bandwidth_factor: 1e-6, at_step: 1}"
done >>long.yaml
"$LUOSHU" sim long.yaml --out long --plots off --quiet; echo "long: exit $?"
