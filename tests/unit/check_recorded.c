/* check_recorded.c: timelines of StragglerAnalysis and jobs of AcmeTrace (core/io/recorded): vector
 * V-X1 of the conventions, what is made of them, and every sentence. All numbers are synthetic.
 * What the command says: tests/golden/import_recorded.sh. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/convert/convert.h"
#include "core/io/files.h"
#include "core/io/read/read.h"
#include "tests/check_main.h"

static luo_arena *arena;
static luo_diags diags;
static char dir[64], source[128], meta[128];

static void begin(const char *name)
{
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    snprintf(dir, sizeof dir, "build/check_recorded.%ld", (long)getpid());
    snprintf(source, sizeof source, "%s/%s", dir, name);
    snprintf(meta, sizeof meta, "%s/meta-T.yaml", dir);
    mkdir(dir, 0777);
}

static void end(void)
{
    unlink(source);
    unlink(meta);
    rmdir(dir);
    luo_arena_free(arena);
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(name, "wb");
    ck_assert(f && fwrite(text, 1, strlen(text), f) == strlen(text) && fclose(f) == 0);
}

static luo_status convert(luo_convert_kind kind, const char *text, luo_convert_opts opts,
                          luo_convert_made *made)
{
    put(source, text);
    opts.kind = kind;
    opts.source = source;
    const luo_status st = luo_convert(arena, &opts, made, &diags);
    ck_assert_int_eq(st == LUO_OK, diags.n_errors == 0);
    return st;
}

static const char *first(luo_severity severity)
{
    for (const luo_diag *d = diags.first; d; d = d->next)
        if (d->severity == severity) return d->err.text;
    return "";
}

static const char *file_of(const luo_convert_made *made, const char *name)
{
    for (int32_t i = 0; i < made->nfiles; i++)
        if (strcmp(made->file[i].name, name) == 0) return made->file[i].text;
    return "";
}

/* ---- timelines ---- */

enum { PIPELINES = 2, STAGES = 2, TENSOR = 2, LANES = 5 };
static const char META[] = "trial_name: T\nrun_id: 0\ndp_size: 2\ndsp_size: 1\npp_size: 2\n"
                           "tp_size: 2\nvpp_size: 1\nworld_size: 8\n";

static void add_thread(luo_str *text, int pipeline, int stage, int tensor)
{
    static const char *const lanes[LANES] = {"compute", "pp-comm", "tp-comm", "dp-comm", "misc"};
    const int rank = tensor + TENSOR * (pipeline + PIPELINES * stage);
    for (int i = 0; i < LANES; i++)
        luo_str_addf(text,
                     ", {\"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"ph\": \"M\", "
                     "\"args\": {\"name\": \"PP rank %d, TP rank %d, %s\"}}",
                     pipeline, LANES * rank + i, stage, tensor, lanes[i]);
}

static void add_slice(luo_str *text, int pipeline, int stage, int tensor, int lane,
                      const char *name, int step, double ts, double us)
{
    const int rank = tensor + TENSOR * (pipeline + PIPELINES * stage);
    luo_str_addf(text,
                 "%s{\"name\": \"%s\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.1f, "
                 "\"dur\": %.1f, \"ph\": \"X\", \"args\": {\"step\": %d, \"model_chunk\": 0, "
                 "\"mb_id\": %s, \"seq_id\": 0}}",
                 text->len > 1 ? ", " : "", name, name, pipeline, LANES * rank + lane, ts, us, step,
                 lane ? "null" : "0");
}

