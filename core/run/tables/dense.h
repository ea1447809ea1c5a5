/* dense.h: the dense part of a model with tables as planner `hap` sees it, and how its program cuts
 * it; not for others than core/run/tables and its tests. */
#ifndef LUO_CORE_RUN_TABLES_DENSE_H
#define LUO_CORE_RUN_TABLES_DENSE_H
#include "core/plan/hap/alternate.h"
#include "core/run/tables/tables.h"

/* Letters of all layers: samples, columns that it is given, columns that it makes. */
enum { TABLES_B = 'b', TABLES_I = 'i', TABLES_O = 'o' };

typedef struct tables_cut { /* of one operation; letter 0: every device does all of it */
    luo_hap_rule rule;
    luo_hap_take take[LUO_HAP_OPERANDS]; /* x; of a product: weight, bias */
} tables_cut;

typedef struct tables_dense {
    tables_cut product[LUO_DENSE_LAYERS], activation[LUO_DENSE_LAYERS];
    luo_hap_take meets; /* what the bottom has made comes to where embeddings of the samples are */
    /* By worker: columns of its piece, where a layer is cut by them. NULL: data-parallel. */
    int64_t *in[LUO_DENSE_LAYERS], *out[LUO_DENSE_LAYERS];
    int64_t *samples; /* by worker, of the shares that the program was found with */
} tables_dense;

/* Letter b everywhere, gradients all-reduced. */
void tables_dense_parallel(tables_dense *out);
bool tables_dense_is_parallel(const tables_dense *dense, int32_t layers);

/* The dense part of a step of so many samples: per layer a product with its bias and an activation,
 * the last of which is the loss. Rows are pulled, and meet what the bottom has made, where the
 * samples are. NULL or a failed graph: out of memory. Owner: arena. */
luo_hap_graph *tables_dense_graph(luo_arena *arena, const luo_model *model, int64_t batch);
/* Operation of the graph that is the product of layer i; the next one is its activation. */
int32_t tables_dense_op(int32_t layer, int32_t bottom);

struct tables_layout;
/* Asks planner `hap`, with the numbers that the cost model gives of the devices, and reads its
 * answer. job: {.opts = {.factors = true}} is that of `plan hap`; op_letter is set here. result:
 * NULL, or the answer as it was. Errors: as luo_hap_devices_of, luo_hap_cluster_numbers,
 * luo_hap_alternate. Owner: arena. Pre: two devices at least. */
luo_status tables_dense_ask(luo_arena *arena, const struct tables_layout *layout,
                            const luo_hap_job *job, tables_dense *out, luo_hap_result **result,
                            luo_err *err);
/* "mlp.0 by outputs, mlp.1 by inputs": layers that are not data-parallel; "" none is. Owner: arena.
 * NULL: out of memory. */
const char *tables_dense_text(luo_arena *arena, const luo_model *model, const tables_dense *dense);
/* "bottom_mlp.1", "mlp.0". */
const char *tables_layer_name(luo_arena *arena, int32_t layer, int32_t bottom);
#endif
