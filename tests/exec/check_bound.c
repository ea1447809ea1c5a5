/* check_bound.c: programs of random plans bound to the buffers of all their devices, in
 * every precision: the update touches every cell of a piece once and the same one in weight,
 * gradient and state; communications list all cells of their routes; buffers are as wide as said.
 */
#include "exec/bind/bound.h"

#include <float.h>
#include <math.h>

#include "tests/check_main.h"
#include "tests/exec/cells.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

static plan_tally plans;
static struct {
    int64_t devices, pairs, cut, cells, comms, in_place, packed, outlive, await, losses, ahead;
} met;

typedef struct binding {
    luo_arena *a;
    uint64_t seed;
    const luo_shape *shape; /* of the parameter at hand */
    const luo_bound *b;
} binding;

#define CHECK(x, ...)                                                                              \
    ck_assert_msg(__VA_ARGS__, "LUO_SEED=%llu LUO_CASES=1, device %d: " #__VA_ARGS__,              \
                  (unsigned long long)(x)->seed, (int)(x)->b->device)

/* Global cells of a region, in the order in which a frame of it holds them. */
static int64_t *cells_of(const binding *x, const luo_region *r, int64_t *n)
{
    int64_t *at = LUO_NEW_N(x->a, int64_t, luo_region_volume(r) + 1);
    *n = 0;
    for (int64_t c = 0; c < cells_count(x->shape); c++)
        if (cells_inside(r, x->shape, c)) at[(*n)++] = c;
    return at;
}

static int64_t *cells_of_buffer(const binding *x, int32_t buffer, int64_t *n)
{
    const luo_buffer *d = luo_bound_desc(x->b, buffer);
    luo_holdings h;
    ck_assert_int_eq(luo_holdings_make(x->a, d->ann, &d->shape, &h, NULL), LUO_OK);
    for (int32_t k = 0; k < h.n; k++)
        if (h.at[k].dev == x->b->device) return cells_of(x, &h.at[k].region, n);
    ck_abort_msg("a buffer of no holding");
    return NULL;
}

/* ---- the update ---- */

static void check_pair(binding *x, const luo_bound_pair *p)
{
    int64_t nw, ng, ns, np, left;
    x->shape = &p->piece->param->shape;
    const int64_t *w = cells_of_buffer(x, p->weight, &nw), *g = cells_of_buffer(x, p->grad, &ng);
    const int64_t *s = cells_of_buffer(x, p->state, &ns);
    const int64_t *piece = cells_of(x, &p->piece->piece, &np);
    bool *seen = LUO_NEW_N(x->a, bool, cells_count(x->shape));
    left = np;
    CHECK(x, ns == np && p->piece->state_frame.volume == np && p->piece->weight_frame.volume == nw);
    for (int32_t k = 0; k < p->ncells; k++)
        for (int64_t i = 0; i < p->cells[k].n; i++) {
            const luo_cells *c = &p->cells[k];
            CHECK(x, c->weight + i < nw && c->grad + i < ng && c->state + i < ns);
            const int64_t cell = w[c->weight + i];
            CHECK(x, g[c->grad + i] == cell && s[c->state + i] == cell && !seen[cell]);
            seen[cell] = true;
            left--;
        }
    CHECK(x, left == 0);
    for (int64_t i = 0; i < np; i++) CHECK(x, seen[piece[i]]);
    met.cut += np < nw;
    met.cells += np;
}

/* Every piece of this device is updated, and no other. */
static void check_update(binding *x)
{
    const luo_bound *b = x->b;
    int32_t pieces = 0;
    for (int32_t i = 0; i < b->npieces; i++) {
        const bool here = !b->piece[i].piece.empty;
        CHECK(x, here == (b->weight_buffer[i] >= 0) && here == (b->state_buffer[i] >= 0));
        pieces += here;
    }
    CHECK(x, pieces == b->npairs);
    for (int32_t i = 0; i < b->npairs; i++) check_pair(x, &b->pair[i]);
    met.pairs += b->npairs;
}

/* ---- communications ---- */

