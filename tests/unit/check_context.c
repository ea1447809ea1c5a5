/* check_context.c: what context parallelism sends and when, read off compiled programs:
 * bytes a device by the closed forms of ring attention and of the exchange of heads, and the
 * time of a layer by the program's own dependencies. */
#include "core/plan/compile.h"
#include "core/plan/planners.h"
#include "tests/check_main.h"
#include "tests/cost_fixture.h"
#include "tests/plan_make.h"

/* Bytes sent by one device in one layer and micro-batch, bf16:
 *   ring  2 (c-1) (T/c) g d e, twice that backward
 *   a2a   2 (c-1) (T/c) (a/c + kappa) d e both ways; kappa: key-value heads a rank gets
 *   2d    a2a among the inner ones, a ring of parts. */
static const struct {
    int64_t tokens, heads, kv, d;
    int32_t c;
    luo_context_kind kind;
    int32_t inner;
    int64_t forward, backward;
} bytes_rows[] = {
    {32768, 32, 4, 128, 4, LUO_CONTEXT_RING, 0, 50331648, 100663296},
    {32768, 32, 4, 128, 4, LUO_CONTEXT_A2A, 0, 113246208, 113246208},
    {8192, 16, 16, 104, 2, LUO_CONTEXT_RING, 0, 27262976, 54525952},
    {8192, 16, 16, 104, 2, LUO_CONTEXT_A2A, 0, 27262976, 27262976},
    {131072, 64, 8, 128, 16, LUO_CONTEXT_RING, 0, 503316480, 1006632960},
    {131072, 64, 8, 128, 16, LUO_CONTEXT_A2A, 0, 314572800, 314572800},
    {131072, 64, 8, 128, 16, LUO_CONTEXT_2D, 8, 264241152 + 33554432, 264241152 + 67108864},
    {65536, 32, 4, 128, 8, LUO_CONTEXT_RING, 0, 117440512, 234881024},
    {65536, 32, 4, 128, 8, LUO_CONTEXT_A2A, 0, 146800640, 146800640},
};

typedef struct made {
    luo_arena *arena;
    luo_programs *set;
} made;

