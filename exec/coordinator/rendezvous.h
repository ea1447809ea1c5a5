/* rendezvous.h: where the ranks of a run find their coordinator: a port at one address of this
 * host, and a token that nobody but its user can read.
 *
 * The token reaches the ranks by the environment, which others cannot read; arguments they can. */
#ifndef LUO_EXEC_COORDINATOR_RENDEZVOUS_H
#define LUO_EXEC_COORDINATOR_RENDEZVOUS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "exec/options.h"

enum { LUO_RENDEZVOUS_TOKEN = 33, LUO_RENDEZVOUS_HOST = 256 };

#define LUO_RENDEZVOUS_VARIABLE "LUOSHU_TOKEN" /* in the environment of a rank */

struct luo_rendezvous {
    int fd; /* listens; -1: shut */
    int port;
    bool alone;                 /* all ranks are on this host, which listens to itself alone */
    char host[LUO_RENDEZVOUS_HOST];   /* the address */
    char token[LUO_RENDEZVOUS_TOKEN]; /* what a connection has to know */
    int32_t nranks;             /* LUO_LAUNCH_NONE: as many as the launcher started; else 0 */
    int rank0; /* LUO_LAUNCH_NONE: readable once the process that became rank 0 has ended */
};

/* Opens a rendezvous: at the loopback when all ranks are on this host; else at options->listen, or
 * at the address by which the first other host is reached; if the hosts are not known, at that of
 * this host's name or of the default route. Errors: LUO_EUSAGE options->listen is none of this
 * host's; LUO_EBACKEND. */
luo_status luo_rendezvous_open(const luo_exec_options *options, luo_rendezvous *out, luo_err *err);
/* Nobody comes in any more; the rest stays. */
void luo_rendezvous_shut(luo_rendezvous *rendezvous);
void luo_rendezvous_close(luo_rendezvous *rendezvous);

/* Whether the launcher has this host alone to start ranks on, as far as can be known. */
bool luo_rendezvous_alone(const luo_exec_options *options);
#endif
