/* plan_check.c: what can be wrong with a plan before it is compiled, in the order of
 * docs/formats.md#luoshuplan1. Each check goes on after a finding, so that one run names them
 * all. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/quantity.h"
#include "core/base/vec.h"
#include "core/hspmd/ann.h"
#include "core/plan/annotated.h"
#include "core/plan/plan.h"
#include "core/plan/replan/reroute.h"

typedef struct checker {
    luo_arena *arena;
    const luo_plan *p;
    const luo_model *model;
    const luo_cluster *cluster;
    luo_plan_finding *at;
    int32_t n, cap;
    char pointer[128]; /* where the next findings stand */
    bool failed;       /* out of memory */
} checker;

static void place(checker *c, const char *fmt, ...) LUO_PRINTF(2, 3);
static void place(checker *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->pointer, sizeof c->pointer, fmt, ap);
    va_end(ap);
}

static void find(checker *c, const char *fmt, ...) LUO_PRINTF(2, 3);
static void find(checker *c, const char *fmt, ...)
{
    if (!LUO_VEC_ROOM_IN(c->arena, c->at, c->n, c->cap)) {
        c->failed = true;
        return;
    }
    luo_plan_finding *f = &c->at[c->n++];
    va_list ap;
    va_start(ap, fmt);
    f->st = LUO_EINPUT;
    memcpy(f->pointer, c->pointer, sizeof f->pointer);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
}

/* ---- layer coverage: each layer once per pipeline, in stage order ---- */

static int32_t most_ranges(const luo_pipeline *pl)
{
    int32_t n = 0;
    for (int32_t s = 0; s < pl->nstages; s++)
        if (pl->stages[s].nlayers > n) n = pl->stages[s].nlayers;
    return n;
}

static bool range_fits(checker *c, int32_t i, int32_t s, int32_t k)
{
    const luo_range r = c->p->pipelines[i].stages[s].layers[k];
    if (r.lo >= 0 && r.lo <= r.hi && r.hi <= c->p->layers) return true;
    place(c, "/pipelines/%d/stages/%d/layers/%d", i, s, k);
    find(c, "layers [%d,%d] are no range within 0 to %d; `lo` up to, not including, `hi` is "
            "expected.", r.lo, r.hi, c->p->layers);
    return false;
}

/* by[l]: 1 + the stage that holds layer l. Counts the layers held; false: a layer twice or out of
 * order. Chunk k of all stages comes before chunk k + 1 of any. */
static bool cover(checker *c, int32_t i, int32_t *by, int32_t *held)
{
    const luo_pipeline *pl = &c->p->pipelines[i];
    const int32_t chunks = most_ranges(pl);
    int32_t next = 0;
    bool good = true;
    for (int32_t k = 0; k < chunks; k++)
        for (int32_t s = 0; s < pl->nstages; s++) {
            if (k >= pl->stages[s].nlayers) continue;
            if (!range_fits(c, i, s, k)) {
                good = false;
                continue;
            }
            const luo_range r = pl->stages[s].layers[k];
            place(c, "/pipelines/%d/stages/%d/layers/%d", i, s, k);
            int32_t twice = -1;
            for (int32_t l = r.lo; l < r.hi; l++) {
                if (by[l] && twice < 0) twice = l;
                if (!by[l]) ++*held;
                by[l] = s + 1;
            }
            if (twice >= 0)
                find(c, "layer %d of pipeline %d is held twice; each layer stands in one stage.",
                     twice, i);
            else if (r.lo < r.hi && r.lo < next)
                find(c, "layers [%d,%d] come after layer %d of pipeline %d; stages follow the "
                        "order of the layers.", r.lo, r.hi, next - 1, i);
            if (twice >= 0 || (r.lo < r.hi && r.lo < next)) good = false;
            if (r.lo < r.hi && r.hi > next) next = r.hi;
        }
    return good;
}

static void check_missing(checker *c, int32_t i, const int32_t *by, int32_t held)
{
    const int32_t L = c->p->layers;
    int32_t lo = 0, hi;
    while (lo < L && by[lo]) lo++;
    if (lo == L) return;
    for (hi = lo + 1; hi < L && !by[hi];) hi++;
    place(c, "/pipelines/%d/stages", i);
    if (hi - lo == 1)
        find(c, "pipeline %d holds %d of %d layers; layer %d is in no stage.", i, held, L, lo);
    else
        find(c, "pipeline %d holds %d of %d layers; layers %d to %d are in no stage.", i, held, L,
             lo, hi - 1);
}

