/* state_save.c: every rank packs the cells that it counts, with the box they come from; the
 * writer puts them where the file has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/bind/cells.h"
#include "exec/bind/owned.h"
#include "exec/state/state_internal.h"

/* In front of the cells of a box, row-major. */
typedef struct packed_box {
    int64_t param; /* index in luo_state.at */
    int64_t lo[LUO_RANK_MAX], hi[LUO_RANK_MAX];
} packed_box;

typedef struct item { /* a part of a parameter and the tensor of the file that holds it */
    luo_hf_tensor hf; /* its name is that of the part */
    int32_t param;
    int64_t part;
} item;

typedef struct saver {
    const luo_state *s;
    const luo_gather *gather;
    luo_arena *arena; /* lists */
    item *at;         /* n, by name of the tensor, then by parameter */
    int32_t n;
    luo_tensor_writer file;
    char *tensor; /* being put together */
    size_t cap;
    luo_status st; /* of the first thing that failed here */
    bool parted;   /* it was a gather */
    luo_err *err;
} saver;

/* ---- tensors of the file ---- */

static int by_name(const void *a, const void *b)
{
    const item *x = a, *y = b;
    const int c = strcmp(x->hf.name, y->hf.name);
    return c ? c : x->param - y->param;
}

static luo_status count_items(saver *v, const luo_hf_layout *layout, const luo_model *model,
                              int32_t *n)
{
    luo_hf_tensor hf;
    int64_t count = 0;
    for (int32_t i = 0; i < v->s->n; i++) {
        LUO_TRY(luo_hf_tensor_of(layout, model, v->s->at[i].param, &hf, v->err));
        count += hf.parts;
    }
    *n = (int32_t)count;
    return count <= INT32_MAX ? LUO_OK : luo_err_nomem(v->err);
}

static luo_status list_items(saver *v, const luo_model *model)
{
    const luo_hf_layout *layout;
    luo_hf_tensor hf;
    int32_t n;
    LUO_TRY(luo_hf_config(model, model->dtype, NULL, &layout, v->err));
    LUO_TRY(count_items(v, layout, model, &n));
    v->at = LUO_NEW_N(v->arena, item, n > 0 ? n : 1);
    if (!v->at) return luo_err_nomem(v->err);
    for (int32_t i = 0; i < v->s->n; i++) {
        LUO_TRY(luo_hf_tensor_of(layout, model, v->s->at[i].param, &hf, v->err));
        for (int64_t part = 0; part < hf.parts; part++) {
            item *it = &v->at[v->n++];
            *it = (item){hf, i, part};
            luo_hf_part_name(&hf, part, it->hf.name, sizeof it->hf.name);
        }
    }
    qsort(v->at, (size_t)v->n, sizeof *v->at, by_name);
    return LUO_OK;
}

/* Items from first on that share its tensor. */
static int32_t group_of(const saver *v, int32_t first)
{
    int32_t n = 1;
    while (first + n < v->n && strcmp(v->at[first].hf.name, v->at[first + n].hf.name) == 0) n++;
    return n;
}

static luo_status open_file(saver *v, const char *path, const luo_array *which, int32_t n)
{
    int32_t count = 0;
    luo_file_tensor *tensor = LUO_NEW_N(v->arena, luo_file_tensor, (int64_t)n * v->n);
    if (!tensor) return luo_err_nomem(v->err);
    for (int32_t i = 0; i < v->n; i += group_of(v, i))
        for (int32_t k = 0; k < n; k++) {
            if (!luo_param_has(v->s->at[v->at[i].param].param, which[k])) continue;
            const luo_hf_tensor *hf_tensor = &v->at[i].hf;
            const luo_file_dtype dtype = v->s->elem == 4 ? LUO_FILE_F32 : LUO_FILE_F64;
            tensor[count] =
                (luo_file_tensor){.name = luo_arena_printf(v->arena, "%s%s", hf_tensor->name,
                                                           luo_array_suffix(which[k])),
                                  .dtype = dtype,
                                  .rank = hf_tensor->rank,
                                  .dim = {hf_tensor->dim[0], hf_tensor->dim[1]}};
            if (!tensor[count++].name) return luo_err_nomem(v->err);
        }
    return luo_tensor_writer_open(&v->file, path, tensor, count, v->err);
}

/* ---- packing ---- */

typedef struct packer {
    const luo_state *s;
    luo_array which;
    int32_t param;
    bool parted; /* only rows of this part, the first dimension: */
    int64_t part;
    int64_t rows; /* else only so many of it: what pads a vocabulary is left out */
    luo_str out;
} packer;

static void pack_run(void *ctx, int64_t global, int64_t local, int64_t n)
{
    packer *p = ctx;
    const luo_frame *frame;
    const char *from = luo_piece_array(&p->s->at[p->param], p->which, &frame);
    (void)global;
    luo_str_addn(&p->out, from + local * (int64_t)p->s->elem, (size_t)n * p->s->elem);
}

