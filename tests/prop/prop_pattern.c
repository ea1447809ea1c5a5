/* prop_pattern.c: programs of random plans for steps of random lengths, bound to patterns of the
 * steps before, are those that are emitted role by role: text, hash, buffers and exchanges. */
#include "core/graph/specialize/pattern.h"
#include "tests/check_main.h"
#include "tests/cluster_fixture.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

enum { STEPS = 4, CASES = 100, SMALL = 1 << 16 };

typedef struct tally {
    plan_tally plans;
    int context, sharded, experts, led, idle, empty, small, refused;
    int64_t emitted, bound, twin;
} tally;

/* ---- steps ---- */

static int64_t some_tokens(luo_rng *r, tally *t)
{
    if (luo_rng_pick(r, 8)) return 8 * (1 + luo_rng_pick(r, 6));
    const int64_t few = luo_rng_pick(r, 4); /* some devices of a stage get none of them */
    t->empty += few == 0;
    return few;
}

/* As a packed batch: other micro-batches of other lengths in every pipeline; under ZeRO-2 and 3
 * equally many in all of them. */
static void draw_step(luo_arena *a, luo_rng *r, luo_plan *p, tally *t)
{
    luo_pipeline *pipes = (luo_pipeline *)p->pipelines;
    const bool few = luo_rng_pick(r, 2);
    const int32_t equal = 1 + (int32_t)luo_rng_pick(r, 4);
    for (int32_t i = 0; i < p->npipelines; i++) {
        if (p->chunks == 1)
            pipes[i].micro_batches =
                p->zero > 1 ? equal : 1 + (int32_t)luo_rng_pick(r, few ? 3 : 5);
        int64_t *tokens = LUO_NEW_N(a, int64_t, pipes[i].micro_batches);
        for (int32_t k = 0; k < pipes[i].micro_batches; k++)
            tokens[k] = few ? 16 + 8 * luo_rng_pick(r, 2) : some_tokens(r, t);
        pipes[i].micro_batch_tokens = tokens;
    }
}

/* Sequences cut among two groups of devices in pipelines that can. */
static void cut_sequences(luo_rng *r, luo_plan *p, tally *t)
{
    for (int32_t i = 0; i < p->npipelines; i++) {
        bool can = true;
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            can &= p->pipelines[i].stages[s].ndev % 2 == 0 && !p->pipelines[i].stages[s].shares;
        if (!can || luo_rng_pick(r, 2)) continue;
        const luo_context_layout layout = (luo_context_layout)luo_rng_pick(r, 3);
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            luo_stage *stage = (luo_stage *)&p->pipelines[i].stages[s];
            stage->context_parallel = 2;
            stage->context_kind = LUO_CONTEXT_RING;
            stage->context_layout = layout;
        }
        t->context++;
    }
}

/* Experts that are cut as the rest is, or dealt among the devices of a stage. */
static luo_model draw_model(luo_rng *r, luo_plan *p, tally *t)
{
    const int64_t kind = luo_rng_pick(r, 5);
    luo_model m = kind == 0 ? luo_test_gpt(p->layers, 64, 8, 120)
                            : luo_test_llama(p->layers, 64, 96, 8, 120);
    if (kind != 1) return m;
    bool dealt = luo_rng_pick(r, 2);
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            dealt &= !p->pipelines[i].stages[s].shares;
    m.family = LUO_FAMILY_MOE;
    m.moe = (luo_moe){
        .experts = 4, .experts_per_token = 2, .expert_ffn_hidden = 32, .every_layers = 1};
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            luo_stage *stage = (luo_stage *)&p->pipelines[i].stages[s];
            stage->experts_dealt = dealt;
        }
    t->experts++;
    return m;
}

/* One pipeline idles, and those behind it have other numbers. */
static void leave_out(luo_arena *a, luo_plan *p, int32_t gone)
{
    luo_pipeline *left = LUO_NEW_N(a, luo_pipeline, p->npipelines);
    int32_t n = 0;
    for (int32_t i = 0; i < p->npipelines; i++)
        if (i != gone) left[n++] = p->pipelines[i];
    p->pipelines = left;
    p->npipelines = n;
}

/* ---- bound and emitted ---- */

static void describe(luo_str *text, const luo_programs *set)
{
    luo_str_addf(text, "hash %016llx\n", (unsigned long long)set->hash);
    luo_program_print(text, set, -1);
    for (int32_t r = 0; r < set->nroles; r++)
        for (int32_t b = 0; b < set->roles[r].nbuf; b++) {
            const luo_buffer *buffer = &set->roles[r].buf[b];
            luo_str_addf(text, "buffer %d %d %s ", (int)r, (int)b,
                         buffer->letters ? buffer->letters : "-");
            if (buffer->ann) luo_ann_print(text, buffer->ann);
            for (int32_t d = 0; d < buffer->shape.rank; d++)
                luo_str_addf(text, " %lld", (long long)buffer->shape.dim[d]);
            luo_str_addc(text, '\n');
        }
    for (int32_t x = 0; x < set->nexchanges; x++)
        luo_str_addf(text, "exchange %d %d %s %s\n", (int)set->exchanges[x].op,
                     (int)set->exchanges[x].step, set->exchanges[x].src, set->exchanges[x].dst);
}

