/* fuzz_csv.c: libFuzzer target of the tables: a text is read by the table whose header
 * is nearest, as `check` does, so that an execution is one reading and not one by each table. */
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"
#include "tests/fuzz/fuzz_io.h"

static void read_cells(const luo_source *src, const luo_input_table *table, luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_csv *t = luo_csv_open(src, table->columns, table->n, diags);
    while (luo_csv_next(t, cells))
        for (int i = 0; i < table->n; i++)
            want(cells[i].given || (!table->columns[i].required && !*cells[i].text));
    fuzz_judge(luo_csv_close(t), diags);
}

static void read_meaning(luo_arena *arena, const luo_source *src, const luo_input_table *table,
                         luo_diags *diags)
{
    luo_event *events;
    luo_cause *causes;
    luo_rate_row *rates;
    int32_t n;
    if (table->columns == luo_input_table_events.columns)
        fuzz_judge(luo_read_event_trace(arena, src, NULL, 0, 2, &events, &n, diags), diags);
    else if (table->columns == luo_input_table_causes.columns)
        fuzz_judge(luo_read_causes(arena, src, &causes, &n, diags), diags);
    else if (table->columns == luo_input_table_rates.columns)
        fuzz_judge(luo_read_rates_text(arena, src, NULL, &rates, &n, diags), diags);
    else
        read_cells(src, table, diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_file_kind kind;
    int n;
    luo_source src = fuzz_source(arena, data, size);
    luo_diags_init(&diags, arena);
    fuzz_judge(luo_file_kind_of_text(&src, &kind, &diags), &diags);
    src.name = "fuzz.csv";
    const luo_input_table *const *all = luo_input_tables(&n);
    const luo_input_table *table = luo_input_table_of(&src);
    luo_diags_init(&diags, arena);
    read_meaning(arena, &src, table ? table : all[size % (size_t)n], &diags);
    luo_arena_free(arena);
    return 0;
}
