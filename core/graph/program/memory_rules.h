/* memory_rules.h: what a software stack holds beside or instead of what a program says.
 *
 * A program is exact for our own executors, which lay every buffer out beforehand. Other systems
 * run the same steps with other kernels and an allocator, so they keep tensors that ours do not,
 * or do without some. All zero: as the program says.
 */
#ifndef LUO_CORE_GRAPH_PROGRAM_MEMORY_RULES_H
#define LUO_CORE_GRAPH_PROGRAM_MEMORY_RULES_H
#include "core/graph/program/program.h"

/* Bytes of every buffer of the role under set->memory: out[role->nbuf]. Scores of unfused attention
 * are added to its row statistics (not where selective recompute drops them), masks of dropout to
 * the norms, the copy of the logits to their exponentials; silu(gate) and the input of the second
 * norm may be 0.
 * Cost: O(buffers + instructions). See: tests/unit/check_memory.c. */
void luo_memory_bytes(const luo_programs *set, const luo_role *role, int64_t *out);
/* Bytes that instruction instr needs beside its buffers while it runs: scores made again by
 * selective recompute, the gradient of the head's matrix that no one reads. */
int64_t luo_memory_beside(const luo_programs *set, const luo_role *role, const luo_instr *instr);
/* Bytes that the call of a bucket packs, and those that it receives beside them; 0 where its pieces
 * lie one behind the other. The calls of a lane share one place, since they are made one after the
 * other. turn: of luo_role_order. */
int64_t luo_memory_packed(const luo_programs *set, const luo_program *program, const int32_t *turn,
                          const luo_instr *instr);
/* Gradients without content: one for each matrix of the largest layer, made once, kept for good. */
int64_t luo_memory_dummies(const luo_programs *set, const luo_role *role);
/* State of a device as the stack holds it. In, out: gradients, optimizer. */
void luo_memory_held(const luo_memory_rules *rules, int64_t weight_bytes, int64_t *gradients,
                     int64_t *optimizer);
/* Sets communicators, allocated, peak and needed from the bytes of all tensors at the peak and the
 * number of communicators. */
void luo_memory_total(const luo_memory_rules *rules, int64_t tensors, int32_t communicators,
                      luo_memory *memory);
/* Appends ", communicators 1.5" (GiB) to the parts of a sentence, where they take memory. */
void luo_memory_say_communicators(const luo_memory *memory, luo_str *text);
/* Bytes of one score of unfused attention that backward needs: the softmax; with dropout also what
 * it left and its mask. */
int64_t luo_memory_score_bytes(const luo_memory_rules *rules, int64_t elem_bytes);
#endif
