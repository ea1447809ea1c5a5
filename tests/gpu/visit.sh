#!/usr/bin/env bash
# A short visit to a machine with a GPU, used well: what teaches most comes first, every item has its own
# time limit, and what it measures is in a file the moment it exists. Cut off anywhere, it goes on where it
# was when it is started again with the same folder, or with a copy of it on another machine.
#
#   tests/gpu/visit.sh [--part NAME] [--again] [--list]
#     --part NAME   only this part: facts correct rates train torch calibrate sanitize ranks
#     --again       also what was done already
#     --list        parts, items and their limits; runs nothing
#   OUT             folder of results (tests/gpu/results/DEVICE-DATE); eight files:
#     visit.csv       what was begun and how it ended: date,part,item,attempt,event,s
#                     (event: begun, ok, failed, late, missing)
#     visit.txt       what all of it said
#     facts.txt       device, versions, date, commit
#     startup.csv     seconds and memory until the first kernel, by CUDA_MODULE_LOADING
#     check.csv       test programs and tools
#     rates.csv       kernels, attention, products: columns of tests/gpu/bench_gpu.h
#     train.csv       tokens/s of luoshu and PyTorch, predictions: columns of tests/gpu/training.sh
#     calibration.tar.xz   what `luoshu calibrate` wrote, and operations.csv: every operation of the steps that
#                          were measured, by the simulator on that calibration (reference_s) and on the GPU
#     Rows begin with item and attempt; those of an attempt that was cut off stay.
#   LUO_VISIT_S     seconds for all of it (1500); LUO_VISIT_MODEL, LUO_BENCH_STEPS, LUO_PYTHON: as bench.sh
# Exit 0: all is well; 1: something failed; 3: there was no time for some of it.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/common.sh

# part, seconds for it, its items: name:limit
plan_of_visit() {
    cat <<'END'
facts 70 device:20 startup-eager:30 startup-lazy:30
correct 240 check_kernels:60 check_products:60 check_attention:60 check_block:60 check_kernels_step:60 check_exec:120 check_state_gpu:60 check_watch_gpu:30 one-rank:60 check_experts:40 one-rank-experts:60
rates 180 bench_kernels:100 bench_attention:100 bench_products:100
train 180 graphs:90 no-graphs:90
torch 240 torch-autocast:120 torch-master:120
calibrate 270 calibrate:150 predicted:60 operations:60
sanitize 140 memcheck-kernels:60 memcheck-attention:60 racecheck-kernels:60 racecheck-attention:60
ranks 360 check_comm:60 check_comm_faults:90 ranks:90 accept:90 packed:75 context:60 annotated:60 experts:60
END
}

only= again= inner=
while [ $# -gt 0 ]; do
    case $1 in
    --part) only=${2:-}; shift; plan_of_visit | grep -q "^$only " || { echo "visit: there is no part \`$only\`; --list shows them." >&2; exit 2; } ;;
    --again) again=1 ;;
    --list) plan_of_visit; exit 0 ;;
    --item) inner=$2; shift ;; # of this script itself: runs one item's body
    *) echo "visit: unexpected argument \`$1\`; --part NAME, --again and --list are known." >&2; exit 2 ;;
    esac
    shift || break
done

model=${LUO_VISIT_MODEL:-scenarios/models/llama-1b.yaml 2048 4 4}
steps=${LUO_BENCH_STEPS:-20} type=${LUO_BENCH_TYPE:-bf16} python=${LUO_PYTHON:-python3}

# ---- one item, in a process of its own ----

