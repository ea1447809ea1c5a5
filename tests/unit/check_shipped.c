/* check_shipped.c: every file of scenarios/{profiles,clusters,models} is read without a
 * word, and means what its name says. */
#include <dirent.h>

#include "core/io/read/read.h"
#include "tests/cost_fixture.h"
#include "tests/step_fixture.h"

static luo_arena *arena;
static luo_diags diags;

static void setup(void)
{
    arena = luo_arena_new(1 << 20);
    luo_diags_init(&diags, arena);
}

/* Notes are allowed: of A800 and of HAP's machines tables of other links stand in. */
static void silent(const char *path)
{
    for (const luo_diag *d = diags.first; d; d = d->next)
        if (d->severity != LUO_NOTE)
            ck_abort_msg("%s:%d:%d: %s", d->err.path[0] ? d->err.path : path, d->err.line,
                         d->err.col, d->err.text);
}

/* Calls fn for each .yaml of a folder; returns how many. */
static int each(const char *dir, void (*fn)(const char *path, const char *stem))
{
    DIR *d = opendir(dir);
    int n = 0;
    ck_assert_msg(d != NULL, "%s: run from the root of the repository", dir);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".yaml") != 0) continue;
        fn(luo_arena_printf(arena, "%s/%s", dir, e->d_name),
           luo_arena_strndup(arena, e->d_name, (size_t)(dot - e->d_name)));
        n++;
    }
    closedir(d);
    return n;
}

/* No collective was measured over their links, nor over those of a neighbour. */
static bool has_no_curve(const char *stem)
{
    static const char *const names[] = {"a10",    "l4",       "l40s",     "mi250x",
                                        "mi300x", "rtx-3080", "rtx-4090", "t4"};
    for (size_t i = 0; i < LUO_ROWS(names); i++)
        if (strcmp(names[i], stem) == 0) return true;
    return false;
}

static void profile(const char *path, const char *stem)
{
    luo_profile *p = NULL;
    luo_read_profile(arena, path, &p, &diags);
    silent(path);
    ck_assert_str_eq(p->name, stem);
    ck_assert(p->memory_bytes > 0 && p->memory_bytes_per_s > 0);
    ck_assert(p->peak_flops[LUO_BF16] > 0 || p->peak_flops[LUO_F32] > 0); /* RTX: f32 alone */
    ck_assert_msg((p->ncurves == 0) == has_no_curve(stem), "%s", path);
    /* every number of devices in a node has a time, growing with size */
    luo_node_group g = luo_test_group("g", 1, 8, p);
    luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const int32_t dev[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int coll = 0; coll < LUO_COLLS; coll++)
        for (int32_t n = 2; n <= 8; n++) {
            double before = 0;
            for (int64_t bytes = 1024; bytes < (int64_t)1 << 36; bytes += bytes / 2) {
                const double t = luo_cost_group_seconds(&ctx, coll, dev, n, bytes, 0);
                ck_assert_msg(t >= before * (1 - 1e-12), "%s, %s of %d at %lld", path,
                              luo_coll_name((luo_coll)coll), n, (long long)bytes);
                before = t;
            }
        }
}

static void stack_file(const char *path, const char *stem)
{
    luo_stack s, ours;
    luo_read_stack(arena, path, &s, &diags);
    silent(path);
    ck_assert_str_eq(s.name, stem);
    if (strcmp(stem, "luoshu-cuda") != 0) return;
    luo_stack_default(&ours); /* the default stack is this file */
    ck_assert(s.host_launch_s == ours.host_launch_s && s.host_exponent == ours.host_exponent &&
              s.busbw_factor == ours.busbw_factor && s.dp_overlap == ours.dp_overlap &&
              s.grad_comm_bytes == ours.grad_comm_bytes &&
              s.optimizer_bytes == ours.optimizer_bytes &&
              s.tp_exposed_factor == ours.tp_exposed_factor &&
              s.scale_jitter == ours.scale_jitter && s.attention_fused == ours.attention_fused &&
              s.p2p_blocking == ours.p2p_blocking && s.scatter_gather == ours.scatter_gather &&
              s.kernels_forward == ours.kernels_forward && s.gemm_ratio == ours.gemm_ratio &&
              s.attention_ratio == ours.attention_ratio && s.tp_overlap == ours.tp_overlap &&
              s.tf32 == ours.tf32 && s.shard_overlap == ours.shard_overlap);
}

static const struct {
    const char *stem;
    int32_t devices, health, racks;
} sizes[] = {
    {"mixed48", 48, 0, 2},        {"h20-32", 32, 0, 1},         {"h20-31", 32, 1, 1},
    {"h20-24", 24, 0, 1},         {"h20x24-h800x16", 40, 0, 1}, {"h20x24-h800x15", 40, 1, 1},
    {"h20x16-h800x16", 32, 0, 1}, {"h20x24-h800x8", 32, 0, 1},  {"h100-1024", 1024, 0, 16},
    {"h100-16384", 16384, 0, 64}, {"a100-64", 64, 0, 1},        {"dgx1-v100", 32, 0, 1},
    {"a800-64", 64, 0, 1},        {"a800-32", 32, 0, 1},       {"a100-32x1", 32, 0, 1},
    {"tiny8", 8, 0, 1},           {"tiny2", 2, 0, 1},           {"v100x8-p100x21", 29, 0, 1},
    {"v100x16-p100x48", 64, 0, 1}, {"rtx4090-t4-2x8", 16, 0, 1}, {"a100-4x4-racks", 16, 0, 2},
};

