/* program_text.c: the text form of a program set, and its hash.
 *
 *   set    = "luoshu.program/1" NL "schedule" NAME NL "pipelines" N NL
 *            "ops" N NL { op } "groups" N NL { group } [ "counts" N NL { counts } ]
 *            "roles" N NL { role } "tasks" N NL { tasks } "devices" N NL { device }
 *   op     = "op" ID KIND LAYER NAME NL                        (ids count up from 0 everywhere)
 *   group  = "group" ID STREAM "[" devices "]" NL              (in rank order; a-b ascending)
 *   counts = "counts" ID runs NL                               (elements of each rank of a group)
 *   role   = "role" ID "segments" N "buffers" N "instructions" N "slots" N NL
 *            { seg } { buf } { instr }
 *   seg    = "seg" ID PHASE "chunk" N "tokens" N "first" N "n" N NL
 *   buf    = "buf" ID CLASS ELEM_BYTES BYTES DIMS NAME NL      (DIMS: 4096x512, "-" for a scalar)
 *   instr  = "i" ID KIND STREAM PHASE { field } NL
 *   field  = "coll" NAME | "v" | "padded" | "grouped" | "again" | "start" | "beside" | "lane" N
 *          | "op" N | "layer" N | "x" N | "slot" N
 *          | "bytes" N | "flops" N | "cost" NAME ints | "in" ints | "out" ints | "dep" ints
 *          | "pieces" { BUFFER ":" OFFSET ":" COUNT }
 *   tasks  = "tasks" ID N { SEG "/" ( MICRO_BATCH | "-" ) } NL
 *   device = "device" N "pipeline" N "stage" N "role" N "tasks" N NL { slot }
 *   slot   = "slot" ID ( "group" N [ "counts" ID ] | "p2p" { (">" | "<") PEER ":" ELEMENTS ":"
 *            BYTES } ) NL
 *   ints   = N { "," N }
 *   runs   = N [ "x" TIMES ] { "," N [ "x" TIMES ] }
 * `again` marks a forward operation run again in the backward pass; "x" is the exchange id. Fields
 * stand in this order; those with their default (0, -1, none) are left out. Lists of counts are
 * those that slots have, each once, in the order in which they come first. "#" starts a comment.
 */
#include <string.h>

#include "core/base/devset.h"
#include "core/base/hash.h"
#include "core/graph/program/counts.h"
#include "core/graph/program/program_text.h"

const char *const luo_cost_names[LUO_COST_NAMES] = {"none",        "gemm",   "attention_f",
                                                    "attention_b", "stream", "optimizer",
                                                    "grouped"};
const char *const luo_class_names[LUO_CLASS_NAMES] = {"weight", "gradient", "optimizer",
                                                      "stash",  "work",     "comm"};

typedef struct shared { /* what roles of the same instructions have in common is written once */
    int32_t roles;      /* that have them */
    luo_str text;       /* segments, buffers, instructions; of the first of them */
    size_t *begin;      /* of every instruction's line, and behind the last; NULL: not written */
} shared;

typedef struct writer {
    luo_str *s;
    bool hashing; /* lines are hashed and thrown away */
    uint64_t hash;
    const luo_programs *set;
    const int32_t *place; /* by device below nplaces: what stands for it; NULL: its number */
    int32_t nplaces;
    luo_map tasks; /* task list -> id; looked up only, ids are given in device order */
    luo_map roles; /* instructions -> index of shared */
    shared *shared;
    int32_t nshared;
    luo_arena *arena;
    const luo_program **first; /* first device with task list id */
    int32_t ntasks;
    luo_counts counts;
} writer;

static void end_lines(writer *w)
{
    if (!w->hashing || w->s->len < (1 << 16)) return;
    w->hash = luo_hash_bytes(w->hash, w->s->at, w->s->len);
    luo_str_clear(w->s);
}

static void end_line(writer *w)
{
    luo_str_addc(w->s, '\n');
    end_lines(w);
}

static void word(writer *w, const char *text)
{
    luo_str_add(w->s, text);
}

