/* experts.h: plans of a model with experts train like one device on host: experts cut or dealt
 * among the devices of a stage, beside pipelines, ZeRO, sequence parallelism, shares, uneven
 * numbers of experts, several lengths and recompute. Run by `mpirun -n 8`, on the executor of the
 * lab. */
#ifndef LUO_TESTS_MPI_EXPERTS_H
#define LUO_TESTS_MPI_EXPERTS_H
#include "tests/mpi/accept.h"

static luo_cluster *lab_nodes[2]; /* of the same devices: two nodes, four nodes */

typedef struct experts_kinds { /* of plans that an executor knows */
    luo_dtype dtype;
    bool context; /* sequences cut among devices */
    bool steady;  /* gates that rounding does not move: hashes, or all experts for every token */
} experts_kinds;

typedef struct experts_tally { /* how often a plan had .. */
    int plans, failed, cut, dealt, alone, pipelines, stages, shares, zero, pieces, sequence, again,
        uneven, all, shared, dense, context, lengths, joined, copies, balanced, learnt, prototypes,
        aligned, hashed, even, by_node, led, twins, edges;
} experts_tally;

static inline void experts_draw_gate(luo_rng *rng, luo_moe *moe)
{
    static const luo_gate_kind gates[] = {LUO_GATE_TOPK,    LUO_GATE_TOPK, LUO_GATE_SIGMOID,
                                          LUO_GATE_KTOP1,   LUO_GATE_SAM,  LUO_GATE_HASH,
                                          LUO_GATE_BALANCED};
    moe->gate = gates[luo_rng_pick(rng, 7)];
    const bool sigmoid = moe->gate == LUO_GATE_SIGMOID;
    if (moe->gate == LUO_GATE_KTOP1) /* as many prototypes as divide the experts */
        while (moe->experts % moe->experts_per_token) moe->experts_per_token--;
    if (moe->gate == LUO_GATE_SAM) moe->route_groups = moe->experts % 2 ? 1 : 2;
    if (moe->gate == LUO_GATE_SAM && moe->experts_per_token > moe->experts / moe->route_groups)
        moe->experts_per_token = moe->experts / moe->route_groups;
    moe->renorm = luo_rng_pick(rng, 2) && moe->gate == LUO_GATE_TOPK;
    if (sigmoid || moe->gate == LUO_GATE_TOPK) moe->routed_scale = 1.5;
    if (moe->gate == LUO_GATE_TOPK && moe->experts % 2 == 0 &&
        moe->experts_per_token <= moe->experts / 2)
        moe->route_groups = 2, moe->route_groups_kept = 1;
    if (sigmoid && luo_rng_pick(rng, 3) > 0) moe->bias_rate = 0.05;
    if (!sigmoid && luo_rng_pick(rng, 2) && moe->experts > 1) moe->aux_loss = 0.5;
    if (moe->gate == LUO_GATE_HASH || moe->gate == LUO_GATE_BALANCED)
        moe->experts_per_token = 1, moe->aux_loss = 0;
    if (moe->experts_per_token == 1) /* else a weight that is always the same has no gradient */
        moe->gate = sigmoid ? LUO_GATE_TOPK : moe->gate, moe->renorm = false, moe->bias_rate = 0;
}

