/* Gathers and scatters of uneven pieces in each variant, simulated, against programs that say the
 * same in other words: padded ones against one collective of equal pieces as long as the longest,
 * grouped ones against a broadcast instruction per piece, one after another. Seconds in closed form
 * and as flows, and what goes over every link; in one node also against closed forms. And what the
 * planner `hap` takes for the cheaper variant is the cheaper one. */
#include "core/plan/hap/hap_cluster.h"
#include "core/plan/hap/price.h"
#include "tests/parked/hap_graphs.h"
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

enum { MOST = 12, CASES = 300 };
static const double port = 100e9;

typedef struct drawn {
    int32_t nodes, each, n;
    int64_t count[MOST], all, longest; /* bytes of the pieces */
    luo_coll coll;
    bool fold;
    luo_comm_mode comm;
} drawn;

static drawn draw(luo_rng *rng)
{
    drawn d = {.nodes = 1 + (int32_t)luo_rng_pick(rng, 3), .fold = luo_rng_pick(rng, 2)};
    d.each = d.nodes > 1 ? 1 + (int32_t)luo_rng_pick(rng, 4) : 2 + (int32_t)luo_rng_pick(rng, 3);
    d.n = d.nodes * d.each;
    d.coll = luo_rng_pick(rng, 2) ? LUO_COLL_AG : LUO_COLL_RS;
    d.comm = luo_rng_pick(rng, 2) ? LUO_COMM_FLOW : LUO_COMM_MODEL;
    for (int32_t i = 0; i < d.n; i++)
        d.count[i] = luo_rng_pick(rng, 4) ? 1000000 * luo_rng_pick(rng, 20) : 0;
    d.count[luo_rng_pick(rng, d.n)] += 21000000; /* uneven for sure */
    for (int32_t i = 0; i < d.n; i++) {
        d.all += d.count[i];
        if (d.count[i] > d.longest) d.longest = d.count[i];
    }
    return d;
}

/* ---- programs ---- */

static rig *rig_of(const drawn *d)
{
    rig *r = rig_new(&(rig_shape){.nodes = d->nodes,
                                  .devices_per_node = d->each,
                                  .port_bytes_per_s = port,
                                  .nic_latency_s = 1e-5});
    r->config.comm = d->comm;
    r->config.fold = d->fold;
    return r;
}

/* Every device calls instruction `id` with the group whose first member is `root`. */
static void join_all(rig *r, const drawn *d, int32_t id, int32_t root, const int64_t *counts)
{
    int32_t dev[MOST] = {root};
    for (int32_t i = 0, at = 1; i < d->n; i++)
        if (i != root) dev[at++] = i;
    const int32_t group = rig_group(r, LUO_STREAM_DP, d->n, dev);
    for (int32_t i = 0; i < d->n; i++) {
        rig_join(r, i, id, group);
        rig_slot(r, i, id)->counts = counts;
    }
}

static void add_devices(rig *r, const drawn *d, int32_t role)
{
    for (int32_t i = 0; i < d->n; i++) {
        rig_device(r, i, role, 0, 0);
        rig_task(r, i, 0, -1);
    }
}

static rig *one_call(const drawn *d, luo_coll_variant variant, bool even, int64_t bytes)
{
    rig *r = rig_of(d);
    const int32_t role = rig_role(r);
    const int32_t id = rig_collective(r, role, LUO_STREAM_DP, d->coll, bytes, 0);
    luo_instr *in = (luo_instr *)&r->set.roles[role].instr[id];
    in->v = !even;
    in->variant = (uint8_t)variant;
    add_devices(r, d, role);
    join_all(r, d, id, 0, even ? NULL : d->count);
    return r;
}

static rig *broadcasts(const drawn *d)
{
    rig *r = rig_of(d);
    const int32_t role = rig_role(r);
    int32_t id[MOST], n = 0;
    for (int32_t i = 0; i < d->n; i++) {
        if (d->count[i] == 0) continue;
        id[n] = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_BCAST, d->count[i], n);
        if (n > 0) rig_after(r, role, id[n], id[n - 1]);
        n++;
    }
    add_devices(r, d, role);
    for (int32_t i = 0, k = 0; i < d->n; i++)
        if (d->count[i] > 0) join_all(r, d, id[k++], i, NULL);
    return r;
}

