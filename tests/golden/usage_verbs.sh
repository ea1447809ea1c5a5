# Wrong use of each verb: exit 2 and one sentence.
S=$TOP/scenarios
u() { "$LUOSHU" "$@" >out; local rc=$?; [ $rc = 2 ] || echo "exit $rc: $*"; [ ! -s out ] || cat out; }
u sim; u sim a b; u sim x --comm fast; u sim "$HERE/plans/tiny-pp2.json" --steps 0
u sim "$S/examples/small.yaml" --seed -1; u sim "$S/examples/small.yaml" --steps many; u sim x --fold maybe
u sim x --comm-streams 2; u sim x --limit-s soon; u sim x --trace-steps 5-3; u sim x --plots
u sim "$S/examples/small.yaml" --policies nosuch; u sim "$HERE/plans/tiny-pp2.json" --policies a
u sim "$HERE/plans/tiny-pp2.json" --set seed=1; u sim "$HERE/plans/tiny-pp2.json"
u sim "$S/examples/small.yaml" -o x; u sim "$S/examples/small.yaml" --out /dev/null
mkdir full; touch full/x; u sim "$S/examples/small.yaml" --out full
u demo x; u demo --out full; u demo --seed many
u calibrate x; u calibrate --ranks 0; u calibrate --ranks 2 --from x.csv; u calibrate --out full
u plan; u plan genetic; u plan uniform; u plan uniform --model "$S/models/tiny-llama.yaml"
u plan uniform --model m --cluster c --top none
u check; u explain; u explain a b; u explain "$HERE/plans/tiny-pp2.json"; u explain "$S/demo/demo.yaml"
u resolve; u resolve "[0]{}"; u resolve "[0]{}" "[0]{}"; u resolve "[0]{}" "[0]{}" --shape 4 --planner best
u resolve "[0]{}" "[0]{}" --shape 4 --node-size 0; u resolve "[0]{}" "[0]{}" --shape 4 --elem x
u switch a; u switch a b; u switch a b --cluster "$S/clusters/tiny2.yaml" --reset never
u compare; u compare x --figure y; u plot; u plot x --column 3; u plot x --figure nosuch; u plot x --json
u help nosuch; u help a b; u version x; u version --json; u check x --color pink; u sim=x; u ""
