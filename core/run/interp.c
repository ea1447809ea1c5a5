/* interp.c: the walk, and which tickets have to be kept for it.
 *
 * A lane finishes its instructions in issue order, so a dependency inside a lane needs no ticket,
 * and of several dependencies on one lane and segment only the last issued counts. What is left
 * is worked out once per walk; the walk itself only copies tickets. */
#include "core/run/interp.h"

#include <string.h>

/* One dependency that needs a ticket: of this task if `exported` < 0, else of another segment. */
typedef struct need {
    int32_t id;       /* instruction */
    int32_t exported; /* row of tour.kept; -1: this task */
} need;

typedef struct stop { /* an instruction, as far as the walk looks at it */
    int32_t first_need;
    int32_t exported; /* row of tour.kept, or -1 */
    bool at_start, computes;
    bool ahead; /* luo_instr_goes_ahead */
} stop;

struct luo_walk {
    const luo_role *role;
    stop *stops; /* ninstr + 1: needs of i are first_need of i up to that of i + 1 */
    need *needs;
    int32_t nexported, most_needs;
    int32_t *segment_of; /* by instruction */
    int32_t ncalls;      /* of Post, that begin before it: in its order */
    int32_t *call;       /* instructions */
    int32_t *first_ahead; /* nseg + 1: receives of a segment that go ahead */
    int32_t *ahead;       /* instructions */
};

/* Position among out[0..n) of the need that is superseded by or supersedes dependency `id`. */
static int32_t same_source(const luo_role *role, const int32_t *segment_of, const need *out,
                           int32_t n, int32_t id)
{
    const int32_t lane = luo_instr_lane(&role->instr[id]);
    for (int32_t i = 0; i < n; i++)
        if (luo_instr_lane(&role->instr[out[i].id]) == lane &&
            segment_of[out[i].id] == segment_of[id])
            return i;
    return n;
}

static int32_t find_needs(const luo_role *role, const int32_t *segment_of, const luo_instr *in,
                          need *out)
{
    const int32_t lane = luo_instr_lane(in);
    int32_t n = 0;
    for (int32_t k = 0; k < in->ndep; k++) {
        const int32_t id = in->dep[k];
        if (luo_instr_lane(&role->instr[id]) == lane) continue;
        const int32_t at = same_source(role, segment_of, out, n, id);
        if (at == n) out[n++] = (need){id, -1};
        else if (out[at].id < id) out[at].id = id;
    }
    return n;
}

static luo_status make_needs(luo_walk *walk)
{
    const luo_role *role = walk->role;
    const int32_t *segment_of = walk->segment_of;
    int32_t n = 0;
    for (int32_t i = 0; i < role->ninstr; i++) walk->stops[i].exported = -1;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const int32_t first = walk->stops[i].first_need = n;
        n += find_needs(role, segment_of, &role->instr[i], walk->needs + n);
        if (n - first > walk->most_needs) walk->most_needs = n - first;
        for (int32_t k = first; k < n; k++) {
            const int32_t id = walk->needs[k].id;
            if (segment_of[id] == segment_of[i]) continue;
            if (walk->stops[id].exported < 0) walk->stops[id].exported = walk->nexported++;
            walk->needs[k].exported = walk->stops[id].exported;
        }
        walk->stops[i].at_start = role->instr[i].at_start;
        walk->stops[i].computes = luo_instr_lane(&role->instr[i]) == LUO_STREAM_COMPUTE;
    }
    walk->stops[role->ninstr].first_need = n;
    return LUO_OK;
}

/* ---- receives that go ahead ---- */

/* A lane keeps its order: one that has to stay where it is keeps all of the role. */
static bool stays(const luo_instr *in)
{
    return in->kind == LUO_INSTR_P2P && in->stream == LUO_STREAM_PP && in->bytes == 0 &&
           !luo_instr_goes_ahead(in);
}

