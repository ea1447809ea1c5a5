/* nccl.c: NCCL's API: communicators, their states, groups. Rules: nccl_in.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_in.h"

ncclComm_t nccl_all;
standin_nccl_counts nccl_counts;

void nccl_die(const char *fmt, ...)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    va_list args;
    fprintf(stderr, "stand-in for NCCL: rank %s: ", rank ? rank : "0");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, ".\n");
    abort();
}

bool nccl_set(const char *name, const char *value)
{
    const char *is = getenv(name);
    return is && strcmp(is, value) == 0;
}

static uint64_t mix(uint64_t x, uint64_t more)
{
    x = (x ^ more) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 32;
}

int nccl_tag(uint64_t number)
{
    int *most, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    return (int)(1 + mix(number, 1) % (uint64_t)((found ? *most : 32767) - 1));
}

void nccl_mpi_thread(void)
{
    static pthread_t first;
    static bool known;
    int level = 0;
    if (!known) first = pthread_self();
    known = true;
    if (pthread_equal(first, pthread_self())) return;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
        nccl_die("a second thread works on streams, where MPI allows one; waits and queries belong "
                 "to one thread");
}

/* ---- states ---- */

void nccl_check(ncclComm_t comm)
{
    if (comm && !comm->ended) return;
    nccl_die(!comm ? "no communicator" : "a communicator is used after its end");
}

static void advance(ncclComm_t c)
{
    if (c->parent) advance(c->parent);
    const nccl_card *card = c->rendezvous ? nccl_met(c->rendezvous) : NULL;
    if (card) {
        nccl_rendezvous *m = c->rendezvous;
        c->rendezvous = NULL;
        c->met(c, card);
        nccl_rendezvous_end(m);
    }
    if (c->rendezvous || c->parent) return;
    if (c->polls > 0) {
        c->polls--;
        return;
    }
    nccl_op *op = c->deferred;
    c->deferred = NULL;
    if (op && nccl_op_enqueue(op) != ncclSuccess) c->error = ncclUnhandledCudaError;
}

static bool busy(const struct ncclComm *c)
{
    return c->rendezvous || c->parent || c->polls > 0 || c->deferred;
}

/* A call that was begun; under the lock. */
ncclResult_t nccl_begun(ncclComm_t c)
{
    c->polls = c->blocking ? 0 : (int)standin_below(4);
    if (c->blocking)
        for (int idle = 0; busy(c) && !c->error; idle++) {
            advance(c);
            standin_breathe();
            if (idle > 16) standin_idle(idle);
        }
    else if (c->polls == 0)
        advance(c);
    if (c->error) return c->error;
    return busy(c) ? ncclInProgress : ncclSuccess;
}

ncclResult_t nccl_ready(ncclComm_t c)
{
    nccl_check(c);
    if (c->error) return c->error;
    if (!busy(c)) return ncclSuccess;
    return nccl_refuse(ncclInvalidArgument,
                       "Attempt to use communicator before the previous operation "
                       "returned ncclSuccess");
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    standin_lock();
    nccl_check(comm);
    /* Others only look: MPI is the maker's. */
    if (!comm->error && pthread_equal(comm->maker, pthread_self())) advance(comm);
    *out = comm->error ? comm->error : busy(comm) ? ncclInProgress : ncclSuccess;
    standin_unlock();
    return ncclSuccess;
}

/* ---- making ---- */

static ncclComm_t new_comm(const ncclConfig_t *config, const struct ncclComm *like)
{
    ncclComm_t c = calloc(1, sizeof *c);
    if (!c) nccl_die("no memory");
    c->blocking = like ? like->blocking : true;
    if (config) {
        if (config->size != sizeof *config || config->magic != 0xcafebeef)
            nccl_die("a configuration that was not begun with NCCL_CONFIG_INITIALIZER");
        if (config->splitShare == 1)
            nccl_die("splitShare: communicators that share wait for each other");
        if (config->blocking != NCCL_CONFIG_UNDEF_INT) c->blocking = config->blocking != 0;
    }
    c->maker = pthread_self();
    c->next = nccl_all;
    nccl_all = c;
    nccl_counts.alive++;
    return c;
}

static nccl_card card_of(int rank, int n, int color, int key)
{
    nccl_card c;
    int device = 0;
    memset(&c, 0, sizeof c);
    const char *id = getenv("NCCL_HOSTID");
    if (id)
        snprintf(c.host, sizeof c.host, "%s", id);
    else
        gethostname(c.host, sizeof c.host - 1);
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetPCIBusId(c.bus, (int)sizeof c.bus, device) != cudaSuccess)
        nccl_die("no device");
    c.rank = rank;
    c.n = n;
    c.color = color;
    c.key = key;
    return c;
}

static void take_members(ncclComm_t c, const nccl_card *card, int n, const int *of)
{
    c->n = n;
    c->world = malloc((size_t)n * sizeof *c->world);
    if (!c->world) nccl_die("no memory");
    for (int i = 0; i < n; i++) {
        const nccl_card *a = &card[of ? of[i] : i];
        c->world[i] = a->world;
        for (int k = 0; k < i; k++) {
            const nccl_card *b = &card[of ? of[k] : k];
            if (strcmp(a->host, b->host) != 0 || strcmp(a->bus, b->bus) != 0) continue;
            nccl_refuse(ncclInvalidUsage, "Duplicate GPU detected");
            c->error = ncclInvalidUsage;
        }
    }
}

