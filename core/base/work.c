#include "core/base/work.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/words.h"

static const struct {
    const char *name, *unit, *bounds;
    int64_t otherwise, highest;
} table[LUO_WORKS] = {
#define ROW(id, name, most, highest, unit, bounds) [id] = {name, unit, bounds, most, highest},
    LUO_WORK_LIST(ROW)
#undef ROW
};

const char *luo_work_name(luo_work_id id)
{
    return table[id].name;
}

const char *luo_work_unit(luo_work_id id)
{
    return table[id].unit;
}

const char *luo_work_bounds(luo_work_id id)
{
    return table[id].bounds;
}

int64_t luo_work_default(luo_work_id id)
{
    return table[id].otherwise;
}

int64_t luo_work_most(const luo_work *limits, luo_work_id id)
{
    return limits && limits->most[id] > 0 ? limits->most[id] : table[id].otherwise;
}

luo_status luo_work_check(const luo_work *limits, luo_work_id id, double asked, const char *subject,
                          luo_err *err)
{
    const int64_t most = luo_work_most(limits, id);
    if (asked <= (double)most) return LUO_OK;
    if (asked > (double)table[id].highest)
        return luo_err_set(err, LUO_E2BIG, "%s %.6g %s; no more than %" PRId64 " are taken.",
                           subject, asked, table[id].unit, table[id].highest);
    return luo_err_set(err, LUO_E2BIG, "%s %.0f %s; limit `%s` (%s) is %" PRId64 ", and `--limit "
                       "%s=%.0f` raises it.", subject, ceil(asked), table[id].unit, table[id].name,
                       table[id].bounds, most, table[id].name, ceil(asked));
}

luo_status luo_work_over(const luo_work *limits, luo_work_id id, const char *subject, luo_err *err)
{
    const int64_t most = luo_work_most(limits, id);
    return luo_err_set(err, LUO_E2BIG, "%s more than %" PRId64 " %s; limit `%s` (%s) is %" PRId64
                       ", and `--limit %s=VALUE` raises it.", subject, most, table[id].unit,
                       table[id].name, table[id].bounds, most, table[id].name);
}

static luo_status unknown(const char *text, size_t n, luo_err *err)
{
    const char *names[LUO_WORKS];
    char word[64];
    luo_str s = {0};
    for (int i = 0; i < LUO_WORKS; i++) names[i] = table[i].name;
    if (n >= sizeof word) n = sizeof word - 1;
    memcpy(word, text, n);
    word[n] = 0;
    luo_words_expected(&s, word, names, LUO_WORKS);
    luo_err_set(err, LUO_EUSAGE, "there is no limit `%s`; %s", word, luo_str_get(&s));
    luo_str_free(&s);
    return LUO_EUSAGE;
}

luo_status luo_work_set(luo_work *limits, const char *text, luo_err *err)
{
    const char *eq = strchr(text, '=');
    const size_t n = eq ? (size_t)(eq - text) : strlen(text);
    int id = 0;
    while (id < LUO_WORKS && (strlen(table[id].name) != n || memcmp(table[id].name, text, n) != 0))
        id++;
    if (id == LUO_WORKS) return unknown(text, n, err);
    char *end = NULL;
    const char *value = eq ? eq + 1 : "";
    const long long v = strtoll(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || v < 1 || v > table[id].highest)
        return luo_err_set(err, LUO_EUSAGE, "`--limit %.60s` is not of the form %s=VALUE with a "
                           "whole number from 1 to %" PRId64 ".", text, table[id].name,
                           table[id].highest);
    limits->most[id] = v;
    return LUO_OK;
}
