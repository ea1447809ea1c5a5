/* prop_replay.c: a replayed step = the rules of docs/replay.md as a relation between any two
 * records, relaxed until nothing moves. Random small jobs; times are synthetic. */
#include <math.h>
#include <string.h>

#include "core/run/replay/replay.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { MOST = 1500, DIRECTIONS = 2 };
static int met_chunks, met_pipelines, met_overlap, met_unpaired; /* what the cases have */

typedef struct item { /* a record, and what the generator knows of it */
    luo_replay_record record;
    int32_t index; /* among its kind and stage */
    int32_t of;    /* transfers: index of their computation, -1: no peer */
    int32_t pair;  /* transfers: number of the pair; -1: none */
    int32_t place; /* computation: of all of its stage */
} item;

typedef struct job {
    int32_t stages, pipelines, steps, micro_batches, chunks;
    bool has[LUO_REPLAY_OPS], count_all, gpipe;
    item at[MOST]; /* of a step */
    int64_t n;
    luo_rng rng;
} job;

static int32_t draw(luo_rng *rng, int32_t n) /* 0 .. n - 1 */
{
    return (int32_t)(luo_rng_next(rng) % (uint64_t)n);
}

static item *put(job *j, int32_t d, int32_t s, luo_replay_op op, int32_t index, int32_t chunk)
{
    ck_assert_int_lt(j->n, MOST);
    item *x = &j->at[j->n++];
    *x = (item){.record = {.order = index,
                           .pipeline = d,
                           .stage = s,
                           .chunk = chunk,
                           .micro_batch = -1,
                           .op = op,
                           .start_s = 1e4,
                           .duration_s = (double)(1 + draw(&j->rng, 9))},
                .index = index,
                .of = -1,
                .pair = -1,
                .place = -1};
    return x;
}

/* Computations of a direction go through the chunks one after the other; transfers of those with a
 * peer, or of all. */
static void put_direction(job *j, int32_t d, int32_t s, bool backward)
{
    const luo_replay_op compute = backward ? LUO_REPLAY_BACKWARD : LUO_REPLAY_FORWARD,
                        send = backward ? LUO_REPLAY_BACKWARD_SEND : LUO_REPLAY_FORWARD_SEND,
                        recv = backward ? LUO_REPLAY_BACKWARD_RECV : LUO_REPLAY_FORWARD_RECV;
    const int32_t all = j->chunks * j->stages, m = j->micro_batches;
    int32_t sends = 0, receives = 0;
    for (int32_t i = 0; i < j->chunks * m; i++) {
        const int32_t c = backward ? j->chunks - 1 - i / m : i / m, g = c * j->stages + s;
        const int32_t to = backward ? g - 1 : g + 1, from = backward ? g + 1 : g - 1;
        item *x = put(j, d, s, compute, i, c);
        x->record.micro_batch = i % m;
        const bool sent = to >= 0 && to < all, received = from >= 0 && from < all;
        met_unpaired += j->count_all && (!sent || !received);
        if (sent || j->count_all) {
            x = put(j, d, s, send, j->count_all ? i : sends++, -1);
            if (sent) x->of = i;
            if (sent) x->pair = ((backward * all + g) * m + i % m) * j->pipelines + d;
        }
        if (received || j->count_all) {
            x = put(j, d, s, recv, j->count_all ? i : receives++, -1);
            if (received) x->of = i;
            if (received) x->pair = ((backward * all + from) * m + i % m) * j->pipelines + d;
        }
    }
}

/* Places and starts of the computations of a worker: all forward first, or 1F1B. */
static void order_worker(job *j, int32_t d, int32_t s)
{
    const int32_t n = j->chunks * j->micro_batches,
                  warm = j->gpipe || j->stages - 1 - s > n ? n : j->stages - 1 - s;
    for (int64_t k = 0; k < j->n; k++) {
        item *x = &j->at[k];
        if (x->record.pipeline != d || x->record.stage != s) continue;
        if (x->record.op == LUO_REPLAY_FORWARD)
            x->place = x->index < warm ? x->index : warm + 2 * (x->index - warm);
        else if (x->record.op == LUO_REPLAY_BACKWARD)
            x->place = x->index < n - warm ? warm + 2 * x->index + 1 : n + x->index;
        else
            continue;
        x->record.start_s = 100 * x->place;
    }
}

