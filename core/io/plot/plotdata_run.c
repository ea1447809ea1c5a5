/* Tables of one run: gantt, slowdown, busiest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"
#include "core/io/plot/plotdata.h"
#include "core/io/read/input_tables.h"
#include "core/io/result/repeats.h"
#include "core/io/result/table.h"

enum { COLUMNS = 1500, ROWS = 32, LANES = LUO_STREAMS };

static luo_status finish(luo_table *table, luo_status st, luo_err *err, int64_t *rows,
                         luo_diags *diags)
{
    *rows = table->rows;
    const luo_status closed = luo_table_close(table, st == LUO_OK ? err : NULL);
    if (st == LUO_OK) st = closed;
    if (err->st != LUO_OK) luo_diags_err(diags, err);
    return st;
}

/* ---- gantt ---- */

typedef enum slice_kind {
    NONE,
    FORWARD,
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    RECOMPUTE,
    OTHER,
    TP,
    PP,
    DP,
    MOVE,
    IO,
    KINDS
} slice_kind;
static const char *const kind_names[KINDS] = {"",
                                              "forward",
                                              "backward",
                                              "backward-input",
                                              "backward-weight",
                                              "recompute",
                                              "other",
                                              "tp",
                                              "pp",
                                              "dp",
                                              "move",
                                              "io"};

typedef struct slice {
    int32_t row, lane, kind, micro_batch;
    double start_s, end_s;
} slice;

typedef struct gantt {
    slice *at;
    int64_t n, cap;
    struct {
        int32_t pipeline, stage, device;
        bool ideal;
        char node[64]; /* of the device; "": not known */
    } row[ROWS];
    int32_t nrows, most; /* most: that may be there; 0: ROWS */
    bool ideal;          /* rows that are read now */
    luo_map forward;     /* (device, op) seen in a forward task */
    double start_s, end_s;
} gantt;

static int32_t int_or_none(const luo_csv_cell *cells) /* -1: empty */
{
    return cells->given ? (int32_t)cells->whole : -1;
}

/* Row of a device: it stands for its stage, whose first device it is. -1: another does, or there
 * is no room. */
static int32_t row_of(gantt *g, int32_t device, int32_t pipeline, int32_t stage)
{
    for (int32_t i = 0; i < g->nrows; i++)
        if (g->row[i].pipeline == pipeline && g->row[i].stage == stage &&
            g->row[i].ideal == g->ideal)
            return g->row[i].device == device ? i : -1;
    if (g->nrows == (g->most ? g->most : ROWS)) return -1;
    g->row[g->nrows].ideal = g->ideal;
    g->row[g->nrows].pipeline = pipeline;
    g->row[g->nrows].stage = stage;
    g->row[g->nrows].device = device;
    return g->nrows++;
}

static int32_t lane_of(const char *stream)
{
    for (int32_t i = 0; i < LANES; i++)
        if (strcmp(luo_stream_name((luo_stream)i), stream) == 0) return i;
    return 0;
}

/* A forward op met in a backward task is recomputation. */
static slice_kind kind_of(gantt *g, int32_t lane, const char *phase, int64_t device, const char *op)
{
    if (lane > 0) return (slice_kind)(TP + lane - 1);
    const uint64_t key = luo_hash_str(luo_hash_bytes(LUO_HASH_EMPTY, &device, sizeof device), op);
    if (strcmp(phase, "F") == 0) {
        luo_map_at(&g->forward, key, 1);
        return FORWARD;
    }
    slice_kind kind = OTHER;
    if (strcmp(phase, "B") == 0) kind = BACKWARD;
    if (strcmp(phase, "BI") == 0) kind = BACKWARD_INPUT;
    if (strcmp(phase, "BW") == 0) kind = BACKWARD_WEIGHT;
    return kind != OTHER && luo_map_get(&g->forward, key, 0) ? RECOMPUTE : kind;
}

