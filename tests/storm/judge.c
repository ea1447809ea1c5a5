/* What was written, file by file: tables have their columns and finite numbers, JSON is JSON, the
 * trace is one that viewers load, the manifest names what there is. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/io/read/read.h"
#include "core/io/result/columns.h"
#include "core/io/trace/trace.h"
#include "tests/parked/trace_lint.h"
#include "tests/storm/storm.h"

/* ---- tables ---- */

static bool is_number(const char *text, luo_cell_kind kind)
{
    char *end;
    const double v = strtod(text, &end);
    if (*end || end == text || !isfinite(v) || isspace((unsigned char)*text)) return false;
    if (kind == LUO_CELL_INT) return strspn(text, "-0123456789") == strlen(text);
    return strspn(text, "-+.0123456789e") == strlen(text);
}

/* A policy that was refused, which the exit code has told, leaves what it had written. */
static bool failed(const storm_run *r)
{
    return strcmp(r->state, "failed") == 0;
}

/* Header and cells are those of the list of columns. */
static void judge_table(storm_run *r, luo_table_id id, storm_sheet *t)
{
    const luo_table_def *def = luo_table_def_at(id);
    const char *path = luo_arena_printf(r->arena, "%s/%s", r->dir, def->file);
    struct stat st;
    if (failed(r) && stat(path, &st) < 0) return; /* it had not come that far */
    if (!storm_sheet_read(r->arena, path, t, r->why)) return;
    bool same = t->columns == def->n;
    for (int i = 0; same && i < def->n; i++) same = strcmp(t->name[i], def->columns[i].name) == 0;
    if (!same) {
        STORM_WRONG(r, "%s: other columns than the list has", path);
        *t = (storm_sheet){0};
        return;
    }
    for (int k = 0; k < t->rows * t->columns; k++) {
        const luo_column *c = &def->columns[k % t->columns];
        const bool holds = !*t->cell[k]
                               ? c->empty == LUO_CELL_NULLABLE
                               : c->kind == LUO_CELL_TEXT || is_number(t->cell[k], c->kind);
        if (holds) continue;
        STORM_WRONG(r, "%s:%d: `%s` is `%s`", path, k / t->columns + 2, c->name, t->cell[k]);
        return;
    }
    for (int k = 0; storm_sheet_column(t, "seq") == 0 && id != LUO_TABLE_OPS && k < t->rows; k++)
        if (storm_number(t, k, "seq") != k) {
            STORM_WRONG(r, "%s:%d: rows are not counted up", path, k + 2);
            break;
        }
}

/* ---- JSON ---- */

static json_t *judge_json(storm_run *r, const char *name)
{
    json_error_t e;
    const char *path = luo_arena_printf(r->arena, "%s/%s", r->dir, name);
    json_t *v = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    if (!v) STORM_WRONG(r, "%s:%d: %s", path, e.line, e.text);
    return v;
}

static void judge_inputs(storm_run *r, const json_t *manifest)
{
    size_t i;
    json_t *in;
    json_array_foreach(json_object_get(manifest, "inputs"), i, in)
    {
        const char *copy = json_string_value(json_object_get(in, "copy"));
        const char *hash = json_string_value(json_object_get(in, "hash"));
        luo_source src;
        luo_err err = {0};
        char text[20] = "";
        const char *path = luo_arena_printf(r->arena, "%s/%s", r->dir, copy ? copy : "?");
        if (luo_source_read(r->arena, path, &src, &err) == LUO_OK)
            snprintf(text, sizeof text, "%016llx",
                     (unsigned long long)luo_hash_bytes(LUO_HASH_EMPTY, src.text, src.len));
        if (!hash || strcmp(text, hash) != 0)
            STORM_WRONG(r, "%s: the copy of an input is not that of the manifest", path);
    }
}

static void judge_plans(storm_run *r, const json_t *manifest)
{
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(manifest, "plans"), i, p)
    {
        luo_plan *plan;
        luo_diags diags;
        char hash[20] = "";
        const char *wanted = json_string_value(json_object_get(p, "hash"));
        const char *path = luo_arena_printf(r->arena, "%s/plans/plan-%03d.json", r->dir, (int)i);
        luo_diags_init(&diags, r->arena);
        if (luo_read_plan(r->arena, path, &plan, NULL, &diags) == LUO_OK)
            snprintf(hash, sizeof hash, "%016llx", (unsigned long long)luo_plan_hash(plan));
        if (!wanted || strcmp(hash, wanted) != 0)
            STORM_WRONG(r, "%s: not the plan of the manifest", path);
    }
}

