/* Policies that ran under several seeds: OUT/seeds.csv, a row a policy, OUT/pairs.csv, a row two of
 * them; for the figure `goodput` OUT/plots/bands.csv and seeds_kept.csv, what they had kept over
 * run time, and paired.csv, how much more the best one kept than each of the others, by seeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/compare/compare_internal.h"
#include "core/io/files.h"
#include "core/io/result/repeats.h"

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
    const luo_seed_stats *stats;
    double longest_s;
    luo_diags *diags;
    luo_err err;
} seeds;

static bool same_seed(const luo_result *a, const luo_result *b)
{
    return strcmp(a->seed, b->seed) == 0;
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
    const double grid_s = s->longest_s / POINTS;
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(s->arena, run->dir, LUO_TABLE_STEPS, s->diags);
    keeper k = {.step = -1};
    bool ok = true;
    while (ok && rows && luo_repeats_next(rows, cell)) {
        const int64_t step = cell[LUO_COL_STEPS_step].whole,
                      tokens = cell[LUO_COL_STEPS_tokens].whole;
        const double start_s = cell[LUO_COL_STEPS_t_start_s].number;
        const double end_s = cell[LUO_COL_STEPS_t_end_s].number;
        if (step < 0 || step > INT32_MAX) continue;
        ok = reach(&k, step + 1);
        if (!ok) break;
        if (step <= k.step) { /* the run has gone back */
            hold(&k, start_s, grid_s, m->kept);
            k.kept = k.before[step];
        }
        hold(&k, end_s, grid_s, m->kept);
        if (k.step < 0) m->ideal = (double)tokens / (end_s - start_s);
        k.step = step;
        k.kept = k.before[step] + tokens;
        k.before[step + 1] = k.kept;
    }
    const luo_status st = luo_repeats_close(rows);
    hold(&k, INFINITY, grid_s, m->kept);
    free(k.before);
    return ok ? st : luo_err_nomem(&s->err);
}

/* ---- a policy ---- */

static luo_status gather(seeds *s, const luo_seed_policy *policy, member **out)
{
    member *m = *out = LUO_NEW_N(s->arena, member, policy->n);
    if (!m) return luo_err_nomem(&s->err);
    for (int32_t i = 0; i < policy->n; i++) {
        const luo_result *result = policy->run[i], *first = result;
        for (int32_t k = s->n - 1; k >= 0; k--)
            if (same_seed(&s->runs[k], result)) first = &s->runs[k];
        m[i] = (member){.run = result,
                        .goodput = result->goodput_tokens_per_s,
                        .speedup = luo_result_speedup(result, first),
                        .lost = luo_result_lost_s(result) / result->total_s,
                        .kept = LUO_NEW_N(s->arena, double, POINTS + 1)};
        if (!m[i].kept) return luo_err_nomem(&s->err);
        LUO_TRY(fill_kept(s, result, &m[i]));
    }
    return LUO_OK;
}

/* The 10th, 50th and 90th of 100 of one value of every run. */
static void tenths(double *x, int32_t n, double out[3])
{
    static const double at[] = {0.1, 0.5, 0.9};
    qsort(x, (size_t)n, sizeof *x, luo_vec_by_double);
    for (int k = 0; k < 3; k++) out[k] = luo_stats_quantile(x, n, at[k]);
}

static luo_status put_seeds(seeds *s, luo_table *table, const luo_seed_policy *policy,
                            const member *m, luo_str *text)
{
    const int32_t n = policy->n;
    double *x = LUO_NEW_N(s->arena, double, n);
    double good[3], speedup[3], lost[3];
    if (!x) return luo_err_nomem(&s->err);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].goodput;
    tenths(x, n, good);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].speedup;
    tenths(x, n, speedup);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].lost;
    tenths(x, n, lost);
    luo_table_text(table, LUO_COL_SEEDS_run, policy->label);
    luo_table_int(table, LUO_COL_SEEDS_seeds, n);
    for (int k = 0; k < 3; k++)
        luo_table_num(table, LUO_COL_SEEDS_goodput_p10_tokens_per_s + k, good[k]);
    for (int k = 0; k < 3; k++) luo_table_num(table, LUO_COL_SEEDS_speedup_p10 + k, speedup[k]);
    luo_table_num(table, LUO_COL_SEEDS_lost_p50_ratio, lost[1]);
    luo_table_num(table, LUO_COL_SEEDS_goodput_mean_tokens_per_s, policy->goodput.mean);
    luo_table_num(table, LUO_COL_SEEDS_goodput_low95_tokens_per_s, policy->goodput.low);
    luo_table_num(table, LUO_COL_SEEDS_goodput_high95_tokens_per_s, policy->goodput.high);
    luo_str_addf(text,
                 "%s: %.0f tok/s in the mean of %d runs, 95 %% interval %.0f to %.0f; median %.0f, "
                 "%.0f to %.0f (10th to 90th of 100), speedup %.3f\n",
                 policy->label, policy->goodput.mean, (int)n, policy->goodput.low,
                 policy->goodput.high, good[1], good[0], good[2], speedup[1]);
    return luo_table_end(table, &s->err);
}

