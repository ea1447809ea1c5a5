/* summary.json (`luoshu.summary/1`). */
#include <math.h>

#include "core/io/io.h"
#include "core/io/jsonw.h"
#include "core/io/result/result.h"
#include "core/io/result/rundir_internal.h"

static void time_of(luo_jsonw *json, const luo_run_summary *summary)
{
    const luo_parts *parts = &summary->time;
    const double time[LUO_TIMES] = {
        [LUO_TIME(compute_s)] = parts->compute_s,
        [LUO_TIME(recompute_s)] = parts->recompute_s,
        [LUO_TIME(tp_s)] = parts->tp_s,
        [LUO_TIME(ep_s)] = parts->ep_s,
        [LUO_TIME(cp_s)] = parts->cp_s,
        [LUO_TIME(pp_s)] = parts->pp_s,
        [LUO_TIME(dp_s)] = parts->dp_s,
        [LUO_TIME(move_s)] = parts->move_s,
        [LUO_TIME(io_s)] = parts->io_s,
        [LUO_TIME(bubble_s)] = parts->bubble_s,
        [LUO_TIME(redone_s)] = summary->redone_s,
        [LUO_TIME(detect_s)] = summary->detect_s,
        [LUO_TIME(plan_s)] = summary->plan_s,
        [LUO_TIME(specialize_s)] = summary->specialize_s,
        [LUO_TIME(switch_s)] = summary->switch_s,
        [LUO_TIME(checkpoint_s)] = summary->checkpoint_s,
        [LUO_TIME(restart_s)] = summary->restart_s,
        [LUO_TIME(wait_s)] = summary->wait_s,
    };
    luo_jsonw_open(json, "time", '{');
    for (int i = 0; i < LUO_TIMES; i++) luo_jsonw_num(json, luo_result_time_name(i), time[i], 9);
    luo_jsonw_close(json);
}

static void texts(luo_jsonw *json, const char *key, const char *const *at, int32_t n)
{
    luo_jsonw_open(json, key, '[');
    for (int32_t i = 0; i < n; i++) luo_jsonw_text(json, NULL, at[i]);
    luo_jsonw_close(json);
}

void luo_result_range_json(luo_jsonw *json, const luo_time_range *range, double seconds)
{
    if (!range) return;
    luo_jsonw_open(json, "range", '{');
    luo_jsonw_text(json, "cluster", range->cluster);
    luo_jsonw_text(json, "stack", range->stack);
    luo_jsonw_num(json, "low_s", luo_time_range_low(range, seconds), 9);
    luo_jsonw_num(json, "high_s", luo_time_range_high(range, seconds), 9);
    luo_jsonw_num(json, "source_spread", range->source, 6);
    luo_jsonw_num(json, "residual_spread", range->model, 6);
    luo_jsonw_open(json, "constants", '[');
    for (int32_t i = 0; i < range->n; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "name", range->part[i].name);
        luo_jsonw_text(json, "of", range->part[i].of);
        luo_jsonw_text(json, "origin", range->part[i].origin);
        luo_jsonw_num(json, "spread", range->part[i].spread, 6);
        luo_jsonw_num(json, "sensitivity", range->part[i].sensitivity, 6);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_close(json);
}