static void pack_box(void *ctx, const int64_t *lo, const int64_t *hi)
{
    packer *p = ctx;
    const luo_frame *frame;
    const luo_piece *piece = &p->s->at[p->param];
    const luo_shape *shape = &piece->param->shape;
    packed_box head = {.param = p->param};
    for (int32_t d = 0; d < shape->rank; d++) {
        head.lo[d] = lo[d];
        head.hi[d] = hi[d];
    }
    if (p->parted) {
        if (p->part < lo[0] || p->part >= hi[0]) return;
        head.lo[0] = p->part;
        head.hi[0] = p->part + 1;
    } else if (head.hi[0] > p->rows) {
        if (head.lo[0] >= p->rows) return;
        head.hi[0] = p->rows;
    }
    luo_piece_array(piece, p->which, &frame);
    luo_str_addn(&p->out, (const char *)&head, sizeof head);
    luo_cells_box(shape, &frame->region, head.lo, head.hi, pack_run, p);
    while (!p->out.failed && p->out.len % sizeof(int64_t)) luo_str_addc(&p->out, 0);
}

static luo_status pack_piece(luo_arena *scratch, packer *p, luo_err *err)
{
    const luo_piece *piece = &p->s->at[p->param];
    const luo_frame *frame;
    const luo_region *box;
    int32_t n;
    LUO_TRY(luo_owned_boxes(scratch, piece->param->state, &piece->param->shape, p->s->device, &box,
                            &n, err));
    for (int32_t i = 0; i < n; i++) {
        if (!luo_piece_array(piece, p->which, &frame) ||
            !luo_region_contains(&frame->region, &box[i]))
            return luo_err_set(err, LUO_EBUG, "device %d does not keep its part of `%s`.",
                               (int)p->s->device, piece->param->name);
        luo_region_each_box(&box[i], pack_box, p);
    }
    return p->out.failed ? luo_err_nomem(err) : LUO_OK;
}

/* ---- putting together ---- */

typedef struct putter {
    const luo_hf_tensor *hf;
    size_t elem;
    const char *from;
    char *to;
} putter;

static void put_run(void *ctx, int64_t global, int64_t local, int64_t n)
{
    const putter *p = ctx;
    const luo_hf_tensor *tensor = p->hf;
    const int64_t elem = (int64_t)p->elem, width = tensor->dim[1];
    const char *from = p->from + local * elem;
    for (int64_t k; n > 0; n -= k, global += k, from += k * elem) {
        const int64_t r = luo_hf_row(tensor, global / tensor->cols % tensor->rows),
                      c = global % tensor->cols;
        k = tensor->cols - c < n ? tensor->cols - c : n;
        if (!tensor->swapped) memcpy(p->to + (r * width + c) * elem, from, (size_t)(k * elem));
        for (int64_t i = 0; tensor->swapped && i < k; i++)
            memcpy(p->to + ((c + i) * width + r) * elem, from + i * elem, p->elem);
    }
}

/* Cells of the box; 0: there is no such box. */
static int64_t volume_of(const packed_box *box, const luo_shape *shape)
{
    int64_t n = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (box->lo[d] < 0 || box->hi[d] > shape->dim[d] || box->lo[d] >= box->hi[d]) return 0;
        n *= box->hi[d] - box->lo[d];
    }
    return n;
}

static void put_box(saver *v, const item *it, const packed_box *box, const char *cells)
{
    const luo_shape *shape = &v->s->at[box->param].param->shape;
    luo_span span[LUO_RANK_MAX];
    luo_region region = {.rank = shape->rank};
    putter p = {&it->hf, v->s->elem, cells, v->tensor};
    for (int32_t d = 0; d < shape->rank; d++) {
        span[d] = (luo_span){box->lo[d], box->hi[d]};
        region.dim[d].n = 1;
        region.dim[d].at = &span[d];
    }
    luo_cells_box(shape, &region, box->lo, box->hi, put_run, &p);
}

/* One rank's message; adds its cells to *cells. */
static luo_status put_message(saver *v, const item *items, int32_t n, const char *at, int64_t left,
                              int64_t *cells)
{
    while (left > 0) {
        packed_box box;
        int32_t i = 0;
        if (left < (int64_t)sizeof box) break;
        memcpy(&box, at, sizeof box);
        at += sizeof box;
        left -= (int64_t)sizeof box;
        while (i < n && items[i].param != box.param) i++;
        const int64_t volume = i < n ? volume_of(&box, &v->s->at[box.param].param->shape) : 0;
        const int64_t bytes = (volume * (int64_t)v->s->elem + 7) / 8 * 8;
        if (volume == 0 || bytes > left) break;
        put_box(v, &items[i], &box, at);
        at += bytes;
        left -= bytes;
        *cells += volume;
    }
    if (left == 0) return LUO_OK;
    return luo_err_set(v->err, LUO_EBUG, "a rank sent cells that `%s` does not have.",
                       items[0].hf.name);
}

