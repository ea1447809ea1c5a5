#!/usr/bin/env bash
# usage: tests/rivals.sh [DIR [SETTINGS [SEED]]]      (build/rivals, 100, 1)
# Does a policy hold against the best of its rivals? Random settings: 16 to 256 GPUs of one or two types,
# a model and its best uniform plan under 1F1B (the schedule that `malleus` plans), with and without ZeRO, 0 to 6
# devices that become slow at step 4.
# Every policy runs each of them; what counts is the step that it has come to at the end, so that neither
# planning nor switching is in it, and none holds back because a switch would not pay in 50 steps.
# Writes rivals.csv and prints by how much `malleus` is slower than the fastest other policy: how often by
# more than 1 %, median, worst; exit 1 if it is in one, or if it beats the bound `oracle`. DIR/NUMBER has all inputs of a setting: `luoshu sim DIR/NUMBER/rivals.yaml`.
# RANK=objective: plans are ranked by closed forms and not by the simulated step. FAILURES=1: one or two devices
# fail at step 8 and do not come back, under the policies that answer failures. Synthetic settings.
set -eu
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
L=${LUOSHU:-$root/luoshu}
dir=$(mkdir -p "${1:-build/rivals}" && cd "${1:-build/rivals}" && pwd)
count=${2:-100} seed=${3:-1}
policies="static rebalance restart oobleck malleus" bound=oracle
[ "${FAILURES:-0}" = 0 ] || policies="restart oobleck spares drop_replica reroute malleus"

. "$root/tests/settings.sh"

cluster() { # NODES MIXED
    echo "# Made by tests/rivals.sh; chosen."
    printf 'schema: luoshu.cluster/1\nname: rivals\nnode_groups:\n'
    if [ "$2" = 1 ]; then
        node_group a $(($1 / 2)) a100-80 300 "$nics" 25
        node_group b $(($1 - $1 / 2)) h100 450 "$nics" 25
    else
        node_group a "$1" a100-80 300 "$nics" 25
    fi
    printf 'fabric: {kind: single, hop_latency_us: 0.5}\nstorage: {read_gbytes_per_s: 40, write_gbytes_per_s: 20}\n'
}
events() { # SLOW DEVICES FAILED
    local i devices=" " d
    [ $(($1 + $3)) -gt 0 ] || { echo "events: []"; return; }
    echo "events:"
    for i in $(seq "$3"); do
        pick "$2"; d=$r
        case $devices in *" $d "*) continue ;; esac
        devices="$devices$d "
        printf '  - {id: gone%s, kind: fail, target: "device:%s", at_step: 8}\n' "$i" "$d"
    done
    for i in $(seq "$1"); do
        pick "$2"; d=$r
        case $devices in *" $d "*) continue ;; esac
        devices="$devices$d "
        choose 1.25 1.35 1.45 1.5 2 2.57 3.8 5.42 12.53
        printf '  - {id: slow%s, kind: straggler, target: "device:%s", slowdown: %s, at_step: 4}\n' "$i" "$d" "$w"
    done
}
reroutable() { # PLAN: is it one that policy `reroute` takes?
    grep -qE '"kind": "(1f1b|zb_h1)"' "$1" && [ "$(grep -c '"micro_batches"' "$1")" -gt 1 ] && ! grep -qE '"zero": [23]|"context_parallel"' "$1"
}
setting() { # FOLDER: its files; false: no plan fits
    local nodes mixed model zero slow batch failed=0 p options
    choose 2 4 4 8 8 16 32; nodes=$w
    pick 3; mixed=$((r == 0 && nodes > 2))
    choose 1 4 8; nics=$w
    choose llama-7b llama-13b llama-32b llama-70b; model=$w
    pick 2; zero=$r
    pick 7; slow=$r
    choose 1 2 4; batch=$((nodes * 8 * w))
    cluster "$nodes" "$mixed" >"$1/cluster.yaml"
    "$L" plan uniform --model "$root/scenarios/models/$model.yaml" --cluster "$1/cluster.yaml" --global-batch-size "$batch" \
        --zero "$zero" --schedule 1f1b --out "$1/plan.json" --force --quiet >"$1/plan.log" 2>&1 || return 1
    {
        printf 'schema: luoshu.scenario/1\nname: rivals\nseed: %s\ncluster: cluster.yaml\nmodel: %s\nplan: plan.json\n' \
            "$seed" "$root/scenarios/models/$model.yaml"
        printf 'extent: {steps: 40}\ndata:\n  batch: {sequences: %s}\n  lengths: {kind: fixed, tokens: 4096}\n' "$batch"
        echo "policies:"
        for p in $policies; do
            options=", planner_s: 0, payback_steps: 100000${RANK:+, rank: $RANK}"
            case $p in static) options= ;; rebalance | drop_replica | reroute) options=", planner_s: 0" ;; esac
            [ "$p" != reroute ] || reroutable "$1/plan.json" || continue # its row says that it is lost
            echo "  - {name: $p$options}"
        done
        printf '  - {name: %s%s}\n' "$bound" "${RANK:+, rank: $RANK}"
        [ "${FAILURES:-0}" = 0 ] || { pick 2; failed=$((r + 1)); }
        events "$slow" $((nodes * 8)) "$failed"
    } >"$1/rivals.yaml"
    about="$((nodes * 8)),$((mixed + 1)),$model,$zero,$slow,$batch"
}
last_step() { # FOLDER POLICY; of a run that was lost: a million seconds
    grep -qs '"state": "complete"' "$1/rivals-seed$seed/$2/manifest.json" || { printf 1000000; return; }
    awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i; next} {v = $c} END {printf "%s", v}' "$1/rivals-seed$seed/$2/steps.csv"
}

