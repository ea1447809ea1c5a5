# A checkpoint written under one plan goes on under another as if nothing had been: f64, 1e-10.
D=$HERE/host W="--backend host --model $TOP/scenarios/models/tiny-llama.yaml --cluster $D/eight.yaml"
r() { "$LUOSHU" run "$@" $W --dtype f64 --plots off --quiet >out 2>&1 || { echo "exit $?: $*"; cat out; }; }
r "$D/plan8.json" --steps 12 --out whole
r "$D/plan8.json" --steps 7 --checkpoint-every 3 --out first
ls first/plan/checkpoints
r "$D/four.json" --steps 12 --resume first/plan/checkpoints --checkpoint-every 100 --out then
col() { awk -F, -v c="$2" 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == c) k = i} NR > 1 {print $1, $k}' "$1/plan/steps.csv"; }
paste <(cat <(col first loss) <(col then loss)) <(col whole loss) | awk '
    $1 != $3 {print "step " $1 " beside " $3} {d = $2 / $4 - 1; if (d < 0) d = -d; if (d > worst) worst = d}
    END {print NR " steps, loss within 1e-10: " (worst <= 1e-10 ? "yes" : worst)}'
cp -r first again; "$LUOSHU" run "$D/four.json" $W --dtype f64 --steps 9 --resume again/plan/checkpoints \
    --out again --force --plots off --quiet >/dev/null; echo "in its own folder: exit $?"; ls again/plan/checkpoints
