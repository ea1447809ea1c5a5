/* reroute.c: plans with lost stages train like one device (core/plan/replan/reroute.h), on host:
 * known ones, random ones, and there and back in mid-training. Run by `mpirun -n 8`. */
#include "core/plan/replan/reroute.h"
#include "tests/mpi/accept.h"

#pragma GCC diagnostic push /* what a row leaves out is 0 */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
typedef struct loss_row {
    row r;
    int lost[4]; /* devices, -1 ends */
    bool split;  /* schedule zb_h1 */
} loss_row;
static const loss_row losses[] = {
    {{"3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", LLAMA}, {3, -1}},
    {{"3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", LLAMA}, {0, -1}},
    {{"3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", GPT, 1}, {2, 1, -1}},
    {{"4: [0]*1 [1]*2 || 2: [2]*1 [3]*2 || 3: [4]*1 [5]*2", LLAMA, 1, 0, 1}, {3, -1}},
    {{"4: [0]*1 [1]*2 || 2: [2]*1 [3]*2 || 3: [4]*1 [5]*2", GPT, 0, 0, 2}, {1, 3, -1}},
    {{"2: [0,1]*2 [2,3]*2 || 3: [4,5]*2 [6,7]*2", LLAMA, 0, 1}, {5, -1}},
    {{"2: [0,1]*2 [2,3]*2 || 3: [4,5]*2 [6,7]*2", GPT, 1, 1}, {6, 7, 0, -1}},
    {{"3: [0]*1 [1]*1 [2]*1 || 3: [3]*1 [4]*1 [5]*1", QKNORM}, {4, -1}},
    {{"2: [0]*2 || 2: [1]*2 || 5: [2]*2", LLAMA}, {2, -1}},
    {{"3: [0]*1 [1]*1 || 2: [2]*1 [3]*1", LLAMA, 0, 0, 0, {16, 32, 8}}, {1, -1}},
    {{"3: [0]*1 [1]*1 || 2: [2]*1 [3]*1", LLAMA, 0, 0, 0, {16, 32, 8}}, {2, -1}},
    {{"2: [0]*1 [1]*1 || 2: [2]*1 [3]*1 || 2: [4]*1 [5]*1", GPT, 1, .mib = 25}, {0, 3, -1}},
    {{"4: [0]*1 [1,2]*1 || 4: [3]*1 [4,5]*1", LLAMA, 0, 1, .mib = 0.01, .sequences = 2}, {4, -1}},
    {{"9: [0]*1 [1]*1 [2]*1 || 1: [3]*1 [4]*1 [5]*1", LLAMA}, {2, -1}},
    {{"4: [0]*1 [1]*1 [2]*1 || 4: [3]*1 [4]*1 [5]*1", LLAMA}, {4, -1}, true},
    {{"3: [0]*2 [1]*2 || 3: [2]*2 [3]*2", GPT, 1}, {2, 1, -1}, true},
    {{"2: [0,1]*2 [2,3]*2 || 3: [4,5]*2 [6,7]*2", QKNORM, 0, 1, 1}, {5, -1}, true},
    {{"1: [0]*1 [1]*1 [2]*1 || 9: [3]*1 [4]*1 [5]*1", LLAMA}, {4, 3, -1}},
};
#pragma GCC diagnostic pop

static const luo_plan *base_of(luo_arena *a, const loss_row *l, luo_dtype dtype)
{
    luo_plan *p = plan_of(a, &l->r, dtype);
    if (l->split) p->schedule = LUO_SCHED_ZB_H1;
    return p;
}

static const luo_plan *without(luo_arena *a, const luo_plan *base, const int *lost)
{
    bool usable[8];
    const luo_plan *p = NULL;
    luo_err err = {0};
    for (int d = 0; d < 8; d++) usable[d] = true;
    for (int k = 0; k < 4 && lost[k] >= 0; k++) usable[lost[k]] = false;
    if (luo_plan_reroute(a, base, usable, &p, &err) == LUO_EINFEASIBLE) return NULL;
    if (!p) luo_lab_die("reroute", &err);
    luo_plan_finding *at;
    int32_t n;
    if (luo_plan_check(a, p, NULL, NULL, &at, &n) != LUO_OK)
        luo_lab_die("reroute", &(luo_err){.text = "the check refuses the plan"});
    return p;
}

static bool run_losses(luo_lab *lab, const loss_row *l, luo_dtype dtype)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *p = without(a, base_of(a, l, dtype), l->lost);
    if (!p || !luo_plan_is_rerouted(p)) luo_lab_die(l->r.line, &(luo_err){.text = "not rerouted"});
    return run_plan(a, lab, &l->r, p);
}

