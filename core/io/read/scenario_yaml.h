/* scenario_yaml.h: scenario.yaml as it is read, and its schema
 * (docs/formats.md#luoshuscenario1). A number that is not given is 0; the tree tells whether it was
 * given. */
#ifndef LUO_CORE_IO_READ_SCENARIO_YAML_H
#define LUO_CORE_IO_READ_SCENARIO_YAML_H
#include "core/io/document/doc_table.h"
#include "core/run/scenario.h"

typedef struct luo_lengths_yaml {
    int32_t kind;
    int64_t tokens, low_tokens, high_tokens, repeat;
    double median_tokens, sigma, weight;
    const char *file;
    struct luo_lengths_yaml *components;
    uint32_t components_count;
} luo_lengths_yaml;

typedef struct luo_life_yaml {
    luo_dist distribution;
    double mean_s, shape, median_s, sigma;
} luo_life_yaml;

/* An event, or a process: the keys of one are not those of the other (luo_event_keys). */
typedef struct luo_event_yaml {
    const char *id, *target, *cause, *file;
    luo_event_kind kind;
    int64_t at_step, between_steps[2], duration_steps;
    double at_s, between_s[2], per_step_probability;
    double slowdown, slowdown_between[2], ramp_s, duration_s, notice_s, down_s, up_s;
    double bandwidth_factor, extra_latency_us;
    bool hard;
    luo_lengths_yaml lengths;
    luo_dist distribution;
    double mean_s, shape, observed_devices, observed_s;
    luo_life_yaml life;
} luo_event_yaml;

typedef struct luo_planner_yaml {
    const char *name;
} luo_planner_yaml;

/* `rank`: an objective of the search (luo_malleus_rank), or by what plans are chosen. */
enum { LUO_RANK_WORDS = 16 }; /* `rank`: from here on + luo_judged, else luo_malleus_rank */

typedef struct luo_training_yaml {
    int32_t sync; /* luo_training_mode */
    int64_t staleness, servers, max_group, guard;
    int32_t *server_devices;
    uint32_t server_devices_count;
    double wait_s, wait_max_s, wait_min_s, request_s;
    bool adaptive;
} luo_training_yaml;

typedef struct luo_policy_yaml {
    const char *name, *label, *plan;
    luo_planner_yaml planner;
    double restart_s, threshold_slowdown, replan_gap, payback_steps, planner_s;
    int64_t window_steps, top_k, reentry_probes;
    const char *payback;
    int32_t planner_time, rank, grouping, plan_mode, dp, lost_batch; /* indices of their words */
    int32_t optimizer_step;
    bool always_switch, strict_uniform;
    int32_t assign, proposal, dispatch, score, stragglers; /* indices of their words */
    int64_t kicks, max_plans, ahead, workers;
    double switch_ms;
    int64_t *context_parallel;
    uint32_t context_parallel_count;
    luo_training_yaml training;
} luo_policy_yaml;

typedef struct luo_trace_yaml {
    const char *file;
    double start_s, time_scale;
} luo_trace_yaml;

typedef struct luo_job_yaml {
    const char *name, *model, *plan;
    double start_s, duration_s;
    int64_t steps;
} luo_job_yaml;

typedef struct luo_scenario_yaml {
    const char *schema, *name, *cluster, *model, *plan, *stack;
    int64_t seed;
    luo_planner_yaml planner;
    struct luo_extent_yaml {
        int64_t steps;
        double duration_s;
    } extent;
    struct luo_data_yaml {
        struct luo_batch_yaml {
            int64_t sequences, tokens;
        } batch;
        luo_lengths_yaml lengths;
        bool truncate_last;
    } data;
    luo_policy_yaml *policies;
    luo_event_yaml *events, *processes;
    luo_trace_yaml *traces;
    luo_job_yaml *jobs;
    int64_t joint_steps;
    uint32_t policies_count, events_count, processes_count, traces_count, jobs_count;
    struct luo_noise_yaml {
        double compute_sigma, comm_sigma;
    } noise;
    struct luo_expert_load_yaml {
        int32_t kind; /* 1: zipf, 2: trace */
        double exponent;
        const char *file;
    } expert_load;
    struct luo_checkpoint_yaml {
        int64_t every_steps;
        double every_s;
        bool automatic;
        int32_t mode, target; /* 1: blocking; 1: disk */
    } checkpoint;
    struct luo_costs_yaml {
        double detect_fail_s, process_start_s, communicator_s, operator_s, replacement_s;
    } costs;
    struct luo_truth_yaml {
        bool write;
    } truth;
} luo_scenario_yaml;


/* Contradictions within one map (scenario_check.c). */
luo_doc_check_fn luo_check_event, luo_check_process, luo_check_policy, luo_check_job,
    luo_check_extent, luo_check_batch, luo_check_data, luo_check_lengths, luo_check_component,
    luo_check_planner, luo_check_checkpoint, luo_check_life, luo_check_expert_load,
    luo_check_training, luo_check_scenario;

/* Appends canonical JSON of all values with defaults (scenario_hash.c); files enter by the hashes
 * in files[0..n), named
 * by their place in the scenario. own_events: events of the file, without those of traces. */
typedef struct luo_named_hash {
    const char *name; /* "cluster", "policies.0.plan" */
    uint64_t hash;
} luo_named_hash;
luo_status luo_scenario_canonical(luo_str *text, const luo_scenario *sc,
                                  const luo_named_hash *files, int32_t n, int32_t own_events,
                                  const luo_scenario_yaml *yaml);
#endif
