#include "exec/sync/sync_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/read/read.h"
#include "exec/clock.h"
#include "exec/rank/boot.h"

double luo_sync_now(const luo_sync_rank *rank)
{
    return luo_clock_s() - rank->zero_s;
}

/* ---- logs ---- */

/* A row is one write to a file opened for appending, so that a kill leaves whole lines. */
static luo_status write_line(int file, const char *line, size_t n, luo_err *err)
{
    if (write(file, line, n) == (ssize_t)n) return LUO_OK;
    return luo_io_err(err, "write", "the log of a rank");
}

luo_status luo_sync_row(luo_sync_rank *rank, luo_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) return luo_err_nomem(err);
    const luo_status st = write_line(rank->log, text, (size_t)n, err);
    free(text);
    return st;
}

luo_status luo_sync_fact(luo_sync_rank *rank, const char *name, double value, luo_err *err)
{
    char line[128];
    const int n = snprintf(line, sizeof line, "%s,%.17g\n", name, isnan(value) ? INFINITY : value);
    return write_line(rank->facts, line, (size_t)n, err);
}

static const char *const kinds[] = {[LUO_SYNC_PUSHED] = "push",
                                    [LUO_SYNC_PULLED] = "pull",
                                    [LUO_SYNC_ASKED] = "meta",
                                    [LUO_SYNC_PASSED] = "ring"};

static luo_status fact_of_kind(luo_sync_rank *rank, const char *of, int kind, double value,
                               luo_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%s", of, kinds[kind]);
    return luo_sync_fact(rank, name, value, err);
}

static bool moves(const luo_sync_rank *rank, int kind)
{
    if (luo_sync_job_groups(
            &rank->job)) /* what MPI moves in an all-reduce of its own is not known */
        return kind == LUO_SYNC_PASSED && rank->job.comm != LUO_SYNC_CREATE;
    return kind == LUO_SYNC_PASSED ? luo_sync_ringed(rank) > 0 : rank->servers > 0;
}

luo_status luo_sync_bytes(luo_sync_rank *rank, luo_err *err)
{
    const bool counts = luo_sync_clocked(rank);
    for (int i = 0; i < LUO_SYNC_BYTES; i++) {
        if (!moves(rank, i)) continue;
        LUO_TRY(fact_of_kind(rank, "bytes", i, (double)rank->bytes[i], err));
        if (counts) LUO_TRY(fact_of_kind(rank, "payload", i, (double)rank->payload[i], err));
    }
    return LUO_OK;
}

luo_status luo_sync_expected(luo_sync_rank *rank, const double *bytes, luo_err *err)
{
    for (int i = 0; i < LUO_SYNC_BYTES; i++)
        if (moves(rank, i)) LUO_TRY(fact_of_kind(rank, "expected", i, bytes[i], err));
    return LUO_OK;
}

static luo_status open_log(luo_sync_rank *rank, const char *name, const char *head, int *out,
                           luo_err *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d.csv", rank->job.dir, name, (int)rank->rank);
    *out = luo_file_new(path, O_APPEND);
    if (*out < 0) return luo_io_err(err, "write", path);
    return write_line(*out, head, strlen(head), err);
}

static luo_status open_logs(luo_sync_rank *rank, luo_err *err)
{
    LUO_TRY(open_log(rank, "facts", "name,value\n", &rank->facts, err));
    if (rank->rank < rank->workers)
        return open_log(rank, "iterations",
                        "worker,iteration,start_s,end_s,compute_s,wait_s,group\n", &rank->log, err);
    if (luo_sync_job_groups(&rank->job))
        return open_log(rank, "groups", "group,t_s,members,iterations,guard\n", &rank->log, err);
    return LUO_OK;
}

/* ---- messages ---- */

static void peer(const luo_sync_rank *sync_rank, int32_t rank, char *out, size_t size)
{
    if (rank == MPI_ANY_SOURCE)
        snprintf(out, size, "any worker");
    else
        luo_sync_job_who(&sync_rank->job, rank, out, size);
}

