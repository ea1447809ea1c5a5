/* help_verbs.c: verbs, planners and their options, from the tables alone. */
#include <string.h>

#include "cli/help/help.h"

void luo_cli_help(FILE *out)
{
    fputs("usage: luoshu VERB [options] [files]\n", out);
    for (int i = 0; i < luo_nverbs; i++)
        fprintf(out, "  %-9s %s\n", luo_verbs[i].name, luo_verbs[i].summary);
    fputs("luoshu help VERB tells more.  Exit: 0 ok, 1 no, 2 usage, 3 input, 4 backend, 5 memory, "
          "6 stuck\n",
          out);
}

/* ---- options ---- */

static void print_option(FILE *out, const luo_option *option)
{
    char left[64];
    const char *value = option->value;
    snprintf(left, sizeof left, "--%s%s%s", option->name, value ? " " : "", value ? value : "");
    if (strlen(left) < 24)
        fprintf(out, "  %-24s%s\n", left, option->help);
    else
        fprintf(out, "  %s\n  %-24s%s\n", left, "", option->help);
}

static void print_common(FILE *out, const luo_verb *verb)
{
    for (int i = 0; i < luo_ncommon_options; i++)
        if (verb->json_schema || strcmp(luo_common_options[i].name, "json") != 0)
            print_option(out, &luo_common_options[i]);
}

/* What it is the same as, "--tp", where it is another name only; else NULL. */
static const char *alias_of(const luo_option *option)
{
    return strncmp(option->help, "as --", 5) == 0 ? option->help + 3 : NULL;
}

/* Options of one planner alone, or (NULL) of every planner; other names of them are left out. */
static void print_options_of(FILE *out, const luo_verb *verb, const luo_planner *planner)
{
    for (int i = 0; i < verb->noptions; i++) {
        const luo_option *option = &verb->options[i];
        const bool shown =
            planner ? luo_planner_has(planner, option->name) : luo_planner_all_have(option->name);
        if (shown && !alias_of(option)) print_option(out, option);
    }
}

/* Other names of the planner's options, as many a line as have room. */
static void print_aliases(FILE *out, const luo_verb *verb, const luo_planner *planner)
{
    enum { ROOM = 98 };
    size_t at = ROOM;
    for (int i = 0; i < verb->noptions; i++) {
        const luo_option *option = &verb->options[i];
        const char *alias = alias_of(option);
        char text[96];
        if (!alias || !luo_planner_has(planner, option->name)) continue;
        if (at == ROOM) fputs("\nMegatron's names are taken, too:", out);
        snprintf(text, sizeof text, "--%s (%s)", option->name, alias);
        at += strlen(text) + 2;
        if (at > ROOM) {
            fputs("\n ", out);
            at = strlen(text) + 2;
        }
        fprintf(out, " %s", text);
    }
    if (at != ROOM) fputs("\n", out);
}

/* ---- verbs ---- */

static void print_end(FILE *out, const luo_verb *verb)
{
    if (verb->writes) fprintf(out, "\nwrites: %s\n", verb->writes);
    fputs("\nexamples:\n", out);
    for (int i = 0; i < 2; i++)
        if (verb->examples[i]) fprintf(out, "  %s\n", verb->examples[i]);
    fprintf(out, "\nexit: %s\n", verb->exits);
}

static void print_planners(FILE *out)
{
    int n;
    const luo_planner *planners = luo_planners(&n);
    fputs("\nplanners:\n", out);
    for (int i = 0; i < n; i++) fprintf(out, "  %-24s%s\n", planners[i].name, planners[i].says);
    fputs("`luoshu plan PLANNER --help` lists the options of one.\n", out);
}

void luo_verb_help(FILE *out, const luo_verb *verb)
{
    const bool plans = verb->run == luo_verb_plan_run;
    fprintf(out, "usage: %s\n%s\n", verb->usage, verb->sentence);
    if (plans) print_planners(out);
    fprintf(out, "\noptions%s:\n", plans ? " of every planner" : "");
    if (plans) print_options_of(out, verb, NULL);
    for (int i = 0; i < verb->noptions && !plans; i++) print_option(out, &verb->options[i]);
    print_common(out, verb);
    print_end(out, verb);
}

void luo_help_planner(FILE *out, const luo_planner *planner)
{
    const luo_verb *verb = luo_verb_find("plan");
    fprintf(out, "usage: luoshu plan %s --model FILE --cluster FILE [options]\n", planner->name);
    fprintf(out, "Makes a plan, for %s (docs/planners.md#%s).\n", planner->says, planner->name);
    fputs("\noptions:\n", out);
    print_options_of(out, verb, planner);
    fputs("\noptions of every planner:\n", out);
    print_options_of(out, verb, NULL);
    print_common(out, verb);
    print_aliases(out, verb, planner);
}
