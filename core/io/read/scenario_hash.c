/* scenario_hash.c: canonical JSON of a scenario, for its hash (docs/formats.md#words-units-names):
 * every value with its default, keys sorted, files by the hash of their content. */
#include <jansson.h>
#include <stdlib.h>

#include "core/base/hash.h"
#include "core/io/read/scenario_yaml.h"
#include "core/run/policy/policy.h"

static void num(json_t *json, const char *key, double v)
{
    json_object_set_new(json, key, json_real(v));
}

static void whole(json_t *json, const char *key, int64_t v)
{
    json_object_set_new(json, key, json_integer(v));
}

static void text(json_t *json, const char *key, const char *v)
{
    json_object_set_new(json, key, json_string(v ? v : ""));
}

static void flag(json_t *json, const char *key, bool v)
{
    json_object_set_new(json, key, json_boolean(v));
}

static json_t *pair(const double v[2])
{
    json_t *json = json_array();
    json_array_append_new(json, json_real(v[0]));
    json_array_append_new(json, json_real(v[1]));
    return json;
}

static json_t *life_json(const luo_life *life)
{
    json_t *json = json_object();
    num(json, "duration_s", life->duration_s);
    whole(json, "duration_steps", life->steps);
    whole(json, "distribution", life->dist);
    num(json, "mean_s", life->mean_s);
    num(json, "shape", life->shape);
    num(json, "median_s", life->median_s);
    num(json, "sigma", life->sigma);
    return json;
}

static json_t *event_json(const luo_event *event)
{
    json_t *json = json_object();
    text(json, "id", event->id);
    text(json, "target", event->target);
    text(json, "cause", event->cause);
    text(json, "kind", luo_event_kind_name(event->kind));
    whole(json, "trigger", event->trigger);
    json_object_set_new(json, "at", pair(event->at));
    num(json, "slowdown", event->slowdown);
    json_object_set_new(json, "slowdown_between", pair(event->slowdown_between));
    num(json, "ramp_s", event->ramp_s);
    num(json, "notice_s", event->notice_s);
    num(json, "down_s", event->down_s);
    num(json, "up_s", event->up_s);
    num(json, "bandwidth_factor", event->bandwidth_factor);
    num(json, "extra_latency_s", event->extra_latency_s);
    json_object_set_new(json, "life", life_json(&event->life));
    whole(json, "tokens", event->tokens);
    flag(json, "hard", event->hard);
    return json;
}

static json_t *process_json(const luo_arrivals *arrivals)
{
    json_t *json = json_object();
    text(json, "id", arrivals->id);
    text(json, "target", arrivals->target);
    text(json, "kind", luo_event_kind_name(arrivals->kind));
    whole(json, "distribution", arrivals->dist);
    num(json, "mean_s", arrivals->mean_s);
    num(json, "shape", arrivals->shape);
    json_object_set_new(json, "life", life_json(&arrivals->life));
    num(json, "slowdown", arrivals->slowdown);
    json_object_set_new(json, "slowdown_between", pair(arrivals->slowdown_between));
    num(json, "bandwidth_factor", arrivals->bandwidth_factor);
    num(json, "extra_latency_s", arrivals->extra_latency_s);
    num(json, "observed_devices", arrivals->observed_devices);
    num(json, "observed_s", arrivals->observed_s);
    return json;
}

static void length_spec_json(json_t *json, const luo_length_spec *spec)
{
    json_t *context = json_array();
    whole(json, "assign", spec->assign);
    whole(json, "proposal", spec->proposals);
    flag(json, "dispatch_public", spec->published_dispatch);
    whole(json, "score", spec->score);
    whole(json, "kicks", spec->kicks);
    whole(json, "max_plans", spec->max_plans);
    whole(json, "ahead", spec->ahead);
    whole(json, "workers", spec->workers);
    whole(json, "stragglers", spec->stragglers);
    num(json, "switch_ms", spec->switch_ms);
    for (int32_t k = 0; k < spec->ncontext; k++)
        json_array_append_new(context, json_integer(spec->context[k]));
    json_object_set_new(json, "context_parallel", context);
}

static void training_json(json_t *json, const luo_training_spec *spec)
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
    json_object_set_new(json, "training", own);
}

