/* comm.c: what can go wrong with communicators: calls that fail or do not end, aborts
 * from another thread, the end. */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/devset.h"
#include "exec/clock.h"
#include "exec/cuda/comm/comm_internal.h"

/* ---- in words ---- */

/* The library's own words, which may be of an earlier call: one line, no full stop. */
static void last_words(char *text, size_t size)
{
    const char *said = ncclGetLastError(NULL);
    size_t n = said ? strcspn(said, "\n") : 0;
    while (n > 0 && strchr(". \t\r", said[n - 1])) n--;
    snprintf(text, size, "%s%.*s%s", n ? " (" : "", (int)(n < 300 ? n : 300), said ? said : "",
             n ? ")" : "");
}

luo_status gpu_nccl(luo_err *err, ncclResult_t code, const char *what)
{
    char more[320];
    if (code == ncclSuccess || code == ncclInProgress) return LUO_OK;
    const bool peer = code == ncclRemoteError || code == ncclSystemError;
    last_words(more, sizeof more);
    return luo_err_set(err, peer ? LUO_EPEER : LUO_EBACKEND,
                       "NCCL failed in %s: %s%s; NCCL_DEBUG=WARN tells more.", what,
                       ncclGetErrorString(code), more);
}

luo_status gpu_comms_mpi(luo_err *err, int code, const char *what)
{
    if (code == MPI_SUCCESS) return LUO_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return luo_err_set(err, LUO_EBACKEND, "MPI failed in %s: %s.", what, text);
}

luo_status gpu_comms_agree(gpu_comms *comms, luo_status mine, luo_err *err)
{
    int bad = mine != LUO_OK, any = 0;
    const luo_status st =
        gpu_comms_mpi(NULL, MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, comms->mpi), "agreeing");
    if (mine != LUO_OK) return mine;
    if (st != LUO_OK) return luo_err_set(err, st, "MPI cannot agree.");
    if (!any) return LUO_OK;
    return luo_err_set(err, LUO_ECANCELED, "another rank could not make its communicators.");
}

/* ---- calls beside an abort ---- */

luo_status gpu_comms_lock(gpu_comms *comms, luo_err *err)
{
    pthread_mutex_lock(&comms->lock);
    if (!comms->aborted) return LUO_OK;
    pthread_mutex_unlock(&comms->lock);
    return luo_err_set(err, LUO_EPEER,
                       "the communicators of device %d were aborted; the processes have to start "
                       "again.",
                       (int)comms->device);
}

void gpu_comms_unlock(gpu_comms *comms)
{
    pthread_mutex_unlock(&comms->lock);
}

static luo_status look(gpu_comms *comms, const ncclComm_t *comm, bool *goes_on, const char *what,
                       luo_err *err)
{
    ncclResult_t state = ncclSuccess;
    LUO_TRY(gpu_comms_lock(comms, err));
    luo_status st = gpu_nccl(err, ncclCommGetAsyncError(*comm, &state), what);
    if (st == LUO_OK) st = gpu_nccl(err, state, what);
    gpu_comms_unlock(comms);
    *goes_on = state == ncclInProgress;
    return st;
}

/* A launch takes microseconds; a communicator takes as long as its ranks need to find each other.
 */
static void pause_after(double waited_s)
{
    const double spin_s = 200e-6, most_s = 1e-3;
    if (waited_s < spin_s) {
        sched_yield();
        return;
    }
    nanosleep(&(struct timespec){0, (long)(1e9 * fmin(most_s, waited_s / 8))}, NULL);
}

luo_status gpu_comm_settle(gpu_comms *comms, const ncclComm_t *comm, double limit_s,
                           const char *what, luo_err *err)
{
    bool goes_on = false;
    LUO_TRY(look(comms, comm, &goes_on, what, err));
    if (!goes_on) return LUO_OK;
    const double began = luo_clock_s();
    do {
        const double waited = luo_clock_s() - began;
        if (waited > limit_s)
            return luo_err_set(err, LUO_ETIMEOUT,
                               "%s did not end within %.0f s; all its ranks have to take part.",
                               what, limit_s);
        pause_after(waited);
        LUO_TRY(look(comms, comm, &goes_on, what, err));
    } while (goes_on);
    return LUO_OK;
}

/* ---- from the watchdog's thread ---- */

static void say_broken(gpu_comms *comms, const gpu_comm *comm, ncclResult_t code)
{
    luo_str text = {0};
    luo_str_addf(&text, "%s in ", ncclGetErrorString(code));
    if (comm) {
        luo_str_add(&text, "the communicator of devices ");
        luo_devset_print(&text, comm->spec.dev, comm->spec.n);
    } else {
        luo_str_add(&text, "the communicator of all ranks");
    }
    snprintf(comms->broken, sizeof comms->broken, "%s", luo_str_get(&text));
    luo_str_free(&text);
}

