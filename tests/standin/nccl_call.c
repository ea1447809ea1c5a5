/* nccl_call.c: NCCL's API: groups and calls, small ones, and the hooks of tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_in.h"

bool nccl_hangs, nccl_holds_aborts, nccl_refuses_splits;

/* ---- groups ---- */

static _Thread_local struct {
    int depth;
    nccl_op *op[64];
    int n;
} group;

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

static ncclResult_t launch(nccl_op *op)
{
    ncclComm_t c = op->comm;
    const ncclResult_t code = nccl_ready(c);
    if (code != ncclSuccess) {
        nccl_op_release(op);
        return code;
    }
    nccl_op_issue(op);
    c->deferred = op;
    return nccl_begun(c);
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t all = ncclSuccess;
    if (group.depth == 0) return nccl_refuse(ncclInvalidUsage, "not in a group call");
    if (--group.depth > 0) return ncclSuccess;
    standin_lock();
    for (int i = 0; i < group.n; i++) {
        const ncclResult_t code = launch(group.op[i]);
        if (all == ncclSuccess || (all == ncclInProgress && code != ncclSuccess)) all = code;
    }
    group.n = 0;
    standin_unlock();
    return all;
}

static nccl_op *op_of(ncclComm_t comm, cudaStream_t stream)
{
    for (int i = 0; i < group.n; i++) {
        if (group.op[i]->comm != comm) continue;
        if (group.op[i]->stream != stream)
            nccl_die("operations of one communicator in one group are on several streams");
        return group.op[i];
    }
    if (group.n == (int)(sizeof group.op / sizeof *group.op))
        nccl_die("a group of too many communicators");
    return group.op[group.n++] = nccl_op_make(comm, stream);
}

/* One call: in a group it only takes its place. */
static ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const nccl_part *part)
{
    standin_lock();
    const ncclResult_t code = nccl_ready(comm);
    bool good = code == ncclSuccess;
    if (good) good = nccl_op_add(op_of(comm, stream), part);
    standin_unlock();
    if (code != ncclSuccess) return code;
    if (!good) return nccl_refuse(ncclInvalidArgument, "an argument is not valid");
    if (group.depth > 0) return ncclSuccess;
    ncclGroupStart();
    return ncclGroupEnd();
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, &(nccl_part){NCCL_AR, from, to, n, type, how, 0});
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t each, ncclDataType_t type,
                               ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, &(nccl_part){NCCL_RS, from, to, each, type, how, 0});
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t each, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, &(nccl_part){NCCL_AG, from, to, each, type, ncclSum, 0});
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, &(nccl_part){NCCL_BCAST, from, to, n, type, ncclSum, root});
}
ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t how,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, &(nccl_part){NCCL_REDUCE, from, to, n, type, how, root});
}
ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(comm, stream, &(nccl_part){NCCL_SEND, from, NULL, n, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(comm, stream, &(nccl_part){NCCL_RECV, NULL, to, n, type, ncclSum, peer});
}

/* ---- small ones, hooks ---- */

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int *out)
{
    nccl_check(comm);
    *out = comm->n;
    return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *out)
{
    nccl_check(comm);
    *out = comm->rank;
    return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *out)
{
    nccl_check(comm);
    return cudaGetDevice(out) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const text[] = {"no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress"};
    return (unsigned)result < sizeof text / sizeof *text ? text[result] : "unknown result code";
}
static _Thread_local char last_error[256];

ncclResult_t nccl_refuse(ncclResult_t code, const char *why)
{
    snprintf(last_error, sizeof last_error, "%s", why);
    return code;
}
const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}

void standin_nccl_hold_aborts(bool on)
{
    standin_lock();
    nccl_holds_aborts = on;
    standin_unlock();
}

void standin_nccl_hang(bool on)
{
    standin_lock();
    nccl_hangs = on;
    standin_unlock();
}
void standin_nccl_break(void)
{
    standin_lock();
    for (ncclComm_t c = nccl_all; c; c = c->next)
        if (!c->ended) c->error = ncclRemoteError;
    standin_unlock();
}
void standin_nccl_refuse_splits(bool on)
{
    standin_lock();
    nccl_refuses_splits = on;
    standin_unlock();
}
standin_nccl_counts standin_nccl_count(void)
{
    standin_lock();
    const standin_nccl_counts c = nccl_counts;
    standin_unlock();
    return c;
}
