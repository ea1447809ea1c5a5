/* validate_table.c: errors of suites, their bars, the table that is printed. */
#include <math.h>
#include <string.h>

#include "cli/validate/validate.h"

/* In %. What others score is from the papers and projects named, on the same rows where `computed`;
 * 0: nothing is asked. */
static const luo_bar bars[] = {
    {"vtrain-multi", "vTrain 14.7, Calculon 11.1 (reported)", {8, 6}, {0}, {0}, {0}},
    {"vtrain-single", "vTrain 8.4 (reported)", {9, 7}, {0}, {0}, {0}},
    {"megatron-sc21", "-", {8, 6}, {0}, {0}, {0}},
    {"megatron-sc21-zero3", "-", {20, 10}, {0}, {0}, {0}},
    {"korthikanti", "Calculon 3.65, max 8.87 (computed)", {5, 3}, {0}, {0}, {0}},
    {"foundry", "-", {8, 6}, {0}, {0}, {0}},
    {"bloom", "-", {10, 6}, {0}, {0.6, 0.9}, {0}},
    {"megatron-core", "-", {8, 6}, {0}, {0}, {0}},
    {"megascale", "-", {8, 6}, {0}, {0}, {0}},
    {"llama3", "-", {20, 10}, {0}, {0}, {0}},
    {"sailor-gh200", "Sailor 8.9 and 10.1, Metis 12.2 (computed)", {10, 5}, {0}, {0}, {0}},
    {"sailor-mixed", "Sailor 10.3, max 27.3; Metis 27.7 (computed)", {8, 5}, {15, 12}, {0}, {0}},
    {"collectives", "ASTRA-sim 17, geometric (reported)", {10, 7}, {0}, {0}, {0}},
    {"simumax-b200", "SimuMax 5.4, memory 0.4 (reported)", {6, 4.5}, {0}, {0}, {2, 1}},
};

const luo_bar *luo_bar_of(const char *suite)
{
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++)
        if (strcmp(bars[i].suite, suite) == 0) return &bars[i];
    return NULL;
}

const char *luo_validate_part(const luo_suite_row *row)
{
    if (strcmp(row->suite, "vtrain") == 0)
        return luo_suite_nodes(row) > 1 ? "vtrain-multi" : "vtrain-single";
    if (strcmp(row->suite, "megatron-sc21") == 0 && row->zero == 3) return "megatron-sc21-zero3";
    if (strcmp(row->suite, "foundry") == 0 && strcmp(row->precision, "fp8") == 0)
        return "foundry-fp8";
    if (strcmp(row->suite, "bloom") == 0 && strstr(row->note, "repeat")) return "bloom-repeats";
    return row->suite;
}

bool luo_validation_counts(const luo_validation *validation, const luo_scored *scored)
{
    if (validation->rows == LUO_ROWS_LEFT) return true;
    const luo_suite_split want = validation->rows == LUO_ROWS_VAL ? LUO_SPLIT_VAL : LUO_SPLIT_CAL;
    return scored->c->row->split == want;
}

/* ---- one row ---- */

/* Only FLOP/s are printed, and not by which count: with the whole square of attention or half of
 * it; the nearer to the prediction is taken. */
static double measured_by_rate(const luo_case *one, double predicted)
{
    const luo_suite_row *row = one->row;
    const double tokens = (double)(row->gbs * row->seq), rate = row->tflops_gpu * 1e12 * row->gpus;
    const double square = 12.0 * (double)(row->layers * row->hidden * row->seq);
    const double whole = luo_model_flops_per_token(&one->model, row->seq);
    const double a = tokens * whole / rate, b = tokens * (whole - square / 2) / rate;
    return fabs(log(predicted / a)) < fabs(log(predicted / b)) ? a : b;
}

static void take_row(const luo_validation *validation, luo_scored *scored)
{
    const luo_score *score = scored->s;
    scored->predicted_s = 0;
    if (scored->c->row->kind == LUO_STEP_OOM) return;
    if (!validation->closed_only && score->simulated == LUO_OK)
        scored->predicted_s = score->step_s;
    else if (score->closed == LUO_OK)
        scored->predicted_s = score->closed_s;
    scored->measured_s = scored->c->measured_s;
    if (scored->c->row->kind == LUO_STEP_MFU_ONLY && scored->predicted_s > 0)
        scored->measured_s = measured_by_rate(scored->c, scored->predicted_s);
}

