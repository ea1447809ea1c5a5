/* check_comm_plan.c: communicators of random plans: the right members, each made once
 * and in rounds without a conflict, and programs that finish with NCCL's rules on them. Pure: it
 * needs no GPU and nothing that stands in for one. */
#include "core/plan/migrate.h"
#include "tests/cluster_fixture.h"
#include "tests/cuda/comm_machine.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

typedef struct tally {
    plan_tally plans;
    int groups, messages, switches, shared, rounds, stuck_together, stuck_serial, stuck_hosts,
        stuck_early, machines, counted;
} tally;

static uint64_t seed_now;

static bool expect(bool good, const char *what)
{
    if (!good) printf("seed %llu: %s\n", (unsigned long long)seed_now, what);
    return good;
}

/* ---- who is in a communicator: a slow twin ---- */

/* Grows a set of ends (device * LUO_LANES + lane) by all that messages join to it. */
static void reach(const luo_programs *set, bool *in)
{
    for (bool more = true; more;) {
        more = false;
        for (int32_t d = 0; d < set->n; d++) {
            const luo_program *p = &set->at[d];
            const luo_role *role = &set->roles[p->role];
            for (int32_t i = 0; i < role->ninstr; i++) {
                const luo_instr *x = &role->instr[i];
                if (x->kind != LUO_INSTR_P2P) continue;
                const luo_slot *slot = &p->slots[x->slot];
                const int32_t lane = luo_instr_lane(x);
                for (int32_t m = 0; m < slot->nmessage; m++) {
                    const int32_t a = p->device * LUO_LANES + lane,
                                  b = slot->message[m].peer * LUO_LANES +
                                      luo_program_lane_peer(lane);
                    if (in[a] == in[b]) continue;
                    in[a] = in[b] = more = true;
                }
            }
        }
    }
}

static bool same_members(luo_arena *a, const luo_programs *set, const gpu_comm_spec *s,
                         int32_t device, int32_t lane)
{
    const int32_t most = set->at[set->n - 1].device + 1;
    bool *in = LUO_NEW_N(a, bool, most *LUO_LANES), good = true;
    const int32_t to = luo_program_lane_peer(s->lane);
    in[device * LUO_LANES + lane] = true;
    reach(set, in);
    int32_t n = 0;
    for (int32_t d = 0; d < most; d++)
        if (in[d * LUO_LANES + s->lane]) good &= n < s->nsenders && s->dev[n++] == d;
    good &= n == s->nsenders;
    for (int32_t d = 0; d < most && to != s->lane; d++)
        if (in[d * LUO_LANES + to]) good &= n < s->n && s->dev[n++] == d;
    return good && n == s->n;
}

static bool check_messages(luo_arena *a, const luo_programs *set, const gpu_comm_spec *s,
                           const luo_program *p, const luo_instr *in)
{
    const luo_slot *slot = &p->slots[in->slot];
    bool good = s->kind == GPU_COMM_MESSAGES && gpu_comm_spec_rank(s, p->device) >= 0;
    for (int32_t m = 0; m < slot->nmessage; m++) {
        const int32_t self = gpu_comm_spec_rank(s, p->device),
                      peer = gpu_comm_spec_rank(s, slot->message[m].peer);
        good &= peer >= 0 && peer != self;
        if (s->nsenders == s->n) continue; /* all do both */
        good &= (self < s->nsenders) == slot->message[m].send;
        good &= (peer < s->nsenders) != slot->message[m].send;
    }
    return good && same_members(a, set, s, p->device, luo_instr_lane(in));
}

static bool check_members(luo_arena *a, const gpu_comm_plan *plan, tally *t)
{
    const luo_programs *set = plan->set;
    bool good = true;
    for (int32_t d = 0; d < set->n; d++) {
        const luo_program *p = &set->at[d];
        const luo_role *role = &set->roles[p->role];
        int32_t *lane_of = LUO_NEW_N(a, int32_t, plan->n);
        for (int32_t i = 0; i < plan->n; i++) lane_of[i] = -1;
        for (int32_t i = 0; i < role->ninstr; i++) {
            const luo_instr *in = &role->instr[i];
            const int32_t k = gpu_comm_plan_find(plan, p, in);
            const bool group = in->kind == LUO_INSTR_COLLECTIVE;
            const luo_group *g = group ? &set->groups[p->slots[in->slot].group] : NULL;
            if (!group && in->kind != LUO_INSTR_P2P) {
                good &= expect(k == -1, "a communicator for no communication");
                continue;
            }
            if (group && g->n == 1) {
                good &= expect(k == -1, "a communicator of one");
                continue;
            }
            if (!expect(k >= 0 && k < plan->n, "an instruction without communicator")) return false;
            const gpu_comm_spec *s = &plan->at[k];
            const int32_t lane =
                luo_program_lane_is_dp(luo_instr_lane(in)) ? LUO_STREAM_DP : luo_instr_lane(in);
            if (lane_of[k] < 0) lane_of[k] = lane;
            good &= expect(lane_of[k] == lane, "two lanes on one communicator");
            if (group)
                good &= expect(s->kind == GPU_COMM_GROUP && s->lane == g->stream && s->n == g->n &&
                                   memcmp(s->dev, g->dev, (size_t)g->n * sizeof *g->dev) == 0,
                               "members of a group");
            else
                good &= expect(check_messages(a, set, s, p, in), "members of messages");
            t->groups += group;
            t->messages += !group;
        }
    }
    return good;
}