static made compile(int64_t tokens, int64_t heads, int64_t kv, int64_t d, luo_stage how)
{
    made m = {.arena = luo_arena_new(1 << 20)};
    char line[40];
    luo_err err = {0};
    snprintf(line, sizeof line, "1: [0-%d]*1", how.context_parallel - 1);
    luo_plan *p = luo_test_plan(m.arena, line);
    luo_model model = luo_test_llama(1, 64, 128, heads, 64);
    model.kv_heads = kv;
    model.head_dim = d;
    model.max_sequence_tokens = tokens;
    luo_stage *s = (luo_stage *)p->pipelines[0].stages;
    s->context_parallel = how.context_parallel;
    s->context_kind = how.context_kind;
    s->context_inner = how.context_inner;
    s->context_layout = how.context_layout;
    p->sequence_tokens = tokens;
    const luo_compile_opts opts = {.check = true};
    const luo_status st = luo_plan_compile(m.arena, p, &model, NULL, &opts, &m.set, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return m;
}

/* A group of n gathers or scatters by n - 1 parts of n. */
static int64_t sent(const luo_programs *set, const luo_program *p, const luo_instr *i)
{
    if (i->kind == LUO_INSTR_P2P) return i->bytes;
    const int32_t n = set->groups[p->slots[i->slot].group].n;
    ck_assert(i->coll == LUO_COLL_AG || i->coll == LUO_COLL_RS);
    return i->bytes / n * (n - 1);
}

static int64_t bytes_of(const luo_programs *set, int32_t device, luo_phase phase)
{
    const luo_program *p = luo_programs_find(set, device);
    const luo_role *r = &set->roles[p->role];
    int64_t sum = 0;
    for (int32_t k = 0; k < r->ninstr; k++) {
        const luo_instr *i = &r->instr[k];
        if (i->phase == phase && i->stream == LUO_STREAM_TP) sum += sent(set, p, i);
    }
    return sum;
}

START_TEST(bytes)
{
    const luo_stage how = {.context_parallel = bytes_rows[_i].c,
                           .context_kind = bytes_rows[_i].kind,
                           .context_inner = bytes_rows[_i].inner};
    made m = compile(bytes_rows[_i].tokens, bytes_rows[_i].heads, bytes_rows[_i].kv,
                     bytes_rows[_i].d, how);
    for (int32_t d = 0; d < how.context_parallel; d++) {
        ck_assert_int_eq(bytes_of(m.set, d, LUO_PHASE_F), bytes_rows[_i].forward);
        ck_assert_int_eq(bytes_of(m.set, d, LUO_PHASE_B), bytes_rows[_i].backward);
    }
    luo_arena_free(m.arena);
}
END_TEST

/* ---- order ---- */

/* Has instruction i waited for w, by its lane and what it waits for? seen: per instruction. */
static bool follows(const luo_role *r, int32_t i, int32_t w, bool *seen)
{
    if (i == w) return true;
    if (i < w || seen[i]) return false;
    seen[i] = true;
    for (int32_t d = 0; d < r->instr[i].ndep; d++)
        if (follows(r, r->instr[i].dep[d], w, seen)) return true;
    for (int32_t k = i - 1; k >= w; k--)
        if (luo_instr_lane(&r->instr[k]) == luo_instr_lane(&r->instr[i]))
            return follows(r, k, w, seen);
    return false;
}

/* What attention reads has come, by messages as well as from the device itself. */
START_TEST(attention_waits)
{
    static const luo_stage how[] = {
        {.context_parallel = 4}, {.context_parallel = 4, .context_kind = LUO_CONTEXT_A2A},
        {.context_parallel = 4, .context_kind = LUO_CONTEXT_2D, .context_inner = 2}};
    int32_t looked = 0;
    made m = compile(64, 4, 2, 16, how[_i]);
    const luo_role *r = &m.set->roles[luo_programs_find(m.set, 0)->role];
    bool *seen = calloc((size_t)r->ninstr, sizeof *seen);
    for (int32_t i = 0; i < r->ninstr; i++) {
        const int32_t kind = r->instr[i].cost.kind;
        if (kind != LUO_COST_ATTENTION_F && kind != LUO_COST_ATTENTION_B) continue;
        for (int32_t w = 0; w < i; w++) {
            const luo_instr *from = &r->instr[w];
            bool read = false;
            if (from->stream != LUO_STREAM_TP || from->phase != r->instr[i].phase) continue;
            for (int32_t k = 0; k < r->instr[i].nin; k++)
                for (int32_t o = 0; o < from->nout; o++)
                    read |= r->instr[i].in[k] == from->out[o];
            if (!read) continue;
            memset(seen, 0, (size_t)r->ninstr * sizeof *seen);
            ck_assert_msg(follows(r, i, w, seen), "instruction %d does not wait for %d", (int)i,
                          (int)w);
            looked++;
        }
    }
    ck_assert_int_gt(looked, 0);
    free(seen);
    luo_arena_free(m.arena);
}
END_TEST

/* Gradients of several pipelines are summed in one call over all their ranks. */
START_TEST(one_sum)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_model model = luo_test_llama(2, 64, 128, 8, 256);
    luo_plan *p = luo_test_plan(a, "2: [0-3]*2 || 2: [4-7]*2");
    luo_programs *set = NULL;
    luo_err err = {0};
    int32_t sums = 0;
    p->zero = _i;
    for (int32_t i = 0; i < 2; i++)
        ((luo_stage *)&p->pipelines[i].stages[0])->context_parallel = 4;
    ck_assert_msg(luo_plan_compile(a, p, &model, NULL, NULL, &set, &err) == LUO_OK, "%s", err.text);
    const luo_program *of = luo_programs_find(set, 0);
    const luo_role *r = &set->roles[of->role];
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        if (in->kind != LUO_INSTR_COLLECTIVE || in->stream != LUO_STREAM_DP) continue;
        ck_assert_int_eq(set->groups[of->slots[in->slot].group].n, in->bytes > 0 ? 8 : 0);
        sums++;
    }
    ck_assert_int_gt(sums, 0);
    luo_arena_free(a);
}
END_TEST

/* ---- time ---- */

/* A block takes 2 forward and 5 backward; a hop of keys and values 3, and so one of their
 * gradients. Everything else is nothing. All devices of a zigzag do the same at the same time. */
static double lasts(const luo_instr *i)
{
    if (i->cost.kind == LUO_COST_ATTENTION_F) return 2;
    if (i->cost.kind == LUO_COST_ATTENTION_B) return 5;
    return i->kind == LUO_INSTR_P2P ? 1.5 : 0; /* one of the two */
}

static double makespan(const luo_role *r, luo_phase phase)
{
    double *end = calloc((size_t)r->ninstr, sizeof *end), lane[LUO_STREAMS] = {0}, last = 0;
    for (int32_t k = 0; k < r->ninstr; k++) {
        const luo_instr *i = &r->instr[k];
        if (i->phase != phase) continue;
        double start = lane[i->stream];
        for (int32_t d = 0; d < i->ndep; d++)
            if (end[i->dep[d]] > start) start = end[i->dep[d]];
        end[k] = lane[i->stream] = start + lasts(i);
        if (end[k] > last) last = end[k];
    }
    free(end);
    return last;
}