/* ---- naive floor: one constant, the median over calibration rows, or over those of all other
 * suites where the own ones are left out ---- */

static bool same_part(const luo_scored *scored, const char *suite)
{
    return strcmp(scored->suite, suite) == 0;
}

static luo_status add_naive(luo_validation *validation, luo_arena *scratch, const char *suite,
                            luo_err *err)
{
    double *share = LUO_NEW_N(scratch, double, validation->n);
    int32_t n = 0;
    if (!share) return luo_err_nomem(err);
    for (int32_t i = 0; i < validation->n; i++) {
        const luo_scored *scored = &validation->at[i];
        const double at_peak = luo_case_naive(scored->c);
        if (same_part(scored, suite) != (validation->rows == LUO_ROWS_LEFT) &&
            scored->c->row->split == LUO_SPLIT_CAL &&
            scored->measured_s > 0 && at_peak > 0)
            share[n++] = at_peak / scored->measured_s;
    }
    const double constant = n ? luo_stats_median(share, n) : 0;
    for (int32_t i = 0; i < validation->n; i++)
        if (same_part(&validation->at[i], suite) && constant > 0)
            validation->at[i].naive_s = luo_case_naive(validation->at[i].c) / constant;
    return LUO_OK;
}

/* ---- a suite ---- */

typedef struct pairs {
    double *predicted, *measured;
    int32_t n;
} pairs;

static void add(pairs *p, double predicted, double measured)
{
    if (!(predicted > 0) || !(measured > 0)) return;
    p->predicted[p->n] = predicted;
    p->measured[p->n++] = measured;
}

enum { ALL, SIMULATED, CLOSED, NAIVE, MEMORY, KINDS };

/* No case of ours, or no closed form where that alone is asked for. */
static bool not_said(const luo_validation *validation, const luo_scored *scored)
{
    if (scored->c->refused != LUO_OK) return scored->c->refused == LUO_EUNSUP;
    return validation->closed_only && scored->s->closed == LUO_EUNSUP;
}

static void add_row(const luo_validation *validation, const luo_scored *scored, pairs *p,
                    luo_suite_result *result)
{
    const luo_suite_row *row = scored->c->row;
    const bool simulated = scored->s->simulated == LUO_OK;
    if (not_said(validation, scored)) {
        result->outside++;
        return;
    }
    if (!scored->c->cluster) {
        result->missing++;
        return;
    }
    if (row->kind == LUO_STEP_OOM) {
        result->oom++;
        result->oom_told += scored->s->memory == LUO_OK && scored->s->over;
        result->missing += scored->s->memory != LUO_OK;
        return;
    }
    if (!(scored->predicted_s > 0))
        result->missing++;
    else if (!validation->closed_only && !simulated)
        result->by_closed++;
    add(&p[ALL], scored->predicted_s, scored->measured_s);
    if (scored->spread > 0 && scored->predicted_s > 0 && scored->measured_s > 0) {
        result->ranges++;
        result->inside += fabs(log(scored->predicted_s / scored->measured_s)) <=
                          LUO_EFFECTS_MIDDLE80 * scored->spread;
    }
    if (scored->s->memory == LUO_OK && scored->measured_s > 0) {
        result->weighed++;
        result->refused += scored->s->over;
    }
    if (simulated) add(&p[SIMULATED], scored->s->step_s, scored->measured_s);
    if (scored->s->closed == LUO_OK) add(&p[CLOSED], scored->s->closed_s, scored->measured_s);
    add(&p[NAIVE], scored->naive_s, scored->measured_s);
    if (scored->s->memory == LUO_OK) add(&p[MEMORY], scored->s->memory_bytes, row->mem_bytes);
}

static void add_counted(const luo_validation *validation, const luo_scored *scored, pairs *p,
                        luo_suite_result *result)
{
    const int32_t before = result->missing;
    add_row(validation, scored, p, result);
    if (before == 0 && result->missing > 0) result->first = scored;
}

