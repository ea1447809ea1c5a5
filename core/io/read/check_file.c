/* check_file.c: what kind of file of ours a file is, and whether it is a good one. */
#include <string.h>
#include <unistd.h>

#include "core/io/document/doc_table.h"
#include "core/io/document/input.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"

static const char *const names[] = {"cluster",  "profile", "stack",  "model",
                                    "scenario", "plan",    "params", "table"};

const char *luo_file_kind_name(luo_file_kind k)
{
    return names[k];
}

/* ---- kind ---- */

static size_t content_start(const luo_source *src)
{
    size_t i = src->len >= 3 && memcmp(src->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (;;) {
        while (i < src->len && src->text[i] && strchr(" \t\r\n", src->text[i])) i++;
        if (i == src->len || src->text[i] != '#') return i;
        while (i < src->len && src->text[i] != '\n') i++;
    }
}

/* "luoshu.cluster/1" -> "cluster"; the number is for the reader to judge. */
static bool by_schema(const char *schema, luo_file_kind *out)
{
    static const char prefix[] = "luoshu.";
    if (strncmp(schema, prefix, sizeof prefix - 1) != 0) return false;
    const char *at = schema + sizeof prefix - 1;
    const size_t n = strcspn(at, "/");
    for (int k = 0; k < LUO_FILE_TABLE; k++)
        if (strlen(names[k]) == n && strncmp(names[k], at, n) == 0) {
            *out = (luo_file_kind)k;
            return true;
        }
    return false;
}

/* ---- files of other tools ---- */

enum { MARKS = 3, BEGINNING = 1 << 16 };

typedef struct foreign {
    const char *what, *reads;
    const char *marks[MARKS]; /* ended by NULL unless there are so many */
} foreign;

static const foreign foreigners[] = {
#define LUO_FOREIGN(what, reads, ...) {what, reads, {__VA_ARGS__}},
#include "core/io/read/foreign.inc"
#undef LUO_FOREIGN
};

static bool has_marks(const luo_source *src, const foreign *f)
{
    const size_t n = src->len < BEGINNING ? src->len : BEGINNING;
    for (int i = 0; i < MARKS && f->marks[i]; i++)
        if (!memmem(src->text, n, f->marks[i], strlen(f->marks[i]))) return false;
    return true;
}

/* NULL: none that is known. */
static const foreign *foreign_of(const luo_source *src)
{
    for (size_t i = 0; i < sizeof foreigners / sizeof *foreigners; i++)
        if (has_marks(src, &foreigners[i])) return &foreigners[i];
    return NULL;
}

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

static bool first_line_has(const luo_source *src, char c)
{
    const size_t start = content_start(src);
    return memchr(src->text + start, c, strcspn(src->text + start, "\n")) != NULL;
}

static luo_status unknown_kind(const luo_source *src, int line, int col, const char *schema,
                               luo_diags *diags)
{
    const foreign *other = schema ? NULL : foreign_of(src);
    luo_str text = {0};
    if (other)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, 0, 0, "this is %s; %s.",
                             other->what, other->reads);
    luo_words_choices(&text, names, LUO_FILE_TABLE);
    if (!schema && ends_in(src->name, ".csv") && content_start(src) < src->len) {
        luo_str_free(&text);
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, line, col, "%s",
                             first_line_has(src, ';') && !first_line_has(src, ',')
                                 ? "cells are separated by `;`; commas are expected."
                                 : "the first line is no header of a table that is known; `luoshu "
                                   "help files` lists the tables, `luoshu help TABLE` their "
                                   "columns.");
    }
    if (schema)
        luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, line, col,
                      "`schema` is `%.60s`; `luoshu.KIND/1` with KIND %s is expected.", schema,
                      luo_str_get(&text));
    else
        luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, line, col,
                      "this is no file of ours; `schema: luoshu.KIND/1` with KIND %s, or a table "
                      "with a known header, is expected.",
                      luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EINPUT;
}

typedef struct header { /* the words of a first line */
    const char *at[LUO_CSV_COLUMNS];
    size_t len[LUO_CSV_COLUMNS];
    int n;
} header;

static header split_header(const char *line, size_t len)
{
    header h = {.n = 0};
    size_t from = 0;
    for (size_t i = 0; i <= len; i++) {
        const bool inside = i < len && (line[i] == 0 || !strchr(", \"\t\r", line[i]));
        if (inside) continue;
        if (i > from && h.n < LUO_CSV_COLUMNS) {
            h.at[h.n] = line + from;
            h.len[h.n++] = i - from;
        }
        from = i + 1;
    }
    return h;
}

static bool has_word(const header *h, const char *word)
{
    const size_t n = strlen(word);
    for (int i = 0; i < h->n; i++)
        if (h->len[i] == n && memcmp(h->at[i], word, n) == 0) return true;
    return false;
}

