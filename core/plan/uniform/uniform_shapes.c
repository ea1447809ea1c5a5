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

static luo_status add(uniform_search *search, uniform_shape shape)
{
    if (!LUO_VEC_ROOM_IN(search->scratch, search->shape, search->nshapes, search->cap_shapes))
        return luo_err_nomem(search->err);
    shape.order = search->nshapes;
    search->shape[search->nshapes++] = shape;
    return LUO_OK;
}

/* ---- ZeRO ---- */

/* Sums of copies cannot be cut finer unit by unit (core/plan/annotate.c), and cuts of a
 * micro-batch's gradients need as many of them in all pipelines. */
static bool shards(const uniform_search *search, const uniform_frame *frame, int32_t zero)
{
    const bool cut = frame->context.c == 1 || frame->tp == 1 || search->opts->sequence_parallel;
    return zero < 2 || (!frame->dealt && cut);
}

static bool wants_shard(const uniform_search *search, luo_shard kind)
{
    const int32_t o = search->opts->shard;
    return o == 0 ? kind != LUO_SHARD_GRAD_OP : o < 0 || o == 1 + (int32_t)kind;
}

static luo_status add_shards(uniform_search *search, uniform_shape shape)
{
    for (int k = 0; k < LUO_SHARDS; k++) {
        shape.shard = (luo_shard)k;
        shape.group = shape.shard == LUO_SHARD_HYBRID ? uniform_near(search, shape.frame) : 0;
        if (!wants_shard(search, shape.shard) ||
            (shape.shard == LUO_SHARD_HYBRID && shape.group == 0))
            continue;
        LUO_TRY(add(search, shape));
    }
    return LUO_OK;
}

/* It folds nothing when there is one copy. */
static luo_status zeros(uniform_search *search, uniform_shape shape)
{
    const luo_uniform_opts *opts = search->opts;
    const int32_t lo = opts->zero < 0 ? 0 : opts->zero,
                  most = opts->zero_most > 0 ? opts->zero_most : 1;
    const int32_t hi = opts->zero >= 0                                ? opts->zero
                       : shape.frame->dp * shape.frame->context.c > 1 ? most
                                                                      : 0;
    shape.bound_s = uniform_bound(search, &shape);
    for (shape.zero = lo; shape.zero <= hi; shape.zero++) {
        if (!shards(search, shape.frame, shape.zero)) continue;
        if (shape.zero >= 2 && luo_sched_splits(shape.schedule)) continue; /* as plans refuse it */
        LUO_TRY(shape.zero == 3 ? add_shards(search, shape) : add(search, shape));
    }
    return LUO_OK;
}

/* ---- schedules and layers ---- */

static luo_status layers(uniform_search *search, uniform_shape shape)
{
    const luo_uniform_opts *opts = search->opts;
    const bool divide = search->model->layers % ((int64_t)shape.frame->pp * shape.chunks) == 0;
    if (divide && opts->layers != LUO_UNIFORM_BALANCED) LUO_TRY(zeros(search, shape));
    if (opts->layers == LUO_UNIFORM_EQUAL) return LUO_OK;
    LUO_TRY(uniform_balance(search, shape.frame, shape.chunks, &shape.layers));
    const bool balanced_are_equal = opts->layers == LUO_UNIFORM_BALANCED && divide;
    return shape.layers || balanced_are_equal ? zeros(search, shape) : LUO_OK;
}

/* Chunks of a schedule that has them: 2, 3 .. as long as each has a layer. */
static luo_status chunks(uniform_search *search, uniform_shape shape)
{
    const uniform_frame *frame = shape.frame;
    const int64_t m = frame->micro_batches, given = search->opts->chunks;
    if (frame->pp < 2 || frame->dealt || m % frame->pp) return LUO_OK;
    const int64_t lo = given > 0 ? given : 2, hi = given > 0 ? given : CHUNKS_MAX;
    for (int64_t v = lo; v <= hi && v * frame->pp <= search->model->layers; v++) {
        if (v < 2 || m * frame->pp * v > SCHEDULE_LIMIT) break;
        shape.chunks = (int32_t)v;
        LUO_TRY(layers(search, shape));
    }
    return LUO_OK;
}

