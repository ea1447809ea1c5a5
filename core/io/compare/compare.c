#include "core/io/compare/compare.h"

#include <math.h>
#include <string.h>

#include "core/io/compare/compare_internal.h"
#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/jsonw.h"

double luo_result_lost_s(const luo_result *result)
{
    double kept = 0;
    for (int i = 0; i <= LUO_TIME(bubble_s); i++) kept += result->time[i];
    return result->total_s - kept;
}

static double over(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

double luo_result_speedup(const luo_result *result, const luo_result *first)
{
    return over(result->goodput_tokens_per_s, first->goodput_tokens_per_s);
}

double luo_result_error(const luo_result *result, const luo_result *first)
{
    if (strcmp(result->backend, first->backend) == 0) return NAN;
    return over(result->step_mean_s, first->step_mean_s) - 1;
}

static luo_status put_run(luo_table *table, const luo_result *result, const luo_result *runs,
                          int32_t n, luo_err *err)
{
    const luo_result *first = luo_compare_reference(runs, n, result);
    luo_table_text(table, LUO_COL_COMPARE_run, result->name);
    luo_table_text(table, LUO_COL_COMPARE_policy, result->policy);
    luo_table_text(table, LUO_COL_COMPARE_backend, result->backend);
    luo_table_text(table, LUO_COL_COMPARE_state, luo_run_state_name(result->state));
    luo_table_text(table, LUO_COL_COMPARE_seed, result->seed);
    luo_table_text(table, LUO_COL_COMPARE_plan, result->nplans ? result->plans[0] : "");
    luo_table_text(table, LUO_COL_COMPARE_program, result->nplans ? result->programs[0] : "");
    luo_table_int_opt(table, LUO_COL_COMPARE_steps, result->steps_done);
    luo_table_num(table, LUO_COL_COMPARE_total_s, result->total_s);
    luo_table_num(table, LUO_COL_COMPARE_extent_s, result->extent_s);
    luo_table_num(table, LUO_COL_COMPARE_step_mean_s, result->step_mean_s);
    luo_table_num(table, LUO_COL_COMPARE_step_p50_s, result->step_p50_s);
    luo_table_num(table, LUO_COL_COMPARE_step_p99_s, result->step_p99_s);
    luo_table_num(table, LUO_COL_COMPARE_tokens_per_s, result->tokens_per_s);
    luo_table_num(table, LUO_COL_COMPARE_goodput_tokens_per_s, result->goodput_tokens_per_s);
    luo_table_num(table, LUO_COL_COMPARE_mfu_ratio, result->mfu_ratio);
    luo_table_num(table, LUO_COL_COMPARE_lost_s, luo_result_lost_s(result));
    luo_table_int_opt(table, LUO_COL_COMPARE_switches, result->switches);
    luo_table_int_opt(table, LUO_COL_COMPARE_restarts, result->restarts);
    luo_table_num(table, LUO_COL_COMPARE_peak_memory_ratio, result->peak_memory_ratio);
    luo_table_num(table, LUO_COL_COMPARE_speedup, luo_result_speedup(result, first));
    luo_table_num(table, LUO_COL_COMPARE_error_ratio, luo_result_error(result, first));
    luo_table_num(table, LUO_COL_COMPARE_low_s, luo_result_low_s(result));
    luo_table_num(table, LUO_COL_COMPARE_high_s, luo_result_high_s(result));
    luo_table_text(table, LUO_COL_COMPARE_beside_best, luo_result_beside_best(result, runs, n));
    return luo_table_end(table, err);
}

static luo_status write_table(const char *out, const luo_result *runs, int32_t n, luo_err *err)
{
    luo_table table = {0};
    luo_status st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_COMPARE), err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++) st = put_run(&table, &runs[i], runs, n, err);
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static void count(luo_jsonw *json, const char *key, int64_t v)
{
    if (v < 0)
        luo_jsonw_text(json, key, NULL);
    else
        luo_jsonw_int(json, key, v);
}

