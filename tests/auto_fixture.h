/* auto_fixture.h: equal devices on one link, and the job of vector AP7. */
#ifndef LUO_TESTS_AUTO_FIXTURE_H
#define LUO_TESTS_AUTO_FIXTURE_H
#include <math.h>

#include "core/plan/auto/search.h"
#include "tests/check_main.h"

#define MIB (1 << 20)

static inline bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

#define ck_near(a, b) ck_assert_msg(near(a, b), "%s: %.12g is not %.12g", #a, (double)(a), (b))

enum { MOST = 64 };
typedef struct machine { /* equal devices on one link */
    double flops[MOST], limit[MOST];
    luo_auto_link link;
    luo_auto_cluster cluster;
} machine;

static inline void make_machine(machine *m, int32_t devices, double flops, double limit,
                                double latency, double bytes_per_s)
{
    for (int32_t d = 0; d < devices; d++) {
        m->flops[d] = flops;
        m->limit[d] = limit;
    }
    m->link = (luo_auto_link){latency, bytes_per_s};
    m->cluster = (luo_auto_cluster){devices, m->flops, m->limit, luo_auto_link_flat, &m->link};
}

static inline luo_auto_env make_env(const machine *m, int64_t batch, int32_t micro_batches)
{
    return (luo_auto_env){.cluster = &m->cluster,
                          .devices = m->cluster.devices,
                          .batch = batch,
                          .micro_batches = micro_batches,
                          .in_flight = 1,
                          .slow_comm = LUO_AUTO_SLOW_COMM,
                          .slow_compute = LUO_AUTO_SLOW_COMPUTE};
}

typedef struct case7 {
    machine m;
    luo_auto_layer layer[4];
    luo_auto_job job;
} case7;

static inline void make_case7(case7 *x, double limit)
{
    const luo_auto_widths w = {1024, 4096, 512, 16, 0};
    make_machine(&x->m, 4, 60e12, limit, 5e-6, 50e9);
    for (int l = 0; l < 4; l++) x->layer[l] = luo_auto_layer_transformer("l", &w);
    x->job = (luo_auto_job){.layer = x->layer,
                            .layers = 4,
                            .cluster = x->m.cluster,
                            .batch = 8,
                            .unit_bytes = MIB,
                            .stages = 1,
                            .micro_batches = 2,
                            .checkpointing = true,
                            .uneven = LUO_AUTO_BOTH,
                            .slow_comm = LUO_AUTO_SLOW_COMM,
                            .slow_compute = LUO_AUTO_SLOW_COMPUTE};
}
#endif
