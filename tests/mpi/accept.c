/* tests/mpi/accept.c: any plan trains like one device (the numerical acceptance). Run by
 * `mpirun -n 8`: every plan below, and random ones, do 3 steps; loss, norm of the gradients,
 * weights and both moments of every copy on every rank are compared with a plan of one device. The
 * first moment after one step is the gradient but for a factor. */
#include "core/base/hash.h"
#include "tests/exec_fixture.h"
#include "tests/prop/prop.h"

enum { STEPS = 3, TOKENS = 16 };

typedef enum kind { LLAMA, GROUPED, GPT, QKNORM, KINDS } kind;

typedef struct row {
    const char *line;
    kind model;
    int zero, sp, full; /* full: recompute */
    int64_t tokens[8];  /* of the micro-batches of pipeline 0; 0: all alike */
    bool gpipe;
} row;

/* Single rows first, then the 14 published shapes (hspmd.md 19.7) scaled to 8 devices. */
static const row rows[] = {
    {"2: [0]*2", LLAMA, 0, 0, 0, {0}, 0},
    {"2: [0]*2", GPT, 0, 0, 0, {0}, 0},
    {"2: [0,1]*2", LLAMA, 0, 0, 0, {0}, 0},
    {"2: [0,1]*2", LLAMA, 0, 1, 0, {0}, 0},
    {"2: [0,1]*2", GPT, 0, 0, 0, {0}, 0},
    {"2: [0,1]*2", GPT, 0, 1, 0, {0}, 0},
    {"2: [0-3]*2", GROUPED, 0, 0, 0, {0}, 0},
    {"2: [0-3]*2", GROUPED, 0, 1, 0, {0}, 0},
    {"2: [0,1]*2", QKNORM, 0, 1, 0, {0}, 0},
    {"1: [0,1]:(3,1)*2", LLAMA, 0, 0, 0, {0}, 0},
    {"2: [0,1]:(3,1)*2", LLAMA, 0, 1, 0, {0}, 0},
    {"2: [0,1]:(1,3)*2", GPT, 0, 1, 0, {0}, 0},
    {"2: [0-2]:(2,1,1)*2", LLAMA, 1, 1, 0, {0}, 0},
    {"4: [0]*1 [1]*3", LLAMA, 0, 0, 0, {0}, 0},
    {"4: [0]*3 [1]*1", LLAMA, 0, 0, 1, {0}, 0},
    {"3: [0]*1 [1]*2 [2]*1", GPT, 0, 0, 0, {0}, 1},
    {"4: [0]*1 [1]*1 [2]*1 [3]*1", LLAMA, 0, 0, 0, {0}, 1},
    {"4: [0]*1+1 [1]*1+1", LLAMA, 0, 0, 0, {0}, 0},
    {"4: [0,1]*1+1 [2,3]*1+1", GPT, 0, 1, 0, {0}, 0},
    {"2: [0]*2 || 2: [1]*2", LLAMA, 0, 0, 0, {0}, 0},
    {"2: [0]*2 || 2: [1]*2", LLAMA, 1, 0, 0, {0}, 0},
    {"3: [0]*2 || 1: [1]*2", LLAMA, 1, 0, 1, {0}, 0},
    {"2: [0]*2 || 2: [1]*2 || 1: [2]*2", GPT, 1, 0, 0, {0}, 0},
    {"2: [0,1]*2 || 2: [2,3]*2", LLAMA, 1, 1, 0, {0}, 0},
    {"2: [0,1]*2 || 1: [2]*2", LLAMA, 0, 0, 0, {0}, 0},
    {"2: [0,1]*2 || 1: [2]*2", LLAMA, 1, 1, 0, {0}, 0},
    {"2: [0,1]:(3,1)*2 || 1: [2,3]*2", LLAMA, 0, 0, 0, {0}, 0},
    {"2: [0,1]:(3,1)*2 || 1: [2,3]*2", LLAMA, 1, 1, 0, {0}, 0},
    {"2: [0-3]*2 || 2: [4,5]*2", GROUPED, 1, 1, 0, {0}, 0},
    {"3: [0]*2", LLAMA, 0, 0, 0, {16, 32, 8}, 0},
    {"3: [0]*1 [1]*1", LLAMA, 0, 0, 0, {16, 32, 8}, 0},
    {"3: [0,1]*1 [2]*1 || 2: [3]*2", LLAMA, 1, 1, 1, {32, 16, 48}, 0},
    {"4: [0-3]*2 [4-7]*2", LLAMA, 0, 1, 0, {0}, 0},
    {"3: [0,1]*1 [2,3]*3 || 5: [4,5]*3 [6,7]*1", LLAMA, 0, 1, 0, {0}, 0},
    {"3: [0,1]*2 [2,3]*2 || 3: [4]*1 [5]*1 [6]*1 [7]*1", LLAMA, 0, 1, 0, {0}, 0},
    {"4: [0-3]*3 [4,5]*1 || 2: [6]*2 [7]*2", GROUPED, 0, 1, 0, {0}, 0},
    {"3: [0,1]*2 [2]*2 || 4: [3,4]*1 [5]*3", LLAMA, 0, 1, 1, {0}, 0},
    {"3: [0-3]*4 || 2: [4,5]*2 [6]*2", LLAMA, 1, 1, 0, {0}, 0},
    {"2: [0]*4 || 2: [1]*4 || 3: [2,3]*4", LLAMA, 0, 1, 0, {0}, 0},
    {"2: [0,1]*4 || 2: [2,3]*1 [4,5]*3 || 1: [6]*2 [7]*2", LLAMA, 1, 1, 0, {0}, 0},
    {"2: [0]*2 [1]*1 [2]*1 || 2: [3,4]*2 [5,6]*2", GPT, 0, 1, 0, {0}, 0},
    {"4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", LLAMA, 1, 1, 0, {0}, 0},
    {"5: [0,1]:(3,1)*3 [2]*1 || 2: [3-5]:(2,1,1)*2 [6,7]*2", LLAMA, 1, 1, 0, {0}, 0},
    {"2: [0-3]:(1,1,1,1)*1 [4,5]:(3,1)*3", LLAMA, 0, 0, 1, {0}, 0},
    {"4: [0]*4 || 2: [1,2]*2 [3]*2 || 2: [4-7]*4", LLAMA, 0, 0, 0, {0}, 0},
    {"4: [0]*4 || 2: [1,2]*2 [3]*2 || 2: [4-7]*4", GPT, 1, 0, 1, {0}, 0},
};

