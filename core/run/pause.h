/* core/run/pause.h: how a CPU rank waits between two looks at what it waits for: the executor does it,
 * calibration measures what a look costs, the simulator charges it. */
#ifndef LUO_CORE_RUN_PAUSE_H
#define LUO_CORE_RUN_PAUSE_H
#include <stdbool.h>

/* Seconds to sleep after so long a wait; 0: only give the core to others. With a core for every rank
 * a wait costs nobody anything, and a core that falls asleep wakes up late and slow. On shared cores
 * the pause grows with the wait, so that waiting costs little and is seen late by a fraction of it. */
static inline double luo_pause_s(bool own_core, double waited_s)
{
    const double spin_s = own_core ? 100e-3 : 50e-6, least_s = 20e-6, most_s = 500e-6;
    const double s = waited_s / 8;
    if (waited_s < spin_s) return 0;
    return s < least_s ? least_s : s > most_s ? most_s : s;
}
#endif
