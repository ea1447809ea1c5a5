/* bench_train.c: single-device training of a llama of 25 million parameters in f32,
 * beside PyTorch on one thread (tests/bench/train_torch.py): the same weights, the same tokens, the
 * same AdamW, steps taken in turns. Prints
 *   train_tokens_per_s, train_torch_tokens_per_s, train_over_torch (median of the pairs' ratios),
 *   train_cblas_share, and train_OP_share of each kind of operation (of the steps' time).
 * The losses of both must agree in each step. Both should call OpenBLAS: where Debian's
 * libblas.so.3 is another one, a note says so. Without a Python that has torch the comparison is
 * left out, with a note. LUO_PYTHON names another interpreter.
 *
 * Every sequence is one document, so that PyTorch, which makes all scores of a sequence, does not
 * pay for masked ones. */
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "core/graph/graph.h"
#include "exec/data/batch.h"
#include "tests/bench/bench.h"
#include "tests/exec_fixture.h"

#include <cblas.h>

enum { LAYERS = 6, HIDDEN = 512, FFN = 1408, HEADS = 8, VOCAB = 8192 };
enum { ROW = 256, BATCH = 8, TOKENS = ROW * BATCH, WARM = 1, STEPS = 7, ALL = WARM + STEPS };

/* ---- time in CBLAS: the Makefile links with --wrap ---- */

static double in_blas_s;
void __real_cblas_sgemm(CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint,
                        float, const float *, blasint, const float *, blasint, float, float *,
                        blasint);
void __wrap_cblas_sgemm(CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint,
                        float, const float *, blasint, const float *, blasint, float, float *,
                        blasint);
void __wrap_cblas_sgemm(CBLAS_LAYOUT o, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m,
                        blasint n, blasint k, float alpha, const float *a, blasint lda,
                        const float *b, blasint ldb, float beta, float *c, blasint ldc)
{
    const double start = luo_bench_now();
    __real_cblas_sgemm(o, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    in_blas_s += luo_bench_now() - start;
}

/* ---- what both train on ---- */

static char dir[] = "/tmp/luoshu-train-XXXXXX";

static void remove_dir(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0) fprintf(stderr, "bench_train: %s was not removed\n", dir);
}

static FILE *file(const char *name, const char *mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, mode);
    if (!f) luo_bench_fail("cannot open %s", path);
    return f;
}

static void write_all(FILE *f, const void *p, size_t size, size_t n)
{
    if (fwrite(p, size, n, f) != n) luo_bench_fail("cannot write to %s", dir);
}

/* One row of tokens per document; entry 65535 ends it. */
static luo_corpus *write_corpus(void)
{
    enum { ROWS = BATCH * ALL };
    FILE *f = file("tokens.u16", "wb");
    luo_rng rng = luo_rng_seed(3);
    for (int i = 0; i < ROWS * (ROW + 1); i++) {
        const double u = luo_rng_u(&rng); /* some tokens are more frequent than others */
        const uint16_t token = (uint16_t)((i + 1) % (ROW + 1) == 0 ? 65535 : VOCAB * u * u * u);
        write_all(f, &token, sizeof token, 1);
    }
    fclose(f);
    char path[128];
    luo_err err = {0};
    luo_corpus *c = NULL;
    snprintf(path, sizeof path, "%s/tokens.u16", dir);
    if (luo_corpus_open(path, VOCAB, 1, &c, &err) != LUO_OK) luo_bench_fail("%s", err.text);
    return c;
}

static void write_batches(luo_arena *a, const luo_corpus *c, const luo_plan *plan)
{
    luo_err err = {0};
    luo_batch_shape shape;
    if (luo_batch_shape_of(a, plan, true, plan->sequence_tokens, &shape, &err) != LUO_OK)
        luo_bench_fail("%s", err.text);
    FILE *f = file("batches.i32", "wb");
    void *memory = luo_arena_alloc(a, luo_batch_bytes(&shape, TOKENS));
    for (int64_t step = 0; memory && step < ALL; step++) {
        luo_micro_batch mb;
        luo_batch_fill(c, &shape, step, 0, 0, memory, &mb);
        if (mb.docs.n != BATCH) luo_bench_fail("%d documents in a batch", mb.docs.n);
        write_all(f, mb.ids, sizeof *mb.ids, TOKENS);
        write_all(f, mb.labels, sizeof *mb.labels, TOKENS);
    }
    fclose(f);
}

static int64_t write_weights(const luo_state *s)
{
    int64_t all = 0;
    FILE *names = file("weights.txt", "w"), *values = file("weights.f32", "wb");
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        fprintf(names, "%s", p->param->name);
        for (int32_t d = 0; d < p->param->shape.rank; d++)
            fprintf(names, " %lld", (long long)p->param->shape.dim[d]);
        fprintf(names, "\n");
        write_all(values, p->weight, s->elem, (size_t)p->weight_frame.volume);
        all += p->weight_frame.volume;
    }
    fclose(names);
    fclose(values);
    return all;
}

/* ---- PyTorch: a process that takes a step per line it is sent ---- */

typedef struct torch {
    pid_t pid;
    FILE *to, *from;
} torch;

