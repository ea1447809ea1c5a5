/* What a switch costs in closed form (docs/cost-model.md#switching-state). */
#include <math.h>

#include "core/plan/malleus/malleus_job.h"
#include "core/plan/migrate.h"

static const double MESSAGE_S = 20e-6;

typedef struct tally { /* what crosses links, by link and direction, and messages by device */
    double *up, *down;
    int32_t *messages;
} tally;

/* Every message takes all links of its way: devices that share a NIC share its time, whatever
 * rack the other end is in. */
static void count(const luo_cluster *cluster, const luo_pair *pair, tally *t)
{
    luo_hop hop[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, pair->src, pair->dst, hop);
    for (int32_t i = 0; i < n; i++)
        (hop[i].up ? t->up : t->down)[hop[i].link] += (double)pair->bytes;
    t->messages[pair->src]++;
    t->messages[pair->dst]++;
}

/* Seconds of the link that takes longest, and of what the messages of its devices cost at most. */
static double busiest(const luo_cluster *cluster, const tally *t)
{
    double worst = 0;
    int32_t most = 0;
    for (int32_t i = 0; i < cluster->nlinks; i++) {
        const luo_link *link = &cluster->links[i];
        if (link->bytes_per_s > 0) worst = fmax(worst, t->up[i] / link->bytes_per_s);
        if (link->down_bytes_per_s > 0) worst = fmax(worst, t->down[i] / link->down_bytes_per_s);
    }
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (t->messages[d] > most) most = t->messages[d];
    return worst + MESSAGE_S * most;
}

static luo_status cost(luo_arena *arena, const luo_cluster *cluster, const luo_switch *sw,
                       luo_transition *out, luo_err *err)
{
    tally t = {LUO_NEW_N(arena, double, cluster->nlinks), LUO_NEW_N(arena, double, cluster->nlinks),
               LUO_NEW_N(arena, int32_t, cluster->ndevices)};
    if (!t.up || !t.down || !t.messages) return luo_err_nomem(err);
    for (int32_t i = 0; i < sw->npair; i++) count(cluster, &sw->pair[i], &t);
    *out = (luo_transition){
        .bytes_local = sw->class_bytes[1], .messages = sw->npair, .seconds = busiest(cluster, &t)};
    for (int k = 2; k < LUO_LINK_CLASSES; k++) out->bytes_remote += sw->class_bytes[k];
    return LUO_OK;
}

luo_status luo_transition_cost(luo_arena *scratch, const luo_plan *from, const luo_plan *to,
                               const luo_model *model, const luo_cluster *cluster, int32_t ndead,
                               const int32_t *dead, luo_transition *out, luo_err *err)
{
    const luo_switch_opts opts = {.planner_unsaid = true,
                                  .planner = {.link_class = luo_cluster_link_class,
                                              .link_ctx = cluster,
                                              .ndead = ndead,
                                              .dead = dead}};
    const size_t mark = luo_arena_mark(scratch);
    luo_switch_tensor *tensors;
    luo_switch sw;
    int32_t n;
    luo_status st = LUO_OK;
    LUO_TRY_OUT(luo_switching_tensors(scratch, from, to, model, &tensors, &n, err));
    LUO_TRY_OUT(luo_switch_plan(scratch, tensors, n, &opts, &sw, err));
    LUO_TRY_OUT(cost(scratch, cluster, &sw, out, err));
out:
    luo_arena_reset(scratch, mark);
    return st;
}