static luo_model model_of(kind k, int32_t layers)
{
    luo_model m =
        k == GPT ? luo_test_gpt(layers, 32, 4, 64) : luo_test_llama(layers, 32, 48, 4, 64);
    if (k == GROUPED) {
        m.heads = 8;
        m.kv_heads = 2;
        m.head_dim = 4;
    }
    m.qk_norm = k == QKNORM;
    m.max_sequence_tokens = 64;
    return m;
}

static luo_plan *plan_of(luo_arena *a, const row *r, luo_dtype dtype)
{
    luo_plan *p = luo_test_plan(a, r->line);
    luo_pipeline *pipes = (luo_pipeline *)p->pipelines;
    p->dtype = dtype;
    p->zero = r->zero;
    p->sequence_parallel = r->sp;
    p->sequence_tokens = TOKENS;
    if (r->gpipe) p->schedule = LUO_SCHED_GPIPE;
    if (r->tokens[0]) pipes[0].micro_batch_tokens = r->tokens;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < pipes[i].nstages; s++)
            ((luo_stage *)pipes[i].stages)[s].recompute =
                r->full ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
    return p;
}

/* One device, the same micro-batches in the same order. */
static luo_plan *alone(luo_arena *a, const luo_plan *p)
{
    char line[64];
    int32_t n = 0;
    for (int32_t i = 0; i < p->npipelines; i++) n += p->pipelines[i].micro_batches;
    snprintf(line, sizeof line, "%d: [0]*%d", n, p->layers);
    luo_plan *q = luo_test_plan(a, line);
    int64_t *tokens = LUO_NEW_N(a, int64_t, n);
    int32_t at = 0;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t m = 0; m < p->pipelines[i].micro_batches; m++)
            tokens[at++] = p->pipelines[i].micro_batch_tokens
                               ? p->pipelines[i].micro_batch_tokens[m]
                               : p->sequence_tokens;
    ((luo_pipeline *)q->pipelines)[0].micro_batch_tokens = tokens;
    q->sequence_tokens = p->sequence_tokens;
    q->dtype = p->dtype;
    q->sequence_parallel = false;
    return q;
}

