/* state_init.c: first weights, by as many threads as this process has processors: the cells of a
 * billion parameters take a minute on one. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/rng.h"
#include "exec/bind/cells.h"
#include "exec/state/state_internal.h"

#define DEVIATION 0.02 /* of gpt2 (Radford et al. 2019, section 2.3), as is the scale below */

typedef struct filler {
    uint64_t key;
    double constant, deviation; /* deviation 0: the constant */
    size_t elem;
    void *to;
} filler;

static double uniform_of(uint64_t key, uint64_t i)
{
    return (double)(luo_rng_at(key, i) >> 11) * 0x1p-53;
}

static void fill(void *ctx, int64_t global, int64_t local, int64_t n)
{
    const filler *f = ctx;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t cell = 2 * (uint64_t)(global + i);
        double v = f->constant;
        if (f->deviation > 0)
            v = f->deviation *
                luo_rng_normal_of(uniform_of(f->key, cell), uniform_of(f->key, cell + 1));
        if (f->elem == sizeof(float))
            ((float *)f->to)[local + i] = (float)v;
        else
            ((double *)f->to)[local + i] = v;
    }
}

static bool holds(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static filler filler_of(const luo_param *param, const luo_model *model, uint64_t seed)
{
    filler f = {.key = luo_hash_str(luo_hash_str(LUO_HASH_EMPTY, "init#"), param->name) ^ seed};
    const bool bias = holds(param->name, ".bias");
    if (!luo_state_decays(param)) {
        f.constant = bias || model->norm_offset ? 0 : 1;
        return f;
    }
    f.deviation = DEVIATION;
    if (holds(param->name, "attn.out.") || holds(param->name, "mlp.down.") ||
        holds(param->name, "moe.down.") || holds(param->name, "moe.shared.down."))
        f.deviation /= sqrt(2 * (double)model->layers);
    return f;
}

void luo_piece_zero_moments(const luo_state *state, const luo_piece *piece)
{
    const size_t bytes = (size_t)piece->state_frame.volume * state->elem;
    if (piece->m && bytes) memset(piece->m, 0, bytes);
    if (piece->v && bytes) memset(piece->v, 0, bytes);
}

static void init_piece(const luo_state *state, const luo_piece *piece, const luo_model *model,
                       uint64_t seed)
{
    filler f = filler_of(piece->param, model, seed);
    f.elem = state->elem;
    f.to = piece->weight;
    if (piece->weight)
        luo_cells_each(&piece->param->shape, &piece->weight_frame.region, NULL, fill, &f);
    luo_piece_zero_moments(state, piece);
}

/* ---- threads ---- */

enum { THREADS_MOST = 32 };

typedef struct initializer {
    const luo_state *state;
    const luo_model *model;
    uint64_t seed;
    _Atomic int32_t next; /* piece that nobody has taken */
} initializer;

/* A cell depends on its name and index alone, so that it does not matter who takes which. */
static void *take_pieces(void *ctx)
{
    initializer *t = ctx;
    for (int32_t i; (i = atomic_fetch_add(&t->next, 1)) < t->state->n;)
        init_piece(t->state, &t->state->at[i], t->model, t->seed);
    return NULL;
}

/* Processors that this process may use, where the launcher bound it. */
static int32_t processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return CPU_COUNT(&set) < THREADS_MOST ? CPU_COUNT(&set) : THREADS_MOST;
}

void luo_state_init(const luo_state *state, const luo_model *model, uint64_t seed)
{
    initializer t = {.state = state, .model = model, .seed = seed};
    pthread_t helper[THREADS_MOST];
    int32_t n = 0;
    const int32_t most = processors() - 1;
    while (n < most && pthread_create(&helper[n], NULL, take_pieces, &t) == 0) n++;
    take_pieces(&t); /* whatever help there is */
    while (n > 0) pthread_join(helper[--n], NULL);
}
