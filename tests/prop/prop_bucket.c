/* prop_bucket.c: every step of a tensor's Reshard travels once, in a bucket or alone,
 * with the bytes, groups and counts it has without buckets; and buckets are full by rule `mib`,
 * neither sooner nor later (docs/architecture/tests.md, test 1). */
#include "tests/plan_random.h"
#include "tests/prop/prop.h"

typedef struct atom { /* one call of one step of one tensor on one device */
    int32_t op, step, group;
    int64_t elements;
    bool seen;
} atom;

typedef struct tally {
    plan_tally plans;
    int fused, counted, uneven;
} tally;

static bool is_sum(const luo_instr *i)
{
    return i->kind == LUO_INSTR_COLLECTIVE && i->stream == LUO_STREAM_DP;
}

/* The calls of a device without buckets. */
static int32_t list(const luo_programs *set, const luo_program *p, atom *at)
{
    const luo_role *r = &set->roles[p->role];
    int32_t n = 0;
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        if (!is_sum(in)) continue;
        const luo_exchange *x = &set->exchanges[in->exchange];
        at[n++] = (atom){x->op, x->step, p->slots[in->slot].group, in->bytes / x->elem_bytes,
                         false};
    }
    return n;
}

static bool same_group(const luo_programs *a, int32_t ga, const luo_programs *b, int32_t gb)
{
    const luo_group *x = &a->groups[ga], *y = &b->groups[gb];
    return x->n == y->n && memcmp(x->dev, y->dev, (size_t)x->n * sizeof *x->dev) == 0;
}

/* Marks the call that a piece stands for. Calls of a device for one step may stand in any order. */
static bool take(const luo_programs *off, atom *at, int32_t n, const luo_programs *on,
                 int32_t group, const luo_exchange *x, int64_t elements)
{
    for (int32_t k = 0; k < n; k++) {
        if (at[k].op != x->op || at[k].step != x->step) continue;
        if (at[k].seen || !same_group(off, at[k].group, on, group)) continue;
        at[k].seen = true;
        return at[k].elements == elements;
    }
    return false;
}

/* The move of a part in which the group of the call meets. */
static const luo_move *move_of(const luo_exchange *x, const luo_group *g)
{
    const luo_moves *all = &x->resolution->moves;
    for (int32_t i = 0; i < all->n; i++) {
        const luo_move *m = &all->at[i];
        if (m->step == x->step && m->ndev == g->n &&
            memcmp(m->dev, g->dev, (size_t)g->n * sizeof *g->dev) == 0 && m->kind > LUO_MOVE_SEND)
            return m;
    }
    return NULL;
}

/* Counts per rank are the sums of the parts'; `v` is set where they differ (the computed vectors,
 * P). */
static bool counts_add(const luo_programs *set, const luo_program *p, const luo_instr *in, tally *t)
{
    const luo_exchange *bucket = &set->exchanges[in->exchange];
    const luo_slot *slot = &p->slots[in->slot];
    const luo_group *g = &set->groups[slot->group];
    if (in->coll == LUO_COLL_AR) return !in->v && !slot->counts;
    int64_t sum[64] = {0};
    bool differ = false;
    for (int32_t k = 0; k < bucket->nparts; k++) {
        const luo_move *m = move_of(&set->exchanges[bucket->part[k]], g);
        if (!m || m->nregion != g->n || g->n > 64) return false;
        for (int32_t i = 0; i < g->n; i++) sum[i] += luo_region_volume(&m->region[i]);
    }
    for (int32_t i = 1; i < g->n; i++) differ |= sum[i] != sum[0];
    t->counted++;
    t->uneven += differ;
    if (in->v != differ || (slot->counts != NULL) != differ) return false;
    return !differ || memcmp(sum, slot->counts, (size_t)g->n * sizeof *sum) == 0;
}

