/* comm_calls.c: collectives and exchanges, put into streams. Each is one call of NCCL, or
 * one group of sends and receives, and is waited for until it stands in the stream: NCCL allows no
 * second call before. */
#include <math.h>

#include "exec/cuda/comm/comm_internal.h"

/* ---- types ---- */

static luo_status type_of(int64_t elem_bytes, ncclDataType_t *out, luo_err *err)
{
    switch (elem_bytes) {
    case 1:
        *out = ncclInt8;
        return LUO_OK;
    case 2:
        *out = ncclBfloat16;
        return LUO_OK;
    case 4:
        *out = ncclFloat32;
        return LUO_OK;
    default:
        break;
    }
    return luo_err_set(err, LUO_EBUG, "elements of %lld bytes are sent by no communicator.",
                       (long long)elem_bytes);
}

static ncclRedOp_t reduction(luo_reduce how)
{
    return how == LUO_REDUCE_MAX ? ncclMax : ncclSum;
}

static bool even(const gpu_comm *comm, const int64_t *counts)
{
    for (int32_t i = 1; i < comm->spec.n; i++)
        if (counts[i] != counts[0]) return false;
    return true;
}

static const char *plus(const void *at, int64_t elements, int64_t elem_bytes)
{
    return (const char *)at + elements * elem_bytes;
}

/* Within one rank. */
static luo_status keep(const void *from, void *to, int64_t bytes, cudaStream_t stream, luo_err *err)
{
    if (from == to || bytes == 0) return LUO_OK;
    return gpu_check(err,
                     cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, stream),
                     "copying within a group");
}

/* ---- one call ---- */

/* What was issued stands in the stream from here on. Takes the lock over. */
static luo_status issued(gpu_comm *comm, ncclResult_t code, const char *what, luo_err *err)
{
    const luo_status st = gpu_nccl(err, code, what);
    gpu_comms_unlock(comm->of);
    return st == LUO_OK ? gpu_comm_settle(comm->of, &comm->nccl, GPU_COMM_PATIENCE_S, what, err)
                        : st;
}

luo_status gpu_all_reduce(gpu_comm *comm, const void *from, void *to, int64_t n, int64_t elem_bytes,
                          luo_reduce how, cudaStream_t stream, luo_err *err)
{
    ncclDataType_t type = ncclInt8;
    LUO_TRY(type_of(elem_bytes, &type, err));
    if (!comm) return keep(from, to, n * elem_bytes, stream, err);
    LUO_TRY(gpu_comms_lock(comm->of, err));
    return issued(comm,
                  ncclAllReduce(from, to, (size_t)n, type, reduction(how), comm->nccl, stream),
                  "an all-reduce", err);
}

/* ---- groups of sends and receives ---- */

/* Part i of `from` to rank i, `mine` elements of each other rank into work, one after the other by
 * rank. Under the lock. */
static ncclResult_t scatter(gpu_comm *comm, const void *from, char *work, const int64_t *counts,
                            int64_t elem_bytes, ncclDataType_t type, cudaStream_t stream)
{
    const int64_t mine = counts[comm->rank];
    ncclResult_t code = ncclGroupStart();
    for (int32_t i = 0; i < comm->spec.n; i++) {
        const char *part = from;
        from = plus(from, counts[i], elem_bytes);
        if (i == comm->rank) continue;
        if (counts[i] > 0)
            code =
                gpu_nccl_both(code, ncclSend(part, (size_t)counts[i], type, i, comm->nccl, stream));
        if (mine > 0)
            code = gpu_nccl_both(code, ncclRecv(work + i * mine * elem_bytes, (size_t)mine, type, i,
                                                comm->nccl, stream));
    }
    return gpu_nccl_both(code, ncclGroupEnd());
}

/* The part of every rank to all others. Under the lock. */
static ncclResult_t gather(gpu_comm *comm, const void *from, char *to, const int64_t *counts,
                           int64_t elem_bytes, ncclDataType_t type, cudaStream_t stream)
{
    const int64_t mine = counts[comm->rank];
    ncclResult_t code = ncclGroupStart();
    for (int32_t i = 0; i < comm->spec.n; i++) {
        char *part = to;
        to += counts[i] * elem_bytes;
        if (i == comm->rank) continue;
        if (mine > 0)
            code = gpu_nccl_both(code, ncclSend(from, (size_t)mine, type, i, comm->nccl, stream));
        if (counts[i] > 0)
            code =
                gpu_nccl_both(code, ncclRecv(part, (size_t)counts[i], type, i, comm->nccl, stream));
    }
    return gpu_nccl_both(code, ncclGroupEnd());
}

