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

const char *luo_suite_part(const luo_suite_row *r)
{
    if (strcmp(r->suite, "vtrain") == 0)
        return luo_suite_nodes(r) > 1 ? "vtrain-multi" : "vtrain-single";
    if (strcmp(r->suite, "megatron-sc21") == 0 && r->zero == 3) return "megatron-sc21-zero3";
    if (strcmp(r->suite, "foundry") == 0 && strcmp(r->precision, "fp8") == 0) return "foundry-fp8";
    if (strcmp(r->suite, "bloom") == 0 && strstr(r->note, "repeat")) return "bloom-repeats";
    return r->suite;
}

bool luo_validation_counts(const luo_validation *v, const luo_scored *s)
{
    const luo_suite_split want = v->rows == LUO_ROWS_VAL ? LUO_SPLIT_VAL : LUO_SPLIT_CAL;
    return s->c->row->split == want;
}

/* ---- one row ---- */

/* Only FLOP/s are printed, and not by which count: with the whole square of attention or half of
 * it; the nearer to the prediction is taken. */
static double measured_by_rate(const luo_case *c, double predicted)
{
    const luo_suite_row *r = c->row;
    const double tokens = (double)(r->gbs * r->seq), rate = r->tflops_gpu * 1e12 * r->gpus;
    const double square = 12.0 * (double)(r->layers * r->hidden * r->seq);
    const double whole = luo_model_flops_per_token(&c->model, r->seq);
    const double a = tokens * whole / rate, b = tokens * (whole - square / 2) / rate;
    return fabs(log(predicted / a)) < fabs(log(predicted / b)) ? a : b;
}

static void take_row(const luo_validation *v, luo_scored *s)
{
    const luo_score *p = s->s;
    s->predicted_s = 0;
    if (s->c->row->kind == LUO_STEP_OOM) return;
    if (!v->closed_only && p->simulated == LUO_OK) s->predicted_s = p->step_s;
    else if (p->closed == LUO_OK) s->predicted_s = p->closed_s;
    s->measured_s = s->c->measured_s;
    if (s->c->row->kind == LUO_STEP_MFU_ONLY && s->predicted_s > 0)
        s->measured_s = measured_by_rate(s->c, s->predicted_s);
}

/* ---- naive floor: one constant, the median over calibration rows ---- */

static bool same_part(const luo_scored *a, const char *suite)
{
    return strcmp(a->suite, suite) == 0;
}