static void judge_manifest(storm_run *r)
{
    json_t *m = judge_json(r, "manifest.json");
    if (!m) return;
    const char *state = json_string_value(json_object_get(m, "state"));
    r->state = luo_arena_strdup(r->arena, state ? state : "");
    if (strcmp(r->state, "complete") != 0 && strcmp(r->state, "lost") != 0 &&
        !(failed(r) && r->exit != 0))
        STORM_WRONG(r, "%s: state `%s`", r->dir, r->state);
    judge_inputs(r, m);
    judge_plans(r, m);
    json_decref(m);
}

/* A double, which is what viewers and the lint make of `ts`, holds nanoseconds up to 104 days. */
static const double LINT_S = 9007199.254740992;

static void judge_trace(storm_run *r)
{
    struct stat st;
    luo_err err = {0};
    luo_trace_counts counts;
    const char *path = luo_arena_printf(r->arena, "%s/trace.json.gz", r->dir);
    if (stat(path, &st) < 0 || r->total_s > LINT_S) return;
    if (luo_trace_lint(path, &counts, &err) != LUO_OK) STORM_WRONG(r, "%s: %s", path, err.text);
}

void storm_judge_files(storm_run *r)
{
    storm_sheet other;
    judge_manifest(r);
    if (!failed(r)) r->summary = judge_json(r, "summary.json");
    judge_table(r, LUO_TABLE_STEPS, &r->steps);
    judge_table(r, LUO_TABLE_TIMELINE, &r->timeline);
    judge_table(r, LUO_TABLE_EVENTS, &r->events);
    judge_table(r, LUO_TABLE_DEVICES, &r->devices);
    judge_table(r, LUO_TABLE_LINKS, &r->links);
    judge_table(r, LUO_TABLE_OPS, &r->ops);
    judge_table(r, LUO_TABLE_MEMORY, &other);
    judge_table(r, LUO_TABLE_COMM, &other);
    judge_table(r, LUO_TABLE_SWITCHES, &other);
    if (r->scenario->truth) judge_table(r, LUO_TABLE_TRUTH, &other);
}

/* ---- one policy, all policies ---- */

static void judge_policy(storm_run *r, storm_counts *counts)
{
    storm_judge_files(r);
    if (!r->summary) return;
    r->total_s = json_number_value(json_object_get(r->summary, "total_s"));
    r->kept = json_number_value(json_object_get(r->summary, "kept_tokens"));
    judge_trace(r);
    storm_judge_time(r);
    storm_judge_down(r);
    storm_judge_work(r);
    counts->complete += strcmp(r->state, "complete") == 0;
    counts->lost += strcmp(r->state, "lost") == 0;
    counts->steps += r->steps.rows;
    counts->failures += (int)json_integer_value(json_object_get(r->summary, "restarts")) +
                        (int)json_integer_value(json_object_get(r->summary, "switches"));
    json_decref(r->summary);
}

/* Same plan, nobody slow, nothing drawn: what `static` does is what its plan can do while all its
 * devices are there, and `oracle` is never behind that. With slow devices it may be: it spreads
 * their loss over all, and a slow device that the plan hardly loads costs `static` nothing. */
static bool comparable(const storm_case *c, const luo_scenario *sc)
{
    for (int32_t i = 0; i < sc->nevents; i++)
        if (sc->events[i].kind == LUO_EVENT_STRAGGLER || sc->events[i].kind == LUO_EVENT_LENGTHS)
            return false;
    for (int32_t i = 0; i < sc->nprocesses; i++)
        if (sc->processes[i].kind == LUO_EVENT_STRAGGLER ||
            sc->processes[i].kind == LUO_EVENT_CAUSES)
            return false;
    for (int32_t i = 0; i < sc->cluster->nhealth; i++)
        if (!sc->cluster->health[i].down) return false;
    for (int32_t i = 0; i < sc->cluster->ngroups; i++)
        if (sc->cluster->groups[i].base_slowdown > 1) return false;
    return !c->noise;
}

static const storm_run *of_policy(const storm_run *all, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].policy->name, name) == 0 && !all[i].policy->planner &&
            strcmp(all[i].state, "complete") == 0)
            return &all[i];
    return NULL;
}

