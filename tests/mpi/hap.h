/* hap.h: programs of the planner `hap` train like one device: loss, norm, weights and both moments
 * (the first one after a step is the gradient). Programs are drawn at random from all that the
 * planner may choose, on 2 to 6 devices with uneven pieces, some of them empty, of models with
 * experts and of feed-forward alone, too; beside them stand programs that the planner found. Run by
 * `mpirun -n 8`, on the executor of the lab. */
#ifndef LUO_TESTS_MPI_HAP_H
#define LUO_TESTS_MPI_HAP_H
#include "core/plan/hap/emit.h"
#include "core/plan/hap/space_internal.h"
#include "core/plan/hap_graph/hap_model.h"
#include "tests/mpi/experts.h"
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
    bool together; /* every device chooses for all tokens: which choices are dropped hangs on it */
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
    const luo_hap_kind does = d->graph->op[t->op].kind;
    bool good = true;
    if (d->together && (does == LUO_HAP_ROUTE || does == LUO_HAP_HASH || does == LUO_HAP_PACK))
        good = letter == 0;
    for (int32_t k = 0; k < t->npre; k++) good &= there[t->pre[k]];
    return good && (d->letters == NULL || letter == 0 || strchr(d->letters, letter));
}

/* Any triple whose facts are there, one that runs everywhere less often, one that cuts by experts
 * more often. */
