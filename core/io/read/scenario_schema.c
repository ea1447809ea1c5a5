/* scenario_schema.c: the tables by which scenario.yaml is checked and loaded. */
#include "core/io/read/scenario_yaml.h"

#define OPT LUO_DOC_OPT
#define REQ LUO_DOC_REQ
#define FIELDS static const luo_doc_field

#define SECONDS LUO_OF_OR_0(LUO_Q_TIME, 1)
#define SECONDS_ABOVE LUO_OF(LUO_Q_TIME, 1)
#define DATE LUO_OF_OR_0(LUO_Q_RUN_TIME, 1)
#define SLOWDOWN LUO_OF(LUO_Q_SLOWDOWN, 1)
#define TOKENS LUO_OF(LUO_Q_SEQUENCE, 1)
#define STEPS LUO_WITHIN(0, 1e12)

static const luo_doc_word length_kinds[] = {
#define LUO_LENGTH(kind, word, is_synthetic) {word, LUO_LENGTH_##kind},
#include "core/plan/lengths/kinds.inc"
#undef LUO_LENGTH
};
#define OF_EVENTS(kind, word, event, ...) \
    LUO_WHERE_##event({word, LUO_EVENT_##kind}, )
#define OF_PROCESSES(kind, word, event, row, process, ...) \
    LUO_WHERE_##process({word, LUO_EVENT_##kind}, )
