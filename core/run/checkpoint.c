/* When checkpoints are written, what they cost, and where a restart goes back to
 * (docs/formats.md#luoshuscenario1, `checkpoint`).
 *
 * Cost, in closed form: every parameter's weight and optimizer state is written once (14 bytes a
 * bf16 parameter), spread evenly over the devices of the plan. Target storage: all bytes over the
 * storage's bandwidth, and each node's share over its NICs; target disk: the largest share of a
 * node over its disk; target peer: the share over the NICs, as each node keeps its own in memory
 * and sends a copy to the next node of the plan (Gemini, SOSP 2023, section 4, with two copies).
 * What is not given is unlimited. Choices of ours:
 * - a write in the background costs the run no time and is valid when it has ended; the next one
 *   waits for it;
 * - a checkpoint on disks is lost when all devices of one of its nodes are down; the run then
 *   goes back to its start;
 * - the memory of a node is lost when all its devices are down at once, and a checkpoint in memory
 *   when that happens to a node and to the next one; after a restart all nodes of its plan have
 *   their share again, and so have those behind them;
 * - the initial state can always be had again, at the cost of reading a checkpoint;
 * - on a backend with data writing is what it takes, at least the closed form, and the steps wait
 *   for it, whatever `mode` says. */
#include <math.h>

#include "core/run/real.h"

/* Largest number of the plan's devices on one node of group g; 0: none. */
static int32_t most_on_node(const luo_cluster *cluster, const luo_used_plan *used, int32_t g)
{
    int32_t most = 0, n = 0, last = -1;
    for (int32_t i = 0; i < used->ndev; i++) {
        const luo_device *device = &cluster->devices[used->dev[i]];
        if (device->group != g) continue;
        n = device->node == last ? n + 1 : 1;
        last = device->node;
        if (n > most) most = n;
    }
    return most;
}

double luo_ckpt_write_seconds(const luo_scenario *sc, const luo_used_plan *used)
{
    const luo_cluster *cluster = sc->cluster;
    const double bytes = (double)used->state_bytes, each = bytes / used->ndev;
    const double storage = cluster->storage_write_bytes_per_s;
    double t = sc->checkpoint.target == LUO_TARGET_STORAGE && storage > 0 ? bytes / storage : 0;
    for (int32_t g = 0; g < cluster->ngroups; g++) {
        const luo_node_group *group = &cluster->groups[g];
        const double way = sc->checkpoint.target == LUO_TARGET_DISK
                               ? group->disk_write_bytes_per_s
                               : group->nics * group->nic_bytes_per_s;
        if (way > 0) t = fmax(t, each * most_on_node(cluster, used, g) / way);
    }
    return t;
}

double luo_ckpt_failure_rate(const luo_run *run)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    double rate = 0;
    for (int32_t i = 0; i < run->job.scenario->nprocesses; i++) {
        const luo_arrivals *arrivals = &run->job.scenario->processes[i];
        luo_target target;
        double each =
            luo_event_traits_of(arrivals->kind).loss == LUO_LOSS_GONE ? 1 / arrivals->mean_s : 0;
        for (int32_t k = 0; k < arrivals->ncauses; k++)
            if (luo_event_traits_of(arrivals->causes[k].kind).loss == LUO_LOSS_GONE)
                each += (double)arrivals->causes[k].count /
                        (arrivals->observed_devices * arrivals->observed_s);
        const size_t mark = luo_arena_mark(run->scratch);
        if (luo_target_parse(run->scratch, run->job.scenario->cluster, arrivals->target, &target,
                             NULL) != LUO_OK)
            continue;
        for (int32_t k = 0; k < target.choices->ndev; k++)
            if (used->member[target.choices->dev[k]]) rate += each;
        luo_arena_reset(run->scratch, mark);
    }
    return rate;
}

/* Target peer: a host holds the share of its own node and that of another. */
luo_status luo_ckpt_check_room(const luo_run *run, const luo_used_plan *used, luo_err *err)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    if (!run->ledger.ckpt.on || run->job.scenario->checkpoint.target != LUO_TARGET_PEER)
        return LUO_OK;
    const double each = (double)used->state_bytes / used->ndev;
    int32_t most = 0;
    for (int32_t g = 0; g < cluster->ngroups; g++) {
        const int32_t here = most_on_node(cluster, used, g);
        if (here > most) most = here;
    }
    for (int32_t g = 0; g < cluster->ngroups; g++) {
        const luo_node_group *group = &cluster->groups[g];
        const int32_t here = most_on_node(cluster, used, g);
        const double needed = each * (here + most);
        if (here == 0 || group->host_memory_bytes <= 0 || needed <= group->host_memory_bytes)
            continue;
        return luo_err_set(err, LUO_EINPUT,
                           "checkpoints in memory (`target` peer) take up to %.1f GiB of a node of "
                           "`%s`, whose host has %.1f GiB; write them to `storage` or `disk`.",
                           needed / 1073741824.0, group->name,
                           group->host_memory_bytes / 1073741824.0);
    }
    return LUO_OK;
}

