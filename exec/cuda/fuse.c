/* fuse.c: products that add what follows them, as far as memory allows. */
#include "exec/cuda/fuse.h"

#include <stdlib.h>

enum { NEVER = -1, LONGEST = 2 /* followers of a product: bias, add */ };

typedef struct use { /* of a buffer in the segment at hand */
    int32_t seg;     /* whose these are; others are as if never touched */
    int32_t first, last;
    int32_t reads, writes;
    int32_t reader; /* the last instruction that reads it */
} use;

typedef struct fuser {
    luo_arena *arena, *tmp;
    const luo_bound *b;
    const luo_role *role;
    int32_t seg;
    bool *exposed; /* by buffer: some segment reads what another left */
    use *use;      /* by buffer */
    int32_t *touched, ntouched;
    int32_t *done; /* by instruction, see luo_layout_done */
    const gpu_fused **of;
    bool *skip;
    int32_t skipped, refused;
    luo_err *err;
} fuser;

typedef struct chain { /* a product and those that follow it */
    int32_t instr, product;
    int32_t n, follower[LONGEST];
    int32_t bias, plus, result;
} chain;

static luo_status open(fuser *f)
{
    const luo_role *role = f->role;
    f->exposed = LUO_NEW_N(f->tmp, bool, role->nbuf);
    f->use = LUO_NEW_N(f->tmp, use, role->nbuf);
    f->touched = LUO_NEW_N(f->tmp, int32_t, role->nbuf);
    f->done = LUO_NEW_N(f->tmp, int32_t, role->ninstr);
    f->of = LUO_NEW_N(f->arena, const gpu_fused *, role->ninstr);
    f->skip = LUO_NEW_N(f->arena, bool, role->ninstr);
    const bool ok = f->exposed && f->use && f->touched && f->done && f->of && f->skip;
    for (int32_t k = 0; ok && k < role->nbuf; k++) f->use[k].seg = NEVER;
    return ok ? LUO_OK : luo_err_nomem(f->err);
}

/* ---- who touches what in the segment ---- */

static use *touch(fuser *f, int32_t buffer, int32_t i)
{
    use *u = &f->use[buffer];
    if (u->seg != f->seg) {
        *u = (use){.seg = f->seg, .first = i, .last = i, .reader = NEVER};
        f->touched[f->ntouched++] = buffer;
    }
    if (f->done[i] > u->last) u->last = f->done[i];
    return u;
}

static void look(fuser *f)
{
    const luo_segment *segment = &f->role->seg[f->seg];
    f->ntouched = 0;
    for (int32_t i = segment->first; i < segment->first + segment->n; i++) {
        const luo_instr *instr = &f->role->instr[i];
        for (int32_t k = 0; k < instr->nin; k++) {
            use *u = touch(f, instr->in[k], i);
            if (u->writes == 0) f->exposed[instr->in[k]] = true;
            u->reads++;
            u->reader = i;
        }
        for (int32_t k = 0; k < instr->nout; k++) touch(f, instr->out[k], i)->writes++;
    }
}

/* All segments first: a value that another segment reads is no longer between two neighbours. */
static luo_status look_at_all(fuser *f)
{
    for (f->seg = 0; f->seg < f->role->nseg; f->seg++) {
        LUO_TRY(luo_layout_done(f->tmp, f->role, &f->role->seg[f->seg], f->done, f->err));
        look(f);
    }
    return LUO_OK;
}

/* ---- what may follow a product ---- */

static const luo_buffer *desc(const fuser *f, int32_t buffer)
{
    return luo_bound_desc(f->b, buffer);
}

static const luo_product *product_of(const fuser *f, const chain *c)
{
    return &f->b->op[c->instr].product[c->product];
}

/* A value between the product and what follows it, of which nobody else knows. */
static bool is_between(const fuser *f, int32_t buffer)
{
    const use *u = &f->use[buffer];
    return desc(f, buffer)->buffer_class > LUO_BUFFER_OPTIMIZER && !f->exposed[buffer] &&
           u->seg == f->seg && u->writes == 1 && u->reads == 1;
}

/* Type and size of the product's result. */
static bool is_alike(const fuser *f, const luo_product *product, int32_t buffer, int64_t volume)
{
    const luo_buffer *b = desc(f, buffer), *like = desc(f, product->c);
    return b->elem_bytes == like->elem_bytes && luo_bound_volume(b) == volume;
}

