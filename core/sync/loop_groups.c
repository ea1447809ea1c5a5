/* loop_groups.c: allreduce, preduce, adpsgd. */
#include <math.h>

#include "core/sync/adpsgd.h"
#include "core/sync/loop_internal.h"
#include "core/sync/mixing.h"

typedef struct groups {
    loop *l;
    luo_preduce preduce; /* allreduce: waits for ever, for all */
    luo_adpsgd adpsgd;
    bool is_pairs; /* adpsgd */
    bool mixes;
    luo_mixing mixing;
    double request_s;
    double *weight; /* scratch; NULL: all alike */
    bool *gone;
} groups;

static luo_status open(groups *g, luo_err *err)
{
    const luo_loop_opts *opts = g->l->opts;
    luo_arena *arena = g->l->arena;
    luo_preduce_opts preduce = {.max_group = opts->workers, .wait_s = INFINITY};
    if (opts->mode == LUO_LOOP_PREDUCE) preduce = opts->preduce;
    preduce.workers = opts->workers;
    g->request_s = opts->mode == LUO_LOOP_PREDUCE ? opts->request_s : 0;
    g->is_pairs = opts->mode == LUO_LOOP_ADPSGD;
    g->mixes = opts->workers <= LUO_MIXING_WORKERS;
    g->gone = LUO_NEW_N(arena, bool, opts->workers);
    const bool weighted = opts->mode == LUO_LOOP_PREDUCE && opts->beta > 0 && opts->beta < 1;
    if (weighted) g->weight = LUO_NEW_N(arena, double, opts->workers);
    if (!g->gone || (weighted && !g->weight)) return luo_err_nomem(err);
    if (g->mixes) LUO_TRY(luo_mixing_new(arena, opts->workers, &g->mixing, err));
    if (g->is_pairs) return luo_adpsgd_new(arena, opts->workers, opts->seed, &g->adpsgd, err);
    return luo_preduce_new(arena, &preduce, &g->preduce, err);
}

/* It arrives when its request does. */
static void start(groups *g, int32_t worker, double t_s)
{
    luo_loop_queue_push(&g->l->queue, worker, luo_loop_compute(g->l, worker, t_s) + g->request_s);
}

static luo_status count_group(groups *g, const luo_preduce_group *group, luo_err *err)
{
    luo_loop_summary *out = g->l->out;
    const luo_loop_opts *opts = g->l->opts;
    const int64_t id = out->groups++;
    out->guards += group->guard;
    out->sizes[group->n]++;
    if (isnan(opts->sync_s))
        out->ring_bytes += luo_exchange_ring_bytes(group->n, opts->ring_bytes, group->n);
    if (g->weight) luo_preduce_weights(group->iteration, group->n, opts->beta, g->weight);
    if (g->mixes) luo_mixing_add(&g->mixing, group->member, g->weight, group->n);
    return opts->sink.group ? opts->sink.group(opts->sink.ctx, id, group, err) : LUO_OK;
}

/* A group communicates, and its members go on; nothing of it counts if that ends too late, and
 * then they have nothing more to do either. */
static luo_status exchange(groups *g, const luo_preduce_group *group, luo_err *err)
{
    loop *l = g->l;
    const luo_loop_opts *opts = l->opts;
    const double end_s =
        group->t_s + (isnan(opts->sync_s)
                          ? luo_exchange_ring(group->n, opts->ring_bytes, &opts->net)
                          : opts->sync_s);
    const int32_t *started;
    if (end_s > l->end_s) return LUO_OK;
    LUO_TRY(count_group(g, group, err));
    for (int32_t i = 0; i < group->n; i++) {
        const int32_t w = group->member[i];
        const luo_loop_row row = {.worker = w,
                                  .iteration = l->clock.clock[w],
                                  .start_s = l->start_s[w],
                                  .end_s = end_s,
                                  .compute_s = l->compute_s[w],
                                  .wait_s = group->t_s - l->since_s[w],
                                  .group = l->out->groups - 1};
        l->out->wait_s[w] += row.wait_s;
        LUO_TRY(luo_loop_count(l, &row, err));
    }
    luo_clock_release(&l->clock, &started); /* without a bound: all of them */
    for (int32_t i = 0; i < group->n; i++) {
        LUO_TRY(luo_loop_count_ahead(l, group->member[i], err));
        start(g, group->member[i], end_s);
    }
    return LUO_OK;
}

