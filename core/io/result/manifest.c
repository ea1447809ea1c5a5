/* config/ and manifest.json of a run directory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/io/builtin.h"
#include "core/io/document/doc.h"
#include "core/io/document/input.h"
#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/jsonw.h"
#include "core/io/result/rundir_internal.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* NAME, or 2-NAME .. when an earlier input has that name. */
static void config_name(const luo_rundir *dir, int32_t k, luo_str *out)
{
    int32_t same = 1;
    for (int32_t i = 0; i < k; i++)
        same += strcmp(base_name(dir->opts.inputs[i]), base_name(dir->opts.inputs[k])) == 0;
    if (same > 1) luo_str_addf(out, "%d-", same);
    luo_str_add(out, base_name(dir->opts.inputs[k]));
}

static luo_status hash_file(const char *path, luo_rundir_input *in, luo_err *err)
{
    unsigned char block[1 << 15];
    luo_source part; /* of the program */
    ssize_t n;
    int fd;
    if (luo_builtin_get(path, &part)) {
        in->hash = luo_hash_bytes(LUO_HASH_EMPTY, part.text, part.len);
        in->bytes = (int64_t)part.len;
        return LUO_OK;
    }
    LUO_TRY(luo_input_open(path, LUO_INPUT_READ, "a readable file", &fd, err));
    in->hash = LUO_HASH_EMPTY;
    while ((n = read(fd, block, sizeof block)) > 0) {
        in->hash = luo_hash_bytes(in->hash, block, (size_t)n);
        in->bytes += (int64_t)n;
    }
    const luo_status st = n < 0 ? luo_input_unreadable(path, err) : LUO_OK;
    close(fd);
    return st;
}

static luo_status copy_input(luo_rundir *dir, int32_t k, luo_err *err)
{
    const char *path = dir->opts.inputs[k];
    luo_rundir_input *in = &dir->inputs[k];
    LUO_TRY(hash_file(path, in, err));
    if (in->bytes >= (int64_t)LUO_FILE_BYTES) return LUO_OK;
    const size_t mark = luo_arena_mark(dir->scratch);
    luo_source src;
    luo_str to = {0};
    luo_str_addf(&to, "%s/config/", dir->dir);
    config_name(dir, k, &to);
    luo_status st =
        to.failed ? luo_err_nomem(err) : luo_files_get(NULL, dir->scratch, path, &src, err);
    if (st == LUO_OK) st = luo_file_write_own(to.at, src.text, src.len, err);
    in->copied = st == LUO_OK;
    luo_str_free(&to);
    luo_arena_reset(dir->scratch, mark);
    return st;
}

luo_status luo_rundir_config(luo_rundir *rundir, luo_err *err)
{
    luo_str dir = {0};
    luo_str_addf(&dir, "%s/config", rundir->dir);
    luo_status st = dir.failed ? luo_err_nomem(err) : luo_file_make_own_dir(dir.at, err);
    luo_str_free(&dir);
    for (int32_t k = 0; st == LUO_OK && k < rundir->opts.ninputs; k++)
        st = copy_input(rundir, k, err);
    return st;
}

static void texts(luo_jsonw *json, const char *key, const char *const *at, int32_t n)
{
    luo_jsonw_open(json, key, '[');
    for (int32_t i = 0; i < n; i++) luo_jsonw_text(json, NULL, at[i]);
    luo_jsonw_close(json);
}

static void inputs(luo_jsonw *json, const luo_rundir *dir)
{
    luo_jsonw_open(json, "inputs", '[');
    for (int32_t k = 0; k < dir->opts.ninputs; k++) {
        luo_str name = {0};
        luo_str_add(&name, "config/");
        config_name(dir, k, &name);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "path", dir->opts.inputs[k]);
        luo_jsonw_text(json, "copy", dir->inputs[k].copied ? luo_str_get(&name) : NULL);
        luo_jsonw_int(json, "bytes", dir->inputs[k].bytes);
        luo_jsonw_hash(json, "hash", dir->inputs[k].hash);
        luo_jsonw_close(json);
        luo_str_free(&name);
    }
    luo_jsonw_close(json);
}

static void facts(luo_jsonw *json, const luo_fact *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++) luo_jsonw_text(json, at[i].name, at[i].value);
}