static const luo_doc_word event_kinds[] = {LUO_EVENT_KIND_LIST(OF_EVENTS)};
static const luo_doc_word process_kinds[] = {LUO_EVENT_KIND_LIST(OF_PROCESSES)};
static const luo_doc_word arrivals[] = {LUO_DIST_ARRIVAL_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word lives[] = {LUO_DIST_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word planner_times[] = {{"fixed", 0}, {"measured", 1}};
#define OF_JUDGED(value, word) {word, LUO_RANK_WORDS + value},
static const luo_doc_word ranks[] = {LUO_MALLEUS_RANK_LIST(LUO_DOC_WORD_ROW)
                                         LUO_JUDGED_LIST(OF_JUDGED)};
static const luo_doc_word lost_batches[] = {{"deal", 0}, {"lose", 1}};
static const luo_doc_word optimizer_steps[] = {LUO_OPTIMIZER_STEP_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word groupings[] = {LUO_MALLEUS_GROUPING_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word plan_modes[] = {LUO_PLAN_MODE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word dps[] = {{"fixed", 0}, {"auto", 1}};
static const luo_doc_word assigns[] = {LUO_LENGTH_ASSIGN_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word proposals[] = {LUO_PROPOSALS_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word dispatches[] = {LUO_DISPATCH_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word scores[] = {LUO_PACK_SCORE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word stragglers[] = {LUO_LENGTH_STRAGGLERS_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word trainings[] = {LUO_TRAINING_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word expert_loads[] = {{"uniform", 0}, {"zipf", 1}, {"trace", 2}};
static const luo_doc_word modes[] = {{"background", 0}, {"blocking", 1}};
static const luo_doc_word targets[] = {
    {"storage", LUO_TARGET_STORAGE}, {"disk", LUO_TARGET_DISK}, {"peer", LUO_TARGET_PEER}};

static const luo_doc_schema date_entry = LUO_DOC_SCALAR_OF(LUO_DOC_REAL, double, DATE);
static const luo_doc_schema slowdown_entry = LUO_DOC_SCALAR_OF(LUO_DOC_REAL, double, SLOWDOWN);
static const luo_doc_schema context_entry =
    LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int64_t, LUO_WITHIN(2, 64));
static const luo_doc_schema steps_entry = LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int64_t, STEPS);

FIELDS component_fields[] = {
#include "core/io/read/scenario_lengths.inc"
    LUO_DOC_FLOAT("weight", REQ, luo_lengths_yaml, weight, LUO_ABOVE_TO(0, 1e12)), LUO_DOC_END};
static const luo_doc_schema component_entry =
    LUO_DOC_STRUCT_OF(luo_lengths_yaml, component_fields, luo_check_component);

FIELDS lengths_fields[] = {
#include "core/io/read/scenario_lengths.inc"
    LUO_DOC_SEQ("components", OPT, luo_lengths_yaml, components, components_count, component_entry,
                0),
    LUO_DOC_END};

FIELDS life_fields[] = {LUO_DOC_ENUM("distribution", REQ, luo_life_yaml, distribution, lives),
                        LUO_DOC_FLOAT("mean_s", OPT, luo_life_yaml, mean_s, SECONDS_ABOVE),
                        LUO_DOC_FLOAT("shape", OPT, luo_life_yaml, shape, LUO_ABOVE_TO(0, 1000)),
                        LUO_DOC_FLOAT("median_s", OPT, luo_life_yaml, median_s, SECONDS_ABOVE),
                        LUO_DOC_FLOAT("sigma", OPT, luo_life_yaml, sigma, LUO_WITHIN(0, 100)),
                        LUO_DOC_END};

FIELDS event_fields[] = {
    LUO_DOC_TEXT("id", REQ, luo_event_yaml, id),
    LUO_DOC_ENUM("kind", REQ, luo_event_yaml, kind, event_kinds),
    LUO_DOC_TEXT("target", OPT, luo_event_yaml, target),
    LUO_DOC_FLOAT("at_s", OPT, luo_event_yaml, at_s, DATE),
    LUO_DOC_INT("at_step", OPT, luo_event_yaml, at_step, STEPS),
    LUO_DOC_PAIR("between_s", OPT, luo_event_yaml, between_s, date_entry),
    LUO_DOC_PAIR("between_steps", OPT, luo_event_yaml, between_steps, steps_entry),
    LUO_DOC_FLOAT("per_step_probability", OPT, luo_event_yaml, per_step_probability,
                  LUO_ABOVE_TO(0, 1)),
#include "core/io/read/scenario_effect.inc"
    LUO_DOC_INT("duration_steps", OPT, luo_event_yaml, duration_steps, LUO_WITHIN(1, 1e12)),
    LUO_DOC_FLOAT_OR("ramp_s", luo_event_yaml, ramp_s, "0", SECONDS),
    LUO_DOC_FLOAT_OR("notice_s", luo_event_yaml, notice_s, "0", SECONDS),
    LUO_DOC_FLOAT("down_s", OPT, luo_event_yaml, down_s, SECONDS_ABOVE),
    LUO_DOC_FLOAT("up_s", OPT, luo_event_yaml, up_s, SECONDS_ABOVE),
    LUO_DOC_TEXT("cause", OPT, luo_event_yaml, cause),
    LUO_DOC_BOOL_OR("hard", luo_event_yaml, hard, "false"),
    LUO_DOC_MAPPING("lengths", OPT, luo_event_yaml, lengths, lengths_fields, luo_check_lengths),
    LUO_DOC_END};
static const luo_doc_schema event_entry =
    LUO_DOC_STRUCT_OF(luo_event_yaml, event_fields, luo_check_event);

FIELDS process_fields[] = {
    LUO_DOC_TEXT("id", REQ, luo_event_yaml, id),
    LUO_DOC_ENUM("kind", REQ, luo_event_yaml, kind, process_kinds),
    LUO_DOC_TEXT("target", REQ, luo_event_yaml, target),
    LUO_DOC_ENUM("distribution", OPT, luo_event_yaml, distribution, arrivals),
    LUO_DOC_FLOAT("mean_s", OPT, luo_event_yaml, mean_s, SECONDS_ABOVE),
    LUO_DOC_FLOAT("shape", OPT, luo_event_yaml, shape, LUO_ABOVE_TO(0, 1000)),
    LUO_DOC_MAPPING("life", OPT, luo_event_yaml, life, life_fields, luo_check_life),
#include "core/io/read/scenario_effect.inc"
    LUO_DOC_TEXT("file", OPT, luo_event_yaml, file),
    LUO_DOC_FLOAT("observed_devices", OPT, luo_event_yaml, observed_devices, LUO_ABOVE_TO(0, 1e12)),
    LUO_DOC_FLOAT("observed_s", OPT, luo_event_yaml, observed_s, LUO_ABOVE_TO(0, 1e15)),
    LUO_DOC_END};
static const luo_doc_schema process_entry =
    LUO_DOC_STRUCT_OF(luo_event_yaml, process_fields, luo_check_process);

FIELDS planner_fields[] = {LUO_DOC_TEXT("name", REQ, luo_planner_yaml, name), LUO_DOC_END};

static const luo_doc_schema server_entry =
    LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int32_t, LUO_WITHIN(0, LUO_DEVICES_MAX - 1));
FIELDS training_fields[] = {
    LUO_DOC_ENUM("sync", REQ, luo_training_yaml, sync, trainings),
    LUO_DOC_INT_OR("staleness", luo_training_yaml, staleness, "3", LUO_WITHIN(1, 1e6)),
    LUO_DOC_INT_OR("servers", luo_training_yaml, servers, "1", LUO_WITHIN(1, 1e6)),
    LUO_DOC_SEQ("server_devices", OPT, luo_training_yaml, server_devices, server_devices_count,
                server_entry, 1),
    LUO_DOC_INT_OR("max_group", luo_training_yaml, max_group, "0", LUO_WITHIN(0, 1e6)),
    LUO_DOC_INT_OR("guard", luo_training_yaml, guard, "0", LUO_WITHIN(0, 1e6)),
    LUO_DOC_FLOAT_OR("wait_s", luo_training_yaml, wait_s, "0.001", SECONDS),
    LUO_DOC_FLOAT_OR("request_s", luo_training_yaml, request_s, "0", SECONDS),
    LUO_DOC_BOOL_OR("adaptive", luo_training_yaml, adaptive, "false"),
    LUO_DOC_FLOAT_OR("wait_max_s", luo_training_yaml, wait_max_s, "0.01", SECONDS),
    LUO_DOC_FLOAT_OR("wait_min_s", luo_training_yaml, wait_min_s, "1e-05", SECONDS),
    LUO_DOC_END};

FIELDS policy_fields[] = {
    LUO_DOC_TEXT("name", REQ, luo_policy_yaml, name),
    LUO_DOC_TEXT("label", OPT, luo_policy_yaml, label),
    LUO_DOC_TEXT("plan", OPT, luo_policy_yaml, plan),
    LUO_DOC_MAPPING("planner", OPT, luo_policy_yaml, planner, planner_fields, luo_check_planner),
    LUO_DOC_FLOAT("restart_s", OPT, luo_policy_yaml, restart_s, SECONDS),
    LUO_DOC_FLOAT("threshold_slowdown", OPT, luo_policy_yaml, threshold_slowdown, SLOWDOWN),
    LUO_DOC_FLOAT("replan_gap", OPT, luo_policy_yaml, replan_gap, LUO_WITHIN(0, 1e6)),
    LUO_DOC_INT("window_steps", OPT, luo_policy_yaml, window_steps, LUO_WITHIN(1, 64)),
    LUO_DOC_INT("top_k", OPT, luo_policy_yaml, top_k, LUO_WITHIN(1, 1e6)),
    LUO_DOC_ENUM("rank", OPT, luo_policy_yaml, rank, ranks),
    LUO_DOC_ENUM("grouping", OPT, luo_policy_yaml, grouping, groupings),
    LUO_DOC_ENUM("plan_mode", OPT, luo_policy_yaml, plan_mode, plan_modes),
    LUO_DOC_ENUM("planner_time", OPT, luo_policy_yaml, planner_time, planner_times),
    LUO_DOC_FLOAT("planner_s", OPT, luo_policy_yaml, planner_s, SECONDS),
    LUO_DOC_FLOAT("payback_steps", OPT, luo_policy_yaml, payback_steps, STEPS),
    LUO_DOC_TEXT("payback", OPT, luo_policy_yaml, payback),
    LUO_DOC_ENUM("lost_batch", OPT, luo_policy_yaml, lost_batch, lost_batches),
    LUO_DOC_ENUM("optimizer_step", OPT, luo_policy_yaml, optimizer_step, optimizer_steps),
    LUO_DOC_BOOL("always_switch", OPT, luo_policy_yaml, always_switch),
    LUO_DOC_BOOL("strict_uniform", OPT, luo_policy_yaml, strict_uniform),
    LUO_DOC_INT("reentry_probes", OPT, luo_policy_yaml, reentry_probes, LUO_WITHIN(0, 1e6)),
    LUO_DOC_ENUM("dp", OPT, luo_policy_yaml, dp, dps),
    LUO_DOC_ENUM("assign", OPT, luo_policy_yaml, assign, assigns),
    LUO_DOC_ENUM("proposal", OPT, luo_policy_yaml, proposal, proposals),
    LUO_DOC_ENUM("dispatch", OPT, luo_policy_yaml, dispatch, dispatches),
    LUO_DOC_ENUM("score", OPT, luo_policy_yaml, score, scores),
    LUO_DOC_INT("kicks", OPT, luo_policy_yaml, kicks, LUO_WITHIN(0, 10000)),
    LUO_DOC_INT("max_plans", OPT, luo_policy_yaml, max_plans, LUO_WITHIN(1, 1000)),
    LUO_DOC_ENUM("stragglers", OPT, luo_policy_yaml, stragglers, stragglers),
    LUO_DOC_FLOAT("switch_ms", OPT, luo_policy_yaml, switch_ms, LUO_WITHIN(0, 1e9)),
    LUO_DOC_INT("ahead", OPT, luo_policy_yaml, ahead, LUO_WITHIN(0, 10000)),
    LUO_DOC_INT("workers", OPT, luo_policy_yaml, workers, LUO_WITHIN(1, 1024)),
    LUO_DOC_SEQ("context_parallel", OPT, luo_policy_yaml, context_parallel, context_parallel_count,
                context_entry, 1),
    LUO_DOC_MAPPING("training", OPT, luo_policy_yaml, training, training_fields,
                    luo_check_training),
    LUO_DOC_END};
static const luo_doc_schema policy_entry =
    LUO_DOC_STRUCT_OF(luo_policy_yaml, policy_fields, luo_check_policy);

FIELDS trace_fields[] = {
    LUO_DOC_TEXT("file", REQ, luo_trace_yaml, file),
    LUO_DOC_FLOAT_OR("start_s", luo_trace_yaml, start_s, "0", DATE),
    LUO_DOC_FLOAT_OR("time_scale", luo_trace_yaml, time_scale, "1", LUO_ABOVE_TO(0, 1e9)),
    LUO_DOC_END};
static const luo_doc_schema trace_entry = LUO_DOC_STRUCT_OF(luo_trace_yaml, trace_fields, NULL);

FIELDS extent_fields[] = {
    LUO_DOC_INT("steps", OPT, struct luo_extent_yaml, steps, LUO_WITHIN(1, 1e12)),
    LUO_DOC_FLOAT("duration_s", OPT, struct luo_extent_yaml, duration_s, LUO_OF(LUO_Q_RUN_TIME, 1)),
    LUO_DOC_END};

FIELDS batch_fields[] = {
    LUO_DOC_INT("sequences", OPT, struct luo_batch_yaml, sequences, LUO_WITHIN(1, 1e12)),
    LUO_DOC_INT("tokens", OPT, struct luo_batch_yaml, tokens, TOKENS), LUO_DOC_END};

FIELDS data_fields[] = {
    LUO_DOC_MAPPING("batch", OPT, struct luo_data_yaml, batch, batch_fields, luo_check_batch),
    LUO_DOC_MAPPING("lengths", OPT, struct luo_data_yaml, lengths, lengths_fields,
                    luo_check_lengths),
    LUO_DOC_BOOL("truncate_last", OPT, struct luo_data_yaml, truncate_last), LUO_DOC_END};

FIELDS noise_fields[] = {
    LUO_DOC_FLOAT_OR("compute_sigma", struct luo_noise_yaml, compute_sigma, "0", LUO_WITHIN(0, 10)),
    LUO_DOC_FLOAT_OR("comm_sigma", struct luo_noise_yaml, comm_sigma, "0", LUO_WITHIN(0, 10)),
    LUO_DOC_END};

FIELDS expert_load_fields[] = {
    LUO_DOC_ENUM("kind", REQ, struct luo_expert_load_yaml, kind, expert_loads),
    LUO_DOC_FLOAT_OR("exponent", struct luo_expert_load_yaml, exponent, "1", LUO_WITHIN(0, 8)),
    LUO_DOC_TEXT("file", OPT, struct luo_expert_load_yaml, file),
    LUO_DOC_END};

FIELDS checkpoint_fields[] = {
    LUO_DOC_INT("every_steps", OPT, struct luo_checkpoint_yaml, every_steps, LUO_WITHIN(1, 1e12)),
    LUO_DOC_FLOAT("every_s", OPT, struct luo_checkpoint_yaml, every_s, SECONDS_ABOVE),
    LUO_DOC_BOOL("auto", OPT, struct luo_checkpoint_yaml, automatic),
    LUO_DOC_ENUM_OR("mode", struct luo_checkpoint_yaml, mode, "background", modes),
    LUO_DOC_ENUM_OR("target", struct luo_checkpoint_yaml, target, "storage", targets),
    LUO_DOC_END};

FIELDS costs_fields[] = {
    LUO_DOC_FLOAT_OR("detect_fail_s", struct luo_costs_yaml, detect_fail_s, "30", SECONDS),
    LUO_DOC_FLOAT_OR("process_start_s", struct luo_costs_yaml, process_start_s, "60", SECONDS),
    LUO_DOC_FLOAT_OR("communicator_s", struct luo_costs_yaml, communicator_s, "0.05", SECONDS),
    LUO_DOC_FLOAT_OR("operator_s", struct luo_costs_yaml, operator_s, "0", SECONDS),
    LUO_DOC_FLOAT_OR("replacement_s", struct luo_costs_yaml, replacement_s, "0", SECONDS),
    LUO_DOC_END};

FIELDS truth_fields[] = {LUO_DOC_BOOL_OR("write", struct luo_truth_yaml, write, "true"),
                         LUO_DOC_END};

FIELDS scenario_fields[] = {
    LUO_DOC_TEXT("schema", REQ, luo_scenario_yaml, schema),
    LUO_DOC_TEXT("name", REQ, luo_scenario_yaml, name),
    LUO_DOC_INT_OR("seed", luo_scenario_yaml, seed, "0", LUO_FROM(0)),
    LUO_DOC_TEXT("cluster", REQ, luo_scenario_yaml, cluster),
    LUO_DOC_TEXT("model", REQ, luo_scenario_yaml, model),
    LUO_DOC_TEXT("plan", OPT, luo_scenario_yaml, plan),
    LUO_DOC_MAPPING("planner", OPT, luo_scenario_yaml, planner, planner_fields, luo_check_planner),
    LUO_DOC_MAPPING("extent", REQ, luo_scenario_yaml, extent, extent_fields, luo_check_extent),
    LUO_DOC_MAPPING("data", OPT, luo_scenario_yaml, data, data_fields, luo_check_data),
    LUO_DOC_SEQ("policies", REQ, luo_scenario_yaml, policies, policies_count, policy_entry, 0),
    LUO_DOC_SEQ("events", OPT, luo_scenario_yaml, events, events_count, event_entry, 0),
    LUO_DOC_SEQ("processes", OPT, luo_scenario_yaml, processes, processes_count, process_entry, 0),
    LUO_DOC_SEQ("traces", OPT, luo_scenario_yaml, traces, traces_count, trace_entry, 0),
    LUO_DOC_MAPPING("noise", OPT, luo_scenario_yaml, noise, noise_fields, NULL),
    LUO_DOC_MAPPING("expert_load", OPT, luo_scenario_yaml, expert_load, expert_load_fields,
                    luo_check_expert_load),
    LUO_DOC_MAPPING("checkpoint", OPT, luo_scenario_yaml, checkpoint, checkpoint_fields,
                    luo_check_checkpoint),
    LUO_DOC_MAPPING("costs", OPT, luo_scenario_yaml, costs, costs_fields, NULL),
    LUO_DOC_MAPPING("truth", OPT, luo_scenario_yaml, truth, truth_fields, NULL),
    LUO_DOC_TEXT("stack", OPT, luo_scenario_yaml, stack),
    LUO_DOC_END};
static const luo_doc_schema schema = LUO_DOC_STRUCT_OF(luo_scenario_yaml, scenario_fields, NULL);

const luo_doc_kind luo_doc_scenario = {"scenario", &schema};
