/* check_compare.c: runs side by side from their files: V-Q1, the tables, the rule about
 * programs, and what is no run. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "core/io/compare/compare.h"
#include "core/io/files.h"
#include "tests/check_main.h"
#include "tests/run_fixture.h"

START_TEST(v_q1)
{
    static const double x[] = {1, 2, 3, 4};
    ck_assert_double_eq_tol(luo_stats_quantile(x, 4, 0.5), 2.5, 1e-15);
    ck_assert_double_eq_tol(luo_stats_quantile(x, 4, 0.9), 3.7, 1e-15);
    ck_assert_double_eq_tol(luo_stats_quantile(x, 4, 0.99), 3.97, 1e-15);
    ck_assert_double_eq(luo_stats_quantile(x, 4, 0), 1);
    ck_assert_double_eq(luo_stats_quantile(x, 4, 1), 4);
    ck_assert_double_eq(luo_stats_quantile(x, 1, 0.99), 1);
}
END_TEST

typedef struct spec {
    const char *name, *backend;
    luo_run_state state;
    uint64_t program;
    int steps;
    double factor; /* step time is 0.15 s times this */
    bool traced;
    double duration_s; /* of the scenario; 0: it gives steps */
    const char *error; /* it failed, with this sentence, before it had a summary */
} spec;

static const luo_time_range *range; /* of the runs that are made; NULL: none */

/* DIR/NAME: a run whose steps are the fixture's, longer by `factor`. The last step is tried twice
 * and counts as redone. */
static const char *make_run(fixture *f, const char *dir, const spec *s)
{
    luo_rundir_opts opts = fix_opts(f);
    luo_rundir *r = NULL;
    luo_err err = {0};
    const char *run = luo_arena_printf(f->arena, "%s/%s", dir, s->name);
    opts.policy = s->name;
    opts.backend = s->backend;
    f->set.hash = s->program;
    const uint64_t hash = s->program;
    ck_assert_msg(luo_rundir_open(run, &opts, &r, &err) == LUO_OK, "%s", err.text);
    const luo_sink *k = luo_rundir_sink(r);
    ck_assert_int_eq(k->plan(k->ctx, 0, &f->plan, &f->set, &err), LUO_OK);
    const double dur = 0.15 * s->factor;
    for (int i = 0; i <= s->steps; i++) {
        const int step = i < s->steps ? i : s->steps - 1; /* the last one again */
        const luo_row_step row = {.step = step,
                                  .attempt = i == s->steps,
                                  .tokens = 16,
                                  .start_s = i * dur,
                                  .end_s = (i + 1) * dur};
        ck_assert_int_eq(k->step(k->ctx, &row, &err), LUO_OK);
        luo_step_result result = fix_result(f);
        for (int j = 0; j < FIX_STEP_RECORDS; j++) {
            f->records[j].start_s *= s->factor;
            f->records[j].end_s *= s->factor;
        }
        if (s->traced && i < 2)
            ck_assert_int_eq(k->ops(k->ctx, step, 0, i * dur, 0, &f->set, &result, &err), LUO_OK);
        for (int j = 0; j < FIX_STEP_RECORDS; j++) {
            f->records[j].start_s /= s->factor;
            f->records[j].end_s /= s->factor;
        }
        ck_assert_int_eq(k->boundary(k->ctx, i, s->steps, i * dur, 0, &err), LUO_OK);
    }
    const struct luo_plan_use use = {luo_plan_hash(&f->plan), hash, s->steps};
    const double kept = s->steps * dur, total = kept + dur;
    const bool all = s->state == LUO_COMPLETE;
    const double extent = s->duration_s > 0 ? fmax(s->duration_s, total) : all ? total : NAN;
    const luo_run_summary sum = {.policy = s->name,
                                 .backend = s->backend,
                                 .state = s->state,
                                 .steps_done = s->steps,
                                 .steps_redone = 1,
                                 .tokens = 16 * (s->steps + 1),
                                 .kept_tokens = 16 * s->steps,
                                 .total_s = total,
                                 .step_mean_s = dur,
                                 .step_p50_s = dur,
                                 .step_p90_s = dur,
                                 .step_p99_s = dur,
                                 .step_max_s = dur,
                                 .tokens_per_s = 16 / dur,
                                 .extent_s = extent,
                                 .mfu_ratio = 0.4 / s->factor,
                                 .time = {.compute_s = kept},
                                 .redone_s = dur,
                                 .range = range,
                                 .peak_memory_ratio = 0.5,
                                 .nplans = 1,
                                 .plans = &use};
    if (s->error)
        luo_rundir_log(r, LUO_ERROR, s->error);
    else
        ck_assert_int_eq(k->summary(k->ctx, &sum, &err), LUO_OK);
    ck_assert_int_eq(luo_rundir_close(r, s->state, 0, &err), LUO_OK);
    return run;
}

