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

static uint64_t place_key(const luo_count_list *l)
{
    return (uint64_t)(uintptr_t)l->at;
}

/* The next key where two lists have one hash. */
static uint64_t value_key(const luo_count_list *l, uint64_t turn)
{
    return luo_hash_bytes(LUO_HASH_EMPTY, l->at, (size_t)l->n * sizeof *l->at) + turn;
}

static bool append(luo_counts *c, luo_count_list l)
{
    if (!LUO_VEC_ROOM(c->list, c->n, c->room)) return false;
    c->list[c->n++] = l;
    return true;
}

/* Its id by value, a new one if it has none. -1: out of memory. */
static int32_t find_or_add(luo_counts *c, luo_count_list l)
{
    for (uint64_t turn = 0;; turn++) {
        int64_t *id = luo_map_at(&c->by_value, value_key(&l, turn), c->n);
        if (!id) return -1;
        if (*id < c->n && !equal(&c->list[*id], &l)) continue;
        if (*id == c->n && !append(c, l)) return -1;
        return (int32_t)*id;
    }
}

/* Members share their list, so most are known by their place. */
static bool take(luo_counts *c, luo_count_list l)
{
    int64_t *id = luo_map_at(&c->by_place, place_key(&l), -1);
    if (!id) return false;
    if (*id >= 0 && c->list[*id].n == l.n) return true;
    const int32_t found = find_or_add(c, l);
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

int32_t luo_counts_id(const luo_counts *c, const luo_programs *set, const luo_slot *slot)
{
    const luo_count_list l = list_of(set, slot);
    int64_t id = luo_map_get(&c->by_place, place_key(&l), 0);
    if (c->list[id].n == l.n) return (int32_t)id;
    id = -1; /* one place, and groups of two sizes */
    for (uint64_t turn = 0; id < 0 || !equal(&c->list[id], &l); turn++)
        id = luo_map_get(&c->by_value, value_key(&l, turn), 0);
    return (int32_t)id;
}

void luo_counts_free(luo_counts *c)
{
    luo_map_free(&c->by_place);
    luo_map_free(&c->by_value);
    free(c->list);
    *c = (luo_counts){0};
}
