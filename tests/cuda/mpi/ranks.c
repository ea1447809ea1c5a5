/* ranks.c: what the CUDA executor of several ranks has to agree in, on the stand-in:
 * the same bits whatever the order of streams, captured or not; messages that come while the task
 * before computes; a capture that one rank cannot make; a step that one rank never begins. Run by
 * `mpirun -n 8`. */
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
/* Stages with one receive behind the other. */
static const row deep = {
    .line = "6: [0]*1 [1]*1 [2]*1 [3,4]*1 || 4: [5]*2 [6]*1 [7]*1", .model = LLAMA, .order = 1};

static void set_graphs(bool on)
{
    setenv("LUO_CUDA_GRAPHS", on ? "1" : "0", 1);
}

/* What keeps a step from being captured, where it is not the number of this rank's launch that
 * fails. On a GPU nothing can be made to. */
enum { NOTHING = -1, ANOTHER_RANK = -2, OLD_DRIVER = -3 };

static bool is_remark(const luo_trial *t, int32_t device, int64_t fails, const char *said)
{
    if (!luo_programs_find(t->set, device) || !standin_is_here()) return true;
    if (fails == NOTHING || (fails == OLD_DRIVER && t->set->at[0].device != device)) return !said;
    return said && strstr(said, fails == OLD_DRIVER ? "for CUDA 12.9 on" : "not captured");
}

static result train_bits(luo_lab *lab, const row *of, luo_dtype dtype, bool graphs,
                         int64_t fails)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *p = plan_of(a, of, dtype);
    const luo_model model = model_of(of->model, p->layers);
    result o = {0};
    set_graphs(graphs);
    standin_set_driver(fails == OLD_DRIVER ? 12080 : 13000);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model);
    luo_trial_init(&t, &model, 5);
    for (int i = 0; i < 4; i++) {
        if (i == 1 && fails >= 0) standin_fail(STANDIN_LAUNCH, fails);
        const luo_step_report r = luo_lab_step(&t, i);
        if (r.status != LUO_OK) printf("FAIL rank %d: %s\n", lab->rank, r.text);
        o.loss[i] = r.has_loss ? r.loss : 0;
    }
    expect(lab, is_remark(&t, lab->rank, fails, t.executor->remark(x)), "a remark");
    o.print = print_of(&t);
    MPI_Barrier(MPI_COMM_WORLD);
    t.executor->unbind(t.job);
    t.executor->close(x);
    luo_arena_free(a);
    return o;
}

static void same_bits(luo_lab *lab, const row *of, luo_dtype dtype)
{
    const uint64_t first = luo_prop_first(), seeds = luo_prop_env("LUO_SCALE", 1);
    const result ref = train_bits(lab, of, dtype, false, NOTHING);
    for (uint64_t s = first; s < first + seeds; s++) {
        standin_seed(100 * s + (uint64_t)lab->rank);
        const result got = train_bits(lab, of, dtype, true, NOTHING);
        expect(lab, memcmp(&got, &ref, sizeof got) == 0, "other bits in another order");
    }
    if (!standin_is_here() || of != &cut) return;
    /* Rank 2 cannot capture: neither do the others. */
    result got = train_bits(lab, of, dtype, true, lab->rank == 2 ? 25 : ANOTHER_RANK);
    expect(lab, memcmp(&got, &ref, sizeof got) == 0, "other bits without a graph");
    got = train_bits(lab, of, dtype, true, OLD_DRIVER);
    expect(lab, memcmp(&got, &ref, sizeof got) == 0, "other bits under an old driver");
}

/* What a stage receives has come, in some order of streams, before the task before has computed,
 * and even the one before that, behind which it only needs the room. */
