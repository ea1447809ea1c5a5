/* host_results.c: what a run has written, read without the code that wrote it. */
#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/storm/host.h"

enum { FILES = 512, CELLS = 64 };
static const double LOSS_WITHIN = 1e-10, NORM_WITHIN = 1e-8; /* relative; norms add up squares */

/* Cells of a line that is changed; quotes hold commas. */
static int split(char *line, char **cell, int max)
{
    int n = 0;
    bool quoted = false;
    cell[n++] = line;
    for (char *at = line; *at; at++) {
        if (*at == '"') quoted = !quoted;
        if (*at != ',' || quoted) continue;
        *at = 0;
        if (n == max) return max + 1;
        cell[n++] = at + 1;
    }
    return n;
}

static int column(char **cell, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(cell[i], name) == 0) return i;
    return 0;
}

static double number(const char *text)
{
    return *text ? strtod(text, NULL) : NAN;
}

/* Each line of a table but comments; a row that was cut in its write is one
 * (core/io/result/table.h). */
static char *next_line(char **at)
{
    for (;;) {
        char *line = *at;
        if (!*line) return NULL;
        char *end = strchr(line, '\n');
        *at = end ? end + 1 : line + strlen(line);
        if (end) *end = 0;
        if (*line != '#') return line;
    }
}

int storm_rows(storm_case *c, const char *path, storm_row **out)
{
    size_t size;
    char *text = storm_read(c, path, &size), *cell[CELLS];
    char *line = text ? next_line(&text) : NULL;
    if (!line) return -1;
    int n = split(line, cell, CELLS), rows = 0;
    const int step = column(cell, n, "step"), attempt = column(cell, n, "attempt"),
              loss = column(cell, n, "loss"), norm = column(cell, n, "grad_norm");
    storm_row *at = LUO_NEW_N(c->arena, storm_row, size / 16 + 1);
    while (at && (line = next_line(&text)))
        if (split(line, cell, CELLS) == n)
            at[rows++] =
                (storm_row){strtoll(cell[step], NULL, 10), strtoll(cell[attempt], NULL, 10),
                            number(cell[loss]), number(cell[norm])};
    *out = at;
    return rows;
}

/* ---- whole tables ---- */

static void check_whole(storm_case *c, const char *path)
{
    size_t size;
    char *text = storm_read(c, path, &size), *cell[CELLS];
    if (!text || size == 0) return; /* killed before its header */
    const char *last = text + size;
    while (last > text && last[-1] != '\n') last--;
    if (*last && *last != '#') storm_wrong(c, "%s: its last row is cut: `%.60s`", path, last);
    int line_number = 1, n = -1;
    for (char *line; (line = next_line(&text)); line_number++) {
        const int cells = split(line, cell, CELLS);
        if (n < 0) n = cells;
        if (cells != n)
            storm_wrong(c, "%s: row %d has %d cells of %d", path, line_number, cells, n);
    }
}

/* What stood there before the blow stands there still. */
static void check_kept(storm_case *c, const char *before, const char *dir)
{
    size_t had, has;
    const char *name = before + strlen(storm_path(c, "before/"));
    const char *path = luo_arena_printf(c->arena, "%s/%s", dir, name);
    char *old = storm_read(c, before, &had), *now = storm_read(c, path, &has);
    if (!old) return;
    while (had > 0 && old[had - 1] != '\n') had--; /* whole lines, but for comments at the end */
    for (;;) {
        size_t at = had;
        while (at > 0 && old[at - 1] == '\n') at--;
        while (at > 0 && old[at - 1] != '\n') at--;
        if (had == 0 || old[at] != '#') break;
        had = at;
    }
    if (had == 0) return;
    if (!now || has < had || memcmp(old, now, had) != 0)
        storm_wrong(c, "%s has lost rows that it had before the blow (%zu bytes of %zu)", path,
                    now ? has : 0, had);
}

