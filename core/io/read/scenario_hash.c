/* scenario_hash.c: canonical JSON of a scenario, for its hash (docs/formats.md#words-units-names):
 * every value with its default, keys sorted, files by the hash of their content. */
#include <jansson.h>
#include <stdlib.h>

#include "core/base/hash.h"
#include "core/io/read/scenario_yaml.h"
#include "core/run/policy/policy.h"

static void num(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, json_real(v));
}

static void whole(json_t *o, const char *key, int64_t v)
{
    json_object_set_new(o, key, json_integer(v));
}

static void text(json_t *o, const char *key, const char *v)
{
    json_object_set_new(o, key, json_string(v ? v : ""));
}

static void flag(json_t *o, const char *key, bool v)
{
    json_object_set_new(o, key, json_boolean(v));
}

static json_t *pair(const double v[2])
{
    json_t *a = json_array();
    json_array_append_new(a, json_real(v[0]));
    json_array_append_new(a, json_real(v[1]));
    return a;
}

static json_t *life_json(const luo_life *l)
{
    json_t *o = json_object();
    num(o, "duration_s", l->duration_s);
    whole(o, "duration_steps", l->steps);
    whole(o, "distribution", l->dist);
    num(o, "mean_s", l->mean_s);
    num(o, "shape", l->shape);
    num(o, "median_s", l->median_s);
    num(o, "sigma", l->sigma);
    return o;
}

static json_t *event_json(const luo_event *e)
{
    json_t *o = json_object();
    text(o, "id", e->id);
    text(o, "target", e->target);
    text(o, "cause", e->cause);
    text(o, "kind", luo_event_kind_name(e->kind));
    whole(o, "trigger", e->trigger);
    json_object_set_new(o, "at", pair(e->at));
    num(o, "slowdown", e->slowdown);
    json_object_set_new(o, "slowdown_between", pair(e->slowdown_between));
    num(o, "ramp_s", e->ramp_s);
    num(o, "notice_s", e->notice_s);
    num(o, "down_s", e->down_s);
    num(o, "up_s", e->up_s);
    num(o, "bandwidth_factor", e->bandwidth_factor);
    num(o, "extra_latency_s", e->extra_latency_s);
    json_object_set_new(o, "life", life_json(&e->life));
    whole(o, "tokens", e->tokens);
    flag(o, "hard", e->hard);
    return o;
}

static json_t *process_json(const luo_arrivals *p)
{
    json_t *o = json_object();
    text(o, "id", p->id);
    text(o, "target", p->target);
    text(o, "kind", luo_event_kind_name(p->kind));
    whole(o, "distribution", p->dist);
    num(o, "mean_s", p->mean_s);
    num(o, "shape", p->shape);
    json_object_set_new(o, "life", life_json(&p->life));
    num(o, "slowdown", p->slowdown);
    json_object_set_new(o, "slowdown_between", pair(p->slowdown_between));
    num(o, "bandwidth_factor", p->bandwidth_factor);
    num(o, "extra_latency_s", p->extra_latency_s);
    num(o, "observed_devices", p->observed_devices);
    num(o, "observed_s", p->observed_s);
    return o;
}

static void length_spec_json(json_t *o, const luo_length_spec *spec)
{
    json_t *context = json_array();
    whole(o, "assign", spec->assign);
    whole(o, "proposal", spec->proposals);
    flag(o, "dispatch_public", spec->published_dispatch);
    whole(o, "score", spec->score);
    whole(o, "kicks", spec->kicks);
    whole(o, "max_plans", spec->max_plans);
    whole(o, "ahead", spec->ahead);
    whole(o, "workers", spec->workers);
    whole(o, "stragglers", spec->stragglers);
    num(o, "switch_ms", spec->switch_ms);
    for (int32_t k = 0; k < spec->ncontext; k++)
        json_array_append_new(context, json_integer(spec->context[k]));
    json_object_set_new(o, "context_parallel", context);
}

static void training_json(json_t *o, const luo_training_spec *spec)
{
    json_t *own = json_object();
    whole(own, "sync", spec->mode);
    whole(own, "staleness", spec->staleness);
    whole(own, "servers", spec->servers);
    if (spec->server_devices) {
        json_t *devices = json_array();
        for (int32_t s = 0; s < spec->servers; s++)
            json_array_append_new(devices, json_integer(spec->server_devices[s]));
        json_object_set_new(own, "server_devices", devices);
    }
    whole(own, "max_group", spec->max_group);
    whole(own, "guard", spec->guard);
    num(own, "wait_s", spec->wait_s);
    if (spec->request_s > 0) num(own, "request_s", spec->request_s);
    flag(own, "adaptive", spec->adaptive);
    num(own, "wait_max_s", spec->wait_max_s);
    num(own, "wait_min_s", spec->wait_min_s);
    json_object_set_new(o, "training", own);
}

