#include "cli/validate/validate_collectives.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/cost/collective.h"
#include "core/cost/fit/gpu_fit.h"
#include "core/io/read/read.h"
#include "core/io/result/csv.h"
#include "core/plan/suite/suite.h"

typedef struct row {
    double bytes, busbw; /* bytes/s */
    luo_suite_split split;
} row;

typedef struct table { /* rows of one fabric, op, algorithm and number of devices, by size */
    const char *gpu, *algorithm; /* gpu: of a fabric the first word */
    const char *fabric, *file;
    luo_coll op;
    int32_t nodes, devices, n, cap;
    row *at;
} table;

typedef struct reader {
    luo_cli *cli;
    luo_arena *arena, *scratch;
    luo_err *err;
    int folds;
    const char *file; /* that is read */
    table *tables;
    int32_t ntables, cap;
    luo_collectives *out;
} reader;

/* ---- the tables ---- */

static table *table_of(reader *r, const char *fabric, const char *algorithm, luo_coll op,
                       int32_t nodes, int32_t devices)
{
    for (int32_t i = 0; i < r->ntables; i++) {
        table *t = &r->tables[i];
        if (t->op == op && t->nodes == nodes && t->devices == devices && t->file == r->file &&
            strcmp(t->fabric, fabric) == 0 && strcmp(t->algorithm, algorithm) == 0)
            return t;
    }
    if (!LUO_VEC_ROOM_IN(r->arena, r->tables, r->ntables, r->cap)) return NULL;
    table *t = &r->tables[r->ntables];
    *t = (table){.op = op, .nodes = nodes, .devices = devices, .file = r->file,
                 .gpu = luo_arena_strndup(r->arena, fabric, strcspn(fabric, " ")),
                 .fabric = luo_arena_strdup(r->arena, fabric),
                 .algorithm = luo_arena_strdup(r->arena, algorithm)};
    if (!t->gpu || !t->fabric || !t->algorithm) return NULL;
    r->ntables++;
    return t;
}

static luo_status add_row(reader *r, table *t, row x)
{
    if (!t || !LUO_VEC_ROOM_IN(r->arena, t->at, t->n, t->cap)) return luo_err_nomem(r->err);
    t->at[t->n++] = x;
    return LUO_OK;
}

static double number_of(const char *text)
{
    char *end;
    const double x = strtod(text, &end);
    return end != text && *end == 0 ? x : NAN;
}

/* Digits that tell something: 0.01 has one. */
static int digits(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text >= '0' && *text <= '9' && (n > 0 || *text != '0');
    return n;
}

/* NULL: not one of ours. An excerpt that hides its op was an all-reduce. */
static bool op_of(const char *text, luo_coll *op)
{
    if (strncmp(text, "collective", 10) == 0) text = "all_reduce";
    for (int i = 0; i < LUO_COLLS; i++) {
        *op = (luo_coll)i;
        if (strcmp(luo_coll_name(*op), text) == 0) return true;
    }
    return false;
}

static const char *const splits[] = {LUO_SPLIT_LIST(LUO_WORD_TEXT) NULL};
#define SPLIT {"split", LUO_CSV_WORD, false, LUO_FROM(0), splits, false, NULL}
#define TEXT(name) {name, LUO_CSV_TEXT, false, LUO_FROM(0), NULL, false, NULL}
#define SOME(name) {name, LUO_CSV_NUMBER, true, LUO_WITHIN(0, 1e18), NULL, false, NULL}

static luo_suite_split split_of(const luo_csv_cell *cells)
{
    return cells->given ? (luo_suite_split)cells->whole : LUO_SPLIT_CAL;
}

