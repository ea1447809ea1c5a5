/* annset.h: annotations by id, and everything that is derived from them once.
 *
 * Progressive specialization rests on this: annotations are added at any time, equal ones get the
 * same id, and a deduction is made once per (rule, operand ids). */
#ifndef LUO_CORE_GRAPH_ANNSET_H
#define LUO_CORE_GRAPH_ANNSET_H
#include "core/graph/deduce.h"
#include "core/hspmd/fold.h"

typedef struct luo_annset luo_annset;
/* NULL: out of memory. Owner: arena, but luo_annset_free must be called. */
luo_annset *luo_annset_new(luo_arena *arena);
void luo_annset_free(luo_annset *set); /* gives scratch memory back; ids and texts stay valid */

/* Id of a; it is copied. Pre: a is canonical. Errors: LUO_ENOMEM. */
luo_status luo_annset_add(luo_annset *set, const luo_ann *ann, int32_t *id, luo_err *err);
const luo_ann *luo_annset_get(const luo_annset *set, int32_t id);
int32_t luo_annset_count(const luo_annset *set);
/* Canonical text, made once. NULL: out of memory. */
const char *luo_annset_text(luo_annset *set, int32_t id);

typedef struct luo_term {
    int32_t ann;
    const char *letters, *name;
    bool label_only;
} luo_term;
/* luo_deduce_einsum by id. */
luo_status luo_annset_einsum(luo_annset *set, const luo_term *terms, int32_t n, const char *out,
                             const char *op, int32_t *res, luo_err *err);
/* luo_deduce_complete by id. */
luo_status luo_annset_complete(luo_annset *set, int32_t id, int32_t *res, luo_err *err);
/* luo_fold_zero by id. */
luo_status luo_annset_fold(luo_annset *set, int32_t id, const luo_shape *shape, int32_t *res,
                           luo_err *err);
/* luo_fold_zero_groups by id. */
luo_status luo_annset_fold_groups(luo_annset *set, int32_t id, const luo_shape *shape, int32_t size,
                                  bool keep, int32_t *res, luo_err *err);
/* Members that are copies of each other become summands. Pre: h = -1. */
luo_status luo_annset_across(luo_annset *set, int32_t id, int32_t *res, luo_err *err);
/* Duplicates become summands: the sum over copies of what is annotated so. */
luo_status luo_annset_summed(luo_annset *set, int32_t id, int32_t *res, luo_err *err);
/* Dimension d becomes dimension to[d]; Partial and duplicates stay. Pre: to[d] = -1 only for a
 * dimension that is whole. */
luo_status luo_annset_rename(luo_annset *set, int32_t id, const int32_t *to, int32_t *res,
                             luo_err *err);
/* In every member what dimension 0 is cut into becomes summands; members stay apart. */
luo_status luo_annset_inner_sums(luo_annset *set, int32_t id, int32_t *res, luo_err *err);
/* The same cuts in equal parts. */
luo_status luo_annset_even(luo_annset *set, int32_t id, int32_t *res, luo_err *err);
/* Member u of b where from_b[u], else of a. Pre: as many members, the same top level. */
luo_status luo_annset_pick(luo_annset *set, int32_t a, int32_t b, const bool *from_b, int32_t *res,
                           luo_err *err);
/* The annotation without the members that `keep` leaves out: keep[p] for p < parts, where member
 * u belongs to part u * parts / U. Pre: U is a multiple of parts; one is kept. */
luo_status luo_annset_members(luo_annset *set, int32_t id, const bool *keep, int32_t parts,
                              int32_t *res, luo_err *err);
/* Members of a and of b, the k-th of b behind the k-th of a unless they have the same devices.
 * top: what they are to each other, LUO_DUP or LUO_PARTIAL. Pre: as many members; the k-th have the
 * same devices or none in common. */
luo_status luo_annset_join(luo_annset *set, int32_t a, int32_t b, int32_t top, int32_t *res,
                           luo_err *err);
/* Is every member of `part` one of `whole`, which has more? */
bool luo_annset_is_part(const luo_annset *set, int32_t part, int32_t whole);
/* Without the members that are devices from `absent` on, which are not there. Pre: of a member all
 * devices are, or none; one member is left. */
luo_status luo_annset_present(luo_annset *set, int32_t id, int32_t absent, int32_t *res,
                              luo_err *err);
/* Device d from `absent` on becomes stands[d - absent]. Pre: that is >= 0 and in no member. */
luo_status luo_annset_stand_in(luo_annset *set, int32_t id, int32_t absent, const int32_t *stands,
                               int32_t *res, luo_err *err);
#endif
