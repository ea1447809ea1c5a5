/* check_export.c: plans as files of others: vectors V-M1, V-M2, V-L1 to V-L3, V-D1, what is refused
 * and where, and Hetu's file against the annotations of the plan. */
#include "core/io/export/export.h"
#include "core/plan/compile.h"
#include "tests/check_main.h"
#include "tests/parked/dsjson.h"
#include "tests/plan_make.h"

typedef struct result {
    luo_status st;
    luo_err err;
    luo_str text;
    luo_export_made made;
} result;

static luo_status take_text(void *ctx, const char *name, const luo_str *text, luo_err *err)
{
    result *r = ctx;
    (void)err;
    ck_assert_ptr_null(name);
    luo_str_add(&r->text, luo_str_get(text));
    return LUO_OK;
}

static result export_plan(luo_arena *a, luo_export_kind kind, const luo_plan *plan,
                          const luo_model *model)
{
    result r = {0};
    const luo_export_source source = {.plan = plan, .model = model, .model_file = "model.yaml"};
    const luo_export_sink sink = {take_text, NULL, &r};
    r.st = luo_export(a, kind, &source, &sink, &r.made, &r.err);
    return r;
}

/* ---- Megatron: stages and ranks ---- */

static const struct {
    const char *plan, *has, *lacks;
} flags[] = {
    /* V-M1 */
    {"4: [0,1]*2 [4,5]*2 || 4: [2,3]*2 [6,7]*2", "--global-batch-size 8 ",
     "--use-tp-pp-dp-mapping"},
    {"4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", "--use-tp-pp-dp-mapping ", "layout"},
    /* V-M2 */
    {"4: [0]*1 [1]*3 [2]*3 [3]*3", "--decoder-first-pipeline-num-layers 1 ", "--decoder-last"},
    {"8: [0]*8 [1]*8 [2]*8 [3]*8 [4]*8 [5]*8 [6]*8 [7]*5", "--decoder-last-pipeline-num-layers 5 ",
     "--decoder-first"},
    {"4: [0]*1 [1]*3 [2]*3 [3]*2", "--decoder-first-pipeline-num-layers 1 ", "layout"},
    {"4: [0]*1 [1]*3 [2]*3 [3]*2", "--decoder-last-pipeline-num-layers 2 ", "layout"},
    /* V-L1, without its m */
    {"4: [0]*0 [1]*5 [2]*6 [3]*1", "--pipeline-model-parallel-layout 'E|t*5|t*6|tL' ", "--decoder"},
    /* V-L2, without its m */
    {"16: [0]*3+2 [1]*2+2 [2]*2+2 [3]*2+2 [4]*2+2 [5]*2+2 [6]*2+2 [7]*2+2 [8]*2+2 [9]*2+2 "
     "[10]*2+2 [11]*2+2 [12]*2+2 [13]*2+2 [14]*2+0 [15]*2+0",
     "--pipeline-model-parallel-layout "
     "'Et*3|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt"
     "|tt|tt|tt|tt|tt|tt|tt|tt|tt|tt||L' ",
     "--num-layers-per-virtual"},
    /* V-L3 */
    {"2: [0]*2+2 [1]*2+2", "--num-layers-per-virtual-pipeline-stage 2 ", "layout"},
    {"4: [0]*0 [1]*0 [2]*1 [3]*0", "--pipeline-model-parallel-layout 'E||t|L' ", "--decoder"},
    {"4: [0]*2 [1]*2", "--pipeline-model-parallel-size 2 ", "--decoder"},
};

START_TEST(megatron_flags)
{
    luo_arena *a = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(a, flags[_i].plan);
    luo_model model = luo_test_llama(plan->layers, 4096, 10880, 32, 32000);
    result r = export_plan(a, LUO_EXPORT_MEGATRON, plan, &model);
    ck_assert_msg(r.st == LUO_OK, "%s", r.err.text);
    ck_assert_msg(strstr(luo_str_get(&r.text), flags[_i].has) != NULL, "%s", r.text.at);
    ck_assert_msg(strstr(luo_str_get(&r.text), flags[_i].lacks) == NULL, "%s", r.text.at);
    ck_assert_ptr_nonnull(strstr(r.text.at, "--ffn-hidden-size 10880 "));
    ck_assert_ptr_nonnull(strstr(r.text.at, " \\\n--bf16\n")); /* the last line goes on no more */
    luo_str_free(&r.text);
    luo_arena_free(a);
}
END_TEST

