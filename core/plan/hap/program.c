/* Cost and text of a program. */
#include "core/plan/hap/program.h"

#include <math.h>

luo_hap_stage luo_hap_stage_cost(const luo_hap_space *space, const luo_hap_numbers *numbers,
                                 const luo_hap_cuts *cuts, const luo_hap_triple *triple)
{
    const int32_t seg = space->graph->op[triple->op].segment;
    const double *part =
        triple->ext < 0 ? NULL : &cuts->part[(seg * cuts->nextents + triple->ext) * cuts->ntypes];
    luo_hap_stage stage = {0};
    for (int32_t t = 0; t < numbers->ntypes; t++) {
        const double work = triple->w_full + (part ? triple->w_split * part[t] : 0);
        stage.compute_s = fmax(stage.compute_s,
                               work / luo_hap_numbers_speed(numbers, space->graph, triple->op, t));
    }
    for (int32_t i = 0; i < triple->ncoll; i++)
        stage.communication_s += luo_hap_price(numbers, cuts, &triple->coll[i], NULL);
    return stage;
}

luo_status luo_hap_program_cuts(luo_arena *arena, const luo_hap_space *space,
                                const luo_hap_numbers *numbers, const double *shares,
                                luo_hap_cuts **out, luo_err *err)
{
    return luo_hap_cuts_new(arena, numbers, space->graph->nsegments, shares, space->nextents,
                            space->extent, out, err);
}

luo_status luo_hap_cost(luo_arena *arena, const luo_hap_program *program,
                        const luo_hap_numbers *numbers, const double *shares, double *cost,
                        luo_hap_stage *parts, luo_err *err)
{
    const luo_hap_space *space = program->space;
    luo_hap_stage sum = {0};
    luo_hap_cuts *cuts;
    const size_t mark = luo_arena_mark(arena);
    LUO_TRY(luo_hap_program_cuts(arena, space, numbers, shares, &cuts, err));
    for (int32_t o = 0; o < space->graph->nops; o++) {
        const luo_hap_stage stage =
            luo_hap_stage_cost(space, numbers, cuts, &space->triple[program->choice[o]]);
        sum.compute_s += stage.compute_s;
        sum.communication_s += stage.communication_s;
    }
    luo_arena_reset(arena, mark);
    *cost = sum.compute_s + sum.communication_s;
    if (parts) *parts = sum;
    return LUO_OK;
}

/* ---- text ---- */

static void add_how(luo_str *text, const luo_hap_take *take)
{
    static const char *const words[] = {
        [LUO_HAP_HOW_PARAM] = "I",      [LUO_HAP_HOW_AR] = "I/AR",
        [LUO_HAP_HOW_ZERO] = "I/Z",     [LUO_HAP_HOW_FACTORS] = "I/SFB",
        [LUO_HAP_HOW_GATHER] = "AG",    [LUO_HAP_HOW_SLICE] = "SL",
        [LUO_HAP_HOW_SCATTER] = "RS",   [LUO_HAP_HOW_REDUCE] = "AR",
        [LUO_HAP_HOW_EXCHANGE] = "A2A", [LUO_HAP_HOW_RESHARE] = "RE",
    };
    const luo_hap_how how = (luo_hap_how)take->how;
    if (how == LUO_HAP_HOW_PARAM && take->to.kind == LUO_REL_G) {
        luo_str_addf(text, "G%d", take->to.dim);
        return;
    }
    luo_str_add(text, words[how]);
    if (how == LUO_HAP_HOW_GATHER || how == LUO_HAP_HOW_EXCHANGE)
        luo_str_addi(text, take->from.dim);
    if (how == LUO_HAP_HOW_SLICE || how == LUO_HAP_HOW_SCATTER || how == LUO_HAP_HOW_EXCHANGE ||
        how == LUO_HAP_HOW_RESHARE)
        luo_str_addi(text, take->to.dim);
}

void luo_hap_program_line(luo_str *text, const luo_hap_program *program, int32_t op)
{
    const luo_hap_space *space = program->space;
    const luo_hap_triple *triple = &space->triple[program->choice[op]];
    const luo_hap_op *hap_op = &space->graph->op[op];
    char name[8];
    luo_str_add(text, luo_hap_rule_name(&space->rule[op][triple->rule], name));
    for (int32_t j = 0; j < hap_op->nin; j++) {
        const luo_hap_take *take = &triple->take[j];
        if (take->how == LUO_HAP_HOW_KEPT || take->how == LUO_HAP_HOW_INPUT) continue;
        luo_str_addf(text, " %s:", space->graph->tensor[hap_op->in[j]].name);
        add_how(text, take);
    }
}

void luo_hap_program_print(luo_str *text, const luo_hap_program *program)
{
    for (int32_t o = 0; o < program->space->graph->nops; o++) {
        luo_hap_program_line(text, program, o);
        luo_str_addc(text, '\n');
    }
}
