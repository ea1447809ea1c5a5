/* stragglers.c: recorded steps as StragglerAnalysis published them: a timeline for Perfetto with
 * its meta file, or the same as a flat table.
 *
 * pid is the pipeline (data-parallel rank), the name of a thread its stage and lane; one tensor
 * rank stands for its group. Communication has its transfer alone, without waiting. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/vec.h"
#include "core/io/convert/training.h"
#include "core/io/files.h"
#include "core/io/result/csv.h"
#include "core/io/result/table.h"

typedef struct op { /* one recorded operation; -1: none */
    int64_t step, chunk, micro_batch, order;
    int32_t pipeline, stage;
    const char *lane, *name;
    double start_us, duration_us;
} op;

typedef struct thread { /* of a timeline */
    int64_t pid, tid;
    int32_t stage, tensor;
    const char *lane;
} thread;

typedef struct recorded {
    convert_job *job;
    op *at;
    int64_t n, cap;
    thread *thread;
    int64_t nthreads, cap_threads;
    int64_t others, negative, strange; /* of other tensor ranks; durations; phases that are no X */
    int64_t dp, pp, tp, dsp, vpp;      /* sizes of the job */
    bool has_meta;
} recorded;

/* ---- the source ---- */

/* Replaces a packed source by its text. */
static luo_status unpack(convert_job *job)
{
    luo_str text = {0};
    char piece[1 << 14];
    int n;
    if (job->src.len < 2 || (unsigned char)job->src.text[0] != 0x1f ||
        (unsigned char)job->src.text[1] != 0x8b)
        return LUO_OK;
    gzFile gz = gzopen(job->opts->source, "rb");
    if (!gz) return convert_error(job, 0, 0, "the file cannot be read.");
    while ((n = gzread(gz, piece, sizeof piece)) > 0 && text.len <= LUO_FILE_BYTES)
        luo_str_addn(&text, piece, (size_t)n);
    const bool broken = gzclose_r(gz) != Z_OK || n < 0;
    const size_t len = text.len;
    char *copy = text.failed || broken || len > LUO_FILE_BYTES
                     ? NULL
                     : luo_arena_strndup(job->arena, luo_str_get(&text), len);
    const bool failed = text.failed;
    luo_str_free(&text);
    if (broken) return convert_error(job, 0, 0, "it is no whole gzip file.");
    if (len > LUO_FILE_BYTES)
        return convert_error(job, 0, 0,
                             "unpacked it is over %zu MiB; some steps of it are expected.",
                             LUO_FILE_BYTES >> 20);
    if (failed || !copy) return convert_nomem(job);
    job->src.text = copy;
    job->src.len = len;
    return LUO_OK;
}

/* DIR/meta-NAME.yaml of DIR/timeline-NAME.json.gz; NULL: the source has another name. */
static const char *meta_path(convert_job *job)
{
    const char *source = job->opts->source, *slash = strrchr(source, '/');
    const char *base = slash ? slash + 1 : source;
    const size_t begins = strlen("timeline-"), dir = (size_t)(base - source);
    if (strncmp(base, "timeline-", begins) != 0) return NULL;
    const size_t name = strcspn(base + begins, ".");
    return luo_arena_printf(job->arena, "%.*smeta-%.*s.yaml", (int)dir, source, (int)name,
                            base + begins);
}

