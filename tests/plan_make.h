/* plan_make.h: plans from one line, models from a few numbers.
 *
 *   luo_plan *p = luo_test_plan(arena, "16: [0-3]*11 [4-7]*11 || 16: [8-11]*11 [12-15]*11");
 * A pipeline is micro-batches, then stages `[devices]*layers`; with `:(3,1)` after the devices as
 * shares. Chunks: `[0,1]*2+2 [2,3]*2+2` deals layers round in the order of the chunks. */
#ifndef LUO_TESTS_PLAN_MAKE_H
#define LUO_TESTS_PLAN_MAKE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/plan/compile.h"

enum { LUO_TEST_STAGES = 256, LUO_TEST_CHUNKS = 8 };

static inline void luo_test_fail(const char *what, const char *at)
{
    fprintf(stderr, "bad plan line: %s at `%s`\n", what, at);
    exit(1);
}

static inline uint32_t *luo_test_shares(luo_arena *a, const char **at, int32_t n)
{
    uint32_t *share = LUO_NEW_N(a, uint32_t, n);
    char *end = NULL;
    *at += 2; /* ":(" */
    for (int32_t i = 0; i < n; i++) {
        share[i] = (uint32_t)strtoul(*at, &end, 10);
        *at = end + 1; /* , or ) */
    }
    return share;
}

/* One stage; sizes of its chunks go to size[]. */
static inline luo_stage luo_test_stage(luo_arena *a, const char **at, int32_t *size)
{
    luo_stage s = {.context_parallel = 1};
    luo_err err = {0};
    int32_t *dev;
    const char *end = strchr(*at, ']');
    if (**at != '[' || !end) luo_test_fail("stage", *at);
    const char *text = luo_arena_strndup(a, *at, (size_t)(end - *at) + 1);
    if (luo_devset_parse(a, text, false, LUO_DEVICE_LIMIT, &dev, &s.ndev, &err) != LUO_OK)
        luo_test_fail(err.text, *at);
    s.dev = dev;
    *at = end + 1;
    if (**at == ':') s.shares = luo_test_shares(a, at, s.ndev);
    while (**at == '*' || **at == '+') {
        char *next = NULL;
        size[s.nlayers++] = (int32_t)strtol(*at + 1, &next, 10);
        *at = next;
    }
    return s;
}

static inline luo_pipeline luo_test_pipeline(luo_arena *a, const char **at, int32_t *layers)
{
    luo_stage *stages = LUO_NEW_N(a, luo_stage, LUO_TEST_STAGES);
    int32_t size[LUO_TEST_STAGES][LUO_TEST_CHUNKS] = {{0}};
    char *end = NULL;
    luo_pipeline p = {.micro_batch_sequences = 1, .stages = stages};
    p.micro_batches = (int32_t)strtol(*at, &end, 10);
    if (*end != ':') luo_test_fail("micro-batches", *at);
    for (*at = end + 1;; p.nstages++) {
        while (**at == ' ') ++*at;
        if (**at != '[') break;
        stages[p.nstages] = luo_test_stage(a, at, size[p.nstages]);
    }
    *layers = 0;
    for (int32_t s = 0; s < p.nstages; s++) {
        luo_range *r = LUO_NEW_N(a, luo_range, stages[s].nlayers);
        stages[s].layers = r;
    }
    for (int32_t c = 0; c < stages[0].nlayers; c++)
        for (int32_t s = 0; s < p.nstages; s++) {
            luo_range *r = (luo_range *)&stages[s].layers[c];
            *r = (luo_range){*layers, *layers + size[s][c]};
            *layers += size[s][c];
        }
    stages[0].embedding = true;
    stages[p.nstages - 1].head = true;
    return p;
}

/* bf16, 1f1b (interleaved with several chunks), sequence parallelism, 4,096 tokens, zero 0. */
static inline luo_plan *luo_test_plan(luo_arena *a, const char *line)
{
    luo_plan *p = LUO_NEW(a, luo_plan);
    luo_pipeline *pipes = LUO_NEW_N(a, luo_pipeline, LUO_TEST_STAGES);
    *p = (luo_plan){.name = "test", .model = "m", .cluster = "c", .dtype = LUO_BF16,
                    .sequence_tokens = 4096, .micro_batch_sequences = 1,
                    .sequence_parallel = true, .schedule = LUO_SCHED_1F1B, .chunks = 1,
                    .pipelines = pipes};
    for (const char *at = line; *at;) {
        pipes[p->npipelines] = luo_test_pipeline(a, &at, &p->layers);
        for (int32_t s = 0; s < pipes[p->npipelines].nstages; s++) {
            const luo_stage *q = &pipes[p->npipelines].stages[s];
            for (int32_t i = 0; i < q->ndev; i++)
                if (q->dev[i] >= p->devices) p->devices = q->dev[i] + 1;
        }
        p->chunks = pipes[p->npipelines++].stages[0].nlayers;
        while (*at == ' ' || *at == '|') at++;
    }
    if (p->chunks > 1) p->schedule = LUO_SCHED_INTERLEAVED;
    return p;
}

static inline luo_model luo_test_llama(int64_t layers, int64_t hidden, int64_t ffn, int64_t heads,
                                       int64_t vocab)
{
    return (luo_model){.name = "test-llama", .family = LUO_FAMILY_LLAMA, .layers = layers,
                       .hidden = hidden, .ffn_hidden = ffn, .heads = heads, .kv_heads = heads,
                       .head_dim = hidden / heads, .vocab = vocab, .max_sequence_tokens = 4096,
                       .causal = true, .norm = LUO_NORM_RMS, .activation = LUO_ACT_SWIGLU,
                       .position = LUO_POS_ROPE, .norm_eps = 1e-6, .rope_base = 10000,
                       .dtype = LUO_BF16};
}

static inline luo_model luo_test_gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab)
{
    return (luo_model){.name = "test-gpt", .family = LUO_FAMILY_GPT, .layers = layers,
                       .hidden = hidden, .ffn_hidden = 4 * hidden, .heads = heads,
                       .kv_heads = heads, .head_dim = hidden / heads, .vocab = vocab,
                       .max_sequence_tokens = 4096, .tied_embeddings = true, .linear_bias = true,
                       .out_bias = true,
                       .qkv_bias = true, .causal = true, .norm = LUO_NORM_LAYER,
                       .activation = LUO_ACT_GELU, .position = LUO_POS_LEARNED, .norm_eps = 1e-5,
                       .dtype = LUO_BF16};
}

/* Layers of feed-forward alone, with RMSNorm; with biases: with layer norm. */
static inline luo_model luo_test_mlp(int64_t layers, int64_t hidden, int64_t ffn, int64_t vocab,
                                     luo_activation activation, bool biases)
{
    return (luo_model){.name = "test-mlp",
                       .family = LUO_FAMILY_MLP,
                       .layers = layers,
                       .hidden = hidden,
                       .ffn_hidden = ffn,
                       .vocab = vocab,
                       .max_sequence_tokens = 4096,
                       .linear_bias = biases,
                       .causal = true,
                       .norm = biases ? LUO_NORM_LAYER : LUO_NORM_RMS,
                       .activation = activation,
                       .position = LUO_POS_NONE,
                       .norm_eps = 1e-5,
                       .dtype = LUO_BF16};
}
#endif
