/* The policies: one function each, one row each. */
#include "core/plan/length_policies/length_policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const names[] = {
#define LUO_LENGTH_POLICY(policy, word, keys) word,
#include "core/plan/length_policies/length_policies.inc"
#undef LUO_LENGTH_POLICY
};

const char *luo_length_policy_name(luo_length_policy policy)
{
    return (unsigned)policy < LUO_LENGTH_POLICIES ? names[policy] : "?";
}

bool luo_length_policy_find(const char *name, luo_length_policy *out)
{
    for (int32_t p = 0; p < LUO_LENGTH_POLICIES; p++) {
        if (strcmp(names[p], name) != 0) continue;
        *out = (luo_length_policy)p;
        return true;
    }
    return false;
}

luo_status luo_length_alike(luo_arena *arena, const luo_length_rivals *rivals, int32_t entry,
                            luo_replicas *out, luo_err *err)
{
    const int32_t n = rivals->devices / luo_pool_devices(&rivals->pool->entry[entry]);
    luo_replica *replica = LUO_NEW_N(arena, luo_replica, n);
    if (!replica) return luo_err_nomem(err);
    for (int32_t r = 0; r < n; r++) replica[r] = (luo_replica){entry, 1};
    *out = (luo_replicas){n, replica};
    luo_step_speeds(rivals->pool, out, rivals->rate);
    return LUO_OK;
}

typedef struct batch {
    luo_arena *arena;
    const luo_length_rivals *rivals;
    int32_t current, n;
    const int64_t *length;
} batch;

/* ---- equal replicas ---- */

/* Is there an entry that the policy could choose? */
static luo_status has_entry(const batch *b, int32_t entry, luo_err *err)
{
    if (entry >= 0) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "no equal replicas on %d devices hold %lld tokens; more memory is needed.",
                       b->rivals->devices, (long long)b->rivals->ctx);
}

/* Sequences of one replica, and their places in the batch. */
static luo_status sequences_of(const batch *b, const int32_t *assign, int32_t r, int64_t **own,
                               int32_t **place, int32_t *n, luo_err *err)
{
    *n = 0;
    for (int32_t i = 0; i < b->n; i++) *n += assign[i] == r;
    *own = LUO_NEW_N(b->arena, int64_t, *n);
    *place = LUO_NEW_N(b->arena, int32_t, *n);
    if (!*own || !*place) return luo_err_nomem(err);
    int32_t k = 0;
    for (int32_t i = 0; i < b->n; i++) {
        if (assign[i] != r) continue;
        (*place)[k] = i;
        (*own)[k++] = b->length[i];
    }
    return LUO_OK;
}

/* One packing function for every replica of an assignment. */
typedef luo_status (*pack_fn)(const batch *b, const luo_pool_entry *e, int64_t *own, int32_t n,
                              int32_t *bin, luo_packed *out, luo_err *err);

static luo_status pack_each(const batch *b, const luo_replicas *plan, pack_fn pack,
                            luo_step_plan *step_plan, luo_err *err)
{
    const luo_pool *pool = b->rivals->pool;
    for (int32_t r = 0; r < plan->n; r++) {
        int64_t *own;
        int32_t *place, n;
        LUO_TRY(sequences_of(b, step_plan->assign, r, &own, &place, &n, err));
        int32_t *bin = LUO_NEW_N(b->arena, int32_t, n);
        if (!bin) return luo_err_nomem(err);
        LUO_TRY(
            pack(b, &pool->entry[plan->replica[r].entry], own, n, bin, &step_plan->packed[r], err));
        for (int32_t k = 0; k < n; k++) step_plan->bin[place[k]] = bin[k];
    }
    return luo_step_event(b->arena, pool, plan, step_plan->packed, NULL, &step_plan->event, err);
}

/* Every sequence is a micro-batch that is filled up to the context. */
static luo_status pad_all(const batch *b, const luo_pool_entry *entry, int64_t *own, int32_t n,
                          int32_t *bin, luo_packed *out, luo_err *err)
{
    for (int32_t k = 0; k < n; k++) own[k] = b->rivals->ctx;
    return luo_pack_single(b->arena, entry, own, n, bin, out, err);
}

static luo_status pack_full(const batch *b, const luo_pool_entry *entry, int64_t *own, int32_t n,
                            int32_t *bin, luo_packed *out, luo_err *err)
{
    const int64_t room = entry->cap < b->rivals->ctx ? entry->cap : b->rivals->ctx;
    return luo_pack_greedy(b->arena, entry, own, n, room, bin, out, err);
}