static void judge(luo_suite_result *result)
{
    const luo_bar *bar = luo_bar_of(result->suite);
    for (int strict = 0; bar && strict < 2; strict++)
        result->broken[strict] =
            result->missing > 0 ||
            (bar->mean[strict] > 0 && 100 * result->all.mean > bar->mean[strict]) ||
            (bar->largest[strict] > 0 && 100 * result->all.largest > bar->largest[strict]) ||
            (bar->spearman[strict] > 0 && result->all.ranked &&
             result->all.spearman < bar->spearman[strict]) ||
            (bar->memory[strict] > 0 && 100 * result->memory.mean > bar->memory[strict]);
}

static luo_status sum_suite(luo_validation *validation, luo_arena *scratch,
                            luo_suite_result *result, luo_err *err)
{
    pairs p[KINDS] = {{0}};
    luo_errors *const to[KINDS] = {&result->all, &result->simulated, &result->closed,
                                   &result->naive, &result->memory};
    LUO_TRY(add_naive(validation, scratch, result->suite, err));
    for (int k = 0; k < KINDS; k++) {
        p[k].predicted = LUO_NEW_N(scratch, double, validation->n);
        p[k].measured = LUO_NEW_N(scratch, double, validation->n);
        if (!p[k].predicted || !p[k].measured) return luo_err_nomem(err);
    }
    for (int32_t i = 0; i < validation->n; i++)
        if (same_part(&validation->at[i], result->suite) &&
            luo_validation_counts(validation, &validation->at[i]))
            add_counted(validation, &validation->at[i], p, result);
    for (int k = 0; k < KINDS; k++)
        LUO_TRY(luo_errors_of(scratch, p[k].predicted, p[k].measured, p[k].n, to[k], err));
    judge(result);
    return LUO_OK;
}

static bool known(const luo_validation *validation, const char *suite)
{
    for (int32_t i = 0; i < validation->nsuites; i++)
        if (strcmp(validation->suites[i].suite, suite) == 0) return true;
    return false;
}

luo_status luo_validation_sum(luo_validation *validation, luo_err *err)
{
    luo_arena *scratch = luo_arena_new(0);
    luo_status st = LUO_OK;
    validation->suites = LUO_NEW_N(validation->cli->arena, luo_suite_result, validation->n);
    validation->nsuites = 0;
    if (!scratch || !validation->suites) {
        luo_arena_free(scratch);
        return luo_err_nomem(err);
    }
    for (int32_t i = 0; i < validation->n; i++) take_row(validation, &validation->at[i]);
    for (int32_t i = 0; i < validation->n && st == LUO_OK; i++) {
        if (!luo_validation_counts(validation, &validation->at[i]) ||
            known(validation, validation->at[i].suite))
            continue;
        luo_suite_result *result = &validation->suites[validation->nsuites++];
        *result = (luo_suite_result){.suite = validation->at[i].suite};
        st = sum_suite(validation, scratch, result, err);
        luo_arena_reset(scratch, 0);
    }
    luo_arena_free(scratch);
    return st;
}

/* ---- the table ---- */

static void print_mean(FILE *out, const luo_errors *errors)
{
    if (errors->n)
        fprintf(out, " %7.1f", 100 * errors->mean);
    else fprintf(out, " %7s", "-");
}

static void print_suite(const luo_validation *validation, FILE *out, const luo_suite_result *result)
{
    const luo_errors *errors = &result->all;
    const luo_bar *bar = luo_bar_of(result->suite);
    fprintf(out, "%-20s %4d", result->suite, (int)errors->n);
    if (errors->n)
        fprintf(out, " %6.1f %6.1f %6.1f %6.1f %+6.1f", 100 * errors->mean, 100 * errors->median,
                100 * errors->p90, 100 * errors->largest, 100 * errors->bias);
    else fprintf(out, " %6s %6s %6s %6s %6s", "-", "-", "-", "-", "-");
    if (errors->ranked)
        fprintf(out, " %6.2f", errors->spearman);
    else fprintf(out, " %6s", "-");
    print_mean(out, &result->closed);
    print_mean(out, &result->naive);
    if (result->ranges)
        fprintf(out, " %5.0f%%", 100.0 * result->inside / result->ranges);
    else if (validation->rows == LUO_ROWS_LEFT)
        fprintf(out, " %6s", "-");
    if (bar && bar->mean[validation->strict] > 0)
        fprintf(out, " %5.1f%s", bar->mean[validation->strict],
                result->broken[validation->strict] ? "!" : " ");
    else fprintf(out, " %5s ", "-");
    fprintf(out, " %s\n", bar ? bar->others : "-");
}

