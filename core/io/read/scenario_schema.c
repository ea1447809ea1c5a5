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
#include "core/io/read/fields/scenario_lengths.inc"
    LUO_DOC_FLOAT("weight", REQ, luo_lengths_yaml, weight, LUO_ABOVE_TO(0, 1e12),
                  "a sequence is of this component in proportion to it"),
    LUO_DOC_END};
static const luo_doc_schema component_entry =
    LUO_DOC_STRUCT_OF(luo_lengths_yaml, component_fields, luo_check_component);

FIELDS lengths_fields[] = {
#include "core/io/read/fields/scenario_lengths.inc"
    LUO_DOC_SEQ("components", OPT, luo_lengths_yaml, components, components_count, component_entry,
                0, "required with `mixture` | what is mixed, each with its share"),
    LUO_DOC_END};

FIELDS life_fields[] = {
    LUO_DOC_ENUM("distribution", REQ, luo_life_yaml, distribution, lives, "of the duration"),
    LUO_DOC_FLOAT("mean_s", OPT, luo_life_yaml, mean_s, SECONDS_ABOVE,
                  "required but for `lognormal` | mean"),
    LUO_DOC_FLOAT("shape", OPT, luo_life_yaml, shape, LUO_ABOVE_TO(0, 1000),
                  "required with `weibull` | shape"),
    LUO_DOC_FLOAT("median_s", OPT, luo_life_yaml, median_s, SECONDS_ABOVE,
                  "required with `lognormal` | median"),
    LUO_DOC_FLOAT("sigma", OPT, luo_life_yaml, sigma, LUO_WITHIN(0, 100),
                  "required with `lognormal` | standard deviation of its logarithm"),
    LUO_DOC_END};

FIELDS event_fields[] = {
    LUO_DOC_TEXT("id", REQ, luo_event_yaml, id,
                 "name in results, without `#`; no two events share one"),
    LUO_DOC_ENUM("kind", REQ, luo_event_yaml, kind, event_kinds, "what happens"),
    LUO_DOC_TEXT("target", OPT, luo_event_yaml, target, "required but for `lengths` | a target"),
    LUO_DOC_FLOAT("at_s", OPT, luo_event_yaml, at_s, DATE, "one trigger | at this run time"),
    LUO_DOC_INT("at_step", OPT, luo_event_yaml, at_step, STEPS,
                "one trigger | at the start of the first attempt of this step"),
    LUO_DOC_PAIR("between_s", OPT, luo_event_yaml, between_s, date_entry,
                 "one trigger | at a time drawn between the two"),
    LUO_DOC_PAIR("between_steps", OPT, luo_event_yaml, between_steps, steps_entry,
                 "one trigger | at a step drawn between the two"),
    LUO_DOC_FLOAT("per_step_probability", OPT, luo_event_yaml, per_step_probability,
                  LUO_ABOVE_TO(0, 1),
                  "one trigger | drawn at every first attempt of a step; one life at a time"),
#include "core/io/read/fields/scenario_effect.inc"
    LUO_DOC_INT("duration_steps", OPT, luo_event_yaml, duration_steps, LUO_WITHIN(1, 1e12),
                "for ever | how long it lasts, in steps; all but `join`"),
    LUO_DOC_FLOAT_OR(
        "ramp_s", luo_event_yaml, ramp_s, "0", SECONDS,
        "the slowness grows to its value in ten equal steps over this time; `straggler`"),
    LUO_DOC_FLOAT_OR("notice_s", luo_event_yaml, notice_s, "0", SECONDS,
                     "announced so long before; `leave`"),
    LUO_DOC_FLOAT("down_s", OPT, luo_event_yaml, down_s, SECONDS_ABOVE,
                  "required with `flap` | down for so long, first; `flap`"),
    LUO_DOC_FLOAT("up_s", OPT, luo_event_yaml, up_s, SECONDS_ABOVE,
                  "required with `flap` | then up for so long; `flap`"),
    LUO_DOC_TEXT("cause", OPT, luo_event_yaml, cause, "none | a word for reports"),
    LUO_DOC_BOOL_OR("hard", luo_event_yaml, hard, "false",
                    "in a real run the process kills itself instead of withdrawing; `fail`"),
    LUO_DOC_MAPPING("lengths", OPT, luo_event_yaml, lengths, lengths_fields, luo_check_lengths,
                    "required with `lengths` | the lengths from then on; `lengths`"),
    LUO_DOC_END};
