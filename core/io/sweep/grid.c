/* grid.c: keys and their values, and which cell has which. */
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"
#include "core/io/json_number.h"
#include "core/io/sweep/sweep.h"

/* ---- values ---- */

typedef struct values {
    int64_t n, cap;
    const char **at;
} values;

/* Length of the value at text: up to a comma outside of brackets, braces and quotes. */
static size_t value_length(const char *text)
{
    int depth = 0;
    char quote = 0;
    size_t n = 0;
    for (; text[n] && (text[n] != ',' || depth > 0 || quote); n++) {
        const char c = text[n];
        if (quote) {
            if (c == quote) quote = 0;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else {
            depth += c == '[' || c == '{';
            depth -= c == ']' || c == '}';
        }
    }
    return n;
}

/* LO:HI or LO:HI:STEP, all of them numbers. */
static bool is_range(const char *text, size_t n, double out[3])
{
    int parts = 0;
    out[2] = 1;
    for (size_t at = 0; at <= n && parts < 3; parts++) {
        const char *colon = memchr(text + at, ':', n - at);
        const size_t end = colon ? (size_t)(colon - text) : n;
        if (!luo_json_number_float(text + at, end - at, &out[parts])) return false;
        at = end + 1;
        if (!colon) return parts > 0;
    }
    return false;
}

/* How many values a range has; 0: none, or more than can be counted. */
static int64_t count_range(const double range[3])
{
    const double n = floor((range[1] - range[0]) / range[2] * (1 + 1e-12) + 1e-9);
    return range[2] > 0 && range[1] >= range[0] && n < 1e15 ? (int64_t)n + 1 : 0;
}

static const char *print_number(luo_arena *arena, double v)
{
    return luo_arena_printf(arena, "%.12g", v == 0 ? 0 : v); /* never "-0" */
}

static luo_status add_value(luo_arena *arena, values *v, const char *text, luo_err *err)
{
    if (!text || !LUO_VEC_ROOM_IN(arena, v->at, v->n, v->cap)) return luo_err_nomem(err);
    v->at[v->n++] = text;
    return LUO_OK;
}

static luo_status wrong(luo_err *err, const char *option, const char *text, const char *why)
{
    return luo_err_set(err, LUO_EUSAGE,
                       "`--%s` is `%.200s`: %s; KEY=VALUE,VALUE or KEY=LO:HI:STEP is expected.",
                       option, text, why);
}

static const char too_many[] = "a key has over 100000 values";

static luo_status add_range(luo_arena *arena, values *v, const double range[3], const char *option,
                            const char *all, luo_err *err)
{
    const int64_t n = count_range(range);
    if (n == 0) return wrong(err, option, all, "a range does not rise, or its step");
    if (n > LUO_SWEEP_VALUES - v->n) return wrong(err, option, all, too_many);
    for (int64_t i = 0; i < n; i++)
        LUO_TRY(add_value(arena, v, print_number(arena, range[0] + (double)i * range[2]), err));
    return LUO_OK;
}

static luo_status read_values(luo_arena *arena, values *v, const char *option, const char *all,
                              const char *list, luo_err *err)
{
    for (const char *at = list;; at++) {
        const size_t n = value_length(at);
        double range[3];
        if (n == 0) return wrong(err, option, all, "a value is empty");
        if (v->n >= LUO_SWEEP_VALUES) return wrong(err, option, all, too_many);
        LUO_TRY(is_range(at, n, range) ? add_range(arena, v, range, option, all, err)
                                       : add_value(arena, v, luo_arena_strndup(arena, at, n), err));
        at += n;
        if (!*at) return LUO_OK;
    }
}

/* ---- keys ---- */

/* Values that are equal would be one cell twice. */
static luo_status check_key(const luo_sweep_grid *grid, const char *option, const char *all,
                            const luo_sweep_key *key, luo_err *err)
{
    luo_map seen = {0};
    luo_status st = LUO_OK;
    if (grid->nkeys == LUO_SWEEP_KEYS) return wrong(err, option, all, "16 keys are swept already");
    for (int32_t k = 0; k < grid->nkeys; k++)
        if (strcmp(grid->key[k].name, key->name) == 0)
            return wrong(err, option, all, "the key is swept already");
    for (int64_t i = 0; st == LUO_OK && key->text && i < key->n; i++) {
        int64_t *hit = luo_map_at(&seen, luo_hash_str(LUO_HASH_EMPTY, key->text[i]), -1);
        if (!hit)
            st = luo_err_nomem(err);
        else if (*hit >= 0 && strcmp(key->text[*hit], key->text[i]) == 0)
            st = wrong(err, option, all, "a value stands there twice");
        else
            *hit = i;
    }
    luo_map_free(&seen);
    return st;
}

luo_status luo_sweep_add_key(luo_arena *arena, luo_sweep_grid *grid, const char *option,
                             const char *text, bool range, luo_err *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return wrong(err, option, text, "there is no key with a `=`");
    luo_sweep_key key = {.name = luo_arena_strndup(arena, text, (size_t)(equals - text))};
    values v = {0};
    double r[3];
    if (!key.name) return luo_err_nomem(err);
    if (range) {
        if (!is_range(equals + 1, strlen(equals + 1), r) || count_range(r) == 0)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is `%.200s`; KEY=LO:HI or KEY=LO:HI:STEP with numbers that "
                               "rise is expected.",
                               option, text);
        key.n = count_range(r);
        key.lo = r[0];
        key.step = r[2];
    } else {
        LUO_TRY(read_values(arena, &v, option, text, equals + 1, err));
        key.n = v.n;
        key.text = v.at;
    }
    LUO_TRY(check_key(grid, option, text, &key, err));
    grid->key[grid->nkeys++] = key;
    return LUO_OK;
}

