/* verb_help.c: `help`, `version`, and what the verbs share on options. */
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>

#include "cli/build_info.h"
#include "cli/help/help.h"
#include "cli/load.h"
#include "core/base/quantity.h"
#include "core/base/words.h"
#include "core/io/builtin.h"
#include "core/io/document/json_schema.h"
#include "core/io/libraries.h"
#include "core/io/read/read.h"

/* ---- limits, profiles ---- */

/* Both tables as they are. */
static luo_status print_limits(luo_cli *cli)
{
    (void)cli;
    puts("Limits of work; --limit NAME=VALUE raises one and may be given several times.\n");
    printf("  %-16s%12s  %s\n", "name", "default", "what it bounds");
    for (int i = 0; i < LUO_WORKS; i++) {
        const luo_work_id id = (luo_work_id)i;
        printf("  %-16s%12lld  %s %s\n", luo_work_name(id), (long long)luo_work_default(id),
               luo_work_unit(id), luo_work_bounds(id));
    }
    puts("\nRanges of quantities, which nothing raises.\n");
    printf("  %-32s%12s%12s  %s\n", "quantity", "lowest", "highest", "unit");
    for (int i = LUO_Q_NONE + 1; i < LUO_QUANTITIES; i++) {
        const luo_quantity *quantity = luo_quantity_at((luo_quantity_id)i);
        printf("  %-32s%12.6g%12.6g  %s\n", quantity->name, quantity->lowest, quantity->highest,
               *quantity->unit ? quantity->unit : "-");
    }
    return LUO_OK;
}

static void print_sources(const luo_profile *profile)
{
    for (int32_t i = 0; i < profile->nvalues; i++) {
        const luo_value *value = &profile->values[i];
        printf("  %-34s %12.6g  %-11s  %s\n", value->name, value->value,
               luo_provenance_name(value->provenance), value->source);
    }
}

/* Each name with what stands behind it; tables and stacks give their sources in their files. */
static luo_status print_profiles(luo_cli *cli)
{
    luo_str names = {0};
    puts("Built-in names for `profile:` of a cluster, values with provenance and source.\n");
    luo_builtin_names(LUO_BUILTIN_PROFILES, &names);
    luo_status st = names.failed ? LUO_ENOMEM : LUO_OK;
    for (char *at = names.at, *end; st == LUO_OK && at && (end = strchr(at, ' ')); at = end + 1) {
        luo_profile *profile;
        *end = 0;
        st = luo_read_profile(cli->arena, at, &profile, &cli->diags);
        if (st != LUO_OK) break;
        puts(at);
        print_sources(profile);
    }
    luo_str_free(&names);
    luo_builtin_names(LUO_BUILTIN_STACKS, &names);
    printf("\nBuilt-in names for `stack:` of a scenario and `--stack`:\n  %s\n",
           luo_str_get(&names));
    luo_str_free(&names);
    return st;
}

/* ---- topics ---- */

static luo_status print_files(luo_cli *cli)
{
    (void)cli;
    int kinds, tables;
    const luo_doc_kind *const *kind = luo_doc_kinds(&kinds);
    const luo_input_table *const *table = luo_input_tables(&tables);
    puts("Files in YAML or JSON; `luoshu help KIND` lists the keys:");
    for (int i = 0; i < kinds; i++) printf("  %s", kind[i]->name);
    puts("\nTables in CSV; `luoshu help TABLE` lists the columns:");
    for (int i = 0; i < tables; i++) printf("  %s", table[i]->name);
    puts("");
    return LUO_OK;
}

static const struct {
    const char *name;
    luo_status (*print)(luo_cli *cli);
} texts[] = {{"files", print_files}, {"limits", print_limits}, {"profiles", print_profiles}};
enum { TEXTS = sizeof texts / sizeof *texts, TOPICS = 64 };

