/* report.c: errors, warnings and notes on stderr (docs/results.md#exit-codes-and-messages). */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void print_diag(const luo_cli *cli, const luo_diag *diag)
{
    const char *word = luo_severity_name(diag->severity);
    static const char *const paint[] = {"\033[36m", "\033[33m", "\033[31m"};
    if (diag->severity == LUO_NOTE && cli->quiet) return;
    if (diag->err.path[0] && diag->err.line)
        fprintf(stderr, "%s:%d:%d: ", diag->err.path, diag->err.line, diag->err.col);
    else if (diag->err.path[0])
        fprintf(stderr, "%s: ", diag->err.path);
    else
        fputs("luoshu: ", stderr);
    if (cli->color)
        fprintf(stderr, "%s%s:\033[0m %s\n", paint[diag->severity], word, diag->err.text);
    else
        fprintf(stderr, "%s: %s\n", word, diag->err.text);
}

static void print_dropped(luo_diags *diags)
{
    for (luo_diag_file *file = diags->files; file && diags->n_dropped; file = file->next) {
        if (file->n_dropped == 0) continue;
        fprintf(stderr, "%s: note: %d more\n", file->path[0] ? file->path : "luoshu",
                file->n_dropped);
        file->n_dropped = 0;
    }
    diags->n_dropped = 0;
}

void luo_cli_flush(luo_cli *cli)
{
    const luo_diag *diag = cli->printed ? cli->printed->next : cli->diags.first;
    for (; diag; diag = diag->next) {
        print_diag(cli, diag);
        cli->printed = diag;
    }
    print_dropped(&cli->diags);
}

luo_status luo_cli_open_progress(luo_cli *cli, luo_err *err)
{
    static const char *const ways[] = {"auto", "json"};
    int way;
    LUO_TRY(luo_args_choice(&cli->args, "progress", 0, ways, 2, &way, err));
    cli->progress_fd = way == 1 ? fcntl(2, F_DUPFD_CLOEXEC, 3) : -1;
    if (way == 0 || cli->progress_fd >= 0) return LUO_OK;
    return luo_err_set(err, LUO_EIO, "`--progress json` writes to stderr, which is closed.");
}

static luo_status add(luo_cli *cli, luo_severity severity, luo_status st, const char *fmt,
                      va_list ap)
{
    char text[LUO_ERR_TEXT];
    vsnprintf(text, sizeof text, fmt, ap);
    return luo_diags_add(&cli->diags, severity, st, NULL, 0, 0, "%s", text);
}

luo_status luo_cli_error(luo_cli *cli, luo_status st, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(cli, LUO_ERROR, st, fmt, ap);
    va_end(ap);
    return st;
}

luo_status luo_cli_note(luo_cli *cli, luo_severity severity, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(cli, severity, LUO_OK, fmt, ap);
    va_end(ap);
    return LUO_OK;
}

luo_status luo_cli_fail(luo_cli *cli, luo_status st, const luo_err *err)
{
    if (st == LUO_OK) return st;
    if (err->text[0])
        luo_diags_err(&cli->diags, err);
    else
        luo_cli_error(cli, st, "%s.", luo_status_text(st));
    return st;
}

FILE *luo_cli_out(const luo_cli *cli)
{
    return cli->as_json ? stderr : stdout;
}

luo_status luo_cli_files(luo_cli *cli, int least, int most, const char *what)
{
    const int n = cli->args.nfiles;
    if (n < least)
        return luo_cli_error(cli, LUO_EUSAGE, "%d argument%s given; %s expected.", n,
                             n == 1 ? " is" : "s are", what);
    if (n > most)
        return luo_cli_error(cli, LUO_EUSAGE, "unexpected argument `%s`; %s expected.",
                             cli->args.files[most], what);
    return LUO_OK;
}
