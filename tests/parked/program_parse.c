/* program_parse.c: reads the text form (grammar: core/graph/program/program_text.c). What the
 * writer wrote prints to the same bytes again. Whether ids inside a role are in range is asked by
 * luo_program_check; here only what printing and look-up need. */
#include <string.h>

#include "core/base/devset.h"
#include "core/base/vec.h"
#include "core/graph/program/program_text.h"
#include "tests/parked/program_parse.h"
#include "tests/parked/program_scan.h"

#define BUFFER_BYTES_MAX (INT64_C(1) << 44) /* sums over tasks stay far from overflow */

typedef struct reader {
    scanner s;
    luo_programs *set;
    luo_run_task **tasks;
    int32_t *ntask, nlists;
    const int64_t **counts;
    int32_t *ncount, ncounts;
    int64_t *offset; /* by piece of the role at hand */
    int32_t npieces, room;
} reader;

/* ---- names of enumerations ---- */

typedef const char *(*name_fn)(int32_t);
static const char *stream_name(int32_t v) { return luo_stream_name((luo_stream)v); }
static const char *phase_name(int32_t v) { return luo_phase_name((luo_phase)v); }
static const char *kind_name(int32_t v) { return luo_instr_kind_name((luo_instr_kind)v); }
static const char *coll_name(int32_t v) { return luo_coll_name((luo_coll)v); }

static luo_status enumerated(reader *r, name_fn of, int32_t n, int32_t *out)
{
    const char *names[8];
    for (int32_t i = 0; i < n; i++) names[i] = of(i);
    return luo_scan_choice(&r->s, names, n, out);
}

static luo_status byte_of(reader *r, name_fn of, int32_t n, uint8_t *out)
{
    int32_t v;
    LUO_TRY(enumerated(r, of, n, &v));
    *out = (uint8_t)v;
    return LUO_OK;
}

/* ---- parts ---- */

static luo_status read_op(reader *r, int32_t i, luo_op_info *op)
{
    LUO_TRY(luo_scan_identity(&r->s, "op", i));
    const char *kind;
    LUO_TRY(luo_scan_name(&r->s, &kind));
    op->kind = luo_op_kind_of(kind);
    LUO_TRY(luo_scan_number32(&r->s, -1, &op->layer));
    LUO_TRY(luo_scan_name(&r->s, &op->name));
    return luo_scan_end_line(&r->s);
}

static luo_status read_group(reader *r, int32_t i, luo_group *g)
{
    LUO_TRY(luo_scan_identity(&r->s, "group", i));
    LUO_TRY(enumerated(r, stream_name, LUO_STREAMS, &g->stream));
    luo_scan_skip_blanks(&r->s);
    const size_t n = luo_scan_word_length(&r->s);
    const char *text = luo_arena_strndup(r->s.arena, r->s.at, n);
    if (!text) return luo_err_nomem(r->s.err);
    int32_t *dev;
    const luo_status st = luo_devset_parse(r->s.arena, text, false, LUO_DEVICE_LIMIT, &dev, &g->n,
                                           r->s.err);
    if (st == LUO_ENOMEM) return st;
    if (st != LUO_OK || g->n == 0) return luo_scan_wrong(&r->s, "a device set such as `[0-3,7]`");
    g->dev = dev;
    r->s.at += n;
    return luo_scan_end_line(&r->s);
}

static luo_status read_counts(reader *r, int32_t most, int32_t id)
{
    LUO_TRY(luo_scan_identity(&r->s, "counts", id));
    LUO_TRY(luo_scan_runs64(&r->s, most, &r->counts[id], &r->ncount[id]));
    return luo_scan_end_line(&r->s);
}

static luo_status read_counts_table(reader *r)
{
    int32_t most = 0; /* members of a group */
    if (!luo_scan_accept(&r->s, "counts")) return LUO_OK;
    LUO_TRY(luo_scan_number32(&r->s, 1, &r->ncounts));
    if (r->ncounts > r->s.end - r->s.at)
        return luo_scan_wrong(&r->s, "a count that the text can hold");
    LUO_TRY(luo_scan_end_line(&r->s));
    r->counts = LUO_NEW_N(r->s.arena, const int64_t *, r->ncounts);
    r->ncount = LUO_NEW_N(r->s.arena, int32_t, r->ncounts);
    if (!r->counts || !r->ncount) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < r->set->ngroups; i++)
        if (r->set->groups[i].n > most) most = r->set->groups[i].n;
    for (int32_t i = 0; i < r->ncounts; i++) LUO_TRY(read_counts(r, most, i));
    return LUO_OK;
}

