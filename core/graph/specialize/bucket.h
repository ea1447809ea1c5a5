/* bucket.h: which tensors travel in one call (docs/architecture/gradients.md#buckets). Pure: sizes
 * in, numbers out.
 *
 * Tensors of one key may share a bucket, neighbours first; a bucket is full by the rule. A tensor
 * of another key in between closes nothing.
 */
#ifndef LUO_CORE_GRAPH_SPECIALIZE_BUCKET_H
#define LUO_CORE_GRAPH_SPECIALIZE_BUCKET_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/words.h"

#define LUO_BUCKET_RULE_LIST(X)                                                                    \
    X(LUO_BUCKET_MIB, "mib")                                                                       \
    X(LUO_BUCKET_DDP, "ddp")                                                                       \
    X(LUO_BUCKET_MEGATRON, "megatron")                                                             \
    X(LUO_BUCKET_DEEPSPEED, "deepspeed")                                                           \
    X(LUO_BUCKET_UNIT, "unit")
typedef enum luo_bucket_rule {
    LUO_BUCKET_UNSAID, /* of a plan: the stack decides */
    LUO_BUCKET_RULE_LIST(LUO_WORD_VALUE) LUO_BUCKET_RULES
} luo_bucket_rule;
const char *luo_bucket_rule_name(luo_bucket_rule r); /* LUO_BUCKET_UNSAID: "" */

typedef struct luo_bucketing {
    luo_bucket_rule rule;
    bool has_mib; /* mib is given; else LUO_BUCKET_MIB_DEFAULT */
    double mib;   /* of rule mib, in MiB; 0: every tensor alone, as it was resolved */
    int32_t lanes; /* that calls of buckets run in on a device, 1 to 4; 0: not said */
} luo_bucketing;
#define LUO_BUCKET_LANES_DEFAULT 2
#define LUO_BUCKET_LANES_MAX 4
#define LUO_BUCKET_MIB_DEFAULT 25.0
#define LUO_BUCKET_MIB_MAX 1048576.0

/* What the first leaves unsaid is the second's: rule and mib go together, lanes for themselves. */
luo_bucketing luo_bucketing_over(luo_bucketing first, luo_bucketing second);
/* The plan's word, else the stack's, else rule megatron and 2 lanes. bucket_mib alone means rule
 * mib. */
luo_bucketing luo_bucketing_of(luo_bucketing plan, luo_bucketing stack);
/* Every tensor alone? Pre: bucketing comes from luo_bucketing_of. */
static inline bool luo_bucketing_is_off(luo_bucketing bucketing)
{
    return bucketing.rule == LUO_BUCKET_MIB && bucketing.mib == 0;
}

typedef struct luo_bucket_item { /* a tensor, in the order in which tensors become ready */
    int32_t key;     /* 0.. */
    int32_t unit;    /* embedding, a block, or the head */
    bool opens;      /* a weight: the first bucket of its key also ends with its first unit */
    int64_t elements, bytes;
} luo_bucket_item;

/* Number of the bucket of every item, counted from 0 by their first items. replicas: pipelines that
 * hold the tensors, which rule megatron asks for. Returns how many buckets.
 * Pre: bucketing comes from luo_bucketing_of; keys are 0..nkeys-1. Errors: LUO_ENOMEM. Cost: O(n +
 * nkeys). Source: docs/architecture/gradients.md#when-a-bucket-is-full. See:
 * tests/unit/check_bucket.c. */
luo_status luo_bucket_close(luo_arena *scratch, luo_bucketing bucketing, int32_t replicas,
                            const luo_bucket_item *item, int32_t n, int32_t nkeys, int32_t *bucket,
                            int32_t *nbuckets, luo_err *err);
#endif
