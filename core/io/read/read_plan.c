/* read_plan.c: plan.json into a luo_plan, defaults filled in (docs/formats.md#luoshuplan1). */
#include <string.h>

#include "core/io/document/json.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))
#define MOST(quantity) luo_quantity_at(quantity)->highest
enum { MICRO_BATCHES_MAX = 1 << 30 }; /* the limit of work is below, and can be raised */

/* ---- small parts ---- */

static const luo_range *read_ranges(luo_json *j, const luo_json_at *list, int32_t *n)
{
    const size_t count = json_array_size(list->v);
    luo_range *v = LUO_NEW_N(j->arena, luo_range, count);
    *n = v ? (int32_t)count : 0;
    if (!v) luo_json_nomem(j);
    for (int32_t i = 0; i < *n; i++) {
        const luo_json_at at = luo_json_nth(list, (size_t)i);
        if (!json_is_array(at.v) || json_array_size(at.v) != 2) {
            luo_json_error(j, &at, false,
                           "a range [lo,hi] of layers is expected, `lo` up to, not "
                           "including, `hi`.");
            continue;
        }
        const luo_json_at lo = luo_json_nth(&at, 0), hi = luo_json_nth(&at, 1);
        v[i].lo = (int32_t)luo_json_item_int(j, &lo, 0, MOST(LUO_Q_LAYERS));
        v[i].hi = (int32_t)luo_json_item_int(j, &hi, 0, MOST(LUO_Q_LAYERS));
    }
    return v;
}

/* Text that enters the canonical form: printable ASCII (docs/formats.md#luoshuplan1). */
static const char *ascii(luo_json *j, const luo_json_at *up, const char *key, const char *otherwise)
{
    const char *text = luo_json_text(j, up, key, otherwise);
    for (const char *p = text; *p; p++)
        if (*p < 0x20 || *p > 0x7e) {
            const luo_json_at at = luo_json_in(up, key);
            luo_json_error(j, &at, false,
                           "`%s` has a character that is not printable ASCII; "
                           "write it without.",
                           key);
            break;
        }
    return text;
}

static void read_recompute(luo_json *j, const luo_json_at *stage, luo_stage *st)
{
    static const luo_json_key keys[] = {{"mode", true}, {"layers", false}};
    static const char *const modes[] = {"none", "selective", "full"};
    const luo_json_at at = luo_json_in(stage, "recompute");
    size_t n;
    if (!at.v || !luo_json_keys(j, &at, keys, COUNT(keys))) return;
    st->recompute = (luo_recompute)luo_json_word(j, &at, "mode", modes, COUNT(modes), 0);
    const luo_json_at list = luo_json_list(j, &at, "layers", 0, &n);
    if (list.v) st->recompute_layers = read_ranges(j, &list, &st->nrecompute);
}

/* Shares of which there have to be `want`; NULL: all alike, or an error. */
static const uint32_t *read_weights(luo_json *j, const luo_json_at *stage, const char *key,
                                    const char *width, int32_t want)
{
    size_t n;
    int32_t count;
    const luo_json_at at = luo_json_list(j, stage, key, 1, &n);
    if (!at.v) return NULL;
    const int32_t *v = luo_json_ids(j, &at, 1, 1 << 24, &count);
    if (count != want) {
        luo_json_error(j, &at, false, "`%s` has %d values; the stage has a %s width of %d.", key,
                       count, width, want);
        return NULL;
    }
    uint32_t *shares = LUO_NEW_N(j->arena, uint32_t, count);
    bool even = true;
    if (!shares) luo_json_nomem(j);
    for (int32_t i = 0; shares && i < count; i++) {
        shares[i] = (uint32_t)v[i];
        even = even && v[i] == 1;
    }
    return even ? NULL : shares;
}

static void read_shares(luo_json *j, const luo_json_at *stage, luo_stage *st)
{
    if (st->ndev % st->context_parallel) return;
    st->shares = read_weights(j, stage, "shares", "tensor-parallel", luo_stage_tp(st));
    st->context_shares =
        read_weights(j, stage, "context_shares", "context-parallel", st->context_parallel);
}