static const char *slurp(luo_arena *arena, const char *dir, const char *file)
{
    luo_source src;
    luo_err err = {0};
    char *path = luo_arena_printf(arena, "%s/%s", dir, file);
    ck_assert_msg(luo_source_read(arena, path, &src, &err) == LUO_OK, "%s", err.text);
    return src.text;
}

static luo_status compare(fixture *f, const char *const *paths, int32_t n, const char *out,
                          bool allow, luo_str *text, luo_diags *diags)
{
    luo_diags_init(diags, f->arena);
    const luo_compare_opts o = {.paths = paths, .npaths = n, .out = out, .allow_different = allow};
    return luo_compare(f->arena, &o, text, diags);
}

static const spec fast = {"fast", "sim", LUO_COMPLETE, 0x1234, 4, 1, true, 0, NULL};
static const spec slow = {"slow", "sim", LUO_LOST, 0x1234, 2, 2, true, 0, NULL};
static const spec real = {"real", "host", LUO_COMPLETE, 0x1234, 4, 1.1, true, 0, NULL};
static const spec other = {"other", "host", LUO_COMPLETE, 0x9999, 4, 1.1, false, 0, NULL};

START_TEST(two_runs)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "cmp2");
    const char *const paths[] = {make_run(f, dir, &fast), make_run(f, dir, &slow)};
    luo_diags d;
    luo_str text = {0};
    char *head =
        "run,policy,backend,state,seed,plan,program,steps,total_s,extent_s,step_mean_s,step_p50_s,"
        "step_p99_s,tokens_per_s,goodput_tokens_per_s,mfu_ratio,lost_s,switches,restarts,"
        "peak_memory_ratio,speedup,error_ratio,low_s,high_s,beside_best\n";
    char plan[17];
    luo_hash_print(luo_plan_hash(&f->plan), plan);
    ck_assert_int_eq(compare(f, paths, 2, dir, false, &text, &d), LUO_OK);
    /* 4 steps of 0.15 s and one redone: 64 tokens in 0.75 s; 2 of 0.3 s and one: 32 in 0.9 s.
     */
    ck_assert_str_eq(
        slurp(f->arena, dir, "compare.csv"),
        luo_arena_printf(
            f->arena,
            "%sfast,fast,sim,complete,7,%s,0000000000001234,4,0.750000000,0.750000000,0.150000000,"
            "0.150000000,0.150000000,106.667,85.333,0.400000,0.150000000,0,0,0.500000,"
            "1.000000,,,,\n"
            "slow,slow,sim,lost,7,%s,0000000000001234,2,0.900000000,0.900000000,0.300000000,"
            "0.300000000,0.300000000,53.333,35.556,0.200000,0.300000000,0,0,0.500000,"
            "0.416667,,,,\n",
            head, plan, plan));
    ck_assert_str_eq(slurp(f->arena, dir, "compare_steps.csv"),
                     "step,reference_s,other_s,error_ratio\n"
                     "0,0.150000000,0.300000000,1.000000\n1,0.150000000,0.300000000,1.000000\n");
    const char *ops = slurp(f->arena, dir, "compare_ops.csv");
    /* 2 steps x 4 devices x 2 micro-batches of 10 ms */
    ck_assert_ptr_nonnull(
        strstr(ops, "\nlayers.0.mm,COMPUTE,16,0.160000000,0.320000000,1.000000\n"));
    ck_assert_ptr_nonnull(
        strstr(ops, "\nlayers.*.mm,COMPUTE,16,0.160000000,0.320000000,1.000000\n"));
    ck_assert_ptr_nonnull(strstr(ops, "\n*,COLLECTIVE,16,0.160000000,0.320000000,1.000000\n"));
    json_t *j = json_loads(slurp(f->arena, dir, "compare.json"), 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(j, "schema")), "luoshu.compare/1");
    ck_assert_uint_eq(json_array_size(json_object_get(j, "runs")), 2);
    json_decref(j);
    ck_assert_str_eq(
        text.at, "Choose fast: 140 % more goodput than slow, the next; slow was lost (one seed).\n"
                 "run   state     steps  time   step  range    p99  goodput   MFU  "
                 "lost  switches  restarts  memory  "
                 "speedup\n"
                 "                          h      s      s      s    tok/s     %  "
                 "   %                           %\n"
                 "fast  complete      4  0.00  0.150      -  0.150       85  40.0  "
                 "20.0         0         0    50.0  "
                 "  1.000\n"
                 "slow  lost          2  0.00  0.300      -  0.300       36  20.0  "
                 "33.3         0         0    50.0  "
                 "  0.417\n"
                 "goodput: tokens of steps that stayed over the scenario's duration; "
                 "where it has steps instead, over the run's own time if it made them "
                 "all, else over the longest run's of its seed\n"
                 "slow: lost after 0.9 s; its tokens count over 0.9 s\n");
    luo_str_free(&text);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* Sim beside host: the error of the prediction; with other programs the answer is no. */
