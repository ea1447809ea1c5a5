/* check_data.c: batches against a twin that holds the whole corpus as arrays. */
#include <unistd.h>

#include "exec/data/batch.h"
#include "exec/data/data_internal.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

enum { RING_MAX = 1 << 16 };

static char path[64];

/* Also where the test that wrote it does not come to its end. */
static void remove_file(void)
{
    unlink(path);
}

static const char *put_file(const char *end, const void *bytes, size_t n)
{
    if (path[0] == 0) atexit(remove_file);
    remove_file();
    snprintf(path, sizeof path, "build/check_data.%ld%s", (long)getpid(), end);
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    return path;
}

/* ---- the twin ---- */

typedef struct ring {
    int64_t n;
    int32_t id[RING_MAX];
    bool begins[RING_MAX];
} ring;

/* Lines one after another; one that holds nothing ends the document before the next that does. */
static void ring_of_text(ring *r, const char *text)
{
    bool fresh = true;
    r->n = 0;
    while (*text) {
        const char *end = strchr(text, '\n');
        const size_t line = end ? (size_t)(end - text) + 1 : strlen(text);
        const bool empty = end && (line == 1 || (line == 2 && text[0] == '\r'));
        for (size_t i = 0; i < line; i++) {
            r->id[r->n] = (unsigned char)text[i];
            r->begins[r->n] = r->n == 0 || (i == 0 && fresh && !empty);
            r->n++;
        }
        if (!empty) fresh = false;
        if (empty) fresh = true;
        text += line;
    }
}

/* v: entries; mark: the end of a document. */
static void ring_of_entries(ring *r, const uint32_t *v, int64_t n, uint32_t mark)
{
    bool fresh = true;
    r->n = 0;
    for (int64_t i = 0; i < n; i++) {
        if (v[i] != mark) {
            r->id[r->n] = (int32_t)v[i];
            r->begins[r->n++] = fresh;
        }
        fresh = v[i] == mark;
    }
}

typedef struct twin_batch {
    int32_t n, docs;
    int32_t id[RING_MAX], label[RING_MAX], position[RING_MAX], start[RING_MAX];
} twin_batch;

static void twin_row(const ring *r, int64_t from, int64_t tokens, int64_t longest, twin_batch *b)
{
    for (int64_t j = 0; j < tokens; j++) {
        const int64_t at = (from + j) % r->n;
        bool begins = j == 0 || r->begins[at];
        if (!begins && b->n - b->start[b->docs - 1] == longest) begins = true;
        if (begins) b->start[b->docs++] = b->n;
        b->id[b->n++] = r->id[at];
    }
}

static void twin_finish(twin_batch *b)
{
    b->start[b->docs] = b->n;
    for (int32_t d = 0; d < b->docs; d++)
        for (int32_t i = b->start[d]; i < b->start[d + 1]; i++) {
            b->position[i] = i - b->start[d];
            b->label[i] = i + 1 < b->start[d + 1] ? b->id[i + 1] : -1;
        }
}

/* Counts rows and pieces from step 0 on, one by one. */
static void twin_fill(const ring *r, uint64_t seed, const luo_batch_shape *shape, int64_t step,
                      int32_t pipeline, int32_t micro_batch, twin_batch *b)
{
    int64_t row = 0, at = 0;
    const int64_t T = shape->row_tokens, n = r->n / T;
    b->n = b->docs = 0;
    for (int64_t s = 0; s <= step; s++)
        for (int32_t i = 0; i < shape->npipelines; i++)
            for (int32_t k = 0; k < shape->nmicro[i]; k++) {
                const bool me = s == step && i == pipeline && k == micro_batch;
                const int64_t t = shape->tokens[i][k];
                if (t % T) {
                    if (me) twin_row(r, at, t, T, b);
                    at = (at + t) % r->n;
                    continue;
                }
                for (int64_t left = t / T; left > 0; left--, row++) {
                    const int64_t from = n ? T * luo_corpus_shuffled(seed, n, row) : 0;
                    if (me) twin_row(r, from, T, T, b);
                }
            }
    twin_finish(b);
}

