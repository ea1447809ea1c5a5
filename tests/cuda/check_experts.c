/* check_experts.c: kernels of layers with experts (exec/cuda/moe) against the host's in f64:
 * choices by every gate, capacity, rows by expert and together again, gradients, losses, biases
 * that learn. Bounds: gpu_case_check; what is counted or chosen is equal. */
#include "exec/cuda/moe/moe.h"
#include "tests/cuda/kernel_case.h"

#define AT(i) k->a[i]->at
#define X(i) k->a[i]->x

typedef struct drawn { /* what a case asks: t tokens of k->t, gate for the host and the device */
    luo_gate gate;
    gpu_gate asked;
    double *work, *pads;
    unsigned char *pad;
    gpu_case_array *pad_there;
} drawn;
static drawn d;

/* Any gate that looks at one token. */
static void draw_gate(kase *k)
{
    static const luo_gate_kind kinds[] = {LUO_GATE_TOPK, LUO_GATE_KTOP1, LUO_GATE_SAM,
                                          LUO_GATE_SIGMOID};
    const luo_gate_kind kind = kinds[gpu_case_draw(&k->c, 0, 3)];
    const int32_t groups = (int32_t)gpu_case_draw(&k->c, 1, 4);
    const int32_t each = (int32_t)(gpu_case_draw(&k->c, 0, 5) ? gpu_case_draw(&k->c, 1, 12)
                                                              : gpu_case_draw(&k->c, 60, 100));
    const int32_t experts = groups * each;
    luo_gate g = {.kind = kind, .experts = experts, .renorm = k->flag};
    const int32_t most = kind == LUO_GATE_SAM ? each : experts;
    g.k = (int32_t)gpu_case_draw(&k->c, 1, most < 40 ? most : 40);
    if (kind == LUO_GATE_KTOP1) g.k = groups;
    const bool keeps = kind == LUO_GATE_SIGMOID || kind == LUO_GATE_TOPK;
    if (kind == LUO_GATE_SAM || keeps) g.groups = groups;
    if (keeps && k->add) g.scale = 2.5;
    if (keeps && k->flag) {
        g.groups_kept = (int32_t)gpu_case_draw(&k->c, 1, groups);
        if (g.k > each * g.groups_kept) g.k = each * g.groups_kept;
    }
    luo_err err = {0};
    ck_assert_msg(luo_gate_check(&g, &err) == LUO_OK, "%s", err.text);
    d = (drawn){.gate = g};
    d.asked = gpu_gate_of(&g);
    k->t = kase_rows(k, experts, 300);
    d.work = kase_room(k, 5 * experts + 64 + g.k, NULL);
}

static void draw_pads(kase *k)
{
    int32_t *pad = calloc((size_t)k->t + 1, sizeof *pad);
    d.pads = kase_room(k, k->t / 8 + 1, NULL);
    d.pad = (unsigned char *)d.pads;
    ck_assert_ptr_nonnull(pad);
    for (int64_t i = 0; i < k->t; i++) {
        pad[i] = gpu_case_draw(&k->c, 0, 3) == 0;
        d.pad[i] = (unsigned char)pad[i];
    }
    d.pad_there = gpu_case_bytes(&k->c, k->t * (int64_t)sizeof *pad, pad);
    free(pad);
}

/* ---- choices ---- */

