#include "core/io/trace/trace_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/devset.h"
#include "core/base/hash.h"
#include "core/base/quantity.h"
#include "core/base/vec.h"
#include "core/base/words.h"
#include "core/io/result/repeats.h"
#include "core/io/result/result.h"
#include "core/io/trace/trace_cluster.h"

/* One row of ops.csv; texts are numbers of the string table of ops. */
typedef struct op_row {
    int64_t seq, step, instruction, micro_batch, bytes;
    int32_t attempt, device, pipeline, stage, layer, op;
    uint8_t stream, phase, kind;
    int32_t npeers;
    const int32_t *peer;
    double start_s, end_s;
    luo_status status;
} op_row;

typedef struct span { /* of a step, by steps.csv */
    double start_s, end_s;
} span;

typedef struct table {
    luo_arena *arena, *of_step;
    luo_diags *diags;
    const char *dir, *file;
    luo_csv *csv;
    luo_trace *trace;
    luo_op_info *ops;
    luo_map op_of; /* hash of a name to 1 + its number */
    int32_t nops, cap_ops;
    op_row *row; /* of the step at hand */
    int64_t n, cap;
    luo_map step_of; /* (step, attempt) to 1 + its number in `step` */
    span *step;
    int64_t nsteps, cap_steps;
} table;

static luo_status nomem(const table *t)
{
    luo_err err;
    luo_err_nomem(&err);
    return luo_diags_err(t->diags, &err);
}

/* ---- words of cells ---- */

static const char *stream_word(int i)
{
    return i < LUO_STREAMS ? luo_stream_name((luo_stream)i) : NULL;
}

static const char *phase_word(int i)
{
    return i < LUO_PHASES ? luo_phase_name((luo_phase)i) : NULL;
}

static const char *kind_word(int i)
{
    return i <= LUO_INSTR_IO ? luo_instr_kind_name((luo_instr_kind)i) : NULL;
}

static const char *span_word(int i)
{
    return i < LUO_SPAN_KINDS ? luo_span_kind_name((luo_span_kind)i) : NULL;
}

static const char *happened_word(int i)
{
    return i <= LUO_EVENT_PHASE_NEVER ? luo_event_phase_name((luo_event_phase)i) : NULL;
}

/* Number of the word of a cell; a word that is none is an error of the row, and 0. */
static int word_of(table *t, const luo_csv_cell *cells, int column, const char *name,
                   const char *(*word)(int))
{
    enum { WORDS = 16 };
    const char *words[WORDS];
    int n = 0;
    for (; n < WORDS && (words[n] = word(n)); n++)
        if (strcmp(words[n], cells[column].text) == 0) return n;
    luo_str expected = {0};
    luo_words_expected(&expected, cells[column].text, words, n);
    luo_csv_error(t->csv, column, "`%s` is `%.40s`; %s", name, cells[column].text,
                  luo_str_get(&expected));
    luo_str_free(&expected);
    return 0;
}

static luo_status status_of(const char *name)
{
    return strcmp(name, luo_status_name(LUO_OK)) == 0 ? LUO_OK : LUO_EPEER;
}

/* Number of an op by name; -1: it has none, or out of memory. */
static int32_t op_of(table *t, const char *name)
{
    if (!*name) return -1;
    for (uint64_t key = luo_hash_str(LUO_HASH_EMPTY, name);; key++) {
        int64_t *at = luo_map_at(&t->op_of, key, 0);
        if (!at) return -1;
        if (*at && strcmp(t->ops[*at - 1].name, name) != 0) continue;
        if (*at) return (int32_t)(*at - 1);
        if (!LUO_VEC_ROOM(t->ops, t->nops, t->cap_ops)) return -1;
        t->ops[t->nops] = (luo_op_info){luo_arena_strdup(t->arena, name), LUO_OP_KINDS, -1};
        if (!t->ops[t->nops].name) return -1;
        *at = ++t->nops;
        return t->nops - 1;
    }
}

/* ---- a step as programs and records ---- */

