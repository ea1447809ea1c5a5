/* What `luoshu plan malleus` prints: a table of stages and a few lines, or the document of
 * docs/formats.md#luoshuparams1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/plan_answer.h"
#include "cli/plan/plan_malleus.h"
#include "core/base/devset.h"
#include "core/io/result/result.h"

static double ranked(const luo_malleus_call *call, const luo_malleus_plan *plan)
{
    const double by[] = {plan->filled, plan->steady, plan->event};
    return by[call->job.rank];
}

static const char *set_text(luo_str *text, const int32_t *dev, int32_t n)
{
    luo_str_clear(text);
    luo_devset_print(text, dev, n);
    return luo_str_get(text);
}

/* MiB of the fullest device of a stage. */
static double stage_mib(const luo_malleus_call *call, const luo_malleus_stage *st)
{
    int64_t most = 0;
    for (int32_t d = 0; d < st->group->size; d++)
        if (call->peak[st->group->devices[d]] > most) most = call->peak[st->group->devices[d]];
    return (double)most / 1048576.0;
}

/* ---- text ---- */

static void print_stages(FILE *out, const luo_malleus_call *call)
{
    const luo_malleus_plan *plan = &call->answer.found->plans[0];
    luo_str text = {0};
    fprintf(out, "%8s %8s %5s %9s %4s %9s %9s %4s %8s  %s\n", "pipeline", "micro", "stage",
            "layers", "tp", "y_tau", "t_tau", "cap", "mem_gib", "devices");
    for (int32_t i = 0; i < plan->npipes; i++)
        for (int32_t k = 0; k < plan->pipes[i].nstages; k++) {
            const luo_malleus_stage *st = &plan->pipes[i].stages[k];
            char layers[48];
            snprintf(layers, sizeof layers, "%lld-%lld", (long long)st->lo, (long long)st->hi);
            fprintf(out, "%8d %8lld %5d %9s %4d %9.3f %9.3f %4lld %8.1f  %s\n", i,
                    (long long)plan->pipes[i].micro_batches, k, layers, st->group->size,
                    st->group->y, st->t, (long long)st->cap,
                    stage_mib(call, st) / 1024,
                    set_text(&text, st->group->devices, st->group->size));
        }
    luo_str_free(&text);
}

static void print_transition(FILE *out, const luo_malleus_call *call)
{
    if (!call->prev) return;
    if (call->lost) {
        fputs("transition: state is lost; a checkpoint has to be read\n", out);
        return;
    }
    fprintf(out, "transition: %lld bytes within nodes, %lld between, %lld messages, %.6f s; %s\n",
            (long long)call->move.bytes_local, (long long)call->move.bytes_remote,
            (long long)call->move.messages, call->move.seconds,
            call->adopt ? "pays within 50 steps" : "does not pay within 50 steps");
}

static void print_search(FILE *out, const luo_malleus_search *search)
{
    if (search->skipped) {
        fputs("search: none; devices are alike and none is missing: the base plan\n", out);
        return;
    }
    fprintf(out, "search: %lld combinations, %lld plans, %lld vectors, %lld moves, %s\n",
            (long long)search->combos, (long long)search->plans, (long long)search->vectors,
            (long long)search->moves, search->exhaustive ? "every assignment" : "local search");
}

static void print_offers(FILE *out, const luo_malleus_call *call)
{
    const luo_offers *offers = &call->offers;
    if (offers->n == 0) return;
    int32_t simulated = 0;
    for (int32_t i = 0; i < offers->n; i++) simulated += offers->at[i].step_s >= 0;
    fprintf(out, "chosen by %s step: the plan of %s",
            call->closed_form ? "the closed form of a" : "simulated", offers->at[0].from);
    if (simulated > 1 && isfinite(offers->at[1].step_s))
        fprintf(out, "; next, of %s: %.6f s", offers->at[1].from, offers->at[1].step_s);
    if (call->closed_form)
        fprintf(out, "; of %d plans\n", offers->n);
    else
        fprintf(out, "; %d of %d plans were simulated, the others are slower by the objective\n",
                simulated, offers->n);
}

static void print_answer(luo_cli *cli, const luo_malleus_call *call)
{
    const luo_malleus_answer *malleus_answer = &call->answer;
    const luo_offers *offers = &call->offers;
    const bool simulated = call->step_s >= 0;
    luo_plan_answer answer = {.file = luo_plan_file(cli, 0),
                              .plan = malleus_answer->plan,
                              .model = call->model,
                              .cluster = call->cluster,
                              .step_s = simulated ? call->step_s
                                                  : ranked(call, &malleus_answer->found->plans[0]) *
                                                        malleus_answer->tau_s,
                              .closed = !simulated,
                              .range = simulated ? &call->range : NULL,
                              .memory_ratio = -1,
                              .apart = ""};
    if (!call->closed_form && offers->n > 1 && offers->at[1].step_s >= 0 &&
        isfinite(offers->at[1].step_s)) {
        answer.next = luo_arena_printf(cli->arena, "the plan of %s", offers->at[1].from);
        answer.next_s = offers->at[1].step_s;
    }
    luo_plan_answer_print(cli, &answer);
}

