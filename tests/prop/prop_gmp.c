/* prop_gmp.c: partitions against a twin that recounts everything for each score, step by step; the
 * cost never rises where nothing but it counts; what training moves, row by row. */
#include <math.h>

#include "core/sync/draws.h"
#include "core/sync/embed/clicks.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { SAMPLES = 24, EMBEDS = 10, PARTS = 4, MOST = 4 };

typedef struct scene {
    luo_rng rng;
    luo_bigraph graph;
    int64_t first[SAMPLES + 1];
    int32_t embed[SAMPLES * MOST];
    double cm[PARTS * PARTS];
    luo_gmp_opts opts;
    luo_arena *arena;
    luo_gmp gmp;
    int32_t part[SAMPLES], home[EMBEDS]; /* of the twin */
} scene;

static int moves, ties, stayed; /* what the cases hit */

/* Every sample has some embeddings, each once. */
static void draw_graph(scene *s)
{
    const int samples = 1 + (int)luo_rng_pick(&s->rng, SAMPLES);
    const int embeds = 1 + (int)luo_rng_pick(&s->rng, EMBEDS);
    int64_t n = 0;
    for (int i = 0; i < samples; i++) {
        for (int e = 0; e < embeds && n - s->first[i] < MOST; e++)
            if (luo_rng_pick(&s->rng, 3) == 0) s->embed[n++] = e;
        s->first[i + 1] = n;
    }
    s->graph = (luo_bigraph){samples, embeds, s->first, s->embed};
}

static void begin(scene *s, uint64_t seed, bool cost_alone)
{
    static const double between[] = {0.1, 0.25, 1};
    *s = (scene){.rng = luo_rng_seed(seed), .arena = luo_arena_new(0)};
    draw_graph(s);
    luo_gmp_opts *o = &s->opts;
    o->parts =
        1 + (int32_t)luo_rng_pick(&s->rng, s->graph.samples < PARTS ? s->graph.samples : PARTS);
    o->rounds = 2;
    o->batch = 1 + (double)luo_rng_pick(&s->rng, 6);
    o->balance = cost_alone ? 0 : luo_rng_u(&s->rng) * 4;
    o->load_weight = cost_alone ? 0 : 0.01;
    o->start = (luo_gmp_start)luo_rng_pick(&s->rng, LUO_GMP_STARTS);
    o->seed = seed;
    for (int i = 0; i < o->parts; i++)
        for (int j = 0; j < o->parts; j++)
            s->cm[i * o->parts + j] = i == j ? 0 : between[luo_rng_pick(&s->rng, 3)];
    o->cm = s->cm;
    ck_assert_int_eq(luo_gmp_make(s->arena, &s->graph, o, &s->gmp, NULL), LUO_OK);
    memcpy(s->part, s->gmp.sample_part, (size_t)s->graph.samples * sizeof *s->part);
    memcpy(s->home, s->gmp.embed_home, (size_t)s->graph.embeds * sizeof *s->home);
}

/* ---- the slow twin ---- */

static bool uses(const scene *s, int sample, int e)
{
    for (int64_t k = s->first[sample]; k < s->first[sample + 1]; k++)
        if (s->embed[k] == e) return true;
    return false;
}

static int count(const scene *s, int p, int e, int without)
{
    int n = 0;
    for (int i = 0; i < s->graph.samples; i++)
        n += i != without && s->part[i] == p && uses(s, i, e);
    return n;
}

static double soft(const scene *s, int k)
{
    return luo_gmp_soft((double)s->graph.samples / s->opts.parts, s->opts.batch, k);
}

static double per_batch(const scene *s)
{
    return s->opts.batch * s->opts.parts / s->graph.samples;
}

static double twin_traffic(const scene *s, int p, int q)
{
    double sum = 0;
    for (int e = 0; e < s->graph.embeds; e++)
        if (s->home[e] == q) sum += soft(s, count(s, p, e, -1));
    return per_batch(s) * sum;
}

static double twin_cost(const scene *s)
{
    double sum = 0;
    for (int p = 0; p < s->opts.parts; p++)
        for (int q = 0; q < s->opts.parts; q++)
            sum += s->cm[p * s->opts.parts + q] * twin_traffic(s, p, q) / per_batch(s);
    return sum;
}

/* The part of the highest score, by the rule for ties. */
static int choose(const double *score, int parts)
{
    int best = 0;
    for (int p = 1; p < parts; p++) {
        ties += fabs(score[p] - score[best]) <= 1e-12;
        if (score[p] > score[best] + 1e-12) best = p;
    }
    return best;
}

static double sample_score(const scene *s, int x, int j)
{
    const int parts = s->opts.parts;
    double score = 0;
    for (int i = 0; i < s->graph.samples; i++) score += i != x && s->part[i] == j;
    score *= -s->opts.balance * parts / s->graph.samples;
    for (int64_t k = s->first[x]; k < s->first[x + 1]; k++) {
        const int c = count(s, j, s->embed[k], x);
        score -= (soft(s, c + 1) - soft(s, c)) * s->cm[j * parts + s->home[s->embed[k]]];
    }
    return score;
}

