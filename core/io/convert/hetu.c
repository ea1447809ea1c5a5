/* hetu.c: ds_parallel_config of Hetu: pipelines that may differ, by the groups of devices that the
 * weights of each run of layers lie on (docs/formats.md#files-of-other-tools). */
#include <stdlib.h>
#include <string.h>

#include "core/io/convert/training.h"
#include "core/io/read/read.h"
#include "core/io/write_plan.h"

typedef struct hetu_block { /* layers lo <= l < hi, alike */
    luo_range layers;
    const luo_doc_node *node, *weight; /* of the queries, keys and values */
} hetu_block;

typedef struct hetu {
    convert_job *job;
    const luo_doc_node *root;
    hetu_block *block;
    int32_t nblocks, cap, npipelines;
    int64_t devices;
} hetu;

static luo_status wrong(hetu *h, const luo_doc_node *node, const char *what)
{
    return convert_error(h->job, node->line, node->col, "%s.", what);
}

/* The list of lists, or the one list of older files. */
static const luo_doc_node *groups_of(const luo_doc_node *entry)
{
    const luo_doc_node *groups = luo_doc_get(entry, "device_group_union");
    return groups ? groups : luo_doc_get(entry, "device_group");
}

static int32_t group_count(const luo_doc_node *groups)
{
    return groups->first && groups->first->type == LUO_DOC_LIST ? groups->n : 1;
}

static const luo_doc_node *group_at(const luo_doc_node *groups, int32_t i)
{
    return group_count(groups) == 1 && groups->first && groups->first->type != LUO_DOC_LIST
               ? groups
               : luo_doc_nth(groups, i);
}

/* Member i of a list of counts, or the count of older files. */
static luo_status count_at(hetu *h, const luo_doc_node *node, int32_t i, int64_t *out)
{
    const luo_doc_node *one = node->type == LUO_DOC_LIST ? luo_doc_nth(node, i) : node;
    if (one && luo_doc_int(one, out) && *out >= 1) return LUO_OK;
    return wrong(h, node, "a count of parts for each group of devices is expected");
}

/* The first weight that is cut by its output features: of queries, keys and values. */
static const luo_doc_node *find_weight(const luo_doc_node *map)
{
    for (const luo_doc_node *node = map->first; node; node = node->next) {
        if (node->type != LUO_DOC_MAP) continue;
        const char *type = luo_doc_text(node, "type");
        const bool norm = node->key && strstr(node->key, "norm");
        if (type && strcmp(type, "variable") == 0 && groups_of(node) && !norm) return node;
        const luo_doc_node *inner = norm ? NULL : find_weight(node);
        if (inner) return inner;
    }
    return NULL;
}

static luo_status read_range(hetu *h, const luo_doc_node *block, luo_range *out)
{
    const luo_doc_node *range = luo_doc_get(block, "range");
    int64_t lo = 0, hi;
    bool good = range && range->n >= 1 && luo_doc_int(luo_doc_nth(range, 0), &lo);
    hi = lo;
    if (good && range->n > 1) good = luo_doc_int(luo_doc_nth(range, range->n - 1), &hi);
    if (!good || lo < 0 || hi < lo || hi > 65535)
        return wrong(h, range ? range : block, "`range` names the first and last layer of a block");
    *out = (luo_range){(int32_t)lo, (int32_t)hi + 1};
    return LUO_OK;
}

static luo_status add_block(hetu *h, const luo_doc_node *node)
{
    hetu_block block = {.node = node, .weight = find_weight(node)};
    if (!block.weight) return wrong(h, node, "a block without a weight on a group of devices");
    LUO_TRY(read_range(h, node, &block.layers));
    if (h->nblocks == h->cap) {
        const int32_t cap = h->cap ? 2 * h->cap : 32;
        hetu_block *more = LUO_NEW_N(h->job->arena, hetu_block, cap);
        if (!more) return convert_nomem(h->job);
        if (h->nblocks) memcpy(more, h->block, (size_t)h->nblocks * sizeof *more);
        h->block = more;
        h->cap = cap;
    }
    int32_t at = h->nblocks++;
    for (; at > 0 && h->block[at - 1].layers.lo > block.layers.lo; at--)
        h->block[at] = h->block[at - 1];
    h->block[at] = block;
    return LUO_OK;
}

/* Maps with a range, wherever they stand. */
static luo_status find_blocks(hetu *h, const luo_doc_node *map)
{
    for (const luo_doc_node *node = map->first; node; node = node->next) {
        if (node->type != LUO_DOC_MAP) continue;
        LUO_TRY(luo_doc_get(node, "range") ? add_block(h, node) : find_blocks(h, node));
    }
    return LUO_OK;
}

