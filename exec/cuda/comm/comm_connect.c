/* comm_connect.c: the first byte between devices that exchange messages. */
#include <time.h>

#include "exec/clock.h"
#include "exec/cuda/comm/comm_internal.h"

enum { APART = 16 }; /* bytes between what two messages touch */

typedef struct first_bytes {
    gpu_comms *c;
    cudaStream_t stream;
    char *at; /* device: what is sent, then a place per peer */
    luo_err *err;
} first_bytes;

/* ---- who ---- */

static void want_link(enum gpu_link *link)
{
    if (*link == GPU_LINK_NONE) *link = GPU_LINK_WANTED;
}

static void want(const gpu_comm *comm, const luo_message *message)
{
    want_link(&comm->link[2 * gpu_comm_spec_rank(&comm->spec, message->peer) + !message->send]);
}

/* Rows of experts may go to all of a group, and which of them do is known when a step runs. */
static void want_peers(const gpu_comm *comm)
{
    for (int32_t i = 0; i < 2 * comm->spec.n; i++)
        if (i / 2 != comm->rank) want_link(&comm->link[i]);
}

/* Marks what this rank's program exchanges. Peers of one communicator, the most. */
static int32_t want_all(gpu_comms *comms)
{
    const luo_program *program = luo_programs_find(comms->plan.set, comms->device);
    const luo_role *role = program ? &comms->plan.set->roles[program->role] : NULL;
    int32_t most = 0;
    for (int32_t i = 0; role && i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        const bool trades = in->kind == LUO_INSTR_COLLECTIVE && in->coll == LUO_COLL_A2A;
        if (in->kind != LUO_INSTR_P2P && !trades) continue;
        const luo_slot *slot = &program->slots[in->slot];
        gpu_comm *comm = gpu_comms_planned(comms, gpu_comm_plan_find(&comms->plan, program, in));
        if (comm->spec.n > most) most = comm->spec.n;
        if (trades) {
            want_peers(comm);
            continue;
        }
        for (int32_t m = 0; m < slot->nmessage; m++) want(comm, &slot->message[m]);
    }
    return most;
}

/* ---- exchanging ---- */

static luo_status issue(const first_bytes *bytes, gpu_comm *comm)
{
    const char *what = "connecting devices";
    LUO_TRY(gpu_comms_lock(bytes->c, bytes->err));
    ncclResult_t code = ncclGroupStart();
    for (int32_t peer = 0; peer < comm->spec.n; peer++) {
        if (comm->link[2 * peer] == GPU_LINK_WANTED)
            code = gpu_nccl_both(code,
                                 ncclSend(bytes->at, 1, ncclInt8, peer, comm->nccl, bytes->stream));
        if (comm->link[2 * peer + 1] == GPU_LINK_WANTED)
            code = gpu_nccl_both(code, ncclRecv(bytes->at + (1 + peer) * APART, 1, ncclInt8, peer,
                                                comm->nccl, bytes->stream));
    }
    code = gpu_nccl_both(code, ncclGroupEnd());
    gpu_comms_unlock(bytes->c);
    LUO_TRY(gpu_nccl(bytes->err, code, what));
    return gpu_comm_settle(bytes->c, &comm->nccl, GPU_COMM_PATIENCE_S, what, bytes->err);
}

static bool wants(const gpu_comm *comm)
{
    for (int32_t i = 0; comm->link && i < 2 * comm->spec.n; i++)
        if (comm->link[i] == GPU_LINK_WANTED) return true;
    return false;
}

/* In the order of the plan, which is the same on all ranks. */
static luo_status issue_all(const first_bytes *bytes)
{
    for (int32_t i = 0; i < bytes->c->plan.n; i++) {
        gpu_comm *comm = gpu_comms_planned(bytes->c, i);
        if (!comm || !wants(comm)) continue;
        LUO_TRY(issue(bytes, comm));
        for (int32_t k = 0; k < 2 * comm->spec.n; k++)
            if (comm->link[k] == GPU_LINK_WANTED) comm->link[k] = GPU_LINK_MADE;
    }
    return LUO_OK;
}

static luo_status await(const first_bytes *bytes)
{
    const double began = luo_clock_s();
    for (;;) {
        const cudaError_t code = cudaStreamQuery(bytes->stream);
        if (code != cudaErrorNotReady) return gpu_check(bytes->err, code, "connecting devices");
        if (luo_clock_s() - began > GPU_COMM_PATIENCE_S)
            return luo_err_set(bytes->err, LUO_ETIMEOUT,
                               "the first messages did not arrive within %d s; the network "
                               "between the hosts has to carry them.",
                               GPU_COMM_PATIENCE_S);
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
}

luo_status gpu_comms_connect(gpu_comms *comms, luo_err *err)
{
    first_bytes bytes = {.c = comms, .err = err};
    void *at = NULL;
    if (comms->plan.n == 0) return LUO_OK;
    const int32_t peers = want_all(comms);
    luo_status st = gpu_alloc((1 + (int64_t)peers) * APART, "first messages", &at, err);
    bytes.at = at;
    if (st == LUO_OK)
        st = gpu_check(err, cudaStreamCreateWithFlags(&bytes.stream, cudaStreamNonBlocking),
                       "making a stream");
    st = gpu_comms_agree(comms, st, err);
    if (st == LUO_OK) st = issue_all(&bytes);
    if (st == LUO_OK) st = await(&bytes);
    st = gpu_comms_agree(comms, st, err);
    if (st != LUO_OK) gpu_comms_abort(comms); /* or what waits in the stream would keep it */
    if (bytes.stream) (void)cudaStreamDestroy(bytes.stream);
    if (at) gpu_free(at);
    return st;
}
