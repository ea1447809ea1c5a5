#!/usr/bin/env bash
# usage: tests/auto_pairs.sh [DIR]     (build/auto-pairs)
# `luoshu plan auto` beside each planner alone on 14 pairs of model and cluster, by the simulated step, and beside all
# uniform plans there are where that can be simulated. hap: its candidate, as `auto` asks it for experts and for devices of
# several types. Writes DIR/auto_pairs.csv and .md; exit 1 where auto is slower than
# a planner, or more than 2 % behind the best of all plans.
set -eu
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
L=${LUOSHU:-$root/build/release/luoshu} S=$root/scenarios
dir=$(mkdir -p "${1:-build/auto-pairs}" && cd "${1:-build/auto-pairs}" && pwd)
cd "$dir"
key() { awk -v k="\"$2\":" '{i = index($0, k)} i {v = substr($0, i + length(k)); sub(/^ */, "", v); sub(/[,}].*/, "", v); gsub(/"/, "", v); print v == "null" ? "" : v; exit}' "$1"; }
planner() { # NAME: of auto.json, its step
    awk -v p="\"planner\": \"$1\"" 'index($0, p) {v = $0; sub(/.*"step_s": /, "", v); sub(/,.*/, "", v); print v == "null" ? "" : v; exit}' auto.json
}
alone() { # PLANNER options..: its simulated step; empty: it has no plan
    local name=$1; shift
    "$L" plan "$name" "$@" --force --json >"$name.json" 2>/dev/null && key "$name.json" simulated_step_s || true
}
slow='' # a slow device and one that is down
ask() { # MODEL CLUSTER TOKENS BATCH [WHAT]
    local what=${5:-} m=$S/models/$1.yaml c=$S/clusters/$2.yaml base more=() slow=()
    base=(--model "$m" --cluster "$c" --seq-length "$3" --global-batch-size "$4")
    [ "$what" != slow ] || { printf 'device,rate\n3,2.57\n9,inf\n' >rates.csv; slow=(--rates rates.csv); }
    "$L" plan auto "${base[@]}" "${slow[@]}" --force --json >auto.json 2>err || { echo "$1 on $2: $(tail -n 1 err)" >&2; return 1; }
    local own uniform malleus all=''
    own=$(key auto.json step_s)
    uniform=$([ "$what" = slow ] && planner uniform || alone uniform "${base[@]}")
    malleus=$(alone malleus "${base[@]}" "${slow[@]}")
    [ "$what" != whole ] || all=$("$L" plan uniform "${base[@]}" --rank simulated --top 1000 --force --json 2>/dev/null | tee all.json >/dev/null; key all.json simulated_step_s; rm -f plan-*.json)
    echo "$1,$2,$3,$4,$what,$(key auto.json chosen),$own,$uniform,$malleus,$(planner hap),$(planner search),$all,$(key auto.json time_s)" | tee -a auto_pairs.csv
}
echo "model,cluster,tokens,batch,what,chosen,auto_s,uniform_s,malleus_s,hap_s,search_s,all_uniform_s,planning_s" | tee auto_pairs.csv
ask tiny-llama tiny8 128 16 whole
ask llama-125m tiny8 1024 32 whole
ask llama-7b dgx1-v100 2048 64
ask llama-13b a800-32 4096 64
ask llama-32b a800-32 4096 64
ask llama-32b h20-32 4096 64
ask llama-32b mixed48 4096 64
ask llama-32b mixed48 4096 64 slow
ask llama-32b h20x16-h800x16 4096 64
ask llama-70b a100-64 8192 64
ask gpt-175b a100-64 2048 64
ask mixtral-8x7b a800-32 4096 64
ask mixtral-8x7b h20x16-h800x16 4096 64
ask llama-70b h100-1024 4096 1024
awk -F, 'NR == 1 {next}
    {best = ""; for (k = 8; k <= 10; k++) if ($k != "" && (best == "" || $k < best)) best = $k
     if (best != "" && $7 > best * (1 + 1e-9)) {print "auto is slower on " $1 ", " $2 ": " $7 " beside " best; bad = 1}
     if ($12 != "" && $7 > 1.02 * $12) {print "auto is behind the best of all plans on " $1 ", " $2 ": " $7 " beside " $12; bad = 1}
     n++} END {print n " pairs"; exit bad}' auto_pairs.csv && code=0 || code=$?
{
    echo "| model | cluster | tokens | batch | chosen | auto, s | uniform, s | malleus, s | hap, s | all uniform plans, s | planning, s |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|"
    awk -F, 'function f(x) {return x == "" ? "-" : sprintf("%.4g", x)}
        NR > 1 {print "| " $1 " | " $2 ($5 == "slow" ? ", one slow, one down" : "") " | " $3 " | " $4 " | " $6 " | " f($7) " | " f($8) " | " f($9) " | " f($10) " | " f($12) " | " sprintf("%.1f", $13) " |"}' auto_pairs.csv
} >auto_pairs.md
echo "$dir/auto_pairs.csv"
exit "$code"
