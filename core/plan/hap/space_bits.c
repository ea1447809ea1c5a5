/* A bit per fact, from the operation that may make it to the last that may read it; the bit is then
 * another fact's. */
#include <string.h>

#include "core/plan/hap/space_internal.h"

typedef struct lives {
    int32_t *made, *last, *bit; /* by fact; made INT32_MAX, last -1, bit -1: never */
    int32_t *owner;             /* by bit: fact, -1: free */
    int32_t nbits;
} lives;

static luo_status lives_new(luo_arena *arena, const luo_hap_space *space, lives *l, luo_err *err)
{
    *l = (lives){LUO_NEW_N(arena, int32_t, space->nfacts), LUO_NEW_N(arena, int32_t, space->nfacts),
                 LUO_NEW_N(arena, int32_t, space->nfacts), LUO_NEW_N(arena, int32_t, space->nfacts),
                 0};
    if (!l->made || !l->last || !l->bit || !l->owner) return luo_err_nomem(err);
    for (int32_t f = 0; f < space->nfacts; f++) {
        l->made[f] = INT32_MAX;
        l->last[f] = l->bit[f] = l->owner[f] = -1;
    }
    return LUO_OK;
}

/* Bars are read too. The loss is read at the end. */
static void find_lives(const luo_hap_space *space, lives *l)
{
    for (int32_t i = space->ntriples; i-- > 0;) {
        const luo_hap_triple *triple = &space->triple[i];
        for (int32_t p = 0; p < triple->npost; p++) l->made[triple->post[p]] = triple->op;
    }
    for (int32_t i = 0; i < space->ntriples; i++) {
        const luo_hap_triple *triple = &space->triple[i];
        for (int32_t p = 0; p < triple->npre; p++) l->last[triple->pre[p]] = triple->op;
        for (int32_t p = 0; p < triple->nbar; p++) l->last[triple->bar[p]] = triple->op;
    }
    for (int32_t r = 0; r < 2; r++) {
        const luo_rel rel = {.kind = r ? LUO_REL_I : LUO_REL_R};
        l->last[luo_hap_space_fact_id(space, space->graph->loss, rel)] = space->graph->nops;
    }
}

/* Bits that facts of before operation o leave become free, then facts of o take the lowest. */
static void assign(const luo_hap_space *space, lives *l, int32_t o)
{
    for (int32_t b = 0; b < l->nbits; b++)
        if (l->owner[b] >= 0 && l->last[l->owner[b]] <= o) l->owner[b] = -1;
    for (int32_t i = space->first[o]; i < space->first[o + 1]; i++)
        for (int32_t p = 0; p < space->triple[i].npost; p++) {
            const int32_t f = space->triple[i].post[p];
            int32_t b = 0;
            if (l->bit[f] >= 0 || l->last[f] <= o) continue;
            while (b < l->nbits && l->owner[b] >= 0) b++;
            if (b == l->nbits) l->nbits++;
            l->owner[b] = f;
            l->bit[f] = b;
        }
}

static void set(uint64_t *bits, int32_t b)
{
    if (b >= 0) bits[b / 64] |= UINT64_C(1) << (b % 64);
}

static void set_triples(luo_hap_space *space, const lives *l)
{
    for (int32_t i = 0; i < space->ntriples; i++) {
        const luo_hap_triple *triple = &space->triple[i];
        const size_t row = (size_t)i * (size_t)space->words;
        for (int32_t p = 0; p < triple->npre; p++) set(&space->pre[row], l->bit[triple->pre[p]]);
        for (int32_t p = 0; p < triple->nbar; p++) set(&space->bar[row], l->bit[triple->bar[p]]);
        for (int32_t p = 0; p < triple->npost; p++)
            if (l->last[triple->post[p]] > triple->op)
                set(&space->post[row], l->bit[triple->post[p]]);
    }
}

static void set_kept(luo_hap_space *space, const lives *l)
{
    for (int32_t f = 0; f < space->nfacts; f++)
        for (int32_t o = l->made[f]; l->bit[f] >= 0 && ++o < l->last[f];)
            set(&space->keep[(size_t)o * (size_t)space->words], l->bit[f]);
    for (int32_t r = 0; r < 2; r++) {
        const luo_rel rel = {.kind = r ? LUO_REL_I : LUO_REL_R};
        set(&space->final[r * space->words],
            l->bit[luo_hap_space_fact_id(space, space->graph->loss, rel)]);
    }
}

luo_status luo_hap_space_bits(luo_arena *arena, luo_hap_space *space, luo_err *err)
{
    lives l;
    LUO_TRY(lives_new(arena, space, &l, err));
    find_lives(space, &l);
    for (int32_t o = 0; o < space->graph->nops; o++) assign(space, &l, o);
    space->words = l.nbits / 64 + 1;
    const size_t words = (size_t)space->words, all = (size_t)space->ntriples * words;
    space->pre = LUO_NEW_N(arena, uint64_t, all);
    space->post = LUO_NEW_N(arena, uint64_t, all);
    space->bar = LUO_NEW_N(arena, uint64_t, all);
    space->keep = LUO_NEW_N(arena, uint64_t, (size_t)space->graph->nops * words);
    space->final = LUO_NEW_N(arena, uint64_t, 2 * words);
    if (!space->pre || !space->post || !space->bar || !space->keep || !space->final)
        return luo_err_nomem(err);
    set_triples(space, &l);
    set_kept(space, &l);
    return LUO_OK;
}
