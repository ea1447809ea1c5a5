/* step.c: one step of a way as programs: one micro-batch of forward and backward, then all
 * exchanges of gradients, each of which waits for nothing but its own gradient. */
#include "core/run/tables/step.h"

#include <string.h>

/* ---- a role ---- */

static int32_t op_of(tables_maker *maker, const char *name)
{
    for (int32_t i = 0; name && i < maker->nops; i++)
        if (strcmp(maker->op[i].name, name) == 0) return i;
    const char *copy = name ? luo_arena_strdup(maker->arena, name) : NULL;
    maker->failed |= !copy;
    maker->op[maker->nops] = (luo_op_info){copy ? copy : "", LUO_OP_KINDS, -1};
    return maker->nops++;
}

int32_t tables_add(tables_maker *maker, const char *op, luo_instr instr, int32_t dep, int32_t dep2)
{
    int32_t *deps = LUO_NEW_N(maker->arena, int32_t, 5); /* and buffers (tables_uses) */
    luo_instr *at = &maker->instr[maker->ninstr];
    maker->failed |= !deps;
    if (!deps) return TABLES_NONE;
    instr.id = maker->ninstr;
    instr.op = op_of(maker, op);
    instr.phase = (uint8_t)maker->phase;
    instr.layer = -1;
    if (instr.kind != LUO_INSTR_COLLECTIVE && instr.kind != LUO_INSTR_P2P) instr.slot = -1;
    instr.exchange = instr.slot;
    instr.dep = deps;
    if (dep != TABLES_NONE) deps[instr.ndep++] = dep;
    if (dep2 != TABLES_NONE && dep2 != dep) deps[instr.ndep++] = dep2;
    instr.in = deps + 2;
    instr.out = deps + 4;
    *at = instr;
    return maker->ninstr++;
}

int32_t tables_buffer(tables_maker *maker, const char *name, luo_buffer_class kind,
                      int64_t elem_bytes, int64_t n)
{
    const char *tensor = name ? luo_arena_strdup(maker->arena, name) : NULL;
    maker->failed |= !tensor;
    maker->buf[maker->nbuf] = (luo_buffer){.tensor = tensor,
                                           .rank = 1,
                                           .dim = {n},
                                           .elem_bytes = elem_bytes,
                                           .bytes = n * elem_bytes,
                                           .buffer_class = (int32_t)kind};
    return maker->nbuf++;
}

void tables_uses(tables_maker *maker, int32_t instr, int32_t in, int32_t out)
{
    if (instr == TABLES_NONE) return;
    luo_instr *at = &maker->instr[instr];
    int32_t *buffers = (int32_t *)at->dep + 2;
    if (in != TABLES_NONE) buffers[0] = in, at->nin = 1;
    if (out != TABLES_NONE) buffers[2] = out, at->nout = 1;
}

void tables_reads(tables_maker *maker, int32_t instr, int32_t buffer)
{
    luo_instr *at = &maker->instr[instr];
    if (buffer == TABLES_NONE) return;
    ((int32_t *)at->dep)[2 + at->nin++] = buffer;
}

int32_t tables_stream(tables_maker *maker, const char *op, double bytes, int32_t dep)
{
    const int64_t n = (int64_t)bytes;
    return tables_add(maker, op,
                      (luo_instr){.kind = LUO_INSTR_COMPUTE,
                                  .stream = LUO_STREAM_COMPUTE,
                                  .bytes = n,
                                  .cost = {LUO_COST_STREAM, {n}}},
                      dep, TABLES_NONE);
}

/* ---- forward and backward ---- */

static int64_t samples(const tables_maker *maker)
{
    return maker->l->samples[maker->worker];
}

double tables_embedding_bytes(const luo_model *model, int64_t samples)
{
    const luo_features *features = &model->features;
    const double row = 4.0 * (double)luo_model_row_width(model);
    const double vector = (double)luo_dtype_bytes(model->dtype) * (double)features->width;
    return (double)samples * (double)features->slots * (row + vector);
}

static double embedding_bytes(const tables_maker *maker)
{
    return tables_embedding_bytes(maker->l->model, samples(maker));
}

/* Products of all pairs; backward takes two such. They are so small, one for each sample, that
 * memory bounds them: what is read and written of a sample, vectors and products. */
static int32_t interaction(tables_maker *maker, const char *op, int32_t dep, int32_t dep2)
{
    const luo_features *features = &maker->l->model->features;
    const int64_t n = features->slots + 1,
                  bytes = samples(maker) * n * (features->width + n) * maker->elem_bytes;
    return tables_add(maker, op,
                      (luo_instr){.kind = LUO_INSTR_COMPUTE,
                                  .stream = LUO_STREAM_COMPUTE,
                                  .bytes = bytes,
                                  .flops = 2 * samples(maker) * n * n * features->width,
                                  .cost = {LUO_COST_STREAM, {bytes}}},
                      dep, dep2);
}

