/* check_hostile.c: what was written by others is data, whatever it says: every figure is drawn of
 * tables and folders whose names hold quotes, backticks, $( ), @, newlines, formats and markup, and
 * no command among them runs; links in folders of others are replaced, not followed. Run from the
 * root of the repository. */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/process.h"
#include "core/base/utf8.h"
#include "core/io/compare/compare.h"
#include "core/io/files.h"
#include "core/io/plot/plots.h"
#include "core/io/result/result.h"
#include "core/io/result/table.h"
#include "tests/plots_fixture.h"

#define MARK "luoshu-marker"

/* No slash in them: they are names of folders, too. Whoever runs one leaves MARK somewhere. */
static const char *const hostile[] = {
    "`touch " MARK "`",
    "$(touch " MARK ")",
    "'.system('touch " MARK "').'",
    "\".system(\"touch " MARK "\").\"",
    "a\"; system('touch " MARK "') #",
    "a'; system('touch " MARK "') #",
    "<touch " MARK,
    "|touch " MARK,
    "!touch " MARK,
    "@title @m",
    "a\nsystem 'touch " MARK "'\n!touch " MARK "\n",
    "100% %s %n %d %*d %q",
    "{x}_y^z &{w} ~a{b}",
    "\\",
    "it's 'quoted' ''twice'",
    "a,b;c \"d\"",
    "=1+1",
    "\t=1+1",
    " @SUM(1)",
    "  -2+3",
    "\xc3\xbc \x1b[31m\x1b]0;t\x07",
};
enum { HOSTILE = LUO_ROWS(hostile), TABLE_ROWS = 2 * HOSTILE };

static bool skip(void)
{
    if (luo_plot_possible(NULL)) return false;
    printf("skipped: gnuplot is not installed\n");
    return true;
}

static int marks; /* nftw hands nothing on */

static int count_marks(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind;
    marks += strcmp(path + where->base, MARK) == 0;
    return 0;
}

static void no_marks(const char *dir, const char *what)
{
    marks = access(MARK, F_OK) == 0; /* where we stand */
    nftw(dir, count_marks, 16, FTW_PHYS);
    ck_assert_msg(marks == 0, "%s runs a command of its data", what);
}

static const char *root(luo_arena *arena)
{
    char here[2048];
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    return luo_arena_strdup(arena, here);
}

/* ---- every figure, of tables made here ---- */

/* Word k of what the help of a column lists: the values that scripts look for are there. */
static const char *listed(const luo_column *column, int k, char out[64])
{
    const char *list = strrchr(column->help, ':') ? strrchr(column->help, ':') + 1 : column->help;
    int n = 0;
    if (strcmp(column->name, "members") == 0) return "0 1";
    if (strcmp(column->name, "leader_fits") == 0) return "yes";
    for (const char *at = list + strspn(list, " "); *at; n++)
        at += strcspn(at, " "), at += strspn(at, " ");
    k %= n;
    for (list += strspn(list, " "); k > 0; k--)
        list += strcspn(list, " "), list += strspn(list, " ");
    snprintf(out, 64, "%.*s", (int)strcspn(list, " "), list);
    return out;
}

static bool is_one_of(const char *name, const char *names)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(names, word) != NULL;
}

static const char *text_cell(const luo_column *column, int row, const char *figure, char out[64])
{
    if (strcmp(column->name, "figure") == 0)
        return row % 4 == 3 ? listed(column, row / 4, out) : figure;
    if (strcmp(column->name, "members") == 0) return "0 1"; /* numbers */
    return row % 2 ? hostile[row / 2 % HOSTILE] : listed(column, row / 2, out);
}

static void put_cell(luo_table *table, const luo_column *column, int32_t c, int row,
                     const char *figure)
{
    char word[64];
    if (column->kind == LUO_CELL_TEXT)
        luo_table_text(table, c, text_cell(column, row, figure, word));
    else if (column->kind != LUO_CELL_INT)
        luo_table_num(table, c, 0.5 + 0.1 * row);
    else if (is_one_of(column->name, " plan lane guard iteration numeric "))
        luo_table_int(table, c, 0);
    else if (is_one_of(column->name, " worker row rank key "))
        luo_table_int(table, c, row % 4);
    else if (strcmp(column->name, "bytes") == 0)
        luo_table_int(table, c, 2048LL << 4 * (row % 4));
    else
        luo_table_int(table, c, 2 + row % 4);
}

static void put_table(const char *dir, const luo_table_def *def, const char *figure)
{
    luo_table table;
    luo_err err = {0};
    ck_assert_msg(luo_table_open(&table, dir, def, &err) == LUO_OK, "%s", err.text);
    for (int row = 0; row < TABLE_ROWS; row++) {
        for (int32_t c = 0; c < def->n; c++) put_cell(&table, &def->columns[c], c, row, figure);
        ck_assert_msg(luo_table_end(&table, &err) == LUO_OK, "%s", err.text);
    }
    ck_assert_int_eq(luo_table_close(&table, &err), LUO_OK);
}

