#include "cli/sweep/sweep_units.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/inputs.h"
#include "cli/run/progress.h"
#include "core/base/process.h"
#include "core/io/document/names.h"
#include "core/io/files.h"
#include "core/run/parts.h"
#include "core/run/policy/policy.h"

enum { WORD = LUO_ERR_TEXT, LABEL = LUO_NAME_LETTERS + 1 };

typedef struct message { /* from a worker: one row, or why it cannot go on; below PIPE_BUF */
    luo_status fatal;
    luo_sweep_row row; /* policy and error are those below */
    char policy[LABEL], error[WORD];
} message;
_Static_assert(sizeof(message) <= 4096, "writes of messages are whole");

typedef struct worker {
    luo_process process;
    int from;   /* end of its pipe; -1: closed */
    size_t len; /* bytes of the message that is coming */
    message coming;
    int32_t n, cap; /* rows of its unit so far */
    message *got;
} worker;

typedef struct shared {   /* with the workers */
    _Atomic int64_t next; /* unit that nobody has yet */
    _Atomic int64_t at[]; /* unit of each worker, its first one before; for who tells its end */
} shared;

typedef struct pool {
    const luo_sweep_units *u;
    const int64_t *unit;
    int64_t n, done;
    worker *w;
    int32_t nworkers, number; /* of the one that starts */
    int to;                   /* its end of the pipe */
    shared *s;
    luo_err *err;
    luo_status st;
} pool;

/* ---- in a worker ---- */

luo_status luo_sweep_unit_read(luo_cli *cli, const luo_sweep_units *units, int64_t unit,
                               luo_session *out, luo_err *err)
{
    const char **more = LUO_NEW_N(cli->arena, const char *, units->grid->nkeys + 1);
    if (!more) return luo_err_nomem(err);
    *out = (luo_session){.run = *units->run, .nmore = units->grid->nkeys, .more = more};
    if (units->grid->nseeds > 0) out->seed = units->grid->seed[unit % units->grid->nseeds];
    const int64_t cell = unit / (units->grid->nseeds > 0 ? units->grid->nseeds : 1);
    LUO_TRY(luo_sweep_overrides(cli->arena, units->grid, cell, more, err));
    return luo_inputs_read(cli, out, units->path, err);
}

/* Is that no fault of what was swept? */
static bool is_ours(luo_status st)
{
    return st == LUO_ENOMEM || st == LUO_EIO || st == LUO_EBACKEND || st == LUO_ECANCELED ||
           st == LUO_EPEER || st == LUO_EBUG;
}

static luo_sweep_row empty_row(const luo_sweep_grid *grid, int64_t unit)
{
    return (luo_sweep_row){.cell = unit / grid->nseeds,
                           .seed = (int32_t)(unit % grid->nseeds),
                           .policies = 1,
                           .state = LUO_FAILED,
                           .steps = -1,
                           .total_s = NAN,
                           .step_mean_s = NAN,
                           .low_s = NAN,
                           .high_s = NAN,
                           .goodput_tokens_per_s = NAN,
                           .mfu_ratio = NAN,
                           .lost_s = NAN,
                           .peak_memory_ratio = NAN};
}

typedef struct result { /* of a policy */
    message m;
    double kept_tokens, extent_s;
    bool measured;
} result;

static luo_status keep_summary(void *ctx, const luo_run_summary *summary, luo_err *err)
{
    result *r = ctx;
    luo_sweep_row *row = &r->m.row;
    (void)err;
    row->steps = summary->steps_done;
    row->total_s = summary->total_s;
    row->step_mean_s = summary->step_mean_s;
    row->mfu_ratio = summary->mfu_ratio;
    row->lost_s = summary->total_s - luo_parts_total(&summary->time);
    row->peak_memory_ratio = summary->peak_memory_ratio;
    if (summary->range) row->low_s = luo_time_range_low(summary->range, summary->step_mean_s);
    if (summary->range) row->high_s = luo_time_range_high(summary->range, summary->step_mean_s);
    r->kept_tokens = (double)summary->kept_tokens;
    r->extent_s = summary->extent_s;
    r->measured = true;
    return LUO_OK;
}

/* As compare does: a run that did not make its steps is held against the longest beside it. */
static void settle_goodput(result *r, int32_t n)
{
    double longest = 0;
    for (int32_t i = 0; i < n; i++)
        if (r[i].measured) longest = fmax(longest, r[i].m.row.total_s);
    for (int32_t i = 0; i < n; i++)
        if (r[i].measured)
            r[i].m.row.goodput_tokens_per_s = luo_run_goodput(
                (int64_t)r[i].kept_tokens, isfinite(r[i].extent_s) ? r[i].extent_s : longest);
}

