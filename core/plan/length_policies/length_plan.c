/* From a policy's choice for a batch to the plans that are compiled. */
#include "core/plan/length_policies/length_plan.h"

#include <string.h>

typedef struct making {
    luo_arena *arena;
    const luo_length_rivals *rivals;
    const luo_step_place *place;
} making;

/* ---- where optimizer state lies ---- */

luo_status luo_length_plan_layout(luo_arena *arena, const luo_length_rivals *rivals,
                                  const luo_step_place *place, int32_t entry,
                                  luo_optimizer_layout *layout, luo_step_place *out, luo_err *err)
{
    const luo_pool_entry *pool_entry = &rivals->pool->entry[entry];
    const int32_t size = luo_pool_devices(pool_entry), replicas = rivals->devices / size;
    int32_t *dev = LUO_NEW_N(arena, int32_t, (int64_t)replicas * size);
    if (!dev) return luo_err_nomem(err);
    *layout = (luo_optimizer_layout){replicas * pool_entry->cp, pool_entry->tp, pool_entry->pp};
    for (int32_t r = 0; r < replicas; r++)
        for (int32_t s = 0; s < pool_entry->pp; s++)
            for (int32_t c = 0; c < pool_entry->cp; c++)
                memcpy(dev + (int64_t)pool_entry->tp *
                                 (r * pool_entry->cp + c + (int64_t)layout->dp * s),
                       place->devices + (int64_t)r * size +
                           (s * pool_entry->cp + c) * pool_entry->tp,
                       (size_t)pool_entry->tp * sizeof *dev);
    *out = *place;
    out->layout = layout;
    out->layout_devices = dev;
    return LUO_OK;
}

/* ---- one plan ---- */

typedef struct batch {
    const int64_t *length;
    const int32_t *number; /* of each in the whole batch; NULL: in order */
    int32_t n;
} batch;

static luo_status make(const making *m, const luo_step_place *place, const luo_replicas *replicas,
                       const luo_step_plan *step, const batch *b, luo_length_stretch *out,
                       luo_err *err)
{
    const luo_pool *pool = m->rivals->pool;
    LUO_TRY(luo_step_plan_make(m->arena, place, pool, replicas, step, b->length, b->number, b->n,
                               &out->plan, err));
    return luo_step_plan_strip(m->arena, out->plan, &out->frame, err);
}

static luo_status make_single(const making *m, const luo_step_place *place,
                              const luo_replicas *replicas, const batch *b, luo_length_plans *out,
                              luo_err *err)
{
    out->n = 1;
    out->part = LUO_NEW(m->arena, luo_length_stretch);
    if (!out->part) return luo_err_nomem(err);
    return make(m, place, replicas, &out->step, b, out->part, err);
}

static luo_status on_alike(const making *m, int32_t entry, const batch *b, luo_length_plans *out,
                           luo_err *err)
{
    luo_optimizer_layout layout;
    luo_step_place place;
    luo_replicas replicas;
    LUO_TRY(luo_length_plan_layout(m->arena, m->rivals, m->place, entry, &layout, &place, err));
    LUO_TRY(luo_length_alike(m->arena, m->rivals, entry, &replicas, err));
    return make_single(m, &place, &replicas, b, out, err);
}

/* ---- buckets ---- */

static luo_status by_bucket(const making *m, const batch *b, luo_length_plans *out, luo_err *err)
{
    const luo_length_rivals *rivals = m->rivals;
    out->part = LUO_NEW_N(m->arena, luo_length_stretch, rivals->nbuckets);
    if (!out->part) return luo_err_nomem(err);
    for (int32_t k = 0; k < rivals->nbuckets; k++) {
        int64_t *own = LUO_NEW_N(m->arena, int64_t, b->n);
        int32_t *number = LUO_NEW_N(m->arena, int32_t, b->n);
        batch part = {own, number, 0};
        luo_replicas replicas;
        luo_step_plan step;
        if (!own || !number) return luo_err_nomem(err);
        for (int32_t i = 0; i < b->n; i++) {
            if (b->length[i] <= rivals->bucket[k].low || b->length[i] > rivals->bucket[k].high)
                continue;
            number[part.n] = i;
            own[part.n++] = b->length[i];
        }
        if (part.n == 0) continue;
        LUO_TRY(luo_length_alike(m->arena, rivals, rivals->bucket[k].entry, &replicas, err));
        LUO_TRY(luo_length_bucket_step(m->arena, rivals, k, own, part.n, &step, err));
        LUO_TRY(make(m, m->place, &replicas, &step, &part, &out->part[out->n++], err));
    }
    return LUO_OK;
}

/* ---- all policies ---- */

luo_status luo_length_plan_of(luo_arena *arena, const luo_length_rivals *rivals,
                              const luo_step_place *place, const luo_step_plan *step,
                              const int64_t *length, int32_t n, luo_length_plans *out, luo_err *err)
{
    const making m = {arena, rivals, place};
    const batch b = {length, NULL, n};
    *out = (luo_length_plans){.step = *step, .ms = step->event};
    return make_single(&m, place, &rivals->candidates->plan[step->plan], &b, out, err);
}

luo_status luo_length_plan(luo_arena *arena, const luo_length_rivals *rivals,
                           const luo_step_place *place, luo_length_policy policy, int32_t current,
                           const int64_t *length, int32_t n, luo_length_plans *out, luo_err *err)
{
    const making m = {arena, rivals, place};
    const batch b = {length, NULL, n};
    luo_length_plans plans = {0};
    LUO_TRY(luo_length_policy_step(arena, rivals, policy, current, length, n, &plans.ms,
                                   &plans.step, err));
    luo_status st = LUO_OK;
    switch (policy) {
    case LUO_LENGTH_POLICY_PADDING:
    case LUO_LENGTH_POLICY_PACK_STATIC:
    case LUO_LENGTH_POLICY_PACK_DYNAMIC:
        st = on_alike(&m, rivals->alike, &b, &plans, err);
        break;
    case LUO_LENGTH_POLICY_UNIFORM_BEST:
        st = on_alike(&m, rivals->uniform, &b, &plans, err);
        break;
    case LUO_LENGTH_POLICY_ONE_PLAN:
    case LUO_LENGTH_POLICY_HYDRAULIS:
        st = make_single(&m, place, &rivals->candidates->plan[plans.step.plan], &b, &plans, err);
        break;
    case LUO_LENGTH_POLICY_HOTSPA:
        st = by_bucket(&m, &b, &plans, err);
        break;
    case LUO_LENGTH_POLICIES:
        st = luo_err_set(err, LUO_EBUG, "no policy for uneven lengths.");
        break;
    }
    if (st == LUO_OK) *out = plans;
    return st;
}