static const luo_doc_schema event_entry =
    LUO_DOC_STRUCT_OF(luo_event_yaml, event_fields, luo_check_event);

FIELDS process_fields[] = {
    LUO_DOC_TEXT("id", REQ, luo_event_yaml, id, "name in results, without `#`"),
    LUO_DOC_ENUM("kind", REQ, luo_event_yaml, kind, process_kinds,
                 "what happens. `causes`: a table of causes with counts; the others as events"),
    LUO_DOC_TEXT("target", REQ, luo_event_yaml, target,
                 "devices, nodes, groups or racks; each device has a clock"),
    LUO_DOC_ENUM("distribution", OPT, luo_event_yaml, distribution, arrivals,
                 "required but for `causes` | of the time between two arrivals"),
    LUO_DOC_FLOAT("mean_s", OPT, luo_event_yaml, mean_s, SECONDS_ABOVE,
                  "required but for `causes` | its mean, for one device"),
    LUO_DOC_FLOAT("shape", OPT, luo_event_yaml, shape, LUO_ABOVE_TO(0, 1000),
                  "required with `weibull` | shape of a Weibull distribution"),
    LUO_DOC_MAPPING("life", OPT, luo_event_yaml, life, life_fields, luo_check_life,
                    "for ever | how long each lasts, drawn; or `duration_s`"),
#include "core/io/read/fields/scenario_effect.inc"
    LUO_DOC_TEXT("file", OPT, luo_event_yaml, file, "required with `causes` | a table of causes"),
    LUO_DOC_FLOAT("observed_devices", OPT, luo_event_yaml, observed_devices, LUO_ABOVE_TO(0, 1e12),
                  "required with `causes` | devices that the counts were made on"),
    LUO_DOC_FLOAT("observed_s", OPT, luo_event_yaml, observed_s, LUO_ABOVE_TO(0, 1e15),
                  "required with `causes` | time over which they were made; rate of a row for one "
                  "device = count / (observed_devices * observed_s)"),
    LUO_DOC_END};
static const luo_doc_schema process_entry =
    LUO_DOC_STRUCT_OF(luo_event_yaml, process_fields, luo_check_process);

#define LUO_PLANNER(name, says, options) " `" #name "`"
static const char planner_names[] = "one of"
#include "core/run/first/planners.inc"
    ;
#undef LUO_PLANNER
FIELDS planner_fields[] = {
    LUO_DOC_TEXT("name", REQ, luo_planner_yaml, name, planner_names), LUO_DOC_END};

static const luo_doc_schema server_entry =
    LUO_DOC_SCALAR_OF(LUO_DOC_WHOLE, int32_t, LUO_WITHIN(0, LUO_DEVICES_MAX - 1));
FIELDS training_fields[] = {
    LUO_DOC_ENUM("sync", REQ, luo_training_yaml, sync, trainings, "who waits for whom"),
    LUO_DOC_INT_OR("staleness", luo_training_yaml, staleness, "3", LUO_WITHIN(1, 1e6),
                   "`ssp`: how far a worker may be ahead of the slowest"),
    LUO_DOC_INT_OR(
        "servers", luo_training_yaml, servers, "1", LUO_WITHIN(1, 1e6),
        "`bsp`, `ssp`, `asp`: parameter servers, hosts beside the cluster that no event hits"),
    LUO_DOC_SEQ("server_devices", OPT, luo_training_yaml, server_devices, server_devices_count,
                server_entry, 1,
                "none | devices of the cluster that are parameter servers instead, which are lost "
                "with them"),
    LUO_DOC_INT_OR("max_group", luo_training_yaml, max_group, "0", LUO_WITHIN(0, 1e6),
                   "`preduce`: most of a group; 0: all"),
    LUO_DOC_INT_OR(
        "guard", luo_training_yaml, guard, "0", LUO_WITHIN(0, 1e6),
        "`preduce`: a group that connects all workers after so many iterations of each; 0: none"),
    LUO_DOC_FLOAT_OR("wait_s", luo_training_yaml, wait_s, "0.001", SECONDS,
                     "`preduce`: how long the first of a group waits for others"),
    LUO_DOC_FLOAT_OR(
        "request_s", luo_training_yaml, request_s, "0", SECONDS,
        "`preduce`: how long a request takes to the controller, and its answer back again"),
    LUO_DOC_BOOL_OR("adaptive", luo_training_yaml, adaptive, "false",
                    "`preduce`: waits grow after groups of one and shrink after others"),
    LUO_DOC_FLOAT_OR("wait_max_s", luo_training_yaml, wait_max_s, "0.01", SECONDS,
                     "of `adaptive`: the longest wait"),
    LUO_DOC_FLOAT_OR(
        "wait_min_s", luo_training_yaml, wait_min_s, "1e-05", SECONDS,
        "of `adaptive`: the shortest wait, `wait_max_s` at most, which the default gives way to"),
    LUO_DOC_END};

