# Goes on after a slowdown, and gives up after a failure: what `static` does, in other words.
row='add a policy'
steps() {
    cat >core/run/policy/policy_patient.c <<'X' &&
#include <stdio.h>

#include "core/run/policy/policy.h"

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    (void)arena, (void)err;
    *out = (luo_decision){.action = now->trigger & LUO_TRIGGER_FAIL ? LUO_LOSE : LUO_KEEP,
                          .old_s = -1,
                          .new_s = -1};
    snprintf(out->why, sizeof out->why, "patience is all");
    return LUO_OK;
}

const luo_policy luo_policy_patient = {.name = "patient", .decide = decide};
X
    sed -i 's/^    X(oracle)$/    X(patient) X(oracle)/' core/run/policy/policy.h &&
        sed -i 's/`malleus`, `oracle`, /`malleus`, `patient`, "\n     "`oracle`, /' tests/unit/check_driver.c &&
        insert before docs/policies.md '## Keys' <<'X'
`patient` keeps its plan, and loses the run with the first device.

X
}
show() { # asked, answered, and in the sentence about names that are none
    sed -e 's/- {name: static}/- {name: patient}/' -e '/name: restart/d' -e 's/kind: straggler.*/kind: fail, target: "device:5", at_step: 10}/' \
        scenarios/examples/small.yaml >scenarios/examples/patient.yaml
    "$LUOSHU" sim scenarios/examples/patient.yaml --out "$tmp/run" --plots off
    grep -rq 'patience is all' "$tmp/run" || return 1
    "$B/tests/unit/check_driver" && "$B/tests/unit/check_policies" || return 1
    sed -i 's/patient/patien/' scenarios/examples/patient.yaml
    "$LUOSHU" check scenarios/examples/patient.yaml 2>&1 | grep -F 'did you mean `patient`?'
}
