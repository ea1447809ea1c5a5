/* step_timetable.c: when calls of pipelines that differ end.
 *
 * A narrow stage takes part in several slices of the others, one after another, and calls that wait
 * for it hold up others. So the calls get the order and the lanes that a program would give them
 * (core/graph/schedule/lanes.h), and are played (step_play.c): a slice begins when its gradients
 * are complete and the call before it has ended on the lane of each of its devices. */
#include <math.h>
#include <string.h>

#include "core/graph/schedule/lanes.h"
#include "core/plan/step/step_internal.h"

enum { FEW = 256 }; /* devices */

/* ---- parts ---- */

static luo_status add_calls(stepper *w, step_player *player, int32_t n, bool weights)
{
    const double each = weights ? (double)luo_dtype_bytes(w->plan->dtype) : step_sum_bytes(w);
    step_links links;
    LUO_TRY(step_open_links(w, weights, &links));
    for (int32_t k = 0; k < n; k++) {
        step_call *call = &w->calls[k];
        const double bytes = (double)call->elements * each;
        const step_slice *slice;
        LUO_TRY(step_price_slices(&links, call->run, (int64_t)bytes, &slice));
        call->part = player->nparts;
        call->end = call->ready;
        for (int32_t i = 0; i < w->run[call->run].widest; i++)
            LUO_TRY(step_add_part(player, &slice[i], bytes, call->ready, &call->end));
    }
    return LUO_OK;
}

/* ---- order ---- */

/* As programs order them. Slices of a run are groups. */
static luo_status schedule_parts(const stepper *w, const step_player *player, int32_t n,
                                 bool weights, luo_timetable *out)
{
    const int32_t nruns = w->nruns + step_holds_ends(w);
    int32_t *first = LUO_NEW_N(w->scratch, int32_t, nruns + 1);
    int32_t *group = LUO_NEW_N(w->scratch, int32_t, player->nparts);
    luo_lane_call *call = LUO_NEW_N(w->scratch, luo_lane_call, player->nparts);
    if (!first || !group || !call) return luo_err_nomem(w->err);
    for (int32_t r = 0; r < nruns; r++) first[r + 1] = first[r] + w->run[r].widest;
    for (int32_t k = 0; k < n; k++)
        for (int32_t i = 0; i < w->run[w->calls[k].run].widest; i++) {
            const int32_t id = w->calls[k].part + i;
            const step_slice *slice = player->parts[id].slice;
            group[id] = first[w->calls[k].run] + i;
            call[id] = (luo_lane_call){.ready = step_ns_of(w->calls[k].estimate),
                                       .fixed = slice->order_fixed,
                                       .moving = slice->order_moving,
                                       .rank = weights ? k : 0,
                                       .link = slice->order_link,
                                       .ndev = slice->ndev,
                                       .dev = slice->dev,
                                       .ngroup = 1,
                                       .group = &group[id]};
        }
    return luo_lanes_schedule(w->scratch, call, player->nparts, w->in->cluster->ndevices,
                              first[nruns], w->bucket.lanes, out, w->err);
}

/* last: latest part on each lane of each device; -1: none. lane: by device; NULL: the first. */
static luo_status queue_part(step_player *player, int32_t id, const uint8_t *lane, int32_t *last)
{
    const step_slice *slice = player->parts[id].slice;
    for (int32_t d = 0; d < slice->ndev; d++) {
        int32_t *before = &last[(int64_t)slice->dev[d] * LUO_LANES_MOST + (lane ? lane[d] : 0)];
        if (*before >= 0) LUO_TRY(step_put_before(player, *before, id, 0));
        *before = id;
    }
    return LUO_OK;
}

/* Without buckets there is one lane, in the order of the tensors. */
static luo_status order_parts(const stepper *w, step_player *player, int32_t n, bool weights)
{
    const bool in_turn = luo_bucketing_is_off(step_rule(w));
    const int64_t nlast = (int64_t)w->in->cluster->ndevices * LUO_LANES_MOST;
    int32_t *last = LUO_NEW_N(w->scratch, int32_t, nlast);
    luo_timetable timetable = {0};
    if (!last) return luo_err_nomem(w->err);
    for (int64_t i = 0; i < nlast; i++) last[i] = -1;
    if (!in_turn) LUO_TRY(schedule_parts(w, player, n, weights, &timetable));
    for (int32_t i = 0; i < player->nparts; i++) {
        const int32_t id = in_turn ? i : timetable.order[i];
        LUO_TRY(queue_part(player, id, in_turn ? NULL : timetable.lane[id], last));
    }
    return LUO_OK;
}

/* On few devices messages are played from the begin of the step to its end, else beside gathers. */
static double until(const stepper *w)
{
    return w->ndev <= FEW ? HUGE_VAL : w->gathered;
}

luo_status step_carry(stepper *w, int32_t n, bool weights, bool beside_tasks)
{
    double from = HUGE_VAL;
    step_player player;
    LUO_TRY(step_open_player(w, &player));
    LUO_TRY(add_calls(w, &player, n, weights));
    LUO_TRY(order_parts(w, &player, n, weights));
    for (int32_t k = 0; k < n; k++) from = fmin(from, w->calls[k].ready);
    if (beside_tasks && weights) LUO_TRY(step_add_gathering(w, &player, until(w)));
    if (beside_tasks && !weights) LUO_TRY(step_add_summing(w, &player, from));
    return step_play_parts(&player);
}

luo_status step_play_begin(stepper *w)
{
    if (w->plan->zero >= 1) return step_gather_links(w, true);
    return w->ndev <= FEW ? step_carry(w, 0, true, true) : LUO_OK;
}