/* " NAME value" */
static void number(writer *w, const char *name, int64_t v)
{
    luo_str_addc(w->s, ' ');
    if (name[0]) {
        word(w, name);
        luo_str_addc(w->s, ' ');
    }
    luo_str_addi(w->s, v);
}

static void integers(writer *w, const char *name, const int32_t *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (i == 0) number(w, name, at[i]);
        else luo_str_addc(w->s, ','), luo_str_addi(w->s, at[i]);
    }
}

static void wide_integers(writer *w, const char *name, const int64_t *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (i == 0) number(w, name, at[i]);
        else luo_str_addc(w->s, ','), luo_str_addi(w->s, at[i]);
    }
}

static void put_count(writer *w, const char *what, int32_t n)
{
    word(w, what);
    number(w, "", n);
    end_line(w);
}

static void put_ops(writer *w)
{
    put_count(w, "ops", w->set->nops);
    for (int32_t i = 0; i < w->set->nops; i++) {
        const luo_op_info *op = &w->set->ops[i];
        word(w, "op");
        number(w, "", i);
        luo_str_addc(w->s, ' ');
        word(w, luo_op_info_kind(op));
        number(w, "", op->layer);
        luo_str_addc(w->s, ' ');
        word(w, op->name);
        end_line(w);
    }
}

/* A device without a place stays what it is, and is no place. */
static int32_t name_of(const writer *w, int32_t device)
{
    if (!w->place) return device;
    const bool has = device >= 0 && device < w->nplaces && w->place[device] >= 0;
    return has ? w->place[device] : -1 - device;
}

static void put_devices(writer *w, const int32_t *dev, int32_t n)
{
    const size_t mark = luo_arena_mark(w->arena);
    int32_t *name = LUO_NEW_N(w->arena, int32_t, n);
    w->s->failed |= !name;
    if (!name) return;
    for (int32_t i = 0; i < n; i++) name[i] = name_of(w, dev[i]);
    luo_devset_print(w->s, name, n);
    luo_arena_reset(w->arena, mark);
}

static void put_group(writer *w, int32_t i)
{
    const luo_group *group = &w->set->groups[i];
    word(w, "group");
    number(w, "", i);
    luo_str_addc(w->s, ' ');
    word(w, luo_stream_name((luo_stream)group->stream));
    luo_str_addc(w->s, ' ');
    if (w->place) put_devices(w, group->dev, group->n);
    else luo_devset_print(w->s, group->dev, group->n);
    end_line(w);
}

static int32_t run_length(const int64_t *at, int32_t n)
{
    int32_t run = 1;
    while (run < n && at[run] == at[0]) run++;
    return run;
}

static void put_counts(writer *w, int32_t id)
{
    const luo_count_list *list = &w->counts.list[id];
    word(w, "counts");
    number(w, "", id);
    for (int32_t i = 0, run; i < list->n; i += run) {
        run = run_length(list->at + i, list->n - i);
        luo_str_addc(w->s, i ? ',' : ' ');
        luo_str_addi(w->s, list->at[i]);
        if (run == 1) continue;
        luo_str_addc(w->s, 'x');
        luo_str_addi(w->s, run);
    }
    end_line(w);
}

static void put_segment(writer *w, const luo_segment *seg, int32_t i)
{
    word(w, "seg");
    number(w, "", i);
    luo_str_addc(w->s, ' ');
    word(w, luo_phase_name((luo_phase)seg->phase));
    number(w, "chunk", seg->chunk);
    number(w, "tokens", seg->tokens);
    number(w, "first", seg->first);
    number(w, "n", seg->n);
    end_line(w);
}

