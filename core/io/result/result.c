#include "core/io/result/result.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/utf8.h"
#include "core/base/vec.h"
#include "core/io/document/doc.h"

const char *luo_result_time_name(int i)
{
    const luo_table_def *def = luo_table_def_at(LUO_TABLE_PLOT_TIMELOST);
    return def->columns[LUO_COL_PLOT_TIMELOST_compute_s + i].name;
}

bool luo_result_has(const char *dir, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path &&
           access(path, R_OK) == 0;
}

typedef struct reader {
    luo_arena *arena;
    const char *file;
    const luo_doc_node *root;
    luo_diags *diags;
    luo_status st;
} reader;

static luo_status complain(reader *r, const char *key, const char *what)
{
    if (r->st == LUO_OK)
        r->st =
            luo_diags_add(r->diags, LUO_ERROR, LUO_EINPUT, r->file, 0, 0, "`%s` %s.", key, what);
    return r->st;
}

static reader open_json(luo_arena *arena, const char *dir, const char *name, luo_diags *diags)
{
    reader r = {arena, luo_arena_printf(arena, "%s/%s", dir, name), NULL, diags, LUO_OK};
    luo_source src;
    luo_err err = {0};
    r.st = r.file ? luo_source_read(arena, r.file, &src, &err) : luo_err_nomem(&err);
    if (r.st != LUO_OK) {
        luo_diags_err(diags, &err);
        return r;
    }
    r.st = luo_doc_tree(arena, src.text, src.len, &r.root, &err);
    if (r.st != LUO_ENOMEM && (!r.root || r.root->type != LUO_DOC_MAP))
        r.st = luo_diags_add(diags, LUO_ERROR, LUO_EPARSE, r.file, err.line, err.col,
                             "no JSON object; a file that luoshu wrote is expected.");
    return r;
}

const char *luo_result_shown(luo_arena *arena, const char *text)
{
    const size_t most = 4 * strlen(text) + 1;
    char *out = luo_utf8_drives(text) ? luo_arena_alloc(arena, most) : NULL;
    if (!out) return text;
    luo_utf8_show(out, most, text);
    return out;
}

static const char *text_of(reader *r, const luo_doc_node *in, const char *key)
{
    const char *v = luo_doc_text(in, key);
    if (!v) complain(r, key, "is missing or no text");
    return v ? luo_result_shown(r->arena, v) : "";
}

static int64_t int_of(reader *r, const luo_doc_node *in, const char *key)
{
    int64_t v = 0;
    if (!luo_doc_int(luo_doc_get(in, key), &v)) complain(r, key, "is missing or no whole number");
    return v;
}

static double num_of(reader *r, const luo_doc_node *in, const char *key)
{
    const luo_doc_node *node = luo_doc_get(in, key);
    double v = NAN;
    if (!luo_doc_real(node, &v) && !luo_doc_is(node, "null"))
        complain(r, key, "is missing or no number");
    return v;
}

static luo_run_state state_of(reader *r)
{
    const luo_run_state state = luo_run_state_find(text_of(r, r->root, "state"));
    if (state == LUO_RUN_STATES) complain(r, "state", "is no state of a run");
    return state;
}

static void read_plans(reader *r, luo_result *out)
{
    const luo_doc_node *list = luo_doc_get(r->root, "plans");
    const int32_t n = list && list->type == LUO_DOC_LIST ? list->n : 0;
    const char **plans = LUO_NEW_N(r->arena, const char *, n + 1);
    const char **programs = LUO_NEW_N(r->arena, const char *, n + 1);
    if (!plans || !programs) {
        r->st = LUO_ENOMEM;
        return;
    }
    const luo_doc_node *node = n ? list->first : NULL;
    for (int32_t i = 0; i < n; i++, node = node->next) {
        plans[i] = text_of(r, node, "hash");
        programs[i] = text_of(r, node, "program_hash");
    }
    out->nplans = n;
    out->plans = plans;
    out->programs = programs;
}