static cudaError_t route_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_route(s, k->t, &d.asked, AT(0), k->a[1] ? AT(1) : NULL, AT(2), AT(3), AT(4));
}
/* Scores that are equal, now and then; but not sums of groups, which differ in their last bits. */
static void route_run(kase *k)
{
    draw_gate(k);
    const int64_t n = d.gate.experts;
    k->a[0] = kase_f32(k, k->t * n, 2);
    k->a[1] = d.gate.kind == LUO_GATE_SIGMOID && gpu_case_coin(&k->c) ? kase_f32(k, n, 1) : NULL;
    for (int64_t i = 0; i < k->t * n && !k->a[1] && d.gate.kind != LUO_GATE_SAM && k->add; i++)
        gpu_case_set(k->a[0], i, rint(X(0)[i]));
    d.gate.bias = k->a[1] ? X(1) : NULL;
    for (int i = 2; i < 4; i++) k->a[i] = gpu_case_out(&k->c, GPU_F32, k->t * d.gate.k, false);
    k->a[4] = gpu_case_out(&k->c, GPU_F32, k->t * n, false);
    gpu_case_run(&k->c, route_call, k);
    double *weights = kase_room(k, k->t * d.gate.k, NULL), *p = kase_room(k, k->t * n, NULL);
    double *ids = kase_room(k, k->t * d.gate.k, NULL);
    twin->route(k->t, &d.gate, X(0), NULL, weights, ids, p, NULL, d.work);
    gpu_case_check(&k->c, k->a[2], weights, NULL, 2);
    gpu_case_exact(&k->c, k->a[3], ids);
    gpu_case_check(&k->c, k->a[4], p, NULL, 2);
}

static cudaError_t hash_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_route_hash(s, k->t, d.gate.experts, k->ids->at, AT(0));
}
static void hash_run(kase *k)
{
    draw_gate(k);
    d.gate.kind = LUO_GATE_HASH, d.gate.k = 1;
    k->t = gpu_case_draw(&k->c, 0, 700);
    k->ids = kase_ids(k, 0, 130000);
    k->a[0] = gpu_case_out(&k->c, GPU_F32, k->t, false);
    gpu_case_run(&k->c, hash_call, k);
    double *ids = kase_room(k, k->t, NULL);
    twin->route_hash(k->t, &d.gate, kase_ints(k->ids), ids, d.work);
    gpu_case_exact(&k->c, k->a[0], ids);
}

static cudaError_t dealt_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_route_dealt(s, k->t, d.gate.experts, k->ids->at, AT(0), AT(1), AT(2), AT(3));
}
static void dealt_run(kase *k)
{
    draw_gate(k);
    const int64_t n = d.gate.experts;
    int32_t *dealt = calloc((size_t)k->t + 1, sizeof *dealt);
    ck_assert_ptr_nonnull(dealt);
    for (int64_t i = 0; i < k->t; i++) dealt[i] = (int32_t)gpu_case_draw(&k->c, -1, n - 1);
    k->ids = gpu_case_bytes(&k->c, k->t * (int64_t)sizeof *dealt, dealt);
    k->a[0] = kase_f32(k, k->t * n, 2);
    for (int i = 1; i < 3; i++) k->a[i] = gpu_case_out(&k->c, GPU_F32, k->t, false);
    k->a[3] = gpu_case_out(&k->c, GPU_F32, k->t * n, false);
    gpu_case_run(&k->c, dealt_call, k);
    double *weights = kase_room(k, k->t, NULL), *ids = kase_room(k, k->t, NULL);
    double *p = kase_room(k, k->t * n, NULL);
    twin->route_dealt(k->t, (int32_t)n, dealt, X(0), weights, ids, p);
    gpu_case_check(&k->c, k->a[1], weights, NULL, 2);
    gpu_case_exact(&k->c, k->a[2], ids);
    gpu_case_check(&k->c, k->a[3], p, NULL, 2);
    free(dealt);
}

/* ---- choices as the host makes them, for what follows ---- */

typedef struct choices {
    double *logits, *weights, *ids, *p, *load;
} choices;

static choices choose(kase *k, bool capacity)
{
    const int64_t n = d.gate.experts, c = k->t * d.gate.k;
    choices x = {kase_room(k, k->t * n, NULL), kase_room(k, c, NULL), kase_room(k, c, NULL),
                 kase_room(k, k->t * n, NULL), kase_room(k, n, NULL)};
    for (int64_t i = 0; i < k->t * n; i++)
        x.logits[i] = (double)(float)(2 * luo_rng_normal(&k->c.rng));
    if (capacity) d.gate.capacity_factor = 0.3 + 0.3 * (double)gpu_case_draw(&k->c, 0, 4);
    twin->route(k->t, &d.gate, x.logits, d.pad, x.weights, x.ids, x.p, x.load, d.work);
    return x;
}

