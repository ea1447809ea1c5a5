/* The walk over a program: order, tickets, and which runs a dependency of another segment means. */
#include "core/run/interp.h"
#include "tests/check_main.h"

/* A backend that writes down what it is given: "task.instr(tickets)", with "!" if it is early.
 * Tickets count from `first`
 * and are told as if that were 100. */
struct luo_rank {
    char log[2048];
    int64_t first, next, fail_at;
    int waits;
};

static luo_status record_submit(luo_rank *r, const luo_issue *issue, int64_t *ticket)
{
    if (r->next - r->first + 100 == r->fail_at) return LUO_EPEER;
    size_t len = strlen(r->log);
    len += (size_t)snprintf(r->log + len, sizeof r->log - len, "%d.%d%s(", issue->task,
                            issue->instr->id, issue->early ? "!" : "");
    for (int32_t i = 0; i < issue->ndep; i++)
        len += (size_t)snprintf(r->log + len, sizeof r->log - len, "%s%d", i ? "," : "",
                                (int)(issue->dep[i] - r->first + 100));
    snprintf(r->log + len, sizeof r->log - len, ") ");
    *ticket = r->next++;
    return LUO_OK;
}

static luo_status record_wait(luo_rank *r, const int64_t *tickets, int32_t n)
{
    ck_assert(tickets == NULL && n == 0);
    r->waits++;
    return LUO_OK;
}

static const luo_executor recorder = {
    .submit = record_submit, .wait = record_wait};

#define DEP(...) .ndep = (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), \
                 .dep = (const int32_t[]){__VA_ARGS__}
#define AT(s, p) .stream = (s), .phase = (p), .exchange = -1, .slot = -1

/* Pre: 0 gather. F: 1 compute, 2 tp, 3 compute. B: 4 compute, 5 tp, 6 accum.
 * Post: 7 dp, 8 update. */
static const luo_instr instr[] = {
    {.id = 0, AT(LUO_STREAM_DP, LUO_PHASE_PRE)},
    {.id = 1, AT(LUO_STREAM_COMPUTE, LUO_PHASE_F), DEP(0)},
    {.id = 2, AT(LUO_STREAM_TP, LUO_PHASE_F), DEP(1)},
    {.id = 3, AT(LUO_STREAM_COMPUTE, LUO_PHASE_F), DEP(1, 2)},
    {.id = 4, AT(LUO_STREAM_COMPUTE, LUO_PHASE_B), DEP(2, 3)},
    {.id = 5, AT(LUO_STREAM_TP, LUO_PHASE_B), DEP(2, 4)},
    {.id = 6, AT(LUO_STREAM_COMPUTE, LUO_PHASE_B), DEP(5, 0)},
    {.id = 7, AT(LUO_STREAM_DP, LUO_PHASE_POST), DEP(4, 6)},
    {.id = 8, AT(LUO_STREAM_COMPUTE, LUO_PHASE_POST), DEP(7, 9)},
    {.id = 9, AT(LUO_STREAM_TP, LUO_PHASE_F)}, /* a segment no task runs */
};
static const luo_segment segments[] = {
    {.phase = LUO_PHASE_PRE, .first = 0, .n = 1}, {.phase = LUO_PHASE_F, .first = 1, .n = 3},
    {.phase = LUO_PHASE_B, .first = 4, .n = 3},   {.phase = LUO_PHASE_POST, .first = 7, .n = 2},
    {.phase = LUO_PHASE_F, .first = 9, .n = 1},
};
static const luo_run_task tasks[] = {{0, -1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, -1}};
static const luo_role role = {.ninstr = 10, .nseg = 5, .instr = instr, .seg = segments};
static const luo_program program = {.ntask = 6, .tasks = tasks};
static const luo_programs set = {.n = 1, .at = &program, .nroles = 1, .roles = &role};

static const char *walked = "0.0() "                      /* 100 */
                            "1.1(100) 1.2(101) 1.3(102) " /* 101-103 */
                            "2.1(100) 2.2(104) 2.3(105) " /* 104-106 */
                            "3.4(102) 3.5(107) 3.6(108,100) "  /* F of this B: 102, not 105 */
                            "4.4(105) 4.5(110) 4.6(111,100) "  /* 110-112 */
                            "5.7(112) 5.8(113) ";              /* latest run of the accumulation */