static void read_manifest(reader *r, luo_result *out)
{
    const luo_doc_node *seed = luo_doc_get(r->root, "seed");
    int64_t whole;
    out->scenario = text_of(r, r->root, "scenario");
    out->policy = text_of(r, r->root, "policy");
    out->backend = text_of(r, r->root, "backend");
    out->job = luo_doc_text(r->root, "job");
    out->alone = out->job && luo_doc_is(luo_doc_get(r->root, "alone"), "true");
    out->scenario_hash = text_of(r, r->root, "scenario_hash");
    out->seed = luo_doc_int(seed, &whole) ? seed->text : text_of(r, r->root, "seed");
    out->state = state_of(r);
    if (luo_doc_get(r->root, "error")) out->error = text_of(r, r->root, "error");
    read_plans(r, out);
}

static void no_summary(luo_result *out)
{
    int64_t *const counts[] = {&out->steps_done,        &out->steps_redone, &out->tokens,
                               &out->kept_tokens,       &out->switches,     &out->restarts,
                               &out->peak_memory_device};
    double *const figures[] = {
        &out->extent_s,         &out->total_s,      &out->step_mean_s,          &out->step_p50_s,
        &out->step_p99_s,       &out->tokens_per_s, &out->goodput_tokens_per_s, &out->mfu_ratio,
        &out->peak_memory_ratio};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) *counts[i] = -1;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) *figures[i] = NAN;
    for (int i = 0; i < LUO_TIMES; i++) out->time[i] = NAN;
}

static luo_range_part part_of(reader *r, const luo_doc_node *node)
{
    return (luo_range_part){.name = text_of(r, node, "name"),
                            .of = text_of(r, node, "of"),
                            .origin = text_of(r, node, "origin"),
                            .spread = num_of(r, node, "spread"),
                            .sensitivity = num_of(r, node, "sensitivity")};
}

/* Runs of real backends have none, and those of versions before it. */
static void read_range(reader *r, luo_result *out)
{
    const luo_doc_node *node = luo_doc_get(r->root, "range");
    const luo_doc_node *list = luo_doc_get(node, "constants");
    if (!node || node->type != LUO_DOC_MAP) return;
    const int32_t n = list && list->type == LUO_DOC_LIST ? list->n : 0;
    luo_range_part *part = LUO_NEW_N(r->arena, luo_range_part, n + 1);
    luo_time_range *range = LUO_NEW(r->arena, luo_time_range);
    if (!part || !range) {
        r->st = LUO_ENOMEM;
        return;
    }
    const luo_doc_node *at = n ? list->first : NULL;
    for (int32_t i = 0; i < n; i++, at = at->next) part[i] = part_of(r, at);
    *range = (luo_time_range){.cluster = text_of(r, node, "cluster"),
                              .stack = text_of(r, node, "stack"),
                              .source = num_of(r, node, "source_spread"),
                              .model = num_of(r, node, "residual_spread"),
                              .n = n,
                              .part = part};
    luo_time_range_settle(range);
    out->range = range;
}

static void read_summary(reader *r, luo_result *out)
{
    out->measured = true;
    out->state = state_of(r);
    out->kept_tokens = int_of(r, r->root, "kept_tokens");
    out->extent_s = num_of(r, r->root, "extent_s");
    out->steps_done = int_of(r, r->root, "steps_done");
    out->steps_redone = int_of(r, r->root, "steps_redone");
    out->tokens = int_of(r, r->root, "tokens");
    out->switches = int_of(r, r->root, "switches");
    out->restarts = int_of(r, r->root, "restarts");
    out->peak_memory_device = int_of(r, r->root, "peak_memory_device");
    out->total_s = num_of(r, r->root, "total_s");
    out->step_mean_s = num_of(r, r->root, "step_mean_s");
    out->step_p50_s = num_of(r, r->root, "step_p50_s");
    out->step_p99_s = num_of(r, r->root, "step_p99_s");
    out->tokens_per_s = num_of(r, r->root, "tokens_per_s");
    out->goodput_tokens_per_s = num_of(r, r->root, "goodput_tokens_per_s");
    out->mfu_ratio = num_of(r, r->root, "mfu_ratio");
    out->peak_memory_ratio = num_of(r, r->root, "peak_memory_ratio");
    read_range(r, out);
    for (int i = 0; i < LUO_TIMES; i++)
        out->time[i] = num_of(r, luo_doc_get(r->root, "time"), luo_result_time_name(i));
}