/* ---- reduce-scatter ---- */

/* to = sum by rank; the own part lies in the operand. */
static luo_status sum_parts(const gpu_comm *comm, const void *own, char *work, void *to, int64_t n,
                            int64_t elem_bytes, cudaStream_t stream, luo_err *err)
{
    enum { MOST = 8 }; /* of gpu_add */
    const gpu_type type = gpu_type_of(elem_bytes);
    gpu_array array[MOST];
    int32_t count = 0;
    for (int32_t i = 0; i < comm->spec.n; i++) {
        void *part = i == comm->rank ? (void *)own : work + i * n * elem_bytes;
        array[count++] = (gpu_array){part, type};
        if (count < MOST && i + 1 < comm->spec.n) continue;
        LUO_TRY(gpu_check(err, gpu_add(stream, n, count, array, (gpu_array){to, type}),
                          "adding the parts of a reduce-scatter"));
        array[0] = (gpu_array){to, type};
        count = 1;
    }
    return LUO_OK;
}

static luo_status scatter_uneven(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                                 int64_t elem_bytes, ncclDataType_t type, void *work,
                                 cudaStream_t stream, luo_err *err)
{
    int64_t start = 0;
    for (int32_t i = 0; i < comm->rank; i++) start += counts[i];
    LUO_TRY(gpu_comms_lock(comm->of, err));
    LUO_TRY(issued(comm, scatter(comm, from, work, counts, elem_bytes, type, stream),
                   "a reduce-scatter", err));
    if (counts[comm->rank] == 0) return LUO_OK;
    return sum_parts(comm, plus(from, start, elem_bytes), work, to, counts[comm->rank], elem_bytes,
                     stream, err);
}

luo_status gpu_reduce_scatter(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                              int64_t elem_bytes, luo_reduce how, void *work, cudaStream_t stream,
                              luo_err *err)
{
    ncclDataType_t type = ncclInt8;
    LUO_TRY(type_of(elem_bytes, &type, err));
    if (!comm) return keep(from, to, counts[0] * elem_bytes, stream, err);
    if (!even(comm, counts)) {
        if (how == LUO_REDUCE_SUM && elem_bytes > 1)
            return scatter_uneven(comm, from, to, counts, elem_bytes, type, work, stream, err);
        return luo_err_set(err, LUO_EBUG, "uneven parts can only be summed.");
    }
    LUO_TRY(gpu_comms_lock(comm->of, err));
    return issued(
        comm,
        ncclReduceScatter(from, to, (size_t)counts[0], type, reduction(how), comm->nccl, stream),
        "a reduce-scatter", err);
}

/* ---- all-gather ---- */

luo_status gpu_all_gather(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                          int64_t elem_bytes, cudaStream_t stream, luo_err *err)
{
    ncclDataType_t type = ncclInt8;
    int64_t start = 0;
    LUO_TRY(type_of(elem_bytes, &type, err));
    if (!comm) return keep(from, to, counts[0] * elem_bytes, stream, err);
    if (even(comm, counts)) {
        LUO_TRY(gpu_comms_lock(comm->of, err));
        return issued(comm, ncclAllGather(from, to, (size_t)counts[0], type, comm->nccl, stream),
                      "an all-gather", err);
    }
    for (int32_t i = 0; i < comm->rank; i++) start += counts[i];
    LUO_TRY(
        keep(from, (char *)to + start * elem_bytes, counts[comm->rank] * elem_bytes, stream, err));
    LUO_TRY(gpu_comms_lock(comm->of, err));
    return issued(comm, gather(comm, from, to, counts, elem_bytes, type, stream), "an all-gather",
                  err);
}

/* ---- groups of broadcasts and reduces ---- */

