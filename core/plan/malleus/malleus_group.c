/* Level 1 of the straggler planner: ways to cut a node into tensor-parallel groups
 * (docs/planners.md#groups-of-a-node).
 *
 * Devices stand in one order, healthy ones by number and then stragglers from mild to bad; every
 * way is a list of sizes over that order, or over one in which a block of mild stragglers moved. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/malleus/malleus_internal.h"

enum { BEST = 3, SPLITS = 2, TRIES = 100000 }; /* K_alt; what split2 adds, and its budget */

typedef struct cut { /* sizes over an order of the node's devices */
    double score;
    int32_t n;
    int32_t *size, *order;
} cut;

typedef struct cuts { /* the best of those offered, distinct scores, best first */
    int32_t n, most;
    cut at[BEST + SPLITS];
} cuts;

typedef struct cutter {
    luo_arena *arena, *scratch;
    const luo_malleus_in *in;
    const luo_malleus_device *dev; /* of the node */
    int32_t n, slow;               /* devices; how many of them are stragglers */
    int32_t *sorted, *order, *size;
    double *rate; /* of device i of the node; 1 below the threshold */
    double *key;  /* what they are sorted by */
    cuts best, splits;
    int32_t tried; /* splits */
    bool nomem;
} cutter;

double luo_mal_rate(const luo_malleus_in *in, double rate)
{
    return rate < in->threshold || rate < 1 ? 1 : rate;
}

static int32_t halvings(int32_t tp, int32_t size)
{
    int32_t k = 0;
    while (tp >> k > size) k++;
    return k;
}

static double group_y(const cutter *c, const int32_t *devices, int32_t size)
{
    const luo_malleus_kind *kind = &c->in->kinds[c->dev[0].kind];
    double worst = 1;
    for (int32_t i = 0; i < size; i++) worst = fmax(worst, c->rate[devices[i]]);
    return kind->alpha[halvings(c->in->tp, size)] * kind->base * worst;
}

static double score(const cutter *c, const int32_t *order, const int32_t *size, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; order += size[i++]) sum += 1 / group_y(c, order, size[i]);
    return sum;
}

static bool alike(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(a, b);
}

/* Keeps c->size[0..n) over c->order if its score is new and among the best. */
static void offer(cutter *c, cuts *to, int32_t n)
{
    if (n == 0) return;
    const double r = score(c, c->order, c->size, n);
    int32_t at = 0;
    for (int32_t i = 0; i < to->n; i++)
        if (alike(to->at[i].score, r)) return;
    while (at < to->n && to->at[at].score > r) at++;
    if (at == to->most) return;
    cut new = {r, n, LUO_NEW_N(c->scratch, int32_t, n), LUO_NEW_N(c->scratch, int32_t, c->n)};
    if (!new.size || !new.order) {
        c->nomem = true;
        return;
    }
    memcpy(new.size, c->size, (size_t)n * sizeof *new.size);
    memcpy(new.order, c->order, (size_t)c->n * sizeof *new.order);
    if (to->n < to->most) to->n++;
    memmove(&to->at[at + 1], &to->at[at], (size_t)(to->n - 1 - at) * sizeof *to->at);
    to->at[at] = new;
}

/* Full groups over `fixed` devices, then b, b/2, .. as long as they fit; 0: not even b. */
static int32_t halving_run(cutter *c, int32_t fixed, int32_t b)
{
    int32_t n = 0, left = c->n - fixed;
    for (int32_t at = 0; at < fixed; at += c->in->tp) c->size[n++] = c->in->tp;
    if (b > left) return 0;
    for (; b >= 1 && b <= left; b /= 2) {
        c->size[n++] = b;
        left -= b;
    }
    return n;
}

static void halving_runs(cutter *c)
{
    const int32_t tp = c->in->tp;
    const int32_t fixed = c->n % tp == 0 ? c->n - tp : c->n / tp * tp;
    for (int32_t b = tp; b >= 1; b /= 2) offer(c, &c->best, halving_run(c, fixed, b));
}

/* The q mildest stragglers moved e places to the left. */
static void move_block(cutter *c, int32_t q, int32_t e)
{
    const int32_t healthy = c->n - c->slow, from = healthy - e;
    int32_t *to = c->order;
    memcpy(to, c->sorted, (size_t)c->n * sizeof *to);
    memcpy(to + from, c->sorted + healthy, (size_t)q * sizeof *to);
    memcpy(to + from + q, c->sorted + from, (size_t)e * sizeof *to);
}

