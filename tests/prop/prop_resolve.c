/* prop_resolve.c: luo_resolve against the oracle of docs/architecture/tests.md. LUO_CASES
 * scales. */
#include "tests/check_main.h"
#include "tests/prop/oracle.h"
#include "tests/prop/prop.h"

/* Beginnings of kinds, member kinds, reasons: each must be met. */
static const char *const words[] = {
    "identity",       "slice",         "bottom ",         "split_ar",        "split_ar pre",
    "split_rs",       "split_rs pre",  "split_ag",        "split_ag pre",    "split_ag post",
    "bsr",            "bottom+bsr",    "reduce_then_identity",               "reduce_then_slice",
    "reduce_then_sendrecv",            "reduce_then_allgather",              "reduce_then_bsr",
    "PARTIAL_CREATE", "PARTIAL_COUNT", "PARTIAL_DEVICES", "PARTIAL_REGIONS", "PARTIAL_TIER",
    "OUTER_SAME_DIM", "LUO_ELOST"};
static const char *const members[] = {"identity", "slice",     "sendrecv",     "allgather",
                                      "bsr",      "allreduce", "reducescatter"};
static int64_t met[LUO_ROWS(words)], met_member[LUO_ROWS(members)], met_sender[6], noticed;
static luo_oracle oracle;
enum { CASES = 20000 };

static void count(const char *text)
{
    for (int i = 0; i < LUO_ROWS(words); i++) {
        const size_t n = strlen(words[i]);
        met[i] += strncmp(text, words[i], n) == 0 &&
                  (text[n] == 0 || text[n] == ' ' || words[i][n - 1] == ' ');
    }
    if (strncmp(text, "bottom ", 7) != 0) return;
    for (const char *at = text + 7; *at; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        for (int i = 0; i < LUO_ROWS(members); i++)
            met_member[i] += strlen(members[i]) == n && strncmp(at, members[i], n) == 0;
        at += n;
    }
}

static void abort_case(uint64_t seed, const luo_reshard *x, const luo_resolution *r,
                       const char *why)
{
    luo_str s = {0};
    luo_reshard_print(&s, x);
    luo_str_addf(&s, "  :  %s  :  ", r->text ? r->text : "?");
    for (int32_t i = 0; i < r->moves.n; i++) {
        luo_str_addf(&s, "%s%d ", i ? "; " : "", r->moves.at[i].step);
        luo_move_print(&s, &r->moves.at[i]);
    }
    ck_abort_msg("LUO_SEED=%llu LUO_CASES=1: %s\n%s", (unsigned long long)seed, why,
                 luo_str_get(&s));
}

static void text_of(const luo_resolution *r, luo_str *s)
{
    luo_str_clear(s);
    luo_str_add(s, r->text);
    for (int32_t i = 0; i < r->moves.n; i++) {
        luo_str_addf(s, "; %d ", r->moves.at[i].step);
        luo_move_print(s, &r->moves.at[i]);
    }
}

/* The same answer from other addresses: no order comes from pointers (fault K15). */
static bool same_again(const luo_reshard *x, const luo_resolution *r, uint64_t seed)
{
    static luo_str one, two;
    luo_arena *other = luo_arena_new(512);
    luo_resolution again = {0};
    luo_arena_alloc(other, seed % 4096);
    luo_resolve(other, x->src, x->dst, &x->shape, &x->opts, &again, NULL);
    text_of(r, &one);
    text_of(&again, &two);
    luo_arena_free(other);
    return strcmp(luo_str_get(&one), luo_str_get(&two)) == 0;
}

/* A bsr starts with zero counters, whatever was tried before it. */
static bool as_planned_alone(luo_arena *arena, const luo_reshard *x, const luo_resolution *r)
{
    static luo_str one, two;
    luo_resolution alone = {.text = r->text};
    luo_holdings src, dst;
    luo_planner *p = luo_planner_new(arena, &x->opts.planner);
    luo_holdings_make(arena, x->src, &x->shape, &src, NULL);
    luo_holdings_make(arena, x->dst, &x->shape, &dst, NULL);
    luo_bsr_plan(arena, p, &src, &dst, &x->shape, 1, 0, "x", &alone.moves, NULL);
    text_of(r, &one);
    text_of(&alone, &two);
    return strcmp(luo_str_get(&one), luo_str_get(&two)) == 0;
}

