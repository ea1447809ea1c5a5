/* import_time.c: dates and times of logs as nanoseconds, whole, so that no difference is rounded.
 */
#include <string.h>

#include "core/io/import/import_internal.h"

/* Days from 1970-01-01 to a date of the Gregorian calendar, by years that begin in March, so that
 * the day that some years have more is their last one. */
static int64_t days_to(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    return y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static int64_t days_of(int64_t year, int64_t month)
{
    return month < 12 ? days_to(year, month + 1, 1) - days_to(year, month, 1) : 31;
}

/* Exactly n digits at *at, which moves on. */
static bool digits(const char **at, int n, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++, ++*at) {
        if (**at < '0' || **at > '9') return false;
        *out = 10 * *out + (**at - '0');
    }
    return true;
}

static bool word(const char **at, const char *any)
{
    if (!**at || !strchr(any, **at)) return false;
    ++*at;
    return true;
}

/* ".6805900": up to nine digits; nothing is 0. */
static bool fraction(const char **at, int64_t *ns)
{
    int64_t unit = 100000000;
    *ns = 0;
    if (!word(at, ".")) return true;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9'; ++*at, unit /= 10) *ns += (**at - '0') * unit;
    return *at > first && *at - first <= 9;
}

/* "Z", "+00:00", "-0730" or nothing: seconds to take away. */
static bool offset(const char **at, int64_t *seconds)
{
    int64_t hours, minutes;
    *seconds = 0;
    if (!**at || word(at, "Z")) return true;
    const bool west = **at == '-';
    if (!word(at, "+-") || !digits(at, 2, &hours)) return false;
    word(at, ":");
    if (!digits(at, 2, &minutes) || hours > 23 || minutes > 59) return false;
    *seconds = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

bool luo_import_time(const char *text, int64_t *ns)
{
    enum { FIRST = 1970, LAST = 2261, DAY = 86400 }; /* what 64 bits of nanoseconds hold */
    int64_t year, month, day, hour, minute, second, part, away;
    const char *at = text;
    if (!digits(&at, 4, &year) || !word(&at, "-") || !digits(&at, 2, &month) || !word(&at, "-") ||
        !digits(&at, 2, &day) || !word(&at, " T") || !digits(&at, 2, &hour) || !word(&at, ":") ||
        !digits(&at, 2, &minute) || !word(&at, ":") || !digits(&at, 2, &second) ||
        !fraction(&at, &part) || !offset(&at, &away) || *at)
        return false;
    if (year < FIRST || year > LAST || month < 1 || month > 12 || day < 1 ||
        day > days_of(year, month) || hour > 23 || minute > 59 || second > 59)
        return false;
    *ns = (days_to(year, month, day) * DAY + hour * 3600 + minute * 60 + second - away) *
              INT64_C(1000000000) +
          part;
    return true;
}
