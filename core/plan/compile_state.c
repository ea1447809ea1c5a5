/* compile_state.c: parameters under a plan, and the programs that move or keep them. */
#include <string.h>

#include "core/graph/intern.h"
#include "core/plan/annotate.h"
#include "core/plan/compile.h"
#include "core/plan/replan/reroute.h"

/* ---- parameters ---- */

/* absent: devices from it on are not there; 0: all are. */
static luo_status list_params(luo_arena *arena, luo_graph *graph, int32_t absent, luo_param **out,
                              int32_t *n, luo_err *err)
{
    int32_t count = 0;
    luo_param *at = LUO_NEW_N(arena, luo_param, graph->nops);
    if (!at) return luo_err_nomem(err);
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_op *op = &graph->op[o];
        if (op->kind != LUO_OP_RESHARD) continue;
        const luo_tensor *state = &graph->tensor[op->in[0]], *tensor = &graph->tensor[op->out[0]];
        if (tensor->kind != LUO_TENSOR_PARAM || state->kind == LUO_TENSOR_PARAM) continue;
        if (luo_tensor_is_copy(graph, op->out[0])) continue;
        const luo_tensor *pieces = state->kind == LUO_TENSOR_SHARD ? state : NULL;
        if (pieces) state = &graph->tensor[graph->op[pieces->op].in[0]];
        int32_t weight_ann = tensor->ann, state_ann = state->ann;
        if (absent) {
            LUO_TRY(luo_annset_present(graph->set, tensor->ann, absent, &weight_ann, err));
            LUO_TRY(luo_annset_present(graph->set, state->ann, absent, &state_ann, err));
        }
        at[count++] = (luo_param){tensor->name,
                                  luo_graph_shape(graph, op->out[0], 0, 1),
                                  luo_annset_get(graph->set, weight_ann),
                                  luo_annset_get(graph->set, state_ann),
                                  pieces ? luo_annset_get(graph->set, pieces->ann) : NULL,
                                  tensor->layer,
                                  tensor->elem_bytes,
                                  tensor->counted};
    }
    *out = at;
    *n = count;
    return LUO_OK;
}

luo_status luo_plan_params(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                           luo_param **out, int32_t *n, luo_err *err)
{
    luo_build_opts build;
    luo_graph *graph;
    const luo_plan *full;
    LUO_TRY(luo_plan_fill_absent(arena, plan, &full, err));
    LUO_TRY(luo_plan_model(arena, full, model, &model, err));
    LUO_TRY(luo_plan_build_opts(arena, full, model, &build, err));
    LUO_TRY(luo_graph_build(arena, model, &build, &graph, err));
    luo_status st = luo_plan_annotate(graph, full, err);
    if (st == LUO_OK) st = list_params(arena, graph, full->first_absent, out, n, err);
    luo_annset_free(graph->set);
    return st;
}

/* ---- program sets of one task, one or two instructions ---- */

typedef struct part { /* what one device does */
    int32_t device;
    int64_t local, sent, loaded;
    int32_t nmessage;
    luo_message *message; /* sends first, then receives, each by peer */
} part;

typedef struct maker {
    luo_arena *arena;
    luo_err *err;
    luo_phase phase;
    luo_intern key;
    luo_role *role;
} maker;

static void add_instr(luo_role *role, luo_instr *at, luo_instr_kind kind, luo_stream stream,
                      luo_phase phase, int64_t bytes)
{
    at[role->ninstr] = (luo_instr){.id = role->ninstr, .kind = (uint8_t)kind,
                                   .stream = (uint8_t)stream, .phase = (uint8_t)phase,
                                   .exchange = -1, .layer = -1, .slot = -1, .bytes = bytes};
    role->ninstr++;
}

static luo_status make_role(maker *m, const part *p, luo_role *role)
{
    luo_instr *at = LUO_NEW_N(m->arena, luo_instr, 3);
    luo_segment *seg = LUO_NEW(m->arena, luo_segment);
    luo_buffer *none = LUO_NEW(m->arena, luo_buffer);
    if (!at || !seg || !none) return luo_err_nomem(m->err);
    *role = (luo_role){.nseg = 1, .instr = at, .seg = seg, .buf = none};
    if (p->loaded)
        add_instr(role, at, LUO_INSTR_IO, LUO_STREAM_IO, m->phase, p->loaded);
    if (p->local) {
        add_instr(role, at, LUO_INSTR_LOCAL, LUO_STREAM_MOVE, m->phase, p->local);
        at[role->ninstr - 1].cost = (luo_cost_key){LUO_COST_STREAM, {2 * p->local}};
    }
    if (p->nmessage) {
        add_instr(role, at, LUO_INSTR_P2P, LUO_STREAM_MOVE, m->phase, p->sent);
        at[role->ninstr - 1].exchange = at[role->ninstr - 1].slot = 0;
        role->nslot = 1;
    }
    *seg = (luo_segment){(int32_t)m->phase, 0, 0, 0, role->ninstr};
    return LUO_OK;
}

