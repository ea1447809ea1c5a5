/* A pool of strategies by the cost model, as a table that `luoshu plan hydraulis --pool` takes. */
#include <stdlib.h>

#include "cli/calibrate/calibrate.h"
#include "cli/lengths/plan_hydraulis.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"

/* The fewest digits that are read as the same number. */
static void put_number(luo_str *text, double v)
{
    char digits[32];
    int precision = 9;
    do snprintf(digits, sizeof digits, "%.*g", precision, v);
    while (precision++ < 17 && strtod(digits, NULL) != v);
    luo_str_addf(text, ",%s", digits);
}

/* What the table's columns hold (docs/formats.md#pool), in milliseconds; a fit may be below. */
static const double B_LEAST = 1e-12, C_LEAST = 1e-6;

/* What no device has room for is left out: a cap of 0 asks for one. */
static void put_rows(luo_str *text, const luo_pool *pool)
{
    for (int32_t k = 0; k < pool->n; k++) {
        const luo_pool_entry *entry = &pool->entry[k];
        if (entry->cap == 0) continue;
        luo_str_addf(text, "%d,%d", entry->tp, entry->pp);
        put_number(text, entry->a);
        put_number(text, entry->b > 0 ? entry->b : B_LEAST);
        put_number(text, entry->c < C_LEAST ? 0 : entry->c);
        luo_str_addf(text, ",%lld,%lld\n", (long long)entry->cap, (long long)entry->util);
    }
}

static void put_table(luo_str *text, const luo_hydraulis_call *call)
{
    const luo_input_table *table = &luo_input_table_pool;
    luo_str_addf(
        text, "# By the cost model: %s on %s, optimizer dp %d, tp %d, pp %d, up to %lld tokens.\n",
        call->model->name, call->cluster->name, call->layout.dp, call->layout.tp, call->layout.pp,
        (long long)call->in.rule.most);
    for (int i = 0; i < table->n; i++)
        luo_str_addf(text, "%s%s", i ? "," : "", table->columns[i].name);
    luo_str_addc(text, '\n');
    put_rows(text, &call->pool);
}

luo_status luo_calibrate_pool(luo_cli *cli, const char *dir)
{
    static const char *const others[] = {"backend", "ranks", "quick", "profile",
                                         "seed",    "fit",   "name",  "profile-dir"};
    luo_err err = {0};
    luo_str text = {0};
    luo_hydraulis_call *call = LUO_NEW(cli->arena, luo_hydraulis_call);
    const char *path = luo_arena_printf(cli->arena, "%s/pool.csv", dir);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (luo_args_has(&cli->args, others[i]))
            return luo_cli_error(cli, LUO_EUSAGE,
                                 "`--%s` is of measurements; a pool of the cost model does not "
                                 "need it.",
                                 others[i]);
    if (!call || !path) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    LUO_TRY(luo_cli_fail(cli, luo_hydraulis_model_pool(cli, call, &err), &err));
    put_table(&text, call);
    const luo_status st =
        text.failed ? luo_err_nomem(&err) : luo_file_write_own(path, text.at, text.len, &err);
    luo_str_free(&text);
    LUO_TRY(luo_cli_fail(cli, st, &err));
    luo_jsonw_text(&cli->json, "pool", path);
    fprintf(luo_cli_out(cli), "%s\n", path);
    return LUO_OK;
}
