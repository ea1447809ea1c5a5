/* check_replay.c: recorded steps run again (core/run/replay): vectors ACC-R1 and ACC-R-ST of the
 * accuracy spec, and every sentence. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/convert/convert.h"
#include "core/io/files.h"
#include "core/io/recorded/recorded.h"
#include "core/io/result/csv.h"
#include "core/run/replay/replay.h"
#include "tests/check_main.h"

/* ---- ACC-R1: by hand, ms ---- */

enum { STAGES = 2, PIPELINES = 2, MICRO_BATCHES = 2, MOST = 200 };

typedef struct made {
    luo_replay_record at[MOST];
    int64_t n;
} made;

static void add(made *m, int32_t pipeline, int32_t stage, luo_replay_op op, int64_t order,
                double start, double ms)
{
    ck_assert_int_lt(m->n, MOST);
    m->at[m->n++] = (luo_replay_record){
        .step = 7,
        .order = order,
        .pipeline = pipeline,
        .stage = stage,
        .chunk = 0,
        .micro_batch = op == LUO_REPLAY_FORWARD || op == LUO_REPLAY_BACKWARD ? (int32_t)order : -1,
        .op = op,
        .start_s = start,
        .duration_s = ms / 1e3};
}

/* Starts tell the order of computations alone: 1F1B. */
static void add_worker(made *m, int32_t d, int32_t s)
{
    static const double starts[STAGES][2][MICRO_BATCHES] = {{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}};
    const double slow = d == 0 && s == 1 ? 1.5 : 1;
    add(m, d, s, LUO_REPLAY_ALL_GATHER, 0, 0, 5);
    for (int32_t i = 0; i < MICRO_BATCHES; i++) {
        add(m, d, s, LUO_REPLAY_FORWARD, i, starts[s][0][i], 10 * slow);
        add(m, d, s, LUO_REPLAY_BACKWARD, i, starts[s][1][i], 20 * slow);
        add(m, d, s, s ? LUO_REPLAY_FORWARD_RECV : LUO_REPLAY_FORWARD_SEND, i, 0, 0.2);
        add(m, d, s, s ? LUO_REPLAY_BACKWARD_SEND : LUO_REPLAY_BACKWARD_RECV, i, 0, 0.2);
    }
    add(m, d, s, LUO_REPLAY_GC, 0, 0, 0);
    add(m, d, s, LUO_REPLAY_LAYERNORM, 0, 0, 0.1);
    add(m, d, s, LUO_REPLAY_EMBEDDING, 0, 0, 1);
    add(m, d, s, LUO_REPLAY_REDUCE_SCATTER, 0, 0, 4);
    add(m, d, s, LUO_REPLAY_CLIP, 0, 0, 0.5);
    add(m, d, s, LUO_REPLAY_OPTIMIZER, 0, 0, 3);
}

static made job(void)
{
    made m = {0};
    for (int32_t d = 0; d < PIPELINES; d++)
        for (int32_t s = 0; s < STAGES; s++) add_worker(&m, d, s);
    return m;
}