/* ---- shapes ---- */

typedef struct shape_maker {
    int32_t nmicro[8];
    int64_t tokens[8][16];
    const int64_t *at[8];
    luo_batch_shape shape;
} shape_maker;

static const luo_batch_shape *finish_shape(shape_maker *m, int32_t npipelines, int64_t row)
{
    int64_t total = 0;
    for (int32_t i = 0; i < npipelines; i++) {
        m->at[i] = m->tokens[i];
        for (int32_t k = 0; k < m->nmicro[i]; k++) total += m->tokens[i][k];
    }
    m->shape = (luo_batch_shape){.npipelines = npipelines,
                                 .nmicro = m->nmicro,
                                 .tokens = m->at,
                                 .row_tokens = row,
                                 .total_tokens = total};
    return &m->shape;
}

static const luo_batch_shape *draw_shape(shape_maker *m, luo_rng *rng, int64_t row)
{
    const int32_t n = 1 + (int32_t)luo_rng_pick(rng, 4);
    const bool odd = luo_rng_pick(rng, 2);
    for (int32_t i = 0; i < n; i++) {
        m->nmicro[i] = 1 + (int32_t)luo_rng_pick(rng, 4);
        for (int32_t k = 0; k < m->nmicro[i]; k++)
            m->tokens[i][k] = odd && luo_rng_pick(rng, 2) ? luo_rng_pick(rng, 3 * row)
                                                          : row * (1 + luo_rng_pick(rng, 3));
    }
    return finish_shape(m, n, row);
}

/* ---- batches equal the twin's ---- */

static void same_batch(const luo_micro_batch *b, const twin_batch *t)
{
    const size_t bytes = (size_t)t->n * sizeof(int32_t);
    ck_assert_int_eq(b->tokens, t->n);
    ck_assert_int_eq(b->docs.n, t->docs);
    ck_assert_mem_eq(b->ids, t->id, bytes);
    ck_assert_mem_eq(b->labels, t->label, bytes);
    ck_assert_mem_eq(b->positions, t->position, bytes);
    ck_assert_mem_eq(b->docs.start, t->start, (size_t)(t->docs + 1) * sizeof(int32_t));
}

static void check_step(const luo_corpus *c, const ring *r, uint64_t seed,
                       const luo_batch_shape *shape, int64_t step)
{
    static twin_batch want;
    static int32_t memory[4 * RING_MAX + 1];
    int64_t targets = 0;
    for (int32_t i = 0; i < shape->npipelines; i++)
        for (int32_t k = 0; k < shape->nmicro[i]; k++) {
            luo_micro_batch got;
            const size_t bytes = luo_batch_bytes(shape, shape->tokens[i][k]);
            ((char *)memory)[bytes] = 77;
            luo_batch_fill(c, shape, step, i, k, memory, &got);
            ck_assert_int_eq(((char *)memory)[bytes], 77);
            twin_fill(r, seed, shape, step, i, k, &want);
            same_batch(&got, &want);
            for (int32_t j = 0; j < want.n; j++) targets += want.label[j] >= 0;
        }
    ck_assert_int_eq(luo_batch_targets(c, shape, step), targets);
}

static const char *draw_text(luo_rng *rng, ring *r)
{
    static char text[RING_MAX / 16 + 1];
    static const char some[] = "ab\n\n\n\r\xff";
    const int64_t n = 1 + luo_rng_pick(rng, RING_MAX / 16);
    for (int64_t i = 0; i < n; i++) text[i] = some[luo_rng_pick(rng, sizeof some - 1)];
    text[n] = 0;
    ring_of_text(r, text);
    return put_file(".txt", text, (size_t)n);
}