START_TEST(sim_and_host)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "cmph");
    const char *a = make_run(f, dir, &fast), *b = make_run(f, dir, &real);
    const char *c = make_run(f, dir, &other);
    const char *const good[] = {a, b}, *const bad[] = {a, c}, *const three[] = {a, b, c};
    luo_diags d;
    luo_str text = {0};
    ck_assert_int_eq(compare(f, good, 2, dir, false, &text, &d), LUO_OK);
    ck_assert_ptr_nonnull(strstr(slurp(f->arena, dir, "compare.csv"), ",0.100000,,,\n"));
    ck_assert_ptr_nonnull(strstr(text.at, "real against fast: step time differs by 10.00 % in the "
                                          "median, 10.00 % at most, over 4 steps; the whole run by "
                                          "10.00 %\n"));
    /* 2 traced steps x 4 devices x 2 micro-batches of 10 ms */
    ck_assert_ptr_nonnull(
        strstr(text.at, "  COLLECTIVE      0.160000 s      0.176000 s    +10.00 %\n"));
    ck_assert_ptr_nonnull(strstr(slurp(f->arena, dir, "compare_ops.csv"), ",0.100000\n*,*,"));
    /* stage 1 ends 10 ms before stage 0: 2 devices in 2 steps */
    ck_assert_ptr_nonnull(
        strstr(text.at, "  waiting         0.040000 s      0.044000 s    +10.00 %\n"));
    const char *points = slurp(f->arena, dir, "plots/predicted.csv");
    ck_assert_ptr_nonnull(strstr(points, "suite,case,role,measured_s,predicted_s\n"
                                         "step,0,,0.165000000,0.150000000\n"));
    ck_assert_ptr_nonnull(strstr(points, "\ncompute,layers.0.mm,,0.176000000,0.160000000\n"));
    luo_str_clear(&text);
    ck_assert_int_eq(compare(f, bad, 2, dir, false, &text, &d), LUO_ENO);
    ck_assert_str_eq(d.first->err.text,
                     luo_arena_printf(f->arena,
                                      "runs `%s` and `%s` ran different programs for plan 0 "
                                      "(0000000000001234, 0000000000009999); compare equal ones or "
                                      "pass --allow-different.",
                                      a, c));
    ck_assert_int_eq(compare(f, bad, 2, dir, true, &text, &d), LUO_OK);
    ck_assert_int_eq(compare(f, three, 3, dir, true, &text, &d), LUO_OK);
    slurp(f->arena, dir, "compare_steps-real.csv");
    slurp(f->arena, dir, "compare_steps-other.csv");
    slurp(f->arena, dir, "compare_ops-real.csv");
    points = slurp(f->arena, dir, "plots/predicted.csv"); /* steps of both, ops of the traced one */
    int lines = 0;
    for (const char *at = points; (at = strchr(at, '\n')); at++) lines++;
    ck_assert_int_ge(lines, 1 + 4 + 4 + 1);
    ck_assert(!luo_result_has(dir, "compare_ops-other.csv")); /* it was not traced */
    luo_str_free(&text);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* Two policies, two seeds: 64 tokens in 0.75 s and in 1.5 s; of the lost one 32 in 0.9 s, its own,
 * and in 1.5 s, those of the run that made all steps. A step that is done again takes its tokens
 * back. */
