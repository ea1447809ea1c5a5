/* Rows of steps.csv, timeline.csv and memory.csv. */
#include <math.h>

#include "core/base/devset.h"
#include "core/base/vec.h"
#include "core/io/result/rundir_internal.h"

void luo_rundir_put_parts(luo_table *table, int32_t tp_s, const luo_parts *p)
{
    const double parts[] = {p->tp_s, p->ep_s, p->cp_s, p->pp_s, p->dp_s};
    for (int32_t i = 0; i < 5; i++) luo_table_num(table, tp_s + i, parts[i]);
}

/* ---- steps ---- */

static luo_status put_steps(luo_rundir *dir, const luo_step_repeats *repeats, luo_err *err)
{
    luo_table *table = &dir->table[LUO_TABLE_STEPS];
    const luo_row_step *row = &repeats->first;
    luo_table_int(table, LUO_COL_STEPS_step, row->step);
    luo_table_int(table, LUO_COL_STEPS_attempt, row->attempt);
    luo_table_int(table, LUO_COL_STEPS_plan, row->plan);
    luo_table_num(table, LUO_COL_STEPS_t_start_s, row->start_s);
    luo_table_num(table, LUO_COL_STEPS_t_end_s, repeats->end_s);
    luo_table_num(table, LUO_COL_STEPS_step_s, row->end_s - row->start_s);
    luo_table_int(table, LUO_COL_STEPS_sequences, row->sequences);
    luo_table_int(table, LUO_COL_STEPS_tokens, row->tokens);
    luo_table_num(table, LUO_COL_STEPS_tokens_per_s, row->tokens_per_s);
    luo_table_num(table, LUO_COL_STEPS_compute_s, row->parts.compute_s);
    luo_table_num(table, LUO_COL_STEPS_recompute_s, row->parts.recompute_s);
    luo_rundir_put_parts(table, LUO_COL_STEPS_tp_s, &row->parts);
    luo_table_num(table, LUO_COL_STEPS_move_s, row->parts.move_s);
    luo_table_num(table, LUO_COL_STEPS_io_s, row->parts.io_s);
    luo_table_num(table, LUO_COL_STEPS_bubble_s, row->parts.bubble_s);
    luo_table_int(table, LUO_COL_STEPS_devices_used, row->devices_used);
    luo_table_int(table, LUO_COL_STEPS_devices_up, row->devices_up);
    luo_table_int_opt(table, LUO_COL_STEPS_slowest_device, row->slowest_device);
    luo_table_num(table, LUO_COL_STEPS_max_slowdown, row->max_slowdown);
    luo_table_num(table, LUO_COL_STEPS_loss, row->has_loss ? row->loss : NAN);
    luo_table_num(table, LUO_COL_STEPS_grad_norm, row->has_loss ? row->grad_norm : NAN);
    luo_table_num(table, LUO_COL_STEPS_wall_s, repeats->wall_s);
    luo_table_int(table, LUO_COL_STEPS_steps, repeats->n);
    return luo_table_end(table, err);
}

static luo_status put_held_steps(luo_rundir *dir, luo_err *err)
{
    const luo_step_repeats held = dir->held_steps;
    dir->held_steps.n = 0;
    return held.n > 0 ? put_steps(dir, &held, err) : LUO_OK;
}

luo_status luo_rundir_step(void *ctx, const luo_row_step *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    const double now = luo_rundir_wall(dir), wall_s = now - dir->wall_last;
    dir->wall_last = now;
    if (luo_repeats_take_step(&dir->held_steps, row, wall_s)) return LUO_OK;
    LUO_TRY(put_held_steps(dir, err));
    const luo_step_repeats one = {*row, row->end_s, wall_s, 1};
    if (dir->table[LUO_TABLE_STEPS].rows < LUO_REPEATS_WHOLE || row->has_loss)
        return put_steps(dir, &one, err);
    dir->held_steps = one;
    return LUO_OK;
}

/* ---- spans ---- */

static luo_status put_spans(luo_rundir *dir, const luo_span_repeats *repeats, luo_err *err)
{
    luo_table *table = &dir->table[LUO_TABLE_TIMELINE];
    const luo_row_timeline *row = &repeats->first;
    luo_table_int(table, LUO_COL_TIMELINE_seq, dir->timeline_seq++);
    luo_table_num(table, LUO_COL_TIMELINE_t_start_s, row->start_s);
    luo_table_num(table, LUO_COL_TIMELINE_t_end_s, repeats->end_s);
    luo_table_text(table, LUO_COL_TIMELINE_kind, luo_span_kind_name(row->kind));
    luo_table_int(table, LUO_COL_TIMELINE_blocking, row->blocking);
    luo_table_int(table, LUO_COL_TIMELINE_step, row->step);
    luo_table_int_opt(table, LUO_COL_TIMELINE_plan, row->plan);
    luo_table_text(table, LUO_COL_TIMELINE_event, row->event);
    luo_table_int(table, LUO_COL_TIMELINE_bytes, row->bytes);
    luo_table_int(table, LUO_COL_TIMELINE_steps, repeats->n);
    return luo_table_end(table, err);
}

static luo_status put_held_spans(luo_rundir *dir, luo_err *err)
{
    const luo_span_repeats held = dir->held_spans;
    dir->held_spans.n = 0;
    return held.n > 0 ? put_spans(dir, &held, err) : LUO_OK;
}