static void halving(cutter *c)
{
    move_block(c, 0, 0);
    halving_runs(c);
    for (int32_t q = 1; q < c->slow; q++)
        for (int32_t e = 1; e <= c->n - c->slow; e++) {
            move_block(c, q, e);
            halving_runs(c);
        }
}

/* Full groups of the sorted order: a slow full group, nothing dropped. It has a place even when
 * its score is low, since no other way keeps the stages as few. */
static void keep(cutter *c)
{
    const int32_t tp = c->in->tp, n = c->n / tp;
    if (c->n % tp) return;
    move_block(c, 0, 0);
    for (int32_t i = 0; i < n; i++) c->size[i] = tp;
    const double r = score(c, c->order, c->size, n);
    for (int32_t i = 0; i < c->best.n; i++)
        if (alike(c->best.at[i].score, r)) return;
    if (c->best.n == c->best.most) c->best.n--;
    offer(c, &c->best, n);
}

/* Continues a split of the sorted order, `used` devices of which are in c->size[0..n), by smaller
 * groups in any order, each size at most twice; what is left at the end is dropped. */
static void split_on(cutter *c, int32_t n, int32_t used, int32_t *times)
{
    if (c->tried++ > TRIES) return; /* nodes of more than 32 only */
    offer(c, &c->splits, n);
    for (int32_t b = c->in->tp / 2, k = 0; b >= 1; b /= 2, k++) {
        if (times[k] == 2 || used + b > c->n) continue;
        c->size[n] = b;
        times[k]++;
        split_on(c, n + 1, used + b, times);
        times[k]--;
    }
}

static void split2(cutter *c)
{
    const int32_t tp = c->in->tp, least = (c->n - c->slow) / tp;
    int32_t times[32] = {0};
    move_block(c, 0, 0);
    c->tried = 0;
    for (int32_t full = least; full * tp <= c->n; full++) {
        for (int32_t i = 0; i < full; i++) c->size[i] = tp;
        split_on(c, full, full * tp, times);
    }
}

static void make_alt(cutter *c, const cut *from, luo_mal_alt *out)
{
    luo_malleus_group *group = LUO_NEW_N(c->arena, luo_malleus_group, from->n);
    int32_t *devices = LUO_NEW_N(c->arena, int32_t, c->n);
    if (!group || !devices) {
        c->nomem = true;
        return;
    }
    const int32_t *order = from->order;
    for (int32_t i = 0; i < from->n; i++) {
        const int32_t size = from->size[i];
        group[i] = (luo_malleus_group){c->dev[0].node, c->dev[0].kind, size, devices,
                                       group_y(c, order, size)};
        for (int32_t k = 0; k < size; k++) devices[k] = c->dev[order[k]].device;
        qsort(devices, (size_t)size, sizeof *devices, luo_vec_by_int32);
        devices += size;
        order += size;
    }
    *out = (luo_mal_alt){from->n, group, from->score};
}

/* A healthy device whose tp neighbours of the base plan are not all here and healthy. */
static bool alone(const cutter *c, int32_t i)
{
    const int32_t block = c->dev[i].device / c->in->tp;
    int32_t healthy = 0;
    for (int32_t k = 0; k < c->n; k++)
        healthy += c->rate[k] == 1 && c->dev[k].device / c->in->tp == block;
    return healthy < c->in->tp;
}

/* Healthy devices first, then stragglers by rate; by number on ties. Among the healthy, which are
 * alike to every number of a plan, those that can go on as the group they are stand first (differs:
 * docs/planners.md#groups-of-a-node sorts them by number alone and so regroups the whole node). */
static void sort_devices(cutter *c)
{
    c->slow = 0;
    for (int32_t i = 0; i < c->n; i++) {
        c->rate[i] = luo_mal_rate(c->in, c->dev[i].rate);
        c->slow += c->rate[i] > 1;
    }
    for (int32_t i = 0; i < c->n; i++) {
        int32_t at = i;
        c->key[i] = c->rate[i] > 1 ? 1 + c->rate[i] : alone(c, i);
        for (; at > 0 && c->key[c->sorted[at - 1]] > c->key[i]; at--)
            c->sorted[at] = c->sorted[at - 1];
        c->sorted[at] = i;
    }
}

