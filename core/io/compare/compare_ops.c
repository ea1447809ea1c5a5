/* Runs op by op, from their ops.csv. Each file is read once, whatever the number of pairs: kept is
 * one sum per op and traced attempt of a step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"
#include "core/graph/program/program.h"
#include "core/io/compare/compare_internal.h"

typedef struct op_name {
    const char *op, *kind;
} op_name;

typedef struct op_sum { /* of one op in one attempt */
    int32_t op, attempt;
    int64_t calls;
    double seconds;
} op_sum;

typedef struct attempt {
    int64_t step, attempt;
    double idle_s; /* of devices, from the first operation of any to the last end */
} attempt;

typedef struct span {
    int64_t device;
    double start_s, end_s;
} span;

typedef struct run_ops {
    attempt *attempt;
    op_sum *sum;
    span *span; /* of the last attempt, while rows of it come */
    int32_t nattempt, cap_attempt, nsum, cap_sum, nspan, cap_span;
    luo_map index; /* (op, attempt) -> sum */
} run_ops;

struct luo_op_table {
    luo_arena *arena;
    op_name *name;
    int32_t n, cap;
    luo_map index; /* hash of op and kind -> name */
    int32_t nruns;
    run_ops *runs;
};

luo_op_table *luo_op_table_new(luo_arena *arena, int32_t nruns)
{
    luo_op_table *table = calloc(1, sizeof *table);
    if (!table) return NULL;
    table->arena = arena;
    table->nruns = nruns;
    table->runs = calloc((size_t)nruns + 1, sizeof *table->runs);
    if (table->runs) return table;
    free(table);
    return NULL;
}

void luo_op_table_free(luo_op_table *table)
{
    if (!table) return;
    for (int32_t i = 0; i < table->nruns; i++) {
        free(table->runs[i].attempt);
        free(table->runs[i].sum);
        free(table->runs[i].span);
        luo_map_free(&table->runs[i].index);
    }
    luo_map_free(&table->index);
    free(table->name);
    free(table->runs);
    free(table);
}

/* Room for one more of n items; false: out of memory. */
static bool grow(void *list, int32_t n, int32_t *cap, size_t size)
{
    return n < *cap || luo_vec_grow32(NULL, list, cap, size);
}

/* Number of an op; -1: out of memory. */
static int32_t op_of(luo_op_table *table, const char *op, const char *kind)
{
    uint64_t key = luo_hash_str(luo_hash_str(LUO_HASH_EMPTY, op), kind);
    for (;; key++) { /* the next key when two names have one hash */
        int64_t *slot = luo_map_at(&table->index, key, -1);
        if (!slot) return -1;
        if (*slot >= 0) {
            const op_name *known = &table->name[*slot];
            if (strcmp(known->op, op) == 0 && strcmp(known->kind, kind) == 0) return (int32_t)*slot;
            continue;
        }
        if (!grow(&table->name, table->n, &table->cap, sizeof *table->name)) return -1;
        table->name[table->n] =
            (op_name){luo_arena_strdup(table->arena, op), luo_arena_strdup(table->arena, kind)};
        if (!table->name[table->n].op || !table->name[table->n].kind) return -1;
        *slot = table->n;
        return table->n++;
    }
}

