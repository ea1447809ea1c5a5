/* check_meet.c: records of communications begin when the last side has asked. Drawn
 * times for every instruction of a small plan, against a pairwise twin. */
#include <math.h>

#include "core/base/rng.h"
#include "exec/coordinator/coord.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"

static const char *const plans[] = {
    "4: [0,1]*1 [2,3]*3 || 2: [4]*2 [5]*2",
    "3: [0]*2 [1]*2",
    "4: [0]*1+1 [1]*1+1",
    "2: [0,1]:(3,1)*2 || 1: [2]*2",
};

typedef struct one { /* a record with what it belongs to */
    const luo_program *p;
    const luo_instr *in;
    const luo_slot *slot;
    int32_t mb, turn;
} one;

static int32_t fill(const luo_programs *set, luo_rng *rng, luo_op_record *rec, one *of)
{
    int32_t n = 0;
    for (int32_t d = 0; d < set->n; d++) {
        const luo_program *p = &set->at[d];
        const luo_role *role = &set->roles[p->role];
        for (int32_t t = 0; t < p->ntask; t++)
            for (int32_t i = 0; i < role->seg[p->tasks[t].seg].n; i++) {
                const luo_instr *in = &role->instr[role->seg[p->tasks[t].seg].first + i];
                const double start = luo_rng_u(rng);
                rec[n] =
                    (luo_op_record){p->device, t, in->id, start, start + luo_rng_u(rng), LUO_OK};
                of[n] = (one){p, in, in->slot >= 0 ? &p->slots[in->slot] : NULL,
                              p->tasks[t].micro_batch, 0};
                for (int32_t k = n - 1; k >= 0 && of[k].p == p; k--)
                    of[n].turn += of[k].mb == of[n].mb && of[k].in->exchange == in->exchange &&
                                  of[k].in->phase == in->phase && of[k].in->kind == in->kind &&
                                  in->slot >= 0 && of[k].slot->group == of[n].slot->group;
                n++;
            }
    }
    return n;
}

static bool together(const one *a, const one *b)
{
    return a->in->exchange == b->in->exchange && a->mb == b->mb && a->turn == b->turn &&
           a->in->phase == b->in->phase && a->in->kind == b->in->kind;
}

static bool sends(const one *a, int32_t device)
{
    for (int32_t m = 0; m < a->slot->nmessage; m++)
        if (a->slot->message[m].send && a->slot->message[m].peer == device) return true;
    return false;
}

static bool gets(const one *a)
{
    for (int32_t m = 0; m < a->slot->nmessage; m++)
        if (!a->slot->message[m].send) return true;
    return false;
}

START_TEST(begins_with_the_last)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_err err = {0};
    luo_programs *set;
    luo_plan *plan = luo_test_plan(a, plans[_i]);
    const luo_model model = luo_test_llama(plan->layers, 32, 48, 4, 64);
    const luo_compile_opts opts = {.check = true};
    plan->dtype = LUO_F32;
    plan->sequence_tokens = 16;
    ck_assert_msg(luo_plan_compile(a, plan, &model, NULL, &opts, &set, &err) == LUO_OK, "%s",
                  err.text);
    enum { MOST = 20000 };
    luo_op_record *rec = LUO_NEW_N(a, luo_op_record, MOST),
                  *was = LUO_NEW_N(a, luo_op_record, MOST);
    one *of = LUO_NEW_N(a, one, MOST);
    luo_rng rng = luo_rng_seed(5 + (uint64_t)_i);
    const int32_t n = fill(set, &rng, rec, of);
    int32_t met = 0;
    memcpy(was, rec, (size_t)n * sizeof *rec);
    ck_assert_int_eq(luo_coord_meet(a, set, rec, n, &err), LUO_OK);
    for (int32_t i = 0; i < n; i++) {
        double begin = was[i].start_s, end = was[i].end_s, there = 0;
        const bool coll = of[i].in->kind == LUO_INSTR_COLLECTIVE;
        const bool p2p = of[i].in->kind == LUO_INSTR_P2P;
        for (int32_t k = 0; k < n && (coll || p2p); k++) {
            if (k == i || !together(&of[i], &of[k])) continue;
            if (coll && of[k].slot->group == of[i].slot->group) begin = fmax(begin, was[k].start_s);
            if (p2p && gets(&of[i]) && sends(&of[k], was[i].device))
                begin = fmax(begin, was[k].start_s);
            if (p2p && !gets(&of[i]) && sends(&of[i], was[k].device)) {
                begin = fmax(begin, was[k].start_s);
                there = fmax(there, was[k].end_s);
            }
        }
        if (there > 0) end = fmax(there, was[i].start_s);
        met += begin > was[i].start_s;
        ck_assert_double_eq(rec[i].start_s, fmin(begin, end));
        ck_assert_double_eq(rec[i].end_s, end);
    }
    ck_assert_int_gt(met, 4);
    luo_arena_free(a);
}
END_TEST

LUO_MAIN("exec.meet", begins_with_the_last, LUO_ROWS(plans))
