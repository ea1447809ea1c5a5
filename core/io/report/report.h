/* report.h: report.html, one page that opens from disk without a network
 * (docs/results.md#the-report): of runs the answer, a table that sorts, what happened over time, a
 * timeline of traced steps, figures, assumptions, and what made it; of a sweep its answer, cells
 * and figures; of a replay who is slow. */
#ifndef LUO_CORE_IO_REPORT_REPORT_H
#define LUO_CORE_IO_REPORT_REPORT_H
#include "core/base/err.h"
#include "core/base/str.h"

enum {
    LUO_REPORT_SLICES = 100000,     /* of the timelines of all runs together */
    LUO_REPORT_BYTES = 5000000,     /* of the page; figures that find no room are named instead */
    LUO_REPORT_POINTS = 1000,       /* of throughput over time, a run */
    LUO_REPORT_ROWS = 2000          /* of a table of a replay; the file has the others */
};

typedef struct luo_report_opts {
    const char *const *paths; /* run directories and result sets, as luo_compare takes them, or
                               * the folder of a sweep or of a replay alone */
    int32_t npaths;
    const char *out;            /* folder of the page; figures in its plots/ are shown */
    const char *style, *script; /* CSS and JavaScript of the page */
    const char *command;        /* how luoshu was called */
} luo_report_opts;

/* Writes OUT/report.html: figures that lie in OUT/plots and in the plots of the runs as SVG, and
 * data as compressed base64. Without JavaScript tables and figures can still be read. Texts of
 * files are data: they make no element and run nothing.
 * Numbers of sweeps and replays are those that their files have.
 * Errors: those of luo_report_check and of reading tables; LUO_EIO; LUO_ENOMEM; all in diags.
 * Cost: one pass over steps.csv, events.csv, link_windows.csv and, up to LUO_REPORT_SLICES rows,
 * ops.csv. */
luo_status luo_report(luo_arena *arena, const luo_report_opts *opts, luo_diags *diags);
/* Can there be a page of these paths? Errors, in diags: those of luo_result_read_all; LUO_EINPUT a
 * folder with results that have none, a sweep or a replay without an answer; LUO_EUSAGE a sweep or
 * a replay beside others. */
luo_status luo_report_check(luo_arena *arena, const char *const *paths, int32_t npaths,
                            luo_diags *diags);
/* Is there a figure in DIR/plots? */
bool luo_report_has_figures(const char *dir);
#endif
