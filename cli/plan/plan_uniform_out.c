/* What `luoshu plan uniform` prints: a table of plans and a few lines, or the document. */
#include "cli/plan/plan_uniform.h"

#include <string.h>

#include "cli/plan/plan_answer.h"
#include "cli/plan/plan_shares.h"
#include "core/io/result/result.h"

/* ---- where a step goes ---- */

/* Of a simulated step, or of its closed form: they sum to it. */
static int list_shares(const luo_judged_plan *plan, luo_plan_share out[LUO_PLAN_SHARES])
{
    const luo_uniform_result *result = plan->result;
    const luo_plan_share closed[] = {
        {.name = "work", .seconds = result->ideal_s * result->jitter},
        {.name = "bubble",
         .limit = "the bubble of the pipeline",
         .seconds = (result->pipeline_s - result->ideal_s) * result->jitter},
        {.name = "dp", .limit = "data parallelism", .seconds = result->dp_s * result->jitter},
        {.name = "optimizer",
         .limit = "the optimizer",
         .seconds = result->optimizer_s * result->jitter}};
    enum { CLOSED = sizeof closed / sizeof *closed };
    if (plan->step.seconds < 0)
        memcpy(out, closed, sizeof closed);
    else
        luo_plan_shares(&plan->step, out);
    return plan->step.seconds < 0 ? (int)CLOSED : (int)LUO_PLAN_SHARES;
}

static double step_of(const luo_judged_plan *plan)
{
    return plan->step.seconds >= 0 ? plan->step.seconds : plan->result->objective_s;
}

static const char *limit_of(const luo_judged_plan *plan)
{
    luo_plan_share share[LUO_PLAN_SHARES];
    const luo_plan_share *limit =
        luo_plan_share_limit(share, list_shares(plan, share), step_of(plan));
    return limit ? limit->limit : "compute";
}

static double memory_of(const luo_judged_plan *plan)
{
    return plan->step.memory_ratio > 0 ? plan->step.memory_ratio : plan->result->memory_ratio;
}

/* ---- text ---- */

static bool is_uneven(const luo_plan *plan)
{
    const luo_pipeline *pl = &plan->pipelines[0];
    const int32_t first = pl->stages[0].layers[0].hi - pl->stages[0].layers[0].lo;
    for (int32_t s = 0; s < pl->nstages; s++)
        for (int32_t k = 0; k < pl->stages[s].nlayers; k++)
            if (pl->stages[s].layers[k].hi - pl->stages[s].layers[k].lo != first) return true;
    return false;
}

static bool is_dealt(const luo_plan *plan)
{
    for (int32_t i = 1; i < plan->npipelines; i++)
        if (plan->pipelines[i].micro_batches != plan->pipelines[0].micro_batches) return true;
    return false;
}

static void print_row(luo_cli *cli, const luo_uniform_call *call, int32_t i)
{
    FILE *out = luo_cli_out(cli);
    const luo_judged_plan *judged_plan = &call->plan[i];
    const luo_plan *plan = judged_plan->result->plan;
    const luo_pipeline *pl = &plan->pipelines[0];
    char h[17], zero[24], order[24], step[32] = "-", seen[16] = "-", bubble[16] = "-";
    if (plan->chunks > 1)
        snprintf(order, sizeof order, "inter x%d", plan->chunks);
    else
        snprintf(order, sizeof order, "%s", luo_sched_name(plan->schedule));
    snprintf(zero, sizeof zero, "%d%s%s", plan->zero, plan->zero == 3 ? " " : "",
             plan->zero == 3 ? luo_shard_name(plan->sharding.kind) : "");
    if (judged_plan->step.seconds >= 0) {
        snprintf(step, sizeof step, "%.6f", judged_plan->step.seconds);
        snprintf(seen, sizeof seen, "%.1f%%",
                 100 * luo_plan_share_exposed(&judged_plan->step) / judged_plan->step.seconds);
        snprintf(bubble, sizeof bubble, "%.1f%%",
                 100 * judged_plan->step.mean.bubble_s / judged_plan->step.seconds);
    }
    fprintf(out,
            "%-4d %-16s %3d %3d %3d %4d%s %3d %-9s %-6s %-9s %-9s %12.6f %12s %6.1f%% %7s %6s"
            "  %s\n",
            i + 1, luo_hash_print(luo_plan_hash(plan), h), luo_stage_tp(&pl->stages[0]),
            pl->stages[0].context_parallel, pl->nstages, plan->npipelines,
            is_dealt(plan) ? "d" : " ", pl->micro_batch_sequences, order,
            is_uneven(plan) ? "uneven" : "equal", luo_recompute_name(pl->stages[0].recompute), zero,
            judged_plan->result->objective_s, step, 100 * memory_of(judged_plan), seen, bubble,
            luo_plan_file(cli, i));
}

