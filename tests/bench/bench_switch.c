/* bench_switch.c: B-X of docs/speed.md: the fused switch plan of a 70B-like model on 1,024
 * devices, DP16 PP8 TP8 to DP32 PP8 TP4. The golden volumes are checked; prints
 * `switch_bx_s VALUE s`, the median of 5, and `switch_bx_unsaid_s`, where `exact` is tried too (the
 * count of luo_switch_opts.planner_unsaid is 8.3e7 here). */
#include <stdio.h>
#include <string.h>

#include "core/hspmd/bsr/switch.h"
#include "tests/bench/bench.h"

enum { LAYERS = 80, STAGES = 8, DEVICES = 1024, REPEAT = 5, TENSORS = 4 * LAYERS + 2 };
enum { HIDDEN = 8192, FFN = 28672, VOCAB = 32000 };

/* Weight cut on dim 0 by TP in each of the DP pipelines; id = (pipeline * PP + stage) * TP + t. */
static const luo_ann *weight(luo_arena *arena, int dp, int tp, int stage)
{
    luo_str s = {0};
    const luo_ann *a = NULL;
    luo_str_add(&s, "h=-1");
    for (int p = 0; p < dp; p++) {
        const int lo = (p * STAGES + stage) * tp;
        luo_str_addf(&s, "%s[%d-%d]{0:%d}", p ? " | " : " ", lo, lo + tp - 1, tp);
    }
    if (luo_ann_parse(arena, luo_str_get(&s), &a, NULL) != LUO_OK)
        luo_bench_fail("`%s` is no annotation", luo_str_get(&s));
    luo_str_free(&s);
    return a;
}

static void tensors(luo_arena *arena, luo_switch_tensor *t)
{
    static const int64_t rows[] = {3 * HIDDEN, HIDDEN, 2 * FFN, FFN};
    static const char *const names[] = {"qkv", "o", "gate_up", "down"};
    const luo_ann *from[STAGES], *to[STAGES];
    for (int s = 0; s < STAGES; s++) {
        from[s] = weight(arena, 16, 8, s);
        to[s] = weight(arena, 32, 4, s);
    }
    for (int i = 0; i < TENSORS; i++) {
        const int layer = (i - 1) / 4, k = (i - 1) % 4, s = layer / (LAYERS / STAGES);
        const bool block = i > 0 && i < TENSORS - 1;
        t[i] = (luo_switch_tensor){.name = block ? names[k] : i ? "lm_head" : "wte",
                                   .from = from[block ? s : i ? STAGES - 1 : 0],
                                   .to = to[block ? s : i ? STAGES - 1 : 0],
                                   .shape = {2, {block ? rows[k] : VOCAB, HIDDEN}, NULL},
                                   .elem_bytes = 1};
    }
}

static void want(const char *what, int64_t got, int64_t golden)
{
    if (got != golden)
        luo_bench_fail("%s is %lld; %lld is golden", what, (long long)got, (long long)golden);
}

static int64_t largest_sender(const luo_switch *sw, int32_t link_class)
{
    int64_t most = 0, sent = 0;
    for (int32_t i = 0; i < sw->npair; i++) { /* pairs are sorted by source */
        if (i && sw->pair[i].src != sw->pair[i - 1].src) sent = 0;
        if (sw->pair[i].link_class == link_class) sent += sw->pair[i].bytes;
        if (sent > most) most = sent;
    }
    return most;
}

static void golden(const luo_switch *sw)
{
    const int64_t *b = sw->class_bytes;
    want("total", b[1] + b[2] + b[3], INT64_C(2467886530560));
    want("class 1", b[1], INT64_C(279802019840));
    want("class 2", b[2], INT64_C(2188084510720));
    want("class 3", b[3], 0);
    want("local", sw->local_bytes, INT64_C(39971717120));
    want("sends", sw->nsend, 81120);
    want("pairs", sw->npair, 2016);
    want("largest class-2 sender", largest_sender(sw, 2), INT64_C(2432696320));
}

int main(void)
{
    static const luo_node_racks where = {8, 64};
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_switch_tensor t[TENSORS];
    luo_switch_opts opts = {
        .planner = {.link_class = luo_node_racks_link_class, .link_ctx = &where}};
    int64_t bound[LUO_LINK_CLASSES];
    double took[REPEAT];
    tensors(arena, t);
    const size_t mark = luo_arena_mark(arena);
    for (int k = 0; k < REPEAT; k++) {
        luo_switch sw;
        luo_arena_reset(arena, mark);
        const double start = luo_bench_now();
        if (luo_switch_plan(arena, t, TENSORS, &opts, &sw, NULL) != LUO_OK)
            luo_bench_fail("no plan");
        took[k] = luo_bench_now() - start;
        golden(&sw);
    }
    printf("switch_bx_s %.4f s\n", luo_bench_median(took, REPEAT));
    printf("switch_bx_memory %.1f MiB\n", (double)(luo_arena_mark(arena) - mark) / (1 << 20));
    luo_arena_reset(arena, mark);
    luo_switch sw;
    opts.planner_unsaid = true;
    const double begin = luo_bench_now();
    if (luo_switch_plan(arena, t, TENSORS, &opts, &sw, NULL) != LUO_OK) luo_bench_fail("no plan");
    printf("switch_bx_unsaid_s %.4f s\n", luo_bench_now() - begin);
    luo_arena_reset(arena, mark);
    const double start = luo_bench_now();
    if (luo_switch_bound(arena, t, TENSORS, &opts, bound, NULL) != LUO_OK)
        luo_bench_fail("no bound");
    printf("switch_bx_bound_s %.4f s\n", luo_bench_now() - start);
    luo_arena_free(arena);
    return 0;
}
