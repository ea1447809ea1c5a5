#include "core/run/judge.h"

#include <math.h>
#include <string.h>

#include "core/cost/profile.h"
#include "core/plan/compile.h"
#include "core/plan/planners.h"

static uint64_t key_of(const luo_judge *j, const luo_plan *p, int64_t tokens, const double *rate)
{
    uint64_t h = luo_plan_hash(p);
    h = luo_hash_bytes(h, &tokens, sizeof tokens);
    h = luo_hash_bytes(h, rate, (size_t)j->cluster->ndevices * sizeof *rate);
    return h ? h : 1;
}

int64_t luo_judge_bits(double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

double luo_judge_number(int64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static luo_status check(luo_arena *a, const luo_judge *j, const luo_plan *p, luo_err *err)
{
    luo_cluster healthy = *j->cluster;
    luo_plan_finding *f;
    int32_t n = 0;
    healthy.nhealth = 0;
    const luo_status st = luo_plan_check(a, p, j->model, &healthy, &f, &n);
    if (st == LUO_OK || n == 0) return st;
    return luo_err_set(err, f[0].st, "plan `%s` %s: %s", p->name, f[0].pointer, f[0].text);
}

static luo_status compile(luo_arena *a, const luo_judge *j, const luo_plan *given, int64_t tokens,
                          luo_programs **set, luo_err *err)
{
    luo_plan plan = *given;
    plan.bucket = luo_bucketing_over(plan.bucket, j->bucket);
    const luo_compile_opts opts = {.sequence_tokens = tokens, .interrupted = j->interrupted,
                                   .memory = luo_stack_memory(j->stack)};
    double ratio;
    int32_t device;
    LUO_TRY(check(a, j, &plan, err));
    LUO_TRY(luo_plan_compile(a, &plan, j->model, j->cluster, &opts, set, err));
    luo_memory *m = LUO_NEW_N(a, luo_memory, (*set)->n);
    if (!m) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(a, *set, m, err));
    return luo_plan_fits(luo_plan_hash(&plan), j->cluster, *set, m, &ratio, &device, err);
}

static luo_status simulate(luo_arena *a, const luo_judge *j, const luo_programs *set,
                           luo_dtype dtype, const double *rate, double *seconds, luo_err *err)
{
    const luo_backend_config config = {.cluster = j->cluster,
                                       .stack = j->stack,
                                       .model = j->model,
                                       .dtype = dtype,
                                       .comm = j->comm,
                                       .interrupted = j->interrupted,
                                       .fold = true};
    luo_backend_state *b;
    luo_world *world;
    luo_step_result r = {0};
    LUO_TRY(luo_world_new(a, j->cluster, &world, err));
    for (int32_t d = 0; d < world->ndevices; d++) {
        world->up[d] = true;
        world->slowdown[d] = isfinite(rate[d]) ? fmax(1, rate[d]) : 1;
    }
    LUO_TRY(j->simulator->open(&config, &b, err));
    const luo_step_request q = {.programs = set, .world = world};
    luo_status st = j->simulator->run_ranks(b, &q, &r, err);
    if (st == LUO_OK && r.status != LUO_OK) st = luo_err_set(err, r.status, "%s", r.text);
    *seconds = r.end_s - r.start_s;
    j->simulator->close(b);
    return st;
}

static bool usable(const luo_plan *p, const double *rate)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < p->pipelines[i].stages[s].ndev; k++)
                if (isinf(rate[p->pipelines[i].stages[s].dev[k]])) return false;
    return true;
}

luo_status luo_judge_step(luo_judge *j, const luo_plan *p, int64_t tokens, const double *rate,
                          double *seconds, luo_err *err)
{
    int64_t *known = luo_map_at(&j->known, key_of(j, p, tokens, rate), luo_judge_bits(-1));
    if (!known) return luo_err_nomem(err);
    *seconds = luo_judge_number(*known);
    if (*seconds >= 0) return LUO_OK;
    luo_arena *a = luo_arena_new(1 << 16);
    luo_programs *set = NULL;
    luo_status st = a ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK && !usable(p, rate))
        st = luo_err_set(err, LUO_EINFEASIBLE, "a device of plan `%s` is not usable.", p->name);
    if (st == LUO_OK) st = compile(a, j, p, tokens, &set, err);
    if (st == LUO_OK) st = simulate(a, j, set, p->dtype, rate, seconds, err);
    luo_arena_free(a);
    if (st == LUO_ENOMEM || st == LUO_EBACKEND || st == LUO_ECANCELED) return st;
    if (st != LUO_OK) *seconds = INFINITY;
    *known = luo_judge_bits(*seconds);
    return LUO_OK;
}

void luo_judge_free(luo_judge *j)
{
    luo_map_free(&j->known);
}
