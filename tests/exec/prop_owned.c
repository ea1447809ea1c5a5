/* prop_owned.c: over all devices of random annotations every cell that anybody holds is
 * owned once, by its first holder; boxes and segments say the same. */
#include "exec/bind/owned.h"
#include "tests/check_main.h"
#include "tests/exec/cells.h"
#include "tests/prop/gen_reshard.h"
#include "tests/prop/prop.h"

static int64_t shared, cut, inner;

static void count_boxes(luo_arena *a, const luo_ann *ann, const luo_shape *s, int32_t device,
                        bool *mine)
{
    const luo_region *box;
    int32_t n;
    ck_assert_int_eq(luo_owned_boxes(a, ann, s, device, &box, &n, NULL), LUO_OK);
    for (int32_t k = 0; k < n; k++) {
        for (int32_t d = 0; d < s->rank; d++) ck_assert_int_eq(box[k].dim[d].n, 1);
        for (int64_t c = 0; c < cells_count(s); c++) {
            if (!cells_inside(&box[k], s, c)) continue;
            ck_assert_msg(!mine[c], "two boxes of a device share a cell");
            mine[c] = true;
        }
    }
    cut += n > 1;
}

/* Segments of the device's frame against the cells of its boxes. */
static void check_segments(luo_arena *a, const luo_ann *ann, const luo_shape *s,
                           const luo_holding *h, const bool *mine)
{
    const luo_frame f = {h->region, luo_region_volume(&h->region)};
    luo_copy_segments got;
    ck_assert_int_eq(luo_owned_segments(a, ann, s, h->dev, &f, &got, NULL), LUO_OK);
    bool *element = LUO_NEW_N(a, bool, f.volume);
    int64_t sum = 0;
    for (int32_t k = 0; k < got.n; k++)
        for (int64_t i = 0; i < got.at[k].n; i++, sum++) {
            ck_assert(got.at[k].at + i < f.volume && !element[got.at[k].at + i]);
            element[got.at[k].at + i] = true;
        }
    ck_assert_int_eq(sum, got.elements);
    for (int64_t c = 0, at = 0; c < cells_count(s); c++) {
        const bool here = cells_inside(&h->region, s, c);
        ck_assert_int_eq(here && element[at], mine[c]);
        at += here;
    }
}

static void one_case(luo_arena *a, uint64_t seed)
{
    luo_rng rng = luo_rng_seed(seed);
    luo_pool pool = luo_gen_pool(&rng);
    const luo_shape s = luo_gen_shape(&rng);
    luo_draft d = luo_gen_draft(a, &rng, &pool, s.rank, LUO_DUP);
    if (d.h == LUO_PARTIAL) d.h = LUO_DUP;
    const luo_ann *ann = luo_gen_seal(a, &d);
    const int64_t n = cells_count(&s);
    luo_holdings h;
    ck_assert_int_eq(luo_holdings_make(a, ann, &s, &h, NULL), LUO_OK);
    int32_t *owner = LUO_NEW_N(a, int32_t, n); /* holding + 1 */
    inner += ann->inner;
    for (int32_t k = 0; k < h.n; k++) {
        bool *mine = LUO_NEW_N(a, bool, n);
        count_boxes(a, ann, &s, h.at[k].dev, mine);
        check_segments(a, ann, &s, &h.at[k], mine);
        for (int64_t c = 0; c < n; c++) {
            const bool here = cells_inside(&h.at[k].region, &s, c);
            ck_assert_msg(mine[c] == (here && !owner[c]),
                          "LUO_SEED=%llu LUO_CASES=1: cell %d of device %d",
                          (unsigned long long)seed, (int)c, h.at[k].dev);
            shared += here && owner[c];
            if (mine[c]) owner[c] = k + 1;
        }
    }
    for (int64_t c = 0; c < n; c++) /* a dimension that shares leave to nobody may lose cells */
        for (int32_t k = 0; k < h.n; k++)
            ck_assert(owner[c] || !cells_inside(&h.at[k].region, &s, c));
}

enum { CASES = 2000 };

START_TEST(once)
{
    luo_arena *a = luo_arena_new(1 << 18);
    const size_t mark = luo_arena_mark(a);
    LUO_PROP_FOR(seed, CASES)
    {
        one_case(a, seed);
        luo_arena_reset(a, mark);
    }
    luo_arena_free(a);
    printf(
        "%lld cells with a second holder, %lld devices that own several boxes, %lld inner cuts\n",
        (long long)shared, (long long)cut, (long long)inner);
    if (luo_prop_env("LUO_CASES", CASES) >= CASES)
        ck_assert(shared > 1000 && cut > 100 && inner > 50);
}
END_TEST
LUO_MAIN("exec.owned", once, 1)