static void add_splits(cutter *c, luo_mal_node *out)
{
    split2(c);
    for (int32_t i = 0, added = 0; i < c->splits.n && added < SPLITS; i++) {
        bool known = false;
        for (int32_t k = 0; k < out->nalts; k++)
            known |= alike(out->alts[k].score, c->splits.at[i].score);
        if (known) continue;
        make_alt(c, &c->splits.at[i], &out->alts[out->nalts++]);
        added++;
    }
}

static void cut_node(cutter *c, luo_mal_node *out)
{
    c->best = (cuts){.most = BEST};
    c->splits = (cuts){.most = BEST + SPLITS}; /* some may be known */
    sort_devices(c);
    if (c->slow > 0 || c->n % c->in->tp != 0) halving(c);
    keep(c);
    for (int32_t i = 0; i < c->best.n && !c->nomem; i++)
        make_alt(c, &c->best.at[i], &out->alts[out->nalts++]);
    if (c->in->split2 && c->slow > 0 && !c->nomem) add_splits(c, out);
}

static bool same_snapshot(const luo_malleus_in *in, const luo_mal_node *a, const luo_mal_node *b,
                          const double *rate)
{
    return a->n == b->n && in->devices[a->first].kind == in->devices[b->first].kind &&
           memcmp(rate + a->first, rate + b->first, (size_t)a->n * sizeof *rate) == 0;
}

/* Nodes with one alternative need no like: they are never chosen between. */
static void find_like(const luo_malleus_in *in, luo_mal_node *nodes, int32_t n, const double *rate)
{
    for (int32_t i = 0; i < n; i++) {
        nodes[i].like = i;
        for (int32_t k = 0; k < i && nodes[i].nalts > 1; k++) {
            if (nodes[k].like != k || nodes[k].nalts != nodes[i].nalts) continue;
            if (!same_snapshot(in, &nodes[k], &nodes[i], rate)) continue;
            nodes[i].like = k;
            break;
        }
    }
}

/* Devices of another kind in the same node are cut as if they stood in another one. */
static int32_t node_end(const luo_malleus_in *in, int32_t first)
{
    const luo_malleus_device *device = in->devices;
    int32_t end = first;
    while (end < in->ndevices && device[end].node == device[first].node &&
           device[end].kind == device[first].kind)
        end++;
    return end;
}

static bool make_cutter(luo_arena *arena, luo_arena *scratch, const luo_malleus_in *in, cutter *c)
{
    const int32_t n = in->ndevices;
    *c = (cutter){.arena = arena, .scratch = scratch, .in = in,
                  .sorted = LUO_NEW_N(scratch, int32_t, n),
                  .order = LUO_NEW_N(scratch, int32_t, n),
                  .size = LUO_NEW_N(scratch, int32_t, n), .rate = LUO_NEW_N(scratch, double, n),
                  .key = LUO_NEW_N(scratch, double, n)};
    return c->sorted && c->order && c->size && c->rate && c->key;
}

luo_status luo_mal_nodes(luo_arena *arena, const luo_malleus_in *in, luo_mal_node **out, int32_t *n,
                         luo_err *err)
{
    luo_arena *scratch = luo_arena_new(0);
    double *rates = LUO_NEW_N(arena, double, in->ndevices); /* sorted within each node */
    cutter c;
    int32_t nodes = 0;
    bool ok = scratch && rates && make_cutter(arena, scratch, in, &c);

    for (int32_t i = 0; i < in->ndevices; i = node_end(in, i)) nodes++;
    luo_mal_node *node = LUO_NEW_N(arena, luo_mal_node, nodes);
    ok = ok && node;
    for (int32_t i = 0, first = 0; ok && i < nodes; i++) {
        const size_t mark = luo_arena_mark(scratch);
        c.n = node_end(in, first) - first;
        c.dev = &in->devices[first];
        node[i] = (luo_mal_node){.first = first, .n = c.n};
        cut_node(&c, &node[i]);
        for (int32_t k = 0; k < c.n; k++) rates[first + k] = c.rate[c.sorted[k]];
        node[i].snapshot = luo_hash_bytes(LUO_HASH_EMPTY, &c.dev[0].kind, sizeof c.dev[0].kind);
        node[i].snapshot = luo_hash_bytes(node[i].snapshot, rates + first,
                                          (size_t)c.n * sizeof *rates);
        luo_arena_reset(scratch, mark);
        first += c.n;
        ok = !c.nomem;
    }
    luo_arena_free(scratch);
    if (!ok) return luo_err_nomem(err);
    find_like(in, node, nodes, rates);
    *out = node;
    *n = nodes;
    return LUO_OK;
}
