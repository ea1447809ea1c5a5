/* comm_open.c: what the ranks have to know of each other before NCCL begins, and the
 * communicator of all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "exec/cuda/comm/comm_internal.h"

/* ---- facts of all ranks ---- */

static luo_status collect(gpu_comms *c, const gpu_facts *mine, luo_err *err)
{
    c->facts = LUO_NEW_N(c->arena, gpu_facts, c->config->nranks);
    LUO_TRY(gpu_comms_agree(c, c->facts ? LUO_OK : luo_err_nomem(err), err));
    return gpu_comms_mpi(err,
                         MPI_Allgather(mine, (int)sizeof *mine, MPI_BYTE, c->facts,
                                       (int)sizeof *mine, MPI_BYTE, c->mpi),
                         "telling facts");
}

/* One rank alone speaks with nobody. Where it was looked for is known to those that lack it. */
static luo_status has_nccl(const gpu_comms *c, luo_err *err)
{
    const bool mine = c->facts[c->config->rank].nccl != 0;
    for (int32_t r = 0; r < c->config->nranks && c->config->nranks > 1; r++) {
        if (c->facts[r].nccl != 0) continue;
        return luo_err_set(err, LUO_EBACKEND,
                           "NCCL is missing on %s%s%s; %d ranks speak through it, and one rank "
                           "alone needs none.",
                           c->facts[r].host, mine ? "" : ": ", mine ? "" : ncclGetLastError(NULL),
                           (int)c->config->nranks);
    }
    return LUO_OK;
}

static luo_status same_nccl(const gpu_comms *c, luo_err *err)
{
    char a[32], b[32];
    for (int32_t r = 1; r < c->config->nranks; r++) {
        if (c->facts[r].nccl == c->facts[0].nccl) continue;
        return luo_err_set(err, LUO_EBACKEND,
                           "rank 0 on %s has NCCL %s and rank %d on %s has NCCL %s; the same NCCL "
                           "is needed everywhere.",
                           c->facts[0].host, gpu_nccl_version(c->facts[0].nccl, a), (int)r,
                           c->facts[r].host, gpu_nccl_version(c->facts[r].nccl, b));
    }
    return LUO_OK;
}

static bool same_type(const gpu_facts *a, const gpu_facts *b)
{
    return strcmp(a->name, b->name) == 0 && a->major == b->major && a->minor == b->minor;
}

static bool same_gpu(const gpu_facts *a, const gpu_facts *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->bus, b->bus) == 0;
}

/* Ranks on the GPU of rank r. */
static int32_t sharing(const gpu_comms *c, int32_t r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->config->nranks; i++) n += same_gpu(&c->facts[i], &c->facts[r]);
    return n;
}

/* Ranks of the host of rank r, and the GPUs that they have. */
static void count_host(const gpu_comms *c, int32_t r, int32_t *ranks, int32_t *gpus)
{
    *ranks = *gpus = 0;
    for (int32_t i = 0; i < c->config->nranks; i++) {
        int32_t first = 0;
        if (strcmp(c->facts[i].host, c->facts[r].host) != 0) continue;
        while (!same_gpu(&c->facts[first], &c->facts[i])) first++;
        ++*ranks;
        *gpus += first == i;
    }
}

/* Their times would say nothing of a run on as many GPUs. */
static luo_status has_gpus(const gpu_comms *c, luo_err *err)
{
    int32_t ranks, gpus;
    for (int32_t r = 0; r < c->config->nranks && !c->config->share_gpus; r++) {
        if (sharing(c, r) == 1) continue;
        count_host(c, r, &ranks, &gpus);
        return luo_err_set(err, LUO_EBACKEND,
                           "%d ranks run on %s and see %d GPU%s there; a GPU for each rank is "
                           "expected, or `--cuda share=on` for a trial.",
                           (int)ranks, c->facts[r].host, (int)gpus, gpus == 1 ? "" : "s");
    }
    return LUO_OK;
}

/* ---- the warning ---- */

static void say_types(const gpu_comms *c, luo_str *s)
{
    int32_t types = 0;
    luo_str list = {0};
    for (int32_t r = 0; r < c->config->nranks; r++) {
        int32_t n = 0, first = r;
        for (int32_t i = c->config->nranks - 1; i >= 0; i--) {
            if (!same_type(&c->facts[i], &c->facts[r])) continue;
            n++;
            first = i;
        }
        if (first != r) continue;
        luo_str_addf(&list, "%s%d of `%s` (%d.%d)", types++ ? ", " : "", (int)n, c->facts[r].name,
                     (int)c->facts[r].major, (int)c->facts[r].minor);
    }
    if (types > 1) luo_str_addf(s, "%d types of GPU: %s", (int)types, luo_str_get(&list));
    luo_str_free(&list);
}

