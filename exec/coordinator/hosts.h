/* hosts.h: the hosts that a launcher will start ranks on, as they are named by the user or by
 * a batch system, and the way to them. */
#ifndef LUO_EXEC_COORDINATOR_HOSTS_H
#define LUO_EXEC_COORDINATOR_HOSTS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "exec/options.h"

typedef struct luo_hosts {
    bool known; /* false: nothing says which they are */
    int32_t n;  /* 0 and known: this one alone */
    const char **at;
} luo_hosts;

/* First words of the lines of a file, comments left out: a hostfile, or a batch system's list.
 * Errors: LUO_EINPUT, LUO_ENOMEM. Owner: arena. */
luo_status luo_hosts_of_file(luo_arena *arena, const char *path, luo_hosts *out, luo_err *err);
/* Hosts of "a[1-3,7],b" (Slurm): the first and the last of each item, which is enough to find one
 * that is not this. Owner: arena. */
luo_status luo_hosts_of_slurm(luo_arena *arena, const char *list, luo_hosts *out, luo_err *err);
/* What hostfile, environment and launcher tell. Errors, Owner: as above. */
luo_status luo_hosts_of_run(luo_arena *arena, const luo_exec_options *options, luo_hosts *out,
                            luo_err *err);

enum { LUO_HOSTS_ADDRESS = 16 }; /* bytes of an address as text, with its end */

/* The address of this host that packets to a host leave from. *here: it is this host itself.
 * False: it has no IPv4 address, or no way leads there. */
bool luo_hosts_way(const char *host, char address[LUO_HOSTS_ADDRESS], bool *here);
#endif
