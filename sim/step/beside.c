#include "sim/step/beside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const luo_segment *segment_of(const luo_rank *rank, int32_t task)
{
    return &rank->class->role->seg[rank->class->program->tasks[task].seg];
}

static int32_t row_of(const luo_rank *rank, int32_t task)
{
    return rank->round * rank->class->program->ntask + task;
}

/* ---- what a class has ---- */

static bool slows(const sim_class *class, bool in_task)
{
    for (int32_t i = 0; i < class->role->ninstr; i++)
        if (class->ops[i].loss > 0 &&
            (!in_task || luo_phase_in_task(class->role->instr[i].phase)))
            return true;
    return false;
}

/* Before the last run of the segment that is done first nothing can be exchanged in Post. */
static int32_t tail_of(const sim_class *class)
{
    const luo_program *program = class->program;
    int32_t tail = -1;
    if (slows(class, true)) return 0;
    for (int32_t s = 0; s < class->role->nseg; s++) {
        int32_t last = program->ntask - 1;
        if (!luo_phase_is_backward(class->role->seg[s].phase)) continue;
        while (last >= 0 && program->tasks[last].seg != s) last--;
        if (last >= 0 && (tail < 0 || last < tail)) tail = last;
    }
    return tail < 0 ? 0 : tail;
}

luo_status sim_beside_init(luo_arena *arena, sim_step *step)
{
    const luo_cluster *cluster = step->net->config->cluster;
    bool any = false;
    step->beside = LUO_NEW_N(arena, sim_beside, step->net->nclasses);
    if (!step->beside) return LUO_ENOMEM;
    for (int32_t l = 0; l < step->net->nclasses; l++) {
        sim_beside *b = &step->beside[l];
        b->on = slows(&step->net->classes[l], false);
        if (b->on) b->tail = tail_of(&step->net->classes[l]);
        any |= b->on;
    }
    if (!any) return LUO_OK;
    step->factors = luo_arena_new(1 << 16);
    if (!step->factors) return LUO_ENOMEM;
    return luo_world_new(arena, cluster, &step->foreseen, NULL);
}

bool sim_beside_is_new(sim_step *step, const luo_world *world)
{
    if (!step->factors || (step->has_foreseen && luo_world_equal(step->foreseen, world)))
        return false;
    luo_world_copy(step->foreseen, world);
    step->has_foreseen = true;
    for (int32_t l = 0; l < step->net->nclasses; l++) step->beside[l].factor = NULL;
    return true;
}

/* ---- the step at hand ---- */

luo_status sim_beside_begin(luo_rank *rank)
{
    sim_step *step = rank->step;
    sim_beside *b = rank->beside = &step->beside[rank->index];
    if (!b->on) return LUO_OK;
    b->span = NULL;
    b->calls = NULL;
    b->ncalls = b->open = 0;
    b->until = 0;
    if (b->factor) {
        b->pace = LUO_NEW_N(step->arena, int32_t, rank->npaces);
        if (!b->pace) return LUO_ENOMEM;
        for (int32_t m = 0; m < rank->class->n; m++) b->pace[rank->pace_of[m]] = b->pace_of[m];
    }
    if (!step->forerun) return LUO_OK;
    b->span = LUO_NEW_N(step->arena, sim_span *, step->rounds * rank->class->program->ntask);
    return b->span ? LUO_OK : LUO_ENOMEM;
}

double sim_beside_factor(const luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in)
{
    const sim_beside *b = rank->beside;
    const double *row = b->factor ? b->factor[row_of(rank, task)] : NULL;
    return row ? row[(in->id - segment_of(rank, task)->first) * b->npaces + b->pace[pace]] : 1;
}

luo_status sim_beside_kernel(luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in,
                             double start, double end)
{
    sim_beside *b = rank->beside;
    if (!b->span || (task < b->tail && b->open == 0 && start >= b->until)) return LUO_OK;
    const luo_segment *seg = segment_of(rank, task);
    sim_span **row = &b->span[row_of(rank, task)];
    if (!*row) *row = LUO_NEW_N(rank->step->arena, sim_span, seg->n * rank->npaces);
    if (!*row) return LUO_ENOMEM;
    (*row)[(in->id - seg->first) * rank->npaces + pace] = (sim_span){start, end};
    return LUO_OK;
}

void sim_beside_issued(luo_rank *rank, const sim_op *op)
{
    if (rank->beside->span && op->loss > 0) rank->beside->open++;
}

luo_status sim_beside_called(luo_rank *rank, const sim_op *op, double start, double end)
{
    sim_beside *b = rank->beside;
    if (!b->span || op->loss <= 0) return LUO_OK;
    const int32_t n = b->ncalls;
    const size_t each = sizeof *b->calls;
    if ((n & (n - 1)) == 0)
        b->calls = luo_arena_grow(rank->step->arena, b->calls, (size_t)n * each,
                                  (size_t)(n ? 2 * n : 1) * each);
    if (!b->calls) return LUO_ENOMEM;
    b->calls[b->ncalls++] = (sim_loud){start, end, op->loss};
    b->until = fmax(b->until, end);
    return LUO_OK;
}

