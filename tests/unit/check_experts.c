/* check_experts.c: where plans put experts, who sums their gradients, what they send, and every
 * sentence of what is refused. */
#include <math.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/base/rng.h"
#include "core/cost/cost.h"
#include "core/io/read/read.h"
#include "core/plan/annotate.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

typedef struct made {
    luo_arena *arena;
    luo_plan *plan;
    luo_model model;
    luo_programs *set;
    luo_err err;
} made;

static luo_model moe(int64_t experts, int64_t each)
{
    luo_model m = luo_test_llama(1, 64, 128, 4, 64);
    m.family = LUO_FAMILY_MOE;
    m.moe = (luo_moe){
        .experts = experts, .experts_per_token = each, .expert_ffn_hidden = 32, .every_layers = 1};
    return m;
}

static made open_plan(const char *line, int64_t experts, bool dealt)
{
    made m = {.arena = luo_arena_new(1 << 20), .model = moe(experts, 2)};
    m.plan = luo_test_plan(m.arena, line);
    m.plan->sequence_tokens = 64;
    for (int32_t i = 0; i < m.plan->npipelines; i++)
        for (int32_t s = 0; s < m.plan->pipelines[i].nstages; s++)
            ((luo_stage *)m.plan->pipelines[i].stages)[s].experts_dealt = dealt;
    return m;
}

/* Neighbouring pipelines, `each` a group. */
static void group_pipelines(made *m, int32_t each)
{
    const int32_t n = m->plan->npipelines / each;
    struct luo_expert_group *g = LUO_NEW_N(m->arena, struct luo_expert_group, n);
    int32_t *all = LUO_NEW_N(m->arena, int32_t, m->plan->npipelines);
    for (int32_t i = 0; i < m->plan->npipelines; i++) all[i] = i;
    for (int32_t i = 0; i < n; i++) {
        g[i].n = each;
        g[i].pipeline = all + i * each;
    }
    m->plan->ngroups = n;
    m->plan->expert_groups = g;
}

static luo_status compile(made *m)
{
    const luo_compile_opts opts = {.check = true};
    return luo_plan_compile(m->arena, m->plan, &m->model, NULL, &opts, &m->set, &m->err);
}

/* ---- V-M5 ---- */

static const struct placed {
    const char *line;
    int32_t each, context, among;
    const char *experts, *sums, *dense;
} placed[] = {
    {"1: [0]*1 || 1: [1]*1 || 1: [2]*1 || 1: [3]*1", 2, 1, 0, "h=-1 [0,1]{0:2} | [2,3]{0:2}",
     "[0,2][1,3]", "[0-3]"},
    {"1: [0,1]*1 || 1: [2,3]*1", 2, 1, 0, "[0-3]{0:4}", "", "[0,2][1,3]"},
    {"1: [0-3]*1 || 1: [4-7]*1", 2, 2, 0, "[0-7]{0:8}", "", "[0,2,4,6][1,3,5,7]"},
    {"1: [0-3]*1 || 1: [4-7]*1", 2, 2, 4, "[0-7]{-1:2,0:4}", "[0,4][1,5][2,6][3,7]",
     "[0,2,4,6][1,3,5,7]"},
    {"1: [0-3]*1", 0, 1, 0, "[0-3]{0:4}", "", ""},
    {"1: [0-3]*1", 0, 1, 2, "[0-3]{-1:2,0:2}", "[0,2][1,3]", ""},
    {"1: [0-3]*1", 0, 1, 1, "[0-3]{-1:4}", "[0-3]", ""},
};

/* Groups of the gradient sums of a weight, in text. */
static void sums_of(const made *m, const char *name, luo_str *out)
{
    for (int32_t i = 0; i < m->set->nexchanges; i++) {
        const luo_exchange *x = &m->set->exchanges[i];
        if (strcmp(m->set->ops[x->op].name, name) != 0 || !x->resolution) continue;
        for (int32_t k = 0; k < x->resolution->moves.n; k++) {
            const luo_move *move = &x->resolution->moves.at[k];
            if (move->ndev > 1) luo_devset_print(out, move->dev, move->ndev);
        }
    }
}

START_TEST(places)
{
    const struct placed *r = &placed[_i];
    made m = open_plan(r->line, 8, true);
    luo_build_opts build;
    luo_graph *g;
    luo_str sums = {0}, dense = {0};
    if (r->each) group_pipelines(&m, r->each);
    m.plan->expert_parallel = r->among;
    for (int32_t i = 0; i < m.plan->npipelines; i++)
        ((luo_stage *)m.plan->pipelines[i].stages)[0].context_parallel = r->context;
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    ck_assert_int_eq(luo_plan_build_opts(m.arena, m.plan, &m.model, &build, &m.err), LUO_OK);
    ck_assert_int_eq(luo_graph_build(m.arena, &m.model, &build, &g, &m.err), LUO_OK);
    ck_assert_msg(luo_plan_annotate(g, m.plan, &m.err) == LUO_OK, "%s", m.err.text);
    const int32_t w = luo_graph_find(g, "layers.0.moe.gate.weight");
    ck_assert_str_eq(luo_annset_text(g->set, g->tensor[w].ann), r->experts);
    sums_of(&m, "d.layers.0.moe.gate.weight.state", &sums);
    ck_assert_str_eq(luo_str_get(&sums), r->sums);
    sums_of(&m, "d.layers.0.attn.q.weight.state", &dense);
    ck_assert_str_eq(luo_str_get(&dense), r->dense);
    luo_annset_free(g->set);
    luo_str_free(&sums);
    luo_str_free(&dense);
    luo_arena_free(m.arena);
}
END_TEST

