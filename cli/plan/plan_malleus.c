/* plan_malleus.c: `luoshu plan malleus`: options in, plan, transition, simulated step out. */
#include "cli/plan/plan_malleus.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/run/progress.h"
#include "core/io/read/read.h"

void luo_malleus_call_warn(luo_cli *cli, luo_malleus_call *call, luo_severity severity,
                           const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    luo_cli_note(cli, severity, "%s", text);
    const char *copy =
        call->nwarnings < LUO_CALL_WARNINGS ? luo_arena_strdup(cli->arena, text) : NULL;
    if (copy) call->warning[call->nwarnings++] = copy;
}

/* ---- options ---- */

static luo_status read_params(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    static const char *const forms[] = {"table", "model"};
    const char *path = luo_args_get(&cli->args, "params", NULL);
    int form;
    if (path) {
        luo_params params;
        LUO_TRY(luo_read_params(cli->arena, path, &params, &cli->diags));
        call->params = params.malleus;
        call->job.params = &call->params;
    }
    LUO_TRY(
        luo_args_choice(&cli->args, "memory", call->params.nk > 0 ? 0 : 1, forms, 2, &form, err));
    call->job.memory_table = form == 0;
    if (form == 0 && call->params.nk == 0)
        return luo_err_set(err, LUO_EUSAGE, "`--memory` is `table`, but there is none; give "
                           "`k_mib` in --params.");
    return LUO_OK;
}

static luo_status read_search(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    static const luo_judged judged[] = {LUO_JUDGED_LIST(LUO_WORD_VALUE)};
    static const char *const ranks[] = {LUO_MALLEUS_RANK_LIST(LUO_WORD_ONLY)
                                            LUO_JUDGED_LIST(LUO_WORD_ONLY)};
    static const char *const groupings[] = {LUO_MALLEUS_GROUPING_LIST(LUO_WORD_TEXT)};
    enum { RANKS = sizeof ranks / sizeof *ranks, OWN = RANKS - sizeof judged / sizeof *judged };
    static const char *const orders[] = {"falling", "rising"};
    const luo_args *args = &cli->args;
    int64_t top, seed;
    int rank, grouping, order;
    LUO_TRY(luo_args_choice(args, "rank", 0, ranks, RANKS, &rank, err));
    LUO_TRY(luo_args_choice(args, "grouping", 0, groupings, 2, &grouping, err));
    LUO_TRY(luo_args_choice(args, "stage-order", 0, orders, 2, &order, err));
    LUO_TRY(luo_args_int(args, "top", 0, 1, 1000, &top, err));
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &seed, err));
    call->judged = !luo_args_has(args, "rank") ? LUO_JUDGED_AUTO
                   : rank < OWN                ? LUO_JUDGED_PUBLISHED
                                               : judged[rank - OWN];
    call->job.rank = rank < OWN ? (luo_malleus_rank)rank : LUO_RANK_FILLED;
    call->job.split2 = grouping == 1;
    call->job.rising = order == 1;
    call->job.top_k = (int32_t)top;
    call->job.seed = (uint64_t)seed;
    call->job.search_healthy = luo_args_has(args, "search-healthy");
    return LUO_OK;
}

static luo_status read_job(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    LUO_TRY(read_search(cli, call, err));
    LUO_TRY(luo_cli_model(cli, &call->model));
    LUO_TRY(luo_cli_cluster(cli, &call->cluster));
    LUO_TRY(luo_cli_stack(cli, &call->stack));
    call->healthy = *call->cluster;
    call->healthy.nhealth = 0;
    LUO_TRY(read_params(cli, call, err));
    LUO_TRY(luo_malleus_call_base(cli, call, err));
    LUO_TRY(luo_malleus_call_rates(cli, call, err));
    call->job.model = call->model;
    call->job.cluster = call->cluster;
    call->job.stack = &call->stack;
    call->job.rate = call->rate;
    call->job.candidate = call->candidate;
    return LUO_OK;
}

/* ---- planning ---- */

static luo_status plan_once(luo_cli *cli, luo_malleus_call *call, luo_programs **set, luo_err *err)
{
    const luo_compile_opts opts = {
        .check = true, .bucket = call->stack.bucket, .memory = luo_stack_memory(&call->stack)};
    luo_plan_finding *finding;
    int32_t n;
    const double start = luo_cli_wall_s();
    luo_status st = luo_plan_malleus(cli->arena, &call->job, &call->answer, err);
    if (st == LUO_OK) st = luo_malleus_call_choose(cli, call, err);
    call->planning_s += luo_cli_wall_s() - start;
    LUO_TRY(st);
    const luo_plan *plan = call->answer.plan;
    if (luo_plan_check(cli->arena, plan, call->model, call->cluster, &finding, &n) != LUO_OK)
        return luo_err_set(err, finding[0].st, "%s", finding[0].text);
    LUO_TRY(luo_plan_compile(cli->arena, plan, call->model, call->cluster, &opts, set, err));
    return luo_cli_fits(cli, plan, call->cluster, *set, err);
}

enum { TRIES = 8, SIMULATED = 1024 }; /* devices of a cluster whose answer is simulated unasked */

