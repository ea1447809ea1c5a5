/* Measured tables of a profile: times of ops, collectives and transfers
 * (docs/formats.md#tables-1). */
#include "core/io/read/profile_tables.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/io/read/input_tables.h"

static const char *name_of(luo_doc *doc, const char *from)
{
    const char *to = luo_arena_strdup(doc->arena, from);
    if (!to) luo_doc_nomem(doc);
    return to;
}

static void take_op_times(luo_doc *doc, const luo_source *src, luo_profile *profile)
{
    luo_csv *csv =
        luo_csv_open(src, luo_input_table_op_times.columns, luo_input_table_op_times.n, doc->diags);
    luo_csv_cell cell[LUO_OP_N];
    luo_op_time *time = (luo_op_time *)profile->op_times;
    int32_t n = profile->nop_times, cap = n;
    while (luo_csv_next(csv, cell)) {
        if (cell[LUO_OP_ROLE].whole == LUO_ROLE_VALIDATION) continue;
        if (!LUO_VEC_ROOM_IN(doc->arena, time, n, cap)) {
            time = NULL;
            break;
        }
        time[n++] = (luo_op_time){name_of(doc, cell[LUO_OP_OP].text),
                                  (luo_dtype)cell[LUO_OP_DTYPE].whole,
                                  cell[LUO_OP_M].whole,
                                  cell[LUO_OP_N_].whole,
                                  cell[LUO_OP_K].whole,
                                  cell[LUO_OP_TIME].number * 1e-6};
    }
    const luo_status st = luo_csv_close(csv);
    if (doc->st == LUO_OK) doc->st = st;
    if (!time && cap) luo_doc_nomem(doc);
    profile->op_times = time;
    profile->nop_times = time ? n : 0;
}

typedef struct curve_row {
    luo_coll op;
    int32_t devices, line;
    double bytes, busbw;
} curve_row;

static int by_curve(const void *a, const void *b)
{
    const curve_row *x = a, *y = b;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->devices != y->devices) return x->devices < y->devices ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* nccl-tests: busbw = factor * bytes / time. */
static double busbw(const luo_csv_cell *cells)
{
    const double n = cells[LUO_CO_DEVICES].number;
    const int64_t op = cells[LUO_CO_COLLECTIVE].whole;
    const double factor = op == LUO_COLL_AR  ? 2 * (n - 1) / n
                          : op == LUO_COLL_BCAST ? 1
                                                : (n - 1) / n;
    return cells[LUO_CO_BUSBW].given
               ? cells[LUO_CO_BUSBW].number * 1e9
               : factor * cells[LUO_CO_SIZE].number / (cells[LUO_CO_TIME].number * 1e-6);
}

/* Rows of one node: that is what the profile's curves are of (core/cost/profile.h). */
static curve_row *read_curve_rows(luo_doc *doc, const luo_source *src, int32_t *count)
{
    luo_csv *csv = luo_csv_open(src, luo_input_table_collective_times.columns,
                                luo_input_table_collective_times.n, doc->diags);
    luo_csv_cell cell[LUO_CO_N];
    curve_row *row = NULL;
    int32_t n = 0, cap = 0, other = 0;
    while (luo_csv_next(csv, cell)) {
        if (cell[LUO_CO_ROLE].whole == LUO_ROLE_VALIDATION) continue;
        if (cell[LUO_CO_NODES].whole != 1) {
            other++;
            continue;
        }
        if (!LUO_VEC_ROOM_IN(doc->arena, row, n, cap)) {
            row = NULL;
            break;
        }
        row[n++] = (curve_row){(luo_coll)cell[LUO_CO_COLLECTIVE].whole,
                               (int32_t)cell[LUO_CO_DEVICES].whole, luo_csv_line(csv),
                               cell[LUO_CO_SIZE].number, busbw(cell)};
    }
    if (other)
        luo_diags_add(doc->diags, LUO_WARNING, LUO_OK, src->name, 0, 0,
                      "%d rows with `nodes` above 1 do not enter the profile; its curves are those "
                      "of one node.",
                      other);
    const luo_status st = luo_csv_close(csv);
    if (doc->st == LUO_OK) doc->st = st;
    if (!row && cap) luo_doc_nomem(doc);
    *count = row ? n : 0;
    return row;
}

