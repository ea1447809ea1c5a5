/* program_check.c: luo_program_check, and what can be asked without running anything:
 * ranges, writes before reads, one backward for each forward, groups and their users. */
#include <string.h>

#include "core/base/hash.h"
#include "core/graph/intern.h"
#include "core/graph/program/check_internal.h"

typedef struct checker {
    const luo_programs *set;
    luo_arena *scratch;
    luo_err *err;
    int64_t tasks; /* of all lists */
} checker;

static luo_status broken(const checker *c, int32_t role, int32_t instr, const char *what)
{
    return luo_err_set(c->err, LUO_EINPUT, "role %d, instruction %d: %s.", (int)role, (int)instr,
                       what);
}

/* ---- roles ---- */

static bool in_range(const int32_t *at, int32_t n, int32_t limit)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= limit) return false;
    return true;
}

/* Pieces lie in buffers of one element size that the call reads, and add up to its bytes. */
static luo_status check_pieces(const checker *c, int32_t role, const luo_instr *in)
{
    const luo_role *r = &c->set->roles[role];
    int64_t left = in->bytes;
    if (in->npieces && in->kind != LUO_INSTR_COLLECTIVE)
        return broken(c, role, in->id, "only a collective has pieces");
    for (int32_t k = 0; k < in->npieces; k++) {
        const luo_instr_piece *piece = &in->piece[k];
        if (piece->buffer < 0 || piece->buffer >= r->nbuf)
            return broken(c, role, in->id, "a piece names a buffer that the role does not have");
        const luo_buffer *buffer = &r->buf[piece->buffer];
        if (buffer->elem_bytes < 1 || buffer->elem_bytes != r->buf[in->piece[0].buffer].elem_bytes)
            return broken(c, role, in->id, "its pieces have elements of different sizes");
        const int64_t holds = buffer->bytes / buffer->elem_bytes;
        const int64_t offset = r->offset[in->first_piece + k];
        if (offset > holds || piece->count > holds - offset)
            return broken(c, role, in->id, "a piece ends outside of its buffer");
        left -= piece->count * buffer->elem_bytes;
        const bool gathers = in->coll == LUO_COLL_AG;
        if (k >= in->nin || k >= in->nout || (gathers ? in->out[k] : in->in[k]) != piece->buffer ||
            r->buf[gathers ? in->in[k] : in->out[k]].elem_bytes != buffer->elem_bytes)
            return broken(c, role, in->id, "it reads and writes other buffers than its pieces'");
    }
    return in->npieces && left != 0 ? broken(c, role, in->id, "its pieces are not its bytes")
                                    : LUO_OK;
}

static bool good_variant(const luo_instr *in)
{
    const bool pieces = in->coll == LUO_COLL_AG || in->coll == LUO_COLL_RS;
    if (in->variant == LUO_COLL_AUTO) return true;
    if (in->kind != LUO_INSTR_COLLECTIVE || !pieces) return false;
    return in->variant == LUO_COLL_GROUPED || (in->variant == LUO_COLL_PADDED && in->v);
}

static luo_status check_instr(const checker *c, int32_t role, const luo_segment *seg, int32_t i)
{
    const luo_role *r = &c->set->roles[role];
    const luo_instr *in = &r->instr[i];
    const bool comm = in->kind == LUO_INSTR_COLLECTIVE || in->kind == LUO_INSTR_P2P;
    if (in->id != i) return broken(c, role, i, "its id is not its position");
    if (in->kind > LUO_INSTR_IO || in->stream >= LUO_STREAMS || in->coll >= LUO_COLLS)
        return broken(c, role, i, "its kind is not known");
    if (in->kind == LUO_INSTR_COLLECTIVE && in->stream == LUO_STREAM_PP)
        return broken(c, role, i, "stream pp carries messages only");
    if (in->lane >= LUO_DP_LANES ||
        (in->lane && ((in->kind != LUO_INSTR_COLLECTIVE && in->kind != LUO_INSTR_P2P) ||
                      in->stream != LUO_STREAM_DP)))
        return broken(c, role, i, "only communication of stream dp has a lane, 0 to 3");
    if (!good_variant(in))
        return broken(c, role, i,
                      "only gathers and scatters have a variant, padded of uneven pieces");
    if (in->phase != seg->phase) return broken(c, role, i, "its phase is not its segment's");
    if (in->op < 0 || in->op >= c->set->nops) return broken(c, role, i, "its op is not listed");
    if (!in_range(in->in, in->nin, r->nbuf) || !in_range(in->out, in->nout, r->nbuf))
        return broken(c, role, i, "it names a buffer that the role does not have");
    if (!in_range(in->dep, in->ndep, r->ninstr))
        return broken(c, role, i, "it waits for an instruction that the role does not have");
    if (comm ? in->slot < 0 || in->slot >= r->nslot : in->slot >= 0)
        return broken(c, role, i, "communication needs a slot of the role, nothing else has one");
    if (in->at_start && in->kind != LUO_INSTR_COLLECTIVE && in->kind != LUO_INSTR_P2P)
        return broken(c, role, i, "only communication waits for the tasks before");
    LUO_TRY(check_pieces(c, role, in));
    for (int32_t k = 0; k < in->ndep; k++)
        if (in->dep[k] >= i && in->dep[k] < seg->first + seg->n)
            return broken(c, role, i, "it waits for a later instruction of its own segment");
    return LUO_OK;
}

