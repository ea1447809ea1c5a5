/* cli/verb_plan.c: `luoshu plan`: which planner, and `uniform`. */
#include <string.h>

#include "cli/plan.h"
#include "cli/progress.h"
#include "core/base/words.h"
#include "core/io/io.h"

typedef struct answer {
    const luo_uniform_result *found;
    int32_t n;
    double step_s, planning_s;
    uint64_t program;
} answer;

static void print_text(luo_cli *cli, const answer *a)
{
    FILE *out = luo_cli_out(cli);
    char h[17], g[17];
    fprintf(out, "%-4s %-16s %3s %3s %3s %3s %3s %-9s %4s %12s %12s %7s  %s\n", "rank", "plan",
            "tp", "cp", "pp", "dp", "mb", "recompute", "zero", "objective_s", "bound_s", "memory",
            "file");
    for (int32_t i = 0; i < a->n; i++) {
        static const char *const how[] = {"none", "selective", "full"};
        const luo_uniform_result *r = &a->found[i];
        const luo_pipeline *p = &r->plan->pipelines[0];
        fprintf(out, "%-4d %-16s %3d %3d %3d %3d %3d %-9s %4d %12.6f %12.6f %6.1f%%  %s\n", i + 1,
                luo_hash_print(luo_plan_hash(r->plan), h), luo_stage_tp(&p->stages[0]),
                p->stages[0].context_parallel, p->nstages,
                r->plan->npipelines, p->micro_batch_sequences, how[p->stages[0].recompute],
                r->plan->zero, r->objective_s, r->bound_s, 100 * r->memory_ratio,
                luo_plan_file(cli, i));
    }
    fprintf(out, "simulated step of the first: %.6f s (program %s)\nplanning: %.3f s\n", a->step_s,
            luo_hash_print(a->program, g), a->planning_s);
}

static void print_json(luo_cli *cli, const answer *a)
{
    luo_jsonw *j = &cli->json;
    char h[17];
    luo_jsonw_open(j, "plans", '[');
    for (int32_t i = 0; i < a->n; i++) {
        const luo_uniform_result *r = &a->found[i];
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_text(j, "plan_hash", luo_hash_print(luo_plan_hash(r->plan), h));
        luo_jsonw_text(j, "file", luo_plan_file(cli, i));
        luo_jsonw_num(j, "objective_s", r->objective_s, 9);
        luo_jsonw_num(j, "bound_s", r->bound_s, 9);
        luo_jsonw_num(j, "memory_ratio", r->memory_ratio, 9);
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
    luo_jsonw_num(j, "simulated_step_s", a->step_s, 9);
    luo_jsonw_text(j, "program_hash", luo_hash_print(a->program, h));
    luo_jsonw_num(j, "elapsed_ms", 1e3 * a->planning_s, 9);
}

/* Options that say something to `malleus` alone. */
static luo_status refuse_others(const luo_cli *cli, luo_err *err)
{
    static const char *const theirs[] = {"micro-batches", "rates", "prev", "params", "rank",
                                         "grouping", "memory", "search-healthy", "stage-order",
                                         "seed"};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        if (luo_args_has(&cli->args, theirs[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is an option of planner `malleus`; leave "
                               "it out.", theirs[i]);
    if (strcmp(luo_args_get(&cli->args, "dp", ""), "auto") == 0)
        return luo_err_set(err, LUO_EUSAGE, "`--dp` is `auto`, which planner `malleus` knows; "
                           "leave it out.");
    return LUO_OK;
}

static luo_status plan_uniform(luo_cli *cli, luo_err *err)
{
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_uniform_opts o = {0};
    luo_uniform_result *found;
    luo_programs *set = NULL;
    answer a = {0};
    int64_t top;
    LUO_TRY(refuse_others(cli, err));
    LUO_TRY(luo_args_int(&cli->args, "top", 1, 1, 1000, &top, err));
    LUO_TRY(luo_plan_sizes(cli, true, &o, err));
    LUO_TRY(luo_cli_model(cli, &model));
    LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_stack(cli, &stack));
    o.stack = &stack;
    o.top = (int32_t)top;
    const double start = luo_wall_s();
    LUO_TRY(luo_plan_uniform_fitting(cli->arena, model, cluster, &o, &found, &a.n, &set, err));
    a.planning_s = luo_wall_s() - start;
    a.found = found;
    LUO_TRY(luo_cli_one_step(cli, set, cluster, &stack, found[0].plan->dtype, NULL, &a.step_s));
    a.program = set->hash;
    for (int32_t i = 0; i < a.n; i++) LUO_TRY(luo_plan_write(cli, i, found[i].plan, err));
    if (cli->as_json) print_json(cli, &a);
    else print_text(cli, &a);
    return LUO_OK;
}

static const luo_planner planners[] = {
    {"uniform", "luoshu.plan.uniform/1", plan_uniform},
    {"malleus", "luoshu.plan.malleus/1", luo_plan_malleus_run},
};

const luo_planner *luo_planner_find(const char *name)
{
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++)
        if (strcmp(planners[i].name, name) == 0) return &planners[i];
    return NULL;
}

static luo_status unknown_planner(luo_cli *cli, const char *name)
{
    enum { N = sizeof planners / sizeof *planners };
    const char *names[N];
    luo_str s = {0};
    for (int i = 0; i < N; i++) names[i] = planners[i].name;
    luo_say_expected(&s, name, names, N);
    luo_cli_error(cli, LUO_EUSAGE, "unknown planner `%s`; %s", name, luo_str_get(&s));
    luo_str_free(&s);
    return LUO_EUSAGE;
}

luo_status luo_verb_plan_run(luo_cli *cli)
{
    static const char *const later[] = {"hydraulis", "hap", "auto"};
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "the name of a planner is"));
    const char *name = cli->args.files[0];
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(name, later[i]) == 0)
            return luo_cli_error(cli, LUO_EUSAGE, "planner `%s` is not in this version; `uniform` "
                                                  "and `malleus` are.", name);
    const luo_planner *p = luo_planner_find(name);
    if (!p) return unknown_planner(cli, name);
    const luo_status st = p->run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
