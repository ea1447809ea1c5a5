/* step.c: one step of a way as programs: one micro-batch of forward and backward, then all
 * exchanges of gradients, each of which waits for nothing but its own gradient. */
#include "core/run/tables/step.h"

#include <string.h>

/* ---- a role ---- */

static int32_t op_of(tables_maker *m, const char *name)
{
    for (int32_t i = 0; name && i < m->nops; i++)
        if (strcmp(m->op[i].name, name) == 0) return i;
    const char *copy = name ? luo_arena_strdup(m->arena, name) : NULL;
    m->failed |= !copy;
    m->op[m->nops] = (luo_op_info){copy ? copy : "", LUO_OP_KINDS, -1};
    return m->nops++;
}

int32_t tables_add(tables_maker *m, const char *op, luo_instr instr, int32_t dep, int32_t dep2)
{
    int32_t *deps = LUO_NEW_N(m->arena, int32_t, 5); /* and buffers (tables_uses) */
    luo_instr *at = &m->instr[m->ninstr];
    m->failed |= !deps;
    if (!deps) return TABLES_NONE;
    instr.id = m->ninstr;
    instr.op = op_of(m, op);
    instr.phase = (uint8_t)m->phase;
    instr.layer = -1;
    if (instr.kind != LUO_INSTR_COLLECTIVE && instr.kind != LUO_INSTR_P2P) instr.slot = -1;
    instr.exchange = instr.slot;
    instr.dep = deps;
    if (dep != TABLES_NONE) deps[instr.ndep++] = dep;
    if (dep2 != TABLES_NONE && dep2 != dep) deps[instr.ndep++] = dep2;
    instr.in = deps + 2;
    instr.out = deps + 4;
    *at = instr;
    return m->ninstr++;
}

int32_t tables_buffer(tables_maker *m, const char *name, luo_buffer_class kind, int64_t elem_bytes,
                      int64_t n)
{
    const char *tensor = name ? luo_arena_strdup(m->arena, name) : NULL;
    m->failed |= !tensor;
    m->buf[m->nbuf] = (luo_buffer){.tensor = tensor,
                                   .rank = 1,
                                   .dim = {n},
                                   .elem_bytes = elem_bytes,
                                   .bytes = n * elem_bytes,
                                   .buffer_class = (int32_t)kind};
    return m->nbuf++;
}

void tables_uses(tables_maker *m, int32_t instr, int32_t in, int32_t out)
{
    if (instr == TABLES_NONE) return;
    luo_instr *at = &m->instr[instr];
    int32_t *buffers = (int32_t *)at->dep + 2;
    if (in != TABLES_NONE) buffers[0] = in, at->nin = 1;
    if (out != TABLES_NONE) buffers[2] = out, at->nout = 1;
}

void tables_reads(tables_maker *m, int32_t instr, int32_t buffer)
{
    luo_instr *at = &m->instr[instr];
    if (buffer == TABLES_NONE) return;
    ((int32_t *)at->dep)[2 + at->nin++] = buffer;
}

int32_t tables_stream(tables_maker *m, const char *op, double bytes, int32_t dep)
{
    const int64_t n = (int64_t)bytes;
    return tables_add(m, op,
                      (luo_instr){.kind = LUO_INSTR_COMPUTE,
                                  .stream = LUO_STREAM_COMPUTE,
                                  .bytes = n,
                                  .cost = {LUO_COST_STREAM, {n}}},
                      dep, TABLES_NONE);
}

/* ---- forward and backward ---- */

static int64_t samples(const tables_maker *m)
{
    return m->l->samples[m->worker];
}

double tables_embedding_bytes(const luo_model *model, int64_t samples)
{
    const luo_features *f = &model->features;
    const double row = 4.0 * (double)luo_model_row_width(model);
    const double vector = (double)luo_dtype_bytes(model->dtype) * (double)f->width;
    return (double)samples * (double)f->slots * (row + vector);
}

static double embedding_bytes(const tables_maker *m)
{
    return tables_embedding_bytes(m->l->model, samples(m));
}

/* Products of all pairs; backward takes two such. They are so small, one for each sample, that
 * memory bounds them: what is read and written of a sample, vectors and products. */
static int32_t interaction(tables_maker *m, const char *op, int32_t dep, int32_t dep2)
{
    const luo_features *f = &m->l->model->features;
    const int64_t n = f->slots + 1, bytes = samples(m) * n * (f->width + n) * m->elem_bytes;
    return tables_add(m, op,
                      (luo_instr){.kind = LUO_INSTR_COMPUTE,
                                  .stream = LUO_STREAM_COMPUTE,
                                  .bytes = bytes,
                                  .flops = 2 * samples(m) * n * n * f->width,
                                  .cost = {LUO_COST_STREAM, {bytes}}},
                      dep, dep2);
}