/* A buffer is written before it is read: in its segment, or by F if B reads what is kept, or by BI
 * if BW does. State and running sums hold values when the step begins, and what has no cells here
 * has none to be written. */
static luo_status check_reads(const checker *c, int32_t role, int32_t s, int32_t *written,
                              bool *before)
{
    const luo_role *r = &c->set->roles[role];
    const luo_segment *seg = &r->seg[s];
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        const luo_instr *in = &r->instr[i];
        for (int32_t k = 0; k < in->nin; k++) {
            const int32_t b = in->in[k], kind = r->buf[b].buffer_class;
            if (kind <= LUO_BUFFER_OPTIMIZER || written[b] == s + 1 || r->buf[b].bytes == 0)
                continue;
            if (kind == LUO_BUFFER_STASH && luo_phase_is_backward(seg->phase) && before[b])
                continue;
            return luo_err_set(c->err, LUO_EINPUT,
                               "role %d, instruction %d (`%s`) reads `%s` before anything has "
                               "written it.",
                               (int)role, (int)i, c->set->ops[in->op].name, r->buf[b].tensor);
        }
        for (int32_t k = 0; k < in->nout; k++) {
            written[in->out[k]] = s + 1;
            before[in->out[k]] |= seg->phase == LUO_PHASE_F || seg->phase == LUO_PHASE_BI;
        }
    }
    return LUO_OK;
}

static luo_status check_role(const checker *c, int32_t role)
{
    const luo_role *r = &c->set->roles[role];
    const size_t mark = luo_arena_mark(c->scratch);
    int32_t *written = LUO_NEW_N(c->scratch, int32_t, r->nbuf);
    bool *before = LUO_NEW_N(c->scratch, bool, r->nbuf);
    if (!written || !before) return luo_err_nomem(c->err);
    int32_t next = 0;
    for (int32_t s = 0; s < r->nseg; s++) {
        const luo_segment *seg = &r->seg[s];
        if (seg->first != next || seg->n < 0 || seg->n > r->ninstr - seg->first)
            return broken(c, role, next, "segments do not follow each other");
        next = seg->first + seg->n;
        for (int32_t i = seg->first; i < next; i++) LUO_TRY(check_instr(c, role, seg, i));
        LUO_TRY(check_reads(c, role, s, written, before));
    }
    luo_arena_reset(c->scratch, mark);
    return next == r->ninstr ? LUO_OK : broken(c, role, next, "it is in no segment");
}

/* ---- tasks ---- */

typedef struct pairing {               /* of one (micro-batch, chunk) */
    int32_t forward, backward, weight; /* weight: gradients of weights, B or BW */
    int64_t tokens;
} pairing;

static luo_status pair_task(const checker *c, const luo_program *program, int32_t t, pairing *at,
                            int32_t chunks)
{
    const luo_run_task *task = &program->tasks[t];
    const luo_segment *seg = &c->set->roles[program->role].seg[task->seg];
    if (!luo_phase_in_task(seg->phase)) return LUO_OK;
    pairing *q = &at[(int64_t)task->micro_batch * chunks + seg->chunk];
    if (seg->phase == LUO_PHASE_F) {
        q->forward++;
        q->tokens = seg->tokens;
        return LUO_OK;
    }
    q->backward += luo_phase_begins_backward(seg->phase);
    q->weight += luo_phase_ends_backward(seg->phase);
    if (q->forward == q->backward && q->weight <= q->backward && q->tokens == seg->tokens)
        return LUO_OK;
    if (seg->phase == LUO_PHASE_BW)
        return luo_err_set(c->err, LUO_EINPUT,
                           "device %d: weight gradients of micro-batch %d (chunk %d, %lld tokens) "
                           "do not follow input gradients of as many tokens.",
                           (int)program->device, (int)task->micro_batch, (int)seg->chunk,
                           (long long)seg->tokens);
    return luo_err_set(c->err, LUO_EINPUT,
                       "device %d: backward of micro-batch %d (chunk %d, %lld tokens) does not "
                       "follow one forward of as many tokens.",
                       (int)program->device, (int)task->micro_batch, (int)seg->chunk,
                       (long long)seg->tokens);
}

