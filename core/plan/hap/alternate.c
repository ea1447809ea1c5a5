/* Search and balance in turn. */
#include "core/plan/hap/alternate.h"

#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/hap/balance.h"

enum { DOUBLINGS = 6, BISECTIONS = 6 };

typedef struct turn { /* of luo_hap_alternate */
    luo_arena *arena;
    const luo_hap_graph *graph;
    const luo_hap_job *job;
    luo_hap_result *result; /* the best so far; program NULL: none yet */
    double penalty;
    bool memory;       /* is heeded */
    bool only_fitting; /* pairs that do not fit are passed over */
    double *now, *next;
    int32_t cap_rounds;
} turn;

const char *luo_hap_start_name(luo_hap_start start)
{
    static const char *const names[] = {
#define LUO_HAP_WORD(value, word) [value] = word,
        LUO_HAP_START_LIST(LUO_HAP_WORD)
#undef LUO_HAP_WORD
    };
    return names[start];
}

static size_t nshares(const turn *x)
{
    return (size_t)(x->graph->nsegments * x->result->numbers.ntypes);
}

/* ---- memory ---- */

static luo_status memory_of(const turn *x, const luo_hap_program *program, const double *shares,
                            double *bytes, luo_err *err)
{
    luo_hap_cuts *cuts;
    const size_t mark = luo_arena_mark(x->arena);
    LUO_TRY(
        luo_hap_program_cuts(x->arena, program->space, &x->result->numbers, shares, &cuts, err));
    LUO_TRY(luo_hap_program_memory(x->arena, program, cuts, bytes, err));
    luo_arena_reset(x->arena, mark);
    return LUO_OK;
}

/* The type that has too little, -1: none. */
static int32_t too_small(const turn *x, const double *bytes)
{
    const luo_hap_numbers *numbers = &x->result->numbers;
    for (int32_t t = 0; x->memory && t < numbers->ntypes; t++)
        if (numbers->memory_bytes[t] > 0 && bytes[t] > numbers->memory_bytes[t]) return t;
    return -1;
}

/* ---- rounds ---- */

static luo_status offer(turn *x, luo_hap_program *program, const double *shares, double cost,
                        luo_hap_start start, luo_err *err)
{
    luo_hap_result *best = x->result;
    double bytes[LUO_HAP_TYPES];
    if (best->program && !(cost < best->cost_s * (1 - 1e-12))) return LUO_OK;
    LUO_TRY(memory_of(x, program, shares, bytes, err));
    if (x->only_fitting && too_small(x, bytes) >= 0) return LUO_OK;
    best->program = program;
    best->cost_s = cost;
    best->start = start;
    memcpy(best->shares, shares, nshares(x) * sizeof *shares);
    memcpy(best->memory_bytes, bytes, sizeof bytes);
    return LUO_OK;
}

static luo_status record(turn *x, luo_hap_start start, double program_s, double shares_s,
                         luo_err *err)
{
    luo_hap_result *result = x->result;
    if (!LUO_VEC_ROOM_IN(x->arena, result->round, result->rounds, x->cap_rounds))
        return luo_err_nomem(err);
    result->round[result->rounds++] = (luo_hap_round){start, program_s, shares_s};
    return LUO_OK;
}

/* One turn: *least = the better of both costs. */
static luo_status one_round(turn *x, luo_hap_start start, double *least, luo_err *err)
{
    luo_hap_result *result = x->result;
    luo_hap_program *program;
    double after, ignored;
    LUO_TRY(luo_hap_synth(x->arena, result->space, &result->numbers, x->now, x->penalty, &program,
                          err));
    result->states += program->states;
    result->pops += program->pops;
    LUO_TRY(offer(x, program, x->now, program->cost_s, start, err));
    const luo_status st = luo_hap_balance(x->arena, program, &result->numbers, x->memory, x->now,
                                          x->next, &ignored, err);
    if (st == LUO_EINFEASIBLE) { /* this program fits nowhere: the turn ends with it */
        *least = INFINITY;
        return record(x, start, program->cost_s, (double)INFINITY, err);
    }
    LUO_TRY(st);
    LUO_TRY(luo_hap_cost(x->arena, program, &result->numbers, x->next, &after, NULL, err));
    LUO_TRY(offer(x, program, x->next, after, start, err));
    *least = fmin(program->cost_s, after);
    return record(x, start, program->cost_s, after, err);
}

static luo_status from_start(turn *x, luo_hap_start start, luo_err *err)
{
    double now = INFINITY, least;
    for (int round = 0; round < LUO_HAP_ROUNDS; round++) {
        LUO_TRY(one_round(x, start, &least, err));
        if (!(least < now * (1 - 1e-9))) break;
        now = least;
        memcpy(x->now, x->next, nshares(x) * sizeof *x->now);
    }
    return LUO_OK;
}