static void json_run(luo_jsonw *json, const luo_result *result, const luo_result *runs, int32_t n)
{
    const luo_result *first = luo_compare_reference(runs, n, result);
    const char *beside = luo_result_beside_best(result, runs, n);
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_text(json, "run", result->name);
    luo_jsonw_text(json, "scenario", result->scenario);
    luo_jsonw_text(json, "scenario_hash", result->scenario_hash);
    luo_jsonw_text(json, "policy", result->policy);
    luo_jsonw_text(json, "backend", result->backend);
    luo_jsonw_text(json, "state", luo_run_state_name(result->state));
    luo_jsonw_text(json, "error", result->error[0] ? result->error : NULL);
    luo_jsonw_text(json, "seed", result->seed);
    luo_jsonw_open(json, "plans", '[');
    for (int32_t i = 0; i < result->nplans; i++) luo_jsonw_text(json, NULL, result->plans[i]);
    luo_jsonw_close(json);
    luo_jsonw_open(json, "programs", '[');
    for (int32_t i = 0; i < result->nplans; i++) luo_jsonw_text(json, NULL, result->programs[i]);
    luo_jsonw_close(json);
    count(json, "steps", result->steps_done);
    count(json, "steps_redone", result->steps_redone);
    count(json, "tokens", result->tokens);
    luo_jsonw_num(json, "total_s", result->total_s, 9);
    luo_jsonw_num(json, "extent_s", result->extent_s, 9);
    luo_jsonw_num(json, "step_mean_s", result->step_mean_s, 9);
    luo_jsonw_num(json, "low_s", luo_result_low_s(result), 9);
    luo_jsonw_num(json, "high_s", luo_result_high_s(result), 9);
    luo_jsonw_num(json, "step_p50_s", result->step_p50_s, 9);
    luo_jsonw_num(json, "step_p99_s", result->step_p99_s, 9);
    luo_jsonw_num(json, "tokens_per_s", result->tokens_per_s, 3);
    luo_jsonw_num(json, "goodput_tokens_per_s", result->goodput_tokens_per_s, 3);
    luo_jsonw_num(json, "mfu_ratio", result->mfu_ratio, 6);
    luo_jsonw_num(json, "lost_s", luo_result_lost_s(result), 9);
    luo_jsonw_open(json, "time", '{');
    for (int i = 0; i < LUO_TIMES; i++)
        luo_jsonw_num(json, luo_result_time_name(i), result->time[i], 9);
    luo_jsonw_close(json);
    count(json, "switches", result->switches);
    count(json, "restarts", result->restarts);
    luo_jsonw_num(json, "peak_memory_ratio", result->peak_memory_ratio, 6);
    luo_jsonw_num(json, "speedup", luo_result_speedup(result, first), 6);
    luo_jsonw_text(json, "beside_best", *beside ? beside : NULL);
    luo_jsonw_num(json, "error_ratio", luo_result_error(result, first), 6);
    luo_jsonw_close(json);
}

static void json_seeds(luo_jsonw *json, const luo_seed_stats *stats)
{
    if (stats->npolicies == 0) return;
    luo_jsonw_open(json, "seeds", '[');
    for (int32_t i = 0; i < stats->npolicies; i++) {
        const luo_interval *interval = &stats->policy[i].goodput;
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "run", stats->policy[i].label);
        luo_jsonw_int(json, "seeds", stats->policy[i].n);
        luo_jsonw_num(json, "goodput_mean_tokens_per_s", interval->mean, 3);
        luo_jsonw_num(json, "goodput_low95_tokens_per_s", interval->low, 3);
        luo_jsonw_num(json, "goodput_high95_tokens_per_s", interval->high, 3);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_open(json, "pairs", '[');
    for (int32_t i = 0; i < stats->npairs; i++) {
        const luo_seed_pair *pair = &stats->pair[i];
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "run", stats->policy[pair->run].label);
        luo_jsonw_text(json, "other", stats->policy[pair->other].label);
        luo_jsonw_int(json, "seeds", pair->difference.n);
        luo_jsonw_int(json, "ahead", pair->ahead);
        luo_jsonw_int(json, "behind", pair->behind);
        luo_jsonw_num(json, "difference_tokens_per_s", pair->difference.mean, 3);
        luo_jsonw_num(json, "difference_low95_tokens_per_s", pair->difference.low, 3);
        luo_jsonw_num(json, "difference_high95_tokens_per_s", pair->difference.high, 3);
        luo_jsonw_num(json, "p", pair->difference.p, 6);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_text(json, "answer", stats->answer);
}

typedef struct beyond { /* what several runs say together */
    luo_seed_stats seeds;
    luo_job_pair *pairs;
    int32_t npairs;
} beyond;

static luo_status find_beyond(luo_arena *arena, const luo_result *runs, int32_t n, beyond *out,
                              luo_diags *diags, luo_err *err)
{
    LUO_TRY(luo_job_pairs_of(arena, runs, n, &out->pairs, &out->npairs, diags));
    return luo_seed_stats_of(arena, runs, n, &out->seeds, err);
}

