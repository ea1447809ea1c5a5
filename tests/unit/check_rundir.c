/* check_rundir.c: the sink driven by hand; columns against the list of docs/formats.md
 * 10 (A6), which stands here a second time; formats; full disk; limit of operations. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/io/files.h"
#include "core/io/result/table.h"
#include "tests/check_main.h"
#include "tests/run_fixture.h"

static const struct {
    const char *file, *header;
} headers[] = {
    {"steps.csv",
     "step,attempt,plan,t_start_s,t_end_s,step_s,sequences,tokens,tokens_per_s,compute_s,"
     "recompute_s,tp_s,ep_s,cp_s,pp_s,dp_s,move_s,io_s,bubble_s,devices_used,devices_up,"
     "slowest_device,max_slowdown,loss,grad_norm,wall_s,steps"},
    {"timeline.csv", "seq,t_start_s,t_end_s,kind,blocking,step,plan,event,bytes,steps"},
    {"events.csv", "seq,t_s,step,id,phase,kind,target,value,detail"},
    {"ops.csv", "seq,step,attempt,device,stream,phase,instruction,kind,op,pipeline,stage,chunk,"
                "micro_batch,layer,peer,bytes,flop,t_start_s,t_end_s,status"},
    {"memory.csv", "plan,device,node,profile,pipeline,stage,capacity_bytes,reserved_bytes,"
                   "weights_bytes,gradients_bytes,optimizer_bytes,activations_bytes,buffers_bytes,"
                   "communicators_bytes,peak_bytes,free_bytes,peak_instruction,verdict,"
                   "measured_bytes,devices,pipelines"},
    {"comm.csv", "plan,group,collective,stream,class,devices,calls,bytes,busy_s,exposed_s,"
                 "algbw_gbytes_per_s,busbw_gbytes_per_s"},
    {"links.csv", "link,class,bytes,busy_s,utilisation_ratio,peak_gbytes_per_s"},
    {"link_windows.csv", "link,class,t_start_s,t_end_s,bytes,utilisation_ratio"},
    {"devices.csv", "device,node,profile,up_s,used_s,compute_s,tp_s,ep_s,cp_s,pp_s,dp_s,bubble_s,"
                    "mean_slowdown,caused_slowdown"},
    {"switches.csv", "seq,t_s,from_plan,to_plan,event,detect_s,plan_s,specialize_s,move_s,total_s,"
                     "bytes_local,bytes_nvlink,bytes_pcie,bytes_nic,messages,max_sender,"
                     "max_sender_bytes,source"},
    {"truth.csv", "id,kind,target,value,t_start_s,t_end_s,first_step,last_step,detected_s"},
    {"assignment.csv", "step,sequence,length_tokens,pipeline,micro_batch,position"},
    {"iterations.csv", "worker,iteration,start_s,end_s,wait_s,group,compute_s"},
    {"groups.csv", "group,t_s,members,guard"},
    {"compare.csv", "run,policy,backend,state,seed,plan,program,steps,total_s,extent_s,"
                    "step_mean_s,step_p50_s,"
                    "step_p99_s,tokens_per_s,goodput_tokens_per_s,mfu_ratio,lost_s,switches,"
                    "restarts,peak_memory_ratio,speedup,error_ratio,low_s,high_s,beside_best"},
    {"compare_steps.csv", "step,reference_s,other_s,error_ratio"},
    {"compare_ops.csv", "op,kind,calls,reference_s,other_s,error_ratio"},
    {"draws.csv", "draw,step_s"},
};

static void read_text(const char *dir, const char *file, char *out, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s is missing", path);
    const size_t n = fread(out, 1, size - 1, f);
    ck_assert_uint_lt(n, size - 1);
    out[n] = 0;
    fclose(f);
}

/* Line k (0: the header) of a file, without its end. */
static char *line_of(char *text, int k)
{
    char *at = text;
    for (; k > 0; k--) {
        at = strchr(at, '\n');
        ck_assert_ptr_nonnull(at);
        at++;
    }
    char *end = strchr(at, '\n');
    ck_assert_ptr_nonnull(end);
    *end = 0;
    return at;
}