static const char *draw_entries(luo_rng *rng, ring *r, bool wide)
{
    static uint32_t v[RING_MAX];
    static unsigned char bytes[4 * RING_MAX];
    const int64_t n = 1 + luo_rng_pick(rng, RING_MAX / 8), ends = 1 + luo_rng_pick(rng, 40);
    const uint32_t mark = wide ? UINT32_MAX : UINT16_MAX;
    for (int64_t i = 0; i < n; i++) {
        v[i] = luo_rng_pick(rng, ends) == 0 ? mark : (uint32_t)luo_rng_pick(rng, 60000);
        for (int j = 0; j < (wide ? 4 : 2); j++)
            bytes[i * (wide ? 4 : 2) + j] = (unsigned char)(v[i] >> 8 * j);
    }
    ring_of_entries(r, v, n, mark);
    return put_file(wide ? ".u32" : ".u16", bytes, (size_t)n * (wide ? 4 : 2));
}

START_TEST(like_the_twin)
{
    static ring r;
    int empty = 0;
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_corpus *c;
        shape_maker m;
        luo_err err;
        const int64_t kind = luo_rng_pick(&rng, 3);
        const char *file = kind == 0 ? draw_text(&rng, &r) : draw_entries(&rng, &r, kind == 2);
        const luo_batch_shape *shape = draw_shape(&m, &rng, 1 + luo_rng_pick(&rng, 90));
        if (r.n == 0) {
            empty++;
            ck_assert_int_eq(luo_corpus_open(file, 60000, seed, &c, &err), LUO_EINPUT);
            continue;
        }
        ck_assert_int_eq(luo_corpus_open(file, 60000, seed, &c, &err), LUO_OK);
        for (int64_t step = 0; step < 3; step++) check_step(c, &r, seed, shape, step);
        check_step(c, &r, seed, shape, 3 + luo_rng_pick(&rng, 100));
        luo_corpus_close(c);
    }
    unlink(path);
    printf("%d files of end marks only\n", empty);
}
END_TEST

/* ---- order ---- */

START_TEST(shuffle_is_a_permutation)
{
    const int64_t n = _i < 70 ? _i + 1 : (int64_t)1000 * (_i - 69) + 7;
    bool *seen = calloc((size_t)n, 1);
    int64_t same = 0;
    ck_assert(seen != NULL);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        memset(seen, 0, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t r = luo_corpus_shuffled(5, n, epoch * n + i);
            ck_assert(r >= 0 && r < n && !seen[r]);
            seen[r] = true;
            same += r == luo_corpus_shuffled(5, n, (epoch + 1) * n + i);
        }
    }
    if (n > 1000) ck_assert_int_lt(same, n / 50); /* another epoch, another order */
    free(seen);
}
END_TEST

/* Tokens 0, 1, 2 ..: a row tells where it is from. */
static luo_corpus *counting_corpus(int64_t n, uint64_t seed)
{
    static unsigned char bytes[4 * RING_MAX];
    luo_corpus *c;
    luo_err err;
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < 4; j++) bytes[4 * i + j] = (unsigned char)(i >> 8 * j);
    ck_assert_int_eq(luo_corpus_open(put_file(".u32", bytes, (size_t)(4 * n)), n, seed, &c, &err),
                     LUO_OK);
    unlink(path);
    return c;
}

START_TEST(each_row_once_an_epoch)
{
    enum { T = 10, ROWS = 60 };
    luo_corpus *c = counting_corpus(T * ROWS + 3, 9);
    shape_maker m = {.nmicro = {2, 1}, .tokens = {{T, 2 * T}, {T}}};
    const luo_batch_shape *shape = finish_shape(&m, 2, T);
    int32_t memory[4 * 2 * T + 1];
    for (int64_t step = 0; step < 30;) {
        int seen[ROWS] = {0};
        for (int64_t epoch_end = step + ROWS / 4; step < epoch_end; step++)
            for (int32_t i = 0; i < 2; i++)
                for (int32_t k = 0; k < m.nmicro[i]; k++) {
                    luo_micro_batch b;
                    luo_batch_fill(c, shape, step, i, k, memory, &b);
                    for (int64_t j = 0; j < b.tokens; j += T) seen[b.ids[j] / T]++;
                }
        for (int r = 0; r < ROWS; r++) ck_assert_int_eq(seen[r], 1);
    }
    luo_corpus_close(c);
}
END_TEST

