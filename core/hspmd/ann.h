/* ann.h: annotations, i.e. how one tensor lies on devices (docs/annotations.md).
 *
 * Notation (Hetu v2 / HSPMD): U subgroups ("members"), h = how the tensor is cut across members,
 * G[u] = ordered devices of member u, S[u] = ordered entries key:n, first outermost.
 * Annotations are immutable and live in an arena.
 */
#ifndef LUO_CORE_HSPMD_ANN_H
#define LUO_CORE_HSPMD_ANN_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/str.h"

enum { LUO_H_NONE = -3, LUO_PARTIAL = -2, LUO_DUP = -1 };
enum {
    LUO_RANK_MAX = 8,
    LUO_DEVICE_LIMIT = 1 << 20, /* ids are below it */
    LUO_ENTRIES_MAX = 10
};
#define LUO_DIM_LIMIT (INT64_C(1) << 40) /* dimension sizes are below it */

typedef struct luo_ent {
    int32_t key, n;
    const uint32_t *share; /* NULL: even; else n values */
} luo_ent;

typedef struct luo_grp {
    int32_t ndev;
    const int32_t *dev;
    int32_t nent;
    const luo_ent *ent;
} luo_grp;

typedef struct luo_ann {
    int32_t u, h; /* h = LUO_H_NONE if and only if u = 1 */
    bool inner;
    const uint32_t *hshare; /* NULL: even; else u values (only with h >= 0, not inner) */
    const luo_grp *grp;     /* grp[0..u) */
} luo_ann;

/* Sizes of a tensor. member_len: lengths of the members along dimension h of an outer-cut tensor
 * without top shares (symbols with one value per member), u values whose sum is
 * dim[h]; NULL in all other cases. */
typedef struct luo_shape {
    int32_t rank;
    int64_t dim[LUO_RANK_MAX];
    const int64_t *member_len;
} luo_shape;

typedef enum luo_bind_mode { LUO_BIND_ROUND, LUO_BIND_EXACT } luo_bind_mode;

/* Reads the text form and checks it (in the order of docs/annotations.md#validity); the result is
 * canonical.
 * Errors: LUO_EPARSE, LUO_E2BIG, LUO_EINPUT each with its sentence; LUO_ENOMEM. */
luo_status luo_ann_parse(luo_arena *arena, const char *text, const luo_ann **out, luo_err *err);
/* The checks of docs/annotations.md#validity that need no text, on a structure built by hand. */
luo_status luo_ann_check(const luo_ann *ann, luo_err *err);
/* Canonical copy: count-1 entries dropped, shares divided by their gcd, even shares NULL.
 * Pre: luo_ann_check passed. NULL: out of memory. */
const luo_ann *luo_ann_canonical(luo_arena *arena, const luo_ann *ann);
/* Appends the canonical text. Pre: a is canonical. */
void luo_ann_print(luo_str *text, const luo_ann *ann);
/* Same canonical text. Pre: both canonical. */
bool luo_ann_equal(const luo_ann *a, const luo_ann *b);
/* 64-bit hash of the canonical structure, for interning. */
uint64_t luo_ann_hash(const luo_ann *ann);
/* The checks against a tensor. name: of the tensor, for the sentence. */
luo_status luo_ann_bind(const luo_ann *ann, const luo_shape *shape, luo_bind_mode mode,
                        const char *name, luo_err *err);
/* Reads "8x4" (or "" for rank 0) into shape. */
luo_status luo_shape_parse(const char *text, luo_shape *shape, luo_err *err);

/* Count of key in group (1 if absent), and its shares (NULL: even). */
int32_t luo_grp_count(const luo_grp *group, int32_t key);
const uint32_t *luo_grp_share(const luo_grp *group, int32_t key);
/* Coordinate of index i of group on key; 0 if absent. */
int32_t luo_grp_coord(const luo_grp *group, int32_t i, int32_t key);
/* List distance of neighbours on key (product of the counts behind it); 0 if absent. */
int32_t luo_grp_stride(const luo_grp *group, int32_t key);
/* Same entries in the same order; the devices may differ. Pre: both canonical. */
bool luo_grp_same_cut(const luo_grp *a, const luo_grp *b);
/* True if -2 stands anywhere (h or an entry). */
bool luo_ann_has_partial(const luo_ann *ann);
/* Number of devices over all members. */
int32_t luo_ann_ndev(const luo_ann *ann);
#endif