static json_t *policy_json(const luo_policy_spec *spec)
{
    json_t *o = json_object();
    text(o, "name", spec->name);
    text(o, "label", spec->label);
    if (spec->planner) text(o, "planner", spec->planner);
    num(o, "restart_s", spec->restart_s);
    num(o, "threshold_slowdown", spec->threshold_slowdown);
    num(o, "replan_gap", spec->replan_gap);
    num(o, "payback_steps", spec->payback_steps);
    if (spec->payback_given) flag(o, "payback_given", true);
    num(o, "planner_s", spec->planner_s);
    whole(o, "window_steps", spec->window_steps);
    whole(o, "top_k", spec->top_k);
    whole(o, "reentry_probes", spec->reentry_probes);
    whole(o, "plan_mode", spec->plan_mode);
    whole(o, "rank", spec->rank);
    if (spec->judged != LUO_JUDGED_AUTO) whole(o, "judged", spec->judged);
    if (spec->optimizer_step) whole(o, "optimizer_step", spec->optimizer_step);
    if (!spec->deals_batch) flag(o, "deals_batch", false);
    flag(o, "split2", spec->split2);
    flag(o, "dp_auto", spec->dp_auto);
    flag(o, "planner_measured", spec->planner_measured);
    flag(o, "always_switch", spec->always_switch);
    flag(o, "strict_uniform", spec->strict_uniform);
    const luo_policy *policy = luo_policy_find(spec->name);
    if (policy && policy->lengths) length_spec_json(o, &spec->lengths);
    if (spec->training.mode) training_json(o, &spec->training);
    return o;
}

/* What is not said is absent: the hash of before. */
static void memory_json(json_t *o, const luo_memory_rules *r)
{
    const struct {
        const char *key;
        double value, otherwise;
    } all[] = {{"dropout", r->dropout, 0},
               {"silu_again", r->silu_again, 0},
               {"norm2_again", r->norm2_again, 0},
               {"cross_entropy_unfused", r->cross_entropy_unfused, 0},
               {"dummy_gradients", r->dummy_gradients, 0},
               {"flat_gradients", r->flat_gradients, 0},
               {"expert_weights_inside", r->expert_weights_inside, 0},
               {"outputs_kept", r->outputs_kept, 0},
               {"gradient_bytes", r->gradient_bytes, 0},
               {"f32_state_bytes", r->f32_state_bytes, 0},
               {"framework_bytes", r->framework_bytes, 0},
               {"communicator_bytes", r->communicator_bytes, 0},
               {"allocator_factor", r->allocator_factor, 1},
               {"headroom_factor", r->headroom_factor, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value != all[i].otherwise) num(o, all[i].key, all[i].value);
}

static json_t *stack_json(const luo_stack *stack)
{
    json_t *o = json_object();
    text(o, "name", stack->name);
    num(o, "host_launch_s", stack->host_launch_s);
    num(o, "host_exponent", stack->host_exponent);
    num(o, "busbw_factor", stack->busbw_factor);
    num(o, "dp_overlap", stack->dp_overlap);
    num(o, "tp_exposed_factor", stack->tp_exposed_factor);
    num(o, "scale_jitter", stack->scale_jitter);
    num(o, "grad_comm_bytes", stack->grad_comm_bytes);
    num(o, "optimizer_bytes", stack->optimizer_bytes);
    flag(o, "attention_fused", stack->attention_fused);
    flag(o, "p2p_blocking", stack->p2p_blocking);
    flag(o, "scatter_gather", stack->scatter_gather);
    num(o, "kernels_forward", stack->kernels_forward);
    num(o, "gemm_ratio", stack->gemm_ratio);
    num(o, "attention_ratio", stack->attention_ratio);
    flag(o, "tp_overlap", stack->tp_overlap);
    flag(o, "tf32", stack->tf32);
    if (!stack->shard_overlap) flag(o, "shard_overlap", false); /* absent: the hash of before */
    if (stack->fp8_recipe != LUO_FP8_NONE)
        text(o, "fp8_recipe", luo_fp8_recipe_name(stack->fp8_recipe));
    if (stack->eager) flag(o, "eager", true);
    if (stack->fp8_weights_once) flag(o, "fp8_weights_once", true);
    memory_json(o, &stack->memory);
    if (stack->bucket.rule != LUO_BUCKET_UNSAID) /* absent: the hash of before */
        text(o, "bucket_rule", luo_bucket_rule_name(stack->bucket.rule));
    if (stack->bucket.has_mib) num(o, "bucket_mib", stack->bucket.mib);
    if (stack->bucket.lanes) whole(o, "dp_lanes", stack->bucket.lanes);
    return o;
}

static json_t *checkpoint_json(const luo_scenario *sc)
{
    json_t *o = json_object();
    whole(o, "kind", sc->checkpoint.kind);
    whole(o, "every_steps", sc->checkpoint.every_steps);
    num(o, "every_s", sc->checkpoint.every_s);
    flag(o, "blocking", sc->checkpoint.blocking);
    flag(o, "disk", sc->checkpoint.target == LUO_TARGET_DISK);
    if (sc->checkpoint.target == LUO_TARGET_PEER) flag(o, "peer", true);
    return o;
}

static json_t *costs_json(const luo_scenario *sc)
{
    json_t *o = json_object();
    num(o, "detect_fail_s", sc->detect_fail_s);
    num(o, "process_start_s", sc->process_start_s);
    num(o, "communicator_s", sc->communicator_s);
    if (sc->operator_s > 0) num(o, "operator_s", sc->operator_s);
    num(o, "replacement_s", sc->replacement_s);
    return o;
}

/* Tables enter by their files. */
static json_t *lengths_json(const luo_lengths *lengths)
{
    json_t *o = json_object();
    text(o, "kind", luo_length_kind_name(lengths->kind));
    whole(o, "tokens", lengths->tokens);
    whole(o, "low_tokens", lengths->low);
    whole(o, "high_tokens", lengths->high);
    num(o, "median_tokens", lengths->median);
    num(o, "sigma", lengths->sigma);
    whole(o, "repeat", lengths->repeat);
    if (lengths->nparts == 0) return o;
    json_t *parts = json_array();
    for (int32_t i = 0; i < lengths->nparts; i++) {
        json_t *part = lengths_json(&lengths->parts[i].lengths);
        num(part, "weight", lengths->parts[i].weight);
        json_array_append_new(parts, part);
    }
    json_object_set_new(o, "components", parts);
    return o;
}

static void scalars(json_t *o, const luo_scenario *sc)
{
    text(o, "name", sc->name);
    whole(o, "seed", (int64_t)sc->seed);
    text(o, "planner", sc->planner);
    whole(o, "steps", sc->steps);
    num(o, "duration_s", sc->duration_s);
    whole(o, "batch_sequences", sc->batch_sequences);
    whole(o, "length_tokens", sc->length_tokens);
    if (sc->batch_tokens) whole(o, "batch_tokens", sc->batch_tokens);
    if (sc->batch_tokens && !sc->truncate_last) flag(o, "truncate_last", false);
    if (sc->lengths && sc->lengths->kind != LUO_LENGTH_FIXED)
        json_object_set_new(o, "lengths", lengths_json(sc->lengths));
    num(o, "compute_sigma", sc->compute_sigma);
    num(o, "comm_sigma", sc->comm_sigma);
    if (sc->nloads > 0 && sc->loads->nrows) text(o, "expert_load", "trace"); /* see `files` */
    else if (sc->nloads > 0) num(o, "expert_load", sc->loads->exponent);
    flag(o, "truth", sc->truth);
}

static json_t *files_json(const luo_named_hash *files, int32_t n)
{
    json_t *o = json_object();
    char hash[17];
    for (int32_t i = 0; i < n; i++) text(o, files[i].name, luo_hash_print(files[i].hash, hash));
    return o;
}

static json_t *traces_json(const luo_scenario_yaml *y)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < y->traces_count; i++) {
        json_t *o = json_object();
        num(o, "start_s", y->traces[i].start_s);
        num(o, "time_scale", y->traces[i].time_scale);
        json_array_append_new(a, o);
    }
    return a;
}

