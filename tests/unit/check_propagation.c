/* check_propagation.c: what moves between the optimizer's layout and a plan: a vector, plans whose
 * bytes are plain, random plans against every parameter moved by itself, speed. */
#include <math.h>
#include <time.h>

#include "core/io/read/read.h"
#include "core/plan/compile.h"
#include "core/plan/hydraulis/propagation.h"
#include "tests/check_main.h"
#include "tests/hydraulis_fixture.h"
#include "tests/prop/prop.h"

static int64_t moved(const char *from, const char *to, const char *size, int64_t *bytes)
{
    luo_arena *a = luo_arena_new(0);
    const luo_ann *src, *dst;
    luo_shape shape;
    luo_err err = {0};
    int64_t sum = 0;
    memset(bytes, 0, 8 * sizeof *bytes);
    ck_assert_int_eq(luo_shape_parse(size, &shape, NULL), LUO_OK);
    ck_assert_msg(luo_ann_parse(a, from, &src, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_ann_parse(a, to, &dst, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_propagation_bytes(a, src, dst, &shape, 2, NULL, bytes, &err) == LUO_OK, "%s",
                  err.text);
    for (int d = 0; d < 8; d++) sum += bytes[d];
    luo_arena_free(a);
    return sum;
}

/* One weight of 4096 x 4096: rows that arrive, of 4096 bf16 each. */
START_TEST(one_weight)
{
    static const int64_t rows[8] = {1536, 2048, 3584, 3584, 512, 512, 512, 512};
    int64_t bytes[8];
    const int64_t sum = moved("h=0i [0-3]{0:4} | [4-7]{0:4}",
                              "h=-1 [0,1]{0:2} | [2]{} | [3]{} | [4-7]{0:4}", "4096x4096", bytes);
    for (int d = 0; d < 8; d++) ck_assert_int_eq(bytes[d], rows[d] * 4096 * 2);
    ck_assert_int_eq(sum, INT64_C(12800) * 4096 * 2); /* 104.9 MB */
}
END_TEST

/* ---- plans ---- */

typedef struct rig {
    luo_arena *arena;
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    int32_t *devices;
    luo_pool pool;
    luo_optimizer_layout layout;
    luo_step_place place;
    luo_replicas replicas;
    luo_propagation_in in;
} rig;

static void open_rig(rig *g, const char *model, const char *cluster)
{
    luo_diags diags;
    memset(g, 0, sizeof *g);
    g->arena = luo_arena_new(1 << 20);
    luo_diags_init(&diags, g->arena);
    g->model = NULL;
    ck_assert_int_eq(luo_read_model(g->arena, model, &g->model, &diags), LUO_OK);
    ck_assert_int_eq(luo_read_cluster(g->arena, cluster, &g->cluster, &diags), LUO_OK);
    ck_assert_int_eq(luo_read_stack(g->arena, "luoshu-cuda", &g->stack, &diags), LUO_OK);
    const int32_t n = g->cluster->ndevices;
    g->devices = LUO_NEW_N(g->arena, int32_t, n);
    for (int32_t d = 0; d < n; d++) g->devices[d] = d;
    g->place = (luo_step_place){.model = g->model,
                                .cluster = g->cluster,
                                .ndevices = n,
                                .devices = g->devices,
                                .dtype = LUO_BF16,
                                .ctx = 4096,
                                .layout = &g->layout};
    g->in = (luo_propagation_in){&g->place, &g->stack, 4, 0};
    g->replicas = (luo_replicas){0, LUO_NEW_N(g->arena, luo_replica, n)};
}

static void add_replicas(rig *g, int32_t tp, int32_t pp, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        g->replicas.replica[g->replicas.n++] = (luo_replica){entry_of(&g->pool, tp, pp), 1};
}

static luo_propagation propagate(const rig *g)
{
    luo_propagation p;
    luo_err err = {0};
    ck_assert_msg(luo_propagation_of(g->arena, &g->in, &g->pool, &g->replicas, &p, &err) == LUO_OK,
                  "%s", err.text);
    return p;
}

/* Replicas that lie as the optimizer does: each device gathers the other replicas' shares of its
 * weights, and gives its own share of their gradients. */
START_TEST(like_the_optimizer)
{
    rig g;
    int64_t all, matrices;
    open_rig(&g, "scenarios/models/llama-32b.yaml", "scenarios/clusters/a800-32.yaml");
    g.pool = POOL_32B(g.arena, 4, 8, 1);
    g.layout = (luo_optimizer_layout){4, 8, 1};
    add_replicas(&g, 8, 1, 4);
    const luo_propagation p = propagate(&g);
    luo_model_parameters(g.model, &all, NULL);
    matrices = all - (2 * g.model->layers + 1) * g.model->hidden; /* norms lie on every device */
    const double want = (double)matrices / 8 * 3 / 4;
    for (int32_t d = 0; d < 32; d++) {
        ck_assert_double_eq_tol((double)p.down_bytes[d] / (2 * want), 1, 2e-3);
        ck_assert_double_eq_tol((double)p.up_bytes[d] / (4 * want), 1, 2e-3);
    }
    ck_assert(p.down_ms > 0 && p.up_ms > p.down_ms);
    ck_assert_double_eq_tol(p.exposed_ms, p.down_ms + p.up_ms, 1e-9);
    g.in.overlap = 1;
    ck_assert_double_eq_tol(propagate(&g).exposed_ms, 0, 1e-9);
    g.in.overlap = 0.25;
    g.in.grad_bytes = 2;
    const luo_propagation half = propagate(&g);
    ck_assert_double_eq_tol(half.exposed_ms, 0.75 * (half.down_ms + half.up_ms), 1e-9);
    ck_assert_int_eq(half.up_bytes[5], half.down_bytes[5]);
    luo_arena_free(g.arena);
}
END_TEST

/* One replica that is all of the optimizer: norms alone are gathered, as copies are cut there. */
START_TEST(nothing_moves)
{
    rig g;
    open_rig(&g, "scenarios/models/llama-7b.yaml", "scenarios/clusters/tiny8.yaml");
    g.pool = POOL_7B(g.arena, 1, 8, 1);
    g.layout = (luo_optimizer_layout){1, 8, 1};
    add_replicas(&g, 8, 1, 1);
    const luo_propagation p = propagate(&g);
    const int64_t norms = (2 * g.model->layers + 1) * g.model->hidden;
    for (int32_t d = 0; d < 8; d++) {
        ck_assert_int_eq(p.down_bytes[d], norms * 2 * 7 / 8);
        ck_assert_int_eq(p.up_bytes[d], norms * 4 * 7 / 8);
    }
    luo_arena_free(g.arena);
}
END_TEST

/* ---- every parameter by itself ---- */

static void each_alone(rig *g, double *down, double *up)
{
    luo_param *param;
    luo_plan *plan;
    luo_err err = {0};
    int32_t n;
    ck_assert_int_eq(luo_step_plan_frame(g->arena, &g->place, &g->pool, &g->replicas, &plan, &err),
                     LUO_OK);
    ck_assert_int_eq(luo_plan_params(g->arena, plan, g->model, &param, &n, &err), LUO_OK);
    for (int32_t i = 0; i < n; i++) {
        const struct {
            const luo_ann *from, *to;
            int64_t bytes;
            bool up;
        } ways[] = {{param[i].state, param[i].pieces, 2, false},
                    {param[i].pieces, param[i].weight, 2, false},
                    {param[i].pieces, param[i].weight, 4, true},
                    {param[i].pieces, param[i].state, 4, true}};
        for (int w = 0; w < 4; w++) {
            int64_t bytes[64] = {0};
            ck_assert_int_eq(luo_propagation_bytes(g->arena, ways[w].from, ways[w].to,
                                                   &param[i].shape, ways[w].bytes, g->cluster,
                                                   bytes, &err),
                             LUO_OK);
            for (int32_t d = 0; d < 32; d++) (ways[w].up ? up : down)[d] += (double)bytes[d];
        }
    }
}

START_TEST(random_plans)
{
    static const int32_t shapes[][2] = {{1, 2}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {8, 1}, {8, 2}};
    static const luo_optimizer_layout layouts[] = {{8, 4, 1}, {4, 8, 1}, {4, 4, 2}, {16, 2, 1}};
    int direct = 0, gathered = 0;
    double most = 0;
    LUO_PROP_FOR(seed, luo_prop_few(10, 40))
    {
        luo_rng rng = luo_rng_seed(seed);
        rig g;
        double down[64] = {0}, up[64] = {0}, sum[2] = {0};
        int32_t left = 32;
        open_rig(&g, "scenarios/models/llama-7b.yaml", "scenarios/clusters/a800-32.yaml");
        g.model->layers = 4 + luo_rng_pick(&rng, 5);
        g.pool = POOL_7B(g.arena, 8, 4, 1);
        g.layout = layouts[luo_rng_pick(&rng, LUO_ROWS(layouts))];
        while (left >= 16) {
            const int32_t *s = shapes[luo_rng_pick(&rng, LUO_ROWS(shapes))];
            add_replicas(&g, s[0], s[1], 1);
            left -= s[0] * s[1];
        }
        const luo_propagation p = propagate(&g);
        direct += p.direct;
        gathered += !p.direct;
        each_alone(&g, down, up);
        /* Heads are cut in whole ones, rows of the feed-forward part are not: sums are equal,
         * devices nearly. */
        for (int32_t d = 0; d < 32; d++) {
            sum[0] += (double)p.up_bytes[d];
            sum[1] += up[d];
            if (p.direct || down[d] <= 0) continue;
            most = fmax(most, fabs((double)p.down_bytes[d] / down[d] - 1));
        }
        ck_assert_double_eq_tol(sum[0] / sum[1], 1, 2e-3);
        luo_arena_free(g.arena);
    }
    printf("%d direct, %d gathered, devices are off by %.2g at most\n", direct, gathered, most);
    ck_assert_double_lt(most, 0.05);
}
END_TEST

/* ---- speed ---- */

START_TEST(quick)
{
    enum { TIMES = 8 };
    rig g;
    struct timespec t[2];
    open_rig(&g, "scenarios/models/llama-32b.yaml", "scenarios/clusters/a800-32.yaml");
    g.pool = POOL_32B(g.arena, 2, 16, 1);
    g.layout = (luo_optimizer_layout){2, 16, 1};
    add_replicas(&g, 16, 1, 1);
    add_replicas(&g, 4, 1, 2);
    add_replicas(&g, 4, 2, 1);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[0]);
    const luo_propagation p = propagate(&g);
    for (int i = 1; i < TIMES; i++) propagate(&g);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[1]);
    const double ms =
        (1e3 * (double)(t[1].tv_sec - t[0].tv_sec) + 1e-6 * (double)(t[1].tv_nsec - t[0].tv_nsec)) /
        TIMES;
    printf("60 layers on 32 devices: %.1f ms, %.1f ms down, %.1f up\n", ms, p.down_ms, p.up_ms);
    ck_assert_double_lt(ms, 500);
    luo_arena_free(g.arena);
}
END_TEST

LUO_SUITE("propagation", LUO_T(one_weight), LUO_T(like_the_optimizer), LUO_T(nothing_moves),
          LUO_T(random_plans), LUO_T(quick))
