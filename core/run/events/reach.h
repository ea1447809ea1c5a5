/* reach.h: which devices can take part: up, and not cut off by links that are down. */
#ifndef LUO_CORE_RUN_EVENTS_REACH_H
#define LUO_CORE_RUN_EVENTS_REACH_H
#include "core/run/events/world.h"

/* usable[d]: device d is up, and no link that it needs is down. Traffic is not routed around a dead
 * link, so these are cut off: by an NVLink port or PCIe lane its device, by a mesh pair both, by a
 * PCIe switch its devices, by a socket link or a shared NIC the node, by a NIC of a slot the
 * devices of that NIC, by an uplink the devices of its rack (all rails of it) if there are several
 * racks, by a line between sites the site with fewer devices (the later one on ties). Storage
 * cuts nobody off. Cost: O(devices + links), O(devices) per dead uplink or line. */
void luo_reach(const luo_cluster *cluster, const luo_world *world, bool *usable);
/* Does the loss of this link hurt a plan on these devices? Lines and storage: always. */
bool luo_reach_link_touches(const luo_cluster *cluster, int32_t link, const bool *in_plan);
#endif