static bool has_there(const job *j, int op, int32_t s)
{
    return j->has[op] && (op != LUO_REPLAY_EMBEDDING || s == 0 || s == j->stages - 1);
}

static void make_step(job *j)
{
    static const int others[] = {LUO_REPLAY_GC,       LUO_REPLAY_LAYERNORM, LUO_REPLAY_EMBEDDING,
                                 LUO_REPLAY_SEPARATE, LUO_REPLAY_CLIP,      LUO_REPLAY_OPTIMIZER};
    j->n = 0;
    for (int32_t d = 0; d < j->pipelines; d++)
        for (int32_t s = 0; s < j->stages; s++) {
            put_direction(j, d, s, false);
            put_direction(j, d, s, true);
            order_worker(j, d, s);
            for (int32_t c = 0; c < j->chunks; c++) {
                if (j->has[LUO_REPLAY_ALL_GATHER]) put(j, d, s, LUO_REPLAY_ALL_GATHER, c, c);
                if (j->has[LUO_REPLAY_REDUCE_SCATTER])
                    put(j, d, s, LUO_REPLAY_REDUCE_SCATTER, c, j->chunks - 1 - c);
            }
            for (size_t k = 0; k < sizeof others / sizeof *others; k++)
                if (has_there(j, others[k], s)) put(j, d, s, (luo_replay_op)others[k], 0, -1);
        }
}

/* ---- the slow twin ---- */

static bool computes(const item *x)
{
    return x->record.op == LUO_REPLAY_FORWARD || x->record.op == LUO_REPLAY_BACKWARD;
}

/* What stands before op at the end of a step on this worker; FORWARD: the last computation. */
static int before_update(const job *j, int op, int32_t s)
{
    static const int list[] = {
        LUO_REPLAY_GC,       LUO_REPLAY_LAYERNORM, LUO_REPLAY_EMBEDDING, LUO_REPLAY_REDUCE_SCATTER,
        LUO_REPLAY_SEPARATE, LUO_REPLAY_CLIP,      LUO_REPLAY_OPTIMIZER};
    int last = LUO_REPLAY_FORWARD;
    for (size_t k = 0; list[k] != op; k++) {
        if (list[k] == LUO_REPLAY_REDUCE_SCATTER && j->has[LUO_REPLAY_SEPARATE]) continue;
        if (has_there(j, list[k], s)) last = list[k];
    }
    return last;
}

static bool waits_at_end(const job *j, const item *x, const item *y)
{
    const int32_t last_place = 2 * j->chunks * j->micro_batches - 1, s = x->record.stage;
    const bool overlap = j->has[LUO_REPLAY_SEPARATE], last_chunk = y->index == j->chunks - 1;
    const luo_replay_op a = x->record.op, b = y->record.op;
    if (a == LUO_REPLAY_REDUCE_SCATTER) {
        if (b == a) return x->index == y->index + 1;
        if (b == LUO_REPLAY_ALL_GATHER) return x->index == 0 && last_chunk;
        if (overlap) /* the last backward of its chunk */
            return b == LUO_REPLAY_BACKWARD && y->record.chunk == x->record.chunk &&
                   y->index % j->micro_batches == j->micro_batches - 1;
        if (x->index > 0) return false;
    } else if (a < LUO_REPLAY_GC)
        return false;
    if (overlap && a > LUO_REPLAY_GC && a != LUO_REPLAY_REDUCE_SCATTER &&
        b == LUO_REPLAY_REDUCE_SCATTER) {
        const int prior = before_update(j, (int)a, s); /* is it the first behind gc? */
        return last_chunk && (prior == LUO_REPLAY_GC || prior == LUO_REPLAY_FORWARD);
    }
    const int prior = before_update(j, (int)a, s);
    if (prior == LUO_REPLAY_FORWARD) return y->place == last_place;
    return (int)b == prior && (b != LUO_REPLAY_REDUCE_SCATTER || last_chunk);
}

