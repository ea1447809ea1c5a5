#include "core/cost/spread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROFILE(field) offsetof(luo_profile, field)
#define STACK(field) offsetof(luo_stack, field)
#define ALONE SIZE_MAX

/* What spread a constant has where its file gives none. */
typedef enum prior {
    PRIOR_SOURCE, /* by its provenance; that of a default where it is not given */
    PRIOR_FACTOR, /* a factor on a constant of the profile: by its provenance, 0 if not given */
    PRIOR_NONE    /* 0 */
} prior;

/* The uncertain constants. Peaks and sizes of memory are definitions: the ratios beside them carry
 * what a program reaches. */
typedef struct constant_row {
    const char *name, *also;
    bool of_stack;
    size_t at, also_at; /* fields, in SI units */
    prior spread;
    int slows;  /* a step takes longer with less of it, -1, or more, 1 */
    bool major; /* it matters in most steps, so it is looked at by itself */
} constant_row;
static const constant_row rows[] = {
    {"gemm_ratio", NULL, false, PROFILE(gemm_ratio), ALONE, PRIOR_SOURCE, -1, true},
    {"memory_ratio", NULL, false, PROFILE(memory_ratio), ALONE, PRIOR_SOURCE, -1, true},
    {"attention_forward_ratio", "attention_backward_ratio", false, PROFILE(attention_forward_ratio),
     PROFILE(attention_backward_ratio), PRIOR_SOURCE, -1, true},
    {"net_ratio", NULL, false, PROFILE(net_ratio), ALONE, PRIOR_SOURCE, -1, true},
    {"net_half_bytes", NULL, false, PROFILE(net_half_bytes), ALONE, PRIOR_SOURCE, 1, false},
    {"net_step_us", NULL, false, PROFILE(net_step_s), ALONE, PRIOR_SOURCE, 1, false},
    {"launch_us", NULL, false, PROFILE(launch_s), ALONE, PRIOR_SOURCE, 1, false},
    {"p2p_us", NULL, false, PROFILE(p2p_s), ALONE, PRIOR_SOURCE, 1, false},
    {"gemm_depth", NULL, false, PROFILE(gemm_depth), ALONE, PRIOR_NONE, 1, false},
    {"attention_depth", NULL, false, PROFILE(attention_depth), ALONE, PRIOR_NONE, 1, false},
    {"misaligned_factor", NULL, false, PROFILE(misaligned_factor), ALONE, PRIOR_NONE, 1, false},
    {"overlap_loss_nvlink_ratio", NULL, false, PROFILE(overlap_loss_nvlink_ratio), ALONE,
     PRIOR_NONE, 1, false},
    {"overlap_loss_net_ratio", NULL, false, PROFILE(overlap_loss_net_ratio), ALONE, PRIOR_NONE, 1,
     false},
    {"host_launch_us", NULL, true, STACK(host_launch_s), ALONE, PRIOR_SOURCE, 1, true},
    {"gemm_ratio", NULL, true, STACK(gemm_ratio), ALONE, PRIOR_FACTOR, -1, true},
    {"attention_ratio", NULL, true, STACK(attention_ratio), ALONE, PRIOR_FACTOR, -1, true},
    {"busbw_factor", NULL, true, STACK(busbw_factor), ALONE, PRIOR_SOURCE, -1, true},
    {"tp_exposed_factor", NULL, true, STACK(tp_exposed_factor), ALONE, PRIOR_SOURCE, 1, true},
    {"host_exponent", NULL, true, STACK(host_exponent), ALONE, PRIOR_NONE, -1, false},
    {"kernels_forward", NULL, true, STACK(kernels_forward), ALONE, PRIOR_NONE, 1, false},
    {"grad_comm_bytes", NULL, true, STACK(grad_comm_bytes), ALONE, PRIOR_NONE, 1, false},
    {"optimizer_bytes", NULL, true, STACK(optimizer_bytes), ALONE, PRIOR_NONE, 1, false},
    {"scale_jitter", NULL, true, STACK(scale_jitter), ALONE, PRIOR_NONE, 1, false}};
enum { ROWS = sizeof rows / sizeof *rows };

