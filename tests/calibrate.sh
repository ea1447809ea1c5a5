#!/usr/bin/env bash
# `luoshu calibrate`: two ranks measure two small networks and their communication; the tables become a
# profile and a cluster that are read back and simulated on; wrong uses are refused.
set -u
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} S=$PWD/scenarios
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
check() { # NAME CONDITION..: the condition is a command
    local name=$1; shift; n=$((n + 1))
    "$@" >"$tmp/said" 2>&1 && return
    echo "FAIL $name"; tail -n 5 "$tmp/said"; bad=$((bad + 1))
}
exits() { # CODE SENTENCE COMMAND..
    local code=$1 words=$2; shift 2
    "$@" >"$tmp/out" 2>&1
    local got=$?
    [ $got = "$code" ] && grep -qF "$words" "$tmp/out" || { echo "exit $got"; cat "$tmp/out"; false; }
}
rows() { # FILE PATTERN LEAST
    [ "$(grep -cE "$2" "$1")" -ge "$3" ]
}
mkdir "$tmp/m"
check "two ranks measure" mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 \
    "$(dirname "$(realpath "$L")")/luoshu-rank" --calibrate "$tmp/m" --quick --networks 2
check "products" rows "$tmp/m/op_times-2.csv" '^matmul(_dx|_dw)?,f32,[0-9]+,[0-9]+,[0-9]+,[0-9.]+,[0-9]+,calibration$' 9
for k in attention attention_dx norm norm_dx norm_dw rope activation activation_dx embedding embedding_dw row_sum \
    loss_dx grad_norm update copy; do
    check "times of $k" rows "$tmp/m/op_times-2.csv" "^$k,f32," 1
done
for k in all_reduce reduce_scatter all_gather all_to_all broadcast; do
    check "times of $k" rows "$tmp/m/collective_times-2.csv" "^$k,f32,2,1,[0-9]+,[0-9.]+,calibration$" 4
done
check "times of messages" rows "$tmp/m/p2p_times-2.csv" '^pcie,[0-9]+,[0-9.]+,calibration$' 4
check "facts" rows "$tmp/m/facts-2.csv" '^(instruction_us|compute_s f32 h64.b4|again_s f32 h64.b4|driver Open MPI.*),' 4

check "from tables" exits 0 "calibrate.csv" "$L" calibrate --out "$tmp/c" \
    --from "$tmp/m/op_times-2.csv" "$tmp/m/collective_times-2.csv" "$tmp/m/p2p_times-2.csv" "$tmp/m/facts-2.csv"
check "profile and cluster are good files" "$L" check "$tmp/c/profile-2.yaml" "$tmp/c/cluster-2.yaml"
check "every value says where it is from" rows "$tmp/c/profile-2.yaml" 'source: ".+", provenance: (measured|fitted|chosen)' 9
check "calibration rows are told again" awk -F, 'NR > 1 && $2 == "calibration" && $7 ~ /^op_times/ {n++; if ($6 > 1e-3 || $6 < -1e-3) bad++}
    END {exit !(n > 50 && !bad)}' "$tmp/c/calibrate.csv"
check "a plan for it" "$L" plan uniform --model "$S/models/tiny-llama.yaml" --cluster "$tmp/c/cluster-2.yaml" --out "$tmp/p.json" \
    --tensor-model-parallel-size 2 --global-batch-size 4 --seq-length 64 --quiet
check "simulated on it" "$L" sim "$tmp/p.json" --model "$S/models/tiny-llama.yaml" --cluster "$tmp/c/cluster-2.yaml" --out "$tmp/s" \
    --plots off --quiet
# The step is at least what its measured operations take and within what this machine can be off by.
check "its step is of the right size" awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i} NR == 2 {exit !($c > 2e-4 && $c < 2)}' \
    "$tmp/s/plan/steps.csv"

check "no such backend" exits 4 'backend `cuda` is not in this build' "$L" calibrate --backend cuda
check "a file without --from" exits 2 'unexpected argument' "$L" calibrate x.csv
check "no table of times" exits 3 'is no table of op_times' "$L" calibrate --out "$tmp/e1" --from "$S/models/tiny-llama.yaml"
check "no operations" exits 3 'no table of op_times is given' "$L" calibrate --out "$tmp/e2" --from "$tmp/m/p2p_times-2.csv"
check "one table twice" exits 2 'are of one kind' "$L" calibrate --out "$tmp/e3" --from "$tmp/m/op_times-2.csv" "$tmp/m/op_times-2.csv"
check "a folder in use" exits 2 'is not empty' "$L" calibrate --out "$tmp/c" --from "$tmp/m/op_times-2.csv"
printf 'op,dtype,m,n,k,time_us,role\nnorm,f32,10,2,1,3,calibration\n' >"$tmp/few.csv"
check "no products" exits 3 'no row of `matmul`' "$L" calibrate --out "$tmp/e4" --from "$tmp/few.csv"
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
