/* Elimination of nodes with one input and one output; the core by trying its sources. */
#include "tests/parked/eliminate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A graph that shrinks. A shape without costs (node NULL) serves to count combinations. */
typedef struct net {
    int32_t n;
    const int32_t *configs;
    bool *alive;
    const double **node; /* cost by configuration */
    bool *joined;        /* [from * n + to] */
    const double **edge; /* [from * n + to]; NULL: no edge */
} net;

typedef struct folded { /* a node that an edge stands for */
    int32_t a, b, c;
    int32_t *argmin; /* [configuration of a][configuration of c]: that of b */
    struct folded *next;
} folded;

static bool make_net(luo_arena *arena, int32_t n, const int32_t *configs, bool costs, net *out)
{
    *out = (net){.n = n, .configs = configs};
    out->alive = LUO_NEW_N(arena, bool, n);
    out->joined = LUO_NEW_N(arena, bool, (int64_t)n *n);
    if (!out->alive || !out->joined) return false;
    if (!costs) return true;
    out->node = LUO_NEW_N(arena, const double *, n);
    out->edge = LUO_NEW_N(arena, const double *, (int64_t)n *n);
    return out->node && out->edge;
}

static bool copy_net(luo_arena *arena, const net *from, bool costs, net *out)
{
    const size_t n = (size_t)from->n;
    if (!make_net(arena, from->n, from->configs, costs, out)) return false;
    memcpy(out->alive, from->alive, n * sizeof *out->alive);
    memcpy(out->joined, from->joined, n * n * sizeof *out->joined);
    if (!costs) return true;
    memcpy(out->node, from->node, n * sizeof *out->node);
    memcpy(out->edge, from->edge, n * n * sizeof *out->edge);
    return true;
}

static int64_t at(const net *x, int32_t from, int32_t to)
{
    return (int64_t)from * x->n + to;
}

/* Inputs of a node; *which: the last of them. */
static int32_t inputs(const net *x, int32_t node, int32_t *which)
{
    int32_t n = 0;
    for (int32_t k = 0; k < x->n; k++)
        if (x->joined[at(x, k, node)]) {
            *which = k;
            n++;
        }
    return n;
}

static int32_t outputs(const net *x, int32_t node, int32_t *which)
{
    int32_t n = 0;
    for (int32_t k = 0; k < x->n; k++)
        if (x->joined[at(x, node, k)]) {
            *which = k;
            n++;
        }
    return n;
}

static int32_t nodes_left(const net *x)
{
    int32_t n = 0;
    for (int32_t k = 0; k < x->n; k++) n += x->alive[k];
    return n;
}

static void remove_node(net *x, int32_t node)
{
    x->alive[node] = false;
    for (int32_t k = 0; k < x->n; k++)
        x->joined[at(x, k, node)] = x->joined[at(x, node, k)] = false;
}

/* The lowest node that can be folded; false: there is none. */
static bool find_foldable(const net *x, folded *f)
{
    for (f->b = 0; f->b < x->n; f->b++)
        if (x->alive[f->b] && inputs(x, f->b, &f->a) == 1 && outputs(x, f->b, &f->c) == 1)
            return true;
    return false;
}

static int32_t lowest_source(const net *x)
{
    int32_t other;
    for (int32_t k = 0; k < x->n; k++)
        if (x->alive[k] && inputs(x, k, &other) == 0) return k;
    return -1;
}

/* ---- what the core costs ---- */

static void fold_shape(net *x)
{
    folded f = {0};
    while (find_foldable(x, &f)) {
        remove_node(x, f.b);
        x->joined[at(x, f.a, f.c)] = true;
    }
}

/* Combinations of a net that is folded; spoils it. A node without edges is alone: nothing is tried
 * for it. */
static double combinations(net *x)
{
    double all = 1;
    int32_t other;
    for (int32_t s = lowest_source(x); s >= 0; s = lowest_source(x)) {
        if (outputs(x, s, &other)) all *= x->configs[s];
        remove_node(x, s);
        fold_shape(x);
    }
    return all;
}

/* ---- costs ---- */

