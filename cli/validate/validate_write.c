/* validate_write.c: validate.csv, and the tables of the figures. */
#include <math.h>
#include <stdio.h>

#include "cli/validate/validate.h"
#include "core/io/files.h"
#include "core/io/result/table.h"

static void put_number(luo_table *t, int32_t column, double v, bool there)
{
    luo_table_num(t, column, there ? v : NAN);
}

static void put_parts(luo_table *t, const luo_score *s)
{
    const bool there = s->simulated == LUO_OK;
    const luo_parts *p = &s->parts;
    const double part[] = {p->compute_s, p->recompute_s, p->tp_s, p->ep_s,
                           p->cp_s,      p->pp_s,        p->dp_s, p->bubble_s};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        put_number(t, LUO_COL_VALIDATE_compute_s + (int32_t)i, part[i], there);
}

static const char *role_of(const luo_validation *v, const luo_scored *s)
{
    if (s->c->row->split == LUO_SPLIT_VAL) return "validation";
    return v->rows == LUO_ROWS_CROSS ? "cross" : "calibration";
}

static const char *by_what(const luo_validation *v, const luo_scored *s)
{
    if (!(s->predicted_s > 0)) return "none";
    return !v->closed_only && s->s->simulated == LUO_OK ? "sim" : "closed";
}

static luo_status put_row(luo_table *t, const luo_validation *v, const luo_scored *s, luo_err *err)
{
    static const char *const kinds[] = {"measured",    "from_tflops96", "from_tflops72",
                                        "from_tokens", "oom",           "mfu_only"};
    const luo_suite_row *r = s->c->row;
    const bool both = s->predicted_s > 0 && s->measured_s > 0;
    luo_table_text(t, LUO_COL_VALIDATE_suite, s->suite);
    luo_table_text(t, LUO_COL_VALIDATE_id, r->id);
    luo_table_text(t, LUO_COL_VALIDATE_role, role_of(v, s));
    luo_table_text(t, LUO_COL_VALIDATE_system, r->system);
    luo_table_text(t, LUO_COL_VALIDATE_gpu, r->gpu);
    luo_table_int(t, LUO_COL_VALIDATE_gpus, r->gpus);
    luo_table_text(t, LUO_COL_VALIDATE_step_kind, kinds[r->kind]);
    luo_table_text(t, LUO_COL_VALIDATE_by, by_what(v, s));
    put_number(t, LUO_COL_VALIDATE_measured_s, s->measured_s, s->measured_s > 0);
    put_number(t, LUO_COL_VALIDATE_predicted_s, s->predicted_s, s->predicted_s > 0);
    put_number(t, LUO_COL_VALIDATE_error_ratio, both ? s->predicted_s / s->measured_s - 1 : 0,
               both);
    put_number(t, LUO_COL_VALIDATE_simulated_s, s->s->step_s, s->s->simulated == LUO_OK);
    put_number(t, LUO_COL_VALIDATE_closed_s, s->s->closed_s, s->s->closed == LUO_OK);
    put_number(t, LUO_COL_VALIDATE_naive_s, s->naive_s, s->naive_s > 0);
    put_parts(t, s->s);
    luo_table_int_opt(t, LUO_COL_VALIDATE_memory_measured_bytes,
                      r->mem_bytes > 0 ? (int64_t)r->mem_bytes : -1);
    luo_table_int_opt(t, LUO_COL_VALIDATE_memory_predicted_bytes,
                      s->s->memory == LUO_OK ? (int64_t)s->s->memory_bytes : -1);
    luo_table_text(t, LUO_COL_VALIDATE_fits,
                   s->s->memory != LUO_OK ? ""
                   : s->s->over           ? "no"
                                          : "yes");
    luo_table_int_opt(t, LUO_COL_VALIDATE_fold, s->fold);
    if (*s->s->why)
        luo_table_text(t, LUO_COL_VALIDATE_assumed, s->s->why);
    else
        luo_table_text(t, LUO_COL_VALIDATE_assumed, s->c->assumed);
    return luo_table_end(t, err);
}

static luo_status write_rows(const luo_validation *v, const char *dir, luo_err *err)
{
    luo_table t;
    luo_status st = luo_table_open(&t, dir, luo_table_def_at(LUO_TABLE_VALIDATE), err);
    for (int32_t i = 0; i < v->n && st == LUO_OK; i++)
        if (v->rows != LUO_ROWS_CROSS || luo_validation_counts(v, &v->at[i]))
            st = put_row(&t, v, &v->at[i], err);
    const luo_status closed = luo_table_close(&t, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static luo_status write_points(const luo_validation *v, const char *dir, luo_err *err)
{
    luo_table t;
    luo_status st = luo_table_open(&t, dir, luo_table_def_at(LUO_TABLE_PLOT_PREDICTED), err);
    for (int32_t i = 0; i < v->n && st == LUO_OK; i++) {
        const luo_scored *s = &v->at[i];
        if (!(s->predicted_s > 0) || !(s->measured_s > 0)) continue;
        luo_table_text(&t, LUO_COL_PLOT_PREDICTED_suite, s->suite);
        luo_table_text(&t, LUO_COL_PLOT_PREDICTED_case, s->c->row->id);
        luo_table_text(&t, LUO_COL_PLOT_PREDICTED_role,
                       s->c->row->split == LUO_SPLIT_VAL ? "validation" : "calibration");
        luo_table_num(&t, LUO_COL_PLOT_PREDICTED_measured_s, s->measured_s);
        luo_table_num(&t, LUO_COL_PLOT_PREDICTED_predicted_s, s->predicted_s);
        st = luo_table_end(&t, err);
    }
    const luo_status closed = luo_table_close(&t, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

luo_status luo_validation_write(const luo_validation *v, const char *dir, luo_err *err)
{
    char plots[4096];
    if (snprintf(plots, sizeof plots, "%s/plots", dir) >= (int)sizeof plots)
        return luo_err_set(err, LUO_EIO, "the path of `%s` is too long; give a shorter --out.",
                           dir);
    LUO_TRY(luo_dir_make(plots, err));
    LUO_TRY(write_rows(v, dir, err));
    return write_points(v, plots, err);
}