static bool wants_schedule(const uniform_search *search, luo_sched_kind kind)
{
    const int32_t o = search->opts->schedule;
    if (search->opts->chunks > 1 && !luo_sched_takes_chunks(kind)) return false;
    if (o == 0) return kind == LUO_SCHED_1F1B;
    return o < 0 ? is_searched(kind) : o == 1 + (int32_t)kind;
}

static luo_status schedules(uniform_search *search, const uniform_frame *frame)
{
    for (int k = 0; k < LUO_SCHEDS; k++) {
        const luo_sched_kind kind = (luo_sched_kind)k;
        const uniform_shape shape = {.frame = frame, .schedule = kind, .chunks = 1};
        if (!wants_schedule(search, kind)) continue;
        if (luo_sched_splits(kind) && frame->pp < 2 && search->opts->schedule < 0)
            continue; /* nothing to fill */
        LUO_TRY(luo_sched_takes_chunks(kind) ? chunks(search, shape) : layers(search, shape));
    }
    return LUO_OK;
}

/* ---- frames ---- */

/* By speed only where speeds differ. */
static luo_status frame(uniform_search *search, uniform_frame given, bool deal)
{
    uniform_frame *f = LUO_NEW(search->scratch, uniform_frame);
    bool good;
    if (!f) return luo_err_nomem(search->err);
    *f = given;
    LUO_TRY(uniform_finish_frame(search, f, deal, &good));
    return good ? schedules(search, f) : LUO_OK;
}

/* Recompute, and micro-batches by speed: to as many pipelines as there are devices for. Where
 * attention is fused, or there is none, selective recompute runs nothing again. */
static luo_status recomputes(uniform_search *search, uniform_frame f, bool deal)
{
    static const int all[] = {LUO_RECOMPUTE_NONE, LUO_RECOMPUTE_SELECTIVE, LUO_RECOMPUTE_FULL};
    const luo_uniform_opts *opts = search->opts;
    for (int r = 0; r < 3; r++) {
        if (opts->recompute >= 0 && opts->recompute != all[r]) continue;
        if (opts->recompute < 0 && all[r] == LUO_RECOMPUTE_SELECTIVE &&
            (opts->stack->attention_fused || !luo_model_has_attention(search->model)))
            continue;
        f.recompute = all[r];
        LUO_TRY(frame(search, f, deal));
    }
    return LUO_OK;
}

/* How the ranks of a shape share sequences: in a ring, by an exchange of heads, or both. */
static luo_status contexts(uniform_search *search, uniform_frame frame, bool deal)
{
    const int32_t c = frame.context.c;
    if (c == 1) return recomputes(search, frame, deal);
    search->placed = NULL; /* this frame is no longer what it was */
    const int32_t inner[] = {1, c, uniform_neighbours(search, &frame)};
    search->placed = NULL;
    const int64_t heads = search->model->heads / frame.tp;
    for (int k = 0; k < 3; k++) {
        if (k > 0 && (inner[k] == 1 || inner[k] > heads)) continue;
        frame.context = (luo_context){
            .c = c, .inner = inner[k], .zigzag = search->model->causal && inner[k] < c};
        LUO_TRY(recomputes(search, frame, deal));
    }
    return LUO_OK;
}

/* On neighbouring devices, or stage by stage: as asked, and both where types differ. */
static luo_status places(uniform_search *search, uniform_frame frame, bool deal)
{
    const bool mixed = search->pool[frame.pool].mixed;
    frame.neighbours = search->opts->tp_pp_dp;
    LUO_TRY(contexts(search, frame, deal));
    frame.neighbours = !frame.neighbours;
    return mixed && frame.pp > 1 && frame.dp > 1 ? contexts(search, frame, deal) : LUO_OK;
}

static bool divides(const uniform_search *search, int32_t dp, int32_t micro_batch)
{
    return search->opts->batch_sequences % ((int64_t)dp * micro_batch) == 0;
}

