#!/usr/bin/env bash
# usage: tests/rivals_lengths.sh [DIR [SETTINGS|grid [SEED]]]      (build/rivals-lengths, 12, 1)
# Does the planner for uneven lengths hold against the best of its rivals? Random settings: 8 to 64 GPUs, a model, a
# context (the model's own limit is set to it), a distribution of lengths, 4,000 to 12,500 tokens a device. `grid`: 4
# distributions on 8, 32 and 64 GPUs. What counts is the mean simulated step over the same STEPS (2) batches.
# tests/curves/lengthgain.c says how rivals get their best settings: the simulator tries them on the batches compared.
# Writes DIR/rivals_lengths.csv (and of `grid` the figure DIR/lengthgain.svg) and prints how often `hydraulis` is slower than
# the fastest rival by more than 1 %: with and without hotspa, which runs a step in several plans, and beside hotspa as if
# nothing but `switch_ms` were ever moved (by the pool). Exit 1 if it is slower without hotspa. All lengths are synthetic.
set -eu
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
G=${LENGTHGAIN:-$root/build/release/tests/curves/lengthgain}
dir=$(mkdir -p "${1:-build/rivals-lengths}" && cd "${1:-build/rivals-lengths}" && pwd)
count=${2:-12} seed=${3:-1} steps=${STEPS:-2}

. "$root/tests/settings.sh"

cluster() { # NODES PROFILE SCALE_UP NICS NIC_GB
    echo "# Made by tests/rivals_lengths.sh; chosen."
    printf 'schema: luoshu.cluster/1\nname: rivals\nnode_groups:\n'
    node_group a "$@"
    printf 'fabric: {kind: single, hop_latency_us: 0.5}\nstorage: {read_gbytes_per_s: 40, write_gbytes_per_s: 20}\n'
}
table() { # NAME CONTEXT: as --lengths takes it: presets by name, else classes
    case $1 in
    uniform) printf 'low_tokens,high_tokens,count\n32,%s,1\n' "$(($2 + 1))" ;;
    heavy) # lognormal, median 600, sigma 1.7, cut to 32 .. context
        awk -v ctx="$2" 'BEGIN {
            print "low_tokens,high_tokens,count"
            for (low = 32; low <= ctx; low = high) {
                high = int(low * 1.19) + 1; if (high > ctx + 1) high = ctx + 1
                for (mass = k = 0; k < 16; k++) {
                    x = low + (high - low) * (k + 0.5) / 16; z = log(x / 600) / 1.7
                    mass += exp(-z * z / 2) / x * (high - low) / 16
                }
                printf "%d,%d,%d\n", low, high, 1e6 * mass
            }}' ;;
    esac
}
run() { # NUMBER NODES PROFILE SCALE_UP NICS NIC_GB MODEL LENGTHS CONTEXT TOKENS
    local at=$dir/$1 lengths=$8
    mkdir -p "$at"
    cluster "$2" "$3" "$4" "$5" "$6" >"$at/cluster.yaml"
    case $8 in syn-*) ;; *) lengths=$at/$8.csv; table "$8" "$9" >"$lengths" ;; esac
    sed "s/^max_sequence_tokens: .*/max_sequence_tokens: $9/" "$root/scenarios/models/$7.yaml" >"$at/model.yaml"
    "$G" "$at/model.yaml" "$at/cluster.yaml" "$lengths" "$9" "${10}" "$steps" "$seed" >"$at/line" 2>"$at/log" ||
        { echo "setting $1: $(tail -n 1 "$at/log")" >&2; return 0; }
    awk -F, -v OFS=, -v about="$1,$(($2 * 8)),$3,$5,$7,$8,$9,${10}" -v names="$("$G")" '{
        split(names, name, ","); best = other = 0 # $2 to $8: padding to hydraulis; $10: hotspa_pool_s
        for (k = 2; k < 8; k++) if ($k != "") {
            if (!best || $k < $best) best = k
            if (name[k] != "hotspa_s" && (!other || $k < $other)) other = k
        }
        least = $10 < $other ? $10 : $other
        print about, $0, substr(name[best], 1, length(name[best]) - 2), sprintf("%.4f,%.4f,%.4f", $8 / $best, $8 / $other, $8 / least)
    }' "$at/line" | tee -a "$dir/rivals_lengths.csv"
}

echo "setting,gpus,gpu,nics,model,lengths,context,tokens,$("$G"),best_rival,ratio,ratio_without_hotspa,ratio_free_hotspa" |
    tee "$dir/rivals_lengths.csv"
if [ "$count" = grid ]; then
    i=0
    for size in "1 llama-7b 16384 50000" "4 llama-32b 32768 200000" "8 llama-13b 32768 400000"; do
        read -r nodes model context tokens <<<"$size"
        for lengths in syn-web syn-code uniform heavy; do
            i=$((i + 1))
            run $i "$nodes" a100-80 200 8 25 "$model" $lengths "$context" "$tokens"
        done
    done
else
    for i in $(seq "$count"); do
        choose 1 2 4 4 8; nodes=$w
        choose "a100-80 300" "h100 450" "h20 450"; gpu=$w
        choose 4 8; nics=$w
        case $nodes in 1) choose llama-7b llama-7b ;; 2) choose llama-7b llama-13b ;; *) choose llama-13b llama-32b ;; esac; model=$w
        choose syn-web syn-code uniform heavy; lengths=$w
        choose 8192 16384 32768; context=$w
        choose 4000 6250 12500; tokens=$((w * nodes * 8))
        [ $tokens -gt "$context" ] || tokens=$((2 * context))
        run "$i" "$nodes" ${gpu% *} ${gpu#* } "$nics" 25 "$model" "$lengths" "$context" "$tokens"
    done
fi

awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; next}
    function add(kind, v) {x[kind, n[kind]++] = v; slow[kind] += v > 1.01; fast[kind] += v < 0.99; if (v > most[kind]) {most[kind] = v; where[kind] = $1}}
    {add("all rivals", $at["ratio"]); add("all rivals but hotspa", $at["ratio_without_hotspa"])
     add("all, hotspa as if nothing but switch_ms were moved", $at["ratio_free_hotspa"])}
    function say(kind,    i, k, t, m) {
        m = n[kind]; if (!m) {print "no setting ran"; exit 1}
        for (i = 1; i < m; i++) for (k = i; k > 0 && x[kind, k - 1] > x[kind, k]; k--) {t = x[kind, k]; x[kind, k] = x[kind, k - 1]; x[kind, k - 1] = t}
        printf "hydraulis against the fastest of %s, %d settings: slower by more than 1 %% in %d, faster in %d; median ratio %.4f, worst %.4f (setting %d)\n",
            kind, m, slow[kind], fast[kind], x[kind, int(m / 2)], most[kind], where[kind]
    }
    END {
        say("all rivals"); say("all rivals but hotspa"); say("all, hotspa as if nothing but switch_ms were moved")
        exit slow["all rivals but hotspa"] > 0
    }' "$dir/rivals_lengths.csv" && code=0 || code=$?
if [ "$count" = grid ] && command -v gnuplot >/dev/null; then
    LC_ALL=C.UTF-8 gnuplot -d -e "run='$dir'; out='$dir/lengthgain'; ran='mean step of rivals over that of hydraulis, simulated; lengths are synthetic'" \
        "$root/plots/lengthgain.gp" && echo "$dir/lengthgain.svg"
fi
exit $code