static luo_status put_pairs(seeds *s, luo_table *table)
{
    for (int32_t i = 0; i < s->stats->npairs; i++) {
        const luo_seed_pair *pair = &s->stats->pair[i];
        luo_table_text(table, LUO_COL_PAIRS_run, s->stats->policy[pair->run].label);
        luo_table_text(table, LUO_COL_PAIRS_other, s->stats->policy[pair->other].label);
        luo_table_int(table, LUO_COL_PAIRS_seeds, pair->difference.n);
        luo_table_int(table, LUO_COL_PAIRS_ahead, pair->ahead);
        luo_table_int(table, LUO_COL_PAIRS_behind, pair->behind);
        luo_table_num(table, LUO_COL_PAIRS_difference_tokens_per_s, pair->difference.mean);
        luo_table_num(table, LUO_COL_PAIRS_difference_low95_tokens_per_s, pair->difference.low);
        luo_table_num(table, LUO_COL_PAIRS_difference_high95_tokens_per_s, pair->difference.high);
        luo_table_num(table, LUO_COL_PAIRS_difference_ratio, pair->difference.mean / pair->against);
        luo_table_num(table, LUO_COL_PAIRS_p, pair->difference.p);
        LUO_TRY(luo_table_end(table, &s->err));
    }
    return LUO_OK;
}

static luo_status put_bands(seeds *s, luo_table *table, const char *label, const member *m,
                            int32_t n)
{
    double *x = LUO_NEW_N(s->arena, double, n), q[3], ideal[3];
    if (!x) return luo_err_nomem(&s->err);
    for (int32_t i = 0; i < n; i++) x[i] = m[i].ideal;
    tenths(x, n, ideal);
    for (int32_t p = 0; p <= POINTS; p++) {
        const double t_s = s->longest_s / POINTS * p;
        for (int32_t i = 0; i < n; i++) x[i] = m[i].kept[p];
        const luo_interval mean = luo_interval_of_mean(x, n, 0.95);
        tenths(x, n, q);
        luo_table_text(table, LUO_COL_PLOT_BANDS_run, label);
        luo_table_num(table, LUO_COL_PLOT_BANDS_t_s, t_s);
        for (int k = 0; k < 3; k++)
            luo_table_num(table, LUO_COL_PLOT_BANDS_kept_p10_tokens + k, q[k]);
        luo_table_num(table, LUO_COL_PLOT_BANDS_ideal_tokens, ideal[1] * t_s);
        luo_table_num(table, LUO_COL_PLOT_BANDS_kept_mean_tokens, mean.mean);
        luo_table_num(table, LUO_COL_PLOT_BANDS_kept_low95_tokens, mean.low);
        luo_table_num(table, LUO_COL_PLOT_BANDS_kept_high95_tokens, mean.high);
        LUO_TRY(luo_table_end(table, &s->err));
    }
    return LUO_OK;
}

static luo_status put_kept(seeds *s, luo_table *table, const char *label, const member *m,
                           int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t p = 0; p <= POINTS; p++) {
            const double t_s = s->longest_s / POINTS * p;
            luo_table_text(table, LUO_COL_PLOT_SEEDS_KEPT_run, label);
            luo_table_text(table, LUO_COL_PLOT_SEEDS_KEPT_seed, m[i].run->seed);
            luo_table_num(table, LUO_COL_PLOT_SEEDS_KEPT_t_s, t_s);
            luo_table_num(table, LUO_COL_PLOT_SEEDS_KEPT_kept_tokens, m[i].kept[p]);
            luo_table_num(table, LUO_COL_PLOT_SEEDS_KEPT_ideal_tokens, m[i].ideal * t_s);
            LUO_TRY(luo_table_end(table, &s->err));
        }
    return LUO_OK;
}

