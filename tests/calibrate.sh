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
# What a profile says was measured came out of the tables that were given: its source begins with the name of one.
measured_of() { # LEAST PROFILE TABLE..
    local least=$1 file=$2 n=0 bad=0 source; shift 2
    while read -r source; do
        n=$((n + 1))
        for t in "$@"; do [[ $source == "$t: "* ]] && continue 2; done
        echo "measured, says: $source"; bad=1
    done < <(sed -n 's/.*source: "\(.*\)", provenance: measured}$/\1/p' "$file")
    [ $bad = 0 ] && [ $n -ge "$least" ]
}
mkdir "$tmp/m"
check "two ranks measure" mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 \
    "$(dirname "$(realpath "$L")")/luoshu-rank" --calibrate "$tmp/m" --quick --networks 2
check "products" rows "$tmp/m/op_times-2.csv" '^matmul(_dx|_dw)?,f32,[0-9]+,[0-9]+,[0-9]+,[0-9.]+,[0-9]+,calibration$' 9
for k in attention attention_dx norm norm_dx norm_dw rope activation activation_dx embedding embedding_dw row_sum \
    loss_dx grad_norm update copy; do
    check "times of $k" rows "$tmp/m/op_times-2.csv" "^$k,f32," 1
done
for k in all_reduce:4 reduce_scatter:4 all_gather:4 all_to_all:2 broadcast:2; do
    check "times of ${k%:*}" rows "$tmp/m/collective_times-2.csv" "^${k%:*},f32,2,1,[0-9]+,[0-9.]+,calibration$" ${k#*:}
done
check "times of messages" rows "$tmp/m/p2p_times-2.csv" '^pcie,[0-9]+,[0-9.]+,calibration$' 4
check "facts" rows "$tmp/m/facts-2.csv" '^(instruction_us|compute_s f32 h64.b4|again_s f32 h64.b4|driver Open MPI.*),' 4

check "from tables" exits 0 "calibrate.csv" "$L" calibrate --out "$tmp/c" \
    --from "$tmp/m/op_times-2.csv" "$tmp/m/collective_times-2.csv" "$tmp/m/p2p_times-2.csv" "$tmp/m/facts-2.csv"
check "profile and cluster are good files" "$L" check "$tmp/c/profile-2.yaml" "$tmp/c/cluster-2.yaml"
check "every value says where it is from" rows "$tmp/c/profile-2.yaml" 'source: ".+", provenance: (measured|fitted|chosen)' 9
check "what was measured" measured_of 3 "$tmp/c/profile-2.yaml" op_times-2.csv facts-2.csv p2p_times-2.csv
check "without facts" exits 0 "calibrate.csv" "$L" calibrate --out "$tmp/c1" --from "$tmp/m/op_times-2.csv"
check "what was measured without facts" measured_of 1 "$tmp/c1/profile-1.yaml" op_times-2.csv
check "what was not" rows "$tmp/c1/profile-1.yaml" '(launch_us|memory_gib), .*provenance: chosen' 2
check "nor the path" rows "$tmp/c1/cluster-1.yaml" 'Bandwidth and latency of pcie are chosen' 1
check "calibration rows are told again" awk -F, 'NR > 1 && $2 == "calibration" && $7 ~ /^op_times/ {n++; if ($6 > 1e-3 || $6 < -1e-3) bad++}
    END {exit !(n > 50 && !bad)}' "$tmp/c/calibrate.csv"
check "a plan for it" "$L" plan uniform --model "$S/models/tiny-llama.yaml" --cluster "$tmp/c/cluster-2.yaml" --out "$tmp/p.json" \
    --tensor-model-parallel-size 2 --global-batch-size 4 --seq-length 64 --quiet
check "simulated on it" "$L" sim "$tmp/p.json" --model "$S/models/tiny-llama.yaml" --cluster "$tmp/c/cluster-2.yaml" --out "$tmp/s" \
    --plots off --quiet
# The step is at least what its measured operations take and within what a machine can be off by that others use, too.
check "its step is of the right size" awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i} NR == 2 {exit !($c > 2e-4 && $c < 200)}' \
    "$tmp/s/plan/steps.csv"

# A row that makes no sense, or of a software that is not known, is told and left out of the fit.
awk -F, -v OFS=, '/^syn-1/ { $25 = 33 } /^syn-2/ { $4 = "other" } 1' "$S/examples/measured/suites/synthetic.csv" >"$tmp/rows.csv"
for words in "syn-1: 33 sequences are not 8 equal shares. The row is left out." "there is no stack \`other\`" "closed form on 1 calibration rows"; do
    check "a fit without wrong rows: $words" exits 0 "$words" "$L" calibrate --from "$tmp/rows.csv" --fit gemm_ratio --out "$tmp/rest" --force
