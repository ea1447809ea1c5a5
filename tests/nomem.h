/* nomem.h: memory that is refused once. The linker gives the calls of allocators in core these
 * functions instead (NOMEM in the Makefile), so that a job can be run again for each of its
 * allocations with that one refused. Every such run is a process of its own: one that crashes,
 * hangs or keeps memory is told from the others. Allocations of processes that a job forks (those
 * of the simulator) are counted with its own.
 *
 * Which are tried: one of every place (the calls around it, NOMEM_DEEP of them), and every so many
 * of the others. What is left out differs from what is tried by its data alone. */
#ifndef LUO_TESTS_NOMEM_H
#define LUO_TESTS_NOMEM_H
#include <execinfo.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/base/hash.h"
#include "core/base/str.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

#ifndef NOMEM_DEEP /* where a test says so, fewer */
#define NOMEM_DEEP 5
#endif
enum { NOMEM_MOST = 1 << 18, NOMEM_HELD = 1 << 14, NOMEM_HANG_S = 60 };

static struct {
    bool on, learn;
    int64_t refused;            /* the allocation that is refused, -1: none */
    void *held[NOMEM_HELD];     /* from malloc and not given back by this process */
    int32_t nheld;
    struct nomem_shared {           /* by all processes of a job */
        _Atomic int64_t n;          /* allocations so far */
        uint64_t place[NOMEM_MOST]; /* while learning: by allocation */
        void *around[NOMEM_DEEP];   /* the calls around the one that was refused */
    } * shared;
} nomem;

/* ---- in the place of the allocators ---- */

static bool nomem_refuses(void)
{
    void *at[NOMEM_DEEP + 2]; /* this function and the wrapper go before */
    if (!nomem.on) return false;
    const int64_t k = atomic_fetch_add(&nomem.shared->n, 1);
    if (!nomem.learn && k != nomem.refused) return false;
    nomem.on = false; /* the first backtrace allocates */
    const int n = backtrace(at, NOMEM_DEEP + 2);
    nomem.on = true;
    if (nomem.learn && k < NOMEM_MOST)
        nomem.shared->place[k] = luo_hash_bytes(0, at + 2, (size_t)(n - 2) * sizeof *at);
    else
        memcpy(nomem.shared->around, at + 2, (size_t)(n - 2) * sizeof *at);
    return !nomem.learn;
}

static void *nomem_hold(void *block)
{
    if (nomem.on && block && nomem.nheld < NOMEM_HELD) nomem.held[nomem.nheld++] = block;
    return block;
}

static void nomem_drop(const void *block)
{
    for (int32_t i = nomem.nheld; block && i-- > 0;)
        if (nomem.held[i] == block) {
            nomem.held[i] = nomem.held[--nomem.nheld];
            return;
        }
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *block, size_t n);
void __real_free(void *block);
luo_arena *__real_luo_arena_new(size_t first);
void *__real_luo_arena_alloc(luo_arena *a, size_t bytes);
void *__real_luo_arena_calloc(luo_arena *a, size_t n, size_t bytes);
void *__real_luo_arena_grow(luo_arena *a, void *p, size_t old_bytes, size_t new_bytes);
char *__real_luo_arena_strndup(luo_arena *a, const char *s, size_t n);
bool __real_luo_vec_grow32(luo_arena *a, void *at, int32_t *cap, size_t bytes);
bool __real_luo_vec_grow64(luo_arena *a, void *at, int64_t *cap, size_t bytes);

