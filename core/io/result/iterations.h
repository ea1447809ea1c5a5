/* iterations.h: rows of iterations.csv and groups.csv, of runs with a scenario and without one. */
#ifndef LUO_CORE_IO_RESULT_ITERATIONS_H
#define LUO_CORE_IO_RESULT_ITERATIONS_H
#include "core/io/result/table.h"
#include "core/sync/loop.h"

/* Pre: the table of that name is open. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_iterations_put(luo_table *table, const luo_loop_row *row, luo_err *err);
luo_status luo_iterations_put_group(luo_table *table, int64_t id, const luo_preduce_group *group,
                                    luo_err *err);
#endif
