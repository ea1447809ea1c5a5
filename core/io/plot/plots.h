/* plots.h: figures by gnuplot from the CSV files of runs (plots/README.md).
 *
 * plots/FIGURE.gp does the drawing; here the small tables beside the figures are made (plotdata.h)
 * and gnuplot is started, without a shell, without start-up files, with an environment of its own,
 * so that equal tables give equal bytes. */
#ifndef LUO_CORE_IO_PLOT_PLOTS_H
#define LUO_CORE_IO_PLOT_PLOTS_H
#include "core/base/err.h"
#include "core/base/str.h"
#include "core/plan/lengths/lengths.h"

typedef struct luo_plot_opts {
    const char *dir;     /* a run directory or a result set */
    const char *scripts; /* folder of plots/common.gp and the figures */
    const char *figure;  /* one figure; NULL: all that the data allow */
    bool column;         /* 84 mm wide instead of 174 mm (--column 1) */
    bool of_step, of_plan; /* `gantt` draws this step, the first traced step of this plan: */
    int64_t step, plan;
    bool svg_alone;      /* no PNG and PDF, which are most of the bytes and of the time */
    const char *gnuplot; /* program; NULL: gnuplot, found through PATH */
    int32_t nruns;       /* of luo_plot_compared: run directories and result sets; 0: none */
    const char *const *runs;
} luo_plot_opts;

/* Draws DIR/plots/FIGURE.svg and .png; for a result set also the figures of single runs into
 * DIR/RUN/plots/; of a folder with a recorded.csv `gantt` alone, of one with a plots/swept.csv
 * `sweep` alone, a figure a key. A figure without data is left out;
 * asked for by name it is an error. made: one path a line of what was written.
 * Errors: LUO_EUSAGE no such figure; LUO_EINPUT no run, or no data for the figure asked for;
 *         LUO_EBACKEND gnuplot is missing or failed, with its words; LUO_EIO; LUO_ENOMEM. */
luo_status luo_plot(luo_arena *arena, const luo_plot_opts *opts, luo_str *made, luo_diags *diags);
/* The figures of a folder that holds what luo_compare wrote and perhaps no run: `predicted` if
 * there is a plots/predicted.csv with rows, `goodput` with bands over seeds if there is a
 * plots/bands.csv, and of two runs or more of one seed the figures that they share. Errors: as
 * above. */
luo_status luo_plot_compared(luo_arena *arena, const luo_plot_opts *opts, const char *title,
                              luo_str *made, luo_diags *diags);

/* A distribution of figure `lengthcdf`. */
typedef struct luo_plot_lengths {
    const char *name; /* in the legend; "(synthetic)" is said behind those that are */
    const char *from; /* in the title: a hash, or what was drawn */
    const luo_lengths *lengths;
    uint64_t seed;          /* of the LUO_HISTOGRAM_DRAWS draws of a formula */
    double sequences, mean; /* set by luo_plot_distribution: how many, and their mean in tokens */
} luo_plot_lengths;
enum { LUO_PLOT_LENGTHS = 4 }; /* of one figure */

/* Draws DIR/plots/lengthcdf.svg and .png of 1 to LUO_PLOT_LENGTHS distributions, each by sequences
 * and weighted by tokens; in a class of a histogram all lengths are equally likely. DIR is made.
 * Errors: LUO_EUSAGE another figure is asked for; those of luo_lengths_draw; LUO_EBACKEND; LUO_EIO;
 *         LUO_ENOMEM. Cost: O(n log n) for n lengths. */
luo_status luo_plot_distribution(luo_arena *arena, const luo_plot_opts *opts,
                                 luo_plot_lengths *lengths, int32_t n, luo_str *made,
                                 luo_diags *diags);
/* Name of figure i, 0 first; NULL: there are not so many. */
const char *luo_plot_figure(int i);
/* True if the program can be started (NULL: gnuplot). */
bool luo_plot_possible(const char *gnuplot);
#endif