/* least: experts. */
static inline luo_model experts_draw_model(luo_rng *rng, const experts_kinds *kinds, int32_t layers,
                                           int32_t least)
{
    luo_model m = luo_test_llama(layers, 32, 48, 4, 64);
    const int64_t experts = least + luo_rng_pick(rng, 9);
    m.family = LUO_FAMILY_MOE;
    m.max_sequence_tokens = 64;
    m.qk_norm = luo_rng_pick(rng, 4) == 0;
    m.tied_embeddings = luo_rng_pick(rng, 3) == 0;
    if (luo_rng_pick(rng, 4) == 0) m.activation = LUO_ACT_GELU;
    m.moe = (luo_moe){.experts = experts,
                      .experts_per_token = 1 + luo_rng_pick(rng, experts < 4 ? experts : 4),
                      .expert_ffn_hidden = 24,
                      .first_dense_layers = luo_rng_pick(rng, 2),
                      .every_layers = 1 + luo_rng_pick(rng, 2)};
    if (luo_rng_pick(rng, 4) == 0) m.moe.experts_per_token = experts; /* all of them */
    if (kinds->steady) m.moe.experts_per_token = experts;
    experts_draw_gate(rng, &m.moe);
    if (kinds->steady && m.moe.gate != LUO_GATE_TOPK && m.moe.gate != LUO_GATE_SIGMOID)
        m.moe.gate = LUO_GATE_HASH, m.moe.experts_per_token = 1, m.moe.aux_loss = 0;
    if (luo_rng_pick(rng, 2) == 0) {
        m.moe.shared_experts = 1 + luo_rng_pick(rng, 2);
        m.moe.shared_ffn_hidden = 12;
        m.moe.shared_gate = luo_rng_pick(rng, 2);
    }
    return m;
}

typedef struct experts_shape { /* of a pipeline */
    int32_t t, c;
    bool dealt;
} experts_shape;

static inline void experts_draw_pipeline(luo_rng *rng, const experts_kinds *kinds, int32_t *left,
                                         bool dealt, luo_str *line, experts_shape *how)
{
    static const int32_t widths[] = {1, 2, 2, 4};
    *how = (experts_shape){widths[luo_rng_pick(rng, 4)], 1, dealt};
    while (how->t > *left) how->t /= 2;
    if (2 * how->t <= *left && luo_rng_pick(rng, 4) == 0 && kinds->context) how->c = 2;
    const int32_t each = how->t * how->c;
    const int32_t stages = *left >= 2 * each && luo_rng_pick(rng, 2) ? 2 : 1;
    const bool shares = how->t == 2 && how->c == 1 && luo_rng_pick(rng, 4) == 0;
    luo_str_addf(line, "%d:", 1 + (int)luo_rng_pick(rng, 3));
    for (int32_t s = 0; s < stages; s++, *left -= each)
        luo_str_addf(line, " [%d-%d]%s*%d", (int)(8 - *left), (int)(8 - *left + each - 1),
                     shares ? ":(3,1)" : "", stages == 2 ? 1 : 2);
}

static inline void experts_set_experts(luo_plan *p, const experts_shape *how)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            luo_stage *to = (luo_stage *)&p->pipelines[i].stages[s];
            to->experts_dealt = how[i].dealt;
            to->context_parallel = how[i].c;
        }
}

/* Pipelines that differ in nothing but their devices, of which some share their experts. */
static inline int32_t experts_draw_alike(luo_rng *rng, const experts_kinds *kinds, luo_str *line,
                                         experts_shape *how)
{
    static const experts_shape shapes[] = {{1, 1, true}, {1, 1, true}, {2, 1, true}, {1, 2, true}};
    const experts_shape one = shapes[luo_rng_pick(rng, kinds->context ? 4 : 3)];
    const int32_t each = one.t * one.c, stages = 1 + (int32_t)luo_rng_pick(rng, 2);
    const int32_t n = 2 + (int32_t)luo_rng_pick(rng, 8 / (each * stages) - 1);
    const int32_t micro_batches = 1 + (int32_t)luo_rng_pick(rng, 3);
    for (int32_t i = 0, dev = 0; i < n; i++) {
        how[i] = one;
        luo_str_addf(line, "%s%d:", i ? " || " : "", (int)micro_batches);
        for (int32_t s = 0; s < stages; s++, dev += each)
            luo_str_addf(line, " [%d-%d]*%d", (int)dev, (int)(dev + each - 1), 3 - stages);
    }
    return n;
}