static void check_recompute(checker *c, int32_t i, int32_t s)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    for (int32_t k = 0; k < st->nrecompute; k++) {
        const luo_range r = st->recompute_layers[k];
        bool inside = false;
        for (int32_t q = 0; q < st->nlayers; q++)
            if (r.lo >= st->layers[q].lo && r.lo < r.hi && r.hi <= st->layers[q].hi) inside = true;
        if (inside) continue;
        place(c, "/pipelines/%d/stages/%d/recompute/layers/%d", i, s, k);
        find(c, "recompute of layers [%d,%d] is not within the layers of stage %d; give ranges of "
                "this stage, or none for all of it.", r.lo, r.hi, s);
    }
    if (st->recompute == LUO_RECOMPUTE_NONE && st->nrecompute) {
        place(c, "/pipelines/%d/stages/%d/recompute/layers", i, s);
        find(c, "recompute `none` has layers; leave them out or choose `selective` or `full`.");
    }
}

static void check_layers(checker *c)
{
    int32_t *by = LUO_NEW_N(c->arena, int32_t, c->p->layers > 0 ? c->p->layers : 1);
    if (!by) {
        c->failed = true;
        return;
    }
    if (c->model && c->p->layers != c->model->layers) {
        place(c, "/layers");
        find(c, "`layers` is %d; model `%s` has %lld.", c->p->layers, c->model->name,
             (long long)c->model->layers);
    }
    for (int32_t i = 0; i < c->p->npipelines; i++) {
        int32_t held = 0;
        memset(by, 0, (size_t)c->p->layers * sizeof *by);
        if (cover(c, i, by, &held) || held < c->p->layers) check_missing(c, i, by, held);
        for (int32_t s = 0; s < c->p->pipelines[i].nstages; s++) check_recompute(c, i, s);
    }
}

/* ---- devices known, up, used once ---- */

static bool *down_devices(checker *c)
{
    bool *down = LUO_NEW_N(c->arena, bool, c->cluster->ndevices + 1);
    for (int32_t h = 0; down && h < c->cluster->nhealth; h++) {
        const luo_health *x = &c->cluster->health[h];
        luo_target target;
        if (!x->down || luo_target_parse(c->arena, c->cluster, x->target, &target, NULL) != LUO_OK)
            continue; /* a bad target is an error of the cluster file, reported there */
        for (int32_t k = 0; target.nchoices == 1 && k < target.choices[0].ndev; k++)
            down[target.choices[0].dev[k]] = true;
    }
    if (!down) c->failed = true;
    return down;
}

static void check_device(checker *c, int32_t i, int32_t s, int32_t k, int32_t *by,
                         const bool *down)
{
    const int32_t d = c->p->pipelines[i].stages[s].dev[k];
    place(c, "/pipelines/%d/stages/%d/devices/%d", i, s, k);
    if (d < 0 || d >= c->p->devices) {
        find(c, "device %d is not among the %d devices of the plan; ids are 0 to %d.", d,
             c->p->devices, c->p->devices - 1);
        return;
    }
    if (by[d])
        find(c, "device %d is used twice; it already stands in a stage of pipeline %d.", d,
             by[d] - 1);
    by[d] = i + 1;
    if (down && d < c->cluster->ndevices && down[d])
        find(c, "device %d is down in cluster `%s`; leave it out.", d, c->cluster->name);
}

static void check_state_layout(checker *c)
{
    const luo_state_layout *l = &c->p->state_layout;
    if (!l->ndev) return;
    place(c, "/state_layout");
    if ((int64_t)l->data * l->tensor * l->pipeline != l->ndev)
        find(c, "state layout %d x %d x %d needs %lld devices; %d are listed.", l->data, l->tensor,
             l->pipeline, (long long)l->data * l->tensor * l->pipeline, l->ndev);
    bool *seen = LUO_NEW_N(c->arena, bool, c->p->devices > 0 ? c->p->devices : 1);
    if (!seen) c->failed = true;
    for (int32_t k = 0; seen && k < l->ndev; k++) {
        place(c, "/state_layout/devices/%d", k);
        if (l->dev[k] < 0 || l->dev[k] >= c->p->devices)
            find(c, "device %d is not among the %d devices of the plan; ids are 0 to %d.",
                 l->dev[k], c->p->devices, c->p->devices - 1);
        else if (seen[l->dev[k]])
            find(c, "device %d is listed twice; each device holds one part.", l->dev[k]);
        else
            seen[l->dev[k]] = true;
    }
}

