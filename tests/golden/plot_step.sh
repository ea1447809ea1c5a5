# Which step `gantt` draws: by number, by plan; what is said where there is no trace of it, and to other figures.
"$LUOSHU" sim "$TOP/scenarios/examples/small.yaml" --policies static --steps 4 --trace-steps 0,2 --plots off --out out --quiet >/dev/null 2>&1
steps() { "$LUOSHU" plot out/static --figure gantt "$@" >/dev/null; echo "exit $?"; }
drawn() { awk -F, 'NR == FNR { if (FNR > 1) { start[$1] = $4; end[$1] = $5 } next } FNR > 1 { for (s in start) if ($6 + 0 >= start[s] + 0 && $7 + 0 <= end[s] + 1e-6) seen[s] = 1 } END { for (s in seen) print "step", s }' out/static/steps.csv out/static/plots/gantt.csv; }
steps; drawn
steps --step 2; drawn
steps --plan 0; drawn
steps --step 1
steps --step 2 --plan 1
steps --step -1
"$LUOSHU" plot out/static --step 2; echo "exit $?"
"$LUOSHU" plot out/static --figure memory --plan 0; echo "exit $?"
"$LUOSHU" plot "$TOP/scenarios/examples/lengths.csv" --step 2; echo "exit $?"
