/* step.h: who has which rows and samples, and one step of a way as programs; not for others than
 * core/run/tables and its tests. */
#ifndef LUO_CORE_RUN_TABLES_STEP_H
#define LUO_CORE_RUN_TABLES_STEP_H
#include "core/run/tables/dense.h"

typedef struct tables_layout {
    const luo_tables_in *in;
    const luo_model *model;
    int32_t n;        /* devices that work */
    int32_t *dev;     /* ascending */
    int64_t *samples; /* of each */
    int64_t *touched; /* different rows of each */
    int32_t *order;   /* workers in the order in which they become servers: one of every node
                         first */
    /* Different rows that worker w touches of server s: rows[w * servers + s]. */
    int32_t servers;
    int32_t *server_of; /* by worker: which server it is, -1: none */
    int64_t *rows;
    const tables_dense *hap; /* how planner `hap` cuts the dense part; NULL: it was not asked */
} tables_layout;

/* Devices that may work, their order, no samples yet. Errors: LUO_EINPUT, LUO_E2BIG, LUO_ENOMEM.
 * Owner: arena. */
luo_status tables_layout_open(luo_arena *arena, const luo_tables_in *in, tables_layout *out,
                              luo_err *err);
/* Different rows that each device touches of the samples it has. Errors: LUO_ENOMEM. */
luo_status tables_layout_count(luo_arena *arena, tables_layout *layout, luo_err *err);
/* Deals the samples of the first step, and counts rows. Errors: those of tables_deal. */
luo_status tables_layout_deal(luo_arena *arena, tables_layout *layout, luo_tables_deal deal,
                              luo_err *err);
/* Samples of each device, perhaps none. Pre: not by hap, or layout->hap is there. Errors:
 * LUO_EINPUT fewer samples than devices; LUO_ENOMEM; costs. Cost: of `level` some 1,000 looks at
 * seconds for each kind of device and slowdown, most of which are known already. */
luo_status tables_deal(luo_arena *arena, tables_layout *layout, luo_tables_deal deal, luo_err *err);
/* Seconds that forward and backward of 1, 2, .. samples compute on that device, one kernel after
 * the other: what `level` levels. Shapes: out: most. Errors: LUO_ENOMEM; costs. */
luo_status tables_work_seconds(luo_arena *arena, const tables_layout *layout, int32_t worker,
                               int64_t most, double *out, luo_err *err);
/* Makes the first `servers` of the order servers, and counts their rows. Errors: LUO_ENOMEM. */
luo_status tables_layout_serve(luo_arena *arena, tables_layout *layout, int32_t servers,
                               luo_err *err);

/* Rows and keys of an exchange with servers, all workers together, as shares of the different rows
 * that they touch: without caches all are 1. */
typedef struct tables_traffic {
    double asked, pulled, pushed;
    int64_t key_bytes, row_extra_bytes, push_extra_bytes; /* of a key asked; beside the numbers */
    int64_t iterations; /* of each worker, that it is the mean of */
} tables_traffic;
tables_traffic tables_traffic_plain(void);
/* Of caches, in their steady state: the second half of a run. Errors: LUO_ENOMEM. */
luo_status tables_traffic_cached(const tables_layout *layout, tables_traffic *out, luo_err *err);

/* One step, with the dense part cut as `dense` says; NULL: data-parallel. Pre: dense is NULL, or
 * the way all-reduces the dense part and there are two devices at least. Errors: LUO_ENOMEM. Owner:
 * arena. Cost: O(devices x (servers + layers)), with a dense part that is cut O(devices^2 x
 * layers).
 */
luo_status tables_step(luo_arena *arena, const tables_layout *layout, luo_tables_way way,
                       const tables_dense *dense, const tables_traffic *traffic, luo_programs **out,
                       luo_err *err);
/* Bytes that reading the rows of so many samples moves: embeddings are written in the order of
 * samples. */
double tables_embedding_bytes(const luo_model *model, int64_t samples);

/* ---- a role being made (step.c, step_dense.c, step_exchange.c) ---- */

/* Who calls a collective: each in a lane and a communicator of its own, so that they run beside
 * each other. */
