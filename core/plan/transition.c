/* What a switch costs in closed form (Malleus, section 12). */
#include "core/plan/malleus_job.h"
#include "core/plan/switching.h"

static const double MESSAGE_S = 20e-6;

typedef struct tally { /* of one device */
    int64_t out[LUO_LINK_CLASSES], in[LUO_LINK_CLASSES];
    int32_t messages; /* sent and received */
} tally;

static double busiest(const luo_cluster *c, const tally *t)
{
    double worst = 0;
    for (int k = 1; k < LUO_LINK_CLASSES; k++) {
        const double rate = luo_cluster_class_bytes_per_s(c, k);
        for (int32_t d = 0; d < c->ndevices && rate > 0; d++) {
            const int64_t bytes = t[d].out[k] > t[d].in[k] ? t[d].out[k] : t[d].in[k];
            const double s = (double)bytes / rate + MESSAGE_S * t[d].messages;
            if (bytes > 0 && s > worst) worst = s;
        }
    }
    return worst;
}

static luo_status cost(luo_arena *a, const luo_cluster *c, const luo_switch *sw,
                       luo_transition *out, luo_err *err)
{
    tally *t = LUO_NEW_N(a, tally, c->ndevices);
    if (!t) return luo_err_nomem(err);
    for (int32_t i = 0; i < sw->npair; i++) {
        const luo_pair *p = &sw->pair[i];
        t[p->src].out[p->link_class] += p->bytes;
        t[p->dst].in[p->link_class] += p->bytes;
        t[p->src].messages++;
        t[p->dst].messages++;
    }
    *out = (luo_transition){.bytes_local = sw->class_bytes[1], .messages = sw->npair,
                            .seconds = busiest(c, t)};
    for (int k = 2; k < LUO_LINK_CLASSES; k++) out->bytes_remote += sw->class_bytes[k];
    return LUO_OK;
}

luo_status luo_transition_cost(luo_arena *scratch, const luo_plan *from, const luo_plan *to,
                               const luo_model *model, const luo_cluster *cluster, int32_t ndead,
                               const int32_t *dead, luo_transition *out, luo_err *err)
{
    const luo_switch_opts o = {.planner = {.link_class = luo_cluster_link_class,
                                           .link_ctx = cluster, .ndead = ndead, .dead = dead}};
    const size_t mark = luo_arena_mark(scratch);
    luo_switch_tensor *tensors;
    luo_switch sw;
    int32_t n;
    luo_status st = LUO_OK;
    LUO_TRY_OUT(luo_switching_tensors(scratch, from, to, model, &tensors, &n, err));
    LUO_TRY_OUT(luo_switch_plan(scratch, tensors, n, &o, &sw, err));
    LUO_TRY_OUT(cost(scratch, cluster, &sw, out, err));
out:
    luo_arena_reset(scratch, mark);
    return st;
}
