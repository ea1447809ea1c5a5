/* warp.c: what lanes of a warp do together, and copies that go on by themselves. */
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "engine.h"

void standin_fault(const char *what) __attribute__((noreturn));

enum { SYNC = 1, SHUFFLE, BALLOT, LDMATRIX, LDMATRIX_TRANS, MMA };

/* ---- shuffles ---- */

void standin_syncwarp(uint32_t mask)
{
    standin_meet(mask, SYNC, &mask, NULL);
}

typedef struct shuffle {
    uint64_t in, out;
    int from;
} shuffle;

static void shuffle_all(void *const lane[STANDIN_WARP])
{
    for (int i = 0; i < STANDIN_WARP; i++) {
        shuffle *me = lane[i];
        if (!me) continue;
        const shuffle *other = lane[me->from & 31];
        me->out = other ? other->in : UINT64_MAX; /* undefined: poison */
    }
}
uint64_t standin_shuffle(uint32_t mask, uint64_t bits, int from)
{
    shuffle me = {.in = bits, .from = from};
    standin_meet(mask, SHUFFLE, &me, shuffle_all);
    return me.out;
}

typedef struct ballot {
    int yes;
    uint32_t all;
} ballot;

static void ballot_all(void *const lane[STANDIN_WARP])
{
    uint32_t all = 0;
    for (int i = 0; i < STANDIN_WARP; i++)
        if (lane[i] && ((ballot *)lane[i])->yes) all |= UINT32_C(1) << i;
    for (int i = 0; i < STANDIN_WARP; i++)
        if (lane[i]) ((ballot *)lane[i])->all = all;
}
uint32_t standin_ballot(uint32_t mask, int yes)
{
    ballot me = {.yes = yes};
    standin_meet(mask, BALLOT, &me, ballot_all);
    return me.all;
}

/* ---- tensor cores; fragments: exec/cuda/kernels/device.cuh ---- */

static void whole(void *const lane[STANDIN_WARP])
{
    for (int i = 0; i < STANDIN_WARP; i++)
        if (!lane[i]) standin_fault("mma or ldmatrix without all 32 lanes");
}

typedef struct ldmatrix {
    uint32_t *r;
    const unsigned char *row;
} ldmatrix;

static void load_matrices(void *const lane[STANDIN_WARP], int transposed)
{
    whole(lane);
    uint16_t m[4][8][8];
    for (int i = 0; i < STANDIN_WARP; i++) {
        const ldmatrix *l = lane[i];
        if ((uintptr_t)l->row % 16) standin_fault("ldmatrix of a row that is not 16-byte aligned");
        memcpy(m[i / 8][i % 8], l->row, 16);
    }
    for (int i = 0; i < STANDIN_WARP; i++) {
        const int r = i / 4, c = 2 * (i % 4);
        for (int j = 0; j < 4; j++) {
            const uint32_t lo = transposed ? m[j][c][r] : m[j][r][c];
            const uint32_t hi = transposed ? m[j][c + 1][r] : m[j][r][c + 1];
            ((ldmatrix *)lane[i])->r[j] = lo | hi << 16;
        }
    }
}
static void load_plain(void *const lane[STANDIN_WARP])
{
    load_matrices(lane, 0);
}
static void load_transposed(void *const lane[STANDIN_WARP])
{
    load_matrices(lane, 1);
}
void standin_ldmatrix(uint32_t *r, const void *row, int transposed)
{
    ldmatrix me = {.r = r, .row = row};
    standin_meet(UINT32_MAX, transposed ? LDMATRIX_TRANS : LDMATRIX, &me,
                 transposed ? load_transposed : load_plain);
}

typedef struct mma {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
} mma;

static void unpack(uint32_t both, float *lo, float *hi)
{
    const uint32_t l = both << 16, h = both & 0xffff0000u;
    memcpy(lo, &l, sizeof l);
    memcpy(hi, &h, sizeof h);
}
static void multiply(void *const lane[STANDIN_WARP])
{
    whole(lane);
    float a[16][16], b[16][8];
    for (int i = 0; i < STANDIN_WARP; i++) {
        const mma *l = lane[i];
        const int r = i / 4, c = 2 * (i % 4);
        unpack(l->a[0], &a[r][c], &a[r][c + 1]);
        unpack(l->a[1], &a[r + 8][c], &a[r + 8][c + 1]);
        unpack(l->a[2], &a[r][c + 8], &a[r][c + 9]);
        unpack(l->a[3], &a[r + 8][c + 8], &a[r + 8][c + 9]);
        unpack(l->b[0], &b[c][r], &b[c + 1][r]);
        unpack(l->b[1], &b[c + 8][r], &b[c + 9][r]);
    }
    float sum[16][8] = {{0}};
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 16; k++)
            for (int c = 0; c < 8; c++) sum[r][c] += a[r][k] * b[k][c];
    for (int i = 0; i < STANDIN_WARP; i++) {
        const mma *l = lane[i];
        const int r = i / 4, c = 2 * (i % 4);
        l->c[0] += sum[r][c];
        l->c[1] += sum[r][c + 1];
        l->c[2] += sum[r + 8][c];
        l->c[3] += sum[r + 8][c + 1];
    }
}
void standin_mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    mma me = {.c = c, .a = a, .b = {b0, b1}};
    standin_meet(UINT32_MAX, MMA, &me, multiply);
}

/* ---- cp.async: what comes is poison until its thread has waited for it ---- */

typedef struct copy {
    void *to;
    const void *from; /* NULL: zeroes */
    int group;
} copy;
static struct {
    copy *at;
    int n, room, group;
} copies[STANDIN_THREADS];
static int touched; /* threads 0..touched-1 have issued copies in this block */

void standin_copies_reset(void)
{
    for (int i = 0; i < touched; i++) copies[i].n = copies[i].group = 0;
    touched = 0;
}
void standin_copy_async(void *shared, const void *global, int valid)
{
    const int t = standin_thread();
    if ((uintptr_t)shared % 16 || (valid && (uintptr_t)global % 16))
        standin_fault("cp.async of something that is not 16-byte aligned");
    if (t >= touched) touched = t + 1;
    if (copies[t].n == copies[t].room) {
        copies[t].room += 64;
        copies[t].at = realloc(copies[t].at, (size_t)copies[t].room * sizeof *copies[t].at);
        if (!copies[t].at) standin_fault("no memory for the copies under way");
    }
    memset(shared, 0xff, 16);
    copies[t].at[copies[t].n++] = (copy){shared, valid ? global : NULL, copies[t].group};
}
void standin_copy_async_commit(void)
{
    const int t = standin_thread();
    if (t >= touched) touched = t + 1;
    copies[t].group++;
}
void standin_copy_async_wait(int groups)
{
    const int t = standin_thread();
    int kept = 0;
    for (int i = 0; i < copies[t].n; i++) {
        const copy c = copies[t].at[i];
        if (c.group >= copies[t].group - groups) {
            copies[t].at[kept++] = c;
        } else if (c.from) {
            memcpy(c.to, c.from, 16);
        } else {
            memset(c.to, 0, 16);
        }
    }
    copies[t].n = kept;
}