/* Seeds of the best policy and of another one. */
static luo_status put_paired(seeds *s, luo_table *table, const luo_seed_pair *pair)
{
    const luo_seed_policy *a = &s->stats->policy[pair->run], *b = &s->stats->policy[pair->other];
    const luo_interval *interval = &pair->difference;
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t k = 0; k < b->n; k++) {
            if (!same_seed(a->run[i], b->run[k])) continue;
            const double difference =
                a->run[i]->goodput_tokens_per_s - b->run[k]->goodput_tokens_per_s;
            luo_table_text(table, LUO_COL_PLOT_PAIRED_run, a->label);
            luo_table_text(table, LUO_COL_PLOT_PAIRED_other, b->label);
            luo_table_text(table, LUO_COL_PLOT_PAIRED_seed, a->run[i]->seed);
            luo_table_num(table, LUO_COL_PLOT_PAIRED_difference_ratio, difference / pair->against);
            luo_table_num(table, LUO_COL_PLOT_PAIRED_mean_ratio, interval->mean / pair->against);
            luo_table_num(table, LUO_COL_PLOT_PAIRED_low95_ratio, interval->low / pair->against);
            luo_table_num(table, LUO_COL_PLOT_PAIRED_high95_ratio, interval->high / pair->against);
            LUO_TRY(luo_table_end(table, &s->err));
            break;
        }
    return LUO_OK;
}

static luo_status put_all_paired(seeds *s, luo_table *table)
{
    for (int32_t i = 0; i < s->stats->npairs; i++)
        if (s->stats->pair[i].run == s->stats->best && s->stats->pair[i].against > 0)
            LUO_TRY(put_paired(s, table, &s->stats->pair[i]));
    return LUO_OK;
}

static luo_status put_all(seeds *s, luo_table *rows, luo_table *bands, luo_table *kept,
                          luo_str *text)
{
    for (int32_t i = 0; i < s->stats->npolicies; i++) {
        const luo_seed_policy *policy = &s->stats->policy[i];
        member *m = NULL;
        LUO_TRY(gather(s, policy, &m));
        LUO_TRY(put_seeds(s, rows, policy, m, text));
        LUO_TRY(put_bands(s, bands, policy->label, m, policy->n));
        LUO_TRY(put_kept(s, kept, policy->label, m, policy->n));
    }
    return LUO_OK;
}

static luo_status write_all(seeds *s, const char *out, const char *plots, luo_str *text)
{
    enum { ROWS, PAIRS, BANDS, KEPT, PAIRED, TABLES };
    luo_table table[TABLES] = {{0}};
    static const luo_table_id id[TABLES] = {LUO_TABLE_SEEDS, LUO_TABLE_PAIRS, LUO_TABLE_PLOT_BANDS,
                                            LUO_TABLE_PLOT_SEEDS_KEPT, LUO_TABLE_PLOT_PAIRED};
    luo_status st = luo_file_make_own_dir(plots, &s->err);
    for (int i = 0; i < TABLES && st == LUO_OK; i++)
        st = luo_table_open(&table[i], i >= BANDS ? plots : out, luo_table_def_at(id[i]), &s->err);
    if (st == LUO_OK) st = put_all(s, &table[ROWS], &table[BANDS], &table[KEPT], text);
    if (st == LUO_OK) st = put_pairs(s, &table[PAIRS]);
    if (st == LUO_OK) st = put_all_paired(s, &table[PAIRED]);
    for (int i = 0; i < TABLES; i++) {
        const luo_status closed = luo_table_close(&table[i], st == LUO_OK ? &s->err : NULL);
        if (st == LUO_OK) st = closed;
    }
    return st;
}

luo_status luo_compare_seeds(luo_arena *arena, const char *out, const luo_result *runs, int32_t n,
                             const luo_seed_stats *stats, luo_str *text, luo_diags *diags)
{
    static const char *const files[] = {"seeds.csv", "pairs.csv", "plots/bands.csv",
                                       "plots/seeds_kept.csv", "plots/paired.csv"};
    seeds s = {.arena = arena, .runs = runs, .n = n, .stats = stats, .diags = diags};
    const char *plots = luo_arena_printf(arena, "%s/plots", out);
    if (!plots) return LUO_ENOMEM;
    for (int32_t i = 0; i < n; i++) s.longest_s = fmax(s.longest_s, runs[i].total_s);
    /* tables of an earlier comparison would be taken for this one's */
    for (size_t i = 0; i < sizeof files / sizeof *files && stats->npolicies == 0; i++) {
        const char *old = luo_arena_printf(arena, "%s/%s", out, files[i]);
        if (!old) return LUO_ENOMEM;
        unlink(old);
    }
    if (stats->npolicies == 0) return LUO_OK;
    const luo_status st = write_all(&s, out, plots, text);
    if (s.err.st != LUO_OK) luo_diags_err(diags, &s.err);
    return st;
}