static void json_all(luo_jsonw *json, const luo_result *runs, int32_t n, const beyond *all)
{
    luo_jsonw_text(json, "reference", runs[0].name);
    luo_jsonw_text(json, "goodput", luo_goodput_means);
    luo_jsonw_open(json, "runs", '[');
    for (int32_t i = 0; i < n; i++) json_run(json, &runs[i], runs, n);
    luo_jsonw_close(json);
    luo_job_pairs_json(json, all->pairs, all->npairs);
    json_seeds(json, &all->seeds);
}

static luo_status write_json(const luo_compare_opts *opts, const luo_result *runs, int32_t n,
                             const beyond *all, luo_err *err)
{
    luo_str text = {0}, path = {0};
    luo_jsonw json = luo_jsonw_start(&text);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", "luoshu.compare/1");
    json_all(&json, runs, n, all);
    luo_jsonw_close(&json);
    luo_str_addf(&path, "%s/compare.json", opts->out);
    const luo_status st = text.failed || path.failed
                              ? luo_err_nomem(err)
                              : luo_file_write_own(path.at, text.at, text.len, err);
    luo_str_free(&text);
    luo_str_free(&path);
    if (!opts->json) return st;
    luo_jsonw_open(opts->json, "compared", '{');
    json_all(opts->json, runs, n, all);
    luo_jsonw_close(opts->json);
    return st;
}

/* The first place where the programs of a simulated and a real run differ; -1: nowhere. Only as
 * many as both used are held against each other: one may have been stopped earlier. */
static int32_t different(const luo_result *a, const luo_result *b)
{
    if ((strcmp(a->backend, "sim") == 0) == (strcmp(b->backend, "sim") == 0)) return -1;
    for (int32_t i = 0; i < a->nplans && i < b->nplans; i++)
        if (strcmp(a->programs[i], b->programs[i]) != 0) return i;
    return -1;
}

/* A run of a given number of steps that did not make them all: its tokens count over the time of
 * the longest run of the seed, so that it is behind every one that made them. */
static double extent_of(const luo_result *runs, int32_t n, int32_t i)
{
    double longest = 0;
    for (int32_t k = 0; k < n; k++)
        if (strcmp(runs[k].seed, runs[i].seed) == 0) longest = fmax(longest, runs[k].total_s);
    return longest;
}

static void settle(luo_result *runs, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        luo_result *result = &runs[i];
        if (!result->measured) continue;
        if (!isfinite(result->extent_s)) result->extent_s = extent_of(runs, n, i);
        result->goodput_tokens_per_s = luo_run_goodput(result->kept_tokens, result->extent_s);
    }
}

luo_status luo_compare_open(luo_arena *arena, luo_table *table, const char *out, luo_table_id id,
                            const char *suffix, luo_err *err)
{
    luo_table_def *def = LUO_NEW(arena, luo_table_def);
    if (!def) return luo_err_nomem(err);
    *def = *luo_table_def_at(id);
    def->file =
        luo_arena_printf(arena, "%.*s%s.csv", (int)strlen(def->file) - 4, def->file, suffix);
    return def->file ? luo_table_open(table, out, def, err) : luo_err_nomem(err);
}

/* The first run beside run i. */
static luo_status compare_pair(luo_arena *arena, const luo_compare_opts *opts,
                               const luo_result *runs, int32_t n, int32_t i, luo_op_table *ops,
                               luo_str *text, luo_diags *diags)
{
    luo_pair_errors errors;
    luo_err err = {0};
    char *suffix =
        n > 2 ? luo_arena_printf(arena, "-%s", runs[i].name) : luo_arena_strdup(arena, "");
    if (!suffix) return LUO_ENOMEM;
    LUO_TRY(luo_compare_steps(arena, opts->out, &runs[0], &runs[i], suffix, &errors, diags));
    LUO_TRY(luo_op_table_read(ops, i, &runs[i], diags));
    const bool predicted = strcmp(runs[0].backend, runs[i].backend) != 0;
    if (predicted && errors.steps > 0)
        luo_str_addf(text,
                     "%s against %s: step time differs by %.2f %% in the median, %.2f %% at most, "
                     "over %lld steps; the whole run by %.2f %%\n",
                     runs[i].name, runs[0].name, 100 * errors.median, 100 * errors.largest,
                     (long long)errors.steps,
                     100 * fabs(over(runs[i].total_s, runs[0].total_s) - 1));
    if (luo_op_table_write(ops, i, opts->out, suffix, predicted ? text : NULL, &err) != LUO_OK)
        return luo_diags_err(diags, &err);
    const int32_t plan = different(&runs[0], &runs[i]);
    if (plan < 0 || opts->allow_different) return LUO_OK;
    luo_diags_add(diags, LUO_ERROR, LUO_ENO, NULL, 0, 0,
                  "runs `%s` and `%s` ran different programs for plan %d (%s, %s); compare equal "
                  "ones or pass --allow-different.",
                  runs[0].dir, runs[i].dir, plan, runs[0].programs[plan], runs[i].programs[plan]);
    return LUO_ENO;
}