static luo_status check_pair(const checker *c, const luo_program *program, const pairing *q,
                             int32_t micro_batch, int32_t chunk)
{
    if (q->forward != q->backward || q->forward > 1)
        return luo_err_set(c->err, LUO_EINPUT,
                           "device %d: micro-batch %d (chunk %d) runs forward %d times and "
                           "backward %d times; each once is right.",
                           (int)program->device, (int)micro_batch, (int)chunk, (int)q->forward,
                           (int)q->backward);
    if (q->weight != q->backward)
        return luo_err_set(c->err, LUO_EINPUT,
                           "device %d: micro-batch %d (chunk %d) makes its weight gradients %d "
                           "times; once is right.",
                           (int)program->device, (int)micro_batch, (int)chunk, (int)q->weight);
    return LUO_OK;
}

static luo_status check_tasks(const checker *c, const luo_program *program)
{
    const luo_role *role = &c->set->roles[program->role];
    int32_t batches = 0, chunks = 1;
    for (int32_t t = 0; t < program->ntask; t++) {
        const luo_run_task *task = &program->tasks[t];
        if (task->seg < 0 || task->seg >= role->nseg)
            return luo_err_set(c->err, LUO_EINPUT, "device %d: task %d names segment %d of %d.",
                               (int)program->device, (int)t, (int)task->seg, (int)role->nseg);
        const bool per_batch = luo_phase_in_task(role->seg[task->seg].phase);
        if (per_batch != (task->micro_batch >= 0) || task->micro_batch >= c->tasks ||
            role->seg[task->seg].chunk < 0 || role->seg[task->seg].chunk >= role->nseg)
            return luo_err_set(c->err, LUO_EINPUT,
                               "device %d: task %d of segment %d has micro-"
                               "batch %d.",
                               (int)program->device, (int)t, (int)task->seg,
                               (int)task->micro_batch);
        if (task->micro_batch >= batches) batches = task->micro_batch + 1;
        if (role->seg[task->seg].chunk >= chunks) chunks = role->seg[task->seg].chunk + 1;
    }
    /* A pair has two tasks on every device that runs it. Numbers of micro-batches may have gaps: a
     * device that stands in for another runs some of those of several pipelines. */
    if ((int64_t)batches * chunks > c->tasks + 1)
        return luo_err_set(c->err, LUO_EINPUT,
                           "device %d: the %lld tasks of all lists are too few "
                           "for %d micro-batches in %d chunks.",
                           (int)program->device, (long long)c->tasks, (int)batches, (int)chunks);
    const size_t mark = luo_arena_mark(c->scratch);
    pairing *at = LUO_NEW_N(c->scratch, pairing, (int64_t)batches * chunks);
    if (!at) return luo_err_nomem(c->err);
    for (int32_t t = 0; t < program->ntask; t++) LUO_TRY(pair_task(c, program, t, at, chunks));
    for (int64_t i = 0; i < (int64_t)batches * chunks; i++)
        LUO_TRY(check_pair(c, program, &at[i], (int32_t)(i / chunks), (int32_t)(i % chunks)));
    luo_arena_reset(c->scratch, mark);
    return LUO_OK;
}

/* Tasks of all lists; devices of a stage share theirs. */
static bool count_tasks(checker *c)
{
    luo_map seen = {0};
    bool good = true;
    for (int32_t i = 0; good && i < c->set->n; i++) {
        const luo_program *program = &c->set->at[i];
        const int64_t *first = luo_map_at(&seen, (uint64_t)(uintptr_t)program->tasks, i);
        good = first != NULL;
        if (good && *first == i) c->tasks += program->ntask;
    }
    luo_map_free(&seen);
    return good;
}

/* ---- slots and groups ---- */

static luo_status check_slot(const checker *c, const luo_program *program, int32_t k,
                             int32_t *users)
{
    const luo_slot *slot = &program->slots[k];
    if (slot->group < 0) {
        for (int32_t i = 0; i < slot->nmessage; i++)
            if (slot->message[i].peer == program->device ||
                !luo_programs_find(c->set, slot->message[i].peer))
                return luo_err_set(c->err, LUO_EINPUT,
                                   "device %d exchanges messages with device "
                                   "%d, which has no program.",
                                   (int)program->device, (int)slot->message[i].peer);
        return LUO_OK;
    }
    if (slot->group >= c->set->ngroups)
        return luo_err_set(c->err, LUO_EINPUT, "device %d, slot %d: group %d is not listed.",
                           (int)program->device, (int)k, (int)slot->group);
    for (int32_t i = 0; i < k; i++)
        if (program->slots[i].group == slot->group) return LUO_OK;
    users[slot->group]++;
    return LUO_OK;
}

