/* prop_route_reshard.c: random Reshards (docs/architecture/tests.md) as programs of their own,
 * followed by luo_route_of on all devices: apart, in place in the result (as Pre does), in place in
 * the operand (as Post does). */
#include "tests/check_main.h"
#include "tests/exec/wires.h"
#include "tests/prop/gen_reshard.h"
#include "tests/prop/prop.h"

typedef enum path { APART, IN_RESULT, IN_OPERAND, WAYS } path;
static const char *const way_name[WAYS] = {"apart", "in result", "in operand"};

static struct {
    int64_t cases[WAYS], steps[WAYS], scratch[WAYS], enter, leave, refused;
} met;

/* ---- a program set with this Reshard alone: the rules of core/graph/specialize/spec_steps.c
 * ---- */

typedef struct maker {
    luo_arena *a;
    const luo_reshard *x;
    const luo_resolution *res;
    path how;
    luo_holdings src, dst;
    luo_programs set;
    luo_program *program;
    luo_role *role;
    luo_group *group; /* one per collective move */
} maker;

static const luo_holding *held(const luo_holdings *h, int32_t dev)
{
    for (int32_t k = 0; k < h->n; k++)
        if (h->at[k].dev == dev) return &h->at[k];
    return NULL;
}

static bool is_collective(const luo_move *m)
{
    return m->kind == LUO_MOVE_AR || m->kind == LUO_MOVE_RS || m->kind == LUO_MOVE_AG;
}

static bool takes_part(const luo_move *m, int32_t dev)
{
    for (int32_t k = 0; k < m->ndev; k++)
        if (m->dev[k] == dev) return true;
    return false;
}

/* Messages of one device in a step: sends, then receives, each by peer, cells of a pair summed. */
static luo_slot messages(const maker *m, int32_t dev, int32_t step)
{
    luo_message *at = LUO_NEW_N(m->a, luo_message, 2 * LUO_GEN_DEVICES);
    int32_t n = 0;
    for (int32_t send = 1; send >= 0; send--)
        for (int32_t peer = 0; peer < LUO_GEN_DEVICES; peer++) {
            int64_t elements = 0;
            for (int32_t i = 0; i < m->res->moves.n; i++) {
                const luo_move *v = &m->res->moves.at[i];
                if (v->kind == LUO_MOVE_SEND && v->step == step && v->dev[!send] == dev &&
                    v->dev[send] == peer)
                    elements += luo_region_volume(v->region);
            }
            if (elements) at[n++] = (luo_message){peer, send, elements, elements};
        }
    return (luo_slot){-1, NULL, n, at};
}

typedef struct tally {
    int32_t ncoll, nmessage;
    int64_t copied;
    luo_slot batch;
} tally;

static tally count(const maker *m, int32_t dev, int32_t step)
{
    tally t = {.batch = messages(m, dev, step)};
    t.nmessage = t.batch.nmessage;
    for (int32_t i = 0; i < m->res->moves.n; i++) {
        const luo_move *v = &m->res->moves.at[i];
        if (v->step != step || !takes_part(v, dev)) continue;
        t.ncoll += is_collective(v);
        if (v->kind == LUO_MOVE_COPY) t.copied += luo_region_volume(v->region);
    }
    return t;
}

static luo_instr *push(luo_role *r, int32_t kind, int32_t step, const int32_t *in,
                       const int32_t *out)
{
    luo_instr *i = &((luo_instr *)r->instr)[r->ninstr];
    *i = (luo_instr){.id = r->ninstr++,
                     .kind = (uint8_t)kind,
                     .exchange = step,
                     .slot = -1,
                     .nin = *in >= 0,
                     .nout = *out >= 0,
                     .in = in,
                     .out = out};
    return i;
}

