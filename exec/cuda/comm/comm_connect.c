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

static void want(const gpu_comm *g, const luo_message *m)
{
    want_link(&g->link[2 * gpu_comm_spec_rank(&g->spec, m->peer) + !m->send]);
}

/* Rows of experts may go to all of a group, and which of them do is known when a step runs. */
static void want_peers(const gpu_comm *g)
{
    for (int32_t i = 0; i < 2 * g->spec.n; i++)
        if (i / 2 != g->rank) want_link(&g->link[i]);
}

/* Marks what this rank's program exchanges. Peers of one communicator, the most. */
static int32_t want_all(gpu_comms *c)
{
    const luo_program *p = luo_programs_find(c->plan.set, c->device);
    const luo_role *role = p ? &c->plan.set->roles[p->role] : NULL;
    int32_t most = 0;
    for (int32_t i = 0; role && i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        const bool trades = in->kind == LUO_INSTR_COLLECTIVE && in->coll == LUO_COLL_A2A;
        if (in->kind != LUO_INSTR_P2P && !trades) continue;
        const luo_slot *slot = &p->slots[in->slot];
        gpu_comm *g = gpu_comms_planned(c, gpu_comm_plan_find(&c->plan, p, in));
        if (g->spec.n > most) most = g->spec.n;
        if (trades) {
            want_peers(g);
            continue;
        }
        for (int32_t m = 0; m < slot->nmessage; m++) want(g, &slot->message[m]);
    }
    return most;
}

/* ---- exchanging ---- */

static luo_status issue(const first_bytes *f, gpu_comm *g)
{
    const char *what = "connecting devices";
    LUO_TRY(gpu_comms_lock(f->c, f->err));
    ncclResult_t code = ncclGroupStart();
    for (int32_t peer = 0; peer < g->spec.n; peer++) {
        if (g->link[2 * peer] == GPU_LINK_WANTED)
            code = gpu_nccl_both(code, ncclSend(f->at, 1, ncclInt8, peer, g->nccl, f->stream));
        if (g->link[2 * peer + 1] == GPU_LINK_WANTED)
            code = gpu_nccl_both(
                code, ncclRecv(f->at + (1 + peer) * APART, 1, ncclInt8, peer, g->nccl, f->stream));
    }
    code = gpu_nccl_both(code, ncclGroupEnd());
    gpu_comms_unlock(f->c);
    LUO_TRY(gpu_nccl(f->err, code, what));
    return gpu_comm_settle(f->c, &g->nccl, GPU_COMM_PATIENCE_S, what, f->err);
}

static bool wants(const gpu_comm *g)
{
    for (int32_t i = 0; g->link && i < 2 * g->spec.n; i++)
        if (g->link[i] == GPU_LINK_WANTED) return true;
    return false;
}

/* In the order of the plan, which is the same on all ranks. */
static luo_status issue_all(const first_bytes *f)
{
    for (int32_t i = 0; i < f->c->plan.n; i++) {
        gpu_comm *g = gpu_comms_planned(f->c, i);
        if (!g || !wants(g)) continue;
        LUO_TRY(issue(f, g));
        for (int32_t k = 0; k < 2 * g->spec.n; k++)
            if (g->link[k] == GPU_LINK_WANTED) g->link[k] = GPU_LINK_MADE;
    }
    return LUO_OK;
}

static luo_status await(const first_bytes *f)
{
    const double began = luo_clock_s();
    for (;;) {
        const cudaError_t code = cudaStreamQuery(f->stream);
        if (code != cudaErrorNotReady) return gpu_check(f->err, code, "connecting devices");
        if (luo_clock_s() - began > GPU_COMM_PATIENCE_S)
            return luo_err_set(f->err, LUO_ETIMEOUT,
                               "the first messages did not arrive within %d s; the network "
                               "between the hosts has to carry them.",
                               GPU_COMM_PATIENCE_S);
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
}

luo_status gpu_comms_connect(gpu_comms *c, luo_err *err)
{
    first_bytes f = {.c = c, .err = err};
    void *at = NULL;
    if (c->plan.n == 0) return LUO_OK;
    const int32_t peers = want_all(c);
    luo_status st = gpu_alloc((1 + (int64_t)peers) * APART, "first messages", &at, err);
    f.at = at;
    if (st == LUO_OK)
        st = gpu_check(err, cudaStreamCreateWithFlags(&f.stream, cudaStreamNonBlocking),
                       "making a stream");
    st = gpu_comms_agree(c, st, err);
    if (st == LUO_OK) st = issue_all(&f);
    if (st == LUO_OK) st = await(&f);
    st = gpu_comms_agree(c, st, err);
    if (st != LUO_OK) gpu_comms_abort(c); /* or what waits in the stream would keep it */
    if (f.stream) (void)cudaStreamDestroy(f.stream);
    if (at) gpu_free(at);
    return st;
}