/* What is missing to the context is one more sequence of each micro-batch. */
static luo_status pack_padded(const batch *b, const luo_pool_entry *entry, int64_t *own, int32_t n,
                              int32_t *bin, luo_packed *out, luo_err *err)
{
    LUO_TRY(pack_full(b, entry, own, n, bin, out, err));
    for (int32_t u = 0; u < out->nbins; u++) {
        out->t[u] += luo_pool_cost(entry, b->rivals->ctx - out->tokens[u]);
        out->tokens[u] = b->rivals->ctx;
    }
    /* Emitted by falling time as every packing is. */
    for (int32_t i = 1; i < out->nbins; i++)
        for (int32_t k = i; k > 0 && out->t[k] > out->t[k - 1]; k--) {
            const double t = out->t[k];
            out->t[k] = out->t[k - 1], out->t[k - 1] = t;
            for (int32_t q = 0; q < n; q++)
                bin[q] = bin[q] == k ? k - 1 : bin[q] == k - 1 ? k : bin[q];
        }
    return LUO_OK;
}

static luo_status assign_equal(const batch *b, const luo_replicas *plan, luo_length_assign how,
                               luo_step_plan *step_plan, luo_err *err)
{
    const luo_step_opts *step = &b->rivals->step;
    const luo_dispatch_opts opts = {
        .published = step->published, .kicks = step->kicks, .seed = step->seed};
    int32_t *order;
    switch (how) {
    case LUO_ASSIGN_BALANCED:
        return luo_dispatch(b->arena, b->rivals->pool, plan->replica, plan->n, b->length, b->n,
                            &opts, step_plan->assign, &step_plan->dispatch, err);
    case LUO_ASSIGN_ARRIVAL:
        for (int32_t i = 0; i < b->n; i++) step_plan->assign[i] = i % plan->n;
        return LUO_OK;
    case LUO_ASSIGN_SORTED:
        order = LUO_NEW_N(b->arena, int32_t, b->n);
        if (!order) return luo_err_nomem(err);
        LUO_TRY(luo_dispatch_order(b->arena, b->length, b->n, order, err));
        for (int64_t i = 0; i < b->n; i++)
            step_plan->assign[order[i]] = (int32_t)(i * plan->n / b->n);
        return LUO_OK;
    }
    assert(0);
    return LUO_EBUG;
}

static luo_status on_equal(const batch *b, luo_length_assign how, pack_fn pack,
                           luo_step_plan *step_plan, luo_err *err)
{
    luo_replicas plan;
    LUO_TRY(has_entry(b, b->rivals->alike, err));
    const luo_pool_entry *entry = &b->rivals->pool->entry[b->rivals->alike];
    LUO_TRY(luo_length_alike(b->arena, b->rivals, b->rivals->alike, &plan, err));
    *step_plan = (luo_step_plan){.plan = -1,
                                 .assign = LUO_NEW_N(b->arena, int32_t, b->n),
                                 .bin = LUO_NEW_N(b->arena, int32_t, b->n),
                                 .packed = LUO_NEW_N(b->arena, luo_packed, plan.n)};
    if (!step_plan->assign || !step_plan->bin || !step_plan->packed) return luo_err_nomem(err);
    for (int32_t i = 0; i < b->n; i++)
        if (b->length[i] > b->rivals->ctx || b->length[i] > entry->cap)
            return luo_err_set(err, LUO_EINFEASIBLE,
                               "a sequence of %lld tokens is above the context of %lld.",
                               (long long)b->length[i], (long long)b->rivals->ctx);
    LUO_TRY(assign_equal(b, &plan, how, step_plan, err));
    return pack_each(b, &plan, pack, step_plan, err);
}

static luo_status padding(const batch *b, luo_step_plan *plan, luo_err *err)
{
    return on_equal(b, LUO_ASSIGN_ARRIVAL, pad_all, plan, err);
}

static luo_status pack_static(const batch *b, luo_step_plan *plan, luo_err *err)
{
    return on_equal(b, LUO_ASSIGN_BALANCED, pack_padded, plan, err);
}

static luo_status pack_dynamic(const batch *b, luo_step_plan *plan, luo_err *err)
{
    return on_equal(b, b->rivals->assign, pack_full, plan, err);
}

luo_status luo_length_pack_full(luo_arena *arena, const luo_length_rivals *rivals,
                                const int64_t *length, int32_t n, const luo_step_plan *step,
                                luo_step_plan *out, luo_err *err)
{
    const luo_replicas *plan = &rivals->candidates->plan[step->plan];
    const batch b = {.arena = arena, .rivals = rivals, .length = length, .n = n};
    *out = (luo_step_plan){.plan = step->plan,
                           .assign = step->assign,
                           .dispatch = step->dispatch,
                           .bin = LUO_NEW_N(arena, int32_t, n),
                           .packed = LUO_NEW_N(arena, luo_packed, plan->n)};
    if (!out->bin || !out->packed) return luo_err_nomem(err);
    return pack_each(&b, plan, pack_full, out, err);
}

