/* diff_hydraulis.c: dispatch, packing and proposal against brute force on small cases. */
#include <math.h>

#include "core/plan/hydraulis/propose.h"
#include "tests/check_main.h"
#include "tests/hydraulis_fixture.h"
#include "tests/prop/prop.h"

enum { TOYS = 3, SEQUENCES = 8, REPLICAS = 3 };
static const luo_pool_entry toys[TOYS] = {ENTRY(4, 1, 1e-6, .02, 1, 8000, 0),
                                          ENTRY(1, 4, 1e-6, .02, .5, 2000, 0),
                                          ENTRY(2, 1, 2e-6, .04, 1, 4000, 0)};

/* ---- dispatch ---- */

typedef struct job {
    luo_pool pool;
    int32_t m, n;
    luo_replica replica[REPLICAS];
    int64_t length[SEQUENCES];
    int32_t at[SEQUENCES];
} job;

static job draw_job(luo_arena *a, luo_rng *rng)
{
    job j = {.pool = {TOYS, LUO_NEW_N(a, luo_pool_entry, TOYS)}};
    int64_t most = 0;
    memcpy(j.pool.entry, toys, sizeof toys);
    j.m = 2 + (int32_t)luo_rng_pick(rng, 2);
    j.n = 7 + (int32_t)luo_rng_pick(rng, 2);
    for (int32_t r = 0; r < j.m; r++) {
        j.replica[r] = (luo_replica){(int32_t)luo_rng_pick(rng, TOYS),
                                     luo_rng_u(rng) < 0.3 ? 1 + luo_rng_u(rng) : 1};
        const int64_t cap = toys[j.replica[r].entry].cap;
        most = cap > most ? cap : most;
    }
    for (int32_t i = 0; i < j.n; i++) {
        const double u = luo_rng_u(rng);
        j.length[i] = 1 + (int64_t)(u * u * (double)(most - 1));
    }
    return j;
}

/* D_r as it is defined. */
static double time_of(const job *j, int32_t r)
{
    const luo_pool_entry *e = &j->pool.entry[j->replica[r].entry];
    double sum = 0, most = 0;
    int64_t tokens = 0;
    for (int32_t i = 0; i < j->n; i++) {
        if (j->at[i] != r) continue;
        if (j->length[i] > e->cap) return INFINITY;
        sum += luo_pool_cost(e, j->length[i]);
        most = fmax(most, luo_pool_cost(e, j->length[i]));
        tokens += j->length[i];
    }
    if (tokens == 0) return 0;
    const double micro_batches = ceil((double)tokens / (double)e->cap);
    return j->replica[r].mu * (sum + (e->pp - 1) * most + e->c * (micro_batches + e->pp - 1));
}

static double worst(const job *j)
{
    double t = 0;
    for (int32_t r = 0; r < j->m; r++) t = fmax(t, time_of(j, r));
    return t;
}

static double brute(job *j, int32_t i)
{
    if (i == j->n) return worst(j);
    double best = INFINITY;
    for (j->at[i] = 0; j->at[i] < j->m; j->at[i]++) best = fmin(best, brute(j, i + 1));
    return best;
}

/* The exact search behind a heuristic that gives up at once; is that one worse? */
static bool exact_alone(luo_arena *a, job *j, double want)
{
    double got[2];
    for (int exact = 0; exact < 2; exact++) {
        const luo_dispatch_opts opts = {.heuristic = !exact};
        ck_assert_int_eq(luo_dispatch(a, &j->pool, j->replica, j->m, j->length, j->n, &opts, j->at,
                                      &got[exact], NULL),
                         LUO_OK);
    }
    ck_assert_double_eq_tol(got[1], want, 1e-9 * want);
    return got[0] > want * (1 + 1e-9);
}