static bool check_device(luo_arena *a, const luo_programs *off, const luo_programs *on, int32_t d,
                         tally *t)
{
    const luo_program *p = &on->at[d];
    const luo_role *r = &on->roles[p->role], *q = &off->roles[off->at[d].role];
    atom *at = LUO_NEW_N(a, atom, q->ninstr);
    const int32_t n = list(off, &off->at[d], at);
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        if (!is_sum(in)) continue;
        const luo_exchange *x = &on->exchanges[in->exchange];
        const int32_t group = p->slots[in->slot].group;
        if (in->npieces == 0) {
            if (!take(off, at, n, on, group, x, in->bytes / x->elem_bytes)) return false;
            continue;
        }
        t->fused += in->npieces > 1;
        for (int32_t k = 0; k < x->nparts; k++)
            if (!take(off, at, n, on, group, &on->exchanges[x->part[k]], in->piece[k].count))
                return false;
        if (!counts_add(on, p, in, t)) return false;
    }
    for (int32_t k = 0; k < n; k++)
        if (!at[k].seen) return false;
    return true;
}

static luo_programs *compiled(luo_arena *a, luo_plan *p, const luo_model *m, double mib)
{
    const luo_compile_opts opts = {.check = true};
    luo_programs *set = NULL;
    luo_err err = {0};
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, mib, 0};
    if (luo_plan_compile(a, p, m, NULL, &opts, &set, &err) != LUO_OK) printf("%s\n", err.text);
    return set;
}

static bool one_plan(uint64_t seed, tally *t)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = plan_random(a, &r, &t->plans);
    const luo_model m = luo_rng_pick(&r, 3) == 0 ? luo_test_gpt(p->layers, 64, 8, 120)
                                                 : luo_test_llama(p->layers, 64, 96, 8, 120);
    const luo_programs *off = compiled(a, p, &m, 0);
    const luo_programs *on = compiled(a, p, &m, seed % 2 ? 0.02 : 25);
    bool good = off && on && off->n == on->n;
    for (int32_t d = 0; good && d < on->n; d++) {
        good = check_device(a, off, on, d, t);
        if (!good)
            printf("seed %llu: the calls of device %d are not those without buckets\n",
                   (unsigned long long)seed, (int)on->at[d].device);
    }
    luo_arena_free(a);
    return good;
}

/* Rule mib on numbers alone. */
static bool one_rule(uint64_t seed)
{
    enum { MOST = 60, KEYS = 4 };
    luo_rng r = luo_rng_seed(seed ^ 0xb0c4e7);
    luo_bucket_item x[MOST];
    int32_t bucket[MOST], nbuckets = 0, last[KEYS];
    int64_t bytes[MOST] = {0}, before[MOST] = {0};
    luo_err err;
    luo_arena *a = luo_arena_new(1 << 12);
    const int32_t n = 1 + (int32_t)luo_rng_pick(&r, MOST);
    const double cap = (double)(1 + luo_rng_pick(&r, 1000));
    const luo_bucketing b = {LUO_BUCKET_MIB, true, cap / 1048576, 0};
    for (int32_t i = 0; i < n; i++)
        x[i] = (luo_bucket_item){(int32_t)luo_rng_pick(&r, KEYS), 0, false, 1,
                                 1 + luo_rng_pick(&r, 400)};
    bool good = luo_bucket_close(a, b, 2, x, n, KEYS, bucket, &nbuckets, &err) == LUO_OK;
    for (int k = 0; k < KEYS; k++) last[k] = -1;
    for (int32_t i = 0; good && i < n; i++) {
        const int32_t k = bucket[i], was = last[x[i].key];
        good = k >= 0 && k < nbuckets && k >= was; /* order is kept */
        if (k != was && was >= 0) good &= (double)bytes[was] >= cap;
        before[k] = bytes[k];
        bytes[k] += x[i].bytes;
        last[x[i].key] = k;
        good &= (double)before[k] < cap;
    }
    luo_arena_free(a);
    if (!good) printf("seed %llu: rule mib\n", (unsigned long long)seed);
    return good;
}

int main(void)
{
    tally t = {0};
    int failed = 0, cases = 0;
    LUO_PROP_FOR(seed, 150)
    {
        failed += !one_plan(seed, &t) + !one_rule(seed);
        cases++;
    }
    printf("%d plans, %d calls of several tensors, %d with counts, %d of them uneven\n", cases,
           t.fused, t.counted, t.uneven);
    if (cases >= 100 && (t.fused < 100 || t.counted < 100 || t.uneven < 20)) {
        printf("the generator misses interesting cases\n");
        failed++;
    }
    printf("%d%%: Checks: 1, Failures: %d, Errors: 0\n", failed ? 0 : 100, failed > 0);
    return failed ? 1 : 0;
}