/* Pipelines at random to one of two groups. */
static inline void experts_set_groups(luo_arena *a, luo_rng *rng, luo_plan *p)
{
    struct luo_expert_group *groups = LUO_NEW_N(a, struct luo_expert_group, 2);
    int32_t *at[2] = {LUO_NEW_N(a, int32_t, p->npipelines), LUO_NEW_N(a, int32_t, p->npipelines)};
    for (int32_t i = 0; i < p->npipelines; i++) {
        const int32_t g = luo_rng_pick(rng, 4) == 0;
        at[g][groups[g].n++] = i;
    }
    for (int32_t g = 0; g < 2; g++) groups[g].pipeline = at[g];
    if (groups[0].n == 0) groups[0] = groups[1], groups[1].n = 0;
    p->ngroups = groups[1].n > 0 ? 2 : 1;
    p->expert_groups = groups;
}

/* Devices of stage 0 of pipeline i that share experts, over all pipelines of its group. */
static inline int32_t experts_dealt_to(const luo_plan *p, int32_t i)
{
    for (int32_t g = 0; g < p->ngroups; g++)
        for (int32_t k = 0; k < p->expert_groups[g].n; k++)
            if (p->expert_groups[g].pipeline[k] == i)
                return p->expert_groups[g].n * p->pipelines[i].stages[0].ndev;
    return p->pipelines[i].stages[0].ndev;
}

/* A number that divides those of all groups; 0: it would be 1 where there are more. */
static inline int32_t experts_draw_among(luo_rng *rng, const luo_plan *p)
{
    const int32_t n = luo_rng_pick(rng, 2) ? 2 : 1 + (int32_t)luo_rng_pick(rng, 4);
    for (int32_t i = 0; i < p->npipelines; i++)
        if (experts_dealt_to(p, i) % n) return 0;
    return n;
}

static inline luo_plan *experts_draw(luo_arena *a, luo_rng *rng, const experts_kinds *kinds, row *r,
                                     luo_str *line)
{
    experts_shape how[8];
    int32_t left = 8, n = 0;
    const bool dealt = luo_rng_pick(rng, 2), joined = dealt && luo_rng_pick(rng, 2);
    *r = (row){.zero = (int)luo_rng_pick(rng, 2),
               .sp = (int)luo_rng_pick(rng, 2),
               .recompute = luo_rng_pick(rng, 3) == 0 ? 2 : 0,
               .order = (int)luo_rng_pick(rng, 3),
               .sequences = 1 + (int)luo_rng_pick(rng, 2),
               .mib = luo_rng_pick(rng, 2) ? 25 : 0};
    if (joined) n = experts_draw_alike(rng, kinds, line, how);
    for (const int32_t want = 1 + (int32_t)luo_rng_pick(rng, 3); !joined && n < want && left > 0;
         n++) {
        if (n) luo_str_add(line, " || ");
        experts_draw_pipeline(rng, kinds, &left, dealt, line, &how[n]);
    }
    if (!joined && luo_rng_pick(rng, 3) == 0) memcpy(r->tokens, (int64_t[]){32, 16, 24}, 3 * 8);
    for (int32_t i = 0; i < n && !joined; i++) /* rows that are padded */
        if (how[i].c > 1) memcpy(r->tokens, (int64_t[]){29, 16, 22}, 3 * 8);
    r->line = luo_str_get(line);
    if (n == 1) r->zero = (int)luo_rng_pick(rng, 4);
    if (r->zero > 1) r->sp = 1;                     /* else refused beside tensor parallelism */
    if (r->zero > 1 && r->order == 2) r->order = 0; /* needs a whole backward */
    luo_plan *p = plan_of(a, r, kinds->dtype);
    experts_set_experts(p, how);
    if (joined) experts_set_groups(a, rng, p);
    if (dealt && luo_rng_pick(rng, 2)) p->expert_parallel = experts_draw_among(rng, p);
    return p;
}

/* Devices that experts are dealt to, at most. */
static inline int32_t experts_most_dealt(const luo_plan *p)
{
    int32_t n = 1;
    for (int32_t i = 0; i < p->npipelines; i++)
        if (p->pipelines[i].stages[0].experts_dealt && p->pipelines[i].stages[0].ndev > n)
            n = p->pipelines[i].stages[0].ndev;
    for (int32_t g = 0; g < p->ngroups; g++)
        if (p->expert_groups[g].n * p->pipelines[0].stages[0].ndev > n)
            n = p->expert_groups[g].n * p->pipelines[0].stages[0].ndev;
    return n;
}