/* ---- who shares: the groups of all pipelines against asking for every two of them ---- */

static bool share(const luo_plan *plan, int32_t i, int32_t k)
{
    bool both = i == k;
    for (int32_t g = 0; g < plan->ngroups; g++) {
        int32_t found = 0;
        const int32_t *pipeline = plan->expert_groups[g].pipeline;
        for (int32_t m = 0; m < plan->expert_groups[g].n; m++)
            found += pipeline[m] == i || pipeline[m] == k;
        both |= found == 2;
    }
    return both;
}

/* Pipelines in any order, so many at a time; the last ones alone. */
static void group_anyhow(made *m, luo_rng *rng)
{
    const int32_t n = m->plan->npipelines;
    struct luo_expert_group *g = LUO_NEW_N(m->arena, struct luo_expert_group, n);
    int32_t *all = LUO_NEW_N(m->arena, int32_t, n), at = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = (int32_t)luo_rng_pick(rng, i + 1);
        all[i] = all[k];
        all[k] = i;
    }
    const int32_t grouped = (int32_t)luo_rng_pick(rng, n + 1);
    while (at < grouped) {
        const int32_t each = 1 + (int32_t)luo_rng_pick(rng, grouped - at);
        g[m->plan->ngroups].n = each;
        g[m->plan->ngroups++].pipeline = all + at;
        at += each;
    }
    m->plan->expert_groups = g;
}

START_TEST(groups_of_all)
{
    static const char line[] = "1: [0,1]*1 || 1: [2,3]*1 || 1: [4,5]*1 || 1: [6,7]*1 || "
                               "1: [8,9]*1 || 1: [10,11]*1 || 1: [12,13]*1";
    static const int32_t stage[7] = {0};
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng rng = luo_rng_seed(seed);
        made m = open_plan(line, 64, true);
        luo_ann ann;
        int32_t groups = 0;
        group_anyhow(&m, &rng);
        ck_assert_int_eq(luo_plan_expert_ann(m.arena, m.plan, stage, LUO_FORM_ROWS, &ann, &m.err),
                         LUO_OK);
        for (int32_t i = 0; i < m.plan->npipelines; i++) {
            bool first = true;
            int32_t members = 0;
            for (int32_t k = 0; k < i; k++) first &= !share(m.plan, i, k);
            if (!first) continue;
            ck_assert_msg(groups < ann.u, "seed %llu: %d groups", (unsigned long long)seed, ann.u);
            for (int32_t k = i; k < m.plan->npipelines; k++) {
                if (!share(m.plan, i, k)) continue;
                ck_assert_msg(2 * members + 1 < ann.grp[groups].ndev &&
                                  ann.grp[groups].dev[2 * members] == 2 * k &&
                                  ann.grp[groups].dev[2 * members + 1] == 2 * k + 1,
                              "seed %llu: pipeline %d", (unsigned long long)seed, k);
                members++;
            }
            ck_assert_int_eq(ann.grp[groups].ndev, 2 * members);
            if (ann.h >= 0) ck_assert_int_eq(ann.hshare[groups], members);
            groups++;
        }
        ck_assert_int_eq(groups, ann.u);
        luo_arena_free(m.arena);
    }
}
END_TEST

/* ---- a bias that is learnt: whole everywhere, its counts summed as gradients are without ZeRO
 * ---- */

static const struct learnt {
    const char *line;
    int32_t zero;
    bool dealt;
    const char *bias;
} learnt[] = {
    {"1: [0]*1", 0, false, "[0]{}"},
    {"1: [0]*1 || 1: [1]*1", 0, false, "h=-1 [0]{} | [1]{}"},
    {"1: [0]*1 || 1: [1]*1", 1, false, "h=-1 [0]{} | [1]{}"},
    {"1: [0]*1 || 1: [1]*1", 3, false, "h=-1 [0]{} | [1]{}"},
    {"1: [0,1]*1 || 1: [2,3]*1", 1, false, "h=-1 [0,1]{-1:2} | [2,3]{-1:2}"},
    {"1: [0,1]*1 || 1: [2,3]*1", 1, true, "h=-1 [0,1]{-1:2} | [2,3]{-1:2}"},
};

START_TEST(bias_is_whole)
{
    const struct learnt *r = &learnt[_i];
    made m = open_plan(r->line, 8, r->dealt);
    luo_param *param;
    int32_t n, seen = 0;
    luo_str sums = {0}, router = {0};
    m.model.moe.gate = LUO_GATE_SIGMOID;
    m.model.moe.bias_rate = 0.001;
    m.plan->zero = r->zero;
    m.plan->dtype = LUO_BF16;
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    sums_of(&m, "d.layers.0.moe.router.bias.state", &sums);
    ck_assert_int_eq(luo_plan_params(m.arena, m.plan, &m.model, &param, &n, &m.err), LUO_OK);
    for (int32_t i = 0; i < n; i++) {
        if (!param[i].counted) continue;
        luo_str text = {0};
        seen++;
        ck_assert_str_eq(param[i].name, "layers.0.moe.router.bias");
        ck_assert_int_eq(param[i].elem_bytes, 4);
        luo_ann_print(&text, param[i].state);
        ck_assert_str_eq(luo_str_get(&text), r->bias);
        luo_str_free(&text);
    }
    ck_assert_int_eq(seen, 1);
    m.plan->zero = 0;
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    sums_of(&m, "d.layers.0.moe.router.weight.state", &router);
    ck_assert_str_eq(luo_str_get(&sums), luo_str_get(&router));
    ck_assert((sums.len > 0) == (m.set->n > 1));
    luo_str_free(&sums);
    luo_str_free(&router);
    luo_arena_free(m.arena);
}
END_TEST

