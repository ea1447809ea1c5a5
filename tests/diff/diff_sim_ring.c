/* Rings step by step that nobody disturbs are a recurrence (sim/step/ring.c). The slow twin has
 * SimGrid carry every message: a link event that changes nothing sends a ring there from its date
 * on. */
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

enum { RANKS = 12, CALLS = 3 };

typedef struct tally {
    int early, late, uneven;
} tally;

/* Groups of one device a node, some NICs slower than others; collectives of one group in a row. */
static rig *draw(luo_rng *rng, int32_t *nodes, tally *t)
{
    static const luo_coll kinds[] = {LUO_COLL_AR, LUO_COLL_RS, LUO_COLL_AG};
    int32_t dev[RANKS], id[CALLS];
    *nodes = 2 + (int32_t)luo_rng_pick(rng, RANKS - 1);
    rig *r = rig_new(&(rig_shape){.nodes = *nodes, .nic_bytes_per_s = 1e9 * (1 + luo_rng_u(rng)),
                                  .nic_latency_s = 1e-5 * luo_rng_u(rng),
                                  .net_half_bytes = 1e4 * luo_rng_u(rng)});
    const int32_t role = rig_role(r), calls = 1 + (int32_t)luo_rng_pick(rng, CALLS);
    for (int32_t i = 0; i < calls; i++)
        id[i] = rig_collective(r, role, LUO_STREAM_DP, kinds[luo_rng_pick(rng, 3)],
                               (1 + luo_rng_pick(rng, 100)) * 100000, i);
    for (int32_t d = 0; d < *nodes; d++) dev[d] = d;
    const int32_t group = rig_group(r, LUO_STREAM_DP, *nodes, dev);
    for (int32_t d = 0; d < *nodes; d++) {
        rig_device(r, d, role, d, 0);
        rig_task(r, d, 0, -1);
        for (int32_t i = 0; i < calls; i++) rig_join(r, d, id[i], group);
    }
    r->config.comm = LUO_COMM_MESSAGE;
    for (int32_t d = 0; d < *nodes && luo_rng_pick(rng, 2); d++) {
        char name[32];
        snprintf(name, sizeof name, "n-%d/nic0", d);
        const int32_t nic = luo_cluster_find_link(&r->cluster, name);
        ck_assert_int_ge(nic, 0);
        r->world->link_factor[nic] = 0.3 + 0.7 * luo_rng_u(rng);
        t->uneven++;
    }
    return r;
}

static double busy(const rig *r, const luo_step_result *s)
{
    double sum = 0;
    for (int32_t l = 0; l < r->cluster.nlinks; l++)
        sum += s->links[l].busy_up_s + s->links[l].busy_down_s;
    return sum;
}

START_TEST(a_ring_alone_takes_as_long_as_its_messages)
{
    tally t = {0};
    LUO_PROP_FOR(seed, 150) {
        luo_rng rng = luo_rng_seed(seed);
        int32_t nodes;
        rig *r = draw(&rng, &nodes, &t);
        luo_step_result s = rig_step(r);
        const double alone = rig_seconds(&s), was_busy = busy(r, &s);
        ck_assert(alone > 0);
        for (int k = 0; k < 4; k++) {
            const int32_t nic = luo_cluster_find_link(&r->cluster, "n-1/nic0");
            const double at = k == 0 ? 1e-6 : luo_rng_u(&rng) * alone;
            const luo_change same = {at, LUO_CHANGE_LINK, nic, r->world->link_factor[nic], 0,
                                     false};
            s = rig_step_with(r, &same, 1);
            ck_assert_int_eq(s.status, LUO_OK);
            rig_near(rig_seconds(&s), alone, 1e-6, "message by message");
            rig_near(busy(r, &s), was_busy, 1e-6, "links busy");
            t.early += at < alone / 10;
            t.late += at > alone / 2;
        }
        rig_free(r);
    }
    if (!getenv("LUO_CASES")) ck_assert(t.early > 100 && t.late > 100 && t.uneven > 100);
}
END_TEST

/* Seconds of all calls but the last. */
static double before(int32_t calls)
{
    return 0.006 * ((1 << calls) - 2);
}

/* All-reduces among four, the last of 6 steps of 1 ms and each before it twice as long as the next.
 * In the first 6 ms of the last one a NIC is half as fast, and another in the next 6: that one was
 * held up by the first, so it has steps left by then, which it would not have if each way were sent
 * along for itself. */
static double disturbed(int32_t calls)
{
    static const int32_t dev[] = {0, 1, 2, 3};
    rig *r = rig_new(&(rig_shape){.nodes = 4, .nic_bytes_per_s = 1e9});
    const int32_t role = rig_role(r);
    int32_t id[CALLS];
    for (int32_t i = 0; i < calls; i++)
        id[i] = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, 4000000 << (calls - 1 - i), i);
    const int32_t group = rig_group(r, LUO_STREAM_DP, 4, dev);
    for (int32_t d = 0; d < 4; d++) {
        rig_device(r, d, role, d, 0);
        rig_task(r, d, 0, -1);
        for (int32_t i = 0; i < calls; i++) rig_join(r, d, id[i], group);
    }
    r->config.comm = LUO_COMM_MESSAGE;
    const double at = before(calls);
    const int32_t nic[] = {r->cluster.nodes[0].nic, r->cluster.nodes[2].nic};
    const luo_change changes[] = {{at + 1e-6, LUO_CHANGE_LINK, nic[0], 0.5, 0, false},
                                  {at + 0.006, LUO_CHANGE_LINK, nic[0], 1, 0, false},
                                  {at + 0.006, LUO_CHANGE_LINK, nic[1], 0.5, 0, false}};
    const luo_step_result s = rig_step_with(r, changes, LUO_ROWS(changes));
    ck_assert_int_eq(s.status, LUO_OK);
    const double seconds = rig_seconds(&s);
    rig_free(r);
    return seconds;
}

START_TEST(every_call_goes_step_by_step)
{
    const double one = disturbed(1);
    ck_assert_msg(one > 0.0095, "%g s", one);
    for (int32_t calls = 2; calls <= CALLS; calls++)
        rig_near(disturbed(calls), one + before(calls), 1e-5, "one call after another");
}
END_TEST

LUO_SUITE("diff.sim_ring", LUO_T(a_ring_alone_takes_as_long_as_its_messages),
          LUO_T(every_call_goes_step_by_step))
