/* The Megatron user's baseline: every equal-sided plan that divides and fits, ranked by the closed
 * form of a whole step (accuracy.md 9). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/memory.h"
#include "core/cost/step.h"
#include "core/plan/grid.h"
#include "core/plan/planners.h"

enum { MICRO_BATCH_MAX = 16, SCHEDULE_LIMIT = 1 << 22 };
/* Sequences are cut as long as a rank has so many tokens; below, messages are all that is left. */
enum { CONTEXT_TOKENS = 4096 };

typedef struct shape {
    int32_t tp, pp, dp, micro_batch_sequences, recompute, zero, order;
    luo_context context; /* c 1: none */
    int32_t group; /* zero 3: pipelines that share a state (shard hybrid); 0: all */
    int64_t micro_batches;
    double step_s, memory_ratio;
} shape;

typedef struct search {
    luo_arena *arena, *scratch;
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_uniform_opts *opts;
    luo_err *err;
    luo_cost_ctx cost;
    int32_t *usable; /* devices, ascending */
    int32_t nusable;
    int32_t *groups; /* of the tp at hand: ngroups * tp devices */
    int32_t ngroups;
    int32_t *dev;    /* of a shape: [((pipeline*pp + stage)*c + rank)*tp + i] */
    shape *found;
    int32_t nfound, capacity;
    double tightest; /* smallest ratio of those that do not fit */
    int64_t needs, has;
    int32_t tight_device;
} search;

static luo_status find_usable(search *s)
{
    const luo_cluster *c = s->cluster;
    bool *out = LUO_NEW_N(s->scratch, bool, c->ndevices);
    s->usable = LUO_NEW_N(s->scratch, int32_t, c->ndevices);
    if (!out || !s->usable) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < c->nstandby; i++) out[c->standby[i]] = true;
    for (int32_t i = 0; i < c->nhealth; i++) {
        luo_target t;
        if (!c->health[i].down) continue;
        LUO_TRY(luo_target_parse(s->scratch, c, c->health[i].target, &t, s->err));
        for (int32_t k = 0; k < t.choices->ndev; k++) out[t.choices->dev[k]] = true;
    }
    for (int32_t d = 0; d < c->ndevices; d++)
        if (!out[d]) s->usable[s->nusable++] = d;
    return LUO_OK;
}

static luo_status take_devices(search *s)
{
    if (!s->opts->devices) return find_usable(s);
    s->usable = LUO_NEW_N(s->scratch, int32_t, s->opts->ndevices);
    if (!s->usable) return luo_err_nomem(s->err);
    memcpy(s->usable, s->opts->devices, (size_t)s->opts->ndevices * sizeof *s->usable);
    s->nusable = s->opts->ndevices;
    return LUO_OK;
}

/* Groups of tp devices inside nodes, in order; what is left in a node stays idle. */
static void make_groups(search *s, int32_t tp)
{
    const luo_device *at = s->cluster->devices;
    s->ngroups = 0;
    for (int32_t i = 0; i + tp <= s->nusable;) {
        if (at[s->usable[i]].node != at[s->usable[i + tp - 1]].node) {
            i++;
            continue;
        }
        memcpy(s->groups + (int64_t)s->ngroups * tp, s->usable + i, (size_t)tp * sizeof *s->groups);
        s->ngroups++;
        i += tp;
    }
}

static int32_t width(const shape *x)
{
    return x->tp * x->context.c;
}

/* conventions.md 13.2: groups of (pipeline d, stage p), those of its ranks side by side. */
static void place(search *s, const shape *x)
{
    for (int32_t d = 0; d < x->dp; d++)
        for (int32_t p = 0; p < x->pp; p++) {
            const int32_t g = s->opts->tp_pp_dp ? p + x->pp * d : d + x->dp * p;
            memcpy(s->dev + ((int64_t)d * x->pp + p) * width(x),
                   s->groups + (int64_t)g * width(x), (size_t)width(x) * sizeof *s->dev);
        }
}

static bool heads_divide(const luo_model *m, int32_t tp)
{
    const int64_t cut[] = {m->heads, m->kv_heads, m->ffn_hidden, m->vocab,
                           m->moe.experts ? m->moe.expert_ffn_hidden : 0,
                           m->moe.experts ? m->moe.shared_ffn_hidden : 0};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        if (cut[i] % tp) return false;
    return true;
}

