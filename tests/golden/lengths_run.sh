# check-more
# Sequences of uneven length: every step of every policy, who took the first sequences, and a failure
# in the middle, told by steps: replicas for seven devices, the batches of lost steps again, and back.
S=$TOP/scenarios
cat >l.yaml <<END
schema: luoshu.scenario/1
name: lengths
seed: 5
cluster: $S/clusters/tiny8.yaml
model: $S/models/tiny-llama.yaml
extent: {steps: 4}
data:
  batch: {tokens: 1024}
  lengths: {kind: lognormal, median_tokens: 60, sigma: 1.0, low_tokens: 8, high_tokens: 128}
policies: [{name: padding}, {name: pack_static}, {name: pack_dynamic}, {name: uniform_best}, {name: hotspa}, {name: one_plan}, {name: hydraulis}]
END
"$LUOSHU" check l.yaml
"$LUOSHU" sim l.yaml --out out --plots off --quiet --trace-steps none; echo "exit $?"
for p in padding pack_static pack_dynamic uniform_best hotspa one_plan hydraulis; do
    echo "== $p"
    cut -d, -f1-11 out/$p/steps.csv
    head -n 4 out/$p/assignment.csv
    awk -F, 'NR > 1 {n[$1]++; t[$1] += $3} END {for (s = 0; s < 4; s++) print "step", s, n[s], "sequences", t[s], "tokens"}' out/$p/assignment.csv
done
"$LUOSHU" sim l.yaml --out gone --plots off --quiet --trace-steps none --set extent.steps=18 --set 'checkpoint={every_steps: 4}' \
    --set 'policies=[{name: hydraulis, planner_s: 0.5, workers: 2}]' --set 'costs={detect_fail_s: 1, process_start_s: 1}' \
    --set 'events=[{id: gone, kind: fail, target: "device:3", at_s: 2.6, duration_s: 3.3}]'; echo "exit $?"
cut -d, -f1-8,20-21 gone/hydraulis/steps.csv
cat gone/hydraulis/events.csv
grep ',plan,' gone/hydraulis/timeline.csv
