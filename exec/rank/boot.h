/* boot.h: MPI of one rank: begin and end, and agreement.
 *
 * It uses a communicator of its own, so that nothing here meets messages of an executor. Errors of
 * MPI come back as LUO_EBACKEND; when a peer is gone, a call may also never return: the coordinator
 * then ends this process. */
#ifndef LUO_EXEC_RANK_BOOT_H
#define LUO_EXEC_RANK_BOOT_H
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_boot luo_boot;

/* MPI_Init; *rank and *n: of the world. Owner: luo_boot_close. */
luo_status luo_boot_open(luo_boot **out, int32_t *rank, int32_t *n, luo_err *err);
/* MPI_Finalize; collective. Pre: everything else of the process has been given back. */
void luo_boot_close(luo_boot *boot);

/* Which GPU of its host a rank takes: the one it wants (the place of its device on its host) if no
 * rank of this host wants the same, else its number among the ranks of this host: nodes whose hosts
 * nobody names may share this one. So a device that has left does not move the others. Collective.
 */
luo_status luo_boot_local(luo_boot *boot, int32_t want, int32_t *out, luo_err *err);
/* size bytes of rank 0 at all. */
luo_status luo_boot_tell(luo_boot *boot, void *data, size_t size, luo_err *err);
/* Collective: mine if it is a failure; LUO_ECANCELED if another rank brings one; else LUO_OK. So
 * that all or none begin something in which all take part. */
luo_status luo_boot_agree(luo_boot *boot, luo_status mine, luo_err *err);
#endif
