# Wrong use of `luoshu run`: exit code and one sentence, before any process is started.
S=$TOP/scenarios P=$HERE/plans/tiny-pp2.json
u() { "$LUOSHU" run "$@" >out; echo "exit $?: ${*//$TOP\//}"; [ ! -s out ] || cat out; }
u; u a b --backend host; u "$P"; u "$P" --backend sim; u "$P" --backend cuda --cuda; u "$P" --backend host --cuda nccl_algo=Ring
u "$P" --backend host --launcher bsub; u "$P" --backend host --launcher local --hostfile w; u "$P" --backend host --launcher local,listen=here; u "$P" --backend host --ranks 0; u "$P" --backend host --stuck-s 0
u "$P" --backend host --data nowhere.txt; u "$P" --backend host --resume nowhere
u "$P" --backend host --load x --hostfile nowhere
touch w; u "$P" --backend host --load w --resume .; u "$P" --backend host --save-init x --resume .
u "$P" --backend host --checkpoint-every; u "$P" --backend host --checkpoint-every 5,keep=0; u "$P" --backend host --checkpoint-every 0; u "$P" --backend host --checkpoint-every 5,6; u "$P" --backend host --comm flow
W="--model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny2.yaml --backend host"
u "$P" $W --dtype bf16; u "$P" $W --dtype f64; u "$P" $W --ranks 3; u "$P" --backend host; u "$P" $W --resume .
u "$S/plans/published/plan-12.json" --backend host --model "$S/models/llama-32b.yaml" --cluster "$S/clusters/h20-32.yaml"
u "$S/examples/small.yaml" --backend host --dump-batches x; u "$P" $W --policies a; u "$P" $W --launcher none
u "$P" $W --max-restarts many; u "$P" $W --trace-steps 5-3
touch step-000001; u "$P" $W --resume step-000001
ls
u "$P" --backend cuda --cuda share=maybe; u "$P" --backend cuda --cuda Ring; u "$P" --backend host --launcher local,forward=PATH; u "$P" --backend host --launcher none,forward=PATH
u "$P" --backend host --launcher mpirun,listen=; u "$P" --backend host --launcher mpirun,listen=a,listen=b
# options of former versions
for was in "nccl-algo Ring" "nccl-proto LL" share-gpus "keep-checkpoints 3" "forward PATH" listen=here; do u "$P" --backend host --$was; done
