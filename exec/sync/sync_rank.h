/* sync_rank.h: one rank of a run of toy models: worker, server or controller. What the files of
 * this folder share; and the main function. */
#ifndef LUO_EXEC_SYNC_SYNC_RANK_H
#define LUO_EXEC_SYNC_SYNC_RANK_H
#include <mpi.h>

#include "exec/sync/sync_job.h"
#include "exec/sync/toys.h"
#include "exec/sync/watch.h"

/* Kinds of messages, which are their tags. What follows a head in a second message is a BODY. */
enum {
    LUO_SYNC_INIT = 1, /* worker 0 -> server: the parameters at the start */
    LUO_SYNC_PUSH,     /* worker -> server: head, then keys, counts, gradients */
    LUO_SYNC_PULL,     /* worker -> server: head with the clock, then keys and versions */
    LUO_SYNC_ANSWER,   /* server -> worker */
    LUO_SYNC_CLOCK,    /* worker -> server: an iteration is finished */
    LUO_SYNC_LEAVE,    /* worker -> server, controller: all are finished */
    LUO_SYNC_END,      /* worker 0 -> server, controller: nothing more comes */
    LUO_SYNC_LOG,      /* server, controller -> worker 0: what was done, in order */
    LUO_SYNC_ARRIVE,   /* worker -> controller: wants a group */
    LUO_SYNC_GROUP,    /* controller -> member */
    LUO_SYNC_BODY,
    LUO_SYNC_RECORD,   /* worker -> worker 0: what it has read and updated */
    LUO_SYNC_RING = 64 /* and the group id modulo LUO_SYNC_RINGS */
};
enum { LUO_SYNC_RINGS = 16384, LUO_SYNC_SLOTS = 64, LUO_SYNC_HEAD = 4 };
enum { LUO_SYNC_EMBED_WIDTH = 2 }; /* a weight, and a whole number that is summed to be checked */
enum { LUO_SYNC_RECORD_BYTES = 3 * sizeof(double) }; /* of what was read or updated, verified */

/* A server's log: what it did for whom. */
enum { LUO_SYNC_DID_ADD = 0, LUO_SYNC_DID_ANSWER = 1, LUO_SYNC_DID_WORDS = 3 };

/* Bytes of messages that a worker has sent or got: what training alone needs. */
enum { LUO_SYNC_PUSHED, LUO_SYNC_PULLED, LUO_SYNC_ASKED, LUO_SYNC_PASSED, LUO_SYNC_BYTES };

typedef struct luo_sync_rank {
    luo_sync_job job;
    int32_t rank, nranks, workers, servers;
    char who[32];
    MPI_Comm world;        /* all ranks */
    MPI_Comm workers_comm; /* MPI_COMM_NULL on others */
    luo_watch watch;
    luo_arena *arena;
    luo_toy toy;
    luo_straggler straggler;
    double compute_s; /* of this worker */
    double zero_s;    /* when all ranks were there, the same number in all */
    int log, facts;   /* descriptors */
    int64_t served; /* rows on servers, the first; workers have those behind and all-reduce them */
    int64_t bytes[LUO_SYNC_BYTES];
    /* .. of them what docs/sync.md counts: keys and numbers, without heads, counts and versions. */
    int64_t payload[LUO_SYNC_BYTES];
} luo_sync_rank;

/* ---- sync_rank.c ---- */

/* The main function: `luoshu-rank --sync-toy --NAME VALUE ..`. Errors: LUO_EUSAGE, LUO_EINPUT,
 * LUO_EBACKEND, LUO_EIO, LUO_ENOMEM. */
