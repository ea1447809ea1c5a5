#include "cli/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "cli/load.h"
#include "core/base/words.h"
#include "core/io/builtin.h"
#include "core/io/document/names.h"
#include "core/io/read/read.h"

/* "auto", "none", "all" or "0-3,40". */
static luo_status read_trace(luo_cli *cli, const char *text, luo_trace_steps *out, luo_err *err)
{
    static const char *const words[] = {"auto", "none", "all"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            out->kind = i;
            return LUO_OK;
        }
    luo_range *r = LUO_NEW_N(cli->arena, luo_range, strlen(text) + 1);
    if (!r) return luo_err_nomem(err);
    const char *at = text;
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
                               "`--trace-steps` is `%s`; auto, none, all or a "
                               "list like 0-3,40 is expected.",
                               text);
        r[out->nranges++] = (luo_range){(int32_t)lo, (int32_t)hi + 1};
        if (!*end) break;
        at = end + 1;
    }
    out->kind = LUO_TRACE_LIST;
    out->ranges = r;
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

luo_status luo_inputs_shared(luo_cli *cli, luo_session *s, const char *trace, luo_err *err)
{
    const luo_args *args = &cli->args;
    LUO_TRY(luo_inputs_on_off(args, "plots", &s->plots, err));
    LUO_TRY(luo_args_number(args, "limit-s", 0, 0, 1e9, &s->limit_s, err));
    s->run.work = &cli->work;
    s->force = luo_args_has(args, "force");
    s->keep_programs = luo_args_has(args, "keep-programs");
    s->verbose = luo_args_has(args, "verbose");
    return read_trace(cli, luo_args_get(args, "trace-steps", trace), &s->run.trace, err);
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
    const char **list = LUO_NEW_N(cli->arena, const char *, args->nset + 3);
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
    return LUO_OK;
}

static luo_status scenario_session(luo_cli *cli, luo_session *session, const char *path,
                                   luo_err *err)
{
    luo_scenario *sc;
    luo_inputs inputs = {0};
    const char *dtype;
    LUO_TRY(overrides(cli, session, err));
    LUO_TRY(luo_cli_dtype(cli, &dtype, err));
    const luo_overrides set = {session->noverrides, session->overrides, dtype};
    LUO_TRY(luo_read_scenario(cli->arena, path, &set, &sc, &inputs, &cli->diags));
    if (dtype) LUO_TRY(luo_inputs_dtype(cli, sc, sc->model->dtype, err));
    const char *only = luo_args_get(&cli->args, "policies", NULL);
    if (only) LUO_TRY(only_policies(cli, only, sc, err));
    session->scenario = sc;
    session->ninputs = inputs.n;
    session->inputs = inputs.path;
    return LUO_OK;
}

/* A bare plan is a scenario without events: one policy `static`, its folder is `plan`. */
static luo_status plan_session(luo_cli *cli, luo_session *session, const char *path, luo_err *err)
{
    static const char *const useless[] = {"policies", "set"};
    for (int i = 0; i < 2; i++)
        if (luo_args_has(&cli->args, useless[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` needs a scenario; `%s` is a plan.",
                               useless[i], path);
    luo_model *model;
    luo_cluster *cluster;
    luo_plan *plan;
    int64_t steps, seed;
    LUO_TRY(luo_args_int(&cli->args, "steps", 3, 1, INT32_MAX, &steps, err));
    LUO_TRY(luo_args_int(&cli->args, "seed", 0, 0, INT64_MAX, &seed, err));
    if (session->seed) seed = (int64_t)strtoll(session->seed, NULL, 10);
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_plan(cli, path, model, cluster, &plan, NULL));
    luo_scenario *sc = LUO_NEW(cli->arena, luo_scenario);
    luo_policy_spec *policy = LUO_NEW(cli->arena, luo_policy_spec);
    const char **inputs = LUO_NEW_N(cli->arena, const char *, 3);
    if (!sc || !policy || !inputs) return luo_err_nomem(err);
    luo_read_policy_defaults(policy, "static");
    policy->label = "plan";
    *sc = (luo_scenario){.name = plan->name,
                         .seed = (uint64_t)seed,
                         .cluster = cluster,
                         .model = model,
                         .plan = plan,
                         .planner = "uniform",
                         .steps = steps,
                         .npolicies = 1,
                         .policies = policy};
    LUO_TRY(luo_cli_stack(cli, &sc->stack));
    sc->hash = luo_plan_hash(plan);
    inputs[0] = path;
    inputs[1] = luo_args_get(&cli->args, "model", "");
    inputs[2] = luo_args_get(&cli->args, "cluster", "");
    session->scenario = sc;
    session->ninputs = 3;
    session->inputs = inputs;
    return LUO_OK;
}

luo_status luo_inputs_read(luo_cli *cli, luo_session *session, const char *path, luo_err *err)
{
    luo_file_kind kind;
    LUO_TRY(luo_file_kind_of(path, &kind, &cli->diags));
    session->bare = kind == LUO_FILE_PLAN;
    return session->bare ? plan_session(cli, session, path, err)
                         : scenario_session(cli, session, path, err);
}

const char *luo_inputs_name(const luo_session *session)
{
    return luo_name_fault(session->scenario->name) ? "plan" : session->scenario->name;
}

luo_status luo_inputs_dir(luo_cli *cli, luo_session *session, const char *dir, luo_err *err)
{
    session->dir = luo_args_get(&cli->args, "out", dir);
    if (!session->dir) /* names of plans are free text */
        session->dir = luo_arena_printf(cli->arena, "%s-seed%llu", luo_inputs_name(session),
                                        (unsigned long long)session->scenario->seed);
    return session->dir ? LUO_OK : luo_err_nomem(err);
}
