/* hap.h: programs of the planner `hap` train like one device: loss, norm, weights and both moments
 * (the first one after a step is the gradient). Programs are drawn at random from all that the
 * planner may choose, on 2 to 6 devices with uneven pieces, some of them empty. Run by
 * `mpirun -n 8`, on the executor of the lab. */
#ifndef LUO_TESTS_MPI_HAP_H
#define LUO_TESTS_MPI_HAP_H
#include "core/plan/hap/emit.h"
#include "core/plan/hap/space_internal.h"
#include "core/plan/hap_graph/hap_model.h"
#include "tests/mpi/accept.h"
#include "tests/prop/gen_ann.h"

typedef struct hap_drawn {
    luo_arena *a;
    luo_rng rng;
    luo_model model;
    kind kind;
    int32_t n, sequences;
    luo_hap_graph *graph;
    luo_hap_space *space;
    luo_hap_numbers numbers;
    luo_hap_program program;
    double shares[2 * 4]; /* [segment][type] */
    const char *letters;  /* that may be cut; NULL: all */
} hap_drawn;

/* Of one segment. */
static inline void hap_shares(hap_drawn *d, double *shares)
{
    static const double parts[] = {0, 1, 1, 2, 3, 5};
    for (int t = 0; t < 2; t++) shares[t] = parts[luo_rng_pick(&d->rng, 6)];
    if (shares[0] + shares[1] == 0) shares[0] = 1;
    const double sum = shares[0] * d->numbers.count[0] + shares[1] * d->numbers.count[1];
    for (int t = 0; t < 2; t++) shares[t] /= sum;
}

static inline void hap_numbers(hap_drawn *d)
{
    d->n = luo_gen_int(&d->rng, 2, 6);
    d->numbers = (luo_hap_numbers){.ntypes = 2, .name = {"a", "b"}};
    d->numbers.count[0] = luo_gen_int(&d->rng, 1, d->n - 1);
    d->numbers.count[1] = d->n - d->numbers.count[0];
    for (int t = 0; t < 2; t++)
        for (int c = 0; c < LUO_HAP_CLASSES; c++) d->numbers.speed[t][c] = 1e12;
    for (int l = 0; l < LUO_HAP_LINKS; l++) d->numbers.line[l] = (luo_hap_line){1e-6, 1e9};
}

static inline bool hap_fits(const hap_drawn *d, const luo_hap_triple *t, const bool *there)
{
    const char letter = d->space->rule[t->op][t->rule].letter;
    bool good = true;
    for (int32_t k = 0; k < t->npre; k++) good &= there[t->pre[k]];
    return good && (d->letters == NULL || letter == 0 || strchr(d->letters, letter));
}

/* Any triple whose facts are there, one that runs everywhere less often. */
static inline int32_t hap_triple(hap_drawn *d, const bool *there, int32_t o)
{
    const luo_hap_space *space = d->space;
    int32_t n = 0, chosen = -1;
    for (int32_t i = space->first[o]; i < space->first[o + 1]; i++) {
        const luo_hap_triple *t = &space->triple[i];
        const bool everywhere = space->rule[o][t->rule].letter == 0;
        if (!hap_fits(d, t, there) || (everywhere && luo_rng_pick(&d->rng, 4))) continue;
        if (luo_rng_pick(&d->rng, ++n) == 0) chosen = i;
    }
    return chosen;
}

static inline bool hap_program(hap_drawn *d)
{
    bool *there = LUO_NEW_N(d->a, bool, d->space->nfacts);
    d->program =
        (luo_hap_program){.space = d->space, .choice = LUO_NEW_N(d->a, int32_t, d->graph->nops)};
    for (int32_t o = 0; o < d->graph->nops; o++) {
        int32_t chosen = -1;
        for (int tries = 0; tries < 50 && chosen < 0; tries++) chosen = hap_triple(d, there, o);
        if (chosen < 0) return false;
        d->program.choice[o] = chosen;
        const luo_hap_triple *t = &d->space->triple[chosen];
        for (int32_t k = 0; k < t->npost; k++) there[t->post[k]] = true;
    }
    return true;
}

