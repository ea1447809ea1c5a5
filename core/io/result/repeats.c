#include "core/io/result/repeats.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/cost/cluster.h"
#include "core/io/result/result.h"

/* ---- steps and spans ---- */

/* Two lengths that print alike, or differ by what the clock of a long run rounds off: t_s is where
 * it stands. */
static bool is_same(double a, double b, double t_s)
{
    enum { ROUNDED = 4 };
    return fabs(a - b) <= 1e-9 + ROUNDED * DBL_EPSILON * t_s;
}

static bool has_same_parts(const luo_parts *a, const luo_parts *b, double t_s)
{
    return is_same(a->compute_s, b->compute_s, t_s) &&
           is_same(a->recompute_s, b->recompute_s, t_s) && is_same(a->tp_s, b->tp_s, t_s) &&
           is_same(a->ep_s, b->ep_s, t_s) && is_same(a->cp_s, b->cp_s, t_s) &&
           is_same(a->pp_s, b->pp_s, t_s) && is_same(a->dp_s, b->dp_s, t_s) &&
           is_same(a->move_s, b->move_s, t_s) && is_same(a->io_s, b->io_s, t_s) &&
           is_same(a->bubble_s, b->bubble_s, t_s);
}

bool luo_repeats_take_step(luo_step_repeats *held, const luo_row_step *row, double wall_s)
{
    const luo_row_step *first = &held->first;
    if (held->n == 0 || held->n >= LUO_REPEATS_MOST) return false;
    if (row->step != first->step + held->n || row->attempt != first->attempt ||
        row->plan != first->plan || row->sequences != first->sequences ||
        row->tokens != first->tokens || row->devices_used != first->devices_used ||
        row->devices_up != first->devices_up || row->slowest_device != first->slowest_device ||
        row->max_slowdown != first->max_slowdown || row->has_loss || first->has_loss)
        return false;
    if (!is_same(row->start_s, held->end_s, row->end_s) ||
        !is_same(row->end_s - row->start_s, first->end_s - first->start_s, row->end_s) ||
        !has_same_parts(&row->parts, &first->parts, row->end_s))
        return false;
    held->n++;
    held->end_s = row->end_s;
    held->wall_s += wall_s;
    return true;
}

bool luo_repeats_take_span(luo_span_repeats *held, const luo_row_timeline *row)
{
    const luo_row_timeline *first = &held->first;
    if (held->n == 0 || held->n >= LUO_REPEATS_MOST) return false;
    if (row->kind != LUO_SPAN_STEP || first->kind != LUO_SPAN_STEP ||
        row->step != first->step + held->n || row->plan != first->plan ||
        row->bytes != first->bytes || row->blocking != first->blocking ||
        row->redone != first->redone || row->event[0] || first->event[0])
        return false;
    if (!is_same(row->start_s, held->end_s, row->end_s) ||
        !is_same(row->end_s - row->start_s, first->end_s - first->start_s, row->end_s))
        return false;
    held->n++;
    held->end_s = row->end_s;
    return true;
}

/* ---- devices of a stage ---- */

typedef struct need { /* of a device */
    const luo_row_memory *row;
    int32_t type;
} need;

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* 0: the devices may share a row. */
static int compare_need(const need *a, const need *b)
{
    const luo_memory *x = &a->row->memory, *y = &b->row->memory;
    const int64_t pairs[][2] = {{a->row->stage, b->row->stage},
                                {a->type, b->type},
                                {a->row->capacity_bytes, b->row->capacity_bytes},
                                {a->row->reserved_bytes, b->row->reserved_bytes},
                                {a->row->measured_bytes, b->row->measured_bytes},
                                {x->weights, y->weights},
                                {x->gradients, y->gradients},
                                {x->optimizer, y->optimizer},
                                {x->activations, y->activations},
                                {x->buffers, y->buffers},
                                {x->communicators, y->communicators},
                                {x->peak, y->peak},
                                {x->needed, y->needed},
                                {x->peak_instruction, y->peak_instruction}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] != pairs[i][1]) return order(pairs[i][0], pairs[i][1]);
    return 0;
}

static int by_need(const void *a, const void *b)
{
    const need *x = a, *y = b;
    const int differ = compare_need(x, y);
    if (differ) return differ;
    if (x->row->pipeline != y->row->pipeline) return order(x->row->pipeline, y->row->pipeline);
    return order(x->row->device, y->row->device);
}