/* What comes out, be it an error. */
static char *compiled(luo_arena *a, const luo_plan *p, const luo_model *m, luo_patterns *patterns)
{
    const luo_compile_opts opts = {.patterns = patterns};
    luo_programs *set;
    luo_err err = {0};
    luo_str text = {0};
    const bool led = p->moe_exchange == LUO_ALLTOALL_LEADER;
    const luo_cluster *pairs = led ? fixture_cluster(a, 1, 64, 2) : NULL;
    if (luo_plan_compile(a, p, m, pairs, &opts, &set, &err) == LUO_OK)
        describe(&text, set);
    else
        luo_str_addf(&text, "error: %s", err.text);
    ck_assert(!text.failed);
    char *out = luo_arena_strdup(a, luo_str_get(&text));
    luo_str_free(&text);
    return out;
}

static luo_patterns *open_patterns(luo_arena *a, size_t bytes)
{
    luo_patterns *p;
    ck_assert_int_eq(luo_patterns_open(a, bytes, &p, NULL), LUO_OK);
    return p;
}

static void close_patterns(luo_patterns *p, int64_t *emitted, int64_t *bound)
{
    int64_t e, b;
    luo_patterns_count(p, &e, &b);
    *emitted += e;
    *bound += b;
    luo_patterns_free(p);
}

/* Rows through leaders of nodes of two, where stages lie so. */
static void lead(luo_arena *a, luo_plan *p, const luo_model *m, luo_patterns *none, tally *t)
{
    if (m->family != LUO_FAMILY_MOE || !p->pipelines[0].stages[0].experts_dealt) return;
    p->moe_exchange = LUO_ALLTOALL_LEADER;
    const char *text = compiled(a, p, m, none);
    if (strncmp(text, "error", 5) == 0) p->moe_exchange = LUO_ALLTOALL_FLAT;
    t->led += strstr(text, " comm ") != NULL;
}

static void one_case(uint64_t seed, tally *t)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = plan_random(a, &r, &t->plans);
    if (seed % 2)
        p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, seed % 4 == 1 ? 0.01 : 25,
                                    (int32_t)(seed / 2 % 4) + 1};
    const luo_model m = draw_model(&r, p, t);
    const bool sharded = m.family != LUO_FAMILY_MOE && plan_random_shard(&r, p, m.tied_embeddings);
    t->sharded += sharded;
    if (!sharded && !p->state_layout.ndev && m.family == LUO_FAMILY_LLAMA) cut_sequences(&r, p, t);
    const bool small = seed % 5 == 0; /* has no room for all */
    t->small += small;
    luo_patterns *patterns = open_patterns(a, small ? SMALL : LUO_PATTERN_BYTES);
    luo_patterns *none = open_patterns(a, 0), *tried = open_patterns(a, 0);
    int64_t bound = 0;
    lead(a, p, &m, tried, t);
    luo_patterns_free(tried);
    for (int step = 0; step < STEPS; step++) {
        const int32_t all = p->npipelines;
        const luo_pipeline *whole = p->pipelines;
        draw_step(a, &r, p, t);
        if (all > 1 && !sharded && luo_rng_pick(&r, 6) == 0) {
            leave_out(a, p, (int32_t)luo_rng_pick(&r, all));
            t->idle++;
        }
        const char *want = compiled(a, p, &m, none), *got = compiled(a, p, &m, patterns);
        t->refused += strncmp(want, "error", 5) == 0;
        ck_assert_msg(strcmp(want, got) == 0, "LUO_SEED=%llu LUO_CASES=1: step %d differs",
                      (unsigned long long)seed, step);
        p->npipelines = all;
        p->pipelines = whole;
    }
    close_patterns(patterns, &t->emitted, &t->bound);
    close_patterns(none, &t->twin, &bound);
    ck_assert_int_eq(bound, 0); /* the twin knows no patterns */
    luo_arena_free(a);
}

START_TEST(bound_is_emitted)
{
    static tally t;
    LUO_PROP_FOR(seed, CASES) one_case(seed, &t);
    printf("%d plans sharded, %d with experts (%d through leaders), %d pipelines cut sequences, %d "
           "idle, "
           "%d micro-batches empty, %d sets small, %d steps refused; "
           "%lld roles: %lld emitted, %lld bound\n",
           t.sharded, t.experts, t.led, t.context, t.idle, t.empty, t.small, t.refused,
           (long long)t.twin, (long long)t.emitted, (long long)t.bound);
    ck_assert_int_eq(t.refused, 0);
    if (luo_prop_env("LUO_CASES", 0)) return; /* fewer need not have everything */
    ck_assert(!plan_tally_poor(&t.plans));
    ck_assert(t.sharded > 10 && t.experts > 10 && t.context > 5 && t.idle > 10 && t.empty > 10);
    ck_assert_int_eq(t.emitted + t.bound, t.twin);
    ck_assert(t.bound > t.twin / 8 && t.emitted > t.twin / 8);
}
END_TEST
LUO_MAIN("prop.pattern", bound_is_emitted, 1)