static void cluster(const char *path, const char *stem)
{
    luo_cluster *c = NULL;
    luo_read_cluster(arena, path, &c, &diags);
    silent(path);
    ck_assert_str_eq(c->name, stem);
    for (int i = 0; i < LUO_ROWS(sizes); i++) {
        if (strcmp(sizes[i].stem, stem) != 0) continue;
        ck_assert_int_eq(c->ndevices, sizes[i].devices);
        ck_assert_int_eq(c->nhealth, sizes[i].health);
        ck_assert_int_eq(c->nracks, sizes[i].racks);
        return;
    }
    ck_abort_msg("%s has no row in this test", stem);
}

/* Cluster, model, plans and traces that it names are read and checked with it. */
static void scenario(const char *path, const char *stem)
{
    luo_scenario *sc = NULL;
    luo_read_scenario(arena, path, NULL, &sc, NULL, &diags);
    silent(path);
    ck_assert_str_eq(sc->name, stem);
    luo_arena_free(arena); /* one of 1,024 devices is large */
    setup();
}

static void model(const char *path, const char *stem)
{
    luo_model *m = NULL;
    int64_t n = 0;
    luo_read_model(arena, path, &m, &diags);
    silent(path);
    ck_assert_str_eq(m->name, stem);
    ck_assert_int_eq(luo_model_parameters(m, &n, NULL), LUO_OK);
    if (strcmp(stem, "llama-32b") == 0) ck_assert_int_eq(n, 32510200320);
    if (strcmp(stem, "llama-7b") == 0) ck_assert_int_eq(n, 6738415616);
    if (strcmp(stem, "llama-70b") == 0) ck_assert_int_eq(n, 68976648192);
    if (strcmp(stem, "llama-110b") == 0) ck_assert_int_eq(n, 109241966592);
    if (strcmp(stem, "llama-405b") == 0) ck_assert_int_eq(n, 405853388800);
    if (strcmp(stem, "gpt-345m") == 0) ck_assert_int_eq(n, 354823168);
}

START_TEST(profiles)
{
    setup();
    ck_assert_int_ge(each("scenarios/profiles", profile), 35);
    luo_arena_free(arena);
}
END_TEST
START_TEST(stacks)
{
    setup();
    ck_assert_int_eq(each("scenarios/profiles/stacks", stack_file), 20);
    luo_arena_free(arena);
}
END_TEST
START_TEST(clusters)
{
    setup();
    ck_assert_int_eq(each("scenarios/clusters", cluster), LUO_ROWS(sizes));
    luo_arena_free(arena);
}
END_TEST
START_TEST(scenarios)
{
    setup();
    ck_assert_int_eq(each("scenarios/papers", scenario), 35);
    ck_assert_int_eq(each("scenarios/combined", scenario), 6);
    luo_arena_free(arena);
}
END_TEST
START_TEST(models)
{
    setup();
    ck_assert_int_ge(each("scenarios/models", model), 8);
    luo_arena_free(arena);
}
END_TEST

/* All together: the 32B on 32 H20 reaches a believable share of the peak, and H800 a group of
 * the same size is faster in compute and slower on its links. */
START_TEST(whole)
{
    setup();
    luo_cluster *c = NULL;
    luo_model *m = NULL;
    luo_stack stack;
    luo_read_cluster(arena, "scenarios/clusters/h20x16-h800x16.yaml", &c, &diags);
    luo_read_model(arena, "scenarios/models/llama-32b.yaml", &m, &diags);
    silent("whole");
    luo_stack_default(&stack);
    int32_t dev[32];
    for (int32_t i = 0; i < 32; i++) dev[i] = i;
    luo_grid g = {.model = m, .cluster = c, .dtype = LUO_BF16, .sequence_tokens = 4096,
                  .micro_batch_sequences = 1, .micro_batches = 32, .tp = 4, .stages = 4,
                  .pipelines = 1, .sequence_parallel = true, .dev = dev};
    luo_step_cost h20, h800;
    ck_assert_int_eq(luo_test_step(arena, &g, &stack, (luo_bucketing){0}, &h20, NULL), LUO_OK);
    g.dev = dev + 16;
    ck_assert_int_eq(luo_test_step(arena, &g, &stack, (luo_bucketing){0}, &h800, NULL), LUO_OK);
    const double flops = luo_model_flops_per_token(m, 4096) * 4096 * 32;
    const double mfu20 = flops / (h20.step * 16 * 148e12);
    const double mfu800 = flops / (h800.step * 16 * 990e12);
    ck_assert_msg(mfu20 > 0.45 && mfu20 < 0.8, "H20 reaches %.2f of its peak", mfu20);
    ck_assert_msg(mfu800 > 0.2 && mfu800 < mfu20, "H800 reaches %.2f of its peak", mfu800);
    ck_assert_double_gt(h20.step, 2 * h800.step);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("shipped", LUO_T(profiles), LUO_T(stacks), LUO_T(clusters), LUO_T(models),
          LUO_T(scenarios), LUO_T(whole))