static inline int32_t hap_triple(hap_drawn *d, const bool *there, int32_t o)
{
    const luo_hap_space *space = d->space;
    int32_t n = 0, chosen = -1;
    for (int32_t i = space->first[o]; i < space->first[o + 1]; i++) {
        const luo_hap_triple *t = &space->triple[i];
        const bool everywhere = space->rule[o][t->rule].letter == 0;
        if (!hap_fits(d, t, there) || (everywhere && luo_rng_pick(&d->rng, 4))) continue;
        const bool deals = space->rule[o][t->rule].letter == 'e' && d->model.moe.experts > 0;
        for (int times = deals ? 6 : 1; times > 0; times--)
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
    snprintf(line, sizeof line, "%d: [0]*%d", luo_gen_int(&d->rng, 1, 2), (int)d->model.layers);
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

/* Heads that are made of latent vectors. */
static inline void hap_latent(hap_drawn *d)
{
    luo_model *m = &d->model;
    m->latent = (luo_latent){.q_lora = luo_rng_pick(&d->rng, 2) ? 11 : 0,
                             .kv_lora = 6 + luo_rng_pick(&d->rng, 8),
                             .nope = 1 + luo_rng_pick(&d->rng, 6),
                             .rope = 2 * (1 + luo_rng_pick(&d->rng, 3)),
                             .v = 1 + luo_rng_pick(&d->rng, 9)};
    m->head_dim = m->latent.nope + m->latent.rope;
    m->qk_norm = false;
}

/* A model with experts; a capacity that drops nothing, or is the same for all devices. */
static inline void hap_experts(hap_drawn *d, luo_dtype dtype)
{
    const experts_kinds kinds = {.dtype = dtype, .steady = dtype != LUO_F64};
    d->model = experts_draw_model(&d->rng, &kinds, 2, 1);
    luo_moe *moe = &d->model.moe;
    if (luo_rng_pick(&d->rng, 3) == 0) hap_latent(d);
    if (luo_rng_pick(&d->rng, 3) > 0 || moe->gate == LUO_GATE_SAM) return; /* it drops nothing */
    d->together = luo_rng_pick(&d->rng, 2);
    moe->capacity_factor = d->together ? 0.75 : (double)moe->experts;
}

static inline void hap_say(const hap_drawn *d, const luo_plan *plan, uint64_t seed, luo_str *text)
{
    const luo_moe *moe = &d->model.moe;
    luo_str_addf(text,
                 "LUO_SEED=%llu LUO_CASES=1: model %d, %d + %d devices, shares %g %g, %d of "
                 "%d sequences\n",
                 (unsigned long long)seed, (int)d->kind, d->numbers.count[0], d->numbers.count[1],
                 d->shares[0], d->shares[1], plan->pipelines[0].micro_batches, d->sequences);
    if (moe->experts)
        luo_str_addf(text, "%s of %d experts, %d each, %d shared, capacity %g, latent %d of %d\n",
                     luo_gate_kind_name(moe->gate), (int)moe->experts, (int)moe->experts_per_token,
                     (int)moe->shared_experts, moe->capacity_factor, (int)d->model.latent.kv_lora,
                     (int)d->model.latent.q_lora);
    luo_hap_program_print(text, &d->program);
}

typedef struct hap_tally { /* programs that ran, and those of them in which .. */
    int ran, dealt, none, copies, columns, dropped, latent;
    /* some gather, some scatter of uneven pieces is carried out so */
    int as[2][LUO_COLL_VARIANTS];
} hap_tally;

static inline void hap_count_variants(luo_lab *lab, hap_drawn *d, const luo_plan *plan,
                                      hap_tally *t)
{
    bool seen[2][LUO_COLL_VARIANTS] = {{false}};
    luo_programs *set;
    luo_err err = {0};
    const luo_compile_opts opts = {0};
    if (luo_plan_compile(d->a, plan, &d->model, lab->cluster, &opts, &set, &err) != LUO_OK)
        luo_lab_die("compile", &err);
    for (int32_t r = 0; r < set->nroles; r++)
        for (int32_t i = 0; i < set->roles[r].ninstr; i++) {
            const luo_instr *in = &set->roles[r].instr[i];
            if (in->kind == LUO_INSTR_COLLECTIVE && in->v && in->coll != LUO_COLL_A2A)
                seen[in->coll == LUO_COLL_RS][in->variant] = true;
        }
    for (int c = 0; c < 2; c++)
        for (int v = 0; v < LUO_COLL_VARIANTS; v++) t->as[c][v] += seen[c][v];
}

/* Are there gathers and scatters of uneven pieces, both carried out in both ways? */
static inline bool hap_has_variants(const luo_lab *lab, const hap_tally *t, const char *which)
{
    const int *ag = t->as[0], *rs = t->as[1];
    if (lab->rank == 0)
        printf("%s: padded gathers in %d programs, scatters in %d, grouped in %d and %d, neither "
               "in %d and %d\n",
               which, ag[LUO_COLL_PADDED], rs[LUO_COLL_PADDED], ag[LUO_COLL_GROUPED],
               rs[LUO_COLL_GROUPED], ag[LUO_COLL_AUTO], rs[LUO_COLL_AUTO]);
    return ag[LUO_COLL_PADDED] && ag[LUO_COLL_GROUPED] && rs[LUO_COLL_PADDED] &&
           rs[LUO_COLL_GROUPED];
}

/* Variants that are drawn in place of what the planner would have chosen, for all or one by one. */
static inline void hap_force(hap_drawn *d, luo_plan *plan)
{
    static const char *const words[] = {LUO_COLL_VARIANT_LIST(LUO_WORD_TEXT)};
    luo_plan_annotation *at = (luo_plan_annotation *)plan->annotations;
    const int64_t all = luo_rng_pick(&d->rng, 2 + LUO_COLL_VARIANTS);
    for (int32_t i = 0; i < plan->nannotations && all > 0; i++) {
        const int64_t one = luo_rng_pick(&d->rng, LUO_COLL_VARIANTS);
        if (strcmp(at[i].variant, "factors") != 0) at[i].variant = words[all > 1 ? all - 2 : one];
    }
}

/* How the products of experts are cut. */
static inline void hap_count(const hap_drawn *d, hap_tally *t)
{
    bool dealt = false, columns = false, copies = false;
    for (int32_t o = 0; o < d->graph->nops; o++) {
        const luo_hap_triple *triple = &d->space->triple[d->program.choice[o]];
        const char letter = d->space->rule[o][triple->rule].letter;
        if (d->graph->op[o].kind != LUO_HAP_ROWS && d->graph->op[o].kind != LUO_HAP_ROWS_PAIR)
            continue;
        dealt |= letter == 'e';
        columns |= letter == 'w';
        copies |= letter == 'b';
    }
    t->ran++;
    t->dealt += dealt;
    t->none += dealt && (d->shares[0] == 0 || d->shares[1] == 0);
    t->columns += columns;
    t->copies += copies;
    t->dropped += d->together;
    t->latent += d->model.latent.kv_lora > 0;
}

typedef enum hap_models { HAP_ATTENTION, HAP_EXPERTS, HAP_FEED_FORWARD } hap_models;

static inline bool hap_run(luo_lab *lab, luo_dtype dtype, uint64_t seed, hap_models models,
                           hap_tally *tally)
{
    hap_drawn d = {.a = luo_arena_new(1 << 20), .rng = luo_rng_seed(seed)};
    d.letters = getenv("LUO_LETTERS");
    luo_err err = {0};
    luo_str text = {0};
    d.kind = (kind)luo_rng_pick(&d.rng, KINDS);
    if (models == HAP_FEED_FORWARD) d.kind = random_mlp(&d.rng);
    d.model = model_of(d.kind, 2);
    if (models == HAP_EXPERTS) hap_experts(&d, dtype);
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
    const bool ran = hap_program(&d);
    bool good = true;
    if (ran) {
        luo_plan *plan = hap_plan(&d, dtype, seed);
        hap_force(&d, plan);
        hap_count_variants(lab, &d, plan, tally);
        hap_say(&d, plan, seed, &text);
        if (getenv("LUO_SHOW") && lab->rank == 0)
            printf("%s\n", luo_str_get(&text)), fflush(stdout);
        good = run_against_one(lab, luo_dtype_name(dtype), plan, &d.model, luo_str_get(&text));
        hap_count(&d, tally);
    }
    luo_str_free(&text);
    luo_arena_free(d.a);
    return good;
}

/* ---- programs of the planner itself ---- */

/* What the alternation finds with these devices and links. Numbers are made up. */
typedef struct hap_case {
    const char *name;
    kind kind;
    bool open; /* a token sees all others, as in BERT */
    int32_t layers, sequences, count[2];
    double speed[2]; /* FLOP/s and bytes/s of a type */
    double link;     /* bytes/s; latencies 0 */
    luo_moe moe;
    luo_latent latent;
    luo_hap_zero zero;
    bool segments;     /* shares of their own for every layer */
    const char *rules; /* NULL: all letters */
    double shares[2];  /* that stand instead of the planner's; zeros: its own */
    char letter;       /* by which experts' products are cut; 0: no experts, or any */
    double grouped;    /* share of the link that groups of broadcasts and reduces get; 0: all */
} hap_case;

#pragma GCC diagnostic push /* what a row leaves out is 0 */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const hap_case hap_cases[] = {
    {"gpt, tokens", GPT, false, 2, 8, {1, 1}, {3e6, 1e6}, 1e9},
    {"bert", GPT, true, 2, 9, {1, 2}, {4e6, 1e6}, 1e7},
    {"bert, segments", GPT, true, 3, 6, {2, 2}, {3e6, 1e6}, 1e5, .segments = true},
    {"bert, padded", GPT, true, 2, 9, {1, 2}, {4e6, 1e6}, 1e7, .grouped = 0.1},
    {"llama, ZeRO, padded", LLAMA, false, 2, 10, {2, 3}, {2e6, 1e6}, 1e8, .zero = LUO_HAP_ZERO_ON,
     .rules = "b", .shares = {0.26, 0.16}, .grouped = 0.1},
    {"bert, one layer, slow links", GPT, true, 1, 4, {1, 1}, {3e6, 1e6}, 2e4},
    {"llama, feed-forward columns", LLAMA, false, 2, 2, {1, 2}, {3e6, 1e6}, 1e7},
    {"llama, ZeRO", LLAMA, false, 2, 10, {2, 3}, {2e6, 1e6}, 1e8, .zero = LUO_HAP_ZERO_ON,
     .rules = "b"},
    {"grouped heads, more devices than sequences", GROUPED, false, 1, 3, {2, 4}, {3e6, 1e6}, 1e6},
    {"norms of heads", QKNORM, false, 2, 7, {1, 3}, {5e6, 1e6}, 1e8},
    {"mlp, tokens", MLP_BIASED, false, 2, 8, {1, 1}, {3e6, 1e6}, 1e9},
    {"mlp, feed-forward columns", MLP, false, 2, 1, {1, 2}, {3e6, 1e6}, 1e8, .rules = "f"},
    {"gated mlp, few sequences", MLP_GATED, false, 3, 2, {2, 3}, {4e6, 1e6}, 1e7},
    {"gated mlp, columns and rows", MLP_GATED_BIASED, false, 2, 2, {1, 3}, {5e6, 1e6}, 1e8,
     .rules = "fhv"},
    {"mlp, ZeRO", MLP_BIASED, false, 2, 10, {2, 3}, {2e6, 1e6}, 1e8, .zero = LUO_HAP_ZERO_ON,
     .rules = "b"},
    {"gated mlp, segments", MLP_GATED_BIASED, false, 3, 6, {2, 2}, {3e6, 1e6}, 1e5,
     .segments = true},
    {"mixtral", GROUPED, false, 2, 8, {1, 2}, {3e6, 1e6}, 1e7,
     .letter = 'b',
     .moe = {8, 2, 24, .every_layers = 1, .renorm = true}},
    {"mixtral, slow links", LLAMA, false, 2, 8, {2, 2}, {3e6, 1e6}, 1e5,
     .letter = 'e',
     .moe = {8, 2, 24, .every_layers = 1, .renorm = true, .aux_loss = 0.5}},
    {"deepseek", LLAMA, false, 3, 9, {2, 3}, {3e6, 1e6}, 1e5,
     .letter = 'e',
     .latent = {.q_lora = 11, .kv_lora = 7, .nope = 6, .rope = 2, .v = 5},
     .moe = {24, 2, 24, .every_layers = 1, .first_dense_layers = 1, .gate = LUO_GATE_SIGMOID,
             .routed_scale = 1.5, .bias_rate = 0.05, .shared_experts = 2, .shared_ffn_hidden = 12}},
    {"switch", LLAMA, false, 2, 6, {1, 1}, {3e6, 1e6}, 1e5,
     .letter = 'w',
     .moe = {5, 1, 48, .every_layers = 2, .aux_loss = 0.5}},
    {"experts for few sequences", LLAMA, false, 2, 2, {2, 4}, {3e6, 1e6}, 1e7,
     .letter = 'w',
     .moe = {6, 2, 48, .every_layers = 1}},
    {"hash", LLAMA, false, 2, 8, {2, 2}, {4e6, 1e6}, 1e6,
     .letter = 'e',
     .moe = {9, 1, 24, .every_layers = 1, .gate = LUO_GATE_HASH}},
    {"choices that are dropped, by all devices alike", LLAMA, false, 2, 4, {1, 2}, {3e6, 1e6}, 1e6,
     .letter = 'w',
     .rules = "w",
     .moe = {6, 2, 24, .every_layers = 1, .capacity_factor = 0.75}},
    {"a device without tokens and experts", LLAMA, false, 2, 2, {4, 1}, {2e6, 3e6}, 1e5,
     .letter = 'e',
     .rules = "be",
     .shares = {0.181818, 0.272728},
     .moe = {4, 2, 24, .every_layers = 1}},
    {"devices without tokens and experts", LLAMA, false, 2, 6, {2, 3}, {3e6, 1e6}, 1e5,
     .letter = 'e',
     .shares = {0.5, 0},
     .moe = {8, 2, 24, .every_layers = 1}},
    {"segments of experts", LLAMA, false, 2, 8, {1, 3}, {4e6, 1e6}, 1e6,
     .letter = 'e',
     .segments = true,
     .moe = {7, 2, 24, .every_layers = 2}},
};
#pragma GCC diagnostic pop
enum { HAP_CASES = sizeof hap_cases / sizeof *hap_cases };

static inline void hap_case_numbers(hap_drawn *d, const hap_case *c)
{
    d->n = c->count[0] + c->count[1];
    d->numbers = (luo_hap_numbers){.ntypes = 2, .name = {"a", "b"}};
    for (int t = 0; t < 2; t++) {
        d->numbers.count[t] = c->count[t];
        for (int k = 0; k < LUO_HAP_CLASSES; k++) d->numbers.speed[t][k] = c->speed[t];
    }
    for (int l = 0; l < LUO_HAP_LINKS; l++) d->numbers.line[l] = (luo_hap_line){0, c->link};
    d->numbers.line[LUO_HAP_LINK_A2A].bandwidth_bytes_s *= d->n;
    if (c->grouped > 0) {
        d->numbers.line[LUO_HAP_LINK_AG_GROUPED].bandwidth_bytes_s *= c->grouped;
        d->numbers.line[LUO_HAP_LINK_RS_GROUPED].bandwidth_bytes_s *= c->grouped;
    }
    if (c->zero == LUO_HAP_ZERO_ON) d->numbers.line[LUO_HAP_LINK_AR].bandwidth_bytes_s /= 4;
}

static inline luo_model hap_case_model(const hap_case *c)
{
    luo_model m = model_of(c->kind, c->layers);
    m.causal = !c->open;
    m.moe = c->moe;
    m.latent = c->latent;
    if (m.latent.kv_lora) m.head_dim = m.latent.nope + m.latent.rope;
    if (m.moe.experts) m.family = LUO_FAMILY_MOE;
    return m;
}

/* Unlike devices get unlike shares, and experts are cut as the row says. */
static inline bool hap_case_good(const luo_lab *lab, const hap_drawn *d, const hap_case *c)
{
    hap_tally t = {0};
    hap_count(d, &t);
    const bool uneven = d->shares[0] != d->shares[1];
    const int cut = c->letter == 'e' ? t.dealt : c->letter == 'w' ? t.columns : t.copies;
    const bool good = uneven && (c->letter == 0 || cut);
    if (lab->rank == 0 && !good)
        printf("%s: shares %g %g; experts dealt in %d, their columns cut in %d, copies in %d\n",
               c->name, d->shares[0], d->shares[1], t.dealt, t.columns, t.copies);
    return good;
}

static inline bool hap_run_case(luo_lab *lab, luo_dtype dtype, const hap_case *c,
                                hap_tally *found)
{
    hap_drawn d = {.a = luo_arena_new(1 << 20), .rng = luo_rng_seed(1), .sequences = c->sequences};
    luo_err err = {0};
    luo_str text = {0};
    luo_hap_result *result;
    const luo_hap_job job = {.opts = {.sayable = true, .factors = true, .rules = c->rules},
                             .no_memory = true,
                             .zero = c->zero};
    d.model = hap_case_model(c);
    hap_case_numbers(&d, c);
    if (luo_hap_model_graph(d.a, &d.model, dtype, d.sequences, TOKENS, &d.graph, &err) != LUO_OK ||
        (c->segments && luo_hap_graph_cut(d.graph, 0, &err) != LUO_OK) ||
        luo_hap_alternate(d.a, d.graph, &d.numbers, &job, &result, &err) != LUO_OK)
        luo_lab_die(c->name, &err);
    d.space = (luo_hap_space *)result->space;
    d.program = *result->program;
    d.numbers = result->numbers;
    memcpy(d.shares, result->shares, 2 * (size_t)d.graph->nsegments * sizeof *d.shares);
    for (int32_t i = 0; c->shares[0] > 0 && i < 2 * d.graph->nsegments; i++)
        d.shares[i] = c->shares[i % 2];
    const luo_plan *plan = hap_plan(&d, dtype, 0);
    luo_str_addf(&text, "%s\n", c->name);
    hap_say(&d, plan, 0, &text);
    if (getenv("LUO_SHOW") && lab->rank == 0) printf("%s\n", luo_str_get(&text)), fflush(stdout);
    hap_count_variants(lab, &d, plan, found);
    const bool as_asked = hap_case_good(lab, &d, c);
    const bool good =
        run_against_one(lab, luo_dtype_name(dtype), plan, &d.model, luo_str_get(&text));
    luo_str_free(&text);
    luo_arena_free(d.a);
    return good && as_asked;
}
#endif