static luo_status closed(groups *g, const luo_preduce_group *group, luo_err *err)
{
    luo_preduce_group part;
    if (group->n == 0) return LUO_OK;
    for (int32_t i = 0; luo_preduce_group_part(group, i, &part), part.n > 0; i++) {
        part.t_s += g->request_s; /* when its members know */
        LUO_TRY(exchange(g, &part, err));
    }
    return LUO_OK;
}

static luo_status arrive(groups *g, double t_s, luo_err *err)
{
    const luo_loop_event *batch;
    luo_preduce_group group;
    const int32_t n = luo_loop_queue_take(&g->l->queue, &batch);
    for (int32_t i = 0; i < n; i++) {
        const int32_t w = batch[i].worker;
        const int64_t k = g->l->clock.clock[w];
        g->l->since_s[w] = t_s - g->request_s;
        LUO_TRY(g->is_pairs ? luo_adpsgd_arrive(&g->adpsgd, t_s, w, k, &group, err)
                            : luo_preduce_arrive(&g->preduce, t_s, w, k, &group, err));
        LUO_TRY(closed(g, &group, err));
    }
    return LUO_OK;
}

static luo_status leave(groups *g, double t_s, int32_t worker, luo_err *err)
{
    luo_preduce_group group;
    g->gone[worker] = true;
    if (g->mixes) luo_mixing_clear(&g->mixing);
    if (!g->is_pairs) {
        luo_preduce_leave(&g->preduce, t_s, worker, &group);
        return closed(g, &group, err);
    }
    luo_adpsgd_leave(&g->adpsgd, worker);
    for (luo_adpsgd_alone(&g->adpsgd, t_s, &group); group.n > 0;
         luo_adpsgd_alone(&g->adpsgd, t_s, &group))
        LUO_TRY(closed(g, &group, err));
    return LUO_OK;
}

static luo_status expire(groups *g, double t_s, luo_err *err)
{
    luo_preduce_group group;
    luo_preduce_timer(&g->preduce, t_s, &group);
    return closed(g, &group, err);
}

static luo_status run(groups *g, luo_err *err)
{
    loop *l = g->l;
    for (;;) {
        const double arrival_s = luo_loop_queue_next(&l->queue), death_s = luo_loop_next_death(l);
        const double timer_s = g->is_pairs ? INFINITY : luo_preduce_deadline(&g->preduce);
        const double other_s = fmin(death_s, timer_s);
        if (fmin(arrival_s, other_s) > l->end_s) return LUO_OK;
        if (arrival_s <= other_s + luo_loop_tie(other_s)) {
            LUO_TRY(arrive(g, arrival_s, err));
        } else if (death_s <= timer_s + luo_loop_tie(timer_s)) {
            const int32_t who = luo_loop_die(l);
            if (who < 0) return LUO_OK;
            LUO_TRY(leave(g, death_s, who, err));
        } else {
            LUO_TRY(expire(g, timer_s, err));
        }
    }
}

luo_status luo_loop_groups(loop *l, luo_err *err)
{
    groups g = {.l = l};
    LUO_TRY(open(&g, err));
    for (int32_t w = 0; w < l->opts->workers; w++) start(&g, w, 0);
    LUO_TRY(run(&g, err));
    if (!g.mixes) return LUO_OK;
    return luo_mixing_lambda2(l->arena, &g.mixing, g.gone, &l->out->lambda2, err);
}
