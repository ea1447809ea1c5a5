/* result.h: a run directory read back, for compare, plots and report.
 *
 * Only the files of docs/results.md are used. A number that the file gives as null is NAN. */
#ifndef LUO_CORE_IO_RESULT_RESULT_H
#define LUO_CORE_IO_RESULT_RESULT_H
#include "core/base/stats.h"
#include "core/io/jsonw.h"
#include "core/io/result/columns.h"
#include "core/io/result/csv.h"
#include "core/run/rows.h"

/* Parts of the run time, as columns of timelost.csv and keys of `time` in summary.json:
 * LUO_TIME(switch_s) is the index of one. */
#define LUO_TIME(name) (LUO_COL_PLOT_TIMELOST_##name - LUO_COL_PLOT_TIMELOST_compute_s)
enum { LUO_TIMES = LUO_COLUMNS_PLOT_TIMELOST - LUO_COL_PLOT_TIMELOST_compute_s };
/* Pre: 0 <= i < LUO_TIMES. */
const char *luo_result_time_name(int i);

typedef struct luo_result {
    const char *dir, *name; /* as given; its last part */
    const char *scenario, *policy, *backend;
    const char *job; /* of several on a cluster that it ran; NULL: there were none */
    bool alone;      /* without the others */
    luo_run_state state;
    const char *seed; /* decimal */
    const char *scenario_hash;
    int32_t nplans;
    const char *const *plans, *const *programs; /* hashes, in order of use */
    const char *error;                          /* why it was lost or failed; "" not told */
    bool measured; /* false: it failed before it had a figure; they are -1 and NAN */
    int64_t steps_done, steps_redone, tokens, kept_tokens, switches, restarts, peak_memory_device;
    double extent_s; /* NAN: see luo_run_summary */
    double total_s, step_mean_s, step_p50_s, step_p99_s, tokens_per_s, goodput_tokens_per_s;
    const luo_time_range *range; /* of a step; NULL: the run has none */
    double mfu_ratio, peak_memory_ratio;
    double time[LUO_TIMES];
} luo_result;

/* The map `range` of a predicted time, as summary.json and `--json` have it: ends of the central
 * 80 %, and constants with spread and sensitivity. NULL: nothing. */
void luo_result_range_json(luo_jsonw *json, const luo_time_range *range, double seconds);

/* Reads manifest.json and summary.json of a run directory. One that failed or was stopped before it
 * had a summary is a result without figures. Errors, with the file: LUO_EINPUT no
 * run directory, not finished, or a key missing; LUO_EPARSE; LUO_ENOMEM. Owner: arena. */
luo_status luo_result_read(luo_arena *arena, const char *dir, luo_result *out, luo_diags *diags);
/* Run directories among paths: a run directory is itself, a result set its runs in the order of its
 * compare.csv, else by name; a set of seeds the runs of each seed's. Errors: LUO_EINPUT a folder
 * that is none of these, or two runs of one folder; LUO_ENOMEM. */
luo_status luo_result_expand(luo_arena *arena, const char *const *paths, int32_t n,
                             const char *const **out, int32_t *nout, luo_diags *diags);
/* The same, read; runs of one name get those of the folders in which they differ. Errors: of both.
 */
luo_status luo_result_read_all(luo_arena *arena, const char *const *paths, int32_t n,
                               luo_result **out, int32_t *nout, luo_diags *diags);
/* text, or the form of it that does a terminal no harm: what others wrote is printed and drawn. */
const char *luo_result_shown(luo_arena *arena, const char *text);
/* Opens DIR/FILE of a table for luo_csv_next: cell i is column i of its definition. */
luo_csv *luo_result_table(luo_arena *arena, const char *dir, luo_table_id id, luo_diags *diags);
/* The same of DIR/`file`, a table of that definition under another name. */
luo_csv *luo_result_file(luo_arena *arena, const char *dir, const char *file, luo_table_id id,
                         luo_diags *diags);
/* True if DIR/NAME is a file that can be read. */
bool luo_result_has(const char *dir, const char *name);
#endif