/* Adds a row of ops.csv; false: out of memory. */
static bool add_slice(gantt *g, const luo_csv_cell *cells)
{
    const int64_t device = cells[LUO_COL_OPS_device].whole;
    const double start_s = cells[LUO_COL_OPS_t_start_s].number,
                 end_s = cells[LUO_COL_OPS_t_end_s].number;
    const int32_t row = row_of(g, (int32_t)device, int_or_none(&cells[LUO_COL_OPS_pipeline]),
                               int_or_none(&cells[LUO_COL_OPS_stage]));
    const int32_t lane = lane_of(cells[LUO_COL_OPS_stream].text);
    g->start_s = fmin(g->start_s, start_s);
    g->end_s = fmax(g->end_s, end_s);
    if (row < 0) return true;
    if (!LUO_VEC_ROOM(g->at, g->n, g->cap)) return false;
    const slice_kind kind =
        kind_of(g, lane, cells[LUO_COL_OPS_phase].text, device, cells[LUO_COL_OPS_op].text);
    g->at[g->n++] = (slice){
        row, lane, (int32_t)kind, int_or_none(&cells[LUO_COL_OPS_micro_batch]), start_s, end_s};
    return true;
}

typedef struct step_choice {
    int64_t step;   /* -1: any */
    bool by_plan;   /* only steps of a plan: */
    luo_map steps;  /* hash of step and attempt: 1 if the plan is theirs */
    int64_t last;   /* that was met; -1: none */
    luo_str traced; /* "0, 388, 389": steps met */
} step_choice;

static uint64_t key_of_step(int64_t step, int64_t attempt)
{
    const int64_t both[] = {step, attempt};
    return luo_hash_bytes(LUO_HASH_EMPTY, both, sizeof both);
}

static luo_status read_steps_of_plan(luo_arena *arena, const luo_result *run, int64_t plan,
                                     step_choice *choice, luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(arena, run->dir, LUO_TABLE_STEPS, diags);
    choice->by_plan = true;
    while (rows && luo_repeats_next(rows, cell))
        if (cell[LUO_COL_STEPS_plan].whole == plan)
            luo_map_at(
                &choice->steps,
                key_of_step(cell[LUO_COL_STEPS_step].whole, cell[LUO_COL_STEPS_attempt].whole), 1);
    return luo_repeats_close(rows);
}

static bool is_chosen(step_choice *choice, int64_t step, int64_t attempt)
{
    enum { MOST = 200 }; /* bytes of the list */
    if (step != choice->last && choice->traced.len < MOST)
        luo_str_addf(&choice->traced, "%s%lld", choice->traced.len ? ", " : "", (long long)step);
    else if (step != choice->last && choice->traced.len < MOST + 4)
        luo_str_add(&choice->traced, " ..  ");
    choice->last = step;
    return (choice->step < 0 || choice->step == step) &&
           (!choice->by_plan || luo_map_get(&choice->steps, key_of_step(step, attempt), 0));
}

/* Slices of the first step of the file that is chosen; its rows stand together. */
static luo_status read_ops(luo_arena *arena, const luo_result *run, step_choice *choice, gantt *g,
                           luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_table(arena, run->dir, LUO_TABLE_OPS, diags);
    bool ok = true, met = false, chosen = false;
    int64_t step = 0, attempt = 0;
    while (ok && csv && luo_csv_next(csv, cell)) {
        const bool same = met && cell[LUO_COL_OPS_step].whole == step &&
                          cell[LUO_COL_OPS_attempt].whole == attempt;
        if (!same && chosen) break;
        if (!same) {
            met = true;
            step = cell[LUO_COL_OPS_step].whole;
            attempt = cell[LUO_COL_OPS_attempt].whole;
            chosen = is_chosen(choice, step, attempt);
            g->start_s = cell[LUO_COL_OPS_t_start_s].number;
        }
        if (chosen) ok = add_slice(g, cell);
    }
    const luo_status st = luo_csv_close(csv);
    return ok ? st : LUO_ENOMEM;
}

