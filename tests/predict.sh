#!/usr/bin/env bash
# usage: tests/predict.sh [DIR [RANKS..]]      RANKS of 1 2 4 8; all of them without
# How well the simulator predicts real runs on this machine. For each number of ranks: calibrates
# (unless DIR/calibration-RANKS is there), simulates the validation plans, runs the very same programs
# for real, REPEAT times (1) in turns, and prints a table. Nothing is fitted on the plans and no plan is
# run before it is predicted: calibration trains networks of other shapes on single devices and times
# communication between products. Each number of ranks takes about four minutes; called again, it adds
# runs to those in DIR. A run beside which others took more than 4 % of the processors is made again,
# twice at most; what they took is printed.
set -eu
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
L=${LUOSHU:-$root/luoshu}
dir=$(mkdir -p "${1:-build/predict}" && cd "${1:-build/predict}" && pwd)
shift || true
ranks=${*:-1 2 4 8} repeat=${REPEAT:-1} steps=${STEPS:-12} skip=3 # the first steps are cold
cd "$dir"

model() { # NAME layers hidden ffn heads kv_heads vocab
    printf '%s\n' "schema: luoshu.model/1" "name: $1" "family: llama" "layers: $2" "hidden: $3" \
        "ffn_hidden: $4" "heads: $5" "kv_heads: $6" "vocab: $7" "max_sequence_tokens: 256" "dtype: f32" >"$1.yaml"
}
model tiny 4 96 256 8 4 512      # 0.6M parameters
model small 6 320 864 8 4 1536  # 8M
model mid 8 448 1216 8 8 6144    # 25M

good() { "$@" >"$plan.log" 2>&1 || { cat "$plan.log" >&2; exit 1; }; }
column() { # RUN: step_s of all steps but the first ones
    awk -F, -v skip="$2" 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i; next} $1 >= skip {print $c}' \
        "$1/plan/steps.csv" | sort -g
}

# A plan and its prediction. Those whose shares are uneven are made from even ones by sed.
row() { # RANKS MODEL TP PP DP SEQUENCES MICRO TOKENS NAME [sed script] [plan options]
    local n=$1 edit=${10:-}
    [ "$n" = "$now" ] || return 0
    plan=$9
    # shellcheck disable=SC2086
    good "$L" plan uniform --model "$2.yaml" --cluster "calibration-$n/cluster-$n.yaml" --out "$plan.json" --force --quiet \
        --tensor-model-parallel-size "$3" --pipeline-model-parallel-size "$4" --data-parallel-size "$5" \
        --global-batch-size "$6" --micro-batch-size "$7" --seq-length "$8" --recompute-granularity none ${11:-}
    [ -z "$edit" ] || sed -i "$edit" "$plan.json"
    good "$L" sim "$plan.json" --model "$2.yaml" --cluster "calibration-$n/cluster-$n.yaml" --steps 4 \
        --out "$plan-sim" --force --quiet --plots off --trace-steps 3
    todo="$todo $2/$plan"
}

# Processor time of the machine, and of what this script has started, in ticks.
ticks() { awk 'NR == FNR {own = $16 + $17; next} $1 == "cpu" {print $2 + $3 + $4 + $7 + $8, own}' "/proc/$$/stat" /proc/stat; }
try() { # RANKS MODEL PLAN: sets others, in percent of all cores
    local a b
    a=$(ticks) t=$(date +%s%N)
    good "$L" run "$3.json" --backend host --model "$2.yaml" --cluster "calibration-$1/cluster-$1.yaml" --steps "$steps" \
        --out "$3-run" --force --quiet --plots off --trace-steps 3
    b=$(ticks)
    others=$(awk -v n="$(nproc)" -v s="$(($(date +%s%N) - t))" -v hz="$(getconf CLK_TCK)" -v a="$a" -v b="$b" 'BEGIN {
        split(a, x, " "); split(b, y, " "); o = 100 * ((y[1] - x[1]) - (y[2] - x[2])) / (n * hz * s * 1e-9); printf "%.1f", (o > 0 ? o : 0)}')
}
measure() { # RANKS MODEL PLAN RUN
    plan=$3
    for _ in 1 2 3; do
        try "$1" "$2" "$3"
        awk -v o="$others" 'BEGIN {exit !(o <= 4)}' && break
    done
    "$L" compare "$3-sim/plan" "$3-run/plan" --out "$3-compare" --force >>"$3.log" 2>&1
    column "$3-run" "$skip" | awk -v head="$1,$2,$3,$4,$others" -v sim="$(column "$3-sim" 0 | head -n 1)" '{v[n++] = $1}
        END {printf "%s,%.6f,%.6f,%.6f,%.6f\n", head, v[int(n / 2)], v[int(n / 4)], v[int(3 * n / 4)], sim}' >>rows.csv
}

