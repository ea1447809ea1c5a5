W="--model $TOP/scenarios/models/tiny-llama.yaml --cluster $TOP/scenarios/clusters/tiny2.yaml"
"$LUOSHU" explain "$HERE/plans/tiny-pp2.json" $W --annotations
"$LUOSHU" explain "$HERE/plans/tiny-tp2.json" $W --simulate --annotations
"$LUOSHU" explain "$HERE/plans/tiny-pp2.json" $W --program 1 | grep -v '^buf'