say() { echo "$*"; }
head_of() { [ -s "$out/$1" ] || echo "$2" >"$out/$1"; }
# Lines of a program's CSV as they come, behind item and attempt; its own head is left out.
into() { # FILE.csv
    local line first=1
    while IFS= read -r line; do
        echo "$line"
        [ -n "$first" ] || printf '%s,%s,%s\n' "$item" "$attempt" "$line" >>"$out/$1"
        first=
    done
}
startup() { # MODE
    head_of startup.csv item,attempt,mode,what,s,used_bytes
    CUDA_MODULE_LOADING=$1 "$build/tests/gpu/startup" | into startup.csv
    return "${PIPESTATUS[0]}"
}
rate() { # PROGRAM ARGUMENTS..
    local p=$1; shift
    head_of rates.csv item,attempt,name,shape,type,s,bytes,flop,gbytes_per_s,tflop_per_s,ceiling,share
    "$build/tests/gpu/$p" "$@" | into rates.csv
    return "${PIPESTATUS[0]}"
}
checked() { # TOOL PROGRAM COMMAND..: its summary line as a row
    local tool=$1 program=$2 rc began=$EPOCHREALTIME; shift 2
    head_of check.csv item,attempt,tool,program,checks,failures,s,status
    "$@" 2>&1 | tee "$tmp/said"
    rc=${PIPESTATUS[0]}
    awk -v OFS=, -v i="$item" -v n="$attempt" -v t="$tool" -v p="$program" -v a="$began" -v b="$EPOCHREALTIME" -v rc="$rc" '
        /^[0-9]+%: Checks: / {gsub(",", ""); for (k = 1; k < NF; k++) {if ($k == "Checks:") c = $(k + 1); if ($k ~ /^(Failures|Errors):$/) f += $(k + 1)}}
        END {print i, n, t, p, c, f, sprintf("%.1f", b - a), rc == 0 ? "ok" : "failed"}' "$tmp/said" >>"$out/check.csv"
    return "$rc"
}
# Tests share one process and so one context: starting one for each would take most of the time.
test_program() { CK_FORK=no CK_TIMEOUT_MULTIPLIER=10 checked plain "$1" "$build/tests/cuda/$1"; }
sanitized() { # TOOL PROGRAM CASES
    local s
    s=$(sanitizer) || { say "compute-sanitizer is not found (COMPUTE_SANITIZER, PATH, CUDA_HOME)."; return 42; }
    CK_FORK=no CK_TIMEOUT_MULTIPLIER=50 LUO_CASES=$3 checked "$1" "$2" "$s" --tool "$1" --error-exitcode 9 "$build/tests/cuda/$2"
}
several() { # PROGRAM: on eight ranks, which share the GPUs there are
    command -v mpirun >/dev/null || { say "mpirun is not found."; return 42; }
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 \
        OMPI_MCA_btl_vader_single_copy_mechanism=none checked "8 ranks" "mpi/$1" mpirun -n 8 "$build/tests/cuda/mpi/$1"
}
training() {
    device=$(sed -n 's/^device //p' "$out/facts.txt" 2>/dev/null)
    [ -n "$device" ] || device=$("$build/tests/gpu/facts" | sed -n 's/^device //p')
    bad=0 train=$tmp/train.csv calibration=$tmp/calibration
    [ ! -f "$out/calibration.tar.xz" ] || tar -xJf "$out/calibration.tar.xz" -C "$tmp"
    . tests/gpu/training.sh
    begin_training
    head_of train.csv "item,attempt,$header"
    take_model "$model"
}
keep_training() { # what was measured, as rows
    sed 1d "$train" | while IFS= read -r line; do printf '%s,%s,%s\n' "$item" "$attempt" "$line"; done >>"$out/train.csv"
    return "$bad"
}
# A small model with experts and latent attention.
small_experts() {
    cat <<'END'
schema: luoshu.model/1
name: tiny-experts
family: moe
layers: 2
hidden: 128
ffn_hidden: 256
heads: 4
vocab: 512
max_sequence_tokens: 128
moe: {experts: 16, experts_per_token: 4, expert_ffn_hidden: 64, shared_experts: 1, shared_ffn_hidden: 64,
  first_dense_layers: 1, gate: sigmoid, bias_rate: 0.001, capacity_factor: 1.5}
attention: {kind: mla, kv_lora_rank: 32, qk_nope_head_dim: 24, qk_rope_head_dim: 8, v_head_dim: 16}
dtype: f32
END
}
# The same program, weights and tokens on GPU and processors, in f32.
one_rank() { # NAME COMMAND that writes the model
    local b
    training
    type=f32 name=$1; shift
    model=$tmp/model.yaml
    "$@" >"$model"
    cluster h100 >"$tmp/cluster.yaml"
    plan "$name" "$(key layers)" 64 2 2 | sed 's/"bf16"/"f32"/' >"$tmp/plan.json"
    for b in cuda host; do
        local with=$LUOSHU
        [ $b = cuda ] || with=${LUO_VISIT_HOST:-$LUOSHU} # the stand-in's folder has no rank for processors
        "$with" run "$tmp/plan.json" --backend $b --ranks 1 --steps 8 --model "$tmp/model.yaml" --cluster "$tmp/cluster.yaml" \
            --out "$tmp/$b" --plots off --quiet --seed 5 || return 1
    done
    awk -F, 'FNR == 1 {for (i = 1; i <= NF; i++) if ($i == "loss") c = i; next}
        NR == FNR {host[FNR] = $c; next}
        {d = $c / host[FNR] - 1; d = d < 0 ? -d : d; n++; if (!(d < 1e-4)) bad++; printf "step %d: loss %s on the GPU, %s on processors\n", FNR - 2, $c, host[FNR]}
        END {printf "%d%%: Checks: %d, Failures: %d, Errors: 0\n", n ? 100 * (n - bad) / n : 0, n, bad + 0; exit !(n == 8 && !bad)}' \
        "$tmp/host/plan/steps.csv" "$tmp/cuda/plan/steps.csv"
}
calibrate() {
    local how=(--backend cuda --ranks 1)
    if [ -n "${LUO_GPU_QUICK:-}" ]; then # the smallest size of everything, which shows only that it works
        mkdir -p "$tmp/tables"
        "$(dirname "$LUOSHU")/luoshu-rank-cuda" --calibrate "$tmp/tables" --networks 1 || return 1
        how=(--from "$tmp"/tables/*.csv)
    fi
    "$LUOSHU" calibrate --out "$tmp/calibration" "${how[@]}" || return 1
    if [ -d "$tmp/tables" ]; then # they go where the profile goes
        cp "$tmp"/tables/*.csv "$tmp/calibration"
        sed -i "s|$tmp/tables/||" "$tmp/calibration/profile.yaml"
    fi
    keep_calibration
}
keep_calibration() {
    tar -cJf "$out/calibration.tar.xz.tmp" -C "$tmp" calibration && mv "$out/calibration.tar.xz.tmp" "$out/calibration.tar.xz"
}
# The model with as many layers as luoshu trained.
as_measured() {
    local l
    l=$(awk -F, -v m="$name" '$3 == "luoshu" && $5 == m {l = $6} END {print l}' "$out/train.csv")
    layers=${l:-$layers}
    sed "s/^layers: .*/layers: $layers/" "${model%% *}" >"$tmp/model.yaml"
    describe
}
# The same steps simulated on what calibrate found and run here, operation by operation; the same program by its hash.
operations() {
    local how=(--steps 6 --trace-steps 3-5 --plots off --quiet) stack=()
    training
    [ -f "$calibration/cluster.yaml" ] || { say "there is no calibration to simulate on."; return 42; }
    as_measured
    plan "$name" "$layers" "$sequence" "$sequences" "$micro" >"$tmp/plan.json"
    [ ! -f "$calibration/stack.yaml" ] || stack=(--stack "$calibration/stack.yaml")
    "$LUOSHU" sim "$tmp/plan.json" --model "$tmp/model.yaml" --cluster "$calibration/cluster.yaml" \
        "${stack[@]}" --out "$tmp/simulated" "${how[@]}" || return 1
    "$LUOSHU" run "$tmp/plan.json" --backend cuda --ranks 1 --model "$tmp/model.yaml" --cluster "$tmp/cluster.yaml" \
        --data "$tmp/tokens.u16" --out "$tmp/real" "${how[@]}" || return 1
    "$LUOSHU" compare "$tmp/simulated/plan" "$tmp/real/plan" --out "$tmp/compared" || return 1
    cp "$tmp/compared/compare_ops.csv" "$calibration/operations.csv"
    awk -F, 'BEGIN {printf "%-36s %10s %10s %8s\n", "operation, of all layers", "simulated", "measured", "error"}
        NR > 1 && $1 !~ /layers\.[0-9]/ {printf "%-36s %9.6fs %9.6fs %s\n", $1, $4, $5, ($5 > 0 ? sprintf("%+6.1f %%", 100 * ($4 / $5 - 1)) : "")}' \
        "$calibration/operations.csv"
    keep_calibration
}
# Steps that were measured before, simulated on what calibrate found.
predicted() {
    local s p
    training
    [ -f "$calibration/cluster.yaml" ] || { say "there is no calibration to predict from."; return 42; }
    s=$(awk -F, -v m="$name" -v t="$type" '$3 == "luoshu" && $4 == t && $5 == m {s = $13} END {print s}' "$out/train.csv")
    [ -n "$s" ] || { say "no step was measured to predict."; return 42; }
    as_measured
    plan "$name" "$layers" "$sequence" "$sequences" "$micro" >"$tmp/plan.json"
    p=$(predicted_step)
    [ -n "$p" ] || return 1
    row predicted "$type" "$s" "$p"
    keep_training
}

body() {
    case $item in
    device) facts >"$out/facts.txt.tmp" && mv "$out/facts.txt.tmp" "$out/facts.txt" && cat "$out/facts.txt" ;;
    startup-eager) startup EAGER ;;
    startup-lazy) startup LAZY ;;
    one-rank) checked plain one-rank one_rank tiny-llama cat scenarios/models/tiny-llama.yaml ;;
    one-rank-experts) checked plain one-rank-experts one_rank tiny-experts small_experts ;;
    check_comm | check_comm_faults | ranks | accept | experts) several "$item" ;;
    packed | context | annotated) export LUO_KIND=$item; several kinds ;;
    check_*) test_program "$item" ;;
    bench_products) read -r m q n _ <<<"$model"; rate bench_products "$m" $((q * n)) "$type" ;;
    bench_*) rate "$item" ;;
    graphs) training; train_luoshu; keep_training ;;
    no-graphs) export LUO_CUDA_GRAPHS=0; variant=no-graphs; training; train_luoshu; keep_training ;;
    torch-*) variants=${item#torch-}; training; train_torch_kept ;;
    calibrate) calibrate ;;
    predicted | operations) $item ;;
    *-kernels) sanitized "${item%-*}" check_kernels 4 ;;
    *-attention) sanitized "${item%-*}" check_attention 2 ;;
    esac
}
# A variant of PyTorch, then what luoshu has of the faster so far.
train_torch_kept() {
    as_measured
    train_torch
    [ "$(wc -l <"$train")" -gt 1 ] || return 42
    keep_training || return
    cut -d, -f3- "$out/train.csv" >"$train"
    ratios
}