static bool fold_costs(luo_arena *arena, net *x, const folded *f)
{
    const int32_t na = x->configs[f->a], nb = x->configs[f->b], nc = x->configs[f->c];
    const double *ab = x->edge[at(x, f->a, f->b)], *bc = x->edge[at(x, f->b, f->c)];
    const double *ac = x->joined[at(x, f->a, f->c)] ? x->edge[at(x, f->a, f->c)] : NULL;
    double *sum = LUO_NEW_N(arena, double, (int64_t)na *nc);
    if (!sum) return false;
    for (int32_t i = 0; i < na; i++)
        for (int32_t k = 0; k < nc; k++) {
            double best = INFINITY;
            int32_t by = 0;
            for (int32_t j = 0; j < nb; j++) {
                const double v = ab[i * nb + j] + x->node[f->b][j] + bc[j * nc + k];
                if (v >= best) continue;
                best = v;
                by = j;
            }
            sum[i * nc + k] = best + (ac ? ac[i * nc + k] : 0);
            f->argmin[i * nc + k] = by;
        }
    x->edge[at(x, f->a, f->c)] = sum;
    return true;
}

/* Folds all that can be folded; *list: the last one first, which is the order to unfold in. */
static luo_status fold_all(luo_arena *arena, net *x, folded **list, luo_err *err)
{
    folded found = {0};
    while (find_foldable(x, &found)) {
        folded *f = LUO_NEW(arena, folded);
        if (!f) return luo_err_nomem(err);
        *f = found;
        f->argmin = LUO_NEW_N(arena, int32_t, (int64_t)x->configs[f->a] * x->configs[f->c]);
        if (!f->argmin || !fold_costs(arena, x, f)) return luo_err_nomem(err);
        remove_node(x, f->b);
        x->joined[at(x, f->a, f->c)] = true;
        f->next = *list;
        *list = f;
    }
    return LUO_OK;
}

static void unfold(const net *x, const folded *list, int32_t *config)
{
    for (const folded *f = list; f; f = f->next)
        config[f->b] = f->argmin[config[f->a] * x->configs[f->c] + config[f->c]];
}

/* The net without its source s, whose configuration i is charged to the nodes behind it. */
static bool fix_source(luo_arena *arena, const net *x, int32_t s, int32_t i, net *out)
{
    if (!copy_net(arena, x, true, out)) return false;
    for (int32_t k = 0; k < x->n; k++) {
        if (!x->joined[at(x, s, k)]) continue;
        const double *row = x->edge[at(x, s, k)] + (int64_t)i * x->configs[k];
        double *cost = LUO_NEW_N(arena, double, x->configs[k]);
        if (!cost) return false;
        for (int32_t j = 0; j < x->configs[k]; j++) cost[j] = x->node[k][j] + row[j];
        out->node[k] = cost;
    }
    remove_node(out, s);
    return true;
}

static luo_status solve(luo_arena *arena, net *x, int32_t *config, double *cost, luo_err *err);

/* Every configuration of the source, and the best of the rest for each. */
static luo_status try_source(luo_arena *arena, const net *x, int32_t s, int32_t *config,
                             double *cost, luo_err *err)
{
    int32_t *mine = LUO_NEW_N(arena, int32_t, x->n);
    if (!mine) return luo_err_nomem(err);
    *cost = INFINITY;
    for (int32_t i = 0; i < x->configs[s]; i++) {
        const size_t mark = luo_arena_mark(arena);
        net rest;
        double sum;
        if (!fix_source(arena, x, s, i, &rest)) return luo_err_nomem(err);
        LUO_TRY(solve(arena, &rest, mine, &sum, err));
        sum += x->node[s][i];
        if (i == 0 || sum < *cost) {
            *cost = sum;
            mine[s] = i;
            memcpy(config, mine, (size_t)x->n * sizeof *config);
        }
        luo_arena_reset(arena, mark);
    }
    return LUO_OK;
}

/* A node that nothing is joined to takes its cheapest configuration. Returns the sum. */
static double settle_alone(net *x, int32_t *config)
{
    double sum = 0;
    int32_t other;
    for (int32_t k = 0; k < x->n; k++) {
        if (!x->alive[k] || inputs(x, k, &other) || outputs(x, k, &other)) continue;
        config[k] = 0;
        for (int32_t i = 1; i < x->configs[k]; i++)
            if (x->node[k][i] < x->node[k][config[k]]) config[k] = i;
        sum += x->node[k][config[k]];
        remove_node(x, k);
    }
    return sum;
}

