# A plan against model and cluster: good, impossible (3), too large for the memory (5).
S=$TOP/scenarios
with() { echo "--model $S/models/$1.yaml --cluster $S/clusters/$2.yaml"; }
c() { "$LUOSHU" check "$@"; echo "exit $?"; }
c "$HERE/plans/case-13.json" $(with llama-32b h20-32)
c "$HERE/plans/case-13.json" $(with llama-70b tiny8)
sed 's/\[16, 32\]/[16, 31]/; s/\[30\]/[12]/' "$HERE/plans/case-13.json" >two-faults.json
c two-faults.json $(with llama-32b h20-32)
sed 's/"zero": 0/"zero": 2/' "$S/plans/published/plan-13.json" >zero.json
c zero.json $(with llama-32b h20-32)
sed 's/{"planner".*/{}, "annotations": [{"tensor": "wte.weight", "annotation": "[0]{}"}]}/; s/"meta": {"case.*/"annotations": [{"tensor": "wte.weight", "annotation": "[0]{}"}]}/' \
    "$S/plans/published/plan-12.json" >raw.json
c raw.json $(with llama-32b h20-32)
cat >large.json <<'END'
{"schema": "luoshu.plan/1", "name": "large", "layers": 32, "devices": 2, "sequence_tokens": 4096,
 "pipelines": [{"micro_batches": 8, "stages": [{"layers": [[0, 32]], "devices": [0]}]}]}
END
c large.json $(with llama-7b tiny2)
c large.json $(with llama-7b tiny2) --json