static luo_status read_nccl(reader *r, const char *path)
{
    enum { FABRIC, NODES, GPUS, OP, ALGO, BYTES, BUSBW, OF_SPLIT, ALGBW, SOURCE, NOTE, N };
    static const luo_csv_column columns[N] = {
        [FABRIC] = TEXT("gpu_fabric"), [NODES] = TEXT("nodes"),
        [GPUS] = TEXT("gpus"),         [OP] = TEXT("op"),
        [ALGO] = TEXT("algo"),         [BYTES] = TEXT("bytes"),
        [BUSBW] = TEXT("busbw_GBps"),  [OF_SPLIT] = SPLIT,
        [ALGBW] = TEXT("algbw_GBps"),  [SOURCE] = TEXT("source"),
        [NOTE] = TEXT("note")};
    luo_csv_cell cell[N];
    luo_status st = LUO_OK;
    luo_csv *csv = luo_csv_open_path(path, columns, N, &r->cli->diags);
    while (st == LUO_OK && luo_csv_next(csv, cell)) {
        const double nodes = number_of(cell[NODES].text), devices = number_of(cell[GPUS].text);
        const double bytes = number_of(cell[BYTES].text), busbw = number_of(cell[BUSBW].text);
        luo_coll op;
        if (!(nodes >= 1) || !(devices >= 2) || devices > 1e5 || !(bytes > 0) || !(busbw > 0) ||
            digits(cell[BUSBW].text) < 2 || !op_of(cell[OP].text, &op))
            continue;
        table *to =
            table_of(r, cell[FABRIC].text, cell[ALGO].text, op, (int32_t)nodes, (int32_t)devices);
        st = add_row(r, to, (row){bytes, 1e9 * busbw, split_of(&cell[OF_SPLIT])});
    }
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}

/* Times are in ns, the sizes those of the whole. */
static luo_status read_vtrain(reader *r, const char *path)
{
    enum { GPU, GPUS, OP, BYTES, TIME_NS, TIME_IN_PLACE_NS, OF_SPLIT, N };
    static const luo_csv_column columns[N] = {[GPU] = TEXT("gpu"),
                                              [GPUS] = SOME("gpus"),
                                              [OP] = TEXT("op"),
                                              [BYTES] = SOME("bytes"),
                                              [TIME_NS] = SOME("time_out_of_place_ns"),
                                              [TIME_IN_PLACE_NS] = TEXT("time_in_place_ns"),
                                              [OF_SPLIT] = SPLIT};
    luo_csv_cell cell[N];
    luo_status st = LUO_OK;
    luo_csv *csv = luo_csv_open_path(path, columns, N, &r->cli->diags);
    while (st == LUO_OK && luo_csv_next(csv, cell)) {
        const double n = cell[GPUS].number, s = 1e-9 * cell[TIME_NS].number;
        luo_coll op;
        if (!(n >= 2) || n > 64 || !(s > 0) || !(cell[BYTES].number > 0) ||
            !op_of(cell[OP].text, &op))
            continue;
        const double volume = luo_cost_volume((int)op, (int32_t)n);
        table *to = table_of(r, cell[GPU].text, "default", op, 1, (int32_t)n);
        st = add_row(
            r, to,
            (row){cell[BYTES].number, volume * cell[BYTES].number / s, split_of(&cell[OF_SPLIT])});
    }
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}