static int in_issue_order(const void *a, const void *b)
{
    const op_row *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* What one device runs: an instruction a number, a task a row. A forward op met in a backward task
 * is recomputation. */
typedef struct device_part {
    luo_program program;
    luo_role role;
} device_part;

static bool fill_message(table *t, const op_row *row, luo_instr *in, luo_slot *slot)
{
    luo_message *message = LUO_NEW_N(t->of_step, luo_message, row->npeers);
    if (!message) return false;
    for (int32_t i = 0; i < row->npeers; i++)
        message[i] = (luo_message){.peer = row->peer[i], .send = row->bytes > 0};
    *slot = (luo_slot){.group = -1, .nmessage = row->npeers, .message = message};
    in->slot = in->id;
    return true;
}

/* Rows row[0..n) are one device's. */
static bool make_part(table *t, const op_row *row, int64_t n, int32_t role, device_part *out)
{
    int64_t most = 0;
    for (int64_t k = 0; k < n; k++)
        if (row[k].instruction > most) most = row[k].instruction;
    luo_instr *in = LUO_NEW_N(t->of_step, luo_instr, most + 1);
    luo_slot *slot = LUO_NEW_N(t->of_step, luo_slot, most + 1);
    luo_run_task *task = LUO_NEW_N(t->of_step, luo_run_task, n);
    luo_segment *seg = LUO_NEW(t->of_step, luo_segment);
    bool *forward = LUO_NEW_N(t->of_step, bool, t->nops + 1);
    if (!in || !slot || !task || !seg || !forward) return false;
    for (int64_t k = 0; k < n; k++)
        if (row[k].op >= 0 && row[k].phase == LUO_PHASE_F) forward[row[k].op] = true;
    for (int64_t k = 0; k < n; k++) {
        const op_row *r = &row[k];
        luo_instr *one = &in[r->instruction];
        *one = (luo_instr){.id = (int32_t)r->instruction,
                           .kind = r->kind,
                           .stream = r->stream,
                           .phase = r->phase,
                           .coll = LUO_COLLS, /* the table does not say which */
                           .op = r->op,
                           .recompute =
                               r->op >= 0 && forward[r->op] && luo_phase_is_backward(r->phase),
                           .exchange = -1,
                           .layer = r->layer,
                           .slot = -1,
                           .bytes = r->bytes};
        task[k] = (luo_run_task){0, (int32_t)r->micro_batch};
        if (r->kind == LUO_INSTR_P2P && !fill_message(t, r, one, &slot[r->instruction]))
            return false;
    }
    *seg = (luo_segment){.n = (int32_t)most + 1};
    out->role = (luo_role){.ninstr = (int32_t)most + 1,
                           .nseg = 1,
                           .nslot = (int32_t)most + 1,
                           .instr = in,
                           .seg = seg};
    out->program = (luo_program){.device = row->device,
                                 .pipeline = row->pipeline,
                                 .stage = row->stage,
                                 .role = role,
                                 .ntask = (int32_t)n,
                                 .tasks = task,
                                 .slots = slot};
    return true;
}

static span span_of(const table *t)
{
    const int64_t key[] = {t->row[0].step, t->row[0].attempt};
    const int64_t at = luo_map_get(&t->step_of, luo_hash_bytes(LUO_HASH_EMPTY, key, sizeof key), 0);
    if (at) return t->step[at - 1];
    span whole = {t->row[0].start_s, t->row[0].end_s};
    for (int64_t k = 1; k < t->n; k++) {
        if (t->row[k].start_s < whole.start_s) whole.start_s = t->row[k].start_s;
        if (t->row[k].end_s > whole.end_s) whole.end_s = t->row[k].end_s;
    }
    return whole;
}

static int32_t count_devices(const table *t)
{
    int32_t n = t->n > 0;
    for (int64_t k = 1; k < t->n; k++) n += t->row[k].device != t->row[k - 1].device;
    return n;
}

/* Hands the rows of one attempt of a step to the trace. */
static luo_status draw_step(table *t)
{
    luo_err err = {0};
    if (t->n == 0) return LUO_OK;
    qsort(t->row, (size_t)t->n, sizeof *t->row, in_issue_order);
    const int32_t ndevices = count_devices(t);
    const span whole = span_of(t);
    luo_program *program = LUO_NEW_N(t->of_step, luo_program, ndevices);
    luo_role *role = LUO_NEW_N(t->of_step, luo_role, ndevices);
    luo_op_record *record = LUO_NEW_N(t->of_step, luo_op_record, t->n);
    if (!program || !role || !record) return nomem(t);
    int32_t d = 0;
    for (int64_t k = 0, next; k < t->n; k = next, d++) {
        device_part part;
        for (next = k + 1; next < t->n && t->row[next].device == t->row[k].device;) next++;
        if (!make_part(t, &t->row[k], next - k, d, &part)) return nomem(t);
        program[d] = part.program;
        role[d] = part.role;
        for (int64_t i = k; i < next; i++)
            record[i] = (luo_op_record){.device = t->row[i].device,
                                        .task = (int32_t)(i - k),
                                        .instr = (int32_t)t->row[i].instruction,
                                        .start_s = t->row[i].start_s - whole.start_s,
                                        .end_s = t->row[i].end_s - whole.start_s,
                                        .status = t->row[i].status};
    }
    const luo_programs set = {.n = ndevices,
                              .at = program,
                              .nroles = ndevices,
                              .roles = role,
                              .nops = t->nops,
                              .ops = t->ops};
    const luo_step_result result = {.end_s = whole.end_s - whole.start_s,
                                    .n = ndevices,
                                    .nrecords = (int32_t)t->n,
                                    .records = record};
    const luo_status st = luo_trace_step(t->trace, t->row[0].step, t->row[0].attempt, whole.start_s,
                                         &set, &result, &err);
    luo_arena_reset(t->of_step, 0);
    t->n = 0;
    return st == LUO_OK ? LUO_OK : luo_diags_err(t->diags, &err);
}

/* ---- rows ---- */

/* Columns that a table has to have. */
static luo_status check_columns(table *t, luo_table_id id)
{
    const luo_table_def *def = luo_table_def_at(id);
    for (int32_t i = 0; i < def->n; i++)
        if (def->columns[i].empty == LUO_CELL_FILLED && !luo_csv_has(t->csv, i))
            return luo_csv_error(t->csv, i, "there is no column `%s`, which %s has.",
                                 def->columns[i].name, def->file);
    return LUO_OK;
}

static luo_csv *open_table(table *t, const char *file, luo_table_id id)
{
    t->csv = luo_result_file(t->arena, t->dir, file, id, t->diags);
    return t->csv;
}

/* Of a table whose rows may stand for several. */
static luo_repeats *open_repeats(table *t, luo_table_id id)
{
    luo_repeats *rows = luo_repeats_open(t->arena, t->dir, id, t->diags);
    t->csv = rows ? luo_repeats_csv(rows) : NULL;
    return rows;
}

static int32_t whole_or_none(const luo_csv_cell *cell)
{
    return cell->given ? (int32_t)cell->whole : -1;
}

static bool within(table *t, int column, const char *name, double v, double lo, double hi)
{
    if (v >= lo && v <= hi) return true;
    luo_csv_error(t->csv, column, "`%s` is %g; %g to %g is expected.", name, v, lo, hi);
    return false;
}

static bool time_of(table *t, const luo_csv_cell *cells, int column, const char *name, double *out)
{
    *out = cells[column].number;
    return within(t, column, name, *out, 0, luo_quantity_at(LUO_Q_RUN_TIME)->highest);
}

/* "3" or "[0-3,7]". */
static luo_status read_peers(table *t, const luo_csv_cell *cell, op_row *row)
{
    luo_err err = {0};
    int32_t *peer;
    if (!cell->given || row->kind != LUO_INSTR_P2P) return LUO_OK;
    if (luo_devset_parse(t->of_step, cell->text, true, LUO_DEVICES_MAX, &peer, &row->npeers,
                         &err) != LUO_OK)
        return luo_csv_error(t->csv, LUO_COL_OPS_peer, "`peer` is `%.60s`: %s", cell->text,
                             err.text);
    row->peer = peer;
    return LUO_OK;
}

static luo_status read_op(table *t, const luo_csv_cell *cell)
{
    enum { INSTRUCTIONS = 1 << 24 };
    op_row row = {.seq = cell[LUO_COL_OPS_seq].whole,
                  .step = cell[LUO_COL_OPS_step].whole,
                  .attempt = (int32_t)cell[LUO_COL_OPS_attempt].whole,
                  .device = (int32_t)cell[LUO_COL_OPS_device].whole,
                  .instruction = cell[LUO_COL_OPS_instruction].whole,
                  .micro_batch = whole_or_none(&cell[LUO_COL_OPS_micro_batch]),
                  .bytes = cell[LUO_COL_OPS_bytes].whole,
                  .pipeline = whole_or_none(&cell[LUO_COL_OPS_pipeline]),
                  .stage = whole_or_none(&cell[LUO_COL_OPS_stage]),
                  .layer = whole_or_none(&cell[LUO_COL_OPS_layer]),
                  .op = op_of(t, cell[LUO_COL_OPS_op].text),
                  .status = status_of(cell[LUO_COL_OPS_status].text)};
    row.stream = (uint8_t)word_of(t, cell, LUO_COL_OPS_stream, "stream", stream_word);
    row.phase = (uint8_t)word_of(t, cell, LUO_COL_OPS_phase, "phase", phase_word);
    row.kind = (uint8_t)word_of(t, cell, LUO_COL_OPS_kind, "kind", kind_word);
    if (!within(t, LUO_COL_OPS_device, "device", cell[LUO_COL_OPS_device].number, 0,
                LUO_DEVICES_MAX - 1) ||
        !within(t, LUO_COL_OPS_instruction, "instruction", cell[LUO_COL_OPS_instruction].number, 0,
                INSTRUCTIONS) ||
        !time_of(t, cell, LUO_COL_OPS_t_start_s, "t_start_s", &row.start_s) ||
        !time_of(t, cell, LUO_COL_OPS_t_end_s, "t_end_s", &row.end_s))
        return LUO_OK; /* told; the table's status has it */
    if (t->n > 0 && (t->row[0].step != row.step || t->row[0].attempt != row.attempt))
        LUO_TRY(draw_step(t));
    LUO_TRY(read_peers(t, &cell[LUO_COL_OPS_peer], &row));
    if (!LUO_VEC_ROOM(t->row, t->n, t->cap)) return nomem(t);
    t->row[t->n++] = row;
    return LUO_OK;
}

static luo_status read_ops(table *t)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_status st = LUO_OK;
    if (!open_table(t, t->file, LUO_TABLE_OPS)) return nomem(t);
    bool first = true;
    while (st == LUO_OK && luo_csv_next(t->csv, cells)) {
        if (first) st = check_columns(t, LUO_TABLE_OPS);
        first = false;
        if (st == LUO_OK) st = read_op(t, cells);
    }
    const luo_status closed = luo_csv_close(t->csv);
    if (st == LUO_OK) st = closed;
    return st == LUO_OK ? draw_step(t) : st;
}

