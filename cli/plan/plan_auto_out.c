/* What `luoshu plan auto` prints: a line for each planner, then what limits the plan that was taken
 * and what would help it. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/plan/plan_answer.h"
#include "cli/plan/plan_auto.h"
#include "core/io/result/result.h"

enum { LINES = LUO_AUTO_PLANNERS + 6 };

typedef struct explanation {
    const char *line[LINES];
    int n;
} explanation;

static void say(luo_cli *cli, explanation *x, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void say(luo_cli *cli, explanation *x, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *copy = x->n < LINES ? luo_arena_strdup(cli->arena, text) : NULL;
    if (copy) x->line[x->n++] = copy;
}

static const luo_auto_candidate *best_of(const luo_auto_call *call)
{
    return &call->answer.at[call->answer.best];
}

/* ---- candidates ---- */

static void say_candidate(luo_cli *cli, explanation *x, const luo_auto_call *call, int k)
{
    const luo_auto_candidate *candidate = &call->answer.at[k], *best = best_of(call);
    const char *name = luo_auto_planner_name(candidate->planner);
    if (candidate == best)
        say(cli, x, "%s %.6g s, chosen; %d plans tried", name, candidate->step.seconds,
            candidate->tried);
    else if (candidate->plan && luo_plan_hash(candidate->plan) == luo_plan_hash(best->plan))
        say(cli, x, "%s %.6g s, the same plan; %d plans tried", name, candidate->step.seconds,
            candidate->tried);
    else if (candidate->plan)
        say(cli, x, "%s %.6g s, not chosen: %.3fx slower%s; %d plans tried", name,
            candidate->step.seconds, candidate->step.seconds / best->step.seconds,
            luo_cli_range_apart(&call->range[call->answer.best], best->step.seconds,
                                &call->range[k], candidate->step.seconds),
            candidate->tried);
    else
        say(cli, x, "%s %s", name, candidate->why[0] ? candidate->why : "no plan");
}

/* ---- the winner ---- */

static void say_shape(luo_cli *cli, explanation *x, const luo_plan *plan)
{
    luo_str text = {0};
    luo_plan_shape_say(&text, plan);
    say(cli, x, "pipelines %s; zero %d, %s%s", luo_str_get(&text), plan->zero,
        luo_sched_name(plan->schedule), plan->sequence_parallel ? ", sequence parallelism" : "");
    luo_str_free(&text);
}

/* Which devices have all experts together. */
static void say_experts(luo_cli *cli, explanation *x, const luo_plan *plan)
{
    const luo_stage *st = &plan->pipelines[0].stages[0];
    const int32_t n = plan->ngroups > 0 ? plan->expert_groups[0].n : 1;
    static const char *const ways[LUO_ALLTOALL_KINDS] = {
        [LUO_ALLTOALL_FLAT] = "",
        [LUO_ALLTOALL_LEADER] = ", rows travel through the first device of each node",
        [LUO_ALLTOALL_2D] = ", rows travel inside nodes and then between them"};
    if (plan->ngroups == 0 && !st->experts_dealt) return;
    say(cli, x, "experts: %s, in groups of %d pipelines%s",
        st->experts_dealt ? "whole ones are dealt to devices" : "each is cut inside the stages", n,
        ways[plan->moe_exchange]);
}

static int32_t recomputed(const luo_stage *st)
{
    const luo_range *range = st->nrecompute ? st->recompute_layers : st->layers;
    const int32_t n = st->nrecompute ? st->nrecompute : st->nlayers;
    int32_t layers = 0;
    for (int32_t k = 0; k < n && st->recompute != LUO_RECOMPUTE_NONE; k++)
        layers += range[k].hi - range[k].lo;
    return layers;
}

/* Layers of the stages of the first pipeline, and how many of them are recomputed. */
static void say_layers(luo_cli *cli, explanation *x, const luo_plan *plan)
{
    const luo_pipeline *pipeline = &plan->pipelines[0];
    luo_str text = {0};
    for (int32_t k = 0; k < pipeline->nstages; k++) {
        int32_t layers = 0;
        for (int32_t i = 0; i < pipeline->stages[k].nlayers; i++)
            layers += pipeline->stages[k].layers[i].hi - pipeline->stages[k].layers[i].lo;
        luo_str_addf(&text, "%s%d", k ? " " : "", layers);
        if (recomputed(&pipeline->stages[k]))
            luo_str_addf(&text, " (%d again)", recomputed(&pipeline->stages[k]));
    }
    say(cli, x, "layers of the stages: %s", luo_str_get(&text));
    luo_str_free(&text);
}

