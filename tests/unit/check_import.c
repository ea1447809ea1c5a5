/* check_import.c: files of others into tables of lengths (core/io/import). Folders, links and what
 * the command says: tests/golden/import.sh. */
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/io/import/import_internal.h"
#include "core/io/io.h"
#include "core/io/read/read.h"
#include "exec/data/data_internal.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

static luo_arena *arena;
static luo_diags diags;
static char from[64], to[64];

static void put(const char *end, const void *bytes, size_t n)
{
    snprintf(from, sizeof from, "build/check_import.%ld%s", (long)getpid(), end);
    snprintf(to, sizeof to, "build/check_import.%ld.csv", (long)getpid());
    FILE *f = fopen(from, "wb");
    ck_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* Imports what was put; the files are gone then, and the table, if there is one, is *table. */
static luo_status import(luo_import_opts *opts, luo_import_made *made, luo_source *table)
{
    luo_err err;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    opts->source = from;
    opts->out = to;
    const luo_status st = luo_import(arena, opts, made, &diags);
    ck_assert_int_eq(st == LUO_OK, access(to, F_OK) == 0);
    ck_assert_int_eq(st == LUO_OK, diags.n_errors == 0);
    if (st == LUO_OK) ck_assert_int_eq(luo_source_read(arena, to, table, &err), LUO_OK);
    unlink(from);
    unlink(to);
    return st;
}

/* ---- good ones ---- */

static const struct {
    luo_import_kind kind;
    luo_import_length length;
    luo_import_unit unit;
    const char *end, *text, *table; /* the table behind its first line */
    int64_t empty;
} goods[] = {
    /* two published rows: 4808 + 10 tokens, 52 ms before 3180 + 8 */
    {LUO_IMPORT_AZURE, LUO_IMPORT_TOTAL, 0, ".in",
     "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
     "2023-11-16 18:17:04.0319600,3180,8\n",
     "length_tokens,arrival_s\n4818,0.000000000\n3188,0.052000000\n", 0},
    {LUO_IMPORT_AZURE, LUO_IMPORT_GENERATED, 0, ".in",
     "GeneratedTokens,note,TIMESTAMP,ContextTokens\r\n0,a,2024-02-29T23:59:59Z,5\r\n"
     "7,b,2024-03-01 01:00:00.5+01:00,5\r\n",
     "length_tokens,arrival_s\n7,1.500000000\n", 1},
    {LUO_IMPORT_MOONCAKE, LUO_IMPORT_TOTAL, 0, ".in",
     "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, "
     "47]}\n"
     "\n{\"output_length\": 26, \"timestamp\": 30535.5, \"input_length\": 6472}",
     "length_tokens,arrival_s\n7007,0.000000000\n6498,3.053500000\n", 0},
    {LUO_IMPORT_MOONCAKE, LUO_IMPORT_CONTEXT, 0, ".in",
     "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 52}\n",
     "length_tokens,arrival_s\n1,0.000000000\n", 0},
    {LUO_IMPORT_TEXT, 0, LUO_IMPORT_BYTES, ".in", "two words\n", "length_tokens\n10\n", 0},
    {LUO_IMPORT_TEXT, 0, LUO_IMPORT_WORDS, ".in", "\t two\r\nwords \xc3\xa9\f.",
     "length_tokens\n4\n", 0},
    {LUO_IMPORT_TOKENS, 0, 0, ".in", "a\n\nb", "length_tokens\n3\n1\n", 0},
    {LUO_IMPORT_TOKENS, 0, 0, ".u16", "ababab\xff\xff\xff\xffxy", "length_tokens\n3\n1\n", 1},
};

START_TEST(good)
{
    luo_import_opts opts = {
        .kind = goods[_i].kind, .length = goods[_i].length, .unit = goods[_i].unit};
    luo_import_made made;
    luo_source table;
    luo_lengths lengths;
    put(goods[_i].end, goods[_i].text, strlen(goods[_i].text));
    ck_assert_msg(import(&opts, &made, &table) == LUO_OK, "%s", diags.first->err.text);
    ck_assert(strncmp(table.text, "# luoshu import lengths-", 24) == 0);
    ck_assert_str_eq(strchr(table.text, '\n') + 1, goods[_i].table);
    ck_assert_uint_eq(made.hash, luo_source_hash(&table));
    ck_assert_int_eq(made.bytes, (int64_t)table.len);
    ck_assert_int_eq(made.skipped[LUO_IMPORT_EMPTY], goods[_i].empty);
    ck_assert_int_eq(luo_read_lengths_text(arena, &table, &lengths, &diags), LUO_OK);
    ck_assert_int_eq(lengths.ngiven, made.lengths);
    double sum = 0;
    for (int64_t i = 0; i < lengths.ngiven; i++) sum += (double)lengths.given[i];
    ck_assert(sum == made.tokens);
    luo_arena_free(arena);
}
END_TEST

START_TEST(unused_keys)
{
    luo_import_opts opts = {.kind = LUO_IMPORT_AZURE, .length = LUO_IMPORT_TOTAL};
    luo_import_made made;
    luo_source table;
    static const char text[] = "x,TIMESTAMP,y,ContextTokens,GeneratedTokens,x\n"
                               "1,2024-01-01 00:00:00,2,3,4,5\n";
    put(".in", text, sizeof text - 1);
    ck_assert_int_eq(import(&opts, &made, &table), LUO_OK);
    ck_assert_int_eq(made.nunused, 2);
    ck_assert_str_eq(made.unused[0], "x");
    ck_assert_str_eq(made.unused[1], "y");
    luo_arena_free(arena);
}
END_TEST

/* ---- bad ones ---- */

#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define EARLY "2024-01-01 00:00:00,1,1\n"
static const struct {
    luo_import_kind kind;
    const char *end, *text;
    int line, col;
    const char *say;
} bads[] = {
    {LUO_IMPORT_AZURE, ".in", "TIMESTAMP,ContextTokens\n", 1, 1,
     "column `GeneratedTokens` is missing."},
    {LUO_IMPORT_AZURE, ".in", "", 0, 1, "the table is empty; a header line is expected."},
    {LUO_IMPORT_AZURE, ".in", HEAD, 0, 0, "there is no length of a token or more in it, so `"},
    {LUO_IMPORT_AZURE, ".in", HEAD "2024-01-01 00:00:00,1,-1\n", 2, 3,
     "`GeneratedTokens` is `-1`; a whole number of at least 0 is expected."},
    {LUO_IMPORT_AZURE, ".in", HEAD "2023-02-29 00:00:00,1,1\n", 2, 1,
     "`TIMESTAMP` is `2023-02-29 00:00:00`; a date and a time such as 2023-11-16 18:15:46.6805900 "
     "are expected."},
    {LUO_IMPORT_AZURE, ".in", HEAD EARLY "2023-12-31 23:59:59,1,1\n", 3, 1,
     "`TIMESTAMP` is before the first row's; rows in order of time are expected."},
    {LUO_IMPORT_AZURE, ".in", HEAD EARLY "2161-01-01 00:00:00,1,1\n", 3, 1,
     "`TIMESTAMP` is more than 4e9 s after the first row's; rows in order of time are expected."},
    {LUO_IMPORT_AZURE, ".in", HEAD "2024-01-01 00:00:00,9007199254740992,1\n", 2, 1,
     "a length of 9007199254740993 tokens; at most 2^53 are expected."},
    {LUO_IMPORT_MOONCAKE, ".in", "[1]\n", 1, 1,
     "this is no object; a line {\"timestamp\": .., \"input_length\": .., \"output_length\": ..} "
     "is "
     "expected."},
    {LUO_IMPORT_MOONCAKE, ".in", "\n{\"timestamp\": 1, \"input_length\": 1}\n", 2, 1,
     "key `output_length` is missing."},
    {LUO_IMPORT_MOONCAKE, ".in",
     "{\"timestamp\": 1, \"input_length\": 1.5, \"output_length\": 1}\n", 1, 34,
     "`input_length` is `1.5`; a whole number from 0 to 2^53 is expected."},
    {LUO_IMPORT_MOONCAKE, ".in",
     "{\"timestamp\": \"1\", \"input_length\": 1, \"output_length\": 1}\n", 1, 15,
     "`timestamp` is `\"1\"`; milliseconds from 0 on are expected."},
    {LUO_IMPORT_MOONCAKE, ".in", "{\"timestamp\": 1, \"timestamp\": 1}\n", 1, 18,
     "`timestamp` is given twice; each key is given once."},
    {LUO_IMPORT_MOONCAKE, ".in", "{\"timestamp\": 1,\n", 1, 17, NULL},
    {LUO_IMPORT_TEXT, ".in", "", 0, 0, "there is no length of a token or more in it, so `"},
    {LUO_IMPORT_TOKENS, ".u32", "abc", 0, 0, NULL},
    {LUO_IMPORT_TOKENS, ".jsonl", "{}", 0, 0, NULL},
};

START_TEST(bad)
{
    luo_import_opts opts = {.kind = bads[_i].kind, .length = LUO_IMPORT_TOTAL};
    luo_import_made made;
    luo_source table;
    put(bads[_i].end, bads[_i].text, strlen(bads[_i].text));
    ck_assert_int_eq(luo_status_exit(import(&opts, &made, &table)), 3);
    const luo_err *err = &diags.first->err;
    if (bads[_i].say)
        ck_assert_msg(strncmp(err->text, bads[_i].say, strlen(bads[_i].say)) == 0, "%s", err->text);
    ck_assert_msg(err->line == bads[_i].line, "line %d: %s", err->line, err->text);
    ck_assert_msg(err->col == bads[_i].col, "column %d: %s", err->col, err->text);
    luo_arena_free(arena);
}
END_TEST

/* A line that never ends is refused before it fills the memory. */
START_TEST(long_line)
{
    enum { BYTES = 3 << 20 };
    luo_import_opts opts = {.kind = LUO_IMPORT_MOONCAKE, .length = LUO_IMPORT_TOTAL};
    luo_import_made made;
    luo_source table;
    char *text = malloc(BYTES);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', BYTES);
    memcpy(text, "\n", 1);
    put(".in", text, BYTES);
    free(text);
    ck_assert_int_eq(import(&opts, &made, &table), LUO_E2BIG);
    ck_assert_int_eq(diags.first->err.line, 2);
    ck_assert_str_eq(diags.first->err.text,
                     "a line of more than 1048576 bytes; a request a line is expected.");
    luo_arena_free(arena);
}
END_TEST

/* What stood there before stays when an import fails. */
START_TEST(old_table_stays)
{
    luo_import_opts opts = {.kind = LUO_IMPORT_AZURE, .length = LUO_IMPORT_TOTAL};
    luo_import_made made;
    luo_source table;
    luo_err err;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    put(".in", HEAD EARLY "x,1,1\n", strlen(HEAD EARLY) + 6);
    ck_assert_int_eq(luo_file_write_atomic(to, "old", 3, &err), LUO_OK);
    opts.source = from;
    opts.out = to;
    ck_assert_int_eq(luo_import(arena, &opts, &made, &diags), LUO_EINPUT);
    ck_assert_int_eq(luo_source_read(arena, to, &table, &err), LUO_OK);
    ck_assert_str_eq(table.text, "old");
    opts.out = from; /* nor is a source written over */
    ck_assert_int_eq(luo_import(arena, &opts, &made, &diags), LUO_EUSAGE);
    unlink(from);
    unlink(to);
    luo_arena_free(arena);
}
END_TEST

/* ---- times ---- */

static const struct {
    const char *text;
    int64_t seconds, ns; /* -1: refused */
} times[] = {
    {"1970-01-01 00:00:00", 0, 0},
    {"2000-02-29 12:34:56.1", 951827696, 100000000},
    {"2001-09-09T01:46:40Z", 1000000000, 0},
    {"2023-11-16 18:15:46.6805900", 1700158546, 680590000},
    {"2024-05-10 00:00:00.009930+00:00", 1715299200, 9930000},
    {"2100-03-01 00:00:00", 4107542400, 0}, /* 2100 is no leap year */
    {"2024-01-01 00:00:00.123456789", 1704067200, 123456789},
    {"2024-01-01 00:00:00-0730", 1704094200, 0},
    {"2024-02-29T23:59:59Z", 1709251199, 0},
    {"2024-12-31 23:59:59", 1735689599, 0},
    {"2023-03-01 00:00:00", 1677628800, 0},
    {"2000-03-01 00:00:00", 951868800, 0},
    {"2024-01-31 00:00:00+2359", 1706572860, 0},
    {"", -1, 0},
    {"2024-01-01", -1, 0},
    {"2023-02-29 00:00:00", -1, 0},
    {"2024-02-30 00:00:00", -1, 0},
    {"2024-12-32 00:00:00", -1, 0},
    {"2024-00-01 00:00:00", -1, 0},
    {"2024-01-00 00:00:00", -1, 0},
    {"2024-1-01 00:00:00", -1, 0},
    {"2024-01-01 00:60:00", -1, 0},
    {"2024-01-01 00:00:60", -1, 0},
    {"2024-01-01 00:00:00+00:60", -1, 0},
    {"2024-01-01 00:00:00+0", -1, 0},
    {"2024-01-01x00:00:00", -1, 0},
    {"2024-01-01 24:00:00", -1, 0},
    {"2024-13-01 00:00:00", -1, 0},
    {"2024-04-31 00:00:00", -1, 0},
    {"2100-02-29 00:00:00", -1, 0},
    {"1969-12-31 23:59:59", -1, 0},
    {"2262-01-01 00:00:00", -1, 0},
    {"2024-01-01 00:00:00.", -1, 0},
    {"2024-01-01 00:00:00.1234567890", -1, 0},
    {"2024-01-01 00:00:00 ", -1, 0},
    {"2024-01-01 00:00:00+24:00", -1, 0},
    {"24-01-01 00:00:00", -1, 0},
};

START_TEST(dates)
{
    int64_t ns;
    ck_assert_int_eq(luo_import_time(times[_i].text, &ns), times[_i].seconds >= 0);
    if (times[_i].seconds >= 0) ck_assert_int_eq(ns, times[_i].seconds * 1000000000 + times[_i].ns);
}
END_TEST

/* ---- classes ---- */

START_TEST(classes)
{
    int64_t edge[LUO_IMPORT_EDGES];
    luo_import_opts opts = {.kind = LUO_IMPORT_TOKENS, .edge = edge, .edges = "log2"};
    luo_import_made made;
    luo_source table;
    luo_lengths lengths;
    opts.nedges = luo_import_powers(edge);
    ck_assert_int_eq(opts.nedges, 54);
    ck_assert_int_eq(edge[53], INT64_C(1) << 53);
    put(".in", "1\n\n12345\n\n1\n\n1234567890123456", 29); /* 3, 7, 3 and 16 bytes */
    ck_assert_int_eq(import(&opts, &made, &table), LUO_OK);
    ck_assert_str_eq(table.text, "# luoshu import lengths-tokens --histogram log2\n"
                                 "low_tokens,high_tokens,count\n2,4,2\n4,8,1\n8,16,0\n16,32,1\n");
    ck_assert_int_eq(luo_read_lengths_text(arena, &table, &lengths, &diags), LUO_OK);
    ck_assert_int_eq(lengths.kind, LUO_LENGTH_HISTOGRAM);
    ck_assert_int_eq(made.rows, 4);
    ck_assert_int_eq(made.lengths, 4);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *text;
    int n; /* 0: refused */
} edges[] = {{"1,2", 2},
             {"0,512,9007199254740992", 3},
             {"", 0},
             {"1", 0},
             {"1,", 0},
             {",1", 0},
             {"1,1", 0},
             {"2,1", 0},
             {"-1,2", 0},
             {"1,2.5", 0},
             {"1,9007199254740993", 0},
             {"1, 2", 0},
             {"log3", 0}};

START_TEST(edges_of_classes)
{
    int64_t edge[LUO_IMPORT_EDGES];
    int32_t n = 0;
    luo_err err;
    const luo_status st = luo_import_edges_parse(edges[_i].text, edge, &n, &err);
    ck_assert_int_eq(st, edges[_i].n ? LUO_OK : LUO_EUSAGE);
    ck_assert_int_eq(n, edges[_i].n);
}
END_TEST

static const struct {
    const char *edges, *say;
} outside[] = {
    {"1,10", "`--histogram` has no class for a length of 10 tokens; a higher last edge is "
             "expected."},
    {"11,20", "`--histogram` has no class for a length of 10 tokens; a lower first edge is "
              "expected."}};

START_TEST(in_no_class)
{
    int64_t edge[LUO_IMPORT_EDGES];
    luo_import_opts opts = {.kind = LUO_IMPORT_TEXT, .edge = edge, .edges = outside[_i].edges};
    luo_import_made made;
    luo_source table;
    luo_err err;
    ck_assert_int_eq(luo_import_edges_parse(opts.edges, edge, &opts.nedges, &err), LUO_OK);
    put(".in", "ten bytes.", 10);
    ck_assert_int_eq(import(&opts, &made, &table), LUO_EINPUT);
    ck_assert_str_eq(diags.first->err.text, outside[_i].say);
    luo_arena_free(arena);
}
END_TEST

/* ---- documents: the same as training's, on random files ---- */

/* Lengths of documents as the corpus tells them token by token. */
static int64_t documents(const char *path, int64_t *length)
{
    luo_corpus *corpus;
    luo_corpus_at at;
    luo_err err;
    int64_t n = 0;
    ck_assert_msg(luo_corpus_open(path, 65535, 0, &corpus, &err) == LUO_OK, "%s", err.text);
    luo_corpus_seek(&at, corpus, 0);
    for (int64_t i = 0; i < corpus->tokens; i++) {
        bool begins;
        luo_corpus_next(&at, &begins);
        if (begins) length[n++] = 0;
        length[n - 1]++;
    }
    luo_corpus_close(corpus);
    return n;
}

START_TEST(documents_are_trainings)
{
    enum { LONGEST = 70000 };
    static unsigned char bytes[2 * LONGEST];
    static int64_t want[LONGEST];
    static const char alphabet[] = "a\n\r";
    int64_t several = 0;
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng rng = luo_rng_seed(seed);
        const bool list = luo_rng_pick(&rng, 2);
        /* a few beyond a chunk of what is read at a time */
        const int64_t n = 1 + luo_rng_pick(&rng, luo_rng_pick(&rng, 30) ? 20 : LONGEST);
        for (int64_t i = 0; i < n; i++) {
            if (list) {
                const bool end = i > 0 && luo_rng_pick(&rng, 3) == 0;
                bytes[2 * i] = bytes[2 * i + 1] = end ? 0xff : 1;
            } else {
                bytes[i] = (unsigned char)alphabet[luo_rng_pick(&rng, 3)];
            }
        }
        luo_import_opts opts = {.kind = LUO_IMPORT_TOKENS};
        luo_import_made made;
        luo_source table;
        luo_lengths got;
        put(list ? ".u16" : ".txt", bytes, (size_t)(list ? 2 * n : n));
        const int64_t k = documents(from, want);
        ck_assert_int_eq(import(&opts, &made, &table), LUO_OK);
        ck_assert_int_eq(luo_read_lengths_text(arena, &table, &got, &diags), LUO_OK);
        ck_assert_msg(got.ngiven == k, "LUO_SEED=%llu LUO_CASES=1: %lld documents, not %lld",
                      (unsigned long long)seed, (long long)got.ngiven, (long long)k);
        for (int64_t i = 0; i < k; i++)
            ck_assert_msg(got.given[i] == want[i], "LUO_SEED=%llu LUO_CASES=1: document %lld",
                          (unsigned long long)seed, (long long)i);
        several += k > 2;
        luo_arena_free(arena);
    }
    ck_assert_int_gt(several, 50);
}
END_TEST