void luo_malleus_call_text(luo_cli *cli, const luo_malleus_call *call)
{
    FILE *out = luo_cli_out(cli);
    const luo_malleus_answer *answer = &call->answer;
    const luo_malleus_plan *plan = &answer->found->plans[0];
    char h[17], g[17];
    luo_str text = {0};
    print_answer(cli, call);
    print_stages(out, call);
    fprintf(out, "plan %s: %s\n", luo_hash_print(luo_plan_hash(answer->plan), h),
            luo_plan_file(cli, 0));
    fprintf(out, "objective (%s): %.6f s, lower bound %.6f s\n",
            luo_malleus_rank_name(call->job.rank), ranked(call, plan) * answer->tau_s,
            answer->found->bound * answer->tau_s);
    fprintf(out, "in tau of %.6f ms: steady %.3f, filled %.3f, event %.3f, bound %.3f\n",
            1e3 * answer->tau_s, plan->steady, plan->filled, plan->event, answer->found->bound);
    fprintf(out, "healthy base plan: steady %.3f, event %.3f; ratio %.4f, oracle %.4f\n",
            answer->healthy_steady, answer->healthy_event, plan->event / answer->healthy_event,
            answer->oracle / answer->healthy_event);
    fprintf(out, "standby %s", set_text(&text, plan->standby, plan->nstandby));
    fprintf(out, ", excluded %s\n", set_text(&text, answer->excluded, answer->nexcluded));
    luo_str_free(&text);
    print_search(out, &answer->found->search);
    print_transition(out, call);
    print_offers(out, call);
    if (call->step_s < 0)
        fputs("simulated step: none; `--rank simulated` takes one", out);
    else {
        fprintf(out, "simulated step: %.6f s", call->step_s);
        luo_cli_range_print(out, &call->range, call->step_s);
    }
    fprintf(out, " (program %s)\nplanning: %.3f s\n", luo_hash_print(call->program, g),
            call->planning_s);
}

/* ---- JSON ---- */

typedef struct listing { /* groups of the plan by first device: their ids */
    int32_t n;
    const luo_malleus_group **at;
} listing;

static int by_device(const void *a, const void *b)
{
    const luo_malleus_group *const *x = a, *const *y = b;
    int32_t p = (*x)->devices[0], q = (*y)->devices[0];
    for (int32_t i = 1; i < (*x)->size; i++) p = (*x)->devices[i] < p ? (*x)->devices[i] : p;
    for (int32_t i = 1; i < (*y)->size; i++) q = (*y)->devices[i] < q ? (*y)->devices[i] : q;
    return (p > q) - (p < q);
}

static luo_status list_groups(luo_arena *arena, const luo_malleus_plan *plan, listing *out,
                              luo_err *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->npipes; i++) n += plan->pipes[i].nstages;
    *out = (listing){0, LUO_NEW_N(arena, const luo_malleus_group *, n)};
    if (!out->at) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipes; i++)
        for (int32_t k = 0; k < plan->pipes[i].nstages; k++)
            out->at[out->n++] = plan->pipes[i].stages[k].group;
    qsort(out->at, (size_t)n, sizeof *out->at, by_device);
    return LUO_OK;
}

static int32_t id_of(const listing *l, const luo_malleus_group *group)
{
    const luo_malleus_group **at = bsearch(&group, l->at, (size_t)l->n, sizeof *l->at, by_device);
    return at ? (int32_t)(at - l->at) : -1;
}

static void json_ids(luo_jsonw *json, const char *key, const int32_t *v, int32_t n)
{
    luo_jsonw_open(json, key, '[');
    for (int32_t i = 0; i < n; i++) luo_jsonw_int(json, NULL, v[i]);
    luo_jsonw_close(json);
}