/* One number of the facts, where ranks differ in it. */
static void say_version(const gpu_comms *c, luo_str *s, const char *what, size_t at)
{
    const int32_t first = *(const int32_t *)((const char *)&c->facts[0] + at);
    for (int32_t r = 1; r < c->config->nranks; r++) {
        const int32_t other = *(const int32_t *)((const char *)&c->facts[r] + at);
        if (other == first) continue;
        luo_str_addf(s, "%s%s differ: %d on %s, %d on %s", luo_str_get(s)[0] ? "; " : "", what,
                     (int)first, c->facts[0].host, (int)other, c->facts[r].host);
        return;
    }
}

static void say_shared(const gpu_comms *c, luo_str *s)
{
    int32_t most = 1, rank = 0;
    for (int32_t r = 0; r < c->config->nranks; r++)
        if (sharing(c, r) > most) most = sharing(c, rank = r);
    if (most == 1) return;
    luo_str_addf(s,
                 "%s%d ranks share GPU %s of %s: they take turns in computing, and NCCL goes over "
                 "the network between them",
                 luo_str_get(s)[0] ? "; " : "", (int)most, c->facts[rank].bus, c->facts[rank].host);
}

static void warn(gpu_comms *c)
{
    luo_str s = {0};
    say_types(c, &s);
    say_version(c, &s, "CUDA drivers", offsetof(gpu_facts, driver));
    say_version(c, &s, "CUDA runtimes", offsetof(gpu_facts, runtime));
    say_version(c, &s, "cuBLAS versions", offsetof(gpu_facts, cublas));
    say_shared(c, &s);
    snprintf(c->warning, sizeof c->warning, "%s", luo_str_get(&s));
    luo_str_free(&s);
}

const char *gpu_comms_warning(const gpu_comms *c)
{
    return c->warning;
}

/* ---- what NCCL reads once ---- */

enum { NCCL_OF_ORDER = 22600, CUDA_OF_OVERLAP = 12030, DRIVER_OF_CAPTURE = 12090 };

/* Kernels then begin in the order of issue, which is what captured programs need: branches of a
 * graph may lie in one queue, where a kernel that waits for a peer holds up those behind it. Before
 * CUDA 12.3 they would also have to end in it, which programs cannot bear. Calls that run beside
 * tasks cannot bear the order (comm_plan.h). */
static bool orders_launches(const gpu_comms *c)
{
    for (int32_t r = 0; r < c->config->nranks; r++)
        if (c->facts[r].nccl < NCCL_OF_ORDER || c->facts[r].driver < CUDA_OF_OVERLAP ||
            c->facts[r].runtime < CUDA_OF_OVERLAP)
            return false;
    return true;
}

luo_status gpu_comms_captures(const gpu_comms *c, luo_err *err)
{
    if (c->config->calls_beside)
        return luo_err_set(err, LUO_EUNSUP,
                           "of several GPUs they are where calls do not run beside tasks (stack: "
                           "dp_overlap off).");
    if (!orders_launches(c))
        return luo_err_set(err, LUO_EUNSUP,
                           "NCCL orders what several communicators launch from NCCL 2.26 and CUDA "
                           "12.3 on.");
    for (int32_t r = 0; r < c->config->nranks; r++)
        if (c->facts[r].driver < DRIVER_OF_CAPTURE)
            return luo_err_set(err, LUO_EUNSUP,
                               "in a graph NCCL lets communicators overlap from a driver for CUDA "
                               "12.9 on; the one of %s is for %d.%d.",
                               c->facts[r].host, (int)c->facts[r].driver / 1000,
                               (int)c->facts[r].driver % 1000 / 10);
    return LUO_OK;
}

