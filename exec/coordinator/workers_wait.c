/* workers_wait.c: commands to all ranks, and waiting for what they answer, or for what keeps
 * them from it: a device that withdraws, a process that is gone, workers that hangs. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/clock.h"
#include "exec/coordinator/workers.h"

/* Seconds. SETTLE: from the first sign of a death until it is known who it was; a launcher that
 * ends all ranks tells them first. ANSWER: for a question that a listening thread answers at once.
 * REFUSED: for the others, once a rank has refused a command in which all take part. */
static const double SETTLE_S = 1, ANSWER_S = 3, REFUSED_S = 5, LOOK_MIN_S = 0.05, LOOK_MAX_S = 2;

void luo_workers_begin(luo_workers *f, luo_wire *payload)
{
    luo_wire_clear(payload);
    luo_wire_put_int(payload, ++f->serial);
    f->asked_s = luo_clock_s();
    for (int32_t i = 0; i < f->n; i++) {
        f->at[i].answered = false;
        f->at[i].status = LUO_OK;
        f->at[i].text[0] = 0;
        f->at[i].where.silent = false;
        f->at[i].heard_s = f->asked_s;
    }
}

luo_status luo_workers_send(luo_workers *f, int32_t rank, luo_say kind, const luo_wire *payload,
                            luo_err *err)
{
    if (f->at[rank].fd < 0) return LUO_OK;
    const luo_status st = luo_wire_send(f->at[rank].fd, (int32_t)kind, payload, err);
    return st == LUO_EPEER ? LUO_OK : st;
}

luo_status luo_workers_send_all(luo_workers *f, luo_say kind, const luo_wire *payload, luo_err *err)
{
    for (int32_t i = 0; i < f->n; i++) LUO_TRY(luo_workers_send(f, i, kind, payload, err));
    return LUO_OK;
}

/* ---- what arrives ---- */

typedef struct waiting {
    luo_workers_wait *w;
    double now, moved_s; /* moved: an instruction was completed somewhere, or an answer came */
    double look_s;       /* of the next question after progress report */
    double lost_s;       /* first sign of a death; < 0: none */
    double refused_s;    /* first answer that was a refusal; < 0: none */
    bool aborted;
} waiting;

static luo_status drain(luo_workers *f, waiting *v, luo_err *err)
{
    luo_wire w = {0};
    if (v->aborted) return LUO_OK;
    v->aborted = true;
    luo_wire_put_int(&w, f->serial);
    const luo_status st = luo_workers_send_all(f, LUO_SAY_ABORT, &w, err);
    luo_wire_free(&w);
    return st;
}

static void take_where(luo_workers_rank *r, luo_wire *m, waiting *v)
{
    const int64_t done = luo_wire_int(m);
    if (done != r->where.done) v->moved_s = v->now;
    r->where = (luo_workers_where){.done = done};
    r->where.job = (int32_t)luo_wire_int(m);
    r->where.task = (int32_t)luo_wire_int(m);
    r->where.instr = (int32_t)luo_wire_int(m);
    r->where.waiting = luo_wire_int(m) != 0;
}

static void take_answer(luo_workers *f, luo_workers_rank *r, luo_wire *m, waiting *v)
{
    if (luo_wire_int(m) != f->serial) return; /* of a command that is over */
    r->status = (luo_status)luo_wire_int_in(m, 0, LUO_STATUS_COUNT - 1);
    const char *text = luo_wire_text(m);
    snprintf(r->text, sizeof r->text, "%s", text ? text : "");
    luo_wire_clear(&r->answer);
    luo_wire_put_bytes(&r->answer, m->at + m->pos, m->len - m->pos);
    if (m->failed || r->answer.failed) r->status = LUO_ENOMEM;
    r->answered = true;
    r->where.job = -1;
    v->moved_s = v->now;
    if (r->status != LUO_OK && v->refused_s < 0) v->refused_s = v->now;
}

