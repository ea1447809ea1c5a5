/* linked.c: the part that needs SimGrid is in this program. */
#include "sim/plugin/plugin.h"
#include "sim/step/serve.h"

luo_status sim_plugin_find(int (**serve)(void *), luo_err *err)
{
    (void)err;
    *serve = sim_serve;
    return LUO_OK;
}
