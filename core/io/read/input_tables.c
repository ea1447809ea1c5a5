#include "core/graph/program/coll.h"
#include "core/io/read/input_tables.h"
#include "core/plan/suite/suite.h"
#include "core/run/scenario.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define WHOLE(name, req, lo, says)                                                                 \
    {                                                                                              \
        name, LUO_CSV_WHOLE, req, LUO_WITHIN(lo, 9007199254740992.0), NULL, false, says            \
    }
#define WITHIN_WHOLE(name, req, lo, hi, says)                                                      \
    {                                                                                              \
        name, LUO_CSV_WHOLE, req, LUO_WITHIN(lo, hi), NULL, false, says                            \
    }
#define OF(name, req, quantity, unit, says)                                                        \
    {                                                                                              \
        name, LUO_CSV_NUMBER, req, LUO_OF(quantity, unit), NULL, false, says                       \
    }
#define OF_OR_0(name, req, quantity, unit, says)                                                   \
    {                                                                                              \
        name, LUO_CSV_NUMBER, req, LUO_OF_OR_0(quantity, unit), NULL, false, says                  \
    }
#define WITHIN(name, req, lo, hi, says)                                                            \
    {                                                                                              \
        name, LUO_CSV_NUMBER, req, LUO_WITHIN(lo, hi), NULL, false, says                           \
    }
#define TEXT(name, req, says)                                                                      \
    {                                                                                              \
        name, LUO_CSV_TEXT, req, LUO_FROM(0), NULL, false, says                                    \
    }
#define WORD(name, req, words, says)                                                               \
    {                                                                                              \
        name, LUO_CSV_WORD, req, LUO_FROM(0), words, false, says                                   \
    }

#define ROW(kind, word, event, row, ...) LUO_WHERE_##row(word, )
#define CAUSE(kind, word, event, row, process, cause, ...) LUO_WHERE_##cause(word, )
static const char *const event_kinds[] = {LUO_EVENT_KIND_LIST(ROW) NULL};
static const char *const cause_kinds[] = {LUO_EVENT_KIND_LIST(CAUSE) NULL};
#undef ROW
#undef CAUSE
static const char *const scopes[] = {[LUO_SCOPE_DEVICE] = "device",
                                     [LUO_SCOPE_NODE] = "node",
                                     [LUO_SCOPE_LINK] = "link",
                                     [LUO_SCOPE_JOB] = "job",
                                     [LUO_SCOPES] = NULL};
static const char *const dtypes[] = {LUO_DTYPE_LIST(LUO_WORD_TEXT) NULL};
static const char *const roles[] = {LUO_ROW_ROLE_LIST(LUO_WORD_TEXT) NULL};
#define NAME(coll, name) name,
static const char *const collectives[] = {LUO_COLL_LIST(NAME) NULL};
#undef NAME
static const char *const classes[] = {LUO_LINK_CLASS_LIST(LUO_WORD_TEXT) NULL};
static const char *const states[] = {"used", "standby", "failed", "joining", NULL};

static const luo_csv_column events[LUO_EV_N] = {
    [LUO_EV_T] = OF_OR_0("t_s", true, LUO_Q_RUN_TIME, 1, "run time"),
    [LUO_EV_KIND] = WORD("kind", true, event_kinds, "as `kind` of events"),
    [LUO_EV_TARGET] = TEXT("target", true, "a target"),
    [LUO_EV_VALUE] =
        WITHIN("value", false, 0, 1e6,
               "`straggler`: slowdown, 1 or more; `link`: bandwidth factor, above 0 to 1"),
    [LUO_EV_DURATION] = OF("duration_s", false, LUO_Q_TIME, 1, "life; empty: for ever"),
    [LUO_EV_ID] = TEXT("id", false, "name in results; empty: made from file and line"),
};

static const luo_csv_column causes[LUO_CA_N] = {
    [LUO_CA_CAUSE] = TEXT("cause", true, "name, and part of the name of its random stream"),
    [LUO_CA_KIND] = WORD("kind", true, cause_kinds, "what it does"),
    [LUO_CA_SCOPE] = WORD("scope", true, scopes,
                          "`node`: the node of the device; `link`: its NIC; `job`: every device of "
                          "the plan, up again at once"),
    [LUO_CA_COUNT] = WHOLE("count", true, 0, "how often it was seen"),
    [LUO_CA_MEDIAN] = OF("life_median_s", false, LUO_Q_TIME, 1,
                         "median time to repair; empty: nothing to repair"),
    [LUO_CA_SIGMA] = WITHIN("life_sigma", false, 0, 100, "standard deviation of its logarithm"),
    [LUO_CA_VALUE] = WITHIN("value", false, 0, 1e6, "slowdown or bandwidth factor"),
};

