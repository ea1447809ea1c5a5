/* scenario_lists.c: events, traces, processes and policies of a scenario into the arena. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/read/read.h"
#include "core/io/read/read_trace.h"
#include "core/io/read/scenario_reader.h"
#include "core/run/policy/policy.h"

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static bool given(const luo_doc_node *map, const char *key)
{
    return luo_doc_get(map, key) != NULL;
}

static const luo_doc_node *first_of(const luo_scenario_reader *reader, const char *list)
{
    const luo_doc_node *node = luo_doc_get(reader->doc.root, list);
    return node ? node->first : NULL;
}

static void check_target(luo_scenario_reader *reader, const luo_doc_node *at, luo_event_kind kind,
                         bool process)
{
    const luo_doc_node *target = luo_doc_get(at, "target");
    char what[96];
    luo_err err;
    if (!target || !reader->cluster) return;
    snprintf(what, sizeof what, "%s `%.60s`", process ? "process" : "event",
             luo_doc_get(at, "id")->text);
    const luo_status st = luo_trace_check_target(reader->doc.arena, reader->cluster, kind, process,
                                                 target->text, what, &err);
    if (st == LUO_ENOMEM)
        luo_doc_nomem(&reader->doc);
    else if (st != LUO_OK)
        luo_doc_error(&reader->doc, target, "%s", err.text);
}

/* ---- events ---- */

static void take_trigger(luo_event *event, const luo_event_yaml *yaml, const luo_doc_node *at)
{
    if (given(at, "at_s")) {
        event->trigger = LUO_AT_S;
        event->at[0] = yaml->at_s;
    } else if (given(at, "at_step")) {
        event->trigger = LUO_AT_STEP;
        event->at[0] = (double)yaml->at_step;
    } else if (given(at, "between_s")) {
        event->trigger = LUO_BETWEEN_S;
        memcpy(event->at, yaml->between_s, sizeof event->at);
    } else if (given(at, "between_steps")) {
        event->trigger = LUO_BETWEEN_STEPS;
        event->at[0] = (double)yaml->between_steps[0];
        event->at[1] = (double)yaml->between_steps[1];
    } else {
        event->trigger = LUO_PER_STEP_PROBABILITY;
        event->at[0] = yaml->per_step_probability;
    }
}

/* What an event does to lengths is a number. */
static void check_event_lengths(luo_scenario_reader *reader, const luo_event_yaml *yaml,
                                const luo_doc_node *at)
{
    const luo_doc_node *lengths = luo_doc_get(at, "lengths");
    if (lengths && yaml->lengths.kind != LUO_LENGTH_FIXED)
        luo_doc_error(&reader->doc, luo_doc_get(lengths, "kind"),
                      "an event makes all sequences of one length; `kind` fixed is expected.");
}

static void take_event(luo_scenario_reader *reader, luo_event *event, const luo_event_yaml *yaml,
                       const luo_doc_node *at)
{
    const luo_doc_node *target = luo_doc_get(at, "target"), *place = target ? target : at;
    *event = (luo_event){.id = yaml->id,
                         .target = or_empty(yaml->target),
                         .cause = or_empty(yaml->cause),
                         .kind = yaml->kind,
                         .slowdown = yaml->slowdown,
                         .slowdown_between = {yaml->slowdown_between[0], yaml->slowdown_between[1]},
                         .ramp_s = yaml->ramp_s,
                         .notice_s = yaml->notice_s,
                         .down_s = yaml->down_s,
                         .up_s = yaml->up_s,
                         .bandwidth_factor = yaml->bandwidth_factor,
                         .extra_latency_s = yaml->extra_latency_us * 1e-6,
                         .life = {.duration_s = yaml->duration_s, .steps = yaml->duration_steps},
                         .tokens = yaml->lengths.tokens,
                         .hard = yaml->hard,
                         .line = place->line,
                         .col = place->col};
    if (luo_event_traits_of(yaml->kind).value == LUO_VALUE_FACTOR && !given(at, "bandwidth_factor"))
        event->bandwidth_factor = 1;
    take_trigger(event, yaml, at);
    check_event_lengths(reader, yaml, at);
    check_target(reader, at, yaml->kind, false);
    if (reader->model && reader->model->max_sequence_tokens &&
        event->tokens > reader->model->max_sequence_tokens)
        luo_doc_error(&reader->doc, luo_doc_get(luo_doc_get(at, "lengths"), "tokens"),
                      "`tokens` is %lld; model `%s` takes up to %lld.", (long long)event->tokens,
                      reader->model->name, (long long)reader->model->max_sequence_tokens);
}

