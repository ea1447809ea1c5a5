# `luoshu check` of files of other tools: what each is, and which command reads it.
c() { "$LUOSHU" check "$1"; local rc=$?; [ $rc = 3 ] || echo "exit $rc: $1"; } # what it says; the text is on stdin
t() { cat >"$1"; c "$1"; }
t nccl.txt <<X
# nThread 1 nGpus 1 minBytes 8 maxBytes 8
#  size count type redop time algbw busbw error
X
t nccl.json <<X
{"results": [{"size": 8, "out_of_place": {"time": 9.5, "bus_bw": 1.5}}]}
X
t topo.txt <<X
	GPU0	GPU1	CPU Affinity
GPU0	 X 	NV4	0-15
X
t train.log <<X
 iteration  7/ 90 | consumed samples: 56 | elapsed time per iteration (ms): 812.5 |
X
t train.sh <<X
torchrun pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 12
X
t train.toml <<X
[training]
seq_len = 64
[parallelism]
tensor_parallel_degree = 2
X
t ds.json <<X
{"train_batch_size": 8, "zero_optimization": {"stage": 1}}
X
t hetu.json <<X
{"zero": true, "input": {"split": {"0": [2]}, "dup": [1], "device_group_union": [[0, 1]], "type": "placeholder"}}
X
t sailor.json <<X
{"pipeline_list": [{"tmp_per_stage": []}]}
X
t kineto.json <<X
{"schemaVersion": 1, "traceEvents": []}
X
t perfetto.json <<X
{"traceEvents": []}
X
t faults.json <<X
[{"node_id": "a", "event_time": 1.5, "event_type": "fault_start"}]
X
t requests.csv <<X
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
X
t requests.jsonl <<X
{"timestamp": 0, "input_length": 6758, "output_length": 500}
{"timestamp": 3, "input_length": 7319, "output_length": 490}
X
t index.json <<X
{"metadata": {}, "weight_map": {"a": "b.safetensors"}}
X
t nccl.xml <<X
<system version="1"> <cpu numaid="0"/> </system>
X
t platform.xml <<X
<?xml version='1.0'?>
<platform version="4.1"></platform>
X
echo "just words" >words.txt; c words.txt