/* A word that is no topic: which kind, table or text may be meant, else which verb. */
static luo_status refuse_topic(luo_cli *cli, const char *word)
{
    const char *names[TOPICS];
    int n = 0, kinds, tables;
    luo_err err;
    const luo_doc_kind *const *kind = luo_doc_kinds(&kinds);
    const luo_input_table *const *table = luo_input_tables(&tables);
    for (int i = 0; i < kinds && n < TOPICS; i++) names[n++] = kind[i]->name;
    for (int i = 0; i < tables && n < TOPICS; i++) names[n++] = table[i]->name;
    for (int i = 0; i < TEXTS && n < TOPICS; i++) names[n++] = texts[i].name;
    const char *near = luo_word_nearest(word, names, n);
    if (!near) return luo_cli_fail(cli, luo_verb_unknown(word, &err), &err);
    return luo_cli_error(cli, LUO_EUSAGE, "`%s` is no topic of help; did you mean `%s`?", word,
                         near);
}

static luo_status print_schema(luo_cli *cli, const char *topic)
{
    const luo_doc_kind *kind = luo_help_kind(topic);
    luo_str text = {0};
    if (!kind)
        return luo_cli_error(cli, LUO_EUSAGE,
                             "`%s` is no kind of file that has a JSON Schema; `luoshu help "
                             "files` lists them.",
                             topic);
    luo_json_schema_add(&text, kind);
    const luo_status st = text.failed ? LUO_ENOMEM : LUO_OK;
    if (st == LUO_OK) puts(luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

/* The keys of a kind of file, or below one key: `cluster`, `cluster.node_groups`. */
static luo_status print_keys(luo_cli *cli, const luo_doc_kind *kind, const char *topic)
{
    luo_err err = {0};
    const char *path = topic + strlen(kind->name);
    return luo_cli_fail(cli, luo_help_keys(stdout, kind, path + (*path == '.'), &err), &err);
}

/* A word may name a verb and a kind of file, as `plan` does: both are told. */
static luo_status print_topic(luo_cli *cli, const char *topic)
{
    const luo_verb *verb = luo_verb_find(topic);
    const char *name = luo_arena_printf(cli->arena, "%.*s", (int)strcspn(topic, "."), topic);
    const luo_doc_kind *kind = name ? luo_help_kind(name) : NULL;
    const luo_input_table *table = luo_help_table(topic);
    if (luo_args_has(&cli->args, "json-schema")) return print_schema(cli, topic);
    for (int i = 0; i < TEXTS; i++)
        if (strcmp(texts[i].name, topic) == 0) return texts[i].print(cli);
    if (!verb && !kind && !table) return refuse_topic(cli, topic);
    if (verb) luo_verb_help(stdout, verb);
    if (table) luo_help_columns(stdout, table);
    if (verb && kind) puts("");
    return kind ? print_keys(cli, kind, topic) : LUO_OK;
}

static luo_status print_planner(luo_cli *cli, const char *name)
{
    const luo_planner *planner = luo_planner_find(name);
    if (!planner) return luo_planner_unknown(cli, name);
    luo_help_planner(stdout, planner);
    return LUO_OK;
}

luo_status luo_verb_help_run(luo_cli *cli)
{
    const bool plan = cli->args.nfiles > 1 && strcmp(cli->args.files[0], "plan") == 0;
    LUO_TRY(luo_cli_files(cli, 0, plan ? 2 : 1, "at most one topic is"));
    if (plan) return print_planner(cli, cli->args.files[1]);
    if (cli->args.nfiles > 0) return print_topic(cli, cli->args.files[0]);
    if (luo_args_has(&cli->args, "json-schema"))
        return luo_cli_error(
            cli, LUO_EUSAGE,
            "`--json-schema` needs a kind of file; `luoshu help files` lists them.");
    luo_cli_help(stdout);
    return LUO_OK;
}

luo_status luo_verb_version_run(luo_cli *cli)
{
    LUO_TRY(luo_cli_files(cli, 0, 0, "no argument is"));
    printf("luoshu %s (%s)\n", LUO_VERSION, luo_build_git);
    printf("compiler: %s\nflags: %s\n", luo_build_compiler, luo_build_flags);
    char text[256];
    for (int i = 0; i < luo_nbackends; i++)
        if (luo_backends[i]->describe(text, sizeof text) == LUO_OK) printf("backend %s\n", text);
    if (luo_build_no_cuda[0])
        printf("GPU code: none (%s at build time)\n", luo_build_no_cuda);
    else
        printf("GPU code: %s\n", luo_build_cuda);
    printf("libraries: %s\n", luo_io_libraries);
    return LUO_OK;
}