static int64_t whole_step(const luo_corpus *c, const luo_batch_shape *shape, int64_t step,
                          int32_t *ids, int32_t *labels)
{
    static int32_t memory[4 * RING_MAX + 1];
    int64_t n = 0;
    for (int32_t i = 0; i < shape->npipelines; i++)
        for (int32_t k = 0; k < shape->nmicro[i]; k++) {
            luo_micro_batch b;
            luo_batch_fill(c, shape, step, i, k, memory, &b);
            memcpy(ids + n, b.ids, (size_t)b.tokens * sizeof *ids);
            memcpy(labels + n, b.labels, (size_t)b.tokens * sizeof *labels);
            n += b.tokens;
        }
    return n;
}

/* The same twelve rows dealt in five ways. */
START_TEST(plans_share_the_order)
{
    enum { T = 40, ROWS = 12 };
    static const struct {
        int32_t pipelines, nmicro[4];
        int rows[4][12];
    } deals[] = {{1, {12}, {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}},
                 {2, {6, 6}, {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}}},
                 {3, {3, 2, 2}, {{1, 1, 3}, {2, 2}, {1, 2}}},
                 {1, {1}, {{12}}},
                 {4, {1, 2, 1, 4}, {{4}, {2, 1}, {1}, {1, 1, 1, 1}}}};
    static int32_t ids[2][ROWS * T], labels[2][ROWS * T];
    luo_corpus *c;
    luo_err err;
    ck_assert_int_eq(luo_corpus_open(NULL, 300, 4, &c, &err), LUO_OK);
    for (int d = 0; d < LUO_ROWS(deals); d++) {
        shape_maker m;
        for (int32_t i = 0; i < deals[d].pipelines; i++) {
            m.nmicro[i] = deals[d].nmicro[i];
            for (int32_t k = 0; k < m.nmicro[i]; k++) m.tokens[i][k] = T * deals[d].rows[i][k];
        }
        const luo_batch_shape *shape = finish_shape(&m, deals[d].pipelines, T);
        ck_assert_int_eq(whole_step(c, shape, 7, ids[d > 0], labels[d > 0]), ROWS * T);
        ck_assert_mem_eq(ids[0], ids[d > 0], sizeof ids[0]);
        ck_assert_mem_eq(labels[0], labels[d > 0], sizeof labels[0]);
    }
    luo_corpus_close(c);
}
END_TEST

/* ---- synthetic tokens ---- */

START_TEST(synthetic_from_anywhere)
{
    enum { N = 20000 };
    static int32_t id[N];
    static bool begins[N];
    luo_corpus *c;
    luo_corpus_at at;
    luo_err err;
    ck_assert_int_eq(luo_corpus_open(NULL, 1000, 3, &c, &err), LUO_OK);
    ck_assert_str_eq(luo_corpus_name(c), "synthetic");
    luo_corpus_seek(&at, c, 0);
    for (int i = 0; i < N; i++) id[i] = luo_corpus_next(&at, &begins[i]);
    luo_rng rng = luo_rng_seed(1);
    for (int k = 0; k < 300; k++) {
        const int64_t from = luo_rng_pick(&rng, N - 2000);
        luo_corpus_seek(&at, c, from);
        for (int64_t i = from; i < from + 2000; i++) {
            bool b;
            ck_assert_int_eq(luo_corpus_next(&at, &b), id[i]);
            ck_assert_int_eq(b, begins[i]);
        }
    }
    luo_corpus_close(c);
}
END_TEST

/* In most documents some distance predicts at least four tokens of five; ids lie in all quarters
 * of the vocabulary, and lengths differ. */
