# C1 -> C2 of the HSPMD artifact: plan 12 to plan 13 with device 31 dead. the computed vectors counts
# elements without norms; state is 12 bytes an element. Each layer has two norm weights of 6656,
# whole on each device of its stage. Layer 15 goes to devices 16-19 (held by 20-23 of their node:
# class 1, 4*2), layers 30 and 31 to 20-23 (held by other nodes: class 3, 4*2*2), layers 45 to 47 to
# 24-27 (held by 28-30 of their node: class 1, 4*3*2). 28, 29 and 30 keep the norms they hold.
P=$TOP/scenarios/plans/published
s() {
    "$LUOSHU" switch "$P/plan-12.json" "$P/plan-13.json" --model "$TOP/scenarios/models/llama-32b.yaml" \
        --cluster "$TOP/scenarios/clusters/h20-32.yaml" --dead 31 "$@"
}
expect() { # CLASS1 CLASS3 WHAT: elements of 19.8 with the norms
    want="bytes class1 $((12 * $1)) class2 0 class3 $((12 * $2)) (total $((12 * ($1 + $2)));"
    case $got in *"$want"*) echo "$3: as computed" ;; *) echo "$3: want $want"; echo "got $got" ;; esac
}
near=$((32 * 6656)) far=$((16 * 6656))
got=$(s | head -n 1);                          expect $((5050892288 + near)) $((3127361536 + far)) "exact, unasked"
got=$(s --planner greedy | head -n 1);         expect $((5050892288 + near)) $((3127361536 + far)) greedy
got=$(s --planner greedy --reset tensor | head -n 1); expect $((5050892288 + near)) $((3127361536 + far)) "greedy, reset tensor"
got=$(s --planner minrank | head -n 1);        expect 0 $((8178253824 + near + far)) minrank
s
s --planner minrank --json
