/* latent.h: plans of a model with latent attention train like one device on host: heads cut by
 * tensor parallelism, with and without sequence parallelism, beside pipelines, ZeRO, shares,
 * several lengths, recompute and experts. Run by `mpirun -n 8`, on the executor of the lab. */
#ifndef LUO_TESTS_MPI_LATENT_H
#define LUO_TESTS_MPI_LATENT_H
#include "tests/mpi/accept.h"

typedef struct latent_tally { /* how often a plan had .. */
    int plans, failed, cut, shares, pipelines, stages, zero, pieces, sequence, apart, again, direct,
        experts, dealt, lengths;
} latent_tally;

static inline luo_model latent_draw_model(luo_rng *rng, int32_t layers)
{
    luo_model m = luo_test_llama(layers, 32, 48, 4, 64);
    m.family = LUO_FAMILY_MOE;
    m.max_sequence_tokens = 64;
    m.tied_embeddings = luo_rng_pick(rng, 3) == 0;
    if (luo_rng_pick(rng, 4) == 0) m.norm = LUO_NORM_LAYER;
    m.latent = (luo_latent){.q_lora = luo_rng_pick(rng, 3) ? 10 + luo_rng_pick(rng, 8) : 0,
                            .kv_lora = 6 + luo_rng_pick(rng, 8),
                            .nope = 1 + luo_rng_pick(rng, 6),
                            .rope = 2 * (1 + luo_rng_pick(rng, 3)),
                            .v = 1 + luo_rng_pick(rng, 9)};
    m.head_dim = m.latent.nope + m.latent.rope;
    if (luo_rng_pick(rng, 2)) return m;
    m.moe = (luo_moe){.experts = 8 + luo_rng_pick(rng, 3),
                      .experts_per_token = 2,
                      .expert_ffn_hidden = 24,
                      .shared_experts = luo_rng_pick(rng, 2),
                      .first_dense_layers = luo_rng_pick(rng, 2),
                      .every_layers = 1};
    if (m.moe.shared_experts) m.moe.shared_ffn_hidden = 12;
    return m;
}

static inline void latent_draw_pipeline(luo_rng *rng, int32_t *left, luo_str *line)
{
    static const int32_t widths[] = {1, 2, 2, 4};
    int32_t t = widths[luo_rng_pick(rng, 4)];
    while (t > *left) t /= 2;
    const int32_t stages = *left >= 2 * t && luo_rng_pick(rng, 2) ? 2 : 1;
    const bool shares = t == 2 && luo_rng_pick(rng, 3) == 0;
    luo_str_addf(line, "%d:", 1 + (int)luo_rng_pick(rng, 3));
    for (int32_t s = 0; s < stages; s++, *left -= t)
        luo_str_addf(line, " [%d-%d]%s*%d", (int)(8 - *left), (int)(8 - *left + t - 1),
                     shares ? ":(3,1)" : "", stages == 2 ? 1 : 2);
}

static inline luo_plan *latent_draw(luo_arena *a, luo_rng *rng, luo_dtype dtype, row *r,
                                    luo_str *line)
{
    int32_t left = 8, n = 0;
    const bool dealt = luo_rng_pick(rng, 2);
    *r = (row){.zero = (int)luo_rng_pick(rng, 2),
               .sp = (int)luo_rng_pick(rng, 2),
               .recompute = luo_rng_pick(rng, 2) ? (int)luo_rng_pick(rng, 3) : 0,
               .order = (int)luo_rng_pick(rng, 3),
               .sequences = 1 + (int)luo_rng_pick(rng, 2),
               .mib = luo_rng_pick(rng, 2) ? 25 : 0};
    for (const int32_t want = 1 + (int32_t)luo_rng_pick(rng, 3); n < want && left > 0; n++) {
        if (n) luo_str_add(line, " || ");
        latent_draw_pipeline(rng, &left, line);
    }
    if (luo_rng_pick(rng, 3) == 0) memcpy(r->tokens, (int64_t[]){32, 16, 24}, 3 * 8);
    r->line = luo_str_get(line);
    if (n == 1) r->zero = (int)luo_rng_pick(rng, 4);
    if (r->zero > 1 && r->order == 2) r->order = 0; /* needs a whole backward */
    luo_plan *p = plan_of(a, r, dtype);
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            ((luo_stage *)&p->pipelines[i].stages[s])->experts_dealt = dealt;
    return p;
}

static inline void latent_count(latent_tally *t, const row *r, const luo_plan *p,
                                const luo_model *m)
{
    bool cut = false;
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_stage *s = &p->pipelines[i].stages[0];
        cut |= s->ndev > 1;
        t->stages += p->pipelines[i].nstages > 1;
        t->shares += s->shares != NULL;
    }
    t->plans++;
    t->cut += cut;
    t->sequence += cut && r->sp;
    t->apart += cut && !r->sp;
    t->pipelines += p->npipelines > 1;
    t->zero += r->zero == 1;
    t->pieces += r->zero > 1;
    t->again += r->recompute > 0;
    t->direct += m->latent.q_lora == 0;
    t->experts += m->moe.experts > 0;
    t->dealt += m->moe.experts > 0 && p->pipelines[0].stages[0].experts_dealt;
    t->lengths += r->tokens[0] > 0;
}

static inline void latent_run_seed(luo_lab *lab, luo_dtype dtype, uint64_t seed, latent_tally *t)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng rng = luo_rng_seed(seed);
    luo_str line = {0}, name = {0};
    row r;
    const luo_plan *p = latent_draw(a, &rng, dtype, &r, &line);
    luo_model m = latent_draw_model(&rng, p->layers);
    if (dtype == LUO_BF16) m.moe.experts_per_token = m.moe.experts; /* rounding moves no choice */
    luo_str_addf(&name,
                 "seed %llu: %s; q %d kv %d nope %d rope %d v %d, %d experts %s; zero %d sp %d "
                 "recompute %d order %d",
                 (unsigned long long)seed, r.line, (int)m.latent.q_lora, (int)m.latent.kv_lora,
                 (int)m.latent.nope, (int)m.latent.rope, (int)m.latent.v, (int)m.moe.experts,
                 p->pipelines[0].stages[0].experts_dealt ? "dealt" : "cut", r.zero, r.sp,
                 r.recompute, r.order);
    t->failed += !run_against_one(lab, "latent", p, &m, luo_str_get(&name));
    latent_count(t, &r, p, &m);
    luo_str_free(&line);
    luo_str_free(&name);
    luo_arena_free(a);
}

/* Seeds first..last-1 and what their plans had. */
static inline void latent_report(const luo_lab *lab, const latent_tally *t, uint64_t first,
                                 uint64_t last)
{
    if (lab->rank != 0) return;
    printf("seeds %llu..%llu: %d plans, worst error %.2g: %d with heads cut, %d of them with "
           "tokens cut too, %d without; %d pipelines with shares, %d of two stages; %d plans of "
           "several pipelines, %d zero 1, %d zero 2 or 3, %d recomputed, %d with queries by "
           "one product, %d with experts, %d of them dealt, %d of several lengths\n",
           (unsigned long long)first, (unsigned long long)last - 1, t->plans, largest_error, t->cut,
           t->sequence, t->apart, t->shares, t->stages, t->pipelines, t->zero, t->pieces, t->again,
           t->direct, t->experts, t->dealt, t->lengths);
}
#endif
