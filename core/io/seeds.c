/* Policies that ran under several seeds: OUT/seeds.csv, a row a policy, and OUT/plots/bands.csv,
 * what they had kept over run time, for the figure `goodput`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/compare_build.h"
#include "core/io/files.h"

enum { POINTS = 240 };

typedef struct member { /* one run of a policy */
    const luo_result *run;
    double goodput, speedup, lost;
    double *kept; /* POINTS + 1 values over the longest time of all runs */
    double ideal; /* tokens per second of the first step */
} member;

typedef struct seeds {
    luo_arena *arena;
    const luo_result *runs;
    int32_t n;
    const char **label; /* by run: its folder */
    double longest_s;
    luo_diags *diags;
    luo_err err;
} seeds;

static const char *last_part(luo_arena *arena, const char *dir)
{
    size_t n = strlen(dir), from;
    while (n > 1 && dir[n - 1] == '/') n--;
    for (from = n; from > 0 && dir[from - 1] != '/'; from--) continue;
    return luo_arena_strndup(arena, dir + from, n - from);
}

static bool same_seed(const luo_result *a, const luo_result *b)
{
    return strcmp(a->seed, b->seed) == 0;
}

/* Is run i the first of a label that has runs of different seeds? */
static bool leads(const seeds *s, int32_t i)
{
    bool several = false;
    if (!s->runs[i].measured) return false;
    for (int32_t k = 0; k < s->n; k++) {
        if (strcmp(s->label[k], s->label[i]) != 0 || !s->runs[k].measured) continue;
        if (k < i) return false;
        several |= !same_seed(&s->runs[k], &s->runs[i]);
    }
    return several;
}

/* ---- kept tokens over run time ---- */

typedef struct keeper {
    int64_t *before, cap; /* tokens of the steps below one */
    int64_t step, kept;   /* of the last row */
    int32_t next;         /* grid point */
} keeper;

static bool reach(keeper *k, int64_t step)
{
    if (step < k->cap) return true;
    const int64_t cap = step < 512 ? 1024 : 2 * step;
    int64_t *grown = realloc(k->before, (size_t)cap * sizeof *grown);
    if (!grown) return false;
    memset(grown + k->cap, 0, (size_t)(cap - k->cap) * sizeof *grown);
    k->before = grown;
    k->cap = cap;
    return true;
}

static void hold(keeper *k, double until_s, double grid_s, double *out)
{
    for (; k->next <= POINTS && k->next * grid_s < until_s; k->next++)
        out[k->next] = (double)k->kept;
}

static luo_status fill_kept(seeds *s, const luo_result *run, member *m)
{
    const luo_table_def *def = luo_table_def_at(LUO_TABLE_STEPS);
    const int32_t step = luo_table_column(def, "step"), tokens = luo_table_column(def, "tokens"),
                  start = luo_table_column(def, "t_start_s"),
                  end = luo_table_column(def, "t_end_s");
    const double grid_s = s->longest_s / POINTS;
    luo_csv_cell c[LUO_CSV_COLUMNS];
    luo_csv *t = luo_result_table(s->arena, run->dir, LUO_TABLE_STEPS, s->diags);
    keeper k = {.step = -1};
    bool ok = true;
    while (ok && t && luo_csv_next(t, c)) {
        if (c[step].whole < 0 || c[step].whole > INT32_MAX) continue;
        ok = reach(&k, c[step].whole + 1);
        if (!ok) break;
        if (c[step].whole <= k.step) { /* the run has gone back */
            hold(&k, c[start].number, grid_s, m->kept);
            k.kept = k.before[c[step].whole];
        }
        hold(&k, c[end].number, grid_s, m->kept);
        if (k.step < 0) m->ideal = (double)c[tokens].whole / (c[end].number - c[start].number);
        k.step = c[step].whole;
        k.kept = k.before[k.step] + c[tokens].whole;
        k.before[k.step + 1] = k.kept;
    }
    const luo_status st = luo_csv_close(t);
    hold(&k, INFINITY, grid_s, m->kept);
    free(k.before);
    return ok ? st : luo_err_nomem(&s->err);
}

/* ---- a policy ---- */

