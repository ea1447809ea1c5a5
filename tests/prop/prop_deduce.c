/* prop_deduce.c: random device grids labelled by letters; every device computes its part
 * of the einsum from what it holds, and the result must be what the deduced annotation says
 * (docs/architecture/tests.md). */
#include "core/graph/deduce.h"
#include "tests/check_main.h"
#include "tests/prop/gen_ann.h"
#include "tests/prop/prop.h"

enum { LETTERS = 4, OPERANDS = 3, MEMBERS = 3, DEVICES = 24, CELLS = 256, SIDE = 5 };

static const struct {
    const char *x[OPERANDS], *out;
} ops[] = {
    {{"ik", "kj"}, "ij"}, {{"bik", "bkj"}, "bij"}, {{"ij", "ij"}, "ij"}, {{"ij", "j"}, "ij"},
    {{"ij"}, "i"},        {{"ik", "jk"}, "ij"},    {{"mi", "mj"}, "ij"}, {{"ij", "j", "i"}, "ij"},
};

typedef struct problem {
    luo_arena *arena;
    luo_rng rng;
    uint64_t seed;
    int32_t op, nx, nl, u;
    char name[LETTERS];     /* letters of the op, in order of first appearance */
    int64_t side[LETTERS];
    luo_operand x[OPERANDS];
    luo_shape shape[OPERANDS], out_shape;
    const luo_ann *res;
    int64_t *value[OPERANDS], truth[CELLS];
} problem;

static int deduced, partial, inner, resorted, shares, refused, summed_members;

#define CASE(p) (unsigned long long)(p)->seed

static int32_t letter_at(const problem *p, char c)
{
    int32_t k = 0;
    while (p->name[k] != c) k++;
    return k;
}

static void add_letters(problem *p, const char *letters)
{
    for (; *letters; letters++) {
        bool known = false;
        for (int32_t k = 0; k < p->nl; k++) known = known || p->name[k] == *letters;
        if (!known) p->name[p->nl++] = *letters;
    }
}

/* One member: counts per letter and copies make a grid; operand x lists the devices in the order of
 * its own keys, so that lists differ between operands. */
typedef struct grid {
    int32_t count[LETTERS], copies, ndev, dev[DEVICES];
    uint32_t *share[LETTERS];
} grid;

static void make_grid(problem *p, grid *g, int32_t *next)
{
    g->ndev = g->copies = luo_gen_int(&p->rng, 1, 2);
    for (int32_t k = 0; k < p->nl; k++) {
        g->count[k] = luo_gen_int(&p->rng, 1, g->ndev > 6 ? 1 : 3);
        g->ndev *= g->count[k];
        const bool uneven = g->count[k] > 1 && luo_rng_u(&p->rng) < 0.3;
        g->share[k] = uneven ? luo_gen_shares(p->arena, &p->rng, g->count[k]) : NULL;
        shares += uneven;
    }
    for (int32_t i = 0; i < g->ndev; i++) g->dev[i] = (*next)++;
    luo_gen_shuffle(&p->rng, g->dev, g->ndev);
}

/* Coordinates of grid place i, last letter fastest; the copy number is the slowest. */
static void places(const problem *p, const grid *g, int32_t i, int32_t *c)
{
    for (int32_t k = p->nl; k-- > 0; i /= g->count[k]) c[k] = i % g->count[k];
}

static luo_grp operand_group(problem *p, const grid *g, const char *letters)
{
    int32_t order[LETTERS + 1], n = 0, size = 1, filled[DEVICES] = {0};
    const int32_t rank = (int32_t)strlen(letters);
    luo_ent *ent = LUO_NEW_N(p->arena, luo_ent, rank + 1);
    int32_t *dev = LUO_NEW_N(p->arena, int32_t, g->ndev);
    for (int32_t d = 0; d < rank; d++) size *= g->count[letter_at(p, letters[d])];
    const int32_t dup = g->ndev / size;
    for (int32_t d = 0; d <= rank; d++) order[d] = d;
    luo_gen_shuffle(&p->rng, order, rank + 1);
    for (int32_t e = 0; e <= rank; e++) {
        const int32_t d = order[e], l = d < rank ? letter_at(p, letters[d]) : -1;
        ent[n++] = l < 0 ? (luo_ent){LUO_DUP, dup, NULL}
                         : (luo_ent){d, g->count[l], g->share[l]};
    }
    for (int32_t i = 0; i < g->ndev; i++) {
        int32_t c[LETTERS], at = 0, block = 0;
        places(p, g, i, c);
        for (int32_t d = 0; d < rank; d++)
            block = block * g->count[letter_at(p, letters[d])] + c[letter_at(p, letters[d])];
        const int32_t copy = filled[block]++; /* duplicates in the order they come */
        for (int32_t e = 0; e < n; e++)
            at = at * ent[e].n +
                 (ent[e].key == LUO_DUP ? copy : c[letter_at(p, letters[ent[e].key])]);
        dev[at] = g->dev[i];
    }
    return (luo_grp){.ndev = g->ndev, .dev = dev, .nent = n, .ent = ent};
}

