#include "exec/message.h"

#include <stdio.h>
#include <string.h>

luo_status luo_wire_end(const luo_wire *w, luo_err *err)
{
    if (!w->failed && w->pos == w->len) return LUO_OK;
    return luo_err_set(err, LUO_EPARSE,
                       "a message has another form than expected; `luoshu` and the programs of "
                       "ranks of one build belong together.");
}

void luo_put_setup(luo_wire *w, const luo_setup *s)
{
    luo_wire_put_int(w, s->nranks);
    for (int32_t i = 0; i < s->nranks; i++) luo_wire_put_int(w, s->device_of[i]);
    luo_wire_put_int(w, s->dtype);
    luo_wire_put_int(w, (int64_t)s->seed);
    luo_wire_put_text(w, s->data);
}

luo_status luo_get_setup(luo_arena *arena, luo_wire *w, luo_setup *out, luo_err *err)
{
    luo_setup s = {.nranks = (int32_t)luo_wire_int_in(w, 1, LUO_DEVICES_MAX)};
    if (!luo_wire_has(w, s.nranks, 8)) return luo_wire_end(w, err);
    int32_t *dev = LUO_NEW_N(arena, int32_t, s.nranks);
    if (!dev) return luo_err_nomem(err);
    for (int32_t i = 0; i < s.nranks; i++) dev[i] = (int32_t)luo_wire_int_in(w, 0, LUO_DEVICES_MAX);
    s.device_of = dev;
    s.dtype = (luo_dtype)luo_wire_int_in(w, 0, LUO_F64);
    s.seed = (uint64_t)luo_wire_int(w);
    s.data = luo_wire_text(w);
    LUO_TRY(luo_wire_end(w, err));
    *out = s;
    return LUO_OK;
}

/* Members of luo_device_info, in one order for both ways. */
static char *device_info_text(luo_device_info *t, int i, size_t *size)
{
    const struct {
        char *at;
        size_t size;
    } texts[] = {{t->device, sizeof t->device}, {t->driver, sizeof t->driver},
                 {t->cuda, sizeof t->cuda},     {t->nccl, sizeof t->nccl},
                 {t->blas, sizeof t->blas},     {t->warning, sizeof t->warning}};
    if (i >= (int)(sizeof texts / sizeof *texts)) return NULL;
    *size = texts[i].size;
    return texts[i].at;
}

void luo_put_device_info(luo_wire *w, const luo_device_info *t)
{
    luo_device_info device_info = *t;
    size_t size;
    for (int i = 0; device_info_text(&device_info, i, &size); i++)
        luo_wire_put_text(w, device_info_text(&device_info, i, &size));
}

luo_status luo_get_device_info(luo_wire *w, luo_device_info *out, luo_err *err)
{
    luo_device_info device_info = {0};
    size_t size;
    for (int i = 0; device_info_text(&device_info, i, &size); i++) {
        const char *text = luo_wire_text(w);
        snprintf(device_info_text(&device_info, i, &size), size, "%s", text ? text : "");
    }
    LUO_TRY(luo_wire_end(w, err));
    *out = device_info;
    return LUO_OK;
}

void luo_put_state_order(luo_wire *w, const luo_state_order *o)
{
    luo_wire_put_int(w, o->action);
    luo_wire_put_text(w, o->weights);
    luo_wire_put_text(w, o->checkpoint);
    luo_wire_put_text(w, o->save_init);
    luo_wire_put_text(w, o->data);
    luo_wire_put_int(w, o->step);
    luo_wire_put_int(w, o->keep);
}

luo_status luo_get_state_order(luo_wire *w, luo_state_order *out, luo_err *err)
{
    luo_state_order o = {.action = (luo_state_action)luo_wire_int_in(w, 0, LUO_STATE_SAVE)};
    o.weights = luo_wire_text(w);
    o.checkpoint = luo_wire_text(w);
    o.save_init = luo_wire_text(w);
    o.data = luo_wire_text(w);
    o.step = luo_wire_int(w);
    o.keep = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    LUO_TRY(luo_wire_end(w, err));
    *out = o;
    return LUO_OK;
}