void storm_check_tables(storm_case *c, const char *dir)
{
    const char *at[FILES];
    int n = storm_find(c, dir, ".csv", at, FILES);
    for (int i = 0; i < n; i++)
        if (!strstr(at[i], "/config/")) check_whole(c, at[i]);
    n = storm_find(c, storm_path(c, "before"), ".csv", at, FILES);
    for (int i = 0; i < n; i++) check_kept(c, at[i], dir);
}

/* ---- curves ---- */

static bool near(double a, double b, double within)
{
    return fabs(a - b) <= within * fabs(b);
}

void storm_check_curve(storm_case *c, const char *path)
{
    storm_row *row;
    const storm_row *want = storm_reference(c);
    const int n = storm_rows(c, path, &row);
    for (int i = 0; want && i < n; i++) {
        if (isnan(row[i].loss)) continue; /* an attempt that failed */
        const storm_row *w = &want[row[i].step < STORM_STEPS ? row[i].step : STORM_STEPS - 1];
        if (near(row[i].loss, w->loss, LOSS_WITHIN) &&
            near(row[i].grad_norm, w->grad_norm, NORM_WITHIN))
            continue;
        storm_wrong(
            c,
            "%s: step %lld, attempt %lld: loss %.12g and norm %.12g; one rank has %.12g and "
            "%.12g",
            path, (long long)row[i].step, (long long)row[i].attempt, row[i].loss, row[i].grad_norm,
            w->loss, w->grad_norm);
        return;
    }
}

int64_t storm_steps_done(storm_case *c, const char *path, int64_t *first)
{
    storm_row *row;
    int64_t done = 0;
    const int n = storm_rows(c, path, &row);
    *first = n > 0 ? row[0].step : -1;
    for (int i = 0; i < n; i++) {
        if (i > 0 && row[i].step > row[i - 1].step + 1)
            storm_wrong(c, "%s: step %lld follows step %lld", path, (long long)row[i].step,
                        (long long)row[i - 1].step);
        done = isnan(row[i].loss) ? row[i].step : row[i].step + 1;
    }
    return done;
}

/* ---- words ---- */

bool storm_says(storm_case *c, const char *path, const char *text)
{
    const char *all = storm_read(c, path, NULL);
    return all && strstr(all, text);
}

/* What no user should read. */
static const char *const never[] = {"report this", "please report",   "runtime error:", "Sanitizer",
                                    "Assertion",   "fault of luoshu", "cannot be told"};

void storm_check_words(storm_case *c, const char *path, int *errors, int *warnings)
{
    char *text = storm_read(c, path, NULL);
    *errors = *warnings = 0;
    for (size_t i = 0; text && i < sizeof never / sizeof *never; i++)
        if (strstr(text, never[i])) storm_wrong(c, "%s says `%s`", path, never[i]);
    while (text && *text) {
        char *end = strchr(text, '\n');
        if (end) *end = 0;
        const bool error = strstr(text, "error: "), warning = strstr(text, "warning: ");
        *errors += error;
        *warnings += warning;
        const size_t n = strlen(text);
        if ((!error && !warning) || (error && !strchr(".?`", text[n - 1])))
            storm_wrong(c, "%s: no sentence: `%.300s`", path, text);
        text = end ? end + 1 : NULL;
    }
}

void storm_check_ranks(storm_case *c, const char *dir, const storm_strike *s)
{
    const char *log[FILES];
    const int n = storm_find(c, dir, "ranks.log", log, FILES);
    for (int i = 0; i < n; i++) {
        const char *at = storm_read(c, log[i], NULL);
        while (at && (at = strstr(at, "exited on signal "))) {
            const int sig = atoi(at += strlen("exited on signal "));
            if (sig != SIGKILL && sig != SIGTERM && sig != s->signal)
                storm_wrong(c, "%s: a rank was ended by signal %d", log[i], sig);
        }
    }
}
