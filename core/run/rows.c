#include "core/run/rows.h"

const char *luo_span_kind_name(luo_span_kind k)
{
    static const char *const names[LUO_SPAN_KINDS] = {
        "step", "detect", "plan", "specialize", "switch", "checkpoint", "restart", "wait"};
    return names[k];
}