/* ---- comparing ---- */

typedef struct curve {
    double loss[STEPS], norm[STEPS];
} curve;

static void train(luo_lab *lab, luo_trial *t, curve *c, int64_t first, int n)
{
    for (int i = 0; i < n; i++) {
        const luo_step_report r = luo_lab_step(t, first + i);
        double mine[3] = {r.has_loss ? 1 : 0, r.has_loss ? r.loss : 0, r.grad_norm}, all[3];
        const luo_err e = {.text = "a step was not finished"};
        if (r.status != LUO_OK) luo_lab_die(r.text, &e);
        MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        c->loss[i] = all[1];
        c->norm[i] = all[2];
    }
    (void)lab;
}

/* All of the single device's state on every rank: per parameter weight, m, v. */
static double *spread(luo_arena *a, const luo_lab *lab, const luo_trial *t, int64_t *count)
{
    const luo_state *s = luo_host_executor.state(t->job);
    int64_t n = 0, at = 0;
    for (int32_t i = 0; i < s->n; i++) {
        int64_t v = 1;
        for (int32_t d = 0; d < s->at[i].param->shape.rank; d++) v *= s->at[i].param->shape.dim[d];
        n += v;
    }
    double *all = LUO_NEW_N(a, double, 3 * n);
    for (int32_t i = 0; lab->rank == 0 && i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        const void *from[3] = {p->weight, p->m, p->v};
        for (int k = 0; k < 3; k++)
            for (int64_t c = 0; c < p->weight_frame.volume; c++)
                all[at++] = luo_real_at(from[k], s->elem, c);
    }
    MPI_Bcast(all, (int)(3 * n), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    *count = n;
    return all;
}

static void whole_frame(luo_arena *a, const luo_shape *shape, luo_frame *f)
{
    luo_span *s = LUO_NEW_N(a, luo_span, shape->rank);
    f->region = (luo_region){.rank = shape->rank};
    f->volume = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        s[d] = (luo_span){0, shape->dim[d]};
        f->region.dim[d].n = 1;
        f->region.dim[d].at = &s[d];
        f->volume *= shape->dim[d];
    }
}

static int64_t *cells_of(luo_arena *a, const luo_frame *f, const luo_region *r)
{
    luo_strips s;
    luo_err err = {0};
    if (luo_frame_strips(a, f, r, &s, &err) != LUO_OK) luo_lab_die("strips", &err);
    int64_t *out = LUO_NEW_N(a, int64_t, s.elements), n = 0;
    for (int32_t i = 0; i < s.n; i++)
        for (int64_t k = 0; k < s.at[i].n; k++) out[n++] = s.at[i].at + k;
    return out;
}

typedef struct worst {
    double error;
    char name[96];
} worst;

/* Adding one vector to all keys changes no softmax: the gradient of the keys' bias is 0 but for
 * rounding, and AdamW makes steps of full size of that rounding. It is only looked at to be small.
 */
static bool is_rounding(const luo_param *p)
{
    const size_t n = strlen(p->name), m = strlen("attn.k.bias");
    return n >= m && strcmp(p->name + n - m, "attn.k.bias") == 0;
}

