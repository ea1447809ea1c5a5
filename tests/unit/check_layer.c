/* check_layer.c: layers, overlap, memory, FLOP and the step. */
#include <math.h>

#include "core/cost/overlap.h"
#include "core/cost/step/layer_internal.h"
#include "core/cost/step/memory.h"
#include "tests/cost_fixture.h"
#include "tests/step_fixture.h"

static luo_model gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab)
{
    return (luo_model){.name = "gpt", .family = LUO_FAMILY_GPT, .layers = layers, .hidden = hidden,
                       .ffn_hidden = 4 * hidden, .heads = heads, .kv_heads = heads,
                       .head_dim = hidden / heads, .vocab = vocab, .linear_bias = true,
                       .out_bias = true,
                       .qkv_bias = true, .tied_embeddings = true, .causal = true,
                       .norm = LUO_NORM_LAYER, .activation = LUO_ACT_GELU,
                       .position = LUO_POS_LEARNED, .max_sequence_tokens = 2048};
}

static luo_model llama(int64_t layers, int64_t hidden, int64_t heads, int64_t kv, int64_t ffn)
{
    return (luo_model){.name = "llama", .family = LUO_FAMILY_LLAMA, .layers = layers,
                       .hidden = hidden, .ffn_hidden = ffn, .heads = heads, .kv_heads = kv,
                       .head_dim = hidden / heads, .vocab = 32000, .causal = true,
                       .max_sequence_tokens = 8192};
}

static const luo_bucketing unsaid = {0}, one_bucket = {.rule = LUO_BUCKET_DEEPSPEED};

/* Pipelines of one device with five micro-batches of two sequences. */
static luo_grid grid(const luo_model *model, const luo_cluster *cluster, int32_t pipelines,
                     const int32_t *dev)
{
    return (luo_grid){.model = model, .cluster = cluster, .dtype = LUO_BF16,
                      .sequence_tokens = 1024, .micro_batch_sequences = 2, .micro_batches = 5,
                      .tp = 1, .stages = 1, .pipelines = pipelines, .dev = dev};
}

static const struct {
    const char *id;
    int64_t b, s, h, a, kv, f;
    bool gated, fused;
    int32_t t;
    double forward, backward;
} layers[] = {
    {"ACC-L1", 1, 2048, 12288, 96, 96, 49152, false, false, 8, 5.1421477726e-3, 9.4110657296e-3},
    {"ACC-L3", 4, 1024, 1024, 16, 16, 4096, false, false, 1, 1.2980263822e-3, 2.2241320018e-3},
    {"ACC-L4", 1, 8192, 4096, 32, 8, 14336, true, true, 4, 5.9635805867e-3, 1.2111027714e-2},
};

START_TEST(layer_row)
{
    const luo_profile p = luo_ref_profile();
    luo_stack stack;
    luo_stack_default(&stack);
    stack.attention_fused = layers[_i].fused;
    stack.kernels_forward = layers[_i].fused ? 14 : 16;
    const int64_t h = layers[_i].h, a = layers[_i].a;
    luo_model m = layers[_i].gated ? llama(2, h, a, layers[_i].kv, layers[_i].f)
                                   : gpt(2, h, a, 1000);
    const luo_layer_shape l = {.model = &m, .tokens = layers[_i].b * layers[_i].s,
                               .sequence_tokens = layers[_i].s, .tp = layers[_i].t};
    luo_layer_gpu g;
    ck_assert_int_eq(luo_cost_layer_gpu(&p, &stack, LUO_BF16, &l, &g, NULL), LUO_OK);
    luo_near(g.forward, layers[_i].forward, 1e-9, layers[_i].id);
    luo_near(g.backward, layers[_i].backward, 1e-9, layers[_i].id);
    ck_assert_double_eq(g.kernels, (layers[_i].fused ? 14 : 16) + (layers[_i].t > 1 ? 2 : 0));
}
END_TEST

START_TEST(flop_forms)
{
    /* ACC-F1, F2, F3 */
    ck_assert_double_eq(luo_step_flops_96(2304, 2048, 80, 12288, 51200), 5641682123048878080.0);
    ck_assert_double_eq(luo_step_flops_72(384, 4096, 84, 8192, 131072), 701717116939665408.0);
    luo_near(luo_step_flops_96(2304, 2048, 80, 12288, 51200) / (148e12 * 1536), 24.817365758, 1e-9,
             "ACC-F3");
}
END_TEST

/* 24 layers of 2 ms and 25 MB: buckets of so many layers, from the last layer on. */
static luo_overlap layers_by(int32_t each)
{
    double ready[24], seconds[24];
    int32_t n = 0;
    for (int32_t layer = 0; layer < 24; layer += each, n++) {
        const int32_t here = layer + each < 24 ? each : 24 - layer;
        ready[n] = 2e-3 * (layer + here);
        seconds[n] = 1e-4 + 25e6 * here / 40e9;
    }
    luo_overlap o;
    luo_cost_ddp_overlap(n, ready, seconds, 24 * 2e-3, &o);
    return o;
}

