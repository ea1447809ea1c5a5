#include "exec/cuda/comm/comm_plan.h"

#include <string.h>

#include "core/base/hash.h"

/* ---- keys ---- */

void gpu_comm_spec_seal(gpu_comm_spec *spec)
{
    const int32_t head[4] = {(int32_t)spec->kind, spec->lane, spec->nsenders, spec->n};
    spec->hash = luo_hash_bytes(LUO_HASH_EMPTY, head, sizeof head);
    spec->hash = luo_hash_bytes(spec->hash, spec->dev, (size_t)spec->n * sizeof *spec->dev);
}

bool gpu_comm_spec_same(const gpu_comm_spec *a, const gpu_comm_spec *b)
{
    return a->hash == b->hash && a->kind == b->kind && a->lane == b->lane &&
           a->nsenders == b->nsenders && a->n == b->n &&
           memcmp(a->dev, b->dev, (size_t)a->n * sizeof *a->dev) == 0;
}

int32_t gpu_comm_spec_rank(const gpu_comm_spec *spec, int32_t device)
{
    for (int32_t i = 0; i < spec->n; i++)
        if (spec->dev[i] == device) return i;
    return -1;
}

/* ---- who is connected by messages ---- */

/* A node is an end: a device's lane. Messages join ends; a component is a communicator. */
typedef struct ends {
    luo_arena *arena;
    const luo_programs *set;
    luo_err *err;
    int32_t *up;   /* per end: towards the root of its component; -1: no message ends there */
    int32_t *spec; /* per end that is a root: its communicator; -1: not numbered */
    gpu_comm_spec *at;
    int32_t n, groups;
} ends;

static int32_t root_of(ends *e, int32_t i)
{
    while (e->up[i] != i) {
        e->up[i] = e->up[e->up[i]];
        i = e->up[i];
    }
    return i;
}

static void join(ends *e, int32_t i, int32_t k)
{
    if (e->up[i] < 0) e->up[i] = i;
    if (e->up[k] < 0) e->up[k] = k;
    const int32_t a = root_of(e, i), b = root_of(e, k);
    if (a < b)
        e->up[b] = a;
    else
        e->up[a] = b;
}

static luo_status join_slot(ends *e, int32_t dev, int32_t lane, const luo_slot *slot)
{
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const luo_program *program = luo_programs_find(e->set, slot->message[i].peer);
        if (!program)
            return luo_err_set(e->err, LUO_EINPUT,
                               "device %d has a message with device %d, which has no program; both "
                               "ends of a message need one.",
                               (int)e->set->at[dev].device, (int)slot->message[i].peer);
        join(e, dev * LUO_LANES + lane,
             (int32_t)(program - e->set->at) * LUO_LANES + luo_program_lane_peer(lane));
    }
    return LUO_OK;
}

static luo_status join_all(ends *e)
{
    for (int32_t d = 0; d < e->set->n; d++) {
        const luo_program *program = &e->set->at[d];
        const luo_role *role = &e->set->roles[program->role];
        for (int32_t i = 0; i < role->ninstr; i++) {
            const luo_instr *in = &role->instr[i];
            if (in->kind == LUO_INSTR_P2P)
                LUO_TRY(join_slot(e, d, luo_instr_lane(in), &program->slots[in->slot]));
        }
    }
    return LUO_OK;
}

/* ---- components as communicators ---- */

static bool receives_only(int32_t lane)
{
    return lane == LUO_LANE_PP_F_RECV || lane == LUO_LANE_PP_B_RECV;
}

/* Numbers the components in the order of their smallest sender, lane by lane, and counts. */
static void number(ends *e, int32_t lane)
{
    for (int32_t d = 0; d < e->set->n; d++) {
        const int32_t end = d * LUO_LANES + lane;
        if (e->up[end] < 0) continue;
        int32_t *spec = &e->spec[root_of(e, end)];
        if (*spec < 0) {
            *spec = e->n;
            e->at[e->n++] = (gpu_comm_spec){.kind = GPU_COMM_MESSAGES, .lane = lane};
        }
        e->at[*spec].n++;
        e->at[*spec].nsenders += !receives_only(lane);
    }
}

static void fill(ends *e, int32_t lane, int32_t **at)
{
    for (int32_t d = 0; d < e->set->n; d++) {
        const int32_t end = d * LUO_LANES + lane;
        if (e->up[end] >= 0) *at[e->spec[root_of(e, end)]]++ = e->set->at[d].device;
    }
}

static luo_status check_apart(const ends *e, const gpu_comm_spec *spec)
{
    for (int32_t i = 0, k = spec->nsenders; i < spec->nsenders && k < spec->n;) {
        if (spec->dev[i] == spec->dev[k])
            return luo_err_set(e->err, LUO_EUNSUP,
                               "device %d sends and receives among the same stages of a pipeline; "
                               "NCCL needs a stage that does one of the two.",
                               (int)spec->dev[i]);
        if (spec->dev[i] < spec->dev[k])
            i++;
        else
            k++;
    }
    return LUO_OK;
}

static luo_status take_components(ends *e)
{
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (!receives_only(l)) number(e, l);
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (receives_only(l)) number(e, l); /* each has a sender: nothing new */
    int32_t **at = LUO_NEW_N(e->arena, int32_t *, e->n);
    if (!at) return luo_err_nomem(e->err);
    for (int32_t i = e->groups; i < e->n; i++) {
        at[i] = LUO_NEW_N(e->arena, int32_t, e->at[i].n);
        if (!at[i]) return luo_err_nomem(e->err);
        e->at[i].dev = at[i];
    }
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (!receives_only(l)) fill(e, l, at);
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (receives_only(l)) fill(e, l, at);
    for (int32_t i = e->groups; i < e->n; i++) {
        LUO_TRY(check_apart(e, &e->at[i]));
        gpu_comm_spec_seal(&e->at[i]);
    }
    return LUO_OK;
}

