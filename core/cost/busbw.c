/* Bus bandwidth inside one node: measured curves, fallbacks, alpha-beta
 * (docs/cost-model.md#inside-a-node). */
#include <math.h>
#include <stdio.h>

#include "core/cost/collective.h"

double luo_cost_volume(int coll, int32_t n)
{
    if (n < 2) return 0;
    if (coll == LUO_COLL_BCAST) return 1;
    return (coll == LUO_COLL_AR ? 2.0 : 1.0) * (n - 1) / n;
}

static double with_more(double bytes_per_s, double more_byte_s)
{
    return more_byte_s == 0 ? bytes_per_s : 1 / (1 / bytes_per_s + more_byte_s);
}

/* Linear in log2(bytes); below the first point the time is constant, but for the bytes that slower
 * links carry. Between far points, or in a noisy table, that line can promise a larger message in
 * less time than a smaller point took; no size is faster than a smaller point, so that time grows
 * with S. */
static double curve_at(const luo_curve *curve, double bytes, double more_byte_s)
{
    const luo_curve_point *point = curve->at;
    const double first = point[0].busbw_bytes_per_s, faster = fmin(0, more_byte_s);
    double slowest = with_more(first, faster) / point[0].bytes; /* bandwidth per byte: 1 / time */
    int32_t i = 0;
    if (bytes <= point[0].bytes) return with_more(slowest * bytes, more_byte_s - faster);
    slowest = with_more(first, more_byte_s) / point[0].bytes;
    for (; i + 1 < curve->n && point[i + 1].bytes <= bytes; i++)
        slowest = fmin(slowest,
                       with_more(point[i + 1].busbw_bytes_per_s, more_byte_s) / point[i + 1].bytes);
    double b = with_more(point[i].busbw_bytes_per_s, more_byte_s);
    if (i + 1 < curve->n)
        b += log2(bytes / point[i].bytes) / log2(point[i + 1].bytes / point[i].bytes) *
             (with_more(point[i + 1].busbw_bytes_per_s, more_byte_s) - b);
    return fmin(b, slowest * bytes);
}

double luo_cost_table_more(double best, double measured, double declared, double most)
{
    if (measured > 0) return (measured / declared - 1) / best;
    return fmax(0, 1 / most - 1 / best);
}

static luo_table_class inside_class(const luo_node_group *group)
{
    return group->scale_up == LUO_SCALE_UP_NONE ? LUO_CLASS_PCIE : LUO_CLASS_NVLINK;
}

static luo_table_class curves_class(const luo_node_group *group, const luo_profile *profile)
{
    const double *over = profile->tables_bytes_per_s;
    if (over[LUO_CLASS_NVLINK] > 0) return LUO_CLASS_NVLINK;
    return over[LUO_CLASS_PCIE] > 0 ? LUO_CLASS_PCIE : inside_class(group);
}

bool luo_busbw_curves_apply(const luo_node_group *group, const luo_profile *profile)
{
    return curves_class(group, profile) == inside_class(group);
}

/* Nearest tables of op at or below and at or above n. */
static void neighbours(const luo_profile *profile, luo_coll op, int32_t n, const luo_curve **below,
                       const luo_curve **above)
{
    *below = *above = NULL;
    for (int32_t i = 0; i < profile->ncurves; i++) {
        const luo_curve *curve = &profile->curves[i];
        if (curve->op != op) continue;
        if (curve->devices <= n && (!*below || curve->devices > (*below)->devices)) *below = curve;
        if (curve->devices >= n && (!*above || curve->devices < (*above)->devices)) *above = curve;
    }
}

/* The op itself, else what stands for it: a ring moves the same blocks whatever is done to them. */
static bool find_curves(const luo_profile *profile, int coll, int32_t n, const luo_curve **below,
                        const luo_curve **above, luo_coll *op)
{
    static const luo_coll order[LUO_COLLS][4] = {
        [LUO_COLL_AR] = {LUO_COLL_AR, LUO_COLL_AG, LUO_COLL_RS, LUO_COLLS},
        [LUO_COLL_RS] = {LUO_COLL_RS, LUO_COLL_AR, LUO_COLL_AG, LUO_COLLS},
        [LUO_COLL_AG] = {LUO_COLL_AG, LUO_COLL_AR, LUO_COLL_RS, LUO_COLLS},
        [LUO_COLL_A2A] = {LUO_COLL_A2A, LUO_COLL_AG, LUO_COLL_AR, LUO_COLL_RS},
        [LUO_COLL_BCAST] = {LUO_COLL_BCAST, LUO_COLL_AG, LUO_COLL_AR, LUO_COLL_RS},
    };
    for (int i = 0; i < 4 && order[coll][i] != LUO_COLLS; i++) {
        neighbours(profile, order[coll][i], n, below, above);
        *op = order[coll][i];
        if (*below || *above) return true;
    }
    return false;
}