START_TEST(ddp)
{
    luo_overlap o = layers_by(4); /* 100 MB */
    luo_near(o.exposed, 2.6e-3, 1e-9, "ACC-O1 exposed");
    luo_near(o.total, 1.56e-2, 1e-9, "ACC-O1 total");
    o = layers_by(1);
    luo_near(o.exposed, 1e-4 + 25e6 / 40e9, 1e-9, "the last layer alone");
    o = layers_by(24);
    luo_near(o.exposed, o.total, 1e-12, "one bucket hides nothing");
    luo_cost_ddp_overlap(0, NULL, NULL, 1, &o);
    ck_assert(o.exposed == 0 && o.total == 0);
}
END_TEST

static const struct {
    const char *id;
    double gather, scatter, forward_end, end;
} fsdps[] = {{"ACC-O3", 0.5, 0.5, 4.5, 13.5}, {"ACC-O4", 1.5, 1.0, 7, 18.5}};

/* Ends by hand and by a list simulation, depth 0, 1, 2 (and 3): vectors Z and Q. */
static const struct {
    int n;
    double f[6], b[6], a[6], r[6], forward_end[3], end[4];
} depths[] = {
    {4, {4, 4, 4, 4}, {8, 8, 8, 8}, {2, 2, 2, 2}, {3, 3, 3, 3}, {24, 18, 18}, {76, 55, 55, 55}},
    {4, {4, 4, 4, 4}, {8, 8, 8, 8}, {6, 6, 6, 6}, {6, 6, 6, 6}, {40, 28, 28}, {120, 80, 78, 78}},
    {4, {2, 2, 2, 2}, {4, 4, 4, 4}, {5, 5, 5, 5}, {7, 7, 7, 7}, {28, 22, 22}, {92, 70, 70, 70}},
    {6, {4, 4, 4, 4, 4, 4}, {8, 8, 8, 8, 8, 8}, {9, 3, 3, 3, 3, 9}, {10, 3, 3, 3, 3, 10},
     {54, 38, 34}, {164, 114, 103, 103}},
    {4, {6, 2, 6, 2}, {12, 4, 12, 4}, {3, 8, 3, 8}, {3, 8, 3, 8}, {38, 24, 24},
     {114, 73, 72, 72}},
    {6, {7, 7, 7, 7, 7, 7}, {5, 5, 5, 5, 5, 5}, {3, 3, 3, 3, 3, 3}, {2, 2, 2, 2, 2, 2},
     {60, 45, 45}, {120, 80, 80, 81}},
};

START_TEST(fsdp_depths)
{
    for (int d = 0; d < 4; d++) {
        luo_fsdp out;
        luo_cost_fsdp(depths[_i].n, depths[_i].f, depths[_i].b, depths[_i].a, depths[_i].r, d,
                      &out);
        if (d < 3) luo_near(out.forward_end, depths[_i].forward_end[d], 1e-12, "end of forward");
        if (d < 3 || _i == 5) luo_near(out.end, depths[_i].end[d], 1e-12, "end");
    }
}
END_TEST

START_TEST(fsdp)
{
    const double f[4] = {1, 1, 1, 1}, b[4] = {2, 2, 2, 2};
    double g[4], r[4];
    for (int i = 0; i < 4; i++) g[i] = fsdps[_i].gather, r[i] = fsdps[_i].scatter;
    luo_fsdp out;
    luo_cost_fsdp(4, f, b, g, r, 1, &out);
    luo_near(out.forward_end, fsdps[_i].forward_end, 1e-12, fsdps[_i].id);
    luo_near(out.end, fsdps[_i].end, 1e-12, fsdps[_i].id);
}
END_TEST

static const struct {
    const char *id;
    int64_t L, h, a, b;
    int32_t t, p, v;
    int recompute;
    bool sp;
    double bytes;
} activations[] = {
    {"ACC-M1", 48, 6144, 64, 4, 8, 1, 1, 0, false, 63619203072.0},
    {"ACC-M2", 48, 6144, 64, 4, 8, 1, 1, 1, true, 10267656192.0},
    {"ACC-M3", 96, 12288, 96, 1, 8, 8, 3, 0, false, 71772930048.0},
    {"ACC-M5", 105, 20480, 128, 1, 8, 35, 3, 0, false, 122431733760.0},
    {"ACC-M6", 128, 25600, 160, 1, 8, 64, 1, 2, false, 13421772800.0},
};

