/* Where the local search starts: three ways to deal the groups of a mix
 * (docs/planners.md#groups-to-pipelines). */
#include "core/plan/malleus/malleus_internal.h"

typedef struct dealer {
    const luo_mal_mix *mix;
    int32_t dp;
    int32_t *rows;  /* vector of every pipeline */
    double *weight; /* sum 1/y */
} dealer;

static void give(dealer *d, int32_t i, int32_t c)
{
    d->rows[(size_t)i * (size_t)d->mix->ncls + (size_t)c]++;
    d->weight[i] += 1 / d->mix->cls[c].y;
}

static int32_t lightest(const dealer *d)
{
    int32_t least = 0;
    for (int32_t i = 1; i < d->dp; i++)
        if (d->weight[i] < d->weight[least]) least = i;
    return least;
}

/* Fastest groups first, each to the pipeline that has least. */
static void even(dealer *d)
{
    for (int32_t c = d->mix->ncls - 1; c >= 0; c--)
        for (int32_t k = 0; k < d->mix->cls[c].n; k++) give(d, lightest(d), c);
}

/* Equal numbers of groups, from slow to fast, there and back. */
static void snake(dealer *d)
{
    int32_t at = 0;
    for (int32_t c = 0; c < d->mix->ncls; c++)
        for (int32_t k = 0; k < d->mix->cls[c].n; k++, at++) {
            const int32_t lap = at / d->dp, i = at % d->dp;
            give(d, lap % 2 ? d->dp - 1 - i : i, c);
        }
}

/* Slow groups first, one pipeline after the other: those of a kind stay together. */
static void in_turn(dealer *d)
{
    int32_t i = 0;
    const double share = d->mix->weight / d->dp;
    for (int32_t c = 0; c < d->mix->ncls; c++)
        for (int32_t k = 0; k < d->mix->cls[c].n; k++) {
            give(d, i, c);
            if (i < d->dp - 1 && d->weight[i] >= share * (1 - 1e-9)) i++;
        }
}

void luo_mal_seed(luo_mal_search *search, luo_mal_mix *mix, int which, int32_t *ids)
{
    static void (*const ways[LUO_MAL_SEEDS])(dealer *) = {even, snake, in_turn};
    const size_t ncls = (size_t)mix->ncls;
    dealer d = {mix, search->dp, LUO_NEW_N(search->arena, int32_t, (size_t)search->dp * ncls),
                LUO_NEW_N(search->arena, double, search->dp)};
    if (!d.rows || !d.weight) {
        search->nomem = true;
        return;
    }
    ways[which](&d);
    for (int32_t i = 0; i < search->dp; i++)
        ids[i] = luo_mal_pipe_of(search, mix, d.rows + (size_t)i * ncls);
    luo_mal_sort(mix, ids, search->dp);
}
