#include "cli/run/seeds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/folder.h"
#include "cli/run/finish.h"
#include "cli/run/progress.h"
#include "core/base/process.h"
#include "core/io/compare/compare.h"
#include "core/io/files.h"
#include "core/io/result/resultset.h"

/* By which this process was told to end; 0: by none. */
static int got_signal(void)
{
    return *luo_process_asked();
}

/* ---- the list ---- */

static luo_status wrong_list(const luo_seeds *seeds, luo_err *err)
{
    return luo_err_set(err, LUO_EUSAGE,
                       "`--seeds` is `%s`; a list like 1-8 or 1,3,9-12 of different seeds, %d at "
                       "most, is expected.",
                       seeds->text, LUO_SEEDS_MAX);
}

/* A decimal number without sign or space; false: there is none. */
static bool read_number(const char **at, uint64_t *out)
{
    char *end;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0 && *out <= INT64_MAX;
}

static luo_status add_seed(luo_cli *cli, luo_seeds *seeds, uint64_t seed, luo_err *err)
{
    const char *text = luo_arena_printf(cli->arena, "%llu", (unsigned long long)seed);
    if (!text) return luo_err_nomem(err);
    for (int32_t i = 0; i < seeds->n; i++)
        if (strcmp(seeds->seed[i], text) == 0) return wrong_list(seeds, err);
    if (seeds->n == LUO_SEEDS_MAX) return wrong_list(seeds, err);
    seeds->seed[seeds->n++] = text;
    return LUO_OK;
}

luo_status luo_seeds_read(luo_cli *cli, luo_seeds *seeds, luo_err *err)
{
    const char *at = seeds->text;
    seeds->seed = LUO_NEW_N(cli->arena, const char *, LUO_SEEDS_MAX);
    if (!seeds->seed) return luo_err_nomem(err);
    for (;; at++) {
        uint64_t lo, hi;
        if (!read_number(&at, &lo)) return wrong_list(seeds, err);
        hi = lo;
        if (*at == '-') {
            at++;
            if (!read_number(&at, &hi) || hi < lo) return wrong_list(seeds, err);
        }
        for (uint64_t k = lo; k <= hi; k++) LUO_TRY(add_seed(cli, seeds, k, err));
        if (!*at) return LUO_OK;
        if (*at != ',') return wrong_list(seeds, err);
    }
}

/* ---- the processes ---- */

typedef struct workers {
    luo_cli *cli;
    const luo_seeds *s;
    luo_process *process;
    int *code; /* exit code; -1: ended by a signal, or never started */
    volatile bool *closing; /* shared with the children */
    luo_progress progress;
    int32_t started, running;
} workers;

static const char *dir_of(const workers *f, int32_t i)
{
    return luo_arena_printf(f->cli->arena, "%s/seed%s", f->s->dir, f->s->seed[i]);
}

static const char *log_of(const workers *f, int32_t i)
{
    return luo_arena_printf(f->cli->arena, "%s/seed%s.log", f->s->dir, f->s->seed[i]);
}

/* In the process of the last seed: what it prints is for its log. */
static int run_seed(void *ctx)
{
    workers *f = ctx;
    const int32_t i = f->started - 1;
    luo_err err = {0};
    const char *log = log_of(f, i), *dir = dir_of(f, i);
    const int file = log ? luo_file_new(log, 0) : -1;
    luo_process_let();
    if (file < 0 || !dir || dup2(file, 1) < 0 || dup2(file, 2) < 0) return 4;
    f->cli->quiet = true;
    luo_status st = f->s->run(f->cli, f->s->seed[i], dir, &err);
    if (err.text[0]) st = luo_cli_fail(f->cli, st, &err);
    luo_cli_flush(f->cli);
    fflush(NULL);
    return luo_status_exit(st);
}

static void start_next(workers *f)
{
    const int32_t i = f->started++;
    const luo_process_opts opts = {
        .inside = run_seed, .ctx = f, .closing = &f->closing[i], .parent_signal = SIGTERM};
    fflush(NULL);
    f->code[i] = -1;
    if (luo_process_start(&opts, &f->process[i], NULL) == LUO_OK) f->running++;
}

/* Has one ended? */
static bool look(workers *f)
{
    for (int32_t i = 0; i < f->started; i++) {
        luo_process *process = &f->process[i];
        if (!process->pid || !luo_process_wait(process, 0)) continue;
        f->code[i] = luo_process_signal(process) ? -1 : luo_process_code(process);
        f->running--;
        luo_progress_erase(&f->progress);
        if (!f->cli->quiet)
            fprintf(stderr, "seed %s: %s\n", f->s->seed[i],
                    f->code[i] == 0   ? "complete"
                    : f->code[i] == 1 ? "a policy was lost"
                    : got_signal()      ? "stopped"
                                      : "failed");
        return true;
    }
    return false;
}

