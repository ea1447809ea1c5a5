/* definition.c: sweep.json: all that the rows of a sweep depend on, by which it is known again. */
#include <string.h>

#include "core/io/sweep/sweep.h"

static bool names_file(const luo_sweep_key *key)
{
    return key->set || strcmp(key->name, "cluster") == 0 || strcmp(key->name, "model") == 0 ||
           strcmp(key->name, "plan") == 0;
}

/* 0: it cannot be read, which its rows say. */
static uint64_t hash_file(luo_arena *arena, const char *path)
{
    luo_source src;
    const size_t mark = luo_arena_mark(arena);
    uint64_t hash = 0;
    if (path && luo_source_read(arena, path, &src, NULL) == LUO_OK) hash = luo_source_hash(&src);
    luo_arena_reset(arena, mark);
    return hash;
}

static luo_status put_key(luo_arena *arena, const luo_sweep_key *key, const char *path,
                          luo_jsonw *json, luo_err *err)
{
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_text(json, "key", key->name);
    if (!key->text) {
        luo_jsonw_num(json, "lo", key->lo, 9);
        luo_jsonw_num(json, "step", key->step, 9);
        luo_jsonw_int(json, "n", key->n);
    } else {
        luo_jsonw_open(json, "values", '[');
        for (int64_t i = 0; i < key->n; i++) luo_jsonw_text(json, NULL, key->text[i]);
        luo_jsonw_close(json);
    }
    if (key->text && names_file(key)) {
        luo_jsonw_open(json, "hashes", '[');
        for (int64_t i = 0; i < key->n; i++) {
            const char *file =
                key->set ? key->set[i] : luo_file_path_join(arena, path, key->text[i]);
            if (!file) return luo_err_nomem(err);
            luo_jsonw_hash(json, NULL, hash_file(arena, file));
        }
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    return LUO_OK;
}

luo_status luo_sweep_define(luo_arena *arena, const luo_sweep_grid *grid,
                            const luo_sweep_definition *definition, luo_str *out, luo_err *err)
{
    luo_jsonw json = luo_jsonw_start(out);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", LUO_SWEEP_SCHEMA);
    luo_jsonw_text(&json, "version", definition->version);
    luo_jsonw_text(&json, "scenario", definition->scenario);
    luo_jsonw_hash(&json, "scenario_hash", definition->scenario_hash);
    luo_jsonw_open(&json, "settings", '[');
    for (int32_t i = 0; i < definition->nsettings; i++)
        luo_jsonw_text(&json, NULL, definition->settings[i]);
    luo_jsonw_close(&json);
    luo_jsonw_open(&json, "keys", '[');
    for (int32_t k = 0; k < grid->nkeys; k++)
        LUO_TRY(put_key(arena, &grid->key[k], definition->path, &json, err));
    luo_jsonw_close(&json);
    luo_jsonw_open(&json, "seeds", '[');
    for (int32_t i = 0; i < grid->nseeds; i++) luo_jsonw_text(&json, NULL, grid->seed[i]);
    luo_jsonw_close(&json);
    luo_jsonw_close(&json);
    luo_str_addc(out, '\n');
    return out->failed ? luo_err_nomem(err) : LUO_OK;
}