static void check_devices(checker *c)
{
    int32_t *by = LUO_NEW_N(c->arena, int32_t, c->p->devices > 0 ? c->p->devices : 1);
    const bool *down = c->cluster ? down_devices(c) : NULL;
    if (!by) c->failed = true;
    if (c->failed) return;
    if (c->cluster && c->p->devices != c->cluster->ndevices) {
        place(c, "/devices");
        find(c, "`devices` is %d; cluster `%s` has %d.", c->p->devices, c->cluster->name,
             c->cluster->ndevices);
    }
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t s = 0; s < c->p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < c->p->pipelines[i].stages[s].ndev; k++)
                check_device(c, i, s, k, by, down);
    check_state_layout(c);
}

/* ---- share divisibility ---- */

typedef struct cut { /* a dimension that a stage cuts over its tensor-parallel devices */
    int64_t size;
    const char *what, *unit;
} cut;

static uint32_t share(const luo_stage *st, int32_t k)
{
    return st->shares ? st->shares[k] : 1;
}

/* "4.5 and 1.5" or "1.5 each". */
static void parts(const luo_stage *st, int64_t size, uint64_t total, char *buf, size_t room)
{
    const int32_t tp = luo_stage_tp(st);
    if (!st->shares) {
        snprintf(buf, room, "%.6g each", (double)size / tp);
        return;
    }
    size_t at = 0;
    for (int32_t k = 0; k < tp && at + 32 < room; k++)
        at += (size_t)snprintf(buf + at, room - at, "%s%.6g",
                               k == 0 ? "" : k == tp - 1 ? " and " : ", ",
                               (double)size * share(st, k) / (double)total);
}

static void share_list(const luo_stage *st, char *buf, size_t room)
{
    size_t at = 0;
    for (int32_t k = 0; k < luo_stage_tp(st) && at + 16 < room; k++)
        at += (size_t)snprintf(buf + at, room - at, "%s%u", k ? "," : "[", share(st, k));
    snprintf(buf + at, room - at, "]");
}

static void check_cut(checker *c, int32_t i, int32_t s, cut x)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    const int32_t tp = luo_stage_tp(st);
    uint64_t total = 0;
    bool exact = true;
    for (int32_t k = 0; k < tp; k++) total += share(st, k);
    for (int32_t k = 0; k < tp; k++)
        if ((uint64_t)x.size % total * share(st, k) % total) exact = false;
    if (exact) return;
    char how[400], list[200];
    parts(st, x.size, total, how, sizeof how);
    if (st->shares) {
        share_list(st, list, sizeof list);
        place(c, "/pipelines/%d/stages/%d/shares", i, s);
        find(c, "`shares` %s would cut %lld %s into %s; shares must give whole %s.", list,
             (long long)x.size, x.what, how, x.unit);
    } else {
        place(c, "/pipelines/%d/stages/%d/devices", i, s);
        find(c, "tensor parallelism of %d would cut %lld %s into %s; it must give whole %s.", tp,
             (long long)x.size, x.what, how, x.unit);
    }
}

/* Experts are dealt as evenly as they can be. */
static void check_dealt(checker *c, int32_t i, int32_t s)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    const int32_t among = c->p->expert_parallel ? c->p->expert_parallel : st->ndev;
    if (among <= c->model->moe.experts) return;
    place(c, "/pipelines/%d/stages/%d/devices", i, s);
    find(c, "%lld experts can not be dealt to %d devices; use experts: tensor or fewer devices.",
         (long long)c->model->moe.experts, among);
}

static void check_stage_cuts(checker *c, int32_t i, int32_t s)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    const luo_model *model = c->model;
    bool holds = false;
    for (int32_t k = 0; k < st->nlayers; k++) holds = holds || st->layers[k].lo < st->layers[k].hi;
    if (holds) {
        check_cut(c, i, s, (cut){model->heads, "heads", "heads"});
        if (model->kv_heads != model->heads)
            check_cut(c, i, s, (cut){model->kv_heads, "key-value heads", "heads"});
        if (model->ffn_hidden)
            check_cut(c, i, s, (cut){model->ffn_hidden, "feed-forward columns", "columns"});
    }
    if (holds && model->moe.experts && st->experts_dealt) check_dealt(c, i, s);
    if (holds && model->moe.experts && !st->experts_dealt)
        check_cut(c, i, s, (cut){model->moe.expert_ffn_hidden, "expert columns", "columns"});
    if (model->vocab && (st->embedding || st->head))
        check_cut(c, i, s, (cut){model->vocab, "vocabulary rows", "rows (pad `vocab`)"});
}

