/* cli/verb_explain.c: `luoshu explain FILE`. */
#include <stdlib.h>

#include "cli/explain.h"
#include "core/io/io.h"

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

static void json_memory(luo_cli *cli, const luo_explain *x)
{
    luo_jsonw *j = &cli->json;
    char h[17];
    luo_jsonw_text(j, "plan_hash", luo_hash_print(luo_plan_hash(x->plan), h));
    luo_jsonw_text(j, "program_hash", luo_hash_print(x->set->hash, h));
    luo_jsonw_int(j, "communicators", x->set->ngroups);
    luo_jsonw_open(j, "memory", '[');
    for (int32_t i = 0; i < x->set->n; i++) {
        luo_memory m;
        const int32_t d = x->set->at[i].device;
        if (luo_program_memory(cli->arena, x->set, d, &m, NULL) != LUO_OK) break;
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_int(j, "device", d);
        luo_jsonw_int(j, "weights_bytes", m.weights);
        luo_jsonw_int(j, "gradients_bytes", m.gradients);
        luo_jsonw_int(j, "optimizer_bytes", m.optimizer);
        luo_jsonw_int(j, "activations_bytes", m.activations);
        luo_jsonw_int(j, "buffers_bytes", m.buffers);
        luo_jsonw_int(j, "peak_bytes", m.peak);
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
}

static luo_status explain_plan(luo_cli *cli, const char *path, luo_err *err)
{
    luo_explain x = {.arena = cli->arena};
    luo_model *model;
    luo_cluster *cluster;
    luo_plan *plan;
    luo_source src;
    luo_programs *set;
    luo_stack stack;
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_plan(cli, path, model, cluster, &plan, &src));
    LUO_TRY(luo_cli_compile(cli, plan, &src, model, cluster, &set));
    luo_stack_default(&stack);
    const char *device = luo_args_get(&cli->args, "program", NULL);
    if (device) return print_program(cli, set, device, err);
    x.model = model;
    x.cluster = cluster;
    x.plan = plan;
    x.set = set;
    x.cost = (luo_cost_ctx){.cluster = cluster, .stack = &stack, .dtype = plan->dtype};
    if (cli->as_json) json_memory(cli, &x);
    LUO_TRY(luo_explain_plan(luo_cli_out(cli), &x, err));
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
        LUO_TRY(luo_read_model(cli->arena, path, &model, &cli->diags));
        return luo_explain_model(out, model, err);
    case LUO_FILE_PROFILE:
        LUO_TRY(luo_read_profile(cli->arena, path, &profile, &cli->diags));
        luo_explain_profile(out, profile);
        return LUO_OK;
    default:
        return luo_err_set(err, LUO_EUSAGE, "`%s` is neither a plan nor a cluster, model or "
                                            "profile; `luoshu check` takes any file.", path);
    }
}

luo_status luo_verb_explain_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "one file is"));
    const luo_status st = explain(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
