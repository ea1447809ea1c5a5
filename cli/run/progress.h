/* progress.h: one line on a terminal for long runs (docs/results.md#exit-codes-and-messages). */
#ifndef LUO_CLI_RUN_PROGRESS_H
#define LUO_CLI_RUN_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct luo_progress {
    bool on;         /* stderr is a terminal, not dumb, not --quiet */
    bool shown;
    double start_s, last_s;
} luo_progress;

double luo_cli_wall_s(void); /* monotonic seconds */
luo_progress luo_progress_new(bool quiet);
/* Shows `LABEL  step 412/2000  t 3102 s  37x real time  2 events  eta 0:41`, after 0.5 s and at
 * most 10 times a second. steps 0: not known. */
void luo_progress_show(luo_progress *p, const char *label, int64_t step, int64_t steps, double t_s,
                       int32_t events);
void luo_progress_erase(luo_progress *p);
#endif
