/* Layouts of optimizer state beside each other, on the same batches. */
#include "core/run/policy/judge_layouts.h"

#include <math.h>
#include <string.h>

#include "core/plan/length_policies/length_setup.h"

enum { BY_POOL = 6, BY_STEP = 2 };
static const double FAR = 1.15; /* by the pool: equal replicas that are not simulated */

typedef struct option { /* equal replicas of an entry, or a candidate */
    int32_t at;
    double seconds;
} option;

typedef struct comparing {
    luo_arena *arena, *scratch;
    const luo_judge *judge;
    const luo_length_rivals *rivals;
    const luo_step_place *place;
    luo_length_policy policy; /* whose options they are */
    int64_t longest;          /* that an option has to hold */
    const luo_length_sample *batch;
    int32_t nbatches;
    const double *rate;
    int32_t alike; /* of one_plan: equal replicas whose own layout it is are an option; -1: none */
} comparing;

/* ---- options of a policy ---- */

/* NULL: it has none. */
static int32_t *choice_of(luo_length_rivals *rivals, luo_length_policy policy)
{
    switch (policy) {
    case LUO_LENGTH_POLICY_PADDING:
    case LUO_LENGTH_POLICY_PACK_STATIC:
    case LUO_LENGTH_POLICY_PACK_DYNAMIC:
        return &rivals->alike;
    case LUO_LENGTH_POLICY_UNIFORM_BEST:
        return &rivals->uniform;
    case LUO_LENGTH_POLICY_ONE_PLAN:
        return &rivals->plan;
    case LUO_LENGTH_POLICY_HOTSPA:
    case LUO_LENGTH_POLICY_HYDRAULIS:
    case LUO_LENGTH_POLICIES:
        break;
    }
    return NULL;
}

static int32_t count_options(const comparing *c)
{
    return c->policy == LUO_LENGTH_POLICY_ONE_PLAN ? c->rivals->candidates->n : c->rivals->pool->n;
}

/* cut: the option cuts sequences. */
static bool is_allowed(const comparing *c, int32_t at, bool cut)
{
    const luo_pool_entry *entry = c->rivals->pool->entry;
    if (c->policy != LUO_LENGTH_POLICY_ONE_PLAN)
        return entry[at].cap >= c->longest && luo_pool_devices(&entry[at]) <= c->rivals->devices &&
               (entry[at].cp > 1) == cut;
    const luo_replicas *plan = &c->rivals->candidates->plan[at];
    bool any = false;
    for (int32_t r = 0; r < plan->n; r++) any |= entry[plan->replica[r].entry].cp > 1;
    return c->rivals->candidates->longest[at] >= c->longest && any == cut;
}

/* Of n, the first `most` in rising order come first. */
static void put_first(option *x, int32_t n, int32_t most)
{
    for (int32_t i = 0; i < n && i < most; i++)
        for (int32_t k = i + 1; k < n; k++)
            if (x[k].seconds < x[i].seconds) {
                const option other = x[i];
                x[i] = x[k];
                x[k] = other;
            }
}

static bool has_option(const option *x, int32_t n, int32_t at)
{
    for (int32_t i = 0; i < n; i++)
        if (x[i].at == at) return true;
    return false;
}

/* The best by the pool and, per option, what may move besides (NULL: nothing), from *n on, but for
 * those that are there. */
static luo_status list_kind(const comparing *c, bool cut, const double *moved_ms, option *all,
                            int32_t *n, luo_err *err)
{
    luo_length_rivals with = *c->rivals;
    option *out = all + *n;
    int32_t found = 0;
    for (int32_t k = 0; k < count_options(c); k++) {
        double ms;
        if (!is_allowed(c, k, cut) || has_option(all, *n, k)) continue;
        *choice_of(&with, c->policy) = k;
        LUO_TRY(luo_length_mean(c->scratch, &with, c->policy, c->batch, c->nbatches, &ms, err));
        if (moved_ms) ms += moved_ms[k];
        if (isfinite(ms)) out[found++] = (option){k, 1e-3 * ms};
    }
    put_first(out, found, BY_POOL);
    while (found > BY_POOL || (found > 0 && out[found - 1].seconds > FAR * out[0].seconds)) found--;
    *n += found;
    return LUO_OK;
}