START_TEST(dispatch_is_near)
{
    double sum = 0, most = 0;
    int32_t n = 0, exact = 0, searched = 0;
    LUO_PROP_FOR(seed, 500)
    {
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_seed(seed);
        job j = draw_job(a, &rng);
        const double want = brute(&j, 0);
        double got;
        luo_dispatch_opts opts = {.kicks = -1, .heuristic = true, .seed = seed};
        ck_assert_int_eq(
            luo_dispatch(a, &j.pool, j.replica, j.m, j.length, j.n, &opts, j.at, &got, NULL),
            LUO_OK);
        ck_assert_double_eq_tol(worst(&j), got, 1e-6);
        const double more = got / want - 1;
        if (more < -1e-9)
            ck_abort_msg("LUO_SEED=%llu: better than the best", (unsigned long long)seed);
        sum += more;
        most = fmax(most, more);
        exact += more < 1e-9;
        n++;
        opts.heuristic = false;
        ck_assert_int_eq(
            luo_dispatch(a, &j.pool, j.replica, j.m, j.length, j.n, &opts, j.at, &got, NULL),
            LUO_OK);
        if (fabs(got / want - 1) > 1e-9)
            ck_abort_msg("LUO_SEED=%llu LUO_CASES=1: %g, the best is %g", (unsigned long long)seed,
                         got, want);
        ck_assert_double_le(luo_dispatch_bound(&j.pool, j.replica, j.m, j.length, j.n, false),
                            want * (1 + 1e-9));
        searched += exact_alone(a, &j, want);
        luo_arena_free(a);
    }
    printf("dispatch without exact search: mean %+.3f %%, worst %+.2f %%, best in %d of %d\n",
           100 * sum / n, 100 * most, exact, n);
    ck_assert_double_le(sum / n, 0.002);
    ck_assert_int_ge(searched, n / 50);
    ck_assert_double_le(most, n > 60 ? 0.03 : 0.06);
}
END_TEST

/* Permuting the batch changes neither the answer nor who gets which length. */
START_TEST(dispatch_knows_no_order)
{
    LUO_PROP_FOR(seed, 100)
    {
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_seed(seed);
        job j = draw_job(a, &rng), k = j;
        const luo_dispatch_opts opts = {.kicks = -1, .heuristic = true, .seed = seed};
        double first, second;
        for (int32_t i = 0; i < j.n; i++) k.length[i] = j.length[j.n - 1 - i];
        ck_assert_int_eq(
            luo_dispatch(a, &j.pool, j.replica, j.m, j.length, j.n, &opts, j.at, &first, NULL),
            LUO_OK);
        ck_assert_int_eq(
            luo_dispatch(a, &k.pool, k.replica, k.m, k.length, k.n, &opts, k.at, &second, NULL),
            LUO_OK);
        ck_assert_double_eq(first, second);
        luo_arena_free(a);
    }
}
END_TEST

/* ---- packing ---- */

typedef struct pile {
    luo_pool_entry entry;
    luo_pack_score score;
    int32_t n, v, at[SEQUENCES];
    int64_t length[SEQUENCES], tokens[SEQUENCES];
    double t[SEQUENCES];
} pile;

static double every_pile(pile *p, int32_t i, int32_t used)
{
    if (i == p->n)
        return used == p->v ? luo_pack_score_of(p->t, used, p->entry.pp, p->score) : INFINITY;
    double best = INFINITY;
    for (int32_t u = 0; u <= used && u < p->v; u++) {
        if (p->tokens[u] + p->length[i] > p->entry.cap) continue;
        const double before = p->t[u];
        p->tokens[u] += p->length[i];
        p->t[u] += luo_pool_cost(&p->entry, p->length[i]);
        best = fmin(best, every_pile(p, i + 1, used + (u == used)));
        p->t[u] = before;
        p->tokens[u] -= p->length[i];
    }
    return best;
}

/* Over all numbers of micro-batches that are asked for, and beyond until one is possible. */
static double brute_pack(pile *p)
{
    int64_t tokens = 0;
    double best = INFINITY;
    for (int32_t i = 0; i < p->n; i++) tokens += p->length[i];
    const int64_t fewest = (tokens + p->entry.cap - 1) / p->entry.cap;
    int64_t most = p->entry.util > 0 ? tokens / p->entry.util : p->n;
    most = most > p->n ? p->n : most < fewest ? fewest : most;
    for (int64_t v = fewest; v <= p->n; v++) {
        if (isfinite(best) && v > most) break;
        p->v = (int32_t)v;
        for (int32_t u = 0; u < v; u++) {
            p->t[u] = p->entry.c;
            p->tokens[u] = 0;
        }
        best = fmin(best, every_pile(p, 0, 0));
    }
    return best;
}