static void fill_values(problem *p, int32_t k)
{
    int64_t n = 1;
    for (int32_t d = 0; d < p->shape[k].rank; d++) n *= p->shape[k].dim[d];
    p->value[k] = LUO_NEW_N(p->arena, int64_t, n);
    for (int64_t c = 0; c < n; c++) p->value[k][c] = luo_gen_int(&p->rng, -1000, 999);
}

static luo_shape shape_of(const problem *p, const char *letters)
{
    luo_shape s = {.rank = (int32_t)strlen(letters)};
    for (int32_t d = 0; d < s.rank; d++) s.dim[d] = p->side[letter_at(p, letters[d])];
    return s;
}

static void make_operands(problem *p, const grid *g)
{
    const char top = luo_gen_int(&p->rng, 0, 3) ? p->name[luo_gen_int(&p->rng, 0, p->nl - 1)] : 0;
    const bool in = luo_rng_u(&p->rng) < 0.3;
    const uint32_t *hshare =
        !in && luo_rng_u(&p->rng) < 0.2 ? luo_gen_shares(p->arena, &p->rng, p->u) : NULL;
    static const char *const names[] = {"x", "y", "z"};
    for (int32_t k = 0; k < p->nx; k++) {
        const char *letters = ops[p->op].x[k], *has = top ? strchr(letters, top) : NULL;
        luo_ann a = {.u = p->u, .h = p->u > 1 ? LUO_DUP : LUO_H_NONE};
        luo_grp *grp = LUO_NEW_N(p->arena, luo_grp, p->u);
        for (int32_t u = 0; u < p->u; u++) grp[u] = operand_group(p, &g[u], letters);
        a.grp = grp;
        if (p->u > 1 && has) {
            a.h = (int32_t)(has - letters);
            a.inner = in;
            a.hshare = hshare;
        }
        p->x[k] = (luo_operand){luo_ann_canonical(p->arena, &a), letters, names[k], false};
        ck_assert_int_eq(luo_ann_check(p->x[k].ann, NULL), LUO_OK);
        p->shape[k] = shape_of(p, letters);
        fill_values(p, k);
    }
}

/* Swaps two devices of one operand: the deduction may refuse, but it must not be wrong. */
static void spoil(problem *p)
{
    const luo_operand *x = &p->x[luo_gen_int(&p->rng, 0, p->nx - 1)];
    const luo_grp *g = &x->ann->grp[luo_gen_int(&p->rng, 0, p->u - 1)];
    int32_t *dev = (int32_t *)g->dev;
    const int32_t i = luo_gen_int(&p->rng, 0, g->ndev - 1);
    const int32_t j = luo_gen_int(&p->rng, 0, g->ndev - 1);
    const int32_t t = dev[i];
    dev[i] = dev[j];
    dev[j] = t;
}

static int64_t flat(const problem *p, const luo_shape *s, const char *letters, const int64_t *at)
{
    int64_t cell = 0;
    for (int32_t d = 0; d < s->rank; d++) cell = cell * s->dim[d] + at[letter_at(p, letters[d])];
    return cell;
}

static int64_t product(const problem *p, const int64_t *at)
{
    int64_t v = 1;
    for (int32_t k = 0; k < p->nx; k++)
        v *= p->value[k][flat(p, &p->shape[k], p->x[k].letters, at)];
    return v;
}

/* Next index vector in the bit sets; false after the last one. */
static bool step(const problem *p, const uint32_t *set, int64_t *at)
{
    for (int32_t k = p->nl; k-- > 0;) {
        while (++at[k] < p->side[k])
            if (set[k] >> at[k] & 1) return true;
        for (at[k] = 0; !(set[k] >> at[k] & 1);) at[k]++;
    }
    return false;
}