/* Answers the buffer of embeddings, in which what is made of them lies too. */
static int32_t forward(tables_maker *m)
{
    const luo_features *f = &m->l->model->features;
    const int64_t n = samples(m);
    const int32_t rows = tables_pull(m), top = m->bottom;
    tables_value x = {TABLES_NONE, TABLES_NONE}; /* numbers of samples, which someone else has */
    for (int32_t i = 0; i < top; i++) x = tables_layer_forward(m, i, x);
    const int32_t made = x.buffer;
    if (top) x = tables_meet(m, x);
    const int32_t buffer =
        tables_buffer(m, "embeddings", LUO_BUFFER_STASH, m->elem_bytes,
                      n * (f->slots * f->width + (top ? m->layer[top].in : f->dense)));
    /* A copy of what the bottom has made is among that. */
    if (top && x.buffer == made) m->made[top - 1] = buffer;
    const int32_t read = tables_stream(m, "rows.read", embedding_bytes(m), rows);
    tables_uses(m, read, TABLES_NONE, buffer);
    x = (tables_value){top ? interaction(m, "interaction", read, x.id) : read, buffer};
    for (int32_t i = top; i < m->layers; i++) x = tables_layer_forward(m, i, x);
    return buffer;
}

static void backward(tables_maker *m, int32_t embeddings)
{
    const int32_t top = m->bottom;
    int32_t last = TABLES_NONE;
    for (int32_t i = m->layers; i-- > top;) last = tables_layer_backward(m, i, true, last);
    if (top) {
        last = interaction(m, "d.interaction.a", last, TABLES_NONE);
        last = interaction(m, "d.interaction.b", last, TABLES_NONE);
    }
    m->rows_gradient = tables_stream(m, "d.rows", embedding_bytes(m), last);
    m->rows_buffer = tables_buffer(m, "d.rows", LUO_BUFFER_GRADIENT, 4,
                                   m->l->touched[m->worker] * luo_model_row_width(m->l->model));
    tables_uses(m, m->rows_gradient, embeddings, m->rows_buffer);
    if (top) last = tables_part(m, last);
    for (int32_t i = top; i-- > 0;) last = tables_layer_backward(m, i, i > 0, last);
}

/* ---- state ---- */

static void state(tables_maker *m)
{
    const bool served = m->way->dense == LUO_TABLES_SERVERS;
    const bool server = m->l->servers > 0 && m->l->server_of[m->worker] != TABLES_NONE;
    int64_t n = 0, gradients = 0;
    for (int32_t i = 0; i < m->layers; i++) {
        n += tables_kept(m, i);
        gradients += tables_gradients(m, i);
    }
    /* Of a server its share; other devices then have a copy of the weights alone. */
    const int64_t kept = !served ? n : server ? (n + m->l->servers - 1) / m->l->servers : 0;
    tables_buffer(m, "rows", LUO_BUFFER_WEIGHT, 4, tables_held(m));
    tables_buffer(m, "dense", LUO_BUFFER_WEIGHT, m->elem_bytes, n);
    tables_buffer(m, "d.dense", LUO_BUFFER_GRADIENT, 4, gradients);
    /* Two moments, and the weight itself where the model has it in fewer bytes. */
    tables_buffer(m, "dense.state", LUO_BUFFER_OPTIMIZER, 4,
                  kept * (m->elem_bytes < 4 || served ? 3 : 2));
}

static luo_status begin(tables_maker *m, int32_t worker)
{
    m->worker = worker;
    m->ninstr = m->nbuf = m->nslot = 0;
    m->instr = LUO_NEW_N(m->arena, luo_instr, TABLES_INSTR);
    m->buf = LUO_NEW_N(m->arena, luo_buffer, TABLES_BUFFERS);
    m->slot = LUO_NEW_N(m->arena, luo_slot, TABLES_INSTR);
    return m->instr && m->buf && m->slot ? LUO_OK : luo_err_nomem(m->err);
}

static void segment(tables_maker *m, int32_t s, luo_phase phase)
{
    static const luo_phase phases[3] = {LUO_PHASE_F, LUO_PHASE_B, LUO_PHASE_POST};
    if (s > 0) m->seg[s - 1].n = m->ninstr - m->seg[s - 1].first;
    if (s < 3)
        m->seg[s] = (luo_segment){(int32_t)phases[s], 0, phase == LUO_PHASE_POST ? 0 : samples(m),
                                  m->ninstr, 0};
    m->phase = phase;
}

