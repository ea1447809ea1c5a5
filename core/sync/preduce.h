/* preduce.h: partial reduce: who averages with whom, decided as workers arrive.
 *
 * The first arrival opens a group and sets its deadline; the group closes when it is full or at the
 * deadline. Every so often (the guard of SDPipe) a group waits instead until all living workers are
 * connected by the groups since the last such group, so that no set of workers stays alone for
 * ever.
 *
 * A pure state machine. At one instant arrivals come before the timer, lower ranks first.
 * Source: P-Reduce, SIGMOD 2021; guard, pairs and adaptive wait: SDPipe, VLDB 2023. Differs: pairs
 * are merged in the union of workers as pairs; a group also closes when a leave makes it full. */
#ifndef LUO_CORE_SYNC_PREDUCE_H
#define LUO_CORE_SYNC_PREDUCE_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_preduce_opts {
    int32_t workers;
    int32_t max_group; /* 1 .. workers; never more than are living */
    double wait_s;     /* from the first arrival on; INFINITY: until the group is full */
    int32_t guard;     /* a guard group after so many iterations of all workers; 0: none */
    bool pairs;        /* cut what closes into pairs; not guard groups */
    bool adaptive;     /* waits grow after groups of one, and shrink after others */
    double wait_max_s, wait_min_s; /* of adaptive */
} luo_preduce_opts;

typedef struct luo_preduce_group {
    double t_s;
    int32_t n;                /* 0: no group closed */
    const int32_t *member;    /* ascending; until the next call */
    const int64_t *iteration; /* by member: the iteration it arrived with */
    bool guard;
    bool pairs; /* to be cut by luo_preduce_group_part */
} luo_preduce_group;

typedef struct luo_preduce { /* fields are private */
    luo_preduce_opts opts;
    int32_t living, nready, components;
    double deadline;
    bool need_guard, is_guard;
    int64_t seen;            /* arrivals in closed groups */
    int32_t *ready, *member; /* workers that wait; of the last group */
    int64_t *iteration, *member_iteration;
    bool *gone, *waiting;    /* by worker */
    double *wait;            /* by worker */
    int32_t *parent, *alive; /* a forest over workers; living workers of each root */
} luo_preduce;

/* Errors: LUO_EUSAGE max_group or guard out of range, wait below 0 or not a number; LUO_ENOMEM.
 * Owner: arena. */
luo_status luo_preduce_new(luo_arena *arena, const luo_preduce_opts *opts, luo_preduce *out,
                           luo_err *err);
/* A worker has computed that iteration and wants a group. Errors: LUO_EBUG it waits already, or has
 * left. Cost: O(1), and O(n log n) of a group of n that closes; O(workers) after a guard group. */
luo_status luo_preduce_arrive(luo_preduce *preduce, double t_s, int32_t rank, int64_t iteration,
                              luo_preduce_group *out, luo_err *err);
/* When luo_preduce_timer has something to do; INFINITY: never. */
double luo_preduce_deadline(const luo_preduce *preduce);
void luo_preduce_timer(luo_preduce *preduce, double t_s, luo_preduce_group *out);
/* A worker is dead or has finished its work. A group may close. Nothing if it left before. */
void luo_preduce_leave(luo_preduce *preduce, double t_s, int32_t rank, luo_preduce_group *out);
/* A worker that had left is back. It counts as connected to whom it was when it left. */
void luo_preduce_join(luo_preduce *preduce, int32_t rank);

/* Group i of those that what closed is cut into: neighbours in pairs, a last one alone; the whole
 * without pairs. part->n = 0: there is none. */
void luo_preduce_group_part(const luo_preduce_group *closed, int32_t i, luo_preduce_group *part);
/* w[0..n): weight of each member in the average: beta^(kmax - k), scaled to sum to 1; beta 1: all
 * alike, as published. Ours: the paper's dynamic weights are not known. Pre: 0 < beta <= 1, n >= 1.
 * See: PW1. */
void luo_preduce_weights(const int64_t *iteration, int32_t n, double beta, double *w);
#endif