static bool is_outside(const luo_validation *validation, const luo_scored *scored,
                       const char *suite)
{
    return not_said(validation, scored) && same_part(scored, suite) &&
           luo_validation_counts(validation, scored);
}

/* Without the name of the row before it. */
static const char *reason_of(const luo_scored *scored)
{
    const char *id = scored->c->row->id,
               *why = scored->c->cluster ? scored->s->why : scored->c->assumed;
    const size_t n = strlen(id);
    return strncmp(why, id, n) == 0 && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;
}

static bool same_reason(const luo_scored *a, const luo_scored *b)
{
    return strcmp(reason_of(a), reason_of(b)) == 0;
}

/* Rows that are not scored: how many, why, and which, reason by reason. */
static void print_outside(const luo_validation *validation, FILE *out, const char *suite)
{
    for (int32_t i = 0; i < validation->n; i++) {
        bool told = false;
        int32_t n = 0;
        if (!is_outside(validation, &validation->at[i], suite)) continue;
        for (int32_t k = 0; k < validation->n; k++) {
            if (!is_outside(validation, &validation->at[k], suite) ||
                !same_reason(&validation->at[k], &validation->at[i]))
                continue;
            n++;
            told |= k < i;
        }
        if (told) continue;
        fprintf(out, "%s: %d rows are not scored: %s\n ", suite, (int)n,
                reason_of(&validation->at[i]));
        for (int32_t k = i; k < validation->n; k++)
            if (is_outside(validation, &validation->at[k], suite) &&
                same_reason(&validation->at[k], &validation->at[i]))
                fprintf(out, " %s", validation->at[k].c->row->id);
        fputc('\n', out);
    }
}

static void print_missing(FILE *out, const luo_suite_result *result)
{
    if (result->by_closed && strcmp(result->suite, "collectives") != 0)
        fprintf(out, "%s: %d of %d rows have no program and are scored by the closed form.\n",
                result->suite, (int)result->by_closed, (int)result->all.n);
    if (result->missing)
        fprintf(out, "%s: %d rows cannot be predicted; the first is %s: %s\n", result->suite,
                (int)result->missing, result->first->c->row->id, reason_of(result->first));
    if (result->memory.n)
        fprintf(out,
                "%s: memory of %d rows: mean |error| %.1f %%, largest %.1f %%, bias %+.1f %%\n",
                result->suite, (int)result->memory.n, 100 * result->memory.mean,
                100 * result->memory.largest, 100 * result->memory.bias);
    if (result->refused)
        fprintf(out, "%s: %d of %d rows that ran are said not to fit.\n", result->suite,
                (int)result->refused, (int)result->weighed);
    if (result->oom)
        fprintf(out, "%s: %d of %d rows that ran out of memory are said to.\n", result->suite,
                (int)result->oom_told, (int)result->oom);
}

static bool has_both(const luo_validation *validation, const luo_scored *scored)
{
    return luo_validation_counts(validation, scored) && scored->predicted_s > 0 &&
           scored->measured_s > 0;
}

/* Two ways to train one network on as many GPUs. */
static bool is_choice(const luo_scored *a, const luo_scored *b)
{
    const luo_suite_row *row = a->c->row, *suite_row = b->c->row;
    return row->layers > 0 && strcmp(row->suite, suite_row->suite) == 0 &&
           strcmp(row->model, suite_row->model) == 0 && strcmp(row->gpu, suite_row->gpu) == 0 &&
           row->gpus == suite_row->gpus && row->gbs == suite_row->gbs && row->seq == suite_row->seq;
}

/* Do their times differ by over 2 %? */
static bool is_apart(const luo_scored *a, const luo_scored *b)
{
    return fabs(log(a->measured_s / b->measured_s)) > 0.02;
}

/* How much longer the way that is predicted to be the fastest takes than the fastest one, among the
 * ways of row `first`; a negative number: an earlier row has them already, or it has no other.
 */
static double regret_of(const luo_validation *validation, int32_t first)
{
    const luo_scored *one = &validation->at[first], *chosen = one, *best = one;
    bool several = false;
    for (int32_t k = 0; k < validation->n; k++) {
        const luo_scored *other = &validation->at[k];
        if (k == first || !has_both(validation, other) || !is_choice(one, other)) continue;
        if (k < first) return -1;
        several = true;
        if (other->predicted_s < chosen->predicted_s) chosen = other;
        if (other->measured_s < best->measured_s) best = other;
    }
    return several ? chosen->measured_s / best->measured_s - 1 : -1;
}

