/* diff_begins.c: calls between replicas and receives between stages of random plans begin where
 * they may, and the simulator begins all instructions in the order of issue, which is that of
 * luoshu's own ranks (tests/mpi/trial.h looks at those). */
#include "core/plan/compile.h"
#include "tests/begins.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

static struct {
    int64_t devices, calls, beside, early, cut, ahead, receives, came;
} met;

/* ---- the slow twin of the interpreter: one call at a time, all runs looked at ---- */

static int32_t segment_of(const luo_role *role, int32_t instr)
{
    int32_t s = 0;
    while (instr >= role->seg[s].first + role->seg[s].n) s++;
    return s;
}

/* Position in `issued` of the last run of an instruction; -1: it never runs. */
static int32_t last_run(const begins *issued, int32_t instr)
{
    for (int32_t k = issued->n - 1; k >= 0; k--)
        if (issued->at[k].instr == instr) return k;
    return -1;
}

static int32_t first_of_post(const luo_role *role)
{
    for (int32_t s = 0; s < role->nseg; s++)
        if (role->seg[s].phase == LUO_PHASE_POST) return role->seg[s].first;
    return -1;
}

static bool tasks_call(const luo_role *role)
{
    for (int32_t i = 0; i < role->ninstr; i++)
        if (luo_instr_is_call(&role->instr[i]) && luo_phase_in_task(role->instr[i].phase))
            return true;
    return false;
}

/* May it begin early, if those in `early` do? All that it waits for in Post is early, and so is
 * what stands before it of its Reshard. */
static bool may(const luo_role *role, int32_t i, const bool *early)
{
    const luo_instr *in = &role->instr[i];
    for (int32_t k = first_of_post(role); k < i; k++) {
        bool waits = role->instr[k].op == in->op;
        for (int32_t d = 0; d < in->ndep; d++) waits |= in->dep[d] == k;
        if (waits && !early[k]) return false;
    }
    return luo_instr_runs_beside(role, in);
}

/* Without early calls: a task's instructions in their order, but that the receives of the next
 * stand before them, and its own before those if it is the first. */
static void check_ahead(luo_arena *a, const luo_programs *set, const luo_program *p, uint64_t seed)
{
    const luo_role *role = &set->roles[p->role];
    const begins got = begins_issued(a, set, p, false);
    int32_t n = 0, ahead = 0;
    for (int32_t t = 0; t < p->ntask; t++)
        for (int32_t part = 0; part < 3; part++) { /* own receives, the next's, all else */
            const int32_t of = t + (part == 1);
            if (of == p->ntask || (part == 0 && t > 0)) continue;
            const luo_segment *s = &role->seg[p->tasks[of].seg];
            for (int32_t i = s->first; i < s->first + s->n; i++) {
                const luo_instr *in = &role->instr[i];
                const bool receive = in->stream == LUO_STREAM_PP && in->kind == LUO_INSTR_P2P &&
                                     !p->slots[in->slot].message[0].send;
                if (receive != (part < 2)) continue;
                ck_assert_msg(n < got.n && got.at[n].task == of && got.at[n].instr == i,
                              "seed %llu, device %d: number %d is not instruction %d of task %d",
                              (unsigned long long)seed, p->device, n, i, of);
                n++;
                ahead += part == 1;
            }
        }
    ck_assert(n == got.n && ahead == got.ahead && got.early == 0);
    met.ahead += ahead;
}

/* Every call of Post stands directly behind the last of: the call before it, and the last runs of
 * what it waits for in tasks; from the first that may not on they stand where Post has them. */
static void check_order(luo_arena *a, const luo_programs *set, const luo_program *p, uint64_t seed)
{
    const luo_role *role = &set->roles[p->role];
    const begins got = begins_issued(a, set, p, true), late = begins_issued(a, set, p, false);
    bool *early = LUO_NEW_N(a, bool, role->ninstr);
    int32_t behind = -1, n = 0;
    bool goes = first_of_post(role) >= 0 && !tasks_call(role);
    ck_assert_int_eq(got.n, late.n);
    for (int32_t i = first_of_post(role); goes && i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->phase != LUO_PHASE_POST || !luo_instr_is_call(in)) continue;
        bool any = behind >= 0;
        int32_t want = behind;
        for (int32_t d = 0; d < in->ndep; d++) {
            const int32_t at = last_run(&got, in->dep[d]);
            const int32_t phase = role->seg[segment_of(role, in->dep[d])].phase;
            if (!luo_phase_in_task(phase) || at < 0) continue;
            any = true;
            if (at > want) want = at;
        }
        goes = may(role, i, early) && any;
        if (!goes) break;
        early[i] = true;
        behind = last_run(&got, i);
        ck_assert_msg(behind == want + 1,
                      "seed %llu, device %d: call %d is number %d of the order, not %d",
                      (unsigned long long)seed, p->device, i, behind, want + 1);
        n++;
    }
    ck_assert_int_eq(got.early, n);
    ck_assert_int_eq(late.early, 0);
    for (int32_t k = 0, j = 0; k < got.n; k++) { /* all else stands as it did */
        if (early[got.at[k].instr]) continue;
        while (early[late.at[j].instr]) j++;
        ck_assert(got.at[k].task == late.at[j].task && got.at[k].instr == late.at[j].instr);
        j++;
    }
    met.early += n;
}

