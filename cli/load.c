#include "cli/load.h"

#include <string.h>

#include "core/base/devset.h"
#include "core/io/read/read.h"
#include "core/plan/planners.h"
#include "core/run/policy/judge_range.h"
#include "exec/coordinator/cuda.h"
#include "exec/coordinator/host.h"
#include "sim/sim.h"

const luo_backend *const luo_backends[] = {&luo_sim_backend, &luo_host_backend, &luo_cuda_backend};
const int luo_nbackends = (int)(sizeof luo_backends / sizeof *luo_backends);

luo_status luo_cli_dead(luo_cli *cli, luo_planner_opts *opts, luo_err *err)
{
    const char *text = luo_args_get(&cli->args, "dead", NULL);
    if (!text) return LUO_OK;
    int32_t *dev, n;
    LUO_TRY(luo_devset_parse(cli->arena, text, true, LUO_DEVICE_LIMIT, &dev, &n, err));
    for (int32_t i = 1; i < n; i++) /* the planner wants them ascending; sets are small */
        for (int32_t k = i; k > 0 && dev[k - 1] > dev[k]; k--) {
            const int32_t t = dev[k];
            dev[k] = dev[k - 1];
            dev[k - 1] = t;
        }
    opts->dead = dev;
    opts->ndead = n;
    return LUO_OK;
}

static luo_status required(luo_cli *cli, const char *option, const char **path)
{
    *path = luo_args_get(&cli->args, option, NULL);
    if (*path) return LUO_OK;
    return luo_cli_error(cli, LUO_EUSAGE, "`--%s` is missing; name the %s file.", option, option);
}

luo_status luo_cli_dtype(luo_cli *cli, const char **out, luo_err *err)
{
    static const char *const names[] = {LUO_DTYPE_LIST(LUO_WORD_TEXT)};
    int which;
    *out = NULL;
    LUO_TRY(luo_args_choice(&cli->args, "dtype", 0, names, LUO_DTYPES, &which, err));
    if (luo_args_has(&cli->args, "dtype")) *out = names[which];
    return LUO_OK;
}

luo_status luo_cli_model_file(luo_cli *cli, const char *path, luo_model **out)
{
    luo_overrides set = {0};
    luo_source src;
    luo_err err;
    if (luo_cli_dtype(cli, &set.dtype, &err) != LUO_OK ||
        luo_source_read(cli->arena, path, &src, &err) != LUO_OK)
        return luo_diags_err(&cli->diags, &err);
    return luo_read_model_text(cli->arena, &src, &set, out, &cli->diags);
}

luo_status luo_cli_model(luo_cli *cli, luo_model **out)
{
    const char *path;
    LUO_TRY(required(cli, "model", &path));
    return luo_cli_model_file(cli, path, out);
}

luo_status luo_cli_cluster(luo_cli *cli, luo_cluster **out)
{
    const char *path;
    LUO_TRY(required(cli, "cluster", &path));
    return luo_read_cluster(cli->arena, path, out, &cli->diags);
}

void luo_cli_say_vocab(luo_cli *cli, const luo_plan *plan, const luo_model *model)
{
    const int64_t rows = luo_plan_vocab(plan, model);
    if (rows == model->vocab) return;
    luo_cli_note(cli, LUO_NOTE,
                 "tensor parallelism cuts the %lld rows of the vocabulary of `%s` padded to %lld",
                 (long long)model->vocab, model->name, (long long)rows);
}

static luo_status read_plan(luo_cli *cli, const char *path, const luo_model *model,
                            const luo_cluster *cluster, bool part, luo_plan **out,
                            const luo_doc **doc)
{
    const luo_doc *file;
    luo_plan *plan;
    luo_plan_finding *found;
    luo_err err = {0};
    const char *dtype;
    int32_t n = 0;
    LUO_TRY(luo_read_plan(cli->arena, path, &plan, &file, &cli->diags));
    if (luo_cli_dtype(cli, &dtype, &err) != LUO_OK) return luo_diags_err(&cli->diags, &err);
    for (int t = 0; dtype && t < LUO_DTYPES; t++)
        if (strcmp(dtype, luo_dtype_name((luo_dtype)t)) == 0) plan->dtype = (luo_dtype)t;
    if (part && plan->devices < cluster->ndevices) plan->devices = cluster->ndevices;
    luo_status st = luo_plan_check_work(plan, &cli->work, &err);
    if (st == LUO_OK) st = luo_plan_check(cli->arena, plan, model, cluster, &found, &n);
    if (n > 0) luo_doc_report_plan(file, found, n, &cli->diags);
    if (st == LUO_OK && model && cluster) luo_plan_settle_context(plan, model, cluster);
    if (st == LUO_OK && model) st = luo_plan_check_annotations(plan, model, &err);
    if (err.text[0]) luo_doc_report_err(file, &err, &cli->diags);
    if (doc) *doc = file;
    if (st == LUO_OK && model) luo_cli_say_vocab(cli, plan, model);
    if (st == LUO_OK) *out = plan;
    return st;
}

