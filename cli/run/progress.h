/* progress.h: one line on a terminal for what takes long: how much is done, and the time left
 * (docs/results.md#exit-codes-and-messages). */
#ifndef LUO_CLI_RUN_PROGRESS_H
#define LUO_CLI_RUN_PROGRESS_H
#include "cli/cli.h"

typedef struct luo_progress {
    /* line: stderr is a terminal that is not dumb, and neither --quiet nor --json is given; lines:
     * stderr is a file or a pipe, and --verbose is given: a line of its own every ten seconds. */
    bool line, lines;
    bool shown;
    double start_s, last_s;
} luo_progress;

double luo_cli_wall_s(void); /* monotonic seconds */
luo_progress luo_progress_new(const luo_cli *cli);
/* Shows the text and `eta 0:41`, after 0.5 s and at most 10 times a second. share: of the work that
 * is done, above 0 to 1; else the time that is left is not known. */
void luo_progress_show(luo_progress *p, double share, const char *fmt, ...) LUO_PRINTF(3, 4);
/* Shows `LABEL  12/60 rows  20 %  eta 0:41`. What is at work counts half of one that is done. */
void luo_progress_count(luo_progress *p, const char *label, int64_t done, int64_t of,
                        const char *what);
/* Shows `LABEL  step 412/2000  t 3102 s  37x real time  2 events  eta 0:41`. steps 0: not known;
 * then the run ends at duration_s, and t is given of that. */
void luo_progress_run(luo_progress *p, const char *label, int64_t step, int64_t steps, double t_s,
                      double duration_s, int32_t events);
void luo_progress_erase(luo_progress *p);
#endif
