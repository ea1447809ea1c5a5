/* trial.h: rows of plans and models, what a plan of one device makes of the same data,
 * and how far a trial is from it. */
#ifndef LUO_TESTS_MPI_TRIAL_H
#define LUO_TESTS_MPI_TRIAL_H
#include "exec/recipe.h"
#include "tests/begins.h"
#include "tests/exec_fixture.h"
#include "tests/mpi/asleep.h"

enum { STEPS = 3, TOKENS = 16 };

/* Those before KINDS are drawn at random; behind them layers of feed-forward alone, the second two
 * of them with gates, every other one with biases. */
typedef enum kind {
    LLAMA,
    GROUPED,
    GPT,
    QKNORM,
    KINDS,
    WIDE = KINDS,
    MLP,
    MLP_BIASED,
    MLP_GATED,
    MLP_GATED_BIASED
} kind;
enum { MLPS = 4 };

static inline kind random_mlp(luo_rng *rng)
{
    return (kind)(MLP + luo_rng_pick(rng, MLPS));
}

static uint64_t trial_seed = 7;         /* of models */
static const char *trial_says = "FAIL"; /* before what differs */
static int32_t trial_lanes; /* that calls of buckets run in; 0: as many as by default */

/* The same model for whoever begins. */
static inline void trial_begin(luo_trial *t, const luo_model *model)
{
    luo_trial_init(t, model, trial_seed);
}

typedef struct row {
    const char *line;
    kind model;
    int zero, sp, recompute;
    int64_t tokens[8]; /* of the micro-batches of pipeline 0; 0: all alike */
    int order; /* of tasks: 0 1f1b (or interleaved), 1 gpipe, 2 zb_h1 */
    int sequences; /* of a micro-batch; 0: 1 */
    double mib;    /* of a bucket; 0: every tensor travels alone */
    luo_sharding sharding; /* of zero 3 */
    bool tied, untied; /* the table and the head; neither: as the model has it */
} row;

static inline luo_model model_of(kind k, int32_t layers)
{
    luo_model m =
        k == GPT ? luo_test_gpt(layers, 32, 4, 64) : luo_test_llama(layers, 32, 48, 4, 64);
    if (k == WIDE) m = luo_test_llama(layers, 128, 192, 4, 64);
    if (k >= MLP)
        m = luo_test_mlp(layers, 32, 48, 64, k < MLP_GATED ? LUO_ACT_GELU : LUO_ACT_SWIGLU,
                         (k - MLP) % 2);
    if (k == GROUPED) {
        m.heads = 8;
        m.kv_heads = 2;
        m.head_dim = 4;
    }
    m.qk_norm = k == QKNORM;
    if (k != QKNORM) {
        m.max_sequence_tokens = 64;
        return m;
    }
    /* positions by a table, with a factor, of a part of a head; and what gemma has */
    m.partial_rotary = 0.5;
    m.activation = LUO_ACT_GEGLU;
    m.norm_offset = true;
    m.embedding_scale = 1.5;
    m.attention_scale = 0.5;
    m.attention_softcap = 2;
    m.logit_softcap = 3;
    m.rope = (luo_rope_scaling){.kind = LUO_ROPE_YARN, .factor = 4, .original_tokens = 16,
                                .beta_fast = 4, .beta_slow = 0.5};
    m.max_sequence_tokens = 64;
    return m;
}

static inline luo_model row_model(const row *r, int32_t layers)
{
    luo_model m = model_of(r->model, layers);
    if (r->tied || r->untied) m.tied_embeddings = r->tied;
    return m;
}

static inline luo_plan *plan_of(luo_arena *a, const row *r, luo_dtype dtype)
{
    luo_plan *p = luo_test_plan(a, r->line);
    luo_pipeline *pipes = (luo_pipeline *)p->pipelines;
    p->dtype = dtype;
    p->zero = r->zero;
    p->sharding = r->sharding;
    p->sequence_parallel = r->sp;
    p->sequence_tokens = TOKENS;
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, r->mib, trial_lanes};
    if (r->order) p->schedule = r->order == 1 ? LUO_SCHED_GPIPE : LUO_SCHED_ZB_H1;
    if (r->tokens[0]) pipes[0].micro_batch_tokens = r->tokens;
    if (r->sequences) p->micro_batch_sequences = r->sequences;
    for (int32_t i = 0; i < p->npipelines; i++) {
        pipes[i].micro_batch_sequences = p->micro_batch_sequences;
        for (int32_t s = 0; s < pipes[i].nstages; s++)
            ((luo_stage *)pipes[i].stages)[s].recompute = (luo_recompute)r->recompute;
    }
    return p;
}

/* One device, the same micro-batches in the same order. */
static inline luo_plan *alone(luo_arena *a, const luo_plan *p)
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
                               : p->sequence_tokens * p->pipelines[i].micro_batch_sequences;
    ((luo_pipeline *)q->pipelines)[0].micro_batch_tokens = tokens;
    q->sequence_tokens = p->sequence_tokens;
    q->dtype = p->dtype;
    q->sequence_parallel = false;
    return q;
}