static void make_step(maker *m, luo_program *p, luo_role *r, int32_t step, const int32_t *in,
                      const int32_t *out)
{
    const tally t = count(m, p->device, step);
    luo_slot *slots = (luo_slot *)p->slots;
    for (int32_t i = 0; i < m->res->moves.n; i++) {
        const luo_move *v = &m->res->moves.at[i];
        if (v->step != step || !is_collective(v) || !takes_part(v, p->device)) continue;
        luo_instr *n = push(r, LUO_INSTR_COLLECTIVE, step, in, out);
        n->coll = v->kind == LUO_MOVE_AR   ? LUO_COLL_AR
                  : v->kind == LUO_MOVE_RS ? LUO_COLL_RS
                                           : LUO_COLL_AG;
        n->slot = r->nslot;
        slots[r->nslot++].group = i;
    }
    if (t.nmessage) {
        bool sends = false, receives = false;
        for (int32_t k = 0; k < t.nmessage; k++) {
            sends |= t.batch.message[k].send;
            receives |= !t.batch.message[k].send;
        }
        luo_instr *n = push(r, LUO_INSTR_P2P, step, in, out);
        n->nin &= sends;
        n->nout &= receives;
        n->slot = r->nslot;
        slots[r->nslot++] = t.batch;
    }
    const luo_holding *had = held(&m->src, p->device);
    const bool alias = t.ncoll + t.nmessage == 0 &&
                       (step > 0 || (had && luo_region_volume(&had->region) == t.copied));
    if (t.copied > 0 && !alias && *in != *out) push(r, LUO_INSTR_LOCAL, step, in, out);
}

static void add_buffer(maker *m, luo_role *r, const luo_ann *ann)
{
    luo_buffer *b = &((luo_buffer *)r->buf)[r->nbuf++];
    *b = (luo_buffer){.tensor = "t", .ann = ann, .shape = m->x->shape};
}

/* Buffers as find_ends and find_weight of core/graph/specialize/spec_emit.c choose them. */
static void make_device(maker *m, int32_t dev, int32_t *in, int32_t *out)
{
    luo_program *p = &m->program[m->set.n];
    luo_role *r = &m->role[m->set.n];
    const luo_holding *s = held(&m->src, dev), *d = held(&m->dst, dev);
    const int32_t most = 2 * m->res->moves.n + 2;
    *p = (luo_program){.device = dev, .role = m->set.n++, .slots = LUO_NEW_N(m->a, luo_slot, most)};
    *r = (luo_role){.nseg = 1,
                    .buf = LUO_NEW_N(m->a, luo_buffer, 2),
                    .instr = LUO_NEW_N(m->a, luo_instr, most)};
    *in = *out = -1;
    const bool one = s && d && m->how != APART;
    if (one) {
        *in = *out = 0;
        add_buffer(m, r, m->how == IN_RESULT ? m->x->dst : m->x->src);
    } else {
        if (s) *in = r->nbuf, add_buffer(m, r, m->x->src);
        if (d) *out = r->nbuf, add_buffer(m, r, m->x->dst);
    }
    const int32_t *from = in;
    for (int32_t k = 0; k < m->res->nsteps; k++) {
        const tally t = count(m, dev, k);
        const int32_t had = r->ninstr;
        make_step(m, p, r, k, from, out);
        if ((r->ninstr > had || (one && t.copied)) && *out >= 0) from = out;
    }
    luo_segment *seg = LUO_NEW(m->a, luo_segment);
    *seg = (luo_segment){LUO_PHASE_POST, 0, 0, 0, r->ninstr};
    r->seg = seg;
}

