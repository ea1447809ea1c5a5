/* grid.c: the table of cells and the slices between members: cut at the union of
 * all bounds, not at an LCM grid (fault K4). */
#include "core/hspmd/grid.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

typedef struct ends {
    int64_t *at, n;
    bool ascending;
} ends;

static int64_t count_ends(const luo_holdings *holdings, int32_t d)
{
    int64_t n = 0;
    for (int32_t i = 0; holdings && i < holdings->n; i++)
        n += 2 * (int64_t)holdings->at[i].region.dim[d].n;
    return n;
}

static void add_end(ends *e, int64_t x)
{
    if (e->n && e->at[e->n - 1] == x) return;
    e->ascending = e->ascending && (!e->n || e->at[e->n - 1] < x);
    e->at[e->n++] = x;
}

/* Members with equal cuts share their span lists (luo_holdings_make): a list met lately is left
 * out, which keeps the sort small whatever U is. */
static void add_ends(const luo_holdings *holdings, int32_t d, ends *e)
{
    enum { LATELY = 64 };
    const luo_span *met[LATELY] = {NULL};
    for (int32_t i = 0; holdings && i < holdings->n; i++) {
        const luo_span *span = holdings->at[i].region.dim[d].at;
        const luo_span **slot = &met[((uintptr_t)span / sizeof *span) % LATELY];
        if (holdings->at[i].region.empty || *slot == span) continue;
        *slot = span;
        for (int32_t k = 0; k < holdings->at[i].region.dim[d].n; k++) {
            add_end(e, span[k].lo);
            add_end(e, span[k].hi);
        }
    }
}

static luo_status cut_dim(luo_arena *arena, const luo_holdings *a, const luo_holdings *b, int32_t d,
                          luo_grid *grid, luo_err *err)
{
    const int64_t most = count_ends(a, d) + count_ends(b, d);
    ends e = {.at = luo_arena_alloc(arena, (size_t)(most + 1) * sizeof *e.at), .ascending = true};
    if (!e.at) return luo_err_nomem(err);
    add_ends(a, d, &e);
    add_ends(b, d, &e);
    if (!e.ascending) qsort(e.at, (size_t)e.n, sizeof *e.at, by_value);
    int32_t n = 0;
    for (int64_t i = 0; i < e.n; i++)
        if (n == 0 || e.at[n - 1] != e.at[i]) e.at[n++] = e.at[i];
    grid->end[d] = e.at;
    grid->n[d] = n ? n - 1 : 0;
    return LUO_OK;
}

luo_status luo_grid_make(luo_arena *arena, const luo_holdings *a, const luo_holdings *b,
                         int32_t rank, const char *name, luo_grid *out, luo_err *err)
{
    luo_grid grid = {.rank = rank};
    double cells = 1;
    for (int32_t d = 0; d < rank; d++) {
        LUO_TRY(cut_dim(arena, a, b, d, &grid, err));
        cells *= grid.n[d];
    }
    if (cells > LUO_CELLS_MAX)
        return luo_err_set(err, LUO_E2BIG, "bsr: table of %.0f cells for '%s'", cells, name);
    grid.cells = (int64_t)cells;
    *out = grid;
    return LUO_OK;
}

static int32_t find(const luo_grid *grid, int32_t d, int64_t v)
{
    int32_t lo = 0, hi = grid->n[d];
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (grid->end[d][mid] < v)
            lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static bool counts(const luo_holding *holding, const luo_planner *alive)
{
    return !holding->region.empty && !(alive && luo_planner_dead(alive, holding->dev));
}

static int64_t cells_of(const luo_grid *grid, const luo_region *region)
{
    int64_t all = 1;
    for (int32_t d = 0; d < grid->rank; d++) {
        int64_t n = 0;
        for (int32_t k = 0; k < region->dim[d].n; k++)
            n += find(grid, d, region->dim[d].at[k].hi) - find(grid, d, region->dim[d].at[k].lo);
        all *= n;
    }
    return all;
}

typedef struct visit {
    const luo_grid *g;
    int64_t *count; /* first pass: count[c + 1]++ */
    int64_t *fill;  /* second pass: at[fill[c]++] = who */
    int32_t *at, who;
} visit;

static void visit_run(visit *v, int64_t from, int64_t to)
{
    for (int64_t c = from; c < to && v->count; c++) v->count[c + 1]++;
    for (int64_t c = from; c < to && !v->count; c++) v->at[v->fill[c]++] = v->who;
}

/* Every cell of region, row-major. */
static void visit_cells(visit *v, const luo_region *region, int32_t d, int64_t base)
{
    const int32_t last = v->g->rank - 1;
    if (d > last) visit_run(v, 0, 1); /* rank 0 */
    for (int32_t k = 0; d <= last && k < region->dim[d].n; k++) {
        const int64_t row = base * v->g->n[d];
        const int32_t lo = find(v->g, d, region->dim[d].at[k].lo);
        const int32_t hi = find(v->g, d, region->dim[d].at[k].hi);
        if (d == last) visit_run(v, row + lo, row + hi);
        for (int32_t c = lo; c < hi && d < last; c++) visit_cells(v, region, d + 1, row + c);
    }
}

static void visit_all(visit *v, const luo_holdings *holdings, const luo_planner *alive)
{
    for (v->who = 0; v->who < holdings->n; v->who++)
        if (counts(&holdings->at[v->who], alive))
            visit_cells(v, &holdings->at[v->who].region, 0, 0);
}

luo_status luo_grid_cover(luo_arena *arena, const luo_grid *grid, const luo_holdings *holdings,
                          const luo_planner *alive, const char *name, luo_cover *out, luo_err *err)
{
    int64_t all = 0;
    for (int32_t i = 0; i < holdings->n; i++) {
        if (counts(&holdings->at[i], alive)) all += cells_of(grid, &holdings->at[i].region);
        if (all > LUO_COVERS_MAX)
            return luo_err_set(err, LUO_E2BIG,
                               "bsr: more than %d holders of %" PRId64 " cells for '%s'",
                               LUO_COVERS_MAX, grid->cells, name);
    }
    int64_t *start = LUO_NEW_N(arena, int64_t, grid->cells + 1);
    int64_t *fill = luo_arena_alloc(arena, (size_t)(grid->cells + 1) * sizeof *fill);
    int32_t *at = luo_arena_alloc(arena, (size_t)all * sizeof *at);
    if (!start || !fill || !at) return luo_err_nomem(err);
    visit v = {.g = grid, .count = start, .fill = fill, .at = at};
    visit_all(&v, holdings, alive);
    for (int64_t c = 0; c < grid->cells; c++) start[c + 1] += start[c];
    memcpy(fill, start, (size_t)grid->cells * sizeof *fill);
    v.count = NULL;
    visit_all(&v, holdings, alive);
    *out = (luo_cover){start, at};
    return LUO_OK;
}

luo_status luo_grid_cell(luo_arena *arena, const luo_grid *grid, int64_t cell, luo_region *out,
                         luo_err *err)
{
    luo_span *span = luo_arena_alloc(arena, (size_t)grid->rank * sizeof *span);
    if (!span) return luo_err_nomem(err);
    luo_region region = {.rank = grid->rank};
    for (int32_t d = grid->rank - 1; d >= 0; d--) {
        const int64_t i = cell % grid->n[d];
        cell /= grid->n[d];
        span[d] = (luo_span){grid->end[d][i], grid->end[d][i + 1]};
        region.dim[d].n = 1;
        region.dim[d].at = &span[d];
    }
    *out = region;
    return LUO_OK;
}