static bool check_once(const gpu_comm_plan *plan)
{
    bool good = true;
    for (int32_t i = 0; i < plan->n; i++)
        for (int32_t k = 0; k < i; k++)
            good &= expect(!gpu_comm_spec_same(&plan->at[i], &plan->at[k]), "one listed twice");
    return good;
}

/* What a plan's memory counts is what ranks make. */
static bool check_counts(luo_arena *a, const gpu_comm_plan *plan, tally *t)
{
    bool good = true;
    for (int32_t d = 0; d < plan->set->n; d++) {
        const luo_program *p = &plan->set->at[d];
        int32_t made = 0, counted = -1;
        for (int32_t i = 0; i < plan->n; i++)
            made += gpu_comm_spec_rank(&plan->at[i], p->device) >= 0;
        good &= luo_program_communicators(a, plan->set, p, &counted, NULL) == LUO_OK;
        good &= expect(counted == made, "a device with other communicators than are counted");
        t->counted += counted;
    }
    return good;
}

/* ---- rounds ---- */

static bool meet(const gpu_comm_spec *a, const gpu_comm_spec *b)
{
    for (int32_t i = 0; i < a->n; i++)
        if (gpu_comm_spec_rank(b, a->dev[i]) >= 0) return true;
    return false;
}

static bool check_rounds(luo_arena *a, int32_t n, const gpu_comm_spec *specs, tally *t)
{
    int32_t *round = LUO_NEW_N(a, int32_t, n + 1), most = 0;
    const int32_t rounds = gpu_comm_rounds(a, n, specs, round);
    bool good = true;
    for (int32_t i = 0; i < n; i++) {
        int32_t earliest = 0;
        for (int32_t k = 0; k < i; k++)
            if (meet(&specs[i], &specs[k]) && round[k] + 1 > earliest) earliest = round[k] + 1;
        good &= expect(round[i] == earliest, "a round that is not the earliest");
        if (round[i] + 1 > most) most = round[i] + 1;
    }
    t->rounds += n - rounds;
    return expect(rounds == most, "the number of rounds") && good;
}

/* ---- the machine ---- */

static int32_t by_plan(const void *ctx, const luo_program *p, const luo_instr *in)
{
    return gpu_comm_plan_find(ctx, p, in);
}

/* What must not be done: all messages of a stream on one communicator. */
static int32_t together(const void *ctx, const luo_program *p, const luo_instr *in)
{
    const gpu_comm_plan *plan = ctx;
    if (in->kind == LUO_INSTR_P2P) return plan->n + in->stream;
    return gpu_comm_plan_find(plan, p, in);
}

static bool finishes(const gpu_comm_plan *plan, machine_choice choose, launch_order order,
                     bool early, char *wrong, size_t size)
{
    luo_arena *a = luo_arena_new(1 << 18);
    machine m;
    machine_open(&m, a, plan->set, plan->n + LUO_STREAMS, order, early, choose, plan);
    const bool over = machine_run(&m);
    snprintf(wrong, size, "%s", m.wrong);
    luo_arena_free(a);
    return over;
}

static bool hosts_finish(const gpu_comm_plan *plan, bool messages)
{
    luo_arena *a = luo_arena_new(1 << 18);
    machine m;
    machine_open(&m, a, plan->set, plan->n, LAUNCH_FREE, false, by_plan, plan);
    const bool over = machine_hosts(&m, messages);
    luo_arena_free(a);
    return over;
}