typedef enum tables_caller {
    TABLES_DENSE, /* gradients and pieces of the dense part's weights */
    TABLES_ROWS,
    TABLES_MOVES, /* values of the dense part, and their gradients */
    TABLES_CALLERS
} tables_caller;

typedef struct tables_maker {
    luo_arena *arena;
    luo_err *err;
    const tables_layout *l;
    const luo_tables_way_desc *way;
    const tables_dense *dense;
    const tables_traffic *traffic;
    int32_t group[TABLES_CALLERS];
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t layers, bottom;
    int64_t elem_bytes, most_touched, all_touched;
    luo_op_info *op;
    int32_t nops;
    /* of the device at hand: */
    int32_t worker;
    luo_instr *instr;
    luo_buffer *buf;
    luo_slot *slot;
    luo_segment seg[3];
    luo_phase phase;
    int32_t ninstr, nbuf, nslot;
    int32_t weights[LUO_DENSE_LAYERS]; /* instructions that make gradients of weights */
    int32_t rows_gradient;             /* instruction that makes gradients of rows */
    int32_t rows_buffer;               /* what it writes */
    int32_t given[LUO_DENSE_LAYERS];   /* buffers: what a product reads, what its layer makes */
    int32_t made[LUO_DENSE_LAYERS];
    bool failed;                       /* out of memory: what is made is of no use */
} tables_maker;

enum {
    TABLES_NONE = -1,
    TABLES_INSTR = 24 * LUO_DENSE_LAYERS + 64,
    TABLES_BUFFERS = 16 * LUO_DENSE_LAYERS + 16
};
/* Appends an instruction that waits for two others (TABLES_NONE: for none). Answers its id. */
int32_t tables_add(tables_maker *maker, const char *op, luo_instr instr, int32_t dep, int32_t dep2);
int32_t tables_buffer(tables_maker *maker, const char *name, luo_buffer_class kind,
                      int64_t elem_bytes, int64_t n);
void tables_uses(tables_maker *maker, int32_t instr, int32_t in, int32_t out);
/* One more that it reads. Pre: it reads one at most. */
void tables_reads(tables_maker *maker, int32_t instr, int32_t buffer);
int32_t tables_stream(tables_maker *maker, const char *op, double bytes, int32_t dep);
/* A collective of all devices; with one device there is none, and the answer is dep. counts:
 * elements of each device, NULL: as many of each. */
int32_t tables_collective(tables_maker *maker, const char *op, luo_coll coll, tables_caller caller,
                          double bytes, const int64_t *counts, int32_t dep);
/* ---- the dense part (step_dense.c) ---- */
typedef struct tables_value {
    int32_t id, buffer; /* who made it, where it is; either may be TABLES_NONE */
} tables_value;
/* Forward of layer i, and of what the bottom has made on its way to embeddings. */
tables_value tables_layer_forward(tables_maker *maker, int32_t i, tables_value x);
tables_value tables_meet(tables_maker *maker, tables_value value);
/* Backward: of gradients of what the layer makes (dep) those of weights; then of what it was given
 * if anyone wants that. Answers the instruction that has it. */
int32_t tables_layer_backward(tables_maker *maker, int32_t i, bool wanted, int32_t dep);
int32_t tables_part(tables_maker *maker, int32_t dep); /* the gradient of tables_meet */
/* After backward: gradients of copies are summed. Answers the last call, or TABLES_NONE. */
int32_t tables_reduce(tables_maker *maker);
/* Parameters of layer i that the device keeps and updates; with gradients that are not summed yet.
 */
int64_t tables_kept(const tables_maker *maker, int32_t i);
int64_t tables_gradients(const tables_maker *maker, int32_t i);
/* Does anyone call as TABLES_DENSE, as TABLES_MOVES? */
bool tables_reduces(const tables_maker *maker);
bool tables_moves(const tables_maker *maker);

/* Before forward: rows come. Answers the instruction that has them, or TABLES_NONE. */
int32_t tables_pull(tables_maker *maker);
/* After backward: gradients travel, parameters are updated. */
void tables_push(tables_maker *maker);
/* Numbers of rows that the device holds for good. */
int64_t tables_held(const tables_maker *maker);
/* Parameters of a dense layer. */
static inline int64_t tables_weights(const luo_dense_layer *layer)
{
    return layer->in * layer->out + layer->out;
}
#endif