/* Caps are estimates; the compiled plan decides. What does not fit is planned again with less. */
static luo_status plan_fitting(luo_cli *cli, luo_malleus_call *call, luo_programs **set,
                               luo_err *err)
{
    luo_status st = LUO_EOOM;
    call->job.memory_factor = 1;
    for (int i = 0; i < TRIES; i++) {
        luo_err now = {0};
        st = plan_once(cli, call, set, &now);
        if (st == LUO_OK && i > 0)
            luo_malleus_call_warn(cli, call, LUO_NOTE,
                                  "planned for %.0f %% of the memory; with more the "
                                  "compiled plan does not fit.",
                                  100 * call->job.memory_factor);
        if (st != LUO_EINFEASIBLE || i == 0) *err = now; /* else what did not fit says more */
        if (st != LUO_EOOM) return st;
        call->job.memory_factor *= 0.9;
    }
    return st;
}

/* The caps of the search are estimates; what is told of the plan is what its programs take. */
static luo_status weigh_programs(luo_cli *cli, luo_malleus_call *call, const luo_programs *set,
                                 luo_err *err)
{
    luo_memory *memory = LUO_NEW_N(cli->arena, luo_memory, set->n);
    call->peak = LUO_NEW_N(cli->arena, int64_t, call->cluster->ndevices);
    if (!memory || !call->peak) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(cli->arena, set, memory, err));
    for (int32_t i = 0; i < set->n; i++) call->peak[set->at[i].device] = memory[i].peak;
    return LUO_OK;
}

static void say_findings(luo_cli *cli, luo_malleus_call *call)
{
    const luo_malleus_found *found = call->answer.found;
    const bool own = call->offers.n == 0 || strcmp(call->offers.at[0].from, "malleus") == 0;
    if (own && found->dp < call->job.base->npipelines)
        luo_malleus_call_warn(cli, call, LUO_NOTE, "no plan has %d pipelines; this one has %d.",
                              call->job.base->npipelines, found->dp);
    if (found->few)
        luo_malleus_call_warn(cli, call, LUO_WARNING,
                              "fewer micro-batches than stages; every pipeline has "
                              "one at least.");
}

/* ---- the way from the running plan (12, 5) ---- */

static const double PAYBACK_STEPS = 50;

static luo_status transition(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    const luo_malleus_answer *answer = &call->answer;
    luo_err why = {0};
    double now, then;
    if (!call->prev) return LUO_OK;
    const luo_status st =
        luo_transition_cost(cli->arena, call->prev, answer->plan, call->model, call->cluster,
                            answer->nexcluded, answer->excluded, &call->move, &why);
    call->lost = st == LUO_ELOST;
    call->adopt = call->lost;
    if (call->lost)
        luo_malleus_call_warn(cli, call, LUO_WARNING, "%.300s A checkpoint is needed.", why.text);
    if (st != LUO_OK) return call->lost ? LUO_OK : luo_err_set(err, st, "%s", why.text);
    LUO_TRY(luo_malleus_event_s(cli->arena, &call->job, call->prev, &now, err));
    LUO_TRY(luo_malleus_event_s(cli->arena, &call->job, answer->plan, &then, err));
    call->adopt = isinf(now) || (now - then) * PAYBACK_STEPS > call->move.seconds;
    return LUO_OK;
}

static luo_status simulate_answer(luo_cli *cli, luo_malleus_call *call, const luo_programs *set)
{
    const luo_dtype dtype = call->answer.plan->dtype;
    luo_cli_say_vocab(cli, call->answer.plan, call->model);
    LUO_TRY(luo_cli_one_step(cli, set, call->cluster, &call->stack, dtype, call->rate,
                             &call->step_s));
    LUO_TRY(luo_cli_step_range(cli, set, call->cluster, &call->stack, dtype, call->rate,
                               &call->range));
    luo_cli_range_warn(cli, call->cluster, &call->stack, &call->range);
    return LUO_OK;
}

static luo_status run(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    luo_programs *set = NULL;
    LUO_TRY(read_job(cli, call, err));
    LUO_TRY(plan_fitting(cli, call, &set, err));
    LUO_TRY(weigh_programs(cli, call, set, err));
    say_findings(cli, call);
    LUO_TRY(transition(cli, call, err));
    call->step_s = -1; /* of a large plan whose pipelines differ it takes minutes */
    if (call->judged == LUO_JUDGED_SIMULATED || call->cluster->ndevices <= SIMULATED)
        LUO_TRY(simulate_answer(cli, call, set));
    call->program = set->hash;
    return luo_plan_write(cli, 0, call->answer.plan, err);
}

luo_status luo_plan_malleus_run(luo_cli *cli, luo_err *err)
{
    luo_malleus_call *call = LUO_NEW(cli->arena, luo_malleus_call);
    if (!call) return luo_err_nomem(err);
    const luo_status st = run(cli, call, err);
    if (cli->as_json)
        LUO_TRY(luo_malleus_call_json(cli, call, st, err));
    else if (st == LUO_OK)
        luo_malleus_call_text(cli, call);
    return st;
}