static luo_status add_naive(luo_validation *v, luo_arena *scratch, const char *suite, luo_err *err)
{
    double *share = LUO_NEW_N(scratch, double, v->n);
    int32_t n = 0;
    if (!share) return luo_err_nomem(err);
    for (int32_t i = 0; i < v->n; i++) {
        const luo_scored *s = &v->at[i];
        const double at_peak = luo_case_naive(s->c);
        if (same_part(s, suite) && s->c->row->split == LUO_SPLIT_CAL && s->measured_s > 0 &&
            at_peak > 0)
            share[n++] = at_peak / s->measured_s;
    }
    const double constant = n ? luo_median(share, n) : 0;
    for (int32_t i = 0; i < v->n; i++)
        if (same_part(&v->at[i], suite) && constant > 0)
            v->at[i].naive_s = luo_case_naive(v->at[i].c) / constant;
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
static bool not_said(const luo_validation *v, const luo_scored *s)
{
    if (s->c->refused != LUO_OK) return s->c->refused == LUO_EUNSUP;
    return v->closed_only && s->s->closed == LUO_EUNSUP;
}

static void add_row(const luo_validation *v, const luo_scored *s, pairs *p, luo_suite_result *r)
{
    const luo_suite_row *row = s->c->row;
    const bool simulated = s->s->simulated == LUO_OK;
    if (not_said(v, s)) {
        r->outside++;
        return;
    }
    if (!s->c->cluster) {
        r->missing++;
        return;
    }
    if (row->kind == LUO_STEP_OOM) {
        r->oom++;
        r->oom_told += s->s->memory == LUO_OK && s->s->over;
        r->missing += s->s->memory != LUO_OK;
        return;
    }
    if (!(s->predicted_s > 0)) r->missing++;
    else if (!v->closed_only && !simulated) r->by_closed++;
    add(&p[ALL], s->predicted_s, s->measured_s);
    if (simulated) add(&p[SIMULATED], s->s->step_s, s->measured_s);
    if (s->s->closed == LUO_OK) add(&p[CLOSED], s->s->closed_s, s->measured_s);
    add(&p[NAIVE], s->naive_s, s->measured_s);
    if (s->s->memory == LUO_OK) add(&p[MEMORY], s->s->memory_bytes, row->mem_bytes);
}

static void add_counted(const luo_validation *v, const luo_scored *s, pairs *p, luo_suite_result *r)
{
    const int32_t before = r->missing;
    add_row(v, s, p, r);
    if (before == 0 && r->missing > 0) r->first = s;
}

static void judge(luo_suite_result *r)
{
    const luo_bar *b = luo_bar_of(r->suite);
    for (int strict = 0; b && strict < 2; strict++)
        r->broken[strict] =
            r->missing > 0 || (b->mean[strict] > 0 && 100 * r->all.mean > b->mean[strict]) ||
            (b->largest[strict] > 0 && 100 * r->all.largest > b->largest[strict]) ||
            (b->spearman[strict] > 0 && r->all.ranked && r->all.spearman < b->spearman[strict]) ||
            (b->memory[strict] > 0 && 100 * r->memory.mean > b->memory[strict]);
}

static luo_status sum_suite(luo_validation *v, luo_arena *scratch, luo_suite_result *r,
                            luo_err *err)
{
    pairs p[KINDS] = {{0}};
    luo_errors *const to[KINDS] = {&r->all, &r->simulated, &r->closed, &r->naive, &r->memory};
    LUO_TRY(add_naive(v, scratch, r->suite, err));
    for (int k = 0; k < KINDS; k++) {
        p[k].predicted = LUO_NEW_N(scratch, double, v->n);
        p[k].measured = LUO_NEW_N(scratch, double, v->n);
        if (!p[k].predicted || !p[k].measured) return luo_err_nomem(err);
    }
    for (int32_t i = 0; i < v->n; i++)
        if (same_part(&v->at[i], r->suite) && luo_validation_counts(v, &v->at[i]))
            add_counted(v, &v->at[i], p, r);
    for (int k = 0; k < KINDS; k++)
        LUO_TRY(luo_errors_of(scratch, p[k].predicted, p[k].measured, p[k].n, to[k], err));
    judge(r);
    return LUO_OK;
}

static bool known(const luo_validation *v, const char *suite)
{
    for (int32_t i = 0; i < v->nsuites; i++)
        if (strcmp(v->suites[i].suite, suite) == 0) return true;
    return false;
}

luo_status luo_validation_sum(luo_validation *v, luo_err *err)
{
    luo_arena *scratch = luo_arena_new(0);
    luo_status st = LUO_OK;
    v->suites = LUO_NEW_N(v->cli->arena, luo_suite_result, v->n);
    v->nsuites = 0;
    if (!scratch || !v->suites) {
        luo_arena_free(scratch);
        return luo_err_nomem(err);
    }
    for (int32_t i = 0; i < v->n; i++) take_row(v, &v->at[i]);
    for (int32_t i = 0; i < v->n && st == LUO_OK; i++) {
        if (!luo_validation_counts(v, &v->at[i]) || known(v, v->at[i].suite)) continue;
        luo_suite_result *r = &v->suites[v->nsuites++];
        *r = (luo_suite_result){.suite = v->at[i].suite};
        st = sum_suite(v, scratch, r, err);
        luo_arena_reset(scratch, 0);
    }
    luo_arena_free(scratch);
    return st;
}

/* ---- the table ---- */

static void print_mean(FILE *out, const luo_errors *e)
{
    if (e->n) fprintf(out, " %7.1f", 100 * e->mean);
    else fprintf(out, " %7s", "-");
}

static void print_suite(const luo_validation *v, FILE *out, const luo_suite_result *r)
{
    const luo_errors *e = &r->all;
    const luo_bar *b = luo_bar_of(r->suite);
    fprintf(out, "%-20s %4d", r->suite, (int)e->n);
    if (e->n)
        fprintf(out, " %6.1f %6.1f %6.1f %6.1f %+6.1f", 100 * e->mean, 100 * e->median,
                100 * e->p90, 100 * e->largest, 100 * e->bias);
    else fprintf(out, " %6s %6s %6s %6s %6s", "-", "-", "-", "-", "-");
    if (e->ranked) fprintf(out, " %6.2f", e->spearman);
    else fprintf(out, " %6s", "-");
    print_mean(out, &r->closed);
    print_mean(out, &r->naive);
    if (b && b->mean[v->strict] > 0)
        fprintf(out, " %5.1f%s", b->mean[v->strict], r->broken[v->strict] ? "!" : " ");
    else fprintf(out, " %5s ", "-");
    fprintf(out, " %s\n", b ? b->others : "-");
}

static bool is_outside(const luo_validation *v, const luo_scored *s, const char *suite)
{
    return not_said(v, s) && same_part(s, suite) && luo_validation_counts(v, s);
}

/* Without the name of the row before it. */
static const char *reason_of(const luo_scored *s)
{
    const char *id = s->c->row->id, *why = s->c->cluster ? s->s->why : s->c->assumed;
    const size_t n = strlen(id);
    return strncmp(why, id, n) == 0 && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;
}

static bool same_reason(const luo_scored *a, const luo_scored *b)
{
    return strcmp(reason_of(a), reason_of(b)) == 0;
}

/* Rows that are not scored: how many, why, and which, reason by reason. */
static void print_outside(const luo_validation *v, FILE *out, const char *suite)
{
    for (int32_t i = 0; i < v->n; i++) {
        bool told = false;
        int32_t n = 0;
        if (!is_outside(v, &v->at[i], suite)) continue;
        for (int32_t k = 0; k < v->n; k++) {
            if (!is_outside(v, &v->at[k], suite) || !same_reason(&v->at[k], &v->at[i])) continue;
            n++;
            told |= k < i;
        }
        if (told) continue;
        fprintf(out, "%s: %d rows are not scored: %s\n ", suite, (int)n, reason_of(&v->at[i]));
        for (int32_t k = i; k < v->n; k++)
            if (is_outside(v, &v->at[k], suite) && same_reason(&v->at[k], &v->at[i]))
                fprintf(out, " %s", v->at[k].c->row->id);
        fputc('\n', out);
    }
}

static void print_missing(FILE *out, const luo_suite_result *r)
{
    if (r->by_closed && strcmp(r->suite, "collectives") != 0)
        fprintf(out, "%s: %d of %d rows have no program and are scored by the closed form.\n",
                r->suite, (int)r->by_closed, (int)r->all.n);
    if (r->missing)
        fprintf(out, "%s: %d rows cannot be predicted; the first is %s: %s\n", r->suite,
                (int)r->missing, r->first->c->row->id, reason_of(r->first));
    if (r->memory.n)
        fprintf(out,
                "%s: memory of %d rows: mean |error| %.1f %%, largest %.1f %%, bias %+.1f %%\n",
                r->suite, (int)r->memory.n, 100 * r->memory.mean, 100 * r->memory.largest,
                100 * r->memory.bias);
    if (r->oom)
        fprintf(out, "%s: %d of %d rows that ran out of memory are said to.\n", r->suite,
                (int)r->oom_told, (int)r->oom);
}

static bool has_both(const luo_validation *v, const luo_scored *s)
{
    return luo_validation_counts(v, s) && s->predicted_s > 0 && s->measured_s > 0;
}

/* Two ways to train one network on as many GPUs, which took times that differ by over 1 %. */
static bool is_choice(const luo_scored *a, const luo_scored *b)
{
    const luo_suite_row *x = a->c->row, *y = b->c->row;
    return x->layers > 0 && strcmp(x->suite, y->suite) == 0 && strcmp(x->model, y->model) == 0 &&
           strcmp(x->gpu, y->gpu) == 0 && x->gpus == y->gpus && x->gbs == y->gbs &&
           x->seq == y->seq && fabs(log(a->measured_s / b->measured_s)) > 0.01;
}

/* What a planner needs: which of two plans is the faster one. Over a whole file, since its parts
 * may be the two ways (3D against ZeRO-3). */
static void print_choices(const luo_validation *v, FILE *out, const char *suite)
{
    int32_t n = 0, right = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const luo_scored *a = &v->at[i];
        if (strcmp(a->c->row->suite, suite) != 0 || !has_both(v, a)) continue;
        for (int32_t k = i + 1; k < v->n; k++) {
            const luo_scored *b = &v->at[k];
            if (!has_both(v, b) || !is_choice(a, b)) continue;
            n++;
            right += (a->predicted_s < b->predicted_s) == (a->measured_s < b->measured_s);
        }
    }
    if (n)
        fprintf(out, "%s: of %d pairs of plans for one network on as many GPUs, %d are in the "
                "measured order\n", suite, (int)n, (int)right);
}