static void json_groups(luo_jsonw *json, const luo_malleus_call *call, const listing *l)
{
    luo_jsonw_open(json, "groups", '[');
    for (int32_t i = 0; i < l->n; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "id", i);
        luo_jsonw_int(json, "node", l->at[i]->node);
        json_ids(json, "devices", l->at[i]->devices, l->at[i]->size);
        luo_jsonw_num(json, "y", l->at[i]->y, 9);
        luo_jsonw_int(json, "h", call->answer.in.tp / l->at[i]->size);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_stage(luo_jsonw *json, const luo_malleus_call *call, const listing *l, int32_t i,
                       int32_t k)
{
    const luo_malleus_stage *st = &call->answer.found->plans[0].pipes[i].stages[k];
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_int(json, "group", id_of(l, st->group));
    json_ids(json, "devices", st->group->devices, st->group->size);
    luo_jsonw_int(json, "lo", st->lo);
    luo_jsonw_int(json, "hi", st->hi);
    luo_jsonw_num(json, "t", st->t, 9);
    luo_jsonw_int(json, "cap", st->cap);
    luo_jsonw_int(json, "mem_mib", (int64_t)(stage_mib(call, st) + 0.5));
    luo_jsonw_close(json);
}

static void json_pipelines(luo_jsonw *json, const luo_malleus_call *call, const listing *l)
{
    const luo_malleus_plan *plan = &call->answer.found->plans[0];
    luo_jsonw_open(json, "pipelines", '[');
    for (int32_t i = 0; i < plan->npipes; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "m", plan->pipes[i].micro_batches);
        luo_jsonw_num(json, "o", plan->pipes[i].o, 9);
        luo_jsonw_num(json, "fill", plan->pipes[i].fill, 9);
        luo_jsonw_open(json, "stages", '[');
        for (int32_t k = 0; k < plan->pipes[i].nstages; k++) json_stage(json, call, l, i, k);
        luo_jsonw_close(json);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_figures(luo_jsonw *json, const luo_malleus_call *call)
{
    const luo_malleus_answer *answer = &call->answer;
    const luo_malleus_plan *plan = &answer->found->plans[0];
    luo_jsonw_num(json, "steady", plan->steady, 9);
    luo_jsonw_num(json, "filled", plan->filled, 9);
    luo_jsonw_num(json, "event", plan->event, 9);
    luo_jsonw_open(json, "healthy", '{');
    luo_jsonw_num(json, "steady", answer->healthy_steady, 9);
    luo_jsonw_num(json, "event", answer->healthy_event, 9);
    luo_jsonw_close(json);
    luo_jsonw_num(json, "bound", answer->found->bound, 9);
    luo_jsonw_num(json, "oracle", answer->oracle, 9);
    luo_jsonw_num(json, "ratio", plan->event / answer->healthy_event, 9);
}

/* stages: `[7.22:1 3.66:4] m43 ..`, y and layers of every stage, slow ones first. */
static void say_plan(luo_str *text, const luo_malleus_plan *plan)
{
    luo_str_clear(text);
    for (int32_t i = 0; i < plan->npipes; i++) {
        luo_str_add(text, i ? " [" : "[");
        for (int32_t k = 0; k < plan->pipes[i].nstages; k++) {
            const luo_malleus_stage *st = &plan->pipes[i].stages[k];
            luo_str_addf(text, "%s%.4g:%lld", k ? " " : "", st->group->y,
                         (long long)(st->hi - st->lo));
        }
        luo_str_addf(text, "] m%lld", (long long)plan->pipes[i].micro_batches);
    }
}

static void json_alternatives(luo_jsonw *json, const luo_malleus_found *found)
{
    luo_str text = {0};
    luo_jsonw_open(json, "alternatives", '[');
    for (int32_t i = 0; i < found->n; i++) {
        say_plan(&text, &found->plans[i]);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_num(json, "steady", found->plans[i].steady, 9);
        luo_jsonw_num(json, "filled", found->plans[i].filled, 9);
        luo_jsonw_num(json, "event", found->plans[i].event, 9);
        luo_jsonw_text(json, "stages", luo_str_get(&text));
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_str_free(&text);
}

static void json_offers(luo_jsonw *json, const luo_offers *offers, bool simulated)
{
    luo_jsonw_open(json, "offers", '[');
    for (int32_t i = 0; i < offers->n; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "from", offers->at[i].from);
        luo_jsonw_hash(json, "plan_hash", luo_plan_hash(offers->at[i].plan));
        luo_jsonw_int(json, "pipelines", offers->at[i].plan->npipelines);
        luo_jsonw_num(json, "objective_s", offers->at[i].objective_s, 9);
        const double s = offers->at[i].step_s;
        if (simulated && s >= 0 && isfinite(s))
            luo_jsonw_num(json, "simulated_step_s", s, 9);
        else
            luo_jsonw_text(json, "simulated_step_s", NULL);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void json_search(luo_jsonw *json, const luo_malleus_search *search)
{
    luo_jsonw_open(json, "search", '{');
    luo_jsonw_int(json, "combos", search->combos);
    luo_jsonw_int(json, "plans", search->plans);
    luo_jsonw_int(json, "vectors", search->vectors);
    luo_jsonw_int(json, "moves", search->moves);
    luo_jsonw_bool(json, "exhaustive", search->exhaustive);
    luo_jsonw_close(json);
}

static void json_transition(luo_jsonw *json, const luo_malleus_call *call)
{
    if (!call->prev) {
        luo_jsonw_text(json, "transition", NULL);
        return;
    }
    luo_jsonw_open(json, "transition", '{');
    luo_jsonw_int(json, "bytes_local", call->move.bytes_local);
    luo_jsonw_int(json, "bytes_remote", call->move.bytes_remote);
    luo_jsonw_int(json, "messages", call->move.messages);
    if (call->lost)
        luo_jsonw_text(json, "seconds", NULL);
    else
        luo_jsonw_num(json, "seconds", call->move.seconds, 9);
    luo_jsonw_bool(json, "adopt", call->adopt);
    luo_jsonw_close(json);
}

/* Of each layer, the annotation of its first matrix. */
static luo_status json_annotations(luo_cli *cli, const luo_malleus_call *call, luo_err *err)
{
    luo_jsonw *json = &cli->json;
    luo_param *param;
    int32_t n, layer = -1;
    luo_str text = {0};
    LUO_TRY(luo_plan_params(cli->arena, call->answer.plan, call->model, &param, &n, err));
    luo_jsonw_open(json, "annotations", '[');
    for (int32_t i = 0; i < n; i++) {
        if (param[i].layer <= layer || param[i].shape.rank < 2) continue;
        layer = param[i].layer;
        luo_str_clear(&text);
        luo_ann_print(&text, param[i].weight);
        luo_jsonw_text(json, NULL, luo_str_get(&text));
    }
    luo_jsonw_close(json);
    luo_str_free(&text);
    return LUO_OK;
}

static void json_warnings(luo_jsonw *json, const luo_malleus_call *call)
{
    luo_jsonw_open(json, "warnings", '[');
    for (int i = 0; i < call->nwarnings; i++) luo_jsonw_text(json, NULL, call->warning[i]);
    luo_jsonw_close(json);
}

luo_status luo_malleus_call_json(luo_cli *cli, const luo_malleus_call *call, luo_status st,
                                 luo_err *err)
{
    luo_jsonw *json = &cli->json;
    const luo_malleus_answer *answer = &call->answer;
    listing l;
    luo_jsonw_text(json, "status", luo_status_name(st));
    luo_jsonw_text(json, "policy", "malleus");
    luo_jsonw_text(json, "rank", luo_malleus_rank_name(call->job.rank));
    luo_jsonw_text(json, "chosen_by",
                   call->offers.n == 0 ? "rank"
                   : call->closed_form ? "objective"
                                       : "simulated");
    if (st != LUO_OK) {
        json_warnings(json, call);
        return st;
    }
    LUO_TRY(list_groups(cli->arena, &answer->found->plans[0], &l, err));
    luo_jsonw_int(json, "dp", answer->found->dp);
    luo_jsonw_int(json, "tp", answer->in.tp);
    luo_jsonw_int(json, "layers", answer->in.layers);
    luo_jsonw_int(json, "micro_batches", answer->in.micro_batches);
    json_groups(json, call, &l);
    json_pipelines(json, call, &l);
    json_ids(json, "standby", answer->found->plans[0].standby, answer->found->plans[0].nstandby);
    json_ids(json, "excluded", answer->excluded, answer->nexcluded);
    json_figures(json, call);
    json_alternatives(json, answer->found);
    json_offers(json, &call->offers, !call->closed_form);
    json_search(json, &answer->found->search);
    json_transition(json, call);
    LUO_TRY(json_annotations(cli, call, err));
    json_warnings(json, call);
    luo_jsonw_hash(json, "plan_hash", luo_plan_hash(answer->plan));
    luo_jsonw_num(json, "tau_ms", 1e3 * answer->tau_s, 9);
    if (call->step_s < 0)
        luo_jsonw_text(json, "simulated_step_s", NULL);
    else
        luo_jsonw_num(json, "simulated_step_s", call->step_s, 9);
    luo_result_range_json(json, call->step_s < 0 ? NULL : &call->range, call->step_s);
    luo_jsonw_hash(json, "program_hash", call->program);
    luo_jsonw_text(json, "file", luo_plan_file(cli, 0));
    luo_jsonw_num(json, "elapsed_ms", 1e3 * call->planning_s, 9);
    return LUO_OK;
}