static const luo_csv_column op_times[LUO_OP_N] = {
    [LUO_OP_OP] =
        TEXT("op", true,
             "`gemm`, `attention_forward`, `attention_backward` .. as calibration writes them"),
    [LUO_OP_DTYPE] = WORD("dtype", true, dtypes, "number format"),
    [LUO_OP_M] = WHOLE("m", true, 0, "size"),
    [LUO_OP_N_] = WHOLE("n", true, 0, "size"),
    [LUO_OP_K] = WHOLE("k", true, 0, "size"),
    [LUO_OP_TIME] = OF_OR_0("time_us", true, LUO_Q_TIME, 1e-6, "time, median"),
    [LUO_OP_SAMPLES] = WHOLE("samples", false, 1, "repetitions"),
    [LUO_OP_ROLE] =
        WORD("role", true, roles, "rows of role `validation` are left out when a profile is read"),
};

static const luo_csv_column collective_times[LUO_CO_N] = {
    [LUO_CO_COLLECTIVE] = WORD("collective", true, collectives, "which one"),
    [LUO_CO_DTYPE] = TEXT("dtype", false, "number format"),
    [LUO_CO_DEVICES] = {"devices", LUO_CSV_WHOLE, true, LUO_WITHIN(2, 131072), NULL, false,
                        "devices that take part"},
    [LUO_CO_NODES] = {"nodes", LUO_CSV_WHOLE, true, LUO_OF(LUO_Q_NODES, 1), NULL, false,
                      "nodes that they are on"},
    [LUO_CO_SIZE] =
        OF("size_bytes", true, LUO_Q_BYTES, 1, "of the full tensor; all-gather: of the result"),
    [LUO_CO_TIME] = OF("time_us", true, LUO_Q_TIME, 1e-6, "time"),
    [LUO_CO_ALGBW] = OF("algbw_gbytes_per_s", false, LUO_Q_BANDWIDTH, 1e9,
                        "size / time, which each row has: nothing reads it"),
    [LUO_CO_BUSBW] = OF("busbw_gbytes_per_s", false, LUO_Q_BANDWIDTH, 1e9,
                        "as nccl-tests define it; wins over the time"),
    [LUO_CO_ROLE] = WORD("role", true, roles, "as above"),
};

static const luo_csv_column p2p_times[LUO_P2_N] = {
    [LUO_P2_CLASS] = WORD("class", true, classes, "class of the link"),
    [LUO_P2_SIZE] = OF("size_bytes", true, LUO_Q_BYTES, 1, "size of the message"),
    [LUO_P2_TIME] = OF("time_us", true, LUO_Q_TIME, 1e-6, "time"),
    [LUO_P2_ROLE] = WORD("role", true, roles, "as above"),
};

static const luo_csv_column rates[LUO_RA_N] = {
    [LUO_RA_DEVICE] = {"device", LUO_CSV_WHOLE, true, LUO_WITHIN(0, 131071), NULL, false,
                       "number; devices that are not listed have rate 1"},
    [LUO_RA_RATE] = {"rate", LUO_CSV_NUMBER, true, LUO_OF(LUO_Q_RATE, 1), NULL, true,
                     "how many times longer its compute takes; `inf`: failed"},
    [LUO_RA_STATE] = WORD("state", false, states, "`used` where the column is missing"),
    [LUO_RA_T] = OF_OR_0("t_s", false, LUO_Q_RUN_TIME, 1, "when"),
};

static const luo_csv_column pool[LUO_PO_N] = {
    [LUO_PO_TP] = WITHIN_WHOLE("tp", true, 1, 1 << 17, "tensor-parallel size"),
    [LUO_PO_PP] = WITHIN_WHOLE("pp", true, 1, 1 << 17, "stages"),
    [LUO_PO_A] = WITHIN("a_ms_per_token2", true, 0, 1e12, "time for each token squared"),
    [LUO_PO_B] = WITHIN("b_ms_per_token", true, 0, 1e12, "time for each token"),
    [LUO_PO_C] = OF_OR_0("c_ms", true, LUO_Q_TIME, 1e-3, "time for each micro-batch"),
    [LUO_PO_CAP] =
        WHOLE("cap_tokens", true, 0, "most tokens of a micro-batch; 0: from the memory model"),
    [LUO_PO_UTIL] =
        WHOLE("util_tokens", true, 0, "tokens from which on a micro-batch is efficient"),
};

