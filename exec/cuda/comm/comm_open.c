/* comm_open.c: what the ranks have to know of each other before NCCL begins, and the
 * communicator of all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "exec/cuda/comm/comm_internal.h"

/* ---- facts of all ranks ---- */

static luo_status collect(gpu_comms *comms, const gpu_facts *mine, luo_err *err)
{
    comms->facts = LUO_NEW_N(comms->arena, gpu_facts, comms->config->nranks);
    LUO_TRY(gpu_comms_agree(comms, comms->facts ? LUO_OK : luo_err_nomem(err), err));
    return gpu_comms_mpi(err,
                         MPI_Allgather(mine, (int)sizeof *mine, MPI_BYTE, comms->facts,
                                       (int)sizeof *mine, MPI_BYTE, comms->mpi),
                         "telling facts");
}

/* One rank alone speaks with nobody. Where it was looked for is known to those that lack it. */
static luo_status has_nccl(const gpu_comms *comms, luo_err *err)
{
    const bool mine = comms->facts[comms->config->rank].nccl != 0;
    for (int32_t r = 0; r < comms->config->nranks && comms->config->nranks > 1; r++) {
        if (comms->facts[r].nccl != 0) continue;
        return luo_err_set(err, LUO_EBACKEND,
                           "NCCL is missing on %s%s%s; %d ranks speak through it, and one rank "
                           "alone needs none.",
                           comms->facts[r].host, mine ? "" : ": ",
                           mine ? "" : ncclGetLastError(NULL), (int)comms->config->nranks);
    }
    return LUO_OK;
}

