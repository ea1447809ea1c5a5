/* Whole steps in the simulator: makespans of schedules against the computed vectors and against
 * luo_sched_makespan, and steps of every fidelity, folded and not, against each other. */
#include "tests/prop/prop.h"
#include "tests/sim_programs.h"

#define TIGHT 1e-6
#define ALIKE 1e-3 /* fidelities and folding */
static const char *const mode_names[] = {"model", "flow", "message"};

#define TIMES(...) (const double[]){__VA_ARGS__}
#define ONES4 TIMES(1, 1, 1, 1)
#define EVEN4 TIMES(1, 1, 1, 1), TIMES(2, 2, 2, 2)
typedef struct makespan {
    pipeline p;
    double want;
} makespan;
static const makespan makespans[] = { /* the computed vectors */
    {{LUO_SCHED_1F1B, 4, 8, 1, EVEN4, NULL, 0, false}, 33},
    {{LUO_SCHED_GPIPE, 4, 8, 1, EVEN4, NULL, 0, false}, 33},
    {{LUO_SCHED_1F1B, 4, 8, 1, EVEN4, NULL, 0.25, false}, 37},
    {{LUO_SCHED_1F1B, 4, 8, 1, EVEN4, NULL, 1, false}, 49},
    {{LUO_SCHED_GPIPE, 4, 8, 1, EVEN4, NULL, 0.25, false}, 34.5},
    {{LUO_SCHED_GPIPE, 4, 8, 1, EVEN4, NULL, 1, false}, 39},
    {{LUO_SCHED_1F1B, 3, 4, 1, TIMES(1, 2, 1), TIMES(2, 4, 2), NULL, 0, false}, 28},
    {{LUO_SCHED_GPIPE, 3, 4, 1, TIMES(1, 2, 1), TIMES(2, 4, 2), NULL, 0, false}, 30},
    {{LUO_SCHED_INTERLEAVED, 3, 6, 2, TIMES(1, 1, 1, 1, 1, 1), TIMES(2, 2, 2, 2, 2, 2), NULL, 0,
      false},
     42},
    {{LUO_SCHED_ZB_H1, 4, 8, 1, ONES4, ONES4, ONES4, 0, false}, 27},
    {{LUO_SCHED_ZB_H1, 4, 2, 1, ONES4, ONES4, ONES4, 0, false}, 11},
};

START_TEST(pipelines_take_the_published_makespans)
{
    const makespan *row = &makespans[_i % LUO_ROWS(makespans)];
    rig *r = pipeline_rig(&row->p);
    char what[32];
    r->config.comm = (luo_comm_mode)(_i / LUO_ROWS(makespans));
    snprintf(what, sizeof what, "%s row %d", mode_names[r->config.comm], _i % LUO_ROWS(makespans));
    rig_near(rig_run(r), row->want, TIGHT, what);
}
END_TEST

/* Slow twin: luo_sched_makespan. */
START_TEST(random_pipelines_agree_with_the_event_form)
{
    int interleaved = 0, hops = 0, blocking = 0, split = 0;
    LUO_PROP_FOR(seed, 60) {
        luo_rng rng = luo_rng_seed(seed);
        double f[16], b[16], w[16], hops_s[4], want = 0;
        pipeline p = {.kind = (luo_sched_kind)luo_rng_pick(&rng, 4), .v = 1, .forward = f,
                      .backward = b, .weight = w};
        p.S = 1 + (int32_t)luo_rng_pick(&rng, 4);
        p.m = 1 + (int32_t)luo_rng_pick(&rng, 6);
        if (p.kind == LUO_SCHED_INTERLEAVED && p.S > 1) {
            p.v = 2 + (int32_t)luo_rng_pick(&rng, 2);
            p.m *= p.S;
            interleaved++;
        } else if (p.kind == LUO_SCHED_INTERLEAVED) {
            p.kind = LUO_SCHED_1F1B;
        }
        for (int32_t i = 0; i < p.S * p.v; i++) {
            f[i] = 0.5 + luo_rng_u(&rng);
            b[i] = 0.5 + 2 * luo_rng_u(&rng);
            w[i] = 0.5 + luo_rng_u(&rng);
        }
        p.hop_s = luo_rng_pick(&rng, 2) ? luo_rng_u(&rng) : 0;
        p.blocking = luo_rng_pick(&rng, 3) == 0;
        hops += p.hop_s > 0;
        split += luo_sched_splits(p.kind) && p.S > 1;
        blocking += p.blocking && p.hop_s > 0;
        for (int32_t i = 0; i < p.S; i++) hops_s[i] = p.hop_s;
        rig *r = pipeline_rig(&p);
        char what[96];
        snprintf(what, sizeof what, "seed %d: %s S %d m %d v %d hop %g blocking %d", (int)seed,
                 luo_sched_name(p.kind), p.S, p.m, p.v, p.hop_s, p.blocking);
        rig_check(r, luo_sched_makespan(r->arena, p.kind, p.S, p.m, p.v, f, b, w, hops_s,
                                        p.blocking, &want, &r->err));
        rig_near(rig_run(r), want, TIGHT, what);
    }
    if (!getenv("LUO_CASES")) ck_assert(interleaved > 5 && hops > 20 && blocking > 5 && split > 5);
}
END_TEST