static void name_node(gantt *g, int64_t device, const char *node)
{
    for (int32_t i = 0; i < g->nrows; i++)
        if (g->row[i].device == device && !g->row[i].node[0])
            snprintf(g->row[i].node, sizeof g->row[i].node, "%s", node);
}

/* Names the nodes of the devices that are drawn, if the run says which they are: memory.csv is
 * there from the beginning, but of devices that share a row it names the first one's alone. */
static luo_status read_nodes(luo_arena *arena, const luo_result *run, gantt *g, luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    if (luo_result_has(run->dir, luo_table_def_at(LUO_TABLE_MEMORY)->file)) {
        luo_repeats *rows = luo_repeats_open(arena, run->dir, LUO_TABLE_MEMORY, diags);
        while (rows && luo_repeats_next(rows, cell))
            name_node(g, cell[LUO_COL_MEMORY_device].whole, cell[LUO_COL_MEMORY_node].text);
        LUO_TRY(luo_repeats_close(rows));
    }
    if (!luo_result_has(run->dir, luo_table_def_at(LUO_TABLE_DEVICES)->file)) return LUO_OK;
    luo_csv *csv = luo_result_table(arena, run->dir, LUO_TABLE_DEVICES, diags);
    while (csv && luo_csv_next(csv, cell))
        name_node(g, cell[LUO_COL_DEVICES_device].whole, cell[LUO_COL_DEVICES_node].text);
    return luo_csv_close(csv);
}

typedef struct pixel {
    double covered[KINDS];
    int32_t micro_batch[KINDS];
} pixel;

static void cover(pixel *px, double start_s, double width_s, const slice *s)
{
    const double a = (s->start_s - start_s) / width_s, b = (s->end_s - start_s) / width_s;
    for (int k = (int)a; k < COLUMNS && k < b; k++) {
        const double lo = fmax(a, k), hi = fmin(b, k + 1);
        if (hi <= lo) continue;
        px[k].covered[s->kind] += hi - lo;
        px[k].micro_batch[s->kind] = s->micro_batch;
    }
}

typedef struct shade { /* what is drawn in a column */
    slice_kind kind;
    int quarters; /* of the time, 1..4 */
    int32_t micro_batch;
} shade;

/* What alternates faster than the eye follows is drawn as what covers most of it: the kind is that
 * of seven columns. */
static shade shade_at(const pixel *px, int at)
{
    enum { REACH = 3 };
    double sum[KINDS] = {0};
    int n = 0;
    shade s = {NONE, 0, -1};
    for (int i = at - REACH; i <= at + REACH; i++) {
        if (i < 0 || i >= COLUMNS) continue;
        n++;
        for (int k = 1; k < KINDS; k++) sum[k] += px[i].covered[k];
    }
    double all = 0, here = 0;
    for (int k = 1; k < KINDS; k++) {
        if (sum[k] > sum[s.kind]) s.kind = (slice_kind)k;
        all += sum[k];
        here += px[at].covered[k];
    }
    s.quarters = (int)ceil(4 * fmin(all / n, 1) - 0.5);
    if (s.kind == NONE || s.quarters < 1 || (here <= 0 && all < 0.5 * n))
        return (shade){NONE, 0, -1};
    s.micro_batch = px[at].covered[s.kind] > 0 ? px[at].micro_batch[s.kind] : -2;
    return s;
}

static bool same_shade(shade *a, const shade *b)
{
    if (a->kind != b->kind || a->quarters != b->quarters) return false;
    if (a->micro_batch == -2) a->micro_batch = b->micro_batch; /* not seen in its first columns */
    return b->micro_batch == -2 || a->micro_batch == b->micro_batch;
}

