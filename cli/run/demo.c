#include "cli/run/demo.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/finish.h"
#include "core/base/process.h"
#include "core/io/compare/compare.h"
#include "core/io/files.h"
#include "core/io/result/result.h"

#define RANKS "8"
#define SCENARIO "inputs/scenarios/host/demo.yaml"

typedef struct show {
    luo_cli *cli;
    const char *real, *log; /* folder of the results; what the commands say */
    bool verbose;
} show;

enum { WORDS = 24 };

/* ---- a command ---- */

static void print_command(const show *s, const char *const *words)
{
    FILE *out = luo_cli_out(s->cli);
    if (!s->verbose) return;
    fputs("$ luoshu", out);
    for (int i = 1; words[i]; i++) fprintf(out, " %s", words[i]);
    fputc('\n', out);
    fflush(out);
}

/* This program, whatever its name is now. */
static int become(void *ctx)
{
    execv("/proc/self/exe", (char *const *)ctx); /* which changes none of the words */
    return 127;
}

/* Exit code. */
static int run(const show *s, const char *const *words)
{
    luo_process process;
    print_command(s, words);
    fflush(stderr);
    const int log = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (log < 0) return 126;
    const luo_process_opts opts = {.inside = become,
                                   .ctx = (void *)words,
                                   .out = log,
                                   .err = log,
                                   .parent_signal = SIGTERM};
    const luo_status st = luo_process_start(&opts, &process, NULL);
    close(log);
    if (st != LUO_OK) return -1;
    luo_process_wait(&process, INFINITY);
    return luo_process_code(&process);
}

/* ---- what they say ---- */

static luo_status print_steps(const show *s)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    FILE *out = luo_cli_out(s->cli);
    luo_csv *csv =
        luo_result_table(s->cli->arena, s->real, LUO_TABLE_COMPARE_STEPS, &s->cli->diags);
    fprintf(out, "step  predicted s  measured s  error %%\n");
    while (csv && luo_csv_next(csv, cell))
        fprintf(out, "%4lld  %11.3f  %10.3f  %+7.1f\n",
                (long long)cell[LUO_COL_COMPARE_STEPS_step].whole,
                cell[LUO_COL_COMPARE_STEPS_reference_s].number,
                cell[LUO_COL_COMPARE_STEPS_other_s].number,
                100 * cell[LUO_COL_COMPARE_STEPS_error_ratio].number);
    return luo_csv_close(csv);
}

/* One sentence, with --verbose all that was compared; then where it is. */
static luo_status compare(const show *s, const char *predicted, const char *measured)
{
    luo_cli *cli = s->cli;
    FILE *out = luo_cli_out(cli);
    const char *const runs[] = {predicted, measured};
    const luo_compare_opts opts = {
        .paths = runs, .npaths = 2, .out = s->real, .allow_different = true};
    const luo_plot_opts draw = {.dir = s->real};
    int32_t figures;
    luo_str text = {0};
    const luo_status st = luo_compare(cli->arena, &opts, &text, &cli->diags);
    const int shown = (int)(s->verbose ? text.len : strcspn(luo_str_get(&text), "\n"));
    fprintf(out, "%.*s%s", shown, luo_str_get(&text), s->verbose || shown == 0 ? "" : "\n");
    luo_str_free(&text);
    LUO_TRY(st);
    if (s->verbose) LUO_TRY(print_steps(s));
    LUO_TRY(luo_cli_draw_compared(cli, &draw, "predicted beside measured", &figures));
    luo_cli_tell_place(cli, s->real, figures);
    return LUO_OK;
}

/* The last error in the log, without its prefix and full stop. */
static const char *last_error(const show *s)
{
    static const char mark[] = "error: ";
    char line[2048];
    const char *found = NULL;
    FILE *file = fopen(s->log, "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, mark);
        if (!at) continue;
        at += sizeof mark - 1;
        size_t n = strcspn(at, "\n");
        n -= n > 0 && at[n - 1] == '.';
        found = luo_arena_strndup(s->cli->arena, at, n);
    }
    if (file) fclose(file);
    return found ? found : "it said nothing";
}

/* ---- the part ---- */

/* Of a machine that does something else as well predictions are poor, but the run is right. */
static luo_status all(const show *s, const char *dir, int *code, luo_err *err)
{
    luo_arena *arena = s->cli->arena;
    const char *scenario = luo_arena_printf(arena, "%s/%s", dir, SCENARIO);
    const char *machine = luo_arena_printf(arena, "%s/machine", s->real);
    const char *sim = luo_arena_printf(arena, "%s/sim", s->real);
    const char *host = luo_arena_printf(arena, "%s/host", s->real);
    if (!scenario || !machine || !sim || !host) return luo_err_nomem(err);
    const char *calibrate[] = {"luoshu", "calibrate", "--ranks", RANKS,     "--quick",
                               "--out",  machine,     "--force", "--quiet", NULL};
    *code = run(s, calibrate);
    if (*code != 0) return LUO_OK;
    char *whole = realpath(machine, NULL); /* paths in a scenario are relative to its file */
    const char *cluster =
        whole ? luo_arena_printf(arena, "cluster=%s/cluster-" RANKS ".yaml", whole) : NULL;
    free(whole);
    if (!cluster) return luo_err_nomem(err);
    const char *simulate[] = {"luoshu", "sim", scenario,  "--set",   cluster,
                              "--out",  sim,   "--force", "--quiet", NULL};
    const char *train[] = {"luoshu", "run",   scenario, "--backend", "host",    "--set",
                           cluster,  "--out", host,     "--force",   "--quiet", NULL};
    *code = run(s, simulate);
    if (*code == 0) *code = run(s, train);
    return LUO_OK;
}

luo_status luo_demo_real(luo_cli *cli, const char *dir)
{
    show s = {.cli = cli,
              .real = luo_arena_printf(cli->arena, "%s/real", dir),
              .verbose = luo_args_has(&cli->args, "verbose")};
    luo_err err = {0};
    int code = 0;
    s.log = s.real ? luo_arena_printf(cli->arena, "%s/log.txt", s.real) : NULL;
    if (!s.log) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    luo_status st = luo_file_make_own_dir(s.real, &err);
    if (st == LUO_OK) st = luo_file_write_own(s.log, "", 0, &err);
    if (st == LUO_OK) {
        fprintf(luo_cli_out(cli),
                "The same for real, in small: eight processes of this machine, one of them slow "
                "from step 6 on.\n");
        st = all(&s, dir, &code, &err);
    }
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    luo_jsonw_text(&cli->json, "real", code == 0 ? s.real : NULL);
    if (code != 0)
        return luo_cli_note(cli, LUO_WARNING,
                            "the part for real ends here (exit %d): %s; what was "
                            "simulated is whole, and %s has more.",
                            code, last_error(&s), s.log);
    const char *predicted = luo_arena_printf(cli->arena, "%s/sim/static", s.real);
    const char *measured = luo_arena_printf(cli->arena, "%s/host/static", s.real);
    if (!predicted || !measured)
        return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    return compare(&s, predicted, measured);
}