/* Nothing more than `result` = `value` + one operand; the result is written here first. */
static bool adds(const fuser *f, const chain *c, int32_t i, int32_t value, bool *bias,
                 int32_t *other)
{
    const luo_instr *instr = &f->role->instr[i];
    const luo_product *product = product_of(f, c);
    const luo_op_kind kind = f->b->op[i].kind;
    if (instr->kind != LUO_INSTR_COMPUTE || instr->nin != 2 || instr->nout != 1) return false;
    if (kind != LUO_OP_BIAS && kind != LUO_OP_ADD) return false;
    if (f->b->op[i].left_out) return false; /* another device adds it */
    *bias = kind == LUO_OP_BIAS;
    if (*bias && instr->in[0] != value) return false;
    *other = instr->in[instr->in[0] == value ? 1 : 0];
    const int32_t y = instr->out[0];
    const use *u = &f->use[y];
    return *other != y && desc(f, y)->buffer_class > LUO_BUFFER_OPTIMIZER && u->first == i &&
           is_alike(f, product, *other, *bias ? product->n : product->m * product->n) &&
           is_alike(f, product, y, product->m * product->n);
}

/* Those that follow, as far as they only add. */
static void follow(const fuser *f, chain *c)
{
    for (int32_t value = product_of(f, c)->c; c->n < LONGEST && is_between(f, value); c->n++) {
        const int32_t i = f->use[value].reader;
        bool bias;
        int32_t other;
        if (!adds(f, c, i, value, &bias, &other)) return;
        if (bias ? c->bias >= 0 || c->plus >= 0 : c->plus >= 0) return; /* first bias, then add */
        *(bias ? &c->bias : &c->plus) = other;
        c->follower[c->n] = i;
        c->result = value = f->role->instr[i].out[0];
    }
}

/* The same without the last follower. */
static void shorten(const fuser *f, chain *c)
{
    const int32_t i = c->follower[--c->n];
    *(f->b->op[i].kind == LUO_OP_BIAS ? &c->bias : &c->plus) = NEVER;
    c->result = c->n ? f->role->instr[c->follower[c->n - 1]].out[0] : product_of(f, c)->c;
}

/* ---- time and place ---- */

/* Written, and its communication waited for, before the product begins; and not written again
 * before it would have been read. */
static bool is_there(const fuser *f, const chain *c, int32_t buffer)
{
    const luo_segment *segment = &f->role->seg[f->seg];
    if (buffer < 0) return true;
    for (int32_t i = segment->first; i < c->follower[c->n - 1]; i++) {
        const luo_instr *instr = &f->role->instr[i];
        for (int32_t k = 0; k < instr->nout; k++)
            if (instr->out[k] == buffer && (i >= c->instr || f->done[i] >= c->instr)) return false;
    }
    return true;
}

static bool is_skipped_value(const fuser *f, const chain *c, int32_t buffer)
{
    bool mine = buffer == product_of(f, c)->c;
    for (int32_t k = 0; k < c->n; k++) mine |= buffer == f->role->instr[c->follower[k]].out[0];
    return mine;
}

/* Do these bytes meet the result, which lives from the product on? */
static bool meets(const fuser *f, const chain *c, int64_t at, int64_t bytes)
{
    const int64_t lo = f->b->layout.at[c->result], hi = lo + desc(f, c->result)->bytes;
    return at < hi && lo < at + bytes;
}

/* Communication scratch of the Reshard that begins with i. */
static bool scratch_meets(const fuser *f, const chain *c, int32_t i)
{
    const luo_instr *instr = &f->role->instr[i];
    if (instr->exchange < 0 || f->b->layout.scratch[i] < 0 || f->b->route[i].first != i)
        return false;
    const luo_route *route = &f->b->route[i];
    int32_t last = i;
    for (int32_t k = route->first; k <= route->last; k++)
        if (f->done[k] > last) last = f->done[k];
    if (last < c->instr || i >= c->follower[c->n - 1]) return false;
    return meets(f, c, f->b->layout.scratch[i],
                 route->scratch_elements * f->b->set->exchanges[instr->exchange].elem_bytes);
}

