/* deduce.c: the einsum rule (docs/annotations.md#deduction).
 *
 * Members mostly repeat each other on other devices: when the cuts and the order of the lists are
 * those of the member before, its result is taken over (a plan has U = 128 members and thousands
 * of ops). Otherwise devices are matched by sorting, never by scanning one list per device. */
#include "core/graph/deduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/deduce_order.h"

typedef struct letter {
    char name;
    int32_t out; /* dimension of the result; -1: summed */
} letter;

typedef struct einsum {
    luo_arena *arena, *scratch;
    const luo_operand *x;
    int32_t n;
    const char *out, *op;
    luo_err *err;
    letter *letters; /* in order of first appearance */
    int32_t nletters;
    int32_t **pos; /* pos[x][i]: index in operand x of device i of operand 0; NULL: i */
    /* the member before */
    int32_t last; /* -1: none */
    const luo_ent *ent;
    int32_t nent, *at;
} einsum;

static int32_t dim_of(const char *letters, char name)
{
    const char *found = strchr(letters, name);
    return found ? (int32_t)(found - letters) : -1;
}

static luo_status refuse(const einsum *e, const char *fmt, ...) LUO_PRINTF(2, 3);
static luo_status refuse(const einsum *e, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return luo_err_set(e->err, LUO_EDEDUCE, "op '%s': %s; insert a Reshard", e->op, text);
}

/* "2" or "(3,1)" into buf; long lists end in "..". */
static const char *cut_text(char buf[64], int32_t n, const uint32_t *share)
{
    if (!share) {
        snprintf(buf, 64, "%d", n);
        return buf;
    }
    int at = 0;
    for (int32_t k = 0; k < n; k++) {
        if (at > 40) {
            at += snprintf(buf + at, 64 - (size_t)at, ",..");
            break;
        }
        at += snprintf(buf + at, 64 - (size_t)at, "%c%u", k ? ',' : '(', share[k]);
    }
    snprintf(buf + at, 64 - (size_t)at, ")");
    return buf;
}

