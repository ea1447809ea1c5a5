/* One message between two devices (docs/cost-model.md#messages). */
#include <math.h>
#include <string.h>

#include "core/cost/collective.h"

/* The class of a path is the furthest kind of link on it. */
static luo_table_class path_class(const luo_cluster *cluster, int32_t src, int32_t dst)
{
    static const luo_table_class of[] = {
        [LUO_LINK_NVLINK] = LUO_CLASS_NVLINK,    [LUO_LINK_PCIE] = LUO_CLASS_PCIE,
        [LUO_LINK_PCIE_SWITCH] = LUO_CLASS_PCIE, [LUO_LINK_SOCKET] = LUO_CLASS_SOCKET,
        [LUO_LINK_NIC] = LUO_CLASS_NIC,          [LUO_LINK_UPLINK] = LUO_CLASS_UPLINK,
        [LUO_LINK_LINE] = LUO_CLASS_LINE};
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, src, dst, hops);
    luo_link_kind far = LUO_LINK_NVLINK;
    for (int32_t i = 0; i < n; i++)
        if (cluster->links[hops[i].link].kind > far) far = cluster->links[hops[i].link].kind;
    return of[far];
}

/* Transfers of a class around a size, and the largest bandwidth of all. */
typedef struct transfers {
    const luo_p2p_time *below, *above;
    double best;
} transfers;

static transfers find_transfers(const luo_profile *profile, luo_table_class class, double bytes)
{
    static const char *const names[] = {LUO_LINK_CLASS_LIST(LUO_WORD_TEXT)};
    transfers found = {NULL, NULL, 0};
    for (int32_t i = 0; i < profile->np2p_times; i++) {
        const luo_p2p_time *time = &profile->p2p_times[i];
        if (strcmp(time->link_class, names[class]) != 0) continue;
        found.best = fmax(found.best, time->bytes / time->seconds);
        if (time->bytes <= bytes)
            found.below = time;
        else if (!found.above)
            found.above = time;
    }
    return found;
}

/* Measured times: linear in log2(bytes) of the bandwidth between points, constant time below the
 * first (but for the bytes that slower links carry), constant bandwidth above the last. */
static bool find_measured_by(const luo_profile *profile, const luo_cluster *cluster, int32_t src,
                             int32_t dst, double bytes, double *seconds)
{
    if (profile->np2p_times == 0) return false;
    const luo_table_class class = path_class(cluster, src, dst);
    const transfers at = find_transfers(profile, class, bytes);
    const luo_p2p_time *lo = at.below, *hi = at.above;
    if (!lo && !hi) return false;
    const double link = luo_cluster_path_bytes_per_s(cluster, src, dst);
    const double more =
        luo_cost_table_more(at.best, profile->tables_bytes_per_s[class], link, link);
    if (!lo) {
        *seconds = hi->seconds + more * (more > 0 ? bytes : hi->bytes);
    } else if (!hi) {
        *seconds = bytes * lo->seconds / lo->bytes + more * bytes;
    } else {
        const double x = log2(bytes / lo->bytes) / log2(hi->bytes / lo->bytes);
        const double b0 = lo->bytes / (lo->seconds + more * lo->bytes);
        const double b1 = hi->bytes / (hi->seconds + more * hi->bytes);
        *seconds = bytes / (b0 + x * (b1 - b0));
    }
    return true;
}

/* By the tables of both ends, the slower; one that has none says nothing. */
static bool find_measured(const luo_cluster *cluster, int32_t src, int32_t dst, double bytes,
                          double *seconds)
{
    const luo_profile *a = luo_cluster_profile(cluster, src),
                      *b = luo_cluster_profile(cluster, dst);
    double other;
    const bool found = find_measured_by(a, cluster, src, dst, bytes, seconds);
    if (a == b || !find_measured_by(b, cluster, src, dst, bytes, &other)) return found;
    *seconds = found ? fmax(*seconds, other) : other;
    return true;
}

/* Bandwidths of a message inside a node by one end's curve of two devices or, without, by the path:
 * at its size, and of a large one. */
static luo_busbw inside_by(const luo_profile *profile, const luo_cost_ctx *ctx, int32_t src,
                           int32_t dst, double bytes)
{
    const luo_cluster *cluster = ctx->cluster;
    const uint64_t slots =
        UINT64_C(1) << cluster->devices[src].slot | UINT64_C(1) << cluster->devices[dst].slot;
    const luo_members members = {cluster->devices[src].node, 2, slots};
    const bool apply =
        luo_busbw_curves_apply(&cluster->groups[cluster->devices[src].group], profile);
    for (int32_t i = 0; apply && i < profile->ncurves; i++)
        if (profile->curves[i].op == LUO_COLL_AR && profile->curves[i].devices == 2)
            return luo_busbw_of_profile(ctx, LUO_COLL_AR, &members, profile, 2, bytes);
    const double link = luo_cluster_path_bytes_per_s(cluster, src, dst);
    return (luo_busbw){link, link};
}

/* Of the slower end. */
static luo_busbw inside(const luo_cost_ctx *ctx, int32_t src, int32_t dst, double bytes)
{
    const luo_profile *a = luo_cluster_profile(ctx->cluster, src),
                      *b = luo_cluster_profile(ctx->cluster, dst);
    const luo_busbw first = inside_by(a, ctx, src, dst, bytes);
    if (a == b) return first;
    const luo_busbw second = inside_by(b, ctx, src, dst, bytes);
    return second.at_size < first.at_size ? second : first;
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
    if (find_measured(cluster, src, dst, 1, &seconds)) return seconds;
    return start_seconds(cluster, src, dst);
}

