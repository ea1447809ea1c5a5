#include "core/io/convert/events.h"

#include <string.h>

#include "core/base/devset.h"
#include "core/cost/cluster.h"

static luo_status read_devices(convert_events *events, const char *text)
{
    luo_err err = {0};
    int32_t *devices;
    if (luo_devset_parse(events->job->arena, text, true, LUO_DEVICES_MAX, &devices,
                         &events->units.n, &err) != LUO_OK)
        return convert_usage(events->job, "`--units` is `%.60s`: %s", events->job->opts->units,
                             err.text);
    events->units.device = devices;
    return LUO_OK;
}

static luo_status all_devices(convert_events *events, int32_t most)
{
    int32_t *devices = LUO_NEW_N(events->job->arena, int32_t, most + 1);
    if (!devices) return convert_nomem(events->job);
    for (int32_t i = 0; i < most; i++) devices[i] = i;
    events->units.device = devices;
    events->units.n = most;
    return LUO_OK;
}

luo_status convert_events_begin(convert_job *job, int32_t most, convert_events *events)
{
    const char *units = job->opts->units;
    *events = (convert_events){.job = job};
    luo_str_addf(&events->text, "# luoshu import %s%s%s\nt_s,kind,target,duration_s,id\n",
                 luo_convert_kind_name(job->opts->kind), units ? " --units " : "",
                 units ? units : "");
    if (!units) return all_devices(events, most);
    if (strncmp(units, "device:", 7) == 0) return read_devices(events, units + 7);
    if (strncmp(units, "node:", 5) == 0 && units[5] && !strpbrk(units + 5, "\n\r,\"")) {
        events->units.group = units + 5;
        events->units.n = most;
        return LUO_OK;
    }
    return convert_usage(job,
                         "`--units` is `%.60s`; devices such as device:[0-31], or the nodes of "
                         "a group, node:GROUP, are expected.",
                         units);
}

luo_status convert_events_put(convert_events *events, double t_s, const char *kind, int32_t unit)
{
    if (unit >= events->units.n)
        return convert_error(events->job, 0, 0, "it needs unit %d, and `--units` has %d.", unit + 1,
                             events->units.n);
    luo_str_addf(&events->text, "%.9g,%s,", t_s, kind);
    if (events->units.device)
        luo_str_addf(&events->text, "device:%d,,\n", events->units.device[unit]);
    else
        luo_str_addf(&events->text, "node:%s-%d,,\n", events->units.group, unit);
    events->n++;
    events->last_s = t_s;
    return LUO_OK;
}

luo_status convert_events_end(convert_events *events)
{
    if (events->n == 0)
        return convert_error(events->job, 0, 0, "there is no change in it, so no event.");
    LUO_TRY(convert_add(events->job, "events.csv", &events->text));
    return convert_say(events->job, "%lld event%s over %.6g s", (long long)events->n,
                       events->n > 1 ? "s" : "", events->last_s);
}

static int64_t most_of(const convert_count *counts, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++)
        if (counts[i].n > most) most = counts[i].n;
    return most < LUO_DEVICES_MAX ? most : LUO_DEVICES_MAX;
}

luo_status convert_counts(convert_job *job, const convert_count *counts, int64_t n)
{
    convert_events events;
    luo_status st = convert_events_begin(job, (int32_t)most_of(counts, n), &events);
    int32_t up = events.units.n;
    for (int64_t i = 0; st == LUO_OK && i < n; i++) {
        const int32_t to = counts[i].n < events.units.n ? (int32_t)counts[i].n : events.units.n;
        while (st == LUO_OK && up > to)
            st = convert_events_put(&events, counts[i].t_s, "leave", --up);
        while (st == LUO_OK && up < to)
            st = convert_events_put(&events, counts[i].t_s, "join", up++);
    }
    if (st == LUO_OK) st = convert_events_end(&events);
    luo_str_free(&events.text);
    return st;
}