/* ---- the plan ---- */

static void take_groups(ends *e, int32_t *of_group)
{
    for (int32_t g = 0; g < e->set->ngroups; g++) {
        const luo_group *group = &e->set->groups[g];
        of_group[g] = -1;
        if (group->n < 2) continue;
        of_group[g] = e->n;
        gpu_comm_spec *spec = &e->at[e->n++];
        *spec = (gpu_comm_spec){.kind = GPU_COMM_GROUP,
                                .lane = group->stream,
                                .nsenders = group->n,
                                .n = group->n,
                                .dev = group->dev};
        gpu_comm_spec_seal(spec);
    }
    e->groups = e->n;
}

/* Ends that can be the smallest of a component. */
static int32_t count_ends(const ends *e, int32_t total)
{
    int32_t n = 0;
    for (int32_t i = 0; i < total; i++) n += e->up[i] >= 0 && !receives_only(i % LUO_LANES);
    return n;
}

luo_status gpu_comm_plan_make(luo_arena *arena, const luo_programs *set, gpu_comm_plan *out,
                              luo_err *err)
{
    const int32_t total = set->n * LUO_LANES;
    ends e = {.arena = arena,
              .set = set,
              .err = err,
              .up = LUO_NEW_N(arena, int32_t, total),
              .spec = LUO_NEW_N(arena, int32_t, total)};
    int32_t *of_group = LUO_NEW_N(arena, int32_t, set->ngroups);
    int32_t *of_end = LUO_NEW_N(arena, int32_t, total);
    if (!e.up || !e.spec || !of_group || !of_end) return luo_err_nomem(err);
    for (int32_t i = 0; i < total; i++) e.up[i] = e.spec[i] = -1;
    LUO_TRY(join_all(&e));
    e.at = LUO_NEW_N(arena, gpu_comm_spec, set->ngroups + count_ends(&e, total));
    if (!e.at) return luo_err_nomem(err);
    take_groups(&e, of_group);
    LUO_TRY(take_components(&e));
    for (int32_t i = 0; i < total; i++) of_end[i] = e.up[i] < 0 ? -1 : e.spec[root_of(&e, i)];
    *out = (gpu_comm_plan){set, e.n, e.at, of_group, of_end};
    return LUO_OK;
}

int32_t gpu_comm_plan_find(const gpu_comm_plan *plan, const luo_program *program,
                           const luo_instr *instr)
{
    if (instr->kind == LUO_INSTR_COLLECTIVE)
        return plan->of_group[program->slots[instr->slot].group];
    if (instr->kind != LUO_INSTR_P2P) return -1;
    return plan->of_end[(program - plan->set->at) * LUO_LANES + luo_instr_lane(instr)];
}

/* ---- all that was ever made ---- */

int32_t gpu_comm_book_find(const gpu_comm_book *book, const gpu_comm_spec *spec)
{
    for (int32_t i = 0; i < book->n; i++)
        if (gpu_comm_spec_same(&book->at[i], spec)) return i;
    return -1;
}

static luo_status make_room(gpu_comm_book *book, int32_t more, luo_err *err)
{
    if (book->n + more <= book->cap) return LUO_OK;
    const int32_t cap = 2 * book->cap > book->n + more ? 2 * book->cap : book->n + more;
    gpu_comm_spec *at = luo_arena_grow(book->arena, book->at, (size_t)book->cap * sizeof *at,
                                       (size_t)cap * sizeof *at);
    if (!at) return luo_err_nomem(err);
    book->at = at;
    book->cap = cap;
    return LUO_OK;
}

luo_status gpu_comm_book_add(gpu_comm_book *book, int32_t n, const gpu_comm_spec *specs,
                             luo_err *err)
{
    const int32_t before = book->n;
    LUO_TRY(make_room(book, n, err));
    for (int32_t i = 0; i < n; i++) {
        if (gpu_comm_book_find(book, &specs[i]) >= 0) continue;
        int32_t *dev = LUO_NEW_N(book->arena, int32_t, specs[i].n);
        if (!dev) {
            book->n = before;
            return luo_err_nomem(err);
        }
        memcpy(dev, specs[i].dev, (size_t)specs[i].n * sizeof *dev);
        book->at[book->n] = specs[i];
        book->at[book->n++].dev = dev;
    }
    return LUO_OK;
}

/* ---- rounds ---- */

int32_t gpu_comm_rounds(luo_arena *scratch, int32_t n, const gpu_comm_spec *specs, int32_t *round)
{
    int32_t most = -1, rounds = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < specs[i].n; k++)
            if (specs[i].dev[k] > most) most = specs[i].dev[k];
    int32_t *next = LUO_NEW_N(scratch, int32_t, most + 1); /* per device: first round it has free */
    if (!next) return -1;
    for (int32_t i = 0; i < n; i++) {
        round[i] = 0;
        for (int32_t k = 0; k < specs[i].n; k++)
            if (next[specs[i].dev[k]] > round[i]) round[i] = next[specs[i].dev[k]];
        for (int32_t k = 0; k < specs[i].n; k++) next[specs[i].dev[k]] = round[i] + 1;
        if (round[i] >= rounds) rounds = round[i] + 1;
    }
    return rounds;
}