static bool waits(const job *j, const item *x, const item *y)
{
    const luo_replay_op a = x->record.op, b = y->record.op;
    if (x->record.pipeline != y->record.pipeline || x->record.stage != y->record.stage)
        return false;
    const int32_t n = j->chunks * j->micro_batches,
                  warm = j->gpipe || j->stages - 1 - x->record.stage > n
                             ? n
                             : j->stages - 1 - x->record.stage;
    const int32_t first_backward = warm == n ? n : warm + 1;
    const bool backward = a == LUO_REPLAY_BACKWARD_SEND || a == LUO_REPLAY_BACKWARD_RECV;
    const luo_replay_op compute = backward ? LUO_REPLAY_BACKWARD : LUO_REPLAY_FORWARD;
    if (luo_replay_op_transfers(a) && a == b) return x->index == y->index + 1;
    if (backward && x->index == 0 && y->place >= 0 && y->place == first_backward - 2) return true;
    if (a == LUO_REPLAY_FORWARD_SEND || a == LUO_REPLAY_BACKWARD_SEND)
        return x->of >= 0 && b == compute && y->index == x->of;
    if (a == LUO_REPLAY_FORWARD_RECV || a == LUO_REPLAY_BACKWARD_RECV)
        return x->of > 0 && b == compute && y->index == x->of - 1;
    if (computes(x)) {
        if (computes(y)) return x->place == y->place + 1;
        if (b == (a == LUO_REPLAY_FORWARD ? LUO_REPLAY_FORWARD_RECV : LUO_REPLAY_BACKWARD_RECV))
            return y->of == x->index;
        return a == LUO_REPLAY_FORWARD && b == LUO_REPLAY_ALL_GATHER &&
               y->record.chunk == x->record.chunk && x->index % j->micro_batches == 0;
    }
    if (a == LUO_REPLAY_ALL_GATHER) return b == a && x->index == y->index + 1;
    return waits_at_end(j, x, y);
}

static bool together(const job *j, const item *x, const item *y)
{
    const luo_replay_record *a = &x->record, *b = &y->record;
    if (x == y) return true;
    if (luo_replay_op_transfers(a->op))
        return x->pair >= 0 && luo_replay_op_transfers(b->op) && x->pair == y->pair;
    if (a->op != b->op || x->index != y->index) return false;
    if (a->op == LUO_REPLAY_CLIP) return true;
    if (a->op == LUO_REPLAY_EMBEDDING) return j->stages > 1 && a->pipeline == b->pipeline;
    return (a->op == LUO_REPLAY_ALL_GATHER || a->op == LUO_REPLAY_REDUCE_SCATTER) &&
           a->stage == b->stage;
}

static double slow_step(const job *j, const double *duration_s)
{
    static double end[MOST], ready[MOST];
    double step = 0, last = 0;
    bool moved = true;
    for (int64_t i = 0; i < j->n; i++) end[i] = ready[i] = 0;
    for (int round = 0; moved; round++) {
        ck_assert_int_lt(round, MOST);
        moved = false;
        for (int64_t i = 0; i < j->n; i++)
            for (int64_t k = 0; k < j->n; k++)
                if (waits(j, &j->at[i], &j->at[k])) ready[i] = fmax(ready[i], end[k]);
        for (int64_t i = 0; i < j->n; i++) {
            double start = 0;
            for (int64_t k = 0; k < j->n; k++)
                if (together(j, &j->at[i], &j->at[k])) start = fmax(start, ready[k]);
            moved |= start + duration_s[i] > end[i];
            end[i] = start + duration_s[i];
        }
    }
    for (int64_t i = 0; i < j->n; i++) {
        last = fmax(last, end[i]);
        if (j->at[i].record.op == LUO_REPLAY_OPTIMIZER) step = fmax(step, end[i]);
    }
    return j->has[LUO_REPLAY_OPTIMIZER] ? step : last;
}

/* ---- cases ---- */

