/* host.h: the row of the backend table for real runs on CPUs, as the coordinator uses it.
 *
 * luo_backend_config.options is a luo_exec_options. Time is CLOCK_MONOTONIC since open. submit and
 * wait belong to the ranks (exec/host); nobody interprets programs in the coordinator, so here they
 * are NULL. */
#ifndef LUO_EXEC_COORDINATOR_HOST_H
#define LUO_EXEC_COORDINATOR_HOST_H
#include "core/run/backend.h"

extern const luo_backend luo_host_backend;
#endif
