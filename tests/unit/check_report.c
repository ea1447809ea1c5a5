/* check_report.c: texts and bytes as a page takes them. The page itself: tests/report.sh. */
#include <string.h>
#include <zlib.h>

#include "core/io/report/report_internal.h"
#include "tests/check_main.h"

/* RFC 4648, section 10. */
static const char *const base64[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xff\xfe\xfd", "//79"},
};

START_TEST(encode)
{
    luo_str text = {0};
    luo_report_base64(&text, base64[_i][0], strlen(base64[_i][0]));
    ck_assert_str_eq(luo_str_get(&text), base64[_i][1]);
    luo_str_free(&text);
}
END_TEST

START_TEST(escape)
{
    luo_str text = {0};
    luo_report_escape(&text, "a<b> & \"c\" 'd' </script>");
    ck_assert_str_eq(luo_str_get(&text), "a&lt;b&gt; &amp; &quot;c&quot; 'd' &lt;/script&gt;");
    luo_str_free(&text);
}
END_TEST

/* What is packed is what any reader of gzip gets back. */
START_TEST(pack)
{
    static char in[300000], out[sizeof in];
    luo_str packed = {0};
    luo_err err = {0};
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof in; i++) {
        x = 1664525 * x + 1013904223;
        in[i] = (char)(i % 3 ? 'a' : x >> 24);
    }
    ck_assert_int_eq(luo_report_pack(&packed, in, sizeof in, &err), LUO_OK);
    ck_assert_uint_lt(packed.len, sizeof in);
    z_stream z = {.next_in = (Bytef *)packed.at, .avail_in = (uInt)packed.len,
                  .next_out = (Bytef *)out, .avail_out = sizeof out};
    ck_assert_int_eq(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
    ck_assert_int_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
    ck_assert_uint_eq(z.total_out, sizeof in);
    inflateEnd(&z);
    ck_assert(memcmp(in, out, sizeof in) == 0);
    luo_str_free(&packed);
}
END_TEST

LUO_SUITE("io.report", LUO_T_N(encode, LUO_ROWS(base64)), LUO_T(escape), LUO_T(pack))
