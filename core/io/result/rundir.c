/* Opening and closing a run directory, and the rows that are one struct each. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/result/iterations.h"
#include "core/io/result/rundir_internal.h"
#include "core/io/write_plan.h"
#include "core/run/policy/policy.h"

double luo_rundir_wall(const luo_rundir *dir)
{
    return dir->opts.wall_s ? dir->opts.wall_s(dir->opts.ctx) : 0;
}

/* Notes the devices of a target. One that is drawn from a set, or of links alone, has none. */
static void note_hit(luo_rundir *dir, const char *text)
{
    const luo_cluster *cluster = dir->opts.scenario->cluster;
    const size_t mark = luo_arena_mark(dir->scratch);
    luo_target target;
    if (luo_target_parse(dir->scratch, cluster, text, &target, NULL) == LUO_OK &&
        target.nchoices == 1)
        for (int32_t i = 0; i < target.choices[0].ndev; i++)
            dir->traced.hit[target.choices[0].dev[i]] = true;
    luo_arena_reset(dir->scratch, mark);
}

static void note_event(luo_rundir *dir, const luo_row_event *row)
{
    enum { BEHIND = 2 }; /* steps that are traced behind an event */
    luo_traced *traced = &dir->traced;
    if (row->phase != LUO_EVENT_PHASE_FIRED && row->phase != LUO_EVENT_PHASE_ENDED) return;
    if (row->step > traced->hit_step + BEHIND)
        memset(traced->hit, 0, (size_t)dir->opts.scenario->cluster->ndevices);
    traced->hit_step = row->step;
    note_hit(dir, row->target);
}

static luo_status put_event(void *ctx, const luo_row_event *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_table *table = &dir->table[LUO_TABLE_EVENTS];
    luo_table_int(table, LUO_COL_EVENTS_seq, dir->event_seq++);
    luo_table_num(table, LUO_COL_EVENTS_t_s, row->t_s);
    luo_table_int(table, LUO_COL_EVENTS_step, row->step);
    luo_table_text(table, LUO_COL_EVENTS_id, row->id);
    luo_table_text(table, LUO_COL_EVENTS_phase, luo_event_phase_name(row->phase));
    luo_table_text(table, LUO_COL_EVENTS_kind, row->kind);
    luo_table_text(table, LUO_COL_EVENTS_target, row->target);
    luo_table_num(table, LUO_COL_EVENTS_value, row->has_value ? row->value : NAN);
    luo_table_text(table, LUO_COL_EVENTS_detail, row->detail);
    LUO_TRY(luo_table_end(table, err));
    note_event(dir, row);
    return luo_trace_event(dir->trace, row, err);
}

static luo_status put_switch(void *ctx, const luo_row_switch *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_table *table = &dir->table[LUO_TABLE_SWITCHES];
    luo_table_int(table, LUO_COL_SWITCHES_seq, dir->switch_seq++);
    luo_table_num(table, LUO_COL_SWITCHES_t_s, row->t_s);
    luo_table_int(table, LUO_COL_SWITCHES_from_plan, row->from_plan);
    luo_table_int(table, LUO_COL_SWITCHES_to_plan, row->to_plan);
    luo_table_text(table, LUO_COL_SWITCHES_event, row->event);
    luo_table_num(table, LUO_COL_SWITCHES_detect_s, row->detect_s);
    luo_table_num(table, LUO_COL_SWITCHES_plan_s, row->plan_s);
    luo_table_num(table, LUO_COL_SWITCHES_specialize_s, row->specialize_s);
    luo_table_num(table, LUO_COL_SWITCHES_move_s, row->move_s);
    luo_table_num(table, LUO_COL_SWITCHES_total_s, row->total_s);
    luo_table_int(table, LUO_COL_SWITCHES_bytes_local, row->bytes_local);
    luo_table_int(table, LUO_COL_SWITCHES_bytes_nvlink, row->bytes_nvlink);
    luo_table_int(table, LUO_COL_SWITCHES_bytes_pcie, row->bytes_pcie);
    luo_table_int(table, LUO_COL_SWITCHES_bytes_nic, row->bytes_nic);
    luo_table_int(table, LUO_COL_SWITCHES_messages, row->messages);
    luo_table_int_opt(table, LUO_COL_SWITCHES_max_sender, row->max_sender);
    luo_table_int(table, LUO_COL_SWITCHES_max_sender_bytes, row->max_sender_bytes);
    luo_table_text(table, LUO_COL_SWITCHES_source, row->source);
    return luo_table_end(table, err);
}

