/* scenario_lists.c: events, traces, processes and policies of a scenario into the arena. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/read/read_trace.h"
#include "core/io/read/scenario_reader.h"

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static bool given(const luo_doc_node *map, const char *key)
{
    return luo_doc_get(map, key) != NULL;
}

static const luo_doc_node *first_of(const luo_scenario_reader *r, const char *list)
{
    const luo_doc_node *x = luo_doc_get(r->doc.root, list);
    return x ? x->first : NULL;
}

static void check_target(luo_scenario_reader *r, const luo_doc_node *at, luo_event_kind kind,
                         bool process)
{
    const luo_doc_node *target = luo_doc_get(at, "target");
    char what[96];
    luo_err err;
    if (!target || !r->cluster) return;
    snprintf(what, sizeof what, "%s `%.60s`", process ? "process" : "event",
             luo_doc_get(at, "id")->text);
    const luo_status st = luo_check_target(r->doc.arena, r->cluster, kind, process, target->text,
                                           what, &err);
    if (st == LUO_ENOMEM)
        luo_doc_nomem(&r->doc);
    else if (st != LUO_OK)
        luo_doc_error(&r->doc, target, "%s", err.text);
}

/* ---- events ---- */

static void take_trigger(luo_event *e, const luo_event_yaml *y, const luo_doc_node *at)
{
    if (given(at, "at_s")) {
        e->trigger = LUO_AT_S;
        e->at[0] = y->at_s;
    } else if (given(at, "at_step")) {
        e->trigger = LUO_AT_STEP;
        e->at[0] = (double)y->at_step;
    } else if (given(at, "between_s")) {
        e->trigger = LUO_BETWEEN_S;
        memcpy(e->at, y->between_s, sizeof e->at);
    } else if (given(at, "between_steps")) {
        e->trigger = LUO_BETWEEN_STEPS;
        e->at[0] = (double)y->between_steps[0];
        e->at[1] = (double)y->between_steps[1];
    } else {
        e->trigger = LUO_PER_STEP_PROBABILITY;
        e->at[0] = y->per_step_probability;
    }
}

static void take_event(luo_scenario_reader *r, luo_event *e, const luo_event_yaml *y,
                       const luo_doc_node *at)
{
    const luo_doc_node *target = luo_doc_get(at, "target"), *place = target ? target : at;
    *e = (luo_event){.id = y->id,
                     .target = or_empty(y->target),
                     .cause = or_empty(y->cause),
                     .kind = y->kind,
                     .slowdown = y->slowdown,
                     .slowdown_between = {y->slowdown_between[0], y->slowdown_between[1]},
                     .ramp_s = y->ramp_s,
                     .notice_s = y->notice_s,
                     .down_s = y->down_s,
                     .up_s = y->up_s,
                     .bandwidth_factor = y->bandwidth_factor,
                     .extra_latency_s = y->extra_latency_us * 1e-6,
                     .life = {.duration_s = y->duration_s, .steps = y->duration_steps},
                     .tokens = y->lengths.tokens,
                     .hard = y->hard,
                     .line = place->line,
                     .col = place->col};
    if (y->kind == LUO_EVENT_LINK && !given(at, "bandwidth_factor")) e->bandwidth_factor = 1;
    take_trigger(e, y, at);
    check_target(r, at, y->kind, false);
    if (r->model && r->model->max_sequence_tokens && e->tokens > r->model->max_sequence_tokens)
        luo_doc_error(&r->doc, luo_doc_get(luo_doc_get(at, "lengths"), "tokens"),
                      "`tokens` is %lld; model `%s` takes up to %lld.", (long long)e->tokens,
                      r->model->name, (long long)r->model->max_sequence_tokens);
}

