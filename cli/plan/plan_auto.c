/* plan_auto.c: `luoshu plan auto`: every planner's best plan, the fastest of them on the simulator,
 * and why. */
#include "cli/plan/plan_auto.h"

#include <math.h>
#include <string.h>

#include "cli/lengths/plan_hydraulis.h"
#include "cli/plan/plan_rates.h"
#include "cli/plan/plan_uniform.h"
#include "cli/run/progress.h"
#include "core/io/read/read.h"

/* ---- options ---- */

/* Is it about sequences that differ in length, or about those that do not? Planners say so. */
static bool is_others(const char *option, bool uneven)
{
    const luo_planner *lengths = luo_planner_find("hydraulis"),
                      *uniform = luo_planner_find("uniform"),
                      *malleus = luo_planner_find("malleus");
    const bool of_lengths = luo_planner_has(lengths, option);
    const bool of_one = luo_planner_has(uniform, option) || luo_planner_has(malleus, option);
    if (uneven && strcmp(option, "top") == 0) return true; /* there is one answer */
    return uneven ? of_one && !of_lengths : of_lengths && (!of_one || strcmp(option, "seed") == 0);
}

static luo_status check_kind(const luo_args *args, luo_err *err)
{
    const bool uneven = luo_args_has(args, "lengths");
    for (int i = 0; i < args->nset; i++) {
        const char *option = args->set[i].option->name;
        if (!is_others(option, uneven)) continue;
        return luo_err_set(err, LUO_EUSAGE,
                           uneven ? "`--%s` is about sequences of one length, and `--lengths` "
                                    "is given; leave one out."
                                  : "`--%s` is about `--lengths`, which is not given; give "
                                    "it, or leave the other out.",
                           option);
    }
    return LUO_OK;
}

static luo_status read_pins(luo_cli *cli, luo_auto_call *call, luo_err *err)
{
    const char *path = luo_args_get(&cli->args, "prev", NULL);
    luo_plan *prev;
    if (!path) return LUO_OK;
    LUO_TRY(luo_cli_plan(cli, path, call->model, call->cluster, &prev, NULL));
    if (prev->npinned == 0)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--prev` %s pins nothing; give it `pinned` parts, or leave it out.",
                           path);
    call->in.pinned = prev;
    const char *unlike = NULL, *pin = luo_auto_pin_sizes(prev, &call->in.opts, &unlike);
    if (!unlike) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--%s` asks for something else than %s has, where %s is pinned; leave one "
                       "of them out.",
                       unlike, path, pin);
}

/* The model was read to tell whether it has tables. */
static luo_status read_call(luo_cli *cli, luo_auto_call *call, luo_err *err)
{
    static const char *const ranks[] = {LUO_JUDGED_LIST(LUO_WORD_ONLY)};
    static const luo_judged judged[] = {LUO_JUDGED_LIST(LUO_WORD_VALUE)};
    int rank;
    LUO_TRY(
        luo_args_choice(&cli->args, "rank", -1, ranks, sizeof ranks / sizeof *ranks, &rank, err));
    LUO_TRY(luo_uniform_dimensions(cli, &call->in.opts, err));
    LUO_TRY(luo_plan_seq_length(&cli->args, call->model, &call->in.opts.sequence_tokens, err));
    LUO_TRY(luo_cli_cluster(cli, &call->cluster));
    LUO_TRY(luo_cli_stack(cli, &call->stack));
    LUO_TRY(luo_plan_rates(cli, call->cluster, &call->rate, &call->candidate, err));
    call->in.opts.stack = &call->stack;
    call->in.simulated =
        luo_plan_is_judged(rank < 0 ? LUO_JUDGED_AUTO : judged[rank], call->cluster);
    return read_pins(cli, call, err);
}

/* ---- planning ---- */

typedef struct watch { /* what the line of progress shows */
    luo_progress line;
    const char *at; /* "malleus": planner at work */
    int64_t done;   /* parts: planners, and the ranges of their answers */
    int32_t steps;  /* simulated until now */
} watch;
enum { PARTS = LUO_AUTO_PLANNERS + 1 };

static void show(watch *w)
{
    luo_progress_parts(&w->line, w->at, w->done, PARTS, w->steps);
}

static void see_planner(void *watcher, luo_auto_planner planner, int32_t n)
{
    watch *w = watcher;
    w->at = luo_auto_planner_name(planner);
    w->done = n;
    show(w);
}

static void see_step(void *watcher)
{
    watch *w = watcher;
    show(w);
    w->steps++;
}

static luo_status ask(luo_cli *cli, luo_auto_call *call, luo_err *err)
{
    call->scenario =
        (luo_scenario){.model = call->model, .cluster = call->cluster, .stack = call->stack};
    luo_read_policy_defaults(&call->spec, "malleus");
    call->in.judge = &call->judge;
    call->in.rate = call->rate;
    call->in.candidate = call->candidate;
    call->in.scenario = &call->scenario;
    call->in.spec = &call->spec;
    const double start = luo_cli_wall_s();
    const luo_status st = luo_auto_plan(cli->arena, &call->in, &call->answer, err);
    call->planning_s = luo_cli_wall_s() - start;
    return st;
}