static gpu_case_array *f32_of(kase *k, int64_t n, const double *x)
{
    gpu_case_array *a = kase_f32(k, n, 1);
    for (int64_t i = 0; i < n; i++) gpu_case_set(a, i, x[i]);
    return a;
}

static gpu_case_array *kept_of(kase *k, int64_t n, const double *x)
{
    gpu_case_array *a = gpu_case_out(&k->c, GPU_F32, n, true);
    for (int64_t i = 0; i < n; i++) gpu_case_set(a, i, x[i]);
    return a;
}

static cudaError_t count_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_count_choices(s, k->t, d.gate.k, d.gate.experts, AT(0),
                             k->flag ? d.pad_there->at : NULL, AT(1));
}
static void count_run(kase *k)
{
    draw_gate(k);
    draw_pads(k);
    if (!k->flag) memset(d.pad, 0, (size_t)k->t);
    const choices x = choose(k, false);
    k->a[0] = f32_of(k, k->t * d.gate.k, x.ids);
    k->a[1] = gpu_case_out(&k->c, GPU_F32, d.gate.experts, false);
    gpu_case_run(&k->c, count_call, k);
    gpu_case_exact(&k->c, k->a[1], x.load);
}

static int64_t dropped_so_far;
static cudaError_t drop_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_drop(s, k->t, d.gate.k, d.gate.experts, luo_gate_capacity(&d.gate, k->t),
                    k->flag ? AT(0) : NULL, AT(1));
}
/* The same choices before and after. */
static void drop_run(kase *k)
{
    draw_gate(k);
    const luo_rng rng = k->c.rng;
    const choices all = choose(k, false);
    k->c.rng = rng;
    const choices left = choose(k, true);
    const int64_t n = k->t * d.gate.k;
    k->a[0] = kept_of(k, n, all.weights), k->a[1] = kept_of(k, n, all.ids);
    gpu_case_run(&k->c, drop_call, k);
    gpu_case_exact(&k->c, k->a[1], left.ids);
    double *want = kase_room(k, n, X(0));
    for (int64_t i = 0; i < n; i++) {
        dropped_so_far += left.ids[i] < 0;
        if (k->flag && left.ids[i] < 0) want[i] = 0;
    }
    gpu_case_exact(&k->c, k->a[0], want);
}

/* ---- gradients, losses ---- */

static cudaError_t route_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_route_dx(s, k->t, &d.asked, AT(0), AT(1), AT(2), AT(3), d.pad_there->at,
                        k->a[4] ? AT(4) : NULL, (float)k->eps, AT(5));
}
static int64_t divided_and_dropped; /* choices */
static void route_dx_run(kase *k)
{
    draw_gate(k);
    draw_pads(k);
    const bool capacity = d.gate.kind != LUO_GATE_SAM && gpu_case_coin(&k->c);
    const choices x = choose(k, capacity);
    const int64_t n = d.gate.experts, c = k->t * d.gate.k;
    k->eps = k->add ? 0 : k->eps;
    k->eps = (double)(float)k->eps;
    k->a[0] = kase_f32(k, c, 1);
    k->a[1] = f32_of(k, c, x.weights), k->a[2] = f32_of(k, c, x.ids);
    k->a[3] = f32_of(k, k->t * n, x.p);
    k->a[4] = d.gate.kind == LUO_GATE_SAM || k->flag ? NULL : f32_of(k, n, x.load);
    k->a[5] = gpu_case_out(&k->c, GPU_F32, k->t * n, false);
    gpu_case_run(&k->c, route_dx_call, k);
    double *want = kase_room(k, k->t * n, NULL);
    twin->route_dx(k->t, &d.gate, X(0), X(1), X(2), X(3), d.pad, k->a[4] ? X(4) : NULL, k->eps,
                   want);
    /* terms: of a weight's gradient all of its token's, times how much larger than the probability
     * it is; of a load one, of alignment one for every expert */
    double *mass = kase_room(k, k->t * n, NULL);
    for (int64_t i = 0; i < k->t; i++) {
        double sum = k->eps * (double)n + 1e-6, chosen = 0;
        for (int64_t j = i * d.gate.k; j < (i + 1) * d.gate.k; j++) {
            const double id = X(2)[j];
            sum += 2 * fabs(X(0)[j]);
            chosen += X(3)[i * n + (int64_t)(id < 0 ? -1 - id : id)];
        }
        const double ratio = fmax(1, d.asked.scale / (d.asked.divides ? chosen : 1));
        for (int64_t e = 0; e < n; e++)
            mass[i * n + e] = ratio * (sum + (k->a[4] ? k->eps * (double)k->t : 0));
    }
    gpu_case_check(&k->c, k->a[5], want, mass, 16);
    for (int64_t i = 0; i < c && d.asked.divides; i++) divided_and_dropped += X(2)[i] < 0;
}