static luo_status put_truth(void *ctx, const luo_row_truth *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_table *table = &dir->table[LUO_TABLE_TRUTH];
    luo_table_text(table, LUO_COL_TRUTH_id, row->id);
    luo_table_text(table, LUO_COL_TRUTH_kind, row->kind);
    luo_table_text(table, LUO_COL_TRUTH_target, row->target);
    luo_table_num(table, LUO_COL_TRUTH_value, row->value);
    luo_table_num(table, LUO_COL_TRUTH_t_start_s, row->start_s);
    luo_table_num(table, LUO_COL_TRUTH_t_end_s, row->end_s < 0 ? NAN : row->end_s);
    luo_table_int_opt(table, LUO_COL_TRUTH_first_step, row->first_step);
    luo_table_int_opt(table, LUO_COL_TRUTH_last_step, row->last_step);
    luo_table_num(table, LUO_COL_TRUTH_detected_s, row->detected_s < 0 ? NAN : row->detected_s);
    return luo_table_end(table, err);
}

static luo_status put_assignment(void *ctx, const luo_row_assignment *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_table *table = &dir->table[LUO_TABLE_ASSIGNMENT];
    luo_table_int(table, LUO_COL_ASSIGNMENT_step, row->step);
    luo_table_int(table, LUO_COL_ASSIGNMENT_sequence, row->sequence);
    luo_table_int(table, LUO_COL_ASSIGNMENT_length_tokens, row->length_tokens);
    luo_table_int(table, LUO_COL_ASSIGNMENT_pipeline, row->pipeline);
    luo_table_int(table, LUO_COL_ASSIGNMENT_micro_batch, row->micro_batch);
    luo_table_int(table, LUO_COL_ASSIGNMENT_position, row->position);
    return luo_table_end(table, err);
}

static luo_status put_iteration(void *ctx, const luo_loop_row *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    return luo_iterations_put(&dir->table[LUO_TABLE_ITERATIONS], row, err);
}

static luo_status put_group(void *ctx, int64_t id, const luo_preduce_group *group, luo_err *err)
{
    luo_rundir *dir = ctx;
    return luo_iterations_put_group(&dir->table[LUO_TABLE_GROUPS], id, group, err);
}

static luo_status put_device(void *ctx, const luo_row_device *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_table *table = &dir->table[LUO_TABLE_DEVICES];
    const luo_cluster *cluster = dir->opts.scenario->cluster;
    luo_table_int(table, LUO_COL_DEVICES_device, row->device);
    luo_table_text(table, LUO_COL_DEVICES_node,
                   cluster->nodes[cluster->devices[row->device].node].name);
    luo_table_text(table, LUO_COL_DEVICES_profile, luo_cluster_profile(cluster, row->device)->name);
    luo_table_num(table, LUO_COL_DEVICES_up_s, row->up_s);
    luo_table_num(table, LUO_COL_DEVICES_used_s, row->used_s);
    luo_table_num(table, LUO_COL_DEVICES_compute_s, row->parts.compute_s + row->parts.recompute_s);
    luo_rundir_put_parts(table, LUO_COL_DEVICES_tp_s, &row->parts);
    luo_table_num(table, LUO_COL_DEVICES_bubble_s, row->parts.bubble_s);
    luo_table_num(table, LUO_COL_DEVICES_mean_slowdown, row->mean_slowdown);
    luo_table_num(table, LUO_COL_DEVICES_caused_slowdown,
                  row->caused_slowdown < 0 ? NAN : row->caused_slowdown);
    return luo_table_end(table, err);
}

static luo_status flush(luo_rundir *dir, luo_err *err)
{
    for (int i = 0; i < LUO_RUN_TABLES; i++) LUO_TRY(luo_table_flush(&dir->table[i], err));
    return LUO_OK;
}

static luo_status boundary(void *ctx, int64_t step, int64_t steps, double t_s, int32_t events,
                           luo_err *err)
{
    luo_rundir *dir = ctx;
    dir->steps = step > dir->steps ? step : dir->steps;
    LUO_TRY(luo_rundir_memory_ended(dir, err));
    LUO_TRY(flush(dir, err));
    if (dir->opts.progress) dir->opts.progress(dir->opts.ctx, step, steps, t_s, events);
    return LUO_OK;
}

static luo_status write_program(const luo_rundir *dir, int32_t index, const luo_programs *set,
                                luo_err *err)
{
    luo_str text = {0}, path = {0};
    luo_str_addf(&path, "%s/programs", dir->dir);
    luo_program_print(&text, set, -1);
    luo_status st =
        text.failed || path.failed ? luo_err_nomem(err) : luo_file_make_own_dir(path.at, err);
    luo_str_addf(&path, "/program-%03d.txt", index);
    if (st == LUO_OK)
        st = luo_file_write_own(luo_str_get(&path), luo_str_get(&text), text.len, err);
    luo_str_free(&text);
    luo_str_free(&path);
    return st;
}