static luo_status read_trace(luo_scenario_reader *reader, const luo_source *src)
{
    const luo_trace_yaml *yaml = &reader->y->traces[reader->row];
    luo_event *more;
    int32_t n;
    const luo_status st =
        luo_read_event_trace(reader->doc.arena, src, reader->cluster, yaml->start_s,
                             yaml->time_scale, &more, &n, reader->doc.diags);
    if (st != LUO_OK || n == 0) return st;
    luo_event *all =
        luo_arena_calloc(reader->doc.arena, (size_t)(reader->nevents + n), sizeof *all);
    if (!all) return luo_doc_nomem(&reader->doc);
    if (reader->nevents) memcpy(all, reader->events, (size_t)reader->nevents * sizeof *all);
    memcpy(all + reader->nevents, more, (size_t)n * sizeof *all);
    reader->events = all;
    reader->nevents += n;
    return LUO_OK;
}

static void take_traces(luo_scenario_reader *reader)
{
    const luo_doc_node *at = first_of(reader, "traces");
    char name[32];
    for (reader->row = 0; reader->row < reader->y->traces_count; reader->row++, at = at->next) {
        snprintf(name, sizeof name, "traces.%u", reader->row);
        luo_scenario_file(reader, luo_doc_get(at, "file"), "trace", name, read_trace);
    }
}

/* Streams of random numbers are named by ids, so two equal ones would draw the same numbers. */
static void check_ids(luo_scenario_reader *reader)
{
    const luo_doc_node *event = first_of(reader, "events"),
                       *process = first_of(reader, "processes");
    const int32_t n = reader->nevents + reader->sc->nprocesses;
    luo_map seen = {0};
    for (int32_t i = 0; i < n; i++) {
        const bool own = i < reader->own_events, proc = i >= reader->nevents;
        const char *id =
            proc ? reader->sc->processes[i - reader->nevents].id : reader->events[i].id;
        int64_t *first = luo_map_at(&seen, luo_hash_str(LUO_HASH_EMPTY, id) >> 1, i);
        if (!first) {
            luo_doc_nomem(&reader->doc);
            break;
        }
        const luo_doc_node *at = own    ? luo_doc_get(event, "id")
                                 : proc ? luo_doc_get(process, "id")
                                        : luo_doc_get(reader->doc.root, "traces");
        if (*first != i && (own || proc))
            luo_doc_error(&reader->doc, at,
                          "`id` is `%.60s`; another event or process has that id.", id);
        else if (*first != i)
            luo_doc_error(&reader->doc, at,
                          "line %d of a trace has the id `%.60s`; another event has "
                          "that id.",
                          reader->events[i].line, id);
        if (own) event = event->next;
        if (proc) process = process->next;
    }
    luo_map_free(&seen);
}

void luo_scenario_take_events(luo_scenario_reader *reader)
{
    const luo_doc_node *at = first_of(reader, "events");
    reader->own_events = reader->nevents = (int32_t)reader->y->events_count;
    reader->events = LUO_NEW_N(reader->doc.arena, luo_event, reader->y->events_count);
    if (!reader->events) {
        luo_doc_nomem(&reader->doc);
        return;
    }
    for (int32_t i = 0; i < reader->own_events; i++, at = at->next)
        take_event(reader, &reader->events[i], &reader->y->events[i], at);
    take_traces(reader);
    reader->sc->events = reader->events;
    reader->sc->nevents = reader->nevents;
    check_ids(reader);
}

/* ---- processes ---- */

static luo_life take_life(const luo_event_yaml *yaml)
{
    return (luo_life){.duration_s = yaml->duration_s,
                      .dist = yaml->life.distribution,
                      .mean_s = yaml->life.mean_s,
                      .shape = yaml->life.shape,
                      .median_s = yaml->life.median_s,
                      .sigma = yaml->life.sigma};
}

static luo_status read_causes(luo_scenario_reader *reader, const luo_source *src)
{
    luo_arrivals *arrivals = (luo_arrivals *)&reader->sc->processes[reader->row];
    luo_cause *causes;
    LUO_TRY(
        luo_read_causes(reader->doc.arena, src, &causes, &arrivals->ncauses, reader->doc.diags));
    arrivals->causes = causes;
    return LUO_OK;
}