void luo_put_step_order(luo_wire *w, const luo_step_order *o, double now_s)
{
    luo_wire_put_int(w, o->step);
    luo_wire_put_int(w, o->trace);
    luo_wire_put_int(w, o->quiet);
    luo_wire_put_num(w, o->withdraw_s - now_s);
    luo_wire_put_num(w, o->kill_s - now_s);
    luo_wire_put_int(w, o->npace);
    for (int32_t i = 0; i < o->npace; i++) {
        luo_wire_put_num(w, o->pace[i].at_s - now_s);
        luo_wire_put_num(w, o->pace[i].slowdown);
    }
    luo_wire_put_int(w, o->ndelay);
    for (int32_t i = 0; i < o->ndelay; i++) {
        luo_wire_put_num(w, o->delay[i].at_s - now_s);
        luo_wire_put_int(w, o->delay[i].device);
        luo_wire_put_num(w, o->delay[i].s_per_byte);
        luo_wire_put_num(w, o->delay[i].extra_s);
    }
}

luo_status luo_get_step_order(luo_arena *arena, luo_wire *w, double now_s, luo_step_order *out,
                              luo_err *err)
{
    luo_step_order o = {.step = luo_wire_int(w)};
    o.trace = luo_wire_int_in(w, 0, 1) != 0;
    o.quiet = luo_wire_int_in(w, 0, 1) != 0;
    o.withdraw_s = now_s + luo_wire_num(w);
    o.kill_s = now_s + luo_wire_num(w);
    o.npace = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    if (!luo_wire_has(w, o.npace, 16)) return luo_wire_end(w, err);
    luo_pace *pace = LUO_NEW_N(arena, luo_pace, o.npace);
    if (!pace) return luo_err_nomem(err);
    for (int32_t i = 0; i < o.npace; i++) {
        pace[i].at_s = now_s + luo_wire_num(w);
        pace[i].slowdown = luo_wire_num(w);
    }
    o.ndelay = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    if (!luo_wire_has(w, o.ndelay, 32)) return luo_wire_end(w, err);
    struct luo_delay *delay = LUO_NEW_N(arena, struct luo_delay, o.ndelay);
    if (!delay) return luo_err_nomem(err);
    for (int32_t i = 0; i < o.ndelay; i++) {
        delay[i].at_s = now_s + luo_wire_num(w);
        delay[i].device = (int32_t)luo_wire_int_in(w, 0, LUO_DEVICES_MAX);
        delay[i].s_per_byte = luo_wire_num(w);
        delay[i].extra_s = luo_wire_num(w);
    }
    o.pace = pace;
    o.delay = delay;
    LUO_TRY(luo_wire_end(w, err));
    *out = o;
    return LUO_OK;
}

/* ---- reports ---- */

/* Members of luo_parts, in one order for both ways. */
static double *part(luo_parts *p, int i)
{
    double *const at[] = {&p->compute_s, &p->recompute_s, &p->tp_s,   &p->ep_s, &p->cp_s,
                          &p->pp_s,      &p->dp_s,        &p->move_s, &p->io_s, &p->bubble_s};
    return i < (int)(sizeof at / sizeof *at) ? at[i] : NULL;
}

static void put_comm(luo_wire *w, const luo_comm_use *u)
{
    luo_wire_put_int(w, u->group);
    luo_wire_put_int(w, u->exchange);
    luo_wire_put_int(w, u->coll);
    luo_wire_put_int(w, u->stream);
    luo_wire_put_int(w, u->devices);
    luo_wire_put_int(w, u->calls);
    luo_wire_put_int(w, u->bytes);
    luo_wire_put_num(w, u->busy_s);
    luo_wire_put_num(w, u->exposed_s);
}

static void get_comm(luo_wire *w, luo_comm_use *u)
{
    u->group = (int32_t)luo_wire_int_in(w, -1, INT32_MAX);
    u->exchange = (int32_t)luo_wire_int_in(w, -1, INT32_MAX);
    u->coll = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    u->stream = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    u->devices = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    u->calls = luo_wire_int(w);
    u->bytes = luo_wire_int(w);
    u->busy_s = luo_wire_num(w);
    u->exposed_s = luo_wire_num(w);
}

