#include "core/io/read/suite.h"

#include "core/base/vec.h"
#include "core/io/result/tables.h"

static luo_suite_row *new_row(luo_arena *arena, luo_suite *s)
{
    if (!LUO_VEC_ROOM_IN(arena, s->at, s->n, s->cap)) return NULL;
    s->at[s->n] = (luo_suite_row){0};
    return &s->at[s->n++];
}

static int64_t whole(const luo_csv_cell *c, int64_t otherwise)
{
    return c->given ? c->whole : otherwise;
}

static int32_t small(const luo_csv_cell *c, int32_t otherwise)
{
    return c->given ? (int32_t)c->whole : otherwise;
}

static double number(const luo_csv_cell *c)
{
    return c->given ? c->number : 0;
}

static bool take_texts(luo_arena *arena, const luo_csv_cell *c, luo_suite_row *r)
{
    const struct {
        int column;
        const char **to;
    } texts[] = {{LUO_SU_ID, &r->id},
                 {LUO_SU_SUITE, &r->suite},
                 {LUO_SU_SYSTEM, &r->system},
                 {LUO_SU_DATE, &r->date},
                 {LUO_SU_GPU, &r->gpu},
                 {LUO_SU_FABRIC, &r->fabric},
                 {LUO_SU_MODEL, &r->model},
                 {LUO_SU_PRECISION, &r->precision},
                 {LUO_SU_LAYERS_PER_STAGE, &r->layers_per_stage},
                 {LUO_SU_STAGE_DEVICES, &r->stage_devices},
                 {LUO_SU_SOURCE, &r->source},
                 {LUO_SU_NOTE, &r->note},
                 {LUO_SU_MEM_BY_RANK, &r->mem_by_rank}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const luo_csv_cell *cell = &c[texts[i].column];
        *texts[i].to = luo_arena_strdup(arena, cell->given ? cell->text : "");
        if (!*texts[i].to) return false;
    }
    return true;
}

static void take_numbers(const luo_csv_cell *c, luo_suite_row *r)
{
    r->split = (luo_suite_split)c[LUO_SU_SPLIT].whole;
    r->kind = (luo_step_kind)c[LUO_SU_STEP_KIND].whole;
    r->gpus = small(&c[LUO_SU_GPUS], 1);
    r->gpus_per_node = small(&c[LUO_SU_PER_NODE], 1);
    r->layers = whole(&c[LUO_SU_LAYERS], 0);
    r->hidden = whole(&c[LUO_SU_HIDDEN], 0);
    r->heads = whole(&c[LUO_SU_HEADS], 0);
    r->kv_heads = whole(&c[LUO_SU_KV_HEADS], r->heads);
    r->ffn = whole(&c[LUO_SU_FFN], 4 * r->hidden);
    r->vocab = whole(&c[LUO_SU_VOCAB], 0);
    r->seq = whole(&c[LUO_SU_SEQ], 0);
    r->gbs = whole(&c[LUO_SU_GBS], 0);
    r->tp = small(&c[LUO_SU_TP], 1);
    r->pp = small(&c[LUO_SU_PP], 1);
    r->vpp = small(&c[LUO_SU_VPP], 1);
    r->cp = small(&c[LUO_SU_CP], 1);
    r->dp = small(&c[LUO_SU_DP], 0);
    if (r->dp == 0) { /* what the others leave */
        const int64_t others = (int64_t)r->tp * r->pp * r->cp;
        r->dp = others <= r->gpus ? (int32_t)(r->gpus / others) : 1;
    }
    r->mbs = small(&c[LUO_SU_MBS], 0);
    r->zero = small(&c[LUO_SU_ZERO], 0);
    r->sp = whole(&c[LUO_SU_SP], 0) == 1;
    r->recompute = small(&c[LUO_SU_RECOMPUTE], LUO_RECOMPUTE_NONE);
    r->step_s = number(&c[LUO_SU_STEP]);
    r->grad_reduce_s = number(&c[LUO_SU_GRAD_REDUCE]);
    r->mem_bytes = number(&c[LUO_SU_MEM]);
    r->tflops_gpu = number(&c[LUO_SU_TFLOPS]);
    r->ep = small(&c[LUO_SU_EP], 1);
    r->experts = whole(&c[LUO_SU_EXPERTS], 0);
    r->topk = whole(&c[LUO_SU_TOPK], 0);
    r->moe_ffn = whole(&c[LUO_SU_MOE_FFN], 0);
    r->shared_ffn = whole(&c[LUO_SU_SHARED_FFN], 0);
    r->dense_layers = whole(&c[LUO_SU_DENSE_LAYERS], 0);
    r->mla = whole(&c[LUO_SU_MLA], 0) == 1;
}

/* A time is there unless the row is about memory or FLOP/s alone. */
static bool has_answer(luo_csv *t, const luo_csv_cell *c)
{
    const luo_step_kind kind = (luo_step_kind)c[LUO_SU_STEP_KIND].whole;
    const bool rate = kind == LUO_STEP_MFU_ONLY || kind == LUO_STEP_FROM_FLOPS72 ||
                      kind == LUO_STEP_FROM_FLOPS96;
    if (kind == LUO_STEP_OOM || c[LUO_SU_STEP].given || (rate && c[LUO_SU_TFLOPS].given))
        return true;
    luo_csv_error(t, LUO_SU_STEP, "`step_s` is empty; a row of this `step_kind` needs it.");
    return false;
}

static bool has_columns(luo_csv *t)
{
    bool all = true;
    for (int i = 0; i <= LUO_SU_NOTE; i++) {
        if (luo_table_suite.columns[i].required || luo_csv_has(t, i)) continue;
        luo_csv_error(t, i, "column `%s` is missing.",
                      luo_table_suite.columns[i].name);
        all = false;
    }
    return all;
}

luo_status luo_read_suite(luo_arena *arena, const char *path, luo_suite *out, luo_diags *diags)
{
    luo_csv_cell c[LUO_SU_N];
    const char *name = luo_arena_strdup(arena, path);
    luo_csv *t = luo_csv_open_path(path, luo_table_suite.columns, luo_table_suite.n, diags);
    bool room = name != NULL, whole_header = false;
    for (bool first = true; room && luo_csv_next(t, c); first = false) {
        if (first) whole_header = has_columns(t);
        if (!whole_header) break;
        if (!has_answer(t, c)) continue;
        luo_suite_row *r = new_row(arena, out);
        room = r && take_texts(arena, c, r);
        if (!room) break;
        take_numbers(c, r);
        r->file = name;
        r->line = luo_csv_line(t);
    }
    const luo_status st = luo_csv_close(t);
    if (room) return st;
    luo_err err;
    luo_err_nomem(&err);
    return luo_diags_err(diags, &err);
}