void *__wrap_malloc(size_t n)
{
    return nomem_refuses() ? NULL : nomem_hold(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return nomem_refuses() ? NULL : nomem_hold(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *block, size_t n)
{
    if (nomem_refuses()) return NULL;
    nomem_drop(block);
    return nomem_hold(__real_realloc(block, n));
}

void __wrap_free(void *block)
{
    nomem_drop(block);
    __real_free(block);
}

luo_arena *__wrap_luo_arena_new(size_t first)
{
    return nomem_refuses() ? NULL : __real_luo_arena_new(first);
}

void *__wrap_luo_arena_alloc(luo_arena *a, size_t bytes)
{
    return nomem_refuses() ? NULL : __real_luo_arena_alloc(a, bytes);
}

void *__wrap_luo_arena_calloc(luo_arena *a, size_t n, size_t bytes)
{
    return nomem_refuses() ? NULL : __real_luo_arena_calloc(a, n, bytes);
}

void *__wrap_luo_arena_grow(luo_arena *a, void *p, size_t old_bytes, size_t new_bytes)
{
    return nomem_refuses() ? NULL : __real_luo_arena_grow(a, p, old_bytes, new_bytes);
}

char *__wrap_luo_arena_strndup(luo_arena *a, const char *s, size_t n)
{
    return nomem_refuses() ? NULL : __real_luo_arena_strndup(a, s, n);
}

char *__wrap_luo_arena_strdup(luo_arena *a, const char *s)
{
    return nomem_refuses() ? NULL : __real_luo_arena_strndup(a, s, strlen(s));
}

char *__wrap_luo_arena_printf(luo_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    if (nomem_refuses()) return NULL;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : __real_luo_arena_alloc(a, (size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

bool __wrap_luo_vec_grow32(luo_arena *a, void *at, int32_t *cap, size_t bytes)
{
    return !nomem_refuses() && __real_luo_vec_grow32(a, at, cap, bytes);
}

bool __wrap_luo_vec_grow64(luo_arena *a, void *at, int64_t *cap, size_t bytes)
{
    return !nomem_refuses() && __real_luo_vec_grow64(a, at, cap, bytes);
}

/* ---- jobs ---- */

typedef struct nomem_job {
    const char *name;
    void (*prepare)(luo_arena *arena); /* with all memory; may be NULL */
    luo_status (*run)(luo_arena *arena, luo_err *err);
    void (*tell)(luo_str *text); /* with all memory, after LUO_OK: what was found */
    void (*end)(void);           /* gives back what prepare made; may be NULL */
} nomem_job;

/* Refused is the allocation of that number. kept: blocks of malloc that nobody gave back. */
static luo_status nomem_run(const nomem_job *job, int64_t refused, luo_str *text, luo_err *err,
                            int32_t *kept)
{
    luo_arena *own = __real_luo_arena_new(1 << 12);
    if (job->prepare) job->prepare(own);
    nomem.shared->n = 0;
    nomem.refused = refused;
    nomem.nheld = 0;
    nomem.on = true;
    const luo_status st = job->run(own, err);
    nomem.on = false;
    if (st == LUO_OK) job->tell(text);
    if (job->end) job->end();
    luo_arena_free(own); /* with the blocks that the job made it grow by */
    *kept = nomem.nheld;
    return st;
}

/* In a process of its own; what is wrong goes to stderr. */
static int nomem_child(const nomem_job *job, int64_t refused, const char *want)
{
    luo_err err = {0};
    luo_str text = {0};
    int32_t kept;
    alarm(NOMEM_HANG_S);
    const luo_status st = nomem_run(job, refused, &text, &err, &kept);
    const char *wrong = st == LUO_OK && strcmp(luo_str_get(&text), want) ? "another answer with "
                        : st != LUO_OK && st != LUO_ENOMEM               ? "the status "
                        : kept                                           ? "memory is kept, with "
                                                                         : NULL;
    luo_str_free(&text);
    if (!wrong) return 0;
    fprintf(stderr, "%s, allocation %lld: %s%s (%s); asked for by", job->name, (long long)refused,
            wrong, luo_status_name(st), err.text);
    extern char __executable_start;
    for (int i = 0; i < NOMEM_DEEP; i++)
        fprintf(stderr, " %lx", (long)((char *)nomem.shared->around[i] - &__executable_start));
    fprintf(stderr, "\n");
    return 1;
}

static bool nomem_try(const nomem_job *job, int64_t refused, const char *want)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) exit(nomem_child(job, refused, want));
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s, allocation %lld: ended by signal %d\n", job->name, (long long)refused,
                WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Was an allocation of the same place met before this one? */
static bool nomem_known(luo_map *places, int64_t k)
{
    int64_t *first = luo_map_at(places, nomem.shared->place[k], k);
    ck_assert_ptr_nonnull(first);
    return *first != k;
}

/* Runs the job with each refused in turn; stderr has what was wrong. few: how many of allocations
 * whose place is known are tried in make check. Returns how many were wrong. */
static int nomem_all(const nomem_job *job, int64_t few)
{
    luo_err err = {0};
    luo_str want = {0};
    luo_map places = {0};
    int wrong = 0, tried = 0;
    int32_t kept;
    nomem.shared = mmap(NULL, sizeof *nomem.shared, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(nomem.shared != MAP_FAILED);
    nomem.learn = true;
    ck_assert_msg(nomem_run(job, -1, &want, &err, &kept) == LUO_OK, "%s: %s", job->name, err.text);
    nomem.learn = false;
    const int64_t asked = nomem.shared->n, n = asked < NOMEM_MOST ? asked : NOMEM_MOST;
    const int64_t all = (int64_t)luo_prop_few((uint64_t)few, 20 * (uint64_t)few);
    for (int64_t k = 0; k < n; k++) {
        if (nomem_known(&places, k) && k * all / n == (k + 1) * all / n) continue;
        wrong += !nomem_try(job, k, luo_str_get(&want));
        tried++;
    }
    printf("%s: %d of %lld allocations were refused, %d with a fault\n", job->name, tried,
           (long long)asked, wrong);
    ck_assert_int_gt(tried, 1);
    ck_assert_int_eq(kept, 0);
    luo_map_free(&places);
    luo_str_free(&want);
    munmap(nomem.shared, sizeof *nomem.shared);
    return wrong;
}
#endif