/* The winner, compiled and checked once more. */
static luo_status check_winner(luo_cli *cli, luo_auto_call *call, luo_err *err)
{
    const luo_compile_opts opts = {
        .check = true, .bucket = call->stack.bucket, .memory = luo_stack_memory(&call->stack)};
    const luo_plan *plan = call->answer.at[call->answer.best].plan;
    luo_programs *set;
    luo_cli_say_vocab(cli, plan, call->model);
    LUO_TRY(luo_plan_compile(cli->arena, plan, call->model, call->cluster, &opts, &set, err));
    call->program = set->hash;
    return LUO_OK;
}

/* What the winner's step would gain by faster links, if communication limits it. */
static luo_status try_links(luo_cli *cli, luo_auto_call *call, luo_err *err)
{
    const luo_auto_candidate *best = &call->answer.at[call->answer.best];
    luo_plan_share share[LUO_PLAN_SHARES];
    luo_plan_shares(&best->step, share);
    const luo_plan_share *limit = luo_plan_share_limit(share, LUO_PLAN_SHARES, best->step.seconds);
    for (int k = 0; k < LUO_PLAN_LINKS; k++) {
        call->faster_s[k] = NAN;
        if (!limit || !limit->communication) continue;
        LUO_TRY(luo_plan_with_faster(cli->arena, &call->judge, best->plan, call->rate,
                                     (luo_plan_links)k, &call->faster_s[k], err));
    }
    return LUO_OK;
}

/* Of every planner's plan, equal ones once. */
static luo_status find_ranges(luo_cli *cli, luo_auto_call *call, luo_err *err)
{
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) {
        const luo_plan *plan = call->answer.at[k].plan;
        int same = 0;
        if (!plan) continue;
        while (same < k && !(call->answer.at[same].plan &&
                             luo_plan_hash(call->answer.at[same].plan) == luo_plan_hash(plan)))
            same++;
        if (same < k)
            call->range[k] = call->range[same];
        else
            LUO_TRY(luo_judge_range_of_plan(cli->arena, &call->judge, plan, plan->sequence_tokens,
                                            call->rate, &cli->work, &call->range[k], err));
    }
    luo_cli_range_warn(cli, call->cluster, &call->stack, &call->range[call->answer.best]);
    return LUO_OK;
}

static luo_status make_plan(luo_cli *cli, luo_auto_call *call, luo_err *err)
{
    watch seen = {.line = luo_progress_new(cli), .at = "begins"};
    call->judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    call->judge.watch = see_step;
    call->judge.watcher = &seen;
    call->in.asks = see_planner;
    luo_status st = ask(cli, call, err);
    seen.at = "ranges of the answers";
    seen.done = LUO_AUTO_PLANNERS;
    if (st == LUO_OK) st = check_winner(cli, call, err);
    if (st == LUO_OK) st = try_links(cli, call, err);
    if (st == LUO_OK) st = find_ranges(cli, call, err);
    luo_progress_erase(&seen.line);
    call->judge.watcher = NULL;
    call->judge.watch = NULL;
    luo_judge_free(&call->judge);
    return st;
}

/* The best of the candidates, those that differ, fastest first. */
static luo_status write_plans(luo_cli *cli, const luo_auto_call *call, luo_err *err)
{
    bool written[LUO_AUTO_PLANNERS] = {false};
    int64_t top;
    LUO_TRY(luo_args_int(&cli->args, "top", 1, 1, 1000, &top, err));
    for (int32_t rank = 0; rank < top; rank++) {
        int next = -1;
        for (int k = 0; k < LUO_AUTO_PLANNERS; k++) {
            const luo_auto_candidate *candidate = &call->answer.at[k];
            if (candidate->plan && !written[k] &&
                (next < 0 || candidate->step.seconds < call->answer.at[next].step.seconds))
                next = k;
        }
        if (rank == 0) next = call->answer.best;
        if (next < 0) break;
        for (int k = 0; k < LUO_AUTO_PLANNERS; k++) /* equal plans are written once */
            written[k] |= call->answer.at[k].plan && luo_plan_hash(call->answer.at[k].plan) ==
                                                         luo_plan_hash(call->answer.at[next].plan);
        LUO_TRY(luo_plan_write(cli, rank, call->answer.at[next].plan, err));
    }
    return LUO_OK;
}

luo_status luo_plan_auto_run(luo_cli *cli, luo_err *err)
{
    luo_auto_call *call = LUO_NEW(cli->arena, luo_auto_call);
    if (!call) return luo_err_nomem(err);
    if (luo_args_has(&cli->args, "lengths")) {
        LUO_TRY(check_kind(&cli->args, err));
        return luo_auto_of_lengths(cli, err);
    }
    LUO_TRY(luo_cli_model(cli, &call->model));
    if (luo_model_has_tables(call->model)) return luo_auto_of_tables(cli, call->model, err);
    LUO_TRY(check_kind(&cli->args, err));
    LUO_TRY(luo_auto_no_tables(&cli->args, err));
    LUO_TRY(read_call(cli, call, err));
    LUO_TRY(make_plan(cli, call, err));
    LUO_TRY(write_plans(cli, call, err));
    if (cli->as_json)
        luo_auto_json(cli, call);
    else
        luo_auto_text(cli, call);
    return LUO_OK;
}