static bool check_machine(const gpu_comm_plan *plan, tally *t)
{
    char wrong[256];
    bool good = expect(finishes(plan, by_plan, LAUNCH_BEGIN, false, wrong, sizeof wrong),
                       "programs that do not finish");
    good &= expect(wrong[0] == 0, wrong);
    for (int early = 0; early < 2; early++) {
        good &= expect(finishes(plan, by_plan, LAUNCH_FREE, early, wrong, sizeof wrong),
                       "programs that do not finish in a free order");
        good &= expect(wrong[0] == 0, wrong);
    }
    t->stuck_early += !finishes(plan, by_plan, LAUNCH_BEGIN, true, wrong, sizeof wrong);
    good &= expect(hosts_finish(plan, false), "hosts that wait for each other in collectives");
    t->stuck_hosts += !hosts_finish(plan, true);
    t->stuck_together += !finishes(plan, together, LAUNCH_FREE, false, wrong, sizeof wrong);
    t->stuck_serial += !finishes(plan, by_plan, LAUNCH_SERIAL, false, wrong, sizeof wrong);
    t->machines++;
    return good;
}

/* ---- cases ---- */

static luo_programs *compile(luo_arena *a, const luo_plan *p, const luo_model *m)
{
    const luo_compile_opts opts = {.check = true};
    luo_programs *set = NULL;
    luo_err err = {0};
    expect(luo_plan_compile(a, p, m, NULL, &opts, &set, &err) == LUO_OK, err.text);
    return set;
}

/* What the next plan adds is what it lacks, in its order; asked again it adds nothing. */
static bool check_book(gpu_comm_book *b, const gpu_comm_plan *plan, tally *t)
{
    luo_err err = {0};
    const int32_t before = b->n;
    int32_t lacking = 0;
    for (int32_t i = 0; i < plan->n; i++) lacking += gpu_comm_book_find(b, &plan->at[i]) < 0;
    bool good = gpu_comm_book_add(b, plan->n, plan->at, &err) == LUO_OK;
    good &= expect(b->n == before + lacking, "a book that adds other than what it lacks");
    for (int32_t i = 0, at = before; i < plan->n; i++) {
        const int32_t k = gpu_comm_book_find(b, &plan->at[i]);
        good &= expect(k >= 0 && (k < before || k == at), "an entry out of order");
        at += k >= before;
    }
    t->shared += plan->n - lacking;
    const int32_t n = b->n;
    good &= gpu_comm_book_add(b, plan->n, plan->at, &err) == LUO_OK;
    return expect(b->n == n, "a plan that comes back makes new ones") && good;
}

static bool check_set(luo_arena *a, luo_programs *set, gpu_comm_book *book, gpu_comm_plan *out,
                      tally *t)
{
    luo_err err = {0};
    gpu_comm_plan again;
    if (!set || !expect(gpu_comm_plan_make(a, set, out, &err) == LUO_OK, err.text)) return false;
    bool good = gpu_comm_plan_make(a, set, &again, &err) == LUO_OK && again.n == out->n;
    for (int32_t i = 0; good && i < out->n; i++)
        good = gpu_comm_spec_same(&again.at[i], &out->at[i]);
    good &= check_counts(a, out, t);
    good &= check_members(a, out, t) && check_once(out) && check_rounds(a, out->n, out->at, t);
    return check_book(book, out, t) && check_machine(out, t) && good;
}

static luo_programs *switch_of(luo_arena *a, const luo_plan *from, const luo_plan *to,
                               const luo_model *m)
{
    luo_switching what;
    luo_err err = {0};
    if (luo_switching_compile(a, from, to, m, fixture_cluster(a, 1, 16, 8), 0, NULL, &what, &err) !=
        LUO_OK)
        return NULL;
    return what.set;
}

static bool one_case(uint64_t seed, tally *t)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16);
    gpu_comm_book book = {.arena = a};
    gpu_comm_plan plan[3] = {{0}}; /* there, away, and a switch between them */
    luo_plan *p[2];
    seed_now = seed;
    for (int i = 0; i < 2; i++) p[i] = plan_random(a, &r, &t->plans);
    while (p[1]->layers != p[0]->layers) p[1] = plan_random(a, &r, &t->plans);
    const luo_model m = luo_test_llama(p[0]->layers, 64, 96, 8, 120);
    for (int i = 0; seed % 2 && i < 2; i++) plan_random_shard(&r, p[i], m.tied_embeddings);
    bool good = check_set(a, compile(a, p[0], &m), &book, &plan[0], t);
    good &= check_set(a, compile(a, p[1], &m), &book, &plan[1], t);
    luo_programs *set = switch_of(a, p[0], p[1], &m);
    if (set) good &= check_set(a, set, &book, &plan[2], t);
    t->switches += set != NULL;
    const int32_t n = book.n;
    luo_err err = {0};
    good &= gpu_comm_book_add(&book, plan[0].n, plan[0].at, &err) == LUO_OK;
    good &= expect(book.n == n, "there, away and back makes new ones");
    luo_arena_free(a);
    return good;
}

