#include "core/io/recorded/run_files.h"

#include <math.h>

#include "core/base/hash.h"
#include "core/base/stats.h"
#include "core/io/jsonw.h"
#include "core/io/result/result.h"
#include "core/io/result/table.h"

static const char NAME[] = "recorded"; /* policy and backend: both were somebody else's */

static luo_status add_manifest(convert_job *job)
{
    luo_str text = {0};
    luo_jsonw json = luo_jsonw_start(&text);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", "luoshu.manifest/1");
    luo_jsonw_text(&json, "state", luo_run_state_name(LUO_COMPLETE));
    luo_jsonw_text(&json, "backend", NAME);
    luo_jsonw_text(&json, "policy", NAME);
    luo_jsonw_text(&json, "scenario", "");
    luo_jsonw_hash(&json, "scenario_hash",
                   luo_hash_bytes(LUO_HASH_EMPTY, job->src.text, job->src.len));
    luo_jsonw_int(&json, "seed", 0);
    luo_jsonw_open(&json, "plans", '[');
    luo_jsonw_close(&json);
    luo_jsonw_close(&json);
    return convert_add(job, "manifest.json", &text);
}

/* A cell of steps.csv; one that is not known stays empty. */
static void put_cell(luo_str *text, const recorded_run *run, int64_t i, double start_s, int32_t c)
{
    const recorded_iteration *iteration = &run->at[i];
    switch (c) {
    case LUO_COL_STEPS_step:
        luo_str_addi(text, i);
        break;
    case LUO_COL_STEPS_attempt:
    case LUO_COL_STEPS_plan:
        luo_str_addi(text, 0);
        break;
    case LUO_COL_STEPS_t_start_s:
        luo_table_print_fixed(text, start_s, 9);
        break;
    case LUO_COL_STEPS_t_end_s:
        luo_table_print_fixed(text, start_s + iteration->step_s, 9);
        break;
    case LUO_COL_STEPS_step_s:
    case LUO_COL_STEPS_wall_s:
        luo_table_print_fixed(text, iteration->step_s, 9);
        break;
    case LUO_COL_STEPS_sequences:
        luo_str_addi(text, run->sequences);
        break;
    case LUO_COL_STEPS_tokens:
        luo_str_addi(text, run->tokens);
        break;
    case LUO_COL_STEPS_tokens_per_s:
        luo_table_print_fixed(text, (double)run->tokens / iteration->step_s, 3);
        break;
    case LUO_COL_STEPS_devices_used:
    case LUO_COL_STEPS_devices_up:
        luo_str_addi(text, run->devices);
        break;
    case LUO_COL_STEPS_loss:
        if (isfinite(iteration->loss)) luo_str_addf(text, "%.12g", iteration->loss);
        break;
    case LUO_COL_STEPS_grad_norm:
        if (isfinite(iteration->grad_norm)) luo_str_addf(text, "%.12g", iteration->grad_norm);
        break;
    case LUO_COL_STEPS_steps:
        luo_str_addi(text, 1);
        break;
    default:
        break;
    }
}

static luo_status add_steps(convert_job *job, const recorded_run *run)
{
    luo_str text = {0};
    double start_s = 0;
    luo_table_def_header(&text, luo_table_def_at(LUO_TABLE_STEPS));
    for (int64_t i = 0; i < run->n; i++) {
        for (int32_t c = 0; c < LUO_COLUMNS_STEPS; c++) {
            if (c > 0) luo_str_addc(&text, ',');
            put_cell(&text, run, i, start_s, c);
        }
        luo_str_addc(&text, '\n');
        start_s += run->at[i].step_s;
    }
    return convert_add(job, "steps.csv", &text);
}

