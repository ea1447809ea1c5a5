#include "core/io/json_number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p;
}

bool luo_json_number_form(const char *text, size_t n, bool whole)
{
    const char *p = text, *const end = text + n;
    if (p < end && *p == '-') p++;
    if (p == end || *p < '0' || *p > '9') return false;
    p = *p == '0' ? p + 1 : digits(p, end);
    if (whole) return p == end;
    if (p < end && *p == '.') {
        const char *q = digits(++p, end);
        if (q == p) return false;
        p = q;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        const char *q = digits(p, end);
        if (q == p) return false;
        p = q;
    }
    return p == end;
}

bool luo_json_number_whole(const char *text, size_t n, int64_t *out)
{
    if (!luo_json_number_form(text, n, true)) return false;
    const bool minus = text[0] == '-';
    const uint64_t most = minus ? UINT64_C(1) << 63 : (UINT64_C(1) << 63) - 1;
    uint64_t v = 0;
    for (size_t i = minus; i < n; i++) {
        const uint64_t d = (uint64_t)(text[i] - '0');
        if (v > (most - d) / 10) return false;
        v = 10 * v + d;
    }
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* Up to 15 digits and a power of ten up to 22 are exact in a double, and so is their quotient
 * rounded once (Clinger 1990); this is what nearly all cells of a table are. */
static bool quick(const char *text, size_t n, double *out)
{
    static const double ten[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const bool minus = text[0] == '-';
    uint64_t v = 0;
    size_t seen = 0, after = 0;
    bool point = false;
    for (size_t i = minus; i < n; i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || ++seen > 15) return false;
        v = 10 * v + (uint64_t)(text[i] - '0');
        after += point;
    }
    const double x = (double)v / ten[after];
    *out = minus ? -x : x;
    return true;
}

bool luo_json_number_float(const char *text, size_t n, double *out)
{
    if (!luo_json_number_form(text, n, false)) return false;
    if (quick(text, n, out)) return true;
    char buf[64], *big = n < sizeof buf ? buf : malloc(n + 1);
    if (!big) return false;
    memcpy(big, text, n);
    big[n] = 0;
    const double v = strtod(big, NULL);
    if (big != buf) free(big);
    if (!isfinite(v)) return false;
    *out = v;
    return true;
}
