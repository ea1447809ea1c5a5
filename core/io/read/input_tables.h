/* input_tables.h: the columns of every input table (docs/formats.md#tables-1), in one place:
 * readers index cells by the enums, `check` reads any of them. */
#ifndef LUO_CORE_IO_READ_INPUT_TABLES_H
#define LUO_CORE_IO_READ_INPUT_TABLES_H
#include "core/base/words.h"
#include "core/io/result/csv.h"

typedef struct luo_input_table {
    const char *name; /* "event_trace" */
    const luo_csv_column *columns;
    int n;
} luo_input_table;

enum { LUO_EV_T, LUO_EV_KIND, LUO_EV_TARGET, LUO_EV_VALUE, LUO_EV_DURATION, LUO_EV_ID, LUO_EV_N };
enum {
    LUO_CA_CAUSE,
    LUO_CA_KIND,
    LUO_CA_SCOPE,
    LUO_CA_COUNT,
    LUO_CA_MEDIAN,
    LUO_CA_SIGMA,
    LUO_CA_VALUE,
    LUO_CA_N
};
enum {
    LUO_OP_OP,
    LUO_OP_DTYPE,
    LUO_OP_M,
    LUO_OP_N_,
    LUO_OP_K,
    LUO_OP_TIME,
    LUO_OP_SAMPLES,
    LUO_OP_ROLE,
    LUO_OP_N
};
enum {
    LUO_CO_COLLECTIVE,
    LUO_CO_DTYPE,
    LUO_CO_DEVICES,
    LUO_CO_NODES,
    LUO_CO_SIZE,
    LUO_CO_TIME,
    LUO_CO_ALGBW,
    LUO_CO_BUSBW,
    LUO_CO_ROLE,
    LUO_CO_N
};
enum { LUO_P2_CLASS, LUO_P2_SIZE, LUO_P2_TIME, LUO_P2_ROLE, LUO_P2_N };
enum { LUO_PO_TP, LUO_PO_PP, LUO_PO_A, LUO_PO_B, LUO_PO_C, LUO_PO_CAP, LUO_PO_UTIL, LUO_PO_N };
enum { LUO_LE_LENGTH, LUO_LE_ARRIVAL, LUO_LE_N };
enum { LUO_HI_LOW, LUO_HI_HIGH, LUO_HI_COUNT, LUO_HI_N };
enum { LUO_LO_STEP, LUO_LO_LAYER, LUO_LO_EXPERT, LUO_LO_TOKENS, LUO_LO_N };
enum {
    LUO_RE_STEP,
    LUO_RE_PIPELINE,
    LUO_RE_STAGE,
    LUO_RE_LANE,
    LUO_RE_OP,
    LUO_RE_CHUNK,
    LUO_RE_MICRO_BATCH,
    LUO_RE_ORDER,
    LUO_RE_START,
    LUO_RE_DURATION,
    LUO_RE_N
};
enum { LUO_IT_WORKER, LUO_IT_ITERATION, LUO_IT_SECONDS, LUO_IT_N };
enum { LUO_RA_DEVICE, LUO_RA_RATE, LUO_RA_STATE, LUO_RA_T, LUO_RA_N };
enum {
    LUO_SU_ID,
    LUO_SU_SPLIT,
    LUO_SU_SUITE,
    LUO_SU_SYSTEM,
    LUO_SU_DATE,
    LUO_SU_GPU,
    LUO_SU_GPUS,
    LUO_SU_PER_NODE,
    LUO_SU_FABRIC,
    LUO_SU_MODEL,
    LUO_SU_LAYERS,
    LUO_SU_HIDDEN,
    LUO_SU_HEADS,
    LUO_SU_KV_HEADS,
    LUO_SU_FFN,
    LUO_SU_VOCAB,
    LUO_SU_SEQ,
    LUO_SU_PRECISION,
    LUO_SU_TP,
    LUO_SU_PP,
    LUO_SU_VPP,
    LUO_SU_DP,
    LUO_SU_CP,
    LUO_SU_MBS,
    LUO_SU_GBS,
    LUO_SU_SP,
    LUO_SU_RECOMPUTE,
    LUO_SU_ZERO,
    LUO_SU_LAYERS_PER_STAGE,
    LUO_SU_STAGE_DEVICES,
    LUO_SU_STEP,
    LUO_SU_STEP_KIND,
    LUO_SU_GRAD_REDUCE,
    LUO_SU_MEM,
    LUO_SU_TFLOPS,
    LUO_SU_SOURCE,
    LUO_SU_NOTE, /* up to here every column has to exist */
    LUO_SU_EP,
    LUO_SU_EXPERTS,
    LUO_SU_TOPK,
    LUO_SU_MOE_FFN,
    LUO_SU_SHARED_FFN,
    LUO_SU_DENSE_LAYERS,
    LUO_SU_MLA,
    LUO_SU_MEM_BY_RANK,
    LUO_SU_N
};
enum {
    LUO_LT_MODEL,
    LUO_LT_GPU,
    LUO_LT_SEQUENCES,
    LUO_LT_TP,
    LUO_LT_LAYER,
    LUO_LT_FORWARD,
    LUO_LT_BACKWARD,
    LUO_LT_UPDATE,
    LUO_LT_N
};

/* Of a measured row. */
#define LUO_ROW_ROLE_LIST(X)                                                                       \
    X(LUO_ROLE_CALIBRATION, "calibration") X(LUO_ROLE_VALIDATION, "validation")
typedef enum luo_row_role { LUO_ROW_ROLE_LIST(LUO_WORD_VALUE) } luo_row_role;
const char *luo_row_role_name(luo_row_role role);

/* Tables that a profile names. */
#define LUO_PROFILE_TABLE_LIST(X)                                                                  \
    X(LUO_OP_TIMES, "op_times")                                                                    \
    X(LUO_COLLECTIVE_TIMES, "collective_times")                                                    \
    X(LUO_P2P_TIMES, "p2p_times")
typedef enum luo_profile_table_kind {
    LUO_PROFILE_TABLE_LIST(LUO_WORD_VALUE)
} luo_profile_table_kind;

extern const luo_input_table luo_input_table_events, luo_input_table_causes,
    luo_input_table_op_times, luo_input_table_collective_times, luo_input_table_p2p_times,
    luo_input_table_rates, luo_input_table_pool, luo_input_table_lengths,
    luo_input_table_histogram, luo_input_table_suite, luo_input_table_layer_times,
    luo_input_table_expert_load, luo_input_table_straggler, luo_input_table_recorded;

/* Every table: known by its header. */
const luo_input_table *const *luo_input_tables(int *n);
/* A table all of whose required columns stand in the first line; most columns win. In a file that
 * calls itself a table, the nearest one, whose reader then says what is wrong. NULL: none. */
const luo_input_table *luo_input_table_of(const luo_source *src);
#endif