static luo_status read_steps(table *t)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    const char *file = luo_table_def_at(LUO_TABLE_STEPS)->file;
    bool ok = true;
    if (!luo_result_has(t->dir, file)) return LUO_OK;
    luo_repeats *rows = open_repeats(t, LUO_TABLE_STEPS);
    if (!rows) return nomem(t);
    while (ok && luo_repeats_next(rows, cells)) {
        const int64_t key[] = {cells[LUO_COL_STEPS_step].whole, cells[LUO_COL_STEPS_attempt].whole};
        int64_t *at = luo_map_at(&t->step_of, luo_hash_bytes(LUO_HASH_EMPTY, key, sizeof key), 0);
        ok = at && LUO_VEC_ROOM(t->step, t->nsteps, t->cap_steps);
        span one;
        if (!ok || !time_of(t, cells, LUO_COL_STEPS_t_start_s, "t_start_s", &one.start_s) ||
            !time_of(t, cells, LUO_COL_STEPS_t_end_s, "t_end_s", &one.end_s))
            continue;
        t->step[t->nsteps++] = one;
        *at = t->nsteps;
    }
    const luo_status closed = luo_repeats_close(rows);
    return ok ? closed : nomem(t);
}

static luo_status read_spans(table *t)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    const char *file = luo_table_def_at(LUO_TABLE_TIMELINE)->file;
    luo_err err = {0};
    luo_status st = LUO_OK;
    if (!luo_result_has(t->dir, file)) return LUO_OK;
    luo_repeats *rows = open_repeats(t, LUO_TABLE_TIMELINE);
    if (!rows) return nomem(t);
    while (st == LUO_OK && luo_repeats_next(rows, cells)) {
        luo_row_timeline row = {
            .kind = (luo_span_kind)word_of(t, cells, LUO_COL_TIMELINE_kind, "kind", span_word),
            .blocking = cells[LUO_COL_TIMELINE_blocking].whole != 0,
            .step = cells[LUO_COL_TIMELINE_step].whole,
            .bytes = cells[LUO_COL_TIMELINE_bytes].whole,
            .plan = whole_or_none(&cells[LUO_COL_TIMELINE_plan]),
            .event = cells[LUO_COL_TIMELINE_event].text};
        if (time_of(t, cells, LUO_COL_TIMELINE_t_start_s, "t_start_s", &row.start_s) &&
            time_of(t, cells, LUO_COL_TIMELINE_t_end_s, "t_end_s", &row.end_s))
            st = luo_trace_span(t->trace, &row, &err);
    }
    const luo_status closed = luo_repeats_close(rows);
    return st == LUO_OK ? closed : luo_diags_err(t->diags, &err);
}

