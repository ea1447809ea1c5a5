/* The grid of the uniform planner: every shape that divides, with a bound each. */
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/uniform/uniform_internal.h"

enum { MICRO_BATCH_MAX = 16, SCHEDULE_LIMIT = 1 << 22, CHUNKS_MAX = 16 };
/* Sequences are cut as long as a rank has so many tokens; below, messages are all that is left. */
enum { CONTEXT_TOKENS = 4096 };

typedef enum schedule_use { /* columns of core/graph/schedule/schedules.inc */
                            ASKED,
                            SEARCHED
} schedule_use;

static bool is_searched(luo_sched_kind kind)
{
    static const schedule_use uses[LUO_SCHEDS] = {
#define LUO_SCHED(kind, name, takes_chunks, late, warm_up, uniform) [LUO_SCHED_##kind] = uniform,
#include "core/graph/schedule/schedules.inc"
#undef LUO_SCHED
    };
    return uses[kind] == SEARCHED;
}

/* ---- a shape ---- */

static luo_status add(uniform_search *s, uniform_shape x)
{
    if (!LUO_VEC_ROOM_IN(s->scratch, s->shape, s->nshapes, s->cap_shapes))
        return luo_err_nomem(s->err);
    x.order = s->nshapes;
    s->shape[s->nshapes++] = x;
    return LUO_OK;
}

/* ---- ZeRO ---- */

/* Sums of copies cannot be cut finer unit by unit (core/plan/annotate.c), and cuts of a
 * micro-batch's gradients need as many of them in all pipelines. */
static bool shards(const uniform_search *s, const uniform_frame *f, int32_t zero)
{
    const bool cut = f->context.c == 1 || f->tp == 1 || s->opts->sequence_parallel;
    return zero < 2 || (!f->dealt && cut);
}

static bool wants_shard(const uniform_search *s, luo_shard kind)
{
    const int32_t o = s->opts->shard;
    return o == 0 ? kind != LUO_SHARD_GRAD_OP : o < 0 || o == 1 + (int32_t)kind;
}

static luo_status add_shards(uniform_search *s, uniform_shape x)
{
    for (int k = 0; k < LUO_SHARDS; k++) {
        x.shard = (luo_shard)k;
        x.group = x.shard == LUO_SHARD_HYBRID ? uniform_near(s, x.frame) : 0;
        if (!wants_shard(s, x.shard) || (x.shard == LUO_SHARD_HYBRID && x.group == 0)) continue;
        LUO_TRY(add(s, x));
    }
    return LUO_OK;
}

/* It folds nothing when there is one copy. */
static luo_status zeros(uniform_search *s, uniform_shape x)
{
    const luo_uniform_opts *opts = s->opts;
    const int32_t lo = opts->zero < 0 ? 0 : opts->zero,
                  most = opts->zero_most > 0 ? opts->zero_most : 1;
    const int32_t hi = opts->zero >= 0                        ? opts->zero
                       : x.frame->dp * x.frame->context.c > 1 ? most
                                                              : 0;
    x.bound_s = uniform_bound(s, &x);
    for (x.zero = lo; x.zero <= hi; x.zero++) {
        if (!shards(s, x.frame, x.zero)) continue;
        if (x.zero >= 2 && luo_sched_splits(x.schedule)) continue; /* as plans refuse it */
        LUO_TRY(x.zero == 3 ? add_shards(s, x) : add(s, x));
    }
    return LUO_OK;
}

/* ---- schedules and layers ---- */

static luo_status layers(uniform_search *s, uniform_shape x)
{
    const luo_uniform_opts *opts = s->opts;
    const bool divide = s->model->layers % ((int64_t)x.frame->pp * x.chunks) == 0;
    if (divide && opts->layers != LUO_UNIFORM_BALANCED) LUO_TRY(zeros(s, x));
    if (opts->layers == LUO_UNIFORM_EQUAL) return LUO_OK;
    LUO_TRY(uniform_balance(s, x.frame, x.chunks, &x.layers));
    const bool balanced_are_equal = opts->layers == LUO_UNIFORM_BALANCED && divide;
    return x.layers || balanced_are_equal ? zeros(s, x) : LUO_OK;
}