/* Worst device of the shape by the closed form (accuracy.md 8). */
static void weigh(search *s, shape *x)
{
    const luo_uniform_opts *o = s->opts;
    const luo_memory_rules rules = luo_stack_memory(o->stack);
    x->memory_ratio = 0;
    for (int32_t p = 0; p < x->pp; p++) {
        const luo_mem_spec spec = {
            .model = s->model, .layers = (double)(s->model->layers / x->pp), .recompute_layers = -1,
            .recompute = x->recompute, .sequence_tokens = o->sequence_tokens,
            .micro_batch_tokens = o->sequence_tokens * x->micro_batch_sequences, .tp = x->tp,
            .context = x->context,
            .stage = p, .stages = x->pp, .chunks = 1, .micro_batches = (int32_t)x->micro_batches,
            .replicas = x->group ? x->group : x->dp, .zero = x->zero,
            .bucket = luo_bucketing_of((luo_bucketing){0}, o->stack->bucket),
            .gathered = LUO_PREFETCH_DEFAULT + 1, .schedule = LUO_SCHED_1F1B, .embedding = p == 0,
            .head = p == x->pp - 1, .sequence_parallel = o->sequence_parallel,
            .attention_fused = o->stack->attention_fused, .rules = &rules};
        luo_mem m;
        luo_mem_stage(&spec, &m);
        for (int32_t d = 0; d < x->dp; d++) {
            const int32_t dev = s->dev[((int64_t)d * x->pp + p) * width(x)];
            const luo_profile *prof = luo_cluster_profile(s->cluster, dev);
            const double r = ((double)m.needed + prof->reserved_bytes) / prof->memory_bytes;
            if (r <= x->memory_ratio) continue;
            x->memory_ratio = r;
            if (r <= 1 || r >= s->tightest) continue;
            s->tight_device = dev;
            s->needs = m.needed;
            s->has = (int64_t)(prof->memory_bytes - prof->reserved_bytes);
        }
    }
    if (x->memory_ratio > 1 && x->memory_ratio < s->tightest) s->tightest = x->memory_ratio;
}

static luo_status cost_of(search *s, shape *x)
{
    const luo_step_spec spec = {
        .model = s->model, .sequence_tokens = s->opts->sequence_tokens,
        .micro_batch_sequences = x->micro_batch_sequences,
        .micro_batches = (int32_t)x->micro_batches, .tp = x->tp, .pp = x->pp, .dp = x->dp,
        .chunks = 1, .schedule = LUO_SCHED_1F1B, .recompute = x->recompute, .zero = x->zero,
        .context = x->context,
        .prefetch_depth = LUO_PREFETCH_DEFAULT, .shard_pipelines = x->group,
        .sequence_parallel = s->opts->sequence_parallel, .dev = s->dev};
    luo_step_cost c;
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_status st = luo_cost_step(s->scratch, &s->cost, &spec, &c, s->err);
    luo_arena_reset(s->scratch, mark);
    x->step_s = c.step;
    return st;
}

static luo_status consider(search *s, shape x)
{
    place(s, &x);
    weigh(s, &x);
    if (x.memory_ratio > 1) return LUO_OK;
    LUO_TRY(cost_of(s, &x));
    if (s->nfound == s->capacity) {
        const int32_t more = s->capacity ? 2 * s->capacity : 64;
        s->found = luo_arena_grow(s->arena, s->found, (size_t)s->capacity * sizeof x,
                                  (size_t)more * sizeof x);
        if (!s->found) return luo_err_nomem(s->err);
        s->capacity = more;
    }
    x.order = s->nfound;
    s->found[s->nfound++] = x;
    return LUO_OK;
}

/* Pipelines whose devices of a stage fill a node: what they share stays inside; 0: none or all. */
static int32_t near(search *s, const shape *x)
{
    const luo_device *at = s->cluster->devices;
    int32_t n = 1;
    place(s, x);
    while (n < x->dp && at[s->dev[(int64_t)n * x->pp * width(x)]].node == at[s->dev[0]].node) n++;
    return n > 1 && n < x->dp && x->dp % n == 0 ? n : 0;
}