START_TEST(columns)
{
    const luo_table_def *def = luo_table_def_find(headers[_i].file);
    luo_str s = {0};
    ck_assert_ptr_nonnull(def);
    for (int32_t i = 0; i < def->n; i++) {
        if (i) luo_str_addc(&s, ',');
        luo_str_add(&s, def->columns[i].name);
        ck_assert_int_gt((int)strlen(def->columns[i].help), 4);
        ck_assert_int_eq(luo_table_def_column(def, def->columns[i].name), i);
    }
    ck_assert_str_eq(luo_str_get(&s), headers[_i].header);
    luo_str_free(&s);
}
END_TEST

/* A number of a run that may not exist says when (docs/results.md#a-result-set). */
START_TEST(empty_cells)
{
    for (int id = 0; id < LUO_TABLES; id++) {
        const luo_table_def *def = luo_table_def_at((luo_table_id)id);
        for (int32_t i = 0; i < def->n; i++) {
            const luo_column *c = &def->columns[i];
            const bool told = strstr(c->help, "empty") != NULL;
            if (id == LUO_TABLE_COMPARE && i == LUO_COL_COMPARE_state) continue; /* of the others */
            if (told) ck_assert_msg(c->empty == LUO_CELL_NULLABLE, "%s %s", def->file, c->name);
            if (id < LUO_RUN_TABLES && c->kind != LUO_CELL_TEXT && !told)
                ck_assert_msg(c->empty == LUO_CELL_FILLED, "%s %s", def->file, c->name);
        }
    }
}
END_TEST

/* Suffix and format agree: seconds %.9f, ratios %.6f, rates %.3f. */
START_TEST(units)
{
    for (int id = 0; id < LUO_TABLES; id++) {
        const luo_table_def *def = luo_table_def_at((luo_table_id)id);
        for (int32_t i = 0; i < def->n; i++) {
            const char *name = def->columns[i].name, *suffix = strrchr(name, '_');
            const luo_cell_kind kind = def->columns[i].kind;
            const bool rate = strstr(name, "_per_s") != NULL;
            if (rate)
                ck_assert_msg(kind == LUO_CELL_RATE, "%s", name);
            else if (suffix && strcmp(suffix, "_s") == 0)
                ck_assert_msg(kind == LUO_CELL_SECONDS, "%s", name);
            else if (suffix && strcmp(suffix, "_bytes") == 0)
                ck_assert_msg(kind == LUO_CELL_INT, "%s", name);
            else if (suffix && strcmp(suffix, "_ratio") == 0)
                ck_assert_msg(kind == LUO_CELL_RATIO, "%s", name);
        }
    }
}
END_TEST

static const struct {
    double v;
    int decimals;
    const char *text;
} fixed[] = {{0, 9, "0.000000000"},
             {-0.0, 9, "0.000000000"},
             {1.5, 3, "1.500"},
             {-2.25, 6, "-2.250000"},
             {86400.123456789, 9, "86400.123456789"},
             {1e-10, 9, "0.000000000"},
             {-1e-10, 9, "0.000000000"},
             {0.9999999996, 9, "1.000000000"},
             {123456789012.0, 3, "123456789012.000"},
             {1e300, 0, NULL},
             {7, 0, "7"},
             {4.9995e15, 1, "4999500000000000.0"}};

START_TEST(print_fixed)
{
    luo_str s = {0};
    char want[512];
    luo_table_print_fixed(&s, fixed[_i].v, fixed[_i].decimals);
    snprintf(want, sizeof want, "%.*f", fixed[_i].decimals, fixed[_i].v);
    ck_assert_str_eq(luo_str_get(&s), fixed[_i].text ? fixed[_i].text : want);
    luo_str_free(&s);
}
END_TEST

