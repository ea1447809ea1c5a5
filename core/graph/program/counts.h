/* counts.h: the lists of elements per rank (luo_slot.counts) of a program set, each
 * once. All members of a group have the same list, so a list per slot would be quadratic. */
#ifndef LUO_CORE_GRAPH_PROGRAM_COUNTS_H
#define LUO_CORE_GRAPH_PROGRAM_COUNTS_H
#include "core/base/hash.h"
#include "core/graph/program/program.h"

typedef struct luo_count_list {
    const int64_t *at;
    int32_t n;
} luo_count_list;

typedef struct luo_counts {
    int32_t n, room;
    luo_count_list *list; /* in the order in which slots have them first */
    luo_map by_place, by_value;
} luo_counts; /* {0}: none */

/* Errors: LUO_ENOMEM; give it back all the same. Owner: the lists are the set's.
 * Cost: O(slots + elements of the lists). */
luo_status luo_counts_of(const luo_programs *set, luo_counts *out, luo_err *err);
/* Of a slot of that set with counts. */
int32_t luo_counts_id(const luo_counts *counts, const luo_programs *set, const luo_slot *slot);
void luo_counts_free(luo_counts *counts);
#endif
