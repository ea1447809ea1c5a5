/* alltoall.h: three ways for the rows of experts to reach their devices.
 *
 * Notation: N nodes of G devices, M = N G; every device holds M blocks of c rows, block m for
 * device m, and has M blocks afterwards, block m from device m. S bytes a device.
 *   flat    every device to every other
 *   leader  a node's rows meet on its first device, nodes exchange, the leader deals them out
 *   2d      devices of a node exchange by the index of the receiver, then equal indices of all
 *           nodes do
 * Source: leader HetuMoE (hierarchical all-to-all); differs: any N, G, c. 2d is ours.
 */
#ifndef LUO_CORE_GRAPH_MOE_ALLTOALL_H
#define LUO_CORE_GRAPH_MOE_ALLTOALL_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/words.h"

#define LUO_ALLTOALL_LIST(X)                                                                       \
    X(LUO_ALLTOALL_FLAT, "flat")                                                                   \
    X(LUO_ALLTOALL_LEADER, "leader")                                                               \
    X(LUO_ALLTOALL_2D, "2d")
typedef enum luo_alltoall_kind { LUO_ALLTOALL_LIST(LUO_WORD_VALUE) } luo_alltoall_kind;
enum { LUO_ALLTOALL_KINDS = LUO_ALLTOALL_2D + 1 };
typedef enum luo_leader_step { /* of leader, as in programs */
                               LUO_LEADER_GATHER,
                               LUO_LEADER_EXCHANGE,
                               LUO_LEADER_SCATTER,
                               LUO_LEADER_STEPS
} luo_leader_step;
const char *luo_alltoall_kind_name(luo_alltoall_kind kind); /* "flat" */

typedef struct luo_alltoall {
    int32_t nodes, each; /* N, G */
    int64_t rows;        /* c */
} luo_alltoall;

typedef struct luo_alltoall_links {
    double message_s, bytes_per_s;             /* between nodes, of one NIC */
    double inner_message_s, inner_bytes_per_s; /* inside a node */
    double memory_bytes_per_s;
    int32_t nics; /* of a node: neighbours share one where they are fewer than devices; 0: 1 */
} luo_alltoall_links;
/* Messages that the busiest NIC sends, and bytes, for S bytes a device. A leader has one NIC. */
double luo_alltoall_messages(const luo_alltoall *alltoall, luo_alltoall_kind kind,
                             const luo_alltoall_links *links);
double luo_alltoall_nic_bytes(const luo_alltoall *alltoall, luo_alltoall_kind kind,
                              const luo_alltoall_links *links, double bytes);
/* Seconds for S bytes a device: those of the busiest NIC, and what is done inside a node. With one
 * NIC a node as published; several are ours. */
double luo_alltoall_seconds(const luo_alltoall *alltoall, luo_alltoall_kind kind,
                            const luo_alltoall_links *links, double bytes);
/* Bytes a device below which leader is faster than flat; 0: it never is. It may still not be the
 * fastest: luo_alltoall_best. */
double luo_alltoall_limit(const luo_alltoall *alltoall, const luo_alltoall_links *links);
/* A leader has two buffers of G S bytes. Errors: LUO_EOOM they do not fit into free_bytes of
 * `device`. */
luo_status luo_alltoall_fits(const luo_alltoall *alltoall, luo_alltoall_kind kind, double bytes,
                             double free_bytes, int32_t device, luo_err *err);
/* The fastest of those that fit; of equal ones the first. */
luo_alltoall_kind luo_alltoall_best(const luo_alltoall *alltoall, const luo_alltoall_links *links,
                                    double bytes, double free_bytes);

/* ---- sweeps ---- */

typedef enum luo_alltoall_axis {                     /* what is swept beside S */
                                 LUO_ALLTOALL_SIZE,  /* nothing */
                                 LUO_ALLTOALL_NODES, /* N */
                                 LUO_ALLTOALL_EACH   /* G */
} luo_alltoall_axis;
typedef struct luo_alltoall_row {
    luo_alltoall at;
    double bytes; /* S, whole */
    double seconds[LUO_ALLTOALL_KINDS], messages[LUO_ALLTOALL_KINDS], nic_bytes[LUO_ALLTOALL_KINDS];
    bool leader_fits;
    luo_alltoall_kind best;
    double limit;
} luo_alltoall_row;
enum { LUO_ALLTOALL_SIZES = 41 }; /* of S: half octaves from 1 KiB to 1 GiB */
/* Rows by N or G, powers of two (N 2 to 128, G 1 to 16, and on to that of the given one), and by S.
 * Pre: alltoall->nodes >= 2, alltoall->each >= 1, links above 0. Errors: LUO_ENOMEM. Owner: arena.
 * See: tests/unit/check_alltoall.c */
luo_status luo_alltoall_sweep(luo_arena *arena, const luo_alltoall *alltoall,
                              const luo_alltoall_links *links, double free_bytes,
                              luo_alltoall_axis axis, luo_alltoall_row **out, int32_t *n,
                              luo_err *err);
#endif