luo_status luo_rundir_timeline(void *ctx, const luo_row_timeline *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    LUO_TRY(luo_trace_span(dir->trace, row, err));
    if (luo_repeats_take_span(&dir->held_spans, row)) return LUO_OK;
    LUO_TRY(put_held_spans(dir, err));
    const luo_span_repeats one = {*row, row->end_s, 1};
    if (dir->timeline_seq < LUO_REPEATS_WHOLE || row->kind != LUO_SPAN_STEP || row->event[0])
        return put_spans(dir, &one, err);
    dir->held_spans = one;
    dir->held_spans.first.event = "";
    return LUO_OK;
}

/* ---- memory of devices ---- */

static luo_status put_memory(luo_rundir *dir, const luo_memory_repeats *repeats, luo_err *err)
{
    luo_table *table = &dir->table[LUO_TABLE_MEMORY];
    const luo_cluster *cluster = dir->opts.scenario->cluster;
    const luo_row_memory *row = repeats->first;
    const luo_memory *memory = &row->memory;
    const int64_t left = row->capacity_bytes - row->reserved_bytes - memory->needed;
    luo_str devices = {0};
    luo_table_int(table, LUO_COL_MEMORY_plan, row->plan);
    luo_table_int(table, LUO_COL_MEMORY_device, row->device);
    luo_table_text(table, LUO_COL_MEMORY_node,
                   cluster->nodes[cluster->devices[row->device].node].name);
    luo_table_text(table, LUO_COL_MEMORY_profile, luo_cluster_profile(cluster, row->device)->name);
    luo_table_int_opt(table, LUO_COL_MEMORY_pipeline, row->pipeline);
    luo_table_int_opt(table, LUO_COL_MEMORY_stage, row->stage);
    luo_table_int(table, LUO_COL_MEMORY_capacity_bytes, row->capacity_bytes);
    luo_table_int(table, LUO_COL_MEMORY_reserved_bytes, row->reserved_bytes);
    luo_table_int(table, LUO_COL_MEMORY_weights_bytes, memory->weights);
    luo_table_int(table, LUO_COL_MEMORY_gradients_bytes, memory->gradients);
    luo_table_int(table, LUO_COL_MEMORY_optimizer_bytes, memory->optimizer);
    luo_table_int(table, LUO_COL_MEMORY_activations_bytes, memory->activations);
    luo_table_int(table, LUO_COL_MEMORY_buffers_bytes, memory->buffers);
    luo_table_int(table, LUO_COL_MEMORY_communicators_bytes, memory->communicators);
    luo_table_int(table, LUO_COL_MEMORY_peak_bytes, memory->peak);
    luo_table_int(table, LUO_COL_MEMORY_free_bytes, left);
    luo_table_int_opt(table, LUO_COL_MEMORY_peak_instruction, memory->peak_instruction);
    luo_table_text(table, LUO_COL_MEMORY_verdict, left >= 0 ? "fits" : "over");
    luo_table_int_opt(table, LUO_COL_MEMORY_measured_bytes,
                      row->measured_bytes > 0 ? row->measured_bytes : -1);
    if (repeats->n > 1) luo_devset_print(&devices, repeats->device, repeats->n);
    luo_table_text(table, LUO_COL_MEMORY_devices, luo_str_get(&devices));
    luo_table_int(table, LUO_COL_MEMORY_pipelines, repeats->pipelines);
    const luo_status st = devices.failed ? luo_err_nomem(err) : luo_table_end(table, err);
    luo_str_free(&devices);
    return st;
}

static luo_status put_need(luo_rundir *dir, luo_err *err)
{
    const luo_cluster *cluster = dir->opts.scenario->cluster;
    int32_t *type = LUO_NEW_N(dir->scratch, int32_t, dir->nneed), n;
    luo_memory_repeats *rows;
    if (!type) return luo_err_nomem(err);
    for (int32_t i = 0; i < dir->nneed; i++) type[i] = cluster->devices[dir->need[i].device].kind;
    LUO_TRY(luo_repeats_of_memory(dir->scratch, dir->need, dir->nneed, type, &rows, &n, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(put_memory(dir, &rows[i], err));
    return LUO_OK;
}

luo_status luo_rundir_memory_ended(luo_rundir *dir, luo_err *err)
{
    const size_t mark = luo_arena_mark(dir->scratch);
    if (dir->nneed == 0) return LUO_OK;
    const luo_status st = put_need(dir, err);
    luo_arena_reset(dir->scratch, mark);
    dir->nneed = 0;
    return st;
}

luo_status luo_rundir_memory(void *ctx, const luo_row_memory *row, luo_err *err)
{
    luo_rundir *dir = ctx;
    if (dir->nneed > 0 && dir->need[0].plan != row->plan)
        LUO_TRY(luo_rundir_memory_ended(dir, err));
    if (!LUO_VEC_ROOM(dir->need, dir->nneed, dir->cap_need)) return luo_err_nomem(err);
    dir->need[dir->nneed++] = *row;
    return LUO_OK;
}

luo_status luo_rundir_put_held(luo_rundir *dir, luo_err *err)
{
    LUO_TRY(luo_rundir_memory_ended(dir, err));
    LUO_TRY(put_held_steps(dir, err));
    return put_held_spans(dir, err);
}