/* What would help, with what it gains where that was simulated. */
static void add_remedy(luo_str *text, const luo_auto_call *call, const luo_plan_share *limit)
{
    const double least = 0.01, was = best_of(call)->step.seconds; /* a gain that is worth a word */
    const char *remedy = luo_plan_share_remedy(limit, best_of(call)->plan);
    const luo_plan_links links = call->faster_s[LUO_PLAN_BETWEEN] < call->faster_s[LUO_PLAN_INSIDE]
                                     ? LUO_PLAN_BETWEEN
                                     : LUO_PLAN_INSIDE;
    const double now = call->faster_s[links];
    if (!limit->communication)
        luo_str_addf(text, "%s would help most", remedy);
    else if (now < (1 - least) * was)
        luo_str_addf(text, "faster links %s would help most: %d times as fast, %.6g s%s%s",
                     luo_plan_links_name(links), LUO_PLAN_FASTER, now, remedy ? "; or " : "",
                     remedy ? remedy : "");
    else
        luo_str_addf(text, "links %d times as fast would gain less than %g %%%s%s", LUO_PLAN_FASTER,
                     100 * least, remedy ? "; what would help is " : "", remedy ? remedy : "");
}

static void say_limit(luo_cli *cli, explanation *x, const luo_auto_call *call)
{
    const luo_judgement *step = &best_of(call)->step;
    luo_plan_share share[LUO_PLAN_SHARES];
    luo_plan_shares(step, share);
    const luo_plan_share *limit = luo_plan_share_limit(share, LUO_PLAN_SHARES, step->seconds);
    if (!limit) {
        say(cli, x, "of the step %.1f %% is computation; nothing else is more than 2 %%",
            100 * step->mean.compute_s / step->seconds);
        return;
    }
    luo_str text = {0};
    luo_str_addf(&text, "of the step %.1f %% is computation and %.1f %% %s; ",
                 100 * step->mean.compute_s / step->seconds, 100 * limit->seconds / step->seconds,
                 limit->limit);
    add_remedy(&text, call, limit);
    say(cli, x, "%s", luo_str_get(&text));
    luo_str_free(&text);
}

/* The device that makes the others wait: by what is known of it, then by its type. */
static void say_slowest(luo_cli *cli, explanation *x, const luo_auto_call *call)
{
    const luo_plan *plan = best_of(call)->plan;
    int32_t slowest = -1;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++) {
                const int32_t d = plan->pipelines[i].stages[s].dev[k];
                if (slowest < 0 || call->rate[d] > call->rate[slowest]) slowest = d;
            }
    if (slowest >= 0 && call->rate[slowest] > 1)
        say(cli, x, "slowest device: %d, %.3gx slower than its type", slowest, call->rate[slowest]);
}

static void explain(luo_cli *cli, explanation *x, const luo_auto_call *call)
{
    const luo_auto_candidate *best = best_of(call);
    *x = (explanation){.n = 0};
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) say_candidate(cli, x, call, k);
    say_shape(cli, x, best->plan);
    say_experts(cli, x, best->plan);
    say_layers(cli, x, best->plan);
    say_limit(cli, x, call);
    say(cli, x, "memory of the fullest device: %.1f %%", 100 * best->step.memory_ratio);
    say_slowest(cli, x, call);
}

/* The fastest of the other plans. -1: there is none. */
static int next_of(const luo_auto_call *call)
{
    const luo_auto_candidate *best = best_of(call);
    int next = -1;
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) {
        const luo_auto_candidate *candidate = &call->answer.at[k];
        if (!candidate->plan || luo_plan_hash(candidate->plan) == luo_plan_hash(best->plan))
            continue;
        if (next < 0 || candidate->step.seconds < call->answer.at[next].step.seconds) next = k;
    }
    return next;
}

static void print_answer(luo_cli *cli, const luo_auto_call *call)
{
    const luo_auto_candidate *best = best_of(call);
    const luo_time_range *range = &call->range[call->answer.best];
    const int next = next_of(call);
    luo_plan_answer answer = {.file = luo_plan_file(cli, 0),
                              .plan = best->plan,
                              .model = call->model,
                              .cluster = call->cluster,
                              .step_s = best->step.seconds,
                              .range = range,
                              .memory_ratio = best->step.memory_ratio};
    if (next >= 0) {
        const luo_auto_candidate *candidate = &call->answer.at[next];
        answer.next =
            luo_arena_printf(cli->arena, "of %s", luo_auto_planner_name(candidate->planner));
        answer.next_s = candidate->step.seconds;
        answer.apart = luo_cli_range_apart(range, answer.step_s, &call->range[next], answer.next_s);
    }
    luo_plan_answer_print(cli, &answer);
}

