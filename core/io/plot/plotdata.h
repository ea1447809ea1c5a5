/* plotdata.h: the small tables beside the figures, DIR/plots/X.csv, made from the tables of
 * the runs; not for others than plots.c. gnuplot neither sorts nor joins nor takes medians. */
#ifndef LUO_CORE_IO_PLOT_PLOTDATA_H
#define LUO_CORE_IO_PLOT_PLOTDATA_H
#include "core/io/plot/plots.h"
#include "core/io/result/result.h"

/* Each writes its table into `out` and tells how many rows it has; with 0 rows there is nothing to
 * draw. Errors are in diags. */
luo_status luo_plotdata_throughput(luo_arena *arena, const luo_result *runs, int32_t n,
                                   const char *out, int64_t *rows, luo_diags *diags);
luo_status luo_plotdata_stepcdf(luo_arena *arena, const luo_result *runs, int32_t n,
                                const char *out, int64_t *rows, luo_diags *diags);
luo_status luo_plotdata_timelost(luo_arena *arena, const luo_result *runs, int32_t n,
                                 const char *out, int64_t *rows, luo_diags *diags);
luo_status luo_plotdata_lost(luo_arena *arena, const luo_result *runs, int32_t n, const char *out,
                             int64_t *rows, luo_diags *diags);
/* Events that all runs met at one time, then those of single runs. Cost: O(n^2 e) for e events. */
luo_status luo_plotdata_marks(luo_arena *arena, const luo_result *runs, int32_t n, const char *out,
                              int64_t *rows, luo_diags *diags);
/* One bar per run; with one run, one per plan. */
luo_status luo_plotdata_breakdown(luo_arena *arena, const luo_result *runs, int32_t n,
                                  const char *out, int64_t *rows, luo_diags *diags);
/* The first traced step of a run, or of those that are wanted; if none of them is traced there are
 * no rows, and a warning says which steps are. step, plan: numbers; -1: any. */
luo_status luo_plotdata_gantt(luo_arena *arena, const luo_result *run, int64_t step, int64_t plan,
                              const char *out, int64_t *rows, luo_diags *diags);
/* The first step of a recorded.csv (docs/formats.md#recorded), into the same table; and that of
 * `ideal` behind it (NULL: none). */
luo_status luo_plotdata_recorded(luo_arena *arena, const char *path, const char *ideal,
                                 const char *out, int64_t *rows, luo_diags *diags);
/* Slowdown of the workers in attribution.csv of `dir`. */
luo_status luo_plotdata_attributed(luo_arena *arena, const char *dir, const char *out,
                                   int64_t *rows, luo_diags *diags);
/* No rows if nothing was slow: no number with three decimals would differ from 1. */
luo_status luo_plotdata_slowdown(luo_arena *arena, const luo_result *run, const char *out,
                                 int64_t *rows, luo_diags *diags);
luo_status luo_plotdata_busiest(luo_arena *arena, const luo_result *run, const char *out,
                                int64_t *rows, luo_diags *diags);
/* Of lengths; fills in sequences and mean of each. */
luo_status luo_plotdata_lengthcdf(luo_arena *arena, luo_plot_lengths *lengths, int32_t n,
                                  const char *out, luo_diags *diags);
#endif