done
# Tables of a GPU that does not exist (synthetic: made by the formulas of docs/cost-model.md#compute from chosen constants):
# its constants come out again, the profile is a good one, and a plan is simulated on it.
mkdir "$tmp/gpu"
awk 'function ceil(x) {return x == int(x) ? x : int(x) + 1}
    function max(a, b) {return a > b ? a : b}
    function row(op, t, m, n, k, s) {printf "%s,%s,%d,%d,%d,%.6f,20,%s\n", op, t, m, n, k, 1e6 * s, ++rows % 4 ? "calibration" : "validation"}
    function gemm(m, n, k,    i, w, c, u) {
        c = 1e9
        for (i = 0; i < 6; i++) {
            u = ceil(ceil(m / tm[i]) * ceil(n / tn[i]) / 100) * 100
            w = u * 2 * tm[i] * tn[i] * (k + 50) / (P * 0.7 * eff[i]); if (w < c) c = w
        }
        return max(c, 2 * (m * k + k * n + m * n) / (0.8 * W)) + 3e-6
    }
    BEGIN {
        P = 400e12; W = 2e12
        split("256 128 128 128 64 64", a); split("128 256 128 64 128 64", b); split("1 1 .95 .8 .8 .6", e)
        for (i = 0; i < 6; i++) {tm[i] = a[i + 1]; tn[i] = b[i + 1]; eff[i] = e[i + 1]}
        print "op,dtype,m,n,k,time_us,samples,role"
        for (m = 16; m <= 16384; m *= 4) for (n = 512; n <= 8192; n *= 2) for (k = 512; k <= 8192; k *= 4) row("gemm", "bf16", m, n, k, gemm(m, n, k))
        for (s = 512; s <= 32768; s *= 2) {f = 2 * 16 * 128 * s * s; row("attention_forward", "bf16", s, 16, 128, f / (P * .5) + 3e-6); row("attention_backward", "bf16", s, 16, 128, 2.5 * f / (P * .4) + 3e-6)}
        for (x = 65536; x <= 2^30; x *= 4) row("stream", "bf16", x, 1, 1, x / (0.8 * W) + 3e-6)
    }' >"$tmp/gpu/op_times.csv"
printf 'name,value\ndevice synthetic 40G,1\nlaunch_us,3\nsm_count,100\nmemory_bytes,42949672960\nbeside_bytes alone,1073741824\nbeside_bytes communicators,2684354560\n' >"$tmp/gpu/facts.csv"
for i in 1 2 3 4 5 6; do # steps of i * 100 kernels that the host launches in 10 us each, and 50 ms of the device
    printf 'step_gpu_s n%d,%s\nstep_kernels n%d,%d\nstep_s n%d,%s\n' $i 0.05 $i $((i * 2000)) $i \
        "$(awk -v n=$i 'BEGIN {print (0.05^3 + (n * 2000 * 1e-5)^3)^(1 / 3)}')"
done >>"$tmp/gpu/facts.csv"
{ echo 'collective,dtype,devices,nodes,size_bytes,time_us,role'
  for b in 1024 65536 1048576 16777216 268435456; do echo "all_reduce,f32,4,1,$b,$((20 + b / 100000)),calibration"; done; } >"$tmp/gpu/collective_times.csv"
check "a GPU from tables" exits 0 "calibrate.csv" "$L" calibrate --out "$tmp/g" --seed 1 --from "$tmp/gpu/op_times.csv" "$tmp/gpu/facts.csv" \
    "$tmp/gpu/collective_times.csv"
