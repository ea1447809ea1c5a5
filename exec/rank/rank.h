/* rank.h: what one rank of an executor does by order of its coordinator. The agent
 * (exec/rank/agent.c) speaks with the coordinator and compiles; host and cuda each fill one table.
 *
 * A rank is one process and one device. World rank r is device_of[r]; ranks that are in no plan at
 * the moment take part in nothing but are asked to prepare, so that they can join.
 */
#ifndef LUO_EXEC_RANK_RANK_H
#define LUO_EXEC_RANK_RANK_H
#include <stdatomic.h>

#include "core/plan/migrate.h"
#include "core/run/backend.h"
#include "exec/data/data.h"
#include "exec/state/state.h"
#include "exec/device_info.h"

/* Where a rank is, for the watchdog. The executor's thread writes, the agent's listening thread
 * reads: it answers even when the executor hangs. */
typedef struct luo_progress_report {
    _Atomic int64_t done;             /* instructions completed since the rank began */
    _Atomic int32_t job, task, instr; /* the one at hand; job -1: none */
    _Atomic bool waiting;             /* in communication */
} luo_progress_report;

typedef struct luo_rank_config {
    int32_t rank, nranks;
    int32_t local;            /* which GPU of this host, modulo those there are */
    bool share_gpus;          /* several ranks may have one; else that is refused */
    const int32_t *device_of; /* by rank, ascending */
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;   /* for predicted_s; NULL: that is 0 */
    bool calls_beside;        /* dp_overlap: calls of Pre and Post run beside tasks */
    luo_dtype dtype;          /* LUO_F32 or LUO_F64 on host; LUO_BF16 or LUO_F32 on cuda */
    const luo_corpus *corpus;
    luo_progress_report *where;
    const _Atomic bool *abort; /* set by the listener: drain the step */
    bool messages_inside; /* luo_layout_make; an executor sets it */
} luo_rank_config;

typedef struct luo_pace { /* slowdown of this device: from at_s on (CLOCK_MONOTONIC seconds) */
    double at_s, slowdown;
} luo_pace;

typedef struct luo_step_order {
    int64_t step;
    luo_step_part part;
    bool trace;
    /* The same on all ranks, as the trace is: none of them has a slowdown, a delay or a dated
     * withdrawal in this step. What a captured step needs to know, since whether communication is
     * captured is for all who take part to agree in; the host takes every step alike. */
    bool quiet;
    int32_t npace;
    const luo_pace *pace; /* ascending; pace[0].at_s is in the past */
    /* This device fails softly at that time, INFINITY: not in this step; or it kills its process
     * (events with `hard: true`). The agent's listener does both: at withdraw_s it tells the
     * coordinator and sets the abort flag, at kill_s it ends the process. */
    double withdraw_s, kill_s;
    /* Link events: from at_s on, a message of b bytes from this rank to `device` waits
     * b * s_per_byte + extra_s longer. Ascending by at_s; of those for one device the last that has
     * come counts. */
    const struct luo_delay {
        double at_s;
        int32_t device;
        double s_per_byte, extra_s;
    } * delay;
    int32_t ndelay;
} luo_step_order;

typedef struct luo_step_report {
    /* LUO_OK: ran to its end; LUO_ECANCELED: drained, state is as before it; LUO_EPEER, LUO_ESTUCK:
     * given up half-way, the processes have to start again. */
    luo_status status;
    char text[LUO_ERR_TEXT];
    double start_s, end_s; /* CLOCK_MONOTONIC of this host */
    luo_parts parts;
    double compute_s;   /* processor time of compute instructions, plus what the pace added */
    double predicted_s; /* the same on the nominal device of the profile */
    bool has_loss;
    double loss, grad_norm; /* loss: without the auxiliary loss of experts, of which .. */
    double aux_loss;        /* .. this is the part of the tokens here; the sum over ranks counts */
    int32_t nrecords, ncomm;
    const luo_op_record *records; /* when traced, in the order of issue; times since start_s */
    const luo_comm_use *comm;
    int64_t memory_bytes; /* of the slab and the message buffers */
} luo_step_report;

typedef struct luo_exec luo_exec; /* of the executor */
typedef struct luo_job luo_job;   /* a program set bound to buffers and communicators */

typedef struct luo_rank_executor {
    const char *name;
    luo_status (*open)(const luo_rank_config *config, luo_exec **out, luo_err *err);
    void (*close)(luo_exec *x);
    /* Lays out buffers and opens communicators for a plan; collective over all ranks. id: for
     * progress report. set and recipe outlive the job. Weights and state are not valid yet. */
    luo_status (*bind)(luo_exec *x, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                       luo_job **out, luo_err *err);
    void (*unbind)(luo_job *job);
    /* Pieces of parameters and optimizer state of a job, to fill or to save. */
    luo_state *(*state)(luo_job *job);
    /* One step. A failure inside it is LUO_OK here and stands in the report; the report's arrays
     * live until the next call. */
    luo_status (*step)(luo_job *job, const luo_step_order *order, luo_step_report *out,
                       luo_err *err);
    /* Moves state from one job to the other by a switch (what->set NULL: no byte moves) and its
     * recipe; collective. The source's state stays valid until the call has succeeded everywhere;
     * a move that was aborted reports LUO_ECANCELED. */
    luo_status (*move)(luo_job *from, luo_job *to, const luo_switching *what,
                       const luo_recipe *recipe, luo_step_report *out, luo_err *err);
    luo_status (*gather)(luo_exec *x, luo_gather *out); /* for saving state */
    /* For executors whose state is not in host memory; NULL: the arrays of state() are the state.
     * Else they are there from a fetch that succeeded until the next store, in f32 or f64 whatever
     * the precision. contents: fetch fills them from the device; store takes them to the device,
     * where the next step finds them. Of this rank alone. Errors: LUO_ENOMEM, LUO_EOOM,
     * LUO_EBACKEND; store without contents does not fail. */
    luo_status (*fetch)(luo_job *job, bool contents, luo_err *err);
    luo_status (*store)(luo_job *job, bool contents, luo_err *err);
    void (*tell)(const luo_exec *x, luo_device_info *out); /* NULL: nothing to tell; *out is {0} */
    /* A sentence for the log, without full stop, about what went otherwise than wished; each once.
     * NULL: there is none. The slot may be NULL. */
    const char *(*remark)(luo_exec *x);
} luo_rank_executor;

extern const luo_rank_executor luo_host_executor; /* exec/host */
#endif
