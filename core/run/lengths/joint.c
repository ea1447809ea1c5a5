#include "core/run/lengths/joint.h"

#include <stdlib.h>

typedef struct seat {
    int32_t at, node_at; /* in the order of the devices: of it, of the first of its node */
    double rate, node;   /* node: largest rate there; negative: slow nodes first */
} seat;

static int by_node_and_rate(const void *a, const void *b)
{
    const seat *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->node_at != y->node_at) return x->node_at < y->node_at ? -1 : 1;
    if (x->rate != y->rate) return x->rate < y->rate ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

luo_status luo_joint_place(luo_arena *scratch, const luo_cluster *cluster, const int32_t *devices,
                           const double *rate, int32_t n, luo_joint_order order, int32_t *place,
                           luo_err *err)
{
    seat *seats = LUO_NEW_N(scratch, seat, n);
    if (!seats) return luo_err_nomem(err);
    for (int32_t i = 0, first = 0; i < n; i++) {
        const bool same =
            cluster->devices[devices[i]].node == cluster->devices[devices[first]].node;
        if (!same) first = i;
        seats[i] = (seat){.at = i, .node_at = first, .rate = rate[i]};
        if (rate[i] > seats[first].node) seats[first].node = rate[i];
    }
    for (int32_t i = 0; i < n; i++) {
        const double most = seats[seats[i].node_at].node;
        if (seats[i].node_at < i) seats[i].node = most;
    }
    for (int32_t i = 0; i < n && order == LUO_JOINT_SLOW_FIRST; i++) seats[i].node *= -1;
    if (order != LUO_JOINT_AS_THEY_ARE) qsort(seats, (size_t)n, sizeof *seats, by_node_and_rate);
    for (int32_t k = 0; k < n; k++) place[k] = seats[k].at;
    return LUO_OK;
}