static void put_buffer(writer *w, const luo_buffer *buffer, int32_t i)
{
    word(w, "buf");
    number(w, "", i);
    luo_str_addc(w->s, ' ');
    word(w, luo_class_names[buffer->buffer_class]);
    number(w, "", buffer->elem_bytes);
    number(w, "", buffer->bytes);
    luo_str_addc(w->s, ' ');
    if (buffer->rank == 0) luo_str_addc(w->s, '-');
    for (int32_t d = 0; d < buffer->rank; d++) {
        if (d) luo_str_addc(w->s, 'x');
        luo_str_addi(w->s, buffer->dim[d]);
    }
    luo_str_addc(w->s, ' ');
    word(w, buffer->tensor);
    end_line(w);
}

static void put_cost(writer *w, const luo_cost_key *key)
{
    if (key->kind == LUO_COST_NONE) return;
    word(w, " cost ");
    word(w, luo_cost_names[key->kind]);
    /* Only latent attention has a seventh, only a window an eighth. */
    const bool all = key->kind == LUO_COST_GROUPED || key->a[7];
    wide_integers(w, "", key->a, all ? LUO_COST_SIZES : key->a[6] ? 7 : 6);
}

static void put_pieces(writer *w, const luo_role *role, const luo_instr *instr)
{
    if (instr->npieces) word(w, " pieces");
    for (int32_t k = 0; k < instr->npieces; k++) {
        number(w, "", instr->piece[k].buffer);
        luo_str_addc(w->s, ':');
        luo_str_addi(w->s, role->offset[instr->first_piece + k]);
        luo_str_addc(w->s, ':');
        luo_str_addi(w->s, instr->piece[k].count);
    }
}

static void put_instr(writer *w, const luo_role *role, const luo_instr *instr, bool comment)
{
    luo_str_addc(w->s, 'i');
    number(w, "", instr->id);
    luo_str_addc(w->s, ' ');
    word(w, luo_instr_kind_name((luo_instr_kind)instr->kind));
    luo_str_addc(w->s, ' ');
    word(w, luo_stream_name((luo_stream)instr->stream));
    luo_str_addc(w->s, ' ');
    word(w, luo_phase_name((luo_phase)instr->phase));
    if (instr->kind == LUO_INSTR_COLLECTIVE || luo_instr_trades(instr)) {
        word(w, " coll ");
        word(w, luo_coll_name((luo_coll)instr->coll));
    }
    if (instr->v) word(w, " v");
    if (instr->variant) {
        luo_str_addc(w->s, ' ');
        word(w, luo_coll_variant_name((luo_coll_variant)instr->variant));
    }
    if (instr->recompute) word(w, " again");
    if (instr->at_start) word(w, " start");
    if (instr->beside) word(w, " beside");
    if (instr->lane) number(w, "lane", instr->lane);
    number(w, "op", instr->op);
    if (instr->layer >= 0) number(w, "layer", instr->layer);
    if (instr->exchange >= 0) number(w, "x", instr->exchange);
    if (instr->slot >= 0) number(w, "slot", instr->slot);
    if (instr->bytes) number(w, "bytes", instr->bytes);
    if (instr->flops) number(w, "flops", instr->flops);
    put_cost(w, &instr->cost);
    integers(w, "in", instr->in, instr->nin);
    integers(w, "out", instr->out, instr->nout);
    integers(w, "dep", instr->dep, instr->ndep);
    put_pieces(w, role, instr);
    if (comment) {
        word(w, " # ");
        word(w, w->set->ops[instr->op].name);
    }
    end_line(w);
}

/* begin: where the line of every instruction begins, if it is not NULL. */
static void put_lines(writer *w, const luo_role *role, bool comment, size_t *begin)
{
    for (int32_t i = 0; i < role->nseg; i++) put_segment(w, &role->seg[i], i);
    for (int32_t i = 0; i < role->nbuf; i++) put_buffer(w, &role->buf[i], i);
    for (int32_t i = 0; i < role->ninstr; i++) {
        if (begin) begin[i] = w->s->len;
        put_instr(w, role, &role->instr[i], comment);
    }
}

static void write_shared(writer *w, const luo_role *role, shared *x)
{
    writer own = {.s = &x->text, .set = w->set};
    x->begin = LUO_NEW_N(w->arena, size_t, role->ninstr + 1);
    if (x->begin) put_lines(&own, role, false, x->begin);
    w->s->failed |= !x->begin || x->text.failed;
    if (x->begin) x->begin[role->ninstr] = x->text.len;
}