static void take_process(luo_scenario_reader *reader, luo_arrivals *arrivals,
                         const luo_event_yaml *yaml, const luo_doc_node *at)
{
    const luo_doc_node *target = luo_doc_get(at, "target");
    *arrivals =
        (luo_arrivals){.id = yaml->id,
                       .target = or_empty(yaml->target),
                       .kind = yaml->kind,
                       .dist = yaml->distribution,
                       .mean_s = yaml->mean_s,
                       .shape = yaml->shape,
                       .life = take_life(yaml),
                       .slowdown = yaml->slowdown,
                       .slowdown_between = {yaml->slowdown_between[0], yaml->slowdown_between[1]},
                       .bandwidth_factor = yaml->bandwidth_factor,
                       .extra_latency_s = yaml->extra_latency_us * 1e-6,
                       .observed_devices = yaml->observed_devices,
                       .observed_s = yaml->observed_s,
                       .line = target->line,
                       .col = target->col};
    if (luo_event_traits_of(yaml->kind).value == LUO_VALUE_FACTOR && !given(at, "bandwidth_factor"))
        arrivals->bandwidth_factor = 1;
    check_target(reader, at, yaml->kind, true);
}

void luo_scenario_take_processes(luo_scenario_reader *reader)
{
    const luo_doc_node *at = first_of(reader, "processes");
    luo_arrivals *arrivals = LUO_NEW_N(reader->doc.arena, luo_arrivals, reader->y->processes_count);
    char name[32];
    if (!arrivals) {
        luo_doc_nomem(&reader->doc);
        return;
    }
    reader->sc->processes = arrivals;
    reader->sc->nprocesses = (int32_t)reader->y->processes_count;
    for (reader->row = 0; reader->row < reader->y->processes_count; reader->row++, at = at->next) {
        take_process(reader, &arrivals[reader->row], &reader->y->processes[reader->row], at);
        snprintf(name, sizeof name, "processes.%u", reader->row);
        if (arrivals[reader->row].kind == LUO_EVENT_CAUSES)
            luo_scenario_file(reader, luo_doc_get(at, "file"), "causes", name, read_causes);
    }
}

/* ---- policies ---- */

void luo_read_policy_defaults(luo_policy_spec *spec, const char *name)
{
    const luo_policy *policy = luo_policy_find(name);
    *spec = (luo_policy_spec){.name = name,
                              .label = name,
                              .restart_s = -1,
                              .threshold_slowdown = 1.2,
                              .replan_gap = 0.3,
                              .payback_steps = 50,
                              .planner_s = 10,
                              .planner_default = true,
                              .window_steps = 5,
                              .top_k = 32,
                              .reentry_probes = policy ? policy->reentry_probes : 0,
                              .plan_mode = policy ? policy->plan_mode : LUO_PLAN_ASYNC,
                              .rank = LUO_RANK_FILLED,
                              .deals_batch = true,
                              .lengths = {.kicks = -1,
                                          .max_plans = 16,
                                          .ahead = 10,
                                          .workers = 1,
                                          .switch_ms = 100}};
    if (policy && policy->lengths) spec->planner_s = 0.1;
}

/* A published objective ranks by itself: nothing is simulated. */
static void take_rank(luo_scenario_reader *reader, luo_policy_spec *spec, int32_t word,
                      const luo_doc_node *at)
{
    const bool own = word < LUO_RANK_WORDS;
    const luo_policy *policy = luo_policy_find(spec->name);
    spec->judged = own ? LUO_JUDGED_PUBLISHED : (luo_judged)(word - LUO_RANK_WORDS);
    if (!own) return;
    spec->rank = (luo_malleus_rank)word;
    if (!policy || !policy->objectives)
        luo_doc_error(&reader->doc, at,
                      "`rank` is `%s`; policy `%s` has one objective, so `simulated` "
                      "or `objective` is expected.",
                      at->text, spec->name);
}

/* "expected", or "steps N": another way to say `payback_steps`. */
static void take_payback(luo_scenario_reader *reader, luo_policy_spec *spec, const char *text,
                         const luo_doc_node *at)
{
    char *end = NULL;
    const bool steps = strncmp(text, "steps ", 6) == 0 && text[6] >= '0' && text[6] <= '9';
    const double n = steps ? strtod(text + 6, &end) : 0;
    if (spec->payback_given)
        luo_doc_error_key(&reader->doc, at,
                          "`payback` and `payback_steps` say the same; leave one "
                          "out.");
    if (steps ? *end || !isfinite(n) : strcmp(text, "expected") != 0)
        luo_doc_error(&reader->doc, at,
                      "`payback` is `%.60s`; `expected` or `steps N` is expected.", text);
    if (!steps) return;
    spec->payback_given = true;
    spec->payback_steps = n;
}

