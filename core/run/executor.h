/* executor.h: what carries out the instructions of one device, as the interpreter sees it. The
 * driver's table is another (backend.h). */
#ifndef LUO_CORE_RUN_EXECUTOR_H
#define LUO_CORE_RUN_EXECUTOR_H
#include "core/graph/program/program.h"

typedef struct luo_rank luo_rank; /* of the executor: one interpreter's context */

/* One instruction of one task as the interpreter submits it. */
typedef struct luo_issue {
    const luo_instr *instr;
    const luo_slot *slot;  /* NULL: none */
    int32_t task, micro_batch, chunk;
    bool early; /* in the midst of another task, which may not wait for it. A call of Post: what it
                   waits for has been submitted. A receive of the next task: it waits for nothing,
                   but what it is received into may be in use until `task` begins */
    int32_t ndep;
    const int64_t *dep;    /* tickets of cross-stream dependencies */
} luo_issue;

typedef struct luo_executor {
    /* Starts one instruction in its stream; *ticket >= 0 names its completion. */
    luo_status (*submit)(luo_rank *rank, const luo_issue *issue, int64_t *ticket);
    /* Waits for tickets; n = 0: for everything that this rank submitted. A failed peer is
     * LUO_EPEER, in the simulator exactly as from a real library. */
    luo_status (*wait)(luo_rank *rank, const int64_t *tickets, int32_t n);
} luo_executor;
#endif
