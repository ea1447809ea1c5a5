/* A*, and the same relaxations layer by layer. */
#include "core/plan/hap/search.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"

enum { DOMINATORS = 64 }; /* states that a new one is compared with */

typedef struct node {
    double g;
    int32_t layer, parent, triple; /* triple: that led here */
    int32_t next;                  /* in its chain of the hash table; -1: last */
    bool closed;
} node;

typedef struct entry { /* of the heap */
    double f;
    int32_t node, layer;
    int64_t seq;
} entry;

typedef struct closed { /* the latest closed states of a layer; all are looked through */
    double *g;
    uint64_t *bits; /* [state][word] */
    int32_t n;
} closed;

typedef struct search {
    luo_arena *arena;
    const luo_hap_space *space;
    double *cost, *ahead;  /* by triple; by operation: least that is left */
    int32_t *kept, *first; /* triples that are the cheapest of their group, by operation */
    uint64_t *rows;        /* [kept][3][word]: facts that it needs, that bar it, that it leaves */
    node *nodes;
    uint64_t *bits; /* [node][word] */
    int32_t nnodes, cap_nodes, cap_bits, nwords;
    int32_t **table; /* by layer: heads of chains */
    int32_t *ntable, *in_layer;
    entry *heap;
    int32_t nheap, cap_heap;
    int64_t seq, pops;
    closed *closed; /* by layer */
} search;

/* ---- prices ---- */

static double penalty_of(const luo_hap_space *space, const luo_hap_numbers *numbers,
                         const luo_hap_cuts *cuts, const luo_hap_triple *triple)
{
    luo_hap_bytes part[LUO_HAP_BYTES_MOST];
    const int32_t n = luo_hap_bytes_of(space, triple, part);
    double most = 0;
    for (int32_t t = 0; t < numbers->ntypes; t++) {
        double bytes = 0;
        if (!(numbers->memory_bytes[t] > 0)) continue;
        for (int32_t i = 0; i < n; i++) {
            const int32_t row = part[i].seg * cuts->nextents + part[i].ext;
            bytes += part[i].bytes * (part[i].ext < 0 ? 1 : cuts->part[row * cuts->ntypes + t]);
        }
        most = fmax(most, bytes / numbers->memory_bytes[t]);
    }
    return most;
}

static luo_status price(search *s, const luo_hap_numbers *numbers, const double *shares,
                        double penalty, luo_err *err)
{
    const luo_hap_space *space = s->space;
    luo_hap_cuts *cuts;
    LUO_TRY(luo_hap_program_cuts(s->arena, space, numbers, shares, &cuts, err));
    for (int32_t i = 0; i < space->ntriples; i++) {
        const luo_hap_triple *triple = &space->triple[i];
        const luo_hap_stage stage = luo_hap_stage_cost(space, numbers, cuts, triple);
        s->cost[i] = stage.compute_s + stage.communication_s;
        if (penalty > 0) s->cost[i] += penalty * penalty_of(space, numbers, cuts, triple);
    }
    return LUO_OK;
}

enum { NEEDS, BARS, LEAVES };

static uint64_t *row_of(const search *s, int32_t kept, int which)
{
    return &s->rows[(size_t)(3 * kept + which) * (size_t)s->nwords];
}

/* Of triples with equal facts the cheapest, the first where they cost the same but for rounding. */
static void keep_cheapest(search *s, int32_t *best)
{
    const luo_hap_space *space = s->space;
    int32_t n = 0;
    for (int32_t i = 0; i < space->ntriples; i++) {
        const int32_t group = space->triple[i].group;
        if (group == i || s->cost[i] < s->cost[best[group]] * (1 - 1e-15)) best[group] = i;
    }
    for (int32_t o = 0; o < space->graph->nops; o++) {
        s->first[o] = n;
        for (int32_t i = space->first[o]; i < space->first[o + 1]; i++)
            if (best[space->triple[i].group] == i) s->kept[n++] = i;
    }
    s->first[space->graph->nops] = n;
    for (int32_t k = 0; k < n; k++) {
        const size_t from = (size_t)s->kept[k] * (size_t)s->nwords,
                     words = (size_t)s->nwords * sizeof *s->rows;
        memcpy(row_of(s, k, NEEDS), &space->pre[from], words);
        memcpy(row_of(s, k, BARS), &space->bar[from], words);
        memcpy(row_of(s, k, LEAVES), &space->post[from], words);
    }
    s->ahead[space->graph->nops] = 0;
    for (int32_t o = space->graph->nops; o-- > 0;) {
        double least = INFINITY;
        for (int32_t i = s->first[o]; i < s->first[o + 1]; i++)
            least = fmin(least, s->cost[s->kept[i]]);
        s->ahead[o] = s->space->opts.compat ? 0 : s->ahead[o + 1] + least;
    }
}