START_TEST(seeds)
{
    static const spec late = {"fast", "sim", LUO_COMPLETE, 0x1234, 4, 2, false, 0, NULL};
    static const spec lost = {"slow", "sim", LUO_LOST, 0x1234, 2, 2, false, 0, NULL};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "cmpseeds");
    const char *one = luo_arena_printf(f->arena, "%s/one", dir);
    const char *two = luo_arena_printf(f->arena, "%s/two", dir);
    const char *runs[] = {make_run(f, one, &fast), make_run(f, one, &slow), NULL, NULL};
    f->scenario.seed = 8;
    runs[2] = make_run(f, two, &late);
    runs[3] = make_run(f, two, &lost);
    luo_diags d;
    luo_str text = {0};
    ck_assert_int_eq(compare(f, runs, 4, dir, false, &text, &d), LUO_OK);
    ck_assert_str_eq(slurp(f->arena, dir, "seeds.csv"),
                     "run,seeds,goodput_p10_tokens_per_s,goodput_p50_tokens_per_s,"
                     "goodput_p90_tokens_per_s,speedup_p10,speedup_p50,speedup_p90,lost_p50_ratio,"
                     "goodput_mean_tokens_per_s,goodput_low95_tokens_per_s,"
                     "goodput_high95_tokens_per_s\n"
                     "fast,2,46.933,64.000,81.067,1.000000,1.000000,1.000000,0.200000,64.000,"
                     "-207.066,335.066\n" /* 64 +- 12.7062 * 21.333 */
                     "slow,2,22.756,28.444,34.133,0.425000,0.458333,0.491667,0.333333,28.444,"
                     "-61.911,118.800\n");
    /* 85.333 - 35.556 and 42.667 - 21.333; Student's t of one degree is Cauchy's */
    ck_assert_ptr_nonnull(strstr(slurp(f->arena, dir, "pairs.csv"),
                                 "\nfast,slow,2,2,0,35.556,-145.155,216.266,1.250000,0.242238\n"
                                 "slow,fast,2,0,2,-35.556,-216.266,145.155,-0.555556,0.242238\n"));
    ck_assert_ptr_nonnull(
        strstr(text.at, "`fast` is first, but that it is better than `slow` is not sure: "
                        "+125.0 % in the mean of 2 seeds, 95 % interval -510.3 to +760.3 %, ahead "
                        "in 2 (p 0.24, corrected for 1 rival); run more seeds.\n"));
    const char *bands = slurp(f->arena, dir, "plots/bands.csv");
    ck_assert_ptr_nonnull(
        strstr(bands, "\nfast,0.312500000,17.600,24.000,30.400,25.000,24.000,-77.650,125.650\n"));
    ck_assert_ptr_nonnull(
        strstr(bands, "\nfast,0.650000000,33.600,40.000,46.400,52.000,40.000,-61.650,141.650\n"));
    ck_assert_ptr_nonnull(
        strstr(bands, "\nfast,1.500000000,64.000,64.000,64.000,120.000,64.000,64.000,64.000\n"));
    /* 49.778 and 21.333 of 28.444, the mean of slow */
    ck_assert_str_eq(slurp(f->arena, dir, "plots/paired.csv"),
                     "run,other,seed,difference_ratio,mean_ratio,low95_ratio,high95_ratio\n"
                     "fast,slow,7,1.750000,1.250000,-5.103102,7.603102\n"
                     "fast,slow,8,0.750000,1.250000,-5.103102,7.603102\n");
    const char *kept = slurp(f->arena, dir, "plots/seeds_kept.csv");
    ck_assert_ptr_nonnull(strstr(kept, "\nfast,7,0.312500000,"));
    ck_assert_ptr_nonnull(strstr(text.at, "\nslow: 28 tok/s in the mean of 2 runs, 95 % interval "
                                          "-62 to 119; median 28, 23 to 34"));
    ck_assert(luo_result_has(dir, "compare_steps-one_slow.csv"));
    ck_assert(!luo_result_has(dir, "compare_steps-two_fast.csv"));
    ck_assert_int_eq(compare(f, runs, 2, dir, false, &text, &d), LUO_OK);
    ck_assert(!luo_result_has(dir, "seeds.csv") && !luo_result_has(dir, "plots/bands.csv") &&
              !luo_result_has(dir, "plots/seeds_kept.csv") &&
              !luo_result_has(dir, "plots/paired.csv"));
    luo_str_free(&text);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

