#include "cli/inputs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/load.h"
#include "core/base/hash.h"
#include "core/base/words.h"
#include "core/io/builtin.h"
#include "core/io/document/names.h"
#include "core/io/read/read.h"
#include "sim/sim.h"

luo_status luo_inputs_steps(luo_cli *cli, const char *option, const char *text,
                            const char *expected, const luo_range **out, int32_t *n, luo_err *err)
{
    luo_range *range = LUO_NEW_N(cli->arena, luo_range, strlen(text) + 1);
    if (!range) return luo_err_nomem(err);
    const char *at = text;
    int32_t count = 0;
    for (;;) {
        char *end;
        const long lo = strtol(at, &end, 10);
        long hi = lo;
        bool good = end != at && lo >= 0 && at[0] != '+' && at[0] != ' ';
        if (good && *end == '-') {
            at = end + 1;
            hi = strtol(at, &end, 10);
            good = end != at && hi >= lo;
        }
        if (!good || hi >= INT32_MAX || (*end && *end != ','))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is `%s`; %s is expected.", option, text,
                               expected);
        range[count++] = (luo_range){(int32_t)lo, (int32_t)hi + 1};
        if (!*end) break;
        at = end + 1;
    }
    *out = range;
    *n = count;
    return LUO_OK;
}

/* "auto", "none", "all" or "0-3,40". */
static luo_status read_trace(luo_cli *cli, const char *text, luo_trace_steps *out, luo_err *err)
{
    static const char *const words[] = {"auto", "none", "all"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            out->kind = i;
            return LUO_OK;
        }
    LUO_TRY(luo_inputs_steps(cli, "trace-steps", text, "auto, none, all or a list like 0-3,40",
                             &out->ranges, &out->nranges, err));
    out->kind = LUO_TRACE_LIST;
    return LUO_OK;
}

luo_status luo_inputs_on_off(const luo_args *args, const char *name, bool *out, luo_err *err)
{
    static const char *const words[] = {"off", "on"};
    int which;
    LUO_TRY(luo_args_choice(args, name, 1, words, 2, &which, err));
    *out = which == 1;
    return LUO_OK;
}

luo_status luo_inputs_shared(luo_cli *cli, luo_session *session, const char *trace, luo_err *err)
{
    const luo_args *args = &cli->args;
    LUO_TRY(luo_inputs_on_off(args, "plots", &session->plots, err));
    LUO_TRY(luo_args_number(args, "limit-s", 0, 0, 1e9, &session->limit_s, err));
    session->run.work = &cli->work;
    session->force = luo_args_has(args, "force");
    session->keep_programs = luo_args_has(args, "keep-programs");
    session->verbose = luo_args_has(args, "verbose");
    return read_trace(cli, luo_args_get(args, "trace-steps", trace), &session->run.trace, err);
}

luo_status luo_inputs_simulator(luo_cli *cli, luo_session *session, luo_err *err)
{
    static const char *const comm[] = {"model", "flow", "message"}, *const streams[] = {"1", "3"};
    const luo_args *args = &cli->args;
    int which;
    session->run.backend = session->run.simulator =
        luo_backend_find(luo_backends, luo_nbackends, "sim");
    LUO_TRY(luo_args_choice(args, "comm", LUO_COMM_FLOW, comm, 3, &which, err));
    session->run.comm = (luo_comm_mode)which;
    LUO_TRY(luo_args_choice(args, "comm-streams", 1, streams, 2, &which, err));
    session->run.one_comm_stream = which == 0;
    LUO_TRY(luo_inputs_on_off(args, "fold", &session->run.fold, err));
    LUO_TRY(luo_sim_share(err)); /* among its policies, seeds and cells */
    return luo_sim_load(err);
}

/* Paths of options are relative to where the user stands, those in a file to that file. */
static const char *stack_override(luo_cli *cli, const char *path)
{
    char named[512];
    if (luo_builtin_path(LUO_BUILTIN_STACKS, path, named, sizeof named))
        return luo_arena_printf(cli->arena, "stack=%s", path);
    char *whole = realpath(path, NULL);
    const char *text = luo_arena_printf(cli->arena, "stack=%s", whole ? whole : path);
    free(whole);
    return text;
}

