/* tests/cuda/mpi/ranks.c: what the CUDA executor of several ranks has to agree in, on the stand-in:
 * the same bits whatever the order of streams, captured or not; a capture that one rank can not
 * make; a step that one rank never begins. Run by `mpirun -n 8`. */
#include "exec/cuda/executor.h"
#include "tests/mpi/drain.h"
#include "tests/prop/prop.h"
#include "tests/standin/standin.h"

static int checks, failed;

/* All ranks find it good, or it is told once. */
static void expect(const luo_lab *lab, bool good, const char *what)
{
    int mine = good, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!good) printf("FAIL rank %d: %s\n", lab->rank, what);
    checks++;
    failed += !all;
}

typedef struct result {
    uint64_t print;
    double loss[4];
} result;

static const row cut = {
    .line = "3: [0,1]*1 [2]*1 || 2: [3]*1 [4,5]*1", .model = LLAMA, .zero = 1, .sp = 1};

static void set_graphs(bool on)
{
    setenv("LUO_CUDA_GRAPHS", on ? "1" : "0", 1);
}

/* fails: this rank's launch of that number fails while the step is captured; -1: none. */
static result train_bits(luo_lab *lab, luo_dtype dtype, bool graphs, int64_t fails)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *p = plan_of(a, &cut, dtype);
    const luo_model model = model_of(cut.model, p->layers);
    result o = {0};
    set_graphs(graphs);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model);
    luo_trial_init(&t, &model, 5);
    for (int i = 0; i < 4; i++) {
        if (i == 1 && fails >= 0) standin_fail(STANDIN_LAUNCH, fails);
        const luo_step_report r = luo_lab_step(&t, i);
        if (r.status != LUO_OK) printf("FAIL rank %d: %s\n", lab->rank, r.text);
        o.loss[i] = r.has_loss ? r.loss : 0;
    }
    const bool part = luo_programs_find(t.set, lab->rank) != NULL;
    const char *said = t.executor->remark(x);
    expect(lab, fails == -1 || !part ? !said : said && strstr(said, "not captured"), "a remark");
    o.print = print_of(&t);
    MPI_Barrier(MPI_COMM_WORLD);
    t.executor->unbind(t.job);
    t.executor->close(x);
    luo_arena_free(a);
    return o;
}

static void same_bits(luo_lab *lab, luo_dtype dtype)
{
    const uint64_t first = luo_prop_first(), seeds = luo_prop_env("LUO_SCALE", 1);
    const result ref = train_bits(lab, dtype, false, -1);
    for (uint64_t s = first; s < first + seeds; s++) {
        standin_seed(100 * s + (uint64_t)lab->rank);
        const result got = train_bits(lab, dtype, true, -1);
        expect(lab, memcmp(&got, &ref, sizeof got) == 0, "other bits in another order");
    }
    /* Rank 2 can not capture: neither do the others. */
    const result got = train_bits(lab, dtype, true, lab->rank == 2 ? 25 : -2);
    expect(lab, memcmp(&got, &ref, sizeof got) == 0, "other bits without a graph");
}

/* Rank 3 does not come: the ranks that wait for it give up and say for whom they wait. Not of a
 * captured step: here a graph that runs can not be destroyed, which CUDA allows. */
static void stuck(luo_lab *lab)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row two = {.line = "2: [0-3]*1", .model = LLAMA};
    const luo_plan *p = plan_of(a, &two, LUO_F32);
    const luo_model model = model_of(two.model, p->layers);
    setenv("LUO_CUDA_STUCK_S", "2", 1);
    set_graphs(false);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F32);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model);
    luo_trial_init(&t, &model, 5);
    luo_step_report r;
    for (int i = 0; i < 2; i++) {
        r = luo_lab_step(&t, i);
        expect(lab, r.status == LUO_OK, "a step of all");
    }
    if (lab->rank != 3) r = luo_lab_step(&t, 2);
    char me[32];
    snprintf(me, sizeof me, "device %d waits", lab->rank);
    const bool waits = lab->rank < 3;
    if (waits && lab->rank == 0 && getenv("LUO_VERBOSE")) printf("%s\n", r.text);
    expect(lab, !waits || ((r.status == LUO_ESTUCK || r.status == LUO_EPEER) && r.text[0]),
           "a step that one does not begin");
    expect(lab, !waits || r.status != LUO_ESTUCK || strstr(r.text, me), "who waits");
    t.executor->unbind(t.job);
    t.executor->close(x);
    luo_arena_free(a);
}

int main(int argc, char **argv)
{
    luo_lab lab;
    setvbuf(stdout, NULL, _IOLBF, 0);
    luo_lab_open(&lab, &argc, &argv);
    lab.executor = &luo_cuda_executor;
    if (lab.nranks < 8) {
        const luo_err e = {.text = "8 ranks are needed"};
        luo_lab_die("ranks", &e);
    }
    const char *only = argc > 1 ? argv[1] : "";
    if (strcmp(only, "stuck") != 0) same_bits(&lab, LUO_F32);
    if (strcmp(only, "stuck") != 0 && luo_prop_env("LUO_SCALE", 1) > 1) same_bits(&lab, LUO_BF16);
    stuck(&lab);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (checks - failed) / checks,
               checks, failed);
    luo_lab_close(&lab);
    return failed > 0;
}