/* ---- dispatch and packing of ours ---- */

static luo_status choose(const batch *b, const luo_replicas *plans, int32_t n, luo_step_plan *plan,
                         luo_err *err)
{
    luo_step_opts opts = b->rivals->step;
    opts.current = b->current;
    return luo_step_choose(b->arena, b->rivals->pool, plans, n, b->length, b->n, &opts, plan, err);
}

static luo_status uniform_best(const batch *b, luo_step_plan *step_plan, luo_err *err)
{
    luo_replicas plan;
    LUO_TRY(has_entry(b, b->rivals->uniform, err));
    LUO_TRY(luo_length_alike(b->arena, b->rivals, b->rivals->uniform, &plan, err));
    return choose(b, &plan, 1, step_plan, err);
}

static luo_status one_plan(const batch *b, luo_step_plan *plan, luo_err *err)
{
    LUO_TRY(choose(b, &b->rivals->candidates->plan[b->rivals->plan], 1, plan, err));
    plan->plan = b->rivals->plan;
    return LUO_OK;
}

static luo_status hydraulis(const batch *b, luo_step_plan *plan, luo_err *err)
{
    return choose(b, b->rivals->candidates->plan, b->rivals->candidates->n, plan, err);
}

luo_status luo_length_bucket_step(luo_arena *arena, const luo_length_rivals *rivals, int32_t k,
                                  const int64_t *length, int32_t n, luo_step_plan *step,
                                  luo_err *err)
{
    const batch b = {arena, rivals, -1, n, length};
    luo_replicas plan;
    LUO_TRY(luo_length_alike(arena, rivals, rivals->bucket[k].entry, &plan, err));
    return choose(&b, &plan, 1, step, err);
}

/* One bucket after another on all devices; the step is their sum. */
static luo_status hotspa(const batch *b, luo_step_plan *plan, luo_err *err)
{
    const luo_length_rivals *rivals = b->rivals;
    int64_t *own = LUO_NEW_N(b->arena, int64_t, b->n);
    int32_t last = -1;
    double ms = 0;
    if (!own) return luo_err_nomem(err);
    LUO_TRY(has_entry(b, rivals->nbuckets > 0 ? 0 : -1, err));
    for (int32_t k = 0; k < rivals->nbuckets; k++) {
        luo_step_plan of;
        int32_t n = 0;
        for (int32_t i = 0; i < b->n; i++)
            if (b->length[i] > rivals->bucket[k].low && b->length[i] <= rivals->bucket[k].high)
                own[n++] = b->length[i];
        if (n == 0) continue;
        LUO_TRY(luo_length_bucket_step(b->arena, rivals, k, own, n, &of, err));
        ms += of.event;
        if (last >= 0 && last != rivals->bucket[k].entry) ms += rivals->switch_ms;
        last = rivals->bucket[k].entry;
    }
    *plan = (luo_step_plan){.plan = -1, .event = ms};
    return LUO_OK;
}

typedef luo_status (*policy_fn)(const batch *b, luo_step_plan *s, luo_err *err);
static const policy_fn policies[] = {
    [LUO_LENGTH_POLICY_PADDING] = padding,
    [LUO_LENGTH_POLICY_PACK_STATIC] = pack_static,
    [LUO_LENGTH_POLICY_PACK_DYNAMIC] = pack_dynamic,
    [LUO_LENGTH_POLICY_UNIFORM_BEST] = uniform_best,
    [LUO_LENGTH_POLICY_HOTSPA] = hotspa,
    [LUO_LENGTH_POLICY_ONE_PLAN] = one_plan,
    [LUO_LENGTH_POLICY_HYDRAULIS] = hydraulis,
};
_Static_assert(sizeof policies / sizeof *policies == LUO_LENGTH_POLICIES, "a function each");

luo_status luo_length_policy_step(luo_arena *arena, const luo_length_rivals *rivals,
                                  luo_length_policy policy, int32_t current, const int64_t *length,
                                  int32_t n, double *ms, luo_step_plan *step, luo_err *err)
{
    const batch b = {arena, rivals, current, n, length};
    luo_step_plan plan;
    LUO_TRY(policies[policy](&b, &plan, err));
    *ms = plan.event;
    if (step) *step = plan;
    return LUO_OK;
}