/* Largest difference relative to the largest value of the tensor. */
static void compare_piece(luo_arena *a, const luo_state *s, const luo_piece *p, const double *ref,
                          worst *w)
{
    static const char *const kinds[] = {"weight", "m", "v"};
    if (is_rounding(p->param)) {
        for (int64_t c = 0; c < p->state_frame.volume; c++)
            if (!(fabs(luo_real_at(p->m, s->elem, c)) < (s->elem == 4 ? 1e-6 : 1e-14)))
                *w = (worst){INFINITY, "m of a bias of keys"};
        return;
    }
    const size_t mark = luo_arena_mark(a);
    luo_frame whole;
    whole_frame(a, &p->param->shape, &whole);
    const int64_t n = luo_region_volume(&p->piece);
    const int64_t *at = cells_of(a, &whole, &p->piece);
    const int64_t *in_weight = cells_of(a, &p->weight_frame, &p->piece);
    const int64_t *in_state = cells_of(a, &p->state_frame, &p->piece);
    for (int k = 0; k < 3; k++) {
        double most = 1e-300;
        for (int64_t c = 0; c < whole.volume; c++)
            most = fmax(most, fabs(ref[k * whole.volume + c]));
        for (int64_t c = 0; c < n; c++) {
            const double x = k == 0 ? luo_real_at(p->weight, s->elem, in_weight[c])
                                    : luo_real_at(k == 1 ? p->m : p->v, s->elem, in_state[c]);
            const double e = fabs(x - ref[k * whole.volume + at[c]]) / most;
            if (!(e > w->error) && !isnan(e)) continue;
            w->error = isnan(e) ? INFINITY : e;
            snprintf(w->name, sizeof w->name, "%s of %s", kinds[k], p->param->name);
        }
    }
    luo_arena_reset(a, mark);
}

static worst compare(luo_arena *a, const luo_trial *t, const double *ref)
{
    worst w = {0, ""};
    const luo_state *s = luo_host_executor.state(t->job);
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        int64_t v = 1;
        for (int32_t d = 0; d < p->param->shape.rank; d++) v *= p->param->shape.dim[d];
        if (!p->piece.empty) compare_piece(a, s, p, ref, &w);
        ref += 3 * v;
    }
    return w;
}

static double far(double a, double b)
{
    return fabs(a - b) / fmax(fabs(b), 1e-12);
}

/* Agrees on the worst of all ranks; prints and counts a failure. */
static bool judge(const luo_lab *lab, const char *what, const char *line, worst w, double bound)
{
    struct {
        double error;
        int rank;
    } mine = {w.error, lab->rank}, most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Bcast(w.name, sizeof w.name, MPI_CHAR, most.rank, MPI_COMM_WORLD);
    const bool good = most.error <= bound;
    if (!good && lab->rank == 0)
        printf("FAIL %s: `%s`: %s differs by %.3g on rank %d (bound %g)\n", what, line, w.name,
               most.error, most.rank, bound);
    fflush(stdout);
    return good;
}

static double bound_of(luo_dtype d)
{
    return d == LUO_F64 ? 1e-10 : 1e-4;
}

static bool run_row(luo_lab *lab, const row *r, luo_dtype dtype)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *plan = plan_of(a, r, dtype), *one = alone(a, plan);
    const luo_model model = model_of(r->model, plan->layers);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial many = luo_lab_bind(a, lab, x, plan, &model);
    luo_trial single = luo_lab_bind(a, lab, x, one, &model);
    curve c, ref;
    int64_t n;
    luo_state_init(luo_host_executor.state(many.job), &model, 7);
    luo_state_init(luo_host_executor.state(single.job), &model, 7);
    train(lab, &single, &ref, 0, STEPS);
    train(lab, &many, &c, 0, STEPS);
    const double *state = spread(a, lab, &single, &n);
    worst w = compare(a, &many, state);
    for (int i = 0; i < STEPS; i++) {
        const double e = fmax(far(c.loss[i], ref.loss[i]), far(c.norm[i], ref.norm[i]));
        if (e <= w.error) continue;
        w.error = e;
        snprintf(w.name, sizeof w.name, "loss %.9g (%.9g) or norm %.9g (%.9g) of step %d",
                 c.loss[i], ref.loss[i], c.norm[i], ref.norm[i], i);
    }
    const bool good = judge(lab, dtype == LUO_F64 ? "f64" : "f32", r->line, w, bound_of(dtype));
    luo_host_executor.unbind(many.job);
    luo_host_executor.unbind(single.job);
    luo_host_executor.close(x);
    luo_arena_free(a);
    return good;
}

/* ---- switches in mid-training ---- */