static bool send_row(const pool *p, const message *m)
{
    return luo_file_put(p->to, m, sizeof *m);
}

static bool send_error(const pool *p, int64_t unit, luo_status st, const luo_err *err)
{
    message m = {.row = empty_row(p->u->grid, unit)};
    if (is_ours(st)) m.fatal = st;
    snprintf(m.error, sizeof m.error, "%s", err->text);
    return send_row(p, &m) && !m.fatal;
}

static luo_status run_policies(const pool *p, const luo_session *session, int64_t unit, result *r,
                               luo_err *err)
{
    const luo_scenario *sc = session->scenario;
    for (int32_t i = 0; i < sc->npolicies; i++) {
        const luo_sink sink = {.ctx = &r[i], .summary = keep_summary};
        luo_err own = {0};
        r[i].m.row = empty_row(p->u->grid, unit);
        r[i].m.row.policies = sc->npolicies;
        snprintf(r[i].m.policy, LABEL, "%s", sc->policies[i].label);
        const luo_status st = luo_run_policy(sc, i, &session->run, &sink, &own);
        if (is_ours(st)) {
            *err = own;
            return st;
        }
        r[i].m.row.state = luo_run_state_of(st);
        snprintf(r[i].m.error, WORD, "%s", own.text);
    }
    settle_goodput(r, sc->npolicies);
    return LUO_OK;
}

/* The first error of the files, if it stands there and not in err. */
static void find_error(const luo_cli *cli, luo_err *err)
{
    const luo_diag *diag = cli->diags.first;
    while (diag && diag->severity != LUO_ERROR) diag = diag->next;
    if (!err->text[0] && diag) *err = diag->err;
}

/* False: the worker cannot go on. */
static bool run_unit(const pool *p, int64_t unit)
{
    luo_cli own = *p->u->cli;
    luo_session session = {0};
    luo_err err = {0};
    own.arena = luo_arena_new(1 << 20);
    luo_status st = own.arena ? LUO_OK : luo_err_nomem(&err);
    result *r = NULL;
    if (st == LUO_OK) {
        luo_diags_init(&own.diags, own.arena);
        st = luo_sweep_unit_read(&own, p->u, unit, &session, &err);
        find_error(&own, &err);
    }
    if (st == LUO_OK) {
        r = LUO_NEW_N(own.arena, result, session.scenario->npolicies);
        st = r ? run_policies(p, &session, unit, r, &err) : luo_err_nomem(&err);
    }
    bool good = st == LUO_OK || send_error(p, unit, st, &err);
    const int32_t n = st == LUO_OK ? session.scenario->npolicies : 0;
    for (int32_t i = 0; good && i < n; i++) good = send_row(p, &r[i].m);
    luo_arena_free(own.arena);
    return good;
}

static int work(void *ctx)
{
    pool *p = ctx;
    luo_process_let();
    signal(SIGPIPE, SIG_IGN);
    for (int32_t i = 0; i < p->number; i++) close(p->w[i].from);
    for (;;) {
        const int64_t i = atomic_fetch_add(&p->s->next, 1);
        if (i >= p->n) return 0;
        atomic_store(&p->s->at[p->number], p->unit[i]);
        if (!run_unit(p, p->unit[i])) return 4;
    }
}

/* ---- in the parent ---- */

static void fail(pool *p, luo_status st, const char *text)
{
    if (p->st == LUO_OK) p->st = luo_err_set(p->err, st, "%s", text);
    atomic_store(&p->s->next, p->n); /* nobody begins another */
}

static bool start(pool *p)
{
    int ends[2], why = 0;
    worker *w = &p->w[p->number];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    p->to = ends[1];
    w->from = ends[0];
    const luo_process_opts opts = {.inside = work, .ctx = p, .parent_signal = SIGTERM};
    const luo_status st = luo_process_start(&opts, &w->process, &why);
    close(ends[1]);
    if (st == LUO_OK) return true;
    close(ends[0]);
    w->from = -1;
    errno = why;
    return false;
}