/* All --set, and the options that stand for one, as overrides of the file. */
static luo_status overrides(luo_cli *cli, luo_session *session, luo_err *err)
{
    const luo_args *args = &cli->args;
    int64_t ignored;
    const char **list = LUO_NEW_N(cli->arena, const char *, args->nset + session->nmore + 3);
    if (!list) return luo_err_nomem(err);
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &ignored, err));
    LUO_TRY(luo_args_int(args, "steps", 1, 1, INT32_MAX, &ignored, err));
    for (int i = 0; i < args->nset; i++) {
        const char *name = args->set[i].option->name;
        if (strcmp(name, "set") == 0) list[session->noverrides++] = args->set[i].value;
        if (strcmp(name, "seed") == 0)
            list[session->noverrides++] =
                luo_arena_printf(cli->arena, "seed=%s", args->set[i].value);
        if (strcmp(name, "steps") == 0)
            list[session->noverrides++] =
                luo_arena_printf(cli->arena, "extent.steps=%s", args->set[i].value);
        if (strcmp(name, "duration-s") == 0)
            list[session->noverrides++] =
                luo_arena_printf(cli->arena, "extent.duration_s=%s", args->set[i].value);
        if (strcmp(name, "stack") == 0)
            list[session->noverrides++] = stack_override(cli, args->set[i].value);
    }
    for (int32_t i = 0; i < session->nmore; i++) list[session->noverrides++] = session->more[i];
    if (session->seed)
        list[session->noverrides++] = luo_arena_printf(cli->arena, "seed=%s", session->seed);
    for (int32_t i = 0; i < session->noverrides; i++)
        if (!list[i]) return luo_err_nomem(err);
    session->overrides = list;
    return LUO_OK;
}

static luo_status unknown_policy(luo_cli *cli, const char *word, const luo_scenario *sc,
                                 luo_err *err)
{
    luo_str text = {0};
    const char **names = LUO_NEW_N(cli->arena, const char *, sc->npolicies);
    if (!names) return luo_err_nomem(err);
    for (int32_t i = 0; i < sc->npolicies; i++) names[i] = sc->policies[i].label;
    luo_words_expected(&text, word, names, sc->npolicies);
    luo_err_set(err, LUO_EUSAGE,
                "`--policies` names `%s`, which is no label of a policy in the "
                "scenario; %s",
                word, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

static luo_status only_policies(luo_cli *cli, const char *text, luo_scenario *sc, luo_err *err)
{
    luo_policy_spec *keep = LUO_NEW_N(cli->arena, luo_policy_spec, sc->npolicies + 1);
    int32_t n = 0;
    if (!keep) return luo_err_nomem(err);
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, ",");
        const char *word = luo_arena_strndup(cli->arena, at, len);
        int32_t hit = 0;
        if (!word) return luo_err_nomem(err);
        while (hit < sc->npolicies && strcmp(sc->policies[hit].label, word) != 0) hit++;
        if (hit == sc->npolicies) return unknown_policy(cli, word, sc, err);
        for (int32_t i = 0; i < n; i++)
            if (strcmp(keep[i].label, word) == 0)
                return luo_err_set(err, LUO_EUSAGE,
                                   "`--policies` names `%s` twice; once is "
                                   "expected.",
                                   word);
        keep[n++] = sc->policies[hit];
        at += len + (at[len] == ',');
    }
    if (n == 0) return luo_err_set(err, LUO_EUSAGE, "`--policies` is empty; name at least one.");
    sc->policies = keep;
    sc->npolicies = n;
    return LUO_OK;
}

/* Pre: policies have their plans in that type. */
static luo_status dtype_of_jobs(luo_cli *cli, luo_scenario *sc, luo_dtype dtype, luo_err *err)
{
    luo_job_spec *jobs = LUO_NEW_N(cli->arena, luo_job_spec, sc->njobs);
    luo_model *models = LUO_NEW_N(cli->arena, luo_model, sc->njobs);
    if (!jobs || !models) return luo_err_nomem(err);
    for (int32_t i = 0; i < sc->njobs; i++) {
        jobs[i] = sc->jobs[i];
        models[i] = *jobs[i].model;
        models[i].dtype = dtype;
        jobs[i].model = &models[i];
    }
    for (int32_t i = 0; i < sc->npolicies && sc->njobs > 0; i++)
        jobs[sc->policies[i].job - 1].plan = sc->policies[i].plan;
    sc->jobs = jobs;
    return LUO_OK;
}

