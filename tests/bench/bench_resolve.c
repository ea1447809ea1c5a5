/* bench_resolve.c: one luo_resolve of 128 members on 1,024 devices, per kind; the
 * compiler of programs asks for thousands of them. Prints `resolve_KIND_us VALUE us` and the memory
 * that an answer keeps; and `oracle_10000_s VALUE s`, cases made, resolved and checked
 * (docs/speed.md: under 30 s). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/hspmd/resolve.h"
#include "tests/bench/bench.h"
#include "tests/prop/oracle.h"

enum { MEMBERS = 128, TP = 8, REPEAT = 50 };

/* One side: member u on its own TP devices, listed from `first` + u * stride on. */
static const luo_ann *side(luo_arena *arena, const char *h, const char *entries, int first)
{
    luo_str s = {0};
    const luo_ann *a = NULL;
    luo_str_add(&s, h);
    for (int u = 0; u < MEMBERS; u++) {
        const int lo = first + u * TP;
        luo_str_addf(&s, "%s[%d-%d]{%s}", u ? " | " : " ", lo, lo + TP - 1, entries);
    }
    const luo_status st = luo_ann_parse(arena, luo_str_get(&s), &a, NULL);
    assert(st == LUO_OK);
    (void)st;
    luo_str_free(&s);
    return a;
}

static const struct {
    const char *name, *head, *h_from, *from, *h_to, *to;
    int move; /* first device of the target */
} rows[] = {
    {"identity", "identity", "h=0", "-1:8", "h=0", "-1:8", 0},
    {"allreduce", "bottom allreduce", "h=0", "-2:8", "h=0", "-1:8", 0},
    {"reducescatter", "bottom reducescatter", "h=0", "-2:8", "h=0", "0:8", 0},
    {"allgather", "bottom allgather", "h=0", "0:8", "h=0", "-1:8", 0},
    {"sendrecv", "bottom sendrecv", "h=0", "0:8", "h=0", "0:8", MEMBERS *TP},
    {"bsr", "bottom bsr", "h=0", "0:8", "h=0", "1:8", 0},
    {"split_ar", "split_ar", "h=-2", "0:8", "h=-1", "0:8", 0},
    {"split_ar_pre", "split_ar pre", "h=-2", "-2:8", "h=-1", "-1:8", 0},
    {"split_rs", "split_rs", "h=-2", "0:8", "h=0i", "0:8", 0},
    {"split_ag", "split_ag", "h=0i", "0:8", "h=-1", "0:8", 0},
    {"split_ag_post", "split_ag post", "h=0i", "0:8", "h=-1", "-1:8", 0},
};

static void one(int i)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    const luo_shape shape = {2, {8192, 8192}, NULL};
    const luo_ann *from = side(arena, rows[i].h_from, rows[i].from, 0);
    const luo_ann *to = side(arena, rows[i].h_to, rows[i].to, rows[i].move);
    const size_t mark = luo_arena_mark(arena);
    double took[REPEAT];
    for (int k = 0; k < REPEAT; k++) {
        luo_resolution r;
        const luo_resolve_opts opts = {0};
        luo_arena_reset(arena, mark);
        const double start = luo_bench_now();
        const luo_status st = luo_resolve(arena, from, to, &shape, &opts, &r, NULL);
        took[k] = luo_bench_now() - start;
        if (st != LUO_OK || strncmp(r.text, rows[i].head, strlen(rows[i].head)) != 0)
            luo_bench_fail("%s: resolved as %s", rows[i].name, r.text);
    }
    printf("resolve_%s_us %.1f us\n", rows[i].name, 1e6 * luo_bench_median(took, REPEAT));
    printf("resolve_%s_kept %.1f KiB\n", rows[i].name,
           (double)(luo_arena_mark(arena) - mark) / 1024);
    luo_arena_free(arena);
}

static void oracle_cases(void)
{
    static luo_oracle oracle;
    luo_arena *arena = luo_arena_new(1 << 16);
    const size_t mark = luo_arena_mark(arena);
    const double start = luo_bench_now();
    for (uint64_t seed = 1; seed <= 10000; seed++) {
        luo_rng rng = luo_rng_seed(seed);
        luo_reshard x = {0};
        luo_resolution r = {0};
        luo_gen_reshard(arena, &rng, &x);
        const luo_status st = luo_resolve(arena, x.src, x.dst, &x.shape, &x.opts, &r, NULL);
        if (st != LUO_EUNSUP && luo_oracle_check(&oracle, arena, &rng, &x, &r)[0])
            luo_bench_fail("seed %llu: %s", (unsigned long long)seed, oracle.why);
        luo_arena_reset(arena, mark);
    }
    printf("oracle_10000_s %.3f s\n", luo_bench_now() - start);
    luo_arena_free(arena);
}

int main(void)
{
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) one(i);
    oracle_cases();
    return 0;
}
