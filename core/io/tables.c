#include "core/io/tables.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define WHOLE(name, req, lo)                                                                       \
    {                                                                                              \
        name, LUO_CSV_WHOLE, req, LUO_WITHIN(lo, 9007199254740992.0), NULL, false                  \
    }
#define OF(name, req, quantity, unit)                                                              \
    {                                                                                              \
        name, LUO_CSV_NUMBER, req, LUO_OF(quantity, unit), NULL, false                             \
    }
#define OF_OR_0(name, req, quantity, unit)                                                         \
    {                                                                                              \
        name, LUO_CSV_NUMBER, req, LUO_OF_OR_0(quantity, unit), NULL, false                        \
    }
#define WITHIN(name, req, lo, hi)                                                                  \
    {                                                                                              \
        name, LUO_CSV_NUMBER, req, LUO_WITHIN(lo, hi), NULL, false                                 \
    }
#define TEXT(name, req)                                                                            \
    {                                                                                              \
        name, LUO_CSV_TEXT, req, LUO_FROM(0), NULL, false                                          \
    }
#define WORD(name, req, words)                                                                     \
    {                                                                                              \
        name, LUO_CSV_WORD, req, LUO_FROM(0), words, false                                         \
    }

static const char *const event_kinds[] = {"straggler", "fail", "leave", "join", "link", NULL};
static const char *const cause_kinds[] = {"fail", "straggler", "link", NULL};
static const char *const scopes[] = {"device", "node", "link", "job", NULL};
static const char *const dtypes[] = {"bf16", "f32", "f64", NULL};
static const char *const roles[] = {"calibration", "validation", NULL};
static const char *const collectives[] = {"all_reduce", "reduce_scatter", "all_gather",
                                          "all_to_all", "broadcast", NULL};
static const char *const classes[] = {"nvlink", "pcie", "socket", "nic", "uplink", "line", NULL};
static const char *const states[] = {"used", "standby", "failed", "joining", NULL};

static const luo_csv_column events[LUO_EV_N] = {OF_OR_0("t_s", true, LUO_Q_RUN_TIME, 1),
                                                WORD("kind", true, event_kinds),
                                                TEXT("target", true),
                                                WITHIN("value", false, 0, 1e6),
                                                OF("duration_s", false, LUO_Q_TIME, 1),
                                                TEXT("id", false)};

static const luo_csv_column causes[LUO_CA_N] = {TEXT("cause", true),
                                                WORD("kind", true, cause_kinds),
                                                WORD("scope", true, scopes),
                                                WHOLE("count", true, 0),
                                                OF("life_median_s", false, LUO_Q_TIME, 1),
                                                WITHIN("life_sigma", false, 0, 100),
                                                WITHIN("value", false, 0, 1e6)};

static const luo_csv_column op_times[LUO_OP_N] = {
    TEXT("op", true),           WORD("dtype", true, dtypes),
    WHOLE("m", true, 0),        WHOLE("n", true, 0),
    WHOLE("k", true, 0),        OF_OR_0("time_us", true, LUO_Q_TIME, 1e-6),
    WHOLE("samples", false, 1), WORD("role", true, roles)};

static const luo_csv_column collective_times[LUO_CO_N] = {
    WORD("collective", true, collectives),
    TEXT("dtype", false),
    {"devices", LUO_CSV_WHOLE, true, LUO_WITHIN(2, 131072), NULL, false},
    {"nodes", LUO_CSV_WHOLE, true, LUO_OF(LUO_Q_NODES, 1), NULL, false},
    OF("size_bytes", true, LUO_Q_BYTES, 1),
    OF("time_us", true, LUO_Q_TIME, 1e-6),
    OF("algbw_gbytes_per_s", false, LUO_Q_BANDWIDTH, 1e9),
    OF("busbw_gbytes_per_s", false, LUO_Q_BANDWIDTH, 1e9),
    WORD("role", true, roles)};

static const luo_csv_column p2p_times[LUO_P2_N] = {
    WORD("class", true, classes), OF("size_bytes", true, LUO_Q_BYTES, 1),
    OF("time_us", true, LUO_Q_TIME, 1e-6), WORD("role", true, roles)};

static const luo_csv_column rates[LUO_RA_N] = {
    {"device", LUO_CSV_WHOLE, true, LUO_WITHIN(0, 131071), NULL, false},
    {"rate", LUO_CSV_NUMBER, true, LUO_OF(LUO_Q_RATE, 1), NULL, true},
    WORD("state", false, states),
    OF_OR_0("t_s", false, LUO_Q_RUN_TIME, 1)};

static const luo_csv_column pool[] = {WHOLE("tp", true, 1),
                                      WHOLE("pp", true, 1),
                                      WITHIN("a_ms_per_token2", true, 0, 1e12),
                                      WITHIN("b_ms_per_token", true, 0, 1e12),
                                      OF_OR_0("c_ms", true, LUO_Q_TIME, 1e-3),
                                      WHOLE("cap_tokens", true, 0),
                                      WHOLE("util_tokens", true, 0)};

static const luo_csv_column lengths[] = {WHOLE("length_tokens", true, 1),
                                         OF_OR_0("arrival_s", false, LUO_Q_RUN_TIME, 1)};
static const luo_csv_column histogram[] = {WHOLE("low_tokens", true, 0),
                                           WHOLE("high_tokens", true, 1), WHOLE("count", true, 0)};

static const luo_csv_column assignment[] = {
    WHOLE("step", true, 0),     WHOLE("sequence", true, 0),    WHOLE("length_tokens", true, 1),
    WHOLE("pipeline", true, 0), WHOLE("micro_batch", true, 0), WHOLE("position", true, 0)};

static const luo_csv_column recorded[] = {WHOLE("step", true, 0),
                                          WHOLE("pipeline", true, 0),
                                          WHOLE("stage", true, 0),
                                          TEXT("lane", true),
                                          TEXT("op", true),
                                          WHOLE("chunk", true, -1),
                                          WHOLE("micro_batch", true, -1),
                                          WHOLE("order", true, 0),
                                          OF_OR_0("t_start_s", true, LUO_Q_RUN_TIME, 1),
                                          OF_OR_0("duration_s", true, LUO_Q_TIME, 1)};

#define TABLE(columns) {#columns, columns, COUNT(columns)}
const luo_table luo_table_events = {"event_trace", events, COUNT(events)};
const luo_table luo_table_causes = TABLE(causes);
const luo_table luo_table_op_times = TABLE(op_times);
const luo_table luo_table_collective_times = TABLE(collective_times);
const luo_table luo_table_p2p_times = TABLE(p2p_times);
const luo_table luo_table_rates = TABLE(rates);

static const luo_table all[] = {
    {"event_trace", events, COUNT(events)},
    TABLE(causes),
    TABLE(op_times),
    TABLE(collective_times),
    TABLE(p2p_times),
    TABLE(rates),
    TABLE(pool),
    {"histogram", histogram, COUNT(histogram)},
    TABLE(lengths),
    TABLE(assignment),
    TABLE(recorded),
};

const luo_table *luo_tables(int *n)
{
    *n = COUNT(all);
    return all;
}
