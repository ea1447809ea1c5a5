#include "exec/message.h"

#include <stdio.h>
#include <string.h>

luo_status luo_message_end(const luo_wire *wire, luo_err *err)
{
    if (!wire->failed && wire->pos == wire->len) return LUO_OK;
    return luo_err_set(err, LUO_EPARSE,
                       "a message has another form than expected; `luoshu` and the programs of "
                       "ranks of one build belong together.");
}

void luo_message_put_setup(luo_wire *wire, const luo_setup *setup)
{
    luo_wire_put_int(wire, setup->nranks);
    for (int32_t i = 0; i < setup->nranks; i++) {
        luo_wire_put_int(wire, setup->device_of[i]);
        luo_wire_put_int(wire, setup->place_of[i]);
        luo_wire_put_text(wire, setup->host_of[i]);
    }
    luo_wire_put_int(wire, setup->share_gpus);
    luo_wire_put_int(wire, setup->dtype);
    luo_wire_put_int(wire, (int64_t)setup->seed);
    luo_wire_put_text(wire, setup->data);
}

luo_status luo_message_get_setup(luo_arena *arena, luo_wire *wire, luo_setup *out, luo_err *err)
{
    luo_setup setup = {.nranks = (int32_t)luo_wire_int_in(wire, 1, LUO_DEVICES_MAX)};
    if (!luo_wire_has(wire, setup.nranks, 24)) return luo_message_end(wire, err);
    int32_t *dev = LUO_NEW_N(arena, int32_t, setup.nranks);
    int32_t *place = LUO_NEW_N(arena, int32_t, setup.nranks);
    const char **host = LUO_NEW_N(arena, const char *, setup.nranks);
    if (!dev || !place || !host) return luo_err_nomem(err);
    for (int32_t i = 0; i < setup.nranks; i++) {
        dev[i] = (int32_t)luo_wire_int_in(wire, 0, LUO_DEVICES_MAX);
        place[i] = (int32_t)luo_wire_int_in(wire, 0, LUO_DEVICES_MAX);
        host[i] = luo_wire_text(wire);
    }
    setup.device_of = dev;
    setup.place_of = place;
    setup.host_of = host;
    setup.share_gpus = luo_wire_int_in(wire, 0, 1) == 1;
    setup.dtype = (luo_dtype)luo_wire_int_in(wire, 0, LUO_F64);
    setup.seed = (uint64_t)luo_wire_int(wire);
    setup.data = luo_wire_text(wire);
    LUO_TRY(luo_message_end(wire, err));
    *out = setup;
    return LUO_OK;
}

/* Members of luo_device_info, in one order for both ways. */
static char *device_info_text(luo_device_info *info, int i, size_t *size)
{
    const struct {
        char *at;
        size_t size;
    } texts[] = {{info->device, sizeof info->device}, {info->driver, sizeof info->driver},
                 {info->cuda, sizeof info->cuda},     {info->nccl, sizeof info->nccl},
                 {info->blas, sizeof info->blas},     {info->warning, sizeof info->warning}};
    if (i >= (int)(sizeof texts / sizeof *texts)) return NULL;
    *size = texts[i].size;
    return texts[i].at;
}

void luo_message_put_device_info(luo_wire *wire, const luo_device_info *info)
{
    luo_device_info device_info = *info;
    size_t size;
    for (int i = 0; device_info_text(&device_info, i, &size); i++)
        luo_wire_put_text(wire, device_info_text(&device_info, i, &size));
}

luo_status luo_message_get_device_info(luo_wire *wire, luo_device_info *out, luo_err *err)
{
    luo_device_info device_info = {0};
    size_t size;
    for (int i = 0; device_info_text(&device_info, i, &size); i++) {
        const char *text = luo_wire_text(wire);
        snprintf(device_info_text(&device_info, i, &size), size, "%s", text ? text : "");
    }
    LUO_TRY(luo_message_end(wire, err));
    *out = device_info;
    return LUO_OK;
}

void luo_message_put_state_order(luo_wire *wire, const luo_state_order *order)
{
    luo_wire_put_int(wire, order->action);
    luo_wire_put_text(wire, order->weights);
    luo_wire_put_text(wire, order->checkpoint);
    luo_wire_put_text(wire, order->save_init);
    luo_wire_put_text(wire, order->data);
    luo_wire_put_int(wire, order->step);
    luo_wire_put_int(wire, order->keep);
}

luo_status luo_message_get_state_order(luo_wire *wire, luo_state_order *out, luo_err *err)
{
    luo_state_order order = {.action = (luo_state_action)luo_wire_int_in(wire, 0, LUO_STATE_SAVE)};
    order.weights = luo_wire_text(wire);
    order.checkpoint = luo_wire_text(wire);
    order.save_init = luo_wire_text(wire);
    order.data = luo_wire_text(wire);
    order.step = luo_wire_int(wire);
    order.keep = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    LUO_TRY(luo_message_end(wire, err));
    *out = order;
    return LUO_OK;
}