static luo_status same_nccl(const gpu_comms *comms, luo_err *err)
{
    char a[32], b[32];
    for (int32_t r = 1; r < comms->config->nranks; r++) {
        if (comms->facts[r].nccl == comms->facts[0].nccl) continue;
        return luo_err_set(err, LUO_EBACKEND,
                           "rank 0 on %s has NCCL %s and rank %d on %s has NCCL %s; the same NCCL "
                           "is needed everywhere.",
                           comms->facts[0].host, gpu_nccl_version(comms->facts[0].nccl, a), (int)r,
                           comms->facts[r].host, gpu_nccl_version(comms->facts[r].nccl, b));
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
static int32_t sharing(const gpu_comms *comms, int32_t r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < comms->config->nranks; i++)
        n += same_gpu(&comms->facts[i], &comms->facts[r]);
    return n;
}

/* Ranks of the host of rank r, and the GPUs that they have. */
static void count_host(const gpu_comms *comms, int32_t r, int32_t *ranks, int32_t *gpus)
{
    *ranks = *gpus = 0;
    for (int32_t i = 0; i < comms->config->nranks; i++) {
        int32_t first = 0;
        if (strcmp(comms->facts[i].host, comms->facts[r].host) != 0) continue;
        while (!same_gpu(&comms->facts[first], &comms->facts[i])) first++;
        ++*ranks;
        *gpus += first == i;
    }
}

/* Their times would say nothing of a run on as many GPUs. */
static luo_status has_gpus(const gpu_comms *comms, luo_err *err)
{
    int32_t ranks, gpus;
    for (int32_t r = 0; r < comms->config->nranks && !comms->config->share_gpus; r++) {
        if (sharing(comms, r) == 1) continue;
        count_host(comms, r, &ranks, &gpus);
        return luo_err_set(err, LUO_EBACKEND,
                           "%d ranks run on %s and see %d GPU%s there; a GPU for each rank is "
                           "expected, or `--cuda share=on` for a trial.",
                           (int)ranks, comms->facts[r].host, (int)gpus, gpus == 1 ? "" : "s");
    }
    return LUO_OK;
}

/* ---- the warning ---- */

static void say_types(const gpu_comms *comms, luo_str *text)
{
    int32_t types = 0;
    luo_str list = {0};
    for (int32_t r = 0; r < comms->config->nranks; r++) {
        int32_t n = 0, first = r;
        for (int32_t i = comms->config->nranks - 1; i >= 0; i--) {
            if (!same_type(&comms->facts[i], &comms->facts[r])) continue;
            n++;
            first = i;
        }
        if (first != r) continue;
        luo_str_addf(&list, "%s%d of `%s` (%d.%d)", types++ ? ", " : "", (int)n,
                     comms->facts[r].name, (int)comms->facts[r].major, (int)comms->facts[r].minor);
    }
    if (types > 1) luo_str_addf(text, "%d types of GPU: %s", (int)types, luo_str_get(&list));
    luo_str_free(&list);
}

/* One number of the facts, where ranks differ in it. */
static void say_version(const gpu_comms *comms, luo_str *text, const char *what, size_t at)
{
    const int32_t first = *(const int32_t *)((const char *)&comms->facts[0] + at);
    for (int32_t r = 1; r < comms->config->nranks; r++) {
        const int32_t other = *(const int32_t *)((const char *)&comms->facts[r] + at);
        if (other == first) continue;
        luo_str_addf(text, "%s%s differ: %d on %s, %d on %s", luo_str_get(text)[0] ? "; " : "",
                     what, (int)first, comms->facts[0].host, (int)other, comms->facts[r].host);
        return;
    }
}

static void say_shared(const gpu_comms *comms, luo_str *text)
{
    int32_t most = 1, rank = 0;
    for (int32_t r = 0; r < comms->config->nranks; r++)
        if (sharing(comms, r) > most) most = sharing(comms, rank = r);
    if (most == 1) return;
    luo_str_addf(text,
                 "%s%d ranks share GPU %s of %s: they take turns in computing, and NCCL goes over "
                 "the network between them",
                 luo_str_get(text)[0] ? "; " : "", (int)most, comms->facts[rank].bus,
                 comms->facts[rank].host);
}

static void warn(gpu_comms *comms)
{
    luo_str text = {0};
    say_types(comms, &text);
    say_version(comms, &text, "CUDA drivers", offsetof(gpu_facts, driver));
    say_version(comms, &text, "CUDA runtimes", offsetof(gpu_facts, runtime));
    say_version(comms, &text, "cuBLAS versions", offsetof(gpu_facts, cublas));
    say_shared(comms, &text);
    snprintf(comms->warning, sizeof comms->warning, "%s", luo_str_get(&text));
    luo_str_free(&text);
}

const char *gpu_comms_warning(const gpu_comms *comms)
{
    return comms->warning;
}

/* ---- what NCCL reads once ---- */

enum { NCCL_OF_ORDER = 22600, CUDA_OF_OVERLAP = 12030, DRIVER_OF_CAPTURE = 12090 };

/* Kernels then begin in the order of issue, which is what captured programs need: branches of a
 * graph may lie in one queue, where a kernel that waits for a peer holds up those behind it. Before
 * CUDA 12.3 they would also have to end in it, which programs cannot bear. Calls that run beside
 * tasks cannot bear the order (comm_plan.h). */
static bool orders_launches(const gpu_comms *comms)
{
    for (int32_t r = 0; r < comms->config->nranks; r++)
        if (comms->facts[r].nccl < NCCL_OF_ORDER || comms->facts[r].driver < CUDA_OF_OVERLAP ||
            comms->facts[r].runtime < CUDA_OF_OVERLAP)
            return false;
    return true;
}

luo_status gpu_comms_captures(const gpu_comms *comms, luo_err *err)
{
    if (comms->config->calls_beside)
        return luo_err_set(err, LUO_EUNSUP,
                           "of several GPUs they are where calls do not run beside tasks (stack: "
                           "dp_overlap off).");
    if (!orders_launches(comms))
        return luo_err_set(err, LUO_EUNSUP,
                           "NCCL orders what several communicators launch from NCCL 2.26 and CUDA "
                           "12.3 on.");
    for (int32_t r = 0; r < comms->config->nranks; r++)
        if (comms->facts[r].driver < DRIVER_OF_CAPTURE)
            return luo_err_set(err, LUO_EUNSUP,
                               "in a graph NCCL lets communicators overlap from a driver for CUDA "
                               "12.9 on; the one of %s is for %d.%d.",
                               comms->facts[r].host, (int)comms->facts[r].driver / 1000,
                               (int)comms->facts[r].driver % 1000 / 10);
    return LUO_OK;
}

static void prepare_environment(const gpu_comms *comms)
{
    const gpu_facts *facts = &comms->facts[comms->config->rank];
    char id[160];
    if (sharing(comms, comms->config->rank) > 1) { /* NCCL refuses a GPU twice on a host */
        snprintf(id, sizeof id, "%s-%s-%d", facts->host, facts->bus, (int)comms->config->rank);
        setenv("NCCL_HOSTID", id, 0);
    }
    /* A host that connects when it first needs to waits there for the others, whose calls beside
     * tasks may stand elsewhere among what they issue. */
    if (comms->config->calls_beside)
        setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    else if (orders_launches(comms))
        setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    /* A step is captured on all ranks or on none, and waited for before the next is launched. */
    setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
    /* NCCL registers the buffers of captured communications with the network; graphs that were
     * replayed on two nodes hung without a word (nccl issue 2389). Nobody here has measured it. */
    setenv("NCCL_GRAPH_REGISTER", "0", 0);
}

/* The same on all ranks: blocks of the smallest part of a GPU that a rank has. */
static void limit_blocks(gpu_comms *comms)
{
    int32_t least = INT32_MAX;
    for (int32_t r = 0; r < comms->config->nranks; r++) {
        const int32_t part = comms->facts[r].sms / sharing(comms, r);
        if (part < least) least = part;
    }
    int32_t m = least / (2 * GPU_MESSAGE_BLOCKS);
    m = m < 1 ? 1 : m > GPU_MESSAGE_BLOCKS ? GPU_MESSAGE_BLOCKS : m;
    int32_t g = (least - GPU_PIPELINE_LANES * m) / GPU_GROUP_LANES;
    comms->message_blocks = m;
    comms->group_blocks = g < 1 ? 1 : g > GPU_GROUP_BLOCKS ? GPU_GROUP_BLOCKS : g;
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

static luo_status begin_root(gpu_comms *comms, const ncclUniqueId *id, luo_err *err)
{
    ncclConfig_t config = gpu_comms_config(comms->group_blocks);
    LUO_TRY(gpu_comms_lock(comms, err));
    const luo_status st = gpu_nccl(err,
                                   ncclCommInitRankConfig(&comms->root, comms->config->nranks, *id,
                                                          comms->config->rank, &config),
                                   "making the communicator of all ranks");
    gpu_comms_unlock(comms);
    return st;
}

static luo_status make_root(gpu_comms *comms, luo_err *err)
{
    ncclUniqueId id;
    luo_status st = LUO_OK;
    memset(&id, 0, sizeof id);
    if (comms->config->rank == 0) st = gpu_nccl(err, ncclGetUniqueId(&id), "making an id");
    LUO_TRY(gpu_comms_agree(comms, st, err));
    LUO_TRY(gpu_comms_mpi(err, MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, comms->mpi),
                          "telling an id"));
    st = begin_root(comms, &id, err);
    if (st == LUO_OK)
        st = gpu_comm_settle(comms, &comms->root, GPU_COMM_PATIENCE_S,
                             "making the communicator of all ranks", err);
    return gpu_comms_agree(comms, st, err);
}

/* ---- open ---- */

static luo_status open_all(gpu_comms *comms, const gpu_facts *mine, luo_err *err)
{
    LUO_TRY(gpu_comms_mpi(err, MPI_Comm_dup(MPI_COMM_WORLD, &comms->mpi), "start-up"));
    MPI_Comm_set_errhandler(comms->mpi, MPI_ERRORS_RETURN);
    comms->victim = calloc(1, sizeof *comms->victim);
    comms->plans = luo_arena_new(1 << 16);
    LUO_TRY(
        gpu_comms_agree(comms, comms->victim && comms->plans ? LUO_OK : luo_err_nomem(err), err));
    LUO_TRY(collect(comms, mine, err));
    LUO_TRY(has_nccl(comms, err));
    LUO_TRY(same_nccl(comms, err));
    LUO_TRY(has_gpus(comms, err));
    warn(comms);
    if (comms->config->nranks == 1) return LUO_OK;
    prepare_environment(comms);
    limit_blocks(comms);
    return make_root(comms, err);
}

luo_status gpu_comms_open(const luo_rank_config *config, const gpu_facts *mine, gpu_comms **out,
                          luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    gpu_comms *comms = arena ? LUO_NEW(arena, gpu_comms) : NULL;
    if (!comms) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    *comms = (gpu_comms){.arena = arena,
                         .config = config,
                         .device = config->device_of[config->rank],
                         .mpi = MPI_COMM_NULL,
                         .splits = true,
                         .book = {.arena = arena}};
    pthread_mutex_init(&comms->lock, NULL);
    const luo_status st = open_all(comms, mine, err);
    comms->failed = st != LUO_OK;
    if (st == LUO_OK)
        *out = comms;
    else
        gpu_comms_close(comms);
    return st;
}
