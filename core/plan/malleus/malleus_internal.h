/* malleus_internal.h: what the parts of the straggler planner share; for core/plan/malleus/malleus*
 * only. Level 1 (groups of a node) is malleus_group.c, the combinations of its alternatives are
 * malleus_mix.c, level 2 is malleus_deal.c (every assignment) and malleus_local.c, malleus_seed.c
 * (local search), level 3 is malleus_pipe.c, the best plans are kept by malleus_rank.c and written
 * out by malleus_seal.c.
 *
 * A class is a set of interchangeable groups. A vector counts groups per class; a pipeline is a
 * vector, known by its id in the memo of its mix. Nothing here depends on numbers of nodes,
 * devices or pipelines. */
#ifndef LUO_CORE_PLAN_MALLEUS_MALLEUS_INTERNAL_H
#define LUO_CORE_PLAN_MALLEUS_MALLEUS_INTERNAL_H
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "core/plan/malleus/malleus.h"

enum {
    LUO_MAL_ALTS = 6, /* three, `keep` has a place among them, and two of split2 */
    LUO_MAL_MIXES = 27,
    LUO_MAL_CLIMB = 729, /* more of them, where 27 are not all */
    LUO_MAL_SEEDS = 3
};

typedef struct luo_mal_alt { /* one way to cut a node into groups */
    int32_t n;
    const luo_malleus_group *groups;
    double score; /* R = sum 1/y */
} luo_mal_alt;

typedef struct luo_mal_node {
    int32_t first, n; /* devices of the input */
    int32_t nalts;
    luo_mal_alt alts[LUO_MAL_ALTS]; /* best score first */
    int32_t like; /* first node with the same kind and rates: same alternatives, other devices */
    uint64_t snapshot; /* hash of kind and rates: an order that no number of a node decides */
} luo_mal_node;

typedef struct luo_mal_class { /* falling y, then rising size, then kind */
    double y;
    int32_t size, kind, n;
    const luo_malleus_group **members; /* by least device */
} luo_mal_class;

typedef struct luo_mal_pipe { /* solution of one vector */
    uint64_t key;
    double o, fill;
    int64_t lack;    /* layers that do not fit; 0: feasible */
    int32_t stages;  /* that hold layers */
    int32_t trimmed; /* id of the vector that is left after 10.3; itself when nothing was dropped */
} luo_mal_pipe;

typedef struct luo_mal_mix { /* one alternative per node, and its pipelines */
    int32_t ncls, ngroups;
    const luo_mal_class *cls;
    const uint64_t *salt; /* key of a vector = sum of count * salt */
    double weight, bound; /* sum 1/y; LB */
    int32_t order;        /* 0: largest weight */
    const int32_t *choice; /* alternative of every node */
    luo_mal_pipe *pipes;  /* pipes[0]: no groups, never feasible */
    int32_t *vectors;     /* ncls each */
    int32_t npipes, room;
    int32_t *slots; /* open addressing; id + 1 */
    uint32_t nslots;
} luo_mal_mix;

typedef struct luo_mal_top { /* a plan that was kept */
    luo_mal_mix *mix;
    int32_t *ids; /* dp of them, trimmed, falling vectors */
    int64_t *m;
    double steady, filled, event;
} luo_mal_top;

typedef struct luo_mal_search { /* one search with one dp */
    luo_arena *arena;           /* scratch of this search */
    const luo_malleus_in *in;
    int32_t dp;
    bool few;     /* m >= 1 instead of m >= stages */
    bool crowded; /* a plan was refused for having fewer micro-batches than stages */
    bool nomem;   /* sticky; the search goes on with wrong answers until its caller looks */
    luo_rng rng;  /* stream `malleus`: kicks */
    luo_malleus_search count;
    bool light;   /* small budgets: one of many combinations */
    int32_t nmixes;
    luo_mal_mix *mixes; /* largest weight first, then as tried; this search's copy, with room for
                           LUO_MAL_CLIMB more if it climbs */
    int32_t ntops, most; /* most: K */
    luo_mal_top *tops;   /* best first */
    luo_mal_top spare;   /* being offered */
    double *o, *fill;    /* dp rows */
    int64_t *least;
    int64_t **caps; /* by (kind, size): by (stages - stage, first); -1: not yet asked */
    int32_t *ncaps;
    double *y; /* stages of the pipeline in work; room for all groups */
    int64_t *cap, *layers;
    int32_t *stage_class;
    int32_t *vector, *rest; /* counts per class */
} luo_mal_search;

