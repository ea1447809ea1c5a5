/* alltoall.c: what three exchanges cost, which one is the fastest, and sweeps of both. */
#include <math.h>

#include "core/graph/moe/alltoall.h"

static const double GIB = 1024.0 * 1024.0 * 1024.0;

const char *luo_alltoall_kind_name(luo_alltoall_kind kind)
{
    static const char *const names[] = {LUO_ALLTOALL_LIST(LUO_WORD_TEXT)};
    return names[kind];
}

/* Devices that share the busiest NIC; a device has one at most. */
static double sharing(const luo_alltoall *alltoall, const luo_alltoall_links *links)
{
    int32_t nics = links->nics < 1 ? 1 : links->nics;
    if (nics > alltoall->each) nics = alltoall->each;
    return (alltoall->each + nics - 1) / nics;
}

double luo_alltoall_messages(const luo_alltoall *alltoall, luo_alltoall_kind kind,
                             const luo_alltoall_links *links)
{
    const double others = alltoall->nodes - 1, devices = sharing(alltoall, links);
    switch (kind) {
    case LUO_ALLTOALL_FLAT:
        break;
    case LUO_ALLTOALL_LEADER:
        return others;
    case LUO_ALLTOALL_2D:
        return devices * others;
    }
    return devices * alltoall->each * others;
}

double luo_alltoall_nic_bytes(const luo_alltoall *alltoall, luo_alltoall_kind kind,
                              const luo_alltoall_links *links, double bytes)
{
    const double devices = kind == LUO_ALLTOALL_LEADER ? alltoall->each : sharing(alltoall, links);
    return devices * bytes * (alltoall->nodes - 1) / alltoall->nodes;
}

/* Into leaders and out of them, or among the devices of a node; and the copies beside that. */
static double inside(const luo_alltoall *alltoall, luo_alltoall_kind kind,
                     const luo_alltoall_links *links, double bytes)
{
    const double G = alltoall->each;
    switch (kind) {
    case LUO_ALLTOALL_FLAT:
        break;
    case LUO_ALLTOALL_LEADER:
        return 2 * (G - 1) * (links->inner_message_s + bytes / links->inner_bytes_per_s) +
               4 * G * bytes / links->memory_bytes_per_s;
    case LUO_ALLTOALL_2D:
        return (G - 1) * (links->inner_message_s + bytes / (G * links->inner_bytes_per_s)) +
               4 * bytes / links->memory_bytes_per_s;
    }
    return 0;
}

double luo_alltoall_seconds(const luo_alltoall *alltoall, luo_alltoall_kind kind,
                            const luo_alltoall_links *links, double bytes)
{
    return luo_alltoall_messages(alltoall, kind, links) * links->message_s +
           luo_alltoall_nic_bytes(alltoall, kind, links, bytes) / links->bytes_per_s +
           inside(alltoall, kind, links, bytes);
}

/* Both times are linear in S: what leader saves at 0, over what each further byte costs it. */
double luo_alltoall_limit(const luo_alltoall *alltoall, const luo_alltoall_links *links)
{
    const luo_alltoall_kind flat = LUO_ALLTOALL_FLAT, leader = LUO_ALLTOALL_LEADER;
    luo_alltoall_links silent = *links;
    silent.inner_message_s = 0;
    const double fewer = luo_alltoall_messages(alltoall, flat, links) -
                         luo_alltoall_messages(alltoall, leader, links);
    const double more = luo_alltoall_nic_bytes(alltoall, leader, links, 1) -
                        luo_alltoall_nic_bytes(alltoall, flat, links, 1);
    const double saved = fewer * links->message_s - inside(alltoall, leader, links, 0);
    return fmax(saved / (more / links->bytes_per_s + inside(alltoall, leader, &silent, 1)), 0);
}

