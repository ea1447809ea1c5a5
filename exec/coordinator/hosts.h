/* hosts.h: the hosts that a launcher will start ranks on, as they are named by the user or by
 * a batch system, and the way to them. */
#ifndef LUO_EXEC_COORDINATOR_HOSTS_H
#define LUO_EXEC_COORDINATOR_HOSTS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/cost/cluster.h"
#include "core/io/hostlist.h"
#include "exec/options.h"

typedef struct luo_hosts {
    bool known; /* false: nothing says which they are */
    int32_t n;  /* 0 and known: this one alone */
    const char **at;
} luo_hosts;

enum { LUO_HOSTS_ADDRESS = 16 }; /* bytes of an address as text */

/* Adds a host unless it is there; *at (NULL: nowhere) its number. Errors: LUO_ENOMEM. Owner: arena.
 */
luo_status luo_hosts_add(luo_arena *arena, luo_hosts *hosts, const char *name, int32_t *at,
                         luo_err *err);
/* First words of the lines of a file, comments left out: a hostfile, or a batch system's list, each
 * once; "a[1-3]" is three. Errors: LUO_EINPUT, also where there is none; LUO_ENOMEM. Owner: arena.
 */
luo_status luo_hosts_of_file(luo_arena *arena, const char *path, luo_hosts *out, luo_err *err);
/* Hosts of "a[1-3,7],b" (Slurm), in its order. Errors: LUO_EINPUT, LUO_ENOMEM. Owner: arena. */
luo_status luo_hosts_of_slurm(luo_arena *arena, const char *list, luo_hosts *out, luo_err *err);
/* The host of a node in the file of its cluster; NULL: it names none. */
const char *luo_hosts_of_node(const luo_cluster *cluster, int32_t node);
/* What hostfile, else the cluster's file, else environment and launcher tell. Errors, Owner: as
 * above. */
luo_status luo_hosts_of_run(luo_arena *arena, const luo_exec_options *options, luo_hosts *out,
                            luo_err *err);

/* The address of this host that packets to a host leave from. *here: it is this host itself.
 * False: it has no IPv4 address, or no way leads there. */
bool luo_hosts_way(const char *host, char address[LUO_HOSTS_ADDRESS], bool *here);

/* This host as it calls itself. */
void luo_hosts_here(char name[LUO_HOSTS_NAME]);
/* What to call a host before others: without a user, and this one by its name where it is the
 * loopback. */
void luo_hosts_told(const char *name, char out[LUO_HOSTS_NAME]);
/* Is this host the one so called, by its own name or by an address? True where nothing here knows
 * the name, as with those of ssh alone. */
bool luo_hosts_meant(const char *name);
#endif