/* ---- tokens that choose by their ids ---- */

static bool has_op(const luo_programs *set, const char *name)
{
    for (int32_t i = 0; i < set->nops; i++)
        if (strcmp(set->ops[i].name, name) == 0) return true;
    return false;
}

/* A hash has nothing to learn: no product of a router and, where experts are cut, no exchange of
 * choices. A gate that learns has both. */
START_TEST(hash_has_no_router)
{
    const bool dealt = _i & 1, hash = _i & 2;
    made m = open_plan("1: [0,1]*1 || 1: [2,3]*1", 8, dealt);
    int64_t parameters, with_router;
    m.plan->sequence_parallel = true;
    m.model.moe.experts_per_token = 1;
    ck_assert_int_eq(luo_model_parameters(&m.model, &with_router, &m.err), LUO_OK);
    if (hash) m.model.moe.gate = LUO_GATE_HASH;
    ck_assert_int_eq(luo_model_parameters(&m.model, &parameters, &m.err), LUO_OK);
    ck_assert_int_eq(with_router - parameters, hash ? 8 * m.model.hidden : 0);
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    ck_assert(has_op(m.set, "layers.0.moe.route") && has_op(m.set, "d.layers.0.moe.combine"));
    ck_assert_int_eq(has_op(m.set, "layers.0.moe.logits"), !hash);
    ck_assert_int_eq(has_op(m.set, "layers.0.moe.ids.whole"), !hash && !dealt);
    ck_assert_int_eq(has_op(m.set, "layers.0.moe.weights.whole"), !hash && !dealt);
    luo_arena_free(m.arena);
}
END_TEST

/* ---- V-M4: what a device sends ---- */

static const luo_instr *find_instr(const luo_programs *set, int32_t device, const char *name)
{
    const luo_role *role = &set->roles[luo_programs_find(set, device)->role];
    for (int32_t i = 0; i < role->ninstr; i++)
        if (strcmp(set->ops[role->instr[i].op].name, name) == 0) return &role->instr[i];
    return NULL;
}

/* The gate of shared experts: a row of weights whose gradients are summed as those of the norm
 * are, and a pass over the tokens that a device has between operations. */
START_TEST(shared_experts_with_a_gate)
{
    const bool dealt = _i & 1, sequence = _i & 2;
    made m = open_plan("1: [0,1]*1 || 1: [2,3]*1", 8, dealt);
    const int64_t tokens = sequence ? 32 : 64, bytes = tokens * m.model.hidden * 2;
    int64_t without, parameters;
    luo_str sums = {0}, norm = {0};
    m.plan->sequence_parallel = sequence;
    m.plan->dtype = LUO_BF16;
    m.model.moe.shared_experts = 1;
    m.model.moe.shared_ffn_hidden = 32;
    ck_assert_int_eq(luo_model_parameters(&m.model, &without, &m.err), LUO_OK);
    m.model.moe.shared_gate = true;
    ck_assert_int_eq(luo_model_parameters(&m.model, &parameters, &m.err), LUO_OK);
    ck_assert_int_eq(parameters - without, m.model.hidden);
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    ck_assert_int_eq(find_instr(m.set, 1, "layers.0.moe.shared_gate")->flops,
                     2 * tokens * m.model.hidden);
    ck_assert_int_eq(find_instr(m.set, 1, "layers.0.moe.shared.gated")->cost.a[0], 2 * bytes);
    ck_assert_int_eq(find_instr(m.set, 1, "d.layers.0.moe.shared.gated")->cost.a[0], 3 * bytes);
    sums_of(&m, "d.layers.0.moe.shared_gate.weight.state", &sums);
    sums_of(&m, "d.layers.0.norm2.weight.state", &norm);
    ck_assert_str_eq(luo_str_get(&sums), luo_str_get(&norm));
    ck_assert(sums.len > 0);
    luo_str_free(&sums);
    luo_str_free(&norm);
    luo_arena_free(m.arena);
}
END_TEST

/* T_d k h e (n - 1) / n bytes, four times a layer; counts of 4 bytes for each expert before. */
START_TEST(sent)
{
    static const char *const names[] = {"layers.0.moe.dispatch", "layers.0.moe.return",
                                        "d.layers.0.moe.down", "d.layers.0.moe.pack"};
    made m = open_plan("1: [0-63]*1", 256, true);
    m.model.moe.experts_per_token = 8;
    m.model.hidden = 7168;
    m.model.heads = m.model.kv_heads = 64;
    m.model.head_dim = 1;
    m.plan->sequence_tokens = 64 * 4096;
    m.model.max_sequence_tokens = 64 * 4096;
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    for (int k = 0; k < 4; k++) {
        const luo_instr *i = find_instr(m.set, 5, names[k]);
        ck_assert_msg(i && i->kind == LUO_INSTR_COLLECTIVE && i->coll == LUO_COLL_A2A, "%s",
                      names[k]);
        ck_assert(luo_cost_volume(i->coll, 64) * (double)i->bytes == 462422016);
    }
    ck_assert_int_eq(find_instr(m.set, 5, "layers.0.moe.counts.there")->bytes, 4 * 256);
    luo_arena_free(m.arena);
}
END_TEST

