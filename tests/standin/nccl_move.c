/* nccl_move.c: what one run of an operation sends and receives over MPI. A message is
 * a head, which the receiver compares with what it expects, and cells, by way of memory of the
 * host. Sends are synchronous: they end when the receive has begun. Sums are taken in the order of
 * ranks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_in.h"

typedef struct head {
    uint64_t comm, n, place; /* place: number of a collective on its communicator */
    int32_t kind, type, how, captured;
} head;

typedef struct transfer {
    bool send, begun, done;
    int peer;
    const nccl_part *part; /* that it is of */
    head h;
    char *data; /* head, then cells */
    size_t bytes;
    char *to; /* received cells go there; NULL: they are kept in data */
    MPI_Request req;
} transfer;

struct nccl_run {
    nccl_op *op;
    int n, room, tag;
    transfer *t;
    bool reduced;   /* AR: the leader has, and sends now */
    nccl_run *next; /* of those dropped */
};

size_t nccl_size(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclBfloat16:
        return 2;
    case ncclFloat32:
        return 4;
    case ncclFloat64:
        return 8;
    default:
        return 0;
    }
}

/* ---- transfers ---- */

static transfer *add(nccl_run *r, const nccl_part *p, bool send, int peer, size_t bytes)
{
    if (r->n == r->room) {
        r->room = r->room ? 2 * r->room : 8;
        r->t = realloc(r->t, (size_t)r->room * sizeof *r->t);
        if (!r->t) nccl_die("no memory");
    }
    transfer *t = &r->t[r->n++];
    const bool message = p->kind == NCCL_SEND || p->kind == NCCL_RECV;
    *t = (transfer){.send = send, .peer = peer, .part = p, .bytes = bytes, .req = MPI_REQUEST_NULL};
    t->h = (head){.comm = r->op->comm->id,
                  .n = p->n,
                  .place = message ? 0 : (uint64_t)r->op->comm->collectives,
                  .kind = message ? NCCL_SEND : (int32_t)p->kind,
                  .type = (int32_t)p->type,
                  .how = (int32_t)p->how,
                  .captured = r->op->capture != 0};
    t->data = malloc(sizeof(head) + bytes);
    if (!t->data) nccl_die("no memory");
    return t;
}

static void add_send(nccl_run *r, const nccl_part *p, int peer, const char *from, size_t bytes)
{
    transfer *t = add(r, p, true, peer, bytes);
    memcpy(t->data, &t->h, sizeof t->h);
    if (bytes) memcpy(t->data + sizeof t->h, from, bytes);
}

static void add_recv(nccl_run *r, const nccl_part *p, int peer, char *to, size_t bytes)
{
    add(r, p, false, peer, bytes)->to = to;
}

static const char *name_of(int32_t kind)
{
    static const char *const names[] = {"a message",        "a message",     "an all-reduce",
                                        "a reduce-scatter", "an all-gather", "a broadcast",
                                        "a reduce"};
    return kind >= 0 && kind <= NCCL_REDUCE ? names[kind] : "?";
}

static void check_head(const transfer *t, const head *got)
{
    if (memcmp(got, &t->h, sizeof *got) == 0) return;
    if (got->comm != t->h.comm) nccl_die("a tag of MPI met twice");
    if (got->captured != t->h.captured)
        nccl_die("%s of a graph meets one that is not: capturing is for all members or none",
                 name_of(t->h.kind));
    nccl_die("%s of %llu elements of type %d (reduction %d, number %llu) meets %s of %llu of type "
             "%d (%d, %llu)",
             name_of(t->h.kind), (unsigned long long)t->h.n, t->h.type, t->h.how,
             (unsigned long long)t->h.place, name_of(got->kind), (unsigned long long)got->n,
             got->type, got->how, (unsigned long long)got->place);
}

static void begin_send(const nccl_run *r, transfer *t)
{
    MPI_Issend(t->data, (int)(sizeof(head) + t->bytes), MPI_BYTE, r->op->comm->world[t->peer],
               r->tag, MPI_COMM_WORLD, &t->req);
    t->begun = true;
}