static void name_of(const gantt *g, int32_t row, char *out, size_t size)
{
    const char *node = g->row[row].node;
    const int32_t device = g->row[row].device;
    char of[80] = "";
    if (*node) snprintf(of, sizeof of, " %s", node);
    if (g->row[row].pipeline < 0)
        snprintf(out, size, "dev %d%s", device, of);
    else if (device < 0) /* recorded */
        snprintf(out, size, "p%d s%d%s", g->row[row].pipeline, g->row[row].stage,
                 g->row[row].ideal ? " ideal" : "");
    else
        snprintf(out, size, *node ? "p%d s%d dev %d%s" : "p%d s%d (dev %d)%s", g->row[row].pipeline,
                 g->row[row].stage, device, of);
}

/* Runs of equal columns of one lane as rows of the table. */
static luo_status put_lane(luo_table *table, const gantt *g, int32_t position, int32_t row,
                           int32_t lane, const pixel *px, luo_err *err)
{
    const double width_s = (g->end_s - g->start_s) / COLUMNS;
    char name[128];
    name_of(g, row, name, sizeof name);
    for (int i = 0, j; i < COLUMNS; i = j) {
        shade s = shade_at(px, i), next;
        for (j = i + 1; j < COLUMNS && (next = shade_at(px, j), same_shade(&s, &next));) j++;
        if (s.kind == NONE) continue;
        luo_table_int(table, LUO_COL_PLOT_GANTT_row, position);
        luo_table_text(table, LUO_COL_PLOT_GANTT_name, name);
        luo_table_int(table, LUO_COL_PLOT_GANTT_lane, lane);
        luo_table_text(table, LUO_COL_PLOT_GANTT_kind, kind_names[s.kind]);
        luo_table_int_opt(table, LUO_COL_PLOT_GANTT_micro_batch, s.micro_batch);
        luo_table_num(table, LUO_COL_PLOT_GANTT_t_start_s, g->start_s + i * width_s);
        luo_table_num(table, LUO_COL_PLOT_GANTT_t_end_s, g->start_s + j * width_s);
        luo_table_num(table, LUO_COL_PLOT_GANTT_covered_ratio, s.quarters / 4.0);
        LUO_TRY(luo_table_end(table, err));
    }
    return LUO_OK;
}

static luo_status put_gantt(luo_arena *arena, luo_table *table, const gantt *g, luo_err *err)
{
    pixel *px = LUO_NEW_N(arena, pixel, COLUMNS);
    int32_t order[ROWS];
    if (!px) return luo_err_nomem(err);
    for (int32_t i = 0; i < g->nrows; i++) { /* by pipeline, then stage */
        int32_t k = i;
        for (; k > 0; k--) {
            const int32_t a = order[k - 1];
            if (g->row[a].pipeline < g->row[i].pipeline ||
                (g->row[a].pipeline == g->row[i].pipeline && g->row[a].stage <= g->row[i].stage))
                break;
            order[k] = a;
        }
        order[k] = i;
    }
    for (int32_t p = 0; p < g->nrows; p++) {
        for (int32_t lane = 0; lane < LANES; lane++) {
            memset(px, 0, COLUMNS * sizeof *px);
            for (int64_t i = 0; i < g->n; i++)
                if (g->at[i].row == order[p] && g->at[i].lane == lane)
                    cover(px, g->start_s, (g->end_s - g->start_s) / COLUMNS, &g->at[i]);
            LUO_TRY(put_lane(table, g, p, order[p], lane, px, err));
        }
    }
    return LUO_OK;
}

/* Writes the table, unless st says that nothing was read. */
static luo_status write_gantt(luo_arena *arena, gantt *g, luo_status st, const char *out,
                              int64_t *rows, luo_diags *diags)
{
    luo_table table = {0};
    luo_err err = {0};
    if (st == LUO_OK)
        st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_PLOT_GANTT), &err);
    if (st == LUO_OK && g->end_s > g->start_s) st = put_gantt(arena, &table, g, &err);
    free(g->at);
    luo_map_free(&g->forward);
    return finish(&table, st, &err, rows, diags);
}

