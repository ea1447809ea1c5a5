/* engine.c: ops, the draw among those that are ready, waiting, the lock. */
#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory.h"
#include "ops.h"

uint64_t standin_clock_ns(void);

struct standin_op {
    standin_job *job;
    void *run;
    int32_t refs, waiting; /* ops that it still comes after */
    uint32_t lane;         /* of its stream */
    bool begun, done;
    uint64_t time;
    int32_t nafter, room;
    standin_op **after; /* those that come after it */
};

static struct {
    bool set_up;
    uint64_t random;
    int eager; /* 0: works at waits only .. 3: as soon as it can */
    /* Streams have ranks, drawn anew after every `change` draws or so: one that comes last lags
     * behind all others for long, which ops drawn alike would hardly ever do. 0: drawn alike. */
    uint32_t change;
    uint64_t ranks;
    cudaError_t error;
    int32_t nready, room;
    standin_op **ready;
    int64_t open; /* ops that are not done */
} e;
static _Thread_local cudaError_t last_error;

/* ---- the lock ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t owner;
static int depth; /* of the owner */
static int _Atomic wanting;

static void *serve(void *unused);

static void set_up(void)
{
    e.set_up = true;
    const char *seed = getenv("STANDIN_SEED"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    standin_seed((seed ? strtoull(seed, NULL, 10) : 1) +
                 (rank ? strtoull(rank, NULL, 10) << 32 : 0));
    const char *thread = getenv("STANDIN_THREAD");
    pthread_t id;
    if (thread && *thread == '1' && pthread_create(&id, NULL, serve, NULL) == 0) pthread_detach(id);
}
static bool mine(void)
{
    return depth > 0 && pthread_equal(owner, pthread_self());
}
static void take(int as_deep)
{
    wanting++;
    pthread_mutex_lock(&mutex);
    wanting--;
    owner = pthread_self();
    depth = as_deep;
}
void standin_lock(void)
{
    if (mine()) {
        depth++;
        return;
    }
    take(1);
    if (!e.set_up) set_up();
}
void standin_unlock(void)
{
    if (--depth > 0) return;
    standin_close_memory();
    pthread_mutex_unlock(&mutex);
}
/* Lets other threads in, however deep we are. */
static void let_others(int idle)
{
    const int was = depth;
    depth = 0;
    pthread_mutex_unlock(&mutex);
    standin_idle(idle);
    take(was);
}
void standin_breathe(void)
{
    let_others(0);
}
void standin_idle(int times)
{
    if (times < 16) {
        sched_yield();
        return;
    }
    const struct timespec t = {.tv_nsec = times < 64 ? 20000 : 200000};
    nanosleep(&t, NULL);
}

/* ---- chance ---- */

void standin_seed(uint64_t seed)
{
    standin_lock();
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0xd1b54a32d192ed03);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    e.random = (x ^ x >> 31) | 1;
    e.eager = (int)(standin_random() & 3);
    const uint32_t changes[] = {0, 16, 256, 4096};
    e.change = changes[standin_random() & 3];
    e.ranks = standin_random();
    standin_unlock();
}
uint64_t standin_random(void)
{
    e.random ^= e.random << 13;
    e.random ^= e.random >> 7;
    e.random ^= e.random << 17;
    return e.random;
}
uint32_t standin_below(uint32_t n)
{
    return (uint32_t)((standin_random() >> 32) * n >> 32);
}

/* ---- errors ---- */

cudaError_t standin_failed(cudaError_t code)
{
    last_error = code;
    return code;
}
cudaError_t standin_device_error(void)
{
    return e.error;
}
cudaError_t cudaGetLastError(void)
{
    const cudaError_t code = e.error ? e.error : last_error;
    last_error = cudaSuccess;
    return code;
}
cudaError_t cudaPeekAtLastError(void)
{
    return e.error ? e.error : last_error;
}

/* ---- jobs and ops ---- */

standin_job *standin_job_make(const standin_work *work)
{
    standin_job *job = malloc(sizeof *job);
    if (job) {
        *job = (standin_job){.work = *work, .refs = 1};
    } else if (work->drop) {
        work->drop(work->ctx);
    }
    return job;
}
void standin_job_release(standin_job *job)
{
    if (!job || --job->refs > 0) return;
    if (job->work.drop) job->work.drop(job->work.ctx);
    free(job);
}
standin_op *standin_op_keep(standin_op *op)
{
    if (op) op->refs++;
    return op;
}
void standin_op_release(standin_op *op)
{
    if (!op || --op->refs > 0) return;
    standin_job_release(op->job);
    free(op->after);
    free(op);
}
void standin_op_in_lane(standin_op *op, uint32_t lane)
{
    op->lane = lane;
}
bool standin_op_done(const standin_op *op)
{
    return !op || op->done;
}
uint64_t standin_op_time(const standin_op *op)
{
    return op ? op->time : 0;
}

/* Room for one more in an array that grows. */
static bool room_for(standin_op ***array, int32_t n, int32_t *room)
{
    if (n < *room) return true;
    const int32_t more = *room ? 2 * *room : 4;
    standin_op **at = realloc(*array, (size_t)more * sizeof(standin_op *));
    if (!at) return false;
    *array = at;
    *room = more;
    return true;
}
static void make_ready(standin_op *op)
{
    e.ready[e.nready++] = op; /* room: as many as there are ops */
}

