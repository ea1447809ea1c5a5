/* coord.h: the coordinator's side of the backends host and cuda, shared by its files; nobody
 * else includes it. It holds no numbers: it makes sure that the right processes run, tells them
 * what to do and builds results from what they report. No MPI.
 *
 * host_row.c, cuda_row.c (the tables), coord_row.c (what they share), coord_jobs.c (processes and
 * what is bound in them), coord_state.c (INIT, LOAD, SAVE), coord_step.c (steps and switches),
 * coord_orders.c (events into orders of ranks), coord_result.c (reports into results), coord_meet.c
 * (records of both sides of a transfer), coord_stuck.c (who waits for whom), coord_dump.c. */
#ifndef LUO_EXEC_COORDINATOR_COORD_H
#define LUO_EXEC_COORDINATOR_COORD_H
#include "core/base/hash.h"
#include "core/run/backend.h"
#include "exec/coordinator/workers.h"

typedef struct luo_coord_job { /* programs that are bound in the ranks */
    int32_t id;                /* 0: none */
    uint64_t plan, hash;       /* of the plan; of the programs */
    int64_t tokens, used;
} luo_coord_job;

/* A switch needs two; what is not in use would only hold memory. */
enum { LUO_COORD_JOBS = 2 };

struct luo_backend_state {
    luo_backend_config config;
    const luo_exec_options *options;
    double t0;       /* CLOCK_MONOTONIC of the backend's 0 */
    luo_arena *last; /* of the last result */
    luo_workers workers;
    bool dead; /* a death was noticed that no result has told */
    int32_t starts;
    luo_coord_job job[LUO_COORD_JOBS];
    int32_t holder; /* job whose state is valid; -1: none */
    int32_t ids;
    int64_t uses;
    bool wrote_init;    /* --save-init is done */
    bool saved;         /* this run has written a checkpoint */
    int64_t *memory;    /* per device of the cluster */
    luo_corpus *corpus; /* --dump-batches */
    int dump;           /* file; -1: none */
    int64_t dumped;     /* steps below are in it .. */
    int32_t dumped_parts; /* .. and of the next one so many parts */
    luo_device_info device_info;      /* of rank 0 */
    bool warned;        /* .. of what is in it, at the first step */
};

static inline double luo_coord_time(const luo_backend_state *backend, double clock_s)
{
    return clock_s - backend->t0;
}

/* ---- coord_row.c ---- */

/* Errors: LUO_EUSAGE, LUO_EBUG, LUO_EIO, LUO_ENOMEM. Pre: the row has checked the dtype. */
luo_status luo_coord_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err);
void luo_coord_close(luo_backend_state *backend);
double luo_coord_now(const luo_backend_state *backend);
luo_status luo_coord_sleep_until(luo_backend_state *backend, double at_s);

/* ---- coord_jobs.c ---- */

/* Starts the processes of devices that are up; if they run already and a device that is up has
 * none, all of them anew. Errors: those of luo_workers_start; LUO_EINPUT a device of the programs
 * is beyond --ranks; LUO_EBACKEND under --launcher none they can start once only. */
luo_status luo_coord_start(luo_backend_state *backend, const luo_world *world,
                           const luo_programs *programs, luo_err *err);
/* The job of plan and tokens, bound in all ranks; programs NULL: their hash is taken as it comes.
 * Errors: LUO_EPEER, LUO_ESTUCK (the workers is down); what ranks say. */
luo_status luo_coord_prepare(luo_backend_state *backend, const luo_plan *plan, int64_t tokens,
                             const luo_programs *programs, int32_t *job, luo_err *err);
/* Waits for a command that is no step. */
luo_status luo_coord_wait(luo_backend_state *backend, const char *what, luo_err *err);
void luo_coord_forget_jobs(luo_backend_state *backend);

/* ---- coord_state.c ---- */
luo_status luo_coord_state(luo_backend_state *backend, const luo_state_request *request,
                           int64_t *step, luo_err *err);

/* ---- coord_step.c ---- */

/* Makes a job the one whose state is valid, by a switch between the same devices: another length of
 * sequences or number of micro-batches needs another program, and no state elsewhere. */
luo_status luo_coord_hold(luo_backend_state *backend, int32_t job, luo_err *err);
luo_status luo_coord_run(luo_backend_state *backend, const luo_step_request *request,
                         luo_step_result *out, luo_err *err);

/* ---- coord_orders.c ---- */

typedef struct luo_coord_orders {
    luo_step_order *at; /* per rank */
    double break_s;     /* a link in use breaks (CLOCK_MONOTONIC); INFINITY: none */
    int32_t broken;     /* that link; -1: none */
    int32_t down;       /* device of the programs that is down at the start; -1: none */
    bool slow_links;    /* some message is delayed */
} luo_coord_orders;

/* What the world and its dated changes mean for each rank. Owner: arena. */
luo_status luo_coord_orders_make(luo_arena *arena, const luo_backend_state *backend,
                                 const luo_step_request *request, luo_coord_orders *out,
                                 luo_err *err);

/* ---- coord_result.c ---- */

/* Reads the reports of all ranks and fills what a step that ended needs: parts, records, comm. */
luo_status luo_coord_result(luo_backend_state *backend, const luo_step_request *request,
                            luo_step_result *out, luo_err *err);

/* ---- coord_meet.c ---- */

/* Sets begin and end of the records of communications to when they met their peers. Records: of all
 * devices of a traced step; a peer's that is missing changes nothing. Cost: O(n log n). */
luo_status luo_coord_meet(luo_arena *scratch, const luo_programs *set, luo_op_record *records,
                          int32_t n, luo_err *err);

/* ---- coord_stuck.c ---- */

/* The sentence of docs/results.md#exit-codes-and-messages from the progress report of workers that
 * was dropped; set: the programs under way. */
void luo_coord_stuck_text(const luo_workers *workers, const luo_programs *set, double stuck_s,
                          int64_t step, char *text, size_t size);

/* ---- coord_dump.c ---- */
luo_status luo_coord_dump_open(luo_backend_state *backend, luo_err *err);
/* Appends the batch of a step, or of a part of it, unless it is in the file already. */
luo_status luo_coord_dump(luo_backend_state *backend, const luo_step_request *request,
                          luo_err *err);
void luo_coord_dump_close(luo_backend_state *backend);
#endif