static inline void hap_stop(const char *what, const luo_err *err, uint64_t seed)
{
    char text[64];
    snprintf(text, sizeof text, "%s, LUO_SEED=%llu", what, (unsigned long long)seed);
    luo_lab_die(text, err);
}

/* Types stand in the list as they come; the devices of the first need not be the lowest. */
static inline luo_plan *hap_plan(hap_drawn *d, luo_dtype dtype, uint64_t seed)
{
    char line[64];
    luo_err err = {0};
    int32_t *device = LUO_NEW_N(d->a, int32_t, d->n);
    const int32_t turn = (int32_t)luo_rng_pick(&d->rng, d->n);
    for (int32_t i = 0; i < d->n; i++) device[i] = (i + turn) % d->n;
    snprintf(line, sizeof line, "%d: [0]*2", luo_gen_int(&d->rng, 1, 2));
    luo_plan *plan = luo_test_plan(d->a, line);
    luo_pipeline *pipe = (luo_pipeline *)plan->pipelines;
    luo_stage *stage = (luo_stage *)pipe->stages;
    stage->dev = device;
    stage->ndev = d->n;
    stage->recompute = luo_rng_pick(&d->rng, 4) ? LUO_RECOMPUTE_NONE : LUO_RECOMPUTE_FULL;
    plan->schedule = luo_rng_pick(&d->rng, 4) ? LUO_SCHED_1F1B : LUO_SCHED_ZB_H1;
    plan->dtype = dtype;
    plan->sequence_parallel = false;
    plan->sequence_tokens = TOKENS;
    pipe->micro_batch_sequences = plan->micro_batch_sequences = d->sequences;
    luo_plan_annotation *at;
    if (luo_hap_emit(d->a, &d->program, &d->numbers, d->shares, device, &at, &plan->nannotations,
                     &err) != LUO_OK)
        hap_stop("emit", &err, seed);
    plan->annotations = at;
    return plan;
}

static inline bool hap_run(luo_lab *lab, luo_dtype dtype, uint64_t seed, bool *ran)
{
    hap_drawn d = {.a = luo_arena_new(1 << 20), .rng = luo_rng_seed(seed)};
    d.letters = getenv("LUO_LETTERS");
    luo_err err = {0};
    luo_str text = {0};
    d.kind = (kind)luo_rng_pick(&d.rng, KINDS);
    d.model = model_of(d.kind, 2);
    d.sequences = luo_gen_int(&d.rng, 1, 7);
    hap_numbers(&d);
    const luo_hap_opts opts = {
        .sayable = true, .zero = luo_rng_pick(&d.rng, 3) == 0, .factors = luo_rng_pick(&d.rng, 2)};
    const bool segments = luo_rng_pick(&d.rng, 3) == 0;
    if (luo_hap_model_graph(d.a, &d.model, dtype, d.sequences, TOKENS, &d.graph, &err) !=
            LUO_OK ||
        (segments && luo_hap_graph_cut(d.graph, 0, &err) != LUO_OK) ||
        luo_hap_space_new(d.a, d.graph, &opts, &d.space, &err) != LUO_OK)
        hap_stop("space", &err, seed);
    for (int32_t s = 0; s < d.graph->nsegments; s++) hap_shares(&d, &d.shares[2 * s]);
    *ran = hap_program(&d);
    if (!*ran) return true;
    const luo_plan *plan = hap_plan(&d, dtype, seed);
    luo_str_addf(&text,
                 "LUO_SEED=%llu LUO_CASES=1: model %d, %d + %d devices, shares %g %g, %d of "
                 "%d sequences\n",
                 (unsigned long long)seed, (int)d.kind, d.numbers.count[0], d.numbers.count[1],
                 d.shares[0], d.shares[1], plan->pipelines[0].micro_batches, d.sequences);
    luo_hap_program_print(&text, &d.program);
    const row r = {.line = luo_str_get(&text), .model = d.kind};
    if (getenv("LUO_SHOW") && lab->rank == 0) printf("%s\n", luo_str_get(&text)), fflush(stdout);
    const bool good = run_plan(d.a, lab, &r, plan); /* frees the arena */
    luo_str_free(&text);
    return good;
}
#endif
