/* malleus_fixture.h: inputs of the straggler planner as the computed vectors words them: a cluster
 * of nodes of eight, rates by device, the memory tables of docs/planners.md#memory. */
#ifndef LUO_TESTS_MALLEUS_FIXTURE_H
#define LUO_TESTS_MALLEUS_FIXTURE_H
#include <math.h>
#include <stdlib.h>

#include "core/plan/malleus/malleus.h"

/* MiB per layer, first stage of the longest pipeline first; h: tp / size. */
typedef struct table {
    int32_t n, tp;
    double k[8], emb, extra;
} table;
static const table k32 = {4, 2, {4608.02, 4124.24, 3641.99, 3129.95}, 1200, 5500};
static const table k70 = {8, 8, {2895, 2685, 2485, 2295, 2110, 1933, 1769, 1647}, 600, 4700};
static const table k110 = {8, 8, {4240, 3930, 3630, 3338, 3068, 2830, 2597, 2438}, 500, 4900};

static inline int64_t table_cap(const void *ctx, int32_t kind, int32_t size, int32_t stages,
                                int32_t stage, int32_t pipelines)
{
    (void)kind;
    (void)pipelines;
    const table *t = ctx;
    if (stages > t->n) return 0;
    const double emb = stage == 0 || stage == stages - 1 ? t->emb : 0;
    const double bytes = (81252 - 4096 - t->extra) * size / t->tp - emb;
    const double cap = floor(bytes / t->k[t->n - (stages - stage)]);
    return cap > 0 ? (int64_t)cap : 0;
}

/* The same for planners of whole groups: a luo_cap_fn. */
static inline int64_t group_cap(const void *ctx, int32_t group, int32_t stages, int32_t stage,
                                int32_t pipelines, int64_t micro_batches)
{
    (void)group;
    (void)micro_batches;
    return table_cap(ctx, 0, ((const table *)ctx)->tp, stages, stage, pipelines);
}

static const double alpha32[] = {1, 2}, alpha70[] = {1, 1.90, 3.66, 7.22},
                    alpha110[] = {1, 1.91, 3.77, 7.35};
static const luo_malleus_kind kind32 = {1, alpha32}, kind70 = {1, alpha70}, kind110 = {1, alpha110};

typedef struct setting {
    const luo_malleus_kind *kind;
    const table *t; /* NULL: memory is no limit */
    int32_t dp, tp, pp;
    int64_t layers, micro_batches;
} setting;
static const setting s32 = {&kind32, &k32, 4, 2, 4, 60, 64};
static const setting s70 = {&kind70, &k70, 2, 8, 4, 80, 64};
static const setting s110 = {&kind110, &k110, 2, 8, 4, 80, 64};

/* All dp*tp*pp devices at rate 1, eight to a node. devices: caller's, room for all. */
static inline luo_malleus_in make_in(const setting *s, luo_malleus_device *devices)
{
    const int32_t n = s->dp * s->tp * s->pp;
    for (int32_t d = 0; d < n; d++) devices[d] = (luo_malleus_device){d, d / 8, 0, 1};
    return (luo_malleus_in){.ndevices = n, .devices = devices, .nkinds = 1, .kinds = s->kind,
                            .dp = s->dp, .tp = s->tp, .pp = s->pp, .whole = true,
                            .layers = s->layers, .micro_batches = s->micro_batches,
                            .threshold = 1.2, .cap = s->t ? table_cap : NULL, .cap_ctx = s->t,
                            .max_stages = s->t ? s->t->n : 0};
}

typedef struct slow {
    int32_t first, n; /* devices */
    double rate;
} slow;

/* A row of the computed vectors. */
typedef struct pl_row {
    const char *id;
    const setting *s;
    slow slow[4];
    double bound, steady, filled, event;
} pl_row;
static const pl_row pl_rows[] = {
    {"PL1", &s70, {{0, 1, 2.57}}, 644.995, 656, 734.40, 734.40},
    {"PL1b", &s70, {{0, 1, 5.42}}, 644.995, 656, 734.40, 734.40},
    {"PL1c", &s70, {{0, 1, 12.53}}, 644.995, 656, 734.40, 734.40},
    {"PL2", &s70, {{0, 1, 1.25}}, 644.995, 656, 721.75, 721.00},
    {"PL3", &s110, {{0, 1, 2.57}}, 646.068, 660, 737.08, 737.08},
    {"PL4", &s32, {{0, 1, 2.57}}, 247.742, 255, 300, 300},
    {"PL5", &s32, {{0, 1, 1.50}}, 245.106, 255, 300, 300},
    {"PL6", &s70, {{0, 1, 12.53}, {8, 1, 5.42}}, 650.069, 665, 760.16, 760.16},
    {"PL7", &s70, {{0, 1, 12.53}, {8, 1, 12.53}, {16, 1, 2.57}}, 655.223, 667, 787.96, 787.96},
    {"PL8", &s70, {{0, 8, 2.57}}, 692.912, 700, 762.85, 762.85},
    {"PL9", &s70, {{0, 8, 6.87}, {8, 1, 5.42}}, 722.796, 735.3, 820, 820},
    {"PL10", &s32, {{0, 1, 4.79}, {8, 1, 2.34}, {16, 1, 3.8}}, 264.828, 285, 330, 330},
    {"PL11", &s32, {{0, 8, 2.35}}, 280.248, 285, 339.45, 339.45},
    {"PL12", &s32, {{0, 2, 12.53}}, 254.645, 270, 315, 315},
    {"PL13", &s70, {{0, 2, 12.53}}, 655.520, 667, 736, 736},
    {"PL14", &s70, {{0, 4, 1.5}}, 656.343, 666.9, 736, 736},
    {"PL15", &s110, {{0, 1, 5.42}, {8, 1, 5.42}, {16, 1, 5.42}, {24, 1, 5.42}}, 664.981, 720,
     846.38, 846.38},
};

static inline luo_malleus_in make_pl(const pl_row *r, luo_malleus_device *devices)
{
    const luo_malleus_in in = make_in(r->s, devices);
    for (int i = 0; i < 4; i++)
        for (int32_t d = 0; d < r->slow[i].n; d++)
            devices[r->slow[i].first + d].rate = r->slow[i].rate;
    return in;
}

static const setting s1024 = {&kind110, &k110, 32, 8, 4, 80, 1024};
static const setting s16384 = {&kind70, NULL, 128, 8, 16, 126, 4096};

/* PL17 and PL18: device step*i slow by turns, i < n. */
static inline luo_malleus_in make_many(const setting *s, luo_malleus_device *devices, int32_t step,
                                       int32_t n)
{
    static const double rates[] = {2.57, 5.42, 12.53, 1.5};
    const luo_malleus_in in = make_in(s, devices);
    for (int32_t i = 0; i < n; i++) devices[step * i].rate = rates[i % 4];
    return in;
}
#endif
