/* state_make.h: the state of every device of a plan, in one process; ranks are threads.
 *
 *   state_world w; state_open(&w, "2: [0,1]*2 [2,3]*2", &model, zero, elem);
 *   state_truth(&w); state_each(&w, save, ctx); .. state_close(&w);
 */
#ifndef LUO_TESTS_EXEC_STATE_MAKE_H
#define LUO_TESTS_EXEC_STATE_MAKE_H
#include <pthread.h>
#include <signal.h>

#include "core/base/hash.h"
#include "core/base/rng.h"
#include "core/plan/plan.h"
#include "exec/bind/cells.h"
#include "exec/state/state_internal.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"

enum { STATE_RANKS = 16 };

typedef struct state_world {
    luo_arena *arena;
    luo_plan *plan;
    luo_model model;
    luo_param *param;
    int32_t nparam, n; /* ranks */
    size_t elem;
    luo_state state[STATE_RANKS];
    /* the gather */
    pthread_barrier_t barrier;
    const void *mine[STATE_RANKS];
    int64_t size[STATE_RANKS];
    void *copy[STATE_RANKS]; /* what the writer was given, which others do not wait for */
    int64_t copied[STATE_RANKS];
    int calls, fail_at, kill_at; /* gather number that fails or kills; 0: none */
} state_world;

static inline luo_region state_region(state_world *w, const luo_ann *a, const luo_shape *s,
                                      int32_t device)
{
    luo_holdings h;
    ck_assert_int_eq(luo_holdings_make(w->arena, a, s, &h, NULL), LUO_OK);
    for (int32_t i = 0; i < h.n; i++)
        if (h.at[i].dev == device) return h.at[i].region;
    return (luo_region){.rank = s->rank, .empty = true};
}

/* A quarter of the plan's pieces come with the working copy's frame around them, as on a rank. */
static inline void state_piece(state_world *w, luo_state *s, int32_t i)
{
    const luo_param *p = &w->param[i];
    luo_piece *piece = &s->at[i];
    *piece = (luo_piece){.param = p, .piece = state_region(w, p->state, &p->shape, s->device)};
    if (piece->piece.empty) return;
    luo_region around = state_region(w, p->weight, &p->shape, s->device);
    if (!luo_region_contains(&around, &piece->piece)) around = piece->piece;
    piece->weight_frame = (luo_frame){around, luo_region_volume(&around)};
    piece->state_frame = (luo_frame){piece->piece, luo_region_volume(&piece->piece)};
    piece->weight = luo_arena_calloc(w->arena, (size_t)piece->weight_frame.volume, w->elem);
    if (p->counted) return; /* no moments */
    piece->m = luo_arena_calloc(w->arena, (size_t)piece->state_frame.volume, w->elem);
    piece->v = luo_arena_calloc(w->arena, (size_t)piece->state_frame.volume, w->elem);
}

static inline void state_open(state_world *w, const char *line, const luo_model *model, int zero,
                              size_t elem)
{
    luo_err err = {0};
    int32_t *dev;
    *w = (state_world){.arena = luo_arena_new(0), .model = *model, .elem = elem};
    w->plan = luo_test_plan(w->arena, line);
    w->plan->zero = zero;
    w->plan->dtype = elem == 4 ? LUO_F32 : LUO_F64;
    if (luo_plan_params(w->arena, w->plan, &w->model, &w->param, &w->nparam, &err) != LUO_OK)
        ck_abort_msg("%s: %s", line, err.text);
    ck_assert_int_eq(luo_plan_devices(w->arena, w->plan, &dev, &w->n, &err), LUO_OK);
    ck_assert_int_le(w->n, STATE_RANKS);
    for (int32_t r = 0; r < w->n; r++) {
        luo_state *s = &w->state[r];
        *s = (luo_state){dev[r], w->nparam, LUO_NEW_N(w->arena, luo_piece, w->nparam), elem, 0};
        for (int32_t i = 0; i < w->nparam; i++) state_piece(w, s, i);
    }
    pthread_barrier_init(&w->barrier, NULL, (unsigned)w->n);
}

static inline void state_close(state_world *w)
{
    for (int32_t r = 0; r < w->n; r++) free(w->copy[r]);
    pthread_barrier_destroy(&w->barrier);
    luo_arena_free(w->arena);
}

/* ---- numbers that tell their cell ---- */

static inline double state_true(const luo_param *p, int which, int64_t cell)
{
    const uint64_t key = luo_hash_str(LUO_HASH_EMPTY, p->name) + (uint64_t)which;
    return (double)(luo_rng_at(key, (uint64_t)cell) >> 43) * 0x1p-21 - 0.5; /* exact in f32 */
}

typedef struct state_walk {
    const luo_param *param;
    char *array;
    int which;
    size_t elem;
    bool check;
    int64_t wrong, seen;
} state_walk;

static inline void state_put(void *array, size_t elem, int64_t at, double v)
{
    if (elem == 4)
        ((float *)array)[at] = (float)v;
    else
        ((double *)array)[at] = v;
}

static inline double state_get(const void *array, size_t elem, int64_t at)
{
    return elem == 4 ? (double)((const float *)array)[at] : ((const double *)array)[at];
}

static inline void state_walk_run(void *ctx, int64_t global, int64_t local, int64_t n)
{
    state_walk *k = ctx;
    for (int64_t i = 0; i < n; i++) {
        const double v = state_true(k->param, k->which, global + i);
        if (k->check)
            k->wrong += state_get(k->array, k->elem, local + i) != v;
        else
            state_put(k->array, k->elem, local + i, v);
    }
    k->seen += n;
}

