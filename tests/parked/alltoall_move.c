/* Index maps of three exchanges. */
#include "tests/parked/alltoall_move.h"

#include <string.h>

static int64_t devices(const luo_alltoall *x)
{
    return (int64_t)x->nodes * x->each;
}

int64_t luo_alltoall_gathered(const luo_alltoall *x, int64_t i)
{
    const int64_t row = i % x->rows, peer = i / x->rows % x->each;
    const int64_t node = i / (x->rows * x->each) % x->nodes, device = i / (x->rows * devices(x));
    return ((node * x->each + peer) * x->each + device) * x->rows + row;
}

int64_t luo_alltoall_dealt(const luo_alltoall *x, int64_t i)
{
    const int64_t row = i % x->rows, device = i / x->rows % x->each;
    const int64_t peer = i / (x->rows * x->each) % x->each;
    const int64_t node = i / (x->rows * x->each * x->each);
    return ((peer * x->nodes + node) * x->each + device) * x->rows + row;
}

static void copy_block(const luo_alltoall *x, const int64_t *in, int64_t from, int64_t *out,
                       int64_t to)
{
    memcpy(out + to * x->rows, in + from * x->rows, (size_t)x->rows * sizeof *in);
}

static void move_flat(const luo_alltoall *x, const int64_t *in, int64_t *out)
{
    const int64_t n = devices(x);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) copy_block(x, in, i * n + j, out, j * n + i);
}

/* Blocks of nodes: every leader sends G * G blocks to every other. */
static void move_leader(const luo_alltoall *x, const int64_t *in, int64_t *out, int64_t *work)
{
    const int64_t node = devices(x) * x->each * x->rows; /* rows of a node */
    const luo_alltoall among = {x->nodes, 1, (int64_t)x->each * x->each * x->rows};
    for (int64_t i = 0; i < x->nodes * node; i++)
        out[i / node * node + luo_alltoall_gathered(x, i % node)] = in[i];
    move_flat(&among, out, work);
    for (int64_t i = 0; i < x->nodes * node; i++)
        out[i / node * node + luo_alltoall_dealt(x, i % node)] = work[i];
}

/* First to the device of the own node that has the receiver's index: its blocks are by (receiving
 * node, sender of this node). */
static void move_2d(const luo_alltoall *x, const int64_t *in, int64_t *out, int64_t *work)
{
    const int64_t n = devices(x), G = x->each;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            copy_block(x, in, i * n + j, work, (i / G * G + j % G) * n + j / G * G + i % G);
    for (int64_t i = 0; i < n; i++)
        for (int64_t b = 0; b < n; b++)
            copy_block(x, work, i * n + b, out, (b / G * G + i % G) * n + i / G * G + b % G);
}

void luo_alltoall_move(const luo_alltoall *x, luo_alltoall_kind kind, const int64_t *in,
                       int64_t *out, int64_t *work)
{
    switch (kind) {
    case LUO_ALLTOALL_FLAT:
        move_flat(x, in, out);
        return;
    case LUO_ALLTOALL_LEADER:
        move_leader(x, in, out, work);
        return;
    case LUO_ALLTOALL_2D:
        move_2d(x, in, out, work);
        return;
    }
}