check "its files are good" "$L" check "$tmp/g/profile.yaml" "$tmp/g/cluster.yaml" "$tmp/g/stack.yaml"
check "held-out rows are predicted" awk -F, 'NR > 1 && $2 == "validation" {n++; e = $6 < 0 ? -$6 : $6; s += e} END {exit !(n > 15 && s / n < 0.03)}' "$tmp/g/calibrate.csv"
check "the host's launches" awk '/host_launch_us/ {match($0, /value: [0-9.]+/); v = 0 + substr($0, RSTART + 7, RLENGTH - 7)} END {exit !(v > 9 && v < 11)}' "$tmp/g/stack.yaml"
check "what plans leave free" grep -qF '{name: reserved_gib, value: 2.5, source: "facts.csv: used beside tensors' "$tmp/g/profile.yaml"
check "what of it was measured" measured_of 7 "$tmp/g/profile.yaml" op_times.csv facts.csv collective_times.csv
check "its links, of its fastest collective" rows "$tmp/g/profile.yaml" 'tables_nvlink_gbytes_per_s, value: 148[.0-9]*, source: "collective_times.csv: fastest' 1
check "launches of the facts" grep -qF '{name: launch_us, value: 3, source: "facts.csv: ' "$tmp/g/profile.yaml"
mkdir "$tmp/gpu6" # of one rank, which has no communicators
sed '/communicators/d' "$tmp/gpu/facts.csv" >"$tmp/gpu6/facts.csv"
check "a GPU that is known" exits 0 "calibrate.csv" "$L" calibrate --out "$tmp/g6" --seed 1 --profile h100 --from "$tmp/gpu/op_times.csv" \
    "$tmp/gpu6/facts.csv"
check "what one rank leaves free" grep -qF '{name: reserved_gib, value: 1, source: "facts.csv: used beside tensors by one rank alone: ' "$tmp/g6/profile.yaml"
check "its facts go first" measured_of 4 "$tmp/g6/profile.yaml" facts.csv
cp -r "$tmp/g" "$tmp/g1"
check "same tables, same bytes" sh -c "'$L' calibrate --out '$tmp/g' --force --seed 1 --from '$tmp/gpu/op_times.csv' '$tmp/gpu/facts.csv' '$tmp/gpu/collective_times.csv' && cmp '$tmp/g/profile.yaml' '$tmp/g1/profile.yaml' && cmp '$tmp/g/calibrate.csv' '$tmp/g1/calibrate.csv'"
check "a plan for four of it" "$L" plan uniform --model "$S/models/llama-7b.yaml" --cluster "$tmp/g/cluster.yaml" --out "$tmp/gp.json" \
    --tensor-model-parallel-size 4 --global-batch-size 4 --seq-length 2048 --quiet
check "simulated on it" "$L" sim "$tmp/gp.json" --model "$S/models/llama-7b.yaml" --cluster "$tmp/g/cluster.yaml" --stack "$tmp/g/stack.yaml" \
    --out "$tmp/gs" --plots off --quiet
check "several nodes need a cluster" exits 3 'give --cluster' "$L" calibrate --out "$tmp/g2" --from "$tmp/gpu/op_times.csv" "$tmp/gpu/facts.csv" <(
    echo 'collective,dtype,devices,nodes,size_bytes,time_us,role'; echo 'all_reduce,f32,16,2,1048576,200,calibration')
check "options of GPUs with processors" exits 2 '`--seed` is of GPUs' "$L" calibrate --out "$tmp/g4" --seed 1
check "options of GPUs with tables of processors" exits 2 '`--cluster` is of GPUs' "$L" calibrate --out "$tmp/g5" \
    --cluster "$S/clusters/tiny2.yaml" --from "$tmp/m/op_times-2.csv"
check "memory is not known" exits 3 'how much memory the GPU has' "$L" calibrate --out "$tmp/g3" --from "$tmp/gpu/op_times.csv"

# All suites of a folder at once (made up here): two sources, the second a third slower.
mkdir -p "$tmp/folder/suites"; sed 's/,synthetic,/,quick,/' "$S/examples/measured/suites/synthetic.csv" >"$tmp/folder/suites/quick.csv"
awk -F, -v OFS=, '/^syn/ {$3 = "slow"; for (i = 1; i <= NF; i++) if ($i == "measured") $(i - 1) *= 1.3333} 1' \
    "$S/examples/measured/suites/synthetic.csv" >"$tmp/folder/suites/slow.csv"
check "a folder" exits 0 "of 2 sources: mean" "$L" calibrate --from "$tmp/folder" --out "$tmp/types"
check "effects of its sources lie apart" awk '$1 == "source" {e[$2] = $3} END {d = e["slow"] - e["quick"]; exit !(d > 15 && d < 35)}' "$tmp/out"
check "a type with rows" rows "$tmp/types/a100-80.yaml" 'name: gemm_ratio, value: 0[.][0-9]+, spread: 0[.][0-9]+, source: "6 rows of 2 sources, by' 1
check "a type without" rows "$tmp/types/l4.yaml" 'name: gemm_ratio, .*source: "inherited from ada: no row of its own", provenance: chosen' 1
check "what stands behind each" rows "$tmp/types/constants.csv" '^gpu,a100-80,gemm_ratio,.*,fitted,6,2$' 1
cp -r "$tmp/types" "$tmp/types1"
check "same folder, same bytes" sh -c "'$L' calibrate --from '$tmp/folder' --out '$tmp/types' --force && diff -r '$tmp/types' '$tmp/types1'"
check "a folder without suites" exits 3 "has no folder" "$L" calibrate --from "$tmp" --out "$tmp/nosuites"

