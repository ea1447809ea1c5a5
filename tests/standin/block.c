/* block.c: runs the threads of a block as fibers. A thread that never waits costs no
 * switch: the next one begins on the same stack. */
#include "block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "fiber.h"

/* What the running kernel sees. */
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

typedef struct warp { /* sets of lanes */
    uint32_t live;    /* have not ended */
    uint32_t ready;   /* may run, or have not begun */
    uint32_t waiting; /* for the others of the warp, in what `kind` says */
    int kind;
    standin_together *together;
    void *brought[STANDIN_WARP];
} warp;

static struct {
    standin_grid grid;
    int nthreads, nwarps;
    uint3 at[STANDIN_THREADS];             /* threadIdx by number */
    standin_fiber *fiber[STANDIN_THREADS]; /* of those that have begun and wait */
    warp warp[STANDIN_WARP];
    int now;                /* the thread that runs */
    int turn[STANDIN_WARP]; /* warps with ready lanes, but for that of `now` */
    int nturn;
    int left;         /* threads that have not ended */
    int arrived;      /* at the barrier of the block */
    int yes, counted; /* what they brought to it; of the last one */
    standin_fiber *running, *spare;
    standin_fiber home; /* the stack of the caller */
    unsigned char *shared;
} b;

extern char __start_standin_shared[] __attribute__((weak));
extern char __stop_standin_shared[] __attribute__((weak));

int standin_thread(void)
{
    return b.now;
}
unsigned char *standin_dynamic_shared(void)
{
    return b.shared;
}

void standin_fault(const char *what)
{
    fprintf(stderr,
            "stand-in for CUDA: %s (block %u,%u,%u of %u,%u,%u, thread %u,%u,%u of %u,%u,%u, "
            "kernel at %p)\n",
            what, blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x, gridDim.y, gridDim.z, threadIdx.x,
            threadIdx.y, threadIdx.z, blockDim.x, blockDim.y, blockDim.z, b.grid.kernel);
    abort();
}

/* 0xff, NaN in every float type. Shared variables are written between red zones too, so not by a
 * memset that AddressSanitizer watches. */
static void poison(void *at, size_t bytes)
{
    char *p = at;
#if defined(__x86_64__)
    __asm__ volatile("rep stosb" : "+D"(p), "+c"(bytes) : "a"(0xff) : "memory");
#else
    for (volatile char *v = p; bytes > 0; bytes--) *v++ = (char)0xff;
#endif
}

/* ---- who runs next ---- */

static uint32_t bit(int lane)
{
    return UINT32_C(1) << lane;
}
/* Any lane of a nonempty set. */
static int draw(uint32_t set)
{
    const int by = (int)(standin_random() & 31);
    const uint32_t turned = by ? set >> by | set << (32 - by) : set;
    return (__builtin_ctz(turned) + by) & 31;
}
/* Takes the next thread to run out of the ready ones, of this warp while it has some; -1: none. */
static int pick(int wnow)
{
    if (b.warp[wnow].ready == 0) {
        if (b.nturn == 0) return -1;
        const int i = (int)standin_below((uint32_t)b.nturn);
        wnow = b.turn[i];
        b.turn[i] = b.turn[--b.nturn];
    }
    const int lane = draw(b.warp[wnow].ready);
    b.warp[wnow].ready &= ~bit(lane);
    return wnow * STANDIN_WARP + lane;
}
/* Puts the running warp behind the others now and then, where it could go on. */
static int pick_any(int wnow)
{
    if (b.nturn > 0 && b.warp[wnow].ready && (standin_random() & 7) == 0) {
        const int i = (int)standin_below((uint32_t)b.nturn), other = b.turn[i];
        b.turn[i] = wnow;
        wnow = other;
    }
    return pick(wnow);
}

static void work(void);

static standin_fiber *spare_fiber(void)
{
    standin_fiber *f = b.spare;
    if (f) {
        b.spare = f->next;
        return f;
    }
    f = standin_fiber_make(work);
    if (!f) standin_fault("no memory for the stack of a thread");
    return f;
}
static void become(int thread)
{
    b.now = thread;
    threadIdx = b.at[thread];
}
/* From the running fiber to that of a thread. */
static void go(int thread)
{
    standin_fiber *from = b.running, *to = b.fiber[thread];
    if (to) {
        b.fiber[thread] = NULL;
    } else {
        to = spare_fiber();
    }
    become(thread);
    b.running = to;
    standin_fiber_switch(from, to);
}
/* The running thread has put itself among those that wait (or is ready again). */
static void leave(void)
{
    const int me = b.now;
    const int next = pick_any(me / STANDIN_WARP);
    if (next == me) return;
    if (next < 0) standin_fault("threads wait for threads that wait elsewhere or have ended");
    b.fiber[me] = b.running;
    go(next);
}

/* ---- rendezvous ---- */

static void release_warp(warp *w)
{
    void *lane[STANDIN_WARP];
    for (int i = 0; i < STANDIN_WARP; i++) lane[i] = w->waiting & bit(i) ? w->brought[i] : NULL;
    w->ready |= w->waiting;
    w->waiting = 0;
    if (w->together) w->together(lane);
}

