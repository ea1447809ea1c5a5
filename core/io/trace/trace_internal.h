/* trace_internal.h: what the files that make up trace share; not for others. */
#ifndef LUO_CORE_IO_TRACE_TRACE_INTERNAL_H
#define LUO_CORE_IO_TRACE_TRACE_INTERNAL_H
#include "core/base/hash.h"
#include "core/io/trace/trace.h"

typedef enum luo_titem_kind {
    LUO_TITEM_OP,    /* X or i: args op kind step attempt pipeline .. instruction */
    LUO_TITEM_WAIT,  /* X: args step attempt */
    LUO_TITEM_SPAN,  /* X or i: args step plan event bytes */
    LUO_TITEM_EVENT, /* i: args id phase detail */
    LUO_TITEM_FLOW_S,
    LUO_TITEM_FLOW_F,
    LUO_TITEM_BYTES, /* C */
    LUO_TITEM_RATIO, /* C */
    LUO_TITEM_FACTOR /* C */
} luo_titem_kind;

typedef struct luo_titem {
    int64_t ts, dur; /* ns */
    int64_t step, bytes;
    double value;
    int32_t pid, tid, name, text, extra; /* names are indices of the string table; -1: none */
    int32_t attempt, pipeline, stage, micro_batch, layer, instruction; /* -1: none */
    uint32_t seq;
    uint8_t kind, cat; /* cat: index of luo_trace_cats */
    bool global;       /* instant of scope g */
} luo_titem;

typedef struct luo_slow { /* an active slowdown */
    char *id;
    int32_t ndev, *dev;
    double value;
} luo_slow;

struct luo_trace {
    const luo_cluster *cluster;
    luo_arena *arena, *scratch;
    int64_t limit, dropped;
    luo_titem *at; /* what is held: the last n - spilled */
    int64_t n, cap;
    int64_t spilled, hold; /* events in the file; so many are held before they go there */
    char *spill_dir;       /* NULL: they stay here */
    int spill_fd;
    int32_t npieces;
    int64_t *piece_end; /* in the file, in events */
    bool *used, *used_node, used_run[4]; /* tracks: eight per device; per node; of the run */
    char **name; /* JSON strings, quoted */
    int32_t nnames, cap_names;
    luo_map names;
    int64_t *track_end; /* per device, eight tracks: latest end of a slice */
    int64_t run_end[4];
    int64_t nrun_steps; /* steps on the track of the run */
    bool full; /* a step was left out */
    int64_t nsteps;
    int32_t part_devices, part_of; /* of the only step; 0: whole */
    int32_t flow_id;
    luo_slow *slow;
    int32_t nslow, cap_slow;
    double *factor;    /* per device: slowdown last written; 0: none yet */
    int64_t *memory;   /* per device: bytes last written; -1: none yet */
    double *nic;       /* per link and direction: ratio last written; < 0: none yet */
    int64_t until, nic_until; /* end of the last traced step; of the last that used NICs */
};

/* Tracks of a device: one per stream, and two more for pp. */
enum { LUO_TRACE_PP_2 = LUO_STREAMS, LUO_TRACE_PP_3 };
_Static_assert(LUO_TRACE_PP_3 < 8, "tid = 8 * device + track + 1");

enum {
    LUO_TRACE_CAT_STREAM = 0, /* + luo_stream */
    LUO_TRACE_CAT_BUBBLE = LUO_STREAMS,
    LUO_TRACE_CAT_RUN,
    LUO_TRACE_CAT_EVENT,
    LUO_TRACE_CAT_P2P,
    LUO_TRACE_CAT_SWITCH,
    LUO_TRACE_CATS
};

int64_t luo_trace_ns(double seconds);
/* Index of text in the string table; -1: out of memory. */
int32_t luo_trace_name(luo_trace *trace, const char *text);
/* An item without arguments. */
luo_titem luo_trace_item(luo_titem_kind kind, int32_t pid, int32_t tid, int64_t ts);
/* Appends a copy; false: out of memory. */
bool luo_trace_add(luo_trace *trace, luo_titem item);
int64_t luo_trace_room(const luo_trace *trace, bool of_run);
#endif