luo_status luo_sync_rank_main(int argc, char **argv, luo_err *err);
/* The same, with the ranks of comm. Collective. */
luo_status luo_sync_rank_run(const luo_sync_job *job, MPI_Comm comm, luo_err *err);
double luo_sync_now(const luo_sync_rank *rank); /* seconds since all ranks were there */
/* Rows and facts of this rank, each written whole. Errors: LUO_EIO. */
luo_status luo_sync_row(luo_sync_rank *rank, luo_err *err, const char *fmt, ...) LUO_PRINTF(3, 4);
luo_status luo_sync_fact(luo_sync_rank *rank, const char *name, double value, luo_err *err);
/* The bytes of a worker as facts, with clocks its payload too. Errors: LUO_EIO. */
luo_status luo_sync_bytes(luo_sync_rank *rank, luo_err *err);
/* What luo_sync_verify_bytes counts, as facts. Errors: LUO_EIO. */
luo_status luo_sync_expected(luo_sync_rank *rank, const double *bytes, luo_err *err);
/* bsp, ssp, asp: workers with a clock, not groups and not caches. */
bool luo_sync_clocked(const luo_sync_rank *rank);
/* Messages of bytes; what: "server 0 to take a push". They end, or the watch ends the process. */
void luo_sync_send(luo_sync_rank *rank, int32_t to, int tag, const void *data, size_t bytes);
void luo_sync_receive(luo_sync_rank *rank, int32_t from, int tag, void *data, size_t bytes);
/* Bytes of the next message of that kind; waits for it. */
size_t luo_sync_probe(luo_sync_rank *rank, int32_t from, int tag);
/* The next message of a kind with a head or without content, from whomever: its kind. */
int luo_sync_next(luo_sync_rank *rank, int32_t *from);
/* Computes until an iteration has taken what the straggler says. Returns its seconds. */
double luo_sync_compute(const luo_sync_rank *rank, int64_t k, double start_s);
void luo_sync_barrier(luo_sync_rank *rank, const char *what); /* of workers; "to finish" */
/* All workers begin now: times are counted from here, and bytes. Collective among workers. */
void luo_sync_begin(luo_sync_rank *rank);
/* Ends this process by SIGKILL, if the job wants that by now. */
void luo_sync_die(const luo_sync_rank *rank);
/* Worker 0 at the end: facts of the loss before and after, and weights.csv. Errors: LUO_EIO. */
luo_status luo_sync_outcome(luo_sync_rank *rank, const double *rows, luo_err *err);

/* Rows of an iteration that are on servers: the first of keys[0..n), which ascend. */
int32_t luo_sync_served(const luo_sync_rank *rank, const uint64_t *keys, int32_t n);
/* Those that are all-reduced: how many numbers. */
int64_t luo_sync_ringed(const luo_sync_rank *rank);

/* ---- the roles ---- */

luo_status luo_sync_worker_servers(luo_sync_rank *rank, luo_err *err); /* worker.c */
luo_status luo_sync_worker_groups(luo_sync_rank *rank, luo_err *err);  /* groups.c */
luo_status luo_sync_worker_embed(luo_sync_rank *rank, luo_err *err);   /* embed.c */
luo_status luo_sync_server(luo_sync_rank *rank, luo_err *err);         /* server.c */
luo_status luo_sync_controller(luo_sync_rank *rank, luo_err *err);     /* controller.c */

/* ---- client.c: a worker and its servers ---- */

typedef struct luo_sync_client {
    luo_sync_rank *rank;
    const int32_t *home; /* by key: its server; NULL: as job.shard says */
    int32_t width;
    int64_t vocab;
    bool paced; /* pulls carry the clock, and pushes need no answer */
    int64_t clock;
    double queued_s;                  /* of the last pull: how long servers held it back */
    bool *involved;                   /* by server: the exchange under way has something for it */
    int64_t pushed_away, pulled_away; /* rows to and from servers of another number than its own */
} luo_sync_client;

/* home and paced are the caller's to set. Errors: LUO_ENOMEM. */
luo_status luo_sync_client_open(luo_sync_rank *rank, int32_t width, luo_sync_client *out,
                                luo_err *err);