static luo_status read_segment(reader *r, int32_t i, luo_segment *s)
{
    LUO_TRY(luo_scan_identity(&r->s, "seg", i));
    LUO_TRY(enumerated(r, phase_name, LUO_PHASES, &s->phase));
    LUO_TRY(luo_scan_field32(&r->s, "chunk", &s->chunk));
    LUO_TRY(luo_scan_need(&r->s, "tokens"));
    LUO_TRY(luo_scan_number64(&r->s, &s->tokens));
    LUO_TRY(luo_scan_field32(&r->s, "first", &s->first));
    LUO_TRY(luo_scan_field32(&r->s, "n", &s->n));
    return luo_scan_end_line(&r->s);
}

static luo_status read_dims(reader *r, luo_buffer *b)
{
    if (luo_scan_accept(&r->s, "-")) return LUO_OK;
    luo_scan_skip_blanks(&r->s);
    do {
        if (b->rank == LUO_RANK_MAX) return luo_scan_wrong(&r->s, "at most 8 dimensions");
        LUO_TRY(luo_scan_integer(&r->s, 0, INT64_MAX, &b->dim[b->rank]));
        b->rank++;
    } while (*r->s.at == 'x' && r->s.at++);
    return LUO_OK;
}

static luo_status read_buffer(reader *r, int32_t i, luo_buffer *b)
{
    LUO_TRY(luo_scan_identity(&r->s, "buf", i));
    LUO_TRY(luo_scan_choice(&r->s, luo_class_names, LUO_CLASS_NAMES, &b->buffer_class));
    LUO_TRY(luo_scan_number64(&r->s, &b->elem_bytes));
    luo_scan_skip_blanks(&r->s);
    LUO_TRY(luo_scan_integer(&r->s, 0, BUFFER_BYTES_MAX, &b->bytes));
    LUO_TRY(read_dims(r, b));
    LUO_TRY(luo_scan_name(&r->s, &b->tensor));
    return luo_scan_end_line(&r->s);
}

static luo_status read_cost(reader *r, luo_cost_key *c)
{
    const int64_t *at;
    int32_t n;
    LUO_TRY(luo_scan_choice(&r->s, luo_cost_names + 1, LUO_COST_NAMES - 1, &c->kind));
    c->kind++;
    LUO_TRY(luo_scan_list64(&r->s, &at, &n));
    if (c->kind == LUO_COST_GROUPED ? n != LUO_COST_SIZES : n != 6 && n != 7)
        return luo_scan_wrong(&r->s, "six numbers of a cost");
    memcpy(c->a, at, (size_t)n * sizeof *at);
    return LUO_OK;
}

static luo_status read_piece(reader *r, luo_instr_piece *p, int64_t *offset)
{
    LUO_TRY(luo_scan_number32(&r->s, 0, &p->buffer));
    if (*r->s.at++ != ':') return luo_scan_wrong(&r->s, "`:`");
    LUO_TRY(luo_scan_integer(&r->s, 0, INT64_MAX, offset));
    if (*r->s.at++ != ':') return luo_scan_wrong(&r->s, "`:`");
    return luo_scan_integer(&r->s, 0, INT64_MAX, &p->count);
}

static luo_status read_pieces(reader *r, luo_instr *i)
{
    int32_t n = 0;
    for (const char *p = r->s.at; *p && *p != '\n' && *p != '#'; p++) n += *p == ':';
    luo_instr_piece *at = LUO_NEW_N(r->s.arena, luo_instr_piece, n / 2);
    if (!at) return luo_err_nomem(r->s.err);
    i->piece = at;
    i->npieces = n / 2;
    i->first_piece = r->npieces;
    for (int32_t k = 0; k < i->npieces; k++) {
        if (!LUO_VEC_ROOM_IN(r->s.arena, r->offset, r->npieces, r->room))
            return luo_err_nomem(r->s.err);
        LUO_TRY(read_piece(r, &at[k], &r->offset[r->npieces++]));
    }
    return n >= 2 ? LUO_OK : luo_scan_wrong(&r->s, "a piece such as `4:0:512`");
}

static luo_status read_lane(reader *r, luo_instr *i)
{
    int32_t lane;
    LUO_TRY(luo_scan_number32(&r->s, 0, &lane));
    if (lane >= LUO_DP_LANES) return luo_scan_wrong(&r->s, "a lane from 0 to 3");
    i->lane = (uint8_t)lane;
    return LUO_OK;
}