enum { COMM_BYTES = 9 * 8, RECORD_BYTES = 6 * 8 };

void luo_put_report(luo_wire *w, const luo_step_report *r, double late_s)
{
    luo_parts parts = r->parts;
    luo_wire_put_int(w, r->status);
    luo_wire_put_text(w, r->text);
    luo_wire_put_num(w, late_s);
    luo_wire_put_num(w, r->end_s - r->start_s);
    for (int i = 0; part(&parts, i); i++) luo_wire_put_num(w, *part(&parts, i));
    luo_wire_put_num(w, r->compute_s);
    luo_wire_put_num(w, r->predicted_s);
    luo_wire_put_int(w, r->has_loss);
    luo_wire_put_num(w, r->loss);
    luo_wire_put_num(w, r->grad_norm);
    luo_wire_put_int(w, r->memory_bytes);
    luo_wire_put_int(w, r->ncomm);
    for (int32_t i = 0; i < r->ncomm; i++) put_comm(w, &r->comm[i]);
    luo_wire_put_int(w, r->nrecords);
    for (int32_t i = 0; i < r->nrecords; i++) {
        const luo_op_record *x = &r->records[i];
        luo_wire_put_int(w, x->device);
        luo_wire_put_int(w, x->task);
        luo_wire_put_int(w, x->instr);
        luo_wire_put_num(w, x->start_s);
        luo_wire_put_num(w, x->end_s);
        luo_wire_put_int(w, x->status);
    }
}

static luo_status get_lists(luo_arena *arena, luo_wire *w, luo_step_report *r, luo_err *err)
{
    r->ncomm = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    if (!luo_wire_has(w, r->ncomm, COMM_BYTES)) return luo_wire_end(w, err);
    luo_comm_use *comm = LUO_NEW_N(arena, luo_comm_use, r->ncomm);
    if (!comm) return luo_err_nomem(err);
    for (int32_t i = 0; i < r->ncomm; i++) get_comm(w, &comm[i]);
    r->nrecords = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
    if (!luo_wire_has(w, r->nrecords, RECORD_BYTES)) return luo_wire_end(w, err);
    luo_op_record *records = LUO_NEW_N(arena, luo_op_record, r->nrecords);
    if (!records) return luo_err_nomem(err);
    for (int32_t i = 0; i < r->nrecords; i++) {
        luo_op_record *x = &records[i];
        x->device = (int32_t)luo_wire_int_in(w, 0, LUO_DEVICES_MAX);
        x->task = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
        x->instr = (int32_t)luo_wire_int_in(w, 0, INT32_MAX);
        x->start_s = luo_wire_num(w);
        x->end_s = luo_wire_num(w);
        x->status = (luo_status)luo_wire_int_in(w, 0, LUO_STATUS_COUNT - 1);
    }
    r->comm = comm;
    r->records = records;
    return LUO_OK;
}

luo_status luo_get_report(luo_arena *arena, luo_wire *w, luo_step_report *out, double *late_s,
                          luo_err *err)
{
    luo_step_report r = {.status = (luo_status)luo_wire_int_in(w, 0, LUO_STATUS_COUNT - 1)};
    const char *text = luo_wire_text(w);
    snprintf(r.text, sizeof r.text, "%s", text ? text : "");
    *late_s = luo_wire_num(w);
    r.end_s = luo_wire_num(w);
    for (int i = 0; part(&r.parts, i); i++) *part(&r.parts, i) = luo_wire_num(w);
    r.compute_s = luo_wire_num(w);
    r.predicted_s = luo_wire_num(w);
    r.has_loss = luo_wire_int_in(w, 0, 1) != 0;
    r.loss = luo_wire_num(w);
    r.grad_norm = luo_wire_num(w);
    r.memory_bytes = luo_wire_int(w);
    LUO_TRY(get_lists(arena, w, &r, err));
    LUO_TRY(luo_wire_end(w, err));
    *out = r;
    return LUO_OK;
}