static void plans(luo_jsonw *json, const luo_rundir *dir)
{
    luo_jsonw_open(json, "plans", '[');
    for (int32_t i = 0; i < dir->nplans; i++) {
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_hash(json, "hash", dir->plans[i].hash);
        luo_jsonw_hash(json, "program_hash", dir->plans[i].program_hash);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

/* Of a run of a job, which one, and whether it ran without the others. */
static void job(luo_jsonw *json, const luo_rundir_opts *opts)
{
    const luo_scenario *scenario = opts->scenario;
    for (int32_t i = 0; i < scenario->npolicies; i++) {
        const luo_policy_spec *spec = &scenario->policies[i];
        if (spec->job == 0 || strcmp(spec->label, opts->policy) != 0) continue;
        luo_jsonw_text(json, "job", scenario->jobs[spec->job - 1].name);
        luo_jsonw_bool(json, "alone", spec->alone);
    }
}

luo_status luo_rundir_manifest(const luo_rundir *dir, luo_run_state state, int exit_code,
                               luo_err *err)
{
    const luo_rundir_opts *opts = &dir->opts;
    luo_str text = {0}, path = {0};
    luo_jsonw json = luo_jsonw_start(&text);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", "luoshu.manifest/1");
    luo_jsonw_text(&json, "state", luo_run_state_name(state));
    luo_jsonw_text(&json, "luoshu", opts->version);
    facts(&json, opts->facts, opts->nfacts);
    luo_jsonw_open(&json, "libraries", '{');
    facts(&json, opts->libraries, opts->nlibraries);
    luo_jsonw_close(&json);
    luo_jsonw_text(&json, "backend", opts->backend);
    luo_jsonw_text(&json, "policy", opts->policy);
    job(&json, opts);
    luo_jsonw_text(&json, "scenario", opts->scenario->name);
    texts(&json, "argv", opts->argv, opts->argc);
    texts(&json, "overrides", opts->overrides, opts->noverrides);
    luo_jsonw_seed(&json, "seed", opts->scenario->seed);
    luo_jsonw_hash(&json, "scenario_hash", opts->scenario->hash);
    plans(&json, dir);
    inputs(&json, dir);
    luo_jsonw_num(&json, "wall_s", opts->wall_s ? opts->wall_s(opts->ctx) - dir->wall_open : 0, 3);
    if (state != LUO_RUNNING) luo_jsonw_int(&json, "exit", exit_code);
    if (dir->why) luo_jsonw_text(&json, "error", dir->why);
    luo_jsonw_close(&json);
    luo_str_addf(&path, "%s/manifest.json", dir->dir);
    const luo_status st = text.failed || path.failed
                              ? luo_err_nomem(err)
                              : luo_file_write_own(path.at, text.at, text.len, err);
    luo_str_free(&text);
    luo_str_free(&path);
    return st;
}

/* ---- the manifest of who ended without a word ---- */

static void put_value(luo_jsonw *json, const char *key, const luo_doc_node *node)
{
    if (node->type == LUO_DOC_SCALAR && node->quoted) luo_jsonw_text(json, key, node->text);
    if (node->type == LUO_DOC_SCALAR && !node->quoted) luo_jsonw_word(json, key, node->text);
    if (node->type == LUO_DOC_SCALAR) return;
    luo_jsonw_open(json, key, node->type == LUO_DOC_MAP ? '{' : '[');
    for (const luo_doc_node *y = node->first; y; y = y->next) put_value(json, y->key, y);
    luo_jsonw_close(json);
}

static void put_ended(luo_str *out, const luo_doc_node *manifest, luo_run_state state,
                      int exit_code, const char *error)
{
    luo_jsonw json = luo_jsonw_start(out);
    luo_jsonw_open(&json, NULL, '{');
    for (const luo_doc_node *node = manifest->first; node; node = node->next) {
        if (strcmp(node->key, "state") == 0)
            luo_jsonw_text(&json, node->key, luo_run_state_name(state));
        else if (strcmp(node->key, "exit") != 0 && strcmp(node->key, "error") != 0)
            put_value(&json, node->key, node);
    }
    luo_jsonw_int(&json, "exit", exit_code);
    luo_jsonw_text(&json, "error", error);
    luo_jsonw_close(&json);
}

/* arena: scratch. A manifest that cannot be read stays as it is. */
static luo_status end_manifest(luo_arena *arena, const char *path, luo_run_state state,
                               int exit_code, const char *error, luo_err *err)
{
    luo_source src;
    const luo_doc_node *manifest = NULL;
    luo_str text = {0};
    if (luo_source_read(arena, path, &src, NULL) != LUO_OK) return LUO_OK;
    if (luo_doc_tree(arena, src.text, src.len, &manifest, NULL) != LUO_OK) return LUO_OK;
    const char *was = luo_doc_text(manifest, "state");
    if (!was || luo_run_state_find(was) != LUO_RUNNING) return LUO_OK;
    put_ended(&text, manifest, state, exit_code, error);
    const luo_status st = text.failed ? luo_err_nomem(err)
                                      : luo_file_write_own(path, text.at, text.len, err);
    luo_str_free(&text);
    return st;
}

luo_status luo_rundir_ended(const char *dir, luo_run_state state, int exit_code, const char *error,
                            luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    const char *path = arena ? luo_arena_printf(arena, "%s/manifest.json", dir) : NULL;
    const luo_status st = path ? end_manifest(arena, path, state, exit_code, error, err)
                               : luo_err_nomem(err);
    luo_arena_free(arena);
    return st;
}
