#include "core/cost/alltoall_links.h"

#include <math.h>

static const int64_t LARGE = INT64_C(1) << 30;

typedef struct pace { /* the slowest of several ways */
    double message_s, byte_s;
} pace;

static void add_way(const luo_cost_ctx *ctx, int32_t src, int32_t dst, double share, pace *slowest)
{
    const double some = luo_cost_p2p_seconds(ctx, src, dst, LARGE, share);
    const double twice = luo_cost_p2p_seconds(ctx, src, dst, 2 * LARGE, share);
    slowest->message_s = fmax(slowest->message_s, luo_cost_p2p_start(ctx, src, dst));
    slowest->byte_s = fmax(slowest->byte_s, (twice - some) / (double)LARGE);
}

/* From a device of the first node of a group to the next one of it and to the first of others. */
static void add_nodes(const luo_cost_ctx *ctx, int32_t dev, pace *slowest)
{
    const luo_cluster *cluster = ctx->cluster;
    const int32_t group = cluster->devices[dev].group, nics = cluster->groups[group].nics;
    for (int32_t to = 0; to < cluster->nnodes; to++) {
        const luo_node *other = &cluster->nodes[to];
        const int32_t theirs = cluster->groups[other->group].nics;
        if (other->index != (other->group == group ? 1 : 0)) continue;
        const double share = 1.0 / (theirs < nics ? theirs : nics);
        add_way(ctx, dev, other->first_device, share, slowest);
    }
}

/* Of the first node of a group, from its first device of a kind. */
static luo_status add_kind(const luo_cost_ctx *ctx, const luo_node *node, int32_t kind,
                           luo_alltoall_cluster *cluster, pace *net, pace *inner,
                           double *memory_byte_s, luo_err *err)
{
    const luo_node_group *group = &ctx->cluster->groups[node->group];
    const int32_t dev = node->first_device + ctx->cluster->kinds[kind].slot;
    const int32_t each = group->devices_per_node;
    const luo_profile *profile = luo_device_kind_profile(ctx->cluster, kind);
    double some, twice;
    add_nodes(ctx, dev, net);
    for (int32_t i = 0; i < each; i++)
        if (node->first_device + i != dev) add_way(ctx, dev, node->first_device + i, 0, inner);
    LUO_TRY(luo_cost_stream(profile, (double)LARGE, &some, err));
    LUO_TRY(luo_cost_stream(profile, 2 * (double)LARGE, &twice, err));
    *memory_byte_s = fmax(*memory_byte_s, (twice - some) / (double)LARGE);
    cluster->free_bytes =
        fmin(cluster->free_bytes, profile->memory_bytes - profile->reserved_bytes);
    if (cluster->shape.each > 0 && cluster->shape.each != each) cluster->even = false;
    if (cluster->shape.each == 0 || each < cluster->shape.each) cluster->shape.each = each;
    if (cluster->links.nics == 0 || group->nics < cluster->links.nics)
        cluster->links.nics = group->nics;
    return LUO_OK;
}

luo_status luo_alltoall_links_of(const luo_cost_ctx *ctx, luo_alltoall_cluster *out, luo_err *err)
{
    const luo_cluster *cluster = ctx->cluster;
    luo_alltoall_cluster x = {
        .shape = {cluster->nnodes, 0, 1}, .even = true, .free_bytes = HUGE_VAL};
    pace net = {0, 0}, inner = {0, 0};
    double memory_byte_s = 0;
    if (cluster->nnodes < 2)
        return luo_err_set(err, LUO_EINPUT,
                           "cluster `%s` has one node; exchanges are compared between two or more.",
                           cluster->name);
    for (int32_t k = 0, node = 0; k < cluster->nkinds; k++) {
        while (cluster->nodes[node].group != cluster->kinds[k].group) node++;
        LUO_TRY(add_kind(ctx, &cluster->nodes[node], k, &x, &net, &inner, &memory_byte_s, err));
    }
    x.joined = inner.byte_s > 0;
    if (!x.joined) inner = (pace){0, memory_byte_s}; /* no message goes there */
    x.links.message_s = net.message_s;
    x.links.bytes_per_s = 1 / net.byte_s;
    x.links.inner_message_s = inner.message_s;
    x.links.inner_bytes_per_s = 1 / inner.byte_s;
    x.links.memory_bytes_per_s = 1 / memory_byte_s;
    *out = x;
    return LUO_OK;
}