static bool uses(const luo_programs *set, int32_t device, int32_t group)
{
    const luo_program *program = luo_programs_find(set, device);
    for (int32_t k = 0; program && k < set->roles[program->role].nslot; k++)
        if (program->slots[k].group == group) return true;
    return false;
}

/* Members of a group are exactly the devices that use it. */
static luo_status check_groups(const checker *c)
{
    int32_t *users = LUO_NEW_N(c->scratch, int32_t, c->set->ngroups);
    if (!users) return luo_err_nomem(c->err);
    for (int32_t i = 0; i < c->set->n; i++)
        for (int32_t k = 0; k < c->set->roles[c->set->at[i].role].nslot; k++)
            LUO_TRY(check_slot(c, &c->set->at[i], k, users));
    for (int32_t g = 0; g < c->set->ngroups; g++) {
        const luo_group *group = &c->set->groups[g];
        for (int32_t i = 0; i < group->n; i++)
            if (!uses(c->set, group->dev[i], g))
                return luo_err_set(c->err, LUO_EINPUT,
                                   "device %d is in group %d but never calls "
                                   "it; device %d waits for it.",
                                   (int)group->dev[i], (int)g,
                                   (int)group->dev[i ? 0 : group->n - 1]);
        if (users[g] != group->n)
            return luo_err_set(c->err, LUO_EINPUT, "group %d of %d devices is called by %d.",
                               (int)g, (int)group->n, (int)users[g]);
    }
    return LUO_OK;
}

static luo_status check_kinds(const checker *c, const luo_program *program)
{
    const luo_role *role = &c->set->roles[program->role];
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->slot < 0) continue;
        const luo_slot *slot = &program->slots[in->slot];
        const bool collective = in->kind == LUO_INSTR_COLLECTIVE;
        if (collective != (slot->group >= 0) || slot->group >= c->set->ngroups ||
            (collective && c->set->groups[slot->group].stream != in->stream))
            return luo_err_set(c->err, LUO_EINPUT,
                               "device %d, `%s`: slot %d is not of the instruction's kind and "
                               "stream.",
                               (int)program->device, c->set->ops[in->op].name, (int)in->slot);
    }
    return LUO_OK;
}

/* ---- the whole ---- */

/* One expansion per (role, task list); where pieces lie makes no difference. */
static luo_status expand_all(const checker *c, const check_list **lists)
{
    const int32_t *alike;
    luo_intern key;
    luo_intern_init(&key, c->scratch);
    check_list **made = LUO_NEW_N(c->scratch, check_list *, c->set->n);
    if (!made || luo_roles_alike(c->scratch, c->set, &alike) != LUO_OK)
        return luo_err_nomem(c->err);
    for (int32_t i = 0; i < c->set->n; i++) {
        const luo_program *program = &c->set->at[i];
        const uintptr_t t = (uintptr_t)program->tasks;
        const int32_t k[4] = {alike[program->role], (int32_t)(uint32_t)t,
                              (int32_t)(uint32_t)(t >> 32), program->ntask};
        bool fresh;
        const int32_t id = luo_intern_id(&key, k, 4, &fresh);
        if (id < 0) return luo_err_nomem(c->err);
        if (fresh) {
            LUO_TRY(check_tasks(c, program));
            made[id] = LUO_NEW(c->scratch, check_list);
            if (!made[id]) return luo_err_nomem(c->err);
            const luo_status st =
                luo_check_expand(c->scratch, &c->set->roles[program->role], program->tasks,
                                 program->ntask, made[id], c->err);
            if (st != LUO_OK) return luo_err_prefix(c->err, st, "device %d", (int)program->device);
        }
        lists[i] = made[id];
    }
    return LUO_OK;
}

luo_status luo_program_check(luo_arena *scratch, const luo_programs *set, luo_err *err)
{
    checker c = {.set = set, .scratch = scratch, .err = err};
    if (!count_tasks(&c)) return luo_err_nomem(err);
    const check_list **lists = LUO_NEW_N(scratch, const check_list *, set->n);
    if (!lists) return luo_err_nomem(err);
    for (int32_t r = 0; r < set->nroles; r++) LUO_TRY(check_role(&c, r));
    for (int32_t i = 0; i < set->n; i++)
        if (set->at[i].role < 0 || set->at[i].role >= set->nroles)
            return luo_err_set(err, LUO_EINPUT, "device %d has role %d of %d.",
                               (int)set->at[i].device, (int)set->at[i].role, (int)set->nroles);
    for (int32_t i = 0; i < set->n; i++) LUO_TRY(check_kinds(&c, &set->at[i]));
    LUO_TRY(check_groups(&c));
    LUO_TRY(expand_all(&c, lists));
    return luo_check_run(scratch, set, lists, true, err);
}
