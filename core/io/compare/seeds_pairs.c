/* Policies that ran under several seeds, against each other: what a policy kept per second is the
 * mean over its seeds with Student's interval; two policies are compared seed by seed, since a seed
 * brings both the same events. */
#include <math.h>
#include <string.h>

#include "core/io/compare/compare_internal.h"

#define LEVEL 0.95

static const char *last_part(luo_arena *arena, const char *dir)
{
    size_t n = strlen(dir), from;
    while (n > 1 && dir[n - 1] == '/') n--;
    for (from = n; from > 0 && dir[from - 1] != '/'; from--) continue;
    return luo_arena_strndup(arena, dir + from, n - from);
}

static bool same_seed(const luo_result *a, const luo_result *b)
{
    return strcmp(a->seed, b->seed) == 0;
}

/* The runs of a policy in their order; false: they are not of several seeds. */
static bool gather(luo_seed_policy *policy, const luo_result *runs, const char *const *label,
                   int32_t n)
{
    bool several = false;
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(label[i], policy->label) != 0 || !runs[i].measured) continue;
        several |= policy->n > 0 && !same_seed(policy->run[0], &runs[i]);
        policy->run[policy->n++] = &runs[i];
    }
    return several;
}

static bool is_listed(const luo_seed_stats *stats, const char *label)
{
    for (int32_t i = 0; i < stats->npolicies; i++)
        if (strcmp(stats->policy[i].label, label) == 0) return true;
    return false;
}

static luo_status list_policies(luo_arena *arena, const luo_result *runs, int32_t n,
                                luo_seed_stats *stats, luo_err *err)
{
    const char **label = LUO_NEW_N(arena, const char *, n);
    double *x = LUO_NEW_N(arena, double, n);
    stats->policy = LUO_NEW_N(arena, luo_seed_policy, n);
    if (!label || !x || !stats->policy) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++)
        if (!(label[i] = last_part(arena, runs[i].dir))) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        luo_seed_policy *policy = &stats->policy[stats->npolicies];
        if (is_listed(stats, label[i])) continue;
        *policy =
            (luo_seed_policy){.label = label[i], .run = LUO_NEW_N(arena, const luo_result *, n)};
        if (!policy->run) return luo_err_nomem(err);
        if (!gather(policy, runs, label, n)) continue;
        for (int32_t k = 0; k < policy->n; k++) x[k] = policy->run[k]->goodput_tokens_per_s;
        policy->goodput = luo_interval_of_mean(x, policy->n, LEVEL);
        stats->npolicies++;
    }
    return LUO_OK;
}

/* Of the seeds that both have figures of. */
static void compare(const luo_seed_policy *a, const luo_seed_policy *b, double *room,
                    luo_seed_pair *out)
{
    double other = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t k = 0; k < b->n; k++) {
            if (!same_seed(a->run[i], b->run[k])) continue;
            const double difference =
                a->run[i]->goodput_tokens_per_s - b->run[k]->goodput_tokens_per_s;
            out->ahead += difference > 0;
            out->behind += difference < 0;
            other += b->run[k]->goodput_tokens_per_s;
            room[n++] = difference;
            break;
        }
    out->difference = luo_interval_of_mean(room, n, LEVEL);
    out->against = n > 0 ? other / n : NAN;
}

static luo_status list_pairs(luo_arena *arena, luo_seed_stats *stats, luo_err *err)
{
    const int32_t n = stats->npolicies;
    int32_t most = 1;
    for (int32_t i = 0; i < n; i++) most = stats->policy[i].n > most ? stats->policy[i].n : most;
    double *room = LUO_NEW_N(arena, double, most);
    stats->pair = LUO_NEW_N(arena, luo_seed_pair, (int64_t)n * n);
    if (!room || !stats->pair) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++) {
            if (i == k) continue;
            luo_seed_pair *pair = &stats->pair[stats->npairs];
            *pair = (luo_seed_pair){.run = i, .other = k};
            compare(&stats->policy[i], &stats->policy[k], room, pair);
            stats->npairs += pair->difference.n > 0;
        }
    return LUO_OK;
}

