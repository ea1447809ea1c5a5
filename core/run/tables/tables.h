/* tables.h: one question for all ways of training a model with embedding tables: which is the
 * fastest on this cluster, and does it fit (docs/planners.md#models-with-tables).
 *
 * All devices are workers: each has samples of its own. The dense part is computed on them, or as
 * planner `hap` cuts it, whichever is faster. The ways differ in where rows and dense parameters
 * lie. Gradients of rows are added to them without moments, wherever they lie; dense parameters
 * have Adam's two. */
#ifndef LUO_CORE_RUN_TABLES_TABLES_H
#define LUO_CORE_RUN_TABLES_TABLES_H
#include "core/base/words.h"
#include "core/run/policy/judge.h"
#include "core/sync/embed/clicks.h"
#include "core/sync/embed/het.h"

typedef enum luo_tables_place {
    LUO_TABLES_SERVERS,    /* row k on server k mod S; keys, rows and gradients are messages */
    LUO_TABLES_CACHES,     /* .. and some on every worker, which may lack updates (HET) */
    LUO_TABLES_ALL_TO_ALL, /* row k on device k mod W */
    LUO_TABLES_ALL_GATHER, /* all rows on every device; gradients with their keys go to all */
    LUO_TABLES_ALL_REDUCE  /* the same; gradients of all rows, touched or not */
} luo_tables_place;

typedef enum luo_tables_way {
#define LUO_TABLES_WAY(name, ...) LUO_TABLES_WAY_##name,
#include "core/run/tables/ways.inc"
#undef LUO_TABLES_WAY
    LUO_TABLES_WAYS
} luo_tables_way;

/* How the samples of a step are dealt:
 *   equal     as many for each device, or one more
 *   by speed  in proportion to the speed of devices at equal shares, as planner `auto` deals
 *   level     so that the device that computes longest computes as short as it can
 *   by hap    by the shares of planner `hap` */
#define LUO_TABLES_DEAL_LIST(X)                                                                    \
    X(LUO_TABLES_EQUAL, "equal")                                                                   \
    X(LUO_TABLES_SPEED, "by speed")                                                                \
    X(LUO_TABLES_LEVEL, "level")                                                                   \
    X(LUO_TABLES_HAP, "by hap")
typedef enum luo_tables_deal { LUO_TABLES_DEAL_LIST(LUO_WORD_VALUE) } luo_tables_deal;
enum { LUO_TABLES_DEALS = LUO_TABLES_HAP + 1 };
const char *luo_tables_deal_name(luo_tables_deal deal);

/* Who has planned the dense part of a way that all-reduces it. */
#define LUO_TABLES_PART_LIST(X)                                                                    \
    X(LUO_TABLES_PARALLEL, "data-parallel") /* letter b everywhere, gradients all-reduced */       \
    X(LUO_TABLES_BY_HAP, "by hap")
typedef enum luo_tables_part { LUO_TABLES_PART_LIST(LUO_WORD_VALUE) } luo_tables_part;
enum { LUO_TABLES_PARTS = LUO_TABLES_BY_HAP + 1 };
const char *luo_tables_part_name(luo_tables_part part);

typedef struct luo_tables_way_desc {
    const char *name;
    luo_tables_place tables, dense;
    const char *text;
} luo_tables_way_desc;
/* Pre: way < LUO_TABLES_WAYS. */
const luo_tables_way_desc *luo_tables_way_of(luo_tables_way way);

enum {
    LUO_TABLES_DEVICES = 1024, /* at most: no more than messages, or not even one server fits */
    LUO_TABLES_MESSAGES = 1900 /* of one exchange, workers x servers, at most: rows and the dense
                                  part together stay below what the simulator lets contend */
};

typedef struct luo_tables_in {
    const luo_judge *judge;    /* with model, cluster and stack */
    const luo_clicks *samples; /* taken in their order, again from the first when all are used */
    int64_t batch;             /* samples of a step */
    const double *rate;        /* per device: slowdown, INFINITY when not usable */
    const bool *candidate;     /* per device: may work */
    int32_t servers;           /* 0: one of every node, and as many as may be */
    luo_het_opts cache;        /* rows 0: way `cached` is not asked. link and width are set here */
} luo_tables_in;

enum { LUO_TABLES_HAP_TEXT = 4096 };
typedef struct luo_tables_answer_way {
    luo_judgement step; /* seconds INFINITY: it has none, see why */
    int32_t servers;    /* of way: 0: it has none */
    luo_tables_deal deal;
    luo_tables_part part;
    double part_s[LUO_TABLES_PARTS];  /* the fastest step of each; INFINITY: not asked, or does not
                                         fit */
    double dealt_s[LUO_TABLES_DEALS]; /* the fastest step of each deal; INFINITY: it was not asked,
                                         as it deals like one before it, or does not fit */
    int32_t tried;
    double pull_bytes, push_bytes; /* of rows and keys, all devices together, of a step */
    uint64_t program;
    char why[LUO_ERR_TEXT];
} luo_tables_answer_way;

typedef struct luo_tables_answer {
    luo_tables_answer_way at[LUO_TABLES_WAYS];
    int32_t best;
    int32_t devices;           /* that work */
    int64_t touched;           /* different rows of a device in a step, mean */
    int64_t looked_up;         /* rows that a device reads in a step, mean */
    int64_t least, most;       /* samples of a device, of the best */
    int64_t cached_iterations; /* of each worker, that caches were simulated for; 0: none */
    /* What planner `hap` says of the dense part: layers that it does not compute data-parallel, "":
     * there is none; or, where it was of no use, why. */
    char hap[LUO_TABLES_HAP_TEXT], hap_why[LUO_ERR_TEXT];
} luo_tables_answer;

/* The fastest step of every way, each with its best number of servers and its best shares of the
 * samples, simulated. Pre: the model has tables; samples has at least one, with as many slots as
 * the model and no more different keys than it has rows.
 * Errors: LUO_EINFEASIBLE no way fits into memory, with what the last one lacks; LUO_EINPUT no
 * device may work, or fewer samples than devices; LUO_EUSAGE more servers than devices; LUO_E2BIG
 * too many devices, or messages with so many servers; those of the simulator; LUO_ENOMEM. Owner:
 * nothing is kept. Cost: some ten simulated steps for each deal, twice as many where planner `hap`
 * cuts layers; `cached` some 4e6 keys more. */
luo_status luo_tables_plan(const luo_tables_in *in, luo_tables_answer *out, luo_err *err);
#endif