static void initialized(ncclComm_t c, const nccl_card *card)
{
    take_members(c, card, c->n, NULL);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    static uint64_t ids;
    int world;
    standin_lock();
    nccl_mpi_thread();
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    memset(out, 0, sizeof *out);
    const uint64_t id[2] = {(uint64_t)world, mix((uint64_t)world + 7, ++ids)};
    memcpy(out->internal, id, sizeof id);
    standin_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int nranks, ncclUniqueId unique, int rank,
                                    ncclConfig_t *config)
{
    uint64_t id[2];
    standin_lock();
    memcpy(id, unique.internal, sizeof id);
    ncclComm_t c = *out = new_comm(config, NULL);
    c->id = id[1];
    c->n = nranks;
    c->rank = rank;
    c->met = initialized;
    const nccl_card mine = card_of(rank, nranks, 0, 0);
    c->rendezvous = nccl_meet(id[1], nranks, (int)id[0], &mine);
    nccl_counts.inits++;
    const ncclResult_t code = nccl_begun(c);
    standin_unlock();
    return code;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int nranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(out, nranks, id, rank, NULL);
}

/* ---- splitting ---- */

static bool comes_before(const nccl_card *a, const nccl_card *b)
{
    return a->key != b->key ? a->key < b->key : a->rank < b->rank;
}

static void parted(ncclComm_t c, const nccl_card *card)
{
    ncclComm_t child = c->child;
    int *of = malloc((size_t)c->n * sizeof *of), n = 0;
    if (!of) nccl_die("no memory");
    c->child = NULL;
    if (child) {
        const int color = card[c->rank].color;
        for (int i = 0; i < c->n; i++) {
            if (card[i].color != color) continue;
            int at = n++;
            for (; at > 0 && comes_before(&card[i], &card[of[at - 1]]); at--) of[at] = of[at - 1];
            of[at] = i;
        }
        for (int i = 0; i < n; i++)
            if (of[i] == c->rank) child->rank = i;
        child->id = mix(mix(c->id, c->splits), (uint64_t)color);
        child->parent = NULL;
        take_members(child, card, n, of);
    }
    free(of);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                           ncclConfig_t *config)
{
    standin_lock();
    *out = NULL;
    ncclResult_t code = nccl_ready(comm);
    if (code == ncclSuccess && nccl_refuses_splits)
        code = nccl_refuse(ncclInvalidUsage, "told to refuse");
    if (code != ncclSuccess) {
        standin_unlock();
        return code;
    }
    if (color != NCCL_SPLIT_NOCOLOR) {
        ncclComm_t child = comm->child = *out = new_comm(config, comm);
        child->parent = comm;
        child->polls = child->blocking ? 0 : (int)standin_below(3);
    }
    const nccl_card mine = card_of(comm->rank, comm->n, color, key);
    comm->met = parted;
    comm->rendezvous = nccl_meet(mix(comm->id, ++comm->splits), comm->n, comm->world[0], &mine);
    nccl_counts.splits++;
    code = nccl_begun(comm);
    standin_unlock();
    return code;
}

/* ---- ending ---- */

static void all_there(ncclComm_t c, const nccl_card *card)
{
    (void)card;
    c->finalized = true;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    standin_lock();
    ncclResult_t code = nccl_ready(comm);
    if (code == ncclSuccess) {
        if (comm->under_way[0] || comm->under_way[1])
            nccl_die("a communicator is finalized with operations under way; wait for the streams");
        const nccl_card mine = card_of(comm->rank, comm->n, 0, 0);
        comm->met = all_there;
        comm->rendezvous = nccl_meet(mix(comm->id, ~UINT64_C(0)), comm->n, comm->world[0], &mine);
        code = nccl_begun(comm);
    }
    standin_unlock();
    return code;
}

static void end(ncclComm_t c)
{
    c->ended = true;
    nccl_counts.alive--;
    free(c->world);
    c->world = NULL;
    for (int i = 0; i < 2; i++) nccl_op_release(c->latest[i]);
    c->latest[0] = c->latest[1] = NULL;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    standin_lock();
    nccl_check(comm);
    if (comm->graphs)
        nccl_die("a communicator is destroyed that a graph holds: NCCL would wait for ever");
    if (!comm->finalized || busy(comm))
        nccl_die("a communicator is destroyed that was not finalized to the end");
    end(comm);
    standin_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    enum { TRIES = 100000, PAUSE_US = 300 }; /* 30 s */
    standin_lock();
    nccl_check(comm);
    comm->aborted = true; /* its operations end at the next look */
    nccl_counts.aborted++;
    if (comm->deferred) nccl_op_withdraw(comm->deferred);
    comm->deferred = NULL;
    for (int i = 0; nccl_holds_aborts || comm->graphs || comm->under_way[0] || comm->under_way[1];
         i++) {
        standin_unlock();
        usleep(PAUSE_US);
        standin_lock();
        if (i == TRIES)
            nccl_die("an aborted communicator waits for %s",
                     comm->graphs ? "graphs that hold it; destroy them first"
                                  : "its operations; somebody has to look at the streams");
    }
    end(comm);
    standin_unlock();
    return ncclSuccess;
}