static luo_status rows_of_all(const luo_sink *k, fixture *f, luo_err *err)
{
    const luo_row_event event = {.t_s = 0.05,
                                 .value = 2.5,
                                 .has_value = true,
                                 .id = "slow1",
                                 .phase = LUO_EVENT_PHASE_FIRED,
                                 .kind = "straggler",
                                 .target = "device:1",
                                 .detail = "a, \"b\"\nc"};
    const luo_row_memory memory = {.device = 3,
                                   .stage = 1,
                                   .capacity_bytes = 1000,
                                   .reserved_bytes = 10,
                                   .memory = {.weights = 1,
                                              .gradients = 2,
                                              .optimizer = 3,
                                              .activations = 4,
                                              .buffers = 5,
                                              .communicators = 6,
                                              .peak = 995,
                                              .needed = 995,
                                              .peak_instruction = 2}};
    const luo_row_switch sw = {.t_s = 1,
                               .from_plan = 0,
                               .to_plan = 1,
                               .event = "slow1",
                               .source = "devices",
                               .detect_s = 0.1,
                               .plan_s = 10,
                               .total_s = NAN,
                               .max_sender = -1};
    const luo_row_assignment assignment = {7, 3, 120, 1, 2, 4};
    const luo_loop_row iteration = {1, 5, 0.5, 2, 1, 0.25, 3}, served = {0, 0, 0.5, 2, 1, 0.5, -1};
    const int32_t members[] = {1, 4, 6};
    const luo_preduce_group group = {.t_s = 1.75, .n = 3, .member = members, .guard = true};
    const luo_row_truth truth = {.id = "slow1",
                                 .kind = "straggler",
                                 .target = "device:1",
                                 .value = 2.5,
                                 .start_s = 0.05,
                                 .end_s = -1,
                                 .detected_s = -1,
                                 .last_step = -1};
    const luo_comm_use comm[] = {{.group = 0,
                                  .coll = LUO_COLL_AR,
                                  .stream = LUO_STREAM_TP,
                                  .devices = 2,
                                  .calls = 4,
                                  .bytes = 2048,
                                  .busy_s = 1e-6,
                                  .exposed_s = 1e-6},
                                 {.group = -1,
                                  .exchange = 0,
                                  .stream = LUO_STREAM_PP,
                                  .devices = 4,
                                  .calls = 2,
                                  .bytes = 512}};
    const luo_row_device device = {.device = 2,
                                   .up_s = 0.15,
                                   .used_s = 0.15,
                                   .mean_slowdown = 1,
                                   .parts = {.compute_s = 0.1, .recompute_s = 0.02},
                                   .caused_slowdown = -1};
    LUO_TRY(k->plan(k->ctx, 0, &f->plan, &f->set, err));
    LUO_TRY(k->memory(k->ctx, &memory, err));
    LUO_TRY(k->event(k->ctx, &event, err));
    LUO_TRY(fix_step(k, f, 0, 0, true, err));
    LUO_TRY(k->switched(k->ctx, &sw, err));
    LUO_TRY(k->truth(k->ctx, &truth, err));
    if (k->assignment) LUO_TRY(k->assignment(k->ctx, &assignment, err));
    if (k->iteration) LUO_TRY(k->iteration(k->ctx, &iteration, err));
    if (k->iteration) LUO_TRY(k->iteration(k->ctx, &served, err));
    if (k->group) LUO_TRY(k->group(k->ctx, 3, &group, err));
    LUO_TRY(k->links(k->ctx, f->links, f->cluster.nlinks, 0.15, err));
    LUO_TRY(k->link_windows(k->ctx, &f->windows, f->links, 0.15, err));
    LUO_TRY(k->comm(k->ctx, 0, &f->set, comm, 2, err));
    LUO_TRY(k->device(k->ctx, &device, err));
    const luo_run_summary summary = {.policy = "static",
                                     .backend = "sim",
                                     .state = LUO_COMPLETE,
                                     .steps_done = 1,
                                     .tokens = 16,
                                     .kept_tokens = 16,
                                     .total_s = 0.15,
                                     .mfu_ratio = NAN,
                                     .expert_imbalance_ratio = 2.207520,
                                     .time = {.compute_s = 0.15}};
    return k->summary(k->ctx, &summary, err);
}