luo_status luo_plotdata_gantt(luo_arena *arena, const luo_result *run, int64_t step, int64_t plan,
                              const char *out, int64_t *rows, luo_diags *diags)
{
    gantt g = {0};
    step_choice choice = {.step = step, .last = -1};
    luo_status st = LUO_OK;
    if (plan >= 0) st = read_steps_of_plan(arena, run, plan, &choice, diags);
    if (st == LUO_OK) st = read_ops(arena, run, &choice, &g, diags);
    if (st == LUO_OK) st = read_nodes(arena, run, &g, diags);
    if (st == LUO_OK && g.n == 0 && (step >= 0 || plan >= 0))
        luo_diags_add(diags, LUO_WARNING, LUO_OK, NULL, 0, 0,
                      "`%s` holds no trace of such a step; traced are %s.", run->dir,
                      choice.traced.len ? luo_str_get(&choice.traced) : "none");
    luo_map_free(&choice.steps);
    luo_str_free(&choice.traced);
    return write_gantt(arena, &g, st, out, rows, diags);
}

/* Adds a row of recorded.csv; false: out of memory. */
static bool add_recorded(gantt *g, const luo_csv_cell *cell)
{
    const char *op = cell[LUO_RE_OP].text;
    const double start_s = cell[LUO_RE_START].number,
                 end_s = start_s + cell[LUO_RE_DURATION].number;
    const int32_t row =
        row_of(g, -1, (int32_t)cell[LUO_RE_PIPELINE].whole, (int32_t)cell[LUO_RE_STAGE].whole);
    const int32_t lane = lane_of(cell[LUO_RE_LANE].text);
    int32_t kind = OTHER;
    if (lane > 0)
        kind = TP + lane - 1;
    else if (strcmp(op, "forward-compute") == 0)
        kind = FORWARD;
    else if (strcmp(op, "backward-compute") == 0)
        kind = BACKWARD;
    g->start_s = g->n ? fmin(g->start_s, start_s) : start_s;
    g->end_s = fmax(g->end_s, end_s);
    if (row < 0) return true;
    if (!LUO_VEC_ROOM(g->at, g->n, g->cap)) return false;
    g->at[g->n++] =
        (slice){row, lane, kind, (int32_t)cell[LUO_RE_MICRO_BATCH].whole, start_s, end_s};
    return true;
}

static luo_status read_recorded(const char *path, gantt *g, luo_diags *diags)
{
    luo_csv_cell cell[LUO_RE_N];
    int64_t step = -1;
    bool ok = true;
    luo_csv *csv = luo_csv_open_path(path, luo_input_table_recorded.columns,
                                     luo_input_table_recorded.n, diags);
    while (ok && luo_csv_next(csv, cell)) {
        if (step >= 0 && cell[LUO_RE_STEP].whole != step) break;
        step = cell[LUO_RE_STEP].whole;
        ok = add_recorded(g, cell);
    }
    const luo_status st = luo_csv_close(csv);
    return ok ? st : LUO_ENOMEM;
}

luo_status luo_plotdata_recorded(luo_arena *arena, const char *path, const char *ideal,
                                 const char *out, int64_t *rows, luo_diags *diags)
{
    gantt g = {.most = ideal ? ROWS / 2 : ROWS};
    luo_status st = read_recorded(path, &g, diags);
    g.ideal = true;
    g.most = ROWS;
    if (st == LUO_OK && ideal) st = read_recorded(ideal, &g, diags);
    return write_gantt(arena, &g, st, out, rows, diags);
}

/* ---- slowdown ---- */

typedef struct place {
    int32_t pipeline, stage;
    double slowdown; /* < 0: none */
} place;