static void wait_all(workers *f, int64_t jobs)
{
    while (f->running || (f->started < f->s->n && !got_signal())) {
        while (f->started < f->s->n && f->running < jobs && !got_signal()) start_next(f);
        if (look(f)) continue;
        luo_progress_count(&f->progress, "seeds", f->started - f->running, f->s->n, "seeds");
        if (got_signal()) luo_process_closing();
        for (int32_t i = 0; got_signal() && i < f->started; i++)
            luo_process_urge(&f->process[i], got_signal());
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    if (got_signal()) luo_process_closing();
    luo_progress_erase(&f->progress);
}

/* ---- afterwards ---- */

/* A lost policy is a result; whoever failed has its reasons in its log. */
static luo_status judge(workers *f)
{
    luo_status st = LUO_OK;
    for (int32_t i = 0; i < f->started; i++) {
        const char *log = log_of(f, i);
        if (!log) return luo_cli_error(f->cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
        if (f->code[i] == 0 || f->code[i] == 1 || got_signal()) { /* or told to end */
            unlink(log);
            if (f->code[i] == 1 && st == LUO_OK) st = LUO_ENO;
            continue;
        }
        char how[32] = "not started";
        if (f->process[i].how) luo_process_text(&f->process[i], how, sizeof how);
        st = luo_cli_error(f->cli, LUO_EBACKEND, "seed %s failed (%s); `%s` says why.",
                           f->s->seed[i], how, log);
    }
    return st;
}

/* Of the seeds that left results. */
static luo_status compare(workers *f)
{
    luo_cli *cli = f->cli;
    const char **paths = LUO_NEW_N(cli->arena, const char *, f->s->n);
    int32_t n = 0;
    if (!paths) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    for (int32_t i = 0; i < f->started; i++) {
        const char *dir = dir_of(f, i);
        if (dir && luo_result_has(dir, "compare.csv")) paths[n++] = dir;
    }
    if (n == 0) return LUO_OK;
    luo_str text = {0};
    const luo_compare_opts opts = {
        .paths = paths, .npaths = n, .out = f->s->dir, .allow_different = true, .json = &cli->json};
    luo_status st = luo_compare(cli->arena, &opts, &text, &cli->diags);
    fputs(luo_str_get(&text), luo_cli_out(cli));
    luo_str_free(&text);
    const luo_plot_opts figures = {.dir = f->s->dir};
    int32_t drawn = 0;
    if (st == LUO_OK && f->s->plots)
        st = luo_cli_draw_compared(cli, &figures, f->s->dir, &drawn);
    luo_cli_tell_place(cli, f->s->dir, drawn);
    return st;
}

static void json(workers *f)
{
    luo_jsonw_text(&f->cli->json, "out", f->s->dir);
    luo_jsonw_open(&f->cli->json, "seeds", '[');
    for (int32_t i = 0; i < f->started; i++) {
        luo_jsonw_open(&f->cli->json, NULL, '{');
        luo_jsonw_text(&f->cli->json, "seed", f->s->seed[i]);
        luo_jsonw_text(&f->cli->json, "dir", dir_of(f, i));
        luo_jsonw_int(&f->cli->json, "exit", f->code[i]);
        luo_jsonw_close(&f->cli->json);
    }
    luo_jsonw_close(&f->cli->json);
}

static luo_status run_all(workers *f, int64_t jobs)
{
    luo_process_catch();
    wait_all(f, jobs);
    json(f);
    const luo_status st = judge(f), last = got_signal() ? LUO_OK : compare(f);
    return luo_status_exit(last) > luo_status_exit(st) ? last : st;
}

luo_status luo_seeds_run(luo_cli *cli, const luo_seeds *seeds, luo_err *err)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    luo_set set;
    int64_t jobs;
    workers f = {.cli = cli,
                 .s = seeds,
                 .process = LUO_NEW_N(cli->arena, luo_process, seeds->n),
                 .code = LUO_NEW_N(cli->arena, int, seeds->n),
                 .progress = luo_progress_new(cli)};
    void *closing = mmap(NULL, (size_t)seeds->n * sizeof *f.closing, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!f.process || !f.code || closing == MAP_FAILED) return luo_err_nomem(err);
    f.closing = closing;
    LUO_TRY(luo_args_int(&cli->args, "jobs", cores > 1 ? cores : 1, 1, 4096, &jobs, err));
    LUO_TRY(luo_folder_take(cli, seeds->dir, false, seeds->ninputs, seeds->inputs, &set, err));
    luo_cli_flush(cli);
    const luo_status st = run_all(&f, jobs);
    const bool whole = !got_signal() && (st == LUO_OK || st == LUO_ENO);
    const luo_status closed = luo_folder_give(cli, &set, whole ? LUO_FOLDER_WHOLE : LUO_FOLDER_PART,
                                              st == LUO_OK ? err : NULL);
    if (!got_signal()) {
        luo_process_let();
        return st == LUO_OK ? closed : st;
    }
    luo_cli_flush(cli);
    exit(128 + got_signal());
}
