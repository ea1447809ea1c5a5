/* verb_report.h: the page, for `luoshu report` and the demo. */
#ifndef LUO_CLI_VERB_REPORT_H
#define LUO_CLI_VERB_REPORT_H
#include "cli/cli.h"

/* Writes OUT/report.html of these run directories and result sets, or of a sweep or a replay, and
 * prints its path. Errors are in cli->diags. */
luo_status luo_cli_report(luo_cli *cli, const char *const *paths, int32_t npaths, const char *out);
#endif
