/* trade_internal.h: one step of an exchange of rows, for trade.c and leader.c only. */
#ifndef LUO_EXEC_CUDA_MOE_TRADE_INTERNAL_H
#define LUO_EXEC_CUDA_MOE_TRADE_INTERNAL_H
#include "exec/cuda/comm/comm.h"
#include "exec/cuda/moe/moe.h"

typedef struct trader { /* one step of one exchange */
    luo_rank *r;
    const gpu_op *op;
    const luo_bound_trade *t;
    const luo_group *group;
    cudaStream_t stream;
    int64_t width, elem;       /* elements of a row, of counts 1; bytes of an element */
    const float *home, *there; /* counts on the host; NULL: counts travel, one for each */
    const float *between;
    char *at_home, *at_there, *mid;
    int32_t own, n; /* rank in the group; messages so far */
    const luo_slot *slot;
} trader;

/* ---- how many and where, in rows ---- */

static inline int64_t experts_of(const luo_bound_trade *trade, int32_t rank)
{
    return trade->expert[rank + 1] - trade->expert[rank];
}

/* Blocks of a sender for a rank. */
static inline int64_t blocks_of(const trader *x, int32_t rank)
{
    return x->t->counts ? 1 : experts_of(x->t, rank);
}

static inline int64_t home_rows(const trader *x, int32_t rank, int64_t block)
{
    if (x->t->counts) return experts_of(x->t, rank);
    return (int64_t)x->home[x->t->expert[rank] + block];
}

static inline int64_t rows_there(const trader *x, int32_t sender, int64_t block)
{
    const luo_bound_trade *trade = x->t;
    const int64_t here = experts_of(trade, trade->rank);
    if (trade->counts) return here;
    return (int64_t)x->there[sender * trade->each * here + block];
}

/* First row of a sender's block among those here; counts lie by sender. */
static inline int64_t place_there(const trader *x, int32_t sender, int64_t block)
{
    const luo_bound_trade *trade = x->t;
    if (trade->counts) return sender * trade->each * experts_of(trade, trade->rank);
    return x->r->job->moe->start[block * trade->n + sender];
}

static inline char *row_at(const trader *x, char *at, int64_t row)
{
    return at + row * x->width * x->elem;
}

/* ---- messages ---- */

/* To or from a device; away: it leaves. No rows are no message. */
static inline void message_of(trader *x, int32_t device, bool away, char *at, int64_t rows)
{
    if (rows == 0) return;
    x->r->job->moe->message[x->n++] = (gpu_message){device, away, at, rows * x->width};
}

static inline luo_status keep(const trader *x, const char *from, char *to, int64_t rows)
{
    const size_t bytes = (size_t)(rows * x->width * x->elem);
    if (bytes == 0) return LUO_OK;
    return gpu_check(&x->r->err,
                     cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, x->stream),
                     "rows that stay");
}

/* leader.c */
luo_status gpu_list_led(trader *x);
/* Of a leader, in rows: most that a run has, and whether what is there fits. Counts that it keeps
 * of all that goes through it. */
int64_t gpu_led_room(const luo_bound_trade *trade, bool arrives);
bool gpu_led_fits(const trader *x);
int64_t gpu_led_counts(const luo_bound_trade *trade);
int64_t gpu_led_messages(const luo_bound_trade *trade);
#endif
