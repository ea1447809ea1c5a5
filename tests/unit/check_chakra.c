/* check_chakra.c: Chakra traces of plans, read by a reader of our own: identities, dependencies,
 * messages, collectives, sums, and that all of it can be run to its end. */
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "core/cost/cost.h"
#include "core/io/export/chakra.h"
#include "core/io/export/export.h"
#include "core/io/read/read.h"
#include "tests/chakra_reader.h"
#include "tests/cluster_fixture.h"
#include "tests/plan_make.h"

enum { COMP = 4, SEND = 5, RECV = 6, COLL = 7 };
enum { ALL_REDUCE = 0, ALL_GATHER = 2, BROADCAST = 5, ALL_TO_ALL = 6, REDUCE_SCATTER = 7 };

static const struct row {
    const char *plan;
    int zero;
    bool timed, experts, context;
    const char *has; /* letters of what has to be there: A all-reduce, G gather, R scatter, T
                        all-to-all, P messages */
} rows[] = {
    {"2: [0]*2", 0, true, false, false, ""},
    {"4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", 1, true, false, false, "GRP"},
    {"4: [0,1]*2 [2,3]*2 || 4: [4,5]*2 [6,7]*2", 0, false, false, false, "AGRP"},
    {"4: [0]*1+1 [1]*1+1", 0, true, false, false, "P"},
    {"3: [0-3]*3 [4,5]*1 || 2: [8]*2 [9]*2", 0, true, false, false, "GRP"},
    {"2: [0]*4 || 2: [1]*4 || 2: [2]*4 || 2: [3]*4", 3, true, false, false, "GR"},
    {"2: [0,1]*2 || 2: [2,3]*2", 2, true, false, false, "GR"},
    {"2: [0-3]*2", 0, true, true, false, "T"},
    {"2: [0-3]*2", 0, true, false, true, "P"},
};

typedef struct world { /* the files that came out */
    luo_arena *arena;
    int n, dropped;
    et_trace trace[16];
    char *groups; /* comm_groups.json */
    const luo_programs *set;
    luo_cost_ctx cost;
} world;

static luo_status take_file(void *ctx, const char *name, const luo_str *text, luo_err *err)
{
    world *w = ctx;
    char want[32];
    (void)err;
    if (strcmp(name, "comm_groups.json") == 0) {
        w->groups = luo_arena_strdup(w->arena, luo_str_get(text));
        return LUO_OK;
    }
    snprintf(want, sizeof want, "trace.%d.et", w->n);
    ck_assert_str_eq(name, want);
    w->trace[w->n++] = et_read(w->arena, luo_str_get(text), text->len);
    return LUO_OK;
}

/* trace.N.et of a plan with one rank more lies there still. */
static luo_status drop_file(void *ctx, const char *name, bool *was_there, luo_err *err)
{
    world *w = ctx;
    char want[32];
    (void)err;
    snprintf(want, sizeof want, "trace.%d.et", w->n + w->dropped);
    ck_assert_str_eq(name, want);
    *was_there = w->dropped++ == 0;
    return LUO_OK;
}

static luo_model *make_model(luo_arena *a, const struct row *row)
{
    luo_model *model = LUO_NEW(a, luo_model);
    *model = luo_test_llama(4, 256, 512, 8, 1024);
    if (row->experts) {
        model->family = LUO_FAMILY_MOE;
        model->moe = (luo_moe){
            .experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 256, .every_layers = 1};
    }
    return model;
}

static luo_plan *make_plan(luo_arena *a, const struct row *row)
{
    luo_plan *plan = luo_test_plan(a, row->plan);
    plan->zero = row->zero;
    for (int32_t p = 0; p < plan->npipelines; p++)
        for (int32_t s = 0; s < plan->pipelines[p].nstages; s++) {
            luo_stage *stage = (luo_stage *)&plan->pipelines[p].stages[s];
            stage->experts_dealt = row->experts;
            if (row->context) {
                stage->context_parallel = 4;
                stage->context_kind = LUO_CONTEXT_RING;
            }
        }
    return plan;
}