/* In order: only the first receive of a peer looks. */
static void begin_recv(const nccl_run *r, transfer *t)
{
    int there = 0, bytes = 0;
    MPI_Message message;
    MPI_Status status;
    for (const transfer *x = r->t; x < t; x++)
        if (!x->send && x->peer == t->peer && !x->begun) return;
    MPI_Improbe(r->op->comm->world[t->peer], r->tag, MPI_COMM_WORLD, &there, &message, &status);
    if (!there) return;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if ((size_t)bytes != sizeof(head) + t->bytes) {
        char *data = malloc((size_t)bytes + sizeof(head));
        if (!data) nccl_die("no memory");
        MPI_Mrecv(data, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        check_head(t, (const head *)(const void *)data);
        nccl_die("%d bytes came where %zu are expected", bytes, sizeof(head) + t->bytes);
    }
    MPI_Imrecv(t->data, bytes, MPI_BYTE, &message, &t->req);
    t->begun = true;
}

static void work_on(const nccl_run *r, transfer *t)
{
    int done = 0;
    if (!t->begun) {
        if (t->send)
            begin_send(r, t);
        else
            begin_recv(r, t);
    }
    if (!t->begun) return;
    MPI_Test(&t->req, &done, MPI_STATUS_IGNORE);
    if (!done) return;
    t->done = true;
    if (t->send) return;
    check_head(t, (const head *)(const void *)t->data);
    if (t->to && t->bytes) memcpy(t->to, t->data + sizeof(head), t->bytes);
}

/* ---- sums ---- */

static double get(const char *at, size_t i, ncclDataType_t type)
{
    uint16_t half;
    uint32_t bits;
    float f;
    double d;
    if (type == ncclFloat64) {
        memcpy(&d, at + 8 * i, sizeof d);
        return d;
    }
    if (type == ncclFloat32) {
        memcpy(&f, at + 4 * i, sizeof f);
        return f;
    }
    memcpy(&half, at + 2 * i, sizeof half);
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void put(char *at, size_t i, ncclDataType_t type, double v)
{
    const float f = (float)v;
    uint32_t bits;
    if (type == ncclFloat64) {
        memcpy(at + 8 * i, &v, sizeof v);
        return;
    }
    if (type == ncclFloat32) {
        memcpy(at + 4 * i, &f, sizeof f);
        return;
    }
    memcpy(&bits, &f, sizeof bits);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    if (!nan) bits += 0x7fff + (bits >> 16 & 1); /* to the nearest, even */
    const uint16_t half = (uint16_t)(bits >> 16 | (nan ? 0x40 : 0));
    memcpy(at + 2 * i, &half, sizeof half);
}

/* f32 and bf16 are summed in f32, rounded at the end. */
static double combine(double a, double b, const nccl_part *p)
{
    if (p->how == ncclMax) return a > b || isnan(a) ? a : b;
    return p->type == ncclFloat64 ? a + b : (double)((float)a + (float)b);
}

/* Of one's own operand and of what was received, by rank. */
static void reduce(const nccl_run *r, const nccl_part *p, const char *own, char *to)
{
    const ncclComm_t c = r->op->comm;
    const char **of = calloc((size_t)c->n, sizeof *of);
    if (!of) nccl_die("no memory");
    of[c->rank] = own;
    for (int i = 0; i < r->n; i++)
        if (!r->t[i].send && r->t[i].part == p) of[r->t[i].peer] = r->t[i].data + sizeof(head);
    for (size_t i = 0; i < p->n; i++) {
        double v = get(of[0], i, p->type);
        for (int k = 1; k < c->n; k++) v = combine(v, get(of[k], i, p->type), p);
        put(to, i, p->type, v);
    }
    free(of);
}

/* ---- operations ---- */

static void plan_collective(nccl_run *r, const nccl_part *p)
{
    const ncclComm_t c = r->op->comm;
    const size_t each = p->n * nccl_size(p->type);
    if (p->kind == NCCL_AG && p->to + (size_t)c->rank * each != p->from && each)
        memmove(p->to + (size_t)c->rank * each, p->from, each);
    if (p->kind == NCCL_BCAST && c->rank == p->peer && p->to != p->from && each)
        memmove(p->to, p->from, each);
    for (int i = 0; i < c->n; i++) {
        const size_t at = (size_t)i * each;
        if (i == c->rank) continue;
        if (p->kind == NCCL_AG) {
            add_send(r, p, i, p->from, each);
            add_recv(r, p, i, p->to + at, each);
        } else if (p->kind == NCCL_RS) {
            add_send(r, p, i, p->from + at, each);
            add_recv(r, p, i, NULL, each);
        } else if (p->kind == NCCL_AR && c->rank == 0) {
            add_recv(r, p, i, NULL, each);
        } else if (p->kind == NCCL_AR && i == 0) {
            add_send(r, p, i, p->from, each);
            add_recv(r, p, i, p->to, each);
        } else if (p->kind == NCCL_BCAST && c->rank == p->peer) {
            add_send(r, p, i, p->from, each);
        } else if (p->kind == NCCL_BCAST && i == p->peer) {
            add_recv(r, p, i, p->to, each);
        } else if (p->kind == NCCL_REDUCE && c->rank == p->peer) {
            add_recv(r, p, i, NULL, each);
        } else if (p->kind == NCCL_REDUCE && i == p->peer) {
            add_send(r, p, i, p->from, each);
        }
    }
    r->op->comm->collectives++;
}

nccl_run *nccl_run_begin(nccl_op *op)
{
    nccl_run *r = calloc(1, sizeof *r);
    if (!r) nccl_die("no memory");
    nccl_mpi_thread();
    r->op = op;
    r->tag = nccl_tag(op->comm->id * 2);
    for (int32_t i = 0; i < op->n; i++) {
        const nccl_part *p = &op->part[i];
        const size_t bytes = p->n * nccl_size(p->type);
        if (p->kind == NCCL_SEND)
            add_send(r, p, p->peer, p->from, bytes);
        else if (p->kind == NCCL_RECV)
            add_recv(r, p, p->peer, p->to, bytes);
        else
            plan_collective(r, p);
    }
    return r;
}

/* What follows when all has come; true: nothing. */
static bool finish(nccl_run *r)
{
    const nccl_part *p = &r->op->part[0];
    const ncclComm_t c = r->op->comm;
    const size_t each = p->n * nccl_size(p->type);
    for (int32_t i = 0; i < r->op->n; i++)
        if (r->op->part[i].kind == NCCL_REDUCE && r->op->part[i].peer == c->rank)
            reduce(r, &r->op->part[i], r->op->part[i].from, r->op->part[i].to);
    if (p->kind == NCCL_RS) reduce(r, p, p->from + (size_t)c->rank * each, p->to);
    if (p->kind != NCCL_AR || c->rank != 0 || r->reduced) return true;
    r->reduced = true;
    reduce(r, p, p->from, p->to);
    c->collectives--; /* the answer has the number of the question */
    for (int i = 1; i < c->n; i++) add_send(r, p, i, p->to, each);
    c->collectives++;
    return c->n == 1;
}

static void release(nccl_run *r)
{
    for (int i = 0; i < r->n; i++) free(r->t[i].data);
    free(r->t);
    free(r);
}

bool nccl_run_over(nccl_run *r)
{
    bool all = true;
    nccl_mpi_thread();
    for (int i = 0; i < r->n; i++) {
        if (!r->t[i].done) work_on(r, &r->t[i]);
        all &= r->t[i].done;
    }
    if (!all || !finish(r)) return false;
    release(r);
    return true;
}

/* MPI may still read or write the memory of what was begun: it stays. */
void nccl_run_drop(nccl_run *r)
{
    static nccl_run *dropped;
    bool open = false;
    for (int i = 0; i < r->n; i++) open |= r->t[i].begun && !r->t[i].done;
    if (!open) {
        release(r);
        return;
    }
    r->next = dropped;
    dropped = r;
}