static void check_shares(checker *c)
{
    if (c->model && c->model->max_sequence_tokens &&
        c->p->sequence_tokens > c->model->max_sequence_tokens) {
        place(c, "/sequence_tokens");
        find(c, "`sequence_tokens` is %lld; model `%s` takes up to %lld.",
             (long long)c->p->sequence_tokens, c->model->name,
             (long long)c->model->max_sequence_tokens);
    }
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t s = 0; s < c->p->pipelines[i].nstages; s++) {
            const luo_stage *st = &c->p->pipelines[i].stages[s];
            if (st->ndev % st->context_parallel) {
                place(c, "/pipelines/%d/stages/%d/context_parallel", i, s);
                find(c, "`context_parallel` is %d; it must divide the %d devices of the stage.",
                     st->context_parallel, st->ndev);
            } else if (c->model && st->ndev && !luo_plan_is_annotated(c->p)) {
                check_stage_cuts(c, i, s);
            }
        }
}

/* ---- lost stages ---- */

/* A peer has the stage, holds the same there, and cuts it like the first peer. */
static void check_peer(checker *c, int32_t i, int32_t s, int32_t k, int32_t *by)
{
    const luo_plan *plan = c->p;
    const luo_stage *st = &plan->pipelines[i].stages[s];
    const int32_t j = st->reroute[k].pipeline, first = st->reroute[0].pipeline;
    place(c, "/pipelines/%d/stages/%d/reroute/%d/pipeline", i, s, k);
    if (j < 0 || j >= plan->npipelines) {
        find(c, "pipeline %d does not exist; pipelines are 0 to %d.", j, plan->npipelines - 1);
        return;
    }
    if (by[j]) find(c, "pipeline %d is named twice; one entry with the sum is expected.", j);
    by[j] = k + 1;
    if (!luo_reroute_is_peer(plan, i, j, s)) {
        find(c, "pipeline %d cannot run stage %d of pipeline %d; another pipeline with as many "
                "stages, and the same layers and recompute on this one, is expected.", j, s, i);
        return;
    }
    const luo_stage *peer = &plan->pipelines[j].stages[s];
    if (peer->ndev == 0)
        find(c, "stage %d of pipeline %d has no devices either; give one that has.", s, j);
    else if (first >= 0 && first < plan->npipelines && luo_reroute_is_peer(plan, i, first, s) &&
             !luo_reroute_cuts_alike(&plan->pipelines[first].stages[s], peer))
        find(c, "stage %d of pipelines %d and %d has other tensor-parallel groups; peers of one "
                "stage have equal ones.", s, first, j);
}

static void check_lost(checker *c, int32_t i, int32_t s, int32_t *by)
{
    const luo_plan *plan = c->p;
    const luo_stage *st = &plan->pipelines[i].stages[s];
    int64_t sum = 0;
    if (st->nreroute == 0) return;
    place(c, "/pipelines/%d/stages/%d/reroute", i, s);
    if (st->ndev)
        find(c, "stage %d has devices and `reroute`; `devices` is [] where others run the stage.",
             s);
    const char *why = luo_plan_not_reroutable(plan);
    if (why)
        find(c, "`reroute` does not go with %s; schedule 1f1b, zb_h1 or zb_h2 and zero 0 or 1 "
                "without such are expected.", why);
    memset(by, 0, (size_t)plan->npipelines * sizeof *by);
    for (int32_t k = 0; k < st->nreroute; k++) {
        check_peer(c, i, s, k, by);
        sum += st->reroute[k].micro_batches;
    }
    place(c, "/pipelines/%d/stages/%d/reroute", i, s);
    if (sum != plan->pipelines[i].micro_batches)
        find(c, "%lld micro-batches are dealt; pipeline %d has %d.", (long long)sum, i,
             plan->pipelines[i].micro_batches);
}

static void check_reroute(checker *c)
{
    int32_t *by = LUO_NEW_N(c->arena, int32_t, c->p->npipelines + 1);
    if (!by) c->failed = true;
    for (int32_t i = 0; by && i < c->p->npipelines; i++)
        for (int32_t s = 0; s < c->p->pipelines[i].nstages; s++) check_lost(c, i, s, by);
}

/* ---- context parallelism ---- */

