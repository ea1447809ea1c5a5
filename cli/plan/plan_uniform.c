/* plan_uniform.c: `luoshu plan uniform`: options in; the best plans, by simulated step or by
 * closed form, out. */
#include "cli/plan/plan_uniform.h"

#include <math.h>
#include <string.h>

#include "cli/run/progress.h"
#include "core/base/devset.h"
#include "core/io/io.h"

/* ---- options ---- */

static luo_status read_schedule(const luo_args *args, luo_uniform_opts *opts, luo_err *err)
{
    const char *names[LUO_SCHEDS];
    int64_t chunks;
    int which;
    for (int i = 0; i < LUO_SCHEDS; i++) names[i] = luo_sched_name((luo_sched_kind)i);
    LUO_TRY(luo_args_int(args, "chunks", 0, 1, 64, &chunks, err));
    LUO_TRY(luo_args_choice(args, "schedule", -1, names, LUO_SCHEDS, &which, err));
    opts->chunks = (int32_t)chunks;
    opts->schedule = which >= 0 ? 1 + which : chunks == 1 ? 1 + (int)LUO_SCHED_1F1B : -1;
    return LUO_OK;
}

luo_status luo_uniform_dimensions(luo_cli *cli, luo_uniform_opts *opts, luo_err *err)
{
    static const char *const layers[] = {"equal", "balanced"};
    static const char *const shards[] = {LUO_SHARD_LIST(LUO_WORD_TEXT)};
    const luo_args *args = &cli->args;
    int how, shard;
    LUO_TRY(luo_plan_sizes(cli, true, opts, err));
    LUO_TRY(read_schedule(args, opts, err));
    LUO_TRY(luo_args_choice(args, "layers", (int)LUO_UNIFORM_BOTH, layers, 2, &how, err));
    LUO_TRY(luo_args_choice(args, "shard", -1, shards, LUO_SHARDS, &shard, err));
    if (shard >= 0 && opts->zero >= 0 && opts->zero != 3)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--shard` is given with `--zero` %d; only ZeRO-3 has "
                           "shards.",
                           opts->zero);
    opts->layers = (luo_uniform_layers)how;
    opts->shard = shard < 0 ? -1 : 1 + shard;
    if (shard >= 0) opts->zero = 3;
    opts->types = true;
    return LUO_OK;
}

static luo_status read_call(luo_cli *cli, luo_uniform_call *call, luo_err *err)
{
    static const char *const ranks[] = {LUO_JUDGED_LIST(LUO_WORD_ONLY)};
    static const luo_judged judged[] = {LUO_JUDGED_LIST(LUO_WORD_VALUE)};
    int64_t top;
    int rank;
    LUO_TRY(luo_args_int(&cli->args, "top", 1, 1, 1000, &top, err));
    LUO_TRY(
        luo_args_choice(&cli->args, "rank", -1, ranks, sizeof ranks / sizeof *ranks, &rank, err));
    LUO_TRY(luo_uniform_dimensions(cli, &call->opts, err));
    LUO_TRY(luo_cli_model(cli, &call->model));
    LUO_TRY(luo_plan_seq_length(&cli->args, call->model, &call->opts.sequence_tokens, err));
    LUO_TRY(luo_cli_cluster(cli, &call->cluster));
    LUO_TRY(luo_cli_stack(cli, &call->stack));
    call->top = (int32_t)top;
    call->judged = rank < 0 ? LUO_JUDGED_AUTO : judged[rank];
    call->opts.stack = &call->stack;
    call->by_simulation = luo_plan_is_judged(call->judged, call->cluster);
    return LUO_OK;
}

/* ---- planning ---- */

/* The programs of the first are checked as well. */
static luo_status check_first(luo_cli *cli, luo_uniform_call *call, luo_err *err)
{
    const luo_compile_opts opts = {
        .check = true, .bucket = call->stack.bucket, .memory = luo_stack_memory(&call->stack)};
    const luo_plan *plan = call->plan[0].result->plan;
    luo_plan_finding *finding;
    int32_t n;
    if (luo_plan_check(cli->arena, plan, call->model, call->cluster, &finding, &n) != LUO_OK)
        return luo_err_set(err, finding[0].st, "%s", finding[0].text);
    return luo_plan_compile(cli->arena, plan, call->model, call->cluster, &opts, &call->set, err);
}

static luo_status by_simulation(luo_cli *cli, luo_uniform_call *call, luo_err *err)
{
    const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    call->opts.top = call->top > LUO_JUDGE_BEST ? call->top : LUO_JUDGE_BEST;
    call->opts.families = LUO_JUDGE_FAMILIES;
    LUO_TRY(luo_plan_uniform(cli->arena, call->model, call->cluster, &call->opts, &call->found,
                             &call->nfound, err));
    LUO_TRY(luo_judge_uniform(cli->arena, &judge, call->found, call->nfound,
                              call->opts.sequence_tokens, NULL, &call->plan, &call->nplans, err));
    call->closed = call->plan[0].result;
    for (int32_t i = 0; i < call->nplans; i++)
        if (call->plan[i].result < call->closed) call->closed = call->plan[i].result;
    return check_first(cli, call, err);
}

static luo_status by_closed_form(luo_cli *cli, luo_uniform_call *call, luo_err *err)
{
    call->opts.top = call->top;
    LUO_TRY(luo_plan_uniform_fitting(cli->arena, call->model, call->cluster, &call->opts,
                                     &call->found, &call->nplans, &call->set, err));
    call->nfound = call->nplans;
    call->plan = LUO_NEW_N(cli->arena, luo_judged_plan, call->nplans);
    if (!call->plan) return luo_err_nomem(err);
    for (int32_t i = 0; i < call->nplans; i++)
        call->plan[i] = (luo_judged_plan){.result = &call->found[i], .step = {.seconds = -1}};
    call->closed = call->found;
    return LUO_OK;
}

/* The first of those that were ranked by closed form. */
static luo_status simulate_first(luo_cli *cli, luo_uniform_call *call, luo_err *err)
{
    const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    if (call->by_simulation) return LUO_OK;
    return luo_judge_simulate(cli->arena, &judge, call->set, call->found[0].plan->dtype, NULL,
                              &call->plan[0].step, err);
}

/* Of the first, and whether the second is apart from it. */
static luo_status find_ranges(luo_cli *cli, luo_uniform_call *call, luo_err *err)
{
    const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    const luo_judged_plan *first = &call->plan[0], *second = &call->plan[1];
    luo_time_range other;
    LUO_TRY(luo_judge_range(cli->arena, &judge, call->set, first->result->plan->dtype, NULL,
                            &cli->work, &call->range, err));
    call->apart = "";
    luo_cli_range_warn(cli, call->cluster, &call->stack, &call->range);
    if (!call->by_simulation || call->nplans < 2) return LUO_OK;
    LUO_TRY(luo_judge_range_of_plan(cli->arena, &judge, second->result->plan,
                                    call->opts.sequence_tokens, NULL, &cli->work, &other, err));
    call->apart =
        luo_cli_range_apart(&call->range, first->step.seconds, &other, second->step.seconds);
    return LUO_OK;
}

/* ---- doubts ---- */

static void warn(luo_cli *cli, luo_uniform_call *call, const char *sentence)
{
    if (!sentence) return;
    luo_cli_note(cli, LUO_WARNING, "%s", sentence);
    call->warning[call->nwarnings++] = sentence;
}

/* Usable devices that are in no stage. */
static luo_status idle_set(luo_cli *cli, const luo_uniform_call *call, const luo_plan *plan,
                           const char **text, luo_err *err)
{
    const luo_cluster *cluster = call->cluster;
    bool *used = LUO_NEW_N(cli->arena, bool, cluster->ndevices);
    int32_t *idle = LUO_NEW_N(cli->arena, int32_t, cluster->ndevices), *dev, n, nidle = 0;
    luo_world *world;
    luo_str s = {0};
    if (!used || !idle) return luo_err_nomem(err);
    LUO_TRY(luo_plan_devices(cli->arena, plan, &dev, &n, err));
    LUO_TRY(luo_world_new(cli->arena, cluster, &world, err));
    for (int32_t i = 0; i < n; i++) used[dev[i]] = true;
    for (int32_t i = 0; i < cluster->nstandby; i++) used[cluster->standby[i]] = true;
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (!used[d] && world->up[d]) idle[nidle++] = d;
    luo_devset_print(&s, idle, nidle);
    *text = luo_arena_strdup(cli->arena, luo_str_get(&s));
    luo_str_free(&s);
    return *text ? LUO_OK : luo_err_nomem(err);
}

static luo_status say_doubts(luo_cli *cli, luo_uniform_call *call, luo_err *err)
{
    const luo_judged_plan *first = &call->plan[0];
    const char *which = "";
    luo_cli_say_vocab(cli, first->result->plan, call->model);
    if (first->result->idle > 0) LUO_TRY(idle_set(cli, call, first->result->plan, &which, err));
    warn(cli, call, luo_plan_apart(cli->arena, first->step.seconds, first->result->objective_s));
    warn(cli, call, luo_plan_idle(cli->arena, first->result->idle, which));
    return LUO_OK;
}

int32_t luo_uniform_rows(const luo_uniform_call *call)
{
    return call->top < call->nplans ? call->top : call->nplans;
}

luo_status luo_plan_uniform_run(luo_cli *cli, luo_err *err)
{
    luo_uniform_call *call = LUO_NEW(cli->arena, luo_uniform_call);
    if (!call) return luo_err_nomem(err);
    LUO_TRY(read_call(cli, call, err));
    const double start = luo_cli_wall_s();
    LUO_TRY(call->by_simulation ? by_simulation(cli, call, err) : by_closed_form(cli, call, err));
    call->planning_s = luo_cli_wall_s() - start;
    LUO_TRY(simulate_first(cli, call, err));
    LUO_TRY(find_ranges(cli, call, err));
    LUO_TRY(say_doubts(cli, call, err));
    for (int32_t i = 0; i < luo_uniform_rows(call); i++)
        LUO_TRY(luo_plan_write(cli, i, call->plan[i].result->plan, err));
    if (cli->as_json)
        luo_uniform_json(cli, call);
    else
        luo_uniform_text(cli, call);
    return LUO_OK;
}
