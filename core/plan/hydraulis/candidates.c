/* Candidate plans: gathered, made alike, without doubles. */
#include "core/plan/hydraulis/candidates.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/hydraulis/candidates_internal.h"

const char *luo_candidate_source_name(luo_candidate_source source)
{
    static const char *const names[] = {"alike", "floor", "published", "mixed"};
    return names[source];
}

/* ---- gathering ---- */

/* Before others: wide tensor groups, then few stages. */
static int by_shape(const luo_pool *pool, int32_t a, int32_t b)
{
    const luo_pool_entry *x = &pool->entry[a], *y = &pool->entry[b];
    if (x->tp != y->tp) return x->tp > y->tp ? -1 : 1;
    if (x->pp != y->pp) return x->pp < y->pp ? -1 : 1;
    return x->cp < y->cp ? -1 : x->cp > y->cp;
}

static void sort_counts(const luo_pool *pool, luo_counts *counts)
{
    for (int32_t i = 1; i < counts->n; i++)
        for (int32_t k = i; k > 0 && by_shape(pool, counts->entry[k], counts->entry[k - 1]) < 0;
             k--) {
            const int32_t e = counts->entry[k], m = counts->copies[k];
            counts->entry[k] = counts->entry[k - 1], counts->copies[k] = counts->copies[k - 1];
            counts->entry[k - 1] = e, counts->copies[k - 1] = m;
        }
}

void luo_counts_add(luo_counts *counts, int32_t entry, int32_t copies)
{
    for (int32_t i = 0; i < counts->n; i++)
        if (counts->entry[i] == entry) {
            counts->copies[i] += copies;
            return;
        }
    assert(counts->n < LUO_COUNTS_MOST);
    counts->entry[counts->n] = entry;
    counts->copies[counts->n++] = copies;
}

int32_t luo_counts_devices(const luo_pool *pool, const luo_counts *counts)
{
    int32_t devices = 0;
    for (int32_t i = 0; i < counts->n; i++)
        devices += counts->copies[i] * luo_pool_devices(&pool->entry[counts->entry[i]]);
    return devices;
}

static bool same(const luo_counts *a, const luo_counts *b)
{
    return a->n == b->n && memcmp(a->entry, b->entry, (size_t)a->n * sizeof *a->entry) == 0 &&
           memcmp(a->copies, b->copies, (size_t)a->n * sizeof *a->copies) == 0;
}

luo_status luo_gathered_add(luo_gathered *gathered, luo_counts counts, luo_candidate_source source,
                            double ms, luo_err *err)
{
    sort_counts(gathered->pool, &counts);
    for (int32_t i = 0; i < gathered->n; i++)
        if (same(&gathered->at[i].counts, &counts)) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(gathered->arena, gathered->at, gathered->n, gathered->cap))
        return luo_err_nomem(err);
    gathered->at[gathered->n++] = (luo_gathered_plan){counts, source, ms};
    return LUO_OK;
}

luo_status luo_counts_plan(luo_arena *arena, const luo_counts *counts, luo_replicas *out,
                           luo_err *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < counts->n; i++) n += counts->copies[i];
    luo_replica *replica = LUO_NEW_N(arena, luo_replica, n);
    if (!replica) return luo_err_nomem(err);
    *out = (luo_replicas){n, replica};
    for (int32_t i = 0; i < counts->n; i++)
        for (int32_t k = 0; k < counts->copies[i]; k++)
            *replica++ = (luo_replica){counts->entry[i], 1};
    return LUO_OK;
}

/* ---- proposals ---- */

/* Equal replicas that hold every sequence: what rivals use, so that nothing is lost to them; or
 * those that hold only short ones, as many batches have no others. */
static luo_status add_alike(const luo_candidates_in *in, bool all, luo_gathered *gathered,
                            luo_err *err)
{
    for (int32_t k = 0; k < in->pool->n; k++) {
        const luo_pool_entry *entry = &in->pool->entry[k];
        luo_counts counts = {0};
        if (entry->cap == 0 || luo_pool_devices(entry) > in->devices) continue;
        if ((entry->cap >= in->rule.most) != all) continue;
        luo_counts_add(&counts, k, in->devices / luo_pool_devices(entry));
        LUO_TRY(luo_gathered_add(gathered, counts, LUO_CANDIDATE_ALIKE, NAN, err));
    }
    return LUO_OK;
}

/* Devices that the floor of one long sequence leaves over go to the copies with most to do. */
static void use_leftover(const luo_candidates_in *in, const luo_histogram *histogram,
                         luo_proposal *proposal)
{
    int32_t left = in->devices;
    for (int32_t i = 0; i < proposal->nparts; i++)
        left -=
            proposal->part[i].copies * luo_pool_devices(&in->pool->entry[proposal->part[i].entry]);
    for (;;) {
        int32_t to = -1;
        double most = 0;
        for (int32_t i = 0; i < proposal->nparts; i++) {
            const luo_pool_entry *entry = &in->pool->entry[proposal->part[i].entry];
            luo_pool_entry flat = *entry;
            flat.pp = 1; /* the span is work / copies then */
            const double share =
                luo_propose_span(&flat, histogram, proposal->part[i].low, proposal->part[i].high,
                                 proposal->part[i].copies, LUO_PROPOSE_PUBLISHED);
            if (luo_pool_devices(entry) > left || (to >= 0 && share <= most)) continue;
            most = share;
            to = i;
        }
        if (to < 0) return;
        proposal->part[to].copies++;
        left -= luo_pool_devices(&in->pool->entry[proposal->part[to].entry]);
    }
}