static const constant_row *row_of(const char *name, bool of_stack)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].of_stack == of_stack &&
            (strcmp(rows[i].name, name) == 0 || (rows[i].also && strcmp(rows[i].also, name) == 0)))
            return &rows[i];
    return NULL;
}

bool luo_spread_allowed(const char *name, bool of_stack)
{
    return row_of(name, of_stack) != NULL;
}

luo_status luo_spread_refuse(const char *name, luo_err *err)
{
    return luo_err_set(err, LUO_EINPUT,
                       "`spread` is given for `%s`, which has none: ranges come from rates and "
                       "efficiencies; leave it out.",
                       name);
}

/* ---- the constants of a cluster ---- */

static const luo_value *value_of(const luo_profile *profile, const char *name)
{
    for (int32_t i = 0; i < profile->nvalues; i++)
        if (strcmp(profile->values[i].name, name) == 0) return &profile->values[i];
    return NULL;
}

static bool is_found(luo_provenance provenance)
{
    return provenance == LUO_FROM_MEASURED || provenance == LUO_FROM_FITTED;
}

static double spread_of(prior how, const luo_value *value)
{
    if (value && value->has_spread) return value->spread;
    if (how == PRIOR_NONE || (how == PRIOR_FACTOR && !value)) return 0;
    if (value && value->provenance == LUO_FROM_MEASURED) return LUO_SPREAD_MEASURED;
    if (value && value->provenance == LUO_FROM_FITTED) return LUO_SPREAD_FITTED;
    return LUO_SPREAD_DEFAULT;
}

static const char *origin_of(const luo_value *value)
{
    return !value || value->provenance == LUO_FROM_CHOSEN ? "default"
                                                          : luo_provenance_name(value->provenance);
}

/* Of a profile's values, or of the stack's. */
static void add_constant(luo_constant *at, int32_t *n, const constant_row *row,
                         const luo_profile *profile, const luo_stack *stack)
{
    const luo_value *value =
        profile ? value_of(profile, row->name) : luo_stack_given(stack, row->name);
    const luo_value *also = row->also && profile ? value_of(profile, row->also) : NULL;
    double spread = spread_of(row->spread, value);
    if (row->also && spread_of(row->spread, also) > spread) { /* the less sure of the two */
        spread = spread_of(row->spread, also);
        value = also;
    }
    if (!(spread > 0)) return;
    at[(*n)++] = (luo_constant){row->name, row->also, profile, origin_of(value), spread};
}

/* Kinds whose profiles have one name are of one type, whether or not they share the struct. */
static bool is_first(const luo_cluster *cluster, int32_t kind)
{
    const char *name = luo_device_kind_profile(cluster, kind)->name;
    for (int32_t k = 0; k < kind; k++)
        if (strcmp(luo_device_kind_profile(cluster, k)->name, name) == 0) return false;
    return true;
}

luo_status luo_constants_of(luo_arena *arena, const luo_cluster *cluster, const luo_stack *stack,
                            luo_constants *out, luo_err *err)
{
    luo_constant *at = LUO_NEW_N(arena, luo_constant, (cluster->nkinds + 1) * ROWS);
    int32_t n = 0;
    if (!at) return luo_err_nomem(err);
    for (int32_t k = 0; k < cluster->nkinds; k++)
        for (int i = 0; i < ROWS && is_first(cluster, k); i++)
            if (!rows[i].of_stack)
                add_constant(at, &n, &rows[i], luo_device_kind_profile(cluster, k), stack);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].of_stack) add_constant(at, &n, &rows[i], NULL, stack);
    *out = (luo_constants){cluster, stack, n, at};
    return LUO_OK;
}

/* ---- other values ---- */

static luo_value_key key_of(const char *name, bool of_stack)
{
    luo_value_key key;
    for (int i = 0; of_stack ? luo_stack_value_key(i, &key) : luo_profile_value_key(i, &key); i++)
        if (strcmp(key.name, name) == 0) return key;
    return (luo_value_key){0}; /* every row of the table is a key: tests/unit/check_spread.c */
}

