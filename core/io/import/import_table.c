/* import_table.c: lengths as they come, or their classes, into a file and its hash. */
#include <stdlib.h>

#include "core/base/hash.h"
#include "core/io/import/import_internal.h"
#include "core/io/read/input_tables.h"

enum { FULL = 1 << 16 };

static luo_status flush(import_job *job)
{
    luo_str *text = &job->table.text;
    if (text->failed) return luo_err_nomem(&job->err);
    if (text->len == 0) return LUO_OK;
    job->made.hash = luo_hash_bytes(job->made.hash, text->at, text->len);
    job->made.bytes += (int64_t)text->len;
    LUO_TRY(luo_replace_put(&job->table.file, text->at, text->len, &job->err));
    luo_str_clear(text);
    return LUO_OK;
}

luo_status import_table_open(import_job *job)
{
    const luo_import_opts *opts = job->opts;
    luo_str *text = &job->table.text;
    const int options = luo_import_kind_options(opts->kind);
    job->made.hash = LUO_HASH_EMPTY;
    LUO_TRY(luo_replace_open(&job->table.file, opts->out, &job->err));
    luo_str_addf(text, "# luoshu import %s", luo_import_kind_name(opts->kind));
    if (options & LUO_IMPORT_LENGTH)
        luo_str_addf(text, " --length %s", luo_import_length_name(opts->length));
    if (options & LUO_IMPORT_UNIT)
        luo_str_addf(text, " --unit %s", luo_import_unit_name(opts->unit));
    if (opts->nedges) luo_str_addf(text, " --histogram %s", opts->edges);
    luo_str_addc(text, '\n');
    if (opts->nedges) {
        job->table.count = LUO_NEW_N(job->arena, int64_t, opts->nedges);
        if (!job->table.count) return luo_err_nomem(&job->err);
    }
    return LUO_OK;
}

/* ---- rows ---- */

static void put_header(import_job *job, const luo_input_table *table, int n)
{
    for (int i = 0; i < n; i++)
        luo_str_addf(&job->table.text, "%s%s", i ? "," : "", table->columns[i].name);
    luo_str_addc(&job->table.text, '\n');
}

/* The last edge that is not above tokens; -1: none. */
static int32_t class_of(const luo_import_opts *opts, int64_t tokens)
{
    int32_t lo = -1, hi = opts->nedges - 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo + 1) / 2;
        if (opts->edge[mid] <= tokens)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static luo_status put_class(import_job *job, int64_t tokens, const char *path, int line, int column)
{
    const luo_import_opts *opts = job->opts;
    const int32_t k = class_of(opts, tokens);
    if (k >= 0 && k + 1 < opts->nedges) {
        job->table.count[k]++;
        return LUO_OK;
    }
    luo_err_set(&job->err, LUO_EINPUT,
                "`--histogram` has no class for a length of %lld tokens; a %s edge is expected.",
                (long long)tokens, k < 0 ? "lower first" : "higher last");
    return luo_err_at(&job->err, LUO_EINPUT, path, line, column);
}

static luo_status put_row(import_job *job, int64_t tokens, int64_t arrival_ns)
{
    enum { NS = 1000000000 };
    luo_str *text = &job->table.text;
    if (!job->table.header) {
        job->table.arrivals = arrival_ns >= 0;
        put_header(job, &luo_input_table_lengths,
                   job->table.arrivals ? LUO_LE_ARRIVAL + 1 : LUO_LE_LENGTH + 1);
        job->table.header = true;
    }
    luo_str_addi(text, tokens);
    if (arrival_ns >= 0)
        luo_str_addf(text, ",%lld.%09lld", (long long)(arrival_ns / NS),
                     (long long)(arrival_ns % NS));
    luo_str_addc(text, '\n');
    job->made.rows++;
    return text->len >= FULL ? flush(job) : LUO_OK;
}

luo_status import_put(import_job *job, int64_t tokens, int64_t arrival_ns, const char *path,
                      int line, int column)
{
    luo_import_made *made = &job->made;
    if (tokens == 0) {
        made->skipped[LUO_IMPORT_EMPTY]++;
        return LUO_OK;
    }
    if (tokens > IMPORT_TOKENS_MAX) {
        luo_err_set(&job->err, LUO_E2BIG, "a length of %lld tokens; at most 2^53 are expected.",
                    (long long)tokens);
        return luo_err_at(&job->err, LUO_E2BIG, path, line, column);
    }
    if (job->opts->nedges)
        LUO_TRY(put_class(job, tokens, path, line, column));
    else
        LUO_TRY(put_row(job, tokens, arrival_ns));
    if (made->lengths == 0 || tokens < made->least) made->least = tokens;
    if (tokens > made->most) made->most = tokens;
    if (1e-9 * (double)arrival_ns > made->last_s) made->last_s = 1e-9 * (double)arrival_ns;
    made->tokens += (double)tokens;
    made->lengths++;
    return LUO_OK;
}

/* From the first class that holds a length to the last one. */
static void put_classes(import_job *job)
{
    const luo_import_opts *opts = job->opts;
    int32_t from = 0, to = opts->nedges - 1;
    while (from < to && job->table.count[from] == 0) from++;
    while (to > from && job->table.count[to - 1] == 0) to--;
    put_header(job, &luo_input_table_histogram, LUO_HI_N);
    for (int32_t k = from; k < to; k++)
        luo_str_addf(&job->table.text, "%lld,%lld,%lld\n", (long long)opts->edge[k],
                     (long long)opts->edge[k + 1], (long long)job->table.count[k]);
    job->made.rows = to - from;
}

luo_status import_table_close(import_job *job, bool good)
{
    luo_status st = LUO_OK;
    if (good && job->opts->nedges) put_classes(job);
    if (good) st = flush(job);
    luo_str_free(&job->table.text);
    job->made.arrivals = job->table.arrivals;
    const bool keep = good && st == LUO_OK;
    const luo_status closed = luo_replace_close(&job->table.file, keep, keep ? &job->err : NULL);
    return keep ? closed : st;
}
