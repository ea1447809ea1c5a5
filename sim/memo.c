#include "sim/memo.h"

static bool is_same(const sim_memo_key *a, const sim_memo_key *b)
{
    return a->programs == b->programs && a->trace == b->trace && a->update == b->update &&
           luo_world_equal(a->world, b->world);
}

const sim_memo_entry *sim_memo_find(sim_memo *m, const sim_memo_key *key)
{
    for (int i = 0; i < SIM_MEMO_MAX; i++) {
        const int at = (m->last + i) % SIM_MEMO_MAX; /* most steps are like the one before */
        sim_memo_entry *e = &m->entry[at];
        if (!e->arena || !is_same(&e->key, key)) continue;
        e->used = ++m->clock;
        m->last = at;
        return e;
    }
    return NULL;
}

static void forget(sim_memo *m, sim_memo_entry *e)
{
    m->bytes -= e->bytes;
    luo_arena_free(e->arena);
    *e = (sim_memo_entry){0};
}

/* A free place; the entries not asked for longest go first. */
static sim_memo_entry *make_room(sim_memo *m, size_t bytes)
{
    for (;;) {
        sim_memo_entry *oldest = NULL, *empty = NULL;
        for (int i = 0; i < SIM_MEMO_MAX; i++) {
            sim_memo_entry *e = &m->entry[i];
            if (!e->arena) empty = e;
            else if (!oldest || e->used < oldest->used) oldest = e;
        }
        if (empty && (!oldest || m->bytes + bytes <= SIM_MEMO_BYTES)) return empty;
        forget(m, oldest);
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

const sim_memo_entry *sim_memo_put(sim_memo *m, luo_arena *arena, const sim_memo_key *key,
                                   const sim_reply *reply)
{
    luo_world *copy = copy_world(arena, key->world);
    if (!copy) {
        luo_arena_free(arena);
        return NULL;
    }
    const size_t bytes = luo_arena_used(arena);
    sim_memo_entry *e = make_room(m, bytes);
    *e = (sim_memo_entry){
        .arena = arena, .key = *key, .reply = *reply, .bytes = bytes, .used = ++m->clock,
        .name = ++m->names};
    e->key.world = copy;
    m->bytes += bytes;
    m->last = (int)(e - m->entry);
    return e;
}

void sim_memo_free(sim_memo *m)
{
    for (int i = 0; i < SIM_MEMO_MAX; i++)
        if (m->entry[i].arena) forget(m, &m->entry[i]);
}