START_TEST(memory_activations)
{
    const luo_model m = gpt(activations[_i].L, activations[_i].h, activations[_i].a, 51200);
    const luo_mem_spec s = {.model = &m, .recompute = activations[_i].recompute,
                            .layers = (double)activations[_i].L / activations[_i].p,
                            .recompute_layers = -1, .sequence_tokens = 2048,
                            .micro_batch_tokens = 2048 * activations[_i].b, .tp = activations[_i].t,
                            .stages = activations[_i].p, .chunks = activations[_i].v,
                            .micro_batches = 1024, .replicas = 1,
                            .schedule = activations[_i].v > 1 ? LUO_SCHED_INTERLEAVED
                                                              : LUO_SCHED_1F1B,
                            .sequence_parallel = activations[_i].sp};
    const double stored = luo_mem_layer_activations(&s, s.recompute) * s.layers / s.chunks *
                          luo_sched_kept(s.schedule, s.stages, s.stage, s.micro_batches, s.chunks);
    luo_near(stored, activations[_i].bytes, 1e-12, activations[_i].id);
}
END_TEST

static const struct {
    const char *id;
    int32_t zero;
    int64_t weights, gradients, optimizer;
} states[] = {
    {"ACC-M7", 0, 2000000000, 4000000000, 12000000000},
    {"ACC-M8", 1, 2000000000, 4000000000, 1500000000},
    {"ZeRO 2", 2, 2000000000, 500000000, 1500000000},
    {"ACC-M10", 3, 250000000, 500000000, 1500000000},
};

START_TEST(memory_state)
{
    luo_mem m = {0};
    luo_mem_state(1e9, 2, 4, states[_i].zero, 8, &m);
    ck_assert_int_eq(m.weights, states[_i].weights);
    ck_assert_int_eq(m.gradients, states[_i].gradients);
    ck_assert_int_eq(m.optimizer, states[_i].optimizer);
}
END_TEST

/* Gradients that wait for their bucket are two buckets: one fills while another travels. A bucket
 * is what its rule says, but at least the widest tensor (4h^2, h 1024); of 12h^2 + 13h a layer. */
enum { WIDEST = 4 * 1024 * 1024, WHOLE = 12 * 1024 * 1024 + 13 * 1024, MIB = 1 << 20 };
static const struct {
    luo_bucketing rule;
    int32_t zero, replicas;
    double parameters; /* of a bucket, in 4 bytes each */
} waiting[] = {
    {{.rule = LUO_BUCKET_UNSAID}, 2, 8, WIDEST},
    {{.rule = LUO_BUCKET_UNIT}, 2, 8, WHOLE},
    {{.rule = LUO_BUCKET_MIB, .has_mib = true, .mib = 0}, 2, 8, WIDEST},
    {{.rule = LUO_BUCKET_MIB, .has_mib = true, .mib = 15}, 2, 8, WIDEST},
    {{.rule = LUO_BUCKET_MIB, .has_mib = true, .mib = 17}, 2, 8, 17.0 * MIB / 4},
    {{.rule = LUO_BUCKET_DDP}, 2, 8, 25.0 * MIB / 4},
    {{.rule = LUO_BUCKET_MEGATRON}, 2, 8, 40e6},
    {{.rule = LUO_BUCKET_MEGATRON}, 2, 64, 64e6}, /* a million of each replica */
    {{.rule = LUO_BUCKET_DEEPSPEED}, 2, 8, 5e8},
    {{.rule = LUO_BUCKET_DEEPSPEED}, 3, 8, WHOLE}, /* in units, as they are gathered */
};

START_TEST(memory_buckets)
{
    const luo_model m = gpt(96, 1024, 16, 51200);
    const luo_mem_spec s = {.model = &m,
                            .layers = 96,
                            .recompute = 2,
                            .recompute_layers = -1,
                            .micro_batch_tokens = 1,
                            .sequence_tokens = 1,
                            .tp = 1,
                            .stages = 1,
                            .chunks = 1,
                            .micro_batches = 1,
                            .replicas = waiting[_i].replicas,
                            .zero = waiting[_i].zero,
                            .schedule = LUO_SCHED_1F1B,
                            .bucket = waiting[_i].rule};
    luo_mem out;
    luo_mem_stage(&s, &out);
    const double room = 2 * waiting[_i].parameters;
    /* what is complete gave back what it had kept, but for the layer at work */
    const double kept = (ceil(room / WHOLE) - 1) * luo_mem_layer_activations(&s, 2);
    const double gathered = waiting[_i].zero == 3 ? 2 * 2.0 * WHOLE : 0;
    luo_near((double)out.buffers, 4 * room - kept + gathered, 1e-9, "buckets");
}
END_TEST

