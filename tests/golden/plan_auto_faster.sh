# check-more
# What faster links would gain is what a simulation of that plan on that cluster gives.
S=$TOP/scenarios M=$TOP/scenarios/models/llama-1b.yaml
cluster() { # NAME NIC UPLINK NVLINK PCIE
    cat >"$1.yaml" <<end
schema: luoshu.cluster/1
name: $1
node_groups:
  - name: h100
    nodes: 4
    devices_per_node: 2
    profile: $S/profiles/h100.yaml
    racks: [r0, r0, r1, r1]
    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: $4, latency_us: 1.0}
    pcie: {bandwidth_gbytes_per_s: $5, latency_us: 1.5, devices_per_switch: 2, sockets: 2, socket_gbytes_per_s: $5}
    nics: {count: 1, bandwidth_gbytes_per_s: $2, latency_us: 2.0, attach: shared}
fabric: {kind: two_tier, hop_latency_us: 0.5, rack_uplink_gbytes_per_s: $3}
end
}
step() { # CLUSTER: seconds of a step of plan.json
    "$LUOSHU" sim plan.json --model "$M" --cluster "$1.yaml" --steps 1 --out sim --force --plots off --quiet >/dev/null
    grep -o '"step_mean_s": [0-9.]*' sim/plan/summary.json | cut -d' ' -f2
}
cluster slow 5 20 450 50
cluster between 500 2000 450 50
cluster inside 5 20 45000 5000
"$LUOSHU" plan auto --model "$M" --cluster slow.yaml --dp 8 --tp 1 --pp 1 --zero 0 --global-batch-size 16 --force >out
grep '^of the step' out
for c in slow between inside; do awk -v s="$(step $c)" -v c=$c 'BEGIN {printf "%s: %.6g s\n", c, s}'; done
said=$(sed -n 's/.*100 times as fast, \([0-9.]*\) s.*/\1/p' out)
awk -v said="$said" -v s="$(step between)" 'BEGIN {if (said != sprintf("%.6g", s)) print "said " said ", simulated " s}'
