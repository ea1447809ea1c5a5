/* spec_roles.c: devices of equal structure share a role.
 *
 * The structure of a device is the path through a tree whose edges are "holds this much of table
 * k" and "does this in step k", from a root per (class of pipelines, stage, lengths). Edges are
 * compared exactly, never by hash alone. Roles of paths that are equal but for where the pieces of
 * buckets lie are *alike*: the first of them is emitted, the others share what it has. */
#include <string.h>

#include "core/graph/specialize/spec_emit.h"

typedef struct roles {
    spec *s;
    luo_programs *out;
    luo_intern lengths; /* ascending length indices of a pipeline */
    luo_intern node, role_key, alike_key, task_key;
    int32_t *lengths_of; /* [pipeline * max stages + stage] */
    spec_tasks *joint;   /* by the same; of stages that share devices. NULL: none is absent */
    int32_t *path;       /* by device index: node of the tree */
    int32_t *alike;      /* the same, of the path that leaves out where pieces lie */
    int32_t *role_of;
    int32_t *first_alike; /* by id of alike_key: the role that is emitted */
    luo_role *role;
    const spec_slot_ref **refs;
    luo_run_task **tasks;
    int32_t *ntasks;
    int32_t *tasks_of;   /* [pipeline * max stages + stage], -1: not made */
    int32_t max_stages;
    luo_run_task *idle; /* Pre and Post of devices outside the pipelines */
} roles;

static int32_t lengths_at(const roles *r, int32_t dev)
{
    const spec *s = r->s;
    return r->lengths_of[s->pipe_of[dev] * r->max_stages + s->stage_of[dev]];
}

/* Does the stage of a pipeline stand in for absent devices of another in such micro-batches? */
static bool stands_in(const spec *s, int32_t length, int32_t p, int32_t stage)
{
    const int32_t *stands = s->in->lengths[length].stands;
    for (int32_t a = 0; stands && a < s->in->nabsent; a++)
        if (stands[a] >= 0 && s->pipe_of[stands[a]] == p && s->stage_of[stands[a]] == stage)
            return true;
    return false;
}

static luo_status list_lengths(roles *r)
{
    spec *s = r->s;
    const int32_t P = s->in->npipelines, n = s->in->nlengths;
    int32_t *key = LUO_NEW_N(s->scratch, int32_t, n);
    r->lengths_of = LUO_NEW_N(s->arena, int32_t, (int64_t)P * r->max_stages);
    if (!key || !r->lengths_of) return luo_err_nomem(s->err);
    for (int32_t p = 0; p < P; p++)
        for (int32_t stage = 0; stage < r->max_stages; stage++) {
            int32_t m = 0, *id = &r->lengths_of[p * r->max_stages + stage];
            for (int32_t k = 0; k < n; k++)
                if (s->has_length[k * P + p] || stands_in(s, k, p, stage)) key[m++] = k;
            *id = luo_intern_id(&r->lengths, key, m, NULL);
            if (*id < 0) return luo_err_nomem(s->err);
        }
    return LUO_OK;
}

/* On the edge (a, b), and on (a, alike) where pieces are left out. */
static luo_status walk_both(roles *r, int32_t device, int32_t a, int32_t b, int32_t alike)
{
    const int32_t i = r->s->index_of[device];
    const bool one = r->path[i] == r->alike[i] && b == alike;
    const int32_t whole[3] = {r->path[i], a, b}, left[3] = {r->alike[i], a, alike};
    r->path[i] = luo_intern_id(&r->node, whole, 3, NULL);
    r->alike[i] = one ? r->path[i] : luo_intern_id(&r->node, left, 3, NULL);
    return r->path[i] >= 0 && r->alike[i] >= 0 ? LUO_OK : luo_err_nomem(r->s->err);
}

static luo_status walk(roles *r, int32_t device, int32_t a, int32_t b)
{
    return walk_both(r, device, a, b, b);
}

/* The turns of a device: buckets, calls of them, lanes, and which call was the latest of the same
 * group. of_group: by group, the turn it was seen in last + 1; n: turns looked at so far. */