START_TEST(memory_bloom)
{
    const luo_model m = gpt(72, 14336, 64, 250880);
    luo_mem_spec s = {.model = &m, .layers = 6, .recompute = 2, .recompute_layers = -1,
                      .micro_batch_tokens = 2048, .sequence_tokens = 2048, .tp = 8, .stages = 12,
                      .chunks = 1, .micro_batches = 512, .replicas = 4, .zero = 1,
                      .schedule = LUO_SCHED_1F1B, .embedding = true, .reserved_bytes = 2.0e9};
    luo_mem out;
    luo_mem_stage(&s, &out);
    ck_assert_msg(llabs(out.peak - 28745553229) <= 1, "ACC-M11: %lld", (long long)out.peak);
    ck_assert_int_eq(out.buffers, 0);
    s.head = true; /* logits of T*V/t at 2 + 4 + 4 bytes and the table once more */
    luo_mem with;
    luo_mem_stage(&s, &with);
    ck_assert_int_eq(with.activations - out.activations, (int64_t)2048 * 250880 / 8 * 10);
    ck_assert_int_eq(with.weights - out.weights, (int64_t)2 * 250880 * 14336 / 8);
    s.zero = 3;
    luo_mem_stage(&s, &with);
    const double layer = luo_mem_layer_parameters(&m, 0, 8);
    ck_assert_int_eq(with.buffers, (int64_t)(12 * layer)); /* two of 2 bytes, two of 4 */
    s.gathered = 4;
    luo_mem_stage(&s, &with);
    ck_assert_int_eq(with.buffers, (int64_t)(16 * layer));
    ck_assert_double_eq(layer * 8, 12.0 * 14336 * 14336 + 13.0 * 14336);
}
END_TEST

/* Llama: the count by hand, with kv heads; all of it over t with sequence parallelism. */
START_TEST(memory_llama)
{
    const luo_model m = llama(32, 4096, 32, 8, 14336);
    luo_mem_spec s = {.model = &m, .layers = 1, .recompute_layers = -1, .micro_batch_tokens = 4096,
                      .sequence_tokens = 4096, .tp = 4, .stages = 1, .chunks = 1,
                      .micro_batches = 1, .replicas = 1, .attention_fused = true};
    const double all = 4096.0 * 4096, cut = 4 + 4 * 8.0 / 32 + 8 * 14336.0 / 4096;
    luo_mem out;
    luo_near(luo_mem_layer_activations(&s, 0), all * (8 + cut / 4), 1e-12, "llama");
    luo_mem_stage(&s, &out); /* nothing is run again, and there is no head: what is kept, no more */
    ck_assert_int_eq(out.activations, (int64_t)(all * (8 + cut / 4)));
    ck_assert_int_eq(out.buffers, 0);
    s.sequence_parallel = true;
    luo_near(luo_mem_layer_activations(&s, 0), all * (8 + cut) / 4, 1e-12, "llama, sequence");
    luo_near(luo_mem_layer_activations(&s, 2), all * 2 / 4, 1e-12, "full");
    /* V-L2: attention with its norm, without the feed-forward part and that one's norm */
    luo_model v3 = llama(61, 7168, 128, 128, 18432);
    v3.head_dim = 192;
    v3.latent = (luo_latent){1536, 512, 128, 64, 128};
    s = (luo_mem_spec){.model = &v3, .layers = 1, .recompute_layers = -1, .micro_batch_tokens = 1,
                       .sequence_tokens = 1, .tp = 1, .stages = 1, .chunks = 1,
                       .micro_batches = 1, .replicas = 1, .attention_fused = true};
    const double norm = 2 * 2 * 7168, wide = 2 * 4 * 18432;
    luo_near(luo_mem_layer_activations(&s, 0) - norm - wide, 201344, 1e-12, "latent");
    s.tp = 8;
    luo_near(luo_mem_layer_activations(&s, 0) - norm - wide / 8, 57536, 1e-12, "latent, t 8");
    s.tp = 1;
    s.attention_fused = false;
    luo_near(luo_mem_layer_activations(&s, 1) - norm - wide, 201344 + 114688, 1e-12, "unfused");
    luo_near(luo_mem_attention_parameters(&v3, 1), 187105280 + 1536 + 512, 1e-12, "weights");
    luo_near(luo_mem_attention_parameters(&v3, 8),
             7168.0 * (1536 + 576) + 2048 + 128.0 / 8 * (192 * 1536 + 256 * 512 + 128 * 7168),
             1e-12, "weights, t 8");
    int64_t params = 0;
    luo_model_parameters(&v3, &params, NULL);
    luo_near(61 * luo_mem_layer_parameters(&v3, 0, 1) + 2.0 * 32000 * 7168 + 7168, (double)params,
             1e-12, "parameters, latent");
    luo_model_parameters(&m, &params, NULL);
    luo_near(32 * luo_mem_layer_parameters(&m, 0, 1) + 2.0 * 32000 * 4096 + 4096, (double)params,
             1e-12, "parameters agree with the model's");
}
END_TEST

/* Six ranks exchange heads of queries, and four heads of keys and values cannot be dealt out to
 * them: each keeps all four of the tokens of all six, 2 bytes an element, instead of those of its
 * own, and results of attention as they come and as they go back. */