FIELDS policy_fields[] = {
    LUO_DOC_TEXT("name", REQ, luo_policy_yaml, name, "a policy of policies.md"),
    LUO_DOC_TEXT("label", OPT, luo_policy_yaml, label,
                 "the name | name of the run; needed where a policy stands twice"),
    LUO_DOC_TEXT(
        "plan", OPT, luo_policy_yaml, plan,
        "that of the scenario | first plan of this policy; policies for uneven lengths have none"),
    LUO_DOC_MAPPING("planner", OPT, luo_policy_yaml, planner, planner_fields, luo_check_planner,
                    "that of the scenario | who makes it"),
    LUO_DOC_FLOAT("restart_s", OPT, luo_policy_yaml, restart_s, SECONDS,
                  "from `costs` | what a restart takes"),
    LUO_DOC_FLOAT("threshold_slowdown", OPT, luo_policy_yaml, threshold_slowdown, SLOWDOWN,
                  "1.2 | from here on a device is slow"),
    LUO_DOC_FLOAT("replan_gap", OPT, luo_policy_yaml, replan_gap, LUO_WITHIN(0, 1e6),
                  "0.3 | a change of speed below this is no news"),
    LUO_DOC_INT("window_steps", OPT, luo_policy_yaml, window_steps, LUO_WITHIN(1, 64),
                "5 | samples of which the detector takes the median"),
    LUO_DOC_INT("top_k", OPT, luo_policy_yaml, top_k, LUO_WITHIN(1, 1e6),
                "32; 256 with `event` | candidates of the search"),
    LUO_DOC_ENUM("rank", OPT, luo_policy_yaml, rank, ranks,
                 "`simulated` up to 256 devices, else `objective` | what plans are ranked by"),
    LUO_DOC_ENUM("grouping", OPT, luo_policy_yaml, grouping, groupings,
                 "`halving` | how a node with slow devices is cut into groups"),
    LUO_DOC_ENUM("plan_mode", OPT, luo_policy_yaml, plan_mode, plan_modes,
                 "`auto` | who waits for the planner"),
    LUO_DOC_ENUM("planner_time", OPT, luo_policy_yaml, planner_time, planner_times,
                 "`fixed` | `measured` charges the real time of planning, and such a run cannot be "
                 "repeated"),
    LUO_DOC_FLOAT("planner_s", OPT, luo_policy_yaml, planner_s, SECONDS,
                  "10; uneven lengths: 0.1 | what planning is charged, with `fixed`"),
    LUO_DOC_FLOAT("payback_steps", OPT, luo_policy_yaml, payback_steps, STEPS,
                  "50 | a change has to pay within so many steps"),
    LUO_DOC_TEXT(
        "payback", OPT, luo_policy_yaml, payback,
        "`expected` | `expected`: until the next event is expected; `steps N`: within N steps"),
    LUO_DOC_ENUM("lost_batch", OPT, luo_policy_yaml, lost_batch, lost_batches,
                 "`deal` | what becomes of the batch of a replica that left"),
    LUO_DOC_ENUM("optimizer_step", OPT, luo_policy_yaml, optimizer_step, optimizer_steps,
                 "as the first plan says | of all plans of the policy, as in a plan"),
    LUO_DOC_BOOL("always_switch", OPT, luo_policy_yaml, always_switch,
                 "`false` | do not ask whether a switch pays"),
    LUO_DOC_BOOL("strict_uniform", OPT, luo_policy_yaml, strict_uniform,
                 "`false` | the stages have to divide the layers"),
    LUO_DOC_INT("reentry_probes", OPT, luo_policy_yaml, reentry_probes, LUO_WITHIN(0, 1e6),
                "5 | good probes in a row before a device that was slow counts as healthy"),
    LUO_DOC_ENUM("dp", OPT, luo_policy_yaml, dp, dps,
                 "`fixed` | `auto`: other numbers of pipelines are searched as well"),
    LUO_DOC_ENUM("assign", OPT, luo_policy_yaml, assign, assigns,
                 "`balanced` | which of equal replicas takes a sequence"),
    LUO_DOC_ENUM("proposal", OPT, luo_policy_yaml, proposal, proposals,
                 "`both` | whose proposals are candidates"),
    LUO_DOC_ENUM("dispatch", OPT, luo_policy_yaml, dispatch, dispatches,
                 "`full` | `public`: as published, without the cost of a micro-batch"),
    LUO_DOC_ENUM("score", OPT, luo_policy_yaml, score, scores,
                 "`sum` | by what packings of a replica are compared; `max` as published"),
    LUO_DOC_INT("kicks", OPT, luo_policy_yaml, kicks, LUO_WITHIN(0, 10000),
                "32; 8 above 256 sequences | random kicks of dispatch"),
    LUO_DOC_INT("max_plans", OPT, luo_policy_yaml, max_plans, LUO_WITHIN(1, 1000),
                "16 | candidates that are solved fully in a step"),
    LUO_DOC_ENUM("stragglers", OPT, luo_policy_yaml, stragglers, stragglers,
                 "`dispatch` | what the planner knows of slow devices"),
    LUO_DOC_FLOAT("switch_ms", OPT, luo_policy_yaml, switch_ms, LUO_WITHIN(0, 1e9),
                  "100 | of a change of strategy, in the choice of buckets"),
    LUO_DOC_INT("ahead", OPT, luo_policy_yaml, ahead, LUO_WITHIN(0, 10000),
                "10 | steps ahead of which plans are made"),
    LUO_DOC_INT("workers", OPT, luo_policy_yaml, workers, LUO_WITHIN(1, 1024),
                "1 | CPUs that plan, each a step at a time"),
    LUO_DOC_SEQ("context_parallel", OPT, luo_policy_yaml, context_parallel, context_parallel_count,
                context_entry, 1,
                "none | context-parallel sizes that strategies may have, 8 at most"),
    LUO_DOC_MAPPING("training", OPT, luo_policy_yaml, training, training_fields, luo_check_training,
                    "none | how replicas train beside each other, if not as the plan's programs "
                    "have it; policy `static` alone"),
    LUO_DOC_END};