luo_status luo_inputs_dtype(luo_cli *cli, luo_scenario *sc, luo_dtype dtype, luo_err *err)
{
    luo_policy_spec *policies = LUO_NEW_N(cli->arena, luo_policy_spec, sc->npolicies);
    luo_model *model = LUO_NEW(cli->arena, luo_model);
    luo_plan *plan = LUO_NEW(cli->arena, luo_plan);
    if (!policies || !model || !plan) return luo_err_nomem(err);
    *model = *sc->model;
    model->dtype = dtype; /* for the planner */
    sc->model = model;
    if (sc->plan) {
        *plan = *sc->plan;
        plan->dtype = dtype;
        sc->plan = plan;
    }
    for (int32_t i = 0; i < sc->npolicies; i++) {
        policies[i] = sc->policies[i];
        if (!policies[i].plan) continue;
        luo_plan *own = LUO_NEW(cli->arena, luo_plan);
        if (!own) return luo_err_nomem(err);
        *own = *policies[i].plan;
        own->dtype = dtype;
        policies[i].plan = own;
    }
    sc->policies = policies;
    return dtype_of_jobs(cli, sc, dtype, err);
}

static luo_status scenario_session(luo_cli *cli, luo_session *session, const char *path,
                                   luo_err *err)
{
    luo_scenario *sc;
    luo_inputs inputs = {0};
    const char *dtype;
    LUO_TRY(overrides(cli, session, err));
    LUO_TRY(luo_cli_dtype(cli, &dtype, err));
    const luo_overrides set = {
        .n = session->noverrides, .at = session->overrides, .dtype = dtype};
    LUO_TRY(luo_read_scenario(cli->arena, path, &set, &sc, &inputs, &cli->diags));
    if (dtype) LUO_TRY(luo_inputs_dtype(cli, sc, sc->model->dtype, err));
    const char *only = luo_args_get(&cli->args, "policies", NULL);
    if (only) LUO_TRY(only_policies(cli, only, sc, err));
    session->scenario = sc;
    session->ninputs = inputs.n;
    session->inputs = inputs.path;
    return LUO_OK;
}

/* ---- bare plans ---- */

/* Where the last part of a path begins, and with `folder` the part before it. */
static size_t name_begin(const char *path, bool folder)
{
    size_t n = strlen(path);
    for (int parts = folder ? 2 : 1; n > 0; n--)
        if (path[n - 1] == '/' && --parts == 0) break;
    return n;
}

/* `tp4` of a/tp4.plan.json; with `folder` a_tp4. NULL: out of memory. */
static const char *label_of(luo_cli *cli, const char *path, bool folder)
{
    static const char *const endings[] = {".json", ".plan"};
    char *label = luo_arena_strdup(cli->arena, path + name_begin(path, folder));
    for (int i = 0; label && i < 2; i++) {
        const size_t n = strlen(label), end = strlen(endings[i]);
        if (n > end && strcmp(label + n - end, endings[i]) == 0) label[n - end] = 0;
    }
    for (char *c = label; c && *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_.+-", *c)) *c = '_';
    return label;
}

/* By their files, of equally named ones with the folder; one alone is `plan`. */
static luo_status label_plans(luo_cli *cli, luo_policy_spec *policies, int32_t n, luo_err *err)
{
    const char *const *paths = cli->args.files;
    bool folder = false;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < i; k++)
            folder |= strcmp(paths[i] + name_begin(paths[i], false),
                             paths[k] + name_begin(paths[k], false)) == 0;
    for (int32_t i = 0; i < n; i++) {
        policies[i].label = n == 1 ? "plan" : label_of(cli, paths[i], folder);
        if (!policies[i].label) return luo_err_nomem(err);
        const char *fault = luo_name_fault_of_run(policies[i].label);
        if (fault)
            return luo_err_set(err, LUO_EUSAGE, "`%s`: %s; rename the file.", paths[i], fault);
        for (int32_t k = 0; k < i; k++)
            if (strcmp(paths[i], paths[k]) == 0)
                return luo_err_set(err, LUO_EUSAGE, "`%s` is given twice; once is expected.",
                                   paths[i]);
            else if (strcmp(policies[i].label, policies[k].label) == 0)
                return luo_err_set(err, LUO_EUSAGE,
                                   "`%s` and `%s` would both be called `%s`; rename one.", paths[k],
                                   paths[i], policies[i].label);
    }
    return LUO_OK;
}