luo_status luo_alltoall_fits(const luo_alltoall *alltoall, luo_alltoall_kind kind, double bytes,
                             double free_bytes, int32_t device, luo_err *err)
{
    const double room = 2 * alltoall->each * bytes;
    if (kind != LUO_ALLTOALL_LEADER || room <= free_bytes) return LUO_OK;
    return luo_err_set(err, LUO_EOOM,
                       "leader exchange needs %.1f GiB on device %d, %.1f GiB are free; use 2d.",
                       room / GIB, (int)device, free_bytes / GIB);
}

luo_alltoall_kind luo_alltoall_best(const luo_alltoall *alltoall, const luo_alltoall_links *links,
                                    double bytes, double free_bytes)
{
    luo_alltoall_kind best = LUO_ALLTOALL_FLAT;
    for (int k = 1; k < LUO_ALLTOALL_KINDS; k++) {
        const luo_alltoall_kind kind = (luo_alltoall_kind)k;
        if (luo_alltoall_fits(alltoall, kind, bytes, free_bytes, 0, NULL) == LUO_OK &&
            luo_alltoall_seconds(alltoall, kind, links, bytes) <
                luo_alltoall_seconds(alltoall, best, links, bytes))
            best = kind;
    }
    return best;
}

/* ---- sweeps ---- */

static luo_alltoall_row row_of(const luo_alltoall *alltoall, const luo_alltoall_links *links,
                               double bytes, double free_bytes)
{
    luo_alltoall_row row = {.at = *alltoall, .bytes = bytes};
    for (int k = 0; k < LUO_ALLTOALL_KINDS; k++) {
        const luo_alltoall_kind kind = (luo_alltoall_kind)k;
        row.seconds[k] = luo_alltoall_seconds(alltoall, kind, links, bytes);
        row.messages[k] = luo_alltoall_messages(alltoall, kind, links);
        row.nic_bytes[k] = luo_alltoall_nic_bytes(alltoall, kind, links, bytes);
    }
    row.leader_fits =
        luo_alltoall_fits(alltoall, LUO_ALLTOALL_LEADER, bytes, free_bytes, 0, NULL) == LUO_OK;
    row.best = luo_alltoall_best(alltoall, links, bytes, free_bytes);
    row.limit = luo_alltoall_limit(alltoall, links);
    return row;
}

/* Powers of two from `from` to the first that is not below `to`. */
static int32_t powers(int32_t from, int32_t to)
{
    int32_t n = 1;
    for (int64_t at = from; at < to; at *= 2) n++;
    return n;
}

luo_status luo_alltoall_sweep(luo_arena *arena, const luo_alltoall *alltoall,
                              const luo_alltoall_links *links, double free_bytes,
                              luo_alltoall_axis axis, luo_alltoall_row **out, int32_t *n,
                              luo_err *err)
{
    enum { NODES = 128, EACH = 16, FIRST_OCTAVE = 10 };
    int32_t steps = 1;
    if (axis == LUO_ALLTOALL_NODES)
        steps = powers(2, alltoall->nodes > NODES ? alltoall->nodes : NODES);
    if (axis == LUO_ALLTOALL_EACH) steps = powers(1, alltoall->each > EACH ? alltoall->each : EACH);
    luo_alltoall_row *row = LUO_NEW_N(arena, luo_alltoall_row, (int64_t)steps * LUO_ALLTOALL_SIZES);
    if (!row) return luo_err_nomem(err);
    for (int32_t i = 0; i < steps; i++) {
        luo_alltoall at = *alltoall;
        if (axis == LUO_ALLTOALL_NODES) at.nodes = 2 << i;
        if (axis == LUO_ALLTOALL_EACH) at.each = 1 << i;
        for (int32_t k = 0; k < LUO_ALLTOALL_SIZES; k++)
            row[i * LUO_ALLTOALL_SIZES + k] =
                row_of(&at, links, floor(exp2(FIRST_OCTAVE + k / 2.0) + 0.5), free_bytes);
    }
    *out = row;
    *n = steps * LUO_ALLTOALL_SIZES;
    return LUO_OK;
}
