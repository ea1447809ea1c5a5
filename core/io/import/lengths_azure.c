/* lengths_azure.c: traces of requests as Azure publishes them (AzurePublicDataset,
 * AzureLLMInferenceTrace): a request a row, in order of time. */
#include "core/io/import/import_internal.h"
#include "core/io/result/csv.h"

enum { TIME, CONTEXT, GENERATED, COLUMNS };
static const luo_csv_column columns[COLUMNS] = {
    [TIME] = {"TIMESTAMP", LUO_CSV_TEXT, true, LUO_FROM(0), NULL, false, NULL},
    [CONTEXT] = {"ContextTokens", LUO_CSV_WHOLE, true, LUO_WITHIN(0, 9007199254740992.0), NULL,
                 false, NULL},
    [GENERATED] = {"GeneratedTokens", LUO_CSV_WHOLE, true, LUO_WITHIN(0, 9007199254740992.0), NULL,
                   false, NULL}};

/* False: it is said. */
static bool arrival_of(luo_csv *csv, const luo_csv_cell *cells, int64_t *first, int64_t *ns)
{
    int64_t at;
    if (!luo_import_time(cells[TIME].text, &at)) {
        luo_csv_error(csv, TIME,
                      "`TIMESTAMP` is `%.60s`; a date and a time such as "
                      "2023-11-16 18:15:46.6805900 are expected.",
                      cells[TIME].text);
        return false;
    }
    if (*first == INT64_MIN) *first = at;
    *ns = import_arrival(at, *first);
    if (*ns < 0)
        luo_csv_error(csv, TIME,
                      "`TIMESTAMP` is %s the first row's; rows in order of time are expected.",
                      at < *first ? "before" : "more than 4e9 s after");
    return *ns >= 0;
}

luo_status import_azure(import_job *job)
{
    luo_csv_cell cells[COLUMNS];
    const char *path = job->opts->source, *name;
    luo_csv *csv = luo_csv_open_foreign(path, columns, COLUMNS, job->diags);
    luo_status st = LUO_OK;
    int64_t first = INT64_MIN, ns;
    for (int i = 0; st == LUO_OK && (name = luo_csv_unused(csv, i)); i++)
        st = import_unused(job, name);
    while (st == LUO_OK && !luo_diags_full(job->diags, path) && luo_csv_next(csv, cells)) {
        if (!arrival_of(csv, cells, &first, &ns)) continue;
        st = import_put(job, import_request(job, cells[CONTEXT].whole, cells[GENERATED].whole), ns,
                        path, luo_csv_line(csv), 1);
    }
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}