/* All parts of the step, one after another; INFINITY: it cannot run. */
static luo_status simulate_batch(const comparing *c, const luo_length_rivals *with, int32_t k,
                                 double *seconds, luo_err *err)
{
    luo_length_plans plans = {0};
    luo_judge judge = *c->judge;
    luo_err why = {0};
    double sum = 0;
    luo_status st = luo_length_plan(c->scratch, with, c->place, c->policy, -1, c->batch[k].length,
                                    c->batch[k].n, &plans, &why);
    for (int32_t i = 0; st == LUO_OK && i < plans.n; i++) {
        luo_judgement judged;
        judge.part = (luo_step_part){.index = i, .n = plans.n};
        st = luo_judge_plan(&judge, plans.part[i].plan, c->place->ctx, c->rate, &judged, &why);
        sum += st == LUO_OK ? judged.seconds : 0;
    }
    *seconds = st == LUO_OK ? sum : (double)INFINITY;
    return st == LUO_OK || st == LUO_EINFEASIBLE ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}

/* Mean of the batches. */
static luo_status simulate_batches(const comparing *c, const luo_length_rivals *with,
                                   double *seconds, luo_err *err)
{
    *seconds = 0;
    for (int32_t k = 0; k < c->nbatches && isfinite(*seconds); k++) {
        double one;
        LUO_TRY(simulate_batch(c, with, k, &one, err));
        *seconds += one / c->nbatches;
    }
    return LUO_OK;
}

static luo_status simulate_option(const comparing *c, option *x, luo_err *err)
{
    luo_length_rivals with = *c->rivals;
    *choice_of(&with, c->policy) = x->at;
    return simulate_batches(c, &with, &x->seconds, err);
}

/* Per option. */
static luo_status find_moved_ms(const comparing *c, double **out, luo_err *err)
{
    const luo_length_rivals *rivals = c->rivals;
    const luo_stack *stack = c->judge->stack;
    if (c->policy == LUO_LENGTH_POLICY_ONE_PLAN)
        return luo_length_moved_ms(c->scratch, rivals->pool, rivals->candidates, c->place, stack,
                                   out, err);
    return luo_length_moved_alike_ms(c->scratch, rivals, c->place, stack, out, err);
}

/* The first BY_STEP are the fastest. A pool knows little of what cutting sequences costs: options
 * of both kinds are simulated. Nor does it know what replicas move, which on slow links is most of
 * a step: the best with all of it are simulated, too. Owner: scratch. */
static luo_status rank_options(const comparing *c, option **out, int32_t *n, luo_err *err)
{
    double *moved_ms;
    *n = 0;
    *out = LUO_NEW_N(c->scratch, option, count_options(c));
    if (!*out) return luo_err_nomem(err);
    const int32_t alike =
        c->policy == LUO_LENGTH_POLICY_ONE_PLAN ? luo_lengths_find_alike(c->rivals, c->alike) : -1;
    if (alike >= 0) (*out)[(*n)++].at = alike;
    LUO_TRY(find_moved_ms(c, &moved_ms, err));
    for (int cut = 0; cut < 2; cut++) LUO_TRY(list_kind(c, cut, NULL, *out, n, err));
    for (int cut = 0; cut < 2; cut++) LUO_TRY(list_kind(c, cut, moved_ms, *out, n, err));
    for (int32_t i = 0; i < *n; i++) LUO_TRY(simulate_option(c, &(*out)[i], err));
    put_first(*out, *n, BY_STEP);
    return LUO_OK;
}

luo_status luo_judge_rival(luo_arena *scratch, const luo_judge *judge, luo_length_policy policy,
                           const luo_step_place *place, const luo_length_sample *batch,
                           int32_t nbatches, const double *rate, luo_length_rivals *rivals,
                           luo_err *err)
{
    const comparing c = {.scratch = scratch,
                         .judge = judge,
                         .rivals = rivals,
                         .place = place,
                         .policy = policy,
                         .longest = rivals->ctx,
                         .batch = batch,
                         .nbatches = nbatches,
                         .rate = rate,
                         .alike = -1};
    int32_t *choice = choice_of(rivals, policy), n;
    const size_t mark = luo_arena_mark(scratch);
    option *x;
    if (!choice) return LUO_OK;
    const luo_status st = rank_options(&c, &x, &n, err);
    if (st == LUO_OK && n > 0 && isfinite(x[0].seconds)) *choice = x[0].at;
    luo_arena_reset(scratch, mark);
    return st;
}

/* ---- layouts ---- */

