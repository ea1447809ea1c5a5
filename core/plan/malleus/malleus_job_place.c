/* From groups on paper to devices (docs/planners.md#placement): groups of a class change places so
 * that they keep the layers they hold, and the devices of a group stand where their slice is. */
#include <stdlib.h>
#include <string.h>

#include "core/plan/malleus/malleus_job_internal.h"
#include "core/plan/migrate_place.h"

/* Slices are compared in 4096ths of a layer: exact for powers of two up to 64. */
enum { WHOLE = 4096 };

typedef struct holding { /* what a device holds now; stage NULL: nothing */
    const luo_stage *stage;
    int32_t pos, tp; /* slice pos of tp */
} holding;

typedef struct slot { /* a stage of the new plan, in order of pipeline and stage */
    const luo_malleus_stage *stage;
    int32_t index; /* in its pipeline */
    const luo_malleus_group *group;  /* as planned; then as placed */
} slot;

typedef struct placing {
    luo_arena *arena;
    const luo_cluster *cluster;
    holding *held; /* per device */
    slot *slots;
    int32_t nslots;
    int32_t *class_slots;            /* of the class at hand, indices */
    luo_malleus_group **class_groups; /* .. by first device */
    const int32_t *lead_node; /* per stage index: node of pipeline 0's group; NULL: no wishes */
} placing;

static void note_held(placing *p, const luo_plan *now)
{
    for (int32_t i = 0; i < now->npipelines; i++)
        for (int32_t s = 0; s < now->pipelines[i].nstages; s++) {
            const luo_stage *st = &now->pipelines[i].stages[s];
            const int32_t tp = luo_stage_tp(st);
            for (int32_t k = 0; k < st->ndev; k++)
                p->held[st->dev[k]] = (holding){st, k % tp, tp};
        }
}

/* ---- slices ---- */

static int64_t common(int64_t lo, int64_t hi, int64_t from, int64_t to)
{
    const int64_t a = lo > from ? lo : from, b = hi < to ? hi : to;
    return b > a ? b - a : 0;
}

/* What slice i of n has in common with the slice that a device holds now. */
static int64_t slice(const holding *h, int64_t i, int64_t n)
{
    if (!h->stage) return 0;
    return common(i * h->tp, (i + 1) * h->tp, h->pos * n, (h->pos + 1) * n) * WHOLE / (n * h->tp);
}

/* ---- devices inside a group ---- */

typedef struct inside {
    const placing *p;
    const luo_malleus_group *g;
} inside;

static int64_t stays(const void *ctx, int32_t i, int32_t d)
{
    const inside *x = ctx;
    return slice(&x->p->held[x->g->devices[d]], i, x->g->size);
}

/* Each device at its old slice as far as that goes: an unchanged group keeps its order. */
static luo_malleus_group *ordered(placing *p, const luo_malleus_group *group, luo_err *err)
{
    luo_malleus_group *out = LUO_NEW(p->arena, luo_malleus_group);
    int32_t *dev = LUO_NEW_N(p->arena, int32_t, group->size);
    int32_t *from = LUO_NEW_N(p->arena, int32_t, group->size);
    const inside x = {p, group};
    const luo_place_in in = {group->size, stays, NULL, &x};
    if (!out || !dev || !from) return NULL;
    if (luo_place_overlap(p->arena, &in, from, NULL, err) != LUO_OK) return NULL;
    for (int32_t i = 0; i < group->size; i++) dev[i] = group->devices[from[i]];
    *out = *group;
    out->devices = dev;
    return out;
}

/* ---- weights ---- */

/* Layers that stay times the part of them that stays, over the devices of the group. */
static int64_t weight(const void *ctx, int32_t s, int32_t g)
{
    const placing *p = ctx;
    const luo_malleus_stage *st = p->slots[p->class_slots[s]].stage;
    const luo_malleus_group *group = p->class_groups[g];
    const int64_t n = group->size;
    const luo_stage *last = NULL; /* devices of a group mostly come from one stage */
    int64_t sum = 0, layers = 0;
    for (int32_t i = 0; i < group->size; i++) {
        const holding *h = &p->held[group->devices[i]];
        if (h->stage != last) layers = 0;
        for (int32_t r = 0; h->stage && h->stage != last && r < h->stage->nlayers; r++)
            layers += common(st->lo, st->hi, h->stage->layers[r].lo, h->stage->layers[r].hi);
        last = h->stage;
        if (layers > 0) sum += layers * slice(h, i, n);
    }
    return sum;
}

/* Less gradient traffic crosses nodes when a stage stands beside pipeline 0's (11). */
static bool near(const void *ctx, int32_t s, int32_t g)
{
    const placing *p = ctx;
    const luo_malleus_group *group = p->class_groups[g];
    return group->node == p->lead_node[p->slots[p->class_slots[s]].index];
}

/* ---- classes ---- */

static bool alike(const luo_malleus_group *a, const luo_malleus_group *b)
{
    return a->y == b->y && a->size == b->size && a->kind == b->kind;
}

