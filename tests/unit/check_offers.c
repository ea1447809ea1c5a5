/* check_offers.c: the choice among plans by the simulated step, against the least of all
 * simulated, on random tables (runs: tests/rivals.sh). */
#include <math.h>

#include "core/base/rng.h"
#include "core/plan/replan/replan.h"
#include "core/run/policy/offers.h"
#include "tests/driver_fixture.h"

/* ---- random tables ---- */

enum { MOST = 12, ROUNDS = 500 };

typedef struct table {
    luo_plan *plan[MOST];
    double step[MOST];
    int n, asked;
} table;

static luo_status told(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    table *t = run;
    (void)err;
    for (int i = 0; i < t->n; i++)
        if (t->plan[i] == p) {
            t->asked++;
            *seconds = t->step[i];
            return LUO_OK;
        }
    ck_abort_msg("another plan");
}

START_TEST(fastest_of_random_tables)
{
    luo_rng rng = luo_rng_stream(1 + (uint64_t)_i, "offers");
    int skipped = 0;
    prepare("malleus", 1, 0);
    for (int round = 0; round < ROUNDS; round++) {
        table t = {.n = 1 + (int)luo_rng_pick(&rng, MOST)};
        luo_offers o = {0};
        double least = INFINITY;
        for (int i = 0; i < t.n; i++) {
            t.plan[i] = base_plan(sc.cluster);
            t.plan[i]->sequence_tokens = 256 + i;
            const bool runs = luo_rng_pick(&rng, 5) > 0;
            t.step[i] = runs ? 1 + luo_rng_u(&rng) : (double)INFINITY;
            luo_offers_add(&o, "table", t.plan[i],
                           (runs ? t.step[i] : 1) * (0.3 + 0.7 * luo_rng_u(&rng)));
            luo_offers_add(&o, "again", t.plan[i], 0); /* is there already */
            least = fmin(least, t.step[i]);
        }
        ck_assert_int_eq(o.n, t.n);
        const luo_snapshot now = {.step_s = told, .run = &t};
        luo_err err = {0};
        const luo_status st = luo_offers_judge(&o, &now, &err);
        ck_assert_int_eq(st, isinf(least) ? LUO_EINFEASIBLE : LUO_OK);
        if (st != LUO_OK) continue;
        ck_assert_double_eq(o.at[0].step_s, least);
        int simulated = 0;
        for (int i = 0; i < o.n; i++) {
            if (o.at[i].step_s >= 0) simulated++;
            else ck_assert_double_gt(o.at[i].objective_s, least); /* none that could have won */
            if (i == 0 || o.at[i].step_s < 0) continue;
            ck_assert_double_ge(o.at[i].step_s, o.at[i - 1].step_s);
        }
        ck_assert_int_eq(simulated, t.asked);
        skipped += o.n - simulated;
    }
    ck_assert_int_gt(skipped, ROUNDS / 2);
}
END_TEST

/* Eight plans of 1 s that a failure costs 0.5 s a step, and one of 1.4 s that it costs nothing: it
 * is the last by its objective alone, and not simulated without its rivals' risk. */
START_TEST(risk_counts)
{
    table t = {.n = 9};
    luo_err err = {0};
    prepare("malleus", 1, 0);
    for (int risky = 0; risky < 2; risky++) {
        luo_offers o = {0};
        for (int i = 0; i < t.n; i++) {
            t.plan[i] = base_plan(sc.cluster);
            t.plan[i]->sequence_tokens = 256 + i;
            t.step[i] = i < 8 ? 1 : 1.4;
            luo_offers_add(&o, "table", t.plan[i], t.step[i]);
            o.at[i].risk_s = risky && i < 8 ? 0.5 : 0;
        }
        const luo_snapshot now = {.step_s = told, .run = &t};
        ck_assert_int_eq(luo_offers_judge(&o, &now, &err), LUO_OK);
        ck_assert_ptr_eq(o.at[0].plan, t.plan[risky ? 8 : 0]);
        ck_assert_double_eq(o.at[0].step_s, risky ? 1.4 : 1);
        ck_assert(risky || o.at[8].step_s < 0);
    }
}
END_TEST

/* ---- the best uniform shapes ---- */

START_TEST(best_shapes)
{
    luo_rng rng = luo_rng_stream(1 + (uint64_t)_i, "shapes");
    enum { GROUPS = 12, ALL = 200, FEW = 4 };
    double y[GROUPS];
    luo_restart_plan all[ALL], few[FEW];
    int32_t nall, nfew;
    prepare("restart", 1, 0);
    for (int round = 0; round < 100; round++) {
        luo_restart_in in = {.ngroups = 1 + (int32_t)luo_rng_pick(&rng, GROUPS), .y = y,
                             .layers = 4 + (int64_t)luo_rng_pick(&rng, 30)};
        in.micro_batches = 1 + (int64_t)luo_rng_pick(&rng, 24);
        for (int i = 0; i < GROUPS; i++) y[i] = 1 + (double)luo_rng_pick(&rng, 3);
        ck_assert_int_eq(luo_replan_restart_shapes(arena, &in, ALL, all, &nall, NULL), LUO_OK);
        ck_assert_int_eq(luo_replan_restart_shapes(arena, &in, FEW, few, &nfew, NULL), LUO_OK);
        ck_assert_int_eq(nfew, nall < FEW ? nall : FEW);
        for (int i = 1; i < nall; i++) ck_assert_double_ge(all[i].event, all[i - 1].event);
        for (int i = 0; i < nfew; i++) {
            ck_assert_double_eq(few[i].event, all[i].event);
            ck_assert_int_eq(few[i].pipelines, all[i].pipelines);
            ck_assert_int_eq(few[i].stages, all[i].stages);
        }
    }
}
END_TEST

/* ---- without a node ---- */

/* Base: pipeline i, stage s on node 2i + s. Stages of both pipelines on the same nodes lose what is
 * on them; shards of ZeRO have one owner. */
START_TEST(survives_a_node)
{
    prepare("malleus", 1, 0);
    luo_plan *p = base_plan(sc.cluster);
    ck_assert(luo_policy_plan_survives_node(p, sc.cluster));
    p->zero = 1;
    ck_assert(!luo_policy_plan_survives_node(p, sc.cluster));
    p->zero = 0;
    luo_stage *st = (luo_stage *)p->pipelines[1].stages;
    const luo_stage was = st[0];
    st[0].dev = p->pipelines[0].stages[0].dev; /* all of layers 0 to 12 on node 0 */
    ck_assert(!luo_policy_plan_survives_node(p, sc.cluster));
    st[0].dev = p->pipelines[0].stages[1].dev; /* nodes 0 and 1 */
    ck_assert(luo_policy_plan_survives_node(p, sc.cluster));
    st[0] = was;
    p->npipelines = 1;
    ck_assert(!luo_policy_plan_survives_node(p, sc.cluster));
}
END_TEST

LUO_SUITE("run.offers", LUO_T_N(fastest_of_random_tables, 4), LUO_T(risk_counts),
          LUO_T_N(best_shapes, 4), LUO_T(survives_a_node))
