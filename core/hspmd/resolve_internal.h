/* resolve_internal.h: what the parts of the resolution share; for core/hspmd only.
 * Everything lives in a scratch arena; luo_resolve seals the moves into the caller's. */
#ifndef LUO_CORE_HSPMD_RESOLVE_INTERNAL_H
#define LUO_CORE_HSPMD_RESOLVE_INTERNAL_H
#include "core/hspmd/resolve.h"

/* Holdings of one side, or of one member of it, with a look-up by device. */
typedef struct luo_side {
    luo_holdings h;                   /* in (member, index) order */
    const luo_holding *const *by_dev; /* ascending */
} luo_side;

/* One side, whole and cut into its u members: member[k].h is a part of the array of `whole`. */
typedef struct luo_sides {
    luo_side whole;
    luo_side *member; /* u of them */
} luo_sides;

/* In order of weight. */
typedef enum luo_member_kind {
    LUO_MEMBER_IDENTITY,
    LUO_MEMBER_SLICE,
    LUO_MEMBER_SENDRECV,
    LUO_MEMBER_ALLGATHER,
    LUO_MEMBER_BSR,
    LUO_MEMBER_ALLREDUCE,
    LUO_MEMBER_REDUCESCATTER
} luo_member_kind;

typedef struct luo_build {
    luo_arena *arena; /* scratch */
    luo_planner *planner;
    const luo_shape *shape;
    const luo_ann *src, *dst;
    const char *name;
    int64_t elem_bytes;
    int32_t ranks; /* of luo_resolve_opts */
    luo_moves *out;
    bool joined;            /* between tiers: who has nothing takes part in gathers, too */
    bool lost;              /* some cell has no living owner: LUO_ELOST in the end */
    luo_unsupported reason; /* set by luo_refuse */
    luo_err *err;
} luo_build;

/* Devices that gather the same target region: ngroup groups of npart ranks each. */
typedef struct luo_gather {
    int32_t npart, ngroup;
    int32_t *dev;     /* dev[group * npart + part] */
    luo_region *part; /* in order along the dimension */
} luo_gather;

/* How holdings s become d, before anything is emitted. */
typedef struct luo_movement {
    luo_member_kind kind;
    const luo_side *s, *d;
    int32_t dim, ngather; /* LUO_MEMBER_ALLGATHER */
    luo_gather *gather;
} luo_movement;

/* Groups of source devices whose values sum up: at[g * p + c] = index with Partial coordinate c. */
typedef struct luo_sum {
    int32_t n, p;
    int32_t *at;
} luo_sum;

luo_status luo_side_make(luo_arena *arena, luo_holding *at, int32_t n, luo_side *out,
                         luo_err *err);
luo_status luo_sides_make(luo_build *build, const luo_ann *ann, luo_sides *out);
const luo_holding *luo_side_find(const luo_side *side, int32_t dev); /* NULL: not there */
bool luo_same_devices(const luo_side *a, const luo_side *b);
bool luo_same_regions(const luo_side *a, const luo_side *b);
bool luo_is_slice(const luo_side *s, const luo_side *d);
/* Any total order of regions; 0 if and only if equal. */
int luo_region_order(const luo_region *a, const luo_region *b);
/* Non-empty pieces agree with whole off k, come in order without overlap and make up its list. */
bool luo_tiles(const luo_region *piece, int32_t n, const luo_region *whole, int32_t k);

luo_status luo_emit_copies(luo_build *build, const luo_side *side, int32_t step);
luo_status luo_emit_bsr(luo_build *build, const luo_side *s, const luo_side *d, int32_t step);
luo_status luo_emit_allreduce(luo_build *build, const luo_sum *sum, const luo_side *side,
                              int32_t step);
/* SplitAR of the holdings sides of u members. */
luo_status luo_emit_split_ar(luo_build *build, const luo_sides *sides, int32_t u, int32_t step);
luo_status luo_sum_groups(luo_build *build, const luo_grp *group, const luo_side *side,
                          luo_sum *out);

luo_status luo_movement_find(luo_build *build, const luo_side *s, const luo_side *d,
                             luo_movement *out);
luo_status luo_movement_emit(luo_build *build, const luo_movement *movement, int32_t step);
/* One member; an identity emits copies. Errors: LUO_EUNSUP with build->reason set. */
luo_status luo_resolve_member(luo_build *build, const luo_grp *gs, const luo_grp *gd,
                              const luo_side *s, const luo_side *d, int32_t step,
                              luo_member_kind *kind);
const char *luo_member_name(luo_member_kind k);
/* Sets the reason; returns LUO_EUNSUP. */
luo_status luo_refuse(luo_build *build, luo_unsupported reason);

/* Each member alone. *works false: not this tier. kinds[u] are filled when it works. */
luo_status luo_resolve_bottom(luo_build *build, const luo_ann *src, const luo_ann *dst,
                              const luo_sides *s, const luo_sides *d, int32_t step,
                              luo_member_kind *kinds, bool *works);
/* Between members. *works false: go on with the next test. On success kind and text are set. */
luo_status luo_resolve_top(luo_build *build, const luo_sides *s, const luo_sides *d,
                           luo_resolution *out, bool *works);
/* "HEAD K0,K1,.." in the scratch arena. */
luo_status luo_kinds_text(luo_build *build, const char *head, const luo_member_kind *kinds,
                          int32_t n, const char **out);
#endif
