/* Traced steps of a run, slice by slice. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"
#include "core/io/report/report_internal.h"

typedef struct slice {
    int32_t row, stream, op, kind, phase, micro_batch;
    double start_s, end_s;
    int64_t bytes;
} slice;

typedef struct words { /* each once, in the order in which they came */
    luo_arena *arena;
    luo_map index;
    const char **at;
    int32_t n, cap;
} words;

typedef struct device {
    int64_t device, pipeline, stage; /* -1: outside of any */
} device;

typedef struct timeline {
    words op, stream, kind, phase;
    luo_map row_of; /* device -> row */
    device *row;
    int32_t nrows, cap_rows;
    slice *slice; /* of the step at hand */
    int64_t nslices, cap_slices;
    bool *forward; /* of ops: seen in a forward task; behind it the same op is recomputation */
    int32_t cap_forward;
    int64_t step, attempt, kept, most;
    bool full;   /* a step found no room */
    bool merged; /* slices of one task on one stream became one */
} timeline;

/* -1: out of memory. */
static int32_t word_of(words *w, const char *text)
{
    for (uint64_t key = luo_hash_str(LUO_HASH_EMPTY, text);; key++) { /* two words of one hash */
        int64_t *slot = luo_map_at(&w->index, key, -1);
        if (!slot) return -1;
        if (*slot >= 0 && strcmp(w->at[*slot], text) != 0) continue;
        if (*slot >= 0) return (int32_t)*slot;
        if (!LUO_VEC_ROOM(w->at, w->n, w->cap)) return -1;
        w->at[w->n] = luo_arena_strdup(w->arena, luo_result_shown(w->arena, text));
        if (!w->at[w->n]) return -1;
        *slot = w->n;
        return w->n++;
    }
}

static int32_t row_of(timeline *t, const luo_csv_cell *cell)
{
    int64_t *slot = luo_map_at(&t->row_of, (uint64_t)cell[LUO_COL_OPS_device].whole, -1);
    if (!slot) return -1;
    if (*slot >= 0) return (int32_t)*slot;
    if (!LUO_VEC_ROOM(t->row, t->nrows, t->cap_rows)) return -1;
    const luo_csv_cell *pipeline = &cell[LUO_COL_OPS_pipeline], *stage = &cell[LUO_COL_OPS_stage];
    t->row[t->nrows] =
        (device){cell[LUO_COL_OPS_device].whole, pipeline->given ? pipeline->whole : -1,
                 stage->given ? stage->whole : -1};
    *slot = t->nrows;
    return t->nrows++;
}

/* Phase of an operation; recompute: of the backward phases, and done forward before. */
static int32_t phase_of(timeline *t, int32_t op, const char *phase)
{
    while (op >= t->cap_forward) {
        const int32_t before = t->cap_forward;
        if (!luo_vec_grow32(NULL, &t->forward, &t->cap_forward, sizeof *t->forward)) return -1;
        memset(t->forward + before, 0, (size_t)(t->cap_forward - before) * sizeof *t->forward);
    }
    if (strcmp(phase, "F") == 0) t->forward[op] = true;
    return word_of(&t->phase, phase[0] == 'B' && t->forward[op] ? "recompute" : phase);
}

static bool add_slice(timeline *t, const luo_csv_cell *cell)
{
    slice s = {.row = row_of(t, cell),
               .stream = word_of(&t->stream, cell[LUO_COL_OPS_stream].text),
               .op = word_of(&t->op, cell[LUO_COL_OPS_op].text),
               .kind = word_of(&t->kind, cell[LUO_COL_OPS_kind].text),
               .micro_batch = cell[LUO_COL_OPS_micro_batch].given
                                  ? (int32_t)cell[LUO_COL_OPS_micro_batch].whole
                                  : -1,
               .start_s = cell[LUO_COL_OPS_t_start_s].number,
               .end_s = cell[LUO_COL_OPS_t_end_s].number,
               .bytes = cell[LUO_COL_OPS_bytes].whole};
    if (s.row < 0 || s.stream < 0 || s.op < 0 || s.kind < 0) return false;
    s.phase = phase_of(t, s.op, cell[LUO_COL_OPS_phase].text);
    if (s.phase < 0) return false;
    if (!LUO_VEC_ROOM(t->slice, t->nslices, t->cap_slices)) return false;
    t->slice[t->nslices++] = s;
    return true;
}

/* What a device does for one task on one stream, gaps included, as one slice: of a step that is too
 * large to be shown op by op. Pre: slices of a device are in the order of issue. */
static bool merge(timeline *t)
{
    const size_t streams = (size_t)t->stream.n;
    int64_t *last = malloc(((size_t)t->nrows * streams + 1) * sizeof *last), kept = 0;
    const int32_t several = word_of(&t->op, "several operations");
    if (!last || several < 0) {
        free(last);
        return false;
    }
    for (size_t i = 0; i < (size_t)t->nrows * streams; i++) last[i] = -1;
    for (int64_t i = 0; i < t->nslices; i++) {
        const slice s = t->slice[i];
        int64_t *at = &last[(size_t)s.row * streams + (size_t)s.stream];
        slice *before = *at < 0 ? NULL : &t->slice[*at];
        if (before && before->phase == s.phase && before->micro_batch == s.micro_batch &&
            before->kind == s.kind) {
            before->op = several;
            before->end_s = fmax(before->end_s, s.end_s);
            before->bytes += s.bytes;
        } else {
            *at = kept;
            t->slice[kept++] = s;
        }
    }
    t->nslices = kept;
    t->merged = true;
    free(last);
    return true;
}

