#include "exec/bind/sums.h"

luo_status luo_sums_make(luo_arena *arena, int32_t n, luo_sums *out, luo_err *err)
{
    *out = (luo_sums){
        .n = n, .region = LUO_NEW_N(arena, luo_region, n), .at = LUO_NEW_N(arena, int64_t, n)};
    if (!out->region || !out->at) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        out->region[i].empty = true;
        out->at[i] = -1;
    }
    return LUO_OK;
}

void luo_sums_place(luo_sums *sums)
{
    sums->elements = 0;
    for (int32_t i = 0; i < sums->n; i++) {
        if (sums->region[i].empty) continue;
        sums->at[i] = sums->elements;
        sums->elements += luo_region_volume(&sums->region[i]);
    }
}

luo_status luo_sums_copy(luo_arena *arena, const luo_sums *from, luo_sums *out, luo_err *err)
{
    luo_sums copy;
    LUO_TRY(luo_sums_make(arena, from->n, &copy, err));
    for (int32_t i = 0; i < from->n; i++)
        LUO_TRY(luo_region_copy(arena, &from->region[i], &copy.region[i], err));
    luo_sums_place(&copy);
    *out = copy;
    return LUO_OK;
}

luo_status luo_sums_check(const luo_sums *first, const luo_sums *part, int32_t device, luo_err *err)
{
    bool same = first->n == part->n;
    for (int32_t i = 0; same && i < part->n; i++)
        same = first->at[i] == part->at[i] &&
               (part->at[i] < 0 || luo_region_equal(&first->region[i], &part->region[i]));
    if (same) return LUO_OK;
    return luo_err_set(err, LUO_EBUG,
                       "parts of a step keep state in different layouts on device %d.",
                       (int)device);
}
