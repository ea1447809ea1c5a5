/* ann_parse.c: the text form of annotations (docs/annotations.md#text).
 *
 * The whole text is read before anything is judged, because SYNTAX comes before LIMIT and LIMIT
 * before RANGE. What was read lies in scratch arrays whose sizes follow from the length of
 * the text; ranges are expanded only after they are known to be sane. */
#include <inttypes.h>
#include <string.h>

#include "core/hspmd/ann_check.h"

typedef struct raw_item {
    int64_t lo, hi;
} raw_item;

typedef struct raw_group {
    int32_t nitem, nent;
    const raw_item *item;
    luo_ent *ent;
} raw_group;

typedef struct parser {
    const char *text, *at;
    luo_err *err;
    luo_arena *scratch;
    const char *limit, *range; /* first violation of LIMIT, RANGE; NULL: none */
    bool h_given, inner;
    int32_t h;
    uint32_t *hshare;
    int32_t n_hshare;
    raw_group *grp;
    raw_item *item; /* next free place of each pool */
    luo_ent *ent;
    uint32_t *share;
    int32_t ngrp;
} parser;

typedef struct number {
    const char *at; /* its text, for sentences: it may not fit any integer */
    int len;
    int64_t v; /* cut at +-10^18 */
} number;

static void blanks(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t') p->at++;
}

static char peek(parser *p)
{
    blanks(p);
    return *p->at;
}

static luo_status expected(parser *p, const char *what)
{
    const unsigned char c = (unsigned char)peek(p);
    const int column = (int)(p->at - p->text) + 1;
    if (!c)
        return luo_err_set(p->err, LUO_EPARSE,
                           "annotation, column %d: expected %s, found the end", column, what);
    if (c < 0x20 || c > 0x7e)
        return luo_err_set(p->err, LUO_EPARSE,
                           "annotation, column %d: expected %s, found byte 0x%02x", column, what,
                           c);
    return luo_err_set(p->err, LUO_EPARSE, "annotation, column %d: expected %s, found '%c'", column,
                       what, c);
}