static luo_status read_meta(recorded *r)
{
    const struct {
        const char *key;
        int64_t *to;
    } sizes[] = {{"dp_size", &r->dp},
                 {"pp_size", &r->pp},
                 {"tp_size", &r->tp},
                 {"dsp_size", &r->dsp},
                 {"vpp_size", &r->vpp}};
    luo_source src;
    luo_err err = {0};
    const char *path = meta_path(r->job);
    r->dp = r->pp = r->tp = r->dsp = r->vpp = 1;
    if (!path || luo_source_read(r->job->arena, path, &src, &err) != LUO_OK) return LUO_OK;
    luo_doc doc = {.arena = r->job->arena, .src = &src, .diags = r->job->diags};
    LUO_TRY(luo_doc_parse(&doc));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const luo_doc_node *node = luo_doc_get(doc.root, sizes[i].key);
        if (!node) continue;
        if (!luo_doc_int(node, sizes[i].to) || *sizes[i].to < 1 || *sizes[i].to > LUO_DEVICES_MAX)
            return luo_diags_add(r->job->diags, LUO_ERROR, LUO_EINPUT, src.name, node->line,
                                 node->col, "`%s` is `%.40s`; a whole number from 1 is expected.",
                                 sizes[i].key, node->text);
    }
    r->has_meta = true;
    return LUO_OK;
}

static luo_status add_op(recorded *r, op one)
{
    if (!LUO_VEC_ROOM(r->at, r->n, r->cap)) return convert_nomem(r->job);
    if (one.duration_us < 0) r->negative++;
    one.duration_us = fmax(one.duration_us, 0);
    r->at[r->n++] = one;
    return LUO_OK;
}

/* "pp-comm" -> "pp". */
static const char *lane_of(convert_job *job, const char *text)
{
    const size_t n = strlen(text), tail = strlen("-comm");
    const bool comm = n > tail && strcmp(text + n - tail, "-comm") == 0;
    return luo_arena_strndup(job->arena, text, comm ? n - tail : n);
}

/* ---- a timeline ---- */

static luo_status read_thread(recorded *r, const luo_doc_node *event)
{
    const luo_doc_node *name = luo_doc_get(luo_doc_get(event, "args"), "name");
    thread t = {0};
    int stage, tensor, end = 0;
    if (!name || !luo_doc_int(luo_doc_get(event, "pid"), &t.pid) ||
        !luo_doc_int(luo_doc_get(event, "tid"), &t.tid) ||
        sscanf(name->text, "PP rank %d, TP rank %d, %n", &stage, &tensor, &end) < 2 || !end ||
        stage < 0 || stage >= LUO_DEVICES_MAX)
        return convert_error(r->job, event->line, event->col,
                             "a thread is `%.60s`; \"PP rank P, TP rank T, LANE\" is expected.",
                             name ? name->text : "");
    t.stage = stage;
    t.tensor = tensor;
    t.lane = lane_of(r->job, name->text + end);
    if (!t.lane || !LUO_VEC_ROOM(r->thread, r->nthreads, r->cap_threads))
        return convert_nomem(r->job);
    r->thread[r->nthreads++] = t;
    return LUO_OK;
}

