#include "core/sync/embed/gmp.h"

#include <math.h>
#include <string.h>

#include "core/sync/draws.h"

#define TIE 1e-12

static const char *const start_names[] = {LUO_GMP_START_LIST(LUO_WORD_TEXT)};

const char *luo_gmp_start_name(luo_gmp_start start)
{
    return start_names[start];
}

double luo_gmp_soft(double m, double b, double k)
{
    return (1 - pow(1 - fmin(k, m) / m, b)) * m / b;
}

double *luo_gmp_costs(luo_arena *arena, int32_t parts, int32_t per_node, double near, double far)
{
    double *cm = LUO_NEW_N(arena, double, (size_t)parts *(size_t)parts);
    for (int32_t i = 0; cm && i < parts; i++)
        for (int32_t j = 0; j < parts; j++)
            cm[(size_t)i * (size_t)parts + (size_t)j] = i == j                         ? 0
                                                        : i / per_node == j / per_node ? near
                                                                                       : far;
    return cm;
}

/* ---- start ---- */

static luo_status check_opts(const luo_bigraph *graph, const luo_gmp_opts *opts, luo_err *err)
{
    if (opts->parts < 1 || opts->parts > LUO_GMP_PARTS || !(opts->batch >= 1) || opts->rounds < 0 ||
        !opts->cm || opts->start >= LUO_GMP_STARTS)
        return luo_err_set(err, LUO_EBUG, "%d parts, batches of %g and %d rounds are asked for.",
                           opts->parts, opts->batch, opts->rounds);
    if (graph->samples < 1)
        return luo_err_set(err, LUO_EINPUT, "there is no sample; one or more are expected.");
    if (opts->parts > graph->samples)
        return luo_err_set(err, LUO_EINPUT,
                           "%d parts for %d sample%s; at most one part per sample.", opts->parts,
                           graph->samples, graph->samples == 1 ? "" : "s");
    return LUO_OK;
}

static luo_status check_graph(luo_arena *arena, const luo_bigraph *graph, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    int32_t *last = LUO_NEW_N(arena, int32_t, graph->embeds); /* 1 + the last sample that uses it */
    luo_status st = last ? LUO_OK : luo_err_nomem(err);
    for (int32_t i = 0; st == LUO_OK && i < graph->samples; i++)
        for (int64_t k = graph->first[i]; st == LUO_OK && k < graph->first[i + 1]; k++) {
            const int32_t e = graph->embed[k];
            if (e < 0 || e >= graph->embeds)
                st = luo_err_set(err, LUO_EINPUT,
                                 "sample %d uses embedding %d; embeddings are 0 to %d.", i, e,
                                 graph->embeds - 1);
            else if (last[e] == i + 1)
                st = luo_err_set(err, LUO_EINPUT,
                                 "sample %d uses embedding %d twice; once is expected.", i, e);
            else
                last[e] = i + 1;
        }
    luo_arena_reset(arena, mark);
    return st;
}

static luo_status take_memory(luo_arena *arena, luo_gmp *gmp, luo_err *err)
{
    const size_t parts = (size_t)gmp->opts.parts, embeds = (size_t)gmp->graph->embeds;
    gmp->nsoft = (int64_t)floor((double)gmp->graph->samples / gmp->opts.parts) + 2;
    gmp->sample_part = LUO_NEW_N(arena, int32_t, gmp->graph->samples);
    gmp->embed_home = LUO_NEW_N(arena, int32_t, embeds);
    gmp->count = luo_arena_calloc(arena, embeds, parts * sizeof(int32_t));
    gmp->degree = LUO_NEW_N(arena, int32_t, embeds);
    gmp->samples_of = LUO_NEW_N(arena, int64_t, parts);
    gmp->embeds_of = LUO_NEW_N(arena, int64_t, parts);
    gmp->load = LUO_NEW_N(arena, double, parts);
    gmp->score = LUO_NEW_N(arena, double, parts);
    gmp->to_home = LUO_NEW_N(arena, double, parts *parts);
    gmp->soft = LUO_NEW_N(arena, double, gmp->nsoft);
    gmp->soft_step = LUO_NEW_N(arena, double, gmp->nsoft);
    const bool all = gmp->sample_part && gmp->embed_home && gmp->count && gmp->degree &&
                     gmp->samples_of && gmp->embeds_of && gmp->load && gmp->score && gmp->to_home &&
                     gmp->soft && gmp->soft_step;
    return all ? LUO_OK : luo_err_nomem(err);
}

