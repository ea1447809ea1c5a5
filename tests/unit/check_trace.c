/* check_trace.c: trace.json.gz (docs/results.md#the-trace): V-T1, the whole fixture, and faults
 * planted into files, each of which the lint must name. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/io/files.h"
#include "core/io/trace/trace.h"
#include "tests/check_main.h"
#include "tests/run_fixture.h"
#include "tests/parked/trace_lint.h"

static const luo_trace_head head = {.scenario = "fixture",
                                    .policy = "static",
                                    .backend = "sim",
                                    .version = "0.1",
                                    .seed = 7,
                                    .scenario_hash = 0xabcd};

static char *unpack(const char *path)
{
    static char text[1 << 20];
    gzFile gz = gzopen(path, "rb");
    ck_assert_ptr_nonnull(gz);
    const int n = gzread(gz, text, sizeof text - 1);
    ck_assert_int_gt(n, 0);
    text[n] = 0;
    gzclose(gz);
    return text;
}

static const char *written(fixture *f, luo_trace *t, const char *dir)
{
    luo_err err = {0};
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    ck_assert_msg(luo_trace_write(t, dir, "trace.json.gz", &head, &err) == LUO_OK, "%s", err.text);
    return luo_arena_printf(f->arena, "%s/trace.json.gz", dir);
}

START_TEST(v_t1)
{
    static const luo_segment seg = {LUO_PHASE_F, 0, 8, 0, 2};
    static const luo_run_task task = {0, 0};
    static const luo_message message = {2, true, 1, 4};
    const luo_slot slot = {.group = -1, .nmessage = 1, .message = &message};
    const luo_instr in[] = {
        {.id = 0, .phase = LUO_PHASE_F, .slot = -1, .exchange = -1},
        {.id = 1,
         .op = -1,
         .phase = LUO_PHASE_F,
         .kind = LUO_INSTR_P2P,
         .stream = LUO_STREAM_PP}};
    const luo_role role = {.ninstr = 2, .nseg = 1, .nslot = 1, .instr = in, .seg = &seg};
    const luo_op_info op = {"layers.0.w", LUO_OP_MATMUL, 0};
    const luo_program p = {.device = 0, .ntask = 1, .tasks = &task, .slots = &slot};
    const luo_programs set = {.n = 1, .at = &p, .nroles = 1, .roles = &role, .nops = 1, .ops = &op};
    const luo_op_record rec[] = {{0, 0, 0, 0, 0.01, LUO_OK}, {0, 0, 1, 0.01, 0.0110005, LUO_OK}};
    const luo_step_result result = {.end_s = 0.0110005, .n = 1, .nrecords = 2, .records = rec};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "vt1");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_trace_counts counts;
    luo_err err = {0};
    ck_assert_int_eq(luo_trace_step(t, 0, 0, 0, &set, &result, &err), LUO_OK);
    const char *path = written(f, t, dir);
    ck_assert_msg(luo_trace_lint(path, &counts, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(counts.slices, 2);
    const char *text = unpack(path);
    ck_assert_ptr_nonnull(strstr(text, "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":0.000,"
                                       "\"dur\":10000.000,\"name\":\"layers.w\","
                                       "\"cat\":\"compute\","
                                       "\"args\":{\"op\":\"layers.0.w\",\"kind\":\"F\""));
    ck_assert_ptr_nonnull(strstr(text, "{\"ph\":\"X\",\"pid\":1,\"tid\":3,\"ts\":10000.000,"
                                       "\"dur\":1000.500,\"name\":\"send\",\"cat\":\"pp\""));
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

static luo_status add_run(luo_trace *t, const fixture *f, luo_err *err)
{
    const luo_step_result result = fix_result(f);
    static const luo_row_event events[] = {
        {.t_s = 0.05,
         .value = 2.5,
         .has_value = true,
         .id = "slow1",
         .phase = LUO_EVENT_PHASE_FIRED,
         .kind = "straggler",
         .target = "device:1",
         .detail = ""},
        {.t_s = 0.06,
         .value = 2,
         .has_value = true,
         .id = "slow2",
         .phase = LUO_EVENT_PHASE_FIRED,
         .kind = "straggler",
         .target = "node:h20-0",
         .detail = ""},
        {.t_s = 0.07,
         .id = "slow1",
         .phase = LUO_EVENT_PHASE_ENDED,
         .kind = "straggler",
         .target = "device:1",
         .detail = ""},
        {.t_s = 0.08,
         .id = "x",
         .phase = LUO_EVENT_PHASE_IGNORED,
         .kind = "fail",
         .target = "any device:[0-3]",
         .detail = "it \"is\" down"},
    };
    const luo_row_timeline spans[] = {
        {.start_s = 0, .end_s = 0.15, .kind = LUO_SPAN_STEP, .blocking = true, .event = ""},
        {.start_s = 0.15, .end_s = 0.2, .kind = LUO_SPAN_RESTART, .blocking = true, .event = "x"},
        {.start_s = 0.01, .end_s = 0.1, .kind = LUO_SPAN_PLAN, .event = "x"},
        {.start_s = 0.05, .end_s = 0.12, .kind = LUO_SPAN_PLAN, .event = "slow1"},
        {.start_s = 0.13, .end_s = 0.13, .kind = LUO_SPAN_DETECT, .event = "slow1"},
    };
    LUO_TRY(luo_trace_step(t, 0, 0, 0, &f->set, &result, err));
    for (int i = 0; i < LUO_ROWS(events); i++) LUO_TRY(luo_trace_event(t, &events[i], err));
    for (int i = 0; i < LUO_ROWS(spans); i++) LUO_TRY(luo_trace_span(t, &spans[i], err));
    return luo_trace_step(t, 3, 1, 0.4, &f->set, &result, err);
}

/* Start and end of a flow tell the same message: its send begins where the arrow begins. */
static void check_flows(const json_t *list)
{
    size_t i, j, arrows = 0;
    json_t *a, *b;
    json_array_foreach(list, i, a)
    {
        if (strcmp(json_string_value(json_object_get(a, "ph")), "s") != 0) continue;
        const json_int_t from = (json_integer_value(json_object_get(a, "tid")) - 1) / 8;
        json_array_foreach(list, j, b)
        {
            if (strcmp(json_string_value(json_object_get(b, "ph")), "f") != 0 ||
                !json_equal(json_object_get(a, "id"), json_object_get(b, "id")))
                continue;
            const json_int_t to = (json_integer_value(json_object_get(b, "tid")) - 1) / 8;
            ck_assert_int_eq(to, (from + 2) % 4);
            arrows++;
        }
    }
    ck_assert_uint_eq(arrows, 2 * 8);
}