START_TEST(sets)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "cmps");
    const char *const runs[] = {make_run(f, dir, &slow), make_run(f, dir, &fast)};
    const char *const set[] = {dir}, *const twice[] = {dir, runs[0]};
    const char *const *out;
    int32_t n;
    luo_diags d;
    luo_str text = {0};
    luo_diags_init(&d, f->arena);
    ck_assert_int_eq(luo_result_expand(f->arena, set, 1, &out, &n, &d), LUO_OK);
    ck_assert_int_eq(n, 2);
    ck_assert_str_eq(out[0], runs[1]); /* by name */
    ck_assert_int_eq(compare(f, runs, 2, dir, false, &text, &d), LUO_OK);
    ck_assert_int_eq(luo_result_expand(f->arena, set, 1, &out, &n, &d), LUO_OK);
    ck_assert_str_eq(out[0], runs[0]); /* as compared */
    ck_assert_int_eq(luo_result_expand(f->arena, twice, 2, &out, &n, &d), LUO_EINPUT);
    ck_assert_str_eq(
        d.first->err.text,
        luo_arena_printf(f->arena, "run `%s` is given twice; give each once.", runs[0]));

    const char *const none[] = {luo_arena_printf(f->arena, "%s/fast/config", dir)};
    ck_assert_int_eq(compare(f, none, 1, dir, false, &text, &d), LUO_EINPUT);
    ck_assert_str_eq(d.first->err.text,
                     luo_arena_printf(f->arena,
                                      "`%s` holds no run; a run directory or a result set "
                                      "is expected.",
                                      none[0]));
    const char *summary = luo_arena_printf(f->arena, "%s/summary.json", runs[0]);
    ck_assert_int_eq(luo_file_write_atomic(summary, "{\"state\": \"stopped\"}", 20, NULL), LUO_OK);
    ck_assert_int_eq(compare(f, runs, 1, dir, false, &text, &d), LUO_EINPUT);
    ck_assert_str_eq(d.first->err.text, "`state` is no state of a run.");
    ck_assert_int_eq(unlink(summary), 0);
    ck_assert_int_eq(compare(f, runs, 1, dir, false, &text, &d), LUO_EINPUT);
    ck_assert_str_eq(
        d.first->err.text,
        luo_arena_printf(f->arena, "run `%s` has no summary.json; it was not finished.", runs[0]));
    luo_str_free(&text);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* A cell of compare.csv. */
