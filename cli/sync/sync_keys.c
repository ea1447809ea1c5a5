#include "cli/sync/sync_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/sync/embed/zipf.h"

#define FORM "`zipf:theta=1.05,vocab=1e6,batch=32,slots=26` or a part of it is expected."

static const struct {
    const char *name;
    double least, most;
} parts[] = {{"theta", 0, 100}, {"vocab", 1, LUO_ZIPF_VOCAB}, {"batch", 1, 1e7}, {"slots", 1, 1e4}};
enum { THETA, VOCAB, BATCH, SLOTS, PARTS };

/* Index of the part that stands at *at, which moves behind its `=`; PARTS: it is none. */
static int part_at(const char **at)
{
    for (int i = 0; i < PARTS; i++) {
        const size_t n = strlen(parts[i].name);
        if (strncmp(*at, parts[i].name, n) != 0 || (*at)[n] != '=') continue;
        *at += n + 1;
        return i;
    }
    return PARTS;
}

luo_status luo_sync_keys_parse(const char *text, luo_sync_keys *out, luo_err *err)
{
    double v[PARTS] = {[THETA] = 1.05, [VOCAB] = 1e6, [BATCH] = 32, [SLOTS] = 26};
    bool given[PARTS] = {false};
    const char *at = text + 4;
    if (strncmp(text, "zipf", 4) != 0 || (*at && *at != ':'))
        return luo_err_set(err, LUO_EUSAGE, "`--keys` is `%s`; " FORM, text);
    while (*at == ':' || *at == ',') {
        char *end;
        at++;
        const int i = part_at(&at);
        if (i == PARTS || given[i])
            return luo_err_set(err, LUO_EUSAGE, "`--keys` is `%s`; " FORM, text);
        v[i] = strtod(at, &end);
        if (end == at || !(v[i] >= parts[i].least && v[i] <= parts[i].most) ||
            (i != THETA && v[i] != floor(v[i])))
            return luo_err_set(
                err, LUO_EUSAGE, "`--keys` is `%s`; its %s is a %snumber from %g to %g.", text,
                parts[i].name, i == THETA ? "" : "whole ", parts[i].least, parts[i].most);
        given[i] = true;
        at = end;
    }
    if (*at) return luo_err_set(err, LUO_EUSAGE, "`--keys` is `%s`; " FORM, text);
    *out = (luo_sync_keys){v[THETA], (int64_t)v[VOCAB], (int64_t)v[BATCH], (int64_t)v[SLOTS]};
    return LUO_OK;
}