static const char *kind_name(int tag)
{
    static const char *const names[] = {[LUO_SYNC_INIT] = "the first parameters",
                                        [LUO_SYNC_PUSH] = "a push",
                                        [LUO_SYNC_PULL] = "a pull",
                                        [LUO_SYNC_ANSWER] = "an answer to a pull",
                                        [LUO_SYNC_CLOCK] = "a clock",
                                        [LUO_SYNC_LEAVE] = "a leave",
                                        [LUO_SYNC_END] = "the end",
                                        [LUO_SYNC_LOG] = "a log",
                                        [LUO_SYNC_ARRIVE] = "an arrival",
                                        [LUO_SYNC_GROUP] = "a group",
                                        [LUO_SYNC_BODY] = "the rest of a message",
                                        [LUO_SYNC_RECORD] = "records"};
    return tag > 0 && tag <= LUO_SYNC_RECORD ? names[tag] : "a message";
}

void luo_sync_send(luo_sync_rank *rank, int32_t to, int tag, const void *data, size_t bytes)
{
    MPI_Request request;
    char name[32];
    peer(rank, to, name, sizeof name);
    luo_watch_begin(&rank->watch, "%s to take %s", name, kind_name(tag));
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, rank->world, &request);
    luo_watch_all(&request, 1);
    luo_watch_end(&rank->watch);
}

size_t luo_sync_probe(luo_sync_rank *rank, int32_t from, int tag)
{
    MPI_Status status;
    int there = 0, bytes = 0;
    char name[32];
    peer(rank, from, name, sizeof name);
    luo_watch_begin(&rank->watch, "%s to send %s", name, kind_name(tag));
    for (int look = 0; MPI_Iprobe(from, tag, rank->world, &there, &status), !there; look++)
        luo_watch_nap(look);
    luo_watch_end(&rank->watch);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return (size_t)bytes;
}

int luo_sync_next(luo_sync_rank *rank, int32_t *from)
{
    MPI_Status status;
    int there = 0;
    luo_watch_begin(&rank->watch, "any worker to say something");
    /* Bodies are taken with their heads, and come behind them. */
    for (int look = 0;
         MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, rank->world, &there, &status), !there; look++)
        luo_watch_nap(look);
    luo_watch_end(&rank->watch);
    luo_sync_die(rank);
    *from = status.MPI_SOURCE;
    return status.MPI_TAG;
}

void luo_sync_receive(luo_sync_rank *rank, int32_t from, int tag, void *data, size_t bytes)
{
    MPI_Request request;
    char name[32];
    peer(rank, from, name, sizeof name);
    luo_watch_begin(&rank->watch, "%s to send %s", name, kind_name(tag));
    MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, rank->world, &request);
    luo_watch_all(&request, 1);
    luo_watch_end(&rank->watch);
}

void luo_sync_barrier(luo_sync_rank *rank, const char *what)
{
    MPI_Request request;
    luo_watch_begin(&rank->watch, "the other workers %s", what);
    MPI_Ibarrier(rank->workers_comm, &request);
    luo_watch_all(&request, 1);
    luo_watch_end(&rank->watch);
}

void luo_sync_die(const luo_sync_rank *rank)
{
    const int32_t role = rank->rank < rank->workers        ? rank->rank
                         : luo_sync_job_groups(&rank->job) ? LUO_LOOP_CONTROLLER
                         : rank->rank == rank->workers     ? LUO_LOOP_SERVER
                                                           : LUO_SYNC_NOBODY;
    if (role != LUO_SYNC_NOBODY && role == rank->job.die && luo_sync_now(rank) >= rank->job.die_s)
        raise(SIGKILL);
}

void luo_sync_begin(luo_sync_rank *rank)
{
    luo_sync_barrier(rank, "to finish");
    luo_watch_begin(&rank->watch, "worker 0 to begin");
    rank->zero_s = luo_clock_s();
    MPI_Bcast(&rank->zero_s, 1, MPI_DOUBLE, 0, rank->workers_comm);
    luo_watch_end(&rank->watch);
    memset(rank->bytes, 0, sizeof rank->bytes);
    memset(rank->payload, 0, sizeof rank->payload);
}