/* Pieces may lie elsewhere; all other lines are those of the first role. */
static void put_shared(writer *w, const luo_role *role, shared *x)
{
    size_t from = 0;
    if (!x->begin) write_shared(w, role, x);
    if (w->s->failed) return;
    for (int32_t i = 0; i < role->ninstr; i++) {
        if (role->instr[i].npieces == 0) continue;
        luo_str_addn(w->s, x->text.at + from, x->begin[i] - from);
        put_instr(w, role, &role->instr[i], false);
        from = x->begin[i + 1];
    }
    luo_str_addn(w->s, x->text.at + from, x->text.len - from);
    end_lines(w);
}

/* Roles of the same instructions share buffers and segments as well (program.h). */
static uint64_t role_key(const luo_role *role)
{
    return (uint64_t)(uintptr_t)role->instr;
}

static void put_role(writer *w, int32_t id, bool comment)
{
    const luo_role *role = &w->set->roles[id];
    word(w, "role");
    number(w, "", id);
    number(w, "segments", role->nseg);
    number(w, "buffers", role->nbuf);
    number(w, "instructions", role->ninstr);
    number(w, "slots", role->nslot);
    end_line(w);
    shared *x = comment ? NULL : &w->shared[luo_map_get(&w->roles, role_key(role), 0)];
    if (x && x->roles > 1)
        put_shared(w, role, x);
    else
        put_lines(w, role, comment, NULL);
}

static void put_tasks(writer *w, int32_t id)
{
    const luo_program *program = w->first[id];
    word(w, "tasks");
    number(w, "", id);
    number(w, "", program->ntask);
    for (int32_t i = 0; i < program->ntask; i++) {
        number(w, "", program->tasks[i].seg);
        luo_str_addc(w->s, '/');
        if (program->tasks[i].micro_batch < 0)
            luo_str_addc(w->s, '-');
        else
            luo_str_addi(w->s, program->tasks[i].micro_batch);
    }
    end_line(w);
}

static void put_slot(writer *w, const luo_slot *slot, int32_t id)
{
    word(w, "slot");
    number(w, "", id);
    if (slot->group >= 0) {
        number(w, "group", slot->group);
        if (slot->counts) number(w, "counts", luo_counts_id(&w->counts, w->set, slot));
    } else {
        word(w, " p2p");
    }
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const luo_message *message = &slot->message[i];
        word(w, message->send ? " >" : " <");
        luo_str_addi(w->s, name_of(w, message->peer));
        luo_str_addc(w->s, ':');
        luo_str_addi(w->s, message->elements);
        luo_str_addc(w->s, ':');
        luo_str_addi(w->s, message->bytes);
    }
    end_line(w);
}

static uint64_t task_key(const luo_program *program)
{
    return (uint64_t)(uintptr_t)program->tasks;
}

static void put_device(writer *w, const luo_program *program)
{
    word(w, "device");
    number(w, "", name_of(w, program->device));
    number(w, "pipeline", program->pipeline);
    number(w, "stage", program->stage);
    number(w, "role", program->role);
    number(w, "tasks", luo_map_get(&w->tasks, task_key(program), 0));
    end_line(w);
    for (int32_t i = 0; i < w->set->roles[program->role].nslot; i++)
        put_slot(w, &program->slots[i], i);
}

static bool find_shared(writer *w)
{
    w->shared = LUO_NEW_N(w->arena, shared, w->set->nroles);
    for (int32_t r = 0; w->shared && r < w->set->nroles; r++) {
        const int64_t *at = luo_map_at(&w->roles, role_key(&w->set->roles[r]), w->nshared);
        if (!at) return false;
        if (*at == w->nshared) w->nshared++;
        w->shared[*at].roles++;
    }
    return w->shared != NULL;
}

