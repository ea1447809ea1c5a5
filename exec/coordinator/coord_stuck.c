/* coord_stuck.c: who waits for whom in workers that hangs, from the progress report of its ranks:
 * a chain from the first device that waits to one that does not. */
#include <stdio.h>
#include <string.h>

#include "core/base/devset.h"
#include "exec/coordinator/coord.h"

enum { CHAIN = 8 };

typedef struct scene {
    const luo_workers *f;
    const luo_programs *set;
    luo_str text;
    int32_t seen[CHAIN]; /* devices of the chain so far */
    int nseen;
} scene;

static const luo_workers_rank *rank_of(const scene *s, int32_t device)
{
    const int32_t r = luo_workers_rank_of(s->f, device);
    return r < 0 ? NULL : &s->f->at[r];
}

/* Instruction at hand; NULL: none. */
static const luo_instr *instr_of(const scene *s, int32_t device, const luo_program **program)
{
    const luo_workers_rank *rank = rank_of(s, device);
    const luo_program *p = luo_programs_find(s->set, device);
    if (!rank || !p || rank->answered || rank->where.silent || rank->where.job < 0) return NULL;
    const luo_role *role = &s->set->roles[p->role];
    if (program) *program = p;
    return rank->where.instr >= 0 && rank->where.instr < role->ninstr
               ? &role->instr[rank->where.instr]
               : NULL;
}

static bool waits(const scene *s, int32_t device)
{
    const luo_instr *in = instr_of(s, device, NULL);
    return in && in->slot >= 0 && rank_of(s, device)->where.waiting;
}

static const char *name_of(const scene *s, const luo_instr *in)
{
    return in->op >= 0 && in->op < s->set->nops ? s->set->ops[in->op].name
                                                : luo_instr_kind_name(in->kind);
}

/* The peer of a message that best explains the wait: one that does not wait itself. */
static int32_t say_message(scene *s, const luo_instr *in, const luo_slot *slot)
{
    const luo_message *message = slot->nmessage > 0 ? &slot->message[0] : NULL;
    for (int32_t i = slot->nmessage - 1; i >= 0; i--)
        if (!waits(s, slot->message[i].peer)) message = &slot->message[i];
    if (!message) return -1;
    luo_str_addf(&s->text, "waits in %s of `%s` %s device %d (%s, instruction %d)",
                 message->send ? "send" : "recv", name_of(s, in), message->send ? "to" : "from",
                 message->peer, luo_stream_name(in->stream), in->id);
    return message->peer;
}

/* Whether a device waits in that very communication. An operation may have an exchange in which one
 * device is in several groups, so the group has to be the same, too. */
static bool takes_part(const scene *s, int32_t device, const luo_instr *in, const luo_slot *slot)
{
    const luo_program *program = NULL;
    const luo_instr *other = instr_of(s, device, &program);
    return waits(s, device) && other->kind == in->kind && other->exchange == in->exchange &&
           other->op == in->op && program->slots[other->slot].group == slot->group;
}

/* The first member that is not in the same communication; those that do not wait come first. */
static int32_t say_collective(scene *s, int32_t device, const luo_instr *in, const luo_slot *slot)
{
    const luo_group *group = &s->set->groups[slot->group];
    int32_t peer = -1;
    for (int32_t i = group->n - 1; i >= 0; i--) {
        if (group->dev[i] == device || takes_part(s, group->dev[i], in, slot)) continue;
        if (peer < 0 || !waits(s, group->dev[i])) peer = group->dev[i];
    }
    luo_str_addf(&s->text, "waits in %s of `%s`, group ", luo_coll_name(in->coll), name_of(s, in));
    luo_devset_print(&s->text, group->dev, group->n);
    luo_str_addf(&s->text, " (%s, instruction %d)", luo_stream_name(in->stream), in->id);
    if (peer >= 0) luo_str_addf(&s->text, " for device %d", peer);
    return peer;
}

static void say_idle(scene *s, int32_t device, bool waited_for)
{
    const luo_workers_rank *rank = rank_of(s, device);
    const luo_instr *in = instr_of(s, device, NULL);
    luo_str_addf(&s->text, "device %d %s", device, waited_for ? "never issued it: it " : "");
    if (!rank)
        luo_str_add(&s->text, "has no process");
    else if (rank->where.silent)
        luo_str_addf(&s->text, "does not answer (process %lld on %s)", (long long)rank->pid,
                     rank->host);
    else if (rank->answered || rank->where.job < 0)
        luo_str_add(&s->text, "has ended its part");
    else if (in)
        luo_str_addf(&s->text, "is in `%s` (%s, instruction %d)", name_of(s, in),
                     luo_stream_name(in->stream), in->id);
    else
        luo_str_add(&s->text, "is between instructions");
}

/* Says what keeps a device; returns the device it waits for, -1: it does not wait. */
static int32_t say(scene *s, int32_t device, bool waited_for)
{
    const luo_program *program = NULL;
    const luo_instr *in = instr_of(s, device, &program);
    if (!waits(s, device)) {
        say_idle(s, device, waited_for);
        return -1;
    }
    luo_str_addf(&s->text, "device %d ", device);
    const luo_slot *slot = &program->slots[in->slot];
    return in->kind == LUO_INSTR_COLLECTIVE ? say_collective(s, device, in, slot)
                                            : say_message(s, in, slot);
}

static bool seen(const scene *s, int32_t device)
{
    for (int i = 0; i < s->nseen; i++)
        if (s->seen[i] == device) return true;
    return false;
}

static void say_chain(scene *s, int32_t first)
{
    int32_t device = first;
    while (s->nseen < CHAIN && device >= 0 && !seen(s, device)) { /* not round a circle */
        s->seen[s->nseen++] = device;
        if (s->nseen > 1) luo_str_add(&s->text, "; ");
        device = say(s, device, s->nseen > 1);
    }
}

/* Whoever does not answer is named, also where the chain does not lead to it: ranks agree on things
 * outside instructions, too, as on the capture of a step. */
static void say_silent(scene *s)
{
    for (int32_t i = 0; i < s->set->n; i++) {
        const int32_t device = s->set->at[i].device;
        const luo_workers_rank *rank = rank_of(s, device);
        if (!rank || rank->answered || !rank->where.silent || seen(s, device)) continue;
        luo_str_add(&s->text, "; ");
        say_idle(s, device, false);
        return;
    }
}

static int32_t first_device(const scene *s)
{
    for (int32_t i = 0; i < s->set->n; i++)
        if (waits(s, s->set->at[i].device)) return s->set->at[i].device;
    for (int32_t i = 0; i < s->set->n; i++) {
        const luo_workers_rank *rank = rank_of(s, s->set->at[i].device);
        if (rank && !rank->answered) return s->set->at[i].device;
    }
    return -1;
}

void luo_coord_stuck_text(const luo_workers *workers, const luo_programs *set, double stuck_s,
                          int64_t step, char *text, size_t size)
{
    scene s = {.f = workers, .set = set};
    const int32_t first = first_device(&s);
    luo_str_addf(&s.text, "stuck for %.1f s in step %lld: ", stuck_s, (long long)step);
    if (first >= 0) {
        say_chain(&s, first);
        say_silent(&s);
    } else {
        luo_str_add(&s.text, "no device of the plan is at work; another rank has to answer");
    }
    snprintf(text, size, "%s.", luo_str_get(&s.text));
    luo_str_free(&s.text);
}
