#include "cli/run/run_checks.h"

#include <string.h>

#include "core/io/checkpoint/checkpoint_info.h"
#include "core/plan/compile.h"
#include "core/plan/grid.h"
#include "core/run/policy/policy.h"
#include "exec/coordinator/cuda.h"
#include "exec/coordinator/host.h"
#include "exec/state/checkpoint.h"

static const luo_real_backend backends[] = {
    {&luo_host_backend, "luoshu-rank", LUO_BF16, "f32 and f64", false},
    {&luo_cuda_backend, "luoshu-rank-cuda", LUO_F64, "bf16 and f32", true}};
enum { BACKENDS = sizeof backends / sizeof *backends };

luo_status luo_real_backend_of(const luo_args *args, const luo_real_backend **out, luo_err *err)
{
    const char *names[BACKENDS];
    int which;
    for (int i = 0; i < BACKENDS; i++) names[i] = backends[i].row->name;
    LUO_TRY(luo_args_choice(args, "backend", 0, names, BACKENDS, &which, err));
    *out = &backends[which];
    return LUO_OK;
}

luo_status luo_run_check_dtype(const luo_scenario *sc, const luo_real_backend *backend,
                               luo_err *err)
{
    const char *refused = luo_dtype_name(backend->refused);
    bool planner = false;
    for (int32_t i = 0; i < sc->npolicies; i++) {
        const luo_plan *plan = sc->policies[i].plan ? sc->policies[i].plan : sc->plan;
        planner |= !plan;
        if (plan && plan->dtype == backend->refused)
            return luo_err_set(err, LUO_EINPUT,
                               "plan `%s` is in %s, and backend `%s` computes in "
                               "%s; give --dtype f32.",
                               plan->name, refused, backend->row->name, backend->computes);
    }
    if (planner && sc->model->dtype == backend->refused)
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` is in %s, and backend `%s` computes in %s; "
                           "give --dtype f32.",
                           sc->model->name, refused, backend->row->name, backend->computes);
    return LUO_OK;
}

luo_status luo_run_check_model(const luo_scenario *sc, luo_err *err)
{
    return luo_model_check_run(sc->model, err);
}

luo_status luo_run_check_bounds(const luo_scenario *sc, luo_err *err)
{
    for (int32_t i = 0; i < sc->npolicies; i++)
        if (luo_policy_is_upper_bound(sc->policies[i].name))
            return luo_err_set(err, LUO_EINPUT,
                               "policy `%s` is a bound and not a run, and can "
                               "only be simulated; name the others with --policies.",
                               sc->policies[i].label);
    return LUO_OK;
}

/* Names do not depend on the plan; where a planner has yet to make one, a single device does. */
static luo_status any_plan(luo_cli *cli, const luo_scenario *sc, const luo_plan **out, luo_err *err)
{
    static const int32_t first[] = {0};
    luo_plan *one;
    *out = sc->plan;
    if (*out) return LUO_OK;
    const luo_grid grid = {.name = "one",
                           .model = sc->model,
                           .cluster = sc->cluster,
                           .dtype = sc->model->dtype,
                           .sequence_tokens = 1,
                           .micro_batches = 1,
                           .micro_batch_sequences = 1,
                           .pipelines = 1,
                           .stages = 1,
                           .tp = 1,
                           .dev = first};
    LUO_TRY(luo_plan_grid(cli->arena, &grid, &one, err));
    *out = one;
    return LUO_OK;
}

luo_status luo_run_check_names(luo_cli *cli, const luo_scenario *sc,
                               const luo_exec_options *options, luo_err *err)
{
    const luo_plan *plan;
    const luo_hf_layout *layout;
    luo_param *params;
    int32_t n;
    if (sc->checkpoint.kind == LUO_CHECKPOINT_NONE && !options->save_init && !options->load)
        return LUO_OK;
    LUO_TRY(any_plan(cli, sc, &plan, err));
    LUO_TRY(luo_plan_params(cli->arena, plan, sc->model, &params, &n, err));
    LUO_TRY(luo_hf_config(sc->model, sc->model->dtype, NULL, &layout, err));
    for (int32_t i = 0; i < n; i++) {
        luo_hf_tensor ignored;
        LUO_TRY(luo_hf_tensor_of(layout, sc->model, &params[i], &ignored, err));
    }
    return LUO_OK;
}

static luo_dtype dtype_of(const luo_scenario *sc)
{
    const luo_plan *own = sc->policies[0].plan;
    return own ? own->dtype : sc->plan ? sc->plan->dtype : sc->model->dtype;
}

luo_status luo_run_check_resume(luo_cli *cli, const luo_scenario *sc,
                                const luo_exec_options *options, luo_err *err)
{
    luo_found found = {0};
    luo_checkpoint_info info;
    if (!options->resume) return LUO_OK;
    LUO_TRY(luo_checkpoint_find(cli->arena, options->resume, INT64_MAX, &found, err));
    const char *path = found.path, *file = luo_arena_printf(cli->arena, "%s/state.json", path);
    if (!file) return luo_err_nomem(err);
    LUO_TRY(luo_checkpoint_info_read(cli->arena, file, &info, err));
    LUO_TRY(luo_checkpoint_same_model(&info.model, sc->model, err));
    const char *mine = dtype_of(sc) == LUO_F64 ? "f64" : "f32", *data = options->data;
    if (strcmp(info.precision, mine) != 0)
        return luo_err_set(err, LUO_EINPUT, "checkpoint `%s` is in %s and this run in %s; give "
                           "--dtype %s.", path, info.precision, mine, info.precision);
    if (!data) data = "synthetic";
    if (info.seed != sc->seed)
        luo_cli_note(cli, LUO_WARNING,
                     "checkpoint `%s` was written with seed %llu and this run has "
                     "%llu; the order of its data is another one.",
                     path, (unsigned long long)info.seed, (unsigned long long)sc->seed);
    if (strcmp(info.data, data) != 0)
        luo_cli_note(cli, LUO_WARNING,
                     "checkpoint `%s` was written with data `%s` and this run has "
                     "`%s`.",
                     path, info.data, data);
    return LUO_OK;
}

int32_t luo_run_ranks(luo_cli *cli, const luo_scenario *sc, luo_err *err)
{
    int32_t *dev, n, last = -1;
    if (luo_plan_devices(cli->arena, sc->plan, &dev, &n, err) != LUO_OK) return 0;
    for (int32_t i = 0; i < n; i++) last = dev[i] > last ? dev[i] : last;
    for (int32_t i = 0; i < sc->cluster->nstandby; i++)
        last = sc->cluster->standby[i] > last ? sc->cluster->standby[i] : last;
    return last + 1;
}
