/* plan_hap.c: `luoshu plan hap`: sizes, the graph, the numbers, the search. */
#include "cli/plan/plan_hap.h"

#include <math.h>
#include <string.h>

#include "cli/plan/plan_rates.h"
#include "cli/run/progress.h"
#include "core/io/read/read.h"
#include "core/plan/hap_graph/hap_model.h"

enum { PER_DEVICE = 32, SEGMENTS_MOST = 4096 };

/* ---- sizes ---- */

static luo_status read_model_sizes(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    call->dtype = call->model->dtype;
    return luo_plan_seq_length(args, call->model, &call->tokens, err);
}

static luo_status read_sizes(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    int64_t each;
    if (call->model) LUO_TRY(read_model_sizes(args, call, err));
    if (luo_args_has(args, "batch") && luo_args_has(args, "batch-per-device"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--batch` and `--batch-per-device` are both given; choose one.");
    LUO_TRY(luo_args_int(args, "batch-per-device", PER_DEVICE, 1, 1 << 20, &each, err));
    return luo_args_int(args, "batch", each * call->devices.n, 1, 1 << 30, &call->sequences, err);
}

/* ---- devices, graph, numbers ---- */

static luo_status list_devices(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    const luo_cluster *cluster = call->cluster;
    int32_t *usable = LUO_NEW_N(cli->arena, int32_t, cluster->ndevices), n = 0;
    bool *candidate;
    if (!usable) return luo_err_nomem(err);
    LUO_TRY(luo_plan_rates(cli, cluster, &call->rate, &candidate, err));
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (candidate[d] && isfinite(call->rate[d])) usable[n++] = d;
    if (n == 0) return luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
    return luo_hap_devices_of(cli->arena, cluster, usable, n, call->rate, &call->devices, err);
}

static luo_status make_graph(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    if (call->model)
        return luo_hap_model_graph(cli->arena, call->model, call->dtype, call->sequences,
                                   call->tokens, &call->graph, err);
    call->graph = luo_hap_network_graph(cli->arena, (luo_hap_network)call->network, call->sequences,
                                        call->devices.n);
    return call->graph ? luo_hap_graph_check(call->graph, err) : luo_err_nomem(err);
}

static luo_status cut_segments(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    const char *how = luo_args_get(args, "segments", "off");
    int64_t n;
    if (strcmp(how, "off") == 0) return LUO_OK;
    if (strcmp(how, "layer") == 0) return luo_hap_graph_cut(call->graph, 0, err);
    if (luo_args_int(args, "segments", 1, 1, SEGMENTS_MOST, &n, err) != LUO_OK)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--segments` is `%.40s`; off, layer or an integer from 1 to %d is "
                           "expected.",
                           how, SEGMENTS_MOST);
    return luo_hap_graph_cut(call->graph, (int32_t)n, err);
}

static luo_status read_numbers(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    luo_params params = {0};
    const luo_cost_ctx ctx = {
        .cluster = call->cluster, .stack = &call->stack, .dtype = call->dtype};
    call->params = luo_args_get(&cli->args, "params", NULL);
    if (call->params) LUO_TRY(luo_read_params(cli->arena, call->params, &params, &cli->diags));
    if (call->params && params.hap.ntypes == 0)
        return luo_err_set(err, LUO_EINPUT, "`%s` has no key `hap`; planner `hap` needs it.",
                           call->params);
    if (call->params)
        LUO_TRY(luo_hap_cluster_given(&params.hap, &call->devices, &call->numbers, err));
    else
        LUO_TRY(luo_hap_cluster_numbers(cli->arena, call->graph, &ctx, &call->devices,
                                        &call->numbers, err));
    call->numbers.fractional = !call->whole;
    return LUO_OK;
}

static luo_status read_call(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    LUO_TRY(luo_hap_call_options(&cli->args, call, err));
    if (call->network < 0) LUO_TRY(luo_cli_model(cli, &call->model));
    LUO_TRY(luo_cli_cluster(cli, &call->cluster));
    LUO_TRY(luo_cli_stack(cli, &call->stack));
    LUO_TRY(list_devices(cli, call, err));
    LUO_TRY(read_sizes(&cli->args, call, err));
    LUO_TRY(make_graph(cli, call, err));
    LUO_TRY(luo_hap_call_check_rules(call, err));
    LUO_TRY(cut_segments(&cli->args, call, err));
    return read_numbers(cli, call, err);
}

/* ---- the search ---- */

/* One that no program can follow is left out, unless it is asked for. */
static luo_status find_baseline(luo_cli *cli, luo_hap_call *call, int32_t b, luo_err *err)
{
    luo_err why = {0};
    const luo_status st = luo_hap_baseline_find(cli->arena, call->graph, &call->numbers, &call->job,
                                                (luo_hap_baseline)b, &call->against[b], &why);
    if (st == LUO_ENORULE && call->baseline != b) {
        call->against[b] = NULL;
        return LUO_OK;
    }
    return st == LUO_OK ? st : luo_err_set(err, st, "%s", why.text);
}

static luo_status search(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    const double start = luo_cli_wall_s();
    for (int32_t b = 0; b < LUO_HAP_BASELINES; b++) LUO_TRY(find_baseline(cli, call, b, err));
    if (call->baseline < 0 && call->rank == LUO_JUDGED_SIMULATED)
        LUO_TRY(luo_hap_call_rank(cli, call, err));
    else if (call->baseline < 0)
        LUO_TRY(luo_hap_alternate(cli->arena, call->graph, &call->numbers, &call->job,
                                  &call->result, err));
    else
        call->result = call->against[call->baseline];
    if (!call->result)
        return luo_err_set(err, LUO_EINPUT,
                           "`--baseline` is `ep`, and the model has no experts; dp-ev or dp-cp is "
                           "expected.");
    call->planning_s = luo_cli_wall_s() - start;
    return luo_hap_program_cuts(cli->arena, call->result->program->space, &call->result->numbers,
                                call->result->shares, &call->cuts, err);
}

luo_status luo_plan_hap_run(luo_cli *cli, luo_err *err)
{
    luo_hap_call *call = LUO_NEW(cli->arena, luo_hap_call);
    if (!call) return luo_err_nomem(err);
    LUO_TRY(read_call(cli, call, err));
    LUO_TRY(search(cli, call, err));
    LUO_TRY(luo_hap_call_judge(cli, call, err));
    if (call->out_of_memory) return luo_err_set(err, LUO_EOOM, "%s", call->why);
    LUO_TRY(luo_hap_call_range(cli, call, err));
    if (luo_args_has(&cli->args, "out")) LUO_TRY(luo_hap_call_write(cli, call, err));
    if (cli->as_json)
        luo_hap_call_json(cli, call);
    else
        luo_hap_call_text(cli, call);
    return LUO_OK;
}
