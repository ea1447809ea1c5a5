/* bench_partition.c: the partition of samples and embeddings beside partitions by number, at random
 * and by hash, and beside METIS (libmetis-dev, if it was there when this was built), on synthetic
 * click logs. Rows that parts ask each other for, and processor time.
 *
 * METIS gets the graph of samples and embeddings with an edge for each use, samples and embeddings
 * each shared out evenly (3 %, or as much as ours), in several forms; ours has several forms, too.
 * The form with the least cost counts whose largest part has at most MOST of what each would have;
 * METIS's counts once more when our refinement goes on from there. */
#include <math.h>
#include <string.h>

#include "core/sync/embed/clicks.h"
#include "tests/bench/bench.h"
#ifdef LUO_METIS
#include <metis.h>
#endif

enum { PARTS = 8, SAMPLES = 200000, SLOTS = 26, VOCAB = 200000, BATCH = 128, SEED = 1 };

static const double MOST = 1.15;

typedef struct scene {
    const char *name;
    luo_arena *arena;
    luo_clicks clicks;
    luo_bigraph graph;
    luo_gmp_opts opts;
    double random; /* rows that a batch moves in a partition at random */
} scene;

static luo_gmp made(const scene *s, luo_gmp_opts opts, luo_gmp_start start)
{
    luo_gmp gmp;
    opts.start = start;
    if (luo_gmp_make(s->arena, &s->graph, &opts, &gmp, NULL) != LUO_OK) luo_bench_fail("no memory");
    return gmp;
}

static double largest(const int64_t *n) /* of a part, over what each would have */
{
    int64_t most = 0, all = 0;
    for (int p = 0; p < PARTS; p++) {
        all += n[p];
        if (n[p] > most) most = n[p];
    }
    return (double)most * PARTS / (double)all;
}

static bool even_enough(const luo_gmp *gmp)
{
    return largest(gmp->samples_of) <= MOST && largest(gmp->embeds_of) <= MOST;
}

/* A form and whether it is a candidate. */
static bool tell_form(const scene *s, const char *how, int form, const luo_gmp *gmp, double least)
{
    const double cost = luo_gmp_cost(gmp);
    printf("partition_%s_%s_form_%d_cost %.0f 1\n", s->name, how, form, cost);
    printf("partition_%s_%s_form_%d_most_samples %.4f 1\n", s->name, how, form,
           largest(gmp->samples_of));
    return even_enough(gmp) && cost < least;
}

/* Rows pulled and pushed in an iteration of all parts, an epoch long, without replicas. */
static double moved(const luo_gmp *gmp)
{
    luo_gmp_moved m;
    if (luo_gmp_train(gmp, 0, 0, 0, 0, SEED, &m, NULL) != LUO_OK) luo_bench_fail("no memory");
    return (double)(m.pulls + m.pushes) / (double)m.iterations;
}

static void tell(scene *s, const char *how, const luo_gmp *gmp, double seconds)
{
    const double rows = moved(gmp);
    if (strcmp(how, "random") == 0) s->random = rows;
    printf("partition_%s_%s_cost %.0f 1\n", s->name, how, luo_gmp_cost(gmp));
    printf("partition_%s_%s_rows %.1f 1\n", s->name, how, rows);
    printf("partition_%s_%s_less %.4f 1\n", s->name, how, 1 - rows / s->random);
    printf("partition_%s_%s_most_samples %.4f 1\n", s->name, how, largest(gmp->samples_of));
    printf("partition_%s_%s_most_rows %.4f 1\n", s->name, how, largest(gmp->embeds_of));
    if (seconds > 0) printf("partition_%s_%s_time %.3f s\n", s->name, how, seconds);
}

/* Form 0 is as published; others weigh load not at all, balance less, or make more rounds. */
static luo_gmp refined(const scene *s, int form, double *seconds)
{
    luo_gmp_opts opts = s->opts;
    opts.load_weight = form & 1 ? 0 : 0.01;
    opts.balance = form & 2 ? 10 : 100;
    opts.rounds = form & 4 ? 25 : 5;
    luo_gmp gmp = made(s, opts, LUO_GMP_MODULO);
    const double start = luo_bench_cpu();
    luo_gmp_refine(&gmp);
    *seconds = luo_bench_cpu() - start;
    return gmp;
}