static int by_thread(const void *a, const void *b)
{
    const thread *x = a, *y = b;
    if (x->pid != y->pid) return x->pid < y->pid ? -1 : 1;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

static int64_t whole_or_none(const luo_doc_node *args, const char *key)
{
    int64_t v;
    return luo_doc_int(luo_doc_get(args, key), &v) && v >= 0 ? v : -1;
}

static luo_status read_slice(recorded *r, const luo_doc_node *event)
{
    const luo_doc_node *args = luo_doc_get(event, "args"), *name = luo_doc_get(event, "name");
    thread key = {0};
    op one = {.step = whole_or_none(args, "step"),
              .chunk = whole_or_none(args, "model_chunk"),
              .micro_batch = whole_or_none(args, "mb_id"),
              .order = whole_or_none(args, "seq_id")};
    if (!name || !luo_doc_int(luo_doc_get(event, "pid"), &key.pid) ||
        !luo_doc_int(luo_doc_get(event, "tid"), &key.tid) || key.pid < 0 ||
        key.pid >= LUO_DEVICES_MAX || !luo_doc_real(luo_doc_get(event, "ts"), &one.start_us) ||
        !luo_doc_real(luo_doc_get(event, "dur"), &one.duration_us) || one.step < 0)
        return convert_error(r->job, event->line, event->col,
                             "an operation without `name`, `pid`, `tid`, `ts`, `dur` and `step`.");
    const thread *t =
        r->nthreads ? bsearch(&key, r->thread, (size_t)r->nthreads, sizeof key, by_thread) : NULL;
    if (!t)
        return convert_error(r->job, event->line, event->col,
                             "thread %lld of process %lld has no `thread_name`.",
                             (long long)key.tid, (long long)key.pid);
    if (t->tensor > 0) {
        r->others++;
        return LUO_OK;
    }
    one.pipeline = (int32_t)key.pid;
    one.stage = t->stage;
    one.lane = t->lane;
    one.name = name->text;
    return add_op(r, one);
}

static luo_status read_timeline(recorded *r)
{
    luo_doc doc;
    LUO_TRY(convert_json(r->job, &doc));
    const luo_doc_node *list = luo_doc_get(doc.root, "traceEvents");
    if (!list) list = doc.root;
    if (list->type != LUO_DOC_LIST)
        return convert_error(r->job, 0, 0, "a list of events is expected.");
    for (const luo_doc_node *event = list->first; event; event = event->next) {
        const char *name = luo_doc_text(event, "name");
        if (name && strcmp(name, "thread_name") == 0) LUO_TRY(read_thread(r, event));
    }
    if (r->nthreads) qsort(r->thread, (size_t)r->nthreads, sizeof *r->thread, by_thread);
    for (const luo_doc_node *event = list->first; event; event = event->next) {
        const char *phase = luo_doc_text(event, "ph");
        if (phase && strcmp(phase, "X") == 0)
            LUO_TRY(read_slice(r, event));
        else
            r->strange += !phase || strcmp(phase, "M") != 0;
    }
    return LUO_OK;
}

/* ---- a flat table ---- */

enum { STEP, PIPELINE, STAGE, LANE, NAME, CHUNK, MICRO_BATCH, ORDER, START, DURATION, COLUMNS };
#define WHOLE(name, lo)                                                                            \
    {                                                                                              \
        name, LUO_CSV_WHOLE, true, LUO_WITHIN(lo, 9007199254740992.0), NULL, false, NULL          \
    }
#define RANK(name)                                                                                 \
    {                                                                                              \
        name, LUO_CSV_WHOLE, true, LUO_WITHIN(0, LUO_DEVICES_MAX - 1), NULL, false, NULL          \
    }
static const luo_csv_column columns[COLUMNS] = {
    [STEP] = WHOLE("step", 0),
    [PIPELINE] = RANK("dp_rank"),
    [STAGE] = RANK("pp_rank"),
    [LANE] = {"lane", LUO_CSV_TEXT, true, {0}, NULL, false, NULL},
    [NAME] = {"op", LUO_CSV_TEXT, true, {0}, NULL, false, NULL},
    [CHUNK] = WHOLE("model_chunk", -1),
    [MICRO_BATCH] = WHOLE("mb_id", -1),
    [ORDER] = WHOLE("seq_id", -1),
    [START] = {"start_us", LUO_CSV_NUMBER, true, LUO_WITHIN(-1e18, 1e18), NULL, false, NULL},
    [DURATION] = {"dur_us", LUO_CSV_NUMBER, true, LUO_WITHIN(-1e15, 1e15), NULL, false, NULL}};

static luo_status read_table(recorded *r)
{
    luo_csv_cell cell[COLUMNS];
    luo_status st = LUO_OK;
    luo_csv *csv = luo_csv_open_foreign(r->job->opts->source, columns, COLUMNS, r->job->diags);
    while (st == LUO_OK && !luo_diags_full(r->job->diags, r->job->opts->source) &&
           luo_csv_next(csv, cell)) {
        op one = {.step = cell[STEP].whole,
                  .chunk = cell[CHUNK].whole,
                  .micro_batch = cell[MICRO_BATCH].whole,
                  .order = cell[ORDER].whole,
                  .pipeline = (int32_t)cell[PIPELINE].whole,
                  .stage = (int32_t)cell[STAGE].whole,
                  .lane = lane_of(r->job, cell[LANE].text),
                  .name = luo_arena_strdup(r->job->arena, cell[NAME].text),
                  .start_us = cell[START].number,
                  .duration_us = cell[DURATION].number};
        st = one.lane && one.name ? add_op(r, one) : convert_nomem(r->job);
    }
    const luo_status closed = luo_csv_close(csv);
    return st == LUO_OK ? closed : st;
}

/* ---- sizes ---- */

static bool is_compute(const op *one)
{
    return strcmp(one->name, "forward-compute") == 0 || strcmp(one->name, "backward-compute") == 0;
}

static luo_status check_sizes(recorded *r)
{
    const double devices = (double)r->dp * (double)r->pp * (double)r->tp * (double)r->dsp;
    const double chunks = (double)r->pp * (double)r->vpp;
    if (devices <= LUO_DEVICES_MAX && chunks <= LUO_DEVICES_MAX) return LUO_OK;
    return convert_error(
        r->job, 0, 0, "it has %.0f devices and %.0f chunks of a pipeline; at most %d are expected.",
        devices, chunks, LUO_DEVICES_MAX);
}

/* Those of the meta file hold; where there is none, what the operations show. */
static luo_status find_sizes(recorded *r)
{
    int64_t dp = 0, pp = 0, vpp = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const op *one = &r->at[i];
        if (one->pipeline >= dp) dp = one->pipeline + 1;
        if (one->stage >= pp) pp = one->stage + 1;
        if (is_compute(one) && one->chunk >= vpp) vpp = one->chunk + 1;
    }
    if (r->has_meta && (dp > r->dp || pp > r->pp || vpp > r->vpp))
        return convert_error(r->job, 0, 0,
                             "it has %lld pipelines of %lld stages with %lld chunks; its meta file "
                             "says %lld, %lld and %lld.",
                             (long long)dp, (long long)pp, (long long)vpp, (long long)r->dp,
                             (long long)r->pp, (long long)r->vpp);
    if (r->has_meta) return LUO_OK;
    r->dp = dp;
    r->pp = pp;
    r->vpp = vpp ? vpp : 1;
    return convert_note(
        r->job, LUO_NOTE,
        "there is no meta-NAME.yaml beside a timeline-NAME.json.gz: sizes are those "
        "of the operations, with one device a stage.");
}

