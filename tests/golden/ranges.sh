# How sure a step is: with constants that nobody gave there is a warning and a wide range, with measured ones neither; with
# spread 0 everywhere, and no spread of source and model, there is none. The steps are the same. Draws have the range.
values() { # PROVENANCE AND SPREAD
    local v; for v in gemm_ratio,0.8 memory_ratio,0.72 attention_forward_ratio,0.3 attention_backward_ratio,0.33 net_ratio,0.9 \
        net_half_bytes,13450000 net_step_us,2.7 launch_us,4 p2p_us,10; do
        echo "  - {name: ${v%,*}, value: ${v#*,}, source: invented for this test, provenance: $1}"
    done
}
profile() { # NAME [PROVENANCE AND SPREAD]
    cat <<END
schema: luoshu.profile/1
name: $1
values:
  - {name: peak_f32_tflop_per_s, value: 100, source: invented for this test, provenance: chosen}
  - {name: memory_gbytes_per_s, value: 1000, source: invented for this test, provenance: chosen}
  - {name: memory_gib, value: 80, source: invented for this test, provenance: chosen}
END
    [ $# = 1 ] || values "$2"
}
stack() { # NAME [PROVENANCE AND SPREAD]
    printf 'schema: luoshu.stack/1\nname: %s\nvalues:\n' "$1"
    local v; for v in host_launch_us,15 busbw_factor,1 tp_exposed_factor,1; do
        echo "  - {name: ${v%,*}, value: ${v#*,}, source: invented for this test, provenance: ${2:-chosen}}"
    done
    [ "$1" != sure ] || for v in source_spread residual_spread; do
        echo "  - {name: $v, value: 0, source: invented for this test, provenance: chosen}"
    done
}
for kind in open known sure; do
    case $kind in open) how=; ;; known) how=measured ;; sure) how="measured, spread: 0" ;; esac
    profile $kind ${how:+"$how"} >$kind.profile; stack $kind ${how:+"$how"} >$kind.stack
    cat >$kind-cluster.yaml <<END
schema: luoshu.cluster/1
name: c
node_groups:
  - {name: ga, nodes: 1, devices_per_node: 4, profile: $kind.profile, scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 100}}
END
    cat >$kind.yaml <<END
schema: luoshu.scenario/1
name: ranges
cluster: $kind-cluster.yaml
stack: $kind.stack
model: $TOP/scenarios/models/tiny-llama.yaml
planner: {name: uniform}
extent: {steps: 2}
data: {batch: {sequences: 8}, lengths: {kind: fixed, tokens: 128}}
policies: [{name: static}, {name: restart}]
END
    echo "$kind"; echo "$kind" >&2
    "$LUOSHU" sim $kind.yaml --out $kind --plots off --quiet --draws 200 | grep -v "csv\|json\|goodput:"
    cmp <(cut -d, -f1-9 open/static/steps.csv) <(cut -d, -f1-9 $kind/static/steps.csv)
    cut -d, -f2,23-25 $kind/compare.csv
    wc -l <$kind/static/draws.csv; cmp $kind/static/draws.csv $kind/restart/draws.csv
done
"$LUOSHU" compare open known --out both --allow-different | tail -n 3
"$LUOSHU" sim open.yaml --draws 0
