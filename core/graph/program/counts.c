#include "core/graph/program/counts.h"
#include "core/base/vec.h"

#include <stdlib.h>
#include <string.h>

static luo_count_list list_of(const luo_programs *set, const luo_slot *slot)
{
    return (luo_count_list){slot->counts, set->groups[slot->group].n};
}

static bool equal(const luo_count_list *a, const luo_count_list *b)
{
    return a->n == b->n && memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0;
}

static uint64_t place_key(const luo_count_list *list)
{
    return (uint64_t)(uintptr_t)list->at;
}

/* The next key where two lists have one hash. */
static uint64_t value_key(const luo_count_list *list, uint64_t turn)
{
    return luo_hash_bytes(LUO_HASH_EMPTY, list->at, (size_t)list->n * sizeof *list->at) + turn;
}

static bool append(luo_counts *counts, luo_count_list list)
{
    if (!LUO_VEC_ROOM(counts->list, counts->n, counts->room)) return false;
    counts->list[counts->n++] = list;
    return true;
}

/* Its id by value, a new one if it has none. -1: out of memory. */
static int32_t find_or_add(luo_counts *counts, luo_count_list list)
{
    for (uint64_t turn = 0;; turn++) {
        int64_t *id = luo_map_at(&counts->by_value, value_key(&list, turn), counts->n);
        if (!id) return -1;
        if (*id < counts->n && !equal(&counts->list[*id], &list)) continue;
        if (*id == counts->n && !append(counts, list)) return -1;
        return (int32_t)*id;
    }
}

/* Members share their list, so most are known by their place. */
static bool take(luo_counts *counts, luo_count_list list)
{
    int64_t *id = luo_map_at(&counts->by_place, place_key(&list), -1);
    if (!id) return false;
    if (*id >= 0 && counts->list[*id].n == list.n) return true;
    const int32_t found = find_or_add(counts, list);
    if (*id < 0) *id = found;
    return found >= 0;
}

luo_status luo_counts_of(const luo_programs *set, luo_counts *out, luo_err *err)
{
    *out = (luo_counts){0};
    for (int32_t i = 0; i < set->n; i++) {
        const luo_program *program = &set->at[i];
        for (int32_t k = 0; k < set->roles[program->role].nslot; k++)
            if (program->slots[k].counts && !take(out, list_of(set, &program->slots[k])))
                return luo_err_nomem(err);
    }
    return LUO_OK;
}

int32_t luo_counts_id(const luo_counts *counts, const luo_programs *set, const luo_slot *slot)
{
    const luo_count_list list = list_of(set, slot);
    int64_t id = luo_map_get(&counts->by_place, place_key(&list), 0);
    if (counts->list[id].n == list.n) return (int32_t)id;
    id = -1; /* one place, and groups of two sizes */
    for (uint64_t turn = 0; id < 0 || !equal(&counts->list[id], &list); turn++)
        id = luo_map_get(&counts->by_value, value_key(&list, turn), 0);
    return (int32_t)id;
}

void luo_counts_free(luo_counts *counts)
{
    luo_map_free(&counts->by_place);
    luo_map_free(&counts->by_value);
    free(counts->list);
    *counts = (luo_counts){0};
}
