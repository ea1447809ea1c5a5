/* verb_plan.c: `luoshu plan`: which planner. */
#include <string.h>

#include "cli/plan/plan.h"
#include "core/base/words.h"

static const luo_planner planners[] = {
#define LUO_PLANNER(name, says, options)                                                           \
    {#name, says, "luoshu.plan." #name "/1", options, luo_plan_##name##_run},
#include "core/run/first/planners.inc"
#undef LUO_PLANNER
};
enum { PLANNERS = sizeof planners / sizeof *planners };

const luo_planner *luo_planners(int *n)
{
    *n = PLANNERS;
    return planners;
}

const luo_planner *luo_planner_find(const char *name)
{
    for (int i = 0; i < PLANNERS; i++)
        if (strcmp(planners[i].name, name) == 0) return &planners[i];
    return NULL;
}

/* ---- whose options ---- */

/* Is it, or with a value "name=value", among these words? */
static bool lists(const char *words, const char *name, const char *value)
{
    const size_t n = strlen(name);
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ') {
        const size_t len = strcspn(at, " ");
        if (len < n || memcmp(at, name, n) != 0) continue;
        if (!value ? len == n
                   : at[n] == '=' && len == n + 1 + strlen(value) &&
                         memcmp(at + n + 1, value, len - n - 1) == 0)
            return true;
    }
    return false;
}

bool luo_planner_has(const luo_planner *planner, const char *option)
{
    return lists(planner->options, option, NULL);
}

static int owners(const char *name, const char *value, const luo_planner **out)
{
    int n = 0;
    for (int i = 0; i < PLANNERS; i++)
        if (lists(planners[i].options, name, value)) out[n++] = &planners[i];
    return n;
}

bool luo_planner_all_have(const char *option)
{
    const luo_planner *of[PLANNERS];
    return owners(option, NULL, of) == 0;
}

static luo_status refuse(const char *option, const char *value, const luo_planner *const *of,
                         int n, luo_err *err)
{
    const char *names[PLANNERS];
    luo_str text = {0};
    for (int i = 0; i < n; i++) names[i] = of[i]->name;
    luo_words_choices(&text, names, n);
    if (value)
        luo_err_set(err, LUO_EUSAGE, "`--%s` is `%s`, which planner %s knows; leave it out.",
                    option, value, luo_str_get(&text));
    else
        luo_err_set(err, LUO_EUSAGE, "`--%s` is an option of planner %s; leave it out.", option,
                    luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

/* Options and values that are others'. */
static luo_status check_options(const luo_args *args, const luo_planner *planner, luo_err *err)
{
    for (int i = 0; i < args->nset; i++) {
        const char *name = args->set[i].option->name;
        const char *const values[] = {NULL, args->set[i].value};
        for (int k = 0; k < 2; k++) {
            const luo_planner *of[PLANNERS];
            const int n = owners(name, values[k], of);
            bool own = n == 0;
            for (int j = 0; j < n; j++) own |= of[j] == planner;
            if (!own) return refuse(name, values[k], of, n, err);
        }
    }
    return LUO_OK;
}

/* ---- the verb ---- */

luo_status luo_planner_unknown(luo_cli *cli, const char *name)
{
    const char *names[PLANNERS];
    luo_str text = {0};
    for (int i = 0; i < PLANNERS; i++) names[i] = planners[i].name;
    if (name)
        luo_words_expected(&text, name, names, PLANNERS);
    else
        luo_words_choices(&text, names, PLANNERS);
    if (name)
        luo_cli_error(cli, LUO_EUSAGE, "unknown planner `%s`; %s", name, luo_str_get(&text));
    else
        luo_cli_error(cli, LUO_EUSAGE, "no planner is named; %s is expected.", luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

luo_status luo_verb_plan_run(luo_cli *cli)
{
    luo_err err = {0};
    if (cli->args.nfiles == 0) return luo_planner_unknown(cli, NULL);
    LUO_TRY(luo_cli_files(cli, 1, 1, "the name of a planner is"));
    const char *name = cli->args.files[0];
    const luo_planner *planner = luo_planner_find(name);
    if (!planner) return luo_planner_unknown(cli, name);
    luo_status st = check_options(&cli->args, planner, &err);
    if (st == LUO_OK) st = luo_cli_open_progress(cli, &err);
    if (st == LUO_OK) st = planner->run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