static luo_status make_role(tables_maker *m, int32_t worker, luo_role *role)
{
    LUO_TRY(begin(m, worker));
    state(m);
    segment(m, 0, LUO_PHASE_F);
    const int32_t embeddings = forward(m);
    segment(m, 1, LUO_PHASE_B);
    backward(m, embeddings);
    segment(m, 2, LUO_PHASE_POST);
    tables_push(m);
    segment(m, 3, LUO_PHASE_POST);
    luo_segment *seg = LUO_NEW_N(m->arena, luo_segment, 3);
    if (!seg || m->failed) return luo_err_nomem(m->err);
    memcpy(seg, m->seg, sizeof m->seg);
    *role = (luo_role){.ninstr = m->ninstr,
                       .nseg = 3,
                       .nbuf = m->nbuf,
                       .nslot = m->nslot,
                       .instr = m->instr,
                       .seg = seg,
                       .buf = m->buf};
    return LUO_OK;
}

/* ---- the set ---- */

/* A communicator for each who calls one. Answers how many. */
static int32_t group_callers(tables_maker *m, luo_group *group)
{
    const bool calls[TABLES_CALLERS] = {[TABLES_DENSE] = m->way->dense == LUO_TABLES_ALL_REDUCE &&
                                                         tables_reduces(m),
                                        [TABLES_ROWS] = m->way->tables >= LUO_TABLES_ALL_TO_ALL,
                                        [TABLES_MOVES] = tables_moves(m)};
    int32_t n = 0;
    for (int c = 0; c < TABLES_CALLERS; c++) {
        if (!calls[c] || m->l->n < 2) continue;
        m->group[c] = n;
        group[n++] =
            (luo_group){m->l->n, m->l->dev, c == TABLES_MOVES ? LUO_STREAM_TP : LUO_STREAM_DP};
    }
    return n;
}

static luo_status open(tables_maker *m, luo_programs *set, luo_run_task **tasks)
{
    const tables_layout *l = m->l;
    luo_group *group = LUO_NEW_N(m->arena, luo_group, TABLES_CALLERS);
    luo_role *role = LUO_NEW_N(m->arena, luo_role, l->n);
    luo_program *at = LUO_NEW_N(m->arena, luo_program, l->n);
    *tasks = LUO_NEW_N(m->arena, luo_run_task, 3);
    m->op = LUO_NEW_N(m->arena, luo_op_info, TABLES_INSTR);
    if (!group || !role || !at || !*tasks || !m->op) return luo_err_nomem(m->err);
    for (int32_t k = 0; k < 3; k++) (*tasks)[k] = (luo_run_task){k, k < 2 ? 0 : -1};
    *set = (luo_programs){.n = l->n,
                          .at = at,
                          .nroles = l->n,
                          .roles = role,
                          .groups = group,
                          .ngroups = group_callers(m, group),
                          .ops = m->op,
                          .npipelines = 1};
    return LUO_OK;
}

luo_status tables_step(luo_arena *arena, const tables_layout *l, luo_tables_way way,
                       const tables_dense *dense, const tables_traffic *traffic, luo_programs **out,
                       luo_err *err)
{
    tables_dense parallel;
    tables_dense_parallel(&parallel);
    tables_maker m = {.arena = arena,
                      .err = err,
                      .l = l,
                      .way = luo_tables_way_of(way),
                      .dense = dense ? dense : &parallel,
                      .traffic = traffic,
                      .elem_bytes = luo_dtype_bytes(l->model->dtype)};
    luo_programs *set = LUO_NEW(arena, luo_programs);
    luo_run_task *tasks;
    if (!set) return luo_err_nomem(err);
    m.layers = luo_model_dense_layers(l->model, m.layer, &m.bottom);
    for (int32_t w = 0; w < l->n; w++) {
        m.all_touched += l->touched[w];
        if (l->touched[w] > m.most_touched) m.most_touched = l->touched[w];
    }
    LUO_TRY(open(&m, set, &tasks));
    for (int32_t w = 0; w < l->n; w++) {
        LUO_TRY(make_role(&m, w, (luo_role *)&set->roles[w]));
        ((luo_program *)set->at)[w] = (luo_program){
            .device = l->dev[w], .role = w, .ntask = 3, .tasks = tasks, .slots = m.slot};
    }
    set->nops = m.nops;
    LUO_TRY(luo_programs_hash(set, err));
    *out = set;
    return LUO_OK;
}