/* Slices of the first rows, as many rows as find room. */
static void cut(timeline *t)
{
    int64_t kept = 0;
    int64_t *of_row = calloc((size_t)t->nrows + 1, sizeof *of_row);
    int32_t rows = 0;
    int64_t sum = 0;
    for (int64_t i = 0; of_row && i < t->nslices; i++) of_row[t->slice[i].row]++;
    while (of_row && rows < t->nrows && sum + of_row[rows] <= t->most) sum += of_row[rows++];
    for (int64_t i = 0; i < t->nslices; i++)
        if (t->slice[i].row < rows) t->slice[kept++] = t->slice[i];
    t->nslices = kept;
    free(of_row);
}

static void put_slices(timeline *t, luo_jsonw *json)
{
    double begin_s = INFINITY;
    for (int64_t i = 0; i < t->nslices; i++) begin_s = fmin(begin_s, t->slice[i].start_s);
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_int(json, "step", t->step);
    luo_jsonw_int(json, "attempt", t->attempt);
    luo_jsonw_num(json, "begin_s", begin_s, 9);
    luo_jsonw_open(json, "slices", '[');
    for (int64_t i = 0; i < t->nslices; i++) {
        const slice *s = &t->slice[i];
        const int64_t row[] = {s->row,
                               s->stream,
                               s->op,
                               s->kind,
                               s->phase,
                               s->micro_batch,
                               (int64_t)llround(1e9 * (s->start_s - begin_s)),
                               (int64_t)llround(1e9 * (s->end_s - s->start_s)),
                               s->bytes};
        for (size_t k = 0; k < sizeof row / sizeof *row; k++) luo_jsonw_int(json, NULL, row[k]);
    }
    luo_jsonw_close(json);
    luo_jsonw_close(json);
}

/* A step is shown op by op where there is room; the first one in any case, task by task and, if
 * that is too much, with the devices that fit. */
static bool end_step(timeline *t, luo_jsonw *json)
{
    if (t->nslices == 0) return true;
    if (t->kept == 0 && t->nslices > t->most && !merge(t)) return false;
    if (t->kept == 0 && t->nslices > t->most) cut(t);
    if (t->kept + t->nslices <= t->most) {
        put_slices(t, json);
        t->kept += t->nslices;
    } else {
        t->full = true;
    }
    t->nslices = 0;
    return true;
}

static void put_words(luo_jsonw *json, const char *key, const words *w)
{
    luo_jsonw_open(json, key, '[');
    for (int32_t i = 0; i < w->n; i++) luo_jsonw_text(json, NULL, w->at[i]);
    luo_jsonw_close(json);
}

static void put_rows(luo_jsonw *json, const timeline *t)
{
    luo_jsonw_open(json, "rows", '[');
    for (int32_t i = 0; i < t->nrows; i++) {
        luo_jsonw_open(json, NULL, '[');
        luo_jsonw_int(json, NULL, t->row[i].device);
        luo_jsonw_int(json, NULL, t->row[i].pipeline);
        luo_jsonw_int(json, NULL, t->row[i].stage);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static bool read_ops(timeline *t, luo_csv *csv, luo_jsonw *json)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    bool good = true;
    while (good && !t->full && luo_csv_next(csv, cell)) {
        const int64_t step = cell[LUO_COL_OPS_step].whole,
                      attempt = cell[LUO_COL_OPS_attempt].whole;
        if (step != t->step || attempt != t->attempt) good = end_step(t, json);
        t->step = step;
        t->attempt = attempt;
        if (good && !t->full) good = add_slice(t, cell);
    }
    return good && (t->full || end_step(t, json));
}

static void free_timeline(timeline *t)
{
    words *const all[] = {&t->op, &t->stream, &t->kind, &t->phase};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        luo_map_free(&all[i]->index);
        free(all[i]->at);
    }
    luo_map_free(&t->row_of);
    free(t->row);
    free(t->slice);
    free(t->forward);
}

luo_status luo_report_timeline(luo_arena *arena, const luo_result *run, int64_t most,
                               luo_jsonw *json, luo_diags *diags)
{
    timeline t = {.op.arena = arena,
                  .stream.arena = arena,
                  .kind.arena = arena,
                  .phase.arena = arena,
                  .most = most};
    if (!luo_result_has(run->dir, luo_table_def_at(LUO_TABLE_OPS)->file)) {
        luo_jsonw_text(json, "timeline", NULL);
        return LUO_OK;
    }
    luo_csv *csv = luo_result_table(arena, run->dir, LUO_TABLE_OPS, diags);
    luo_jsonw_open(json, "timeline", '{');
    luo_jsonw_open(json, "steps", '[');
    const bool good = csv && read_ops(&t, csv, json);
    luo_jsonw_close(json);
    put_words(json, "ops", &t.op);
    put_words(json, "streams", &t.stream);
    put_words(json, "kinds", &t.kind);
    put_words(json, "phases", &t.phase);
    put_rows(json, &t);
    luo_jsonw_bool(json, "cut", t.full || t.merged);
    luo_jsonw_close(json);
    free_timeline(&t);
    const luo_status st = luo_csv_close(csv);
    return good || st != LUO_OK ? st : LUO_ENOMEM;
}
