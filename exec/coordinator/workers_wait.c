/* workers_wait.c: commands to all ranks, and waiting for what they answer, or for what keeps
 * them from it: a device that withdraws, a process that is gone, workers that hangs. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/clock.h"
#include "exec/coordinator/workers.h"

/* Seconds. SETTLE: from the first sign of a death until it is known who it was; a launcher that
 * ends all ranks tells them first. ANSWER: for a question that a listening thread answers at once.
 * REFUSED: for the others, once a rank has refused a command in which all take part. */
static const double SETTLE_S = 1, ANSWER_S = 3, REFUSED_S = 5, LOOK_MIN_S = 0.05, LOOK_MAX_S = 2;

void luo_workers_begin(luo_workers *workers, luo_wire *payload)
{
    luo_wire_clear(payload);
    luo_wire_put_int(payload, ++workers->serial);
    workers->asked_s = luo_clock_s();
    for (int32_t i = 0; i < workers->n; i++) {
        workers->at[i].answered = false;
        workers->at[i].status = LUO_OK;
        workers->at[i].text[0] = 0;
        workers->at[i].where.silent = false;
        workers->at[i].heard_s = workers->asked_s;
    }
}

luo_status luo_workers_send(luo_workers *workers, int32_t rank, luo_say kind,
                            const luo_wire *payload, luo_err *err)
{
    if (workers->at[rank].fd < 0) return LUO_OK;
    const luo_status st = luo_wire_send(workers->at[rank].fd, (int32_t)kind, payload, err);
    return st == LUO_EPEER ? LUO_OK : st;
}

