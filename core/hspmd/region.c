/* region.c: the algebra of product regions (docs/annotations.md#regions) and their text. */
#include "core/hspmd/region.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static luo_region nothing(int32_t rank)
{
    return (luo_region){.rank = rank, .empty = true};
}

static int64_t length_of(const luo_region *region, int32_t d)
{
    int64_t n = 0;
    for (int32_t k = 0; k < region->dim[d].n; k++)
        n += region->dim[d].at[k].hi - region->dim[d].at[k].lo;
    return n;
}

int64_t luo_region_volume(const luo_region *region)
{
    int64_t v = !region->empty;
    for (int32_t d = 0; v && d < region->rank; d++) v *= length_of(region, d);
    return v;
}

/* Spans shared by two lists into out (room for na + nb - 1); returns their number. */
static int32_t meet(const luo_span *a, int32_t na, const luo_span *b, int32_t nb, luo_span *out)
{
    int32_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        const luo_span s = {a[i].lo > b[j].lo ? a[i].lo : b[j].lo,
                            a[i].hi < b[j].hi ? a[i].hi : b[j].hi};
        if (s.lo < s.hi) out[n++] = s;
        if (a[i].hi < b[j].hi) i++;
        else j++;
    }
    return n;
}

luo_status luo_region_intersect(luo_arena *arena, const luo_region *a, const luo_region *b,
                                luo_region *out, luo_err *err)
{
    assert(a->rank == b->rank);
    luo_region region = {.rank = a->rank};
    const size_t mark = luo_arena_mark(arena);
    if (a->empty || b->empty) region = nothing(a->rank);
    for (int32_t d = 0; !region.empty && d < region.rank; d++) {
        const int32_t na = a->dim[d].n, nb = b->dim[d].n;
        luo_span *at = luo_arena_alloc(arena, (size_t)(na + nb) * sizeof *at);
        if (!at) {
            luo_arena_reset(arena, mark);
            return luo_err_nomem(err);
        }
        region.dim[d].n = meet(a->dim[d].at, na, b->dim[d].at, nb, at);
        region.dim[d].at = at;
        if (!region.dim[d].n) region = nothing(a->rank);
    }
    if (region.empty) luo_arena_reset(arena, mark);
    *out = region;
    return LUO_OK;
}

/* Each span of a lies inside one span of b, since touching spans are merged. */
static bool list_in(const luo_span *a, int32_t na, const luo_span *b, int32_t nb)
{
    int32_t j = 0;
    for (int32_t i = 0; i < na; i++) {
        while (j < nb && b[j].hi < a[i].hi) j++;
        if (j == nb || b[j].lo > a[i].lo) return false;
    }
    return true;
}

bool luo_region_contains(const luo_region *b, const luo_region *a)
{
    assert(a->rank == b->rank);
    if (a->empty) return true;
    if (b->empty) return false;
    for (int32_t d = 0; d < a->rank; d++)
        if (!list_in(a->dim[d].at, a->dim[d].n, b->dim[d].at, b->dim[d].n)) return false;
    return true;
}

bool luo_region_equal(const luo_region *a, const luo_region *b)
{
    if (a->rank != b->rank || a->empty != b->empty) return false;
    for (int32_t d = 0; !a->empty && d < a->rank; d++) {
        if (a->dim[d].n != b->dim[d].n) return false;
        if (a->dim[d].at == b->dim[d].at) continue; /* shared tables of luo_holdings_make */
        for (int32_t k = 0; k < a->dim[d].n; k++)
            if (a->dim[d].at[k].lo != b->dim[d].at[k].lo ||
                a->dim[d].at[k].hi != b->dim[d].at[k].hi)
                return false;
    }
    return true;
}

luo_status luo_region_copy(luo_arena *arena, const luo_region *from, luo_region *out, luo_err *err)
{
    luo_region copy = *from;
    for (int32_t d = 0; !from->empty && d < from->rank; d++) {
        luo_span *at = LUO_NEW_N(arena, luo_span, from->dim[d].n);
        if (!at) return luo_err_nomem(err);
        memcpy(at, from->dim[d].at, (size_t)from->dim[d].n * sizeof *at);
        copy.dim[d].at = at;
    }
    *out = copy;
    return LUO_OK;
}

static bool spans_overlap(const luo_span *a, int32_t na, const luo_span *b, int32_t nb)
{
    for (int32_t i = 0, k = 0; i < na && k < nb;) {
        if (a[i].lo < b[k].hi && b[k].lo < a[i].hi) return true;
        if (a[i].hi < b[k].hi) i++;
        else k++;
    }
    return false;
}

bool luo_region_overlap(const luo_region *a, const luo_region *b)
{
    if (a->empty || b->empty) return false;
    for (int32_t d = 0; d < a->rank; d++)
        if (!spans_overlap(a->dim[d].at, a->dim[d].n, b->dim[d].at, b->dim[d].n)) return false;
    return true;
}