/* Of each file once. */
static void print_all_choices(const luo_validation *v, FILE *out)
{
    for (int32_t i = 0; i < v->n; i++) {
        const char *suite = v->at[i].c->row->suite;
        bool seen = false;
        for (int32_t k = 0; k < i && !seen; k++) seen = strcmp(v->at[k].c->row->suite, suite) == 0;
        if (!seen) print_choices(v, out, suite);
    }
}

/* Times of collectives reach over many powers of ten: their errors are factors. NULL: all files. */
static void print_factors(const luo_validation *v, FILE *out, const char *file)
{
    double sum = 0, worst = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const luo_scored *s = &v->at[i];
        if (!same_part(s, "collectives") || !luo_validation_counts(v, s)) continue;
        if (!(s->predicted_s > 0) || !(s->measured_s > 0)) continue;
        if (file && strcmp(s->c->row->source, file) != 0) continue;
        const double e = fabs(log(s->predicted_s / s->measured_s));
        sum += e;
        worst = fmax(worst, e);
        n++;
    }
    if (n)
        fprintf(out, "collectives, %s: %d rows, geometric mean of the errors %.1f %%, the largest "
                "%.2f times\n", file ? file : "all", (int)n, 100 * (exp(sum / n) - 1), exp(worst));
}

static void print_collectives(const luo_validation *v, FILE *out)
{
    const char *before = NULL; /* rows of a file follow each other */
    for (int32_t i = 0; i < v->n; i++) {
        const luo_scored *s = &v->at[i];
        if (!same_part(s, "collectives")) continue;
        if (!before) print_factors(v, out, NULL);
        if (!before || strcmp(before, s->c->row->source) != 0)
            print_factors(v, out, s->c->row->source);
        before = s->c->row->source;
    }
}