static const struct {
    int32_t c;
    double forward, backward;
} time_rows[] = {{4, 11, 24}, {2, 5, 13}};

START_TEST(times)
{
    const luo_stage how = {.context_parallel = time_rows[_i].c};
    made m = compile(64, 4, 4, 16, how);
    ck_assert_int_eq(m.set->nroles, 1);
    ck_assert_double_eq(makespan(&m.set->roles[0], LUO_PHASE_F), time_rows[_i].forward);
    ck_assert_double_eq(makespan(&m.set->roles[0], LUO_PHASE_B), time_rows[_i].backward);
    luo_arena_free(m.arena);
}
END_TEST

/* ---- work ---- */

static int64_t pairs_of(const luo_role *r, luo_cost_kind kind, int32_t *steps)
{
    int64_t sum = 0;
    *steps = 0;
    for (int32_t k = 0; k < r->ninstr; k++)
        if (r->instr[k].cost.kind == (int32_t)kind) {
            sum += r->instr[k].cost.a[5];
            ++*steps;
        }
    return sum;
}

/* Steps of all devices add up to half the square of the sequence; where keys are behind the mask
 * there is no step. */
START_TEST(work)
{
    for (int contiguous = 0; contiguous < 2; contiguous++) {
        const luo_stage how = {.context_parallel = 4, .context_layout = contiguous
                                                          ? LUO_LAYOUT_CONTIGUOUS
                                                          : LUO_LAYOUT_ZIGZAG};
        made m = compile(64, 4, 4, 16, how);
        int64_t forward = 0, backward = 0;
        for (int32_t d = 0; d < 4; d++) {
            int32_t steps;
            const luo_role *r = &m.set->roles[luo_programs_find(m.set, d)->role];
            forward += pairs_of(r, LUO_COST_ATTENTION_F, &steps);
            ck_assert_int_eq(steps, contiguous ? d + 1 : 4);
            backward += pairs_of(r, LUO_COST_ATTENTION_B, &steps);
            ck_assert_int_eq(steps, contiguous ? d + 1 : 4);
        }
        ck_assert_int_eq(forward, 64 * 64 / 2);
        ck_assert_int_eq(backward, 64 * 64 / 2);
        luo_arena_free(m.arena);
    }
}
END_TEST

/* ---- `auto` ---- */

/* Four ranks and two or three query heads, so that an exchange of all four is none: with two ranks
 * a node, half of the way is an exchange in the node; with three ranks in the first node four are
 * no multiple of them, and with one or four there is nothing between. */
static const struct {
    int32_t devices; /* of a node */
    int64_t heads;
    luo_context_kind kind;
    int32_t inner;
} settled[] = {
    {2, 2, LUO_CONTEXT_2D, 2},   {3, 3, LUO_CONTEXT_RING, 0}, {1, 2, LUO_CONTEXT_RING, 0},
    {4, 3, LUO_CONTEXT_RING, 0}, {4, 4, LUO_CONTEXT_A2A, 0},  {2, 1, LUO_CONTEXT_RING, 0},
};

START_TEST(settles)
{
    luo_arena *a = luo_arena_new(0);
    const luo_profile profile = luo_ref_profile();
    luo_node_group g = luo_test_group("c", 4, settled[_i].devices, &profile);
    g.nic_bytes_per_s = 1e9; /* so that attention does not hide what is sent */
    g.scale_up_bytes_per_s = 10e9;
    const luo_cluster c = luo_test_cluster(a, &g, 1);
    luo_plan *p = luo_test_plan(a, "1: [0-3]*1");
    luo_model model = luo_test_llama(1, 128, 256, settled[_i].heads, 64);
    model.head_dim = 128;
    luo_stage *s = (luo_stage *)p->pipelines[0].stages;
    s->context_parallel = 4;
    s->context_kind = LUO_CONTEXT_AUTO;
    p->sequence_tokens = model.max_sequence_tokens = 32768;
    luo_plan_settle_context(p, &model, &c);
    ck_assert_str_eq(luo_context_kind_name(s->context_kind),
                     luo_context_kind_name(settled[_i].kind));
    ck_assert_int_eq(s->context_inner, settled[_i].inner);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("plan.context", LUO_T_N(bytes, LUO_ROWS(bytes_rows)), LUO_T_N(times, LUO_ROWS(time_rows)),
          LUO_T_N(attention_waits, 3), LUO_T_N(one_sum, 2),
          LUO_T(work), LUO_T_N(settles, LUO_ROWS(settled)))