# Tables of other programs (made up here): what nccl-tests prints, all-reduces in ns, efficiencies of ops.
{ for r in 0 1 2 3; do echo "#  Rank  $r Group  0 Pid   100$r on     node-$((r / 2)) device  $((r % 2)) [0x0f] GPU"; done
  printf '#%60s\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n' out-of-place
  for k in 1 2 4 8 16; do echo "     $((k * 1048576))        $((k * 262144))     float     sum      -1    $((30 + k * 10)).00   1   $(awk -v k=$k 'BEGIN {printf "%.2f", k * 1572.864 / (30 + 10 * k)}')      0     99.00   1   1      0"; done
  echo "# Avg bus bandwidth    : 76.0"; } >"$tmp/all_reduce.txt"
check "what nccl-tests prints" exits 0 "5 rows of" "$L" calibrate --out "$tmp/n1" --profile h100 --cluster "$S/clusters/h20-32.yaml" \
    --from "$tmp/all_reduce.txt"
check "its rows" rows "$tmp/n1/collective_times.csv" '^all_reduce,f32,4,2,(1048576,40|2097152,50|4194304,70|16777216,190)\.0000,[0-9.e]+,calibration$' 4
check "its validation row" rows "$tmp/n1/collective_times.csv" '^all_reduce,f32,4,2,8388608,110\.0000,114\.39,validation$' 1
check "between nodes" rows "$tmp/n1/profile.yaml" 'name: net_ratio, value: .*fitted' 1
check "nothing of the GPU was measured" measured_of 0 "$tmp/n1/profile.yaml"
check "its launches are a default" rows "$tmp/n1/profile.yaml" 'name: launch_us, value: 4, source: "default; nothing was measured", provenance: chosen' 1
check "what its cluster chose" rows "$tmp/n1/cluster.yaml" 'Bandwidth and latency of PCIe are chosen' 1
check "constants of the profile it is for" rows "$tmp/n1/profile.yaml" 'attention_forward_ratio, value: 0[.][0-9]+, source: "[0-9]+ rows of [0-9]+ sources, by' 1
check "a good profile" exits 0 "" "$L" check "$tmp/n1/profile.yaml" "$tmp/n1/cluster.yaml"
cp "$tmp/all_reduce.txt" "$tmp/timed.txt"
check "which collective" exits 3 'says which collective was timed' "$L" calibrate --out "$tmp/n2" --profile h100 --from "$tmp/timed.txt"
grep -v Rank "$tmp/all_reduce.txt" >"$tmp/all_gather.txt"
check "who took part" exits 3 'does not say how many ranks took part' "$L" calibrate --out "$tmp/n3" --profile h100 --from "$tmp/all_gather.txt"
grep -v Rank "$tmp/all_reduce.txt" >"$tmp/unnamed.txt"
check "both by options" exits 0 "5 rows of" "$L" calibrate --out "$tmp/o1" --profile h100 --from "$tmp/unnamed.txt" --collective all_reduce --devices 4
sed 's/#  Rank .*//; s/redop    root/redop/; s/    sum      -1/    sum/; s/#wrong/error/g' "$tmp/all_reduce.txt" >"$tmp/all_reduce_2022.txt"
check "what older versions print" exits 0 "5 rows of" "$L" calibrate --out "$tmp/o2" --profile h100 --from "$tmp/all_reduce_2022.txt" --devices 4
check "its rows as before" rows "$tmp/o2/collective_times.csv" '^all_reduce,f32,4,1,(1048576,40|2097152,50|4194304,70|16777216,190)\.0000,[0-9.e]+,calibration$' 4
printf '{"config": {"devices": [{"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "a"}]}, "results": [{"size": 1048576, "type": "float", "out_of_place": {"time": 40.0, "alg_bw": 26.21, "bus_bw": 26.21}}]}' >"$tmp/all_reduce.json"
check "its JSON" exits 0 "1 rows of" "$L" calibrate --out "$tmp/o3" --profile h100 --from "$tmp/all_reduce.json"
check "its row" rows "$tmp/o3/collective_times.csv" '^all_reduce,f32,2,1,1048576,40\.0000,26\.21[0-9]*,calibration$' 1
check "collectives alone, no profile" exits 3 'or --profile beside collectives' "$L" calibrate --out "$tmp/n4" --from "$tmp/all_reduce.txt"
printf 'gpu,gpus,op,bytes,time_out_of_place_ns,time_in_place_ns\nA,8,all_reduce,1048576,50000,1\nA,8,all_reduce,8388608,90000,1\n' >"$tmp/ns.csv"
check "all-reduces in ns" exits 0 "2 rows of" "$L" calibrate --out "$tmp/n5" --profile a100-80 --from "$tmp/ns.csv"
check "in us" rows "$tmp/n5/collective_times.csv" '^all_reduce,f32,8,1,(1048576,50|8388608,90)\.0000,' 2
{ echo gpu,op,shape,peak_tflops,efficiency
  for m in 1024 2048 4096 8192; do echo "X,matmul,\"b=1, m=$m, k=4096, n=4096, layout=TN\",1000,0.5"; done
  echo 'X,group_matmul,"ng=8, M=154, N=3072, K=5120",1000,0.5'
  echo 'X,sdp_fwd,"batch=1, seq_len=4096, head_num=8, kv_head_num=8, qk_head_dim=128, v_head_dim=128",1000,0.5'
  echo 'X,sdp_bwd,"batch=1, seq_len=4096, head_num=8, kv_head_num=8, qk_head_dim=192, v_head_dim=128",1000,0.5'; } >"$tmp/eff.csv"