/* One exchange as in core/sync/embed/het.h; ctx is the client. Pushes go out first, server by
 * server. */
luo_status luo_sync_client_exchange(void *ctx, const luo_het_message *message, luo_err *err);
/* The question of a message alone. */
luo_status luo_sync_client_pull(luo_sync_client *client, const luo_het_message *message,
                                luo_err *err);
/* Tells every server of a kind without content: CLOCK, LEAVE, END. */
void luo_sync_client_tell(luo_sync_client *client, int tag);
/* Worker 0: parameters at the start, as pushes that count for nobody. */
luo_status luo_sync_client_init(luo_sync_client *client, const double *rows, luo_err *err);
/* Reads all rows and their versions, as they are now. */
luo_status luo_sync_client_all(luo_sync_client *client, double *rows, int64_t *versions,
                               luo_err *err);

/* Where a key lies. */
int32_t luo_sync_client_server(const luo_sync_client *client, uint64_t key);

/* ---- groups.c: a step on one's own ---- */

typedef struct luo_sync_local {
    const luo_toy *toy;
    double rate;
    uint64_t *keys; /* scratch of a step */
    double *values, *grads;
} luo_sync_local;
/* Errors: LUO_ENOMEM. Owner: the arena of the rank. */
luo_status luo_sync_local_open(luo_sync_rank *rank, luo_sync_local *out, luo_err *err);
/* rows, all there are, after iteration k of that worker. */
void luo_sync_local_step(const luo_sync_local *local, int64_t worker, int64_t k, double *rows);

/* ---- ring.c ---- */

/* data = the sum over the members; every member calls it with the same members and tag.
 * Shapes: data: n numbers. Cost: 2 (members - 1) messages of n / members numbers. */
luo_status luo_sync_ring(luo_sync_rank *rank, const int32_t *members, int32_t n, double *data,
                         int64_t count, int tag, luo_err *err);

/* ---- verify.c: worker 0 computes everything again, serially ---- */

/* Largest difference relative to the largest weight. */
double luo_sync_verify_differ(const double *a, const double *b, int64_t n);
/* bsp: mini-batch gradient descent with the sum of all workers' gradients, whatever carries it. */
luo_status luo_sync_verify_serial(luo_sync_rank *rank, double *rows, luo_err *err);
/* ssp, asp: every gradient at what the worker had pulled, as the servers' logs tell, and at what
 * is all-reduced, which is of one iteration at all workers.
 * logs[s]: n[s] entries of LUO_SYNC_DID_WORDS numbers: what, worker, iteration. */
luo_status luo_sync_verify_logs(luo_sync_rank *rank, int64_t *const *logs, const int64_t *n,
                                double *rows, luo_err *err);
/* What all workers send and get of a kind, counted by core/sync/exchange.h, as the simulator does,
 * over the keys of all iterations. Shapes: out: LUO_SYNC_BYTES. Errors: LUO_ENOMEM. */
luo_status luo_sync_verify_bytes(luo_sync_rank *rank, double *out, luo_err *err);
/* The rows 0 .. vocab - 1 as a table of core/sync/exchange.h: a number is as long as two floats. */
luo_exchange_table luo_sync_table(const luo_sync_rank *rank, int64_t vocab);
/* Counts what an iteration moves of that table. Scratch: keys, luo_toy_most. Errors: LUO_EINPUT. */
luo_status luo_sync_count(const luo_sync_rank *rank, const luo_exchange_table *table,
                          int32_t worker, int64_t k, uint64_t *keys, luo_exchange_bytes *bytes,
                          luo_err *err);
/* Groups: log of `words` numbers, for each group members, then as many workers and as many
 * iterations. rows: of all workers, one after the other, before the final average. */
luo_status luo_sync_verify_groups(luo_sync_rank *rank, const int64_t *log, int64_t words,
                                  double *rows, luo_err *err);
#endif
