/* fiber.h: stacks to run CUDA threads on, and the switch between them. */
#ifndef LUO_STANDIN_FIBER_H
#define LUO_STANDIN_FIBER_H
#include <stdbool.h>
#include <stddef.h>

typedef struct standin_fiber {
    void *sp; /* where it stands while another runs */
    char *stack;
    size_t bytes;
    void *fake; /* AddressSanitizer's part of it */
    struct standin_fiber *next;
    void *context; /* ucontext, where there is no switch of our own */
} standin_fiber;

/* A fiber that calls entry() when first switched to; entry never returns. NULL: no memory. Lives as
 * long as the process. */
standin_fiber *standin_fiber_make(void (*entry)(void));
/* From the running fiber (or the thread's own stack: any zeroed standin_fiber) to another one. */
void standin_fiber_switch(standin_fiber *from, standin_fiber *to);
/* First thing in entry. */
void standin_fiber_begun(void);
#endif
