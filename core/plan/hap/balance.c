/* The linear programme of a program. */
#include "core/plan/hap/balance.h"

#include <math.h>

typedef struct terms {
    luo_arena *arena;
    const luo_hap_program *program;
    const luo_hap_numbers *numbers;
    const luo_hap_cuts *cuts;
    luo_hap_lp lp;
    luo_hap_lp_stage *stage;
    luo_hap_lp_pair *cross, *move;
    double *most_s, *share_bytes;
} terms;

/* Stages that only divide, with speeds in equal ratios, are one. */
static bool merge(terms *x, const luo_hap_lp_stage *stage)
{
    for (int32_t i = 0; i < x->lp.nstages; i++) {
        luo_hap_lp_stage *to = &x->stage[i];
        bool same = to->segment == stage->segment;
        for (int32_t t = 0; same && t < x->lp.ntypes; t++)
            same = to->full_s[t] == 0 &&
                   fabs(to->split_s[t] * stage->split_s[0] - to->split_s[0] * stage->split_s[t]) <=
                       1e-9 * to->split_s[0] * stage->split_s[t];
        if (!same) continue;
        for (int32_t t = 0; t < x->lp.ntypes; t++) to->split_s[t] += stage->split_s[t];
        return true;
    }
    return false;
}

static void add_stage(terms *x, const luo_hap_triple *triple)
{
    const luo_hap_graph *graph = x->program->space->graph;
    luo_hap_lp_stage stage = {.segment = graph->op[triple->op].segment};
    double full = 0, split = 0;
    for (int32_t t = 0; t < x->lp.ntypes; t++) {
        const double speed = luo_hap_numbers_speed(x->numbers, graph, triple->op, t);
        stage.full_s[t] = triple->w_full / speed;
        stage.split_s[t] = triple->w_split / speed;
        full = fmax(full, stage.full_s[t]);
        split = fmax(split, stage.split_s[t]);
    }
    if (split <= 0)
        x->lp.constant_s += full;
    else if (full > 0 || !merge(x, &stage))
        x->stage[x->lp.nstages++] = stage;
}

static void add_pair(luo_hap_lp_pair *list, int32_t *n, int32_t a, int32_t b, double seconds)
{
    const int32_t lo = a < b ? a : b, hi = a < b ? b : a;
    for (int32_t i = 0; i < *n; i++)
        if (list[i].a == lo && list[i].b == hi) {
            list[i].seconds += seconds;
            return;
        }
    list[(*n)++] = (luo_hap_lp_pair){lo, hi, seconds};
}

static double latency(const terms *x, luo_hap_link link)
{
    return x->numbers->line[link].latency_s;
}

static double per_byte(const terms *x, luo_hap_link link)
{
    return 1 / x->numbers->line[link].bandwidth_bytes_s;
}

static void add_coll(terms *x, const luo_hap_coll *coll)
{
    const double n = x->cuts->ndevices;
    bool grouped;
    const double now = luo_hap_price(x->numbers, x->cuts, coll, &grouped);
    const luo_hap_link gather = coll->kind == LUO_HAP_MOVE_AG ? LUO_HAP_LINK_AG : LUO_HAP_LINK_RS;
    if (grouped || coll->kind == LUO_HAP_MOVE_AR) {
        x->lp.constant_s += now;
    } else if (coll->kind == LUO_HAP_MOVE_AG || coll->kind == LUO_HAP_MOVE_RS) {
        x->lp.constant_s += latency(x, gather);
        x->most_s[coll->seg] += n * coll->bytes * per_byte(x, gather);
    } else if (coll->kind == LUO_HAP_MOVE_A2A) {
        const double seconds = n * coll->bytes * per_byte(x, LUO_HAP_LINK_A2A);
        x->lp.constant_s += latency(x, LUO_HAP_LINK_A2A);
        if (coll->seg == coll->seg2)
            x->most_s[coll->seg] += seconds;
        else
            add_pair(x->cross, &x->lp.ncross, coll->seg, coll->seg2, seconds);
    } else {
        x->lp.constant_s += latency(x, LUO_HAP_LINK_P2P);
        add_pair(x->move, &x->lp.nmoves, coll->seg, coll->seg2,
                 coll->bytes * per_byte(x, LUO_HAP_LINK_P2P));
    }
}

static void add_bytes(void *ctx, const luo_hap_bytes *part)
{
    terms *x = ctx;
    if (part->ext < 0)
        x->lp.fixed_bytes += part->bytes;
    else
        x->share_bytes[part->seg] += part->bytes;
}

static luo_status terms_new(luo_arena *arena, const luo_hap_program *program,
                            const luo_hap_numbers *numbers, terms *x, luo_err *err)
{
    const luo_hap_graph *graph = program->space->graph;
    int32_t ncolls = 0;
    for (int32_t o = 0; o < graph->nops; o++)
        ncolls += program->space->triple[program->choice[o]].ncoll;
    *x = (terms){.arena = arena,
                 .program = program,
                 .numbers = numbers,
                 .lp = {.ntypes = numbers->ntypes,
                        .nsegments = graph->nsegments,
                        .count = numbers->count,
                        .compat = program->space->opts.compat},
                 .stage = LUO_NEW_N(arena, luo_hap_lp_stage, graph->nops),
                 .cross = LUO_NEW_N(arena, luo_hap_lp_pair, ncolls),
                 .move = LUO_NEW_N(arena, luo_hap_lp_pair, ncolls),
                 .most_s = LUO_NEW_N(arena, double, graph->nsegments),
                 .share_bytes = LUO_NEW_N(arena, double, graph->nsegments)};
    if (!x->stage || !x->cross || !x->move || !x->most_s || !x->share_bytes)
        return luo_err_nomem(err);
    x->lp.stage = x->stage;
    x->lp.cross = x->cross;
    x->lp.move = x->move;
    x->lp.most_s = x->most_s;
    return LUO_OK;
}

static luo_status balance(luo_arena *arena, const luo_hap_program *program,
                          const luo_hap_numbers *numbers, bool memory, const double *shares_now,
                          double *shares, double *seconds, luo_err *err)
{
    const luo_hap_space *space = program->space;
    luo_hap_cuts *cuts;
    double largest;
    terms x;
    LUO_TRY(terms_new(arena, program, numbers, &x, err));
    LUO_TRY(luo_hap_program_cuts(arena, space, numbers, shares_now, &cuts, err));
    x.cuts = cuts;
    for (int32_t o = 0; o < space->graph->nops; o++) {
        const luo_hap_triple *triple = &space->triple[program->choice[o]];
        add_stage(&x, triple);
        for (int32_t i = 0; i < triple->ncoll && cuts->ndevices > 1; i++)
            add_coll(&x, &triple->coll[i]);
    }
    if (memory) {
        LUO_TRY(luo_hap_program_bytes(arena, program, add_bytes, &x, &largest, err));
        x.lp.fixed_bytes += largest;
        x.lp.share_bytes = x.share_bytes;
        x.lp.limit_bytes = numbers->memory_bytes;
    }
    return luo_hap_balance_raw(arena, &x.lp, shares, seconds, err);
}

luo_status luo_hap_balance(luo_arena *arena, const luo_hap_program *program,
                           const luo_hap_numbers *numbers, bool memory, const double *shares_now,
                           double *shares, double *seconds, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    const luo_status st =
        balance(arena, program, numbers, memory, shares_now, shares, seconds, err);
    luo_arena_reset(arena, mark);
    return st;
}