/* Of another seed or job, its steps are other ones, not slower or faster ones. */
static bool no_pair(const luo_result *a, const luo_result *b)
{
    if (a->job && b->job && strcmp(a->job, b->job) != 0) return true;
    return strcmp(a->seed, b->seed) != 0 && strcmp(a->backend, b->backend) == 0;
}

static void say(const luo_result *runs, int32_t n, const beyond *all, luo_str *answer,
                luo_str *notes)
{
    if (all->npairs > 0)
        luo_job_pairs_say(answer, all->pairs, all->npairs);
    else if (all->seeds.answer[0])
        luo_str_addf(answer, "%s\n", all->seeds.answer);
    else if (n == 1 || !runs[0].job) /* jobs are no choice */
        luo_compare_answer(answer, runs, n);
    luo_compare_notes(notes, runs, n);
}

luo_status luo_compare_say(luo_arena *arena, const luo_result *runs, int32_t n, luo_str *answer,
                           luo_str *notes, luo_diags *diags, luo_err *err)
{
    beyond all;
    LUO_TRY(find_beyond(arena, runs, n, &all, diags, err));
    say(runs, n, &all, answer, notes);
    return answer->failed || notes->failed ? luo_err_nomem(err) : LUO_OK;
}

static void say_all(const luo_result *runs, int32_t n, const beyond *all, luo_str *text)
{
    luo_str notes = {0};
    luo_str answer = {0};
    say(runs, n, all, &answer, &notes);
    luo_str_add(text, luo_str_get(&answer));
    luo_compare_table(text, runs, n);
    luo_str_add(text, luo_str_get(&notes));
    text->failed |= answer.failed || notes.failed;
    luo_str_free(&answer);
    luo_str_free(&notes);
}

static luo_status compare_runs(luo_arena *arena, const luo_compare_opts *opts, luo_result *runs,
                               int32_t n, luo_str *text, luo_diags *diags)
{
    luo_err err = {0};
    beyond all;
    luo_status st = luo_file_make_dir(opts->out, &err), answer = LUO_OK;
    if (st == LUO_OK) st = find_beyond(arena, runs, n, &all, diags, &err);
    if (st == LUO_OK) st = write_table(opts->out, runs, n, &err);
    if (st == LUO_OK) st = write_json(opts, runs, n, &all, &err);
    if (st == LUO_OK) st = luo_job_pairs_write(opts->out, all.pairs, all.npairs, &err);
    if (st != LUO_OK) return err.text[0] ? luo_diags_err(diags, &err) : st;
    say_all(runs, n, &all, text);
    luo_op_table *ops = luo_op_table_new(arena, n);
    st = !ops                        ? LUO_ENOMEM
         : n > 1 && runs[0].measured ? luo_op_table_read(ops, 0, &runs[0], diags)
                                     : LUO_OK;
    for (int32_t i = 1; st == LUO_OK && i < n; i++) {
        if (no_pair(&runs[0], &runs[i]) || !runs[0].measured || !runs[i].measured) continue;
        st = compare_pair(arena, opts, runs, n, i, ops, text, diags);
        if (st != LUO_ENO) continue;
        answer = st; /* the other pairs are written all the same */
        st = LUO_OK;
    }
    luo_op_table_free(ops);
    if (st == LUO_OK) st = luo_compare_predicted(arena, opts->out, runs, n, diags);
    if (st == LUO_OK) st = luo_compare_seeds(arena, opts->out, runs, n, &all.seeds, text, diags);
    return st != LUO_OK ? st : answer;
}

luo_status luo_compare_read(luo_arena *arena, const char *const *paths, int32_t npaths,
                            luo_result **runs, int32_t *n, luo_diags *diags)
{
    LUO_TRY(luo_result_read_all(arena, paths, npaths, runs, n, diags));
    settle(*runs, *n);
    return LUO_OK;
}

luo_status luo_compare(luo_arena *arena, const luo_compare_opts *opts, luo_str *text,
                       luo_diags *diags)
{
    luo_result *runs;
    int32_t n;
    LUO_TRY(luo_compare_read(arena, opts->paths, opts->npaths, &runs, &n, diags));
    return compare_runs(arena, opts, runs, n, text, diags);
}