echo "setting,gpus,types,model,zero,slow,batch,$(echo $policies | tr ' ' ','),best_rival,$bound,ratio" >"$dir/rivals.csv"
echo "seed $seed"
for i in $(seq "$count"); do
    at=$dir/$i row=
    mkdir -p "$at"
    setting "$at" || { echo "setting $i: $(tail -n 1 "$at/plan.log")" >&2; continue; }
    (cd "$at" && "$L" sim rivals.yaml --out "rivals-seed$seed" --force --quiet --plots off --trace-steps none) >"$at/sim.log" 2>&1 || [ -f "$at/rivals-seed$seed/compare.csv" ] ||
        { echo "setting $i: $(tail -n 1 "$at/sim.log")" >&2; continue; }
    for p in $policies; do row="$row,$(last_step "$at" "$p")"; done
    echo "$i,$about$row" | awk -F, -v OFS=, -v names="$policies" -v bound="$(last_step "$at" "$bound")" '{
        split(names, name, " ")
        for (k = 8; k < NF; k++) if (!best || $k < $best) best = k
        print $0, name[best - 7], bound, sprintf("%.4f", $NF / $best)}' | tee -a "$dir/rivals.csv"
done
awk -F, 'NR > 1 {beaten += $(NF - 3) < 0.999 * $(NF - 1); gap += log($(NF - 3) / $(NF - 1)); v[n++] = $NF; slow += $NF > 1.01; fast += $NF < 0.99; if ($NF > most) {most = $NF; at = $1}}
    END {
        if (n == 0) {print "no setting ran"; exit 1}
        for (i = 1; i < n; i++) for (k = i; k > 0 && v[k - 1] > v[k]; k--) {t = v[k]; v[k] = v[k - 1]; v[k - 1] = t}
        printf "malleus against the fastest rival, %d settings: slower by more than 1 %% in %d, faster in %d; median ratio %.4f, worst %.4f (setting %d)\n",
            n, slow, fast, v[int(n / 2)], most, at
        printf "malleus takes %.1f %% longer than the bound in the geometric mean; it is faster than it in %d\n",
            100 * (exp(gap / n) - 1), beaten
        exit (slow > 0 || beaten > 0)
    }' "$dir/rivals.csv"