static luo_status place_of(const comparing *c, int32_t entry, luo_judged_layout *layout,
                           luo_step_place *place, luo_err *err)
{
    const luo_step_place *was = c->place;
    layout->alike = entry;
    *place = *was;
    place->layout = &layout->layout;
    place->layout_devices = NULL;
    layout->layout = luo_length_layout(was->model, was->cluster, was->devices, was->ndevices);
    if (entry >= 0)
        LUO_TRY(
            luo_length_plan_layout(c->arena, c->rivals, was, entry, &layout->layout, place, err));
    layout->devices = place->layout_devices;
    return LUO_OK;
}

/* The best plan of one_plan where state lies as equal replicas of the entry have it; -1: as wide as
 * a node. Into *best and *rivals, if it is faster than *best. */
static luo_status try_one_plan(const comparing *equal, int32_t entry, luo_length_rivals *rivals,
                               luo_judged_layout *best, luo_err *err)
{
    luo_judged_layout layout = {0};
    luo_step_place place;
    comparing c = *equal;
    option *plan;
    int32_t n;
    LUO_TRY(place_of(equal, entry, &layout, &place, err));
    c.policy = LUO_LENGTH_POLICY_ONE_PLAN;
    c.place = &place;
    c.alike = entry;
    LUO_TRY(rank_options(&c, &plan, &n, err));
    if (n == 0 || !(plan[0].seconds < best->seconds)) return LUO_OK;
    *best = layout;
    best->seconds = plan[0].seconds;
    rivals->plan = plan[0].at;
    return LUO_OK;
}

static luo_status try_plans(const comparing *equal, const option *x, int32_t n,
                            luo_length_rivals *rivals, luo_judged_layout *best, luo_err *err)
{
    for (int32_t i = 0; i < n; i++) LUO_TRY(try_one_plan(equal, x[i].at, rivals, best, err));
    return try_one_plan(equal, -1, rivals, best, err);
}

/* Buckets of `with`, where state lies as equal replicas of the entry have it; -1: as wide as a
 * node. As try_one_plan. */
static luo_status try_buckets(const comparing *equal, const luo_length_rivals *with, int32_t entry,
                              luo_length_rivals *rivals, luo_judged_layout *best, luo_err *err)
{
    luo_judged_layout layout = {0};
    luo_step_place place;
    comparing c = *equal;
    LUO_TRY(place_of(equal, entry, &layout, &place, err));
    c.policy = LUO_LENGTH_POLICY_HOTSPA;
    c.place = &place;
    LUO_TRY(simulate_batches(&c, with, &layout.seconds, err));
    if (!(layout.seconds < best->seconds)) return LUO_OK;
    *best = layout;
    rivals->bucket = with->bucket;
    rivals->nbuckets = with->nbuckets;
    return LUO_OK;
}

