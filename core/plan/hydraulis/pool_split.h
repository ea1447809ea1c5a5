/* pool_split.h: strategies for a replica that has slow devices: its tensor groups are cut around
 * them, and slower stages get fewer layers (docs/planners.md#slow-devices). */
#ifndef LUO_CORE_PLAN_HYDRAULIS_POOL_SPLIT_H
#define LUO_CORE_PLAN_HYDRAULIS_POOL_SPLIT_H
#include "core/plan/hydraulis/pool_model.h"

#define LUO_POOL_SLOW 1.2 /* a rate from which on a device is cut off: below it is noise */

/* Entry `of` on devices[luo_pool_devices(of)] with these rates: each stage that has slow devices
 * becomes stages of powers of two of the others, in their order, and, with `keep`, one for each
 * slow device; without, those stay idle. Layers go where the slowest stage is fastest; what gets
 * none is left out. Costs and cap are those on these devices at these rates, so that mu is 1.
 * In:     in->devices: all usable ones; in each stage of `of` the slow devices come last.
 * Out:    *out, whose cap is 0 where it cannot be had: nobody is slow, ranks are context-parallel,
 *         slow devices come first, nothing is cut, or the stages have no room. Its parts belong to
 * arena. Errors: those of luo_cost_layer; LUO_ENOMEM. Cost: about ten closed-form layers a stage.
 * Source: Malleus (arXiv 2410.13333) splits groups so; Hydraulis has no slow devices. */
luo_status luo_pool_split_make(luo_arena *arena, const luo_pool_model_in *in,
                               const luo_pool_entry *of, const int32_t *devices, const double *rate,
                               bool keep, luo_pool_entry *out, luo_err *err);
#endif
