/* The straggler planner from its numbers to its plans (Malleus 8 to 10): groups of every node,
 * combinations of them, dealings of each combination, and another number of pipelines when the one
 * asked for has no plan. */
#include "core/plan/malleus.h"

#include <assert.h>
#include <string.h>

#include "core/plan/malleus_build.h"

enum { DEALT = 8 }; /* up to so many pipelines every dealing is tried */

typedef struct job {
    luo_arena *arena, *scratch;
    const luo_malleus_in *in;
    luo_mal_node *nodes;
    int32_t nnodes, nmixes;
    luo_mal_mix *mixes;
    double bound;
} job;

double luo_malleus_bound(const double *y, int32_t n, int64_t layers, int64_t micro_batches)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += 1 / y[i];
    return (double)layers * (double)micro_batches / sum;
}

static luo_status begin(luo_mal_search *s, const luo_malleus_in *in, int32_t dp,
                        const luo_mal_mix *mixes, int32_t n, luo_err *err)
{
    *s = (luo_mal_search){.arena = luo_arena_new(1 << 16), .in = in, .dp = dp, .nmixes = n,
                          .rng = luo_rng_stream(in->seed, "malleus"), .count.exhaustive = true};
    if (!s->arena) return luo_err_nomem(err);
    s->mixes = LUO_NEW_N(s->arena, luo_mal_mix, n);
    if (!s->mixes) return luo_err_nomem(err);
    memcpy(s->mixes, mixes, (size_t)n * sizeof *mixes);
    LUO_TRY(luo_mal_tops(s, err));
    return luo_mal_memo(s, err);
}

static luo_status search_mix(luo_mal_search *s, luo_mal_mix *mix, luo_err *err)
{
    if (mix->ngroups < s->dp || mix->bound >= luo_mal_best(s)) return LUO_OK;
    s->count.combos++;
    if (s->dp > DEALT || !luo_mal_deal(s, mix)) {
        s->count.exhaustive = false;
        LUO_TRY(luo_mal_local(s, mix, err));
    }
    return s->nomem ? luo_err_nomem(err) : LUO_OK;
}

/* At least as many micro-batches as stages in every pipeline; when no plan has that, at least
 * one. */
static luo_status search(luo_mal_search *s, luo_err *err)
{
    for (int few = 0; few <= 1 && s->ntops == 0 && (!few || s->crowded); few++) {
        s->few = few;
        for (int32_t i = 0; i < s->nmixes; i++) LUO_TRY(search_mix(s, &s->mixes[i], err));
    }
    return LUO_OK;
}

static luo_status finish(const job *j, luo_mal_search *s, luo_malleus_found *out, luo_err *err)
{
    if (s->ntops == 0) return LUO_EINFEASIBLE;
    LUO_TRY(luo_mal_rerank(s, err));
    LUO_TRY(luo_mal_seal(j->arena, s, out, err));
    out->bound = j->bound;
    return LUO_OK;
}

static luo_status plan_with(const job *j, int32_t dp, luo_malleus_found *out, luo_err *err)
{
    luo_mal_search s;
    luo_status st = LUO_OK;
    LUO_TRY_OUT(begin(&s, j->in, dp, j->mixes, j->nmixes, err));
    LUO_TRY_OUT(search(&s, err));
    LUO_TRY_OUT(finish(j, &s, out, err));
out:
    luo_arena_free(s.arena);
    return st;
}

static bool all_alike(const luo_malleus_in *in)
{
    const double rate = luo_mal_rate(in, in->devices[0].rate);
    for (int32_t i = 1; i < in->ndevices; i++)
        if (luo_mal_rate(in, in->devices[i].rate) != rate) return false;
    return true;
}

/* The base plan, when nothing is missing and no device differs from another: pipeline i stage j is
 * group pp*i + j. LUO_ENO: it has to be searched. */
static luo_status plan_base(const job *j, luo_malleus_found *out, luo_err *err)
{
    const luo_malleus_in *in = j->in;
    luo_mal_search s = {0};
    luo_mal_mix mix;
    luo_status st = LUO_ENO;
    if (in->search_healthy || !in->whole || !all_alike(in)) return LUO_ENO;
    LUO_TRY(luo_mal_whole_mix(j->scratch, in, j->nodes, j->nnodes, &mix, err));
    if (mix.ncls != 1 || mix.ngroups != in->dp * in->pp) return LUO_ENO;
    int32_t *ids = LUO_NEW_N(j->scratch, int32_t, in->dp);
    if (!ids) return luo_err_nomem(err);
    LUO_TRY_OUT(begin(&s, in, in->dp, &mix, 1, err));
    for (int32_t i = 0; i < in->dp; i++) ids[i] = luo_mal_pipe_of(&s, s.mixes, &in->pp);
    luo_mal_offer(&s, s.mixes, ids);
    if (s.ntops == 0 && s.crowded) {
        s.few = true;
        luo_mal_offer(&s, s.mixes, ids);
    }
    st = finish(j, &s, out, err);
    if (st == LUO_EINFEASIBLE) st = LUO_ENO;
    if (st == LUO_OK) out->search = (luo_malleus_search){.skipped = true};
out:
    luo_arena_free(s.arena);
    return st;
}

