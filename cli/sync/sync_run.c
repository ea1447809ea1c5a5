/* sync_run.c: `luoshu sim --sync`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inputs.h"
#include "cli/sync/sync_deaths.h"
#include "cli/sync/sync_run.h"
#include "cli/sync/sync_sim.h"
#include "cli/sync/sync_write.h"
#include "core/io/read/read.h"
#include "core/sync/mixing.h"
#include "core/sync/mode_keys.h"

enum { WORKERS = 1 << 17, OPTION = 32 }; /* as many as there may be devices; letters */

const char *const luo_sync_run_options[] = {
    "workers",    "compute-s",   "sync-s",  "straggler", "horizon-s",
    "staleness",  "exchange",    "servers", "shard",     "hybrid",
    "keys",       "dense-bytes", "width",   "alpha-s",   "bandwidth-gbytes-per-s",
    "wait-s",     "max-group",   "guard",   "pairs",     "adaptive",
    "wait-max-s", "wait-min-s",  "beta",    "die",       "seed",
    "out",        "force",       "limit",   "request-s", NULL};

static const char *const modes[] = {LUO_LOOP_MODE_LIST(LUO_WORD_ONLY)};

/* ---- options ---- */

static luo_status required(const luo_args *args, luo_err *err)
{
    static const char *const names[] = {"workers", "compute-s", "horizon-s"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!luo_args_has(args, names[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is missing; `--sync` needs it.", names[i]);
    return LUO_OK;
}

/* The option of a key: `_` is `-`. */
static const char *option_of(const luo_mode_key *key, char text[OPTION])
{
    snprintf(text, OPTION, "%s", key->name);
    for (char *at = text; *at; at++)
        if (*at == '_') *at = '-';
    return text;
}

static luo_status not_of(const luo_mode_key *key, const char *option, const char *mode,
                         luo_err *err)
{
    luo_str whose = {0};
    luo_words_choices(&whose, key->mode, luo_mode_key_count(key));
    const luo_status st = luo_err_set(
        err, LUO_EUSAGE, "`--%s` is no option of `--sync %s`; it is of %s, leave it out.", option,
        mode, luo_str_get(&whose));
    luo_str_free(&whose);
    return st;
}

/* Options of one mode alone. */
luo_status luo_sync_run_mode(const luo_args *args, luo_loop_mode mode, luo_err *err)
{
    char option[OPTION];
    const char *word = luo_loop_mode_name(mode);
    for (int i = 0; i < luo_nmode_keys; i++) {
        const luo_mode_key *key = &luo_mode_keys[i];
        if (luo_args_has(args, option_of(key, option)) && !luo_mode_key_is_of(key, word))
            return not_of(key, option, word, err);
    }
    if (mode != LUO_LOOP_SSP || luo_args_has(args, "staleness")) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--staleness` is missing in `--sync ssp`; give the iterations that workers "
                       "may be ahead.");
}

/* Options of adaptive waits. */
static luo_status check_adaptive(const luo_args *args, bool adaptive, luo_err *err)
{
    char option[OPTION];
    for (int i = 0; i < luo_nmode_keys; i++) {
        const luo_mode_key *key = &luo_mode_keys[i];
        if (key->adaptive && !adaptive && luo_args_has(args, option_of(key, option)))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` bounds adaptive waits; add `--adaptive on`, or leave it "
                               "out.",
                               option);
    }
    return LUO_OK;
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

luo_status luo_sync_run_preduce(const luo_args *args, luo_loop_opts *opts, luo_err *err)
{
    luo_loop_opts *o = opts;
    luo_preduce_opts *p = &o->preduce;
    int64_t most, guard;
    LUO_TRY(luo_args_number(args, "wait-s", 1e-3, 0, 1e10, &p->wait_s, err));
    LUO_TRY(luo_args_int(args, "max-group", o->workers, 1, o->workers, &most, err));
    LUO_TRY(luo_args_int(args, "guard", 0, 0, 1 << 20, &guard, err));
    LUO_TRY(luo_args_number(args, "beta", 1, 1e-6, 1, &o->beta, err));
    LUO_TRY(luo_args_number(args, "request-s", 0, 0, 1e10, &o->request_s, err));
    p->max_group = (int32_t)most;
    p->guard = (int32_t)guard;
    p->pairs = luo_args_has(args, "pairs");
    if (luo_args_has(args, "adaptive"))
        LUO_TRY(luo_inputs_on_off(args, "adaptive", &p->adaptive, err));
    LUO_TRY(check_adaptive(args, p->adaptive, err));
    LUO_TRY(luo_args_number(args, "wait-max-s", 0.01, 0, 1e10, &p->wait_max_s, err));
    return luo_args_number(args, "wait-min-s", fmin(1e-5, p->wait_max_s), 0, p->wait_max_s,
                           &p->wait_min_s, err);
}

typedef struct call {
    luo_loop_mode mode; /* as asked for */
    luo_loop_opts opts;
    luo_sync_cost cost;
} call;

static luo_status read_call(luo_cli *cli, call *c, luo_err *err)
{
    const luo_args *args = &cli->args;
    luo_loop_opts *o = &c->opts;
    int mode;
    int64_t workers, seed;
    LUO_TRY(luo_args_choice(args, "sync", 0, modes, LUO_LOOP_MODES, &mode, err));
    LUO_TRY(required(args, err));
    c->mode = o->mode = (luo_loop_mode)mode;
    LUO_TRY(luo_sync_run_mode(args, c->mode, err));
    LUO_TRY(luo_args_int(args, "workers", 1, 1, WORKERS, &workers, err));
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &seed, err));
    LUO_TRY(luo_args_int(args, "staleness", 0, -1, 1000000000, &o->staleness, err));
    LUO_TRY(luo_args_number(args, "horizon-s", 0, 1e-9, 1e10, &o->horizon_s, err));
    o->workers = (int32_t)workers;
    o->seed = (uint64_t)seed;
    o->limits = &cli->work;
    LUO_TRY(luo_sync_run_compute(cli, o->workers, &o->compute_s, err));
    LUO_TRY(luo_sync_straggler_read(cli, o->workers, &o->straggler, err));
    if (c->mode == LUO_LOOP_PREDUCE) LUO_TRY(luo_sync_run_preduce(args, o, err));
    LUO_TRY(luo_sync_cost_read(cli, c->mode, o->workers, o->seed, &c->cost, err));
    o->sync_s = c->cost.seconds;
    o->ring_bytes = c->cost.ring_bytes;
    o->net = c->cost.net;
    return luo_sync_deaths_read(cli, c->mode, &c->cost, o, err);
}

