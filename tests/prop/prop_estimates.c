/* prop_estimates.c: estimates put calls in order and do nothing else (docs/architecture/tests.md,
 * test 5). Profiles off by factors of 0.1 to 10 give programs that pass the proof against
 * deadlocks, with as many calls; health and base slowdowns give the very same program. */
#include <math.h>

#include "core/io/read/read.h"
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

typedef struct tally {
    plan_tally plans;
    int cases, changed;
} tally;

static double off(luo_rng *r)
{
    return pow(10, (double)luo_rng_pick(r, 201) / 100 - 1);
}

static luo_profile scaled(const luo_profile *p, luo_rng *r)
{
    luo_profile s = *p;
    for (size_t i = 0; i < sizeof s.peak_flops / sizeof *s.peak_flops; i++)
        s.peak_flops[i] *= off(r);
    s.memory_bytes_per_s *= off(r);
    s.launch_s *= off(r);
    s.net_half_bytes *= off(r);
    s.net_ratio = fmin(1, s.net_ratio * off(r));
    return s;
}

static int64_t calls(const luo_programs *set)
{
    int64_t n = 0;
    for (int32_t d = 0; d < set->n; d++) {
        const luo_role *r = &set->roles[set->at[d].role];
        for (int32_t i = 0; i < r->ninstr; i++) n += r->instr[i].kind == LUO_INSTR_COLLECTIVE;
    }
    return n;
}

static const luo_programs *compiled(luo_arena *a, const luo_plan *p, const luo_model *m,
                                    const luo_cluster *c, uint64_t seed)
{
    const luo_compile_opts opts = {.check = true};
    luo_programs *set = NULL;
    luo_err err = {0};
    if (luo_plan_compile(a, p, m, c, &opts, &set, &err) == LUO_OK) return set;
    printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
    return NULL;
}

static bool one_plan(uint64_t seed, const luo_cluster *cluster, tally *t)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = plan_random(a, &r, &t->plans);
    const luo_model m = luo_test_llama(p->layers, 64, 96, 8, 120);
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, 0.02, 1 + (int32_t)luo_rng_pick(&r, 4)};
    const luo_programs *as_is = compiled(a, p, &m, cluster, seed);
    luo_cluster other = *cluster;
    luo_node_group group = cluster->groups[0];
    const luo_profile profile = scaled(group.profile, &r);
    luo_health slow = {.target = "device:1", .slowdown = 5};
    other.groups = &group;
    other.health = &slow;
    other.nhealth = 1;
    group.base_slowdown = 3;
    const luo_programs *ill = compiled(a, p, &m, &other, seed);
    group.profile = &profile;
    const luo_programs *wrong = compiled(a, p, &m, &other, seed); /* the proof is part of this */
    const bool good = as_is && ill && wrong && ill->hash == as_is->hash &&
                      calls(wrong) == calls(as_is);
    if (as_is && ill && wrong && !good)
        printf("seed %llu: %s\n", (unsigned long long)seed,
               ill->hash == as_is->hash ? "other calls" : "health changes the program");
    t->changed += wrong && as_is && wrong->hash != as_is->hash;
    t->cases++;
    luo_arena_free(a);
    return good;
}

int main(void)
{
    tally t = {0};
    int failed = 0;
    luo_arena *a = luo_arena_new(1 << 16);
    luo_cluster *cluster = NULL;
    luo_diags diags;
    luo_diags_init(&diags, a);
    if (luo_read_cluster(a, "scenarios/clusters/a100-64.yaml", &cluster, &diags) != LUO_OK) {
        printf("run from the root of the repository\n0%%: Checks: 1, Failures: 1, Errors: 0\n");
        return 1;
    }
    LUO_PROP_FOR(seed, 200)
    {
        failed += !one_plan(seed, cluster, &t);
    }
    printf("%d plans, %d with another program by wrong estimates\n", t.cases, t.changed);
    if (t.cases >= 100 && t.changed < 5) {
        printf("estimates hardly ever matter\n");
        failed++;
    }
    printf("%d%%: Checks: 1, Failures: %d, Errors: 0\n", failed ? 0 : 100, failed > 0);
    luo_arena_free(a);
    return failed ? 1 : 0;
}
