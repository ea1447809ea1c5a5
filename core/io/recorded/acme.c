/* acme.c: jobs of AcmeTrace (trace_seren.csv, trace_kalos.csv) that failed, as failures of nodes.
 *
 * A job may fail for a fault of its own: what comes out is a bound, which a warning says. */
#include <stdlib.h>
#include <string.h>

#include "core/cost/cluster.h"
#include "core/io/convert/convert_internal.h"
#include "core/io/import/import.h"
#include "core/io/result/csv.h"

enum { GPUS, STATE, END, FAIL, COLUMNS };
static const luo_csv_column columns[COLUMNS] = {
    [GPUS] = {"gpu_num", LUO_CSV_NUMBER, true, LUO_WITHIN(0, 1e9), NULL, false, NULL},
    [STATE] = {"state", LUO_CSV_TEXT, true, {0}, NULL, false, NULL},
    [END] = {"end_time", LUO_CSV_TEXT, false, {0}, NULL, false, NULL},
    [FAIL] = {"fail_time", LUO_CSV_TEXT, false, {0}, NULL, false, NULL}};

/* Time to repair is not in the trace: chosen, as in traces/causes.csv. */
static const int REPAIR_S = 3600;

typedef struct failures {
    convert_job *job;
    int64_t *ns; /* when they were */
    int64_t n, cap, rows, small;
} failures;

static bool failed(const char *state)
{
    return strcmp(state, "FAILED") == 0 || strcmp(state, "NODE_FAIL") == 0;
}

/* fail_time where the table has one, else the end of the job. */
static luo_status read_row(failures *f, luo_csv *csv, const luo_csv_cell *cells)
{
    const int column = cells[FAIL].given ? FAIL : END;
    int64_t ns;
    f->rows++;
    if (!failed(cells[STATE].text)) return LUO_OK;
    if (cells[GPUS].number < (double)f->job->opts->min_gpus) {
        f->small++;
        return LUO_OK;
    }
    if (!luo_import_time(cells[column].text, &ns))
        return luo_csv_error(
            csv, column, "`%s` is `%.40s`; a time such as 2023-05-17 11:00:58+00:00 is expected.",
            columns[column].name, cells[column].text);
    if (f->n == f->cap) {
        const int64_t cap = f->cap ? 2 * f->cap : 1024;
        int64_t *more = realloc(f->ns, (size_t)cap * sizeof *more);
        if (!more) return convert_nomem(f->job);
        f->ns = more;
        f->cap = cap;
    }
    f->ns[f->n++] = ns;
    return LUO_OK;
}

static luo_status read_rows(failures *f)
{
    luo_csv_cell cells[COLUMNS];
    luo_csv *csv = luo_csv_open_foreign(f->job->opts->source, columns, COLUMNS, f->job->diags);
    luo_status st = LUO_OK;
    while (!luo_diags_full(f->job->diags, f->job->opts->source) && luo_csv_next(csv, cells)) {
        const luo_status one = read_row(f, csv, cells);
        if (st == LUO_OK) st = one;
    }
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* What one is drawn from when an event fires. */
static luo_status check_units(convert_job *job)
{
    const char *units = job->opts->units;
    const bool node = units && strncmp(units, "node:", 5) == 0 && units[5];
    const bool device = units && strncmp(units, "device:[", 8) == 0 && strchr(units, ']');
    if ((node || device) && !strpbrk(units, "\n\r\"")) return LUO_OK;
    if (units)
        return convert_usage(job,
                             "`--units` is `%.60s`; node:GROUP, or devices such as device:[0-31], "
                             "are expected.",
                             units);
    return convert_usage(job, "`--units` is missing: jobs do not say which nodes they were on; "
                              "node:GROUP, or devices such as device:[0-31], are expected.");
}

static luo_status write_events(failures *f)
{
    luo_str text = {0};
    const char *units = f->job->opts->units, *quote = strchr(units, ',') ? "\"" : "";
    luo_str_addf(&text,
                 "# luoshu import acme-jobs --units %s --min-gpus %lld\n"
                 "# jobs that failed, which may have failed by themselves; time to repair "
                 "chosen\nt_s,kind,target,duration_s,id\n",
                 units, (long long)f->job->opts->min_gpus);
    for (int64_t i = 0; i < f->n; i++)
        luo_str_addf(&text, "%.9g,fail,%sany %s%s,%d,job-%lld\n",
                     (double)(f->ns[i] - f->ns[0]) / 1e9, quote, units, quote, REPAIR_S,
                     (long long)i + 1);
    return convert_add(f->job, "events.csv", &text);
}

static luo_status write_causes(failures *f)
{
    luo_str text = {0};
    luo_str_addf(&text,
                 "# luoshu import acme-jobs: jobs that failed, which may have failed by "
                 "themselves; time to repair chosen\ncause,kind,scope,count,life_median_s\n"
                 "failed-job,fail,node,%lld,%d\n",
                 (long long)f->n, REPAIR_S);
    return convert_add(f->job, "causes.csv", &text);
}

static luo_status make_all(failures *f)
{
    LUO_TRY(check_units(f->job));
    LUO_TRY(read_rows(f));
    if (f->n == 0)
        return convert_error(f->job, 0, 0,
                             "of %lld jobs none is FAILED or NODE_FAIL on %lld GPUs and more.",
                             (long long)f->rows, (long long)f->job->opts->min_gpus);
    qsort(f->ns, (size_t)f->n, sizeof *f->ns, by_time);
    LUO_TRY(write_events(f));
    LUO_TRY(write_causes(f));
    convert_note(
        f->job, LUO_WARNING,
        "jobs that failed are not failures of hardware: most end by a fault of their own.");
    const double span_s = (double)(f->ns[f->n - 1] - f->ns[0]) / 1e9;
    convert_note(f->job, LUO_NOTE,
                 "a process of kind `causes` needs `observed_s` %.0f and `observed_devices`, the "
                 "GPUs of the cluster that the trace is of.",
                 span_s);
    return convert_say(f->job,
                       "%lld of %lld jobs failed on %lld GPUs and more over %.6g s (%lld on fewer)",
                       (long long)f->n, (long long)f->rows, (long long)f->job->opts->min_gpus,
                       span_s, (long long)f->small);
}

luo_status convert_acme(convert_job *job)
{
    failures f = {.job = job};
    const luo_status st = make_all(&f);
    free(f.ns);
    return st;
}