/* Pipeline and stage of every device in plan 0. */
static luo_status read_places(luo_arena *arena, const luo_result *run, place **out, int32_t *n,
                              luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(arena, run->dir, LUO_TABLE_MEMORY, diags);
    int32_t cap = 0;
    bool ok = true;
    *n = 0;
    while (ok && rows && luo_repeats_next(rows, cell)) {
        const int64_t d = cell[LUO_COL_MEMORY_device].whole;
        if (cell[LUO_COL_MEMORY_plan].whole != 0 || d < 0 || d >= INT32_MAX / 2) continue;
        if (d >= cap) {
            const int32_t more = d < 64 ? 128 : 2 * (int32_t)d;
            place *grown = luo_arena_grow(arena, *out, (size_t)cap * sizeof *grown,
                                          (size_t)more * sizeof *grown);
            ok = grown != NULL;
            if (!ok) break;
            *out = grown;
            cap = more;
        }
        for (; *n <= d; ++*n) (*out)[*n] = (place){-1, -1, -1};
        (*out)[d].pipeline = int_or_none(&cell[LUO_COL_MEMORY_pipeline]);
        (*out)[d].stage = int_or_none(&cell[LUO_COL_MEMORY_stage]);
    }
    const luo_status st = luo_repeats_close(rows);
    return ok ? st : LUO_ENOMEM;
}

static luo_status read_slowdowns(luo_arena *arena, const luo_result *run, place *at, int32_t n,
                                 luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_table(arena, run->dir, LUO_TABLE_DEVICES, diags);
    while (csv && luo_csv_next(csv, cell)) {
        const luo_csv_cell *caused = &cell[LUO_COL_DEVICES_caused_slowdown];
        const int64_t device = cell[LUO_COL_DEVICES_device].whole;
        if (caused->given && device >= 0 && device < n) at[device].slowdown = caused->number;
    }
    return luo_csv_close(csv);
}

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->pipeline != y->pipeline) return x->pipeline < y->pipeline ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return (x->slowdown < y->slowdown) - (x->slowdown > y->slowdown); /* largest first */
}

static bool is_any_slow(const place *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i].stage >= 0 && at[i].slowdown >= 1.0005) return true;
    return false;
}

luo_status luo_plotdata_slowdown(luo_arena *arena, const luo_result *run, const char *out,
                                 int64_t *rows, luo_diags *diags)
{
    place *at = NULL;
    int32_t n;
    luo_table table = {0};
    luo_err err = {0};
    luo_status st = read_places(arena, run, &at, &n, diags);
    if (st == LUO_OK) st = read_slowdowns(arena, run, at, n, diags);
    if (st == LUO_OK)
        st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_PLOT_SLOWDOWN), &err);
    if (st == LUO_OK && n > 0) qsort(at, (size_t)n, sizeof *at, by_place);
    for (int32_t i = 0; st == LUO_OK && is_any_slow(at, n) && i < n; i++) {
        if (at[i].stage < 0 || at[i].slowdown < 0) continue;
        if (i > 0 && at[i].pipeline == at[i - 1].pipeline && at[i].stage == at[i - 1].stage)
            continue;
        luo_table_int(&table, LUO_COL_PLOT_SLOWDOWN_pipeline, at[i].pipeline);
        luo_table_int(&table, LUO_COL_PLOT_SLOWDOWN_stage, at[i].stage);
        luo_table_num(&table, LUO_COL_PLOT_SLOWDOWN_caused_slowdown, at[i].slowdown);
        st = luo_table_end(&table, &err);
    }
    return finish(&table, st, &err, rows, diags);
}

