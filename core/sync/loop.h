/* loop.h: workers that compute and exchange in simulated time, again and again, until a horizon.
 *
 * bsp, ssp, asp: an iteration is computation, then communication of a constant time; the clock rule
 * (clock.h) says when the next may start. allreduce, preduce, adpsgd: computation, then waiting for
 * a group (preduce.h, adpsgd.h), then its communication; allreduce is a group of all.
 *
 * At one instant (luo_loop_tie) arrivals come first, then deaths, then timers; lower workers first.
 * What ends after the horizon, or after what ends the run, does not count. Who dies loses the
 * iteration under way, unless its group has closed, and leaves the clock or the groups; its updates
 * stay.
 * Formulas: docs/sync.md#time. */
#ifndef LUO_CORE_SYNC_LOOP_H
#define LUO_CORE_SYNC_LOOP_H
#include "core/base/words.h"
#include "core/base/work.h"
#include "core/sync/exchange.h"
#include "core/sync/preduce.h"
#include "core/sync/straggler.h"

#define LUO_LOOP_MODE_LIST(X)                                                                      \
    X(LUO_LOOP_BSP, "bsp")                                                                         \
    X(LUO_LOOP_SSP, "ssp")                                                                         \
    X(LUO_LOOP_ASP, "asp")                                                                         \
    X(LUO_LOOP_ALLREDUCE, "allreduce")                                                             \
    X(LUO_LOOP_PREDUCE, "preduce")                                                                 \
    X(LUO_LOOP_ADPSGD, "adpsgd")
typedef enum luo_loop_mode { LUO_LOOP_MODE_LIST(LUO_WORD_VALUE) LUO_LOOP_MODES } luo_loop_mode;
const char *luo_loop_mode_name(luo_loop_mode mode);
/* Groups, or clocks? */
bool luo_loop_mode_groups(luo_loop_mode mode);

enum { LUO_LOOP_SERVER = -1, LUO_LOOP_CONTROLLER = -2 }; /* who dies, beside workers */
typedef struct luo_loop_death {
    double t_s;
    int32_t who; /* a worker, or one of the above, which ends the run */
} luo_loop_death;

typedef struct luo_loop_row { /* an iteration that has ended */
    int32_t worker;
    int64_t iteration;
    double start_s, end_s; /* of its computation; of its communication */
    double compute_s;
    double wait_s; /* clocks: before start_s; groups: between computation and communication */
    int64_t group; /* -1: clocks have none */
} luo_loop_row;

/* Receives rows as they end; either may be NULL. group: members as in preduce.h; t_s is when its
 * communication starts. */
typedef struct luo_loop_sink {
    luo_status (*iteration)(void *ctx, const luo_loop_row *row, luo_err *err);
    luo_status (*group)(void *ctx, int64_t id, const luo_preduce_group *group, luo_err *err);
    void *ctx;
} luo_loop_sink;

typedef struct luo_loop_opts {
    luo_loop_mode mode;
    int32_t workers;
    const double *compute_s; /* by worker, without stragglers */
    luo_straggler straggler;
    uint64_t seed;
    double horizon_s;
    int64_t staleness;    /* of ssp; -1: no bound */
    double sync_s;        /* of communication; NAN: groups only, by the ring of the group's size */
    double ring_bytes;    /* of that ring */
    luo_exchange_net net; /* of that ring */
    luo_preduce_opts preduce;    /* of preduce; workers is taken from above */
    double request_s;            /* of preduce: to the controller, and as long back again */
    double beta;                 /* of preduce: weights, which lambda2 sees; 0 or 1: all alike */
    const luo_loop_death *death; /* by time ascending; nobody twice */
    int32_t ndeaths;
    const luo_work *limits; /* LUO_WORK_ITERATIONS; NULL: the default */
    luo_loop_sink sink;
} luo_loop_opts;

typedef struct luo_loop_summary {
    int64_t *iterations; /* by worker */
    double *wait_s;      /* by worker */
    int64_t updates;     /* sum of iterations */
    double t_s;          /* the horizon, or when it was lost */
    bool lost;
    int32_t lost_by; /* as in luo_loop_death; a worker: nobody is left */
    int64_t groups, guards;
    int64_t *sizes;    /* groups by size, 0 .. workers */
    double ring_bytes; /* sent by all members of all groups; 0 where sync_s is given */
    int64_t *ahead;    /* iterations by how far their worker was ahead of the slowest of the
                        * living when they ended: 0 .. nahead - 1 */
    int64_t nahead;
    double lambda2; /* mixing.h, of the groups since the last death, among the living; NAN:
                     * clocks, no group, or too many workers */
} luo_loop_summary;

/* Pre: what opts says is in range: workers >= 1, times >= 0 and finite, deaths name workers.
 * Errors: LUO_EUSAGE options of partial reduce; LUO_E2BIG more iterations than the limit;
 *         LUO_ENOMEM; those of the sink. Owner: arena.
 * Cost: O(log workers) an iteration; mixing of groups of n members O(n) a member. */
luo_status luo_loop_run(luo_arena *arena, const luo_loop_opts *opts, luo_loop_summary *out,
                        luo_err *err);
/* Quantile p of `ahead`, by linear interpolation; 0 if there is no iteration. */
double luo_loop_ahead_quantile(const luo_loop_summary *summary, double p);
#endif
