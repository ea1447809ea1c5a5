/* calibrate_rows.c: reading what was measured. */
#include <string.h>

#include "cli/calibrate/calibrate.h"
#include "core/base/vec.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"

static bool room(luo_arena *arena, void *list, int32_t n, int32_t *cap, size_t size)
{
    return n < *cap || luo_vec_grow32(arena, list, cap, size);
}

static bool add_op(luo_measured *measured, const luo_csv_cell *cells)
{
    if (!room(measured->arena, &measured->ops, measured->nops, &measured->cap_ops,
              sizeof *measured->ops))
        return false;
    const char *op = luo_arena_strdup(measured->arena, cells[LUO_OP_OP].text);
    measured->ops[measured->nops++] = (struct luo_measured_op){
        {op, (luo_dtype)cells[LUO_OP_DTYPE].whole, cells[LUO_OP_M].whole, cells[LUO_OP_N_].whole,
         cells[LUO_OP_K].whole, cells[LUO_OP_TIME].number * 1e-6},
        cells[LUO_OP_ROLE].whole == LUO_ROLE_VALIDATION};
    return op != NULL;
}

static bool add_comm(luo_measured *measured, struct luo_measured_comm row)
{
    if (!room(measured->arena, &measured->comm, measured->ncomm, &measured->cap_comm,
              sizeof *measured->comm))
        return false;
    measured->comm[measured->ncomm++] = row;
    return true;
}

static bool add_collective(luo_measured *measured, const luo_csv_cell *cells)
{
    return add_comm(measured,
                    (struct luo_measured_comm){
                        (int32_t)cells[LUO_CO_COLLECTIVE].whole,
                        (int32_t)cells[LUO_CO_DEVICES].whole, (int32_t)cells[LUO_CO_NODES].whole,
                        cells[LUO_CO_SIZE].number, cells[LUO_CO_TIME].number * 1e-6,
                        cells[LUO_CO_ROLE].whole == LUO_ROLE_VALIDATION});
}

static bool add_transfer(luo_measured *measured, const luo_csv_cell *cells)
{
    return add_comm(measured,
                    (struct luo_measured_comm){-1, 2, 1, cells[LUO_P2_SIZE].number,
                                               cells[LUO_P2_TIME].number * 1e-6,
                                               cells[LUO_P2_ROLE].whole == LUO_ROLE_VALIDATION});
}

enum { FACT_NAME, FACT_VALUE, FACTS };
static const luo_csv_column facts[FACTS] = {
    {"name", LUO_CSV_TEXT, true, LUO_FROM(0), NULL, false, NULL},
    {"value", LUO_CSV_NUMBER, true, LUO_WITHIN(-1e300, 1e300), NULL, false, NULL}};

static bool add_fact(luo_measured *measured, const luo_csv_cell *cells)
{
    if (!room(measured->arena, &measured->facts, measured->nfacts, &measured->cap_facts,
              sizeof *measured->facts))
        return false;
    const char *name = luo_arena_strdup(measured->arena, cells[FACT_NAME].text);
    measured->facts[measured->nfacts++] =
        (struct luo_measured_fact){name, cells[FACT_VALUE].number};
    return name != NULL;
}

typedef struct kind {
    const char *tells; /* a column that only this table has */
    const luo_csv_column *columns;
    int n;
    bool (*add)(luo_measured *m, const luo_csv_cell *c);
} kind;

static luo_status kind_of(luo_cli *cli, const luo_source *src, kind *out)
{
    const kind kinds[] = {
        {"collective", luo_input_table_collective_times.columns, luo_input_table_collective_times.n,
         add_collective},
        {"class", luo_input_table_p2p_times.columns, luo_input_table_p2p_times.n, add_transfer},
        {"op", luo_input_table_op_times.columns, luo_input_table_op_times.n, add_op},
        {"name", facts, FACTS, add_fact}};
    const char *at = src->text;
    while (*at == '#') at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
    const size_t end = strcspn(at, "\r\n");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].tells);
        for (const char *p = at; p < at + end; p += strcspn(p, ",\r\n") + 1)
            if (strcspn(p, ",\r\n") == n && strncmp(p, kinds[i].tells, n) == 0) {
                *out = kinds[i];
                return LUO_OK;
            }
    }
    return luo_cli_error(cli, LUO_EINPUT,
                         "`%s` is no table of op_times, collective_times or p2p_times; the columns "
                         "in its first line tell which.",
                         src->name);
}

/* The file's own name: a source says it, and the same tables elsewhere give the same profile. */
static bool name_file(luo_measured *measured, const kind *k, const char *path)
{
    const char **file = k->add == add_op         ? &measured->ops_file
                        : k->add == add_fact     ? &measured->facts_file
                        : k->add == add_transfer ? &measured->messages_file
                                                 : NULL;
    const char *slash = strrchr(path, '/');
    if (!file) return true;
    *file = luo_arena_strdup(measured->arena, slash ? slash + 1 : path);
    return *file != NULL;
}

luo_status luo_measured_read(luo_cli *cli, luo_measured *measured, const char *path)
{
    luo_source src;
    luo_err err = {0};
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    kind k = {0};
    measured->arena = cli->arena;
    luo_status st = luo_source_read(cli->arena, path, &src, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    LUO_TRY(kind_of(cli, &src, &k));
    luo_csv *csv = luo_csv_open(&src, k.columns, k.n, &cli->diags);
    bool ok = name_file(measured, &k, path);
    while (ok && luo_csv_next(csv, cell)) ok = k.add(measured, cell);
    st = luo_csv_close(csv);
    return ok ? st : luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
}

double luo_measured_fact(const luo_measured *measured, const char *name, double otherwise)
{
    for (int32_t i = 0; i < measured->nfacts; i++)
        if (strcmp(measured->facts[i].name, name) == 0) return measured->facts[i].value;
    return otherwise;
}
