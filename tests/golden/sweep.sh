# A scenario under values of its keys. What awk makes of two rows is the slow twin: goodput of the run alone.
s=$TOP/scenarios/examples/small.yaml
"$LUOSHU" sweep "$s" --grid 'events[0].slowdown=1.5,3' --grid model.layers=4,8 --policies static,restart --seeds 1-2 --out out --quiet --verbose
echo "exit $?"; ls out out/sweep-parts out/plots
cut -d, -f1-6,17- out/sweep.csv | head -n 4; wc -l <out/sweep.csv
"$LUOSHU" sim "$s" --set 'events[0].slowdown=3' --set model.layers=8 --seed 2 --policies restart --plots off --out one --quiet >/dev/null
awk -F, 'FNR == 1 {next} FILENAME ~ /sweep/ && $1 == 3 && $2 == 2 && $4 == "restart" {a = $11} FILENAME ~ /compare/ {b = $15} END {print a == b ? "as the run alone" : a " " b}' out/sweep.csv one/compare.csv
# Given again it goes on: nothing is missing. Another sweep into the folder is refused, or takes it.
"$LUOSHU" sweep "$s" --grid 'events[0].slowdown=1.5,3' --grid model.layers=4,8 --policies static,restart --seeds 1-2 --out out --plots off --quiet | head -n 1
"$LUOSHU" sweep "$s" --grid model.layers=4,8 --out out --quiet; echo "exit $?"
"$LUOSHU" sweep "$s" --grid model.layers=4,9 --policies static --out out --quiet --force; echo "exit $?"; ls out/plots
# Ranges of one seed; cells that cannot be; clusters; keys of a cluster.
"$LUOSHU" sweep "$s" --grid 'cluster.node_groups[0].nodes=1:2' --policies static --out nodes --plots off --quiet --json | grep -E '"(cell|goodput_mean|without|name|variance|missing|exit)'
cut -d, -f1-5,15- nodes/sweep.csv
sed "s|\.\./|$TOP/scenarios/|g" "$TOP/scenarios/clusters/tiny8.yaml" >a8.yaml; sed 's/nodes: 2/nodes: 4/' a8.yaml >b16.yaml
"$LUOSHU" sweep "$s" --clusters a8.yaml,b16.yaml --policies static --ranges off --out clusters --plots off --quiet
"$LUOSHU" sweep "$s" --plans "$TOP/scenarios/plans/tiny2.json,nosuch.json" --out plans --quiet; echo "exit $?"
# The least value, none, and one that holds at the low end.
"$LUOSHU" sweep "$s" --least 'step_s>=0.008' --over model.layers=1:16 --policies static --out least --quiet; echo "exit $?"
cut -d, -f1 least/sweep.csv | tr '\n' ' '; echo
"$LUOSHU" sweep "$s" --least 'goodput>=1e9' --over model.layers=1:3 --out none --quiet; echo "exit $?"
"$LUOSHU" sweep "$s" --least 'step_s<=0.005' --over model.layers=1:16 --policies static --out low --quiet; echo "exit $?"
"$LUOSHU" sweep "$s" --least state=complete --over 'cluster.node_groups[0].nodes=1:4' --policies static --out state --quiet; echo "exit $?"
# A part alone, and the others.
"$LUOSHU" sweep "$s" --grid model.layers=2:4 --policies static --part 2/2 --out parts --quiet --plots off
"$LUOSHU" sweep "$s" --grid model.layers=2:4 --policies static --part 1/2 --out parts --quiet --plots off | head -n 1
# What is no sweep.
for o in "" "--grid x" "--grid model.layers=4:2" "--grid model.layers=4 --grid model.layers=5" "--grid seed=1" "--over a=1:2" \
    "--least mfu>1" "--least speed>1 --over a=1:2" "--least mfu>1 --over a=1" "--least mfu>1 --over a=1:2 --grid b=1" \
    "--least mfu>1 --over model.layers=1:2 --part 1/2" "--grid model.layers=1:2 --part 3/2" "--grid model.layers=1:2 --part x" \
    "--plans a,,b" "--grid model.layers=x,y" "--grid nosuch=1,2" "--grid model.layers=1:100000 --seeds 1-11" "--grid a=1 --seed 1 --seeds 1"; do
    "$LUOSHU" sweep "$s" $o --out wrong --quiet; echo "$? $o"
done
mkdir full; touch full/file
"$LUOSHU" sweep "$s" --grid model.layers=2,3 --out full --quiet; echo "exit $?"
"$LUOSHU" sweep "$TOP/scenarios/clusters/tiny8.yaml" --grid model.layers=2,3 2>&1 | sed "s|$TOP|TOP|g"