static const luo_csv_column lengths[LUO_LE_N] = {
    [LUO_LE_LENGTH] = WHOLE("length_tokens", true, 1, "length"),
    [LUO_LE_ARRIVAL] = OF_OR_0("arrival_s", false, LUO_Q_RUN_TIME, 1, "when it came"),
};
static const luo_csv_column histogram[LUO_HI_N] = {
    [LUO_HI_LOW] = WHOLE("low_tokens", true, 0, "from"),
    [LUO_HI_HIGH] = WHOLE("high_tokens", true, 1, "up to, not included"),
    [LUO_HI_COUNT] = WHOLE("count", true, 0, "sequences"),
};

/* The whole range of a weight of cuts. */
static const luo_csv_column expert_load[LUO_LO_N] = {
    [LUO_LO_STEP] = WITHIN_WHOLE("step", true, 0, 1e12, "step from which on it holds"),
    [LUO_LO_LAYER] = WITHIN_WHOLE("layer", true, 0, 65535, "a layer with experts"),
    [LUO_LO_EXPERT] = WITHIN_WHOLE("expert", true, 0, 1048575, "expert"),
    [LUO_LO_TOKENS] = WITHIN_WHOLE("tokens", true, 0, 4294967295.0,
                                   "tokens that went to it; only their shares count"),
};

static const luo_csv_column assignment[] = {WHOLE("step", true, 0, "step"),
                                            WHOLE("sequence", true, 0, "sequence"),
                                            WHOLE("length_tokens", true, 1, "its length"),
                                            WHOLE("pipeline", true, 0, "pipeline"),
                                            WHOLE("micro_batch", true, 0, "micro-batch"),
                                            WHOLE("position", true, 0, "place in it")};

static const luo_csv_column recorded[LUO_RE_N] = {
    [LUO_RE_STEP] = WHOLE("step", true, 0, "step"),
    [LUO_RE_PIPELINE] = WITHIN_WHOLE("pipeline", true, 0, 131071, "pipeline"),
    [LUO_RE_STAGE] = WITHIN_WHOLE("stage", true, 0, 131071, "stage"),
    [LUO_RE_LANE] = TEXT("lane", true, "lane"),
    [LUO_RE_OP] = TEXT("op", true, "operation"),
    [LUO_RE_CHUNK] = WHOLE("chunk", true, -1, "-1: none"),
    [LUO_RE_MICRO_BATCH] = WITHIN_WHOLE("micro_batch", true, -1, 1 << 24, "-1: none"),
    [LUO_RE_ORDER] = WHOLE("order", true, 0, "order in the lane"),
    [LUO_RE_START] = OF_OR_0("t_start_s", true, LUO_Q_RUN_TIME, 1, "start"),
    [LUO_RE_DURATION] = OF_OR_0("duration_s", true, LUO_Q_TIME, 1, "duration"),
};

static const char *const splits[] = {LUO_SPLIT_LIST(LUO_WORD_TEXT) NULL};
static const char *const recomputes[] = {LUO_RECOMPUTE_LIST(LUO_WORD_TEXT) NULL};
static const char *const step_kinds[] = {LUO_STEP_KIND_LIST(LUO_WORD_TEXT) NULL};