START_TEST(synthetic_can_be_learnt)
{
    static const int64_t vocabs[] = {1, 2, 17, 256, 1000, 32000};
    enum { N = 30000 };
    static int32_t id[N];
    const int64_t vocab = vocabs[_i];
    int64_t documents = 0, good = 0, quarter[4] = {0}, shortest = N, longest = 0;
    luo_corpus *c;
    luo_corpus_at at;
    luo_err err;
    bool begins;
    ck_assert_int_eq(luo_corpus_open(NULL, vocab, 3, &c, &err), LUO_OK);
    luo_corpus_seek(&at, c, 0);
    for (int64_t i = 0, n = 0; i < N; i++, n++) {
        const int32_t v = luo_corpus_next(&at, &begins);
        ck_assert(v >= 0 && v < vocab);
        quarter[4 * v / vocab]++;
        if (begins && n > 24) {
            int64_t best = 0;
            for (int64_t d = 3; d <= 12; d++) {
                int64_t hits = 0;
                for (int64_t j = d; j < n; j++) hits += id[j] == id[j - d];
                if (10 * hits >= 8 * (n - d)) best = d;
            }
            documents++;
            good += best > 0;
            if (n < shortest) shortest = n;
            if (n > longest) longest = n;
        }
        if (begins) n = 0;
        id[n] = v;
    }
    ck_assert_int_gt(10 * good, 8 * documents);
    ck_assert(documents > 100 && shortest < 40 && longest > 500);
    for (int q = 0; q < 4 && vocab >= 4; q++) ck_assert_int_gt(quarter[q], N / 8);
    luo_corpus_close(c);
}
END_TEST

START_TEST(seeds_differ)
{
    luo_corpus *c[2];
    luo_corpus_at at[2];
    luo_err err;
    bool begins;
    int same = 0;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(luo_corpus_open(NULL, 256, (uint64_t)i, &c[i], &err), LUO_OK);
        luo_corpus_seek(&at[i], c[i], 0);
    }
    for (int i = 0; i < 1000; i++)
        same += luo_corpus_next(&at[0], &begins) == luo_corpus_next(&at[1], &begins);
    ck_assert_int_lt(same, 100);
    for (int i = 0; i < 2; i++) luo_corpus_close(c[i]);
}
END_TEST

/* ---- dump ---- */

START_TEST(dump_golden)
{
    luo_corpus *c;
    luo_err err;
    luo_str text = {0};
    shape_maker m = {.nmicro = {1, 1}, .tokens = {{8}, {3}}};
    const luo_batch_shape *shape = finish_shape(&m, 2, 8);
    ck_assert_int_eq(luo_corpus_open(put_file(".txt", "ab\n\ncdef", 8), 256, 0, &c, &err), LUO_OK);
    ck_assert_int_eq(luo_batch_dump(c, shape, 1, &text), LUO_OK);
    ck_assert_str_eq(text.at, "{\"step\":1,\"micro_batch\":0,\"replica\":0,"
                              "\"ids\":[97,98,10,10,99,100,101,102],\"document_starts\":[0,4],"
                              "\"pads\":0}\n"
                              "{\"step\":1,\"micro_batch\":0,\"replica\":1,"
                              "\"ids\":[10,99,100],\"document_starts\":[0,1],\"pads\":0}\n");
    luo_str_free(&text);
    luo_corpus_close(c);
    unlink(path);
}
END_TEST

/* ---- shapes of plans ---- */