static int by_first_device(const void *a, const void *b)
{
    const luo_memory_repeats *x = a, *y = b;
    return order(x->first->device, y->first->device);
}

/* How many of sorted[0..n) are in the pipeline of the first one, and need the same. */
static int32_t count_in_pipeline(const need *sorted, int32_t n)
{
    int32_t k = 1;
    while (k < n && sorted[k].row->pipeline == sorted[0].row->pipeline &&
           compare_need(&sorted[k], &sorted[0]) == 0)
        k++;
    return k;
}

/* The longest row that sorted[0..n) begins with: pipelines one after the other, with equally many
 * devices. */
static luo_memory_repeats take_row(const need *sorted, int32_t n)
{
    const int32_t each = count_in_pipeline(sorted, n);
    luo_memory_repeats out = {.first = sorted[0].row, .n = each, .pipelines = 1};
    while (sorted[0].row->pipeline >= 0 && out.n < n &&
           compare_need(&sorted[out.n], &sorted[0]) == 0 &&
           sorted[out.n].row->pipeline == sorted[0].row->pipeline + out.pipelines &&
           count_in_pipeline(&sorted[out.n], n - out.n) == each) {
        out.n += each;
        out.pipelines++;
    }
    return out;
}

luo_status luo_repeats_of_memory(luo_arena *arena, const luo_row_memory *rows, int32_t n,
                                 const int32_t *type, luo_memory_repeats **out, int32_t *nout,
                                 luo_err *err)
{
    need *sorted = LUO_NEW_N(arena, need, n + 1);
    int32_t *device = LUO_NEW_N(arena, int32_t, n + 1);
    luo_memory_repeats *made = LUO_NEW_N(arena, luo_memory_repeats, n + 1);
    if (!sorted || !device || !made) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) sorted[i] = (need){&rows[i], type[i]};
    if (n > LUO_REPEATS_DEVICES) qsort(sorted, (size_t)n, sizeof *sorted, by_need);
    *nout = 0;
    for (int32_t i = 0; i < n; i += made[(*nout)++].n) {
        luo_memory_repeats *row = &made[*nout];
        *row = take_row(&sorted[i], n > LUO_REPEATS_DEVICES ? n - i : 1);
        for (int32_t k = 0; k < row->n; k++) device[i + k] = sorted[i + k].row->device;
        row->device = &device[i];
    }
    if (n > LUO_REPEATS_DEVICES) qsort(made, (size_t)*nout, sizeof *made, by_first_device);
    *out = made;
    return LUO_OK;
}

/* ---- reading ---- */

struct luo_repeats {
    luo_csv *csv;
    luo_table_id id;
    luo_arena *of_row;
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    int64_t n, at;         /* of the row at hand: steps or devices; which one is next */
    const int32_t *device; /* NULL: the row has one device */
    int64_t pipelines;
};

luo_repeats *luo_repeats_open(luo_arena *arena, const char *dir, luo_table_id id, luo_diags *diags)
{
    luo_repeats *repeats = LUO_NEW(arena, luo_repeats);
    if (!repeats) return NULL;
    repeats->id = id;
    repeats->of_row = luo_arena_new(0);
    repeats->csv = luo_result_table(arena, dir, id, diags);
    return repeats;
}

/* Steps of a row; tables without the column have one. False: told. */
static bool count_steps(luo_repeats *repeats, int column)
{
    const luo_csv_cell *cell = &repeats->cells[column];
    repeats->n = cell->given ? cell->whole : 1;
    if (repeats->n >= 1 && repeats->n <= LUO_REPEATS_MOST) return true;
    luo_csv_error(repeats->csv, column, "`steps` is %lld; 1 to %d is expected.",
                  (long long)repeats->n, LUO_REPEATS_MOST);
    return false;
}

