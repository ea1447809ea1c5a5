/* toy_log.c: what ranks have written, as the run it was. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sync/toy_run.h"
#include "core/base/vec.h"
#include "core/io/result/csv.h"
#include "core/sync/mixing.h"

typedef struct reader {
    luo_cli *cli;
    const luo_sync_job *job;
    const char *ranks;
    const luo_loop_sink *sink;
    luo_toy_log *log;
    luo_loop_row *rows;
    int64_t nrows, cap_rows;
} reader;

/* A log without what was not written whole; false: there is none. */
static luo_status open_log(reader *r, const char *name, int32_t rank, const luo_csv_column *columns,
                           int n, luo_csv **out, luo_err *err)
{
    const char *path = luo_arena_printf(r->cli->arena, "%s/%s-%d.csv", r->ranks, name, (int)rank);
    luo_source *source = LUO_NEW(r->cli->arena, luo_source);
    *out = NULL;
    if (!path || !source) return luo_err_nomem(err);
    if (access(path, R_OK) != 0) return LUO_OK;
    LUO_TRY(luo_source_read(r->cli->arena, path, source, err));
    while (source->len > 0 && source->text[source->len - 1] != '\n') source->len--;
    if (source->len == 0) return LUO_OK;
    *out = luo_csv_open(source, columns, n, &r->cli->diags);
    return *out ? LUO_OK : luo_err_nomem(err);
}

#define ANY LUO_FROM(-INFINITY)
#define WHOLE(name, must)                                                                          \
    {                                                                                              \
        name, LUO_CSV_WHOLE, must, LUO_FROM(0), NULL, false, NULL                                  \
    }
#define NUMBER(name)                                                                               \
    {                                                                                              \
        name, LUO_CSV_NUMBER, true, ANY, NULL, true, NULL                                          \
    }
#define TEXT(name)                                                                                 \
    {                                                                                              \
        name, LUO_CSV_TEXT, true, ANY, NULL, false, NULL                                           \
    }

/* ---- facts ---- */

static luo_status read_facts(reader *r, int32_t rank, luo_err *err)
{
    static const luo_csv_column columns[] = {TEXT("name"), NUMBER("value")};
    luo_csv_cell cell[2];
    luo_csv *csv;
    luo_toy_log *log = r->log;
    LUO_TRY(open_log(r, "facts", rank, columns, 2, &csv, err));
    luo_status st = LUO_OK;
    while (csv && st == LUO_OK && luo_csv_next(csv, cell)) {
        const char *name = luo_arena_strdup(r->cli->arena, cell[0].text);
        if (!name || !LUO_VEC_ROOM_IN(r->cli->arena, log->facts, log->nfacts, log->cap_facts))
            st = luo_err_nomem(err);
        else
            log->facts[log->nfacts++] = (luo_toy_fact){name, cell[1].number};
    }
    const luo_status closed = csv ? luo_csv_close(csv) : LUO_OK;
    return st == LUO_OK ? closed : st;
}

double luo_toy_log_sum(const luo_toy_log *log, const char *name)
{
    double sum = NAN;
    for (int64_t i = 0; i < log->nfacts; i++)
        if (strcmp(log->facts[i].name, name) == 0)
            sum = isnan(sum) ? log->facts[i].value : sum + log->facts[i].value;
    return sum;
}

double luo_toy_log_most(const luo_toy_log *log, const char *name)
{
    double most = NAN;
    for (int64_t i = 0; i < log->nfacts; i++)
        if (strcmp(log->facts[i].name, name) == 0) most = fmax(most, log->facts[i].value);
    return most;
}

/* ---- iterations ---- */

static luo_status read_rows(reader *r, int32_t rank, luo_err *err)
{
    static const luo_csv_column columns[] = {
        WHOLE("worker", true), WHOLE("iteration", true), NUMBER("start_s"),    NUMBER("end_s"),
        NUMBER("compute_s"),   NUMBER("wait_s"),         WHOLE("group", false)};
    luo_csv_cell cell[7];
    luo_csv *csv;
    LUO_TRY(open_log(r, "iterations", rank, columns, 7, &csv, err));
    luo_status st = LUO_OK;
    while (csv && st == LUO_OK && luo_csv_next(csv, cell)) {
        if (!LUO_VEC_ROOM_IN(r->cli->arena, r->rows, r->nrows, r->cap_rows))
            st = luo_err_nomem(err);
        else
            r->rows[r->nrows++] = (luo_loop_row){.worker = rank,
                                                 .iteration = cell[1].whole,
                                                 .start_s = cell[2].number,
                                                 .end_s = cell[3].number,
                                                 .compute_s = cell[4].number,
                                                 .wait_s = cell[5].number,
                                                 .group = cell[6].given ? cell[6].whole : -1};
    }
    const luo_status closed = csv ? luo_csv_close(csv) : LUO_OK;
    return st == LUO_OK ? closed : st;
}