static luo_status search_new(luo_arena *arena, const luo_hap_space *space, search *s, luo_err *err)
{
    const size_t layers = (size_t)space->graph->nops + 1;
    *s = (search){.arena = arena,
                  .space = space,
                  .nwords = space->words,
                  .cost = LUO_NEW_N(arena, double, space->ntriples),
                  .ahead = LUO_NEW_N(arena, double, layers),
                  .kept = LUO_NEW_N(arena, int32_t, space->ntriples),
                  .first = LUO_NEW_N(arena, int32_t, layers),
                  .table = LUO_NEW_N(arena, int32_t *, layers),
                  .ntable = LUO_NEW_N(arena, int32_t, layers),
                  .in_layer = LUO_NEW_N(arena, int32_t, layers),
                  .rows = LUO_NEW_N(arena, uint64_t, 3 * space->words * space->ntriples),
                  .closed = LUO_NEW_N(arena, closed, layers)};
    if (!s->cost || !s->ahead || !s->kept || !s->first || !s->table || !s->ntable || !s->in_layer ||
        !s->rows || !s->closed)
        return luo_err_nomem(err);
    return LUO_OK;
}

/* ---- states ---- */

static uint64_t *bits_of(const search *s, int32_t at)
{
    return &s->bits[(size_t)at * (size_t)s->nwords];
}

static uint64_t hash_of(const search *s, const uint64_t *bits)
{
    return luo_hash_bytes(LUO_HASH_EMPTY, bits, (size_t)s->nwords * sizeof *bits);
}

static luo_status grow_table(search *s, int32_t layer, luo_err *err)
{
    const int32_t n = s->ntable[layer] ? 4 * s->ntable[layer] : 64;
    int32_t *table = LUO_NEW_N(s->arena, int32_t, n);
    if (!table) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) table[i] = -1;
    for (int32_t i = 0; i < s->ntable[layer]; i++)
        for (int32_t at = s->table[layer][i], next; at >= 0; at = next) {
            int32_t *head = &table[hash_of(s, bits_of(s, at)) % (uint64_t)n];
            next = s->nodes[at].next;
            s->nodes[at].next = *head;
            *head = at;
        }
    s->table[layer] = table;
    s->ntable[layer] = n;
    return LUO_OK;
}

static int32_t find(const search *s, int32_t layer, const uint64_t *bits)
{
    if (s->ntable[layer] == 0) return -1;
    int32_t at = s->table[layer][hash_of(s, bits) % (uint64_t)s->ntable[layer]];
    while (at >= 0 && memcmp(bits_of(s, at), bits, (size_t)s->nwords * sizeof *bits) != 0)
        at = s->nodes[at].next;
    return at;
}

static luo_status add_node(search *s, int32_t layer, const uint64_t *bits, int32_t *out,
                           luo_err *err)
{
    if (s->in_layer[layer] >= s->ntable[layer]) LUO_TRY(grow_table(s, layer, err));
    if (!LUO_VEC_ROOM_IN(s->arena, s->nodes, s->nnodes, s->cap_nodes)) return luo_err_nomem(err);
    if ((s->nnodes + 1) * s->nwords > s->cap_bits) {
        const int32_t was = s->cap_bits;
        s->cap_bits = s->cap_nodes * s->nwords;
        s->bits = luo_arena_grow(s->arena, s->bits, (size_t)was * sizeof *bits,
                                 (size_t)s->cap_bits * sizeof *bits);
        if (!s->bits) return luo_err_nomem(err);
    }
    int32_t *head = &s->table[layer][hash_of(s, bits) % (uint64_t)s->ntable[layer]];
    *out = s->nnodes++;
    memcpy(bits_of(s, *out), bits, (size_t)s->nwords * sizeof *bits);
    s->nodes[*out] =
        (node){.g = INFINITY, .layer = layer, .parent = -1, .triple = -1, .next = *head};
    *head = *out;
    s->in_layer[layer]++;
    return LUO_OK;
}

