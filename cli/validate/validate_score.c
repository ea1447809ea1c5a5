/* validate_score.c: predictions of published rows: closed form, programs, simulated step. */
#include <math.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/run/progress.h"
#include "cli/validate/validate.h"
#include "core/base/process.h"
#include "core/plan/compile.h"
#include "core/plan/planners.h"
#include "sim/sim.h"

/* What is not to be had is no failure of the command. */
static luo_status soften(luo_status st, const luo_err *err, luo_status *out, char *why)
{
    *out = st;
    if (st == LUO_OK) return LUO_OK;
    if (why) snprintf(why, LUO_ERR_TEXT, "%s", err->text);
    return st == LUO_ENOMEM || st == LUO_EBUG ? st : LUO_OK;
}

static void mean_parts(const luo_step_result *result, luo_parts *out)
{
    const double share = result->n ? 1.0 / result->n : 0;
    *out = (luo_parts){0};
    for (int32_t i = 0; i < result->n; i++) {
        const luo_parts *parts = &result->parts[i];
        out->compute_s += share * parts->compute_s;
        out->recompute_s += share * parts->recompute_s;
        out->tp_s += share * parts->tp_s;
        out->ep_s += share * parts->ep_s;
        out->cp_s += share * parts->cp_s;
        out->pp_s += share * parts->pp_s;
        out->dp_s += share * parts->dp_s;
        out->bubble_s += share * parts->bubble_s;
    }
}

static luo_status one_step(luo_arena *scratch, const luo_case *one, const luo_programs *set,
                           luo_score *out, luo_err *err)
{
    luo_world *world;
    luo_backend_state *backend = NULL;
    luo_status st = LUO_OK;
    luo_step_result result = {0};
    const luo_backend_config config = {.cluster = one->cluster,
                                       .stack = one->stack,
                                       .model = &one->model,
                                       .dtype = one->dtype,
                                       .comm = LUO_COMM_FLOW,
                                       .fold = true};
    LUO_TRY(luo_world_new(scratch, one->cluster, &world, err));
    LUO_TRY_OUT(luo_sim_backend.open(&config, &backend, err));
    const luo_step_request request = {.programs = set, .world = world};
    LUO_TRY_OUT(luo_sim_backend.run_ranks(backend, &request, &result, err));
    if (result.status != LUO_OK) {
        st = luo_err_set(err, result.status, "%s", result.text);
        goto out;
    }
    out->step_s = result.end_s - result.start_s;
    mean_parts(&result, &out->parts);
out:
    if (backend) luo_sim_backend.close(backend);
    return st;
}

static luo_status weigh(luo_arena *scratch, const luo_case *one, const luo_plan *plan,
                        const luo_programs *set, luo_score *out, luo_err *err)
{
    luo_memory *memory = LUO_NEW_N(scratch, luo_memory, set->n);
    double ratio = 0;
    int32_t device;
    luo_err over = {0};
    if (!memory) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(scratch, set, memory, err));
    const luo_status st = luo_plan_fits(plan, one->cluster, set, memory, &ratio, &device, &over);
    out->over = st == LUO_EOOM;
    for (int32_t i = 0; i < set->n; i++)
        out->memory_bytes = fmax(out->memory_bytes, luo_case_printed(one, &memory[i]));
    return LUO_OK;
}

/* Larger programs are not proven free of deadlock again: those of a uniform plan do not change with
 * the number of its pipelines, and the proof takes longer than the step. One that did block would
 * be told by the simulator. */
enum { CHECKED_GPUS = 2048 };

static luo_status simulate(luo_arena *scratch, const luo_case *one, luo_score *out, luo_err *err)
{
    luo_plan *plan;
    luo_plan_finding *found;
    luo_programs *set;
    int32_t n = 0;
    const luo_compile_opts opts = {.check = one->row->gpus <= CHECKED_GPUS,
                                   .bucket = one->stack->bucket,
                                   .memory = luo_case_memory(one)};
    out->memory = LUO_EUNSUP;
    LUO_TRY(luo_case_plan(scratch, one, &plan, err));
    if (luo_plan_check(scratch, plan, &one->model, one->cluster, &found, &n) != LUO_OK)
        return n ? luo_err_set(err, LUO_EUNSUP, "%s", found[0].text) : luo_err_nomem(err);
    LUO_TRY(luo_plan_compile(scratch, plan, &one->model, one->cluster, &opts, &set, err));
    LUO_TRY(weigh(scratch, one, plan, set, out, err));
    out->memory = LUO_OK;
    if (one->row->kind == LUO_STEP_OOM) return LUO_EUNSUP; /* nothing to compare a time with */
    return one_step(scratch, one, set, out, err);
}

