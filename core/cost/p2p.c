/* One message between two devices (docs/cost-model.md#messages). */
#include <math.h>
#include <string.h>

#include "core/cost/collective.h"

/* The class of a path is the furthest kind of link on it. */
static const char *path_class(const luo_cluster *c, int32_t src, int32_t dst)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(c, src, dst, hops);
    luo_link_kind far = LUO_LINK_NVLINK;
    for (int32_t i = 0; i < n; i++)
        if (c->links[hops[i].link].kind > far) far = c->links[hops[i].link].kind;
    return luo_link_kind_name(far);
}

/* Measured times: linear in log2(bytes) of the bandwidth between points, constant time below the
 * first, constant bandwidth above the last. */
static bool measured(const luo_profile *p, const char *link_class, double bytes, double *seconds)
{
    const luo_p2p_time *lo = NULL, *hi = NULL;
    for (int32_t i = 0; i < p->np2p_times; i++) {
        const luo_p2p_time *t = &p->p2p_times[i];
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
    const luo_cluster *c = ctx->cluster;
    const luo_profile *p = luo_cluster_profile(c, src);
    const uint64_t slots =
        UINT64_C(1) << c->devices[src].slot | UINT64_C(1) << c->devices[dst].slot;
    const luo_members m = {c->devices[src].node, 2, slots};
    for (int32_t i = 0; i < p->ncurves; i++)
        if (p->curves[i].op == LUO_COLL_AR && p->curves[i].devices == 2)
            return luo_node_busbw(ctx, LUO_COLL_AR, &m, 2, bytes, out, err);
    const double link = luo_cluster_path_bytes_per_s(c, src, dst);
    *out = (luo_busbw){link, link};
    return LUO_OK;
}

/* Between nodes: what a device gets of its node when all devices of the node send, and no more than
 * an uplink or line on the way lets through. */
static double net_bytes_per_s(const luo_cluster *c, int32_t src, int32_t dst, double share)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(c, src, dst, hops), ends[2] = {src, dst};
    double least = HUGE_VAL;
    for (int32_t i = 0; i < n; i++) {
        const luo_link *l = &c->links[hops[i].link];
        if (l->kind == LUO_LINK_UPLINK || l->kind == LUO_LINK_LINE)
            least = fmin(least, l->bytes_per_s);
    }
    for (int i = 0; i < 2; i++) {
        const luo_node_group *g = &c->groups[c->devices[ends[i]].group];
        const double part = share > 0 ? share : 1.0 / g->devices_per_node;
        least = fmin(least, luo_cost_node_bytes_per_s(g) * part);
    }
    return least * fmin(luo_cluster_profile(c, src)->net_ratio,
                        luo_cluster_profile(c, dst)->net_ratio);
}

static double start_seconds(const luo_cluster *c, int32_t src, int32_t dst)
{
    const double p2p =
        fmax(luo_cluster_profile(c, src)->p2p_s, luo_cluster_profile(c, dst)->p2p_s);
    return fmax(p2p, luo_cluster_path_latency(c, src, dst));
}

luo_status luo_cost_p2p(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                        double share, double *seconds, luo_err *err)
{
    const luo_cluster *c = ctx->cluster;
    const double size = (double)bytes;
    *seconds = 0;
    if (src == dst || bytes <= 0) return LUO_OK;
    if (measured(luo_cluster_profile(c, src), path_class(c, src, dst), size, seconds))
        return LUO_OK;
    double bandwidth = 0;
    if (c->devices[src].node == c->devices[dst].node) {
        luo_busbw b;
        LUO_TRY(inside(ctx, src, dst, size, &b, err));
        bandwidth = b.at_size;
    } else {
        bandwidth = net_bytes_per_s(c, src, dst, share);
    }
    *seconds = start_seconds(c, src, dst) + size / bandwidth;
    return LUO_OK;
}

/* Bytes on the wire of a message between nodes: those that take the closed form's time on the
 * NIC shares of the two devices. */
static double net_bytes(const luo_cluster *c, int32_t src, int32_t dst, double bytes)
{
    const luo_node_group *a = &c->groups[c->devices[src].group];
    const luo_node_group *b = &c->groups[c->devices[dst].group];
    const double ratio = fmin(a->profile->net_ratio, b->profile->net_ratio);
    const double each = fmin(luo_cost_node_bytes_per_s(a) / a->devices_per_node,
                             luo_cost_node_bytes_per_s(b) / b->devices_per_node);
    return bytes / (ratio * each) * fmin(luo_lane_bytes_per_s(a), luo_lane_bytes_per_s(b));
}

luo_status luo_cost_p2p_flow(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                             luo_flow *flow, luo_err *err)
{
    const luo_cluster *c = ctx->cluster;
    const double size = (double)bytes, link = luo_cluster_path_bytes_per_s(c, src, dst);
    const double latency = luo_cluster_path_latency(c, src, dst);
    double wire = size, delay = start_seconds(c, src, dst), table = 0;
    if (bytes <= 0) wire = delay = 0;
    if (bytes > 0 && c->devices[src].node == c->devices[dst].node) {
        luo_busbw b;
        LUO_TRY(inside(ctx, src, dst, size, &b, err));
        wire = size / b.largest * link;
        delay += size / b.at_size - size / b.largest;
    } else if (bytes > 0) {
        wire = net_bytes(c, src, dst, size);
    }
    if (bytes > 0 &&
        measured(luo_cluster_profile(c, src), path_class(c, src, dst), size, &table)) {
        wire = fmin(wire, fmax(0, table - latency) * link);
        delay = table - wire / link;
    }
    *flow = (luo_flow){src, dst, wire, fmax(0, delay - latency)};
    return LUO_OK;
}