static luo_status read_trace(luo_scenario_reader *r, const luo_source *src)
{
    const luo_trace_yaml *t = &r->y->traces[r->row];
    luo_event *more;
    int32_t n;
    const luo_status st = luo_read_event_trace(r->doc.arena, src, r->cluster, t->start_s,
                                               t->time_scale, &more, &n, r->doc.diags);
    if (st != LUO_OK || n == 0) return st;
    luo_event *all = luo_arena_calloc(r->doc.arena, (size_t)(r->nevents + n), sizeof *all);
    if (!all) return luo_doc_nomem(&r->doc);
    if (r->nevents) memcpy(all, r->events, (size_t)r->nevents * sizeof *all);
    memcpy(all + r->nevents, more, (size_t)n * sizeof *all);
    r->events = all;
    r->nevents += n;
    return LUO_OK;
}

static void take_traces(luo_scenario_reader *r)
{
    const luo_doc_node *at = first_of(r, "traces");
    char name[32];
    for (r->row = 0; r->row < r->y->traces_count; r->row++, at = at->next) {
        snprintf(name, sizeof name, "traces.%u", r->row);
        luo_scenario_file(r, luo_doc_get(at, "file"), "trace", name, read_trace);
    }
}

/* Streams of random numbers are named by ids, so two equal ones would draw the same numbers. */
static void check_ids(luo_scenario_reader *r)
{
    const luo_doc_node *event = first_of(r, "events"), *process = first_of(r, "processes");
    const int32_t n = r->nevents + r->sc->nprocesses;
    luo_map seen = {0};
    for (int32_t i = 0; i < n; i++) {
        const bool own = i < r->own_events, proc = i >= r->nevents;
        const char *id = proc ? r->sc->processes[i - r->nevents].id : r->events[i].id;
        int64_t *first = luo_map_at(&seen, luo_hash_str(LUO_HASH_EMPTY, id) >> 1, i);
        if (!first) {
            luo_doc_nomem(&r->doc);
            break;
        }
        const luo_doc_node *at = own    ? luo_doc_get(event, "id")
                                 : proc ? luo_doc_get(process, "id")
                                        : luo_doc_get(r->doc.root, "traces");
        if (*first != i && (own || proc))
            luo_doc_error(&r->doc, at, "`id` is `%.60s`; another event or process has that id.",
                          id);
        else if (*first != i)
            luo_doc_error(&r->doc, at,
                          "line %d of a trace has the id `%.60s`; another event has "
                          "that id.",
                          r->events[i].line, id);
        if (own) event = event->next;
        if (proc) process = process->next;
    }
    luo_map_free(&seen);
}

void luo_take_events(luo_scenario_reader *r)
{
    const luo_doc_node *at = first_of(r, "events");
    r->own_events = r->nevents = (int32_t)r->y->events_count;
    r->events = LUO_NEW_N(r->doc.arena, luo_event, r->y->events_count);
    if (!r->events) {
        r->nevents = 0;
        luo_doc_nomem(&r->doc);
        return;
    }
    for (int32_t i = 0; i < r->own_events; i++, at = at->next)
        take_event(r, &r->events[i], &r->y->events[i], at);
    take_traces(r);
    r->sc->events = r->events;
    r->sc->nevents = r->nevents;
    check_ids(r);
}

/* ---- processes ---- */

static luo_life take_life(const luo_event_yaml *y)
{
    return (luo_life){.duration_s = y->duration_s, .dist = y->life.distribution,
                      .mean_s = y->life.mean_s, .shape = y->life.shape,
                      .median_s = y->life.median_s, .sigma = y->life.sigma};
}

static luo_status read_causes(luo_scenario_reader *r, const luo_source *src)
{
    luo_process *p = (luo_process *)&r->sc->processes[r->row];
    luo_cause *causes;
    LUO_TRY(luo_read_causes(r->doc.arena, src, &causes, &p->ncauses, r->doc.diags));
    p->causes = causes;
    return LUO_OK;
}

