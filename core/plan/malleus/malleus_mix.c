/* Combinations of the nodes' alternatives (docs/planners.md#groups-to-pipelines): which groups
 * there are to deal.
 *
 * Nodes that look alike are interchangeable, so a combination only says how many of them take
 * which alternative; those counts, not the nodes, are held against the limit of 27. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/malleus/malleus_internal.h"

enum { FEW = 3 }; /* all nodes on their first, second, third alternative */

typedef struct mixer {
    luo_arena *arena;
    const luo_malleus_in *in;
    const luo_mal_node *nodes;
    int32_t nnodes;
    int32_t *choice; /* alternative of every node */
    int32_t *last;   /* while choosing: the alternative of the node alike before this one */
    luo_mal_mix *out;
    int32_t n, ngroups; /* ngroups: room in rows */
    const luo_malleus_group **rows;
    bool nomem;
} mixer;

/* Slow groups first, where 1F1B memory is scarcest and layers are few. */
static int class_order(const luo_malleus_group *a, const luo_malleus_group *b)
{
    if (a->y != b->y) return a->y > b->y ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static int by_class(const void *a, const void *b)
{
    const luo_malleus_group *group = *(const luo_malleus_group *const *)a;
    const luo_malleus_group *malleus_group = *(const luo_malleus_group *const *)b;
    const int order = class_order(group, malleus_group);
    return order ? order
                 : (group->devices[0] > malleus_group->devices[0]) -
                       (group->devices[0] < malleus_group->devices[0]);
}

static int32_t gather(mixer *x)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x->nnodes; i++) {
        const luo_mal_alt *alt = &x->nodes[i].alts[x->choice[i]];
        for (int32_t g = 0; g < alt->n; g++) x->rows[n++] = &alt->groups[g];
    }
    qsort(x->rows, (size_t)n, sizeof(luo_malleus_group *), by_class);
    return n;
}

static bool fill_classes(mixer *x, luo_mal_mix *mix)
{
    const luo_malleus_group **rows = LUO_NEW_N(x->arena, const luo_malleus_group *, mix->ngroups);
    luo_mal_class *cls = LUO_NEW_N(x->arena, luo_mal_class, mix->ngroups);
    uint64_t *salt = LUO_NEW_N(x->arena, uint64_t, mix->ngroups);
    if (!rows || !cls || !salt) return false;
    memcpy(rows, x->rows, (size_t)mix->ngroups * sizeof *rows);
    for (int32_t i = 0; i < mix->ngroups; i++) {
        if (i == 0 || class_order(rows[i - 1], rows[i]) != 0)
            cls[mix->ncls++] =
                (luo_mal_class){rows[i]->y, rows[i]->size, rows[i]->kind, 0, rows + i};
        cls[mix->ncls - 1].n++;
    }
    for (int32_t c = 0; c < mix->ncls; c++) {
        salt[c] = luo_rng_at(0, (uint64_t)c);
        mix->weight += cls[c].n / cls[c].y;
    }
    mix->cls = cls;
    mix->salt = salt;
    mix->bound = (double)x->in->layers * (double)x->in->micro_batches / mix->weight;
    return true;
}

static void add_mix(mixer *x)
{
    luo_mal_mix mix = {.ngroups = gather(x)};
    if (!fill_classes(x, &mix)) {
        x->nomem = true;
        return;
    }
    int32_t *choice = LUO_NEW_N(x->arena, int32_t, x->nnodes);
    if (!choice) {
        x->nomem = true;
        return;
    }
    memcpy(choice, x->choice, (size_t)x->nnodes * sizeof *choice);
    mix.choice = choice;
    assert(x->n < LUO_MAL_MIXES);
    x->out[x->n++] = mix;
}

/* Ways for n alike nodes to take a alternatives: multisets. Stops counting above the limit. */
static int64_t ways(int32_t n, int32_t a)
{
    int64_t w = 1;
    for (int32_t k = 1; k < a && w <= LUO_MAL_MIXES; k++) w = w * (n + k) / k;
    return w;
}

static bool all_fit(const mixer *x)
{
    int64_t all = 1;
    for (int32_t i = 0; i < x->nnodes && all <= LUO_MAL_MIXES; i++) {
        int32_t alike = 1;
        if (x->nodes[i].nalts == 1 || x->nodes[i].like != i) continue;
        for (int32_t k = i + 1; k < x->nnodes; k++)
            alike += x->nodes[k].nalts > 1 && x->nodes[k].like == i;
        all *= ways(alike, x->nodes[i].nalts);
    }
    return all <= LUO_MAL_MIXES;
}