/* ---- results ---- */

typedef struct result {
    double seconds, up[4 * MOST], down[4 * MOST], sum;
    int32_t nlinks;
} result;

static result run(rig *r)
{
    const luo_step_result s = rig_step(r);
    result x = {.seconds = rig_seconds(&s), .nlinks = r->cluster.nlinks};
    ck_assert_int_le(x.nlinks, 4 * MOST);
    for (int32_t l = 0; l < x.nlinks; l++) {
        x.up[l] = s.links[l].bytes_up;
        x.down[l] = s.links[l].bytes_down;
        x.sum += x.up[l];
    }
    rig_free(r);
    return x;
}

/* turned: what went up went down. */
static void same_links(const result *got, const result *want, bool turned, const char *what,
                       uint64_t seed)
{
    for (int32_t l = 0; l < got->nlinks; l++) {
        const double up = turned ? want->down[l] : want->up[l];
        const double down = turned ? want->up[l] : want->down[l];
        ck_assert_msg(fabs(got->up[l] - up) < 1 && fabs(got->down[l] - down) < 1,
                      "%s, LUO_SEED=%llu: link %d has %.0f and %.0f bytes, not %.0f and %.0f", what,
                      (unsigned long long)seed, (int)l, got->up[l], got->down[l], up, down);
    }
}

static void near(double got, double want, const char *what, uint64_t seed)
{
    ck_assert_msg(fabs(got - want) <= 1e-9 * want, "%s, LUO_SEED=%llu: %.12g, not %.12g", what,
                  (unsigned long long)seed, got, want);
}

/* In one node, where curves are flat: seconds, and bytes over all ports. */
static void closed(const drawn *d, const result *x, luo_coll_variant v, uint64_t seed)
{
    const double n = d->n, all = (double)d->all, longest = (double)d->longest;
    const double ring = v == LUO_COLL_PADDED ? n * longest : all;
    const double each = v == LUO_COLL_GROUPED ? all : (n - 1) / n * ring;
    if (d->nodes > 1) return;
    near(x->sum, (n - 1) * ring, "bytes in closed form", seed);
    if (d->comm == LUO_COMM_MODEL) near(x->seconds, each / port, "closed form", seed);
}

static void check(uint64_t seed)
{
    luo_rng rng = luo_rng_seed(seed);
    const drawn d = draw(&rng);
    const result exact = run(one_call(&d, LUO_COLL_AUTO, false, d.all));
    const result plain = run(one_call(&d, LUO_COLL_AUTO, true, d.all));
    const result padded = run(one_call(&d, LUO_COLL_PADDED, false, d.all));
    const result longest = run(one_call(&d, LUO_COLL_AUTO, true, d.n * d.longest));
    const result grouped = run(one_call(&d, LUO_COLL_GROUPED, false, d.all));
    const result pieces = run(broadcasts(&d));
    near(exact.seconds, plain.seconds, "auto", seed);
    near(padded.seconds, longest.seconds, "padded", seed);
    same_links(&padded, &longest, false, "padded", seed);
    same_links(&grouped, &pieces, d.coll == LUO_COLL_RS, "grouped", seed);
    if (d.comm == LUO_COMM_MODEL)
        near(grouped.seconds, pieces.seconds, "grouped", seed);
    else /* edges go on with the next piece when they have done the last */
        ck_assert_msg(grouped.seconds <= pieces.seconds * (1 + 1e-9) &&
                          grouped.seconds >= pieces.seconds / d.n,
                      "grouped flows, LUO_SEED=%llu: %.12g s, one by one %.12g s",
                      (unsigned long long)seed, grouped.seconds, pieces.seconds);
    closed(&d, &exact, LUO_COLL_AUTO, seed);
    closed(&d, &padded, LUO_COLL_PADDED, seed);
    closed(&d, &grouped, LUO_COLL_GROUPED, seed);
}

START_TEST(in_other_words)
{
    const uint64_t first = luo_prop_first();
    const uint64_t cases = luo_prop_env("LUO_CASES", CASES) * luo_prop_env("LUO_SCALE", 1);
    for (uint64_t k = 0; k < cases; k++) check(first + k);
    printf("%llu calls from seed %llu\n", (unsigned long long)cases, (unsigned long long)first);
}
END_TEST

