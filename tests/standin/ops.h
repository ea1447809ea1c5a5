/* ops.h: ops, streams, events and captures, as the files of this folder share them.
 */
#ifndef LUO_STANDIN_OPS_H
#define LUO_STANDIN_OPS_H
#include "engine.h"
#include "standin.h"

typedef struct standin_job { /* work that ops, or nodes of graphs, share */
    standin_work work;
    int32_t refs;
} standin_job;
typedef struct standin_op standin_op; /* something that is done once */

standin_job *standin_job_make(const standin_work *work); /* NULL: no memory, and work was dropped */
void standin_job_release(standin_job *job);

/* An op after others, those already done left out; NULL among them is allowed. job NULL: nothing
 * to do, a point in time. The caller gets a reference. NULL: no memory. */
standin_op *standin_op_make(standin_job *job, int32_t n, standin_op *const *after);
void standin_op_in_lane(standin_op *op, uint32_t lane); /* of which stream it is: its id */
standin_op *standin_op_keep(standin_op *op);            /* one reference more; op may be NULL */
void standin_op_release(standin_op *op);                /* op may be NULL */
bool standin_op_done(const standin_op *op);             /* NULL: done */
uint64_t standin_op_time(const standin_op *op);         /* when it was done, ns */
/* Works until op is done; the lock is free for others in between. Returns the device's error. */
cudaError_t standin_wait(standin_op *op);
cudaError_t standin_wait_all(void);
void standin_breathe(void); /* lets other threads and ranks in for a moment */

enum { STANDIN_WORK_NS = 1000 }; /* of an op, and of a block */
void standin_clock_add(uint64_t ns); /* standin_clock_by_work */

cudaError_t standin_device_error(void);
/* Remembers a failure of this thread for cudaGetLastError; returns it. */
cudaError_t standin_failed(cudaError_t code);

/* Begins and ends an API function: the lock; errors of the device come first. */
#define STANDIN_ENTER()                                                                            \
    do {                                                                                           \
        standin_lock();                                                                            \
        if (standin_device_error() != cudaSuccess) {                                               \
            standin_unlock();                                                                      \
            return standin_failed(standin_device_error());                                         \
        }                                                                                          \
    } while (0)
static inline cudaError_t standin_leave(cudaError_t code)
{
    standin_unlock();
    return code == cudaSuccess ? code : standin_failed(code);
}

/* ---- streams: stream.c; captures: graph.c ---- */

typedef struct standin_capture standin_capture;
typedef struct standin_tails { /* nodes of a capture */
    int32_t n, room;
    int32_t *node;
} standin_tails;

struct CUstream_st {
    uint32_t id;
    bool blocking; /* ordered with the legacy stream */
    int priority;
    standin_op *tail;
    standin_capture *capture; /* NULL: not in one */
    standin_tails tails;      /* .. what its next node comes after */
    struct CUstream_st *next; /* all streams */
};
struct CUevent_st {
    unsigned int flags;
    standin_op *op;      /* last recorded, NULL: none */
    uint64_t capture;    /* .. or in this capture, 0: none */
    standin_tails tails; /* .. after these nodes */
};
extern struct CUstream_st standin_legacy; /* its `next` begins the list of all others */
/* NULL: no such stream. */
struct CUstream_st *standin_stream(cudaStream_t stream);
/* Gives an op to a stream that is in no capture. */
cudaError_t standin_push(struct CUstream_st *s, standin_job *job);
/* Works on what the seed wants done at an enqueue. */
void standin_after_enqueue(void);

cudaError_t standin_capture_work(struct CUstream_st *s, const standin_work *work);
cudaError_t standin_capture_record(struct CUstream_st *s, cudaEvent_t event);
cudaError_t standin_capture_wait(struct CUstream_st *s, cudaEvent_t event);
/* A call that a capture forbids: cudaSuccess, or an error, and the capture is spoilt. s: the stream
 * that it is about, NULL: none. */
cudaError_t standin_capture_forbids(struct CUstream_st *s);
/* Is the host's pageable memory to be read at replay? */
bool standin_capturing(cudaStream_t stream);
/* Number of the capture that a stream is in; 0: none. */
uint64_t standin_capture_id(cudaStream_t stream);
void standin_tails_free(standin_tails *t);

/* Hooks: standin.h. True: this call is to fail. */
bool standin_injected(int what);

void standin_count_streams(standin_counts *out);
void standin_count_graphs(standin_counts *out);
#endif