static luo_status gather(seeds *s, int32_t lead, member **out, int32_t *n)
{
    member *m = LUO_NEW_N(s->arena, member, s->n);
    *n = 0;
    if (!m) return luo_err_nomem(&s->err);
    for (int32_t i = lead; i < s->n; i++) {
        if (strcmp(s->label[i], s->label[lead]) != 0 || !s->runs[i].measured) continue;
        const luo_result *r = &s->runs[i], *first = r;
        for (int32_t k = s->n - 1; k >= 0; k--)
            if (same_seed(&s->runs[k], r)) first = &s->runs[k];
        member *x = &m[(*n)++];
        *x = (member){.run = r,
                      .goodput = r->goodput_tokens_per_s,
                      .speedup = luo_result_speedup(r, first),
                      .lost = luo_result_lost_s(r) / r->total_s,
                      .kept = LUO_NEW_N(s->arena, double, POINTS + 1)};
        if (!x->kept) return luo_err_nomem(&s->err);
        LUO_TRY(fill_kept(s, r, x));
    }
    *out = m;
    return LUO_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The 10th, 50th and 90th of 100 of one value of every run. */
static void tenths(double *x, int32_t n, double out[3])
{
    static const double at[] = {0.1, 0.5, 0.9};
    qsort(x, (size_t)n, sizeof *x, by_value);
    for (int k = 0; k < 3; k++) out[k] = luo_quantile(x, n, at[k]);
}

static luo_status put_seeds(seeds *s, luo_table *t, const char *label, const member *m, int32_t n,
                            luo_str *text)
{
    double *x = LUO_NEW_N(s->arena, double, n);
    double good[3], speedup[3], lost[3];
    if (!x) return luo_err_nomem(&s->err);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].goodput;
    tenths(x, n, good);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].speedup;
    tenths(x, n, speedup);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].lost;
    tenths(x, n, lost);
    luo_table_text(t, label);
    luo_table_int(t, n);
    for (int k = 0; k < 3; k++) luo_table_num(t, good[k]);
    for (int k = 0; k < 3; k++) luo_table_num(t, speedup[k]);
    luo_table_num(t, lost[1]);
    luo_str_addf(text,
                 "%s: %.0f tok/s in the median of %d runs, %.0f to %.0f (10th to 90th of "
                 "100), speedup %.3f\n",
                 label, good[1], (int)n, good[0], good[2], speedup[1]);
    return luo_table_end(t, &s->err);
}

static luo_status put_bands(seeds *s, luo_table *t, const char *label, const member *m, int32_t n)
{
    double *x = LUO_NEW_N(s->arena, double, n), q[3], ideal[3];
    if (!x) return luo_err_nomem(&s->err);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].ideal;
    tenths(x, n, ideal);
    for (int32_t p = 0; p <= POINTS; p++) {
        const double t_s = s->longest_s / POINTS * p;
        for (int32_t i = 0; i < n; i++) x[i] = m[i].kept[p];
        tenths(x, n, q);
        luo_table_text(t, label);
        luo_table_num(t, t_s);
        for (int k = 0; k < 3; k++) luo_table_num(t, q[k]);
        luo_table_num(t, ideal[1] * t_s);
        LUO_TRY(luo_table_end(t, &s->err));
    }
    return LUO_OK;
}

static luo_status put_all(seeds *s, luo_table *rows, luo_table *bands, luo_str *text)
{
    for (int32_t i = 0; i < s->n; i++) {
        member *m = NULL;
        int32_t n = 0;
        if (!leads(s, i)) continue;
        LUO_TRY(gather(s, i, &m, &n));
        LUO_TRY(put_seeds(s, rows, s->label[i], m, n, text));
        LUO_TRY(put_bands(s, bands, s->label[i], m, n));
    }
    return LUO_OK;
}

static luo_status write_all(seeds *s, const char *out, const char *plots, luo_str *text)
{
    luo_table rows = {0}, bands = {0};
    luo_status st = luo_dir_make(plots, &s->err);
    if (st == LUO_OK) st = luo_table_open(&rows, out, luo_table_def_at(LUO_TABLE_SEEDS), &s->err);
    if (st == LUO_OK)
        st = luo_table_open(&bands, plots, luo_table_def_at(LUO_TABLE_PLOT_BANDS), &s->err);
    if (st == LUO_OK) st = put_all(s, &rows, &bands, text);
    const luo_status a = luo_table_close(&rows, st == LUO_OK ? &s->err : NULL);
    if (st == LUO_OK) st = a;
    const luo_status b = luo_table_close(&bands, st == LUO_OK ? &s->err : NULL);
    return st == LUO_OK ? b : st;
}

luo_status luo_compare_seeds(luo_arena *arena, const char *out, const luo_result *runs, int32_t n,
                             luo_str *text, luo_diags *diags)
{
    seeds s = {.arena = arena, .runs = runs, .n = n, .diags = diags};
    const char *plots = luo_arena_printf(arena, "%s/plots", out);
    const char *old[] = {luo_arena_printf(arena, "%s/seeds.csv", out),
                         luo_arena_printf(arena, "%s/plots/bands.csv", out)};
    bool any = false;
    s.label = LUO_NEW_N(arena, const char *, n);
    if (!plots || !old[0] || !old[1] || !s.label) return LUO_ENOMEM;
    for (int32_t i = 0; i < n; i++) {
        s.label[i] = last_part(arena, runs[i].dir);
        if (!s.label[i]) return LUO_ENOMEM;
        s.longest_s = fmax(s.longest_s, runs[i].total_s);
    }
    for (int32_t i = 0; i < n; i++) any |= leads(&s, i);
    if (!any) { /* tables of an earlier comparison would be taken for this one's */
        unlink(old[0]);
        unlink(old[1]);
        return LUO_OK;
    }
    const luo_status st = write_all(&s, out, plots, text);
    if (s.err.st != LUO_OK) luo_diags_err(diags, &s.err);
    return st;
}