/* The buckets as they are, with the layouts of the fastest equal replicas and of their own. */
static luo_status try_layouts_of_buckets(const comparing *equal, const option *x, int32_t n,
                                         luo_length_rivals *rivals, luo_judged_layout *best,
                                         luo_err *err)
{
    const luo_length_rivals with = *rivals;
    LUO_TRY(try_buckets(equal, &with, -1, rivals, best, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(try_buckets(equal, &with, x[i].at, rivals, best, err));
    for (int32_t k = 0; k < with.nbuckets; k++) {
        const int32_t entry = with.bucket[k].entry;
        bool before = has_option(x, n, entry);
        for (int32_t j = 0; j < k; j++) before |= with.bucket[j].entry == entry;
        if (!before) LUO_TRY(try_buckets(equal, &with, entry, rivals, best, err));
    }
    return LUO_OK;
}

/* All lengths in one bucket, on equal replicas: nothing changes within a step. */
static luo_status try_one_bucket(const comparing *equal, int32_t entry, luo_length_rivals *rivals,
                                 luo_judged_layout *best, luo_err *err)
{
    luo_length_rivals with = *rivals;
    luo_length_bucket *bucket = LUO_NEW(equal->arena, luo_length_bucket);
    if (!bucket) return luo_err_nomem(err);
    *bucket = (luo_length_bucket){0, rivals->ctx, entry};
    with.bucket = bucket;
    with.nbuckets = 1;
    return try_buckets(equal, &with, entry, rivals, best, err);
}

static luo_status try_all_buckets(const comparing *equal, const option *x, int32_t n,
                                  luo_length_rivals *rivals, luo_judged_layout *best, luo_err *err)
{
    LUO_TRY(try_layouts_of_buckets(equal, x, n, rivals, best, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(try_one_bucket(equal, x[i].at, rivals, best, err));
    return LUO_OK;
}

luo_status luo_judge_rival_layout(luo_arena *arena, luo_arena *scratch, const luo_judge *judge,
                                  luo_length_policy policy, luo_length_rivals *rivals,
                                  const luo_step_place *place, const luo_length_sample *batch,
                                  int32_t nbatches, const double *rate, luo_judged_layout *out,
                                  luo_err *err)
{
    const comparing equal = {.arena = arena,
                             .scratch = scratch,
                             .judge = judge,
                             .rivals = rivals,
                             .place = place,
                             .policy = LUO_LENGTH_POLICY_UNIFORM_BEST,
                             .longest = rivals->ctx,
                             .batch = batch,
                             .nbatches = nbatches,
                             .rate = rate,
                             .alike = -1};
    const size_t mark = luo_arena_mark(scratch);
    option *x;
    int32_t n;
    *out = (luo_judged_layout){.alike = -1, .seconds = INFINITY};
    luo_status st = rank_options(&equal, &x, &n, err);
    if (st == LUO_OK && n > 0 && isfinite(x[0].seconds)) rivals->uniform = x[0].at;
    if (n > BY_STEP) n = BY_STEP;
    if (st == LUO_OK)
        st = (policy == LUO_LENGTH_POLICY_HOTSPA ? try_all_buckets : try_plans)(&equal, x, n,
                                                                               rivals, out, err);
    luo_arena_reset(scratch, mark);
    return st;
}

static luo_status try_layout(const comparing *c, int32_t entry, luo_judged_layout *layout,
                             luo_err *err)
{
    luo_length_rivals with = *c->rivals;
    luo_judged_lengths judged;
    luo_step_place place;
    luo_err why = {0};
    LUO_TRY(place_of(c, entry, layout, &place, err));
    if (entry >= 0) with.uniform = entry;
    LUO_TRY(luo_length_moved_ms(c->arena, with.pool, with.candidates, &place, c->judge->stack,
                                &layout->moved_ms, err));
    LUO_TRY(luo_lengths_learn_open(c->arena, with.pool, with.candidates, layout->moved_ms,
                                   &layout->learned, err));
    layout->seconds = 0;
    for (int32_t k = 0; k < c->nbatches && isfinite(layout->seconds); k++) {
        const luo_status st =
            luo_judge_lengths(c->scratch, c->judge, &with, &place, -1, c->batch[k].length,
                              c->batch[k].n, true, c->rate, &layout->learned, &judged, &why);
        if (st == LUO_ENOMEM || st == LUO_ECANCELED) return luo_err_set(err, st, "%s", why.text);
        layout->seconds += st == LUO_OK ? judged.seconds / c->nbatches : (double)INFINITY;
    }
    return LUO_OK;
}

static luo_status compare(const comparing *c, luo_judged_layout *best, luo_err *err)
{
    option *equal;
    int32_t n;
    LUO_TRY(rank_options(c, &equal, &n, err));
    LUO_TRY(try_layout(c, -1, best, err));
    for (int32_t i = 0; i < n && i < BY_STEP; i++) {
        luo_judged_layout layout;
        LUO_TRY(try_layout(c, equal[i].at, &layout, err));
        if (layout.seconds <= best->seconds) *best = layout;
    }
    return LUO_OK;
}

luo_status luo_judge_layouts(luo_arena *arena, luo_arena *scratch, const luo_judge *judge,
                             const luo_length_rivals *rivals, const luo_step_place *place,
                             const luo_length_sample *batch, int32_t nbatches, const double *rate,
                             luo_judged_layout *out, luo_err *err)
{
    comparing c = {arena, scratch, judge,    rivals, place, LUO_LENGTH_POLICY_UNIFORM_BEST,
                   0,     batch,   nbatches, rate,   -1};
    for (int32_t k = 0; k < nbatches; k++)
        for (int32_t i = 0; i < batch[k].n; i++)
            if (batch[k].length[i] > c.longest) c.longest = batch[k].length[i];
    const size_t mark = luo_arena_mark(scratch);
    const luo_status st = compare(&c, out, err);
    luo_arena_reset(scratch, mark);
    return st;
}
