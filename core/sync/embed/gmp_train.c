/* gmp_train.c: second replicas, and what training on a partition moves. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/sync/draws.h"
#include "core/sync/embed/gmp.h"

/* ---- which replicas ---- */

typedef struct rated {
    double score;
    int32_t embed;
} rated;

static int by_score(const void *left, const void *right)
{
    const rated *a = left, *b = right;
    if (a->score != b->score) return a->score < b->score ? 1 : -1;
    return (a->embed > b->embed) - (a->embed < b->embed);
}

static int by_number(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

static double rating(const luo_gmp *gmp, int32_t part, int32_t e)
{
    const size_t parts = (size_t)gmp->opts.parts;
    const int64_t count = gmp->count[(size_t)e * parts + (size_t)part];
    const double cost = gmp->opts.cm[(size_t)part * parts + (size_t)gmp->embed_home[e]];
    if (count == 0) return 0;
    const double soft = gmp->soft[count < gmp->nsoft ? count : gmp->nsoft - 1];
    return cost * soft * soft * (1.0 / gmp->degree[e] + 1.0 / (double)count);
}

luo_status luo_gmp_replicas(luo_arena *arena, const luo_gmp *gmp, int32_t part, double ratio,
                            int32_t **out, int32_t *n, luo_err *err)
{
    /* 0.29 x 100 is 28.999999999999996: what is whole but for rounding is whole. */
    const int32_t most = (int32_t)floor(ratio * gmp->graph->embeds * (1 + 4 * DBL_EPSILON));
    int32_t *kept = LUO_NEW_N(arena, int32_t, most), found = 0;
    const size_t mark = luo_arena_mark(arena);
    rated *all = LUO_NEW_N(arena, rated, gmp->graph->embeds);
    if (!kept || !all) return luo_err_nomem(err);
    for (int32_t e = 0; most > 0 && e < gmp->graph->embeds; e++) {
        const double score = rating(gmp, part, e);
        if (score > 0) all[found++] = (rated){score, e};
    }
    if (found > most) qsort(all, (size_t)found, sizeof *all, by_score);
    *n = found < most ? found : most;
    for (int32_t i = 0; i < *n; i++) kept[i] = all[i].embed;
    qsort(kept, (size_t)*n, sizeof *kept, by_number);
    *out = kept;
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

/* ---- training ---- */

typedef struct replica {
    int64_t version, pending; /* version -1: never pulled */
} replica;

typedef struct member { /* a part as it trains */
    int32_t *sample;
    int64_t n;
    int32_t *slot; /* by embedding: 1 + its replica; 0: none */
    replica *replica;
} member;

typedef struct training {
    const luo_gmp *gmp;
    int64_t pull_bound, push_bound, batch;
    member *member;
    int64_t *version; /* of where it is kept, by embedding */
    int64_t *stamp;   /* by embedding: the batch that listed it last */
    int64_t batches;
    int32_t n, *list, *uses; /* the different embeddings of a batch; list and uses by place */
    int32_t *place;          /* by embedding, in list */
    luo_gmp_moved moved;
} training;

/* Fisher and Yates. */
static void shuffle(member *m, uint64_t seed, int32_t part)
{
    for (int64_t i = m->n - 1; i > 0; i--) {
        const double u = luo_draw_u(seed, (uint64_t)part, (uint64_t)i);
        const int64_t k = (int64_t)(u * (double)(i + 1));
        const int32_t other = m->sample[k];
        m->sample[k] = m->sample[i];
        m->sample[i] = other;
    }
}

static luo_status member_init(luo_arena *arena, const luo_gmp *gmp, int32_t part, double ratio,
                              uint64_t seed, member *m, luo_err *err)
{
    int32_t *kept, n;
    LUO_TRY(luo_gmp_replicas(arena, gmp, part, ratio, &kept, &n, err));
    m->sample = LUO_NEW_N(arena, int32_t, gmp->samples_of[part]);
    m->slot = LUO_NEW_N(arena, int32_t, gmp->graph->embeds);
    m->replica = LUO_NEW_N(arena, replica, n);
    if (!m->sample || !m->slot || !m->replica) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        m->slot[kept[i]] = i + 1;
        m->replica[i].version = -1;
    }
    for (int32_t i = 0; i < gmp->graph->samples; i++)
        if (gmp->sample_part[i] == part) m->sample[m->n++] = i;
    shuffle(m, seed, part);
    return LUO_OK;
}

static luo_status training_init(luo_arena *arena, training *t, double ratio, uint64_t seed,
                                luo_err *err)
{
    const size_t embeds = (size_t)t->gmp->graph->embeds;
    t->member = LUO_NEW_N(arena, member, t->gmp->opts.parts);
    t->version = LUO_NEW_N(arena, int64_t, embeds);
    t->stamp = LUO_NEW_N(arena, int64_t, embeds);
    t->list = LUO_NEW_N(arena, int32_t, embeds);
    t->uses = LUO_NEW_N(arena, int32_t, embeds);
    t->place = LUO_NEW_N(arena, int32_t, embeds);
    if (!t->member || !t->version || !t->stamp || !t->list || !t->uses || !t->place)
        return luo_err_nomem(err);
    for (int32_t p = 0; p < t->gmp->opts.parts; p++)
        LUO_TRY(member_init(arena, t->gmp, p, ratio, seed, &t->member[p], err));
    return LUO_OK;
}

/* The different embeddings of a batch, and how many of its samples use each. */
static void list_batch(training *t, const member *m, int64_t iteration)
{
    const luo_bigraph *graph = t->gmp->graph;
    const int64_t size = t->batch < m->n ? t->batch : m->n;
    t->n = 0;
    t->batches++;
    for (int64_t i = 0; i < size; i++) {
        const int32_t sample = m->sample[(iteration * t->batch + i) % m->n];
        for (int64_t k = graph->first[sample]; k < graph->first[sample + 1]; k++) {
            const int32_t e = graph->embed[k];
            if (t->stamp[e] != t->batches) {
                t->stamp[e] = t->batches;
                t->place[e] = t->n;
                t->list[t->n] = e;
                t->uses[t->n++] = 0;
            }
            t->uses[t->place[e]]++;
        }
    }
}

static replica *replica_of(const member *m, int32_t e)
{
    return m->slot[e] ? &m->replica[m->slot[e] - 1] : NULL;
}

static void read_batch(training *t, int32_t part, int64_t iteration)
{
    const member *m = &t->member[part];
    list_batch(t, m, iteration);
    t->moved.reads += t->n;
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t e = t->list[i];
        if (t->gmp->embed_home[e] == part) continue;
        replica *r = replica_of(m, e);
        t->moved.remote++;
        if (r && r->version >= 0 && t->version[e] - r->version <= t->pull_bound) {
            t->moved.by_replica++;
            continue;
        }
        t->moved.pulls++;
        if (r) r->version = t->version[e];
    }
}