/* Multiplies a field of `things`; returns by how much its logarithm grew. */
static double move_field(void *things, size_t at, const char *name, bool of_stack, double shift)
{
    double v;
    const luo_value_key key = key_of(name, of_stack);
    memcpy(&v, (char *)things + at, sizeof v);
    if (!(v > 0) || shift == 0) return 0;
    const double unit = key.unit, was = v / unit;
    const luo_limit limit = luo_limit_for(&key.limit, was);
    const double now = fmin(fmax(was * exp(shift), limit.lo), limit.hi);
    if (!(now > 0)) return 0;
    v = now * unit;
    memcpy((char *)things + at, &v, sizeof v);
    return log(now / was);
}

static double move_constant(void *things, const luo_constant *constant, double shift)
{
    const bool of_stack = constant->profile == NULL;
    const constant_row *row = row_of(constant->name, of_stack);
    const double taken = move_field(things, row->at, row->name, of_stack, shift);
    if (row->also) move_field(things, row->also_at, row->also, of_stack, taken);
    return taken;
}

/* A copy of a profile, with the constants of its type moved. */
static luo_status move_profile(luo_arena *arena, const luo_constants *constants,
                               const double *shift, const luo_profile **at, double *taken,
                               luo_err *err)
{
    luo_profile *to = LUO_NEW(arena, luo_profile);
    if (!to) return luo_err_nomem(err);
    *to = **at;
    for (int32_t i = 0; i < constants->n; i++) {
        if (!constants->at[i].profile || strcmp(constants->at[i].profile->name, to->name) != 0)
            continue;
        const double by = move_constant(to, &constants->at[i], shift[i]);
        if (taken && constants->at[i].profile == *at) taken[i] = by;
    }
    *at = to;
    return LUO_OK;
}

/* A group's own copies. Slots of one type share one. */
static luo_status move_group(luo_arena *arena, const luo_constants *constants, const double *shift,
                             luo_node_group *group, double *taken, luo_err *err)
{
    const luo_profile *const *was = group->profiles;
    const int32_t n = group->devices_per_node;
    if (!was) return move_profile(arena, constants, shift, &group->profile, taken, err);
    const luo_profile **now = LUO_NEW_N(arena, const luo_profile *, n);
    if (!now) return luo_err_nomem(err);
    for (int32_t s = 0; s < n; s++) {
        int32_t like = 0;
        while (was[like] != was[s]) like++;
        now[s] = like < s ? now[like] : was[s];
        if (like == s) LUO_TRY(move_profile(arena, constants, shift, &now[s], taken, err));
    }
    group->profile = now[0];
    group->profiles = now;
    return LUO_OK;
}

luo_status luo_constants_move(luo_arena *arena, const luo_constants *constants, const double *shift,
                              luo_cluster *cluster, luo_stack *stack, double *taken, luo_err *err)
{
    luo_node_group *groups = LUO_NEW_N(arena, luo_node_group, constants->cluster->ngroups);
    if (!groups) return luo_err_nomem(err);
    memcpy(groups, constants->cluster->groups,
           (size_t)constants->cluster->ngroups * sizeof *groups);
    *cluster = *constants->cluster;
    cluster->groups = groups;
    *stack = *constants->stack;
    for (int32_t g = 0; g < cluster->ngroups; g++)
        LUO_TRY(move_group(arena, constants, shift, &groups[g], taken, err));
    for (int32_t i = 0; i < constants->n; i++) {
        if (constants->at[i].profile) continue;
        const double by = move_constant(stack, &constants->at[i], shift[i]);
        if (taken) taken[i] = by;
    }
    return LUO_OK;
}

/* ---- ranges ---- */

static const double STEP = 0.1;     /* of ln(value), towards a longer step */
static const double LITTLE = 0.003; /* of ln(seconds): below it, 0 */

typedef struct predicting {
    luo_arena *scratch;
    const luo_constants *constants;
    const luo_prediction *prediction;
    double *shift, *taken;
    double seconds; /* with nothing moved; 0: not known yet */
} predicting;