/* Optional fields, in the order in which they are printed. */
static luo_status read_fields(reader *r, luo_instr *i)
{
    const bool collective = i->kind == LUO_INSTR_COLLECTIVE;
    if (collective) {
        LUO_TRY(luo_scan_need(&r->s, "coll"));
        LUO_TRY(byte_of(r, coll_name, LUO_COLLS, &i->coll));
    }
    i->v = luo_scan_accept(&r->s, "v");
    for (uint8_t k = LUO_COLL_PADDED; k < LUO_COLL_VARIANTS && !i->variant; k++)
        if (luo_scan_accept(&r->s, luo_coll_variant_name((luo_coll_variant)k))) i->variant = k;
    i->recompute = luo_scan_accept(&r->s, "again");
    i->at_start = luo_scan_accept(&r->s, "start");
    i->beside = luo_scan_accept(&r->s, "beside");
    if (luo_scan_accept(&r->s, "lane")) LUO_TRY(read_lane(r, i));
    LUO_TRY(luo_scan_field32(&r->s, "op", &i->op));
    if (luo_scan_accept(&r->s, "layer")) LUO_TRY(luo_scan_number32(&r->s, 0, &i->layer));
    if (luo_scan_accept(&r->s, "x")) LUO_TRY(luo_scan_number32(&r->s, 0, &i->exchange));
    if (luo_scan_accept(&r->s, "slot")) LUO_TRY(luo_scan_number32(&r->s, 0, &i->slot));
    if (luo_scan_accept(&r->s, "bytes")) LUO_TRY(luo_scan_number64(&r->s, &i->bytes));
    if (luo_scan_accept(&r->s, "flops")) LUO_TRY(luo_scan_number64(&r->s, &i->flops));
    if (luo_scan_accept(&r->s, "cost")) LUO_TRY(read_cost(r, &i->cost));
    if (luo_scan_accept(&r->s, "in")) LUO_TRY(luo_scan_list32(&r->s, &i->in, &i->nin));
    if (luo_scan_accept(&r->s, "out")) LUO_TRY(luo_scan_list32(&r->s, &i->out, &i->nout));
    if (luo_scan_accept(&r->s, "dep")) LUO_TRY(luo_scan_list32(&r->s, &i->dep, &i->ndep));
    return luo_scan_accept(&r->s, "pieces") ? read_pieces(r, i) : LUO_OK;
}

static luo_status read_instr(reader *r, int32_t id, luo_instr *i)
{
    *i = (luo_instr){.id = id, .exchange = -1, .layer = -1, .slot = -1};
    LUO_TRY(luo_scan_identity(&r->s, "i", id));
    LUO_TRY(byte_of(r, kind_name, LUO_INSTR_IO + 1, &i->kind));
    LUO_TRY(byte_of(r, stream_name, LUO_STREAMS, &i->stream));
    LUO_TRY(byte_of(r, phase_name, LUO_PHASES, &i->phase));
    LUO_TRY(read_fields(r, i));
    return luo_scan_end_line(&r->s);
}

static luo_status read_role(reader *r, int32_t id, luo_role *role)
{
    LUO_TRY(luo_scan_identity(&r->s, "role", id));
    LUO_TRY(luo_scan_count(&r->s, "segments", &role->nseg));
    LUO_TRY(luo_scan_count(&r->s, "buffers", &role->nbuf));
    LUO_TRY(luo_scan_count(&r->s, "instructions", &role->ninstr));
    LUO_TRY(luo_scan_count(&r->s, "slots", &role->nslot));
    LUO_TRY(luo_scan_end_line(&r->s));
    luo_segment *seg = LUO_NEW_N(r->s.arena, luo_segment, role->nseg);
    luo_buffer *buf = LUO_NEW_N(r->s.arena, luo_buffer, role->nbuf);
    luo_instr *instr = LUO_NEW_N(r->s.arena, luo_instr, role->ninstr);
    if (!seg || !buf || !instr) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < role->nseg; i++) LUO_TRY(read_segment(r, i, &seg[i]));
    for (int32_t i = 0; i < role->nbuf; i++) LUO_TRY(read_buffer(r, i, &buf[i]));
    r->offset = NULL;
    r->npieces = r->room = 0;
    for (int32_t i = 0; i < role->ninstr; i++) LUO_TRY(read_instr(r, i, &instr[i]));
    role->npieces = r->npieces;
    role->offset = r->offset;
    role->seg = seg;
    role->buf = buf;
    role->instr = instr;
    return LUO_OK;
}

