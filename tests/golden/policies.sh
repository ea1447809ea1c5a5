# A slow device, then a failed one, told by steps: what each policy decides, where state comes from, and how
# many steps it makes.
slow='{id: slow, kind: straggler, target: "device:2", slowdown: 4, at_step: 20, duration_steps: 20}'
"$LUOSHU" sim "$TOP/scenarios/host/straggler.yaml" --out out --plots off --quiet --set extent.steps=60 \
    --set "events=[$slow, {id: gone, kind: fail, target: \"device:7\", at_step: 54}]" --set 'checkpoint={every_steps: 10}' \
    --set 'policies=[{name: static}, {name: rebalance, planner_s: 0}, {name: restart, restart_s: 0, planner_s: 0}, {name: malleus, planner_s: 0}]' \
    >/dev/null 2>&1
echo "exit $?"
for p in static rebalance restart malleus; do
    echo "== $p"
    awk -F, 'NR > 1 && ($5 == "detected" || $5 == "decided" || $5 == "switched" || $5 == "restarted" || $5 == "lost") {$2 = ""; print}' out/$p/events.csv
    grep -hE '"(steps_done|switches|restarts)"' out/$p/summary.json
done