START_TEST(memory_of_heads_that_are_copied)
{
    const luo_model m = llama(4, 3072, 24, 4, 8192);
    luo_mem_spec s = {.model = &m,
                      .layers = 1,
                      .recompute_layers = -1,
                      .micro_batch_tokens = 6000,
                      .sequence_tokens = 6000,
                      .tp = 1,
                      .stages = 1,
                      .chunks = 1,
                      .micro_batches = 1,
                      .replicas = 1,
                      .attention_fused = true,
                      .context = {.c = 6, .inner = 1, .zigzag = true}};
    const double ring = luo_mem_layer_activations(&s, 0);
    s.context.inner = 6;
    luo_near(luo_mem_layer_activations(&s, 0) - ring,
             2.0 * 2 * (6 - 1) * 1000 * 4 * 128 + 2.0 * 1000 * 24 * 128, 1e-12, "copies, results");
}
END_TEST

/* Eight experts of 1,024 columns, two a token, 512 tokens, h 256, t 2, 2 bytes an element. Cut:
 * 1,024 rows with all of h twice and half the columns four times. Dealt to two devices: half the
 * rows, whole; tokens lie whole, so that a device keeps what it sends, and not all that the norm
 * made. */
START_TEST(memory_of_experts)
{
    luo_model m = llama(4, 256, 4, 4, 768);
    m.moe = (luo_moe){.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 1024};
    luo_mem_spec s = {.model = &m, .layers = 4, .recompute_layers = -1, .dense_layers = -1,
                      .micro_batch_tokens = 512, .sequence_tokens = 512, .tp = 2, .stages = 1,
                      .chunks = 1, .micro_batches = 1, .replicas = 2, .zero = 1,
                      .attention_fused = true};
    const double h = 256, plain = 512 * h * (8 + 8 / 2);
    luo_near(luo_mem_layer_activations(&s, 0),
             plain + 2 * 1024 * (2 * h + 4 * 512) + 512 * (8 * 2 + 4 * 8), 1e-12, "cut");
    s.experts_among = 2;
    luo_near(luo_mem_layer_activations(&s, 0),
             plain + 2 * 512 * (2 * h + 4 * 1024) + 256 * (8 * 2 + 4 * 8) - 2 * h * (512 - 256),
             1e-12, "dealt");
    luo_near(luo_mem_layer_activations(&s, 2), 512 * h * 2, 1e-12, "full");
    /* Dealt to both devices of each of two pipelines, one of them has two experts and the only
     * copy; to two, four experts with two copies, so two experts' state a device. */
    const double matrix = 3 * h * 1024;
    luo_mem two, four;
    luo_mem_stage(&s, &two);
    s.experts_among = 4;
    luo_mem_stage(&s, &four);
    luo_near((double)(two.weights - four.weights), 4 * 2 * (4 - 2) * matrix, 1e-12, "weights");
    ck_assert_int_eq(two.optimizer, four.optimizer);
    s.replicas = 16; /* two experts, eight copies: a whole one is as little as it gets */
    luo_mem_stage(&s, &two);
    s.replicas = 4;
    luo_mem_stage(&s, &four);
    const double rest = (double)luo_mem_layer_parameters(&m, 0, 2) - 8 * matrix / 2;
    luo_near((double)(four.optimizer - two.optimizer), 12 * 4 * rest * (1 / 4.0 - 1 / 16.0), 1e-9,
             "optimizer");
}
END_TEST

/* Two layers of four have experts: every other one, or the last two. On one device it is the same
 * work. */
START_TEST(step_of_two_kinds_of_layers)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 1, 1, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const int32_t dev = 0;
    luo_step_cost cost[2];
    for (int k = 0; k < 2; k++) {
        luo_model m = llama(4, 1024, 16, 16, 4096);
        m.moe = (luo_moe){.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 4096,
                          .first_dense_layers = k ? 2 : 0, .every_layers = k ? 1 : 2};
        const luo_grid s = grid(&m, &c, 1, &dev);
        ck_assert_int_eq(luo_test_step(arena, &s, &stack, unsaid, &cost[k], NULL), LUO_OK);
    }
    luo_near(cost[0].step, cost[1].step, 1e-9, "two kinds of layers");
    luo_arena_free(arena);
}
END_TEST