static void make_set(maker *m, int32_t *in, int32_t *out)
{
    static const luo_op_info op = {"x", LUO_OP_RESHARD, -1};
    luo_exchange *x = LUO_NEW_N(m->a, luo_exchange, m->res->nsteps);
    m->group = LUO_NEW_N(m->a, luo_group, m->res->moves.n);
    for (int32_t i = 0; i < m->res->moves.n; i++)
        m->group[i] = (luo_group){m->res->moves.at[i].ndev, m->res->moves.at[i].dev, 0};
    for (int32_t k = 0; k < m->res->nsteps; k++)
        x[k] = (luo_exchange){.step = k, .resolution = m->res, .src = "", .dst = "",
                              .shape = m->x->shape, .elem_bytes = 1};
    m->program = LUO_NEW_N(m->a, luo_program, LUO_GEN_DEVICES);
    m->role = LUO_NEW_N(m->a, luo_role, LUO_GEN_DEVICES);
    m->set = (luo_programs){.at = m->program,
                            .roles = m->role,
                            .groups = m->group,
                            .nops = 1,
                            .ops = &op,
                            .exchanges = x,
                            .nexchanges = m->res->nsteps};
    for (int32_t dev = 0; dev < LUO_GEN_DEVICES; dev++) make_device(m, dev, &in[dev], &out[dev]);
    m->set.nroles = m->set.n;
}

/* ---- which ways fit ---- */

/* In the result: operands lie inside it. In the operand: nothing is sent. */
static bool fits(const maker *m)
{
    for (int32_t k = 0; k < m->src.n && m->how == IN_RESULT; k++) {
        const luo_holding *d = held(&m->dst, m->src.at[k].dev);
        if (!d || !luo_region_contains(&d->region, &m->src.at[k].region)) return false;
    }
    for (int32_t i = 0; i < m->res->moves.n && m->how == IN_OPERAND; i++)
        if (m->res->moves.at[i].kind == LUO_MOVE_SEND) return false;
    return true;
}

/* Results that do not fit the operand's buffer are refused, with the sentence for raw plans. */
static bool may_refuse(const maker *m)
{
    for (int32_t k = 0; k < m->dst.n && m->how == IN_OPERAND; k++) {
        const luo_holding *s = held(&m->src, m->dst.at[k].dev);
        if (s && !luo_region_contains(&s->region, &m->dst.at[k].region)) return true;
    }
    return false;
}

/* ---- one case ---- */

static void broken(uint64_t seed, const maker *m, const char *why)
{
    luo_str s = {0};
    luo_reshard_print(&s, m->x);
    luo_str_addf(&s, "  :  %s  :  ", m->res->text);
    for (int32_t i = 0; i < m->res->moves.n; i++) {
        luo_str_addf(&s, "%s%d ", i ? "; " : "", m->res->moves.at[i].step);
        luo_move_print(&s, &m->res->moves.at[i]);
    }
    ck_abort_msg("LUO_SEED=%llu LUO_CASES=1, %s: %s\n%s", (unsigned long long)seed,
                 way_name[m->how], why, luo_str_get(&s));
}

/* What every holding of dst has in the end. Devices without instructions had it before. */
static int64_t **collect(maker *m, wires *w, const cells *had, const int32_t *out)
{
    int64_t **got = LUO_NEW_N(m->a, int64_t *, m->dst.n);
    for (int32_t k = 0; k < m->dst.n; k++) {
        const int32_t dev = m->dst.at[k].dev;
        wire_device *d = wires_find(w, dev);
        got[k] = wires_array(m->a, had->n);
        if (d) got[k] = wires_spread(w, d, out[dev], &m->x->shape);
        for (int32_t s = 0; s < had->h.n && !d; s++)
            for (int64_t c = 0; had->h.at[s].dev == dev && c < had->n; c++)
                if (cells_inside(&had->h.at[s].region, &m->x->shape, c))
                    got[k][c] = had->value[s][c];
    }
    return got;
}

/* Operands are read again by others: they stay as they were. */
static void check_sources(maker *m, wires *w, const cells *had, const int32_t *in,
                          const int32_t *out, uint64_t seed)
{
    for (int32_t s = 0; s < had->h.n; s++) {
        const int32_t dev = had->h.at[s].dev;
        wire_device *d = wires_find(w, dev);
        if (!d || in[dev] == out[dev]) continue;
        const int64_t *now = wires_spread(w, d, in[dev], &m->x->shape);
        for (int64_t c = 0; c < had->n; c++)
            if (cells_inside(&had->h.at[s].region, &m->x->shape, c) && now[c] != had->value[s][c])
                broken(seed, m, "an operand was changed");
    }
}

