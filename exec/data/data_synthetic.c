/* data_synthetic.c: tokens that are drawn, in blocks, so that any place is reached at once.
 *
 * A document is one phrase said again and again, with some letters wrong; a phrase is a walk in
 * which a letter has three successors. So there is something to learn at three depths: which ids
 * exist, which follows which, and to look back in the document. */
#include <stdio.h>

#include "exec/data/data_internal.h"

enum { LETTERS = 256, SUCCESSORS = 3, PHRASE_LEAST = 3, WRONG_ONE_IN = 16, LENGTHS = 6 };

/* Letters are spread over the vocabulary, so that every piece of a cut one is used. */
static int32_t id_of(const luo_corpus *corpus, int64_t letter)
{
    const int64_t letters = corpus->vocab < LETTERS ? corpus->vocab : LETTERS;
    return (int32_t)(letter * corpus->vocab / letters);
}

static int64_t any_letter(luo_rng *rng, int64_t letters)
{
    return luo_rng_pick(rng, letters);
}

/* From 16 to 1,023 tokens, short ones as often as long ones by powers of two. */
static int64_t draw_length(luo_rng *rng, int64_t room)
{
    const int64_t least = INT64_C(16) << luo_rng_pick(rng, LENGTHS);
    const int64_t n = least + luo_rng_pick(rng, least);
    return n < room ? n : room;
}

static void draw_document(luo_corpus_at *corpus_at, int64_t room)
{
    luo_rng *rng = &corpus_at->drawn.rng;
    const int64_t letters = corpus_at->c->vocab < LETTERS ? corpus_at->c->vocab : LETTERS;
    int64_t letter = any_letter(rng, letters);
    corpus_at->drawn.left = draw_length(rng, room);
    corpus_at->drawn.n =
        PHRASE_LEAST + (int32_t)luo_rng_pick(rng, LUO_CORPUS_PHRASE - PHRASE_LEAST + 1);
    corpus_at->drawn.next = 0;
    for (int32_t i = 0; i < corpus_at->drawn.n; i++) {
        corpus_at->drawn.phrase[i] = id_of(corpus_at->c, letter);
        letter = (5 * letter + 1 + luo_rng_pick(rng, SUCCESSORS)) % letters;
    }
}

static void open_block(luo_corpus_at *corpus_at)
{
    char name[40];
    snprintf(name, sizeof name, "data#%lld", (long long)(corpus_at->at / LUO_CORPUS_BLOCK));
    corpus_at->drawn.rng = luo_rng_stream(corpus_at->c->seed, name);
    corpus_at->drawn.left = 0;
}

int32_t luo_synthetic_next(luo_corpus_at *corpus_at, bool *begins)
{
    const int64_t within = corpus_at->at % LUO_CORPUS_BLOCK;
    if (within == 0) open_block(corpus_at);
    *begins = corpus_at->drawn.left == 0;
    if (*begins) draw_document(corpus_at, LUO_CORPUS_BLOCK - within);
    int32_t id = corpus_at->drawn.phrase[corpus_at->drawn.next];
    if (luo_rng_pick(&corpus_at->drawn.rng, WRONG_ONE_IN) == 0) {
        const int64_t letters = corpus_at->c->vocab < LETTERS ? corpus_at->c->vocab : LETTERS;
        id = id_of(corpus_at->c, any_letter(&corpus_at->drawn.rng, letters));
    }
    corpus_at->drawn.next = (corpus_at->drawn.next + 1) % corpus_at->drawn.n;
    corpus_at->drawn.left--;
    corpus_at->at = corpus_at->at + 1 < corpus_at->c->tokens ? corpus_at->at + 1 : 0;
    return id;
}

void luo_synthetic_seek(luo_corpus_at *corpus_at)
{
    bool begins;
    int64_t skip = corpus_at->at % LUO_CORPUS_BLOCK;
    corpus_at->at -= skip;
    while (skip--) luo_synthetic_next(corpus_at, &begins);
}