/* Answers the buffer of embeddings, in which what is made of them lies too. */
static int32_t forward(tables_maker *maker)
{
    const luo_features *features = &maker->l->model->features;
    const int64_t n = samples(maker);
    const int32_t rows = tables_pull(maker), top = maker->bottom;
    tables_value value = {TABLES_NONE,
                          TABLES_NONE}; /* numbers of samples, which someone else has */
    for (int32_t i = 0; i < top; i++) value = tables_layer_forward(maker, i, value);
    const int32_t made = value.buffer;
    if (top) value = tables_meet(maker, value);
    const int32_t buffer = tables_buffer(
        maker, "embeddings", LUO_BUFFER_STASH, maker->elem_bytes,
        n * (features->slots * features->width + (top ? maker->layer[top].in : features->dense)));
    /* A copy of what the bottom has made is among that. */
    if (top && value.buffer == made) maker->made[top - 1] = buffer;
    const int32_t read = tables_stream(maker, "rows.read", embedding_bytes(maker), rows);
    tables_uses(maker, read, TABLES_NONE, buffer);
    value = (tables_value){top ? interaction(maker, "interaction", read, value.id) : read, buffer};
    for (int32_t i = top; i < maker->layers; i++) value = tables_layer_forward(maker, i, value);
    return buffer;
}

static void backward(tables_maker *maker, int32_t embeddings)
{
    const int32_t top = maker->bottom;
    int32_t last = TABLES_NONE;
    for (int32_t i = maker->layers; i-- > top;) last = tables_layer_backward(maker, i, true, last);
    if (top) {
        last = interaction(maker, "d.interaction.a", last, TABLES_NONE);
        last = interaction(maker, "d.interaction.b", last, TABLES_NONE);
    }
    maker->rows_gradient = tables_stream(maker, "d.rows", embedding_bytes(maker), last);
    maker->rows_buffer =
        tables_buffer(maker, "d.rows", LUO_BUFFER_GRADIENT, 4,
                      maker->l->touched[maker->worker] * luo_model_row_width(maker->l->model));
    tables_uses(maker, maker->rows_gradient, embeddings, maker->rows_buffer);
    if (top) last = tables_part(maker, last);
    for (int32_t i = top; i-- > 0;) last = tables_layer_backward(maker, i, i > 0, last);
}

/* ---- state ---- */

static void state(tables_maker *maker)
{
    const bool served = maker->way->dense == LUO_TABLES_SERVERS;
    const bool server = maker->l->servers > 0 && maker->l->server_of[maker->worker] != TABLES_NONE;
    int64_t n = 0, gradients = 0;
    for (int32_t i = 0; i < maker->layers; i++) {
        n += tables_kept(maker, i);
        gradients += tables_gradients(maker, i);
    }
    /* Of a server its share; other devices then have a copy of the weights alone. */
    const int64_t kept = !served ? n : server ? (n + maker->l->servers - 1) / maker->l->servers : 0;
    tables_buffer(maker, "rows", LUO_BUFFER_WEIGHT, 4, tables_held(maker));
    tables_buffer(maker, "dense", LUO_BUFFER_WEIGHT, maker->elem_bytes, n);
    tables_buffer(maker, "d.dense", LUO_BUFFER_GRADIENT, 4, gradients);
    /* Two moments, and the weight itself where the model has it in fewer bytes. */
    tables_buffer(maker, "dense.state", LUO_BUFFER_OPTIMIZER, 4,
                  kept * (maker->elem_bytes < 4 || served ? 3 : 2));
}

static luo_status begin(tables_maker *maker, int32_t worker)
{
    maker->worker = worker;
    maker->ninstr = maker->nbuf = maker->nslot = 0;
    maker->instr = LUO_NEW_N(maker->arena, luo_instr, TABLES_INSTR);
    maker->buf = LUO_NEW_N(maker->arena, luo_buffer, TABLES_BUFFERS);
    maker->slot = LUO_NEW_N(maker->arena, luo_slot, TABLES_INSTR);
    return maker->instr && maker->buf && maker->slot ? LUO_OK : luo_err_nomem(maker->err);
}

static void segment(tables_maker *maker, int32_t s, luo_phase phase)
{
    static const luo_phase phases[3] = {LUO_PHASE_F, LUO_PHASE_B, LUO_PHASE_POST};
    if (s > 0) maker->seg[s - 1].n = maker->ninstr - maker->seg[s - 1].first;
    if (s < 3)
        maker->seg[s] = (luo_segment){
            (int32_t)phases[s], 0, phase == LUO_PHASE_POST ? 0 : samples(maker), maker->ninstr, 0};
    maker->phase = phase;
}

