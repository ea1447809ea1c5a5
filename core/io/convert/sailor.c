/* sailor.c: a plan of Sailor: pipelines over GPU types, without numbers of devices. */
#include <string.h>

#include "core/io/convert/training.h"
#include "core/io/jsonw.h"
#include "core/io/read/read.h"
#include "core/io/write_plan.h"

enum { TYPES = 64 };

typedef struct sailor {
    convert_job *job;
    const luo_doc_node *root, *pipeline, *layers, *places;
    int32_t nstages, npipelines;
    luo_range *range; /* of the stages */
    int64_t nlayers;
    const char *type[TYPES]; /* of GPUs, in order of appearance .. */
    int64_t count[TYPES];    /* .. and how many of each */
    int32_t ntypes;
    int64_t micro_batch, global_batch;
} sailor;

static luo_status wrong(sailor *s, const luo_doc_node *node, const char *what)
{
    return convert_error(s->job, node ? node->line : 0, node ? node->col : 0, "%s.", what);
}

/* A number under the plan or at the top. */
static int64_t number(const sailor *s, const char *const *names, int64_t otherwise)
{
    int64_t v;
    for (; *names; names++) {
        if (luo_doc_int(luo_doc_get(s->pipeline, *names), &v)) return v;
        if (luo_doc_int(luo_doc_get(s->root, *names), &v)) return v;
    }
    return otherwise;
}

/* ---- layers: index 0 is the embedding, the last index the head ---- */

/* Every index once, in order; *total: how many there are. */
static luo_status check_indices(sailor *s, int64_t total)
{
    int64_t *seen = LUO_NEW_N(s->job->arena, int64_t, total + 1);
    const luo_doc_node *twice = NULL;
    int64_t missing = -1, i, expected = 0;
    bool ordered = true;
    if (!seen) return convert_nomem(s->job);
    for (const luo_doc_node *list = s->layers->first; list; list = list->next)
        for (const luo_doc_node *one = list->first; one; one = one->next) {
            if (!luo_doc_int(one, &i) || i < 0 || i >= total)
                return wrong(s, one,
                             "a layer is a whole number from 0, the embedding, to the head");
            if (seen[i]++ && !twice) twice = one;
            ordered &= i == expected++;
        }
    for (i = total - 1; i >= 0; i--)
        if (!seen[i]) missing = i;
    if (twice)
        return convert_error(s->job, twice->line, twice->col,
                             "layer index %s stands twice and %lld is missing; each of 0 to %lld "
                             "is expected once (--repair deals layers by how many a stage has).",
                             twice->text, (long long)missing, (long long)total - 1);
    return ordered ? LUO_OK : wrong(s, s->layers, "layers in ascending order are expected");
}

static luo_status read_layers(sailor *s)
{
    int64_t total = 0;
    for (const luo_doc_node *one = s->layers->first; one; one = one->next) {
        if (one->type != LUO_DOC_LIST || one->n < 1)
            return wrong(s, one, "`layers_per_stage` has a list of layers for each stage");
        total += one->n;
    }
    if (total < 3) return wrong(s, s->layers, "an embedding, a layer and a head are expected");
    if (s->job->opts->repair)
        convert_note(s->job, LUO_WARNING,
                     "layers are dealt by how many each stage has (--repair), not by their "
                     "numbers.");
    else
        LUO_TRY(check_indices(s, total));
    int64_t at = 0;
    for (int32_t j = 0; j < s->nstages; j++) {
        const int64_t lo = at == 0 ? 0 : at - 1;
        at += luo_doc_nth(s->layers, j)->n;
        s->range[j] = (luo_range){(int32_t)lo, (int32_t)(j == s->nstages - 1 ? at - 2 : at - 1)};
    }
    s->nlayers = total - 2;
    return LUO_OK;
}

/* ---- devices: numbered by type, in order of appearance ---- */

static int32_t type_of(sailor *s, const char *name)
{
    for (int32_t i = 0; i < s->ntypes; i++)
        if (strcmp(s->type[i], name) == 0) return i;
    if (s->ntypes == TYPES) return TYPES - 1;
    s->type[s->ntypes] = name;
    return s->ntypes++;
}

/* [[[type, gpus, zone], ..], tp]; fn is called for each of its triples. */
typedef luo_status triple_fn(sailor *s, int32_t type, int64_t gpus, void *at);

