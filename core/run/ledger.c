/* Where the time of a run went (docs/results.md, `time`): parts of the steps that stay, steps
 * that were lost or redone, and blocking periods. They sum to the run's length.
 *
 * A step stays for good once a checkpoint behind it is valid. Until then it stands in `open`, or in
 * `fresh` while a checkpoint in front of it is still being written; going back empties both. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/run/health/pace.h"
#include "core/run/parts.h"

double luo_account_parts_sum(const luo_parts *parts)
{
    return parts->compute_s + parts->recompute_s + parts->tp_s + parts->ep_s + parts->cp_s +
           parts->pp_s + parts->dp_s + parts->move_s + parts->io_s + parts->bubble_s;
}

static void add_share(luo_share *to, luo_share *from)
{
    luo_parts_add(&to->parts, &from->parts, 1);
    to->seconds += from->seconds;
    to->flops += from->flops;
    to->peak += from->peak;
    to->imbalance += from->imbalance;
    to->steps += from->steps;
    to->tokens += from->tokens;
    *from = (luo_share){0};
}

luo_status luo_account_init(luo_run *run, luo_err *err)
{
    luo_account *account = &run->ledger.account;
    const int32_t n = run->job.scenario->cluster->ndevices;
    account->parts = LUO_NEW_N(run->arena, luo_parts, n);
    account->used_s = LUO_NEW_N(run->arena, double, n);
    account->compute_s = LUO_NEW_N(run->arena, double, n);
    account->predicted_s = LUO_NEW_N(run->arena, double, n);
    account->up_s = LUO_NEW_N(run->arena, double, n);
    account->up_since = LUO_NEW_N(run->arena, double, n);
    if (!account->parts || !account->used_s || !account->compute_s || !account->predicted_s ||
        !account->up_s || !account->up_since)
        return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++)
        account->up_since[d] = luo_events_world(run->clock.events)->up[d] ? 0 : NAN;
    return LUO_OK;
}

void luo_account_changes(luo_run *run)
{
    luo_account *account = &run->ledger.account;
    int32_t n;
    const luo_change *change = luo_events_changes(run->clock.events, &n);
    for (int32_t i = 0; i < n; i++) {
        double *since = &account->up_since[change[i].target];
        if (change[i].kind == LUO_CHANGE_DOWN) {
            if (!isnan(*since)) account->up_s[change[i].target] += change[i].at_s - *since;
            *since = NAN;
        } else if (change[i].kind == LUO_CHANGE_UP && isnan(*since)) {
            *since = change[i].at_s;
        }
    }
}

luo_status luo_account_attempt(luo_run *run, int32_t *attempt, luo_err *err)
{
    const int32_t known = run->clock.step < run->ledger.done_before ? 1 : 0;
    if (run->clock.tried <= run->clock.step) run->clock.tried = run->clock.step + 1;
    return luo_tries_add(run->arena, &run->ledger.tries, run->clock.step, known, attempt)
               ? LUO_OK
               : luo_err_nomem(err);
}

/* The time of every step that stays, for the quantiles: counted, or 8 bytes a step. */
static luo_status keep_seconds(luo_run *run, double seconds, luo_err *err)
{
    luo_account *account = &run->ledger.account;
    luo_tally *tally = run->ledger.ckpt.writing ? &account->fresh_s : &account->open_s;
    if (!run->job.real) return luo_tally_add(tally, seconds) ? LUO_OK : luo_err_nomem(err);
    const int64_t k = run->clock.step - run->clock.first_step;
    if (!LUO_VEC_ROOM_IN(run->arena, account->step_s, k, account->cap_steps))
        return luo_err_nomem(err);
    account->step_s[k] = seconds;
    return LUO_OK;
}

/* times: so many steps like this one, which took `seconds` together; 1 on backends with data. */
static void add_devices(luo_run *run, const luo_used_plan *used, const luo_step_result *result,
                        int64_t times, double seconds)
{
    luo_account *account = &run->ledger.account;
    const double pace = luo_pace_of_step(run, result), n = (double)times;
    for (int32_t i = 0; i < used->ndev; i++) {
        const int32_t d = used->dev[i];
        luo_parts_add(&account->parts[d], &result->parts[i], n);
        if (run->job.real)
            account->parts[d].bubble_s += seconds - (result->end_s - result->start_s);
        account->used_s[d] += seconds;
        if (result->predicted_s[i] <= 0) continue;
        account->compute_s[d] +=
            n * (luo_pace_ratio(run, result, i) / pace * result->predicted_s[i]);
        account->predicted_s[d] += n * result->predicted_s[i];
    }
}