static void put_part(luo_wire *wire, const luo_step_part *part)
{
    luo_wire_put_int(wire, part->index);
    luo_wire_put_int(wire, part->n);
    luo_wire_put_int(wire, part->nsequences);
    for (int32_t i = 0; i < part->nsequences; i++) luo_wire_put_int(wire, part->length[i]);
}

static luo_status get_part(luo_arena *arena, luo_wire *wire, luo_step_part *out, luo_err *err)
{
    luo_step_part part = {.index = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX)};
    part.n = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    part.nsequences = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    if (!luo_wire_has(wire, part.nsequences, 8)) return luo_message_end(wire, err);
    int64_t *length = LUO_NEW_N(arena, int64_t, part.nsequences);
    if (!length) return luo_err_nomem(err);
    for (int32_t i = 0; i < part.nsequences; i++) length[i] = luo_wire_int_in(wire, 1, INT32_MAX);
    part.length = length;
    *out = part;
    return LUO_OK;
}

void luo_message_put_step_order(luo_wire *wire, const luo_step_order *order, double now_s)
{
    luo_wire_put_int(wire, order->step);
    put_part(wire, &order->part);
    luo_wire_put_int(wire, order->trace);
    luo_wire_put_int(wire, order->quiet);
    luo_wire_put_num(wire, order->withdraw_s - now_s);
    luo_wire_put_num(wire, order->kill_s - now_s);
    luo_wire_put_int(wire, order->npace);
    for (int32_t i = 0; i < order->npace; i++) {
        luo_wire_put_num(wire, order->pace[i].at_s - now_s);
        luo_wire_put_num(wire, order->pace[i].slowdown);
    }
    luo_wire_put_int(wire, order->ndelay);
    for (int32_t i = 0; i < order->ndelay; i++) {
        luo_wire_put_num(wire, order->delay[i].at_s - now_s);
        luo_wire_put_int(wire, order->delay[i].device);
        luo_wire_put_num(wire, order->delay[i].s_per_byte);
        luo_wire_put_num(wire, order->delay[i].extra_s);
    }
}

luo_status luo_message_get_step_order(luo_arena *arena, luo_wire *wire, double now_s,
                                      luo_step_order *out, luo_err *err)
{
    luo_step_order order = {.step = luo_wire_int(wire)};
    LUO_TRY(get_part(arena, wire, &order.part, err));
    order.trace = luo_wire_int_in(wire, 0, 1) != 0;
    order.quiet = luo_wire_int_in(wire, 0, 1) != 0;
    order.withdraw_s = now_s + luo_wire_num(wire);
    order.kill_s = now_s + luo_wire_num(wire);
    order.npace = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    if (!luo_wire_has(wire, order.npace, 16)) return luo_message_end(wire, err);
    luo_pace *pace = LUO_NEW_N(arena, luo_pace, order.npace);
    if (!pace) return luo_err_nomem(err);
    for (int32_t i = 0; i < order.npace; i++) {
        pace[i].at_s = now_s + luo_wire_num(wire);
        pace[i].slowdown = luo_wire_num(wire);
    }
    order.ndelay = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    if (!luo_wire_has(wire, order.ndelay, 32)) return luo_message_end(wire, err);
    struct luo_delay *delay = LUO_NEW_N(arena, struct luo_delay, order.ndelay);
    if (!delay) return luo_err_nomem(err);
    for (int32_t i = 0; i < order.ndelay; i++) {
        delay[i].at_s = now_s + luo_wire_num(wire);
        delay[i].device = (int32_t)luo_wire_int_in(wire, 0, LUO_DEVICES_MAX);
        delay[i].s_per_byte = luo_wire_num(wire);
        delay[i].extra_s = luo_wire_num(wire);
    }
    order.pace = pace;
    order.delay = delay;
    LUO_TRY(luo_message_end(wire, err));
    *out = order;
    return LUO_OK;
}

/* ---- reports ---- */

/* Members of luo_parts, in one order for both ways. */
static double *part(luo_parts *parts, int i)
{
    double *const at[] = {&parts->compute_s, &parts->recompute_s, &parts->tp_s, &parts->ep_s,
                          &parts->cp_s,      &parts->pp_s,        &parts->dp_s, &parts->move_s,
                          &parts->io_s,      &parts->bubble_s};
    return i < (int)(sizeof at / sizeof *at) ? at[i] : NULL;
}

static void put_comm(luo_wire *wire, const luo_comm_use *use)
{
    luo_wire_put_int(wire, use->group);
    luo_wire_put_int(wire, use->exchange);
    luo_wire_put_int(wire, use->coll);
    luo_wire_put_int(wire, use->stream);
    luo_wire_put_int(wire, use->devices);
    luo_wire_put_int(wire, use->calls);
    luo_wire_put_int(wire, use->bytes);
    luo_wire_put_num(wire, use->busy_s);
    luo_wire_put_num(wire, use->exposed_s);
}

