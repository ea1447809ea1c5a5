# Lengths that stand in a text, a number a line.
row='add a kind of import'
steps() {
    cat >core/io/import/lengths_list.c <<'X' &&
#include "core/io/import/import_internal.h"
#include "core/io/result/csv.h"

luo_status import_list(import_job *job)
{
    static const luo_csv_column columns[] = {
        {"length", LUO_CSV_WHOLE, true, LUO_FROM(0), NULL, false, NULL}};
    luo_csv_cell cell;
    luo_csv *csv = luo_csv_open_foreign(job->opts->source, columns, 1, job->diags);
    luo_status st = LUO_OK;
    while (st == LUO_OK && luo_csv_next(csv, &cell))
        st = import_put(job, cell.whole, IMPORT_NO_ARRIVAL, job->opts->source, luo_csv_line(csv),
                        1);
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}
X
        cat >>core/io/import/importers.inc <<'X' &&
LUO_IMPORTER(LIST, "lengths-list", import_list, 0, "a table with length")
X
        insert after docs/formats.md '| `lengths-tokens` | a file that' <<'X'
| `lengths-list` | a table with length | - | `length` | - |
X
}
show() {
    printf 'length,x\n7,1\n3,1\n' >"$tmp/list" && "$LUOSHU" import lengths-list "$tmp/list" --out "$tmp/lengths.csv" &&
        [ "$(tail -n 1 "$tmp/lengths.csv")" = 3 ] && "$LUOSHU" help import | grep -q 'lengths-list: a table' &&
        "$B/tests/unit/check_docs"
}