static luo_status walk_turns(roles *r, int32_t i, int32_t *of_group, int32_t *n)
{
    const spec *s = r->s;
    const int32_t before = *n;
    for (int32_t j = s->first_turn[i]; j < s->first_turn[i + 1]; j++) {
        const spec_step *step = &s->bucket[s->turn[j].bucket].step;
        const int32_t at = luo_spec_take_part(step, s->dev[i]);
        const spec_turn *turn = &s->turn[j];
        int32_t *last = &of_group[step->item[step->first[at] + turn->item].slot.group];
        const int32_t now = ++*n;
        LUO_TRY(walk(r, s->dev[i], -2 - turn->bucket, turn->item));
        LUO_TRY(walk(r, s->dev[i], turn->lane, *last > before ? now - *last : 0));
        *last = now;
    }
    return LUO_OK;
}

static luo_status walk_all_turns(roles *r)
{
    spec *s = r->s;
    int32_t *of_group = LUO_NEW_N(s->scratch, int32_t, s->group_key.n), n = 0;
    if (!of_group) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < s->ndev; i++) LUO_TRY(walk_turns(r, i, of_group, &n));
    return LUO_OK;
}

/* Devices whose experts are others have other loads. */
static luo_status walk_loads(roles *r)
{
    int32_t *place;
    LUO_TRY(luo_spec_load_places(r->s, &place));
    for (int32_t i = 0; i < r->s->ndev; i++)
        LUO_TRY(walk(r, r->s->dev[i], -3, place[r->s->dev[i]]));
    return LUO_OK;
}

static luo_status find_paths(roles *r)
{
    spec *s = r->s;
    r->path = LUO_NEW_N(s->arena, int32_t, s->ndev);
    r->alike = LUO_NEW_N(s->arena, int32_t, s->ndev);
    if (!r->path || !r->alike) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < s->ndev; i++) {
        const int32_t dev = s->dev[i], p = s->pipe_of[dev];
        const int32_t key[4] = {-1, p < 0 ? -1 : s->class_of[p], s->stage_of[dev],
                                p < 0 ? -1 : lengths_at(r, dev)};
        r->path[i] = r->alike[i] = luo_intern_id(&r->node, key, 4, NULL);
        if (r->path[i] < 0) return luo_err_nomem(s->err);
        if (p >= 0 && s->g->npipelines > 0)
            LUO_TRY(walk(r, dev, -2, luo_spec_part_differs(s, dev)));
    }
    for (int32_t t = 0; t < s->table_key.n; t++)
        for (int32_t i = 0; i < s->table[t].n; i++) {
            const int32_t dev = s->table[t].dev[i];
            if (s->index_of[dev] >= 0) LUO_TRY(walk(r, dev, 2 * t, s->table[t].dims[i]));
        }
    for (int32_t m = 0; m < s->move_key.n; m++)
        for (int32_t k = 0; k < s->move[m].nsteps; k++) {
            const spec_step *t = &s->move[m].step[k];
            for (int32_t i = 0; i < t->n; i++)
                LUO_TRY(walk_both(r, t->dev[i], 2 * t->id + 1, t->structure[i], t->alike[i]));
        }
    if (s->in->load) LUO_TRY(walk_loads(r));
    return s->nbuckets ? walk_all_turns(r) : LUO_OK;
}

static luo_status emit_role(roles *r, int32_t i, int32_t id)
{
    spec *s = r->s;
    const int32_t p = s->pipe_of[s->dev[i]];
    const struct luo_intern_key none = {0};
    const struct luo_intern_key *key = p < 0 ? &none : &r->lengths.key[lengths_at(r, s->dev[i])];
    bool fresh;
    const int32_t k = luo_intern_id(&r->alike_key, &r->alike[i], 1, &fresh);
    if (k < 0) return luo_err_nomem(s->err);
    if (fresh) {
        r->first_alike[k] = id;
        LUO_TRY(luo_spec_emit_role(s, s->dev[i], key->at, key->len, &r->role[id], &r->refs[id]));
    } else {
        r->role[id] = r->role[r->first_alike[k]];
        r->refs[id] = r->refs[r->first_alike[k]];
    }
    return luo_spec_place_pieces(s, s->dev[i], r->refs[id], &r->role[id]);
}