static bool same_context(const luo_stage *a, const luo_stage *b)
{
    if (a->context_parallel != b->context_parallel || a->context_kind != b->context_kind ||
        a->context_layout != b->context_layout || a->context_inner != b->context_inner)
        return false;
    for (int32_t r = 0; r < a->context_parallel; r++)
        if ((a->context_shares ? a->context_shares[r] : 1) !=
            (b->context_shares ? b->context_shares[r] : 1))
            return false;
    return true;
}

/* Keys of context parallelism would change nothing with a degree of 1. */
static void check_no_context(checker *c, int32_t i, int32_t s)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    const char *key = st->context_kind     ? "context_kind"
                      : st->context_layout ? "context_layout"
                      : st->context_inner  ? "context_inner"
                      : st->context_shares ? "context_shares"
                                           : NULL;
    if (!key) return;
    place(c, "/pipelines/%d/stages/%d/%s", i, s, key);
    find(c, "`%s` means nothing with `context_parallel` 1; leave it out.", key);
}

static void check_inner(checker *c, int32_t i, int32_t s)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    const bool both = st->context_kind == LUO_CONTEXT_2D;
    const int32_t n = st->context_inner, ranks = st->context_parallel;
    if (!both && n == 0) return;
    place(c, "/pipelines/%d/stages/%d/%s", i, s, n ? "context_inner" : "context_kind");
    if (!both)
        find(c, "`context_inner` is given, but `context_kind` is `%s`; only `2d` has it.",
             luo_context_kind_name(st->context_kind));
    else if (n < 2 || n >= ranks || ranks % n)
        find(c, "`context_kind` `2d` with `context_inner` %d; a divisor of `context_parallel` %d "
                "between 1 and it is expected.", n, ranks);
}

/* Heads go round in whole ones: every rank of an exchange takes one of each tensor rank's. */
static void check_context_heads(checker *c, int32_t i, int32_t s)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    const luo_context context = luo_plan_context(c->p, c->model->causal, i);
    uint64_t total = 0, least = UINT32_MAX;
    const int32_t tp = luo_stage_tp(st);
    for (int32_t k = 0; k < tp; k++) {
        total += share(st, k);
        if (share(st, k) < least) least = share(st, k);
    }
    if (context.inner < 2 || total == 0) return;
    const int64_t heads = (int64_t)((uint64_t)c->model->heads * least / total);
    if (heads >= context.inner) return;
    place(c, "/pipelines/%d/stages/%d/context_kind", i, s);
    find(c, "`context_parallel` %d: %s needs %d query heads a tensor rank, not %lld; use ring.",
         st->context_parallel, luo_context_kind_name(st->context_kind), context.inner,
         (long long)heads);
}

static void check_context(checker *c, int32_t i, int32_t s)
{
    const luo_stage *st = &c->p->pipelines[i].stages[s];
    if (st->context_parallel <= 1) {
        check_no_context(c, i, s);
        return;
    }
    const luo_context context = {.c = st->context_parallel, .share = st->context_shares};
    const int64_t sum = luo_context_sum(&context);
    if (sum > LUO_CONTEXT_SHARES) {
        place(c, "/pipelines/%d/stages/%d/context_%s", i, s,
              st->context_shares ? "shares" : "parallel");
        find(c, "sequences are cut into %lld shares; up to %d are expected.", (long long)sum,
             (int)LUO_CONTEXT_SHARES);
    }
    check_inner(c, i, s);
    if (c->model && st->ndev % st->context_parallel == 0) check_context_heads(c, i, s);
}

static void check_contexts(checker *c)
{
    for (int32_t i = 0; i < c->p->npipelines; i++) {
        const luo_pipeline *pl = &c->p->pipelines[i];
        for (int32_t s = 0; s < pl->nstages; s++) {
            check_context(c, i, s);
            if (same_context(&pl->stages[0], &pl->stages[s])) continue;
            place(c, "/pipelines/%d/stages/%d", i, s);
            find(c, "stage %d cuts sequences otherwise than stage 0 of pipeline %d; context "
                    "parallelism is alike in all stages of a pipeline.", s, i);
        }
    }
}

/* ---- pipelines agree ---- */

/* True if a stage in [lo, hi) holds layers in chunk k. */
static bool holds_layers(const luo_pipeline *pl, int32_t lo, int32_t hi, bool last_chunk)
{
    for (int32_t s = lo; s < hi; s++) {
        const luo_stage *st = &pl->stages[s];
        const int32_t k = last_chunk ? st->nlayers - 1 : 0;
        if (st->nlayers && st->layers[k].lo < st->layers[k].hi) return true;
    }
    return false;
}

