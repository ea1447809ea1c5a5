# check-more
# The published change C1 to C2 of the HSPMD artifact (docs/results-published.md; reported): 7.40 s for operators and communicators,
# 2.17 s for state. Two constants are calibrated on it: 6.17 ms an operator (`costs.operator_s`, instructions of the
# busiest device, beside 0.05 s a communicator), and NICs of 11.4 GB/s, since those of that cluster are not known.
# Calibration, no validation; without balance 5.72 s are reported, which no speed of NICs gives.
S=$TOP/scenarios
sed -e 's/bandwidth_gbytes_per_s: 50, latency_us: 2.0/bandwidth_gbytes_per_s: 11.4, latency_us: 2.0/' \
    -e "s#\.\./profiles#$S/profiles#" "$S/clusters/h20-32.yaml" >slow.yaml
for how in greedy minrank; do
    echo "state to plan 13, $how: $("$LUOSHU" switch "$S/plans/published/plan-12.json" "$S/plans/published/plan-13.json" --dead 31 \
        --planner $how --model "$S/models/llama-32b.yaml" --cluster slow.yaml | grep closed)"
done
sed -e "s#: \.\./#: $S/#" -e '/{name: [^m]/d' -e '/{id: node/d' -e '/^checkpoint/d' -e 's/steps: 90/steps: 3/' -e 's/at_step: 30/at_step: 1/' \
    "$S/papers/hspmd-c1-c3.yaml" >change.yaml
"$LUOSHU" sim change.yaml --out out --quiet --plots off --trace-steps none >log 2>&1 || cat log
awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "specialize_s") c = i} NR == 2 {print "operators and communicators: " $c " s"}' out/malleus/switches.csv