/* Adds the products over the bit sets to out[flat cell of the result]. */
static void compute(const problem *p, const uint32_t *set, int64_t *out)
{
    int64_t at[LETTERS] = {0};
    for (int32_t k = 0; k < p->nl; k++) {
        if (!set[k]) return;
        while (!(set[k] >> at[k] & 1)) at[k]++;
    }
    do out[flat(p, &p->out_shape, ops[p->op].out, at)] += product(p, at);
    while (step(p, set, at));
}

static uint32_t bits_of(const luo_region *r, int32_t d)
{
    uint32_t b = 0;
    for (int32_t k = 0; k < r->dim[d].n; k++)
        for (int64_t x = r->dim[d].at[k].lo; x < r->dim[d].at[k].hi; x++) b |= 1u << x;
    return b;
}

static const luo_holding *holding_of(const luo_holdings *h, int32_t u, int32_t dev)
{
    for (int32_t k = 0; k < h->n; k++)
        if (h->at[k].u == u && h->at[k].dev == dev) return &h->at[k];
    return NULL;
}

/* Index sets of the letters that a device can compute with; false: some operand holds nothing. */
static bool local_sets(const problem *p, const luo_holdings *hx, const luo_holding *me,
                       uint32_t *set)
{
    bool known[LETTERS] = {false};
    for (int32_t k = 0; k < p->nx; k++) {
        const luo_holding *h = holding_of(&hx[k], me->u, me->dev);
        ck_assert_msg(h, "LUO_SEED=%llu LUO_CASES=1: device %d", CASE(p), me->dev);
        if (h->region.empty) return false;
        for (int32_t d = 0; d < h->region.rank; d++) {
            const int32_t l = letter_at(p, p->x[k].letters[d]);
            const uint32_t b = bits_of(&h->region, d);
            ck_assert_msg(!known[l] || set[l] == b, "LUO_SEED=%llu LUO_CASES=1: letter %c, dev %d",
                          CASE(p), p->name[l], me->dev);
            set[l] = b;
            known[l] = true;
        }
    }
    return true;
}

/* Sums of what the holders of each (u, part) hold. */
typedef struct book {
    bool known[MEMBERS][DEVICES][CELLS];
    int64_t v[MEMBERS][DEVICES][CELLS];
} book;
static book sums;

static void note_box(const problem *p, const luo_holding *me, const int64_t *block)
{
    int64_t cells = 1;
    for (int32_t d = 0; d < p->out_shape.rank; d++) cells *= p->out_shape.dim[d];
    for (int64_t c = 0; c < cells; c++) {
        int64_t rest = c;
        bool in = !me->region.empty;
        for (int32_t d = p->out_shape.rank; d-- > 0; rest /= p->out_shape.dim[d])
            in = in && bits_of(&me->region, d) >> (rest % p->out_shape.dim[d]) & 1;
        if (!in) {
            ck_assert_msg(block[c] == 0, "LUO_SEED=%llu LUO_CASES=1: a cell outside", CASE(p));
            continue;
        }
        bool *known = &sums.known[me->u][me->part][c];
        int64_t *v = &sums.v[me->u][me->part][c];
        ck_assert_msg(!*known || *v == block[c],
                      "LUO_SEED=%llu LUO_CASES=1: copies differ on device %d", CASE(p), me->dev);
        *known = true;
        *v = block[c];
    }
}

/* The parts of a member sum to the member's value; that is T, or the members sum to T. */
static void check_sums(const problem *p)
{
    int64_t cells = 1;
    for (int32_t d = 0; d < p->out_shape.rank; d++) cells *= p->out_shape.dim[d];
    for (int64_t c = 0; c < cells; c++) {
        int64_t all = 0;
        int32_t have = 0;
        for (int32_t u = 0; u < p->u; u++) {
            const int32_t parts = luo_grp_count(&p->res->grp[u], LUO_PARTIAL);
            int32_t n = 0;
            int64_t sum = 0;
            for (int32_t k = 0; k < parts; k++) {
                n += sums.known[u][k][c];
                sum += sums.v[u][k][c];
            }
            ck_assert_msg(n == 0 || n == parts, "LUO_SEED=%llu LUO_CASES=1: a part is missing",
                          CASE(p));
            have += n > 0;
            all += sum;
            if (n && p->res->h != LUO_PARTIAL)
                ck_assert_msg(sum == p->truth[c], "LUO_SEED=%llu LUO_CASES=1: cell %d", CASE(p),
                              (int)c);
        }
        const int32_t want = p->res->h >= 0 ? 1 : p->u;
        ck_assert_msg(have == want, "LUO_SEED=%llu LUO_CASES=1: %d members hold cell %d", CASE(p),
                      have, (int)c);
        if (p->res->h == LUO_PARTIAL)
            ck_assert_msg(all == p->truth[c], "LUO_SEED=%llu LUO_CASES=1: cell %d", CASE(p),
                          (int)c);
    }
}

