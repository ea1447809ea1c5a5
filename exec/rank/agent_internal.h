/* agent_internal.h: what the files of the agent share; nobody else includes it.
 *
 * agent.c (the life), agent_args.c (command line and inputs), agent_work.c (commands). */
#ifndef LUO_EXEC_RANK_AGENT_INTERNAL_H
#define LUO_EXEC_RANK_AGENT_INTERNAL_H
#include "exec/rank/agent.h"
#include "exec/rank/boot.h"
#include "exec/coordinator/listener.h"

typedef struct luo_agent_job {
    int32_t id;
    luo_arena *arena; /* of all below */
    luo_plan *plan;
    luo_programs *set;
    luo_recipe recipe;
    luo_job *job; /* of the executor */
    struct luo_agent_job *next;
} luo_agent_job;

typedef struct luo_agent {
    const luo_rank_args *args;
    const luo_rank_executor *executor;
    void (*say)(int32_t rank, const char *text); /* NULL: nobody wants to know */
    luo_boot *boot;
    luo_listener *listener;
    luo_arena *arena;
    int32_t rank, nranks;
    luo_setup setup;
    const luo_model *model;
    const luo_cluster *cluster;
    luo_stack stack;
    luo_corpus *corpus;
    luo_progress_report where;
    luo_rank_config config;
    luo_exec *x;
    luo_agent_job *jobs;
} luo_agent;

/* Model and cluster, from the files of the command line. Errors: with file, line and column in the
 * sentence. */
luo_status luo_agent_read(luo_agent *agent, luo_err *err);
/* Carries a command out and writes what follows status and sentence of the answer. */
luo_status luo_agent_work(luo_agent *agent, luo_command *command, luo_wire *answer, luo_err *err);
void luo_agent_drop_jobs(luo_agent *agent);
#endif