luo_status luo_ckpt_init(luo_run *run, luo_err *err)
{
    luo_ckpt *ckpt = &run->ledger.ckpt;
    *ckpt = (luo_ckpt){.valid_plan = -1,
                       .every_s = INFINITY,
                       .down_s = LUO_NEW_N(run->arena, double, run->job.scenario->cluster->nnodes)};
    if (!ckpt->down_s) return luo_err_nomem(err);
    for (int32_t n = 0; n < run->job.scenario->cluster->nnodes; n++) ckpt->down_s[n] = -1;
    if (run->job.scenario->checkpoint.kind == LUO_CHECKPOINT_STEPS)
        ckpt->every_steps = run->job.scenario->checkpoint.every_steps;
    if (run->job.scenario->checkpoint.kind == LUO_CHECKPOINT_S)
        ckpt->every_s = run->job.scenario->checkpoint.every_s;
    if (run->job.scenario->checkpoint.kind == LUO_CHECKPOINT_AUTO) {
        const double rate = luo_ckpt_failure_rate(run);
        if (rate > 0)
            ckpt->every_s = sqrt(2 * luo_run_plan(&run->plans)->write_s / rate);
        else
            LUO_TRY(luo_run_warn(run, err,
                                 "checkpoint `auto` writes none: no random process of the "
                                 "scenario makes devices fail"));
    }
    ckpt->on = (ckpt->every_steps > 0 || ckpt->every_s < INFINITY) && !run->job.policy->bound;
    ckpt->next_step = ckpt->every_steps;
    ckpt->next_s = ckpt->every_s;
    return luo_ckpt_check_room(run, luo_run_plan(&run->plans), err);
}

static luo_status become_valid(luo_run_ledger *ledger, int64_t step, int32_t plan, double from_s,
                               luo_err *err)
{
    ledger->ckpt.valid_step = step;
    ledger->ckpt.valid_plan = plan;
    ledger->ckpt.valid_from_s = from_s;
    ledger->ckpt.writing = false;
    return luo_account_safe(ledger, err);
}

static void set_next(luo_run *run)
{
    if (run->ledger.ckpt.every_steps > 0)
        run->ledger.ckpt.next_step = run->clock.step + run->ledger.ckpt.every_steps;
    run->ledger.ckpt.next_s = run->clock.t_s + run->ledger.ckpt.every_s;
}

luo_status luo_ckpt_write(luo_run *run, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const double from_s = run->clock.t_s, end_s = from_s + used->write_s;
    bool saved = true;
    run->ledger.ckpt.writes++;
    if (run->job.real) LUO_TRY(luo_real_save(run, &saved, err));
    LUO_TRY(luo_run_span_until(run, LUO_SPAN_CHECKPOINT, end_s, used->state_bytes, err));
    if (!saved) return LUO_OK;    /* the next attempt tells who died */
    if (run->ledger.ckpt.writing) /* overtaken */
        LUO_TRY(become_valid(&run->ledger, run->ledger.ckpt.valid_step, run->ledger.ckpt.valid_plan,
                             run->ledger.ckpt.valid_from_s, err));
    LUO_TRY(become_valid(&run->ledger, run->clock.step, run->plans.running, from_s, err));
    set_next(run);
    return LUO_OK;
}

static luo_status start_write(luo_run *run, luo_err *err)
{
    luo_ckpt *ckpt = &run->ledger.ckpt;
    const luo_used_plan *used = luo_run_plan(&run->plans);
    if (run->job.scenario->checkpoint.blocking || run->job.real) return luo_ckpt_write(run, err);
    set_next(run);
    ckpt->writing = true;
    ckpt->writes++;
    ckpt->writing_step = run->clock.step;
    ckpt->writing_plan = run->plans.running;
    ckpt->writing_from_s = run->clock.t_s;
    ckpt->done_s = run->clock.t_s + used->write_s;
    return luo_run_timeline(run, LUO_SPAN_CHECKPOINT, run->clock.t_s, ckpt->done_s, false, false,
                            used->state_bytes, err);
}

luo_status luo_ckpt_boundary(luo_run *run, luo_err *err)
{
    luo_ckpt *ckpt = &run->ledger.ckpt;
    if (!ckpt->on) return LUO_OK;
    if (ckpt->writing && ckpt->done_s <= run->clock.t_s)
        LUO_TRY(become_valid(&run->ledger, ckpt->writing_step, ckpt->writing_plan,
                             ckpt->writing_from_s, err));
    if (ckpt->writing || run->clock.step == ckpt->valid_step) return LUO_OK;
    const bool due = (ckpt->every_steps > 0 && run->clock.step >= ckpt->next_step) ||
                     run->clock.t_s >= ckpt->next_s;
    return due ? start_write(run, err) : LUO_OK;
}

luo_status luo_ckpt_last(luo_run *run, luo_err *err)
{
    if (!run->job.real || !run->ledger.ckpt.on || run->clock.step == run->ledger.ckpt.valid_step)
        return LUO_OK;
    return luo_ckpt_write(run, err);
}