static cudaError_t balance_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_balance(s, k->t, &d.asked, AT(0), AT(1), d.pad_there->at, k->a[2] ? AT(2) : NULL,
                       k->eps, k->order->at, k->work->at);
}
static void balance_run(kase *k)
{
    const double first = 3.25;
    double got;
    draw_gate(k);
    draw_pads(k);
    const choices x = choose(k, false);
    const int64_t n = d.gate.experts;
    k->a[0] = f32_of(k, k->t * d.gate.k, x.ids), k->a[1] = f32_of(k, k->t * n, x.p);
    k->a[2] = d.gate.kind == LUO_GATE_SAM ? NULL : f32_of(k, n, x.load);
    k->order = gpu_case_bytes_out(&k->c, sizeof first, &first);
    k->work = gpu_case_work(&k->c, GPU_BALANCE_PARTS * sizeof(double));
    gpu_case_run(&k->c, balance_call, k);
    memcpy(&got, k->order->raw, sizeof got);
    const double want =
        first + k->eps * twin->balance(k->t, &d.gate, X(0), X(1), d.pad, k->a[2] ? X(2) : NULL);
    ck_assert_msg(fabs(got - want) <= 1e-12 * fabs(want), "balance seed %llu: %.17g, not %.17g",
                  (unsigned long long)k->c.seed, got, want);
}

/* ---- tokens and rows: h wide ---- */

static choices draw_rows(kase *k)
{
    draw_gate(k);
    k->h = kase_width(k, 1);
    const int64_t most = 60000 / (k->h * d.gate.k + 1);
    if (k->t > most) k->t = most;
    return choose(k, d.gate.kind != LUO_GATE_SAM && gpu_case_coin(&k->c));
}

/* As the kernel of places has it, which has a case of its own. */
static int64_t draw_places(kase *k, const double *ids)
{
    const int64_t n = k->t * d.gate.k;
    int32_t *at = calloc((size_t)n + 1, sizeof *at), row = 0;
    ck_assert_ptr_nonnull(at);
    for (int64_t i = 0; i < n; i++) at[i] = -1;
    for (int32_t e = 0; e < d.gate.experts; e++)
        for (int64_t i = 0; i < n; i++)
            if (ids[i] == e) at[i] = row++;
    k->order = gpu_case_bytes(&k->c, n * (int64_t)sizeof *at, at);
    free(at);
    return row;
}

