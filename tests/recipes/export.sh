# The devices of a plan, a number a line.
row='add a kind of export'
steps() {
    cat >core/io/export/devices.c <<'C' &&
#include "core/io/export/export_internal.h"

luo_status export_devices(export_job *job)
{
    const luo_plan *plan = job->source->plan;
    luo_str text = {0};
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++)
                luo_str_addf(&text, "%d\n", plan->pipelines[i].stages[s].dev[k]);
    return export_put(job, NULL, &text);
}
C
        cat >>core/io/export/exporters.inc <<'C' &&
LUO_EXPORTER(DEVICES, "devices", export_devices, PLAN, 0, 0, "devices of the plan")
C
        insert after docs/formats.md '| `chakra` | a folder of Chakra' <<'C'
| `devices` | devices of the plan | plan | - | - |
C
}
show() {
    [ "$("$LUOSHU" export devices scenarios/plans/tiny2.json | tail -n 1)" = 1 ] &&
        "$LUOSHU" help export | grep -q 'devices' && "$B/tests/unit/check_docs"
}