static void get_comm(luo_wire *wire, luo_comm_use *use)
{
    use->group = (int32_t)luo_wire_int_in(wire, -1, INT32_MAX);
    use->exchange = (int32_t)luo_wire_int_in(wire, -1, INT32_MAX);
    use->coll = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    use->stream = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    use->devices = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    use->calls = luo_wire_int(wire);
    use->bytes = luo_wire_int(wire);
    use->busy_s = luo_wire_num(wire);
    use->exposed_s = luo_wire_num(wire);
}

enum { COMM_BYTES = 9 * 8, RECORD_BYTES = 6 * 8 };

void luo_message_put_report(luo_wire *wire, const luo_step_report *report, double late_s)
{
    luo_parts parts = report->parts;
    luo_wire_put_int(wire, report->status);
    luo_wire_put_text(wire, report->text);
    luo_wire_put_num(wire, late_s);
    luo_wire_put_num(wire, report->end_s - report->start_s);
    for (int i = 0; part(&parts, i); i++) luo_wire_put_num(wire, *part(&parts, i));
    luo_wire_put_num(wire, report->compute_s);
    luo_wire_put_num(wire, report->predicted_s);
    luo_wire_put_int(wire, report->has_loss);
    luo_wire_put_num(wire, report->loss);
    luo_wire_put_num(wire, report->grad_norm);
    luo_wire_put_num(wire, report->aux_loss);
    luo_wire_put_int(wire, report->memory_bytes);
    luo_wire_put_int(wire, report->ncomm);
    for (int32_t i = 0; i < report->ncomm; i++) put_comm(wire, &report->comm[i]);
    luo_wire_put_int(wire, report->nrecords);
    for (int32_t i = 0; i < report->nrecords; i++) {
        const luo_op_record *record = &report->records[i];
        luo_wire_put_int(wire, record->device);
        luo_wire_put_int(wire, record->task);
        luo_wire_put_int(wire, record->instr);
        luo_wire_put_num(wire, record->start_s);
        luo_wire_put_num(wire, record->end_s);
        luo_wire_put_int(wire, record->status);
    }
}

static luo_status get_lists(luo_arena *arena, luo_wire *wire, luo_step_report *report, luo_err *err)
{
    report->ncomm = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    if (!luo_wire_has(wire, report->ncomm, COMM_BYTES)) return luo_message_end(wire, err);
    luo_comm_use *comm = LUO_NEW_N(arena, luo_comm_use, report->ncomm);
    if (!comm) return luo_err_nomem(err);
    for (int32_t i = 0; i < report->ncomm; i++) get_comm(wire, &comm[i]);
    report->nrecords = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
    if (!luo_wire_has(wire, report->nrecords, RECORD_BYTES)) return luo_message_end(wire, err);
    luo_op_record *records = LUO_NEW_N(arena, luo_op_record, report->nrecords);
    if (!records) return luo_err_nomem(err);
    for (int32_t i = 0; i < report->nrecords; i++) {
        luo_op_record *record = &records[i];
        record->device = (int32_t)luo_wire_int_in(wire, 0, LUO_DEVICES_MAX);
        record->task = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
        record->instr = (int32_t)luo_wire_int_in(wire, 0, INT32_MAX);
        record->start_s = luo_wire_num(wire);
        record->end_s = luo_wire_num(wire);
        record->status = (luo_status)luo_wire_int_in(wire, 0, LUO_STATUS_COUNT - 1);
    }
    report->comm = comm;
    report->records = records;
    return LUO_OK;
}

luo_status luo_message_get_report(luo_arena *arena, luo_wire *wire, luo_step_report *out,
                                  double *late_s, luo_err *err)
{
    luo_step_report report = {.status = (luo_status)luo_wire_int_in(wire, 0, LUO_STATUS_COUNT - 1)};
    const char *text = luo_wire_text(wire);
    snprintf(report.text, sizeof report.text, "%s", text ? text : "");
    *late_s = luo_wire_num(wire);
    report.end_s = luo_wire_num(wire);
    for (int i = 0; part(&report.parts, i); i++) *part(&report.parts, i) = luo_wire_num(wire);
    report.compute_s = luo_wire_num(wire);
    report.predicted_s = luo_wire_num(wire);
    report.has_loss = luo_wire_int_in(wire, 0, 1) != 0;
    report.loss = luo_wire_num(wire);
    report.grad_norm = luo_wire_num(wire);
    report.aux_loss = luo_wire_num(wire);
    report.memory_bytes = luo_wire_int(wire);
    LUO_TRY(get_lists(arena, wire, &report, err));
    LUO_TRY(luo_message_end(wire, err));
    *out = report;
    return LUO_OK;
}
