#include "core/run/rows.h"

#include <math.h>
#include <string.h>

#define NAME(id, name) name,
static const char *const states[] = {LUO_RUN_STATE_LIST(NAME)};
#undef NAME

const char *luo_run_state_name(luo_run_state state)
{
    return states[state];
}

luo_run_state luo_run_state_find(const char *name)
{
    int i = 0;
    while (i < LUO_RUN_STATES && strcmp(states[i], name) != 0) i++;
    return (luo_run_state)i;
}

luo_run_state luo_run_state_of(luo_status st)
{
    if (st == LUO_OK) return LUO_COMPLETE;
    return st == LUO_ENO ? LUO_LOST : LUO_FAILED;
}

double luo_run_goodput(int64_t kept_tokens, double extent_s)
{
    const double in_files_s = round(extent_s * 1e9) / 1e9;
    return in_files_s == 0 ? 0 : (double)kept_tokens / in_files_s;
}

const char *luo_span_kind_name(luo_span_kind k)
{
    static const char *const names[LUO_SPAN_KINDS] = {
        "step", "detect", "plan", "specialize", "switch", "checkpoint", "restart", "wait"};
    return names[k];
}

const char *luo_event_phase_name(luo_event_phase phase)
{
    static const char *const names[] = {LUO_EVENT_PHASE_LIST(LUO_WORD_TEXT)};
    return names[phase];
}