static luo_status role_id(maker *m, const part *p, int32_t *id)
{
    const int64_t v[3] = {p->local, p->sent, p->loaded};
    int32_t key[7] = {p->nmessage > 0};
    memcpy(key + 1, v, sizeof v);
    bool fresh;
    *id = luo_intern_id(&m->key, key, 7, &fresh);
    if (*id < 0) return luo_err_nomem(m->err);
    return fresh ? make_role(m, p, &m->role[*id]) : LUO_OK;
}

/* parts: by device ascending. */
static luo_status make_set(luo_arena *arena, const part *parts, int32_t n, const char *name,
                           luo_phase phase, luo_programs **out, luo_err *err)
{
    maker m = {.arena = arena, .err = err, .phase = phase,
               .role = LUO_NEW_N(arena, luo_role, n)};
    luo_programs *set = LUO_NEW(arena, luo_programs);
    luo_program *at = LUO_NEW_N(arena, luo_program, n);
    luo_run_task *task = LUO_NEW(arena, luo_run_task);
    luo_op_info *op = LUO_NEW(arena, luo_op_info);
    luo_slot *slot = LUO_NEW_N(arena, luo_slot, n);
    if (!m.role || !set || !at || !task || !op || !slot) return luo_err_nomem(err);
    luo_intern_init(&m.key, arena);
    *task = (luo_run_task){0, -1};
    *op = (luo_op_info){name, LUO_OP_KINDS, -1};
    for (int32_t i = 0; i < n; i++) {
        slot[i] = (luo_slot){-1, NULL, parts[i].nmessage, parts[i].message};
        at[i] = (luo_program){.device = parts[i].device, .ntask = 1, .tasks = task,
                              .slots = &slot[i]};
        LUO_TRY(role_id(&m, &parts[i], &at[i].role));
    }
    *set = (luo_programs){.n = n, .at = at, .nroles = m.key.n, .roles = m.role, .nops = 1,
                          .ops = op, .npipelines = 1};
    LUO_TRY(luo_programs_hash(set, err));
    *out = set;
    return LUO_OK;
}

/* ---- switch ---- */

typedef struct sheet { /* parts by device id */
    luo_arena *arena, *scratch;
    int32_t *index; /* device id -> part + 1 */
    part *part;
    int32_t n;
    luo_err *err;
} sheet;

static void note(sheet *s, const luo_ann *ann)
{
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++) s->index[ann->grp[u].dev[i]] = 1;
}

/* A part for every device seen. Pre: index is set to 1 for these. */
static luo_status open_parts(sheet *s)
{
    for (int32_t d = 0; d < LUO_DEVICE_LIMIT; d++) s->n += s->index[d];
    s->part = LUO_NEW_N(s->arena, part, s->n);
    if (!s->part) return luo_err_nomem(s->err);
    int32_t at = 0;
    for (int32_t d = 0; d < LUO_DEVICE_LIMIT; d++) {
        if (!s->index[d]) continue;
        s->part[at].device = d;
        s->index[d] = ++at;
    }
    return LUO_OK;
}

static part *part_of(sheet *s, int32_t device)
{
    return &s->part[s->index[device] - 1];
}

static luo_status add_messages(sheet *s, const luo_pair *pairs, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        part_of(s, pairs[i].src)->nmessage++;
        part_of(s, pairs[i].dst)->nmessage++;
    }
    for (int32_t i = 0; i < s->n; i++) {
        s->part[i].message = LUO_NEW_N(s->arena, luo_message, s->part[i].nmessage);
        if (!s->part[i].message) return luo_err_nomem(s->err);
        s->part[i].nmessage = 0;
    }
    for (int32_t send = 1; send >= 0; send--) /* pairs are sorted by (src, dst) */
        for (int32_t i = 0; i < n; i++) {
            const luo_pair *pair = &pairs[i];
            part *p = part_of(s, send ? pair->src : pair->dst);
            p->message[p->nmessage++] =
                (luo_message){send ? pair->dst : pair->src, send, pair->bytes, pair->bytes};
            if (send) p->sent += pair->bytes;
        }
    return LUO_OK;
}

