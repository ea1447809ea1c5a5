/* prop_repeats.c: rows that repeat are written once and read as what was given: the list that the
 * run was told is the slow twin of the file. */
#include <math.h>
#include <sys/stat.h>

#include "core/io/result/repeats.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"
#include "tests/run_fixture.h"

enum { TAIL = 6000, STEPS = LUO_REPEATS_WHOLE + TAIL };

/* Lengths change now and then; a step is tried again, something stands between two. */
static void tell_steps(luo_rng *rng, luo_row_step *rows)
{
    double t_s = 2.6e6 * luo_rng_u(rng), step_s = 3;
    int64_t step = 0;
    for (int64_t i = 0; i < STEPS; i++, step++) {
        const int64_t what = luo_rng_pick(rng, 400);
        if (what == 0) step_s = 1 + luo_rng_u(rng);
        if (what == 1) t_s += 0.5;             /* a checkpoint */
        if (what == 2 && step > 20) step -= 7; /* back */
        const double end_s = t_s + step_s;
        rows[i] = (luo_row_step){.step = step,
                                 .sequences = 8,
                                 .tokens = 4096,
                                 .plan = what == 3 ? 1 : 0,
                                 .devices_used = 4,
                                 .devices_up = 4,
                                 .slowest_device = what == 4 ? 2 : -1,
                                 .max_slowdown = 1,
                                 .start_s = t_s,
                                 .end_s = end_s,
                                 .tokens_per_s = 4096 / step_s,
                                 .parts = {.compute_s = 0.75 * step_s, .bubble_s = 0.25 * step_s},
                                 .has_loss = what == 5,
                                 .loss = 1};
        t_s = end_s;
    }
}

static luo_row_timeline span_of(const luo_row_step *row)
{
    return (luo_row_timeline){.start_s = row->start_s,
                              .end_s = row->end_s,
                              .kind = row->has_loss ? LUO_SPAN_CHECKPOINT : LUO_SPAN_STEP,
                              .blocking = true,
                              .step = row->step,
                              .plan = row->plan,
                              .event = row->plan ? "slow" : ""};
}

static void write_run(fixture *f, const char *dir, const luo_row_step *rows)
{
    const luo_rundir_opts opts = fix_opts(f);
    luo_rundir *r = NULL;
    ck_assert_int_eq(luo_rundir_open(dir, &opts, &r, NULL), LUO_OK);
    const luo_sink *sink = luo_rundir_sink(r);
    for (int64_t i = 0; i < STEPS; i++) {
        const luo_row_timeline span = span_of(&rows[i]);
        ck_assert_int_eq(sink->step(sink->ctx, &rows[i], NULL), LUO_OK);
        ck_assert_int_eq(sink->timeline(sink->ctx, &span, NULL), LUO_OK);
    }
    ck_assert_int_eq(luo_rundir_close(r, LUO_COMPLETE, 0, NULL), LUO_OK);
}

static int64_t lines_of(fixture *f, const char *dir, const char *file)
{
    FILE *in = fopen(luo_arena_printf(f->arena, "%s/%s", dir, file), "r");
    int64_t n = 0;
    ck_assert_ptr_nonnull(in);
    for (int c; (c = fgetc(in)) != EOF;) n += c == '\n';
    fclose(in);
    return n;
}

static void compare_steps(fixture *f, const char *dir, const luo_row_step *rows)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_diags diags;
    luo_diags_init(&diags, f->arena);
    luo_repeats *in = luo_repeats_open(f->arena, dir, LUO_TABLE_STEPS, &diags);
    int64_t i = 0;
    for (; luo_repeats_next(in, cells); i++) {
        const luo_row_step *row = &rows[i];
        ck_assert_int_lt(i, STEPS);
        ck_assert_int_eq(cells[LUO_COL_STEPS_step].whole, row->step);
        ck_assert_int_eq(cells[LUO_COL_STEPS_plan].whole, row->plan);
        ck_assert_int_eq(cells[LUO_COL_STEPS_slowest_device].given, row->slowest_device >= 0);
        ck_assert_int_eq(cells[LUO_COL_STEPS_loss].given, row->has_loss);
        ck_assert_double_le(fabs(cells[LUO_COL_STEPS_t_start_s].number - row->start_s), 4e-9);
        ck_assert_double_le(fabs(cells[LUO_COL_STEPS_t_end_s].number - row->end_s), 4e-9);
        ck_assert_double_le(fabs(cells[LUO_COL_STEPS_step_s].number - (row->end_s - row->start_s)),
                            4e-9);
        ck_assert_double_le(fabs(cells[LUO_COL_STEPS_compute_s].number - row->parts.compute_s),
                            2e-9);
    }
    ck_assert_int_eq(i, STEPS);
    ck_assert_int_eq(luo_repeats_close(in), LUO_OK);
}