void luo_region_box(const luo_region *region, int64_t *lo, int64_t *hi)
{
    for (int32_t d = 0; d < region->rank; d++) {
        lo[d] = region->empty ? 0 : region->dim[d].at[0].lo;
        hi[d] = region->empty ? 0 : region->dim[d].at[region->dim[d].n - 1].hi;
    }
}

void luo_region_each_box(const luo_region *region,
                         void (*box)(void *ctx, const int64_t *lo, const int64_t *hi), void *ctx)
{
    int32_t k[LUO_RANK_MAX] = {0};
    int64_t lo[LUO_RANK_MAX] = {0}, hi[LUO_RANK_MAX] = {0};
    for (bool more = !region->empty; more;) {
        for (int32_t d = 0; d < region->rank; d++) {
            lo[d] = region->dim[d].at[k[d]].lo;
            hi[d] = region->dim[d].at[k[d]].hi;
        }
        box(ctx, lo, hi);
        more = false;
        for (int32_t d = region->rank; d-- > 0 && !more;) {
            more = ++k[d] < region->dim[d].n;
            if (!more) k[d] = 0;
        }
    }
}

void luo_region_print(luo_str *text, const luo_region *region)
{
    if (region->empty) {
        luo_str_addc(text, '-');
        return;
    }
    for (int32_t d = 0; d < region->rank; d++) {
        if (d) luo_str_addc(text, 'x');
        for (int32_t k = 0; k < region->dim[d].n; k++) {
            luo_str_add(text, k ? "+[" : "[");
            luo_str_addi(text, region->dim[d].at[k].lo);
            luo_str_addc(text, ':');
            luo_str_addi(text, region->dim[d].at[k].hi);
            luo_str_addc(text, ')');
        }
    }
}

typedef struct scan {
    const char *text, *at;
    luo_err *err;
} scan;

static int column(const scan *s)
{
    return (int)(s->at - s->text) + 1;
}

static luo_status take(scan *s, char c)
{
    if (*s->at != c)
        return luo_err_set(s->err, LUO_EPARSE, "region `%s`, column %d: `%c` is expected.",
                           s->text, column(s), c);
    s->at++;
    return LUO_OK;
}

static luo_status take_index(scan *s, int64_t *out)
{
    const int col = column(s);
    if (*s->at < '0' || *s->at > '9')
        return luo_err_set(s->err, LUO_EPARSE, "region `%s`, column %d: an index is expected.",
                           s->text, col);
    for (*out = 0; *s->at >= '0' && *s->at <= '9'; s->at++)
        if (*out <= LUO_DIM_LIMIT) *out = 10 * *out + (*s->at - '0');
    if (*out > LUO_DIM_LIMIT)
        return luo_err_set(s->err, LUO_EPARSE,
                           "region `%s`, column %d: indices end at %" PRId64 ".", s->text, col,
                           LUO_DIM_LIMIT);
    return LUO_OK;
}

static luo_status take_span(scan *s, luo_span *out)
{
    LUO_TRY(take(s, '['));
    LUO_TRY(take_index(s, &out->lo));
    LUO_TRY(take(s, ':'));
    LUO_TRY(take_index(s, &out->hi));
    return take(s, ')');
}

static luo_status take_dim(luo_arena *arena, scan *s, luo_region *region)
{
    const int start = column(s);
    luo_span *at = NULL;
    int32_t n = 0;
    for (;;) {
        luo_span one;
        LUO_TRY(take_span(s, &one));
        if (one.lo >= one.hi || (n && at[n - 1].hi >= one.lo))
            return luo_err_set(s->err, LUO_EPARSE,
                               "region `%s`, column %d: intervals must ascend with gaps; sort and "
                               "merge them.",
                               s->text, start);
        at = luo_arena_grow(arena, at, (size_t)n * sizeof *at, (size_t)(n + 1) * sizeof *at);
        if (!at) return luo_err_nomem(s->err);
        at[n++] = one;
        if (*s->at != '+') break;
        s->at++;
    }
    region->dim[region->rank].n = n;
    region->dim[region->rank++].at = at;
    return LUO_OK;
}

luo_status luo_region_parse(luo_arena *arena, const char *text, int32_t rank, luo_region *out,
                            luo_err *err)
{
    assert(rank >= 0 && rank <= LUO_RANK_MAX);
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(arena);
    scan s = {text, text, err};
    luo_region region = {0};
    if (strcmp(text, "-") == 0) {
        region = nothing(rank);
        s.at++;
    }
    while (region.rank < rank) {
        if (region.rank > 0) LUO_TRY_OUT(take(&s, 'x'));
        LUO_TRY_OUT(take_dim(arena, &s, &region));
    }
    if (*s.at)
        LUO_TRY_OUT(luo_err_set(err, LUO_EPARSE,
                                "region `%s` has more than %d dimensions; cut it at column %d.",
                                text, rank, column(&s)));
    *out = region;
out:
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}
