/* step.h: one step being simulated, inside a worker process.
 *
 * An actor per class walks the program (luo_interp_program). Work of the device and communication
 * inside the class is arithmetic on the clocks of its streams and known at once; what reaches other
 * classes is a job. A job starts when its dependencies and its predecessor in the stream are done;
 * then its transfers go to drivers, actors that sleep until a transfer starts, send and wait. A
 * class waits only when it needs the end of a job that is not known yet, so classes run ahead of
 * SimGrid's clock. Where waiting would hold up later instructions of other streams (compute as
 * executions; the last backward tasks of interleaved schedules, and of groups that reach beyond the
 * class) work of the device is a job as well.
 * A staggered set has no barrier between steps: every class walks its program SIM_ROUNDS times, one
 * step after the other, and the last of them is the step that is told: it lasts from the time at
 * which all classes have done the one before (`before`) until all have done it.
 * All actors live on the control host and nothing is owned by their stacks
 * (docs/architecture/simulator.md#simgrid). Times are seconds since the start of the first round.
 */
#ifndef LUO_SIM_STEP_STEP_H
#define LUO_SIM_STEP_STEP_H
#include <simgrid/semaphore.h>

#include "core/run/interp.h"
#include "sim/step/grid.h"
#include "sim/step/noise.h"
#include "sim/step/timeline.h"

/* Tickets: what has a known end is that end (the bits of a double >= 0); a job is the address of
 * its cell under the bits of a NaN. Cells stay, jobs are used again. */
#define SIM_PENDING INT64_C(0x7ff8000000000000)
typedef struct sim_cell {
    double end;
    struct sim_job *job; /* NULL: done */
} sim_cell;

typedef struct sim_step sim_step;
typedef struct sim_job sim_job;
typedef struct sim_beside sim_beside; /* beside.h */

typedef struct sim_edge {
    sim_job *job;
    struct sim_edge *next;
} sim_edge;

typedef struct sim_record { /* of a traced step */
    int32_t task, instr, status;
    double start, end;
    struct sim_record *next;
} sim_record;

struct sim_job {
    luo_rank *rank;
    sim_cell *cell;
    const luo_instr *instr;
    const sim_op *op;
    const sim_cross *cross;
    int32_t task, micro_batch, round;
    int32_t waits;     /* dependencies, predecessor in the stream: not done yet */
    int32_t open;      /* messages under way or awaited */
    bool issued;
    bool ready; /* of a thread: what it waits for is done, if not yet its turn */
    bool queues; /* of a thread: it goes on, and begins this when what it waits for is done .. */
    bool passed; /* .. as it has */
    double start, end; /* start: latest end known of what it waits for */
    double moved_s, moved_e; /* when its first and last byte, in or out, moved */
    double factor;     /* noise */
    sim_edge *dependents;
    sim_job *next_todo, *next_gathered;
    sim_job *before, *after; /* jobs of the rank that are not done, in order of issue */
    sim_record **records; /* per pace, when traced */
};

/* Members of a class whose compute runs alike: same slowdowns, and no noise. */
typedef struct sim_pace {
    sim_timeline slow;
    double clock; /* of stream compute */
    double compute_s, predicted_s;
    luo_ledger ledger;
    sim_record *first, *last;
    int32_t nrecords;
} sim_pace;

typedef struct sim_tally { /* of one communicating instruction */
    int64_t calls;
    double busy_s;
} sim_tally;

struct luo_rank {
    sim_step *step;
    const sim_class *class;
    int32_t index; /* of the class */
    luo_arena *scratch;
    sg_sem_t sem;
    bool blocked, finished;
    const sim_job *waiting_for; /* NULL while blocked: for fewer open jobs */
    int32_t open_jobs, defer_from; /* from this task on nothing waits in submit */
    int32_t jobs_max;              /* open at once */
    luo_status st;
    int32_t round;
    bool told;        /* what is done now belongs to the step that is told */
    double end;       /* of the round at hand, what is beside left out .. */
    double base;      /* .. and when it began */
    double check_s;   /* when the norm is there that nothing in this round waits for .. */
    double last_check_s; /* .. and that of the round before, known before this one ends */
    sim_beside *beside;
    double clock[LUO_LANES]; /* compute: see the paces; here collectives that took its turn */
    const sim_cell *gather[LUO_LANES]; /* the last that brings weights before the first forward, */
    double gather_s;                   /* and the end of what is done of that */
    bool gathered; /* without dp_overlap: the first forward has waited for all of them */
    const sim_cell *shard[LUO_LANES]; /* last gather or scatter in a task, per lane; NULL: done */
    double shard_s;                   /* and the end of what is done of those */
    sim_job *tail[LUO_LANES]; /* last job of the stream; NULL: done */
    bool busy;     /* thread: it computes or carries something */
    sim_job *next; /* thread: the first in order of issue that it has not come to; NULL: none */
    sim_job *work; /* thread: work that it has come to and that is not done; NULL: none */
    const sim_cell *blocking[2]; /* sends that hold up compute (stack: p2p blocking) */
    sim_job *first_job, *last_job;
    int32_t npaces;
    sim_pace *paces;
    int32_t *pace_of; /* per member */
    int32_t ninner; /* links inside the class, if something is wrong with one of them; else 0 */
    int32_t *inner;
    sim_tally *tally; /* per instruction */
    sim_record **records; /* of the work at hand, made when it was issued; NULL: none made yet */
};