static inline void experts_count(experts_tally *t, const row *r, const luo_plan *p,
                                 const luo_model *m)
{
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_stage *s = &p->pipelines[i].stages[0];
        t->cut += s->ndev > 1 && !s->experts_dealt;
        t->dealt += s->ndev > 1 && s->experts_dealt;
        t->alone += s->ndev == 1;
        t->stages += p->pipelines[i].nstages > 1;
        t->shares += s->shares != NULL;
        t->context += s->context_parallel > 1;
        t->uneven += s->experts_dealt && m->moe.experts % s->ndev != 0;
    }
    t->pipelines += p->npipelines > 1;
    t->copies += p->expert_parallel > 0;
    for (int32_t g = 0; g < p->ngroups; g++) t->joined += p->expert_groups[g].n > 1;
    t->zero += r->zero == 1;
    t->pieces += r->zero > 1;
    t->sequence += r->sp;
    t->again += r->recompute > 0;
    t->all += m->moe.experts_per_token == m->moe.experts;
    t->shared += m->moe.shared_experts > 0;
    t->dense += m->moe.first_dense_layers > 0 || m->moe.every_layers > 1;
    t->lengths += r->tokens[0] > 0;
    t->balanced += m->moe.aux_loss > 0;
    t->learnt += m->moe.bias_rate > 0;
    t->prototypes += m->moe.gate == LUO_GATE_KTOP1;
    t->even += m->moe.gate == LUO_GATE_BALANCED;
    t->hashed += m->moe.gate == LUO_GATE_HASH;
    t->aligned += m->moe.gate == LUO_GATE_SAM && m->moe.aux_loss > 0;
}

static inline luo_cluster *experts_four_nodes(luo_lab *lab)
{
    luo_err err = {0};
    luo_cluster *c = LUO_NEW(lab->arena, luo_cluster);
    luo_node_group *group = LUO_NEW(lab->arena, luo_node_group);
    *group = lab->cluster->groups[0];
    group->nodes = 4;
    group->devices_per_node = group->nics = 2;
    *c = (luo_cluster){.name = "four nodes",
                       .ngroups = 1,
                       .groups = group,
                       .fabric = lab->cluster->fabric,
                       .hop_latency_s = lab->cluster->hop_latency_s};
    if (luo_cluster_finish(lab->arena, c, &err) != LUO_OK) luo_lab_die("cluster", &err);
    return c;
}

/* Do rows of a stage travel in several steps? */
static inline bool experts_goes_by_node(const luo_programs *set)
{
    for (int32_t r = 0; r < set->nroles; r++)
        for (int32_t i = 1; i < set->roles[r].ninstr; i++) {
            const luo_instr *x = &set->roles[r].instr[i - 1], *y = x + 1;
            if (luo_instr_trades(x) && luo_instr_trades(y) && x->op == y->op) return true;
        }
    return false;
}

static inline void experts_count_nodes(const luo_programs *set, const luo_plan *p, experts_tally *t)
{
    const bool goes = experts_goes_by_node(set);
    t->by_node += goes && p->moe_exchange == LUO_ALLTOALL_2D;
    t->led += goes && p->moe_exchange == LUO_ALLTOALL_LEADER;
}

/* Nodes of 2 or 4 devices, and rows that travel by node or through leaders where all nodes have
 * equally many. */
