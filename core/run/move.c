/* A switch that moves state: fused plan of who sends what to whom, compiled to programs
 * (core/plan/migrate.h), run on the backend. */
#include "core/plan/migrate.h"
#include "core/run/health/pace.h"
#include "core/run/lengths/lengths_run.h"
#include "core/run/real.h"

/* Who is to receive was gone meanwhile: his process is a new one, which moves do not know. */
static bool uses_emptied(const luo_run_health *health, const luo_used_plan *used)
{
    for (int32_t i = 0; i < used->ndev; i++)
        if (health->emptied[used->dev[i]]) return true;
    return false;
}

static luo_status list_dead(luo_arena *arena, const luo_run *run, int32_t **dead, int32_t *n,
                            luo_err *err)
{
    const int32_t ndevices = run->job.scenario->cluster->ndevices;
    *n = 0;
    *dead = LUO_NEW_N(arena, int32_t, ndevices);
    if (!*dead) return luo_err_nomem(err);
    for (int32_t d = 0; d < ndevices; d++)
        if (!run->health.usable[d] || run->health.emptied[d]) (*dead)[(*n)++] = d;
    return LUO_OK;
}

/* Traffic by kind of link, and who sends most. */
static luo_status describe(luo_arena *arena, const luo_run *run, const luo_switch *sw,
                           luo_row_switch *row, luo_err *err)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    int64_t *sent = LUO_NEW_N(arena, int64_t, cluster->ndevices);
    if (!sent) return luo_err_nomem(err);
    row->bytes_local = sw->local_bytes;
    row->messages = sw->npair;
    row->max_sender = -1;
    for (int32_t i = 0; i < sw->npair; i++) {
        const luo_pair *pair = &sw->pair[i];
        const luo_device *src = &cluster->devices[pair->src], *dst = &cluster->devices[pair->dst];
        if (src->node != dst->node)
            row->bytes_nic += pair->bytes;
        else if (cluster->groups[src->group].scale_up != LUO_SCALE_UP_NONE)
            row->bytes_nvlink += pair->bytes;
        else
            row->bytes_pcie += pair->bytes;
        sent[pair->src] += pair->bytes;
    }
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        if (sent[d] <= row->max_sender_bytes) continue;
        row->max_sender = d;
        row->max_sender_bytes = sent[d];
    }
    return LUO_OK;
}

/* Between two parts of a step it is time of the step. */
static luo_status account(luo_run *run, const luo_row_switch *row, double start_s, luo_err *err)
{
    if (run->lengths && run->lengths->in_step) return LUO_OK;
    run->ledger.account.span[LUO_SPAN_SWITCH] += row->move_s;
    if (row->move_s <= 0) return LUO_OK;
    return luo_run_timeline(run, LUO_SPAN_SWITCH, start_s, run->clock.t_s, true, false,
                            row->bytes_nvlink + row->bytes_pcie + row->bytes_nic, err);
}

static luo_status run_moves(luo_run *run, const luo_programs *set, const luo_recipe *recipe,
                            luo_row_switch *row, bool *broken, luo_err *err)
{
    luo_step_request request = {.programs = set,
                                .recipe = recipe,
                                .world = luo_events_world(run->clock.events),
                                .step = run->clock.step};
    luo_step_result result = {0};
    const double start_s = run->clock.t_s;
    luo_ahead ahead;
    LUO_TRY(luo_run_look_ahead(run, &ahead, &request, err));
    LUO_TRY(run->backend.table->run_ranks(run->backend.state, &request, &result, err));
    *broken = result.status == LUO_EPEER;
    LUO_TRY(luo_run_end_of(run, &ahead, &result, err));
    row->move_s = run->clock.t_s - start_s;
    LUO_TRY(account(run, row, start_s, err));
    if (result.status != LUO_OK && result.status != LUO_EPEER) {
        if (run->job.real) run->clock.state = LUO_FAILED;
        return luo_err_set(err, result.status, "%s", result.text);
    }
    LUO_TRY(luo_run_advance(run, run->clock.t_s, err));
    return *broken && result.died ? luo_real_died(run, &result, err) : LUO_OK;
}

luo_status luo_run_move(luo_run *run, const luo_used_plan *was, int32_t to, luo_row_switch *row,
                        bool *broken, luo_err *err)
{
    const luo_used_plan *now = run->plans.list[to];
    /* one that is to receive failed, or was cut off, while the communicators were made */
    *broken = !luo_plan_within(now->plan, run->health.usable);
    if (*broken) return LUO_OK;
    if (uses_emptied(&run->health, now))
        return luo_err_set(err, LUO_ELOST, "a device of the new plan was gone and is back without "
                           "its state.");
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_status st = arena ? LUO_OK : luo_err_nomem(err);
    luo_switching moves = {0};
    int32_t *dead, ndead;
    if (st == LUO_OK) st = list_dead(arena, run, &dead, &ndead, err);
    if (st == LUO_OK)
        st = luo_switching_compile(arena, was->plan, now->plan, run->job.scenario->model,
                                   run->job.scenario->cluster, ndead, dead, &moves, err);
    if (st == LUO_OK) st = describe(arena, run, &moves.sw, row, err);
    if (st == LUO_OK && moves.set) {
        const luo_recipe recipe = {.plan = now->plan, .from = was->plan, .ndead = ndead,
                                   .dead = dead, .sequence_tokens = now->sequence_tokens,
                                   .from_tokens = was->sequence_tokens};
        st = run_moves(run, moves.set, &recipe, row, broken, err);
    }
    luo_arena_free(arena);
    return st;
}

luo_status luo_run_rebind(luo_run *run, const luo_used_plan *was, int32_t plan, luo_err *err)
{
    luo_row_switch row = {0};
    bool broken;
    LUO_TRY(luo_run_move(run, was, plan, &row, &broken, err));
    if (broken) {
        run->decision.trigger |= LUO_TRIGGER_FAIL;
        run->decision.failed_since_s = run->clock.t_s;
        return LUO_OK;
    }
    run->plans.running = plan;
    run->health.has_predicted = false;
    luo_pace_forget(&run->health);
    return LUO_OK;
}