/* Fills or checks the given arrays (bit 0 weights, 1 m, 2 v); the number of cells that differ. */
static inline int64_t state_truth(state_world *w, int arrays, bool check)
{
    int64_t wrong = 0;
    for (int32_t r = 0; r < w->n; r++)
        for (int32_t i = 0; i < w->nparam; i++)
            for (int which = 0; which < 3; which++) {
                const luo_frame *f;
                const luo_piece *p = &w->state[r].at[i];
                state_walk k = {
                    p->param, luo_piece_array(p, (luo_array)which, &f), which, w->elem, check, 0,
                    0};
                if (!k.array || !(arrays >> which & 1)) continue;
                luo_cells_each(&p->param->shape, &f->region, NULL, state_walk_run, &k);
                ck_assert_int_eq(k.seen, f->volume);
                wrong += k.wrong;
            }
    return wrong;
}

/* ---- ranks as threads ---- */

typedef struct state_rank {
    state_world *w;
    int32_t rank;
    luo_status st;
    luo_err err;
    int calls; /* of gather */
    luo_status (*run)(struct state_rank *r, const luo_gather *gather);
    void *ctx;
} state_rank;

static inline luo_status state_gather(void *ctx, const void *mine, int64_t n,
                                      const void *const **out, const int64_t **sizes,
                                      int32_t *ranks, luo_err *err)
{
    state_rank *r = ctx;
    state_world *w = r->w;
    w->mine[r->rank] = mine;
    w->size[r->rank] = n;
    pthread_barrier_wait(&w->barrier);
    if (r->rank == 0) {
        w->calls++;
        if (w->calls == w->kill_at) raise(SIGKILL);
        for (int32_t k = 0; k < w->n; k++) {
            free(w->copy[k]);
            w->copied[k] = w->size[k];
            w->copy[k] = malloc((size_t)w->size[k] + 1);
            if (w->size[k]) memcpy(w->copy[k], w->mine[k], (size_t)w->size[k]);
        }
    }
    pthread_barrier_wait(&w->barrier);
    const int calls = ++r->calls;
    *out = (const void *const *)w->copy;
    *sizes = w->copied;
    *ranks = w->n;
    if (calls == w->fail_at) return luo_err_set(err, LUO_EPEER, "a rank is gone.");
    return LUO_OK;
}

static inline void *state_thread(void *arg)
{
    state_rank *r = arg;
    const luo_gather gather = {r, r->rank == 0, state_gather};
    r->st = r->run(r, &gather);
    return NULL;
}

/* Runs every rank in a thread. */
static inline void state_each(state_world *w, state_rank *ranks,
                              luo_status (*run)(state_rank *r, const luo_gather *gather), void *ctx)
{
    pthread_t thread[STATE_RANKS];
    w->calls = 0;
    for (int32_t r = 0; r < w->n; r++) {
        ranks[r] = (state_rank){.w = w, .rank = r, .run = run, .ctx = ctx};
        ck_assert_int_eq(pthread_create(&thread[r], NULL, state_thread, &ranks[r]), 0);
    }
    for (int32_t r = 0; r < w->n; r++) pthread_join(thread[r], NULL);
}

static inline luo_status state_save_rank(state_rank *r, const luo_gather *gather)
{
    return luo_state_save_weights(&r->w->state[r->rank], &r->w->model, r->ctx, gather, &r->err);
}

/* Saves the weights; the writer's status, all others being LUO_OK. */
static inline luo_status state_save_weights(state_world *w, const char *path, luo_err *err)
{
    static state_rank ranks[STATE_RANKS];
    state_each(w, ranks, state_save_rank, (void *)path);
    for (int32_t r = 1; r < w->n; r++) ck_assert_int_eq(ranks[r].st, LUO_OK);
    if (err) *err = ranks[0].err;
    return ranks[0].st;
}

/* ---- models and plans that fit each other ---- */

static inline luo_model state_model(int kind)
{
    luo_model m = kind == 3 ? luo_test_gpt(4, 24, 4, 40) : luo_test_llama(4, 24, 36, 4, 40);
    m.max_sequence_tokens = 16;
    if (kind == 1 || kind == 2) m.kv_heads = 2;
    if (kind == 1) m.qkv_bias = m.qk_norm = true;
    if (kind == 2) m.tied_embeddings = m.linear_bias = m.out_bias = true;
    if (kind == 4) {
        m.family = LUO_FAMILY_MOE;
        m.moe = (luo_moe){5, 2, 12, .every_layers = 2, .gate = LUO_GATE_SIGMOID, .bias_rate = 0.01};
    }
    return m;
}
enum { STATE_MODELS = 5 };

static const char *const state_lines[] = {
    "1: [0]*4",
    "2: [0,1]*2 [2,3]*2",
    "1: [0-3]*4 || 1: [4,5]*4",
    "1: [0,1]:(3,1)*4 || 1: [2]*1 [3]*3",
    "1: [3]*2 [1]*2 || 1: [0,2]*4 || 1: [4]*4",
    "2: [0,1]*1+1 [2,3]*1+1",
    "1: [0]*4 || 1: [1]*4 || 1: [2]*4 || 1: [3]*4",
};

/* Bytes of a file, in malloc memory. */
static inline char *state_slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *at = malloc(*n + 1);
    ck_assert(at && fread(at, 1, *n, f) == *n);
    at[*n] = 0;
    fclose(f);
    return at;
}
#endif
