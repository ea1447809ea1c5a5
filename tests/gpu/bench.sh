#!/usr/bin/env bash
# `make bench-gpu`: how fast the cuda backend is on one GPU, beside what the GPU was measured to do and
# beside PyTorch. Writes into tests/gpu/results/DEVICE-DATE (common.sh): bench.txt, and
#   kernels.csv attention.csv products-MODEL.csv   columns: tests/gpu/bench_gpu.h
#   train.csv                                      tokens/s of training steps: training.sh
# Rows are there as soon as they are measured.
#
#   LUO_BENCH_MODELS   lines `MODEL.yaml SEQUENCE SEQUENCES_OF_A_MICRO_BATCH MICRO_BATCHES`
#   LUO_BENCH_STEPS    steps of a measurement (20); the first third is left out, the rest's median counts
#   LUO_BENCH_TYPE     bf16 or f32 (bf16)
#   LUO_CALIBRATION    folder that `luoshu calibrate --backend cuda` wrote on this device: the simulator's
#                      prediction of each step is put beside it (DEVICE-DATE/calibration, if it is there)
#   LUO_PYTHON         a Python that has torch (python3)
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/common.sh
gpu_ready bench-gpu
models=${LUO_BENCH_MODELS:-"
scenarios/models/llama-125m.yaml 2048 8 4
scenarios/models/llama-1b.yaml 2048 4 4
scenarios/models/llama-7b.yaml 4096 1 4"}
steps=${LUO_BENCH_STEPS:-20} type=${LUO_BENCH_TYPE:-bf16} python=${LUO_PYTHON:-python3}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
bad=0; text=$out/bench.txt train=$out/train.csv calibration=${LUO_CALIBRATION:-$out/calibration}
facts >"$text" || exit 1
say() { echo "$*" | tee -a "$text"; }
device=$(sed -n 's/^device //p' "$text")
. tests/gpu/training.sh

# ---- kernels ----
table() { # FILE.csv COMMAND..: its rows, also as text
    local csv=$1; shift
    say "== ${csv%.csv}"
    if ! "$@" >"$out/$csv" 2>"$tmp/log"; then
        say "failed: $(tail -n 1 "$tmp/log")"; bad=1
    fi
    awk -F, 'NR > 1 {printf "%-28s %-58s %-5s %12.1f us %9.1f GB/s %8.2f TFLOP/s %5.1f %% of %.1f\n", $1, $2, $3, 1e6 * $4, $7, $8, 100 * $10, $9}' \
        "$out/$csv" | tee -a "$text"
}
kernels() {
    local p
    for p in bench_kernels bench_attention; do
        table "${p#bench_}.csv" "$build/tests/gpu/$p"
    done
    while read -r model sequence sequences _; do
        [ -n "$model" ] || continue
        table "products-$(basename "$model" .yaml).csv" "$build/tests/gpu/bench_products" "$model" $((sequence * sequences)) "$type"
    done <<<"$models"
}

# ---- training ----
train() {
    rm -f "$train"
    begin_training
    [ -f "$calibration/cluster.yaml" ] ||
        say "no predictions: no calibrated profile; \`luoshu calibrate --backend cuda --ranks 1 --out $calibration\` makes one."
    while read -r line; do
        [ -n "$line" ] || continue
        take_model "$line"
        train_luoshu
        train_torch
    done <<<"$models"
    ratios
}

kernels
train
echo "results in $out"
[ $bad = 0 ]