/* ---- which is better ---- */

static const luo_seed_pair *pair_of(const luo_seed_stats *stats, int32_t run, int32_t other)
{
    for (int32_t i = 0; i < stats->npairs; i++)
        if (stats->pair[i].run == run && stats->pair[i].other == other) return &stats->pair[i];
    return NULL;
}

/* `oracle` decides nothing that a run could do: it is no rival. */
static bool competes(const luo_seed_policy *policy)
{
    return strcmp(policy->run[0]->policy, "oracle") != 0;
}

static int32_t best_but(const luo_seed_stats *stats, int32_t not )
{
    int32_t best = -1;
    for (int32_t i = 0; i < stats->npolicies; i++)
        if (i != not &&competes(&stats->policy[i]) &&
            (best < 0 || stats->policy[i].goodput.mean > stats->policy[best].goodput.mean))
            best = i;
    return best;
}

static int32_t rivals(const luo_seed_stats *stats)
{
    int32_t n = -1; /* not of itself */
    for (int32_t i = 0; i < stats->npolicies; i++) n += competes(&stats->policy[i]);
    return n;
}

char *luo_compare_lead(luo_arena *arena, const char *a, const char *b, const luo_seed_pair *pair,
                       int32_t n)
{
    const luo_interval *interval = &pair->difference;
    if (pair->ahead == 0 && pair->behind == 0)
        return luo_arena_printf(arena, "`%s` and `%s` keep the same in each of %d seeds.", a, b,
                                (int)interval->n);
    if (interval->n < 2)
        return luo_arena_printf(arena, "`%s` keeps more than `%s` in one seed that both have; "
                                "how sure that is takes several.", a, b);
    const double doubt = fmin(1, interval->p * n), percent = 100 / pair->against;
    if (interval->high - interval->low <= 1e-9 * fabs(interval->mean))
        return luo_arena_printf(arena,
                                "`%s` keeps %.1f %% more than `%s` in each of %d seeds: "
                                "they change nothing here, and so cannot say how sure that is.",
                                a, interval->mean * percent, b, (int)interval->n);
    luo_str numbers = {0};
    luo_str_addf(&numbers,
                 "%+.1f %% in the mean of %d seeds, 95 %% interval %+.1f to %+.1f %%, "
                 "ahead in %d",
                 interval->mean * percent, (int)interval->n, interval->low * percent,
                 interval->high * percent, (int)pair->ahead);
    char *text;
    if (doubt <= 1 - LEVEL)
        text = luo_arena_printf(arena, "`%s` is better than all others: against the second, `%s`, "
                                "%s (p %.2g, corrected for %d %s).", a, b,
                                luo_str_get(&numbers), doubt, (int)n, n == 1 ? "rival" : "rivals");
    else
        text = luo_arena_printf(arena, "`%s` is first, but that it is better than `%s` is not "
                                "sure: %s (p %.2g, corrected for %d %s); run more seeds.", a, b,
                                luo_str_get(&numbers), doubt, (int)n, n == 1 ? "rival" : "rivals");
    luo_str_free(&numbers);
    return text;
}

static char *answer(luo_arena *arena, const luo_seed_stats *stats)
{
    const int32_t first = best_but(stats, -1), second = first < 0 ? -1 : best_but(stats, first);
    const luo_seed_pair *pair = second < 0 ? NULL : pair_of(stats, first, second);
    if (!pair) return luo_arena_strdup(arena, "");
    return luo_compare_lead(arena, stats->policy[first].label, stats->policy[second].label, pair,
                            rivals(stats));
}

luo_status luo_seed_stats_of(luo_arena *arena, const luo_result *runs, int32_t n,
                             luo_seed_stats *out, luo_err *err)
{
    *out = (luo_seed_stats){.best = -1, .answer = ""};
    LUO_TRY(list_policies(arena, runs, n, out, err));
    if (out->npolicies == 0) return LUO_OK;
    LUO_TRY(list_pairs(arena, out, err));
    out->best = best_but(out, -1);
    out->answer = answer(arena, out);
    return out->answer ? LUO_OK : luo_err_nomem(err);
}
