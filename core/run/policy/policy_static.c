/* The first plan for ever; the slowest device rules, and a failure ends the run, because nobody
 * brings lost state back (docs/policies.md). */
#include <stdio.h>

#include "core/run/policy/policy.h"

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    (void)arena;
    (void)err;
    *out = (luo_decision){
        .action = now->trigger & LUO_TRIGGER_FAIL ? LUO_LOSE : LUO_KEEP, .old_s = -1, .new_s = -1};
    snprintf(out->why, sizeof out->why, "%s",
             out->action == LUO_LOSE ? "static has no answer to a failure"
                                     : "static keeps its plan");
    return LUO_OK;
}

const luo_policy luo_policy_static = {
    .name = "static", .keys = "training", .plans = false, .decide = decide};