START_TEST(pack_is_exact)
{
    int32_t several = 0;
    LUO_PROP_FOR(seed, 500)
    {
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_seed(seed);
        pile p = {.entry = toys[luo_rng_pick(&rng, TOYS)], .n = 1 + (int32_t)luo_rng_pick(&rng, 8)};
        luo_packed got;
        p.entry.c = 20 * luo_rng_u(&rng);
        p.entry.util = luo_rng_pick(&rng, 3) * 400;
        p.score = luo_rng_u(&rng) < 0.5 ? LUO_SCORE_SUM : LUO_SCORE_MAX;
        for (int32_t i = 0; i < p.n; i++)
            p.length[i] =
                1 + luo_rng_pick(&rng, luo_rng_u(&rng) < 0.5 ? p.entry.cap : p.entry.cap / 4);
        ck_assert_int_eq(luo_pack(a, &p.entry, p.length, p.n, p.score, p.at, &got, NULL), LUO_OK);
        const double want = brute_pack(&p);
        if (fabs(got.score / want - 1) > 1e-9)
            ck_abort_msg("LUO_SEED=%llu LUO_CASES=1: %g, the best is %g", (unsigned long long)seed,
                         got.score, want);
        double event;
        ck_assert_int_eq(luo_pack_event(a, got.t, got.nbins, p.entry.pp, NULL, &event, NULL),
                         LUO_OK);
        const double sum = luo_pack_score_of(got.t, got.nbins, p.entry.pp, LUO_SCORE_SUM);
        ck_assert_double_le(event, sum * (1 + 1e-12));
        ck_assert_double_le(sum, luo_pack_score_of(got.t, got.nbins, p.entry.pp, LUO_SCORE_MAX) *
                                     (1 + 1e-12));
        several += got.nbins > 1;
        luo_arena_free(a);
    }
    ck_assert_int_gt(several, 0);
}
END_TEST

/* Many sequences: conserved, within the cap, by falling time, none empty. */
START_TEST(pack_of_many)
{
    LUO_PROP_FOR(seed, 100)
    {
        enum { MANY = 60 };
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_seed(seed);
        const luo_pool_entry *e = &toys[luo_rng_pick(&rng, TOYS)];
        const int32_t n = 13 + (int32_t)luo_rng_pick(&rng, MANY - 13);
        int64_t length[MANY], tokens[MANY] = {0};
        int32_t bin[MANY];
        luo_packed got;
        for (int32_t i = 0; i < n; i++) length[i] = 1 + luo_rng_pick(&rng, e->cap);
        ck_assert_int_eq(luo_pack(a, e, length, n, LUO_SCORE_SUM, bin, &got, NULL), LUO_OK);
        for (int32_t i = 0; i < n; i++) {
            ck_assert(bin[i] >= 0 && bin[i] < got.nbins);
            tokens[bin[i]] += length[i];
        }
        for (int32_t u = 0; u < got.nbins; u++) {
            ck_assert_int_eq(tokens[u], got.tokens[u]);
            ck_assert(tokens[u] > 0 && tokens[u] <= e->cap);
            if (u > 0) ck_assert_double_le(got.t[u], got.t[u - 1]);
        }
        luo_arena_free(a);
    }
}
END_TEST

/* ---- proposal ---- */

enum { LENGTHS = 6, POINTS = 3, ENTRIES = 3 };
typedef struct market {
    luo_pool pool;
    luo_histogram histogram;
    luo_propose_grid grid;
    int32_t devices, step;
    luo_propose_mode mode;
} market;