/* A row; with the last one of its unit all of them are handed on. */
static luo_status take(pool *p, worker *w, luo_err *err)
{
    if (w->n == 0 && w->cap < w->coming.row.policies) {
        w->cap = w->coming.row.policies;
        w->got = LUO_NEW_N(p->u->cli->arena, message, w->cap);
        if (!w->got) return luo_err_nomem(err);
    }
    w->got[w->n++] = w->coming;
    if (w->n < w->coming.row.policies) return LUO_OK;
    const size_t mark = luo_arena_mark(p->u->cli->arena);
    luo_sweep_row *rows = LUO_NEW_N(p->u->cli->arena, luo_sweep_row, w->n);
    if (!rows) return luo_err_nomem(err);
    for (int32_t i = 0; i < w->n; i++) {
        rows[i] = w->got[i].row;
        rows[i].policy = w->got[i].policy;
        rows[i].error = w->got[i].error;
    }
    const luo_status st = p->u->put(p->u->ctx, rows, w->n, err);
    luo_arena_reset(p->u->cli->arena, mark);
    w->n = 0;
    p->done++;
    return st;
}

/* What there is to read; false: the pipe is at its end. */
static bool hear(pool *p, worker *w)
{
    char *to = (char *)&w->coming + w->len;
    const ssize_t got = read(w->from, to, sizeof w->coming - w->len);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got <= 0) return false;
    w->len += (size_t)got;
    if (w->len < sizeof w->coming) return true;
    w->len = 0;
    luo_err err = {0};
    if (w->coming.fatal) {
        fail(p, w->coming.fatal, w->coming.error);
        return true;
    }
    const luo_status st = take(p, w, &err);
    if (st != LUO_OK) fail(p, st, err.text);
    return true;
}

/* A worker has closed its pipe: it is done, has said why not, or was ended. */
static void part(pool *p, int32_t i)
{
    worker *w = &p->w[i];
    char how[32], text[256];
    close(w->from);
    w->from = -1;
    luo_process_wait(&w->process, INFINITY);
    if (w->process.how == 0 || *luo_process_asked()) return;
    const int64_t unit = atomic_load(&p->s->at[i]), nseeds = p->u->grid->nseeds;
    snprintf(
        text, sizeof text,
        "the process of cell %lld under seed %s has ended (%s); the same command goes on where "
        "it was.",
        (long long)(unit / nseeds), p->u->grid->seed[unit % nseeds],
        luo_process_text(&w->process, how, sizeof how));
    fail(p, LUO_EBACKEND, text);
}

static int32_t wait_for(pool *p, struct pollfd *fds)
{
    int32_t open = 0;
    for (int32_t i = 0; i < p->nworkers; i++) {
        fds[i] = (struct pollfd){.fd = p->w[i].from, .events = POLLIN};
        open += p->w[i].from >= 0;
    }
    if (open) poll(fds, (nfds_t)p->nworkers, 100);
    return open;
}

static void listen_all(pool *p, struct pollfd *fds)
{
    luo_progress progress = luo_progress_new(p->u->cli);
    while (wait_for(p, fds)) {
        if (*luo_process_asked()) {
            luo_process_closing();
            for (int32_t i = 0; i < p->nworkers; i++)
                if (p->w[i].from >= 0) luo_process_urge(&p->w[i].process, SIGTERM);
        }
        for (int32_t i = 0; i < p->nworkers; i++)
            if (p->w[i].from >= 0 && fds[i].revents && !hear(p, &p->w[i])) part(p, i);
        luo_progress_count(&progress, "sweep", p->done, p->n, "cells");
    }
    luo_progress_erase(&progress);
}

luo_status luo_sweep_units_run(const luo_sweep_units *units, const int64_t *unit, int64_t n,
                               luo_err *err)
{
    const int32_t most = n < units->jobs ? (int32_t)n : units->jobs;
    const size_t bytes = sizeof(shared) + (size_t)most * sizeof(int64_t);
    pool p = {.u = units, .unit = unit, .n = n, .err = err};
    if (n == 0) return LUO_OK;
    p.w = LUO_NEW_N(units->cli->arena, worker, most);
    struct pollfd *fds = LUO_NEW_N(units->cli->arena, struct pollfd, most);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!p.w || !fds || memory == MAP_FAILED) return luo_err_nomem(err);
    p.s = memory;
    luo_cli_flush(units->cli);
    fflush(NULL);
    for (; p.number < most; p.number++) {
        atomic_store(&p.s->at[p.number], unit[p.number]);
        if (!start(&p)) break;
        p.nworkers++;
    }
    if (p.nworkers == 0) fail(&p, LUO_EBACKEND, "no process can be started; free some.");
    listen_all(&p, fds);
    munmap(memory, bytes);
    return p.st;
}
