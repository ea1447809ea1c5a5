/* coll.h: the collectives, each once, with the names that files and messages have for them. */
#ifndef LUO_CORE_GRAPH_PROGRAM_COLL_H
#define LUO_CORE_GRAPH_PROGRAM_COLL_H

#define LUO_COLL_LIST(X)     \
    X(AR, "all_reduce")      \
    X(RS, "reduce_scatter")  \
    X(AG, "all_gather")      \
    X(A2A, "all_to_all")     \
    X(BCAST, "broadcast")
typedef enum luo_coll {
#define LUO_COLL_ENUM(coll, name) LUO_COLL_##coll,
    LUO_COLL_LIST(LUO_COLL_ENUM)
#undef LUO_COLL_ENUM
        LUO_COLLS
} luo_coll;
const char *luo_coll_name(luo_coll c); /* NULL: no collective */

/* How an all-gather or a reduce-scatter is carried out whose pieces may differ in length. */
#define LUO_COLL_VARIANT_LIST(X)                                                                   \
    X(LUO_COLL_AUTO, "auto")       /* exact pieces, as the executor does it best */                \
    X(LUO_COLL_PADDED, "padded")   /* every piece as long as the longest */                        \
    X(LUO_COLL_GROUPED, "grouped") /* exact pieces, a broadcast or a reduce each */
typedef enum luo_coll_variant {
#define LUO_COLL_ENUM(variant, name) variant,
    LUO_COLL_VARIANT_LIST(LUO_COLL_ENUM)
#undef LUO_COLL_ENUM
        LUO_COLL_VARIANTS
} luo_coll_variant;
const char *luo_coll_variant_name(luo_coll_variant v);
#endif
