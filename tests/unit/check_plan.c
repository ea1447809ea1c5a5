/* check_plan.c: canonical text and hash (V-P1), reading and writing again, and one row
 * for each finding of luo_plan_check. */
#include "core/base/hash.h"
#include "core/io/document/doc.h"
#include "core/io/read/read.h"
#include "core/io/write_plan.h"
#include "tests/check_main.h"

static luo_arena *arena;
static luo_diags diags;

static void fresh(void)
{
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
}

static luo_plan *read_file(const char *path, const luo_doc **doc)
{
    luo_plan *p = NULL;
    const luo_status st = luo_read_plan(arena, path, &p, doc, &diags);
    ck_assert_msg(st == LUO_OK, "%s: %s", path, diags.first ? diags.first->err.text : "?");
    return p;
}

static const struct {
    const char *path, *hash;
    size_t bytes;
} known[] = {
    {"tests/golden/plans/case-13.json", "863e0d93438341c9", 2076},
    {"tests/golden/plans/smallest.json", "b6caf1c235821968", 661},
};

START_TEST(hash_row) /* V-P1 */
{
    fresh();
    char hash[17];
    luo_str s = {0};
    luo_plan *p = read_file(known[_i].path, NULL);
    luo_plan_canonical(&s, p);
    ck_assert_uint_eq(s.len, known[_i].bytes);
    ck_assert_str_eq(luo_hash_print(luo_plan_hash(p), hash), known[_i].hash);
    ck_assert_uint_eq(luo_hash_bytes(LUO_HASH_EMPTY, s.at, s.len), luo_plan_hash(p));
    const uint64_t before = luo_plan_hash(p);
    p->name = "another";
    p->meta_json = "{\"x\":1}";
    p->pinned = (const char *const[]){"/schedule"};
    p->npinned = 1;
    ck_assert_uint_eq(luo_plan_hash(p), before);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

START_TEST(smallest_is_canonical)
{
    fresh();
    const luo_doc *doc;
    luo_str s = {0};
    luo_plan *p = read_file("tests/golden/plans/smallest.json", &doc);
    luo_plan_canonical(&s, p);
    luo_str_addc(&s, '\n');
    ck_assert_str_eq(s.at, doc->src->text);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

/* A plan that uses every key of the schema. */
static const char everything[] =
    "{\"schema\":\"luoshu.plan/1\",\"name\":\"n\\u00e4me \\\"q\\\"\",\"model\":\"m\","
    "\"cluster\":\"c\",\"layers\":6,\"devices\":9,\"dtype\":\"f64\",\"sequence_tokens\":32,"
    "\"micro_batch_sequences\":2,\"zero\":3,\"sequence_parallel\":true,"
    "\"schedule\":{\"kind\":\"interleaved_1f1b\",\"chunks\":2},\"pipelines\":["
    "{\"micro_batches\":2,\"micro_batch_tokens\":[64,63],\"stages\":["
    "{\"layers\":[[0,2],[3,4]],\"devices\":[3,1,2,0],\"context_parallel\":2,\"shares\":[3,1],"
    "\"context_kind\":\"2d\",\"context_layout\":\"zigzag\",\"context_inner\":2,"
    "\"context_shares\":[2,3],"
    "\"recompute\":{\"mode\":\"full\",\"layers\":[[0,1]]},\"experts\":\"expert\"},"
    "{\"layers\":[[2,3],[4,6]],\"devices\":[4],\"recompute\":{\"mode\":\"selective\"},"
    "\"experts\":\"expert\"}]},"
    "{\"micro_batches\":4,\"micro_batch_sequences\":1,\"stages\":["
    "{\"layers\":[[0,0],[3,3]],\"devices\":[5],\"embedding\":false},"
    "{\"layers\":[[0,3],[3,6]],\"devices\":[7,6],\"embedding\":true,\"head\":true,"
    "\"experts\":\"expert\"}]}],"
    "\"annotations\":[{\"tensor\":\"t\",\"annotation\":\"[0-3]{0:4}\",\"at\":\"op\","
    "\"variant\":\"2d\"},{\"tensor\":\"u\",\"annotation\":\"[0]{}\"}],"
    "\"assignment\":[{\"sequence\":7,\"length_tokens\":5,\"pipeline\":1,\"micro_batch\":3}],"
    "\"expert_groups\":[[0],[1]],\"state_layout\":{\"data\":2,\"tensor\":2,\"pipeline\":1,"
    "\"devices\":[0,1,2,8]},\"pinned\":[\"/pipelines/0/stages/1\",\"\"],"
    "\"meta\":{\"s\":0.25,\"a\":[1,{\"b\":null}]}}";

START_TEST(write_then_read)
{
    fresh();
    const char *path = "build/check_plan.json";
    luo_plan *p = NULL, *q = NULL, *r = NULL;
    luo_err err;
    const luo_source src = {"all.json", everything, sizeof everything - 1};
    const luo_status st = luo_read_plan_text(arena, &src, &p, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    ck_assert_int_eq(luo_write_plan(path, p, &err), LUO_OK);
    q = read_file(path, NULL);
    ck_assert_uint_eq(luo_plan_hash(q), luo_plan_hash(p));
    ck_assert_str_eq(q->name, "n\xc3\xa4me \"q\"");
    ck_assert_str_eq(q->meta_json, "{\"a\":[1,{\"b\":null}],\"s\":0.25}");
    ck_assert_int_eq(q->npinned, 2);
    ck_assert(!q->pipelines[1].stages[0].embedding && q->pipelines[1].stages[1].embedding);
    luo_arena *other = luo_arena_new(0);
    ck_assert_int_eq(luo_plan_copy(other, q, &r, &err), LUO_OK);
    const uint64_t hash = luo_plan_hash(p);
    luo_arena_free(arena);
    ck_assert_uint_eq(luo_plan_hash(r), hash);
    ck_assert_str_eq(r->name, "n\xc3\xa4me \"q\"");
    ck_assert_str_eq(r->meta_json, "{\"a\":[1,{\"b\":null}],\"s\":0.25}");
    ck_assert_int_eq(r->npinned, 2);
    ck_assert_str_eq(r->pinned[0], "/pipelines/0/stages/1");
    ck_assert_str_eq(r->pinned[1], "");
    ck_assert_int_eq(luo_plan_sequences(r), 2 * 2 + 4);
    ck_assert_int_eq(luo_plan_tokens(r), 64 + 63 + 4 * 32);
    luo_arena_free(other);
    remove(path);
}
END_TEST

START_TEST(published_row)
{
    static const int64_t devices[] = {48, 32, 32, 40, 39, 39, 48, 40, 32, 32, 48, 32, 31, 24};
    static const int64_t pipelines[] = {4, 2, 2, 2, 3, 2, 2, 1, 1, 1, 2, 2, 2, 2};
    fresh();
    char path[64];
    snprintf(path, sizeof path, "scenarios/plans/published/plan-%02d.json", _i + 1);
    luo_plan_finding *f;
    int32_t n, *dev;
    const luo_plan *p = read_file(path, NULL);
    ck_assert_int_eq(luo_plan_check(arena, p, NULL, NULL, &f, &n), LUO_OK);
    ck_assert_int_eq(luo_plan_sequences(p), 64);
    ck_assert_int_eq(luo_plan_tokens(p), 64 * 4096);
    ck_assert_int_eq(luo_plan_devices(arena, p, &dev, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, devices[_i]);
    for (int32_t k = 1; k < n; k++) ck_assert_int_lt(dev[k - 1], dev[k]);
    ck_assert_int_eq(p->npipelines, pipelines[_i]);
    ck_assert_int_eq(p->zero, _i < 10);
    luo_arena_free(arena);
}
END_TEST

/* ---- findings: the base plan with one part replaced ---- */

static const char base[] =
    "{\"schema\":\"luoshu.plan/1\",\"layers\":8,\"devices\":8,\"sequence_tokens\":16,\n"
    "\"schedule\":{\"kind\":\"1f1b\",\"chunks\":1},\n"
    "\"pipelines\":[\n"
    "{\"micro_batches\":3,\"stages\":[{\"layers\":[[0,4]],\"devices\":[0,1]},\n"
    " {\"layers\":[[4,8]],\"devices\":[2,3]}]},\n"
    "{\"micro_batches\":3,\"stages\":[{\"layers\":[[0,5]],\"devices\":[4,5]},\n"
    " {\"layers\":[[5,8]],\"devices\":[6,7]}]}]\n"
    "}\n";

static const struct {
    const char *from, *to;
    int line, col;
    const char *says;
} rows[] = {
    {"[[5,8]]", "[[6,8]]", 6, 29, "pipeline 1 holds 7 of 8 layers; layer 5 is in no stage."},
    {"[[5,8]]", "[[5,5]]", 6, 29, "pipeline 1 holds 5 of 8 layers; layers 5 to 7 are in no stage."},
    {"[[4,8]]", "[[3,8]]", 5, 13,
     "layer 3 of pipeline 0 is held twice; each layer stands in one stage."},
    {"[[0,4]]", "[[4,8]]", 5, 13,
     "layer 4 of pipeline 0 is held twice; each layer stands in one stage."},
    {"[[4,8]]", "[[4,9]]", 5, 13,
     "layers [4,9] are no range within 0 to 8; `lo` up to, not including, `hi` is expected."},
    {"\"devices\":[6,7]", "\"devices\":[6,8]", 7, 33,
     "device 8 is not among the 8 devices of the plan; ids are 0 to 7."},
    {"\"devices\":[6,7]", "\"devices\":[6,4]", 7, 33,
     "device 4 is used twice; it already stands in a stage of pipeline 1."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"context_parallel\":3", 5, 55,
     "`context_parallel` is 3; it must divide the 2 devices of the stage."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"embedding\":true", 5, 48,
     "stage 1 has the embedding, but a stage before it holds layers; the embedding comes first."},
    {"\"devices\":[0,1]", "\"devices\":[0,1],\"head\":true", 4, 71,
     "stage 0 has the head, but a stage after it holds layers; the head comes last."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"head\":false", 4, 29,
     "pipeline 0 has 0 stages with `head`; exactly one is expected."},
    {"\"kind\":\"1f1b\",\"chunks\":1", "\"kind\":\"gpipe\",\"chunks\":2", 2, 37,
     "`chunks` is 2 with schedule `gpipe`; more than 1 needs `interleaved_1f1b`."},
    {"\"kind\":\"1f1b\"", "\"kind\":\"interleaved_1f1b\"", 4, 18,
     "interleaved schedule: 3 micro-batches are not a multiple of 2 stages; choose a multiple."},
    {"[[5,8]]", "[[5,6],[6,8]]", 7, 12, "stage 1 has 2 layer ranges; `chunks` 1 asks for as many."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"recompute\":{\"mode\":\"full\",\"layers\":[[3,5]]}",
     5, 73,
     "recompute of layers [3,5] is not within the layers of stage 1; give ranges of this "
     "stage, or none for all of it."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"recompute\":{\"mode\":\"none\",\"layers\":[[4,5]]}",
     5, 72, "recompute `none` has layers; leave them out or choose `selective` or `full`."},
    {"\"devices\":[0,1]", "\"devices\":[0,1],\"recompute\":{\"mode\":\"full\",\"layers\":[[3,5]]}",
     4, 101,
     "recompute of layers [3,5] is not within the layers of stage 0; give ranges of this "
     "stage, or none for all of it."},
    {"\"devices\":[6,7]", "\"devices\":[6,7],\"recompute\":{\"mode\":\"none\",\"layers\":[[5,6]]}",
     7, 72, "recompute `none` has layers; leave them out or choose `selective` or `full`."},
    {"\n}\n", ",\n\"expert_groups\":[[0,1]]}\n", 8, 21,
     "pipelines 0 and 1 share experts but cut the layers differently; equal stage layers are "
     "required."},
    {"\n}\n", ",\n\"expert_groups\":[[0],[0,2]]}\n", 8, 23,
     "pipeline 0 is in two expert groups; one is allowed."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"experts\":\"expert\"", 6, 29,
     "layer 4 has `experts` `tensor` in pipeline 1 and `expert` in pipeline 0; they must agree."},
    {"\n}\n",
     ",\n\"assignment\":[{\"sequence\":0,\"length_tokens\":4,\"pipeline\":2,"
     "\"micro_batch\":0}]}\n",
     8, 58, "pipeline 2 does not exist; pipelines are 0 to 1."},
    {"\n}\n",
     ",\n\"assignment\":[{\"sequence\":0,\"length_tokens\":4,\"pipeline\":1,"
     "\"micro_batch\":3}]}\n",
     8, 74, "micro-batch 3 does not exist in pipeline 1; its ids are 0 to 2."},
    {"\n}\n", ",\n\"state_layout\":{\"data\":2,\"tensor\":2,\"pipeline\":1,\"devices\":[0,1]}}\n",
     8, 16, "state layout 2 x 2 x 1 needs 4 devices; 2 are listed."},
    {"\n}\n", ",\n\"state_layout\":{\"data\":2,\"tensor\":1,\"pipeline\":1,\"devices\":[1,1]}}\n",
     8, 63, "device 1 is listed twice; each device holds one part."},
    {"\n}\n",
     ",\n\"annotations\":[{\"tensor\":\"t\",\"annotation\":\"[0]{}\"},"
     "{\"tensor\":\"t\",\"annotation\":\"[1]{}\"}]}\n",
     8, 52, "tensor `t` is annotated twice at ``; one annotation is allowed."},
    {"\n}\n", ",\n\"annotations\":[{\"tensor\":\"t\",\"annotation\":\"\"}]}\n", 8, 43, NULL},
};

static char *replaced(const char *from, const char *to)
{
    const char *at = strstr(base, from);
    ck_assert_msg(at && !strstr(at + 1, from), "row `%s` must occur once", from);
    return luo_arena_printf(arena, "%.*s%s%s", (int)(at - base), base, to, at + strlen(from));
}

START_TEST(finding_row)
{
    fresh();
    const char *text = replaced(rows[_i].from, rows[_i].to);
    const luo_source src = {"p.json", text, strlen(text)};
    luo_plan *p = NULL;
    luo_plan_finding *f;
    int32_t n;
    luo_doc doc = {.arena = arena, .src = &src, .diags = &diags};
    const luo_status st = luo_read_plan_doc(&doc, &p);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    ck_assert_int_eq(luo_plan_check(arena, p, NULL, NULL, &f, &n), LUO_EINPUT);
    luo_doc_report_plan(&doc, f, n, &diags);
    const luo_diag *d = diags.first;
    while (d && rows[_i].says && strcmp(d->err.text, rows[_i].says) != 0) d = d->next;
    ck_assert_msg(d != NULL, "first finding: %s", diags.first->err.text);
    ck_assert_msg(d->err.line == rows[_i].line && d->err.col == rows[_i].col, "%d:%d %s",
                  d->err.line, d->err.col, d->err.text);
    luo_arena_free(arena);
}
END_TEST

/* ---- against a model and a cluster ---- */

static const luo_model model = {.name = "m",
                                .family = LUO_FAMILY_LLAMA,
                                .layers = 8,
                                .hidden = 96,
                                .ffn_hidden = 40,
                                .heads = 12,
                                .kv_heads = 6,
                                .vocab = 100,
                                .max_sequence_tokens = 16};

static const struct {
    const char *from, *to, *says;
} cuts[] = {
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[3,1]",
     "`shares` [3,1] would cut 6 key-value heads into 4.5 and 1.5; shares must give whole heads."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[2,1]",
     "`shares` [2,1] would cut 40 feed-forward columns into 26.6667 and 13.3333; shares must give "
     "whole columns."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[1021,4]", /* too many to pad */
     "`shares` [1021,4] would cut 100 vocabulary rows into 99.6098 and 0.390244; shares must give "
     "whole rows (pad `vocab`)."},
    {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[4,1]",
     "`shares` [4,1] would cut 12 heads into 9.6 and 2.4; shares must give whole heads."},
    {"\"sequence_tokens\":16", "\"sequence_tokens\":17",
     "`sequence_tokens` is 17; model `m` takes up to 16."},
    {"\"layers\":8", "\"layers\":9", "`layers` is 9; model `m` has 8."},
};

START_TEST(cut_row)
{
    fresh();
    const char *text = replaced(cuts[_i].from, cuts[_i].to);
    const luo_source src = {"p.json", text, strlen(text)};
    luo_plan *p = NULL;
    luo_plan_finding *f;
    int32_t n, k = 0;
    const luo_status st = luo_read_plan_text(arena, &src, &p, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    ck_assert_int_eq(luo_plan_check(arena, p, &model, NULL, &f, &n), LUO_EINPUT);
    while (k < n && strcmp(f[k].text, cuts[_i].says) != 0) k++;
    ck_assert_msg(k < n, "first of %d: %s", n, f[0].text);
    luo_arena_free(arena);
}
END_TEST

static luo_plan *read_text(const char *text)
{
    const luo_source src = {"p.json", text, strlen(text)};
    luo_plan *p = NULL;
    const luo_status st = luo_read_plan_text(arena, &src, &p, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    return p;
}

/* All findings, one a line. */
static const char *findings(const luo_plan *p, const luo_model *m)
{
    luo_plan_finding *f;
    int32_t n;
    const char *all = "";
    const luo_status st = luo_plan_check(arena, p, m, NULL, &f, &n);
    ck_assert_int_eq(st, n ? LUO_EINPUT : LUO_OK);
    for (int32_t k = 0; k < n; k++) all = luo_arena_printf(arena, "%s%s\n", all, f[k].text);
    return all;
}

/* A file may have millions: all are counted, as many as are shown are kept, and the rest of their
 * file is one note. */
START_TEST(many_findings)
{
    luo_str text = {0};
    luo_plan_finding *f;
    int32_t n;
    enum { DEVICES = 3000 };
    fresh();
    luo_str_addf(&text,
                 "{\"schema\":\"luoshu.plan/1\",\"name\":\"p\",\"model\":\"m\",\"cluster\":\"c\","
                 "\"layers\":1,\"devices\":1,\"sequence_tokens\":64,\"micro_batch_sequences\":1,"
                 "\"pipelines\":[{\"micro_batches\":1,\"stages\":[{\"layers\":[[0,1]],"
                 "\"devices\":[0");
    for (int i = 1; i < DEVICES; i++) luo_str_addf(&text, ",%d", i);
    luo_str_addf(&text, "]}]}]}");
    const luo_plan *p = read_text(luo_str_get(&text));
    ck_assert_int_eq(luo_plan_check(arena, p, NULL, NULL, &f, &n), LUO_EINPUT);
    ck_assert_int_eq(n, DEVICES - 1);
    for (int i = 0; i < LUO_DIAGS_MAX; i++)
        ck_assert_str_eq(f[i].pointer,
                         luo_arena_printf(arena, "/pipelines/0/stages/0/devices/%d", i + 1));
    luo_str_free(&text);
    luo_arena_free(arena);
}
END_TEST

/* Forward and backward of the widest product (6 FLOP for each of its weights and tokens), and of
 * attention (10 for each of its columns, tokens and keys), are counted in 63 bits. */
static const struct {
    size_t at;     /* the size that grows */
    int64_t times; /* what of the model it is multiplied by */
    double flop;
} wide[] = {
    {offsetof(luo_model, ffn_hidden), 96, 6},       {offsetof(luo_model, vocab), 96, 6},
    {offsetof(luo_model, classes), 96, 6},          {offsetof(luo_model, moe.experts), 96, 6},
    {offsetof(luo_model, head_dim), 12 * 96, 6}, /* of 12 heads */
    {offsetof(luo_model, head_dim), 12 * 4096, 10},
};

START_TEST(operations_too_large)
{
    fresh();
    luo_plan *p = read_text(base);
    if (wide[_i].flop > 6) p->sequence_tokens = 4096;
    const double each = wide[_i].flop * (double)(luo_plan_tokens(p) * wide[_i].times);
    for (int over = 0; over < 2; over++) {
        luo_model m = model;
        m.max_sequence_tokens = 4096;
        *(int64_t *)(void *)((char *)&m + wide[_i].at) =
            (int64_t)((over ? 1.0001 : 0.9999) * 9e18 / each);
        const char *all = findings(p, &m);
        ck_assert_msg(!strstr(all, "an operation of model `m` on a step of this plan has 9e+18 "
                                   "FLOP; up to 9e18 are taken.\n") == !over,
                      "%d: %s", over, all);
    }
    luo_arena_free(arena);
}
END_TEST

/* A stage is asked to cut what it holds and nothing else: stages of two devices (the last of
 * pipeline 0), of models none of whose sizes can be cut in two. */
#define HEADS "tensor parallelism of 2 would cut 3 heads into 1.5 each; it must give whole heads.\n"
#define COLUMNS                                                                                    \
    "tensor parallelism of 2 would cut 5 feed-forward columns into 2.5 each; it must give whole "  \
    "columns.\n"
#define EXPERTS "1 experts cannot be dealt to 2 devices; use experts: tensor or fewer devices.\n"
#define EXPERT_COLUMNS                                                                             \
    "tensor parallelism of 2 would cut 9 expert columns into 4.5 each; it must give whole "        \
    "columns.\n"
static const struct {
    const char *stages; /* of the only pipeline */
    bool experts;       /* has the model any? */
    int32_t vocab;
    const char *says;
} held[] = {
    {"{\"layers\":[[0,4]],\"devices\":[0]},{\"layers\":[[4,6]],\"devices\":[1,2]},"
     "{\"layers\":[[6,8]],\"devices\":[3]}",
     false, 11, HEADS COLUMNS},
    {"{\"layers\":[[0,4]],\"devices\":[0]},{\"layers\":[[4,8]],\"devices\":[1,2]}", false, 11,
     HEADS COLUMNS},
    {"{\"layers\":[[0,4]],\"devices\":[1,2]},{\"layers\":[[4,8]],\"devices\":[0]}", false, 11,
     HEADS COLUMNS},
    {"{\"layers\":[[0,4]],\"devices\":[1,2]},{\"layers\":[[4,8]],\"devices\":[0]}", false, 0,
     HEADS COLUMNS},
    {"{\"layers\":[[0,8]],\"devices\":[0]},{\"layers\":[[8,8]],\"devices\":[1,2]}", false, 11, ""},
    {"{\"layers\":[[0,4]],\"devices\":[1,2]},{\"layers\":[[4,8]],\"devices\":[0]}", true, 0,
     HEADS COLUMNS EXPERT_COLUMNS},
    {"{\"layers\":[[0,4]],\"devices\":[1,2],\"experts\":\"expert\"},"
     "{\"layers\":[[4,8]],\"devices\":[0],\"experts\":\"expert\"}",
     true, 0, HEADS COLUMNS EXPERTS},
    {"{\"layers\":[[0,8]],\"devices\":[0]},{\"layers\":[[8,8]],\"devices\":[1,2]}", true, 0, ""},
    {"{\"layers\":[[0,8]],\"devices\":[0],\"experts\":\"expert\"},"
     "{\"layers\":[[8,8]],\"devices\":[1,2],\"experts\":\"expert\"}",
     true, 0, ""},
    {"{\"layers\":[[0,4]],\"devices\":[0],\"experts\":\"expert\"},"
     "{\"layers\":[[4,8]],\"devices\":[3],\"experts\":\"expert\"}",
     false, 0,
     "`experts` is `expert`, but model `m` has no experts; leave it out.\n"
     "`experts` is `expert`, but model `m` has no experts; leave it out.\n"},
};

START_TEST(held_row)
{
    luo_model m = model;
    m.heads = m.kv_heads = 3;
    m.ffn_hidden = 5;
    m.vocab = held[_i].vocab;
    if (held[_i].experts)
        m.moe = (luo_moe){
            .experts = 1, .experts_per_token = 1, .expert_ffn_hidden = 9, .every_layers = 1};
    fresh();
    const luo_plan *p = read_text(luo_arena_printf(
        arena,
        "{\"schema\":\"luoshu.plan/1\",\"layers\":8,\"devices\":8,\"sequence_tokens\":16,"
        "\"schedule\":{\"kind\":\"1f1b\",\"chunks\":1},"
        "\"pipelines\":[{\"micro_batches\":3,\"stages\":[%s]}]}",
        held[_i].stages));
    ck_assert_str_eq(findings(p, &m), held[_i].says);
    luo_arena_free(arena);
}
END_TEST

/* Pipelines that cut the layers differently agree layer by layer, and the first that does not is
 * named; one that a pipeline does not hold is another finding. Per pipeline: two stages. */
static const struct {
    int border[2], end[2];
    const char *experts[2][2], *says;
} agreed[] = {
    {{4, 5}, {8, 8}, {{"tensor", "tensor"}, {"tensor", "tensor"}}, ""},
    {{4, 5}, {8, 8}, {{"expert", "expert"}, {"expert", "expert"}}, ""},
    {{4, 4}, {8, 8}, {{"expert", "tensor"}, {"expert", "tensor"}}, ""},
    {{4, 4}, {8, 8}, {{"tensor", "expert"}, {"tensor", "expert"}}, ""},
    {{4, 5},
     {8, 8},
     {{"tensor", "expert"}, {"tensor", "expert"}},
     "layer 4 has `experts` `tensor` in pipeline 1 and `expert` in pipeline 0; they must agree.\n"},
    {{5, 4},
     {8, 8},
     {{"tensor", "expert"}, {"tensor", "expert"}},
     "layer 4 has `experts` `expert` in pipeline 1 and `tensor` in pipeline 0; they must agree.\n"},
    {{4, 4},
     {8, 8},
     {{"expert", "tensor"}, {"tensor", "tensor"}},
     "layer 0 has `experts` `tensor` in pipeline 1 and `expert` in pipeline 0; they must agree.\n"},
    {{7, 7},
     {8, 8},
     {{"tensor", "tensor"}, {"tensor", "expert"}},
     "layer 7 has `experts` `expert` in pipeline 1 and `tensor` in pipeline 0; they must agree.\n"},
    {{4, 4},
     {8, 7},
     {{"expert", "expert"}, {"expert", "expert"}},
     "pipeline 1 holds 7 of 8 layers; layer 7 is in no stage.\n"},
    {{4, 4},
     {7, 8},
     {{"expert", "expert"}, {"expert", "expert"}},
     "pipeline 0 holds 7 of 8 layers; layer 7 is in no stage.\n"},
};

START_TEST(agreed_row)
{
    const char *pipelines = "";
    fresh();
    for (int i = 0; i < 2; i++)
        pipelines = luo_arena_printf(arena,
                                     "%s%s{\"micro_batches\":3,\"stages\":["
                                     "{\"layers\":[[0,%d]],\"devices\":[%d],\"experts\":\"%s\"},"
                                     "{\"layers\":[[%d,%d]],\"devices\":[%d],\"experts\":\"%s\"}]}",
                                     pipelines, i ? "," : "", agreed[_i].border[i], 2 * i,
                                     agreed[_i].experts[i][0], agreed[_i].border[i],
                                     agreed[_i].end[i], 2 * i + 1, agreed[_i].experts[i][1]);
    const luo_plan *p = read_text(luo_arena_printf(
        arena,
        "{\"schema\":\"luoshu.plan/1\",\"layers\":8,\"devices\":8,\"sequence_tokens\":16,"
        "\"schedule\":{\"kind\":\"1f1b\",\"chunks\":1},\"pipelines\":[%s]}",
        pipelines));
    ck_assert_str_eq(findings(p, NULL), agreed[_i].says);
    luo_arena_free(arena);
}
END_TEST

START_TEST(good_base)
{
    fresh();
    const luo_source src = {"p.json", base, sizeof base - 1};
    luo_plan *p = NULL;
    luo_plan_finding *f;
    int32_t n;
    ck_assert_int_eq(luo_read_plan_text(arena, &src, &p, &diags), LUO_OK);
    ck_assert_int_eq(luo_plan_check(arena, p, &model, NULL, &f, &n), LUO_OK);
    ck_assert_int_eq(n, 0);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("plan.plan", LUO_T_N(hash_row, LUO_ROWS(known)), LUO_T(smallest_is_canonical),
          LUO_T(write_then_read), LUO_T_N(published_row, 14), LUO_T_N(finding_row, LUO_ROWS(rows)),
          LUO_T_N(cut_row, LUO_ROWS(cuts)), LUO_T_N(operations_too_large, LUO_ROWS(wide)),
          LUO_T_N(held_row, LUO_ROWS(held)), LUO_T_N(agreed_row, LUO_ROWS(agreed)),
          LUO_T(good_base), LUO_T(many_findings))