typedef struct pair_row { /* both take 6 micro-batches of TOKENS a step */
    const char *a, *b;
    kind model;
    int zero_a, zero_b;
} pair_row;
static const pair_row switches[] = {
    {"6: [0]*2", "3: [0,1]*2 || 3: [2]*2", LLAMA, 0, 0},
    {"6: [0,1]:(3,1)*2", "6: [0]*1 [1]*1", LLAMA, 0, 1},
    {"4: [0,1]*1 [2,3]*3 || 2: [4]*4", "2: [5,6]*4 || 2: [0-3]*2 [4]*2 || 2: [7]*4", LLAMA, 1, 1},
    {"3: [0-3]*4 || 3: [4-7]*4", "3: [0,1]*2 [2,3]*2 || 3: [4,5]*3 [6,7]*1", GROUPED, 1, 0},
    {"6: [0]*2 [1]*2", "4: [2,3]*4 || 2: [0]*4", GPT, 0, 1},
    {"3: [0]*4 || 3: [1,2]*4", "6: [3-6]*4", GPT, 1, 1},
};

static luo_trial change(luo_arena *a, luo_lab *lab, luo_trial *from, const luo_plan *to,
                        const luo_model *model)
{
    luo_err err = {0};
    luo_switching what;
    luo_step_report r = {0};
    luo_trial t = luo_lab_bind(a, lab, from->x, to, model);
    const luo_recipe recipe = {
        .plan = to, .from = from->recipe->plan, .sequence_tokens = TOKENS, .from_tokens = TOKENS};
    if (luo_switching_compile(a, recipe.from, to, model, lab->cluster, 0, NULL, &what, &err) !=
            LUO_OK ||
        luo_host_executor.move(from->job, t.job, &what, &recipe, &r, &err) != LUO_OK)
        luo_lab_die("switch", &err);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody frees what another still reads */
    luo_host_executor.unbind(from->job);
    return t;
}

static bool run_switch(luo_lab *lab, const pair_row *r, luo_dtype dtype)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row ra = {.line = r->a, .model = r->model, .zero = r->zero_a, .sp = 1};
    const row rb = {.line = r->b, .model = r->model, .zero = r->zero_b};
    const luo_plan *pa = plan_of(a, &ra, dtype), *pb = plan_of(a, &rb, dtype);
    const luo_model model = model_of(r->model, pa->layers);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial single = luo_lab_bind(a, lab, x, alone(a, pa), &model);
    luo_trial t = luo_lab_bind(a, lab, x, pa, &model);
    curve ref[3], c[3];
    int64_t n;
    luo_state_init(luo_host_executor.state(t.job), &model, 5);
    luo_state_init(luo_host_executor.state(single.job), &model, 5);
    for (int k = 0; k < 3; k++) {
        train(lab, &single, &ref[k], 2 * k, 2);
        if (k) t = change(a, lab, &t, k == 1 ? pb : pa, &model);
        train(lab, &t, &c[k], 2 * k, 2);
    }
    worst w = compare(a, &t, spread(a, lab, &single, &n));
    for (int k = 0; k < 6; k++) {
        const double e = far(c[k / 2].loss[k % 2], ref[k / 2].loss[k % 2]);
        if (e <= w.error) continue;
        w.error = e;
        snprintf(w.name, sizeof w.name, "loss of step %d", k);
    }
    const bool good = judge(lab, "switch", r->b, w, bound_of(dtype));
    luo_host_executor.unbind(t.job);
    luo_host_executor.unbind(single.job);
    luo_host_executor.close(x);
    luo_arena_free(a);
    return good;
}

/* ---- a step that is given up ---- */