typedef struct sim_gather { /* a rendezvous of one micro-batch */
    const sim_rendezvous *rendezvous;
    int32_t micro_batch, of_round, narrived;
    int32_t round; /* of the job's traffics */
    bool mismatch;
    double start, factor;
    sim_job *jobs;
    struct sim_gather *next;
} sim_gather;

typedef struct sim_mail { /* arrived and not received, or the other way round */
    int32_t micro_batch, round;
    int64_t bytes;
    sim_job *receiver; /* NULL: arrived */
    double from, at;   /* first and last byte */
    struct sim_mail *next;
} sim_mail;

typedef struct sim_ring { /* a collective step by step (--comm message) */
    sim_gather *gather;
    int32_t left, steps;
    int32_t *done;              /* steps per edge */
    struct sim_driver **waiter; /* per edge */
} sim_ring;

typedef struct sim_edge_left { /* of the step that an edge of a ring is at */
    double delay_s; /* before its bytes move; < 0: it has not begun */
    double part;    /* of its bytes */
} sim_edge_left;

typedef struct sim_transfer { /* traffic on its way to a driver, or driven */
    const sim_traffic *traffic;
    double start, factor, moved_s;
    int32_t hops;
    sim_job *job; /* of a message or storage */
    const sim_post *post;
    bool execution;     /* the job's own work, no traffic */
    struct sim_talk *talk; /* traffic that threads carry: part of class `edge` */
    sim_gather *gather; /* of a collective */
    sim_ring *ring;     /* one edge of it only .. */
    int32_t edge;       /* .. or all, -1, while nobody shares its wires (ring.c) */
    sim_edge_left left; /* of the edge's next step */
    sim_edge_left *stand; /* of all edges, when somebody came */
    int32_t broken; /* >= 0: ends at `start` because this link is down */
    sg_comm_t *comm; /* NULL: none yet; started and not waited for: comm[first..n) */
    int32_t first, n;
    struct sim_driver *driver;
    bool alone;  /* it has its wires to itself (alone.c): SimGrid does not know its flows */
    bool handed; /* they are just becoming SimGrid's */
    struct sim_transfer *next, *before, *after; /* queue; list of active ones */
} sim_transfer;

typedef struct sim_course { /* of traffic that is alone on its wires */
    double *end;     /* per flow: after the transfer's start; NULL: not known */
    double *room;    /* for it */
    int64_t changes; /* of links, when this was found */
} sim_course;

typedef struct sim_talk { /* traffic that threads carry */
    sim_step *step;
    const sim_traffic *traffic;
    double asked, start, factor; /* asked: all sides had, but perhaps were busy until start */
    double extra_s;              /* what the state of its links adds */
    int32_t left;                  /* threads still at it */
    sim_gather *gather;            /* of a collective */
    sim_job *job;                  /* of a message .. */
    const sim_post *post;
    struct sim_talk *next; /* until it starts: the list of those that could but for the threads */
} sim_talk;

typedef struct sim_driver {
    sim_step *step;
    sg_sem_t sem;
    bool blocked;
    struct sim_driver *next_idle, *next;
} sim_driver;

/* Rounds: the first has empty pipelines before it; from the second on steps were found to be alike
 * (tests/diff/diff_staggered.c). */
enum { SIM_ROUNDS = 3 };
enum { SIM_FLOWS_MAX = 4000, SIM_MESSAGE_MAX = 1024, SIM_JOBS_MORE = 32, SIM_JOBS_ALL = 1 << 22 };

struct sim_step {
    const sim_net *net;
    sim_grid *grid;
    luo_arena *arena; /* emptied before each step */
    luo_rank *ranks;
    const luo_walk **walks; /* per role, then with calls beside tasks; NULL: no class has it */
    sim_noise *noise;       /* per program; NULL: none */
    double update; /* luo_step_part_update of the step asked for */