static void draw_job(job *j, uint64_t seed)
{
    j->rng = luo_rng_seed(seed);
    j->stages = 1 + draw(&j->rng, 3);
    j->pipelines = 1 + draw(&j->rng, 3);
    j->steps = 1 + draw(&j->rng, 2);
    j->micro_batches = 1 + draw(&j->rng, 3);
    j->chunks = 1 + draw(&j->rng, 2);
    j->gpipe = j->chunks > 1 || draw(&j->rng, 2) == 0;
    j->count_all = draw(&j->rng, 2) == 0;
    for (int op = 0; op < LUO_REPLAY_OPS; op++) j->has[op] = draw(&j->rng, 4) > 0;
    j->has[LUO_REPLAY_SEPARATE] = draw(&j->rng, 3) == 0;
    met_chunks += j->chunks > 1;
    met_pipelines += j->pipelines > 1;
    met_overlap += j->has[LUO_REPLAY_SEPARATE] && j->has[LUO_REPLAY_REDUCE_SCATTER];
}

/* Durations of a step for the twin: as recorded where stage is `kept` (-1: everywhere), else
 * ideal. */
static double twin(const job *j, const luo_replay *r, const double *recorded, int32_t kept)
{
    static double duration[MOST];
    for (int64_t i = 0; i < j->n; i++) {
        const luo_replay_record *x = &j->at[i].record;
        duration[i] = kept == -1 || x->stage == kept ? recorded[i] : r->ideal_s[x->op];
    }
    return slow_step(j, duration);
}

START_TEST(replay_is_relaxation)
{
    static job j;
    LUO_PROP_FOR(seed, 300)
    {
        static luo_replay_record all[2 * MOST];
        static double recorded[2][MOST];
        luo_arena *arena = luo_arena_new(0);
        luo_err err = {0};
        luo_replay r;
        luo_replay_figures f;
        int64_t n = 0;
        double ideal, kept = 0, real = 0;
        draw_job(&j, seed);
        for (int32_t k = 0; k < j.steps; k++) {
            make_step(&j);
            for (int64_t i = 0; i < j.n; i++) {
                j.at[i].record.step = 10 + k;
                recorded[k][i] = j.at[i].record.duration_s;
                all[n++] = j.at[i].record;
            }
        }
        for (int64_t i = n - 1; i > 0; i--) { /* any order of the records */
            const int64_t k = draw(&j.rng, (int32_t)i + 1);
            const luo_replay_record x = all[i];
            all[i] = all[k];
            all[k] = x;
        }
        ck_assert_msg(luo_replay_build(arena, all, n, &r, &err) == LUO_OK,
                      "LUO_SEED=%llu LUO_CASES=1: %s", (unsigned long long)seed, err.text);
        ck_assert_int_eq(luo_replay_attribute(arena, &r, &f, &err), LUO_OK);
        const int32_t stage = draw(&j.rng, j.stages);
        ideal = twin(&j, &r, recorded[0], -2);
        for (int32_t k = 0; k < j.steps; k++) {
            const double t = twin(&j, &r, recorded[k], -1);
            ck_assert_msg(fabs(t - f.real_s[k]) < 1e-9,
                          "LUO_SEED=%llu LUO_CASES=1: step %d takes %g, by the twin %g",
                          (unsigned long long)seed, k, f.real_s[k], t);
            real += t / j.steps;
            kept += twin(&j, &r, recorded[k], stage) / j.steps;
        }
        ck_assert_msg(fabs(ideal - f.ideal_s) < 1e-9 && fabs(real - f.real_mean_s) < 1e-9 &&
                          fabs(kept / ideal - f.cause[stage].slowdown) < 1e-9,
                      "LUO_SEED=%llu LUO_CASES=1: ideal %g, stage %d %g; by the twin %g, %g",
                      (unsigned long long)seed, f.ideal_s, stage, f.cause[stage].slowdown, ideal,
                      kept / ideal);
        luo_arena_free(arena);
    }
    ck_assert_int_gt(met_chunks, 0);
    ck_assert_int_gt(met_pipelines, 0);
    ck_assert_int_gt(met_overlap, 0);
    ck_assert_int_gt(met_unpaired, 0);
}
END_TEST

LUO_MAIN("replay.relaxation", replay_is_relaxation, 1)