static const char *cell(fixture *f, const char *dir, const char *run, const char *column)
{
    luo_csv_cell c[LUO_CSV_COLUMNS];
    luo_diags d;
    luo_diags_init(&d, f->arena);
    const luo_table_def *def = luo_table_def_at(LUO_TABLE_COMPARE);
    const char *text = NULL;
    luo_csv *t = luo_result_table(f->arena, dir, LUO_TABLE_COMPARE, &d);
    while (t && luo_csv_next(t, c))
        if (strcmp(c[0].text, run) == 0)
            text = luo_arena_strdup(f->arena, c[luo_table_def_column(def, column)].text);
    ck_assert_int_eq(luo_csv_close(t), LUO_OK);
    ck_assert_ptr_nonnull(text);
    return text;
}

/* 100 steps of 0.15 s and one redone; another dies after one step and one redone: 16 tokens, which
 * would be 107 tokens/s of the time it lived, are 1.06 of the time that the other took. With a
 * duration of 60 s both count over 60 s. One that failed before it had figures keeps its row. */
START_TEST(dead_is_not_fast)
{
    static const spec live[] = {{"live", "sim", LUO_COMPLETE, 0x1234, 100, 1, false, 0, NULL},
                                {"live", "sim", LUO_COMPLETE, 0x1234, 100, 1, false, 60, NULL}};
    static const spec dead[] = {{"dead", "sim", LUO_LOST, 0x1234, 1, 0.5, false, 0, NULL},
                                {"dead", "sim", LUO_LOST, 0x1234, 1, 0.5, false, 60, NULL}};
    static const spec broken = {"broken", "sim", LUO_FAILED, 0x1234, 1, 1, false, 0, "no room."};
    static const char *const want[2][4] = {{"15.150000000", "105.611", "1.056", "0.010000"},
                                           {"60.000000000", "26.667", "0.267", "0.010000"}};
    for (int i = 0; i < 2; i++) {
        fixture *f = fix_new();
        const char *dir = fix_dir(f->arena, "cmpdead");
        const char *const runs[] = {make_run(f, dir, &live[i]), make_run(f, dir, &dead[i]),
                                    make_run(f, dir, &broken)};
        luo_diags d;
        luo_str text = {0};
        ck_assert_int_eq(compare(f, runs, 3, dir, false, &text, &d), LUO_OK);
        ck_assert_str_eq(cell(f, dir, "dead", "state"), "lost");
        ck_assert_str_eq(cell(f, dir, "dead", "extent_s"), want[i][0]);
        ck_assert_str_eq(cell(f, dir, "live", "extent_s"), want[i][0]);
        ck_assert_str_eq(cell(f, dir, "live", "goodput_tokens_per_s"), want[i][1]);
        ck_assert_str_eq(cell(f, dir, "dead", "goodput_tokens_per_s"), want[i][2]);
        ck_assert_str_eq(cell(f, dir, "dead", "speedup"), want[i][3]);
        ck_assert_str_eq(cell(f, dir, "broken", "state"), "failed");
        ck_assert_str_eq(cell(f, dir, "broken", "goodput_tokens_per_s"), "");
        ck_assert_ptr_nonnull(strstr(text.at, "\nbroken: failed: no room.\n"));
        ck_assert_ptr_nonnull(
            strstr(slurp(f->arena, dir, "compare.json"), "\"error\": \"no room.\""));
        luo_str_free(&text);
        fix_remove(f->arena, dir);
        luo_arena_free(f->arena);
    }
}
END_TEST

/* Steps of 0.15e-5 / 7 s, so that what lies behind the ninth digit shows: the table has the digits
 * of the summary. */
START_TEST(goodput_is_that_of_the_summary)
{
    static const spec run = {"run", "sim", LUO_COMPLETE, 0x1234, 20, 1e-5 / 7, false, 0, NULL};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "cmpgood");
    const char *const runs[] = {make_run(f, dir, &run)};
    luo_diags d;
    luo_str text = {0};
    ck_assert_int_eq(compare(f, runs, 1, dir, false, &text, &d), LUO_OK);
    const char *want = luo_arena_printf(f->arena, "\"goodput_tokens_per_s\": %s,",
                                        cell(f, dir, "run", "goodput_tokens_per_s"));
    ck_assert_msg(strstr(slurp(f->arena, runs[0], "summary.json"), want) != NULL, "%s", want);
    luo_str_free(&text);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* A seed that JSON readers cannot keep as a number survives. */