static double sum_of(const json_t *list, const char *name, int tid)
{
    size_t i;
    json_t *e;
    double us = 0;
    json_array_foreach(list, i,
                       e) if (strcmp(json_string_value(json_object_get(e, "name")), name) == 0 &&
                              json_integer_value(json_object_get(e, "tid")) == tid) us +=
        json_number_value(json_object_get(e, "dur"));
    return us;
}

START_TEST(whole)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "whole");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_trace_counts counts;
    luo_str says = {0};
    luo_err err = {0};
    ck_assert_msg(add_run(t, f, &err) == LUO_OK, "%s", err.text);
    ck_assert(!luo_trace_warning(t, &says));
    const char *path = written(f, t, dir);
    ck_assert_msg(luo_trace_lint(path, &counts, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(counts.flows, 2 * 8); /* 2 micro-batches, both ways, tp 2; two steps */
    json_t *j = json_loads(unpack(path), 0, NULL);
    const json_t *list = json_object_get(j, "traceEvents");
    check_flows(list);
    /* Device 0 waits 0.06 to 0.09, when its gradient is sent, and from 0.14 to 0.15; device 2's
     * receive is posted at 0, its message comes at 0.02 and it works to 0.13. */
    ck_assert_double_eq_tol(sum_of(list, "wait", 1), 2 * 40000.0, 1e-6);
    ck_assert_double_eq_tol(sum_of(list, "wait", 17), 2 * (20000.0 + 20000.0), 1e-6);
    ck_assert_double_eq_tol(sum_of(list, "d.layers.mm recompute", 17), 2 * 20000.0, 1e-6);
    const char *text = unpack(path);
    static const char *const parts[] = {
        "\"name\":\"thread_name\",\"args\":{\"name\":\"dev 1 tp\"}",
        "\"name\":\"process_name\",\"args\":{\"name\":\"h20-1 (H20)\"}",
        "\"pid\":1000000,\"tid\":3,\"ts\":50000.000,\"name\":\"straggler device:1\",\"s\":\"g\"",
        "\"pid\":1,\"tid\":9,\"ts\":50000.000,\"name\":\"straggler device:1\",\"s\":\"t\"",
        "\"pid\":1000000,\"tid\":3,\"ts\":80000.000,\"name\":\"ignored fail any device:[0-3]\"",
        "\"detail\":\"it \\\"is\\\" down\"",
        "\"pid\":1,\"ts\":0.000,\"name\":\"dev 1 slowdown\",\"args\":{\"factor\":1.000000}",
        "\"pid\":1,\"ts\":60000.000,\"name\":\"dev 1 slowdown\",\"args\":{\"factor\":5.000000}",
        "\"pid\":1,\"ts\":70000.000,\"name\":\"dev 1 slowdown\",\"args\":{\"factor\":2.000000}",
        "\"name\":\"dev 0 memory\",\"args\":{\"bytes\":1200}",
        /* 1e9 bytes up and 5e8 down in 0.15 s at 5e10 bytes/s, in the steps at 0 and at 0.4 s */
        "\"ts\":0.000,\"name\":\"h20-0/nic0> utilisation\",\"args\":{\"ratio\":0.133333}",
        "\"ts\":0.000,\"name\":\"h20-0/nic0< utilisation\",\"args\":{\"ratio\":0.066667}",
        "\"ts\":150000.000,\"name\":\"h20-0/nic0> utilisation\",\"args\":{\"ratio\":0.000000}",
        "\"ts\":150000.000,\"name\":\"h20-0/nic0< utilisation\",\"args\":{\"ratio\":0.000000}",
        "\"ts\":400000.000,\"name\":\"h20-0/nic0> utilisation\",\"args\":{\"ratio\":0.133333}",
        "\"ts\":400000.000,\"name\":\"h20-0/nic0< utilisation\",\"args\":{\"ratio\":0.066667}",
        "\"pid\":1000000,\"tid\":2,\"ts\":150000.000,\"dur\":50000.000,\"name\":\"restart\"",
    };
    for (int i = 0; i < LUO_ROWS(parts); i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "%s", parts[i]);
    ck_assert_ptr_null(strstr(text, "dev 0 dp")); /* carries nothing */
    json_decref(j);
    luo_trace_free(t);
    luo_str_free(&says);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* An attempt that fails while receives of backward tasks are posted: they give nothing back. */
START_TEST(posted_and_failed)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "posted");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_trace_counts counts;
    luo_err err = {0};
    luo_step_result result = fix_result(f);
    luo_op_record *kept = LUO_NEW_N(f->arena, luo_op_record, result.nrecords);
    int32_t n = 0;
    for (int32_t i = 0; i < result.nrecords; i++) {
        const luo_program *p = luo_programs_find(&f->set, result.records[i].device);
        const int32_t seg = p->tasks[result.records[i].task].seg;
        if (f->set.roles[p->role].seg[seg].phase != LUO_PHASE_B) continue;
        kept[n] = result.records[i];
        kept[n++].status = LUO_EPEER;
    }
    ck_assert_int_gt(n, 0);
    result.records = kept;
    result.nrecords = n;
    ck_assert_int_eq(luo_trace_step(t, 0, 0, 0, &f->set, &result, &err), LUO_OK);
    const char *path = written(f, t, dir);
    ck_assert_msg(luo_trace_lint(path, &counts, &err) == LUO_OK, "%s", err.text);
    const char *level = strstr(unpack(path), "\"name\":\"dev 0 memory\",");
    ck_assert_ptr_nonnull(level);
    ck_assert_ptr_null(strstr(level + 1, "\"name\":\"dev 0 memory\","));
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* At every limit the file is sound, within the limit but for names, and says what is missing. */
/* Steps that follow each other at once and are rounded one by one: a kernel or a wait that ends
 * with its step does not reach into the next. */
START_TEST(steps_in_a_row)
{
    static const luo_segment seg = {LUO_PHASE_F, 0, 8, 0, 1};
    static const luo_run_task task = {0, 0};
    static const luo_instr in = {.phase = LUO_PHASE_F, .slot = -1, .exchange = -1};
    const luo_role role = {.ninstr = 1, .nseg = 1, .instr = &in, .seg = &seg};
    const luo_op_info op = {"layers.0.w", LUO_OP_MATMUL, 0};
    const luo_program p = {.device = 0, .ntask = 1, .tasks = &task};
    const luo_programs set = {.n = 1, .at = &p, .nroles = 1, .roles = &role, .nops = 1, .ops = &op};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "row");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_trace_counts counts;
    luo_err err = {0};
    double now_s = _i ? 8899094.086938 : 0; /* where two doubles are 2 ns apart */
    for (int step = 0; step < 200; step++) { /* every second one waits last, the others first */
        const double s = 10.3e-6, wait_s = 5.4e-6 + 0.37e-9 * step;
        const double at_s = step % 2 ? 0 : wait_s;
        const luo_op_record rec = {0, 0, 0, at_s, at_s + s, LUO_OK};
        const luo_step_result result = {
            .end_s = s + wait_s, .n = 1, .nrecords = 1, .records = &rec};
        ck_assert_int_eq(luo_trace_step(t, step, 0, now_s, &set, &result, &err), LUO_OK);
        now_s += s + wait_s;
    }
    const char *path = written(f, t, dir);
    ck_assert_msg(luo_trace_lint(path, &counts, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(counts.slices, 400);
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* A straggler in a run of which no step is traced: its slowdown is a counter of its node, and no
 * track is named but that of the device where it says so. */
START_TEST(counters_have_no_track)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "counters");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_trace_counts counts;
    luo_err err = {0};
    const luo_row_event slow = {.t_s = 0.05, .id = "s", .phase = LUO_EVENT_PHASE_FIRED,
                                .kind = "straggler", .target = "device:1", .detail = "",
                                .has_value = true, .value = 2.5};
    ck_assert_int_eq(luo_trace_event(t, &slow, &err), LUO_OK);
    const char *path = written(f, t, dir);
    ck_assert_msg(luo_trace_lint(path, &counts, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(counts.slices, 0);
    const char *text = unpack(path);
    ck_assert_ptr_nonnull(strstr(text, "\"name\":\"dev 1 slowdown\",\"args\":{\"factor\":2.5"));
    ck_assert_ptr_null(strstr(text, "{\"name\":\"dev 0 "));
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* Records stand in the order of issue; a slice begins when its record does, though a later one did
 * before it. */
START_TEST(later_records_may_begin_first)
{
    static const luo_segment seg = {LUO_PHASE_F, 0, 8, 0, 2};
    static const luo_run_task task = {0, 0};
    static const luo_instr in[] = {{.phase = LUO_PHASE_F, .slot = -1, .exchange = -1},
                                   {.phase = LUO_PHASE_F, .slot = -1, .exchange = -1, .op = 1}};
    const luo_role role = {.ninstr = 2, .nseg = 1, .instr = in, .seg = &seg};
    const luo_op_info ops[] = {{"layers.0.w", LUO_OP_MATMUL, 0}, {"norm", LUO_OP_NORM, 0}};
    const luo_program p = {.device = 0, .ntask = 1, .tasks = &task};
    const luo_programs set = {.n = 1, .at = &p, .nroles = 1, .roles = &role, .nops = 2, .ops = ops};
    const luo_op_record rec[] = {{0, 0, 0, 10e-6, 20e-6, LUO_OK}, {0, 0, 1, 0, 5e-6, LUO_OK}};
    const luo_step_result result = {.end_s = 20e-6, .n = 1, .nrecords = 2, .records = rec};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "later");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_trace_counts counts;
    luo_err err = {0};
    ck_assert_int_eq(luo_trace_step(t, 0, 0, 0, &set, &result, &err), LUO_OK);
    const char *path = written(f, t, dir);
    ck_assert_msg(luo_trace_lint(path, &counts, &err) == LUO_OK, "%s", err.text);
    json_t *j = json_loads(unpack(path), 0, NULL), *e;
    size_t i;
    int met = 0;
    json_array_foreach(json_object_get(j, "traceEvents"), i, e)
    {
        const char *ph = json_string_value(json_object_get(e, "ph"));
        const double ts = json_number_value(json_object_get(e, "ts")),
                     dur = json_number_value(json_object_get(e, "dur"));
        if (strcmp(ph, "X") != 0) continue;
        met += (ts == 0 && dur == 5) || (ts == 5 && dur == 5) || (ts == 10 && dur == 10);
    }
    ck_assert_int_eq(met, 3); /* the second record, what is waited, the first */
    ck_assert_int_eq(counts.slices, 3);
    json_decref(j);
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* The twin holds all events; the other puts them into a file every `hold` of them. */
START_TEST(what_waits_in_a_file_comes_back_in_order)
{
    static const int64_t holds[] = {1, 3, 40};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "spill");
    luo_err err = {0};
    char *text[2];
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    for (int spills = 0; spills < 2; spills++) {
        luo_trace *t = luo_trace_new(&f->cluster, 0);
        if (spills) ck_assert_int_eq(luo_trace_spill_to(t, dir, holds[_i], &err), LUO_OK);
        ck_assert_int_eq(add_run(t, f, &err), LUO_OK);
        for (int k = 0; k < 3000; k++) { /* more than a block, and many of one date */
            const double at_s = 2 + (k % 7) * 0.1;
            const luo_row_timeline row = {.start_s = at_s, .end_s = at_s, .kind = LUO_SPAN_PLAN,
                                          .step = k, .event = ""};
            ck_assert_int_eq(luo_trace_span(t, &row, &err), LUO_OK);
        }
        text[spills] = luo_arena_strdup(f->arena, unpack(written(f, t, dir)));
        luo_trace_free(t);
    }
    ck_assert(strlen(text[0]) > 300000);
    ck_assert(strcmp(text[0], text[1]) == 0);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* The sentence has the system's word for it, and the folder. */
START_TEST(no_room_for_what_waits)
{
    const struct rlimit limit = {1000, 1000};
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "full");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_err err = {0};
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    ck_assert_int_eq(luo_trace_spill_to(t, dir, 4, &err), LUO_OK);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(add_run(t, f, &err), LUO_EIO);
    ck_assert_str_eq(err.text, luo_arena_printf(f->arena, "cannot write the trace in %s: "
                                                          "file too large.", dir));
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

START_TEST(limits)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "limits");
    int full = 0, part = 0, none = 0;
    for (int64_t limit = 10; limit < 260; limit += 7) {
        luo_trace *t = luo_trace_new(&f->cluster, limit);
        luo_trace_counts counts = {0};
        luo_str says = {0};
        luo_err err = {0};
        ck_assert_int_eq(add_run(t, f, &err), LUO_OK);
        const bool less = luo_trace_warning(t, &says);
        ck_assert_int_le(luo_trace_events(t), limit);
        const char *path = written(f, t, dir);
        ck_assert_msg(luo_trace_lint(path, &counts, &err) == LUO_OK, "limit %d: %s", (int)limit,
                      err.text);
        if (!less)
            full++;
        else if (strstr(says.at, " of 4 devices of one traced step"))
            part++;
        else
            none++;
        luo_trace_free(t);
        luo_str_free(&says);
    }
    ck_assert_int_gt(full, 0);
    ck_assert_int_gt(part, 0);
    ck_assert_int_gt(none, 0);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

START_TEST(a_long_run_without_traced_steps)
{
    fixture *f = fix_new();
    luo_trace *t = luo_trace_new(&f->cluster, 40);
    luo_err err = {0};
    luo_str says = {0};
    char wanted[160];
    for (int i = 0; i < 60; i++) {
        const luo_row_timeline row = {
            .start_s = i, .end_s = i + 1, .kind = LUO_SPAN_DETECT, .blocking = true, .event = ""};
        ck_assert_int_eq(luo_trace_span(t, &row, &err), LUO_OK);
    }
    ck_assert(luo_trace_warning(t, &says));
    snprintf(wanted, sizeof wanted,
             "trace.json.gz lacks %d events of the run (limit 40 events); timeline.csv and "
             "events.csv have all.", 60 - (int)luo_trace_events(t));
    ck_assert_str_eq(says.at, wanted);
    luo_str_free(&says);
    luo_trace_free(t);
    luo_arena_free(f->arena);
}
END_TEST

#define META                                                                                       \
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"n\"}},"                \
    "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"a\"}},"       \
    "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"b\"}},"
#define X(tid, ts, dur)                                                                            \
    "{\"ph\":\"X\",\"pid\":1,\"tid\":" tid ",\"ts\":" ts ",\"dur\":" dur ",\"name\":\"F\"}"
#define FLOW(ph, tid, ts, more)                                                                    \
    "{\"ph\":\"" ph "\",\"pid\":1,\"tid\":" tid ",\"ts\":" ts                                      \
    ",\"name\":\"p\",\"cat\":\"c\"," more "}"
#define TWO X("1", "0.000", "5.000") "," X("2", "1.000", "5.000")

static const struct {
    const char *events, *says; /* says "": sound */
} planted[] = {
    {META TWO, ""},
    {META X("1", "0.000", "5.000") "," X("1", "0.000", "2.000") "," X("1", "2.000", "3.000") "," X(
         "2", "5.000", "1.000"),
     ""},
    {META TWO
     "," FLOW("s", "2", "2.000", "\"id\":1") "," FLOW("f", "1", "5.000", "\"id\":1,\"bp\":\"e\""),
     "event 6 of the trace: a flow ends or begins outside of any slice."},
    {META TWO
     "," FLOW("s", "1", "2.000", "\"id\":1") "," FLOW("f", "2", "5.999", "\"id\":1,\"bp\":\"e\""),
     ""},
    {META X("\"1\"", "0.000", "5.000"), "event 3 of the trace: `tid` is no integer above 0."},
    {META X("0", "0.000", "5.000"), "event 3 of the trace: `tid` is no integer above 0."},
    {META X("1", "3.000", "5.000") "," X("2", "1.000", "5.000"),
     "event 4 of the trace: events are not sorted by `ts`."},
    {META X("1", "0.000", "2.000") "," X("1", "0.000", "5.000"),
     "event 4 of the trace: at equal `ts` the longer slice must stand first."},
    {META X("1", "0.000", "2.000") "," X("1", "1.999", "5.000"),
     "event 4 of the trace: a slice overlaps the one before it on its track."},
    {META X("1", "0.000", "0.000"), "event 3 of the trace: a slice has no length."},
    {META X("1", "-1.000", "5.000"), "event 3 of the trace: `ts` is no number from 0 on."},
    {META X("1", "0.000", "\"5\""), "event 3 of the trace: `dur` is no number from 0 on."},
    {META X("3", "0.000", "5.000"), "event 3 of the trace: its track has no name."},
    {META X("1", "0.000", "5.000"), "event 3 of the trace: a track is named but carries nothing."},
    {META TWO ",{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"thread_name\"}",
     "event 5 of the trace: metadata stands behind other events."},
    {META TWO "," FLOW("s", "1", "2.000", "\"id\":1"), "event 5 of the trace: a flow has no end."},
    {META TWO "," FLOW("f", "1", "2.000", "\"id\":1,\"bp\":\"e\""),
     "event 5 of the trace: a flow ends that has not begun."},
    {META TWO "," FLOW("s", "1", "2.000", "\"id\":1") "," FLOW("s", "1", "2.000", "\"id\":1"),
     "event 6 of the trace: a flow begins twice."},
    {META TWO "," FLOW("s", "1", "2.000", "\"id\":1") "," FLOW("f", "2", "3.000", "\"id\":1"),
     "event 6 of the trace: the end of a flow lacks `bp` `e`."},
    {META TWO "," FLOW("s", "1", "2.000", "\"id\":\"1\""),
     "event 5 of the trace: a flow has no integer `id` above 0."},
    {META TWO ",{\"ph\":\"i\",\"pid\":2,\"tid\":9,\"ts\":9,\"name\":\"a\"}",
     "event 5 of the trace: its process has no name."},
    {META TWO ",{\"ph\":\"C\",\"pid\":1,\"ts\":9,\"name\":\"a\",\"args\":{\"v\":\"1\"}}",
     "event 5 of the trace: the value of a counter is no number."},
    {META TWO ",{\"ph\":\"B\",\"pid\":1,\"tid\":1,\"ts\":9,\"name\":\"a\"}",
     "event 5 of the trace: `ph` is none of M X s f C i."},
    {"{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\"}," META TWO
     ",{\"ph\":\"i\",\"pid\":2,\"tid\":1,\"ts\":9,\"name\":\"a\"}",
     "event 6 of the trace: its tid belongs to another pid."},
    {META TWO ",", "unexpected token near ']'."},
};

START_TEST(lint)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "lint");
    luo_err err = {0};
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    const char *path = luo_arena_printf(f->arena, "%s/t.json", dir);
    FILE *out = fopen(path, "w");
    fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[%s]}",
            planted[_i].events);
    fclose(out);
    const luo_status st = luo_trace_lint(path, NULL, &err);
    ck_assert_str_eq(err.text, planted[_i].says);
    ck_assert_int_eq(st == LUO_OK, planted[_i].says[0] == 0);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* A gzip file that was cut short is told from a sound one. */