/* Number and place of a mesh's links decide, so that its curves do not tell of other numbers. */
static bool curve_tells(const luo_node_group *group, const luo_curve *below, const luo_curve *above)
{
    return group->scale_up != LUO_SCALE_UP_MESH || below == above;
}

uint64_t luo_cost_mesh_without(const luo_node_group *group, const luo_profile *profile)
{
    const luo_curve *below, *above;
    uint64_t without = 0;
    luo_coll op;
    if (group->scale_up != LUO_SCALE_UP_MESH || !luo_busbw_curves_apply(group, profile)) return 0;
    for (int32_t n = 2; n <= group->devices_per_node; n++) {
        if (!find_curves(profile, LUO_COLL_AR, n, &below, &above, &op)) return 0;
        if (!curve_tells(group, below, above)) without |= (uint64_t)1 << (n - 1);
    }
    return without;
}

/* Narrowest link of the ring over the members, and whether it leaves NVLink. */
static double ring_link(const luo_cluster *cluster, const luo_members *members, bool *pcie)
{
    const luo_node_group *group = &cluster->groups[cluster->nodes[members->node].group];
    luo_hop hops[LUO_PATH_MAX];
    double least = HUGE_VAL;
    *pcie = group->scale_up != LUO_SCALE_UP_NVSWITCH;
    if (!*pcie) return group->scale_up_bytes_per_s;
    *pcie = false;
    int32_t prev = luo_members_device(cluster, members, members->n - 1);
    for (int32_t i = 0; i < members->n; i++) {
        const int32_t dev = luo_members_device(cluster, members, i);
        const int32_t n = luo_cluster_path(cluster, prev, dev, hops);
        for (int32_t k = 0; k < n; k++) {
            least = fmin(least, cluster->links[hops[k].link].bytes_per_s);
            *pcie |= cluster->links[hops[k].link].kind != LUO_LINK_NVLINK;
        }
        prev = dev;
    }
    return least;
}

/* Bandwidth of the links of a device together, or the narrowest that PCIe has on the ring. */
static double declared_bytes_per_s(const luo_cluster *cluster, const luo_members *members)
{
    const luo_node_group *group = &cluster->groups[cluster->nodes[members->node].group];
    int32_t lanes[64] = {0}, most = 0;
    bool pcie;
    if (group->scale_up != LUO_SCALE_UP_MESH) return ring_link(cluster, members, &pcie);
    for (int32_t i = 0; i < 2 * group->nmesh; i++) {
        const luo_mesh_link *link = &group->mesh[i / 2];
        int32_t *of = &lanes[i % 2 ? link->b : link->a];
        *of += link->lanes;
        if (*of > most) most = *of;
    }
    return most * group->scale_up_bytes_per_s;
}

/* A switch that adds up halves what leaves a device in an all-reduce. */
static double most_bytes_per_s(const luo_node_group *group, int coll, int32_t n, double declared)
{
    const bool adds = group->scale_up == LUO_SCALE_UP_NVSWITCH && coll == LUO_COLL_AR;
    return declared * (adds ? luo_cost_volume(coll, n) : 1);
}

bool luo_busbw_curves_elsewhere(const luo_cluster *cluster, const luo_members *members,
                                const luo_profile *profile, luo_tables_note *out)
{
    const luo_node_group *group = &cluster->groups[cluster->nodes[members->node].group];
    const luo_table_class class = curves_class(group, profile);
    const double measured = profile->tables_bytes_per_s[class];
    const double declared =
        luo_busbw_curves_apply(group, profile) ? declared_bytes_per_s(cluster, members) : 0;
    *out = (luo_tables_note){"collective_times", class, measured, declared};
    return profile->ncurves > 0 && members->n > 1 && measured != declared;
}

typedef struct over { /* links: those of the table, 0: not told; those here; what they let through
                       */
    double measured, declared, most;
} over;

