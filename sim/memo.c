#include "sim/memo.h"

static bool is_same(const sim_memo_key *a, const sim_memo_key *b)
{
    return a->programs == b->programs && a->trace == b->trace && a->update == b->update &&
           luo_world_equal(a->world, b->world);
}

const sim_memo_entry *sim_memo_find(sim_memo *memo, const sim_memo_key *key)
{
    for (int i = 0; i < SIM_MEMO_MAX; i++) {
        const int at = (memo->last + i) % SIM_MEMO_MAX; /* most steps are like the one before */
        sim_memo_entry *entry = &memo->entry[at];
        if (!entry->arena || !is_same(&entry->key, key)) continue;
        entry->used = ++memo->clock;
        memo->last = at;
        return entry;
    }
    return NULL;
}

static void forget(sim_memo *memo, sim_memo_entry *entry)
{
    memo->bytes -= entry->bytes;
    luo_arena_free(entry->arena);
    *entry = (sim_memo_entry){0};
}

/* A free place; the entries not asked for longest go first. */
static sim_memo_entry *make_room(sim_memo *memo, size_t bytes)
{
    for (;;) {
        sim_memo_entry *oldest = NULL, *empty = NULL;
        for (int i = 0; i < SIM_MEMO_MAX; i++) {
            sim_memo_entry *entry = &memo->entry[i];
            if (!entry->arena)
                empty = entry;
            else if (!oldest || entry->used < oldest->used)
                oldest = entry;
        }
        if (empty && (!oldest || memo->bytes + bytes <= SIM_MEMO_BYTES)) return empty;
        forget(memo, oldest);
    }
}

static luo_world *copy_world(luo_arena *arena, const luo_world *world)
{
    luo_world *out = LUO_NEW(arena, luo_world);
    if (!out) return NULL;
    out->ndevices = world->ndevices;
    out->nlinks = world->nlinks;
    out->slowdown = LUO_NEW_N(arena, double, world->ndevices);
    out->up = LUO_NEW_N(arena, bool, world->ndevices);
    out->link_factor = LUO_NEW_N(arena, double, world->nlinks);
    out->link_extra_latency_s = LUO_NEW_N(arena, double, world->nlinks);
    if (!out->slowdown || !out->up || !out->link_factor || !out->link_extra_latency_s) return NULL;
    luo_world_copy(out, world);
    return out;
}

const sim_memo_entry *sim_memo_put(sim_memo *memo, luo_arena *arena, const sim_memo_key *key,
                                   const sim_reply *reply)
{
    luo_world *copy = copy_world(arena, key->world);
    if (!copy) {
        luo_arena_free(arena);
        return NULL;
    }
    const size_t bytes = luo_arena_used(arena);
    sim_memo_entry *entry = make_room(memo, bytes);
    *entry = (sim_memo_entry){.arena = arena,
                              .key = *key,
                              .reply = *reply,
                              .bytes = bytes,
                              .used = ++memo->clock,
                              .name = ++memo->names};
    entry->key.world = copy;
    memo->bytes += bytes;
    memo->last = (int)(entry - memo->entry);
    return entry;
}

void sim_memo_free(sim_memo *memo)
{
    for (int i = 0; i < SIM_MEMO_MAX; i++)
        if (memo->entry[i].arena) forget(memo, &memo->entry[i]);
}