static luo_status write_draws(const luo_rundir *dir, const luo_run_summary *summary, luo_err *err)
{
    luo_table table = {0};
    if (summary->ndraws == 0) return LUO_OK;
    luo_status st = luo_table_open(&table, dir->dir, luo_table_def_at(LUO_TABLE_DRAWS), err);
    for (int32_t i = 0; st == LUO_OK && i < summary->ndraws; i++) {
        luo_table_int(&table, LUO_COL_DRAWS_draw, i);
        luo_table_num(&table, LUO_COL_DRAWS_step_s, summary->draws[i]);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

/* own: warnings of the run directory itself. */
static void put(luo_jsonw *json, const luo_run_summary *summary, const luo_str own[2])
{
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_text(json, "schema", "luoshu.summary/1");
    luo_jsonw_text(json, "policy", summary->policy);
    luo_jsonw_text(json, "backend", summary->backend);
    luo_jsonw_text(json, "state", luo_run_state_name(summary->state));
    luo_jsonw_int(json, "steps_done", summary->steps_done);
    luo_jsonw_int(json, "steps_redone", summary->steps_redone);
    luo_jsonw_int(json, "tokens", summary->tokens);
    luo_jsonw_int(json, "kept_tokens", summary->kept_tokens);
    luo_jsonw_num(json, "total_s", summary->total_s, 9);
    luo_jsonw_num(json, "extent_s", summary->extent_s, 9);
    luo_jsonw_num(json, "step_mean_s", summary->step_mean_s, 9);
    luo_jsonw_num(json, "step_p50_s", summary->step_p50_s, 9);
    luo_jsonw_num(json, "step_p90_s", summary->step_p90_s, 9);
    luo_jsonw_num(json, "step_p99_s", summary->step_p99_s, 9);
    luo_jsonw_num(json, "step_max_s", summary->step_max_s, 9);
    luo_result_range_json(json, summary->range, summary->step_mean_s);
    luo_jsonw_num(json, "tokens_per_s", summary->tokens_per_s, 3);
    luo_jsonw_num(json, "goodput_tokens_per_s",
                  luo_run_goodput(summary->kept_tokens, summary->extent_s), 3);
    luo_jsonw_num(json, "mfu_ratio", summary->mfu_ratio, 6);
    if (summary->expert_imbalance_ratio > 0) /* of models with experts */
        luo_jsonw_num(json, "expert_imbalance_ratio", summary->expert_imbalance_ratio, 6);
    time_of(json, summary);
    luo_jsonw_num(json, "peak_memory_ratio", summary->peak_memory_ratio, 6);
    luo_jsonw_int(json, "peak_memory_device", summary->peak_memory_device);
    luo_jsonw_int(json, "switches", summary->switches);
    luo_jsonw_int(json, "restarts", summary->restarts);
    luo_jsonw_open(json, "detection", '{');
    luo_jsonw_int(json, "true", summary->detect_true);
    luo_jsonw_int(json, "false", summary->detect_false);
    luo_jsonw_int(json, "missed", summary->detect_missed);
    luo_jsonw_num(json, "mean_delay_s",
                  summary->detect_true > 0 ? summary->detect_mean_delay_s : NAN, 9);
    luo_jsonw_close(json);
    luo_jsonw_open(json, "plans", '[');
    for (int32_t i = 0; i < summary->nplans; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_hash(json, "hash", summary->plans[i].hash);
        luo_jsonw_hash(json, "program_hash", summary->plans[i].program_hash);
        luo_jsonw_int(json, "steps", summary->plans[i].steps);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    texts(json, "never_fired", summary->never, summary->nnever);
    texts(json, "assumptions", summary->assumptions, summary->nassumptions);
    luo_jsonw_open(json, "warnings", '[');
    for (int32_t i = 0; i < summary->nwarnings; i++)
        luo_jsonw_text(json, NULL, summary->warnings[i]);
    for (int i = 0; i < 2; i++)
        if (own[i].len) luo_jsonw_text(json, NULL, own[i].at);
    luo_jsonw_close(json);
    luo_jsonw_close(json);
}

luo_status luo_rundir_tell(void *ctx, const char *text, luo_err *err)
{
    luo_rundir *dir = ctx;
    (void)err;
    luo_rundir_log(dir, LUO_WARNING, text);
    if (dir->opts.diags)
        luo_diags_add(dir->opts.diags, LUO_WARNING, LUO_OK, NULL, 0, 0, "%s", text);
    return LUO_OK;
}

luo_status luo_rundir_summary(void *ctx, const luo_run_summary *summary, luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_str text = {0}, path = {0}, own[2] = {{0}};
    LUO_TRY(write_draws(dir, summary, err));
    luo_traced_warning(&dir->traced, summary->steps_done + summary->steps_redone,
                       dir->opts.ops_limit, &own[0]);
    luo_trace_warning(dir->trace, &own[1]);
    luo_jsonw json = luo_jsonw_start(&text);
    put(&json, summary, own);
    for (int32_t i = 0; i < summary->nwarnings; i++)
        luo_rundir_log(dir, LUO_WARNING, summary->warnings[i]);
    for (int i = 0; i < 2; i++)
        if (own[i].len) luo_rundir_tell(dir, own[i].at, NULL);
    luo_str_addf(&path, "%s/summary.json", dir->dir);
    const luo_status st = text.failed || path.failed || own[0].failed || own[1].failed
                              ? luo_err_nomem(err)
                              : luo_file_write_own(path.at, text.at, text.len, err);
    luo_str_free(&text);
    luo_str_free(&path);
    for (int i = 0; i < 2; i++) luo_str_free(&own[i]);
    return st;
}