START_TEST(shape_of_a_plan)
{
    luo_arena *arena = luo_arena_new(0);
    luo_plan *p = luo_test_plan(arena, "2: [0]*2 || 3: [1]*2");
    luo_pipeline *pipes = (luo_pipeline *)p->pipelines;
    static const int64_t own[2] = {100, 4096};
    static const luo_assignment given[3] = {{0, 70, 1, 2}, {1, 30, 1, 2}, {2, 5, 1, 0}};
    luo_batch_shape s;
    luo_err err;
    pipes[0].micro_batch_tokens = own;
    pipes[1].micro_batch_sequences = 2;
    p->assignment = given;
    p->nassignment = 3;
    ck_assert_int_eq(luo_batch_shape_of(arena, p, true, 0, &s, &err), LUO_OK);
    ck_assert(s.npipelines == 2 && s.nmicro[0] == 2 && s.nmicro[1] == 3 && s.row_tokens == 4096);
    ck_assert(s.tokens[0][0] == 100 && s.tokens[0][1] == 4096);
    ck_assert(s.tokens[1][0] == 5 && s.tokens[1][1] == 8192 && s.tokens[1][2] == 100);
    ck_assert_int_eq(s.total_tokens, 100 + 4096 + 5 + 8192 + 100);
    ck_assert_int_eq(luo_batch_shape_of(arena, p, true, 16, &s, &err), LUO_OK);
    ck_assert(s.row_tokens == 16 && s.tokens[1][1] == 32 && s.tokens[0][0] == 100);
    ck_assert_int_eq(luo_batch_shape_of(arena, p, true, INT64_C(1) << 30, &s, &err), LUO_E2BIG);
    ck_assert_str_eq(err.text, "micro-batch 1 of pipeline 1 has 2147483648 tokens; below 2^31 are "
                               "expected.");
    luo_arena_free(arena);
}
END_TEST

/* ---- assigned sequences ---- */

typedef struct packing { /* of sequences into micro-batches of two pipelines */
    luo_plan *plan;
    luo_pipeline *pipes;
    luo_assignment at[24];
    int64_t tokens[2][3];
} packing;

/* pads: tokens behind the sequences of each micro-batch, at most. */
static const luo_plan *draw_packing(luo_arena *arena, luo_rng *rng, packing *p,
                                    const int64_t *length, int32_t n, int64_t pads)
{
    p->plan = luo_test_plan(arena, "3: [0]*2 || 3: [1]*2");
    p->pipes = (luo_pipeline *)p->plan->pipelines;
    p->plan->sequence_tokens = 16;
    memset(p->tokens, 0, sizeof p->tokens);
    for (int32_t k = 0; k < n; k++) {
        const int32_t i = (int32_t)luo_rng_pick(rng, 2), m = (int32_t)luo_rng_pick(rng, 3);
        p->at[k] = (luo_assignment){100 - k, length[k], i, m};
        p->tokens[i][m] += length[k];
    }
    for (int32_t i = 0; i < 2; i++) {
        for (int32_t m = 0; m < 3; m++)
            p->tokens[i][m] += p->tokens[i][m] ? luo_rng_pick(rng, pads + 1) : 16;
        p->pipes[i].micro_batch_tokens = p->tokens[i];
    }
    p->plan->assignment = p->at;
    p->plan->nassignment = n;
    return p->plan;
}

/* Sequences of random packings are runs of one ring in the order of their numbers, whatever is
 * beside them: one document each, cut at a row's length, with pads as documents behind them. */
