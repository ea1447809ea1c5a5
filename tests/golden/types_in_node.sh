# Nodes of several types: planners' plans check, fit each device's memory and run the same folded or not; one that only
# the larger type has room for is refused by the smaller one.
S=$TOP/scenarios; C=$S/clusters/rtx4090-t4-2x8.yaml; M=$S/models/llama-1b.yaml
"$LUOSHU" explain "$C" | sed -n 3,5p
plan() { "$LUOSHU" plan "$1" --model "$2" --cluster "$C" --force --out "$1.json" "${@:3}" >out 2>/dev/null || { echo "$1: exit $?"; cat out; }; }
plan uniform "$M" --global-batch-size 32 --seq-length 1024
plan malleus "$M" --global-batch-size 32 --seq-length 1024 --dp 2 --pp 4 --tp 2
plan hap "$S/models/tiny-gpt.yaml" --batch 64 --dtype bf16
step() { # FOLD
    "$LUOSHU" sim "$p.json" --model "$model" --cluster "$C" --steps 1 --plots off --fold "$1" --out "$p-$1" >/dev/null 2>&1 || echo "$p $1: exit $?"
    sed -n 2p "$p-$1/plan/steps.csv" | cut -d, -f6
}
for p in uniform malleus hap; do
    model=$M; [ $p != hap ] || model=$S/models/tiny-gpt.yaml
    "$LUOSHU" check $p.json --model "$model" --cluster "$C" 2>/dev/null
    [ "$(step on)" = "$(step off)" ] && echo "folded or not: the same step"
    awk -F, 'NR > 1 {n[$4]++; if ($18 != "fits" || $7 < $8 + $15) print "does not fit:", $0} END {print n["rtx-4090"], "rtx-4090,", n["t4"], "t4"}' $p-on/plan/memory.csv
done
B=$S/models/llama-7b.yaml; at="--model $B --cluster $C"
plan uniform "$B" --global-batch-size 8 --seq-length 1024 --tp 4 --pp 2 --dp 1 --recompute full
grep -o '"devices": \[.*\], "re' uniform.json
"$LUOSHU" plan uniform $at --global-batch-size 8 --seq-length 1024 --tp 4 --pp 1 --dp 4 --zero 1 --recompute full 2>&1 | grep -o 'the tightest stage (device [0-9]*)'
sed 's/\[0, 1, 2, 3\]/[4, 5, 6, 7]/; s/\[8, 9, 10, 11\]/[12, 13, 14, 15]/' uniform.json >t4.json
"$LUOSHU" sim t4.json $at --steps 1 --plots off 2>&1 | grep -oE 'on device [0-9]+ \(lab-0/[0-9]+\)'
# a 3080 and a 4090 in one box, two of them: what is planned for them, and that it runs
cat >box.yaml <<'X'
schema: luoshu.cluster/1
name: box
node_groups:
  - {name: box, nodes: 2, devices_per_node: 2, profiles: [rtx-3080, rtx-4090], pcie: {bandwidth_gbytes_per_s: 24, latency_us: 1.5},
     nics: {count: 1, bandwidth_gbytes_per_s: 12.5, latency_us: 2}}
fabric: {kind: single, hop_latency_us: 0.5}
X
C=box.yaml; M=$S/models/llama-125m.yaml
"$LUOSHU" check box.yaml; "$LUOSHU" explain box.yaml | sed -n 4,5p
plan malleus "$M" --global-batch-size 32 --seq-length 1024 --dp 2 --pp 2 --tp 1
grep -o '"layers": \[\[.*"devices": \[[0-9, ]*\]' malleus.json
plan auto "$M" --global-batch-size 32 --seq-length 1024; "$LUOSHU" check auto.json --model "$M" --cluster box.yaml
"$LUOSHU" sim malleus.json --model "$M" --cluster box.yaml --steps 1 --plots off --out box-run >/dev/null 2>&1; cut -d, -f1-3 box-run/plan/devices.csv