/* Published: the program is kept where it was cheaper before its shares were balanced, and shares
 * are always the last ones. */
static luo_status as_published(turn *x, luo_err *err)
{
    luo_hap_result *result = x->result;
    double best = INFINITY, ignored;
    for (int round = 0; round < LUO_HAP_ROUNDS; round++) {
        luo_hap_program *program;
        LUO_TRY(luo_hap_synth(x->arena, result->space, &result->numbers, x->now, 0, &program, err));
        result->states += program->states;
        result->pops += program->pops;
        const luo_status st = luo_hap_balance(x->arena, program, &result->numbers, false, x->now,
                                              x->next, &ignored, err);
        if (st == LUO_EINFEASIBLE)
            return luo_err_set(err, st,
                               "no feasible shares: as published, no part of a step is longer than "
                               "a second; ask for fewer samples, or leave --compat out.");
        LUO_TRY(st);
        LUO_TRY(record(x, LUO_HAP_START_PROP, program->cost_s, ignored, err));
        if (!(program->cost_s < best)) break;
        best = program->cost_s;
        result->program = program;
        memcpy(x->now, x->next, nshares(x) * sizeof *x->now);
    }
    memcpy(result->shares, x->next, nshares(x) * sizeof *x->next);
    LUO_TRY(memory_of(x, result->program, result->shares, result->memory_bytes, err));
    return luo_hap_cost(x->arena, result->program, &result->numbers, result->shares,
                        &result->cost_s, NULL, err);
}

static uint32_t starts_of(const turn *x)
{
    if (x->job->opts.compat) return 1u << LUO_HAP_START_PROP;
    if (x->job->starts) return x->job->starts;
    return 1u << LUO_HAP_START_PROP | 1u << LUO_HAP_START_EVEN |
           (x->memory ? 1u << LUO_HAP_START_MEM : 0);
}

static luo_status all_starts(turn *x, luo_err *err)
{
    for (int32_t start = 0; start < LUO_HAP_STARTS; start++) {
        if (!(starts_of(x) >> start & 1)) continue;
        if (!luo_hap_start_shares(x->graph, &x->result->numbers, (luo_hap_start)start,
                                  x->job->opts.compat, x->now))
            continue;
        LUO_TRY(x->job->opts.compat ? as_published(x, err)
                                    : from_start(x, (luo_hap_start)start, err));
    }
    return LUO_OK;
}

/* ---- penalties for memory ---- */

static luo_status with_penalty(turn *x, double log2_penalty, double unit, luo_hap_result *best,
                               bool *fits, luo_err *err)
{
    luo_hap_program *was = best->program;
    x->penalty = unit * exp2(log2_penalty);
    best->program = NULL;
    const double cost = best->cost_s;
    luo_hap_result saved = *best;
    double *shares = LUO_NEW_N(x->arena, double, nshares(x));
    if (!shares) return luo_err_nomem(err);
    memcpy(shares, best->shares, nshares(x) * sizeof *shares);
    LUO_TRY(all_starts(x, err));
    *fits = best->program != NULL;
    if (was && (!*fits || !(best->cost_s < cost * (1 - 1e-12)))) {
        best->program = was;
        best->cost_s = cost;
        best->start = saved.start;
        memcpy(best->shares, shares, nshares(x) * sizeof *shares);
        memcpy(best->memory_bytes, saved.memory_bytes, sizeof saved.memory_bytes);
    }
    return LUO_OK;
}

static luo_status under_memory(turn *x, luo_err *err)
{
    luo_hap_result *best = x->result;
    const double unit = best->cost_s;
    double below = -DOUBLINGS - 1, at = -DOUBLINGS;
    bool fits = false;
    x->only_fitting = true;
    best->program = NULL;
    for (; at <= DOUBLINGS; below = at++) {
        LUO_TRY(with_penalty(x, at, unit, best, &fits, err));
        if (fits) break;
    }
    for (int i = 0; fits && i < BISECTIONS; i++) {
        const double middle = (below + at) / 2;
        bool also;
        LUO_TRY(with_penalty(x, middle, unit, best, &also, err));
        if (also)
            at = middle;
        else
            below = middle;
    }
    return LUO_OK;
}

static luo_status refuse(const turn *x, const double *bytes, luo_err *err)
{
    const luo_hap_numbers *numbers = &x->result->numbers;
    const int32_t t = too_small(x, bytes);
    LUO_TRY(luo_hap_state_fits(x->graph, numbers, err));
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "no plan fits: type `%s` needs %.1f GiB of %.1f GiB; try %sfewer samples.",
                       numbers->name[t], bytes[t] / 0x1p30, numbers->memory_bytes[t] / 0x1p30,
                       x->job->zero == LUO_HAP_ZERO_OFF ? "--zero on or " : "");
}

/* ---- all of it ---- */

