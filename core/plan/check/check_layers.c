/* check_layers.c: each layer once in every pipeline, its ends where they belong. */
#include <string.h>

#include "core/plan/check/check_internal.h"

/* ---- layer coverage: each layer once per pipeline, in stage order ---- */

static int32_t most_ranges(const luo_pipeline *pl)
{
    int32_t n = 0;
    for (int32_t s = 0; s < pl->nstages; s++)
        if (pl->stages[s].nlayers > n) n = pl->stages[s].nlayers;
    return n;
}

static bool range_fits(luo_checker *checker, int32_t i, int32_t s, int32_t k)
{
    const luo_range range = checker->p->pipelines[i].stages[s].layers[k];
    if (range.lo >= 0 && range.lo <= range.hi && range.hi <= checker->p->layers) return true;
    luo_check_place(checker, "/pipelines/%d/stages/%d/layers/%d", i, s, k);
    luo_check_find(checker,
                   "layers [%d,%d] are no range within 0 to %d; `lo` up to, not including, `hi` is "
                   "expected.",
                   range.lo, range.hi, checker->p->layers);
    return false;
}

/* by[l]: 1 + the stage that holds layer l. Counts the layers held; false: a layer twice or out of
 * order. Chunk k of all stages comes before chunk k + 1 of any. */
static bool cover(luo_checker *checker, int32_t i, int32_t *by, int32_t *held)
{
    const luo_pipeline *pl = &checker->p->pipelines[i];
    const int32_t chunks = most_ranges(pl);
    int32_t next = 0;
    bool good = true;
    for (int32_t k = 0; k < chunks; k++)
        for (int32_t s = 0; s < pl->nstages; s++) {
            if (k >= pl->stages[s].nlayers) continue;
            if (!range_fits(checker, i, s, k)) {
                good = false;
                continue;
            }
            const luo_range range = pl->stages[s].layers[k];
            luo_check_place(checker, "/pipelines/%d/stages/%d/layers/%d", i, s, k);
            int32_t twice = -1;
            for (int32_t l = range.lo; l < range.hi; l++) {
                if (by[l] && twice < 0) twice = l;
                if (!by[l]) ++*held;
                by[l] = s + 1;
            }
            if (twice >= 0)
                luo_check_find(
                    checker,
                    "layer %d of pipeline %d is held twice; each layer stands in one stage.", twice,
                    i);
            else if (range.lo < range.hi && range.lo < next)
                luo_check_find(
                    checker,
                    "layers [%d,%d] come after layer %d of pipeline %d; stages follow the "
                    "order of the layers.",
                    range.lo, range.hi, next - 1, i);
            if (twice >= 0 || (range.lo < range.hi && range.lo < next)) good = false;
            if (range.lo < range.hi && range.hi > next) next = range.hi;
        }
    return good;
}

static void check_missing(luo_checker *checker, int32_t i, const int32_t *by, int32_t held)
{
    const int32_t L = checker->p->layers;
    int32_t lo = 0, hi;
    while (lo < L && by[lo]) lo++;
    if (lo == L) return;
    for (hi = lo + 1; hi < L && !by[hi];) hi++;
    luo_check_place(checker, "/pipelines/%d/stages", i);
    if (hi - lo == 1)
        luo_check_find(checker, "pipeline %d holds %d of %d layers; layer %d is in no stage.", i,
                       held, L, lo);
    else
        luo_check_find(checker,
                       "pipeline %d holds %d of %d layers; layers %d to %d are in no stage.", i,
                       held, L, lo, hi - 1);
}

static void check_recompute(luo_checker *checker, int32_t i, int32_t s)
{
    const luo_stage *st = &checker->p->pipelines[i].stages[s];
    for (int32_t k = 0; k < st->nrecompute; k++) {
        const luo_range range = st->recompute_layers[k];
        bool inside = false;
        for (int32_t q = 0; q < st->nlayers; q++)
            if (range.lo >= st->layers[q].lo && range.lo < range.hi && range.hi <= st->layers[q].hi)
                inside = true;
        if (inside) continue;
        luo_check_place(checker, "/pipelines/%d/stages/%d/recompute/layers/%d", i, s, k);
        luo_check_find(
            checker,
            "recompute of layers [%d,%d] is not within the layers of stage %d; give ranges of "
            "this stage, or none for all of it.",
            range.lo, range.hi, s);
    }
    if (st->recompute == LUO_RECOMPUTE_NONE && st->nrecompute) {
        luo_check_place(checker, "/pipelines/%d/stages/%d/recompute/layers", i, s);
        luo_check_find(
            checker,
            "recompute `none` has layers; leave them out or choose `selective` or `full`.");
    }
}

void luo_check_layers(luo_checker *checker)
{
    int32_t *by =
        LUO_NEW_N(checker->arena, int32_t, checker->p->layers > 0 ? checker->p->layers : 1);
    if (!by) {
        checker->failed = true;
        return;
    }
    if (checker->model && checker->p->layers != checker->model->layers) {
        luo_check_place(checker, "/layers");
        luo_check_find(checker, "`layers` is %d; model `%s` has %lld.", checker->p->layers,
                       checker->model->name, (long long)checker->model->layers);
    }
    for (int32_t i = 0; i < checker->p->npipelines; i++) {
        int32_t held = 0;
        memset(by, 0, (size_t)checker->p->layers * sizeof *by);
        if (cover(checker, i, by, &held) || held < checker->p->layers)
            check_missing(checker, i, by, held);
        for (int32_t s = 0; s < checker->p->pipelines[i].nstages; s++)
            check_recompute(checker, i, s);
    }
}

/* ---- the ends of pipelines ---- */

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

static void check_ends(luo_checker *checker, int32_t i)
{
    const luo_pipeline *pl = &checker->p->pipelines[i];
    int32_t ne = 0, nh = 0, e = 0, h = 0;
    for (int32_t s = 0; s < pl->nstages; s++) {
        if (pl->stages[s].embedding && ne++ == 0) e = s;
        if (pl->stages[s].head && nh++ == 0) h = s;
    }
    luo_check_place(checker, "/pipelines/%d/stages", i);
    if (ne != 1)
        luo_check_find(
            checker, "pipeline %d has %d stages with `embedding`; exactly one is expected.", i, ne);
    if (nh != 1)
        luo_check_find(checker, "pipeline %d has %d stages with `head`; exactly one is expected.",
                       i, nh);
    if (ne == 1 && holds_layers(pl, 0, e, false)) {
        luo_check_place(checker, "/pipelines/%d/stages/%d/embedding", i, e);
        luo_check_find(
            checker,
            "stage %d has the embedding, but a stage before it holds layers; the embedding "
            "comes first.",
            e);
    }
    if (nh == 1 && holds_layers(pl, h + 1, pl->nstages, true)) {
        luo_check_place(checker, "/pipelines/%d/stages/%d/head", i, h);
        luo_check_find(
            checker,
            "stage %d has the head, but a stage after it holds layers; the head comes last.", h);
    }
}

void luo_check_ends(luo_checker *checker)
{
    for (int32_t i = 0; i < checker->p->npipelines; i++) check_ends(checker, i);
}