static luo_status read_events(table *t)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    const char *file = luo_table_def_at(LUO_TABLE_EVENTS)->file;
    luo_err err = {0};
    luo_status st = LUO_OK;
    if (!luo_result_has(t->dir, file)) return LUO_OK;
    if (!open_table(t, file, LUO_TABLE_EVENTS)) return nomem(t);
    while (st == LUO_OK && luo_csv_next(t->csv, cells)) {
        const int phase = word_of(t, cells, LUO_COL_EVENTS_phase, "phase", happened_word);
        luo_row_event row = {.step = cells[LUO_COL_EVENTS_step].whole,
                             .phase = (luo_event_phase)phase,
                             .id = cells[LUO_COL_EVENTS_id].text,
                             .kind = cells[LUO_COL_EVENTS_kind].text,
                             .target = cells[LUO_COL_EVENTS_target].text,
                             .detail = cells[LUO_COL_EVENTS_detail].text,
                             .has_value = cells[LUO_COL_EVENTS_value].given,
                             .value = cells[LUO_COL_EVENTS_value].number};
        if (time_of(t, cells, LUO_COL_EVENTS_t_s, "t_s", &row.t_s))
            st = luo_trace_event(t->trace, &row, &err);
    }
    const luo_status closed = luo_csv_close(t->csv);
    return st == LUO_OK ? closed : luo_diags_err(t->diags, &err);
}