/* Roles in the order of their first device. */
static luo_status emit_roles(roles *r)
{
    spec *s = r->s;
    r->role_of = LUO_NEW_N(s->arena, int32_t, s->ndev);
    r->role = LUO_NEW_N(s->arena, luo_role, s->ndev);
    r->refs = LUO_NEW_N(s->arena, const spec_slot_ref *, s->ndev);
    r->first_alike = LUO_NEW_N(s->scratch, int32_t, s->ndev);
    if (!r->role_of || !r->role || !r->refs || !r->first_alike) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < s->ndev; i++) {
        bool fresh;
        const int32_t id = luo_intern_id(&r->role_key, &r->path[i], 1, &fresh);
        if (id < 0) return luo_err_nomem(s->err);
        r->role_of[i] = id;
        if (!fresh) continue;
        LUO_TRY(emit_role(r, i, id));
    }
    return LUO_OK;
}

/* ---- tasks ---- */

static int32_t position(const struct luo_intern_key *list, int32_t v)
{
    for (int32_t i = 0; i < list->len; i++)
        if (list->at[i] == v) return i;
    return 0;
}

/* Segment numbers follow luo_spec_emit_role: Pre, per length F chunks then B chunks (or BI, then
 * BW), Post. */
static int32_t part_of(luo_task_phase phase)
{
    return phase == LUO_TASK_F ? 0 : phase == LUO_TASK_BW ? 2 : 1;
}

int32_t luo_spec_segment(const spec_joint_in *in, const spec *s, int32_t dev, int32_t length,
                         luo_task_phase phase)
{
    const int32_t at = s->pipe_of[dev] * in->max_stages + s->stage_of[dev];
    const int32_t k = position(&in->lengths->key[in->lengths_of[at]], length);
    return 1 + luo_sched_phases(s->in->schedule) * k + part_of(phase);
}

static luo_status join_tasks(roles *r)
{
    const spec_joint_in in = {r->role, r->role_of, &r->lengths, r->lengths_of, r->max_stages};
    const int64_t n = (int64_t)r->s->in->npipelines * r->max_stages;
    if (!r->s->in->nabsent) return LUO_OK;
    r->joint = LUO_NEW_N(r->s->scratch, spec_tasks, n);
    if (!r->joint) return luo_err_nomem(r->s->err);
    return luo_spec_join_tasks(r->s, &in, r->joint);
}

static luo_status make_tasks(roles *r, const luo_pipe *pipe, const struct luo_intern_key *lengths,
                             int32_t S, int32_t stage, int32_t v, int32_t id)
{
    spec *s = r->s;
    const luo_task *order;
    const int32_t phases = luo_sched_phases(s->in->schedule);
    int32_t n;
    LUO_TRY(luo_sched_make(s->scratch, s->in->schedule, S, stage, pipe->micro_batches, v, &order,
                           &n, s->err));
    luo_run_task *task = LUO_NEW_N(s->arena, luo_run_task, n + 2);
    if (!task) return luo_err_nomem(s->err);
    task[0] = (luo_run_task){0, -1};
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = position(lengths, pipe->length[order[i].micro_batch]);
        const int32_t seg = 1 + (phases * k + part_of(order[i].phase)) * v + order[i].chunk;
        task[1 + i] = (luo_run_task){seg, order[i].micro_batch};
    }
    task[n + 1] = (luo_run_task){1 + phases * v * lengths->len, -1};
    r->tasks[id] = task;
    r->ntasks[id] = n + 2;
    return LUO_OK;
}

/* Tasks of a stage; equal lists are made once. */
static luo_status tasks_id(roles *r, int32_t p, int32_t stage, int32_t *id)
{
    spec *s = r->s;
    int32_t *memo = &r->tasks_of[p * r->max_stages + stage];
    *id = *memo - 1;
    if (*memo) return LUO_OK;
    const spec_class *class = &s->cls[s->class_of[p]];
    const luo_pipe *pipe = &s->in->pipes[p];
    const size_t mark = luo_arena_mark(s->scratch);
    int32_t *key = LUO_NEW_N(s->scratch, int32_t, pipe->micro_batches + 4);
    if (!key) return luo_err_nomem(s->err);
    key[0] = class->S;
    key[1] = stage;
    key[2] = class->v;
    key[3] = r->lengths_of[p * r->max_stages + stage];
    if (pipe->micro_batches)
        memcpy(key + 4, pipe->length, (size_t)pipe->micro_batches * sizeof *key);
    bool fresh;
    *id = luo_intern_id(&r->task_key, key, pipe->micro_batches + 4, &fresh);
    luo_status st = *id >= 0 ? LUO_OK : luo_err_nomem(s->err);
    if (st == LUO_OK && fresh)
        st = make_tasks(r, pipe, &r->lengths.key[key[3]], class->S, stage, class->v, *id);
    luo_arena_reset(s->scratch, mark);
    *memo = *id + 1;
    return st;
}

