/* All triples of a graph. */
#include "core/plan/hap/space.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/hap/compat.h"
#include "core/plan/hap/space_internal.h"

enum { WHOLE, SUM, MOVED, PIECES, COLLS = LUO_HAP_OPERANDS * LUO_HAP_WAY_COLLS + 2 };

/* ---- facts and extents ---- */

int32_t luo_hap_space_fact_id(const luo_hap_space *space, int32_t tensor, luo_rel rel)
{
    const int32_t base = space->base[tensor];
    if (rel.kind == LUO_REL_I) return base + (rel.seg ? SUM : WHOLE);
    if (rel.kind == LUO_REL_R) return base + SUM;
    return base + PIECES + rel.seg * space->graph->tensor[tensor].rank + rel.dim;
}

int32_t luo_hap_space_moved(const luo_hap_space *space, int32_t tensor)
{
    return space->base[tensor] + MOVED;
}

static int32_t tensor_of(const luo_hap_space *space, int32_t fact)
{
    int32_t lo = 0, hi = space->graph->ntensors;
    while (hi - lo > 1) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (space->base[mid] <= fact)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

luo_hap_fact luo_hap_space_fact(const luo_hap_space *space, int32_t fact)
{
    const int32_t tensor = tensor_of(space, fact), at = fact - space->base[tensor];
    const luo_hap_tensor *hap_tensor = &space->graph->tensor[tensor];
    luo_hap_fact out = {.tensor = tensor};
    if (at >= PIECES)
        out.rel = (luo_rel){.kind = LUO_REL_G,
                            .dim = (int8_t)((at - PIECES) % hap_tensor->rank),
                            .seg = (uint16_t)((at - PIECES) / hap_tensor->rank)};
    else if (at == SUM && hap_tensor->role == LUO_HAP_PARAM)
        out.rel = (luo_rel){.kind = LUO_REL_I, .seg = 1};
    else
        out.rel.kind = at == SUM ? LUO_REL_R : LUO_REL_I;
    return out;
}

static int rising(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static luo_status number_facts(luo_arena *arena, luo_hap_space *space, luo_err *err)
{
    const luo_hap_graph *graph = space->graph;
    int32_t ndims = 0;
    space->base = LUO_NEW_N(arena, int32_t, graph->ntensors + 1);
    if (!space->base) return luo_err_nomem(err);
    for (int32_t x = 0; x < graph->ntensors; x++) {
        space->base[x + 1] = space->base[x] + PIECES + graph->nsegments * graph->tensor[x].rank;
        ndims += graph->tensor[x].rank;
    }
    space->nfacts = space->base[graph->ntensors];
    space->extent = LUO_NEW_N(arena, int64_t, ndims + 1);
    if (!space->extent) return luo_err_nomem(err);
    for (int32_t x = 0; x < graph->ntensors; x++)
        for (int32_t d = 0; d < graph->tensor[x].rank; d++)
            space->extent[space->nextents++] = graph->tensor[x].dim[d];
    qsort(space->extent, (size_t)space->nextents, sizeof *space->extent, rising);
    ndims = space->nextents;
    space->nextents = 0;
    for (int32_t i = 0; i < ndims; i++)
        if (i == 0 || space->extent[i] != space->extent[i - 1])
            space->extent[space->nextents++] = space->extent[i];
    return LUO_OK;
}

int32_t luo_hap_space_extent(const luo_hap_space *space, int64_t extent)
{
    const int64_t *at =
        bsearch(&extent, space->extent, (size_t)space->nextents, sizeof extent, rising);
    return at ? (int32_t)(at - space->extent) : -1;
}

/* ---- triples ---- */

typedef struct draft { /* a triple while it is put together */
    luo_hap_triple triple;
    luo_hap_coll coll[COLLS];
    int32_t pre[LUO_HAP_OPERANDS], post[2 * LUO_HAP_OPERANDS + LUO_HAP_RESULTS],
        bar[LUO_HAP_OPERANDS];
} draft;

/* Into a rising list, once. */
static void insert(int32_t *list, int32_t *n, int32_t fact)
{
    int32_t at = *n;
    for (int32_t i = 0; i < *n; i++)
        if (list[i] == fact) return;
    for (; at > 0 && list[at - 1] > fact; at--) list[at] = list[at - 1];
    list[at] = fact;
    ++*n;
}

static void add_way(draft *d, const luo_hap_way *way, int32_t j)
{
    luo_hap_triple *triple = &d->triple;
    const int32_t before = triple->npost;
    triple->take[j] = way->take;
    if (way->pre >= 0) insert(d->pre, &triple->npre, way->pre);
    if (way->post >= 0) insert(d->post, &triple->npost, way->post);
    if (way->moved >= 0) {
        insert(d->bar, &triple->nbar, way->moved);
        insert(d->post, &triple->npost, way->moved);
    }
    /* an operand read twice is moved once */
    if (way->pre >= 0 && way->post >= 0 && triple->npost == before) return;
    for (int32_t i = 0; i < way->ncoll; i++) d->coll[triple->ncoll++] = way->coll[i];
}

static void set_work(const luo_hap_space *space, const luo_hap_op *op, const luo_hap_rule *rule,
                     luo_hap_triple *triple)
{
    double work = space->opts.compat ? 3 * op->compat : luo_hap_graph_work(op), full = 0;
    for (int32_t j = 0; j < op->nin; j++)
        if (triple->take[j].how == LUO_HAP_HOW_FACTORS)
            full = op->backward[j] + (op->bias >= 0 ? op->backward[op->bias] : 0);
    triple->ext = rule->letter ? luo_hap_space_extent(space, op->size[(int)rule->letter]) : -1;
    triple->w_full = rule->letter ? full : work;
    triple->w_split = rule->letter ? work - full : 0;
}

/* Logits cut by classes: the largest and the sum of exponentials of every row go round. */
static void add_loss_rows(const luo_hap_space *space, const luo_hap_op *op,
                          const luo_hap_rule *rule, draft *d)
{
    const int32_t last = (int32_t)strlen(op->in_is[0]) - 1;
    if (op->kind != LUO_HAP_LOSS || rule->letter != op->in_is[0][last]) return;
    const double rows = (double)space->graph->tensor[op->in[1]].elements;
    for (int i = 0; i < 2; i++)
        d->coll[d->triple.ncoll++] =
            (luo_hap_coll){.kind = LUO_HAP_MOVE_AR, .ext = -1, .ext2 = -1, .bytes = 4 * rows};
}

static int32_t *copy_of(luo_arena *arena, const int32_t *list, int32_t n)
{
    int32_t *out = LUO_NEW_N(arena, int32_t, n);
    if (out && n) memcpy(out, list, (size_t)n * sizeof *list);
    return out;
}

static bool same_facts(const luo_hap_triple *a, const luo_hap_triple *b)
{
    return a->npre == b->npre && a->npost == b->npost && a->nbar == b->nbar &&
           memcmp(a->pre, b->pre, (size_t)a->npre * sizeof *a->pre) == 0 &&
           memcmp(a->post, b->post, (size_t)a->npost * sizeof *a->post) == 0 &&
           memcmp(a->bar, b->bar, (size_t)a->nbar * sizeof *a->bar) == 0;
}

static luo_status finish(luo_hap_maker *maker, const draft *d, luo_err *err)
{
    luo_hap_space *space = maker->space;
    luo_hap_triple triple = d->triple;
    triple.pre = copy_of(maker->arena, d->pre, triple.npre);
    triple.post = copy_of(maker->arena, d->post, triple.npost);
    triple.bar = copy_of(maker->arena, d->bar, triple.nbar);
    triple.coll = LUO_NEW_N(maker->arena, luo_hap_coll, triple.ncoll);
    if (!triple.pre || !triple.post || !triple.bar || !triple.coll ||
        !LUO_VEC_ROOM_IN(maker->arena, space->triple, space->ntriples, space->cap_triples))
        return luo_err_nomem(err);
    memcpy(triple.coll, d->coll, (size_t)triple.ncoll * sizeof *triple.coll);
    triple.group = space->ntriples;
    for (int32_t i = space->first[triple.op]; i < space->ntriples; i++)
        if (same_facts(&space->triple[i], &triple)) {
            triple.group = i;
            break;
        }
    space->triple[space->ntriples++] = triple;
    return LUO_OK;
}

/* Weight by factors and bias: both or neither. */
static bool fits(const luo_hap_op *op, const luo_hap_maker *maker, const int32_t *chosen)
{
    if (op->weight < 0 || op->bias < 0) return true;
    const luo_hap_way *weight = &maker->ways[op->weight].at[chosen[op->weight]];
    const luo_hap_way *bias = &maker->ways[op->bias].at[chosen[op->bias]];
    const bool factors = weight->take.how == LUO_HAP_HOW_FACTORS;
    return bias->with_factors == factors;
}

static luo_status add_triple(luo_hap_maker *maker, int32_t o, int32_t r, const int32_t *chosen,
                             luo_err *err)
{
    const luo_hap_space *space = maker->space;
    const luo_hap_op *op = &space->graph->op[o];
    const luo_hap_rule *rule = &space->rule[o][r];
    draft d = {.triple = {.op = o, .rule = r}};
    for (int32_t j = 0; j < op->nin; j++) add_way(&d, &maker->ways[j].at[chosen[j]], j);
    for (int32_t k = 0; k < op->nout; k++) {
        luo_rel rel = rule->out[k];
        if (rel.kind == LUO_REL_G) rel.seg = (uint16_t)op->segment;
        insert(d.post, &d.triple.npost, luo_hap_space_fact_id(space, op->out[k], rel));
    }
    add_loss_rows(space, op, rule, &d);
    set_work(space, op, rule, &d.triple);
    return finish(maker, &d, err);
}

/* The next choice of a way per operand; the last operand moves fastest. */
static bool advance(const luo_hap_maker *maker, int32_t nin, int32_t *chosen)
{
    for (int32_t j = nin; j-- > 0;) {
        if (++chosen[j] < maker->ways[j].n) return true;
        chosen[j] = 0;
    }
    return false;
}

static luo_status add_rule(luo_hap_maker *maker, int32_t o, int32_t r, luo_err *err)
{
    const luo_hap_op *op = &maker->space->graph->op[o];
    int32_t chosen[LUO_HAP_OPERANDS] = {0};
    for (int32_t j = 0; j < op->nin; j++) {
        LUO_TRY(luo_hap_ways_find(maker, o, &maker->space->rule[o][r], j, err));
        if (maker->ways[j].n == 0) return LUO_OK;
    }
    do
        if (fits(op, maker, chosen)) LUO_TRY(add_triple(maker, o, r, chosen, err));
    while (advance(maker, op->nin, chosen));
    return LUO_OK;
}

/* ---- which rules ---- */

static bool has_letter(const luo_hap_space *space, int32_t o, const char *letters)
{
    for (int32_t r = 0; r < space->nrules[o]; r++) {
        const char letter = space->rule[o][r].letter;
        if (letter && strchr(letters, letter)) return true;
    }
    return false;
}

static bool says(const luo_hap_space *space, int32_t x, luo_rel rel)
{
    return rel.kind != LUO_REL_G || space->graph->tensor[x].plan_dim[rel.dim] >= 0;
}

static bool can_say(const luo_hap_space *space, int32_t o, const luo_hap_rule *rule)
{
    const luo_hap_op *op = &space->graph->op[o];
    bool good = true;
    for (int32_t j = 0; j < op->nin; j++) good &= says(space, op->in[j], rule->in[j]);
    for (int32_t k = 0; k < op->nout; k++) good &= says(space, op->out[k], rule->out[k]);
    return good;
}

static bool allowed(const luo_hap_space *space, int32_t o, const luo_hap_rule *rule)
{
    const luo_hap_opts *opts = &space->opts;
    char own[2] = {opts->op_letter ? opts->op_letter[o] : 0, 0};
    const char *letters = own[0] ? own : opts->rules;
    if (opts->compat && !luo_hap_compat_rule(&space->graph->op[o], rule, opts->compat_sums))
        return false;
    if (opts->sayable && !can_say(space, o, rule)) return false;
    /* sums of rows are completed behind it alone */
    const bool sums = space->graph->op[o].kind == LUO_HAP_UNPACK && rule->lin;
    if (!letters || sums) return true;
    if (has_letter(space, o, letters)) return rule->letter && strchr(letters, rule->letter);
    return !rule->letter && !rule->lin;
}

static luo_status add_op(luo_hap_maker *maker, int32_t o, luo_err *err)
{
    luo_hap_space *space = maker->space;
    space->first[o] = space->ntriples;
    LUO_TRY(
        luo_hap_rules(maker->arena, &space->graph->op[o], &space->rule[o], &space->nrules[o], err));
    for (int32_t r = 0; r < space->nrules[o]; r++)
        if (allowed(space, o, &space->rule[o][r])) LUO_TRY(add_rule(maker, o, r, err));
    if (space->ntriples == space->first[o])
        return luo_err_set(err, LUO_ENORULE,
                           "no legal program: op `%s` has no rule whose inputs can be made; see "
                           "--rules.",
                           space->graph->op[o].name);
    for (int32_t i = space->first[o]; i < space->ntriples; i++)
        for (int32_t p = 0; p < space->triple[i].npost; p++)
            maker->reached[space->triple[i].post[p]] = true;
    return LUO_OK;
}

static luo_status prepare(luo_hap_maker *maker, luo_err *err)
{
    luo_hap_space *space = maker->space;
    const luo_hap_graph *graph = space->graph;
    LUO_TRY(number_facts(maker->arena, space, err));
    maker->reached = LUO_NEW_N(maker->arena, bool, space->nfacts);
    space->rule = LUO_NEW_N(maker->arena, luo_hap_rule *, graph->nops);
    space->nrules = LUO_NEW_N(maker->arena, int32_t, graph->nops);
    space->first = LUO_NEW_N(maker->arena, int32_t, graph->nops + 1);
    if (!maker->reached || !space->rule || !space->nrules || !space->first)
        return luo_err_nomem(err);
    return LUO_OK;
}

luo_status luo_hap_space_new(luo_arena *arena, const luo_hap_graph *graph, const luo_hap_opts *opts,
                             luo_hap_space **out, luo_err *err)
{
    luo_hap_space *space = LUO_NEW(arena, luo_hap_space);
    luo_hap_maker maker = {.arena = arena, .space = space};
    if (!space) return luo_err_nomem(err);
    LUO_TRY(luo_hap_graph_check(graph, err));
    space->graph = graph;
    space->opts = *opts;
    LUO_TRY(prepare(&maker, err));
    for (int32_t o = 0; o < graph->nops; o++) LUO_TRY(add_op(&maker, o, err));
    space->first[graph->nops] = space->ntriples;
    LUO_TRY(luo_hap_space_bits(arena, space, err));
    *out = space;
    return LUO_OK;
}
