/* sync_job.h: what a run of toy models on host ranks is told: by `luoshu sync` and `embed` to
 * `luoshu-rank --sync-toy`, as words. Nothing here knows MPI.
 *
 * Ranks: workers first, then servers (bsp, ssp, asp, embed; none of --exchange allreduce) or one
 * controller (the others). */
#ifndef LUO_EXEC_SYNC_SYNC_JOB_H
#define LUO_EXEC_SYNC_SYNC_JOB_H
#include "core/sync/embed/het.h"
#include "core/sync/loop.h"

#define LUO_SYNC_TOY_LIST(X)                                                                       \
    X(LUO_TOY_SOFTREG, "softreg")                                                                  \
    X(LUO_TOY_MLP, "mlp") X(LUO_TOY_WIDE, "wide") X(LUO_TOY_WIDE_DEEP, "wide_deep")
typedef enum luo_sync_toy { LUO_SYNC_TOY_LIST(LUO_WORD_VALUE) LUO_TOYS } luo_sync_toy;

/* none: the modes of core/sync/loop.h. ps: a cache of no rows. gmp: het, and the partition says who
 * trains on which samples and which server has which rows. */
#define LUO_SYNC_EMBED_LIST(X)                                                                     \
    X(LUO_SYNC_NO_EMBED, "none")                                                                   \
    X(LUO_SYNC_PS, "ps") X(LUO_SYNC_HET, "het") X(LUO_SYNC_GMP, "gmp")
typedef enum luo_sync_embed { LUO_SYNC_EMBED_LIST(LUO_WORD_VALUE) LUO_SYNC_EMBEDS } luo_sync_embed;

/* How workers of a group average: messages, or a communicator of each set of members. */
#define LUO_SYNC_COMM_LIST(X) X(LUO_SYNC_P2P, "p2p") X(LUO_SYNC_CREATE, "create")
typedef enum luo_sync_comm { LUO_SYNC_COMM_LIST(LUO_WORD_VALUE) LUO_SYNC_COMMS } luo_sync_comm;

enum { LUO_SYNC_NOBODY = -3 };

typedef struct luo_sync_job {
    int64_t mode, embed, toy, comm, shard, policy; /* luo_loop_mode, the enums above, .. */
    int64_t workers, servers, iterations;
    int64_t seed; /* 63 bits */
    int64_t batch;
    double rate;           /* of learning */
    int64_t staleness;     /* of ssp */
    const char *compute;   /* seconds of an iteration at least: one, or one a worker, by commas */
    const char *straggler; /* SPEC of core/sync/straggler.h */
    int64_t max_group, guard, pairs, adaptive; /* luo_preduce_opts */
    double wait_s, wait_max_s, wait_min_s, beta;
    int64_t cache_rows, pull_bound, push_bound; /* luo_het_opts */
    int64_t rounds;                             /* luo_gmp_opts */
    double balance;
    double stuck_s;
    int64_t verify;
    /* Who kills itself then, for tests: a worker in the middle of a push or of its group's average,
     * server 0 (LUO_LOOP_SERVER), the controller (LUO_LOOP_CONTROLLER), LUO_SYNC_NOBODY. */
    int64_t die;
    double die_s;
    const char *dir;  /* of the logs */
    const char *data; /* a click log; "": synthetic */
    int64_t form;     /* of that: luo_clicks_form of core/io/clicks */
    /* --keys: samples of that law instead; vocab 0: none. */
    double theta;
    int64_t vocab, slots;
    int64_t exchange, hybrid;    /* luo_exchange_how of clocks; luo_exchange_pick */
    double alpha_s, bytes_per_s; /* of `cost`: a network card */
} luo_sync_job;

extern const char *const luo_sync_toys[], *const luo_sync_embeds[], *const luo_sync_comms[];

/* All that is not 0 when nothing is said. */
luo_sync_job luo_sync_job_default(void);
/* How many ranks; which of them a rank is: "worker 2", "server 0", "the controller". */
int32_t luo_sync_job_ranks(const luo_sync_job *job);
bool luo_sync_job_groups(const luo_sync_job *job); /* a controller, no servers */
void luo_sync_job_who(const luo_sync_job *job, int32_t rank, char *out, size_t size);

/* The job as words `--NAME VALUE`, ended by NULL; read takes the same words.
 * Errors: LUO_ENOMEM; LUO_EUSAGE a word or a number that is none. Owner: arena. */
luo_status luo_sync_job_words(luo_arena *arena, const luo_sync_job *job, const char *const **words,
                              int32_t *n, luo_err *err);
luo_status luo_sync_job_read(int argc, char **argv, luo_sync_job *out, luo_err *err);
#endif
