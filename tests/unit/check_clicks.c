/* check_clicks.c: click logs (core/io/clicks): keys, and rows in the forms of Criteo's and Avazu's
 * data sets, all of them made up. */
#include <unistd.h>

#include "core/base/hash.h"
#include "core/io/clicks/clicks_read.h"
#include "tests/check_main.h"

static luo_arena *arena;
static luo_diags diags;
static luo_clicks clicks;

static luo_status read_text(luo_clicks_form form, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "build/check_clicks.%ld", (long)getpid());
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(text, 1, strlen(text), f) == strlen(text) && fclose(f) == 0);
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    clicks = (luo_clicks){.samples = -1};
    const luo_status st = luo_clicks_read(arena, path, form, &clicks, &diags);
    unlink(path);
    ck_assert_int_eq(st == LUO_OK, diags.n_errors == 0);
    return st;
}

START_TEST(keys)
{
    static const int32_t want[] = {1, 2, 2, 0, 0, 0}; /* numbers ascend with keys */
    luo_bigraph graph;
    ck_assert_int_eq(
        read_text(LUO_CLICKS_KEYS,
                  "# a comment\n7,9223372036854775807\n\n9223372036854775807,0\r\n0,0"),
        LUO_OK);
    ck_assert(clicks.samples == 3 && clicks.slots == 2 && clicks.embeds == 3 && !clicks.synthetic);
    ck_assert_mem_eq(clicks.embed, want, sizeof want);
    ck_assert(clicks.key[0] == 0 && clicks.key[1] == 7 && clicks.key[2] == INT64_MAX);
    ck_assert_int_eq(luo_clicks_graph(arena, &clicks, &graph, NULL), LUO_OK);
    ck_assert(graph.samples == 3 && graph.embeds == 3);
    ck_assert(graph.first[1] == 2 && graph.first[2] == 4 && graph.first[3] == 5); /* 0,0 once */
    luo_arena_free(arena);
}
END_TEST

#define INTS "0\t1\t-2\t3\t\t5\t6\t7\t8\t9\t10\t11\t12\t13\t"
#define CATS25 "a\t\ta\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty"

/* The number of the slot is in the hash, and empty cells are texts. */
START_TEST(criteo)
{
    const unsigned char first = 0;
    ck_assert_int_eq(read_text(LUO_CLICKS_CRITEO, INTS CATS25 "\tz\n" INTS CATS25 "\t\n"), LUO_OK);
    ck_assert(clicks.samples == 2 && clicks.slots == 26 && clicks.embeds == 27);
    for (int s = 0; s < 25; s++) ck_assert_int_eq(clicks.embed[26 + s], clicks.embed[s]);
    ck_assert_int_ne(clicks.embed[51], clicks.embed[25]);
    ck_assert_int_ne(clicks.embed[0], clicks.embed[2]); /* the same text of another slot */
    ck_assert(clicks.key[clicks.embed[0]] ==
              luo_hash_str(luo_hash_bytes(LUO_HASH_EMPTY, &first, 1), "a") >> 1);
    for (int e = 1; e < 27; e++) ck_assert(clicks.key[e] > clicks.key[e - 1]);
    luo_arena_free(arena);
}
END_TEST

#define AVAZU_HEAD                                                                                 \
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,"             \
    "app_category,device_id,device_ip,device_model,device_type,device_conn_type,C14,C15,C16,C17,"  \
    "C18,C19,C20,C21\n"

START_TEST(avazu)
{
    ck_assert_int_eq(read_text(LUO_CLICKS_AVAZU,
                               AVAZU_HEAD "1,0,h,1,0,s,d,c,a,b,e,i,p,m,1,2,3,4,5,6,7,8,-1,9\n"
                                          "2,1,h,1,0,s,d,c,a,b,e,j,q,m,1,2,3,4,5,6,7,8,-1,9\n"),
                     LUO_OK);
    ck_assert(clicks.samples == 2 && clicks.slots == 22 && clicks.embeds == 24);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    luo_clicks_form form;
    const char *text;
    int line, col;
    const char *says;
} bad[] = {
    {LUO_CLICKS_KEYS, "1,2,3,4\n5,6,7\n", 2, 1, "3 keys; 4 are expected."},
    {LUO_CLICKS_KEYS, "1,2\n5\n", 2, 1, "1 key; 2 are expected."},
    {LUO_CLICKS_KEYS, "1,2\n3,-1\n", 2, 2,
     "`-1` is no key; a whole number from 0 to 9223372036854775807 is expected."},
    {LUO_CLICKS_KEYS, "1,\n", 1, 2,
     "`` is no key; a whole number from 0 to 9223372036854775807 is expected."},
    {LUO_CLICKS_KEYS, "# nothing\n", 0, 0, "there is no sample; one or more are expected."},
    {LUO_CLICKS_KEYS, "\"1,2\n", 1, 1,
     "a quote is open or stands within a cell; quote the whole cell and double the quotes inside."},
    {LUO_CLICKS_KEYS,
     "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,"
     "34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,"
     "64,65\n",
     1, 1, "65 keys; at most 64 are expected."},
    {LUO_CLICKS_CRITEO, INTS "a\tb\tc\n", 1, 1, "17 cells; 40 are expected."},
    {LUO_CLICKS_CRITEO, "x", 1, 1, "1 cell; 40 are expected."},
    {LUO_CLICKS_AVAZU, AVAZU_HEAD "1,2\n", 2, 3, "the row has 2 cells; the header has 24."},
    {LUO_CLICKS_AVAZU, "id,click\n", 1, 1, "column `hour` is missing."},
};

START_TEST(errors)
{
    ck_assert_int_ne(read_text(bad[_i].form, bad[_i].text), LUO_OK);
    ck_assert_int_eq(clicks.samples, -1);
    ck_assert_str_eq(diags.first->err.text, bad[_i].says);
    ck_assert_int_eq(diags.first->err.line, bad[_i].line);
    ck_assert_int_eq(diags.first->err.col, bad[_i].col);
    luo_arena_free(arena);
}
END_TEST

START_TEST(missing)
{
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_clicks_read(arena, "build/no/such", LUO_CLICKS_KEYS, &clicks, &diags),
                     LUO_EINPUT);
    ck_assert_int_eq(diags.n_errors, 1);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("clicks", LUO_T(keys), LUO_T(criteo), LUO_T(avazu), LUO_T_N(errors, LUO_ROWS(bad)),
          LUO_T(missing))
