/* coord_dump.c: --dump-batches: what every step was trained on, as JSON lines. A step that is
 * done again has the same batch and is not written again. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/io/files.h"
#include "exec/coordinator/coord.h"
#include "exec/data/batch.h"

luo_status luo_coord_dump_open(luo_backend_state *backend, luo_err *err)
{
    const luo_exec_options *options = backend->options;
    if (!options->dump_batches) return LUO_OK;
    LUO_TRY(luo_corpus_open(options->data, backend->config.model->vocab, backend->config.seed,
                            &backend->corpus, err));
    backend->dump = open(options->dump_batches, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return backend->dump >= 0 ? LUO_OK : luo_io_err(err, "write", options->dump_batches);
}

static luo_status write_all(const luo_backend_state *backend, const char *at, size_t n,
                            luo_err *err)
{
    return luo_file_put(backend->dump, at, n)
               ? LUO_OK
               : luo_io_err(err, "write", backend->options->dump_batches);
}

static bool is_dumped(const luo_backend_state *backend, const luo_step_request *request)
{
    return request->step < backend->dumped ||
           (request->step == backend->dumped && request->part.index < backend->dumped_parts);
}

static luo_status shape_of(luo_arena *arena, const luo_backend_state *backend,
                           const luo_step_request *request, luo_batch_shape *out, luo_err *err)
{
    const luo_recipe *recipe = request->recipe;
    LUO_TRY(luo_batch_shape_of(arena, recipe->plan, backend->config.model->causal,
                               recipe->sequence_tokens, out, err));
    return luo_batch_place(arena, out, request->part.length, request->part.nsequences, err);
}

luo_status luo_coord_dump(luo_backend_state *backend, const luo_step_request *request, luo_err *err)
{
    luo_batch_shape shape;
    luo_str text = {0};
    if (backend->dump < 0 || is_dumped(backend, request)) return LUO_OK;
    luo_arena *arena = luo_arena_new(0);
    if (!arena) return luo_err_nomem(err);
    luo_status st = shape_of(arena, backend, request, &shape, err);
    if (st == LUO_OK) st = luo_batch_dump(backend->corpus, &shape, request->step, &text);
    if (st == LUO_OK && text.failed) st = luo_err_nomem(err);
    if (st == LUO_OK) st = write_all(backend, luo_str_get(&text), text.len, err);
    if (st == LUO_OK) {
        const bool last = luo_step_part_is_last(&request->part);
        backend->dumped = request->step + last;
        backend->dumped_parts = last ? 0 : request->part.index + 1;
    }
    luo_str_free(&text);
    luo_arena_free(arena);
    return st;
}

void luo_coord_dump_close(luo_backend_state *backend)
{
    if (backend->dump >= 0) close(backend->dump);
    if (backend->corpus) luo_corpus_close(backend->corpus);
    backend->dump = -1;
    backend->corpus = NULL;
}