static void take_process(luo_scenario_reader *r, luo_process *p, const luo_event_yaml *y,
                         const luo_doc_node *at)
{
    const luo_doc_node *target = luo_doc_get(at, "target");
    *p = (luo_process){.id = y->id,
                       .target = or_empty(y->target),
                       .kind = y->kind,
                       .dist = y->distribution,
                       .mean_s = y->mean_s,
                       .shape = y->shape,
                       .life = take_life(y),
                       .slowdown = y->slowdown,
                       .slowdown_between = {y->slowdown_between[0], y->slowdown_between[1]},
                       .bandwidth_factor = y->bandwidth_factor,
                       .extra_latency_s = y->extra_latency_us * 1e-6,
                       .observed_devices = y->observed_devices,
                       .observed_s = y->observed_s,
                       .line = target->line,
                       .col = target->col};
    if (y->kind == LUO_EVENT_LINK && !given(at, "bandwidth_factor")) p->bandwidth_factor = 1;
    check_target(r, at, y->kind, true);
}

void luo_take_processes(luo_scenario_reader *r)
{
    const luo_doc_node *at = first_of(r, "processes");
    luo_process *p = LUO_NEW_N(r->doc.arena, luo_process, r->y->processes_count);
    char name[32];
    if (!p) {
        luo_doc_nomem(&r->doc);
        return;
    }
    r->sc->processes = p;
    r->sc->nprocesses = (int32_t)r->y->processes_count;
    for (r->row = 0; r->row < r->y->processes_count; r->row++, at = at->next) {
        take_process(r, &p[r->row], &r->y->processes[r->row], at);
        snprintf(name, sizeof name, "processes.%u", r->row);
        if (p[r->row].kind == LUO_EVENT_CAUSES)
            luo_scenario_file(r, luo_doc_get(at, "file"), "causes", name, read_causes);
    }
}

/* ---- policies ---- */

void luo_policy_defaults(luo_policy_spec *p, const char *name)
{
    const bool malleus = strcmp(name, "malleus") == 0;
    *p = (luo_policy_spec){.name = name, .label = name, .restart_s = -1,
                           .threshold_slowdown = 1.2, .replan_gap = 0.3, .payback_steps = 50,
                           .planner_s = 10, .planner_default = true, .window_steps = 5,
                           .top_k = 32, .reentry_probes = malleus ? 5 : 0,
                           .plan_mode = malleus ? LUO_PLAN_AUTO : LUO_PLAN_ASYNC,
                           .rank = LUO_RANK_FILLED, .deals_batch = true};
}

/* A published objective ranks by itself: nothing is simulated. Only `malleus` has several. */
static void take_rank(luo_scenario_reader *r, luo_policy_spec *p, int32_t word,
                      const luo_doc_node *at)
{
    p->judged = word == LUO_RANK_WORDS_SIMULATED   ? LUO_JUDGED_SIMULATED
                : word == LUO_RANK_WORDS_OBJECTIVE ? LUO_JUDGED_OBJECTIVE
                                                   : LUO_JUDGED_PUBLISHED;
    if (word >= LUO_RANK_WORDS_SIMULATED) return;
    p->rank = (luo_malleus_rank)word;
    if (strcmp(p->name, "malleus") != 0)
        luo_doc_error(&r->doc, at,
                      "`rank` is `%s`; policy `%s` has one objective, so `simulated` "
                      "or `objective` is expected.",
                      at->text, p->name);
}

/* "expected", or "steps N": another way to say `payback_steps`. */
static void take_payback(luo_scenario_reader *r, luo_policy_spec *p, const char *text,
                         const luo_doc_node *at)
{
    char *end = NULL;
    const bool steps = strncmp(text, "steps ", 6) == 0 && text[6] >= '0' && text[6] <= '9';
    const double n = steps ? strtod(text + 6, &end) : 0;
    if (p->payback_given)
        luo_doc_error_key(&r->doc, at,
                          "`payback` and `payback_steps` say the same; leave one "
                          "out.");
    if (steps ? *end || !isfinite(n) : strcmp(text, "expected") != 0)
        luo_doc_error(&r->doc, at, "`payback` is `%.60s`; `expected` or `steps N` is expected.",
                      text);
    if (!steps) return;
    p->payback_given = true;
    p->payback_steps = n;
}

