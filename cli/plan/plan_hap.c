/* plan_hap.c: `luoshu plan hap`: options, the graph, the numbers, the search. */
#include "cli/plan/plan_hap.h"

#include <math.h>
#include <string.h>

#include "cli/plan/plan_rates.h"
#include "cli/run/progress.h"
#include "core/io/read/read.h"
#include "core/plan/hap_graph/hap_model.h"

enum { PER_DEVICE = 32, SEGMENTS_MOST = 4096 };

/* ---- options ---- */

static luo_status on_or_off(const luo_args *args, const char *name, bool otherwise, bool *out,
                            luo_err *err)
{
    static const char *const words[] = {"off", "on"};
    int chosen;
    LUO_TRY(luo_args_choice(args, name, otherwise, words, 2, &chosen, err));
    *out = chosen;
    return LUO_OK;
}

static luo_status unknown_start(const char *word, size_t n, luo_err *err)
{
    const char *names[LUO_HAP_STARTS];
    char copy[32];
    luo_str text = {0};
    snprintf(copy, sizeof copy, "%.*s", (int)(n < 30 ? n : 30), word);
    for (int32_t s = 0; s < LUO_HAP_STARTS; s++) names[s] = luo_hap_start_name((luo_hap_start)s);
    luo_words_expected(&text, copy, names, LUO_HAP_STARTS);
    luo_err_set(err, LUO_EUSAGE, "`--starts` has `%s`; %s", copy, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

static luo_status read_starts(const luo_args *args, uint32_t *out, luo_err *err)
{
    const char *at = luo_args_get(args, "starts", "");
    while (*at) {
        const size_t n = strcspn(at, ",");
        int32_t start = 0;
        while (start < LUO_HAP_STARTS &&
               (strlen(luo_hap_start_name((luo_hap_start)start)) != n ||
                memcmp(luo_hap_start_name((luo_hap_start)start), at, n) != 0))
            start++;
        if (start == LUO_HAP_STARTS) return unknown_start(at, n, err);
        *out |= 1u << start;
        at += n;
        at += *at == ',';
    }
    return LUO_OK;
}

static luo_status read_job(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    static const char *const zeros[] = {"auto", "off", "on"}, *const searches[] = {"astar", "dp"};
    luo_hap_job *job = &call->job;
    bool grouped, memory;
    int zero, search;
    const char *rules = luo_args_get(args, "rules", "all");
    LUO_TRY(read_starts(args, &job->starts, err));
    LUO_TRY(on_or_off(args, "factors", true, &job->opts.factors, err));
    LUO_TRY(on_or_off(args, "grouped", true, &grouped, err));
    LUO_TRY(on_or_off(args, "memory", true, &memory, err));
    LUO_TRY(luo_args_choice(args, "zero", 0, zeros, 3, &zero, err));
    LUO_TRY(luo_args_choice(args, "search", 0, searches, 2, &search, err));
    job->no_grouped = !grouped;
    job->no_memory = !memory;
    job->zero = (luo_hap_zero)zero;
    job->opts.layers = search == 1;
    job->opts.rules = strcmp(rules, "all") == 0 ? NULL : rules;
    job->opts.compat = luo_args_has(args, "compat");
    job->opts.sayable = !luo_args_has(args, "rules") && !job->opts.compat;
    return LUO_OK;
}

static luo_status read_rank(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    static const char *const ranks[] = {LUO_JUDGED_LIST(LUO_WORD_ONLY)};
    static const luo_judged judged[] = {LUO_JUDGED_LIST(LUO_WORD_VALUE)};
    int rank;
    LUO_TRY(luo_args_choice(args, "rank", -1, ranks, sizeof ranks / sizeof *ranks, &rank, err));
    call->rank = rank < 0 ? LUO_JUDGED_AUTO : judged[rank];
    return LUO_OK;
}

static luo_status read_baseline(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    const char *names[LUO_HAP_BASELINES];
    for (int32_t b = 0; b < LUO_HAP_BASELINES; b++)
        names[b] = luo_hap_baseline_name((luo_hap_baseline)b);
    return luo_args_choice(args, "baseline", -1, names, LUO_HAP_BASELINES, &call->baseline, err);
}

/* A network of the published evaluation instead of a model: its sizes are its own. */
static luo_status read_network(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    static const char *const others[] = {"model", "dtype", "seq-length", "out"};
    LUO_TRY(luo_args_choice(args, "network", -1, luo_hap_network_names(), LUO_HAP_NETWORKS,
                            &call->network, err));
    if (call->network < 0) return LUO_OK;
    call->dtype = LUO_F32;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (luo_args_has(args, others[i]))
            return luo_err_set(
                err, LUO_EUSAGE,
                "`--%s` does not go with `--network`, which has sizes of its own and "
                "makes no plan file; leave one out.",
                others[i]);
    if (call->rank != LUO_JUDGED_SIMULATED) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--rank simulated` does not go with `--network`, of which no programs of "
                       "devices are made; leave one out.");
}

static luo_status read_model_sizes(const luo_args *args, luo_hap_call *call, luo_err *err)
{
    static const char *const dtypes[] = {LUO_DTYPE_LIST(LUO_WORD_TEXT)};
    int dtype;
    LUO_TRY(
        luo_args_choice(args, "dtype", (int)call->model->dtype, dtypes, LUO_DTYPES, &dtype, err));
    call->dtype = (luo_dtype)dtype;
    return luo_args_int(args, "seq-length", call->model->max_sequence_tokens, 1, 1 << 24,
                        &call->tokens, err);
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
    bool whole = true;
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
    LUO_TRY(on_or_off(&cli->args, "integer", true, &whole, err));
    call->numbers.fractional = !whole;
    return LUO_OK;
}

static luo_status read_call(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    LUO_TRY(read_job(&cli->args, call, err));
    LUO_TRY(read_baseline(&cli->args, call, err));
    LUO_TRY(read_rank(&cli->args, call, err));
    LUO_TRY(read_network(&cli->args, call, err));
    if (call->network < 0) LUO_TRY(luo_cli_model(cli, &call->model));
    LUO_TRY(luo_cli_cluster(cli, &call->cluster));
    LUO_TRY(luo_cli_stack(cli, &call->stack));
    LUO_TRY(list_devices(cli, call, err));
    LUO_TRY(read_sizes(&cli->args, call, err));
    LUO_TRY(make_graph(cli, call, err));
    LUO_TRY(cut_segments(&cli->args, call, err));
    return read_numbers(cli, call, err);
}

/* ---- the search ---- */

static luo_status search(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    const double start = luo_cli_wall_s();
    for (int32_t b = 0; b < LUO_HAP_BASELINES; b++)
        LUO_TRY(luo_hap_baseline_find(cli->arena, call->graph, &call->numbers, &call->job,
                                      (luo_hap_baseline)b, &call->against[b], err));
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
    if (luo_args_has(&cli->args, "out")) LUO_TRY(luo_hap_call_write(cli, call, err));
    if (cli->as_json)
        luo_hap_call_json(cli, call);
    else
        luo_hap_call_text(cli, call);
    return LUO_OK;
}
