# check-more
# One scenario simulated and run for real: the same programs, the same event log but for its times,
# the same operations but for theirs (issue 3, 4).
D=$HERE/host
"$LUOSHU" sim "$D/events.yaml" --out sim --plots off --quiet >/dev/null
log() { cut -d, -f1,3- "$1/restart/events.csv"; }
# On a busy machine a slow device may be seen a step later: three tries.
for _ in 1 2 3; do
    "$LUOSHU" run "$D/events.yaml" --backend host --out host --force --plots off --quiet >/dev/null; code=$?
    cmp -s <(log sim) <(log host) && break
done
echo "exit $code"
hashes() { grep -o '"program_hash": "[0-9a-f]*"' "$1/restart/manifest.json"; }
diff <(hashes sim) <(hashes host) && echo "programs: equal, $(hashes host | wc -l) plans"
diff <(log sim) <(log host) && { echo "events: equal"; log host; }
# Up to the killed process: its attempt is one that the simulator does not make.
ops() { sed -E 's/,[0-9.]+,[0-9.]+,(LUO_[A-Z]+)$/,\1/' "$1/restart/ops.csv" | awk -F, '$2 < 18'; }
diff <(ops sim) <(ops host) >diff && echo "operations: equal" || head -n 4 diff
"$LUOSHU" compare sim/restart host/restart --out cmp >/dev/null 2>&1; echo "compare: exit $?"
