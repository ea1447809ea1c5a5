/* pack.h: the sequences of one replica packed into micro-batches, and how long the replica takes
 * (docs/planners.md#hydraulis).
 *
 * Notation: t_u = c + the costs of the sequences of micro-batch u, milliseconds per stage. With
 * micro-batches by falling t_u the 1F1B time is never above the sum score; in arbitrary order it
 * can be two thirds more, so they are always given in that order. */
#ifndef LUO_CORE_PLAN_HYDRAULIS_PACK_H
#define LUO_CORE_PLAN_HYDRAULIS_PACK_H
#include "core/base/words.h"
#include "core/plan/hydraulis/pool.h"

/* Sum of t_u + (pp-1) * largest: the default; largest * (micro-batches + pp-1): as published, wrong
 * for pp 1. */
#define LUO_PACK_SCORE_LIST(X)                                                                     \
    X(LUO_SCORE_SUM, "sum")                                                                        \
    X(LUO_SCORE_MAX, "max")
typedef enum luo_pack_score { LUO_PACK_SCORE_LIST(LUO_WORD_VALUE) } luo_pack_score;

typedef struct luo_packed {
    int32_t nbins;
    double *t;       /* t_u, falling */
    int64_t *tokens; /* of each */
    double score;    /* 0 without sequences */
} luo_packed;

/* Micro-batches of the least score that was found; exact for up to 12 sequences.
 * In:     length[n], each at most entry->cap.
 * Out:    bin[n]: micro-batch of each sequence; out: nothing without sequences.
 * Errors: LUO_ENOMEM. Owner: out belongs to arena.
 * Cost:   at most 16 numbers of micro-batches, O(n * bins) each and more for few sequences.
 * Source: Hydraulis solves an ILP for each number. See: tests/diff/diff_hydraulis.c (brute force).
 */
luo_status luo_pack(luo_arena *arena, const luo_pool_entry *entry, const int64_t *length, int32_t n,
                    luo_pack_score score, int32_t *bin, luo_packed *out, luo_err *err);
/* Score of micro-batches with these times on pp stages. */
double luo_pack_score_of(const double *t, int32_t nbins, int32_t pp, luo_pack_score score);
/* Greedy: the shortest sequence that is left opens a micro-batch, then the longest that still fits
 * joins it, and so on down. Pre: every length at most room. */
luo_status luo_pack_greedy(luo_arena *arena, const luo_pool_entry *entry, const int64_t *length,
                           int32_t n, int64_t room, int32_t *bin, luo_packed *out, luo_err *err);
/* One sequence a micro-batch, in their order by cost. */
luo_status luo_pack_single(luo_arena *arena, const luo_pool_entry *entry, const int64_t *length,
                           int32_t n, int32_t *bin, luo_packed *out, luo_err *err);

/* 1F1B of one replica: micro-batch u takes t[u]/3 forward and twice that backward on every stage,
 * times factor[s] on stage s (NULL: 1 on all).
 * Errors: LUO_ENOMEM. Cost: O(pp * nbins). */
luo_status luo_pack_event(luo_arena *scratch, const double *t, int32_t nbins, int32_t pp,
                          const double *factor, double *ms, luo_err *err);
#endif
