/* read_layers.c: times of layers, row by row. */
#include <string.h>

#include "core/base/vec.h"
#include "core/io/read/suite.h"
#include "core/io/read/input_tables.h"

static luo_layer_time *new_row(luo_arena *arena, luo_layer_times *times)
{
    if (!LUO_VEC_ROOM_IN(arena, times->at, times->n, times->cap)) return NULL;
    return &times->at[times->n++];
}

/* The text of the row before, where it is the same: tables are sorted. */
static const char *keep(luo_arena *arena, const char *text, const char *before)
{
    return before && strcmp(before, text) == 0 ? before : luo_arena_strdup(arena, text);
}

static bool take_row(luo_arena *arena, const luo_csv_cell *cells, luo_layer_times *out)
{
    luo_layer_time *time = new_row(arena, out);
    if (!time) return false;
    const luo_layer_time *before = out->n > 1 ? time - 1 : NULL;
    *time = (luo_layer_time){
        .model = keep(arena, cells[LUO_LT_MODEL].text, before ? before->model : NULL),
        .gpu = keep(arena, cells[LUO_LT_GPU].text, before ? before->gpu : NULL),
        .sequences = (int32_t)cells[LUO_LT_SEQUENCES].whole,
        .tp = (int32_t)cells[LUO_LT_TP].whole,
        .layer = (int32_t)cells[LUO_LT_LAYER].whole,
        .forward_s = cells[LUO_LT_FORWARD].number,
        .backward_s = cells[LUO_LT_BACKWARD].number,
        .update_s = cells[LUO_LT_UPDATE].given ? cells[LUO_LT_UPDATE].number : 0};
    return time->model && time->gpu;
}

luo_status luo_read_layer_times(luo_arena *arena, const char *path, luo_layer_times *out,
                                luo_diags *diags)
{
    luo_csv_cell cell[LUO_LT_N];
    bool room = true;
    luo_csv *csv = luo_csv_open_path(path, luo_input_table_layer_times.columns,
                                     luo_input_table_layer_times.n, diags);
    while (room && luo_csv_next(csv, cell)) room = take_row(arena, cell, out);
    const luo_status st = luo_csv_close(csv);
    if (room) return st;
    luo_err err;
    luo_err_nomem(&err);
    return luo_diags_err(diags, &err);
}
