/* plugin.h: where the part of the simulator that needs SimGrid is.
 *
 * SimGrid brings 28 libraries, 14 of them of ns-3, and the loader takes 20 ms for them: most verbs
 * do without. So the command finds that part in a file of its own beside it, once it simulates
 * (loaded.c); programs of tests have it linked (linked.c). A program links one of the two. */
#ifndef LUO_SIM_PLUGIN_PLUGIN_H
#define LUO_SIM_PLUGIN_PLUGIN_H
#include "core/base/err.h"

/* *serve: sim_serve. After the first time it is known. Errors: LUO_EBACKEND the file is missing or
 * cannot be loaded; LUO_ENOMEM this process may not take the memory for it. */
luo_status sim_plugin_find(int (**serve)(void *), luo_err *err);
#endif
