/* malleus_check.h: what holds of every plan of the straggler planner. */
#ifndef LUO_TESTS_MALLEUS_CHECK_H
#define LUO_TESTS_MALLEUS_CHECK_H
#include "core/plan/malleus/malleus.h"
#include "tests/check_main.h"

enum { MALLEUS_DEVICES = 16384 };

/* Every layer once, every stage within its cap, every micro-batch once, every device once. */
static inline void check_plan(const luo_malleus_in *in, const luo_malleus_plan *p)
{
    static int8_t seen[MALLEUS_DEVICES];
    int64_t m = 0;
    memset(seen, 0, sizeof seen);
    for (int32_t i = 0; i < p->npipes; i++) {
        int64_t at = 0;
        for (int32_t j = 0; j < p->pipes[i].nstages; j++) {
            const luo_malleus_stage *s = &p->pipes[i].stages[j];
            ck_assert_int_eq(s->lo, at);
            ck_assert_int_gt(s->hi, s->lo);
            ck_assert_int_le(s->hi - s->lo, s->cap);
            ck_assert_double_eq(s->t, s->group->y * (double)(s->hi - s->lo));
            for (int32_t d = 0; d < s->group->size; d++) seen[s->group->devices[d]]++;
            at = s->hi;
        }
        ck_assert_int_eq(at, in->layers);
        m += p->pipes[i].micro_batches;
    }
    ck_assert_int_eq(m, in->micro_batches);
    for (int32_t k = 0; k < p->nstandby; k++) seen[p->standby[k]]++;
    for (int32_t d = 0; d < in->ndevices; d++) ck_assert_int_eq(seen[in->devices[d].device], 1);
    ck_assert_double_le(p->steady, p->event * (1 + 1e-9));
    ck_assert_double_le(p->event, p->filled * (1 + 1e-9));
}
#endif