static luo_status open_predicting(luo_arena *arena, const luo_constants *constants,
                                  const luo_prediction *prediction, predicting *out, luo_err *err)
{
    *out = (predicting){.scratch = luo_arena_new(1 << 16),
                        .constants = constants,
                        .prediction = prediction,
                        .shift = LUO_NEW_N(arena, double, constants->n + 1),
                        .taken = LUO_NEW_N(arena, double, constants->n + 1)};
    return out->scratch && out->shift && out->taken ? LUO_OK : luo_err_nomem(err);
}

/* *seconds stays where nothing was moved. */
static luo_status predict_seconds(predicting *p, double *seconds, luo_err *err)
{
    luo_cluster cluster;
    luo_stack stack;
    LUO_TRY(
        luo_constants_move(p->scratch, p->constants, p->shift, &cluster, &stack, p->taken, err));
    bool moved = p->seconds == 0;
    for (int32_t i = 0; i < p->constants->n; i++) moved |= p->taken[i] != 0;
    luo_status st = LUO_OK;
    if (moved)
        st = p->prediction->seconds(p->prediction->ctx, p->scratch, &cluster, &stack, seconds, err);
    luo_arena_reset(p->scratch, 0);
    return st;
}

static const constant_row *row_of_constant(const luo_constant *constant)
{
    return row_of(constant->name, constant->profile == NULL);
}

/* Constants [from, to), all moved by STEP towards a longer step; back: towards a shorter one.
 * *moved: how far the limits of their values let the one that went furthest. *sensitivity: of all
 * together, above 0 where the step is longer. */
static luo_status move_together(predicting *p, int32_t from, int32_t to, bool back,
                                double *sensitivity, double *moved, luo_err *err)
{
    double seconds = p->seconds;
    for (int32_t i = from; i < to; i++)
        p->shift[i] = (back ? -STEP : STEP) * row_of_constant(&p->constants->at[i])->slows;
    const luo_status st = predict_seconds(p, &seconds, err);
    *moved = 0;
    for (int32_t i = from; i < to; i++) {
        p->shift[i] = 0;
        *moved = fmax(*moved, fabs(p->taken[i]));
    }
    /* exact where a part of the step is proportional to the value, or to one over it */
    *sensitivity = *moved > 0 && p->seconds > 0
                       ? (seconds / p->seconds - 1) / expm1(back ? -*moved : *moved)
                       : 0;
    return st;
}

/* A value at its limit is moved the other way. */
static luo_status find_part(predicting *p, int32_t i, luo_range_part *part, luo_err *err)
{
    double sensitivity, moved;
    LUO_TRY(move_together(p, i, i + 1, false, &sensitivity, &moved, err));
    if (moved == 0) LUO_TRY(move_together(p, i, i + 1, true, &sensitivity, &moved, err));
    part->sensitivity = sensitivity * row_of_constant(&p->constants->at[i])->slows;
    return LUO_OK;
}

/* Constants [from, to) together, and where that matters, each half by itself. */
static luo_status find_parts(predicting *p, int32_t from, int32_t to, luo_range_part *part,
                             luo_err *err)
{
    const luo_constant *at = p->constants->at;
    double sensitivity, moved, widest = 0;
    if (from == to) return LUO_OK;
    if (to - from == 1) return find_part(p, from, &part[from], err);
    LUO_TRY(move_together(p, from, to, false, &sensitivity, &moved, err));
    for (int32_t i = from; i < to; i++) widest = fmax(widest, at[i].spread);
    if (fabs(sensitivity) * widest < LITTLE) return LUO_OK;
    const int32_t middle = from + (to - from) / 2;
    LUO_TRY(find_parts(p, from, middle, part, err));
    return find_parts(p, middle, to, part, err);
}

/* The major ones one by one, those between them together. */
static luo_status find_all_parts(predicting *p, luo_range_part *part, luo_err *err)
{
    const luo_constants *constants = p->constants;
    int32_t from = 0;
    LUO_TRY(predict_seconds(p, &p->seconds, err));
    for (int32_t i = 0; i < constants->n; i++) {
        const luo_constant *constant = &constants->at[i];
        part[i] = (luo_range_part){.name = constant->name,
                                   .of = constant->profile ? constant->profile->name : "",
                                   .origin = constant->origin,
                                   .spread = constant->spread};
        if (!row_of_constant(constant)->major) continue;
        LUO_TRY(find_parts(p, from, i, part, err));
        LUO_TRY(find_parts(p, i, i + 1, part, err));
        from = i + 1;
    }
    return find_parts(p, from, constants->n, part, err);
}

