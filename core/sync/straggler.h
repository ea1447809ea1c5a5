/* straggler.h: how long each iteration of each worker computes. */
#ifndef LUO_CORE_SYNC_STRAGGLER_H
#define LUO_CORE_SYNC_STRAGGLER_H
#include <stdint.h>

#include "core/base/err.h"

typedef enum luo_straggler_kind {
    LUO_STRAGGLER_NONE,
    LUO_STRAGGLER_FACTOR, /* some workers are slower by a factor */
    LUO_STRAGGLER_BERN,   /* now and then a worker sleeps */
    LUO_STRAGGLER_TRACE   /* iterations whose seconds were recorded */
} luo_straggler_kind;

typedef struct luo_straggler_row { /* of a trace */
    int32_t worker;
    int64_t iteration;
    double seconds;
} luo_straggler_row;

typedef struct luo_straggler { /* {0}: none */
    luo_straggler_kind kind;
    const double *factor; /* FACTOR: by worker */
    double p, sleep_s;    /* BERN */
    const char *path;     /* TRACE: the file, which the caller reads; then luo_straggler_trace */
    const luo_straggler_row *row; /* TRACE: by worker, then iteration */
    int64_t nrows;
} luo_straggler;

/* Reads `none`, `factor:2=1.8,5=3`, `bern:p=0.1,sleep=0.5` or `trace:FILE`. A worker may be named
 * once. Pre: workers >= 1. Errors: LUO_EUSAGE with the part that is wrong; LUO_ENOMEM.
 * Owner: arena, and text for the path. */
luo_status luo_straggler_parse(luo_arena *arena, const char *text, int32_t workers,
                               luo_straggler *out, luo_err *err);
/* Takes the rows of a trace, which it sorts and keeps. Pre: 0 <= worker, 0 <= iteration, 0 <=
 * seconds. Errors: LUO_EINPUT an iteration that stands there twice. Cost: O(n log n). */
luo_status luo_straggler_trace(luo_straggler *straggler, luo_straggler_row *rows, int64_t n,
                               luo_err *err);
/* Seconds of iteration k of a worker that takes base_s without a straggler: times the factor; with
 * the sleep when u(seed, worker, k) < p (draws.h); as recorded, where a trace has that iteration.
 * Cost: O(1), of a trace O(log rows). */
double luo_straggler_seconds(const luo_straggler *straggler, uint64_t seed, int32_t worker,
                             int64_t k, double base_s);
#endif
