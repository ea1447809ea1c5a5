/* ops_sample.c: which devices stand for a large step in ops.csv and in the trace. */
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/result/rundir_internal.h"

typedef struct span { /* the records of one device */
    int64_t first, n;
    const luo_program *program;
    bool of_stage; /* the first device of its stage */
    bool kept;
} span;

typedef struct pipeline {
    uint64_t kind; /* equal: its stages run the same on devices of the same types */
    int64_t n;     /* records of the first device of each stage */
} pipeline;

typedef struct sampler {
    const luo_rundir *dir;
    const luo_programs *set;
    const luo_step_result *result;
    span *span;
    pipeline *pipeline;
    int32_t nspans, npipelines;
    int64_t left; /* records that may still be kept */
} sampler;

/* Records are by device. */
static bool find_spans(sampler *s)
{
    const luo_op_record *record = s->result->records;
    const int64_t n = s->result->nrecords;
    s->span = calloc((size_t)s->set->n + 1, sizeof *s->span);
    for (int64_t k = 0, next; s->span && k < n; k = next) {
        for (next = k + 1; next < n && record[next].device == record[k].device; next++) continue;
        s->span[s->nspans++] = (span){
            .first = k, .n = next - k, .program = luo_programs_find(s->set, record[k].device)};
    }
    return s->span != NULL;
}

static uint64_t hash_stage(const sampler *s, uint64_t kind, const luo_program *program)
{
    const int32_t what[] = {program->stage, program->role, program->ntask,
                            s->dir->opts.scenario->cluster->devices[program->device].kind};
    return luo_hash_bytes(kind, what, sizeof what);
}

static bool find_pipelines(sampler *s)
{
    luo_map seen = {0};
    for (int32_t i = 0; i < s->nspans; i++)
        if (s->span[i].program->pipeline >= s->npipelines)
            s->npipelines = s->span[i].program->pipeline + 1;
    s->pipeline = calloc((size_t)s->npipelines + 1, sizeof *s->pipeline);
    bool ok = s->pipeline != NULL;
    for (int32_t i = 0; ok && i < s->nspans; i++) {
        const luo_program *program = s->span[i].program;
        if (program->pipeline < 0 || program->stage < 0) continue;
        int64_t *times =
            luo_map_at(&seen, (uint64_t)program->pipeline << 32 | (uint32_t)program->stage, 0);
        ok = times != NULL;
        if (!ok || (*times)++ > 0) continue;
        s->span[i].of_stage = true;
        s->pipeline[program->pipeline].n += s->span[i].n;
        s->pipeline[program->pipeline].kind =
            hash_stage(s, s->pipeline[program->pipeline].kind, program);
    }
    luo_map_free(&seen);
    return ok;
}

static void keep(sampler *s, span *one)
{
    if (one->kept) return;
    one->kept = true;
    s->left -= one->n;
}

/* Devices that events have hit, which a step is traced for. */
static void keep_hit(sampler *s)
{
    for (int32_t i = 0; i < s->nspans; i++)
        if (s->dir->traced.hit[s->span[i].program->device] && s->span[i].n <= s->left)
            keep(s, &s->span[i]);
}

/* The first device of each stage of a pipeline, as far as they find room. */
static void keep_stages(sampler *s, int32_t index)
{
    for (int32_t i = 0; i < s->nspans; i++)
        if (s->span[i].of_stage && s->span[i].program->pipeline == index &&
            s->span[i].n <= s->left)
            keep(s, &s->span[i]);
}

/* The first device of each stage of pipelines that differ. Where the first pipeline is too
 * large, some of its stages are kept. */
static bool keep_pipelines(sampler *s)
{
    luo_map kinds = {0};
    bool ok = true;
    for (int32_t p = 0; ok && p < s->npipelines; p++) {
        if (s->pipeline[p].n == 0 || (p > 0 && s->pipeline[p].n > s->left)) continue;
        int64_t *times = luo_map_at(&kinds, s->pipeline[p].kind, 0);
        ok = times != NULL;
        if (!ok || (*times)++ > 0) continue;
        keep_stages(s, p);
    }
    luo_map_free(&kinds);
    return ok;
}

/* One device in any case: one that an event has hit, else the first. */
static void keep_one(sampler *s)
{
    int32_t best = 0;
    for (int32_t i = s->nspans - 1; i >= 0; i--) {
        if (s->span[i].kept) return;
        if (s->dir->traced.hit[s->span[i].program->device]) best = i;
    }
    if (s->nspans > 0) keep(s, &s->span[best]);
}

luo_op_record *luo_ops_sample(const luo_rundir *dir, const luo_programs *set,
                              const luo_step_result *result, int64_t room, int32_t *n)
{
    sampler s = {.dir = dir, .set = set, .result = result, .left = room};
    luo_op_record *kept = NULL;
    *n = 0;
    bool ok = find_spans(&s) && find_pipelines(&s);
    if (ok) keep_hit(&s);
    ok = ok && keep_pipelines(&s);
    if (ok) keep_one(&s);
    if (ok) kept = malloc((size_t)result->nrecords * sizeof *kept + 1);
    for (int32_t i = 0; kept && i < s.nspans; i++) {
        if (!s.span[i].kept) continue;
        memcpy(kept + *n, result->records + s.span[i].first, (size_t)s.span[i].n * sizeof *kept);
        *n += (int32_t)s.span[i].n;
    }
    free(s.span);
    free(s.pipeline);
    return kept;
}
