/* coord_row.c: opening, closing and the clock: what the rows of host and cuda share beside
 * state and steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/clock.h"
#include "exec/coordinator/coord.h"

void luo_coord_close(luo_backend_state *backend)
{
    if (!backend) return;
    luo_workers_end(&backend->workers);
    luo_coord_dump_close(backend);
    luo_arena_free(backend->last);
    free(backend->memory);
    free(backend);
}

static luo_status check_config(const luo_backend_config *config, luo_err *err)
{
    const luo_exec_options *options = config->options;
    if (!options || !options->program || !config->model || !config->cluster)
        return luo_err_set(err, LUO_EBUG,
                           "a backend of other processes is opened without options, model or "
                           "cluster.");
    if (!(options->stuck_s > 0))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--stuck-s` is %g; a number of seconds above 0 is "
                           "expected.",
                           options->stuck_s);
    return LUO_OK;
}

luo_status luo_coord_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err)
{
    LUO_TRY(check_config(config, err));
    luo_backend_state *backend = calloc(1, sizeof *backend);
    if (!backend) return luo_err_nomem(err);
    backend->config = *config;
    backend->options = config->options;
    backend->t0 = luo_clock_s();
    backend->holder = backend->dump = -1;
    backend->last = luo_arena_new(0);
    backend->memory = calloc((size_t)config->cluster->ndevices, sizeof *backend->memory);
    luo_status st = backend->last && backend->memory ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK) st = luo_coord_dump_open(backend, err);
    if (st == LUO_OK)
        *out = backend;
    else
        luo_coord_close(backend);
    return st;
}

double luo_coord_now(const luo_backend_state *backend)
{
    return luo_coord_time(backend, luo_clock_s());
}

luo_status luo_coord_sleep_until(luo_backend_state *backend, double at_s)
{
    const double clock_s = backend->t0 + at_s;
    const struct timespec t = {.tv_sec = (time_t)floor(clock_s),
                               .tv_nsec = (long)(1e9 * (clock_s - floor(clock_s)))};
    if (luo_clock_s() >= clock_s) return LUO_OK;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL); /* an interrupt ends it early */
    return LUO_OK;
}
