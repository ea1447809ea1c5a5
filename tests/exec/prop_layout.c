/* prop_layout.c: layouts of random plans against pairwise lifetimes: walks the tasks of
 * a device, follows every value from its first write to the last instruction that may still use it,
 * and compares all pairs of values that live at the same time. */
#include "exec/bind/layout.h"
#include "tests/check_main.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

typedef struct value { /* of a buffer, or a scratch (buffer -1) */
    int32_t buffer, micro_batch;
    int64_t at, bytes;
    int64_t first, last; /* times: task * ninstr + instruction */
    int32_t first_task, last_task;
} value;

typedef struct twin {
    luo_arena *a;
    const luo_programs *set;
    const luo_program *p;
    const luo_role *role;
    const luo_route *routes;
    luo_layout l;
    value *at;
    int32_t n, cap;
    int32_t **now; /* [micro_batch + 1][buffer]: value + 1 */
    int64_t *done; /* per instruction */
    int64_t weight_bytes; /* in front of optimizer state */
    uint64_t seed;
} twin;

static struct {
    int64_t devices, bytes, predicted, values, pairs, own, kept, work, copies, scratch, beside,
        waiting;
    double least, most;
} met = {.least = 1e9};

static void broken(const twin *w, const char *what, int32_t b)
{
    ck_abort_msg("LUO_SEED=%llu LUO_CASES=1, device %d, buffer %d (%s): %s",
                 (unsigned long long)w->seed, w->p->device, b,
                 b >= 0 ? w->role->buf[b].tensor : "scratch", what);
}

static bool is_state(const twin *w, int32_t b)
{
    return w->role->buf[b].buffer_class <= LUO_BUFFER_OPTIMIZER;
}

/* The last instruction before which nobody has waited for communication i. */
static int32_t slow_done(const luo_role *r, const luo_segment *s, int32_t i)
{
    const luo_instr *x = &r->instr[i];
    if (x->kind != LUO_INSTR_COLLECTIVE && x->kind != LUO_INSTR_P2P) return i;
    for (int32_t k = i + 1; k < s->first + s->n; k++)
        for (int32_t j = 0; j < r->instr[k].ndep; j++) {
            const int32_t d = r->instr[k].dep[j];
            if (d >= i && d < k && luo_instr_lane(&r->instr[d]) == luo_instr_lane(x)) return k - 1;
        }
    return s->first + s->n - 1;
}

static value *add(twin *w, int32_t buffer, int32_t t, int32_t i, int64_t at, int64_t bytes)
{
    if (w->n == w->cap) {
        const size_t old = (size_t)w->cap * sizeof *w->at;
        w->at = luo_arena_grow(w->a, w->at, old, 2 * old + 256 * sizeof *w->at);
        w->cap = 2 * w->cap + 256;
    }
    const int64_t now = (int64_t)t * w->role->ninstr + i;
    w->at[w->n] = (value){buffer, w->p->tasks[t].micro_batch, at, bytes, now, now, t, t};
    return &w->at[w->n++];
}

/* Values of states exist before the step and after it. */
static void add_states(twin *w)
{
    for (int32_t b = 0; b < w->role->nbuf; b++) {
        if (!is_state(w, b)) continue;
        if (w->l.stride[b]) broken(w, "a state has copies", b);
        const luo_buffer *s = &w->role->buf[b];
        value *v = add(w, b, 0, 0, w->l.at[b], s->bytes + luo_layout_weights(s, w->weight_bytes));
        v->last = INT64_MAX;
    }
}

/* A read takes the value that this micro-batch has left, or what Pre made; a first write in a task
 * makes a new one. */
static void touch(twin *w, int32_t t, int32_t i, int32_t b, bool read, int32_t *seen)
{
    const int32_t mb = w->p->tasks[t].micro_batch;
    const int64_t at = luo_layout_offset(&w->l, b, t);
    if (is_state(w, b)) return;
    int32_t *v = &w->now[mb + 1][b];
    if (seen[b] != t + 1 && !read) *v = 0;
    seen[b] = t + 1;
    if (*v == 0 && read) v = &w->now[0][b];
    if (*v == 0) {
        if (read) broken(w, "it is read before it is written", b);
        add(w, b, t, i, at, w->role->buf[b].bytes);
        *v = w->n;
    }
    value *x = &w->at[*v - 1];
    const int64_t until = (int64_t)t * w->role->ninstr + w->done[i];
    if (x->at != at) broken(w, "its value is elsewhere in a later task", b);
    met.waiting += w->done[i] > i && until > x->last;
    if (until > x->last) x->last = until;
    x->last_task = t;
}

