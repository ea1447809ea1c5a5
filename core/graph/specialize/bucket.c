/* bucket.c: when a bucket is full (docs/architecture/gradients.md#when-a-bucket-is-full). */
#include "core/graph/specialize/bucket.h"

#include <stddef.h>

const char *luo_bucket_rule_name(luo_bucket_rule r)
{
    static const char *const names[LUO_BUCKET_RULES] = {"", LUO_BUCKET_RULE_LIST(LUO_WORD_TEXT)};
    return r >= 0 && r < LUO_BUCKET_RULES ? names[r] : "";
}

luo_bucketing luo_bucketing_over(luo_bucketing first, luo_bucketing second)
{
    luo_bucketing b = first.rule != LUO_BUCKET_UNSAID || first.has_mib ? first : second;
    b.lanes = first.lanes ? first.lanes : second.lanes;
    return b;
}

luo_bucketing luo_bucketing_of(luo_bucketing plan, luo_bucketing stack)
{
    luo_bucketing b = luo_bucketing_over(plan, stack);
    if (b.lanes == 0) b.lanes = LUO_BUCKET_LANES_DEFAULT;
    if (b.rule == LUO_BUCKET_UNSAID) b.rule = b.has_mib ? LUO_BUCKET_MIB : LUO_BUCKET_MEGATRON;
    if (!b.has_mib) b.mib = LUO_BUCKET_MIB_DEFAULT;
    return b;
}

typedef struct key_state {
    int32_t open;  /* bucket + 1; 0: none */
    int32_t begun; /* buckets so far */
    int32_t unit;
    int64_t elements, bytes;
} key_state;

/* Does the open bucket end before this item comes in? */
static bool ends_before(luo_bucketing b, const key_state *k, const luo_bucket_item *x)
{
    const int64_t deepspeed = 500000000; /* elements */
    if (b.rule == LUO_BUCKET_UNIT) return x->unit != k->unit;
    if (x->opens && k->begun == 1 && x->unit != k->unit) return true;
    return b.rule == LUO_BUCKET_DEEPSPEED && k->elements + x->elements > deepspeed;
}

/* Is it full with its last item? */
static bool is_full(luo_bucketing b, int32_t replicas, const key_state *k)
{
    const double mib = 1048576;
    const int64_t least = 40000000, each = 1000000; /* elements */
    switch (b.rule) {
    case LUO_BUCKET_MIB: return (double)k->bytes >= b.mib * mib;
    case LUO_BUCKET_DDP: return (double)k->bytes >= (k->begun == 1 ? 1 : 25) * mib;
    case LUO_BUCKET_MEGATRON:
        return k->elements >= (each * replicas > least ? each * replicas : least);
    case LUO_BUCKET_UNSAID:
    case LUO_BUCKET_DEEPSPEED: /* where the next would not fit */
    case LUO_BUCKET_UNIT:      /* at its end */
    case LUO_BUCKET_RULES: break;
    }
    return false;
}

luo_status luo_bucket_close(luo_arena *scratch, luo_bucketing b, int32_t replicas,
                            const luo_bucket_item *item, int32_t n, int32_t nkeys, int32_t *bucket,
                            int32_t *nbuckets, luo_err *err)
{
    key_state *keys = LUO_NEW_N(scratch, key_state, nkeys);
    if (!keys) return luo_err_nomem(err);
    *nbuckets = 0;
    for (int32_t i = 0; i < n; i++) {
        key_state *k = &keys[item[i].key];
        if (k->open && ends_before(b, k, &item[i])) k->open = 0;
        if (!k->open) *k = (key_state){.open = ++*nbuckets, .begun = k->begun + 1};
        k->unit = item[i].unit;
        k->elements += item[i].elements;
        k->bytes += item[i].bytes;
        bucket[i] = k->open - 1;
        if (is_full(b, replicas, k)) k->open = 0;
    }
    return LUO_OK;
}
