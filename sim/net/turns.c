/* turns.c: which devices cannot be simulated as one, by the groups of their calls. */
#include "sim/net/turns.h"

#include <stdlib.h>

#include "core/base/vec.h"
#include "core/graph/intern.h"

/* Buckets, and what travels alone: the sum of the losses. Programs by hand have no exchanges. */
static bool is_call(const luo_programs *set, const luo_instr *in)
{
    return in->kind == LUO_INSTR_COLLECTIVE && in->stream == LUO_STREAM_DP && in->exchange >= 0 &&
           in->exchange < set->nexchanges;
}

luo_status sim_turns_any(const luo_programs *set, bool *any)
{
    int32_t mark = 0, *seen = calloc((size_t)set->nexchanges + 1, sizeof *seen);
    *any = false;
    if (!seen) return LUO_ENOMEM;
    for (int32_t r = 0; r < set->nroles && !*any; r++)
        for (int32_t k = 0; k < set->roles[r].nseg; k++) {
            const luo_segment *seg = &set->roles[r].seg[k];
            mark++;
            for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
                const luo_instr *in = &set->roles[r].instr[i];
                if (!is_call(set, in)) continue;
                *any |= seen[in->exchange] == mark;
                seen[in->exchange] = mark;
            }
        }
    free(seen);
    return LUO_OK;
}

typedef struct calls {
    luo_arena *arena;
    const sim_net *net;
    luo_intern id;     /* of a phase, an exchange and a group */
    int32_t *up, room; /* by call: another of its rendezvous */
    int32_t *size;     /* by the first call of a rendezvous: its groups */
    bool *apart;       /* the same: some class is in a part of its groups */
} calls;

static int32_t root_of(int32_t *up, int32_t i)
{
    while (up[i] != i) i = up[i] = up[up[i]];
    return i;
}

static luo_status call_id(calls *c, const sim_class *class, int32_t member, const luo_instr *in,
                          int32_t *id)
{
    const int32_t key[] = {in->phase, in->exchange, sim_slot(c->net, class, member, in)->group};
    bool fresh;
    *id = luo_intern_id(&c->id, key, 3, &fresh);
    if (*id < 0) return LUO_ENOMEM;
    if (!LUO_VEC_ROOM_IN(c->arena, c->up, *id, c->room)) return LUO_ENOMEM;
    if (fresh) c->up[*id] = *id;
    return LUO_OK;
}

static luo_status unite(calls *c, const sim_class *class, const luo_instr *in)
{
    int32_t first;
    LUO_TRY(call_id(c, class, 0, in, &first));
    for (int32_t m = 1, id; m < class->n; m++) {
        LUO_TRY(call_id(c, class, m, in, &id));
        c->up[root_of(c->up, id)] = root_of(c->up, first);
    }
    return LUO_OK;
}

static int by_value(const void *p, const void *q)
{
    const int32_t *a = p, *b = q;
    return (*a > *b) - (*a < *b);
}

/* Groups of an instruction. */
static luo_status count_groups(calls *c, const sim_class *class, const luo_instr *in, int32_t *n)
{
    const size_t mark = luo_arena_mark(c->arena);
    int32_t *id = luo_arena_alloc(c->arena, (size_t)class->n * sizeof *id);
    if (!id) return LUO_ENOMEM;
    for (int32_t m = 0; m < class->n; m++) id[m] = sim_slot(c->net, class, m, in)->group;
    qsort(id, (size_t)class->n, sizeof *id, by_value);
    *n = 1;
    for (int32_t m = 1; m < class->n; m++) *n += id[m] != id[m - 1];
    luo_arena_reset(c->arena, mark);
    return LUO_OK;
}

/* Calls back for every call of a bucket of every class. */
static luo_status each(calls *c,
                       luo_status (*what)(calls *c, const sim_class *l, const luo_instr *in))
{
    for (int32_t l = 0; l < c->net->nclasses; l++) {
        const sim_class *class = &c->net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++)
            if (is_call(c->net->set, &class->role->instr[i]))
                LUO_TRY(what(c, class, &class->role->instr[i]));
    }
    return LUO_OK;
}

static luo_status compare(calls *c, const sim_class *class, const luo_instr *in)
{
    int32_t n, id;
    LUO_TRY(call_id(c, class, 0, in, &id));
    LUO_TRY(count_groups(c, class, in, &n));
    id = root_of(c->up, id);
    c->apart[id] |= n < c->size[id];
    return LUO_OK;
}

static luo_status find_all_rendezvous(calls *c)
{
    LUO_TRY(each(c, unite));
    c->size = LUO_NEW_N(c->arena, int32_t, c->id.n);
    c->apart = LUO_NEW_N(c->arena, bool, c->id.n);
    if (!c->size || !c->apart) return LUO_ENOMEM;
    for (int32_t i = 0; i < c->id.n; i++) c->size[root_of(c->up, i)]++;
    return each(c, compare);
}

static luo_status is_tied(calls *c, const sim_class *class, bool *tied)
{
    *tied = false;
    for (int32_t i = 0; class->n > 1 && !*tied && i < class->role->ninstr; i++) {
        const luo_instr *in = &class->role->instr[i];
        int32_t id, n = 1;
        if (!is_call(c->net->set, in)) continue;
        LUO_TRY(call_id(c, class, 0, in, &id));
        if (!c->apart[root_of(c->up, id)]) continue;
        LUO_TRY(count_groups(c, class, in, &n));
        *tied = n > 1;
    }
    return LUO_OK;
}

static luo_status untie(calls *c, bool *single, bool *any)
{
    LUO_TRY(find_all_rendezvous(c));
    for (int32_t l = 0; l < c->net->nclasses; l++) {
        const sim_class *class = &c->net->classes[l];
        bool tied;
        LUO_TRY(is_tied(c, class, &tied));
        for (int32_t m = 0; tied && m < class->n; m++) single[class->member[m]] = true;
        *any |= tied;
    }
    return LUO_OK;
}

luo_status sim_turns_untie(const sim_net *net, bool *single, bool *any)
{
    calls c = {.arena = luo_arena_new(1 << 16), .net = net};
    *any = false;
    if (!c.arena) return LUO_ENOMEM;
    luo_intern_init(&c.id, c.arena);
    const luo_status st = untie(&c, single, any);
    luo_arena_free(c.arena);
    return st;
}
