#include "core/io/hostlist.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

enum { BRACKETS = 8 };

typedef struct hostlist {
    luo_arena *arena;
    const char **host;
    int32_t n, cap;
    luo_err *err;
    const char *text;
} hostlist;

static luo_status wrong(const hostlist *h, const char *what)
{
    return luo_err_set(h->err, LUO_EINPUT,
                       "the hosts `%.60s` have %s; names such as gpu-[001-003,7] are expected.",
                       h->text, what);
}

static luo_status add(hostlist *h, const char *name)
{
    if (h->n == LUO_HOSTS_MAX) return wrong(h, "more than 65536 names");
    if (h->n == h->cap) {
        const int32_t cap = h->cap ? 2 * h->cap : 16;
        const char **more = LUO_NEW_N(h->arena, const char *, cap);
        if (!more) return luo_err_nomem(h->err);
        if (h->n) memcpy(more, h->host, (size_t)h->n * sizeof *more);
        h->host = more;
        h->cap = cap;
    }
    h->host[h->n] = luo_arena_strdup(h->arena, name);
    return h->host[h->n++] ? LUO_OK : luo_err_nomem(h->err);
}

static luo_status expand(hostlist *h, const char *done, const char *from, const char *to, int deep);

/* "001-003": each with as many digits as the first. */
static luo_status each_number(hostlist *h, const char *done, const char *range, const char *end,
                              const char *rest, const char *to, int deep)
{
    long low = 0, high;
    const char *p = range;
    for (; p < end && isdigit((unsigned char)*p) && p - range < 9; p++) low = 10 * low + (*p - '0');
    const int digits = (int)(p - range);
    if (digits == 0) return wrong(h, "something that is no number between brackets");
    high = low;
    if (p < end && *p == '-')
        for (p++, high = 0; p < end && isdigit((unsigned char)*p) && high < 100000000; p++)
            high = 10 * high + (*p - '0');
    if (p != end || high < low) return wrong(h, "a range that falls or is no range");
    if (high - low >= LUO_HOSTS_MAX) return wrong(h, "more than 65536 names");
    for (long i = low; i <= high; i++) {
        luo_str name = {0};
        luo_str_addf(&name, "%s%0*ld", done, digits, i);
        const luo_status st = name.failed ? luo_err_nomem(h->err)
                                          : expand(h, luo_str_get(&name), rest, to, deep + 1);
        luo_str_free(&name);
        LUO_TRY(st);
    }
    return LUO_OK;
}

/* done and what from .. to stands for. */
static luo_status expand(hostlist *h, const char *done, const char *from, const char *to, int deep)
{
    luo_str name = {0};
    const char *open = memchr(from, '[', (size_t)(to - from));
    if (deep > BRACKETS) return wrong(h, "too many brackets");
    luo_str_add(&name, done);
    luo_str_addn(&name, from, (size_t)((open ? open : to) - from));
    luo_status st = name.failed ? luo_err_nomem(h->err) : LUO_OK;
    const char *close = open ? memchr(open, ']', (size_t)(to - open)) : NULL;
    if (st == LUO_OK && !open) st = add(h, luo_str_get(&name));
    if (st == LUO_OK && open && !close) st = wrong(h, "a bracket that is not closed");
    for (const char *at = open ? open + 1 : to; st == LUO_OK && close && at <= close;) {
        const char *end = at;
        while (*end != ',' && *end != ']') end++;
        st = each_number(h, luo_str_get(&name), at, end, close + 1, to, deep);
        at = end + 1;
    }
    luo_str_free(&name);
    return st;
}

luo_status luo_hostlist_expand(luo_arena *arena, const char *text, const char *const **hosts,
                               int32_t *n, luo_err *err)
{
    hostlist h = {.arena = arena, .err = err, .text = text};
    for (const char *at = text; *at;) {
        const char *end = at;
        for (bool inside = false; *end && (inside || *end != ','); end++)
            inside = *end == '[' || (inside && *end != ']');
        const char *from = at, *to = end;
        while (from < to && isspace((unsigned char)*from)) from++;
        while (to > from && isspace((unsigned char)to[-1])) to--;
        if (to > from) LUO_TRY(expand(&h, "", from, to, 0));
        at = *end ? end + 1 : end;
    }
    if (h.n == 0) return wrong(&h, "no name");
    *hosts = h.host;
    *n = h.n;
    return LUO_OK;
}
