/* verb_plan.c: `luoshu plan`: which planner. */
#include <string.h>

#include "cli/plan/plan.h"
#include "core/base/words.h"

static const luo_planner planners[] = {
#define LUO_PLANNER(name) {#name, "luoshu.plan." #name "/1", luo_plan_##name##_run},
#include "core/run/planners.inc"
#undef LUO_PLANNER
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
    luo_str text = {0};
    for (int i = 0; i < N; i++) names[i] = planners[i].name;
    luo_words_expected(&text, name, names, N);
    luo_cli_error(cli, LUO_EUSAGE, "unknown planner `%s`; %s", name, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

luo_status luo_verb_plan_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "the name of a planner is"));
    const char *name = cli->args.files[0];
    const luo_planner *planner = luo_planner_find(name);
    if (!planner) return unknown_planner(cli, name);
    const luo_status st = planner->run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