/* What a planner needs: which of two plans is the faster one. Over a whole file, since its parts
 * may be the two ways (3D against ZeRO-3). */
static void print_choices(const luo_validation *validation, FILE *out, const char *suite)
{
    int32_t n = 0, right = 0, choices = 0;
    double regret = 0;
    for (int32_t i = 0; i < validation->n; i++) {
        const luo_scored *scored = &validation->at[i];
        if (strcmp(scored->c->row->suite, suite) != 0 || !has_both(validation, scored)) continue;
        const double lost = regret_of(validation, i);
        choices += lost >= 0;
        regret += fmax(0, lost);
        for (int32_t k = i + 1; k < validation->n; k++) {
            const luo_scored *b = &validation->at[k];
            if (!has_both(validation, b) || !is_choice(scored, b) || !is_apart(scored, b)) continue;
            n++;
            right += (scored->predicted_s < b->predicted_s) == (scored->measured_s < b->measured_s);
        }
    }
    if (n)
        fprintf(out, "%s: of %d pairs of plans for one network on as many GPUs, %d are in the "
                "measured order; the first choice takes %.1f %% longer than the best (mean of %d "
                "choices)\n", suite, (int)n, (int)right, 100 * regret / choices, (int)choices);
}

/* Of each file once. */
static void print_all_choices(const luo_validation *validation, FILE *out)
{
    for (int32_t i = 0; i < validation->n; i++) {
        const char *suite = validation->at[i].c->row->suite;
        bool seen = false;
        for (int32_t k = 0; k < i && !seen; k++)
            seen = strcmp(validation->at[k].c->row->suite, suite) == 0;
        if (!seen) print_choices(validation, out, suite);
    }
}

/* Times of collectives reach over many powers of ten: their errors are factors. NULL: all files. */
static void print_factors(const luo_validation *validation, FILE *out, const char *file)
{
    double sum = 0, worst = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < validation->n; i++) {
        const luo_scored *scored = &validation->at[i];
        if (!same_part(scored, "collectives") || !luo_validation_counts(validation, scored))
            continue;
        if (!(scored->predicted_s > 0) || !(scored->measured_s > 0)) continue;
        if (file && strcmp(scored->c->row->source, file) != 0) continue;
        const double e = fabs(log(scored->predicted_s / scored->measured_s));
        sum += e;
        worst = fmax(worst, e);
        n++;
    }
    if (n)
        fprintf(out, "collectives, %s: %d rows, geometric mean of the errors %.1f %%, the largest "
                "%.2f times\n", file ? file : "all", (int)n, 100 * (exp(sum / n) - 1), exp(worst));
}

static void print_collectives(const luo_validation *validation, FILE *out)
{
    const char *before = NULL; /* rows of a file follow each other */
    for (int32_t i = 0; i < validation->n; i++) {
        const luo_scored *scored = &validation->at[i];
        if (!same_part(scored, "collectives")) continue;
        if (!before) print_factors(validation, out, NULL);
        if (!before || strcmp(before, scored->c->row->source) != 0)
            print_factors(validation, out, scored->c->row->source);
        before = scored->c->row->source;
    }
}

static double off(const luo_scored *scored)
{
    return scored->predicted_s > 0 && scored->measured_s > 0
               ? fabs(scored->predicted_s / scored->measured_s - 1)
               : -1;
}

static void print_row(const luo_validation *validation, FILE *out, const luo_scored *scored)
{
    const luo_parts *parts = &scored->s->parts;
    const luo_step_cost *cost = &scored->s->cost;
    fprintf(out, "  %-22s measured %.4g s, predicted %.4g s (%+.1f %%)", scored->c->row->id,
            scored->measured_s, scored->predicted_s,
            100 * (scored->predicted_s / scored->measured_s - 1));
    if (scored->c->row->layers == 0) /* a collective by itself */
        fputc('\n', out);
    else if (!validation->closed_only && scored->s->simulated == LUO_OK)
        fprintf(out, ": compute %.4g, recompute %.4g, tp %.4g, pp %.4g, dp %.4g, bubble %.4g\n",
                parts->compute_s, parts->recompute_s, parts->tp_s, parts->pp_s, parts->dp_s,
                parts->bubble_s);
    else
        fprintf(out,
                ": pipeline %.4g (busiest stage %.4g), dp %.4g, tied %.4g, optimizer %.4g, "
                "scale x %.3f\n",
                cost->pipeline, cost->ideal, cost->dp, cost->tied, cost->optimizer, cost->jitter);
}

