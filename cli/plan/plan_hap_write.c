/* plan_hap_write.c: a program of `luoshu plan hap` as a plan: its file, its step on the simulator,
 * and with --rank simulated the fastest of the best pairs of all starts. */
#include <math.h>

#include "cli/plan/plan_hap.h"
#include "cli/plan/plan_judge.h"
#include "core/plan/hap/emit.h"

static void meta_shares(luo_jsonw *json, const luo_hap_call *call)
{
    const int32_t ntypes = call->devices.ntypes;
    luo_jsonw_open(json, "shares", '[');
    for (int32_t s = 0; s < call->graph->nsegments; s++) {
        luo_jsonw_open(json, NULL, '[');
        for (int32_t t = 0; t < ntypes; t++)
            luo_jsonw_num(json, NULL, call->result->shares[s * ntypes + t], 9);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

/* For people: nothing in it is needed to run. */
static const char *meta_of(luo_cli *cli, const luo_hap_call *call)
{
    luo_str text = {0};
    luo_jsonw json = luo_jsonw_start(&text);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "planner", "hap");
    luo_jsonw_num(&json, "cost_s", call->result->cost_s, 9);
    luo_jsonw_text(&json, "start", luo_hap_start_name(call->result->start));
    meta_shares(&json, call);
    luo_jsonw_open(&json, "program", '[');
    for (int32_t o = 0; o < call->graph->nops; o++) {
        luo_str line = {0};
        luo_hap_program_line(&line, call->result->program, o);
        luo_jsonw_text(&json, NULL, luo_str_get(&line));
        luo_str_free(&line);
    }
    luo_jsonw_close(&json);
    luo_jsonw_close(&json);
    const char *copy = text.failed ? NULL : luo_arena_strdup(cli->arena, luo_str_get(&text));
    luo_str_free(&text);
    return copy;
}

luo_status luo_hap_call_plan(luo_cli *cli, const luo_hap_call *call, luo_plan **out, luo_err *err)
{
    const luo_hap_place place = {.model = call->model,
                                 .cluster = call->cluster,
                                 .dtype = call->dtype,
                                 .devices = &call->devices,
                                 .sequences = call->sequences,
                                 .tokens = call->tokens,
                                 .micro_batches = 1};
    LUO_TRY(luo_hap_as_plan(cli->arena, call->result, &place, out, err));
    (*out)->meta_json = meta_of(cli, call);
    return (*out)->meta_json ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_hap_call_write(luo_cli *cli, const luo_hap_call *call, luo_err *err)
{
    luo_plan *plan;
    LUO_TRY(luo_hap_call_plan(cli, call, &plan, err));
    return luo_plan_write(cli, 0, plan, err);
}

/* ---- simulated steps ---- */

/* Seconds of a step of call->result, INFINITY where it does not run: then call->why says it. */
static luo_status simulate(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    luo_judgement step = {.seconds = INFINITY};
    luo_plan *plan;
    luo_err why = {0};
    luo_status st = luo_hap_call_plan(cli, call, &plan, &why);
    if (st == LUO_OK)
        st = luo_judge_plan(&judge, plan, plan->sequence_tokens, call->rate, &step, &why);
    luo_judge_free(&judge);
    if (st == LUO_ENOMEM || st == LUO_EBACKEND || st == LUO_ECANCELED) {
        if (err) *err = why;
        return st;
    }
    call->out_of_memory = why.st == LUO_EOOM;
    call->step_s = st == LUO_OK ? step.seconds : INFINITY;
    call->why = isfinite(call->step_s) ? NULL : luo_arena_strdup(cli->arena, why.text);
    return isfinite(call->step_s) || call->why ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_hap_call_judge(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    call->step_s = NAN;
    if (!call->model) call->why = "no programs of devices are made of a network";
    if (!call->model) return LUO_OK;
    return luo_plan_is_judged(call->rank, call->cluster) ? simulate(cli, call, err) : LUO_OK;
}

/* Has the start shares to begin with, and is it asked for? Of memory only where that is known. */
static bool begins(luo_cli *cli, const luo_hap_call *call, luo_hap_start start)
{
    const uint32_t asked = call->job.starts ? call->job.starts : (1u << LUO_HAP_STARTS) - 1;
    double *shares =
        LUO_NEW_N(cli->arena, double, (int64_t)call->graph->nsegments * call->numbers.ntypes);
    const bool memory = start != LUO_HAP_START_MEM || call->job.starts || !call->job.no_memory;
    return shares && memory && asked >> start & 1 &&
           luo_hap_start_shares(call->graph, &call->numbers, start, call->job.opts.compat, shares);
}

luo_status luo_hap_call_rank(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    luo_hap_result *best = NULL;
    double best_s = INFINITY;
    luo_hap_job job = call->job;
    luo_status st = LUO_OK;
    for (int32_t s = 0; s < LUO_HAP_STARTS; s++) {
        if (!begins(cli, call, (luo_hap_start)s)) continue;
        job.starts = 1u << s;
        st = luo_hap_alternate(cli->arena, call->graph, &call->numbers, &job, &call->result, err);
        if (st == LUO_EINFEASIBLE) continue; /* another start may fit */
        LUO_TRY(st);
        LUO_TRY(simulate(cli, call, err));
        if (best && !(call->step_s < best_s)) continue;
        best = call->result;
        best_s = call->step_s;
    }
    call->result = best;
    if (best) return LUO_OK;
    return st != LUO_OK ? st : luo_err_set(err, LUO_EINPUT, "no start of --starts has shares.");
}

luo_status luo_hap_call_range(luo_cli *cli, luo_hap_call *call, luo_err *err)
{
    const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    luo_plan *plan;
    if (!isfinite(call->step_s)) return LUO_OK;
    LUO_TRY(luo_hap_call_plan(cli, call, &plan, err));
    LUO_TRY(luo_judge_range_of_plan(cli->arena, &judge, plan, plan->sequence_tokens, call->rate,
                                    &cli->work, &call->range, err));
    luo_cli_range_warn(cli, call->cluster, &call->stack, &call->range);
    return LUO_OK;
}