/* The oracle must notice one move less, where no move is there twice or in vain. */
static void planted(luo_arena *arena, luo_rng *rng, const luo_reshard *x, luo_resolution *r,
                    uint64_t seed)
{
    const bool tight = r->kind == LUO_RESOLVE_SLICE || r->kind == LUO_RESOLVE_BOTTOM ||
                       r->kind == LUO_RESOLVE_BSR || strcmp(r->text, "split_ag") == 0;
    if (!tight || r->moves.n == 0) return;
    const int32_t at = luo_gen_int(rng, 0, --r->moves.n);
    memmove(&r->moves.at[at], &r->moves.at[at + 1],
            (size_t)(r->moves.n - at) * sizeof *r->moves.at);
    if (!luo_oracle_check(&oracle, arena, rng, x, r)[0])
        abort_case(seed, x, r, "a move was taken away and the oracle did not notice");
    noticed++;
}

static void one_case(luo_arena *arena, uint64_t seed)
{
    luo_rng rng = luo_rng_seed(seed);
    luo_reshard x = {0};
    luo_resolution r = {0};
    luo_err err = {0};
    luo_gen_reshard(arena, &rng, &x);
    const luo_status st = luo_resolve(arena, x.src, x.dst, &x.shape, &x.opts, &r, &err);
    if (st != LUO_OK && st != LUO_EUNSUP && st != LUO_ELOST)
        abort_case(seed, &x, &r, err.text);
    const bool dead = x.opts.planner.ndead > 0;
    if ((st == LUO_ELOST) != (r.moves.nlost > 0))
        abort_case(seed, &x, &r, "lost without LUO_ELOST");
    if (st == LUO_ELOST && !dead) abort_case(seed, &x, &r, "lost though all devices live");
    if (!same_again(&x, &r, seed)) abort_case(seed, &x, &r, "another answer the second time");
    if (r.kind == LUO_RESOLVE_BSR && !as_planned_alone(arena, &x, &r))
        abort_case(seed, &x, &r, "another plan than that of bsr alone");
    count(st == LUO_EUNSUP ? luo_unsupported_name(r.reason) : r.text);
    if (st == LUO_ELOST) count("LUO_ELOST");
    met_sender[x.opts.planner.sender] += strstr(r.text, "bsr") != NULL;
    if (st == LUO_EUNSUP) {
        const bool partial = luo_ann_has_partial(x.src) || luo_ann_has_partial(x.dst);
        if (!partial) abort_case(seed, &x, &r, "refused without Partial");
        if (x.opts.reduce_then_move && !dead && !luo_ann_has_partial(x.dst))
            abort_case(seed, &x, &r, "refused in spite of reduce_then_move");
        return;
    }
    const char *why = luo_oracle_check(&oracle, arena, &rng, &x, &r);
    if (why[0]) abort_case(seed, &x, &r, why);
    planted(arena, &rng, &x, &r, seed);
}

START_TEST(resolve)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    const size_t mark = luo_arena_mark(arena);
    const bool whole = luo_prop_env("LUO_CASES", CASES) >= CASES;
    LUO_PROP_FOR(seed, CASES)
    {
        one_case(arena, seed);
        luo_arena_reset(arena, mark);
    }
    luo_arena_free(arena);
    printf("%-22s %lld\n", "planted faults noticed", (long long)noticed);
    for (int i = 0; i < LUO_ROWS(words); i++) {
        printf("%-22s %lld\n", words[i], (long long)met[i]);
        ck_assert_msg(!whole || met[i] > 0, "no case is `%s`", words[i]);
    }
    for (int i = 0; i < LUO_ROWS(members); i++) {
        printf("bottom %-15s %lld\n", members[i], (long long)met_member[i]);
        ck_assert_msg(!whole || met_member[i] > 0, "no bottom case is `%s`", members[i]);
    }
    for (int i = 0; i <= LUO_SENDER_EXACT; i++) {
        printf("bsr by %-15s %lld\n", luo_sender_name((luo_sender)i), (long long)met_sender[i]);
        ck_assert_msg(!whole || met_sender[i] > 0, "no bsr by %s", luo_sender_name((luo_sender)i));
    }
}
END_TEST
LUO_MAIN("prop.resolve", resolve, 1)
