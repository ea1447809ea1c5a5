#include "exec/data/data.h"

#include "exec/data/data_internal.h"

#define SYNTHETIC_TOKENS (INT64_C(1) << 40) /* no run comes round */

luo_status luo_corpus_open(const char *path, int64_t vocab, uint64_t seed, luo_corpus **out,
                           luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    luo_corpus *corpus = arena ? LUO_NEW(arena, luo_corpus) : NULL;
    luo_status st = LUO_OK;
    if (corpus) {
        *corpus = (luo_corpus){
            .arena = arena, .seed = seed, .vocab = vocab, .tokens = path ? 0 : SYNTHETIC_TOKENS};
        corpus->name = luo_arena_strdup(arena, path ? path : "synthetic");
    }
    if (!corpus || !corpus->name) st = luo_err_nomem(err);
    if (st == LUO_OK && path) st = luo_corpus_map(corpus, path, err);
    if (st == LUO_OK) {
        *out = corpus;
        return LUO_OK;
    }
    if (corpus) luo_corpus_unmap(corpus);
    luo_arena_free(arena);
    return st;
}

void luo_corpus_close(luo_corpus *corpus)
{
    if (!corpus) return;
    luo_corpus_unmap(corpus);
    luo_arena_free(corpus->arena);
}

const char *luo_corpus_name(const luo_corpus *corpus)
{
    return corpus->name;
}
