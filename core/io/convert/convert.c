#include "core/io/convert/convert_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/io/read/read.h"

enum {
    NONE = 0,
    DEVICES = LUO_CONVERT_DEVICES,
    MICRO_BATCHES = LUO_CONVERT_MICRO_BATCHES,
    PROFILE = LUO_CONVERT_PROFILE,
    APPROXIMATE = LUO_CONVERT_APPROXIMATE,
    REPAIR = LUO_CONVERT_REPAIR,
    MODEL = LUO_CONVERT_MODEL,
    UNITS = LUO_CONVERT_UNITS,
    FOLDER = LUO_CONVERT_FOLDER,
    SEQUENCE = LUO_CONVERT_SEQUENCE,
    MIN_GPUS = LUO_CONVERT_MIN_GPUS,
    RUN = LUO_CONVERT_RUN
};

static const struct {
    const char *word, *source, *out;
    convert_fn *fn;
    int options;
} converters[] = {
#define LUO_CONVERTER(kind, word, function, options, out, source)                                  \
    {word, source, out, function, options},
#include "core/io/convert/converters.inc"
#undef LUO_CONVERTER
};

const char *luo_convert_kind_name(luo_convert_kind kind)
{
    return converters[kind].word;
}

const char *luo_convert_kind_source(luo_convert_kind kind)
{
    return converters[kind].source;
}

const char *luo_convert_kind_out(luo_convert_kind kind)
{
    return converters[kind].out;
}

int luo_convert_kind_options(luo_convert_kind kind)
{
    return converters[kind].options;
}

/* ---- what converters share ---- */

luo_status convert_error(convert_job *job, int line, int col, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const luo_status st =
        luo_diags_vadd(job->diags, LUO_ERROR, LUO_EINPUT, job->src.name, line, col, fmt, ap);
    va_end(ap);
    return st;
}

luo_status convert_usage(convert_job *job, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const luo_status st = luo_diags_vadd(job->diags, LUO_ERROR, LUO_EUSAGE, NULL, 0, 0, fmt, ap);
    va_end(ap);
    return st;
}

luo_status convert_refuse(convert_job *job, const char *name, int line, int col, const char *why)
{
    if (!job->opts->approximate)
        return convert_error(job, line, col, "`%.60s` is not supported: %s.", name, why);
    luo_diags_add(job->diags, LUO_WARNING, LUO_OK, job->src.name, line, col,
                  "`%.60s` is left out (--approximate): %s.", name, why);
    return LUO_OK;
}

int64_t convert_sequence(convert_job *job, int64_t most)
{
    enum { USUAL = 4096 }; /* as `luoshu plan` takes it */
    const int64_t tokens = most < USUAL ? most : USUAL;
    if (job->opts->sequence_tokens) return job->opts->sequence_tokens;
    convert_note(job, LUO_NOTE,
                 "it does not say how long sequences are; %lld tokens are taken "
                 "(--seq-length).",
                 (long long)tokens);
    return tokens;
}

luo_status convert_note(convert_job *job, luo_severity severity, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    luo_diags_vadd(job->diags, severity, LUO_OK, job->src.name, 0, 0, fmt, ap);
    va_end(ap);
    return LUO_OK;
}

luo_status convert_nomem(convert_job *job)
{
    luo_err err;
    luo_err_nomem(&err);
    return luo_diags_err(job->diags, &err);
}

luo_status convert_add(convert_job *job, const char *name, luo_str *text)
{
    luo_convert_file *file = &job->made.file[job->made.nfiles];
    const bool failed = text->failed;
    *file = (luo_convert_file){.name = name, .len = text->len};
    file->text = failed ? NULL : luo_arena_strndup(job->arena, luo_str_get(text), text->len);
    luo_str_free(text);
    if (!file->text) return convert_nomem(job);
    file->hash = luo_hash_bytes(LUO_HASH_EMPTY, file->text, file->len);
    job->made.nfiles++;
    return LUO_OK;
}

luo_status convert_say(convert_job *job, const char *fmt, ...)
{
    va_list ap;
    luo_err text;
    va_start(ap, fmt);
    vsnprintf(text.text, sizeof text.text, fmt, ap);
    va_end(ap);
    job->made.summary = luo_arena_strdup(job->arena, text.text);
    return job->made.summary ? LUO_OK : convert_nomem(job);
}

luo_status convert_json(convert_job *job, luo_doc *doc)
{
    *doc = (luo_doc){.arena = job->arena, .src = &job->src, .diags = job->diags};
    const luo_status st = luo_doc_parse_json(doc);
    if (st != LUO_OK) return st;
    return doc->root ? LUO_OK : convert_error(job, 0, 0, "the file is empty; JSON is expected.");
}

luo_status convert_unused(convert_job *job, const char *const *names, int32_t n)
{
    luo_str text = {0};
    for (int32_t i = 0; i < n; i++) luo_str_addf(&text, "%s`%.60s`", i ? ", " : "", names[i]);
    if (n)
        convert_note(job, LUO_NOTE, "%d key%s not used: %s.", (int)n, n > 1 ? "s" : "",
                     luo_str_get(&text));
    luo_str_free(&text);
    return LUO_OK;
}

/* ---- what was made, read as any file of ours ---- */

static luo_status read_again(convert_job *job)
{
    luo_model *model = NULL;
    luo_plan *plan = NULL;
    luo_cluster *cluster;
    luo_plan_finding *found;
    int32_t n;
    for (int32_t i = 0; i < job->made.nfiles; i++) {
        const luo_convert_file *file = &job->made.file[i];
        const luo_source src = {file->name, file->text, file->len};
        if (strcmp(file->name, "model.yaml") == 0)
            LUO_TRY(luo_read_model_text(job->arena, &src, NULL, &model, job->diags));
        if (strcmp(file->name, "plan.json") == 0)
            LUO_TRY(luo_read_plan_text(job->arena, &src, &plan, job->diags));
        if (strcmp(file->name, "cluster.yaml") == 0)
            LUO_TRY(luo_read_cluster_text(job->arena, &src, NULL, &cluster, job->diags));
    }
    if (!model && job->opts->model)
        LUO_TRY(luo_read_model(job->arena, job->opts->model, &model, job->diags));
    if (!plan || luo_plan_check(job->arena, plan, model, NULL, &found, &n) == LUO_OK) return LUO_OK;
    return convert_error(job, 0, 0, "of this no plan can be made: %s", found[0].text);
}

/* A folder, of kinds that take one, has no text: its converter opens what is in it. */
static luo_status read_source(convert_job *job)
{
    struct stat info;
    luo_err err = {0};
    const bool folder = stat(job->opts->source, &info) == 0 && S_ISDIR(info.st_mode);
    job->src.name = job->opts->source;
    if (folder && converters[job->opts->kind].options & FOLDER) return LUO_OK;
    if (luo_source_read(job->arena, job->opts->source, &job->src, &err) == LUO_OK) return LUO_OK;
    return luo_diags_err(job->diags, &err);
}

luo_status luo_convert(luo_arena *arena, const luo_convert_opts *opts, luo_convert_made *made,
                       luo_diags *diags)
{
    convert_job job = {.arena = arena, .opts = opts, .diags = diags};
    LUO_TRY(read_source(&job));
    LUO_TRY(converters[opts->kind].fn(&job));
    LUO_TRY(read_again(&job));
    *made = job.made;
    return LUO_OK;
}