static luo_busbw of_curve(const luo_curve *curve, const over *links, double bytes)
{
    double largest = 0;
    for (int32_t i = 0; i < curve->n; i++) largest = fmax(largest, curve->at[i].busbw_bytes_per_s);
    const double more = luo_cost_table_more(largest, links->measured, links->declared, links->most);
    return (luo_busbw){curve_at(curve, bytes, more), with_more(largest, more)};
}

const luo_protocol luo_protocols[LUO_PROTOCOLS] = {
    [LUO_LL] = {0.5, 6.6e-6, {0.6e-6, 1.0e-6, 2.7e-6}},
    [LUO_LL128] = {0.92, 14e-6, {1.9e-6, 2.5e-6, 4.0e-6}},
    [LUO_SIMPLE] = {1, 8.4e-6, {3.4e-6, 5.7e-6, 14e-6}},
};

/* No table: steps*alpha + VOL*S/(0.8*link) + once, the best of three protocols. */
static double ring_seconds(int coll, int32_t n, double bytes, double link, bool pcie)
{
    const double volume = luo_cost_volume(coll, n);
    double best = HUGE_VAL;
    for (int i = 0; i < LUO_PROTOCOLS; i++) {
        const luo_protocol *protocol = &luo_protocols[i];
        const double step = protocol->step_s[pcie ? LUO_OVER_PCIE : LUO_OVER_NVLINK];
        best = fmin(best, protocol->once_s + n * volume * step +
                              volume * bytes / (0.8 * link * protocol->factor));
    }
    return best;
}

/* The same for processes, which have no protocols: at each step one waits for the next. */
static double step_by_step(int coll, int32_t n, double bytes, double link, double latency_s)
{
    const double volume = luo_cost_volume(coll, n);
    return n * volume * latency_s + volume * bytes / (0.8 * link);
}

/* Without a table. */
static luo_busbw of_formula(const luo_cluster *cluster, int coll, const luo_members *members,
                            const luo_profile *profile, int32_t n, double bytes)
{
    bool pcie;
    const double link = ring_link(cluster, members, &pcie);
    const double latency_s =
        luo_cluster_path_latency(cluster, luo_members_device(cluster, members, 0),
                                 luo_members_device(cluster, members, members->n - 1));
    const double seconds = profile->cpu ? step_by_step(coll, n, bytes, link, latency_s)
                                        : ring_seconds(coll, n, bytes, link, pcie);
    return (luo_busbw){luo_cost_volume(coll, n) * bytes / seconds, 0.8 * link};
}

luo_busbw luo_busbw_of_profile(const luo_cost_ctx *ctx, int coll, const luo_members *members,
                               const luo_profile *profile, int32_t n, double bytes)
{
    const luo_cluster *cluster = ctx->cluster;
    const luo_node_group *group = &cluster->groups[cluster->nodes[members->node].group];
    const luo_curve *below = NULL, *above = NULL;
    luo_coll op = LUO_COLLS;
    if (!luo_busbw_curves_apply(group, profile) ||
        !find_curves(profile, coll, n, &below, &above, &op) || !curve_tells(group, below, above))
        return of_formula(cluster, coll, members, profile, n, bytes);
    if (!below) below = above;
    const double declared = declared_bytes_per_s(cluster, members);
    const over links = {profile->tables_bytes_per_s[inside_class(group)], declared,
                        most_bytes_per_s(group, coll, n, declared)};
    luo_busbw busbw = of_curve(below, &links, bytes);
    if (above && below != above) {
        const luo_busbw hi = of_curve(above, &links, bytes);
        const double x = (double)(n - below->devices) / (above->devices - below->devices);
        busbw.at_size += x * (hi.at_size - busbw.at_size);
        busbw.largest += x * (hi.largest - busbw.largest);
    }
    busbw.at_size *= ctx->stack->busbw_factor;
    busbw.largest *= ctx->stack->busbw_factor;
    return busbw;
}

luo_busbw luo_busbw_of_node(const luo_cost_ctx *ctx, int coll, const luo_members *members,
                            int32_t n, double bytes)
{
    luo_busbw slowest = {HUGE_VAL, HUGE_VAL};
    for (int32_t i = 0; i < members->n; i++) {
        const luo_profile *profile = luo_members_type(ctx->cluster, members, i);
        if (!profile) continue;
        const luo_busbw busbw = luo_busbw_of_profile(ctx, coll, members, profile, n, bytes);
        if (busbw.at_size < slowest.at_size) slowest = busbw;
    }
    return slowest;
}