standin_op *standin_op_make(standin_job *job, int32_t n, standin_op *const *after)
{
    standin_op *op = calloc(1, sizeof *op);
    if (!op) return NULL;
    if (e.open >= e.room) {
        const int32_t more = e.room ? 2 * e.room : 256;
        standin_op **at = realloc(e.ready, (size_t)more * sizeof(standin_op *));
        if (!at) goto failed;
        e.ready = at;
        e.room = more;
    }
    for (int32_t i = 0; i < n; i++)
        if (!standin_op_done(after[i]) &&
            !room_for(&after[i]->after, after[i]->nafter, &after[i]->room))
            goto failed;
    for (int32_t i = 0; i < n; i++) {
        if (standin_op_done(after[i])) continue;
        /* The same one twice: there may be no room for the second, and none is needed. */
        if (after[i]->nafter > 0 && after[i]->after[after[i]->nafter - 1] == op) continue;
        after[i]->after[after[i]->nafter++] = op;
        op->waiting++;
    }
    op->job = job;
    if (job) job->refs++;
    op->refs = 2; /* the caller's and the engine's */
    e.open++;
    if (op->waiting == 0) make_ready(op);
    return op;
failed:
    free(op);
    return NULL;
}

static void finish(standin_op *op)
{
    op->done = true;
    op->time = standin_clock_ns();
    e.open--;
    for (int32_t i = 0; i < op->nafter; i++)
        if (--op->after[i]->waiting == 0) make_ready(op->after[i]);
    free(op->after);
    op->after = NULL;
    standin_job_release(op->job);
    op->job = NULL;
    standin_op_release(op);
}

/* ---- progress ---- */

/* Works on an op that was taken out of the ready ones. False: it goes on by itself. */
static bool work_on(standin_op *op)
{
    const standin_work *w = op->job ? &op->job->work : NULL;
    if (!w || !w->begin || e.error) {
        finish(op);
        return true;
    }
    standin_open_memory();
    cudaError_t code;
    bool moved = false;
    if (!op->begun) {
        op->begun = moved = true;
        standin_clock_add(STANDIN_WORK_NS);
        code = w->begin(w->ctx, &op->run);
        if (code == cudaSuccess && w->poll) code = cudaErrorNotReady;
    } else {
        code = w->poll(w->ctx, op->run);
    }
    if (code == cudaErrorNotReady) {
        make_ready(op);
        return moved;
    }
    if (code != cudaSuccess) {
        fprintf(stderr, "stand-in for CUDA: %s failed: %s\n", w->what, cudaGetErrorString(code));
        e.error = code;
    }
    finish(op);
    return true;
}

static uint64_t rank_of(const standin_op *op)
{
    const uint64_t x = (op->lane + 1) * e.ranks;
    return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 16;
}
/* The ready op to look at first. */
static int32_t draw(void)
{
    if (e.change == 0) return (int32_t)standin_below((uint32_t)e.nready);
    if (standin_below(e.change) == 0) e.ranks = standin_random();
    int32_t best = 0;
    for (int32_t i = 1; i < e.nready; i++)
        if (rank_of(e.ready[i]) > rank_of(e.ready[best])) best = i;
    return best;
}
bool standin_progress(void)
{
    const int32_t n = e.nready;
    if (n == 0) return false;
    const int32_t first = draw();
    for (int32_t i = 0; i < n; i++) {
        /* What does not move goes to the end, and what was there comes here: look at each once. */
        const int32_t at = (first + n - i) % n;
        standin_op *op = e.ready[at];
        e.ready[at] = e.ready[--e.nready];
        if (work_on(op)) return true;
        standin_op *swap = e.ready[e.nready - 1];
        e.ready[e.nready - 1] = e.ready[at];
        e.ready[at] = swap;
    }
    return false;
}

cudaError_t standin_wait(standin_op *op)
{
    standin_op_keep(op);
    for (int idle = 0; !standin_op_done(op);) {
        const bool moved = standin_progress();
        idle = moved ? 0 : idle + 1;
        if (!moved || wanting > 0) let_others(idle);
    }
    standin_op_release(op);
    standin_want_memory_closed();
    return e.error;
}
cudaError_t standin_wait_all(void)
{
    standin_want_memory_closed();
    for (int idle = 0; e.open > 0;) {
        const bool moved = standin_progress();
        idle = moved ? 0 : idle + 1;
        if (!moved || wanting > 0) let_others(idle);
    }
    return e.error;
}

void standin_after_enqueue(void)
{
    if (e.eager == 3) {
        while (standin_progress()) continue;
    } else if (e.eager > 0) {
        for (int n = (int)(standin_random() & (e.eager == 1 ? 1 : 3)); n > 0; n--)
            standin_progress();
    }
}

static void *serve(void *unused)
{
    for (int idle = 0;; idle++) {
        standin_lock();
        if (standin_progress()) idle = 0;
        standin_unlock();
        standin_idle(idle);
    }
    return unused;
}
