#include "exec/state/state.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/checkpoint/checkpoint_info.h"
#include "exec/bind/cells.h"
#include "exec/state/state_internal.h"

void *luo_piece_array(const luo_piece *piece, luo_array which, const luo_frame **frame)
{
    *frame = which == LUO_ARRAY_WEIGHT ? &piece->weight_frame : &piece->state_frame;
    return which == LUO_ARRAY_WEIGHT ? piece->weight : which == LUO_ARRAY_M ? piece->m : piece->v;
}

const char *luo_array_suffix(luo_array which)
{
    static const char *const suffix[] = {"", ".exp_avg", ".exp_avg_sq"};
    return suffix[which];
}

/* ---- out of files ---- */

typedef struct taker { /* one parameter of a file into one array */
    const luo_hf_tensor *hf;
    const unsigned char *const *from; /* by part */
    luo_file_dtype dtype;
    size_t elem;
    char *to;
} taker;

static void take(void *ctx, int64_t global, int64_t local, int64_t n)
{
    const taker *t = ctx;
    const luo_hf_tensor *tensor = t->hf;
    const int64_t width = tensor->dim[1];
    for (int64_t k; n > 0; n -= k, global += k, local += k) {
        const int64_t row = global / tensor->cols, c = global % tensor->cols;
        if (row >= tensor->rows * tensor->parts) { /* what pads a vocabulary */
            memset(t->to + local * (int64_t)t->elem, 0, (size_t)n * t->elem);
            return;
        }
        const int64_t r = luo_hf_row(tensor, row % tensor->rows);
        const int64_t at = tensor->swapped ? c * width + r : r * width + c;
        k = tensor->cols - c < n ? tensor->cols - c : n;
        luo_tensor_take(t->dtype, t->from[row / tensor->rows] + at * luo_file_dtype_bytes(t->dtype),
                        tensor->swapped ? width : 1, k, t->elem, t->to + local * (int64_t)t->elem);
    }
}

static void print_shape(luo_str *text, int32_t rank, const int64_t *dim)
{
    luo_str_addc(text, '[');
    for (int32_t d = 0; d < rank; d++) {
        if (d) luo_str_add(text, ", ");
        luo_str_addi(text, dim[d]);
    }
    luo_str_addc(text, ']');
}

