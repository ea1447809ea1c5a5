/* progress.h: how much of what takes long is done, and the time left: one line on a terminal, or
 * lines of JSON (docs/results.md#progress). */
#ifndef LUO_CLI_RUN_PROGRESS_H
#define LUO_CLI_RUN_PROGRESS_H
#include "cli/cli.h"

typedef struct luo_progress {
    /* line: stderr is a terminal that is not dumb, and neither --quiet nor --json is given; lines:
     * stderr is a file or a pipe, and --verbose is given: a line of its own every ten seconds. */
    bool line, lines;
    int json;         /* descriptor for lines of JSON, which go before the other two; -1: none */
    const char *verb;
    bool shown;
    double start_s, last_s;
} luo_progress;

double luo_cli_wall_s(void); /* monotonic seconds */
luo_progress luo_progress_new(const luo_cli *cli);
/* All of them show a line with `eta 0:41` after 0.5 s and at most 10 times a second; of JSON one at
 * once and then two a second. */
/* Shows `LABEL  12/60 rows  20 %  eta 0:41`. What is at work counts half of one that is done. */
void luo_progress_count(luo_progress *progress, const char *label, int64_t done, int64_t of,
                        const char *what);
/* Shows `auto  AT, 2/5 parts  14 simulated steps`. */
void luo_progress_parts(luo_progress *progress, const char *at, int64_t done, int64_t of,
                        int32_t steps);
typedef struct luo_progress_of_run {
    const char *policy; /* its label */
    uint64_t seed;
    int64_t step, steps; /* done; of so many. 0: not known, then the run ends at duration_s */
    double t_s, duration_s;
    int32_t events;
    bool over; /* the last one of its policy, which JSON shows in any case */
} luo_progress_of_run;
/* Shows `POLICY  step 412/2000  t 3102 s  37x real time  2 events  eta 0:41`, t of duration_s where
 * steps are not known. */
void luo_progress_run(luo_progress *progress, const luo_progress_of_run *run);
void luo_progress_erase(luo_progress *progress);
#endif
