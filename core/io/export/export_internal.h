/* export_internal.h: what exporters share; not for others. */
#ifndef LUO_CORE_IO_EXPORT_EXPORT_INTERNAL_H
#define LUO_CORE_IO_EXPORT_EXPORT_INTERNAL_H
#include "core/io/export/export.h"

typedef struct export_job {
    luo_arena *arena;
    const luo_export_source *source;
    const luo_export_sink *sink;
    luo_export_made *made;
    luo_err *err;
} export_job;

typedef luo_status export_fn(export_job *job);
#define LUO_EXPORTER(kind, word, function, ...) export_fn function;
#include "core/io/export/exporters.inc"
#undef LUO_EXPORTER

/* Hands the text over and frees it. name: NULL, or of a file in the folder. */
luo_status export_put(export_job *job, const char *name, luo_str *text);
/* A sentence for luo_export_made. Errors: LUO_ENOMEM. */
luo_status export_note(export_job *job, const char *fmt, ...) LUO_PRINTF(2, 3);
/* A refusal at the part of the plan that the pointer names. Returns LUO_EUNREP. */
luo_status export_cannot(export_job *job, const char *pointer, const char *fmt, ...)
    LUO_PRINTF(3, 4);
/* A refusal of a key of the model file. Returns LUO_EUNREP. */
luo_status export_cannot_model(export_job *job, const char *format, const char *key);
/* .. at a stage: "/pipelines/P/stages/S" and what follows. */
typedef struct export_at {
    char text[128];
} export_at;
export_at export_at_stage(int32_t pipeline, int32_t stage, const char *key);
export_at export_at_pipeline(int32_t pipeline, const char *key);

/* A number as short as it can be read back. */
void export_add_number(luo_str *text, double v);

/* Is this layer of the stage done again in backward? */
bool export_recomputes(const luo_stage *stage, int32_t layer);

/* ---- plans whose pipelines are all alike ---- */

/* Stage s of every pipeline has tp * cp devices; chunk c of it has layers[c * pp + s] layers, in
 * the order of the model. */
typedef struct export_uniform {
    const char *format; /* for sentences: "Megatron" */
    int32_t dp, pp, tp, cp, chunks;
    int32_t micro_batches, sequences; /* of a pipeline; of a micro-batch */
    luo_recompute recompute;
    int32_t recompute_first; /* layers of each chunk, its first; 0: all */
    const int32_t *layers;
    bool pipeline_inside; /* ranks: pipeline index inside the data-parallel one, not outside */
    luo_context_kind context_kind;
    luo_context_layout context_layout;
    int32_t context_inner;
    bool experts_dealt;
} export_uniform;

/* Errors: LUO_EUNREP with the first part of the plan that is not alike: shares, annotations,
 * assignments, state in a layout of its own, stages that others do, pipelines or stages that
 * differ, micro-batches of several lengths, devices out of order. may_swap: pipeline_inside is
 * allowed. */
luo_status export_find_uniform(export_job *job, const char *format, bool may_swap,
                               export_uniform *out);
/* Do all chunks have equally many layers? */
bool export_is_even(const export_uniform *plan);
/* Experts: over how many devices they are dealt, 1: none is. Pre: the model has experts. Errors:
 * LUO_EUNREP groups of pipelines that are no equal blocks. */
luo_status export_find_experts(export_job *job, const export_uniform *uniform, int32_t *parts);
#endif
