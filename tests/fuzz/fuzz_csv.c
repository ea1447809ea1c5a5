/* tests/fuzz/fuzz_csv.c: libFuzzer target of the tables: each text is read by every table. */
#include "core/io/tables.h"
#include "tests/fuzz/fuzz_io.h"

static void read_all(luo_arena *arena, const luo_source *src, const luo_table *table)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_diags diags;
    luo_diags_init(&diags, arena);
    luo_csv *t = luo_csv_open(src, table->columns, table->n, &diags);
    while (luo_csv_next(t, cells))
        for (int i = 0; i < table->n; i++)
            want(cells[i].given || (!table->columns[i].required && !*cells[i].text));
    fuzz_judge(luo_csv_close(t), &diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_event *events;
    luo_cause *causes;
    luo_rate_row *rates;
    luo_file_kind kind;
    int n;
    int32_t count;
    const luo_source src = fuzz_source(arena, data, size);
    const luo_table *tables = luo_tables(&n);
    for (int i = 0; i < n; i++) read_all(arena, &src, &tables[i]);
    luo_diags_init(&diags, arena);
    fuzz_judge(luo_read_event_trace(arena, &src, NULL, 0, 2, &events, &count, &diags), &diags);
    luo_diags_init(&diags, arena);
    fuzz_judge(luo_read_causes(arena, &src, &causes, &count, &diags), &diags);
    luo_diags_init(&diags, arena);
    fuzz_judge(luo_read_rates_text(arena, &src, NULL, &rates, &count, &diags), &diags);
    luo_diags_init(&diags, arena);
    fuzz_judge(luo_file_kind_of_text(&src, &kind, &diags), &diags);
    luo_arena_free(arena);
    return 0;
}