/* Two steps of 10 ms forward and 20 ms backward; stage 1 of pipeline 1 takes 1.5 times as long. */
static const char *timeline(luo_str *text)
{
    luo_str_add(text, "[");
    for (int step = 7; step < 9; step++)
        for (int d = 0; d < PIPELINES; d++)
            for (int s = 0; s < STAGES; s++)
                for (int t = 0; t < TENSOR; t++) {
                    const double slow = d == 1 && s == 1 ? 1.5 : 1, at = 1e9 + 1e5 * step;
                    add_slice(text, d, s, t, 3, "params-all-gather", step, at, 100);
                    add_slice(text, d, s, t, 0, "forward-compute", step, at + 100, 1e4 * slow);
                    add_slice(text, d, s, t, 0, "backward-compute", step, at + 2e4, 2e4 * slow);
                }
    for (int d = 0; d < PIPELINES; d++)
        for (int s = 0; s < STAGES; s++)
            for (int t = 0; t < TENSOR; t++) add_thread(text, d, s, t);
    luo_str_add(text, ", {\"name\": \"process_name\", \"pid\": 0, \"ph\": \"M\", \"args\": {}}]");
    return luo_str_get(text);
}

START_TEST(recorded_steps)
{
    luo_convert_made made;
    luo_str text = {0};
    luo_plan *plan;
    begin("timeline-T.json.gz"); /* gzip or not is seen in the bytes */
    put(meta, META);
    ck_assert_int_eq(convert(LUO_CONVERT_STRAGGLERS, timeline(&text), (luo_convert_opts){0}, &made),
                     LUO_OK);
    ck_assert_str_eq(made.summary,
                     "24 operations of 2 steps: 2 pipelines of 2 stages, 1 micro-batch; stage 1 of "
                     "pipeline 1 takes longest beside others, 1.500 times as long");
    /* device = tensor + 2 * (pipeline + 2 * stage): stage 1 of pipeline 1 has 6 and 7 */
    ck_assert_ptr_nonnull(strstr(file_of(&made, "rates.csv"),
                                 "\ndevice,rate\n0,1\n1,1\n2,1\n3,1\n4,1\n5,1\n6,1.5\n7,1.5\n"));
    ck_assert_ptr_nonnull(strstr(file_of(&made, "events.csv"),
                                 "duration_s,id\n0,straggler,device:[6-7],1.5,,p1-s1\n"));
    ck_assert_ptr_nonnull(
        strstr(file_of(&made, "recorded.csv"),
               "\n7,0,0,compute,backward-compute,0,0,0,0.020000000,0.020000000\n"
               "7,0,0,compute,forward-compute,0,0,0,0.000100000,0.010000000\n"
               "7,0,0,dp,params-all-gather,0,-1,0,0.000000000,0.000100000\n7,0,1,"));
    const char *json = file_of(&made, "plan.json");
    const luo_source src = {"plan.json", json, strlen(json)};
    ck_assert_int_eq(luo_read_plan_text(arena, &src, &plan, &diags), LUO_OK);
    ck_assert_int_eq(plan->npipelines, 2);
    ck_assert_int_eq(plan->devices, 8);
    ck_assert_int_eq(plan->zero, 1); /* it gathers parameters */
    ck_assert_int_eq(plan->pipelines[1].micro_batches, 1);
    ck_assert_int_eq(plan->pipelines[1].stages[1].ndev, 2);
    ck_assert_int_eq(plan->pipelines[1].stages[1].dev[0], 6);
    luo_str_free(&text);
    end();
}
END_TEST

START_TEST(v_x1)
{
    luo_convert_made made;
    begin("a.json");
    ck_assert_int_eq(
        convert(LUO_CONVERT_STRAGGLERS,
                "{\"traceEvents\": [{\"name\": \"forward-compute\", \"pid\": 3, \"tid\": 140, "
                "\"ts\": 5, \"dur\": 2e6, \"ph\": \"X\", \"args\": {\"step\": 1}}, "
                "{\"name\": \"forward-compute\", \"pid\": 0, \"tid\": 0, "
                "\"ts\": 7, \"dur\": -1, \"ph\": \"X\", \"args\": {\"step\": 1}}, "
                "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 3, \"tid\": 140, \"args\": "
                "{\"name\": \"PP rank 1, TP rank 0, compute\"}}, "
                "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 0, \"tid\": 0, \"args\": "
                "{\"name\": \"PP rank 0, TP rank 0, compute\"}}]}",
                (luo_convert_opts){0}, &made),
        LUO_OK);
    ck_assert_ptr_nonnull(
        strstr(file_of(&made, "recorded.csv"),
               "\n1,0,0,compute,forward-compute,-1,-1,0,0.000002000,0.000000000\n"
               "1,3,1,compute,forward-compute,-1,-1,0,0.000000000,2.000000000\n"));
    ck_assert_str_eq(first(LUO_WARNING), "1 durations below 0 count as 0.");
    end();
}
END_TEST