static luo_status switch_parts(sheet *s, const luo_switch_tensor *tensors, int32_t n,
                               const luo_switch *sw)
{
    for (int32_t t = 0; t < n; t++) {
        note(s, tensors[t].from);
        note(s, tensors[t].to);
    }
    LUO_TRY(open_parts(s));
    for (int64_t i = 0; i < sw->nmove; i++) {
        const luo_switch_move *move = &sw->move[i];
        if (move->kind == LUO_MOVE_COPY) part_of(s, move->dst)->local += move->bytes;
        if (move->kind == LUO_MOVE_LOAD) part_of(s, move->dst)->loaded += move->bytes;
    }
    LUO_TRY(add_messages(s, sw->pair, sw->npair));
    int32_t kept = 0; /* devices that do nothing have no program: a dead one could not run it */
    for (int32_t i = 0; i < s->n; i++) {
        const part *p = &s->part[i];
        if (p->local || p->loaded || p->nmessage) s->part[kept++] = *p;
    }
    s->n = kept;
    return LUO_OK;
}

static luo_status open_sheet(sheet *s, luo_arena *arena, luo_err *err)
{
    *s = (sheet){.arena = arena, .scratch = luo_arena_new(1 << 16), .err = err};
    if (!s->scratch) return luo_err_nomem(err);
    s->index = LUO_NEW_N(s->scratch, int32_t, LUO_DEVICE_LIMIT);
    return s->index ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_compile_switch(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                              const luo_switch *sw, luo_programs **out, luo_err *err)
{
    sheet s;
    luo_status st = open_sheet(&s, arena, err);
    if (st == LUO_OK) st = switch_parts(&s, tensors, n, sw);
    luo_arena_free(s.scratch);
    if (st == LUO_OK) st = make_set(arena, s.part, s.n, "switch", LUO_PHASE_SWITCH, out, err);
    return st;
}

luo_status luo_compile_messages(luo_arena *arena, const luo_pair *pairs, int32_t n,
                                const char *name, luo_programs **out, luo_err *err)
{
    sheet s;
    luo_status st = open_sheet(&s, arena, err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++)
        s.index[pairs[i].src] = s.index[pairs[i].dst] = 1;
    if (st == LUO_OK) st = open_parts(&s);
    if (st == LUO_OK) st = add_messages(&s, pairs, n);
    luo_arena_free(s.scratch);
    if (st == LUO_OK) st = make_set(arena, s.part, s.n, name, LUO_PHASE_SWITCH, out, err);
    return st;
}

/* ---- checkpoint ---- */

/* Holdings that a checkpoint takes: of equal copies the first one only (write); all (read). */
static bool writes(const luo_ann *ann, const luo_holding *holding)
{
    if (holding->u > 0 && ann->h == LUO_DUP) return false;
    return luo_grp_coord(&ann->grp[holding->u], holding->i, LUO_DUP) == 0;
}

static luo_status add_param(sheet *s, const luo_param *param, int64_t bytes, bool write)
{
    luo_holdings holdings;
    const size_t mark = luo_arena_mark(s->scratch);
    LUO_TRY(luo_holdings_make(s->scratch, param->state, &param->shape, &holdings, s->err));
    for (int32_t i = 0; i < holdings.n; i++) {
        if (write && !writes(param->state, &holdings.at[i])) continue;
        part_of(s, holdings.at[i].dev)->loaded += luo_region_volume(&holdings.at[i].region) * bytes;
    }
    luo_arena_reset(s->scratch, mark);
    return LUO_OK;
}

static luo_status checkpoint_parts(sheet *s, const luo_plan *plan, const luo_model *model,
                                   bool write)
{
    luo_param *param;
    int32_t n;
    LUO_TRY(luo_plan_params(s->scratch, plan, model, &param, &n, s->err));
    for (int32_t i = 0; i < n; i++) note(s, param[i].state);
    LUO_TRY(open_parts(s));
    for (int32_t i = 0; i < n; i++)
        LUO_TRY(add_param(s, &param[i], luo_param_state_bytes(&param[i], plan->dtype), write));
    return LUO_OK;
}

luo_status luo_compile_checkpoint(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                                  bool write, luo_programs **out, luo_err *err)
{
    sheet s;
    luo_status st = open_sheet(&s, arena, err);
    if (st == LUO_OK) st = checkpoint_parts(&s, plan, model, write);
    luo_arena_free(s.scratch);
    const char *name = write ? "checkpoint_write" : "checkpoint_read";
    if (st == LUO_OK) st = make_set(arena, s.part, s.n, name, LUO_PHASE_SWITCH, out, err);
    return st;
}
