/* summary.json (`luoshu.summary/1`). */
#include <math.h>

#include "core/io/io.h"
#include "core/io/jsonw.h"
#include "core/io/result/result.h"
#include "core/io/result/rundir_internal.h"

static void time_of(luo_jsonw *w, const luo_run_summary *s)
{
    const luo_parts *p = &s->time;
    const double time[LUO_TIMES] = {
        [LUO_TIME(compute_s)] = p->compute_s, [LUO_TIME(recompute_s)] = p->recompute_s,
        [LUO_TIME(tp_s)] = p->tp_s,           [LUO_TIME(ep_s)] = p->ep_s,
        [LUO_TIME(cp_s)] = p->cp_s,           [LUO_TIME(pp_s)] = p->pp_s,
        [LUO_TIME(dp_s)] = p->dp_s,           [LUO_TIME(move_s)] = p->move_s,
        [LUO_TIME(io_s)] = p->io_s,           [LUO_TIME(bubble_s)] = p->bubble_s,
        [LUO_TIME(redone_s)] = s->redone_s,   [LUO_TIME(detect_s)] = s->detect_s,
        [LUO_TIME(plan_s)] = s->plan_s,       [LUO_TIME(specialize_s)] = s->specialize_s,
        [LUO_TIME(switch_s)] = s->switch_s,   [LUO_TIME(checkpoint_s)] = s->checkpoint_s,
        [LUO_TIME(restart_s)] = s->restart_s, [LUO_TIME(wait_s)] = s->wait_s,
    };
    luo_jsonw_open(w, "time", '{');
    for (int i = 0; i < LUO_TIMES; i++) luo_jsonw_num(w, luo_time_name(i), time[i], 9);
    luo_jsonw_close(w);
}

static void texts(luo_jsonw *w, const char *key, const char *const *at, int32_t n)
{
    luo_jsonw_open(w, key, '[');
    for (int32_t i = 0; i < n; i++) luo_jsonw_text(w, NULL, at[i]);
    luo_jsonw_close(w);
}

/* own: warnings of the run directory itself. */
static void put(luo_jsonw *w, const luo_run_summary *s, const luo_str own[2])
{
    luo_jsonw_open(w, NULL, '{');
    luo_jsonw_text(w, "schema", "luoshu.summary/1");
    luo_jsonw_text(w, "policy", s->policy);
    luo_jsonw_text(w, "backend", s->backend);
    luo_jsonw_text(w, "state", luo_run_state_name(s->state));
    luo_jsonw_int(w, "steps_done", s->steps_done);
    luo_jsonw_int(w, "steps_redone", s->steps_redone);
    luo_jsonw_int(w, "tokens", s->tokens);
    luo_jsonw_int(w, "kept_tokens", s->kept_tokens);
    luo_jsonw_num(w, "total_s", s->total_s, 9);
    luo_jsonw_num(w, "extent_s", s->extent_s, 9);
    luo_jsonw_num(w, "step_mean_s", s->step_mean_s, 9);
    luo_jsonw_num(w, "step_p50_s", s->step_p50_s, 9);
    luo_jsonw_num(w, "step_p90_s", s->step_p90_s, 9);
    luo_jsonw_num(w, "step_p99_s", s->step_p99_s, 9);
    luo_jsonw_num(w, "step_max_s", s->step_max_s, 9);
    luo_jsonw_num(w, "tokens_per_s", s->tokens_per_s, 3);
    luo_jsonw_num(w, "goodput_tokens_per_s", s->goodput_tokens_per_s, 3);
    luo_jsonw_num(w, "mfu_ratio", s->mfu_ratio, 6);
    time_of(w, s);
    luo_jsonw_num(w, "peak_memory_ratio", s->peak_memory_ratio, 6);
    luo_jsonw_int(w, "peak_memory_device", s->peak_memory_device);
    luo_jsonw_int(w, "switches", s->switches);
    luo_jsonw_int(w, "restarts", s->restarts);
    luo_jsonw_open(w, "detection", '{');
    luo_jsonw_int(w, "true", s->detect_true);
    luo_jsonw_int(w, "false", s->detect_false);
    luo_jsonw_int(w, "missed", s->detect_missed);
    luo_jsonw_num(w, "mean_delay_s", s->detect_true > 0 ? s->detect_mean_delay_s : NAN, 9);
    luo_jsonw_close(w);
    luo_jsonw_open(w, "plans", '[');
    for (int32_t i = 0; i < s->nplans; i++) {
        luo_jsonw_open(w, NULL, '{');
        luo_jsonw_hash(w, "hash", s->plans[i].hash);
        luo_jsonw_hash(w, "program_hash", s->plans[i].program_hash);
        luo_jsonw_int(w, "steps", s->plans[i].steps);
        luo_jsonw_close(w);
    }
    luo_jsonw_close(w);
    texts(w, "never_fired", s->never, s->nnever);
    texts(w, "assumptions", s->assumptions, s->nassumptions);
    luo_jsonw_open(w, "warnings", '[');
    for (int32_t i = 0; i < s->nwarnings; i++) luo_jsonw_text(w, NULL, s->warnings[i]);
    for (int i = 0; i < 2; i++)
        if (own[i].len) luo_jsonw_text(w, NULL, own[i].at);
    luo_jsonw_close(w);
    luo_jsonw_close(w);
}

luo_status luo_rundir_tell(void *ctx, const char *text, luo_err *err)
{
    luo_rundir *r = ctx;
    (void)err;
    luo_rundir_log(r, LUO_WARNING, text);
    if (r->opts.diags) luo_diags_add(r->opts.diags, LUO_WARNING, LUO_OK, NULL, 0, 0, "%s", text);
    return LUO_OK;
}

luo_status luo_rundir_summary(void *ctx, const luo_run_summary *s, luo_err *err)
{
    luo_rundir *r = ctx;
    luo_str text = {0}, path = {0}, own[2] = {{0}};
    luo_traced_warning(&r->traced, s->steps_done + s->steps_redone, r->opts.ops_limit, &own[0]);
    luo_trace_warning(r->trace, &own[1]);
    luo_jsonw w = luo_jsonw_start(&text);
    put(&w, s, own);
    for (int32_t i = 0; i < s->nwarnings; i++) luo_rundir_log(r, LUO_WARNING, s->warnings[i]);
    for (int i = 0; i < 2; i++)
        if (own[i].len) luo_rundir_tell(r, own[i].at, NULL);
    luo_str_addf(&path, "%s/summary.json", r->dir);
    const luo_status st = text.failed || path.failed || own[0].failed || own[1].failed
                              ? luo_err_nomem(err)
                              : luo_file_write_atomic(path.at, text.at, text.len, err);
    luo_str_free(&text);
    luo_str_free(&path);
    for (int i = 0; i < 2; i++) luo_str_free(&own[i]);
    return st;
}
