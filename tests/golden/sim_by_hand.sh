# Seconds of a step that a person can add up. Every kernel takes 1 ms (launch_us 1000, all else
# nothing) and 4096 bytes take 1 ms, which is the activation [16, 64] in f32 between the stages.
# Stage 0, forward: embedding and 11 kernels for each of 2 layers: a = 23. Backward: 15 for each layer
# and the embedding's gradient: b = 31. Stage 1, forward and backward of a micro-batch: 11 * 2, norm,
# lm_head, sum of exp; its gradient, 2 products, norm, 15 * 2: c = 25 + 34 = 59. 1F1B of 2
# micro-batches: F0 at stage 0, transfer, two micro-batches at stage 1, transfer, B1 at stage 0, then
# the norm of all gradients (4 bytes: 4/4096000 s) and the update (1): a + 1 + 2c + 1 + b + 1 = 175 ms.
# With half the bandwidth, transfers of 2 ms: 177 ms and 8/4096000 s. With device 1 slower by 2 in the
# first 290 ms, which is all but the update: a + 1 + 2*2c + 1 + b + 1 = 293 ms.
cat >slow.yaml <<'END'
schema: luoshu.profile/1
name: slow
values:
  - {name: peak_f32_tflop_per_s, value: 1e9, source: for this test, provenance: chosen}
  - {name: memory_gbytes_per_s, value: 1e9, source: for this test, provenance: chosen}
  - {name: memory_gib, value: 1, source: for this test, provenance: chosen}
  - {name: reserved_gib, value: 0, source: for this test, provenance: chosen}
  - {name: launch_us, value: 1000, source: for this test, provenance: chosen}
  - {name: p2p_us, value: 0, source: for this test, provenance: chosen}
  - {name: net_ratio, value: 1, source: for this test, provenance: chosen}
  - {name: net_half_bytes, value: 0, source: for this test, provenance: chosen}
END
cat >stack.yaml <<'END'
schema: luoshu.stack/1
name: none
values: [{name: host_launch_us, value: 0, source: for this test, provenance: chosen}]
END
cat >two.yaml <<'END'
schema: luoshu.cluster/1
name: two
node_groups:
  - name: a
    nodes: 2
    devices_per_node: 1
    profile: slow.yaml
    nics: {count: 1, bandwidth_gbytes_per_s: 0.004096}
fabric: {kind: single}
END
sed 's/0.004096/0.002048/' two.yaml >half.yaml
cat >day.yaml <<END
schema: luoshu.scenario/1
name: day
cluster: two.yaml
model: $TOP/scenarios/models/tiny-llama.yaml
plan: $HERE/plans/tiny-pp2.json
stack: stack.yaml
extent: {steps: 4}
policies: [{name: static}]
events:
  - {id: slow, kind: straggler, target: "device:1", slowdown: 2, at_step: 1, duration_s: 0.29}
END
steps() { awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i; next} {printf "%s ", $c} END {print ""}' "$1"; }
with="--model $TOP/scenarios/models/tiny-llama.yaml --stack stack.yaml --plots off --force --steps 1"
for comm in model flow message; do
    for c in two half; do
        "$LUOSHU" sim "$HERE/plans/tiny-pp2.json" --cluster $c.yaml $with --comm $comm --out o >/dev/null
        echo "$c $comm $(steps o/plan/steps.csv)"
    done
done
awk 'BEGIN {printf "by hand %.9f %.9f %.9f\n", 0.175 + 4/4096000, 0.177 + 8/4096000, 0.293 + 4/4096000}'
"$LUOSHU" sim day.yaml --out d --plots off
steps d/static/steps.csv
cut -d, -f 3-8 d/static/timeline.csv | head -n 3
cut -d, -f 2,4-9 d/static/events.csv
awk -F, '$9 == "layers.2.in" || $9 == "update" {print $2, $4, $6, $9, $13, $(NF-2), $(NF-1)}' d/static/ops.csv | head -n 6
