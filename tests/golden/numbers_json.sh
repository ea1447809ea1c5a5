# --json carries the numbers that the text has: the step of explain is that of sim, whose parts sum to it; compare
# and sim give what compare.json says.
S=$TOP/scenarios
on="--model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny2.yaml"
key() { grep -o "\"$1\": [0-9.]*" "$2" | head -n 1 | cut -d' ' -f2; }
"$LUOSHU" explain "$S/plans/tiny2.json" $on --simulate --json >explain.json 2>/dev/null; echo "exit $?"
"$LUOSHU" sim "$S/plans/tiny2.json" $on --steps 2 --out out --plots off --json >sim.json 2>/dev/null; echo "exit $?"
"$LUOSHU" compare out --out again --json >compare.json 2>/dev/null; echo "exit $?"
[ "$(key step_s explain.json)" = "$(key step_mean_s out/plan/summary.json)" ] && echo "one step"
sed -n '/"parts"/,/}/p' explain.json | awk -v step="$(key step_s explain.json)" -F': ' 'NF == 2 {sum += $2} END {d = sum - step; print d * d < 1e-16 ? "parts sum to it" : d}'
"$LUOSHU" explain "$S/plans/tiny2.json" $on --json 2>/dev/null | grep -cE '"(step_s|tokens_per_s|parts)"' # no step was simulated
grep -c '"op":' explain.json; grep -c '"peak_bytes":' explain.json
for k in step_mean_s goodput_tokens_per_s compute_s bubble_s extent_s; do
    for f in sim.json compare.json; do [ "$(key $k $f)" = "$(key $k out/compare.json)" ] || echo "$f: $k differs"; done
done
"$LUOSHU" explain "$S/plans/tiny2.json" $on --simulate | grep '^simulated step'