static world make_world(luo_arena *a, const struct row *row, luo_stack *stack)
{
    world w = {.arena = a};
    luo_err err = {0};
    luo_programs *set;
    luo_plan *plan = make_plan(a, row);
    luo_model *model = make_model(a, row);
    model->layers = plan->layers;
    luo_stack_default(stack);
    luo_cluster *cluster = row->timed ? fixture_cluster(a, 1, 2, 8) : NULL;
    const luo_export_source source = {
        .plan = plan, .model = model, .cluster = cluster, .stack = stack};
    const luo_export_sink sink = {take_file, drop_file, &w};
    luo_export_made made;
    const luo_compile_opts opts = {
        .check = true, .bucket = stack->bucket, .memory = luo_stack_memory(stack)};
    ck_assert_msg(luo_export(a, LUO_EXPORT_CHAKRA, &source, &sink, &made, &err) == LUO_OK, "%s",
                  err.text);
    ck_assert((made.note != NULL) == !row->timed);
    ck_assert_int_eq(luo_plan_compile(a, plan, model, cluster, &opts, &set, &err), LUO_OK);
    w.set = set;
    w.cost = (luo_cost_ctx){cluster, stack, plan->dtype, set->nops, set->ops};
    return w;
}

/* ---- one trace ---- */

static void check_attributes(const et_node *n, int64_t rank)
{
    const bool message = n->type == SEND || n->type == RECV;
    ck_assert_msg(n->has_cpu_op && n->cpu_op == 0, "%s", n->name);
    ck_assert(n->type == COMP || n->type == COLL || message);
    ck_assert_int_eq(n->has_ops, n->type == COMP);
    ck_assert_int_eq(n->has_tensor, n->type == COMP);
    ck_assert_int_eq(n->has_size, n->type != COMP);
    ck_assert_int_eq(n->has_type, n->type == COLL);
    ck_assert_int_eq(n->pg_name != NULL, n->type == COLL);
    ck_assert_int_eq(n->has_src && n->has_dst && n->has_tag, message);
    if (n->type == SEND) ck_assert_int_eq((int64_t)n->src, rank);
    if (n->type == RECV) ck_assert_int_eq((int64_t)n->dst, rank);
    if (message) ck_assert_int_ne((int64_t)n->src, (int64_t)n->dst);
}

/* Position of every id; all dependencies are among them. */
static void check_ids(const et_trace *t, luo_map *at)
{
    for (int i = 0; i < t->n; i++) {
        ck_assert_int_gt((int64_t)t->node[i].id, 0);
        ck_assert_msg(luo_map_get(at, t->node[i].id, -1) < 0, "id twice");
        *luo_map_at(at, t->node[i].id, i) = i;
    }
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->node[i].ndep; k++) {
            ck_assert_int_ge(luo_map_get(at, t->node[i].dep[k], -1), 0);
            for (int j = 0; j < k; j++) ck_assert(t->node[i].dep[j] != t->node[i].dep[k]);
        }
}

/* ---- sums ---- */

typedef struct sums {
    int64_t flops, sent, reduced, seconds_us;
    int ncomp, ncoll, nsend, nrecv;
} sums;

static sums sums_of_trace(const et_trace *t, const world *w)
{
    sums s = {0};
    for (int i = 0; i < t->n; i++) {
        const et_node *n = &t->node[i];
        s.ncomp += n->type == COMP;
        s.ncoll += n->type == COLL;
        s.nsend += n->type == SEND;
        s.nrecv += n->type == RECV;
        if (n->type == COMP) s.flops += (int64_t)n->ops;
        if (n->type == COMP) s.seconds_us += (int64_t)n->duration_us;
        if (n->type == SEND) s.sent += (int64_t)n->size;
        if (n->type == COLL) {
            const int64_t members = w->set->groups[atoi(n->pg_name) - 1].n;
            s.reduced += (int64_t)n->size * (n->comm_type == ALL_GATHER ? members : 1);
        }
    }
    return s;
}