/* Level 1. */
luo_status luo_mal_nodes(luo_arena *arena, const luo_malleus_in *in, luo_mal_node **out, int32_t *n,
                         luo_err *err);
double luo_mal_rate(const luo_malleus_in *in, double rate); /* 1 below the threshold */

/* Combinations to search, largest weight first, no two with the same classes. *all: there are no
 * others. */
luo_status luo_mal_mixes(luo_arena *arena, const luo_malleus_in *in, const luo_mal_node *nodes,
                         int32_t nnodes, luo_mal_mix **out, int32_t *n, bool *all, luo_err *err);
/* One of them. choice: per node. */
luo_status luo_mal_mix_of(luo_arena *arena, const luo_malleus_in *in, const luo_mal_node *nodes,
                          int32_t nnodes, const int32_t *choice, luo_mal_mix *out, luo_err *err);
bool luo_mal_same_mix(const luo_mal_mix *a, const luo_mal_mix *b);
/* Every node in full groups; LUO_ENO when one cannot be. */
luo_status luo_mal_whole_mix(luo_arena *arena, const luo_malleus_in *in, const luo_mal_node *nodes,
                             int32_t nnodes, luo_mal_mix *out, luo_err *err);

/* Level 3. Rows and empty memos for search->mixes. */
luo_status luo_mal_memo(luo_mal_search *search, luo_err *err);
luo_status luo_mal_memo_of(luo_mal_search *search, luo_mal_mix *mix,
                           luo_err *err); /* of one more */
int32_t luo_mal_pipe_of(luo_mal_search *search, luo_mal_mix *mix, const int32_t *vector);
/* Pipeline `id` with one group of class `out` less and one of class `in` more; -1: none. */
int32_t luo_mal_pipe_but(luo_mal_search *search, luo_mal_mix *mix, int32_t id, int32_t out,
                         int32_t in);
const int32_t *luo_mal_vector(const luo_mal_mix *mix, int32_t id);
/* Class, y and cap of every stage of a vector, into the search's rows. Returns how many. */
int32_t luo_mal_lay_out(luo_mal_search *search, const luo_mal_mix *mix, const int32_t *v);
/* Stages of a trimmed, feasible pipeline into search->stage_class, search->y, search->cap,
 * search->layers. */
int32_t luo_mal_stages(luo_mal_search *search, const luo_mal_mix *mix, int32_t id);

/* The K best. Trims ids[dp], gives micro-batches, keeps the plan if it is among them. Returns the
 * objective of the rank (event: filled); INFINITY when infeasible. */
luo_status luo_mal_tops(luo_mal_search *search,
                        luo_err *err); /* makes room; dp, in, arena are set */
double luo_mal_offer(luo_mal_search *search, luo_mal_mix *mix, const int32_t *ids);
double luo_mal_best(const luo_mal_search *search);  /* objective; INFINITY when there is none */
double luo_mal_worst(const luo_mal_search *search); /* of the K-th best, or INFINITY */
luo_status luo_mal_rerank(luo_mal_search *search, luo_err *err);
/* Negative: a is better by the rank's final order. */
int luo_mal_compare(const luo_mal_search *search, const luo_mal_top *a, const luo_mal_top *b);
/* Sorts ids by falling vectors. */
void luo_mal_sort(const luo_mal_mix *mix, int32_t *ids, int32_t n);

/* Level 2. */
bool luo_mal_deal(luo_mal_search *search, luo_mal_mix *mix); /* false: the budget ended */
luo_status luo_mal_local(luo_mal_search *search, luo_mal_mix *mix, luo_err *err);
void luo_mal_seed(luo_mal_search *search, luo_mal_mix *mix, int which, int32_t *ids);

/* The plans kept, into the caller's arena. */
luo_status luo_mal_seal(luo_arena *arena, luo_mal_search *search, luo_malleus_found *out,
                        luo_err *err);
#endif