static inline void experts_draw_nodes(luo_arena *a, luo_lab *lab, luo_rng *rng, luo_plan *p,
                                      const luo_model *model, experts_tally *t)
{
    const luo_compile_opts opts = {0};
    luo_programs *set;
    luo_err err = {0};
    lab->cluster = lab_nodes[luo_rng_pick(rng, 2)];
    if (!p->pipelines[0].stages[0].experts_dealt || luo_rng_pick(rng, 4) == 0) return;
    p->moe_exchange = luo_rng_pick(rng, 2) ? LUO_ALLTOALL_2D : LUO_ALLTOALL_LEADER;
    if (luo_plan_compile(a, p, model, lab->cluster, &opts, &set, &err) == LUO_OK) {
        experts_count_nodes(set, p, t);
        return;
    }
    if (!strstr(err.text, "moe_exchange: flat is needed")) luo_lab_die("experts", &err);
    p->moe_exchange = LUO_ALLTOALL_FLAT;
}

/* In f32 a token between two experts goes to one here and to the other there, once in some dozens
 * of plans, and an auction for tokens ends otherwise; other models have no such token, and a plan
 * that is wrong is wrong for all of them. */
static inline bool experts_run_plan(luo_lab *lab, const experts_kinds *kinds, const luo_plan *p,
                                    const luo_model *model, const char *name, experts_tally *t)
{
    const double before = largest_error;
    const uint64_t seed = trial_seed;
    if (kinds->dtype == LUO_F32) trial_says = "a choice at the edge?";
    bool good = run_against_one(lab, "experts", p, model, name);
    trial_says = "FAIL";
    if (good || kinds->dtype != LUO_F32) return good;
    t->edges++;
    for (int tries = 3; tries > 0 && !good; tries--) {
        largest_error = before;
        trial_seed++;
        if (tries > 1) trial_says = "a choice at the edge?";
        good = run_against_one(lab, "experts", p, model, name);
        trial_says = "FAIL";
    }
    trial_seed = seed;
    return good;
}

static inline void experts_run_seed(luo_lab *lab, const experts_kinds *kinds, uint64_t seed,
                                    experts_tally *t)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng rng = luo_rng_seed(seed);
    luo_str line = {0}, name = {0};
    row r;
    luo_plan *p = experts_draw(a, &rng, kinds, &r, &line);
    luo_model model = experts_draw_model(&rng, kinds, p->layers, experts_most_dealt(p));
    experts_draw_nodes(a, lab, &rng, p, &model, t);
    luo_str_addf(
        &name,
        "seed %llu: %s; %s in %d groups, among %d, cp %d; %s of %d experts, %d each, %d shared; "
        "zero %d sp %d recompute %d order %d; rows %s",
        (unsigned long long)seed, r.line, p->pipelines[0].stages[0].experts_dealt ? "dealt" : "cut",
        (int)p->ngroups, (int)p->expert_parallel, (int)p->pipelines[0].stages[0].context_parallel,
        luo_gate_kind_name(model.moe.gate), (int)model.moe.experts,
        (int)model.moe.experts_per_token, (int)model.moe.shared_experts, r.zero, r.sp, r.recompute,
        r.order, luo_alltoall_kind_name(p->moe_exchange));
    t->failed += !experts_run_plan(lab, kinds, p, &model, luo_str_get(&name), t);
    t->plans++;
    experts_count(t, &r, p, &model);
    luo_str_free(&line);
    luo_str_free(&name);
    luo_arena_free(a);
}

/* From plan to plan and back: a bias that is learnt goes on, without moments. */
static inline bool experts_run_way(luo_lab *lab, luo_dtype dtype, const char *one,
                                   const char *other)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row r[2] = {{.line = one, .sp = 1, .zero = 1}, {.line = other}};
    luo_plan *p[2] = {plan_of(a, &r[0], dtype), plan_of(a, &r[1], dtype)};
    experts_set_experts(p[1], (const experts_shape[]){{1, 1, true}, {1, 1, true}});
    luo_model model = luo_test_llama(p[0]->layers, 32, 48, 4, 64);
    model.family = LUO_FAMILY_MOE;
    model.max_sequence_tokens = 64;
    model.moe = (luo_moe){6, 2, 24, .every_layers = 1, .gate = LUO_GATE_SIGMOID, .bias_rate = 0.05};
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial single = refer(a, lab, x, p[0], &model), t = luo_lab_bind(a, lab, x, p[0], &model);
    curve ref, c;
    int64_t n;
    const double *early = NULL;
    luo_trial_init(&t, &model, 5);
    luo_trial_init(&single, &model, 5);
    train(&single, &ref, 0, 1);
    if (dtype != LUO_F64) early = spread(a, lab, &single, &n);
    train(&single, &ref, 1, 5);
    for (int k = 0; k < 3; k++) {
        if (k) t = change(a, lab, &t, p[k % 2], &model);
        train(&t, &c, 2 * k, 2);
    }
    worst w = compare(a, &t, spread(a, lab, &single, &n), early);
    for (int k = 0; k < 6; k++)
        if (far(c.loss[k], ref.loss[k]) > w.error)
            w = (worst){far(c.loss[k], ref.loss[k]), "a loss"};
    const bool good = judge(lab, "switch", other, w, bound_of(dtype));
    t.executor->unbind(t.job);
    close_reference(lab, &single);
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}

