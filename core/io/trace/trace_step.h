/* trace_step.h: one step while it is being drawn; not for others. */
#ifndef LUO_CORE_IO_TRACE_TRACE_STEP_H
#define LUO_CORE_IO_TRACE_TRACE_STEP_H
#include "core/io/trace/trace_internal.h"

typedef struct luo_when { /* ns */
    int64_t ts, end;
} luo_when;

typedef struct luo_flow { /* a message: records of its two ends */
    int64_t send, receive;
    bool of_switch;
} luo_flow;

typedef struct luo_tstep {
    luo_trace *t;
    const luo_programs *set;
    const luo_step_result *result;
    int64_t step, start, end;
    int32_t attempt;
    luo_when *at; /* per record: as drawn */
    uint8_t *row; /* per record: which of the device's eight tracks */
    luo_flow *flow;
    int64_t nflow;
    int64_t ndrawn; /* records 0..ndrawn-1 are drawn, those of so many devices */
    int32_t ndevices;
    int32_t *first_name; /* per role: of its instructions in `name` */
    struct luo_tname {
        int32_t slice, op, kind; /* names + 1; 0: not looked up yet */
    } *name;
} luo_tstep;

/* trace_flows.c: matches sends and receives into step->flow, and moves the start of a receive,
 * which is posted long before, to the start of its message. */
bool luo_trace_match(luo_tstep *step);
bool luo_trace_flows(luo_tstep *step);
/* trace_counters.c: records first..first+n-1 are those of p's device. */
bool luo_trace_memory(luo_tstep *step, const luo_program *program, int64_t first, int64_t n);
bool luo_trace_nics(luo_trace *trace, int64_t start, int64_t end, const luo_link_use *use,
                    int32_t n);

static inline const luo_instr *luo_tstep_instr(const luo_tstep *step, const luo_program *program,
                                               int64_t k)
{
    return &step->set->roles[program->role].instr[step->result->records[k].instr];
}

static inline const luo_slot *luo_tstep_slot(const luo_program *program, const luo_instr *in)
{
    return in->slot >= 0 ? &program->slots[in->slot] : NULL;
}
#endif