static sums sums_of_program(const luo_programs *set, const luo_program *p, int64_t *rounded)
{
    const luo_role *role = &set->roles[p->role];
    sums s = {0};
    for (int32_t k = 0; k < p->ntask; k++) {
        const luo_segment *seg = &role->seg[p->tasks[k].seg];
        for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
            const luo_instr *in = &role->instr[i];
            s.ncomp += in->kind == LUO_INSTR_COMPUTE || in->kind == LUO_INSTR_LOCAL;
            s.flops += in->flops;
            if (in->kind == LUO_INSTR_COLLECTIVE) {
                s.ncoll++;
                s.reduced += in->bytes;
                *rounded += set->groups[p->slots[in->slot].group].n;
            }
            if (in->kind != LUO_INSTR_P2P) continue;
            s.sent += in->bytes;
            for (int32_t m = 0; m < p->slots[in->slot].nmessage; m++) {
                s.nsend += p->slots[in->slot].message[m].send;
                s.nrecv += !p->slots[in->slot].message[m].send;
            }
        }
    }
    return s;
}

static void check_sums(const world *w, int r)
{
    int64_t rounded = 0;
    const sums got = sums_of_trace(&w->trace[r], w);
    const sums want = sums_of_program(w->set, &w->set->at[r], &rounded);
    ck_assert_int_eq(got.flops, want.flops);
    ck_assert_int_gt(got.flops, 0);
    ck_assert_int_eq(got.sent, want.sent);
    ck_assert_int_ge(got.reduced, want.reduced);
    ck_assert_int_le(got.reduced, want.reduced + rounded);
    ck_assert_int_eq(got.ncomp, want.ncomp);
    ck_assert_int_eq(got.ncoll, want.ncoll);
    ck_assert_int_eq(got.nsend, want.nsend);
    ck_assert_int_eq(got.nrecv, want.nrecv);
}

/* Seconds of the cost model, rounded so that what is left is carried on. */
static void check_durations(const world *w, int r)
{
    const luo_program *p = &w->set->at[r];
    const luo_role *role = &w->set->roles[p->role];
    luo_comm_cost *comm = LUO_NEW_N(w->arena, luo_comm_cost, role->ninstr);
    double *seconds = LUO_NEW_N(w->arena, double, role->ninstr), sum = 0;
    luo_err err = {0};
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->kind != LUO_INSTR_COLLECTIVE) continue;
        const luo_cost_call call = luo_cost_call_of(w->set, in, &p->slots[in->slot], in->bytes);
        comm[i].seconds = luo_cost_call_seconds(&w->cost, &call, 0);
        comm[i].loss = luo_cost_overlap_loss(&w->cost, call.dev, call.n);
    }
    ck_assert_int_eq(luo_cost_role(w->arena, &w->cost, p->device, role, comm, seconds, &err),
                     LUO_OK);
    for (int32_t k = 0; k < p->ntask; k++) {
        const luo_segment *seg = &role->seg[p->tasks[k].seg];
        for (int32_t i = seg->first; i < seg->first + seg->n; i++) sum += seconds[i];
    }
    ck_assert_double_gt(sum, 0);
    ck_assert_double_eq_tol((double)sums_of_trace(&w->trace[r], w).seconds_us, sum * 1e6,
                            LUO_LANES);
}

/* ---- all traces together ---- */

/* Every send has its one receive, of as many bytes, and the other way round. */
static void check_messages(const world *w)
{
    int sends = 0, receives = 0, met = 0;
    for (int r = 0; r < w->n; r++)
        for (int i = 0; i < w->trace[r].n; i++) {
            const et_node *s = &w->trace[r].node[i];
            receives += s->type == RECV;
            if (s->type != SEND) continue;
            sends++;
            ck_assert_int_lt((int64_t)s->dst, w->n);
            const et_trace *to = &w->trace[s->dst];
            int here = 0;
            for (int k = 0; k < to->n; k++) {
                const et_node *v = &to->node[k];
                if (v->type != RECV || v->src != s->src || v->tag != s->tag) continue;
                ck_assert_int_eq((int64_t)v->size, (int64_t)s->size);
                here++;
            }
            ck_assert_msg(here == 1, "%s of rank %d has %d receives", s->name, r, here);
            met++;
        }
    ck_assert_int_eq(sends, receives);
    ck_assert_int_eq(met, sends);
}

