#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/checkpoint/checkpoint_info.h"
#include "core/io/files.h"
#include "exec/state/checkpoint.h"
#include "exec/state/state_internal.h"

static const char model_name[] = "model.safetensors", moments_name[] = "optimizer.safetensors",
                  info_name[] = "state.json", config_name[] = "config.json";

static const char *precision_of(const luo_state *state)
{
    return state->elem == sizeof(float) ? "f32" : "f64";
}

/* NULL: out of memory. */
static const char *in_folder(luo_arena *arena, const char *dir, const char *name)
{
    return luo_arena_printf(arena, "%s/%s", dir, name);
}

/* ---- saving ---- */

typedef struct save {
    const luo_state *s;
    const luo_model *model;
    const luo_gather *gather;
    luo_arena *arena;
    luo_str temporary; /* the writer's folder */
    bool parted;
} save;

static luo_status save_file(save *v, const char *name, const luo_array *which, int32_t n,
                            luo_err *err)
{
    const char *path = in_folder(v->arena, luo_str_get(&v->temporary), name);
    /* Without a path the writer fails, but takes part. */
    return luo_state_save(v->s, v->model, path ? path : "", which, n, v->gather, &v->parted, err);
}

static luo_status save_info(save *v, uint64_t seed, const char *data, uint64_t plan_hash,
                            luo_err *err)
{
    const luo_checkpoint_info info = {.step = v->s->step,
                                      .seed = seed,
                                      .plan_hash = plan_hash,
                                      .data = data,
                                      .precision = precision_of(v->s),
                                      .model = *v->model};
    const char *path = in_folder(v->arena, v->temporary.at, info_name);
    luo_str text = {0};
    luo_checkpoint_info_json(&text, &info);
    const luo_status st = text.failed || !path
                              ? luo_err_nomem(err)
                              : luo_file_write_own(path, text.at, text.len, err);
    luo_str_free(&text);
    return st;
}

/* Beside the weights, for a model that a Hugging Face type is. */
static luo_status save_config(save *v, luo_err *err)
{
    const luo_hf_layout *layout;
    const char *path = in_folder(v->arena, v->temporary.at, config_name);
    luo_str text = {0};
    luo_status st = path ? luo_hf_config(v->model, v->s->elem == 4 ? LUO_F32 : LUO_F64, &text,
                                         &layout, err)
                         : luo_err_nomem(err);
    if (st == LUO_OK && text.failed) st = luo_err_nomem(err);
    if (st == LUO_OK && text.len) st = luo_file_write_own(path, text.at, text.len, err);
    luo_str_free(&text);
    return st;
}

/* The first error counts, but both files are gathered by all ranks. */
static luo_status save_files(save *v, const char *dir, luo_err *err)
{
    static const luo_array weights[] = {LUO_ARRAY_WEIGHT}, moments[] = {LUO_ARRAY_M, LUO_ARRAY_V};
    luo_err second;
    luo_status st = LUO_OK, next;
    if (v->gather->writer) st = luo_checkpoint_begin(dir, v->s->step, &v->temporary, err);
    next = save_file(v, model_name, weights, 1, st == LUO_OK ? err : &second);
    if (st == LUO_OK) st = next;
    if (v->parted || next == LUO_EUNREP) return st;
    next = save_file(v, moments_name, moments, 2, st == LUO_OK ? err : &second);
    return st == LUO_OK ? next : st;
}

luo_status luo_checkpoint_save(const luo_state *state, const luo_model *model, const char *dir,
                               uint64_t seed, const char *data, uint64_t plan_hash, int32_t keep,
                               const luo_gather *gather, luo_err *err)
{
    save v = {.s = state, .model = model, .gather = gather, .arena = luo_arena_new(0)};
    if (!v.arena) return luo_err_nomem(err);
    luo_status st = save_files(&v, dir, err);
    if (gather->writer) {
        if (st == LUO_OK) st = save_config(&v, err);
        if (st == LUO_OK) st = save_info(&v, seed, data, plan_hash, err);
        if (st == LUO_OK) st = luo_checkpoint_commit(dir, state->step, v.temporary.at, err);
        if (st != LUO_OK && v.temporary.at) luo_checkpoint_discard(v.temporary.at);
        if (st == LUO_OK && keep > 0) luo_checkpoint_prune(dir, state->step, keep - 1);
    }
    luo_str_free(&v.temporary);
    luo_arena_free(v.arena);
    return st;
}

/* ---- loading ---- */

static luo_status fill_from(luo_arena *arena, luo_state *state, const luo_model *model,
                            const char *path, const luo_array *which, int32_t n, luo_share share,
                            luo_err *err)
{
    luo_tensor_file file;
    if (!path) return luo_err_nomem(err);
    luo_status st = luo_tensor_file_open(arena, path, &file, err);
    if (st != LUO_OK) return st;
    st = luo_tensor_file_verify(&file, share, err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++)
        st = luo_state_fill(state, model, &file, which[i], err);
    luo_tensor_file_close(&file);
    return st;
}

