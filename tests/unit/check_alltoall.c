/* check_alltoall.c: which of three exchanges is the fastest, against borders that were worked out
 * by hand and against counting every message. */
#include <math.h>

#include "core/base/rng.h"
#include "core/graph/moe/alltoall.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { FLAT = LUO_ALLTOALL_FLAT, LEADER = LUO_ALLTOALL_LEADER, TWO_D = LUO_ALLTOALL_2D };

typedef struct drawn {
    luo_alltoall x;
    luo_alltoall_links links;
} drawn;

static double between(luo_rng *rng, double lo, double hi) /* log-uniform */
{
    return lo * pow(hi / lo, (double)luo_rng_pick(rng, 1000001) / 1e6);
}

static drawn draw(luo_rng *rng, int32_t most_nics)
{
    return (drawn){{2 + (int32_t)luo_rng_pick(rng, 9), 1 + (int32_t)luo_rng_pick(rng, 9), 1},
                   {between(rng, 1e-6, 1e-4), between(rng, 1e9, 1e11), between(rng, 1e-7, 1e-4),
                    between(rng, 1e10, 1e12), between(rng, 1e11, 4e12),
                    1 + (int32_t)luo_rng_pick(rng, most_nics)}};
}

/* ---- borders, one NIC a node ---- */

static double border(const drawn *d, int one, int other) /* `one` is faster below it */
{
    const double N = d->x.nodes, G = d->x.each, a = d->links.message_s;
    const double in = d->links.inner_message_s, B = d->links.inner_bytes_per_s;
    const double M = d->links.memory_bytes_per_s;
    if (G == 1) return 0;
    if (one == LEADER && other == FLAT)
        return ((G * G - 1) * (N - 1) * a - 2 * (G - 1) * in) / (2 * (G - 1) / B + 4 * G / M);
    if (one == TWO_D && other == FLAT)
        return (G * (G - 1) * (N - 1) * a - (G - 1) * in) / ((G - 1) / (G * B) + 4 / M);
    return (G - 1) * ((N - 1) * a - in) / ((G - 1) * (2 - 1 / G) / B + 4 * (G - 1) / M);
}

START_TEST(borders)
{
    int wins[LUO_ALLTOALL_KINDS] = {0};
    LUO_PROP_FOR(seed, 400)
    {
        luo_rng rng = luo_rng_seed(seed);
        const drawn d = draw(&rng, 1);
        luo_arena *arena = luo_arena_new(1 << 16);
        luo_alltoall_row *row;
        int32_t n;
        ck_assert_int_eq(
            luo_alltoall_sweep(arena, &d.x, &d.links, 1e18, LUO_ALLTOALL_SIZE, &row, &n, NULL),
            LUO_OK);
        ck_assert_int_eq(n, LUO_ALLTOALL_SIZES);
        const double leader_flat = border(&d, LEADER, FLAT), two_flat = border(&d, TWO_D, FLAT);
        const double leader_two = border(&d, LEADER, TWO_D);
        for (int32_t i = 0; i < n; i++) {
            const double S = row[i].bytes;
            const int want = S < leader_flat && (S < leader_two || S >= two_flat) ? LEADER
                             : S < two_flat                                       ? TWO_D
                                                                                  : FLAT;
            ck_assert_msg((int)row[i].best == want,
                          "LUO_SEED=%llu LUO_CASES=1: N %d G %d S %.0f: %s",
                          (unsigned long long)seed, (int)d.x.nodes, (int)d.x.each, S,
                          luo_alltoall_kind_name(row[i].best));
            ck_assert(fabs(row[i].limit - fmax(leader_flat, 0)) <= 1e-9 * fabs(leader_flat));
            wins[want]++;
        }
        luo_arena_free(arena);
    }
    for (int k = 0; k < LUO_ALLTOALL_KINDS; k++) ck_assert_int_gt(wins[k], 100);
}
END_TEST

/* ---- every message counted ---- */

typedef struct tally {
    double messages[16], bytes[16]; /* sent, by NIC of node 0 */
} tally;

static void send(tally *t, const drawn *d, int slot, double bytes)
{
    const int nics = d->links.nics < d->x.each ? d->links.nics : d->x.each;
    t->messages[slot * nics / d->x.each]++;
    t->bytes[slot * nics / d->x.each] += bytes;
}

/* All pairs of devices on other nodes; a leader with leaders; equal indices with each other. */
static tally count(const drawn *d, int kind, double S)
{
    tally t = {{0}, {0}};
    const int N = d->x.nodes, G = d->x.each;
    for (int slot = 0; slot < G; slot++)
        for (int node = 1; node < N; node++)
            for (int peer = 0; peer < G; peer++) {
                if (kind == FLAT) send(&t, d, slot, S / (N * G));
                if (kind == LEADER && slot == 0 && peer == 0) send(&t, d, slot, G * S / N);
                if (kind == TWO_D && slot == peer) send(&t, d, slot, S / N);
            }
    return t;
}

static double most(const double v[16])
{
    double m = 0;
    for (int i = 0; i < 16; i++) m = fmax(m, v[i]);
    return m;
}

