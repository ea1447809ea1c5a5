# check-more
# One scenario under several seeds, two at a time: every seed has a set of its own, and policies are held against
# each other seed by seed. What awk makes of compare.csv is the slow twin: mean, and the mean difference.
failing='processes: [{id: p, kind: straggler, target: "device:[0-7]", distribution: exponential, mean_s: 4, life: {distribution: exponential, mean_s: 1}, slowdown: 3}]'
sed -e "s|\.\./|$TOP/scenarios/|g" -e 's/restart_s: 1/restart_s: 0.01/' -e '/^events/,/^  - {id/d' "$TOP/scenarios/examples/small.yaml" >small.yaml
echo "$failing" >>small.yaml
"$LUOSHU" sim small.yaml --seeds 1-3,7 --jobs 2 --set extent.steps=200 --plots off --out out --quiet >text
echo "exit $?"
ls out | grep -v compare_steps
grep '^`' text; tail -n 4 text | grep -v '^out/\|^results:'
cut -d, -f1-5 out/pairs.csv
awk -F, 'NR > 1 {split($1, n, "_"); sum[n[2]] += $15; by[n[1], n[2]] = $15; seed[n[1]] = 1}
    END {for (s in seed) d += by[s, "restart"] - by[s, "static"]; printf "%.2f %.2f %.2f\n", sum["restart"] / 4, sum["static"] / 4, d / 4}' out/compare.csv
awk -F, '$1 == "restart" {printf "%.2f ", $10} $1 == "static" {printf "%.2f ", $10}' out/seeds.csv; awk -F, '$1 == "restart" {printf "%.2f\n", $6}' out/pairs.csv
diff <(grep -c . out/seed2/restart/steps.csv) <("$LUOSHU" sim small.yaml --seed 2 --set extent.steps=200 --plots off --out one --quiet >/dev/null; grep -c . one/restart/steps.csv) && echo "seed 2 alone is the same"
"$LUOSHU" sim small.yaml --seeds 3-1; echo "exit $?"
"$LUOSHU" sim small.yaml --seeds 1,1; echo "exit $?"
"$LUOSHU" sim small.yaml --seeds 1-2 --seed 4; echo "exit $?"
"$LUOSHU" sim small.yaml --seeds 1-2 --jobs 0; echo "exit $?"
"$LUOSHU" sim small.yaml --seeds 1-2 --out out; echo "exit $?"
"$LUOSHU" sim nosuch.yaml --seeds 1-2 --out new; echo "exit $?"
