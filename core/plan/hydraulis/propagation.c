/* Moves of a resolution, as bytes per device, per pair and per group, and their seconds. */
#include "core/plan/hydraulis/propagation.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/intern.h"
#include "core/plan/compile.h"

/* ---- moves ---- */

typedef struct message {
    int32_t from, to;
    double bytes;
} message;

typedef struct call { /* collectives of one kind in one group */
    luo_coll coll;
    double bytes; /* of the full tensors */
} call;

typedef struct traffic {      /* what happens at the same time */
    luo_arena *arena, *moves; /* what is kept; a resolution, until the next */
    const luo_cluster *cluster;
    double *arrives; /* by device id */
    message *messages;
    int64_t nmessages, cap_messages;
    luo_intern groups; /* kind, devices -> call */
    call *calls;
    int32_t cap_calls;
    luo_err *err;
} traffic;

static luo_status open_traffic(traffic *t, luo_arena *arena, luo_arena *moves,
                               const luo_cluster *cluster, int32_t devices, luo_err *err)
{
    *t = (traffic){.arena = arena, .moves = moves, .cluster = cluster, .err = err};
    t->arrives = LUO_NEW_N(arena, double, devices);
    if (!t->arrives) return luo_err_nomem(err);
    luo_intern_init(&t->groups, arena);
    return LUO_OK;
}

static luo_status add_message(traffic *t, const luo_move *move, double scale)
{
    const double bytes = scale * (double)luo_region_volume(&move->region[0]);
    if (!LUO_VEC_ROOM_IN(t->arena, t->messages, t->nmessages, t->cap_messages))
        return luo_err_nomem(t->err);
    t->messages[t->nmessages++] = (message){move->dev[0], move->dev[1], bytes};
    t->arrives[move->dev[1]] += bytes;
    return LUO_OK;
}

static luo_status add_call(traffic *t, luo_coll coll, const luo_move *move, double scale)
{
    double bytes = 0;
    bool fresh;
    int32_t *key = LUO_NEW_N(t->arena, int32_t, move->ndev + 1);
    if (!key) return luo_err_nomem(t->err);
    key[0] = (int32_t)coll;
    memcpy(key + 1, move->dev, (size_t)move->ndev * sizeof *key);
    const int32_t id = luo_intern_id(&t->groups, key, move->ndev + 1, &fresh);
    if (id < 0 || !LUO_VEC_ROOM_IN(t->arena, t->calls, id, t->cap_calls))
        return luo_err_nomem(t->err);
    if (fresh) t->calls[id] = (call){coll, 0};
    for (int32_t i = 0; i < move->nregion; i++)
        bytes += scale * (double)luo_region_volume(&move->region[i]);
    t->calls[id].bytes += bytes;
    for (int32_t i = 0; i < move->ndev; i++) {
        const int32_t part = move->nregion > 1 ? i : 0;
        const double own = scale * (double)luo_region_volume(&move->region[part]);
        t->arrives[move->dev[i]] +=
            coll == LUO_COLL_AR ? 2 * bytes * (move->ndev - 1) / move->ndev : bytes - own;
    }
    return LUO_OK;
}

static luo_status add_moves(traffic *t, const luo_moves *moves, double scale)
{
    for (int32_t i = 0; i < moves->n; i++) {
        const luo_move *move = &moves->at[i];
        switch (move->kind) {
        case LUO_MOVE_SEND:
            LUO_TRY(add_message(t, move, scale));
            break;
        case LUO_MOVE_AR:
            LUO_TRY(add_call(t, LUO_COLL_AR, move, scale));
            break;
        case LUO_MOVE_RS:
        case LUO_MOVE_AG:
            LUO_TRY(
                add_call(t, move->kind == LUO_MOVE_RS ? LUO_COLL_RS : LUO_COLL_AG, move, scale));
            break;
        case LUO_MOVE_COPY:
        case LUO_MOVE_A2A: /* none of parameters */
        case LUO_MOVE_LOAD:
            break;
        }
    }
    return LUO_OK;
}

/* The moves of a large plan are many: their memory is used again. */
static luo_status add_reshard(traffic *t, const luo_ann *from, const luo_ann *to,
                              const luo_shape *shape, double scale)
{
    const luo_resolve_opts opts = {
        .planner = {.link_class = t->cluster ? luo_cluster_link_class : NULL,
                    .link_ctx = t->cluster},
        .name = "propagation"};
    luo_resolution resolution;
    luo_arena_reset(t->moves, 0);
    LUO_TRY(luo_resolve(t->moves, from, to, shape, &opts, &resolution, t->err));
    return add_moves(t, &resolution.moves, scale);
}