static luo_status check_tensor(const luo_tensor_file *file, const luo_file_tensor *tensor,
                               const luo_hf_tensor *hf_tensor, luo_err *err)
{
    const int64_t *want = hf_tensor->dim;
    const bool real = tensor->dtype == LUO_FILE_F32 || tensor->dtype == LUO_FILE_F64 ||
                      tensor->dtype == LUO_FILE_F16 || tensor->dtype == LUO_FILE_BF16;
    if (!real)
        return luo_err_set(
            err, LUO_EINPUT, "tensor `%s` of `%s` is %s; F32, F64, F16 or BF16 is expected.",
            tensor->name, luo_tensor_file_path(file, tensor), luo_file_dtype_name(tensor->dtype));
    bool same = tensor->rank == hf_tensor->rank;
    for (int32_t d = 0; same && d < tensor->rank; d++) same = tensor->dim[d] == want[d];
    if (same) return LUO_OK;
    luo_str text = {0};
    print_shape(&text, tensor->rank, tensor->dim);
    luo_str_add(&text, "; the model's is ");
    print_shape(&text, hf_tensor->rank, want);
    const luo_status st =
        luo_err_set(err, LUO_EINPUT, "tensor `%s` of `%s` has shape %s.", tensor->name,
                    luo_tensor_file_path(file, tensor), luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

typedef struct loader {
    luo_arena *arena;
    const luo_model *model;
    const luo_hf_layout *layout;
    const luo_tensor_file *file;
    luo_array which;
    bool *used; /* by tensor of the file */
    luo_err *err;
} loader;

static const luo_file_tensor *find_named(const loader *l, const char *name)
{
    char full[256], other[256];
    snprintf(full, sizeof full, "%s%s", name, luo_array_suffix(l->which));
    const luo_file_tensor *tensor = luo_safetensors_find(&l->file->head, full);
    if (tensor) return tensor;
    return luo_safetensors_find(&l->file->head,
                                luo_hf_other_name(l->layout, full, other, sizeof other));
}

/* A file without a head of its own means that of the embedding. */
static const luo_file_tensor *find_tensor(const loader *l, const luo_param *param, const char *name)
{
    const luo_file_tensor *tensor = find_named(l, name);
    luo_param table = {.name = "wte.weight", .shape = param->shape};
    luo_hf_tensor hf_tensor;
    if (tensor || l->which != LUO_ARRAY_WEIGHT || strcmp(param->name, "lm_head.weight") != 0)
        return tensor;
    return luo_hf_tensor_of(l->layout, l->model, &table, &hf_tensor, NULL) == LUO_OK
               ? find_named(l, hf_tensor.name)
               : NULL;
}

/* The tensors of a parameter, marked as used; all of one dtype. */
static luo_status find_parts(const loader *l, const luo_param *param,
                             const luo_hf_tensor *hf_tensor, const unsigned char **from,
                             luo_file_dtype *dtype)
{
    char name[192];
    for (int64_t part = 0; part < hf_tensor->parts; part++) {
        luo_hf_part_name(hf_tensor, part, name, sizeof name);
        const luo_file_tensor *tensor = find_tensor(l, param, name);
        if (!tensor)
            return luo_err_set(l->err, LUO_EINPUT,
                               "`%s` has no tensor `%s%s`; model `%s` needs it.", l->file->path,
                               name, luo_array_suffix(l->which), l->model->name);
        LUO_TRY(check_tensor(l->file, tensor, hf_tensor, l->err));
        if (part > 0 && tensor->dtype != *dtype)
            return luo_err_set(l->err, LUO_EINPUT,
                               "tensor `%s` of `%s` is %s; that of expert 0 is %s, and one dtype "
                               "is expected.",
                               tensor->name, luo_tensor_file_path(l->file, tensor),
                               luo_file_dtype_name(tensor->dtype), luo_file_dtype_name(*dtype));
        l->used[tensor - l->file->head.at] = true;
        *dtype = tensor->dtype;
        from[part] = luo_tensor_file_at(l->file, tensor);
    }
    return LUO_OK;
}

static luo_status load_piece(const loader *l, const luo_piece *piece, size_t elem)
{
    const luo_frame *frame;
    luo_hf_tensor tensor;
    if (!luo_param_has(piece->param, l->which)) return LUO_OK;
    LUO_TRY(luo_hf_tensor_of(l->layout, l->model, piece->param, &tensor, l->err));
    const unsigned char **from = LUO_NEW_N(l->arena, const unsigned char *, tensor.parts);
    taker k = {&tensor, from, LUO_FILE_F32, elem, luo_piece_array(piece, l->which, &frame)};
    if (!from) return luo_err_nomem(l->err);
    LUO_TRY(find_parts(l, piece->param, &tensor, from, &k.dtype));
    if (k.to) luo_cells_each(&piece->param->shape, &frame->region, NULL, take, &k);
    return LUO_OK;
}

static luo_status check_unused(const loader *l)
{
    for (int32_t i = 0; l->which == LUO_ARRAY_WEIGHT && i < l->file->head.n; i++) {
        const luo_file_tensor *tensor = &l->file->head.at[i];
        const char *name = tensor->name;
        if (l->used[i] || luo_hf_not_a_weight(l->layout, l->model, name)) continue;
        return luo_err_set(l->err, LUO_EINPUT,
                           "tensor `%.80s` of `%s` has no place in model `%s`; a file of that "
                           "model is expected.",
                           name, luo_tensor_file_path(l->file, tensor), l->model->name);
    }
    return LUO_OK;
}

/* All experts of a layer in one tensor, and latent attention whose shared keys are a tensor of
 * their own: no published file has these names. */
static luo_status check_older(const luo_tensor_file *file, luo_err *err)
{
    static const char *const names[] = {".mlp.experts.gate_proj.weight",
                                        ".self_attn.k_shared_proj.weight"};
    for (int32_t i = 0; i < file->head.n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            char what[256];
            const char *name = file->head.at[i].name;
            if (!strstr(name, names[k])) continue;
            snprintf(what, sizeof what, "`%.80s` has `%.80s`", file->path, name);
            return luo_checkpoint_older(what, err);
        }
    return LUO_OK;
}

luo_status luo_state_fill(const luo_state *state, const luo_model *model,
                          const luo_tensor_file *file, luo_array which, luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    loader l = {.arena = arena, .model = model, .file = file, .which = which, .err = err};
    l.used = arena ? LUO_NEW_N(arena, bool, file->head.n) : NULL;
    luo_status st = l.used ? check_older(file, err) : luo_err_nomem(err);
    if (st == LUO_OK) st = luo_hf_config(model, model->dtype, NULL, &l.layout, err);
    for (int32_t i = 0; st == LUO_OK && i < state->n; i++)
        st = load_piece(&l, &state->at[i], state->elem);
    if (st == LUO_OK) st = check_unused(&l);
    luo_arena_free(arena);
    return st;
}

bool luo_state_decays(const luo_param *param)
{
    const char *suffix = strrchr(param->name, '.');
    return suffix && strcmp(suffix, ".weight") == 0 && !strstr(param->name, "norm");
}

/* A folder as it is published. Owner: arena. */
static luo_status file_of(luo_arena *arena, const char *path, const char **out, luo_err *err)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
    struct stat info;
    *out = path;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return LUO_OK;
    for (int i = 0; i < 2; i++) {
        *out = luo_arena_printf(arena, "%s/%s", path, names[i]);
        if (!*out) return luo_err_nomem(err);
        if (access(*out, F_OK) == 0) return LUO_OK;
    }
    return luo_err_set(err, LUO_EINPUT, "`%s` has no `%s` and no `%s`; one of them is expected.",
                       path, names[0], names[1]);
}

luo_status luo_state_load_weights(luo_state *state, const luo_model *model, const char *path,
                                  luo_share share, luo_err *err)
{
    luo_tensor_file file;
    luo_arena *arena = luo_arena_new(0);
    if (!arena) return luo_err_nomem(err);
    luo_status st = file_of(arena, path, &path, err);
    if (st == LUO_OK) st = luo_tensor_file_open(arena, path, &file, err);
    if (st == LUO_OK) {
        st = luo_tensor_file_verify(&file, share, err);
        if (st == LUO_OK) st = luo_state_fill(state, model, &file, LUO_ARRAY_WEIGHT, err);
        luo_tensor_file_close(&file);
    }
    luo_arena_free(arena);
    for (int32_t i = 0; st == LUO_OK && i < state->n; i++)
        luo_piece_zero_moments(state, &state->at[i]);
    return st;
}