static luo_status load(luo_arena *arena, luo_state *state, const luo_model *model, const char *dir,
                       luo_share share, luo_err *err)
{
    static const luo_array weights[] = {LUO_ARRAY_WEIGHT}, moments[] = {LUO_ARRAY_M, LUO_ARRAY_V};
    luo_checkpoint_info info;
    const char *path = in_folder(arena, dir, info_name);
    if (!path) return luo_err_nomem(err);
    LUO_TRY(luo_checkpoint_info_read(arena, path, &info, err));
    LUO_TRY(luo_err_at(err, luo_checkpoint_same_model(&info.model, model, err), path, 0, 0));
    if (strcmp(info.precision, precision_of(state)) != 0) {
        luo_err_set(err, LUO_EINPUT, "the checkpoint is in %s; this run computes in %s.",
                    info.precision, precision_of(state));
        return luo_err_at(err, LUO_EINPUT, path, 0, 0);
    }
    LUO_TRY(
        fill_from(arena, state, model, in_folder(arena, dir, model_name), weights, 1, share, err));
    LUO_TRY(fill_from(arena, state, model, in_folder(arena, dir, moments_name), moments, 2, share,
                      err));
    state->step = info.step;
    return LUO_OK;
}

luo_status luo_checkpoint_load(luo_state *state, const luo_model *model, const char *dir,
                               luo_share share, luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_status st = arena ? load(arena, state, model, dir, share, err) : luo_err_nomem(err);
    luo_arena_free(arena);
    return st;
}

/* ---- finding ---- */

/* Both files are there and as long as their heads say, and state.json tells the step. */
static luo_status check_whole(luo_arena *arena, const char *dir, int64_t *step, luo_err *err)
{
    const char *const names[] = {model_name, moments_name};
    const char *path = in_folder(arena, dir, info_name);
    luo_checkpoint_info info;
    luo_tensor_file file;
    if (!path) return luo_err_nomem(err);
    const luo_status st = luo_checkpoint_info_read(arena, path, &info, err);
    if (st == LUO_ENOMEM) return st;
    if (st != LUO_OK && err->line > 0)
        return luo_err_prefix(err, st, "`%s:%d:%d`", path, err->line, err->col);
    if (st != LUO_OK) return luo_err_prefix(err, st, "`%s`", path);
    for (int i = 0; i < 2; i++) {
        path = in_folder(arena, dir, names[i]);
        if (!path) return luo_err_nomem(err);
        LUO_TRY(luo_tensor_file_open(arena, path, &file, err));
        luo_tensor_file_close(&file);
    }
    *step = info.step;
    return LUO_OK;
}

luo_status luo_checkpoint_pass(luo_arena *arena, luo_found *found, const char *path,
                               const char *why, luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(arena, found->passed, found->npassed, found->cap))
        return luo_err_nomem(err);
    luo_passed *passed = &found->passed[found->npassed];
    *passed = (luo_passed){luo_arena_strdup(arena, path), luo_arena_strdup(arena, why)};
    if (!passed->path || !passed->why) return luo_err_nomem(err);
    found->npassed++;
    return LUO_OK;
}

static luo_status try_folder(luo_arena *arena, const char *path, int64_t named, int64_t until,
                             luo_found *out, luo_err *err)
{
    luo_err why;
    int64_t step = 0;
    luo_status st = check_whole(arena, path, &step, &why);
    if (st == LUO_ENOMEM) return luo_err_nomem(err);
    if (st == LUO_OK && named >= 0 && step != named)
        st = luo_err_set(&why, LUO_EINPUT, "`%s` holds step %lld; its name says %lld.", path,
                         (long long)step, (long long)named);
    if (st != LUO_OK) return luo_checkpoint_pass(arena, out, path, why.text, err);
    if (step <= until) {
        out->path = path;
        out->step = step;
        out->named = named < 0;
    }
    return LUO_OK;
}

static luo_status find_in(luo_arena *arena, const char *dir, int64_t until, luo_found *out,
                          luo_err *err)
{
    int64_t *steps;
    int32_t n;
    const char *own = in_folder(arena, dir, info_name), *whole = luo_arena_strdup(arena, dir);
    if (!own || !whole) return luo_err_nomem(err);
    if (access(own, F_OK) == 0) return try_folder(arena, whole, -1, until, out, err);
    LUO_TRY(luo_checkpoint_list(arena, dir, &steps, &n, err));
    for (int32_t i = 0; !out->path && i < n; i++) {
        const char *path = luo_arena_printf(arena, "%s/step-%06lld", dir, (long long)steps[i]);
        if (!path) return luo_err_nomem(err);
        if (steps[i] <= until)
            LUO_TRY(try_folder(arena, path, steps[i], until, out, err));
    }
    return LUO_OK;
}

static luo_status none(const luo_found *found, const char *dir, int64_t limit, luo_err *err)
{
    char until[40] = "";
    if (limit < INT64_MAX)
        snprintf(until, sizeof until, " of up to %lld steps", (long long)limit);
    if (found->npassed > 0)
        return luo_err_set(err, LUO_EINPUT, "`%s` holds no whole checkpoint%s: %s", dir, until,
                           found->passed[0].why);
    return luo_err_set(err, LUO_EINPUT,
                       "`%s` holds no checkpoint%s; a folder `step-N`, or one of such folders, is "
                       "expected.",
                       dir, until);
}

luo_status luo_checkpoint_find(luo_arena *arena, const char *dir, int64_t until, luo_found *out,
                               luo_err *err)
{
    out->path = NULL;
    luo_status st = find_in(arena, dir, until, out, err);
    if (st == LUO_EIO) { /* a folder that the user named */
        st = LUO_EINPUT;
        if (err) err->st = st;
    }
    return st == LUO_OK && !out->path ? none(out, dir, until, err) : st;
}