static bool is_member(const world *w, const char *group, int rank)
{
    char key[32], *end;
    snprintf(key, sizeof key, "\"%s\": [", group);
    char *at = strstr(w->groups, key);
    ck_assert_msg(at != NULL, "group %s is in no file", group);
    for (at += strlen(key); *at && *at != ']'; at = *end == ',' ? end + 1 : end)
        if (strtol(at, &end, 10) == rank) return true;
    return false;
}

/* The k-th collective of a rank in a group; NULL: there are fewer. */
static const et_node *nth_call(const et_trace *t, const char *group, int k)
{
    for (int i = 0; i < t->n; i++)
        if (t->node[i].type == COLL && strcmp(t->node[i].pg_name, group) == 0 && k-- == 0)
            return &t->node[i];
    return NULL;
}

static void check_collectives(const world *w)
{
    for (int32_t g = 0; g < w->set->ngroups; g++) {
        char group[16];
        const et_trace *first = NULL;
        snprintf(group, sizeof group, "%d", g + 1);
        for (int r = 0; r < w->n; r++) {
            const et_trace *t = &w->trace[r];
            if (!is_member(w, group, r)) {
                ck_assert_ptr_null(nth_call(t, group, 0));
                continue;
            }
            if (!first) first = t;
            const et_node *a, *b;
            for (int k = 0; (a = nth_call(first, group, k)) != NULL; k++) {
                b = nth_call(t, group, k);
                ck_assert_msg(b != NULL, "rank %d has %d calls of group %s", r, k, group);
                ck_assert_int_eq((int64_t)a->size, (int64_t)b->size);
                ck_assert_int_eq((int64_t)a->comm_type, (int64_t)b->comm_type);
            }
        }
        ck_assert_ptr_nonnull(first);
    }
}

/* ---- a machine that runs them ---- */

typedef struct machine {
    const world *w;
    bool *done[16];
    luo_map at[16];
    luo_map calls; /* by group: calls done by all */
} machine;

static bool is_free(const machine *m, int r, int i)
{
    const et_node *n = &m->w->trace[r].node[i];
    for (int k = 0; k < n->ndep; k++)
        if (!m->done[r][luo_map_get(&m->at[r], n->dep[k], 0)]) return false;
    return !m->done[r][i];
}

static int index_of(const et_trace *t, const et_node *n)
{
    return (int)(n - t->node);
}

/* The other end of a message, or all members of a collective, have to be free as well. */
static bool step_message(machine *m, int r, int i)
{
    const et_node *s = &m->w->trace[r].node[i];
    const int to = (int)s->dst;
    const et_trace *t = &m->w->trace[to];
    for (int k = 0; k < t->n; k++) {
        const et_node *v = &t->node[k];
        if (v->type != RECV || v->src != s->src || v->tag != s->tag || !is_free(m, to, k)) continue;
        m->done[r][i] = m->done[to][k] = true;
        return true;
    }
    return false;
}

static bool step_call(machine *m, int r, int i)
{
    const char *group = m->w->trace[r].node[i].pg_name;
    int64_t *calls = luo_map_at(&m->calls, (uint64_t)atoi(group), 0);
    for (int q = 0; q < m->w->n; q++) {
        if (!is_member(m->w, group, q)) continue;
        const et_node *n = nth_call(&m->w->trace[q], group, (int)*calls);
        if (!n || !is_free(m, q, index_of(&m->w->trace[q], n))) return false;
    }
    for (int q = 0; q < m->w->n; q++)
        if (is_member(m->w, group, q))
            m->done[q][index_of(&m->w->trace[q], nth_call(&m->w->trace[q], group, (int)*calls))] =
                true;
    ++*calls;
    return true;
}