luo_status luo_propagation_bytes(luo_arena *scratch, const luo_ann *from, const luo_ann *to,
                                 const luo_shape *shape, int64_t elem_bytes,
                                 const luo_cluster *cluster, int64_t *bytes, luo_err *err)
{
    traffic t = {0};
    int32_t most = 0;
    for (int side = 0; side < 2; side++) {
        const luo_ann *ann = side ? to : from;
        for (int32_t u = 0; u < ann->u; u++)
            for (int32_t i = 0; i < ann->grp[u].ndev; i++)
                if (ann->grp[u].dev[i] > most) most = ann->grp[u].dev[i];
    }
    luo_arena *moves = luo_arena_new(1 << 16);
    luo_status st = moves ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK) st = open_traffic(&t, scratch, moves, cluster, most + 1, err);
    if (st == LUO_OK) st = add_reshard(&t, from, to, shape, (double)elem_bytes);
    for (int32_t d = 0; st == LUO_OK && d <= most; d++) bytes[d] += llround(t.arrives[d]);
    luo_arena_free(moves);
    return st;
}

/* ---- seconds ---- */

static int by_pair(const void *a, const void *b)
{
    const message *x = a, *y = b;
    if (x->from != y->from) return (x->from > y->from) - (x->from < y->from);
    return (x->to > y->to) - (x->to < y->to);
}

/* Of the busiest device. */
static luo_status seconds_of(traffic *t, const luo_cost_ctx *cost, double *seconds)
{
    const int32_t n = t->cluster->ndevices;
    double *sends = LUO_NEW_N(t->arena, double, n), *receives = LUO_NEW_N(t->arena, double, n);
    if (!sends || !receives) return luo_err_nomem(t->err);
    if (t->nmessages > 0) qsort(t->messages, (size_t)t->nmessages, sizeof *t->messages, by_pair);
    for (int64_t i = 0; i < t->nmessages;) {
        const message *first = &t->messages[i];
        double bytes = 0, s;
        for (; i < t->nmessages && by_pair(first, &t->messages[i]) == 0; i++)
            bytes += t->messages[i].bytes;
        s = luo_cost_p2p_seconds(cost, first->from, first->to, llround(bytes), 0);
        sends[first->from] += s;
        receives[first->to] += s;
    }
    for (int32_t d = 0; d < n; d++) sends[d] = fmax(sends[d], receives[d]);
    for (int32_t g = 0; g < t->groups.n; g++) {
        const struct luo_intern_key *key = &t->groups.key[g];
        const double s = luo_cost_group_seconds(cost, (int)t->calls[g].coll, key->at + 1,
                                                key->len - 1, llround(t->calls[g].bytes), 0);
        for (int32_t i = 1; i < key->len; i++) sends[key->at[i]] += s;
    }
    *seconds = 0;
    for (int32_t d = 0; d < n; d++) *seconds = fmax(*seconds, sends[d]);
    return LUO_OK;
}

/* ---- kinds of parameters ---- */

typedef struct kind {     /* parameters whose annotations are equal */
    const luo_param *one; /* the largest */
    double elements, all;
} kind;

static double elements_of(const luo_shape *shape)
{
    double n = 1;
    for (int32_t d = 0; d < shape->rank; d++) n *= (double)shape->dim[d];
    return n;
}

static luo_status list_kinds(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                             kind **out, int32_t *n, luo_err *err)
{
    luo_param *param;
    int32_t nparams;
    LUO_TRY(luo_plan_params(arena, plan, model, &param, &nparams, err));
    kind *at = LUO_NEW_N(arena, kind, nparams);
    if (!at) return luo_err_nomem(err);
    *n = 0;
    for (int32_t i = 0; i < nparams; i++) {
        const luo_param *p = &param[i];
        const double elements = elements_of(&p->shape);
        int32_t k = 0;
        while (k < *n && (at[k].one->weight != p->weight || at[k].one->state != p->state ||
                          at[k].one->pieces != p->pieces))
            k++;
        if (k == *n) at[(*n)++] = (kind){p, 0, 0};
        if (elements > at[k].elements) at[k].one = p, at[k].elements = elements;
        at[k].all += elements;
    }
    *out = at;
    return LUO_OK;
}

/* ---- a plan ---- */

typedef enum way { DIRECT, TO_PIECES, GATHERED, REDUCED, HOME, WAYS } way; /* of a tensor */

/* Gradients go the ways of parameters backward: every cell lies on one device of the optimizer's
 * layout, and on one of the plan's own cut. */