if [ -n "$inner" ]; then
    item=$inner attempt=$LUO_VISIT_ATTEMPT build=$LUO_VISIT_BUILD out=$LUO_VISIT_OUT label=$LUO_VISIT_LABEL
    tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
    body
    exit
fi

# ---- all items ----

gpu_ready visit
head_of visit.csv date,part,item,attempt,event,s
log=$out/visit.txt
began=$EPOCHREALTIME
left() { # seconds of SECONDS since EPOCHREALTIME value
    awk -v l="$1" -v a="$2" -v b="$EPOCHREALTIME" 'BEGIN {printf "%d", l - (b - a)}'
}
note() { # PART ITEM ATTEMPT EVENT S
    echo "$(date -u +%FT%TZ),$1,$2,$3,$4,$5" >>"$out/visit.csv"
}
is_done() { # ITEM
    [ -z "$again" ] && awk -F, -v i="$1" '$3 == i {e = $5} END {exit !(e == "ok" || e == "failed" || e == "late" || e == "missing")}' "$out/visit.csv"
}
ok=0 bad=0 missed=0
run_item() { # PART ITEM SECONDS
    local n rc event at=$EPOCHREALTIME s
    n=$(($(awk -F, -v i="$2" '$3 == i && $5 == "begun"' "$out/visit.csv" | wc -l) + 1))
    note "$1" "$2" "$n" begun ""
    echo "== $1: $2, attempt $n" | tee -a "$log"
    LUO_VISIT_ATTEMPT=$n LUO_VISIT_BUILD=$build LUO_VISIT_OUT=$out LUO_VISIT_LABEL=$label \
        timeout -k 5 "$3" "$0" --item "$2" </dev/null 2>&1 | tee -a "$log"
    rc=${PIPESTATUS[0]}
    case $rc in 0) event=ok; ok=$((ok + 1)) ;; 42) event=missing; missed=$((missed + 1)) ;;
    124 | 137) event=late; bad=$((bad + 1)) ;; *) event=failed; bad=$((bad + 1)) ;; esac
    s=$(awk -v a="$at" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}')
    note "$1" "$2" "$n" $event "$s"
    echo "-- $1: $2: $event, $s s" | tee -a "$log"
}
while read -r part seconds items; do
    [ -z "$only" ] || [ "$only" = "$part" ] || continue
    since=$EPOCHREALTIME
    for entry in $items; do
        name=${entry%:*} limit=${entry#*:}
        is_done "$name" && continue
        s=$(left "${LUO_VISIT_S:-1500}" "$began"); [ "$s" -lt "$limit" ] && limit=$s
        s=$(left "$seconds" "$since"); [ "$s" -lt "$limit" ] && limit=$s
        [ "$limit" -ge 3 ] || { missed=$((missed + 1)); echo "-- $part: $name: not begun, its time is up" | tee -a "$log"; continue; }
        run_item "$part" "$name" "$limit"
    done
done < <(plan_of_visit)
echo "$ok ok, $bad failed or late, $missed not done; results in $out" | tee -a "$log"
[ $bad = 0 ] || exit 1
[ $missed = 0 ] || exit 3
