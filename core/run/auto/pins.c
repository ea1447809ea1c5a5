/* Pinned parts of a plan: JSON pointers of plan.json, looked up in its canonical text. */
#include <stdlib.h>
#include <string.h>

#include "core/run/auto/auto_internal.h"

/* ---- parts of a text ---- */

typedef struct span { /* at NULL: there is no such part */
    const char *at;
    size_t n;
} span;

/* Behind a value of canonical JSON: no blanks, and in texts two escapes (luo_plan_canonical). */
static const char *behind(const char *p)
{
    int32_t depth = 0;
    do {
        if (*p == '"')
            for (p++; *p != '"'; p++) p += *p == '\\';
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
    } while (depth > 0 || (*p && *p != ',' && *p != ']' && *p != '}' && *p != ':'));
    return p;
}

/* Value of the key, or of the place, that the first token of a pointer names: its n letters. */
static const char *member(const char *value, const char *token, size_t n)
{
    char *end;
    const long place = strtol(token, &end, 10);
    const bool list = *value == '[';
    if ((!list && *value != '{') || value[1] == ']' || value[1] == '}') return NULL;
    if (list && (n == 0 || end != token + n || place < 0)) return NULL;
    const char *p = value + 1;
    for (long i = 0;; i++) {
        const char *key = p;
        if (!list) p = behind(p) + 1;
        if (list ? i == place : strncmp(key + 1, token, n) == 0 && key[n + 1] == '"') return p;
        p = behind(p);
        if (*p != ',') return NULL;
        p++;
    }
}

/* pointer: as RFC 6901 has it; keys of plans need no escapes. */
static span part(const char *text, const char *pointer)
{
    const char *p = text;
    while (p && *pointer) {
        const size_t n = strcspn(pointer + 1, "/");
        p = member(p, pointer + 1, n);
        pointer += 1 + n;
    }
    return p ? (span){p, (size_t)(behind(p) - p)} : (span){NULL, 0};
}

/* What is at its default may be in neither text. */
static bool same_part(const char *a, const char *b, const char *pointer)
{
    const span x = part(a, pointer), y = part(b, pointer);
    return x.n == y.n && (x.n == 0 || memcmp(x.at, y.at, x.n) == 0);
}

/* ---- sizes that are asked of all plans ---- */

/* What a pinned part says of a size is asked of all plans; *unlike: the option that has asked for
 * another one. open: no size is asked for at or below it. */
static void pin_size(int32_t *size, int32_t open, int32_t pinned, const char *option,
                     const char **unlike)
{
    if (*size > open && *size != pinned) *unlike = option;
    *size = pinned;
}

static void pin_pipelines(luo_uniform_opts *opts, const luo_plan *pinned, const char **unlike)
{
    const luo_pipeline *first = &pinned->pipelines[0];
    pin_size(&opts->dp, 0, pinned->npipelines, "dp", unlike);
    pin_size(&opts->pp, 0, first->nstages, "pp", unlike);
    pin_size(&opts->tp, 0, luo_stage_tp(&first->stages[0]), "tp", unlike);
}

const char *luo_auto_pin_sizes(const luo_plan *pinned, luo_uniform_opts *opts, const char **unlike)
{
    *unlike = NULL;
    for (int32_t i = 0; i < pinned->npinned; i++) {
        const char *pin = pinned->pinned[i];
        const bool all = strcmp(pin, "/schedule") == 0;
        if (strcmp(pin, "/zero") == 0) pin_size(&opts->zero, -1, pinned->zero, "zero", unlike);
        if (strcmp(pin, "/micro_batch_sequences") == 0)
            pin_size(&opts->micro_batch_sequences, 0, pinned->micro_batch_sequences,
                     "micro-batch-size", unlike);
        if (all || strcmp(pin, "/schedule/kind") == 0)
            pin_size(&opts->schedule, -1, 1 + (int32_t)pinned->schedule, "schedule", unlike);
        if (all || strcmp(pin, "/schedule/chunks") == 0)
            pin_size(&opts->chunks, 0, pinned->chunks, "chunks", unlike);
        if (strcmp(pin, "/pipelines") == 0) pin_pipelines(opts, pinned, unlike);
        if (strcmp(pin, "/sequence_parallel") == 0) {
            if (!opts->sequence_parallel && pinned->sequence_parallel)
                *unlike = "no-sequence-parallel";
            opts->sequence_parallel = pinned->sequence_parallel;
        }
        if (*unlike) return pin;
    }
    return NULL;
}

/* ---- pins of one plan ---- */

luo_status luo_auto_pin_broken(const luo_plan *pinned, const luo_plan *plan, const char **broken,
                               luo_err *err)
{
    luo_str was = {0}, now = {0};
    *broken = NULL;
    luo_plan_canonical(&was, pinned);
    luo_plan_canonical(&now, plan);
    const luo_status st = was.failed || now.failed ? luo_err_nomem(err) : LUO_OK;
    for (int32_t i = 0; st == LUO_OK && i < pinned->npinned && !*broken; i++)
        if (!same_part(was.at, now.at, pinned->pinned[i])) *broken = pinned->pinned[i];
    luo_str_free(&was);
    luo_str_free(&now);
    return st;
}

static void take_of_zero3(const luo_sharding *from, luo_sharding *to, const char *pin)
{
    if (strcmp(pin, "/shard") == 0) to->kind = from->kind;
    if (strcmp(pin, "/shard_pipelines") == 0) to->pipelines = from->pipelines;
    if (strcmp(pin, "/prefetch_depth") == 0) {
        to->has_depth = from->has_depth;
        to->depth = from->depth;
    }
}

static void take_of_calls(const luo_bucketing *from, luo_bucketing *to, const char *pin)
{
    if (strcmp(pin, "/bucket_rule") == 0) to->rule = from->rule;
    if (strcmp(pin, "/dp_lanes") == 0) to->lanes = from->lanes;
    if (strcmp(pin, "/bucket_mib") == 0) {
        to->has_mib = from->has_mib;
        to->mib = from->mib;
    }
}

void auto_take_pins(const luo_plan *pinned, luo_plan *plan)
{
    const bool dealt = plan->pipelines[0].stages[0].experts_dealt;
    for (int32_t i = 0; i < pinned->npinned; i++) {
        const char *pin = pinned->pinned[i];
        take_of_calls(&pinned->bucket, &plan->bucket, pin);
        if (plan->zero == 3) take_of_zero3(&pinned->sharding, &plan->sharding, pin);
        if (strcmp(pin, "/optimizer_step") == 0) plan->staggered = pinned->staggered;
        if (dealt && strcmp(pin, "/moe_exchange") == 0) plan->moe_exchange = pinned->moe_exchange;
        if (dealt && strcmp(pin, "/expert_parallel") == 0)
            plan->expert_parallel = pinned->expert_parallel;
    }
}