/* Eleven experts, so that no two nodes have equally many; both ways to cut eight devices. What the
 * seeds draw seldom beside nodes that are alike is drawn here. */
static const struct {
    const char *line;
    int32_t nodes, among, joined; /* joined: pipelines share their experts */
    int32_t context, recompute, zero;
    bool lengths;
} experts_by_node[] = {
    {.line = "2: [0-7]*2", .zero = 1},
    {.line = "2: [0-7]*2", .nodes = 1, .zero = 1},
    {.line = "3: [0-3]*1 [4-7]*1", .nodes = 1, .zero = 1},
    {.line = "2: [0-7]*2", .nodes = 1, .among = 4, .zero = 1},
    {.line = "2: [0-1]*2 || 2: [2-3]*2 || 2: [4-5]*2 || 2: [6-7]*2", .joined = 4, .zero = 1},
    {.line = "3: [0-7]*2", .context = 2, .recompute = 2, .lengths = true},
    {.line = "3: [0-7]*2", .nodes = 1, .context = 4, .zero = 1, .lengths = true},
    {.line = "3: [0-7]*2", .nodes = 1, .recompute = 2, .zero = 3, .lengths = true}};

static inline bool experts_run_by_node(luo_lab *lab, const experts_kinds *kinds, int32_t i,
                                       luo_alltoall_kind exchange, experts_tally *t)
{
    static const int32_t pipeline[] = {0, 1, 2, 3};
    const struct luo_expert_group group = {experts_by_node[i].joined, pipeline};
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_compile_opts opts = {0};
    luo_programs *set;
    luo_err err = {0};
    const int32_t c = experts_by_node[i].context > 1 ? experts_by_node[i].context : 1;
    row r = {.line = experts_by_node[i].line,
             .sp = 1,
             .zero = experts_by_node[i].zero,
             .recompute = experts_by_node[i].recompute};
    if (experts_by_node[i].lengths) memcpy(r.tokens, (int64_t[]){29, 16, 22}, 3 * 8);
    luo_plan *p = plan_of(a, &r, kinds->dtype);
    experts_set_experts(
        p, (const experts_shape[]){{1, c, true}, {1, c, true}, {1, c, true}, {1, c, true}});
    luo_model model = luo_test_llama(p->layers, 32, 48, 4, 64);
    model.family = LUO_FAMILY_MOE;
    model.max_sequence_tokens = 64;
    model.heads = model.kv_heads = 8;
    model.head_dim = 4;
    model.moe = (luo_moe){11, 3, 24, .every_layers = 1, .aux_loss = 0.5};
    p->expert_parallel = experts_by_node[i].among;
    p->moe_exchange = exchange;
    p->ngroups = experts_by_node[i].joined > 0;
    p->expert_groups = &group;
    lab->cluster = lab_nodes[experts_by_node[i].nodes];
    if (luo_plan_compile(a, p, &model, lab->cluster, &opts, &set, &err) != LUO_OK)
        luo_lab_die("by node", &err);
    const bool goes = experts_goes_by_node(set);
    const bool good = experts_run_plan(lab, kinds, p, &model, experts_by_node[i].line, t) && goes;
    experts_count_nodes(set, p, t);
    luo_arena_free(a);
    return good;
}

