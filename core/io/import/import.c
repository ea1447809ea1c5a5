#include "core/io/import/import_internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/quantity.h"
#include "core/io/json_number.h"

static const struct {
    const char *word, *source;
    import_fn *fn;
    int options;
} importers[] = {
#define LUO_IMPORTER(kind, word, function, options, source) {word, source, function, options},
#include "core/io/import/importers.inc"
#undef LUO_IMPORTER
};
static const char *const lengths[] = {LUO_IMPORT_LENGTH_LIST(LUO_WORD_TEXT)};
static const char *const units[] = {LUO_IMPORT_UNIT_LIST(LUO_WORD_TEXT)};
static const char *const skips[] = {LUO_IMPORT_SKIP_LIST(LUO_WORD_TEXT)};

const char *luo_import_kind_name(luo_import_kind kind)
{
    return importers[kind].word;
}

const char *luo_import_kind_source(luo_import_kind kind)
{
    return importers[kind].source;
}

int luo_import_kind_options(luo_import_kind kind)
{
    return importers[kind].options;
}

const char *luo_import_length_name(luo_import_length length)
{
    return lengths[length];
}

const char *luo_import_unit_name(luo_import_unit unit)
{
    return units[unit];
}

const char *luo_import_skip_name(luo_import_skip skip)
{
    return skips[skip];
}

/* ---- edges of classes ---- */

int32_t luo_import_powers(int64_t *edge)
{
    int32_t n = 0;
    for (int64_t e = 1; e <= IMPORT_TOKENS_MAX; e *= 2) edge[n++] = e;
    return n;
}

luo_status luo_import_edges_parse(const char *text, int64_t *edge, int32_t *n, luo_err *err)
{
    int32_t k = 0;
    bool good = true;
    for (const char *at = text; good; at++) {
        const size_t len = strcspn(at, ",");
        good = k < LUO_IMPORT_EDGES && luo_json_number_whole(at, len, &edge[k]) && edge[k] >= 0 &&
               edge[k] <= IMPORT_TOKENS_MAX && (k == 0 || edge[k] > edge[k - 1]);
        k++;
        at += len;
        if (!*at) break;
    }
    if (!good || k < 2)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--histogram` is `%.60s`; log2, or 2 to %d ascending whole numbers "
                           "such as 1,512,4096 are expected.",
                           text, LUO_IMPORT_EDGES);
    *n = k;
    return LUO_OK;
}

/* ---- what importers share ---- */

int64_t import_request(const import_job *job, int64_t context, int64_t generated)
{
    switch (job->opts->length) {
    case LUO_IMPORT_CONTEXT:
        return context;
    case LUO_IMPORT_GENERATED:
        return generated;
    case LUO_IMPORT_TOTAL:
    case LUO_IMPORT_LENGTHS:
        break;
    }
    return context + generated;
}

int64_t import_arrival(int64_t at, int64_t first)
{
    const int64_t most = (int64_t)luo_quantity_at(LUO_Q_RUN_TIME)->highest * 1000000000;
    return at < first || at - first > most ? -1 : at - first;
}

luo_status import_unused(import_job *job, const char *name)
{
    for (int32_t i = 0; i < job->made.nunused; i++)
        if (strcmp(job->unused[i], name) == 0) return LUO_OK;
    if (job->made.nunused == IMPORT_UNUSED) return LUO_OK;
    const char *copy = luo_arena_strdup(job->arena, name);
    if (!copy) return luo_err_nomem(&job->err);
    job->unused[job->made.nunused++] = copy;
    return LUO_OK;
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* A folder that the table will lie in, or a file that stands where it will. */
luo_status import_check_not_out(import_job *job, const char *path, const struct stat *info)
{
    const bool old = job->was_there && S_ISREG(job->old.st_mode) && is_same(info, &job->old);
    const bool new = !job->was_there && job->has_folder && is_same(info, &job->folder);
    if (!old && !new) return LUO_OK;
    return luo_err_set(&job->err, LUO_EUSAGE,
                       "`%s` would be read as a part of its own source%s; another --out is "
                       "expected.",
                       job->opts->out, old && strcmp(path, job->opts->out) != 0 ? " again" : "");
}

luo_status import_tell(import_job *job, luo_status st)
{
    if (st != LUO_OK && job->err.st != LUO_OK) luo_diags_err(job->diags, &job->err);
    job->err.st = LUO_OK;
    return st;
}

/* The folder of the table, whose file has no name until it is whole. */
static luo_status find_folder(import_job *job)
{
    const char *final = job->table.file.final, *slash = final ? strrchr(final, '/') : NULL;
    if (!final) return LUO_OK; /* a pipe or a device */
    const int bytes = slash ? (int)(slash - final) + 1 : 1;
    const char *folder = luo_arena_printf(job->arena, "%.*s", bytes, slash ? final : ".");
    if (!folder) return luo_err_nomem(&job->err);
    job->has_folder = stat(folder, &job->folder) == 0;
    return LUO_OK;
}

static luo_status begin(import_job *job)
{
    struct stat info;
    job->was_there = stat(job->opts->out, &job->old) == 0;
    if (stat(job->opts->source, &info) == 0)
        LUO_TRY(import_check_not_out(job, job->opts->source, &info));
    LUO_TRY(import_table_open(job));
    return find_folder(job);
}

static luo_status keep_unused(import_job *job)
{
    const int32_t n = job->made.nunused;
    const char **unused = LUO_NEW_N(job->arena, const char *, n);
    if (!unused) return luo_err_nomem(&job->err);
    memcpy(unused, job->unused, (size_t)n * sizeof *unused);
    job->made.unused = unused;
    return LUO_OK;
}

static luo_status check_some(import_job *job)
{
    if (job->made.lengths > 0) return LUO_OK;
    luo_err_set(&job->err, LUO_EINPUT,
                "there is no length of a token or more in it, so `%s` is not written.",
                job->opts->out);
    return luo_err_at(&job->err, LUO_EINPUT, job->opts->source, 0, 0);
}

luo_status luo_import(luo_arena *arena, const luo_import_opts *opts, luo_import_made *made,
                      luo_diags *diags)
{
    import_job job = {.arena = arena, .opts = opts, .diags = diags, .table.file.fd = -1};
    luo_status st = begin(&job);
    if (st == LUO_OK) st = importers[opts->kind].fn(&job);
    if (st == LUO_OK) st = check_some(&job);
    if (st == LUO_OK) st = keep_unused(&job);
    import_tell(&job, st);
    const luo_status closed = import_table_close(&job, st == LUO_OK);
    if (st == LUO_OK) st = import_tell(&job, closed);
    if (st == LUO_OK) *made = job.made;
    return st;
}
