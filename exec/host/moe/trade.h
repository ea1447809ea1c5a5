/* trade.h: what trade.c and leader.c share: how many rows go where, and their orders. Counts are of
 * elements; lists of n are by rank of all devices that have all experts together. */
#ifndef LUO_EXEC_HOST_MOE_TRADE_H
#define LUO_EXEC_HOST_MOE_TRADE_H
#include "exec/host/job.h"

/* For the experts of every rank from home, and from every rank there. */
void host_count_rows(luo_rank *rank, const luo_bound_trade *trade, int32_t task, int *at_home,
                     int *at_there);
void host_row_starts(const int *counts, int32_t n, int *starts);
/* Between rows by (sender, expert) and by (expert, sender): to the latter, unless trade->back. */
void host_reorder_rows(luo_rank *rank, const luo_bound_trade *trade, int32_t task, char *by_sender,
                       char *by_expert);
/* A table of blocks by rows, counts [rows x columns], to one by columns. starts: room for them. */
void host_transpose_rows(size_t elem, const int *counts, int32_t rows, int32_t columns,
                         int *starts, const char *from, char *to);
/* The counts of such a table by columns. */
void host_transpose_counts(const int *counts, int32_t rows, int32_t columns, int *to);
/* Counts by sender to the buffer that has them there. */
void host_place_counts(luo_rank *rank, const luo_bound_trade *trade, int32_t task,
                       const char *from);
/* Among n ranks of the communicator: comm->counts says what is sent, then what is received. */
luo_status host_exchange_rows(luo_rank *rank, host_pending *pending, int32_t n, const char *from,
                              char *to);

/* leader.c */
luo_status host_bind_led(luo_job *job, host_comm *comm, luo_err *err);
luo_status host_begin_gather(luo_rank *rank, host_pending *pending);
luo_status host_begin_leaders(luo_rank *rank, host_pending *pending);
luo_status host_begin_scatter(luo_rank *rank, host_pending *pending);
void host_scatter_arrived(luo_rank *rank, const host_pending *pending);
#endif