/* ---- devices ---- */

static luo_status fill_slots(roles *r, int32_t i, luo_program *program)
{
    const spec *s = r->s;
    const luo_role *role = &r->role[program->role];
    luo_slot *slot = LUO_NEW_N(s->arena, luo_slot, role->nslot);
    if (!slot) return luo_err_nomem(s->err);
    for (int32_t k = 0; k < role->nslot; k++) {
        const spec_slot_ref *ref = &r->refs[program->role][k];
        const int32_t at = luo_spec_take_part(ref->step, s->dev[i]);
        slot[k] = ref->step->item[ref->step->first[at] + ref->item].slot;
    }
    program->slots = slot;
    return LUO_OK;
}

static luo_status make_programs(roles *r)
{
    spec *s = r->s;
    luo_program *at = LUO_NEW_N(s->arena, luo_program, s->ndev);
    if (!at) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < s->ndev; i++) {
        const int32_t dev = s->dev[i];
        luo_program *program = &at[i];
        *program = (luo_program){.device = dev,
                                 .pipeline = s->pipe_of[dev],
                                 .stage = s->stage_of[dev],
                                 .role = r->role_of[i]};
        int32_t id;
        if (program->pipeline < 0) {
            program->tasks = r->idle;
            program->ntask = 2;
        } else if (r->joint && r->joint[program->pipeline * r->max_stages + program->stage].at) {
            const spec_tasks *tasks = &r->joint[program->pipeline * r->max_stages + program->stage];
            program->tasks = tasks->at;
            program->ntask = tasks->n;
        } else {
            LUO_TRY(tasks_id(r, program->pipeline, program->stage, &id));
            program->tasks = r->tasks[id];
            program->ntask = r->ntasks[id];
        }
        LUO_TRY(fill_slots(r, i, program));
    }
    r->out->n = s->ndev;
    r->out->at = at;
    r->out->nroles = r->role_key.n;
    r->out->roles = r->role;
    return LUO_OK;
}

static luo_status prepare_tasks(roles *r)
{
    spec *s = r->s;
    const int32_t P = s->in->npipelines;
    const int64_t n = (int64_t)P * r->max_stages;
    r->tasks_of = LUO_NEW_N(s->arena, int32_t, n);
    r->tasks = LUO_NEW_N(s->arena, luo_run_task *, n);
    r->ntasks = LUO_NEW_N(s->arena, int32_t, n);
    r->idle = LUO_NEW_N(s->arena, luo_run_task, 2);
    if (!r->tasks_of || !r->tasks || !r->ntasks || !r->idle) return luo_err_nomem(s->err);
    r->idle[0] = (luo_run_task){0, -1};
    r->idle[1] = (luo_run_task){1, -1};
    return LUO_OK;
}

luo_status luo_spec_make_roles(spec *s, luo_programs *out)
{
    roles r = {.s = s, .out = out};
    luo_intern_init(&r.lengths, s->arena);
    luo_intern_init(&r.node, s->scratch);
    luo_intern_init(&r.role_key, s->arena);
    luo_intern_init(&r.alike_key, s->scratch);
    luo_intern_init(&r.task_key, s->arena);
    for (int32_t k = 0; k < s->nclasses; k++)
        if (s->cls[k].S > r.max_stages) r.max_stages = s->cls[k].S;
    LUO_TRY(list_lengths(&r));
    LUO_TRY(find_paths(&r));
    if (s->patterns) LUO_TRY(luo_spec_begin_patterns(s));
    LUO_TRY(emit_roles(&r));
    LUO_TRY(prepare_tasks(&r));
    LUO_TRY(join_tasks(&r));
    return make_programs(&r);
}
