/* The sentence that stands above the table: what to choose, and by how much. */
#include <math.h>
#include <string.h>

#include "core/io/compare/compare_internal.h"

enum { MOST = 64 }; /* names in a list */

static bool is_simulated(const luo_result *result)
{
    return strcmp(result->backend, "sim") == 0;
}

static bool has_goodput(const luo_result *result)
{
    return result->measured && result->goodput_tokens_per_s > 0;
}

/* Equal up to what adding up in another order changes. */
static bool is_tied(const luo_result *a, const luo_result *b)
{
    return fabs(a->goodput_tokens_per_s / b->goodput_tokens_per_s - 1) <= 1e-9;
}

/* Are they runs of one question: of one seed, all simulated or all real? */
static bool are_alike(const luo_result *runs, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (strcmp(runs[i].seed, runs[0].seed) != 0 ||
            is_simulated(&runs[i]) != is_simulated(&runs[0]))
            return false;
    return true;
}

static void say_rate(luo_str *text, double tokens_per_s)
{
    luo_table_print_fixed(text, tokens_per_s, 0);
    luo_str_add(text, " tokens/s");
}

static void say_one(luo_str *text, const luo_result *result)
{
    if (!has_goodput(result) || !isfinite(result->step_mean_s)) return;
    luo_str_addf(text, "%s: a step %s %.4g s", result->name,
                 is_simulated(result) ? "takes" : "took", result->step_mean_s);
    if (result->range) {
        luo_str_add(text, " (");
        luo_time_range_say(text, result->range, result->step_mean_s);
        luo_str_addc(text, ')');
    }
    luo_str_add(text, "; ");
    say_rate(text, result->goodput_tokens_per_s);
    if (isfinite(result->mfu_ratio)) luo_str_addf(text, ", MFU %.1f %%", 100 * result->mfu_ratio);
    luo_str_add(text, ".\n");
}

static void say_names(luo_str *text, const char *const *names, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        luo_str_addf(text, "%s%s", i == 0 ? "" : i == n - 1 ? " and " : ", ", names[i]);
}

/* Why nothing tells them apart. */
static void say_tie(luo_str *text, const luo_result *runs, int32_t n, const char *const *names,
                    int32_t ntied, double tokens_per_s)
{
    bool acted = false;
    for (int32_t i = 0; i < n; i++) acted |= runs[i].switches > 0 || runs[i].restarts > 0;
    say_names(text, names, ntied);
    luo_str_add(text, " come out equal, ");
    say_rate(text, tokens_per_s);
    luo_str_add(text, acted ? ": what happened cost them the same"
                            : ": none of them had to switch plans or to restart");
}

/* The next best and how sure that is. Pre: it is no tie. */
static void say_lead(luo_str *text, const luo_result *runs, int32_t n, const luo_result *best,
                     const luo_result *next, const char *const *names, int32_t ntied)
{
    const double gain = best->goodput_tokens_per_s / next->goodput_tokens_per_s - 1;
    const char *beside = luo_result_beside_best(next, runs, n);
    if (strcmp(beside, "within_range") == 0) {
        say_names(text, names, ntied);
        luo_str_addf(text,
                     " %s %.2g %% more goodput than %s, which is within the range: that is no "
                     "reason to choose",
                     ntied > 1 ? "have" : "has", 100 * gain, next->name);
        return;
    }
    luo_str_add(text, "Choose ");
    say_names(text, names, ntied);
    luo_str_addf(text, ": %.3g %% more goodput than %s, the next%s", 100 * gain, next->name,
                 strcmp(beside, "slower") == 0 ? ", and more than the range" : "");
}

static void say_lost(luo_str *text, const luo_result *runs, int32_t n)
{
    const char *names[MOST];
    int32_t lost = 0;
    for (int32_t i = 0; i < n && lost < MOST; i++)
        if (runs[i].state == LUO_LOST) names[lost++] = runs[i].name;
    if (lost == 0) return;
    luo_str_add(text, "; ");
    say_names(text, names, lost);
    luo_str_addf(text, " %s lost", lost > 1 ? "were" : "was");
}

/* A real run of what was simulated: how far off, and whether the range has it. */
static void say_predicted(luo_str *text, const luo_result *simulated, const luo_result *real)
{
    const double predicted_s = simulated->step_mean_s, measured_s = real->step_mean_s;
    if (!(predicted_s > 0) || !isfinite(measured_s)) return;
    luo_str_addf(text, "%s: a step took %.4g s, where %.4g s ", real->name, measured_s,
                 predicted_s);
    if (simulated->range) {
        luo_str_addc(text, '(');
        luo_time_range_say(text, simulated->range, predicted_s);
        luo_str_add(text, ") ");
    }
    const double error = measured_s / predicted_s - 1;
    luo_str_addf(text, "were predicted: %.1f %% %s", 100 * fabs(error),
                 error > 0 ? "longer" : "shorter");
    if (simulated->range)
        luo_str_add(text, measured_s < luo_result_low_s(simulated) ||
                                  measured_s > luo_result_high_s(simulated)
                              ? ", outside of the range"
                              : ", within the range");
    luo_str_add(text, ".\n");
}

void luo_compare_answer(luo_str *text, const luo_result *runs, int32_t n)
{
    if (n == 2 && is_simulated(&runs[0]) != is_simulated(&runs[1]) &&
        strcmp(runs[0].seed, runs[1].seed) == 0) {
        const int simulated = is_simulated(&runs[0]) ? 0 : 1;
        say_predicted(text, &runs[simulated], &runs[1 - simulated]);
        return;
    }
    const luo_result *best = NULL, *next = NULL;
    const char *names[MOST];
    int32_t ntied = 0;
    if (n == 1) say_one(text, &runs[0]);
    if (n == 1 || !are_alike(runs, n)) return;
    for (int32_t i = 0; i < n; i++)
        if (has_goodput(&runs[i]) &&
            (!best || runs[i].goodput_tokens_per_s > best->goodput_tokens_per_s))
            best = &runs[i];
    if (!best) return;
    for (int32_t i = 0; i < n; i++) {
        if (!has_goodput(&runs[i])) continue;
        if (is_tied(&runs[i], best)) {
            if (ntied < MOST) names[ntied++] = runs[i].name;
        } else if (!next || runs[i].goodput_tokens_per_s > next->goodput_tokens_per_s) {
            next = &runs[i];
        }
    }
    if (next)
        say_lead(text, runs, n, best, next, names, ntied);
    else if (ntied > 1)
        say_tie(text, runs, n, names, ntied, best->goodput_tokens_per_s);
    else
        luo_str_addf(text, "Choose %s: no other kept a step", best->name);
    say_lost(text, runs, n);
    luo_str_add(text, is_simulated(best) && *best->scenario ? " (one seed).\n" : ".\n");
}
