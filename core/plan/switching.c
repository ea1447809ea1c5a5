#include "core/plan/switching.h"

#include <string.h>

/* Master weight and two moments, each as wide as the accumulated gradient (accuracy.md 4.8). */
static int64_t state_bytes(luo_dtype t)
{
    return t == LUO_F64 ? 24 : 12;
}

static luo_status list_tensors(luo_arena *a, const luo_plan *from, const luo_plan *to,
                               const luo_model *model, luo_switching *out, luo_err *err)
{
    luo_param *p, *q;
    int32_t m;
    LUO_TRY(luo_plan_params(a, from, model, &p, &out->n, err));
    LUO_TRY(luo_plan_params(a, to, model, &q, &m, err));
    out->tensors = LUO_NEW_N(a, luo_switch_tensor, out->n);
    if (!out->tensors) return luo_err_nomem(err);
    for (int32_t i = 0; i < out->n; i++) {
        if (m != out->n || strcmp(p[i].name, q[i].name) != 0)
            return luo_err_set(err, LUO_EBUG, "two plans of one model list other parameters.");
        out->tensors[i] = (luo_switch_tensor){.name = p[i].name,
                                              .from = p[i].state,
                                              .to = q[i].state,
                                              .shape = p[i].shape,
                                              .bucket = 0,
                                              .elem_bytes = state_bytes(from->dtype)};
    }
    return LUO_OK;
}

luo_status luo_switching_compile(luo_arena *arena, const luo_plan *from, const luo_plan *to,
                                 const luo_model *model, const luo_cluster *cluster, int32_t ndead,
                                 const int32_t *dead, luo_switching *out, luo_err *err)
{
    luo_switching m = {0};
    const luo_switch_opts o = {.planner = {.link_class = luo_cluster_link_class,
                                           .link_ctx = cluster,
                                           .ndead = ndead,
                                           .dead = dead}};
    LUO_TRY(list_tensors(arena, from, to, model, &m, err));
    LUO_TRY(luo_switch_plan(arena, m.tensors, m.n, &o, &m.sw, err));
    if (m.sw.npair > 0 || m.sw.local_bytes > 0) {
        LUO_TRY(luo_switch_compile(arena, m.tensors, m.n, &m.sw, &m.set, err));
        LUO_TRY(luo_program_check(arena, m.set, err));
    }
    *out = m;
    return LUO_OK;
}
