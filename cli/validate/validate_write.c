/* validate_write.c: validate.csv, and the tables of the figures. */
#include <math.h>
#include <stdio.h>

#include "cli/validate/validate.h"
#include "core/io/files.h"
#include "core/io/read/input_tables.h"
#include "core/io/result/table.h"

static void put_number(luo_table *table, int32_t column, double v, bool there)
{
    luo_table_num(table, column, there ? v : NAN);
}

static void put_parts(luo_table *table, const luo_score *score)
{
    const bool there = score->simulated == LUO_OK;
    const luo_parts *parts = &score->parts;
    const double part[] = {parts->compute_s, parts->recompute_s, parts->tp_s, parts->ep_s,
                           parts->cp_s,      parts->pp_s,        parts->dp_s, parts->bubble_s};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        put_number(table, LUO_COL_VALIDATE_compute_s + (int32_t)i, part[i], there);
}

static const char *role_of(const luo_validation *validation, const luo_scored *scored)
{
    if (scored->c->row->split == LUO_SPLIT_VAL) return luo_row_role_name(LUO_ROLE_VALIDATION);
    return validation->rows == LUO_ROWS_CROSS ? "cross" : luo_row_role_name(LUO_ROLE_CALIBRATION);
}

static const char *by_what(const luo_validation *validation, const luo_scored *scored)
{
    if (!(scored->predicted_s > 0)) return "none";
    return !validation->closed_only && scored->s->simulated == LUO_OK ? "sim" : "closed";
}

static luo_status put_row(luo_table *table, const luo_validation *validation,
                          const luo_scored *scored, luo_err *err)
{
    const luo_suite_row *row = scored->c->row;
    const bool both = scored->predicted_s > 0 && scored->measured_s > 0;
    luo_table_text(table, LUO_COL_VALIDATE_suite, scored->suite);
    luo_table_text(table, LUO_COL_VALIDATE_id, row->id);
    luo_table_text(table, LUO_COL_VALIDATE_role, role_of(validation, scored));
    luo_table_text(table, LUO_COL_VALIDATE_system, row->system);
    luo_table_text(table, LUO_COL_VALIDATE_gpu, row->gpu);
    luo_table_int(table, LUO_COL_VALIDATE_gpus, row->gpus);
    luo_table_text(table, LUO_COL_VALIDATE_step_kind, luo_step_kind_name(row->kind));
    luo_table_text(table, LUO_COL_VALIDATE_by, by_what(validation, scored));
    put_number(table, LUO_COL_VALIDATE_measured_s, scored->measured_s, scored->measured_s > 0);
    put_number(table, LUO_COL_VALIDATE_predicted_s, scored->predicted_s, scored->predicted_s > 0);
    put_number(table, LUO_COL_VALIDATE_error_ratio,
               both ? scored->predicted_s / scored->measured_s - 1 : 0, both);
    put_number(table, LUO_COL_VALIDATE_simulated_s, scored->s->step_s,
               scored->s->simulated == LUO_OK);
    put_number(table, LUO_COL_VALIDATE_closed_s, scored->s->closed_s, scored->s->closed == LUO_OK);
    put_number(table, LUO_COL_VALIDATE_naive_s, scored->naive_s, scored->naive_s > 0);
    put_parts(table, scored->s);
    luo_table_int_opt(table, LUO_COL_VALIDATE_memory_measured_bytes,
                      row->mem_bytes > 0 ? (int64_t)row->mem_bytes : -1);
    luo_table_int_opt(table, LUO_COL_VALIDATE_memory_predicted_bytes,
                      scored->s->memory == LUO_OK ? (int64_t)scored->s->memory_bytes : -1);
    luo_table_text(table, LUO_COL_VALIDATE_fits,
                   scored->s->memory != LUO_OK ? ""
                   : scored->s->over           ? "no"
                                               : "yes");
    luo_table_int_opt(table, LUO_COL_VALIDATE_fold, scored->fold);
    if (*scored->s->why)
        luo_table_text(table, LUO_COL_VALIDATE_assumed, scored->s->why);
    else
        luo_table_text(table, LUO_COL_VALIDATE_assumed, scored->c->assumed);
    return luo_table_end(table, err);
}

static luo_status write_rows(const luo_validation *validation, const char *dir, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_VALIDATE), err);
    for (int32_t i = 0; i < validation->n && st == LUO_OK; i++)
        if (validation->rows != LUO_ROWS_CROSS ||
            luo_validation_counts(validation, &validation->at[i]))
            st = put_row(&table, validation, &validation->at[i], err);
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static luo_status write_points(const luo_validation *validation, const char *dir, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_PLOT_PREDICTED), err);
    for (int32_t i = 0; i < validation->n && st == LUO_OK; i++) {
        const luo_scored *scored = &validation->at[i];
        if (!(scored->predicted_s > 0) || !(scored->measured_s > 0)) continue;
        luo_table_text(&table, LUO_COL_PLOT_PREDICTED_suite, scored->suite);
        luo_table_text(&table, LUO_COL_PLOT_PREDICTED_case, scored->c->row->id);
        luo_table_text(&table, LUO_COL_PLOT_PREDICTED_role,
                       luo_row_role_name(scored->c->row->split == LUO_SPLIT_VAL
                                         ? LUO_ROLE_VALIDATION
                                         : LUO_ROLE_CALIBRATION));
        luo_table_num(&table, LUO_COL_PLOT_PREDICTED_measured_s, scored->measured_s);
        luo_table_num(&table, LUO_COL_PLOT_PREDICTED_predicted_s, scored->predicted_s);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

luo_status luo_validation_write(const luo_validation *validation, const char *dir, luo_err *err)
{
    char plots[4096];
    if (snprintf(plots, sizeof plots, "%s/plots", dir) >= (int)sizeof plots)
        return luo_err_set(err, LUO_EIO, "the path of `%s` is too long; give a shorter --out.",
                           dir);
    LUO_TRY(luo_file_make_own_dir(plots, err));
    LUO_TRY(write_rows(validation, dir, err));
    return write_points(validation, plots, err);
}