/* Spoils the net. */
static luo_status solve(luo_arena *arena, net *x, int32_t *config, double *cost, luo_err *err)
{
    folded *list = NULL;
    double rest = 0;
    LUO_TRY(fold_all(arena, x, &list, err));
    const double alone = settle_alone(x, config);
    const int32_t source = lowest_source(x);
    if (source >= 0) {
        int32_t *core = LUO_NEW_N(arena, int32_t, x->n);
        if (!core) return luo_err_nomem(err);
        LUO_TRY(try_source(arena, x, source, core, &rest, err));
        for (int32_t k = 0; k < x->n; k++)
            if (x->alive[k]) config[k] = core[k];
    }
    unfold(x, list, config);
    *cost = alone + rest;
    return LUO_OK;
}

/* ---- the given graph ---- */

static bool add_edge(luo_arena *arena, net *x, const luo_auto_graph_edge *e)
{
    const int64_t cells = (int64_t)x->configs[e->from] * x->configs[e->to];
    const double *first = x->edge[at(x, e->from, e->to)];
    x->joined[at(x, e->from, e->to)] = true;
    x->edge[at(x, e->from, e->to)] = e->cost;
    if (!first) return true;
    double *sum = LUO_NEW_N(arena, double, cells);
    if (!sum) return false;
    for (int64_t i = 0; i < cells; i++) sum[i] = first[i] + e->cost[i];
    x->edge[at(x, e->from, e->to)] = sum;
    return true;
}

static luo_status load(luo_arena *arena, const luo_auto_graph *graph, net *x, luo_err *err)
{
    if (!make_net(arena, graph->nodes, graph->configs, true, x)) return luo_err_nomem(err);
    for (int32_t k = 0; k < x->n; k++) {
        x->alive[k] = true;
        x->node[k] = graph->cost[k];
    }
    for (int32_t e = 0; e < graph->nedges; e++)
        if (!add_edge(arena, x, &graph->edge[e])) return luo_err_nomem(err);
    return LUO_OK;
}

/* Takes away one source after the other; what is left then is in a circle or behind one. */
static luo_status check_order(luo_arena *arena, const net *x, luo_err *err)
{
    net rest;
    if (!copy_net(arena, x, false, &rest)) return luo_err_nomem(err);
    for (int32_t s = lowest_source(&rest); s >= 0; s = lowest_source(&rest)) remove_node(&rest, s);
    if (!nodes_left(&rest)) return LUO_OK;
    int32_t first = 0;
    while (!rest.alive[first]) first++;
    return luo_err_set(err, LUO_EINPUT,
                       "node %d of the graph is in a circle or behind one; a graph without circles "
                       "is expected.",
                       first);
}

static luo_status measure_core(luo_arena *arena, const net *x, int32_t *core, luo_err *err)
{
    net shape;
    if (!copy_net(arena, x, false, &shape)) return luo_err_nomem(err);
    fold_shape(&shape);
    *core = nodes_left(&shape);
    if (combinations(&shape) <= LUO_AUTO_ELIMINATE_MOST) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "graph core of %d nodes is too large for elimination; use --method dp.",
                       *core);
}

luo_status luo_auto_eliminate(luo_arena *scratch, const luo_auto_graph *graph, int32_t *config,
                              double *cost, int32_t *core, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    net x;
    double sum;
    int32_t left = 0, *found = LUO_NEW_N(scratch, int32_t, graph->nodes);
    assert(graph->nodes >= 1);
    if (!found) LUO_TRY_OUT(luo_err_nomem(err));
    LUO_TRY_OUT(load(scratch, graph, &x, err));
    LUO_TRY_OUT(check_order(scratch, &x, err));
    LUO_TRY_OUT(measure_core(scratch, &x, &left, err));
    LUO_TRY_OUT(solve(scratch, &x, found, &sum, err));
    memcpy(config, found, (size_t)graph->nodes * sizeof *config);
    if (cost) *cost = sum;
    if (core) *core = left;
out:
    luo_arena_reset(scratch, mark);
    return st;
}
