/* limits.h: whether processes of a real run may take the addresses that they need before they
 * compute. MPI, its launcher and BLAS do not end where they get no memory: they crash, spin or wait
 * for ever, so a run without it is refused before any of them begins. */
#ifndef LUO_EXEC_LIMITS_H
#define LUO_EXEC_LIMITS_H
#include <stdint.h>

#include "core/base/err.h"

/* nranks: ranks of this host, at least 1. What this process may take (`ulimit -v`) is what its
 * children may, each of them.
 * Errors: LUO_ENOMEM it is less than a rank needs. */
luo_status luo_limits_check(int32_t nranks, luo_err *err);
#endif