void luo_time_range_settle(luo_time_range *range)
{
    double sum = range->source * range->source + range->model * range->model;
    for (int32_t i = 0; i < range->n; i++) {
        const double one = range->part[i].sensitivity * range->part[i].spread;
        sum += one * one;
    }
    range->sd = sqrt(sum);
}

luo_status luo_time_range_of(luo_arena *arena, const luo_constants *constants,
                             const luo_prediction *prediction, luo_time_range *out, luo_err *err)
{
    predicting with;
    luo_range_part *part = LUO_NEW_N(arena, luo_range_part, constants->n + 1);
    luo_status st = open_predicting(arena, constants, prediction, &with, err);
    if (st == LUO_OK && !part) st = luo_err_nomem(err);
    if (st == LUO_OK && constants->n > 0) st = find_all_parts(&with, part, err);
    luo_arena_free(with.scratch);
    if (st != LUO_OK) return st;
    *out = (luo_time_range){.cluster = constants->cluster->name,
                            .stack = constants->stack->name,
                            .source = constants->stack->source_spread,
                            .model = constants->stack->residual_spread,
                            .n = constants->n,
                            .part = part};
    luo_time_range_settle(out);
    return LUO_OK;
}

double luo_time_range_low(const luo_time_range *range, double seconds)
{
    return seconds * exp(-LUO_RANGE_SDS * range->sd);
}

double luo_time_range_high(const luo_time_range *range, double seconds)
{
    return seconds * exp(LUO_RANGE_SDS * range->sd);
}

/* ---- pairs ---- */

static double effect_of(const luo_time_range *range, const luo_range_part *like)
{
    for (int32_t i = 0; i < range->n; i++) {
        const luo_range_part *part = &range->part[i];
        if (strcmp(part->name, like->name) == 0 && strcmp(part->of, like->of) == 0)
            return part->sensitivity * part->spread;
    }
    return 0;
}

static double square(double v)
{
    return v * v;
}

double luo_time_range_pair_sd(const luo_time_range *a, double share_a, const luo_time_range *b,
                              double share_b, bool same)
{
    const bool together = strcmp(a->cluster, b->cluster) == 0 && strcmp(a->stack, b->stack) == 0;
    const double source_a = share_a * a->source, source_b = share_b * b->source;
    const double model_a = share_a * a->model, model_b = share_b * b->model;
    double sum = together ? square(source_a - source_b) : square(source_a) + square(source_b);
    /* Half of the variance of the model's error is taken to be common to plans of one cluster. */
    sum += same ? square(model_a - model_b) : 0.5 * (square(model_a) + square(model_b));
    for (int32_t i = 0; i < a->n; i++) {
        const double one = a->part[i].sensitivity * a->part[i].spread;
        sum += square(share_a * one - share_b * effect_of(b, &a->part[i]));
    }
    for (int32_t i = 0; i < b->n; i++)
        if (effect_of(a, &b->part[i]) == 0)
            sum += square(share_b * b->part[i].sensitivity * b->part[i].spread);
    return sqrt(sum);
}

bool luo_time_range_differs(double ln_ratio, double sd)
{
    return fabs(ln_ratio) > LUO_DIFFERS_SDS * sd;
}

/* ---- draws ---- */

static luo_rng stream_of(uint64_t seed, const luo_constant *constant)
{
    char name[160];
    snprintf(name, sizeof name, "spread/%s/%.100s", constant->name,
             constant->profile ? constant->profile->name : "");
    return luo_rng_stream(seed, name);
}