static void read_context(luo_json *j, const luo_json_at *at, luo_stage *st)
{
    static const char *const kinds[] = {"auto", "ring", "a2a", "2d"};
    static const char *const layouts[] = {"auto", "zigzag", "contiguous"};
    st->context_parallel =
        (int32_t)luo_json_int(j, at, "context_parallel", 1, MOST(LUO_Q_DEVICES), 1);
    st->context_kind =
        (luo_context_kind)luo_json_word(j, at, "context_kind", kinds, COUNT(kinds), 0);
    st->context_layout =
        (luo_context_layout)luo_json_word(j, at, "context_layout", layouts, COUNT(layouts), 0);
    st->context_inner = (int32_t)luo_json_int(j, at, "context_inner", 1, MOST(LUO_Q_DEVICES), 0);
}

/* ---- stages and pipelines ---- */

static void read_reroute(luo_json *j, const luo_json_at *at, luo_stage *st)
{
    static const luo_json_key keys[] = {{"pipeline", true}, {"micro_batches", true}};
    size_t n;
    const luo_json_at list = luo_json_list(j, at, "reroute", 1, &n);
    luo_reroute *r = list.v ? LUO_NEW_N(j->arena, luo_reroute, n) : NULL;
    if (list.v && !r) luo_json_nomem(j);
    for (size_t i = 0; r && i < n; i++) {
        const luo_json_at x = luo_json_nth(&list, i);
        if (!luo_json_keys(j, &x, keys, COUNT(keys))) continue;
        r[i].pipeline = (int32_t)luo_json_int(j, &x, "pipeline", 0, MOST(LUO_Q_DEVICES), 0);
        r[i].micro_batches = (int32_t)luo_json_int(j, &x, "micro_batches", 1, MICRO_BATCHES_MAX, 1);
    }
    st->reroute = r;
    st->nreroute = r ? (int32_t)n : 0;
}

static void read_stage(luo_json *j, const luo_json_at *at, luo_stage *st)
{
    static const luo_json_key keys[] = {
        {"layers", true},  {"devices", true},    {"context_parallel", false},
        {"shares", false}, {"recompute", false}, {"embedding", false},
        {"head", false},   {"experts", false},   {"context_kind", false},
        {"context_layout", false}, {"context_inner", false}, {"context_shares", false},
        {"reroute", false},
    };
    static const char *const experts[] = {"tensor", "expert"};
    size_t n;
    st->context_parallel = 1;
    if (!luo_json_keys(j, at, keys, COUNT(keys))) return;
    const luo_json_at layers = luo_json_list(j, at, "layers", 1, &n);
    if (layers.v) st->layers = read_ranges(j, &layers, &st->nlayers);
    const bool lost = json_object_get(at->v, "reroute") != NULL;
    const luo_json_at dev = luo_json_list(j, at, "devices", lost ? 0 : 1, &n);
    if (dev.v && n) st->dev = luo_json_ids(j, &dev, 0, MOST(LUO_Q_DEVICES) - 1, &st->ndev);
    if (lost) read_reroute(j, at, st);
    read_context(j, at, st);
    read_shares(j, at, st);
    read_recompute(j, at, st);
    st->embedding = luo_json_bool(j, at, "embedding", false);
    st->head = luo_json_bool(j, at, "head", false);
    st->experts_dealt = luo_json_word(j, at, "experts", experts, COUNT(experts), 0);
}

/* The first and the last stage have embedding and head unless the file places them elsewhere. */
static void default_ends(const luo_json_at *list, luo_stage *st, int32_t n)
{
    bool embedding = false, head = false;
    for (int32_t s = 0; s < n; s++) {
        embedding = embedding || st[s].embedding;
        head = head || st[s].head;
    }
    const json_t *first = json_array_get(list->v, 0);
    const json_t *last = json_array_get(list->v, (size_t)n - 1);
    if (!embedding && !json_object_get(first, "embedding")) st[0].embedding = true;
    if (!head && !json_object_get(last, "head")) st[n - 1].head = true;
}

