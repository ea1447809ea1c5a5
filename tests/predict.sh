#!/usr/bin/env bash
# usage: tests/predict.sh [DIR]
# How well the simulator predicts real runs on this machine: calibrates it (unless DIR/calibration is
# there), runs plans on 1, 2, 4 and 8 ranks, simulates the very same programs, and prints a table.
# Nothing is fitted on the plans: calibration trains networks of other shapes on single devices and
# times collectives and messages alone. Takes about ten minutes on a quiet machine; on a busy one the
# numbers mean nothing.
set -eu
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
L=${LUOSHU:-$root/luoshu}
dir=$(mkdir -p "${1:-build/predict}" && cd "${1:-build/predict}" && pwd)
steps=${STEPS:-12} skip=3 # the first steps are cold
cd "$dir"
[ -d calibration ] || "$L" calibrate --out calibration >calibrate.log

model() { # NAME layers hidden ffn heads kv_heads vocab
    printf '%s\n' "schema: luoshu.model/1" "name: $1" "family: llama" "layers: $2" "hidden: $3" \
        "ffn_hidden: $4" "heads: $5" "kv_heads: $6" "vocab: $7" "max_sequence_tokens: 256" "dtype: f32" >"$1.yaml"
}
model tiny 4 96 256 8 4 512      # 0.6M parameters
model small 6 320 864 8 4 1536  # 8M
model mid 8 448 1216 8 8 6144    # 25M

# One row: measured and predicted step. Plans whose shares are uneven are made from even ones by sed.
row() { # RANKS MODEL TP PP DP SEQUENCES MICRO TOKENS NAME [sed script] [plan options]
    local n=$1 m=$2 plan=$9 edit=${10:-} out
    "$L" plan uniform --model "$m.yaml" --cluster "calibration/cluster-$n.yaml" --out "$plan.json" --force --quiet \
        --tensor-model-parallel-size "$3" --pipeline-model-parallel-size "$4" --data-parallel-size "$5" \
        --global-batch-size "$6" --micro-batch-size "$7" --seq-length "$8" --recompute-granularity none \
        ${11:-} >/dev/null
    [ -z "$edit" ] || sed -i "$edit" "$plan.json"
    "$L" run "$plan.json" --backend host --model "$m.yaml" --cluster "calibration/cluster-$n.yaml" --steps "$steps" \
        --out "$plan-run" --force --quiet --plots off --trace-steps 3 >"$plan.log" 2>&1 || { cat "$plan.log" >&2; exit 1; }
    "$L" sim "$plan.json" --model "$m.yaml" --cluster "calibration/cluster-$n.yaml" --steps 4 \
        --out "$plan-sim" --force --quiet --plots off --trace-steps 3 >>"$plan.log" 2>&1 || { cat "$plan.log" >&2; exit 1; }
    "$L" compare "$plan-sim/plan" "$plan-run/plan" --out "$plan-compare" --force >>"$plan.log" 2>&1
    out=$(awk -F, -v skip="$skip" 'FNR == 1 {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i; f++; next}
        f == 1 && $1 >= skip {v[n++] = $c} f == 2 {s = $c}
        END {for (i = 0; i < n; i++) for (k = i + 1; k < n; k++) if (v[k] < v[i]) {t = v[i]; v[i] = v[k]; v[k] = t}
            printf "%.6f %.6f %.6f %.6f", v[int(n / 2)], v[int(n / 4)], v[int(3 * n / 4)], s}' \
        "$plan-run/plan/steps.csv" "$plan-sim/plan/steps.csv")
    # shellcheck disable=SC2086
    set -- $out
    echo "$n,$m,$plan,$1,$2,$3,$4" >>rows.csv
    awk -v n="$n" -v m="$m" -v p="$plan" -v a="$1" -v lo="$2" -v hi="$3" -v s="$4" 'BEGIN {
        printf "| %d | %s | %s | %.1f (%.1f to %.1f) | %.1f | %+.1f %% |\n", n, m, p, 1e3 * a, 1e3 * lo, 1e3 * hi, 1e3 * s, 100 * (s / a - 1)}'
}

echo "ranks,model,plan,measured_s,low_s,high_s,predicted_s" >rows.csv
echo "| ranks | model | plan | measured step, ms (quartiles) | predicted, ms | error |"
echo "|---|---|---|---|---|---|"
uneven='s/"layers": \[\[0, 3\]\]/"layers": [[0, 4]]/; s/"layers": \[\[3, 6\]\]/"layers": [[4, 6]]/'
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

awk -F, 'NR > 1 {e = $7 / $4 - 1; if (e < 0) e = -e; k = $1 <= 2 ? "1 and 2 ranks" : "4 and 8 ranks"; s[k] += e; n[k]++; if (e > w[k]) w[k] = e}
    END {for (k in s) printf "%s: mean absolute error %.1f %%, largest %.1f %%, %d plans\n", k, 100 * s[k] / n[k], 100 * w[k], n[k]}' rows.csv | sort
mkdir -p plots
awk -F, 'BEGIN {print "suite,case,role,measured_s,predicted_s"} NR > 1 {print $1 " ranks," $3 ",validation," $4 "," $7}' rows.csv |
    sed 's/^\([0-9]*\) ranks/\1_ranks/' >plots/predicted.csv
gnuplot -d -e "run='$dir'; out='$dir/predicted'; title='step time, predicted against measured'" "$root/plots/predicted.gp"
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores; $(sed -n 's/.*driver: "\([^"]*\)".*/\1/p' calibration/profile-2.yaml); figure: $dir/predicted.svg"
