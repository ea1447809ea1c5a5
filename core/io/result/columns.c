#include "core/io/result/columns.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define LUO_TABLE(id, file, help) static const luo_column columns_of_##id[] = {
#define LUO_COLUMN(id, name, kind, empty, help) {#name, LUO_CELL_##kind, LUO_CELL_##empty, help},
#define LUO_TABLE_END(id) };
#include "core/io/result/columns.inc"

static const luo_table_def defs[LUO_TABLES] = {
#define LUO_TABLE(id, file, help) {file, help, LUO_COLUMNS_##id, columns_of_##id},
#define LUO_COLUMN(id, name, kind, empty, help)
#define LUO_TABLE_END(id)
#include "core/io/result/columns.inc"
};

const luo_table_def *luo_table_def_at(luo_table_id id)
{
    assert((int)id >= 0 && id < LUO_TABLES);
    return &defs[id];
}

const luo_table_def *luo_table_def_find(const char *file)
{
    for (int i = 0; i < LUO_TABLES; i++)
        if (strcmp(defs[i].file, file) == 0) return &defs[i];
    return NULL;
}

void luo_table_def_header(luo_str *text, const luo_table_def *def)
{
    for (int32_t i = 0; i < def->n; i++)
        luo_str_addf(text, "%s%s", i ? "," : "", def->columns[i].name);
    luo_str_addc(text, '\n');
}

int32_t luo_table_def_column(const luo_table_def *def, const char *name)
{
    for (int32_t i = 0; i < def->n; i++)
        if (strcmp(def->columns[i].name, name) == 0) return i;
    return -1;
}
