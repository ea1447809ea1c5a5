/* coord_state.c: where state comes from and goes to. */
#include <stdio.h>

#include "core/io/files.h"
#include "exec/coordinator/coord.h"

static luo_status command(luo_backend_state *b, int32_t job, const luo_state_order *o,
                          const char *what, luo_err *err)
{
    luo_wire w = {0};
    luo_workers_begin(&b->workers, &w);
    luo_wire_put_int(&w, b->job[job].id);
    luo_put_state_order(&w, o);
    const luo_status st = luo_workers_send_all(&b->workers, LUO_SAY_STATE, &w, err);
    luo_wire_free(&w);
    return st == LUO_OK ? luo_coord_wait(b, what, err) : st;
}

/* Steps done as all ranks tell it. */
static luo_status steps_done(luo_backend_state *b, int64_t *step, luo_err *err)
{
    for (int32_t r = 0; r < b->workers.n; r++) {
        luo_wire *m = &b->workers.at[r].answer;
        const int64_t info = luo_wire_int(m);
        LUO_TRY(luo_wire_end(m, err));
        if (r > 0 && info != *step)
            return luo_err_set(err, LUO_EBUG, "ranks 0 and %d have done %lld and %lld steps.", r,
                               (long long)*step, (long long)info);
        *step = info;
    }
    return LUO_OK;
}

static luo_status init(luo_backend_state *b, int32_t job, int64_t *step, luo_err *err)
{
    const luo_exec_options *o = b->options;
    const luo_state_order order = {.action = LUO_STATE_INIT,
                                   .weights = o->load,
                                   .save_init = b->wrote_init ? NULL : o->save_init};
    LUO_TRY(command(b, job, &order, "make the first weights", err));
    b->wrote_init = true;
    return steps_done(b, step, err);
}

/* ---- LOAD ---- */

/* The newest checkpoint of a folder that is not after `until` steps and that all ranks can read.
 * Each time they have read a share of its tensors before any of them knows. */
static luo_status load_from(luo_backend_state *b, int32_t job, const char *dir, int64_t until,
                            luo_found *found, luo_err *err)
{
    for (;;) {
        luo_err why;
        LUO_TRY(luo_checkpoint_find(b->last, dir, until, found, err));
        const luo_state_order order = {.action = LUO_STATE_LOAD, .checkpoint = found->path};
        const luo_status st = command(b, job, &order, "load the checkpoint", &why);
        if (st == LUO_OK) return LUO_OK;
        if ((st != LUO_EINPUT && st != LUO_EPARSE) || found->named)
            return luo_err_set(err, st, "%s", why.text);
        LUO_TRY(luo_checkpoint_pass(b->last, found, found->path, why.text, err));
        until = found->step - 1;
    }
}

static luo_status load(luo_backend_state *b, int32_t job, const luo_state_request *q, int64_t *step,
                       luo_err *err)
{
    const luo_exec_options *o = b->options;
    luo_found found = {0};
    /* What an earlier run left in the folder is not this run's. */
    luo_status st = LUO_EINPUT;
    if (b->saved) st = load_from(b, job, o->checkpoints, q->step, &found, err);
    if (st == LUO_EINPUT && o->resume) st = load_from(b, job, o->resume, q->step, &found, err);
    if (st == LUO_EINPUT && !b->saved && !o->resume)
        return luo_err_set(err, LUO_EINPUT,
                           "there is no checkpoint to go back to; `--resume DIR` "
                           "or a checkpoint of this run is needed.");
    if (st != LUO_OK) return st;
    if (q->info)
        *q->info = (luo_state_info){
            .loaded = found.path, .npassed = found.npassed, .passed = found.passed};
    return steps_done(b, step, err);
}

/* ---- SAVE ---- */

static luo_status save(luo_backend_state *b, int32_t job, const luo_state_request *q, luo_err *err)
{
    const luo_exec_options *o = b->options;
    if (!o->checkpoints)
        return luo_err_set(err, LUO_EBUG, "a checkpoint is to be written and has no folder.");
    LUO_TRY(luo_coord_hold(b, job, err));
    LUO_TRY(luo_dir_make(o->checkpoints, err));
    const luo_state_order order = {.action = LUO_STATE_SAVE,
                                   .checkpoint = o->checkpoints,
                                   .data = o->data ? o->data : "synthetic",
                                   .step = q->step,
                                   .keep = o->keep};
    LUO_TRY(command(b, job, &order, "save the state", err));
    b->saved = true;
    return LUO_OK;
}

static void tell_processes(const luo_workers *f, const luo_state_request *q)
{
    if (!q->processes) return;
    for (int32_t d = 0; d < q->world->ndevices; d++)
        q->processes[d] = luo_workers_rank_of(f, d) >= 0;
}

luo_status luo_coord_state(luo_backend_state *b, const luo_state_request *q, int64_t *step,
                           luo_err *err)
{
    int32_t job;
    luo_arena_reset(b->last, 0);
    if (!q->recipe || q->recipe->from)
        return luo_err_set(err, LUO_EBUG, "state is asked for without the recipe of a step.");
    if (q->action == LUO_STATE_INIT || q->action == LUO_STATE_LOAD) {
        b->holder = -1;
        LUO_TRY(luo_coord_start(b, q->world, q->programs, err));
    } else if (!b->workers.alive) {
        return luo_err_set(err, LUO_EPEER, "%s.", b->workers.loss.text);
    }
    LUO_TRY(
        luo_coord_prepare(b, q->recipe->plan, q->recipe->sequence_tokens, q->programs, &job, err));
    if (q->action == LUO_STATE_BIND) return LUO_OK;
    if (q->action == LUO_STATE_SAVE) return save(b, job, q, err);
    if (q->action == LUO_STATE_INIT)
        LUO_TRY(init(b, job, step, err));
    else
        LUO_TRY(load(b, job, q, step, err));
    b->holder = job;
    tell_processes(&b->workers, q);
    return LUO_OK;
}