/* Chooses for nodes i.. in every way; alike nodes choose in rising order. */
static void choose(mixer *x, int32_t i)
{
    while (i < x->nnodes && x->nodes[i].nalts == 1) i++;
    if (i == x->nnodes) {
        add_mix(x);
        return;
    }
    const int32_t like = x->nodes[i].like, before = x->last[like];
    for (int32_t a = before; a < x->nodes[i].nalts; a++) {
        x->choice[i] = x->last[like] = a;
        choose(x, i + 1);
    }
    x->choice[i] = 0;
    x->last[like] = before;
}

static void choose_few(mixer *x)
{
    for (int32_t a = 0; a < FEW; a++) {
        for (int32_t i = 0; i < x->nnodes; i++)
            x->choice[i] = a < x->nodes[i].nalts ? a : x->nodes[i].nalts - 1;
        add_mix(x);
    }
}

/* Heavier first; then by classes, so that no number of a node decides. 0: the same classes. */
static int mix_order(const luo_mal_mix *a, const luo_mal_mix *b)
{
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    if (a->ncls != b->ncls) return a->ncls < b->ncls ? -1 : 1;
    for (int32_t c = 0; c < a->ncls; c++) {
        const int order = class_order(a->cls[c].members[0], b->cls[c].members[0]);
        if (order) return order;
        if (a->cls[c].n != b->cls[c].n) return a->cls[c].n > b->cls[c].n ? -1 : 1;
    }
    return 0;
}

/* Stable insertion; of mixes with the same classes the first stays. */
static int32_t sort_mixes(luo_mal_mix *mix, int32_t n)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++) {
        const luo_mal_mix new = mix[i];
        int32_t at = kept;
        while (at > 0 && mix_order(&mix[at - 1], &new) > 0) at--;
        if (at > 0 && mix_order(&mix[at - 1], &new) == 0) continue;
        memmove(&mix[at + 1], &mix[at], (size_t)(kept - at) * sizeof *mix);
        mix[at] = new;
        kept++;
    }
    for (int32_t i = 0; i < kept; i++) mix[i].order = i;
    return kept;
}

static luo_status make_mixer(luo_arena *arena, const luo_malleus_in *in, const luo_mal_node *nodes,
                             int32_t nnodes, mixer *x, luo_err *err)
{
    *x = (mixer){.arena = arena, .in = in, .nodes = nodes, .nnodes = nnodes,
                 .choice = LUO_NEW_N(arena, int32_t, nnodes),
                 .last = LUO_NEW_N(arena, int32_t, nnodes),
                 .out = LUO_NEW_N(arena, luo_mal_mix, LUO_MAL_MIXES),
                 .rows = LUO_NEW_N(arena, const luo_malleus_group *, in->ndevices)};
    return x->choice && x->last && x->out && x->rows ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_mal_mixes(luo_arena *arena, const luo_malleus_in *in, const luo_mal_node *nodes,
                         int32_t nnodes, luo_mal_mix **out, int32_t *n, bool *all, luo_err *err)
{
    mixer x;
    LUO_TRY(make_mixer(arena, in, nodes, nnodes, &x, err));
    *all = all_fit(&x);
    if (*all) choose(&x, 0);
    else choose_few(&x);
    if (x.nomem) return luo_err_nomem(err);
    *n = sort_mixes(x.out, x.n);
    *out = x.out;
    return LUO_OK;
}

bool luo_mal_same_mix(const luo_mal_mix *a, const luo_mal_mix *b)
{
    return mix_order(a, b) == 0;
}

luo_status luo_mal_mix_of(luo_arena *arena, const luo_malleus_in *in, const luo_mal_node *nodes,
                          int32_t nnodes, const int32_t *choice, luo_mal_mix *out, luo_err *err)
{
    mixer x;
    LUO_TRY(make_mixer(arena, in, nodes, nnodes, &x, err));
    memcpy(x.choice, choice, (size_t)nnodes * sizeof *choice);
    add_mix(&x);
    if (x.nomem) return luo_err_nomem(err);
    *out = x.out[0];
    return LUO_OK;
}

luo_status luo_mal_whole_mix(luo_arena *arena, const luo_malleus_in *in, const luo_mal_node *nodes,
                             int32_t nnodes, luo_mal_mix *out, luo_err *err)
{
    mixer x;
    LUO_TRY(make_mixer(arena, in, nodes, nnodes, &x, err));
    for (int32_t i = 0; i < nnodes; i++) {
        int32_t a = 0;
        while (a < nodes[i].nalts && nodes[i].alts[a].n * in->tp != nodes[i].n) a++;
        if (a == nodes[i].nalts || nodes[i].alts[a].groups[0].size != in->tp) return LUO_ENO;
        x.choice[i] = a;
    }
    add_mix(&x);
    if (x.nomem) return luo_err_nomem(err);
    *out = x.out[0];
    return LUO_OK;
}
