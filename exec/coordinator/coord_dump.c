/* coord_dump.c: --dump-batches: what every step was trained on, as JSON lines. A step that is
 * done again has the same batch and is not written again. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/io/files.h"
#include "exec/coordinator/coord.h"

luo_status luo_coord_dump_open(luo_backend_state *b, luo_err *err)
{
    const luo_exec_options *o = b->options;
    if (!o->dump_batches) return LUO_OK;
    LUO_TRY(luo_corpus_open(o->data, b->config.model->vocab, b->config.seed, &b->corpus, err));
    b->dump = open(o->dump_batches, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return b->dump >= 0 ? LUO_OK : luo_err_io(err, "write", o->dump_batches);
}

static luo_status write_all(const luo_backend_state *b, const char *at, size_t n, luo_err *err)
{
    while (n > 0) {
        const ssize_t did = write(b->dump, at, n);
        if (did < 0 && errno == EINTR) continue;
        if (did < 0) return luo_err_io(err, "write", b->options->dump_batches);
        at += did;
        n -= (size_t)did;
    }
    return LUO_OK;
}

luo_status luo_coord_dump(luo_backend_state *b, const luo_recipe *recipe, int64_t step,
                          luo_err *err)
{
    luo_batch_shape shape;
    luo_str text = {0};
    if (b->dump < 0 || step < b->dumped) return LUO_OK;
    luo_arena *arena = luo_arena_new(0);
    if (!arena) return luo_err_nomem(err);
    luo_status st = luo_batch_shape_of(arena, recipe->plan, b->config.model->causal,
                                       recipe->sequence_tokens, &shape, err);
    if (st == LUO_OK) st = luo_batch_dump(b->corpus, &shape, step, &text);
    if (st == LUO_OK && text.failed) st = luo_err_nomem(err);
    if (st == LUO_OK) st = write_all(b, luo_str_get(&text), text.len, err);
    if (st == LUO_OK) b->dumped = step + 1;
    luo_str_free(&text);
    luo_arena_free(arena);
    return st;
}

void luo_coord_dump_close(luo_backend_state *b)
{
    if (b->dump >= 0) close(b->dump);
    if (b->corpus) luo_corpus_close(b->corpus);
    b->dump = -1;
    b->corpus = NULL;
}