static bool same_shares(const uint32_t *a, const uint32_t *b, int32_t n)
{
    if (!a || !b) return a == b;
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static luo_status find_letters(einsum *e)
{
    size_t total = 0;
    for (int32_t k = 0; k < e->n; k++) total += strlen(e->x[k].letters);
    e->letters = LUO_NEW_N(e->scratch, letter, total);
    if (!e->letters) return luo_err_nomem(e->err);
    for (int32_t k = 0; k < e->n; k++)
        for (const char *c = e->x[k].letters; *c; c++) {
            bool known = false;
            for (int32_t j = 0; j < e->nletters && !known; j++) known = e->letters[j].name == *c;
            if (!known) e->letters[e->nletters++] = (letter){*c, dim_of(e->out, *c)};
        }
    for (const char *c = e->out; *c; c++) {
        bool known = false;
        for (int32_t j = 0; j < e->nletters && !known; j++) known = e->letters[j].name == *c;
        if (!known)
            return luo_err_set(e->err, LUO_EBUG,
                               "op '%s': letter %c of the result is in no operand", e->op, *c);
    }
    return LUO_OK;
}

/* Rules 1 and 2, and keys that the tensor does not have. */
static luo_status check_operands(const einsum *e)
{
    const luo_operand *first = &e->x[0];
    for (int32_t k = 1; k < e->n; k++)
        if (e->x[k].ann->u != first->ann->u)
            return refuse(e, "D_UNION: '%s' has %d subgroups but '%s' has %d", first->name,
                          first->ann->u, e->x[k].name, e->x[k].ann->u);
    for (int32_t k = 0; k < e->n; k++)
        if (luo_ann_has_partial(e->x[k].ann))
            return refuse(e, "D_PARTIAL: '%s' is Partial", e->x[k].name);
    for (int32_t k = 0; k < e->n; k++) {
        const luo_shape shape = {.rank = (int32_t)strlen(e->x[k].letters)};
        LUO_TRY(luo_ann_bind(e->x[k].ann, &shape, LUO_BIND_ROUND, e->x[k].name, e->err));
    }
    return LUO_OK;
}

/* Rule 3. The first operand with h >= 0 speaks for all. */
static luo_status find_top(const einsum *e, luo_ann *res)
{
    const luo_operand *lead = NULL;
    for (int32_t k = 0; k < e->n && !lead; k++)
        if (e->x[k].ann->h >= 0) lead = &e->x[k];
    res->h = res->u > 1 ? LUO_DUP : LUO_H_NONE;
    if (!lead) return LUO_OK;
    const char name = lead->letters[lead->ann->h];
    for (int32_t k = 0; k < e->n; k++) {
        const luo_operand *operand = &e->x[k];
        if (operand->ann->h < 0) {
            if (dim_of(operand->letters, name) < 0) continue;
            return refuse(e, "D_TOP: subgroups cut letter %c of '%s' but not of '%s'", name,
                          lead->name, operand->name);
        }
        if (operand->letters[operand->ann->h] != name)
            return refuse(e, "D_TOP: subgroups cut letter %c of '%s' but letter %c of '%s'", name,
                          lead->name, operand->letters[operand->ann->h], operand->name);
        if (operand->ann->inner != lead->ann->inner ||
            !same_shares(operand->ann->hshare, lead->ann->hshare, res->u))
            return refuse(e, "D_TOP: subgroups cut letter %c of '%s' and of '%s' differently", name,
                          lead->name, operand->name);
    }
    res->h = dim_of(e->out, name);
    if (res->h < 0) {
        res->h = LUO_PARTIAL;
        return LUO_OK;
    }
    res->inner = lead->ann->inner;
    if (!lead->ann->hshare) return LUO_OK;
    uint32_t *share = LUO_NEW_N(e->arena, uint32_t, res->u);
    if (!share) return luo_err_nomem(e->err);
    memcpy(share, lead->ann->hshare, (size_t)res->u * sizeof *share);
    res->hshare = share;
    return LUO_OK;
}

typedef struct dev_at {
    int32_t dev, i;
} dev_at;

static int by_dev(const void *a, const void *b)
{
    const int32_t x = ((const dev_at *)a)->dev, y = ((const dev_at *)b)->dev;
    return (x > y) - (x < y);
}

static dev_at *sorted(luo_arena *arena, const luo_grp *group)
{
    dev_at *s = LUO_NEW_N(arena, dev_at, group->ndev);
    if (!s) return NULL;
    for (int32_t i = 0; i < group->ndev; i++) s[i] = (dev_at){group->dev[i], i};
    qsort(s, (size_t)group->ndev, sizeof *s, by_dev);
    return s;
}

static bool same_list(const luo_grp *a, const luo_grp *b)
{
    return a->ndev == b->ndev && memcmp(a->dev, b->dev, (size_t)a->ndev * sizeof *a->dev) == 0;
}

/* Rule 4, first half: equal device sets; fills pos[k]. */
static luo_status match_devices(einsum *e, int32_t u, int32_t k)
{
    const luo_grp *group = &e->x[0].ann->grp[u], *b = &e->x[k].ann->grp[u];
    e->pos[k] = NULL;
    if (same_list(group, b)) return LUO_OK;
    const dev_at *p = sorted(e->scratch, group), *q = sorted(e->scratch, b);
    int32_t *pos = LUO_NEW_N(e->scratch, int32_t, group->ndev);
    if (!p || !q || !pos) return luo_err_nomem(e->err);
    const int32_t less = group->ndev < b->ndev ? group->ndev : b->ndev;
    int32_t i = 0;
    for (; i < less && p[i].dev == q[i].dev; i++) pos[p[i].i] = q[i].i;
    if (i < group->ndev || i < b->ndev) {
        const bool in_a = i == b->ndev || (i < group->ndev && p[i].dev < q[i].dev);
        return refuse(e, "D_DEVICES: device %d of subgroup %d is in '%s' but not in '%s'",
                      in_a ? p[i].dev : q[i].dev, u, e->x[in_a ? 0 : k].name,
                      e->x[in_a ? k : 0].name);
    }
    e->pos[k] = pos;
    return LUO_OK;
}

/* How operand k cuts a letter in member u. */
typedef struct cut {
    int32_t n, stride;
    const uint32_t *share;
} cut;

static cut cut_of(const einsum *e, int32_t u, int32_t k, int32_t dim)
{
    const luo_grp *group = &e->x[k].ann->grp[u];
    cut c = {1, 1, NULL};
    for (int32_t j = group->nent; j-- > 0; c.stride *= group->ent[j].n)
        if (group->ent[j].key == dim) {
            c.n = group->ent[j].n;
            c.share = group->ent[j].share;
            return c;
        }
    return c;
}

static int32_t coord(const einsum *e, int32_t k, const cut *c, int32_t i)
{
    return (e->pos[k] ? e->pos[k][i] : i) / c->stride % c->n;
}

/* Rule 4, second half, for one letter and a later operand that has it too. */
static luo_status agree(const einsum *e, int32_t u, char name, int32_t k0, const cut *c0,
                        int32_t k, const cut *c)
{
    const luo_grp *group = &e->x[0].ann->grp[u];
    char a[64], b[64];
    if (c0->n != c->n || !same_shares(c0->share, c->share, c->n))
        return refuse(e, "D_CUT: letter %c is cut %s by '%s' but %s by '%s' on device %d", name,
                      cut_text(a, c0->n, c0->share), e->x[k0].name, cut_text(b, c->n, c->share),
                      e->x[k].name, group->dev[0]);
    if (c->n == 1 || (c->stride == c0->stride && !e->pos[k] && !e->pos[k0])) return LUO_OK;
    for (int32_t i = 0; i < group->ndev; i++)
        if (coord(e, k0, c0, i) != coord(e, k, c, i))
            return refuse(e, "D_CUT: letter %c: part %d by '%s' but part %d by '%s' on device %d",
                          name, coord(e, k0, c0, i), e->x[k0].name, coord(e, k, c, i), e->x[k].name,
                          group->dev[i]);
    return LUO_OK;
}

/* Cut of one letter in member u, by the first operand k0 that has it, agreed on by the others. */
static luo_status letter_cut(const einsum *e, int32_t u, const letter *l, int32_t *k0, cut *c0)
{
    *k0 = -1;
    for (int32_t k = 0; k < e->n; k++) {
        const int32_t dim = dim_of(e->x[k].letters, l->name);
        if (dim < 0) continue;
        const cut c = cut_of(e, u, k, dim);
        if (*k0 >= 0) {
            LUO_TRY(agree(e, u, l->name, *k0, c0, k, &c));
            continue;
        }
        *k0 = k;
        *c0 = c;
    }
    return LUO_OK;
}

/* Puts a key where it belongs: dimensions ascending, then -2. */
static void insert_key(luo_coords *c, luo_ent key, int32_t *coords)
{
    int32_t at = c->n++;
    for (; at > 0 && key.key >= 0 && (c->key[at - 1].key < 0 || c->key[at - 1].key > key.key);
         at--) {
        c->key[at] = c->key[at - 1];
        c->coord[at] = c->coord[at - 1];
    }
    c->key[at] = key;
    c->coord[at] = coords;
}

/* Rules 4 and 5: coordinates of the result; summed letters combine, the first most significant.
 * More parts than devices are cut off at ndev + 1, which rule 6 refuses. */
static luo_status find_coords(const einsum *e, int32_t u, luo_coords *coords)
{
    const int32_t ndev = e->x[0].ann->grp[u].ndev;
    int64_t parts = 1;
    int32_t *sum = LUO_NEW_N(e->scratch, int32_t, ndev);
    if (!sum) return luo_err_nomem(e->err);
    *coords = (luo_coords){.ndev = ndev};
    for (int32_t j = 0; j < e->nletters; j++) {
        const letter *l = &e->letters[j];
        int32_t k = 0;
        cut x = {1, 1, NULL};
        LUO_TRY(letter_cut(e, u, l, &k, &x));
        if (l->out < 0) parts = parts * x.n > ndev ? ndev + 1 : parts * x.n;
        if (x.n == 1 || parts > ndev) continue;
        int32_t *own = l->out < 0 ? sum : LUO_NEW_N(e->scratch, int32_t, ndev);
        if (!own) return luo_err_nomem(e->err);
        for (int32_t i = 0; i < ndev; i++) own[i] = own[i] * x.n + coord(e, k, &x, i);
        if (l->out >= 0) insert_key(coords, (luo_ent){l->out, x.n, x.share}, own);
    }
    if (parts > 1) insert_key(coords, (luo_ent){.key = LUO_PARTIAL, .n = (int32_t)parts}, sum);
    return LUO_OK;
}

/* Entries of the result, with their own shares. */
static luo_status own_entries(einsum *e, const luo_coords *coords)
{
    luo_ent *ent = LUO_NEW_N(e->arena, luo_ent, coords->n);
    if (!ent || !luo_coords_order(e->scratch, coords, ent, &e->at)) return luo_err_nomem(e->err);
    for (int32_t k = 0; k < coords->n; k++) {
        if (!ent[k].share) continue;
        uint32_t *share = LUO_NEW_N(e->arena, uint32_t, ent[k].n);
        if (!share) return luo_err_nomem(e->err);
        memcpy(share, ent[k].share, (size_t)ent[k].n * sizeof *share);
        ent[k].share = share;
    }
    e->ent = ent;
    e->nent = coords->n;
    return LUO_OK;
}

static luo_status new_member(einsum *e, int32_t u)
{
    luo_coords coords;
    int32_t fewest, most;
    for (int32_t k = 1; k < e->n; k++) LUO_TRY(match_devices(e, u, k));
    LUO_TRY(find_coords(e, u, &coords));
    if (!luo_coords_duplicates(e->scratch, &coords, &fewest, &most)) return luo_err_nomem(e->err);
    if (!fewest)
        return refuse(e, "D_GRID: a block of the result is computed by no device of subgroup %d",
                      u);
    if (fewest != most)
        return refuse(e,
                      "D_GRID: blocks of the result are computed by %d to %d devices of subgroup "
                      "%d",
                      fewest, most, u);
    return own_entries(e, &coords);
}

/* True if member u repeats the member before on other devices: equal cuts, equal lists. */
static bool repeats(const einsum *e, int32_t u)
{
    if (e->last < 0) return false;
    for (int32_t k = 0; k < e->n; k++) {
        const luo_grp *group = e->x[k].ann->grp;
        if (group[u].ndev != group[e->last].ndev || !luo_grp_same_cut(&group[u], &group[e->last]))
            return false;
        if (e->pos[k] || !same_list(&e->x[0].ann->grp[u], &group[u])) return false;
    }
    return true;
}

static luo_status deduce(einsum *e, const luo_ann **out)
{
    LUO_TRY(find_letters(e));
    LUO_TRY(check_operands(e));
    const luo_ann *lead = e->x[0].ann;
    luo_ann *res = LUO_NEW(e->arena, luo_ann);
    luo_grp *grp = LUO_NEW_N(e->arena, luo_grp, lead->u);
    int32_t *dev = LUO_NEW_N(e->arena, int32_t, luo_ann_ndev(lead));
    e->pos = LUO_NEW_N(e->scratch, int32_t *, e->n);
    if (!res || !grp || !dev || !e->pos) return luo_err_nomem(e->err);
    *res = (luo_ann){.u = lead->u, .grp = grp};
    LUO_TRY(find_top(e, res));
    for (int32_t u = 0; u < res->u; u++) {
        const luo_grp *group = &lead->grp[u];
        if (!repeats(e, u)) LUO_TRY(new_member(e, u));
        e->last = u;
        for (int32_t i = 0; i < group->ndev; i++) dev[e->at ? e->at[i] : i] = group->dev[i];
        grp[u] = (luo_grp){.ndev = group->ndev, .dev = dev, .nent = e->nent, .ent = e->ent};
        dev += group->ndev;
    }
    *out = res;
    return LUO_OK;
}

luo_status luo_deduce_einsum(luo_arena *arena, const luo_operand *operands, int32_t n,
                             const char *out, const char *op, const luo_ann **res, luo_err *err)
{
    einsum e = {.arena = arena,
                .scratch = luo_arena_new(0),
                .x = operands,
                .n = n,
                .out = out,
                .op = op,
                .err = err,
                .last = -1};
    if (!e.scratch) return luo_err_nomem(err);
    const size_t mark = luo_arena_mark(arena);
    const luo_status st = deduce(&e, res);
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    luo_arena_free(e.scratch);
    return st;
}