void standin_meet(uint32_t mask, int kind, void *mine, standin_together *together)
{
    warp *w = &b.warp[b.now / STANDIN_WARP];
    const int lane = b.now % STANDIN_WARP;
    if (mask != UINT32_MAX) standin_fault("warp functions of this stand-in take full masks only");
    if (w->waiting && w->kind != kind)
        standin_fault("lanes of a warp call different functions of the warp");
    w->kind = kind;
    w->together = together;
    w->brought[lane] = mine;
    w->waiting |= bit(lane);
    if (w->waiting == w->live) release_warp(w);
    leave();
}

static void release_block(void)
{
    b.counted = b.yes;
    b.arrived = b.yes = b.nturn = 0;
    for (int i = 0; i < b.nwarps; i++) {
        b.warp[i].ready = b.warp[i].live;
        if (i != b.now / STANDIN_WARP) b.turn[b.nturn++] = i;
    }
}
int standin_syncthreads_count(int yes)
{
    if (b.left != b.nthreads) standin_fault("a barrier after threads of the block have ended");
    b.yes += yes != 0;
    if (++b.arrived == b.nthreads) release_block();
    leave();
    return b.counted;
}
void standin_syncthreads(void)
{
    standin_syncthreads_count(0);
}

/* A thread has ended: lanes of its warp wait for it no longer, as on a GPU. A barrier of the block
 * that not all reach is a fault here, whatever some GPU does. */
static void end_thread(void)
{
    warp *w = &b.warp[b.now / STANDIN_WARP];
    if (b.arrived > 0) standin_fault("a thread ended while others wait at a barrier");
    w->live &= ~bit(b.now % STANDIN_WARP);
    b.left--;
    if (w->waiting && w->waiting == w->live) release_warp(w);
}

/* What each fiber does, for ever: runs a thread, then the next one that has not begun. */
static void work(void)
{
    standin_fiber_begun();
    for (;;) {
        b.grid.run(b.grid.kernel);
        end_thread();
        const int next = pick(b.now / STANDIN_WARP);
        if (next >= 0 && !b.fiber[next]) {
            become(next);
            continue;
        }
        standin_fiber *me = b.running;
        me->next = b.spare;
        b.spare = me;
        if (next >= 0) {
            go(next);
        } else {
            b.running = &b.home;
            standin_fiber_switch(me, &b.home);
        }
    }
}

/* ---- blocks ---- */

static void begin_block(void)
{
    b.left = b.nthreads;
    b.arrived = b.yes = b.nturn = 0;
    for (int i = 0; i < b.nwarps; i++) {
        const int lanes = b.nthreads - i * STANDIN_WARP;
        warp *w = &b.warp[i];
        w->live = w->ready = lanes >= STANDIN_WARP ? UINT32_MAX : bit(lanes) - 1;
        w->waiting = 0;
        b.turn[b.nturn++] = i;
    }
    if (__start_standin_shared)
        poison(__start_standin_shared, (size_t)(__stop_standin_shared - __start_standin_shared));
    if (b.shared) poison(b.shared, b.grid.shared);
    standin_copies_reset();
}
static void run_block(uint64_t index)
{
    blockIdx.x = (unsigned)(index % b.grid.grid.x);
    blockIdx.y = (unsigned)(index / b.grid.grid.x % b.grid.grid.y);
    blockIdx.z = (unsigned)(index / b.grid.grid.x / b.grid.grid.y);
    begin_block();
    const int first = (int)standin_below((uint32_t)b.nturn);
    const int w = b.turn[first];
    b.turn[first] = b.turn[--b.nturn];
    b.running = &b.home;
    go(pick(w));
    if (b.left > 0) standin_fault("threads wait for threads that have ended");
}

static uint64_t divisor(uint64_t x, uint64_t y)
{
    while (y) {
        const uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

cudaError_t standin_run_grid(const standin_grid *grid)
{
    b.grid = *grid;
    b.nthreads = (int)(grid->block.x * grid->block.y * grid->block.z);
    b.nwarps = (b.nthreads + STANDIN_WARP - 1) / STANDIN_WARP;
    blockDim = grid->block;
    gridDim = grid->grid;
    int n = 0;
    for (unsigned z = 0; z < blockDim.z; z++)
        for (unsigned y = 0; y < blockDim.y; y++)
            for (unsigned x = 0; x < blockDim.x; x++) b.at[n++] = (uint3){x, y, z};
    b.shared = NULL;
    /* On the heap and of the exact size, so that AddressSanitizer sees who goes beyond. */
    if (grid->shared > 0 && posix_memalign((void **)&b.shared, 128, grid->shared) != 0)
        return cudaErrorMemoryAllocation;
    memset(&b.home, 0, sizeof b.home);
    const uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    uint64_t step = blocks > 2 ? 1 + standin_random() % (blocks - 1) : 1;
    while (divisor(step, blocks) != 1) step++;
    uint64_t at = standin_random() % blocks;
    for (uint64_t i = 0; i < blocks; i++) {
        run_block(at);
        at = (at + step) % blocks;
    }
    free(b.shared);
    b.shared = NULL;
    return cudaSuccess;
}