static luo_status each_triple(sailor *s, const luo_doc_node *place, triple_fn *fn, void *at)
{
    const luo_doc_node *list = luo_doc_nth(place, 0);
    if (!list || list->type != LUO_DOC_LIST)
        return wrong(s, place, "a replica of a stage is [[[type, gpus, zone], ..], tp]");
    for (const luo_doc_node *one = list->first; one; one = one->next) {
        const luo_doc_node *type = luo_doc_nth(one, 0), *gpus = luo_doc_nth(one, 1);
        int64_t n;
        if (!type || type->type != LUO_DOC_SCALAR || !luo_doc_int(gpus, &n) || n < 1 ||
            n > LUO_DEVICES_MAX)
            return wrong(s, one, "[type, gpus, zone] with one GPU or more is expected");
        LUO_TRY(fn(s, type_of(s, type->text), n, at));
    }
    return LUO_OK;
}

static luo_status count_gpus(sailor *s, int32_t type, int64_t gpus, void *at)
{
    (void)at;
    s->count[type] += gpus;
    return LUO_OK;
}

static luo_status add_gpus(sailor *s, int32_t type, int64_t gpus, void *at)
{
    (void)s;
    (void)type;
    *(int64_t *)at += gpus;
    return LUO_OK;
}

typedef struct placing {
    int64_t next[TYPES]; /* the next number of each type */
    int32_t *dev;
    int32_t n;
} placing;

static luo_status place_gpus(sailor *s, int32_t type, int64_t gpus, void *at)
{
    placing *p = at;
    (void)s;
    for (int64_t i = 0; i < gpus; i++) p->dev[p->n++] = (int32_t)p->next[type]++;
    return LUO_OK;
}

static luo_status each_place(sailor *s, triple_fn *fn, void *at)
{
    for (const luo_doc_node *stage = s->places->first; stage; stage = stage->next)
        for (const luo_doc_node *place = stage->first; place; place = place->next)
            LUO_TRY(each_triple(s, place, fn, at));
    return LUO_OK;
}

static luo_status make_stage(sailor *s, placing *p, int32_t r, int32_t j, luo_stage *out)
{
    const luo_doc_node *place = luo_doc_nth(luo_doc_nth(s->places, j), r);
    int64_t tp, n = 0;
    if (!place || !luo_doc_int(luo_doc_nth(place, 1), &tp))
        return wrong(s, place ? place : s->places,
                     "a replica of a stage is [[[type, gpus, zone], ..], tp]");
    LUO_TRY(each_triple(s, place, add_gpus, &n));
    p->n = 0;
    p->dev = LUO_NEW_N(s->job->arena, int32_t, n);
    if (!p->dev) return convert_nomem(s->job);
    LUO_TRY(each_triple(s, place, place_gpus, p));
    if (p->n != tp)
        return convert_error(s->job, place->line, place->col,
                             "tensor parallelism is %lld on %d GPUs; as many are expected.",
                             (long long)tp, p->n);
    *out = (luo_stage){.nlayers = 1,
                       .layers = &s->range[j],
                       .ndev = p->n,
                       .dev = p->dev,
                       .context_parallel = 1,
                       .embedding = j == 0,
                       .head = j == s->nstages - 1};
    return LUO_OK;
}

/* ---- the file ---- */

static luo_status find(sailor *s)
{
    const luo_doc_node *list = luo_doc_get(s->root, "pipeline_list");
    s->pipeline = list ? luo_doc_nth(list, 0) : s->root;
    s->layers = luo_doc_get(s->pipeline, "layers_per_stage");
    s->places = luo_doc_get(s->pipeline, "tmp_per_stage");
    if (!s->layers || !s->places || s->layers->type != LUO_DOC_LIST ||
        s->places->type != LUO_DOC_LIST || s->layers->n < 1 || s->layers->n != s->places->n)
        return wrong(s, s->pipeline,
                     "`layers_per_stage` and `tmp_per_stage` with an entry for "
                     "each stage are expected");
    s->nstages = s->layers->n;
    s->npipelines = s->places->first->n;
    for (const luo_doc_node *stage = s->places->first; stage; stage = stage->next)
        if (stage->n != s->npipelines || stage->n < 1)
            return wrong(s, stage, "every stage needs equally many replicas");
    s->range = LUO_NEW_N(s->job->arena, luo_range, s->nstages);
    return s->range ? LUO_OK : convert_nomem(s->job);
}

static luo_status read_batches(sailor *s, int64_t *micro_batches)
{
    static const char *const micro[] = {"mbs", "micro_batch_size", NULL};
    static const char *const global[] = {"gbs", "global_batch_size", NULL};
    s->micro_batch = number(s, micro, 1);
    s->global_batch = number(s, global, 0);
    const int64_t once = s->micro_batch * s->npipelines;
    if (s->micro_batch < 1 || s->micro_batch > 1 << 20 || s->global_batch < 1 ||
        s->global_batch % once || s->global_batch / once > 1 << 24)
        return convert_error(s->job, 0, 0,
                             "`gbs` is %lld; a multiple of `mbs` %lld x %d replicas is expected.",
                             (long long)s->global_batch, (long long)s->micro_batch, s->npipelines);
    *micro_batches = s->global_batch / once;
    return LUO_OK;
}