/* As published, and in the form with the least cost. */
static luo_gmp ours(scene *s)
{
    double seconds, least = INFINITY;
    int best = 0;
    for (int form = 0; form < 8; form++) {
        const size_t mark = luo_arena_mark(s->arena);
        const luo_gmp gmp = refined(s, form, &seconds);
        if (tell_form(s, "gmp", form, &gmp, least)) {
            least = luo_gmp_cost(&gmp);
            best = form;
        }
        luo_arena_reset(s->arena, mark);
    }
    const luo_gmp other = refined(s, best, &seconds);
    tell(s, "gmp_best", &other, seconds);
    const luo_gmp gmp = refined(s, 0, &seconds);
    tell(s, "gmp", &gmp, seconds);
    return gmp;
}

#ifdef LUO_METIS
/* part[0..samples) of samples, then of embeddings. */
static void place(luo_gmp *gmp, const idx_t *part)
{
    const luo_bigraph *g = gmp->graph;
    memset(gmp->count, 0, (size_t)g->embeds * PARTS * sizeof *gmp->count);
    memset(gmp->samples_of, 0, PARTS * sizeof *gmp->samples_of);
    memset(gmp->embeds_of, 0, PARTS * sizeof *gmp->embeds_of);
    for (int32_t i = 0; i < g->samples; i++) {
        gmp->sample_part[i] = part[i];
        gmp->samples_of[part[i]]++;
        for (int64_t k = g->first[i]; k < g->first[i + 1]; k++)
            gmp->count[(size_t)g->embed[k] * PARTS + (size_t)part[i]]++;
    }
    for (int32_t e = 0; e < g->embeds; e++) {
        gmp->embed_home[e] = part[g->samples + e];
        gmp->embeds_of[gmp->embed_home[e]]++;
    }
}

typedef struct net { /* the graph as METIS has it */
    idx_t vertices, *first, *next, *weight, *edge_weight;
} net;

static void *take(luo_arena *arena, size_t n, size_t size)
{
    void *p = luo_arena_calloc(arena, n, size);
    if (!p) luo_bench_fail("no memory");
    return p;
}

/* What a use of an embedding costs, in thousandths: its batches by its uses if these are spread
 * over all parts; many uses share a batch. */
static idx_t use_costs(const luo_gmp *gmp, int32_t e, bool soft)
{
    const double uses = (double)gmp->degree[e] / PARTS, m = (double)SAMPLES / PARTS;
    const double cost = luo_gmp_soft(m, BATCH, uses) / uses;
    return soft ? (idx_t)(1 + 999 * cost) : 1;
}

static net net_of(const scene *s, const luo_gmp *gmp, bool soft)
{
    const luo_bigraph *g = &s->graph;
    const size_t edges = (size_t)g->first[g->samples];
    net n = {.vertices = g->samples + g->embeds};
    n.first = take(s->arena, (size_t)n.vertices + 1, sizeof(idx_t));
    n.next = take(s->arena, 2 * edges, sizeof(idx_t));
    n.edge_weight = take(s->arena, 2 * edges, sizeof(idx_t));
    n.weight = take(s->arena, 2 * (size_t)n.vertices, sizeof(idx_t));
    for (int32_t i = 0; i < g->samples; i++) n.first[i + 1] = (idx_t)g->first[i + 1];
    for (int32_t e = 0; e < g->embeds; e++)
        n.first[g->samples + e + 1] = n.first[g->samples + e] + gmp->degree[e];
    idx_t *at = take(s->arena, (size_t)g->embeds, sizeof(idx_t));
    for (int32_t e = 0; e < g->embeds; e++) at[e] = n.first[g->samples + e];
    for (int32_t i = 0; i < n.vertices; i++) n.weight[2 * i + (i >= g->samples)] = 1;
    for (int32_t i = 0; i < g->samples; i++)
        for (int64_t k = g->first[i]; k < g->first[i + 1]; k++) {
            const int32_t e = g->embed[k];
            n.next[k] = g->samples + e;
            n.next[at[e]] = i;
            n.edge_weight[k] = n.edge_weight[at[e]++] = use_costs(gmp, e, soft);
        }
    return n;
}

