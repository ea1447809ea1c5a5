/* check_utf8.c: any bytes as a text that can be shown, and as a string of JSON. */
#include "core/base/err.h"
#include "core/base/utf8.h"
#include "core/io/jsonw.h"
#include "tests/check_main.h"

static const struct {
    const char *text, *shown, *json;
} rows[] = {
    {"f\xff"
     "ail",
     "f\xef\xbf\xbd"
     "ail",
     "\"f\xef\xbf\xbd"
     "ail\""},
    {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd", "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* a cut euro sign */
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",                  /* a surrogate */
     "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xe2\x82\xac", "\xe2\x82\xac", "\"\xe2\x82\xac\""},
    {"\033[31m", "\\x1b[31m", "\"\\u001b[31m\""},
    {"a\tb\n\x7f", "a\tb \\x7f", "\"a\\u0009b\\n\\u007f\""},
    {"\xc2\x9b"
     "31m",
     "\\x9b31m",
     "\"\xc2\x9b"
     "31m\""}, /* one character begins an escape, too */
    {"", "", "\"\""},
};

START_TEST(shown_and_quoted)
{
    char out[64];
    luo_str json = {0};
    luo_utf8_show(out, sizeof out, rows[_i].text);
    ck_assert_str_eq(out, rows[_i].shown);
    luo_jsonw_quote(&json, rows[_i].text);
    ck_assert_str_eq(json.at, rows[_i].json);
    luo_str_free(&json);
}
END_TEST

/* The slow twin: c written in k bytes is a character if no fewer do and Unicode has it. */
static size_t take(const uint32_t c, size_t k, char *bytes)
{
    uint32_t left = c;
    static const uint32_t first[] = {1, 0x80, 0x800, 0x10000, 0x110000};
    static const unsigned head[] = {0, 0xc0, 0xe0, 0xf0};
    for (size_t i = k; i-- > 1; left >>= 6) bytes[i] = (char)(0x80 | left % 64);
    bytes[0] = (char)(head[k - 1] | left);
    return c >= first[k - 1] && c < first[k] && !(c >= 0xd800 && c < 0xe000) ? k : 0;
}

/* Of a character's bytes: one less, and each with a bit that no later byte has. */
static bool no_damage_passes(const char *bytes, size_t k)
{
    bool good = true;
    for (size_t i = 1; i < k; i++) {
        good &= luo_utf8_sequence(bytes, i) == 0;
        for (int bit = 6; bit < 8; bit++) {
            char cut[5];
            memcpy(cut, bytes, sizeof cut);
            cut[i] = (char)(cut[i] ^ 1 << bit);
            good &= luo_utf8_sequence(cut, k) == 0;
        }
    }
    return good;
}

/* All of them in every check: what took seconds was an assertion for each. */
START_TEST(every_character)
{
    static const uint32_t most[] = {0x80, 0x800, 0x10000, 0x200000};
    int64_t met = 0, damaged = 0;
    for (size_t k = 1; k <= 4; k++)
        for (uint32_t c = 0; c < most[k - 1]; c++) {
            char bytes[5] = {0};
            const size_t want = take(c, k, bytes);
            if (luo_utf8_sequence(bytes, k) != want || luo_utf8_valid(bytes, k) != (want == k) ||
                !no_damage_passes(bytes, k))
                ck_abort_msg("%x in %zu bytes", c, k);
            met += want > 0;
            damaged += (int64_t)k - 1;
        }
    ck_assert_int_eq(met, 0x110000 - 1 - 0x800);
    ck_assert_int_eq(damaged, 0x800 + 2 * 0x10000 + 3 * 0x200000);
    ck_assert_uint_eq(luo_utf8_sequence("\xf8\x88\x80\x80\x80", 5), 0);
}
END_TEST

/* "abc" of every size: what does not fit ends in "..", and no character is cut. */
START_TEST(cut)
{
    static const char *const want[] = {NULL,
                                       "",
                                       ".",
                                       "..",
                                       "a..",
                                       "a\xc3\xa4"
                                       "b"};
    static const size_t size[] = {0, 1, 2, 3, 4, 5};
    char out[8];
    luo_utf8_show(out, size[_i + 1],
                  "a\xc3\xa4"
                  "b");
    ck_assert_str_eq(out, want[_i + 1]);
}
END_TEST

START_TEST(sentences)
{
    luo_err err;
    luo_diags diags;
    luo_arena *arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    luo_err_set(&err, LUO_EINPUT, "`%.2s`", "x\xc3\xa4");
    ck_assert_str_eq(err.text, "`x\xef\xbf\xbd`");
    luo_err_at(&err, LUO_EINPUT, "\033]0;title\a", 1, 1);
    ck_assert_str_eq(err.path, "\\x1b]0;title\\x07");
    luo_diags_add(&diags, LUO_ERROR, LUO_EINPUT, "\xff", 0, 0, "%s", "\033[2J");
    ck_assert_str_eq(diags.first->err.path, "\xef\xbf\xbd");
    ck_assert_str_eq(diags.first->err.text, "\\x1b[2J");
    luo_arena_free(arena);
}
END_TEST

/* The longest sentence that fits is whole; one character more, and it ends in "..". */
START_TEST(long_sentences)
{
    char text[LUO_ERR_TEXT + 1];
    luo_err err;
    memset(text, 'a', sizeof text);
    text[LUO_ERR_TEXT - 1 + _i] = 0;
    luo_err_set(&err, LUO_EINPUT, "%s", text);
    ck_assert_uint_eq(strlen(err.text), LUO_ERR_TEXT - 1);
    ck_assert_str_eq(err.text + LUO_ERR_TEXT - 3, _i ? ".." : "aa");
}
END_TEST

LUO_SUITE("base.utf8", LUO_T_N(shown_and_quoted, LUO_ROWS(rows)), LUO_T_N(cut, 5), LUO_T(sentences),
          LUO_T_N(long_sentences, 2), LUO_T(every_character))
