/* backend.h: what a backend is for the driver: one table of functions, chosen at run time.
 *
 * Time is in seconds of the backend's clock (virtual or wall), sizes in bytes. Every call returns
 * a status; a failed peer arrives as LUO_EPEER, in the simulator exactly as from a real library.
 * What carries out single instructions is another table (executor.h): only the interpreter calls
 * it. */
#ifndef LUO_CORE_RUN_BACKEND_H
#define LUO_CORE_RUN_BACKEND_H
#include "core/graph/program/program.h"
#include "core/plan/plan.h"
#include "core/run/events/world.h"

/* WHAT_IF: a second state can be opened beside that of a run, and steps of other worlds be made.
 * ISSUE_ORDER: communication of a device begins in the order of issue (NCCL), so that a message
 * that nobody takes yet holds up whatever comes after it.
 * PARTS: a step may be several programs that run one after the other (luo_step_part). */
enum {
    LUO_CAP_VIRTUAL_TIME = 1,
    LUO_CAP_DATA = 2,
    LUO_CAP_LINK_EVENTS = 4,
    LUO_CAP_WHAT_IF = 8,
    LUO_CAP_ISSUE_ORDER = 16,
    LUO_CAP_PARTS = 32
};

typedef enum luo_comm_mode { LUO_COMM_MODEL, LUO_COMM_FLOW, LUO_COMM_MESSAGE } luo_comm_mode;

typedef struct luo_backend_config {
    const luo_cluster *cluster;
    const luo_stack *stack;
    const luo_model *model;
    luo_dtype dtype;
    const void *options;  /* of the backend (exec/options.h); NULL: none */
    luo_comm_mode comm;
    bool fold;            /* lane folding (ARCHITECTURE.md) */
    bool one_comm_stream; /* --comm-streams 1 */
    double compute_sigma, comm_sigma; /* noise; 0: none */
    uint64_t seed;
    const volatile int *interrupted; /* not 0: a step that is simulated ends with LUO_ECANCELED;
                                        NULL: nobody interrupts */
} luo_backend_config;

/* Shares of a step on one device: at each instant the first that is busy, in this order, else
 * bubble (docs/results.md). They sum to the step. */
typedef struct luo_parts {
    double compute_s, recompute_s, tp_s, ep_s, cp_s, pp_s, dp_s, move_s, io_s, bubble_s;
} luo_parts;

typedef struct luo_op_record { /* one issued instruction, when traced */
    int32_t device, task, instr;
    double start_s, end_s; /* since the start of the step */
    luo_status status;
} luo_op_record;

typedef struct luo_link_use {
    double bytes_up, bytes_down, busy_up_s, busy_down_s; /* `>` away from devices, `<` towards */
} luo_link_use;

/* Bytes of links over run time, in windows of one length, which doubles as often as the run asks
 * for it: 24 windows or more at its end, unless it has one step. */
enum { LUO_LINK_WINDOWS = 48 };
typedef struct luo_link_windows {
    int32_t nlinks;
    double window_s;   /* 0: no step yet */
    double *up, *down; /* [link * LUO_LINK_WINDOWS + window] */
} luo_link_windows;

typedef struct luo_comm_use { /* per group, or per exchange of P2P */
    int32_t group;    /* index in programs->groups; -1: P2P */
    int32_t exchange; /* P2P: which */
    int32_t coll, stream, devices;
    int64_t calls, bytes;
    double busy_s, exposed_s;
} luo_comm_use;

/* What programs were compiled from. Ranks in other processes compile them again from this and
 * compare the hash: the same core code, proven to have made the same program. */
typedef struct luo_recipe {
    const luo_plan *plan;     /* of the steps; of a switch: the plan to go to */
    const luo_plan *from;     /* switch: the plan to leave; NULL: programs of a step */
    int64_t sequence_tokens;  /* of the compilation of `plan` */
    int64_t from_tokens;      /* of that of `from` */
    int32_t ndead;            /* switch: devices that cannot send */
    const int32_t *dead;
} luo_recipe;

typedef enum luo_state_action {
    LUO_STATE_INIT, /* weights before the first step, from the seed or a file of the options */
    LUO_STATE_LOAD, /* from the newest checkpoint that is whole and not after `step` */
    LUO_STATE_SAVE, /* a checkpoint of the state after `step` steps */
    LUO_STATE_BIND  /* programs get their buffers and communicators; state stays where it is */
} luo_state_action;
typedef struct luo_passed { /* a checkpoint that cannot be read */
    const char *path, *why;
} luo_passed;
typedef struct luo_state_info { /* what a LOAD came across; lives until the next call */
    const char *loaded; /* path of the checkpoint; NULL: not known */
    int32_t npassed;
    const luo_passed *passed; /* newer ones, newest first */
} luo_state_info;
typedef struct luo_state_request {
    luo_state_action action;
    const luo_recipe *recipe;
    const luo_programs *programs;
    const luo_world *world;
    int64_t step; /* SAVE: steps done; LOAD: no later one, INT64_MAX: any */
    luo_state_info *info; /* out of LOAD; NULL: not wanted */
    bool *processes; /* out of INIT and LOAD, per device: it has a process now; NULL: not wanted */
} luo_state_request;