static cudaError_t places_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_places(s, k->t, d.gate.k, d.gate.experts, AT(0), k->ids->at, k->flag ? AT(1) : NULL);
}
static void places_run(kase *k)
{
    draw_gate(k);
    if (gpu_case_coin(&k->c)) k->t /= 2;
    const choices x = choose(k, d.gate.kind != LUO_GATE_SAM && k->add);
    const int64_t n = k->t * d.gate.k;
    int32_t *none = calloc((size_t)n + 1, sizeof *none);
    ck_assert_ptr_nonnull(none);
    (void)draw_places(k, x.ids);
    k->a[0] = f32_of(k, n, x.ids);
    k->a[1] = gpu_case_out(&k->c, GPU_F32, k->flag ? d.gate.experts : 0, false);
    k->ids = gpu_case_bytes_out(&k->c, n * (int64_t)sizeof *none, none);
    free(none);
    gpu_case_run(&k->c, places_call, k);
    ck_assert_msg(memcmp(k->ids->raw, k->order->raw, (size_t)n * sizeof(int32_t)) == 0,
                  "places seed %llu", (unsigned long long)k->c.seed);
    double *counts = kase_room(k, d.gate.experts, NULL);
    for (int64_t i = 0; i < n; i++)
        if (x.ids[i] >= 0) counts[(int64_t)x.ids[i]]++;
    if (k->flag) gpu_case_exact(&k->c, k->a[1], counts);
}

static cudaError_t pack_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_pack(s, k->t, k->h, d.gate.k, k->order->at, gpu_case_arg(k->a[0]),
                    gpu_case_arg(k->a[1]));
}
static void pack_run(kase *k)
{
    const choices x = draw_rows(k);
    const int64_t rows = draw_places(k, x.ids);
    k->a[0] = kase_in(k, k->t * k->h, 1), k->a[1] = kase_out(k, rows * k->h, false);
    gpu_case_run(&k->c, pack_call, k);
    double *want = kase_room(k, rows * k->h, NULL), *counts = kase_room(k, d.gate.experts, NULL);
    twin->pack(k->t, k->h, d.gate.experts, d.gate.k, X(0), x.ids, want, counts, d.work);
    gpu_case_check(&k->c, k->a[1], want, NULL, 0);
}

static cudaError_t combine_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_combine(s, k->t, k->h, d.gate.k, k->order->at, k->flag ? AT(0) : NULL,
                       gpu_case_arg(k->a[1]), gpu_case_arg(k->a[2]));
}
static void combine_run(kase *k)
{
    const choices x = draw_rows(k);
    const int64_t rows = draw_places(k, x.ids);
    k->a[0] = f32_of(k, k->t * d.gate.k, x.weights);
    k->a[1] = kase_in(k, rows * k->h, 1), k->a[2] = kase_out(k, k->t * k->h, false);
    gpu_case_run(&k->c, combine_call, k);
    double *want = kase_room(k, k->t * k->h, NULL), *mass = kase_room(k, k->t * k->h, NULL);
    const double *abs = kase_mass(k, rows * k->h, X(1)), *w = k->flag ? X(0) : NULL;
    twin->combine(k->t, k->h, d.gate.experts, d.gate.k, X(1), x.ids, w, want, d.work);
    twin->combine(k->t, k->h, d.gate.experts, d.gate.k, abs, x.ids, w, mass, d.work);
    gpu_case_check(&k->c, k->a[2], want, mass, (double)d.gate.k + 1);
}