static bool wrote(const luo_cluster *cluster, const luo_used_plan *used, int32_t node)
{
    const int32_t first = cluster->nodes[node].first_device;
    for (int32_t s = 0; s < cluster->groups[cluster->nodes[node].group].devices_per_node; s++)
        if (used->member[first + s]) return true;
    return false;
}

static bool has_device(const luo_cluster *cluster, const bool *up, int32_t node)
{
    const int32_t first = cluster->nodes[node].first_device;
    for (int32_t s = 0; s < cluster->groups[cluster->nodes[node].group].devices_per_node; s++)
        if (up[first + s]) return true;
    return false;
}

/* Does every node that wrote it still have a device? */
static bool disks_alive(const luo_run *run)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    const bool *up = luo_events_world(run->clock.events)->up;
    for (int32_t n = 0; n < cluster->nnodes; n++)
        if (wrote(cluster, run->plans.list[run->ledger.ckpt.valid_plan], n) &&
            !has_device(cluster, up, n))
            return false;
    return true;
}

void luo_ckpt_changes(luo_run *run)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    if (run->job.scenario->checkpoint.target != LUO_TARGET_PEER) return;
    for (int32_t n = 0; n < cluster->nnodes; n++)
        if (!has_device(cluster, luo_events_world(run->clock.events)->up, n))
            run->ledger.ckpt.down_s[n] = run->clock.t_s;
}

/* Is there a node that wrote it whose memory, and that of the next one, has been lost since? */
static bool memory_alive(const luo_run *run)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    const luo_used_plan *used = run->plans.list[run->ledger.ckpt.valid_plan];
    int32_t first = -1, before = -1;
    bool alive = true;
    for (int32_t n = 0; n < cluster->nnodes; n++) {
        if (!wrote(cluster, used, n)) continue;
        const bool gone = run->ledger.ckpt.down_s[n] >= run->ledger.ckpt.valid_from_s;
        if (before >= 0 && gone && run->ledger.ckpt.down_s[before] >= run->ledger.ckpt.valid_from_s)
            alive = false;
        if (first < 0) first = n;
        before = n;
    }
    const bool last =
        before >= 0 && run->ledger.ckpt.down_s[before] >= run->ledger.ckpt.valid_from_s;
    return alive && !(last && run->ledger.ckpt.down_s[first] >= run->ledger.ckpt.valid_from_s);
}

static bool is_lost(const luo_run *run)
{
    if (run->ledger.ckpt.valid_plan < 0) return false;
    if (run->job.scenario->checkpoint.target == LUO_TARGET_DISK) return !disks_alive(run);
    return run->job.scenario->checkpoint.target == LUO_TARGET_PEER && !memory_alive(run);
}

/* As the write: all bytes through the storage, or shares from the disks or through the NICs of the
 * slowest node. */
double luo_ckpt_read_seconds(const luo_run *run)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    const luo_used_plan *used = luo_run_plan(&run->plans);
    if (run->job.scenario->checkpoint.target == LUO_TARGET_STORAGE)
        return cluster->storage_read_bytes_per_s > 0
                   ? (double)used->state_bytes / cluster->storage_read_bytes_per_s
                   : 0;
    if (run->job.scenario->checkpoint.target == LUO_TARGET_PEER) return used->write_s;
    double t = 0;
    for (int32_t g = 0; g < cluster->ngroups; g++)
        if (cluster->groups[g].disk_read_bytes_per_s > 0)
            t = fmax(t, (double)used->state_bytes / used->ndev * most_on_node(cluster, used, g) /
                            cluster->groups[g].disk_read_bytes_per_s);
    return t;
}

double luo_ckpt_setback_s(const luo_run *run, double step_s, double failure_s)
{
    const luo_ckpt *ckpt = &run->ledger.ckpt;
    const double steps_s =
        ckpt->every_steps > 0 ? (double)ckpt->every_steps * step_s : (double)INFINITY;
    const double lost_s =
        ckpt->on ? fmin(steps_s, ckpt->every_s) / 2 : luo_account_open_s(&run->ledger) + failure_s;
    return luo_ckpt_read_seconds(run) + lost_s;
}

int64_t luo_ckpt_restore(luo_run *run, double *read_s)
{
    luo_ckpt *ckpt = &run->ledger.ckpt;
    ckpt->writing = false;
    if (is_lost(run)) {
        ckpt->valid_plan = -1;
        ckpt->valid_step = run->clock.first_step;
        ckpt->next_step = ckpt->valid_step + ckpt->every_steps;
    }
    *read_s = luo_ckpt_read_seconds(run);
    if (ckpt->valid_plan >= 0 && run->job.scenario->checkpoint.target == LUO_TARGET_PEER) {
        ckpt->valid_plan = run->plans.running;
        ckpt->valid_from_s = run->clock.t_s;
    }
    return ckpt->valid_step;
}