/* ---- what is made ---- */

static int by_place(const void *a, const void *b)
{
    const op *x = a, *y = b;
    const int64_t key[][2] = {{x->step, y->step}, {x->pipeline, y->pipeline}, {x->stage, y->stage}};
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        if (key[i][0] != key[i][1]) return key[i][0] < key[i][1] ? -1 : 1;
    const int lane = strcmp(x->lane, y->lane), name = strcmp(x->name, y->name);
    if (lane || name) return lane ? lane : name;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

static bool same_series(const op *x, const op *y)
{
    return x->step == y->step && x->pipeline == y->pipeline && x->stage == y->stage &&
           strcmp(x->lane, y->lane) == 0 && strcmp(x->name, y->name) == 0;
}

/* recorded.csv; run time begins with the first operation. An order that is not given is that of
 * starts. */
static luo_status write_recorded(recorded *r)
{
    luo_str text = {0};
    double first = r->at[0].start_us;
    for (int64_t i = 0; i < r->n; i++) first = fmin(first, r->at[i].start_us);
    luo_str_add(&text,
                "# luoshu import stragglers: communication without waiting\n"
                "step,pipeline,stage,lane,op,chunk,micro_batch,order,t_start_s,duration_s\n");
    for (int64_t i = 0, order = 0; i < r->n; i++) {
        const op *one = &r->at[i];
        order = i > 0 && same_series(one, one - 1) ? order + 1 : 0;
        luo_str_addf(&text, "%lld,%d,%d,", (long long)one->step, one->pipeline, one->stage);
        luo_table_put_text(&text, one->lane);
        luo_str_addc(&text, ',');
        luo_table_put_text(&text, one->name);
        luo_str_addf(&text, ",%lld,%lld,%lld,%.9f,%.9f\n", (long long)one->chunk,
                     (long long)one->micro_batch, (long long)(one->order < 0 ? order : one->order),
                     (one->start_us - first) / 1e6, one->duration_us / 1e6);
    }
    return convert_add(r->job, "recorded.csv", &text);
}

/* Micro-batches of a step of the first worker. */
static int64_t count_micro_batches(const recorded *r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n && r->at[i].step == r->at[0].step; i++)
        n += r->at[i].pipeline == 0 && r->at[i].stage == 0 && r->at[i].chunk <= 0 &&
             strcmp(r->at[i].name, "forward-compute") == 0;
    return n;
}

