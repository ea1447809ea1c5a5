/* help.h: the texts of `luoshu help`. */
#ifndef LUO_CLI_HELP_HELP_H
#define LUO_CLI_HELP_HELP_H
#include "cli/plan/plan.h"
#include "core/io/document/doc_table.h"
#include "core/io/read/input_tables.h"

/* NULL: there is no such kind of file, or no such table. */
const luo_doc_kind *luo_help_kind(const char *name);
const luo_input_table *luo_help_table(const char *name);
/* Prints the keys of a kind of file below `path`, keys with dots between; "": all of them. Errors:
 * LUO_EUSAGE there is no such key. */
luo_status luo_help_keys(FILE *out, const luo_doc_kind *kind, const char *path, luo_err *err);
/* Prints the options of a planner of `luoshu plan`. */
void luo_help_planner(FILE *out, const luo_planner *planner);
/* Prints the columns of a table. */
void luo_help_columns(FILE *out, const luo_input_table *table);
#endif
