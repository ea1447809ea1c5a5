/* Texts and bytes as they may stand in a page. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/io/report/report_internal.h"

void luo_report_escape(luo_str *page, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '&': luo_str_add(page, "&amp;"); break;
        case '<': luo_str_add(page, "&lt;"); break;
        case '>': luo_str_add(page, "&gt;"); break;
        case '"': luo_str_add(page, "&quot;"); break;
        default: luo_str_addc(page, *c);
        }
    }
}

void luo_report_base64(luo_str *page, const char *bytes, size_t n)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t left = n - i < 3 ? (uint32_t)(n - i) : 3;
        const uint32_t bits = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                              (left > 2 ? in[i + 2] : 0);
        char four[4];
        for (uint32_t k = 0; k < 4; k++)
            four[k] = '=';
        for (uint32_t k = 0; k <= left; k++) four[k] = letters[bits >> (18 - 6 * k) & 63];
        luo_str_addn(page, four, 4);
    }
}

luo_status luo_report_pack(luo_str *packed, const char *bytes, size_t n, luo_err *err)
{
    enum { GZIP = 16 + MAX_WBITS, LEVEL = 6, MEMORY = 8 };
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n};
    if (n > UINT32_MAX / 2 ||
        deflateInit2(&stream, LEVEL, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return luo_err_nomem(err);
    const uLong most = deflateBound(&stream, (uLong)n);
    char *out = malloc(most);
    stream.next_out = (Bytef *)out;
    stream.avail_out = (uInt)most;
    const bool done = out && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    if (done) luo_str_addn(packed, out, stream.total_out);
    deflateEnd(&stream);
    free(out);
    return done && !packed->failed ? LUO_OK : luo_err_nomem(err);
}