static void add_links(luo_run_ledger *ledger, const luo_step_result *result, int64_t times)
{
    const double n = (double)times;
    for (int32_t i = 0; result->links && i < result->nlinks && i < ledger->nlinks; i++) {
        ledger->links[i].bytes_up += n * result->links[i].bytes_up;
        ledger->links[i].bytes_down += n * result->links[i].bytes_down;
        ledger->links[i].busy_up_s += n * result->links[i].busy_up_s;
        ledger->links[i].busy_down_s += n * result->links[i].busy_down_s;
    }
}

static void halve_windows(double *bytes)
{
    for (int k = 0; k < LUO_LINK_WINDOWS; k++)
        bytes[k] = 2 * k < LUO_LINK_WINDOWS ? bytes[2 * k] + bytes[2 * k + 1] : 0;
}

/* The bytes of equal steps, one after another, at one rate from their start to their end. */
static void add_windows(luo_link_windows *windows, const luo_step_result *result, int64_t times,
                        double start_s, double end_s)
{
    if (!result->links || !(end_s > start_s)) return;
    if (!(windows->window_s > 0)) windows->window_s = end_s - start_s;
    while (end_s > windows->window_s * LUO_LINK_WINDOWS) {
        windows->window_s *= 2;
        for (int32_t i = 0; i < windows->nlinks; i++) {
            halve_windows(&windows->up[(int64_t)i * LUO_LINK_WINDOWS]);
            halve_windows(&windows->down[(int64_t)i * LUO_LINK_WINDOWS]);
        }
    }
    for (int k = (int)(start_s / windows->window_s); k < LUO_LINK_WINDOWS; k++) {
        const double from_s = fmax(start_s, k * windows->window_s);
        const double to_s = k + 1 < LUO_LINK_WINDOWS ? fmin(end_s, (k + 1) * windows->window_s)
                                                     : end_s;
        const double share = (double)times * (to_s - from_s) / (end_s - start_s);
        if (!(share > 0)) break;
        for (int32_t i = 0; i < result->nlinks && i < windows->nlinks; i++) {
            windows->up[(int64_t)i * LUO_LINK_WINDOWS + k] += share * result->links[i].bytes_up;
            windows->down[(int64_t)i * LUO_LINK_WINDOWS + k] += share * result->links[i].bytes_down;
        }
    }
}

/* Backends list the groups of one program set in one order; another length starts a new list. */
static luo_status add_comm(luo_run *run, luo_used_plan *used, const luo_step_result *result,
                           int64_t times, luo_err *err)
{
    if (used->traffic)
        return luo_traffic_add(used->traffic, used->set, result->comm, result->ncomm, err);
    if (!used->comm && result->ncomm > 0) {
        used->comm = LUO_NEW_N(run->arena, luo_comm_use, result->ncomm);
        if (!used->comm) return luo_err_nomem(err);
        used->ncomm = result->ncomm;
        for (int32_t i = 0; i < used->ncomm; i++) {
            used->comm[i] = result->comm[i];
            used->comm[i].calls = used->comm[i].bytes = 0;
            used->comm[i].busy_s = used->comm[i].exposed_s = 0;
        }
    }
    for (int32_t i = 0; i < result->ncomm && i < used->ncomm; i++) {
        const luo_comm_use *use = &result->comm[i];
        used->comm[i].calls += times * use->calls;
        used->comm[i].bytes += times * use->bytes;
        used->comm[i].busy_s += (double)times * use->busy_s;
        used->comm[i].exposed_s += (double)times * use->exposed_s;
    }
    return LUO_OK;
}

/* ---- steps like the one before ---- */

bool luo_account_repeats(const luo_run *run, const luo_step_result *result)
{
    const luo_repeat *repeat = &run->ledger.account.repeat;
    return result->name && result->name == repeat->name && run->plans.running == repeat->plan;
}

static void *copy_array(luo_arena *arena, const void *from, int64_t n, size_t size)
{
    void *to = luo_arena_alloc(arena, (size_t)n * size);
    if (to && n > 0) memcpy(to, from, (size_t)n * size);
    return to;
}

