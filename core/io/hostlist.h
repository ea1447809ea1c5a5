/* hostlist.h: names of hosts as Slurm writes them: "gpu-[001-003,7],c427-[011-012]". */
#ifndef LUO_CORE_IO_HOSTLIST_H
#define LUO_CORE_IO_HOSTLIST_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_HOSTS_MAX = 65536 };

/* All names of a list, in its order; digits keep their leading zeros, several brackets vary from
 * the right. Blanks around names are left out. Errors: LUO_EINPUT a bracket that is not closed, a
 * range that falls, more than LUO_HOSTS_MAX names; LUO_ENOMEM. Owner: arena. */
luo_status luo_hostlist_expand(luo_arena *arena, const char *text, const char *const **hosts,
                               int32_t *n, luo_err *err);
#endif
