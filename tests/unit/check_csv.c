/* check_csv.c: strict tables (docs/formats.md#rules-for-all-files). Wrong ones:
 * tests/golden/bad/csv. */
#include "core/io/result/csv.h"
#include "core/io/read/input_tables.h"
#include "tests/check_main.h"

static const char *const colours[] = {"red", "green", NULL};
static const luo_csv_column columns[] = {
    {"a", LUO_CSV_WHOLE, true, LUO_FROM(0), NULL, false, NULL},
    {"b", LUO_CSV_NUMBER, false, LUO_ABOVE(0), NULL, false, NULL},
    {"c", LUO_CSV_TEXT, false, LUO_FROM(0), NULL, false, NULL},
    {"d", LUO_CSV_WORD, false, LUO_FROM(0), colours, false, NULL},
};

static luo_arena *arena;
static luo_diags diags;

static luo_csv *open_text(const char *text, luo_source *src)
{
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    *src = (luo_source){"t.csv", text, strlen(text)};
    return luo_csv_open(src, columns, 4, &diags);
}

static void check_values(luo_csv *t)
{
    luo_csv_cell c[4];
    ck_assert(luo_csv_next(t, c));
    ck_assert_int_eq(luo_csv_line(t), 4);
    ck_assert(c[0].whole == 7 && c[0].number == 7 && c[1].number == 2.5 && c[3].whole == 1);
    ck_assert_str_eq(c[2].text, "x, \"y\" z");
    ck_assert(luo_csv_next(t, c));
    ck_assert_int_eq(luo_csv_line(t), 6);
    ck_assert(c[0].whole == 8 && !c[1].given && !c[2].given && !c[3].given);
    ck_assert_str_eq(c[2].text, "");
    ck_assert(!luo_csv_next(t, c));
    ck_assert(!luo_csv_next(t, c));
    ck_assert_int_eq(luo_csv_close(t), LUO_OK);
    ck_assert_int_eq(diags.n_errors, 0);
}

static const char good[] = "\xef\xbb\xbf# origin: here\r\n\r\n d ,b,\"a\",c\r\n"
                           "green,2.5,7,\"x, \"\"y\"\" z\"\r\n  \t\n,,8,";

START_TEST(order_quotes_comments)
{
    luo_source src;
    luo_csv *t = open_text(good, &src);
    ck_assert(luo_csv_has(t, 0) && luo_csv_has(t, 3));
    check_values(t);
    luo_arena_free(arena);
}
END_TEST

START_TEST(same_from_a_file)
{
    const char *path = "build/check_csv.csv";
    luo_err err;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_file_write_atomic(path, good, sizeof good - 1, &err), LUO_OK);
    check_values(luo_csv_open_path(path, columns, 4, &diags));
    remove(path);
    luo_csv *t = luo_csv_open_path("build/nothing.csv", columns, 4, &diags);
    luo_csv_cell c[4];
    ck_assert(!luo_csv_next(t, c));
    ck_assert_int_eq(luo_csv_close(t), LUO_EINPUT);
    ck_assert_str_eq(diags.first->err.text,
                     "cannot read `build/nothing.csv`: no such file or directory.");
    luo_arena_free(arena);
}
END_TEST

START_TEST(good_rows_survive_bad_ones)
{
    luo_source src;
    luo_csv_cell c[4];
    luo_csv *t = open_text("a,b\n1,1\nx,1\n2,1,3\n3\n4,0\n5,\"2\n6,6\n", &src);
    int64_t sum = 0;
    while (luo_csv_next(t, c)) sum = 10 * sum + c[0].whole;
    ck_assert_int_eq(sum, 16);
    ck_assert_int_eq(diags.n_errors, 5);
    ck_assert(diags.first->err.line == 3 && diags.first->err.col == 1);
    ck_assert_int_eq(luo_csv_close(t), LUO_EINPUT);
    luo_arena_free(arena);
}
END_TEST

START_TEST(many_errors_are_counted)
{
    luo_source src;
    luo_csv_cell c[4];
    luo_str s = {0};
    luo_str_add(&s, "a\n");
    for (int i = 0; i < 100; i++) luo_str_add(&s, "x\n");
    luo_csv *t = open_text(s.at, &src);
    ck_assert(!luo_csv_next(t, c));
    ck_assert(diags.n_errors == 100 && diags.n_dropped == 80);
    luo_csv_close(t);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

/* ---- every input table of docs/formats.md#tables-1 can be told from the others ---- */

static const struct {
    const char *text;
    bool good;
} tables[] = {
    {"tp,pp,a_ms_per_token2,b_ms_per_token,c_ms,cap_tokens,util_tokens\n2,4,1e-6,.1,0,0,4096\n",
     false},
    {"tp,pp,a_ms_per_token2,b_ms_per_token,c_ms,cap_tokens,util_tokens\n2,4,1e-6,0.1,0,0,4096\n",
     true},
    {"device,rate\n3,inf\n", true},
    {"rate,device,state,t_s\n1.5,2,failed,3\n", true},
    {"length_tokens\n5\n", true},
    {"length_tokens,arrival_s\n5,0.25\n", true},
    {"low_tokens,high_tokens,count\n0,128,3\n", true},
    {"step,layer,expert,tokens\n0,3,0,7\n0,3,5,0\n0,4,1,2\n9,3,0,1\n", true},
    {"t_s,kind,target\n1,fail,device:3\n", true},
    {"cause,kind,scope,count\ngpu,fail,device,148\n", true},
    {"step,sequence,length_tokens,pipeline,micro_batch,position\n0,0,5,0,0,0\n", true},
    {"op,dtype,m,n,k,time_us,samples,role\nmatmul,bf16,1,2,3,4,5,validation\n", true},
    {"collective,dtype,devices,nodes,size_bytes,time_us,algbw_gbytes_per_s,busbw_gbytes_per_s,"
     "role\nbroadcast,bf16,2,1,4096,3,1,1,calibration\n", true},
    {"class,size_bytes,time_us,role\nnvlink,4096,3,calibration\n", true},
    {"step,pipeline,stage,lane,op,chunk,micro_batch,order,t_start_s,duration_s\n"
     "0,0,0,compute,F,0,-1,0,0,0.5\n", true},
    {"who,knows\n1,2\n", false},
};

START_TEST(table_row)
{
    const char *path = "build/check_csv_table.csv";
    luo_err err;
    luo_file_kind k;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(
        luo_file_write_atomic(path, tables[_i].text, strlen(tables[_i].text), &err), LUO_OK);
    luo_status st = luo_file_kind_of(path, &k, &diags);
    if (st == LUO_OK) ck_assert_int_eq(k, LUO_FILE_TABLE);
    if (st == LUO_OK) st = luo_file_check(arena, path, k, &diags);
    ck_assert_msg((st == LUO_OK) == tables[_i].good, "%s",
                  diags.first ? diags.first->err.text : "accepted");
    remove(path);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("io.csv", LUO_T(order_quotes_comments), LUO_T(same_from_a_file),
          LUO_T(good_rows_survive_bad_ones), LUO_T(many_errors_are_counted),
          LUO_T_N(table_row, LUO_ROWS(tables)))