START_TEST(assigned_sequences)
{
    enum { N = 24, RING = 3001 };
    luo_arena *arena = luo_arena_new(0);
    luo_corpus *c = counting_corpus(RING, 3);
    int pads = 0, cut = 0;
    LUO_PROP_FOR(seed, 100)
    {
        luo_rng rng = luo_rng_seed(seed);
        int64_t length[N], all = 0, want = 0, seen = 0;
        const int32_t n = 1 + (int32_t)luo_rng_pick(&rng, N);
        const int64_t step = luo_rng_pick(&rng, 1000);
        for (int32_t k = 0; k < n; k++) {
            length[k] = 1 + luo_rng_pick(&rng, 20);
            all += length[k];
            want += length[k] - (length[k] + 15) / 16;
        }
        packing p;
        luo_batch_shape s;
        luo_err err;
        const luo_plan *plan = draw_packing(arena, &rng, &p, length, n, 20);
        ck_assert_int_eq(luo_batch_shape_of(arena, plan, true, 0, &s, &err), LUO_OK);
        ck_assert_int_eq(s.assigned_tokens, all);
        for (int32_t i = 0; i < 2; i++)
            for (int32_t m = 0; m < 3; m++) {
                static int32_t memory[4 * RING_MAX + 1];
                luo_micro_batch b;
                int64_t at = 0;
                int32_t doc = 0;
                luo_batch_fill(c, &s, step, i, m, memory, &b);
                ck_assert_int_eq(b.tokens, p.tokens[i][m]);
                for (int32_t k = n; k-- > 0;) { /* numbers fall with k */
                    if (p.at[k].pipeline != i || p.at[k].micro_batch != m) continue;
                    int64_t before = step * all;
                    for (int32_t j = k + 1; j < n; j++) before += length[j];
                    cut += length[k] > 16;
                    for (int64_t j = 0; j < length[k]; j++, at++) {
                        const bool last = j == length[k] - 1 || j == 15;
                        ck_assert_int_eq(b.ids[at], (before + j) % RING);
                        ck_assert_int_eq(b.positions[at], j % 16);
                        if (j % 16 == 0) ck_assert_int_eq(b.docs.start[doc++], at);
                        ck_assert_int_eq(b.labels[at], last ? -1 : (before + j + 1) % RING);
                    }
                    seen++;
                }
                if (at == 0) continue; /* rows of the corpus */
                pads += at < b.tokens;
                for (int64_t j = 0; at < b.tokens; j++, at++) {
                    if (j % 16 == 0) ck_assert_int_eq(b.docs.start[doc++], at);
                    ck_assert(b.ids[at] == 0 && b.labels[at] == -1 && b.positions[at] == j % 16);
                }
                ck_assert_int_eq(b.docs.n, doc);
                ck_assert_int_eq(b.docs.start[doc], b.tokens);
            }
        ck_assert_int_eq(seen, n);
        int64_t others = 0; /* micro-batches without sequences are one row */
        for (int32_t i = 0; i < 2; i++)
            for (int32_t m = 0; m < 3; m++)
                others += s.first_sequence[i][m] == s.first_sequence[i][m + 1];
        ck_assert_int_eq(luo_batch_targets(c, &s, step), want + others * 15);
    }
    printf("%d micro-batches with pads, %d sequences longer than a row\n", pads, cut);
    luo_corpus_close(c);
    luo_arena_free(arena);
}
END_TEST

/* Sequences of a part of a step lie where the whole step has them, and its targets are those of the
 * step; without a part the plan's own count again. */
START_TEST(parts_of_a_step)
{
    enum { N = 24, RING = 3001 };
    luo_arena *arena = luo_arena_new(0);
    luo_corpus *c = counting_corpus(RING, 3);
    int some = 0;
    LUO_PROP_FOR(seed, 100)
    {
        luo_rng rng = luo_rng_seed(seed);
        int64_t length[N], own[N], before = 0, targets = 0, all = 0;
        int32_t number[N], n = 0;
        const int64_t step = luo_rng_pick(&rng, 1000);
        for (int32_t k = 0; k < N; k++) {
            length[k] = 1 + luo_rng_pick(&rng, 20);
            all += length[k];
            targets += length[k] - (length[k] + 15) / 16;
            if (luo_rng_pick(&rng, 3)) continue;
            number[n] = k;
            own[n++] = length[k];
        }
        if (n == 0) continue;
        packing p;
        luo_batch_shape s;
        luo_err err;
        const luo_plan *plan = draw_packing(arena, &rng, &p, own, n, 0);
        for (int32_t k = 0; k < n; k++) p.at[k].sequence = number[k];
        ck_assert_int_eq(luo_batch_shape_of(arena, plan, true, 0, &s, &err), LUO_OK);
        const int64_t alone = luo_batch_targets(c, &s, step);
        ck_assert_int_eq(luo_batch_place(arena, &s, length, N, &err), LUO_OK);
        ck_assert_int_eq(luo_batch_targets(c, &s, step), targets);
        for (int32_t k = 0; k < n; k++) {
            static int32_t memory[4 * RING_MAX + 1];
            luo_micro_batch b;
            int64_t at = 0;
            for (int32_t j = 0; j < k; j++)
                if (p.at[j].pipeline == p.at[k].pipeline &&
                    p.at[j].micro_batch == p.at[k].micro_batch)
                    at += own[j];
            luo_batch_fill(c, &s, step, p.at[k].pipeline, p.at[k].micro_batch, memory, &b);
            before = step * all;
            for (int32_t j = 0; j < number[k]; j++) before += length[j];
            for (int64_t j = 0; j < own[k]; j++)
                ck_assert_int_eq(b.ids[at + j], (before + j) % RING);
            some++;
        }
        luo_batch_shape same = s;
        length[number[0]]++;
        ck_assert_int_eq(luo_batch_place(arena, &s, length, N, &err), LUO_EBUG);
        ck_assert_int_eq(luo_batch_place(arena, &s, length, number[n - 1], &err), LUO_EBUG);
        ck_assert(memcmp(&s, &same, sizeof s) == 0);
        ck_assert_int_eq(luo_batch_place(arena, &s, NULL, 0, &err), LUO_OK);
        ck_assert_int_eq(luo_batch_targets(c, &s, step), alone);
    }
    ck_assert_int_gt(some, 500);
    luo_corpus_close(c);
    luo_arena_free(arena);
}
END_TEST

