/* check_switch.c: seven cases and the volumes of published switches. */
#include <malloc.h>

#include "core/hspmd/bsr/switch.h"
#include "tests/check_main.h"
#include "tests/layouts.h"

static const luo_node_racks node4 = {4, 0};

static luo_switch_tensor tensor(luo_arena *a, const char *name, const char *from, const char *to,
                                int64_t cells, int64_t bytes)
{
    luo_switch_tensor t = {.name = name, .shape = {1, {cells}, NULL}, .elem_bytes = bytes};
    ck_assert_int_eq(luo_ann_parse(a, from, &t.from, NULL), LUO_OK);
    ck_assert_int_eq(luo_ann_parse(a, to, &t.to, NULL), LUO_OK);
    return t;
}

static luo_switch_opts opts4(void)
{
    return (luo_switch_opts){
        .planner = {.link_class = luo_node_racks_link_class, .link_ctx = &node4}};
}

/* "1->2 [4:8)" of every send, ";" between them; copies as "copy D R". */
static void text_of(const luo_switch *sw, luo_str *s)
{
    for (int64_t i = 0; i < sw->nmove; i++) {
        const luo_switch_move *m = &sw->move[i];
        if (i) luo_str_add(s, "; ");
        if (m->kind == LUO_MOVE_SEND) luo_str_addf(s, "%d->%d ", m->src, m->dst);
        else luo_str_addf(s, "%s %d ", m->kind == LUO_MOVE_COPY ? "copy" : "load", m->dst);
        luo_region_print(s, &m->region);
    }
}

static int64_t sent_by(const luo_switch *sw, int32_t dev, int32_t link_class)
{
    int64_t n = 0;
    for (int32_t i = 0; i < sw->npair; i++)
        if (sw->pair[i].src == dev && sw->pair[i].link_class == link_class)
            n += sw->pair[i].bytes;
    return n;
}

START_TEST(f1_f2)
{
    mallopt(M_PERTURB, 0x80); /* new memory is 0x7f: no index, were it read before it is set */
    luo_arena *a = luo_arena_new(0);
    const char *two = "h=-1 [0]{} | [1]{}";
    luo_switch_tensor t[] = {tensor(a, "a", two, "[4]{}", 4, 1), tensor(a, "b", two, "[4]{}", 4, 1),
                             tensor(a, "c", two, "[4]{}", 8, 1)};
    luo_switch_opts o = opts4();
    luo_switch sw;
    int64_t bound[LUO_LINK_CLASSES];
    ck_assert_int_eq(luo_switch_plan(a, t, 3, &o, &sw, NULL), LUO_OK);
    ck_assert_int_eq(sw.nmove, 3);
    ck_assert_int_eq(sw.move[0].src, 0);
    ck_assert_int_eq(sw.move[1].src, 1);
    ck_assert_int_eq(sw.move[2].src, 0);
    ck_assert_int_eq(sent_by(&sw, 0, 3), 12);
    ck_assert_int_eq(sent_by(&sw, 1, 3), 4);
    ck_assert_int_eq(luo_switch_bound(a, t, 3, &o, bound, NULL), LUO_OK);
    ck_assert_int_eq(bound[3], 8);
    o.reset = LUO_RESET_TENSOR;
    ck_assert_int_eq(luo_switch_plan(a, t, 3, &o, &sw, NULL), LUO_OK);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(sw.move[i].src, 0);
    t[1] = tensor(a, "b", "[0]{}", "[4]{}", 8, 1);
    o.reset = LUO_RESET_FUSED;
    ck_assert_int_eq(luo_switch_plan(a, t, 2, &o, &sw, NULL), LUO_OK);
    ck_assert_int_eq(sent_by(&sw, 0, 3), 12);
    ck_assert_int_eq(luo_switch_bound(a, t, 2, &o, bound, NULL), LUO_OK);
    ck_assert_int_eq(bound[3], 8);
    o.planner.sender = LUO_SENDER_EXACT;
    ck_assert_int_eq(luo_switch_plan(a, t, 2, &o, &sw, NULL), LUO_OK);
    ck_assert_int_eq(sent_by(&sw, 0, 3), 8);
    luo_arena_free(a);
}
END_TEST

