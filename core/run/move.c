/* A switch that moves state: fused plan of who sends what to whom, compiled to programs, run on
 * the backend (hspmd.md 7 and 14). Master weights and optimizer states move; working copies are
 * made again by the new plan's Pre part, gradients do not live at a boundary. */
#include <string.h>

#include "core/run/run.h"

/* Master weight and two moments, each as wide as the accumulated gradient (accuracy.md 4.8). */
static int64_t state_bytes(luo_dtype t)
{
    return t == LUO_F64 ? 24 : 12;
}

static luo_status list_tensors(luo_arena *a, const luo_run *r, const luo_plan *from,
                               const luo_plan *to, luo_switch_tensor **out, int32_t *n,
                               luo_err *err)
{
    luo_param *p, *q;
    int32_t m;
    LUO_TRY(luo_plan_params(a, from, r->sc->model, &p, n, err));
    LUO_TRY(luo_plan_params(a, to, r->sc->model, &q, &m, err));
    *out = LUO_NEW_N(a, luo_switch_tensor, *n);
    if (!*out) return luo_err_nomem(err);
    for (int32_t i = 0; i < *n; i++) {
        if (m != *n || strcmp(p[i].name, q[i].name) != 0)
            return luo_err_set(err, LUO_EBUG, "two plans of one model list other parameters.");
        (*out)[i] = (luo_switch_tensor){.name = p[i].name, .from = p[i].state, .to = q[i].state,
                                        .shape = p[i].shape, .bucket = 0,
                                        .elem_bytes = state_bytes(from->dtype)};
    }
    return LUO_OK;
}

static luo_status plan_moves(luo_arena *a, const luo_run *r, const luo_switch_tensor *tensors,
                             int32_t n, luo_switch *out, luo_err *err)
{
    const luo_cluster *c = r->sc->cluster;
    luo_switch_opts o = {.planner = {.link_class = luo_cluster_link_class, .link_ctx = c}};
    int32_t *dead = LUO_NEW_N(a, int32_t, c->ndevices);
    if (!dead) return luo_err_nomem(err);
    for (int32_t d = 0; d < c->ndevices; d++)
        if (!r->usable[d]) dead[o.planner.ndead++] = d;
    o.planner.dead = dead;
    return luo_switch_plan(a, tensors, n, &o, out, err);
}

/* Traffic by kind of link, and who sends most. */
static luo_status describe(luo_arena *a, const luo_run *r, const luo_switch *sw,
                           luo_row_switch *row, luo_err *err)
{
    const luo_cluster *c = r->sc->cluster;
    int64_t *sent = LUO_NEW_N(a, int64_t, c->ndevices);
    if (!sent) return luo_err_nomem(err);
    row->bytes_local = sw->local_bytes;
    row->messages = sw->npair;
    row->max_sender = -1;
    for (int32_t i = 0; i < sw->npair; i++) {
        const luo_pair *p = &sw->pair[i];
        const luo_device *src = &c->devices[p->src], *dst = &c->devices[p->dst];
        if (src->node != dst->node) row->bytes_nic += p->bytes;
        else if (c->groups[src->group].scale_up != LUO_SCALE_UP_NONE) row->bytes_nvlink += p->bytes;
        else row->bytes_pcie += p->bytes;
        sent[p->src] += p->bytes;
    }
    for (int32_t d = 0; d < c->ndevices; d++) {
        if (sent[d] <= row->max_sender_bytes) continue;
        row->max_sender = d;
        row->max_sender_bytes = sent[d];
    }
    return LUO_OK;
}

static luo_status run_moves(luo_run *r, const luo_programs *set, luo_row_switch *row, bool *broken,
                            luo_err *err)
{
    luo_step_request q = {.programs = set, .world = luo_events_world(r->events), .step = r->step};
    luo_step_result s = {0};
    const double start_s = r->t_s;
    LUO_TRY(luo_run_look_ahead(r, &q.changes, &q.nchanges, err));
    LUO_TRY(r->backend->run_ranks(r->b, &q, &s, err));
    if (s.status != LUO_OK && s.status != LUO_EPEER)
        return luo_err_set(err, s.status, "%s", s.text);
    *broken = s.status == LUO_EPEER;
    r->t_s = s.end_s - r->t0;
    LUO_TRY(luo_run_warn_ahead(r, err));
    row->move_s = r->t_s - start_s;
    r->account.span[LUO_SPAN_SWITCH] += row->move_s;
    if (row->move_s > 0)
        LUO_TRY(luo_run_timeline(r, LUO_SPAN_SWITCH, start_s, r->t_s, true, false,
                                 row->bytes_nvlink + row->bytes_pcie + row->bytes_nic, err));
    return luo_run_advance(r, r->t_s, err);
}

luo_status luo_run_move(luo_run *r, int32_t from, int32_t to, luo_row_switch *row, bool *broken,
                        luo_err *err)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_status st = a ? LUO_OK : luo_err_nomem(err);
    luo_switch_tensor *tensors = NULL;
    luo_switch sw = {0};
    luo_programs *set = NULL;
    int32_t n = 0;
    *broken = false;
    if (st == LUO_OK)
        st = list_tensors(a, r, r->plans[from]->plan, r->plans[to]->plan, &tensors, &n, err);
    if (st == LUO_OK) st = plan_moves(a, r, tensors, n, &sw, err);
    if (st == LUO_OK) st = describe(a, r, &sw, row, err);
    if (st == LUO_OK && (sw.npair > 0 || sw.local_bytes > 0)) {
        st = luo_switch_compile(a, tensors, n, &sw, &set, err);
        if (st == LUO_OK) st = luo_program_check(a, set, err);
        if (st == LUO_OK) st = run_moves(r, set, row, broken, err);
    }
    luo_arena_free(a);
    return st;
}