/* ---- errors ---- */

static const struct {
    const char *end, *bytes;
    size_t n;
    int64_t vocab;
    const char *says; /* behind the path */
} bad[] = {
    {".txt", "", 0, 256, "` is empty; at least one token is expected."},
    {".txt", "abc", 3, 255,
     "` is a text, whose bytes need a vocabulary of 256; the model has 255."},
    {".json", "{\"text\": \"a\"}", 13, 256,
     "` is JSON by its name, which is not taken apart; its plain text, or tokens as .u16 or .u32, "
     "are expected."},
    {".jsonl", "", 0, 256,
     "` is JSON by its name, which is not taken apart; its plain text, or tokens as .u16 or .u32, "
     "are expected."},
    {".u16", "abc", 3, 256, "` has 3 bytes; a multiple of 2 is expected by its name."},
    {".u32", "abcdef", 6, 256, "` has 6 bytes; a multiple of 4 is expected by its name."},
    {".u16", "\1\0\xff\xff\0\1", 6, 256, "` is 256; it must be below the vocabulary of 256."},
    {".u16", "\xff\xff\xff\xff", 4, 256,
     "` holds ends of documents only; at least one token is expected."},
    {".u32", "\1\0\0\0\xff\xff\xff\x7f", 8, 256,
     "` is 2147483647; it must be below the vocabulary of 256."},
};

START_TEST(bad_files)
{
    luo_corpus *c = NULL;
    luo_err err;
    put_file(bad[_i].end, bad[_i].bytes, bad[_i].n);
    ck_assert_int_eq(luo_corpus_open(path, bad[_i].vocab, 0, &c, &err), LUO_EINPUT);
    ck_assert_ptr_null(c);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ck_assert_str_eq(strstr(err.text, path) + strlen(path), bad[_i].says);
    unlink(path);
}
END_TEST

START_TEST(no_file)
{
    luo_corpus *c;
    luo_err err;
    ck_assert_int_eq(luo_corpus_open("build/none.txt", 256, 0, &c, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "cannot read `build/none.txt`: no such file or directory.");
    ck_assert_int_eq(luo_corpus_open("build", 256, 0, &c, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`build` is a folder; a text or token file is expected.");
    luo_corpus_close(NULL);
}
END_TEST

LUO_SUITE("exec.data", LUO_T(like_the_twin), LUO_T_N(shuffle_is_a_permutation, 75),
          LUO_T(each_row_once_an_epoch), LUO_T(plans_share_the_order),
          LUO_T(synthetic_from_anywhere), LUO_T_N(synthetic_can_be_learnt, 6), LUO_T(seeds_differ),
          LUO_T(dump_golden), LUO_T(shape_of_a_plan), LUO_T(assigned_sequences),
          LUO_T(parts_of_a_step), LUO_T_N(bad_files, LUO_ROWS(bad)), LUO_T(no_file))
