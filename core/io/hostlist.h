/* hostlist.h: names of hosts as Slurm writes them: "gpu-[001-003,7],c427-[011-012]". */
#ifndef LUO_CORE_IO_HOSTLIST_H
#define LUO_CORE_IO_HOSTLIST_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

/* Most hosts; bytes of a name. */
enum { LUO_HOSTS_MAX = 65536, LUO_HOSTS_NAME = 256 };

/* All names of a list, in its order; numbers have as many digits as the first of their range,
 * several brackets vary from the right. Blanks around items are left out. Errors: LUO_EINPUT what
 * is no number or range between brackets, a range that falls, a name of LUO_HOSTS_NAME bytes, more
 * than LUO_HOSTS_MAX names; LUO_ENOMEM. Owner: arena. *n may be 0. */
luo_status luo_hostlist_expand(luo_arena *arena, const char *text, const char *const **hosts,
                               int32_t *n, luo_err *err);
#endif
