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
    int32_t exported; /* row of walk.kept; -1: this task */
} need;

typedef struct walk {
    const luo_executor *executor;
    luo_rank *rank;
    const luo_program *program;
    const luo_role *role;
    int32_t *segment_of;   /* per instruction */
    int32_t *first_need;   /* per instruction, ninstr + 1 values */
    need *needs;
    int32_t *exported;     /* per instruction: row of `kept`, or -1 */
    int32_t nexported, nmicro;
    int64_t *kept;         /* [row][1 + nmicro]: latest run, then per micro-batch; -1: none */
    int64_t *here;         /* per instruction: ticket of its latest run */
    int64_t *dep;          /* of the instruction at hand */
    int64_t computed;      /* ticket of the last computation of the tasks before; -1: none */
    luo_arena *scratch;
} walk;

/* Position among out[0..n) of the need that is superseded by or supersedes dependency `id`. */
static int32_t same_source(const walk *w, const need *out, int32_t n, int32_t id)
{
    const int32_t lane = luo_instr_lane(&w->role->instr[id]);
    for (int32_t i = 0; i < n; i++)
        if (luo_instr_lane(&w->role->instr[out[i].id]) == lane &&
            w->segment_of[out[i].id] == w->segment_of[id])
            return i;
    return n;
}

static int32_t find_needs(const walk *w, const luo_instr *in, need *out)
{
    const int32_t lane = luo_instr_lane(in);
    int32_t n = 0;
    for (int32_t k = 0; k < in->ndep; k++) {
        const int32_t id = in->dep[k];
        if (luo_instr_lane(&w->role->instr[id]) == lane) continue;
        const int32_t at = same_source(w, out, n, id);
        if (at == n) out[n++] = (need){id, -1};
        else if (out[at].id < id) out[at].id = id;
    }
    return n;
}

static luo_status walk_alloc(walk *w)
{
    const int32_t n = w->role->ninstr;
    int32_t deps = 0;
    for (int32_t i = 0; i < n; i++) deps += w->role->instr[i].ndep;
    deps++; /* at_start */
    w->segment_of = LUO_NEW_N(w->scratch, int32_t, n);
    w->first_need = LUO_NEW_N(w->scratch, int32_t, n + 1);
    w->exported = LUO_NEW_N(w->scratch, int32_t, n);
    w->here = LUO_NEW_N(w->scratch, int64_t, n);
    w->needs = LUO_NEW_N(w->scratch, need, deps);
    w->dep = LUO_NEW_N(w->scratch, int64_t, deps);
    const bool ok = w->segment_of && w->first_need && w->exported && w->here && w->needs && w->dep;
    return ok ? LUO_OK : LUO_ENOMEM;
}

static void map_segments(walk *w)
{
    for (int32_t s = 0; s < w->role->nseg; s++)
        for (int32_t i = 0; i < w->role->seg[s].n; i++)
            w->segment_of[w->role->seg[s].first + i] = s;
    for (int32_t i = 0; i < w->role->ninstr; i++) w->exported[i] = -1;
    for (int32_t t = 0; t < w->program->ntask; t++)
        if (w->program->tasks[t].micro_batch >= w->nmicro)
            w->nmicro = w->program->tasks[t].micro_batch + 1;
}

static luo_status walk_prepare(walk *w)
{
    LUO_TRY(walk_alloc(w));
    map_segments(w);
    int32_t n = 0;
    for (int32_t i = 0; i < w->role->ninstr; i++) {
        w->first_need[i] = n;
        const int32_t end = n + find_needs(w, &w->role->instr[i], w->needs + n);
        for (; n < end; n++) {
            const int32_t id = w->needs[n].id;
            if (w->segment_of[id] == w->segment_of[i]) continue;
            if (w->exported[id] < 0) w->exported[id] = w->nexported++;
            w->needs[n].exported = w->exported[id];
        }
    }
    w->first_need[w->role->ninstr] = n;
    const size_t cells = (size_t)w->nexported * (size_t)(1 + w->nmicro);
    w->kept = luo_arena_alloc(w->scratch, cells * sizeof *w->kept);
    if (!w->kept) return LUO_ENOMEM;
    memset(w->kept, -1, cells * sizeof *w->kept);
    return LUO_OK;
}

/* Tickets of instruction i in a task of micro-batch mb. An instruction of another segment that has
 * not run yet is nothing to wait for: the accumulation of a segment no micro-batch used. */
static int32_t gather(const walk *w, int32_t i, int32_t mb)
{
    int32_t n = 0;
    if (w->role->instr[i].at_start && w->computed >= 0) w->dep[n++] = w->computed;
    for (int32_t k = w->first_need[i]; k < w->first_need[i + 1]; k++) {
        const need *want = &w->needs[k];
        int64_t ticket = -1;
        if (want->exported < 0) {
            ticket = w->here[want->id];
        } else {
            const int64_t *row = w->kept + (int64_t)want->exported * (1 + w->nmicro);
            if (mb >= 0) ticket = row[1 + mb];
            if (ticket < 0) ticket = row[0];
        }
        if (ticket >= 0) w->dep[n++] = ticket;
    }
    return n;
}

static void keep(const walk *w, int32_t i, int32_t mb)
{
    if (w->exported[i] < 0) return;
    int64_t *row = w->kept + (int64_t)w->exported[i] * (1 + w->nmicro);
    row[0] = w->here[i];
    if (mb >= 0) row[1 + mb] = w->here[i];
}

static luo_status walk_task(walk *w, int32_t t)
{
    int64_t computed = w->computed;
    const luo_run_task *task = &w->program->tasks[t];
    const luo_segment *seg = &w->role->seg[task->seg];
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        const luo_instr *in = &w->role->instr[i];
        const luo_issue issue = {
            .instr = in,
            .slot = in->slot >= 0 ? &w->program->slots[in->slot] : NULL,
            .task = t,
            .micro_batch = task->micro_batch,
            .chunk = seg->chunk,
            .ndep = gather(w, i, task->micro_batch),
            .dep = w->dep,
        };
        LUO_TRY(w->executor->submit(w->rank, &issue, &w->here[i]));
        keep(w, i, task->micro_batch);
        if (luo_instr_lane(in) == LUO_STREAM_COMPUTE) computed = w->here[i];
    }
    w->computed = computed;
    return LUO_OK;
}

luo_status luo_interpret(const luo_executor *executor, luo_rank *rank, const luo_programs *set,
                         const luo_program *program, luo_arena *scratch)
{
    const size_t mark = luo_arena_mark(scratch);
    walk w = {.executor = executor, .rank = rank, .program = program,
              .role = &set->roles[program->role], .scratch = scratch, .computed = -1};
    luo_status st = walk_prepare(&w);
    for (int32_t t = 0; st == LUO_OK && t < program->ntask; t++) st = walk_task(&w, t);
    if (st == LUO_OK) st = executor->wait(rank, NULL, 0);
    luo_arena_reset(scratch, mark);
    return st;
}
