/* prop_raw.c: raw annotations of a plan (docs/annotations.md#raw-annotations) are checked, never
 * trusted: a plan with random ones either compiles to programs that finish or is refused with a
 * sentence. */
#include "tests/plan_raw.h"
#include "tests/prop/prop.h"

typedef struct tally {
    int accepted, refused, moved; /* moved: accepted, and the program is another one */
} tally;

static bool known(luo_status st)
{
    return st == LUO_EINPUT || st == LUO_EDEDUCE || st == LUO_EUNSUP || st == LUO_ESHAPE ||
           st == LUO_E2BIG || st == LUO_EPARSE;
}

static bool one_case(uint64_t seed, tally *t)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = plan_raw_bare(a, &r);
    const luo_model m = luo_test_llama(p->layers, 16, 32, 4, 40);
    const luo_compile_opts opts = {.check = true};
    luo_programs *plain, *set;
    luo_err err = {0};
    bool good = luo_plan_compile(a, p, &m, NULL, &opts, &plain, &err) == LUO_OK;
    plan_raw_annotate(a, &r, p, &m);
    err = (luo_err){0};
    const luo_status st = luo_plan_compile(a, p, &m, NULL, &opts, &set, &err);
    if (st == LUO_OK) {
        luo_memory mem;
        t->accepted++;
        t->moved += set->hash != plain->hash;
        good &= luo_program_memory(a, set, set->at[0].device, &mem, &err) == LUO_OK;
    } else {
        t->refused++;
        good &= known(st) && err.text[0];
    }
    if (!good)
        printf("seed %llu: %s %s (%s: %s)\n", (unsigned long long)seed, luo_status_name(st),
               err.text, p->annotations[0].tensor, p->annotations[0].annotation);
    luo_arena_free(a);
    return good;
}

int main(void)
{
    tally t = {0};
    int failed = 0, cases = 0;
    LUO_PROP_FOR(seed, 800)
    {
        failed += !one_case(seed, &t);
        cases++;
    }
    printf("%d cases: %d accepted, %d of them with other programs, %d refused\n", cases, t.accepted,
           t.moved, t.refused);
    if (cases >= 500 && (t.accepted < 50 || t.moved < 10 || t.refused < 50)) {
        printf("the generator misses interesting cases\n");
        failed++;
    }
    printf("%d%%: Checks: 1, Failures: %d, Errors: 0\n", failed ? 0 : 100, failed > 0);
    return failed ? 1 : 0;
}