static const char *last_part(luo_arena *arena, const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && dir[from - 1] != '/') from--;
    const char *part = luo_arena_strndup(arena, dir + from, n - from);
    return part ? luo_result_shown(arena, part) : NULL;
}

luo_status luo_result_read(luo_arena *arena, const char *dir, luo_result *out, luo_diags *diags)
{
    luo_result got = {.dir = dir, .name = last_part(arena, dir), .error = ""};
    if (!got.name) return LUO_ENOMEM;
    reader m = open_json(arena, dir, "manifest.json", diags);
    if (m.st == LUO_OK) read_manifest(&m, &got);
    if (m.st != LUO_OK) return m.st;
    if (!luo_result_has(dir, "summary.json") &&
        (got.state == LUO_FAILED || got.state == LUO_INTERRUPTED)) {
        no_summary(&got);
        *out = got;
        return LUO_OK;
    }
    if (!luo_result_has(dir, "summary.json"))
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, NULL, 0, 0,
                             "run `%s` has no summary.json; it was not finished.", dir);
    reader s = open_json(arena, dir, "summary.json", diags);
    if (s.st == LUO_OK) read_summary(&s, &got);
    if (s.st == LUO_OK) *out = got;
    return s.st;
}

luo_csv *luo_result_table(luo_arena *arena, const char *dir, luo_table_id id, luo_diags *diags)
{
    return luo_result_file(arena, dir, luo_table_def_at(id)->file, id, diags);
}

luo_csv *luo_result_file(luo_arena *arena, const char *dir, const char *file, luo_table_id id,
                         luo_diags *diags)
{
    const luo_table_def *def = luo_table_def_at(id);
    luo_csv_column *columns = LUO_NEW_N(arena, luo_csv_column, def->n);
    char *path = luo_arena_printf(arena, "%s/%s", dir, file);
    if (!columns || !path) return NULL;
    for (int32_t i = 0; i < def->n; i++) {
        const luo_cell_kind kind = def->columns[i].kind;
        columns[i] = (luo_csv_column){.name = def->columns[i].name,
                                      .type = kind == LUO_CELL_TEXT  ? LUO_CSV_TEXT
                                              : kind == LUO_CELL_INT ? LUO_CSV_WHOLE
                                                                     : LUO_CSV_NUMBER,
                                      .limit = {.lo = -INFINITY, .hi = INFINITY}};
    }
    return luo_csv_open_path(path, columns, def->n, diags);
}

typedef struct list {
    luo_arena *arena;
    const char **at;
    int32_t n, cap;
} list;