static cudaError_t combine_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_combine_dx(s, k->t, k->h, d.gate.k, k->order->at, k->flag ? AT(0) : NULL,
                          gpu_case_arg(k->a[1]), gpu_case_arg(k->a[2]), gpu_case_arg(k->a[3]),
                          k->flag ? AT(4) : NULL);
}
static void combine_dx_run(kase *k)
{
    const choices x = draw_rows(k);
    const int64_t rows = draw_places(k, x.ids), c = k->t * d.gate.k;
    k->a[0] = f32_of(k, c, x.weights);
    k->a[1] = kase_in(k, k->t * k->h, 1), k->a[2] = kase_in(k, rows * k->h, 1);
    k->a[3] = kase_out(k, rows * k->h, false);
    k->a[4] = gpu_case_out(&k->c, GPU_F32, k->flag ? c : 0, false);
    gpu_case_run(&k->c, combine_dx_call, k);
    double *drows = kase_room(k, rows * k->h, NULL), *dw = kase_room(k, c, NULL);
    double *mass = kase_room(k, c, NULL), *unused = kase_room(k, rows * k->h, NULL);
    twin->combine_dx(k->t, k->h, d.gate.experts, d.gate.k, X(1), x.ids, k->flag ? X(0) : NULL,
                     k->flag ? X(2) : NULL, drows, k->flag ? dw : NULL, d.work);
    gpu_case_check(&k->c, k->a[3], drows, NULL, 1);
    if (!k->flag) return;
    twin->combine_dx(k->t, k->h, d.gate.experts, d.gate.k, kase_mass(k, k->t * k->h, X(1)), x.ids,
                     X(0), kase_mass(k, rows * k->h, X(2)), unused, mass, d.work);
    gpu_case_check(&k->c, k->a[4], dw, mass, 4 + (double)k->h / 32);
}

/* ---- shared experts ---- */

static cudaError_t token_gate_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_token_gate(s, k->t, k->h, AT(0), gpu_case_arg(k->a[1]), gpu_case_arg(k->a[2]));
}
static void token_gate_run(kase *k)
{
    const int64_t n = k->t * k->h;
    k->a[0] = kase_f32(k, k->t, 3), k->a[1] = kase_in(k, n, 1), k->a[2] = kase_out(k, n, false);
    gpu_case_run(&k->c, token_gate_call, k);
    double *want = kase_room(k, n, NULL);
    twin->token_gate(k->t, k->h, X(0), X(1), want);
    gpu_case_check(&k->c, k->a[2], want, kase_mass(k, n, want), 8);
}

static cudaError_t token_gate_dx_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_token_gate_dx(s, k->t, k->h, gpu_case_arg(k->a[0]), AT(1), gpu_case_arg(k->a[2]),
                             AT(3), gpu_case_arg(k->a[4]));
}
static void token_gate_dx_run(kase *k)
{
    const int64_t n = k->t * k->h;
    k->a[0] = kase_in(k, n, 1), k->a[1] = kase_f32(k, k->t, 3), k->a[2] = kase_in(k, n, 1);
    k->a[3] = gpu_case_out(&k->c, GPU_F32, k->t, false), k->a[4] = kase_out(k, n, false);
    gpu_case_run(&k->c, token_gate_dx_call, k);
    double *dx = kase_room(k, n, NULL), *dlogits = kase_room(k, k->t, NULL);
    double *unused = kase_room(k, n, NULL), *mass = kase_room(k, k->t, NULL);
    twin->token_gate_dx(k->t, k->h, X(0), X(1), X(2), dlogits, dx);
    gpu_case_check(&k->c, k->a[4], dx, kase_mass(k, n, dx), 8);
    twin->token_gate_dx(k->t, k->h, kase_mass(k, n, X(0)), X(1), kase_mass(k, n, X(2)), mass,
                        unused);
    gpu_case_check(&k->c, k->a[3], dlogits, mass, 12 + (double)k->h / 32);
}

/* ---- biases that learn ---- */

