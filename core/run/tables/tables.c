/* tables.c: asking all ways and choosing among them. */
#include "core/run/tables/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/graph/program/memory_rules.h"
#include "core/plan/compile.h"
#include "core/run/tables/step.h"

static const double EQUAL = 1e-9;

const luo_tables_way_desc *luo_tables_way_of(luo_tables_way way)
{
    static const luo_tables_way_desc descs[LUO_TABLES_WAYS] = {
#define LUO_TABLES_WAY(name, tables, dense, text)                                                  \
    {#name, LUO_TABLES_##tables, LUO_TABLES_##dense, text},
#include "core/run/tables/ways.inc"
#undef LUO_TABLES_WAY
    };
    return &descs[way];
}

const char *luo_tables_deal_name(luo_tables_deal deal)
{
    static const char *const names[] = {LUO_TABLES_DEAL_LIST(LUO_WORD_TEXT)};
    return names[deal];
}

const char *luo_tables_part_name(luo_tables_part part)
{
    static const char *const names[] = {LUO_TABLES_PART_LIST(LUO_WORD_TEXT)};
    return names[part];
}

static bool has_servers(luo_tables_way way)
{
    return luo_tables_way_of(way)->tables <= LUO_TABLES_CACHES;
}

typedef struct asking {
    luo_arena *arena;
    const luo_tables_in *in;
    tables_layout layout;
    tables_traffic plain, cached;
    tables_dense hap;
    bool hap_differs; /* from data-parallel */
    luo_tables_deal deal;
    luo_tables_part part;
    luo_tables_answer *out;
    luo_err *err;
} asking;

/* ---- one try ---- */

static double gib(double bytes)
{
    return bytes / 1073741824.0;
}

/* What the fullest device needs of its memory. */
static luo_status weigh(asking *a, const luo_programs *set, double *ratio, luo_err *why)
{
    const luo_cluster *cluster = a->in->judge->cluster;
    luo_memory *memory = LUO_NEW_N(a->arena, luo_memory, set->n);
    int32_t worst = -1;
    if (!memory) return luo_err_nomem(a->err);
    LUO_TRY(luo_plan_memory(a->arena, set, memory, a->err));
    *ratio = 0;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_profile *profile = luo_cluster_profile(cluster, set->at[i].device);
        const double r =
            ((double)memory[i].needed + profile->reserved_bytes) / profile->memory_bytes;
        if (worst >= 0 && r <= *ratio) continue;
        worst = i;
        *ratio = r;
    }
    if (*ratio <= 1) return LUO_OK;
    const luo_profile *profile = luo_cluster_profile(cluster, set->at[worst].device);
    luo_str communicators = {0};
    luo_memory_say_communicators(&memory[worst], &communicators);
    const luo_status st = luo_err_set(
        why, LUO_EOOM,
        "needs %.1f GiB on device %d of %.1f GiB less %.1f GiB reserved (weights %.1f, gradients "
        "%.1f%s)",
        gib((double)memory[worst].needed), (int)set->at[worst].device, gib(profile->memory_bytes),
        gib(profile->reserved_bytes), gib((double)memory[worst].weights),
        gib((double)memory[worst].gradients), luo_str_get(&communicators));
    luo_str_free(&communicators);
    return st;
}

/* Bytes that the ops `name` send, by all devices: of a collective what each of them has. */
static double sent(const luo_programs *set, const char *name)
{
    double bytes = 0;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_role *role = &set->roles[set->at[i].role];
        for (int32_t k = 0; k < role->ninstr; k++)
            if (role->instr[k].slot >= 0 &&
                strncmp(set->ops[role->instr[k].op].name, name, strlen(name)) == 0)
                bytes += (double)role->instr[k].bytes;
    }
    return bytes;
}

static void take(asking *a, luo_tables_way way, const luo_programs *set, const luo_judgement *step)
{
    luo_tables_answer_way *x = &a->out->at[way];
    const double less = a->part == LUO_TABLES_PARALLEL ? 1 : 1 - EQUAL;
    x->dealt_s[a->deal] = fmin(x->dealt_s[a->deal], step->seconds);
    x->part_s[a->part] = fmin(x->part_s[a->part], step->seconds);
    if (!(step->seconds < x->step.seconds * less)) return;
    const luo_tables_answer_way before = *x;
    const double pulled = sent(set, "rows.keys") + sent(set, "rows.pull");
    *x = (luo_tables_answer_way){.step = *step,
                                 .servers = has_servers(way) ? a->layout.servers : 0,
                                 .deal = a->deal,
                                 .part = a->part,
                                 .tried = before.tried,
                                 .pull_bytes = pulled,
                                 .push_bytes = sent(set, "rows.") - pulled,
                                 .program = set->hash};
    memcpy(x->dealt_s, before.dealt_s, sizeof x->dealt_s);
    memcpy(x->part_s, before.part_s, sizeof x->part_s);
}