static const struct {
    const char *file;
    int line;
    const char *text;
} cells[] = {
    {"steps.csv", 1,
     "0,0,0,0.000000000,0.150000000,0.150000000,2,16,106.667,0.050000000,0.000000000,0.020000000,"
     "0.000000000,0.000000000,0.040000000,0.000000000,0.000000000,0.000000000,0.040000000,4,4,,"
     "1.000000,,,0.000000000,1"},
    {"timeline.csv", 1, "0,0.000000000,0.150000000,step,1,0,0,,0,1"},
    {"events.csv", 1, "0,0.050000000,0,slow1,fired,straggler,device:1,2.500000,\"a, \"\"b\"\" c\""},
    {"memory.csv", 1, "0,3,h20-1,H20,0,1,1000,10,1,2,3,4,5,6,995,-5,2,over,,,1"},
    {"switches.csv", 1,
     "0,1.000000000,0,1,slow1,0.100000000,10.000000000,0.000000000,0.000000000,,0,0,0,0,0,,0,"
     "devices"},
    {"assignment.csv", 1, "7,3,120,1,2,4"},
    {"iterations.csv", 1, "1,5,0.500000000,2.000000000,0.250000000,3,1.000000000"},
    {"iterations.csv", 2, "0,0,0.500000000,2.000000000,0.500000000,,1.000000000"},
    {"groups.csv", 1, "3,1.750000000,1 4 6,1"},
    {"truth.csv", 1, "slow1,straggler,device:1,2.500000,0.050000000,,0,,"},
    {"comm.csv", 1,
     "0,\"[0,1]\",all_reduce,tp,nvlink,2,4,2048,0.000001000,0.000001000,2.048,2.048"},
    {"comm.csv", 2, "0,[],p2p,pp,local,4,2,512,0.000000000,0.000000000,,"},
    {"devices.csv", 1,
     "2,h20-1,H20,0.150000000,0.150000000,0.120000000,0.000000000,0.000000000,0.000000000,"
     "0.000000000,0.000000000,0.000000000,1.000000,"},
    /* by device, stream, issue order: device 0's four computes, then post */
    {"ops.csv", 1,
     "0,0,0,0,compute,F,0,COMPUTE,layers.0.mm,0,0,0,0,0,,0,4096,0.000000000,0.010000000,LUO_OK"},
    {"ops.csv", 3,
     "7,0,0,0,compute,B,4,COMPUTE,d.layers.0.mm,0,0,0,0,0,,0,0,0.100000000,0.110000000,LUO_OK"},
    {"ops.csv", 5,
     "10,0,0,0,compute,post,5,COMPUTE,adam,0,0,0,,,,0,0,0.130000000,0.140000000,LUO_OK"},
    {"ops.csv", 6,
     "1,0,0,0,tp,F,1,COLLECTIVE,layers.0.ar,0,0,0,0,0,\"[0,1]\",512,0,0.010000000,0.020000000,"
     "LUO_OK"},
    {"ops.csv", 8, "2,0,0,0,pp,F,2,P2P,act.0,0,0,0,0,0,2,256,0,0.020000000,0.030000000,LUO_OK"},
};

