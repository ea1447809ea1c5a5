/* folder.h: the folder that a command writes results into, from the start to what becomes of them.
 * Whatever fails, what was there before is not lost. */
#ifndef LUO_CLI_FOLDER_H
#define LUO_CLI_FOLDER_H
#include "cli/cli.h"
#include "core/io/result/resultset.h"

typedef enum luo_folder_end {
    LUO_FOLDER_NONE, /* no results: the folder is as before */
    LUO_FOLDER_PART, /* of a run that was stopped or lost: they stay, and so does what they replaced
                      */
    LUO_FOLDER_WHOLE /* what they replaced goes */
} luo_folder_end;

/* What comes of a run without policies that ends so. A table that cannot be written keeps its rows,
 * and a lost run is one. */
luo_folder_end luo_folder_end_of(luo_status st);
/* Takes `dir` for new results; those of an earlier run go to LUO_SET_OLD inside. flat: tables will
 * lie in dir itself. read: nread files that the run will read. Errors: LUO_EUSAGE the folder is
 * another's, or not empty and not --force, or has what is in the way; LUO_EIO; LUO_ENOMEM. */
luo_status luo_folder_take(luo_cli *cli, const char *dir, bool flat, int32_t nread,
                           const char *const *read, luo_set *set, luo_err *err);
/* Gives it back; safe on a set that is all zero. Errors: LUO_EIO. */
luo_status luo_folder_give(luo_cli *cli, luo_set *set, luo_folder_end end, luo_err *err);
#endif
