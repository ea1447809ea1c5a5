/* read_plan.c: plan.json into a luo_plan, defaults filled in (docs/formats.md#luoshuplan1). */
#include <string.h>

#include "core/io/document/doc_table.h"
#include "core/io/read/read.h"
#include "core/run/scenario.h"

typedef struct plan_yaml {
    const char *schema;
    luo_plan plan;
} plan_yaml;

#define OPT LUO_DOC_OPT
#define REQ LUO_DOC_REQ
#define MICRO_BATCHES LUO_WITHIN(1, 1 << 30) /* the limit of work is below, and can be raised */
#define SEQUENCES LUO_WITHIN(1, 1 << 24)
#define SHARE LUO_WITHIN(1, 1 << 24)
#define LAYER LUO_WITHIN(0, 65536)
#define PIPELINE LUO_WITHIN(0, 131072)
#define DEVICE LUO_WITHIN(0, 131071)
#define WIDTH LUO_OF(LUO_Q_DEVICES, 1)
#define LAYERS LUO_OF(LUO_Q_LAYERS, 1)
#define TOKENS LUO_OF(LUO_Q_TOKENS, 1)

static const luo_doc_word dtypes[] = {LUO_DTYPE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word schedules[] = {
#define LUO_SCHED(kind, name, ...) {name, LUO_SCHED_##kind},
#include "core/graph/schedule/schedules.inc"
#undef LUO_SCHED
};
#define OF_STEP(value, word) {word, value == LUO_STEP_STAGGERED},
static const luo_doc_word steps[] = {LUO_OPTIMIZER_STEP_LIST(OF_STEP)};
#undef OF_STEP
static const luo_doc_word recomputes[] = {LUO_RECOMPUTE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word experts[] = {{"tensor", false}, {"expert", true}};
static const luo_doc_word moe_exchanges[] = {LUO_ALLTOALL_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word context_kinds[] = {LUO_CONTEXT_KIND_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word context_layouts[] = {LUO_CONTEXT_LAYOUT_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word bucket_rules[] = {LUO_BUCKET_RULE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word shards[] = {LUO_SHARD_LIST(LUO_DOC_WORD_ROW)};
#define OF_VARIANT(value, word) {word, 0},
static const luo_doc_word variants[] = {LUO_MOVE_VARIANT_LIST(OF_VARIANT)
                                            LUO_ALLTOALL_LIST(OF_VARIANT)};
#undef OF_VARIANT

/* ---- contradictions within a map ---- */

static bool refuse(luo_doc *doc, const luo_doc_node *map, const char *key, const char *where)
{
    const luo_doc_node *node = luo_doc_get(map, key);
    if (node) luo_doc_error(doc, node, "`%s` belongs to %s; leave it out.", key, where);
    return node != NULL;
}

static int64_t number(const luo_doc_node *map, const char *key, int64_t otherwise)
{
    luo_doc_int(luo_doc_get(map, key), &otherwise);
    return otherwise;
}

static void check_count(luo_doc *doc, const luo_doc_node *stage, const char *key, const char *width,
                        int64_t want)
{
    const luo_doc_node *node = luo_doc_get(stage, key);
    if (node && node->n != want)
        luo_doc_error(doc, node, "`%s` has %d values; the stage has a %s width of %lld.", key,
                      node->n, width, (long long)want);
}

static void check_stage(luo_doc *doc, const luo_doc_node *stage)
{
    const luo_doc_node *devices = luo_doc_get(stage, "devices");
    const int64_t groups = number(stage, "context_parallel", 1);
    if (devices->n == 0 && !luo_doc_get(stage, "reroute"))
        luo_doc_error(doc, devices, "`devices` is empty; at least 1 is expected.");
    if (devices->n % groups) return;
    check_count(doc, stage, "shares", "tensor-parallel", devices->n / groups);
    check_count(doc, stage, "context_shares", "context-parallel", groups);
}

static void check_pipeline(luo_doc *doc, const luo_doc_node *pipeline)
{
    const luo_doc_node *tokens = luo_doc_get(pipeline, "micro_batch_tokens");
    const int64_t want = number(pipeline, "micro_batches", 0);
    if (tokens && tokens->n > 0 && tokens->n != want)
        luo_doc_error(doc, tokens,
                      "`micro_batch_tokens` has %d values; the pipeline has %lld micro-batches.",
                      tokens->n, (long long)want);
}

/* Text that enters the canonical form: printable ASCII (docs/formats.md#luoshuplan1). */
static void check_annotation(luo_doc *doc, const luo_doc_node *map)
{
    for (const luo_doc_node *node = map->first; node; node = node->next) {
        const char *p = node->text;
        while (*p >= 0x20 && *p <= 0x7e) p++;
        if (*p)
            luo_doc_error(doc, node,
                          "`%s` has a character that is not printable ASCII; write it "
                          "without.",
                          node->key);
    }
}

static void check_bucket(luo_doc *doc, const luo_doc_node *root)
{
    const char *rule = luo_doc_text(root, "bucket_rule");
    const luo_doc_node *mib = luo_doc_get(root, "bucket_mib");
    if (rule && mib && strcmp(rule, "mib") != 0)
        luo_doc_error(doc, mib, "`bucket_mib` belongs to rule `mib`; leave it out for `%s`.", rule);
}

static void check_sharding(luo_doc *doc, const luo_doc_node *root)
{
    const char *shard = luo_doc_text(root, "shard");
    if (number(root, "zero", 0) < 3) {
        (void)(refuse(doc, root, "shard", "zero 3") ||
               refuse(doc, root, "prefetch_depth", "zero 3") ||
               refuse(doc, root, "shard_pipelines", "zero 3 with `shard` hybrid"));
        return;
    }
    if (shard && strcmp(shard, "grad-op") == 0)
        refuse(doc, root, "prefetch_depth", "shards that are gathered layer by layer");
    if (!shard || strcmp(shard, "hybrid") != 0)
        refuse(doc, root, "shard_pipelines", "`shard` hybrid");
    else if (!luo_doc_get(root, "shard_pipelines"))
        luo_doc_error(doc, root, "`shard` hybrid needs `shard_pipelines`.");
}

/* What no planner makes. */
static bool is_beside(const char *pointer)
{
    static const char *const beside[] = {"schema", "name", "model", "cluster", "pinned", "meta"};
    const size_t n = strcspn(pointer + 1, "/");
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (strlen(beside[i]) == n && strncmp(pointer + 1, beside[i], n) == 0) return true;
    return false;
}

static void check_pinned(luo_doc *doc, const luo_doc_node *root)
{
    const luo_doc_node *list = luo_doc_get(root, "pinned");
    for (const luo_doc_node *node = list ? list->first : NULL; node; node = node->next) {
        bool found;
        luo_doc_find(doc->root, node->text, &found);
        if (!found)
            luo_doc_error(doc, node,
                          "`pinned` holds JSON pointers to parts of this file, such as "
                          "`/schedule`; this is none.");
        else if (node->text[0] && is_beside(node->text))
            luo_doc_error(doc, node,
                          "`%s` is nothing that a planner makes; `pinned` holds parts that it has "
                          "to keep.",
                          node->text);
    }
}

static void check_plan(luo_doc *doc, const luo_doc_node *root)
{
    check_bucket(doc, root);
    check_sharding(doc, root);
    check_pinned(doc, root);
}

/* ---- fields ---- */

static const luo_doc_schema layer_entry = LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int32_t, LAYER);
static const luo_doc_schema device_entry = LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int32_t, DEVICE);
static const luo_doc_schema share_entry = LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, uint32_t, SHARE);
static const luo_doc_schema tokens_entry = LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int64_t, TOKENS);
static const luo_doc_schema pipeline_entry = LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int32_t, PIPELINE);
static const luo_doc_schema text_entry =
    LUO_DOC_SCALAR_OF(LUO_DOC_STRING, const char *, LUO_DOC_ANY);
static const luo_doc_schema range_entry = {
    .form = LUO_DOC_TWO_OF,
    .bytes = sizeof(luo_range),
    .entry = &layer_entry,
    .say = "a range [lo,hi] of layers, `lo` up to, not including, `hi`,"};
static const luo_doc_schema group_entry = {.form = LUO_DOC_LIST_OF,
                                           .bytes = sizeof(struct luo_expert_group),
                                           .entry = &pipeline_entry,
                                           .list_at = offsetof(struct luo_expert_group, pipeline),
                                           .count_at = offsetof(struct luo_expert_group, n),
                                           .say = "a list of pipeline ids"};

static const luo_doc_field recompute_fields[] = {
    LUO_DOC_ENUM("mode", REQ, luo_stage, recompute, recomputes,
                 "`selective`: the core of unfused attention; `full`: the whole layer"),
    LUO_DOC_SEQ("layers", OPT, luo_stage, recompute_layers, nrecompute, range_entry, 0,
                "the whole stage | layers it holds for"),
    LUO_DOC_END};

static const luo_doc_field reroute_fields[] = {
    LUO_DOC_INT("pipeline", REQ, luo_reroute, pipeline, PIPELINE,
                "a pipeline whose same stage has devices"),
    LUO_DOC_INT("micro_batches", REQ, luo_reroute, micro_batches, MICRO_BATCHES,
                "micro-batches that it takes"),
    LUO_DOC_END};
static const luo_doc_schema reroute_entry = LUO_DOC_STRUCT_OF(luo_reroute, reroute_fields, NULL);

static const luo_doc_field stage_fields[] = {
    LUO_DOC_SEQ("layers", REQ, luo_stage, layers, nlayers, range_entry, 1,
                "layers low up to, not including, high; one range a chunk"),
    LUO_DOC_SEQ("devices", REQ, luo_stage, dev, ndev, device_entry, 0,
                "devices in order: context-parallel index outermost, then tensor-parallel index"),
    LUO_DOC_INT_OR(
        "context_parallel", luo_stage, context_parallel, "1", WIDTH,
        "groups that a sequence is cut among; tensor parallelism is what is left inside each"),
    LUO_DOC_ARRAY("shares", OPT, luo_stage, shares, share_entry, 1,
                  "all 1 | one a tensor-parallel device: uneven tensor parallelism"),
    LUO_DOC_INNER("recompute", OPT, recompute_fields,
                  "`none` | what is computed again in the backward pass"),
    LUO_DOC_BOOL("embedding", OPT, luo_stage, embedding,
                 "first stage | where the embedding is; exactly one stage has it"),
    LUO_DOC_BOOL("head", OPT, luo_stage, head,
                 "last stage | where the head is; exactly one stage has it"),
    LUO_DOC_ENUM_OR("experts", luo_stage, experts_dealt, "tensor", experts,
                    "cut every expert, or deal whole experts to the devices"),
    LUO_DOC_ENUM_OR("context_kind", luo_stage, context_kind, "auto", context_kinds,
                    "how a cut sequence attends: see planners.md"),
    LUO_DOC_ENUM_OR("context_layout", luo_stage, context_layout, "auto", context_layouts,
                    "which tokens a group has"),
    LUO_DOC_INT("context_inner", OPT, luo_stage, context_inner, WIDTH,
                "groups of a node | with `2d` alone: groups of the inner exchange"),
    LUO_DOC_ARRAY("context_shares", OPT, luo_stage, context_shares, share_entry, 1,
                  "all 1 | a share of the tokens for each group"),
    LUO_DOC_SEQ("reroute", OPT, luo_stage, reroute, nreroute, reroute_entry, 1,
                "none | of a stage without devices: who runs its micro-batches"),
    LUO_DOC_END};
static const luo_doc_schema stage_entry = LUO_DOC_STRUCT_OF(luo_stage, stage_fields, check_stage);

static const luo_doc_field pipeline_fields[] = {
    LUO_DOC_INT("micro_batches", REQ, luo_pipeline, micro_batches, MICRO_BATCHES,
                "micro-batches of a step"),
    LUO_DOC_SEQ("stages", REQ, luo_pipeline, stages, nstages, stage_entry, 1, "stages in order"),
    LUO_DOC_INT("micro_batch_sequences", OPT, luo_pipeline, micro_batch_sequences, SEQUENCES,
                "that of the plan | sequences of a micro-batch of this pipeline"),
    LUO_DOC_ARRAY("micro_batch_tokens", OPT, luo_pipeline, micro_batch_tokens, tokens_entry, 0,
                  "`[]` | tokens of each micro-batch"),
    LUO_DOC_END};
static const luo_doc_schema pipelines_entry =
    LUO_DOC_STRUCT_OF(luo_pipeline, pipeline_fields, check_pipeline);

static const luo_doc_field schedule_fields[] = {
    LUO_DOC_FIELD("kind", REQ, plan_yaml, plan.schedule,
                  "order of forward and backward passes: see architecture/schedules.md",
                  .form = LUO_DOC_WORD, .otherwise = "1f1b", LUO_DOC_WORDS(schedules)),
    LUO_DOC_INT_OR("chunks", plan_yaml, plan.chunks, "1", LAYERS,
                   "parts of a stage; more than 1 goes with `interleaved_1f1b` alone"),
    LUO_DOC_END};

static const luo_doc_field annotation_fields[] = {
    LUO_DOC_TEXT("tensor", REQ, luo_plan_annotation, tensor, "name of the tensor"),
    LUO_DOC_TEXT("annotation", REQ, luo_plan_annotation, annotation,
                 "how the tensor lies on devices: see annotations.md"),
    LUO_DOC_TEXT_OR("at", luo_plan_annotation, at, "",
                    "an op that consumes it: a Reshard stands in front of that op; empty: where it "
                    "is produced"),
    LUO_DOC_FIELD("variant", OPT, luo_plan_annotation, variant,
                  "how the tensor is moved to lie so, below", .form = LUO_DOC_STRING,
                  .otherwise = "auto", LUO_DOC_WORDS(variants)),
    LUO_DOC_END};
static const luo_doc_schema annotation_entry =
    LUO_DOC_STRUCT_OF(luo_plan_annotation, annotation_fields, check_annotation);

static const luo_doc_field assignment_fields[] = {
    LUO_DOC_INT("sequence", REQ, luo_assignment, sequence, LUO_WITHIN(0, 1e12),
                "number of the sequence"),
    LUO_DOC_INT("length_tokens", REQ, luo_assignment, length_tokens, TOKENS, "its length"),
    LUO_DOC_INT("pipeline", REQ, luo_assignment, pipeline, PIPELINE, "pipeline"),
    LUO_DOC_INT("micro_batch", REQ, luo_assignment, micro_batch, LUO_WITHIN(0, 1 << 30),
                "micro-batch"),
    LUO_DOC_END};
static const luo_doc_schema assignment_entry =
    LUO_DOC_STRUCT_OF(luo_assignment, assignment_fields, NULL);

static const luo_doc_field state_fields[] = {
    LUO_DOC_INT("data", REQ, luo_state_layout, data, WIDTH, "replicas"),
    LUO_DOC_INT("tensor", REQ, luo_state_layout, tensor, WIDTH, "tensor-parallel size"),
    LUO_DOC_INT("pipeline", REQ, luo_state_layout, pipeline, WIDTH, "stages"),
    LUO_DOC_SEQ("devices", REQ, luo_state_layout, dev, ndev, device_entry, 1,
                "devices, tensor-parallel index first, then data, then pipeline"),
    LUO_DOC_END};

static const luo_doc_field plan_fields[] = {
    LUO_DOC_TEXT("schema", REQ, plan_yaml, schema, "`luoshu.plan/1`"),
    LUO_DOC_TEXT_OR("name", plan_yaml, plan.name, "", "a name for people"),
    LUO_DOC_TEXT_OR("model", plan_yaml, plan.model, "", "name of the model"),
    LUO_DOC_TEXT_OR("cluster", plan_yaml, plan.cluster, "", "name of the cluster"),
    LUO_DOC_INT("layers", REQ, plan_yaml, plan.layers, LAYERS,
                "layers of the model, so that a plan can be checked alone"),
    LUO_DOC_INT("devices", REQ, plan_yaml, plan.devices, WIDTH,
                "devices of the cluster, for the same reason"),
    LUO_DOC_ENUM_OR("dtype", plan_yaml, plan.dtype, "bf16", dtypes, "number format"),
    LUO_DOC_INT("sequence_tokens", REQ, plan_yaml, plan.sequence_tokens, LUO_OF(LUO_Q_SEQUENCE, 1),
                "length of a sequence"),
    LUO_DOC_INT_OR("zero", plan_yaml, plan.zero, "0", LUO_WITHIN(0, 3),
                   "ZeRO stage: 1 cuts optimizer state, 2 gradients, 3 weights as well"),
    LUO_DOC_INT_OR("micro_batch_sequences", plan_yaml, plan.micro_batch_sequences, "1", SEQUENCES,
                   "sequences of a micro-batch"),
    LUO_DOC_INNER("schedule", OPT, schedule_fields, "`1f1b` | order of the tasks"),
    LUO_DOC_BOOL_OR("sequence_parallel", plan_yaml, plan.sequence_parallel, "false",
                    "activations between tensor-parallel parts are cut along the tokens"),
    LUO_DOC_SEQ("pipelines", REQ, plan_yaml, plan.pipelines, plan.npipelines, pipelines_entry, 1,
                "pipelines; together they train one batch"),
    LUO_DOC_SEQ(
        "annotations", OPT, plan_yaml, plan.annotations, plan.nannotations, annotation_entry, 0,
        "`[]` | raw annotations of tensors; they override the derived ones and are checked"),
    LUO_DOC_SEQ("assignment", OPT, plan_yaml, plan.assignment, plan.nassignment, assignment_entry,
                0, "`[]` | sequences of one step, one by one"),
    LUO_DOC_SEQ("expert_groups", OPT, plan_yaml, plan.expert_groups, plan.ngroups, group_entry, 0,
                "`[]` | pipelines that share one set of experts"),
    LUO_DOC_INT_OR("expert_parallel", plan_yaml, plan.expert_parallel, "0",
                   LUO_OF_OR_0(LUO_Q_WIDTH, 1),
                   "neighbouring devices that have all experts together, where experts are dealt"),
    LUO_DOC_ENUM_OR("moe_exchange", plan_yaml, plan.moe_exchange, "flat", moe_exchanges,
                    "how rows of experts travel that are dealt"),
    LUO_DOC_FIELD("state_layout", OPT, plan_yaml, plan.state_layout,
                  "`null` | optimizer state in a layout of its own", .form = LUO_DOC_STRUCT,
                  .fields = state_fields, .or_null = true),
    LUO_DOC_SEQ("pinned", OPT, plan_yaml, plan.pinned, plan.npinned, text_entry, 0,
                "`[]` | JSON pointers to parts that a planner has to keep"),
    LUO_DOC_ENUM(
        "bucket_rule", OPT, plan_yaml, plan.bucket.rule, bucket_rules,
        "that of the stack, else `megatron` | when a bucket of gradients or weights is full"),
    LUO_DOC_FLOAT("bucket_mib", OPT, plan_yaml, plan.bucket.mib, LUO_WITHIN(0, LUO_BUCKET_MIB_MAX),
                  "25 with `mib` | size of a bucket; 0: every tensor alone"),
    LUO_DOC_ENUM_OR("shard", plan_yaml, plan.sharding.kind, "full", shards,
                    "ZeRO-3: what is cut among whom"),
    LUO_DOC_INT("shard_pipelines", OPT, plan_yaml, plan.sharding.pipelines, WIDTH,
                "required with `hybrid` | pipelines of a shard group"),
    LUO_DOC_INT("prefetch_depth", OPT, plan_yaml, plan.sharding.depth,
                LUO_WITHIN(0, LUO_PREFETCH_MAX), "1 | ZeRO-3: layers gathered ahead"),
    LUO_DOC_INT("dp_lanes", OPT, plan_yaml, plan.bucket.lanes, LUO_WITHIN(1, LUO_BUCKET_LANES_MAX),
                "that of the stack, else 2 | lanes in which a device runs the calls of buckets"),
    LUO_DOC_ENUM_OR("optimizer_step", plan_yaml, plan.staggered, "together", steps,
                    "when a stage steps"),
    LUO_DOC_FIELD("meta", OPT, plan_yaml, plan.meta_json,
                  "none | free text and numbers; not part of the hash", .form = LUO_DOC_FREE),
    LUO_DOC_END};
static const luo_doc_schema schema = LUO_DOC_STRUCT_OF(plan_yaml, plan_fields, check_plan);
const luo_doc_kind luo_doc_plan = {"plan", &schema};

/* ---- defaults that depend on other keys ---- */

/* The first and the last stage have embedding and head unless the file places them elsewhere. */
static void default_ends(const luo_doc_node *list, luo_stage *stages, int32_t n)
{
    bool embedding = false, head = false;
    for (int32_t s = 0; s < n; s++) {
        embedding = embedding || stages[s].embedding;
        head = head || stages[s].head;
    }
    if (!embedding && !luo_doc_get(list->first, "embedding")) stages[0].embedding = true;
    if (!head && !luo_doc_get(list->last, "head")) stages[n - 1].head = true;
}

/* NULL where all are alike. */
static const uint32_t *uneven(const uint32_t *shares, int32_t n)
{
    for (int32_t i = 0; shares && i < n; i++)
        if (shares[i] != 1) return shares;
    return NULL;
}

static void finish_pipeline(const luo_doc_node *node, const luo_plan *plan, luo_pipeline *pipeline)
{
    luo_stage *stages = (luo_stage *)pipeline->stages; /* new, and still ours */
    if (!luo_doc_get(node, "micro_batch_sequences"))
        pipeline->micro_batch_sequences = plan->micro_batch_sequences;
    default_ends(luo_doc_get(node, "stages"), stages, pipeline->nstages);
    for (int32_t s = 0; s < pipeline->nstages; s++) {
        luo_stage *stage = &stages[s];
        const bool whole = stage->ndev % stage->context_parallel == 0; /* else refused later */
        stage->shares = whole ? uneven(stage->shares, luo_stage_tp(stage)) : NULL;
        stage->context_shares =
            whole ? uneven(stage->context_shares, stage->context_parallel) : NULL;
    }
}

static void finish(const luo_doc_node *root, luo_plan *plan)
{
    const luo_doc_node *node = luo_doc_get(root, "pipelines")->first;
    plan->bucket.has_mib = luo_doc_get(root, "bucket_mib") != NULL;
    plan->sharding.has_depth = luo_doc_get(root, "prefetch_depth") != NULL;
    if (plan->zero == 3 && !plan->sharding.has_depth) plan->sharding.depth = LUO_PREFETCH_DEFAULT;
    for (int32_t i = 0; i < plan->npipelines; i++, node = node->next)
        finish_pipeline(node, plan, (luo_pipeline *)&plan->pipelines[i]);
}

/* ---- the whole ---- */

luo_status luo_read_plan_doc(luo_doc *doc, luo_plan **out)
{
    void *data = NULL;
    luo_doc_parse_json(doc);
    luo_doc_check(doc, &luo_doc_plan);
    if (doc->st != LUO_OK || luo_doc_load(doc, &schema, &data) != LUO_OK) return doc->st;
    *out = &((plan_yaml *)data)->plan;
    finish(doc->root, *out);
    return LUO_OK;
}

luo_status luo_read_plan_text(luo_arena *arena, const luo_source *src, luo_plan **out,
                              luo_diags *diags)
{
    luo_doc doc = {.arena = arena, .src = src, .diags = diags};
    return luo_read_plan_doc(&doc, out);
}

luo_status luo_read_plan(luo_arena *arena, const char *path, luo_plan **out, const luo_doc **doc,
                         luo_diags *diags)
{
    luo_err err;
    struct {
        luo_doc doc;
        luo_source src;
    } *file = luo_arena_calloc(arena, 1, sizeof *file);
    luo_status st = file ? luo_source_read(arena, path, &file->src, &err) : luo_err_nomem(&err);
    if (st != LUO_OK) return luo_diags_err(diags, &err);
    file->doc = (luo_doc){.arena = arena, .src = &file->src, .diags = diags};
    if (doc) *doc = &file->doc;
    return luo_read_plan_doc(&file->doc, out);
}

/* ---- what is found later ---- */

void luo_doc_report_plan(const luo_doc *doc, const luo_plan_finding *findings, int32_t n,
                         luo_diags *diags)
{
    bool found;
    const int32_t told = n < LUO_DIAGS_MAX ? n : LUO_DIAGS_MAX;
    for (int32_t i = 0; i < told; i++) {
        const luo_doc_node *node = luo_doc_find(doc->root, findings[i].pointer, &found);
        luo_diags_add(diags, LUO_ERROR, findings[i].st, doc->src->name, node->line, node->col, "%s",
                      findings[i].text);
    }
    for (int32_t i = told; i < n; i++) /* are counted */
        luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, doc->src->name, 0, 0, "%s", "");
}

luo_status luo_doc_report_err(const luo_doc *doc, const luo_err *err, luo_diags *diags)
{
    luo_err placed = *err;
    bool found;
    const luo_doc_node *node =
        err->pointer[0] ? luo_doc_find(doc->root, err->pointer, &found) : NULL;
    luo_err_at(&placed, err->st, doc->src->name, node ? node->line : 0, node ? node->col : 0);
    return luo_diags_err(diags, &placed);
}
