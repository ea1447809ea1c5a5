#!/usr/bin/env bash
# `luoshu run --backend cuda`, end to end, with the CUDA executor on the stand-in for CUDA
# (tests/standin/README.md): programs, events and losses are those of host and simulator, state goes
# from one backend to the other by file, and what happens to ranks is noticed and answered as on host.
# It shows nothing of a GPU: every result here says `stand-in`, and none is kept.
set -u
. tests/runs.sh
C=$(dirname "$(realpath "$L")")/standin/luoshu
cat >"$tmp/model.yaml" <<END
schema: luoshu.model/1
name: small
family: llama
layers: 2
hidden: 32
ffn_hidden: 48
heads: 4
kv_heads: 2
vocab: 64
max_sequence_tokens: 16
dtype: f32
END
sed -e 's/^name: tiny8/name: nodes/; s/nodes: 2/nodes: 3/; s/devices_per_node: 4/devices_per_node: 2/; s/count: 4/count: 2/' \
    -e "s|profile: ../|profile: $S/|; s/, sockets: 2, socket_gbytes_per_s: 60//" "$S/clusters/tiny8.yaml" >"$tmp/nodes.yaml"
plan() { # NAME STAGES: two pipelines of two micro-batches
    printf '{"schema": "luoshu.plan/1", "name": "%s", "model": "small", "cluster": "nodes", "layers": 2, "devices": 6,
 "dtype": "f32", "sequence_tokens": 16, "micro_batch_sequences": 1, "zero": 1, "sequence_parallel": true,
 "schedule": {"kind": "1f1b", "chunks": 1}, "pipelines": [%s]}\n' "$1" "$2" >"$tmp/$1.json"
}
two='{"micro_batches": 2, "stages": [{"layers": [[0, 2]], "devices": [2, 3]}]}'
plan four '{"micro_batches": 2, "stages": [{"layers": [[0, 1]], "devices": [0]}, {"layers": [[1, 2]], "devices": [1]}]}, '"$two"
plan six '{"micro_batches": 2, "stages": [{"layers": [[0, 1]], "devices": [0, 1]}, {"layers": [[1, 2]], "devices": [4, 5]}]}, '"$two"
plan cut '{"micro_batches": 2, "stages": [{"layers": [[0, 1]], "devices": [0]}, {"layers": [[1, 2]], "devices": [1]}]}, {"micro_batches": 2, "stages": [{"layers": [[0, 2]], "devices": [2, 3], "context_parallel": 2}]}'
sed -i 's/"pipelines"/"state_layout": {"data": 1, "tensor": 2, "pipeline": 2, "devices": [3, 0, 1, 2]}, &/' "$tmp/cut.json"
bare="--model $tmp/model.yaml --cluster $tmp/nodes.yaml --seed 3"
cuda() { local out=$1 want=$2 L=$C; shift 2; run "$out" "$want" run "$@" --backend cuda --cuda "${pinned:-}share=on" --plots off --limit-s 600; }
start() { # OUT arguments..: a run on the stand-in in the background; pid
    local out=$1; shift
    "$C" run "$tmp/four.json" $bare --backend cuda --cuda share=on --ranks 4 --plots off --quiet --limit-s 600 --out "$tmp/$out" "$@" \
        >"$tmp/$out.out" 2>"$tmp/$out.err" &
    pid=$!
    mine+=("$pid")
    table=$tmp/$out/plan
}
at_work() { until_rows "$table/steps.csv" "$1" "$pid" && mapfile -t rank < <(ranks "$pid") && [ ${#rank[@]} = 4 ]; }
ends() { # WANTED_EXIT
    wait "$pid"; local rc=$?
    [ $rc = "$1" ] || { echo "exit $rc, not $1"; head -n 5 "$tmp"/*.err; false; }
}
manifest() { grep -o "\"$2\": \"[^\"]*\"" "$1/manifest.json" | head -n 1; }

# ---- one hangs, which takes a while to be sure of: looked at in the end ----
start hangs --steps 100000 --stuck-s 6
check "hangs: it was at work" at_work 4
hanging=$pid stopped=${rank[3]}
all=$(family "$pid")
kill -STOP "$stopped"

# ---- the rank program is not there ----
mkdir "$tmp/alone"; cp "$L" "$tmp/alone/luoshu"
"$tmp/alone/luoshu" run "$tmp/four.json" $bare --backend cuda >"$tmp/out" 2>&1; rc=$?
check "no rank program: exit 4" [ $rc = 4 ]
check "no rank program: what is missing" grep -qE \
    '^luoshu: error: (`.*/alone/luoshu-rank-cuda` is missing, .*|backend `cuda` is not in this build \(.* at build time\); .*)\.$' "$tmp/out"
few() { local L=$C; run few 4 run "$tmp/four.json" $bare --backend cuda --ranks 4; }
check "one GPU for four ranks" few
check "one GPU for four ranks: the sentence" grep -qE '^luoshu: error: 4 ranks run on .* and see 1 GPU there; a GPU for each rank is expected, or `--cuda share=on` for a trial\.$' "$tmp/few.err"
check "f64 is refused" cuda wide 2 "$tmp/four.json" $bare --dtype f64
check "f64: the sentence" grep -qF 'backend `cuda` computes in bf16 and f32' "$tmp/wide.err"

# ---- four ranks: the programs and losses of host; state from one to the other ----
check "host" host host 0 "$tmp/four.json" $bare --ranks 4 --steps 12 --checkpoint-every 6
pinned=nccl_algo=Ring,nccl_proto=Simple, check "cuda" cuda cuda 0 "$tmp/four.json" $bare --ranks 4 --steps 6 --checkpoint-every 5
check "cuda: the device says what it is" [ "$(manifest "$tmp/cuda/plan" gpu)" = '"gpu": "stand-in (processor)"' ]
check "cuda: versions are told" grep -q '"nccl": "[0-9.]*[0-9]"' "$tmp/cuda/plan/manifest.json"
check "cuda: programs of host" [ "$(manifest "$tmp/cuda/plan" program_hash)" = "$(manifest "$tmp/host/plan" program_hash)" ]
check "cuda: losses of host" near 1e-4 <(curve "$tmp/cuda/plan") <(curve "$tmp/host/plan" | head -n 6)
check "order of calls" [ "$(sed 's/"[^"]*"//g' "$tmp/cuda/plan/ops.csv" | awk -v run=cuda -f tests/order.awk)" = \
    "cuda: the first forward waits for all weights, gradients begin behind the last backward" ]
# Under a stack whose calls overlap ranks overlap them.
sed 's/"zero": 1,/"zero": 1, "bucket_rule": "mib", "bucket_mib": 0.001,/' "$tmp/four.json" >"$tmp/small.json"
sed 's/dp_overlap, value: off/dp_overlap, value: on/' "$S/profiles/stacks/luoshu-cuda.yaml" >"$tmp/on.yaml"
check "calls beside tasks" cuda beside 0 "$tmp/small.json" $bare --ranks 4 --steps 4 --stack "$tmp/on.yaml" --trace-steps 1
check "calls beside tasks: losses of host" near 1e-4 <(curve "$tmp/beside/plan") <(curve "$tmp/host/plan" | head -n 4)
check "calls beside tasks: their order" [ "$(sed 's/"[^"]*"//g' "$tmp/beside/plan/ops.csv" | awk -v run=cuda -f tests/order.awk)" = \
    "cuda: the first forward waits for its weights, gradients begin before the last backward" ]
check "from cuda to host" host back 0 "$tmp/four.json" $bare --ranks 4 --steps 8 --resume "$tmp/cuda/plan/checkpoints/step-000005"
check "from cuda to host: losses" near 1e-4 <(curve "$tmp/back/plan") <(curve "$tmp/host/plan" | sed -n 6,8p)

# From host to cuda, where one is killed.
start killed --steps 12 --resume "$tmp/host/plan/checkpoints/step-000006" --checkpoint-every 2 --max-restarts 1
check "killed: it was at work" at_work 3
kill -KILL "${rank[2]}"
check "killed: the run ends" ends 0
check "killed: which device" grep -qE "process-1,fired,fail,device:2,.*device 2 \(rank 2, process ${rank[2]} on .*\) died in step" "$table/events.csv"
check "killed, and from host to cuda: losses" near 1e-4 <(curve "$table") <(curve "$tmp/host/plan" | tail -n 6)

check "bf16" cuda short 0 "$tmp/four.json" $bare --ranks 4 --steps 5 --dtype bf16
check "bf16: losses" near 1e-3 <(curve "$tmp/short/plan") <(curve "$tmp/host/plan" | head -n 5)
check "bf16: other losses" eval '! near 1e-6 <(curve "$tmp/short/plan") <(curve "$tmp/host/plan" | head -n 5) >/dev/null'

# ---- experts that are dealt, rows by node, choices dropped, a bias that learns; latent attention ----
cat >"$tmp/experts.yaml" <<END
schema: luoshu.model/1
name: experts
family: moe
layers: 2
hidden: 32
ffn_hidden: 48
heads: 4
vocab: 64
max_sequence_tokens: 16
moe: {experts: 8, experts_per_token: 2, expert_ffn_hidden: 24, shared_experts: 1, shared_ffn_hidden: 24,
  gate: sigmoid, bias_rate: 0.01, capacity_factor: 1.25}
attention: {kind: mla, kv_lora_rank: 12, qk_nope_head_dim: 6, qk_rope_head_dim: 4, v_head_dim: 8}
dtype: f32
END
plan dealt '{"micro_batches": 2, "stages": [{"layers": [[0, 2]], "devices": [0, 1, 2, 3], "experts": "expert"}]}'
sed -i 's/"small"/"experts"/; s/"zero": 1,/"zero": 1, "moe_exchange": "2d",/' "$tmp/dealt.json"
moe="$tmp/dealt.json --model $tmp/experts.yaml --cluster $tmp/nodes.yaml --seed 3 --ranks 4"
check "experts: host" host moe-host 0 $moe --steps 6
check "experts: cuda" cuda moe-cuda 0 $moe --steps 4 --checkpoint-every 3
check "experts: losses of host" near 1e-4 <(curve "$tmp/moe-cuda/plan") <(curve "$tmp/moe-host/plan" | head -n 4)
check "experts: why steps are no graphs" grep -q "the host reads counts of experts' rows" "$tmp/moe-cuda/plan/ranks.log"
# Streams in another order: what is not waited for, or summed as it comes, would show.
STANDIN_SEED=7 check "experts: again" cuda moe-again 0 $moe --steps 3 --checkpoint-every 3
check "experts: the same bytes again" diff -r "$tmp"/moe-{cuda,again}/plan/checkpoints/step-000003
check "experts: from cuda to host" host moe-back 0 $moe --steps 6 --resume "$tmp/moe-cuda/plan/checkpoints/step-000003"
check "experts: losses from cuda to host" near 1e-4 <(curve "$tmp/moe-back/plan") <(curve "$tmp/moe-host/plan" | tail -n 3)
# Through leaders the same rows arrive in the same order.
sed 's/"2d"/"leader"/' "$tmp/dealt.json" >"$tmp/led.json"
led="$tmp/led.json --model $tmp/experts.yaml --cluster $tmp/nodes.yaml --seed 3 --ranks 4"
check "experts, leader: cuda" cuda moe-led 0 $led --steps 4 --checkpoint-every 3
check "experts, leader: losses by node" diff <(curve "$tmp/moe-led/plan") <(curve "$tmp/moe-cuda/plan")
check "experts, leader: weights by node" diff -r "$tmp"/moe-{led,cuda}/plan/checkpoints/step-000003 -x '*.json'
check "experts, leader: host" host moe-led-host 0 $led --steps 4
check "experts, leader: losses of host" near 1e-4 <(curve "$tmp/moe-led/plan") <(curve "$tmp/moe-led-host/plan")
# ---- optimizer state in a layout of its own, sequences cut among devices ----
check "cut: host" host cuthost 0 "$tmp/cut.json" $bare --ranks 4 --steps 4
check "cut: cuda" cuda cut 0 "$tmp/cut.json" $bare --ranks 4 --steps 4
check "cut: programs of host" [ "$(manifest "$tmp/cut/plan" program_hash)" = "$(manifest "$tmp/cuthost/plan" program_hash)" ]
check "cut: losses of host" near 1e-4 <(curve "$tmp/cut/plan") <(curve "$tmp/cuthost/plan")

# ---- a straggler, which spins, and a device that withdraws: as the simulator has it ----
# On a clock of the device that counts what is done, so that other work on the machine slows no rank down.
work_clock() { STANDIN_CLOCK=work cuda "$@" --trace-steps none; }
cat >"$tmp/day.yaml" <<END
schema: luoshu.scenario/1
name: day
seed: 3
cluster: nodes.yaml
model: model.yaml
plan: six.json
extent: {steps: 11}
data: {batch: {sequences: 4}, lengths: {kind: fixed, tokens: 16}}
policies:
  - {name: restart, restart_s: 0, planner_s: 0, threshold_slowdown: 5, replan_gap: 4}
events:
  - {id: slow, kind: straggler, target: "device:5", slowdown: 10, at_step: 3}
  - {id: gone, kind: fail, target: "device:0", at_step: 9, cause: chosen}
checkpoint: {every_steps: 4, mode: blocking, target: storage}
costs: {detect_fail_s: 0, process_start_s: 0, communicator_s: 0, replacement_s: 0}
END
hashes() { grep -o '"program_hash": "[0-9a-f]*"' "$1/restart/manifest.json"; }
log() { without "$1/restart/events.csv" t_s; }
check "day: simulated" run sim 0 sim "$tmp/day.yaml" --plots off
check "day: run" work_clock day 0 "$tmp/day.yaml"
check "day: events" diff <(log "$tmp/sim") <(log "$tmp/day")
check "day: three programs" [ "$(hashes "$tmp/sim" | sort -u | wc -l)" = 3 ]
check "day: programs" [ "$(hashes "$tmp/sim")" = "$(hashes "$tmp/day")" ]
slow_steps() { column "$tmp/day/restart/steps.csv" step max_slowdown slowest_device |
    awk '$3 == 5 && $2 > 5 {n++} $2 > 2.5 {slow++} END {exit !(n >= 2 && n == slow)}'; }
check "day: the straggler is slow, and nobody else" slow_steps

# ---- malleus switches plans, GPU to GPU ----
sed -e '/^policies/,/^checkpoint/c\policies: [{name: malleus, threshold_slowdown: 5, replan_gap: 4, payback_steps: 100000, planner_s: 0}]\nevents:\n  - {id: slow, kind: straggler, target: "device:3", slowdown: 10, at_step: 3}' \
    -e 's/steps: 11/steps: 10/; s/cluster: nodes/cluster: two/; s/six.json/half.json/; s/device:5/device:3/' "$tmp/day.yaml" >"$tmp/switch.yaml"
sed 's/nodes: 3/nodes: 2/; s/name: nodes/name: two/' "$tmp/nodes.yaml" >"$tmp/two.yaml"
sed 's/"devices": 6/"devices": 4/; s/"nodes"/"two"/' "$tmp/four.json" >"$tmp/half.json"
check "malleus" work_clock malleus 0 "$tmp/switch.yaml"
check "malleus: switched over the devices" grep -qw devices <(column "$tmp/malleus/malleus/switches.csv" source)

# ---- one hangs: begun above ----
pid=$hanging
check "hangs: exit 6" ends 6
told() { # where it was stopped is chance: in an exchange, or while ranks agree on what to capture
    grep -qE "^luoshu: error: stuck for [0-9.]+ s in step [0-9]+: .*device 3 .*does not answer \(process $stopped on " "$tmp/hangs.err" || { cat "$tmp/hangs.err"; false; }; }
check "hangs: who waits for whom" told
check "hangs: nobody is left" left_of $all

# ---- calibration: the smallest size of everything; its tables make a profile that says stand-in ----
mkdir "$tmp/tables"
silent() { "$@" >"$tmp/said" 2>&1 || { tail -n 5 "$tmp/said"; false; }; }
measure() { silent mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$1" "$(dirname "$C")/luoshu-rank-cuda" --calibrate "$tmp/tables" "${@:2}"; }
check "one rank measures" measure 1 --networks 1
check "three measure communication" measure 3 --networks 1 --no-ops
for k in gemm attention_forward attention_backward stream; do
    check "times of $k" [ "$(grep -cE "^$k,(bf16|f32),[0-9]+,[0-9]+,[0-9]+,[0-9.]+,1,(calibration|validation)$" "$tmp/tables/op_times-1.csv")" -ge 2 ]
done
check "facts" [ "$(grep -cE '^(device stand-in|launch_us,|host_launch_us,|host_to_device_gbytes|disk_write_gbytes|step_gpu_s h64,|step_s h64,)' "$tmp/tables/facts-1.csv")" = 7 ]
check "times of collectives" [ "$(grep -cE '^(all_reduce|reduce_scatter|all_gather),f32,[23],1,' "$tmp/tables/collective_times-3.csv")" = 6 ]
check "times of messages" grep -qE '^pcie,1024,[0-9.]+,calibration$' "$tmp/tables/p2p_times-3.csv"
check "a profile of them" silent "$L" calibrate --out "$tmp/profile" --quiet --from "$tmp/tables/op_times-1.csv" "$tmp/tables/facts-1.csv" \
    "$tmp/tables/collective_times-3.csv" "$tmp/tables/p2p_times-3.csv"
check "good files" silent "$L" check "$tmp/profile/profile.yaml" "$tmp/profile/cluster.yaml" "$tmp/profile/stack.yaml"
check "it says what it is of" grep -q 'device: "stand-in (processor)"' "$tmp/profile/profile.yaml"
"$tmp/alone/luoshu" calibrate --backend cuda --out "$tmp/none" >"$tmp/out" 2>&1; rc=$?
check "no rank program, no calibration: exit 4" [ $rc = 4 ]

finish