/* ---- heap: least f, then the deepest, then the oldest ---- */

static bool before(const entry *a, const entry *b)
{
    if (a->f != b->f) return a->f < b->f;
    if (a->layer != b->layer) return a->layer > b->layer;
    return a->seq < b->seq;
}

static luo_status push(search *s, int32_t at, luo_err *err)
{
    const node *x = &s->nodes[at];
    const entry e = {x->g + s->ahead[x->layer], at, x->layer, s->seq++};
    if (!LUO_VEC_ROOM_IN(s->arena, s->heap, s->nheap, s->cap_heap)) return luo_err_nomem(err);
    int32_t i = s->nheap++;
    for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
    return LUO_OK;
}

static int32_t pop(search *s)
{
    const int32_t top = s->heap[0].node;
    const entry last = s->heap[--s->nheap];
    int32_t i = 0;
    for (int32_t child = 1; child < s->nheap; i = child, child = 2 * i + 1) {
        if (child + 1 < s->nheap && before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!before(&s->heap[child], &last)) {
            s->heap[i] = last;
            return top;
        }
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* ---- the search ---- */

static bool superset(const search *s, const uint64_t *a, const uint64_t *b)
{
    for (int32_t w = 0; w < s->nwords; w++)
        if (b[w] & ~a[w]) return false;
    return true;
}

static bool disjoint(const search *s, const uint64_t *a, const uint64_t *b)
{
    for (int32_t w = 0; w < s->nwords; w++)
        if (a[w] & b[w]) return false;
    return true;
}

static luo_status relax(search *s, int32_t from, int32_t kept, uint64_t *to, luo_err *err)
{
    const luo_hap_space *space = s->space;
    const uint64_t *have = bits_of(s, from), *leaves = row_of(s, kept, LEAVES);
    if (!superset(s, have, row_of(s, kept, NEEDS)) || !disjoint(s, have, row_of(s, kept, BARS)))
        return LUO_OK;
    const int32_t layer = s->nodes[from].layer, triple = s->kept[kept];
    const uint64_t *keep = &space->keep[(size_t)layer * (size_t)s->nwords];
    const double g = s->nodes[from].g + s->cost[triple];
    for (int32_t w = 0; w < s->nwords; w++) to[w] = (have[w] & keep[w]) | leaves[w];
    int32_t at = find(s, layer + 1, to);
    if (at < 0) LUO_TRY(add_node(s, layer + 1, to, &at, err));
    if (!(g < s->nodes[at].g) || s->nodes[at].closed) return LUO_OK;
    s->nodes[at].g = g;
    s->nodes[at].parent = from;
    s->nodes[at].triple = triple;
    return space->opts.layers ? LUO_OK : push(s, at, err);
}

static luo_status expand(search *s, int32_t at, uint64_t *scratch, luo_err *err)
{
    const int32_t layer = s->nodes[at].layer;
    for (int32_t i = s->first[layer]; i < s->first[layer + 1]; i++)
        LUO_TRY(relax(s, at, i, scratch, err));
    return LUO_OK;
}

/* Does a closed state of the layer have all of its facts, for no more? */
static bool dominated(const search *s, int32_t at)
{
    const node *x = &s->nodes[at];
    const closed *c = &s->closed[x->layer];
    const uint64_t *bits = bits_of(s, at);
    for (int32_t i = 0; i < c->n && i < DOMINATORS; i++)
        if (c->g[i] <= x->g && superset(s, &c->bits[(size_t)i * (size_t)s->nwords], bits))
            return true;
    return false;
}

static luo_status close_node(search *s, int32_t at, luo_err *err)
{
    closed *c = &s->closed[s->nodes[at].layer];
    if (!c->g) c->g = LUO_NEW_N(s->arena, double, DOMINATORS);
    if (!c->bits) c->bits = LUO_NEW_N(s->arena, uint64_t, DOMINATORS * s->nwords);
    if (!c->g || !c->bits) return luo_err_nomem(err);
    const int32_t i = c->n++ % DOMINATORS;
    c->g[i] = s->nodes[at].g;
    memcpy(&c->bits[(size_t)i * (size_t)s->nwords], bits_of(s, at),
           (size_t)s->nwords * sizeof *c->bits);
    return LUO_OK;
}

static bool is_final(const search *s, int32_t at)
{
    const uint64_t *bits = bits_of(s, at), *final = s->space->final;
    return !disjoint(s, bits, final) ||
           (!s->space->opts.compat && !disjoint(s, bits, final + s->nwords));
}

static luo_status best_first(search *s, uint64_t *scratch, int32_t *goal, luo_err *err)
{
    while (s->nheap > 0) {
        const int32_t at = pop(s);
        s->pops++;
        if (s->nodes[at].closed) continue;
        s->nodes[at].closed = true;
        if (s->nodes[at].layer == s->space->graph->nops) {
            if (!is_final(s, at)) continue;
            *goal = at;
            return LUO_OK;
        }
        /* a superset may be barred from what is free to the smaller one */
        if (!s->space->opts.compat && dominated(s, at)) continue;
        LUO_TRY(close_node(s, at, err));
        LUO_TRY(expand(s, at, scratch, err));
    }
    return LUO_OK;
}

/* States are made in the order of layers. */
static luo_status layer_by_layer(search *s, uint64_t *scratch, int32_t *goal, luo_err *err)
{
    for (int32_t at = 0; at < s->nnodes; at++) {
        s->pops++;
        if (s->nodes[at].layer < s->space->graph->nops)
            LUO_TRY(expand(s, at, scratch, err));
        else if (is_final(s, at) && (*goal < 0 || s->nodes[at].g < s->nodes[*goal].g))
            *goal = at;
    }
    return LUO_OK;
}

static luo_status run(search *s, int32_t *goal, luo_err *err)
{
    uint64_t *scratch = LUO_NEW_N(s->arena, uint64_t, s->nwords);
    int32_t start;
    if (!scratch) return luo_err_nomem(err);
    *goal = -1;
    LUO_TRY(add_node(s, 0, scratch, &start, err));
    s->nodes[start].g = 0;
    if (s->space->opts.layers) return layer_by_layer(s, scratch, goal, err);
    LUO_TRY(push(s, start, err));
    return best_first(s, scratch, goal, err);
}

static luo_status answer(luo_arena *arena, const search *s, int32_t goal, int32_t *choice,
                         const luo_hap_numbers *numbers, const double *shares,
                         luo_hap_program **out, luo_err *err)
{
    luo_hap_program *program = LUO_NEW(arena, luo_hap_program);
    if (!program) return luo_err_nomem(err);
    *program = (luo_hap_program){
        .space = s->space, .choice = choice, .states = s->nnodes, .pops = s->pops};
    for (int32_t at = goal; s->nodes[at].parent >= 0; at = s->nodes[at].parent)
        choice[s->nodes[at].layer - 1] = s->nodes[at].triple;
    LUO_TRY(luo_hap_cost(arena, program, numbers, shares, &program->cost_s, NULL, err));
    *out = program;
    return LUO_OK;
}

luo_status luo_hap_synth(luo_arena *arena, const luo_hap_space *space,
                         const luo_hap_numbers *numbers, const double *shares, double penalty,
                         luo_hap_program **out, luo_err *err)
{
    search s;
    int32_t goal = -1;
    luo_status st = LUO_OK;
    luo_arena *scratch = luo_arena_new(1 << 16);
    int32_t *choice = LUO_NEW_N(arena, int32_t, space->graph->nops);
    if (!scratch || !choice) {
        luo_arena_free(scratch);
        return luo_err_nomem(err);
    }
    LUO_TRY_OUT(search_new(scratch, space, &s, err));
    int32_t *best = LUO_NEW_N(scratch, int32_t, space->ntriples);
    LUO_TRY_OUT(best ? LUO_OK : luo_err_nomem(err));
    LUO_TRY_OUT(price(&s, numbers, shares, penalty, err));
    keep_cheapest(&s, best);
    LUO_TRY_OUT(run(&s, &goal, err));
    if (goal < 0) {
        st = luo_err_set(err, LUO_ENORULE,
                         "no legal program: no choice of rules leads to the loss; see --rules.");
        goto out;
    }
    LUO_TRY_OUT(answer(arena, &s, goal, choice, numbers, shares, out, err));
out:
    luo_arena_free(scratch);
    return st;
}