/* The changes that follow those of a request, for a step that outlasts them. */
typedef struct luo_ahead {
    double whole_s; /* all changes up to here were given; backend time */
    /* Changes in (whole_s, until_s], and whole_s moves on; it stays before until_s where there are
     * very many, then one asks again. The list lives until the next call. Errors: LUO_E2BIG more
     * changes than the limit of work; LUO_ENOMEM. */
    luo_status (*more)(struct luo_ahead *a, double until_s, const luo_change **changes, int32_t *n,
                       luo_err *err);
    void *run;
    int64_t given;
} luo_ahead;

/* One of several programs that make a step. Gradients of all parts are summed and the last part
 * updates; the loss of a part is its share of the step's. All parts keep optimizer state in the
 * same layout, and their assignments share the numbers of the step's sequences. */
typedef struct luo_step_part {
    int32_t index, n;      /* n 0: the step is whole */
    int32_t nsequences;    /* of the step */
    const int64_t *length; /* [nsequences], by number */
} luo_step_part;
static inline bool luo_step_part_is_last(const luo_step_part *part)
{
    return part->n == 0 || part->index == part->n - 1;
}
/* Time of this part's update against that of a whole step, which streams `bytes` a parameter: the
 * first part keeps its gradients, others add to them, the last one adds them as it updates. */
double luo_step_part_update(const luo_step_part *part, double bytes);

typedef struct luo_step_request {
    const luo_programs *programs;
    const luo_recipe *recipe;   /* NULL allowed without LUO_CAP_DATA */
    const luo_world *world;     /* at the start of the step */
    int64_t world_name; /* requests of one state that have the same, not 0, have equal worlds */
    const luo_change *changes;  /* dated after it, ascending; at_s is backend time */
    int32_t nchanges;
    luo_ahead *ahead; /* what follows them; NULL: nothing */
    int64_t step;
    luo_step_part part;
    int32_t attempt;
    bool trace;
} luo_step_request;

typedef struct luo_step_result {
    luo_status status; /* LUO_OK, LUO_EPEER (a device or link failed), LUO_ESTUCK .. */
    char text[LUO_ERR_TEXT]; /* sentence unless LUO_OK */
    double start_s, end_s;   /* backend time; end_s = when it ended or failed */
    int32_t failed_device, failed_link; /* -1: none */
    bool died;               /* its process is gone: all processes have to start again */
    bool has_loss;           /* loss: mean over the targets; grad_norm before clipping */
    double loss, grad_norm;
    bool reused;             /* memoised: nothing was simulated */
    int64_t name; /* not 0: a result of the same state with the same one has equal length, arrays */
    const char *note;        /* what the backend simplified so far, for a warning; NULL: nothing */
    int32_t n;               /* devices of the programs, in their order */
    const luo_parts *parts;
    const double *compute_s;   /* own compute stream busy, collectives excluded */
    const double *predicted_s; /* the same on a nominal device of the type */
    const int64_t *memory_bytes; /* largest use so far, by device; NULL: not known */
    int32_t nrecords, nlinks, ncomm;
    const luo_op_record *records; /* all devices, when traced; by device, then issue order */
    const luo_link_use *links;    /* per cluster link; NULL: not known */
    const luo_comm_use *comm;
} luo_step_result;

typedef struct luo_backend_state luo_backend_state; /* of the backend */

typedef struct luo_backend {
    const char *name; /* "sim" "host" "cuda" */
    uint32_t caps;
    /* The same for one of several jobs on the cluster, whose `options` are a luo_jobs
     * (core/run/jobs/jobs.h); NULL: it cannot. */
    const struct luo_backend *jobs;
    /* One line: versions, device, precision. */
    luo_status (*describe)(char *text, size_t size);
    luo_status (*open)(const luo_backend_config *config, luo_backend_state **out, luo_err *err);
    void (*close)(luo_backend_state *b);
    /* Runs one step of all programs, i.e. luo_interp_program for every rank. The result lives until
     * the next call. A failure inside the step is LUO_OK here and told in result->status. */
    luo_status (*run_ranks)(luo_backend_state *b, const luo_step_request *request,
                            luo_step_result *result, luo_err *err);
    /* Training state of all ranks, NULL without LUO_CAP_DATA. INIT and LOAD start processes that
     * are gone, of devices that are up in the world; whoever joins late is started with them.
     * *step: LOAD: steps done by what was loaded. Errors: LUO_EINPUT no or broken file; LUO_EIO;
     * LUO_EPEER a rank died meanwhile: nothing was saved or loaded, and after SAVE and BIND the
     * next run_ranks tells which one. */
    luo_status (*state)(luo_backend_state *b, const luo_state_request *request, int64_t *step,
                        luo_err *err);
    double (*now)(const luo_backend_state *b);
    luo_status (*sleep_until)(luo_backend_state *b, double at_s);
} luo_backend;

/* Rows known to this build; cli fills the table. NULL if there is none of that name. */
const luo_backend *luo_backend_find(const luo_backend *const *table, int32_t n, const char *name);
#endif