static const struct {
    const char *id, *from, *to;
    int64_t cells, bytes;
    int32_t dead; /* -1: none */
    const char *moves;
    int nlost;
    const char *lost;
    int64_t rebinds, rebound_bytes; /* devices whose region stays: no copy */
} f3[] = {
    {"F3", "h=-1 [0,1]{0:2} | [2,3]{0:2}", "h=-1 [0,1]{0:2} | [2]{}", 8, 1, -1,
     "copy 2 [0:4); 1->2 [4:8)", 0, "", 2, 8},
    {"F4", "h=-1 [0-3]{0:4} | [4-7]{0:4}", "h=-1 [0-3]{0:4} | [6]{}", 8, 1, -1,
     "4->6 [0:2); 5->6 [2:4); copy 6 [4:6); 7->6 [6:8)", 0, "", 4, 8},
    {"F4 dead", "h=-1 [0-3]{0:4} | [4-7]{0:4}", "h=-1 [0-3]{0:4} | [6]{}", 8, 1, 7,
     "4->6 [0:2); 5->6 [2:4); copy 6 [4:6); 3->6 [6:8)", 0, "", 4, 8},
    {"F5", "[0-3]{0:4}", "[0,1]{0:2}", 8, 4, 2, "copy 0 [0:2); 1->0 [2:4); 3->1 [6:8)", 1,
     "1 [4:6)", 0, 0},
    {"F7", "h=0i [0,1]{0:2} | [2]{}", "h=0i [0]{} | [2]{}", 8, 4, 1,
     "copy 0 [0:2); 2->0 [2:4); copy 2 [6:8)", 1, "2 [4:6)", 0, 0},
};

START_TEST(f3_to_f7)
{
    luo_arena *a = luo_arena_new(0);
    luo_switch_tensor t = tensor(a, "t", f3[_i].from, f3[_i].to, f3[_i].cells, f3[_i].bytes);
    luo_switch_opts o = opts4();
    luo_switch sw;
    luo_str s = {0}, lost = {0};
    luo_err err = {0};
    o.planner.dead = &f3[_i].dead;
    o.planner.ndead = f3[_i].dead >= 0;
    ck_assert_int_eq(luo_switch_plan(a, &t, 1, &o, &sw, &err), f3[_i].nlost ? LUO_ELOST : LUO_OK);
    text_of(&sw, &s);
    ck_assert_msg(strcmp(luo_str_get(&s), f3[_i].moves) == 0, "%s: got %s", f3[_i].id,
                  luo_str_get(&s));
    ck_assert_int_eq(sw.nlost, f3[_i].nlost);
    ck_assert_int_eq(sw.rebinds, f3[_i].rebinds);
    ck_assert_int_eq(sw.rebound_bytes, f3[_i].rebound_bytes);
    if (sw.nlost) {
        luo_str_addf(&lost, "%d ", sw.lost[0].dev);
        luo_region_print(&lost, &sw.lost[0].region);
        o.load_lost = true;
        ck_assert_int_eq(luo_switch_plan(a, &t, 1, &o, &sw, NULL), LUO_OK);
        ck_assert_int_eq(sw.move[sw.nmove - 1].kind, LUO_MOVE_LOAD);
    }
    ck_assert_str_eq(luo_str_get(&lost), f3[_i].lost);
    luo_str_free(&s);
    luo_str_free(&lost);
    luo_arena_free(a);
}
END_TEST

START_TEST(f6_cost)
{
    luo_arena *a = luo_arena_new(0);
    const char *from = "h=-1 [0]{} | [4]{}";
    const luo_switch_tensor t[] = {tensor(a, "a", from, "[1]{}", 100, 1),
                                   tensor(a, "b", from, "[2]{}", 900, 1),
                                   tensor(a, "c", from, "[3]{}", 100, 1)};
    luo_switch_opts o = opts4();
    luo_switch sw;
    o.planner.sender = LUO_SENDER_COST;
    o.planner.bytes_per_s[1] = 100;
    o.planner.bytes_per_s[3] = 10;
    ck_assert_int_eq(luo_switch_plan(a, t, 3, &o, &sw, NULL), LUO_OK);
    ck_assert_int_eq(sw.move[0].src, 0);
    ck_assert_int_eq(sw.move[1].src, 0);
    ck_assert_int_eq(sw.move[2].src, 4);
    luo_arena_free(a);
}
END_TEST