static market draw_market(luo_arena *a, luo_rng *rng)
{
    market m = {
        .pool = {ENTRIES, LUO_NEW_N(a, luo_pool_entry, ENTRIES)},
        .histogram = {LENGTHS, LUO_NEW_N(a, int64_t, LENGTHS), LUO_NEW_N(a, double, LENGTHS), 0}};
    int64_t *end = LUO_NEW_N(a, int64_t, POINTS), at = 0;
    for (int32_t k = 0; k < ENTRIES; k++) {
        const int32_t pp = 1 + (int32_t)luo_rng_pick(rng, 2), tp = 1 << luo_rng_pick(rng, 2);
        m.pool.entry[k] = (luo_pool_entry)ENTRY(tp, pp, 4e-6 / (tp * pp), .08 / tp / pp, 2,
                                                1024 * (1 + luo_rng_pick(rng, 5)), 0);
    }
    for (int32_t i = 0; i < LENGTHS; i++) {
        at += 1 + luo_rng_pick(rng, 1000);
        m.histogram.length[i] = at;
        m.histogram.count[i] = 10 * luo_rng_u(rng);
    }
    for (int32_t j = 0; j < POINTS; j++) end[j] = (j + 1) * (at / POINTS + 1);
    m.grid = (luo_propose_grid){POINTS, end};
    m.step = 1 + (int32_t)luo_rng_pick(rng, 2);
    m.devices = m.step * (2 + (int32_t)luo_rng_pick(rng, 4));
    m.mode = luo_rng_u(rng) < 0.5 ? LUO_PROPOSE_FLOOR : LUO_PROPOSE_PUBLISHED;
    return m;
}

/* Every entry, border and number of copies. */
static double every_offer(const market *m, int32_t devices, int32_t j)
{
    if (j == 0) return 0;
    double best = INFINITY;
    for (int32_t k = 0; k < m->pool.n; k++) {
        const luo_pool_entry *e = &m->pool.entry[k];
        const int32_t g = luo_pool_devices(e);
        if (e->cap < m->grid.end[j - 1]) continue;
        for (int32_t i = 0; i < j; i++)
            for (int32_t d = 1; d * g <= devices; d++) {
                if (d * g % m->step != 0) continue;
                const double span = luo_propose_span(e, &m->histogram, i ? m->grid.end[i - 1] : 0,
                                                     m->grid.end[j - 1], d, m->mode);
                best = fmin(best, fmax(span, every_offer(m, devices - d * g, i)));
            }
    }
    return best;
}

START_TEST(proposal_is_exhaustive)
{
    int32_t mixed = 0;
    LUO_PROP_FOR(seed, 300)
    {
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_seed(seed);
        const market m = draw_market(a, &rng);
        luo_proposal *found = NULL;
        int32_t n = 0, at = 0;
        const luo_status st = luo_propose(a, &m.pool, &m.histogram, m.devices, m.step, &m.grid,
                                          m.mode, &found, &n, NULL);
        if (st != LUO_OK) n = 0;
        for (int32_t j = 1; j <= POINTS; j++) {
            const double want = every_offer(&m, m.devices, j);
            if (!isfinite(want)) continue;
            if (at >= n || found[at].longest != m.grid.end[j - 1] ||
                fabs(found[at].ms - want) > 1e-9 * (1 + want))
                ck_abort_msg("LUO_SEED=%llu LUO_CASES=1: e_%d, the best is %g",
                             (unsigned long long)seed, j, want);
            /* The parts say the same: they join up, fit, and take that long. */
            int32_t devices = 0;
            int64_t low = 0;
            double ms = 0;
            for (int32_t p = 0; p < found[at].nparts; p++) {
                const luo_propose_part *part = &found[at].part[p];
                const luo_pool_entry *e = &m.pool.entry[part->entry];
                ck_assert_int_eq(part->low, low);
                ck_assert_int_le(part->high, e->cap);
                low = part->high;
                devices += part->copies * luo_pool_devices(e);
                ms = fmax(ms, luo_propose_span(e, &m.histogram, part->low, part->high, part->copies,
                                               m.mode));
            }
            ck_assert_int_eq(low, found[at].longest);
            ck_assert_int_le(devices, m.devices);
            ck_assert_double_eq_tol(ms, found[at].ms, 1e-9 * (1 + ms));
            mixed += found[at].nparts > 1;
            at++;
        }
        ck_assert_int_eq(at, n);
        luo_arena_free(a);
    }
    ck_assert_int_gt(mixed, 0);
}
END_TEST

LUO_SUITE("diff.hydraulis", LUO_T(dispatch_is_near), LUO_T(dispatch_knows_no_order),
          LUO_T(pack_is_exact), LUO_T(pack_of_many), LUO_T(proposal_is_exhaustive))