static luo_status take(luo_workers *f, int32_t rank, int32_t kind, luo_wire *m, waiting *v,
                       luo_err *err)
{
    luo_workers_rank *r = &f->at[rank];
    switch ((luo_say)kind) {
    case LUO_SAY_ANSWER:
        take_answer(f, r, m, v);
        return LUO_OK;
    case LUO_SAY_HERE:
        take_where(r, m, v);
        return LUO_OK;
    case LUO_SAY_BYE:
        r->told = true;
        return LUO_OK;
    case LUO_SAY_WITHDRAW:
        if (luo_wire_int(m) != f->serial || v->w->withdrew >= 0) return LUO_OK;
        v->w->withdrew = rank;
        v->w->withdrew_s = v->now;
        return drain(f, v, err);
    case LUO_SAY_HELLO: /* said once, before */
    case LUO_SAY_SETUP: /* the coordinator's own words */
    case LUO_SAY_PREPARE:
    case LUO_SAY_STATE:
    case LUO_SAY_STEP:
    case LUO_SAY_MOVE:
    case LUO_SAY_DROP:
    case LUO_SAY_END:
    case LUO_SAY_ABORT:
    case LUO_SAY_WHERE:
        break;
    }
    return LUO_OK;
}

static luo_status hear(luo_workers *f, int32_t rank, waiting *v, luo_err *err)
{
    luo_workers_rank *r = &f->at[rank];
    luo_status open = luo_wire_read(&r->in, r->fd, err);
    for (bool got = true; got && open != LUO_ENOMEM;) {
        int32_t kind;
        luo_wire m;
        if (luo_wire_next(&r->in, &got, &kind, &m, err) != LUO_OK)
            open = LUO_EPEER;
        else if (got)
            LUO_TRY(take(f, rank, kind, &m, v, err));
    }
    if (open == LUO_OK) r->heard_s = v->now;
    if (open == LUO_OK || open == LUO_ENOMEM) return open;
    close(r->fd);
    r->fd = -1;
    if (v->lost_s < 0) v->lost_s = v->now;
    if (!r->told && f->loss.rank < 0) f->loss.rank = rank;
    return LUO_OK;
}

static luo_status hear_all(luo_workers *f, waiting *v, double until_s, luo_err *err)
{
    const double ms = ceil(1000 * (until_s - luo_clock_s()));
    for (int32_t i = 0; i < f->n; i++)
        f->poll[i] = (struct pollfd){.fd = f->at[i].fd, .events = POLLIN};
    const int n = poll(f->poll, (nfds_t)f->n, ms < 0 ? 0 : (int)fmin(ms, 1000));
    v->now = luo_clock_s();
    if (n < 0 && errno != EINTR)
        return luo_err_set(err, LUO_EBACKEND,
                           "cannot wait for the ranks: %s.",
                           strerror(errno));
    for (int32_t i = 0; n > 0 && i < f->n; i++)
        if (f->poll[i].revents) LUO_TRY(hear(f, i, v, err));
    return LUO_OK;
}

/* ---- what keeps them ---- */

/* A launcher that was killed takes its ranks with it: none of them is to blame. */
static bool lost_launcher(luo_workers *f)
{
    return f->launch.how != 0
               ? WIFSIGNALED(f->launch.how)
               : f->launch.pid > 0 && luo_launch_ended(&f->launch) && WIFSIGNALED(f->launch.how);
}

static double look_every(const luo_workers *f, const luo_workers_wait *w)
{
    return fmin(fmax(fmin(w->stuck_s, f->options->stuck_s) / 8, LOOK_MIN_S), LOOK_MAX_S);
}

static luo_status ask_where(luo_workers *f, waiting *v, luo_err *err)
{
    v->look_s = v->now + look_every(f, v->w);
    return luo_workers_send_all(f, LUO_SAY_WHERE, NULL, err);
}