/* Two steps of a plan: losses, and all parameters behind them. */
static inline const double *experts_train(luo_arena *a, luo_lab *lab, luo_exec *x,
                                          const luo_plan *p, const luo_model *model, curve *c,
                                          int64_t *n)
{
    luo_trial t = luo_lab_bind(a, lab, x, p, model);
    luo_trial_init(&t, model, 5);
    train(&t, c, 0, 2);
    const double *out = spread(a, lab, &t, n);
    t.executor->unbind(t.job);
    return out;
}

/* The slow twin of rows through leaders, and by node, is every device to every other: rows arrive
 * the same and in the same order, to the bit. Experts of any number, of which most get no rows
 * where tokens are few; nodes of 2, 3 or 4 devices in any order. */
static inline bool experts_run_twin(luo_lab *lab, const experts_kinds *kinds, uint64_t seed,
                                    experts_tally *t)
{
    static const char *const lines[] = {"2: [0-7]*1", "2: [0,1,4,5]*1", "2: [0-2,4-6]*1",
                                        "1: [5,4,7,6,1,0,3,2]*1"};
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng rng = luo_rng_seed(seed);
    const row r = {
        .line = lines[luo_rng_pick(&rng, 4)], .sp = 1, .recompute = luo_rng_pick(&rng, 2) ? 2 : 0};
    luo_plan *p = plan_of(a, &r, kinds->dtype);
    experts_set_experts(p, (const experts_shape[]){{1, 1, true}});
    luo_model model = luo_test_llama(p->layers, 32, 48, 4, 64);
    model.family = LUO_FAMILY_MOE;
    model.max_sequence_tokens = 64;
    model.heads = model.kv_heads = 24;
    model.head_dim = 4;
    model.moe = (luo_moe){8 + luo_rng_pick(&rng, 60), 1 + luo_rng_pick(&rng, 3), 8,
                          .every_layers = 1, .aux_loss = 0.5};
    lab->cluster = lab_nodes[r.line == lines[0] && luo_rng_pick(&rng, 2)];
    luo_exec *x = luo_lab_executor(lab, &model, kinds->dtype);
    curve want, got;
    int64_t n, m;
    bool good = true;
    const double *flat = experts_train(a, lab, x, p, &model, &want, &n);
    for (int k = 1; k < LUO_ALLTOALL_KINDS; k++) {
        p->moe_exchange = (luo_alltoall_kind)k;
        const double *now = experts_train(a, lab, x, p, &model, &got, &m);
        good &= got.loss[0] == want.loss[0] && got.loss[1] == want.loss[1] && m == n &&
                memcmp(now, flat, (size_t)n * sizeof *now) == 0;
    }
    if (!good && lab->rank == 0)
        printf("FAIL rows that travel otherwise, LUO_SEED=%llu: `%s`, %d experts\n",
               (unsigned long long)seed, r.line, (int)model.moe.experts);
    lab->executor->close(x);
    lab->cluster = lab_nodes[0];
    t->plans++;
    t->twins++;
    luo_arena_free(a);
    return good;
}

/* Choices that are dropped, where every device has all tokens of its micro-batches: elsewhere the
 * cut decides which these are. */
static const struct {
    const char *line;
    luo_gate_kind gate;
    int64_t each;
    double capacity_factor;
} experts_dropping[] = {{"3: [0]*2", LUO_GATE_TOPK, 2, 1},
                        {"2: [0,1]*1 [2]*1 || 1: [3]*2", LUO_GATE_SIGMOID, 3, 0.75},
                        {"2: [0]*2 || 2: [1-2]*2", LUO_GATE_HASH, 1, 0.5}};