/* -1: the table has no figure. */
static const struct {
    const char *id, *from, *to;
    int32_t dead_lo, dead_hi;
    luo_sender sender;
    luo_reset reset;
    int64_t total, c1, c3, largest, sends, local;
    int32_t pairs;
} volumes[] = {
    {"C1->C2 minrank", LUO_C1, LUO_C2, 31, 31, LUO_SENDER_MINRANK, LUO_RESET_FUSED, 8178253824, 0,
     8178253824, 2057289728, 243, 56840536064, 18},
    {"C1->C2 tensor", LUO_C1, LUO_C2, 31, 31, LUO_SENDER_GREEDY, LUO_RESET_TENSOR, 8178253824,
     5050892288, 3127361536, 2057289728, 243, 56840536064, 18},
    {"C1->C2 fused", LUO_C1, LUO_C2, 31, 31, LUO_SENDER_GREEDY, LUO_RESET_FUSED, 8178253824,
     5050892288, 3127361536, 2057289728, 243, 56840536064, 22},
    {"C2->C3 minrank", LUO_C2, LUO_C3, 24, 31, LUO_SENDER_MINRANK, LUO_RESET_FUSED, 48764092416,
     10904338432, 37859753984, 3343974400, 1452, 16254697472, 36},
    {"C2->C3 rr", LUO_C2, LUO_C3, 24, 31, LUO_SENDER_RR, LUO_RESET_FUSED, 48764092416, 11974410240,
     36789682176, 3076456448, 1452, 16254697472, 44},
    {"C2->C3 tensor", LUO_C2, LUO_C3, 24, 31, LUO_SENDER_GREEDY, LUO_RESET_TENSOR, 48764092416,
     17324769280, 31439323136, 3076456448, 1452, 16254697472, 36},
    {"C2->C3 bucket", LUO_C2, LUO_C3, 24, 31, LUO_SENDER_GREEDY, LUO_RESET_BUCKET, 48764092416,
     17324769280, 31439323136, 2935029760, 1452, 16254697472, 48},
    {"C2->C3 fused", LUO_C2, LUO_C3, 24, 31, LUO_SENDER_GREEDY, LUO_RESET_FUSED, 48764092416,
     17324769280, 31439323136, 3076456448, 1452, 16254697472, 44},
    {"C4->C5 minrank", LUO_C4, LUO_C5, 24, 31, LUO_SENDER_MINRANK, LUO_RESET_FUSED, 18929876992,
     2140143616, 16789733376, 1471348736, 564, 46088912896, 52},
    {"C4->C5 fused", LUO_C4, LUO_C5, 24, 31, LUO_SENDER_GREEDY, LUO_RESET_FUSED, 18929876992,
     5885394944, 13044482048, 1471348736, 564, 46088912896, 60},
};

static luo_switch_opts dead_opts(int32_t lo, int32_t hi, int32_t *dead)
{
    luo_switch_opts o = {.planner = {.ndead = hi - lo + 1, .dead = dead}};
    for (int32_t d = lo; d <= hi; d++) dead[d - lo] = d;
    return o;
}

static int64_t largest(const luo_switch *sw, int32_t link_class)
{
    int64_t most = 0;
    for (int32_t d = 0; d < 48; d++)
        if (sent_by(sw, d, link_class) > most) most = sent_by(sw, d, link_class);
    return most;
}

START_TEST(volume)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_switch_tensor t[4 * LUO_LAYERS + 2];
    int32_t dead[8];
    luo_switch sw;
    const int n = luo_layout_tensors(a, volumes[_i].from, volumes[_i].to, t);
    luo_switch_opts o = dead_opts(volumes[_i].dead_lo, volumes[_i].dead_hi, dead);
    o.planner.sender = volumes[_i].sender;
    o.reset = volumes[_i].reset;
    ck_assert_int_eq(luo_switch_plan(a, t, n, &o, &sw, NULL), LUO_OK);
    ck_assert_int_eq(sw.class_bytes[1] + sw.class_bytes[2] + sw.class_bytes[3], volumes[_i].total);
    ck_assert_int_eq(sw.class_bytes[1], volumes[_i].c1);
    ck_assert_int_eq(sw.class_bytes[3], volumes[_i].c3);
    ck_assert_int_eq(largest(&sw, 3), volumes[_i].largest);
    ck_assert_int_eq(sw.nsend, volumes[_i].sends);
    ck_assert_int_eq(sw.local_bytes, volumes[_i].local);
    ck_assert_int_eq(sw.npair, volumes[_i].pairs);
    luo_arena_free(a);
}
END_TEST