/* Only work shares memory inside a task: what is kept or has a place of its own meets nobody. */
static bool is_free(const fuser *f, const chain *c)
{
    const luo_layout *layout = &f->b->layout;
    const luo_segment *segment = &f->role->seg[f->seg];
    const int32_t from = c->instr, until = c->follower[c->n - 1];
    if (layout->at[c->result] < layout->own + layout->kept) return true;
    for (int32_t k = 0; k < f->ntouched; k++) {
        const int32_t b = f->touched[k];
        const use *u = &f->use[b];
        if (u->first >= until || u->last < from || is_skipped_value(f, c, b)) continue;
        if (layout->at[b] >= layout->own + layout->kept &&
            meets(f, c, layout->at[b], luo_layout_bytes(f->b->set, f->role, b)))
            return false;
    }
    for (int32_t i = segment->first; i < until; i++)
        if (scratch_meets(f, c, i)) return false;
    return true;
}

/* ---- taking it ---- */

static luo_status take(fuser *f, const chain *c)
{
    const luo_bound_op *op = &f->b->op[c->instr];
    gpu_fused *at = LUO_NEW_N(f->arena, gpu_fused, op->nproducts);
    if (!at) return luo_err_nomem(f->err);
    for (int32_t k = 0; k < op->nproducts; k++)
        at[k] = f->of[c->instr] ? f->of[c->instr][k] : (gpu_fused){op->product[k].c, NEVER, NEVER};
    at[c->product] = (gpu_fused){c->result, c->bias, c->plus};
    f->of[c->instr] = at;
    for (int32_t k = 0; k < c->n; k++) f->skip[c->follower[k]] = true;
    f->skipped += c->n;
    /* From now on these live as the chain has them: those between not at all. */
    const int32_t last = f->use[c->result].last;
    for (int32_t k = 0; k < c->n; k++) f->use[f->role->instr[c->follower[k]].out[0]].seg = NEVER;
    f->use[product_of(f, c)->c].seg = NEVER;
    f->use[c->result].seg = f->seg;
    f->use[c->result].first = c->instr;
    f->use[c->result].last = last;
    return LUO_OK;
}

static luo_status fuse_product(fuser *f, int32_t i, int32_t product)
{
    chain c = {
        .instr = i, .product = product, .bias = NEVER, .plus = NEVER, .result = NEVER, .n = 0};
    const luo_product *p = product_of(f, &c);
    const int64_t elem = desc(f, p->c)->elem_bytes;
    const bool plain = !p->add && p->ldc == p->n && p->m > 0 && p->n > 0 && p->k > 0 &&
                       desc(f, p->a)->elem_bytes == elem && desc(f, p->b)->elem_bytes == elem;
    if (!plain) return LUO_OK;
    follow(f, &c);
    for (; c.n > 0; shorten(f, &c)) {
        if (is_there(f, &c, c.bias) && is_there(f, &c, c.plus) && is_free(f, &c))
            return take(f, &c);
        f->refused++;
    }
    return LUO_OK;
}

static luo_status fuse_segment(fuser *f)
{
    const luo_segment *segment = &f->role->seg[f->seg];
    for (int32_t i = segment->first; i < segment->first + segment->n; i++) {
        const luo_bound_op *op = &f->b->op[i];
        if (op->kind != LUO_OP_MATMUL) continue; /* no sum follows gradients in our graphs */
        for (int32_t k = 0; k < op->nproducts; k++) LUO_TRY(fuse_product(f, i, k));
    }
    return LUO_OK;
}

static luo_status fuse(fuser *f, gpu_fusion *out)
{
    LUO_TRY(open(f));
    LUO_TRY(look_at_all(f));
    for (int32_t k = 0; k < f->role->nbuf; k++) f->use[k].seg = NEVER;
    for (f->seg = 0; f->seg < f->role->nseg; f->seg++) {
        look(f);
        LUO_TRY(fuse_segment(f));
    }
    *out = (gpu_fusion){.of = f->of, .skip = f->skip, .skipped = f->skipped, .refused = f->refused};
    return LUO_OK;
}

luo_status gpu_fuse(luo_arena *arena, const luo_bound *bound, gpu_fusion *out, luo_err *err)
{
    fuser f = {
        .arena = arena, .tmp = luo_arena_new(1 << 16), .b = bound, .role = bound->role, .err = err};
    if (!f.tmp) return luo_err_nomem(err);
    const luo_status st = fuse(&f, out);
    luo_arena_free(f.tmp);
    return st;
}