static luo_status draw_all(predicting *p, luo_rng *rng, uint64_t seed, int32_t n, double *out,
                           luo_err *err)
{
    const luo_constants *constants = p->constants;
    luo_rng source = luo_rng_stream(seed, "spread/source");
    luo_rng model = luo_rng_stream(seed, "spread/model");
    for (int32_t i = 0; i < constants->n; i++) rng[i] = stream_of(seed, &constants->at[i]);
    for (int32_t k = 0; k < n; k++) {
        for (int32_t i = 0; i < constants->n; i++)
            p->shift[i] = constants->at[i].spread * luo_rng_normal(&rng[i]);
        LUO_TRY(predict_seconds(p, &out[k], err));
        out[k] *= exp(constants->stack->source_spread * luo_rng_normal(&source) +
                      constants->stack->residual_spread * luo_rng_normal(&model));
    }
    return LUO_OK;
}

luo_status luo_spread_draws(luo_arena *arena, const luo_constants *constants,
                            const luo_prediction *prediction, uint64_t seed, int32_t n, double *out,
                            luo_err *err)
{
    predicting with;
    luo_rng *rng = LUO_NEW_N(arena, luo_rng, constants->n + 1);
    luo_status st = open_predicting(arena, constants, prediction, &with, err);
    if (st == LUO_OK && !rng) st = luo_err_nomem(err);
    if (st == LUO_OK) st = draw_all(&with, rng, seed, n, out, err);
    luo_arena_free(with.scratch);
    return st;
}

/* ---- words ---- */

static void say_number(luo_str *text, double v)
{
    luo_str_addf(text, v >= 1000 ? "%.0f" : "%.3g", v);
}

void luo_time_range_say(luo_str *text, const luo_time_range *range, double seconds)
{
    say_number(text, luo_time_range_low(range, seconds));
    luo_str_add(text, " to ");
    say_number(text, luo_time_range_high(range, seconds));
}

enum { SAID = 3 };
static const double UNSEEN = 0.0005; /* would be printed as 0.0 % */

/* Of source (-2), model (-1) and constants: standard deviation. */
static double part_sd(const luo_time_range *range, int32_t i)
{
    if (i == -2) return range->source;
    if (i == -1) return range->model;
    return fabs(range->part[i].sensitivity * range->part[i].spread);
}

static void say_part(luo_str *text, const luo_time_range *range, int32_t i)
{
    if (i == -2) luo_str_add(text, "source");
    if (i == -1) luo_str_add(text, "model");
    if (i >= 0) {
        const luo_range_part *part = &range->part[i];
        luo_str_addf(text, "%s of %s (%s)", part->name, part->of[0] ? part->of : range->stack,
                     part->origin);
    }
    luo_str_addf(text, " %.2g %%", 100 * part_sd(range, i));
}

void luo_time_range_say_parts(luo_str *text, const luo_time_range *range)
{
    int32_t said[SAID] = {0};
    for (int k = 0; k < SAID; k++) {
        int32_t best = -3;
        for (int32_t i = -2; i < range->n; i++) {
            bool before = false;
            for (int j = 0; j < k; j++) before |= said[j] == i;
            if (!before && part_sd(range, i) >= UNSEEN &&
                (best == -3 || part_sd(range, i) > part_sd(range, best)))
                best = i;
        }
        if (best == -3) return;
        said[k] = best;
        luo_str_add(text, k ? ", " : "of it: ");
        say_part(text, range, best);
    }
}

/* Is one of its constants known from measurements? */
static bool is_fitted(const luo_profile *profile, const luo_stack *stack)
{
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].of_stack != (profile == NULL) || rows[i].spread == PRIOR_NONE) continue;
        const luo_value *value =
            profile ? value_of(profile, rows[i].name) : luo_stack_given(stack, rows[i].name);
        if (value && is_found(value->provenance)) return true;
    }
    return false;
}

void luo_time_range_say_unfitted(luo_str *text, const luo_cluster *cluster, const luo_stack *stack)
{
    bool gpus = false;
    for (int32_t k = 0; k < cluster->nkinds; k++) {
        const luo_profile *profile = luo_device_kind_profile(cluster, k);
        gpus |= !profile->cpu;
        if (profile->cpu || !is_first(cluster, k) || is_fitted(profile, stack)) continue;
        luo_str_addf(text, "%sprofile `%s`", text->len ? " and " : "", profile->name);
    }
    if (gpus && !is_fitted(NULL, stack))
        luo_str_addf(text, "%sstack `%s`", text->len ? " and " : "", stack->name);
}
