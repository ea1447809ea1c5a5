/* import_verb.h: the two halves of `luoshu import`, by kind: tables of lengths, which are written
 * as they are read, and files that are made whole. */
#ifndef LUO_CLI_IMPORT_IMPORT_VERB_H
#define LUO_CLI_IMPORT_IMPORT_VERB_H
#include "cli/cli.h"
#include "core/io/convert/convert.h"
#include "core/io/import/import.h"

luo_status luo_import_lengths_run(luo_cli *cli, luo_import_kind kind);
luo_status luo_import_files_run(luo_cli *cli, luo_convert_kind kind);
#endif
