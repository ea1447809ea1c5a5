#include "core/io/say.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only who is beyond one end of the range of a quantity is told the range; all others learn what
 * people say: above 0, at least 0. */
static luo_limit as_said(const luo_limit *l, double v, bool *beyond)
{
    luo_limit p = luo_limit_for(l, v);
    const bool tiny = l->of != LUO_Q_NONE && p.lo > 0 && p.lo < 1;
    *beyond = v > p.hi || (tiny && v > 0 && v < p.lo);
    if (!tiny || *beyond) return p;
    p.lo = 0;
    p.open = true;
    return p;
}

const char *luo_say_limit(const luo_limit *limit, bool whole, double v, char *buf, size_t size)
{
    bool beyond;
    const luo_limit said = as_said(limit, v, &beyond), *l = &said;
    const char *what = l->or_zero ? "0 or a plain number"
                       : whole    ? "a whole number"
                                  : "a plain number";
    const bool low = l->lo > -INFINITY, high = l->hi < 1e6 || beyond;
    /* "above 0" is what people say for 1, 2, 3, .. */
    const bool open = l->open || (whole && l->lo == 1);
    const double lo = whole && l->lo == 1 ? 0 : l->lo;
    if (low && high && (whole || !open))
        snprintf(buf, size, "%s from %.15g to %.15g", what, l->lo, l->hi);
    else if (low && high)
        snprintf(buf, size, "%s above %.15g, at most %.15g", what, l->lo, l->hi);
    else if (low && open) snprintf(buf, size, "%s above %.15g", what, lo);
    else if (low) snprintf(buf, size, "%s of at least %.15g", what, l->lo);
    else if (high) snprintf(buf, size, "%s of at most %.15g", what, l->hi);
    else snprintf(buf, size, "%s", what);
    return buf;
}

/* ---- words ---- */

static const char *unit_of(const char *name)
{
    static const struct {
        const char *suffix, *say;
    } units[] = {
        {"_gbytes_per_s", "10^9 bytes per second, one direction"},
        {"_tflop_per_s", "10^12 operations per second"},
        {"_bytes", "bytes"},
        {"_gib", "2^30 bytes"},
        {"_us", "microseconds"},
        {"_tokens", "tokens"},
        {"_ratio", "0 to 1"},
        {"_probability", "0 to 1"},
        {"_px", "pixels"},
        {"_s", "seconds"},
    };
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t k = strlen(units[i].suffix);
        if (n > k && strcmp(name + n - k, units[i].suffix) == 0) return units[i].say;
    }
    return NULL;
}

void luo_say_unknown(luo_str *text, const char *word, const char *const *names, int n, int *meant)
{
    const char *near = luo_word_nearest(word, names, n);
    if (meant) *meant = -1;
    for (int i = 0; meant && near && i < n; i++)
        if (names[i] == near) *meant = i;
    const char *unit = near ? unit_of(near) : NULL;
    if (near && (luo_word_distance(word, near, 2) <= 2 || !unit)) {
        luo_str_addf(text, "did you mean `%s`?", near);
    } else if (near) {
        const char *u = strchr(near, '_');
        luo_str_addf(text, "%.*s is given as `%s` (%s).", (int)(u - near), near, near, unit);
    } else {
        luo_str_add(text, "one of ");
        luo_words_choices(text, names, n);
        luo_str_add(text, " is expected.");
    }
}