/* The segments of lists one behind the other are those of all, element by element. */
static void check_flat(const binding *x, const luo_copy_segments *list, int32_t n,
                       const luo_copy_segments *all)
{
    int64_t sum = 0, pos = 0;
    int32_t k = 0;
    for (int32_t l = 0; l < n; l++)
        for (int32_t i = 0; i < list[l].n; i++)
            for (int64_t e = 0; e < list[l].at[i].n; e++, sum++) {
                CHECK(x, k < all->n && all->at[k].at + pos == list[l].at[i].at + e);
                if (++pos == all->at[k].n) k++, pos = 0;
            }
    CHECK(x, k == all->n && sum == all->elements);
}

static void check_counts(const binding *x, const luo_bound_comm *c, const luo_copy_segments *part)
{
    int64_t at = 0;
    for (int32_t i = 0; i < c->route.n; at += c->counts[i++])
        CHECK(x, c->counts[i] == part[i].elements && c->starts[i] == at);
}

static void check_collective(const binding *x, const luo_bound_op *op)
{
    const luo_bound_comm *c = op->comm;
    const bool rs = op->instr->coll == LUO_COLL_RS, ag = op->instr->coll == LUO_COLL_AG;
    check_flat(x, c->route.send, rs ? c->route.n : 1, &c->send);
    check_flat(x, c->route.recv, ag ? c->route.n : 1, &c->recv);
    if (rs) check_counts(x, c, c->route.send);
    if (ag) check_counts(x, c, c->route.recv);
    const int64_t own = ag ? c->starts[c->route.rank] : 0;
    CHECK(x, c->recv_direct < 0 || rs || c->in_place || c->route.in != c->route.out);
    CHECK(x, !c->in_place || c->send.elements == 0 || c->send_direct == c->recv_direct + own);
    CHECK(x, !rs || c->recv_direct < 0 || c->route.in != c->route.out);
    met.in_place += c->in_place;
    met.packed += c->recv_direct < 0;
}

static void check_op(const binding *x, const luo_bound_op *op)
{
    met.losses += op->is_loss;
    CHECK(x, (op->comm != NULL) == (op->instr->exchange >= 0));
    if (!op->comm) return;
    met.comms++;
    const luo_bound_comm *c = op->comm;
    CHECK(x, c->elem_bytes == x->b->set->exchanges[op->instr->exchange].elem_bytes);
    if (op->instr->kind == LUO_INSTR_COLLECTIVE) check_collective(x, op);
    if (op->instr->kind != LUO_INSTR_P2P) return;
    const luo_slot *slot = &x->b->program->slots[op->instr->slot];
    check_flat(x, c->route.send, slot->nmessage, &c->send);
    check_flat(x, c->route.recv, slot->nmessage, &c->recv);
    for (int32_t i = 0; i < slot->nmessage; i++) {
        CHECK(x, x->b->config->device_of[c->peer[i]] == slot->message[i].peer);
        CHECK(x, !slot->message[i].send || !c->awaits);
        CHECK(x, slot->message[i].send || !c->outlives);
        CHECK(x, !slot->message[i].send || !c->ahead);
    }
    CHECK(x, c->ahead == (c->awaits && op->instr->stream == LUO_STREAM_PP));
    met.ahead += c->ahead;
    met.outlive += c->outlives;
    met.await += c->awaits;
}

/* What a task receives lies one behind the other, and a room is as long as that of any. */
static void check_rooms(const binding *x)
{
    int64_t most = 0;
    for (int32_t s = 0; s < x->b->role->nseg; s++) {
        const luo_segment *seg = &x->b->role->seg[s];
        int64_t at = 0;
        for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
            const luo_bound_comm *c = x->b->op[i].comm;
            if (!c || !c->ahead) continue;
            CHECK(x, c->route.enter.from == -1 && c->room == at);
            at += c->recv.elements * c->elem_bytes;
            while (at % LUO_LAYOUT_ALIGN) at++;
        }
        if (at > most) most = at;
    }
    CHECK(x, x->b->room_bytes == most);
}

/* ---- plans ---- */

