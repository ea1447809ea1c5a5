/* memory.c: the memory of the device is one range of addresses of its own. The host
 * may not touch it; it is opened while ops are worked on. AddressSanitizer knows where allocations
 * end; in builds without it what is written around them is found when they are freed. */
#include "memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ops.h"
#include "sanitized.h"

#if STANDIN_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

void standin_fault(const char *what) __attribute__((noreturn));

enum { ALIGN = 256, FENCE = 256, PAGE = 4096, LARGE_PAGE = 2 << 20 };
static const size_t RANGE = (size_t)64 << 30; /* addresses, not memory */

typedef struct piece {
    char *at;
    size_t bytes;
} piece;
typedef struct pieces { /* ascending */
    piece *at;
    int32_t n, room;
} pieces;

static struct {
    char *base;
    size_t high; /* opened and closed up to here */
    size_t next; /* where the last allocation ended */
    size_t total, used;
    bool open, closing;
    pieces device, pinned;
} m;

/* ---- tables ---- */

/* Index of the last piece that begins at or before p; -1. */
static int32_t search(const pieces *t, const char *p)
{
    int32_t lo = 0, hi = t->n;
    while (lo < hi) {
        const int32_t mid = (lo + hi) / 2;
        if (t->at[mid].at <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo - 1;
}
static bool holds(const pieces *t, const void *p, size_t bytes)
{
    const int32_t i = search(t, p);
    if (i < 0) return false;
    const size_t from = (size_t)((const char *)p - t->at[i].at);
    return from <= t->at[i].bytes && bytes <= t->at[i].bytes - from;
}
static bool insert(pieces *t, char *at, size_t bytes)
{
    if (t->n == t->room) {
        const int32_t more = t->room ? 2 * t->room : 64;
        piece *p = realloc(t->at, (size_t)more * sizeof *p);
        if (!p) return false;
        t->at = p;
        t->room = more;
    }
    const int32_t i = search(t, at) + 1;
    memmove(&t->at[i + 1], &t->at[i], (size_t)(t->n - i) * sizeof(piece));
    t->at[i] = (piece){at, bytes};
    t->n++;
    return true;
}
/* Bytes of the piece that begins at p, which is taken out; -1: none. */
static int64_t take_out(pieces *t, const void *p)
{
    const int32_t i = search(t, p);
    if (i < 0 || t->at[i].at != p) return -1;
    const int64_t bytes = (int64_t)t->at[i].bytes;
    memmove(&t->at[i], &t->at[i + 1], (size_t)(t->n - i - 1) * sizeof(piece));
    t->n--;
    return bytes;
}
bool standin_is_device(const void *p, size_t bytes)
{
    return holds(&m.device, p, bytes);
}
bool standin_is_pinned(const void *p, size_t bytes)
{
    return holds(&m.pinned, p, bytes);
}

/* ---- the range ---- */

void standin_open_memory(void)
{
    if (!m.open && m.high > 0 && mprotect(m.base, m.high, PROT_READ | PROT_WRITE) != 0)
        standin_fault("the memory of the device cannot be opened");
    m.open = m.high > 0;
}
/* After waits and allocations, when the host looks at results; else seldom, since it costs a system
 * call. */
void standin_close_memory(void)
{
    if (!m.closing && (!m.open || (standin_random() & 63) != 0)) return;
    m.closing = false;
    if (m.open && mprotect(m.base, m.high, PROT_NONE) != 0)
        standin_fault("the memory of the device cannot be closed");
    m.open = false;
}
void standin_want_memory_closed(void)
{
    m.closing = true;
}
void standin_set_memory(int64_t bytes)
{
    standin_lock();
    m.total = (size_t)bytes;
    standin_unlock();
}
#if !STANDIN_SANITIZED
/* Says whose fault it was, where AddressSanitizer does not. */
static void explain(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const char *at = info->si_addr;
    if (at >= m.base && at < m.base + RANGE)
        fprintf(stderr, "stand-in for CUDA: %s memory of the device at %p\n",
                m.open ? "a kernel went beyond the" : "the host touched", (const void *)at);
    signal(sig, SIG_DFL); /* the instruction is tried again, and ends the process */
}
static void watch_faults(void)
{
    static char stack[16384];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_sigaction = explain, .sa_flags = SA_SIGINFO | SA_ONSTACK}, was;
    if (sigaction(SIGSEGV, NULL, &was) == 0 && was.sa_handler == SIG_DFL &&
        sigaltstack(&own, NULL) == 0)
        sigaction(SIGSEGV, &act, NULL);
}
#else
static void watch_faults(void)
{
}
#endif
static bool set_up(void)
{
    if (m.base) return true;
    const char *mib = getenv("STANDIN_MEMORY");
    if (m.total == 0) m.total = mib ? (size_t)strtoull(mib, NULL, 10) << 20 : (size_t)8 << 30;
    void *at = mmap(NULL, RANGE + LARGE_PAGE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    m.base = (char *)at + (LARGE_PAGE - (uintptr_t)at % LARGE_PAGE);
    madvise(m.base, RANGE, MADV_HUGEPAGE); /* opens and closes faster; refused is fine */
    watch_faults();
    return true;
}
static size_t span_of(size_t bytes)
{
    return (bytes + FENCE + ALIGN - 1) / ALIGN * ALIGN;
}
/* A gap of `span` bytes: behind the last allocation, so that what was freed stays free for long,
 * or the first one from the beginning. RANGE: none. */
static size_t find_gap(size_t span)
{
    if (m.next + span <= RANGE) return m.next;
    size_t at = 0;
    for (int32_t i = 0; i < m.device.n; i++) {
        const size_t begins = (size_t)(m.device.at[i].at - m.base);
        if (begins - at >= span) return at;
        at = begins + span_of(m.device.at[i].bytes);
    }
    return at + span <= RANGE ? at : RANGE;
}
static void fill(char *at, size_t bytes, int value)
{
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    memset(at, value, bytes);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    STANDIN_ENTER();
    cudaError_t code = standin_capture_forbids(NULL);
    if (code != cudaSuccess) return standin_leave(code);
    if (bytes == 0) {
        *out = NULL;
        return standin_leave(cudaSuccess);
    }
    if (!set_up() || standin_injected(STANDIN_MALLOC) || bytes > m.total - m.used)
        return standin_leave(cudaErrorMemoryAllocation);
    const size_t span = span_of(bytes), at = find_gap(span);
    if (at == RANGE || !insert(&m.device, m.base + at, bytes))
        return standin_leave(cudaErrorMemoryAllocation);
    m.next = at + span;
    m.used += bytes;
    if (m.next > m.high) {
        const size_t high = (m.next + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
        m.open = false; /* not all of it */
        m.high = high;
    }
    standin_open_memory();
    m.closing = true;
    fill(m.base + at, bytes, 0xff);
    fill(m.base + at + bytes, span - bytes, 0xa5);
    ASAN_POISON_MEMORY_REGION(m.base + at + bytes, span - bytes);
    *out = m.base + at;
    return standin_leave(cudaSuccess);
}

static void check_fence(const char *at, size_t bytes)
{
    const size_t n = span_of(bytes) - bytes;
    ASAN_UNPOISON_MEMORY_REGION(at + bytes, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)at[bytes + i] != 0xa5) {
            fprintf(stderr, "stand-in for CUDA: byte %zu of an allocation of %zu was written\n",
                    bytes + i, bytes);
            abort();
        }
}
/* Whole pages of something large: what reads it later finds zeroes instead of poison. */
static void give_back(char *p, size_t bytes)
{
    const size_t skip = (PAGE - (uintptr_t)p % PAGE) % PAGE;
    if (bytes > (size_t)1 << 20) madvise(p + skip, (bytes - skip) / PAGE * PAGE, MADV_DONTNEED);
}
cudaError_t cudaFree(void *p)
{
    standin_lock();
    if (!p) return standin_leave(standin_device_error());
    cudaError_t code = standin_capture_forbids(NULL);
    if (code != cudaSuccess) return standin_leave(code);
    code = standin_wait_all();
    const int64_t bytes = take_out(&m.device, p);
    if (bytes < 0) return standin_leave(code ? code : cudaErrorInvalidValue);
    standin_open_memory();
    check_fence(p, (size_t)bytes);
    memset(p, 0xff, (size_t)bytes);
    give_back(p, (size_t)bytes);
    ASAN_POISON_MEMORY_REGION(p, span_of((size_t)bytes));
    m.used -= (size_t)bytes;
    return standin_leave(code);
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    STANDIN_ENTER();
    set_up();
    *free_bytes = m.total - m.used;
    *total = m.total;
    return standin_leave(cudaSuccess);
}

/* ---- page-locked host memory ---- */

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    (void)flags; /* one device, one address space: portable and mapped it is in any case */
    STANDIN_ENTER();
    cudaError_t code = standin_capture_forbids(NULL);
    if (code != cudaSuccess) return standin_leave(code);
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0)
        return standin_leave(cudaErrorMemoryAllocation);
    if (!insert(&m.pinned, p, bytes)) {
        free(p);
        return standin_leave(cudaErrorMemoryAllocation);
    }
    memset(p, 0xff, bytes);
    *out = p;
    return standin_leave(cudaSuccess);
}
cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void *p)
{
    standin_lock();
    if (!p) return standin_leave(standin_device_error());
    const cudaError_t code = standin_wait_all();
    if (take_out(&m.pinned, p) < 0) return standin_leave(code ? code : cudaErrorInvalidValue);
    free(p);
    return standin_leave(code);
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    STANDIN_ENTER();
    if (flags != 0 || !standin_is_pinned(host, 0)) return standin_leave(cudaErrorInvalidValue);
    *device = host;
    return standin_leave(cudaSuccess);
}
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
    (void)flags;
    STANDIN_ENTER();
    if (standin_is_pinned(p, 0)) return standin_leave(cudaErrorHostMemoryAlreadyRegistered);
    return standin_leave(insert(&m.pinned, p, bytes) ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaHostUnregister(void *p)
{
    STANDIN_ENTER();
    const cudaError_t code = standin_wait_all();
    if (take_out(&m.pinned, p) < 0) return standin_leave(cudaErrorHostMemoryNotRegistered);
    return standin_leave(code);
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
    STANDIN_ENTER();
    void *any = (void *)(uintptr_t)p;
    if (standin_is_device(p, 0))
        *out = (struct cudaPointerAttributes){cudaMemoryTypeDevice, 0, any, NULL};
    else if (standin_is_pinned(p, 0))
        *out = (struct cudaPointerAttributes){cudaMemoryTypeHost, 0, any, any};
    else
        *out = (struct cudaPointerAttributes){cudaMemoryTypeUnregistered, -1, NULL, any};
    return standin_leave(cudaSuccess);
}
void standin_count_memory(standin_counts *out)
{
    out->allocations = m.device.n;
    out->bytes = (int64_t)m.used;
    out->pinned = m.pinned.n;
}