static void compare_spans(fixture *f, const char *dir, const luo_row_step *rows)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_diags diags;
    luo_diags_init(&diags, f->arena);
    luo_repeats *in = luo_repeats_open(f->arena, dir, LUO_TABLE_TIMELINE, &diags);
    int64_t i = 0;
    for (; luo_repeats_next(in, cells); i++) {
        const luo_row_timeline span = span_of(&rows[i]);
        ck_assert_int_lt(i, STEPS);
        ck_assert_str_eq(cells[LUO_COL_TIMELINE_kind].text, luo_span_kind_name(span.kind));
        ck_assert_str_eq(cells[LUO_COL_TIMELINE_event].text, span.event);
        ck_assert_int_eq(cells[LUO_COL_TIMELINE_step].whole, span.step);
        ck_assert_double_le(fabs(cells[LUO_COL_TIMELINE_t_start_s].number - span.start_s), 4e-9);
        ck_assert_double_le(fabs(cells[LUO_COL_TIMELINE_t_end_s].number - span.end_s), 4e-9);
    }
    ck_assert_int_eq(i, STEPS);
    ck_assert_int_eq(luo_repeats_close(in), LUO_OK);
}

START_TEST(steps)
{
    luo_row_step *rows = malloc(STEPS * sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    int64_t saved = 0;
    LUO_PROP_FOR(seed, 3)
    {
        luo_rng rng = luo_rng_seed(seed);
        fixture *f = fix_new();
        const char *dir = fix_dir(f->arena, "repeats");
        tell_steps(&rng, rows);
        write_run(f, dir, rows);
        compare_steps(f, dir, rows);
        compare_spans(f, dir, rows);
        const int64_t in_steps = lines_of(f, dir, "steps.csv");
        ck_assert_int_gt(in_steps, LUO_REPEATS_WHOLE); /* a row a step so far */
        ck_assert_int_lt(in_steps, LUO_REPEATS_WHOLE + TAIL / 20);
        ck_assert_int_lt(lines_of(f, dir, "timeline.csv"), LUO_REPEATS_WHOLE + TAIL / 20);
        saved += STEPS - in_steps;
        fix_remove(f->arena, dir);
        luo_arena_free(f->arena);
    }
    printf("%lld rows saved\n", (long long)saved);
    free(rows);
}
END_TEST

/* ---- memory ---- */

/* A grid of pipelines and stages on devices dealt in any order; a few devices need more. */
static int32_t tell_memory(luo_rng *rng, luo_row_memory *rows, int32_t *type, int32_t most)
{
    const int32_t stages = 1 + (int32_t)luo_rng_pick(rng, 4);
    const int32_t each = 1 + (int32_t)luo_rng_pick(rng, 4);
    const int32_t n = most / (stages * each) * stages * each;
    for (int32_t i = 0; i < n; i++) {
        const int32_t device = (int32_t)luo_rng_pick(rng, 50) ? i : (i + n / 2) % n;
        rows[i] = (luo_row_memory){.device = i,
                                   .pipeline = i / (stages * each),
                                   .stage = i / each % stages,
                                   .capacity_bytes = 1000,
                                   .memory = {.weights = i / each % stages + (device != i)}};
        type[i] = i < n / 3;
    }
    return n;
}

START_TEST(memory)
{
    enum { MOST = 600 };
    static luo_row_memory rows[MOST];
    static int32_t type[MOST];
    int32_t shared = 0;
    LUO_PROP_FOR(seed, 200)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        const int32_t n = tell_memory(&rng, rows, type, seed % 4 ? MOST : LUO_REPEATS_DEVICES);
        luo_memory_repeats *out;
        int32_t nout, seen[MOST] = {0};
        ck_assert_int_eq(luo_repeats_of_memory(arena, rows, n, type, &out, &nout, NULL), LUO_OK);
        if (n <= LUO_REPEATS_DEVICES) ck_assert_int_eq(nout, n);
        shared += n - nout;
        for (int32_t i = 0; i < nout; i++) {
            const luo_row_memory *first = out[i].first;
            if (i > 0) ck_assert_int_gt(first->device, out[i - 1].first->device);
            ck_assert_int_eq(first->device, out[i].device[0]);
            ck_assert_int_eq(out[i].n % out[i].pipelines, 0);
            for (int32_t k = 0; k < out[i].n; k++) {
                const int32_t device = out[i].device[k], in_one = out[i].n / out[i].pipelines;
                seen[device]++;
                ck_assert_int_eq(rows[device].pipeline, first->pipeline + k / in_one);
                ck_assert_int_eq(rows[device].stage, first->stage);
                ck_assert_int_eq(rows[device].memory.weights, first->memory.weights);
                ck_assert_int_eq(type[device], type[first->device]);
            }
        }
        for (int32_t d = 0; d < n; d++) ck_assert_int_eq(seen[d], 1);
        luo_arena_free(arena);
    }
    printf("%d devices without a row of their own\n", shared);
    ck_assert_int_gt(shared, 0);
}
END_TEST