/* One device, one stage: the step is the sum of its parts, by hand. */
START_TEST(step_of_one)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 1, 8, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const luo_model m = llama(4, 1024, 16, 16, 4096);
    const int32_t dev[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    luo_grid s = grid(&m, &c, 1, dev);
    luo_step_cost one, two;
    ck_assert_int_eq(luo_test_step(arena, &s, &stack, unsaid, &one, NULL), LUO_OK);
    const luo_layer_shape l = {.model = &m, .tokens = 2048, .sequence_tokens = 1024, .tp = 1};
    luo_layer_cost layer_s;
    luo_pair_cost head, embedding;
    double opt;
    luo_cost_layer(&ctx, &l, dev, 0, &layer_s, NULL);
    luo_cost_head(&ctx, &l, dev, &head, NULL);
    luo_cost_embedding(&ctx, &l, dev, &embedding, NULL);
    luo_cost_optimizer(&ctx, dev, 1,
                       4 * luo_mem_layer_parameters(&m, 0, 1) + 2.0 * 32000 * 1024, &opt, NULL);
    const double micro = 4 * (layer_s.forward + layer_s.backward) + head.forward + head.backward +
                         embedding.forward + embedding.backward;
    luo_near(one.pipeline, 5 * micro, 1e-12, "pipeline of one");
    luo_near(one.step, 5 * micro + opt, 1e-12, "step of one");
    ck_assert(one.dp == 0 && one.tied == 0);
    s.pipelines = 2;
    stack.dp_overlap = false;
    stack.grad_comm_bytes = 2;
    ck_assert_int_eq(luo_test_step(arena, &s, &stack, one_bucket, &two, NULL), LUO_OK);
    double reduce, norm;
    const double params = 4 * luo_mem_layer_parameters(&m, 0, 1) + 2.0 * 32000 * 1024;
    reduce = luo_cost_group_seconds(&ctx, LUO_COLL_AR, dev, 2, (int64_t)(2 * (params + 1024)), 0);
    norm = luo_cost_group_seconds(&ctx, LUO_COLL_AR, dev, 2, 4, 0);
    luo_near(two.dp, reduce, 1e-12, "gradients");
    s.zero = 1;
    luo_test_step(arena, &s, &stack, one_bucket, &two, NULL);
    luo_near(two.optimizer, 34 * params / 2 / (0.72 * 2e12) + 4e-6 + 40 * 15e-6 + norm, 1e-9,
             "ZeRO 1");
    luo_arena_free(arena);
}
END_TEST

/* Replicas sum every parameter of the model once: in one bucket that begins when the backward ends,
 * what is seen of it is the sum of so many elements. */
static const struct {
    const char *what;
    bool is_llama, qk_norm, qkv_bias;
    luo_latent latent;
    luo_moe moe;
} summed[] = {
    {"gpt", .is_llama = false},
    {"llama", .is_llama = true},
    {"biases of q, k and v", .is_llama = true, .qkv_bias = true},
    {"norms of q and k", .is_llama = true, .qk_norm = true},
    {"latent", .is_llama = true, .latent = {96, 64, 32, 16, 48}},
    {"latent keys and values", .is_llama = true, .latent = {0, 64, 32, 16, 48}},
    {"latent, norms with a mean", .is_llama = false, .latent = {96, 64, 32, 16, 48}},
    {"experts", .is_llama = true,
     .moe = {.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 384}},
    {"experts beside shared ones", .is_llama = true,
     .moe = {.experts = 8,
             .experts_per_token = 2,
             .expert_ffn_hidden = 384,
             .shared_experts = 2,
             .shared_ffn_hidden = 256}},
    {"experts in every other layer", .is_llama = true,
     .moe = {.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 384, .every_layers = 2}},
    {"latent with experts", .is_llama = true, .latent = {96, 64, 32, 16, 48},
     .moe =
         {.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 384, .first_dense_layers = 1}},
};

START_TEST(gradients_are_all_parameters)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 1, 2, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    stack.dp_overlap = false;
    stack.grad_comm_bytes = 2;
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    luo_model m = summed[_i].is_llama ? llama(4, 1024, 16, 4, 4096) : gpt(4, 1024, 16, 51200);
    const int32_t dev[2] = {0, 1};
    int64_t parameters;
    double reduce;
    luo_step_cost cost;
    m.qk_norm = summed[_i].qk_norm;
    m.qkv_bias |= summed[_i].qkv_bias;
    m.latent = summed[_i].latent;
    m.moe = summed[_i].moe;
    if (luo_model_is_latent(&m)) {
        m.kv_heads = m.heads;
        m.head_dim = m.latent.nope + m.latent.rope;
        m.qkv_bias = m.linear_bias = m.out_bias = false;
    }
    const luo_grid s = grid(&m, &c, 2, dev);
    ck_assert_int_eq(luo_test_step(arena, &s, &stack, one_bucket, &cost, NULL), LUO_OK);
    ck_assert_int_eq(luo_model_parameters(&m, &parameters, NULL), LUO_OK);
    reduce = luo_cost_group_seconds(&ctx, LUO_COLL_AR, dev, 2, 2 * parameters, 0);
    luo_near(cost.dp, reduce, 1e-12, summed[_i].what);
    luo_arena_free(arena);
}
END_TEST