static json_t *policy_json(const luo_policy_spec *spec)
{
    json_t *json = json_object();
    text(json, "name", spec->name);
    text(json, "label", spec->label);
    if (spec->planner) text(json, "planner", spec->planner);
    num(json, "restart_s", spec->restart_s);
    num(json, "threshold_slowdown", spec->threshold_slowdown);
    num(json, "replan_gap", spec->replan_gap);
    num(json, "payback_steps", spec->payback_steps);
    if (spec->payback_given) flag(json, "payback_given", true);
    num(json, "planner_s", spec->planner_s);
    whole(json, "window_steps", spec->window_steps);
    whole(json, "top_k", spec->top_k);
    whole(json, "reentry_probes", spec->reentry_probes);
    whole(json, "plan_mode", spec->plan_mode);
    whole(json, "rank", spec->rank);
    if (spec->judged != LUO_JUDGED_AUTO) whole(json, "judged", spec->judged);
    if (spec->optimizer_step) whole(json, "optimizer_step", spec->optimizer_step);
    if (!spec->deals_batch) flag(json, "deals_batch", false);
    flag(json, "split2", spec->split2);
    flag(json, "dp_auto", spec->dp_auto);
    flag(json, "planner_measured", spec->planner_measured);
    flag(json, "always_switch", spec->always_switch);
    flag(json, "strict_uniform", spec->strict_uniform);
    const luo_policy *policy = luo_policy_find(spec->name);
    if (policy && policy->lengths) length_spec_json(json, &spec->lengths);
    if (spec->training.mode) training_json(json, &spec->training);
    return json;
}

/* What is not said is absent: the hash of before. */
static void memory_json(json_t *json, const luo_memory_rules *rules)
{
    const struct {
        const char *key;
        double value, otherwise;
    } all[] = {{"dropout", rules->dropout, 0},
               {"silu_again", rules->silu_again, 0},
               {"norm2_again", rules->norm2_again, 0},
               {"cross_entropy_unfused", rules->cross_entropy_unfused, 0},
               {"dummy_gradients", rules->dummy_gradients, 0},
               {"flat_gradients", rules->flat_gradients, 0},
               {"expert_weights_inside", rules->expert_weights_inside, 0},
               {"outputs_kept", rules->outputs_kept, 0},
               {"gradient_bytes", rules->gradient_bytes, 0},
               {"f32_state_bytes", rules->f32_state_bytes, 0},
               {"framework_bytes", rules->framework_bytes, 0},
               {"communicator_bytes", rules->communicator_bytes, 0},
               {"allocator_factor", rules->allocator_factor, 1},
               {"headroom_factor", rules->headroom_factor, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value != all[i].otherwise) num(json, all[i].key, all[i].value);
}

static json_t *stack_json(const luo_stack *stack)
{
    json_t *json = json_object();
    text(json, "name", stack->name);
    num(json, "host_launch_s", stack->host_launch_s);
    num(json, "host_exponent", stack->host_exponent);
    num(json, "busbw_factor", stack->busbw_factor);
    num(json, "dp_overlap", stack->dp_overlap);
    num(json, "tp_exposed_factor", stack->tp_exposed_factor);
    num(json, "scale_jitter", stack->scale_jitter);
    num(json, "grad_comm_bytes", stack->grad_comm_bytes);
    num(json, "optimizer_bytes", stack->optimizer_bytes);
    flag(json, "attention_fused", stack->attention_fused);
    flag(json, "p2p_blocking", stack->p2p_blocking);
    flag(json, "scatter_gather", stack->scatter_gather);
    num(json, "kernels_forward", stack->kernels_forward);
    num(json, "gemm_ratio", stack->gemm_ratio);
    num(json, "attention_ratio", stack->attention_ratio);
    flag(json, "tp_overlap", stack->tp_overlap);
    flag(json, "tf32", stack->tf32);
    if (!stack->shard_overlap) flag(json, "shard_overlap", false); /* absent: the hash of before */
    if (stack->fp8_recipe != LUO_FP8_NONE)
        text(json, "fp8_recipe", luo_fp8_recipe_name(stack->fp8_recipe));
    if (stack->eager) flag(json, "eager", true);
    if (stack->fp8_weights_once) flag(json, "fp8_weights_once", true);
    memory_json(json, &stack->memory);
    if (stack->bucket.rule != LUO_BUCKET_UNSAID) /* absent: the hash of before */
        text(json, "bucket_rule", luo_bucket_rule_name(stack->bucket.rule));
    if (stack->bucket.has_mib) num(json, "bucket_mib", stack->bucket.mib);
    if (stack->bucket.lanes) whole(json, "dp_lanes", stack->bucket.lanes);
    return json;
}

static json_t *checkpoint_json(const luo_scenario *sc)
{
    json_t *json = json_object();
    whole(json, "kind", sc->checkpoint.kind);
    whole(json, "every_steps", sc->checkpoint.every_steps);
    num(json, "every_s", sc->checkpoint.every_s);
    flag(json, "blocking", sc->checkpoint.blocking);
    flag(json, "disk", sc->checkpoint.target == LUO_TARGET_DISK);
    if (sc->checkpoint.target == LUO_TARGET_PEER) flag(json, "peer", true);
    return json;
}

static json_t *costs_json(const luo_scenario *sc)
{
    json_t *json = json_object();
    num(json, "detect_fail_s", sc->detect_fail_s);
    num(json, "process_start_s", sc->process_start_s);
    num(json, "communicator_s", sc->communicator_s);
    if (sc->operator_s > 0) num(json, "operator_s", sc->operator_s);
    num(json, "replacement_s", sc->replacement_s);
    return json;
}

/* Tables enter by their files. */
static json_t *lengths_json(const luo_lengths *lengths)
{
    json_t *json = json_object();
    text(json, "kind", luo_length_kind_name(lengths->kind));
    whole(json, "tokens", lengths->tokens);
    whole(json, "low_tokens", lengths->low);
    whole(json, "high_tokens", lengths->high);
    num(json, "median_tokens", lengths->median);
    num(json, "sigma", lengths->sigma);
    whole(json, "repeat", lengths->repeat);
    if (lengths->nparts == 0) return json;
    json_t *parts = json_array();
    for (int32_t i = 0; i < lengths->nparts; i++) {
        json_t *part = lengths_json(&lengths->parts[i].lengths);
        num(part, "weight", lengths->parts[i].weight);
        json_array_append_new(parts, part);
    }
    json_object_set_new(json, "components", parts);
    return json;
}

static void scalars(json_t *json, const luo_scenario *sc)
{
    text(json, "name", sc->name);
    whole(json, "seed", (int64_t)sc->seed);
    text(json, "planner", sc->planner);
    whole(json, "steps", sc->steps);
    num(json, "duration_s", sc->duration_s);
    whole(json, "batch_sequences", sc->batch_sequences);
    whole(json, "length_tokens", sc->length_tokens);
    if (sc->batch_tokens) whole(json, "batch_tokens", sc->batch_tokens);
    if (sc->batch_tokens && !sc->truncate_last) flag(json, "truncate_last", false);
    if (sc->lengths && sc->lengths->kind != LUO_LENGTH_FIXED)
        json_object_set_new(json, "lengths", lengths_json(sc->lengths));
    num(json, "compute_sigma", sc->compute_sigma);
    num(json, "comm_sigma", sc->comm_sigma);
    if (sc->nloads > 0 && sc->loads->nrows)
        text(json, "expert_load", "trace"); /* see `files` */
    else if (sc->nloads > 0)
        num(json, "expert_load", sc->loads->exponent);
    flag(json, "truth", sc->truth);
}

static json_t *files_json(const luo_named_hash *files, int32_t n)
{
    json_t *json = json_object();
    char hash[17];
    for (int32_t i = 0; i < n; i++) text(json, files[i].name, luo_hash_print(files[i].hash, hash));
    return json;
}

static json_t *traces_json(const luo_scenario_yaml *yaml)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < yaml->traces_count; i++) {
        json_t *o = json_object();
        num(o, "start_s", yaml->traces[i].start_s);
        num(o, "time_scale", yaml->traces[i].time_scale);
        json_array_append_new(a, o);
    }
    return a;
}

