/* pai.c: times of mini-batches of Alibaba's PAI trace: how slow each worker was, by iteration. */
#include <stdlib.h>

#include "core/io/convert/convert_internal.h"
#include "core/io/result/csv.h"

enum { WORKER, TIME, ITERATION, BATCH, COLUMNS };
static const luo_csv_column columns[COLUMNS] = {
    [WORKER] = {"worker", LUO_CSV_WHOLE, true, LUO_WITHIN(0, 131071), NULL, false, NULL},
    [TIME] = {"time", LUO_CSV_WHOLE, false, LUO_WITHIN(0, 1e9), NULL, false, NULL},
    [ITERATION] = {"iteration", LUO_CSV_WHOLE, false, LUO_WITHIN(0, 1e9), NULL, false, NULL},
    [BATCH] = {"batch_time_norm", LUO_CSV_NUMBER, true, LUO_ABOVE_TO(0, 1e12), NULL, false, NULL}};

typedef struct row {
    int64_t worker, iteration;
    double batch;
} row;

static int by_iteration(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->iteration != y->iteration) return x->iteration < y->iteration ? -1 : 1;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

static luo_status read_rows(convert_job *job, row **rows, int64_t *n)
{
    luo_csv_cell cells[COLUMNS];
    int64_t cap = 1;
    for (size_t i = 0; i < job->src.len; i++) cap += job->src.text[i] == '\n';
    *rows = LUO_NEW_N(job->arena, row, cap + 1);
    *n = 0;
    if (!*rows) return convert_nomem(job);
    luo_csv *csv = luo_csv_open_foreign(job->opts->source, columns, COLUMNS, job->diags);
    while (!luo_diags_full(job->diags, job->opts->source) && luo_csv_next(csv, cells)) {
        const luo_csv_cell *at = cells[TIME].given ? &cells[TIME] : &cells[ITERATION];
        if (!at->given) {
            luo_csv_error(csv, TIME, "`time`, the iteration, is missing.");
            continue;
        }
        if (*n <= cap) (*rows)[(*n)++] = (row){cells[WORKER].whole, at->whole, cells[BATCH].number};
    }
    return luo_csv_close(csv);
}

luo_status convert_pai(convert_job *job)
{
    row *rows;
    int64_t n, iterations = 0, most = 0;
    luo_str text = {0};
    LUO_TRY(read_rows(job, &rows, &n));
    if (n == 0) return convert_error(job, 0, 0, "there is no row in it.");
    qsort(rows, (size_t)n, sizeof *rows, by_iteration);
    double *batch = LUO_NEW_N(job->arena, double, n);
    if (!batch) return convert_nomem(job);
    luo_str_add(&text, "# luoshu import pai-minibatch: slowness beside the median worker; t_s is "
                       "the iteration\ndevice,rate,t_s\n");
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && rows[to].iteration == rows[from].iteration; to++)
            batch[to - from] = rows[to].batch;
        const double middle = median(batch, to - from);
        for (int64_t i = from; i < to; i++) {
            const double rate = rows[i].batch / middle;
            luo_str_addf(&text, "%lld,%.6g,%lld\n", (long long)rows[i].worker,
                         rate > 1 ? rate : 1.0, (long long)rows[i].iteration);
            if (rows[i].worker > most) most = rows[i].worker;
        }
        iterations++;
    }
    LUO_TRY(convert_add(job, "rates.csv", &text));
    return convert_say(job, "%lld rates of up to %lld workers in %lld iterations", (long long)n,
                       (long long)most + 1, (long long)iterations);
}