static const luo_doc_schema policy_entry =
    LUO_DOC_STRUCT_OF(luo_policy_yaml, policy_fields, luo_check_policy);

FIELDS trace_fields[] = {LUO_DOC_TEXT("file", REQ, luo_trace_yaml, file, "an event trace"),
                         LUO_DOC_FLOAT_OR("start_s", luo_trace_yaml, start_s, "0", DATE,
                                          "added to every time, after `time_scale`"),
                         LUO_DOC_FLOAT_OR("time_scale", luo_trace_yaml, time_scale, "1",
                                          LUO_ABOVE_TO(0, 1e9), "every time is multiplied by it"),
                         LUO_DOC_END};
static const luo_doc_schema trace_entry = LUO_DOC_STRUCT_OF(luo_trace_yaml, trace_fields, NULL);

FIELDS job_fields[] = {
    LUO_DOC_TEXT("name", REQ, luo_job_yaml, name,
                 "name of its run; that of the job without the others is `NAME-alone`"),
    LUO_DOC_TEXT("model", REQ, luo_job_yaml, model, "path of its model, as `model`"),
    LUO_DOC_TEXT("plan", REQ, luo_job_yaml, plan,
                 "path of its plan; no device is in the plans of two jobs"),
    LUO_DOC_FLOAT_OR("start_s", luo_job_yaml, start_s, "0", DATE, "when its first step begins"),
    LUO_DOC_INT("steps", OPT, luo_job_yaml, steps, LUO_WITHIN(1, 1e12),
                "those of `extent` | number of its steps"),
    LUO_DOC_FLOAT("duration_s", OPT, luo_job_yaml, duration_s, LUO_OF(LUO_Q_RUN_TIME, 1),
                  "that of `extent` | instead of `steps`: a step begins until so long after "
                  "`start_s`"),
    LUO_DOC_END};
static const luo_doc_schema job_entry =
    LUO_DOC_STRUCT_OF(luo_job_yaml, job_fields, luo_check_job);

