#include "core/io/plot/gnuplot.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/utf8.h"
#include "core/io/files.h"

const char *const luo_gnuplot_endings[LUO_GNUPLOT_FILES] = {"svg", "png", "pdf"};

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* Full path of the program, or "". */
static void find_program(const char *name, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    out[0] = 0;
    if (strchr(name, '/')) {
        if (is_program(name)) snprintf(out, PATH_MAX, "%s", name);
        return;
    }
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        const size_t n = strcspn(at, ":");
        if (n > 0 && snprintf(out, PATH_MAX, "%.*s/%s", (int)n, at, name) < PATH_MAX &&
            is_program(out))
            return;
        at += n + (at[n] == ':');
    }
    out[0] = 0;
}

void luo_gnuplot_find(const char *name, char out[PATH_MAX])
{
    char found[PATH_MAX];
    find_program(name, found);
    if (!found[0] || !realpath(found, out)) snprintf(out, PATH_MAX, "%s", found);
}

/* In gnuplot's process, before it is one. */
static int enter_folder(void *ctx)
{
    const luo_gnuplot *gnuplot = ctx;
    for (int i = 0; i < gnuplot->nfiles; i++)
        if (fcntl(gnuplot->file[i].fd, F_SETFD, 0) != 0) return 126;
    return chdir(gnuplot->dir) == 0 ? 0 : 126;
}

static luo_status spawn_gnuplot(const luo_gnuplot_opts *opts, const char *vars, luo_gnuplot *out)
{
    char home[4096];
    snprintf(home, sizeof home, "HOME=%s", getenv("HOME") ? getenv("HOME") : "/"); /* font cache */
    const char *const env[] = {"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", home, NULL};
    const char *const argv[] = {opts->program, "-d", "-e", vars, opts->script, NULL};
    const luo_process_opts how = {.argv = argv,
                                  .env = env,
                                  .inside = enter_folder,
                                  .ctx = out,
                                  .no_input = true,
                                  .out = out->said,
                                  .err = out->said,
                                  .parent_signal = SIGTERM};
    return luo_process_start(&how, &out->process, NULL);
}

/* name="text" for gnuplot, the one way in which a text comes into its commands. Whatever could mean
 * something is an octal escape: quotes, which gnuplot 5.4 does not always read when doubled,
 * backticks, @. */
static void write_quoted(luo_str *s, const char *name, const char *text)
{
    char shown[1024]; /* without control characters */
    luo_utf8_show(shown, sizeof shown, text);
    luo_str_addf(s, "%s=\"", name);
    for (const char *at = shown; *at; at++) {
        const bool plain = (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') ||
                           (*at >= 'a' && *at <= 'z') || strchr(" ,.-_", *at);
        luo_str_addf(s, plain ? "%c" : "\\%03o", (unsigned char)*at);
    }
    luo_str_add(s, "\"; ");
}

static luo_status open_files(luo_arena *arena, const luo_gnuplot_opts *opts, luo_gnuplot *out,
                             luo_err *err)
{
    char name[] = "/tmp/luoshu-plot-XXXXXX";
    out->said = mkostemp(name, O_CLOEXEC);
    if (out->said < 0) return luo_io_err(err, "make", name);
    unlink(name);
    for (int i = 0; i < out->nfiles; i++) {
        const char *path = luo_arena_printf(arena, "%s.%s", opts->base, luo_gnuplot_endings[i]);
        if (!path) return luo_err_nomem(err);
        LUO_TRY(luo_replace_open_own(&out->file[i], path, err));
    }
    return LUO_OK;
}

static luo_status close_files(luo_gnuplot *gnuplot, bool good, luo_err *err)
{
    luo_status st = LUO_OK;
    for (int i = 0; i < gnuplot->nfiles; i++) {
        const luo_status closed =
            luo_replace_close(&gnuplot->file[i], good && st == LUO_OK, st == LUO_OK ? err : NULL);
        if (st == LUO_OK) st = closed;
    }
    if (gnuplot->said >= 0) close(gnuplot->said);
    return st;
}

luo_status luo_gnuplot_start(luo_arena *arena, const luo_gnuplot_opts *opts, luo_gnuplot *out,
                             luo_err *err)
{
    luo_str vars = {0};
    *out = (luo_gnuplot){
        .dir = opts->dir, .said = -1, .nfiles = opts->nfiles, .file = {{.fd = -1}}};
    for (int i = 0; i < LUO_GNUPLOT_FILES; i++) out->file[i].fd = -1;
    luo_status st = open_files(arena, opts, out, err);
    luo_str_add(&vars, opts->nfiles == 1 ? "formats='svg'; run='.'; " : "run='.'; ");
    for (int i = 0; i < opts->nfiles; i++)
        luo_str_addf(&vars, "%s='/dev/fd/%d'; ", luo_gnuplot_endings[i], out->file[i].fd);
    write_quoted(&vars, "ran", opts->ran);
    luo_str_add(&vars, opts->more);
    if (st == LUO_OK && vars.failed) st = luo_err_nomem(err);
    if (st == LUO_OK && spawn_gnuplot(opts, vars.at, out) != LUO_OK)
        st = luo_err_set(err, LUO_EBACKEND, "cannot start %s; memory or processes have run out.",
                         opts->program);
    if (st != LUO_OK) close_files(out, false, NULL);
    luo_str_free(&vars);
    return st;
}

/* The last line that gnuplot said. */
static void last_words(int said, char out[256])
{
    char text[4096];
    const off_t end = lseek(said, 0, SEEK_END);
    const off_t from = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    ssize_t n = pread(said, text, sizeof text - 1, from);
    if (n < 0) n = 0;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) n--;
    text[n] = 0;
    const char *nl = strrchr(text, '\n');
    const char *line = nl ? nl + 1 : text;
    while (*line == ' ') line++;
    snprintf(out, 256, "%.200s", line);
}

/* Equal tables give equal bytes: a PDF says when it was made, always the same here. */
static void set_date(const luo_replace *pdf)
{
    static const char key[] = "/CreationDate (D:", date[] = "20000101000000";
    char path[64], text[1 << 16];
    snprintf(path, sizeof path, "/proc/self/fd/%d", pdf->fd);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    const off_t from = end > (off_t)sizeof text ? end - (off_t)sizeof text : 0; /* it stands last */
    const ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text, from);
    const char *at = n > 0 ? memmem(text, (size_t)n, key, sizeof key - 1) : NULL;
    const off_t place = at ? from + (at - text) + (off_t)sizeof key - 1 : 0;
    if (at) (void)!pwrite(pdf->fd, date, sizeof date - 1, place);
    if (fd >= 0) close(fd);
}

luo_status luo_gnuplot_end(luo_gnuplot *gnuplot, char words[256], luo_err *err)
{
    luo_process_wait(&gnuplot->process, INFINITY);
    last_words(gnuplot->said, words);
    const bool drawn = luo_process_code(&gnuplot->process) == 0;
    if (drawn && gnuplot->nfiles == LUO_GNUPLOT_FILES) set_date(&gnuplot->file[2]);
    const luo_status st = close_files(gnuplot, drawn, err);
    return drawn ? st : LUO_EBACKEND;
}
