#!/usr/bin/env bash
# Twenty steps by `luoshu run` and by PyTorch, from the same weights and tokens: losses and norms of
# gradients are equal, in f64 and f32, on one device and on five. Run by `make check-torch`, with
# the command in LUOSHU.
set -u
here=tests/torch
python=/usr/bin/python3 # Debian's, which sees Debian's PyTorch
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
bad=0; n=0
# check MODEL PLAN RANKS DTYPE DATA BAR; DATA -: synthetic. steps.csv has 12 digits.
check() {
    local data=(--data "$5")
    [ "$5" != - ] || data=()
    n=$((n + 1))
    printf '%s, plan %s, %s, data %s: ' "$1" "$2" "$4" "$5"
    rm -rf "${tmp:?}"/*
    if "$LUOSHU" run $here/$2.json --model $here/$1.json --cluster $here/cluster.yaml \
            --backend host --ranks "$3" --dtype "$4" --steps 20 --seed 5 "${data[@]}" \
            --save-init "$tmp/init" --dump-batches "$tmp/batches" --out "$tmp/run" --plots off \
            --quiet >"$tmp/log" 2>&1; then
        $python $here/reference.py --config $here/$1.json --init "$tmp/init" --dtype "$4" \
            --batches "$tmp/batches" --recipe exec/recipe.h --against "$tmp/run/plan/steps.csv" \
            --bar "$6" && return
    else
        echo "the run failed:"; cat "$tmp/log"
    fi
    bad=$((bad + 1))
}
for model in llama qwen3 gpt2; do
    for data in LICENSE -; do
        check $model one 1 f64 $data 1e-10
        check $model one 1 f32 $data 1e-5
    done
    check $model five 5 f64 LICENSE 1e-10
done
echo "$((n - bad)) passed, $bad failed"
[ $bad = 0 ]
