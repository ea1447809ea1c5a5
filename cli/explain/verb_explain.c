/* verb_explain.c: `luoshu explain FILE`. */
#include <math.h>
#include <stdlib.h>

#include "cli/explain/explain.h"
#include "core/io/read/read.h"
#include "core/plan/step/step.h"

static luo_status print_program(luo_cli *cli, const luo_programs *set, const char *text,
                                luo_err *err)
{
    int64_t device;
    LUO_TRY(luo_args_int(&cli->args, "program", 0, 0, LUO_DEVICE_LIMIT, &device, err));
    if (!luo_programs_find(set, (int32_t)device))
        return luo_err_set(err, LUO_EINPUT, "device %s is in no stage of the plan; it has no "
                                            "program.", text);
    luo_str s = {0};
    luo_program_print(&s, set, (int32_t)device);
    if (s.failed) {
        luo_str_free(&s);
        return luo_err_nomem(err);
    }
    fputs(luo_str_get(&s), luo_cli_out(cli));
    luo_str_free(&s);
    return LUO_OK;
}

static luo_status weigh(luo_cli *cli, luo_explain *explain, luo_err *err)
{
    luo_memory *memory = LUO_NEW_N(cli->arena, luo_memory, explain->set->n);
    if (!memory) return luo_err_nomem(err);
    for (int32_t i = 0; i < explain->set->n; i++)
        LUO_TRY(luo_program_memory(cli->arena, explain->set, explain->set->at[i].device, &memory[i],
                                   err));
    explain->memory = memory;
    return LUO_OK;
}

static luo_status price(luo_cli *cli, luo_explain *explain, const luo_stack *stack, luo_err *err)
{
    const luo_step_in in = {.model = explain->model,
                            .cluster = explain->cluster,
                            .stack = stack,
                            .sequence_tokens = explain->plan->sequence_tokens};
    luo_step_cost cost;
    if (!luo_plan_step_knows(explain->plan)) return LUO_OK;
    LUO_TRY(luo_plan_step(cli->arena, &in, explain->plan, &cost, err));
    explain->closed_s = isfinite(cost.step) ? cost.step : 0;
    return LUO_OK;
}

static luo_status explain_plan(luo_cli *cli, const char *path, luo_err *err)
{
    luo_explain explain = {.arena = cli->arena};
    luo_model *model;
    luo_cluster *cluster;
    luo_plan *plan;
    const luo_doc *doc;
    luo_programs *set;
    luo_stack stack;
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_plan(cli, path, model, cluster, &plan, &doc));
    LUO_TRY(luo_cli_stack(cli, &stack));
    LUO_TRY(luo_cli_compile(cli, plan, doc, model, cluster, &stack, &set));
    const char *device = luo_args_get(&cli->args, "program", NULL);
    if (device) return print_program(cli, set, device, err);
    explain.model = model;
    explain.cluster = cluster;
    explain.plan = plan;
    explain.set = set;
    explain.cost = (luo_cost_ctx){.cluster = cluster, .stack = &stack, .dtype = plan->dtype};
    LUO_TRY(weigh(cli, &explain, err));
    LUO_TRY(price(cli, &explain, &stack, err));
    explain.annotations = luo_args_has(&cli->args, "annotations");
    explain.simulated = luo_args_has(&cli->args, "simulate");
    if (explain.simulated) {
        LUO_TRY(luo_cli_step_parts(cli, set, cluster, &stack, plan->dtype, &explain.step_s,
                                   &explain.parts));
        LUO_TRY(luo_cli_step_range(cli, set, cluster, &stack, plan->dtype, NULL, &explain.range));
    }
    if (cli->as_json) LUO_TRY(luo_explain_plan_json(&cli->json, &explain, err));
    LUO_TRY(luo_explain_plan(luo_cli_out(cli), &explain, err));
    return luo_cli_fits(cli, plan, cluster, set, err);
}

static luo_status explain(luo_cli *cli, luo_err *err)
{
    const char *path = cli->args.files[0];
    FILE *out = luo_cli_out(cli);
    luo_file_kind kind;
    luo_cluster *cluster;
    luo_model *model;
    luo_profile *profile;
    LUO_TRY(luo_file_kind_of(path, &kind, &cli->diags));
    switch (kind) {
    case LUO_FILE_PLAN: return explain_plan(cli, path, err);
    case LUO_FILE_CLUSTER:
        LUO_TRY(luo_read_cluster(cli->arena, path, &cluster, &cli->diags));
        luo_explain_cluster(out, cluster);
        return LUO_OK;
    case LUO_FILE_MODEL:
        LUO_TRY(luo_cli_model_file(cli, path, &model));
        return luo_explain_model(out, model, err);
    case LUO_FILE_PROFILE:
        LUO_TRY(luo_read_profile(cli->arena, path, &profile, &cli->diags));
        luo_explain_profile(out, profile);
        return LUO_OK;
    case LUO_FILE_STACK:
    case LUO_FILE_SCENARIO:
    case LUO_FILE_PARAMS:
    case LUO_FILE_TABLE:
        break;
    }
    return luo_err_set(err, LUO_EUSAGE,
                       "`%s` is neither a plan nor a cluster, model or profile; `luoshu check` "
                       "takes any file.",
                       path);
}

luo_status luo_verb_explain_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "one file is"));
    const luo_status st = explain(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
