/* Links of groups: one for all, or by nodes. */
#include "core/plan/auto/link.h"

#include <math.h>

luo_auto_link luo_auto_link_flat(const void *ctx, luo_auto_groups groups)
{
    (void)groups;
    return *(const luo_auto_link *)ctx;
}

static luo_auto_link slower(luo_auto_link a, luo_auto_link b)
{
    if (a.bytes_per_s != b.bytes_per_s) return a.bytes_per_s < b.bytes_per_s ? a : b;
    return a.latency_s > b.latency_s ? a : b;
}

/* Of one group: members of a node follow each other, so each run of them is a node's part. */
static luo_auto_link link_of(const luo_auto_nodes *nodes, const luo_auto_groups *groups,
                             int32_t lowest)
{
    luo_auto_link slowest = {0, INFINITY};
    for (int32_t k = 0, run; k < groups->degree; k += run) {
        const int32_t node = nodes->node[lowest + k * groups->stride];
        run = 1;
        while (k + run < groups->degree && nodes->node[lowest + (k + run) * groups->stride] == node)
            run++;
        if (run == groups->degree) return nodes->inside[node];
        luo_auto_link part = nodes->between[node];
        part.bytes_per_s *= (double)run / nodes->devices[node];
        slowest = slower(slowest, part);
    }
    return slowest;
}

luo_auto_link luo_auto_link_nodes(const void *ctx, luo_auto_groups groups)
{
    luo_auto_link slowest = {0, INFINITY};
    const int32_t block = groups.degree * groups.stride;
    for (int32_t at = 0; at < groups.devices; at += block)
        for (int32_t i = 0; i < groups.stride; i++)
            slowest = slower(slowest, link_of(ctx, &groups, groups.first + at + i));
    return slowest;
}