static inline bool experts_run_dropping(luo_lab *lab, const experts_kinds *kinds, int32_t i,
                                        experts_tally *t)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row r = {.line = experts_dropping[i].line, .zero = 1};
    luo_plan *p = plan_of(a, &r, kinds->dtype);
    luo_model model = luo_test_llama(p->layers, 32, 48, 4, 64);
    model.family = LUO_FAMILY_MOE;
    model.max_sequence_tokens = 64;
    model.moe = (luo_moe){6,
                          experts_dropping[i].each,
                          24,
                          .every_layers = 1,
                          .gate = experts_dropping[i].gate,
                          .renorm = experts_dropping[i].gate == LUO_GATE_TOPK,
                          .capacity_factor = experts_dropping[i].capacity_factor};
    if (model.moe.gate == LUO_GATE_SIGMOID) model.moe.bias_rate = 0.05;
    const bool good = experts_run_plan(lab, kinds, p, &model, experts_dropping[i].line, t);
    luo_arena_free(a);
    return good;
}

static inline void experts_open(luo_lab *lab)
{
    lab_nodes[0] = lab->cluster;
    lab_nodes[1] = experts_four_nodes(lab);
}

/* Rows of the tables that the executor knows, behind the seeds; all of them, or without LUO_SCALE
 * those that `few` leaves. By node and through leaders; of few, one of both. */
static inline void experts_run_tables(luo_lab *lab, const experts_kinds *kinds, bool few,
                                      experts_tally *t)
{
    few = few && !luo_prop_whole();
    const luo_dtype dtype = kinds->dtype;
    t->failed += !experts_run_way(lab, dtype, "4: [0,1]*1 [2,3]*1", "2: [4,5]*2 || 2: [0]*1 [1]*1");
    t->plans++;
    if (!few) t->failed += !experts_run_way(lab, dtype, "2: [0]*2 || 2: [1]*2", "4: [0-3]*2");
    t->plans += !few;
    for (size_t i = 0; i < sizeof experts_by_node / sizeof *experts_by_node; i++) {
        if (experts_by_node[i].context > 1 && !kinds->context) continue;
        for (int k = 0; k < 2; k++) {
            if (few && k == (int)(i % 2)) continue;
            const luo_alltoall_kind by = k ? LUO_ALLTOALL_LEADER : LUO_ALLTOALL_2D;
            t->failed += !experts_run_by_node(lab, kinds, (int32_t)i, by, t);
            t->plans++;
        }
    }
    lab->cluster = lab_nodes[0];
    for (size_t i = 0; i < sizeof experts_dropping / sizeof *experts_dropping; i++, t->plans++)
        t->failed += !experts_run_dropping(lab, kinds, (int32_t)i, t);
}

/* Seeds first..last-1 and what their plans had. */
static inline void experts_report(const luo_lab *lab, const experts_tally *t, uint64_t first,
                                  uint64_t last)
{
    if (lab->rank != 0) return;
    printf("seeds %llu..%llu: %d plans, worst error %.2g; pipelines: %d with experts cut, %d "
           "dealt (%d unevenly), %d on one device, %d of two stages, %d with shares, %d with "
           "context parallelism; plans: %d of several pipelines, %d groups of several, %d with "
           "copies of experts, %d zero "
           "1, %d zero 2 or 3, %d "
           "sequence parallel, %d recomputed, %d with all experts for a token, %d with shared "
           "ones, %d with dense layers, %d of several lengths, %d with a loss of unbalanced "
           "experts, %d with a bias that is learnt, %d with prototypes, "
           "%d with groups of experts and their loss, %d by hashes of tokens, "
           "%d balanced, %d with rows that travel by node, %d through leaders, %d the same to the "
           "bit; "
           "%d seen again with "
           "another model\n",
           (unsigned long long)first, (unsigned long long)last - 1, t->plans, largest_error, t->cut,
           t->dealt, t->uneven, t->alone, t->stages, t->shares, t->context, t->pipelines, t->joined,
           t->copies, t->zero, t->pieces, t->sequence, t->again, t->all, t->shared, t->dense,
           t->lengths, t->balanced, t->learnt, t->prototypes, t->aligned, t->hashed, t->even,
           t->by_node, t->led, t->twins, t->edges);
}
#endif
