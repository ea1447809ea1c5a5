/* bench_products.c: TFLOP/s of the products of a model's step, each as the executor runs
 * it (fused, added to gradients in f32), over what a large product reaches on the same device.
 *
 *   bench_products MODEL.yaml MICRO_BATCH_TOKENS [f32|bf16]
 * One row per different product of a block and of the head; the name is that of the first operation
 * it stands in, with the number of times that a micro-batch runs it. The last row is all of them.
 */
#include <assert.h>

#include "core/io/read/read.h"
#include "exec/cuda/fuse.h"
#include "tests/gpu/bench_gpu.h"
#include "tests/plan_make.h"

enum { MOST = 256 };

typedef struct entry {
    gpu_product what;
    const gpu_product_plan *plan; /* equal products have the same */
    const char *name;
    int64_t times;
} entry;

typedef struct bench {
    luo_arena *arena;
    const luo_bound *b;
    gpu_blas *blas;
    gpu_fusion fusion;
    int64_t layers; /* of the model; the program has one */
    entry at[MOST];
    int n;
} bench;

static luo_model *read_model(luo_arena *a, const char *path)
{
    luo_model *m = NULL;
    luo_diags diags;
    luo_diags_init(&diags, a);
    const luo_status st = luo_read_model(a, path, &m, &diags);
    gpu_bench_done(st, diags.first ? &diags.first->err : NULL);
    return m;
}

/* A program of one block on one device. */
static luo_bound *bind(luo_arena *a, luo_model *m, int64_t tokens, luo_dtype dtype)
{
    static const int32_t device = 0;
    luo_err err = {0};
    luo_programs *set = NULL;
    luo_bound *b = LUO_NEW(a, luo_bound);
    luo_recipe *recipe = LUO_NEW(a, luo_recipe);
    luo_rank_config *c = LUO_NEW(a, luo_rank_config);
    luo_plan *p = luo_test_plan(a, "2: [0]*1");
    if (!b || !recipe || !c) exit(1);
    p->dtype = dtype;
    p->sequence_tokens = tokens;
    m->layers = 1;
    if (m->max_sequence_tokens < tokens) m->max_sequence_tokens = tokens;
    gpu_bench_done(luo_plan_compile(a, p, m, NULL, NULL, &set, &err), &err);
    *recipe = (luo_recipe){.plan = p, .sequence_tokens = tokens};
    *c = (luo_rank_config){.nranks = 1, .device_of = &device, .model = m, .dtype = dtype};
    gpu_bench_done(luo_bind(a, c, set, recipe, b, &err), &err);
    return b;
}

/* ---- the list ---- */

static gpu_type type_of(const bench *x, int32_t buffer)
{
    return gpu_type_of(luo_bound_desc(x->b, buffer)->elem_bytes);
}

static gpu_product product_of(const bench *x, int32_t instr, int32_t k)
{
    const luo_product *p = &x->b->op[instr].product[k];
    const gpu_fused *f = x->fusion.of[instr] ? &x->fusion.of[instr][k] : NULL;
    const bool grad = luo_bound_desc(x->b, p->c)->buffer_class == LUO_BUFFER_GRADIENT;
    gpu_product q =
        gpu_product_of(p, p->add || grad, type_of(x, p->a), type_of(x, f ? f->result : p->c));
    q.has_bias = f && f->bias >= 0;
    q.has_plus = f && f->plus >= 0;
    return q;
}

static void add(bench *x, const gpu_product *p, const char *name, int64_t times)
{
    int i = 0;
    luo_err err = {0};
    gpu_product_plan *plan = NULL;
    gpu_bench_done(gpu_product_find(x->blas, p, &plan, &err), &err);
    while (i < x->n && x->at[i].plan != plan) i++;
    assert(i < MOST);
    if (i == x->n) x->at[x->n++] = (entry){.what = *p, .plan = plan, .name = name};
    x->at[i].times += times;
}

static void list(bench *x)
{
    const luo_role *r = x->b->role;
    for (int32_t i = 0; i < r->ninstr; i++)
        for (int32_t k = 0; k < x->b->op[i].nproducts; k++) {
            const gpu_product p = product_of(x, i, k);
            const bool block = r->instr[i].layer >= 0;
            add(x, &p, x->b->set->ops[r->instr[i].op].name, block ? x->layers : 1);
        }
}

/* ---- the rows ---- */

static double flop_of(const gpu_product *p)
{
    return 2 * (double)p->m * (double)p->n * (double)p->k;
}

static double measure(const bench *x, const entry *e, cudaStream_t stream, double ceiling)
{
    char shape[160];
    const gpu_product *p = &e->what;
    snprintf(shape, sizeof shape, "m=%lld n=%lld k=%lld%s%s%s%s%s out=%s times=%lld",
             (long long)p->m, (long long)p->n, (long long)p->k, p->ta ? " ta" : "",
             p->tb ? " tb" : "", p->add ? " add" : "", p->has_bias ? " bias" : "",
             p->has_plus ? " plus" : "", gpu_bench_type(p->out), (long long)e->times);
    const double s = gpu_bench_product_time(x->blas, p, stream);
    gpu_bench_row(e->name, shape, p->in, s, 0, flop_of(p), ceiling);
    return s;
}

static void run(const bench *x, gpu_type type, cudaStream_t stream)
{
    const double ceiling = gpu_bench_product_rate(x->blas, type, stream);
    double s = 0, flop = 0;
    puts(GPU_BENCH_HEADER);
    for (int i = 0; i < x->n; i++) {
        s += (double)x->at[i].times * measure(x, &x->at[i], stream, ceiling);
        flop += (double)x->at[i].times * flop_of(&x->at[i].what);
    }
    gpu_bench_row("all", "of a micro-batch", type, s, 0, flop, ceiling);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_products MODEL.yaml MICRO_BATCH_TOKENS [f32|bf16]\n");
        return 2;
    }
    const bool f32 = argc > 3 && strcmp(argv[3], "f32") == 0;
    bench x = {.arena = luo_arena_new(1 << 20)};
    luo_err err = {0};
    gpu_facts facts;
    if (!x.arena) return 1;
    const cudaStream_t stream = gpu_bench_open(&facts);
    gpu_bench_done(gpu_blas_open(&x.blas, &err), &err);
    luo_model *m = read_model(x.arena, argv[1]);
    x.layers = m->layers;
    x.b = bind(x.arena, m, strtoll(argv[2], NULL, 10), f32 ? LUO_F32 : LUO_BF16);
    gpu_bench_done(gpu_fuse(x.arena, x.b, &x.fusion, &err), &err);
    list(&x);
    run(&x, f32 ? GPU_F32 : GPU_BF16, stream);
    gpu_blas_close(x.blas);
    gpu_bench_ok(cudaStreamDestroy(stream), "a stream");
    luo_arena_free(x.arena);
    return 0;
}
