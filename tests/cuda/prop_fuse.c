/* prop_fuse.c: fused programs read what the programs as they stand read, in memory that
 * values share (memory_walk.h). And what was refused for the memory's sake: some of it does go
 * wrong when it is fused all the same. */
#include "tests/check_main.h"
#include "tests/cuda/memory_walk.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

static plan_tally plans;
static struct {
    int64_t devices, products, skipped, refused, biases, sums, both, tried, broke;
} met;

static void count(const luo_bound *b, const gpu_fusion *f)
{
    int32_t skipped = 0;
    for (int32_t i = 0; i < b->role->ninstr; i++) {
        skipped += f->skip[i];
        const luo_bound_op *op = &b->op[i];
        met.products += op->nproducts;
        for (int32_t k = 0; f->of[i] && k < op->nproducts; k++) {
            const gpu_fused *at = &f->of[i][k];
            met.biases += at->bias >= 0 && at->plus < 0;
            met.sums += at->bias < 0 && at->plus >= 0;
            met.both += at->bias >= 0 && at->plus >= 0;
        }
    }
    ck_assert_int_eq(skipped, f->skipped);
    met.devices++;
    met.skipped += f->skipped;
    met.refused += f->refused;
}

/* ---- what was refused ---- */

static int32_t readers(const luo_bound *b, int32_t buffer, int32_t *reader)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->role->ninstr; i++)
        for (int32_t k = 0; k < b->role->instr[i].nin; k++)
            if (b->role->instr[i].in[k] == buffer) {
                *reader = i;
                n++;
            }
    return n;
}

/* Fuses what follows product k of instruction i alone, whatever lies where. */
static bool force(luo_arena *a, const luo_bound *b, int32_t i, int32_t k, gpu_fusion *out)
{
    const luo_bound_op *op = &b->op[i];
    int32_t j = -1;
    if (readers(b, op->product[k].c, &j) != 1 || b->seg_of[j] != b->seg_of[i]) return false;
    const luo_instr *x = &b->role->instr[j];
    const bool bias = b->op[j].kind == LUO_OP_BIAS;
    if (!bias && (b->op[j].kind != LUO_OP_ADD || x->nin != 2)) return false;
    const gpu_fused **of = LUO_NEW_N(a, const gpu_fused *, b->role->ninstr);
    bool *skip = LUO_NEW_N(a, bool, b->role->ninstr);
    gpu_fused *at = LUO_NEW_N(a, gpu_fused, op->nproducts);
    const int32_t other = x->in[x->in[0] == op->product[k].c];
    for (int32_t p = 0; p < op->nproducts; p++) at[p] = (gpu_fused){op->product[p].c, -1, -1};
    at[k] = (gpu_fused){x->out[0], bias ? other : -1, bias ? -1 : other};
    of[i] = at;
    skip[j] = true;
    *out = (gpu_fusion){.of = of, .skip = skip, .skipped = 1};
    return true;
}

static void try_refused(luo_arena *a, const luo_bound *b, const gpu_fusion *f, const walker *plain)
{
    int left = 2; /* of a device: a walk each */
    for (int32_t i = 0; i < b->role->ninstr && left; i++) {
        const luo_bound_op *op = &b->op[i];
        if (op->kind != LUO_OP_MATMUL) continue;
        for (int32_t k = 0; k < op->nproducts && left; k++) {
            const size_t mark = luo_arena_mark(a);
            gpu_fusion forced;
            const bool fused = f->of[i] && f->of[i][k].result != op->product[k].c;
            if (!fused && force(a, b, i, k, &forced)) {
                const walker w = walk_step(a, b, &forced);
                met.tried++;
                met.broke += walks_differ(plain, &w) != NULL;
                left--;
            }
            luo_arena_reset(a, mark);
        }
    }
}

/* ---- plans ---- */

static void check_device(luo_arena *a, uint64_t seed, const luo_bound *b)
{
    gpu_fusion f;
    luo_err err = {0};
    ck_assert_msg(gpu_fuse(a, b, &f, &err) == LUO_OK, "%s", err.text);
    const walker plain = walk_step(a, b, NULL), fused = walk_step(a, b, &f);
    const char *wrong = walks_differ(&plain, &plain);
    ck_assert_msg(!wrong, "LUO_SEED=%llu LUO_CASES=1, device %d as it stands: %s",
                  (unsigned long long)seed, b->device, wrong);
    wrong = walks_differ(&plain, &fused);
    ck_assert_msg(!wrong, "LUO_SEED=%llu LUO_CASES=1, device %d fused: %s",
                  (unsigned long long)seed, b->device, wrong);
    count(b, &f);
    try_refused(a, b, &f, &plain);
}

static void one_case(uint64_t seed)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *p = plan_random(a, &r, &plans);
    p->state_layout = (luo_state_layout){0};
    p->dtype = luo_rng_pick(&r, 2) ? LUO_BF16 : LUO_F32;
    luo_model m = luo_test_llama(p->layers, 16, 24, 4, 40);
    if (luo_rng_pick(&r, 2) == 0) m = luo_test_gpt(p->layers, 16, 4, 40);
    if (luo_rng_pick(&r, 2) == 0) m.kv_heads = 1; /* whole on every device of a group */
    m.max_sequence_tokens = 24;
    luo_programs *set = NULL;
    luo_err err = {0};
    if (luo_plan_compile(a, p, &m, NULL, NULL, &set, &err) != LUO_OK)
        ck_abort_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    const luo_recipe recipe = {.plan = p, .sequence_tokens = p->sequence_tokens};
    int32_t *dev = LUO_NEW_N(a, int32_t, set->n);
    for (int32_t i = 0; i < set->n; i++) dev[i] = set->at[i].device;
    for (int32_t k = 0; k < 2; k++) {
        luo_bound b;
        const luo_rank_config c = {.rank = (int32_t)luo_rng_pick(&r, set->n),
                                   .nranks = set->n,
                                   .device_of = dev,
                                   .model = &m,
                                   .dtype = p->dtype};
        ck_assert_msg(luo_bind(a, &c, set, &recipe, &b, &err) == LUO_OK, "%s", err.text);
        check_device(a, seed, &b);
    }
    luo_arena_free(a);
}

enum { CASES = 100 };

START_TEST(programs)
{
    LUO_PROP_FOR(seed, CASES) one_case(seed);
    printf(
        "%lld devices, %lld products: %lld followers skipped (%lld biases, %lld sums, %lld both), "
        "%lld refused; of %lld refused ones fused all the same %lld went "
        "wrong\n",
        (long long)met.devices, (long long)met.products, (long long)met.skipped,
        (long long)met.biases, (long long)met.sums, (long long)met.both, (long long)met.refused,
        (long long)met.tried, (long long)met.broke);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    ck_assert(met.biases > 50 && met.sums > 20 && met.both > 8 && met.broke > 2);
}
END_TEST
LUO_MAIN("cuda.fuse", programs, 1)
