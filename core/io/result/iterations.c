#include "core/io/result/iterations.h"

luo_status luo_iterations_put(luo_table *table, const luo_loop_row *row, luo_err *err)
{
    luo_table_int(table, LUO_COL_ITERATIONS_worker, row->worker);
    luo_table_int(table, LUO_COL_ITERATIONS_iteration, row->iteration);
    luo_table_num(table, LUO_COL_ITERATIONS_start_s, row->start_s);
    luo_table_num(table, LUO_COL_ITERATIONS_end_s, row->end_s);
    luo_table_num(table, LUO_COL_ITERATIONS_wait_s, row->wait_s);
    luo_table_int_opt(table, LUO_COL_ITERATIONS_group, row->group);
    luo_table_num(table, LUO_COL_ITERATIONS_compute_s, row->compute_s);
    return luo_table_end(table, err);
}

luo_status luo_iterations_put_group(luo_table *table, int64_t id, const luo_preduce_group *group,
                                    luo_err *err)
{
    luo_str members = {0};
    for (int32_t i = 0; i < group->n; i++) {
        if (i > 0) luo_str_addc(&members, ' ');
        luo_str_addi(&members, group->member[i]);
    }
    if (members.failed) return luo_err_nomem(err);
    luo_table_int(table, LUO_COL_GROUPS_group, id);
    luo_table_num(table, LUO_COL_GROUPS_t_s, group->t_s);
    luo_table_text(table, LUO_COL_GROUPS_members, luo_str_get(&members));
    luo_table_int(table, LUO_COL_GROUPS_guard, group->guard);
    luo_str_free(&members);
    return luo_table_end(table, err);
}