/* One row a step, as they followed each other. */
static luo_status add_timeline(convert_job *job, const recorded_run *run)
{
    luo_str text = {0};
    double start_s = 0;
    luo_table_def_header(&text, luo_table_def_at(LUO_TABLE_TIMELINE));
    for (int64_t i = 0; i < run->n; i++) {
        const double end_s = start_s + run->at[i].step_s;
        luo_str_addf(&text, "%lld,%.9f,%.9f,%s,1,%lld,,,0,1\n", (long long)i, start_s, end_s,
                     luo_span_kind_name(LUO_SPAN_STEP), (long long)i);
        start_s = end_s;
    }
    return convert_add(job, "timeline.csv", &text);
}

/* Nothing is known of events, operations and devices: tables without rows. */
static luo_status add_others(convert_job *job)
{
    for (int id = LUO_TABLE_EVENTS; id <= LUO_TABLE_SWITCHES; id++) {
        const luo_table_def *def = luo_table_def_at((luo_table_id)id);
        luo_str text = {0};
        luo_table_def_header(&text, def);
        LUO_TRY(convert_add(job, def->file, &text));
    }
    return LUO_OK;
}

static void put_times(luo_jsonw *json, const recorded_run *run, const double *sorted,
                      double total_s)
{
    const int64_t tokens = run->n * run->tokens;
    luo_jsonw_num(json, "total_s", total_s, 9);
    luo_jsonw_num(json, "extent_s", total_s, 9);
    luo_jsonw_num(json, "step_mean_s", total_s / (double)run->n, 9);
    luo_jsonw_num(json, "step_p50_s", luo_stats_quantile(sorted, run->n, 0.5), 9);
    luo_jsonw_num(json, "step_p90_s", luo_stats_quantile(sorted, run->n, 0.9), 9);
    luo_jsonw_num(json, "step_p99_s", luo_stats_quantile(sorted, run->n, 0.99), 9);
    luo_jsonw_num(json, "step_max_s", sorted[run->n - 1], 9);
    luo_jsonw_num(json, "tokens_per_s", (double)tokens / total_s, 3);
    luo_jsonw_num(json, "goodput_tokens_per_s", luo_run_goodput(tokens, total_s), 3);
    luo_jsonw_num(json, "mfu_ratio", NAN, 6);
    luo_jsonw_open(json, "time", '{');
    for (int i = 0; i < LUO_TIMES; i++) luo_jsonw_num(json, luo_result_time_name(i), NAN, 9);
    luo_jsonw_close(json);
    luo_jsonw_num(json, "peak_memory_ratio", NAN, 6);
}

static luo_status add_summary(convert_job *job, const recorded_run *run)
{
    luo_str text = {0};
    double *sorted = LUO_NEW_N(job->arena, double, run->n), total_s = 0;
    if (!sorted) return convert_nomem(job);
    for (int64_t i = 0; i < run->n; i++) total_s += sorted[i] = run->at[i].step_s;
    luo_stats_sort(sorted, run->n);
    luo_jsonw json = luo_jsonw_start(&text);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", "luoshu.summary/1");
    luo_jsonw_text(&json, "policy", NAME);
    luo_jsonw_text(&json, "backend", NAME);
    luo_jsonw_text(&json, "state", luo_run_state_name(LUO_COMPLETE));
    luo_jsonw_int(&json, "steps_done", run->n);
    luo_jsonw_int(&json, "steps_redone", 0);
    luo_jsonw_int(&json, "tokens", run->n * run->tokens);
    luo_jsonw_int(&json, "kept_tokens", run->n * run->tokens);
    put_times(&json, run, sorted, total_s);
    luo_jsonw_int(&json, "peak_memory_device", -1);
    luo_jsonw_int(&json, "switches", 0);
    luo_jsonw_int(&json, "restarts", 0);
    luo_jsonw_close(&json);
    return convert_add(job, "summary.json", &text);
}

luo_status recorded_run_add(convert_job *job, const recorded_run *run)
{
    LUO_TRY(add_manifest(job));
    LUO_TRY(add_steps(job, run));
    LUO_TRY(add_timeline(job, run));
    LUO_TRY(add_others(job));
    return add_summary(job, run);
}