/* ---- Megatron: experts ---- */

static const int32_t both[] = {0, 1}, third[] = {0, 2};
static const struct luo_expert_group pair = {2, both}, apart = {2, third};
static const struct {
    bool dealt;
    const struct luo_expert_group *group; /* NULL: none */
    int32_t among;                        /* expert_parallel */
    luo_alltoall_kind exchange;
    const char *has, *lacks; /* of refusals the pointer and NULL */
} experts[] = {
    {false, NULL, 0, LUO_ALLTOALL_FLAT, "--num-experts 8 ", "--expert-"},
    {false, &pair, 0, LUO_ALLTOALL_FLAT, "--expert-model-parallel-size 2 ", "--expert-tensor"},
    {true, NULL, 0, LUO_ALLTOALL_FLAT,
     "--expert-model-parallel-size 2 \\\n--expert-tensor-parallel-size 1 ",
     "--expert-model-parallel-size 4"},
    {true, &pair, 0, LUO_ALLTOALL_FLAT,
     "--expert-model-parallel-size 4 \\\n--expert-tensor-parallel-size 1 ",
     "--expert-model-parallel-size 2"},
    {true, &pair, 2, LUO_ALLTOALL_FLAT, "--expert-model-parallel-size 2 ", "-parallel-size 4"},
    {true, &apart, 0, LUO_ALLTOALL_FLAT, "/expert_groups", NULL},
    {true, NULL, 0, LUO_ALLTOALL_LEADER, "/moe_exchange", NULL},
};

START_TEST(megatron_experts)
{
    luo_arena *a = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(a, "2: [0,1]*2 || 2: [2,3]*2");
    luo_model model = luo_test_llama(plan->layers, 256, 512, 8, 1024);
    model.family = LUO_FAMILY_MOE;
    model.moe = (luo_moe){.experts = 8,
                          .experts_per_token = 2,
                          .expert_ffn_hidden = 256,
                          .first_dense_layers = 1,
                          .every_layers = 1};
    plan->expert_groups = experts[_i].group;
    plan->ngroups = experts[_i].group != NULL;
    plan->expert_parallel = experts[_i].among;
    plan->moe_exchange = experts[_i].exchange;
    for (int32_t p = 0; p < 2; p++)
        ((luo_stage *)plan->pipelines[p].stages)->experts_dealt = experts[_i].dealt;
    result r = export_plan(a, LUO_EXPORT_MEGATRON, plan, &model);
    if (!experts[_i].lacks) {
        ck_assert_int_eq(r.st, LUO_EUNREP);
        ck_assert_str_eq(r.err.pointer, experts[_i].has);
    } else {
        ck_assert_msg(r.st == LUO_OK, "%s", r.err.text);
        ck_assert_msg(strstr(r.text.at, experts[_i].has) != NULL, "%s", r.text.at);
        ck_assert_msg(strstr(r.text.at, experts[_i].lacks) == NULL, "%s", r.text.at);
        ck_assert_ptr_nonnull(strstr(r.text.at, "--moe-layer-freq '([0]*1+[1]*1)' "));
        ck_assert_ptr_nonnull(strstr(r.text.at, "--moe-router-pre-softmax "));
    }
    luo_str_free(&r.text);
    luo_arena_free(a);
}
END_TEST

/* ---- what is refused, and where ---- */

