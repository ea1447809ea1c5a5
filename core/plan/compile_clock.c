/* compile_clock.c: estimates that put calls in order: profiles of the cluster and the
 * default stack, without health and base slowdowns, so that every machine finds the same order. */
#include "core/plan/compile_clock.h"

#include "core/cost/cost.h"

static int32_t kind(const void *ctx, int32_t device)
{
    const luo_plan_clock *clock = ctx;
    return clock->cluster->devices[device].kind;
}

static luo_status work(const void *ctx, int32_t device, const luo_cost_key *key, double *seconds)
{
    const luo_plan_clock *clock = ctx;
    luo_err err;
    return luo_cost_key_seconds(luo_cluster_profile(clock->cluster, device), &clock->stack, key,
                                clock->dtype, seconds, &err);
}

static bool leaves_node(const luo_cluster *cluster, const int32_t *dev, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (cluster->devices[dev[i]].node != cluster->devices[dev[0]].node) return true;
    return false;
}

/* What twice the bytes take more is what these bytes need to move. */
static luo_status call(const void *ctx, int32_t coll, const int32_t *dev, int32_t n, int64_t bytes,
                       double *fixed, double *moving, int32_t *link)
{
    const luo_plan_clock *clock = ctx;
    const luo_cost_ctx cost = {
        .cluster = clock->cluster, .stack = &clock->stack, .dtype = clock->dtype};
    const double once = luo_cost_group_seconds(&cost, coll, dev, n, bytes, 0);
    const double twice = luo_cost_group_seconds(&cost, coll, dev, n, 2 * bytes, 0);
    *moving = twice - once < once ? twice - once : once;
    *fixed = once - *moving;
    *link = leaves_node(clock->cluster, dev, n);
    return LUO_OK;
}

void luo_plan_clock_init(luo_plan_clock *clock, const luo_cluster *cluster, luo_dtype dtype)
{
    *clock = (luo_plan_clock){.cluster = cluster,
                              .dtype = dtype,
                              .clock = {.ctx = clock, .kind = kind, .work = work, .call = call}};
    luo_stack_default(&clock->stack);
}