double luo_sync_compute(const luo_sync_rank *rank, int64_t k, double start_s)
{
    const double took_s = luo_sync_now(rank) - start_s;
    const double base_s = took_s > rank->compute_s ? took_s : rank->compute_s;
    const double wanted_s =
        luo_straggler_seconds(&rank->straggler, (uint64_t)rank->job.seed, rank->rank, k, base_s);
    const double left_s = wanted_s - took_s;
    if (left_s > 0) {
        struct timespec t = {.tv_sec = (time_t)left_s};
        t.tv_nsec = (long)((left_s - (double)t.tv_sec) * 1e9);
        while (nanosleep(&t, &t) != 0 && errno == EINTR) {
        }
    }
    return luo_sync_now(rank) - start_s;
}

/* ---- what goes where ---- */

bool luo_sync_clocked(const luo_sync_rank *rank)
{
    return rank->job.embed == LUO_SYNC_NO_EMBED && !luo_sync_job_groups(&rank->job);
}

int32_t luo_sync_served(const luo_sync_rank *rank, const uint64_t *keys, int32_t n)
{
    while (n > 0 && (int64_t)keys[n - 1] >= rank->served) n--;
    return n;
}

int64_t luo_sync_ringed(const luo_sync_rank *rank)
{
    if (!luo_sync_clocked(rank)) return 0;
    return (rank->toy.rows - rank->served) * rank->toy.width;
}

/* `cost`: decided by the first iteration of all workers, by all ranks alike. */
static luo_status by_ring(luo_sync_rank *rank, bool *out, luo_err *err)
{
    const luo_exchange_net net = {rank->job.alpha_s, rank->job.bytes_per_s};
    const luo_exchange_table table = luo_sync_table(rank, rank->toy.dense);
    const size_t mark = luo_arena_mark(rank->arena);
    luo_exchange_bytes round;
    uint64_t *keys = LUO_NEW_N(rank->arena, uint64_t, luo_toy_most(&rank->toy));
    if (!keys) return luo_err_nomem(err);
    LUO_TRY(luo_exchange_open(rank->arena, rank->servers, rank->workers, &round, err));
    for (int32_t w = 0; w < rank->workers; w++)
        LUO_TRY(luo_sync_count(rank, &table, w, 0, keys, &round, err));
    *out = luo_exchange_table_by_ring(&round, &table, &net);
    luo_arena_reset(rank->arena, mark);
    return LUO_OK;
}

static luo_status share_out(luo_sync_rank *rank, luo_err *err)
{
    bool all = rank->job.exchange == LUO_EXCHANGE_ALLREDUCE;
    rank->served = rank->toy.rows;
    if (!luo_sync_clocked(rank) || rank->job.exchange == LUO_EXCHANGE_PS) return LUO_OK;
    if (!all && rank->job.hybrid == LUO_EXCHANGE_BY_COST) LUO_TRY(by_ring(rank, &all, err));
    rank->served = all ? 0 : rank->toy.dense;
    return LUO_OK;
}

/* ---- what came of it ---- */

static luo_status write_weights(const luo_sync_rank *rank, const double *rows, luo_err *err)
{
    char path[4096];
    luo_str text = {0};
    snprintf(path, sizeof path, "%s/weights.csv", rank->job.dir);
    luo_str_add(&text, "row,column,weight\n");
    for (int64_t i = 0; i < rank->toy.rows * rank->toy.width; i++)
        luo_str_addf(&text, "%lld,%lld,%.17g\n", (long long)(i / rank->toy.width),
                     (long long)(i % rank->toy.width), rows[i]);
    const luo_status st =
        text.failed ? luo_err_nomem(err) : luo_file_write_own(path, text.at, text.len, err);
    luo_str_free(&text);
    return st;
}