static luo_status pipelines(uniform_search *search, uniform_frame frame)
{
    const luo_uniform_opts *opts = search->opts;
    const int32_t b = frame.micro_batch_sequences, c = frame.context.c,
                  most = search->ngroups / (frame.pp * c);
    int32_t dp = opts->dp ? opts->dp : most;
    if (dp > most || dp < 1) return LUO_OK;
    if (search->pool[frame.pool].mixed && dp > 1 && opts->batch_sequences % b == 0 &&
        opts->batch_sequences / b * frame.pp <= SCHEDULE_LIMIT) {
        frame.dp = dp;
        LUO_TRY(places(search, frame, true));
    }
    while (dp > 1 && !opts->dp && !divides(search, dp, b)) dp--;
    frame.dp = dp;
    frame.micro_batches = divides(search, dp, b) ? opts->batch_sequences / ((int64_t)dp * b) : 0;
    if (frame.micro_batches == 0 || frame.micro_batches * frame.pp > SCHEDULE_LIMIT) return LUO_OK;
    return places(search, frame, false);
}

static luo_status micro_batches(uniform_search *search, uniform_frame frame)
{
    const luo_uniform_opts *opts = search->opts;
    const int32_t lo = opts->micro_batch_sequences ? opts->micro_batch_sequences : 1;
    const int32_t hi = opts->micro_batch_sequences ? opts->micro_batch_sequences : MICRO_BATCH_MAX;
    const int64_t most = luo_work_most(opts->work, LUO_WORK_MICRO_BATCHES);
    for (int32_t b = lo; b <= hi; b *= 2) {
        frame.micro_batch_sequences = b;
        if (opts->batch_sequences / b > most) {
            search->fewest = (double)opts->batch_sequences / b;
            continue;
        }
        LUO_TRY(pipelines(search, frame));
    }
    return LUO_OK;
}

/* Ranks of a sequence: as given, or 1, 2, 4 .. while each has tokens enough. */
static luo_status ranks(uniform_search *search, uniform_frame frame)
{
    const luo_uniform_opts *opts = search->opts;
    const int32_t lo = opts->cp > 0 ? opts->cp : 1;
    for (int32_t c = lo; c <= search->ngroups / frame.pp && c <= LUO_CONTEXT_SHARES; c *= 2) {
        if (c > lo && opts->sequence_tokens / c < CONTEXT_TOKENS) break;
        frame.context = (luo_context){.c = c, .inner = 1};
        LUO_TRY(micro_batches(search, frame));
        if (opts->cp >= 0 || luo_model_is_latent(search->model)) break; /* no program has both */
        if (!luo_model_has_attention(search->model)) break;
    }
    return LUO_OK;
}

/* Numbers of stages: those that divide the layers, and with unequal stages those that divide the
 * devices. */
static bool wants_stages(const uniform_search *search, int32_t pp)
{
    const luo_uniform_opts *opts = search->opts;
    if (opts->pp) return pp == opts->pp;
    return search->model->layers % pp == 0 ||
           (opts->layers != LUO_UNIFORM_EQUAL && search->ngroups % pp == 0);
}

static luo_status of_pool(uniform_search *search, int32_t pool)
{
    const luo_uniform_opts *opts = search->opts;
    for (int32_t tp = opts->tp ? opts->tp : 1; tp <= search->pool[pool].n; tp *= 2) {
        const bool cut = opts->sequence_parallel && opts->sequence_tokens % tp;
        if (luo_model_tp_divides(search->model, tp) && !cut) {
            uniform_make_groups(search, pool, tp);
            const uniform_frame f = {.pool = pool, .tp = tp};
            const int32_t groups = search->ngroups;
            for (int32_t pp = 1; pp <= groups && pp <= search->model->layers; pp++) {
                uniform_frame x = f;
                x.pp = pp;
                if (wants_stages(search, pp)) LUO_TRY(ranks(search, x));
            }
        }
        if (opts->tp) break;
    }
    return LUO_OK;
}

luo_status uniform_list_shapes(uniform_search *search)
{
    for (int32_t i = 0; i < search->npools; i++) LUO_TRY(of_pool(search, i));
    return LUO_OK;
}