/* Directions that any step must have. */
START_TEST(step_directions)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 4, 8, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_model m = gpt(16, 4096, 32, 50304);
    int32_t dev[32];
    for (int32_t i = 0; i < 32; i++) dev[i] = i;
    luo_grid s = {.model = &m, .cluster = &c, .dtype = LUO_BF16, .sequence_tokens = 2048,
                  .micro_batch_sequences = 1, .micro_batches = 8, .tp = 4, .stages = 4,
                  .pipelines = 2, .dev = dev};
    luo_step_cost base, other;
    ck_assert_int_eq(luo_test_step(arena, &s, &stack, unsaid, &base, NULL), LUO_OK);
    ck_assert_double_gt(base.tied, 0);
    ck_assert_double_gt(base.pipeline, base.ideal);
    s.recompute = LUO_RECOMPUTE_FULL;
    luo_test_step(arena, &s, &stack, unsaid, &other, NULL);
    ck_assert_double_gt(other.pipeline, base.pipeline * 1.2);
    ck_assert_double_lt(other.pipeline, base.pipeline * 1.4);
    s.recompute = LUO_RECOMPUTE_NONE;
    s.micro_batches = 16;
    luo_test_step(arena, &s, &stack, unsaid, &other, NULL);
    ck_assert_double_lt(other.pipeline, base.pipeline * 2);
    s.micro_batches = 8;
    s.chunks = 2;
    luo_test_step(arena, &s, &stack, unsaid, &other, NULL);
    ck_assert_double_lt(other.pipeline, base.pipeline);
    s.chunks = 1;
    g.nic_bytes_per_s /= 2;
    luo_test_step(arena, &s, &stack, unsaid, &other, NULL);
    ck_assert_double_gt(other.step, base.step);
    s.zero = 3;
    s.stages = 1;
    s.pipelines = 8;
    ck_assert_int_eq(luo_test_step(arena, &s, &stack, unsaid, &other, NULL), LUO_OK);
    ck_assert_double_eq(other.dp, 0);
    luo_arena_free(arena);
}
END_TEST

/* Where the host is what takes time, kernels are counted: attention that runs again in backward is
 * three more for each part of the keys, unless the stack says how many a layer has. */
START_TEST(kernels_of_attention_again)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 1, 8, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    stack.host_launch_s = 1;
    stack.kernels_forward = _i == 2 ? 16 : 0;
    stack.attention_fused = false;
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const luo_model m = llama(4, 1024, 8, 8, 4096);
    const int32_t dev[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    luo_layer_shape l = {.model = &m, .tokens = 2048, .sequence_tokens = 2048, .tp = 1};
    if (_i == 1) l.context = (luo_context){.c = 4, .inner = 1, .zigzag = true};
    luo_layer_cost kept, again;
    ck_assert_int_eq(luo_cost_layer(&ctx, &l, dev, 0, &kept, NULL), LUO_OK);
    ck_assert_int_eq(luo_cost_layer(&ctx, &l, dev, 1, &again, NULL), LUO_OK);
    const double more = _i == 0 ? 3 : _i == 1 ? 3 * 4 : 0;
    ck_assert_double_eq_tol(again.forward - kept.forward, 0, 1e-3);
    ck_assert_double_eq_tol(again.backward - kept.backward, more, 1e-3);
    ck_assert_double_eq_tol(again.input - kept.input, more, 1e-3);
    ck_assert_double_eq_tol(again.weight - kept.weight, 0, 1e-3);
    luo_arena_free(arena);
}
END_TEST