static void walk_task(twin *w, int32_t t, int32_t *seen)
{
    const luo_segment *s = &w->role->seg[w->p->tasks[t].seg];
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        const luo_instr *x = &w->role->instr[i];
        for (int32_t k = 0; k < x->nin; k++) touch(w, t, i, x->in[k], true, seen);
        for (int32_t k = 0; k < x->nout; k++) touch(w, t, i, x->out[k], false, seen);
        const luo_route *r = &w->routes[i];
        if (x->exchange < 0 || r->scratch_elements == 0) {
            if (w->l.scratch[i] >= 0) broken(w, "there is a place for it, but no use", -1);
            continue;
        }
        if (w->l.scratch[i] < 0 || w->l.scratch[i] != w->l.scratch[r->first])
            broken(w, "it has no place of its own", -1);
        if (i != r->first) continue;
        value *v = add(w, -1, t, i, w->l.scratch[i],
                       r->scratch_elements * w->set->exchanges[x->exchange].elem_bytes);
        for (int32_t k = r->first; k <= r->last; k++) {
            const int64_t until = (int64_t)t * w->role->ninstr + w->done[k];
            if (until > v->last) v->last = until;
        }
        if (luo_instr_runs_beside(w->role, x)) { /* of a call: nobody says when */
            v->first = 0;
            v->last = INT64_MAX;
            met.beside++;
        }
        met.scratch++;
    }
}

static void walk(twin *w)
{
    const luo_role *r = w->role;
    w->done = LUO_NEW_N(w->a, int64_t, r->ninstr);
    for (int32_t s = 0; s < r->nseg; s++)
        for (int32_t i = r->seg[s].first; i < r->seg[s].first + r->seg[s].n; i++)
            w->done[i] = slow_done(r, &r->seg[s], i);
    w->now = LUO_NEW_N(w->a, int32_t *, w->p->ntask + 1);
    for (int32_t k = 0; k <= w->p->ntask; k++) w->now[k] = LUO_NEW_N(w->a, int32_t, r->nbuf);
    int32_t *seen = LUO_NEW_N(w->a, int32_t, r->nbuf);
    add_states(w);
    for (int32_t t = 0; t < w->p->ntask; t++) walk_task(w, t, seen);
}

/* ---- the comparison ---- */

static void compare(const twin *w)
{
    for (int32_t i = 0; i < w->n; i++) {
        const value *x = &w->at[i];
        if (x->at < 0 || x->at % LUO_LAYOUT_ALIGN || x->at + x->bytes > w->l.bytes)
            broken(w, "it lies outside of the slab", x->buffer);
        for (int32_t j = 0; j < i; j++) {
            const value *y = &w->at[j];
            const bool time = x->first <= y->last && y->first <= x->last;
            const bool place = x->at < y->at + y->bytes && y->at < x->at + x->bytes;
            if (time && place) broken(w, "it overlaps another value that lives", x->buffer);
        }
    }
    met.values += w->n;
    met.pairs += (int64_t)w->n * (w->n - 1) / 2;
}

/* Micro-batches that have, at one time, values of a life and with copies as large as those of b:
 * each task that begins one counts. */
static int32_t most_at_once(const twin *w, int32_t b, int32_t *flight)
{
    int32_t most = 0;
    bool *begun = LUO_NEW_N(w->a, bool, w->p->ntask);
    memset(flight, 0, (size_t)w->p->ntask * sizeof *flight);
    for (int32_t t = 0; t < w->p->ntask; t++) {
        int32_t last = -1;
        for (int32_t k = 0; k < w->n; k++) {
            const value *x = &w->at[k];
            if (x->buffer < 0 || x->first_task != t || w->l.stride[x->buffer] != w->l.stride[b] ||
                w->l.life[x->buffer] != w->l.life[b])
                continue;
            begun[t] = true;
            if (x->last_task > last) last = x->last_task;
        }
        for (int32_t i = t; begun[t] && i <= last; i++)
            if (++flight[i] > most) most = flight[i];
    }
    return most;
}

