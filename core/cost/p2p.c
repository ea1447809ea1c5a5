/* One message between two devices (docs/cost-model.md#messages). */
#include <math.h>
#include <string.h>

#include "core/cost/collective.h"

/* The class of a path is the furthest kind of link on it. */
static const char *path_class(const luo_cluster *cluster, int32_t src, int32_t dst)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, src, dst, hops);
    luo_link_kind far = LUO_LINK_NVLINK;
    for (int32_t i = 0; i < n; i++)
        if (cluster->links[hops[i].link].kind > far) far = cluster->links[hops[i].link].kind;
    return luo_link_kind_name(far);
}

/* Measured times: linear in log2(bytes) of the bandwidth between points, constant time below the
 * first, constant bandwidth above the last. */
static bool measured(const luo_profile *profile, const char *link_class, double bytes,
                     double *seconds)
{
    const luo_p2p_time *lo = NULL, *hi = NULL;
    for (int32_t i = 0; i < profile->np2p_times; i++) {
        const luo_p2p_time *t = &profile->p2p_times[i];
        if (strcmp(t->link_class, link_class) != 0) continue;
        if (t->bytes <= bytes) lo = t;
        else if (!hi) hi = t;
    }
    if (!lo && !hi) return false;
    if (!lo) {
        *seconds = hi->seconds;
    } else if (!hi) {
        *seconds = bytes * lo->seconds / lo->bytes;
    } else {
        const double x = log2(bytes / lo->bytes) / log2(hi->bytes / lo->bytes);
        const double b0 = lo->bytes / lo->seconds, b1 = hi->bytes / hi->seconds;
        *seconds = bytes / (b0 + x * (b1 - b0));
    }
    return true;
}

/* Bandwidths of a message inside a node: at its size, and of a large one. */
static luo_status inside(const luo_cost_ctx *ctx, int32_t src, int32_t dst, double bytes,
                         luo_busbw *out, luo_err *err)
{
    const luo_cluster *cluster = ctx->cluster;
    const luo_profile *profile = luo_cluster_profile(cluster, src);
    const uint64_t slots =
        UINT64_C(1) << cluster->devices[src].slot | UINT64_C(1) << cluster->devices[dst].slot;
    const luo_members members = {cluster->devices[src].node, 2, slots};
    for (int32_t i = 0; i < profile->ncurves; i++)
        if (profile->curves[i].op == LUO_COLL_AR && profile->curves[i].devices == 2)
            return luo_busbw_of_node(ctx, LUO_COLL_AR, &members, 2, bytes, out, err);
    const double link = luo_cluster_path_bytes_per_s(cluster, src, dst);
    *out = (luo_busbw){link, link};
    return LUO_OK;
}

/* Between nodes: what a device gets of its node when all devices of the node send, and no more than
 * an uplink or line on the way lets through. */
static double net_bytes_per_s(const luo_cluster *cluster, int32_t src, int32_t dst, double share)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, src, dst, hops), ends[2] = {src, dst};
    double least = HUGE_VAL;
    for (int32_t i = 0; i < n; i++) {
        const luo_link *link = &cluster->links[hops[i].link];
        if (link->kind == LUO_LINK_UPLINK || link->kind == LUO_LINK_LINE)
            least = fmin(least, link->bytes_per_s);
    }
    for (int i = 0; i < 2; i++) {
        const luo_node_group *group = &cluster->groups[cluster->devices[ends[i]].group];
        const double part = share > 0 ? share : 1.0 / group->devices_per_node;
        least = fmin(least, luo_cost_node_bytes_per_s(group) * part);
    }
    return least * fmin(luo_cluster_profile(cluster, src)->net_ratio,
                        luo_cluster_profile(cluster, dst)->net_ratio);
}

static double start_seconds(const luo_cluster *cluster, int32_t src, int32_t dst)
{
    const double p2p =
        fmax(luo_cluster_profile(cluster, src)->p2p_s, luo_cluster_profile(cluster, dst)->p2p_s);
    return fmax(p2p, luo_cluster_path_latency(cluster, src, dst));
}

double luo_cost_p2p_start(const luo_cost_ctx *ctx, int32_t src, int32_t dst)
{
    const luo_cluster *cluster = ctx->cluster;
    double seconds;
    if (measured(luo_cluster_profile(cluster, src), path_class(cluster, src, dst), 1, &seconds))
        return seconds;
    return start_seconds(cluster, src, dst);
}

luo_status luo_cost_p2p(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                        double share, double *seconds, luo_err *err)
{
    const luo_cluster *cluster = ctx->cluster;
    const double size = (double)bytes;
    *seconds = 0;
    if (src == dst || bytes <= 0) return LUO_OK;
    if (measured(luo_cluster_profile(cluster, src), path_class(cluster, src, dst), size, seconds))
        return LUO_OK;
    double bandwidth = 0;
    if (cluster->devices[src].node == cluster->devices[dst].node) {
        luo_busbw b;
        LUO_TRY(inside(ctx, src, dst, size, &b, err));
        bandwidth = b.at_size;
    } else {
        bandwidth = net_bytes_per_s(cluster, src, dst, share);
    }
    *seconds = start_seconds(cluster, src, dst) + size / bandwidth;
    return LUO_OK;
}

/* Bytes on the wire of a message between nodes: those that take the closed form's time on the
 * NIC shares of the two devices. */
static double net_bytes(const luo_cluster *cluster, int32_t src, int32_t dst, double bytes)
{
    const luo_node_group *group = &cluster->groups[cluster->devices[src].group];
    const luo_node_group *b = &cluster->groups[cluster->devices[dst].group];
    const double ratio = fmin(group->profile->net_ratio, b->profile->net_ratio);
    const double each = fmin(luo_cost_node_bytes_per_s(group) / group->devices_per_node,
                             luo_cost_node_bytes_per_s(b) / b->devices_per_node);
    return bytes / (ratio * each) *
           fmin(luo_net_lane_bytes_per_s(group), luo_net_lane_bytes_per_s(b));
}

luo_status luo_cost_p2p_flow(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                             luo_flow *flow, luo_err *err)
{
    const luo_cluster *cluster = ctx->cluster;
    const double size = (double)bytes, link = luo_cluster_path_bytes_per_s(cluster, src, dst);
    const double latency = luo_cluster_path_latency(cluster, src, dst);
    double wire = size, delay = start_seconds(cluster, src, dst), table = 0;
    if (bytes <= 0) wire = delay = 0;
    if (bytes > 0 && cluster->devices[src].node == cluster->devices[dst].node) {
        luo_busbw b;
        LUO_TRY(inside(ctx, src, dst, size, &b, err));
        wire = size / b.largest * link;
        delay += size / b.at_size - size / b.largest;
    } else if (bytes > 0) {
        wire = net_bytes(cluster, src, dst, size);
    }
    if (bytes > 0 &&
        measured(luo_cluster_profile(cluster, src), path_class(cluster, src, dst), size, &table)) {
        wire = fmin(wire, fmax(0, table - latency) * link);
        delay = table - wire / link;
    }
    *flow = (luo_flow){src, dst, wire, fmax(0, delay - latency)};
    return LUO_OK;
}