#define HEAD "step,dp_rank,pp_rank,lane,op,model_chunk,mb_id,seq_id,start_us,dur_us\n"
START_TEST(flat_table)
{
    luo_convert_made made;
    begin("flat.csv");
    ck_assert_int_eq(convert(LUO_CONVERT_STRAGGLERS,
                             HEAD "3,0,0,compute,forward-compute,0,0,0,10,100\n"
                                  "3,1,0,compute,forward-compute,0,0,0,10,104\n"
                                  "3,2,0,compute,forward-compute,0,0,0,10,208\n",
                             (luo_convert_opts){.sequence_tokens = 512}, &made),
                     LUO_OK);
    /* of three the middle one is 104 */
    ck_assert_ptr_nonnull(strstr(file_of(&made, "rates.csv"), "rate\n0,1\n1,1\n2,2\n"));
    ck_assert_ptr_nonnull(
        strstr(file_of(&made, "events.csv"), "\n0,straggler,device:[2],2,,p2-s0\n"));
    ck_assert_ptr_nonnull(strstr(file_of(&made, "plan.json"), "\"sequence_tokens\": 512"));
    ck_assert_str_eq(
        first(LUO_NOTE),
        "there is no meta-NAME.yaml beside a timeline-NAME.json.gz: sizes are those of "
        "the operations, with one device a stage.");
    end();
}
END_TEST

#define SLICE "{\"name\": \"gc\", \"pid\": 0, \"tid\": 0, \"ts\": 1, \"dur\": 1, \"ph\": \"X\""
#define THREAD(name)                                                                               \
    "{\"name\": \"thread_name\", \"pid\": 0, \"tid\": 0, \"ph\": \"M\", \"args\": {\"name\": "     \
    "\"" name "\"}}"
static const struct {
    const char *meta, *text, *says;
} bad[] = {
    {NULL, "{\"a\": 1}", "a list of events is expected."},
    {NULL, "[]", "there is no operation in it."},
    {NULL, "[" SLICE ", \"args\": {\"step\": 1}}]", "thread 0 of process 0 has no `thread_name`."},
    {NULL, "[" SLICE ", \"args\": {}}, " THREAD("PP rank 0, TP rank 0, misc") "]",
     "an operation without `name`, `pid`, `tid`, `ts`, `dur` and `step`."},
    {NULL, "[" THREAD("stage 0") "]",
     "a thread is `stage 0`; \"PP rank P, TP rank T, LANE\" is expected."},
    {NULL, "[" SLICE ", \"args\": {\"step\": 1}}, " THREAD("PP rank 0, TP rank 0, misc") "]",
     "stage 0 of pipeline 0 has no `forward-compute` in its first step."},
    {"pp_size: 1\n",
     "[" SLICE ", \"args\": {\"step\": 1}}, " THREAD("PP rank 2, TP rank 0, misc") "]",
     "it has 1 pipelines of 3 stages with 0 chunks; its meta file says 1, 1 and 1."},
    {"tp_size: two\n", "[]", "`tp_size` is `two`; a whole number from 1 is expected."},
    {"dp_size: 131072\ntp_size: 131072\n",
     "[" SLICE ", \"args\": {\"step\": 1}}, " THREAD("PP rank 0, TP rank 0, misc") "]",
     "it has 17179869184 devices and 1 chunks of a pipeline; at most 131072 are expected."},
    {NULL, "\x1f\x8b\x08", "it is no whole gzip file."},
};

