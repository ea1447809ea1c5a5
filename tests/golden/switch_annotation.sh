# A plan that annotates a tensor the model lacks is refused by `switch` in the words of `check`.
with="--model $TOP/scenarios/models/tiny-llama.yaml --cluster $TOP/scenarios/clusters/tiny2.yaml"
cat >raw.json <<'END'
{"schema": "luoshu.plan/1", "name": "raw", "layers": 4, "devices": 2, "dtype": "f32",
 "sequence_tokens": 16, "pipelines": [{"micro_batches": 2, "stages": [
  {"layers": [[0, 4]], "devices": [0]}]}],
 "annotations": [
  {"tensor": "layers.9.attn.q.weight", "annotation": "[0]{}"}]}
END
"$LUOSHU" check raw.json $with; echo "exit $?"
"$LUOSHU" switch "$HERE/plans/tiny-pp2.json" raw.json $with; echo "exit $?"
"$LUOSHU" switch raw.json "$HERE/plans/tiny-pp2.json" $with; echo "exit $?"