static void print_why(FILE *out, const luo_uniform_call *call)
{
    for (int32_t i = 0; i < luo_uniform_rows(call); i++) {
        const luo_judged_plan *plan = &call->plan[i];
        luo_plan_share share[LUO_PLAN_SHARES];
        const int n = list_shares(plan, share);
        fprintf(out, "why %d:", i + 1);
        for (int k = 0; k < n; k++)
            if (share[k].seconds > 0)
                fprintf(out, " %s %.1f%%", share[k].name, 100 * share[k].seconds / step_of(plan));
        fprintf(out, "; memory %.1f%%; limited by %s\n", 100 * memory_of(plan), limit_of(plan));
    }
}

static void print_choice(FILE *out, const luo_uniform_call *call)
{
    if (!call->by_simulation) return;
    fprintf(out,
            "chosen by simulated step among %d: the best by closed form, and the best of "
            "other sizes",
            call->nplans);
    for (int32_t i = 1; i < call->nplans; i++)
        if (call->plan[i].result == call->closed)
            fprintf(out, "; best by closed form: %.6f s", call->plan[i].step.seconds);
    fputc('\n', out);
}

static void print_answer(luo_cli *cli, const luo_uniform_call *call)
{
    const luo_judged_plan *first = &call->plan[0];
    luo_plan_answer answer = {.file = luo_plan_file(cli, 0),
                              .plan = first->result->plan,
                              .model = call->model,
                              .cluster = call->cluster,
                              .step_s = first->step.seconds,
                              .range = &call->range,
                              .memory_ratio = memory_of(first),
                              .apart = call->apart};
    if (call->by_simulation && call->nplans > 1) {
        const uint64_t next = luo_plan_hash(call->plan[1].result->plan);
        char h[17];
        answer.next = luo_arena_printf(cli->arena, "plan %s", luo_hash_print(next, h));
        answer.next_s = call->plan[1].step.seconds;
    }
    luo_plan_answer_print(cli, &answer);
}

void luo_uniform_text(luo_cli *cli, const luo_uniform_call *call)
{
    FILE *out = luo_cli_out(cli);
    char g[17];
    print_answer(cli, call);
    fprintf(out, "%-4s %-16s %3s %3s %3s %4s  %3s %-9s %-6s %-9s %-9s %12s %12s %7s %7s %6s  %s\n",
            "rank", "plan", "tp", "cp", "pp", "dp", "mb", "schedule", "layers", "recompute", "zero",
            "objective_s", "simulated_s", "memory", "exposed", "bubble", "file");
    for (int32_t i = 0; i < luo_uniform_rows(call); i++) print_row(cli, call, i);
    if (luo_args_has(&cli->args, "why")) print_why(out, call);
    print_choice(out, call);
    fprintf(out, "search: %lld plans divide, %lld were priced; lower bound %.6f s\n",
            (long long)call->closed->shapes, (long long)call->closed->priced,
            call->closed->bound_s);
    fprintf(out, "simulated step of the first: %.6f s", call->plan[0].step.seconds);
    luo_cli_range_print(out, &call->range, call->plan[0].step.seconds);
    fprintf(out, " (program %s)\nplanning: %.3f s\n", luo_hash_print(call->set->hash, g),
            call->planning_s);
}

/* ---- JSON ---- */

