/* sync_compare.h: `luoshu compare` of folders that `luoshu sync` and `embed` wrote. */
#ifndef LUO_CLI_SYNC_SYNC_COMPARE_H
#define LUO_CLI_SYNC_SYNC_COMPARE_H
#include "cli/cli.h"

/* Is there one among the positional arguments? */
bool luo_sync_compare_takes(const luo_cli *cli);
/* All of them side by side, the first as the reference, into out. Errors: LUO_EINPUT a folder of
 * another kind, or a file that luoshu did not write; LUO_EIO; LUO_ENOMEM. */
luo_status luo_sync_compare(luo_cli *cli, const char *out, luo_err *err);
#endif
