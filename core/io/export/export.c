/* export.c: the table of kinds, and what exporters share. */
#include "core/io/export/export_internal.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *word, *says;
    export_fn *fn;
    luo_export_of source;
    unsigned needs, takes;
} exporters[] = {
#define LUO_EXPORTER(kind, word, function, source, needs, takes, says)                             \
    {word, says, function, LUO_EXPORT_OF_##source, needs, (needs) | (takes)},
#include "core/io/export/exporters.inc"
#undef LUO_EXPORTER
};

const char *luo_export_kind_name(luo_export_kind kind)
{
    return exporters[kind].word;
}

const char *luo_export_kind_says(luo_export_kind kind)
{
    return exporters[kind].says;
}

luo_export_of luo_export_kind_of(luo_export_kind kind)
{
    return exporters[kind].source;
}

const char *luo_export_of_name(luo_export_of of)
{
    static const char *const names[] = {"plan", "cluster", "run"};
    return names[of];
}

unsigned luo_export_kind_needs(luo_export_kind kind)
{
    return exporters[kind].needs;
}

unsigned luo_export_kind_takes(luo_export_kind kind)
{
    return exporters[kind].takes;
}

luo_status luo_export(luo_arena *arena, luo_export_kind kind, const luo_export_source *source,
                      const luo_export_sink *sink, luo_export_made *made, luo_err *err)
{
    export_job job = {arena, source, sink, made, err};
    *made = (luo_export_made){0};
    return exporters[kind].fn(&job);
}

/* ---- what exporters share ---- */

luo_status export_put(export_job *job, const char *name, luo_str *text)
{
    const luo_status st = text->failed ? luo_err_nomem(job->err)
                                       : job->sink->put(job->sink->ctx, name, text, job->err);
    luo_str_free(text);
    return st;
}

luo_status export_note(export_job *job, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    job->made->note = luo_arena_strdup(job->arena, text);
    return job->made->note ? LUO_OK : luo_err_nomem(job->err);
}

luo_status export_cannot(export_job *job, const char *pointer, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const luo_status st = luo_err_set(job->err, LUO_EUNREP, "%s", text);
    return luo_err_part(job->err, st, "%s", pointer);
}

luo_status export_cannot_model(export_job *job, const char *format, const char *key)
{
    const luo_status st = luo_err_set(job->err, LUO_EUNREP, "%s can't express `%s` of model `%s`.",
                                      format, key, job->source->model->name);
    return luo_err_at(job->err, st, job->source->model_file, 0, 0);
}

void export_add_number(luo_str *text, double v)
{
    char shortest[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(shortest, sizeof shortest, "%.*g", digits, v);
        if (strtod(shortest, NULL) >= v && strtod(shortest, NULL) <= v) break;
    }
    luo_str_add(text, shortest);
}

bool export_recomputes(const luo_stage *stage, int32_t layer)
{
    if (stage->recompute == LUO_RECOMPUTE_NONE) return false;
    for (int32_t i = 0; i < stage->nrecompute; i++)
        if (layer >= stage->recompute_layers[i].lo && layer < stage->recompute_layers[i].hi)
            return true;
    return stage->nrecompute == 0;
}

export_at export_at_stage(int32_t pipeline, int32_t stage, const char *key)
{
    export_at at;
    snprintf(at.text, sizeof at.text, "/pipelines/%d/stages/%d%s", pipeline, stage, key);
    return at;
}

export_at export_at_pipeline(int32_t pipeline, const char *key)
{
    export_at at;
    snprintf(at.text, sizeof at.text, "/pipelines/%d%s", pipeline, key);
    return at;
}