static void set_gpipe(luo_plan *p)
{
    p->schedule = LUO_SCHED_GPIPE;
}
static void set_zb(luo_plan *p)
{
    p->schedule = LUO_SCHED_ZB_H1;
}
static void set_zero1(luo_plan *p)
{
    p->zero = 1;
}
static void set_zero3(luo_plan *p)
{
    p->zero = 3;
}
static void set_grad_op(luo_plan *p)
{
    p->zero = 3;
    p->sharding.kind = LUO_SHARD_GRAD_OP;
}
static void set_staggered(luo_plan *p)
{
    p->staggered = true;
}
static void set_annotation(luo_plan *p)
{
    static const luo_plan_annotation one = {"layers.0.attn.out.weight", "[0]{}", "", "auto"};
    p->annotations = &one;
    p->nannotations = 1;
}
static luo_stage *stage_of(luo_plan *p, int32_t i, int32_t s)
{
    return (luo_stage *)&p->pipelines[i].stages[s];
}
static void set_recompute(luo_plan *p)
{
    stage_of(p, 0, 0)->recompute = LUO_RECOMPUTE_FULL;
}
static void set_second_layer(luo_plan *p)
{
    static const luo_range second = {1, 2};
    stage_of(p, 0, 0)->recompute = LUO_RECOMPUTE_FULL;
    stage_of(p, 0, 0)->recompute_layers = &second;
    stage_of(p, 0, 0)->nrecompute = 1;
}
static void set_sequences(luo_plan *p)
{
    ((luo_pipeline *)p->pipelines)[1].micro_batch_sequences = 2;
}
static void set_lengths(luo_plan *p)
{
    static const int64_t tokens[] = {4096, 128};
    ((luo_pipeline *)p->pipelines)[0].micro_batch_tokens = tokens;
}
static void set_context(luo_plan *p)
{
    stage_of(p, 0, 0)->context_parallel = 2;
}
static void set_mixed_recompute(luo_plan *p)
{
    stage_of(p, 0, 0)->recompute = LUO_RECOMPUTE_FULL;
    stage_of(p, 0, 1)->recompute = LUO_RECOMPUTE_SELECTIVE;
}
static void no_sequence_parallel(luo_plan *p)
{
    p->sequence_parallel = false;
}