/* Uneven: how much larger a part may be than the mean, samples and rows. */
static double cut(const net *n, bool recursive, int seed, const real_t *uneven, idx_t *part)
{
    idx_t options[METIS_NOPTIONS], vertices = n->vertices, constraints = 2, parts = PARTS, value;
    real_t most[2] = {uneven[0], uneven[1]};
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = seed;
    const double start = luo_bench_cpu();
    const int st = (recursive ? METIS_PartGraphRecursive : METIS_PartGraphKway)(
        &vertices, &constraints, n->first, n->next, n->weight, NULL, n->edge_weight, &parts, NULL,
        most, options, &value, part);
    if (st != METIS_OK) luo_bench_fail("METIS says %d", st);
    return luo_bench_cpu() - start;
}

static void metis(scene *s, const luo_gmp *gmp)
{
    const size_t vertices = (size_t)s->graph.samples + (size_t)s->graph.embeds;
    idx_t *part = take(s->arena, vertices, sizeof *part);
    idx_t *best = take(s->arena, vertices, sizeof *best);
    const real_t even[2] = {1.03f, 1.03f};
    const real_t as_ours[2] = {(real_t)fmax(1.03, largest(gmp->samples_of)),
                               (real_t)fmax(1.03, largest(gmp->embeds_of))};
    double least = INFINITY, seconds = 0;
    luo_gmp theirs = made(s, s->opts, LUO_GMP_MODULO);
    for (int form = 0; form < 8; form++) {
        const size_t mark = luo_arena_mark(s->arena);
        const net n = net_of(s, &theirs, form & 1);
        const double t = cut(&n, form & 2, SEED, form & 4 ? as_ours : even, part);
        luo_arena_reset(s->arena, mark);
        place(&theirs, part);
        if (!tell_form(s, "metis", form, &theirs, least)) continue;
        least = luo_gmp_cost(&theirs);
        seconds = t;
        memcpy(best, part, vertices * sizeof *best);
    }
    place(&theirs, best);
    tell(s, "metis", &theirs, seconds);
    luo_gmp_refine(&theirs);
    tell(s, "gmp_after_metis", &theirs, 0);
}
#else
static void metis(scene *s, const luo_gmp *gmp)
{
    (void)gmp;
    printf("# partition_%s: METIS was not here; install libmetis-dev and build again\n", s->name);
}
#endif

static void play(const char *name, int64_t groups, double local)
{
    const luo_clicks_spec spec = {SAMPLES, SLOTS, VOCAB, 1.05, groups, local};
    scene s = {.name = name, .arena = luo_arena_new(0)};
    if (!s.arena || luo_clicks_draw(s.arena, &spec, SEED, &s.clicks, NULL) != LUO_OK ||
        luo_clicks_graph(s.arena, &s.clicks, &s.graph, NULL) != LUO_OK)
        luo_bench_fail("no memory");
    s.opts = (luo_gmp_opts){.parts = PARTS,
                            .rounds = 5,
                            .batch = BATCH,
                            .balance = 100,
                            .load_weight = 0.01,
                            .cm = luo_gmp_costs(s.arena, PARTS, 1, 1, 1),
                            .seed = SEED};
    static const luo_gmp_start starts[] = {LUO_GMP_RANDOM, LUO_GMP_HASH, LUO_GMP_MODULO};
    for (int i = 0; i < 3; i++) {
        const size_t mark = luo_arena_mark(s.arena);
        const luo_gmp gmp = made(&s, s.opts, starts[i]);
        tell(&s, luo_gmp_start_name(starts[i]), &gmp, 0);
        luo_arena_reset(s.arena, mark);
    }
    const luo_gmp gmp = ours(&s);
    metis(&s, &gmp);
    luo_arena_free(s.arena);
}

int main(void)
{
    play("groups", 64, 0.9);
    play("plain", 1, 0);
    return 0;
}