static cudaError_t bias_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_move_bias(s, 2, k->order->at, k->eps, AT(4), k->block->at);
}
/* Counts around their mean, and at it; steps that update, that drain and that are not finite. */
static void bias_run(kase *k)
{
    const gpu_step_block block = {.most_squares = 1e30};
    const double squares[] = {0, 7, -INFINITY, 1e30, (double)NAN};
    gpu_counted piece[2];
    k->block = gpu_case_bytes(&k->c, sizeof block, &block);
    for (int i = 0; i < 2; i++) {
        const int64_t n = gpu_case_draw(&k->c, 1, i ? 600 : 20);
        k->a[i] = kase_f32(k, n, 1), k->a[2 + i] = gpu_case_out(&k->c, GPU_F32, n, true);
        for (int64_t e = 0; e < n; e++)
            gpu_case_set(k->a[i], e, (double)gpu_case_draw(&k->c, 0, k->flag ? 4 : 0));
        piece[i] = (gpu_counted){AT(i), AT(2 + i), n};
    }
    k->a[4] = kase_f32(k, 1, 1);
    const int64_t what = gpu_case_draw(&k->c, 0, 4);
    gpu_case_set(k->a[4], 0, squares[what]);
    k->order = gpu_case_bytes(&k->c, sizeof piece, piece);
    gpu_case_run(&k->c, bias_call, k);
    for (int i = 0; i < 2; i++) {
        double sum = 0, *want = kase_room(k, k->a[i]->n, X(2 + i));
        for (int64_t e = 0; e < k->a[i]->n; e++) sum += X(i)[e];
        for (int64_t e = 0; e < k->a[i]->n && what < 2; e++) {
            const double more = sum / (double)k->a[i]->n - X(i)[e];
            want[e] = (double)(float)(want[e] + k->eps * ((more > 0) - (more < 0)));
        }
        gpu_case_exact(&k->c, k->a[2 + i], want);
    }
}

#define ROW(name, cases)                                                                           \
    {                                                                                              \
#name, name##_run, cases                                                                   \
    }
static const kernel_row rows[] = {
    ROW(route, 120),     ROW(hash, 20),          ROW(dealt, 30),    ROW(count, 40),
    ROW(drop, 60),       ROW(bias, 30),          ROW(route_dx, 80), ROW(balance, 40),
    ROW(places, 60),     ROW(pack, 40),          ROW(combine, 60),  ROW(combine_dx, 60),
    ROW(token_gate, 40), ROW(token_gate_dx, 60),
};
START_TEST(kernel_is_its_twin)
{
    dropped_so_far = divided_and_dropped = 0;
    LUO_PROP_FOR(seed, rows[_i].cases) kase_run(&rows[_i], seed);
    if (rows[_i].run == drop_run) ck_assert_int_gt(dropped_so_far, 100);
    if (rows[_i].run == route_dx_run) ck_assert_int_gt(divided_and_dropped, 100);
}
END_TEST

/* Logits that are no numbers: as many different experts as were asked for, whatever they are. */
START_TEST(choices_of_nan_are_experts)
{
    for (int turn = 0; turn < 12; turn++) {
        static kase k;
        memset(&k, 0, sizeof k);
        gpu_case_begin(&k.c, "nan", 1 + (uint64_t)turn);
        k.flag = turn % 2, k.add = turn % 3 == 0;
        draw_gate(&k);
        k.t = 3;
        const int64_t n = d.gate.experts;
        k.a[0] = kase_f32(&k, k.t * n, 2), k.a[1] = NULL;
        for (int64_t i = 0; i < 2 * n; i++)
            if (i < n || i % 3) gpu_case_set(k.a[0], i, (double)NAN);
        for (int i = 2; i < 4; i++) k.a[i] = gpu_case_out(&k.c, GPU_F32, k.t * d.gate.k, false);
        k.a[4] = gpu_case_out(&k.c, GPU_F32, k.t * n, false);
        gpu_case_run(&k.c, route_call, &k);
        for (int64_t i = 0; i < k.t * d.gate.k; i++) {
            const double id = k.a[3]->got[i];
            ck_assert_msg(id >= 0 && id < (double)n && id == floor(id), "an expert is %g", id);
            for (int64_t j = i / d.gate.k * d.gate.k; j < i; j++)
                ck_assert_msg(k.a[3]->got[j] != id, "expert %g is chosen twice", id);
        }
        for (int32_t i = 0; i < k.nrooms; i++) free(k.room[i]);
        gpu_case_end(&k.c);
    }
}
END_TEST

LUO_SUITE("cuda.experts", LUO_T_N(kernel_is_its_twin, LUO_ROWS(rows)),
          LUO_T(choices_of_nan_are_experts))