/* Sums of copies can not be cut finer unit by unit (core/plan/annotate.c). */
static bool shards(const search *s, const shape *x, int32_t zero)
{
    return zero < 2 || x->context.c == 1 || x->tp == 1 || s->opts->sequence_parallel;
}

/* Recompute and ZeRO of a shape whose sizes stand. ZeRO folds nothing when there is one copy. */
static luo_status modes(search *s, shape x)
{
    const luo_uniform_opts *o = s->opts;
    static const int all[] = {LUO_RECOMPUTE_NONE, LUO_RECOMPUTE_FULL};
    const int32_t nrecompute = o->recompute < 0 ? 2 : 1;
    const int32_t zero_lo = o->zero < 0 ? 0 : o->zero;
    const int32_t most = o->zero_most > 0 ? o->zero_most : 1;
    const int32_t zero_hi = o->zero >= 0 ? o->zero : x.dp * x.context.c > 1 ? most : 0;
    for (int32_t r = 0; r < nrecompute; r++)
        for (int32_t z = zero_lo; z <= zero_hi; z++) {
            x.recompute = o->recompute < 0 ? all[r] : o->recompute;
            x.zero = z;
            x.group = 0;
            if (!shards(s, &x, z)) continue;
            LUO_TRY(consider(s, x));
            x.group = z == 3 ? near(s, &x) : 0;
            if (x.group) LUO_TRY(consider(s, x));
        }
    return LUO_OK;
}

static bool divides(const search *s, int32_t dp, int32_t micro_batch)
{
    return s->opts->batch_sequences % ((int64_t)dp * micro_batch) == 0;
}

/* Ranks of the first node if there are more of them: neighbours that exchange heads. */
static int32_t neighbours(search *s, const shape *x)
{
    const luo_device *at = s->cluster->devices;
    int32_t n = 1;
    place(s, x);
    while (n < x->context.c && at[s->dev[n * x->tp]].node == at[s->dev[0]].node) n++;
    return n < x->context.c && x->context.c % n == 0 ? n : 1;
}

/* How the ranks of a shape share sequences: in a ring, by an exchange of heads, or both. */
static luo_status contexts(search *s, shape x)
{
    const int32_t c = x.context.c, some = neighbours(s, &x);
    const int64_t heads = s->model->heads / x.tp;
    const int32_t inner[] = {1, c, some};
    for (int k = 0; k < 3; k++) {
        if (k > 0 && (inner[k] == 1 || inner[k] > heads)) continue;
        x.context = (luo_context){.c = c, .inner = inner[k],
                                  .zigzag = s->model->causal && inner[k] < c};
        LUO_TRY(modes(s, x));
    }
    return LUO_OK;
}

static luo_status micro_batches(search *s, int32_t tp, int32_t pp, int32_t c)
{
    const luo_uniform_opts *o = s->opts;
    const int32_t lo = o->micro_batch_sequences ? o->micro_batch_sequences : 1;
    const int32_t hi = o->micro_batch_sequences ? o->micro_batch_sequences : MICRO_BATCH_MAX;
    for (int32_t b = lo; b <= hi; b *= 2) {
        int32_t dp = o->dp ? o->dp : s->ngroups / (pp * c);
        if (dp * pp * c > s->ngroups) return LUO_OK;
        while (dp > 1 && !o->dp && !divides(s, dp, b)) dp--;
        if (dp < 1 || !divides(s, dp, b)) continue;
        const int64_t m = o->batch_sequences / ((int64_t)dp * b);
        if (m * pp > SCHEDULE_LIMIT) continue;
        const shape x = {.tp = tp, .pp = pp, .dp = dp, .micro_batch_sequences = b,
                         .micro_batches = m, .context = {.c = c, .inner = 1}};
        LUO_TRY(c > 1 ? contexts(s, x) : modes(s, x));
    }
    return LUO_OK;
}