/* What was measured or estimated goes into `meta`. */
static luo_status add_meta(sailor *s, luo_plan *plan)
{
    static const char *const keys[] = {"max_mem", "real", "red_grads"};
    luo_str text = {0};
    for (int i = 0; i < 3; i++) {
        const luo_doc_node *node = luo_doc_get(s->pipeline, keys[i]);
        double v;
        if (!node) node = luo_doc_get(s->root, keys[i]);
        if (luo_doc_real(node, &v))
            luo_str_addf(&text, "%s\"%s\":%.17g", text.len ? "," : "{", keys[i], v);
    }
    if (text.len) luo_str_addc(&text, '}');
    plan->meta_json = text.len ? luo_arena_strdup(s->job->arena, luo_str_get(&text)) : NULL;
    luo_str_free(&text);
    return LUO_OK;
}

static luo_status say_types(sailor *s)
{
    luo_str text = {0};
    int64_t from = 0;
    for (int32_t i = 0; i < s->ntypes; i++) {
        luo_str_addf(&text, "%s%.40s %lld to %lld", i ? ", " : "", s->type[i], (long long)from,
                     (long long)(from + s->count[i] - 1));
        from += s->count[i];
    }
    convert_note(s->job, LUO_NOTE,
                 "devices are numbered by type: %s; a cluster file has its node "
                 "groups in that order.",
                 luo_str_get(&text));
    luo_str_free(&text);
    return LUO_OK;
}

luo_status convert_sailor(convert_job *job)
{
    luo_doc doc;
    luo_model *model;
    luo_str text = {0};
    int64_t micro_batches = 0;
    sailor s = {.job = job};
    LUO_TRY(convert_json(job, &doc));
    s.root = doc.root;
    if (!job->opts->model)
        return convert_usage(job, "`--model` is missing: a plan of Sailor names a network without "
                                  "its sizes.");
    LUO_TRY(luo_read_model(job->arena, job->opts->model, &model, job->diags));
    LUO_TRY(find(&s));
    LUO_TRY(read_layers(&s));
    LUO_TRY(read_batches(&s, &micro_batches));
    LUO_TRY(each_place(&s, count_gpus, NULL));
    placing p = {.n = 0};
    int64_t total = 0;
    for (int32_t i = 0; i < s.ntypes; i++) {
        p.next[i] = total;
        total += s.count[i];
    }
    if (total > LUO_DEVICES_MAX) return wrong(&s, s.places, "there are too many GPUs");
    luo_pipeline *pipelines = LUO_NEW_N(job->arena, luo_pipeline, s.npipelines);
    if (!pipelines) return convert_nomem(job);
    for (int32_t r = 0; r < s.npipelines; r++) {
        luo_stage *stages = LUO_NEW_N(job->arena, luo_stage, s.nstages);
        if (!stages) return convert_nomem(job);
        for (int32_t j = 0; j < s.nstages; j++) LUO_TRY(make_stage(&s, &p, r, j, &stages[j]));
        pipelines[r] = (luo_pipeline){.micro_batches = (int32_t)micro_batches,
                                      .micro_batch_sequences = (int32_t)s.micro_batch,
                                      .nstages = s.nstages,
                                      .stages = stages};
    }
    luo_plan plan = {.name = "sailor",
                     .model = model->name,
                     .cluster = "",
                     .layers = (int32_t)s.nlayers,
                     .devices = (int32_t)total,
                     .dtype = model->dtype,
                     .sequence_tokens = convert_sequence(job, model->max_sequence_tokens),
                     .micro_batch_sequences = (int32_t)s.micro_batch,
                     .schedule = LUO_SCHED_1F1B,
                     .chunks = 1,
                     .npipelines = s.npipelines,
                     .pipelines = pipelines};
    LUO_TRY(add_meta(&s, &plan));
    luo_plan_json(&text, &plan);
    LUO_TRY(convert_add(job, "plan.json", &text));
    LUO_TRY(say_types(&s));
    return convert_say(job,
                       "%lld layers on %lld devices: %d pipeline%s of %d stage%s, %lld "
                       "micro-batches of %lld",
                       (long long)s.nlayers, (long long)total, s.npipelines,
                       s.npipelines > 1 ? "s" : "", s.nstages, s.nstages > 1 ? "s" : "",
                       (long long)micro_batches, (long long)s.micro_batch);
}