/* The plan of one device that plans are compared with: on host, in f32 where the trial's precision
 * is none of the host's. x: of the trial; an executor of its own is opened where that is another.
 */
static inline luo_trial refer(luo_arena *a, luo_lab *lab, luo_exec *x, const luo_plan *plan,
                              const luo_model *model)
{
    const luo_rank_executor *tested = lab->executor;
    luo_plan *one = alone(a, plan);
    if (one->dtype == LUO_BF16) one->dtype = LUO_F32;
    lab->executor = &luo_host_executor;
    if (tested != lab->executor) x = luo_lab_executor(lab, model, one->dtype);
    const luo_trial t = luo_lab_bind(a, lab, x, one, model);
    lab->executor = tested;
    return t;
}

static inline void close_reference(const luo_lab *lab, const luo_trial *t)
{
    t->executor->unbind(t->job);
    if (t->executor != lab->executor) t->executor->close(t->x);
}

/* ---- comparing ---- */

typedef struct curve { /* by step */
    double loss[8], norm[8];
} curve;

/* Nothing is waited for longer than the step lasts, nor for less than no time. */
static inline void check_comm(const luo_step_report *r)
{
    const luo_err e = {.text = "it waited for communication longer than the step, or below 0"};
    for (int32_t i = 0; i < r->ncomm; i++)
        if (!(r->comm[i].exposed_s >= 0 && r->comm[i].exposed_s <= r->end_s - r->start_s))
            luo_lab_die("a step", &e);
}

/* Losses of the parts of a step add up; the norm is that of the last one. */
static inline void train_part(luo_trial *t, curve *c, int64_t step, const luo_step_part *part)
{
    const luo_step_report r = luo_lab_part(t, step, part);
    double mine[3] = {r.has_loss ? 1 : 0, r.has_loss ? r.loss : 0, r.grad_norm}, all[3], aux;
    const luo_err e = {.text = "a step was not finished"};
    if (r.status != LUO_OK) luo_lab_die(r.text, &e);
    check_comm(&r);
    MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&r.aux_loss, &aux, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    c->loss[step] = (part->index > 0 ? c->loss[step] : 0) + all[1] + aux;
    c->norm[step] = all[2];
}

static inline void train(luo_trial *t, curve *c, int64_t first, int n)
{
    const luo_step_part whole = {0};
    for (int i = 0; i < n; i++) train_part(t, c, first + i, &whole);
}

/* In a step more, all begins in the order in which the walk issues it, and so do calls between
 * replicas by their times, as the simulator has them (tests/diff/diff_begins.c). */
static inline void check_begins(luo_arena *a, const luo_lab *lab, luo_trial *t, int64_t step)
{
    const luo_step_part whole = {0};
    const luo_step_report r = luo_lab_part_traced(t, step, &whole, true);
    const luo_program *p = luo_programs_find(t->set, lab->devices[lab->rank]);
    const luo_err e = {.text = "it does not begin in the order of issue"};
    int64_t calls = 0, beside = 0;
    begin_at wrong;
    if (r.status != LUO_OK) luo_lab_die(r.text, &e);
    if (!p) return; /* stands by */
    const begins issued = begins_issued(a, t->set, p, t->beside);
    if (!begins_follow(t->set, p, &issued, r.records, r.nrecords, &calls, &beside, &wrong) ||
        (!t->beside && beside > 0) ||
        !begins_recorded(t->set, p, &issued, r.records, r.nrecords, &wrong))
        luo_lab_die("a step", &e);
}

/* All of the single device's state on every rank: per parameter weight, m, v. */
static inline double *spread(luo_arena *a, const luo_lab *lab, const luo_trial *t, int64_t *count)
{
    const luo_state *s = luo_trial_take(t, true);
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
                all[at++] = from[k] ? luo_real_at(from[k], s->elem, c) : 0;
    }
    luo_trial_put(t, false);
    MPI_Bcast(all, (int)(3 * n), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    *count = n;
    return all;
}

static inline void whole_frame(luo_arena *a, const luo_shape *shape, luo_frame *f)
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