static const char weighed[] = "memory is that of programs, and with --closed there are none.";
static const char ended[] = "the process that predicted it was ended; free memory and try again.";

luo_status luo_score_case(luo_arena *scratch, const luo_case *one, bool closed_only, luo_score *out,
                          luo_err *err)
{
    *out = (luo_score){.simulated = LUO_EUNSUP, .memory = LUO_EUNSUP};
    if (!one->cluster) { /* it cannot be said as a case */
        out->closed = LUO_EUNSUP;
        snprintf(out->why, sizeof out->why, "%s", one->assumed);
        return LUO_OK;
    }
    if (closed_only && one->row->kind == LUO_STEP_OOM) {
        out->closed = LUO_EUNSUP;
        snprintf(out->why, sizeof out->why, "%s", weighed);
        return LUO_OK;
    }
    luo_status st = luo_case_closed(scratch, one, &out->cost, err);
    LUO_TRY(soften(st, err, &out->closed, out->why));
    if (st == LUO_OK) out->closed_s = out->cost.step;
    if (closed_only) return LUO_OK;
    luo_err why = {0};
    char before[LUO_ERR_TEXT];
    memcpy(before, out->why, sizeof before);
    snprintf(out->why, sizeof out->why, "%s", ended); /* unless it comes back */
    st = simulate(scratch, one, out, &why);
    memcpy(out->why, before, sizeof before);
    if (soften(st, &why, &out->simulated, out->why) == LUO_OK) return LUO_OK;
    *err = why;
    return st;
}

/* ---- many ---- */

typedef struct desk { /* shared by the processes */
    _Atomic int32_t next, done;
    _Atomic int32_t failed; /* status of the first that did */
    luo_err err;
    luo_score score[];
} desk;

static void work(desk *d, const luo_case *one, int32_t n, bool closed_only, luo_score *out)
{
    for (int32_t i; !d->failed && (i = d->next++) < n;) {
        luo_arena *scratch = luo_arena_new(1 << 20);
        luo_err err = {0};
        const luo_status st = scratch ? luo_score_case(scratch, &one[i], closed_only, &out[i], &err)
                                      : luo_err_nomem(&err);
        luo_arena_free(scratch);
        d->done++;
        int32_t none = LUO_OK;
        if (st != LUO_OK && atomic_compare_exchange_strong(&d->failed, &none, (int32_t)st))
            d->err = err;
    }
}

typedef struct share { /* what a process is given */
    desk *d;
    const luo_case *one;
    int32_t n;
    luo_score *out;
} share;

static int do_share(void *ctx)
{
    const share *s = ctx;
    work(s->d, s->one, s->n, false, s->out);
    return 0;
}

/* A row whose process is ended (for want of memory) keeps what it had; the others go on. */
static void on_all_cores(luo_cli *cli, desk *d, const luo_case *one, int32_t n, luo_score *out)
{
    for (int32_t i = 0; i < n; i++) {
        out[i].closed = out[i].simulated = out[i].memory = LUO_EUNSUP;
        snprintf(out[i].why, sizeof out[i].why, "%s", ended);
    }
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    enum { MOST = 64 };
    luo_process process[MOST];
    share s = {d, one, n, out};
    int started = 0;
    fflush(NULL);
    const luo_process_opts opts = {.inside = do_share, .ctx = &s, .parent_signal = SIGKILL};
    while (started < cores && started < MOST && started < n &&
           luo_process_start(&opts, &process[started], NULL) == LUO_OK)
        started++;
    if (started == 0) work(d, one, n, false, out);
    luo_progress progress = luo_progress_new(cli);
    for (int i = 0; i < started; i++)
        while (!luo_process_wait(&process[i], 0.1))
            luo_progress_count(&progress, "validate", d->done, n, "rows");
    luo_progress_erase(&progress);
}

luo_status luo_score_cases(luo_cli *cli, const luo_case *one, int32_t n, bool closed_only,
                           luo_score *out, luo_err *err)
{
    const size_t bytes = sizeof(desk) + (size_t)n * sizeof(luo_score);
    desk *d = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (d == MAP_FAILED) return luo_err_nomem(err);
    luo_score *shared = d->score;
    luo_status st = closed_only ? LUO_OK : luo_sim_load(err);
    if (closed_only)
        work(d, one, n, true, shared);
    else if (st == LUO_OK)
        on_all_cores(cli, d, one, n, shared);
    if (st == LUO_OK && d->failed) {
        st = (luo_status)d->failed;
        if (err) *err = d->err;
    }
    if (n) memcpy(out, shared, (size_t)n * sizeof *out);
    munmap(d, bytes);
    return st;
}
