/* report.h: what a step left behind, as arrays that can be sent and kept. */
#ifndef LUO_SIM_STEP_REPORT_H
#define LUO_SIM_STEP_REPORT_H
#include "sim/step/step.h"

typedef struct sim_head { /* goes first; the arrays follow in the order of sim_reply */
    int32_t status, failed_device, failed_link;
    int32_t nlinks, ncomm, n;
    int64_t nrecords, closed_instead, flow_instead;
    double end_s;
    double before_s; /* of rounds before the step that is told; changes are dated from then on */
    char text[LUO_ERR_TEXT];
} sim_head;

typedef struct sim_reply {
    sim_head head;
    luo_parts *parts; /* n */
    double *compute_s, *predicted_s;
    luo_link_use *links;
    luo_comm_use *comm;
    luo_op_record *records;
} sim_reply;

/* Bytes per way and tensor byte of collectives inside a class; made when first needed. */
typedef struct sim_unit_loads {
    luo_arena *arena;
    struct sim_unit {
        bool known;
        int32_t n;
        const sim_load *at;
    } *of; /* [group * 5 + coll] */
} sim_unit_loads;
luo_status sim_unit_init(luo_arena *arena, const sim_net *net, sim_unit_loads *loads);

/* The outcome of the step last run. The arrays belong to the step's arena.
 * Errors: LUO_ENOMEM. Cost: O(busy intervals + devices * communicating instructions + links). */
luo_status sim_report(sim_step *step, sim_unit_loads *units, sim_reply *out);
#endif