luo_status luo_workers_send_all(luo_workers *workers, luo_say kind, const luo_wire *payload,
                                luo_err *err)
{
    for (int32_t i = 0; i < workers->n; i++)
        LUO_TRY(luo_workers_send(workers, i, kind, payload, err));
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

static luo_status drain(luo_workers *workers, waiting *v, luo_err *err)
{
    luo_wire wire = {0};
    if (v->aborted) return LUO_OK;
    v->aborted = true;
    luo_wire_put_int(&wire, workers->serial);
    const luo_status st = luo_workers_send_all(workers, LUO_SAY_ABORT, &wire, err);
    luo_wire_free(&wire);
    return st;
}

static void take_where(luo_workers_rank *rank, luo_wire *wire, waiting *v)
{
    const int64_t done = luo_wire_int(wire);
    if (done != rank->where.done) v->moved_s = v->now;
    rank->where = (luo_workers_where){.done = done};
    rank->where.job = (int32_t)luo_wire_int(wire);
    rank->where.task = (int32_t)luo_wire_int(wire);
    rank->where.instr = (int32_t)luo_wire_int(wire);
    rank->where.waiting = luo_wire_int(wire) != 0;
}

static void take_answer(luo_workers *workers, luo_workers_rank *rank, luo_wire *wire, waiting *v)
{
    if (luo_wire_int(wire) != workers->serial) return; /* of a command that is over */
    rank->status = (luo_status)luo_wire_int_in(wire, 0, LUO_STATUS_COUNT - 1);
    const char *text = luo_wire_text(wire);
    snprintf(rank->text, sizeof rank->text, "%s", text ? text : "");
    luo_wire_clear(&rank->answer);
    luo_wire_put_bytes(&rank->answer, wire->at + wire->pos, wire->len - wire->pos);
    if (wire->failed || rank->answer.failed) rank->status = LUO_ENOMEM;
    rank->answered = true;
    rank->where.job = -1;
    v->moved_s = v->now;
    if (rank->status != LUO_OK && v->refused_s < 0) v->refused_s = v->now;
}

static luo_status take(luo_workers *workers, int32_t rank, int32_t kind, luo_wire *wire, waiting *v,
                       luo_err *err)
{
    luo_workers_rank *workers_rank = &workers->at[rank];
    switch ((luo_say)kind) {
    case LUO_SAY_ANSWER:
        take_answer(workers, workers_rank, wire, v);
        return LUO_OK;
    case LUO_SAY_HERE:
        take_where(workers_rank, wire, v);
        return LUO_OK;
    case LUO_SAY_BYE:
        workers_rank->told = true;
        return LUO_OK;
    case LUO_SAY_WITHDRAW:
        if (luo_wire_int(wire) != workers->serial || v->w->withdrew >= 0) return LUO_OK;
        v->w->withdrew = rank;
        v->w->withdrew_s = v->now;
        return drain(workers, v, err);
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

static luo_status hear(luo_workers *workers, int32_t rank, waiting *v, luo_err *err)
{
    luo_workers_rank *workers_rank = &workers->at[rank];
    luo_status open = luo_wire_read(&workers_rank->in, workers_rank->fd, err);
    for (bool got = true; got && open != LUO_ENOMEM;) {
        int32_t kind;
        luo_wire wire;
        if (luo_wire_next(&workers_rank->in, &got, &kind, &wire, err) != LUO_OK)
            open = LUO_EPEER;
        else if (got)
            LUO_TRY(take(workers, rank, kind, &wire, v, err));
    }
    if (open == LUO_OK) workers_rank->heard_s = v->now;
    if (open == LUO_OK || open == LUO_ENOMEM) return open;
    close(workers_rank->fd);
    workers_rank->fd = -1;
    if (v->lost_s < 0) v->lost_s = v->now;
    if (!workers_rank->told && workers->loss.rank < 0) workers->loss.rank = rank;
    return LUO_OK;
}

static luo_status hear_all(luo_workers *workers, waiting *v, double until_s, luo_err *err)
{
    const double ms = ceil(1000 * (until_s - luo_clock_s()));
    for (int32_t i = 0; i < workers->n; i++)
        workers->poll[i] = (struct pollfd){.fd = workers->at[i].fd, .events = POLLIN};
    const int n = poll(workers->poll, (nfds_t)workers->n, ms < 0 ? 0 : (int)fmin(ms, 1000));
    v->now = luo_clock_s();
    if (n < 0 && errno != EINTR)
        return luo_err_set(err, LUO_EBACKEND,
                           "cannot wait for the ranks: %s.",
                           strerror(errno));
    for (int32_t i = 0; n > 0 && i < workers->n; i++)
        if (workers->poll[i].revents) LUO_TRY(hear(workers, i, v, err));
    return LUO_OK;
}

/* ---- what keeps them ---- */

/* A launcher that was killed takes its ranks with it: none of them is to blame. */
static bool lost_launcher(luo_workers *workers)
{
    return luo_launch_ended(&workers->launch) && luo_process_signal(&workers->launch.process);
}

static double look_every(const luo_workers *workers, const luo_workers_wait *wait)
{
    return fmin(fmax(fmin(wait->stuck_s, workers->options->stuck_s) / 8, LOOK_MIN_S), LOOK_MAX_S);
}

static luo_status ask_where(luo_workers *workers, waiting *v, luo_err *err)
{
    v->look_s = v->now + look_every(workers, v->w);
    return luo_workers_send_all(workers, LUO_SAY_WHERE, NULL, err);
}

/* Progress report of this moment, of all who still answer. */
static luo_status last_look(luo_workers *workers, waiting *v, luo_err *err)
{
    const double until = v->now + ANSWER_S;
    int32_t silent = 0;
    for (int32_t i = 0; i < workers->n; i++) workers->at[i].where.silent = workers->at[i].fd >= 0;
    LUO_TRY(luo_workers_send_all(workers, LUO_SAY_WHERE, NULL, err));
    do {
        LUO_TRY(hear_all(workers, v, until, err));
        silent = 0;
        for (int32_t i = 0; i < workers->n; i++) silent += workers->at[i].where.silent;
    } while (silent > 0 && v->now < until);
    return LUO_OK;
}

/* ---- ranks that have lost their communicators ---- */

/* The one rank that has neither answered nor says where it is; -1: none, or several. */
static int32_t silent_rank(const luo_workers *workers)
{
    int32_t silent = -1, n = 0;
    for (int32_t i = 0; i < workers->n; i++)
        if (!workers->at[i].answered && workers->at[i].where.silent) {
            silent = i;
            n++;
        }
    return n == 1 ? silent : -1;
}

/* A rank that answers LUO_EPEER (exec/rank/rank.h) can go no further with the others, who may wait
 * for it for ever: as after a death all processes have to start again. False: none has. */
static bool given_up(luo_workers *workers, double now)
{
    int32_t first = 0;
    while (first < workers->n &&
           !(workers->at[first].answered && workers->at[first].status == LUO_EPEER))
        first++;
    if (first == workers->n) return false;
    workers->loss.rank = silent_rank(workers);
    workers->loss.at_s = now;
    const char *said = workers->at[first].text;
    size_t n = strcspn(said, ";");
    while (n > 0 && strchr(". ", said[n - 1])) n--;
    if (workers->loss.rank >= 0)
        snprintf(workers->loss.text, sizeof workers->loss.text,
                 "device %d (rank %d, process %lld on %s) does not answer, and %.*s",
                 workers->at[workers->loss.rank].device, workers->loss.rank,
                 (long long)workers->at[workers->loss.rank].pid,
                 workers->at[workers->loss.rank].host, (int)(n < 700 ? n : 700), said);
    else
        snprintf(workers->loss.text, sizeof workers->loss.text, "%.*s", (int)(n < 900 ? n : 900),
                 said);
    return true;
}

static luo_status lost(luo_workers *workers, luo_err *err)
{
    luo_workers_drop(workers);
    return luo_err_set(err, LUO_EPEER, "%s.", workers->loss.text);
}

/* Its listening thread answers at once, whatever the rank is at: it is stopped, or cut off. */
static bool silent(const luo_workers *workers, double now)
{
    for (int32_t i = 0; i < workers->n; i++)
        if (workers->at[i].fd >= 0 && !workers->at[i].answered &&
            now > workers->at[i].heard_s + workers->options->stuck_s)
            return true;
    return false;
}

static bool hangs(const luo_workers *workers, const waiting *v)
{
    if (silent(workers, v->now)) return true;
    if (v->refused_s >= 0 && v->now > v->refused_s + REFUSED_S && v->now > v->moved_s + REFUSED_S)
        return true;
    return v->now > v->moved_s + v->w->stuck_s;
}

static luo_status say_stuck(const luo_workers *workers, const luo_workers_wait *wait, double since,
                            luo_err *err)
{
    const int32_t r = silent_rank(workers);
    if (r < 0)
        return luo_err_set(err, LUO_ESTUCK, "stuck for %.1f s: the ranks do not %s.", since,
                           wait->what);
    return luo_err_set(err, LUO_ESTUCK,
                       "stuck for %.1f s: device %d (rank %d, process %lld on %s) does not answer, "
                       "and the ranks do not %s.",
                       since, workers->at[r].device, r, (long long)workers->at[r].pid,
                       workers->at[r].host, wait->what);
}

/* Ends workers of which nobody goes on, unless the last look shows otherwise. */
static luo_status hang(luo_workers *workers, waiting *v, luo_err *err)
{
    const double since = v->now - v->moved_s, moved = v->moved_s;
    LUO_TRY(last_look(workers, v, err));
    if (v->lost_s >= 0 || v->moved_s > moved || !hangs(workers, v)) return LUO_OK;
    if (given_up(workers, v->now)) return lost(workers, err);
    luo_status st = luo_workers_answers(workers, err); /* a refusal tells more */
    if (st == LUO_OK) st = say_stuck(workers, v->w, since, err);
    luo_workers_drop(workers);
    return st;
}

static void tell_loss(luo_workers *workers, double at_s)
{
    workers->loss.at_s = at_s;
    if (lost_launcher(workers)) {
        workers->loss.rank = -1;
        snprintf(workers->loss.text, sizeof workers->loss.text,
                 "the launcher was ended by signal %d",
                 luo_process_signal(&workers->launch.process));
        return;
    }
    if (workers->loss.rank >= 0) {
        const luo_workers_rank *rank = &workers->at[workers->loss.rank];
        snprintf(workers->loss.text, sizeof workers->loss.text,
                 "device %d (rank %d, process %lld on %s) died", rank->device, workers->loss.rank,
                 (long long)rank->pid, rank->host);
        return;
    }
    snprintf(workers->loss.text, sizeof workers->loss.text, "the launcher ended all ranks");
}

static luo_status mourn(luo_workers *workers, const waiting *v, luo_err *err)
{
    tell_loss(workers, v->lost_s);
    return lost(workers, err);
}

static bool settled(luo_workers *workers, waiting *v)
{
    if (lost_launcher(workers)) {
        if (v->lost_s < 0) v->lost_s = v->now;
        return true;
    }
    if (v->lost_s < 0) return false;
    if (workers->loss.rank >= 0 || v->now > v->lost_s + SETTLE_S) return true;
    for (int32_t i = 0; i < workers->n; i++)
        if (workers->at[i].fd >= 0) return false;
    return true;
}

static int32_t count_open(const luo_workers *workers)
{
    int32_t n = 0;
    for (int32_t i = 0; i < workers->n; i++) n += !workers->at[i].answered;
    return n;
}

static double next_date(const waiting *v)
{
    double t = fmin(v->look_s, v->moved_s + v->w->stuck_s);
    if (!v->aborted) t = fmin(t, v->w->abort_s);
    return t;
}

luo_status luo_workers_wait_all(luo_workers *workers, luo_workers_wait *wait, luo_err *err)
{
    waiting v = {.w = wait, .now = luo_clock_s(), .lost_s = -1, .refused_s = -1};
    wait->withdrew = -1;
    wait->drained_s = -1;
    v.moved_s = v.now;
    v.look_s = v.now + look_every(workers, wait);
    workers->loss.rank = -1;
    while (count_open(workers) > 0) {
        LUO_TRY(hear_all(workers, &v, v.lost_s < 0 ? next_date(&v) : v.lost_s + SETTLE_S, err));
        if (settled(workers, &v)) return mourn(workers, &v, err);
        if (v.lost_s >= 0) continue;
        if (v.now >= wait->abort_s && !v.aborted) {
            wait->drained_s = v.now;
            LUO_TRY(drain(workers, &v, err));
        }
        if (hangs(workers, &v)) {
            LUO_TRY(hang(workers, &v, err));
            continue;
        }
        if (v.now >= v.look_s) LUO_TRY(ask_where(workers, &v, err));
    }
    return given_up(workers, v.now) ? lost(workers, err) : LUO_OK;
}

/* A rank that only went along with another one's refusal knows no reason. */
luo_status luo_workers_answers(const luo_workers *workers, luo_err *err)
{
    int32_t said = -1;
    for (int32_t i = 0; i < workers->n; i++) {
        const luo_workers_rank *rank = &workers->at[i];
        if (!rank->answered || rank->status == LUO_OK) continue;
        if (said < 0 ||
            (workers->at[said].status == LUO_ECANCELED && rank->status != LUO_ECANCELED))
            said = i;
    }
    if (said < 0) return LUO_OK;
    return luo_err_set(err, workers->at[said].status, "%s", workers->at[said].text);
}