static void check_device(luo_arena *a, uint64_t seed, const luo_rank_config *config,
                         const luo_programs *set, const luo_recipe *recipe)
{
    luo_bound b;
    luo_err err = {0};
    if (luo_bind(a, config, set, recipe, &b, &err) != LUO_OK)
        ck_abort_msg("LUO_SEED=%llu, rank %d: %s", (unsigned long long)seed, config->rank,
                     err.text);
    binding x = {a, seed, NULL, &b};
    met.devices++;
    check_update(&x);
    for (int32_t i = 0; i < b.role->ninstr; i++) check_op(&x, &b.op[i]);
    check_rooms(&x);
    luo_rank_config other = *config; /* and is refused as another precision */
    for (int d = 0; d < 3 && config->rank == 0; d++) {
        other.dtype = (luo_dtype)d;
        if (other.dtype == config->dtype) continue;
        const luo_status st = luo_bind(a, &other, set, recipe, &b, &err);
        ck_assert_msg(st == LUO_EUNSUP && strstr(err.text, "bytes an element"), "%s", err.text);
    }
}

static void one_case(uint64_t seed)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *p = plan_random(a, &r, &plans);
    p->dtype = (luo_dtype)luo_rng_pick(&r, 3);
    if (p->dtype == LUO_BF16) p->state_layout = (luo_state_layout){0}; /* host has no bf16 */
    luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    if (luo_rng_pick(&r, 3) == 0) m = luo_test_gpt(p->layers, 8, 4, 20);
    m.max_sequence_tokens = 24;
    luo_programs *set = NULL;
    luo_err err = {0};
    if (luo_plan_compile(a, p, &m, NULL, NULL, &set, &err) != LUO_OK)
        ck_abort_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    const luo_recipe recipe = {.plan = p, .sequence_tokens = p->sequence_tokens};
    int32_t *dev = LUO_NEW_N(a, int32_t, set->n);
    for (int32_t i = 0; i < set->n; i++) dev[i] = set->at[i].device;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_rank_config c = {
            .rank = i, .nranks = set->n, .device_of = dev, .model = &m, .dtype = p->dtype};
        const size_t mark = luo_arena_mark(a);
        check_device(a, seed, &c, set, &recipe);
        luo_arena_reset(a, mark);
    }
    luo_arena_free(a);
}

enum { CASES = 20 };

START_TEST(programs)
{
    LUO_PROP_FOR(seed, CASES) one_case(seed);
    printf("%lld devices, %lld pieces (%lld cut from their weight, %lld cells), %lld losses; "
           "%lld communications: %lld in place, %lld packed, %lld outlive their task, %lld await, "
           "%lld ahead\n",
           (long long)met.devices, (long long)met.pairs, (long long)met.cut, (long long)met.cells,
           (long long)met.losses, (long long)met.comms, (long long)met.in_place,
           (long long)met.packed, (long long)met.outlive, (long long)met.await,
           (long long)met.ahead);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    ck_assert(met.cut > 100 && met.in_place > 100 && met.packed > 100 && met.outlive > 100);
    ck_assert(met.await > 100 && met.ahead > 100 && met.losses > CASES);
}
END_TEST

static const luo_compile_opts bare = {0};

/* A rank beside the plan has the parameters, and empty pieces; a plan whose optimizer has a layout
 * of its own is refused; so is one that needs a device without a rank. */
START_TEST(others)
{
    luo_arena *a = luo_arena_new(1 << 18);
    luo_plan *p = luo_test_plan(a, "2: [0]*1 [1]*1");
    p->sequence_tokens = 16;
    p->dtype = LUO_BF16;
    const luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    const luo_recipe recipe = {.plan = p, .sequence_tokens = 16};
    const int32_t dev[3] = {0, 1, 5}, apart[2] = {0, 5};
    luo_rank_config c = {.rank = 2, .nranks = 3, .device_of = dev, .model = &m, .dtype = LUO_BF16};
    luo_programs *set;
    luo_bound b;
    luo_err err = {0};
    ck_assert_int_eq(luo_plan_compile(a, p, &m, NULL, &bare, &set, &err), LUO_OK);
    ck_assert_int_eq(luo_bind(a, &c, set, &recipe, &b, &err), LUO_OK);
    ck_assert(!b.program && b.npieces > 10 && b.piece[3].piece.empty && b.state_buffer[3] == -1);
    c = (luo_rank_config){
        .rank = 0, .nranks = 2, .device_of = apart, .model = &m, .dtype = LUO_BF16};
    ck_assert_int_eq(luo_bind(a, &c, set, &recipe, &b, &err), LUO_EBACKEND);
    ck_assert_str_eq(err.text,
                     "the plan needs device 1, for which no rank runs; give more --ranks.");
    ck_assert_int_eq(luo_bound_rank_of(&c, 5), 1);
    ck_assert_int_eq(luo_bound_rank_of(&c, 1), -1);
    luo_arena_free(a);
}
END_TEST