/* No more copies of what is kept than micro-batches that have one at the same time. */
static void check_copies(const twin *w)
{
    int32_t *flight = LUO_NEW_N(w->a, int32_t, w->p->ntask + 1);
    for (int32_t b = 0; b < w->role->nbuf; b++) {
        if (w->l.stride[b] == 0) continue;
        int32_t last = -1;
        for (int32_t k = 0; k < w->n; k++) {
            if (w->at[k].buffer != b) continue;
            const int64_t copy = (w->at[k].at - w->l.at[b]) / w->l.stride[b];
            if (copy > last) last = (int32_t)copy;
        }
        if (last + 1 > most_at_once(w, b, flight))
            broken(w, "it has more copies than micro-batches are in flight", b);
        if (last + 1 > met.copies) met.copies = last + 1;
    }
}

static void check_device(luo_arena *a, const luo_programs *set, int32_t device, uint64_t seed)
{
    const luo_program *p = &set->at[device];
    const luo_role *r = &set->roles[p->role];
    luo_route *routes = LUO_NEW_N(a, luo_route, r->ninstr);
    twin w = {.a = a, .set = set, .p = p, .role = r, .routes = routes, .seed = seed};
    luo_memory memory;
    luo_err err = {0};
    for (int32_t i = 0; i < r->ninstr; i++)
        if (r->instr[i].exchange >= 0)
            ck_assert_msg(luo_route_of(a, set, p, i, &routes[i], &err) == LUO_OK, "%s", err.text);
    w.weight_bytes = seed % 4 / 2 * 2;
    ck_assert_int_eq(luo_layout_make(a, set, p, routes, seed % 2, w.weight_bytes, &w.l, &err),
                     LUO_OK);
    ck_assert_int_eq(luo_program_memory(a, set, p->device, &memory, &err), LUO_OK);
    ck_assert_int_eq(w.l.own + w.l.kept + w.l.work, w.l.bytes);
    walk(&w);
    compare(&w);
    check_copies(&w);
    const double ratio = (double)w.l.bytes / (double)memory.peak;
    if (ratio < met.least) met.least = ratio;
    if (ratio > met.most) met.most = ratio;
    met.devices++;
    met.bytes += w.l.bytes;
    met.predicted += memory.peak;
    met.own += w.l.own;
    met.kept += w.l.kept;
    met.work += w.l.work;
}

static int sharded;

static void one_case(uint64_t seed)
{
    static plan_tally plans;
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *p = plan_random(a, &r, &plans);
    const bool gpt = luo_rng_pick(&r, 3) == 0;
    const luo_model m =
        gpt ? luo_test_gpt(p->layers, 64, 8, 120) : luo_test_llama(p->layers, 64, 96, 8, 120);
    const luo_compile_opts opts = {.sequence_tokens = 256, .check = true};
    luo_programs *set = NULL;
    luo_err err = {0};
    p->dtype = luo_rng_pick(&r, 2) ? LUO_F32 : LUO_F64;
    sharded += plan_random_shard(&r, p, m.tied_embeddings);
    if (luo_plan_compile(a, p, &m, NULL, &opts, &set, &err) != LUO_OK)
        ck_abort_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    for (int32_t k = 0; k < 2; k++) check_device(a, set, (int32_t)luo_rng_pick(&r, set->n), seed);
    luo_arena_free(a);
}

enum { CASES = 200 };

START_TEST(layouts)
{
    LUO_PROP_FOR(seed, CASES) one_case(seed);
    printf(
        "%lld devices: %lld values, %lld pairs compared, up to %lld copies, %lld scratches, %lld "
        "lives made longer by communication\n",
        (long long)met.devices, (long long)met.values, (long long)met.pairs, (long long)met.copies,
        (long long)met.scratch, (long long)met.waiting);
    printf("bytes %lld (own %lld, kept %lld, work %lld), predicted %lld: ratio %.3f, of a device "
           "%.3f to %.3f\n",
           (long long)met.bytes, (long long)met.own, (long long)met.kept, (long long)met.work,
           (long long)met.predicted, (double)met.bytes / (double)met.predicted, met.least,
           met.most);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    ck_assert_int_gt(sharded, 20);
    ck_assert(met.copies > 2 && met.scratch > 40 && met.beside > 4 && met.waiting > 100);
    ck_assert(met.bytes < 2 * met.predicted);
}
END_TEST
LUO_MAIN("exec.layout", layouts, 1)
