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
        sim_beside *beside = &step->beside[l];
        beside->on = slows(&step->net->classes[l], false);
        if (beside->on) beside->tail = tail_of(&step->net->classes[l]);
        any |= beside->on;
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
    sim_beside *beside = rank->beside = &step->beside[rank->index];
    if (!beside->on) return LUO_OK;
    beside->span = NULL;
    beside->calls = NULL;
    beside->ncalls = beside->open = 0;
    beside->until = 0;
    if (beside->factor) {
        beside->pace = LUO_NEW_N(step->arena, int32_t, rank->npaces);
        if (!beside->pace) return LUO_ENOMEM;
        for (int32_t m = 0; m < rank->class->n; m++)
            beside->pace[rank->pace_of[m]] = beside->pace_of[m];
    }
    if (!step->forerun) return LUO_OK;
    beside->span = LUO_NEW_N(step->arena, sim_span *, step->rounds * rank->class->program->ntask);
    return beside->span ? LUO_OK : LUO_ENOMEM;
}

double sim_beside_factor(const luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in)
{
    const sim_beside *beside = rank->beside;
    const double *row = beside->factor ? beside->factor[row_of(rank, task)] : NULL;
    return row ? row[(in->id - segment_of(rank, task)->first) * beside->npaces + beside->pace[pace]]
               : 1;
}

luo_status sim_beside_kernel(luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in,
                             double start, double end)
{
    sim_beside *beside = rank->beside;
    if (!beside->span || (task < beside->tail && beside->open == 0 && start >= beside->until))
        return LUO_OK;
    const luo_segment *seg = segment_of(rank, task);
    sim_span **row = &beside->span[row_of(rank, task)];
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
    sim_beside *beside = rank->beside;
    if (!beside->span || op->loss <= 0) return LUO_OK;
    const int32_t n = beside->ncalls;
    const size_t each = sizeof *beside->calls;
    if ((n & (n - 1)) == 0)
        beside->calls = luo_arena_grow(rank->step->arena, beside->calls, (size_t)n * each,
                                       (size_t)(n ? 2 * n : 1) * each);
    if (!beside->calls) return LUO_ENOMEM;
    beside->calls[beside->ncalls++] = (sim_loud){start, end, op->loss};
    beside->until = fmax(beside->until, end);
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
static double loss_at(const sim_beside *beside, double at, int32_t *first)
{
    double loss = 0;
    while (*first < beside->ncalls && beside->calls[*first].end <= at) ++*first;
    for (int32_t i = *first; i < beside->ncalls && beside->calls[i].start <= at; i++)
        if (beside->calls[i].end > at) loss = fmax(loss, beside->calls[i].loss);
    return loss;
}

static luo_status find_course(sim_step *step, sim_beside *beside, course *out)
{
    int32_t first = 0;
    const int32_t n = 2 * beside->ncalls;
    *out = (course){n, LUO_NEW_N(step->arena, double, n), LUO_NEW_N(step->arena, double, n),
                    LUO_NEW_N(step->arena, double, n)};
    if (!out->at || !out->loss || !out->sum) return LUO_ENOMEM;
    qsort(beside->calls, (size_t)beside->ncalls, sizeof *beside->calls, by_start);
    for (int32_t i = 0; i < beside->ncalls; i++) {
        out->at[2 * i] = beside->calls[i].start;
        out->at[2 * i + 1] = beside->calls[i].end;
    }
    qsort(out->at, (size_t)n, sizeof *out->at, by_date);
    for (int32_t i = 0; i < n; i++) {
        out->loss[i] = loss_at(beside, out->at[i], &first);
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
    sim_beside *beside = rank->beside;
    course c;
    const int32_t ntask = rank->class->program->ntask, n = step->rounds * ntask;
    LUO_TRY(find_course(step, beside, &c));
    beside->npaces = rank->npaces;
    beside->factor = LUO_NEW_N(step->factors, double *, n);
    beside->pace_of = LUO_NEW_N(step->factors, int32_t, rank->class->n);
    if (!beside->factor || !beside->pace_of) return LUO_ENOMEM;
    memcpy(beside->pace_of, rank->pace_of, (size_t)rank->class->n * sizeof *beside->pace_of);
    for (int32_t i = 0; i < n; i++) {
        if (beside->span[i])
            LUO_TRY(find_row(rank, &c, i % ntask, beside->span[i], &beside->factor[i]));
        *any |= beside->factor[i] != NULL;
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