static luo_status walk(luo_rank *rank)
{
    luo_arena *arena = luo_arena_new(0);
    rank->next = rank->first;
    const luo_status st = luo_interp_program(&recorder, rank, &set, &program, false, arena);
    ck_assert_uint_eq(luo_arena_used(arena), 0);
    luo_arena_free(arena);
    return st;
}

START_TEST(a_walk_submits_all_with_the_right_tickets)
{
    luo_rank rank = {.first = 100 * _i, .fail_at = -1};
    ck_assert_int_eq(walk(&rank), LUO_OK);
    ck_assert_str_eq(rank.log, walked);
    ck_assert_int_eq(rank.waits, 1);
}
END_TEST

START_TEST(a_walk_ends_at_the_first_failure)
{
    luo_rank rank = {.first = 100 * _i, .fail_at = 105};
    ck_assert_int_eq(walk(&rank), LUO_EPEER);
    ck_assert_str_eq(rank.log, "0.0() 1.1(100) 1.2(101) 1.3(102) 2.1(100) ");
    ck_assert_int_eq(rank.waits, 0);
}
END_TEST

/* F: 0. B: 1 on another stream after it. The very first ticket is as good as others: B of
 * micro-batch 0 waits for its own F, not for the latest. */
START_TEST(the_first_ticket_is_a_ticket)
{
    const luo_instr two[] = {
        {.id = 0, .kind = LUO_INSTR_COMPUTE, AT(LUO_STREAM_COMPUTE, LUO_PHASE_F)},
        {.id = 1, .kind = LUO_INSTR_COLLECTIVE, AT(LUO_STREAM_TP, LUO_PHASE_B), DEP(0)}};
    const luo_segment halves[] = {{LUO_PHASE_F, 0, 8, 0, 1}, {LUO_PHASE_B, 0, 8, 1, 1}};
    const luo_run_task there_and_back[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    const luo_role of = {.ninstr = 2, .nseg = 2, .instr = two, .seg = halves};
    const luo_program one = {.ntask = 4, .tasks = there_and_back};
    const luo_programs all = {.n = 1, .at = &one, .nroles = 1, .roles = &of};
    luo_rank rank = {.first = 100 * _i, .next = 100 * _i, .fail_at = -1};
    luo_arena *arena = luo_arena_new(0);
    ck_assert_int_eq(luo_interp_program(&recorder, &rank, &all, &one, false, arena), LUO_OK);
    ck_assert_str_eq(rank.log, "0.0() 1.0() 2.1(100) 3.1(101) ");
    luo_arena_free(arena);
}
END_TEST

/* F: 0. B: 1, 2, 3 compute. Post: two calls, of what 2 and 1 have made, a copy, and a call of what
 * that made. The first begins behind 2 of the last micro-batch, the second behind it, although what
 * it waits for was there before; the third stands in Post. */
START_TEST(calls_begin_behind_the_last_run_of_what_they_wait_for)
{
    enum { COMPUTE = LUO_STREAM_COMPUTE, DP = LUO_STREAM_DP, POST = LUO_PHASE_POST };
    const luo_instr all_of[] = {
        {.id = 0, AT(COMPUTE, LUO_PHASE_F)},
        {.id = 1, AT(COMPUTE, LUO_PHASE_B), DEP(0)},
        {.id = 2, AT(COMPUTE, LUO_PHASE_B), DEP(1)},
        {.id = 3, AT(COMPUTE, LUO_PHASE_B), DEP(2)},
        {.id = 4, AT(DP, POST), .kind = LUO_INSTR_COLLECTIVE, .op = 1, DEP(2)},
        {.id = 5, AT(DP, POST), .kind = LUO_INSTR_COLLECTIVE, .op = 2, DEP(1, 4), .lane = 1},
        {.id = 6, AT(COMPUTE, POST), .kind = LUO_INSTR_LOCAL, .op = 3, DEP(3)},
        {.id = 7, AT(DP, POST), .kind = LUO_INSTR_COLLECTIVE, .op = 3, DEP(6)},
        {.id = 8, AT(COMPUTE, POST), .op = 4, DEP(4, 5, 7)}};
    const luo_segment parts[] = {
        {LUO_PHASE_F, 0, 8, 0, 1}, {LUO_PHASE_B, 0, 8, 1, 3}, {POST, 0, 0, 4, 5}};
    const luo_run_task in_turn[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, -1}};
    const luo_role of = {.ninstr = 9, .nseg = 3, .instr = all_of, .seg = parts};
    const luo_program one = {.ntask = 5, .tasks = in_turn};
    luo_rank early = {.first = 100, .next = 100, .fail_at = -1}, late = early;
    luo_arena *arena = luo_arena_new(0);
    const luo_walk *walk;
    ck_assert_int_eq(luo_walk_make(arena, &of, true, &walk), LUO_OK);
    ck_assert_int_eq(luo_interp_walk(&recorder, &early, walk, &one, arena), LUO_OK);
    ck_assert_str_eq(early.log, "0.0() 1.0() 2.1() 2.2() 2.3() 3.1() 3.2() 4.4!(106) "
                                "4.5!(105,107) 3.3() 4.6() 4.7(110) 4.8(111,108) ");
    ck_assert_int_eq(luo_walk_make(arena, &of, false, &walk), LUO_OK);
    ck_assert_int_eq(luo_interp_walk(&recorder, &late, walk, &one, arena), LUO_OK);
    ck_assert_str_eq(late.log, "0.0() 1.0() 2.1() 2.2() 2.3() 3.1() 3.2() 3.3() 4.4(106) "
                               "4.5(105,108) 4.6() 4.7(110) 4.8(111,109) ");
    luo_arena_free(arena);
}
END_TEST

