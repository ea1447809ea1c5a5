/* report.h: report.html, one page of runs that opens from disk without a network: the answer, a
 * table that sorts, what happened over time, a timeline of traced steps, figures, assumptions, and
 * what made it (docs/results.md#the-report). */
#ifndef LUO_CORE_IO_REPORT_REPORT_H
#define LUO_CORE_IO_REPORT_REPORT_H
#include "core/base/err.h"
#include "core/base/str.h"

enum {
    LUO_REPORT_SLICES = 100000,     /* of the timelines of all runs together */
    LUO_REPORT_BYTES = 5000000,     /* of the page; figures that find no room are named instead */
    LUO_REPORT_POINTS = 1000        /* of throughput over time, a run */
};

typedef struct luo_report_opts {
    const char *const *paths; /* run directories and result sets, as luo_compare takes them */
    int32_t npaths;
    const char *out;            /* folder of the page; figures in its plots/ are shown */
    const char *style, *script; /* CSS and JavaScript of the page */
    const char *command;        /* how luoshu was called */
} luo_report_opts;

/* Writes OUT/report.html: figures that lie in OUT/plots and in the plots of the runs as SVG, and
 * data as compressed base64. Without JavaScript tables and figures can still be read. Texts of
 * files are data: they make no element and run nothing.
 * Errors: those of luo_result_read_all and of reading tables; LUO_EIO; LUO_ENOMEM; all in diags.
 * Cost: one pass over steps.csv, events.csv, link_windows.csv and, up to LUO_REPORT_SLICES rows,
 * ops.csv. */
luo_status luo_report(luo_arena *arena, const luo_report_opts *opts, luo_diags *diags);
#endif
