# Several plans of one model and cluster go into one table, each under the name of its file, and
# each takes what it takes alone. Files of one name are told apart by their folders.
S=$TOP/scenarios
with="--model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny8.yaml"
for tp in 1 2 4; do
    mkdir -p own/$tp
    $LUOSHU plan uniform $with --tp $tp --pp 2 --micro-batch-size 1 --global-batch-size 16 \
        --seq-length 16 --out tp$tp.plan.json --quiet >plan.txt 2>&1 || cat plan.txt
    cp tp$tp.plan.json own/$tp/plan.json
done
$LUOSHU sim tp1.plan.json tp2.plan.json tp4.plan.json $with --quiet --plots off --out all |
    sed '/^results/d'
for tp in 1 2 4; do
    $LUOSHU sim tp$tp.plan.json $with --quiet --plots off --out alone-$tp >alone.txt
    a=$(cut -d, -f1-7 all/tp$tp/steps.csv | md5sum) b=$(cut -d, -f1-7 alone-$tp/plan/steps.csv | md5sum)
    [ "$a" = "$b" ] || echo "tp$tp differs from the plan alone"
done
$LUOSHU sim own/*/plan.json $with --quiet --plots off --seeds 1,2 --out own-all >own.txt
ls own-all/seed1
# Not one plan and one scenario, nor the same plan twice, nor options of scenarios.
$LUOSHU sim tp1.plan.json "$S/examples/small.yaml" $with --quiet
$LUOSHU sim tp1.plan.json tp1.plan.json $with --quiet
$LUOSHU sim tp1.plan.json tp2.plan.json $with --set seed=1 --quiet
# `explain` has the step and the MFU that `sim` has.
$LUOSHU explain tp2.plan.json $with --simulate --json --quiet 2>explain.txt |
    sed -nE 's/^ *"(step_s|mfu_ratio)": ([^,]*),$/\1 \2/p'
sed -nE 's/^ *"(step_mean_s|mfu_ratio)": ([^,]*),$/\1 \2/p' all/tp2/summary.json
