#include "core/sync/straggler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/sync/draws.h"

#define FORMS "`none`, `factor:2=1.8,5=3`, `bern:p=0.1,sleep=0.5` or `trace:FILE` is expected."

static luo_status bad(const char *text, luo_err *err)
{
    return luo_err_set(err, LUO_EUSAGE, "straggler `%s` is none; " FORMS, text);
}

/* A number from least to most at *at, which moves behind it. */
static bool number(const char **at, double least, double most, double *out)
{
    char *end;
    *out = strtod(*at, &end);
    if (end == *at || !(*out >= least && *out <= most)) return false;
    *at = end;
    return true;
}

static luo_status parse_factor(luo_arena *arena, const char *text, const char *at, int32_t workers,
                               luo_straggler *out, luo_err *err)
{
    double *factor = LUO_NEW_N(arena, double, workers);
    if (!factor) return luo_err_nomem(err);
    do {
        char *end;
        const long worker = strtol(at, &end, 10);
        if (end == at || *end != '=') return bad(text, err);
        if (worker < 0 || worker >= workers)
            return luo_err_set(err, LUO_EUSAGE,
                               "straggler `%s` names worker %ld; workers are 0 to %d.", text,
                               worker, workers - 1);
        if (factor[worker] > 0)
            return luo_err_set(err, LUO_EUSAGE,
                               "straggler `%s` names worker %ld twice; once is expected.", text,
                               worker);
        at = end + 1;
        if (!number(&at, 1e-6, 1e6, &factor[worker]))
            return luo_err_set(err, LUO_EUSAGE,
                               "straggler `%s`: the factor of worker %ld is no number; one from "
                               "1e-06 to 1e+06 is expected.",
                               text, worker);
    } while (*at++ == ',');
    if (at[-1]) return bad(text, err);
    for (int32_t w = 0; w < workers; w++)
        if (!(factor[w] > 0)) factor[w] = 1;
    out->kind = LUO_STRAGGLER_FACTOR;
    out->factor = factor;
    return LUO_OK;
}

static luo_status parse_bern(const char *text, const char *at, luo_straggler *out, luo_err *err)
{
    bool p = false, sleep = false;
    do {
        if (!p && strncmp(at, "p=", 2) == 0) {
            at += 2;
            p = true;
            if (!number(&at, 0, 1, &out->p))
                return luo_err_set(err, LUO_EUSAGE,
                                   "straggler `%s`: `p` is no probability; a number from 0 to 1 "
                                   "is expected.",
                                   text);
        } else if (!sleep && strncmp(at, "sleep=", 6) == 0) {
            at += 6;
            sleep = true;
            if (!number(&at, 0, 1e10, &out->sleep_s))
                return luo_err_set(err, LUO_EUSAGE,
                                   "straggler `%s`: `sleep` is no time; seconds from 0 to 1e+10 "
                                   "are expected.",
                                   text);
        } else {
            return bad(text, err);
        }
    } while (*at++ == ',');
    if (at[-1] || !p || !sleep) return bad(text, err);
    out->kind = LUO_STRAGGLER_BERN;
    return LUO_OK;
}

luo_status luo_straggler_parse(luo_arena *arena, const char *text, int32_t workers,
                               luo_straggler *out, luo_err *err)
{
    luo_straggler parsed = {0};
    luo_status st = LUO_OK;
    if (strncmp(text, "factor:", 7) == 0)
        st = parse_factor(arena, text, text + 7, workers, &parsed, err);
    else if (strncmp(text, "bern:", 5) == 0)
        st = parse_bern(text, text + 5, &parsed, err);
    else if (strncmp(text, "trace:", 6) == 0 && text[6])
        parsed = (luo_straggler){.kind = LUO_STRAGGLER_TRACE, .path = text + 6};
    else if (strcmp(text, "none") != 0)
        st = bad(text, err);
    if (st == LUO_OK) *out = parsed;
    return st;
}

static int by_place(const void *a, const void *b)
{
    const luo_straggler_row *x = a, *y = b;
    if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
    return (x->iteration > y->iteration) - (x->iteration < y->iteration);
}

luo_status luo_straggler_trace(luo_straggler *straggler, luo_straggler_row *rows, int64_t n,
                               luo_err *err)
{
    if (n > 0) qsort(rows, (size_t)n, sizeof *rows, by_place);
    for (int64_t i = 1; i < n; i++)
        if (by_place(&rows[i - 1], &rows[i]) == 0)
            return luo_err_set(err, LUO_EINPUT,
                               "iteration %lld of worker %d stands there twice; once is expected.",
                               (long long)rows[i].iteration, rows[i].worker);
    straggler->row = rows;
    straggler->nrows = n;
    return LUO_OK;
}

static double recorded(const luo_straggler *straggler, int32_t worker, int64_t k, double base_s)
{
    const luo_straggler_row key = {.worker = worker, .iteration = k};
    const luo_straggler_row *row = straggler->nrows > 0
                                       ? bsearch(&key, straggler->row, (size_t)straggler->nrows,
                                                 sizeof *straggler->row, by_place)
                                       : NULL;
    return row ? row->seconds : base_s;
}

double luo_straggler_seconds(const luo_straggler *straggler, uint64_t seed, int32_t worker,
                             int64_t k, double base_s)
{
    switch (straggler->kind) {
    case LUO_STRAGGLER_NONE:
        return base_s;
    case LUO_STRAGGLER_FACTOR:
        return base_s * straggler->factor[worker];
    case LUO_STRAGGLER_BERN:
        return base_s + (luo_draw_u(seed, (uint64_t)worker, (uint64_t)k) < straggler->p
                             ? straggler->sleep_s
                             : 0);
    case LUO_STRAGGLER_TRACE:
        return recorded(straggler, worker, k, base_s);
    }
    return base_s;
}