START_TEST(large_seed)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "seed");
    luo_result r;
    luo_diags d;
    luo_diags_init(&d, f->arena);
    f->scenario.seed = UINT64_MAX;
    const char *run = make_run(f, dir, &fast);
    ck_assert_int_eq(luo_result_read(f->arena, run, &r, &d), LUO_OK);
    ck_assert_str_eq(r.seed, "18446744073709551615");
    ck_assert_str_eq(r.name, "fast");
    ck_assert_str_eq(r.programs[0], "0000000000001234");
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* ---- ranges ---- */

static const luo_range_part parts[] = {{"gemm_ratio", "a", "default", 0.3, -0.6},
                                       {"host_launch_us", "", "measured", 0.05, 0.1}};
static const luo_range_part unlike[] = {{"gemm_ratio", "a", "default", 0.3, -0.3},
                                        {"host_launch_us", "", "measured", 0.05, 0.7}};

/* Runs of a scenario whose steps are longer by `factor` than those of the best, and whose programs
 * and sensitivities are the best's or not. Four of five steps stay, so errors count for 0.8 of the
 * time: 0.8 x 0.06 of the model, 0.8 x 0.3 x 0.3 of products; a common program has neither. */
static const struct {
    double factor;
    uint64_t program;
    const luo_range_part *part;
    const char *want;
} beside[] = {{1.001, 0x1234, parts, "slower"},
              {1.03, 0x5678, parts, "within_range"},
              {1.05, 0x5678, parts, "slower"},
              {1.05, 0x5678, unlike, "within_range"},
              {1.10, 0x5678, unlike, "slower"}};

static luo_time_range range_of(const luo_range_part *part)
{
    luo_time_range x = {.cluster = "c",
                        .stack = "s",
                        .source = 0.1,
                        .model = 0.06,
                        .n = LUO_ROWS(parts),
                        .part = part};
    luo_time_range_settle(&x);
    return x;
}

START_TEST(beside_the_best)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "beside"), *paths[3];
    const luo_time_range first = range_of(parts), second = range_of(beside[_i].part);
    const spec later = {"later", "sim", LUO_COMPLETE, beside[_i].program, 4, beside[_i].factor,
                        false,   0,     NULL};
    const spec none = {"none", "sim", LUO_COMPLETE, 0x1234, 4, 0.5, false, 0, NULL};
    luo_diags d;
    luo_str text = {0};
    range = &first;
    paths[0] = make_run(f, dir, &fast);
    range = &second;
    paths[1] = make_run(f, dir, &later);
    range = NULL;
    paths[2] = make_run(f, dir, &none); /* fastest, and beside nobody */
    ck_assert_int_eq(compare(f, paths, 3, dir, false, &text, &d), LUO_OK);
    json_t *j = json_loads(slurp(f->arena, dir, "compare.json"), 0, NULL);
    const json_t *runs = json_object_get(j, "runs");
    const json_t *best = json_array_get(runs, 0);
    ck_assert_str_eq(json_string_value(json_object_get(best, "beside_best")), "best");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(runs, 1), "beside_best")),
                     beside[_i].want);
    ck_assert(json_is_null(json_object_get(json_array_get(runs, 2), "beside_best")));
    ck_assert(json_is_null(json_object_get(json_array_get(runs, 2), "low_s")));
    /* sd^2 = 0.1^2 + 0.06^2 + 0.18^2 + 0.005^2 */
    ck_assert_double_eq_tol(json_real_value(json_object_get(best, "low_s")),
                            0.15 * exp(-1.2816 * 0.214534), 1e-6);
    ck_assert_double_eq_tol(json_real_value(json_object_get(best, "high_s")),
                            0.15 * exp(1.2816 * 0.214534), 1e-6);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&text),
                                 "fast: step 0.15 s (0.114 to 0.197 in 80 of 100 cases); of it: "
                                 "gemm_ratio of a (default) 18 %, source 10 %, model 6 %\n"));
    ck_assert_ptr_nonnull(
        strstr(luo_str_get(&text), "Choose none: 100 % more goodput than fast, the next (one"));
    ck_assert_ptr_nonnull(
        strstr(luo_str_get(&text), strcmp(beside[_i].want, "slower") == 0
                                       ? "best: fast; slower by more than the range: later\n"
                                       : "best: fast; within the range of it: later\n"));
    json_decref(j);
    luo_str_clear(&text); /* again, without the one that has no range */
    ck_assert_int_eq(compare(f, paths, 2, dir, true, &text, &d), LUO_OK);
    ck_assert_ptr_nonnull(
        strstr(luo_str_get(&text), strcmp(beside[_i].want, "slower") == 0
                                       ? " later, the next, and more than the range (one seed).\n"
                                       : " later, which is within the range: that is no reason"));
    luo_str_free(&text);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* ---- the answer above the table ---- */