/* Chunks of a schedule that has them: 2, 3 .. as long as each has a layer. */
static luo_status chunks(uniform_search *s, uniform_shape x)
{
    const uniform_frame *f = x.frame;
    const int64_t m = f->micro_batches, given = s->opts->chunks;
    if (f->pp < 2 || f->dealt || m % f->pp) return LUO_OK;
    const int64_t lo = given > 0 ? given : 2, hi = given > 0 ? given : CHUNKS_MAX;
    for (int64_t v = lo; v <= hi && v * f->pp <= s->model->layers; v++) {
        if (v < 2 || m * f->pp * v > SCHEDULE_LIMIT) break;
        x.chunks = (int32_t)v;
        LUO_TRY(layers(s, x));
    }
    return LUO_OK;
}

static bool wants_schedule(const uniform_search *s, luo_sched_kind kind)
{
    const int32_t o = s->opts->schedule;
    if (s->opts->chunks > 1 && !luo_sched_takes_chunks(kind)) return false;
    if (o == 0) return kind == LUO_SCHED_1F1B;
    return o < 0 ? is_searched(kind) : o == 1 + (int32_t)kind;
}

static luo_status schedules(uniform_search *s, const uniform_frame *f)
{
    for (int k = 0; k < LUO_SCHEDS; k++) {
        const luo_sched_kind kind = (luo_sched_kind)k;
        const uniform_shape x = {.frame = f, .schedule = kind, .chunks = 1};
        if (!wants_schedule(s, kind)) continue;
        if (luo_sched_splits(kind) && f->pp < 2 && s->opts->schedule < 0)
            continue; /* nothing to fill */
        LUO_TRY(luo_sched_takes_chunks(kind) ? chunks(s, x) : layers(s, x));
    }
    return LUO_OK;
}

/* ---- frames ---- */

/* By speed only where speeds differ. */
static luo_status frame(uniform_search *s, uniform_frame given, bool deal)
{
    uniform_frame *f = LUO_NEW(s->scratch, uniform_frame);
    bool good;
    if (!f) return luo_err_nomem(s->err);
    *f = given;
    LUO_TRY(uniform_finish_frame(s, f, deal, &good));
    return good ? schedules(s, f) : LUO_OK;
}

/* Recompute, and micro-batches by speed: to as many pipelines as there are devices for. Where
 * attention is fused, or there is none, selective recompute runs nothing again. */
static luo_status recomputes(uniform_search *s, uniform_frame f, bool deal)
{
    static const int all[] = {LUO_RECOMPUTE_NONE, LUO_RECOMPUTE_SELECTIVE, LUO_RECOMPUTE_FULL};
    const luo_uniform_opts *opts = s->opts;
    for (int r = 0; r < 3; r++) {
        if (opts->recompute >= 0 && opts->recompute != all[r]) continue;
        if (opts->recompute < 0 && all[r] == LUO_RECOMPUTE_SELECTIVE &&
            (opts->stack->attention_fused || !luo_model_has_attention(s->model)))
            continue;
        f.recompute = all[r];
        LUO_TRY(frame(s, f, deal));
    }
    return LUO_OK;
}

/* How the ranks of a shape share sequences: in a ring, by an exchange of heads, or both. */
static luo_status contexts(uniform_search *s, uniform_frame f, bool deal)
{
    const int32_t c = f.context.c;
    if (c == 1) return recomputes(s, f, deal);
    s->placed = NULL; /* this frame is no longer what it was */
    const int32_t inner[] = {1, c, uniform_neighbours(s, &f)};
    s->placed = NULL;
    const int64_t heads = s->model->heads / f.tp;
    for (int k = 0; k < 3; k++) {
        if (k > 0 && (inner[k] == 1 || inner[k] > heads)) continue;
        f.context = (luo_context){.c = c, .inner = inner[k],
                                  .zigzag = s->model->causal && inner[k] < c};
        LUO_TRY(recomputes(s, f, deal));
    }
    return LUO_OK;
}

/* On neighbouring devices, or stage by stage: as asked, and both where types differ. */
static luo_status places(uniform_search *s, uniform_frame f, bool deal)
{
    const bool mixed = s->pool[f.pool].mixed;
    f.neighbours = s->opts->tp_pp_dp;
    LUO_TRY(contexts(s, f, deal));
    f.neighbours = !f.neighbours;
    return mixed && f.pp > 1 && f.dp > 1 ? contexts(s, f, deal) : LUO_OK;
}

