# check-more
# Rows through leaders take as long however devices are folded into classes, and in closed form as in flows.
sed "s|profile: \.\./|profile: $TOP/scenarios/|" "$TOP/scenarios/clusters/tiny8.yaml" >cluster.yaml
cat >model.yaml <<'Y'
schema: luoshu.model/1
name: leaders
family: moe
layers: 2
hidden: 64
ffn_hidden: 160
heads: 8
vocab: 256
max_sequence_tokens: 128
dtype: f32
moe: {experts: 8, experts_per_token: 2, expert_ffn_hidden: 96}
Y
stage() { echo "{\"micro_batches\": 2, \"stages\": [{\"layers\": [[0, 2]], \"devices\": [$1], \"experts\": \"expert\", \"recompute\": {\"mode\": \"$2\"}}]}"; }
plan() { # RECOMPUTE
    echo '{"schema": "luoshu.plan/1", "layers": 2, "devices": 8, "dtype": "f32", "sequence_tokens": 128, "moe_exchange": "leader",'
    echo '"expert_groups": [[0, 1, 2, 3, 4, 5, 6, 7]], "pipelines": ['
    for d in 0 1 2 3 4 5 6; do echo "$(stage $d "$1"),"; done
    echo "$(stage 7 "$1")]}"
}
for mode in none full; do
    plan $mode >plan.json
    for comm in model flow; do
        for fold in on off; do
            "$LUOSHU" sim plan.json --model model.yaml --cluster cluster.yaml --comm $comm --fold $fold --steps 1 --plots off --out run --force >/dev/null
            echo "$mode $comm fold $fold $(tail -n 1 run/plan/steps.csv | cut -d, -f5 | cut -c1-8)"
        done
    done
done