static luo_status refuse_offload(hetu *h, const luo_doc_node *map)
{
    for (const luo_doc_node *node = map->first; node; node = node->next) {
        const bool said = node->key && strcmp(node->key, "cpu_offload") == 0;
        if (said && (luo_doc_is(node, "true") || luo_doc_is(node->first, "true")))
            return wrong(h, node, "`cpu_offload` is not supported: nothing is moved to the host");
        if (node->type == LUO_DOC_MAP) LUO_TRY(refuse_offload(h, node));
    }
    return LUO_OK;
}

/* ---- stages ---- */

/* Devices of a block in pipeline p: group p, or slice p of the one group. */
static luo_status stage_devices(hetu *h, const hetu_block *block, int32_t p, luo_stage *out)
{
    const luo_doc_node *groups = groups_of(block->weight);
    const luo_doc_node *split = luo_doc_get(block->weight, "split");
    const luo_doc_node *dup = luo_doc_get(block->weight, "dup");
    const bool one = group_count(groups) == 1;
    const luo_doc_node *group = group_at(groups, one ? 0 : p);
    const luo_doc_node *cut = luo_doc_get(split, "1");
    int64_t tp = 1, copies = 1;
    if (!cut) cut = luo_doc_get(split, "0");
    if (cut) LUO_TRY(count_at(h, cut, one ? 0 : p, &tp));
    if (dup) LUO_TRY(count_at(h, dup, one ? 0 : p, &copies));
    if (!group || group->type != LUO_DOC_LIST || group->n < 1)
        return wrong(h, groups, "a group of devices for each pipeline is expected");
    const int64_t parts = one ? group->n : (int64_t)group->n * group_count(groups);
    if (tp * copies != parts)
        return convert_error(h->job, block->weight->line, block->weight->col,
                             "%lld parts x %lld copies on %lld devices; the same number is "
                             "expected.",
                             (long long)tp, (long long)copies, (long long)parts);
    const int32_t ndev = (int32_t)(one ? tp : group->n);
    int32_t *dev = LUO_NEW_N(h->job->arena, int32_t, ndev);
    if (!dev) return convert_nomem(h->job);
    for (int32_t i = 0; i < ndev; i++) {
        const luo_doc_node *at = luo_doc_nth(group, one ? (int64_t)p * ndev + i : i);
        int64_t id = -1;
        if (!at || !luo_doc_int(at, &id) || id < 0 || id >= LUO_DEVICES_MAX)
            return wrong(h, at ? at : group, "a device is a whole number from 0");
        if (id >= h->devices) h->devices = id + 1;
        dev[i] = (int32_t)id;
    }
    out->dev = dev;
    out->ndev = ndev;
    return LUO_OK;
}

static bool same_devices(const luo_stage *a, const luo_stage *b)
{
    return a->ndev == b->ndev && memcmp(a->dev, b->dev, (size_t)a->ndev * sizeof *a->dev) == 0;
}

static bool recomputes(const hetu_block *block, int32_t p)
{
    const luo_doc_node *node = luo_doc_get(block->node, "recompute");
    if (node && node->type == LUO_DOC_LIST) node = luo_doc_nth(node, p < node->n ? p : 0);
    return luo_doc_is(node, "true");
}

/* Blocks that follow each other on the same devices are one stage. */
static luo_status make_stages(hetu *h, int32_t p, luo_pipeline *out)
{
    luo_stage *stages = LUO_NEW_N(h->job->arena, luo_stage, h->nblocks);
    luo_range *layers = LUO_NEW_N(h->job->arena, luo_range, h->nblocks);
    luo_range *again = LUO_NEW_N(h->job->arena, luo_range, h->nblocks);
    int32_t n = 0, nagain = 0;
    if (!stages || !layers || !again) return convert_nomem(h->job);
    for (int32_t b = 0; b < h->nblocks; b++) {
        const hetu_block *block = &h->block[b];
        luo_stage st = {.nlayers = 1, .context_parallel = 1};
        LUO_TRY(stage_devices(h, block, p, &st));
        if (n == 0 || !same_devices(&st, &stages[n - 1])) {
            layers[n] = block->layers;
            st.layers = &layers[n];
            st.embedding = n == 0;
            stages[n++] = st;
        } else {
            layers[n - 1].hi = block->layers.hi;
        }
        if (!recomputes(block, p)) continue;
        stages[n - 1].recompute = LUO_RECOMPUTE_FULL;
        if (!stages[n - 1].nrecompute) stages[n - 1].recompute_layers = &again[nagain];
        stages[n - 1].nrecompute++;
        again[nagain++] = block->layers;
    }
    stages[n - 1].head = true;
    out->nstages = n;
    out->stages = stages;
    return LUO_OK;
}