/* Experts of a device as one batched product of equally many rows each. */
START_TEST(products)
{
    made m = open_plan("1: [0-3]*1", 8, true);
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    const luo_instr *i = find_instr(m.set, 0, "layers.0.moe.gate_up");
    const int64_t want[5] = {64 * 2 / 8, 2 * 32, 64, 2, 2};
    for (int k = 0; k < 5; k++) ck_assert_int_eq(i->cost.a[k], want[k]);
    ck_assert_int_eq(i->flops, 2 * 16 * 64 * 64 * 2);
    luo_arena_free(m.arena);
}
END_TEST

/* ---- loads ---- */

static luo_programs *compile_loaded(made *m, double exponent)
{
    const luo_expert_load load = {.exponent = exponent};
    const luo_compile_opts opts = {.check = true, .load = exponent < 0 ? NULL : &load};
    luo_programs *set = NULL;
    ck_assert_msg(luo_plan_compile(m->arena, m->plan, &m->model, NULL, &opts, &set, &m->err) ==
                      LUO_OK,
                  "%s", m->err.text);
    return set;
}

/* Bytes of the device that needs most. */
static int64_t most_memory(const made *m, const luo_programs *set)
{
    luo_memory *memory = LUO_NEW_N(m->arena, luo_memory, set->n);
    int64_t most = 0;
    ck_assert_int_eq(luo_plan_memory(m->arena, set, memory, NULL), LUO_OK);
    for (int32_t i = 0; i < set->n; i++)
        if (memory[i].peak > most) most = memory[i].peak;
    return most;
}

static int64_t most_rows(const luo_programs *set)
{
    int64_t most = 0;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_cost_key *c = &find_instr(set, set->at[i].device, "layers.0.moe.gate_up")->cost;
        const int64_t rows = c->kind == LUO_COST_GROUPED ? c->a[0] : c->a[0] * c->a[3];
        if (rows > most) most = rows;
    }
    return most;
}

/* Equal loads are those of no load; the busiest device never gets less as the exponent grows, and
 * all rows together are as many as ever. */
START_TEST(loads)
{
    made m = open_plan(_i ? "1: [0,1]*1 || 1: [2,3]*1" : "1: [0-3]*1", 16, true);
    m.plan->sequence_tokens = 4096;
    if (_i) group_pipelines(&m, 2);
    const luo_programs *even = compile_loaded(&m, -1);
    int64_t rows = most_rows(even), bytes = find_instr(even, 0, "layers.0.moe.dispatch")->bytes;
    int64_t most = most_memory(&m, even);
    ck_assert_int_eq(most_rows(compile_loaded(&m, 0)), rows);
    for (int k = 0; k < 8; k++) {
        const luo_programs *set = compile_loaded(&m, 0.5 * k);
        const int64_t now = most_rows(set);
        const int64_t leave = find_instr(set, 0, "layers.0.moe.dispatch")->bytes;
        ck_assert_msg(now >= rows && leave >= bytes, "exponent %g: %lld rows", 0.5 * k,
                      (long long)now);
        const int64_t needs = most_memory(&m, set);
        ck_assert_msg(needs >= most, "exponent %g: %lld bytes", 0.5 * k, (long long)needs);
        rows = now;
        bytes = leave;
        most = needs;
    }
    ck_assert_int_gt(rows, 2 * most_rows(even));
    ck_assert_int_gt(most, most_memory(&m, even) * 5 / 4);
    ck_assert_int_gt(bytes, find_instr(even, 0, "layers.0.moe.dispatch")->bytes);
    luo_arena_free(m.arena);
}
END_TEST

/* ---- rows that travel by node ---- */

static luo_cluster *two_nodes(luo_arena *a)
{
    luo_cluster *cluster = NULL;
    luo_diags diags;
    luo_diags_init(&diags, a);
    ck_assert_int_eq(luo_read_cluster(a, "scenarios/clusters/tiny8.yaml", &cluster, &diags),
                     LUO_OK);
    return cluster;
}

static luo_programs *compile_by(made *m, luo_alltoall_kind exchange, double exponent)
{
    const luo_expert_load load = {.exponent = exponent};
    const luo_compile_opts opts = {.check = true, .load = exponent < 0 ? NULL : &load};
    luo_programs *set = NULL;
    m->plan->moe_exchange = exchange;
    ck_assert_msg(luo_plan_compile(m->arena, m->plan, &m->model, two_nodes(m->arena), &opts, &set,
                                   &m->err) == LUO_OK,
                  "%s", m->err.text);
    return set;
}

static void group_text(const luo_programs *set, int32_t device, const luo_instr *in, luo_str *out)
{
    const luo_program *p = luo_programs_find(set, device);
    const luo_group *group = &set->groups[p->slots[in->slot].group];
    luo_devset_print(out, group->dev, group->n);
}

/* To the experts inside the node first, back from them last; the groups of device 5 of two nodes of
 * four, which holds as many bytes in both steps. */
static const struct steps {
    const char *name, *first, *second;
} steps[] = {{"layers.0.moe.counts.there", "[4-7]", "[1,5]"},
             {"layers.0.moe.dispatch", "[4-7]", "[1,5]"},
             {"layers.0.moe.return", "[1,5]", "[4-7]"},
             {"d.layers.0.moe.down", "[4-7]", "[1,5]"},
             {"d.layers.0.moe.pack", "[1,5]", "[4-7]"}};