/* Cells may be empty where the source prints nothing; the columns up to `note` all exist. */
static const luo_csv_column suite[LUO_SU_N] = {
    [LUO_SU_ID] = TEXT("id", true, "name of the row"),
    [LUO_SU_SPLIT] = WORD("split", true, splits,
                          "`cal`: constants may be fitted on it; `val`: scored; `drop`: left out"),
    [LUO_SU_SUITE] = TEXT("suite", true, "name of the suite"),
    [LUO_SU_SYSTEM] = TEXT("system", true, "software: a stack"),
    [LUO_SU_DATE] = TEXT("date", false, "day of the run"),
    [LUO_SU_GPU] = TEXT("gpu", true, "a profile; `mixed`: see `stage_devices`"),
    [LUO_SU_GPUS] = WITHIN_WHOLE("gpus", true, 1, 131072, "GPUs"),
    [LUO_SU_PER_NODE] = WITHIN_WHOLE("gpus_per_node", true, 1, 64, "GPUs of a node"),
    [LUO_SU_FABRIC] = TEXT("fabric", false,
                           "network: `ib-hdr200x8` (8 cards of 200 Gbit/s a node), `8x50` (8 of 50 "
                           "GB/s), `roce-1600g` (Gbit/s of a node)"),
    [LUO_SU_MODEL] = TEXT("model", false, "name of the network"),
    [LUO_SU_LAYERS] = WITHIN_WHOLE("layers", false, 1, 100000, "layers"),
    [LUO_SU_HIDDEN] = WITHIN_WHOLE("hidden", false, 1, 1 << 24, "width"),
    [LUO_SU_HEADS] = WITHIN_WHOLE("heads", false, 1, 1 << 20, "query heads"),
    [LUO_SU_KV_HEADS] = WITHIN_WHOLE("kv_heads", false, 1, 1 << 20, "key-value heads"),
    [LUO_SU_FFN] = WITHIN_WHOLE("ffn", false, 1, 1 << 24, "width of the feed-forward part"),
    [LUO_SU_VOCAB] = WITHIN_WHOLE("vocab", false, 1, 1 << 28, "vocabulary"),
    [LUO_SU_SEQ] = WITHIN_WHOLE("seq", false, 1, 1 << 28, "tokens of a sequence"),
    [LUO_SU_PRECISION] = TEXT("precision", false, "number format"),
    [LUO_SU_TP] = WITHIN_WHOLE("tp", false, 1, 1 << 17, "tensor-parallel size"),
    [LUO_SU_PP] = WITHIN_WHOLE("pp", false, 1, 1 << 17, "stages"),
    [LUO_SU_VPP] = WITHIN_WHOLE("vpp", false, 1, 1 << 10, "chunks of a stage"),
    [LUO_SU_DP] = WITHIN_WHOLE("dp", false, 1, 1 << 17, "replicas"),
    [LUO_SU_CP] = WITHIN_WHOLE("cp", false, 1, 1 << 17, "context-parallel size"),
    [LUO_SU_MBS] = WITHIN_WHOLE("mbs", false, 1, 1 << 20, "sequences of a micro-batch"),
    [LUO_SU_GBS] = WITHIN_WHOLE("gbs", false, 1, 1 << 24, "sequences of a step"),
    [LUO_SU_SP] = WITHIN_WHOLE("sp", false, 0, 1, "1: sequence parallelism"),
    [LUO_SU_RECOMPUTE] = WORD("recompute", false, recomputes, "what is computed again"),
    [LUO_SU_ZERO] = WITHIN_WHOLE("zero", false, 0, 3, "ZeRO stage"),
    [LUO_SU_LAYERS_PER_STAGE] =
        TEXT("layers_per_stage", false,
             "`5/7/7/7`; embedding and head count as layers if the sum is `layers` + 2"),
    [LUO_SU_STAGE_DEVICES] =
        TEXT("stage_devices", false, "stages ` // `, replicas a bar, each `TYPExCOUNT:tpN`"),
    [LUO_SU_STEP] = OF("step_s", false, LUO_Q_TIME, 1, "the step that was measured"),
    [LUO_SU_STEP_KIND] = WORD("step_kind", true, step_kinds,
                              "where `step_s` comes from; `oom`: it ran out of memory; `mfu_only`: "
                              "only `tflops_gpu` was printed"),
    [LUO_SU_GRAD_REDUCE] = OF_OR_0("grad_reduce_s", false, LUO_Q_TIME, 1,
                                   "gradient reduction, waiting for slower replicas included"),
    [LUO_SU_MEM] = OF("mem_bytes", false, LUO_Q_BYTES, 1, "largest memory of a GPU"),
    [LUO_SU_TFLOPS] = WITHIN("tflops_gpu", false, 0, 1e6, "TFLOP/s of a GPU as printed"),
    [LUO_SU_SOURCE] = TEXT("source", false, "where the row was printed"),
    [LUO_SU_NOTE] = TEXT("note", false, "what else is known of it"),
    [LUO_SU_EP] = WITHIN_WHOLE("ep", false, 1, 1 << 17, "expert-parallel size"),
    [LUO_SU_EXPERTS] = WITHIN_WHOLE("experts", false, 1, 1 << 20, "experts"),
    [LUO_SU_TOPK] = WITHIN_WHOLE("topk", false, 1, 1 << 20, "experts a token"),
    [LUO_SU_MOE_FFN] = WITHIN_WHOLE("moe_ffn", false, 1, 1 << 24, "width of an expert"),
    [LUO_SU_SHARED_FFN] =
        WITHIN_WHOLE("shared_ffn", false, 0, 1 << 24, "width of the shared experts"),
    [LUO_SU_DENSE_LAYERS] =
        WITHIN_WHOLE("dense_layers", false, 0, 100000, "layers without experts"),
    [LUO_SU_MLA] = WITHIN_WHOLE("mla", false, 0, 1, "1: latent attention"),
    [LUO_SU_MEM_BY_RANK] = TEXT("mem_by_rank_bytes", false, "memory of every rank, as printed"),
};