/* F: 0 receives, 1 computes, 2 sends; B: 3, 4, 5 the same. A task begins with the receives of the
 * next, the first with its own before them; a computation waits for its own task's, and B for what
 * F of its micro-batch has received. A receive that needs something here keeps all in their places.
 */
START_TEST(receives_go_a_task_ahead)
{
    enum { COMPUTE = LUO_STREAM_COMPUTE, PP = LUO_STREAM_PP, F = LUO_PHASE_F, B = LUO_PHASE_B };
    static const int32_t operand[] = {0};
    luo_instr both[] = {
        {.id = 0, AT(PP, F), .kind = LUO_INSTR_P2P},
        {.id = 1, AT(COMPUTE, F), DEP(0)},
        {.id = 2, AT(PP, F), .kind = LUO_INSTR_P2P, .bytes = 8, DEP(1)},
        {.id = 3, AT(PP, B), .kind = LUO_INSTR_P2P},
        {.id = 4, AT(COMPUTE, B), DEP(0, 3)},
        {.id = 5, AT(PP, B), .kind = LUO_INSTR_P2P, .bytes = 8, DEP(4)}};
    const luo_segment halves[] = {{F, 0, 8, 0, 3}, {B, 0, 8, 3, 3}};
    const luo_run_task in_turn[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    const luo_role of = {.ninstr = 6, .nseg = 2, .instr = both, .seg = halves};
    const luo_program one = {.ntask = 4, .tasks = in_turn};
    const luo_programs all = {.n = 1, .at = &one, .nroles = 1, .roles = &of};
    luo_rank ahead = {.first = 100, .next = 100, .fail_at = -1}, stays = ahead;
    luo_arena *arena = luo_arena_new(0);
    ck_assert_int_eq(luo_interp_program(&recorder, &ahead, &all, &one, false, arena), LUO_OK);
    ck_assert_str_eq(ahead.log, "0.0() 1.0!() 0.1(100) 0.2(102) 2.3!() 1.1(101) 1.2(105) "
                                "3.3!() 2.4(100,104) 2.5(108) 3.4(101,107) 3.5(110) ");
    both[3].nin = 1;
    both[3].in = operand;
    ck_assert_int_eq(luo_interp_program(&recorder, &stays, &all, &one, false, arena), LUO_OK);
    ck_assert_str_eq(stays.log, "0.0() 0.1(100) 0.2(101) 1.0() 1.1(103) 1.2(104) "
                                "2.3() 2.4(100,106) 2.5(107) 3.3() 3.4(103,109) 3.5(110) ");
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("backend.interp", LUO_T(receives_go_a_task_ahead),
          LUO_T(calls_begin_behind_the_last_run_of_what_they_wait_for),
          LUO_T_N(a_walk_submits_all_with_the_right_tickets, 2),
          LUO_T_N(a_walk_ends_at_the_first_failure, 2), LUO_T_N(the_first_ticket_is_a_ticket, 2))