static void check_ends(checker *c, int32_t i)
{
    const luo_pipeline *pl = &c->p->pipelines[i];
    int32_t ne = 0, nh = 0, e = 0, h = 0;
    for (int32_t s = 0; s < pl->nstages; s++) {
        if (pl->stages[s].embedding && ne++ == 0) e = s;
        if (pl->stages[s].head && nh++ == 0) h = s;
    }
    place(c, "/pipelines/%d/stages", i);
    if (ne != 1)
        find(c, "pipeline %d has %d stages with `embedding`; exactly one is expected.", i, ne);
    if (nh != 1) find(c, "pipeline %d has %d stages with `head`; exactly one is expected.", i, nh);
    if (ne == 1 && holds_layers(pl, 0, e, false)) {
        place(c, "/pipelines/%d/stages/%d/embedding", i, e);
        find(c, "stage %d has the embedding, but a stage before it holds layers; the embedding "
                "comes first.", e);
    }
    if (nh == 1 && holds_layers(pl, h + 1, pl->nstages, true)) {
        place(c, "/pipelines/%d/stages/%d/head", i, h);
        find(c, "stage %d has the head, but a stage after it holds layers; the head comes last.",
             h);
    }
}

/* 1 + experts_dealt of the stage that holds layer l; 0: none does. */
static int experts_of(const luo_pipeline *pl, int32_t l)
{
    for (int32_t s = 0; s < pl->nstages; s++)
        for (int32_t k = 0; k < pl->stages[s].nlayers; k++)
            if (l >= pl->stages[s].layers[k].lo && l < pl->stages[s].layers[k].hi)
                return 1 + pl->stages[s].experts_dealt;
    return 0;
}

/* Keys about experts would change nothing in a model without any. */
static void check_no_experts(checker *c)
{
    if (!c->model || c->model->moe.experts) return;
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t s = 0; s < c->p->pipelines[i].nstages; s++) {
            if (!c->p->pipelines[i].stages[s].experts_dealt) continue;
            place(c, "/pipelines/%d/stages/%d/experts", i, s);
            find(c, "`experts` is `expert`, but model `%s` has no experts; leave it out.",
                 c->model->name);
        }
    place(c, "/expert_parallel");
    if (c->p->expert_parallel)
        find(c, "`expert_parallel` is given, but model `%s` has no experts; leave it out.",
             c->model->name);
    place(c, "/expert_groups");
    if (c->p->ngroups)
        find(c, "`expert_groups` are given, but model `%s` has no experts; leave them out.",
             c->model->name);
}

static void check_experts(checker *c)
{
    bool any = false;
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t s = 0; s < c->p->pipelines[i].nstages; s++)
            any = any || c->p->pipelines[i].stages[s].experts_dealt;
    for (int32_t l = 0; any && l < c->p->layers; l++)
        for (int32_t i = 1; i < c->p->npipelines; i++) {
            const int a = experts_of(&c->p->pipelines[0], l);
            const int b = experts_of(&c->p->pipelines[i], l);
            if (!a || !b || a == b) continue;
            place(c, "/pipelines/%d/stages", i);
            find(c, "layer %d has `experts` `%s` in pipeline %d and `%s` in pipeline 0; they must "
                    "agree.", l, b == 2 ? "expert" : "tensor", i, a == 2 ? "expert" : "tensor");
            return;
        }
}

static bool same_layers(const luo_pipeline *a, const luo_pipeline *b)
{
    if (a->nstages != b->nstages) return false;
    for (int32_t s = 0; s < a->nstages; s++) {
        if (a->stages[s].nlayers != b->stages[s].nlayers) return false;
        for (int32_t k = 0; k < a->stages[s].nlayers; k++)
            if (a->stages[s].layers[k].lo != b->stages[s].layers[k].lo ||
                a->stages[s].layers[k].hi != b->stages[s].layers[k].hi)
                return false;
    }
    return true;
}