/* Ids of task lists and counts in device order. False: out of memory. */
static bool number_lists(writer *w)
{
    w->arena = luo_arena_new(0);
    if (!w->arena || !find_shared(w)) return false;
    if (luo_counts_of(w->set, &w->counts, NULL) != LUO_OK) return false;
    w->first = LUO_NEW_N(w->arena, const luo_program *, w->set->n);
    if (!w->first) return false;
    for (int32_t i = 0; i < w->set->n; i++) {
        const luo_program *program = &w->set->at[i];
        const int64_t *id = luo_map_at(&w->tasks, task_key(program), w->ntasks);
        if (!id) return false;
        if (*id == w->ntasks) w->first[w->ntasks++] = program;
    }
    return true;
}

static void put_head(writer *w)
{
    word(w, "luoshu.program/1");
    end_line(w);
    word(w, "schedule ");
    word(w, luo_sched_name(w->set->schedule));
    if (w->set->staggered) word(w, " staggered");
    end_line(w);
    put_count(w, "pipelines", w->set->npipelines);
}

static void put_all(writer *w)
{
    const luo_programs *set = w->set;
    put_head(w);
    put_ops(w);
    put_count(w, "groups", set->ngroups);
    for (int32_t i = 0; i < set->ngroups; i++) put_group(w, i);
    if (w->counts.n) put_count(w, "counts", w->counts.n);
    for (int32_t i = 0; i < w->counts.n; i++) put_counts(w, i);
    put_count(w, "roles", set->nroles);
    for (int32_t i = 0; i < set->nroles; i++) put_role(w, i, false);
    put_count(w, "tasks", w->ntasks);
    for (int32_t i = 0; i < w->ntasks; i++) put_tasks(w, i);
    put_count(w, "devices", set->n);
    for (int32_t i = 0; i < set->n; i++) put_device(w, &set->at[i]);
}

/* One device: its role with operation names, its tasks, its slots, their groups and counts. */
static void put_one(writer *w, const luo_program *program)
{
    const int32_t n = w->set->roles[program->role].nslot;
    put_role(w, program->role, true);
    put_tasks(w, (int32_t)luo_map_get(&w->tasks, task_key(program), 0));
    put_device(w, program);
    for (int32_t i = 0; i < n; i++)
        if (program->slots[i].group >= 0) put_group(w, program->slots[i].group);
    for (int32_t i = 0; i < n; i++)
        if (program->slots[i].counts)
            put_counts(w, luo_counts_id(&w->counts, w->set, &program->slots[i]));
}

static void close_writer(writer *w)
{
    luo_map_free(&w->tasks);
    luo_map_free(&w->roles);
    for (int32_t i = 0; i < w->nshared; i++) luo_str_free(&w->shared[i].text);
    luo_counts_free(&w->counts);
    luo_arena_free(w->arena);
}

void luo_program_print(luo_str *text, const luo_programs *set, int32_t device)
{
    writer w = {.s = text, .set = set};
    const luo_program *program = device < 0 ? NULL : luo_programs_find(set, device);
    if (!number_lists(&w))
        text->failed = true;
    else if (device < 0) put_all(&w);
    else if (program)
        put_one(&w, program);
    close_writer(&w);
}

luo_status luo_programs_hash_placed(const luo_programs *set, const int32_t *place, int32_t nplaces,
                                    uint64_t *hash, luo_err *err)
{
    luo_str text = {0};
    writer w = {.s = &text,
                .set = set,
                .place = place,
                .nplaces = nplaces,
                .hashing = true,
                .hash = LUO_HASH_EMPTY};
    bool good = number_lists(&w);
    if (good) {
        put_all(&w);
        good = !text.failed;
        if (good && text.len) w.hash = luo_hash_bytes(w.hash, text.at, text.len);
    }
    close_writer(&w);
    luo_str_free(&text);
    if (!good) return luo_err_nomem(err);
    *hash = w.hash;
    return LUO_OK;
}

luo_status luo_programs_hash(luo_programs *set, luo_err *err)
{
    return luo_programs_hash_placed(set, NULL, 0, &set->hash, err);
}
