/* What the detector saw, held against what was injected (docs/results.md, `truth.csv` and
 * `detection`). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/events/reach.h"
#include "core/run/run.h"

static bool has_device(const luo_occurrence *occurrence, int32_t device)
{
    for (int32_t i = 0; occurrence->choice && i < occurrence->choice->ndev; i++)
        if (occurrence->choice->dev[i] == device) return true;
    return false;
}

static bool touches_plan(const luo_run *run, const luo_occurrence *occurrence)
{
    const bool *member = luo_run_plan(&run->plans)->member;
    if (!occurrence->choice) /* the whole job */
        return luo_event_traits_of(occurrence->kind).hits != LUO_HITS_DATA;
    for (int32_t i = 0; i < occurrence->choice->ndev; i++)
        if (member[occurrence->choice->dev[i]]) return true;
    for (int32_t i = 0; i < occurrence->choice->nlink; i++)
        if (luo_reach_link_touches(run->job.scenario->cluster, occurrence->choice->link[i], member))
            return true;
    return false;
}

void luo_run_score_new(luo_run *run)
{
    int32_t n;
    luo_occurrence *occurrence = luo_events_occurrences(run->clock.events, &n);
    for (; run->decision.seen < n; run->decision.seen++) {
        occurrence[run->decision.seen].touched = touches_plan(run, &occurrence[run->decision.seen]);
        run->decision.cause = occurrence[run->decision.seen].id;
        run->clock.last_event_step = run->clock.step;
    }
}

static void seen_now(luo_run *run, luo_occurrence *occurrence)
{
    if (occurrence->detected_s >= 0) return;
    occurrence->detected_s = run->clock.t_s;
    run->health.detect_true++;
    run->health.detect_delay_s += run->clock.t_s - occurrence->start_s;
}

/* The newest straggler on the device that is on, or ended within the detector's window; if it got
 * faster: the newest at all. */
static luo_occurrence *straggler_on(luo_run *run, int32_t device, bool faster)
{
    int32_t n;
    luo_occurrence *occurrence = luo_events_occurrences(run->clock.events, &n);
    for (int32_t i = n - 1; i >= 0; i--) {
        if (luo_event_traits_of(occurrence[i].kind).value != LUO_VALUE_SLOWDOWN ||
            !has_device(&occurrence[i], device))
            continue;
        if (faster || occurrence[i].end_s < 0 ||
            run->clock.step - occurrence[i].last_step <= run->health.detect.window)
            return &occurrence[i];
    }
    return NULL;
}

/* "1.00 0.98 | 2.51 2.49 2.55": the samples before and after the change, for log.txt. */
static const char *samples_text(luo_run *run, const luo_rate_change *change)
{
    luo_str text = {0};
    for (int32_t i = 0; i < change->n; i++)
        luo_str_addf(&text, "%s%s%.4g", i ? " " : "", i == change->split ? "| " : "",
                     change->sample[i]);
    const char *copy = luo_arena_strdup(run->scratch, luo_str_get(&text));
    luo_str_free(&text);
    return copy ? copy : "";
}

luo_status luo_run_score_rate(luo_run *run, int32_t device, const luo_rate_change *change,
                              luo_err *err)
{
    const bool slower = change->now > change->was;
    luo_occurrence *occurrence = straggler_on(run, device, !slower);
    char target[32], detail[96];
    snprintf(target, sizeof target, "device:%d", device);
    snprintf(detail, sizeof detail, "%s%s", slower ? "slower" : "faster",
             occurrence ? "" : "; nothing injected");
    run->decision.cause = occurrence ? occurrence->id : "";
    if (slower && !occurrence) run->health.detect_false++;
    if (slower && occurrence &&
        occurrence->detected_s < 0) { /* how long it took, beside the steps */
        seen_now(run, occurrence);
        LUO_TRY(luo_run_timeline(run, LUO_SPAN_DETECT, occurrence->start_s, run->clock.t_s, false,
                                 false, 0, err));
    }
    LUO_TRY(luo_run_note(&run->job, err, "step %lld: device %d: rate %.6f -> %.6f, samples %s",
                         (long long)run->clock.step, device, change->was, change->now,
                         samples_text(run, change)));
    return luo_run_event(run, LUO_EVENT_PHASE_DETECTED, run->decision.cause, "straggler", target,
                         false, 0, detail, err);
}

luo_status luo_run_score_failure(luo_run *run, double since_s, luo_err *err)
{
    int32_t n;
    luo_occurrence *occurrence = luo_events_occurrences(run->clock.events, &n);
    for (int32_t i = 0; i < n; i++) {
        const bool on = occurrence[i].end_s < 0 || occurrence[i].end_s >= since_s;
        if (!luo_event_takes_down(occurrence[i].kind) || !on || occurrence[i].detected_s >= 0 ||
            !occurrence[i].touched)
            continue;
        seen_now(run, &occurrence[i]);
        run->decision.cause = occurrence[i].id;
        LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_DETECTED, occurrence[i].id,
                              luo_event_kind_name(occurrence[i].kind), occurrence[i].target, false,
                              0, "failure", err));
    }
    return LUO_OK;
}