static void check_groups(checker *c)
{
    const luo_plan *plan = c->p;
    int32_t *by = LUO_NEW_N(c->arena, int32_t, plan->npipelines + 1);
    if (!by) c->failed = true;
    for (int32_t g = 0; by && g < plan->ngroups; g++)
        for (int32_t k = 0; k < plan->expert_groups[g].n; k++) {
            const int32_t i = plan->expert_groups[g].pipeline[k];
            place(c, "/expert_groups/%d/%d", g, k);
            if (i < 0 || i >= plan->npipelines) {
                find(c, "pipeline %d does not exist; pipelines are 0 to %d.", i,
                     plan->npipelines - 1);
                continue;
            }
            if (by[i]) find(c, "pipeline %d is in two expert groups; one is allowed.", i);
            by[i] = 1;
            const int32_t first = plan->expert_groups[g].pipeline[0];
            if (first >= 0 && first < plan->npipelines &&
                !same_layers(&plan->pipelines[first], &plan->pipelines[i]))
                find(c, "pipelines %d and %d share experts but cut the layers differently; equal "
                        "stage layers are required.", first, i);
        }
}

/* ---- schedule and chunks ---- */

static void check_schedule(checker *c)
{
    const luo_plan *plan = c->p;
    const bool inter = luo_sched_takes_chunks(plan->schedule);
    place(c, "/schedule/chunks");
    if (plan->chunks > 1 && !inter)
        find(c, "`chunks` is %d with schedule `%s`; more than 1 needs `interleaved_1f1b`.",
             plan->chunks, luo_sched_name(plan->schedule));
    place(c, "/schedule/kind");
    if (luo_sched_splits(plan->schedule) && plan->zero >= 2)
        find(c,
             "schedule `%s` with zero %d: gradients that are cut in every micro-batch need a "
             "whole backward; use zero 0 or 1, or schedule `1f1b`.",
             luo_sched_name(plan->schedule), plan->zero);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        for (int32_t s = 0; s < pl->nstages; s++)
            if (pl->stages[s].nlayers != plan->chunks) {
                place(c, "/pipelines/%d/stages/%d/layers", i, s);
                find(c, "stage %d has %d layer ranges; `chunks` %d asks for as many.", s,
                     pl->stages[s].nlayers, plan->chunks);
            }
        if (inter && pl->nstages > 1 && pl->micro_batches % pl->nstages) {
            place(c, "/pipelines/%d/micro_batches", i);
            find(c, "interleaved schedule: %d micro-batches are not a multiple of %d stages; "
                    "choose a multiple.", pl->micro_batches, pl->nstages);
        }
    }
}

static double widest(const luo_model *model)
{
    const double q = (double)model->heads * (double)model->head_dim;
    const double width[] = {(double)model->hidden,      (double)model->ffn_hidden,
                            (double)model->vocab,       (double)model->classes,
                            (double)model->moe.experts, q};
    double most = 1;
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        if (width[i] > most) most = width[i];
    return most;
}

/* Bytes of a tensor and FLOP of an operation fit into 63 bits. */
static void check_operations(checker *c, double tokens)
{
    const luo_model *model = c->model;
    if (!model) return;
    const double q = (double)model->heads * (double)model->head_dim;
    const double product = 6 * tokens * widest(model) * (double)model->hidden;
    const double attention = 10 * tokens * q * (double)c->p->sequence_tokens;
    const double flop = product > attention ? product : attention;
    if (flop < 9e18) return;
    place(c, "/sequence_tokens");
    find(c,
         "an operation of model `%s` on a step of this plan has %.3g FLOP; up to 9e18 are "
         "taken.",
         model->name, flop);
}

static void check_volume(checker *c)
{
    const int64_t most = (int64_t)luo_quantity_at(LUO_Q_TOKENS)->highest;
    const int64_t tokens = luo_plan_tokens(c->p);
    place(c, "/pipelines");
    if (tokens > most)
        find(c, "a step of %lld tokens is too large; up to %lld are taken.", (long long)tokens,
             (long long)most);
    else
        check_operations(c, (double)tokens);
    int64_t assigned = 0;
    for (int32_t k = 0; k < c->p->nassignment && assigned <= most; k++)
        assigned += c->p->assignment[k].length_tokens;
    place(c, "/assignment");
    if (assigned > most)
        find(c, "`assignment` has more than %lld tokens in a step; fewer are taken.",
             (long long)most);
}