/* ---- after a forerun ---- */

typedef struct course { /* of what a class loses */
    int32_t n;          /* dates */
    double *at, *loss;  /* loss[i]: from at[i] to at[i + 1]; 0 behind the last */
    double *sum;        /* up to at[i] */
} course;

static int by_start(const void *a, const void *b)
{
    const sim_loud *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return (x->loss > y->loss) - (x->loss < y->loss);
}

static int by_date(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The largest loss of the calls that are under way at a date; *first: those before it are over. */
static double loss_at(const sim_beside *b, double at, int32_t *first)
{
    double loss = 0;
    while (*first < b->ncalls && b->calls[*first].end <= at) ++*first;
    for (int32_t i = *first; i < b->ncalls && b->calls[i].start <= at; i++)
        if (b->calls[i].end > at) loss = fmax(loss, b->calls[i].loss);
    return loss;
}

static luo_status find_course(sim_step *step, sim_beside *b, course *out)
{
    int32_t first = 0;
    const int32_t n = 2 * b->ncalls;
    *out = (course){n, LUO_NEW_N(step->arena, double, n), LUO_NEW_N(step->arena, double, n),
                    LUO_NEW_N(step->arena, double, n)};
    if (!out->at || !out->loss || !out->sum) return LUO_ENOMEM;
    qsort(b->calls, (size_t)b->ncalls, sizeof *b->calls, by_start);
    for (int32_t i = 0; i < b->ncalls; i++) {
        out->at[2 * i] = b->calls[i].start;
        out->at[2 * i + 1] = b->calls[i].end;
    }
    qsort(out->at, (size_t)n, sizeof *out->at, by_date);
    for (int32_t i = 0; i < n; i++) {
        out->loss[i] = loss_at(b, out->at[i], &first);
        if (i > 0) out->sum[i] = out->sum[i - 1] + out->loss[i - 1] * (out->at[i] - out->at[i - 1]);
    }
    return LUO_OK;
}

static double lost_until(const course *c, double when)
{
    int32_t lo = 0, hi = c->n;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (c->at[mid] <= when) lo = mid + 1;
        else hi = mid;
    }
    return lo > 0 ? c->sum[lo - 1] + c->loss[lo - 1] * (when - c->at[lo - 1]) : 0;
}

/* Of one task; none of its kernels is slowed: no row. */
static luo_status find_row(const luo_rank *rank, const course *c, int32_t task,
                           const sim_span *span, double **row)
{
    sim_step *step = rank->step;
    const luo_stack *stack = step->net->config->stack;
    const luo_segment *seg = segment_of(rank, task);
    for (int32_t i = 0; i < seg->n * rank->npaces; i++) {
        const sim_op *op = &rank->class->ops[seg->first + i / rank->npaces];
        if (span[i].end <= span[i].start) continue;
        const double lost = lost_until(c, span[i].end) - lost_until(c, span[i].start);
        if (lost <= 0) continue;
        if (!*row) {
            *row = LUO_NEW_N(step->factors, double, seg->n * rank->npaces);
            if (!*row) return LUO_ENOMEM;
            for (int32_t k = 0; k < seg->n * rank->npaces; k++) (*row)[k] = 1;
        }
        const double share = lost / (span[i].end - span[i].start + lost);
        (*row)[i] = luo_cost_slowed(stack, op->device_s, op->seconds, share) / op->seconds;
    }
    return LUO_OK;
}

static luo_status find_class(luo_rank *rank, bool *any)
{
    sim_step *step = rank->step;
    sim_beside *b = rank->beside;
    course c;
    const int32_t ntask = rank->class->program->ntask, n = step->rounds * ntask;
    LUO_TRY(find_course(step, b, &c));
    b->npaces = rank->npaces;
    b->factor = LUO_NEW_N(step->factors, double *, n);
    b->pace_of = LUO_NEW_N(step->factors, int32_t, rank->class->n);
    if (!b->factor || !b->pace_of) return LUO_ENOMEM;
    memcpy(b->pace_of, rank->pace_of, (size_t)rank->class->n * sizeof *b->pace_of);
    for (int32_t i = 0; i < n; i++) {
        if (b->span[i]) LUO_TRY(find_row(rank, &c, i % ntask, b->span[i], &b->factor[i]));
        *any |= b->factor[i] != NULL;
    }
    return LUO_OK;
}

luo_status sim_beside_find(sim_step *step, bool *any)
{
    luo_arena_reset(step->factors, 0);
    *any = false;
    for (int32_t l = 0; l < step->net->nclasses; l++)
        if (step->beside[l].on && step->st == LUO_OK) LUO_TRY(find_class(&step->ranks[l], any));
    return LUO_OK;
}