START_TEST(two_steps)
{
    made m = open_plan("1: [0-7]*1", 16, true);
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    const luo_programs *by_node = compile_by(&m, LUO_ALLTOALL_2D, -1);
    for (size_t k = 0; k < LUO_ROWS(steps); k++) {
        const luo_instr *flat = find_instr(m.set, 5, steps[k].name);
        const luo_instr *one = find_instr(by_node, 5, steps[k].name);
        luo_str first = {0}, second = {0};
        group_text(by_node, 5, one, &first);
        group_text(by_node, 5, one + 1, &second);
        ck_assert_str_eq(luo_str_get(&first), steps[k].first);
        ck_assert_str_eq(luo_str_get(&second), steps[k].second);
        ck_assert(one[0].coll == LUO_COLL_A2A && one[1].coll == LUO_COLL_A2A);
        ck_assert_int_eq(one[0].bytes, flat->bytes);
        ck_assert_int_eq(one[1].bytes, flat->bytes);
        ck_assert(one[1].op == one[0].op && flat[1].op != flat[0].op);
        luo_str_free(&first);
        luo_str_free(&second);
    }
    luo_arena_free(m.arena);
}
END_TEST

/* Rows as they lie, one by one: what the busiest member of a step gets, or what leaves another one
 * (times n / (n - 1), as a collective counts what it holds). rows[s][r]: of
 * sender s for the experts of r. */
static double busiest(const double rows[8][8], bool inside)
{
    double most = 0;
    for (int32_t d = 0; d < 8; d++) { /* in a group with device 2 */
        if (inside ? d >= 4 : d % 4 != 2) continue;
        const int32_t node = d / 4, place = d % 4, n = inside ? 4 : 2;
        double in = 0, out = 0;
        for (int32_t s = 0; s < 8; s++)
            for (int32_t r = 0; r < 8; r++) {
                if (inside) {
                    in += s / 4 == node && r % 4 == place ? rows[s][r] : 0;
                    out += s == d && r % 4 != place ? rows[s][r] : 0;
                } else { /* between the steps a device has its node's rows for its place */
                    in += r == d ? rows[s][r] : 0;
                    out += s / 4 == node && r % 4 == place && r != d ? rows[s][r] : 0;
                }
            }
        most = fmax(most, fmax(in, out * n / (n - 1)));
    }
    return most;
}

START_TEST(loads_of_two_steps)
{
    made m = open_plan("1: [0-7]*1", 32, true);
    m.plan->sequence_tokens = m.model.max_sequence_tokens = 1 << 16;
    for (int k = 0; k < 5; k++) {
        const luo_expert_load load = {.exponent = 0.3 * k};
        int64_t counts[32];
        double rows[8][8] = {{0}};
        const luo_gate gate = {.experts = 32, .k = 2};
        ck_assert_int_eq(luo_load_layer(m.arena, &load, 0, &gate, 1 << 16, 8, counts, &m.err),
                         LUO_OK);
        for (int32_t s = 0; s < 8; s++)
            for (int32_t e = 0; e < 32; e++) rows[s][e / 4] += (double)counts[e] / 8;
        const luo_programs *set = compile_by(&m, LUO_ALLTOALL_2D, load.exponent);
        const luo_instr *there = find_instr(set, 2, "layers.0.moe.dispatch");
        const luo_instr *back = find_instr(set, 2, "layers.0.moe.return");
        const double row = (double)(m.model.hidden * luo_dtype_bytes(m.plan->dtype));
        for (int step = 0; step < 2; step++) {
            const double want = row * busiest(rows, step == 0);
            ck_assert_double_eq_tol((double)there[step].bytes, want, 1e-3 * want);
            ck_assert_int_eq(back[1 - step].bytes, there[step].bytes);
        }
    }
    luo_arena_free(m.arena);
}
END_TEST

/* ---- rows through leaders ---- */

/* Sends of a P2P, and what it receives. */
static void check_messages(const luo_programs *set, int32_t device, const luo_instr *in,
                           const char *peers, bool send, int64_t each)
{
    const luo_slot *slot = &luo_programs_find(set, device)->slots[in->slot];
    int32_t peer[8];
    luo_str text = {0};
    ck_assert(in->kind == LUO_INSTR_P2P && luo_instr_trades(in) && in->stream == LUO_STREAM_TP);
    ck_assert_int_lt(slot->nmessage, 8);
    for (int32_t k = 0; k < slot->nmessage; k++) {
        peer[k] = slot->message[k].peer;
        ck_assert(slot->message[k].send == send);
        ck_assert_int_eq(slot->message[k].bytes, each);
    }
    luo_devset_print(&text, peer, slot->nmessage);
    ck_assert_str_eq(luo_str_get(&text), peers);
    ck_assert_int_eq(in->bytes, send ? slot->nmessage * each : 0);
    luo_str_free(&text);
}

/* All of a node's rows lie on its leader, twice, and nowhere else. */
static void check_runs(const luo_programs *set, const luo_instr *in, int64_t bytes)
{
    const luo_role *role = &set->roles[luo_programs_find(set, 4)->role];
    const luo_buffer *gathered = &role->buf[in[0].out[0]], *exchanged = &role->buf[in[1].out[0]];
    ck_assert(in[1].in[0] == in[0].out[0] && in[2].in[0] == in[1].out[0]);
    ck_assert(gathered->buffer_class == LUO_BUFFER_COMM);
    ck_assert(exchanged->buffer_class == LUO_BUFFER_COMM);
    ck_assert_int_eq(gathered->bytes, bytes);
    ck_assert_int_eq(exchanged->bytes, bytes);
}