/* Progress report of this moment, of all who still answer. */
static luo_status last_look(luo_workers *f, waiting *v, luo_err *err)
{
    const double until = v->now + ANSWER_S;
    int32_t silent = 0;
    for (int32_t i = 0; i < f->n; i++) f->at[i].where.silent = f->at[i].fd >= 0;
    LUO_TRY(luo_workers_send_all(f, LUO_SAY_WHERE, NULL, err));
    do {
        LUO_TRY(hear_all(f, v, until, err));
        silent = 0;
        for (int32_t i = 0; i < f->n; i++) silent += f->at[i].where.silent;
    } while (silent > 0 && v->now < until);
    return LUO_OK;
}

/* ---- ranks that have lost their communicators ---- */

/* The one rank that has neither answered nor says where it is; -1: none, or several. */
static int32_t silent_rank(const luo_workers *f)
{
    int32_t silent = -1, n = 0;
    for (int32_t i = 0; i < f->n; i++)
        if (!f->at[i].answered && f->at[i].where.silent) {
            silent = i;
            n++;
        }
    return n == 1 ? silent : -1;
}

/* A rank that answers LUO_EPEER (rank.h) can go no further with the others, who may wait for it for
 * ever: as after a death all processes have to start again. False: none has. */
static bool given_up(luo_workers *f, double now)
{
    int32_t first = 0;
    while (first < f->n && !(f->at[first].answered && f->at[first].status == LUO_EPEER)) first++;
    if (first == f->n) return false;
    f->loss.rank = silent_rank(f);
    f->loss.at_s = now;
    const char *said = f->at[first].text;
    size_t n = strcspn(said, ";");
    while (n > 0 && strchr(". ", said[n - 1])) n--;
    if (f->loss.rank >= 0)
        snprintf(f->loss.text, sizeof f->loss.text,
                 "device %d (rank %d, process %lld on %s) does not answer, and %.*s",
                 f->at[f->loss.rank].device, f->loss.rank, (long long)f->at[f->loss.rank].pid,
                 f->at[f->loss.rank].host, (int)(n < 700 ? n : 700), said);
    else
        snprintf(f->loss.text, sizeof f->loss.text, "%.*s", (int)(n < 900 ? n : 900), said);
    return true;
}

static luo_status lost(luo_workers *f, luo_err *err)
{
    luo_workers_drop(f);
    return luo_err_set(err, LUO_EPEER, "%s.", f->loss.text);
}

/* Its listening thread answers at once, whatever the rank is at: it is stopped, or cut off. */
static bool silent(const luo_workers *f, double now)
{
    for (int32_t i = 0; i < f->n; i++)
        if (f->at[i].fd >= 0 && !f->at[i].answered && now > f->at[i].heard_s + f->options->stuck_s)
            return true;
    return false;
}

static bool hangs(const luo_workers *f, const waiting *v)
{
    if (silent(f, v->now)) return true;
    if (v->refused_s >= 0 && v->now > v->refused_s + REFUSED_S && v->now > v->moved_s + REFUSED_S)
        return true;
    return v->now > v->moved_s + v->w->stuck_s;
}

static luo_status say_stuck(const luo_workers *f, const luo_workers_wait *w, double since,
                            luo_err *err)
{
    const int32_t r = silent_rank(f);
    if (r < 0)
        return luo_err_set(err, LUO_ESTUCK,
                           "stuck for %.1f s: the ranks do not %s.",
                           since, w->what);
    return luo_err_set(err, LUO_ESTUCK,
                       "stuck for %.1f s: device %d (rank %d, process %lld on %s) does not answer, "
                       "and the ranks do not %s.",
                       since, f->at[r].device, r, (long long)f->at[r].pid, f->at[r].host, w->what);
}