double luo_cost_p2p_seconds(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                            double share)
{
    const luo_cluster *cluster = ctx->cluster;
    const double size = (double)bytes;
    double measured, bandwidth;
    if (src == dst || bytes <= 0) return 0;
    if (find_measured(cluster, src, dst, size, &measured)) return measured;
    if (cluster->devices[src].node == cluster->devices[dst].node)
        bandwidth = inside(ctx, src, dst, size).at_size;
    else
        bandwidth = net_bytes_per_s(cluster, src, dst, share);
    return start_seconds(cluster, src, dst) + size / bandwidth;
}

/* Bytes on the wire of a message between nodes: those that take the closed form's time on the
 * NIC shares of the two devices. */
static double net_bytes(const luo_cluster *cluster, int32_t src, int32_t dst, double bytes)
{
    const luo_node_group *group = &cluster->groups[cluster->devices[src].group];
    const luo_node_group *node_group = &cluster->groups[cluster->devices[dst].group];
    const double ratio = fmin(luo_cluster_profile(cluster, src)->net_ratio,
                              luo_cluster_profile(cluster, dst)->net_ratio);
    const double each = fmin(luo_cost_node_bytes_per_s(group) / group->devices_per_node,
                             luo_cost_node_bytes_per_s(node_group) / node_group->devices_per_node);
    return bytes / (ratio * each) *
           fmin(luo_net_lane_bytes_per_s(group), luo_net_lane_bytes_per_s(node_group));
}

void luo_cost_p2p_flow(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                       luo_flow *flow)
{
    const luo_cluster *cluster = ctx->cluster;
    const double size = (double)bytes, link = luo_cluster_path_bytes_per_s(cluster, src, dst);
    const double latency = luo_cluster_path_latency(cluster, src, dst);
    double wire = size, delay = start_seconds(cluster, src, dst), table = 0;
    if (bytes <= 0) wire = delay = 0;
    if (bytes > 0 && cluster->devices[src].node == cluster->devices[dst].node) {
        const luo_busbw busbw = inside(ctx, src, dst, size);
        wire = size / busbw.largest * link;
        delay += size / busbw.at_size - size / busbw.largest;
    } else if (bytes > 0) {
        wire = net_bytes(cluster, src, dst, size);
    }
    if (bytes > 0 && find_measured(cluster, src, dst, size, &table)) {
        wire = fmin(wire, fmax(0, table - latency) * link);
        delay = table - wire / link;
    }
    *flow = (luo_flow){src, dst, wire, fmax(0, delay - latency)};
}

/* ---- what is to be said of tables ---- */

/* Notes of transfers: one of each class that has a way from the group. */
typedef struct told {
    const luo_cluster *cluster;
    const luo_profile *profile;
    luo_tables_note *note;
    int32_t n;
    bool classes[LUO_TABLE_CLASSES];
} told;

static void tell_of_way(told *to, int32_t src, int32_t dst)
{
    const luo_table_class class = path_class(to->cluster, src, dst);
    const double measured_at = to->profile->tables_bytes_per_s[class];
    const double link = luo_cluster_path_bytes_per_s(to->cluster, src, dst);
    if (to->classes[class]) return;
    to->classes[class] = true;
    if (find_transfers(to->profile, class, 1).best > 0 && measured_at != link)
        to->note[to->n++] = (luo_tables_note){"p2p_times", class, measured_at, link};
}

static bool is_of(const told *to, int32_t dev)
{
    return luo_cluster_profile(to->cluster, dev) == to->profile;
}

static void tell_inside(told *to, const luo_node *node)
{
    const int32_t each = to->cluster->groups[node->group].devices_per_node;
    for (int32_t a = 0; a < each; a++)
        for (int32_t b = a + 1; b < each; b++)
            if (is_of(to, node->first_device + a) || is_of(to, node->first_device + b))
                tell_of_way(to, node->first_device + a, node->first_device + b);
}

/* A way's class depends on whether racks and sites are the same, and on rails slots as well: one
 * node for each answer. */
static void tell_outside(told *to, const luo_node *node, int32_t from)
{
    bool met[2][2] = {{false}};
    for (int32_t i = 0; i < to->cluster->nnodes; i++) {
        const luo_node *other = &to->cluster->nodes[i];
        bool *known = &met[other->site != node->site][other->rack != node->rack];
        if (other == node || *known) continue;
        *known = true;
        tell_of_way(to, from, other->first_device);
        if (to->cluster->groups[other->group].devices_per_node > 1)
            tell_of_way(to, from, other->first_device + 1);
    }
}

int32_t luo_cost_tables_elsewhere(const luo_cluster *cluster, int32_t kind,
                                  luo_tables_note out[LUO_TABLES_NOTES])
{
    const luo_profile *profile = luo_device_kind_profile(cluster, kind);
    const int32_t group = cluster->kinds[kind].group;
    const int32_t each = cluster->groups[group].devices_per_node;
    int32_t first = 0, rack = -1;
    while (cluster->nodes[first].group != group) first++;
    const luo_members members = {first, each, UINT64_MAX >> (64 - each)};
    told to = {cluster, profile, out, luo_busbw_curves_elsewhere(cluster, &members, profile, out),
               {false}};
    if (profile->np2p_times == 0) return to.n;
    tell_inside(&to, &cluster->nodes[first]);
    for (int32_t i = first; i < cluster->nnodes; i++) {
        if (cluster->nodes[i].group != group || cluster->nodes[i].rack == rack) continue;
        rack = cluster->nodes[i].rack; /* those of one rack reach the same */
        tell_outside(&to, &cluster->nodes[i],
                     cluster->nodes[i].first_device + cluster->kinds[kind].slot);
    }
    return to.n;
}