/* The tables that the comment at the head of a script names, with those of every figure. */
static void put_tables(luo_arena *arena, const char *dir, const char *script, const char *figure)
{
    luo_source source;
    luo_err err;
    int n = 0;
    ck_assert_int_eq(luo_source_read(arena, script, &source, &err), LUO_OK);
    for (int id = 0; id < LUO_TABLES; id++) {
        const luo_table_def *def = luo_table_def_at(id);
        const bool beside = id >= LUO_TABLE_PLOT_TIMELOST && id <= LUO_TABLE_PLOT_SWEPT;
        const char *named = luo_arena_printf(arena, "%s%s", beside ? "plots/" : " ", def->file);
        if (id != LUO_TABLE_PLOT_TIMELOST && !strstr(source.text, named)) continue;
        put_table(beside ? luo_arena_printf(arena, "%s/plots", dir) : dir, def, figure);
        n += id != LUO_TABLE_PLOT_TIMELOST || strstr(source.text, named);
    }
    ck_assert_msg(n > 0, "%s names no table that it reads", script);
}

static int stand_in(void *dir)
{
    return chdir(dir);
}

/* As by hand: plots/README.md. */
static void draw(luo_arena *arena, const char *dir, const char *script, const char *figure,
                 const char *more)
{
    char said[4096] = "";
    const char *vars = luo_arena_printf(arena, "run='.'; out='%s'; %s", figure, more);
    const char *const argv[] = {"gnuplot", "-d", "-e", vars, script, NULL};
    const int log = open(luo_arena_printf(arena, "%s/log", dir), O_RDWR | O_CREAT | O_TRUNC, 0666);
    const luo_process_opts opts = {.inside = stand_in,
                                   .ctx = (void *)dir,
                                   .argv = argv,
                                   .no_input = true,
                                   .out = log,
                                   .err = log};
    luo_process process;
    struct stat info;
    ck_assert_int_eq(luo_process_start(&opts, &process, NULL), LUO_OK);
    luo_process_wait(&process, INFINITY);
    ck_assert_int_ge(pread(log, said, sizeof said - 1, 0), 0);
    close(log);
    no_marks(dir, script);
    ck_assert_msg(luo_process_code(&process) == 0, "%s: %s", script, said);
    const char *svg = luo_arena_printf(arena, "%s/%s.svg", dir, figure);
    ck_assert_msg(stat(svg, &info) == 0 && info.st_size > 500, "%s draws nothing: %s", script,
                  said);
}

START_TEST(scripts)
{
    const char *figure = luo_plot_figure(_i);
    luo_err err;
    if (skip() || !figure) return;
    luo_arena *arena = luo_arena_new(1 << 16);
    const char *dir = fix_dir(arena, "hostile");
    const char *script = luo_arena_printf(arena, "%s/plots/%s.gp", root(arena), figure);
    ck_assert_int_eq(luo_file_make_dir(luo_arena_printf(arena, "%s/plots", dir), &err), LUO_OK);
    put_tables(arena, dir, script, figure);
    draw(arena, dir, script, figure, "");
    if (strcmp(figure, "goodput") == 0) draw(arena, dir, script, figure, "bands=1; ");
    fix_remove(arena, dir);
    luo_arena_free(arena);
}
END_TEST

/* ---- whole folders ---- */

enum { NAMES = 3, OF_A_NAME = HOSTILE / NAMES };
_Static_assert(NAMES *OF_A_NAME == HOSTILE, "each text is in one of the names");

/* Several of them in one name. */
static const char *name_of(luo_arena *arena, int i)
{
    luo_str name = {0};
    for (int k = 0; k < OF_A_NAME; k++) luo_str_add(&name, hostile[i % NAMES * OF_A_NAME + k]);
    const char *copy = luo_arena_strdup(arena, luo_str_get(&name));
    luo_str_free(&name);
    return copy;
}

static bool is_made(const char *made, const char *dir, const char *name)
{
    luo_str path = {0};
    luo_arena *arena = luo_arena_new(1 << 12);
    luo_str_addf(&path, "%s/plots/%s.png\n", luo_result_shown(arena, dir), name);
    const bool found = strstr(made, luo_str_get(&path)) != NULL && !luo_utf8_drives(made);
    luo_arena_free(arena);
    luo_str_free(&path);
    return found;
}

/* Long names may be told to leave little room. */
static void no_errors(const luo_diags *diags)
{
    for (const luo_diag *x = diags->first; x; x = x->next)
        ck_assert_msg(x->severity != LUO_ERROR, "%s", x->err.text);
}