static void take_context(luo_scenario_reader *reader, luo_length_spec *spec,
                         const luo_policy_yaml *yaml, const luo_doc_node *at)
{
    const luo_doc_node *list = luo_doc_get(at, "context_parallel");
    if (yaml->context_parallel_count > LUO_CONTEXT_SIZES) {
        luo_doc_error(&reader->doc, list, "`context_parallel` has %u sizes; at most %d are taken.",
                      yaml->context_parallel_count, (int)LUO_CONTEXT_SIZES);
        return;
    }
    for (uint32_t k = 0; k < yaml->context_parallel_count; k++) {
        for (int32_t i = 0; i < spec->ncontext; i++)
            if (spec->context[i] == (int32_t)yaml->context_parallel[k])
                luo_doc_error(&reader->doc, luo_doc_nth(list, (int)k),
                              "`context_parallel` has %d twice.", spec->context[i]);
        spec->context[spec->ncontext++] = (int32_t)yaml->context_parallel[k];
    }
}

static void take_lengths(luo_scenario_reader *reader, luo_length_spec *spec,
                         const luo_policy_yaml *yaml, const luo_doc_node *at)
{
    spec->assign = (luo_length_assign)yaml->assign;
    spec->proposals = (luo_proposals)yaml->proposal;
    spec->published_dispatch = yaml->dispatch == 1;
    spec->score = (luo_pack_score)yaml->score;
    spec->stragglers = (luo_length_stragglers)yaml->stragglers;
    if (spec->stragglers == LUO_STRAGGLERS_JOINT && strcmp(yaml->name, "hydraulis") != 0)
        luo_doc_error(&reader->doc, luo_doc_get(at, "stragglers"),
                      "`stragglers` is `joint`, which policy `%s` does not do; `dispatch` or "
                      "`none` is expected.",
                      yaml->name);
    if (given(at, "kicks")) spec->kicks = (int32_t)yaml->kicks;
    if (given(at, "max_plans")) spec->max_plans = (int32_t)yaml->max_plans;
    if (given(at, "ahead")) spec->ahead = (int32_t)yaml->ahead;
    if (given(at, "workers")) spec->workers = (int32_t)yaml->workers;
    if (given(at, "switch_ms")) spec->switch_ms = yaml->switch_ms;
    take_context(reader, spec, yaml, at);
}

/* Their first plan is that of the first batch. */
static void check_own_plans(luo_scenario_reader *reader, const char *name, const luo_doc_node *at)
{
    static const char *const keys[] = {"plan", "planner"};
    const luo_policy *policy = luo_policy_find(name);
    for (int i = 0; i < 2 && policy && policy->lengths; i++)
        if (given(at, keys[i]))
            luo_doc_error_key(&reader->doc, luo_doc_get(at, keys[i]),
                              "policy `%s` makes its own plans; leave `%s` out.", name, keys[i]);
}

static void check_servers(luo_scenario_reader *reader, const luo_training_spec *spec,
                          const luo_doc_node *at)
{
    const luo_doc_node *list = luo_doc_get(at, "server_devices");
    const int32_t n = reader->cluster ? reader->cluster->ndevices : LUO_DEVICES_MAX;
    for (int32_t k = 0; list && k < spec->servers; k++) {
        const int32_t device = spec->server_devices[k];
        if (device >= n)
            luo_doc_error(&reader->doc, luo_doc_nth(list, k),
                          "`server_devices` has device %d; the cluster has 0 to %d.", device,
                          n - 1);
        for (int32_t i = 0; i < k; i++)
            if (spec->server_devices[i] == device)
                luo_doc_error(&reader->doc, luo_doc_nth(list, k), "`server_devices` has %d twice.",
                              device);
    }
}

/* What is not given gives way to what is. */
static void take_waits(luo_scenario_reader *reader, luo_training_spec *spec,
                       const luo_training_yaml *yaml, const luo_doc_node *at)
{
    const luo_doc_node *node = luo_doc_get(at, "wait_min_s");
    const double most = yaml->wait_max_s;
    spec->wait_max_s = most;
    spec->wait_min_s = node ? yaml->wait_min_s : fmin(yaml->wait_min_s, most);
    if (yaml->adaptive && spec->wait_min_s > most)
        luo_doc_error(&reader->doc, node,
                      "`wait_min_s` is %g and `wait_max_s` %g; at most as much is expected.",
                      spec->wait_min_s, most);
}

static void take_training(luo_training_spec *spec, const luo_training_yaml *yaml)
{
    *spec = (luo_training_spec){
        .mode = (luo_training_mode)yaml->sync,
        .staleness = (int32_t)yaml->staleness,
        .servers = yaml->server_devices_count ? (int32_t)yaml->server_devices_count
                                              : (int32_t)yaml->servers,
        .server_devices = yaml->server_devices_count ? yaml->server_devices : NULL,
        .max_group = (int32_t)yaml->max_group,
        .guard = (int32_t)yaml->guard,
        .wait_s = yaml->wait_s,
        .request_s = yaml->request_s,
        .adaptive = yaml->adaptive};
}