START_TEST(cut)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "cut");
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_err err = {0};
    ck_assert_int_eq(add_run(t, f, &err), LUO_OK);
    const char *path = written(f, t, dir);
    ck_assert_int_eq(truncate(path, 300), 0);
    ck_assert_int_eq(luo_trace_lint(path, NULL, &err), LUO_EPARSE);
    ck_assert_int_eq(luo_trace_write(t, "/nonexistent", "t.gz", &head, &err), LUO_EIO);
    ck_assert_str_eq(
        err.text,
        "cannot write `/nonexistent/t.gz`: no such file or directory; choose another place "
        "or free some.");
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* The head names every plan and its programs, in order. */
START_TEST(plans_in_the_head)
{
    static const uint64_t plans[] = {0xa1, 0xa2}, programs[] = {0xb1, 0xb2};
    fixture *f = fix_new();
    luo_trace *t = luo_trace_new(&f->cluster, 0);
    luo_trace_head two = head;
    luo_err err = {0};
    char path[512];
    const char *dir = fix_dir(f->arena, "trace-head");
    ck_assert_int_eq(mkdir(dir, 0777), 0);
    two.nplans = 2;
    two.plans = plans;
    two.programs = programs;
    ck_assert_msg(luo_trace_write(t, dir, "t.gz", &two, &err) == LUO_OK, "%s", err.text);
    snprintf(path, sizeof path, "%s/t.gz", dir);
    char *text = unpack(path), *to = text;
    for (const char *at = text; *at; at++)
        if (!strchr(" \n", *at)) *to++ = *at;
    *to = 0;
    ck_assert_ptr_nonnull(strstr(text, "\"plan_hashes\":[\"00000000000000a1\","
                                       "\"00000000000000a2\"],\"program_hashes\":["
                                       "\"00000000000000b1\",\"00000000000000b2\"]"));
    luo_trace_free(t);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

LUO_SUITE("io.trace", LUO_T(v_t1), LUO_T(whole), LUO_T_N(steps_in_a_row, 2),
          LUO_T(later_records_may_begin_first), LUO_T(counters_have_no_track),
          LUO_T(posted_and_failed), LUO_T_N(what_waits_in_a_file_comes_back_in_order, 3),
          LUO_T(no_room_for_what_waits), LUO_T(limits),
          LUO_T(a_long_run_without_traced_steps), LUO_T_N(lint, LUO_ROWS(planted)),
          LUO_T(cut), LUO_T(plans_in_the_head))
