/* spec_tables.c: local sizes, once per distinct (annotation, shape). */
#include <stdlib.h>
#include <string.h>

#include "core/graph/specialize/spec_internal.h"

typedef struct entry {
    int32_t dev, dims;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const int32_t x = ((const entry *)a)->dev, y = ((const entry *)b)->dev;
    return (x > y) - (x < y);
}

/* Room for element n of an array of `bytes`; the new pointer, NULL: out of memory. */
static void *room(spec *s, void *at, int32_t n, int32_t *cap, size_t bytes)
{
    if (n < *cap) return at;
    const size_t old = (size_t)*cap, want = old ? 2 * old : 256;
    void *p = luo_arena_grow(s->arena, at, old * bytes, want * bytes);
    if (p) *cap = (int32_t)want;
    return p;
}

static luo_status dims_id(spec *s, const luo_region *region, int32_t *id)
{
    spec_dims dims = {.volume = 1};
    int32_t key[2 * LUO_RANK_MAX];
    for (int32_t i = 0; i < region->rank; i++) {
        for (int32_t k = 0; k < region->dim[i].n; k++)
            dims.dim[i] += region->dim[i].at[k].hi - region->dim[i].at[k].lo;
        dims.volume *= dims.dim[i];
        key[2 * i] = (int32_t)(uint32_t)dims.dim[i];
        key[2 * i + 1] = (int32_t)(dims.dim[i] >> 32);
    }
    bool fresh;
    *id = luo_intern_id(&s->dims_key, key, 2 * region->rank, &fresh);
    if (*id < 0) return luo_err_nomem(s->err);
    if (!fresh) return LUO_OK;
    spec_dims *at = room(s, s->dims, *id, &s->cap_dims, sizeof *at);
    if (!at) return luo_err_nomem(s->err);
    s->dims = at;
    at[*id] = dims;
    return LUO_OK;
}

static luo_status fill_table(spec *s, int32_t ann, const luo_shape *shape, spec_table *table)
{
    luo_holdings holdings;
    LUO_TRY(
        luo_holdings_make(s->scratch, luo_annset_get(s->g->set, ann), shape, &holdings, s->err));
    entry *e = LUO_NEW_N(s->scratch, entry, holdings.n);
    int32_t *dev = LUO_NEW_N(s->arena, int32_t, holdings.n),
            *dims = LUO_NEW_N(s->arena, int32_t, holdings.n);
    if (!e || !dev || !dims) return luo_err_nomem(s->err);
    bool sorted = true;
    for (int32_t i = 0; i < holdings.n; i++) {
        e[i].dev = holdings.at[i].dev;
        LUO_TRY(dims_id(s, &holdings.at[i].region, &e[i].dims));
        sorted &= i == 0 || e[i].dev > e[i - 1].dev;
    }
    if (!sorted) qsort(e, (size_t)holdings.n, sizeof *e, compare_entries);
    for (int32_t i = 0; i < holdings.n; i++) dev[i] = e[i].dev, dims[i] = e[i].dims;
    *table = (spec_table){holdings.n, dev, dims};
    return LUO_OK;
}

static luo_status table_id(spec *s, int32_t ann, const luo_shape *shape, int32_t *id)
{
    int32_t key[2 + 2 * LUO_RANK_MAX] = {ann, shape->rank};
    for (int32_t d = 0; d < shape->rank; d++) {
        key[2 + 2 * d] = (int32_t)(uint32_t)shape->dim[d];
        key[3 + 2 * d] = (int32_t)(shape->dim[d] >> 32);
    }
    bool fresh;
    *id = luo_intern_id(&s->table_key, key, 2 + 2 * shape->rank, &fresh);
    if (*id < 0) return luo_err_nomem(s->err);
    if (!fresh) return LUO_OK;
    spec_table *at = room(s, s->table, *id, &s->cap_table, sizeof *at);
    if (!at) return luo_err_nomem(s->err);
    s->table = at;
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_status st = fill_table(s, ann, shape, &s->table[*id]);
    luo_arena_reset(s->scratch, mark);
    return st;
}

/* Annotation `ann` for the pipelines that have micro-batches of length k only. */
static luo_status cut_to_length(spec *s, int32_t *memo, int32_t k, int32_t *ann)
{
    const int32_t P = s->in->npipelines;
    int32_t *slot = &memo[(int64_t)*ann * s->in->nlengths + k];
    if (*slot == 0) {
        int32_t cut;
        LUO_TRY(luo_annset_members(s->g->set, *ann, &s->has_length[k * P], P, &cut, s->err));
        if (s->in->lengths[k].stands)
            LUO_TRY(luo_annset_stand_in(s->g->set, cut, s->in->first_absent,
                                        s->in->lengths[k].stands, &cut, s->err));
        *slot = cut + 1;
    }
    *ann = *slot - 1;
    return LUO_OK;
}

