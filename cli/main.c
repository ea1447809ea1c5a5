/* main.c: finds the verb, runs it, prints what went wrong, returns the exit code. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/help/help.h"
#include "cli/options/moved.h"

static bool color_wanted(const luo_args *args)
{
    const char *c = luo_args_get(args, "color", "auto"), *term = getenv("TERM");
    if (strcmp(c, "auto") != 0) return strcmp(c, "always") == 0;
    return isatty(2) && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0;
}

/* Which one `luoshu plan` is asked for; NULL: none. */
static const luo_planner *planner_of(const luo_cli *cli, const luo_verb *verb)
{
    const bool plans = verb->run == luo_verb_plan_run && cli->args.nfiles > 0;
    return plans ? luo_planner_find(cli->args.files[0]) : NULL;
}

/* Planners have documents of their own (docs/results.md#exit-codes-and-messages). */
static const char *schema_of(const luo_cli *cli, const luo_verb *verb)
{
    const luo_planner *planner = planner_of(cli, verb);
    return planner ? planner->json_schema : verb->json_schema;
}

static void open_document(luo_cli *cli, const luo_verb *verb)
{
    cli->json = luo_jsonw_start(&cli->document);
    luo_jsonw_open(&cli->json, NULL, '{');
    luo_jsonw_text(&cli->json, "schema", schema_of(cli, verb));
}

static void print_document(luo_cli *cli, int code)
{
    luo_jsonw *json = &cli->json;
    luo_jsonw_int(json, "exit", code);
    luo_jsonw_open(json, "errors", '[');
    for (const luo_diag *diag = cli->diags.first; diag; diag = diag->next) {
        if (diag->severity != LUO_ERROR) continue;
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "file", diag->err.path[0] ? diag->err.path : NULL);
        luo_jsonw_int(json, "line", diag->err.line);
        luo_jsonw_int(json, "column", diag->err.col);
        luo_jsonw_text(json, "message", diag->err.text);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_close(json);
    puts(luo_str_get(&cli->document));
}

static luo_status check_common(luo_cli *cli, const luo_verb *verb)
{
    static const char *const colors[] = {"auto", "always", "never"};
    luo_err err = {0};
    int which;
    luo_status st = luo_args_choice(&cli->args, "color", 0, colors, 3, &which, &err);
    /* Not every planner has --progress: `plan` asks once it knows which one is meant. */
    if (st == LUO_OK && strcmp(verb->name, "plan") != 0) st = luo_cli_open_progress(cli, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    for (int i = 0; i < cli->args.nset; i++) {
        if (strcmp(cli->args.set[i].option->name, "limit") != 0) continue;
        st = luo_work_set(&cli->work, cli->args.set[i].value, &err);
        if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    }
    if (cli->as_json && !verb->json_schema)
        return luo_cli_error(cli, LUO_EUSAGE, "`%s` has no --json form; leave it out.", verb->name);
    return LUO_OK;
}

static bool has_option(const luo_verb *verb, const char *name, size_t n)
{
    for (int i = 0; i < verb->noptions; i++)
        if (strlen(verb->options[i].name) == n && memcmp(verb->options[i].name, name, n) == 0)
            return true;
    return false;
}

/* Says who has an option that this verb has not, where a few have. */
static void tell_owner(const luo_args *args, const luo_verb *verb, luo_err *err)
{
    enum { FEW = 5 };
    luo_str owners = {0};
    int n = 0;
    const char *name = args->unknown;
    const size_t length = name ? strcspn(name, "=") : 0;
    if (name && luo_moved_option(verb->name, name, length, err)) return;
    for (int i = 0; name && i < luo_nverbs; i++)
        if (has_option(&luo_verbs[i], name, length))
            luo_str_addf(&owners, "%s`luoshu %s`", n++ ? ", " : "", luo_verbs[i].name);
    if (n > 0 && n <= FEW)
        luo_err_set(err, LUO_EUSAGE, "`--%.*s` is no option of `luoshu %s`; it is of %s.",
                    (int)length, name, verb->name, luo_str_get(&owners));
    luo_str_free(&owners);
    for (int i = 0; name && i < luo_nverbs; i++)
        if (strlen(luo_verbs[i].name) == length && memcmp(luo_verbs[i].name, name, length) == 0)
            luo_err_set(err, LUO_EUSAGE, "`--%.*s` is no option; `luoshu %s` is a verb.",
                        (int)length, name, luo_verbs[i].name);
}

static int run_verb(const luo_verb *verb, luo_cli *cli, int argc, char **argv)
{
    luo_err err = {0};
    luo_status st = luo_args_parse(argc, argv, verb->options, verb->noptions, luo_common_options,
                                   luo_ncommon_options, &cli->args, &err);
    tell_owner(&cli->args, verb, &err);
    if (st != LUO_OK) luo_cli_fail(cli, st, &err);
    if (st == LUO_OK && luo_args_has(&cli->args, "help")) {
        const luo_planner *planner = planner_of(cli, verb);
        if (planner)
            luo_help_planner(stdout, planner);
        else
            luo_verb_help(stdout, verb);
        return 0;
    }
    cli->verb = verb->name;
    cli->as_json = luo_args_has(&cli->args, "json");
    cli->quiet = luo_args_has(&cli->args, "quiet");
    cli->verbose = luo_args_has(&cli->args, "verbose");
    cli->color = color_wanted(&cli->args);
    open_document(cli, verb);
    if (st == LUO_OK) st = check_common(cli, verb);
    if (st == LUO_OK) st = verb->run(cli);
    int code = luo_status_exit(st);
    if (luo_status_exit(cli->diags.worst) > code) code = luo_status_exit(cli->diags.worst);
    luo_cli_flush(cli);
    if (cli->as_json && verb->json_schema) print_document(cli, code);
    if (fflush(stdout) != 0 && code == 0) code = luo_status_exit(LUO_EIO);
    return code;
}

/* A search compiles plan after plan, each in arenas of its own: memory that goes to the system and
 * comes back as empty pages was a tenth of its time. More than this still goes. */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 25); /* above the largest block of an arena */
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow: its write says so, and names it */
    keep_memory();
    if (argc < 2) {
        luo_cli_help(stderr);
        return luo_status_exit(LUO_EUSAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        luo_cli_help(stdout);
        return 0;
    }
    const char *word = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const luo_verb *verb = luo_verb_find(word);
    if (!verb) {
        luo_err err;
        const int code = luo_status_exit(luo_verb_unknown(word, &err));
        fprintf(stderr, "luoshu: error: %s\n", err.text);
        return code;
    }
    luo_cli cli = {.argc = argc, .argv = argv, .progress_fd = -1};
    cli.arena = luo_arena_new(1 << 16);
    if (!cli.arena) return luo_status_exit(LUO_ENOMEM);
    luo_diags_init(&cli.diags, cli.arena);
    const int code = run_verb(verb, &cli, argc - 2, argv + 2);
    luo_str_free(&cli.document);
    luo_arena_free(cli.arena);
    return code;
}