static void read_micro_batch_tokens(luo_json *j, const luo_json_at *at, luo_pipeline *pl)
{
    size_t n;
    const luo_json_at list = luo_json_list(j, at, "micro_batch_tokens", 0, &n);
    if (n == 0) return;
    if (n != (size_t)pl->micro_batches) {
        luo_json_error(j, &list, false,
                       "`micro_batch_tokens` has %zu values; the pipeline has %d "
                       "micro-batches.",
                       n, pl->micro_batches);
        return;
    }
    int64_t *v = LUO_NEW_N(j->arena, int64_t, n);
    if (!v) luo_json_nomem(j);
    for (size_t i = 0; v && i < n; i++) {
        const luo_json_at item = luo_json_nth(&list, i);
        v[i] = luo_json_item_int(j, &item, 1, MOST(LUO_Q_TOKENS));
    }
    pl->micro_batch_tokens = v;
}

static void read_pipeline(luo_json *j, const luo_json_at *at, const luo_plan *p, luo_pipeline *pl)
{
    static const luo_json_key keys[] = {
        {"micro_batches", true},
        {"stages", true},
        {"micro_batch_sequences", false},
        {"micro_batch_tokens", false},
    };
    size_t n;
    if (!luo_json_keys(j, at, keys, COUNT(keys))) return;
    pl->micro_batches = (int32_t)luo_json_int(j, at, "micro_batches", 1, MICRO_BATCHES_MAX, 1);
    pl->micro_batch_sequences =
        (int32_t)luo_json_int(j, at, "micro_batch_sequences", 1, 1 << 24, p->micro_batch_sequences);
    read_micro_batch_tokens(j, at, pl);
    const luo_json_at list = luo_json_list(j, at, "stages", 1, &n);
    luo_stage *st = LUO_NEW_N(j->arena, luo_stage, n);
    if (!st) luo_json_nomem(j);
    if (!st || n == 0) return;
    for (size_t s = 0; s < n; s++) {
        const luo_json_at item = luo_json_nth(&list, s);
        read_stage(j, &item, &st[s]);
    }
    default_ends(&list, st, (int32_t)n);
    pl->stages = st;
    pl->nstages = (int32_t)n;
}

static void read_pipelines(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    size_t n;
    const luo_json_at list = luo_json_list(j, root, "pipelines", 1, &n);
    luo_pipeline *pl = LUO_NEW_N(j->arena, luo_pipeline, n);
    if (!pl) luo_json_nomem(j);
    for (size_t i = 0; pl && i < n; i++) {
        const luo_json_at at = luo_json_nth(&list, i);
        read_pipeline(j, &at, p, &pl[i]);
    }
    p->pipelines = pl;
    p->npipelines = pl ? (int32_t)n : 0;
}

/* ---- the other lists ---- */

static void read_annotations(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    static const luo_json_key keys[] = {
        {"tensor", true}, {"annotation", true}, {"at", false}, {"variant", false}};
    static const char *const variants[] = {"auto", "padded", "grouped", "factors",
                                           "flat", "leader", "2d"};
    size_t n;
    const luo_json_at list = luo_json_list(j, root, "annotations", 0, &n);
    luo_plan_annotation *v = LUO_NEW_N(j->arena, luo_plan_annotation, n);
    if (!v) luo_json_nomem(j);
    for (size_t i = 0; v && i < n; i++) {
        const luo_json_at at = luo_json_nth(&list, i);
        v[i] = (luo_plan_annotation){"", "", "", variants[0]};
        if (!luo_json_keys(j, &at, keys, COUNT(keys))) continue;
        v[i].tensor = ascii(j, &at, "tensor", "");
        v[i].annotation = ascii(j, &at, "annotation", "");
        v[i].at = ascii(j, &at, "at", "");
        v[i].variant = variants[luo_json_word(j, &at, "variant", variants, COUNT(variants), 0)];
    }
    p->annotations = v;
    p->nannotations = v ? (int32_t)n : 0;
}