/* What may surprise. */
static void notes(luo_cli *cli, call *c)
{
    luo_loop_opts *o = &c->opts;
    if (!luo_loop_mode_groups(o->mode) && o->mode != LUO_LOOP_BSP &&
        luo_sync_cost_barrier(&c->cost)) {
        luo_sync_cost_note(cli);
        o->mode = LUO_LOOP_BSP;
    }
    if (luo_loop_mode_groups(o->mode) && o->workers > LUO_MIXING_WORKERS)
        luo_cli_note(cli, LUO_NOTE, "lambda2 is computed for up to %d workers; it is left out.",
                     LUO_MIXING_WORKERS);
}

static luo_status lost(luo_cli *cli, const luo_loop_summary *s)
{
    if (!s->lost) return LUO_OK;
    if (s->lost_by >= 0)
        return luo_cli_error(cli, LUO_ELOST, "no worker is left at %.9g s.", s->t_s);
    return luo_cli_error(cli, LUO_ELOST, "the %s is gone at %.9g s.",
                         s->lost_by == LUO_LOOP_SERVER ? "server" : "controller", s->t_s);
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

luo_status luo_sync_run(luo_cli *cli, luo_err *err)
{
    call c = {0};
    luo_sync_write write = {0};
    LUO_TRY(read_call(cli, &c, err));
    notes(cli, &c);
    luo_cli_flush(cli);
    const luo_status st = simulate(cli, &c, &write, err);
    const luo_status closed =
        luo_sync_write_close(cli, &write, luo_folder_end_of(st), st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