static void soften(luo_gmp *gmp)
{
    const double m = (double)gmp->graph->samples / gmp->opts.parts;
    for (int64_t k = 0; k < gmp->nsoft; k++)
        gmp->soft[k] = luo_gmp_soft(m, gmp->opts.batch, (double)k);
    for (int64_t k = 0; k + 1 < gmp->nsoft; k++)
        gmp->soft_step[k] = gmp->soft[k + 1] - gmp->soft[k];
}

/* From nsoft - 1 on, which is above M, it is what it is there. */
static double soft_of(const luo_gmp *gmp, int64_t k)
{
    return gmp->soft[k < gmp->nsoft ? k : gmp->nsoft - 1];
}

static int32_t drawn(const luo_gmp_opts *opts, uint64_t what, int32_t i)
{
    return (int32_t)(luo_draw_u(opts->seed, what, (uint64_t)i) * opts->parts);
}

static void put_all(luo_gmp *gmp)
{
    const luo_gmp_opts *opts = &gmp->opts;
    for (int32_t i = 0; i < gmp->graph->samples; i++) {
        const int32_t p = opts->start == LUO_GMP_RANDOM ? drawn(opts, 0, i) : i % opts->parts;
        gmp->sample_part[i] = p;
        gmp->samples_of[p]++;
        for (int64_t k = gmp->graph->first[i]; k < gmp->graph->first[i + 1]; k++) {
            const size_t e = (size_t)gmp->graph->embed[k];
            gmp->count[e * (size_t)opts->parts + (size_t)p]++;
            gmp->degree[e]++;
        }
    }
    for (int32_t e = 0; e < gmp->graph->embeds; e++) {
        const int32_t p = opts->start == LUO_GMP_MODULO ? e % opts->parts : drawn(opts, 1, e);
        gmp->embed_home[e] = p;
        gmp->embeds_of[p]++;
    }
}

luo_status luo_gmp_make(luo_arena *arena, const luo_bigraph *graph, const luo_gmp_opts *opts,
                        luo_gmp *out, luo_err *err)
{
    luo_gmp gmp = {.graph = graph, .opts = *opts};
    LUO_TRY(check_opts(graph, opts, err));
    LUO_TRY(check_graph(arena, graph, err));
    LUO_TRY(take_memory(arena, &gmp, err));
    soften(&gmp);
    for (size_t p = 0, n = (size_t)opts->parts; p < n; p++)
        for (size_t q = 0; q < n; q++) gmp.to_home[q * n + p] = opts->cm[p * n + q];
    put_all(&gmp);
    *out = gmp;
    return LUO_OK;
}

/* ---- passes ---- */

static int32_t *counts_of(const luo_gmp *gmp, int32_t e)
{
    return gmp->count + (size_t)e * (size_t)gmp->opts.parts;
}

static int32_t best_part(const double *score, int32_t parts)
{
    int32_t best = 0;
    for (int32_t p = 1; p < parts; p++)
        if (score[p] > score[best] + TIE) best = p;
    return best;
}

/* The sample leaves its part, and what each part would pay for embedding e comes off its score. */
static void charge(luo_gmp *gmp, int32_t e, int32_t own)
{
    int32_t *count = counts_of(gmp, e);
    const double *to_home = gmp->to_home + (size_t)gmp->embed_home[e] * (size_t)gmp->opts.parts;
    const int64_t last = gmp->nsoft - 1; /* from there on a step is 0 */
    count[own]--;
    for (int32_t j = 0; j < gmp->opts.parts; j++)
        gmp->score[j] -= gmp->soft_step[count[j] < last ? count[j] : last] * to_home[j];
}

static bool move_sample(luo_gmp *gmp, int32_t i, double alpha)
{
    const int32_t own = gmp->sample_part[i];
    const int64_t from = gmp->graph->first[i], end = gmp->graph->first[i + 1];
    gmp->samples_of[own]--;
    for (int32_t j = 0; j < gmp->opts.parts; j++)
        gmp->score[j] = alpha * (double)gmp->samples_of[j];
    for (int64_t k = from; k < end; k++) charge(gmp, gmp->graph->embed[k], own);
    const int32_t best = best_part(gmp->score, gmp->opts.parts);
    for (int64_t k = from; k < end; k++) counts_of(gmp, gmp->graph->embed[k])[best]++;
    gmp->samples_of[best]++;
    gmp->sample_part[i] = best;
    return best != own;
}

int64_t luo_gmp_refine_samples(luo_gmp *gmp)
{
    const double alpha = -gmp->opts.balance * gmp->opts.parts / (double)gmp->graph->samples;
    int64_t moved = 0;
    for (int32_t i = 0; i < gmp->graph->samples; i++) moved += move_sample(gmp, i, alpha);
    return moved;
}