/* Device 15 holds the only live copy of 31's shard; the next sender is far behind. */
START_TEST(c1_c2_senders)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_switch_tensor t[4 * LUO_LAYERS + 2];
    int32_t dead[8];
    luo_switch sw;
    int64_t next = 0;
    const int n = luo_layout_tensors(a, LUO_C1, LUO_C2, t);
    const luo_switch_opts o = dead_opts(31, 31, dead);
    ck_assert_int_eq(luo_switch_plan(a, t, n, &o, &sw, NULL), LUO_OK);
    ck_assert_int_eq(sent_by(&sw, 15, 3), 2057289728);
    for (int32_t d = 0; d < 32; d++)
        if (d != 15 && sent_by(&sw, d, 3) > next) next = sent_by(&sw, d, 3);
    ck_assert_int_eq(next, 141426688);
    luo_arena_free(a);
}
END_TEST

START_TEST(exact_bound)
{
    static const struct {
        const char *from, *to;
        int64_t bound;
    } rows[] = {{LUO_C2, LUO_C3, 2808938496}, {LUO_C4, LUO_C5, 1471348736}};
    luo_arena *a = luo_arena_new(1 << 20);
    luo_switch_tensor t[4 * LUO_LAYERS + 2];
    int32_t dead[8];
    int64_t bound[LUO_LINK_CLASSES];
    luo_switch sw;
    const int n = luo_layout_tensors(a, rows[_i].from, rows[_i].to, t);
    luo_switch_opts o = dead_opts(24, 31, dead);
    ck_assert_int_eq(luo_switch_bound(a, t, n, &o, bound, NULL), LUO_OK);
    ck_assert_int_eq(bound[3], rows[_i].bound);
    o.planner.sender = LUO_SENDER_EXACT;
    ck_assert_int_eq(luo_switch_plan(a, t, n, &o, &sw, NULL), LUO_OK);
    /* Cells are cut at whole rows: at most one row of 6,656 elements a cut cell above the bound. */
    ck_assert_int_le(largest(&sw, 3), bound[3] + 6656 * 64);
    luo_arena_free(a);
}
END_TEST

/* Tensor i lies on i and i + 1: one each is possible, but only along a path through all of them. */
START_TEST(exact_chain)
{
    enum { N = 1000 };
    luo_arena *a = luo_arena_new(1 << 16);
    luo_switch_tensor *t = LUO_NEW_N(a, luo_switch_tensor, N + 1);
    luo_switch_opts o = {.planner.sender = LUO_SENDER_EXACT};
    int64_t bound[LUO_LINK_CLASSES];
    luo_switch sw;
    char from[64];
    for (int i = 0; i < N; i++) {
        snprintf(from, sizeof from, "h=-1 [%d]{} | [%d]{}", i, i + 1);
        t[i] = tensor(a, "t", from, "[5000]{}", 6, 1);
    }
    t[N] = tensor(a, "last", "[0]{}", "[5000]{}", 6, 1); /* 0 is taken: all others move up */
    ck_assert_int_eq(luo_switch_bound(a, t, N + 1, &o, bound, NULL), LUO_OK);
    ck_assert_int_eq(bound[3], 6);
    ck_assert_int_eq(luo_switch_plan(a, t, N + 1, &o, &sw, NULL), LUO_OK);
    for (int32_t i = 0; i < sw.npair; i++) ck_assert_int_eq(sw.pair[i].bytes, 6);
    ck_assert_int_eq(sw.npair, N + 1);
    luo_arena_free(a);
}
END_TEST

START_TEST(refused)
{
    luo_arena *a = luo_arena_new(0);
    luo_switch_tensor t = tensor(a, "g", "[0,1]{-2:2}", "[0,1]{-1:2}", 4, 1);
    luo_switch_opts o = opts4();
    luo_switch sw;
    luo_err err = {0};
    const int32_t dead = 1;
    ck_assert_int_eq(luo_switch_plan(a, &t, 1, &o, &sw, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "tensor 'g' is Partial; finish the gradient synchronisation first");
    t = tensor(a, "w", "[0]{}", "[1]{}", 4, 1);
    o.planner.dead = &dead;
    o.planner.ndead = 1;
    ck_assert_int_eq(luo_switch_plan(a, &t, 1, &o, &sw, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "switch: destination uses device 1, which is dead");
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("hspmd.switch", LUO_T(f1_f2), LUO_T_N(f3_to_f7, LUO_ROWS(f3)), LUO_T(f6_cost),
          LUO_T_N(volume, LUO_ROWS(volumes)), LUO_T(c1_c2_senders), LUO_T_N(exact_bound, 2),
          LUO_T(exact_chain), LUO_T(refused))
