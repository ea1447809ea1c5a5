/* How sure differences between simulated runs are: each beside the best of its seed
 * (docs/cost-model.md#ranges). */
#include <math.h>
#include <string.h>

#include "core/io/compare/compare_internal.h"

static bool has_range(const luo_result *result)
{
    return result->range && isfinite(result->goodput_tokens_per_s) && result->total_s > 0;
}

/* What steps are of the time: the rest is what the scenario says, which is not predicted. */
static double step_share(const luo_result *result)
{
    return fmin(fmax(1 - luo_result_lost_s(result) / result->total_s, 0), 1);
}

/* Do both keep to one plan, whose step they share? */
static bool is_same_plan(const luo_result *a, const luo_result *b)
{
    return a->nplans == 1 && b->nplans == 1 && strcmp(a->programs[0], b->programs[0]) == 0;
}

static const luo_result *best_of_seed(const luo_result *runs, int32_t n, const char *seed)
{
    const luo_result *best = NULL;
    for (int32_t i = 0; i < n; i++)
        if (has_range(&runs[i]) && strcmp(runs[i].seed, seed) == 0 &&
            (!best || runs[i].goodput_tokens_per_s > best->goodput_tokens_per_s))
            best = &runs[i];
    return best;
}

const char *luo_result_beside_best(const luo_result *result, const luo_result *runs, int32_t n)
{
    if (result->job) return ""; /* jobs are no choice */
    const luo_result *best = has_range(result) ? best_of_seed(runs, n, result->seed) : NULL;
    if (!best) return "";
    if (best == result) return "best";
    const double ratio = log(best->goodput_tokens_per_s / result->goodput_tokens_per_s);
    const double sd = luo_time_range_pair_sd(best->range, step_share(best), result->range,
                                             step_share(result), is_same_plan(best, result));
    return luo_time_range_differs(ratio, sd) ? "slower" : "within_range";
}

double luo_result_low_s(const luo_result *result)
{
    return result->range ? luo_time_range_low(result->range, result->step_mean_s) : NAN;
}

double luo_result_high_s(const luo_result *result)
{
    return result->range ? luo_time_range_high(result->range, result->step_mean_s) : NAN;
}

static void list_those(luo_str *text, const luo_result *runs, int32_t n, const char *which,
                       const char *says)
{
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(luo_result_beside_best(&runs[i], runs, n), which) != 0) continue;
        luo_str_addf(text, "%s%s", any ? ", " : says, runs[i].name);
        any = true;
    }
}

void luo_compare_range_text(luo_str *text, const luo_result *runs, int32_t n)
{
    const luo_result *shown = NULL;
    luo_str parts = {0};
    int32_t ranges = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!has_range(&runs[i])) continue;
        ranges++;
        if (!shown || strcmp(luo_result_beside_best(&runs[i], runs, n), "best") == 0)
            shown = &runs[i];
    }
    if (!shown) return;
    luo_str_addf(text, "%s: step %.4g s (", shown->name, shown->step_mean_s);
    luo_time_range_say(text, shown->range, shown->step_mean_s);
    luo_str_add(text, " in 80 of 100 cases)");
    luo_time_range_say_parts(&parts, shown->range);
    luo_str_addf(text, "%s%s\n", parts.len ? "; " : "", luo_str_get(&parts));
    luo_str_free(&parts);
    if (ranges < 2 || runs[0].job) return;
    list_those(text, runs, n, "best", "best: ");
    list_those(text, runs, n, "slower", "; slower by more than the range: ");
    list_those(text, runs, n, "within_range", "; within the range of it: ");
    luo_str_addc(text, '\n');
}