/* ---- the whole ---- */

static uint64_t hash_of(const char *text)
{
    return strtoull(text, NULL, 16);
}

static luo_status read_head(table *t, luo_trace_head *head)
{
    luo_result result;
    *head = (luo_trace_head){.scenario = "", .policy = "", .backend = "", .version = ""};
    if (!luo_result_has(t->dir, "manifest.json")) return LUO_OK;
    LUO_TRY(luo_result_read(t->arena, t->dir, &result, t->diags));
    uint64_t *plans = LUO_NEW_N(t->arena, uint64_t, result.nplans);
    uint64_t *programs = LUO_NEW_N(t->arena, uint64_t, result.nplans);
    if (!plans || !programs) return nomem(t);
    for (int32_t i = 0; i < result.nplans; i++) {
        plans[i] = hash_of(result.plans[i]);
        programs[i] = hash_of(result.programs[i]);
    }
    *head = (luo_trace_head){.scenario = result.scenario,
                             .policy = result.policy,
                             .backend = result.backend,
                             .version = "",
                             .seed = strtoull(result.seed, NULL, 10),
                             .scenario_hash = hash_of(result.scenario_hash),
                             .nplans = result.nplans,
                             .plans = plans,
                             .programs = programs};
    return LUO_OK;
}

static luo_status read_all(table *t, luo_trace_run *out)
{
    luo_cluster *cluster;
    LUO_TRY(read_head(t, &out->head));
    LUO_TRY(luo_trace_cluster(t->arena, t->dir, t->file, &cluster, t->diags));
    t->trace = luo_trace_new(cluster, 0);
    if (!t->trace) return nomem(t);
    LUO_TRY(read_steps(t));
    LUO_TRY(read_spans(t));
    LUO_TRY(read_events(t));
    return read_ops(t);
}

luo_status luo_trace_read(luo_arena *arena, const char *path, luo_trace_run *out, luo_diags *diags)
{
    table t = {.arena = arena, .of_step = luo_arena_new(0), .diags = diags, .file = "ops.csv"};
    struct stat info;
    const char *slash = strrchr(path, '/');
    t.dir = path;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        t.file = slash ? slash + 1 : path;
        t.dir = slash ? luo_arena_strndup(arena, path, (size_t)(slash - path)) : ".";
        if (t.dir && !*t.dir) t.dir = "/";
    }
    luo_status st = t.of_step && t.dir ? read_all(&t, out) : nomem(&t);
    if (st == LUO_OK)
        out->trace = t.trace;
    else
        luo_trace_free(t.trace);
    luo_map_free(&t.op_of);
    luo_map_free(&t.step_of);
    luo_arena_free(t.of_step);
    free(t.ops);
    free(t.row);
    free(t.step);
    return st;
}