static luo_status list_ahead(luo_arena *arena, luo_walk *walk)
{
    const luo_role *role = walk->role;
    bool all = true;
    int32_t n = 0;
    for (int32_t i = 0; i < role->ninstr; i++) {
        all &= !stays(&role->instr[i]);
        n += luo_instr_goes_ahead(&role->instr[i]);
    }
    walk->first_ahead = LUO_NEW_N(arena, int32_t, role->nseg + 1);
    walk->ahead = LUO_NEW_N(arena, int32_t, n);
    if (!walk->first_ahead || !walk->ahead) return LUO_ENOMEM;
    n = 0;
    for (int32_t s = 0; s < role->nseg; s++) {
        for (int32_t i = role->seg[s].first; all && i < role->seg[s].first + role->seg[s].n; i++) {
            walk->stops[i].ahead = luo_instr_goes_ahead(&role->instr[i]);
            if (walk->stops[i].ahead) walk->ahead[n++] = i;
        }
        walk->first_ahead[s + 1] = n;
    }
    return LUO_OK;
}

/* ---- calls that begin before Post ---- */

/* Of what it waits for in Post all has begun when it may: calls alone, listed before it. */
static bool follows_calls(const luo_walk *walk, const luo_segment *post, int32_t i)
{
    const luo_instr *in = &walk->role->instr[i];
    int32_t listed = 0;
    for (int32_t k = post->first; k < i; k++) {
        const bool is_listed = listed < walk->ncalls && walk->call[listed] == k;
        listed += is_listed;
        if (!is_listed && walk->role->instr[k].op == in->op) return false;
        for (int32_t d = 0; d < in->ndep && !is_listed; d++)
            if (in->dep[d] == k) return false;
    }
    return true;
}

/* Calls of a device begin in their order, so the first that has to stand in Post ends the list; and
 * so does any that tasks make themselves (ZeRO-2 and 3), which stand before it. */
static luo_status list_calls(luo_arena *arena, luo_walk *walk)
{
    const luo_role *role = walk->role;
    walk->call = LUO_NEW_N(arena, int32_t, role->ninstr);
    if (!walk->call) return LUO_ENOMEM;
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (luo_instr_is_call(in) && luo_phase_in_task(in->phase)) return LUO_OK;
    }
    for (int32_t s = 0; s < role->nseg; s++) {
        const luo_segment *seg = &role->seg[s];
        if (seg->phase != LUO_PHASE_POST) continue;
        for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
            const luo_instr *in = &role->instr[i];
            if (!luo_instr_is_call(in)) continue;
            if (!luo_instr_runs_beside(role, in) || !follows_calls(walk, seg, i)) return LUO_OK;
            walk->call[walk->ncalls++] = i;
        }
    }
    return LUO_OK;
}

luo_status luo_walk_make(luo_arena *arena, const luo_role *role, bool early, const luo_walk **out)
{
    int32_t deps = 0;
    for (int32_t i = 0; i < role->ninstr; i++) deps += role->instr[i].ndep;
    luo_walk *walk = LUO_NEW(arena, luo_walk);
    if (!walk) return LUO_ENOMEM;
    *walk = (luo_walk){.role = role,
                       .stops = LUO_NEW_N(arena, stop, role->ninstr + 1),
                       .needs = LUO_NEW_N(arena, need, deps),
                       .segment_of = LUO_NEW_N(arena, int32_t, role->ninstr)};
    if (!walk->stops || !walk->needs || !walk->segment_of) return LUO_ENOMEM;
    for (int32_t s = 0; s < role->nseg; s++)
        for (int32_t i = 0; i < role->seg[s].n; i++) walk->segment_of[role->seg[s].first + i] = s;
    if (early) LUO_TRY(list_calls(arena, walk));
    LUO_TRY(list_ahead(arena, walk));
    *out = walk;
    return make_needs(walk);
}

/* ---- the walk ---- */

typedef struct place { /* an instruction of a task */
    int32_t task, instr;
} place;