static void compare_and_plot(fixture *f, const char *dir, const char *const *runs, luo_str *made)
{
    const luo_compare_opts o = {.paths = runs, .npaths = 2, .out = dir};
    const luo_plot_opts plot = {.dir = dir,
                                .scripts = luo_arena_printf(f->arena, "%s/plots", root(f->arena))};
    luo_str text = {0};
    luo_diags diags;
    luo_diags_init(&diags, f->arena);
    ck_assert_int_eq(luo_compare(f->arena, &o, &text, &diags), LUO_OK);
    ck_assert_int_eq(luo_plot(f->arena, &plot, made, &diags), LUO_OK);
    no_errors(&diags);
    luo_str_free(&text);
}

/* compare.csv, which names the runs of a set, is made of lines of what can be shown. */
static const char *on_one_line(char *text)
{
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    return text;
}

/* A set of two runs in a folder of a hostile name, whose names, events and targets are, too. */
START_TEST(folders)
{
    static const char *const of_set[] = {"throughput", "goodput", "stepcdf", "timelost",
                                         "breakdown"};
    static const char *const of_run[] = {"gantt", "memory", "switch", "slowdown", "links"};
    fixture *f = fix_new();
    const char *top = fix_dir(f->arena, "folders");
    const char *first = name_of(f->arena, _i);
    const char *next = on_one_line(luo_arena_strdup(f->arena, name_of(f->arena, _i + 1)));
    const char *last = name_of(f->arena, _i + 2);
    const char *dir = luo_arena_printf(f->arena, "%s/%s", top, first);
    const char *const runs[] = {luo_arena_printf(f->arena, "%s/%s", dir, next),
                                luo_arena_printf(f->arena, "%s/plain", dir)};
    luo_str made = {0};
    if (skip()) return;
    fix_run_of(f, dir, next, 12, 1, false, last, first);
    fix_run_of(f, dir, "plain", 8, 1.5, false, "gpu1", last);
    compare_and_plot(f, dir, runs, &made);
    no_marks(top, first);
    for (int k = 0; k < LUO_ROWS(of_set); k++)
        ck_assert_msg(is_made(luo_str_get(&made), dir, of_set[k]), "%s: %s", dir, of_set[k]);
    for (int k = 0; k < LUO_ROWS(of_run); k++)
        ck_assert_msg(is_made(luo_str_get(&made), runs[0], of_run[k]), "%s: %s", dir, of_run[k]);
    luo_str_free(&made);
    fix_remove(f->arena, top);
    luo_arena_free(f->arena);
}
END_TEST

/* Lengths have names of files, and `validate` names of suites, from its table of points. */
START_TEST(lengths_and_suites)
{
    static const luo_length_row rows[] = {{1, 30, 4}, {40, 900, 2}};
    const luo_lengths lengths = {.kind = LUO_LENGTH_HISTOGRAM, .nrows = 2, .rows = rows};
    fixture *f = fix_new();
    const char *top = fix_dir(f->arena, "suites");
    const char *name = name_of(f->arena, _i), *dir = luo_arena_printf(f->arena, "%s/%s", top, name);
    const char *plots = luo_arena_printf(f->arena, "%s/plots", dir);
    const luo_plot_opts o = {.dir = dir,
                             .scripts = luo_arena_printf(f->arena, "%s/plots", root(f->arena))};
    luo_plot_lengths one = {.name = name, .from = name, .lengths = &lengths};
    luo_str made = {0};
    luo_diags diags;
    luo_err err;
    if (skip()) return;
    luo_diags_init(&diags, f->arena);
    ck_assert_int_eq(luo_file_make_dir(plots, &err), LUO_OK);
    put_table(dir, luo_table_def_at(LUO_TABLE_VALIDATE), "");
    put_table(plots, luo_table_def_at(LUO_TABLE_PLOT_PREDICTED), "");
    put_table(plots, luo_table_def_at(LUO_TABLE_PLOT_BANDS), "");
    put_table(plots, luo_table_def_at(LUO_TABLE_PLOT_SEEDS_KEPT), "");
    put_table(plots, luo_table_def_at(LUO_TABLE_PLOT_PAIRED), "");
    ck_assert_int_eq(luo_plot_compared(f->arena, &o, name, &made, &diags), LUO_OK);
    ck_assert_int_eq(luo_plot_distribution(f->arena, &o, &one, 1, &made, &diags), LUO_OK);
    no_errors(&diags);
    no_marks(top, name);
    ck_assert(is_made(luo_str_get(&made), dir, "predicted") &&
              is_made(luo_str_get(&made), dir, "errorbox") &&
              is_made(luo_str_get(&made), dir, "goodput") &&
              is_made(luo_str_get(&made), dir, "lengthcdf"));
    luo_str_free(&made);
    fix_remove(f->arena, top);
    luo_arena_free(f->arena);
}
END_TEST

