#include "core/plan/migrate.h"

#include <string.h>

/* Tables whose rows two plans pad differently move as the larger one. */
static luo_shape larger(const luo_shape *a, const luo_shape *b)
{
    luo_shape s = *a;
    for (int32_t d = 0; d < s.rank && d < b->rank; d++)
        if (b->dim[d] > s.dim[d]) s.dim[d] = b->dim[d];
    return s;
}

luo_status luo_switching_tensors(luo_arena *arena, const luo_plan *from, const luo_plan *to,
                                 const luo_model *model, luo_switch_tensor **out, int32_t *n,
                                 luo_err *err)
{
    luo_param *p, *q;
    int32_t np, nq;
    LUO_TRY(luo_plan_params(arena, from, model, &p, &np, err));
    LUO_TRY(luo_plan_params(arena, to, model, &q, &nq, err));
    luo_switch_tensor *tensor = LUO_NEW_N(arena, luo_switch_tensor, np);
    if (!tensor) return luo_err_nomem(err);
    for (int32_t i = 0; i < np; i++) {
        if (nq != np || strcmp(p[i].name, q[i].name) != 0)
            return luo_err_set(err, LUO_EBUG, "two plans of one model list other parameters.");
        tensor[i] = (luo_switch_tensor){.name = p[i].name,
                                        .from = p[i].state,
                                        .to = q[i].state,
                                        .shape = larger(&p[i].shape, &q[i].shape),
                                        .bucket = 0,
                                        .elem_bytes = luo_param_state_bytes(&p[i], from->dtype)};
    }
    *out = tensor;
    *n = np;
    return LUO_OK;
}

luo_status luo_switching_compile(luo_arena *arena, const luo_plan *from, const luo_plan *to,
                                 const luo_model *model, const luo_cluster *cluster, int32_t ndead,
                                 const int32_t *dead, luo_switching *out, luo_err *err)
{
    luo_switching switching = {0};
    const luo_switch_opts opts = {.planner_unsaid = true,
                                  .planner = {.link_class = luo_cluster_link_class,
                                              .link_ctx = cluster,
                                              .ndead = ndead,
                                              .dead = dead}};
    LUO_TRY(luo_switching_tensors(arena, from, to, model, &switching.tensors, &switching.n, err));
    LUO_TRY(luo_switch_plan(arena, switching.tensors, switching.n, &opts, &switching.sw, err));
    if (switching.sw.npair > 0 || switching.sw.local_bytes > 0) {
        LUO_TRY(luo_compile_switch(arena, switching.tensors, switching.n, &switching.sw,
                                   &switching.set, err));
        LUO_TRY(luo_program_check(arena, switching.set, err));
    }
    *out = switching;
    return LUO_OK;
}