static luo_status take(parser *p, char c, const char *what)
{
    if (peek(p) != c) return expected(p, what);
    p->at++;
    return LUO_OK;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static luo_status take_number(parser *p, bool negative, const char *what, number *out)
{
    const int64_t cut = INT64_C(1000000000000000000);
    const bool minus = negative && peek(p) == '-';
    blanks(p);
    if (!digit(p->at[minus])) return expected(p, what);
    out->at = p->at;
    out->v = 0;
    p->at += minus;
    for (; digit(*p->at); p->at++)
        out->v = out->v < cut / 10 ? 10 * out->v + (*p->at - '0') : cut;
    if (minus) out->v = -out->v;
    out->len = (int)(p->at - out->at);
    return LUO_OK;
}

/* Notes the first number above its limit. */
static luo_status bound(parser *p, const char *what, const number *x, int64_t lowest,
                        int64_t limit)
{
    if (p->limit || (x->v <= limit && x->v >= lowest)) return LUO_OK;
    p->limit = luo_arena_printf(p->scratch, "%s %.*s is %s the limit %" PRId64, what, x->len,
                                x->at, x->v > limit ? "above" : "below",
                                x->v > limit ? limit : lowest);
    return p->limit ? LUO_OK : luo_err_nomem(p->err);
}

static luo_status take_shares(parser *p, uint32_t **share, int32_t *n)
{
    LUO_TRY(take(p, '(', "'('"));
    *share = p->share;
    for (*n = 0;;) {
        number x;
        LUO_TRY(take_number(p, false, "a share", &x));
        LUO_TRY(bound(p, "share", &x, 0, INT32_MAX));
        *p->share++ = (uint32_t)x.v;
        ++*n;
        if (peek(p) != ',') break;
        p->at++;
    }
    if (*n == 1) return expected(p, "',' and a second share");
    return take(p, ')', "',' or ')'");
}

static luo_status take_top(parser *p)
{
    number h;
    p->at++;
    LUO_TRY(take(p, '=', "'=' after h"));
    LUO_TRY(take_number(p, true, "-1, -2 or a dimension", &h));
    LUO_TRY(bound(p, "h", &h, -INT32_MAX, LUO_RANK_MAX - 1));
    p->h_given = true;
    p->h = (int32_t)h.v;
    if (peek(p) == 'i') {
        p->at++;
        p->inner = true;
    } else if (*p->at == ':') {
        p->at++;
        return take_shares(p, &p->hshare, &p->n_hshare);
    }
    return LUO_OK;
}

static luo_status take_item(parser *p, raw_group *group)
{
    number lo, hi;
    LUO_TRY(take_number(p, false, "a device id", &lo));
    hi = lo;
    if (peek(p) == '-') {
        p->at++;
        LUO_TRY(take_number(p, false, "the last device id of the range", &hi));
    }
    LUO_TRY(bound(p, "device id", &lo, 0, LUO_DEVICE_LIMIT - 1));
    LUO_TRY(bound(p, "device id", &hi, 0, LUO_DEVICE_LIMIT - 1));
    if (hi.v < lo.v && !p->range) {
        p->range = luo_arena_printf(p->scratch,
                                    "device range %.*s-%.*s goes down; write the ids one by one",
                                    lo.len, lo.at, hi.len, hi.at);
        if (!p->range) return luo_err_nomem(p->err);
    }
    *p->item++ = (raw_item){lo.v, hi.v};
    group->nitem++;
    return LUO_OK;
}

static luo_status take_entry(parser *p, raw_group *group)
{
    number key, n;
    luo_ent *ent = p->ent++;
    LUO_TRY(take_number(p, true, "a key", &key));
    LUO_TRY(bound(p, "key", &key, -INT32_MAX, LUO_RANK_MAX - 1));
    LUO_TRY(take(p, ':', "':' after key"));
    ent->key = (int32_t)key.v;
    group->nent++;
    if (peek(p) == '(') {
        uint32_t *share;
        LUO_TRY(take_shares(p, &share, &ent->n));
        ent->share = share;
        return LUO_OK;
    }
    LUO_TRY(take_number(p, false, "a count or '('", &n));
    LUO_TRY(bound(p, "count", &n, 0, LUO_DEVICE_LIMIT));
    ent->n = (int32_t)n.v;
    return LUO_OK;
}

static luo_status take_list(parser *p, raw_group *group, char open, char close,
                            luo_status (*one)(parser *, raw_group *))
{
    const char first[] = {'\'', open, '\'', 0}, last[] = {'\'', close, '\'', 0};
    LUO_TRY(take(p, open, first));
    if (peek(p) != close)
        for (;;) {
            LUO_TRY(one(p, group));
            if (peek(p) != ',') break;
            p->at++;
        }
    return take(p, close, last);
}

static luo_status take_group(parser *p)
{
    raw_group *group = &p->grp[p->ngrp++];
    *group = (raw_group){.item = p->item, .ent = p->ent};
    LUO_TRY(take_list(p, group, '[', ']', take_item));
    LUO_TRY(take_list(p, group, '{', '}', take_entry));
    if (group->nent > LUO_ENTRIES_MAX && !p->limit) {
        p->limit = luo_arena_printf(p->scratch, "%d entries in subgroup %d are above the limit %d",
                                    group->nent, p->ngrp - 1, LUO_ENTRIES_MAX);
        if (!p->limit) return luo_err_nomem(p->err);
    }
    return LUO_OK;
}

static luo_status take_annotation(parser *p)
{
    if (peek(p) == 'h') LUO_TRY(take_top(p));
    LUO_TRY(take_group(p));
    while (peek(p) == '|') {
        p->at++;
        LUO_TRY(take_group(p));
    }
    return *p->at ? expected(p, "'|' or the end") : LUO_OK;
}

/* Devices of a group. Once more than LUO_DEVICE_LIMIT ids are out, one of them is there twice:
 * the rest of the text needs no room, the first id of each group is enough for NODEV. */
static luo_status expand(parser *p, const raw_group *group, int64_t *total, luo_grp *out)
{
    int64_t n = 0;
    for (int32_t k = 0; k < group->nitem; k++) n += group->item[k].hi - group->item[k].lo + 1;
    int64_t room = LUO_DEVICE_LIMIT + 1 - *total;
    if (room < 1) room = 1;
    if (n > room) n = room;
    int32_t *dev = luo_arena_alloc(p->scratch, (size_t)n * sizeof *dev);
    if (!dev) return luo_err_nomem(p->err);
    int64_t at = 0;
    for (int32_t k = 0; k < group->nitem; k++)
        for (int64_t d = group->item[k].lo; d <= group->item[k].hi && at < n; d++)
            dev[at++] = (int32_t)d;
    *total += n;
    *out = (luo_grp){.ndev = (int32_t)n, .dev = dev, .nent = group->nent, .ent = group->ent};
    return LUO_OK;
}

static luo_status judge(parser *p, luo_arena *arena, const luo_ann **out)
{
    if (p->limit) return luo_err_set(p->err, LUO_E2BIG, "annotation: %s", p->limit);
    if (p->range) return luo_err_set(p->err, LUO_EINPUT, "annotation: %s", p->range);
    luo_grp *grp = LUO_NEW_N(p->scratch, luo_grp, p->ngrp);
    if (!grp) return luo_err_nomem(p->err);
    int64_t total = 0;
    for (int32_t u = 0; u < p->ngrp; u++) LUO_TRY(expand(p, &p->grp[u], &total, &grp[u]));
    const luo_ann ann = {.u = p->ngrp,
                         .h = p->h_given ? p->h : LUO_H_NONE,
                         .inner = p->inner,
                         .hshare = p->hshare,
                         .grp = grp};
    LUO_TRY(luo_ann_check_as(&ann, p->h_given, p->n_hshare, p->err));
    const luo_ann *canonical = luo_ann_canonical(arena, &ann);
    if (!canonical) return luo_err_nomem(p->err);
    *out = canonical;
    return LUO_OK;
}

/* Each group takes at least 4 bytes of text, each item and share 2, each entry 3. */
static bool make_room(parser *p)
{
    const size_t n = strlen(p->text);
    if (n > INT32_MAX / 2) return false;
    p->grp = LUO_NEW_N(p->scratch, raw_group, n / 4 + 1);
    p->item = LUO_NEW_N(p->scratch, raw_item, n / 2 + 1);
    p->ent = LUO_NEW_N(p->scratch, luo_ent, n / 3 + 1);
    p->share = LUO_NEW_N(p->scratch, uint32_t, n / 2 + 1);
    return p->grp && p->item && p->ent && p->share;
}

luo_status luo_ann_parse(luo_arena *arena, const char *text, const luo_ann **out, luo_err *err)
{
    parser p = {.text = text, .at = text, .err = err, .scratch = luo_arena_new(0)};
    luo_status st = LUO_OK;
    if (!p.scratch || !make_room(&p)) LUO_TRY_OUT(luo_err_nomem(err));
    LUO_TRY_OUT(take_annotation(&p));
    LUO_TRY_OUT(judge(&p, arena, out));
out:
    luo_arena_free(p.scratch);
    return st;
}