static luo_status read_task(reader *r, luo_run_task *t)
{
    int64_t v;
    LUO_TRY(luo_scan_number32(&r->s, 0, &t->seg));
    if (*r->s.at++ != '/') return luo_scan_wrong(&r->s, "`/`");
    if (*r->s.at == '-') {
        r->s.at++;
        t->micro_batch = -1;
        return LUO_OK;
    }
    LUO_TRY(luo_scan_integer(&r->s, 0, INT32_MAX, &v));
    t->micro_batch = (int32_t)v;
    return LUO_OK;
}

static luo_status read_tasks(reader *r, int32_t id)
{
    LUO_TRY(luo_scan_identity(&r->s, "tasks", id));
    LUO_TRY(luo_scan_number32(&r->s, 0, &r->ntask[id]));
    if (r->ntask[id] > r->s.end - r->s.at)
        return luo_scan_wrong(&r->s, "a count that the text can hold");
    r->tasks[id] = LUO_NEW_N(r->s.arena, luo_run_task, r->ntask[id]);
    if (!r->tasks[id]) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < r->ntask[id]; i++) LUO_TRY(read_task(r, &r->tasks[id][i]));
    return luo_scan_end_line(&r->s);
}

static luo_status read_message(reader *r, luo_message *m)
{
    int64_t v;
    m->send = *r->s.at == '>';
    if (*r->s.at != '>' && *r->s.at != '<') return luo_scan_wrong(&r->s, "`>` or `<`");
    r->s.at++;
    LUO_TRY(luo_scan_integer(&r->s, 0, LUO_DEVICE_LIMIT - 1, &v));
    m->peer = (int32_t)v;
    if (*r->s.at++ != ':') return luo_scan_wrong(&r->s, "`:`");
    LUO_TRY(luo_scan_integer(&r->s, 0, INT64_MAX, &m->elements));
    if (*r->s.at++ != ':') return luo_scan_wrong(&r->s, "`:`");
    return luo_scan_integer(&r->s, 0, INT64_MAX, &m->bytes);
}

static luo_status read_messages(reader *r, luo_slot *s)
{
    int32_t n = 0;
    for (const char *p = r->s.at; *p && *p != '\n' && *p != '#'; p++) n += *p == '>' || *p == '<';
    luo_message *at = LUO_NEW_N(r->s.arena, luo_message, n);
    if (!at) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < n; i++) {
        luo_scan_skip_blanks(&r->s);
        LUO_TRY(read_message(r, &at[i]));
        const luo_message *a = &at[i ? i - 1 : 0], *b = &at[i];
        if (i && (a->send != b->send ? b->send : a->peer >= b->peer))
            return luo_scan_wrong(&r->s, "sends before receives, each by peer");
    }
    s->group = -1;
    s->message = at;
    s->nmessage = n;
    return LUO_OK;
}

static luo_status read_slot(reader *r, int32_t id, luo_slot *s)
{
    LUO_TRY(luo_scan_identity(&r->s, "slot", id));
    if (luo_scan_accept(&r->s, "p2p")) {
        LUO_TRY(read_messages(r, s));
        return luo_scan_end_line(&r->s);
    }
    LUO_TRY(luo_scan_field32(&r->s, "group", &s->group));
    if (s->group >= r->set->ngroups) return luo_scan_wrong(&r->s, "a listed group");
    if (luo_scan_accept(&r->s, "counts")) {
        int32_t list;
        LUO_TRY(luo_scan_number32(&r->s, 0, &list));
        if (list >= r->ncounts) return luo_scan_wrong(&r->s, "listed counts");
        if (r->ncount[list] != r->set->groups[s->group].n)
            return luo_scan_wrong(&r->s, "one count per member");
        s->counts = r->counts[list];
    }
    return luo_scan_end_line(&r->s);
}

static luo_status read_device(reader *r, luo_program *p, int32_t previous)
{
    int32_t list;
    LUO_TRY(luo_scan_field32(&r->s, "device", &p->device));
    if (p->device <= previous || p->device >= LUO_DEVICE_LIMIT)
        return luo_scan_wrong(&r->s, "devices in ascending order");
    LUO_TRY(luo_scan_need(&r->s, "pipeline"));
    LUO_TRY(luo_scan_number32(&r->s, -1, &p->pipeline)); /* -1: holds state only */
    LUO_TRY(luo_scan_need(&r->s, "stage"));
    LUO_TRY(luo_scan_number32(&r->s, -1, &p->stage));
    LUO_TRY(luo_scan_field32(&r->s, "role", &p->role));
    if (p->role >= r->set->nroles) return luo_scan_wrong(&r->s, "a listed role");
    LUO_TRY(luo_scan_field32(&r->s, "tasks", &list));
    if (list >= r->nlists) return luo_scan_wrong(&r->s, "a listed task list");
    LUO_TRY(luo_scan_end_line(&r->s));
    p->tasks = r->tasks[list];
    p->ntask = r->ntask[list];
    const int32_t n = r->set->roles[p->role].nslot;
    luo_slot *slot = LUO_NEW_N(r->s.arena, luo_slot, n);
    if (!slot) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < n; i++) LUO_TRY(read_slot(r, i, &slot[i]));
    p->slots = slot;
    return LUO_OK;
}

