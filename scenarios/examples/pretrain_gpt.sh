#!/bin/bash
# How Megatron-LM is started for a GPT of 1.3 B parameters on four nodes: an example for `luoshu import megatron-args`.
GPUS_PER_NODE=8
NNODES=4
MODEL_ARGS=(
    --num-layers 24 --hidden-size 2048 --num-attention-heads 16
    --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257
)
TRAINING_ARGS="--micro-batch-size 2 --global-batch-size $((16 * GPUS_PER_NODE * NNODES)) --lr 1.5e-4 --bf16"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} $TRAINING_ARGS \
    --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --sequence-parallel \
    --use-distributed-optimizer --recompute-activations
