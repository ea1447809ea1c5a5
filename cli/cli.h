/* cli.h: what the verbs share. A verb is one row of the table in verbs.c and one function. */
#ifndef LUO_CLI_CLI_H
#define LUO_CLI_CLI_H
#include <stdio.h>

#include "cli/args.h"
#include "core/base/arena.h"
#include "core/base/work.h"
#include "core/io/jsonw.h"

#define LUO_VERSION "0.1.0"

typedef struct luo_cli {
    luo_args args;
    luo_arena *arena;  /* lives as long as the command */
    luo_diags diags;   /* printed at the end, and by luo_cli_flush */
    const luo_diag *printed; /* the last one printed */
    luo_str document;  /* of --json, and its writer; verbs add their keys */
    luo_jsonw json;
    bool as_json, quiet, verbose, color;
    const char *verb;
    int progress_fd;   /* --progress json: where its lines go, stderr as it was first; else -1 */
    luo_work work;     /* --limit */
    int argc;          /* as given, for the manifest */
    char **argv;
} luo_cli;

typedef struct luo_verb {
    const char *name, *usage, *sentence;
    const char *summary; /* at most 36 columns, for the list of verbs */
    const luo_option *options;
    int noptions;
    const char *writes;     /* files written; NULL: none */
    const char *examples[2];
    const char *exits;      /* exit codes used */
    const char *json_schema; /* NULL: no --json */
    luo_status (*run)(luo_cli *cli); /* errors go to cli->diags */
} luo_verb;

extern const luo_verb luo_verbs[];
extern const int luo_nverbs;
extern const luo_option luo_common_options[];
extern const int luo_ncommon_options;

const luo_verb *luo_verb_find(const char *name);
/* LUO_EUSAGE: there is no such verb, and which one may be meant. */
luo_status luo_verb_unknown(const char *word, luo_err *err);
void luo_verb_help(FILE *out, const luo_verb *verb);
void luo_cli_help(FILE *out);
/* Adds an error without a place and returns st. */
luo_status luo_cli_error(luo_cli *cli, luo_status st, const char *fmt, ...) LUO_PRINTF(3, 4);
luo_status luo_cli_note(luo_cli *cli, luo_severity severity, const char *fmt, ...)
    LUO_PRINTF(3, 4);
/* Adds err as it is and returns its status (LUO_OK: adds nothing). */
luo_status luo_cli_fail(luo_cli *cli, luo_status st, const luo_err *err);
/* Prints diagnostics not printed yet to stderr. */
void luo_cli_flush(luo_cli *cli);
/* Obeys --progress of a verb that has it: a descriptor of its own, as the processes of seeds write
 * their messages into files. Errors: LUO_EUSAGE a word that is no way; LUO_EIO stderr is closed. */
luo_status luo_cli_open_progress(luo_cli *cli, luo_err *err);
/* Text answer: to stdout, or to stderr with --json. */
FILE *luo_cli_out(const luo_cli *cli);
/* Checks the number of positional arguments. Errors: LUO_EUSAGE. */
luo_status luo_cli_files(luo_cli *cli, int least, int most, const char *what);

luo_status luo_verb_help_run(luo_cli *cli);
luo_status luo_verb_version_run(luo_cli *cli);
luo_status luo_verb_resolve_run(luo_cli *cli);
luo_status luo_verb_switch_run(luo_cli *cli);
luo_status luo_verb_check_run(luo_cli *cli);
luo_status luo_verb_explain_run(luo_cli *cli);
luo_status luo_verb_plan_run(luo_cli *cli);
luo_status luo_verb_sim_run(luo_cli *cli);
luo_status luo_verb_run_run(luo_cli *cli);
luo_status luo_verb_sweep_run(luo_cli *cli);
luo_status luo_verb_sync_run(luo_cli *cli);
luo_status luo_verb_embed_run(luo_cli *cli);
luo_status luo_verb_moe_run(luo_cli *cli);
luo_status luo_verb_demo_run(luo_cli *cli);
luo_status luo_verb_compare_run(luo_cli *cli);
luo_status luo_verb_calibrate_run(luo_cli *cli);
luo_status luo_verb_plot_run(luo_cli *cli);
luo_status luo_verb_replay_run(luo_cli *cli);
luo_status luo_verb_report_run(luo_cli *cli);
luo_status luo_verb_import_run(luo_cli *cli);
luo_status luo_verb_export_run(luo_cli *cli);
luo_status luo_verb_validate_run(luo_cli *cli);
#endif