/* The arrays of a result live until the next one; what is added later needs its own. */
static luo_status copy_result(luo_repeat *repeat, const luo_step_result *result, luo_err *err)
{
    if (repeat->copied == result->name) return LUO_OK;
    if (!repeat->arena) repeat->arena = luo_arena_new(1 << 16);
    if (!repeat->arena) return luo_err_nomem(err);
    luo_arena_reset(repeat->arena, 0);
    luo_arena *arena = repeat->arena;
    luo_step_result *to = &repeat->result;
    *to = *result;
    to->parts = copy_array(arena, result->parts, result->n, sizeof *result->parts);
    to->compute_s = copy_array(arena, result->compute_s, result->n, sizeof *result->compute_s);
    to->predicted_s =
        copy_array(arena, result->predicted_s, result->n, sizeof *result->predicted_s);
    to->comm = copy_array(arena, result->comm, result->ncomm, sizeof *result->comm);
    if (result->links)
        to->links = copy_array(arena, result->links, result->nlinks, sizeof *result->links);
    if (!to->parts || !to->compute_s || !to->predicted_s || !to->comm ||
        (result->links && !to->links))
        return luo_err_nomem(err);
    repeat->copied = result->name;
    return LUO_OK;
}

static luo_status add_totals(luo_run *run, luo_used_plan *used, const luo_step_result *result,
                             int64_t times, double seconds, luo_err *err)
{
    add_devices(run, used, result, times, seconds);
    add_links(&run->ledger, result, times);
    return add_comm(run, used, result, times, err);
}

/* Those of steps without a pause between them. */
static void catch_up_windows(luo_run *run)
{
    luo_repeat *repeat = &run->ledger.account.repeat;
    if (repeat->in_row > 0)
        add_windows(&run->ledger.windows, &repeat->result, repeat->in_row, repeat->row_start_s,
                    repeat->row_end_s);
    repeat->in_row = 0;
}

luo_status luo_account_catch_up(luo_run *run, luo_err *err)
{
    luo_repeat *repeat = &run->ledger.account.repeat;
    const int64_t times = repeat->times;
    if (times == 0) return LUO_OK;
    repeat->times = 0;
    catch_up_windows(run);
    return add_totals(run, run->plans.list[repeat->plan], &repeat->result, times, repeat->seconds,
                      err);
}

static luo_status repeat_step(luo_run *run, const luo_step_result *result, double start_s,
                              double end_s, luo_err *err)
{
    luo_repeat *repeat = &run->ledger.account.repeat;
    LUO_TRY(copy_result(repeat, result, err));
    if (repeat->times++ == 0) repeat->seconds = 0;
    repeat->seconds += end_s - start_s;
    if (start_s != repeat->row_end_s) catch_up_windows(run);
    if (repeat->in_row++ == 0) repeat->row_start_s = start_s;
    repeat->row_end_s = end_s;
    return LUO_OK;
}

/* Device whose compute was slowest against what was predicted; ties, up to rounding, go to the
 * smaller id. */
static void find_slowest(const luo_run *run, const luo_step_result *result, luo_repeat *out)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const double pace = luo_pace_of_step(run, result);
    out->slowest = used->ndev > 0 ? used->dev[0] : -1;
    out->max_slowdown = 1;
    for (int32_t i = 0; i < used->ndev; i++) {
        const double q = luo_pace_ratio(run, result, i) / pace;
        if (q <= out->max_slowdown * (1 + 1e-9)) continue;
        out->max_slowdown = q;
        out->slowest = used->dev[i];
    }
}

/* A step of another kind than the one before. */
static luo_status new_step(luo_run *run, const luo_step_result *result, double start_s,
                           double end_s, luo_err *err)
{
    const double seconds = end_s - start_s;
    luo_repeat *repeat = &run->ledger.account.repeat;
    luo_used_plan *used = luo_run_plan(&run->plans);
    const double own = run->job.real ? result->end_s - result->start_s : seconds;
    LUO_TRY(luo_account_catch_up(run, err));
    repeat->name = run->lengths ? 0 : result->name; /* whose programs change step by step */
    repeat->plan = run->plans.running;
    repeat->mean = (luo_parts){0};
    for (int32_t i = 0; i < used->ndev; i++) {
        luo_parts_add(&repeat->mean, &result->parts[i], 1.0 / used->ndev);
        if (fabs(luo_account_parts_sum(&result->parts[i]) - own) >
            1e-6 * own + 4 * DBL_EPSILON * end_s)
            return luo_err_set(err, LUO_EBUG,
                               "the parts of device %d make %.9g s of a step of "
                               "%.9g s.",
                               used->dev[i], luo_account_parts_sum(&result->parts[i]), own);
    }
    find_slowest(run, result, repeat);
    add_windows(&run->ledger.windows, result, 1, start_s, end_s);
    return add_totals(run, used, result, 1, seconds, err);
}

