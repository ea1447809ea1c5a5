/* stamp.c: of which headers luoshu-sim.so was built: loaded.c, which has the macro too, takes no
 * other file, since the two exchange structures as they lie in memory. */
#include "sim/plugin/plugin.h"

extern const char sim_stamp[];
__attribute__((visibility("default"))) const char sim_stamp[] = SIM_STAMP;
