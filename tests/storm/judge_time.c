/* Where the time went: parts sum to steps, rows tile the run, sums are those of the summary. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "tests/storm/storm.h"

/* Numbers stand with nine decimals; a time of 1e9 s has no more than seven itself. */
static double slack(double v, int sums)
{
    return 1e-9 * sums + 1e-11 * fabs(v) * sums;
}

static double sum_of(const storm_sheet *t, int row, const char *const *columns, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += storm_number(t, row, columns[i]);
    return sum;
}

static const char *const parts[] = {"compute_s", "recompute_s", "tp_s",   "ep_s", "cp_s",
                                    "pp_s",      "dp_s",        "move_s", "io_s", "bubble_s"};
enum { PARTS = 10 };

static void judge_steps(storm_run *r)
{
    const storm_sheet *t = &r->steps;
    for (int i = 0; i < t->rows; i++) {
        const double step_s = storm_number(t, i, "step_s"), end_s = storm_number(t, i, "t_end_s");
        const double begin_s = storm_number(t, i, "t_start_s");
        if (!(fabs(sum_of(t, i, parts, PARTS) - step_s) <= slack(end_s, 12)))
            STORM_WRONG(r, "%s/steps.csv:%d: parts sum to %.9f, not %.9f", r->dir, i + 2,
                        sum_of(t, i, parts, PARTS), step_s);
        if (!(fabs(end_s - begin_s - step_s) <= slack(end_s, 3)) || step_s < 0)
            STORM_WRONG(r, "%s/steps.csv:%d: from %.9f to %.9f in %.9f s", r->dir, i + 2, begin_s,
                        end_s, step_s);
        for (int k = 0; k < PARTS; k++)
            if (storm_number(t, i, parts[k]) < 0)
                STORM_WRONG(r, "%s/steps.csv:%d: `%s` is below 0", r->dir, i + 2, parts[k]);
        if (i > 0 && begin_s < storm_number(t, i - 1, "t_end_s") - slack(end_s, 1))
            STORM_WRONG(r, "%s/steps.csv:%d: begins before the last one ended", r->dir, i + 2);
    }
}

static const char *const spans[] = {"detect",     "plan",    "specialize", "switch",
                                    "checkpoint", "restart", "wait"};
enum { SPANS = 7 };

static void judge_timeline(storm_run *r, double *span)
{
    const storm_sheet *t = &r->timeline;
    const char *last = "0.000000000";
    for (int i = 0; i < t->rows; i++) {
        const double begin_s = storm_number(t, i, "t_start_s");
        const double end_s = storm_number(t, i, "t_end_s");
        if (end_s < begin_s) STORM_WRONG(r, "%s/timeline.csv:%d: goes back", r->dir, i + 2);
        if (storm_number(t, i, "blocking") != 1) continue;
        if (strcmp(storm_cell(t, i, "t_start_s"), last) != 0)
            STORM_WRONG(r, "%s/timeline.csv:%d: begins at %.9f, the row before ends at %s", r->dir,
                        i + 2, begin_s, last);
        last = storm_cell(t, i, "t_end_s");
        for (int k = 0; k < SPANS; k++)
            if (strcmp(storm_cell(t, i, "kind"), spans[k]) == 0) span[k] += end_s - begin_s;
    }
    if (fabs(strtod(last, NULL) - r->total_s) > slack(r->total_s, 1))
        STORM_WRONG(r, "%s/timeline.csv ends at %s, the run at %.9f", r->dir, last, r->total_s);
}

static void judge_sums(storm_run *r, const double *span)
{
    json_t *time = json_object_get(r->summary, "time"), *v;
    const char *key;
    char name[32];
    double sum = 0;
    json_object_foreach(time, key, v) sum += json_number_value(v);
    if (!(fabs(sum - r->total_s) <= slack(r->total_s, r->timeline.rows + 20)))
        STORM_WRONG(r, "%s/summary.json: `time` sums to %.9f of %.9f s", r->dir, sum, r->total_s);
    for (int k = 0; k < SPANS; k++) {
        snprintf(name, sizeof name, "%s_s", spans[k]);
        const double says = json_number_value(json_object_get(time, name));
        if (!(fabs(says - span[k]) <= slack(r->total_s, r->timeline.rows + 1)))
            STORM_WRONG(r, "%s/summary.json: `%s` is %.9f, timeline.csv has %.9f", r->dir, name,
                        says, span[k]);
    }
}

/* Steps that stay: the last attempt of each, below the step at which the run ended. */
static void judge_tokens(storm_run *r)
{
    const double done = json_number_value(json_object_get(r->summary, "steps_done"));
    const double says = json_number_value(json_object_get(r->summary, "kept_tokens"));
    const json_t *extent = json_object_get(r->summary, "extent_s");
    const json_t *goodput = json_object_get(r->summary, "goodput_tokens_per_s");
    const storm_sheet *t = &r->steps;
    double tokens = 0, lowest = INFINITY;
    int kept = 0;
    for (int i = t->rows - 1; i >= 0; i--) { /* from behind: a later attempt wins */
        const double step = storm_number(t, i, "step");
        if (step >= lowest) continue;
        lowest = step;
        if (step >= done) continue;
        kept++;
        tokens += storm_number(t, i, "tokens");
    }
    if (kept != done)
        STORM_WRONG(r, "%s: %d steps in steps.csv stay, summary.json says %.0f", r->dir, kept,
                    done);
    if (kept == done && says != tokens)
        STORM_WRONG(r, "%s: %.0f tokens in steps.csv stay, summary.json says %.0f", r->dir, tokens,
                    says);
    if (json_is_number(extent) && json_number_value(extent) > 1e-6 &&
        fabs(json_number_value(goodput) * json_number_value(extent) - says) >
            1e-3 * json_number_value(extent) + 2e-9 * json_number_value(goodput) + 1e-9 * says)
        STORM_WRONG(r, "%s/summary.json: goodput over the extent is not %.0f tokens", r->dir, says);
}

static void judge_devices(storm_run *r)
{
    static const char *const kinds[] = {"compute_s", "tp_s", "ep_s",    "cp_s",
                                        "pp_s",      "dp_s", "bubble_s"};
    const storm_sheet *t = &r->devices;
    for (int i = 0; i < t->rows; i++) {
        const double used_s = storm_number(t, i, "used_s"), up_s = storm_number(t, i, "up_s");
        const double within = slack(r->total_s, 10 + r->steps.rows);
        if (up_s > r->total_s + within || used_s > r->total_s + within || up_s < 0 || used_s < 0)
            STORM_WRONG(r, "%s/devices.csv:%d: up %.9f, used %.9f of %.9f s", r->dir, i + 2, up_s,
                        used_s, r->total_s);
        if (sum_of(t, i, kinds, 7) > used_s + within)
            STORM_WRONG(r, "%s/devices.csv:%d: parts sum to %.9f, used %.9f", r->dir, i + 2,
                        sum_of(t, i, kinds, 7), used_s);
    }
    if (t->rows != r->c->cluster->ndevices)
        STORM_WRONG(r, "%s/devices.csv has %d devices", r->dir, t->rows);
}

void storm_judge_time(storm_run *r)
{
    double span[SPANS] = {0};
    judge_steps(r);
    judge_timeline(r, span);
    judge_sums(r, span);
    judge_tokens(r);
    judge_devices(r);
}
