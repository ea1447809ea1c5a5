/* pattern.h: roles without their numbers. What a device does with micro-batches of other lengths
 * differs in nothing but sizes, bytes, flops and who its slots are: such roles follow one pattern,
 * which is emitted once and bound to the numbers of each.
 *
 * A pattern says which operations a role has, in which order, what they wait for and which buffers
 * they use. Roles follow one if they are of pipelines with the same stages, have equally many
 * lengths, hold the same tensors (empty or not), take the same part in every Reshard, and issue the
 * same calls of buckets in the same order and lanes. That is compared, never taken from a hash.
 */
#ifndef LUO_CORE_GRAPH_SPECIALIZE_PATTERN_H
#define LUO_CORE_GRAPH_SPECIALIZE_PATTERN_H
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef struct luo_patterns luo_patterns;

/* For luo_patterns_open: a pattern of 8,000 instructions has 2 MiB. */
enum { LUO_PATTERN_BYTES = 48 << 20 };

/* An empty set, for compilations of one plan that differ in the lengths of micro-batches and in how
 * many there are (luo_compile_opts.patterns).
 * Eviction: what has no room within `bytes` is not kept, and a compilation that finds the set full,
 * or of another graph, begins with an empty one. Not for two compilations at once.
 * Errors: LUO_ENOMEM. Owner: arena; what is kept has memory of its own, up to luo_patterns_free.
 * Cost of a role: a copy of the pattern and the costs of its instructions (docs/speed.md).
 * See: tests/prop/prop_pattern.c */
luo_status luo_patterns_open(luo_arena *arena, size_t bytes, luo_patterns **out, luo_err *err);
void luo_patterns_free(luo_patterns *patterns); /* NULL is fine */
/* What is kept goes; the set may be used again. NULL is fine. */
void luo_patterns_forget(luo_patterns *patterns);
size_t luo_patterns_bytes(const luo_patterns *patterns); /* kept; of NULL 0 */
/* Roles that were emitted so far, and those that were bound to a pattern. */
void luo_patterns_count(const luo_patterns *patterns, int64_t *emitted, int64_t *bound);
#endif