static void prepare_environment(const gpu_comms *c)
{
    const gpu_facts *f = &c->facts[c->config->rank];
    char id[160];
    if (sharing(c, c->config->rank) > 1) { /* NCCL refuses a GPU twice on a host */
        snprintf(id, sizeof id, "%s-%s-%d", f->host, f->bus, (int)c->config->rank);
        setenv("NCCL_HOSTID", id, 0);
    }
    /* A host that connects when it first needs to waits there for the others, whose calls beside
     * tasks may stand elsewhere among what they issue. */
    if (c->config->calls_beside) setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    else if (orders_launches(c)) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    /* A step is captured on all ranks or on none, and waited for before the next is launched. */
    setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
    /* NCCL registers the buffers of captured communications with the network; graphs that were
     * replayed on two nodes hung without a word (nccl issue 2389). Nobody here has measured it. */
    setenv("NCCL_GRAPH_REGISTER", "0", 0);
}

/* The same on all ranks: blocks of the smallest part of a GPU that a rank has. */
static void limit_blocks(gpu_comms *c)
{
    int32_t least = INT32_MAX;
    for (int32_t r = 0; r < c->config->nranks; r++) {
        const int32_t part = c->facts[r].sms / sharing(c, r);
        if (part < least) least = part;
    }
    int32_t m = least / (2 * GPU_MESSAGE_BLOCKS);
    m = m < 1 ? 1 : m > GPU_MESSAGE_BLOCKS ? GPU_MESSAGE_BLOCKS : m;
    int32_t g = (least - GPU_PIPELINE_LANES * m) / GPU_GROUP_LANES;
    c->message_blocks = m;
    c->group_blocks = g < 1 ? 1 : g > GPU_GROUP_BLOCKS ? GPU_GROUP_BLOCKS : g;
}

ncclConfig_t gpu_comms_config(int32_t blocks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0; /* communicators that share wait for each other */
    config.maxCTAs = blocks;
    return config;
}

/* ---- the root ---- */

static luo_status begin_root(gpu_comms *c, const ncclUniqueId *id, luo_err *err)
{
    ncclConfig_t config = gpu_comms_config(c->group_blocks);
    LUO_TRY(gpu_comms_lock(c, err));
    const luo_status st = gpu_nccl(
        err, ncclCommInitRankConfig(&c->root, c->config->nranks, *id, c->config->rank, &config),
        "making the communicator of all ranks");
    gpu_comms_unlock(c);
    return st;
}

static luo_status make_root(gpu_comms *c, luo_err *err)
{
    ncclUniqueId id;
    luo_status st = LUO_OK;
    memset(&id, 0, sizeof id);
    if (c->config->rank == 0) st = gpu_nccl(err, ncclGetUniqueId(&id), "making an id");
    LUO_TRY(gpu_comms_agree(c, st, err));
    LUO_TRY(
        gpu_comms_mpi(err, MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, c->mpi), "telling an id"));
    st = begin_root(c, &id, err);
    if (st == LUO_OK)
        st = gpu_comm_settle(c, &c->root, GPU_COMM_PATIENCE_S,
                             "making the communicator of all ranks", err);
    return gpu_comms_agree(c, st, err);
}

/* ---- open ---- */

static luo_status open_all(gpu_comms *c, const gpu_facts *mine, luo_err *err)
{
    LUO_TRY(gpu_comms_mpi(err, MPI_Comm_dup(MPI_COMM_WORLD, &c->mpi), "start-up"));
    MPI_Comm_set_errhandler(c->mpi, MPI_ERRORS_RETURN);
    c->victim = calloc(1, sizeof *c->victim);
    c->plans = luo_arena_new(1 << 16);
    LUO_TRY(gpu_comms_agree(c, c->victim && c->plans ? LUO_OK : luo_err_nomem(err), err));
    LUO_TRY(collect(c, mine, err));
    LUO_TRY(has_nccl(c, err));
    LUO_TRY(same_nccl(c, err));
    LUO_TRY(has_gpus(c, err));
    warn(c);
    if (c->config->nranks == 1) return LUO_OK;
    prepare_environment(c);
    limit_blocks(c);
    return make_root(c, err);
}

luo_status gpu_comms_open(const luo_rank_config *config, const gpu_facts *mine, gpu_comms **out,
                          luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    gpu_comms *c = arena ? LUO_NEW(arena, gpu_comms) : NULL;
    if (!c) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    *c = (gpu_comms){.arena = arena,
                     .config = config,
                     .device = config->device_of[config->rank],
                     .mpi = MPI_COMM_NULL,
                     .splits = true,
                     .book = {.arena = arena}};
    pthread_mutex_init(&c->lock, NULL);
    const luo_status st = open_all(c, mine, err);
    c->failed = st != LUO_OK;
    if (st == LUO_OK)
        *out = c;
    else
        gpu_comms_close(c);
    return st;
}
