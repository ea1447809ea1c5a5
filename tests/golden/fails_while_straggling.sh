# A device that fails in a step made long by stragglers, 250 times what was looked ahead for once: the
# run ends at that date, and nothing is computed on it afterwards. An outage inside the step is noticed.
day() { # FAILURE
    cat <<END
schema: luoshu.scenario/1
name: straggled
cluster: $TOP/scenarios/clusters/tiny2.yaml
model: $TOP/scenarios/models/tiny-llama.yaml
planner: {name: uniform}
extent: {steps: 4}
data: {batch: {sequences: 4}, lengths: {kind: fixed, tokens: 64}}
costs: {detect_fail_s: 0}
policies: [{name: static}]
events:
  - {id: slow, kind: straggler, target: "device:[0-1]", at_step: 1, slowdown: 1000}
  - {id: gone, kind: fail, target: "device:0", at_s: 0.2$1}
END
}
day >ever.yaml; day ", duration_s: 0.3" >outage.yaml
for s in ever outage; do
    "$LUOSHU" sim $s.yaml --out $s --plots off --quiet --trace-steps all >out
    echo "$s: exit $?"; grep '^static ' out
    cut -d, -f2-8 $s/static/events.csv
    cut -d, -f1-6 $s/static/steps.csv
    awk -F, 'NR > 1 && $4 == 0 && $8 == "COMPUTE" && $18 > 0.2 {n++} END {print "starts on device 0 after the failure:", n + 0}' $s/static/ops.csv
done