static luo_status put_tensor(saver *v, const item *items, int32_t n, const void *const *parts,
                             const int64_t *sizes, int32_t ranks)
{
    const luo_hf_tensor *tensor = &items[0].hf;
    const int64_t all = tensor->dim[0] * tensor->dim[1];
    const size_t bytes = (size_t)all * v->s->elem;
    int64_t cells = 0;
    if (bytes > v->cap) {
        char *more = realloc(v->tensor, bytes);
        if (!more) return luo_err_nomem(v->err);
        v->tensor = more;
        v->cap = bytes;
    }
    for (int32_t r = 0; r < ranks; r++)
        LUO_TRY(put_message(v, items, n, parts[r], sizes[r], &cells));
    if (cells != all)
        return luo_err_set(v->err, LUO_EBUG,
                           "%lld of the %lld cells of `%s` arrived; each is expected once.",
                           (long long)cells, (long long)all, tensor->name);
    return luo_tensor_writer_put(&v->file, v->tensor, bytes, v->err);
}

/* ---- all of it ---- */

/* Of the first dimension of ours, those that are in the file. */
static int64_t file_rows(const luo_hf_tensor *hf, const luo_shape *shape)
{
    const bool table = shape->rank == 2 && hf->parts == 1;
    return shape->rank == 0 ? 1 : table && hf->rows < shape->dim[0] ? hf->rows : shape->dim[0];
}

static luo_status pack(saver *v, const item *items, int32_t n, packer *p)
{
    luo_arena *scratch = luo_arena_new(0);
    luo_status st = scratch ? LUO_OK : luo_err_nomem(v->err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++) {
        p->param = items[i].param;
        p->part = items[i].part;
        p->parted = items[i].hf.parts > 1;
        p->rows = file_rows(&items[i].hf, &v->s->at[p->param].param->shape);
        st = pack_piece(scratch, p, v->err);
    }
    luo_arena_free(scratch);
    return st;
}

/* Once something has failed here nothing is done but to gather, so that no rank waits for another;
 * and v->err keeps what failed first. */
static luo_status save_one(saver *v, const item *items, int32_t n, luo_array which)
{
    const void *const *parts;
    const int64_t *sizes;
    int32_t ranks;
    luo_err second;
    packer p = {.s = v->s, .which = which};
    if (v->st == LUO_OK) v->st = pack(v, items, n, &p);
    const luo_status st = v->gather->bytes(v->gather->ctx, luo_str_get(&p.out),
                                           v->st == LUO_OK ? (int64_t)p.out.len : 0, &parts, &sizes,
                                           &ranks, v->st == LUO_OK ? v->err : &second);
    if (v->st == LUO_OK) v->st = st;
    v->parted = st != LUO_OK;
    if (v->st == LUO_OK && v->gather->writer) v->st = put_tensor(v, items, n, parts, sizes, ranks);
    luo_str_free(&p.out);
    return st; /* without this gather there is no next one */
}

static void save_all(saver *v, const char *path, const luo_array *which, int32_t n)
{
    luo_status st = LUO_OK;
    if (v->gather->writer) v->st = open_file(v, path, which, n);
    for (int32_t i = 0, k; st == LUO_OK && i < v->n; i += k) {
        k = group_of(v, i);
        for (int32_t a = 0; st == LUO_OK && a < n; a++)
            if (luo_param_has(v->s->at[v->at[i].param].param, which[a]))
                st = save_one(v, &v->at[i], k, which[a]);
    }
    const bool good = v->st == LUO_OK;
    st = luo_tensor_writer_close(&v->file, good, v->err);
    if (good) v->st = st;
}

luo_status luo_state_save(const luo_state *state, const luo_model *model, const char *path,
                          const luo_array *which, int32_t n, const luo_gather *gather, bool *parted,
                          luo_err *err)
{
    saver v = {
        .s = state, .gather = gather, .arena = luo_arena_new(0), .file.file.fd = -1, .err = err};
    v.st = v.arena ? list_items(&v, model) : luo_err_nomem(err);
    if (v.st == LUO_OK) save_all(&v, path, which, n);
    *parted = v.parted;
    free(v.tensor);
    luo_arena_free(v.arena);
    return v.st;
}

luo_status luo_state_save_weights(const luo_state *state, const luo_model *model, const char *path,
                                  const luo_gather *gather, luo_err *err)
{
    static const luo_array weights[] = {LUO_ARRAY_WEIGHT};
    bool parted;
    return luo_state_save(state, model, path, weights, 1, gather, &parted, err);
}
