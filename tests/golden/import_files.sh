# Files of other tools into plans, models, clusters and tables: what is written, told and refused.
i() { "$LUOSHU" import "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: ${*//$TOP\//}"; }
cat >train.sh <<'X'
GPUS=8
ARGS=( --num-layers 4 --hidden-size 64 --num-attention-heads 8 --seq-length 128
       --vocab-size 1024 --lr 3e-4 )
torchrun --nproc_per_node $GPUS --nnodes 1 train.py "${ARGS[@]}" --tensor-model-parallel-size 2 \
  --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 --sequence-parallel
X
i megatron-args train.sh --out job; cat job/model.yaml job/plan.json; "$LUOSHU" check job/model.yaml job/plan.json
i megatron-args train.sh --out job; i megatron-args train.sh --out job --force --json
sed 's/--lr 3e-4/--fp16/' train.sh >half.sh; i megatron-args half.sh --out half; i megatron-args half.sh --out half --approximate --quiet
printf ' iteration 1/ 2 | elapsed time per iteration (ms): 812.5 | global batch size: 8 |\n' >train.log
i megatron-log train.log; i megatron-log train.log --profile h100 --devices 8; "$LUOSHU" check measured.csv
# steps of a training as a run beside a simulated one: by hand 0.1, 0.102, 0.101 s, behind two that warm up
awk 'BEGIN { n = split("9000 2000 100 102 101", ms, " ")
    for (i = 1; i <= n; i++) printf " iteration %d/ 9 | elapsed time per iteration (ms): %.1f | global batch size: 8 | lm loss: 1.0%dE+01 | grad norm: 2.5 |\n", i, ms[i], i }' >long.log
i megatron-log long.log --profile h100 --devices 4 --run; i megatron-log long.log --profile h100 --devices 4 --run --out log
i megatron-log train.log --profile h100 --devices 8 --seq-length 128 --run --out one | head -n 2
i megatron-log long.log --profile h100 --devices 4 --seq-length 128 --run --out log; cat log/steps.csv log/timeline.csv; head -n 15 log/summary.json
"$LUOSHU" sim "$TOP/scenarios/plans/tiny2.json" --model "$TOP/scenarios/models/tiny-llama.yaml" --cluster "$TOP/scenarios/clusters/tiny2.yaml" --plots off --out simulated >/dev/null
"$LUOSHU" compare simulated/plan log --plots off --out cmp >/dev/null && cut -d, -f1,3 cmp/compare_steps.csv && cut -d, -f1-4,8,11 cmp/compare.csv | tail -n 1
"$LUOSHU" plot log | grep svg; "$LUOSHU" plot log --figure timelost; i topo-m topo.txt --run
printf '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2, "wall_clock_breakdown": true}' >ds.json
i deepspeed ds.json; i deepspeed ds.json --model job/model.yaml --devices 4 --out ds-plan.json; cat ds-plan.json
printf '\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV12\tPXB\t0-31\nGPU1\tNV12\t X \tPXB\t0-31\nNIC0\tPXB\tPXB\t X \n' >topo.txt
i topo-m topo.txt; i topo-m topo.txt --profile a100-80 --out node.yaml; cat node.yaml; "$LUOSHU" check node.yaml
printf 'gpu-[001-003,7],c[1-2]' >list; i hostlist list; cat hostfile
printf '0,add,a\n0,add,b\n600000,remove,a\n' >spot.csv; i spot-bamboo spot.csv --units node:spot; cat events.csv; "$LUOSHU" check events.csv
# wrong use
i; i megatron-arg train.sh; i topo-m topo.txt --devices 3; i hostlist list --length total; i spot-bamboo spot.csv --units nodes --out x.csv
i deepspeed ds.json --model job/model.yaml --devices 4 --histogram log2; i hetu-ds ds.json; i kineto ds.json --out x.csv; i nccl-xml topo.txt
i megatron-args topo.txt; i torchtitan train.sh --devices 8; i megatron-args nothing.sh; i megatron-args . ; ls
