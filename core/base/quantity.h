/* quantity.h: the quantities that files give, and how small and large each may be.
 *
 * One table: readers refuse what lies outside with the limit in the sentence, and what multiplies
 * or adds up later (slowdowns that overlap, the time of a run) is held to it as well. Within these
 * ranges no time in nanoseconds, no number of bytes and no product of two of them leaves 63 bits
 * or a double. Limits of work, which a user can raise, are another table (core/base/work.h). */
#ifndef LUO_CORE_BASE_QUANTITY_H
#define LUO_CORE_BASE_QUANTITY_H
#include <math.h>
#include <stdbool.h>

/* id, name, unit, lowest, highest; in units of the SI */
#define LUO_QUANTITY_LIST(X)                                                                       \
    X(LUO_Q_TIME, "time", "s", 1e-9, 1e10)                                                         \
    X(LUO_Q_RUN_TIME, "time of a run", "s", 1e-9, 4e9)                                             \
    X(LUO_Q_LATENCY, "latency", "s", 1e-12, 1e3)                                                   \
    X(LUO_Q_BANDWIDTH, "bandwidth", "bytes/s", 1e3, 1e15)                                          \
    X(LUO_Q_MEMORY_BANDWIDTH, "bandwidth of a device's memory", "bytes/s", 1e3, 1e18)              \
    X(LUO_Q_LINK_FACTOR, "bandwidth factor", "", 1e-6, 1)                                          \
    X(LUO_Q_SLOWDOWN, "slowdown, all together", "", 1, 1e6)                                        \
    X(LUO_Q_RATE, "straggling rate", "", 1e-6, 1e6)                                                \
    X(LUO_Q_COMPUTE, "compute", "flop/s", 1e3, 1e21)                                               \
    X(LUO_Q_BYTES, "memory, message", "bytes", 1, 9007199254740992)                                \
    X(LUO_Q_RATIO, "efficiency", "", 1e-9, 1)                                                      \
    X(LUO_Q_CORES, "cores of a host", "", 1e-3, 1e6)                                               \
    X(LUO_Q_PARAMETERS, "parameters of a model", "", 1, 1e15)                                      \
    X(LUO_Q_LAYERS, "layers", "", 1, 65536)                                                        \
    X(LUO_Q_WIDTH, "width of a tensor", "", 1, 1e9)                                                \
    X(LUO_Q_HEADS, "heads, experts", "", 1, 1e6)                                                   \
    X(LUO_Q_PIXELS, "pixels of a side", "", 1, 1e6)                                                \
    X(LUO_Q_SEQUENCE, "tokens of a sequence", "", 1, 1e9)                                          \
    X(LUO_Q_TOKENS, "tokens of a step", "", 1, 1e10)                                               \
    X(LUO_Q_NODES, "nodes of a group", "", 1, 65536)                                               \
    X(LUO_Q_SLOTS, "devices of a node", "", 1, 64)                                                 \
    X(LUO_Q_DEVICES, "devices", "", 1, 131072)

typedef enum luo_quantity_id {
    LUO_Q_NONE,
#define LUO_Q_ID(id, name, unit, lowest, highest) id,
    LUO_QUANTITY_LIST(LUO_Q_ID)
#undef LUO_Q_ID
        LUO_QUANTITIES
} luo_quantity_id;

typedef struct luo_quantity {
    const char *name, *unit; /* unit "": a count or a ratio */
    double lowest, highest;
} luo_quantity;

/* Pre: LUO_Q_NONE < id < LUO_QUANTITIES. */
const luo_quantity *luo_quantity_at(luo_quantity_id id);
/* False for NaN. */
bool luo_quantity_holds(luo_quantity_id id, double v);
/* The nearest value within the range. */
double luo_quantity_clamp(luo_quantity_id id, double v);

/* lo <= x <= hi, or lo < x when open; or the range of a quantity, given in `unit` of its own
 * (1e9: as gbytes_per_s), `or_zero` if there may be none of it. Whole numbers are held exactly up
 * to 2^53. */
typedef struct luo_limit {
    double lo, hi;
    bool open, or_zero;
    luo_quantity_id of;
    double unit;
} luo_limit;

#define LUO_ABOVE(x)                                                                               \
    {                                                                                              \
        (x), INFINITY, true, false, LUO_Q_NONE, 1                                                  \
    }
#define LUO_FROM(x)                                                                                \
    {                                                                                              \
        (x), INFINITY, false, false, LUO_Q_NONE, 1                                                 \
    }
#define LUO_WITHIN(a, b)                                                                           \
    {                                                                                              \
        (a), (b), false, false, LUO_Q_NONE, 1                                                      \
    }
#define LUO_ABOVE_TO(a, b)                                                                         \
    {                                                                                              \
        (a), (b), true, false, LUO_Q_NONE, 1                                                       \
    }
#define LUO_OF(quantity, unit)                                                                     \
    {                                                                                              \
        0, INFINITY, false, false, quantity, unit                                                  \
    }
#define LUO_OF_OR_0(quantity, unit)                                                                \
    {                                                                                              \
        0, INFINITY, false, true, quantity, unit                                                   \
    }

bool luo_limit_holds(const luo_limit *l, double v);
/* The limit as v meets it, lo and hi filled in and in its unit: a quantity that may be 0 begins at
 * 0, but for who is between 0 and its lowest value (or_zero stays true then). */
luo_limit luo_limit_for(const luo_limit *l, double v);
#endif
