/* plan_uniform.c: `luoshu plan uniform`: options in; the best plans, by simulated step or by
 * closed form, out. */
#include "cli/plan/plan_uniform.h"

#include <math.h>
#include <string.h>

#include "cli/run/progress.h"
#include "core/io/io.h"

/* ---- options ---- */

/* Options that say something to `malleus` alone. */
static luo_status refuse_others(const luo_cli *cli, luo_err *err)
{
    static const char *const theirs[] = {"micro-batches", "rates", "prev", "params", "grouping",
                                         "memory", "search-healthy", "stage-order", "seed"};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        if (luo_args_has(&cli->args, theirs[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is an option of planner `malleus`; leave "
                               "it out.", theirs[i]);
    if (strcmp(luo_args_get(&cli->args, "dp", ""), "auto") == 0)
        return luo_err_set(err, LUO_EUSAGE, "`--dp` is `auto`, which planner `malleus` knows; "
                           "leave it out.");
    return LUO_OK;
}

static luo_status read_schedule(const luo_args *a, luo_uniform_opts *o, luo_err *err)
{
    const char *name = luo_args_get(a, "schedule", NULL);
    luo_sched_kind kind;
    luo_err why = {0};
    int64_t chunks;
    LUO_TRY(luo_args_int(a, "chunks", 0, 1, 64, &chunks, err));
    o->chunks = (int32_t)chunks;
    o->schedule = chunks == 1 ? 1 + (int)LUO_SCHED_1F1B : -1;
    if (!name) return LUO_OK;
    if (luo_sched_parse(name, &kind, &why) != LUO_OK)
        return luo_err_set(err, LUO_EUSAGE, "`--schedule`: %s", why.text);
    o->schedule = 1 + (int)kind;
    return LUO_OK;
}

static luo_status read_dimensions(luo_cli *cli, luo_uniform_opts *o, luo_err *err)
{
    static const char *const layers[] = {"equal", "balanced"};
    static const char *const shards[] = {"full", "hybrid", "grad-op"};
    const luo_args *a = &cli->args;
    int how, shard;
    LUO_TRY(luo_plan_sizes(cli, true, o, err));
    LUO_TRY(read_schedule(a, o, err));
    LUO_TRY(luo_args_choice(a, "layers", (int)LUO_UNIFORM_BOTH, layers, 2, &how, err));
    LUO_TRY(luo_args_choice(a, "shard", -1, shards, 3, &shard, err));
    if (shard >= 0 && o->zero >= 0 && o->zero != 3)
        return luo_err_set(err, LUO_EUSAGE, "`--shard` is given with `--zero` %d; only ZeRO-3 has "
                           "shards.", o->zero);
    o->layers = (luo_uniform_layers)how;
    o->shard = shard < 0 ? -1 : 1 + shard;
    if (shard >= 0) o->zero = 3;
    o->types = true;
    return LUO_OK;
}

static luo_status read_call(luo_cli *cli, luo_uniform_call *c, luo_err *err)
{
    static const char *const ranks[] = {"simulated", "objective"};
    int64_t top;
    int rank;
    LUO_TRY(refuse_others(cli, err));
    LUO_TRY(luo_args_int(&cli->args, "top", 1, 1, 1000, &top, err));
    LUO_TRY(luo_args_choice(&cli->args, "rank", -1, ranks, 2, &rank, err));
    LUO_TRY(read_dimensions(cli, &c->opts, err));
    LUO_TRY(luo_cli_model(cli, &c->model));
    LUO_TRY(luo_cli_cluster(cli, &c->cluster));
    LUO_TRY(luo_cli_stack(cli, &c->stack));
    c->top = (int32_t)top;
    c->judged = rank < 0 ? LUO_JUDGED_AUTO : rank == 0 ? LUO_JUDGED_SIMULATED
                                                       : LUO_JUDGED_OBJECTIVE;
    c->opts.stack = &c->stack;
    c->by_simulation = luo_plan_is_judged(c->judged, c->cluster);
    return LUO_OK;
}

/* ---- planning ---- */

/* The programs of the first are checked as well. */
static luo_status check_first(luo_cli *cli, luo_uniform_call *c, luo_err *err)
{
    const luo_compile_opts opts = {.check = true, .bucket = c->stack.bucket,
                                   .memory = luo_stack_memory(&c->stack)};
    const luo_plan *p = c->plan[0].result->plan;
    luo_plan_finding *f;
    int32_t n;
    if (luo_plan_check(cli->arena, p, c->model, c->cluster, &f, &n) != LUO_OK)
        return luo_err_set(err, f[0].st, "%s", f[0].text);
    return luo_plan_compile(cli->arena, p, c->model, c->cluster, &opts, &c->set, err);
}

static luo_status by_simulation(luo_cli *cli, luo_uniform_call *c, luo_err *err)
{
    const luo_judge judge = luo_plan_judge(c->model, c->cluster, &c->stack);
    c->opts.top = c->top > LUO_JUDGE_BEST ? c->top : LUO_JUDGE_BEST;
    c->opts.families = LUO_JUDGE_FAMILIES;
    LUO_TRY(luo_plan_uniform(cli->arena, c->model, c->cluster, &c->opts, &c->found, &c->nfound,
                             err));
    LUO_TRY(luo_judge_uniform(cli->arena, &judge, c->found, c->nfound,
                              c->opts.sequence_tokens, NULL, &c->plan, &c->nplans, err));
    c->closed = c->plan[0].result;
    for (int32_t i = 0; i < c->nplans; i++)
        if (c->plan[i].result < c->closed) c->closed = c->plan[i].result;
    return check_first(cli, c, err);
}

static luo_status by_closed_form(luo_cli *cli, luo_uniform_call *c, luo_err *err)
{
    c->opts.top = c->top;
    LUO_TRY(luo_plan_uniform_fitting(cli->arena, c->model, c->cluster, &c->opts, &c->found,
                                     &c->nplans, &c->set, err));
    c->nfound = c->nplans;
    c->plan = LUO_NEW_N(cli->arena, luo_judged_plan, c->nplans);
    if (!c->plan) return luo_err_nomem(err);
    for (int32_t i = 0; i < c->nplans; i++)
        c->plan[i] = (luo_judged_plan){.result = &c->found[i], .step = {.seconds = -1}};
    c->closed = c->found;
    return LUO_OK;
}

/* The first of those that were ranked by closed form. */
static luo_status simulate_first(luo_cli *cli, luo_uniform_call *c, luo_err *err)
{
    const luo_judge judge = luo_plan_judge(c->model, c->cluster, &c->stack);
    if (c->by_simulation) return LUO_OK;
    return luo_judge_simulate(cli->arena, &judge, c->set, c->found[0].plan->dtype, NULL,
                              &c->plan[0].step, err);
}

/* ---- doubts ---- */

static void warn(luo_cli *cli, luo_uniform_call *c, const char *sentence)
{
    if (!sentence) return;
    luo_cli_note(cli, LUO_WARNING, "%s", sentence);
    c->warning[c->nwarnings++] = sentence;
}

/* Usable devices that are in no stage. */
static luo_status idle_set(luo_cli *cli, const luo_uniform_call *c, const luo_plan *p,
                           const char **text, luo_err *err)
{
    const luo_cluster *cluster = c->cluster;
    bool *used = LUO_NEW_N(cli->arena, bool, cluster->ndevices);
    int32_t *idle = LUO_NEW_N(cli->arena, int32_t, cluster->ndevices), *dev, n, nidle = 0;
    luo_world *w;
    luo_str s = {0};
    if (!used || !idle) return luo_err_nomem(err);
    LUO_TRY(luo_plan_devices(cli->arena, p, &dev, &n, err));
    LUO_TRY(luo_world_new(cli->arena, cluster, &w, err));
    for (int32_t i = 0; i < n; i++) used[dev[i]] = true;
    for (int32_t i = 0; i < cluster->nstandby; i++) used[cluster->standby[i]] = true;
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (!used[d] && w->up[d]) idle[nidle++] = d;
    luo_devset_print(&s, idle, nidle);
    *text = luo_arena_strdup(cli->arena, luo_str_get(&s));
    luo_str_free(&s);
    return *text ? LUO_OK : luo_err_nomem(err);
}

static luo_status say_doubts(luo_cli *cli, luo_uniform_call *c, luo_err *err)
{
    const luo_judged_plan *first = &c->plan[0];
    const char *which = "";
    if (first->result->idle > 0) LUO_TRY(idle_set(cli, c, first->result->plan, &which, err));
    warn(cli, c, luo_plan_apart(cli->arena, first->step.seconds, first->result->objective_s));
    warn(cli, c, luo_plan_idle(cli->arena, first->result->idle, which));
    return LUO_OK;
}

int32_t luo_uniform_rows(const luo_uniform_call *c)
{
    return c->top < c->nplans ? c->top : c->nplans;
}

luo_status luo_plan_uniform_run(luo_cli *cli, luo_err *err)
{
    luo_uniform_call *c = LUO_NEW(cli->arena, luo_uniform_call);
    if (!c) return luo_err_nomem(err);
    LUO_TRY(read_call(cli, c, err));
    const double start = luo_wall_s();
    LUO_TRY(c->by_simulation ? by_simulation(cli, c, err) : by_closed_form(cli, c, err));
    c->planning_s = luo_wall_s() - start;
    LUO_TRY(simulate_first(cli, c, err));
    LUO_TRY(say_doubts(cli, c, err));
    for (int32_t i = 0; i < luo_uniform_rows(c); i++)
        LUO_TRY(luo_plan_write(cli, i, c->plan[i].result->plan, err));
    if (cli->as_json) luo_uniform_json(cli, c);
    else luo_uniform_text(cli, c);
    return LUO_OK;
}