static double embed_score(const scene *s, int e, int k)
{
    const int parts = s->opts.parts;
    double score = 0, load = 0;
    int degree = 0;
    for (int i = 0; i < s->graph.embeds; i++) score += i != e && s->home[i] == k;
    score *= -s->opts.balance * parts / s->graph.embeds;
    for (int j = 0; j < parts; j++) {
        const int c = count(s, j, e, -1);
        score -= s->cm[j * parts + k] * soft(s, c);
        degree += c;
        if (j != k) load += twin_traffic(s, j, k);
    }
    return score - s->opts.load_weight * load * soft(s, degree);
}

static void twin_samples(scene *s)
{
    for (int x = 0; x < s->graph.samples; x++) {
        double score[PARTS];
        for (int j = 0; j < s->opts.parts; j++) score[j] = sample_score(s, x, j);
        s->part[x] = choose(score, s->opts.parts);
    }
}

static void twin_embeddings(scene *s)
{
    for (int e = 0; e < s->graph.embeds; e++) {
        double score[PARTS];
        for (int k = 0; k < s->opts.parts; k++) score[k] = embed_score(s, e, k);
        s->home[e] = choose(score, s->opts.parts);
    }
}

/* ---- both beside each other ---- */

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static void check_counts(const scene *s)
{
    const int parts = s->opts.parts;
    double traffic[PARTS * PARTS];
    for (int i = 0; i < s->graph.samples; i++) ck_assert_int_eq(s->gmp.sample_part[i], s->part[i]);
    for (int e = 0; e < s->graph.embeds; e++) {
        ck_assert_int_eq(s->gmp.embed_home[e], s->home[e]);
        for (int p = 0; p < parts; p++)
            ck_assert_int_eq(s->gmp.count[e * parts + p], count(s, p, e, -1));
    }
    ck_assert(near(luo_gmp_cost(&s->gmp), twin_cost(s)));
    luo_gmp_traffic(&s->gmp, traffic);
    for (int p = 0; p < parts; p++)
        for (int q = 0; q < parts; q++)
            ck_assert(near(traffic[p * parts + q], twin_traffic(s, p, q)));
}

START_TEST(twins)
{
    LUO_PROP_FOR(seed, 500)
    {
        scene s;
        begin(&s, seed, false);
        check_counts(&s);
        for (int round = 0; round < 2; round++) {
            const int64_t moved = luo_gmp_refine_samples(&s.gmp);
            twin_samples(&s);
            check_counts(&s);
            const int64_t homes = luo_gmp_refine_embeddings(&s.gmp);
            twin_embeddings(&s);
            check_counts(&s);
            moves += moved > 0 && homes > 0;
        }
        luo_arena_free(s.arena);
    }
    printf("rounds that moved both %d, ties %d\n", moves, ties);
    fflush(stdout);
    ck_assert(moves > 0 && ties > 0);
}
END_TEST

/* With X = 0 and no weight of load. */
START_TEST(never_rises)
{
    int fell = 0;
    LUO_PROP_FOR(seed, 2000)
    {
        scene s;
        begin(&s, seed, true);
        double cost = luo_gmp_cost(&s.gmp);
        for (int pass = 0; pass < 6; pass++) {
            if (pass % 2)
                luo_gmp_refine_embeddings(&s.gmp);
            else
                luo_gmp_refine_samples(&s.gmp);
            const double now = luo_gmp_cost(&s.gmp);
            ck_assert(now <= cost + 1e-9);
            fell += now < cost - 1e-9;
            cost = now;
        }
        luo_arena_free(s.arena);
    }
    ck_assert_int_gt(fell, 0);
}
END_TEST

/* ---- training ---- */

typedef struct copy { /* of an embedding at a part that does not keep it */
    bool is;
    int64_t version, pending; /* version -1: never pulled */
} copy;

/* The order in which a part takes its samples: drawn as core/sync/embed/gmp.h says. */
static int order_of(const scene *s, int p, uint64_t seed, int *order)
{
    int n = 0;
    for (int i = 0; i < s->graph.samples; i++)
        if (s->gmp.sample_part[i] == p) order[n++] = i;
    for (int i = n - 1; i > 0; i--) {
        const int k = (int)(luo_draw_u(seed, (uint64_t)p, (uint64_t)i) * (i + 1)), old = order[k];
        order[k] = order[i];
        order[i] = old;
    }
    return n;
}

/* Uses of each embedding in batch `it` of part p. */
static void batch_uses(const scene *s, int p, int64_t it, uint64_t seed, int *used)
{
    int order[SAMPLES];
    const int n = order_of(s, p, seed, order), b = (int)s->opts.batch;
    memset(used, 0, EMBEDS * sizeof *used);
    for (int i = 0; i < (b < n ? b : n); i++)
        for (int e = 0; e < s->graph.embeds; e++) used[e] += uses(s, order[(it * b + i) % n], e);
}