/* What lasts lies on the devices that are there. */
static luo_status cut_to_present(spec *s, int32_t *memo, int32_t *ann)
{
    int32_t *slot = &memo[*ann];
    if (*slot == 0) {
        int32_t cut;
        LUO_TRY(luo_annset_present(s->g->set, *ann, s->in->first_absent, &cut, s->err));
        *slot = cut + 1;
    }
    *ann = *slot - 1;
    return LUO_OK;
}

/* A tensor of one micro-batch is looked at for the pipelines that have micro-batches of that
 * length, each with its tokens; everything else for all of them. */
static luo_status tensor_tables(spec *s, int32_t x, int32_t *memo, int32_t *present)
{
    const int32_t n = s->in->nlengths, P = s->in->npipelines;
    const luo_tensor *tensor = &s->g->tensor[x];
    const bool cut = luo_tensor_is_task(tensor);
    for (int32_t k = 0; k < n; k++) {
        const int64_t at = (int64_t)x * n + k;
        int32_t kept = 0, ann = tensor->ann;
        for (int32_t p = 0; p < P; p++) kept += s->has_length[k * P + p];
        if (cut && kept < P && s->g->joins)
            return luo_err_set(s->err, LUO_EINPUT,
                               "experts over several pipelines need micro-batches of one length in "
                               "all pipelines; give equal ones.");
        if (cut && kept < P) LUO_TRY(cut_to_length(s, memo, k, &ann));
        if (!cut && s->in->nabsent) LUO_TRY(cut_to_present(s, present, &ann));
        s->cut_ann[at] = ann;
        const luo_shape shape = luo_graph_shape(s->g, x, s->in->lengths[k].tokens, kept);
        LUO_TRY(luo_ann_bind(luo_annset_get(s->g->set, ann), &shape, LUO_BIND_ROUND, tensor->name,
                             s->err));
        LUO_TRY(table_id(s, ann, &shape, &s->table_of[at]));
    }
    return LUO_OK;
}

void luo_spec_frame(const spec *s, int32_t tensor, int32_t length, const luo_ann **ann,
                    luo_shape *shape)
{
    const int32_t P = s->in->npipelines;
    int32_t kept = 0;
    for (int32_t p = 0; p < P; p++) kept += s->has_length[length * P + p];
    *ann = luo_annset_get(s->g->set, s->cut_ann[(int64_t)tensor * s->in->nlengths + length]);
    *shape = luo_graph_shape(s->g, tensor, s->in->lengths[length].tokens, kept);
}

static void mark_lengths(spec *s)
{
    const int32_t P = s->in->npipelines;
    for (int32_t p = 0; p < P; p++)
        for (int32_t i = 0; i < s->in->pipes[p].micro_batches; i++)
            s->has_length[s->in->pipes[p].length[i] * P + p] = true;
}

luo_status luo_spec_make_tables(spec *s)
{
    const int64_t n = (int64_t)s->g->ntensors * s->in->nlengths;
    luo_intern_init(&s->dims_key, s->arena);
    luo_intern_init(&s->table_key, s->arena);
    s->table_of = LUO_NEW_N(s->arena, int32_t, n);
    s->cut_ann = LUO_NEW_N(s->arena, int32_t, n);
    s->has_length = LUO_NEW_N(s->arena, bool, (int64_t)s->in->nlengths * s->in->npipelines);
    if (!s->table_of || !s->cut_ann || !s->has_length) return luo_err_nomem(s->err);
    mark_lengths(s);
    const int64_t pairs = (int64_t)luo_annset_count(s->g->set) * s->in->nlengths;
    int32_t *memo = LUO_NEW_N(s->arena, int32_t, pairs);
    int32_t *present = LUO_NEW_N(s->arena, int32_t, luo_annset_count(s->g->set));
    if (!memo || !present) return luo_err_nomem(s->err);
    for (int32_t x = 0; x < s->g->ntensors; x++) LUO_TRY(tensor_tables(s, x, memo, present));
    return LUO_OK;
}

const spec_dims *luo_spec_find(const spec *s, const spec_table *table, int32_t dev)
{
    int32_t lo = 0, hi = table->n;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (table->dev[mid] < dev)
            lo = mid + 1;
        else hi = mid;
    }
    return lo < table->n && table->dev[lo] == dev ? &s->dims[table->dims[lo]] : NULL;
}