static bool push(list *l, const char *dir, const char *name)
{
    if (!LUO_VEC_ROOM_IN(l->arena, l->at, l->n, l->cap)) return false;
    char *path =
        name ? luo_arena_printf(l->arena, "%s/%s", dir, name) : luo_arena_strdup(l->arena, dir);
    if (!path) return false;
    l->at[l->n++] = path;
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* By their numbers: seed2 before seed10. */
static int by_length(const void *a, const void *b)
{
    const size_t x = strlen(*(const char *const *)a), y = strlen(*(const char *const *)b);
    return x != y ? (x < y ? -1 : 1) : by_text(a, b);
}

/* Sub-folders that have this file, in this order. */
static bool push_folders(list *l, const char *dir, const char *file,
                         int (*order)(const void *, const void *))
{
    const int32_t first = l->n;
    DIR *d = opendir(dir);
    bool ok = true;
    for (struct dirent *e; d && ok && (e = readdir(d));) {
        char inside[4096];
        if (e->d_name[0] == '.') continue;
        if (snprintf(inside, sizeof inside, "%s/%s", dir, e->d_name) >= (int)sizeof inside)
            continue;
        if (luo_result_has(inside, file)) ok = push(l, inside, NULL);
    }
    if (d) closedir(d);
    if (ok && l->n > first)
        qsort((void *)(l->at + first), (size_t)(l->n - first), sizeof *l->at, order);
    return ok;
}

static bool push_runs(list *l, const char *dir)
{
    return push_folders(l, dir, "manifest.json", by_text);
}

static luo_status push_set(list *l, const char *dir, luo_diags *diags)
{
    if (!luo_result_has(dir, "compare.csv")) return push_runs(l, dir) ? LUO_OK : LUO_ENOMEM;
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    const int32_t first = l->n;
    luo_csv *csv = luo_result_table(l->arena, dir, LUO_TABLE_COMPARE, diags);
    bool ok = csv != NULL;
    while (ok && luo_csv_next(csv, cells)) {
        char inside[4096];
        const char *name = cells[LUO_COL_COMPARE_run].text;
        if (name[0] == '.' || strchr(name, '/')) continue; /* no folder of this set */
        snprintf(inside, sizeof inside, "%s/%s", dir, name);
        if (luo_result_has(inside, "manifest.json")) ok = push(l, inside, NULL);
    }
    const luo_status st = luo_csv_close(csv);
    if (ok && st == LUO_OK && l->n == first) ok = push_runs(l, dir); /* runs of other sets */
    return !ok ? LUO_ENOMEM : st;
}

/* A set a seed. */
static luo_status push_seeds(list *l, const char *dir, luo_diags *diags)
{
    list sets = {.arena = l->arena};
    if (!push_folders(&sets, dir, "compare.csv", by_length)) return LUO_ENOMEM;
    for (int32_t i = 0; i < sets.n; i++) LUO_TRY(push_set(l, sets.at[i], diags));
    return LUO_OK;
}

luo_status luo_result_expand(luo_arena *arena, const char *const *paths, int32_t n,
                             const char *const **out, int32_t *nout, luo_diags *diags)
{
    list l = {.arena = arena};
    for (int32_t i = 0; i < n; i++) {
        const int32_t before = l.n;
        luo_status st = LUO_OK;
        if (luo_result_has(paths[i], "manifest.json"))
            st = push(&l, paths[i], NULL) ? LUO_OK : LUO_ENOMEM;
        else
            st = push_set(&l, paths[i], diags);
        if (st == LUO_OK && l.n == before && luo_result_has(paths[i], "seeds.csv"))
            st = push_seeds(&l, paths[i], diags);
        if (st != LUO_OK) return st;
        if (l.n == before)
            return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, NULL, 0, 0,
                                 "`%s` holds no run; a run directory or a result set is expected.",
                                 paths[i]);
    }
    for (int32_t i = 0; i < l.n; i++)
        for (int32_t j = 0; j < i; j++)
            if (strcmp(l.at[i], l.at[j]) == 0)
                return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, NULL, 0, 0,
                                     "run `%s` is given twice; give each once.", l.at[i]);
    *out = l.at;
    *nout = l.n;
    return LUO_OK;
}

/* Letters up to the last folder that all runs lie in. */
static size_t shared_folders(const luo_result *runs, int32_t n)
{
    size_t end = 0;
    for (size_t i = 0; runs[0].dir[i]; i++) {
        for (int32_t k = 1; k < n; k++)
            if (runs[k].dir[i] != runs[0].dir[i]) return end;
        if (runs[0].dir[i] == '/') end = i + 1;
    }
    return 0; /* the same run twice: its whole path */
}

/* Two runs of one name would write the same row names; the folders in which they differ tell them
 * apart. */
static bool tell_apart(luo_arena *arena, luo_result *runs, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++) {
            if (i == j || strcmp(runs[i].name, runs[j].name) != 0) continue;
            const size_t from = shared_folders(runs, n);
            for (int32_t k = 0; k < n; k++) {
                char *name = luo_arena_strdup(arena, runs[k].dir + from);
                if (!name) return false;
                for (char *p = name; *p; p++)
                    if (*p == '/' || *p == ' ') *p = '_';
                runs[k].name = name;
            }
            return true;
        }
    return true;
}

luo_status luo_result_read_all(luo_arena *arena, const char *const *paths, int32_t n,
                               luo_result **out, int32_t *nout, luo_diags *diags)
{
    const char *const *dirs;
    LUO_TRY(luo_result_expand(arena, paths, n, &dirs, nout, diags));
    luo_result *runs = *out = LUO_NEW_N(arena, luo_result, *nout);
    if (!runs) return LUO_ENOMEM;
    for (int32_t i = 0; i < *nout; i++)
        LUO_TRY(luo_result_read(arena, dirs[i], &runs[i], diags));
    return tell_apart(arena, runs, *nout) ? LUO_OK : LUO_ENOMEM;
}