luo_status luo_sync_outcome(luo_sync_rank *rank, const double *rows, luo_err *err)
{
    double *start = LUO_NEW_N(rank->arena, double, rank->toy.rows * rank->toy.width);
    if (!start) return luo_err_nomem(err);
    luo_toy_start(&rank->toy, start);
    LUO_TRY(luo_sync_fact(rank, "loss_first", luo_toy_loss(&rank->toy, start), err));
    LUO_TRY(luo_sync_fact(rank, "loss_last", luo_toy_loss(&rank->toy, rows), err));
    return write_weights(rank, rows, err);
}

/* ---- the whole ---- */

/* One value of a list, or the only one. */
static double seconds_of(const char *list, int32_t worker)
{
    for (; worker > 0 && strchr(list, ','); worker--) list = strchr(list, ',') + 1;
    return strtod(list, NULL);
}

static luo_status read_straggler(luo_sync_rank *rank, luo_diags *diags, luo_err *err)
{
    luo_straggler_row *rows;
    int64_t n;
    LUO_TRY(luo_straggler_parse(rank->arena, rank->job.straggler, rank->workers, &rank->straggler,
                                err));
    if (rank->straggler.kind != LUO_STRAGGLER_TRACE) return LUO_OK;
    LUO_TRY(luo_read_straggler(rank->arena, rank->straggler.path, rank->workers, &rows, &n, diags));
    return luo_straggler_trace(&rank->straggler, rows, n, err);
}

/* MPI counts the bytes of a message by an int: all rows at once, and what is read and updated when
 * it is verified, are the largest. */
static luo_status check_messages(const luo_sync_rank *rank, luo_err *err)
{
    const bool embeds = rank->job.embed != LUO_SYNC_NO_EMBED;
    const double width = embeds ? LUO_SYNC_EMBED_WIDTH : rank->toy.width;
    const double most = (double)luo_toy_most(&rank->toy);
    const double body = fmax((double)rank->toy.rows, most) * (16 + 8 * width) + 8;
    const double records = embeds && rank->job.verify
                               ? 2 * most * (double)rank->job.iterations * LUO_SYNC_RECORD_BYTES
                               : 0;
    if (body > INT_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "a message would have %.3g bytes, and MPI takes up to %d; fewer keys or "
                           "a smaller --batch is expected.",
                           body, INT_MAX);
    if (records <= INT_MAX) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "--verify would send %.3g bytes of records, and MPI takes up to %d; fewer "
                       "--iterations, a smaller --batch or --verify off is expected.",
                       records, INT_MAX);
}

static luo_status prepare(luo_sync_rank *rank, luo_err *err)
{
    luo_diags diags;
    luo_diags_init(&diags, rank->arena);
    rank->workers = (int32_t)rank->job.workers;
    rank->servers = (int32_t)rank->job.servers;
    luo_sync_job_who(&rank->job, rank->rank, rank->who, sizeof rank->who);
    if (rank->nranks != luo_sync_job_ranks(&rank->job))
        return luo_err_set(err, LUO_EUSAGE,
                           "there are %d ranks; `luoshu sync` starts as many as workers and "
                           "servers.",
                           (int)rank->nranks);
    luo_status st = luo_toy_make(rank->arena, &rank->job, &rank->toy, &diags, err);
    if (st == LUO_OK) st = read_straggler(rank, &diags, err);
    if (st != LUO_OK && diags.first) {
        *err = diags.first->err;
        luo_err_prefix(err, st, "%s:%d:%d", err->path, err->line, err->col);
    }
    LUO_TRY(st);
    LUO_TRY(check_messages(rank, err));
    LUO_TRY(share_out(rank, err));
    if (rank->rank < rank->workers) rank->compute_s = seconds_of(rank->job.compute, rank->rank);
    return open_logs(rank, err);
}