FIELDS extent_fields[] = {LUO_DOC_INT("steps", OPT, struct luo_extent_yaml, steps,
                                      LUO_WITHIN(1, 1e12), "one of both | number of steps"),
                          LUO_DOC_FLOAT("duration_s", OPT, struct luo_extent_yaml, duration_s,
                                        LUO_OF(LUO_Q_RUN_TIME, 1), "one of both | run time"),
                          LUO_DOC_END};

FIELDS batch_fields[] = {LUO_DOC_INT("sequences", OPT, struct luo_batch_yaml, sequences,
                                     LUO_WITHIN(1, 1e12), "one of both | sequences a step"),
                         LUO_DOC_INT("tokens", OPT, struct luo_batch_yaml, tokens, TOKENS,
                                     "one of both | tokens a step, at least the longest sequence; "
                                     "policies for uneven lengths alone"),
                         LUO_DOC_END};

FIELDS data_fields[] = {LUO_DOC_MAPPING("batch", OPT, struct luo_data_yaml, batch, batch_fields,
                                        luo_check_batch, "that of the plan | size of a step"),
                        LUO_DOC_MAPPING("lengths", OPT, struct luo_data_yaml, lengths,
                                        lengths_fields, luo_check_lengths,
                                        "those of the plan | lengths of the sequences"),
                        LUO_DOC_BOOL("truncate_last", OPT, struct luo_data_yaml, truncate_last,
                                     "`true` | of batches by `tokens`: the last sequence is cut to "
                                     "fit; `false`: it waits for the next batch"),
                        LUO_DOC_END};

FIELDS noise_fields[] = {
    LUO_DOC_FLOAT_OR("compute_sigma", struct luo_noise_yaml, compute_sigma, "0", LUO_WITHIN(0, 10),
                     "each instruction takes exp(sigma z - sigma^2/2) times as long, z normal"),
    LUO_DOC_FLOAT_OR("comm_sigma", struct luo_noise_yaml, comm_sigma, "0", LUO_WITHIN(0, 10),
                     "the same for communication"),
    LUO_DOC_END};

FIELDS expert_load_fields[] = {
    LUO_DOC_ENUM("kind", REQ, struct luo_expert_load_yaml, kind, expert_loads,
                 "how popular experts are"),
    LUO_DOC_FLOAT_OR("exponent", struct luo_expert_load_yaml, exponent, "1", LUO_WITHIN(0, 8),
                     "of `zipf`"),
    LUO_DOC_TEXT("file", OPT, struct luo_expert_load_yaml, file, "with `trace` | path of a table"),
    LUO_DOC_END};

FIELDS checkpoint_fields[] = {
    LUO_DOC_INT("every_steps", OPT, struct luo_checkpoint_yaml, every_steps, LUO_WITHIN(1, 1e12),
                "one of the three | every so many steps"),
    LUO_DOC_FLOAT("every_s", OPT, struct luo_checkpoint_yaml, every_s, SECONDS_ABOVE,
                  "one of the three | every so many seconds"),
    LUO_DOC_BOOL("auto", OPT, struct luo_checkpoint_yaml, automatic,
                 "one of the three | `true`: every sqrt(2 * time to write * mean time between "
                 "failures of the devices in use)"),
    LUO_DOC_ENUM_OR("mode", struct luo_checkpoint_yaml, mode, "background", modes,
                    "`blocking`: steps wait for the write"),
    LUO_DOC_ENUM_OR("target", struct luo_checkpoint_yaml, target, "storage", targets,
                    "where it is written: policies.md"),
    LUO_DOC_END};

FIELDS costs_fields[] = {
    LUO_DOC_FLOAT_OR("detect_fail_s", struct luo_costs_yaml, detect_fail_s, "30", SECONDS,
                     "from a failure to its notice"),
    LUO_DOC_FLOAT_OR("process_start_s", struct luo_costs_yaml, process_start_s, "60", SECONDS,
                     "starting the processes of a restart"),
    LUO_DOC_FLOAT_OR("communicator_s", struct luo_costs_yaml, communicator_s, "0.05", SECONDS,
                     "making one communicator, counted on the busiest device"),
    LUO_DOC_FLOAT_OR("operator_s", struct luo_costs_yaml, operator_s, "0", SECONDS,
                     "making one operator of a new plan, counted on the busiest device"),
    LUO_DOC_FLOAT_OR("replacement_s", struct luo_costs_yaml, replacement_s, "0", SECONDS,
                     "waited out whenever devices come into a plan"),
    LUO_DOC_END};