static void comes_ahead(luo_lab *lab, bool graphs)
{
    enum { TRIES = 40 };
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *p = plan_of(a, &deep, LUO_F32);
    const luo_model model = model_of(deep.model, p->layers);
    set_graphs(graphs);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F32);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model);
    luo_trial_init(&t, &model, 5);
    const luo_program *mine = luo_programs_find(t.set, lab->rank);
    int64_t came[2] = {0}, sum[2] = {0}, all = 0;
    double *room = LUO_NEW_N(a, double, mine->ntask);
    for (int i = 0; i < TRIES && (i < 3 || sum[0] == 0 || sum[1] == 0); i++) {
        const luo_step_part whole = {0};
        standin_seed((uint64_t)(100 * i + lab->rank));
        const luo_step_report r = luo_lab_part_traced(&t, i, &whole, true);
        expect(lab, r.status == LUO_OK, "a traced step");
        for (int by = 1; by <= 2; by++)
            came[by - 1] +=
                begins_came_ahead(t.set, mine, r.records, r.nrecords, by, room, &all);
        MPI_Allreduce(came, sum, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    if (lab->rank == 0 && getenv("LUO_VERBOSE"))
        printf("%lld came a task ahead, %lld two\n", (long long)sum[0], (long long)sum[1]);
    expect(lab, sum[0] > 0, "no message comes while the task before computes");
    expect(lab, sum[1] > 0, "a message waits for more than its room");
    t.executor->unbind(t.job);
    t.executor->close(x);
    luo_arena_free(a);
}

/* A capture that takes longer than anybody is waited for, on one rank: it goes on, and the others
 * wait for it. */
static void slow_capture(luo_lab *lab)
{
    enum { PAUSE_US = 15000 };
    standin_set_driver(13000);
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *p = plan_of(a, &cut, LUO_F32);
    const luo_model model = model_of(cut.model, p->layers);
    setenv("LUO_CUDA_STUCK_S", "2", 1);
    set_graphs(true);
    luo_exec *x = luo_lab_executor(lab, &model, LUO_F32);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model);
    luo_trial_init(&t, &model, 5);
    if (lab->rank == 2) standin_slow_capture(PAUSE_US);
    for (int i = 0; i < 3; i++) {
        const luo_step_report r = luo_lab_step(&t, i);
        if (r.status != LUO_OK) printf("rank %d, step %d: %s\n", lab->rank, i, r.text);
        if (lab->rank == 2 && getenv("LUO_VERBOSE")) printf("%.1f s\n", r.end_s - r.start_s);
        expect(lab, r.status == LUO_OK, "a step beside a long capture");
        expect(lab, lab->rank != 2 || i != 1 || r.end_s - r.start_s > 3, "a long capture");
    }
    standin_slow_capture(0);
    expect(lab, !t.executor->remark(x), "a remark");
    t.executor->unbind(t.job);
    t.executor->close(x);
    luo_arena_free(a);
}

/* Rank 3 does not come: the ranks that wait for it give up and say for whom they wait. Not of a
 * captured step: here a graph that runs cannot be destroyed, which CUDA allows. */
static void stuck(luo_lab *lab)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row two = {.line = "2: [0-3]*1", .model = LLAMA};
    const luo_plan *p = plan_of(a, &two, LUO_F32);
    const luo_model model = model_of(two.model, p->layers);
    /* eight processes may share a GPU */
    setenv("LUO_CUDA_STUCK_S", standin_is_here() ? "2" : "12", 1);
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
    luo_lab_need(&lab, "ranks", 8);
    const char *only = argc > 1 ? argv[1] : "";
    if (strcmp(only, "stuck") != 0) same_bits(&lab, &cut, LUO_F32);
    if (strcmp(only, "stuck") != 0) same_bits(&lab, &deep, LUO_F32);
    if (strcmp(only, "stuck") != 0 && luo_prop_whole()) same_bits(&lab, &cut, LUO_BF16);
    for (int graphs = 0; graphs < 2 && strcmp(only, "stuck") != 0; graphs++)
        comes_ahead(&lab, graphs);
    if (standin_is_here()) slow_capture(&lab);
    stuck(&lab);
    if (lab.rank == 0)
        printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (checks - failed) / checks,
               checks, failed);
    luo_lab_close(&lab);
    return failed > 0;
}