static void read_assignment(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    static const luo_json_key keys[] = {
        {"sequence", true}, {"length_tokens", true}, {"pipeline", true}, {"micro_batch", true}};
    size_t n;
    const luo_json_at list = luo_json_list(j, root, "assignment", 0, &n);
    luo_assignment *v = LUO_NEW_N(j->arena, luo_assignment, n);
    if (!v) luo_json_nomem(j);
    for (size_t i = 0; v && i < n; i++) {
        const luo_json_at at = luo_json_nth(&list, i);
        if (!luo_json_keys(j, &at, keys, COUNT(keys))) continue;
        v[i].sequence = luo_json_int(j, &at, "sequence", 0, 1e12, 0);
        v[i].length_tokens = luo_json_int(j, &at, "length_tokens", 1, MOST(LUO_Q_TOKENS), 1);
        v[i].pipeline = (int32_t)luo_json_int(j, &at, "pipeline", 0, MOST(LUO_Q_DEVICES), 0);
        v[i].micro_batch = (int32_t)luo_json_int(j, &at, "micro_batch", 0, MICRO_BATCHES_MAX, 0);
    }
    p->assignment = v;
    p->nassignment = v ? (int32_t)n : 0;
}

static void read_groups(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    size_t n;
    const luo_json_at list = luo_json_list(j, root, "expert_groups", 0, &n);
    struct luo_expert_group *v = LUO_NEW_N(j->arena, struct luo_expert_group, n);
    if (!v) luo_json_nomem(j);
    for (size_t i = 0; v && i < n; i++) {
        const luo_json_at at = luo_json_nth(&list, i);
        if (json_is_array(at.v))
            v[i].pipeline = luo_json_ids(j, &at, 0, MOST(LUO_Q_DEVICES), &v[i].n);
        else
            luo_json_error(j, &at, false, "a list of pipeline ids is expected.");
    }
    p->expert_groups = v;
    p->ngroups = v ? (int32_t)n : 0;
}

static void read_state_layout(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    static const luo_json_key keys[] = {
        {"data", true}, {"tensor", true}, {"pipeline", true}, {"devices", true}};
    const luo_json_at at = luo_json_in(root, "state_layout");
    luo_state_layout *l = &p->state_layout;
    size_t n;
    if (!at.v || json_is_null(at.v) || !luo_json_keys(j, &at, keys, COUNT(keys))) return;
    l->data = (int32_t)luo_json_int(j, &at, "data", 1, MOST(LUO_Q_DEVICES), 1);
    l->tensor = (int32_t)luo_json_int(j, &at, "tensor", 1, MOST(LUO_Q_DEVICES), 1);
    l->pipeline = (int32_t)luo_json_int(j, &at, "pipeline", 1, MOST(LUO_Q_DEVICES), 1);
    const luo_json_at dev = luo_json_list(j, &at, "devices", 1, &n);
    if (dev.v) l->dev = luo_json_ids(j, &dev, 0, MOST(LUO_Q_DEVICES) - 1, &l->ndev);
}

static bool leads_somewhere(const luo_json *j, const char *pointer)
{
    int line, col;
    return (!*pointer || *pointer == '/') &&
           luo_json_where(j->src->text, j->src->len, pointer, false, &line, &col);
}

static void read_pinned(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    size_t n;
    const luo_json_at list = luo_json_list(j, root, "pinned", 0, &n);
    const char **v = LUO_NEW_N(j->arena, const char *, n);
    if (!v) luo_json_nomem(j);
    for (size_t i = 0; v && i < n; i++) {
        const luo_json_at at = luo_json_nth(&list, i);
        const char *text = json_string_value(at.v);
        if (!text || !leads_somewhere(j, text))
            luo_json_error(j, &at, false,
                           "`pinned` holds JSON pointers to parts of this file, "
                           "such as `/schedule`; this is none.");
        v[i] = luo_arena_strdup(j->arena, text ? text : "");
        if (!v[i]) {
            luo_json_nomem(j);
            break;
        }
    }
    p->pinned = v;
    p->npinned = v ? (int32_t)n : 0;
}