static luo_status turn_round(const traffic *from, traffic *to, double scale)
{
    for (int32_t d = 0; d < to->cluster->ndevices; d++) to->arrives[d] = 0;
    to->messages = LUO_NEW_N(to->arena, message, from->nmessages);
    to->calls = LUO_NEW_N(to->arena, call, from->groups.n);
    if (!to->messages || !to->calls) return luo_err_nomem(to->err);
    for (int64_t i = 0; i < from->nmessages; i++) {
        const message *m = &from->messages[i];
        to->messages[i] = (message){m->to, m->from, m->bytes * scale};
        to->arrives[m->from] += m->bytes * scale;
    }
    to->nmessages = from->nmessages;
    to->groups = from->groups;
    for (int32_t g = 0; g < from->groups.n; g++) {
        const bool gathers = from->calls[g].coll == LUO_COLL_AG;
        to->calls[g] =
            (call){gathers ? LUO_COLL_RS : from->calls[g].coll, from->calls[g].bytes * scale};
    }
    return LUO_OK;
}

static luo_status add_way(traffic *t, way w, const kind *k, double bytes)
{
    const luo_param *param = k->one;
    const double scale = bytes * k->all / k->elements;
    const luo_ann *from = w == GATHERED ? param->pieces : param->state;
    const luo_ann *to = w == TO_PIECES ? param->pieces : param->weight;
    return add_reshard(t, from, to, &param->shape, scale);
}

static luo_status count(luo_arena *scratch, luo_arena *moves, const luo_propagation_in *in,
                        const kind *kinds, int32_t n, luo_propagation *out, luo_err *err)
{
    const luo_step_place *place = in->place;
    const luo_cost_ctx cost = {
        .cluster = place->cluster, .stack = in->stack, .dtype = place->dtype};
    const double down = (double)luo_dtype_bytes(place->dtype), up = in->grad_bytes / down;
    const bool few = place->ndevices <= LUO_PROPAGATION_DIRECT;
    traffic t[WAYS];
    double s[WAYS];
    for (int w = 0; w < WAYS; w++)
        LUO_TRY(open_traffic(&t[w], scratch, moves, place->cluster, place->cluster->ndevices, err));
    for (int w = few ? DIRECT : TO_PIECES; w <= GATHERED; w++)
        for (int32_t k = 0; k < n; k++) LUO_TRY(add_way(&t[w], (way)w, &kinds[k], down));
    /* A reduce-scatter leaves as much on each device as its all-gather brought together. */
    LUO_TRY(turn_round(&t[GATHERED], &t[REDUCED], up));
    for (int32_t d = 0; d < place->cluster->ndevices; d++)
        t[REDUCED].arrives[d] = t[GATHERED].arrives[d] * up;
    LUO_TRY(turn_round(&t[TO_PIECES], &t[HOME], up));
    for (int w = 0; w < WAYS; w++) LUO_TRY(seconds_of(&t[w], &cost, &s[w]));
    out->direct = few && s[DIRECT] < s[TO_PIECES] + s[GATHERED];
    out->down_ms = 1e3 * (out->direct ? s[DIRECT] : s[TO_PIECES] + s[GATHERED]);
    out->up_ms = 1e3 * (s[REDUCED] + s[HOME]);
    out->exposed_ms = (out->down_ms + out->up_ms) * (1 - in->overlap);
    for (int32_t i = 0; i < place->ndevices; i++) {
        const int32_t d = place->devices[i];
        out->down_bytes[i] = llround(
            out->direct ? t[DIRECT].arrives[d] : t[TO_PIECES].arrives[d] + t[GATHERED].arrives[d]);
        out->up_bytes[i] = llround(t[REDUCED].arrives[d] + t[HOME].arrives[d]);
    }
    return LUO_OK;
}

luo_status luo_propagation_of(luo_arena *arena, const luo_propagation_in *in, const luo_pool *pool,
                              const luo_replicas *replicas, luo_propagation *out, luo_err *err)
{
    luo_propagation propagation = {.down_bytes = LUO_NEW_N(arena, int64_t, in->place->ndevices),
                                   .up_bytes = LUO_NEW_N(arena, int64_t, in->place->ndevices)};
    luo_arena *scratch = luo_arena_new(1 << 20), *moves = luo_arena_new(1 << 20);
    luo_plan *plan;
    kind *kinds = NULL;
    int32_t n = 0;
    luo_status st = propagation.down_bytes && propagation.up_bytes && scratch && moves
                        ? LUO_OK
                        : luo_err_nomem(err);
    assert(in->place->layout);
    if (st == LUO_OK) st = luo_step_plan_frame(scratch, in->place, pool, replicas, &plan, err);
    if (st == LUO_OK) st = list_kinds(scratch, plan, in->place->model, &kinds, &n, err);
    if (st == LUO_OK) st = count(scratch, moves, in, kinds, n, &propagation, err);
    luo_arena_free(scratch);
    luo_arena_free(moves);
    if (st == LUO_OK) *out = propagation;
    return st;
}