luo_status luo_plotdata_attributed(luo_arena *arena, const char *dir, const char *out,
                                   int64_t *rows, luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_table table = {0};
    luo_err err = {0};
    luo_status st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_PLOT_SLOWDOWN), &err);
    luo_csv *csv = luo_result_table(arena, dir, LUO_TABLE_ATTRIBUTION, diags);
    while (st == LUO_OK && csv && luo_csv_next(csv, cell)) {
        if (strcmp(cell[LUO_COL_ATTRIBUTION_by].text, "worker") != 0 ||
            !cell[LUO_COL_ATTRIBUTION_slowdown].given)
            continue;
        luo_table_int(&table, LUO_COL_PLOT_SLOWDOWN_pipeline,
                      cell[LUO_COL_ATTRIBUTION_pipeline].whole);
        luo_table_int(&table, LUO_COL_PLOT_SLOWDOWN_stage, cell[LUO_COL_ATTRIBUTION_stage].whole);
        luo_table_num(&table, LUO_COL_PLOT_SLOWDOWN_caused_slowdown,
                      cell[LUO_COL_ATTRIBUTION_slowdown].number);
        st = luo_table_end(&table, &err);
    }
    const luo_status closed = luo_csv_close(csv);
    return finish(&table, st == LUO_OK ? closed : st, &err, rows, diags);
}

/* ---- busiest ---- */

static const char *const classes[] = {LUO_LINK_CLASS_LIST(LUO_WORD_TEXT) LUO_LINK_CLASS_STORAGE};
enum { CLASSES = sizeof classes / sizeof *classes, OF_CLASS = 6 };

typedef struct link_use {
    char name[64];
    int64_t bytes, line;
    double ratio;
} link_use;

static bool before(const link_use *a, const link_use *b)
{
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->line < b->line;
}

typedef struct class_top {
    link_use at[OF_CLASS + 1];
    int n;
} class_top;

static void offer(class_top *top, const link_use *use)
{
    int k = top->n;
    for (; k > 0 && before(use, &top->at[k - 1]); k--) top->at[k] = top->at[k - 1];
    top->at[k] = *use;
    if (top->n < OF_CLASS) top->n++;
}

static luo_status read_links(luo_arena *arena, const luo_result *run, class_top *top,
                             luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_csv *in = luo_result_table(arena, run->dir, LUO_TABLE_LINKS, diags);
    for (int64_t line = 0; in && luo_csv_next(in, cell); line++) {
        const luo_csv_cell *ratio = &cell[LUO_COL_LINKS_utilisation_ratio];
        link_use use = {.bytes = cell[LUO_COL_LINKS_bytes].whole,
                        .line = line,
                        .ratio = ratio->given ? ratio->number : NAN};
        if (use.bytes <= 0) continue;
        snprintf(use.name, sizeof use.name, "%s", cell[LUO_COL_LINKS_link].text);
        for (int k = 0; k < CLASSES; k++)
            if (strcmp(cell[LUO_COL_LINKS_class].text, classes[k]) == 0) offer(&top[k], &use);
    }
    return luo_csv_close(in);
}

luo_status luo_plotdata_busiest(luo_arena *arena, const luo_result *run, const char *out,
                                int64_t *rows, luo_diags *diags)
{
    class_top top[CLASSES] = {{.n = 0}};
    luo_table table = {0};
    luo_err err = {0};
    luo_status st = read_links(arena, run, top, diags);
    if (st == LUO_OK)
        st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_PLOT_BUSIEST), &err);
    for (int k = 0; k < CLASSES; k++)
        for (int i = 0; st == LUO_OK && i < top[k].n; i++) {
            luo_table_int(&table, LUO_COL_PLOT_BUSIEST_rank, table.rows);
            luo_table_text(&table, LUO_COL_PLOT_BUSIEST_link, top[k].at[i].name);
            luo_table_text(&table, LUO_COL_PLOT_BUSIEST_class, classes[k]);
            luo_table_int(&table, LUO_COL_PLOT_BUSIEST_bytes, top[k].at[i].bytes);
            luo_table_num(&table, LUO_COL_PLOT_BUSIEST_utilisation_ratio, top[k].at[i].ratio);
            st = luo_table_end(&table, &err);
        }
    return finish(&table, st, &err, rows, diags);
}
