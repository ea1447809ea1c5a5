/* read.h: the public side of every reader.
 *
 * A reader takes a path (luo_read_X) or a text in memory with the name to show (luo_read_X_text).
 * It appends every independent error to diags, with file, line and column
 * (docs/results.md#exit-codes-and-messages), and sets *out only when it found none; it returns
 * LUO_OK or the status of the first error.
 * Owner: all that is read belongs to arena. Files are at most LUO_FILE_BYTES long.
 * Kinds and keys: docs/formats.md#rules-for-all-files. */
#ifndef LUO_CORE_IO_READ_READ_H
#define LUO_CORE_IO_READ_READ_H
#include "core/io/io.h"
#include "core/plan/hap/hap_cluster.h"
#include "core/plan/hydraulis/pool.h"
#include "core/plan/lengths/lengths.h"
#include "core/plan/hydraulis/pool_memory.h"
#include "core/plan/malleus/malleus_job.h"
#include "core/plan/plan.h"
#include "core/run/scenario.h"
#include "core/sync/straggler.h"

/* ---- plans (docs/formats.md#luoshuplan1) ---- */

typedef struct luo_doc luo_doc; /* a file as a tree with places (core/io/document/doc.h) */

/* doc (may be NULL): the file, for luo_doc_report_plan. The plan is whole in itself; whether it
 * is possible, luo_plan_check finds. Errors: LUO_EINPUT, LUO_EPARSE, LUO_E2BIG, LUO_ENOMEM. */
luo_status luo_read_plan(luo_arena *arena, const char *path, luo_plan **out, const luo_doc **doc,
                         luo_diags *diags);
/* Of a document that is not parsed yet. */
luo_status luo_read_plan_doc(luo_doc *doc, luo_plan **out);
luo_status luo_read_plan_text(luo_arena *arena, const luo_source *src, luo_plan **out,
                              luo_diags *diags);
/* Appends findings of luo_plan_check as errors at their lines. */
void luo_doc_report_plan(const luo_doc *doc, const luo_plan_finding *findings, int32_t n,
                         luo_diags *diags);
/* Appends err; what it calls a part of the plan (luo_err_part) becomes line and column. */
luo_status luo_doc_report_err(const luo_doc *doc, const luo_err *err, luo_diags *diags);

/* ---- clusters, profiles, stacks, models (docs/formats.md) ----
 * files (may be NULL): where the files named in src come from. */

/* The cluster is finished (luo_cluster_finish), its profiles are read. */
luo_status luo_read_cluster(luo_arena *arena, const char *path, luo_cluster **out,
                            luo_diags *diags);
luo_status luo_read_cluster_text(luo_arena *arena, const luo_source *src, const luo_files *files,
                                 luo_cluster **out, luo_diags *diags);
/* overrides: as of a scenario, on the keys of the cluster. */
luo_status luo_read_cluster_changed(luo_arena *arena, const luo_source *src,
                                    const luo_files *files, const luo_overrides *overrides,
                                    luo_cluster **out, luo_diags *diags);
/* The profile is finished. Of tables, rows with role `calibration` enter, and of collective_times
 * those of one node; the reason is that a measured table wins over a formula, and rows kept for
 * validation must not. */
luo_status luo_read_profile(luo_arena *arena, const char *path, luo_profile **out,
                            luo_diags *diags);
luo_status luo_read_profile_text(luo_arena *arena, const luo_source *src, const luo_files *files,
                                 luo_profile **out, luo_diags *diags);
luo_status luo_read_stack(luo_arena *arena, const char *path, luo_stack *out, luo_diags *diags);
luo_status luo_read_stack_text(luo_arena *arena, const luo_source *src, luo_stack *out,
                               luo_diags *diags);
/* A luoshu.model/1 file or a Hugging Face config.json (a file that begins with `{` and has
 * `model_type`; docs/formats.md#luoshumodel1). overrides, n: `--set KEY=VALUE` for either. */
luo_status luo_read_model(luo_arena *arena, const char *path, luo_model **out, luo_diags *diags);
luo_status luo_read_model_text(luo_arena *arena, const luo_source *src,
                               const luo_overrides *overrides, luo_model **out, luo_diags *diags);

/* ---- scenarios (docs/formats.md#luoshuscenario1) and their tables (8) ---- */

/* Files that were read, in order: for the run directory and its manifest. */
typedef struct luo_inputs {
    int32_t n, cap;
    const char **path;
    uint64_t *hash; /* of the bytes */
} luo_inputs;