luo_status luo_cli_plan(luo_cli *cli, const char *path, const luo_model *model,
                        const luo_cluster *cluster, luo_plan **out, const luo_doc **doc)
{
    return read_plan(cli, path, model, cluster, false, out, doc);
}

luo_status luo_cli_plan_of_part(luo_cli *cli, const char *path, const luo_model *model,
                                const luo_cluster *cluster, luo_plan **out)
{
    return read_plan(cli, path, model, cluster, true, out, NULL);
}

luo_status luo_cli_stack(luo_cli *cli, luo_stack *out)
{
    const char *path = luo_args_get(&cli->args, "stack", NULL);
    luo_stack_default(out);
    return path ? luo_read_stack(cli->arena, path, out, &cli->diags) : LUO_OK;
}

luo_status luo_cli_compile(luo_cli *cli, const luo_plan *plan, const luo_doc *doc,
                           const luo_model *model, const luo_cluster *cluster,
                           const luo_stack *stack, luo_programs **out)
{
    luo_err err = {0};
    const luo_compile_opts opts = {
        .check = true, .bucket = stack->bucket, .memory = luo_stack_memory(stack)};
    const luo_status st = luo_plan_compile(cli->arena, plan, model, cluster, &opts, out, &err);
    return st == LUO_OK ? st : luo_doc_report_err(doc, &err, &cli->diags);
}

luo_status luo_cli_fits(luo_cli *cli, const luo_plan *plan, const luo_cluster *cluster,
                        const luo_programs *set, luo_err *err)
{
    luo_memory *memory = LUO_NEW_N(cli->arena, luo_memory, set->n);
    double ratio;
    int32_t device;
    if (!memory) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(cli->arena, set, memory, err));
    return luo_plan_fits(plan, cluster, set, memory, &ratio, &device, err);
}

static luo_judge simulator_of(const luo_cluster *cluster, const luo_stack *stack)
{
    return (luo_judge){
        .simulator = &luo_sim_backend, .cluster = cluster, .stack = stack, .comm = LUO_COMM_FLOW};
}

static luo_status one_step(luo_cli *cli, const luo_programs *set, const luo_cluster *cluster,
                           const luo_stack *stack, luo_dtype dtype, const double *rate,
                           luo_judgement *out)
{
    const luo_judge judge = simulator_of(cluster, stack);
    luo_err err = {0};
    *out = (luo_judgement){0};
    return luo_cli_fail(cli, luo_judge_simulate(cli->arena, &judge, set, dtype, rate, out, &err),
                        &err);
}

luo_status luo_cli_one_step(luo_cli *cli, const luo_programs *set, const luo_cluster *cluster,
                            const luo_stack *stack, luo_dtype dtype, const double *rate,
                            double *seconds)
{
    luo_judgement judgement;
    const luo_status st = one_step(cli, set, cluster, stack, dtype, rate, &judgement);
    *seconds = judgement.seconds;
    return st;
}

luo_status luo_cli_step_parts(luo_cli *cli, const luo_programs *set, const luo_cluster *cluster,
                              const luo_stack *stack, luo_dtype dtype, double *seconds,
                              luo_parts *mean)
{
    luo_judgement judgement;
    const luo_status st = one_step(cli, set, cluster, stack, dtype, NULL, &judgement);
    *seconds = judgement.seconds;
    *mean = judgement.mean;
    return st;
}

luo_status luo_cli_step_range(luo_cli *cli, const luo_programs *set, const luo_cluster *cluster,
                              const luo_stack *stack, luo_dtype dtype, const double *rate,
                              luo_time_range *out)
{
    const luo_judge judge = simulator_of(cluster, stack);
    luo_err err = {0};
    return luo_cli_fail(
        cli, luo_judge_range(cli->arena, &judge, set, dtype, rate, &cli->work, out, &err), &err);
}