/* What e, kept by part `home`, adds to the load there. */
static double load_of(const luo_gmp *gmp, int32_t e, int32_t home)
{
    const int32_t *count = counts_of(gmp, e);
    double sum = 0;
    for (int32_t p = 0; p < gmp->opts.parts; p++)
        if (p != home && count[p]) sum += soft_of(gmp, count[p]);
    return gmp->opts.batch * gmp->opts.parts / (double)gmp->graph->samples * sum;
}

static void add_loads(luo_gmp *gmp)
{
    memset(gmp->load, 0, (size_t)gmp->opts.parts * sizeof *gmp->load);
    for (int32_t e = 0; e < gmp->graph->embeds; e++)
        gmp->load[gmp->embed_home[e]] += load_of(gmp, e, gmp->embed_home[e]);
}

static bool move_embedding(luo_gmp *gmp, int32_t e, double beta)
{
    const int32_t parts = gmp->opts.parts, own = gmp->embed_home[e];
    const int32_t *count = counts_of(gmp, e);
    const double weight = gmp->opts.load_weight * soft_of(gmp, gmp->degree[e]);
    gmp->embeds_of[own]--;
    for (int32_t k = 0; k < parts; k++)
        gmp->score[k] = beta * (double)gmp->embeds_of[k] - weight * gmp->load[k];
    for (int32_t j = 0; j < parts; j++) {
        const double *cm = gmp->opts.cm + (size_t)j * (size_t)parts;
        const double reads = soft_of(gmp, count[j]);
        for (int32_t k = 0; k < parts && count[j]; k++) gmp->score[k] -= cm[k] * reads;
    }
    const int32_t best = best_part(gmp->score, parts);
    gmp->embeds_of[best]++;
    if (best == own) return false;
    gmp->load[own] -= load_of(gmp, e, own);
    gmp->load[best] += load_of(gmp, e, best);
    gmp->embed_home[e] = best;
    return true;
}

int64_t luo_gmp_refine_embeddings(luo_gmp *gmp)
{
    const double beta = -gmp->opts.balance * gmp->opts.parts / (double)gmp->graph->embeds;
    int64_t moved = 0;
    add_loads(gmp);
    for (int32_t e = 0; e < gmp->graph->embeds; e++) moved += move_embedding(gmp, e, beta);
    return moved;
}

int32_t luo_gmp_refine(luo_gmp *gmp)
{
    for (int32_t round = 0; round < gmp->opts.rounds; round++) {
        const int64_t samples = luo_gmp_refine_samples(gmp);
        if (samples + luo_gmp_refine_embeddings(gmp) == 0) return round + 1;
    }
    return gmp->opts.rounds;
}

/* ---- what it is worth ---- */

double luo_gmp_cost(const luo_gmp *gmp)
{
    double sum = 0;
    for (int32_t e = 0; e < gmp->graph->embeds; e++) {
        const double *to_home = gmp->to_home + (size_t)gmp->embed_home[e] * (size_t)gmp->opts.parts;
        for (int32_t p = 0; p < gmp->opts.parts; p++)
            sum += to_home[p] * soft_of(gmp, counts_of(gmp, e)[p]);
    }
    return sum;
}

void luo_gmp_traffic(const luo_gmp *gmp, double *matrix)
{
    const size_t parts = (size_t)gmp->opts.parts;
    const double per_batch = gmp->opts.batch * gmp->opts.parts / (double)gmp->graph->samples;
    memset(matrix, 0, parts * parts * sizeof *matrix);
    for (int32_t e = 0; e < gmp->graph->embeds; e++)
        for (size_t p = 0; p < parts; p++)
            matrix[p * parts + (size_t)gmp->embed_home[e]] += soft_of(gmp, counts_of(gmp, e)[p]);
    for (size_t i = 0; i < parts * parts; i++) matrix[i] *= per_batch;
}

luo_status luo_gmp_partition(const luo_bigraph *graph, const luo_gmp_opts *opts,
                             int32_t *sample_part, int32_t *embed_home, luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    luo_gmp gmp;
    luo_status st = arena ? luo_gmp_make(arena, graph, opts, &gmp, err) : luo_err_nomem(err);
    if (st == LUO_OK) {
        luo_gmp_refine(&gmp);
        memcpy(sample_part, gmp.sample_part, (size_t)graph->samples * sizeof *sample_part);
        memcpy(embed_home, gmp.embed_home, (size_t)graph->embeds * sizeof *embed_home);
    }
    luo_arena_free(arena);
    return st;
}
