/* nccl_op.c: operations as works of streams: when one may begin, and the checks of a
 * call's arguments. */
#include <stdlib.h>
#include <string.h>

#include "nccl_in.h"

static nccl_op *last_issued, *last_captured; /* on any communicator */

/* ---- making ---- */

nccl_op *nccl_op_make(ncclComm_t comm, cudaStream_t stream)
{
    nccl_op *op = calloc(1, sizeof *op);
    if (!op) nccl_die("no memory");
    *op = (nccl_op){.comm = comm, .stream = stream, .refs = 1};
    return op;
}

void nccl_op_release(nccl_op *op)
{
    while (op && --op->refs == 0) { /* a chain of what was issued before may be long */
        nccl_op *before = op->before;
        nccl_op_release(op->before_here);
        free(op->part);
        free(op);
        op = before;
    }
}

static nccl_op *keep(nccl_op *op)
{
    if (op) op->refs++;
    return op;
}

static bool on_device(const void *p, size_t bytes)
{
    return bytes == 0 || standin_is_device(p, bytes) || standin_is_pinned(p, bytes);
}

/* Where operand and result overlap the one has to lie in its place in the other. */
static void check_overlap(const nccl_part *p, const ncclComm_t c, size_t in, size_t out)
{
    const size_t each = p->n * nccl_size(p->type);
    const char *place = p->from, *wanted = p->to;
    if (!p->from || !p->to || p->from + in <= p->to || p->to + out <= p->from) return;
    if (p->kind == NCCL_AG) wanted += (size_t)c->rank * each;
    if (p->kind == NCCL_RS) place += (size_t)c->rank * each;
    if (place != wanted) nccl_die("operand and result overlap, and not as NCCL allows");
}

/* Does a group hold such calls beside each other? NCCL's holds any; luoshu asks for no more. */
static bool goes_with(const nccl_part *a, const nccl_part *b)
{
    return (a->kind <= NCCL_RECV && b->kind <= NCCL_RECV) ||
           (a->kind >= NCCL_BCAST && b->kind >= NCCL_BCAST);
}

bool nccl_op_add(nccl_op *op, const nccl_part *p)
{
    const ncclComm_t c = op->comm;
    const size_t each = p->n * nccl_size(p->type), all = each * (size_t)c->n;
    const size_t in = p->kind == NCCL_RS ? all : each, out = p->kind == NCCL_AG ? all : each;
    const bool sums = p->kind == NCCL_AR || p->kind == NCCL_RS || p->kind == NCCL_REDUCE;
    const bool results = p->kind != NCCL_SEND && (p->kind != NCCL_REDUCE || p->peer == c->rank);
    if (nccl_size(p->type) == 0 || p->peer < 0 || p->peer >= c->n) return false;
    if (sums && (p->how != ncclSum && p->how != ncclMax)) return false;
    if (sums && nccl_size(p->type) == 1) return false;
    if (p->kind <= NCCL_RECV && p->peer == c->rank) return false; /* NCCL can; luoshu does not */
    if (op->n > 0 && !goes_with(p, &op->part[0]))
        nccl_die("a group holds one collective, broadcasts and reduces, or sends and receives");
    if ((p->kind != NCCL_RECV && !on_device(p->from, in)) || (results && !on_device(p->to, out)))
        nccl_die("an operand or a result is not in one piece of the device's memory");
    check_overlap(p, c, in, out);
    if (op->n == op->room) {
        op->room = op->room ? 2 * op->room : 4;
        op->part = realloc(op->part, (size_t)op->room * sizeof *op->part);
        if (!op->part) nccl_die("no memory");
    }
    op->part[op->n++] = *p;
    return true;
}

/* ---- orders of issue ---- */

static void follow(nccl_op *op, nccl_op **before, nccl_op **last)
{
    if (*last && (*last)->capture == op->capture) *before = keep(*last);
    nccl_op_release(*last);
    *last = keep(op);
}

void nccl_op_issue(nccl_op *op)
{
    op->capture = standin_capture_id(op->stream);
    follow(op, &op->before, op->capture ? &last_captured : &last_issued);
    follow(op, &op->before_here, &op->comm->latest[op->capture != 0]);
    if (op->capture)
        op->comm->graphs++;
    else
        op->comm->under_way[0]++;
}

void nccl_op_withdraw(nccl_op *op)
{
    if (op->capture)
        op->comm->graphs--;
    else
        op->comm->under_way[0]--;
    op->begun++;
    op->done++;
    nccl_op_release(op);
}

/* ---- as works of streams ---- */

static void check_mixing(const nccl_op *op)
{
    const int64_t *n = op->comm->under_way;
    if (n[0] > 0 && n[1] > 0 && nccl_set("NCCL_GRAPH_MIXING_SUPPORT", "0"))
        nccl_die("captured and other operations of a communicator are under way at once, and "
                 "NCCL_GRAPH_MIXING_SUPPORT is 0");
}

static void count_begun(nccl_op *op)
{
    op->begun++;
    if (!op->capture) { /* what went before is of no interest any more */
        nccl_op_release(op->before);
        nccl_op_release(op->before_here);
        op->before = op->before_here = NULL;
    }
}

/* A captured one compares runs of the same launch. */
static bool may_begin(const nccl_op *op)
{
    if (op->before_here && op->before_here->done <= op->begun) return false;
    return !op->before || op->before->begun > op->begun ||
           !nccl_set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
}

typedef struct turn { /* one run as the engine sees it */
    nccl_run *run;    /* NULL: it waits for its turn */
} turn;

static cudaError_t begin(void *ctx, void **out)
{
    nccl_op *op = ctx;
    turn *t = calloc(1, sizeof *t);
    if (!t) nccl_die("no memory");
    if (op->capture) op->comm->under_way[1]++;
    check_mixing(op);
    *out = t;
    return cudaSuccess;
}

static void over(nccl_op *op)
{
    op->done++;
    op->comm->under_way[op->capture != 0]--;
    nccl_counts.runs++;
}

static cudaError_t poll_aborted(nccl_op *op, turn *t)
{
    if (t->run)
        nccl_run_drop(t->run);
    else
        count_begun(op);
    free(t);
    over(op);
    return cudaSuccess;
}

static cudaError_t poll(void *ctx, void *run)
{
    nccl_op *op = ctx;
    turn *t = run;
    if (op->comm->aborted) return poll_aborted(op, t);
    if (nccl_hangs || op->comm->error) return cudaErrorNotReady;
    if (!t->run) {
        if (!may_begin(op)) return cudaErrorNotReady;
        count_begun(op);
        t->run = nccl_run_begin(op);
    }
    if (!nccl_run_over(t->run)) return cudaErrorNotReady;
    free(t);
    over(op);
    return cudaSuccess;
}

static void drop(void *ctx)
{
    nccl_op *op = ctx;
    if (op->capture) op->comm->graphs--;
    nccl_op_release(op);
}

ncclResult_t nccl_op_enqueue(nccl_op *op)
{
    if (standin_capture_id(op->stream) != op->capture)
        nccl_die("a capture began or ended while an operation was being issued; poll for "
                 "ncclSuccess before");
    const standin_work work = {begin, poll, drop, op, "an operation of NCCL"};
    return standin_enqueue(op->stream, &work) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