START_TEST(random_programs)
{
    tally t = {0};
    int failed = 0, cases = 0;
    LUO_PROP_FOR(seed, 40)
    {
        failed += !one_case(seed, &t);
        cases++;
    }
    printf("%d cases: %d collectives, %d exchanges, %d switches, %d found again, %d saved by "
           "rounds, %d counted by devices; %d runs: %d stuck on one communicator per stream, %d "
           "stuck one at a time, %d stuck where messages keep their hosts, %d stuck where kernels "
           "begin in order and calls run beside tasks\n",
           cases, t.groups, t.messages, t.switches, t.shared, t.rounds, t.counted, t.machines,
           t.stuck_together, t.stuck_serial, t.stuck_hosts, t.stuck_early);
    ck_assert_int_eq(failed, 0);
    if (cases < 40) return; /* do the cases show what they are for? */
    ck_assert(t.groups >= 100 && t.messages >= 100 && t.switches >= 10 && t.shared >= 10);
    ck_assert_int_ge(t.counted, 1000);
    ck_assert(t.rounds >= 10 && t.stuck_together >= 10 && t.stuck_serial >= 10 &&
              t.stuck_early >= 10);
}
END_TEST

/* ---- by hand ---- */

/* Three devices, each with one instruction per direction in the pipeline's forward lanes. */
typedef struct hand {
    luo_instr instr[2];
    luo_role role;
    luo_message message[3][2][2];
    luo_slot slot[3][2];
    luo_program at[3];
    luo_programs set;
} hand;

static void hold(hand *h, int32_t dev, bool send, int32_t n, int32_t peer, int32_t other)
{
    h->message[dev][!send][0] = (luo_message){peer, send, 1, 4};
    h->message[dev][!send][1] = (luo_message){other, send, 1, 4};
    h->slot[dev][!send] = (luo_slot){.group = -1, .nmessage = n, .message = h->message[dev][!send]};
}

static void make_hand(hand *h)
{
    *h = (hand){0};
    for (int i = 0; i < 2; i++)
        h->instr[i] = (luo_instr){.id = i,
                                  .kind = LUO_INSTR_P2P,
                                  .stream = LUO_STREAM_PP,
                                  .phase = LUO_PHASE_F,
                                  .slot = i,
                                  .bytes = i ? 0 : 4};
    h->role = (luo_role){.ninstr = 2, .instr = h->instr};
    for (int d = 0; d < 3; d++) h->at[d] = (luo_program){.device = 10 * d, .slots = h->slot[d]};
    h->set = (luo_programs){.n = 3, .at = h->at, .nroles = 1, .roles = &h->role};
}

START_TEST(by_hand)
{
    hand h;
    gpu_comm_plan plan;
    luo_err err = {0};
    luo_arena *a = luo_arena_new(1 << 12);
    make_hand(&h); /* 0 and 20 send to 10; the other ends are of no interest */
    hold(&h, 0, true, 1, 10, 0);
    hold(&h, 2, true, 1, 10, 0);
    hold(&h, 1, false, 2, 0, 20);
    ck_assert_int_eq(gpu_comm_plan_make(a, &h.set, &plan, &err), LUO_OK);
    ck_assert(plan.n == 1 && plan.at[0].n == 3 && plan.at[0].nsenders == 2);
    ck_assert(plan.at[0].dev[0] == 0 && plan.at[0].dev[1] == 20 && plan.at[0].dev[2] == 10);
    ck_assert_int_eq(gpu_comm_plan_find(&plan, &h.at[1], &h.instr[1]), 0);
    ck_assert_int_eq(gpu_comm_plan_find(&plan, &h.at[1], &h.instr[0]), -1);
    hold(&h, 2, true, 2, 10, 0); /* now 0 sends and receives in one set */
    hold(&h, 0, false, 1, 20, 0);
    ck_assert_int_eq(gpu_comm_plan_make(a, &h.set, &plan, &err), LUO_EUNSUP);
    ck_assert_str_eq(err.text, "device 0 sends and receives among the same stages of a pipeline; "
                               "NCCL needs a stage that does one of the two.");
    hold(&h, 0, true, 1, 7, 0);
    ck_assert_int_eq(gpu_comm_plan_make(a, &h.set, &plan, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "device 0 has a message with device 7, which has no program; both "
                               "ends of a message need one.");
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("cuda.comm_plan", LUO_T(random_programs), LUO_T(by_hand))