static bool is_broken(gpu_comms *comms, const gpu_comm *g, ncclComm_t comm)
{
    ncclResult_t state = ncclSuccess;
    if (!comm) return false;
    const ncclResult_t code = ncclCommGetAsyncError(comm, &state);
    if (code == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) return false;
    say_broken(comms, g, code == ncclSuccess ? state : code);
    return true;
}

const char *gpu_comms_broken(gpu_comms *comms)
{
    pthread_mutex_lock(&comms->lock);
    bool found = !comms->aborted && is_broken(comms, NULL, comms->root);
    for (int32_t i = 0; !found && !comms->aborted && i < comms->nmade; i++)
        found = is_broken(comms, comms->made[i], comms->made[i]->nccl);
    pthread_mutex_unlock(&comms->lock);
    return found ? comms->broken : NULL;
}

static void *abort_one(void *comm)
{
    (void)ncclCommAbort(comm); /* there is nothing left to do if it fails */
    return NULL;
}

static void take_victim(gpu_comms *comms, ncclComm_t *comm)
{
    if (*comm) comms->victim[comms->nvictims++].comm = *comm;
    *comm = NULL;
}

/* Each by a thread of its own: an abort first tells the kernels to end, then waits until they and
 * all graphs that hold the communicator are gone. */
static void begin_abort(struct gpu_victim *victim)
{
    victim->begun =
        victim->begun || pthread_create(&victim->thread, NULL, abort_one, victim->comm) == 0;
}

void gpu_comms_abort(gpu_comms *comms)
{
    pthread_mutex_lock(&comms->lock);
    const bool first = !comms->aborted;
    comms->aborted = true;
    for (int32_t i = 0; i < comms->nmade; i++) take_victim(comms, &comms->made[i]->nccl);
    take_victim(comms, &comms->root);
    for (int32_t i = 0; first && i < comms->nvictims; i++) begin_abort(&comms->victim[i]);
    pthread_mutex_unlock(&comms->lock);
}

/* ---- the end ---- */

/* What waits for a network or a peer that is gone may wait for ever. Then its thread, which knows
 * nothing but the communicator, goes on beside this process until that ends. */
static void finish_aborts(gpu_comms *comms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GPU_COMM_ABORT_S;
    for (int32_t i = 0; i < comms->nvictims; i++) {
        struct gpu_victim *victim = &comms->victim[i];
        begin_abort(victim);
        if (victim->begun && pthread_timedjoin_np(victim->thread, NULL, &until) != 0)
            (void)pthread_detach(victim->thread);
    }
    comms->nvictims = 0;
}

static luo_status finalize(gpu_comms *comms, ncclComm_t comm)
{
    if (!comm) return LUO_OK;
    LUO_TRY(gpu_comms_lock(comms, NULL));
    const luo_status st = gpu_nccl(NULL, ncclCommFinalize(comm), "an end");
    gpu_comms_unlock(comms);
    return st;
}

static luo_status end_all(gpu_comms *comms)
{
    for (int32_t i = 0; i < comms->nmade; i++) LUO_TRY(finalize(comms, comms->made[i]->nccl));
    for (int32_t i = 0; i < comms->nmade; i++)
        LUO_TRY(gpu_comm_settle(comms, &comms->made[i]->nccl, GPU_COMM_END_S, "an end", NULL));
    LUO_TRY(finalize(comms, comms->root));
    if (comms->root) LUO_TRY(gpu_comm_settle(comms, &comms->root, GPU_COMM_END_S, "an end", NULL));
    for (int32_t i = 0; i < comms->nmade; i++) (void)ncclCommDestroy(comms->made[i]->nccl);
    if (comms->root) (void)ncclCommDestroy(comms->root);
    comms->nmade = 0;
    comms->root = NULL;
    return LUO_OK;
}

void gpu_comms_close(gpu_comms *comms)
{
    if (!comms) return;
    if (comms->failed || end_all(comms) != LUO_OK) gpu_comms_abort(comms);
    finish_aborts(comms);
    free(comms->of);
    free(comms->made);
    free(comms->victim);
    pthread_mutex_destroy(&comms->lock);
    if (comms->mpi != MPI_COMM_NULL) MPI_Comm_free(&comms->mpi);
    luo_arena_free(comms->plans);
    luo_arena_free(comms->arena);
}