START_TEST(all_rows)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "rundir");
    static const luo_policy_spec deals = {
        .name = "hydraulis", .label = "static", .training = {.mode = LUO_TRAINING_PREDUCE}};
    const luo_rundir_opts opts = fix_opts(f);
    f->scenario.npolicies = 1; /* one that has all tables: no policy really does */
    f->scenario.policies = &deals;
    luo_rundir *r = NULL;
    luo_err err = {0};
    ck_assert_msg(luo_rundir_open(dir, &opts, &r, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(rows_of_all(luo_rundir_sink(r), f, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_rundir_close(r, LUO_COMPLETE, 0, &err) == LUO_OK, "%s", err.text);

    static char text[1 << 16];
    for (int i = 0; i < LUO_RUN_TABLES; i++) {
        read_text(dir, headers[i].file, text, sizeof text);
        ck_assert_str_eq(line_of(text, 0), headers[i].header);
        read_text(dir, headers[i].file, text, sizeof text);
        ck_assert_ptr_null(strstr(text, "nan"));
        ck_assert_ptr_null(strstr(text, "inf"));
    }
    for (int i = 0; i < LUO_ROWS(cells); i++) {
        read_text(dir, cells[i].file, text, sizeof text);
        ck_assert_str_eq(line_of(text, cells[i].line), cells[i].text);
    }
    read_text(dir, "links.csv", text, sizeof text);
    ck_assert_ptr_nonnull(
        strstr(text, "\nh20-1/nic0>,nic,1000000000,0.020000000,0.133333,50.000\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nh20-1/nv1<,nvlink,0,0.000000000,0.000000,\n"));
    read_text(dir, "ops.csv", text, sizeof text);
    int lines = 0;
    for (char *p = text; *p; p++) lines += *p == '\n';
    ck_assert_int_eq(lines, 1 + FIX_STEP_RECORDS);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* Two runs give the same bytes but for wall_ columns (none here: no clock) and the manifest. */
START_TEST(repeatable)
{
    static const char *const files[] = {"steps.csv",    "ops.csv",       "events.csv",
                                        "summary.json", "trace.json.gz", "plans/plan-000.json"};
    static char text[2][1 << 16];
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "repeat");
    const luo_rundir_opts opts = fix_opts(f);
    for (int i = 0; i < LUO_ROWS(files); i++) {
        for (int k = 0; k < 2; k++) {
            luo_rundir *r = NULL;
            ck_assert_int_eq(luo_rundir_open(dir, &opts, &r, NULL), LUO_OK);
            ck_assert_int_eq(rows_of_all(luo_rundir_sink(r), f, NULL), LUO_OK);
            ck_assert_int_eq(luo_rundir_close(r, LUO_COMPLETE, 0, NULL), LUO_OK);
            memset(text[k], 0, sizeof text[k]);
            read_text(dir, files[i], text[k], sizeof text[k]);
        }
        ck_assert_mem_eq(text[0], text[1], sizeof text[0]);
    }
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

static json_t *load(const char *dir, const char *file)
{
    char path[512];
    json_error_t why;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(j != NULL, "%s: %s", path, why.text);
    return j;
}

static const char *text_at(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

START_TEST(manifest)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "manifest");
    luo_rundir_opts opts = fix_opts(f);
    char a[512], b[512], text[4096];
    luo_err err = {0};
    snprintf(a, sizeof a, "%s/in/x.yaml", dir);
    snprintf(b, sizeof b, "%s/in/c/x.yaml", dir);
    snprintf(text, sizeof text, "%s/in/c", dir);
    ck_assert_int_eq(luo_file_make_dir(text, &err), LUO_OK);
    for (int i = 0; i < 2; i++) {
        FILE *x = fopen(i ? b : a, "w");
        fprintf(x, "file %d\n", i);
        fclose(x);
    }
    const char *const inputs[] = {a, b};
    const char *const sets[] = {"seed=7"};
    opts.ninputs = 2;
    opts.inputs = inputs;
    opts.noverrides = 1;
    opts.overrides = sets;
    opts.keep_programs = false;
    luo_rundir *r = NULL;
    ck_assert_msg(luo_rundir_open(dir, &opts, &r, &err) == LUO_OK, "%s", err.text);
    json_t *j = load(dir, "manifest.json");
    ck_assert_str_eq(text_at(j, "state"), "running");
    ck_assert_ptr_null(json_object_get(j, "exit"));
    json_decref(j);
    ck_assert_int_eq(rows_of_all(luo_rundir_sink(r), f, &err), LUO_OK);
    luo_rundir_log(r, LUO_NOTE, "hello");
    ck_assert_int_eq(luo_rundir_close(r, LUO_LOST, 1, &err), LUO_OK);

    j = load(dir, "manifest.json");
    ck_assert_str_eq(text_at(j, "schema"), "luoshu.manifest/1");
    ck_assert_str_eq(text_at(j, "state"), "lost");
    ck_assert_str_eq(text_at(j, "git_commit"), "abc");
    ck_assert_str_eq(text_at(j, "scenario_hash"), "000000000000abcd");
    ck_assert_int_eq(json_integer_value(json_object_get(j, "exit")), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(j, "seed")), 7);
    ck_assert_str_eq(text_at(json_array_get(json_object_get(j, "plans"), 0), "program_hash"),
                     "0000000000001234");
    ck_assert_str_eq(text_at(json_array_get(json_object_get(j, "inputs"), 1), "copy"),
                     "config/2-x.yaml");
    json_decref(j);
    read_text(dir, "config/x.yaml", text, sizeof text);
    ck_assert_str_eq(text, "file 0\n");
    read_text(dir, "config/2-x.yaml", text, sizeof text);
    ck_assert_str_eq(text, "file 1\n");
    read_text(dir, "log.txt", text, sizeof text);
    ck_assert_str_eq(text, "note: hello\n");

    j = load(dir, "summary.json");
    ck_assert_str_eq(text_at(j, "schema"), "luoshu.summary/1");
    ck_assert(json_is_null(json_object_get(j, "mfu_ratio")));
    ck_assert(json_real_value(json_object_get(j, "expert_imbalance_ratio")) == 2.20752);
    ck_assert_int_eq((int)json_object_size(json_object_get(j, "time")), 18);
    json_decref(j);

    opts.ninputs = 1;
    const char *const missing[] = {"/nonexistent/x.yaml"};
    opts.inputs = missing;
    ck_assert_int_eq(luo_rundir_open(dir, &opts, &r, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "cannot read `/nonexistent/x.yaml`: no such file or directory.");
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* More operations than the limit: whole steps are kept and the warning says which; a first step
 * that is too large alone is kept for whole devices. */
START_TEST(ops_limit)
{
    static const struct {
        int64_t limit;
        int lines;
        const char *says;
    } rows[] = {
        {2 * FIX_STEP_RECORDS, 1 + 2 * FIX_STEP_RECORDS,
         "trace holds steps 0,2 of 5 (limit 88 operations); use --trace-steps to choose."},
        {3 * FIX_STEP_RECORDS, 1 + 3 * FIX_STEP_RECORDS,
         "trace holds steps 0,2-3 of 5 (limit 132 operations); use --trace-steps to choose."},
        {25, 23,
         "trace holds 2 of 4 devices of step 0 of 5 (limit 25 operations); use "
         "--trace-steps to choose."},
    };
    static char text[1 << 16];
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        fixture *f = fix_new();
        const char *dir = fix_dir(f->arena, "limit");
        luo_rundir_opts opts = fix_opts(f);
        luo_diags diags;
        luo_diags_init(&diags, f->arena);
        opts.ops_limit = rows[i].limit;
        opts.diags = &diags;
        luo_rundir *r = NULL;
        ck_assert_int_eq(luo_rundir_open(dir, &opts, &r, NULL), LUO_OK);
        const luo_sink *k = luo_rundir_sink(r);
        for (int s = 0; s < 5; s++)
            ck_assert_int_eq(fix_step(k, f, s, 0.15 * s, s != 1, NULL), LUO_OK);
        const luo_run_summary summary = {
            .policy = "static", .backend = "sim", .state = LUO_COMPLETE, .steps_done = 5};
        ck_assert_int_eq(k->summary(k->ctx, &summary, NULL), LUO_OK);
        ck_assert_int_eq(luo_rundir_close(r, LUO_COMPLETE, 0, NULL), LUO_OK);
        read_text(dir, "ops.csv", text, sizeof text);
        int lines = 0;
        for (char *p = text; *p; p++) lines += *p == '\n';
        ck_assert_int_eq(lines, rows[i].lines);
        ck_assert_ptr_nonnull(diags.first);
        ck_assert_str_eq(diags.first->err.text, rows[i].says);
        ck_assert_int_eq(diags.first->severity, LUO_WARNING);
        fix_remove(f->arena, dir);
        luo_arena_free(f->arena);
    }
}
END_TEST

/* No byte can be written, not of the first line either. */
START_TEST(disk_full)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "full");
    luo_err err = {0};
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    char path[512], want[1024];
    snprintf(path, sizeof path, "%s/steps.csv", dir);
    const struct rlimit none = {0, RLIM_INFINITY};
    struct rlimit old;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    luo_table t;
    ck_assert_int_eq(luo_table_open(&t, dir, luo_table_def_at(LUO_TABLE_STEPS), &err), LUO_EIO);
    snprintf(want, sizeof want,
             "cannot write %s: file too large; its 0 complete rows stay readable.", path);
    ck_assert_str_eq(err.text, want);
    ck_assert_int_eq(luo_table_close(&t, &err), LUO_EIO);
    setrlimit(RLIMIT_FSIZE, &old);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* A file that may not grow beyond a size in the middle of a row: cut back to whole rows. */
START_TEST(disk_full_later)
{
    enum { MOST = 10000 };
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "fuller");
    const luo_rundir_opts opts = fix_opts(f);
    luo_rundir *r = NULL;
    luo_err err = {0}, again = {0};
    ck_assert_int_eq(luo_rundir_open(dir, &opts, &r, &err), LUO_OK);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = MOST;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    luo_status st = LUO_OK;
    for (int s = 0; st == LUO_OK && s < 1000; s++)
        st = fix_step(luo_rundir_sink(r), f, s, 0.15 * s, false, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(st, LUO_EIO);
    static char text[1 << 16];
    read_text(dir, "steps.csv", text, sizeof text);
    int rows = -1;
    for (char *p = text; *p; p++) rows += *p == '\n';
    ck_assert_int_gt(rows, 10);
    ck_assert_uint_lt(strlen(text), MOST);
    ck_assert_int_eq(text[strlen(text) - 1], '\n');
    char want[1024];
    snprintf(want, sizeof want,
             "cannot write %s/steps.csv: file too large; its %d complete rows stay readable.", dir,
             rows);
    ck_assert_str_eq(err.text, want);
    ck_assert_int_eq(luo_rundir_close(r, LUO_FAILED, 4, &again), LUO_EIO);
    ck_assert_str_eq(again.text, want);
    json_t *j = load(dir, "manifest.json");
    ck_assert_str_eq(text_at(j, "state"), "failed");
    ck_assert_int_eq(json_integer_value(json_object_get(j, "exit")), 4);
    json_decref(j);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

static const struct {
    int32_t column[4]; /* as they are given; -1: no more */
    const char *says;
} broken[] = {
    {{LUO_COL_COMPARE_STEPS_step, -1, -1, -1},
     "a row of compare_steps.csv has 1 cells; it has 4 columns."},
    {{LUO_COL_COMPARE_STEPS_step, LUO_COL_COMPARE_STEPS_other_s, LUO_COL_COMPARE_STEPS_error_ratio,
      -1},
     "a row of compare_steps.csv was given `other_s` where `reference_s` is next."},
    {{LUO_COL_COMPARE_STEPS_step, LUO_COL_COMPARE_STEPS_reference_s,
      LUO_COL_COMPARE_STEPS_reference_s, LUO_COL_COMPARE_STEPS_error_ratio},
     "a row of compare_steps.csv was given `reference_s` where `other_s` is next."},
};

START_TEST(broken_row)
{
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "broken");
    luo_err err = {0};
    luo_table t;
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    ck_assert_int_eq(luo_table_open(&t, dir, luo_table_def_at(LUO_TABLE_COMPARE_STEPS), &err),
                     LUO_OK);
    for (int i = 0; i < 4 && broken[_i].column[i] >= 0; i++)
        luo_table_none(&t, broken[_i].column[i]);
    ck_assert_int_eq(luo_table_end(&t, &err), LUO_EBUG);
    ck_assert_str_eq(err.text, broken[_i].says);
    ck_assert_int_eq(luo_table_end(&t, &err), LUO_EBUG); /* from then on */
    ck_assert_int_eq(t.rows, 0);
    luo_table_close(&t, NULL);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* A large step keeps one device of each stage: of two stages with two devices devices 0 and 2; with
 * room for one device the first stage's, without any room that one as well. */
static const int32_t first_room[] = {4, 2, 1, 0}, first_kept[] = {0xf, 1 << 0 | 1 << 2, 1, 1};
START_TEST(large_steps)
{
    static char text[1 << 16];
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "large");
    luo_rundir_opts opts = fix_opts(f);
    luo_rundir *r = NULL;
    const int32_t of_device = FIX_STEP_RECORDS / FIX_DEVICES;
    opts.ops_whole = _i == 0 ? FIX_STEP_RECORDS : FIX_STEP_RECORDS - 1;
    opts.ops_first = first_room[_i] * of_device;
    ck_assert_int_eq(luo_rundir_open(dir, &opts, &r, NULL), LUO_OK);
    const luo_sink *k = luo_rundir_sink(r);
    for (int s = 0; s < 2; s++) ck_assert_int_eq(fix_step(k, f, s, 0.15 * s, true, NULL), LUO_OK);
    const luo_run_summary summary = {
        .policy = "static", .backend = "sim", .state = LUO_COMPLETE, .steps_done = 2};
    ck_assert_int_eq(k->summary(k->ctx, &summary, NULL), LUO_OK);
    ck_assert_int_eq(luo_rundir_close(r, LUO_COMPLETE, 0, NULL), LUO_OK);
    read_text(dir, "ops.csv", text, sizeof text);
    int kept[FIX_DEVICES] = {0};
    for (char *p = strchr(text, '\n') + 1; *p; p = strchr(p, '\n') + 1) {
        int seq, step, attempt, device;
        ck_assert_int_eq(sscanf(p, "%d,%d,%d,%d,", &seq, &step, &attempt, &device), 4);
        kept[device] += step == 0;
    }
    for (int d = 0; d < FIX_DEVICES; d++)
        ck_assert_int_eq(kept[d], first_kept[_i] >> d & 1 ? of_device : 0);
    read_text(dir, "log.txt", text, sizeof text);
    ck_assert_int_eq(strstr(text, "traced on one device of each stage") != NULL, _i > 0);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

/* Which devices of a step are in the text of an ops.csv, as bits. */
static int devices_of_step(const char *text, int want)
{
    int bits = 0;
    for (const char *p = strchr(text, '\n') + 1; *p; p = strchr(p, '\n') + 1) {
        int seq, step, attempt, device;
        ck_assert_int_eq(sscanf(p, "%d,%d,%d,%d,", &seq, &step, &attempt, &device), 4);
        if (step == want) bits |= 1 << device;
    }
    return bits;
}

/* Steps that are traced by themselves: behind the first, of which a device of each stage is kept,
 * so many operations are kept as the limit says, and yet every event is traced on the device that
 * it hits, here device 1, and the last step. */
START_TEST(late_events)
{
    enum { EVENTS = 12, EACH = 10, STEPS = EVENTS * EACH + 5, DEVICE = 11, LIMIT = 22 * DEVICE };
    static char text[1 << 18];
    fixture *f = fix_new();
    const char *dir = fix_dir(f->arena, "late");
    luo_rundir_opts opts = fix_opts(f);
    luo_rundir *r = NULL;
    luo_scenario scenario = *opts.scenario;
    scenario.steps = STEPS;
    opts.scenario = &scenario;
    opts.ops_whole = opts.ops_first = 2 * DEVICE;
    opts.ops_limit = LIMIT;
    ck_assert_int_eq(luo_rundir_open(dir, &opts, &r, NULL), LUO_OK);
    const luo_sink *k = luo_rundir_sink(r);
    for (int s = 0; s < STEPS; s++) {
        const bool event = s > 0 && s % EACH == 0;
        const luo_row_event row = {.t_s = 0.15 * s,
                                   .step = s,
                                   .phase = LUO_EVENT_PHASE_FIRED,
                                   .id = "slow",
                                   .kind = "straggler",
                                   .target = "device:1",
                                   .detail = ""};
        if (event) ck_assert_int_eq(k->event(k->ctx, &row, NULL), LUO_OK);
        const bool near = s == 0 || s + 1 == STEPS || (s + 1) % EACH == 0 || s % EACH <= 2;
        ck_assert_int_eq(fix_step(k, f, s, 0.15 * s, near, NULL), LUO_OK);
    }
    const luo_run_summary summary = {
        .policy = "static", .backend = "sim", .state = LUO_COMPLETE, .steps_done = STEPS};
    ck_assert_int_eq(k->summary(k->ctx, &summary, NULL), LUO_OK);
    ck_assert_int_eq(luo_rundir_close(r, LUO_COMPLETE, 0, NULL), LUO_OK);
    read_text(dir, "ops.csv", text, sizeof text);
    int lines = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    ck_assert_int_le(lines, 1 + 2 * DEVICE + LIMIT);
    ck_assert_int_eq(devices_of_step(text, 0), 1 << 0 | 1 << 2); /* the first of each stage */
    ck_assert_int_eq(devices_of_step(text, 11) & 1 << 1, 1 << 1);
    ck_assert_int_eq(devices_of_step(text, EVENTS * EACH - 1), 0); /* none was left */
    for (int s = EACH; s <= EVENTS * EACH; s += EACH)
        ck_assert_msg(devices_of_step(text, s) & 1 << 1, "the event of step %d is not traced", s);
    ck_assert_int_ne(devices_of_step(text, STEPS - 1), 0);
    fix_remove(f->arena, dir);
    luo_arena_free(f->arena);
}
END_TEST

LUO_SUITE("io.rundir", LUO_T_N(columns, LUO_ROWS(headers)), LUO_T(units), LUO_T(empty_cells),
          LUO_T_N(print_fixed, LUO_ROWS(fixed)), LUO_T(all_rows), LUO_T(repeatable),
          LUO_T(manifest), LUO_T(ops_limit), LUO_T_N(large_steps, LUO_ROWS(first_room)),
          LUO_T(late_events), LUO_T(disk_full), LUO_T(disk_full_later),
          LUO_T_N(broken_row, LUO_ROWS(broken)))
