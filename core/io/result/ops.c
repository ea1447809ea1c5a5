/* ops.csv: every instruction of a traced step, by device, stream, issue order. */
#include <stdlib.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/base/vec.h"
#include "core/io/result/rundir_internal.h"

/* One row: the record, and its place in the device's issue order. */
typedef struct op_row {
    int64_t record, seq;
    int32_t device, stream;
} op_row;

static int in_order(const void *a, const void *b)
{
    const op_row *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* The other device or device set of a P2P, the group of a collective. */
static void put_peer(luo_table *table, luo_str *text, luo_arena *scratch, const luo_programs *set,
                     const luo_program *program, const luo_instr *in)
{
    const luo_slot *slot = in->slot >= 0 ? &program->slots[in->slot] : NULL;
    luo_str_clear(text);
    if (!slot || (in->kind != LUO_INSTR_COLLECTIVE && in->kind != LUO_INSTR_P2P)) {
        luo_table_none(table, LUO_COL_OPS_peer);
        return;
    }
    if (in->kind == LUO_INSTR_COLLECTIVE) {
        luo_devset_print(text, set->groups[slot->group].dev, set->groups[slot->group].n);
    } else {
        int32_t n = 0;
        int32_t *peer = LUO_NEW_N(scratch, int32_t, slot->nmessage + 1);
        if (!peer) {
            text->failed = true;
            return;
        }
        for (int32_t i = 0; i < slot->nmessage; i++) { /* each once, in message order */
            bool known = false;
            for (int32_t j = 0; j < n; j++) known |= peer[j] == slot->message[i].peer;
            if (!known) peer[n++] = slot->message[i].peer;
        }
        if (n == 1)
            luo_str_addi(text, peer[0]);
        else
            luo_devset_print(text, peer, n);
    }
    luo_table_text(table, LUO_COL_OPS_peer, luo_str_get(text));
}

typedef struct op_ctx {
    luo_rundir *r;
    const luo_programs *set;
    const luo_step_result *result;
    int64_t step;
    int32_t attempt;
    double start_s;
    luo_str peer;
    const luo_program *program; /* of the device of the last row */
} op_ctx;

/* ---- cells that every row of an instruction has ---- */

enum { TEXTS = 1 << 20, TEXT_BYTES = 1 << 24 };

void luo_op_texts_free(luo_op_texts *texts)
{
    free(texts->first);
    free(texts->of);
    luo_str_free(&texts->text);
    *texts = (luo_op_texts){0};
}

/* Steps of one program set follow each other. A set that is too large has none. */
static void open_texts(luo_op_texts *texts, const luo_programs *set)
{
    int64_t n = 0;
    if (texts->n == set->n && texts->hash == set->hash) return;
    luo_op_texts_free(texts);
    texts->first = calloc((size_t)set->n + 1, sizeof *texts->first);
    for (int32_t i = 0; texts->first && i < set->n; i++) {
        texts->first[i] = n;
        n += set->roles[set->at[i].role].ninstr;
    }
    if (texts->first && n <= TEXTS) texts->of = calloc((size_t)n + 1, sizeof *texts->of);
    if (!texts->of) return;
    texts->hash = set->hash;
    texts->n = set->n;
}

/* NULL: not kept. */
static luo_op_text *text_of(op_ctx *ctx, const luo_program *program, const luo_instr *in)
{
    luo_op_texts *texts = &ctx->r->op_texts;
    return texts->of ? &texts->of[texts->first[program - ctx->set->at] + in->id] : NULL;
}

static void keep_text(op_ctx *ctx, luo_op_text *text, size_t head, size_t head_end, size_t tail)
{
    luo_str *all = &ctx->r->op_texts.text;
    const luo_str *row = &ctx->r->table[LUO_TABLE_OPS].buf;
    if (!text || row->failed || all->len + row->len - head > TEXT_BYTES) return;
    const luo_op_text made = {(uint32_t)all->len, (uint32_t)(head_end - head),
                              (uint32_t)(row->len - tail)};
    luo_str_addn(all, row->at + head, made.head);
    luo_str_addn(all, row->at + tail, made.tail);
    if (!all->failed) *text = made;
}

static void put_cells(op_ctx *ctx, luo_table *table, const luo_program *program,
                      const luo_op_record *rec)
{
    const luo_role *role = &ctx->set->roles[program->role];
    const luo_instr *in = &role->instr[rec->instr];
    const luo_run_task *task = &program->tasks[rec->task];
    luo_op_text *text = text_of(ctx, program, in);
    if (text && text->head) {
        const char *at = ctx->r->op_texts.text.at + text->at;
        luo_table_again(table, LUO_COL_OPS_stream, LUO_COL_OPS_micro_batch, at, text->head);
        luo_table_int_opt(table, LUO_COL_OPS_micro_batch, task->micro_batch);
        luo_table_again(table, LUO_COL_OPS_layer, LUO_COL_OPS_t_start_s, at + text->head,
                        text->tail);
        return;
    }
    const size_t head = table->buf.len + 1; /* behind the comma */
    luo_table_text(table, LUO_COL_OPS_stream, luo_stream_name((luo_stream)in->stream));
    luo_table_text(table, LUO_COL_OPS_phase, luo_phase_name((luo_phase)in->phase));
    luo_table_int(table, LUO_COL_OPS_instruction, in->id);
    luo_table_text(table, LUO_COL_OPS_kind, luo_instr_kind_name((luo_instr_kind)in->kind));
    luo_table_text(table, LUO_COL_OPS_op, in->op >= 0 ? ctx->set->ops[in->op].name : "");
    luo_table_int_opt(table, LUO_COL_OPS_pipeline, program->pipeline);
    luo_table_int_opt(table, LUO_COL_OPS_stage, program->stage);
    luo_table_int(table, LUO_COL_OPS_chunk, role->seg[task->seg].chunk);
    const size_t head_end = table->buf.len;
    luo_table_int_opt(table, LUO_COL_OPS_micro_batch, task->micro_batch);
    const size_t tail = table->buf.len + 1;
    luo_table_int_opt(table, LUO_COL_OPS_layer, in->layer);
    put_peer(table, &ctx->peer, ctx->r->scratch, ctx->set, program, in);
    luo_table_int(table, LUO_COL_OPS_bytes, in->bytes);
    luo_table_int(table, LUO_COL_OPS_flop, in->flops);
    keep_text(ctx, text, head, head_end, tail);
}

static luo_status put_row(op_ctx *ctx, const op_row *row, luo_err *err)
{
    luo_table *table = &ctx->r->table[LUO_TABLE_OPS];
    const luo_op_record *rec = &ctx->result->records[row->record];
    const size_t mark = luo_arena_mark(ctx->r->scratch);
    if (!ctx->program || ctx->program->device != rec->device)
        ctx->program = luo_programs_find(ctx->set, rec->device);
    luo_table_int(table, LUO_COL_OPS_seq, row->seq);
    luo_table_int(table, LUO_COL_OPS_step, ctx->step);
    luo_table_int(table, LUO_COL_OPS_attempt, ctx->attempt);
    luo_table_int(table, LUO_COL_OPS_device, rec->device);
    put_cells(ctx, table, ctx->program, rec);
    luo_table_num(table, LUO_COL_OPS_t_start_s, ctx->start_s + rec->start_s);
    luo_table_num(table, LUO_COL_OPS_t_end_s, ctx->start_s + rec->end_s);
    luo_table_text(table, LUO_COL_OPS_status, luo_status_name(rec->status));
    luo_arena_reset(ctx->r->scratch, mark);
    return ctx->peer.failed ? luo_err_nomem(err) : luo_table_end(table, err);
}

/* Rows of records first..n-1 in the order of the file. */
static luo_status put_rows(op_ctx *ctx, int64_t n, luo_err *err)
{
    op_row *rows = malloc((size_t)n * sizeof *rows + 1);
    if (!rows) return luo_err_nomem(err);
    int64_t seq = 0;
    for (int64_t k = 0; k < n; k++) {
        const luo_op_record *rec = &ctx->result->records[k];
        const luo_program *program = luo_programs_find(ctx->set, rec->device);
        if (k > 0 && rec->device != ctx->result->records[k - 1].device) seq = 0;
        rows[k] = (op_row){k, seq++, rec->device,
                           ctx->set->roles[program->role].instr[rec->instr].stream};
    }
    qsort(rows, (size_t)n, sizeof *rows, in_order);
    luo_status st = LUO_OK;
    for (int64_t k = 0; st == LUO_OK && k < n; k++) st = put_row(ctx, &rows[k], err);
    free(rows);
    return st;
}

static bool note_step(luo_traced *traced, int64_t step)
{
    if (traced->n > 0 && traced->at[traced->n - 1].hi - 1 == step)
        return true; /* another attempt */
    if (traced->n > 0 && traced->at[traced->n - 1].hi == step) {
        traced->at[traced->n - 1].hi++;
        return true;
    }
    if (!LUO_VEC_ROOM(traced->at, traced->n, traced->cap)) return false;
    traced->at[traced->n++] = (luo_range){(int32_t)step, (int32_t)step + 1};
    return true;
}

/* How many of the n records, in whole devices, fit into `room`. */
static int64_t whole_devices(const luo_op_record *rec, int64_t n, int64_t room, int32_t *devices,
                             int32_t *all)
{
    int64_t fit = 0;
    *devices = *all = 0;
    for (int64_t k = 0, next; k < n; k = next) {
        for (next = k + 1; next < n && rec[next].device == rec[k].device; next++) continue;
        ++*all;
        if (next > room) continue;
        fit = next;
        ++*devices;
    }
    return fit;
}

/* Operations that may still be kept. By itself the first step, which figures are drawn of, has room
 * of its own: no more than twice that of all others together, however large a device of it is. */
static int64_t room_left(const luo_rundir *dir)
{
    if (dir->opts.ops_whole > 0 && dir->traced.n == 0) return 2 * dir->opts.ops_limit;
    return dir->opts.ops_limit - dir->traced.ops;
}

/* Pre: the records are those of whole devices. */
static luo_status keep_ops(luo_rundir *dir, int64_t step, int32_t attempt, double start_s,
                           const luo_programs *set, const luo_step_result *result, luo_err *err)
{
    luo_traced *traced = &dir->traced;
    int64_t n = result->nrecords;
    const bool chosen = dir->opts.ops_whole > 0, first = traced->n == 0;
    const bool fits = (chosen || !traced->full) && n <= room_left(dir);
    if (n > 0 && !fits) traced->full = true;
    if (!chosen || fits || first)
        LUO_TRY(luo_trace_step(dir->trace, step, attempt, start_s, set, result, err));
    if (n == 0 || (!fits && !first)) return LUO_OK;
    if (!fits)
        n = whole_devices(result->records, n, room_left(dir), &traced->part_devices,
                          &traced->part_of);
    if (!chosen || !first) traced->ops += n;
    if (!note_step(traced, step)) return luo_err_nomem(err);
    op_ctx ctx = {.r = dir,
                  .set = set,
                  .result = result,
                  .step = step,
                  .attempt = attempt,
                  .start_s = start_s};
    open_texts(&dir->op_texts, set);
    const luo_status st = put_rows(&ctx, n, err);
    luo_str_free(&ctx.peer);
    return st;
}

/* Does an event fall into the step, or the end of the run? */
static bool is_wanted(const luo_rundir *dir, int64_t step, double start_s,
                      const luo_step_result *result)
{
    const luo_scenario *sc = dir->opts.scenario;
    if (step == dir->traced.hit_step) return true;
    if (sc->steps > 0) return step + 1 >= sc->steps;
    return start_s + (result->end_s - result->start_s) >= sc->duration_s;
}

/* Some devices of a step that is traced by itself. The first step has one of each stage; of each
 * later one no more than a share of what is left is kept, so that late events have something, too,
 * and once half is gone only steps that are wanted, on one device. */
static luo_status keep_some(luo_rundir *dir, int64_t step, int32_t attempt, double start_s,
                            const luo_programs *set, const luo_step_result *result, luo_err *err)
{
    enum { SHARE = 16 };
    const int64_t left = room_left(dir), whole = dir->opts.ops_whole, n = result->nrecords;
    const bool first = dir->traced.n == 0, short_of = !first && left < dir->opts.ops_limit / 2;
    luo_step_result some = *result;
    if (short_of && !is_wanted(dir, step, start_s, result)) return LUO_OK;
    const int64_t share = left / SHARE < whole ? left / SHARE : whole;
    const int64_t room = first ? dir->opts.ops_first : short_of ? 0 : share;
    if (n <= (room < whole ? room : whole))
        return keep_ops(dir, step, attempt, start_s, set, result, err);
    luo_op_record *records = luo_ops_sample(dir, set, result, room, &some.nrecords);
    if (!records) return luo_err_nomem(err);
    some.records = records;
    if (!dir->traced.sampled)
        luo_rundir_log(dir, LUO_NOTE,
                       "large steps are traced on one device of each stage, of pipelines that "
                       "differ; --trace-steps 0 traces step 0 on all.");
    dir->traced.sampled = true;
    const luo_status st = keep_ops(dir, step, attempt, start_s, set, &some, err);
    free(records);
    return st;
}

luo_status luo_rundir_ops(void *ctx, int64_t step, int32_t attempt, double start_s, int32_t plan,
                          const luo_programs *set, const luo_step_result *result, luo_err *err)
{
    luo_rundir *dir = ctx;
    (void)plan; /* steps.csv has it */
    return dir->opts.ops_whole > 0 ? keep_some(dir, step, attempt, start_s, set, result, err)
                                   : keep_ops(dir, step, attempt, start_s, set, result, err);
}

bool luo_traced_warning(const luo_traced *traced, int64_t steps, int64_t limit, luo_str *out)
{
    enum { MANY = 16 }; /* ranges that are listed */
    if (!traced->full) return false;
    luo_str_add(out, "trace holds ");
    if (traced->part_of > 0)
        luo_str_addf(out, "%d of %d devices of step %d", traced->part_devices, traced->part_of,
                     traced->at[0].lo);
    else
        luo_str_add(out, traced->n == 1 && traced->at[0].hi == traced->at[0].lo + 1 ? "step "
                                                                                    : "steps ");
    for (int32_t i = 0; traced->part_of == 0 && i < traced->n; i++) {
        if (traced->n > MANY && i == MANY / 2) {
            i = traced->n - MANY / 2;
            luo_str_add(out, ",..");
        }
        luo_str_addf(out, i ? ",%d" : "%d", traced->at[i].lo);
        if (traced->at[i].hi - traced->at[i].lo > 1) luo_str_addf(out, "-%d", traced->at[i].hi - 1);
    }
    luo_str_addf(out, " of %lld (limit %lld operations); use --trace-steps to choose.",
                 (long long)steps, (long long)limit);
    return true;
}
