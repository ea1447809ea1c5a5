# docs/results.md#exit-codes-and-messages, one command each; what was written stays readable.
S=$TOP/scenarios W="--model $TOP/scenarios/models/tiny-llama.yaml --cluster $TOP/scenarios/clusters/tiny2.yaml"
e() { local want=$1; shift; "$LUOSHU" "$@" >out; local rc=$?; echo "exit $rc (want $want): ${*/#$TOP\//}"; }
e 0 sim "$HERE/plans/tiny-pp2.json" $W --out a --plots off --quiet
e 1 resolve "h=-2 [0,1]{-1:2} | [2]{}" "h=-1 [0,1]{-1:2} | [3]{}" --shape 4
e 2 sim
e 3 sim nowhere.yaml
e 3 sim "$S/plans/published/plan-12.json" $W
e 3 sim "$S/examples/small.yaml" --set extent.steps=0
e 4 sim "$HERE/plans/tiny-pp2.json" $W --out /proc/nowhere/x
cat >large.json <<'END'
{"schema": "luoshu.plan/1", "name": "large", "layers": 32, "devices": 2, "sequence_tokens": 4096,
 "pipelines": [{"micro_batches": 8, "stages": [{"layers": [[0, 32]], "devices": [0]}]}]}
END
e 5 sim large.json --model "$S/models/llama-7b.yaml" --cluster "$S/clusters/tiny2.yaml" --out b
ls b/plan/trace.json.gz 2>/dev/null; grep '"state"' b/plan/manifest.json
# A slow machine may be in the middle of a simulated step, or of a compilation, when the time is over, and says that too.
e 6 sim "$S/examples/small.yaml" --set extent.steps=1000000000 --limit-s 1 --out c --plots off --quiet 2>err
grep -v -e 'the step was interrupted while it was simulated' -e 'compiling plan .* was interrupted' err >&2
grep -ho '"state": "[a-z]*"\|"exit": [0-9]*' c/static/manifest.json