FIELDS truth_fields[] = {
    LUO_DOC_BOOL_OR("write", struct luo_truth_yaml, write, "true", "`false`: no `truth.csv`"),
    LUO_DOC_END};

FIELDS scenario_fields[] = {
    LUO_DOC_TEXT("schema", REQ, luo_scenario_yaml, schema, "`luoshu.scenario/1`"),
    LUO_DOC_TEXT("name", REQ, luo_scenario_yaml, name,
                 "name of the result set, unless `--out` gives one"),
    LUO_DOC_INT_OR("seed", luo_scenario_yaml, seed, "0", LUO_FROM(0), "seed of all random draws"),
    LUO_DOC_TEXT("cluster", REQ, luo_scenario_yaml, cluster, "path of a cluster file"),
    LUO_DOC_TEXT("model", LUO_DOC_UNLESS("jobs"), luo_scenario_yaml, model,
                 "required unless `jobs` | path of a model file or of a Hugging Face "
                 "`config.json`"),
    LUO_DOC_TEXT("plan", OPT, luo_scenario_yaml, plan,
                 "none | path of the first plan; empty: `planner` makes it"),
    LUO_DOC_MAPPING("planner", OPT, luo_scenario_yaml, planner, planner_fields, luo_check_planner,
                    "`uniform` | who makes the first plan where none is given"),
    LUO_DOC_MAPPING("extent", REQ, luo_scenario_yaml, extent, extent_fields, luo_check_extent,
                    "how long the run is"),
    LUO_DOC_MAPPING(
        "data", OPT, luo_scenario_yaml, data, data_fields, luo_check_data,
        "those of the plan | what a step trains on; a planner needs `batch` and `lengths`"),
    LUO_DOC_SEQ("policies", LUO_DOC_UNLESS("jobs"), luo_scenario_yaml, policies,
                policies_count, policy_entry, 0,
                "required unless `jobs` | what is compared; every policy meets the same events"),
    LUO_DOC_SEQ("jobs", OPT, luo_scenario_yaml, jobs, jobs_count, job_entry, 0,
                "none | training jobs that share the cluster's links, each beside the others and "
                "alone; instead of a model and policies"),
    LUO_DOC_INT_OR("joint_steps", luo_scenario_yaml, joint_steps, "64", LUO_WITHIN(0, 1e6),
                   "of `jobs`: steps of each that are simulated while the same jobs run, before "
                   "later ones are taken for the same; 0: all"),
    LUO_DOC_SEQ("events", OPT, luo_scenario_yaml, events, events_count, event_entry, 0,
                "none | what happens"),
    LUO_DOC_SEQ("processes", OPT, luo_scenario_yaml, processes, processes_count, process_entry, 0,
                "none | what happens at random; each device has a clock of its own, which runs "
                "while it is up"),
    LUO_DOC_SEQ("traces", OPT, luo_scenario_yaml, traces, traces_count, trace_entry, 0,
                "none | tables of events"),
    LUO_DOC_MAPPING("noise", OPT, luo_scenario_yaml, noise, noise_fields, NULL,
                    "none | random variation of the simulated instructions"),
    LUO_DOC_MAPPING("expert_load", OPT, luo_scenario_yaml, expert_load, expert_load_fields,
                    luo_check_expert_load, "equal | rows that experts get in simulations"),
    LUO_DOC_MAPPING("checkpoint", OPT, luo_scenario_yaml, checkpoint, checkpoint_fields,
                    luo_check_checkpoint, "none | when state is written"),
    LUO_DOC_MAPPING("costs", OPT, luo_scenario_yaml, costs, costs_fields, NULL,
                    "see below | what luoshu does not simulate in detail"),
    LUO_DOC_MAPPING("truth", OPT, luo_scenario_yaml, truth, truth_fields, NULL,
                    "written | the table of what was injected"),
    LUO_DOC_TEXT("stack", OPT, luo_scenario_yaml, stack,
                 "`luoshu-cuda` | path of a stack file, or the name of a built-in one"),
    LUO_DOC_END};
static const luo_doc_schema schema = 
    LUO_DOC_STRUCT_OF(luo_scenario_yaml, scenario_fields, luo_check_scenario);

const luo_doc_kind luo_doc_scenario = {"scenario", &schema};