static luo_status make_grid(luo_arena *arena, const luo_candidates_in *in, luo_propose_grid *out,
                            luo_err *err)
{
    const int64_t n = (in->rule.most + in->grid_step - 1) / in->grid_step;
    int64_t *end = LUO_NEW_N(arena, int64_t, n);
    if (!end) return luo_err_nomem(err);
    for (int64_t j = 0; j < n; j++) end[j] = (j + 1) * in->grid_step;
    end[n - 1] = in->rule.most;
    *out = (luo_propose_grid){(int32_t)n, end};
    return LUO_OK;
}

/* Too many: those of the longest sequences stay, and others at even distances. */
static bool stays(int32_t i, int32_t n)
{
    const int32_t most = LUO_CANDIDATES_MOST / 2; /* of each mode */
    if (n <= most) return true;
    const int64_t before = (int64_t)i * most / n, after = (int64_t)(i + 1) * most / n;
    return after > before; /* the last one is among them */
}

static luo_status add_proposals(const luo_candidates_in *in, const luo_histogram *histogram,
                                const luo_propose_grid *grid, luo_propose_mode mode,
                                luo_gathered *gathered, luo_err *err)
{
    const bool floor_mode = mode == LUO_PROPOSE_FLOOR;
    luo_proposal *found;
    int32_t n;
    LUO_TRY(luo_propose(gathered->arena, in->pool, histogram, in->devices, in->device_step, grid,
                        mode, &found, &n, err));
    for (int32_t i = 0; i < n; i++) {
        luo_counts counts = {0};
        if (!stays(i, n)) continue;
        if (floor_mode) use_leftover(in, histogram, &found[i]);
        for (int32_t p = 0; p < found[i].nparts; p++)
            luo_counts_add(&counts, found[i].part[p].entry, found[i].part[p].copies);
        LUO_TRY(luo_gathered_add(gathered, counts,
                                 floor_mode ? LUO_CANDIDATE_FLOOR : LUO_CANDIDATE_PUBLISHED,
                                 found[i].ms, err));
    }
    return LUO_OK;
}

/* ---- all of it ---- */

static luo_status hand_over(luo_arena *arena, const luo_pool *pool, const luo_gathered *gathered,
                            luo_candidates *out, luo_err *err)
{
    luo_candidates candidates = *out;
    candidates.n = gathered->n;
    candidates.plan = LUO_NEW_N(arena, luo_replicas, gathered->n);
    candidates.source = LUO_NEW_N(arena, luo_candidate_source, gathered->n);
    candidates.ms = LUO_NEW_N(arena, double, gathered->n);
    candidates.longest = LUO_NEW_N(arena, int64_t, gathered->n);
    if (!candidates.plan || !candidates.source || !candidates.ms || !candidates.longest)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < gathered->n; i++) {
        const luo_gathered_plan *plan = &gathered->at[i];
        candidates.source[i] = plan->source;
        candidates.ms[i] = plan->ms;
        LUO_TRY(luo_counts_plan(arena, &plan->counts, &candidates.plan[i], err));
        candidates.longest[i] =
            luo_dispatch_longest(pool, candidates.plan[i].replica, candidates.plan[i].n);
    }
    *out = candidates;
    return LUO_OK;
}

luo_status luo_candidates_make(luo_arena *arena, const luo_candidates_in *in, luo_candidates *out,
                               luo_err *err)
{
    luo_status st = LUO_OK;
    luo_arena *scratch = luo_arena_new(1 << 20);
    luo_gathered gathered = {.arena = scratch, .pool = in->pool};
    luo_candidates found = {0};
    luo_propose_grid grid;
    double budget = (double)in->rule.tokens;

    if (!scratch) return luo_err_nomem(err);
    LUO_TRY_OUT(luo_lengths_histogram(arena, in->lengths, in->seed, 1, in->rule.most,
                                      &found.histogram, err));
    if (in->rule.sequences > 0) { /* tokens of so many */
        double count = 0;
        for (int32_t i = 0; i < found.histogram.n; i++) count += found.histogram.count[i];
        budget = (double)in->rule.sequences / count;
    }
    for (int32_t i = 0; i < found.histogram.n; i++) found.histogram.count[i] *= budget;
    found.histogram.tokens *= budget;
    LUO_TRY_OUT(make_grid(scratch, in, &grid, err));
    LUO_TRY_OUT(add_alike(in, true, &gathered, err));
    if (in->floor)
        LUO_TRY_OUT(add_proposals(in, &found.histogram, &grid, LUO_PROPOSE_FLOOR, &gathered, err));
    if (in->published)
        LUO_TRY_OUT(
            add_proposals(in, &found.histogram, &grid, LUO_PROPOSE_PUBLISHED, &gathered, err));
    LUO_TRY_OUT(add_alike(in, false, &gathered, err));
    if (!in->plain) LUO_TRY_OUT(luo_gathered_mix(in, &gathered, &found.mixed_tried, err));
    LUO_TRY_OUT(hand_over(arena, in->pool, &gathered, &found, err));
    *out = found;
out:
    luo_arena_free(scratch);
    return st;
}