/* Ranks of a sequence: as given, or 1, 2, 4 .. while each has tokens enough. */
static luo_status ranks(search *s, int32_t tp, int32_t pp)
{
    const luo_uniform_opts *o = s->opts;
    const int32_t lo = o->cp > 0 ? o->cp : 1;
    for (int32_t c = lo; c <= s->ngroups / pp && c <= LUO_CONTEXT_SHARES; c *= 2) {
        if (c > lo && o->sequence_tokens / c < CONTEXT_TOKENS) break;
        LUO_TRY(micro_batches(s, tp, pp, c));
        if (o->cp >= 0) break;
    }
    return LUO_OK;
}

static luo_status enumerate(search *s)
{
    const luo_uniform_opts *o = s->opts;
    for (int32_t tp = o->tp ? o->tp : 1; tp <= s->nusable; tp *= 2) {
        const bool cut = o->sequence_parallel && o->sequence_tokens % tp;
        if (heads_divide(s->model, tp) && !cut) {
            make_groups(s, tp);
            for (int32_t pp = 1; pp <= s->ngroups && pp <= s->model->layers; pp++)
                if ((!o->pp || pp == o->pp) && s->model->layers % pp == 0)
                    LUO_TRY(ranks(s, tp, pp));
        }
        if (o->tp) break;
    }
    return LUO_OK;
}