/* Models and plans are among the files. */
static void jobs_json(json_t *json, const luo_scenario *sc)
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
    json_object_set_new(json, "jobs", list);
    whole(json, "joint_steps", sc->joint_steps);
}

luo_status luo_scenario_canonical(luo_str *text, const luo_scenario *sc,
                                  const luo_named_hash *files, int32_t n, int32_t own_events,
                                  const luo_scenario_yaml *yaml)
{
    json_t *json = json_object(), *events = json_array(), *processes = json_array();
    json_t *policies = json_array();
    scalars(json, sc);
    for (int32_t i = 0; i < own_events; i++)
        json_array_append_new(events, event_json(&sc->events[i]));
    for (int32_t i = 0; i < sc->nprocesses; i++)
        json_array_append_new(processes, process_json(&sc->processes[i]));
    for (int32_t i = 0; i < sc->npolicies; i++)
        json_array_append_new(policies, policy_json(&sc->policies[i]));
    if (sc->njobs > 0) jobs_json(json, sc);
    json_object_set_new(json, "events", events);
    json_object_set_new(json, "processes", processes);
    json_object_set_new(json, "policies", policies);
    json_object_set_new(json, "traces", traces_json(yaml));
    json_object_set_new(json, "stack", stack_json(&sc->stack));
    json_object_set_new(json, "checkpoint", checkpoint_json(sc));
    json_object_set_new(json, "costs", costs_json(sc));
    json_object_set_new(json, "files", files_json(files, n));
    char *out = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (out) luo_str_add(text, out);
    free(out);
    json_decref(json);
    return out && !text->failed ? LUO_OK : LUO_ENOMEM;
}