/* ---- the simulator ---- */

static void check_step(luo_arena *a, const luo_programs *set, uint64_t seed)
{
    const int32_t most = set->at[set->n - 1].device + 1;
    rig *r = rig_new(&(rig_shape){.nodes = (most + 3) / 4, .devices_per_node = 4});
    luo_step_result s;
    r->stack.dp_overlap = seed % 4 > 0;
    rig_check(r, luo_sim_backend.open(&r->config, &r->state, &r->err));
    const luo_step_request request = {.programs = set, .world = r->world, .trace = true};
    rig_check(r, luo_sim_backend.run_ranks(r->state, &request, &s, &r->err));
    ck_assert_msg(s.status == LUO_OK, "seed %llu: %s", (unsigned long long)seed, s.text);
    for (int32_t d = 0; d < set->n; d++) {
        const begins issued = begins_issued(a, set, &set->at[d], r->stack.dp_overlap);
        int64_t beside = 0;
        begin_at wrong;
        ck_assert_msg(begins_follow(set, &set->at[d], &issued, s.records, s.nrecords, &met.calls,
                                    &beside, &wrong),
                      "seed %llu, device %d: instruction %d of task %d does not begin in its turn",
                      (unsigned long long)seed, set->at[d].device, wrong.instr, wrong.task);
        ck_assert(r->stack.dp_overlap || beside == 0);
        ck_assert_msg(
            begins_recorded(set, &set->at[d], &issued, s.records, s.nrecords, &wrong),
            "seed %llu, device %d: instruction %d of task %d is not recorded in its turn",
            (unsigned long long)seed, set->at[d].device, wrong.instr, wrong.task);
        met.came += begins_came_ahead(set, &set->at[d], s.records, s.nrecords, 1,
                                      LUO_NEW_N(a, double, set->at[d].ntask), &met.receives);
        met.beside += beside;
        met.devices++;
    }
    rig_free(r);
}

static void one_case(uint64_t seed)
{
    static plan_tally plans;
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *p = plan_random(a, &r, &plans);
    const luo_model m = luo_rng_pick(&r, 3) == 0 ? luo_test_gpt(p->layers, 64, 8, 120)
                                                 : luo_test_llama(p->layers, 64, 96, 8, 120);
    const luo_compile_opts opts = {.sequence_tokens = 256, .check = true};
    luo_programs *set = NULL;
    luo_err err = {0};
    if (luo_rng_pick(&r, 4) == 0) met.cut += plan_random_shard(&r, p, m.tied_embeddings);
    if (luo_plan_compile(a, p, &m, NULL, &opts, &set, &err) != LUO_OK)
        ck_abort_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    for (int32_t d = 0; d < set->n; d++) check_order(a, set, &set->at[d], seed);
    for (int32_t d = 0; d < set->n; d++) check_ahead(a, set, &set->at[d], seed);
    check_step(a, set, seed);
    luo_arena_free(a);
}

enum { CASES = 1000 };

START_TEST(all_begin_in_one_order)
{
    LUO_PROP_FOR(seed, CASES) one_case(seed);
    printf("%lld devices: %lld calls, %lld issued before Post, %lld begun before the last backward "
           "had ended; %lld receives a task ahead, %lld of %lld there before it had computed\n",
           (long long)met.devices, (long long)met.calls, (long long)met.early,
           (long long)met.beside, (long long)met.ahead, (long long)met.came,
           (long long)met.receives);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    ck_assert(met.early > 1000 && met.beside > 1000 && met.cut > 20);
    ck_assert(met.ahead > 10000 && met.came > 1000);
}
END_TEST

LUO_MAIN("diff.begins", all_begin_in_one_order, 1)
