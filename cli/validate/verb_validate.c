/* verb_validate.c: `luoshu validate SUITE|all --data DIR`. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/finish.h"
#include "cli/run/progress.h"
#include "cli/validate/validate_collectives.h"
#include "core/base/vec.h"
#include "core/io/files.h"
#include "core/io/result/resultset.h"

typedef enum luo_leave { LUO_LEAVE_NONE, LUO_LEAVE_SOURCE, LUO_LEAVE_GPU } luo_leave;

typedef struct job {
    luo_cli *cli;
    const char *data, *want;
    luo_suite rows;
    luo_layer_times layers;
    luo_kit kit;
    luo_case *cases;
    luo_score *scores;
    luo_validation v;
    int folds; /* --cross; 0: none */
    luo_leave leave;
    luo_collectives nccl;
} job;

static luo_status read_one(job *j, const char *dir, const char *name)
{
    const char *path = luo_arena_printf(j->cli->arena, "%s/%s", dir, name);
    if (!path) return luo_cli_error(j->cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    return luo_read_suite(j->cli->arena, path, &j->rows, &j->cli->diags);
}

/* vtrain-multi is a part of the file vtrain.csv. */
static bool file_of(const char *want, const char *file)
{
    const size_t n = strlen(file) - 4;
    return strcmp(want, "all") == 0 ||
           (strncmp(want, file, n) == 0 && (want[n] == 0 || want[n] == '-'));
}

/* Rows of tables in DIR/micro, not in DIR/suites. */
static bool only_collectives(const job *j)
{
    return strcmp(j->want, "collectives") == 0;
}

static luo_status read_files(job *j, luo_err *err)
{
    const char *dir = luo_arena_printf(j->cli->arena, "%s/suites", j->data), **names = NULL;
    luo_str all = {0};
    int32_t n = 0, found = 0;
    if (!dir) return luo_err_nomem(err);
    if (only_collectives(j)) return LUO_OK;
    LUO_TRY(luo_validate_files(j->cli->arena, dir, &names, &n, err));
    for (int32_t i = 0; i < n; i++) {
        luo_str_addf(&all, " %.*s", (int)strlen(names[i]) - 4, names[i]);
        found += file_of(j->want, names[i]);
        if (!file_of(j->want, names[i]) && j->leave == LUO_LEAVE_NONE) continue;
        const luo_status st = read_one(j, dir, names[i]);
        if (st != LUO_OK) {
            luo_str_free(&all);
            return st;
        }
    }
    luo_status st = LUO_OK;
    if (found == 0)
        st = luo_err_set(err, LUO_EINPUT, "`%s` is no suite of %s; there are:%s.", j->want, dir,
                         luo_str_get(&all));
    luo_str_free(&all);
    return st;
}

/* Times of layers, where the folder has them: rows of several GPU types go by them. */
static luo_status read_layers(job *j, luo_err *err)
{
    const char *path =
        luo_arena_printf(j->cli->arena, "%s/micro/sailor_layer_profiles.csv", j->data);
    if (!path) return luo_err_nomem(err);
    if (access(path, R_OK) != 0) return LUO_OK;
    return luo_read_layer_times(j->cli->arena, path, &j->layers, &j->cli->diags);
}

/* ---- cases ---- */

static bool wanted(const job *j, const luo_suite_row *row)
{
    if (row->split == LUO_SPLIT_DROP) return false;
    return strcmp(j->want, "all") == 0 || strcmp(j->want, row->suite) == 0 ||
           strcmp(j->want, luo_validate_part(row)) == 0;
}

/* A row that cannot be said at all, or makes no sense, stays in the table with its reason: it must
 * not keep the others from being scored. */
static luo_status make_case(job *j, const luo_suite_row *row, luo_kit *kit, luo_case *one,
                            luo_err *err)
{
    luo_err why = {0};
    const luo_status st = luo_case_make(j->cli->arena, row, &kit->as, one, &why);
    if (st == LUO_OK) return st;
    if (st != LUO_EUNSUP && st != LUO_EINPUT) {
        *err = why;
        return st;
    }
    const size_t n = strlen(row->id); /* "ID: " stands before the reason */
    const bool named = strncmp(why.text, row->id, n) == 0 && strncmp(why.text + n, ": ", 2) == 0;
    *one = (luo_case){.row = row,
                      .refused = st,
                      .assumed = luo_arena_strdup(j->cli->arena, why.text + (named ? n + 2 : 0))};
    return one->assumed ? LUO_OK : luo_err_nomem(err);
}

static void take_case(job *j, const luo_case *one, int fold)
{
    luo_validation *validation = &j->v;
    j->cases[validation->n] = *one;
    validation->at[validation->n] = (luo_scored){.c = &j->cases[validation->n],
                                                 .s = &j->scores[validation->n],
                                                 .suite = luo_validate_part(one->row),
                                                 .fold = fold};
    validation->n++;
}

static luo_status make_cases(job *j, luo_err *err)
{
    for (int32_t i = 0; i < j->rows.n; i++) {
        luo_case one;
        if (!wanted(j, &j->rows.at[i])) continue;
        LUO_TRY(make_case(j, &j->rows.at[i], &j->kit, &one, err));
        take_case(j, &one, -1);
    }
    return LUO_OK;
}

/* ---- --cross ---- */

static bool in_cross(const job *j, int32_t i)
{
    return wanted(j, &j->rows.at[i]) && j->rows.at[i].split == LUO_SPLIT_CAL;
}

/* Of a row: its number among the calibration rows of its suite. */
static int fold_of(const job *j, int32_t i)
{
    int32_t before = 0;
    for (int32_t k = 0; k < i; k++)
        before += j->rows.at[k].split == LUO_SPLIT_CAL &&
                  strcmp(j->rows.at[k].suite, j->rows.at[i].suite) == 0;
    return before % j->folds;
}

/* Rows that share constants with row `first`: fitted without fold k, which is then taken. */
static luo_status cross_fold(job *j, int32_t first, int k, luo_err *err)
{
    luo_kit kit;
    luo_fitted fitted;
    int32_t n = 0, nfit = 0;
    luo_case *one = LUO_NEW_N(j->cli->arena, luo_case, j->rows.n);
    const luo_case **fit = LUO_NEW_N(j->cli->arena, const luo_case *, j->rows.n);
    if (!one || !fit) return luo_err_nomem(err);
    luo_kit_open(j->cli, j->kit.folder, &j->layers, false, &kit);
    for (int32_t i = first; i < j->rows.n; i++) {
        const luo_suite_row *row = &j->rows.at[i];
        if (!in_cross(j, i) || !luo_validate_together(&j->rows.at[first], row)) continue;
        LUO_TRY(make_case(j, row, &kit, &one[n], err));
        if (fold_of(j, i) == k)
            take_case(j, &one[n], k);
        else if (one[n].cluster && strcmp(row->precision, "fp8") != 0)
            fit[nfit++] = &one[n];
        n++;
    }
    const luo_suite_recipe *recipe = luo_suite_recipe_of(j->rows.at[first].suite);
    return nfit ? luo_kit_fit(&kit, fit, nfit, recipe, NULL, 0, &fitted, err) : LUO_OK;
}

static luo_status cross_cases(job *j, luo_err *err)
{
    for (int32_t i = 0; i < j->rows.n; i++) {
        bool seen = !in_cross(j, i);
        for (int32_t k = 0; k < i && !seen; k++)
            seen = in_cross(j, k) && luo_validate_together(&j->rows.at[k], &j->rows.at[i]);
        for (int k = 0; !seen && k < j->folds; k++) LUO_TRY(cross_fold(j, i, k, err));
    }
    return LUO_OK;
}

/* ---- --leave ---- */

static const char *left_by(const job *j, const luo_suite_row *row)
{
    return j->leave == LUO_LEAVE_GPU ? row->gpu : row->suite;
}

/* Rows of row `first`'s source or GPU type, by constants that were fitted on all other rows. */
static luo_status leave_one(job *j, int32_t first, luo_err *err)
{
    luo_kit kit;
    luo_suite_effects_result pooled;
    int32_t nfit = 0, nleft = 0;
    const char *name = left_by(j, &j->rows.at[first]);
    luo_case *one = LUO_NEW_N(j->cli->arena, luo_case, j->rows.n);
    const luo_case **fit = LUO_NEW_N(j->cli->arena, const luo_case *, j->rows.n);
    const luo_case **left = LUO_NEW_N(j->cli->arena, const luo_case *, j->rows.n);
    if (!one || !fit || !left) return luo_err_nomem(err);
    luo_kit_open(j->cli, j->kit.folder, &j->layers, true, &kit);
    for (int32_t i = 0; i < j->rows.n; i++) {
        const luo_suite_row *row = &j->rows.at[i];
        if (row->split == LUO_SPLIT_DROP) continue;
        LUO_TRY(make_case(j, row, &kit, &one[i], err));
        if (strcmp(left_by(j, row), name) == 0)
            left[nleft++] = &one[i];
        else if (row->split == LUO_SPLIT_CAL)
            fit[nfit++] = &one[i];
    }
    if (nfit == 0)
        return luo_err_set(err, LUO_EINPUT, "`--leave` has nothing to fit on: all calibration rows "
                           "are of `%s`.", name);
    LUO_TRY(luo_kit_pool(&kit, fit, nfit, left, nleft, &pooled, err));
    for (int32_t i = 0; i < nleft; i++) {
        if (!wanted(j, left[i]->row)) continue;
        take_case(j, left[i], -1);
        luo_scored *scored = &j->v.at[j->v.n - 1];
        scored->spread = pooled.left_spread[i] > 0 ? pooled.left_spread[i] : 0;
    }
    return LUO_OK;
}

static luo_status leave_cases(job *j, luo_err *err)
{
    for (int32_t i = 0; i < j->rows.n; i++) {
        bool seen = !wanted(j, &j->rows.at[i]);
        for (int32_t k = 0; k < i && !seen; k++)
            seen = wanted(j, &j->rows.at[k]) &&
                   strcmp(left_by(j, &j->rows.at[k]), left_by(j, &j->rows.at[i])) == 0;
        if (!seen) LUO_TRY(leave_one(j, i, err));
    }
    return LUO_OK;
}

/* They are predicted already, and come behind the steps. */
static void take_collectives(job *j)
{
    for (int32_t i = 0; i < j->nccl.n; i++)
        if (j->nccl.cases[i].row->split != LUO_SPLIT_DROP)
            j->v.at[j->v.n++] = (luo_scored){.c = &j->nccl.cases[i], .s = &j->nccl.scores[i],
                                             .suite = "collectives", .fold = j->nccl.fold[i]};
}

static luo_status make_all(job *j, luo_err *err)
{
    if ((strcmp(j->want, "all") == 0 || only_collectives(j)) && j->leave == LUO_LEAVE_NONE)
        LUO_TRY(luo_collectives_read(j->cli, j->data, j->folds, &j->nccl, err));
    j->cases = LUO_NEW_N(j->cli->arena, luo_case, j->rows.n + 1);
    j->scores = LUO_NEW_N(j->cli->arena, luo_score, j->rows.n + 1);
    j->v.at = LUO_NEW_N(j->cli->arena, luo_scored, j->rows.n + j->nccl.n + 1);
    if (!j->cases || !j->scores || !j->v.at) return luo_err_nomem(err);
    if (j->leave != LUO_LEAVE_NONE) return leave_cases(j, err);
    return j->folds ? cross_cases(j, err) : make_cases(j, err);
}

static luo_status check_rows(const job *j, luo_err *err)
{
    for (int32_t i = 0; i < j->v.n; i++)
        if (luo_validation_counts(&j->v, &j->v.at[i])) return LUO_OK;
    for (int32_t i = 0; i < j->nccl.n; i++)
        if (j->nccl.cases[i].row->split ==
            (j->v.rows == LUO_ROWS_VAL ? LUO_SPLIT_VAL : LUO_SPLIT_CAL))
            return LUO_OK;
    if (j->v.n == 0 && j->nccl.n == 0)
        return luo_err_set(err, LUO_EINPUT, "there is no row of `%s`; nothing can be predicted.",
                           j->want);
    if (j->v.rows != LUO_ROWS_VAL)
        return luo_err_set(err, LUO_EINPUT, "there is no calibration row of `%s`.", j->want);
    return luo_err_set(err, LUO_EINPUT, "%s holds calibration rows only; there is nothing to "
                       "validate.", j->rows.n == 0 || strcmp(j->want, "all") == 0 ? j->data
                                                                     : j->rows.at[0].file);
}

/* ---- the verb ---- */

static luo_status read_options(job *j, luo_err *err)
{
    static const char *const bar[] = {"normal", "strict"}, *const rows[] = {"val", "cal"},
                      *const leave[] = {"none", "source", "gpu"};
    const luo_args *args = &j->cli->args;
    int strict = 0, which = 0, left = 0;
    int64_t folds;
    j->data = luo_args_get(args, "data", NULL);
    j->want = args->files[0];
    if (!j->data)
        return luo_err_set(err, LUO_EUSAGE, "`--data` is missing; give the folder with the "
                           "published measurements, which are not part of this program.");
    LUO_TRY(luo_args_choice(args, "bar", 0, bar, 2, &strict, err));
    LUO_TRY(luo_args_choice(args, "rows", 0, rows, 2, &which, err));
    LUO_TRY(luo_args_int(args, "cross", 0, 2, 1000, &folds, err));
    LUO_TRY(luo_args_choice(args, "leave", 0, leave, 3, &left, err));
    if (left && (folds || luo_args_has(args, "rows")))
        return luo_err_set(err, LUO_EUSAGE, "`--leave` takes all rows of what it leaves out; leave "
                           "out `--%s`.", folds ? "cross" : "rows");
    j->leave = (luo_leave)left;
    if (folds && luo_args_has(args, "rows"))
        return luo_err_set(err, LUO_EUSAGE, "`--cross` takes the calibration rows; leave out "
                           "`--rows`.");
    j->folds = (int)folds;
    j->v = (luo_validation){.cli = j->cli,
                            .strict = strict == 1,
                            .closed_only = luo_args_has(args, "closed"),
                            .rows = left         ? LUO_ROWS_LEFT
                                    : folds        ? LUO_ROWS_CROSS
                                    : which == 1 ? LUO_ROWS_CAL
                                                 : LUO_ROWS_VAL};
    return LUO_OK;
}

static luo_status predict_rows(job *j, luo_err *err)
{
    const double start = luo_cli_wall_s();
    LUO_TRY(luo_score_cases(j->cli, j->cases, j->v.n, j->v.closed_only, j->scores, err));
    j->v.elapsed_s = luo_cli_wall_s() - start;
    take_collectives(j);
    LUO_TRY(luo_validation_sum(&j->v, err));
    return luo_validation_sense(&j->v, err);
}

static luo_status write_all(job *j, const char *dir, luo_err *err)
{
    luo_set set;
    LUO_TRY(luo_set_open(&set, dir, luo_args_has(&j->cli->args, "force"), err));
    luo_status st = luo_validation_write(&j->v, dir, err);
    luo_set_close(&set, false, NULL);
    const luo_plot_opts figures = {.dir = dir};
    int32_t drawn;
    if (st == LUO_OK) st = luo_cli_draw_compared(j->cli, &figures, "Published steps", &drawn);
    return st;
}

/* Below every bar? Only rows that no constant was fitted on have one. */
static luo_status verdict(const job *j)
{
    for (int32_t i = 0; i < j->v.nsuites; i++)
        if (j->v.rows == LUO_ROWS_VAL && j->v.suites[i].broken[j->v.strict]) return LUO_ENO;
    return LUO_OK;
}

static luo_status validate(job *j, luo_err *err)
{
    const char *out = luo_args_get(&j->cli->args, "out", NULL);
    LUO_TRY(read_options(j, err));
    luo_kit_open(j->cli, luo_args_get(&j->cli->args, "profile-dir", NULL), &j->layers,
                 false, &j->kit);
    LUO_TRY(read_files(j, err));
    LUO_TRY(read_layers(j, err));
    LUO_TRY(make_all(j, err));
    LUO_TRY(check_rows(j, err));
    LUO_TRY(predict_rows(j, err));
    luo_validation_print(&j->v);
    luo_validation_json(&j->v);
    if (out) LUO_TRY(write_all(j, out, err));
    return verdict(j);
}

luo_status luo_verb_validate_run(luo_cli *cli)
{
    luo_err err = {0};
    job j = {.cli = cli};
    LUO_TRY(luo_cli_files(cli, 1, 1, "one suite, or all, is"));
    const luo_status st = validate(&j, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