static luo_status read_micro_batches(hetu *h, luo_pipeline *pipelines)
{
    const char *at = h->job->opts->micro_batches;
    if (!at)
        return convert_usage(h->job,
                             "`--micro-batches` is missing: a plan of Hetu does not say them; %d "
                             "numbers such as 33,31 are expected.",
                             h->npipelines);
    for (int32_t p = 0; p < h->npipelines; p++) {
        char *end;
        const long n = strtol(at, &end, 10);
        const char stop = p + 1 < h->npipelines ? ',' : 0;
        if (end == at || *end != stop || n < 1 || n > 1 << 24)
            return convert_usage(h->job,
                                 "`--micro-batches` is `%.60s`; %d whole number%s from 1 with "
                                 "commas between %s expected.",
                                 h->job->opts->micro_batches, h->npipelines,
                                 h->npipelines > 1 ? "s" : "", h->npipelines > 1 ? "are" : "is");
        pipelines[p].micro_batches = (int32_t)n;
        pipelines[p].micro_batch_sequences = 1;
        at = end + 1;
    }
    return LUO_OK;
}

/* Members of the union, or replicas in the one group. */
static luo_status count_pipelines(hetu *h)
{
    const luo_doc_node *weight = h->block[0].weight, *groups = groups_of(weight);
    int64_t copies = 1;
    h->npipelines = group_count(groups);
    const luo_doc_node *dup = luo_doc_get(weight, "dup");
    if (h->npipelines == 1 && dup) LUO_TRY(count_at(h, dup, 0, &copies));
    if (copies > LUO_DEVICES_MAX) return wrong(h, dup, "there are too many copies");
    if (h->npipelines == 1) h->npipelines = (int32_t)copies;
    for (int32_t b = 1; b < h->nblocks; b++) {
        const int32_t n = group_count(groups_of(h->block[b].weight));
        if (n != group_count(groups))
            return wrong(h, groups_of(h->block[b].weight),
                         "every block needs as many groups of devices as the first");
        if (h->block[b].layers.lo != h->block[b - 1].layers.hi)
            return wrong(h, luo_doc_get(h->block[b].node, "range"),
                         "layers of the blocks follow each other without a gap");
    }
    return LUO_OK;
}

static luo_status write(hetu *h, const luo_model *model, const luo_pipeline *pipelines)
{
    luo_str text = {0};
    const luo_doc_node *zero = luo_doc_get(h->root, "zero");
    int64_t count = 0;
    const luo_doc_node *devices = luo_doc_get(h->root, "devices");
    for (const luo_doc_node *one = devices ? devices->first : NULL; one; one = one->next)
        if (luo_doc_int(one, &count) && count >= h->devices && count < LUO_DEVICES_MAX)
            h->devices = count + 1;
    const luo_plan plan = {.name = "hetu",
                           .model = model->name,
                           .cluster = "",
                           .layers = h->block[h->nblocks - 1].layers.hi,
                           .devices = (int32_t)h->devices,
                           .dtype = model->dtype,
                           .sequence_tokens = convert_sequence(h->job, model->max_sequence_tokens),
                           .micro_batch_sequences = 1,
                           .zero = luo_doc_is(zero, "true"),
                           .schedule = LUO_SCHED_1F1B,
                           .chunks = 1,
                           .npipelines = h->npipelines,
                           .pipelines = pipelines};
    luo_plan_json(&text, &plan);
    LUO_TRY(convert_add(h->job, "plan.json", &text));
    return convert_say(h->job, "%d layers on %lld devices: %d pipeline%s", plan.layers,
                       (long long)h->devices, h->npipelines, h->npipelines > 1 ? "s" : "");
}

luo_status convert_hetu(convert_job *job)
{
    luo_doc doc;
    luo_model *model;
    hetu h = {.job = job};
    LUO_TRY(convert_json(job, &doc));
    h.root = doc.root;
    if (!job->opts->model)
        return convert_usage(job, "`--model` is missing: a plan of Hetu does not say what network "
                                  "trains.");
    LUO_TRY(luo_read_model(job->arena, job->opts->model, &model, job->diags));
    LUO_TRY(refuse_offload(&h, doc.root));
    LUO_TRY(find_blocks(&h, doc.root));
    if (h.nblocks == 0)
        return convert_error(job, 0, 0, "there is no block with a `range` of layers in it.");
    LUO_TRY(count_pipelines(&h));
    luo_pipeline *pipelines = LUO_NEW_N(job->arena, luo_pipeline, h.npipelines);
    if (!pipelines) return convert_nomem(job);
    LUO_TRY(read_micro_batches(&h, pipelines));
    for (int32_t p = 0; p < h.npipelines; p++) LUO_TRY(make_stages(&h, p, &pipelines[p]));
    return write(&h, model, pipelines);
}