static void read_meta(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    const luo_json_at at = luo_json_in(root, "meta");
    if (!at.v) return;
    if (!json_is_object(at.v)) {
        luo_json_error(j, &at, false, "`meta` is no object; one of free keys is expected.");
        return;
    }
    char *text = json_dumps(at.v, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    p->meta_json = text ? luo_arena_strdup(j->arena, text) : NULL;
    if (!p->meta_json) luo_json_nomem(j);
    free(text);
}

/* ---- the whole ---- */

static void read_schedule(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    static const luo_json_key keys[] = {{"kind", true}, {"chunks", false}};
    static const char *const kinds[] = {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2"};
    static const char *const steps[] = {"together", "staggered"};
    const luo_json_at at = luo_json_in(root, "schedule");
    p->staggered = luo_json_word(j, root, "optimizer_step", steps, COUNT(steps), 0) == 1;
    p->schedule = LUO_SCHED_1F1B;
    p->chunks = 1;
    if (!at.v || !luo_json_keys(j, &at, keys, COUNT(keys))) return;
    p->schedule = (luo_sched_kind)luo_json_word(j, &at, "kind", kinds, COUNT(kinds), 1);
    p->chunks = (int32_t)luo_json_int(j, &at, "chunks", 1, MOST(LUO_Q_LAYERS), 1);
}

static void read_bucket(luo_json *j, const luo_json_at *root, luo_bucketing *b)
{
    static const luo_limit limit = LUO_WITHIN(0, LUO_BUCKET_MIB_MAX);
    const char *rules[LUO_BUCKET_RULES];
    for (int i = 1; i < LUO_BUCKET_RULES; i++)
        rules[i - 1] = luo_bucket_rule_name((luo_bucket_rule)i);
    const luo_json_at rule = luo_json_in(root, "bucket_rule");
    const luo_json_at mib = luo_json_in(root, "bucket_mib");
    if (rule.v)
        b->rule = (luo_bucket_rule)(1 + luo_json_word(j, root, "bucket_rule", rules,
                                                      LUO_BUCKET_RULES - 1, 0));
    b->lanes = (int32_t)luo_json_int(j, root, "dp_lanes", 1, LUO_BUCKET_LANES_MAX, 0);
    b->has_mib = mib.v != NULL;
    b->mib = luo_json_num(j, root, "bucket_mib", &limit, 0);
    if (b->has_mib && b->rule > LUO_BUCKET_MIB)
        luo_json_error(j, &mib, false, "`bucket_mib` belongs to rule `mib`; leave it out for `%s`.",
                       luo_bucket_rule_name(b->rule));
}

static bool refuses(luo_json *j, const luo_json_at *root, const char *key, const char *where)
{
    const luo_json_at at = luo_json_in(root, key);
    if (!at.v) return false;
    luo_json_error(j, &at, false, "`%s` belongs to %s; leave it out.", key, where);
    return true;
}

static void read_sharding(luo_json *j, const luo_json_at *root, int32_t zero, luo_sharding *s)
{
    static const char *const kinds[] = {"full", "hybrid", "grad-op"};
    _Static_assert(COUNT(kinds) == LUO_SHARDS, "a word for every kind");
    if (zero < 3) {
        (void)(refuses(j, root, "shard", "zero 3") ||
               refuses(j, root, "prefetch_depth", "zero 3") ||
               refuses(j, root, "shard_pipelines", "zero 3 with `shard` hybrid"));
        return;
    }
    s->kind = (luo_shard)luo_json_word(j, root, "shard", kinds, COUNT(kinds), LUO_SHARD_FULL);
    s->has_depth = luo_json_in(root, "prefetch_depth").v != NULL;
    s->depth = (int32_t)luo_json_int(j, root, "prefetch_depth", 0, LUO_PREFETCH_MAX,
                                     LUO_PREFETCH_DEFAULT);
    if (s->kind == LUO_SHARD_GRAD_OP && s->has_depth)
        (void)refuses(j, root, "prefetch_depth", "shards that are gathered layer by layer");
    if (s->kind != LUO_SHARD_HYBRID)
        (void)refuses(j, root, "shard_pipelines", "`shard` hybrid");
    else if (!luo_json_in(root, "shard_pipelines").v)
        luo_json_error(j, root, false, "`shard` hybrid needs `shard_pipelines`.");
    else
        s->pipelines =
            (int32_t)luo_json_int(j, root, "shard_pipelines", 1, MOST(LUO_Q_DEVICES), 1);
}

static void read_head(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    static const char *const dtypes[] = {"bf16", "f32", "f64"};
    p->name = luo_json_text(j, root, "name", "");
    p->model = luo_json_text(j, root, "model", "");
    p->cluster = luo_json_text(j, root, "cluster", "");
    p->layers = (int32_t)luo_json_int(j, root, "layers", 1, MOST(LUO_Q_LAYERS), 1);
    p->devices = (int32_t)luo_json_int(j, root, "devices", 1, MOST(LUO_Q_DEVICES), 1);
    p->dtype = (luo_dtype)luo_json_word(j, root, "dtype", dtypes, COUNT(dtypes), LUO_BF16);
    p->sequence_tokens = luo_json_int(j, root, "sequence_tokens", 1, MOST(LUO_Q_SEQUENCE), 1);
    p->micro_batch_sequences =
        (int32_t)luo_json_int(j, root, "micro_batch_sequences", 1, 1 << 24, 1);
    p->zero = (int32_t)luo_json_int(j, root, "zero", 0, 3, 0);
    read_sharding(j, root, p->zero, &p->sharding);
    p->sequence_parallel = luo_json_bool(j, root, "sequence_parallel", false);
    read_bucket(j, root, &p->bucket);
}

static void read_root(luo_json *j, const luo_json_at *root, luo_plan *p)
{
    static const luo_json_key keys[] = {
        {"schema", true},        {"name", false},
        {"model", false},        {"cluster", false},
        {"layers", true},        {"devices", true},
        {"dtype", false},        {"sequence_tokens", true},
        {"zero", false},         {"micro_batch_sequences", false},
        {"schedule", false},     {"sequence_parallel", false},
        {"pipelines", true},     {"annotations", false},
        {"assignment", false},   {"expert_groups", false},
        {"state_layout", false}, {"pinned", false},
        {"bucket_rule", false},  {"bucket_mib", false},
        {"shard", false},        {"shard_pipelines", false},
        {"prefetch_depth", false}, {"dp_lanes", false},
        {"optimizer_step", false}, {"meta", false},
    };
    if (!luo_json_schema(j, root, "plan")) return;
    luo_json_keys(j, root, keys, COUNT(keys));
    read_head(j, root, p);
    read_schedule(j, root, p);
    read_pipelines(j, root, p);
    read_annotations(j, root, p);
    read_assignment(j, root, p);
    read_groups(j, root, p);
    read_state_layout(j, root, p);
    read_pinned(j, root, p);
    read_meta(j, root, p);
}

luo_status luo_read_plan_text(luo_arena *arena, const luo_source *src, luo_plan **out,
                              luo_diags *diags)
{
    luo_json j = {.arena = arena, .src = src, .diags = diags};
    json_t *root = luo_json_load(&j);
    if (!root) return j.st;
    luo_plan *p = LUO_NEW(arena, luo_plan);
    const luo_json_at at = {.v = root};
    if (p)
        read_root(&j, &at, p);
    else
        luo_json_nomem(&j);
    json_decref(root);
    if (j.st == LUO_OK) *out = p;
    return j.st;
}

luo_status luo_read_plan(luo_arena *arena, const char *path, luo_plan **out, luo_source *src,
                         luo_diags *diags)
{
    luo_err err;
    luo_source text;
    if (luo_read_text(arena, path, &text, &err) != LUO_OK) return luo_diags_err(diags, &err);
    if (src) *src = text;
    return luo_read_plan_text(arena, &text, out, diags);
}

void luo_report_plan(const luo_source *src, const luo_plan_finding *findings, int32_t n,
                     luo_diags *diags)
{
    for (int32_t i = 0; i < n; i++) {
        int line = 0, col = 0;
        if (src && !luo_diags_full(diags, src->name))
            luo_json_where(src->text, src->len, findings[i].pointer, false, &line, &col);
        luo_diags_add(diags, LUO_ERROR, findings[i].st, src ? src->name : NULL, line, col, "%s",
                      findings[i].text);
    }
}

luo_status luo_report_err(const luo_source *src, const luo_err *err, luo_diags *diags)
{
    luo_err placed = *err;
    int line = 0, col = 0;
    if (err->pointer[0]) luo_json_where(src->text, src->len, err->pointer, false, &line, &col);
    luo_err_at(&placed, err->st, src->name, line, col);
    return luo_diags_err(diags, &placed);
}