static bool torch_open(torch *t)
{
    int down[2], up[2];
    char line[64];
    const char *python = getenv("LUO_PYTHON");
    if (pipe(down) != 0 || pipe(up) != 0) luo_bench_fail("no pipes");
    if ((t->pid = fork()) == 0) {
        setenv("OMP_NUM_THREADS", "1", 1);
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
        dup2(down[0], 0);
        dup2(up[1], 1);
        close(down[1]);
        close(up[0]);
        if (!python) python = "/usr/bin/python3"; /* Debian's, which has python3-torch */
        execlp(python, python, "tests/bench/train_torch.py", dir, (char *)NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    t->to = fdopen(down[1], "w");
    t->from = fdopen(up[0], "r");
    if (t->pid < 0 || !t->to || !t->from || !fgets(line, sizeof line, t->from)) return false;
    if (strcmp(line, "ready openblas\n") != 0)
        fprintf(stderr, "bench_train: PyTorch does not use OpenBLAS here: no fair comparison\n");
    return true;
}

static double torch_step(torch *t, double *loss)
{
    double s;
    fprintf(t->to, "step\n");
    fflush(t->to);
    if (fscanf(t->from, "%lf %lf", &s, loss) != 2) luo_bench_fail("PyTorch ended early");
    return s;
}

static void torch_close(torch *t)
{
    fclose(t->to);
    fclose(t->from);
    waitpid(t->pid, NULL, 0);
}

/* ---- shares ---- */

typedef struct shares {
    double total_s, blas_s, kind_s[LUO_OP_KINDS];
} shares;

static void count(shares *x, const luo_programs *set, const luo_step_report *r, double blas_s)
{
    const luo_role *role = &set->roles[set->at[0].role];
    x->total_s += r->end_s - r->start_s;
    x->blas_s += blas_s;
    for (int32_t i = 0; i < r->nrecords; i++) {
        const luo_op_record *at = &r->records[i];
        const luo_op_kind kind = set->ops[role->instr[at->instr].op].kind;
        if (kind < LUO_OP_KINDS) x->kind_s[kind] += at->end_s - at->start_s;
    }
}

static void print_shares(const shares *x)
{
    double rest = x->total_s;
    printf("train_cblas_share %.3f of the time\n", x->blas_s / x->total_s);
    for (int k = 0; k < LUO_OP_KINDS; k++) {
        if (x->kind_s[k] / x->total_s >= 5e-4)
            printf("train_%s_share %.3f of the time\n", luo_op_kind_name((luo_op_kind)k),
                   x->kind_s[k] / x->total_s);
        rest -= x->kind_s[k];
    }
    printf("train_between_share %.3f of the time\n", rest / x->total_s);
}

static luo_step_report step(luo_trial *t, int64_t i, double *blas_s)
{
    static const luo_pace even = {-INFINITY, 1};
    luo_err err = {0};
    luo_step_report r = {0};
    const luo_step_order order = {.step = i,
                                  .trace = true,
                                  .npace = 1,
                                  .pace = &even,
                                  .withdraw_s = INFINITY,
                                  .kill_s = INFINITY};
    in_blas_s = 0;
    if (luo_host_executor.step(t->job, &order, &r, &err) != LUO_OK || r.status != LUO_OK)
        luo_bench_fail("step %d: %s%s", (int)i, err.text, r.text);
    *blas_s = in_blas_s;
    return r;
}

static void compete(luo_trial *t, torch *other)
{
    static shares x;
    double mine[STEPS], its[STEPS], ratio[STEPS];
    for (int i = 0; i < ALL; i++) {
        double blas_s, loss = 0;
        const luo_step_report r = step(t, i, &blas_s);
        const double its_s = other ? torch_step(other, &loss) : 0, s = r.end_s - r.start_s;
        if (other && !(fabs(loss - r.loss) <= 1e-4 * fabs(loss)))
            luo_bench_fail("step %d: the loss is %.6f here and %.6f in PyTorch", i, r.loss, loss);
        if (i < WARM) continue;
        count(&x, t->set, &r, blas_s);
        mine[i - WARM] = TOKENS / s;
        its[i - WARM] = TOKENS / its_s;
        ratio[i - WARM] = its_s / s;
    }
    printf("train_tokens_per_s %.0f tokens/s\n", luo_bench_median(mine, STEPS));
    if (other) {
        printf("train_torch_tokens_per_s %.0f tokens/s\n", luo_bench_median(its, STEPS));
        printf("train_over_torch %.2f ratio\n", luo_bench_median(ratio, STEPS));
    }
    print_shares(&x);
}

int main(int argc, char **argv)
{
    luo_lab lab;
    torch other;
    luo_model model = luo_test_llama(LAYERS, HIDDEN, FFN, HEADS, VOCAB);
    if (!mkdtemp(dir)) luo_bench_fail("no temporary folder");
    atexit(remove_dir);
    luo_lab_open(&lab, &argc, &argv);
    luo_corpus_close(lab.corpus);
    lab.corpus = write_corpus();
    luo_plan *plan = luo_test_plan(lab.arena, "1: [0]*6");
    const int64_t tokens = TOKENS;
    plan->dtype = model.dtype = LUO_F32;
    plan->sequence_tokens = ROW;
    ((luo_pipeline *)plan->pipelines)[0].micro_batch_tokens = &tokens;
    luo_exec *x = luo_lab_executor(&lab, &model, LUO_F32);
    luo_trial t = luo_lab_bind(lab.arena, &lab, x, plan, &model);
    luo_state_init(luo_host_executor.state(t.job), &model, 1);
    printf("train_parameters %.2f million\n",
           1e-6 * (double)write_weights(luo_host_executor.state(t.job)));
    write_batches(lab.arena, lab.corpus, plan);
    const bool beside = torch_open(&other);
    if (!beside) fprintf(stderr, "bench_train: no Python with torch; the comparison is left out\n");
    compete(&t, beside ? &other : NULL);
    torch_close(&other);
    luo_host_executor.unbind(t.job);
    luo_host_executor.close(x);
    luo_lab_close(&lab);
    return 0;
}