static bool count_devices(luo_repeats *repeats)
{
    const luo_csv_cell *cell = &repeats->cells[LUO_COL_MEMORY_devices];
    const luo_csv_cell *pipelines = &repeats->cells[LUO_COL_MEMORY_pipelines];
    luo_err err = {0};
    int32_t *device, n;
    repeats->n = 1;
    repeats->device = NULL;
    repeats->pipelines = pipelines->given ? pipelines->whole : 1;
    if (!cell->given) return true;
    luo_arena_reset(repeats->of_row, 0);
    if (luo_devset_parse(repeats->of_row, cell->text, false, LUO_DEVICES_MAX, &device, &n, &err) !=
        LUO_OK) {
        luo_csv_error(repeats->csv, LUO_COL_MEMORY_devices, "`devices` is `%.60s`: %s", cell->text,
                      err.text);
        return false;
    }
    if (repeats->pipelines < 1 || n == 0 || n % repeats->pipelines != 0) {
        luo_csv_error(repeats->csv, LUO_COL_MEMORY_pipelines,
                      "`pipelines` is %lld, of %d devices; a number that divides them is expected.",
                      (long long)repeats->pipelines, n);
        return false;
    }
    repeats->n = n;
    repeats->device = device;
    return true;
}

static bool count(luo_repeats *repeats)
{
    if (repeats->id == LUO_TABLE_STEPS) return count_steps(repeats, LUO_COL_STEPS_steps);
    if (repeats->id == LUO_TABLE_TIMELINE) return count_steps(repeats, LUO_COL_TIMELINE_steps);
    return count_devices(repeats);
}

/* A file may hold any number, so the sum wraps. */
static void add_whole(luo_csv_cell *cell, int64_t more)
{
    cell->whole = (int64_t)((uint64_t)cell->whole + (uint64_t)more);
    cell->number = (double)cell->whole;
}

/* Where the step at hand begins and ends, among steps of equal length. */
static void place_times(const luo_repeats *repeats, luo_csv_cell *start, luo_csv_cell *end)
{
    const double from_s = start->number, all_s = end->number - from_s;
    const double of = (double)repeats->n;
    start->number = from_s + all_s * ((double)repeats->at / of);
    if (repeats->at + 1 < repeats->n)
        end->number = from_s + all_s * ((double)(repeats->at + 1) / of);
}

static void place(const luo_repeats *repeats, luo_csv_cell *cells)
{
    if (repeats->n == 1) return;
    if (repeats->id == LUO_TABLE_STEPS) {
        add_whole(&cells[LUO_COL_STEPS_step], repeats->at);
        place_times(repeats, &cells[LUO_COL_STEPS_t_start_s], &cells[LUO_COL_STEPS_t_end_s]);
        cells[LUO_COL_STEPS_wall_s].number /= (double)repeats->n;
        return;
    }
    if (repeats->id == LUO_TABLE_TIMELINE) {
        add_whole(&cells[LUO_COL_TIMELINE_step], repeats->at);
        place_times(repeats, &cells[LUO_COL_TIMELINE_t_start_s], &cells[LUO_COL_TIMELINE_t_end_s]);
        return;
    }
    luo_csv_cell *pipeline = &cells[LUO_COL_MEMORY_pipeline];
    cells[LUO_COL_MEMORY_device].whole = repeats->device[repeats->at];
    cells[LUO_COL_MEMORY_device].number = repeats->device[repeats->at];
    if (pipeline->given) add_whole(pipeline, repeats->at / (repeats->n / repeats->pipelines));
    if (repeats->at > 0) cells[LUO_COL_MEMORY_node] = (luo_csv_cell){.text = ""};
}

bool luo_repeats_next(luo_repeats *repeats, luo_csv_cell *cells)
{
    if (!repeats->csv || !repeats->of_row) return false;
    if (++repeats->at >= repeats->n) {
        do
            if (!luo_csv_next(repeats->csv, repeats->cells)) return false;
        while (!count(repeats));
        repeats->at = 0;
    }
    memcpy(cells, repeats->cells, (size_t)luo_table_def_at(repeats->id)->n * sizeof *cells);
    place(repeats, cells);
    return true;
}

luo_csv *luo_repeats_csv(luo_repeats *repeats)
{
    return repeats->csv;
}

luo_status luo_repeats_close(luo_repeats *repeats)
{
    if (!repeats) return LUO_ENOMEM;
    const luo_status st = luo_csv_close(repeats->csv);
    const luo_status made = repeats->of_row ? LUO_OK : LUO_ENOMEM;
    luo_arena_free(repeats->of_row);
    return st == LUO_OK ? made : st;
}
