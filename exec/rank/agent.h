/* agent.h: one rank by order of its coordinator: the life of the processes `luoshu-rank`
 * and `luoshu-rank-cuda`.
 *
 * Begin MPI, find the coordinator, read the same inputs as it; then compile what it asks for with
 * the same core code, prove by the hash that the same programs came out, and let the executor
 * carry them out, until the coordinator ends it or is gone. */
#ifndef LUO_EXEC_RANK_AGENT_H
#define LUO_EXEC_RANK_AGENT_H
#include "exec/rank/rank.h"

typedef struct luo_rank_args { /* of the command line, but token: of the environment */
    const char *control;       /* "HOST:PORT"; NULL: told by rank 0 */
    const char *token;
    bool broadcast; /* rank 0 tells the others (--launcher none) */
    const char *scenario, *model, *cluster, *stack;
    const char *dtype; /* of the model; NULL: as its file says */
    int32_t noverrides;
    const char **overrides;
} luo_rank_args;

/* Errors: LUO_EUSAGE. Owner: overrides, from malloc. */
luo_status luo_rank_args_read(int argc, char **argv, luo_rank_args *out, luo_err *err);

/* The whole life. say (NULL: nobody): is given a sentence for the log, without full stop, when the
 * executor has one. *code: what the process has to end with when LUO_OK is returned.
 * Errors: those met before there was a coordinator to tell them to. */
luo_status luo_rank_main(int argc, char **argv, const luo_rank_executor *executor,
                         void (*say)(int32_t rank, const char *text), int *code, luo_err *err);
#endif