/* ---- folders in folders ---- */

START_TEST(deep_folders)
{
    enum { DEPTH = 205 };
    luo_import_opts opts = {.kind = LUO_IMPORT_TEXT};
    luo_import_made made;
    luo_str path = {0};
    snprintf(from, sizeof from, "build/check_import.%ld.d", (long)getpid());
    luo_str_add(&path, from);
    for (int i = 0; i < DEPTH; i++) {
        ck_assert_int_eq(mkdir(path.at, 0777), 0);
        luo_str_add(&path, "/d");
    }
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    opts.source = from;
    opts.out = "/dev/null";
    ck_assert_int_eq(luo_import(arena, &opts, &made, &diags), LUO_E2BIG);
    ck_assert_ptr_nonnull(strstr(diags.first->err.text, "lies in more than 200 folders of `"));
    for (int i = 0; i < DEPTH; i++) {
        path.at[path.len -= 2] = 0;
        ck_assert_int_eq(rmdir(path.at), 0);
    }
    luo_str_free(&path);
    luo_arena_free(arena);
}
END_TEST

START_TEST(words)
{
    ck_assert_str_eq(luo_import_kind_name(LUO_IMPORT_TEXT), "lengths-text");
    ck_assert_int_eq(luo_import_kind_options(LUO_IMPORT_TEXT), LUO_IMPORT_UNIT);
    ck_assert_int_eq(luo_import_kind_options(LUO_IMPORT_AZURE), LUO_IMPORT_LENGTH);
    ck_assert_ptr_nonnull(strstr(luo_import_kind_source(LUO_IMPORT_MOONCAKE), "input_length"));
    ck_assert_str_eq(luo_import_length_name(LUO_IMPORT_GENERATED), "generated");
    ck_assert_str_eq(luo_import_unit_name(LUO_IMPORT_WORDS), "words");
    ck_assert_str_eq(luo_import_skip_name(LUO_IMPORT_SPECIAL), "special");
}
END_TEST

LUO_SUITE("io.import", LUO_T_N(good, LUO_ROWS(goods)), LUO_T(unused_keys),
          LUO_T_N(bad, LUO_ROWS(bads)), LUO_T(long_line), LUO_T(old_table_stays),
          LUO_T_N(dates, LUO_ROWS(times)), LUO_T(classes),
          LUO_T_N(edges_of_classes, LUO_ROWS(edges)), LUO_T_N(in_no_class, LUO_ROWS(outside)),
          LUO_T(documents_are_trainings), LUO_T(deep_folders), LUO_T(words))
