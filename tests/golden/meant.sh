# A word that is none of what there is: the one that is meant, or the list of all.
cp "$TOP/scenarios/demo/demo.yaml" kind.yaml
sed -i 's/kind: straggler/kind: stragler/; s|: \.\./|: '"$TOP"'/scenarios/|g; s|plan: plan.json|plan: '"$TOP"'/scenarios/demo/plan.json|' kind.yaml
"$LUOSHU" check kind.yaml 2>&1 | sort -u -k 2
for verb in sm report nothing; do "$LUOSHU" help $verb; "$LUOSHU" $verb; done
for labels in statc nothing static,static; do "$LUOSHU" sim "$TOP/scenarios/demo/demo.yaml" --policies $labels; done
"$LUOSHU" plan unifrm; "$LUOSHU" plan nothing; "$LUOSHU" plan alpa
"$LUOSHU" plot . --figure gant; "$LUOSHU" plot . --figure nothing
"$LUOSHU" resolve a b --shape 8 --planner gredy; "$LUOSHU" resolve a b --shape 8 --planner nothing
"$LUOSHU" sim x --comm flw; "$LUOSHU" sim x --comm nothing; "$LUOSHU" sim x --comn flow
"$LUOSHU" sim "$TOP/scenarios/demo/demo.yaml" --set stack.p2p_su=1