/* ---- what the planner chooses ---- */

/* Two types, as a slow device is one; the first gets `more` times what the second does. */
static luo_hap_cuts *cut(const rig *r, drawn *d, double more, luo_hap_numbers *numbers)
{
    int32_t usable[MOST];
    double rate[MOST], shares[2];
    int64_t *extent = LUO_NEW(r->arena, int64_t), left = 0;
    luo_hap_devices devices;
    luo_hap_cuts *cuts;
    const luo_cost_ctx ctx = {.cluster = &r->cluster, .stack = &r->stack, .dtype = LUO_BF16};
    const luo_hap_mlp_in in = {64, 1, {256, 512}, false, false, false};
    for (int32_t i = 0; i < d->n; i++) usable[i] = i, rate[i] = i == d->n - 1 ? 2 : 1;
    ck_assert_int_eq(luo_hap_devices_of(r->arena, &r->cluster, usable, d->n, rate, &devices, NULL),
                     LUO_OK);
    ck_assert_int_eq(luo_hap_cluster_numbers(r->arena, luo_hap_graphs_mlp(r->arena, &in), &ctx,
                                             &devices, numbers, NULL),
                     LUO_OK);
    shares[1] = more / (more + d->n - 1);
    shares[0] = (1 - shares[1]) / (d->n - 1);
    *extent = d->all;
    ck_assert_int_eq(luo_hap_cuts_new(r->arena, numbers, 1, shares, 1, extent, &cuts, NULL),
                     LUO_OK);
    d->longest = 0;
    for (int32_t i = 0; i < d->n; i++) {
        left += d->count[i] = (int64_t)cuts->length[i];
        if (d->count[i] > d->longest) d->longest = d->count[i];
    }
    ck_assert_int_eq(left, d->all);
    return cuts;
}

static void check_choice(uint64_t seed, int *chosen)
{
    luo_rng rng = luo_rng_seed(seed);
    drawn d = draw(&rng);
    rig *r = rig_of(&d);
    luo_hap_numbers numbers;
    bool grouped;
    d.comm = LUO_COMM_MODEL;
    d.all = (int64_t)1 << (18 + luo_rng_pick(&rng, 9));
    luo_hap_cuts *cuts = cut(r, &d, 1 + 0.25 * (double)luo_rng_pick(&rng, 20), &numbers);
    const luo_hap_coll coll = {.kind = d.coll == LUO_COLL_AG ? LUO_HAP_MOVE_AG : LUO_HAP_MOVE_RS,
                               .bytes = (double)d.all};
    const double price = luo_hap_price(&numbers, cuts, &coll, &grouped);
    const bool even = d.longest * d.n == d.all;
    const result padded = run(one_call(&d, even ? LUO_COLL_AUTO : LUO_COLL_PADDED, even, d.all));
    const result parts = run(one_call(&d, LUO_COLL_GROUPED, even, d.all));
    const double got = grouped ? parts.seconds : padded.seconds;
    const double other = grouped ? padded.seconds : parts.seconds;
    ck_assert_msg(got <= other * 1.02, "LUO_SEED=%llu: %s takes %.12g s, the other %.12g s",
                  (unsigned long long)seed, grouped ? "grouped" : "padded", got, other);
    ck_assert_msg(d.nodes > 1 || fabs(price - got) <= 1e-4 * got,
                  "LUO_SEED=%llu: %s is priced %.12g s, simulated %.12g s",
                  (unsigned long long)seed, grouped ? "grouped" : "padded", price, got);
    chosen[grouped]++;
    rig_free(r);
}

START_TEST(the_cheaper_is_chosen)
{
    const uint64_t first = luo_prop_first();
    const uint64_t cases = luo_prop_env("LUO_CASES", CASES) * luo_prop_env("LUO_SCALE", 1);
    int chosen[2] = {0};
    for (uint64_t k = 0; k < cases; k++) check_choice(first + k, chosen);
    printf("%d padded, %d grouped\n", chosen[0], chosen[1]);
    if (!getenv("LUO_CASES")) ck_assert(chosen[0] > 20 && chosen[1] > 20);
}
END_TEST

LUO_SUITE("diff.sim_variants", LUO_T(in_other_words), LUO_T(the_cheaper_is_chosen))