static bool improves(const luo_malleus_in *in, const luo_malleus_found *a,
                     const luo_malleus_found *b)
{
    const luo_malleus_plan *x = &a->plans[0], *y = &b->plans[0];
    if (in->rank == LUO_RANK_STEADY) return x->steady < y->steady;
    return x->event != y->event ? x->event < y->event : x->filled < y->filled;
}

static luo_status try_more(const job *j, luo_malleus_found *out, luo_err *err)
{
    luo_malleus_found more;
    if (!j->in->dp_auto || out->dp != j->in->dp || j->in->micro_batches <= out->dp) return LUO_OK;
    const luo_status st = plan_with(j, out->dp + 1, &more, err);
    if (st == LUO_OK && improves(j->in, &more, out)) *out = more;
    return st == LUO_EINFEASIBLE ? LUO_OK : st;
}

/* Names the stage that holds least when all groups are one pipeline. */
static luo_status say_infeasible(const job *j, luo_err *err)
{
    luo_mal_search s;
    luo_status st = LUO_OK;
    const luo_malleus_in *in = j->in;
    LUO_TRY_OUT(begin(&s, in, 1, j->mixes, 1, err));
    const luo_mal_mix *mix = &s.mixes[0];
    for (int32_t c = 0; c < mix->ncls; c++) s.vector[c] = mix->cls[c].n;
    const int32_t n = luo_mal_lay_out(&s, mix, s.vector);
    int32_t least = 0;
    for (int32_t k = 1; k < n; k++)
        if (s.cap[k] < s.cap[least]) least = k;
    const luo_mal_class *cls = &mix->cls[s.stage_class[least]];
    const int32_t device = cls->members[0]->devices[0];
    if (in->tight) *in->tight = (luo_malleus_tight){device, cls->kind, cls->size, n, least};
    st = luo_err_set(err, LUO_EINFEASIBLE,
                     "no plan fits in memory; the tightest stage (device %d) holds %lld of %lld "
                     "layers; try more stages, `recompute` or `zero` 1.", device,
                     (long long)s.cap[least], (long long)in->layers);
out:
    luo_arena_free(s.arena);
    return st;
}

static luo_status plan(job *j, luo_malleus_found *out, luo_err *err)
{
    const luo_malleus_in *in = j->in;
    LUO_TRY(luo_mal_nodes(j->arena, in, &j->nodes, &j->nnodes, err));
    LUO_TRY(luo_mal_mixes(j->scratch, in, j->nodes, j->nnodes, &j->mixes, &j->nmixes, err));
    j->bound = j->mixes[0].bound;
    luo_status st = plan_base(j, out, err);
    if (st != LUO_ENO) return st;
    st = LUO_EINFEASIBLE;
    for (int32_t dp = in->dp; dp >= 1 && st == LUO_EINFEASIBLE; dp--)
        st = plan_with(j, dp, out, err);
    if (st == LUO_EINFEASIBLE) return say_infeasible(j, err);
    LUO_TRY(st);
    return try_more(j, out, err);
}

luo_status luo_malleus(luo_arena *arena, const luo_malleus_in *in, luo_malleus_found **out,
                       luo_err *err)
{
    assert(in->ndevices >= 1 && in->dp >= 1 && in->tp >= 1 && in->pp >= 1);
    assert((in->tp & (in->tp - 1)) == 0 && in->layers >= 1 && in->nkinds >= 1);
    if (in->micro_batches < in->dp)
        return luo_err_set(err, LUO_EINPUT,
                           "the batch gives %lld micro-batches for %d pipelines; at least one each "
                           "is needed.", (long long)in->micro_batches, in->dp);
    luo_malleus_found *found = LUO_NEW(arena, luo_malleus_found);
    job j = {.arena = arena, .scratch = luo_arena_new(0), .in = in};
    luo_status st = found && j.scratch ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK) st = plan(&j, found, err);
    luo_arena_free(j.scratch);
    if (st == LUO_OK) *out = found;
    return st;
}