/* Models and plans are among the files. */
static void jobs_json(json_t *o, const luo_scenario *sc)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < sc->njobs; i++) {
        json_t *job = json_object();
        text(job, "name", sc->jobs[i].name);
        num(job, "start_s", sc->jobs[i].start_s);
        if (sc->jobs[i].steps > 0) whole(job, "steps", sc->jobs[i].steps);
        else num(job, "duration_s", sc->jobs[i].duration_s);
        json_array_append_new(list, job);
    }
    json_object_set_new(o, "jobs", list);
    whole(o, "joint_steps", sc->joint_steps);
}

luo_status luo_scenario_canonical(luo_str *text, const luo_scenario *sc,
                                  const luo_named_hash *files, int32_t n, int32_t own_events,
                                  const luo_scenario_yaml *y)
{
    json_t *o = json_object(), *events = json_array(), *processes = json_array();
    json_t *policies = json_array();
    scalars(o, sc);
    for (int32_t i = 0; i < own_events; i++)
        json_array_append_new(events, event_json(&sc->events[i]));
    for (int32_t i = 0; i < sc->nprocesses; i++)
        json_array_append_new(processes, process_json(&sc->processes[i]));
    for (int32_t i = 0; i < sc->npolicies; i++)
        json_array_append_new(policies, policy_json(&sc->policies[i]));
    if (sc->njobs > 0) jobs_json(o, sc);
    json_object_set_new(o, "events", events);
    json_object_set_new(o, "processes", processes);
    json_object_set_new(o, "policies", policies);
    json_object_set_new(o, "traces", traces_json(y));
    json_object_set_new(o, "stack", stack_json(&sc->stack));
    json_object_set_new(o, "checkpoint", checkpoint_json(sc));
    json_object_set_new(o, "costs", costs_json(sc));
    json_object_set_new(o, "files", files_json(files, n));
    char *out = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (out) luo_str_add(text, out);
    free(out);
    json_decref(o);
    return out && !text->failed ? LUO_OK : LUO_ENOMEM;
}
