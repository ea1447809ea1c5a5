/* sync_run.c: `luoshu sync`, simulated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sync/sync_deaths.h"
#include "cli/sync/sync_groups.h"
#include "cli/sync/sync_run.h"
#include "cli/sync/sync_write.h"
#include "core/io/read/read.h"
#include "core/sync/mixing.h"
#include "core/sync/mode_keys.h"

enum { WORKERS = 1 << 17 }; /* as many as there may be devices */

/* ---- options ---- */

/* Options of some modes alone; what is of groups is in --groups. */
luo_status luo_sync_run_mode(const luo_args *args, luo_loop_mode mode, luo_err *err)
{
    const char *word = luo_loop_mode_name(mode);
    for (int i = 0; i < luo_nmode_keys; i++) {
        const luo_mode_key *key = &luo_mode_keys[i];
        if (!luo_args_has(args, key->name) || luo_mode_key_is_of(key, word)) continue;
        luo_str whose = {0};
        luo_words_choices(&whose, key->mode, luo_mode_key_count(key));
        const luo_status st = luo_err_set(
            err, LUO_EUSAGE, "`--%s` is no option of `sync %s`; it is of %s, leave it out.",
            key->name, word, luo_str_get(&whose));
        luo_str_free(&whose);
        return st;
    }
    if (mode != LUO_LOOP_SSP || luo_args_has(args, "staleness")) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--staleness` is missing in `sync ssp`; give the iterations that workers "
                       "may be ahead.");
}

/* One number, or one for each worker. */
luo_status luo_sync_run_compute(luo_cli *cli, int32_t workers, const double **out, luo_err *err)
{
    const char *text = luo_args_get(&cli->args, "compute-s", ""), *at = text;
    double *seconds = LUO_NEW_N(cli->arena, double, workers);
    int64_t n = 0;
    if (!seconds) return luo_err_nomem(err);
    for (;; at++) {
        char *end;
        const double v = strtod(at, &end);
        if (end == at || !(v >= 1e-9 && v <= 1e10) || (*end && *end != ','))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--compute-s` is `%s`; seconds from 1e-09 to 1e+10 are expected, "
                               "commas between those of several workers.",
                               text);
        if (n < workers) seconds[n] = v;
        n++;
        at = end;
        if (!*at) break;
    }
    if (n != 1 && n != workers)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--compute-s` has %lld numbers for %d workers; one, or one for each is "
                           "expected.",
                           (long long)n, workers);
    for (int32_t w = 1; n == 1 && w < workers; w++) seconds[w] = seconds[0];
    *out = seconds;
    return LUO_OK;
}

luo_status luo_sync_straggler_read(luo_cli *cli, int32_t workers, luo_straggler *out, luo_err *err)
{
    luo_straggler_row *rows;
    int64_t n;
    const char *text = luo_args_get(&cli->args, "straggler", "none");
    LUO_TRY(luo_straggler_parse(cli->arena, text, workers, out, err));
    if (out->kind != LUO_STRAGGLER_TRACE) return LUO_OK;
    LUO_TRY(luo_read_straggler(cli->arena, out->path, workers, &rows, &n, &cli->diags));
    return luo_err_at(err, luo_straggler_trace(out, rows, n, err), out->path, 0, 0);
}

typedef struct call {
    luo_loop_mode mode; /* as asked for */
    luo_loop_opts opts;
    luo_sync_cost cost;
} call;

static luo_status read_call(luo_cli *cli, call *c, luo_err *err)
{
    const luo_args *args = &cli->args;
    luo_loop_opts *opts = &c->opts;
    int comm;
    int64_t workers, seed;
    opts->mode = c->mode;
    LUO_TRY(luo_sync_run_mode(args, c->mode, err));
    LUO_TRY(luo_args_int(args, "workers", 1, 1, WORKERS, &workers, err));
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &seed, err));
    LUO_TRY(luo_args_int(args, "staleness", 0, -1, 1000000000, &opts->staleness, err));
    LUO_TRY(luo_args_number(args, "horizon-s", 0, 1e-9, 1e10, &opts->horizon_s, err));
    opts->workers = (int32_t)workers;
    opts->seed = (uint64_t)seed;
    opts->limits = &cli->work;
    LUO_TRY(luo_sync_run_compute(cli, opts->workers, &opts->compute_s, err));
    LUO_TRY(luo_sync_straggler_read(cli, opts->workers, &opts->straggler, err));
    LUO_TRY(luo_sync_groups_read(args, false, opts, &comm, err));
    LUO_TRY(luo_sync_cost_read(cli, c->mode, opts->workers, opts->seed, &c->cost, err));
    opts->sync_s = c->cost.seconds;
    opts->ring_bytes = c->cost.ring_bytes;
    opts->net = c->cost.net;
    return luo_sync_deaths_read(cli, c->mode, &c->cost, opts, err);
}

/* What may surprise. */
static void notes(luo_cli *cli, call *c)
{
    luo_loop_opts *opts = &c->opts;
    if (!luo_loop_mode_groups(opts->mode) && opts->mode != LUO_LOOP_BSP &&
        luo_sync_cost_barrier(&c->cost)) {
        luo_sync_cost_note(cli);
        opts->mode = LUO_LOOP_BSP;
    }
    if (luo_loop_mode_groups(opts->mode) && opts->workers > LUO_MIXING_WORKERS)
        luo_cli_note(cli, LUO_NOTE, "lambda2 is computed for up to %d workers; it is left out.",
                     LUO_MIXING_WORKERS);
}

static luo_status lost(luo_cli *cli, const luo_loop_summary *summary)
{
    if (!summary->lost) return LUO_OK;
    if (summary->lost_by >= 0)
        return luo_cli_error(cli, LUO_ELOST, "no worker is left at %.9g s.", summary->t_s);
    return luo_cli_error(cli, LUO_ELOST, "the %s is gone at %.9g s.",
                         summary->lost_by == LUO_LOOP_SERVER ? "server" : "controller",
                         summary->t_s);
}

static luo_status simulate(luo_cli *cli, call *c, luo_sync_write *write, luo_err *err)
{
    luo_loop_summary summary;
    const char *dir = luo_arena_printf(cli->arena, "%s-seed%llu", luo_loop_mode_name(c->mode),
                                       (unsigned long long)c->opts.seed);
    if (!dir) return luo_err_nomem(err);
    LUO_TRY(luo_sync_write_open(cli, luo_args_get(&cli->args, "out", dir), write, err));
    c->opts.sink = luo_sync_write_sink(write);
    LUO_TRY(luo_loop_run(cli->arena, &c->opts, &summary, err));
    LUO_TRY(luo_sync_write_end(cli, write, c->mode, &c->opts, &c->cost, &summary, err));
    return lost(cli, &summary);
}

luo_status luo_sync_run(luo_cli *cli, luo_loop_mode mode, luo_err *err)
{
    call c = {.mode = mode};
    luo_sync_write write = {0};
    LUO_TRY(read_call(cli, &c, err));
    notes(cli, &c);
    luo_cli_flush(cli);
    const luo_status st = simulate(cli, &c, &write, err);
    const luo_status closed =
        luo_sync_write_close(cli, &write, luo_folder_end_of(st), st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
