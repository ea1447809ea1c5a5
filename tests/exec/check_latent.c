/* check_latent.c: latent attention by the kernels of host: the vector V-L1, forward and backward,
 * all heads on one device and each on a device of its own. */
#include <math.h>

#include "exec/bind/kernels.h"
#include "tests/check_main.h"

enum { T = 4, H = 4, HEADS = 2, QL = 3, KVL = 2, NOPE = 2, ROPE = 2, D = NOPE + ROPE, V = 2 };
static const double eps = 1e-6;
static const luo_kernels *const k = &luo_kernels_f64;

typedef struct layer {
    double q_a[QL * H], q_b[HEADS * D * QL], kv_a[KVL * H], shared[ROPE * H];
    double k_b[HEADS * NOPE * KVL], v_b[HEADS * V * KVL], o[H * HEADS * V];
    double x[T * H], dy[T * H];
} layer;

typedef struct pass { /* of heads lo..lo+n-1; what latent vectors get from them */
    double y[T * H], dx[T * H], dshared[ROPE * H];
    double dql[T * QL], dkvl[T * KVL], ds[T * ROPE];
} pass;

static double weight(int m, int i)
{
    return cos((m + 1.0) * (i + 1)) / 2;
}

static void fill(double *w, int m, int n)
{
    for (int i = 0; i < n; i++) w[i] = weight(m, i);
}

/* Rows of kv_a: the latent vector, then the shared part; of kv_b by head: key, then value. */
static layer make(void)
{
    layer l;
    double kv_a[(KVL + ROPE) * H], kv_b[HEADS * (NOPE + V) * KVL];
    fill(l.q_a, 0, QL * H);
    fill(l.q_b, 1, HEADS * D * QL);
    fill(kv_a, 2, (KVL + ROPE) * H);
    fill(kv_b, 3, HEADS * (NOPE + V) * KVL);
    fill(l.o, 4, H * HEADS * V);
    memcpy(l.kv_a, kv_a, sizeof l.kv_a);
    memcpy(l.shared, kv_a + KVL * H, sizeof l.shared);
    for (int n = 0; n < HEADS; n++) {
        const double *from = kv_b + n * (NOPE + V) * KVL;
        memcpy(l.k_b + n * NOPE * KVL, from, NOPE * KVL * sizeof *from);
        memcpy(l.v_b + n * V * KVL, from + NOPE * KVL, V * KVL * sizeof *from);
    }
    for (int i = 0; i < T * H; i++) l.x[i] = sin(i + 1.0), l.dy[i] = cos(2.0 * i + 1);
    return l;
}

/* y [T x n] of x [T x d] and w [n x d]; the gradient of x; of w. */
static void times(const double *x, const double *w, int64_t d, int64_t n, double *y)
{
    k->gemm(false, true, T, n, d, x, d, w, d, false, y, n);
}

static void back(const double *dy, const double *w, int64_t d, int64_t n, bool add, double *dx)
{
    k->gemm(false, false, T, d, n, dy, n, w, d, add, dx, d);
}

typedef struct latents {
    double ql[T * QL], qn[T * QL], kvl[T * KVL], kvn[T * KVL], s[T * ROPE];
} latents;

static const double ones[4] = {1, 1, 1, 1};

static latents down(const layer *l)
{
    latents a;
    times(l->x, l->q_a, H, QL, a.ql);
    times(l->x, l->kv_a, H, KVL, a.kvl);
    times(l->x, l->shared, H, ROPE, a.s);
    k->norm(T, QL, eps, 0, a.ql, ones, NULL, a.qn);
    k->norm(T, KVL, eps, 0, a.kvl, ones, NULL, a.kvn);
    return a;
}