static luo_status try_part(asking *a, luo_tables_way way, const tables_traffic *traffic)
{
    const tables_dense *dense = a->part == LUO_TABLES_BY_HAP ? &a->hap : NULL;
    luo_tables_answer_way *x = &a->out->at[way];
    const size_t mark = luo_arena_mark(a->arena);
    luo_programs *set;
    luo_judgement step = {0};
    luo_err why = {0};
    x->tried++;
    LUO_TRY(tables_step(a->arena, &a->layout, way, dense, traffic, &set, a->err));
    luo_status st = weigh(a, set, &step.memory_ratio, &why);
    if (st == LUO_EOOM) {
        if (isinf(x->step.seconds)) snprintf(x->why, sizeof x->why, "%s", why.text);
        luo_arena_reset(a->arena, mark);
        return LUO_OK;
    }
    if (st == LUO_OK) st = luo_program_check(a->arena, set, a->err);
    if (st == LUO_OK)
        st = luo_judge_simulate(a->arena, a->in->judge, set, a->layout.model->dtype, a->in->rate,
                                &step, a->err);
    if (st == LUO_OK) take(a, way, set, &step);
    luo_arena_reset(a->arena, mark);
    return st;
}

static luo_status try_way(asking *a, luo_tables_way way, const tables_traffic *traffic)
{
    const bool cut = a->hap_differs && luo_tables_way_of(way)->dense == LUO_TABLES_ALL_REDUCE;
    a->part = LUO_TABLES_PARALLEL;
    LUO_TRY(try_part(a, way, traffic));
    if (!cut) return LUO_OK;
    a->part = LUO_TABLES_BY_HAP;
    return try_part(a, way, traffic);
}

/* ---- servers ---- */

static luo_status try_served(asking *a, int32_t servers)
{
    const size_t mark = luo_arena_mark(a->arena);
    LUO_TRY(tables_layout_serve(a->arena, &a->layout, servers, a->err));
    for (luo_tables_way way = 0; way < LUO_TABLES_WAYS; way++) {
        const bool cached = luo_tables_way_of(way)->tables == LUO_TABLES_CACHES;
        if (!has_servers(way) || (cached && a->in->cache.rows == 0)) continue;
        LUO_TRY(try_way(a, way, cached ? &a->cached : &a->plain));
    }
    a->layout.servers = 0;
    luo_arena_reset(a->arena, mark);
    return LUO_OK;
}

/* Nodes with a device that works. */
static int32_t nodes_of(const asking *a)
{
    const tables_layout *layout = &a->layout;
    const luo_device *devices = a->in->judge->cluster->devices;
    int32_t n = 0;
    for (int32_t w = 0; w < layout->n; w++)
        n += w == 0 || devices[layout->dev[w]].node != devices[layout->dev[w - 1]].node;
    return n;
}

static luo_status try_servers(asking *a)
{
    const int32_t n = a->layout.n, nodes = nodes_of(a);
    const int32_t may = LUO_TABLES_MESSAGES / n, most = may < n ? may : n;
    if (a->in->servers) return try_served(a, a->in->servers);
    if (nodes < most) LUO_TRY(try_served(a, nodes));
    return try_served(a, most);
}

/* ---- all ---- */

static bool is_mixed(const tables_layout *layout)
{
    const luo_tables_in *in = layout->in;
    const luo_cluster *cluster = in->judge->cluster;
    for (int32_t w = 1; w < layout->n; w++)
        if (cluster->devices[layout->dev[w]].kind != cluster->devices[layout->dev[0]].kind ||
            fmax(1, in->rate[layout->dev[w]]) != fmax(1, in->rate[layout->dev[0]]))
            return true;
    return false;
}

/* Shares that are equal ones, or nearly: the host of a device that has little to do decides its
 * speed, and hosts are alike. */
static bool is_even(const tables_layout *layout)
{
    int64_t least = layout->samples[0], most = least;
    for (int32_t w = 1; w < layout->n; w++) {
        if (layout->samples[w] < least) least = layout->samples[w];
        if (layout->samples[w] > most) most = layout->samples[w];
    }
    return most - least <= 1 || (double)(most - least) < 0.02 * (double)most;
}

/* last: the samples of the deal before; those of this one. */
static luo_status try_all(asking *a, luo_tables_deal deal, int64_t *last)
{
    const size_t mark = luo_arena_mark(a->arena);
    const tables_layout *layout = &a->layout;
    const size_t bytes = (size_t)layout->n * sizeof *last;
    a->deal = deal;
    LUO_TRY(tables_layout_deal(a->arena, &a->layout, deal, a->err));
    if (deal != LUO_TABLES_EQUAL && (is_even(layout) || memcmp(last, layout->samples, bytes) == 0))
        return LUO_OK;
    memcpy(last, layout->samples, bytes);
    if (a->in->cache.rows > 0 && !a->cached.iterations)
        LUO_TRY(tables_traffic_cached(&a->layout, &a->cached, a->err));
    LUO_TRY(try_servers(a));
    for (luo_tables_way way = 0; way < LUO_TABLES_WAYS; way++)
        if (!has_servers(way)) LUO_TRY(try_way(a, way, &a->plain));
    luo_arena_reset(a->arena, mark);
    return LUO_OK;
}