static void take_curves(luo_doc *doc, const luo_source *src, luo_profile *profile)
{
    int32_t n, curves = profile->ncurves;
    curve_row *row = read_curve_rows(doc, src, &n);
    if (n == 0) return;
    qsort(row, (size_t)n, sizeof *row, by_curve);
    luo_curve *to = LUO_NEW_N(doc->arena, luo_curve, profile->ncurves + n);
    luo_curve_point *at = LUO_NEW_N(doc->arena, luo_curve_point, n);
    if (!to || !at) {
        luo_doc_nomem(doc);
        return;
    }
    if (curves) memcpy(to, profile->curves, (size_t)curves * sizeof *to);
    for (int32_t i = 0; i < n; i++) {
        const bool same = i && row[i].op == row[i - 1].op && row[i].devices == row[i - 1].devices;
        if (same && row[i].bytes == row[i - 1].bytes) {
            doc->st = luo_diags_add(doc->diags, LUO_ERROR, LUO_EINPUT, src->name, row[i].line, 1,
                                    "the same collective, devices and size stand in line %d; one "
                                    "row each is expected.",
                                    row[i - 1].line);
            continue;
        }
        at[i] = (luo_curve_point){row[i].bytes, row[i].busbw};
        if (!same) to[curves++] = (luo_curve){row[i].op, row[i].devices, 0, &at[i]};
        to[curves - 1].n++;
    }
    profile->curves = to;
    profile->ncurves = curves;
}

typedef struct p2p_row {
    luo_p2p_time time;
    int32_t line;
} p2p_row;

static int by_class(const void *a, const void *b)
{
    const p2p_row *x = a, *y = b;
    const int order = strcmp(x->time.link_class, y->time.link_class);
    if (order) return order;
    if (x->time.bytes != y->time.bytes) return x->time.bytes < y->time.bytes ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static p2p_row *read_p2p_rows(luo_doc *doc, const luo_source *src, int32_t *count)
{
    luo_csv *csv = luo_csv_open(src, luo_input_table_p2p_times.columns, luo_input_table_p2p_times.n,
                                doc->diags);
    const char *const *classes = luo_input_table_p2p_times.columns[LUO_P2_CLASS].words;
    luo_csv_cell cell[LUO_P2_N];
    p2p_row *row = NULL;
    int32_t n = 0, cap = 0;
    while (luo_csv_next(csv, cell)) {
        if (cell[LUO_P2_ROLE].whole == LUO_ROLE_VALIDATION) continue;
        if (!LUO_VEC_ROOM_IN(doc->arena, row, n, cap)) {
            row = NULL;
            break;
        }
        row[n++] = (p2p_row){{classes[cell[LUO_P2_CLASS].whole], cell[LUO_P2_SIZE].number,
                              cell[LUO_P2_TIME].number * 1e-6},
                             luo_csv_line(csv)};
    }
    const luo_status st = luo_csv_close(csv);
    if (doc->st == LUO_OK) doc->st = st;
    if (!row && cap) luo_doc_nomem(doc);
    *count = row ? n : 0;
    return row;
}

/* Points of a class ascend in bytes, as cost expects them; a second table adds to the first. */
static void take_p2p(luo_doc *doc, const luo_source *src, luo_profile *profile)
{
    int32_t n;
    p2p_row *row = read_p2p_rows(doc, src, &n);
    if (n == 0) return;
    qsort(row, (size_t)n, sizeof *row, by_class);
    luo_p2p_time *to = LUO_NEW_N(doc->arena, luo_p2p_time, profile->np2p_times + n);
    if (!to) {
        luo_doc_nomem(doc);
        return;
    }
    if (profile->np2p_times)
        memcpy(to, profile->p2p_times, (size_t)profile->np2p_times * sizeof *to);
    for (int32_t i = 0; i < n; i++) {
        const bool same = i && row[i].time.link_class == row[i - 1].time.link_class &&
                          row[i].time.bytes == row[i - 1].time.bytes;
        if (same)
            doc->st = luo_diags_add(doc->diags, LUO_ERROR, LUO_EINPUT, src->name, row[i].line, 1,
                                    "the same class and size stand in line %d; one row each is "
                                    "expected.",
                                    row[i - 1].line);
        else
            to[profile->np2p_times++] = row[i].time;
    }
    profile->p2p_times = to;
}

void luo_profile_table(luo_doc *doc, luo_profile_table_kind kind, const luo_source *src,
                       luo_profile *profile)
{
    switch (kind) {
    case LUO_OP_TIMES:
        take_op_times(doc, src, profile);
        break;
    case LUO_COLLECTIVE_TIMES:
        take_curves(doc, src, profile);
        break;
    case LUO_P2P_TIMES:
        take_p2p(doc, src, profile);
        break;
    }
}