static bool divides(const uniform_search *s, int32_t dp, int32_t micro_batch)
{
    return s->opts->batch_sequences % ((int64_t)dp * micro_batch) == 0;
}

static luo_status pipelines(uniform_search *s, uniform_frame f)
{
    const luo_uniform_opts *opts = s->opts;
    const int32_t b = f.micro_batch_sequences, c = f.context.c, most = s->ngroups / (f.pp * c);
    int32_t dp = opts->dp ? opts->dp : most;
    if (dp > most || dp < 1) return LUO_OK;
    if (s->pool[f.pool].mixed && dp > 1 && opts->batch_sequences % b == 0 &&
        opts->batch_sequences / b * f.pp <= SCHEDULE_LIMIT) {
        f.dp = dp;
        LUO_TRY(places(s, f, true));
    }
    while (dp > 1 && !opts->dp && !divides(s, dp, b)) dp--;
    f.dp = dp;
    f.micro_batches = divides(s, dp, b) ? opts->batch_sequences / ((int64_t)dp * b) : 0;
    if (f.micro_batches == 0 || f.micro_batches * f.pp > SCHEDULE_LIMIT) return LUO_OK;
    return places(s, f, false);
}

static luo_status micro_batches(uniform_search *s, uniform_frame f)
{
    const luo_uniform_opts *opts = s->opts;
    const int32_t lo = opts->micro_batch_sequences ? opts->micro_batch_sequences : 1;
    const int32_t hi = opts->micro_batch_sequences ? opts->micro_batch_sequences : MICRO_BATCH_MAX;
    const int64_t most = luo_work_most(opts->work, LUO_WORK_MICRO_BATCHES);
    for (int32_t b = lo; b <= hi; b *= 2) {
        f.micro_batch_sequences = b;
        if (opts->batch_sequences / b > most) {
            s->fewest = (double)opts->batch_sequences / b;
            continue;
        }
        LUO_TRY(pipelines(s, f));
    }
    return LUO_OK;
}

/* Ranks of a sequence: as given, or 1, 2, 4 .. while each has tokens enough. */
static luo_status ranks(uniform_search *s, uniform_frame f)
{
    const luo_uniform_opts *opts = s->opts;
    const int32_t lo = opts->cp > 0 ? opts->cp : 1;
    for (int32_t c = lo; c <= s->ngroups / f.pp && c <= LUO_CONTEXT_SHARES; c *= 2) {
        if (c > lo && opts->sequence_tokens / c < CONTEXT_TOKENS) break;
        f.context = (luo_context){.c = c, .inner = 1};
        LUO_TRY(micro_batches(s, f));
        if (opts->cp >= 0 || luo_model_is_latent(s->model)) break; /* no program has both */
        if (!luo_model_has_attention(s->model)) break;
    }
    return LUO_OK;
}

/* Numbers of stages: those that divide the layers, and with unequal stages those that divide the
 * devices. */
static bool wants_stages(const uniform_search *s, int32_t pp)
{
    const luo_uniform_opts *opts = s->opts;
    if (opts->pp) return pp == opts->pp;
    return s->model->layers % pp == 0 ||
           (opts->layers != LUO_UNIFORM_EQUAL && s->ngroups % pp == 0);
}

static luo_status of_pool(uniform_search *s, int32_t pool)
{
    const luo_uniform_opts *opts = s->opts;
    for (int32_t tp = opts->tp ? opts->tp : 1; tp <= s->pool[pool].n; tp *= 2) {
        const bool cut = opts->sequence_parallel && opts->sequence_tokens % tp;
        if (luo_model_tp_divides(s->model, tp) && !cut) {
            uniform_make_groups(s, pool, tp);
            const uniform_frame f = {.pool = pool, .tp = tp};
            const int32_t groups = s->ngroups;
            for (int32_t pp = 1; pp <= groups && pp <= s->model->layers; pp++) {
                uniform_frame x = f;
                x.pp = pp;
                if (wants_stages(s, pp)) LUO_TRY(ranks(s, x));
            }
        }
        if (opts->tp) break;
    }
    return LUO_OK;
}

luo_status uniform_list_shapes(uniform_search *s)
{
    for (int32_t i = 0; i < s->npools; i++) LUO_TRY(of_pool(s, i));
    return LUO_OK;
}