/* Two steps with all devices, two without some, two with all again. */
static bool run_there_and_back(luo_lab *lab, const loss_row *l)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *base = base_of(a, l, LUO_F64), *left = without(a, base, l->lost);
    const luo_model model = row_model(&l->r, base->layers);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F64);
    luo_trial single = refer(a, lab, x, base, &model), t = luo_lab_bind(a, lab, x, base, &model);
    curve ref, c;
    int64_t n;
    luo_trial_init(&t, &model, 5);
    luo_trial_init(&single, &model, 5);
    train(&single, &ref, 0, 1);
    const double *early = spread(a, lab, &single, &n);
    train(&single, &ref, 1, 5);
    for (int k = 0; k < 3; k++) {
        if (k) t = change(a, lab, &t, k == 1 ? left : base, &model);
        train(&t, &c, 2 * k, 2);
    }
    worst w = compare(a, &t, spread(a, lab, &single, &n), early);
    for (int k = 0; k < 6; k++) w.error = fmax(w.error, far(c.loss[k], ref.loss[k]));
    const bool good = judge(lab, "there and back", l->r.line, w, bound_of(LUO_F64));
    t.executor->unbind(t.job);
    close_reference(lab, &single);
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}

/* Pipelines of equal borders; any devices lost. false: no stage of some number is left. */
static bool random_losses(luo_rng *rng, loss_row *l, char *line, size_t size)
{
    const int pipes = 2 + (int)luo_rng_pick(rng, 2), stages = 1 + (int)luo_rng_pick(rng, 3);
    const int tp = pipes * stages <= 4 ? 1 + (int)luo_rng_pick(rng, 2) : 1;
    int next = 0, used = 0, layers[3];
    size_t n = 0;
    if (pipes * stages * tp > 8) return false;
    for (int s = 0; s < stages; s++) layers[s] = 1 + (int)luo_rng_pick(rng, 2);
    for (int p = 0; p < pipes; p++) {
        n += (size_t)snprintf(line + n, size - n, "%s%d:", p ? " || " : "",
                              1 + (int)luo_rng_pick(rng, 5));
        for (int s = 0; s < stages; s++, next += tp)
            n += (size_t)snprintf(line + n, size - n, " [%d-%d]*%d", next, next + tp - 1,
                                  layers[s]);
    }
    *l = (loss_row){.r = {.line = line, .model = (kind)luo_rng_pick(rng, KINDS),
                          .zero = (int)luo_rng_pick(rng, 2), .sp = (int)luo_rng_pick(rng, 2),
                          .recompute = (int)luo_rng_pick(rng, 3),
                          .mib = luo_rng_pick(rng, 2) ? 25 : 0,
                          .sequences = luo_rng_pick(rng, 4) == 0 ? 2 : 1},
                    .split = luo_rng_pick(rng, 2)};
    while (used < 3 && (used == 0 || luo_rng_pick(rng, 2)))
        l->lost[used++] = (int)luo_rng_pick(rng, (uint32_t)next);
    l->lost[used] = -1;
    return true;
}

typedef struct tally {
    int checks, failed, refused;
} tally;

static void count(tally *t, bool good)
{
    t->checks++;
    t->failed += !good;
}

static void run_random(luo_lab *lab, tally *t)
{
    const uint64_t cases =
        luo_prop_env("LUO_CASES", luo_prop_few(5, 20)) * luo_prop_env("LUO_SCALE", 1);
    if (lab->rank == 0)
        printf("seeds %llu..%llu\n", (unsigned long long)luo_prop_first(),
               (unsigned long long)(luo_prop_first() + cases - 1));
    for (uint64_t k = 0; k < cases; k++) {
        char line[256];
        loss_row l;
        luo_rng rng = luo_rng_seed(luo_prop_first() + k);
        luo_arena *a = luo_arena_new(1 << 16);
        const bool drawn = random_losses(&rng, &l, line, sizeof line) &&
                           without(a, base_of(a, &l, LUO_F64), l.lost);
        luo_arena_free(a);
        if (drawn) count(t, run_losses(lab, &l, k % 4 ? LUO_F64 : LUO_F32));
        else t->refused++;
    }
}

int main(int argc, char **argv)
{
    luo_lab lab;
    tally t = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "reroute", 8);
    for (int i = 0; i < (int)(sizeof losses / sizeof *losses); i++) {
        count(&t, run_losses(&lab, &losses[i], LUO_F64));
        if (i % 3 == 0) count(&t, run_losses(&lab, &losses[i], LUO_F32));
        if (losses[i].r.zero == 0) count(&t, run_there_and_back(&lab, &losses[i]));
    }
    run_random(&lab, &t);
    if (lab.rank == 0)
        printf("%d random plans had no stage left\n%d%%: Checks: %d, Failures: %d, Errors: 0\n",
               t.refused, 100 * (t.checks - t.failed) / t.checks, t.checks, t.failed);
    luo_lab_close(&lab);
    return t.failed > 0;
}
