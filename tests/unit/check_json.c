/* check_json.c: JSON as a tree with positions: what is read, what is refused and where. */
#include "core/io/document/doc.h"
#include "tests/check_main.h"

static const struct {
    const char *text, *written; /* as JSON again; NULL: refused, */
    int line, col;              /* there, */
    const char *says;           /* with a sentence that begins so */
} documents[] = {
    {"{\"b\":[1,-2.5e3,true],\n\t\"a\"\t:\tnull}", "{\"a\":null,\"b\":[1,-2.5e3,true]}", 0, 0, ""},
    {"\"\\ud83d\\ude00 \\u00e4\\u0041\\/\\t\"", "\"\xf0\x9f\x98\x80 \xc3\xa4"
     "A/\\u0009\"", 0, 0, ""},
    {" [] ", "[]", 0, 0, ""},
    {"{}", "{}", 0, 0, ""},
    {"[[[]],{}]", "[[[]],{}]", 0, 0, ""},
    {"", NULL, 1, 1, "unexpected token near end of file; one JSON document is expected."},
    {"{\"a\":1 \"b\":2}", NULL, 1, 8, "`}` expected near `\"b\"`; one JSON document"},
    {"{\"a\" 1}", NULL, 1, 6, "`:` expected near `1`; one"},
    {"{a: 1}", NULL, 1, 2, "a key in quotes, or `}`, expected near `a`; one"},
    {"{\"a\":1,}", NULL, 1, 8, "a key in quotes, or `}`, expected near `}`; one"},
    {"[1,]", NULL, 1, 4, "unexpected token near `]`; one"},
    {"[1\n2]", NULL, 2, 1, "`]` expected near `2`; one"},
    {"[1", NULL, 1, 3, "`]` expected near end of file; one"},
    {"[tru]", NULL, 1, 2, "invalid token near `tru`; one"},
    {"[01]", NULL, 1, 2, "invalid token near `01`; one"},
    {"[\"\xc3\xa4\", +1]", NULL, 1, 7, "invalid token near `+1`; one"},
    {"1 2", NULL, 1, 3, "end of file expected near `2`; one"},
    {"[\"a\\x\"]", NULL, 1, 4, "invalid escape near `\\x`; one"},
    {"[\"\\ud83d\"]", NULL, 1, 3, "invalid escape near"},
    {"[\"\\ud83d\\u0041\"]", NULL, 1, 3, "invalid escape near"},
    {"[\"\\ude00\"]", NULL, 1, 3, "invalid escape near"},
    {"[\"\\u0000\"]", NULL, 1, 3, "invalid escape near"},
    {"[\"\\u00g0\"]", NULL, 1, 3, "invalid escape near"},
    {"[\"\\u00", NULL, 1, 3, "invalid escape near"},
    {"[\"a", NULL, 1, 2, "a string does not end near"},
    {"[\"a\nb\"]", NULL, 1, 4, "a string holds a control character near"},
    {"{\"a\":1,\n\"b\":2,\n \"a\":3}", NULL, 3, 2,
     "`a` is given twice, first at line 1; each key is given once."},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1", NULL, 1, 33, "nested deeper than 32 levels."},
    {"\xff", NULL, 1, 1, "the file is not UTF-8 text; save it as UTF-8."},
};

START_TEST(json_row)
{
    luo_arena *arena = luo_arena_new(0);
    const char *text = documents[_i].text, *want = documents[_i].written;
    const luo_doc_node *root = NULL;
    luo_err err = {0};
    luo_str out = {0};
    const luo_status st = luo_doc_tree(arena, text, strlen(text), &root, &err);
    ck_assert_msg((st == LUO_OK) == (want != NULL), "`%s`: %s", text, err.text);
    if (want) {
        luo_doc_json(arena, &out, root);
        ck_assert_str_eq(luo_str_get(&out), want);
    } else {
        ck_assert_int_eq(st, LUO_EPARSE);
        ck_assert_msg(strncmp(err.text, documents[_i].says, strlen(documents[_i].says)) == 0,
                      "`%s`: %s", text, err.text);
        ck_assert_msg(err.line == documents[_i].line && err.col == documents[_i].col,
                      "`%s`: %d:%d %s", text, err.line, err.col, err.text);
        ck_assert_ptr_null(root);
    }
    luo_str_free(&out);
    luo_arena_free(arena);
}
END_TEST

/* A map of tens of thousands of keys is as fast as its text is long, and a double is found. */
START_TEST(large_map)
{
    enum { KEYS = 50000 };
    luo_arena *arena = luo_arena_new(0);
    const luo_doc_node *root = NULL;
    luo_err err = {0};
    luo_str s = {0};
    for (int i = 0; i <= KEYS; i++)
        luo_str_addf(&s, "%c\"key %d\":%d", i ? ',' : '{', i * 7919 % KEYS, i);
    luo_str_addc(&s, '}');
    ck_assert_int_eq(luo_doc_tree(arena, s.at, s.len, &root, &err), LUO_EPARSE);
    ck_assert_str_eq(err.text, "`key 0` is given twice, first at line 1; each key is given once.");
    s.at[s.len - 1] = ' ';
    while (s.at[s.len - 1] != ',') s.len--;
    s.at[s.len - 1] = '}';
    ck_assert_int_eq(luo_doc_tree(arena, s.at, s.len, &root, &err), LUO_OK);
    ck_assert_int_eq(root->n, KEYS);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("io.json", LUO_T_N(json_row, LUO_ROWS(documents)), LUO_T(large_map))