/* The columns of the header that a table knows, and whether all it requires are there. */
static int header_score(const luo_input_table *table, const header *h, bool *whole)
{
    int hits = 0;
    *whole = true;
    for (int i = 0; i < table->n; i++) {
        const bool hit = has_word(h, table->columns[i].name);
        hits += hit;
        if (!hit && table->columns[i].required) *whole = false;
    }
    return hits;
}

const luo_input_table *luo_input_table_of(const luo_source *src)
{
    const size_t start = content_start(src);
    const bool named = ends_in(src->name, ".csv");
    const char *line = src->text + start, *nl = memchr(line, '\n', src->len - start);
    const size_t len = nl ? (size_t)(nl - line) : src->len - start;
    const luo_input_table *best = NULL;
    int n, most = 0;
    const luo_input_table *const *all = luo_input_tables(&n);
    bool best_whole = false;
    if (len > 4096 || (!named && !memchr(line, ',', len))) return NULL;
    const header h = split_header(line, len);
    for (int i = 0; i < n; i++) {
        bool whole;
        const int score = header_score(all[i], &h, &whole);
        if ((!whole && !named) || score == 0 || (best_whole && !whole)) continue;
        if (score > most || (whole && !best_whole)) {
            most = score;
            best = all[i];
            best_whole = whole;
        }
    }
    return best;
}

/* Does the table of a header have all that it has to have? */
static bool is_whole(const luo_input_table *table, const luo_source *src)
{
    const size_t start = content_start(src);
    const char *line = src->text + start, *nl = memchr(line, '\n', src->len - start);
    const header h = split_header(line, nl ? (size_t)(nl - line) : src->len - start);
    bool whole;
    header_score(table, &h, &whole);
    return whole;
}

/* The kind whose keys most of these are, two at least; NULL: none is nearest. */
static const char *kind_by_keys(const luo_doc_node *root)
{
    const char *name = NULL;
    int n, most = 1;
    const luo_doc_kind *const *kind = luo_doc_kinds(&n);
    for (int k = 0; k < n; k++) {
        int hits = 0;
        for (const luo_doc_node *at = root->first; at; at = at->next)
            for (const luo_doc_field *field = kind[k]->schema->fields; field->key; field++)
                hits += at->key && strcmp(field->key, at->key) == 0;
        if (hits >= most) name = hits > most ? kind[k]->name : NULL;
        if (hits > most) most = hits;
    }
    return name;
}

static luo_status kind_of_tree(const luo_doc *doc, luo_file_kind *out, luo_diags *diags)
{
    const luo_doc_node *node = luo_doc_get(doc->root, "schema");
    const char *schema = node && (node->quoted || !doc->json) ? node->text : NULL;
    if (!schema && doc->json && luo_doc_get(doc->root, "model_type")) {
        *out = LUO_FILE_MODEL;
        return LUO_OK;
    }
    if (schema && by_schema(schema, out)) return LUO_OK;
    const char *meant = node || foreign_of(doc->src) ? NULL : kind_by_keys(doc->root);
    if (meant)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, doc->src->name, doc->root->line,
                             doc->root->col,
                             "key `schema` is missing; by its keys this is a %s, which begins with "
                             "`schema: luoshu.%s/1`.",
                             meant, meant);
    return unknown_kind(doc->src, node ? node->line : 1, node ? node->col : 1, schema, diags);
}

/* Faults beside the kind, which doc->diags gets, are for its reader to tell. */
static luo_status kind_of(luo_doc *doc, luo_file_kind *out, luo_diags *diags)
{
    const size_t start = content_start(doc->src);
    if (start < doc->src->len && doc->src->text[start] == '{') {
        luo_doc_parse_json(doc);
        if (doc->root) return kind_of_tree(doc, out, diags);
        *out = LUO_FILE_PLAN; /* its reader names the fault in the syntax */
        if (ends_in(doc->src->name, ".json")) return LUO_OK;
    }
    const luo_input_table *table = luo_input_table_of(doc->src);
    if (table && (is_whole(table, doc->src) || !foreign_of(doc->src))) {
        *out = LUO_FILE_TABLE;
        return LUO_OK;
    }
    luo_diags_init(doc->diags, doc->arena);
    *doc = (luo_doc){.arena = doc->arena, .src = doc->src, .diags = doc->diags};
    luo_doc_parse(doc);
    if (doc->root) return kind_of_tree(doc, out, diags);
    if (foreign_of(doc->src)) return unknown_kind(doc->src, 0, 0, NULL, diags);
    for (const luo_diag *diag = doc->diags->first; diag; diag = diag->next)
        luo_diags_err(diags, &diag->err);
    return doc->st;
}

luo_status luo_file_kind_of_text(const luo_source *src, luo_file_kind *out, luo_diags *diags)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags own;
    luo_doc doc = {.arena = arena, .src = src, .diags = &own};
    if (!arena)
        return luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, src->name, 0, 0,
                             "this process is out of memory; free some or use less.");
    luo_diags_init(&own, arena);
    const luo_status st = kind_of(&doc, out, diags);
    luo_arena_free(arena);
    return st;
}