static int by_device_and_start(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

/* Of the last attempt: what no operation of a device covers, over its devices. */
static void end_attempt(run_ops *ops)
{
    double first_s = INFINITY, last_s = -INFINITY, covered_s = 0, until_s = -INFINITY;
    int32_t devices = 0;
    if (ops->nspan == 0) return;
    qsort(ops->span, (size_t)ops->nspan, sizeof *ops->span, by_device_and_start);
    for (int32_t i = 0; i < ops->nspan; i++) {
        const span *s = &ops->span[i];
        const bool next = i == 0 || s->device != s[-1].device;
        if (next) until_s = -INFINITY;
        devices += next;
        covered_s += fmax(s->end_s - fmax(s->start_s, until_s), 0);
        until_s = fmax(until_s, s->end_s);
        first_s = fmin(first_s, s->start_s);
        last_s = fmax(last_s, s->end_s);
    }
    ops->attempt[ops->nattempt - 1].idle_s = devices * (last_s - first_s) - covered_s;
    ops->nspan = 0;
}

/* Rows of one attempt stand together. */
static bool add_row(luo_op_table *table, run_ops *ops, const luo_csv_cell *cells)
{
    const attempt of = {cells[LUO_COL_OPS_step].whole, cells[LUO_COL_OPS_attempt].whole, 0};
    const span now = {cells[LUO_COL_OPS_device].whole, cells[LUO_COL_OPS_t_start_s].number,
                      cells[LUO_COL_OPS_t_end_s].number};
    const attempt *last = ops->nattempt ? &ops->attempt[ops->nattempt - 1] : NULL;
    if (!last || last->step != of.step || last->attempt != of.attempt) {
        end_attempt(ops);
        if (!grow(&ops->attempt, ops->nattempt, &ops->cap_attempt, sizeof *ops->attempt))
            return false;
        ops->attempt[ops->nattempt++] = of;
    }
    const int32_t op = op_of(table, cells[LUO_COL_OPS_op].text, cells[LUO_COL_OPS_kind].text);
    const int32_t at = ops->nattempt - 1;
    if (op < 0) return false;
    int64_t *slot = luo_map_at(&ops->index, (uint64_t)op << 32 | (uint32_t)at, -1);
    if (!slot || !grow(&ops->sum, ops->nsum, &ops->cap_sum, sizeof *ops->sum)) return false;
    if (*slot < 0) {
        *slot = ops->nsum;
        ops->sum[ops->nsum++] = (op_sum){op, at, 0, 0};
    }
    ops->sum[*slot].calls++;
    ops->sum[*slot].seconds += now.end_s - now.start_s;
    if (!grow(&ops->span, ops->nspan, &ops->cap_span, sizeof *ops->span)) return false;
    ops->span[ops->nspan++] = now;
    return true;
}

luo_status luo_op_table_read(luo_op_table *table, int32_t run, const luo_result *result,
                             luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_csv *in = luo_result_table(table->arena, result->dir, LUO_TABLE_OPS, diags);
    bool ok = true;
    while (ok && in && luo_csv_next(in, cells)) ok = add_row(table, &table->runs[run], cells);
    end_attempt(&table->runs[run]);
    const luo_status st = luo_csv_close(in);
    return ok ? st : LUO_ENOMEM;
}

typedef struct pair_sum {
    int64_t calls[2];
    double seconds[2];
} pair_sum;

static bool has_attempt(const run_ops *ops, const attempt *a)
{
    for (int32_t i = 0; i < ops->nattempt; i++)
        if (ops->attempt[i].step == a->step && ops->attempt[i].attempt == a->attempt) return true;
    return false;
}

/* Adds what run ops spent in attempts that `other` has as well. */
static void add_common(pair_sum *sum, int which, const run_ops *ops, const run_ops *other)
{
    for (int32_t i = 0; i < ops->nsum; i++) {
        const op_sum *s = &ops->sum[i];
        if (!has_attempt(other, &ops->attempt[s->attempt])) continue;
        sum[s->op].calls[which] += s->calls;
        sum[s->op].seconds[which] += s->seconds;
    }
}

/* What devices had no operation for, in attempts that both have. */
static void add_idle(pair_sum *sum, int which, const run_ops *ops, const run_ops *other)
{
    for (int32_t i = 0; i < ops->nattempt; i++) {
        if (!has_attempt(other, &ops->attempt[i])) continue;
        sum->calls[which]++;
        sum->seconds[which] += ops->attempt[i].idle_s;
    }
}

static void add_pair(pair_sum *to, const pair_sum *from)
{
    for (int k = 0; k < 2; k++) {
        to->calls[k] += from->calls[k];
        to->seconds[k] += from->seconds[k];
    }
}

static double error_of(const pair_sum *sum)
{
    return sum->seconds[0] > 0 ? sum->seconds[1] / sum->seconds[0] - 1 : NAN;
}

static luo_status put_row(luo_table *csv, const char *op, const char *kind, const pair_sum *sum,
                          luo_err *err)
{
    if (sum->calls[0] + sum->calls[1] == 0) return LUO_OK;
    luo_table_text(csv, LUO_COL_COMPARE_OPS_op, op);
    luo_table_text(csv, LUO_COL_COMPARE_OPS_kind, kind);
    luo_table_int(csv, LUO_COL_COMPARE_OPS_calls, sum->calls[0]);
    luo_table_num(csv, LUO_COL_COMPARE_OPS_reference_s, sum->seconds[0]);
    luo_table_num(csv, LUO_COL_COMPARE_OPS_other_s, sum->seconds[1]);
    luo_table_num(csv, LUO_COL_COMPARE_OPS_error_ratio, error_of(sum));
    return luo_table_end(csv, err);
}

/* `layers.12.mlp.down` -> `layers.*.mlp.down`, out NULL: the op of no layer. False: no memory. */
static bool of_all_layers(luo_arena *arena, const char *op, const char **out)
{
    static const char word[] = "layers.";
    luo_str text = {0};
    bool any = false;
    for (const char *at = op; *at;) {
        const size_t n = sizeof word - 1;
        const size_t digits = strncmp(at, word, n) == 0 ? strspn(at + n, "0123456789") : 0;
        if (digits == 0) {
            luo_str_addc(&text, *at++);
            continue;
        }
        luo_str_add(&text, "layers.*");
        at += n + digits;
        any = true;
    }
    const bool good = !text.failed;
    *out = any && good ? luo_arena_strdup(arena, luo_str_get(&text)) : NULL;
    luo_str_free(&text);
    return good && (!any || *out);
}

/* Ops of one name over all layers, in the order in which they first appear. */
static luo_status put_layers(luo_op_table *table, const pair_sum *sum, luo_table *csv, luo_err *err)
{
    bool *done = calloc((size_t)table->n + 1, sizeof *done);
    const char **name = calloc((size_t)table->n + 1, sizeof *name);
    luo_status st = done && name ? LUO_OK : luo_err_nomem(err);
    for (int32_t i = 0; st == LUO_OK && i < table->n; i++)
        if (!of_all_layers(table->arena, table->name[i].op, &name[i])) st = luo_err_nomem(err);
    for (int32_t i = 0; st == LUO_OK && i < table->n; i++) {
        pair_sum all = {0};
        if (done[i] || !name[i]) continue;
        for (int32_t k = i; k < table->n; k++) {
            if (!name[k] || strcmp(name[i], name[k]) ||
                strcmp(table->name[i].kind, table->name[k].kind))
                continue;
            done[k] = true;
            add_pair(&all, &sum[k]);
        }
        st = put_row(csv, name[i], table->name[i].kind, &all, err);
    }
    free(done);
    free(name);
    return st;
}

static void tell(luo_str *text, const char *what, const pair_sum *sum)
{
    const double error = error_of(sum);
    if (!text || sum->calls[0] + sum->calls[1] == 0) return;
    luo_str_addf(text, "  %-11s %12.6f s  %12.6f s", what, sum->seconds[0], sum->seconds[1]);
    if (isfinite(error)) luo_str_addf(text, "  %+8.2f %%", 100 * error);
    luo_str_add(text, "\n");
}

/* By kind of instruction, all together, and what is left of the devices' time. */
static luo_status put_kinds(luo_op_table *table, int32_t run, const pair_sum *sum, luo_table *csv,
                            luo_str *text, luo_err *err)
{
    pair_sum total = {0}, idle = {0};
    if (text)
        luo_str_add(text, "  devices x time, in the steps traced in both; a call begins when its "
                          "last rank has come\n");
    for (int kind = 0; kind <= LUO_INSTR_IO; kind++) {
        const char *name = luo_instr_kind_name((luo_instr_kind)kind);
        pair_sum all = {0};
        for (int32_t i = 0; i < table->n; i++)
            if (strcmp(table->name[i].kind, name) == 0) add_pair(&all, &sum[i]);
        LUO_TRY(put_row(csv, "*", name, &all, err));
        tell(text, name, &all);
        add_pair(&total, &all);
    }
    tell(text, "all", &total);
    add_idle(&idle, 0, &table->runs[0], &table->runs[run]);
    add_idle(&idle, 1, &table->runs[run], &table->runs[0]);
    tell(text, "waiting", &idle);
    LUO_TRY(put_row(csv, "*", "*", &total, err));
    return put_row(csv, "*.waiting", "*", &idle, err);
}

luo_status luo_op_table_write(luo_op_table *table, int32_t run, const char *out, const char *suffix,
                              luo_str *text, luo_err *err)
{
    luo_table csv = {0};
    luo_status st = LUO_OK;
    pair_sum *sum = calloc((size_t)table->n + 1, sizeof *sum);
    bool any = false;
    if (!sum) return luo_err_nomem(err);
    add_common(sum, 0, &table->runs[0], &table->runs[run]);
    add_common(sum, 1, &table->runs[run], &table->runs[0]);
    for (int32_t i = 0; i < table->n; i++) any |= sum[i].calls[0] + sum[i].calls[1] > 0;
    if (any) {
        st = luo_compare_open(table->arena, &csv, out, LUO_TABLE_COMPARE_OPS, suffix, err);
        for (int32_t i = 0; st == LUO_OK && i < table->n; i++)
            st = put_row(&csv, table->name[i].op, table->name[i].kind, &sum[i], err);
        if (st == LUO_OK) st = put_layers(table, sum, &csv, err);
        if (st == LUO_OK) st = put_kinds(table, run, sum, &csv, text, err);
    }
    const luo_status closed = luo_table_close(&csv, st == LUO_OK ? err : NULL);
    free(sum);
    return st == LUO_OK ? closed : st;
}
