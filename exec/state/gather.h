/* gather.h: bytes of all ranks at rank 0 over MPI, for those who write state to files: the
 * luo_gather (exec/state/state.h) of every executor. */
#ifndef LUO_EXEC_STATE_GATHER_H
#define LUO_EXEC_STATE_GATHER_H
#include <mpi.h>

#include "exec/state/state.h"

typedef struct luo_gatherer luo_gatherer;

/* Waits until the request is done. */
typedef luo_status (*luo_gather_wait)(void *ctx, MPI_Request *request, luo_err *err);

/* Works on a copy of comm. wait NULL: asks again and again, and sleeps meanwhile. Collective.
 * Errors: LUO_EBACKEND, LUO_ENOMEM. Owner: luo_gatherer_close (collective; may be given NULL). */
luo_status luo_gatherer_open(MPI_Comm comm, luo_gather_wait wait, void *ctx, luo_gatherer **out,
                             luo_err *err);
void luo_gatherer_close(luo_gatherer *gatherer);
/* Lives as long as the gatherer. bytes: rank 0 says first whether it has room, so that all send or
 * none. Errors of bytes: LUO_ENOMEM at rank 0, LUO_ECANCELED elsewhere; LUO_EBACKEND; of wait. */
luo_gather luo_gatherer_gather(luo_gatherer *gatherer);
#endif