static int by_cost(const void *a, const void *b)
{
    const shape *x = a, *y = b;
    if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Model FLOP of a step over the sum of what matrix products reach on the devices. */
static double bound(const search *s)
{
    double flops_per_s = 0;
    for (int32_t i = 0; i < s->nusable; i++) {
        const luo_profile *p = luo_cluster_profile(s->cluster, s->usable[i]);
        flops_per_s += p->peak_flops[s->model->dtype] * p->gemm_ratio /
                       luo_cluster_base_slowdown(s->cluster, s->usable[i]);
    }
    const double tokens = (double)(s->opts->batch_sequences * s->opts->sequence_tokens);
    return tokens * luo_model_flops_per_token(s->model, s->opts->sequence_tokens) / flops_per_s;
}

static void set_context(luo_plan *p, const luo_context *x)
{
    const bool ring = x->inner == 1, both = !ring && x->inner < x->c;
    for (int32_t i = 0; i < p->npipelines && x->c > 1; i++)
        for (int32_t k = 0; k < p->pipelines[i].nstages; k++) {
            luo_stage *s = (luo_stage *)(uintptr_t)&p->pipelines[i].stages[k]; /* just made */
            s->context_kind = ring ? LUO_CONTEXT_RING : both ? LUO_CONTEXT_2D : LUO_CONTEXT_A2A;
            s->context_inner = both ? x->inner : 0;
        }
}

static luo_status build(search *s, const shape *x, luo_uniform_result *out)
{
    make_groups(s, x->tp);
    place(s, x);
    char name[64];
    int n = snprintf(name, sizeof name, "uniform-tp%d-pp%d-dp%d", x->tp, x->pp, x->dp);
    if (x->context.c > 1)
        n += snprintf(name + n, sizeof name - (size_t)n, "-cp%d", x->context.c);
    if (x->group) snprintf(name + n, sizeof name - (size_t)n, "-shard%d", x->group);
    const luo_grid g = {.name = name, .model = s->model, .cluster = s->cluster,
                        .dtype = s->model->dtype, .sequence_tokens = s->opts->sequence_tokens,
                        .micro_batches = x->micro_batches,
                        .micro_batch_sequences = x->micro_batch_sequences, .zero = x->zero,
                        .pipelines = x->dp, .stages = x->pp, .tp = x->tp,
                        .context_parallel = x->context.c,
                        .sequence_parallel = s->opts->sequence_parallel && x->tp > 1,
                        .recompute = (luo_recompute)x->recompute, .dev = s->dev};
    *out = (luo_uniform_result){.objective_s = x->step_s, .bound_s = bound(s),
                                .memory_ratio = x->memory_ratio};
    LUO_TRY(luo_plan_grid(s->arena, &g, &out->plan, s->err));
    set_context(out->plan, &x->context);
    if (x->group)
        out->plan->sharding = (luo_sharding){.kind = LUO_SHARD_HYBRID, .pipelines = x->group};
    out->plan->meta_json =
        luo_arena_printf(s->arena, "{\"bound_s\":%.9g,\"objective_s\":%.9g,\"planner\":"
                         "\"uniform\"}", out->bound_s, out->objective_s);
    return out->plan->meta_json ? LUO_OK : luo_err_nomem(s->err);
}

static luo_status nothing(const search *s)
{
    if (s->nusable == 0)
        return luo_err_set(s->err, LUO_EINFEASIBLE, "no usable device is left; %d of %d are down "
                           "or on standby.", s->cluster->ndevices, s->cluster->ndevices);
    if (s->tightest < INFINITY)
        return luo_err_set(s->err, LUO_EINFEASIBLE,
                           "no plan fits in memory; the tightest stage (device %d) needs %.1f GiB "
                           "of %.1f; try more stages, `recompute` or `zero` 1.", s->tight_device,
                           (double)s->needs / 1073741824.0, (double)s->has / 1073741824.0);
    return luo_err_set(s->err, LUO_EINFEASIBLE,
                       "no tensor, pipeline and data parallelism divides %lld layers and %lld "
                       "sequences over %d devices; another batch or other sizes are needed.",
                       (long long)s->model->layers, (long long)s->opts->batch_sequences,
                       s->nusable);
}

static luo_status check_opts(const search *s)
{
    const luo_uniform_opts *o = s->opts;
    if (o->batch_sequences < 1 || o->sequence_tokens < 1)
        return luo_err_set(s->err, LUO_EINPUT, "the batch holds %lld sequences of %lld tokens; at "
                           "least one of each is expected.", (long long)o->batch_sequences,
                           (long long)o->sequence_tokens);
    if (s->model->family == LUO_FAMILY_VGG)
        return luo_err_set(s->err, LUO_EINPUT, "model `%s` is a vgg; planner `uniform` plans "
                           "transformers.", s->model->name);
    if (o->tp && !heads_divide(s->model, o->tp))
        return luo_err_set(s->err, LUO_EINPUT, "tensor parallelism of %d does not divide the "
                           "heads, columns or vocabulary of `%s`; another size is needed.", o->tp,
                           s->model->name);
    if (o->pp && s->model->layers % o->pp)
        return luo_err_set(s->err, LUO_EINPUT, "%d stages do not divide %lld layers; stages of a "
                           "uniform plan hold equally many.", o->pp, (long long)s->model->layers);
    return LUO_OK;
}

static luo_status run_search(search *s)
{
    LUO_TRY(check_opts(s));
    LUO_TRY(take_devices(s));
    s->groups = LUO_NEW_N(s->scratch, int32_t, s->nusable);
    s->dev = LUO_NEW_N(s->scratch, int32_t, s->nusable);
    if (!s->groups || !s->dev) return luo_err_nomem(s->err);
    LUO_TRY(enumerate(s));
    if (s->nfound == 0) return nothing(s);
    qsort(s->found, (size_t)s->nfound, sizeof *s->found, by_cost);
    return LUO_OK;
}

luo_status luo_plan_uniform(luo_arena *arena, const luo_model *model, const luo_cluster *cluster,
                            const luo_uniform_opts *opts, luo_uniform_result **out, int32_t *n,
                            luo_err *err)
{
    luo_status st = LUO_OK;
    luo_stack stack;
    luo_uniform_opts own = *opts;
    luo_stack_default(&stack);
    if (!own.stack) own.stack = &stack;
    search s = {.arena = arena, .scratch = luo_arena_new(0), .model = model, .cluster = cluster,
                .opts = &own, .err = err, .tightest = INFINITY,
                .cost = {.cluster = cluster, .stack = own.stack, .dtype = model->dtype}};
    if (!s.scratch) return luo_err_nomem(err);
    LUO_TRY_OUT(run_search(&s));
    const int32_t top = opts->top > 0 ? opts->top : 1, keep = top < s.nfound ? top : s.nfound;
    luo_uniform_result *r = LUO_NEW_N(arena, luo_uniform_result, keep);
    if (!r) {
        st = luo_err_nomem(err);
        goto out;
    }
    for (int32_t i = 0; i < keep; i++) LUO_TRY_OUT(build(&s, &s.found[i], &r[i]));
    *out = r;
    *n = keep;
out:
    luo_arena_free(s.scratch);
    return st;
}