static luo_status make_role(tables_maker *maker, int32_t worker, luo_role *role)
{
    LUO_TRY(begin(maker, worker));
    state(maker);
    segment(maker, 0, LUO_PHASE_F);
    const int32_t embeddings = forward(maker);
    segment(maker, 1, LUO_PHASE_B);
    backward(maker, embeddings);
    segment(maker, 2, LUO_PHASE_POST);
    tables_push(maker);
    segment(maker, 3, LUO_PHASE_POST);
    luo_segment *seg = LUO_NEW_N(maker->arena, luo_segment, 3);
    if (!seg || maker->failed) return luo_err_nomem(maker->err);
    memcpy(seg, maker->seg, sizeof maker->seg);
    *role = (luo_role){.ninstr = maker->ninstr,
                       .nseg = 3,
                       .nbuf = maker->nbuf,
                       .nslot = maker->nslot,
                       .instr = maker->instr,
                       .seg = seg,
                       .buf = maker->buf};
    return LUO_OK;
}

/* ---- the set ---- */

/* A communicator for each who calls one. Answers how many. */
static int32_t group_callers(tables_maker *maker, luo_group *group)
{
    const bool calls[TABLES_CALLERS] = {
        [TABLES_DENSE] = maker->way->dense == LUO_TABLES_ALL_REDUCE && tables_reduces(maker),
        [TABLES_ROWS] = maker->way->tables >= LUO_TABLES_ALL_TO_ALL,
        [TABLES_MOVES] = tables_moves(maker)};
    int32_t n = 0;
    for (int c = 0; c < TABLES_CALLERS; c++) {
        if (!calls[c] || maker->l->n < 2) continue;
        maker->group[c] = n;
        group[n++] = (luo_group){maker->l->n, maker->l->dev,
                                 c == TABLES_MOVES ? LUO_STREAM_TP : LUO_STREAM_DP};
    }
    return n;
}

static luo_status open(tables_maker *maker, luo_programs *set, luo_run_task **tasks)
{
    const tables_layout *layout = maker->l;
    luo_group *group = LUO_NEW_N(maker->arena, luo_group, TABLES_CALLERS);
    luo_role *role = LUO_NEW_N(maker->arena, luo_role, layout->n);
    luo_program *at = LUO_NEW_N(maker->arena, luo_program, layout->n);
    *tasks = LUO_NEW_N(maker->arena, luo_run_task, 3);
    maker->op = LUO_NEW_N(maker->arena, luo_op_info, TABLES_INSTR);
    if (!group || !role || !at || !*tasks || !maker->op) return luo_err_nomem(maker->err);
    for (int32_t k = 0; k < 3; k++) (*tasks)[k] = (luo_run_task){k, k < 2 ? 0 : -1};
    *set = (luo_programs){.n = layout->n,
                          .at = at,
                          .nroles = layout->n,
                          .roles = role,
                          .groups = group,
                          .ngroups = group_callers(maker, group),
                          .ops = maker->op,
                          .npipelines = 1};
    return LUO_OK;
}

luo_status tables_step(luo_arena *arena, const tables_layout *layout, luo_tables_way way,
                       const tables_dense *dense, const tables_traffic *traffic, luo_programs **out,
                       luo_err *err)
{
    tables_dense parallel;
    tables_dense_parallel(&parallel);
    tables_maker maker = {.arena = arena,
                          .err = err,
                          .l = layout,
                          .way = luo_tables_way_of(way),
                          .dense = dense ? dense : &parallel,
                          .traffic = traffic,
                          .elem_bytes = luo_dtype_bytes(layout->model->dtype)};
    luo_programs *set = LUO_NEW(arena, luo_programs);
    luo_run_task *tasks;
    if (!set) return luo_err_nomem(err);
    maker.layers = luo_model_dense_layers(layout->model, maker.layer, &maker.bottom);
    for (int32_t w = 0; w < layout->n; w++) {
        maker.all_touched += layout->touched[w];
        if (layout->touched[w] > maker.most_touched) maker.most_touched = layout->touched[w];
    }
    LUO_TRY(open(&maker, set, &tasks));
    for (int32_t w = 0; w < layout->n; w++) {
        LUO_TRY(make_role(&maker, w, (luo_role *)&set->roles[w]));
        ((luo_program *)set->at)[w] = (luo_program){
            .device = layout->dev[w], .role = w, .ntask = 3, .tasks = tasks, .slots = maker.slot};
    }
    set->nops = maker.nops;
    LUO_TRY(luo_programs_hash(set, err));
    *out = set;
    return LUO_OK;
}