static void twin_read(const scene *s, int p, const int *used, copy *have, const int64_t *version,
                      int64_t pull, luo_gmp_moved *m)
{
    for (int e = 0; e < s->graph.embeds; e++) {
        if (!used[e]) continue;
        m->reads++;
        if (s->gmp.embed_home[e] == p) continue;
        m->remote++;
        if (have[e].is && have[e].version >= 0 && version[e] - have[e].version <= pull)
            m->by_replica++;
        else
            m->pulls++;
        if (!have[e].is || have[e].version < 0 || version[e] - have[e].version > pull)
            have[e].version = version[e];
    }
}

static void twin_write(const scene *s, int p, const int *used, copy *have, int64_t *version,
                       int64_t push, luo_gmp_moved *m)
{
    for (int e = 0; e < s->graph.embeds; e++) {
        if (!used[e]) continue;
        const bool own = s->gmp.embed_home[e] == p;
        have[e].pending += used[e];
        if (!own && have[e].is && have[e].pending <= push) continue;
        m->pushes += !own;
        version[e] += have[e].pending;
        have[e].version += have[e].pending;
        have[e].pending = 0;
    }
}

static luo_gmp_moved twin_train(const scene *s, double ratio, int64_t pull, int64_t push,
                                int64_t its, uint64_t seed)
{
    copy have[PARTS][EMBEDS] = {0};
    int64_t version[EMBEDS] = {0};
    int used[EMBEDS];
    luo_gmp_moved m = {.iterations = its};
    for (int p = 0; p < s->opts.parts; p++) {
        int32_t *kept, n;
        luo_gmp_replicas(s->arena, &s->gmp, p, ratio, &kept, &n, NULL);
        for (int i = 0; i < n; i++) have[p][kept[i]] = (copy){.is = true, .version = -1};
    }
    for (int64_t it = 0; it < its; it++) {
        for (int p = 0; p < s->opts.parts; p++) {
            batch_uses(s, p, it, seed, used);
            twin_read(s, p, used, have[p], version, pull, &m);
        }
        for (int p = 0; p < s->opts.parts; p++) {
            batch_uses(s, p, it, seed, used);
            twin_write(s, p, used, have[p], version, push, &m);
        }
    }
    return m;
}

START_TEST(training)
{
    LUO_PROP_FOR(seed, 300)
    {
        scene s;
        luo_gmp_moved moved;
        begin(&s, seed, false);
        luo_gmp_refine(&s.gmp);
        const double ratio = luo_rng_u(&s.rng);
        const int64_t pull = luo_rng_pick(&s.rng, 6), push = luo_rng_pick(&s.rng, 6);
        const luo_gmp_moved want = twin_train(&s, ratio, pull, push, 7, seed);
        ck_assert_int_eq(luo_gmp_train(&s.gmp, ratio, pull, push, 7, seed, &moved, NULL), LUO_OK);
        ck_assert_mem_eq(&moved, &want, sizeof moved);
        ck_assert_int_eq(moved.pulls + moved.by_replica, moved.remote);
        stayed += moved.by_replica > 0;
        luo_arena_free(s.arena);
    }
    ck_assert_int_gt(stayed, 0);
}
END_TEST

/* ---- synthetic samples ---- */

/* Every slot has keys of its own, and a sample has no key twice. */
START_TEST(of_clicks)
{
    LUO_PROP_FOR(seed, 50)
    {
        luo_arena *arena = luo_arena_new(0);
        const luo_clicks_spec spec = {.samples = 50,
                                      .slots = 1 + (int64_t)(seed % 5),
                                      .vocab = 100,
                                      .theta = 1,
                                      .groups = 1 + (int64_t)(seed % 3),
                                      .local = 0.5};
        luo_clicks clicks;
        luo_bigraph graph;
        ck_assert_int_eq(luo_clicks_draw(arena, &spec, seed, &clicks, NULL), LUO_OK);
        ck_assert_int_eq(luo_clicks_graph(arena, &clicks, &graph, NULL), LUO_OK);
        ck_assert_int_eq(graph.first[50], 50 * spec.slots);
        for (int64_t i = 0; i < 50 * spec.slots; i++) {
            const int64_t key = (int64_t)clicks.key[clicks.embed[i]], each = 100 / spec.slots;
            ck_assert_int_eq(key / each, i % spec.slots);
        }
        for (int32_t e = 1; e < clicks.embeds; e++) ck_assert(clicks.key[e] > clicks.key[e - 1]);
        luo_arena_free(arena);
    }
}
END_TEST

LUO_SUITE("gmp.prop", LUO_T(twins), LUO_T(never_rises), LUO_T(training), LUO_T(of_clicks))
