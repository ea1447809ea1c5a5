/* spot.c: published traces of how many instances were there, as event traces: Bamboo (NSDI 23), the
 * counts of Google's zones, SkyPilot, Sailor (SOSP 25). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/cluster.h"
#include "core/io/convert/events.h"
#include "core/io/import/import.h"

enum { FIELDS = 4, FIELD = 64, UNITS = 1 << 16 };

typedef struct rows { /* of a table without a header, or with one that is left out */
    convert_job *job;
    const char *at, *end;
    int line;
    char field[FIELDS][FIELD];
    int n;
} rows;

static rows rows_of(convert_job *job)
{
    return (rows){.job = job, .at = job->src.text, .end = job->src.text + job->src.len};
}

static void take_field(rows *r, const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from)) from++;
    while (to > from && isspace((unsigned char)to[-1])) to--;
    if (r->n < FIELDS)
        snprintf(r->field[r->n++], FIELD, "%.*s", (int)(to - from > FIELD ? FIELD : to - from),
                 from);
}

/* The next line that has something. */
static bool next_row(rows *r)
{
    for (r->n = 0; r->at < r->end && r->n == 0;) {
        const char *nl = memchr(r->at, '\n', (size_t)(r->end - r->at)), *end = nl ? nl : r->end;
        r->line++;
        for (const char *from = r->at; from < end;) {
            const char *comma = memchr(from, ',', (size_t)(end - from)), *to = comma ? comma : end;
            take_field(r, from, to);
            from = to + 1;
        }
        if (r->n == 1 && !r->field[0][0]) r->n = 0;
        r->at = end + 1;
    }
    return r->n > 0;
}

/* A header begins with a letter. */
static bool is_header(const rows *r)
{
    return r->line == 1 && isalpha((unsigned char)r->field[0][0]);
}

static bool number_of(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && isdigit((unsigned char)*text) && *out >= 0 && *out <= 4e12;
}

static luo_status wrong_row(const rows *r, const char *form)
{
    return convert_error(r->job, r->line, 1, "this row is not `%s`.", form);
}

/* ---- names: Bamboo ---- */

typedef struct named { /* names that are up, by unit; "": down */
    convert_events events;
    char (*name)[FIELD];
    int64_t strange; /* rows without effect */
} named;

static int32_t unit_of(const named *b, const char *name)
{
    for (int32_t i = 0; i < b->events.units.n; i++)
        if (strcmp(b->name[i], name) == 0) return i;
    return -1;
}

static luo_status take_name(named *b, const rows *r, double t_s, bool *started)
{
    const bool add = strcmp(r->field[1], "add") == 0;
    int32_t unit = unit_of(b, r->field[2]);
    if (!add && strcmp(r->field[1], "remove") != 0)
        return wrong_row(r, "MILLISECONDS,add or remove,NODE");
    /* units that no row adds at 0 were never there */
    for (int32_t i = 0; t_s > 0 && !*started && i < b->events.units.n; i++)
        if (!b->name[i][0]) LUO_TRY(convert_events_put(&b->events, 0, "leave", i));
    *started |= t_s > 0;
    if (add == (unit >= 0)) {
        b->strange++;
        return LUO_OK;
    }
    if (add) unit = unit_of(b, "");
    if (unit < 0) {
        b->strange++;
        return LUO_OK;
    }
    snprintf(b->name[unit], FIELD, "%s", add ? r->field[2] : "");
    if (t_s == 0 && add) return LUO_OK;
    return convert_events_put(&b->events, t_s, add ? "join" : "leave", unit);
}

static int32_t most_at_once(convert_job *job)
{
    int32_t up = 0, most = 0;
    for (rows r = rows_of(job); next_row(&r);) {
        if (r.n < 2) continue;
        up += (strcmp(r.field[1], "add") == 0) - (strcmp(r.field[1], "remove") == 0);
        if (up > most) most = up;
    }
    return most < UNITS ? most : UNITS;
}