static int by_size(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* ---- a machine with n devices on each node ---- */

typedef struct machine {
    luo_profile profile;
    luo_curve curve;
    double link, node_rate; /* bytes/s */
    int32_t nodes, each;
} machine;

static double seconds_of(reader *r, machine *m, luo_coll op, double bytes)
{
    static const char *const racks[] = {"r0"};
    const int32_t devices = m->nodes * m->each;
    luo_stack stack;
    luo_stack_default(&stack);
    if (m->curve.n) {
        m->profile.curves = &m->curve;
        m->profile.ncurves = 1;
        m->profile.tables_bytes_per_s[LUO_CLASS_NVLINK] = m->link;
    }
    luo_node_group group = {.name = "node",
                            .site = "main",
                            .nodes = m->nodes,
                            .sockets = 1,
                            .devices_per_node = m->each,
                            .nracks = 1,
                            .racks = racks,
                            .profile = &m->profile,
                            .base_slowdown = 1,
                            .scale_up = LUO_SCALE_UP_NVSWITCH,
                            .scale_up_bytes_per_s = m->link,
                            .scale_up_latency_s = 1e-6,
                            .devices_per_switch = m->each,
                            .nics = m->nodes > 1 ? 1 : 0,
                            .nic_bytes_per_s = m->node_rate,
                            .nic_latency_s = 2e-6,
                            .host_cores = 1};
    luo_cluster cluster = {.name = "collectives",
                           .ngroups = 1,
                           .groups = &group,
                           .fabric = LUO_FABRIC_SINGLE,
                           .hop_latency_s = 0.5e-6};
    const luo_cost_ctx ctx = {.cluster = &cluster, .stack = &stack, .dtype = LUO_F32};
    const size_t mark = luo_arena_mark(r->scratch);
    int32_t *dev = LUO_NEW_N(r->scratch, int32_t, devices);
    double s = 0;
    luo_err none;
    for (int32_t i = 0; dev && i < devices; i++) dev[i] = i;
    if (dev && luo_cluster_finish(r->scratch, &cluster, &none) == LUO_OK)
        s = luo_cost_group_seconds(&ctx, (int)op, dev, devices, (int64_t)bytes, 0);
    luo_arena_reset(r->scratch, mark);
    return s;
}

/* Rows of a table but those of a fold (-1: all) as a curve. */
static luo_status curve_of(reader *r, const table *t, int fold, luo_curve *out)
{
    luo_curve_point *point = LUO_NEW_N(r->arena, luo_curve_point, t->n);
    int32_t n = 0;
    if (!point) return luo_err_nomem(r->err);
    for (int32_t i = 0; i < t->n; i++) {
        if (fold >= 0 && i % r->folds == fold) continue;
        if (n > 0 && point[n - 1].bytes == t->at[i].bytes) continue;
        point[n++] = (luo_curve_point){t->at[i].bytes, t->at[i].busbw};
    }
    *out = (luo_curve){t->op, t->devices / t->nodes, n, point};
    return LUO_OK;
}

/* "8x50GB/s" and "4xHDR200" (Gbit/s) behind a +: of a node. 0: not told. */
static double nics_of(const char *fabric)
{
    const char *at = strchr(fabric, '+');
    char *x;
    if (!at) return 0;
    const double n = strtod(at + 1, &x);
    if (!(n > 0) || *x != 'x') return 0;
    const char *rate = x + 1 + strcspn(x + 1, "0123456789");
    char *unit;
    const double v = strtod(rate, &unit);
    return strncmp(unit, "GB/s", 4) == 0 ? n * v * 1e9 : n * v * 1e9 / 8;
}

/* "A100" stands for the types of that name, which differ in nothing that counts here. */
static const luo_suite_gpu *gpu_of(const char *word)
{
    static const char *const names[][2] = {{"A100", "a100-80"}, {"V100", "v100-16"},
                                           {"H100", "h100"},    {"H200", "h200"},
                                           {"B200", "b200"},    {"H800", "h800"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], word) == 0) return luo_suite_gpu_of(names[i][1]);
    return NULL;
}

static machine machine_of(const table *t)
{
    const luo_suite_gpu *gpu = gpu_of(t->gpu);
    return (machine){.profile = {.net_ratio = 0.9, .net_half_bytes = 13450000},
                     .link = gpu ? gpu->nvlink_bytes_per_s : 300e9,
                     .node_rate = nics_of(t->fabric), .nodes = t->nodes,
                     .each = t->devices / t->nodes};
}

