/* first_hap.c: programs of planner `hap` are no plans yet that a run can take. */
#include "core/run/first/first.h"

luo_status luo_first_hap(luo_run *run, luo_err *err)
{
    (void)run;
    return luo_err_set(err, LUO_EINPUT,
                       "planner `hap` cannot start a run: its programs are reports "
                       "so far; another planner or a plan file is needed.");
}