static luo_status put_plan(void *ctx, int32_t index, const luo_plan *plan, const luo_programs *set,
                           luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_str path = {0};
    if (!LUO_VEC_ROOM(dir->plans, dir->nplans, dir->cap_plans)) return luo_err_nomem(err);
    dir->plans[dir->nplans++] = (luo_rundir_plan){luo_plan_hash(plan), set->hash};
    luo_str_addf(&path, "%s/plans/plan-%03d.json", dir->dir, index);
    luo_status st = path.failed ? luo_err_nomem(err) : luo_write_plan(path.at, plan, err);
    luo_str_free(&path);
    if (st == LUO_OK && dir->opts.keep_programs) st = write_program(dir, index, set, err);
    return st;
}

void luo_rundir_log(luo_rundir *dir, luo_severity severity, const char *text)
{
    luo_str line = {0};
    if (severity == LUO_ERROR) {
        free(dir->why);
        dir->why = strdup(text);
    }
    luo_str_addf(&line, "%s: %s\n", luo_severity_name(severity), text);
    if (line.failed || write(dir->log_fd, line.at, line.len) != (ssize_t)line.len)
        dir->log_failed = true;
    luo_str_free(&line);
}

static luo_status put_note(void *ctx, const char *text, luo_err *err)
{
    (void)err; /* a log that cannot be written is told when the run ends */
    luo_rundir_log(ctx, LUO_NOTE, text);
    return LUO_OK;
}

static const luo_sink functions = {
    .step = luo_rundir_step,
    .timeline = luo_rundir_timeline,
    .event = put_event,
    .note = put_note,
    .tell = luo_rundir_tell,
    .plan = put_plan,
    .memory = luo_rundir_memory,
    .switched = put_switch,
    .truth = put_truth,
    .assignment = put_assignment,
    .iteration = put_iteration,
    .group = put_group,
    .ops = luo_rundir_ops,
    .links = luo_rundir_links,
    .link_windows = luo_rundir_link_windows,
    .comm = luo_rundir_comm,
    .device = put_device,
    .summary = luo_rundir_summary,
    .boundary = boundary,
};

const luo_sink *luo_rundir_sink(const luo_rundir *dir)
{
    return &dir->sink;
}

static void release(luo_rundir *dir)
{
    for (int i = 0; i < LUO_RUN_TABLES; i++) luo_table_close(&dir->table[i], NULL);
    if (dir->log_fd >= 0) close(dir->log_fd);
    luo_trace_free(dir->trace);
    luo_arena_free(dir->scratch);
    free(dir->traced.at);
    free(dir->traced.hit);
    luo_op_texts_free(&dir->op_texts);
    free(dir->plans);
    free(dir->need);
    free(dir->inputs);
    free(dir->why);
    free(dir->dir);
    free(dir);
}

void luo_rundir_leave(luo_rundir *rundir)
{
    release(rundir);
}

/* Rows that the policy of this run does not have. */
static void leave_out(const luo_rundir_opts *opts, luo_sink *sink)
{
    const luo_scenario *sc = opts->scenario;
    const luo_policy_spec *spec = NULL;
    for (int32_t i = 0; i < sc->npolicies && !spec; i++)
        if (strcmp(sc->policies[i].label, opts->policy) == 0) spec = &sc->policies[i];
    const luo_policy *policy = spec ? luo_policy_find(spec->name) : NULL;
    if (!sc->truth) sink->truth = NULL;
    if (!policy || !policy->lengths) sink->assignment = NULL;
    if (spec && spec->training.mode) return;
    sink->iteration = NULL;
    sink->group = NULL;
}

static luo_rundir *make(const char *dir, const luo_rundir_opts *opts)
{
    luo_rundir *rundir = calloc(1, sizeof *rundir);
    if (!rundir) return NULL;
    rundir->opts = *opts;
    if (rundir->opts.ops_limit <= 0) rundir->opts.ops_limit = LUO_OPS_LIMIT;
    rundir->log_fd = -1;
    rundir->sink = functions;
    rundir->sink.ctx = rundir;
    leave_out(opts, &rundir->sink);
    rundir->wall_open = rundir->wall_last = luo_rundir_wall(rundir);
    rundir->dir = strdup(dir);
    rundir->scratch = luo_arena_new(0);
    rundir->inputs = calloc((size_t)opts->ninputs + 1, sizeof *rundir->inputs);
    rundir->trace = luo_trace_new(opts->scenario->cluster, opts->trace_limit);
    rundir->traced.hit_step = -1;
    rundir->traced.hit =
        calloc((size_t)opts->scenario->cluster->ndevices + 1, sizeof *rundir->traced.hit);
    if (!rundir->dir || !rundir->scratch || !rundir->inputs || !rundir->trace ||
        !rundir->traced.hit) {
        release(rundir);
        return NULL;
    }
    for (int32_t i = 0; i < opts->scenario->cluster->nhealth; i++)
        if (!opts->scenario->cluster->health[i].down)
            note_hit(rundir, opts->scenario->cluster->health[i].target);
    return rundir;
}