static double slow_seconds(const drawn *d, int kind, double S)
{
    const tally t = count(d, kind, S);
    const luo_alltoall_links *l = &d->links;
    double s = most(t.messages) * l->message_s + most(t.bytes) / l->bytes_per_s;
    for (int peer = 1; peer < d->x.each; peer++) {
        if (kind == LEADER) s += 2 * (l->inner_message_s + S / l->inner_bytes_per_s);
        if (kind == TWO_D) s += l->inner_message_s + S / d->x.each / l->inner_bytes_per_s;
    }
    if (kind == FLAT) return s;
    return s + 4 * S * (kind == LEADER ? d->x.each : 1) / l->memory_bytes_per_s;
}

START_TEST(counted)
{
    int wins[LUO_ALLTOALL_KINDS] = {0}, refused = 0;
    LUO_PROP_FOR(seed, 400)
    {
        static const luo_alltoall_axis axes[] = {LUO_ALLTOALL_NODES, LUO_ALLTOALL_EACH};
        luo_rng rng = luo_rng_seed(seed);
        const drawn d = draw(&rng, 9);
        const double room = between(&rng, 1e6, 1e10);
        luo_arena *arena = luo_arena_new(1 << 16);
        luo_alltoall_row *row;
        int32_t n;
        ck_assert_int_eq(
            luo_alltoall_sweep(arena, &d.x, &d.links, room, axes[seed % 2], &row, &n, NULL),
            LUO_OK);
        ck_assert_int_eq(n, LUO_ALLTOALL_SIZES * (seed % 2 ? 5 : 7));
        for (int32_t i = 0; i < n; i++) {
            const drawn at = {row[i].at, d.links};
            int best = FLAT;
            double s[LUO_ALLTOALL_KINDS];
            for (int k = 0; k < LUO_ALLTOALL_KINDS; k++) {
                const tally t = count(&at, k, row[i].bytes);
                s[k] = slow_seconds(&at, k, row[i].bytes);
                ck_assert(fabs(row[i].seconds[k] - s[k]) <= 1e-12 * s[k]);
                ck_assert(row[i].messages[k] == most(t.messages));
                ck_assert(fabs(row[i].nic_bytes[k] - most(t.bytes)) <= 1e-9 * most(t.bytes));
                const bool fits = k != LEADER || 2 * at.x.each * row[i].bytes <= room;
                if (fits && s[k] < s[best] * (1 - 1e-12)) best = k;
                refused += !fits;
                ck_assert(k != LEADER || row[i].leader_fits == fits);
            }
            ck_assert_msg((int)row[i].best == best || fabs(s[row[i].best] / s[best] - 1) < 1e-9,
                          "LUO_SEED=%llu LUO_CASES=1: row %d: %s", (unsigned long long)seed, (int)i,
                          luo_alltoall_kind_name(row[i].best));
            ck_assert(row[i].best != LUO_ALLTOALL_LEADER || row[i].leader_fits);
            wins[row[i].best]++;
        }
        luo_arena_free(arena);
    }
    for (int k = 0; k < LUO_ALLTOALL_KINDS; k++) ck_assert_int_gt(wins[k], 100);
    ck_assert_int_gt(refused, 100);
}
END_TEST

/* The limit is where both take equally long, with any number of NICs; 0: leader is never faster. */
START_TEST(limits)
{
    int never = 0, some = 0;
    LUO_PROP_FOR(seed, 400)
    {
        luo_rng rng = luo_rng_seed(seed);
        const drawn d = draw(&rng, 9);
        const double S = luo_alltoall_limit(&d.x, &d.links);
        const double at = S > 0 ? S : 1;
        const double flat = slow_seconds(&d, FLAT, at), leader = slow_seconds(&d, LEADER, at);
        if (S > 0)
            ck_assert(fabs(flat - leader) <= 1e-9 * flat);
        else
            ck_assert(flat <= leader);
        S > 0 ? some++ : never++;
    }
    ck_assert_int_gt(some, 10);
    ck_assert_int_gt(never, 10);
}
END_TEST

START_TEST(leader_needs_room)
{
    static const double GiB = 1024.0 * 1024 * 1024;
    const luo_alltoall x = {4, 8, 1};
    luo_err err = {0};
    ck_assert_int_eq(luo_alltoall_fits(&x, LUO_ALLTOALL_LEADER, GiB / 8, 1.5 * GiB, 0, &err),
                     LUO_EOOM);
    ck_assert_str_eq(err.text,
                     "leader exchange needs 2.0 GiB on device 0, 1.5 GiB are free; use 2d.");
    ck_assert_int_eq(luo_alltoall_fits(&x, LUO_ALLTOALL_LEADER, GiB / 8, 2 * GiB, 0, NULL), LUO_OK);
    ck_assert_int_eq(luo_alltoall_fits(&x, LUO_ALLTOALL_2D, GiB, 0, 0, NULL), LUO_OK);
}
END_TEST

LUO_SUITE("alltoall", LUO_T(borders), LUO_T(counted), LUO_T(limits), LUO_T(leader_needs_room))
