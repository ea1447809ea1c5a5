/* data.h: training data: which tokens a micro-batch of a step holds.
 *
 * The global batch of a step is a list of sequences (rows) in an order that depends on the data,
 * the seed and the step, never on the plan: a plan only says which rows a micro-batch takes, in
 * (pipeline, micro-batch) order. Documents are packed into rows with their true lengths; a document
 * that does not end in a row goes on in the next as one of its own.
 *
 * The corpus is one ring of N tokens. Row i of it is tokens i * row_tokens .. of the ring; a tail
 * shorter than a row is left out. An epoch is every row once, in an order that the seed and the
 * epoch give; step s takes the next rows of that endless list, as many as the step has. A
 * micro-batch that is no multiple of row_tokens reads on through the ring instead, in step and then
 * global order; documents in it are cut at row_tokens.
 *
 * Where a plan assigns sequences one by one, each of them is a document of as many tokens as it
 * has: in the order of their numbers they read on through the ring, past the ends of its documents,
 * since lengths are the plan's affair there. So a sequence holds the same tokens wherever it is
 * packed.
 */
#ifndef LUO_EXEC_DATA_DATA_H
#define LUO_EXEC_DATA_DATA_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef struct luo_corpus luo_corpus;

/* path: a text file (bytes are tokens, documents end after empty lines), or a token file whose name
 * ends in .u16 or .u32 (little endian; the largest value ends a document and is no token). NULL:
 * synthetic tokens drawn from stream `data` of the seed, lengths and repetitions such that a model
 * can learn from them; labelled synthetic. The file is mapped, not read, and must not change.
 * Errors: LUO_EINPUT missing, empty, odd size, a text with vocab below 256, or a token that is not
 * below vocab (with its position); LUO_ENOMEM. luo_corpus_close frees (NULL is fine).
 * Cost: one pass over a token file, and 8 bytes of memory per 1,024 of its entries; O(1) else. */
luo_status luo_corpus_open(const char *path, int64_t vocab, uint64_t seed, luo_corpus **out,
                           luo_err *err);
void luo_corpus_close(luo_corpus *corpus);
const char *luo_corpus_name(const luo_corpus *corpus); /* path, or "synthetic" */
#endif