static void judge_bound(const storm_run *all, int n, luo_str *why)
{
    const storm_run *bound = of_policy(all, n, "oracle"), *run = of_policy(all, n, "static");
    if (!bound || !run || !comparable(run->c, run->scenario)) return;
    if (bound->kept / bound->total_s < run->kept / run->total_s * (1 - 1e-6))
        luo_str_addf(why, "%s keeps %.0f tokens in %.9f s, `oracle` %.0f in %.9f s\n", run->dir,
                     run->kept, run->total_s, bound->kept, bound->total_s);
}

/* compare.csv says of each policy what its summary says. */
static void judge_compare(const storm_run *all, int n, const char *out, luo_str *why)
{
    storm_sheet t;
    const char *path = luo_arena_printf(all->arena, "%s/compare.csv", out);
    if (!storm_sheet_read(all->arena, path, &t, why)) return;
    if (t.rows != n) luo_str_addf(why, "%s: %d rows of %d policies\n", path, t.rows, n);
    for (int i = 0; i < t.rows && i < n; i++)
        if (!failed(&all[i]) && (strcmp(storm_cell(&t, i, "run"), all[i].policy->label) != 0 ||
                                 fabs(storm_number(&t, i, "total_s") - all[i].total_s) > 1e-9))
            luo_str_addf(why, "%s:%d: not what %s/summary.json says\n", path, i + 2,
                         all[i].policy->label);
}

void storm_judge(const storm_case *c, const char *out, int exit, luo_str *why, storm_counts *counts)
{
    luo_diags diags;
    luo_scenario *sc;
    const char *path = luo_arena_printf(c->arena, "%s/scenario.yaml", c->dir);
    luo_diags_init(&diags, c->arena);
    if (luo_read_scenario(c->arena, path, NULL, &sc, NULL, &diags) != LUO_OK) {
        luo_str_addf(why, "%s cannot be read here\n", path);
        return;
    }
    storm_run *r = LUO_NEW_N(c->arena, storm_run, sc->npolicies);
    for (int32_t i = 0; i < sc->npolicies; i++) {
        r[i] = (storm_run){.c = c,
                           .scenario = sc,
                           .policy = &sc->policies[i],
                           .arena = c->arena,
                           .why = why,
                           .exit = exit,
                           .state = "",
                           .dir = luo_arena_printf(c->arena, "%s/%s", out, sc->policies[i].label)};
        judge_policy(&r[i], counts);
    }
    judge_compare(r, sc->npolicies, out, why);
    judge_bound(r, sc->npolicies, why);
}

/* ---- the same twice ---- */

/* Wall clocks: a column of steps.csv, and the files that name the folder or the time. */
static bool skip_file(const char *name)
{
    static const char *const names[] = {"manifest.json", ".", ".."};
    for (int i = 0; i < 3; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static void same_steps(luo_arena *arena, const char *a, const char *b, luo_str *why)
{
    storm_sheet s, t;
    if (!storm_sheet_read(arena, a, &s, why) || !storm_sheet_read(arena, b, &t, why)) return;
    const int wall = storm_sheet_column(&s, "wall_s");
    bool same = s.rows == t.rows && s.columns == t.columns;
    for (int k = 0; same && k < s.rows * s.columns; k++)
        same = k % s.columns == wall || strcmp(s.cell[k], t.cell[k]) == 0;
    if (!same) luo_str_addf(why, "%s and %s differ\n", a, b);
}

static void same_bytes(luo_arena *arena, const char *a, const char *b, luo_str *why)
{
    luo_err err = {0};
    luo_source s, t;
    if (luo_source_read(arena, a, &s, &err) != LUO_OK ||
        luo_source_read(arena, b, &t, &err) != LUO_OK)
        luo_str_addf(why, "%s: %s\n", b, err.text);
    else if (s.len != t.len || memcmp(s.text, t.text, s.len) != 0)
        luo_str_addf(why, "%s and %s differ\n", a, b);
}

void storm_judge_same(luo_arena *arena, const char *a, const char *b, luo_str *why)
{
    DIR *d = opendir(a);
    if (!d) luo_str_addf(why, "%s: %s\n", a, strerror(errno));
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (skip_file(e->d_name)) continue;
        const char *x = luo_arena_printf(arena, "%s/%s", a, e->d_name);
        const char *y = luo_arena_printf(arena, "%s/%s", b, e->d_name);
        struct stat st;
        if (stat(x, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size > 60000000)) continue;
        if (S_ISDIR(st.st_mode))
            storm_judge_same(arena, x, y, why);
        else if (strcmp(e->d_name, "steps.csv") == 0)
            same_steps(arena, x, y, why);
        else
            same_bytes(arena, x, y, why);
    }
    if (d) closedir(d);
}