static void check_result(problem *p)
{
    luo_holdings hx[OPERANDS], hr;
    for (int32_t k = 0; k < p->nx; k++)
        ck_assert_int_eq(luo_holdings_make(p->arena, p->x[k].ann, &p->shape[k], &hx[k], NULL),
                         LUO_OK);
    ck_assert_int_eq(luo_ann_check(p->res, NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(p->arena, p->res, &p->out_shape, &hr, NULL), LUO_OK);
    memset(&sums, 0, sizeof sums);
    for (int32_t k = 0; k < hr.n; k++) {
        int64_t block[CELLS] = {0};
        uint32_t set[LETTERS];
        if (local_sets(p, hx, &hr.at[k], set)) compute(p, set, block);
        note_box(p, &hr.at[k], block);
    }
    check_sums(p);
}

static void count_case(const problem *p)
{
    deduced++;
    inner += p->res->inner;
    summed_members += p->res->h == LUO_PARTIAL;
    for (int32_t u = 0; u < p->u; u++) {
        const luo_grp *a = &p->x[0].ann->grp[u], *b = &p->res->grp[u];
        partial += luo_grp_count(b, LUO_PARTIAL) > 1;
        resorted += memcmp(a->dev, b->dev, (size_t)a->ndev * sizeof *a->dev) != 0;
    }
}

static void one_case(uint64_t seed)
{
    problem p = {.arena = luo_arena_new(1 << 14), .rng = luo_rng_seed(seed), .seed = seed};
    grid g[MEMBERS];
    int32_t next = 0;
    luo_err err = {0};
    p.op = luo_gen_int(&p.rng, 0, LUO_ROWS(ops) - 1);
    for (; p.nx < OPERANDS && ops[p.op].x[p.nx]; p.nx++) add_letters(&p, ops[p.op].x[p.nx]);
    for (int32_t k = 0; k < p.nl; k++) p.side[k] = luo_gen_int(&p.rng, 1, SIDE);
    p.u = luo_gen_int(&p.rng, 1, MEMBERS);
    for (int32_t u = 0; u < p.u; u++) make_grid(&p, &g[u], &next);
    if (p.u > 1 && luo_rng_u(&p.rng) < 0.5) { /* a member that repeats the one before */
        g[1] = g[0];
        for (int32_t i = 0; i < g[1].ndev; i++) g[1].dev[i] = g[0].dev[i] + 100;
    }
    make_operands(&p, g);
    p.out_shape = shape_of(&p, ops[p.op].out);
    const bool spoiled = luo_rng_u(&p.rng) < 0.3;
    if (spoiled) spoil(&p);
    uint32_t all[LETTERS] = {0};
    for (int32_t k = 0; k < p.nl; k++) all[k] = (1u << p.side[k]) - 1;
    compute(&p, all, p.truth);
    const luo_status st = luo_deduce_einsum(p.arena, p.x, p.nx, ops[p.op].out, "op", &p.res, &err);
    if (spoiled && st == LUO_EDEDUCE) {
        refused++;
    } else {
        ck_assert_msg(st == LUO_OK, "LUO_SEED=%llu LUO_CASES=1: %s", CASE(&p), err.text);
        check_result(&p);
        count_case(&p);
    }
    luo_arena_free(p.arena);
}

START_TEST(einsum)
{
    LUO_PROP_FOR(seed, 3000) one_case(seed);
    ck_assert_int_gt(deduced, 0);
    ck_assert_int_gt(partial, 0);
    ck_assert_int_gt(inner, 0);
    ck_assert_int_gt(resorted, 0);
    ck_assert_int_gt(shares, 0);
    ck_assert_int_gt(refused, 0);
    ck_assert_int_gt(summed_members, 0);
    printf("deduced %d: partial %d, inner %d, resorted %d, uneven %d, h=-2 %d; refused %d\n",
           deduced, partial, inner, resorted, shares, summed_members, refused);
}
END_TEST
LUO_MAIN("prop.deduce", einsum, 1)