static luo_status refuse_scenario_options(const luo_args *args, luo_err *err)
{
    static const char *const useless[] = {"policies", "set"};
    for (int i = 0; i < 2; i++)
        if (luo_args_has(args, useless[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` needs a scenario; `%s` is a plan.",
                               useless[i], args->files[0]);
    return LUO_OK;
}

/* Plans of one model and cluster, and what they are read from. */
static luo_status read_plans(luo_cli *cli, luo_session *session, luo_scenario *sc,
                             luo_policy_spec *policies, luo_err *err)
{
    const int32_t n = cli->args.nfiles;
    const char **inputs = LUO_NEW_N(cli->arena, const char *, n + 2);
    luo_model *model;
    luo_cluster *cluster;
    if (!inputs) return luo_err_nomem(err);
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    sc->model = model;
    sc->cluster = cluster;
    for (int32_t i = 0; i < n; i++) {
        luo_plan *plan;
        LUO_TRY(luo_cli_plan(cli, cli->args.files[i], model, cluster, &plan, NULL));
        luo_read_policy_defaults(&policies[i], "static");
        policies[i].plan = plan;
        inputs[i] = cli->args.files[i];
    }
    inputs[n] = luo_args_get(&cli->args, "model", "");
    inputs[n + 1] = luo_args_get(&cli->args, "cluster", "");
    session->ninputs = n + 2;
    session->inputs = inputs;
    return label_plans(cli, policies, n, err);
}

/* Of one plan its own; of several, which no file names together, of theirs in order. */
static uint64_t hash_plans(const luo_policy_spec *policies, int32_t n)
{
    uint64_t hash = luo_plan_hash(policies[0].plan);
    for (int32_t i = 1; i < n; i++) {
        const uint64_t next = luo_plan_hash(policies[i].plan);
        hash = luo_hash_bytes(hash, &next, sizeof next);
    }
    return hash;
}

/* Plans without a scenario are one without events: a policy `static` each. */
static luo_status plan_session(luo_cli *cli, luo_session *session, luo_err *err)
{
    const int32_t n = cli->args.nfiles;
    int64_t steps, seed;
    LUO_TRY(refuse_scenario_options(&cli->args, err));
    LUO_TRY(luo_args_int(&cli->args, "steps", 3, 1, INT32_MAX, &steps, err));
    LUO_TRY(luo_args_int(&cli->args, "seed", 0, 0, INT64_MAX, &seed, err));
    if (session->seed) seed = (int64_t)strtoll(session->seed, NULL, 10);
    luo_scenario *sc = LUO_NEW(cli->arena, luo_scenario);
    luo_policy_spec *policies = LUO_NEW_N(cli->arena, luo_policy_spec, n);
    if (!sc || !policies) return luo_err_nomem(err);
    LUO_TRY(read_plans(cli, session, sc, policies, err));
    sc->plan = policies[0].plan;
    sc->name = n == 1 ? sc->plan->name : "";
    sc->seed = (uint64_t)seed;
    sc->planner = "uniform";
    sc->steps = steps;
    sc->npolicies = n;
    sc->policies = policies;
    sc->hash = hash_plans(policies, n);
    session->scenario = sc;
    return luo_cli_stack(cli, &sc->stack);
}

luo_status luo_inputs_read(luo_cli *cli, luo_session *session, const char *path, luo_err *err)
{
    const bool several = path == cli->args.files[0] && cli->args.nfiles > 1;
    luo_file_kind kind;
    for (int i = 0; several && i < cli->args.nfiles; i++) {
        LUO_TRY(luo_file_kind_of(cli->args.files[i], &kind, &cli->diags));
        if (kind != LUO_FILE_PLAN)
            return luo_err_set(err, LUO_EUSAGE,
                               "`%s` is no plan, and %d files are given; plans of one model and "
                               "cluster, or one scenario, are expected.",
                               cli->args.files[i], cli->args.nfiles);
    }
    LUO_TRY(luo_file_kind_of(path, &kind, &cli->diags));
    session->bare = kind == LUO_FILE_PLAN;
    return session->bare ? plan_session(cli, session, err)
                         : scenario_session(cli, session, path, err);
}

const char *luo_inputs_name(const luo_session *session)
{
    const luo_scenario *sc = session->scenario;
    if (!luo_name_fault(sc->name)) return sc->name;
    return sc->npolicies > 1 ? "plans" : "plan";
}

luo_status luo_inputs_dir(luo_cli *cli, luo_session *session, const char *dir, luo_err *err)
{
    session->dir = luo_args_get(&cli->args, "out", dir);
    if (!session->dir) /* names of plans are free text */
        session->dir = luo_arena_printf(cli->arena, "%s-seed%llu", luo_inputs_name(session),
                                        (unsigned long long)session->scenario->seed);
    return session->dir ? LUO_OK : luo_err_nomem(err);
}
