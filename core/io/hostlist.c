#include "core/io/hostlist.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = LUO_HOSTS_NAME };

typedef struct expansion {
    luo_arena *arena;
    const char **host;
    int32_t n, cap;
    char name[NAME];
} expansion;

static luo_status append(expansion *x, luo_err *err)
{
    if (x->n == LUO_HOSTS_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "more than %d hosts are named; as many or fewer are expected.",
                           LUO_HOSTS_MAX);
    if (x->n == x->cap) {
        const size_t one = sizeof *x->host, old = (size_t)x->cap, cap = old ? 2 * old : 8;
        const char **more = luo_arena_grow(x->arena, x->host, old * one, cap * one);
        if (!more) return luo_err_nomem(err);
        x->host = more;
        x->cap = (int32_t)cap;
    }
    x->host[x->n] = luo_arena_strdup(x->arena, x->name);
    return x->host[x->n++] ? LUO_OK : luo_err_nomem(err);
}

static luo_status expand_from(expansion *x, const char *item, size_t n, size_t used, luo_err *err);

static luo_status too_long(luo_err *err)
{
    return luo_err_set(err, LUO_EINPUT,
                       "the list of hosts has a name of more than %d bytes; shorter ones are "
                       "expected.",
                       NAME - 1);
}

/* Numbers lo to hi of a bracket, as wide as lo is written, each followed by the rest of the item.
 */
static luo_status expand_range(expansion *x, const char *range, const char *rest, size_t n,
                               size_t used, luo_err *err)
{
    char *end;
    const long lo = strtol(range, &end, 10), hi = *end == '-' ? strtol(end + 1, NULL, 10) : lo;
    const int width = (int)strspn(range, "0123456789");
    if (*end == '-') end += 1 + strspn(end + 1, "0123456789");
    if (width == 0 || width > 9 || hi < lo || hi - lo > LUO_HOSTS_MAX ||
        (*end != ',' && *end != ']'))
        return luo_err_set(err, LUO_EINPUT,
                           "the list of hosts has `[%.*s`; numbers and ranges such as "
                           "[1-4,7] are expected.",
                           (int)strcspn(range, "]"), range);
    for (long v = lo; v <= hi; v++) {
        const int did = snprintf(x->name + used, NAME - used, "%0*ld", width, v);
        if (did < 0 || (size_t)did >= NAME - used) return too_long(err);
        LUO_TRY(expand_from(x, rest, n, used + (size_t)did, err));
    }
    return LUO_OK;
}

static luo_status expand_from(expansion *x, const char *item, size_t n, size_t used, luo_err *err)
{
    size_t i = 0;
    while (i < n && item[i] != '[' && used + 1 < NAME) x->name[used++] = item[i++];
    if (i < n && item[i] != '[') return too_long(err);
    if (i == n || item[i] != '[') {
        x->name[used] = 0;
        return append(x, err);
    }
    const char *range = item + i + 1;
    size_t inside = 0;
    while (i + 1 + inside < n && range[inside] != ']') inside++;
    if (inside == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "the list of hosts has `[` without numbers; ranges such as [1-4,7] "
                           "are expected.");
    const char *end = range + inside, *rest = end + (end < item + n);
    for (; range < end; range += strcspn(range, ",]"), range += *range == ',')
        LUO_TRY(expand_range(x, range, rest, (size_t)(item + n - rest), used, err));
    return LUO_OK;
}

/* Bytes up to the comma behind an item. */
static size_t item_bytes(const char *list)
{
    size_t n = 0;
    for (bool inside = false; list[n] && (inside || list[n] != ','); n++)
        inside = list[n] == '[' || (inside && list[n] != ']');
    return n;
}

luo_status luo_hostlist_expand(luo_arena *arena, const char *text, const char *const **hosts,
                               int32_t *n, luo_err *err)
{
    expansion x = {.arena = arena};
    while (*text) {
        while (isspace((unsigned char)*text)) text++;
        size_t bytes = item_bytes(text);
        const size_t next = bytes + (text[bytes] == ',');
        while (bytes > 0 && isspace((unsigned char)text[bytes - 1])) bytes--;
        if (bytes > 0) LUO_TRY(expand_from(&x, text, bytes, 0, err));
        text += next;
    }
    *hosts = x.host;
    *n = x.n;
    return LUO_OK;
}
