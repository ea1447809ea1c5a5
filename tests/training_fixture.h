/* training_fixture.h: replicas that do not all wait for each other, on a simulator that answers
 * from a formula, so that every time can be had by hand.
 *
 * Cluster: 4 nodes of 2 devices with a NIC each. A worker is one device: its step takes `unit_s`,
 * so many times longer as the device is slow. Several workers exchange 0.1 s in one node, else 0.5
 * s over the slowest of their NICs and its extra latency. */
#ifndef LUO_TESTS_TRAINING_FIXTURE_H
#define LUO_TESTS_TRAINING_FIXTURE_H
#include "core/sync/adpsgd.h"
#include "tests/driver_fixture.h"

static double unit_s;
static double ring_s;     /* if above 0: n workers exchange 2 (n - 1) times as long, wherever */
static int64_t asked;     /* simulated steps */
static luo_status broken; /* what the simulator answers; LUO_OK: seconds */

struct luo_backend_state {
    const luo_cluster *cluster;
};

static inline luo_status formula_open(const luo_backend_config *config, luo_backend_state **out,
                                      luo_err *err)
{
    static luo_backend_state state;
    (void)err;
    state.cluster = config->cluster;
    *out = &state;
    return LUO_OK;
}

static inline void formula_close(luo_backend_state *b)
{
    (void)b;
}

static inline luo_status formula_run(luo_backend_state *b, const luo_step_request *request,
                                     luo_step_result *result, luo_err *err)
{
    const luo_programs *set = request->programs;
    const luo_world *world = request->world;
    double slowest = 1, exchange_s = 0, inside_s = 0;
    bool crosses = false;
    asked++;
    *result = (luo_step_result){.status = LUO_OK};
    if (broken) return luo_err_set(err, broken, "the simulator is gone; start it.");
    for (int32_t i = 0; i < set->n; i++) {
        const luo_device *d = &b->cluster->devices[set->at[i].device];
        crosses |= d->node != b->cluster->devices[set->at[0].device].node;
        slowest = fmax(slowest, world->slowdown[set->at[i].device] * (1 + d->group));
        inside_s = d->group ? .3 : .1;
    }
    for (int32_t i = 0; i < set->n && crosses; i++) {
        const luo_device *d = &b->cluster->devices[set->at[i].device];
        const int32_t nic = b->cluster->nodes[d->node].nic + d->slot;
        exchange_s =
            fmax(exchange_s, .5 / world->link_factor[nic]) + world->link_extra_latency_s[nic];
    }
    if (ring_s > 0) crosses = true, exchange_s = 2 * (set->n - 1) * ring_s;
    result->end_s = unit_s * slowest + (crosses ? exchange_s : set->n > 1 ? inside_s : 0);
    if (isinf(result->end_s)) {
        result->status = LUO_EPEER;
        snprintf(result->text, sizeof result->text, "a link is down.");
    }
    return LUO_OK;
}

static const luo_backend formula = {.name = "formula",
                                    .caps = LUO_CAP_VIRTUAL_TIME,
                                    .open = formula_open,
                                    .close = formula_close,
                                    .run_ranks = formula_run};

/* n workers: on these devices. */
static inline void workers(luo_training_mode mode, const int32_t *dev, int32_t n, int64_t steps,
                           int32_t nevents)
{
    static const luo_range all = {0, 24};
    prepare("static", steps, nevents);
    luo_plan *p = base_plan(sc.cluster);
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, n);
    luo_stage *st = LUO_NEW_N(arena, luo_stage, n);
    for (int32_t i = 0; i < n; i++) {
        st[i] = (luo_stage){.nlayers = 1,
                            .layers = &all,
                            .ndev = 1,
                            .dev = dev + i,
                            .context_parallel = 1,
                            .embedding = true,
                            .head = true};
        pl[i] = (luo_pipeline){
            .micro_batches = 1, .micro_batch_sequences = 1, .nstages = 1, .stages = &st[i]};
    }
    p->npipelines = n;
    p->pipelines = pl;
    sc.plan = p;
    spec.training = (luo_training_spec){.mode = mode, .servers = 1, .wait_s = .01};
    opts.simulator = &formula;
    unit_s = 1;
    ring_s = 0;
    asked = 0;
    broken = LUO_OK;
}

static const int32_t eight[] = {0, 1, 2, 3, 4, 5, 6, 7};

static inline void ends(int32_t step, double at_s)
{
    ck_assert_int_lt(step, fake.nsteps);
    ck_assert_msg(fabs(fake.steps[step].end_s / at_s - 1) < 1e-12,
                  "step %d ends at %.12g, not at %.12g", step, fake.steps[step].end_s, at_s);
}
#endif