#define MEGATRON LUO_EXPORT_MEGATRON
#define TITAN LUO_EXPORT_TORCHTITAN
#define DEEPSPEED LUO_EXPORT_DEEPSPEED
#define HETU LUO_EXPORT_HETU
static const struct {
    luo_export_kind kind;
    const char *plan;
    void (*change)(luo_plan *plan);
    const char *pointer, *says;
} refused[] = {
    {MEGATRON, "2: [0]*2 || 3: [1]*2", NULL, "/pipelines/1/micro_batches",
     "Megatron can't express pipelines of different numbers of micro-batches, 3 here and 2 in "
     "pipeline 0; equally many are expected."},
    {MEGATRON, "2: [0]*2 || 2: [1]*1 [2]*1", NULL, "/pipelines/1/stages",
     "Megatron can't express pipelines of different numbers of stages, 2 here and 1 in pipeline 0; "
     "equally many are expected."},
    {MEGATRON, "2: [0,1]*1 [2]*1", NULL, "/pipelines/0/stages/1/devices",
     "Megatron can't express a tensor-parallel size of 1 here and of 2 in the first stage; one for "
     "all is expected."},
    {MEGATRON, "2: [0,1]*1 [2,3]:(3,1)*1", NULL, "/pipelines/0/stages/1/shares",
     "Megatron can't express uneven shares of tensor-parallel devices."},
    {MEGATRON, "2: [0]*1 [1]*2 || 2: [2]*2 [3]*1", NULL, "/pipelines/1/stages/0/layers",
     "Megatron can't express layers [0, 2) here and [0, 1) in that stage of pipeline 0; the same "
     "in "
     "all pipelines are expected."},
    {MEGATRON, "2: [0,2]*1 [1,3]*1", NULL, "/pipelines/0/stages/0/devices",
     "Megatron can't express this order of devices: device 2 is rank 2, and rank 1 is expected "
     "here."},
    {MEGATRON, "2: [0,1]*1 [2,3]*1 || 2: [4,5]*1 [7,6]*1", NULL, "/pipelines/1/stages/1/devices",
     "Megatron can't express this order of devices: device 7 is rank 7, and rank 6 is expected "
     "here."},
    {MEGATRON, "2: [0]*2 || 2: [1]*2", set_sequences, "/pipelines/1/micro_batch_sequences",
     "Megatron can't express micro-batches of 2 sequences here and of 1 in pipeline 0; one size is "
     "expected."},
    {MEGATRON, "2: [0]*2", set_lengths, "/pipelines/0/micro_batch_tokens",
     "Megatron can't express micro-batch 1 of 128 tokens; all have 4096."},
    {MEGATRON, "2: [0]*2", set_gpipe, "/schedule",
     "Megatron can't express schedule `gpipe`; `1f1b` or `interleaved_1f1b` is expected."},
    {MEGATRON, "2: [0]*2", set_staggered, "/optimizer_step",
     "Megatron can't express a staggered optimizer step."},
    {MEGATRON, "2: [0]*2", set_annotation, "/annotations/0",
     "Megatron can't express the annotation of tensor `layers.0.attn.out.weight`."},
    {MEGATRON, "2: [0]*2 || 2: [1]*2", set_grad_op, "/sharding",
     "Megatron can't express sharding `grad-op`; `full` is expected."},
    {MEGATRON, "2: [0]*1 [1]*1", set_recompute, "/pipelines/0/stages/1",
     "Megatron can't express recompute of 0 layers of [1, 2) and of 1 elsewhere; equally many in "
     "every stage are expected."},
    {MEGATRON, "2: [0]*2", set_second_layer, "/pipelines/0/stages/0/recompute",
     "Megatron can't express recompute of other layers than the first of [0, 2)."},
    {MEGATRON, "2: [0]*1 [1]*1", set_mixed_recompute, "/pipelines/0/stages/1/recompute",
     "Megatron can't express recompute `selective` here and `full` in another stage."},
    {TITAN, "2: [0]*2 || 2: [1]*2", set_zero1, "/zero",
     "torchtitan can't express ZeRO-1: it cuts weights, gradients and state together; 0 or 3 is "
     "expected."},
    {TITAN, "2: [0]*1 [1]*1", set_zb, "/schedule", "torchtitan can't express schedule `zb_h1`."},
    {TITAN, "2: [0,1]*2", no_sequence_parallel, "",
     "torchtitan can't express tensor parallelism without sequence parallelism; "
     "`sequence_parallel` "
     "true is expected."},
    {TITAN, "4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", NULL, "/pipelines/0/stages/1/devices",
     "torchtitan can't express this order of devices: device 2 is rank 2, and rank 4 is expected "
     "here."},
    {DEEPSPEED, "2: [0]*1 [1]*1", NULL, "/pipelines/0/stages",
     "a DeepSpeed configuration can't express 2 pipeline stages; 1 is expected."},
    {DEEPSPEED, "2: [0,1]*2", NULL, "/pipelines/0/stages/0/devices",
     "a DeepSpeed configuration can't express a tensor-parallel size of 2; 1 is expected."},
    {DEEPSPEED, "2: [0]*2", set_recompute, "/pipelines/0/stages/0/recompute",
     "a DeepSpeed configuration can't express recompute, which the model's own code turns on; "
     "`none` is expected."},
    {HETU, "2: [0]*2 || 2: [1]*2", set_zero3, "/zero",
     "Hetu can't express ZeRO-3; 0 or 1 is expected."},
    {HETU, "2: [0,1]:(3,1)*2", NULL, "/pipelines/0/stages/0/shares",
     "Hetu can't express uneven shares of tensor-parallel devices."},
    {HETU, "2: [0,1]*2", set_context, "/pipelines/0/stages/0/context_parallel",
     "Hetu can't express a context-parallel size of 2 here; 1 is expected."},
    {HETU, "2: [0]*1 [1]*0 [2]*1", NULL, "/pipelines/0/stages/1/layers",
     "Hetu can't express a stage without layers."},
    {HETU, "2: [0]*1 [1]*1", set_mixed_recompute, "/pipelines/0/stages/1/recompute",
     "Hetu can't express recompute `selective` here and `full` in an earlier stage of that "
     "pipeline."},
};