/* Reads the scenario and all files it names; overrides are checked as if they stood in the file;
 * `cluster.PATH` and `model.PATH` stand in those files, and `stack.NAME` sets a value of the
 * software stack. inputs: may be NULL.
 * Plans are checked against model and cluster (luo_plan_check). */
luo_status luo_read_scenario(luo_arena *arena, const char *path, const luo_overrides *overrides,
                             luo_scenario **out, luo_inputs *inputs, luo_diags *diags);
luo_status luo_read_scenario_text(luo_arena *arena, const luo_source *src, const luo_files *files,
                                  const luo_overrides *overrides, luo_scenario **out,
                                  luo_inputs *inputs, luo_diags *diags);
/* The defaults of docs/formats.md#luoshuscenario1 and docs/policies.md for the policy of that name,
 * which must live as long; the label is the name, there is no plan. */
void luo_read_policy_defaults(luo_policy_spec *spec, const char *name);
/* Events of a table: times are start_s + t_s * time_scale, durations are scaled alike. Ids that are
 * not given are FILE:LINE. cluster NULL: targets are not checked. */
luo_status luo_read_event_trace(luo_arena *arena, const luo_source *src, const luo_cluster *cluster,
                                double start_s, double time_scale, luo_event **out, int32_t *n,
                                luo_diags *diags);
luo_status luo_read_causes(luo_arena *arena, const luo_source *src, luo_cause **out, int32_t *n,
                           luo_diags *diags);

/* ---- rates and params of planners (docs/formats.md#tables-1; docs/formats.md#luoshuparams1)
 * ---- */

typedef enum luo_rate_state {
    LUO_RATE_USED,
    LUO_RATE_STANDBY,
    LUO_RATE_FAILED,
    LUO_RATE_JOINING
} luo_rate_state;
typedef struct luo_rate_row {
    int32_t device;
    double rate, t_s; /* INFINITY just when failed; 0 where there is no column t_s */
    luo_rate_state state;
    int line;
} luo_rate_row;
/* Rows as they stand; of a device in order of time, one row without the column t_s. cluster NULL:
 * devices are not checked. Devices that are not listed have rate 1. */
luo_status luo_read_rates(luo_arena *arena, const char *path, const luo_cluster *cluster,
                          luo_rate_row **out, int32_t *n, luo_diags *diags);
luo_status luo_read_rates_text(luo_arena *arena, const luo_source *src, const luo_cluster *cluster,
                               luo_rate_row **out, int32_t *n, luo_diags *diags);
/* Lengths one by one (kind file, read over and over) or in classes (kind histogram), by the header.
 * Errors: LUO_EINPUT a bad row, or none; LUO_EIO. Owner: arena. */
luo_status luo_read_lengths(luo_arena *arena, const char *path, luo_lengths *out,
                            luo_diags *diags);
luo_status luo_read_lengths_text(luo_arena *arena, const luo_source *src, luo_lengths *out,
                                 luo_diags *diags);
/* Loads of experts, one for each step that has rows. model NULL: layers and experts are not
 * checked. Errors: LUO_EINPUT a bad row, or none; LUO_EIO. Owner: arena. */
luo_status luo_read_expert_load(luo_arena *arena, const char *path, const luo_model *model,
                                luo_expert_load **out, int32_t *n, luo_diags *diags);
luo_status luo_read_expert_load_text(luo_arena *arena, const luo_source *src,
                                     const luo_model *model, luo_expert_load **out, int32_t *n,
                                     luo_diags *diags);
/* Seconds of iterations of workers below `workers`. Errors: LUO_EINPUT a bad row; LUO_EIO;
 * LUO_ENOMEM. Owner: arena. */
luo_status luo_read_straggler(luo_arena *arena, const char *path, int32_t workers,
                              luo_straggler_row **out, int64_t *n, luo_diags *diags);
/* Costs of strategies; cap 0 where the file leaves it to the memory model. */
luo_status luo_read_pool(luo_arena *arena, const char *path, luo_pool *out, luo_diags *diags);
luo_status luo_read_pool_text(luo_arena *arena, const luo_source *src, luo_pool *out,
                              luo_diags *diags);
/* What planners are told beyond cluster and model; each takes its own part, and both have what they
 * share. YAML, which JSON is a part of. */
typedef struct luo_params {
    luo_malleus_params malleus;
    luo_pool_params pool; /* of planner hydraulis */
    luo_hap_params hap;   /* of planner hap; ntypes 0: not given */
} luo_params;
luo_status luo_read_params(luo_arena *arena, const char *path, luo_params *out, luo_diags *diags);
luo_status luo_read_params_text(luo_arena *arena, const luo_source *src, luo_params *out,
                                luo_diags *diags);
#endif
