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
    luo_bucketing bucketing = first.rule != LUO_BUCKET_UNSAID || first.has_mib ? first : second;
    bucketing.lanes = first.lanes ? first.lanes : second.lanes;
    return bucketing;
}

luo_bucketing luo_bucketing_of(luo_bucketing plan, luo_bucketing stack)
{
    luo_bucketing bucketing = luo_bucketing_over(plan, stack);
    if (bucketing.lanes == 0) bucketing.lanes = LUO_BUCKET_LANES_DEFAULT;
    if (bucketing.rule == LUO_BUCKET_UNSAID)
        bucketing.rule = bucketing.has_mib ? LUO_BUCKET_MIB : LUO_BUCKET_MEGATRON;
    if (!bucketing.has_mib) bucketing.mib = LUO_BUCKET_MIB_DEFAULT;
    return bucketing;
}

typedef struct key_state {
    int32_t open;  /* bucket + 1; 0: none */
    int32_t begun; /* buckets so far */
    int32_t unit;
    int64_t elements, bytes;
} key_state;

/* Does the open bucket end before this item comes in? */
static bool ends_before(luo_bucketing bucketing, const key_state *state,
                        const luo_bucket_item *item)
{
    const int64_t deepspeed = 500000000; /* elements */
    if (bucketing.rule == LUO_BUCKET_UNIT) return item->unit != state->unit;
    if (item->opens && state->begun == 1 && item->unit != state->unit) return true;
    return bucketing.rule == LUO_BUCKET_DEEPSPEED && state->elements + item->elements > deepspeed;
}

/* Is it full with its last item? */
static bool is_full(luo_bucketing bucketing, int32_t replicas, const key_state *state)
{
    const double mib = 1048576;
    const int64_t least = 40000000, each = 1000000; /* elements */
    switch (bucketing.rule) {
    case LUO_BUCKET_MIB:
        return (double)state->bytes >= bucketing.mib * mib;
    case LUO_BUCKET_DDP:
        return (double)state->bytes >= (state->begun == 1 ? 1 : 25) * mib;
    case LUO_BUCKET_MEGATRON:
        return state->elements >= (each * replicas > least ? each * replicas : least);
    case LUO_BUCKET_UNSAID:
    case LUO_BUCKET_DEEPSPEED: /* where the next would not fit */
    case LUO_BUCKET_UNIT:      /* at its end */
    case LUO_BUCKET_RULES: break;
    }
    return false;
}

luo_status luo_bucket_close(luo_arena *scratch, luo_bucketing bucketing, int32_t replicas,
                            const luo_bucket_item *item, int32_t n, int32_t nkeys, int32_t *bucket,
                            int32_t *nbuckets, luo_err *err)
{
    key_state *keys = LUO_NEW_N(scratch, key_state, nkeys);
    if (!keys) return luo_err_nomem(err);
    *nbuckets = 0;
    for (int32_t i = 0; i < n; i++) {
        key_state *state = &keys[item[i].key];
        if (state->open && ends_before(bucketing, state, &item[i])) state->open = 0;
        if (!state->open) *state = (key_state){.open = ++*nbuckets, .begun = state->begun + 1};
        state->unit = item[i].unit;
        state->elements += item[i].elements;
        state->bytes += item[i].bytes;
        bucket[i] = state->open - 1;
        if (is_full(bucketing, replicas, state)) state->open = 0;
    }
    return LUO_OK;
}