/* Bytes of every step are those of the closed forms, of two nodes of four devices and one card. */
START_TEST(three_steps)
{
    made m = open_plan("1: [0-7]*1", 16, true);
    const luo_alltoall x = {2, 4, 1};
    const luo_alltoall_links links = {.nics = 1};
    ck_assert_msg(compile(&m) == LUO_OK, "%s", m.err.text);
    const luo_programs *led = compile_by(&m, LUO_ALLTOALL_LEADER, -1);
    for (size_t k = 0; k < LUO_ROWS(steps); k++) {
        const int64_t each = find_instr(m.set, 5, steps[k].name)->bytes;
        const luo_instr *leader = find_instr(led, 4, steps[k].name);
        const luo_instr *other = find_instr(led, 5, steps[k].name);
        luo_str group = {0};
        check_messages(led, 4, leader, "[5-7]", false, each);
        check_messages(led, 5, other, "[4]", true, each);
        group_text(led, 4, leader + 1, &group);
        ck_assert_str_eq(luo_str_get(&group), "[0,4]");
        ck_assert(leader[1].kind == LUO_INSTR_COLLECTIVE && leader[1].coll == LUO_COLL_A2A);
        ck_assert_double_eq(/* the other half stays */ (double)leader[1].bytes / 2,
                            luo_alltoall_nic_bytes(&x, LUO_ALLTOALL_LEADER, &links, (double)each));
        check_messages(led, 4, leader + 2, "[5-7]", true, each);
        check_messages(led, 5, other + 1, "[4]", false, each);
        ck_assert(leader[2].op == leader[0].op && other[1].op == other[0].op);
        ck_assert(leader[3].op != leader[0].op && other[2].op != other[0].op);
        check_runs(led, leader, 4 * each);
        luo_str_free(&group);
    }
    luo_arena_free(m.arena);
}
END_TEST

/* A leader needs room for its node's rows, two times; no other device does. */
START_TEST(room_of_leaders)
{
    made m = open_plan("1: [0-7]*1", 16, true);
    m.plan->sequence_tokens = m.model.max_sequence_tokens = 1 << 14;
    m.model.moe.experts_per_token = 8;
    m.model.moe.expert_ffn_hidden = 16;
    const luo_programs *led = compile_by(&m, LUO_ALLTOALL_LEADER, -1);
    const int64_t rows = find_instr(led, 5, "layers.0.moe.dispatch")->bytes;
    const luo_programs *by_node = compile_by(&m, LUO_ALLTOALL_2D, -1);
    for (int32_t d = 0; d < 8; d++) {
        luo_memory a, b;
        ck_assert_int_eq(luo_program_memory(m.arena, led, d, &a, &m.err), LUO_OK);
        ck_assert_int_eq(luo_program_memory(m.arena, by_node, d, &b, &m.err), LUO_OK);
        if (d % 4 != 0)
            ck_assert_int_le(a.peak, b.peak);
        else
            ck_assert_int_ge(a.peak, 2 * 4 * rows);
        if (d % 4 == 0) ck_assert_int_gt(a.peak, b.peak + 4 * rows);
    }
    luo_arena_free(m.arena);
}
END_TEST

/* Popular experts: what leaders exchange and deal out is what their node's experts get; what they
 * gather is what tokens send, whichever experts that is for. Back it is the other way round. */
START_TEST(loads_of_leaders)
{
    made m = open_plan("1: [0-7]*1", 32, true);
    m.plan->sequence_tokens = m.model.max_sequence_tokens = 1 << 16;
    for (int k = 0; k < 5; k++) {
        const luo_expert_load load = {.exponent = 0.3 * k};
        const luo_gate gate = {.experts = 32, .k = 2};
        int64_t counts[32], of[8] = {0}, node[2] = {0}, all = 0;
        ck_assert_int_eq(luo_load_layer(m.arena, &load, 0, &gate, 1 << 16, 8, counts, &m.err),
                         LUO_OK);
        for (int32_t e = 0; e < 32; e++) of[e / 4] += counts[e], node[e / 16] += counts[e];
        all = node[0] + node[1];
        const luo_programs *set = compile_by(&m, LUO_ALLTOALL_LEADER, load.exponent);
        const int64_t row = m.model.hidden * luo_dtype_bytes(m.plan->dtype);
        for (int32_t d = 0; d < 8; d += 4) {
            const luo_instr *there = find_instr(set, d, "layers.0.moe.dispatch");
            const luo_instr *back = find_instr(set, d, "layers.0.moe.return");
            const luo_slot *slots = luo_programs_find(set, d)->slots;
            const int64_t most = node[0] > node[1] ? node[0] : node[1];
            ck_assert_int_eq(there[1].bytes, most * row);
            ck_assert_int_eq(back[1].bytes, most * row);
            for (int32_t i = 0; i < 3; i++) {
                ck_assert_int_eq(slots[there[0].slot].message[i].bytes, all / 8 * row);
                ck_assert_int_eq(slots[there[2].slot].message[i].bytes, of[d + 1 + i] * row);
                ck_assert_int_eq(slots[back[0].slot].message[i].bytes, of[d + 1 + i] * row);
                ck_assert_int_eq(slots[back[2].slot].message[i].bytes, all / 8 * row);
            }
        }
    }
    luo_arena_free(m.arena);
}
END_TEST