START_TEST(refuses_at_its_place)
{
    luo_arena *a = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(a, refused[_i].plan);
    luo_model model = luo_test_llama(plan->layers, 256, 512, 8, 1024);
    if (refused[_i].change) refused[_i].change(plan);
    result r = export_plan(a, refused[_i].kind, plan, &model);
    ck_assert_int_eq(r.st, LUO_EUNREP);
    ck_assert_str_eq(r.err.text, refused[_i].says);
    ck_assert_str_eq(r.err.pointer, refused[_i].pointer);
    ck_assert_uint_eq(r.text.len, 0);
    luo_arena_free(a);
}
END_TEST

static const struct {
    luo_export_kind kind;
    const char *key;
} keys[] = {{MEGATRON, "family"},      {MEGATRON, "window"}, {MEGATRON, "logit_softcap"},
            {MEGATRON, "linear_bias"}, {TITAN, "window"},    {TITAN, "norm"},
            {HETU, "family"}};

static void spoil(luo_model *model, const char *key)
{
    if (strcmp(key, "family") == 0) model->family = LUO_FAMILY_MLP;
    if (strcmp(key, "window") == 0) model->window.tokens = 128;
    if (strcmp(key, "logit_softcap") == 0) model->logit_softcap = 30;
    if (strcmp(key, "linear_bias") == 0) model->linear_bias = true;
    if (strcmp(key, "norm") == 0) model->norm = LUO_NORM_LAYER;
}

START_TEST(refuses_keys_of_models)
{
    luo_arena *a = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(a, "2: [0]*2");
    luo_model model = luo_test_llama(plan->layers, 256, 512, 8, 1024);
    char key[64];
    spoil(&model, keys[_i].key);
    result r = export_plan(a, keys[_i].kind, plan, &model);
    ck_assert_int_eq(r.st, LUO_EUNREP);
    snprintf(key, sizeof key, "can't express `%s` of model `test-llama`.", keys[_i].key);
    ck_assert_msg(strstr(r.err.text, key) != NULL, "%s", r.err.text);
    ck_assert_str_eq(r.err.path, "model.yaml");
    luo_arena_free(a);
}
END_TEST

/* ---- Hetu: what its file says is what the plan says ---- */

static const luo_ann *weight_of(const luo_param *params, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(params[i].name, name) == 0) return params[i].weight;
    ck_abort_msg("no parameter %s", name);
    return NULL;
}

/* The weight of ours that an entry stands for; NULL: none (input, label). */
static const char *name_of(luo_arena *a, const luo_ds_item *item)
{
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"qkv", "attn.q.weight"},
                 {"dense", "attn.out.weight"},
                 {"dense_h_to_4h", "mlp.gate.weight"},
                 {"dense_4h_to_h", "mlp.down.weight"},
                 {"rmsnorm1", "norm1.weight"},
                 {"rmsnorm2", "norm2.weight"}};
    if (strcmp(item->name, "wte") == 0) return "wte.weight";
    if (strcmp(item->name, "lm_head") == 0) return "lm_head.weight";
    if (strcmp(item->name, "rmsnorm_final") == 0) return "norm.weight";
    for (size_t i = 0; i < LUO_ROWS(names); i++)
        if (strcmp(names[i].theirs, item->name) == 0)
            return luo_arena_printf(a, "layers.%d.%s", item->first, names[i].ours);
    return NULL;
}

static const char *const hetu[] = {
    "33: [0-3]*2 [4-7]*2 || 31: [8-11]*1 [12,13]*2 [14]*1",
    "2: [28-31]*2 || 2: [38]*2", /* V-D1 */
    "2: [0-3]*2",
    "4: [0,1]*1 [2,3]*1 || 4: [4,5]*1 [6,7]*1 || 4: [8,9]*1 [10,11]*1",
};

