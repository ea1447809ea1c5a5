/* exec/host/products.c: matrix products of the graph as GEMMs on the buffers. */
#include <string.h>

#include "exec/host/ops.h"

/* A weight is stored [out x in] when its letters begin with those of the result. */
static bool out_major(const luo_buffer *w, const luo_buffer *y)
{
    const char *tail = y->letters + 1;
    return strncmp(w->letters, tail, strlen(tail)) == 0;
}

static host_product *products(luo_job *j, host_op *op, int32_t n)
{
    host_product *p = LUO_NEW_N(j->arena, host_product, n);
    op->product = p;
    op->nproducts = n;
    return p;
}

luo_status host_bind_matmul(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    if (i->nin != 1 + i->nout) return host_wrong(j, op, err);
    host_product *p = products(j, op, i->nout);
    if (!p) return luo_err_nomem(err);
    const luo_buffer *x = host_in(j, op, 0);
    for (int32_t k = 0; k < i->nout; k++) {
        const luo_buffer *w = host_in(j, op, 1 + k), *y = host_out(j, op, k);
        const bool tb = out_major(w, y);
        const int64_t n = host_width(y), depth = host_width(x);
        p[k] = (host_product){.a = i->in[0],
                              .b = i->in[1 + k],
                              .c = i->out[k],
                              .tb = tb,
                              .m = x->dim[0],
                              .n = n,
                              .k = depth,
                              .lda = depth,
                              .ldb = tb ? depth : n,
                              .ldc = n};
    }
    return LUO_OK;
}

luo_status host_bind_matmul_dx(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    if (i->nout != 1 || i->nin % 2) return host_wrong(j, op, err);
    host_product *p = products(j, op, i->nin / 2);
    if (!p) return luo_err_nomem(err);
    const luo_buffer *dx = host_out(j, op, 0);
    for (int32_t k = 0; k < i->nin / 2; k++) {
        const luo_buffer *dy = host_in(j, op, 2 * k), *w = host_in(j, op, 2 * k + 1);
        const bool plain = out_major(w, dy);
        const int64_t n = host_width(dx), depth = host_width(dy);
        p[k] = (host_product){.a = i->in[2 * k],
                              .b = i->in[2 * k + 1],
                              .c = i->out[0],
                              .tb = !plain,
                              .add = k > 0,
                              .m = dx->dim[0],
                              .n = n,
                              .k = depth,
                              .lda = depth,
                              .ldb = plain ? n : depth,
                              .ldc = n};
    }
    return LUO_OK;
}

luo_status host_bind_matmul_dw(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    if (i->nin != 1 + i->nout) return host_wrong(j, op, err);
    host_product *p = products(j, op, i->nout);
    if (!p) return luo_err_nomem(err);
    const luo_buffer *x = host_in(j, op, 0);
    for (int32_t k = 0; k < i->nout; k++) {
        const luo_buffer *dy = host_in(j, op, 1 + k), *dw = host_out(j, op, k);
        const bool plain = out_major(dw, dy);
        const int64_t nx = host_width(x), ny = host_width(dy);
        p[k] = (host_product){.a = plain ? i->in[1 + k] : i->in[0],
                              .b = plain ? i->in[0] : i->in[1 + k],
                              .c = i->out[k],
                              .ta = true,
                              .m = plain ? ny : nx,
                              .n = plain ? nx : ny,
                              .k = x->dim[0],
                              .lda = plain ? ny : nx,
                              .ldb = plain ? nx : ny,
                              .ldc = plain ? nx : ny};
    }
    return LUO_OK;
}

void host_run_products(luo_rank *r, const host_op *op, int32_t task)
{
    for (int32_t k = 0; k < op->nproducts; k++) {
        const host_product *p = &op->product[k];
        const bool add = p->add || host_adds(r, p->c);
        char *c = host_buf(r, p->c, task);
        if (p->m == 0 || p->n == 0) continue;
        if (p->k == 0) {
            if (!add) memset(c, 0, (size_t)(p->m * p->n) * r->x->k->elem);
            continue;
        }
        r->x->k->gemm(p->ta, p->tb, p->m, p->n, p->k, host_buf(r, p->a, task), p->lda,
                      host_buf(r, p->b, task), p->ldb, add, c, p->ldc);
    }
}