/* Blocks of experts that do not lie in nodes alike; one node, and one device a node, is one step.
 */
static const struct lie {
    const char *line;
    int32_t among, nsteps; /* 0: refused */
} lies[] = {{"1: [0-5]*1", 0, 0}, {"1: [1,0,4,5]*1", 0, 2}, {"1: [0,4-6]*1", 0, 0},
            {"1: [0-3]*1", 0, 1}, {"1: [0,4]*1", 0, 1},     {"1: [0-7]*1", 4, 1},
            {"1: [2-5]*1", 0, 2}, {"1: [2-5]*1", 2, 1},
            {"1: [0,4,1,5]*1", 0, 0}, {"1: [0,1,4,5,2,3,6,7]*1", 0, 0}}; /* a node stands twice */

START_TEST(blocks_of_nodes)
{
    const luo_compile_opts opts = {.check = true};
    const int32_t i = _i / 2;
    made m = open_plan(lies[i].line, 12, true);
    m.plan->expert_parallel = lies[i].among;
    m.plan->moe_exchange = _i % 2 ? LUO_ALLTOALL_LEADER : LUO_ALLTOALL_2D;
    const luo_status st =
        luo_plan_compile(m.arena, m.plan, &m.model, two_nodes(m.arena), &opts, &m.set, &m.err);
    if (lies[i].nsteps == 0) {
        ck_assert_int_eq(st, LUO_EINPUT);
        ck_assert_msg(strstr(m.err.text, "that have all experts together are not equally many "
                                         "neighbours in every node; moe_exchange: flat is needed."),
                      "%s", m.err.text);
    } else {
        ck_assert_msg(st == LUO_OK, "%s", m.err.text);
        const int32_t device = m.plan->pipelines[0].stages[0].dev[0];
        const luo_instr *in = find_instr(m.set, device, "layers.0.moe.dispatch");
        ck_assert_int_eq(1 + (in[1].op == in[0].op), lies[i].nsteps);
        ck_assert(lies[i].nsteps == 1 ||
                  (in[2].op == in[0].op) == _i % 2); /* the first one leads */
    }
    luo_arena_free(m.arena);
}
END_TEST

/* ---- loads by a table ---- */

static const struct table {
    const char *text, *says; /* NULL: it is a good one */
} tables[] = {
    {"step,layer,expert,tokens\n4,0,0,3\n4,0,7,1\n9,0,3,2\n", NULL},
    {"step,layer,expert,tokens\n0,1,0,3\n", "model `test` has no layer 1 with experts."},
    {"step,layer,expert,tokens\n0,0,8,3\n", "expert 8 is not in model `test`; experts are 0 to 7."},
};

START_TEST(table)
{
    luo_arena *arena = luo_arena_new(0);
    luo_model m = moe(8, 2);
    const luo_source src = {"t.csv", tables[_i].text, strlen(tables[_i].text)};
    luo_expert_load *read;
    luo_diags diags;
    int32_t n;
    m.name = "test";
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_expert_load_text(arena, &src, &m, &read, &n, &diags);
    ck_assert_int_eq(st, tables[_i].says ? LUO_EINPUT : LUO_OK);
    if (st == LUO_OK)
        ck_assert(n == 2 && read[0].step == 4 && read[0].nrows == 2 && read[1].step == 9 &&
                  read[1].rows[0].expert == 3 && read[0].rows[1].tokens == 1);
    else
        ck_assert_str_eq(diags.first->err.text, tables[_i].says);
    luo_arena_free(arena);
}
END_TEST

/* Rows by weights, what is above one a token to the next expert, the round goes on at the first;
 * experts of a layer without rows are alike; the last step before counts. */
START_TEST(table_counts)
{
    static const luo_load_row rows[] = {{2, 0, 30}, {2, 1, 10}, {4, 3, 1}};
    static const luo_expert_load all[] = {{.step = 3, .nrows = 3, .rows = rows},
                                          {.step = 5, .nrows = 1, .rows = rows + 2}};
    static const struct {
        int32_t layer;
        int64_t want[4];
    } layers[] = {{2, {100, 100, 0, 0}}, {3, {50, 50, 50, 50}}, {4, {100, 0, 0, 100}}};
    const luo_scenario sc = {.nloads = 2, .loads = all};
    luo_arena *arena = luo_arena_new(0);
    int64_t counts[4];
    for (int i = 0; i < 3; i++) {
        const luo_gate gate = {.experts = 4, .k = 2};
        ck_assert_int_eq(luo_load_layer(arena, all, layers[i].layer, &gate, 100, 1, counts, NULL),
                         0);
        for (int e = 0; e < 4; e++) ck_assert_int_eq(counts[e], layers[i].want[e]);
    }
    ck_assert_ptr_null(luo_run_load(&sc, 2));
    ck_assert_ptr_eq(luo_run_load(&sc, 4), all);
    ck_assert_ptr_eq(luo_run_load(&sc, 1000), all + 1);
    luo_arena_free(arena);
}
END_TEST

/* ---- products ---- */

