/* deduce_order.c: duplicates, order of keys and of the device list (docs/annotations.md#deduction,
 * rules 5 to 7). */
#include "core/graph/deduce_order.h"

#include <string.h>

/* Row-major number of the combination of list index i, keys in the order pick[0..n). */
static int64_t rank_of(const luo_coords *coords, const int32_t *pick, int32_t n, int32_t i)
{
    int64_t at = 0;
    for (int32_t k = 0; k < n; k++) at = at * coords->key[pick[k]].n + coords->coord[pick[k]][i];
    return at;
}

bool luo_coords_duplicates(luo_arena *arena, luo_coords *coords, int32_t *fewest, int32_t *most)
{
    static const int32_t plain[LUO_ENTRIES_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    int64_t combinations = 1;
    *fewest = *most = 0;
    for (int32_t k = 0; k < coords->n; k++) {
        combinations *= coords->key[k].n;
        if (combinations > coords->ndev) return true; /* some of them cannot occur */
    }
    int32_t *met = LUO_NEW_N(arena, int32_t, combinations);
    int32_t *number = LUO_NEW_N(arena, int32_t, coords->ndev);
    if (!met || !number) return false;
    for (int32_t i = 0; i < coords->ndev; i++)
        number[i] = met[rank_of(coords, plain, coords->n, i)]++;
    *fewest = *most = met[0];
    for (int64_t k = 1; k < combinations; k++) {
        if (met[k] < *fewest) *fewest = met[k];
        if (met[k] > *most) *most = met[k];
    }
    if (*fewest != *most || *most == 1) return true;
    coords->key[coords->n] = (luo_ent){.key = LUO_DUP, .n = *most};
    coords->coord[coords->n++] = number;
    return true;
}

/* List position of the device with coordinate 1 on key k (all 0 if k < 0) and 0 elsewhere. */
static int32_t position(const luo_coords *coords, int32_t k)
{
    for (int32_t i = 0; i < coords->ndev; i++) {
        bool here = true;
        for (int32_t j = 0; here && j < coords->n; j++) here = coords->coord[j][i] == (j == k);
        if (here) return i;
    }
    return -1;
}

/* Keys by descending stride. */
static void sort_by_stride(const luo_coords *coords, int32_t *pick)
{
    int32_t stride[LUO_ENTRIES_MAX];
    const int32_t origin = position(coords, -1);
    for (int32_t k = 0; k < coords->n; k++) {
        const int32_t s = position(coords, k) - origin;
        int32_t j = k;
        for (; j > 0 && stride[j - 1] < s; j--) {
            stride[j] = stride[j - 1];
            pick[j] = pick[j - 1];
        }
        stride[j] = s;
        pick[j] = k;
    }
}

bool luo_coords_order(luo_arena *arena, const luo_coords *coords, luo_ent *ent, int32_t **at)
{
    int32_t pick[LUO_ENTRIES_MAX];
    sort_by_stride(coords, pick);
    bool kept = true;
    for (int32_t i = 0; kept && i < coords->ndev; i++)
        kept = rank_of(coords, pick, coords->n, i) == i;
    *at = NULL;
    if (!kept) {
        for (int32_t k = 0; k < coords->n; k++) pick[k] = k;
        *at = LUO_NEW_N(arena, int32_t, coords->ndev);
        if (!*at) return false;
        for (int32_t i = 0; i < coords->ndev; i++)
            (*at)[i] = (int32_t)rank_of(coords, pick, coords->n, i);
    }
    for (int32_t k = 0; k < coords->n; k++) ent[k] = coords->key[pick[k]];
    return true;
}