static double off(const luo_scored *s)
{
    return s->predicted_s > 0 && s->measured_s > 0 ? fabs(s->predicted_s / s->measured_s - 1) : -1;
}

static void print_row(const luo_validation *v, FILE *out, const luo_scored *s)
{
    const luo_parts *p = &s->s->parts;
    const luo_step_cost *c = &s->s->cost;
    fprintf(out, "  %-22s measured %.4g s, predicted %.4g s (%+.1f %%)", s->c->row->id,
            s->measured_s, s->predicted_s, 100 * (s->predicted_s / s->measured_s - 1));
    if (s->c->row->layers == 0) /* a collective by itself */
        fputc('\n', out);
    else if (!v->closed_only && s->s->simulated == LUO_OK)
        fprintf(out, ": compute %.4g, recompute %.4g, tp %.4g, pp %.4g, dp %.4g, bubble %.4g\n",
                p->compute_s, p->recompute_s, p->tp_s, p->pp_s, p->dp_s, p->bubble_s);
    else
        fprintf(out, ": pipeline %.4g (busiest stage %.4g), dp %.4g, tied %.4g, optimizer %.4g, "
                "scale x %.3f\n", c->pipeline, c->ideal, c->dp, c->tied, c->optimizer, c->jitter);
}

/* The n rows that are furthest off, the worst first. */
static void print_worst(const luo_validation *v, FILE *out, const char *suite, int n)
{
    double below = INFINITY;
    fprintf(out, "%s, furthest off:\n", suite);
    for (int k = 0; k < n; k++) {
        const luo_scored *worst = NULL;
        for (int32_t i = 0; i < v->n; i++) {
            const luo_scored *s = &v->at[i];
            if (!same_part(s, suite) || !luo_validation_counts(v, s)) continue;
            if (off(s) >= 0 && off(s) < below && (!worst || off(s) > off(worst))) worst = s;
        }
        if (!worst) return;
        print_row(v, out, worst);
        below = off(worst);
    }
}

