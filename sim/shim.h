/* shim.h: what SimGrid 3.32 offers in C++ only, or in C in a form that aborts
 * (docs/architecture/simulator.md#simgrid).
 *
 * The platform is one zone whose routes are given with every transfer: any list of links, so that
 * a route is exactly luo_cluster_path, shared NICs and uneven fabrics included. Latency is no
 * business of SimGrid here: who starts a transfer sleeps first. */
#ifndef LUO_SIM_SHIM_H
#define LUO_SIM_SHIM_H
#include <simgrid/forward.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Platform: zone, then hosts and links, then seal. Names must differ. Pre: simgrid_init. */
void luo_shim_zone_open(void);
sg_host_t luo_shim_host_new(const char *name, double flops_per_s);
sg_link_t luo_shim_link_new(const char *name, double bytes_per_s);
void luo_shim_zone_seal(void);

/* Starts a transfer over links[0..n), n >= 1. NULL: an end is off. sg_comm_wait gives the handle
 * back; it returns SIMGRID_NETWORK_FAILURE also for a transfer that was cancelled. */
sg_comm_t luo_shim_flow(sg_host_t src, sg_host_t dst, const sg_link_t *links, int n,
                        uint64_t bytes);
/* The same along the route of a platform that was loaded from XML. */
sg_comm_t luo_shim_send(sg_host_t src, sg_host_t dst, uint64_t bytes);

/* From now on hosts stay on, or who turns one off cancels what goes to it: transfers need not be
 * found by their hosts, and one that ends is not sought among all that are under way. At first they
 * are found. Changes no date. See: tests/backend/sim_simgrid.c. */
void luo_shim_hosts_stay(int on);

void luo_shim_exec_cancel(sg_exec_t e); /* sg_exec_cancel also drops the waiter's reference */
void luo_shim_comm_cancel(sg_comm_t c);
void luo_shim_link_power(sg_link_t link, int on);
/* "5 0.3\n10 1\n": x0.3 from 5 s, x1 from 10 s. Once per host. */
void luo_shim_host_speed(sg_host_t host, const char *dates);
/* Called when no actor can go on, before SimGrid kills them; simgrid_run then returns as if all
 * were well. */
void luo_shim_on_deadlock(void (*stuck)(void *), void *ctx);

#ifdef __cplusplus
}
#endif
#endif