static luo_status open_files(luo_rundir *dir, luo_err *err)
{
    luo_str path = {0};
    luo_status st = LUO_OK;
    luo_str_addf(&path, "%s/plans", dir->dir);
    if (path.failed) return luo_err_nomem(err);
    LUO_TRY_OUT(luo_file_make_own_dir(path.at, err));
    LUO_TRY_OUT(luo_trace_spill_to(dir->trace, dir->dir, 0, err));
    LUO_TRY_OUT(luo_rundir_config(dir, err));
    LUO_TRY_OUT(luo_rundir_manifest(dir, LUO_RUNNING, 0, err));
    luo_str_clear(&path);
    luo_str_addf(&path, "%s/log.txt", dir->dir);
    dir->log_fd = luo_file_new(luo_str_get(&path), O_APPEND);
    if (dir->log_fd < 0) LUO_TRY_OUT(luo_io_err(err, "write", luo_str_get(&path)));
    for (int i = 0; i < LUO_RUN_TABLES; i++) {
        if (i == LUO_TABLE_TRUTH && !dir->sink.truth) continue;
        if (i == LUO_TABLE_ASSIGNMENT && !dir->sink.assignment) continue;
        if (i >= LUO_TABLE_ITERATIONS && !dir->sink.iteration) continue;
        LUO_TRY_OUT(
            luo_table_open(&dir->table[i], dir->dir, luo_table_def_at((luo_table_id)i), err));
    }
out:
    luo_str_free(&path);
    return st;
}

luo_status luo_rundir_open(const char *dir, const luo_rundir_opts *opts, luo_rundir **out,
                           luo_err *err)
{
    luo_rundir *rundir = make(dir, opts);
    if (!rundir) return luo_err_nomem(err);
    const luo_status st = open_files(rundir, err);
    if (st == LUO_OK)
        *out = rundir;
    else
        release(rundir);
    return st;
}

static luo_status write_trace(luo_rundir *dir, luo_err *err)
{
    const size_t mark = luo_arena_mark(dir->scratch);
    const luo_scenario *scenario = dir->opts.scenario;
    uint64_t *plans = LUO_NEW_N(dir->scratch, uint64_t, dir->nplans);
    uint64_t *programs = LUO_NEW_N(dir->scratch, uint64_t, dir->nplans);
    luo_status st = plans && programs ? LUO_OK : luo_err_nomem(err);
    for (int32_t i = 0; st == LUO_OK && i < dir->nplans; i++) {
        plans[i] = dir->plans[i].hash;
        programs[i] = dir->plans[i].program_hash;
    }
    const luo_trace_head head = {.scenario = scenario->name,
                                 .policy = dir->opts.policy,
                                 .backend = dir->opts.backend,
                                 .version = dir->opts.version,
                                 .seed = scenario->seed,
                                 .scenario_hash = scenario->hash,
                                 .nplans = dir->nplans,
                                 .plans = plans,
                                 .programs = programs};
    if (st == LUO_OK) st = luo_trace_write(dir->trace, dir->dir, "trace.json.gz", &head, err);
    luo_arena_reset(dir->scratch, mark);
    return st;
}

/* Keeps the first status, and its sentence. */
static void keep(luo_status *first, luo_status st, luo_err *err, const luo_err *now)
{
    if (*first != LUO_OK || st == LUO_OK) return;
    *first = st;
    if (err) *err = *now;
}

luo_status luo_rundir_close(luo_rundir *rundir, luo_run_state state, int exit_code, luo_err *err)
{
    luo_status first = LUO_OK;
    luo_err now = {0};
    if (!rundir) return LUO_OK;
    keep(&first, luo_rundir_put_held(rundir, &now), err, &now);
    for (int i = 0; i < LUO_RUN_TABLES; i++)
        keep(&first, luo_table_close(&rundir->table[i], &now), err, &now);
    if (luo_trace_events(rundir->trace) > 0) keep(&first, write_trace(rundir, &now), err, &now);
    if (rundir->log_failed) {
        errno = ENOSPC;
        keep(&first, luo_io_err(&now, "write log.txt of", rundir->dir), err, &now);
    }
    if (first != LUO_OK && err && !rundir->why) rundir->why = strdup(err->text);
    keep(&first,
         luo_rundir_manifest(rundir, first == LUO_OK ? state : LUO_FAILED,
                             first == LUO_OK ? exit_code : luo_status_exit(first), &now),
         err, &now);
    release(rundir);
    return first;
}