/* Enough of the file to see what it is: a table may be larger than any file that is read whole. */
static luo_status read_start(luo_arena *arena, const char *path, luo_source *out, luo_err *err)
{
    const luo_status st = luo_source_read(arena, path, out, err);
    if (st != LUO_E2BIG) return st;
    int fd;
    char *text = luo_arena_alloc(arena, 4097);
    if (!text) return luo_err_nomem(err);
    if (luo_input_open(path, LUO_INPUT_FILE, "a table", &fd, NULL) != LUO_OK) return st;
    const ssize_t got = read(fd, text, 4096);
    const size_t n = got > 0 ? (size_t)got : 0;
    close(fd);
    text[n] = 0;
    *out = (luo_source){path, text, n};
    return luo_input_table_of(out) ? LUO_OK : st;
}

luo_status luo_file_kind_of(const char *path, luo_file_kind *out, luo_diags *diags)
{
    luo_err err = {0};
    luo_source src;
    luo_arena *arena = luo_arena_new(0);
    luo_status st = arena ? read_start(arena, path, &src, &err) : luo_err_nomem(&err);
    if (st != LUO_OK)
        luo_diags_err(diags, &err);
    else
        st = luo_file_kind_of_text(&src, out, diags);
    luo_arena_free(arena);
    return st;
}

/* ---- check ---- */

static luo_status check_table(luo_arena *arena, const char *path, luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_err err;
    luo_source src;
    const luo_status st = read_start(arena, path, &src, &err);
    if (st != LUO_OK) return luo_diags_err(diags, &err);
    const luo_input_table *table = luo_input_table_of(&src);
    if (!table) return unknown_kind(&src, 1, 1, NULL, diags);
    if (table->columns == luo_input_table_events.columns) {
        luo_event *events;
        int32_t n;
        return luo_read_event_trace(arena, &src, NULL, 0, 1, &events, &n, diags);
    }
    if (table->columns == luo_input_table_causes.columns) {
        luo_cause *causes;
        int32_t n;
        return luo_read_causes(arena, &src, &causes, &n, diags);
    }
    if (table->columns == luo_input_table_rates.columns) {
        luo_rate_row *rows;
        int32_t n;
        return luo_read_rates(arena, path, NULL, &rows, &n, diags);
    }
    if (table == &luo_input_table_lengths || table == &luo_input_table_histogram) {
        luo_lengths lengths;
        return luo_read_lengths(arena, path, &lengths, diags);
    }
    if (table == &luo_input_table_pool) {
        luo_pool pool;
        return luo_read_pool(arena, path, &pool, diags);
    }
    if (table == &luo_input_table_expert_load) {
        luo_expert_load *loads;
        int32_t n;
        return luo_read_expert_load(arena, path, NULL, &loads, &n, diags);
    }
    if (table == &luo_input_table_straggler) {
        luo_straggler_row *rows;
        luo_straggler straggler = {0};
        int64_t n;
        LUO_TRY(luo_read_straggler(arena, path, 1 << 17, &rows, &n, diags));
        if (luo_straggler_trace(&straggler, rows, n, &err) == LUO_OK) return LUO_OK;
        luo_err_at(&err, err.st, path, 0, 0);
        return luo_diags_err(diags, &err);
    }
    luo_csv *csv = luo_csv_open_path(path, table->columns, table->n, diags);
    while (luo_csv_next(csv, cells)) continue;
    return luo_csv_close(csv);
}

static luo_status check_plan(luo_arena *arena, const char *path, luo_diags *diags)
{
    luo_plan *plan;
    const luo_doc *doc;
    luo_plan_finding *finding;
    int32_t n;
    LUO_TRY(luo_read_plan(arena, path, &plan, &doc, diags));
    const luo_status st = luo_plan_check(arena, plan, NULL, NULL, &finding, &n);
    luo_doc_report_plan(doc, finding, n, diags);
    return st;
}

luo_status luo_file_check(luo_arena *arena, const char *path, luo_file_kind k, luo_diags *diags)
{
    luo_cluster *cluster;
    luo_profile *profile;
    luo_stack stack;
    luo_model *model;
    luo_scenario *scenario;
    luo_params params;
    switch (k) {
    case LUO_FILE_CLUSTER:
        return luo_read_cluster(arena, path, &cluster, diags);
    case LUO_FILE_PROFILE:
        return luo_read_profile(arena, path, &profile, diags);
    case LUO_FILE_STACK:
        return luo_read_stack(arena, path, &stack, diags);
    case LUO_FILE_MODEL:
        return luo_read_model(arena, path, &model, diags);
    case LUO_FILE_SCENARIO:
        return luo_read_scenario(arena, path, NULL, &scenario, NULL, diags);
    case LUO_FILE_PLAN:
        return check_plan(arena, path, diags);
    case LUO_FILE_PARAMS:
        return luo_read_params(arena, path, &params, diags);
    case LUO_FILE_TABLE:
        return check_table(arena, path, diags);
    }
    return LUO_EBUG;
}
