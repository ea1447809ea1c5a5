/* net.c: puts classes and traffic together; rows of comm use. */
#include "sim/net/net.h"

#include "sim/net/traffic.h"

static luo_status check_devices(const sim_net *net, luo_err *err)
{
    const luo_programs *set = net->set;
    const int32_t limit = net->config->cluster->ndevices;
    int32_t bad = -1;
    for (int32_t i = 0; i < set->n; i++)
        if (set->at[i].device < 0 || set->at[i].device >= limit) bad = set->at[i].device;
    for (int32_t g = 0; g < set->ngroups; g++)
        for (int32_t i = 0; i < set->groups[g].n; i++)
            if (set->groups[g].dev[i] < 0 || set->groups[g].dev[i] >= limit)
                bad = set->groups[g].dev[i];
    if (bad < 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "device `%d` is not in the cluster; it has 0 to %d.", bad,
                       limit - 1);
}

/* ---- rows of comm use ---- */

typedef struct row_maker {
    sim_net *net;
    int32_t *of_group, *of_exchange, *seen; /* seen: per exchange, last device counted, + 1 */
    sim_row *rows;
} row_maker;

static void see_collective(row_maker *maker, const luo_instr *in, const luo_slot *slot)
{
    int32_t *at = &maker->of_group[slot->group * 5 + in->coll];
    if (*at >= 0) return;
    const luo_group *group = &maker->net->set->groups[slot->group];
    *at = maker->net->nrows;
    maker->rows[maker->net->nrows++] = (sim_row){slot->group, -1, in->coll, in->stream, group->n};
}

static void see_exchange(row_maker *maker, int32_t device, const luo_instr *in)
{
    int32_t *at = &maker->of_exchange[in->exchange];
    if (*at < 0) {
        *at = maker->net->nrows;
        maker->rows[maker->net->nrows++] = (sim_row){-1, in->exchange, -1, in->stream, 0};
    }
    if (maker->seen[in->exchange] == device + 1) return;
    maker->seen[in->exchange] = device + 1;
    maker->rows[*at].devices++;
}

static void see_device(row_maker *maker, const luo_program *program)
{
    const luo_role *role = &maker->net->set->roles[program->role];
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->slot < 0) continue;
        if (in->kind == LUO_INSTR_COLLECTIVE)
            see_collective(maker, in, &program->slots[in->slot]);
        else if (in->kind == LUO_INSTR_P2P && in->exchange >= 0)
            see_exchange(maker, program->device, in);
    }
}

static luo_status make_rows(luo_arena *arena, sim_net *net, luo_err *err)
{
    int32_t exchanges = 0;
    for (int32_t r = 0; r < net->set->nroles; r++)
        for (int32_t i = 0; i < net->set->roles[r].ninstr; i++)
            if (net->set->roles[r].instr[i].exchange >= exchanges)
                exchanges = net->set->roles[r].instr[i].exchange + 1;
    row_maker r = {net, LUO_NEW_N(arena, int32_t, net->set->ngroups * 5),
                   LUO_NEW_N(arena, int32_t, exchanges), LUO_NEW_N(arena, int32_t, exchanges),
                   LUO_NEW_N(arena, sim_row, net->set->ngroups * 5 + exchanges)};
    if (!r.of_group || !r.of_exchange || !r.seen || !r.rows) return luo_err_nomem(err);
    for (int32_t g = 0; g < net->set->ngroups * 5; g++) r.of_group[g] = -1;
    for (int32_t e = 0; e < exchanges; e++) r.of_exchange[e] = -1;
    for (int32_t i = 0; i < net->set->n; i++) see_device(&r, &net->set->at[i]);
    net->rows = r.rows;
    net->row_of_group = r.of_group;
    net->row_of_exchange = r.of_exchange;
    return LUO_OK;
}

static bool has_training(const luo_programs *set)
{
    for (int32_t r = 0; r < set->nroles; r++)
        for (int32_t s = 0; s < set->roles[r].nseg; s++)
            if (luo_phase_in_task(set->roles[r].seg[s].phase)) return true;
    return false;
}

luo_status sim_net_make(luo_arena *arena, const luo_backend_config *config,
                        const luo_programs *set, const sim_sharing *sharing, sim_net **out,
                        luo_err *err)
{
    sim_net *net = LUO_NEW(arena, sim_net);
    if (!net) return luo_err_nomem(err);
    net->config = config;
    net->set = set;
    net->sharing = sharing;
    net->cost = (luo_cost_ctx){config->cluster, config->stack, config->dtype, set->nops, set->ops};
    net->training = has_training(set);
    LUO_TRY(check_devices(net, err));
    LUO_TRY(sim_classes_make(arena, net, err));
    LUO_TRY(sim_traffic_make(arena, net, err));
    LUO_TRY(sim_loose_find(arena, net, err));
    LUO_TRY(make_rows(arena, net, err));
    *out = net;
    return LUO_OK;
}