static bool step_node(machine *m, int r, int i)
{
    const int type = m->w->trace[r].node[i].type;
    if (!is_free(m, r, i) || type == RECV) return false;
    if (type == SEND) return step_message(m, r, i);
    if (type == COLL) return step_call(m, r, i);
    return m->done[r][i] = true;
}

static void run(machine *m)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < m->w->n; r++)
            for (int i = 0; i < m->w->trace[r].n; i++) moved |= step_node(m, r, i);
    }
    for (int r = 0; r < m->w->n; r++)
        for (int i = 0; i < m->w->trace[r].n; i++)
            ck_assert_msg(m->done[r][i], "%s of rank %d never runs", m->w->trace[r].node[i].name,
                          r);
}

/* ---- the same with one sender a rank, as ASTRA-sim has it ---- */

typedef struct slots {
    machine m;
    bool *sent[16]; /* SEND: delivered */
    int at[16];     /* the collective that a rank is in; -1: none */
} slots;

static bool is_delivered(const slots *s, int r, const et_node *v)
{
    const et_trace *from = &s->m.w->trace[v->src];
    for (int k = 0; k < from->n; k++)
        if (from->node[k].type == SEND && (int)from->node[k].dst == r &&
            from->node[k].tag == v->tag)
            return s->sent[v->src][k];
    return false;
}

/* All members are in that call. */
static bool end_call(slots *s, int r)
{
    const world *w = s->m.w;
    const char *group = w->trace[r].node[s->at[r]].pg_name;
    int64_t *calls = luo_map_at(&s->m.calls, (uint64_t)atoi(group), 0);
    for (int pass = 0; pass < 2; pass++)
        for (int q = 0; q < w->n; q++) {
            if (!is_member(w, group, q)) continue;
            const int i = index_of(&w->trace[q], nth_call(&w->trace[q], group, (int)*calls));
            if (pass == 0 && s->at[q] != i) return false;
            if (pass == 0) continue;
            s->m.done[q][i] = true;
            s->at[q] = -1;
        }
    ++*calls;
    return true;
}

/* The first node of rank r that can go on; a rank sends, or is in a collective, once at a time. */
static bool step_rank(slots *s, int r)
{
    const et_trace *t = &s->m.w->trace[r];
    if (s->at[r] >= 0 && end_call(s, r)) return true;
    for (int i = 0; i < t->n; i++) {
        const int type = t->node[i].type;
        if (!is_free(&s->m, r, i)) continue;
        if ((type == SEND || type == COLL) && s->at[r] >= 0) continue;
        if (type == RECV && !is_delivered(s, r, &t->node[i])) continue;
        if (type == COLL) {
            s->at[r] = i;
            return true;
        }
        s->sent[r][i] = s->m.done[r][i] = true;
        return true;
    }
    return false;
}

/* Ranks go on in any order: a seed each. */
static void run_with_slots(slots *s, uint64_t seed)
{
    luo_rng rng = luo_rng_seed(seed);
    for (int idle = 0; idle < 64 * s->m.w->n; idle++)
        if (step_rank(s, (int)(luo_rng_next(&rng) % (uint64_t)s->m.w->n))) idle = 0;
    for (int r = 0; r < s->m.w->n; r++)
        for (int i = 0; i < s->m.w->trace[r].n; i++)
            ck_assert_msg(s->m.done[r][i], "LUO_SEED=%d: %s of rank %d never runs", (int)seed,
                          s->m.w->trace[r].node[i].name, r);
}

static void check_slots(const world *w, const machine *m)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        slots s = {.m = {.w = w}};
        for (int r = 0; r < w->n; r++) {
            s.m.at[r] = m->at[r];
            s.m.done[r] = LUO_NEW_N(w->arena, bool, w->trace[r].n);
            s.sent[r] = LUO_NEW_N(w->arena, bool, w->trace[r].n);
            s.at[r] = -1;
        }
        run_with_slots(&s, seed);
        luo_map_free(&s.m.calls);
    }
}

