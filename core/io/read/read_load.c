/* read_load.c: loads of experts, step by step (docs/formats.md#tables-1). */
#include "core/base/vec.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"

typedef struct reader {
    luo_arena *arena;
    luo_csv *table;
    const luo_model *model;
    luo_load_row *rows;
    luo_expert_load *loads; /* their rows are found when all are there */
    int64_t nrows, room;
    int32_t n, cap;
    int line;          /* of the row before */
    bool failed, idle; /* idle: the layer has no tokens so far */
} reader;

/* Rows stand in order, so a look at the last one finds a second. */
static bool in_order(const reader *r, int64_t step, const luo_load_row *row)
{
    if (r->n == 0 || step > r->loads[r->n - 1].step) return true;
    if (step < r->loads[r->n - 1].step) return false;
    const luo_load_row *last = &r->rows[r->nrows - 1];
    return row->layer > last->layer || (row->layer == last->layer && row->expert > last->expert);
}

static bool check_row(const reader *r, int64_t step, const luo_load_row *row)
{
    if (!in_order(r, step, row)) {
        luo_csv_error(r->table, LUO_LO_STEP,
                      "this row does not come after the one of line %d; rows stand in order of "
                      "step, layer and expert, each of them once.",
                      r->line);
        return false;
    }
    if (!r->model) return true;
    if (row->layer >= r->model->layers || !luo_model_has_experts(r->model, row->layer)) {
        luo_csv_error(r->table, LUO_LO_LAYER, "model `%s` has no layer %d with experts.",
                      r->model->name, row->layer);
        return false;
    }
    if (row->expert >= r->model->moe.experts) {
        luo_csv_error(r->table, LUO_LO_EXPERT,
                      "expert %d is not in model `%s`; experts are 0 to %d.", row->expert,
                      r->model->name, (int)r->model->moe.experts - 1);
        return false;
    }
    return true;
}

/* At the end of a layer of a step. */
static void check_layer(const reader *r)
{
    if (r->idle)
        luo_csv_error(r->table, LUO_LO_TOKENS,
                      "no expert of layer %d in step %lld, whose rows end at line %d, has tokens; "
                      "one with tokens is expected, or no row.",
                      r->rows[r->nrows - 1].layer, (long long)r->loads[r->n - 1].step, r->line);
}

static void add_row(reader *r, int64_t step, luo_load_row row)
{
    const bool next_step = r->n == 0 || step != r->loads[r->n - 1].step;
    const bool next = next_step || row.layer != r->rows[r->nrows - 1].layer;
    if (next) check_layer(r);
    if (!LUO_VEC_ROOM_IN(r->arena, r->rows, r->nrows, r->room) ||
        (next_step && !LUO_VEC_ROOM_IN(r->arena, r->loads, r->n, r->cap))) {
        r->failed = true;
        return;
    }
    if (next_step) r->loads[r->n++] = (luo_expert_load){.step = step};
    r->idle = (next || r->idle) && row.tokens == 0;
    r->rows[r->nrows++] = row;
    r->loads[r->n - 1].nrows++;
    r->line = luo_csv_line(r->table);
}

static void read_rows(reader *r)
{
    luo_csv_cell c[LUO_LO_N];
    while (!r->failed && luo_csv_next(r->table, c)) {
        const luo_load_row row = {(int32_t)c[LUO_LO_LAYER].whole, (int32_t)c[LUO_LO_EXPERT].whole,
                                  (uint32_t)c[LUO_LO_TOKENS].whole};
        if (check_row(r, c[LUO_LO_STEP].whole, &row)) add_row(r, c[LUO_LO_STEP].whole, row);
    }
    check_layer(r);
}

luo_status luo_read_expert_load_text(luo_arena *arena, const luo_source *src,
                                     const luo_model *model, luo_expert_load **out, int32_t *n,
                                     luo_diags *diags)
{
    const luo_input_table *table = &luo_input_table_expert_load;
    reader r = {.arena = arena,
                .model = model,
                .table = luo_csv_open(src, table->columns, table->n, diags)};
    int64_t at = 0;
    read_rows(&r);
    const luo_status st = luo_csv_close(r.table);
    if (r.failed)
        return luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, src->name, 0, 0,
                             "this process is out of memory; free some or use less.");
    if (st != LUO_OK) return st;
    if (r.n == 0)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, 1, 1,
                             "there is no load; one row or more is expected.");
    for (int32_t i = 0; i < r.n; at += r.loads[i++].nrows) r.loads[i].rows = r.rows + at;
    *out = r.loads;
    *n = r.n;
    return LUO_OK;
}

luo_status luo_read_expert_load(luo_arena *arena, const char *path, const luo_model *model,
                                luo_expert_load **out, int32_t *n, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_expert_load_text(arena, &src, model, out, n, diags);
}