static luo_replay_figures figures_of(luo_arena *arena, luo_replay_record *at, int64_t n,
                                     luo_replay *r)
{
    luo_replay_figures f = {0};
    luo_err err = {0};
    ck_assert_msg(luo_replay_build(arena, at, n, r, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_replay_attribute(arena, r, &f, &err) == LUO_OK, "%s", err.text);
    return f;
}

static double slowdown_of(const luo_replay_figures *f, luo_replay_by by, int32_t i)
{
    for (int32_t k = 0; k < f->ncauses; k++) {
        const luo_replay_cause *c = &f->cause[k];
        if (c->by == by && (by == LUO_REPLAY_STAGE      ? c->stage
                            : by == LUO_REPLAY_PIPELINE ? c->pipeline
                                                        : c->micro_batch) == i)
            return c->slowdown;
    }
    return NAN;
}

static double type_of(const luo_replay_figures *f, const char *type)
{
    for (int32_t k = 0; k < f->ncauses; k++)
        if (f->cause[k].by == LUO_REPLAY_OP && strcmp(f->cause[k].type, type) == 0)
            return f->cause[k].slowdown;
    return NAN;
}

START_TEST(acc_r1)
{
    luo_arena *arena = luo_arena_new(0);
    made m = job();
    luo_replay r;
    const luo_replay_figures f = figures_of(arena, m.at, m.n, &r);
    ck_assert_double_eq_tol(f.real_s[0], 0.134, 1e-6);
    ck_assert_double_eq_tol(f.ideal_s, 0.11525, 1e-6);
    ck_assert_double_eq_tol(f.slowdown, 1.162689805, 1e-6);
    ck_assert_double_eq_tol(slowdown_of(&f, LUO_REPLAY_STAGE, 0), 0.967462039, 1e-6);
    ck_assert_double_eq_tol(slowdown_of(&f, LUO_REPLAY_STAGE, 1), 1.195227766, 1e-6);
    ck_assert_double_eq_tol(slowdown_of(&f, LUO_REPLAY_PIPELINE, 0), 1.162689805, 1e-6);
    ck_assert_double_eq_tol(slowdown_of(&f, LUO_REPLAY_PIPELINE, 1), 1, 1e-6);
    ck_assert_double_eq_tol(f.last_stage_ratio, 1.2, 1e-6);
    ck_assert_double_eq_tol(f.slow_workers_ratio, 1.2, 1e-6);
    ck_assert_int_eq(f.slow_workers, 1);
    luo_arena_free(arena);
}
END_TEST

/* All durations x times as long: all times are, and no ratio moves. */
START_TEST(scaled)
{
    luo_arena *arena = luo_arena_new(0);
    made one = job(), other = job();
    luo_replay r, q;
    for (int64_t i = 0; i < other.n; i++) other.at[i].duration_s *= 7;
    const luo_replay_figures f = figures_of(arena, one.at, one.n, &r),
                             g = figures_of(arena, other.at, other.n, &q);
    ck_assert_double_eq_tol(g.real_mean_s, 7 * f.real_mean_s, 1e-12);
    ck_assert_double_eq_tol(g.ideal_s, 7 * f.ideal_s, 1e-12);
    ck_assert_int_eq(f.ncauses, g.ncauses);
    for (int32_t i = 0; i < f.ncauses; i++)
        ck_assert_double_eq_tol(f.cause[i].slowdown, g.cause[i].slowdown, 1e-12);
    luo_arena_free(arena);
}
END_TEST

/* Nobody is slow: nothing is lost, and no share of it can be told. */
START_TEST(equal_durations)
{
    luo_arena *arena = luo_arena_new(0);
    made m = job();
    luo_replay r;
    for (int64_t i = 0; i < m.n; i++)
        if (m.at[i].pipeline == 0 && m.at[i].stage == 1 && luo_replay_op_computes(m.at[i].op))
            m.at[i].duration_s = m.at[i].op == LUO_REPLAY_FORWARD    ? 0.01
                                 : m.at[i].op == LUO_REPLAY_BACKWARD ? 0.02
                                                                     : m.at[i].duration_s;
    const luo_replay_figures f = figures_of(arena, m.at, m.n, &r);
    ck_assert_double_eq_tol(f.slowdown, 1, 1e-12);
    for (int32_t i = 0; i < f.ncauses; i++) {
        ck_assert_double_eq_tol(f.cause[i].slowdown, 1, 1e-12);
        ck_assert(isnan(f.cause[i].recovered_ratio));
    }
    for (int32_t w = 0; w < PIPELINES * STAGES; w++)
        ck_assert_double_eq_tol(f.compute_ratio[w], 1, 1e-12);
    ck_assert(isnan(f.last_stage_ratio) && isnan(f.slow_workers_ratio));
    luo_arena_free(arena);
}
END_TEST

/* Who waits: starts of the first step, ms. */
START_TEST(one_step)
{
    luo_arena *arena = luo_arena_new(0);
    made m = job();
    luo_replay r;
    luo_err err = {0};
    ck_assert_int_eq(luo_replay_build(arena, m.at, m.n, &r, &err), LUO_OK);
    double *end_s = LUO_NEW_N(arena, double, PIPELINES *r.nodes);
    ck_assert_double_eq_tol(luo_replay_run(&r, r.duration_s, end_s), 0.134, 1e-12);
    for (int64_t i = 0; i < PIPELINES * r.nodes; i++) {
        const luo_replay_node *v = &r.node[i % r.nodes];
        const double start_s = end_s[i] - r.duration_s[i];
        const bool first = v->order == 0, pipeline_0 = i < r.nodes;
        if (v->op == LUO_REPLAY_FORWARD && first) /* gather 5; stage 1: F 10 and a transfer */
            ck_assert_double_eq_tol(start_s, v->stage ? 0.0152 : 0.005, 1e-12);
        if (v->op == LUO_REPLAY_BACKWARD && first && v->stage == 1)
            ck_assert_double_eq_tol(start_s, pipeline_0 ? 0.0302 : 0.0252, 1e-12);
        if (v->op == LUO_REPLAY_CLIP) ck_assert_double_eq_tol(start_s, 0.1305, 1e-12);
    }
    luo_arena_free(arena);
}
END_TEST

/* What a hostile file can say costs no more than its rows. */
START_TEST(far_numbers)
{
    luo_arena *arena = luo_arena_new(0);
    made m = job();
    luo_replay r;
    luo_err err = {0};
    int32_t told = 0;
    for (int64_t i = 0; i < m.n; i++)
        if (m.at[i].micro_batch == 1) m.at[i].micro_batch = 1 << 24;
    const luo_replay_figures f = figures_of(arena, m.at, m.n, &r);
    for (int32_t i = 0; i < f.ncauses; i++)
        if (f.cause[i].by == LUO_REPLAY_MICRO_BATCH)
            ck_assert_int_eq(f.cause[i].micro_batch, told++ == 0 ? 0 : 1 << 24);
    ck_assert_int_eq(told, 2);
    for (int64_t i = 0; i < m.n; i++)
        if (luo_replay_op_computes(m.at[i].op)) m.at[i].chunk = 131071;
    ck_assert_int_eq(luo_replay_build(arena, m.at, m.n, &r, &err), LUO_E2BIG);
    ck_assert_str_eq(err.text,
                     "2 stages have 131072 chunks each; 131072 chunks of all or fewer are "
                     "expected.");
    luo_arena_free(arena);
}
END_TEST

/* ---- ACC-R-ST: a published job ---- */

static const char *data_folder(void)
{
    const char *given = getenv("LUO_DATA");
    return given ? given : "../shared/data";
}

/* recorded.csv of the published table, in a folder of this process; NULL: it is not there. */
static const char *import_job(luo_arena *arena)
{
    luo_diags diags;
    luo_err err = {0};
    luo_convert_made files;
    const char *source =
        luo_arena_printf(arena, "%s/traces/bytedance_straggler_ST.csv", data_folder());
    const char *path = luo_arena_printf(arena, "build/check_replay.%ld.csv", (long)getpid());
    if (access(source, R_OK) != 0) return NULL;
    luo_diags_init(&diags, arena);
    const luo_convert_opts opts = {.kind = LUO_CONVERT_STRAGGLERS, .source = source};
    ck_assert_int_eq(luo_convert(arena, &opts, &files, &diags), LUO_OK);
    ck_assert_int_eq(luo_file_write_own(path, files.file[0].text, files.file[0].len, &err), LUO_OK);
    return path;
}

/* Steps as the authors' tool has them. Theirs as measured begin before the transfer of the first
 * gather, which is all that the table has of it: 0.04 to 0.22 ms. */
static void check_steps(const luo_replay *r, const luo_replay_figures *f, luo_diags *diags)
{
    enum { STEP, MEASURED, REAL, IDEAL, N };
    static const luo_csv_column columns[N] = {
        [STEP] = {"step", LUO_CSV_WHOLE, true, LUO_WITHIN(0, 1e9), NULL, false},
        [MEASURED] = {"measured_step_s", LUO_CSV_NUMBER, true, LUO_WITHIN(0, 1e9), NULL, false},
        [REAL] = {"sim_no_launch_delay_s", LUO_CSV_NUMBER, true, LUO_WITHIN(0, 1e9), NULL, false},
        [IDEAL] = {"ideal_no_straggler_s", LUO_CSV_NUMBER, true, LUO_WITHIN(0, 1e9), NULL, false}};
    luo_csv_cell c[N];
    char path[512];
    int32_t k = 0;
    snprintf(path, sizeof path, "%s/traces/bytedance_straggler_ST_expected_steps.csv",
             data_folder());
    luo_csv *csv = luo_csv_open_foreign(path, columns, N, diags);
    for (; luo_csv_next(csv, c); k++) {
        ck_assert_int_eq(c[STEP].whole, r->step[k]);
        ck_assert_double_eq_tol(f->measured_s[k], c[MEASURED].number, 3e-4);
        ck_assert_double_eq_tol(f->real_s[k], c[REAL].number, 6e-6);
        ck_assert_double_eq_tol(f->ideal_s, c[IDEAL].number, 6e-6);
    }
    ck_assert_int_eq(luo_csv_close(csv), LUO_OK);
    ck_assert_int_eq(k, r->steps);
}

START_TEST(acc_r_st)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_diags_init(&diags, arena);
    luo_replay_record *at;
    int64_t n;
    luo_replay r;
    const char *path = import_job(arena);
    if (!path) {
        printf("skipped: %s has no traces/bytedance_straggler_ST.csv\n", data_folder());
        return;
    }
    ck_assert_int_eq(luo_recorded_read(path, NULL, 0, &at, &n, &diags), LUO_OK);
    unlink(path);
    ck_assert_int_eq(n, 6784);
    const luo_replay_figures f = figures_of(arena, at, n, &r);
    free(at);
    static const struct {
        luo_replay_by by;
        int32_t i;
        double slowdown;
    } rows[] = {{LUO_REPLAY_STAGE, 0, 0.99805},    {LUO_REPLAY_STAGE, 1, 0.98306},
                {LUO_REPLAY_STAGE, 2, 0.98249},    {LUO_REPLAY_STAGE, 3, 1.23226},
                {LUO_REPLAY_PIPELINE, 0, 1.17308}, {LUO_REPLAY_PIPELINE, 1, 1.17787}};
    static const struct {
        const char *type;
        double slowdown;
    } types[] = {{"forward-compute", 1.08750},
                 {"backward-compute", 1.07416},
                 {"embedding-grads-all-reduce", 1.00955},
                 {"grads-reduce-scatter", 1.00267},
                 {"optimizer-clip-main-grad", 1.00235},
                 {"optimizer", 1.00148},
                 {"params-all-gather", 1.00113},
                 {"layernorm-grads-all-reduce", 1},
                 {"gc", 1},
                 {"backward-pp-comm", 0.99999},
                 {"forward-pp-comm", 0.99986}};
    check_steps(&r, &f, &diags);
    ck_assert_double_eq_tol(f.real_mean_s, 2.1727, 5e-5);
    ck_assert_double_eq_tol(f.slowdown, 1.17870, 2e-5);
    for (int i = 0; i < LUO_ROWS(rows); i++)
        ck_assert_double_eq_tol(slowdown_of(&f, rows[i].by, rows[i].i), rows[i].slowdown, 2e-5);
    for (int i = 0; i < LUO_ROWS(types); i++)
        ck_assert_msg(fabs(type_of(&f, types[i].type) - types[i].slowdown) < 2e-5, "%s %.6f",
                      types[i].type, type_of(&f, types[i].type));
    ck_assert_double_eq_tol(f.last_stage_ratio, 1.21936, 2e-5);
    ck_assert_double_eq_tol(f.slow_workers_ratio, 0.03140, 2e-5);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("replay", LUO_T(acc_r1), LUO_T(scaled), LUO_T(equal_durations), LUO_T(one_step),
          LUO_T(far_numbers), LUO_T(acc_r_st))