static void json_shape(luo_jsonw *json, const luo_plan *plan)
{
    const luo_pipeline *pl = &plan->pipelines[0];
    luo_jsonw_int(json, "tp", luo_stage_tp(&pl->stages[0]));
    luo_jsonw_int(json, "cp", pl->stages[0].context_parallel);
    luo_jsonw_int(json, "pp", pl->nstages);
    luo_jsonw_int(json, "dp", plan->npipelines);
    luo_jsonw_int(json, "micro_batch_sequences", pl->micro_batch_sequences);
    luo_jsonw_open(json, "micro_batches", '[');
    for (int32_t i = 0; i < (is_dealt(plan) ? plan->npipelines : 1); i++)
        luo_jsonw_int(json, NULL, plan->pipelines[i].micro_batches);
    luo_jsonw_close(json);
    luo_jsonw_text(json, "schedule", luo_sched_name(plan->schedule));
    luo_jsonw_int(json, "chunks", plan->chunks);
    luo_jsonw_open(json, "layers", '[');
    for (int32_t k = 0; k < plan->chunks; k++)
        for (int32_t s = 0; s < pl->nstages; s++)
            luo_jsonw_int(json, NULL, pl->stages[s].layers[k].hi - pl->stages[s].layers[k].lo);
    luo_jsonw_close(json);
    luo_jsonw_text(json, "recompute", luo_recompute_name(pl->stages[0].recompute));
    luo_jsonw_int(json, "zero", plan->zero);
    luo_jsonw_text(json, "shard", plan->zero == 3 ? luo_shard_name(plan->sharding.kind) : NULL);
}

static void json_shares(luo_jsonw *json, const luo_judged_plan *plan)
{
    luo_plan_share share[LUO_PLAN_SHARES];
    const int n = list_shares(plan, share);
    luo_jsonw_open(json, "shares", '{');
    for (int k = 0; k < n; k++)
        luo_jsonw_num(json, share[k].name, share[k].seconds / step_of(plan), 9);
    luo_jsonw_close(json);
    luo_jsonw_text(json, "limited_by", limit_of(plan));
}

static void json_plan(luo_cli *cli, const luo_uniform_call *call, int32_t i)
{
    luo_jsonw *json = &cli->json;
    const luo_judged_plan *plan = &call->plan[i];
    const luo_uniform_result *result = plan->result;
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_hash(json, "plan_hash", luo_plan_hash(result->plan));
    luo_jsonw_text(json, "file", luo_plan_file(cli, i));
    luo_jsonw_num(json, "objective_s", result->objective_s, 9);
    luo_jsonw_num(json, "bound_s", result->bound_s, 9);
    luo_jsonw_num(json, "memory_ratio", memory_of(plan), 9);
    json_shape(json, result->plan);
    luo_jsonw_int(json, "idle_devices", result->idle);
    if (plan->step.seconds >= 0)
        luo_jsonw_num(json, "simulated_step_s", plan->step.seconds, 9);
    else
        luo_jsonw_text(json, "simulated_step_s", NULL);
    if (plan->step.seconds >= 0)
        luo_jsonw_num(json, "exposed_s", luo_plan_share_exposed(&plan->step), 9);
    else
        luo_jsonw_text(json, "exposed_s", NULL);
    if (plan->step.seconds >= 0)
        luo_jsonw_num(json, "bubble_s", plan->step.mean.bubble_s, 9);
    else
        luo_jsonw_text(json, "bubble_s", NULL);
    json_shares(json, plan);
    luo_jsonw_close(json);
}

void luo_uniform_json(luo_cli *cli, const luo_uniform_call *call)
{
    luo_jsonw *json = &cli->json;
    luo_jsonw_text(json, "chosen_by", call->by_simulation ? "simulated" : "objective");
    luo_jsonw_open(json, "plans", '[');
    for (int32_t i = 0; i < luo_uniform_rows(call); i++) json_plan(cli, call, i);
    luo_jsonw_close(json);
    luo_jsonw_open(json, "search", '{');
    luo_jsonw_int(json, "plans", call->closed->shapes);
    luo_jsonw_int(json, "priced", call->closed->priced);
    luo_jsonw_int(json, "simulated", call->by_simulation ? call->nplans : 1);
    luo_jsonw_close(json);
    luo_jsonw_open(json, "warnings", '[');
    for (int i = 0; i < call->nwarnings; i++) luo_jsonw_text(json, NULL, call->warning[i]);
    luo_jsonw_close(json);
    luo_jsonw_num(json, "simulated_step_s", call->plan[0].step.seconds, 9);
    luo_result_range_json(json, &call->range, call->plan[0].step.seconds);
    luo_jsonw_hash(json, "program_hash", call->set->hash);
    luo_jsonw_num(json, "elapsed_ms", 1e3 * call->planning_s, 9);
}
