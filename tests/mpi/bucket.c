/* bucket.c: tensors that travel together train like one device, in f64, whatever the size
 * of a bucket and the number of lanes (docs/architecture/tests.md, test 2): random asymmetric plans
 * under several caps and lanes. Where only two add, the order of a sum is no question, and every
 * bit is that of the plan without buckets. */
#include "tests/mpi/accept.h"

static const struct {
    double mib;
    int32_t lanes;
} ways[] = {{0, 0}, {0.01, 1}, {0.01, 2}, {0.01, 4}, {25, 1}, {25, 2}, {25, 4}};
enum { WAYS = sizeof ways / sizeof *ways };

/* Groups of the program by which gradients are summed have two members at most. */
static bool adds_pairs(const luo_programs *set)
{
    for (int32_t i = 0; i < set->ngroups; i++)
        if (set->groups[i].stream == LUO_STREAM_DP && set->groups[i].n > 2 &&
            set->groups[i].n < set->n)
            return false;
    return true;
}

/* All that a rank holds after the last step. */
static uint64_t state_hash(const luo_trial *t)
{
    const luo_state *s = luo_trial_take(t, true);
    uint64_t h = LUO_HASH_EMPTY;
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        if (p->piece.empty) continue;
        h = luo_hash_bytes(h, p->m, (size_t)p->state_frame.volume * s->elem);
        h = luo_hash_bytes(h, p->v, (size_t)p->state_frame.volume * s->elem);
    }
    luo_trial_put(t, false);
    return h;
}

typedef struct tally {
    int checks, failed, fused, paired, beside;
} tally;

static void check(tally *t, bool good, const luo_lab *lab, const row *r, const char *what)
{
    int mine = good, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    t->checks++;
    t->failed += !all;
    if (!all && lab->rank == 0)
        printf("FAIL `%s`, buckets of %g MiB in %d lanes: %s\n", r->line, r->mib, (int)trial_lanes,
               what);
}

static int32_t calls_of(const luo_programs *set)
{
    int32_t n = 0;
    for (int32_t d = 0; d < set->n; d++) {
        const luo_role *r = &set->roles[set->at[d].role];
        for (int32_t i = 0; i < r->ninstr; i++)
            n += r->instr[i].kind == LUO_INSTR_COLLECTIVE && r->instr[i].stream == LUO_STREAM_DP;
    }
    return n;
}

/* Calls that are not in lane 0. */
static int32_t beside(const luo_programs *set)
{
    int32_t n = 0;
    for (int32_t d = 0; d < set->n; d++) {
        const luo_role *r = &set->roles[set->at[d].role];
        for (int32_t i = 0; i < r->ninstr; i++)
            n += r->instr[i].kind == LUO_INSTR_COLLECTIVE && r->instr[i].lane > 0;
    }
    return n;
}

static int64_t bytes_of(const luo_programs *set)
{
    int64_t n = 0;
    for (int32_t d = 0; d < set->n; d++) {
        const luo_role *r = &set->roles[set->at[d].role];
        for (int32_t i = 0; i < r->ninstr; i++)
            n += r->instr[i].kind == LUO_INSTR_COLLECTIVE ? r->instr[i].bytes : 0;
    }
    return n;
}

typedef struct outcome {
    worst w;
    uint64_t state;
    bool pairs;
    int32_t calls, beside;
    int64_t bytes;
    double norm;
} outcome;

/* One device, whatever the buckets are: it has nobody to add with. */
typedef struct reference {
    curve c;
    const double *state;
} reference;

static reference run_single(luo_arena *a, luo_lab *lab, const row *r)
{
    const luo_plan *plan = plan_of(a, r, LUO_F64);
    const luo_model model = model_of(r->model, plan->layers);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F64);
    luo_trial single = refer(a, lab, x, plan, &model);
    reference ref;
    int64_t n;
    luo_trial_init(&single, &model, 7);
    train(&single, &ref.c, 0, STEPS);
    ref.state = spread(a, lab, &single, &n);
    close_reference(lab, &single);
    lab->executor->close(x);
    return ref;
}

static outcome run(luo_lab *lab, const row *r, const reference *ref)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *plan = plan_of(a, r, LUO_F64);
    const luo_model model = model_of(r->model, plan->layers);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F64);
    luo_trial many = luo_lab_bind(a, lab, x, plan, &model);
    curve c;
    luo_trial_init(&many, &model, 7);
    train(&many, &c, 0, STEPS);
    outcome o = {.w = compare(a, &many, ref->state, NULL),
                 .state = state_hash(&many), .pairs = adds_pairs(many.set),
                 .calls = calls_of(many.set),
                 .beside = beside(many.set), .bytes = bytes_of(many.set), .norm = c.norm[0]};
    for (int i = 0; i < STEPS; i++)
        o.w.error = fmax(o.w.error,
                         fmax(far(c.loss[i], ref->c.loss[i]), far(c.norm[i], ref->c.norm[i])));
    many.executor->unbind(many.job);
    lab->executor->close(x);
    luo_arena_free(a);
    return o;
}

static void run_ways(luo_lab *lab, row *r, tally *t)
{
    outcome alone = {0};
    luo_arena *a = luo_arena_new(1 << 20);
    const reference ref = run_single(a, lab, r);
    for (int k = 0; k < WAYS; k++) {
        r->mib = ways[k].mib;
        trial_lanes = ways[k].lanes;
        const outcome o = run(lab, r, &ref);
        t->failed += !judge(lab, "buckets", r->line, o.w, bound_of(LUO_F64));
        t->checks++;
        if (k == 0) {
            alone = o;
            continue;
        }
        check(t, o.bytes == alone.bytes && o.calls <= alone.calls, lab, r,
              "other bytes, or more calls, than without buckets");
        check(t, o.beside == 0 || trial_lanes > 1, lab, r, "calls outside of the only lane");
        t->fused += o.calls < alone.calls;
        t->beside += o.beside > 0;
        if (!o.pairs) continue;
        t->paired++;
        check(t, o.norm == alone.norm && o.state == alone.state, lab, r,
              "sums of two are not those without buckets, bit by bit");
    }
    luo_arena_free(a);
}

int main(int argc, char **argv)
{
    luo_lab lab;
    tally t = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "bucket", 8);
    const uint64_t wanted = luo_prop_few(4, 10) * luo_prop_env("LUO_SCALE", 1);
    uint64_t plans = 0;
    for (uint64_t k = 0; plans < wanted; k++) {
        char line[256];
        row r;
        luo_rng rng = luo_rng_seed(luo_prop_first() + k);
        random_row(&rng, &r, line, sizeof line, false);
        if (!strstr(line, "||")) continue; /* one pipeline sums nothing across devices but norms */
        run_ways(&lab, &r, &t);
        plans++;
    }
    t.failed += t.fused == 0 || t.paired == 0 || t.beside == 0;
    if (lab.rank == 0)
        printf("%llu plans, %d programs with fewer calls, %d with calls beside each other, %d bit "
               "by bit\n"
               "%d%%: Checks: %d, Failures: %d, Errors: 0\n",
               (unsigned long long)plans, t.fused, t.beside, t.paired,
               100 * (t.checks - t.failed) / t.checks, t.checks, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