/* Experts of a device with rows of their own: tiles of each. Cut or dealt, all rows are there. */
START_TEST(uneven_products)
{
    static const luo_load_row rows[] = {{0, 0, 1000}, {0, 1, 24}, {0, 3, 3000}, {0, 9, 4024}};
    static const luo_expert_load load = {.nrows = 4, .rows = rows};
    const luo_compile_opts opts = {.check = true, .load = &load};
    made m = open_plan("1: [0-3]*1", 16, _i);
    m.plan->sequence_tokens = m.model.max_sequence_tokens = 4096;
    m.model.moe.experts_per_token = 1;
    ck_assert_msg(luo_plan_compile(m.arena, m.plan, &m.model, NULL, &opts, &m.set, &m.err) ==
                      LUO_OK,
                  "%s", m.err.text);
    int64_t flops = 0;
    for (int32_t d = 0; d < 4; d++) flops += find_instr(m.set, d, "layers.0.moe.gate_up")->flops;
    ck_assert_int_eq(flops, 2 * 4096LL * 64 * 64);
    /* 509, 12, 1527 and 2048 of 4096 rows */
    const luo_instr *i = find_instr(m.set, 0, "layers.0.moe.gate_up");
    const int64_t cut[] = {4096, 16, 64, 4, 2, 2 + 1 + 6 + 8, 4 + 1 + 12 + 16, 8 + 1 + 24 + 32};
    const int64_t dealt[] = {2048, 64, 64, 3, 2, 2 + 1 + 6, 4 + 1 + 12, 8 + 1 + 24};
    ck_assert_int_eq(i->cost.kind, LUO_COST_GROUPED);
    for (int k = 0; k < LUO_COST_SIZES; k++)
        ck_assert_int_eq(i->cost.a[k], _i ? dealt[k] : cut[k]);
    ck_assert_int_eq(i->flops, 2 * i->cost.a[0] * i->cost.a[1] * 64);
    luo_arena_free(m.arena);
}
END_TEST

/* ---- what is refused ---- */

static const struct refusal {
    const char *line;
    int64_t experts;
    int32_t each, zero, among;
    bool cut, bias;
    luo_alltoall_kind exchange;
    const char *says;
} refusals[] = {
    {.line = "1: [0-3]*1",
     .experts = 3,
     .says = "pipeline 0, stage 0: 3 experts cannot be dealt to 4 devices; use experts: tensor or "
             "fewer devices."},
    {.line = "1: [0-7]*1",
     .experts = 8,
     .among = 3,
     .says = "expert_parallel 3 does not divide 8."},
    {.line = "1: [0-3]*1",
     .experts = 8,
     .among = 2,
     .cut = true,
     .says = "expert_parallel 2 is of experts that are dealt; use experts: expert in stage 0 of "
             "pipeline 0."},
    {.line = "1: [0-3]*1",
     .experts = 8,
     .exchange = LUO_ALLTOALL_2D,
     .cut = true,
     .says = "moe_exchange: 2d is of experts that are dealt; use experts: expert in stage 0 of "
             "pipeline 0."},
    {.line = "1: [0-3]*1",
     .experts = 8,
     .exchange = LUO_ALLTOALL_LEADER,
     .cut = true,
     .says = "moe_exchange: leader is of experts that are dealt; use experts: expert in stage 0 of "
             "pipeline 0."},
    {.line = "8: [0]*1 || 7: [1]*1",
     .experts = 8,
     .each = 2,
     .says = "expert group 0: pipelines 0 and 1 have 8 and 7 micro-batches."},
    {.line = "1: [0]*1 || 1: [1,2]*1",
     .experts = 8,
     .each = 2,
     .says = "expert group 0: pipelines 0 and 1 need experts: expert and stages of equally many "
             "devices, cut and recomputed alike."},
    {.line = "1: [0]*1 || 1: [1]*1",
     .experts = 8,
     .each = 2,
     .cut = true,
     .says = "expert group 0: pipelines 0 and 1 need experts: expert and stages of equally many "
             "devices, cut and recomputed alike."},
    {.line = "1: [0]*1 || 1: [1]*1",
     .experts = 8,
     .each = 2,
     .zero = 2,
     .says = "zero 2 with experts that pipelines share is not built yet; use zero 1."},
    {.line = "1: [0]*1",
     .experts = 8,
     .bias = true,
     .says = "model `test-llama` has experts and `linear_bias`, for which no program is built yet; "
             "leave it out."},
};

START_TEST(refused)
{
    const struct refusal *r = &refusals[_i];
    made m = open_plan(r->line, r->experts, !r->cut);
    if (r->each) group_pipelines(&m, r->each);
    m.plan->zero = r->zero;
    m.plan->expert_parallel = r->among;
    m.plan->moe_exchange = r->exchange;
    m.model.linear_bias = r->bias;
    ck_assert_int_eq(compile(&m), LUO_EINPUT);
    ck_assert_str_eq(m.err.text, r->says);
    luo_arena_free(m.arena);
}
END_TEST

LUO_SUITE("plan.experts", LUO_T_N(places, LUO_ROWS(placed)), LUO_T(groups_of_all),
          LUO_T_N(bias_is_whole, LUO_ROWS(learnt)), LUO_T_N(hash_has_no_router, 4),
          LUO_T_N(shared_experts_with_a_gate, 4), LUO_T(sent),
          LUO_T(products), LUO_T_N(table, LUO_ROWS(tables)), LUO_T(table_counts), LUO_T_N(loads, 2),
          LUO_T(two_steps), LUO_T(loads_of_two_steps), LUO_T_N(blocks_of_nodes, 2 * LUO_ROWS(lies)),
          LUO_T(three_steps), LUO_T(room_of_leaders), LUO_T(loads_of_leaders),
          LUO_T_N(uneven_products, 2), LUO_T_N(refused, LUO_ROWS(refusals)))