static luo_status play(luo_sync_rank *rank, luo_err *err)
{
    if (rank->rank >= rank->workers)
        return luo_sync_job_groups(&rank->job) ? luo_sync_controller(rank, err)
                                               : luo_sync_server(rank, err);
    if (rank->job.embed != LUO_SYNC_NO_EMBED) return luo_sync_worker_embed(rank, err);
    return luo_sync_job_groups(&rank->job) ? luo_sync_worker_groups(rank, err)
                                           : luo_sync_worker_servers(rank, err);
}

/* Worker 0 may compute all again before it comes here, for as long as that takes; one that is dead
 * does not come, and then the launcher ends all. */
static void meet(luo_sync_rank *rank)
{
    MPI_Request request;
    if (!rank->job.verify) luo_watch_begin(&rank->watch, "the other ranks to end");
    MPI_Ibarrier(rank->world, &request);
    luo_watch_all(&request, 1);
    luo_watch_end(&rank->watch);
    if (rank->workers_comm != MPI_COMM_NULL) MPI_Comm_free(&rank->workers_comm);
    MPI_Comm_free(&rank->world);
}

/* Each looks at the next, by the file of facts that all have. */
static void watch_neighbour(luo_sync_rank *rank)
{
    char path[4096], name[64];
    const int32_t next = (rank->rank + 1) % rank->nranks;
    if (next == rank->rank) return;
    snprintf(path, sizeof path, "%s/facts-%d.csv", rank->job.dir, (int)next);
    luo_sync_job_who(&rank->job, next, name, sizeof name);
    luo_watch_neighbour(&rank->watch, rank->facts, path, name);
}

static luo_status run(luo_sync_rank *rank, MPI_Comm comm, luo_err *err)
{
    LUO_TRY(luo_watch_open(&rank->watch, rank->who, rank->job.stuck_s, err));
    luo_watch_begin(&rank->watch, "the other ranks to start");
    MPI_Comm_dup(comm, &rank->world);
    MPI_Comm_set_errhandler(rank->world, MPI_ERRORS_ARE_FATAL); /* a rank less computes nothing */
    MPI_Comm_split(rank->world, rank->rank < rank->workers ? 0 : MPI_UNDEFINED, rank->rank,
                   &rank->workers_comm);
    MPI_Barrier(rank->world);
    /* One zero for all: times of different ranks are compared. */
    rank->zero_s = luo_clock_s();
    MPI_Bcast(&rank->zero_s, 1, MPI_DOUBLE, 0, rank->world);
    luo_watch_end(&rank->watch);
    watch_neighbour(rank);
    const luo_status st = play(rank, err);
    if (st == LUO_OK) meet(rank);
    luo_watch_close(&rank->watch);
    return st;
}

luo_status luo_sync_rank_run(const luo_sync_job *job, MPI_Comm comm, luo_err *err)
{
    luo_sync_rank sync_rank = {.job = *job, .log = -1, .facts = -1, .workers_comm = MPI_COMM_NULL};
    int rank, nranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    sync_rank.rank = rank;
    sync_rank.nranks = nranks;
    sync_rank.arena = luo_arena_new(1 << 16);
    if (!sync_rank.arena) return luo_err_nomem(err);
    luo_status st = prepare(&sync_rank, err);
    if (st == LUO_OK) st = run(&sync_rank, comm, err);
    if (sync_rank.log >= 0) close(sync_rank.log);
    if (sync_rank.facts >= 0) close(sync_rank.facts);
    luo_arena_free(sync_rank.arena);
    return st;
}

luo_status luo_sync_rank_main(int argc, char **argv, luo_err *err)
{
    luo_sync_job job;
    luo_boot *boot = NULL;
    int32_t rank, nranks;
    LUO_TRY(luo_sync_job_read(argc, argv, &job, err));
    LUO_TRY(luo_boot_open(&boot, &rank, &nranks, err));
    LUO_TRY(luo_sync_rank_run(&job, MPI_COMM_WORLD, err)); /* else mpirun ends the others */
    luo_boot_close(boot);
    return LUO_OK;
}
