/* staggered.c: updates that do not wait for the norm of all gradients, and are amended
 * where it is beyond the bound, give what updates after the norm give, bit by bit: loss, norm,
 * weights and moments of every rank; on host, plans of accept.h and random ones. Run by
 * `mpirun -n 8`. */
#include "exec/recipe.h"
#include "tests/mpi/accept.h"

enum { TRIED = 6 };

/* Weights and moments of this rank as one number. */
static uint64_t state_hash(const luo_trial *t)
{
    const luo_state *s = luo_trial_take(t, true);
    uint64_t h = LUO_HASH_EMPTY;
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        if (p->piece.empty) continue;
        const size_t weights = (size_t)p->weight_frame.volume * s->elem;
        const size_t moments = (size_t)p->state_frame.volume * s->elem;
        h = luo_hash_bytes(h, p->weight, weights);
        h = luo_hash_bytes(h, p->m, moments);
        h = luo_hash_bytes(h, p->v, moments);
    }
    luo_trial_put(t, false);
    return h;
}

typedef struct tally {
    int checks, failed, kept, amended; /* steps whose first update stood, or did not */
} tally;

static void run(luo_lab *lab, const row *r, luo_dtype dtype, bool deep, tally *sum)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *together = plan_of(a, r, dtype);
    if (deep) together->schedule = LUO_SCHED_ZB_H2;
    luo_plan staggered = *together;
    staggered.staggered = true;
    const luo_model model = row_model(r, together->layers);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial one = luo_lab_bind(a, lab, x, together, &model);
    luo_trial two = luo_lab_bind(a, lab, x, &staggered, &model);
    curve c, d;
    int differ = 0, all = 0;
    luo_trial_init(&one, &model, 7);
    luo_trial_init(&two, &model, 7);
    train(&one, &c, 0, TRIED);
    train(&two, &d, 0, TRIED);
    for (int i = 0; i < TRIED; i++) {
        differ += c.loss[i] != d.loss[i] || c.norm[i] != d.norm[i];
        *(d.norm[i] + LUO_CLIP_EPS > LUO_CLIP_NORM ? &sum->amended : &sum->kept) += 1;
    }
    differ += state_hash(&one) != state_hash(&two);
    MPI_Allreduce(&differ, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (all && lab->rank == 0)
        printf("%s, %s: %d differences; %.17g, not %.17g\n", r->line, luo_dtype_name(dtype), all,
               d.loss[TRIED - 1], c.loss[TRIED - 1]);
    sum->checks++;
    sum->failed += all > 0;
    one.executor->unbind(one.job);
    two.executor->unbind(two.job);
    lab->executor->close(x);
    luo_arena_free(a);
}

static void run_random(luo_lab *lab, tally *sum)
{
    const uint64_t cases =
        luo_prop_env("LUO_CASES", luo_prop_few(2, 12)) * luo_prop_env("LUO_SCALE", 1);
    if (lab->rank == 0)
        printf("seeds %llu..%llu\n", (unsigned long long)luo_prop_first(),
               (unsigned long long)(luo_prop_first() + cases - 1));
    for (uint64_t k = 0; k < cases; k++) {
        char line[256];
        row r;
        luo_rng rng = luo_rng_seed(luo_prop_first() + k);
        random_row(&rng, &r, line, sizeof line, false);
        run(lab, &r, k % 4 ? LUO_F64 : LUO_F32, k % 3 == 0, sum);
    }
}

int main(int argc, char **argv)
{
    luo_lab lab;
    tally sum = {0};
    luo_lab_open(&lab, &argc, &argv);
    luo_lab_need(&lab, "staggered", 8);
    const int apart = (int)luo_prop_few(7, 4);
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i += apart)
        run(&lab, &rows[i], i % 3 ? LUO_F64 : LUO_F32, rows[i].order == 2, &sum);
    run_random(&lab, &sum);
    const bool both = sum.kept > 0 && sum.amended > 0; /* else it has shown nothing */
    sum.checks++;
    sum.failed += !both;
    if (lab.rank == 0)
        printf("%d steps kept, %d amended\n%d%%: Checks: %d, Failures: %d, Errors: 0\n", sum.kept,
               sum.amended, 100 * (sum.checks - sum.failed) / sum.checks, sum.checks, sum.failed);
    luo_lab_close(&lab);
    return sum.failed > 0;
}