static void take_policy(luo_scenario_reader *reader, luo_policy_spec *spec,
                        const luo_policy_yaml *yaml, const luo_doc_node *at)
{
    const luo_doc_node *plan = luo_doc_get(at, "plan");
    char name[40];
    luo_read_policy_defaults(spec, yaml->name);
    if (given(at, "label")) spec->label = yaml->label;
    spec->line = at->line;
    spec->col = at->col;
    if (given(at, "restart_s")) spec->restart_s = yaml->restart_s;
    if (given(at, "threshold_slowdown")) spec->threshold_slowdown = yaml->threshold_slowdown;
    if (given(at, "replan_gap")) spec->replan_gap = yaml->replan_gap;
    spec->payback_given = given(at, "payback_steps");
    if (spec->payback_given) spec->payback_steps = yaml->payback_steps;
    if (given(at, "payback")) take_payback(reader, spec, yaml->payback, luo_doc_get(at, "payback"));
    if (given(at, "lost_batch")) spec->deals_batch = yaml->lost_batch == 0;
    if (given(at, "optimizer_step"))
        spec->optimizer_step = (luo_optimizer_step)yaml->optimizer_step;
    if (given(at, "planner_s")) spec->planner_s = yaml->planner_s;
    spec->planner_default = !given(at, "planner_s");
    if (given(at, "window_steps")) spec->window_steps = (int32_t)yaml->window_steps;
    if (given(at, "reentry_probes")) spec->reentry_probes = (int32_t)yaml->reentry_probes;
    if (given(at, "plan_mode")) spec->plan_mode = (luo_plan_mode)yaml->plan_mode;
    if (given(at, "rank")) take_rank(reader, spec, yaml->rank, luo_doc_get(at, "rank"));
    if (spec->rank == LUO_RANK_EVENT) spec->top_k = 256;
    if (given(at, "top_k")) spec->top_k = (int32_t)yaml->top_k;
    spec->split2 = yaml->grouping == 1;
    spec->dp_auto = yaml->dp == 1;
    spec->always_switch = yaml->always_switch;
    spec->planner_measured = yaml->planner_time == 1;
    spec->strict_uniform = yaml->strict_uniform;
    if (given(at, "planner")) spec->planner = yaml->planner.name;
    snprintf(name, sizeof name, "policies.%u.plan", reader->row);
    if (plan && *plan->text) spec->plan = luo_scenario_take_plan(reader, plan, name);
    take_lengths(reader, &spec->lengths, yaml, at);
    if (given(at, "training")) {
        take_training(&spec->training, &yaml->training);
        take_waits(reader, &spec->training, &yaml->training, luo_doc_get(at, "training"));
        check_servers(reader, &spec->training, luo_doc_get(at, "training"));
    }
    check_own_plans(reader, yaml->name, at);
}

static void check_labels(luo_scenario_reader *reader)
{
    const luo_doc_node *at = first_of(reader, "policies");
    for (int32_t i = 0; i < reader->sc->npolicies; i++, at = at->next)
        for (int32_t k = 0; k < i; k++) {
            if (strcmp(reader->sc->policies[k].label, reader->sc->policies[i].label) != 0) continue;
            const luo_doc_node *label = luo_doc_get(at, "label");
            luo_doc_error(&reader->doc, label ? label : luo_doc_get(at, "name"),
                          "two policies are called `%s`; give one a `label` of its own.",
                          reader->sc->policies[i].label);
            break;
        }
}

void luo_scenario_take_policies(luo_scenario_reader *reader)
{
    const luo_doc_node *list = luo_doc_get(reader->doc.root, "policies"), *at = list->first;
    luo_policy_spec *spec =
        LUO_NEW_N(reader->doc.arena, luo_policy_spec, reader->y->policies_count);
    if (!spec) {
        luo_doc_nomem(&reader->doc);
        return;
    }
    if (reader->y->policies_count == 0)
        luo_doc_error(&reader->doc, list, "`policies` is empty; one policy or more is expected.");
    for (reader->row = 0; reader->row < reader->y->policies_count; reader->row++, at = at->next)
        take_policy(reader, &spec[reader->row], &reader->y->policies[reader->row], at);
    reader->sc->policies = spec;
    reader->sc->npolicies = (int32_t)reader->y->policies_count;
    check_labels(reader);
}