/* ---- the whole ---- */

static luo_status read_head(reader *r)
{
    const char *schedule;
    LUO_TRY(luo_scan_need(&r->s, "luoshu.program/1"));
    LUO_TRY(luo_scan_end_line(&r->s));
    LUO_TRY(luo_scan_need(&r->s, "schedule"));
    LUO_TRY(luo_scan_name(&r->s, &schedule));
    if (luo_sched_parse(schedule, &r->set->schedule, NULL) != LUO_OK)
        return luo_scan_wrong(&r->s, "gpipe, 1f1b, interleaved_1f1b, zb_h1 or zb_h2");
    r->set->staggered = luo_scan_accept(&r->s, "staggered");
    LUO_TRY(luo_scan_end_line(&r->s));
    LUO_TRY(luo_scan_field32(&r->s, "pipelines", &r->set->npipelines));
    return luo_scan_end_line(&r->s);
}

static luo_status read_tables(reader *r)
{
    luo_programs *set = r->set;
    LUO_TRY(luo_scan_count(&r->s, "ops", &set->nops));
    LUO_TRY(luo_scan_end_line(&r->s));
    luo_op_info *ops = LUO_NEW_N(r->s.arena, luo_op_info, set->nops);
    if (!ops) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < set->nops; i++) LUO_TRY(read_op(r, i, &ops[i]));
    set->ops = ops;
    LUO_TRY(luo_scan_count(&r->s, "groups", &set->ngroups));
    LUO_TRY(luo_scan_end_line(&r->s));
    luo_group *groups = LUO_NEW_N(r->s.arena, luo_group, set->ngroups);
    if (!groups) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < set->ngroups; i++) LUO_TRY(read_group(r, i, &groups[i]));
    set->groups = groups;
    return read_counts_table(r);
}

static luo_status read_roles(reader *r)
{
    luo_programs *set = r->set;
    LUO_TRY(luo_scan_count(&r->s, "roles", &set->nroles));
    LUO_TRY(luo_scan_end_line(&r->s));
    luo_role *roles = LUO_NEW_N(r->s.arena, luo_role, set->nroles);
    if (!roles) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < set->nroles; i++) LUO_TRY(read_role(r, i, &roles[i]));
    set->roles = roles;
    LUO_TRY(luo_scan_count(&r->s, "tasks", &r->nlists));
    LUO_TRY(luo_scan_end_line(&r->s));
    r->tasks = LUO_NEW_N(r->s.arena, luo_run_task *, r->nlists);
    r->ntask = LUO_NEW_N(r->s.arena, int32_t, r->nlists);
    if (!r->tasks || !r->ntask) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < r->nlists; i++) LUO_TRY(read_tasks(r, i));
    return LUO_OK;
}

static luo_status read_devices(reader *r)
{
    luo_programs *set = r->set;
    LUO_TRY(luo_scan_count(&r->s, "devices", &set->n));
    LUO_TRY(luo_scan_end_line(&r->s));
    luo_program *at = LUO_NEW_N(r->s.arena, luo_program, set->n);
    if (!at) return luo_err_nomem(r->s.err);
    for (int32_t i = 0; i < set->n; i++)
        LUO_TRY(read_device(r, &at[i], i ? at[i - 1].device : -1));
    set->at = at;
    return *r->s.at ? luo_scan_wrong(&r->s, "the end of the text") : LUO_OK;
}

luo_status luo_program_parse(luo_arena *arena, const char *text, luo_programs **out, luo_err *err)
{
    reader r = {.s = {arena, text, text, text + strlen(text), 1, err},
                .set = LUO_NEW(arena, luo_programs)};
    if (!r.set) return luo_err_nomem(err);
    if (luo_scan_at_end(&r.s)) LUO_TRY(luo_scan_end_line(&r.s));
    LUO_TRY(read_head(&r));
    LUO_TRY(read_tables(&r));
    LUO_TRY(read_roles(&r));
    LUO_TRY(read_devices(&r));
    LUO_TRY(luo_programs_hash(r.set, err));
    *out = r.set;
    return LUO_OK;
}
