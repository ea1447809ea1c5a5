/* detector.c: false alarms and delays of the detector over noise, as the table that
 * plots/detector.gp draws; `make detector`. Samples are synthetic (tests/noise.h).
 *
 * usage: detector [SCALE] > detector.csv; SCALE 1: a million device-steps and 2,000 jumps a point.
 *
 * Beside the detector stand two simpler rules, to show what confirmation is for: `median`, which
 * takes the median of 5 as it comes, and `mean`, of 2 samples. All have the same gap. A false alarm
 * is a change of a device that has none, after which the rule begins anew; a delay is the number of
 * slow steps until a jump is told. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/run/health/detect.h"
#include "tests/noise.h"

enum { DETECTOR, MEDIAN, MEAN, RULES, WINDOW = 5, WARM = 10, LOOK = 100, JUMPS = 2000 };
static const char *const rule_names[RULES] = {"detector", "median", "mean"};
static const double GAP = 0.3;
static const double sigmas[] = {0.02, 0.04, 0.05, 0.06, 0.08, 0.10, 0.12,
                                0.14, 0.16, 0.18, 0.20, 0.22, 0.24};
static const double jumps[] = {1.35, 1.5, 2.57, 5.42};
enum { NSIGMAS = sizeof sigmas / sizeof *sigmas, NJUMPS = sizeof jumps / sizeof *jumps };

typedef struct rule {
    int kind, n;
    double last[WINDOW];
    luo_detect detect;
} rule;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a device that counts as healthy. */
static bool push_simple(rule *r, double sample)
{
    double v[WINDOW];
    const int need = r->kind == MEDIAN ? WINDOW : 2;
    r->last[r->n++ % WINDOW] = sample;
    if (r->n < need) return false;
    for (int i = 0; i < need; i++) v[i] = r->last[(r->n - need + i) % WINDOW];
    qsort(v, (size_t)need, sizeof *v, ascending);
    const double m = r->kind == MEDIAN ? v[WINDOW / 2] : (v[0] + v[1]) / 2;
    return fabs(m - 1) >= GAP;
}

static bool push(rule *r, double sample)
{
    return r->kind == DETECTOR ? luo_detect_push(&r->detect, 0, sample, NULL)
                               : push_simple(r, sample);
}

static void begin(rule *r)
{
    r->n = 0;
    luo_detect_accept(&r->detect, 0, 1);
}

static void false_alarms(rule *r, double sigma, int64_t steps)
{
    const luo_noise noise = {luo_noise_1.first, sigma, luo_noise_1.hiccup};
    luo_rng rng = luo_rng_stream(1, "alarms");
    int64_t alarms = 0;
    begin(r);
    for (int64_t k = 0; k < steps; k++) {
        if (!push(r, luo_noise_sample(&rng, &noise, 1))) continue;
        alarms++;
        begin(r);
    }
    printf("%s,%.2f,1,%lld,%lld,%.9f,,,\n", rule_names[r->kind], sigma, (long long)steps,
           (long long)alarms, 1000.0 * (double)alarms / (double)steps);
}

/* Slow steps until the jump is told; LOOK: not within them. */
static int delay(rule *r, const luo_noise *noise, luo_rng *rng, double jump)
{
    begin(r);
    for (int k = 0; k < WARM; k++)
        if (push(r, luo_noise_sample(rng, noise, 1))) begin(r);
    for (int k = 1; k < LOOK; k++)
        if (push(r, luo_noise_sample(rng, noise, jump))) return k;
    return LOOK;
}

static int quantile(const int *at, int cases, double share)
{
    int k = 0;
    for (double below = 0; k < LOOK && below < share * cases; k++) below += at[k + 1];
    return k;
}

static void delays(rule *r, double sigma, double jump, int cases)
{
    const luo_noise noise = {luo_noise_1.first, sigma, luo_noise_1.hiccup};
    luo_rng rng = luo_rng_stream(2, "delays");
    int at[LOOK + 1] = {0};
    for (int i = 0; i < cases; i++) at[delay(r, &noise, &rng, jump)]++;
    printf("%s,%.2f,%g,,,,%.6f,%d,%d\n", rule_names[r->kind], sigma, jump,
           1 - at[LOOK] / (double)cases, quantile(at, cases, 0.5), quantile(at, cases, 0.99));
}

int main(int argc, char **argv)
{
    const double scale = argc > 1 ? atof(argv[1]) : 1;
    luo_arena *arena = luo_arena_new(1 << 14);
    rule r = {0};
    if (scale <= 0 || !arena ||
        luo_detect_init(arena, 1, WINDOW, GAP, &r.detect, NULL) != LUO_OK) {
        fprintf(stderr, "detector: SCALE is `%s`; a number above 0 is expected.\n",
                argc > 1 ? argv[1] : "");
        return 2;
    }
    printf("rule,noise_sigma,slowdown,device_steps,alarms,alarms_per_1000_steps,found_ratio,"
           "delay_p50_steps,delay_p99_steps\n");
    for (r.kind = 0; r.kind < RULES; r.kind++)
        for (int s = 0; s < NSIGMAS; s++) false_alarms(&r, sigmas[s], (int64_t)(1e6 * scale));
    r.kind = DETECTOR;
    for (int j = 0; j < NJUMPS; j++)
        for (int s = 0; s < NSIGMAS; s++)
            delays(&r, sigmas[s], jumps[j], (int)fmax(100, JUMPS * scale));
    luo_arena_free(arena);
    return 0;
}
