/* fiber.c: on x86-64 a switch is six registers and a stack pointer; elsewhere it is
 * that of ucontext, which costs two system calls. */
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sanitized.h"

#if STANDIN_SANITIZED
#include <sanitizer/common_interface_defs.h>
enum { STACK = 512 * 1024 };
#else
enum { STACK = 128 * 1024 };
#endif

#if defined(__x86_64__)
void standin_switch_stack(void **save, void *load);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl standin_switch_stack\n"
        ".type standin_switch_stack, @function\n"
        "standin_switch_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size standin_switch_stack, .-standin_switch_stack\n");

static bool prepare(standin_fiber *f, void (*entry)(void))
{
    /* As if entry had been called by nobody: the six registers, its address, a return address. */
    uintptr_t *top = (uintptr_t *)(void *)(f->stack + f->bytes);
    top[-1] = 0;
    top[-2] = (uintptr_t)entry;
    for (int i = 3; i <= 8; i++) top[-i] = 0;
    f->sp = top - 8;
    return true;
}
static void swap(standin_fiber *from, standin_fiber *to)
{
    standin_switch_stack(&from->sp, to->sp);
}
#else
#include <ucontext.h>
static bool prepare(standin_fiber *f, void (*entry)(void))
{
    ucontext_t *c = calloc(1, sizeof *c);
    if (!c) return false;
    f->context = c;
    getcontext(c);
    c->uc_stack.ss_sp = f->stack;
    c->uc_stack.ss_size = f->bytes;
    makecontext(c, entry, 0);
    return true;
}
static void swap(standin_fiber *from, standin_fiber *to)
{
    ucontext_t own;
    if (!from->context) from->context = &own; /* the thread's own stack, which stays below us */
    swapcontext(from->context, to->context);
    if (from->context == &own) from->context = NULL;
}
#endif

standin_fiber *standin_fiber_make(void (*entry)(void))
{
    standin_fiber *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    const size_t page = 4096;
    char *at = mmap(NULL, STACK + page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || mprotect(at, page, PROT_NONE) != 0) goto failed;
    f->stack = at + page;
    f->bytes = STACK;
    if (prepare(f, entry)) return f;
failed:
    if (at != MAP_FAILED) munmap(at, STACK + page);
    free(f);
    return NULL;
}

#if STANDIN_SANITIZED
static standin_fiber *left; /* the one that the last switch came from */

static void arrived(standin_fiber *me)
{
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(me ? me->fake : NULL, &bottom, &bytes);
    if (!left->stack || left->bytes == 0) { /* a thread's own stack */
        left->stack = (char *)(uintptr_t)bottom;
        left->bytes = bytes;
    }
}
void standin_fiber_begun(void)
{
    arrived(NULL);
}
void standin_fiber_switch(standin_fiber *from, standin_fiber *to)
{
    left = from;
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->bytes);
    swap(from, to);
    arrived(from);
}
#else
void standin_fiber_begun(void)
{
}
void standin_fiber_switch(standin_fiber *from, standin_fiber *to)
{
    swap(from, to);
}
#endif