typedef struct tour { /* of one device */
    const luo_walk *walk;
    const luo_executor *executor;
    luo_rank *rank;
    const luo_program *program;
    int32_t nmicro;
    int64_t *kept;    /* [row][1 + nmicro]: latest run, then per micro-batch; -1: none */
    int64_t *here;    /* per instruction: ticket of its latest run .. */
    int64_t *next;    /* .. and, of one that has gone ahead, of that in the next task */
    int64_t *dep;     /* of the instruction at hand */
    int64_t computed; /* ticket of the last computation of the tasks before; -1: none */
    int32_t ncalls, begun; /* calls that begin before Post; those that have */
    place *behind;         /* by call: what it begins behind */
} tour;

static bool is_later(place a, place b)
{
    return a.task != b.task ? a.task > b.task : a.instr > b.instr;
}

/* A call begins behind the last run of whatever it waits for, and behind the call before it. One
 * that waits for nothing a task of this device does, and all behind it, stand in Post. */
static luo_status place_calls(tour *t, luo_arena *scratch)
{
    const luo_walk *walk = t->walk;
    int32_t *last = LUO_NEW_N(scratch, int32_t, walk->role->nseg); /* task + 1 */
    t->behind = LUO_NEW_N(scratch, place, walk->ncalls);
    if (!last || !t->behind) return LUO_ENOMEM;
    for (int32_t k = 0; k < t->program->ntask; k++) last[t->program->tasks[k].seg] = k + 1;
    place at = {-1, -1};
    for (int32_t c = 0; c < walk->ncalls; c++) {
        const luo_instr *in = &walk->role->instr[walk->call[c]];
        for (int32_t k = 0; k < in->ndep; k++) {
            const int32_t s = walk->segment_of[in->dep[k]];
            const place of = {last[s] - 1, in->dep[k]};
            if (luo_phase_in_task(walk->role->seg[s].phase) && is_later(of, at)) at = of;
        }
        if (at.task < 0) break;
        t->behind[t->ncalls++] = at;
    }
    return LUO_OK;
}

static luo_status tour_begin(tour *t, luo_arena *scratch)
{
    for (int32_t k = 0; k < t->program->ntask; k++)
        if (t->program->tasks[k].micro_batch >= t->nmicro)
            t->nmicro = t->program->tasks[k].micro_batch + 1;
    const size_t cells = (size_t)t->walk->nexported * (size_t)(1 + t->nmicro);
    t->kept = luo_arena_alloc(scratch, cells * sizeof *t->kept);
    t->here = LUO_NEW_N(scratch, int64_t, t->walk->role->ninstr);
    t->next = LUO_NEW_N(scratch, int64_t, t->walk->role->ninstr);
    t->dep = LUO_NEW_N(scratch, int64_t, t->walk->most_needs + 1); /* at_start */
    if (!t->kept || !t->here || !t->next || !t->dep) return LUO_ENOMEM;
    memset(t->kept, -1, cells * sizeof *t->kept);
    return place_calls(t, scratch);
}

/* Tickets of instruction i in a task of micro-batch mb. An instruction of another segment that has
 * not run yet is nothing to wait for: the accumulation of a segment no micro-batch used. */
static int32_t gather(const tour *t, int32_t i, int32_t mb)
{
    const stop *at = &t->walk->stops[i];
    int32_t n = 0;
    if (at->at_start && t->computed >= 0) t->dep[n++] = t->computed;
    for (int32_t k = at[0].first_need; k < at[1].first_need; k++) {
        const need *want = &t->walk->needs[k];
        int64_t ticket = -1;
        if (want->exported < 0) {
            ticket = t->here[want->id];
        } else {
            const int64_t *row = t->kept + (int64_t)want->exported * (1 + t->nmicro);
            if (mb >= 0) ticket = row[1 + mb];
            if (ticket < 0) ticket = row[0];
        }
        if (ticket >= 0) t->dep[n++] = ticket;
    }
    return n;
}

/* The latest run of an instruction, for those who wait for it. */
static void keep(const tour *t, int32_t i, int32_t mb, int64_t ticket)
{
    const int32_t exported = t->walk->stops[i].exported;
    t->here[i] = ticket;
    if (exported < 0) return;
    int64_t *row = t->kept + (int64_t)exported * (1 + t->nmicro);
    row[0] = ticket;
    if (mb >= 0) row[1 + mb] = ticket;
}

