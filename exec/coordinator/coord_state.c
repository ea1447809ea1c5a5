/* coord_state.c: where state comes from and goes to. */
#include <stdio.h>

#include "core/io/files.h"
#include "exec/coordinator/coord.h"
#include "exec/state/checkpoint.h"

static luo_status command(luo_backend_state *backend, int32_t job, const luo_state_order *order,
                          const char *what, luo_err *err)
{
    luo_wire wire = {0};
    luo_workers_begin(&backend->workers, &wire);
    luo_wire_put_int(&wire, backend->job[job].id);
    luo_message_put_state_order(&wire, order);
    const luo_status st = luo_workers_send_all(&backend->workers, LUO_SAY_STATE, &wire, err);
    luo_wire_free(&wire);
    return st == LUO_OK ? luo_coord_wait(backend, what, err) : st;
}

/* Steps done as all ranks tell it. */
static luo_status steps_done(luo_backend_state *backend, int64_t *step, luo_err *err)
{
    for (int32_t r = 0; r < backend->workers.n; r++) {
        luo_wire *wire = &backend->workers.at[r].answer;
        const int64_t info = luo_wire_int(wire);
        LUO_TRY(luo_message_end(wire, err));
        if (r > 0 && info != *step)
            return luo_err_set(err, LUO_EBUG, "ranks 0 and %d have done %lld and %lld steps.", r,
                               (long long)*step, (long long)info);
        *step = info;
    }
    return LUO_OK;
}

static luo_status init(luo_backend_state *backend, int32_t job, int64_t *step, luo_err *err)
{
    const luo_exec_options *options = backend->options;
    const luo_state_order order = {.action = LUO_STATE_INIT,
                                   .weights = options->load,
                                   .save_init = backend->wrote_init ? NULL : options->save_init};
    LUO_TRY(command(backend, job, &order, "make the first weights", err));
    backend->wrote_init = true;
    return steps_done(backend, step, err);
}

/* ---- LOAD ---- */

/* The newest checkpoint of a folder that is not after `until` steps and that all ranks can read.
 * Each time they have read a share of its tensors before any of them knows. */
static luo_status load_from(luo_backend_state *backend, int32_t job, const char *dir, int64_t until,
                            luo_found *found, luo_err *err)
{
    for (;;) {
        luo_err why;
        LUO_TRY(luo_checkpoint_find(backend->last, dir, until, found, err));
        const luo_state_order order = {.action = LUO_STATE_LOAD, .checkpoint = found->path};
        const luo_status st = command(backend, job, &order, "load the checkpoint", &why);
        if (st == LUO_OK) return LUO_OK;
        if ((st != LUO_EINPUT && st != LUO_EPARSE) || found->named)
            return luo_err_set(err, st, "%s", why.text);
        LUO_TRY(luo_checkpoint_pass(backend->last, found, found->path, why.text, err));
        until = found->step - 1;
    }
}

static luo_status load_checkpoint(luo_backend_state *backend, int32_t job,
                                  const luo_state_request *request, int64_t *step, luo_err *err)
{
    const luo_exec_options *options = backend->options;
    luo_found found = {0};
    /* What an earlier run left in the folder is not this run's. */
    luo_status st = LUO_EINPUT;
    if (backend->saved)
        st = load_from(backend, job, options->checkpoints, request->step, &found, err);
    if (st == LUO_EINPUT && options->resume)
        st = load_from(backend, job, options->resume, request->step, &found, err);
    if (st == LUO_EINPUT && !backend->saved && !options->resume)
        return luo_err_set(err, LUO_EINPUT,
                           "there is no checkpoint to go back to; `--resume DIR` "
                           "or a checkpoint of this run is needed.");
    if (st != LUO_OK) return st;
    if (request->info)
        *request->info = (luo_state_info){
            .loaded = found.path, .npassed = found.npassed, .passed = found.passed};
    return steps_done(backend, step, err);
}

/* ---- SAVE ---- */

static luo_status save(luo_backend_state *backend, int32_t job, const luo_state_request *request,
                       luo_err *err)
{
    const luo_exec_options *options = backend->options;
    if (!options->checkpoints)
        return luo_err_set(err, LUO_EBUG, "a checkpoint is to be written and has no folder.");
    LUO_TRY(luo_coord_hold(backend, job, err));
    LUO_TRY(luo_file_make_own_dir(options->checkpoints, err));
    const luo_state_order order = {.action = LUO_STATE_SAVE,
                                   .checkpoint = options->checkpoints,
                                   .data = options->data ? options->data : "synthetic",
                                   .step = request->step,
                                   .keep = options->keep};
    LUO_TRY(command(backend, job, &order, "save the state", err));
    backend->saved = true;
    return LUO_OK;
}

static void tell_processes(const luo_workers *workers, const luo_state_request *request)
{
    if (!request->processes) return;
    for (int32_t d = 0; d < request->world->ndevices; d++)
        request->processes[d] = luo_workers_rank_of(workers, d) >= 0;
}

luo_status luo_coord_state(luo_backend_state *backend, const luo_state_request *request,
                           int64_t *step, luo_err *err)
{
    int32_t job;
    luo_arena_reset(backend->last, 0);
    if (!request->recipe || request->recipe->from)
        return luo_err_set(err, LUO_EBUG, "state is asked for without the recipe of a step.");
    if (request->action == LUO_STATE_INIT || request->action == LUO_STATE_LOAD) {
        backend->holder = -1;
        LUO_TRY(luo_coord_start(backend, request->world, request->programs, err));
    } else if (!backend->workers.alive) {
        return luo_err_set(err, LUO_EPEER, "%s.", backend->workers.loss.text);
    }
    LUO_TRY(luo_coord_prepare(backend, request->recipe->plan, request->recipe->sequence_tokens,
                              request->programs, &job, err));
    if (request->action == LUO_STATE_BIND) return LUO_OK;
    if (request->action == LUO_STATE_SAVE) return save(backend, job, request, err);
    if (request->action == LUO_STATE_INIT)
        LUO_TRY(init(backend, job, step, err));
    else
        LUO_TRY(load_checkpoint(backend, job, request, step, err));
    backend->holder = job;
    tell_processes(&backend->workers, request);
    return LUO_OK;
}