luo_status luo_sweep_add_files(luo_arena *arena, luo_sweep_grid *grid, const char *option,
                               const char *key, const char *text,
                               const char *(*set)(luo_arena *arena, const char *path), luo_err *err)
{
    values files = {0}, sets = {0};
    for (const char *at = text;; at++) {
        const size_t n = value_length(at);
        const char *file = luo_arena_strndup(arena, at, n);
        if (n == 0)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is `%.200s`: a name is empty; FILE,FILE is expected.",
                               option, text);
        LUO_TRY(add_value(arena, &files, file, err));
        LUO_TRY(add_value(arena, &sets, set(arena, file), err));
        at += n;
        if (!*at) break;
    }
    const luo_sweep_key one = {.name = key, .n = files.n, .text = files.at, .set = sets.at};
    LUO_TRY(check_key(grid, option, text, &one, err));
    grid->key[grid->nkeys++] = one;
    return LUO_OK;
}

/* ---- cells ---- */

luo_status luo_sweep_count(const luo_sweep_grid *grid, int64_t *cells, luo_err *err)
{
    *cells = 1;
    for (int32_t k = 0; k < grid->nkeys; k++) {
        *cells *= grid->key[k].n;
        if (grid->key[k].text && *cells > LUO_SWEEP_UNITS / (grid->nseeds > 0 ? grid->nseeds : 1))
            return luo_err_set(err, LUO_EUSAGE,
                               "values of the keys and seeds make more than %d runs; fewer are "
                               "expected.",
                               LUO_SWEEP_UNITS);
    }
    return LUO_OK;
}

int64_t luo_sweep_pick(const luo_sweep_grid *grid, int64_t cell, int32_t k)
{
    for (int32_t i = grid->nkeys - 1; i > k; i--) cell /= grid->key[i].n;
    return cell % grid->key[k].n;
}

const char *luo_sweep_value(luo_arena *arena, const luo_sweep_key *key, int64_t i)
{
    return key->text ? key->text[i] : print_number(arena, key->lo + (double)i * key->step);
}

double luo_sweep_number(const luo_sweep_key *key, int64_t i)
{
    double v = NAN;
    if (!key->text) return key->lo + (double)i * key->step;
    return luo_json_number_float(key->text[i], strlen(key->text[i]), &v) ? v : NAN;
}

bool luo_sweep_numeric(const luo_sweep_key *key)
{
    for (int64_t i = 0; key->text && i < key->n; i++)
        if (isnan(luo_sweep_number(key, i))) return false;
    return true;
}

luo_status luo_sweep_overrides(luo_arena *arena, const luo_sweep_grid *grid, int64_t cell,
                               const char **out, luo_err *err)
{
    for (int32_t k = 0; k < grid->nkeys; k++) {
        const luo_sweep_key *key = &grid->key[k];
        const int64_t i = luo_sweep_pick(grid, cell, k);
        const char *value = key->set ? key->set[i] : luo_sweep_value(arena, key, i);
        out[k] = value ? luo_arena_printf(arena, "%s=%s", key->name, value) : NULL;
        if (!out[k]) return luo_err_nomem(err);
    }
    return LUO_OK;
}