check "efficiencies of ops" exits 0 "5 rows of $tmp/eff.csv, 2 left out" "$L" calibrate --out "$tmp/n6" --profile b200 --from "$tmp/eff.csv"
check "what was measured of them" measured_of 0 "$tmp/n6/profile.yaml" op_times.csv
# 2 * 2048 * 4096^2 / 5e14 s; 4 * 8 * 128 * 4096^2 / 5e14 s
check "their times" rows "$tmp/n6/op_times.csv" '^(gemm,bf16,2048,4096,4096,137\.438953|attention_forward,bf16,4096,8,128,137\.438953),' 2

{ echo model,gpu,mbs,tp,layer,fwd_s,bwd_s,update_s
  for b in 1 2 4 8; do for l in 0 1 2 3; do echo "TINY-LLAMA,A100-80,$b,1,$l,0.00$b,0.01$b,0"; done; done; } >"$tmp/layers.csv"
check "times of layers" exits 0 "a100-80, tiny-llama: mean |error|" "$L" calibrate --out "$tmp/l1" --from "$tmp/layers.csv" \
    --profile a100-80 --model "$S/models/tiny-llama.yaml" --stack megatron
check "their rows" rows "$tmp/l1/calibrate.csv" '^layer of (1|2|4) sequences,calibration,0.01[248]0+,|^layer of 8 sequences,validation,0.026000000,' 4
check "a profile of them" exits 0 "" "$L" check "$tmp/l1/a100-80.yaml"
check "layers of what" exits 2 'give --profile and --model' "$L" calibrate --out "$tmp/l2" --from "$tmp/layers.csv"
check "another network" exits 3 'has no layer of `llama-7b` on `a100-80`' "$L" calibrate --out "$tmp/l3" --from "$tmp/layers.csv" \
    --profile a100-80 --model "$S/models/llama-7b.yaml"
check "a network without layers" exits 2 '`--model` goes with `--from` times of layers' "$L" calibrate --out "$tmp/l4" \
    --model "$S/models/llama-7b.yaml" --from "$tmp/m/op_times-2.csv"

check "a file without --from" exits 2 'unexpected argument' "$L" calibrate x.csv
check "no table of times" exits 3 'is no table of op_times' "$L" calibrate --out "$tmp/e1" --from "$S/models/tiny-llama.yaml"
check "no operations" exits 3 'no table of op_times is given' "$L" calibrate --out "$tmp/e2" --from "$tmp/m/p2p_times-2.csv"
check "one table twice" exits 2 'are of one kind' "$L" calibrate --out "$tmp/e3" --from "$tmp/m/op_times-2.csv" "$tmp/m/op_times-2.csv"
check "a folder in use" exits 2 'is not empty' "$L" calibrate --out "$tmp/c" --from "$tmp/m/op_times-2.csv"
printf 'op,dtype,m,n,k,time_us,role\nnorm,f32,10,2,1,3,calibration\n' >"$tmp/few.csv"
check "no products" exits 3 'no row of `matmul`' "$L" calibrate --out "$tmp/e4" --from "$tmp/few.csv"
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
