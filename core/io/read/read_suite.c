#include "core/io/read/suite.h"

#include "core/base/vec.h"
#include "core/io/read/input_tables.h"

static luo_suite_row *new_row(luo_arena *arena, luo_suite *suite)
{
    if (!LUO_VEC_ROOM_IN(arena, suite->at, suite->n, suite->cap)) return NULL;
    suite->at[suite->n] = (luo_suite_row){0};
    return &suite->at[suite->n++];
}

static int64_t whole(const luo_csv_cell *cells, int64_t otherwise)
{
    return cells->given ? cells->whole : otherwise;
}

static int32_t small(const luo_csv_cell *cells, int32_t otherwise)
{
    return cells->given ? (int32_t)cells->whole : otherwise;
}

static double number(const luo_csv_cell *cells)
{
    return cells->given ? cells->number : 0;
}

static bool take_texts(luo_arena *arena, const luo_csv_cell *cells, luo_suite_row *row)
{
    const struct {
        int column;
        const char **to;
    } texts[] = {{LUO_SU_ID, &row->id},
                 {LUO_SU_SUITE, &row->suite},
                 {LUO_SU_SYSTEM, &row->system},
                 {LUO_SU_DATE, &row->date},
                 {LUO_SU_GPU, &row->gpu},
                 {LUO_SU_FABRIC, &row->fabric},
                 {LUO_SU_MODEL, &row->model},
                 {LUO_SU_PRECISION, &row->precision},
                 {LUO_SU_LAYERS_PER_STAGE, &row->layers_per_stage},
                 {LUO_SU_STAGE_DEVICES, &row->stage_devices},
                 {LUO_SU_SOURCE, &row->source},
                 {LUO_SU_NOTE, &row->note},
                 {LUO_SU_MEM_BY_RANK, &row->mem_by_rank}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const luo_csv_cell *cell = &cells[texts[i].column];
        *texts[i].to = luo_arena_strdup(arena, cell->given ? cell->text : "");
        if (!*texts[i].to) return false;
    }
    return true;
}

static void take_numbers(const luo_csv_cell *cells, luo_suite_row *row)
{
    row->split = (luo_suite_split)cells[LUO_SU_SPLIT].whole;
    row->kind = (luo_step_kind)cells[LUO_SU_STEP_KIND].whole;
    row->gpus = small(&cells[LUO_SU_GPUS], 1);
    row->gpus_per_node = small(&cells[LUO_SU_PER_NODE], 1);
    row->layers = whole(&cells[LUO_SU_LAYERS], 0);
    row->hidden = whole(&cells[LUO_SU_HIDDEN], 0);
    row->heads = whole(&cells[LUO_SU_HEADS], 0);
    row->kv_heads = whole(&cells[LUO_SU_KV_HEADS], row->heads);
    row->ffn = whole(&cells[LUO_SU_FFN], 4 * row->hidden);
    row->vocab = whole(&cells[LUO_SU_VOCAB], 0);
    row->seq = whole(&cells[LUO_SU_SEQ], 0);
    row->gbs = whole(&cells[LUO_SU_GBS], 0);
    row->tp = small(&cells[LUO_SU_TP], 1);
    row->pp = small(&cells[LUO_SU_PP], 1);
    row->vpp = small(&cells[LUO_SU_VPP], 1);
    row->cp = small(&cells[LUO_SU_CP], 1);
    row->dp = small(&cells[LUO_SU_DP], 0);
    if (row->dp == 0) { /* what the others leave */
        const int64_t others = (int64_t)row->tp * row->pp * row->cp;
        row->dp = others <= row->gpus ? (int32_t)(row->gpus / others) : 1;
    }
    row->mbs = small(&cells[LUO_SU_MBS], 0);
    row->zero = small(&cells[LUO_SU_ZERO], 0);
    row->sp = whole(&cells[LUO_SU_SP], 0) == 1;
    row->recompute = small(&cells[LUO_SU_RECOMPUTE], LUO_RECOMPUTE_NONE);
    row->step_s = number(&cells[LUO_SU_STEP]);
    row->grad_reduce_s = number(&cells[LUO_SU_GRAD_REDUCE]);
    row->mem_bytes = number(&cells[LUO_SU_MEM]);
    row->tflops_gpu = number(&cells[LUO_SU_TFLOPS]);
    row->ep = small(&cells[LUO_SU_EP], 1);
    row->experts = whole(&cells[LUO_SU_EXPERTS], 0);
    row->topk = whole(&cells[LUO_SU_TOPK], 0);
    row->moe_ffn = whole(&cells[LUO_SU_MOE_FFN], 0);
    row->shared_ffn = whole(&cells[LUO_SU_SHARED_FFN], 0);
    row->dense_layers = whole(&cells[LUO_SU_DENSE_LAYERS], 0);
    row->mla = whole(&cells[LUO_SU_MLA], 0) == 1;
}

/* A time is there unless the row is about memory or FLOP/s alone. */
static bool has_answer(luo_csv *csv, const luo_csv_cell *cells)
{
    const luo_step_kind kind = (luo_step_kind)cells[LUO_SU_STEP_KIND].whole;
    const bool rate = kind == LUO_STEP_MFU_ONLY || kind == LUO_STEP_FROM_FLOPS72 ||
                      kind == LUO_STEP_FROM_FLOPS96;
    if (kind == LUO_STEP_OOM || cells[LUO_SU_STEP].given || (rate && cells[LUO_SU_TFLOPS].given))
        return true;
    luo_csv_error(csv, LUO_SU_STEP, "`step_s` is empty; a row of this `step_kind` needs it.");
    return false;
}

static bool has_columns(luo_csv *csv)
{
    bool all = true;
    for (int i = 0; i <= LUO_SU_NOTE; i++) {
        if (luo_input_table_suite.columns[i].required || luo_csv_has(csv, i)) continue;
        luo_csv_error(csv, i, "column `%s` is missing.", luo_input_table_suite.columns[i].name);
        all = false;
    }
    return all;
}

luo_status luo_read_suite(luo_arena *arena, const char *path, luo_suite *out, luo_diags *diags)
{
    luo_csv_cell cell[LUO_SU_N];
    const char *name = luo_arena_strdup(arena, path);
    luo_csv *csv =
        luo_csv_open_path(path, luo_input_table_suite.columns, luo_input_table_suite.n, diags);
    bool room = name != NULL;
    const bool whole = luo_csv_has(csv, LUO_SU_ID) && has_columns(csv);
    luo_csv_forgive(csv);
    while (room && whole && luo_csv_next(csv, cell)) {
        if (!has_answer(csv, cell)) continue;
        luo_suite_row *row = new_row(arena, out);
        room = row && take_texts(arena, cell, row);
        if (!room) break;
        take_numbers(cell, row);
        row->file = name;
        row->line = luo_csv_line(csv);
    }
    const luo_status st = luo_csv_close(csv);
    if (room) return st;
    luo_err err;
    luo_err_nomem(&err);
    return luo_diags_err(diags, &err);
}