/* The table of the same GPU, inside one node of so many devices, that has most rows. */
static const table *inside_of(const reader *r, const table *t, int32_t devices)
{
    const table *best = NULL;
    for (int32_t i = 0; i < r->ntables; i++) {
        const table *o = &r->tables[i];
        if (o == t || o->nodes > 1 || o->devices != devices || o->op != LUO_COLL_AR ||
            strcmp(o->gpu, t->gpu) != 0 || o->n < r->folds)
            continue;
        if (!best || o->n > best->n) best = o;
    }
    return best;
}

/* ---- predictions ---- */

static luo_status take(reader *r, const table *t, int32_t i, double seconds, int fold)
{
    luo_collectives *collectives = r->out;
    const double volume = luo_cost_volume((int)t->op, t->devices);
    luo_suite_row *is = LUO_NEW(r->arena, luo_suite_row);
    luo_case *one = &collectives->cases[collectives->n];
    luo_score *score = &collectives->scores[collectives->n];
    if (!is) return luo_err_nomem(r->err);
    *is = (luo_suite_row){.suite = "collectives", .system = "nccl", .gpu = t->gpu,
                           .id = luo_arena_printf(r->arena, "%s-%s-%d-%.0f", t->gpu,
                                                  luo_coll_name(t->op), (int)t->devices,
                                                  t->at[i].bytes),
                           .fabric = t->fabric, .model = "", .precision = "", .note = "",
                           .source = t->file, .gpus = t->devices, .split = t->at[i].split,
                           .gpus_per_node = t->devices / t->nodes, .kind = LUO_STEP_MEASURED};
    *one = (luo_case){
        .row = is, .assumed = "", .measured_s = volume * t->at[i].bytes / t->at[i].busbw};
    *score = (luo_score){.closed = LUO_EUNSUP, .simulated = LUO_EUNSUP, .memory = LUO_EUNSUP};
    if (seconds > 0) {
        score->closed = LUO_OK;
        score->closed_s = seconds;
        one->cluster = LUO_NEW(r->arena, luo_cluster); /* says that it is a case */
    } else {
        one->refused = LUO_EUNSUP;
        one->assumed = "there is neither a profile of ours nor a table of this GPU.";
    }
    collectives->fold[collectives->n++] = fold;
    return is->id && (seconds <= 0 || one->cluster) ? LUO_OK : luo_err_nomem(r->err);
}

/* Constants between nodes from the rows outside the fold. */
static void fit_net(reader *r, const table *t, machine *m, int fold, luo_net_row *rows)
{
    machine alone = *m;
    int32_t n = 0;
    alone.nodes = 1;
    const double more = luo_cost_volume((int)t->op, t->devices);
    const double less = luo_cost_volume((int)t->op, m->each);
    for (int32_t i = 0; i < t->n; i++) {
        const double bytes = t->at[i].bytes;
        if (i % r->folds == fold) continue;
        rows[n++] = (luo_net_row){(int)t->op, t->nodes, m->each, 1, m->node_rate, bytes,
                                  more * bytes / t->at[i].busbw,
                                  more / less * seconds_of(r, &alone, t->op, bytes)};
    }
    const luo_net_fitted fitted = luo_fit_net(rows, n);
    m->profile.net_ratio = fitted.net_ratio;
    m->profile.net_half_bytes = fitted.net_half_bytes;
    m->profile.net_step_s = fitted.net_step_s;
}

static luo_status cross_table(reader *r, const table *t)
{
    luo_net_row *rows = LUO_NEW_N(r->arena, luo_net_row, t->n);
    const table *inside = inside_of(r, t, t->devices / t->nodes);
    if (!rows) return luo_err_nomem(r->err);
    for (int k = 0; k < r->folds; k++) {
        machine m = machine_of(t);
        const bool several = t->nodes > 1;
        if (several && (!inside || !(m.node_rate > 0))) return LUO_OK;
        LUO_TRY(curve_of(r, several ? inside : t, several ? -1 : k, &m.curve));
        if (several) fit_net(r, t, &m, k, rows);
        for (int32_t i = k; i < t->n; i += r->folds)
            LUO_TRY(take(r, t, i, seconds_of(r, &m, t->op, t->at[i].bytes), k));
    }
    return LUO_OK;
}

