/* mixing.h: how well groups spread what each worker knows.
 *
 * A group of s workers multiplies what they hold by W: the identity, but that each row of the group
 * has the weights w of its members (preduce.h), 1/s unless told otherwise. lambda2 is the second
 * largest eigenvalue of the mean of W^T W over a window of groups: 0 when every group is all
 * workers, 1 when two parts never meet (docs/sync.md#partial-reduce). The block of W^T W is
 * s w w^T. */
#ifndef LUO_CORE_SYNC_MIXING_H
#define LUO_CORE_SYNC_MIXING_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

/* More workers than this take more than a second or so for their eigenvalues: n^3. */
enum { LUO_MIXING_WORKERS = 1024 };

typedef struct luo_mixing { /* fields are private */
    int32_t workers;
    int64_t groups, whole; /* all; of them those of all workers alike */
    double *apart;         /* sum of (identity - W^T W) of the others, workers x workers */
} luo_mixing;

/* An empty window. Errors: LUO_E2BIG more than LUO_MIXING_WORKERS workers; LUO_ENOMEM.
 * Owner: arena. */
luo_status luo_mixing_new(luo_arena *arena, int32_t workers, luo_mixing *out, luo_err *err);
/* Begins the window anew. */
void luo_mixing_clear(luo_mixing *mixing);
/* weight NULL: all alike. Pre: members are different workers, n >= 1.
 * Cost: O(n^2); O(1) of all workers alike. */
void luo_mixing_add(luo_mixing *mixing, const int32_t *member, const double *weight, int32_t n);
/* lambda2 of the groups in the window among the workers for whom `gone` is false (NULL: all).
 * NAN: there is no group, or fewer than two workers. Errors: LUO_ENOMEM.
 * Cost: O(workers^3). See: LA1. */
luo_status luo_mixing_lambda2(luo_arena *scratch, const luo_mixing *mixing, const bool *gone,
                              double *out, luo_err *err);
#endif
