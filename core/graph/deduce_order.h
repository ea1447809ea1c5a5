/* deduce_order.h: from coordinates of devices to a canonical member. Private. */
#ifndef LUO_CORE_GRAPH_DEDUCE_ORDER_H
#define LUO_CORE_GRAPH_DEDUCE_ORDER_H
#include "core/hspmd/ann.h"

/* Coordinates of the devices of one member. key[0..n): split dimensions ascending, then -2, then
 * -1; all counts above 1. coord[k][i]: coordinate of list index i on key[k]. Every combination
 * belongs to exactly one device. */
typedef struct luo_coords {
    int32_t ndev, n;
    luo_ent key[LUO_ENTRIES_MAX];
    int32_t *coord[LUO_ENTRIES_MAX];
} luo_coords;

/* Numbers devices with equal coordinates in list order and adds -1 with that number.
 * *fewest, *most: devices of a combination; coords is complete only if they are equal and not 0.
 * False: out of memory. */
bool luo_coords_duplicates(luo_arena *arena, luo_coords *coords, int32_t *fewest, int32_t *most);
/* The order rule: entries into ent (room for coords->n) such that list index i is at[i]; at = NULL
 * if the list is kept. False: out of memory. */
bool luo_coords_order(luo_arena *arena, const luo_coords *coords, luo_ent *ent, int32_t **at);
#endif
