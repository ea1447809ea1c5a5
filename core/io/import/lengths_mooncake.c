/* lengths_mooncake.c: traces of requests as Mooncake publishes them (kvcache-ai/Mooncake,
 * FAST25-release/traces): a request a line of JSON, in order of time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/document/doc.h"
#include "core/io/document/input.h"
#include "core/io/import/import_internal.h"

enum { LINE_BYTES = 1 << 20 };

typedef struct reader {
    import_job *job;
    const char *path;
    luo_arena *scratch;
    char *text; /* LINE_BYTES: lines that are not taken yet, the first from its beginning */
    size_t len;
    int line;
    int64_t first; /* time of the first row, INT64_MIN: none yet */
    luo_status st; /* of the first error that lets one read on */
} reader;

static void complain(reader *r, const luo_doc_node *at, const char *fmt, ...) LUO_PRINTF(3, 4);
static void complain(reader *r, const luo_doc_node *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    luo_diags_vadd(r->job->diags, LUO_ERROR, LUO_EINPUT, r->path, r->line, at->col, fmt, ap);
    va_end(ap);
    if (r->st == LUO_OK) r->st = LUO_EINPUT;
}

/* ---- one request ---- */

static const luo_doc_node *key_of(reader *r, const luo_doc_node *map, const char *key)
{
    const luo_doc_node *node = luo_doc_get(map, key);
    if (!node) complain(r, map, "key `%s` is missing.", key);
    return node;
}

/* -1: it is said. */
static int64_t count_of(reader *r, const luo_doc_node *map, const char *key)
{
    int64_t v;
    const luo_doc_node *node = key_of(r, map, key);
    if (!node) return -1;
    if (!node->quoted && luo_doc_int(node, &v) && v >= 0 && v <= IMPORT_TOKENS_MAX) return v;
    const char *quote = node->quoted ? "\"" : "";
    complain(r, node, "`%s` is `%s%.60s%s`; a whole number from 0 to 2^53 is expected.", key, quote,
             node->text, quote);
    return -1;
}

/* Milliseconds as ns after the first request; -1: it is said. */
static int64_t arrival_of(reader *r, const luo_doc_node *map)
{
    static const double highest_ms = 9e12; /* what 64 bits of nanoseconds hold */
    const luo_doc_node *node = key_of(r, map, "timestamp");
    double ms;
    if (!node) return -1;
    if (node->quoted || !luo_doc_real(node, &ms) || !(ms >= 0 && ms <= highest_ms)) {
        const char *quote = node->quoted ? "\"" : "";
        complain(r, node, "`timestamp` is `%s%.60s%s`; milliseconds from 0 on are expected.", quote,
                 node->text, quote);
        return -1;
    }
    const int64_t at = llround(ms * 1e6);
    if (r->first == INT64_MIN) r->first = at;
    const int64_t ns = import_arrival(at, r->first);
    if (ns < 0)
        complain(r, node,
                 "`timestamp` is %s the first line's; lines in order of time are expected.",
                 at < r->first ? "before" : "more than 4e9 s after");
    return ns;
}

static luo_status note_unused(reader *r, const luo_doc_node *map)
{
    static const char *const used[] = {"timestamp", "input_length", "output_length"};
    for (const luo_doc_node *node = map->first; node; node = node->next) {
        bool known = false;
        for (size_t i = 0; i < sizeof used / sizeof *used; i++)
            known |= strcmp(node->key, used[i]) == 0;
        if (!known) LUO_TRY(import_unused(r->job, node->key));
    }
    return LUO_OK;
}

static luo_status take_request(reader *r, const luo_doc_node *map)
{
    if (map->type != LUO_DOC_MAP) {
        complain(r, map,
                 "this is no object; a line {\"timestamp\": .., \"input_length\": .., "
                 "\"output_length\": ..} is expected.");
        return LUO_OK;
    }
    LUO_TRY(note_unused(r, map));
    const int64_t ns = arrival_of(r, map), context = count_of(r, map, "input_length");
    const int64_t generated = count_of(r, map, "output_length");
    if (ns < 0 || context < 0 || generated < 0) return LUO_OK;
    return import_put(r->job, import_request(r->job, context, generated), ns, r->path, r->line, 1);
}

static luo_status take_line(reader *r, const char *line, size_t n)
{
    const luo_doc_node *root = NULL;
    luo_err err = {0};
    r->line++;
    while (n && strchr(" \t\r", line[n - 1]) && line[n - 1]) n--;
    if (n == 0) return LUO_OK;
    const size_t mark = luo_arena_mark(r->scratch);
    luo_status st = luo_doc_tree(r->scratch, line, n, &root, &err);
    if (st == LUO_OK) {
        st = take_request(r, root);
    } else if (st == LUO_EPARSE) {                            /* the next line may be good */
        char *twice = strstr(err.text, ", first at line 1;"); /* of one line, the file's `line` */
        if (twice) memmove(twice, strchr(twice, ';'), strlen(strchr(twice, ';')) + 1);
        luo_diags_add(r->job->diags, LUO_ERROR, st, r->path, r->line, err.col, "%s", err.text);
        if (r->st == LUO_OK) r->st = st;
        st = LUO_OK;
    } else {
        r->job->err = err;
    }
    luo_arena_reset(r->scratch, mark);
    return st;
}

/* ---- lines ---- */

static luo_status take_lines(reader *r, bool over)
{
    char *at = r->text, *end = r->text + r->len, *nl;
    while (at < end && !luo_diags_full(r->job->diags, r->path)) {
        nl = memchr(at, '\n', (size_t)(end - at));
        if (!nl && !over) break;
        LUO_TRY(take_line(r, at, (size_t)((nl ? nl : end) - at)));
        at = nl ? nl + 1 : end;
    }
    r->len = (size_t)(end - at);
    memmove(r->text, at, r->len);
    if (r->len < LINE_BYTES || over) return LUO_OK;
    luo_err_set(&r->job->err, LUO_E2BIG,
                "a line of more than %d bytes; a request a line is "
                "expected.",
                LINE_BYTES);
    return luo_err_at(&r->job->err, LUO_E2BIG, r->path, r->line + 1, 1);
}

static luo_status read_all(reader *r, int fd)
{
    size_t n;
    do {
        LUO_TRY(import_read(r->job, r->path, fd, r->text + r->len, LINE_BYTES - r->len, &n));
        r->len += n;
        LUO_TRY(take_lines(r, n == 0));
    } while (n > 0 && !luo_diags_full(r->job->diags, r->path));
    return r->st;
}

luo_status import_mooncake(import_job *job)
{
    reader r = {.job = job, .path = job->opts->source, .first = INT64_MIN};
    int fd;
    LUO_TRY(luo_input_open(r.path, LUO_INPUT_READ, "a file of JSON lines", &fd, &job->err));
    r.scratch = luo_arena_new(1 << 16);
    r.text = malloc(LINE_BYTES);
    const luo_status st = r.scratch && r.text ? read_all(&r, fd) : luo_err_nomem(&job->err);
    free(r.text);
    luo_arena_free(r.scratch);
    close(fd);
    return st;
}