static void up(const layer *l, const latents *a, int lo, int n, pass *p)
{
    static const int32_t kv_of[HEADS] = {0, 1}, positions[T] = {0, 1, 2, 3}, start[2] = {0, T};
    const luo_heads heads = {n, n, D, kv_of, true, V, 0, 0, 0};
    const luo_documents docs = {1, start};
    double q[T * HEADS * D], kn[T * HEADS * NOPE], v[T * HEADS * V], yq[T * HEADS * D];
    double yk[T * HEADS * D], o[T * HEADS * V], rows[T * HEADS], od[H * HEADS * V];
    double dout[T * HEADS * V], dq[T * HEADS * D], dk[T * HEADS * D], dv[T * HEADS * V];
    double work[4096];
    ck_assert(k->attention_work(T, &heads, &docs, true) <= sizeof work);
    for (int h = 0; h < H; h++) /* the columns of these heads */
        memcpy(od + h * n * V, l->o + h * HEADS * V + lo * V, (size_t)(n * V) * sizeof *od);
    times(a->qn, l->q_b + lo * D * QL, QL, n * D, q);
    times(a->kvn, l->k_b + lo * NOPE * KVL, KVL, n * NOPE, kn);
    times(a->kvn, l->v_b + lo * V * KVL, KVL, n * V, v);
    k->latent(T, n, D, ROPE, (luo_turns){.base = 10000}, positions, q, kn, a->s, yq, yk);
    k->attention(T, &heads, &docs, yq, yk, v, o, rows, work);
    times(o, od, n * V, H, p->y);
    back(l->dy, od, n * V, H, false, dout);
    k->attention_dx(T, &heads, &docs, dout, o, rows, yq, yk, v, dq, dk, dv, work);
    k->latent_dx(T, n, D, ROPE, (luo_turns){.base = 10000}, positions, dq, dk, q, kn, p->ds);
    back(q, l->q_b + lo * D * QL, QL, n * D, false, p->dql);
    back(kn, l->k_b + lo * NOPE * KVL, KVL, n * NOPE, false, p->dkvl);
    back(dv, l->v_b + lo * V * KVL, KVL, n * V, true, p->dkvl);
    k->gemm(true, false, ROPE, H, T, p->ds, ROPE, l->x, H, false, p->dshared, H);
}

static void down_dx(const layer *l, const latents *a, pass *p)
{
    double d[T * H];
    k->norm_dx(T, QL, eps, 0, false, p->dql, a->ql, ones, d);
    back(d, l->q_a, H, QL, false, p->dx);
    k->norm_dx(T, KVL, eps, 0, false, p->dkvl, a->kvl, ones, d);
    back(d, l->kv_a, H, KVL, true, p->dx);
    back(p->ds, l->shared, H, ROPE, true, p->dx);
}

static void near(double a, double b)
{
    ck_assert_msg(fabs(a - b) < 1e-12, "%.15f, not %.15f", a, b);
}

START_TEST(vector)
{
    static const double y[H] = {.009618112058, -.090800163641, -.083725948041, .022466048633};
    const layer l = make();
    const latents a = down(&l);
    pass all, part[HEADS];
    up(&l, &a, 0, HEADS, &all);
    down_dx(&l, &a, &all);
    for (int i = 0; i < H; i++) near(all.y[3 * H + i], y[i]);
    near(all.dx[0], -.060886000996);
    near(all.dshared[0], .083909027332);
    for (int n = 0; n < HEADS; n++) up(&l, &a, n, 1, &part[n]);
    near(part[0].dshared[0], .053465161316);
    near(part[1].dshared[0], .030443866016);
    for (int i = 0; i < T * H; i++) near(part[0].y[i] + part[1].y[i], all.y[i]);
    for (int i = 0; i < T * KVL; i++) near(part[0].dkvl[i] + part[1].dkvl[i], all.dkvl[i]);
}
END_TEST

/* A pack may begin within a document, so that no token stands at position 0. */
START_TEST(turned_by_position)
{
    static const int32_t positions[T] = {5, 6, 0, 1};
    double q[T * HEADS * D], kn[T * HEADS * NOPE], s[T * ROPE];
    double yq[T * HEADS * D], yk[T * HEADS * D];
    fill(q, 1, T * HEADS * D);
    fill(kn, 2, T * HEADS * NOPE);
    fill(s, 3, T * ROPE);
    k->latent(T, HEADS, D, ROPE, (luo_turns){.base = 10000}, positions, q, kn, s, yq, yk);
    for (int i = 0; i < T * HEADS; i++) { /* one pair: its frequency is 1 */
        const double c = cos(positions[i / HEADS]), n = sin(positions[i / HEADS]);
        const double *from = q + i * D + NOPE, *own = s + i / HEADS * ROPE;
        near(yq[i * D], q[i * D]);
        near(yq[i * D + NOPE], from[0] * c - from[1] * n);
        near(yq[i * D + NOPE + 1], from[1] * c + from[0] * n);
        near(yk[i * D + 1], kn[i * NOPE + 1]);
        near(yk[i * D + NOPE], own[0] * c - own[1] * n);
        near(yk[i * D + NOPE + 1], own[1] * c + own[0] * n);
    }
}
END_TEST

LUO_SUITE("exec.latent", LUO_T(vector), LUO_T(turned_by_position))