static void update_batch(training *t, int32_t part, int64_t iteration)
{
    const member *m = &t->member[part];
    list_batch(t, m, iteration);
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t e = t->list[i];
        replica *r = t->gmp->embed_home[e] == part ? NULL : replica_of(m, e);
        int64_t sent = t->uses[i];
        if (r) {
            sent += r->pending;
            r->pending = sent > t->push_bound ? 0 : sent;
            if (r->pending) continue;
            r->version += sent;
        }
        t->version[e] += sent;
        t->moved.pushes += t->gmp->embed_home[e] != part;
    }
}

static int64_t epoch(const luo_gmp *gmp, int64_t batch)
{
    int64_t most = 0;
    for (int32_t p = 0; p < gmp->opts.parts; p++)
        if (gmp->samples_of[p] > most) most = gmp->samples_of[p];
    return (most + batch - 1) / batch;
}

luo_status luo_gmp_train(const luo_gmp *gmp, double ratio, int64_t pull_bound, int64_t push_bound,
                         int64_t iterations, uint64_t seed, luo_gmp_moved *out, luo_err *err)
{
    training t = {.gmp = gmp, .pull_bound = pull_bound, .push_bound = push_bound};
    luo_arena *arena = luo_arena_new(0);
    luo_status st = arena ? training_init(arena, &t, ratio, seed, err) : luo_err_nomem(err);
    t.batch = (int64_t)gmp->opts.batch;
    t.moved.iterations = iterations ? iterations : epoch(gmp, t.batch);
    for (int64_t k = 0; st == LUO_OK && k < t.moved.iterations; k++) {
        for (int32_t p = 0; p < gmp->opts.parts; p++) read_batch(&t, p, k);
        for (int32_t p = 0; p < gmp->opts.parts; p++) update_batch(&t, p, k);
    }
    if (st == LUO_OK) *out = t.moved;
    luo_arena_free(arena);
    return st;
}