void luo_account_mean(const luo_account *account, double seconds, luo_parts *out)
{
    *out = account->repeat.mean;
    /* The rounding of the mean, and of dates late in a long run: of the bubble, or where there is
     * none of what is largest. */
    out->bubble_s += seconds - luo_account_parts_sum(out);
    if (out->bubble_s >= 0) return;
    double *const part[] = {&out->compute_s, &out->recompute_s, &out->tp_s,
                            &out->ep_s,      &out->cp_s,        &out->pp_s,
                            &out->dp_s,      &out->move_s,      &out->io_s};
    double *largest = part[0];
    for (size_t i = 1; i < sizeof part / sizeof *part; i++)
        if (*part[i] > *largest) largest = part[i];
    *largest += out->bubble_s;
    out->bubble_s = 0;
}

luo_status luo_account_step(luo_run *run, const luo_step_result *result, double start_s,
                            double end_s, luo_err *err)
{
    luo_account *account = &run->ledger.account;
    luo_used_plan *used = luo_run_plan(&run->plans);
    luo_share *to = run->ledger.ckpt.writing ? &account->fresh : &account->open;
    /* with real time the way to the ranks belongs to the step: everybody waits, a bubble */
    const double seconds = end_s - start_s;
    luo_parts mean;
    LUO_TRY(luo_account_repeats(run, result) ? repeat_step(run, result, start_s, end_s, err)
                                             : new_step(run, result, start_s, end_s, err));
    luo_account_mean(account, seconds, &mean);
    luo_parts_add(&to->parts, &mean, 1);
    to->seconds += seconds;
    to->flops += used->flops;
    to->peak += used->peak_flops * seconds;
    to->imbalance += used->imbalance;
    to->steps++;
    to->tokens += used->tokens;
    account->tokens += used->tokens;
    used->steps++;
    used->step_s = seconds;
    return keep_seconds(run, seconds, err);
}

/* A checkpoint before the last one: of the steps that were safe, those after it go, in proportion,
 * as nobody has kept their parts apart. */
static void unsafe(luo_account *account, int64_t gone)
{
    luo_share part = account->safe;
    if (gone >= account->safe.steps) {
        add_share(&account->open, &account->safe);
        return;
    }
    const double f = (double)gone / (double)account->safe.steps;
    part.parts = (luo_parts){0};
    luo_parts_add(&part.parts, &account->safe.parts, f);
    part.seconds *= f;
    part.flops *= f;
    part.peak *= f;
    part.imbalance *= f;
    part.steps = gone;
    part.tokens = part.tokens / account->safe.steps * gone;
    luo_parts_add(&account->safe.parts, &part.parts, -1);
    account->safe.seconds -= part.seconds;
    account->safe.flops -= part.flops;
    account->safe.peak -= part.peak;
    account->safe.imbalance -= part.imbalance;
    account->safe.steps -= part.steps;
    account->safe.tokens -= part.tokens;
    add_share(&account->open, &part);
}

void luo_account_rollback(luo_run *run, int64_t step)
{
    luo_account *account = &run->ledger.account;
    if (step < run->ledger.tries.from) { /* even the checkpoint is gone */
        unsafe(account, run->ledger.tries.from - step);
        if (run->ledger.tries.to > run->ledger.done_before)
            run->ledger.done_before = run->ledger.tries.to;
        luo_tries_clear(&run->ledger.tries, step);
        luo_tally_free(
            &account->safe_s); /* without data: all, as there is one checkpoint at a time */
    }
    luo_tally_free(&account->open_s);
    luo_tally_free(&account->fresh_s);
    account->span[LUO_SPAN_STEP] += account->open.seconds + account->fresh.seconds;
    account->redone += account->open.steps + account->fresh.steps;
    account->open = account->fresh = (luo_share){0};
    run->clock.step = step;
}

double luo_account_open_s(const luo_run_ledger *ledger)
{
    return ledger->account.open.seconds + ledger->account.fresh.seconds;
}

/* What lies before the checkpoint that has just become valid stays; its tries are forgotten. */
luo_status luo_account_safe(luo_run_ledger *ledger, luo_err *err)
{
    luo_account *account = &ledger->account;
    const int64_t step = ledger->ckpt.valid_step;
    add_share(&account->safe, &account->open);
    account->open = account->fresh;
    account->fresh = (luo_share){0};
    if (!luo_tally_take(&account->safe_s, &account->open_s)) return luo_err_nomem(err);
    const luo_tally empty = account->open_s;
    account->open_s = account->fresh_s;
    account->fresh_s = empty;
    if (step > ledger->tries.from && step <= ledger->tries.to)
        luo_tries_forget(&ledger->tries, step);
    return LUO_OK;
}

void luo_account_free(luo_run_ledger *ledger)
{
    luo_tally_free(&ledger->account.safe_s);
    luo_tally_free(&ledger->account.open_s);
    luo_tally_free(&ledger->account.fresh_s);
    luo_arena_free(ledger->account.repeat.arena);
}