/* Binds the programs of device 0 with the operands or the results of one instruction taken away. */
static void check_without(luo_arena *a, const luo_rank_config *c, const luo_programs *set,
                          const luo_recipe *recipe, luo_instr *in, bool results, bool *met_kind)
{
    const luo_instr kept = *in;
    luo_bound b;
    luo_err err = {0};
    *(results ? &in->nout : &in->nin) = 0;
    ck_assert_msg(luo_bind(a, c, set, recipe, &b, &err) == LUO_EBUG, "%s without %s is taken",
                  luo_op_info_kind(&set->ops[in->op]), results ? "results" : "operands");
    const char *counts = luo_arena_printf(a, " has %d operands and %d results, which this executor",
                                          results ? kept.nin : 0, results ? 0 : kept.nout);
    ck_assert_msg(strstr(err.text, counts) != NULL, "%s", err.text);
    *in = kept;
    met_kind[set->ops[in->op].kind] = true;
}

/* Every operation that computes has operands and results; one without is refused, not read past its
 * end. */
START_TEST(operations_without_operands)
{
    luo_arena *a = luo_arena_new(1 << 18);
    luo_plan *p = luo_test_plan(a, "2: [0]*2");
    bool met_kind[LUO_OP_KINDS] = {false};
    p->sequence_tokens = 16;
    luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    if (_i == 1) m = luo_test_gpt(p->layers, 8, 4, 20);
    if (_i == 2) {
        m.family = LUO_FAMILY_MOE;
        m.moe = (luo_moe){.experts = 4,
                          .experts_per_token = 2,
                          .expert_ffn_hidden = 8,
                          .every_layers = 1,
                          .routed_scale = 1,
                          .route_groups = 1,
                          .route_groups_kept = 1};
    }
    const luo_recipe recipe = {.plan = p, .sequence_tokens = 16};
    const int32_t dev[1] = {0};
    const luo_rank_config c = {.nranks = 1, .device_of = dev, .model = &m, .dtype = LUO_BF16};
    luo_programs *set;
    luo_bound b;
    luo_err err = {0};
    ck_assert_msg(luo_plan_compile(a, p, &m, NULL, &bare, &set, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_bind(a, &c, set, &recipe, &b, &err) == LUO_OK, "%s", err.text);
    const luo_role *role = &set->roles[set->at[0].role];
    int kinds = 0;
    for (int32_t i = 0; i < role->ninstr; i++) {
        luo_instr *in = (luo_instr *)&role->instr[i];
        if (in->kind != LUO_INSTR_COMPUTE || met_kind[set->ops[in->op].kind]) continue;
        const luo_op_kind kind = (luo_op_kind)set->ops[in->op].kind;
        const bool pieces = kind == LUO_OP_GRAD_NORM || kind == LUO_OP_UPDATE; /* perhaps none */
        if (!pieces) check_without(a, &c, set, &recipe, in, false, met_kind);
        if (kind != LUO_OP_UPDATE) check_without(a, &c, set, &recipe, in, true, met_kind);
        kinds++;
    }
    ck_assert_int_ge(kinds, 15);
    ck_assert(_i < 2 || met_kind[LUO_OP_ROUTE]);
    luo_arena_free(a);
}
END_TEST

/* Any number of ranks knows what is not finite when one of them adds it, and all together stay
 * finite. */
START_TEST(most_squares)
{
    for (int32_t n = 1; n <= 3000; n++) {
        const double f32 = luo_bound_most_squares(LUO_BF16, n);
        const double f64 = luo_bound_most_squares(LUO_F64, n);
        volatile float one = (float)f32, all = 0;
        ck_assert(f32 == luo_bound_most_squares(LUO_F32, n) && (double)one == f32);
        for (int32_t k = 0; k < n; k++) all += one;
        ck_assert(isfinite(all) && !((double)all < f32) && f32 * n > (double)FLT_MAX / 3);
        ck_assert(isfinite(f64 * n) && f64 * n > DBL_MAX / 3);
    }
}
END_TEST
LUO_SUITE("exec.bound", LUO_T(programs), LUO_T(others),
          LUO_T_N(operations_without_operands, 3), LUO_T(most_squares))