[ -f rows.csv ] || echo "ranks,model,plan,run,others_percent,measured_s,low_s,high_s,predicted_s" >rows.csv
uneven='s/"layers": \[\[0, 3\]\]/"layers": [[0, 4]]/; s/"layers": \[\[3, 6\]\]/"layers": [[4, 6]]/'
for now in $ranks; do
    todo=
    [ -d "calibration-$now" ] || "$L" calibrate --ranks "$now" --out "calibration-$now" >"calibrate-$now.log"
    row 1 tiny 1 1 1 8 4 128 tiny
    row 1 small 1 1 1 4 2 128 small
    row 1 mid 1 1 1 4 2 128 mid
    row 2 small 2 1 1 4 2 128 small-tp2
    row 2 small 1 2 1 8 2 128 small-pp2
    row 2 small 1 2 1 8 2 128 small-pp2-uneven "$uneven"
    row 2 small 1 1 2 8 2 128 small-dp2
    row 2 mid 2 1 1 4 2 128 mid-tp2
    row 2 mid 1 1 2 8 2 128 mid-dp2-zero0 "" --no-distributed-optimizer
    row 4 small 2 2 1 8 2 128 small-tp2-pp2
    row 4 small 2 1 2 8 2 128 small-tp2-dp2
    row 4 tiny 4 1 1 8 4 128 tiny-tp4
    row 8 small 2 2 2 16 2 128 small-tp2-pp2-dp2
    row 8 small 1 2 4 16 2 128 small-pp2-dp4
    row 8 mid 2 2 2 8 1 128 mid-tp2-pp2-dp2
    row 8 small 2 1 4 16 2 128 small-tp2-dp4-uneven 's/"devices": \[0, 1\]/"devices": [0, 1], "shares": [3, 1]/'
    had=$(awk -F, -v n="$now" '$1 == n && $4 > m {m = $4} END {print m + 0}' rows.csv)
    for run in $(seq $((had + 1)) $((had + repeat))); do
        for what in $todo; do measure "$now" "${what%%/*}" "${what#*/}" "$run"; done
    done
done

sort -t, -n -k1,1 -s rows.csv | awk -F, '
    function error(s, a) {return 100 * (s / a - 1)}
    function size(x) {return x < 0 ? -x : x}
    NR == 1 {
        print "| ranks | model | plan | predicted, ms | measured steps, ms: medians of the runs (quartiles) | errors | taken by others |"
        print "|---|---|---|---|---|---|---|"
        next
    }
    {
        k = $1 " | " $2 " | " $3
        if (!(k in cells)) order[m++] = k
        sep = k in cells ? "; " : ""
        cells[k] = cells[k] sep sprintf("%.1f (%.1f to %.1f)", 1e3 * $6, 1e3 * $7, 1e3 * $8)
        e = error($9, $6)
        errors[k] = errors[k] sep sprintf("%+.1f %%", e)
        others[k] = others[k] sep sprintf("%.1f %%", $5)
        sim[k] = 1e3 * $9
        c = $1 <= 2 ? "1 and 2 ranks" : "4 and 8 ranks"
        for (i = 0; i < 2; i++) {
            w = i ? c ", run " $4 : c
            sum[w] += size(e); count[w]++
            if (size(e) > most[w]) most[w] = size(e)
        }
        if (!((c, k) in met)) plans[c]++
        met[c, k] = 1
    }
    END {
        for (i = 0; i < m; i++) {
            k = order[i]
            printf "| %s | %.1f | %s | %s | %s |\n", k, sim[k], cells[k], errors[k], others[k]
        }
        for (w in sum)
            printf "%s: mean absolute error %.1f %%, largest %.1f %%%s\n", w, sum[w] / count[w], most[w],
                w in plans ? sprintf(" (%d validation plans, %d runs)", plans[w], count[w]) : "" | "sort"
    }'
mkdir -p plots
awk -F, 'BEGIN {print "suite,case,role,measured_s,predicted_s"} NR > 1 {print $1 "_ranks," $3 ",validation," $6 "," $9}' \
    rows.csv >plots/predicted.csv
LC_ALL=C.UTF-8 gnuplot -d -e "run='$dir'; out='$dir/predicted'; ran='step time, predicted against measured'" "$root/plots/predicted.gp"
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores; $(sed -n 's/.*driver: "\([^"]*\)".*/\1/p' calibration-*/profile-2.yaml | head -1); $(date -u +%F); figure: $dir/predicted.svg"