void luo_validation_print(const luo_validation *v)
{
    static const char *const what[] = {
        "validation rows",
        "calibration rows: how well the constants fit what they were fitted on, no accuracy",
        "cross: folds of the calibration rows, by constants fitted on the others; no validation"};
    FILE *out = luo_cli_out(v->cli);
    fprintf(out, "%s; by %s; |error| in %%\n", what[v->rows],
            v->closed_only ? "the closed form" : "the simulator");
    fprintf(out, "%-20s %4s %6s %6s %6s %6s %6s %6s %7s %7s %5s  %s\n", "suite", "n", "mean",
            "median", "p90", "max", "bias", "rank", "closed", "naive", "bar", "others");
    for (int32_t i = 0; i < v->nsuites; i++) print_suite(v, out, &v->suites[i]);
    fputc('\n', out);
    for (int32_t i = 0; i < v->nsuites; i++) {
        print_outside(v, out, v->suites[i].suite);
        print_missing(out, &v->suites[i]);
        for (int k = 0; k < LUO_SENSES; k++)
            luo_sensitivity_print(out, v->suites[i].suite, &v->suites[i].sense[k]);
    }
    print_all_choices(v, out);
    print_collectives(v, out);
    for (int32_t i = 0; i < v->nsuites; i++)
        if (v->suites[i].all.n) print_worst(v, out, v->suites[i].suite, 5);
    fprintf(out, "%d rows in %.1f s\n", (int)v->n, v->elapsed_s);
}

void luo_validation_json(const luo_validation *v)
{
    luo_jsonw *j = &v->cli->json;
    luo_jsonw_open(j, "suites", '[');
    for (int32_t i = 0; i < v->nsuites; i++) {
        const luo_suite_result *r = &v->suites[i];
        luo_jsonw_open(j, NULL, '{');
        luo_jsonw_text(j, "suite", r->suite);
        luo_jsonw_num(j, "rows", r->all.n, 9);
        luo_jsonw_num(j, "mean_ratio", r->all.mean, 9);
        luo_jsonw_num(j, "median_ratio", r->all.median, 9);
        luo_jsonw_num(j, "p90_ratio", r->all.p90, 9);
        luo_jsonw_num(j, "max_ratio", r->all.largest, 9);
        luo_jsonw_num(j, "bias_ratio", r->all.bias, 9);
        if (r->all.ranked) luo_jsonw_num(j, "spearman", r->all.spearman, 9);
        luo_jsonw_num(j, "closed_mean_ratio", r->closed.mean, 9);
        luo_jsonw_num(j, "naive_mean_ratio", r->naive.mean, 9);
        luo_jsonw_num(j, "scored_by_closed_form", r->by_closed, 9);
        luo_jsonw_num(j, "out_of_scope", r->outside, 9);
        luo_jsonw_num(j, "not_predicted", r->missing, 9);
        if (r->memory.n) luo_jsonw_num(j, "memory_mean_ratio", r->memory.mean, 9);
        luo_jsonw_close(j);
    }
    luo_jsonw_close(j);
}