#define LAYOUT(t, s, p, m, l) \
    .tp = (t), .stages = (s), .pipelines = (p), .micro_batches = (m), .layers = (l)
static const layout layouts[] = {{LAYOUT(2, 1, 1, 1, 1)}, {LAYOUT(4, 1, 2, 2, 2)},
                                 {LAYOUT(1, 2, 2, 3, 2)}, {LAYOUT(2, 2, 1, 4, 3)},
                                 {LAYOUT(4, 2, 2, 4, 2)}, {LAYOUT(2, 4, 3, 6, 2)},
                                 {LAYOUT(2, 4, 2, 6, 3), .stages_per_node = 4}};

START_TEST(fidelities_and_folding_agree_without_contention)
{
    double first = 0;
    for (int k = 0; k < 6; k++) {
        rig *r = step_rig(&layouts[_i / 2]);
        char what[64];
        r->stack.dp_overlap = _i % 2;
        r->config.comm = (luo_comm_mode)(k / 2);
        r->config.fold = k % 2;
        snprintf(what, sizeof what, "layout %d, %s, fold %d", _i / 2, mode_names[k / 2], k % 2);
        const luo_step_result s = rig_step(r);
        if (k == 0) first = rig_seconds(&s);
        rig_near(rig_seconds(&s), first, ALIKE, what);
        rig_free(r);
    }
}
END_TEST

/* Stages that share a node, NICs or uplinks: messages, gradients and pipelines get in each other's
 * way, and one lane for a stage must feel it as its devices do. */
static const layout crowded[] = {
    {LAYOUT(4, 2, 2, 4, 2), .nics = 2, .uplink_bytes_per_s = 3e9},
    {LAYOUT(4, 4, 3, 6, 2), .nics = 1, .uplink_bytes_per_s = 5e9},
    {LAYOUT(2, 4, 3, 6, 2), .nics = 2, .uplink_bytes_per_s = 5e9, .stages_per_node = 2},
    {LAYOUT(2, 4, 2, 6, 3), .nics = 1, .uplink_bytes_per_s = 5e9, .stages_per_node = 4},
    {LAYOUT(3, 2, 4, 3, 1), .nics = 2, .stages_per_node = 2},
    {LAYOUT(1, 8, 2, 16, 2), .nics = 1, .stages_per_node = 4},
};

START_TEST(folding_keeps_contention)
{
    double quiet = 0, busy = 0;
    for (int k = 0; k < 9; k++) {
        rig *r = step_rig(&crowded[_i / 2]);
        char what[64];
        r->stack.dp_overlap = _i % 2;
        r->config.comm = (luo_comm_mode)(k / 4 < 2 ? 1 + k % 4 / 2 : 0);
        r->config.fold = k % 2;
        r->world->slowdown[1] = k / 4 == 1 ? 1.7 : 1;
        snprintf(what, sizeof what, "crowded %d, %s, slow %d", _i / 2, mode_names[r->config.comm],
                 k / 4 == 1);
        const double s = rig_run(r);
        if (k % 4 == 0 && k < 8) busy = s;
        if (k == 0) quiet = s;
        if (k < 8) rig_near(s, busy, ALIKE, what);
        else ck_assert_msg(fabs(s / quiet - 1) > 1e-2, "crowded %d: so says the model", _i / 2);
    }
}
END_TEST

LUO_SUITE("diff.sim_steps",
          LUO_T_N(pipelines_take_the_published_makespans, 3 * LUO_ROWS(makespans)),
          LUO_T(random_pipelines_agree_with_the_event_form),
          LUO_T_N(fidelities_and_folding_agree_without_contention, 2 * LUO_ROWS(layouts)),
          LUO_T_N(folding_keeps_contention, 2 * LUO_ROWS(crowded)))