/* Single rows: what NVLS makes of all 8 is in that type's curve of 8, rings are the formula. */
static luo_status cross_single(reader *r, const table *t)
{
    const table *whole = inside_of(r, t, t->devices);
    machine m = machine_of(t);
    const bool ring = strncmp(t->algorithm, "ring", 4) == 0;
    if (t->nodes > 1 || !gpu_of(t->gpu)) m.each = 0;
    else if (!ring && whole) LUO_TRY(curve_of(r, whole, -1, &m.curve));
    for (int32_t i = 0; i < t->n; i++)
        LUO_TRY(take(r, t, i, m.each ? seconds_of(r, &m, t->op, t->at[i].bytes) : 0, -1));
    return LUO_OK;
}

/* By the profile that ships. */
static luo_status shipped_table(reader *r, const table *t)
{
    const luo_suite_gpu *gpu = gpu_of(t->gpu);
    machine m = machine_of(t);
    luo_profile *profile = NULL;
    if (gpu) LUO_TRY(luo_read_profile(r->cli->arena, gpu->profile, &profile, &r->cli->diags));
    if (profile) m.profile = *profile;
    const bool can = profile && (t->nodes == 1 || m.node_rate > 0);
    for (int32_t i = 0; i < t->n; i++)
        LUO_TRY(take(r, t, i, can ? seconds_of(r, &m, t->op, t->at[i].bytes) : 0, -1));
    return LUO_OK;
}

static luo_status read_files(reader *r, const char *data)
{
    static const struct {
        const char *name;
        luo_status (*read)(reader *r, const char *path);
    } files[] = {{"nccl_busbw", read_nccl},
                 {"nccl_h200", read_nccl},
                 {"vtrain_allreduce_a100", read_vtrain},
                 {"vtrain_allreduce_v100", read_vtrain}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = luo_arena_printf(r->arena, "%s/micro/%s.csv", data, files[i].name);
        if (!path) return luo_err_nomem(r->err);
        if (access(path, R_OK) != 0) continue;
        r->file = files[i].name;
        LUO_TRY(files[i].read(r, path));
    }
    return LUO_OK;
}

static luo_status predict(reader *r)
{
    int32_t all = 0;
    for (int32_t i = 0; i < r->ntables; i++) all += r->tables[i].n;
    r->out->cases = LUO_NEW_N(r->arena, luo_case, all);
    r->out->scores = LUO_NEW_N(r->arena, luo_score, all);
    r->out->fold = LUO_NEW_N(r->arena, int, all);
    if (all && (!r->out->cases || !r->out->scores || !r->out->fold)) return luo_err_nomem(r->err);
    for (int32_t i = 0; i < r->ntables; i++)
        if (r->tables[i].n) qsort(r->tables[i].at, (size_t)r->tables[i].n, sizeof(row), by_size);
    for (int32_t i = 0; i < r->ntables; i++) {
        const table *t = &r->tables[i];
        LUO_TRY(r->folds == 0      ? shipped_table(r, t)
                : t->n >= r->folds ? cross_table(r, t)
                                   : cross_single(r, t));
    }
    return LUO_OK;
}

luo_status luo_collectives_read(luo_cli *cli, const char *data, int folds, luo_collectives *out,
                                luo_err *err)
{
    reader r = {.cli = cli, .arena = cli->arena, .err = err, .folds = folds, .out = out,
                .scratch = luo_arena_new(1 << 16)};
    *out = (luo_collectives){0};
    if (!r.scratch) return luo_err_nomem(err);
    luo_status st = read_files(&r, data);
    if (st == LUO_OK) st = predict(&r);
    luo_arena_free(r.scratch);
    return st;
}
