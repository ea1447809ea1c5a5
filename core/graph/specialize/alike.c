/* alike.c: roles that differ only in where the pieces of buckets lie. */
#include <string.h>

#include "core/base/hash.h"
#include "core/graph/program/program.h"

static bool same_ints(const int32_t *a, const int32_t *b, int32_t n)
{
    return n == 0 || a == b || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static bool same_pieces(const luo_instr *a, const luo_instr *b)
{
    bool same = a->npieces == b->npieces;
    for (int32_t k = 0; same && k < a->npieces; k++)
        same = a->piece[k].buffer == b->piece[k].buffer && a->piece[k].count == b->piece[k].count;
    return same;
}

static bool same_instr(const luo_instr *a, const luo_instr *b)
{
    return a->kind == b->kind && a->stream == b->stream && a->phase == b->phase &&
           a->coll == b->coll && a->lane == b->lane && a->recompute == b->recompute &&
           a->beside == b->beside && a->at_start == b->at_start && a->v == b->v &&
           a->variant == b->variant && a->op == b->op && a->exchange == b->exchange &&
           a->layer == b->layer && a->slot == b->slot && a->bytes == b->bytes &&
           a->flops == b->flops && a->cost.kind == b->cost.kind &&
           memcmp(a->cost.a, b->cost.a, sizeof a->cost.a) == 0 && a->nin == b->nin &&
           a->nout == b->nout && a->ndep == b->ndep && same_ints(a->in, b->in, a->nin) &&
           same_ints(a->out, b->out, a->nout) && same_ints(a->dep, b->dep, a->ndep) &&
           same_pieces(a, b);
}

static bool same_role(const luo_role *a, const luo_role *b)
{
    if (a->ninstr != b->ninstr || a->nseg != b->nseg || a->nbuf != b->nbuf ||
        a->nslot != b->nslot)
        return false;
    if (a->instr == b->instr && a->seg == b->seg) return true;
    for (int32_t i = 0; i < a->nseg; i++) {
        const luo_segment *segment = &a->seg[i], *y = &b->seg[i];
        if (segment->phase != y->phase || segment->chunk != y->chunk ||
            segment->tokens != y->tokens || segment->first != y->first || segment->n != y->n)
            return false;
    }
    for (int32_t i = 0; i < a->ninstr; i++)
        if (!same_instr(&a->instr[i], &b->instr[i])) return false;
    return true;
}

static uint64_t hash_of(const luo_role *role)
{
    uint64_t h = LUO_HASH_EMPTY;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        const int64_t key[] = {in->op, in->kind, in->lane, in->slot, in->bytes, in->flops};
        h = luo_hash_bytes(h, key, sizeof key);
    }
    return h;
}

luo_status luo_roles_alike(luo_arena *arena, const luo_programs *set, const int32_t **out)
{
    int32_t *first = LUO_NEW_N(arena, int32_t, set->nroles);
    int32_t *next = LUO_NEW_N(arena, int32_t, set->nroles); /* earlier one of the same hash */
    luo_map last = {0};
    luo_status st = first && next ? LUO_OK : LUO_ENOMEM;
    for (int32_t r = 0; st == LUO_OK && r < set->nroles; r++) {
        int64_t *at = luo_map_at(&last, hash_of(&set->roles[r]), -1);
        if (!at) {
            st = LUO_ENOMEM;
            break;
        }
        int32_t k = next[r] = (int32_t)*at;
        while (k >= 0 && (first[k] != k || !same_role(&set->roles[k], &set->roles[r]))) k = next[k];
        first[r] = k >= 0 ? k : r;
        *at = r;
    }
    luo_map_free(&last);
    *out = first;
    return st;
}