START_TEST(hetu_is_the_plan)
{
    luo_arena *a = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(a, hetu[_i]);
    luo_model model = luo_test_llama(plan->layers, 256, 512, 8, 1024);
    luo_diags diags;
    luo_dsjson *file;
    luo_param *params;
    luo_err err = {0};
    int32_t n, compared = 0;
    plan->zero = 1;
    result r = export_plan(a, LUO_EXPORT_HETU, plan, &model);
    ck_assert_msg(r.st == LUO_OK, "%s", r.err.text);
    luo_diags_init(&diags, a);
    const luo_source src = {"made.json", r.text.at, r.text.len};
    ck_assert_int_eq(luo_dsjson_read(a, &src, &file, &diags), LUO_OK);
    ck_assert_ptr_null(diags.first); /* no unknown key */
    ck_assert_int_eq(file->zero, plan->npipelines > 1);
    ck_assert_int_eq(file->ndev, plan->devices);
    ck_assert_int_eq(luo_plan_params(a, plan, &model, &params, &n, &err), LUO_OK);
    ck_assert_int_eq(file->n, 5 + 6 * plan->layers);
    for (int32_t i = 0; i < file->n; i++) {
        const char *name = name_of(a, &file->items[i]);
        const luo_ann *got;
        luo_str one = {0}, other = {0};
        if (!name) continue;
        ck_assert_int_eq(luo_dsjson_weight(a, &file->items[i], &got, &err), LUO_OK);
        luo_ann_print(&one, got);
        luo_ann_print(&other, luo_ann_canonical(a, weight_of(params, n, name)));
        ck_assert_msg(strcmp(luo_str_get(&one), luo_str_get(&other)) == 0, "%s: %s, not %s", name,
                      one.at, other.at);
        luo_str_free(&one);
        luo_str_free(&other);
        compared++;
    }
    ck_assert_int_eq(compared, 3 + 6 * plan->layers);
    luo_str_free(&r.text);
    luo_arena_free(a);
}
END_TEST

/* V-D1: the entries as Hetu has them. */
START_TEST(hetu_entries)
{
    luo_arena *a = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(a, "33: [28-31]*1 || 31: [38]*1");
    result r = export_plan(a, LUO_EXPORT_HETU, plan, NULL);
    luo_str flat = {0};
    ck_assert_int_eq(r.st, LUO_OK);
    for (const char *c = luo_str_get(&r.text); *c; c++)
        if (*c != ' ' && *c != '\n') luo_str_addc(&flat, *c);
    ck_assert_ptr_nonnull(strstr(flat.at, "\"rmsnorm1\":{\"split\":{\"0\":[4,1]},\"dup\":[2,2],"
                                          "\"device_group_union\":[[28,29,30,31],[38]],\"type\":"
                                          "\"variable\"}"));
    ck_assert_ptr_nonnull(strstr(flat.at, "\"input\":{\"split\":{\"0\":[2,2]},\"dup\":[4,1],"
                                          "\"device_group_union\":[[28,29,30,31],[38]],\"type\":"
                                          "\"placeholder\"}"));
    ck_assert_ptr_nonnull(strstr(flat.at, "\"qkv\":{\"split\":{\"1\":[4,1]}"));
    ck_assert_str_eq(
        r.made.note,
        "the file does not hold micro-batches (of the pipelines 33,31), their sequences "
        "(1 of 4096 tokens) and sequence parallelism (on).");
    luo_str_free(&flat);
    luo_str_free(&r.text);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("export", LUO_T_N(megatron_flags, LUO_ROWS(flags)),
          LUO_T_N(megatron_experts, LUO_ROWS(experts)),
          LUO_T_N(refuses_at_its_place, LUO_ROWS(refused)),
          LUO_T_N(refuses_keys_of_models, LUO_ROWS(keys)),
          LUO_T_N(hetu_is_the_plan, LUO_ROWS(hetu)), LUO_T(hetu_entries))