static inline int64_t *cells_of(luo_arena *a, const luo_frame *f, const luo_region *r)
{
    luo_copy_segments s;
    luo_err err = {0};
    if (luo_frame_segments(a, f, r, &s, &err) != LUO_OK) luo_lab_die("strips", &err);
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
static inline bool is_rounding(const luo_param *p)
{
    const size_t n = strlen(p->name), m = strlen("attn.k.bias");
    return n >= m && strcmp(p->name + n - m, "attn.k.bias") == 0;
}

/* Reference values of a parameter's cells, and the largest of each kind. */
typedef struct truth {
    const double *at[3]; /* weight, m, v */
    double most[3];
    const double *early; /* v after the first step, NULL: not known */
    double early_most;
} truth;

static inline truth truth_of(const double *ref, const double *early, int64_t n)
{
    truth t = {.most = {1e-300, 1e-300, 1e-300}, .early = early ? early + 2 * n : NULL};
    for (int64_t c = 0; c < n && early; c++) t.early_most = fmax(t.early_most, t.early[c]);
    for (int k = 0; k < 3; k++) {
        t.at[k] = ref + k * n;
        for (int64_t c = 0; c < n; c++) t.most[k] = fmax(t.most[k], fabs(t.at[k][c]));
    }
    return t;
}

/* What rounding makes of a gradient, as part of the largest of its tensor; squared, and with room.
 */
static inline double noise_of(luo_dtype d)
{
    return d == LUO_F64 ? 0 : d == LUO_F32 ? 1e-6 : 0.1;
}

/* AdamW divides the gradient by its own size: where the gradient is mostly rounding, so is the
 * direction of a step of full size. In f32 rounding is about 1e-6 of the largest gradient of a
 * tensor, so a cell whose gradients were at least 1e-3 of it steps aside by at most 1e-3 of the
 * rate; in bf16 it is about 1e-2. v grows from step to step (but for its decay): what it was after
 * the first one tells. Cells below are only asked to have made no longer steps than the rate, up or
 * down; their gradients are compared like all others, as m and v. */
static inline double far_weight(const truth *t, int64_t c, double x, luo_dtype dtype)
{
    const double e = fabs(x - t->at[0][c]);
    const bool rounding = t->early && t->early[c] < noise_of(dtype) * t->early_most;
    if (rounding && e <= 2 * LUO_LEARNING_RATE * 6) return 0; /* no trial has more steps */
    return e / t->most[0];
}

/* Largest difference relative to the largest value of the tensor. */
static inline void compare_piece(luo_arena *a, const luo_state *s, const luo_piece *p,
                                 luo_dtype dtype, const double *ref, const double *early, worst *w)
{
    static const char *const kinds[] = {"weight", "m", "v"};
    const double least = dtype == LUO_F64 ? 1e-14 : dtype == LUO_F32 ? 1e-6 : 1e-3;
    if (is_rounding(p->param)) {
        for (int64_t c = 0; c < p->state_frame.volume; c++)
            if (!(fabs(luo_real_at(p->m, s->elem, c)) < least))
                *w = (worst){INFINITY, "m of a bias of keys"};
        return;
    }
    const size_t mark = luo_arena_mark(a);
    luo_frame whole;
    whole_frame(a, &p->param->shape, &whole);
    const truth t = truth_of(ref, early, whole.volume);
    const int64_t n = luo_region_volume(&p->piece);
    const int64_t *at = cells_of(a, &whole, &p->piece);
    const int64_t *in_weight = cells_of(a, &p->weight_frame, &p->piece);
    const int64_t *in_state = cells_of(a, &p->state_frame, &p->piece);
    for (int k = 0; k < (p->m ? 3 : 1); k++)
        for (int64_t c = 0; c < n; c++) {
            const double x = k == 0 ? luo_real_at(p->weight, s->elem, in_weight[c])
                                    : luo_real_at(k == 1 ? p->m : p->v, s->elem, in_state[c]);
            const double e =
                k == 0 ? far_weight(&t, at[c], x, dtype) : fabs(x - t.at[k][at[c]]) / t.most[k];
            if (!(e > w->error) && !isnan(e)) continue;
            w->error = isnan(e) ? INFINITY : e;
            snprintf(w->name, sizeof w->name, "%s of %s", kinds[k], p->param->name);
        }
    luo_arena_reset(a, mark);
}

/* early: spread after the first step, which all but f64 need; NULL in f64. */
static inline worst compare(luo_arena *a, const luo_trial *t, const double *ref,
                            const double *early)
{
    worst w = {0, ""};
    const luo_state *s = luo_trial_take(t, true);
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        int64_t v = 1;
        for (int32_t d = 0; d < p->param->shape.rank; d++) v *= p->param->shape.dim[d];
        if (!p->piece.empty) compare_piece(a, s, p, t->recipe->plan->dtype, ref, early, &w);
        ref += 3 * v;
        if (early) early += 3 * v;
    }
    luo_trial_put(t, false);
    return w;
}

static inline double far(double a, double b)
{
    return fabs(a - b) / fmax(fabs(b), 1e-12);
}

static double largest_error; /* that any trial was judged by */

/* Agrees on the worst of all ranks; prints and counts a failure. */
static inline bool judge(const luo_lab *lab, const char *what, const char *line, worst w,
                         double bound)
{
    struct {
        double error;
        int rank;
    } mine = {w.error, lab->rank}, most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Bcast(w.name, sizeof w.name, MPI_CHAR, most.rank, MPI_COMM_WORLD);
    const bool good = most.error <= bound;
    largest_error = fmax(largest_error, most.error);
    if (!good && lab->rank == 0)
        printf("%s %s: `%s`: %s differs by %.3g on rank %d (bound %g)\n", trial_says, what, line,
               w.name, most.error, most.rank, bound);
    fflush(stdout);
    return good;
}

static inline double bound_of(luo_dtype d)
{
    return d == LUO_F64 ? 1e-10 : d == LUO_F32 ? 1e-4 : 0.05;
}
#endif