static void follow(maker *m, luo_rng *rng, uint64_t seed)
{
    int32_t in[LUO_GEN_DEVICES], out[LUO_GEN_DEVICES];
    wires w = {.arena = m->a, .set = &m->set, .dev = LUO_NEW_N(m->a, wire_device, LUO_GEN_DEVICES)};
    cells had;
    make_set(m, in, out);
    int64_t *truth = LUO_NEW_N(m->a, int64_t, cells_count(&m->x->shape));
    for (int64_t c = 0; c < cells_count(&m->x->shape); c++) truth[c] = luo_rng_pick(rng, 2000);
    cells_deal(m->a, rng, m->x->src, &m->x->shape, truth, false, &had);
    for (int32_t k = 0; k < m->set.n; k++) {
        const luo_role *r = &m->set.roles[k];
        int32_t list[64];
        ck_assert_int_lt(r->ninstr, 64);
        for (int32_t i = 0; i < r->ninstr; i++) list[i] = i;
        if (r->ninstr && !wires_add(&w, &m->set.at[k], list, r->ninstr)) {
            if (!may_refuse(m) || !strstr(w.why, "outside of their buffer")) broken(seed, m, w.why);
            met.refused++;
            return;
        }
    }
    for (int32_t s = 0; s < had.h.n; s++) {
        wire_device *d = wires_find(&w, had.h.at[s].dev);
        if (d) wires_fill(&w, d, in[had.h.at[s].dev], &had.h.at[s], &m->x->shape, had.value[s]);
    }
    wires_run(&w);
    if (w.why[0]) broken(seed, m, w.why);
    const char *why = cells_check(m->a, m->x->dst, &m->x->shape, truth, collect(m, &w, &had, out));
    if (why) broken(seed, m, why);
    check_sources(m, &w, &had, in, out, seed);
    met.cases[m->how]++;
    met.steps[m->how] += m->res->nsteps > 1;
    met.scratch[m->how] += w.scratches > 0;
    met.enter += w.enters;
    met.leave += w.leaves;
}

static void one_case(luo_arena *a, uint64_t seed)
{
    luo_rng rng = luo_rng_seed(seed);
    luo_reshard x = {0};
    luo_resolution res = {0};
    luo_gen_reshard(a, &rng, &x);
    x.opts.planner.ndead = 0;
    if (luo_resolve(a, x.src, x.dst, &x.shape, &x.opts, &res, NULL) != LUO_OK) return;
    maker m = {.a = a, .x = &x, .res = &res};
    luo_holdings_make(a, x.src, &x.shape, &m.src, NULL);
    luo_holdings_make(a, x.dst, &x.shape, &m.dst, NULL);
    for (int32_t how = 0; how < WAYS; how++) {
        m.how = (path)how;
        if (fits(&m)) follow(&m, &rng, seed);
    }
}

enum { CASES = 20000 };

START_TEST(reshards)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const size_t mark = luo_arena_mark(a);
    LUO_PROP_FOR(seed, CASES)
    {
        one_case(a, seed);
        luo_arena_reset(a, mark);
    }
    luo_arena_free(a);
    for (int32_t k = 0; k < WAYS; k++)
        printf("%-11s %lld cases, %lld of several steps, %lld with scratch\n", way_name[k],
               (long long)met.cases[k], (long long)met.steps[k], (long long)met.scratch[k]);
    printf("copies into scratch %lld, out of it %lld, refused %lld\n", (long long)met.enter,
           (long long)met.leave, (long long)met.refused);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    for (int32_t k = 0; k < WAYS; k++)
        ck_assert(met.cases[k] > 50 && met.steps[k] > 5 && met.scratch[k] > 2);
    ck_assert(met.enter > 10 && met.leave > 10);
}
END_TEST
LUO_MAIN("exec.route.reshard", reshards, 1)