static int by_end(const void *a, const void *b)
{
    const luo_loop_row *x = a, *y = b;
    if (x->end_s != y->end_s) return x->end_s < y->end_s ? -1 : 1;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

/* Who has done all of its iterations is behind nobody. */
static luo_status count(reader *r, const luo_loop_row *row, int64_t *cap, luo_err *err)
{
    luo_loop_summary *summary = &r->log->summary;
    int64_t least = INT64_MAX;
    summary->updates++;
    summary->iterations[row->worker]++;
    summary->wait_s[row->worker] += row->wait_s;
    summary->t_s = fmax(summary->t_s, row->end_s);
    for (int64_t w = 0; w < r->job->workers; w++)
        if (summary->iterations[w] < least) least = summary->iterations[w];
    for (const int64_t ahead = summary->iterations[row->worker] - least;
         summary->nahead <= ahead;) {
        if (!LUO_VEC_ROOM_IN(r->cli->arena, summary->ahead, summary->nahead, *cap))
            return luo_err_nomem(err);
        summary->ahead[summary->nahead++] = 0;
    }
    summary->ahead[summary->iterations[row->worker] - least]++;
    return r->sink->iteration(r->sink->ctx, row, err);
}

static luo_status give_rows(reader *r, luo_err *err)
{
    int64_t cap = 0;
    if (r->nrows > 0) qsort(r->rows, (size_t)r->nrows, sizeof *r->rows, by_end);
    for (int64_t i = 0; i < r->nrows; i++) LUO_TRY(count(r, &r->rows[i], &cap, err));
    return LUO_OK;
}

/* ---- groups ---- */

/* Numbers with blanks between them; returns how many. */
static int32_t numbers(const char *text, int64_t *out, int32_t most)
{
    int32_t n = 0;
    char *end;
    for (; n < most && *text; text = end) {
        out[n] = strtoll(text, &end, 10);
        if (end == text) break;
        n++;
    }
    return n;
}

typedef struct group_reader {
    reader *r;
    luo_mixing mixing;
    bool mixes;
    int64_t *whole, *iteration;
    int32_t *member;
    double *weight;
} group_reader;

static luo_status open_groups(group_reader *g, luo_err *err)
{
    luo_arena *arena = g->r->cli->arena;
    const int64_t n = g->r->job->workers;
    g->whole = LUO_NEW_N(arena, int64_t, n);
    g->iteration = LUO_NEW_N(arena, int64_t, n);
    g->member = LUO_NEW_N(arena, int32_t, n);
    g->weight = LUO_NEW_N(arena, double, n);
    if (!g->whole || !g->iteration || !g->member || !g->weight) return luo_err_nomem(err);
    g->mixes = n <= LUO_MIXING_WORKERS;
    return g->mixes ? luo_mixing_new(arena, (int32_t)n, &g->mixing, err) : LUO_OK;
}

static luo_status take_group(group_reader *g, const luo_csv_cell *cell, luo_err *err)
{
    const int32_t most = (int32_t)g->r->job->workers;
    luo_loop_summary *summary = &g->r->log->summary;
    luo_preduce_group group = {.t_s = cell[1].number,
                               .guard = cell[4].whole != 0,
                               .member = g->member,
                               .iteration = g->iteration};
    group.n = numbers(cell[2].text, g->whole, most);
    for (int32_t i = 0; i < group.n; i++) g->member[i] = (int32_t)g->whole[i];
    if (group.n == 0 || numbers(cell[3].text, g->iteration, most) != group.n)
        return luo_err_set(err, LUO_EINPUT, "a row of the controller's log has no members.");
    luo_preduce_weights(g->iteration, group.n, g->r->job->beta, g->weight);
    if (g->mixes) luo_mixing_add(&g->mixing, g->member, g->weight, group.n);
    summary->sizes[group.n]++;
    summary->guards += group.guard;
    return g->r->sink->group(g->r->sink->ctx, summary->groups++, &group, err);
}

static luo_status read_groups(reader *r, luo_err *err)
{
    static const luo_csv_column columns[] = {WHOLE("group", true), NUMBER("t_s"), TEXT("members"),
                                             TEXT("iterations"), WHOLE("guard", true)};
    luo_csv_cell cell[5];
    group_reader g = {.r = r};
    luo_csv *csv;
    LUO_TRY(open_groups(&g, err));
    LUO_TRY(open_log(r, "groups", (int32_t)r->job->workers, columns, 5, &csv, err));
    luo_status st = LUO_OK;
    while (csv && st == LUO_OK && luo_csv_next(csv, cell)) st = take_group(&g, cell, err);
    const luo_status closed = csv ? luo_csv_close(csv) : LUO_OK;
    LUO_TRY(st == LUO_OK ? closed : st);
    if (!g.mixes) return LUO_OK;
    return luo_mixing_lambda2(r->cli->arena, &g.mixing, NULL, &r->log->summary.lambda2, err);
}

luo_status luo_toy_log_read(luo_cli *cli, const luo_sync_job *job, const char *ranks,
                            const luo_loop_sink *sink, luo_toy_log *out, luo_err *err)
{
    reader r = {.cli = cli, .job = job, .ranks = ranks, .sink = sink, .log = out};
    luo_loop_summary *summary = &out->summary;
    *out = (luo_toy_log){.summary = {.lambda2 = NAN}};
    summary->iterations = LUO_NEW_N(cli->arena, int64_t, job->workers);
    summary->wait_s = LUO_NEW_N(cli->arena, double, job->workers);
    summary->sizes = LUO_NEW_N(cli->arena, int64_t, job->workers + 1);
    if (!summary->iterations || !summary->wait_s || !summary->sizes) return luo_err_nomem(err);
    for (int32_t i = 0; i < luo_sync_job_ranks(job); i++) LUO_TRY(read_facts(&r, i, err));
    for (int32_t w = 0; w < job->workers; w++) LUO_TRY(read_rows(&r, w, err));
    LUO_TRY(give_rows(&r, err));
    return luo_sync_job_groups(job) ? read_groups(&r, err) : LUO_OK;
}