static luo_status turn_new(luo_arena *arena, const luo_hap_graph *graph,
                           const luo_hap_numbers *numbers, const luo_hap_job *job, turn *x,
                           luo_err *err)
{
    const size_t n = (size_t)(graph->nsegments * numbers->ntypes);
    *x = (turn){.arena = arena,
                .graph = graph,
                .job = job,
                .result = LUO_NEW(arena, luo_hap_result),
                .now = LUO_NEW_N(arena, double, n),
                .next = LUO_NEW_N(arena, double, n)};
    if (!x->result || !x->now || !x->next) return luo_err_nomem(err);
    x->result->shares = LUO_NEW_N(arena, double, n);
    if (!x->result->shares) return luo_err_nomem(err);
    luo_hap_numbers *used = &x->result->numbers;
    *used = *numbers;
    if (job->no_grouped || job->opts.compat)
        used->line[LUO_HAP_LINK_AG_GROUPED].bandwidth_bytes_s =
            used->line[LUO_HAP_LINK_RS_GROUPED].bandwidth_bytes_s = 0;
    for (int32_t l = 0; l < LUO_HAP_LINKS && job->opts.compat; l++) used->line[l].latency_s = 0;
    used->fractional |= job->opts.compat;
    LUO_TRY(luo_hap_graph_check(graph, err));
    return luo_hap_numbers_check(used, graph, err);
}

/* Is memory known of every type, and does it matter? */
static bool heeds_memory(const luo_hap_job *job, const luo_hap_numbers *numbers)
{
    bool known = !job->no_memory && !job->opts.compat;
    for (int32_t t = 0; t < numbers->ntypes; t++) known &= numbers->memory_bytes[t] > 0;
    return known;
}

static luo_status use_space(turn *x, bool zero, luo_err *err)
{
    luo_hap_opts opts = x->job->opts;
    luo_hap_space *space;
    opts.zero = zero && !opts.compat;
    opts.factors &= !opts.compat;
    LUO_TRY(luo_hap_space_new(x->arena, x->graph, &opts, &space, err));
    x->result->space = space;
    return LUO_OK;
}

static luo_status until_it_fits(turn *x, luo_err *err)
{
    double bytes[LUO_HAP_TYPES];
    LUO_TRY(all_starts(x, err));
    if (too_small(x, x->result->memory_bytes) < 0) return LUO_OK;
    if (x->job->zero == LUO_HAP_ZERO_AUTO) {
        LUO_TRY(use_space(x, true, err));
        x->result->program = NULL;
        LUO_TRY(all_starts(x, err));
        if (too_small(x, x->result->memory_bytes) < 0) return LUO_OK;
    }
    memcpy(bytes, x->result->memory_bytes, sizeof bytes);
    if (x->job->as_it_is) return refuse(x, bytes, err);
    LUO_TRY(under_memory(x, err));
    return x->result->program ? LUO_OK : refuse(x, bytes, err);
}

luo_status luo_hap_alternate(luo_arena *arena, const luo_hap_graph *graph,
                             const luo_hap_numbers *numbers, const luo_hap_job *job,
                             luo_hap_result **out, luo_err *err)
{
    turn x;
    LUO_TRY(turn_new(arena, graph, numbers, job, &x, err));
    x.memory = heeds_memory(job, numbers);
    LUO_TRY(use_space(&x, job->zero == LUO_HAP_ZERO_ON, err));
    LUO_TRY(until_it_fits(&x, err));
    x.result->space = x.result->program->space;
    LUO_TRY(luo_hap_cost(arena, x.result->program, &x.result->numbers, x.result->shares,
                         &x.result->cost_s, &x.result->parts, err));
    *out = x.result;
    return LUO_OK;
}

luo_status luo_hap_alternate_once(luo_arena *arena, const luo_hap_graph *graph,
                                  const luo_hap_numbers *numbers, const luo_hap_job *job,
                                  const luo_hap_opts *opts, luo_hap_start start,
                                  luo_hap_result **out, luo_err *err)
{
    turn x;
    luo_hap_space *space;
    LUO_TRY(turn_new(arena, graph, numbers, job, &x, err));
    LUO_TRY(luo_hap_space_new(arena, graph, opts, &space, err));
    x.result->space = space;
    x.result->start = start;
    if (!luo_hap_start_shares(graph, &x.result->numbers, start, opts->compat, x.result->shares))
        return luo_err_set(err, LUO_EINPUT, "start `%s` needs the memory of every type.",
                           luo_hap_start_name(start));
    LUO_TRY(luo_hap_synth(arena, space, &x.result->numbers, x.result->shares, 0, &x.result->program,
                          err));
    LUO_TRY(luo_hap_cost(arena, x.result->program, &x.result->numbers, x.result->shares,
                         &x.result->cost_s, &x.result->parts, err));
    LUO_TRY(memory_of(&x, x.result->program, x.result->shares, x.result->memory_bytes, err));
    *out = x.result;
    return LUO_OK;
}