static ncclResult_t broadcasts(gpu_comm *comm, const void *from, char *to, const int64_t *counts,
                               int64_t elem_bytes, ncclDataType_t type, cudaStream_t stream)
{
    ncclResult_t code = ncclGroupStart();
    for (int32_t i = 0; i < comm->spec.n; i++) {
        const void *own = i == comm->rank ? from : to;
        if (counts[i] > 0)
            code = gpu_nccl_both(
                code, ncclBroadcast(own, to, (size_t)counts[i], type, i, comm->nccl, stream));
        to += counts[i] * elem_bytes;
    }
    return gpu_nccl_both(code, ncclGroupEnd());
}

luo_status gpu_broadcasts(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                          int64_t elem_bytes, cudaStream_t stream, luo_err *err)
{
    ncclDataType_t type = ncclInt8;
    LUO_TRY(type_of(elem_bytes, &type, err));
    if (!comm) return keep(from, to, counts[0] * elem_bytes, stream, err);
    LUO_TRY(gpu_comms_lock(comm->of, err));
    return issued(comm, broadcasts(comm, from, to, counts, elem_bytes, type, stream),
                  "an all-gather of broadcasts", err);
}

/* The result is written on the rank that has the part alone. */
static ncclResult_t reduces(gpu_comm *comm, const char *from, void *to, const int64_t *counts,
                            int64_t elem_bytes, ncclDataType_t type, ncclRedOp_t how,
                            cudaStream_t stream)
{
    ncclResult_t code = ncclGroupStart();
    for (int32_t i = 0; i < comm->spec.n; i++) {
        void *result = i == comm->rank ? to : NULL;
        if (counts[i] > 0)
            code = gpu_nccl_both(code, ncclReduce(from, result, (size_t)counts[i], type, how, i,
                                                  comm->nccl, stream));
        from += counts[i] * elem_bytes;
    }
    return gpu_nccl_both(code, ncclGroupEnd());
}

luo_status gpu_reduces(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                       int64_t elem_bytes, luo_reduce how, cudaStream_t stream, luo_err *err)
{
    ncclDataType_t type = ncclInt8;
    LUO_TRY(type_of(elem_bytes, &type, err));
    if (!comm) return keep(from, to, counts[0] * elem_bytes, stream, err);
    LUO_TRY(gpu_comms_lock(comm->of, err));
    return issued(comm, reduces(comm, from, to, counts, elem_bytes, type, reduction(how), stream),
                  "a reduce-scatter of reduces", err);
}

/* ---- exchanges ---- */

static luo_status check_peers(const gpu_comm *comm, int32_t n, const gpu_message *message,
                              luo_err *err)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t peer = gpu_comm_spec_rank(&comm->spec, message[i].device);
        if (peer < 0 || peer == comm->rank)
            return luo_err_set(err, LUO_EBUG,
                               "device %d has a message with device %d on a communicator that "
                               "does not join them.",
                               (int)comm->of->device, (int)message[i].device);
    }
    return LUO_OK;
}

static ncclResult_t exchange(gpu_comm *comm, int32_t n, const gpu_message *message,
                             ncclDataType_t type, cudaStream_t stream)
{
    ncclResult_t code = ncclGroupStart();
    for (int32_t i = 0; i < n; i++) {
        const gpu_message *m = &message[i];
        const int peer = (int)gpu_comm_spec_rank(&comm->spec, m->device);
        if (m->n == 0) continue;
        code = gpu_nccl_both(
            code, m->send ? ncclSend(m->at, (size_t)m->n, type, peer, comm->nccl, stream)
                          : ncclRecv(m->at, (size_t)m->n, type, peer, comm->nccl, stream));
    }
    return gpu_nccl_both(code, ncclGroupEnd());
}

luo_status gpu_exchange(gpu_comm *comm, int32_t n, const gpu_message *message, int64_t elem_bytes,
                        cudaStream_t stream, luo_err *err)
{
    ncclDataType_t type = ncclInt8;
    LUO_TRY(type_of(elem_bytes, &type, err));
    if (n == 0) return LUO_OK;
    if (!comm) return luo_err_set(err, LUO_EBUG, "messages without a communicator.");
    LUO_TRY(check_peers(comm, n, message, err));
    LUO_TRY(gpu_comms_lock(comm->of, err));
    return issued(comm, exchange(comm, n, message, type, stream), "an exchange", err);
}