/* Ends workers of which nobody goes on, unless the last look shows otherwise. */
static luo_status hang(luo_workers *f, waiting *v, luo_err *err)
{
    const double since = v->now - v->moved_s, moved = v->moved_s;
    LUO_TRY(last_look(f, v, err));
    if (v->lost_s >= 0 || v->moved_s > moved || !hangs(f, v)) return LUO_OK;
    if (given_up(f, v->now)) return lost(f, err);
    luo_status st = luo_workers_answers(f, err); /* a refusal tells more */
    if (st == LUO_OK) st = say_stuck(f, v->w, since, err);
    luo_workers_drop(f);
    return st;
}

static void tell_loss(luo_workers *f, double at_s)
{
    f->loss.at_s = at_s;
    if (lost_launcher(f)) {
        f->loss.rank = -1;
        snprintf(f->loss.text, sizeof f->loss.text, "the launcher was ended by signal %d",
                 WTERMSIG(f->launch.how));
        return;
    }
    if (f->loss.rank >= 0) {
        const luo_workers_rank *r = &f->at[f->loss.rank];
        snprintf(f->loss.text, sizeof f->loss.text, "device %d (rank %d, process %lld on %s) died",
                 r->device, f->loss.rank, (long long)r->pid, r->host);
        return;
    }
    snprintf(f->loss.text, sizeof f->loss.text, "the launcher ended all ranks");
}

static luo_status mourn(luo_workers *f, const waiting *v, luo_err *err)
{
    tell_loss(f, v->lost_s);
    return lost(f, err);
}

static bool settled(luo_workers *f, waiting *v)
{
    if (lost_launcher(f)) {
        if (v->lost_s < 0) v->lost_s = v->now;
        return true;
    }
    if (v->lost_s < 0) return false;
    if (f->loss.rank >= 0 || v->now > v->lost_s + SETTLE_S) return true;
    for (int32_t i = 0; i < f->n; i++)
        if (f->at[i].fd >= 0) return false;
    return true;
}

static int32_t count_open(const luo_workers *f)
{
    int32_t n = 0;
    for (int32_t i = 0; i < f->n; i++) n += !f->at[i].answered;
    return n;
}

static double next_date(const waiting *v)
{
    double t = fmin(v->look_s, v->moved_s + v->w->stuck_s);
    if (!v->aborted) t = fmin(t, v->w->abort_s);
    return t;
}

luo_status luo_workers_wait_all(luo_workers *f, luo_workers_wait *w, luo_err *err)
{
    waiting v = {.w = w, .now = luo_clock_s(), .lost_s = -1, .refused_s = -1};
    w->withdrew = -1;
    w->drained_s = -1;
    v.moved_s = v.now;
    v.look_s = v.now + look_every(f, w);
    f->loss.rank = -1;
    while (count_open(f) > 0) {
        LUO_TRY(hear_all(f, &v, v.lost_s < 0 ? next_date(&v) : v.lost_s + SETTLE_S, err));
        if (settled(f, &v)) return mourn(f, &v, err);
        if (v.lost_s >= 0) continue;
        if (v.now >= w->abort_s && !v.aborted) {
            w->drained_s = v.now;
            LUO_TRY(drain(f, &v, err));
        }
        if (hangs(f, &v)) {
            LUO_TRY(hang(f, &v, err));
            continue;
        }
        if (v.now >= v.look_s) LUO_TRY(ask_where(f, &v, err));
    }
    return given_up(f, v.now) ? lost(f, err) : LUO_OK;
}

/* A rank that only went along with another one's refusal knows no reason. */
luo_status luo_workers_answers(const luo_workers *f, luo_err *err)
{
    int32_t said = -1;
    for (int32_t i = 0; i < f->n; i++) {
        const luo_workers_rank *r = &f->at[i];
        if (!r->answered || r->status == LUO_OK) continue;
        if (said < 0 || (f->at[said].status == LUO_ECANCELED && r->status != LUO_ECANCELED))
            said = i;
    }
    if (said < 0) return LUO_OK;
    return luo_err_set(err, f->at[said].status, "%s", f->at[said].text);
}