    double origin; /* SimGrid's clock at the start */
    bool trace, links_quiet;
    bool forerun; /* to learn what slows what (beside.h) */
    sim_beside *beside;   /* per class */
    luo_arena *factors;   /* of beside; NULL: nothing is slowed */
    luo_world *foreseen;  /* of the last forerun */
    bool has_foreseen;
    const luo_world *world;
    const luo_change *changes; /* at_s since the start */
    int32_t nchanges;
    int32_t running; /* classes that have not finished */
    int32_t nactors; /* of classes and drivers that have not ended */
    sg_sem_t done;   /* released when the last of them ends; NULL: nobody waits for it */
    bool over;
    int32_t rounds;
    double ended[SIM_ROUNDS]; /* when the last lane of those so far had done its round */
    double before; /* the step that is told begins; 0 with one round */
    double end;

    bool stopped; /* a failure: everybody comes home */
    luo_status st;
    int32_t failed_device, failed_class, failed_link;

    sim_job *todo, *todo_last, *free_jobs;
    sim_edge *free_edges;
    sim_transfer *free_transfers;
    bool pumping;
    sim_talk *talks, *talks_last;
    sim_transfer *ready, *ready_last, *active;
    int32_t nready, called; /* called: drivers on their way to a ready transfer */
    bool driver_here; /* the running actor will take a ready transfer itself */
    sim_driver *idle, *drivers;
    sim_gather **gathers; /* per rendezvous: those not complete */
    sim_mail **mail;      /* per channel, oldest first */
    const sim_job *mismatch; /* does not fit what its peer does; NULL: none */
    int32_t mismatch_peer;   /* device */
    int32_t in_flight;
    int64_t closed_instead; /* transfers done in closed form for want of room */
    int64_t flow_instead;   /* rings too long to go step by step, done as flows */

    int64_t *runs;      /* per traffic */
    int32_t *busy;      /* per wire: flows on it */
    double *busy_since, *busy_s;
    sim_transfer **owner; /* per wire: who is alone on it; NULL: nobody */
    double *room;         /* per wire: work space .. */
    int32_t *users;       /* .. of alone.c */
    bool links_change;    /* just now: nobody may begin to be alone */
    luo_arena *kept;      /* lives as long as the process */
    sim_course *courses;  /* per traffic */
    int64_t closed, *closed_on; /* transfers in closed form so far; per wire: the last of them */
};

/* ---- step.c ---- */
luo_status sim_step_init(luo_arena *arena, sim_step *step, const sim_net *net, sim_grid *grid);
/* Simulates a step of the given world, behind a forerun if that is another than of the step before.
 * changes: at_s since the start, all devices of the programs are up at the start. The outcome
 * stands in the step. Errors: LUO_ENOMEM. */
luo_status sim_step_run(sim_step *step, const luo_world *world, const luo_change *changes,
                        int32_t nchanges, bool trace);
/* The same in parts, for who has several steps in one run of SimGrid: the forerun that a new world
 * asks for, alone (slows: as run_ahead in step.c says); the start of a step, of which the world is
 * not new; and what is left to do when all its actors have ended. */
luo_status sim_step_foresee(sim_step *step, const luo_world *world, bool *slows);
luo_status sim_step_start(sim_step *step, const luo_world *world, const luo_change *changes,
                          int32_t nchanges, bool trace);
void sim_step_close(sim_step *step);
/* An actor of the step is about to end. */
void sim_actor_ends(sim_step *step);
double sim_now(const sim_step *step);
/* A forerun has flows where steps of a ring are asked for. */
luo_comm_mode sim_step_comm(const sim_step *step);
void sim_sleep_until(const sim_step *step, double at);
/* Ends the step now: LUO_EPEER with a device or link, LUO_ENOMEM. The first call counts. */
void sim_step_fail(sim_step *step, luo_status st, int32_t device, int32_t link);

/* ---- rank.c: what the interpreter calls ---- */
extern const luo_executor sim_executor;
/* Before each round. */
void sim_round_begin(luo_rank *rank, int32_t round);
void sim_rank_wake(luo_rank *rank);
/* What a class gets told when the step has ended early while it waited for `job` (NULL: nothing):
 * LUO_EPEER if the failed device or link has a part in it, else LUO_ECANCELED. */
luo_status sim_rank_status(const luo_rank *rank, const sim_job *job);
double sim_ticket_end(int64_t ticket);       /* of one that is done */
sim_job *sim_ticket_job(int64_t ticket);     /* NULL: done */
/* Work of the device, or communication inside the class, from `ready` on; as arithmetic. */
luo_status sim_work_here(luo_rank *rank, int32_t task, const luo_instr *in, const sim_op *op,
                         double ready, double *end);
