/* CSV as text cells. A reader of its own, so that a fault of the writer is not read back as good.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/storm/storm.h"

typedef struct reader {
    luo_arena *arena;
    char *at;          /* into the text, which becomes the cells */
    const char **cell; /* of all rows, the header too */
    int n, cap;
    bool failed;
} reader;

static void keep(reader *r, const char *cell)
{
    if (r->n == r->cap) {
        const int more = r->cap ? 2 * r->cap : 256;
        r->cell = luo_arena_grow(r->arena, r->cell, (size_t)r->cap * sizeof *r->cell,
                                 (size_t)more * sizeof *r->cell);
        r->cap = more;
        r->failed = !r->cell;
    }
    if (!r->failed) r->cell[r->n++] = cell;
}

/* The next cell; returns what ended it: a comma or a line end. */
static char take_cell(reader *r)
{
    char *to = r->at, *begin = to;
    const bool quoted = *r->at == '"';
    if (quoted) r->at++;
    for (;; r->at++) {
        if (quoted && r->at[0] == '"' && r->at[1] == '"')
            r->at++;
        else if (quoted ? *r->at == '"' : *r->at == ',' || *r->at == '\n')
            break;
        if (!*r->at) break;
        *to++ = *r->at;
    }
    if (quoted && *r->at == '"') r->at++;
    const char end = *r->at;
    if (*r->at) r->at++;
    *to = 0;
    keep(r, begin);
    return end;
}

static char *read_all(luo_arena *arena, const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) return NULL;
    const long size = ftell(f);
    char *text = size < 0 ? NULL : luo_arena_alloc(arena, (size_t)size + 1);
    rewind(f);
    *n = text ? fread(text, 1, (size_t)size, f) : 0;
    fclose(f);
    if (text) text[*n] = 0;
    return text;
}

static bool wrong(luo_str *why, const char *path, const char *what, int row)
{
    luo_str_addf(why, "%s: %s (line %d)\n", path, what, row);
    return false;
}

bool storm_sheet_read(luo_arena *arena, const char *path, storm_sheet *out, luo_str *why)
{
    size_t n = 0;
    reader r = {.arena = arena, .at = read_all(arena, path, &n)};
    *out = (storm_sheet){0};
    if (!r.at) return wrong(why, path, "cannot be read", 0);
    if (n == 0 || r.at[n - 1] != '\n' || strlen(r.at) != n)
        return wrong(why, path, "does not end with a whole row, or holds a 0 byte", 0);
    for (int row = 0, first = 0; *r.at; row++, first = r.n) {
        char end;
        do end = take_cell(&r);
        while (end == ',' && !r.failed);
        if (end != '\n') return wrong(why, path, "a cell has text behind its quotes", row + 1);
        if (row == 0) out->columns = r.n;
        if (r.n - first != out->columns) return wrong(why, path, "a row has other cells", row + 1);
        out->rows = row;
    }
    if (r.failed) return wrong(why, path, "out of memory", 0);
    out->name = r.cell;
    out->cell = r.cell + out->columns;
    return true;
}

int storm_sheet_column(const storm_sheet *t, const char *name)
{
    for (int i = 0; i < t->columns; i++)
        if (strcmp(t->name[i], name) == 0) return i;
    return -1;
}

const char *storm_cell(const storm_sheet *t, int row, const char *column)
{
    const int i = storm_sheet_column(t, column);
    return i < 0 ? "" : t->cell[row * t->columns + i];
}

bool storm_empty(const storm_sheet *t, int row, const char *column)
{
    return !*storm_cell(t, row, column);
}

double storm_number(const storm_sheet *t, int row, const char *column)
{
    const char *text = storm_cell(t, row, column);
    return *text ? strtod(text, NULL) : NAN;
}