/* The n rows that are furthest off, the worst first. */
static void print_worst(const luo_validation *validation, FILE *out, const char *suite, int n)
{
    double below = INFINITY;
    fprintf(out, "%s, furthest off:\n", suite);
    for (int k = 0; k < n; k++) {
        const luo_scored *worst = NULL;
        for (int32_t i = 0; i < validation->n; i++) {
            const luo_scored *scored = &validation->at[i];
            if (!same_part(scored, suite) || !luo_validation_counts(validation, scored)) continue;
            if (off(scored) >= 0 && off(scored) < below && (!worst || off(scored) > off(worst)))
                worst = scored;
        }
        if (!worst) return;
        print_row(validation, out, worst);
        below = off(worst);
    }
}

void luo_validation_print(const luo_validation *validation)
{
    static const char *const what[] = {
        "validation rows",
        "calibration rows: how well the constants fit what they were fitted on, no accuracy",
        "cross: folds of the calibration rows, by constants fitted on the others; no validation",
        ("left out: rows of each source by constants that were fitted on all others; `range`: "
         "share of rows inside the range that 80 % should be in")};
    FILE *out = luo_cli_out(validation->cli);
    fprintf(out, "%s; by %s; |error| in %%\n", what[validation->rows],
            validation->closed_only ? "the closed form" : "the simulator");
    fprintf(out, "%-20s %4s %6s %6s %6s %6s %6s %6s %7s %7s%s %5s  %s\n", "suite", "n", "mean",
            "median", "p90", "max", "bias", "rank", "closed", "naive",
            validation->rows == LUO_ROWS_LEFT ? "  range" : "", "bar", "others");
    for (int32_t i = 0; i < validation->nsuites; i++)
        print_suite(validation, out, &validation->suites[i]);
    fputc('\n', out);
    for (int32_t i = 0; i < validation->nsuites; i++) {
        print_outside(validation, out, validation->suites[i].suite);
        print_missing(out, &validation->suites[i]);
        for (int k = 0; k < LUO_SENSES; k++)
            luo_sensitivity_print(out, validation->suites[i].suite,
                                  &validation->suites[i].sense[k]);
    }
    print_all_choices(validation, out);
    print_collectives(validation, out);
    for (int32_t i = 0; i < validation->nsuites; i++)
        if (validation->suites[i].all.n)
            print_worst(validation, out, validation->suites[i].suite, 5);
    fprintf(out, "%d rows in %.1f s\n", (int)validation->n, validation->elapsed_s);
}

void luo_validation_json(const luo_validation *validation)
{
    luo_jsonw *json = &validation->cli->json;
    luo_jsonw_open(json, "suites", '[');
    for (int32_t i = 0; i < validation->nsuites; i++) {
        const luo_suite_result *result = &validation->suites[i];
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "suite", result->suite);
        luo_jsonw_num(json, "rows", result->all.n, 9);
        luo_jsonw_num(json, "mean_ratio", result->all.mean, 9);
        luo_jsonw_num(json, "median_ratio", result->all.median, 9);
        luo_jsonw_num(json, "p90_ratio", result->all.p90, 9);
        luo_jsonw_num(json, "max_ratio", result->all.largest, 9);
        luo_jsonw_num(json, "bias_ratio", result->all.bias, 9);
        if (result->all.ranked) luo_jsonw_num(json, "spearman", result->all.spearman, 9);
        luo_jsonw_num(json, "closed_mean_ratio", result->closed.mean, 9);
        luo_jsonw_num(json, "naive_mean_ratio", result->naive.mean, 9);
        luo_jsonw_num(json, "scored_by_closed_form", result->by_closed, 9);
        luo_jsonw_num(json, "out_of_scope", result->outside, 9);
        luo_jsonw_num(json, "not_predicted", result->missing, 9);
        if (result->memory.n) luo_jsonw_num(json, "memory_mean_ratio", result->memory.mean, 9);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}