/* One rank drains from the first instruction: every rank reports it and keeps its state. */
static bool run_drain(luo_lab *lab, int drains)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row r = {.line = "3: [0,1]*2 [2]*2 || 3: [3,4]*1 [5]*3", .model = LLAMA, .zero = 1};
    const luo_plan *p = plan_of(a, &r, LUO_F64);
    const luo_model model = model_of(r.model, p->layers);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F64);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model),
              ref = luo_lab_bind(a, lab, x, alone(a, p), &model);
    curve c;
    int64_t n;
    luo_state_init(luo_host_executor.state(t.job), &model, 5);
    luo_state_init(luo_host_executor.state(ref.job), &model, 5);
    train(lab, &ref, &c, 0, 2);
    train(lab, &t, &c, 0, 1);
    lab->abort = lab->rank == drains;
    int status = (int)luo_lab_step(&t, 1).status,
        part = luo_programs_find(t.set, lab->rank) != NULL;
    lab->abort = false;
    int wrong = part && status != (int)LUO_ECANCELED, any;
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    train(lab, &t, &c, 1, 1);
    worst w = compare(a, &t, spread(a, lab, &ref, &n));
    if (any) w = (worst){INFINITY, "status of a drained step"};
    const bool good = judge(lab, "drain", r.line, w, bound_of(LUO_F64));
    luo_host_executor.unbind(t.job);
    luo_host_executor.unbind(ref.job);
    luo_host_executor.close(x);
    luo_arena_free(a);
    return good;
}

/* ---- random plans ---- */

static void random_row(luo_rng *rng, row *r, char *line, size_t size)
{
    int next = 0, layers = 2 + (int)luo_rng_pick(rng, 3), pipes = 1 + (int)luo_rng_pick(rng, 3);
    size_t n = 0;
    *r = (row){.line = line,
               .model = (kind)luo_rng_pick(rng, KINDS),
               .zero = (int)luo_rng_pick(rng, 2),
               .sp = (int)luo_rng_pick(rng, 2),
               .full = luo_rng_pick(rng, 3) == 0,
               .gpipe = luo_rng_pick(rng, 4) == 0};
    for (int p = 0; p < pipes && next < 8; p++) {
        int left = layers;
        n += (size_t)snprintf(line + n, size - n, "%s%d:", p ? " || " : "",
                              1 + (int)luo_rng_pick(rng, 4));
        while (left > 0 && next < 8) {
            int tp = 1 << luo_rng_pick(rng, 3);
            while (next + tp > 8 - (pipes - 1 - p)) tp = tp > 1 ? tp / 2 : 1;
            const bool last = next + tp >= 8 - (pipes - 1 - p);
            const int take = last ? left : 1 + (int)luo_rng_pick(rng, left);
            n += (size_t)snprintf(
                line + n, size - n, " [%d-%d]%s*%d", next, next + tp - 1,
                tp == 2 && luo_rng_pick(rng, 3) == 0 && r->model != GROUPED ? ":(3,1)" : "", take);
            left -= take;
            next += tp;
        }
    }
}

int main(int argc, char **argv)
{
    luo_lab lab;
    int failed = 0, checks = 0;
    luo_lab_open(&lab, &argc, &argv);
    if (lab.nranks < 8) {
        const luo_err e = {.text = "8 ranks are needed"};
        luo_lab_die("accept", &e);
    }
    const char *only = getenv("LUO_ROW");
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        if (only && atoi(only) != i) continue;
        if (only && lab.rank == 0) printf("row %d: %s\n", i, rows[i].line);
        failed += !run_row(&lab, &rows[i], LUO_F64);
        failed += !run_row(&lab, &rows[i], LUO_F32);
        checks += 2;
    }
    for (int i = 0; i < (int)(sizeof switches / sizeof *switches); i++) {
        failed += !run_switch(&lab, &switches[i], LUO_F64);
        failed += !run_switch(&lab, &switches[i], LUO_F32);
        checks += 2;
    }
    for (int i = 0; i < 6; i++, checks++) failed += !run_drain(&lab, i);
    const uint64_t cases = only ? 0 : 20 * luo_prop_env("LUO_SCALE", 1);
    if (lab.rank == 0)
        printf("seeds %llu..%llu\n", (unsigned long long)luo_prop_first(),
               (unsigned long long)(luo_prop_first() + cases - 1));
    for (uint64_t k = 0; k < cases; k++) {
        char line[256];
        row r;
        luo_rng rng = luo_rng_seed(luo_prop_first() + k);
        random_row(&rng, &r, line, sizeof line);
        failed += !run_row(&lab, &r, k % 4 ? LUO_F64 : LUO_F32);
        checks++;
    }
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (checks - failed) / checks,
               checks, failed);
    luo_corpus_close(lab.corpus);
    luo_arena_free(lab.arena);
    MPI_Finalize();
    return failed > 0;
}
