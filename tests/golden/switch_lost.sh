# tiny-pp2 has one copy of each layer: with device 1 dead its half is lost (exit 1). Layers 2 and 3
# have 9 parameters each; norm and lm_head stand on device 1 as well.
with="--model $TOP/scenarios/models/tiny-llama.yaml --cluster $TOP/scenarios/clusters/tiny2.yaml"
cat >one.json <<'END'
{"schema": "luoshu.plan/1", "name": "one", "layers": 4, "devices": 2, "dtype": "f32",
 "sequence_tokens": 16, "pipelines": [{"micro_batches": 2, "stages": [
  {"layers": [[0, 4]], "devices": [0]}]}]}
END
"$LUOSHU" switch "$HERE/plans/tiny-pp2.json" one.json $with --dead 1 >out; echo "exit $?"
grep -c '^lost: ' out; grep -m 3 '^lost: ' out; grep -v '^lost: ' out
"$LUOSHU" switch "$HERE/plans/tiny-pp2.json" "$HERE/plans/tiny-tp2.json" $with --dead 1; echo "exit $?"
"$LUOSHU" switch "$HERE/plans/tiny-pp2.json" "$HERE/plans/case-13.json" $with; echo "exit $?"
