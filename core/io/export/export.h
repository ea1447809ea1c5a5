/* export.h: plans, clusters and runs as files of others (docs/formats.md#exported-files).
 *
 * A kind of file is one row of exporters.inc. A function makes each text in memory and hands it to
 * the sink; what a format can't express is refused with the first such part of the plan. */
#ifndef LUO_CORE_IO_EXPORT_EXPORT_H
#define LUO_CORE_IO_EXPORT_EXPORT_H
#include "core/base/str.h"
#include "core/plan/plan.h"

typedef enum luo_export_kind {
#define LUO_EXPORTER(kind, ...) LUO_EXPORT_##kind,
#include "core/io/export/exporters.inc"
#undef LUO_EXPORTER
    LUO_EXPORT_KINDS
} luo_export_kind;

typedef enum luo_export_use {
    LUO_EXPORT_MODEL = 1,
    LUO_EXPORT_CLUSTER = 2,
    LUO_EXPORT_STACK = 4,
    LUO_EXPORT_FOLDER = 8 /* several files, in a folder */
} luo_export_use;

typedef enum luo_export_of { /* what FILE is */
    LUO_EXPORT_OF_PLAN,
    LUO_EXPORT_OF_CLUSTER,
    LUO_EXPORT_OF_RUN
} luo_export_of;
const char *luo_export_of_name(luo_export_of of); /* "plan" */

/* Name of the command line; a phrase on what is written; sets of luo_export_use.
 * Pre: 0 <= kind < LUO_EXPORT_KINDS. */
const char *luo_export_kind_name(luo_export_kind kind);
const char *luo_export_kind_says(luo_export_kind kind);
luo_export_of luo_export_kind_of(luo_export_kind kind);
unsigned luo_export_kind_needs(luo_export_kind kind);
unsigned luo_export_kind_takes(luo_export_kind kind); /* with what it needs */

/* What is written, as far as the kind needs or takes it; all else NULL. Files are for scripts. */
typedef struct luo_export_source {
    const luo_plan *plan; /* has passed luo_plan_check with the model and the cluster */
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    const struct luo_trace_run *run; /* core/io/trace/trace_table.h */
    const char *plan_file, *model_file, *cluster_file;
} luo_export_source;

/* put takes a file that is whole. name: of a file in the folder; NULL: the only one. drop, of kinds
 * with a folder alone: a file of that name would be taken for one of these; was_there: it is gone
 * now. Both return a status with its sentence in err. */
typedef struct luo_export_sink {
    luo_status (*put)(void *ctx, const char *name, const luo_str *text, luo_err *err);
    luo_status (*drop)(void *ctx, const char *name, bool *was_there, luo_err *err);
    void *ctx;
} luo_export_sink;

typedef struct luo_export_made {
    const char *note; /* a sentence on what the files can't say; NULL: nothing. Owner: arena */
} luo_export_made;

/* Errors: LUO_EUNREP the format can't express it, with the part of the plan in err->pointer where
 * it is one; LUO_EINPUT a cost is not known, and those of luo_plan_compile (chakra); those of the
 * sink; LUO_ENOMEM. Cost: of chakra the instructions of all tasks and devices, one device at a
 * time in memory; else O(plan * layers) or O(cluster). */
luo_status luo_export(luo_arena *arena, luo_export_kind kind, const luo_export_source *source,
                      const luo_export_sink *sink, luo_export_made *made, luo_err *err);
#endif