luo_status convert_bamboo(convert_job *job)
{
    static const char form[] = "MILLISECONDS,add or remove,NODE";
    named b = {.strange = 0};
    bool started = false;
    double ms, before = 0;
    luo_status st = convert_events_begin(job, most_at_once(job), &b.events);
    if (st == LUO_OK) b.name = luo_arena_alloc(job->arena, ((size_t)b.events.units.n + 1) * FIELD);
    if (st == LUO_OK && !b.name) st = convert_nomem(job);
    if (st == LUO_OK) memset(b.name, 0, ((size_t)b.events.units.n + 1) * FIELD);
    for (rows r = rows_of(job); st == LUO_OK && next_row(&r);) {
        if (is_header(&r)) continue;
        if (r.n < 3 || !number_of(r.field[0], &ms) || !r.field[2][0])
            st = wrong_row(&r, form);
        else if (ms < before)
            st = convert_error(job, r.line, 1, "rows in order of time are expected.");
        else
            st = take_name(&b, &r, 1e-3 * ms, &started);
        before = ms;
    }
    if (st == LUO_OK && b.strange)
        convert_note(job, LUO_WARNING,
                     "%lld rows had no effect: unknown names that leave, names "
                     "that came twice, or no unit free.",
                     (long long)b.strange);
    if (st == LUO_OK) st = convert_events_end(&b.events);
    luo_str_free(&b.events.text);
    return st;
}

/* ---- counts ---- */

typedef struct counts {
    convert_job *job;
    convert_count *at;
    int64_t n, cap;
} counts;

static luo_status add_count(counts *c, double t_s, double n, int line, int col)
{
    if (n < 0 || n > LUO_DEVICES_MAX || n != (double)(int64_t)n)
        return convert_error(c->job, line, col, "a count is a whole number from 0 to %d.",
                             LUO_DEVICES_MAX);
    if (c->n && t_s < c->at[c->n - 1].t_s)
        return convert_error(c->job, line, col, "counts in order of time are expected.");
    if (c->n == c->cap) {
        const int64_t cap = c->cap ? 2 * c->cap : 256;
        convert_count *more = LUO_NEW_N(c->job->arena, convert_count, cap);
        if (!more) return convert_nomem(c->job);
        if (c->n) memcpy(more, c->at, (size_t)c->n * sizeof *more);
        c->at = more;
        c->cap = cap;
    }
    c->at[c->n++] = (convert_count){t_s, (int64_t)n};
    return LUO_OK;
}

luo_status convert_gcp(convert_job *job)
{
    static const char form[] = "DATE, TIME, COUNT";
    counts c = {.job = job};
    int64_t first = 0, ns;
    double n;
    for (rows r = rows_of(job); next_row(&r);) {
        char when[2 * FIELD + 2];
        if (is_header(&r)) continue;
        snprintf(when, sizeof when, "%s %s", r.field[0], r.n > 1 ? r.field[1] : "");
        if (r.n < 3 || !luo_import_time(when, &ns) || !number_of(r.field[2], &n))
            return wrong_row(&r, form);
        if (c.n == 0) first = ns;
        LUO_TRY(add_count(&c, 1e-9 * (double)(ns - first), n, r.line, 1));
    }
    return convert_counts(job, c.at, c.n);
}

luo_status convert_skypilot(convert_job *job)
{
    luo_doc doc;
    counts c = {.job = job};
    double gap, n;
    LUO_TRY(convert_json(job, &doc));
    const luo_doc_node *data = luo_doc_get(doc.root, "data");
    const luo_doc_node *metadata = luo_doc_get(doc.root, "metadata");
    if (!luo_doc_real(luo_doc_get(metadata, "gap_seconds"), &gap) || gap <= 0 || !data ||
        data->type != LUO_DOC_LIST)
        return convert_error(job, 0, 0,
                             "`metadata` with `gap_seconds`, and a list `data` are "
                             "expected.");
    for (const luo_doc_node *one = data->first; one; one = one->next) {
        if (!luo_doc_real(one, &n)) n = -1;
        LUO_TRY(add_count(&c, gap * (double)c.n, n, one->line, one->col));
    }
    return convert_counts(job, c.at, c.n);
}

luo_status convert_spot_sailor(convert_job *job)
{
    luo_doc doc;
    counts c = {.job = job};
    double t_s, n;
    LUO_TRY(convert_json(job, &doc));
    for (const luo_doc_node *one = doc.root->first; one; one = one->next) {
        if (!luo_doc_real(luo_doc_get(one, "Time"), &t_s) || t_s < 0 ||
            !luo_doc_real(luo_doc_get(one, "GPUs"), &n))
            return convert_error(job, one->line, one->col,
                                 "an entry with `Time` in seconds and `GPUs` is expected.");
        LUO_TRY(add_count(&c, t_s, n, one->line, one->col));
    }
    return convert_counts(job, c.at, c.n);
}