static luo_status choose(asking *a)
{
    luo_tables_answer *out = a->out;
    const char *lacks = "";
    out->best = -1;
    for (int32_t k = 0; k < LUO_TABLES_WAYS; k++) {
        const double s = out->at[k].step.seconds;
        if (isinf(s) && out->at[k].tried) lacks = out->at[k].why;
        if (isinf(s)) continue;
        if (out->best < 0 || s < out->at[out->best].step.seconds * (1 - EQUAL)) out->best = k;
    }
    if (out->best < 0)
        return luo_err_set(a->err, LUO_EINFEASIBLE, "no way fits; the last of them %s.", lacks);
    return LUO_OK;
}

static luo_status tell_winner(asking *a)
{
    tables_layout *layout = &a->layout;
    luo_tables_answer *out = a->out;
    LUO_TRY(tables_layout_deal(a->arena, layout, out->at[out->best].deal, a->err));
    out->devices = layout->n;
    out->cached_iterations = a->cached.iterations;
    out->least = out->most = layout->samples[0];
    for (int32_t w = 0; w < layout->n; w++) {
        out->touched += layout->touched[w];
        if (layout->samples[w] < out->least) out->least = layout->samples[w];
        if (layout->samples[w] > out->most) out->most = layout->samples[w];
    }
    out->touched /= layout->n;
    out->looked_up = a->in->batch / layout->n * layout->model->features.slots;
    return LUO_OK;
}

/* Too many types, a number that a profile lacks, no program, or none that fits. */
static bool of_no_use(luo_status st)
{
    return st == LUO_E2BIG || st == LUO_EINPUT || st == LUO_ENORULE || st == LUO_EINFEASIBLE;
}

/* Planner `hap` may be of no use; then the dense part is data-parallel. */
static luo_status ask_hap(asking *a)
{
    const luo_hap_job job = {.opts = {.factors = true}};
    luo_tables_answer *out = a->out;
    tables_layout *layout = &a->layout;
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t bottom;
    luo_err why = {0};
    const char *text = NULL;
    if (layout->n < 2) {
        snprintf(out->hap_why, sizeof out->hap_why, "one device has nothing to cut it for");
        return LUO_OK;
    }
    const luo_status st = tables_dense_ask(a->arena, layout, &job, &a->hap, NULL, &why);
    if (st != LUO_OK) {
        if (!of_no_use(st)) return luo_err_set(a->err, st, "%s", why.text);
        snprintf(out->hap_why, sizeof out->hap_why, "%s", why.text);
        return LUO_OK;
    }
    text = tables_dense_text(a->arena, layout->model, &a->hap);
    if (!text) return luo_err_nomem(a->err);
    snprintf(out->hap, sizeof out->hap, "%s", text);
    a->hap_differs =
        !tables_dense_is_parallel(&a->hap, luo_model_dense_layers(layout->model, layer, &bottom));
    layout->hap = &a->hap;
    return LUO_OK;
}

static void nothing_yet(luo_tables_answer *out)
{
    for (int32_t k = 0; k < LUO_TABLES_WAYS; k++) {
        luo_tables_answer_way *way = &out->at[k];
        *way = (luo_tables_answer_way){.step = {.seconds = INFINITY}};
        for (int d = 0; d < LUO_TABLES_DEALS; d++) way->dealt_s[d] = INFINITY;
        for (int p = 0; p < LUO_TABLES_PARTS; p++) way->part_s[p] = INFINITY;
    }
}

static luo_status ask(asking *a)
{
    int64_t last[LUO_TABLES_DEVICES];
    LUO_TRY(tables_layout_open(a->arena, a->in, &a->layout, a->err));
    nothing_yet(a->out);
    if (a->in->cache.rows == 0)
        snprintf(a->out->at[LUO_TABLES_WAY_cached].why, LUO_ERR_TEXT,
                 "not tried: no `--cache` is given; its rows may lack updates, so that "
                 "training is another");
    LUO_TRY(ask_hap(a));
    const int all = a->layout.hap ? LUO_TABLES_DEALS : LUO_TABLES_HAP;
    const int deals = is_mixed(&a->layout) ? all : 1;
    for (int deal = 0; deal < deals; deal++) LUO_TRY(try_all(a, (luo_tables_deal)deal, last));
    LUO_TRY(choose(a));
    return tell_winner(a);
}

luo_status luo_tables_plan(const luo_tables_in *in, luo_tables_answer *out, luo_err *err)
{
    asking a = {.arena = luo_arena_new(1 << 20),
                .in = in,
                .plain = tables_traffic_plain(),
                .out = out,
                .err = err};
    *out = (luo_tables_answer){0};
    if (!a.arena) return luo_err_nomem(err);
    const luo_status st = ask(&a);
    luo_arena_free(a.arena);
    return st;
}