/* Of runs of 4 steps with 16 tokens: goodput is that of the steps that stayed, 64 of 5 x 0.15 s. */
static const struct {
    spec runs[3];
    int n;
    const char *want;
} answers[] = {
    {{{"a", "sim", LUO_COMPLETE, 0x1234, 4, 1, false, 0, NULL}},
     1,
     "a: a step takes 0.15 s; 85 tokens/s, MFU 40.0 %.\n"},
    {{{"a", "host", LUO_COMPLETE, 0x1234, 4, 1, false, 0, NULL}},
     1,
     "a: a step took 0.15 s; 85 tokens/s, MFU 40.0 %.\n"},
    {{{"a", "sim", LUO_COMPLETE, 0x1234, 4, 1.25, false, 0, NULL},
      {"b", "sim", LUO_COMPLETE, 0x1234, 4, 1, false, 0, NULL},
      {"c", "sim", LUO_LOST, 0x1234, 2, 1, false, 9, NULL}},
     3,
     "Choose b: 25 % more goodput than a, the next; c was lost (one seed).\n"},
    {{{"a", "sim", LUO_COMPLETE, 0x1234, 4, 1, false, 0, NULL},
      {"b", "sim", LUO_COMPLETE, 0x1234, 4, 1, false, 0, NULL}},
     2,
     "a and b come out equal, 85 tokens/s: none of them had to switch plans or to restart (one "
     "seed).\n"},
    {{{"a", "sim", LUO_COMPLETE, 0x1234, 4, 1, false, 0, NULL},
      {"b", "host", LUO_COMPLETE, 0x1234, 4, 2, false, 0, NULL}},
     2,
     "b: a step took 0.3 s, where 0.15 s were predicted: 100.0 % longer.\n"},
    {{{"a", "host", LUO_COMPLETE, 0x1234, 4, 1, false, 0, NULL},
      {"b", "sim", LUO_COMPLETE, 0x1234, 4, 2, false, 0, NULL}},
     2,
     "a: a step took 0.15 s, where 0.3 s were predicted: 50.0 % shorter.\n"},
};

START_TEST(answer_first)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "cmpa"), *paths[3];
    luo_diags d;
    luo_str text = {0};
    for (int i = 0; i < answers[_i].n; i++) paths[i] = make_run(f, dir, &answers[_i].runs[i]);
    compare(f, paths, answers[_i].n, dir, true, &text, &d);
    const char *want = answers[_i].want;
    ck_assert_msg(strncmp(luo_str_get(&text), want, strlen(want)) == 0, "%s", luo_str_get(&text));
    luo_str_free(&text);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

LUO_SUITE("io.compare", LUO_T_N(beside_the_best, LUO_ROWS(beside)), LUO_T(v_q1),
          LUO_T_N(answer_first, LUO_ROWS(answers)), LUO_T(two_runs), LUO_T(sim_and_host),
          LUO_T(seeds), LUO_T(sets), LUO_T(dead_is_not_fast), LUO_T(goodput_is_that_of_the_summary),
          LUO_T(large_seed))