START_TEST(bad_timeline)
{
    luo_convert_made made;
    begin("timeline-T.json");
    if (bad[_i].meta) put(meta, bad[_i].meta);
    ck_assert_int_ne(convert(LUO_CONVERT_STRAGGLERS, bad[_i].text, (luo_convert_opts){0}, &made),
                     LUO_OK);
    ck_assert_str_eq(first(LUO_ERROR), bad[_i].says);
    end();
}
END_TEST

/* ---- jobs ---- */

#define JOBS                                                                                       \
    "job_id,user,node_num,gpu_num,state,submit_time,start_time,end_time,fail_time,duration\n"      \
    "a,u1,8,64,FAILED,x,x,2023-05-17 11:01:16+00:00,2023-05-17 11:01:06+00:00,18\n"                \
    "b,u1,8,64,CANCELLED,x,x,2023-05-17 11:30:04+00:00,,82\n"                                      \
    "c,u1,8,64,NODE_FAIL,x,x,2023-05-17 19:00:56+08:00,,10\n"                                      \
    "d,u1,1,8,FAILED,x,x,2023-05-17 11:02:00+00:00,,10\n"

START_TEST(failed_jobs)
{
    luo_convert_made made;
    begin("jobs.csv");
    ck_assert_int_eq(convert(LUO_CONVERT_ACME, JOBS,
                             (luo_convert_opts){.units = "node:h20", .min_gpus = 16}, &made),
                     LUO_OK);
    ck_assert_str_eq(made.summary, "2 of 4 jobs failed on 16 GPUs and more over 10 s (1 on fewer)");
    ck_assert_ptr_nonnull(strstr(file_of(&made, "events.csv"),
                                 "\nt_s,kind,target,duration_s,id\n"
                                 "0,fail,any node:h20,3600,job-1\n"
                                 "10,fail,any node:h20,3600,job-2\n"));
    ck_assert_ptr_nonnull(strstr(file_of(&made, "causes.csv"),
                                 "\ncause,kind,scope,count,life_median_s\n"
                                 "failed-job,fail,node,2,3600\n"));
    ck_assert_str_eq(first(LUO_WARNING), "jobs that failed are not failures of hardware: most end "
                                         "by a fault of their own.");
    end();
}
END_TEST

static const struct {
    const char *units, *text, *says;
} bad_jobs[] = {
    {NULL, JOBS,
     "`--units` is missing: jobs do not say which nodes they were on; node:GROUP, or devices such "
     "as device:[0-31], are expected."},
    {"h20", JOBS,
     "`--units` is `h20`; node:GROUP, or devices such as device:[0-31], are expected."},
    {"device:[0-7]", "gpu_num,state,end_time\n8,COMPLETED,2023-05-17 11:02:00\n",
     "of 1 jobs none is FAILED or NODE_FAIL on 1 GPUs and more."},
    {"device:[0-7]", "gpu_num,state,end_time\n8,FAILED,yesterday\n",
     "`end_time` is `yesterday`; a time such as 2023-05-17 11:00:58+00:00 is expected."},
};

START_TEST(bad_job)
{
    luo_convert_made made;
    begin("jobs.csv");
    ck_assert_int_ne(convert(LUO_CONVERT_ACME, bad_jobs[_i].text,
                             (luo_convert_opts){.units = bad_jobs[_i].units, .min_gpus = 1}, &made),
                     LUO_OK);
    ck_assert_str_eq(first(LUO_ERROR), bad_jobs[_i].says);
    end();
}
END_TEST

LUO_SUITE("io.recorded", LUO_T(recorded_steps), LUO_T(v_x1), LUO_T(flat_table),
          LUO_T_N(bad_timeline, LUO_ROWS(bad)), LUO_T(failed_jobs),
          LUO_T_N(bad_job, LUO_ROWS(bad_jobs)))