/* As eth-easl/sailor profiles networks. */
static const luo_csv_column layer_times[LUO_LT_N] = {
    [LUO_LT_MODEL] = TEXT("model", true, "network"),
    [LUO_LT_GPU] = TEXT("gpu", true, "GPU type"),
    [LUO_LT_SEQUENCES] = WITHIN_WHOLE("mbs", true, 1, 1 << 20, "sequences of a micro-batch"),
    [LUO_LT_TP] = WITHIN_WHOLE("tp", true, 1, 1 << 17, "tensor-parallel size"),
    [LUO_LT_LAYER] = WITHIN_WHOLE("layer", true, 0, 100000, "number; embedding and head count"),
    [LUO_LT_FORWARD] = OF_OR_0("fwd_s", true, LUO_Q_TIME, 1, "forward"),
    [LUO_LT_BACKWARD] = OF_OR_0("bwd_s", true, LUO_Q_TIME, 1, "backward"),
    [LUO_LT_UPDATE] = OF_OR_0("update_s", false, LUO_Q_TIME, 1, "optimizer"),
};

/* Of `luoshu sync --straggler trace:FILE`. */
static const luo_csv_column straggler[LUO_IT_N] = {
    [LUO_IT_WORKER] = WITHIN_WHOLE("worker", true, 0, (1 << 17) - 1, "worker"),
    [LUO_IT_ITERATION] =
        WITHIN_WHOLE("iteration", true, 0, 9007199254740992, "its iteration, 0 first"),
    [LUO_IT_SECONDS] =
        OF_OR_0("seconds", true, LUO_Q_TIME, 1, "computation of that iteration, seconds"),
};

#define TABLE(columns) {#columns, columns, COUNT(columns)}
const luo_input_table luo_input_table_events = {"event_trace", events, COUNT(events)};
const luo_input_table luo_input_table_causes = TABLE(causes);
const luo_input_table luo_input_table_op_times = TABLE(op_times);
const luo_input_table luo_input_table_collective_times = TABLE(collective_times);
const luo_input_table luo_input_table_p2p_times = TABLE(p2p_times);
const luo_input_table luo_input_table_rates = TABLE(rates);
const luo_input_table luo_input_table_suite = TABLE(suite);
const luo_input_table luo_input_table_layer_times = TABLE(layer_times);
const luo_input_table luo_input_table_pool = TABLE(pool);
const luo_input_table luo_input_table_lengths = TABLE(lengths);
const luo_input_table luo_input_table_histogram = TABLE(histogram);
const luo_input_table luo_input_table_expert_load = TABLE(expert_load);
const luo_input_table luo_input_table_straggler = TABLE(straggler);
const luo_input_table luo_input_table_recorded = TABLE(recorded);
/* Known by its header, not read yet. */
static const luo_input_table assignments = TABLE(assignment);

static const luo_input_table *const all[] = {&luo_input_table_events,
                                             &luo_input_table_causes,
                                             &luo_input_table_op_times,
                                             &luo_input_table_collective_times,
                                             &luo_input_table_p2p_times,
                                             &luo_input_table_rates,
                                             &luo_input_table_pool,
                                             &luo_input_table_histogram,
                                             &luo_input_table_lengths,
                                             &luo_input_table_expert_load,
                                             &luo_input_table_straggler,
                                             &assignments,
                                             &luo_input_table_recorded,
                                             &luo_input_table_suite,
                                             &luo_input_table_layer_times};

const char *luo_row_role_name(luo_row_role role)
{
    return roles[role];
}

const luo_input_table *const *luo_input_tables(int *n)
{
    *n = COUNT(all);
    return all;
}