/* ---- cells ---- */

/* What a file of ours holds of a text that drives a terminal. */
static const char *kept_text(const char *text, char out[256])
{
    luo_utf8_show(out, 256, text);
    return out;
}

/* A table is written and read; nothing of it drives a terminal, or is computed by a spreadsheet. */
static void write_and_read(const char *dir, const char *const *texts, int n)
{
    const luo_table_def *def = luo_table_def_at(LUO_TABLE_PLOT_MARKS);
    luo_arena *arena = luo_arena_new(1 << 14);
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_table table;
    luo_source source;
    luo_diags diags;
    luo_err err = {0};
    char want[256];
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_table_open(&table, dir, def, &err), LUO_OK);
    for (int i = 0; i < n; i++) {
        luo_table_text(&table, LUO_COL_PLOT_MARKS_run, texts[i]);
        luo_table_num(&table, LUO_COL_PLOT_MARKS_t_s, i);
        luo_table_text(&table, LUO_COL_PLOT_MARKS_kind, texts[i]);
        luo_table_text(&table, LUO_COL_PLOT_MARKS_label, texts[i]);
        ck_assert_int_eq(luo_table_end(&table, &err), LUO_OK);
    }
    ck_assert_int_eq(luo_table_close(&table, &err), LUO_OK);
    const char *path = luo_arena_printf(arena, "%s/%s", dir, def->file);
    ck_assert_int_eq(luo_source_read(arena, path, &source, &err), LUO_OK);
    ck_assert(!luo_utf8_drives(source.text) && !strchr(source.text, '\r'));
    for (const char *at = source.text; *at; at++)
        if (*at == ',' || (*at == '"' && at[-1] == ','))
            ck_assert_msg(!strchr("=+@", at[1]), "a cell begins so: %.20s", at + 1);
    luo_csv *csv = luo_result_table(arena, dir, LUO_TABLE_PLOT_MARKS, &diags);
    for (int i = 0; i < n; i++) {
        ck_assert(luo_csv_next(csv, cells));
        ck_assert_str_eq(cells[LUO_COL_PLOT_MARKS_label].text, kept_text(texts[i], want));
    }
    ck_assert_int_eq(luo_csv_close(csv), LUO_OK);
    luo_arena_free(arena);
}

START_TEST(written_cells)
{
    static const char *const more[] = {"=cmd|' /C calc'!A0",
                                       "'=1",
                                       "''=1",
                                       "+49 30",
                                       "-",
                                       "-1",
                                       "@SUM(1)",
                                       "'",
                                       "'a",
                                       "=",
                                       "\x7f",
                                       "\xc2\x9b"
                                       "31m",
                                       "\r"};
    luo_arena *arena = luo_arena_new(1 << 12);
    const char *dir = fix_dir(arena, "cells");
    luo_err err;
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    write_and_read(dir, hostile, HOSTILE);
    write_and_read(dir, more, LUO_ROWS(more));
    fix_remove(arena, dir);
    luo_arena_free(arena);
}
END_TEST

/* A table of others with control characters is refused, with the place. */
START_TEST(cells_of_others)
{
    static const char text[] = "t_s,kind,label\n1,fail,\x1b]0;t\x07\n";
    luo_arena *arena = luo_arena_new(1 << 12);
    const char *dir = fix_dir(arena, "others");
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_diags diags;
    luo_err err;
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_file_make_dir(dir, &err), LUO_OK);
    ck_assert_int_eq(luo_file_write_own(luo_arena_printf(arena, "%s/marks.csv", dir), text,
                                        sizeof text - 1, &err),
                     LUO_OK);
    luo_csv *csv = luo_result_table(arena, dir, LUO_TABLE_PLOT_MARKS, &diags);
    ck_assert(!luo_csv_next(csv, cells));
    ck_assert_int_eq(luo_csv_close(csv), LUO_EINPUT);
    ck_assert_int_eq(diags.first->err.line, 2);
    ck_assert_int_eq(diags.first->err.col, 3);
    ck_assert_str_eq(diags.first->err.text,
                     "`label` holds control characters; a text is expected.");
    fix_remove(arena, dir);
    luo_arena_free(arena);
}
END_TEST

/* scripts is called for this many figures; there are no more. */
enum { FIGURES_MOST = 64 };

START_TEST(all_figures)
{
    ck_assert_ptr_null(luo_plot_figure(FIGURES_MOST));
    ck_assert_ptr_nonnull(luo_plot_figure(0));
}
END_TEST

LUO_SUITE("io.hostile", LUO_T(all_figures), LUO_T(written_cells), LUO_T(cells_of_others),
          LUO_T_N(scripts, FIGURES_MOST), LUO_T_N(folders, NAMES),
          LUO_T_N(lengths_and_suites, NAMES))
