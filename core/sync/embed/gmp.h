/* gmp.h: which worker trains on which samples, and which one keeps which embeddings, so that few
 * rows have to travel.
 *
 * Notation (HET-GMP, SIGMOD 2022, and its public code partition.cc): n parts, M = samples / n (a
 * real number), b = samples of a batch, cm[i][j] = cost of a row between parts i and j, X = weight
 * of balance, c_p(e) = samples of part p that use embedding e, deg e = samples that use it, home e
 * = part that keeps it.
 *
 * soft(k) = (1 - (1 - min(k, M) / M)^b) M / b: of the M / b batches that a part has in an epoch, so
 * many touch an embedding that k of its samples use.
 */
#ifndef LUO_CORE_SYNC_EMBED_GMP_H
#define LUO_CORE_SYNC_EMBED_GMP_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/words.h"

/* Sample i uses embeddings embed[first[i]..first[i + 1]), each of them once. */
typedef struct luo_bigraph {
    int32_t samples, embeds;
    const int64_t *first;
    const int32_t *embed;
} luo_bigraph;

/* Where all begins: modulo puts sample i and embedding i into part i mod n; the others draw. The
 * embeddings of hash are put by a mix of their number, its samples as modulo puts them. */
#define LUO_GMP_START_LIST(X)                                                                      \
    X(LUO_GMP_MODULO, "modulo") X(LUO_GMP_RANDOM, "random") X(LUO_GMP_HASH, "hash")
typedef enum luo_gmp_start { LUO_GMP_START_LIST(LUO_WORD_VALUE) LUO_GMP_STARTS } luo_gmp_start;
const char *luo_gmp_start_name(luo_gmp_start start);

typedef struct luo_gmp_opts {
    int32_t parts;      /* n, 1..LUO_GMP_PARTS */
    int32_t rounds;     /* of both passes */
    double batch;       /* b, at least 1 */
    double balance;     /* X */
    double load_weight; /* of load in the pass of embeddings; 0.01 as published */
    const double *cm;   /* n x n, at least 0, 0 on the diagonal */
    luo_gmp_start start;
    uint64_t seed; /* of start `random` and `hash` */
} luo_gmp_opts;
enum { LUO_GMP_PARTS = 1024 };

/* A partition and what is known of it; of others to be read alone. */
typedef struct luo_gmp {
    const luo_bigraph *graph;
    luo_gmp_opts opts;
    int32_t *sample_part, *embed_home;
    int32_t *count;                  /* c_p(e) at e x n + p */
    int32_t *degree;                 /* deg e */
    int64_t *samples_of, *embeds_of; /* by part */
    double *load; /* by part: b n / samples x the sum over its embeddings of soft(c_p(e)) of the
                   * other parts; as of the last pass of embeddings */
    int64_t nsoft;
    double *soft, *soft_step; /* soft(k), soft(k + 1) - soft(k), up to where it ends to grow */
    double *to_home;          /* cm the other way round: of home q and part p at q n + p */
    double *score;            /* by part, scratch */
} luo_gmp;

double luo_gmp_soft(double m, double b, double k);

/* cm between parts on nodes of `per_node` parts each: 0 to itself, `near` on its node, `far` to
 * others. Shape: parts x parts. Owner: arena. NULL: out of memory. */
double *luo_gmp_costs(luo_arena *arena, int32_t parts, int32_t per_node, double near, double far);

/* The partition that all begins with.
 * Pre:    graph and opts outlive it.
 * Errors: LUO_EINPUT `2 parts for 1 sample; at most one part per sample.`, an embedding that is
 *         none or comes twice in a sample; LUO_EBUG options out of their range; LUO_ENOMEM.
 * Owner:  arena. Cost: O(edges + embeddings x parts + M); 4 bytes for each embedding and part. */
luo_status luo_gmp_make(luo_arena *arena, const luo_bigraph *graph, const luo_gmp_opts *opts,
                        luo_gmp *out, luo_err *err);
/* One pass in the order of numbers, each put where its score is highest with all others as they
 * are then; scores closer than 1e-12: the lowest part. Return how many moved.
 * Source: refine of HET-GMP with live counts, where the public code reads counts that other threads
 * change. As in the public code, what is moved is not counted in the size of its own part, but load
 * has it.
 * Cost: O(edges x parts); O(embeddings x parts^2). */
int64_t luo_gmp_refine_samples(luo_gmp *gmp);
int64_t luo_gmp_refine_embeddings(luo_gmp *gmp);
/* All rounds; ends early when a round moves nothing. Returns the rounds that were made. */
int32_t luo_gmp_refine(luo_gmp *gmp);
/* Sum over parts p and embeddings e of cm[p][home e] soft(c_p(e)). */
double luo_gmp_cost(const luo_gmp *gmp);
/* matrix n x n: b n / samples x the sum over embeddings of home q of soft(c_p(e)), at p n + q: rows
 * that a batch of p asks q for. */
void luo_gmp_traffic(const luo_gmp *gmp, double *matrix);

/* The embeddings of which part p should keep a second replica: of those that it uses and that are
 * kept elsewhere the `ratio` x embeddings (rounded down) with the highest cm[p][home e]
 * soft(c_p(e))^2 (1 / deg e + 1 / c_p(e)), equal ones by number. *out: *n of them, ascending.
 * Errors: LUO_ENOMEM. Owner: arena. Cost: O(embeddings log embeddings). */
luo_status luo_gmp_replicas(luo_arena *arena, const luo_gmp *gmp, int32_t part, double ratio,
                            int32_t **out, int32_t *n, luo_err *err);

/* All of it: sample_part and embed_home, made by the caller. Errors: as luo_gmp_make. */
luo_status luo_gmp_partition(const luo_bigraph *graph, const luo_gmp_opts *opts,
                             int32_t *sample_part, int32_t *embed_home, luo_err *err);

/* ---- what training on it moves ---- */

typedef struct luo_gmp_moved { /* rows between parts in all iterations */
    int64_t iterations;        /* of every part */
    int64_t pulls, pushes;
    int64_t reads;      /* different embeddings of a batch, summed */
    int64_t remote;     /* of these, those that are kept elsewhere */
    int64_t by_replica; /* of these, those that a replica answered */
} luo_gmp_moved;

/* Trains: in every iteration each part takes the next b of its samples, which stand in an order
 * drawn with the seed, all read the embeddings of theirs, then all update them, once for each
 * sample that uses them. What is kept elsewhere is pulled and pushed; if the part has a replica, it
 * is pulled when it lacks more than pull_bound updates, and pushed when it holds back more than
 * push_bound. At the end nothing is pushed.
 * ratio: of luo_gmp_replicas; 0: none. iterations 0: an epoch of the largest part.
 * Errors: LUO_ENOMEM. Cost: O(edges trained on), and 4 bytes for each embedding and part. */
luo_status luo_gmp_train(const luo_gmp *gmp, double ratio, int64_t pull_bound, int64_t push_bound,
                         int64_t iterations, uint64_t seed, luo_gmp_moved *out, luo_err *err);
#endif