/* A context ring, uneven shares and experts change a layer in the direction they must. */
START_TEST(layer_variants)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 1, 8, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    luo_model m = llama(4, 4096, 32, 8, 14336);
    const int32_t dev[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    luo_layer_shape l = {.model = &m, .tokens = 32768, .sequence_tokens = 32768, .tp = 2};
    luo_layer_cost whole, ring, uneven, sparse;
    ck_assert_int_eq(luo_cost_layer(&ctx, &l, dev, 0, &whole, NULL), LUO_OK);
    l.context = (luo_context){.c = 4, .inner = 1, .zigzag = true};
    luo_cost_layer(&ctx, &l, dev, 0, &ring, NULL);
    ck_assert_double_lt(ring.forward, whole.forward / 3);
    l.context.c = 1;
    l.local_heads = 24;
    l.local_kv_heads = 6;
    l.local_ffn = 3 * 14336 / 4;
    luo_cost_layer(&ctx, &l, dev, 0, &uneven, NULL);
    ck_assert_double_gt(uneven.forward, whole.forward * 1.3);
    m.moe = (luo_moe){.experts = 8, .experts_per_token = 1, .expert_ffn_hidden = 14336};
    l.local_heads = l.local_kv_heads = l.local_ffn = 0;
    luo_cost_layer(&ctx, &l, dev, 0, &sparse, NULL);
    /* beside the tiles: two matrices into the layer and one out of it, of each expert */
    const double weights_s = 8 * 3.0 * 4096 * 7168 * 2 / (p.memory_bytes_per_s * p.memory_ratio);
    luo_near(sparse.forward - weights_s, whole.forward, 0.02, "8 experts, one works per token");
    m.family = LUO_FAMILY_VGG;
    luo_err err = {0};
    ck_assert_int_eq(luo_cost_layer(&ctx, &l, dev, 0, &sparse, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "model `llama` is a vgg, which has no transformer layers to cost; "
                               "use another family.");
    luo_arena_free(arena);
}
END_TEST

/* Six ranks, two on each of three nodes, exchange heads: a rank sends a message to its neighbour
 * and four to other nodes, those behind each other; what goes to the third node starts while that
 * to the second is under way, so its latency does not count. */
START_TEST(exchange_over_three_nodes)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 3, 8, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const luo_model m = llama(4, 1536, 12, 12, 4096);
    const int32_t dev[6] = {0, 1, 8, 9, 16, 17};
    const luo_layer_shape l = {.model = &m,
                               .tokens = 6000,
                               .sequence_tokens = 6000,
                               .tp = 1,
                               .context = {.c = 6, .inner = 6, .zigzag = true}};
    layer_context got;
    double near_s, far_s, start_s;
    const int64_t bytes = 1000 * 128 * (12 / 6) * 2;
    near_s = luo_cost_p2p_seconds(&ctx, 0, 1, bytes, 0);
    far_s = luo_cost_p2p_seconds(&ctx, 0, 8, bytes, 0);
    start_s = luo_cost_p2p_seconds(&ctx, 0, 8, 1, 0);
    ck_assert(start_s > 1e-6 && near_s < far_s);
    layer_context_comm(&ctx, &l, dev, &got);
    luo_near(got.queries, 4 * far_s - start_s, 1e-9, "queries");
    luo_near(got.keys, 4 * far_s - start_s, 1e-9, "keys");
    ck_assert(got.hop == 0 && got.copies[0] == 0 && got.copies[1] == 0);
    luo_arena_free(arena);
}
END_TEST

/* Of DeepSeek V3's attention on eight devices: each norms the latent vectors of its
 * eighth of the tokens, and puts queries and keys of its 16 heads together from those of all. */
START_TEST(streams_of_latent_vectors)
{
    const luo_profile p = luo_ref_profile();
    luo_stack stack;
    luo_stack_default(&stack);
    luo_model m = llama(61, 7168, 128, 128, 18432);
    m.head_dim = 192;
    m.latent = (luo_latent){1536, 512, 128, 64, 128};
    const luo_layer_shape l = {
        .model = &m, .tokens = 4096, .sequence_tokens = 4096, .tp = 8, .sequence_parallel = true};
    luo_layer_gpu g;
    const double q = 2.0 * 512 * 1536, kv = 2.0 * 512 * 512,
                 rope = 2.0 * 4096 * (16 * (3 * 192 + 128) + 64);
    const double forward[] = {2 * q, 2 * kv, rope},
                 backward[] = {4 * q, 4 * kv, rope, 5. * 512 * 7168};
    double want[2] = {0, 0}, s;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(luo_cost_stream(&p, forward[i], &s, NULL), LUO_OK);
        want[0] += s;
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(luo_cost_stream(&p, backward[i], &s, NULL), LUO_OK);
        want[1] += s;
    }
    ck_assert_int_eq(luo_cost_layer_gpu(&p, &stack, LUO_BF16, &l, &g, NULL), LUO_OK);
    luo_near(g.extra_forward, want[0], 1e-9, "forward");
    luo_near(g.extra_backward, want[1], 1e-9, "backward");
}
END_TEST

LUO_SUITE("layer", LUO_T_N(layer_row, LUO_ROWS(layers)), LUO_T(flop_forms), LUO_T(ddp),
          LUO_T_N(fsdp, LUO_ROWS(fsdps)), LUO_T_N(fsdp_depths, LUO_ROWS(depths)),
          LUO_T_N(memory_activations, LUO_ROWS(activations)),
          LUO_T_N(memory_state, LUO_ROWS(states)), LUO_T(memory_bloom), LUO_T(memory_llama),
          LUO_T(memory_of_heads_that_are_copied), LUO_T(memory_of_experts),
          LUO_T_N(memory_buckets, LUO_ROWS(waiting)),
          LUO_T(step_of_one), LUO_T(step_of_two_kinds_of_layers),
          LUO_T_N(gradients_are_all_parameters, LUO_ROWS(summed)), LUO_T(step_directions),
          LUO_T_N(kernels_of_attention_again, 3), LUO_T(layer_variants),
          LUO_T(exchange_over_three_nodes), LUO_T(streams_of_latent_vectors))