static bool has_op(const recorded *r, const char *name)
{
    for (int64_t i = 0; i < r->n; i++)
        if (strcmp(r->at[i].name, name) == 0) return true;
    return false;
}

static luo_status write_plan(recorded *r)
{
    convert_training training = {.devices = r->dp * r->pp * r->tp * r->dsp,
                                 .tp = r->tp,
                                 .pp = r->pp,
                                 .cp = r->dsp,
                                 .dp = r->dp,
                                 .micro_batch = 1,
                                 .micro_batches = count_micro_batches(r),
                                 .chunks = r->vpp,
                                 .zero = has_op(r, "params-all-gather"),
                                 .dtype = LUO_BF16};
    bool given;
    if (training.micro_batches < 1)
        return convert_error(r->job, 0, 0,
                             "stage 0 of pipeline 0 has no `forward-compute` in its first step.");
    training.global_batch = training.micro_batches * training.dp;
    LUO_TRY(convert_network_given(r->job, &training, &given));
    if (!given) {
        training.network.layers = r->pp * r->vpp;
        convert_note(
            r->job, LUO_NOTE,
            "it does not say which network it is: the plan has one layer in each chunk of a "
            "stage (--model).");
    }
    if (!training.sequence_tokens)
        training.sequence_tokens =
            convert_sequence(r->job, given ? training.network.max_sequence_tokens : INT64_MAX);
    return convert_plan_file(r->job, &training);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* rate[pipeline * pp + stage]: forward and backward of a worker over those of the middle one (of
 * two the faster) of all workers of its stage, who do the same work; 1 at least. */
static luo_status find_rates(recorded *r, double **out)
{
    const int64_t n = r->dp * r->pp;
    double *rate = LUO_NEW_N(r->job->arena, double, n),
           *all = LUO_NEW_N(r->job->arena, double, r->dp);
    if (!rate || !all) return convert_nomem(r->job);
    for (int64_t i = 0; i < r->n; i++)
        if (is_compute(&r->at[i]))
            rate[r->at[i].pipeline * r->pp + r->at[i].stage] += r->at[i].duration_us;
    for (int64_t s = 0; s < r->pp; s++) {
        for (int64_t d = 0; d < r->dp; d++) all[d] = rate[d * r->pp + s];
        qsort(all, (size_t)r->dp, sizeof *all, by_value);
        const double middle = all[(r->dp - 1) / 2];
        for (int64_t d = 0; d < r->dp; d++) {
            double *one = &rate[d * r->pp + s];
            *one = middle > 0 ? fmin(fmax(*one / middle, 1), 1e6) : 1;
        }
    }
    *out = rate;
    return LUO_OK;
}

/* rates.csv of all devices, and events.csv if a worker is slow: it then is so from the beginning.
 * Devices are numbered as in the plan. */
static luo_status write_rates(recorded *r, const double *rate)
{
    static const double SLOW = 1.05;
    const int64_t each = r->tp * r->dsp;
    luo_str rates = {0}, events = {0};
    int64_t slow = 0;
    luo_str_add(&rates, "# luoshu import stragglers: computation beside the middle worker of the "
                        "same stage\ndevice,rate\n");
    luo_str_add(&events, "# luoshu import stragglers: workers of rate 1.05 and more\n"
                         "t_s,kind,target,value,duration_s,id\n");
    for (int64_t s = 0; s < r->pp; s++)
        for (int64_t d = 0; d < r->dp; d++) {
            const double one = rate[d * r->pp + s];
            const int64_t first = each * (d + r->dp * s);
            for (int64_t k = 0; k < each; k++)
                luo_str_addf(&rates, "%lld,%.6g\n", (long long)(first + k), one);
            if (one < SLOW) continue;
            slow++;
            luo_str_addf(&events, "0,straggler,device:[%lld", (long long)first);
            if (each > 1) luo_str_addf(&events, "-%lld", (long long)(first + each - 1));
            luo_str_addf(&events, "],%.6g,,p%lld-s%lld\n", one, (long long)d, (long long)s);
        }
    luo_status st = convert_add(r->job, "rates.csv", &rates);
    if (st == LUO_OK && slow) st = convert_add(r->job, "events.csv", &events);
    luo_str_free(&rates);
    luo_str_free(&events);
    return st;
}

static luo_status say(recorded *r, const double *rate)
{
    int64_t steps = 1, worst = 0;
    for (int64_t i = 1; i < r->n; i++) steps += r->at[i].step != r->at[i - 1].step;
    for (int64_t i = 1; i < r->dp * r->pp; i++)
        if (rate[i] > rate[worst]) worst = i;
    if (r->others)
        convert_note(r->job, LUO_NOTE,
                     "%lld operations of other tensor ranks are left out; rank 0 stands for them.",
                     (long long)r->others);
    if (r->strange)
        convert_note(r->job, LUO_NOTE, "%lld events are no operations and not used.",
                     (long long)r->strange);
    if (r->negative)
        convert_note(r->job, LUO_WARNING, "%lld durations below 0 count as 0.",
                     (long long)r->negative);
    if (r->dp == 1)
        convert_note(r->job, LUO_NOTE,
                     "with one pipeline no worker has another one of its stage beside it, so all "
                     "rates are 1.");
    return convert_say(
        r->job,
        "%lld operations of %lld step%s: %lld pipeline%s of %lld stage%s, %lld "
        "micro-batch%s; stage %lld of pipeline %lld takes longest beside others, %.3f "
        "times as long",
        (long long)r->n, (long long)steps, steps > 1 ? "s" : "", (long long)r->dp,
        r->dp > 1 ? "s" : "", (long long)r->pp, r->pp > 1 ? "s" : "",
        (long long)count_micro_batches(r), count_micro_batches(r) > 1 ? "es" : "",
        (long long)(worst % r->pp), (long long)(worst / r->pp), rate[worst]);
}

static luo_status make_all(recorded *r)
{
    double *rate = NULL;
    const char *text = r->job->src.text;
    LUO_TRY(read_meta(r));
    LUO_TRY(text[0] == '[' || text[0] == '{' ? read_timeline(r) : read_table(r));
    if (r->n == 0) return convert_error(r->job, 0, 0, "there is no operation in it.");
    LUO_TRY(find_sizes(r));
    LUO_TRY(check_sizes(r));
    qsort(r->at, (size_t)r->n, sizeof *r->at, by_place);
    LUO_TRY(write_recorded(r));
    LUO_TRY(write_plan(r));
    LUO_TRY(find_rates(r, &rate));
    LUO_TRY(write_rates(r, rate));
    return say(r, rate);
}

luo_status convert_stragglers(convert_job *job)
{
    recorded r = {.job = job};
    LUO_TRY(unpack(job));
    const luo_status st = make_all(&r);
    free(r.at);
    free(r.thread);
    return st;
}
