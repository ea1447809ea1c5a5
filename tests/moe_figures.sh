#!/usr/bin/env bash
# Exchanges of experts on shipped clusters, and layers of shipped models: figures a2a_size, a2a_map and moe_layer.
# usage: tests/moe_figures.sh [OUT] (luoshu-moe)
#   OUT/one-nic, OUT/nic-a-device, OUT/MODEL  the tables, and in plots/ the figures
# Ten seconds.
set -u
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} out=${1:-luoshu-moe}
mkdir -p "$out" || exit 4

moe() { # FOLDER options..
    local folder=$1
    shift
    "$L" moe "$@" --out "$out/$folder" --force || { echo "moe_figures: FAILED: moe $*" >&2; exit 4; }
}
moe one-nic exchange --cluster scenarios/clusters/v100x8-p100x21.yaml --devices-per-node 8
moe nic-a-device exchange --cluster scenarios/clusters/a100-64.yaml
for model in deepseek-v2-lite mixtral-8x7b; do
    moe $model layer --model scenarios/models/$model.yaml --cluster scenarios/clusters/a100-64.yaml
done