static void take_policy(luo_scenario_reader *r, luo_policy_spec *p, const luo_policy_yaml *y,
                        const luo_doc_node *at)
{
    const luo_doc_node *plan = luo_doc_get(at, "plan");
    char name[40];
    luo_policy_defaults(p, y->name);
    if (given(at, "label")) p->label = y->label;
    p->line = at->line;
    p->col = at->col;
    if (given(at, "restart_s")) p->restart_s = y->restart_s;
    if (given(at, "threshold_slowdown")) p->threshold_slowdown = y->threshold_slowdown;
    if (given(at, "replan_gap")) p->replan_gap = y->replan_gap;
    p->payback_given = given(at, "payback_steps");
    if (p->payback_given) p->payback_steps = y->payback_steps;
    if (given(at, "payback")) take_payback(r, p, y->payback, luo_doc_get(at, "payback"));
    if (given(at, "lost_batch")) p->deals_batch = y->lost_batch == 0;
    if (given(at, "optimizer_step"))
        p->optimizer_step = (luo_optimizer_step)y->optimizer_step;
    if (given(at, "planner_s")) p->planner_s = y->planner_s;
    p->planner_default = !given(at, "planner_s");
    if (given(at, "window_steps")) p->window_steps = (int32_t)y->window_steps;
    if (given(at, "reentry_probes")) p->reentry_probes = (int32_t)y->reentry_probes;
    if (given(at, "plan_mode")) p->plan_mode = (luo_plan_mode)y->plan_mode;
    if (given(at, "rank")) take_rank(r, p, y->rank, luo_doc_get(at, "rank"));
    if (p->rank == LUO_RANK_EVENT) p->top_k = 256;
    if (given(at, "top_k")) p->top_k = (int32_t)y->top_k;
    p->split2 = y->grouping == 1;
    p->dp_auto = y->dp == 1;
    p->always_switch = y->always_switch;
    p->planner_measured = y->planner_time == 1;
    p->strict_uniform = y->strict_uniform;
    if (given(at, "planner")) p->planner = y->planner.name;
    snprintf(name, sizeof name, "policies.%u.plan", r->row);
    if (plan && *plan->text) p->plan = luo_take_plan(r, plan, name);
}

static void check_labels(luo_scenario_reader *r)
{
    const luo_doc_node *at = first_of(r, "policies");
    for (int32_t i = 0; i < r->sc->npolicies; i++, at = at->next)
        for (int32_t k = 0; k < i; k++) {
            if (strcmp(r->sc->policies[k].label, r->sc->policies[i].label) != 0) continue;
            const luo_doc_node *label = luo_doc_get(at, "label");
            luo_doc_error(&r->doc, label ? label : luo_doc_get(at, "name"),
                          "two policies are called `%s`; give one a `label` of its own.",
                          r->sc->policies[i].label);
            break;
        }
}

void luo_take_policies(luo_scenario_reader *r)
{
    const luo_doc_node *list = luo_doc_get(r->doc.root, "policies"), *at = list->first;
    luo_policy_spec *p = LUO_NEW_N(r->doc.arena, luo_policy_spec, r->y->policies_count);
    if (!p) {
        luo_doc_nomem(&r->doc);
        return;
    }
    if (r->y->policies_count == 0)
        luo_doc_error(&r->doc, list, "`policies` is empty; one policy or more is expected.");
    for (r->row = 0; r->row < r->y->policies_count; r->row++, at = at->next)
        take_policy(r, &p[r->row], &r->y->policies[r->row], at);
    r->sc->policies = p;
    r->sc->npolicies = (int32_t)r->y->policies_count;
    check_labels(r);
}