static void check_has(const world *w, const char *letters)
{
    static const char types[] = {[ALL_REDUCE] = 'A',
                                 [ALL_GATHER] = 'G',
                                 [BROADCAST] = 'B',
                                 [ALL_TO_ALL] = 'T',
                                 [REDUCE_SCATTER] = 'R'};
    for (const char *c = letters; *c; c++) {
        int n = 0;
        for (int r = 0; r < w->n; r++)
            for (int i = 0; i < w->trace[r].n; i++) {
                const et_node *x = &w->trace[r].node[i];
                n += *c == 'P' ? x->type == SEND : x->type == COLL && types[x->comm_type] == *c;
            }
        ck_assert_msg(n > 0, "nothing of %c", *c);
    }
}

START_TEST(trace_is_the_program)
{
    luo_arena *a = luo_arena_new(0);
    luo_stack stack;
    char hash[17];
    const world w = make_world(a, &rows[_i], &stack);
    machine m = {.w = &w};
    ck_assert_int_eq(w.n, w.set->n);
    ck_assert_int_eq(w.dropped, 2);
    for (int r = 0; r < w.n; r++) {
        const et_trace *t = &w.trace[r];
        ck_assert_str_eq(t->version, "0.0.4");
        ck_assert_str_eq(t->programs, luo_hash_print(w.set->hash, hash));
        ck_assert_int_eq(t->rank, r);
        ck_assert_int_eq(t->device, w.set->at[r].device);
        for (int i = 0; i < t->n; i++) check_attributes(&t->node[i], r);
        check_ids(t, &m.at[r]);
        check_sums(&w, r);
        if (rows[_i].timed) check_durations(&w, r);
        m.done[r] = LUO_NEW_N(a, bool, t->n);
    }
    check_messages(&w);
    check_collectives(&w);
    check_has(&w, rows[_i].has);
    run(&m);
    check_slots(&w, &m);
    for (int r = 0; r < w.n; r++) luo_map_free(&m.at[r]);
    luo_map_free(&m.calls);
    luo_arena_free(a);
}
END_TEST

/* Bytes by hand, after the Encoding page of Protocol Buffers. */
START_TEST(nodes_as_bytes)
{
    static const unsigned char want[] = {
        0x58,                         /* 88 bytes */
        0x08, 0xac, 0x02,             /* id 300 */
        0x12, 0x01, 'x',              /* name */
        0x18, 0x05,                   /* COMM_SEND_NODE */
        0x2a, 0x03, 0x01, 0xab, 0x02, /* data_deps 1, 299 */
        0x38, 0x07,                   /* 7 us */
        0x52, 0x0e, 0x0a, 9,    'i',  's', '_', 'c', 'p', 'u', '_', 'o',  'p',  0xd8, 0x01,
        0,    0x52, 0x0d, 0x0a, 9,    'c', 'o', 'm', 'm', '_', 's', 'i',  'z',  'e',  0x48,
        64,   0x52, 0x0c, 0x0a, 8,    'c', 'o', 'm', 'm', '_', 's', 'r',  'c',  0x38, 0,
        0x52, 0x0c, 0x0a, 8,    'c',  'o', 'm', 'm', '_', 'd', 's', 't',  0x38, 1,    0x52,
        0x0c, 0x0a, 8,    'c',  'o',  'm', 'm', '_', 't', 'a', 'g', 0x38, 2};
    static const int64_t deps[] = {1, 299};
    const chakra_node node = {.id = 300,
                              .name = "x",
                              .type = CHAKRA_SEND,
                              .ndata = 2,
                              .data = deps,
                              .duration_us = 7,
                              .bytes = 64,
                              .src = 0,
                              .dst = 1,
                              .tag = 2};
    luo_str file = {0};
    chakra_put_node(&file, &node);
    ck_assert_uint_eq(file.len, sizeof want);
    ck_assert_mem_eq(file.at, want, sizeof want);
    luo_str_free(&file);
}
END_TEST

LUO_SUITE("export.chakra", LUO_T_N(trace_is_the_program, LUO_ROWS(rows)), LUO_T(nodes_as_bytes))