/* ---- what others write ---- */

static const struct {
    luo_table_id id;
    const char *text, *want; /* step or device, pipeline or begin; or the sentence */
} files[] = {
    {LUO_TABLE_STEPS, "step,t_start_s,t_end_s\n4,1,2\n5,2,3\n", "4:1 5:2 "}, /* without `steps` */
    {LUO_TABLE_STEPS, "step,t_start_s,t_end_s,steps\n4,1,3,4\n8,3,4,1\n",
     "4:1 5:1.5 6:2 7:2.5 8:3 "},
    {LUO_TABLE_STEPS, "step,t_start_s,t_end_s,steps\n9223372036854775807,0,1,2\n",
     "9223372036854775807:0 -9223372036854775808:0.5 "},
    {LUO_TABLE_STEPS, "step,steps\n4,0\n5,1\n", "`steps` is 0; 1 to 1000 is expected."},
    {LUO_TABLE_TIMELINE, "step,steps\n4,1001\n", "`steps` is 1001; 1 to 1000 is expected."},
    {LUO_TABLE_MEMORY, "device,pipeline,devices,pipelines\n2,1,\"[2,3,8,9]\",2\n5,,,1\n",
     "2:1 3:1 8:2 9:2 5:0 "},
    {LUO_TABLE_MEMORY, "device,pipeline,devices,pipelines\n2,1,\"[2,3,8]\",2\n",
     "`pipelines` is 2, of 3 devices; a number that divides them is expected."},
    {LUO_TABLE_MEMORY, "device,pipeline,devices,pipelines\n2,1,\"[2,2]\",1\n", "given twice"},
};

START_TEST(of_others)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "others");
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_diags diags;
    luo_str got = {0};
    const luo_table_id id = files[_i].id;
    luo_diags_init(&diags, f->arena);
    ck_assert_int_eq(mkdir(dir, 0777), 0);
    FILE *out = fopen(luo_arena_printf(f->arena, "%s/%s", dir, luo_table_def_at(id)->file), "w");
    ck_assert_ptr_nonnull(out);
    fputs(files[_i].text, out);
    fclose(out);
    luo_repeats *in = luo_repeats_open(f->arena, dir, id, &diags);
    while (luo_repeats_next(in, cells)) {
        if (id == LUO_TABLE_MEMORY)
            luo_str_addf(&got, "%lld:%lld ", (long long)cells[LUO_COL_MEMORY_device].whole,
                         (long long)cells[LUO_COL_MEMORY_pipeline].whole);
        if (id == LUO_TABLE_STEPS)
            luo_str_addf(&got, "%lld:%g ", (long long)cells[LUO_COL_STEPS_step].whole,
                         cells[LUO_COL_STEPS_t_start_s].number);
    }
    const bool good = luo_repeats_close(in) == LUO_OK;
    ck_assert_int_eq(good, strchr(files[_i].want, ':') != NULL);
    if (good)
        ck_assert_str_eq(luo_str_get(&got), files[_i].want);
    else
        ck_assert_ptr_nonnull(strstr(diags.first->err.text, files[_i].want));
    luo_str_free(&got);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

LUO_SUITE("prop.repeats", LUO_T(steps), LUO_T(memory), LUO_T_N(of_others, LUO_ROWS(files)))
