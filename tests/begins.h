/* begins.h: in which order a device's instructions begin: what the walk issues, and what a step has
 * recorded. */
#ifndef LUO_TESTS_BEGINS_H
#define LUO_TESTS_BEGINS_H
#include "core/run/backend.h"
#include "core/run/interp.h"

typedef struct begin_at { /* an instruction of a task */
    int32_t task, instr;
} begin_at;

typedef struct begins { /* of a device, in the order of issue */
    int32_t n, early, ahead; /* calls issued before Post; receives before their task */
    begin_at *at;
} begins;

static inline luo_status begins_note(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    begins *all = (begins *)(void *)rank;
    *ticket = 0;
    all->at[all->n++] = (begin_at){issue->task, issue->instr->id};
    all->ahead += issue->early && luo_instr_goes_ahead(issue->instr);
    all->early += issue->early && !luo_instr_goes_ahead(issue->instr);
    return LUO_OK;
}

static inline luo_status begins_wait(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    (void)rank, (void)tickets, (void)n;
    return LUO_OK;
}

/* What the interpreter submits, in its order. */
static inline begins begins_issued(luo_arena *arena, const luo_programs *set,
                                   const luo_program *program, bool early)
{
    static const luo_executor notes = {.submit = begins_note, .wait = begins_wait};
    const int64_t most = (int64_t)program->ntask * set->roles[program->role].ninstr;
    begins all = {.at = LUO_NEW_N(arena, begin_at, most)};
    if (all.at)
        (void)luo_interp_program(&notes, (luo_rank *)(void *)&all, set, program, early, arena);
    return all;
}

static inline const luo_op_record *begins_record(const luo_op_record *records, int64_t n,
                                                 int32_t device, begin_at at)
{
    for (int64_t i = 0; i < n; i++)
        if (records[i].device == device && records[i].task == at.task &&
            records[i].instr == at.instr)
            return &records[i];
    return NULL;
}

/* Do the calls of each lane begin in the order of issue? *calls: those that were looked at;
 * *beside: those of Post that began before the device's last backward had ended. A call that was
 * not recorded, or that began before the one in front of it: false, and its place in *wrong. */
static inline bool begins_follow(const luo_programs *set, const luo_program *program,
                                 const begins *issued, const luo_op_record *records, int64_t n,
                                 int64_t *calls, int64_t *beside, begin_at *wrong)
{
    const luo_role *role = &set->roles[program->role];
    double last[LUO_LANES] = {0}, backward = 0;
    for (int64_t i = 0; i < n; i++)
        if (records[i].device == program->device &&
            luo_phase_is_backward(role->instr[records[i].instr].phase) &&
            role->instr[records[i].instr].kind == LUO_INSTR_COMPUTE &&
            records[i].end_s > backward)
            backward = records[i].end_s;
    for (int32_t k = 0; k < issued->n; k++) {
        const luo_instr *instr = &role->instr[issued->at[k].instr];
        if (!luo_instr_is_call(instr) || instr->beside || instr->kind != LUO_INSTR_COLLECTIVE)
            continue; /* a message is recorded from its first byte on */
        const luo_op_record *r = begins_record(records, n, program->device, issued->at[k]);
        const int32_t lane = luo_instr_lane(instr);
        *wrong = issued->at[k];
        if (!r || r->start_s < last[lane]) return false;
        last[lane] = r->start_s;
        *calls += 1;
        *beside += instr->phase == LUO_PHASE_POST && r->start_s < backward;
    }
    return true;
}

/* Do the records of a device stand as its instructions were issued? But for what is beside of a
 * staggered set, which not all backends record. The first that does not: false, and *wrong. */
static inline bool begins_recorded(const luo_programs *set, const luo_program *program,
                                   const begins *issued, const luo_op_record *records, int64_t n,
                                   begin_at *wrong)
{
    const luo_role *role = &set->roles[program->role];
    int64_t at = 0;
    for (int32_t k = 0; k < issued->n; k++) {
        if (role->instr[issued->at[k].instr].beside) continue;
        while (at < n && (records[at].device != program->device ||
                          role->instr[records[at].instr].beside))
            at++;
        *wrong = issued->at[k];
        if (at == n || records[at].task != wrong->task || records[at].instr != wrong->instr)
            return false;
        at++;
    }
    return true;
}

/* Receives of the device that were done before all was that the task `by` before theirs computes;
 * *all: those that could be. room: as many as the program has tasks. */
static inline int64_t begins_came_ahead(const luo_programs *set, const luo_program *program,
                                        const luo_op_record *records, int64_t n, int32_t by,
                                        double *room, int64_t *all)
{
    const luo_role *role = &set->roles[program->role];
    int64_t came = 0;
    for (int32_t t = 0; t < program->ntask; t++) room[t] = 0;
    for (int64_t i = 0; i < n; i++) /* when the task's last computation ends */
        if (records[i].device == program->device && records[i].end_s > room[records[i].task] &&
            role->instr[records[i].instr].kind == LUO_INSTR_COMPUTE)
            room[records[i].task] = records[i].end_s;
    for (int64_t i = 0; i < n; i++) {
        const luo_op_record *r = &records[i];
        if (r->device != program->device || r->task < by) continue;
        if (!luo_instr_goes_ahead(&role->instr[r->instr])) continue;
        came += r->end_s < room[r->task - by];
        *all += 1;
    }
    return came;
}
#endif
