/* gnuplot.h: a process of gnuplot that draws one figure; not for others than plots.c.
 *
 * No shell, no start-up files, an environment of its own. What others wrote cannot become a
 * command: gnuplot stands in the folder of the results, so that no path of theirs is in its
 * commands, writes into files that are open, so that it follows no link, and is told texts in
 * escapes. */
#ifndef LUO_CORE_IO_PLOT_GNUPLOT_H
#define LUO_CORE_IO_PLOT_GNUPLOT_H
#include <limits.h>

#include "core/base/arena.h"
#include "core/base/process.h"
#include "core/io/replace.h"

/* The endings of the files of a figure, which has the first or all. */
enum { LUO_GNUPLOT_FILES = 3 };
extern const char *const luo_gnuplot_endings[LUO_GNUPLOT_FILES];

/* Whole path of a program of that name or path, "": there is none. */
void luo_gnuplot_find(const char *name, char out[PATH_MAX]);

typedef struct luo_gnuplot_opts {
    const char *program, *script; /* whole paths: gnuplot stands elsewhere */
    const char *dir;              /* of the results */
    const char *base;             /* of the files, without ending */
    const char *ran;              /* what ran: any text */
    const char *more;             /* commands of ours: "column=1; " */
    int nfiles;                   /* 1 or LUO_GNUPLOT_FILES */
} luo_gnuplot_opts;

typedef struct luo_gnuplot {
    luo_process process;
    int said; /* file that takes what it says */
    const char *dir;
    int nfiles;
    luo_replace file[LUO_GNUPLOT_FILES];
} luo_gnuplot;

/* Errors: LUO_EBACKEND it cannot be started; LUO_EIO the files cannot be written; LUO_ENOMEM. */
luo_status luo_gnuplot_start(luo_arena *arena, const luo_gnuplot_opts *opts, luo_gnuplot *out,
                             luo_err *err);
/* Waits for its end; the files are in their places if it is OK. words: the last line that it said.
 * Errors: LUO_EBACKEND it failed, and err has no sentence; LUO_EIO. */
luo_status luo_gnuplot_end(luo_gnuplot *gnuplot, char words[256], luo_err *err);
#endif