static int by_first(const void *a, const void *b)
{
    const luo_malleus_group *const *x = a, *const *y = b;
    return ((*x)->devices[0] > (*y)->devices[0]) - ((*x)->devices[0] < (*y)->devices[0]);
}

/* By first device as planned: ascending device numbers decide ties. */
static luo_status place_class(placing *p, int32_t first, bool *done, luo_err *err)
{
    const luo_malleus_group *like = p->slots[first].stage->group;
    int32_t n = 0;
    for (int32_t s = first; s < p->nslots; s++) {
        if (done[s] || !alike(p->slots[s].stage->group, like)) continue;
        done[s] = true;
        p->class_slots[n] = s;
        p->class_groups[n++] = (luo_malleus_group *)p->slots[s].stage->group;
    }
    qsort(p->class_groups, (size_t)n, sizeof *p->class_groups, by_first);
    for (int32_t i = 0; i < n; i++)
        if (!(p->class_groups[i] = ordered(p, p->class_groups[i], err))) return luo_err_nomem(err);
    int32_t *to = LUO_NEW_N(p->arena, int32_t, n);
    if (!to) return luo_err_nomem(err);
    const luo_place_in in = {n, weight, p->lead_node ? near : NULL, p};
    LUO_TRY(luo_place_overlap(p->arena, &in, to, NULL, err));
    for (int32_t i = 0; i < n; i++) p->slots[p->class_slots[i]].group = p->class_groups[to[i]];
    return LUO_OK;
}

static luo_status place_all(placing *p, luo_err *err)
{
    bool *done = LUO_NEW_N(p->arena, bool, p->nslots);
    if (!done) return luo_err_nomem(err);
    for (int32_t s = 0; s < p->nslots; s++)
        if (!done[s]) LUO_TRY(place_class(p, s, done, err));
    return LUO_OK;
}

/* ---- all of it ---- */

static luo_status open_slots(placing *p, const luo_malleus_plan *from, luo_err *err)
{
    for (int32_t i = 0; i < from->npipes; i++) p->nslots += from->pipes[i].nstages;
    p->slots = LUO_NEW_N(p->arena, slot, p->nslots);
    p->held = LUO_NEW_N(p->arena, holding, p->cluster->ndevices);
    p->class_slots = LUO_NEW_N(p->arena, int32_t, p->nslots);
    p->class_groups = LUO_NEW_N(p->arena, luo_malleus_group *, p->nslots);
    if (!p->slots || !p->held || !p->class_slots || !p->class_groups) return luo_err_nomem(err);
    int32_t n = 0;
    for (int32_t i = 0; i < from->npipes; i++)
        for (int32_t s = 0; s < from->pipes[i].nstages; s++)
            p->slots[n++] = (slot){&from->pipes[i].stages[s], s, NULL};
    return LUO_OK;
}

/* Void where a group fills its node: then no two of them share one. */
static bool nodes_matter(const placing *p)
{
    for (int32_t s = 0; s < p->nslots; s++) {
        const luo_malleus_group *group = p->slots[s].group;
        const luo_node_group *at = &p->cluster->groups[p->cluster->nodes[group->node].group];
        if (group->size < at->devices_per_node) return true;
    }
    return false;
}

/* Nodes of pipeline 0 are known after a first round without wishes; a second one follows them. */
static luo_status second_round(placing *p, const luo_malleus_plan *from, luo_err *err)
{
    int32_t most = 0;
    if (!nodes_matter(p)) return LUO_OK;
    for (int32_t i = 0; i < from->npipes; i++)
        if (from->pipes[i].nstages > most) most = from->pipes[i].nstages;
    int32_t *lead = LUO_NEW_N(p->arena, int32_t, most);
    if (!lead) return luo_err_nomem(err);
    for (int32_t s = 0; s < most; s++)
        lead[s] = s < from->pipes[0].nstages ? p->slots[s].group->node : -1;
    p->lead_node = lead;
    return place_all(p, err);
}

luo_status luo_malleus_place(luo_arena *arena, const luo_kinds *kinds, const luo_malleus_plan *from,
                             const luo_plan *prev, luo_malleus_plan *out, luo_err *err)
{
    placing p = {.arena = arena, .cluster = kinds->job->cluster};
    LUO_TRY(open_slots(&p, from, err));
    note_held(&p, prev);
    LUO_TRY(place_all(&p, err));
    LUO_TRY(second_round(&p, from, err));
    luo_malleus_pipe *pipes = LUO_NEW_N(arena, luo_malleus_pipe, from->npipes);
    luo_malleus_stage *stages = LUO_NEW_N(arena, luo_malleus_stage, p.nslots);
    if (!pipes || !stages) return luo_err_nomem(err);
    for (int32_t n = 0; n < p.nslots; n++) {
        stages[n] = *p.slots[n].stage;
        stages[n].group = p.slots[n].group;
    }
    int32_t n = 0;
    for (int32_t i = 0; i < from->npipes; i++) {
        pipes[i] = from->pipes[i];
        pipes[i].stages = &stages[n];
        n += pipes[i].nstages;
    }
    *out = *from;
    out->pipes = pipes;
    return LUO_OK;
}
