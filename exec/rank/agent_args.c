#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/read/read.h"
#include "exec/coordinator/rendezvous.h"
#include "exec/rank/agent_internal.h"

static luo_status no_value(const char *option, luo_err *err)
{
    return luo_err_set(err, LUO_EUSAGE, "`%s` has no value; one is expected behind it.", option);
}

luo_status luo_rank_args_read(int argc, char **argv, luo_rank_args *out, luo_err *err)
{
    luo_rank_args args = {.token = getenv(LUO_RENDEZVOUS_VARIABLE),
                          .overrides = calloc((size_t)argc, sizeof *args.overrides)};
    const struct {
        const char *name;
        const char **value;
    } options[] = {{"--control", &args.control}, {"--scenario", &args.scenario},
                   {"--model", &args.model},     {"--cluster", &args.cluster},
                   {"--stack", &args.stack},     {"--dtype", &args.dtype}};
    luo_status st = args.overrides ? LUO_OK : luo_err_nomem(err);
    for (int i = 1; st == LUO_OK && i < argc; i++) {
        size_t k = 0;
        while (k < sizeof options / sizeof *options && strcmp(argv[i], options[k].name) != 0) k++;
        if (strcmp(argv[i], "--broadcast") == 0)
            args.broadcast = true;
        else if (strcmp(argv[i], "--set") == 0 && i + 1 < argc)
            args.overrides[args.noverrides++] = argv[++i];
        else if (k == sizeof options / sizeof *options)
            st = luo_err_set(err, LUO_EUSAGE,
                             "unknown argument `%s`; `luoshu run` starts this "
                             "program with the right ones.",
                             argv[i]);
        else if (i + 1 == argc)
            st = no_value(argv[i], err);
        else
            *options[k].value = argv[++i];
    }
    if (st == LUO_OK && !(args.control && args.token) && !args.broadcast)
        st = luo_err_set(err, LUO_EUSAGE,
                         "`--control` or the variable `" LUO_RENDEZVOUS_VARIABLE
                         "` is missing; `luoshu run` starts this program with them.");
    if (st == LUO_OK && !args.scenario && !(args.model && args.cluster))
        st = luo_err_set(err, LUO_EUSAGE,
                         "`--scenario`, or `--model` and `--cluster`, is "
                         "missing; `luoshu run` gives it.");
    if (st == LUO_OK && !args.scenario && args.noverrides > 0)
        st = luo_err_set(err, LUO_EUSAGE, "`--set` needs a scenario; give `--scenario`.");
    if (st == LUO_OK)
        *out = args;
    else
        free(args.overrides);
    return st;
}

/* The first error, with its place, as one sentence for the coordinator. */
static luo_status first_error(const luo_diags *diags, luo_status st, luo_err *err)
{
    const luo_diag *diag = diags->first;
    while (diag && diag->severity != LUO_ERROR) diag = diag->next;
    if (!diag) return luo_err_set(err, st, "a rank cannot read the inputs.");
    if (!diag->err.path[0]) return luo_err_set(err, st, "%s", diag->err.text);
    return luo_err_set(err, st, "%s:%d:%d: %s", diag->err.path, diag->err.line, diag->err.col,
                       diag->err.text);
}

luo_status luo_agent_read(luo_agent *agent, luo_err *err)
{
    const luo_overrides overrides = {.n = agent->args->noverrides,
                                     .at = agent->args->overrides,
                                     .dtype = agent->args->dtype};
    luo_source src;
    luo_scenario *sc;
    luo_model *model;
    luo_cluster *cluster;
    luo_diags diags;
    luo_status st;
    luo_diags_init(&diags, agent->arena);
    if (agent->args->scenario) {
        st = luo_read_scenario(agent->arena, agent->args->scenario, &overrides, &sc, NULL, &diags);
        if (st != LUO_OK) return first_error(&diags, st, err);
        agent->model = sc->model;
        agent->cluster = sc->cluster;
        agent->stack = sc->stack;
        return LUO_OK;
    }
    LUO_TRY(luo_source_read(agent->arena, agent->args->model, &src, err));
    st = luo_read_model_text(agent->arena, &src, &overrides, &model, &diags);
    if (st == LUO_OK) st = luo_read_cluster(agent->arena, agent->args->cluster, &cluster, &diags);
    if (st != LUO_OK) return first_error(&diags, st, err);
    agent->model = model;
    agent->cluster = cluster;
    luo_stack_default(&agent->stack);
    if (!agent->args->stack) return LUO_OK;
    st = luo_read_stack(agent->arena, agent->args->stack, &agent->stack, &diags);
    return st == LUO_OK ? LUO_OK : first_error(&diags, st, err);
}