/* Seconds of a core for the class, in SimGrid; slow NULL: at full speed. */
luo_status sim_run_execution(luo_rank *rank, const sim_timeline *slow, double seconds);
/* Work of a job as an execution in SimGrid, by a driver. */
luo_status sim_execute(sim_job *job, double *end);
sim_record *sim_record_new(luo_rank *rank, sim_pace *pace, int32_t task, int32_t instr);

/* ---- job.c ---- */
/* A job for a submitted instruction; it starts as soon as it can, not before `ready`. NULL: out of
 * memory. */
const sim_cell *sim_job_new(luo_rank *rank, const luo_issue *issue, const sim_op *op, double factor,
                            double ready);
/* Starts what has become ready. */
void sim_jobs_start(sim_step *step);
void sim_job_start(sim_job *job); /* at once */
void sim_transfer_new(sim_step *step, sim_transfer want);
/* A round of a collective has ended. */
void sim_gather_done(sim_gather *gather, double start, double end);
void sim_message_done(sim_transfer *transfer, double end);
void sim_execution_done(sim_job *job, double end);

/* ---- thread.c ---- */
/* What the job waits for is done: the thread comes to it, and to what follows, in order of issue.
 */
void sim_thread_ready(sim_job *job);
/* The work at hand is done. */
void sim_thread_done(luo_rank *rank);
/* Of traffic with nthreads > 0: a round of a collective, or a message. */
void sim_talk_gather(sim_step *step, sim_gather *gather, const sim_traffic *traffic, double start);
void sim_talk_message(sim_step *step, sim_job *job, const sim_post *post);
/* Starts the first whose threads are free for it; false: there is none. */
bool sim_talk_start(sim_step *step);
/* The part of one thread, by a driver. */
void sim_talk_drive(sim_transfer *t);

/* ---- drive.c ---- */
/* All wires of the traffic were busy so long. */
void sim_wires_busy(sim_step *step, const sim_traffic *traffic, double seconds);
/* The transfer is used again when it is done. */
void sim_transfer_begin(sim_step *step, sim_transfer *transfer);
/* The step ends at that date, because the link is down. */
void sim_break_at(sim_step *step, double at, int32_t link);
/* The same for a collective step by step. */
void sim_ring_begin(sim_step *step, sim_gather *gather, const sim_traffic *traffic, double start);
void sim_drivers_wake(sim_step *step);    /* all that wait, because the step is stopped or over */
void sim_driver_wake(sim_driver *driver); /* if it waits */
/* Makes room for the handles of its flows, if there is none; false: the step has failed. */
bool sim_transfer_comms(sim_step *step, sim_transfer *transfer);
static inline bool sim_flow_carries(const sim_flow *flow)
{
    return flow->nwires > 0 && flow->bytes > 0;
}
void sim_transfers_cancel(sim_step *step);

/* ---- alone.c ---- */
/* Before its first flow starts: is the transfer alone on all its wires? Then they are its own. */
bool sim_alone_begin(sim_step *step, sim_transfer *transfer);
/* The same without a look at its course (ring.c has its own). */
bool sim_alone_take(sim_step *step, sim_transfer *transfer);
/* When a flow ends, if the transfer stays alone. */
double sim_alone_date(const sim_step *step, const sim_transfer *transfer, int32_t flow);
/* All its flows are done: its wires are anybody's again. */
void sim_alone_done(sim_step *step, sim_transfer *transfer);
/* The flow is about to start in SimGrid: nobody is alone on its wires any more. */
void sim_alone_disturb(sim_step *step, const sim_flow *flow);
/* A link is about to change: nobody is alone. */
void sim_alone_end_all(sim_step *step);

/* ---- faults.c ---- */
luo_status sim_faults_begin(sim_step *step); /* world, slowdowns and the actor of dated changes */
/* End of communication inside a class whose links are not all well: the part of `seconds` that
 * bandwidth decides is stretched. A link that goes down on the way ends the step then. */
double sim_inner_end(luo_rank *rank, const luo_instr *in, double start, double seconds);
/* Closed form of a transfer under the states of its links, `before_s` seconds of bandwidth being
 * used first. *broken: link that is down on the way (then the result is when), else -1. */
double sim_closed_end(const sim_step *step, const sim_traffic *traffic, double start,
                      double before_s, double factor, int32_t *broken);

/* ---- stuck.c ---- */
void sim_stuck_text(const sim_step *step, char *text, size_t size);
#endif