void luo_auto_text(luo_cli *cli, const luo_auto_call *call)
{
    FILE *out = luo_cli_out(cli);
    const luo_auto_candidate *best = best_of(call);
    char plan[17], program[17];
    explanation x;
    print_answer(cli, call);
    explain(cli, &x, call);
    for (int i = 0; i < x.n; i++) fprintf(out, "%s\n", x.line[i]);
    fprintf(out, "plan %s: %s, simulated step %.6f s",
            luo_hash_print(luo_plan_hash(best->plan), plan), luo_plan_file(cli, 0),
            best->step.seconds);
    luo_cli_range_print(out, &call->range[call->answer.best], best->step.seconds);
    fprintf(out, " (program %s)\nplanning: %.3f s\n", luo_hash_print(call->program, program),
            call->planning_s);
}

/* ---- JSON ---- */

static void json_layout(luo_jsonw *json, const luo_plan *plan)
{
    luo_jsonw_open(json, "layout", '[');
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const luo_stage *st = &plan->pipelines[i].stages[s];
            luo_jsonw_open(json, NULL, '{');
            luo_jsonw_int(json, "pipeline", i);
            luo_jsonw_int(json, "stage", s);
            luo_jsonw_open(json, "layers", '[');
            for (int32_t k = 0; k < st->nlayers; k++) {
                luo_jsonw_open(json, NULL, '[');
                luo_jsonw_int(json, NULL, st->layers[k].lo);
                luo_jsonw_int(json, NULL, st->layers[k].hi);
                luo_jsonw_close(json);
            }
            luo_jsonw_close(json);
            luo_jsonw_int(json, "tp", luo_stage_tp(st));
            luo_jsonw_int(json, "cp", st->context_parallel);
            luo_jsonw_int(json, "recomputed_layers", recomputed(st));
            luo_jsonw_close(json);
        }
    luo_jsonw_close(json);
}

static void json_candidates(luo_jsonw *json, const luo_auto_call *call)
{
    luo_jsonw_open(json, "candidates", '[');
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) {
        const luo_auto_candidate *candidate = &call->answer.at[k];
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "planner", luo_auto_planner_name(candidate->planner));
        luo_jsonw_num(json, "step_s", candidate->plan ? candidate->step.seconds : (double)NAN, 9);
        luo_result_range_json(json, candidate->plan ? &call->range[k] : NULL,
                              candidate->step.seconds);
        luo_jsonw_bool(json, "fits", candidate->plan != NULL);
        luo_jsonw_int(json, "tried", candidate->tried);
        luo_jsonw_text(json, "reason", candidate->plan ? NULL : candidate->why);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

void luo_auto_json(luo_cli *cli, const luo_auto_call *call)
{
    luo_jsonw *json = &cli->json;
    const luo_auto_candidate *best = best_of(call);
    int64_t searched = 0;
    explanation x;
    explain(cli, &x, call);
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) searched += call->answer.at[k].tried;
    luo_jsonw_text(json, "chosen", luo_auto_planner_name(best->planner));
    luo_jsonw_int(json, "stages", best->plan->pipelines[0].nstages);
    luo_jsonw_int(json, "micro_batches", best->plan->pipelines[0].micro_batches);
    luo_jsonw_num(json, "step_s", best->step.seconds, 9);
    luo_result_range_json(json, &call->range[call->answer.best], best->step.seconds);
    luo_jsonw_num(json, "memory_ratio", best->step.memory_ratio, 9);
    json_layout(json, best->plan);
    json_candidates(json, call);
    luo_jsonw_open(json, "explanation", '[');
    for (int i = 0; i < x.n; i++) luo_jsonw_text(json, NULL, x.line[i]);
    luo_jsonw_close(json);
    luo_jsonw_int(json, "searched", searched);
    luo_jsonw_hash(json, "plan_hash", luo_plan_hash(best->plan));
    luo_jsonw_text(json, "file", luo_plan_file(cli, 0));
    luo_jsonw_hash(json, "program_hash", call->program);
    luo_jsonw_num(json, "time_s", call->planning_s, 9);
}
