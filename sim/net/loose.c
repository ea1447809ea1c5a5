/* loose.c: wires that can hold nothing up, whatever goes over them.
 *
 * Every flow over a wire also goes over its own narrowest one. If those that the flows of a wire
 * have are all narrower than it, and together no wider, the wire is never full before they are: an
 * uplink with as much bandwidth as the NICs below it. Of several that are as narrow the first may
 * be meant or the last: NICs that send or that receive. */
#include <stdlib.h>

#include "sim/net/net.h"

typedef struct pair {
    int32_t wire, narrow;
} pair;

typedef struct loosener {
    const sim_wire *wires;
    bool *loose;  /* per wire: so far */
    bool last;    /* of several that are narrowest; else the first */
    pair *pairs;
    int64_t n;
} loosener;

static int by_wires(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->wire != y->wire) return x->wire < y->wire ? -1 : 1;
    return (x->narrow > y->narrow) - (x->narrow < y->narrow);
}

static int32_t narrowest(const loosener *l, const sim_flow *flow)
{
    int32_t best = flow->wire[0];
    for (int32_t i = 1; i < flow->nwires; i++) {
        const double is = l->wires[flow->wire[i]].bytes_per_s, was = l->wires[best].bytes_per_s;
        if (is < was || (l->last && is == was)) best = flow->wire[i];
    }
    return best;
}

/* Pairs of the flow; wires that are no wider than its narrowest one are not loose. */
static void add_flow(loosener *l, const sim_flow *flow)
{
    if (flow->nwires == 0) return;
    const int32_t narrow = narrowest(l, flow);
    for (int32_t i = 0; i < flow->nwires; i++) {
        if (l->wires[flow->wire[i]].bytes_per_s > l->wires[narrow].bytes_per_s)
            l->pairs[l->n++] = (pair){flow->wire[i], narrow};
        else
            l->loose[flow->wire[i]] = false;
    }
}

static void sum_up(loosener *l)
{
    const pair *p = l->pairs;
    qsort(l->pairs, (size_t)l->n, sizeof *p, by_wires);
    for (int64_t i = 0, k; i < l->n; i = k) {
        double sum = 0;
        for (k = i; k < l->n && p[k].wire == p[i].wire; k++)
            if (k == i || p[k].narrow != p[k - 1].narrow) sum += l->wires[p[k].narrow].bytes_per_s;
        if (sum > l->wires[p[i].wire].bytes_per_s) l->loose[p[i].wire] = false;
    }
}

static void find(const sim_net *net, loosener *l)
{
    for (int32_t w = 0; w < net->nwires; w++) l->loose[w] = true;
    for (int32_t t = 0; t < net->ntraffics; t++)
        for (int32_t i = 0; i < net->traffics[t].nflows; i++)
            add_flow(l, &net->traffics[t].flows[i]);
    sum_up(l);
}

luo_status sim_loose_find(luo_arena *arena, sim_net *net, luo_err *err)
{
    int64_t most = 0;
    for (int32_t t = 0; t < net->ntraffics; t++)
        for (int32_t i = 0; i < net->traffics[t].nflows; i++)
            most += net->traffics[t].flows[i].nwires;
    bool *first = LUO_NEW_N(arena, bool, net->nwires), *last = LUO_NEW_N(arena, bool, net->nwires);
    pair *pairs = calloc((size_t)most + 1, sizeof *pairs);
    if (first && last && pairs) {
        find(net, &(loosener){net->wires, first, false, pairs, 0});
        find(net, &(loosener){net->wires, last, true, pairs, 0});
        for (int32_t w = 0; w < net->nwires; w++) first[w] = first[w] || last[w];
        net->loose = first;
    }
    free(pairs);
    return net->loose ? LUO_OK : luo_err_nomem(err);
}