/* Lengths given for the micro-batches have room for the sequences given to them. */
static void check_room(checker *c, int32_t i)
{
    const luo_plan *plan = c->p;
    const luo_pipeline *pl = &plan->pipelines[i];
    if (!pl->micro_batch_tokens || !plan->nassignment) return;
    int64_t *sum = LUO_NEW_N(c->arena, int64_t, pl->micro_batches);
    if (!sum) c->failed = true;
    for (int32_t k = 0; sum && k < plan->nassignment; k++) {
        const luo_assignment *a = &plan->assignment[k];
        if (a->pipeline == i && a->micro_batch >= 0 && a->micro_batch < pl->micro_batches &&
            sum[a->micro_batch] <= pl->micro_batch_tokens[a->micro_batch])
            sum[a->micro_batch] += a->length_tokens;
    }
    for (int32_t k = 0; sum && k < pl->micro_batches; k++) {
        if (sum[k] <= pl->micro_batch_tokens[k]) continue;
        place(c, "/pipelines/%d/micro_batch_tokens/%d", i, k);
        find(c, "micro-batch %d of pipeline %d has %lld tokens, but `assignment` gives it %lld; "
                "at least as many are needed.", k, i, (long long)pl->micro_batch_tokens[k],
             (long long)sum[k]);
    }
}

static void check_assignment(checker *c)
{
    const luo_plan *plan = c->p;
    for (int32_t i = 0; i < plan->npipelines; i++) check_room(c, i);
    for (int32_t k = 0; k < plan->nassignment; k++) {
        const luo_assignment *a = &plan->assignment[k];
        place(c, "/assignment/%d/pipeline", k);
        if (a->pipeline < 0 || a->pipeline >= plan->npipelines) {
            find(c, "pipeline %d does not exist; pipelines are 0 to %d.", a->pipeline,
                 plan->npipelines - 1);
            continue;
        }
        place(c, "/assignment/%d/micro_batch", k);
        if (a->micro_batch < 0 || a->micro_batch >= plan->pipelines[a->pipeline].micro_batches)
            find(c, "micro-batch %d does not exist in pipeline %d; its ids are 0 to %d.",
                 a->micro_batch, a->pipeline, plan->pipelines[a->pipeline].micro_batches - 1);
    }
}

/* ---- form of the annotations; whether they can be met, the compiler finds ---- */

static void check_ann_devices(checker *c, const luo_ann *ann)
{
    for (int32_t g = 0; g < ann->u; g++)
        for (int32_t k = 0; k < ann->grp[g].ndev; k++) {
            const int32_t d = ann->grp[g].dev[k];
            if (d >= 0 && d < c->p->devices) continue;
            find(c, "device %d is not among the %d devices of the plan; ids are 0 to %d.", d,
                 c->p->devices, c->p->devices - 1);
            return;
        }
}

static void check_annotations(checker *c)
{
    luo_map seen = {0};
    for (int32_t k = 0; k < c->p->nannotations && !c->failed; k++) {
        const luo_plan_annotation *a = &c->p->annotations[k];
        const luo_ann *ann;
        luo_err err;
        place(c, "/annotations/%d/annotation", k);
        const luo_status st = luo_ann_parse(c->arena, a->annotation, &ann, &err);
        if (st == LUO_ENOMEM) c->failed = true;
        else if (st != LUO_OK) find(c, "%s", err.text);
        else check_ann_devices(c, ann);
        const uint64_t key = luo_hash_str(
            luo_hash_bytes(luo_hash_str(LUO_HASH_EMPTY, a->tensor), "\n", 1), a->at) >> 1;
        int64_t *first = luo_map_at(&seen, key, k);
        if (!first) c->failed = true;
        else if (*first != k) {
            place(c, "/annotations/%d", k);
            find(c, "tensor `%s` is annotated twice at `%s`; one annotation is allowed.",
                 a->tensor, a->at);
        }
    }
    luo_map_free(&seen);
}

luo_status luo_plan_check_work(const luo_plan *plan, const luo_work *limits, luo_err *err)
{
    double micro_batches = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        micro_batches += plan->pipelines[i].micro_batches;
    const luo_status st =
        luo_work_check(limits, LUO_WORK_MICRO_BATCHES, micro_batches, "the plan has", err);
    return luo_err_part(err, st, "/pipelines");
}

luo_status luo_plan_check(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                          const luo_cluster *cluster, luo_plan_finding **out, int32_t *n)
{
    checker c = {.arena = arena, .p = plan, .model = model, .cluster = cluster};
    check_layers(&c);
    check_devices(&c);
    check_shares(&c);
    check_reroute(&c);
    check_contexts(&c);
    for (int32_t i = 0; i < plan->npipelines; i++) check_ends(&c, i);
    check_no_experts(&c);
    check_experts(&c);
    check_groups(&c);
    check_schedule(&c);
    check_volume(&c);
    check_assignment(&c);
    check_annotations(&c);
    *out = c.at;
    *n = c.n;
    if (c.failed) return LUO_ENOMEM;
    return c.n ? LUO_EINPUT : LUO_OK;
}
