/* What the detector saw, held against what was injected (docs/results.md, `truth.csv` and
 * `detection`). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/events/reach.h"
#include "core/run/run.h"

static bool takes_down(luo_event_kind k)
{
    return k == LUO_EVENT_FAIL || k == LUO_EVENT_LEAVE || k == LUO_EVENT_FLAP;
}

static bool has_device(const luo_occurrence *o, int32_t device)
{
    for (int32_t i = 0; o->choice && i < o->choice->ndev; i++)
        if (o->choice->dev[i] == device) return true;
    return false;
}

static bool touches_plan(const luo_run *r, const luo_occurrence *o)
{
    const bool *member = luo_run_plan(&r->plans)->member;
    if (!o->choice) return o->kind != LUO_EVENT_LENGTHS; /* the whole job */
    for (int32_t i = 0; i < o->choice->ndev; i++)
        if (member[o->choice->dev[i]]) return true;
    for (int32_t i = 0; i < o->choice->nlink; i++)
        if (luo_reach_link_touches(r->job.scenario->cluster, o->choice->link[i], member))
            return true;
    return false;
}

void luo_score_new(luo_run *r)
{
    int32_t n;
    luo_occurrence *o = luo_events_occurrences(r->clock.events, &n);
    for (; r->decision.seen < n; r->decision.seen++) {
        o[r->decision.seen].touched = touches_plan(r, &o[r->decision.seen]);
        r->decision.cause = o[r->decision.seen].id;
        r->clock.last_event_step = r->clock.step;
    }
}

static void seen_now(luo_run *r, luo_occurrence *o)
{
    if (o->detected_s >= 0) return;
    o->detected_s = r->clock.t_s;
    r->health.detect_true++;
    r->health.detect_delay_s += r->clock.t_s - o->start_s;
}

/* The newest straggler on the device that is on, or ended within the detector's window; if it got
 * faster: the newest at all. */
static luo_occurrence *straggler_on(luo_run *r, int32_t device, bool faster)
{
    int32_t n;
    luo_occurrence *o = luo_events_occurrences(r->clock.events, &n);
    for (int32_t i = n - 1; i >= 0; i--) {
        if (o[i].kind != LUO_EVENT_STRAGGLER || !has_device(&o[i], device)) continue;
        if (faster || o[i].end_s < 0 || r->clock.step - o[i].last_step <= r->health.detect.window)
            return &o[i];
    }
    return NULL;
}

/* "1.00 0.98 | 2.51 2.49 2.55": the samples before and after the change, for log.txt. */
static const char *samples_text(luo_run *r, const luo_rate_change *c)
{
    luo_str s = {0};
    for (int32_t i = 0; i < c->n; i++)
        luo_str_addf(&s, "%s%s%.4g", i ? " " : "", i == c->split ? "| " : "", c->sample[i]);
    const char *copy = luo_arena_strdup(r->scratch, luo_str_get(&s));
    luo_str_free(&s);
    return copy ? copy : "";
}

luo_status luo_score_rate(luo_run *r, int32_t device, const luo_rate_change *c, luo_err *err)
{
    const bool slower = c->now > c->was;
    luo_occurrence *o = straggler_on(r, device, !slower);
    char target[32], detail[96];
    snprintf(target, sizeof target, "device:%d", device);
    snprintf(detail, sizeof detail, "%s%s", slower ? "slower" : "faster",
             o ? "" : "; nothing injected");
    r->decision.cause = o ? o->id : "";
    if (slower && !o) r->health.detect_false++;
    if (slower && o && o->detected_s < 0) { /* how long it took, beside the steps */
        seen_now(r, o);
        LUO_TRY(
            luo_run_timeline(r, LUO_SPAN_DETECT, o->start_s, r->clock.t_s, false, false, 0, err));
    }
    LUO_TRY(luo_run_note(&r->job, err, "step %lld: device %d: rate %.6f -> %.6f, samples %s",
                         (long long)r->clock.step, device, c->was, c->now, samples_text(r, c)));
    return luo_run_event(r, "detected", r->decision.cause, "straggler", target, false, 0, detail,
                         err);
}

luo_status luo_score_failure(luo_run *r, double since_s, luo_err *err)
{
    int32_t n;
    luo_occurrence *o = luo_events_occurrences(r->clock.events, &n);
    for (int32_t i = 0; i < n; i++) {
        const bool on = o[i].end_s < 0 || o[i].end_s >= since_s;
        if (!takes_down(o[i].kind) || !on || o[i].detected_s >= 0 || !o[i].touched) continue;
        seen_now(r, &o[i]);
        r->decision.cause = o[i].id;
        LUO_TRY(luo_run_event(r, "detected", o[i].id, luo_event_kind_name(o[i].kind), o[i].target,
                              false, 0, "failure", err));
    }
    return LUO_OK;
}
