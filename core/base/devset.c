#include "core/base/devset.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"

void luo_devset_print(luo_str *text, const int32_t *dev, int32_t n)
{
    luo_str_addc(text, '[');
    for (int32_t i = 0; i < n;) {
        int32_t run = 1;
        while (i + run < n && dev[i + run] == dev[i] + run) run++;
        if (i) luo_str_addc(text, ',');
        luo_str_addi(text, dev[i]);
        if (run >= 3) {
            luo_str_addc(text, '-');
            luo_str_addi(text, dev[i + run - 1]);
            i += run;
        } else {
            i++;
        }
    }
    luo_str_addc(text, ']');
}

typedef struct scan {
    const char *text, *at;
    luo_err *err;
} scan;

static void blanks(scan *s)
{
    while (*s->at == ' ' || *s->at == '\t') s->at++;
}

static luo_status expected(scan *s, const char *what)
{
    return luo_err_set(s->err, LUO_EPARSE, "device set `%s`, column %d: %s is expected.", s->text,
                       (int)(s->at - s->text) + 1, what);
}

static luo_status number(scan *s, int32_t limit, int32_t *out)
{
    blanks(s);
    if (*s->at < '0' || *s->at > '9') return expected(s, "a device id");
    int64_t v = 0;
    for (; *s->at >= '0' && *s->at <= '9'; s->at++)
        if (v <= INT_MAX) v = 10 * v + (*s->at - '0');
    if (v >= limit)
        return luo_err_set(s->err, LUO_EINPUT, "device set `%s`: devices are 0 to %d.", s->text,
                           limit - 1);
    *out = (int32_t)v;
    blanks(s);
    return LUO_OK;
}

static luo_status no_twice(luo_arena *arena, scan *s, const int32_t *dev, int32_t n)
{
    int32_t *copy = luo_arena_alloc(arena, (size_t)n * sizeof *copy);
    if (!copy) return luo_err_nomem(s->err);
    if (n) memcpy(copy, dev, (size_t)n * sizeof *copy);
    qsort(copy, (size_t)n, sizeof *copy, luo_vec_by_int32);
    for (int32_t i = 1; i < n; i++)
        if (copy[i] == copy[i - 1])
            return luo_err_set(s->err, LUO_EINPUT, "device set `%s`: device %d is given twice.",
                               s->text, copy[i]);
    return LUO_OK;
}

luo_status luo_devset_parse(luo_arena *arena, const char *text, bool bare, int32_t limit,
                            int32_t **dev, int32_t *n, luo_err *err)
{
    scan s = {text, text, err};
    int32_t *list = NULL, count = 0, cap = 0;
    blanks(&s);
    const bool open = *s.at == '[';
    if (open)
        s.at++;
    else if (!bare)
        return expected(&s, "`[`");
    blanks(&s);
    while (*s.at && *s.at != ']') {
        int32_t lo = 0, hi;
        LUO_TRY(number(&s, limit, &lo));
        hi = lo;
        if (*s.at == '-') {
            s.at++;
            LUO_TRY(number(&s, limit, &hi));
            if (hi < lo)
                return luo_err_set(err, LUO_EINPUT,
                                   "device set `%s`: range %d-%d goes down; write the ids one by "
                                   "one.",
                                   text, lo, hi);
        }
        for (; lo <= hi; lo++) {
            if (!LUO_VEC_ROOM_IN(arena, list, count, cap)) return luo_err_nomem(err);
            list[count++] = lo;
        }
        if (*s.at != ',') break;
        s.at++;
        blanks(&s);
        if (*s.at == ']' || !*s.at) return expected(&s, "a device id");
    }
    if (open) {
        if (*s.at != ']') return expected(&s, "`]`");
        s.at++;
    }
    blanks(&s);
    if (*s.at) return expected(&s, "the end");
    LUO_TRY(no_twice(arena, &s, list, count));
    *dev = list;
    *n = count;
    return LUO_OK;
}