static luo_status submit(tour *t, int32_t k, int32_t i, bool early, int64_t *ticket)
{
    const luo_run_task *task = &t->program->tasks[k];
    const luo_instr *in = &t->walk->role->instr[i];
    const luo_issue what = {
        .instr = in,
        .slot = in->slot >= 0 ? &t->program->slots[in->slot] : NULL,
        .task = k,
        .micro_batch = task->micro_batch,
        .chunk = t->walk->role->seg[task->seg].chunk,
        .early = early,
        .ndep = gather(t, i, task->micro_batch),
        .dep = t->dep,
    };
    return t->executor->submit(t->rank, &what, ticket);
}

static luo_status issue(tour *t, int32_t k, int32_t i, bool early)
{
    int64_t ticket;
    LUO_TRY(submit(t, k, i, early, &ticket));
    keep(t, i, t->program->tasks[k].micro_batch, ticket);
    return LUO_OK;
}

/* Calls that can begin now that this has been issued. */
static luo_status issue_calls(tour *t, place now)
{
    while (t->begun < t->ncalls && !is_later(t->behind[t->begun], now))
        LUO_TRY(issue(t, t->program->ntask - 1, t->walk->call[t->begun++], true));
    return LUO_OK;
}

/* Task k begins with its receives, which but for the first task's have been handed over, and those
 * of the next task. */
static luo_status issue_ahead(tour *t, int32_t k)
{
    const luo_walk *walk = t->walk;
    const luo_run_task *now = &t->program->tasks[k], *next = now + 1;
    for (int32_t a = walk->first_ahead[now->seg]; a < walk->first_ahead[now->seg + 1]; a++) {
        if (k == 0)
            LUO_TRY(issue(t, k, walk->ahead[a], false));
        else
            keep(t, walk->ahead[a], now->micro_batch, t->next[walk->ahead[a]]);
    }
    if (k + 1 == t->program->ntask) return LUO_OK;
    for (int32_t a = walk->first_ahead[next->seg]; a < walk->first_ahead[next->seg + 1]; a++)
        LUO_TRY(submit(t, k + 1, walk->ahead[a], true, &t->next[walk->ahead[a]]));
    return LUO_OK;
}

static luo_status walk_task(tour *t, int32_t k)
{
    int64_t computed = t->computed;
    const luo_segment *seg = &t->walk->role->seg[t->program->tasks[k].seg];
    int32_t passed = 0; /* calls of this segment that have begun */
    LUO_TRY(issue_ahead(t, k));
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        if (t->walk->stops[i].ahead) continue;
        if (seg->phase == LUO_PHASE_POST && passed < t->begun && t->walk->call[passed] == i) {
            passed++;
            continue;
        }
        LUO_TRY(issue(t, k, i, false));
        if (t->walk->stops[i].computes) computed = t->here[i];
        LUO_TRY(issue_calls(t, (place){k, i}));
    }
    t->computed = computed;
    return LUO_OK;
}

luo_status luo_interp_walk(const luo_executor *executor, luo_rank *rank, const luo_walk *walk,
                           const luo_program *program, luo_arena *scratch)
{
    const size_t mark = luo_arena_mark(scratch);
    tour t = {.walk = walk, .executor = executor, .rank = rank, .program = program, .computed = -1};
    luo_status st = tour_begin(&t, scratch);
    for (int32_t k = 0; st == LUO_OK && k < program->ntask; k++) st = walk_task(&t, k);
    if (st == LUO_OK) st = executor->wait(rank, NULL, 0);
    luo_arena_reset(scratch, mark);
    return st;
}

luo_status luo_interp_program(const luo_executor *executor, luo_rank *rank, const luo_programs *set,
                              const luo_program *program, bool early, luo_arena *scratch)
{
    const size_t mark = luo_arena_mark(scratch);
    const luo_walk *walk;
    luo_status st = luo_walk_make(scratch, &set->roles[program->role], early, &walk);
    if (st == LUO_OK) st = luo_interp_walk(executor, rank, walk, program, scratch);
    luo_arena_reset(scratch, mark);
    return st;
}
